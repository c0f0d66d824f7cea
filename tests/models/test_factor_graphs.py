"""Factor graphs and networks against all worlds: answers, conditionals, interventions, masks."""

from itertools import product
from unittest.mock import patch

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import expectedkernels as ek
from assertions import assert_close, assert_frequencies, assert_logs_close, assert_raises, refusals
from expectedkernels.models import messages
from factor_graphs import factor_graphs, scores
from network_oracles import natural, random_network
from oracles import distribution, evidence_as_weights, evidence_weights, worlds
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
        log_z = model.condition(evidence).log_partition()
        np.testing.assert_allclose(log_z, np.log(expected), rtol=1e-13)
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
    *(([x], [1.0, 1.0], rf"The scope of a factor must be a sequence of ints\. Got \[{x}\]")
      for x in (0.5, True)),
], ek.Factor)  # fmt: skip


test_bad_factor_graphs = refusals(ek.CircuitError, [
    (([], []), "needs at least one variable"),
    (([2, 0], []), r"every variable one state\. Got the cardinalities \(2, 0\)"),
    (([2.0], []), r"The cardinalities must be a sequence of ints\. Got \[2\.0\]"),
    (([2, 2], [((0, 2), np.ones((2, 2)))]), r"Factor 0 .* has variables other than 0\.\.1"),
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


test_bad_networks = refusals(ek.CircuitError, [
    ([[]], [], "one list of parents and one table per variable. Got 1 and 0"),
    ([[]], [[0.5, 0.4]], r"probabilities of variable 0 must sum to one .* off by 0\.1"),
    ([[]], [[0.5, 0.4]], ["rain"], r"variable 0 \('rain'\) must sum to one"),
    ([[1], [0]], [np.eye(2), np.eye(2)], "form no cycle: variable 0 is an ancestor of itself"),
    ([[0]], [np.eye(2)], "names a variable once"),
    ([[], [0]], [[1.0], np.eye(2)], r"needs a table of shape \(1, 2\)"),
    ([[], [5]], [[1.0], np.eye(2)], "Factor 1 with scope"),
], ek.BayesianNetwork)  # fmt: skip


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


def drawn_evidence(rng, model):
    """A row with missing values and weights of states, which a possible world agrees with."""
    points = worlds(model.cardinalities)
    world = points[rng.choice(np.flatnonzero(scores(model) > 0))]
    row, soft = np.where(rng.random((1, len(world))) < 0.5, world, np.nan), []
    for state, card in zip(world.astype(int), model.cardinalities, strict=True):
        known = 0.5 * (np.arange(card) == state)
        some = rng.random(card) * (rng.random(card) < 0.6) * (rng.random() < 0.7) + known
        soft.append((some if rng.random() < 0.6 else np.ones(card))[None])
    return (row, evidence_as_weights(row, model.cardinalities)), (soft, soft)


@given(factor_graphs(), rngs, st.booleans(), st.sampled_from([messages.CUT, 0]))
def test_answers_are_those_of_all_worlds(model, rng, linear, cut):
    points = worlds(model.cardinalities).astype(int)
    vtree = ek.Vtree.right_linear(rng.permutation(model.n_variables).tolist()) if linear else None
    circuit, log_z = model.compile(vtree, "context")
    small = model.messages.message_bytes
    for evidence, weights in drawn_evidence(rng, model):
        values = scores(model) * evidence_weights(weights, points)[0]
        with patch.object(messages, "CUT", cut):
            log_total = model.log_partition(evidence)
            log_share = circuit.log_likelihood(evidence)
            answers = model.marginals(evidence), model.marginals(evidence, small)
            answers = (*answers, circuit.marginals(evidence))
        assert_close(log_total, np.log([values.sum()]))
        np.testing.assert_allclose(log_share + log_z, log_total, rtol=1e-12, atol=1e-12)
        for v, card in enumerate(model.cardinalities):
            expected = np.bincount(points[:, v], values, card) / values.sum()
            for found in answers:
                np.testing.assert_allclose(found[v][0], expected, rtol=1e-11, atol=1e-13)
        best = model.map(evidence)[0]
        assert_close(values[(points == best).all(axis=1)][0], values.max())


def test_ranges_beyond_doubles():
    rng = np.random.default_rng(0)
    chain = [((i, i + 1), 10.0 ** rng.uniform(-300, 300, (3, 3))) for i in range(30)]
    model = ek.FactorGraph([3] * 31, chain)
    message = np.zeros(3)
    for _, table in chain:
        message = np.logaddexp.reduce(message[:, None] + np.log(table), axis=0)
    assert_close(model.log_partition(), np.logaddexp.reduce(message))
    circuit, _ = model.compile()
    for ours, theirs in zip(model.marginals(), circuit.marginals(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)
    with pytest.warns(UserWarning, match="84 conditional probabilities of the model are below"):
        best = circuit.map([np.nan] * 31)
    assert_close(model.log_score(model.map([np.nan] * 31)[None]), model.log_score(best[None]))
    drawn = model.sample(20, rng=0)
    assert (model.log_score(drawn) > -np.inf).all()


@pytest.mark.parametrize("tiny", [1e-200, 1e-300])
def test_opposite_factors_over_one_scope(tiny):
    # every product is tiny, though each table has an entry of one: log Z must not lose the scale
    ends = np.array([1.0, tiny])
    single = ek.FactorGraph([2], [((0,), ends), ((0,), ends[::-1])])
    square = np.array([[1.0, tiny], [tiny, 1.0]])
    pair = ek.FactorGraph([2, 2], [((0, 1), square), ((0, 1), square[::-1])])
    for model in (single, pair):
        exact = np.log(np.prod(model.cardinalities)) + np.log(tiny)
        for log_z in (model.log_partition(), model.compile()[1]):
            np.testing.assert_allclose(log_z, exact, rtol=1e-14)
        np.testing.assert_allclose(model.marginals(), 0.5, rtol=1e-12)


@given(factor_graphs(max_worlds=60))
def test_samples_have_the_frequencies_of_the_model(model):
    assert_frequencies(model.sample(2000, rng=0), scores(model).reshape(model.cardinalities))


def test_names_labels_and_batches():
    model = ek.asia()
    found = model.marginals({"smoke": "yes"})
    assert_close(found["lung"], np.array([0.1, 0.9]))
    rows = np.full((3, 8), np.nan)
    rows[1, 2], rows[2, 6] = 0, 1
    for v, array in enumerate(model.marginals(rows)):
        assert array.shape == (3, 2)
        assert_close(array[1], found[v])
    assert model.log_partition(rows).shape == (3,)
    assert model.map(rows).shape == (3, 8)
    assert model.map(rows[1], as_frame=False).shape == (8,)
    assert model.sample(4, 0, rows).shape == (3, 4, 8)
    frame = model.sample(4, 0, {"smoke": "yes"}, as_frame=True)
    assert set(frame["smoke"]) == {"yes"}
    assert model.sample(2, 0, rows, as_frame=True).index.nlevels == 2
    assert model.map({"dysp": "yes"})["dysp"].tolist() == ["yes"]
    assert "_circuit" not in vars(model)
    many = rows[np.arange(200) % 3]
    for few, array in zip(model.marginals(rows), model.marginals(many), strict=True):
        assert_close(array[:3], few)
    assert "_circuit" in vars(model)  # which answers many rows
    assert model.map(many).shape == (200, 8)
    assert model.sample(3, 0, many).shape == (200, 3, 8)
    assert [array.shape for array in model.marginals(rows[:0])] == [(0, 2)] * 8


def test_impossible_evidence():
    model = ek.FactorGraph([2, 2], [ek.Factor([0, 1], np.eye(2))])
    circuit, _ = model.compile()
    for ask in (
        *(circuit.marginals, model.marginals, model.map),
        lambda evidence: model.sample(3, 0, evidence),
    ):
        assert_raises(ek.EvidenceError, "row 0 has probability zero", ask, {0: 0, 1: 1})
        with pytest.raises(ek.EvidenceError, match="row 1 has probability zero"):
            ask(np.array([[0.0, np.nan], [1.0, 0.0]]))
    assert model.log_partition({0: 0, 1: 1}) == -np.inf
    assert circuit.log_likelihood([[0, 1], [0, np.nan]])[0] == -np.inf
    zero = ek.FactorGraph([2, 2], [ek.Factor([0, 1], np.zeros((2, 2)))])
    for ask, *what in ((zero.marginals,), (zero.log_partition,), (zero.sample, 3), (zero.map, {})):
        assert_raises(ek.PropertyError, r"multiply to zero at every state", ask, *what)


def test_models_that_do_not_fit_are_refused():
    grid = ek.ising_grid(6, 6, rng=0)
    for ask in (grid.marginals, grid.log_partition):
        assert_raises(ek.SizeError, r"Variable elimination needs about", ask, max_bytes=1000)
    assert_raises(ek.SizeError, "more than max_bytes", ek.ising_grid(30, 30, rng=0).marginals)


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


def truncated(network, actions):
    """The joint distribution after actions, by truncated factorisation."""
    tables = list(network.cpts)
    for v, action in actions.items():
        share = action if np.ndim(action) else np.eye(network.cardinalities[v])[action]
        tables[v] = np.broadcast_to(share, tables[v].shape)
    return scores(network, tables)


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
    done = scores(network.do(actions))
    np.testing.assert_allclose(done, truncated(network, actions), atol=1e-14)


@settings(max_examples=60)
@given(rng=rngs)
def test_natural_actions_leave_the_variable_its_own_value(rng):
    network = random_network(rng, least=2)
    chosen = rng.permutation(network.n_variables)[: rng.integers(1, 3)].tolist()
    actions = {v: int(rng.integers(network.cardinalities[v])) for v in chosen}
    made = network.do(actions, natural=True)
    np.testing.assert_allclose(scores(made), natural(network, actions), atol=1e-14)
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
    wanted = scores(done[0]) - scores(done[1])
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
