import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import norm

import expectedkernels as ek
from assertions import assert_frequencies, assert_logs_close, refusals
from circuit_oracles import (
    drawn_deterministic,
    drawn_distribution,
    log_joint,
    log_weights,
    posterior,
    random_evidence,
)
from oracles import evidence_as_weights
from strategies import seeds

nan = np.nan


@settings(max_examples=50)
@given(seeds, st.booleans(), st.sampled_from([2, 40]))
def test_samples_given_rows_weights_and_nothing(seed, deterministic, n_rows):
    p = drawn_deterministic(seed) if deterministic else drawn_distribution(seed, n_max=4)
    rng = np.random.default_rng(seed)
    rows = random_evidence(rng, p, n_rows)
    kept = evidence_as_weights(rows, p.cardinalities)
    soft = [w * rng.uniform(0.1, 3, size=w.shape) for w in kept]
    n = 2000 if n_rows == 2 else 200
    for evidence, weights in ((rows, kept), (soft, soft)):
        X = p.sample(n, rng=seed, evidence=evidence)
        assert X.shape == (n_rows, n, p.n_variables)
        for sample, row, expected in zip(X, rows, posterior(p, weights), strict=True):
            seen = ~np.isnan(row)
            assert (sample[:, seen] == row[seen]).all()
            assert_frequencies(sample, expected)
    one = p.sample(3000, rng=seed, evidence={v: w[0] for v, w in enumerate(soft)})
    assert_frequencies(one, posterior(p, soft)[0])
    X = p.sample(4000, rng=seed)
    assert X.shape == (4000, p.n_variables)
    assert_frequencies(X, np.exp(log_joint(p) - p.log_partition()))


def test_shapes_of_samples():
    p = ek.random_circuit(3, 2, rng=0, cardinalities=[2, 3, 2])
    assert p.sample(5, rng=0).shape == (5, 3)
    for evidence in ({0: 1}, [1, nan, nan], np.array([1, nan, nan])):
        X = p.sample(5, rng=0, evidence=evidence)
        assert X.shape == (5, 3)
        assert (X[:, 0] == 1).all()
    for evidence in ([[1, nan, nan]], [np.array([[0.0, 1.0]]), None, None]):
        assert p.sample(5, rng=0, evidence=evidence).shape == (1, 5, 3)
    assert p.sample(0, rng=0).shape == (0, 3)
    assert p.sample(0, rng=0, evidence=[[1, nan, nan]] * 2).shape == (2, 0, 3)
    assert p.sample(5, rng=0, evidence=np.empty((0, 3))).shape == (0, 5, 3)


def test_samples_are_reproducible_and_those_of_circuits_elsewhere(xp):
    p = ek.random_circuit(6, 4, rng=0)
    for same in (p.sample(9, rng=np.random.default_rng(3)), p.to(xp).sample(9, rng=3)):
        assert isinstance(same, np.ndarray)
        np.testing.assert_array_equal(same, p.sample(9, rng=3))
    assert (p.sample(9, rng=3) != p.sample(9, rng=4)).any()
    p = ek.factorized([[0.2, 0.7], [0.5, 0.1]], normalized=False)
    np.testing.assert_array_equal(p.to(xp).map([[nan, nan]]), p.map([[nan, nan]]))


@pytest.mark.parametrize("rows", [1, 40])
def test_normal_samples_given_evidence(rows):
    p = ek.gaussian_mixture([0.5, 0.5], [[0.0, 5.0], [4.0, 1.0]], [[1.0, 0.5], [2.0, 0.5]])
    x, n = 3.1, 20_000 // rows
    share = norm.pdf(x, [5.0, 1.0], np.sqrt(0.5))
    share /= share.sum()
    X = p.sample(n, rng=0, evidence=[[nan, x]] * rows)
    assert X.shape == (rows, n, 2)
    np.testing.assert_array_equal(X[..., 1], x)
    mean = share @ [0.0, 4.0]
    spread = share @ [1.0, 2.0 + 16.0] - mean**2
    assert abs(X[..., 0].mean() - mean) < 6 * np.sqrt(spread / X[..., 0].size)


@given(seeds, st.booleans(), st.sampled_from([1, 10, 50]))
def test_most_probable_completions(seed, ties, n):
    p = drawn_deterministic(seed, ties=ties)
    rng = np.random.default_rng(seed)
    rows = random_evidence(rng, p, n)
    if rng.random() < 0.3:
        rows[0] = nan
    kept = evidence_as_weights(rows, p.cardinalities)
    soft = [w * rng.uniform(0.1, 3, size=w.shape) for w in kept]
    for evidence, weights in ((rows, kept), (soft, soft)):
        completed = p.map(evidence)
        seen = ~np.isnan(rows)
        np.testing.assert_array_equal(completed[seen], rows[seen])
        scores = log_joint(p) + log_weights(weights, p.cardinalities)
        reached = scores[(np.arange(n), *completed.astype(int).T)]
        assert_logs_close(reached, scores.reshape(n, -1).max(axis=1))


def test_shapes_of_completions():
    p = ek.factorized([[0.2, 0.8], [0.1, 0.3, 0.6]])
    for X in ([nan, 0], np.array([nan, 0]), {1: 0}):
        assert p.map(X).tolist() == [1.0, 0.0]
    for X in ([[nan, 0]], np.array([[nan, 0]]), [None, np.array([[1.0, 0, 0]])]):
        assert p.map(X).tolist() == [[1.0, 0.0]]
    assert p.map([[0, 1], [nan, nan]]).tolist() == [[0.0, 1.0], [1.0, 2.0]]
    assert p.map({1: {0, 1}}).tolist() == [1.0, 1.0]
    assert p.map(np.empty((0, 2))).shape == (0, 2)


def test_most_probable_values_of_real_variables():
    parts = [
        ek.Product([ek.Indicator(0, i, 2), ek.Gaussian(1, mean, variance)])
        for i, (mean, variance) in enumerate([(-3.0, 1.0), (3.0, 100.0)])
    ]
    p = ek.Circuit.from_units(ek.Sum(parts, [0.2, 0.8]))
    # the narrow component has the larger density although it has the smaller weight
    assert p.map([nan, nan]).tolist() == [0.0, -3.0]
    found = p.map([[nan, 3.0], [1.0, nan], [nan, -3.0]])
    assert found.tolist() == [[1.0, 3.0], [1.0, 3.0], [0.0, -3.0]]


p2 = ek.mixture([ek.factorized([[1, 0], [1, 0]]), ek.factorized([[0, 1], [0, 1]])])
NORMALS = ek.gaussian_mixture([0.5, 0.5], [0, 1], [1, 1])
SIGNED, PART, ZERO = (
    ek.factorized(tables, normalized=False) for tables in ([[1, -1]], [[2, -1], [1, 1]], [[0, 0]])
)
SEVERAL = ek.algebra.stack([p2, p2])
REFUSED = [
    (lambda: ek.random_circuit(3, 2, rng=0).map([nan] * 3), ek.PropertyError,
     r"MAP needs a deterministic circuit, but sum unit .* overlapping.* NP-hard"),
    (lambda: NORMALS.map([nan]), ek.PropertyError, "several normal densities, which overlap"),
    (lambda: p2.map([[0, 1]]), ek.EvidenceError, "row 0 has probability zero"),
    (lambda: SEVERAL.map([nan, nan]), ek.CircuitError, "MAP needs .* Got 2 roots"),
    (lambda: SIGNED.map([nan]), ek.PropertyError, "MAP needs .* negative weights"),
    (lambda: p2.sample(-1), ek.DataError, "'n' parameter of sample must be an int .* Got -1"),
    (lambda: p2.sample(True), ek.DataError, "parameter of sample must be an int .* Got True"),
    (lambda: p2.sample(1, evidence=[0, 1]), ek.EvidenceError, "row 0 has probability zero"),
    (lambda: p2.sample(1, evidence={0: 7}), ek.EvidenceError, "A state of variable 0 is an int"),
    (lambda: SEVERAL.sample(1), ek.CircuitError, "Sampling needs .* Got 2 roots"),
    (lambda: ZERO.sample(1), ek.PropertyError, "sums to zero"),
    (lambda: PART.sample(1), ek.PropertyError,
     "Sampling needs a circuit without negative weights. There is one at vtree node 0"),
]  # fmt: skip


test_errors = refusals(None, REFUSED)
