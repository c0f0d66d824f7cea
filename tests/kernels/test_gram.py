"""Matrices of expected kernels in pieces: the same numbers, and no second copy of them."""

import tracemalloc

import numpy as np
import pytest

import expectedkernels as ek
from expectedkernels.circuits.evidence import as_evidence
from expectedkernels.circuits.sides import CircuitSide
from expectedkernels.kernels import gram as gram_module
from expectedkernels.kernels.gram import gram, pieces

K = ek.RBF(0.3)


def rows_with_gaps(rng, n, m):
    X = rng.integers(2, size=(n, m)).astype(float)
    return np.where(rng.random(X.shape) < 0.4, np.nan, X)


def rare(n_variables):
    """A circuit whose points have probabilities far below the smallest float, and these."""
    rng = np.random.default_rng(0)
    p = ek.factorized([[x, 1.0 - x] for x in rng.uniform(1e-5, 1e-2, size=n_variables)])
    X = (rng.random((70, n_variables)) < rng.random((70, 1))).astype(float)
    return p, X, np.asarray(p.log_likelihood(X))


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("chunk", [2000, 50_000])
def test_pieces_make_the_whole(monkeypatch, chunk, log):
    rng = np.random.default_rng(0)
    vtree = ek.Vtree.balanced(4)
    p, q = ek.random_circuit(vtree, 3, rng=0), ek.random_circuit(vtree, 2, rng=1)
    E, F, X = (
        rows_with_gaps(rng, 37, 4),
        rows_with_gaps(rng, 23, 4),
        rng.integers(2, size=(29, 4)),
    )
    w = rng.normal(size=29) if not log else rng.random(29)
    cases = [
        lambda: ek.expected_kernel(p, X, K, evidence_p=E, log=log),
        lambda: ek.expected_kernel(X, p, K, evidence_q=E, log=log),
        lambda: ek.expected_kernel(p, q, K, evidence_p=E, evidence_q=F, log=log),
        lambda: ek.expected_kernel(p, q, K, evidence_p=E, log=log),
        lambda: ek.expected_kernel(p, ek.Empirical(X, w), K, evidence_p=E, log=log),
        lambda: ek.expected_kernel(ek.Empirical(X, w), q, K, evidence_q=F, log=log),
        lambda: ek.expected_kernel(ek.Empirical(X, w), q, K, log=log),
        lambda: ek.expected_kernel(ek.algebra.stack([p, p]), X, K, log=log),
    ]
    whole = [case() for case in cases]
    monkeypatch.setattr(gram_module, "CHUNK_BYTES", chunk)
    for case, expected in zip(cases, whole, strict=True):
        got = case()
        assert np.shape(got) == np.shape(expected)
        np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("n_variables", [3, 300])
def test_sums_over_weighted_points_in_pieces_keep_their_scales(monkeypatch, n_variables):
    p, X, logs = rare(n_variables)
    w = np.linspace(0.5, 1.5, 70)
    monkeypatch.setattr(gram_module, "CHUNK_BYTES", 30_000)
    got = ek.expected_kernel(ek.Empirical(X, w), p, ek.Delta(), log=True)
    np.testing.assert_allclose(got, np.logaddexp.reduce(np.log(w) + logs), rtol=1e-12)


@pytest.mark.parametrize("chunk", [2**27, 400_000])
def test_symmetric_matrices_keep_the_scales_of_both_triangles(monkeypatch, chunk):
    monkeypatch.setattr(gram_module, "CHUNK_BYTES", chunk)
    p, X, logs = rare(300)
    assert logs.min() < -700  # not a float
    assert np.ptp(logs) > 700  # nor do all have one scale
    side = CircuitSide(p, as_evidence(X, p.cardinalities))
    blocks = ek.RBF(0.01).blocks(p.vtree, p.cardinalities)
    found = gram((side, side), blocks, 2**30, symmetric=True)
    expected = logs[:, None] + logs[None, :] + ek.RBF(0.01).logs(X, X)[0]
    np.testing.assert_allclose(found.log(), expected, rtol=1e-12)


def test_results_are_not_copied():
    rng = np.random.default_rng(0)
    p = ek.random_circuit(ek.Vtree.balanced(10), 2, rng=0)
    E, X = rows_with_gaps(rng, 1500, 10), rng.integers(2, size=(800, 10))
    ek.expected_kernel(p, X[:2], K, evidence_p=E[:2])
    size, budget = 8 * len(E) * len(X), 2_000_000
    for log in (False, True):
        tracemalloc.start()
        ek.expected_kernel(p, X, K, evidence_p=E, log=log, max_bytes=budget)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < size + 2 * budget


def test_pieces_of_few_patterns_are_spread_in_parts(monkeypatch):
    # all rows are equal: one pattern, but as many numbers as pairs of rows
    p = ek.factorized([[0.5, 0.5], [0.2, 0.8]])
    side = CircuitSide(p, as_evidence(np.zeros((1000, 2)), p.cardinalities))
    blocks = K.blocks(p.vtree, p.cardinalities)
    monkeypatch.setattr(gram_module, "CHUNK_BYTES", 64 * 1000 * 30)
    seen = np.zeros((1000, 1000), dtype=int)
    for at, piece in pieces((side, side), blocks, 2**30):
        seen[at] += 1
        assert piece.data.shape == seen[at].shape
        assert len(piece.data) <= 30
    assert (seen == 1).all()
