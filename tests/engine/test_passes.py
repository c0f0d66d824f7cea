"""Blocks, passes over layers, and samples from the root down, against sums over all points."""

import numpy as np
import pytest
from scipy import sparse

import circuit_oracles as oracle
from assertions import assert_close
from expectedkernels import Vtree, factorized, mixture, random_circuit
from expectedkernels.arrays import Place
from expectedkernels.circuits import queries as choices
from expectedkernels.circuits.conditioning import certain, chunks, observed
from expectedkernels.data.evidence import as_evidence
from expectedkernels.engine import passes, sampling as descend
from expectedkernels.engine.blocks import DENSE_BELOW, Inner, inner
from expectedkernels.engine.passes import backward, forward
from expectedkernels.sampling.gibbs import support_size
from oracles import evidence_as_weights

SEEDS = range(12)


def passed(circuit, evidence):
    return forward(circuit.layers, observed(circuit, circuit.layers, evidence))


def test_ten_thousand_variables_stay_plain_numbers():
    rng = np.random.default_rng(0)
    tables = rng.dirichlet(np.ones(3), size=(2, 10_000))
    p = mixture([factorized(list(t), Vtree.balanced(10_000)) for t in tables], [0.3, 0.7])
    X = rng.integers(0, 3, size=(2, 10_000)).astype(float)
    X[:, ::7] = np.nan
    found = passed(p, as_evidence(X, p.schema))
    assert found.maxima
    assert backward(found).reliable.all()
    known = np.isfinite(X).all(axis=0)
    entries = tables[:, known][:, np.arange(known.sum()), X[:, known].astype(int)]
    logs = np.log(entries).sum(axis=2).T + np.log([0.3, 0.7])
    total = np.logaddexp(*logs.T)
    assert_close(found.log_roots[0], total)
    share = np.exp(logs - total[:, None])
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


@pytest.mark.parametrize("long", [0, 12])
@pytest.mark.parametrize("seed", SEEDS)
def test_samples_by_layers_are_those_node_by_node(seed, long, monkeypatch):
    monkeypatch.setattr(descend, "LONG", long)
    p = oracle.drawn_distribution(seed, share_real=0.3)
    X = oracle.rows_of(p, 4, seed, 0.6)
    for rows, n in ((None, 30), (X[:1], 30), (X, 7)):
        found = p.sample(n, rng=7, evidence=rows)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(choices, "layers_of", lambda p: None)
            expected = p.sample(n, rng=7, evidence=rows)
        assert_close(found, expected, np.maximum(np.abs(expected), 1.0))


@pytest.mark.parametrize("seed", SEEDS)
def test_most_probable_rows_with_long_units(seed, monkeypatch):
    p = oracle.drawn_deterministic(seed)
    X = np.full((3, p.n_variables), np.nan)
    before = p.map(X)
    monkeypatch.setattr(descend, "LONG", 0)
    np.testing.assert_array_equal(p.map(X), before)
    np.testing.assert_array_equal(p.map(X[0]), before[0])


def test_samples_out_of_range_are_drawn_in_logs():
    far = np.exp([0.0, -5.0]) / (1 + np.exp(-5.0))
    tables = [far] * 200 + [far[::-1]] * 200
    p = mixture([factorized(tables), factorized(tables[::-1])])
    x = np.zeros((1, 400))
    x[0, 0] = np.nan
    assert not certain(forward(p.layers, observed(p, p.layers, as_evidence(x, p.schema)))).any()
    assert p.sample(2000, rng=0, evidence=x[0])[:, 0].mean() == pytest.approx(
        (far**2).sum(), abs=0.02
    )


def test_samples_in_parts_are_those_of_calls_one_after_the_other(monkeypatch):
    p = oracle.drawn_distribution(0)
    one, other = np.random.default_rng(3), np.random.default_rng(3)
    monkeypatch.setattr(choices, "NOISE_BYTES", 8 * 10 * p.vtree.n_nodes)
    several = np.concatenate([p.sample(n, rng=one) for n in (10, 10, 5)])
    np.testing.assert_array_equal(p.sample(25, rng=other), several)
    assert one.random() == other.random()


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.coo_array])
def test_sums_that_only_pass_products_through_are_dropped(form):
    weights = form(np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]))
    block = inner([0, 1, 2], [3, 4, 5], weights, 3, 6)
    assert block.weights is None
    assert block.left.tolist() == [2, 0]
    assert block.right.tolist() == [5, 3]
    assert (block.n_products, block.n_units) == (2, 2)
    kept = inner([0, 1, 2], [3, 4, 5], 2.0 * weights, 3, 6)
    assert kept.weights is not None
    twice = inner([0, 1], [0, 1], form(np.array([[1.0, 1.0], [0.0, 0.0]])), 2, 2)
    assert twice.weights.tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_weights_are_dense_or_sparse_whichever_is_smaller():
    n = DENSE_BELOW  # as many products, more than one unit: above the limit
    few = sparse.random_array((8, n), density=0.01, rng=np.random.default_rng(0), format="csr")
    many = sparse.random_array((8, n), density=0.5, rng=np.random.default_rng(0), format="csr")
    index = np.arange(n)
    assert inner(index, index, few, n, n).is_sparse
    assert not inner(index, index, many, n, n).is_sparse
    assert not inner([0], [0], sparse.csr_array(np.array([[0.5]])), 1, 1).is_sparse
    np.testing.assert_array_equal(inner(index, index, few, n, n).csr.toarray(), few.toarray())


def test_sparse_form_has_no_stored_zeros_and_sorted_indices(xp):
    weights = np.array([[0.0, 2.0, 0.5], [0.0, 0.0, 0.0]])
    csr = Inner(3, 2, None, None, Place(xp).move(weights)).csr
    assert csr.nnz == 2
    assert csr.indices.tolist() == [1, 2]
    np.testing.assert_array_equal(csr.toarray(), weights)
    messy = sparse.csr_array((np.array([0.5, 0.0, 2.0]), np.array([2, 0, 1]), np.array([0, 3, 3])))
    csr = Inner(3, 2, None, None, messy).csr
    assert csr.indices.tolist() == [1, 2]
    np.testing.assert_array_equal(Inner(2, 2, None, None, None).csr.toarray(), np.eye(2))
