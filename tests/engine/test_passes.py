"""Forward and backward passes over layers, against sums over all points."""

import numpy as np
import pytest

import circuit_oracles as oracle
from assertions import assert_close
from expectedkernels import Circuit, Vtree, random_circuit
from expectedkernels.circuits.conditioning import chunks, observed
from expectedkernels.data.evidence import as_evidence
from expectedkernels.engine import passes
from expectedkernels.engine.passes import backward, forward
from expectedkernels.sampling.gibbs import support_size
from oracles import Inner, Table, evidence_as_weights

SEEDS = range(12)


def passed(circuit, evidence):
    return forward(circuit.layers, observed(circuit, circuit.layers, evidence))


def test_ten_thousand_variables_stay_plain_numbers():
    rng = np.random.default_rng(0)
    tables = rng.dirichlet(np.ones(3), size=(2, 10_000))
    vtree = Vtree.balanced(10_000)
    blocks = [
        Inner(2, 2, None, None, None) if v < 0 else Table(tables[:, v])
        for v in vtree.variable.tolist()
    ]
    blocks[-1] = Inner(2, 1, None, None, np.array([[0.3, 0.7]]))
    p = Circuit(vtree, tuple(blocks))
    X = rng.integers(0, 3, size=(2, 10_000)).astype(float)
    X[:, ::7] = np.nan
    found = passed(p, as_evidence(X, p.schema))
    assert found.maxima
    assert backward(found).reliable.all()
    known = ~np.isnan(X)
    logs = np.array(
        [
            [np.log(t[np.flatnonzero(k), x[k].astype(int)]).sum() for t in tables]
            for x, k in zip(X, known, strict=True)
        ]
    ) + np.log([0.3, 0.7])
    assert_close(found.log_roots[0], np.logaddexp(logs[:, 0], logs[:, 1]))
    share = np.exp(logs - np.logaddexp(logs[:, 0], logs[:, 1])[:, None])
    marginals = p.marginals(X)
    for v in range(0, 10_000, 700):
        assert_close(marginals[v], share @ tables[:, v])


def test_chunks_and_the_order_of_rows_change_nothing(monkeypatch):
    p = oracle.drawn_distribution(3)
    X = oracle.rows_of(p, 70)
    whole = p.marginals(X)
    turned = p.marginals(X[::-1])
    one_by_one = [p.marginals(x) for x in X]
    for limit in ("FEWEST", "MOST"):
        monkeypatch.setattr(passes, limit, 8)
    monkeypatch.setattr(passes, "CACHED_BYTES", 1)
    assert len(list(chunks(p.layers, 70))) == 9
    cut = p.marginals(X)
    for v in range(p.n_variables):
        for other in (cut[v], turned[v][::-1], np.stack([m[v] for m in one_by_one])):
            np.testing.assert_allclose(other, whole[v], rtol=1e-13)


def test_large_matrices_are_not_copied():
    p = random_circuit(4, 70, rng=0)
    for layer in p.layers.layers[1:]:
        for stack in layer.stacks:
            assert len(stack.weights) == 1
            assert any(np.shares_memory(stack.weights, m) for m in p.layers.matrices)
    X = oracle.rows_of(p, 5)
    table = oracle.posterior(p, evidence_as_weights(X, p.cardinalities))
    for v, found in enumerate(p.marginals(X)):
        assert_close(found, oracle.marginal(table, v))


@pytest.mark.parametrize("seed", SEEDS)
def test_counts(seed):
    p = oracle.drawn_deterministic(seed)
    assert support_size(p) == (oracle.joint(p)[0] > 0).sum()
