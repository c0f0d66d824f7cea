"""Vtrees for graphical models, `ek.vtrees`: elimination orders and the trees they lead to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set as AbstractSet
from heapq import heapify, heappop, heappush
from typing import Any

from expectedkernels.checks import check_count
from expectedkernels.circuits.alignment import align
from expectedkernels.errors import CircuitError
from expectedkernels.vtree import Vtree

__all__ = [
    "align",
    "bisection_vtree",
    "conditioning_vtree",
    "elimination_vtree",
    "min_fill_order",
]

Graph = Sequence[AbstractSet[int]]
"""The neighbours of every variable."""


def __dir__() -> list[str]:
    return __all__


def interaction_graph(
    n_variables: int, scopes: Iterable[Sequence[int]]
) -> tuple[frozenset[int], ...]:
    """The neighbours of every variable: those it shares a factor with.

    Parameters
    ----------
    n_variables : int
    scopes : iterable of sequences of int
        The variables of every factor.

    Examples
    --------
    >>> [sorted(found) for found in interaction_graph(4, [(0, 1), (1, 2)])]
    [[1], [0, 2], [1], []]
    """
    neighbours: list[set[int]] = [set() for _ in range(n_variables)]
    for scope in scopes:
        for variable in scope:
            neighbours[variable].update(scope)
    return tuple(frozenset(found - {v}) for v, found in enumerate(neighbours))


def require_graph(graph: Any) -> Graph:
    """The graph, after checking that it is one: the neighbours of every variable, as sets."""
    if hasattr(graph, "cardinalities") or not isinstance(graph, Sequence):
        of_model = " Give model.graph." if hasattr(graph, "graph") else ""
        raise CircuitError(
            "A graph is a sequence with the set of neighbours of every variable. "
            f"Got {type(graph).__name__} instead.{of_model}"
        )
    return graph


def min_fill_order(graph: Graph) -> list[int]:
    """The order in which greedy elimination adds the fewest edges, variable by variable.

    Eliminating a variable connects its neighbours. The next one is the variable that adds the
    fewest edges; of several, the one with the fewest neighbours; of these, the first.

    Parameters
    ----------
    graph : sequence of sets
        The neighbours of every variable.

    Examples
    --------
    >>> min_fill_order([{1}, {0, 2}, {1, 3}, {2}])
    [0, 1, 2, 3]
    """
    around = [set(found) for found in require_graph(graph)]
    fill = [_missing_edges(around, v) for v in range(len(around))]
    queue = [(fill[v], len(around[v]), v) for v in range(len(around))]
    heapify(queue)
    done = [False] * len(around)
    order: list[int] = []
    while queue:
        added, degree, v = heappop(queue)
        if done[v] or (added, degree) != (fill[v], len(around[v])):
            continue  # an entry from before the graph changed around this variable
        order.append(v)
        done[v] = True
        touched = _eliminate(around, fill, v)
        for u in touched:
            heappush(queue, (fill[u], len(around[u]), u))
    return order


def _missing_edges(around: list[set[int]], v: int) -> int:
    """How many pairs of neighbours of a variable are not neighbours of each other."""
    near = around[v]
    return (len(near) * (len(near) - 1) - sum(len(around[u] & near) for u in near)) // 2


def _eliminate(around: list[set[int]], fill: list[int], v: int) -> set[int]:
    """Connect the neighbours of a variable and remove it; returns whose numbers changed."""
    near = sorted(around[v])
    touched = set(near)
    for i, a in enumerate(near):
        for b in near[i + 1 :]:
            if b in around[a]:
                continue
            both = around[a] & around[b]
            for u in both:
                fill[u] -= 1
            touched |= both
            fill[a] += len(around[a]) - len(both)
            fill[b] += len(around[b]) - len(both)
            around[a].add(b)
            around[b].add(a)
    inside = around[v] | {v}
    for u in near:
        fill[u] -= len(around[u] - inside)
        around[u].discard(v)
    touched.discard(v)
    return touched


class _Forest:
    """Vtree nodes made one after the other, and which tree every variable is in so far."""

    def __init__(self, n_variables: int):
        self.nodes: list[tuple[int, int, int]] = []
        self.above = list(range(n_variables))
        self.tree = [-1] * n_variables

    def leaf(self, variable: int) -> int:
        self.nodes.append((-1, -1, variable))
        return len(self.nodes) - 1

    def join(self, left: int, right: int) -> int:
        self.nodes.append((left, right, -1))
        return len(self.nodes) - 1

    def right_deep(self, trees: Sequence[int]) -> int:
        """The trees in a row, the first one on top."""
        joined = trees[-1]
        for tree in reversed(trees[:-1]):
            joined = self.join(tree, joined)
        return joined

    def find(self, variable: int) -> int:
        """The last variable that was added to the tree of a variable."""
        root = variable
        while self.above[root] != root:
            root = self.above[root]
        while self.above[variable] != root:
            self.above[variable], variable = root, self.above[variable]
        return root

    def vtree(self) -> Vtree:
        left, right, variable = zip(*self.nodes, strict=True)
        return Vtree(left, right, variable)


def _elimination_forest(graph: Graph, order: Sequence[int] | None, grow: Any) -> Vtree:
    """Trees that grow variable by variable along an elimination order.

    ``grow(forest, variable, trees)`` makes one tree of a variable and of the trees around it (the
    ones whose last variable came latest first).
    """
    graph = require_graph(graph)
    order = min_fill_order(graph) if order is None else [int(v) for v in order]
    if sorted(order) != list(range(len(graph))):
        raise CircuitError(
            f"An elimination order holds each of the variables 0..{len(graph) - 1} once. "
            f"Got {order[:20]}{' ...' if len(order) > 20 else ''}."
        )
    if not order:
        raise CircuitError("A vtree needs at least one variable. Got a graph without any.")
    forest = _Forest(len(graph))
    position = {v: i for i, v in enumerate(order)}
    for v in order:
        near = {forest.find(u) for u in graph[v] if position[u] < position[v]}
        roots = sorted(near, key=lambda u: -position[u])
        forest.tree[v] = grow(forest, v, [forest.tree[u] for u in roots])
        for u in roots:
            forest.above[u] = v
    last = [v for v in reversed(order) if forest.above[v] == v]
    forest.right_deep([forest.tree[v] for v in last])
    return forest.vtree()


def conditioning_vtree(graph: Graph, order: Sequence[int] | None = None) -> Vtree:
    """The vtree that decides variables in reversed elimination order, component by component.

    The variable eliminated last comes first, as the left child of the root. Where the variables
    that are left fall apart into components, these are split. So every node whose two sides
    interact has a leaf as its left child.

    Parameters
    ----------
    graph : sequence of sets
        The neighbours of every variable.
    order : sequence of int, optional
        The elimination order. Default: `min_fill_order`.

    Examples
    --------
    >>> star = [{1, 2, 3}, {0}, {0}, {0}]
    >>> conditioning_vtree(star, [1, 2, 3, 0])
    Vtree((0, (3, (2, 1))))
    >>> conditioning_vtree([{1}, {0}, {3}, {2}])
    Vtree(((3, 2), (1, 0)))
    """

    def grow(forest: _Forest, variable: int, trees: list[int]) -> int:
        if not trees:
            return forest.leaf(variable)
        below = forest.right_deep(trees)
        return forest.join(forest.leaf(variable), below)

    return _elimination_forest(graph, order, grow)


def elimination_vtree(graph: Graph, order: Sequence[int] | None = None) -> Vtree:
    """The vtree that joins a variable, when it is eliminated, with all trees that touch it.

    Few of the variables below a node have neighbours outside, which is what the boundary compiler
    wants.

    Parameters
    ----------
    graph : sequence of sets
        The neighbours of every variable.
    order : sequence of int, optional
        The elimination order. Default: `min_fill_order`.

    Examples
    --------
    >>> elimination_vtree([{1}, {0, 2}, {1, 3}, {2}])
    Vtree((3, (2, (1, 0))))
    """

    def grow(forest: _Forest, variable: int, trees: list[int]) -> int:
        joined = forest.leaf(variable)
        for tree in reversed(trees):
            joined = forest.join(joined, tree)
        return joined

    return _elimination_forest(graph, order, grow)


def bisection_vtree(rows: int, cols: int) -> Vtree:
    """The vtree of a grid whose longer side is halved again and again (of equal ones, the rows).

    Parameters
    ----------
    rows, cols : int
        The size of the grid; variable ``i * cols + j`` is in row i and column j.

    Examples
    --------
    >>> bisection_vtree(2, 3)
    Vtree(((0, 3), ((1, 2), (4, 5))))
    """
    check_grid(rows, cols, "bisection_vtree")
    forest = _Forest(rows * cols)
    stack = [(0, rows, 0, cols, False)]
    done: list[int] = []
    while stack:
        top, bottom, first, last, expanded = stack.pop()
        height, width = bottom - top, last - first
        if height == width == 1:
            done.append(forest.leaf(top * cols + first))
        elif expanded:
            b, a = done.pop(), done.pop()
            done.append(forest.join(a, b))
        else:
            stack.append((top, bottom, first, last, True))
            if height >= width:
                middle = top + height // 2
                stack += [(middle, bottom, first, last, False), (top, middle, first, last, False)]
            else:
                middle = first + width // 2
                stack += [(top, bottom, middle, last, False), (top, bottom, first, middle, False)]
    return forest.vtree()


def check_grid(rows: int, cols: int, what: str) -> None:
    """Raise unless the sides of a grid are positive integers."""
    for name, side in (("rows", rows), ("cols", cols)):
        check_count(what, name, side, 1)
