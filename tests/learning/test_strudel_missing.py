"""Strudel on data with missing values: expected flows, inherited weights, EM."""

import numpy as np
import pytest
from hypothesis import given, settings

import expectedkernels as ek
from assertions import assert_close
from expectedkernels import learn_chow_liu, learn_strudel
from expectedkernels.learning.blocks import blocks_of, plan
from expectedkernels.learning.chow_liu import chow_liu_tree, flow_blocks
from expectedkernels.learning.incomplete import IncompleteSearch, _inherit
from learning_searches import advance, random_rows, shape, start, steps, variable_of
from oracles import distribution, worlds
from strategies import domains, rngs


@pytest.fixture(scope="module")
def clusters():
    """Training, validation and test rows of nine variables."""
    rng = np.random.default_rng(5)
    X = random_rows(rng, [2, 2, 3, 2, 2, 4, 2, 2, 2], 1500)
    return X[:700], X[700:1000], X[1000:]


def start_with_holes(X, cardinalities, beta=1.0):
    """A search on rows with missing values (-1), at its beginning."""
    weights = np.ones(len(X))
    tree = chow_liu_tree(X, cardinalities, weights, 1.0)
    blocks = flow_blocks(tree, X, weights, beta, 1.0)
    return IncompleteSearch(tree, blocks, X, weights[None, :], beta), tree


@given(rngs, domains(min_variables=2, max_variables=5))
@settings(max_examples=20)
def test_expected_flows_of_complete_rows_are_flows(rng, cardinalities):
    X = random_rows(rng, cardinalities, 40)
    complete, _ = start(X, cardinalities)
    expected, _ = start_with_holes(X, cardinalities)
    for _ in range(8):
        went_on = advance(complete)
        assert advance(expected) == went_on
        assert shape(expected.circuit) == shape(complete.circuit)
        np.testing.assert_allclose(expected.log_likelihoods, complete.log_likelihoods)
        if not went_on:
            break
    expected.keep()
    points = worlds(cardinalities)
    np.testing.assert_allclose(
        expected.kept().log_likelihood(points),
        complete.to_circuit().log_likelihood(points),
        atol=1e-10,
    )


@given(rngs, domains(min_variables=2, max_variables=4))
@settings(max_examples=20)
def test_expected_flows_by_enumeration(rng, cardinalities):
    X = random_rows(rng, cardinalities, 40)
    X[rng.random(X.shape) < 0.3] = -1
    search, _ = start_with_holes(X, cardinalities)
    for _ in range(3):
        advance(search, rng=rng)
    # every point counts as often as rows are expected to be it
    points = worlds(cardinalities).astype(int)
    fits = ((X[:, None, :] == points) | (X[:, None, :] == -1)).all(axis=2)
    posterior = fits * distribution(search._model)
    posterior /= posterior.sum(axis=1, keepdims=True)
    uses = flows_at(search.circuit, points)
    for edge in search.candidates:
        rows, weights = search.rows_through(edge)
        assert (rows[weights > 0] < cardinalities).all()
        np.testing.assert_allclose(weights.sum(), posterior.sum(axis=0) @ uses[edge], atol=1e-9)


def flows_at(circuit, points):
    """For every edge which points use it, by definition."""
    variables = np.repeat(np.arange(len(circuit.cardinalities)), circuit.cardinalities)
    value = {
        unit: points[:, v] == unit - circuit.first[v] for unit, v in enumerate(variables.tolist())
    }
    by_depth = sorted(circuit.sums(), key=lambda unit: -circuit.depth[circuit.node[unit]])
    for unit in by_depth:
        inputs = [circuit.input_of[edge] for edge in circuit.edges[unit]]
        for below in inputs:
            if circuit.left[below] >= 0:
                value[below] = value[circuit.left[below]] & value[circuit.right[below]]
        value[unit] = np.any([value[below] for below in inputs], axis=0)
    flow, uses = {circuit.root: value[circuit.root]}, {}
    for unit in reversed(by_depth):
        for edge in circuit.edges[unit]:
            product = circuit.input_of[edge]
            uses[edge] = flow[unit] & value[product]
            for below in (circuit.left[product], circuit.right[product]):
                if below >= 0:
                    flow[below] = flow.get(below, np.zeros(len(points), dtype=bool)) | uses[edge]
    return uses


@given(rngs, domains(min_variables=2, max_variables=5))
@settings(max_examples=20)
def test_splits_inherit_weights_that_keep_the_distribution(rng, cardinalities):
    search, _ = start_with_holes(random_rows(rng, cardinalities, 20), cardinalities)
    for _ in range(4):
        advance(search, rng=rng, edge="random")
    before = distribution(search._model)
    edge = search.candidates.best(search.circuit)
    if edge is None:
        return
    circuit = search.circuit
    done = circuit.split(edge, variable_of(search, edge, rng=rng))
    theta = np.pad(search._theta, (0, len(circuit.sum_of) - len(search._theta)))
    _inherit(circuit, done, theta)
    after = ek.Circuit(circuit.vtree, tuple(blocks_of(circuit, plan(circuit), theta)))
    np.testing.assert_allclose(distribution(after), before, rtol=1e-12)


def test_missing_values(clusters):
    train, valid, test = (X.astype(float) for X in clusters)
    rng = np.random.default_rng(0)
    holes = np.where(rng.random(train.shape) < 0.2, np.nan, train)
    valid = np.where(rng.random(valid.shape) < 0.2, np.nan, valid)
    tree = learn_chow_liu(holes)
    p, told = steps(holes, iterations=25)
    assert ek.properties(p).deterministic
    assert p.vtree == tree.vtree
    assert p.log_likelihood(holes).mean() >= told[-1].log_likelihood - 1e-9
    assert p.log_likelihood(test).mean() > tree.log_likelihood(test).mean() + 0.03
    q, told = steps(holes, valid, 25, patience=5)
    assert ek.properties(q).deterministic
    assert len(told) <= 25


def test_missing_values_of_validation_rows_only(clusters):
    train, valid, _ = clusters
    holes = valid.astype(float)
    holes[:5, 2] = np.nan
    p, told = steps(train, holes, 10)
    values = [step.valid_log_likelihood for step in told]
    q = learn_strudel(train, iterations=1 + int(np.argmax(values)))
    assert_close(p.log_likelihood(valid), q.log_likelihood(valid))
    assert_close(np.float64(max(values)), p.log_likelihood(holes).mean())
