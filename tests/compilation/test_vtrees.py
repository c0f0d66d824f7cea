import numpy as np
import pytest
from hypothesis import given, strategies as st

from expectedkernels.compilation.datasets import ising_grid
from expectedkernels.compilation.vtrees import (
    bisection_vtree,
    conditioning_vtree,
    elimination_vtree,
    interaction_graph,
    min_fill_order,
)
from expectedkernels.errors import CircuitError
from expectedkernels.vtree import Vtree
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
    first, *others = components(graph, variables)
    if others:
        rest = [v for v in variables if v not in first]
        return naive_conditioning(graph, first), naive_conditioning(graph, rest)
    return variables[0], naive_conditioning(graph, variables[1:])


@given(graphs())
def test_min_fill_order(graph):
    assert min_fill_order(graph) == naive_min_fill(graph)


@given(graphs(), rngs)
def test_conditioning_vtree(graph, rng):
    order = rng.permutation(len(graph)).tolist()
    expected = naive_conditioning(graph, order[::-1])
    assert conditioning_vtree(graph, order).to_nested() == expected


@given(graphs())
def test_sides_of_conditioning_vtrees_interact_through_a_leaf(graph):
    vtree = conditioning_vtree(graph)
    for node in np.flatnonzero(vtree.variable < 0):
        right = set(vtree.scope(vtree.right[node]).tolist())
        meets = any(graph[v] & right for v in vtree.scope(vtree.left[node]).tolist())
        assert not meets or vtree.is_leaf(vtree.left[node])


@given(graphs())
def test_elimination_vtree_joins_what_touches(graph):
    vtree = elimination_vtree(graph)
    assert sorted(vtree.scope().tolist()) == list(range(len(graph)))
    if len(components(graph, range(len(graph)))) == 1:
        last = min_fill_order(graph)[-1]
        assert vtree.scope()[0] == last


def test_interaction_graph_has_no_loops():
    graph = interaction_graph(5, [(0, 1, 2), (2, 1), (3,), ()])
    assert graph == ({1, 2}, {0, 2}, {0, 1}, frozenset(), frozenset())


def test_isolated_variables_are_in_the_vtree():
    vtree = conditioning_vtree(interaction_graph(4, [(0, 2)]))
    assert sorted(vtree.scope().tolist()) == [0, 1, 2, 3]


def test_long_chains():
    n = 10_000
    graph = interaction_graph(n, [(i, i + 1) for i in range(n - 1)])
    assert conditioning_vtree(graph) == Vtree.right_linear(range(n - 1, -1, -1))
    assert elimination_vtree(graph).n_variables == n


def test_long_stars():
    n = 10_000
    graph = interaction_graph(n, [(0, i) for i in range(1, n)])
    assert conditioning_vtree(graph).scope()[-1] == 1


@pytest.mark.parametrize("side", [1, 2, 3, 5, 8])
def test_bisection(side):
    vtree = bisection_vtree(side, side + 1)
    assert sorted(vtree.scope().tolist()) == list(range(side * (side + 1)))
    assert vtree.height[-1] <= 2 * np.ceil(np.log2(side + 1))
    graph = interaction_graph(side * (side + 1), grid_scopes(side, side + 1))
    # every part of the grid hangs together
    assert all(len(components(graph, vtree.scope(v).tolist())) == 1 for v in range(vtree.n_nodes))


def test_errors():
    graph = ising_grid(2, 2, rng=0).graph
    with pytest.raises(CircuitError, match=r"each of the variables 0\.\.3 once\. Got \[0, 1\]"):
        conditioning_vtree(graph, [0, 1])
    with pytest.raises(CircuitError, match="needs at least one variable"):
        elimination_vtree([])
    with pytest.raises(CircuitError, match=r"'rows' parameter of bisection_vtree .* Got 0 instead"):
        bisection_vtree(0, 2)
    with pytest.raises(CircuitError, match=r"'cols' parameter of bisection_vtree .* Got 1\.5"):
        bisection_vtree(1, 1.5)
