"""Likelihoods row by row over levels, beside those by patterns of rows."""

import numpy as np
import pytest

from assertions import assert_logs_close
from circuit_oracles import drawn_circuit
from expectedkernels import factorized, mixture
from expectedkernels.circuits.evidence import as_evidence
from expectedkernels.circuits.likelihoods import by_rows, level_logs
from expectedkernels.circuits.queries import _swept_logs, log_values

LARGE = 2**30


def rows_of(circuit, n, seed):
    rng = np.random.default_rng(seed)
    columns = [
        rng.normal(size=n) if card is None else rng.integers(0, card, n)
        for card in circuit.cardinalities
    ]
    X = np.stack(columns, axis=1).astype(float)
    X[rng.random(X.shape) < 0.4] = np.nan
    return as_evidence(X, circuit.schema)


@pytest.mark.parametrize("n", [1, 50])
@pytest.mark.parametrize("roots", [1, 3])
@pytest.mark.parametrize("seed", range(10))
def test_both_ways_agree(seed, roots, n):
    p = drawn_circuit(seed, roots=roots, share_real=0.3)
    rows = rows_of(p, n, seed)
    expected = _swept_logs(p, rows, LARGE)[0]
    assert_logs_close(level_logs(p, rows, LARGE)[0], expected)
    assert_logs_close(level_logs(p, rows, 1)[0], expected)  # one row at a time


@pytest.mark.parametrize("roots", [1, 2])
def test_rows_out_of_range_are_done_in_logs(roots):
    far = np.exp([0.0, -5.0])
    tables = [far] * 200 + [far[::-1]] * 200
    p = mixture([factorized(t, normalized=False) for t in (tables, tables[::-1])])
    if roots == 2:
        block = p.blocks[-1]
        weights = np.vstack([block.weights, [[0.2, 0.3]]])
        last = type(block)(block.n_products, 2, block.left, block.right, weights)
        p = type(p)(p.vtree, (*p.blocks[:-1], last))
    X = np.zeros((3, 400))
    X[1, 200:] = 1
    evidence = as_evidence(X, p.schema)
    assert 0 in level_logs(p, evidence, LARGE)[1]
    logs = log_values(p, evidence)[0]
    assert_logs_close(logs, _swept_logs(p, evidence, LARGE)[0])
    assert_logs_close(logs[0, 0], np.float64(-1000.0))


def test_rows_that_look_alike_go_by_patterns():
    tables = np.random.default_rng(1).dirichlet([1.0, 1.0], size=(30, 40))
    p = mixture([factorized(list(t)) for t in tables])
    X = np.random.default_rng(0).integers(0, 2, size=(40, 40)).astype(float)
    alike = as_evidence(X[:4].repeat(2000, axis=0), p.schema)
    assert not by_rows(p, alike)
    assert by_rows(p, as_evidence(X, p.schema))
    assert by_rows(p, None)


def test_signed_circuits_and_tiny_weights_stay_with_logs():
    signed = mixture([factorized([[0.2, 0.8]]), factorized([[0.6, 0.4]])])
    block = type(signed.blocks[-1])(np.array([[0.5, -0.5]]))
    assert not by_rows(type(signed)(signed.vtree, (block,)), None)
    tiny = type(signed)(signed.vtree, (type(block)(np.array([[1e-300, 1.0]])),))
    assert not by_rows(tiny, None)
    assert_logs_close(tiny.log_likelihood([[0.0]]), np.log([1e-300]))
