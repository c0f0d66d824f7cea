"""Tables of networks from incomplete rows: EM against enumeration, starts, priors, chunks."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from scipy.special import xlogy

import expectedkernels as ek
from assertions import assert_raises, refusals
from factor_graphs import factor_graphs, grid_scopes
from network_oracles import enumerated_counts, evidence_like, incomplete, joint, random_network
from networks import bif_of_pgmpy
from oracles import evidence_as_weights
from strategies import rngs

MODULE = "expectedkernels.learning.network_tables"


def learn(network, X, iterations=200, **options):
    return ek.learn_tables(network, X, iterations, progress=False, **options)


def conditionals(counts, old):
    total = counts.sum(axis=-1, keepdims=True)
    return np.where(total > 0, counts / np.where(total > 0, total, 1.0), old)


def assert_same_tables(found, wanted, rtol=1e-11, atol=1e-14):
    for table, other in zip(found.cpts, wanted.cpts, strict=True):
        np.testing.assert_allclose(table, other, rtol=rtol, atol=atol)


def step(network, X, **options):
    """The tables after one iteration from those of a network, and its mean log-likelihood."""
    means = []
    settings = {"start": "tables", "pseudocount": 0.0, "callback": lambda _, x: means.append(x)}
    return learn(network, X, 1, **settings, **options), means[0]


@settings(max_examples=60)
@given(rng=rngs)
def test_counts_and_likelihoods_are_those_of_enumeration(rng):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{MODULE}.PER_BUCKET", int(rng.choice([0, 10**9])))
        network, n = random_network(rng), 8
        X = np.asarray(network.sample(n, rng=rng), dtype=float)
        weights = []
        for v, card in enumerate(network.cardinalities):
            own = np.eye(card)[X[:, v].astype(int)] * rng.choice([1.0, 0.3], size=(n, 1))
            soft = rng.random((n, card)) + 0.1 * own
            kind = rng.integers(3, size=(n, 1))
            weights.append(np.where(kind == 0, own, np.where(kind == 1, soft, 1.0)))
        sample_weight = rng.random(n) + 0.1
        found, mean = step(network, weights, sample_weight=sample_weight)
        logs, counts = enumerated_counts(network, weights, sample_weight)
        np.testing.assert_allclose(mean, sample_weight @ logs / sample_weight.sum(), rtol=1e-12)
        for table, count, old in zip(found.cpts, counts, network.cpts, strict=True):
            np.testing.assert_allclose(table, conditionals(count, old), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("per_bucket", [0, 10**9], ids=["cut", "plain"])
def test_em_is_that_of_enumeration_and_the_objective_never_decreases(per_bucket, monkeypatch):
    monkeypatch.setattr(f"{MODULE}.PER_BUCKET", per_bucket)
    network = ek.asia()
    X = incomplete(network, 300, 0.4)
    weights = evidence_as_weights(X, network.cardinalities)
    start, same, other = (learn(network, X, 0, start="random", rng=i) for i in (1, 1, 0))
    assert_same_tables(start, same, 0.0, 0.0)
    assert np.abs(start.cpts[7] - other.cpts[7]).max() > 0.01
    naive, objectives, alpha = start, [], 0.5
    for _ in range(8):
        logs, counts = enumerated_counts(naive, weights, np.ones(len(X)))
        prior = sum(float(xlogy(alpha, t).sum()) for t in naive.cpts)
        objectives.append((logs.sum() + prior) / len(X))
        tables = [conditionals(c + alpha, t) for c, t in zip(counts, naive.cpts, strict=True)]
        naive = ek.BayesianNetwork(naive.parents, tables)
    found = []
    options = {"start": "tables", "tolerance": None, "callback": lambda _, x: found.append(x)}
    options["pseudocount"] = [np.full(t.shape, alpha) for t in start.cpts]
    fitted = learn(start, X, 8, **options)
    np.testing.assert_allclose(found, objectives, rtol=1e-12)
    assert (np.diff(found) > 0).all()
    assert_same_tables(fitted, naive, 1e-10, 1e-13)


def test_soft_evidence_and_weights_of_any_scale_count_the_same():
    network = ek.asia()
    weights = np.random.default_rng(0).random((8, 40, 2)) + 0.01
    scales = 10.0 ** np.linspace(-300, 300, 40)[:, None]
    pair = [step(network, list(x)) for x in (weights, [weights[0] * scales, *weights[1:]])]
    assert_same_tables(pair[0][0], pair[1][0])
    np.testing.assert_allclose(pair[1][1] - pair[0][1], np.log(scales).mean(), atol=1e-9)
    X = incomplete(network, 100, 0.3)
    weights = np.random.default_rng(0).random(len(X))
    options = {"start": "random", "rng": 0, "tolerance": None}
    every = (weights, 2.0 * weights)  # pseudocounts are per mean weight
    assert_same_tables(*(learn(network, X, 4, sample_weight=w, **options) for w in every))


def test_forms_of_data_give_the_same_tables():
    network = ek.asia()
    X = incomplete(network, 400, 0.3)
    wanted = learn(network, X, 5, tolerance=None)
    frame = network.schema.frame(X)[list(network.names)[::-1]]
    weights = evidence_as_weights(X, network.cardinalities)
    chunks = [X[:150], X[150:151], X[151:]]
    forms = [frame, weights, lambda: iter(chunks), [frame.iloc[:100], frame.iloc[100:]]]
    for form in forms:
        assert_same_tables(learn(network, form, 5, tolerance=None), wanted)
    few = learn(network, X, 5, tolerance=None, max_bytes=2**15)  # rows in parts
    assert_same_tables(few, wanted)


def test_fixed_tables_stay_and_the_objective_still_grows():
    network = ek.asia()
    X = incomplete(network, 300, 0.4)
    means = []
    found = learn(network, X, 10, fixed=["either", 6], callback=lambda _, x: means.append(x))
    for fitted, v in ((found, 5), (found, 6), (learn(network, X, 2, fixed=5), 5)):
        assert fitted.cpts[v] is not network.cpts[v]
        np.testing.assert_array_equal(fitted.cpts[v], network.cpts[v])
    assert (np.diff(means) >= -1e-12).all()
    assert np.abs(found.cpts[4] - network.cpts[4]).max() > 1e-4


def test_zeros_stay_zero_with_the_start_tables_and_get_no_pseudocount():
    network = ek.asia()  # 'either' is certain given its parents
    X = incomplete(network, 300, 0.4)
    assert set(np.unique(learn(network, X, 5, start="tables").cpts[5])) == {0.0, 1.0}
    assert (learn(network, X, 5).cpts[5] > 0).all()
    X[17], X[17, 1], X[17, 5] = np.nan, 0, 1  # tuberculosis, and neither of both
    learn(network, X, 2)
    message = "Row 17 of X is impossible: the tables have probabili"
    assert_raises(ek.DataError, message, learn, network, X, 2, start="tables")


def test_hidden_variables_start_at_random():
    rng = np.random.default_rng(0)
    tables = [[0.4, 0.6]] + [[[0.9, 0.1], [0.2, 0.8]]] * 4
    network = ek.BayesianNetwork([[]] + [[0]] * 4, tables)
    X = np.asarray(network.sample(1500, rng=0), dtype=float)
    X[:, 0] = np.nan
    means = []
    found = learn(network, X, rng=rng, callback=lambda _, x: means.append(x))
    truth = network.log_likelihood(X).mean()
    assert found.log_likelihood(X).mean() > truth - 1e-3
    assert abs(np.sort(found.cpts[0])[0] - 0.4) < 0.05
    uniform = ek.BayesianNetwork.from_arcs([(0, v) for v in range(1, 5)], np.ones((1, 5)))
    stuck = learn(uniform, X, start="tables")
    assert stuck.log_likelihood(X).mean() < truth - 0.1  # a saddle point


def test_rows_beyond_the_range_of_doubles_are_counted():
    n = 400
    tables = [[0.0, 1.0]] + [[[0.01, 0.99], [0.999, 0.001]]] * n
    network = ek.BayesianNetwork([[]] + [[0]] * n, tables)
    X = np.ones((3, n + 1))
    X[:, 0], X[2, 1:300] = np.nan, 0
    found, mean = step(network, X)
    logs = [n * np.log(0.001), n * np.log(0.001), 299 * np.log(0.999) + 101 * np.log(0.001)]
    np.testing.assert_allclose(mean, np.mean(logs), rtol=1e-12)
    np.testing.assert_allclose(found.cpts[1][1], [1 / 3, 2 / 3], rtol=1e-12)
    np.testing.assert_allclose(found.cpts[-1][1], [0.0, 1.0], rtol=1e-12)
    possible = ek.BayesianNetwork(network.parents, [[1e-300, 1.0], *tables[1:]])
    _, mean = step(possible, X[:2])
    np.testing.assert_allclose(mean, np.log(1e-300) + n * np.log(0.99), rtol=1e-12)
    least = [[1e-20, 1.0], [1e-300, 1.0]]  # products have inverses that are no doubles
    tiny = ek.BayesianNetwork([[], [0], [0]], [[1e-300, 1.0], least, least])
    _, mean = step(tiny, [[np.nan, 0, 0]])
    np.testing.assert_allclose(mean, -340 * np.log(10), rtol=1e-12)


@settings(max_examples=40)
@given(model=factor_graphs(max_worlds=60), rng=rngs)
def test_factor_graphs_of_any_scopes_are_fitted(model, rng):
    X = np.asarray(model.sample(6, rng=rng), dtype=float)
    X[rng.random(X.shape) < 0.4] = np.nan
    values, means = joint(model), []
    found = learn(model, X, 3, tolerance=None, callback=lambda _, x: means.append(x))
    weights = evidence_as_weights(X, model.cardinalities)
    wanted = np.log((evidence_like(model, weights) @ values) / values.sum()).mean()
    np.testing.assert_allclose(means[0], wanted, rtol=1e-9, atol=1e-12)
    assert (np.diff(means) >= -1e-9).all()
    assert type(found) is ek.FactorGraph
    assert found.log_likelihood(X).mean() >= means[-1] - 1e-9
    assert [f.scope for f in found.factors] == [f.scope for f in model.factors]


def test_complete_rows_of_a_grid_match_all_marginals():
    rng = np.random.default_rng(0)
    grid = ek.FactorGraph([2] * 6, [(s, rng.random((2, 2)) + 0.2) for s in grid_scopes(2, 3)])
    X = grid.sample(400, rng=0)
    ones = ek.FactorGraph([2] * 6, [(f.scope, np.ones((2, 2))) for f in grid.factors])
    found = learn(ones, X, 500, tolerance=1e-13)
    for factor in found.factors:
        pairs = X[:, list(factor.scope)].astype(int)
        wanted = np.zeros((2, 2))
        np.add.at(wanted, tuple(pairs.T), 1 / len(X))
        a, b = factor.scope
        both = found.circuit().marginals({a: 1})[b] * found.marginals()[a][1]
        np.testing.assert_allclose(both, wanted[1], atol=1e-5)
    learn(ek.FactorGraph([2, 2], [((), 0.0)]), [[0, 1]])  # constants are left as they are


@pytest.mark.parametrize(
    ("name", "share", "kl"),
    [("alarm", 0.2, 0.092), ("alarm", 0.5, 0.168), ("insurance", 0.2, 0.257)],
)
def test_networks_of_the_literature_are_learned(name, share, kl):
    truth, means = ek.read_bif(bif_of_pgmpy(name)), []
    X = incomplete(truth, 2000, share, seed=1)
    found = learn(truth, X, tolerance=1e-5, callback=lambda _, x: means.append(x))
    assert (np.diff(means) > 0).all()
    assert ek.mechanism_change(found, truth, target=0).divergences.sum() < 1.1 * kl


def test_progress_callbacks_and_interrupts():
    network = ek.asia()
    X = incomplete(network, 200, 0.3)
    seen = []

    def stop(fitted, mean):
        seen.append((fitted, mean))
        if len(seen) == 3:
            raise KeyboardInterrupt

    found = learn(network, X, callback=stop, tolerance=None)
    assert len(seen) == 3
    assert isinstance(found, ek.BayesianNetwork)
    assert seen[0][0].names == network.names
    assert_same_tables(found, seen[-1][0], 0.0, 0.0)
    assert seen[0][1] < seen[1][1] < seen[2][1]


def test_networks_of_other_libraries_are_taken(gum):
    X = incomplete(ek.asia(), 200, 0.3)
    wanted = learn(ek.asia(), X, 3)
    found = learn(ek.models.to_pyagrum(ek.asia()), ek.asia().schema.frame(X), 3)
    assert ek.mmd(found, wanted) < 1e-7
    again = ek.as_model(ek.models.to_pgmpy(found))
    assert ek.mmd(again, wanted) < 1e-7


USED = iter([incomplete(ek.asia(), 5, 0.2)])
GRID = ek.FactorGraph([2, 2], [((0, 1), np.ones((2, 2)))])
IMPOSSIBLE = ek.FactorGraph([2, 2], [((0,), [0.0, 0.0])])


test_wrong_arguments_are_refused = refusals(None, [
    ({"fixed": ["x"]}, ek.CircuitError, "'fixed' parameter names 'x', which is no variable of"),
    ({"fixed": "xrays"}, ek.CircuitError, "'fixed' parameter names 'xrays', which is no"),
    ({"fixed": None}, ek.CircuitError, "'fixed' parameter names None, which is no variable"),
    ({"fixed": [0], "network": GRID, "X": [[0, 1]]}, ek.CircuitError, "'fixed' .* names 0"),
    ({"start": "zeros"}, ek.CircuitError, "'start' parameter of learn_tables must be 'data', "),
    ({"pseudocount": -1.0}, ek.CircuitError, "'pseudocount' parameter of learn_tables must be"),
    *(
        ({"pseudocount": wrong}, ek.CircuitError, "in the shape of every table")
        for wrong in (
            [np.ones(2)],
            *([np.full(t.shape, x) for t in ek.asia().cpts] for x in (np.nan, -1.0)),
        )
    ),
    ({"pseudocount": [["a"]] * 8}, ek.DataError, "Pseudocounts must be arrays of numbers"),
    ({"iterations": -1}, ek.CircuitError, "'iterations' parameter of learn_tables"),
    ({"callback": 3}, ek.CircuitError, "'callback' parameter of learn_tables"),
    ({"X": np.empty((0, 8))}, ek.DataError, "learn_tables needs at least one row of data. Got"),
    ({"X": lambda: USED}, ek.DataError, "the second time there were none"),
    ({"network": 3}, ek.CircuitError, "'network' parameter of learn_tables must be a FactorGr"),
    ({"network": IMPOSSIBLE, "X": [[0, 1]]}, ek.DataError, "Row 0 of X is impossible"),
    ({"max_bytes": 100}, ek.SizeError, "An incomplete row needs about .* more than max_bytes=100"),
    ({"tolerance": -1.0}, ek.CircuitError, "'tolerance' parameter of learn_tables"),
], lambda options: learn(**{"network": ek.asia(), "X": [[np.nan] * 8]} | options))  # fmt: skip


def test_parts_of_rows_are_in_memory_one_by_one():
    rng = np.random.default_rng(0)
    tables = [np.full(400, 1 / 400), *rng.dirichlet(np.ones(4), size=(8, 400))]
    wide = ek.BayesianNetwork([[], *[[0]] * 8], tables)
    X = np.column_stack([np.full(4000, np.nan), rng.integers(4, size=(4000, 8))])
    tracemalloc.start()
    learn(wide, X, 1, start="tables", max_bytes=2**20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 2**20  # all tables take 12 MiB


def test_frames_with_labels_and_hidden_columns():
    rng = np.random.default_rng(0)
    rain = rng.random(300) < 0.3
    wet = np.where(rng.random(300) < 0.1, ~rain, rain)
    frame = pd.DataFrame({"rain": np.where(rain, "yes", "no"), "wet": np.where(wet, "wet", "dry")})
    frame.loc[rng.random(300) < 0.3, "rain"] = None
    network = ek.BayesianNetwork.from_arcs([("rain", "wet")], frame)
    found = learn(network, frame)
    assert found.states == [["no", "yes"], ["dry", "wet"]]
    np.testing.assert_allclose(found.cpts[1], [[0.9, 0.1], [0.1, 0.9]], atol=0.06)
    frame["cloud"] = pd.Categorical([None] * 300, categories=["few", "many"])
    hidden = ek.BayesianNetwork.from_arcs([("cloud", "rain"), ("cloud", "wet")], frame)
    assert learn(hidden, frame, 5, rng=0).states[2] == ["few", "many"]


def test_informative_missingness_is_learned_with_masks():
    rng = np.random.default_rng(0)
    tables, names = [[0.6, 0.4], [[0.8, 0.2], [0.3, 0.7]]], ["x", "y"]
    truth = ek.BayesianNetwork([[], [0]], tables, names, [["a", "b"]] * 2)
    X = np.asarray(truth.sample(20_000, rng=0), dtype=float)
    chance = np.array([[0.1, 0.7], [0.1, 0.7]])  # of x missing given y, of y missing given x
    other = X[:, ::-1].astype(int)
    lost = rng.random(X.shape) < np.stack([chance[v][other[:, v]] for v in range(2)], axis=1)
    observed = truth.schema.frame(np.where(lost, np.nan, X))
    masked = truth.with_masks({"x": ["y"], "y": ["x"]})
    found = learn(masked, masked.mask_columns(observed)).without_masks()
    naive = learn(truth, observed)

    def distance(network):
        return 0.5 * np.abs(joint(network) - joint(truth)).sum()

    assert distance(found) <= 0.01
    assert distance(naive) >= 0.05
    assert found.names == ["x", "y"]


def test_self_masking_is_not_identified():
    network = ek.BayesianNetwork([[], [0]], [[0.5, 0.5], [[0.6, 0.4], [0.2, 0.8]]], ["x", "y"])
    with pytest.warns(UserWarning, match="Whether 'y' is missing depends on itself, which is in"):
        masked = network.with_masks({"y": ["x", "y"]})
    X = np.asarray(network.sample(2000, rng=0), dtype=float)
    X[(np.random.default_rng(0).random(2000) < 0.5) & (X[:, 1] == 1), 1] = np.nan
    options = {"start": "random", "pseudocount": 0.0, "tolerance": 1e-12, "iterations": 3000}
    rows = masked.mask_columns(X)
    fits = [learn(masked, rows, rng=i, **options) for i in range(4)]
    likely = [fit.log_likelihood(rows).mean() for fit in fits]
    np.testing.assert_allclose(likely, likely[0], rtol=1e-6)
    assert np.ptp([fit.marginals()["y"][1] for fit in fits]) > 0.02
