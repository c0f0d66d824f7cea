from math import prod

import numpy as np
import pytest
from hypothesis import given, strategies as st

import expectedkernels as ek
from assertions import refusals
from expectedkernels import CircuitError, Vtree, ising_grid, vtrees as orders
from expectedkernels.vtrees import elimination, interaction_graph
from factor_graphs import grid_scopes
from strategies import rngs


@st.composite
def graphs(draw):
    rng = draw(rngs)
    n = draw(st.integers(1, 12))
    pairs = [(a, b) for a in range(n) for b in range(a) if rng.random() < 0.3]
    return interaction_graph(n, pairs)


def naive_elimination(graph, cards, score, ranks):
    """The greedy order by a score and the contexts, everything counted afresh."""
    around = {v: set(near) for v, near in enumerate(graph)}
    contexts = [set()] * len(graph)
    weights, front, order = cards if score == "weighted fill" else [1] * len(graph), set(), []

    def key(v):
        near = sorted(around[v])
        first = prod([cards[v], *(cards[u] for u in near)])
        if "fill" in score:
            pairs = ((a, b) for i, a in enumerate(near) for b in near[i + 1 :])
            first = sum(weights[a] * weights[b] for a, b in pairs if b not in around[a])
        return score == "front" and v not in front, first, len(near), ranks[v]

    while around:
        order.append(min(around, key=key))
        front = contexts[order[-1]] = around.pop(order[-1])
        for u in front:
            around[u] |= front
            around[u] -= {u, order[-1]}
    return tuple(order), tuple(contexts)


def components(graph, variables):
    """The connected components of some variables, in the order of their first one."""
    left, found = list(variables), []
    while left:
        inside, edge = {left[0]}, [left[0]]
        while edge:
            near = set(graph[edge.pop()]) & set(left) - inside
            inside |= near
            edge += near
        found.append([v for v in left if v in inside])
        left = [v for v in left if v not in inside]
    return found


def naive_conditioning(graph, variables):
    """The recursive definition, as nested pairs."""
    if len(variables) == 1:
        return variables[0]
    parts = components(graph, variables)
    if len(parts) == 1:
        return variables[0], naive_conditioning(graph, variables[1:])
    around = [frozenset(u for v in part for u in graph[v] if u not in part) for part in parts]
    trees = [
        (naive_conditioning(graph, part), near) for part, near in zip(parts, around, strict=True)
    ]
    while len(trees) > 1:
        # equal contexts first, those that come first of all; then the smallest common context
        pairs = [(i, j) for i in range(len(trees)) for j in range(i + 1, len(trees))]
        equal = [(i, j) for i, j in pairs if trees[i][1] == trees[j][1]]
        if equal:
            first = min(around.index(trees[i][1]) for i, _ in equal)
            i, j = max(p for p in equal if around.index(trees[p[0]][1]) == first)
        else:
            i, j = max(pairs, key=lambda p: (-len(trees[p[0]][1] | trees[p[1]][1]), *p))
        (a, one), (b, other) = trees[i], trees.pop(j)
        trees[i] = ((a, b), one | other)
    return trees[0][0]


@given(graphs())
def test_min_fill_order(graph):
    order, _ = naive_elimination(graph, [2] * len(graph), "fill", range(len(graph)))
    assert ek.vtrees.min_fill_order(graph) == list(order)


@given(graphs(), rngs)
def test_conditioning_vtree(graph, rng):
    order = rng.permutation(len(graph)).tolist()
    expected = naive_conditioning(graph, order[::-1])
    assert ek.vtrees.conditioning_vtree(graph, order).to_nested() == expected


@given(graphs())
def test_elimination_vtree_joins_what_touches(graph):
    vtree = ek.vtrees.elimination_vtree(graph)
    assert sorted(vtree.scope().tolist()) == list(range(len(graph)))
    if len(components(graph, range(len(graph)))) == 1:
        last = ek.vtrees.min_fill_order(graph)[-1]
        assert vtree.scope()[0] == last


def test_long_and_isolated_graphs():
    graph = interaction_graph(5, [(0, 1, 2), (2, 1), (3,), ()])
    assert graph == ({1, 2}, {0, 2}, {0, 1}, frozenset(), frozenset())
    vtree = ek.vtrees.conditioning_vtree(interaction_graph(4, [(0, 2)]))
    assert sorted(vtree.scope().tolist()) == [0, 1, 2, 3]
    n = 10_000
    graph = interaction_graph(n, [(i, i + 1) for i in range(n - 1)])
    assert ek.vtrees.conditioning_vtree(graph) == Vtree.right_linear(range(n - 1, -1, -1))
    assert ek.vtrees.elimination_vtree(graph).n_variables == n
    n = 10_000
    graph = interaction_graph(n, [(0, i) for i in range(1, n)])
    assert ek.vtrees.conditioning_vtree(graph).scope()[-1] == 1


@pytest.mark.parametrize("side", [1, 2, 3, 5, 8])
def test_bisection(side):
    vtree = ek.vtrees.bisection_vtree(side, side + 1)
    assert sorted(vtree.scope().tolist()) == list(range(side * (side + 1)))
    assert vtree.height[-1] <= 2 * np.ceil(np.log2(side + 1))
    graph = interaction_graph(side * (side + 1), grid_scopes(side, side + 1))
    # every part of the grid hangs together
    assert all(len(components(graph, vtree.scope(v).tolist())) == 1 for v in range(vtree.n_nodes))


test_errors = refusals(CircuitError, [
    (lambda: ek.vtrees.conditioning_vtree(ising_grid(2, 2, rng=0).graph, [0, 1]),
     r"each of the variables 0\.\.3 once\. Got \[0, 1\]"),
    (lambda: ek.vtrees.elimination_vtree([]), "needs at least one variable"),
    (lambda: ek.vtrees.bisection_vtree(0, 2), r"'rows' parameter of bisection_vtree .* Got 0 inst"),
    (lambda: ek.vtrees.bisection_vtree(1, 1.5), r"'cols' parameter of bisection_vtree .* Got 1\.5"),
])  # fmt: skip


def test_best_orders():
    a, b = (ising_grid(12, 12, rng=seed) for seed in (0, 1))
    assert a.vtree == b.vtree
    assert a.vtree_for_pairs == b.vtree_for_pairs
    grid = ising_grid(12, 12, rng=0)
    min_fill = grid.plan(
        ek.vtrees.conditioning_vtree(grid.graph, ek.vtrees.min_fill_order(grid.graph))
    )
    assert grid.plan().n_products < 0.8 * min_fill.n_products
    pairs = [sum(n**2 for n in plan.products) for plan in (grid.plan(for_pairs=True), min_fill)]
    assert pairs[0] < 0.2 * pairs[1]


@given(graphs(), rngs)
@pytest.mark.parametrize("for_pairs", [False, True])
def test_every_search_is_greedy_and_knows_its_cost(for_pairs, graph, rng):
    cards = rng.integers(1, 5, len(graph)).tolist()
    for score in orders.SCORES:
        ranks = rng.permutation(len(graph)).tolist()
        found = orders._greedy(graph, cards, score, ranks, for_pairs)[0]
        assert (found.order, found.contexts) == naive_elimination(graph, cards, score, ranks)
        assert elimination(graph, found.order).contexts == found.contexts
        assert orders.elimination_cost(found, cards) == sum(plan_sizes(graph, cards, found.order))


def plan_sizes(graph, cards, order):
    """The sizes of all tables and joins of a conditioning vtree, by the scopes of its nodes."""
    vtree = ek.vtrees.conditioning_vtree(graph, order, cards)
    for v in range(len(graph)):
        later = order[order.index(v) :]
        yield cards[v] * prod(cards[u] for u in elimination(graph, order).contexts[v] if u in later)
    for node in np.flatnonzero(vtree.variable < 0):
        left, right = (
            set(vtree.scope(child).tolist()) for child in (vtree.left[node], vtree.right[node])
        )
        outside = {u for v in left | right for u in graph[v]} - left - right
        if outside and not any(graph[v] & right for v in left):
            yield prod(cards[u] for u in outside)
