"""Vtrees for graphical models, `ek.vtrees`: the trees that elimination orders lead to."""

from __future__ import annotations

from collections.abc import Sequence, Set as AbstractSet

from expectedkernels.checks import check_count
from expectedkernels.circuits.alignment import align
from expectedkernels.compilation.orders import (
    Elimination,
    Graph,
    best_elimination,
    elimination,
    joins,
    min_fill_order,
    require_graph,
)
from expectedkernels.errors import CircuitError
from expectedkernels.vtree import Vtree

__all__ = [
    "align",
    "bisection_vtree",
    "conditioning_vtree",
    "elimination_vtree",
    "min_fill_order",
]


def __dir__() -> list[str]:
    return __all__


class _Forest:
    """Vtree nodes made one after the other."""

    def __init__(self) -> None:
        self.nodes: list[tuple[int, int, int]] = []

    def leaf(self, variable: int) -> int:
        self.nodes.append((-1, -1, variable))
        return len(self.nodes) - 1

    def join(self, left: int, right: int) -> int:
        self.nodes.append((left, right, -1))
        return len(self.nodes) - 1

    def joined(
        self, trees: list[int], contexts: Sequence[AbstractSet[int]], cardinalities: Sequence[int]
    ) -> int:
        """One tree of several, those with the smallest common context joined first."""
        trees = list(trees)
        for a, b, _ in joins(contexts, cardinalities):
            trees[a] = self.join(trees[a], trees[b])
        return trees[0]

    def vtree(self) -> Vtree:
        left, right, variable = zip(*self.nodes, strict=True)
        return Vtree(left, right, variable)


def _elimination(
    graph: Graph, order: Sequence[int] | None, cardinalities: Sequence[int], for_pairs: bool
) -> Elimination:
    """The elimination in a given order, after checking it, or else in the best one."""
    n = len(require_graph(graph))
    if n == 0:
        raise CircuitError("A vtree needs at least one variable. Got a graph without any.")
    if order is None:
        return best_elimination(graph, cardinalities, for_pairs)
    order = [int(v) for v in order]
    if sorted(order) != list(range(n)):
        raise CircuitError(
            f"An elimination order holds each of the variables 0..{n - 1} once. "
            f"Got {order[:20]}{' ...' if len(order) > 20 else ''}."
        )
    return elimination(graph, order)


def conditioning_vtree(
    graph: Graph,
    order: Sequence[int] | None = None,
    cardinalities: Sequence[int] | None = None,
    for_pairs: bool = False,
) -> Vtree:
    """The vtree that decides variables in reversed elimination order, component by component.

    The variable eliminated last comes first, as the left child of the root. Where the variables
    that are left fall apart into components, these are split, so that those with the
    smallest common context meet first. So every node whose two sides interact has a leaf as its
    left child.

    Parameters
    ----------
    graph : sequence of sets
        The neighbours of every variable.
    order : sequence of int, optional
        The elimination order. Default: the best that is found; a function of the graph, the
        cardinalities and `for_pairs` alone.
    cardinalities : sequence of int, optional
        The number of states of every variable. Default: two each.
    for_pairs : bool
        Whether the order makes expected kernels between two circuits cheap, rather than the
        circuit itself.

    Returns
    -------
    Vtree

    Examples
    --------
    >>> star = [{1, 2, 3}, {0}, {0}, {0}]
    >>> conditioning_vtree(star, [1, 2, 3, 0])
    Vtree((0, (3, (2, 1))))
    >>> conditioning_vtree([{1}, {0}, {3}, {2}])
    Vtree(((3, 2), (1, 0)))
    """
    cards = [2] * len(require_graph(graph)) if cardinalities is None else cardinalities
    found = _elimination(graph, order, cards, for_pairs)
    forest, children = _Forest(), found.children()
    tree = [-1] * len(graph)

    def join(variables: list[int]) -> int:
        contexts = [found.contexts[u] for u in variables]
        return forest.joined([tree[u] for u in variables], contexts, cards)

    for v in found.order:
        below = children[v]
        under = join(below) if below else -1
        tree[v] = forest.join(forest.leaf(v), under) if below else forest.leaf(v)
    join([v for v in reversed(found.order) if not found.contexts[v]])
    return forest.vtree()


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

    Returns
    -------
    Vtree

    Examples
    --------
    >>> elimination_vtree([{1}, {0, 2}, {1, 3}, {2}])
    Vtree((3, (2, (1, 0))))
    """
    order = min_fill_order(graph) if order is None else order
    found = _elimination(graph, order, [], False)
    forest, children = _Forest(), found.children()
    tree = [-1] * len(graph)
    for v in found.order:
        tree[v] = forest.leaf(v)
        for u in reversed(children[v]):
            tree[v] = forest.join(tree[v], tree[u])
    last, *others = [tree[v] for v in found.order if not found.contexts[v]]
    for other in others:
        last = forest.join(other, last)
    return forest.vtree()


def bisection_vtree(rows: int, cols: int) -> Vtree:
    """The vtree of a grid whose longer side is halved again and again (of equal ones, the rows).

    Parameters
    ----------
    rows, cols : int
        The size of the grid; variable ``i * cols + j`` is in row i and column j.

    Returns
    -------
    Vtree

    Examples
    --------
    >>> bisection_vtree(2, 3)
    Vtree(((0, 3), ((1, 2), (4, 5))))
    """
    check_grid(rows, cols, "bisection_vtree")
    forest = _Forest()
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
