"""
The mean of an expensive function
=================================

Estimate the mean of an expensive function from few points, by kernel herding and quadrature.

A simulator takes hours for one scenario of twelve components that work or fail. A model of their
joint failures is known. Random scenarios waste most runs on frequent cases; scenarios selected by
their exact MMD to the model, with optimal weights, need far fewer.
"""

import matplotlib.pyplot as plt
import numpy as np

import expectedkernels as ek

MACHINES = 12
RUNS = (5, 10, 20, 40, 80)


def plant():
    """Servers in a row: each is more often down if the one before it is."""
    start = ([0], [0.9, 0.1])
    links = [([v, v + 1], [[0.93, 0.07], [0.55, 0.45]]) for v in range(MACHINES - 1)]
    return ek.FactorGraph([2] * MACHINES, [start, *links]).circuit()


def loss(X):
    """What a scenario costs: the simulator, which is expensive to run."""
    down = X.sum(axis=1)
    return down + 2.0 * np.sqrt(down) * (X[:, 3] + X[:, 7]) + 4.0 * (down >= 4)


# %%
# This simulator is fast, so the exact mean and the errors of both methods are known.

p = plant()
every = np.indices((2,) * MACHINES).reshape(MACHINES, -1).T
exact = np.exp(p.log_likelihood(every)) @ loss(every)
print(f"exact mean of {len(every)} scenarios: {exact:.4f}\n")

drawn, chosen = [], []
print(f"{'runs':>5}{'error, drawn':>15}{'error, chosen':>15}{'MMD, chosen':>14}")
for n in RUNS:
    tries = [loss(p.sample(n, rng=seed)).mean() - exact for seed in range(100)]
    points = ek.herd(p, n, weights="quadrature", rng=0)
    drawn.append(np.sqrt(np.mean(np.square(tries))))
    chosen.append(abs(points.expect(loss) - exact))
    print(f"{n:5d}{drawn[-1]:15.4f}{chosen[-1]:15.4f}{points.mmd:14.4f}")

# %%
# Five selected scenarios are worth ten to twenty random ones, and eighty far more.

figure, ax = plt.subplots()
ax.loglog(RUNS, drawn, "o-", label="drawn")
ax.loglog(RUNS, chosen, "s-", label="chosen and weighted")
ax.set_xlabel("runs of the simulator")
ax.set_ylabel("error of the mean")
ax.legend()
plt.show()
