"""
Black-box importance sampling
=============================

Correct samples from a wrong proposal towards an unnormalised target by importance weights.

Sixteen villages on a map, some of them flooded: neighbours are mostly in the same state, and some
lie higher than others. Unweighted uniform maps estimate that every village is flooded half of the
time, and a short Gibbs chain has visited few maps. Weights that minimise the Stein discrepancy of
the samples bring the marginals closer to the exact ones; marginalising half of the villages exactly
reduces the error further.
"""

import matplotlib.pyplot as plt
import numpy as np

import expectedkernels as ek

SIDE = 4
N = 200


def flood_map():
    """A grid of villages A1, A2, ... whose neighbours are mostly in the same state."""
    rng = np.random.default_rng(3)
    names = [f"{letter}{digit}" for letter in "ABCD" for digit in range(1, SIDE + 1)]
    number = np.arange(SIDE**2).reshape(SIDE, SIDE)
    across = np.stack([number[:, :-1], number[:, 1:]], axis=-1).reshape(-1, 2)
    down = np.stack([number[:-1], number[1:]], axis=-1).reshape(-1, 2)
    alike = np.exp([[0.4, -0.4], [-0.4, 0.4]])
    factors = [ek.Factor(pair, alike) for pair in (*across.tolist(), *down.tolist())]
    factors += [ek.Factor([v], np.exp([0.0, rng.normal(-0.3, 1.0)])) for v in range(SIDE**2)]
    states = [["dry", "flooded"]] * SIDE**2
    return ek.FactorGraph([2] * SIDE**2, factors, names, states)


def flooded(samples):
    """The probability of the second state of every variable."""
    return np.array([table[1] for table in samples.marginals()])


# %%
# The model is small enough to be compiled, so exact marginals are known. Samples are uniform, or
# from a Gibbs chain without thinning.

model = flood_map()
circuit = model.circuit()
exact = flooded(circuit)
proposals = [
    np.random.default_rng(0).integers(2, size=(N, model.n_variables)),
    ek.gibbs(model, N, rng=0),
]

# %%
# Marginalise the villages on the white squares of a chess board: no two of them are neighbours.

white = [name for name in model.names if ("ABCD".index(name[0]) + int(name[1])) % 2]
estimates = {"plain average": [flooded(ek.WeightedSamples(model, X)) for X in proposals]}
for rule in ("default", "raw", "signed"):
    estimates[f"bbis, {rule}"] = [flooded(ek.bbis(model, X, weights=rule)) for X in proposals]
for rule in ("default", "raw", "signed"):
    estimates[f"collapsed_bbis, {rule}"] = [
        flooded(ek.collapsed_bbis(model, X, white, weights=rule)) for X in proposals
    ]
print(f"Mean error of P(flooded), {model.n_variables} villages, {N} samples\n")
print(f"{'':28}{'uniform maps':>14}{'Gibbs chain':>14}")
for what, found in estimates.items():
    errors = [np.abs(marginals - exact).mean() for marginals in found]
    print(f"{what:28}{errors[0]:14.3f}{errors[1]:14.3f}")

# %%
# How the default rule weighted the uniform maps.

print(ek.bbis(model, proposals[0]).decision)

# %%
# Every village, estimated from the uniform maps: exact estimates lie on the diagonal.

figure, ax = plt.subplots(figsize=(5.5, 5), layout="constrained")
ax.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
for what, mark in [
    ("plain average", "x"),
    ("bbis, default", "^"),
    ("collapsed_bbis, default", "o"),
]:
    ax.plot(exact, estimates[what][0], mark, label=what)
ax.set_xlabel("probability of a flood, exact")
ax.set_ylabel("estimated from 200 uniform maps")
ax.legend()
plt.show()
