from math import prod

import numpy as np
import pytest
from hypothesis import given, strategies as st

import expectedkernels as ek
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


def naive_min_fill(graph):
    """Eliminate the best variable by (new edges, neighbours, number), counting them afresh."""
    around = {v: set(near) for v, near in enumerate(graph)}
    order = []
    while around:

        def key(v):
            near = sorted(around[v])
            missing = sum(b not in around[a] for i, a in enumerate(near) for b in near[i + 1 :])
            return missing, len(near), v

        best = min(around, key=key)
        near = around.pop(best)
        for u in near:
            around[u] |= near
            around[u] -= {u, best}
        order.append(best)
    return order


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
    assert ek.vtrees.min_fill_order(graph) == naive_min_fill(graph)


@given(graphs(), rngs)
def test_conditioning_vtree(graph, rng):
    order = rng.permutation(len(graph)).tolist()
    expected = naive_conditioning(graph, order[::-1])
    assert ek.vtrees.conditioning_vtree(graph, order).to_nested() == expected


@given(graphs())
def test_sides_of_conditioning_vtrees_interact_through_a_leaf(graph):
    vtree = ek.vtrees.conditioning_vtree(graph)
    for node in np.flatnonzero(vtree.variable < 0):
        right = set(vtree.scope(vtree.right[node]).tolist())
        meets = any(graph[v] & right for v in vtree.scope(vtree.left[node]).tolist())
        assert not meets or vtree.is_leaf(vtree.left[node])


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


def test_errors():
    graph = ising_grid(2, 2, rng=0).graph
    with pytest.raises(CircuitError, match=r"each of the variables 0\.\.3 once\. Got \[0, 1\]"):
        ek.vtrees.conditioning_vtree(graph, [0, 1])
    with pytest.raises(CircuitError, match="needs at least one variable"):
        ek.vtrees.elimination_vtree([])
    with pytest.raises(CircuitError, match=r"'rows' parameter of bisection_vtree .* Got 0 instead"):
        ek.vtrees.bisection_vtree(0, 2)
    with pytest.raises(CircuitError, match=r"'cols' parameter of bisection_vtree .* Got 1\.5"):
        ek.vtrees.bisection_vtree(1, 1.5)


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
def test_eliminations(graph, rng):
    order = rng.permutation(len(graph)).tolist()
    around = {v: set(near) for v, near in enumerate(graph)}
    contexts = [set()] * len(graph)
    for v in order:
        contexts[v] = around.pop(v)
        for u in contexts[v]:
            around[u] |= contexts[v]
            around[u] -= {u, v}
    assert elimination(graph, order).contexts == tuple(contexts)


@given(graphs(), rngs)
@pytest.mark.parametrize("for_pairs", [False, True])
def test_every_search_ends_with_an_elimination(for_pairs, graph, rng):
    cards = rng.integers(1, 5, len(graph)).tolist()
    for score in orders.SCORES:
        ranks = rng.permutation(len(graph)).tolist()
        found = orders._greedy(graph, cards, score, ranks, for_pairs)[0]
        expected = elimination(graph, found.order)
        assert found.contexts == expected.contexts
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


@pytest.mark.parametrize("score", ["fill", "weighted fill"])
def test_fills_are_kept_up_to_date(score):
    rng = np.random.default_rng(0)
    graph = interaction_graph(14, [rng.choice(14, 3, replace=False).tolist() for _ in range(12)])
    weights = [1] * 14 if score == "fill" else rng.integers(1, 6, 14).tolist()
    shrinking = orders._Shrinking(graph, weights)
    left = list(range(14))
    while left:
        for v in left:
            near = sorted(shrinking.around[v])
            missing = [
                weights[a] * weights[b]
                for i, a in enumerate(near)
                for b in near[i + 1 :]
                if b not in shrinking.around[a]
            ]
            assert shrinking.fill[v] == sum(missing)
        shrinking.eliminate(left.pop(int(rng.integers(len(left)))))


def test_components_are_not_connected():
    # a tree: 0 - 1 - 2 - 3, with 4 hanging on 1; variable 5 is apart with 6
    scopes = [(2, 3), (0, 1), (1, 2), (1, 4), (5, 6)]
    assert orders.components(scopes, range(8)) == [[0, 1, 2, 4, 3], [5, 6], [7]]
