import numpy as np
import pytest
from hypothesis import given, strategies as st

import expectedkernels as ek
from assertions import assert_logs_close, assert_raises, refusals
from factor_graphs import factor_graphs, scores
from network_oracles import random_network
from oracles import distribution, worlds
from strategies import rngs


@given(factor_graphs())
def test_log_score(model):
    with np.errstate(divide="ignore"):
        expected = np.log(scores(model))
    assert_logs_close(model.log_score(worlds(model.cardinalities)), expected)


def test_condition_on_sets_weights_and_names():
    table = np.arange(1.0, 7.0).reshape(2, 3)
    model = ek.FactorGraph(
        [2, 3], [((0, 1), table)], names=["rain", "sky"], states=[["no", "yes"], ["a", "b", "c"]]
    )
    for evidence, expected in [
        ({"rain": "yes"}, table[1].sum()),
        ({"rain": 1, 1: "c"}, table[1, 2]),
        ({"sky": {"a", 2}}, table[:, [0, 2]].sum()),
        ({"sky": [0.5, 2.0, 0.0]}, (table @ [0.5, 2.0, 0.0]).sum()),
        ({"sky": np.nan}, table.sum()),
        ({0: np.float64(1), 1: np.int64(1)}, table[1, 1]),
        ({}, table.sum()),
    ]:
        np.testing.assert_allclose(
            model.condition(evidence).log_partition(), np.log(expected), rtol=1e-13
        )
    assert model.condition({"rain": 0}).names == ["rain", "sky"]


def test_factors_are_values():
    table = np.ones((2, 2))
    factor = ek.Factor([0, 1], table)
    table[0, 0] = 5.0
    assert factor.table.sum() == 4.0
    with pytest.raises(ValueError, match="read-only"):
        factor.table[0, 0] = 2.0


test_bad_factors = refusals(ek.CircuitError, [
    ([0, 0], np.ones((2, 2)), r"names a variable once: take the diagonal.* \(0, 0\)"),
    ([0, 1], np.ones(4), r"one axis per variable\. Got 1 axes for scope \(0, 1\)"),
    ([0], [1.0, -0.5], r"finite and not negative\. Got -0\.5 for scope \(0,\)"),
    ([0], [1.0, np.nan], r"finite and not negative\. Got nan"),
    ([0], [1.0, np.inf], r"finite and not negative\. Got inf"),
    ([0.5], [1.0, 1.0], r"The scope of a factor must be a sequence of ints\. Got \[0\.5\]"),
    ([True], [1.0, 1.0], r"The scope of a factor must be a sequence of ints\. Got \[True\]"),
], ek.Factor)  # fmt: skip


test_bad_factor_graphs = refusals(ek.CircuitError, [
    (([], []), "needs at least one variable"),
    (([2, 0], []), r"every variable one state\. Got the cardinalities \(2, 0\)"),
    (([2.0], []), r"The cardinalities must be a sequence of ints\. Got \[2\.0\]"),
    (([2, 2], [((0, 2), np.ones((2, 2)))]),
     r"Factor 0 with scope \(0, 2\) has variables other than 0\.\.1"),
    (([2, 2], [((-1,), [1, 1])]), r"Factor 0 with scope \(-1,\) has variables other than 0\.\.1"),
    (([2, 3], [((1, 0), np.ones((2, 3)))]), r"shape \(3, 2\), .* Got shape \(2, 3\)"),
    (([2, 2], [], ["a"]), r"names of the variables must be 2 different labels\. Got \['a'\]"),
], lambda arguments: ek.FactorGraph(*arguments))  # fmt: skip


NAMED = ek.FactorGraph([2, 2], [], names=["a", "b"], states=[["no", "yes"], ["x", "y"]])


test_bad_evidence = refusals(ek.EvidenceError, [
    ({5: 0}, r"an int in 0\.\.1, or one of its names, 'a', 'b'\. Got 5 instead"),
    ({0: 2}, r"A state of variable 0 \('a'\) is an int in 0\.\.1 or one of .* 'no', 'yes'\. Got 2"),
    ({0: "maybe"}, "Got 'maybe' instead"),
    ({0: [1.0, 2.0, 3.0]}, r"weights of variable 0 \('a'\) must be .* shape \(rows, 2\)"),
    ([[0.0, 1.0]] * 2, "one row with an entry per variable, 2 in all. Got 2 rows"),
], NAMED.condition)  # fmt: skip


@given(rngs, st.integers(1, 6))
def test_bayesian_networks(rng, n):
    network = random_network(rng, n)
    assert network.cardinalities == tuple(table.shape[-1] for table in network.cpts)
    circuit, log_z = network.compile()
    np.testing.assert_allclose(log_z, 0.0, atol=1e-12)
    np.testing.assert_allclose(distribution(circuit), scores(network), rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize(("parents", "cpts", "message"), [
    ([[]], [], "one list of parents and one table per variable. Got 1 and 0"),
    ([[]], [[0.5, 0.4]], r"probabilities of variable 0 must sum to one .* off by 0\.1"),
    ([[1], [0]], [np.eye(2), np.eye(2)], "form no cycle: variable 0 is an ancestor of itself"),
    ([[0]], [np.eye(2)], "names a variable once"),
    ([[], [0]], [[1.0], np.eye(2)], r"needs a table of shape \(1, 2\)"),
    ([[], [5]], [[1.0], np.eye(2)], "Factor 1 with scope"),
])  # fmt: skip
def test_bad_networks(parents, cpts, message):
    assert_raises(ek.CircuitError, message, ek.BayesianNetwork, parents, cpts)
    with pytest.raises(ek.CircuitError, match=r"variable 0 \('rain'\) must sum to one"):
        ek.BayesianNetwork([[]], [[0.5, 0.4]], ["rain"])


@given(factor_graphs())
def test_smoothing_raises_zeros_and_nothing_else(model):
    smooth = model.smoothed(0.01)
    assert smooth.is_positive
    assert model.is_positive == all((f.table > 0).all() for f in model.factors)
    for before, after in zip(model.factors, smooth.factors, strict=True):
        wanted = np.where(before.table == 0, 0.01 * before.table.max(), before.table)
        np.testing.assert_array_equal(after.table, wanted)


def test_smoothing_keeps_conditional_probabilities():
    network = ek.BayesianNetwork([[], [0]], [[0.8, 0.2], [[0.0, 0.25, 0.75], [0.0, 0.0, 1.0]]])
    smooth = network.smoothed(0.01)
    np.testing.assert_allclose(smooth.cpts[0], [0.8, 0.2])
    wanted = [[0.01, 0.25 * 0.99, 0.75 * 0.99], [0.01, 0.01, 0.98]]
    np.testing.assert_allclose(smooth.cpts[1], wanted)
    assert smooth.is_positive
    assert_raises(ek.CircuitError, "'epsilon' parameter of smoothed", network.smoothed, 0.0)
    assert_raises(ek.CircuitError, "leaves nothing for the possible states", network.smoothed, 0.5)
