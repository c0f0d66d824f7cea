"""Orders, rules and weights of collapsed importance sampling, over all paths and by circuits."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from expectedkernels import FactorGraph, Vtree, cis, ising_grid
from expectedkernels.stein.cis import (
    ORDERS,
    RULES,
    CollapsedSampler,
    State,
    order_factors,
    restricted,
)
from factor_graphs import factor_graphs
from oracles import worlds

# a tree: 0 - 1 - 2 - 3, with 4 hanging on 1; variable 5 is apart with 6
SCOPES = [(2, 3), (0, 1), (1, 2), (1, 4), (5, 6)]


def ordered(scopes, *settings):
    order = order_factors(scopes, *settings)
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
    assert list(order_factors([(2, 0, 1)], 0).distance) == [0, 2, 1]


def test_along_the_vtree_children_come_before_parents():
    vtree = Vtree.from_nested(((0, 1), ((2, 3), (4, (5, 6)))))
    assert ordered(SCOPES, 0, "vtree", vtree)[0] == [(0, 1), (2, 3), (5, 6), (1, 2), (1, 4)]


class Situation:
    """A product of the first factors of a model, in which a variable must be sampled."""

    def __init__(self, graph, place, query=None, protected=(), sampled=(), backwards=False):
        rest = "rev" if backwards else "bfs", "frontier", 0, None, query, frozenset(protected)
        self.sampler = CollapsedSampler(graph, *rest)
        tables, order = self.sampler.tables, self.sampler.order_from(0)
        tables = [restricted(tables[i], dict(sampled)) for i in order.factors[:place]]
        self.tables = [table for table in tables if table.scope]
        self.inside = tuple(sorted({v for table in self.tables for v in table.scope}))
        self.state = State(0, place, self.tables, 0.0, self.inside, tuple(sampled))
        self.candidates = self.sampler.candidates(self.state)
        self.cardinalities = graph.cardinalities

    def scores(self, rule):
        return RULES[rule](self.sampler, self.state)

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


@pytest.mark.parametrize("small", [0, 4096])
@pytest.mark.parametrize("place", [2, 4, 5, 7])
def test_information_variance_and_entropy_are_those_of_the_definitions(place, small, monkeypatch):
    monkeypatch.setattr(sys.modules[CollapsedSampler.__module__], "SMALL_JOINT", small)
    now = Situation(grid_with_states(), place, query=0, protected=[0])
    joint = by_enumeration(now)
    information, entropy = [], []
    for v in now.candidates:
        table = pair(now, joint, v, 0)
        total = table.sum(axis=1)
        np.testing.assert_allclose(now.sampler.proposal(now.state, v)[0], total, rtol=1e-10)
        information.append((table * np.log(table / np.outer(total, table.sum(axis=0)))).sum())
        entropy.append(-(total * np.log(total)).sum())
    np.testing.assert_allclose(now.scores("mi"), information, atol=1e-12)
    np.testing.assert_allclose(now.scores("ent"), entropy, rtol=1e-10)
    variances = [variance(now, joint, v, 0) for v in now.candidates]
    np.testing.assert_allclose(now.scores("rbvar"), variances, atol=1e-12)


def test_the_frontier_rule_goes_by_distance_then_by_factors_to_come():
    chain = FactorGraph([2] * 6, [((i, i + 1), np.ones((2, 2))) for i in range(5)])
    now = Situation(chain, 3)
    assert now.scores("frontier") == [-3.0, -2.0, -1.0, 1.0]
    # 1 is sampled, so that the frontier cannot reach 0 any more
    now = Situation(chain, 3, sampled=[(1, 0)])
    assert now.scores("frontier") == [-np.inf, -1.0, 1.0]
    assert now.choice("frontier") == 0
    star = FactorGraph([2] * 4, [((0, i), np.ones((2, 2))) for i in (1, 2, 3)])
    assert Situation(star, 1).scores("frontier") == [2.0, -1.0]


def test_where_the_query_is_not_in_yet_the_frontier_decides():
    chain = FactorGraph([2] * 6, [((i, i + 1), np.eye(2) + 1) for i in range(5)])
    now = Situation(chain, 3, query=5)
    for rule in ("mi", "rbvar"):
        assert now.scores(rule) == now.scores("frontier")


def test_distance_and_chance():
    chain = FactorGraph([2] * 6, [((i, i + 1), np.eye(2) + 1) for i in range(5)])
    now = Situation(chain, 3)
    assert now.choice("fd") == 3
    back = Situation(chain, 3, backwards=True)
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


@pytest.mark.parametrize("select", RULES)
@pytest.mark.parametrize("order", ORDERS)
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
    sampler = CollapsedSampler(graph, order, select, *limits, query, protected)
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
    grid = ising_grid(3, 3, rng=0)
    first = cis(grid, 30, 4, rng=7)
    monkeypatch.setattr(sys.modules[CollapsedSampler.__module__], "MAX_KEPT", 0)
    again = cis(grid, 30, 4, rng=np.random.default_rng(7), progress=False)
    np.testing.assert_array_equal(first.rows, again.rows)
    np.testing.assert_array_equal(first.log_weights, again.log_weights)


def test_a_model_too_large_to_compile(monkeypatch):
    grid = ising_grid(3, 3, rng=0)
    expected = cis(grid, 40, 3, rng=0).marginals()
    monkeypatch.setattr(sys.modules[cis.__module__], "DEFAULT_MAX_BYTES", 1)
    samples = cis(grid, 40, 3, rng=0)
    monkeypatch.setattr(FactorGraph, "compile", None)
    for found, wanted in zip(samples.marginals(), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10)
