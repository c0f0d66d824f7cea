"""
Has my chain converged?
=======================

Test samples against their unnormalised target by a Stein discrepancy, without exact results.

Three Gibbs chains of a grid: one without thinning, one that is thinned, and one with a bug that
omits a factor of the model. The discrepancy measures the distance of the samples from the target,
and a test compares it with that of samples from the target.
"""

import matplotlib.pyplot as plt

import expectedkernels as ek

N = 500

target = ek.ising_grid(3, 3, rng=4)
mistaken = ek.FactorGraph(target.cardinalities, target.factors[1:])  # a lost edge
kernel = ek.ExpHamming()
chains = {
    "every update": ek.gibbs(target, N, rng=0),
    "thinned": ek.gibbs(target, N, burn_in=1000, thin=200, rng=0),
    "thinned, a factor lost": ek.gibbs(mistaken, N, burn_in=1000, thin=200, rng=0),
}

# %%
# A small p-value means that samples from the target would rarely have such a large discrepancy.

tests = {name: ek.kdsd_test(X, target, kernel, rng=0) for name, X in chains.items()}
print(f"{'chain':26}{'KDSD':>10}{'p-value':>10}   drawn from the target?")
for name, X in chains.items():
    p_value = tests[name].p_value
    verdict = "no" if p_value < 0.01 else "nothing speaks against it"
    print(f"{name:26}{ek.kdsd(X, target, kernel):10.3f}{p_value:10.3f}   {verdict}")

# %%
# Successive samples of the first chain are dependent. The wild bootstrap (``change``) accounts for
# this, and tests whether the stationary distribution is the target.

careful = ek.kdsd_test(chains["every update"], target, kernel, change=0.01, rng=0)
print(f"every update, if dependence is allowed for: p-value {careful.p_value:.3f}")

# %%
# This model is small enough to be compiled, so the discrepancy of the two distributions can be
# computed exactly: it confirms the bug.

p = target.circuit()
q = mistaken.circuit(p.vtree)
print(f"{'the target itself':28}{ek.kdsd(p, p, kernel):z10.3f}")
print(f"{'the model with a factor lost':28}{ek.kdsd(q, p, kernel):z10.3f}")

# %%
# The statistic of each chain (line), and its null distribution (grey).

figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
for ax, (name, test) in zip(axes, tests.items(), strict=True):
    ax.hist(test.null, bins=20, color="lightgrey")
    ax.axvline(test.statistic, color="black")
    ax.set_title(f"{name}: p = {test.p_value:.3f}")
    ax.set_xlabel("statistic")
    ax.locator_params(axis="x", nbins=4)
plt.show()
