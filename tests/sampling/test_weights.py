"""Weights on the simplex against enumeration of active sets, and what default weights minimise."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import expectedkernels as ek
from assertions import assert_raises
from expectedkernels import DataError, KernelError, SteinKernel, simplex_weights
from expectedkernels.sampling import weights as module
from expectedkernels.sampling.weights import z_score
from oracles import EXACT
from stein_oracles import states_and_masses, stein_like


def test_the_z_score_tells_draws_from_the_target_from_others():
    grid = ek.ising_grid(3, 3, rng=0)
    states, masses = states_and_masses(grid)
    rng = np.random.default_rng(0)
    gibbs = SteinKernel(grid, ek.ExpHamming(), operator="gibbs")
    draws = (rng.choice(512, size=60, p=masses / masses.sum()) for _ in range(30))
    good = [z_score(gibbs(states[i])) for i in draws]
    assert abs(np.mean(good)) < 1.0
    assert np.std(good) < 3.0
    assert z_score(gibbs(states[rng.integers(0, 512, size=60)])) > 6.0
    assert z_score(np.eye(3)) == 0.0


def test_other_methods_agree_with_pivoting(monkeypatch):
    grams = (np.diag([1.0, 2.0, 4.0]), stein_like(50, 80, np.random.default_rng(3), spread=1.0))
    pivoted = [simplex_weights(gram) for gram in grams]
    monkeypatch.setattr(module, "_pivoting", lambda *arguments: None)
    for gram, wanted in zip(grams, pivoted, strict=True):
        found = simplex_weights(gram)
        assert found.method == "non-negative least squares" != wanted.method
        np.testing.assert_allclose(found.discrepancy, wanted.discrepancy, rtol=1e-9)
        np.testing.assert_allclose(found.weights, wanted.weights, atol=1e-7)


def test_a_large_gap_is_not_silent(monkeypatch):
    monkeypatch.setattr(module, "_attempts", lambda *_: iter([(np.full(3, 1 / 3), "a guess")]))
    with pytest.warns(RuntimeWarning, match="relative gap of"):
        found = simplex_weights(np.diag([1.0, 2.0, 3.0]))
    assert not found.solved


def both_grams(target, X):
    kernel = ek.ExpHamming()
    return SteinKernel(target, kernel)(X), SteinKernel(target, kernel, operator="gibbs")(X)


def test_samples_from_elsewhere_minimise_the_discrepancy_of_gibbs_updates():
    grid = ek.ising_grid(3, 3, rng=1)
    X, _ = states_and_masses(grid)
    X = X[np.random.default_rng(0).integers(0, 512, size=150)]
    K, G = both_grams(grid, X)
    found = ek.stein.default_weights(K, G)
    assert (found.rule, found.ridge) == ("gibbs", 0.0)
    best = simplex_weights(G)
    np.testing.assert_array_equal(found.weights, best.weights)
    assert found.discrepancy == pytest.approx(best.discrepancy, rel=1e-12)
    assert found.certificate == best.certificate
    assert found.discrepancy <= found.uniform_discrepancy
    np.testing.assert_allclose(found.ess, 1 / np.sum(found.weights**2))
    assert "do not look like an independent sample" in found.reason


def test_draws_from_the_target_keep_their_weight():
    grid = ek.ising_grid(3, 3, rng=1)
    X, masses = states_and_masses(grid)
    X = X[np.random.default_rng(0).choice(512, size=100, p=masses / masses.sum())]
    K, G = both_grams(grid, X)
    found = ek.stein.default_weights(K, G)
    assert (found.rule, found.ridge) == ("gibbs", 1.0)
    best = simplex_weights(G + np.trace(G) / 100 * np.eye(100))
    np.testing.assert_allclose(found.weights, best.weights, atol=1e-12)
    assert simplex_weights(G).ess < found.ess
    assert "100 samples look like an independent sample" in found.reason
    _, label = np.unique(X, axis=0, return_inverse=True)
    label = label.ravel()
    assert len(np.unique(label)) < 100
    for state in np.unique(label):
        np.testing.assert_allclose(np.ptp(found.weights[label == state]), 0.0, atol=1e-10)
    again = ek.stein.default_weights(K, G, groups=label)
    np.testing.assert_allclose(again.weights, found.weights, atol=1e-10)
    largest = 2.0 ** (1023 - np.frexp(np.abs(G).max())[1])  # the ridge needs room in doubles
    huge = ek.stein.default_weights(K, largest * G)
    np.testing.assert_allclose(huge.weights, found.weights, atol=1e-12)
    assert huge.discrepancy == pytest.approx(largest * found.discrepancy)


def test_samples_that_can_be_the_target_become_it():
    grid = ek.ising_grid(2, 2, rng=1)
    X, masses = states_and_masses(grid)
    found = ek.stein.default_weights(*both_grams(grid, X))
    assert found.rule == "exact"
    assert "up to rounding" in found.reason
    np.testing.assert_allclose(found.weights, masses, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_good_samples_are_not_spoiled_and_bad_ones_are_repaired(seed):
    grid = ek.ising_grid(3, 3, rng=seed)
    states, masses = states_and_masses(grid)
    exact = masses @ states
    means = []
    for proposal in (masses, np.full(512, 1 / 512)):
        errors = []
        for attempt in range(4):
            rng = np.random.default_rng([seed, attempt])
            X = states[rng.choice(512, size=60, p=proposal / proposal.sum())]
            K, G = both_grams(grid, X)
            weighed = (simplex_weights(K), ek.stein.default_weights(K, G))
            weights = (np.full(60, 1 / 60), *(found.weights for found in weighed))
            errors.append([np.abs(w @ X - exact).mean() for w in weights])
        means.append(np.log(errors).mean(axis=0))
    uniform, raw, default = np.transpose(means)
    assert (default < uniform).all()
    assert default.mean() < raw.mean()


def test_matrices_of_other_samples_are_refused():
    assert_raises(KernelError, "same samples", ek.stein.default_weights, np.eye(3), np.eye(2))
    with pytest.raises(KernelError, match="'K' parameter of default_weights must be finite"):
        ek.stein.default_weights(np.full((2, 2), np.inf), np.eye(2))
    with pytest.raises(KernelError, match="'G' parameter of default_weights must be symmetric"):
        ek.stein.default_weights(np.eye(2), [[1.0, 0.5], [0.0, 1.0]])


def best_by_enumeration(gram):
    """The smallest w'Kw, over the solutions on all supports."""
    best = np.inf
    n = len(gram)
    size = np.abs(gram).max() or 1.0
    gram = gram / size
    for m in range(1, n + 1):
        for support in combinations(range(n), m):
            block = gram[np.ix_(support, support)]
            system = np.block([[block, np.ones((m, 1))], [np.ones((1, m)), np.zeros((1, 1))]])
            w = np.linalg.lstsq(system, np.append(np.zeros(m), 1.0), rcond=None)[0][:m]
            if np.all(w >= -1e-12) and abs(w.sum() - 1.0) < 1e-8:
                best = min(best, float(w @ block @ w))
    return best * size


@st.composite
def gram_matrices(draw):
    n, rank = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    features = rng.normal(size=(n, rank)) * np.exp(rng.normal(size=(n, 1)))
    if draw(st.booleans()):  # whole numbers: ties, zero rows, equal and opposite samples
        features = rng.integers(-1, 2, size=(n, rank)).astype(float)
    return features @ features.T * 10.0 ** draw(st.integers(-9, 12))


@given(gram_matrices())
def test_the_value_is_the_smallest_of_all_supports(gram):
    found = simplex_weights(gram)
    assert found.solved
    assert np.all(found.weights >= 0.0)
    np.testing.assert_allclose(found.weights.sum(), 1.0, rtol=1e-12)
    best, size = best_by_enumeration(gram), np.abs(gram).max()
    np.testing.assert_allclose(found.discrepancy, best, rtol=1e-7, atol=1e-11 * size)


@pytest.mark.parametrize(("n", "rank"), [(100, 100), (300, 300), (300, 150), (200, 20), (60, 3)])
def test_the_certificate_is_small_on_matrices_with_heavy_rows(n, rank):
    found = simplex_weights(stein_like(n, rank, np.random.default_rng(n + rank)))
    assert found.solved
    assert found.certificate < 1e-8 or found.discrepancy <= found.rounding


def test_the_weights_follow_the_order_and_ignore_the_scale():
    rng = np.random.default_rng(5)
    gram = stein_like(40, 60, rng)
    order = rng.permutation(40)
    found = simplex_weights(gram).weights
    shuffled = simplex_weights(gram[np.ix_(order, order)]).weights
    np.testing.assert_allclose(shuffled, found[order], atol=1e-7)
    for factor in (1e-12, 1e-5, 1e5, 1e12):
        np.testing.assert_allclose(simplex_weights(factor * gram).weights, found, atol=1e-7)


def test_equal_samples_share_their_weight_evenly():
    rng = np.random.default_rng(2)
    distinct = stein_like(10, 20, rng, spread=0.3)
    member = rng.integers(0, 10, size=60)
    gram = distinct[np.ix_(member, member)]
    with_groups = simplex_weights(gram, groups=member)
    found = simplex_weights(gram)
    alone = simplex_weights(distinct)
    np.testing.assert_allclose(with_groups.weights, found.weights, atol=1e-8)
    assert with_groups.solved
    kept = np.unique(member)
    together = np.bincount(member, found.weights, minlength=10)
    np.testing.assert_allclose(together[kept], alone.weights[kept], atol=1e-7)
    for label in kept:
        np.testing.assert_allclose(np.ptp(found.weights[member == label]), 0.0, atol=1e-15)


def test_samples_without_discrepancy_take_all_the_mass():
    gram = np.zeros((4, 4))
    gram[:2, :2] = [[2.0, 1.0], [1.0, 3.0]]
    found = simplex_weights(gram)
    np.testing.assert_array_equal(found.weights, [0.0, 0.0, 0.5, 0.5])
    assert (found.discrepancy, found.certificate) == (0.0, 0.0)
    np.testing.assert_array_equal(simplex_weights(np.zeros((3, 3))).weights, np.full(3, 1 / 3))


def smallest_value(gram):
    """The smallest w'Kw, in fractions: the smallest over all sets of positive weights."""
    values = []
    for size in range(1, len(gram) + 1):
        for support in combinations(range(len(gram)), size):
            x = solution(EXACT(gram[np.ix_(support, support)]))
            if x is not None and min(x) >= 0 and sum(x) > 0:
                values.append(1 / sum(x))
    return min(value for value in values if value >= 0)


def solution(matrix):
    """The solution of a linear system with ones on its right side, None if it is singular."""
    rows = np.column_stack([matrix, EXACT(np.ones(len(matrix)))])
    for i in range(len(rows)):
        pivots = i + np.flatnonzero(rows[i:, i])
        if not len(pivots):
            return None
        rows[[i, pivots[0]]] = rows[[pivots[0], i]]
        rows[i] /= rows[i, i]
        others = np.arange(len(rows)) != i
        rows[others] -= rows[others, i][:, None] * rows[i]
    return rows[:, -1]


def value_of(gram, weights):
    """The value w'Kw over the squared sum of the weights, in fractions."""
    w = EXACT(weights)
    return w @ EXACT(gram) @ w / w.sum() ** 2


SCALES = {
    "one scale": lambda rng, n: np.full(n, rng.integers(-530, 511)),
    "any scales": lambda rng, n: rng.integers(-530, 511, size=n),
    "both ends": lambda rng, n: rng.choice([-530, -510, 0, 510], size=n),
    "below the smallest normal number": lambda rng, n: -535 + rng.integers(0, 30, size=n),
}


@pytest.mark.parametrize("scales", SCALES)
def test_matrices_of_any_scale_are_solved(scales):
    rng = np.random.default_rng(4)
    for _ in range(40):
        n = int(rng.integers(1, 5))
        features = rng.normal(size=(n, n + 3)) + rng.uniform(-1, 2)
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        exponents = SCALES[scales](rng, n)
        gram = np.ldexp(features @ features.T, exponents[:, None] + exponents)
        gram = np.triu(gram) + np.triu(gram, 1).T
        if (np.diagonal(gram) > 0).all():
            found = simplex_weights(gram)
            assert found.solved
            assert value_of(gram, found.weights) <= smallest_value(gram) * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("size", [1e-320, 1e-308, 1e-200, 1.0, 1e200, 1e307])
def test_tiny_and_huge_matrices(size):
    found = simplex_weights([[size, 0.0], [0.0, 3 * size]])
    np.testing.assert_allclose(found.weights, [0.75, 0.25], rtol=1e-3 if size < 1e-307 else 1e-12)
    assert found.solved
    signed = ek.stein.signed_weights([[size, 0.0], [0.0, 3 * size]])
    np.testing.assert_allclose(signed, [0.75, 0.25], rtol=1e-3)
    equal = simplex_weights(np.full((3, 3), size))
    np.testing.assert_allclose(equal.weights, np.full(3, 1 / 3), rtol=1e-12)


def test_entries_beyond_those_of_the_diagonal_are_refused():
    with pytest.raises(KernelError, match=r"Got 1e\+299 in row 0, column 1, where the diagonal"):
        simplex_weights([[5e-324, 1e299, 0], [1e299, 5e-324, 0], [0, 0, 1e308]])


def test_signed_weights_solve_the_problem_without_signs():
    rng = np.random.default_rng(0)
    gram = stein_like(20, 40, rng, spread=0.5)
    w = ek.stein.signed_weights(gram)
    np.testing.assert_allclose(w.sum(), 1.0, rtol=1e-12)
    slopes = (gram * 20 / np.trace(gram) + 1e-8 * np.eye(20)) @ w
    np.testing.assert_allclose(slopes, slopes.mean(), rtol=1e-9)
    assert w @ gram @ w <= simplex_weights(gram).discrepancy * (1 + 1e-6)
    np.testing.assert_array_equal(ek.stein.signed_weights(np.zeros((4, 4))), np.full(4, 0.25))


def test_smoothed_weights_are_a_mixture_with_uniform_ones():
    w = np.array([0.5, 0.3, 0.2, 0.0])
    np.testing.assert_allclose(ek.stein.smoothed_weights(w), (w + 0.01) / 1.04, rtol=1e-15)
    np.testing.assert_array_equal(ek.stein.smoothed_weights(w, 0.0), w)


@pytest.mark.parametrize(("gram", "text"), [
    (np.ones(3), "must be a square matrix"),
    (np.zeros((0, 0)), "must be a square matrix"),
    (np.ones((2, 3)), "must be a square matrix"),
    ([[1.0, np.inf], [np.inf, 1.0]], "must be finite"),
    ([[1.0, 0.0], [0.5, 1.0]], "must be symmetric"),
    ([[1.0, 2.0], [2.0, 1.0]], "must be positive semidefinite"),
    ([[-1.0]], "must be positive semidefinite"),
    *((K, r"'K' parameter of .* must be") for K in ("K", [["a"]], [[1.0], [0.0, 1.0]], None)),
])  # fmt: skip
@pytest.mark.parametrize("function", [simplex_weights, ek.stein.signed_weights])
def test_matrices_that_are_no_gram_matrices_are_refused(function, gram, text):
    assert_raises(KernelError, text, function, gram)


def test_bad_arguments_are_refused():
    assert_raises(DataError, "one label for each sample", simplex_weights, np.eye(3), groups=[0, 1])
    for ridge in (0.0, "small"):
        assert_raises(DataError, "'ridge'", ek.stein.signed_weights, np.eye(3), ridge=ridge)
    assert_raises(KernelError, "must be a vector of numbers", ek.stein.smoothed_weights, "uniform")
    assert_raises(DataError, "with sum 1", ek.stein.smoothed_weights, [0.5, 0.2])
    assert_raises(DataError, "'amount' parameter", ek.stein.smoothed_weights, [0.5, 0.5], -1.0)
