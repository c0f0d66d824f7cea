"""Matrices of expected kernels in pieces: the same numbers, and no second copy of them."""

import tracemalloc

import numpy as np
import pytest

import expectedkernels as ek
from circuit_oracles import rare

K = ek.RBF(0.3)


def rows_with_gaps(rng, n, m):
    X = rng.integers(2, size=(n, m)).astype(float)
    return np.where(rng.random(X.shape) < 0.4, np.nan, X)


@pytest.mark.parametrize("n_variables", [3, 300])
def test_sums_over_weighted_points_in_pieces_keep_their_scales(n_variables):
    p, X, logs = rare(n_variables)
    w = np.linspace(0.5, 1.5, 70)
    got = ek.expected_kernel(ek.Empirical(X, w), p, ek.Delta(), log=True, max_bytes=30_000)
    np.testing.assert_allclose(got, np.logaddexp.reduce(np.log(w) + logs), rtol=1e-12)


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
