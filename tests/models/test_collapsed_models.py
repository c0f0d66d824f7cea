import numpy as np
from hypothesis import given, settings, strategies as st

import expectedkernels as ek
from assertions import assert_raises, refusals
from factor_graphs import factor_graphs, scores
from oracles import distribution, worlds
from strategies import rngs

CollapsedModel = ek.models.CollapsedModel


@settings(max_examples=60)
@given(factor_graphs(), rngs, st.booleans())
def test_three_routes(model, rng, balanced):
    values = scores(model)
    points = worlds(model.cardinalities)
    collapsed = np.flatnonzero(rng.random(model.n_variables) < rng.choice([0.3, 0.6]))
    X = points[rng.choice(np.flatnonzero(values > 0), size=4)]
    X[:, collapsed] = np.nan
    vtree = ek.Vtree.balanced(model.n_variables) if balanced else None
    reweighted = CollapsedModel(model, collapsed, vtree)
    circuit, log_z = model.compile(reweighted.circuit.vtree)
    marginals = reweighted.marginals(X)
    for n, row in enumerate(X):
        joint = values * np.all(np.isnan(row) | (points == row), axis=1)
        expected = joint / joint.sum()
        by_evidence = circuit.condition(row)
        evidence = {v: x for v, x in enumerate(row.tolist()) if x == x}
        reduced = model.condition(evidence if balanced else row)
        assert not any(reduced.graph[v] for v in evidence)
        by_reduction, log_sum = reduced.compile(circuit.vtree)
        by_weights = reweighted.conditional(row)
        for found in (by_evidence, by_reduction, by_weights):
            np.testing.assert_allclose(distribution(found), expected, rtol=0, atol=1e-12)
            assert found.vtree == circuit.vtree
        for v, card in enumerate(model.cardinalities):
            by_hand = [expected[points[:, v] == state].sum() for state in range(card)]
            np.testing.assert_allclose(marginals[v][n], by_hand, rtol=0, atol=1e-12)
        np.testing.assert_allclose(log_sum, np.log(joint.sum()), rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(reweighted.log_marginal(row), log_sum, rtol=1e-11, atol=1e-11)
        by_likelihood = circuit.log_likelihood(row[None])[0] + log_z
        np.testing.assert_allclose(by_likelihood, log_sum, rtol=1e-11, atol=1e-11)


@given(factor_graphs(zeros=False), rngs)
def test_constants_complete_the_model(model, rng):
    collapsed = np.flatnonzero(rng.random(model.n_variables) < 0.5)
    reweighted = CollapsedModel(model, collapsed)
    X = worlds(model.cardinalities)
    weights, constants = reweighted.evidence(X)
    taken = [np.log(w[np.arange(len(X)), X[:, v].astype(int)]) for v, w in enumerate(weights)]
    logs = reweighted.circuit.log_likelihood(X) + reweighted.log_z + constants + sum(taken)
    np.testing.assert_allclose(logs, model.log_score(X), rtol=1e-11, atol=1e-11)


def test_structure_is_that_of_the_collapsed_set():
    grid = ek.ising_grid(8, 8, rng=0)
    reweighted = CollapsedModel(grid, [0, 9, 18, 27, 28])
    # only the edge between 27 and 28 is left of the grid
    assert reweighted.circuit.n_edges < 200
    assert reweighted.relevant == (1, 8, 10, 17, 19, 20, 26, 29, 35, 36)
    assert repr(reweighted).startswith("<CollapsedModel: 5 of 64 variables collapsed")


def test_models_too_large_to_compile():
    grid = ek.ising_grid(30, 30, rng=0)
    assert_raises(ek.CircuitError, "more than max_bytes", grid.compile)
    number = np.arange(900).reshape(30, 30)
    collapsed = np.concatenate([number[::3].reshape(-1), number[1::3, ::2].reshape(-1)])
    reweighted = CollapsedModel(grid, collapsed, shared=False)
    X = np.random.default_rng(1).integers(2, size=(3, 900)).astype(float)
    marginals = reweighted.marginals(X)
    assert all(np.isfinite(table).all() for table in marginals)
    v = int(collapsed[7])
    flipped = X.copy()
    flipped[:, v] = 1 - X[:, v]
    np.testing.assert_array_equal(reweighted.log_marginal(flipped), reweighted.log_marginal(X))


def test_impossible_rows():
    model = ek.FactorGraph([2, 2, 2], [((0, 1), np.eye(2)), ((1, 2), [[0.0, 0.0], [1.0, 1.0]])])
    reweighted = CollapsedModel(model, [1])
    X = [[0.0, np.nan, 0.0], [1.0, np.nan, 0.0]]
    assert reweighted.log_marginal(X).tolist() == [-np.inf, 0.0]
    loose = ek.FactorGraph([2, 2, 2], [([0], [0.0, 1.0]), ([1, 2], np.ones((2, 2)))])
    for ask in (
        lambda: reweighted.marginals(X),
        lambda: reweighted.conditional(X[0]),
        lambda: CollapsedModel(loose, [1, 2]).conditional([0, np.nan, np.nan]),
        lambda: loose.condition({0: 0}).compile(),
        lambda: loose.compile()[0].condition({0: 0}),
    ):
        assert_raises(ek.CircuitError, "zero", ask)


GRID = CollapsedModel(ek.ising_grid(2, 2, rng=0), np.int64(0))


def test_one_variable_needs_no_list():
    assert GRID.collapsed == (0,) != CollapsedModel(ek.asia(), "lung").collapsed


test_errors = refusals(ek.CircuitError, [
    (GRID.evidence, np.full((1, 4), np.nan), r"complete\. Got NaN in row 0, column 1"),
    (GRID.evidence, np.zeros((1, 3)), r"must have shape \(rows, 4\)"),
    (GRID.evidence, [[0, 0, 0, 2]], r"on variable 3 must be integers in 0\.\.1"),
    (GRID.conditional, np.zeros((2, 4)), r"needs one row .* batches are made by"),
    (CollapsedModel, GRID.model, [4], r"an int in 0\.\.3"),
    (CollapsedModel, GRID.model, None, r"an int in 0\.\.3.* Got None"),
    (CollapsedModel, ek.asia(), "lungs", "Got 'lungs' instead"),
    (CollapsedModel, "grid", [0], "must be a FactorGraph. Got 'grid' instead"),
], lambda call, *arguments: call(*arguments))  # fmt: skip
