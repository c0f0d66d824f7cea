"""Collapsed importance sampling: orders, rules and weights over all paths, and estimates."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.special import logsumexp

import expectedkernels as ek
from assertions import assert_all_close, assert_raises, refusals
from expectedkernels.stein import cis as module
from factor_graphs import equal_chain, factor_graphs, random_graph, scores
from oracles import worlds
from strategies import rngs

# a tree: 0 - 1 - 2 - 3, with 4 hanging on 1; variable 5 is apart with 6
SCOPES = [(2, 3), (0, 1), (1, 2), (1, 4), (5, 6)]


def ordered(scopes, *settings):
    order = module.order_factors(scopes, *settings)
    return [scopes[i] for i in order.factors], order


def test_breadth_first_appends_factors_when_a_variable_is_reached():
    found, order = ordered(SCOPES, 0)
    assert found == [(0, 1), (1, 2), (1, 4), (2, 3), (5, 6)]
    assert list(order.distance) == [0, 1, 2, 4, 3, 5, 6]
    assert ordered(SCOPES, 3)[0] == [(2, 3), (1, 2), (0, 1), (1, 4), (5, 6)]
    assert ordered(SCOPES, 6)[0][0] == (5, 6)
    back, reverse = ordered(SCOPES, 0, "rev")
    assert (back, reverse.reversed) == (found[::-1], True)
    assert [order.coming(1, place) for place in range(5)] == [3, 2, 1, 0, 0]
    # scopes are followed in their order
    assert list(module.order_factors([(2, 0, 1)], 0).distance) == [0, 2, 1]


def test_along_the_vtree_children_come_before_parents():
    vtree = ek.Vtree.from_nested(((0, 1), ((2, 3), (4, (5, 6)))))
    assert ordered(SCOPES, 0, "vtree", vtree)[0] == [(0, 1), (2, 3), (5, 6), (1, 2), (1, 4)]


class Situation:
    """A product of the first factors of a model, in which a variable must be sampled."""

    def __init__(self, graph, place, query=None, protected=(), sampled=(), backwards=False):
        rest = "rev" if backwards else "bfs", "frontier", 0, None, query, frozenset(protected)
        self.sampler = module.CollapsedSampler(graph, *rest)
        tables, order = self.sampler.tables, self.sampler.order_from(0)
        tables = [module.restricted(tables[i], dict(sampled)) for i in order.factors[:place]]
        self.tables = [table for table in tables if table.scope]
        self.inside = tuple(sorted({v for table in self.tables for v in table.scope}))
        self.state = module.State(0, place, self.tables, 0.0, self.inside, tuple(sampled))
        self.candidates = self.sampler.candidates(self.state)
        self.cardinalities = graph.cardinalities

    def scores(self, rule):
        return module.RULES[rule](self.sampler, self.state)

    def choice(self, rule):
        return self.candidates[int(np.argmin(np.round(self.scores(rule), 12)))]


def by_enumeration(now):
    """The joint distribution of the variables inside, one axis each."""
    logs = np.zeros([now.cardinalities[v] for v in now.inside])
    points = worlds(logs.shape).astype(int)
    for table in now.tables:
        at = tuple(points[:, now.inside.index(v)] for v in table.scope)
        logs += table.logs[at].reshape(logs.shape)
    joint = np.exp(logs)
    return joint / joint.sum()


def pair(now, joint, v, u):
    """The joint distribution of two variables."""
    axes = [now.inside.index(v), now.inside.index(u)]
    found = np.moveaxis(joint, axes, [0, 1])
    return found.sum(axis=tuple(range(2, found.ndim)))


GRID_SCOPES = [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]
CHAIN = equal_chain(6, np.eye(2) + 1)


@pytest.mark.parametrize("small", [0, 4096])
@pytest.mark.parametrize("place", [2, 4, 5, 7])
def test_information_variance_and_entropy_are_those_of_the_definitions(place, small, monkeypatch):
    monkeypatch.setattr(module, "SMALL_JOINT", small)
    grid = random_graph(np.random.default_rng(4), [2, 3, 2, 3, 2, 2], GRID_SCOPES)
    now = Situation(grid, place, query=0, protected=[0])
    joint = by_enumeration(now)
    information, entropy, variances = [], [], []
    for v in now.candidates:
        table = pair(now, joint, v, 0)
        total = table.sum(axis=1)
        np.testing.assert_allclose(now.sampler.proposal(now.state, v)[0], total, rtol=1e-10)
        information.append((table * np.log(table / np.outer(total, table.sum(axis=0)))).sum())
        entropy.append(-(total * np.log(total)).sum())
        first, given_event = table[:, 0].sum(), table[:, 0] / table[:, 0].sum()
        variances.append(first**2 * ((given_event**2 / total).sum() - 1))
    np.testing.assert_allclose(now.scores("mi"), information, atol=1e-12)
    np.testing.assert_allclose(now.scores("ent"), entropy, rtol=1e-10)
    np.testing.assert_allclose(now.scores("rbvar"), variances, atol=1e-12)


def test_the_frontier_rule_goes_by_distance_then_by_factors_to_come():
    now = Situation(CHAIN, 3)
    assert now.scores("frontier") == [-3.0, -2.0, -1.0, 1.0]
    # 1 is sampled, so that the frontier cannot reach 0 any more
    now = Situation(CHAIN, 3, sampled=[(1, 0)])
    assert now.scores("frontier") == [-np.inf, -1.0, 1.0]
    assert now.choice("frontier") == 0
    star = ek.FactorGraph([2] * 4, [((0, i), np.ones((2, 2))) for i in (1, 2, 3)])
    assert Situation(star, 1).scores("frontier") == [2.0, -1.0]


def test_where_the_query_is_not_in_yet_the_frontier_decides():
    now = Situation(CHAIN, 3, query=5)
    for rule in ("mi", "rbvar"):
        assert now.scores(rule) == now.scores("frontier")


def test_distance_and_chance():
    assert Situation(CHAIN, 3).choice("fd") == 3
    back = Situation(CHAIN, 3, backwards=True)
    assert back.inside == (2, 3, 4, 5)
    assert back.choice("fd") == back.choice("frontier") == 5


def paths(walk):
    """All samples that can come about: their chances, log-weights and values."""
    stack = [(walk.start(root), 1.0 / len(walk.roots), 0.0) for root in walk.roots]
    while stack:
        state, chance, log_q = stack.pop()
        if state.done:
            yield chance, walk.log_mass(state) - log_q, dict(state.sampled)
            continue
        options = state.choices
        for v in options:
            if walk.proposal(state, v) is None:
                yield chance / len(options), -np.inf, dict(state.sampled)
                continue
            share, _ = walk.proposal(state, v)
            for value in np.flatnonzero(share):
                p = share[value]
                following = walk.after(state, v, int(value))
                stack.append((following, chance * p / len(options), log_q + np.log(p)))


@pytest.mark.parametrize("select", module.RULES)
@pytest.mark.parametrize("order", module.ORDERS)
@settings(max_examples=4)
@given(
    factor_graphs(max_worlds=24),
    st.sampled_from([(0, None), (1, None), (2, None), (3, None), (None, 1), (None, 6), (None, 30)]),
    st.booleans(),
)
def test_all_paths_together_give_z_and_the_exact_marginals(order, select, graph, limits, asked):
    circuit, log_z = graph.compile()
    sums, mass = [np.zeros(card) for card in graph.cardinalities], 0.0
    query = 0 if asked or select in ("mi", "rbvar") else None
    protected = frozenset() if query is None else frozenset([query])
    sampler = module.CollapsedSampler(graph, order, select, *limits, query, protected)
    for chance, log_weight, values in paths(sampler):
        mass += chance
        if log_weight > -np.inf:
            found = circuit.marginals(values)
            for v in range(graph.n_variables):
                sums[v] += chance * np.exp(log_weight - log_z) * found[v]
    assert mass == pytest.approx(1.0, abs=1e-12)
    for v, exact in enumerate(circuit.marginals()):
        np.testing.assert_allclose(sums[v], exact, atol=1e-10)  # they add up to one: so is Z


def test_the_same_seed_gives_the_same_samples(monkeypatch):
    grid = ek.ising_grid(3, 3, rng=0)
    first = ek.cis(grid, 30, 4, rng=7)
    monkeypatch.setattr(module, "MAX_KEPT", 0)
    again = ek.cis(grid, 30, 4, rng=np.random.default_rng(7), progress=False)
    np.testing.assert_array_equal(first.rows, again.rows)
    np.testing.assert_array_equal(first.log_weights, again.log_weights)


def test_a_model_too_large_to_compile(monkeypatch):
    grid = ek.ising_grid(3, 3, rng=0)
    expected = ek.cis(grid, 40, 3, rng=0).marginals()
    monkeypatch.setattr(module, "DEFAULT_MAX_BYTES", 1)
    samples = ek.cis(grid, 40, 3, rng=0)
    monkeypatch.setattr(ek.FactorGraph, "compile", None)
    np.testing.assert_allclose(samples.marginals(), expected, rtol=1e-10)


def error(samples, exact):
    """The mean absolute error of the marginals."""
    return np.abs(np.concatenate(samples.marginals()) - np.concatenate(exact)).mean()


def test_everything_collapsed_is_exact():
    grid = ek.ising_grid(3, 3, rng=1)
    for budget, max_size in ((9, None), (100, None), (None, None), (None, 10**6)):
        samples = ek.cis(grid, 1, budget, rng=0, max_size=max_size)
        assert samples.collapsed.all()
        np.testing.assert_allclose(samples.log_z, np.log(scores(grid).sum()), rtol=1e-12)
        np.testing.assert_allclose(samples.marginals(), grid.marginals(), rtol=1e-10)


def test_the_log_weights_lead_to_the_rest():
    samples = ek.cis(ek.ising_grid(3, 3, rng=0), 50, 3, rng=0)
    logs = samples.log_weights
    np.testing.assert_allclose(samples.weights, np.exp(logs - logsumexp(logs)))
    np.testing.assert_allclose(samples.log_z, logsumexp(logs) - np.log(50))
    assert samples.rule == "cis"
    assert 1 <= samples.ess <= 50


def test_errors_of_marginals_fall_with_the_budget_and_with_n():
    grid = ek.ising_grid(3, 3, rng=0)
    exact = grid.marginals()

    def mean_error(n, budget):
        return np.mean([error(ek.cis(grid, n, budget, rng=i), exact) for i in range(6)])

    errors = [mean_error(60, budget) for budget in (0, 3, 6)]
    assert errors[0] > errors[1] > errors[2]
    assert mean_error(800, 2) < 0.6 * mean_error(60, 2)


def test_variables_whose_factors_are_in_make_better_proposals():
    grid = ek.ising_grid(3, 3, rng=0)
    for budget in (2, 4, 6):
        chance, frontier = (
            ek.cis(grid, 600, budget, rng=0, select=select).ess for select in ("rand", "frontier")
        )
        assert frontier > 1.2 * chance


def test_evidence_by_name_by_row_and_by_weights():
    network = ek.asia()
    circuit, _ = network.compile()
    samples = ek.cis(network, 400, 3, rng=0, evidence={"smoke": "yes", "xray": 1})
    assert set(samples.rows[:, 2]) == {0.0}
    assert set(samples.rows[:, 6]) == {1.0}
    assert samples.collapsed.sum(axis=1).tolist() == [3] * 400
    exact = circuit.marginals({2: 0, 6: 1})
    assert error(samples, exact) < 0.02
    z = np.exp(circuit.log_likelihood([[np.nan, np.nan, 0, np.nan, np.nan, np.nan, 1, np.nan]])[0])
    np.testing.assert_allclose(np.exp(samples.log_z), z, rtol=0.1)
    row = np.full(8, np.nan)
    row[2], row[6] = 0, 1
    again = ek.cis(network, 400, 3, rng=0, evidence=row)
    np.testing.assert_array_equal(again.rows, samples.rows)
    soft = ek.cis(network, 1, 8, rng=0, evidence={"smoke": [0.5, 0.25]})
    np.testing.assert_allclose(np.exp(soft.log_z), 0.375, rtol=1e-10)
    both = ek.cis(network, 1, 8, rng=0, evidence={"smoke": {"yes", "no"}})
    np.testing.assert_allclose(np.exp(both.log_z), 1.0, rtol=1e-10)


def test_protected_variables_are_never_sampled():
    network = ek.asia()
    samples = ek.cis(network, 20, 0, rng=0, protected=["either", 1])
    kept = samples.collapsed
    assert kept.sum(axis=1).tolist() == [2] * 20
    assert kept[:, [1, 5]].all()
    everything = ek.cis(network, 1, 0, rng=0, protected=range(8))
    np.testing.assert_allclose(everything.log_z, 0.0, atol=1e-12)


def test_a_model_with_products_too_large_for_one_table():
    rng = np.random.default_rng(0)
    cards = rng.integers(2, 5, size=16).tolist()
    graph = random_graph(rng, cards, [(i, i + 1) for i in range(15)] + [(0, 2), (5, 8), (9, 14)])
    samples = ek.cis(graph, 1, 16, rng=0)
    np.testing.assert_allclose(samples.log_z, graph.log_partition(), rtol=1e-10)
    for select in ("frontier", "ent"):
        samples = ek.cis(graph, 20, 10, rng=0, select=select)
        weights = samples.log_weights - graph.log_partition()
        assert abs(np.exp(weights).mean() - 1.0) < 0.5


def test_numbers_that_are_no_doubles_as_products():
    table = [[1e-200, 1e-180], [1e-190, 1e-170]]
    graph = equal_chain(6, table)
    samples = ek.cis(graph, 50, 2, rng=0)
    np.testing.assert_allclose(samples.log_z, graph.log_partition(), atol=0.5)


@settings(max_examples=10)
@given(rngs)
def test_circuits_are_sampled_exactly(rng):
    vtree = ek.Vtree.balanced(4)
    circuit = ek.random_circuit(vtree, 3, rng, cardinalities=[2, 3, 2, 4])
    for select in ("frontier", "rand"):
        samples = ek.cis(circuit, 40, 1, rng=0, select=select, query=2)
        assert samples.collapsed.sum(axis=1).tolist() == [1] * 40
        assert samples.collapsed[:, 2].all()
        np.testing.assert_allclose(samples.log_z, 0.0, atol=1e-10)
        np.testing.assert_allclose(samples.weights, 1 / 40)
    exact = ek.cis(circuit, 1, rng=0, evidence={1: 2})
    np.testing.assert_allclose(exact.log_z, np.log(circuit.marginals()[1][2]), rtol=1e-10)
    assert exact.rows[0, 1] == 2
    assert_all_close(exact.marginals(), circuit.marginals({1: 2}), rtol=1e-10)


GRID = ek.ising_grid(2, 2, rng=0)
OF_GRID = GRID.circuit()


test_bad_arguments = refusals(ek.CircuitError, [
    *(({name: x}, rf"'{name}' parameter of cis must be an int .*\[{low}, inf\).* Got {x}")
      for name, x, low in [("n", 0, 1), ("n", 2.5, 1), ("max_size", 0, 1),
                           ("collapse_budget", -1, 0), ("collapse_budget", True, 0)]),
    ({"rng": 1.5}, r"The 'rng' parameter must be a non-negative int"),
    *(({"order": x}, r"'order' parameter of cis must be 'rbfs', .* Got") for x in ("dfs", ["bfs"])),
    ({"select": "best"}, r"'select' parameter of cis must be 'frontier', .* Got 'best'"),
    ({"select": "frb"}, r"Got 'frb', which was removed: use 'rbvar' with a query"),
    ({"select": "size"}, r"Got 'size', which was removed: use 'frontier'"),
    ({"select": "mi"}, r"select='mi' of cis asks what sampling does to a query"),
    *(({"protected": x}, r"'protected' parameter of cis must be a list") for x in ("x1", 3)),
    ({"target": 3}, r"must be a FactorGraph, a BayesianNetwork or a Circuit; .* Got int"),
], lambda arguments: ek.cis(**{"target": GRID, "n": 3} | arguments))  # fmt: skip


test_bad_variables_and_evidence = refusals(None, [
    *((target, options, ek.EvidenceError, r"is an int in 0\.\.3") for target in (GRID, OF_GRID)
      for options in ({"query": 4}, {"protected": ["smoke"]})),
    (GRID, {"evidence": {1: 7}}, ek.EvidenceError, r"state of variable 1 is an int in 0\.\.1"),
    (OF_GRID, {"evidence": np.zeros((2, 4))}, ek.EvidenceError, r"cis is one row. Got 2 rows"),
    (OF_GRID, {"max_size": 10}, ek.CircuitError, "limits products of factors"),
    (OF_GRID, {"select": "mi", "query": 0}, ek.CircuitError, "'mi' of cis needs the factors"),
    (ek.gaussian_mixture([1.0], [[0.0]], [[1.0]]), {}, ek.CircuitError,
     r"Targets are discrete here. Variable 0"),
], lambda target, options: ek.cis(target, 2, **options))  # fmt: skip


def test_a_size_limit_collapses_fewer_variables():
    graph = random_graph(
        np.random.default_rng(0), [2, 3, 2, 2], [(0, 1), (1, 2), (2, 3), (3, 0), (1,)]
    )
    counts = [
        ek.cis(graph, 20, rng=0, max_size=size).collapsed.sum() for size in (1, 6, 12, 30, 1000)
    ]
    assert counts == sorted(counts)
    assert counts[0] == 20  # one variable is never too large
    assert counts[-1] == 80


def test_isolated_variables_and_those_of_one_state_are_kept_outside():
    rng = np.random.default_rng(0)
    graph = random_graph(rng, [2, 3, 1, 2, 4], [(0, 2, 3), (2,), ()])
    samples = ek.cis(graph, 30, 0, rng=0)
    assert samples.collapsed.tolist() == [[False, True, True, False, True]] * 30
    np.testing.assert_allclose(samples.marginals()[1], [1 / 3] * 3)
    np.testing.assert_allclose(samples.marginals()[4], [1 / 4] * 4)
    nothing = ek.cis(ek.FactorGraph([2, 3], []), 2, 0, rng=0)
    np.testing.assert_allclose(nothing.log_z, np.log(6))
    assert nothing.collapsed.all()


def test_impossible_samples_have_the_weight_zero():
    # x0 and x1 are drawn before the factor that ties them is seen
    factors = [((0,), [0.5, 0.5]), ((1,), [0.5, 0.5]), ((0, 1), np.eye(2)), ((1, 2), np.eye(2))]
    graph = ek.FactorGraph([2, 2, 2], factors)
    samples = ek.cis(graph, 200, 0, rng=0, order="bfs")
    for table in samples.marginals():
        np.testing.assert_allclose(table, [0.5, 0.5], atol=0.1)
    backwards = ek.FactorGraph([2, 2], [((0, 1), [[1, 1], [1, 0]]), ((0,), [0, 1]), ((1,), [0, 1])])
    assert_raises(ek.PropertyError, "All 20 samples have", ek.cis, backwards, 20, 0, rng=0)
    late = ek.FactorGraph([2, 2], [((0, 1), [[9, 1], [1, 1]]), ((0,), [0, 1]), ((1,), [1, 1])])
    found = ek.cis(late, 50, 0, rng=0, order="bfs")
    assert (found.log_weights == -np.inf).any()
    assert (found.log_weights > -np.inf).any()
    np.testing.assert_allclose(found.marginals()[0], [0.0, 1.0])
    np.testing.assert_allclose(found.uniform().marginals()[0], [0.0, 1.0])
    assert 0 <= found.expect(lambda X: X[:, 1]) <= 1
