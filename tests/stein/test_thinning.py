"""Thinning against the definition."""

import tracemalloc

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_raises, refusals
from oracles import worlds
from stein_oracles import greedy

K = ek.ExpHamming(0.5)
CARDS = [2, 3, 2]


def model(rng=0):
    return ek.random_circuit(ek.Vtree.balanced(3), 3, rng, cardinalities=CARDS)


@pytest.mark.parametrize("operator", ["gibbs", "shift"])
def test_complete_samples(operator):
    p, X = model(), worlds(CARDS)
    wanted = ek.SteinKernel(p, K, operator=operator)(X)
    for rows in (np.arange(12), np.random.default_rng(0).integers(12, size=40)):
        found = ek.stein_thin(p, X[rows], 9, kernel=K, operator=operator)
        assert found.tolist() == greedy(wanted[np.ix_(rows, rows)], 9)


@pytest.mark.parametrize("form", ["set", "mask", "names"])
def test_collapsed_samples(form):
    grid = ek.ising_grid(3, 3, rng=0)
    X = np.random.default_rng(1).integers(2, size=(30, 9)).astype(float)
    hidden = [1, 3, 5, 7]
    collapsed = {"set": hidden, "mask": np.isin(np.arange(9), hidden), "names": None}[form]
    if form == "names":
        X[:, hidden] = np.nan
    rows = X.copy()
    rows[:, hidden] = np.nan
    G = ek.CollapsedSteinKernel(grid.compile()[0], K, operator="gibbs")(rows)
    found = ek.stein_thin(grid, X, 8, kernel=K, collapsed=collapsed)
    assert found.tolist() == greedy(G, 8)


def test_functions_and_chains_of_samples():
    grid = ek.ising_grid(2, 3, rng=0)
    chains = np.stack([ek.gibbs(grid, 20, burn_in=5, rng=rng) for rng in range(2)])
    wanted = ek.stein_thin(grid, chains.reshape(-1, 6), 6).tolist()
    assert ek.stein_thin(grid, chains, 6).tolist() == wanted
    function = ek.Target(grid.log_score, grid.cardinalities)
    assert ek.stein_thin(function, chains, 6).tolist() == wanted


def test_many_samples_need_little_memory():
    grid = ek.ising_grid(4, 4, rng=0)
    X = np.random.default_rng(0).integers(2, size=(20_000, 16)).astype(float)
    tracemalloc.start()
    chosen = ek.stein_thin(grid, X, 3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(chosen) == 3
    assert peak < 20 * X.nbytes  # the Gram matrix would be 1250 times as large


GIVEN = {"target": model(), "samples": [[0, 0, 0]], "m": 2}


test_mistakes_are_told = refusals(None, [
    ({"m": 0}, ek.DataError, "'m' parameter of stein_thin"),
    ({"operator": "both"}, ek.DataError, "'operator' parameter of stein_thin"),
    ({"samples": [[0, 1]]}, ek.DataError, r"shape \(samples, 3\)"),
    ({"samples": model()}, ek.DataError, "Samples of a model are needed"),
], lambda options: ek.stein_thin(**GIVEN | options))  # fmt: skip


def test_functions_cannot_be_collapsed_and_zeros_are_told():
    function, hidden = ek.Target(lambda X: 0.0 * X[:, 0], [2, 2]), [[0, np.nan]]
    assert_raises(ek.PropertyError, "a Target is a function", ek.stein_thin, function, hidden, 1)
    asia = ek.asia()
    X = asia.sample(20, rng=0)
    zeros = "The target has zeros"
    assert_raises(ek.PropertyError, zeros, ek.stein_thin, asia, X, 2, operator="shift")
    with pytest.warns(UserWarning, match=r"2 classes.*collapsed=\[\.\.\.\]"):
        ek.stein_thin(asia, X, 2)
    assert len(ek.stein_thin(asia, X, 2, collapsed=["either"])) == 2
    X[0, asia.names.index("either")] = 1 - X[0, asia.names.index("either")]
    assert_raises(ek.DataError, "The target is zero at row", ek.stein_thin, asia, X, 2)


def test_resampled_rows_follow_their_weights():
    coin = ek.factorized([[0.5, 0.5], [0.2, 0.8]])
    rows, weights = [[0, np.nan], [1, 0], [1, 1]], [0.1, 0.65, 0.25]
    samples = ek.WeightedSamples(coin, rows, weights)
    for rng in range(5):
        drawn = samples.resample(20, rng=rng)
        counts = [np.isnan(drawn.rows[:, 1]).sum(), (drawn.rows[:, 1] == 0).sum()]
        assert np.abs(counts - 20 * np.array([0.1, 0.65])).max() <= 1
        np.testing.assert_allclose(drawn.weights, 0.05)
    means = np.mean([samples.resample(3, rng=rng).marginals()[0][1] for rng in range(3000)])
    np.testing.assert_allclose(means, samples.marginals()[0][1], atol=0.02)
    assert samples.resample(rng=0).n == 3
    signed = ek.WeightedSamples(coin, rows, [0.5, 0.7, -0.2])
    assert_raises(ek.DataError, r"weights here are negative. Use thin\(m\)", signed.resample)
    assert_raises(ek.DataError, "'n' parameter of resample", samples.resample, 0)


def test_weighted_samples_are_thinned_among_those_with_weights():
    grid = ek.ising_grid(3, 3, rng=0)
    samples = ek.cis(grid, 20, 3, rng=0)
    thinned = samples.thin(6)
    rows = samples.rows[np.flatnonzero(samples.weights)]
    np.testing.assert_array_equal(thinned.rows, rows[ek.stein_thin(grid, rows, 6)])
    np.testing.assert_allclose(thinned.weights, 1 / 6)
    assert ek.bbis(grid, grid.sample(10, rng=0)).thin(4).n == 4
