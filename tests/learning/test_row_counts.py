"""Expected counts by levels, beside those by patterns of rows."""

import sys

import numpy as np
import pytest

from assertions import assert_close
from circuit_oracles import drawn_distribution, sparsified
from expectedkernels import Circuit, em, random_circuit
from expectedkernels.circuits.evidence import as_evidence
from expectedkernels.learning.em import expected_counts
from expectedkernels.learning.row_counts import row_counts

module = sys.modules[em.__module__]  # the package has the function under this name


def rows_of(p, n, seed):
    X = p.sample(n, rng=seed)
    X[np.random.default_rng(seed).random(X.shape) < 0.4] = np.nan
    return as_evidence(X, p.schema)


def by_patterns(monkeypatch, p, evidence, weights):
    monkeypatch.setattr(module, "row_counts", lambda *_: None)
    return expected_counts(p, evidence, weights, [slice(0, evidence.n_rows)])


@pytest.mark.parametrize("form", [lambda p: p, sparsified])
@pytest.mark.parametrize("n", [1, 50])
@pytest.mark.parametrize("seed", [*range(8), "dense"])
def test_both_ways_agree(seed, n, form, monkeypatch):
    dense = seed == "dense"
    p = form(random_circuit(6, 20, rng=0) if dense else drawn_distribution(seed).normalize())
    evidence = rows_of(p, n, 0)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, n)
    total, counts = row_counts(p, evidence, weights)
    expected_total, expected = by_patterns(monkeypatch, p, evidence, weights)
    assert_close(np.float64(total), np.float64(expected_total), scale=1.0 + abs(expected_total))
    for found, right in zip(counts, expected, strict=True):
        assert (found is None) == (right is None)
        if found is not None:
            assert_close(found, right[0], scale=np.maximum(np.abs(right[0]), 1e-3))


def test_circuits_of_em_share_their_levels(monkeypatch):
    start = random_circuit(6, 5, rng=0)
    X = random_circuit(6, 2, rng=1).sample(40, rng=0)
    fitted = em(start, X, iterations=3, progress=False)
    assert "levels" in vars(fitted)
    fresh = Circuit(fitted.vtree, fitted.blocks)
    for level, own in zip(fitted.levels.levels, fresh.levels.levels, strict=True):
        np.testing.assert_array_equal(level.edges.weights, own.edges.weights)
        np.testing.assert_array_equal(level.edges.products, own.edges.products)
        for one, other in zip(level.stacks, own.stacks, strict=True):
            np.testing.assert_array_equal(one.weights, other.weights)
    monkeypatch.setattr(module, "row_counts", lambda *_: None)
    slow = em(start, X, iterations=3, progress=False)
    assert_close(fitted.log_likelihood(X), slow.log_likelihood(X))


def test_levels_are_not_shared_if_zeros_differ():
    p = random_circuit(3, 3, rng=0)
    p.log_partition()
    blocks = list(p.blocks)
    table = blocks[0].table.copy()
    table[0, 0] = 0.0
    blocks[0] = type(blocks[0])(table)
    q = Circuit(p.vtree, tuple(blocks)).sharing(p)
    assert "levels" not in vars(q)


def test_impossible_rows_and_real_variables_are_left_to_flows():
    p = drawn_distribution(1, share_real=1.0)
    assert row_counts(p, as_evidence(p.sample(2, rng=0), p.schema), np.ones(2)) is None
    q = random_circuit(2, 2, rng=0)
    weights = [np.zeros((1, 2))] * 2
    assert row_counts(q, as_evidence(weights, q.schema), np.ones(1)) is None
