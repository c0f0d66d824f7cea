"""Elimination orders and vtrees: `ek.vtrees`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set as AbstractSet
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import combinations, count
from math import prod
from typing import Any

import numpy as np

from expectedkernels.checks import CircuitError, check_count
from expectedkernels.circuits.circuit import align
from expectedkernels.vtree import Vtree, by_splits

Graph = Sequence[AbstractSet[int]]
"""The neighbours of every variable."""

SCORES = ("front", "weighted fill", "size", "fill")
"""What greedy searches go by, in the order in which they are tried: see `best_elimination`."""
SMALL = 15_000
"""For models that cost less than so many entries of tables, the first order is good enough."""
STEP_ENTRIES = 800
"""A step of a search takes about as long as so many entries of tables."""
SHARE = 4
"""A search may take so many times less than the tables that it makes smaller."""
MOST_STEPS = 50_000
"""However large the tables are, a search ends after about so many steps."""
MOST_CONTEXTS = 32
"""More contexts than this are joined in a row, without looking for the best pair."""


def interaction_graph(n: int, scopes: Iterable[Sequence[int]]) -> tuple[frozenset[int], ...]:
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
    near = neighbours(scopes, range(n))
    return tuple(frozenset(found - {v}) for v, found in near.items())


def require_graph(graph: Any) -> Graph:
    """The graph, after checking that it is one: the neighbours of every variable, as sets."""
    if hasattr(graph, "cardinalities") or not isinstance(graph, Sequence):
        of_model = " Give model.graph." if hasattr(graph, "graph") else ""
        what = "A graph is a sequence with the set of neighbours of every variable"
        raise CircuitError(f"{what}. Got {type(graph).__name__} instead.{of_model}")
    return graph


@dataclass(frozen=True, eq=False)
class Elimination:
    """An order of elimination, and what every variable is still connected to when its turn comes.

    Attributes
    ----------
    order : tuple of int
    contexts : tuple of sets
        For every variable those of its neighbours, old and new, that are eliminated later.
    """

    order: tuple[int, ...]
    contexts: tuple[AbstractSet[int], ...]

    def children(self) -> list[list[int]]:
        """For every variable those whose contexts it is the first of, the latest first."""
        position = {v: i for i, v in enumerate(self.order)}
        found: list[list[int]] = [[] for _ in self.order]
        for v in reversed(self.order):
            if self.contexts[v]:
                found[min(self.contexts[v], key=position.__getitem__)].append(v)
        return found


def elimination(graph: Graph, order: Sequence[int]) -> Elimination:
    """The elimination of the variables of a graph in a given order.

    Examples
    --------
    >>> elimination([{1, 2}, {0}, {0}], [0, 1, 2]).contexts
    ({1, 2}, {2}, set())
    """
    position = {v: i for i, v in enumerate(order)}
    contexts = [{u for u in near if position[u] > position[v]} for v, near in enumerate(graph)]
    for v in order:
        contexts[v].discard(v)
        if contexts[v]:
            contexts[min(contexts[v], key=position.__getitem__)] |= contexts[v]
    return Elimination(tuple(order), tuple(contexts))


def min_fill_order(graph: Graph) -> list[int]:
    """The order in which greedy elimination adds the fewest edges, variable by variable.

    Eliminating a variable connects its neighbours. The next one is the variable that adds the
    fewest edges; of several, the one with the fewest neighbours; of these, the first.

    Parameters
    ----------
    graph : sequence of sets
        The neighbours of every variable.

    Returns
    -------
    list of int

    Examples
    --------
    >>> min_fill_order([{1}, {0, 2}, {1, 3}, {2}])
    [0, 1, 2, 3]
    """
    n = len(require_graph(graph))
    found: Any = _greedy(graph, [2] * n, "fill", range(n))[0]
    return list(found.order)


def best_elimination(graph: Graph, cards: Sequence[int], for_pairs: bool = False) -> Elimination:
    """The best of several greedy eliminations: the one whose tables cost least.

    The first is in min-fill order. Where its tables are large, others follow, by four scores: edges
    added (fill), these weighed by cardinalities (weighted fill), the size of the table, and the
    size of the table again, but next to what has been eliminated as long as that is possible
    (front), which suits grids. Ties are broken by numbers that are drawn with a fixed seed. How
    many orders are tried depends on the sizes found and on nothing else, so that all models of one
    graph get the same one.

    Parameters
    ----------
    graph : sequence of sets
        The neighbours of every variable.
    cards : sequence of int
    for_pairs : bool
        Whether the cost is that of an expected kernel between two circuits.

    Examples
    --------
    >>> best_elimination([{1}, {0, 2}, {1}], [2, 2, 2]).order
    (0, 1, 2)
    """
    n = len(graph)
    best: Any
    best, lowest, _ = _greedy(graph, cards, "fill", range(n), for_pairs)
    if lowest < SMALL // 2 and not for_pairs:  # joins add less than the tables
        return best
    cost, score, n_steps = elimination_cost(best, cards, for_pairs), SCORES[0], 0
    rng = np.random.default_rng(0)
    for number in count():
        if cost < SMALL or n_steps >= min(MOST_STEPS, cost // (STEP_ENTRIES * SHARE)):
            break
        # once every score has had its turn, every second try goes by the one that did best
        tried = SCORES[number % len(SCORES)] if number < len(SCORES) or number % 2 else score
        ranks = rng.permutation(n).tolist()
        found, _, steps = _greedy(graph, cards, tried, ranks, for_pairs, cost)
        n_steps += steps
        its_cost = cost if found is None else elimination_cost(found, cards, for_pairs)
        if its_cost < cost:
            best, cost, score = found, its_cost, tried
    return best


def elimination_cost(found: Elimination, cards: Sequence[int], for_pairs: bool = False) -> int:
    """About how many entries of tables an elimination, or an expected kernel, works on.

    In an expected kernel a decision with U units and P products, W of whose weights are not zero,
    takes P^2 values from below and sums them along both axes, W (P + U); taking values takes
    longer than summing them, most of all at joins, where values lie apart in memory.
    """
    total = 0
    for v, below in enumerate(found.children()):
        units = prod(map(cards.__getitem__, found.contexts[v]))
        joined = joins([found.contexts[u] for u in below], cards)
        sizes = [prod(map(cards.__getitem__, context)) for _, _, context in joined]
        if not for_pairs:
            total += cards[v] * units + sum(sizes)
        elif not below:
            total += units**2
        else:
            top = joined[-1][2] if joined else found.contexts[below[0]]
            products = prod(map(cards.__getitem__, top))
            total += 4 * products**2 + cards[v] * units * (products + units)
            total += 10 * sum(size**2 for size in sizes)
    return total


Join = tuple[int, int, AbstractSet[int]]


def joins(contexts: Sequence[AbstractSet[int]], cardinalities: Sequence[int]) -> list[Join]:
    """How trees with these contexts become one: which two at a time, and their common context.

    Trees with one context come first, in a row; then the two whose common context has the
    fewest states. The result of a join takes the place of its first tree.

    Examples
    --------
    >>> [(a, b) for a, b, _ in joins([{0, 1}, {0, 2}, {0, 1}], [2, 2, 2])]
    [(0, 2), (0, 1)]
    """
    if len(contexts) < 2:
        return []
    groups: dict[frozenset[int], list[int]] = {}
    for tree, context in enumerate(contexts):
        groups.setdefault(frozenset(context), []).append(tree)
    found: list[Join] = []
    left: list[tuple[int, AbstractSet[int]]] = []
    for context, trees in groups.items():
        for a, b in zip(trees[-2::-1], trees[:0:-1], strict=True):
            found.append((a, b, context))
        left.append((trees[0], context))
    while len(left) > 1:
        last = len(left) - 1
        pairs = [(last - 1, last)] if last >= MOST_CONTEXTS else combinations(range(last + 1), 2)
        _, i, j = min(
            (prod(cardinalities[u] for u in left[i][1] | left[j][1]), -i, -j) for i, j in pairs
        )
        (a, one), (b, other) = left[-i], left.pop(-j)
        left[-i] = (a, one | other)
        found.append((a, b, one | other))
    return found


def _greedy(
    graph: Graph,
    cards: Sequence[int],
    score: str,
    ranks: Sequence[int],
    for_pairs: bool = False,
    limit: float = float("inf"),
) -> tuple[Elimination | None, int, int]:
    """The elimination by a score, ties broken by ranks; None if it costs more than a limit.

    With its cost without joins, a lower bound, and how many steps it has taken.
    """
    n = len(graph)
    shrinking = _Shrinking(graph, cards if score == "weighted fill" else [1] * n)
    contexts, fill = shrinking.around, shrinking.fill

    def size(v: int) -> int:
        return prod(map(cards.__getitem__, contexts[v]), start=cards[v])

    front: AbstractSet[int] = set()

    def key(v: int) -> tuple[bool, int, int, int, int]:
        first = size(v) if score in ("size", "front") else fill[v]
        behind = score == "front" and v not in front
        return behind, first, len(contexts[v]), ranks[v], v

    keys = [key(v) for v in range(n)]
    queue = list(keys)
    heapify(queue)
    order: dict[int, None] = {}
    cost = n_steps = 0
    while queue:
        entry = heappop(queue)
        v = entry[-1]
        if v in order or entry is not keys[v]:
            continue  # an entry from before the graph changed around this variable
        cost += (size(v) // cards[v]) ** 2 if for_pairs else size(v)
        if cost > limit:
            return None, cost, n_steps
        order[v] = None
        changed = shrinking.eliminate(v)
        front = contexts[v]
        for u in changed:
            keys[u] = key(u)
            heappush(queue, keys[u])
        n_steps += len(changed)
    return Elimination(tuple(order), tuple(contexts)), cost, n_steps


class _Shrinking:
    """A graph that loses one variable after the other, and what each would cost in new edges.

    Attributes
    ----------
    around : list of sets
        The neighbours of every variable; of those that are gone, the neighbours they had last.
    fill : list of int
        For every variable the sum over all pairs of neighbours that are not neighbours of each
        other of the product of their weights.
    """

    def __init__(self, graph: Graph, weights: Sequence[int]):
        self.around = [set(found) for found in graph]
        self.weights = weights
        self.total = [self._sum(near) for near in self.around]
        self.fill = [self._missing(v) for v in range(len(self.around))]

    def _sum(self, variables: AbstractSet[int]) -> int:
        return sum(map(self.weights.__getitem__, variables))

    def _missing(self, v: int) -> int:
        """The weights of all pairs of neighbours, less those of the edges among them."""
        near, w, total = self.around[v], self.weights, self.total[v]
        return sum(w[u] * (total - w[u] - self._sum(self.around[u] & near)) for u in near) // 2

    def eliminate(self, v: int) -> AbstractSet[int]:
        """Connect the neighbours of a variable and remove it; returns whose numbers changed."""
        around, fill, total, w = self.around, self.fill, self.total, self.weights
        near = around[v]
        touched = set(near)
        left = set(near)
        for a in sorted(near):
            left.discard(a)
            for b in sorted(left - around[a]):
                both = around[a] & around[b]
                shared, edge = self._sum(both), w[a] * w[b]
                for u in both:
                    fill[u] -= edge
                touched |= both
                fill[a] += w[b] * (total[a] - shared)
                fill[b] += w[a] * (total[b] - shared)
                around[a].add(b)
                around[b].add(a)
                total[a] += w[b]
                total[b] += w[a]
        for u in near:
            total[u] -= w[v]
            fill[u] -= w[v] * (total[u] - total[v] + w[u])
            around[u].discard(v)
        touched.discard(v)
        return touched


def components(scopes: Iterable[Sequence[int]], variables: Iterable[int]) -> list[list[int]]:
    """The variables in groups that no scope connects."""
    near = neighbours(scopes, variables)
    found: list[list[int]] = []
    seen: set[int] = set()
    for start in near:
        group = [start] if start not in seen else []
        seen.update(group)
        for v in group:  # grows while it is read
            fresh = sorted(near[v] - seen)
            seen.update(fresh)
            group += fresh
        found += [group] if group else []
    return found


def neighbours(scopes: Iterable[Sequence[int]], variables: Iterable[int]) -> dict[int, set[int]]:
    """For every variable those that it shares a scope with, and itself."""
    near = {v: {v} for v in variables}
    for scope in scopes:
        for v in scope:
            near[v].update(scope)
    return near


__all__ = ["align", "bisection_vtree", "conditioning_vtree", "elimination_vtree", "min_fill_order"]


def __dir__() -> list[str]:
    return __all__


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
        what = f"An elimination order holds each of the variables 0..{n - 1} once"
        raise CircuitError(f"{what}. Got {order[:20]}{' ...' if len(order) > 20 else ''}.")
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
    tree: list[Any] = list(range(len(graph)))

    def join(variables: list[int]) -> Any:
        """One tree of several, those with the smallest common context joined first."""
        trees = [tree[u] for u in variables]
        for a, b, _ in joins([found.contexts[u] for u in variables], cards):
            trees[a] = (trees[a], trees[b])
        return trees[0]

    children = found.children()
    for v in found.order:
        tree[v] = (v, join(children[v])) if children[v] else v
    return Vtree.from_nested(join([v for v in reversed(found.order) if not found.contexts[v]]))


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
    children, tree = found.children(), list[Any](range(len(graph)))
    for v in found.order:
        for u in reversed(children[v]):
            tree[v] = (tree[v], tree[u])
    last, *others = [tree[v] for v in found.order if not found.contexts[v]]
    for other in others:
        last = (other, last)
    return Vtree.from_nested(last)


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

    def split(part: tuple[int, int, int, int]) -> Any:
        top, bottom, first, last = part
        height, width = bottom - top, last - first
        if height == width == 1:
            return top * cols + first
        if height >= width:
            middle = top + height // 2
            return (top, middle, first, last), (middle, bottom, first, last)
        middle = first + width // 2
        return (top, bottom, first, middle), (top, bottom, middle, last)

    return by_splits((0, rows, 0, cols), split)


def check_grid(rows: int, cols: int, what: str) -> None:
    """Raise unless the sides of a grid are positive integers."""
    for name, side in (("rows", rows), ("cols", cols)):
        check_count(what, name, side, 1)
