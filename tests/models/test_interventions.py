"""Networks from arcs, interventions, and masks of missing values."""

from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings

import expectedkernels as ek
from assertions import assert_raises, refusals
from network_oracles import joint, natural, random_network
from oracles import worlds
from strategies import rngs


def truncated(network, actions):
    """The joint distribution after actions, by truncated factorisation."""
    tables = list(network.cpts)
    for v, action in actions.items():
        share = action if np.ndim(action) else np.eye(network.cardinalities[v])[action]
        tables[v] = np.broadcast_to(share, tables[v].shape)
    return joint(network, tables)


@settings(max_examples=60)
@given(rng=rngs)
def test_actions_are_truncated_factorisations(rng):
    network = random_network(rng, least=2)
    n, cards = network.n_variables, network.cardinalities
    actions = {}
    for v in rng.permutation(n)[: rng.integers(1, 3)].tolist():
        kind = rng.integers(3)
        actions[v] = int(rng.integers(cards[v]))
        if kind == 1:
            actions[v] = rng.dirichlet(np.ones(cards[v]))
        elif kind == 2 and network.parents[v]:
            actions[v] = rng.dirichlet(np.ones(cards[v]), size=network.cpts[v].shape[:-1])
    done = joint(network.do(actions))
    np.testing.assert_allclose(done, truncated(network, actions), atol=1e-14)


@settings(max_examples=60)
@given(rng=rngs)
def test_natural_actions_leave_the_variable_its_own_value(rng):
    network = random_network(rng, least=2)
    chosen = rng.permutation(network.n_variables)[: rng.integers(1, 3)].tolist()
    actions = {v: int(rng.integers(network.cardinalities[v])) for v in chosen}
    made = network.do(actions, natural=True)
    np.testing.assert_allclose(joint(made), natural(network, actions), atol=1e-14)
    for u in actions:
        assert all(u not in above for above in made.parents)


def test_interventions_of_one_network_are_compatible():
    network = ek.asia()
    done = [network.do({"smoke": "yes"}), network.do({"lung": [0.3, 0.7]}), network]
    done.append(network.do({"bronc": "no"}, natural=True))
    circuits = [model.circuit() for model in done]
    pairs = [model.compile(for_pairs=True)[0] for model in done]
    for p, q in (*product(circuits, repeat=2), *product(pairs, repeat=2)):
        assert ek.is_compatible(p, q)
    wanted = joint(done[0]) - joint(done[1])
    k = ek.ExpHamming()(worlds([2] * 8), worlds([2] * 8))
    np.testing.assert_allclose(ek.mmd2(done[0], done[1]), wanted @ k @ wanted, atol=1e-14)
    assert done[0].sample(3, rng=0)[:, 2].tolist() == [0.0] * 3


test_wrong_actions_are_refused = refusals(ek.CircuitError, [
    ({"smoke": [0.5, 0.5]}, {"natural": True}, r"sets variables to states. Got a distribution for"),
    ({"smoke": [0.2, 0.3, 0.5]}, {}, r"is a state, 2 probabilities or a table of shape \(2,\)"),
    ({"dysp": np.ones((2, 2))}, {}, r"table of shape \(2, 2, 2\). Got an array of shape \(2, 2\)"),
    ({"smoke": [0.2, 0.3]}, {}, "must sum to one"),
    ({"smoke": ["a", "b"]}, {}, "must be an array of numbers"),
    ({"smoke": "maybe"}, {}, "A state of variable 2"),
    ({"dysp": [[1], [2, 3]]}, {}, "must be an array of numbers"),
    ({"smoke": "yes", 2: "no"}, {}, "'actions' .* must be a mapping from variables, each once"),
    ("smoke", {}, "'actions' parameter of do must be a mapping from variables"),
    ({"smoking": "yes"}, {}, "Did you mean 'smoke'"),
], lambda actions, options: ek.asia().do(actions, **options))  # fmt: skip


def test_arcs_make_networks_of_the_columns():
    frame = pd.DataFrame({"a": ["x", "y", None], "b": [4, 8, 4], "c": [True, None, False]})
    network = ek.BayesianNetwork.from_arcs([("a", "b"), ("c", "b"), ("a", "b")], frame)
    assert network.names == ["a", "b", "c"]
    assert network.states == [["x", "y"], [4, 8], [False, True]]
    assert network.parents == ((), (0, 2), ())
    np.testing.assert_array_equal(network.cpts[1], np.full((2, 2, 2), 0.5))
    same = ek.BayesianNetwork.from_arcs([("a", "b"), ("c", "b")], pl.from_pandas(frame))
    assert same.states == network.states
    coded = ek.BayesianNetwork.from_arcs([(0, 1)], [[0, 2], [np.nan, 1], [0, 0]])
    assert coded.cardinalities == (2, 3)
    assert coded.names is None


test_wrong_arcs_and_columns_are_refused = refusals(None, [
    ([(0, 1), (1, 0)], [[0, 1]], ek.CircuitError, "form no cycle: variable 0 is an ancestor of"),
    ([(0, 5)], [[0, 1]], ek.EvidenceError, r"is an int in 0..1. Got 5"),
    ([], pd.DataFrame({"a": [0.5, 1.5]}), ek.DataError, r"states of variable 0 \('a'\) are not kn"),
    ([], [[np.nan, 1]], ek.DataError, "states of variable 0 are not known: its column has no val"),
    ([], [0, 1], ek.EvidenceError, "must be a 2-D array"),
    ([(0, 1, 0)], [[0, 1]], ek.CircuitError, "must be pairs of a parent and its child"),
    ([(1, 1)], [[0, 1]], ek.CircuitError, r"its child, another variable. Got \(1, 1\)"),
    (None, [[0, 1]], ek.EvidenceError, "is an int in 0..1. Got None"),
    ([], np.empty((0, 2)), ek.DataError, "states of variable 0 are not known"),
    ([], None, ek.EvidenceError, "must be a 2-D array"),
    ([], {"a": ["x", "y"]}, ek.DataError, "Got a mapping .* Give a data frame"),
    ([], [[0, -2]], ek.EvidenceError, r"must be integers in 0..1. Got -2"),
    ([], [[0, 1.5]], ek.EvidenceError, r"must be integers in 0..1. Got 1.5"),
    ([], [[0, 10**15]], ek.SizeError, "A network of these arcs needs"),
    ([], pd.DataFrame({"a": [None, None]}), ek.DataError, "'a' has no values, so its states are"),
], ek.BayesianNetwork.from_arcs)  # fmt: skip


def test_masks_are_added_and_removed():
    network = ek.asia()
    masked = network.with_masks({"xray": ["dysp", "smoke"], "dysp": "xray"})
    assert masked.names[8:] == ["missing xray", "missing dysp"]
    assert masked.states[8] == ["observed", "missing"]
    assert masked.parents[8] == (7, 2)
    again = masked.with_masks({"smoke": ["missing xray"]})
    assert again.parents[10] == (8,)
    assert again.without_masks().names == network.names
    for one, other in zip(again.without_masks().cpts, network.cpts, strict=True):
        np.testing.assert_array_equal(one, other)
    X = network.sample(4, rng=0)
    X[1, 6] = X[2, 7] = np.nan
    rows = masked.mask_columns(X)
    np.testing.assert_array_equal(rows[:, 8:], [[0, 0], [1, 0], [0, 1], [0, 0]])
    frame = masked.mask_columns(network.schema.frame(X)[network.names[::-1]])
    assert frame["missing xray"].tolist() == ["observed", "missing", "observed", "observed"]
    assert frame.columns.tolist() == masked.names
    numbered = ek.BayesianNetwork([[], [0]], [[0.5, 0.5], [[0.5, 0.5]] * 2]).with_masks({0: 1})
    assert numbered.names == ["0", "1", "missing 0"]
    np.testing.assert_array_equal(numbered.mask_columns([[np.nan, 1]]), [[np.nan, 1, 1]])


def test_masks_that_are_causes_and_weights_are_refused():
    frame = pd.DataFrame({"a": [0, 1], "missing a": [0, 1], "b": [0, 1]})
    network = ek.BayesianNetwork.from_arcs([("missing a", "b")], frame)
    assert_raises(ek.CircuitError, r"The mask of 'a' may not be a cause of", network.without_masks)
    with pytest.raises(ek.CircuitError, match="The mask of 'a' may not be a cause of 'b'"):
        network.mask_columns(frame[["a", "b"]])
    masked = ek.asia().with_masks({"xray": "dysp"})
    with pytest.raises(ek.DataError, match=r"Masks are of rows with missing values. Got weight"):
        masked.mask_columns([np.ones((1, 2))] * 8)
    match = "'causes' parameter of with_masks must be a mapping"
    assert_raises(ek.CircuitError, match, ek.asia().with_masks, ["xray"])
    assert ek.asia().with_masks({"xray": ["dysp", 7]}).parents[8] == (7,)
    assert_raises(ek.CircuitError, "10 different labels", masked.with_masks, {"xray": "dysp"})
