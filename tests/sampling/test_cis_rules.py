import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from expectedkernels import FactorGraph, Vtree, ising_grid
from expectedkernels.sampling.cis_rules import RULES, Situation, breadth_first, by_vtree, choices
from expectedkernels.sampling.cis_tables import (
    components,
    elimination,
    elimination_cost,
    log_sum,
    marginals,
    restricted,
)
from factor_graphs import factor_graphs, scores
from oracles import worlds

# a tree: 0 - 1 - 2 - 3, with 4 hanging on 1; variable 5 is apart with 6
SCOPES = [(2, 3), (0, 1), (1, 2), (1, 4), (5, 6)]


def test_breadth_first_appends_factors_when_a_variable_is_reached():
    order = breadth_first(SCOPES, 0)
    assert order.scopes == ((0, 1), (1, 2), (1, 4), (2, 3), (5, 6))
    assert list(order.distance) == [0, 1, 2, 4, 3, 5, 6]
    assert breadth_first(SCOPES, 3).scopes == ((2, 3), (1, 2), (0, 1), (1, 4), (5, 6))
    assert breadth_first(SCOPES, 6).scopes[0] == (5, 6)
    back = breadth_first(SCOPES, 0, backwards=True)
    assert back.scopes == order.scopes[::-1]
    assert back.reversed
    assert [order.coming(1, place) for place in range(5)] == [3, 2, 1, 0, 0]


def test_scopes_are_followed_in_their_order():
    assert list(breadth_first([(2, 0, 1)], 0).distance) == [0, 2, 1]


def test_along_the_vtree_children_come_before_parents():
    vtree = Vtree.from_nested(((0, 1), ((2, 3), (4, (5, 6)))))
    order = by_vtree(SCOPES, vtree, 0)
    assert order.scopes == ((0, 1), (2, 3), (5, 6), (1, 2), (1, 4))
    assert sorted(order.factors) == list(range(5))


def situation(graph, place, query=None, protected=(), sampled=(), backwards=False):
    values = dict(sampled)
    with np.errstate(divide="ignore"):
        every = [(f.scope, np.log(f.table)) for f in graph.factors]
    order = breadth_first([scope for scope, _ in every], 0, backwards)
    tables = [restricted(every[i], values) for i in order.factors[:place]]
    tables = [table for table in tables if table[0]]
    inside = tuple(sorted({v for scope, _ in tables for v in scope}))
    candidates = tuple(v for v in inside if v not in protected)
    return Situation(tables, inside, candidates, order, place, query, graph.cardinalities)


def by_enumeration(now):
    """The joint distribution of the variables inside, one axis each."""
    logs = np.zeros([now.cardinalities[v] for v in now.inside])
    points = worlds(logs.shape).astype(int)
    for scope, table in now.tables:
        at = tuple(points[:, now.inside.index(v)] for v in scope)
        logs += table[at].reshape(logs.shape)
    joint = np.exp(logs)
    return joint / joint.sum()


def pair(now, joint, v, u):
    """The joint distribution of two variables."""
    axes = [now.inside.index(v), now.inside.index(u)]
    found = np.moveaxis(joint, axes, [0, 1])
    return found.sum(axis=tuple(range(2, found.ndim)))


def variance(now, joint, v, query):
    if v == query:
        chances = pair(now, joint, v, (now.inside[0] if v != now.inside[0] else now.inside[1]))
        total = chances.sum(axis=1)
        given_event = np.eye(len(total))[0]
    else:
        table = pair(now, joint, v, query)
        total, given_event = table.sum(axis=1), table[:, 0] / table[:, 0].sum()
    first = (total if v == query else table.sum(axis=0))[0]
    return first**2 * ((given_event**2 / total).sum() - 1)


def grid_with_states():
    rng = np.random.default_rng(4)
    cards = [2, 3, 2, 3, 2, 2]
    scopes = [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]
    return FactorGraph(cards, [(s, rng.random([cards[v] for v in s])) for s in scopes])


@pytest.mark.parametrize("place", [2, 4, 5, 7])
def test_information_variance_and_entropy_are_those_of_the_definitions(place):
    now = situation(grid_with_states(), place, query=0, protected=[0])
    joint = by_enumeration(now)
    information, entropy = [], []
    for v in now.candidates:
        table = pair(now, joint, v, 0)
        total = table.sum(axis=1)
        information.append((table * np.log(table / np.outer(total, table.sum(axis=0)))).sum())
        entropy.append(-(total * np.log(total)).sum())
    np.testing.assert_allclose(RULES["mi"](now), information, atol=1e-12)
    np.testing.assert_allclose(RULES["ent"](now), entropy, rtol=1e-10)
    variances = [variance(now, joint, v, 0) for v in now.candidates]
    np.testing.assert_allclose(RULES["rbvar"](now), variances, atol=1e-12)


def test_the_frontier_rule_goes_by_distance_then_by_factors_to_come():
    chain = FactorGraph([2] * 6, [((i, i + 1), np.ones((2, 2))) for i in range(5)])
    now = situation(chain, 3)
    assert now.frontier == [3]
    assert RULES["frontier"](now) == [-3.0, -2.0, -1.0, 1.0]
    # 1 is sampled, so that the frontier cannot reach 0 any more
    now = situation(chain, 3, sampled=[(1, 0)])
    assert RULES["frontier"](now) == [-np.inf, -1.0, 1.0]
    assert choices("frontier", now) == (0,)
    star = FactorGraph([2] * 4, [((0, i), np.ones((2, 2))) for i in (1, 2, 3)])
    assert RULES["frontier"](situation(star, 1)) == [2.0, -1.0]


def test_where_the_query_is_not_in_yet_the_frontier_decides():
    chain = FactorGraph([2] * 6, [((i, i + 1), np.eye(2) + 1) for i in range(5)])
    now = situation(chain, 3, query=5)
    for rule in ("mi", "rbvar"):
        assert RULES[rule](now) == RULES["frontier"](now)


def test_distance_and_chance():
    chain = FactorGraph([2] * 6, [((i, i + 1), np.eye(2) + 1) for i in range(5)])
    now = situation(chain, 3)
    assert choices("fd", now) == (3,)
    assert choices("rand", now) == (0, 1, 2, 3)
    back = situation(chain, 3, backwards=True)
    assert back.inside == (2, 3, 4, 5)
    assert choices("fd", back) == choices("frontier", back) == (5,)


def test_components_and_elimination():
    tables = [(scope, None) for scope in SCOPES]
    assert components([scope for scope, _ in tables], range(8)) == [[0, 1, 2, 4, 3], [5, 6], [7]]
    steps = elimination(SCOPES, range(7))
    assert [len(near) for _, near in steps].count(1) == 5
    assert elimination_cost(SCOPES, range(7), [2] * 7) == 5 * 4 + 2 * 2


def test_the_cost_of_elimination_is_about_the_size_of_the_circuit():
    for side in (3, 4, 5, 6):
        grid = ising_grid(side, side, rng=0)
        cost = elimination_cost([f.scope for f in grid.factors], range(side**2), [2] * side**2)
        products = grid.plan().n_products
        assert 0.7 * products <= cost <= 1.5 * products


@settings(max_examples=60)
@given(factor_graphs(max_worlds=100), st.integers(0, 5), st.sampled_from([1, 4096]))
def test_sums_and_marginals_are_those_of_enumeration(graph, number, small):
    v = number % graph.n_variables
    points, values = worlds(graph.cardinalities).astype(int), scores(graph)
    with np.errstate(divide="ignore"):
        tables = [(f.scope, np.log(f.table)) for f in graph.factors]
    sums = np.bincount(points[:, v], values, minlength=graph.cardinalities[v])
    everything = range(graph.n_variables)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("expectedkernels.sampling.cis_tables.SMALL", small)
        logs = log_sum(tables, everything, (v,), graph.cardinalities)
        total = log_sum(tables, everything, (), graph.cardinalities)
    np.testing.assert_allclose(np.exp(logs), sums, rtol=1e-10)
    np.testing.assert_allclose(np.exp(total), values.sum(), rtol=1e-10)
    states = range(graph.cardinalities[v])
    found = marginals(
        tables, everything, graph.cardinalities, [None, *((v, state) for state in states)]
    )
    for u in everything:
        card = graph.cardinalities[u]
        expected = np.bincount(points[:, u], values, minlength=card) / values.sum()
        np.testing.assert_allclose(found[u][0], expected, atol=1e-12)
        for state in states:
            alive = values * (points[:, v] == state)
            if alive.sum() == 0:
                assert not found[v][1 + state].any()
                continue
            expected = np.bincount(points[:, u], alive, minlength=card) / alive.sum()
            np.testing.assert_allclose(found[u][1 + state], expected, atol=1e-12)
