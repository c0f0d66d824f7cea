"""Trees of variables: maximum spanning forests, their roots, and the vtrees they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from expectedkernels.learning.data import FloatArray
from expectedkernels.vtree import Vtree

SAME = 12
"""Weights of edges are compared after rounding to so many decimals, so that ties stay ties."""


@dataclass(frozen=True)
class Forest:
    """Rooted trees over variables 0, 1, ...

    Examples
    --------
    >>> Forest((-1, 0, 0)).children
    [[1, 2], [], []]
    """

    parent: tuple[int, ...]  # the parent of every variable, -1 at roots

    @property
    def roots(self) -> list[int]:
        """The roots, in order."""
        return [v for v, parent in enumerate(self.parent) if parent < 0]

    @cached_property
    def children(self) -> list[list[int]]:
        """The children of every variable, in order."""
        children: list[list[int]] = [[] for _ in self.parent]
        for v, parent in enumerate(self.parent):
            if parent >= 0:
                children[parent].append(v)
        return children


def spanning_edges(weights: FloatArray) -> list[tuple[int, int]]:
    """The edges of the maximum spanning tree.

    Edges come before each other by (larger weight, smaller i, smaller j) for i < j, which makes
    the tree unique. Cost: O(D^2).

    Examples
    --------
    >>> spanning_edges(np.array([[0.0, 0.1, 0.3], [0.1, 0.0, 0.2], [0.3, 0.2, 0.0]]))
    [(0, 2), (1, 2)]
    """
    n = len(weights)
    rounded = np.round(weights, SAME)
    outside = np.arange(1, n)
    best, link = rounded[0, 1:].copy(), np.zeros(n - 1, dtype=np.intp)
    edges: list[tuple[int, int]] = []
    while len(outside):
        low, high = np.minimum(link, outside), np.maximum(link, outside)
        tied = (best == best.max()).sum() > 1
        chosen = int(np.lexsort((high, low, -best))[0] if tied else np.argmax(best))
        vertex = int(outside[chosen])
        edges.append((int(low[chosen]), int(high[chosen])))
        keep = np.arange(len(outside)) != chosen
        outside, best, link = outside[keep], best[keep], link[keep]
        new = rounded[vertex, outside]
        low, high = np.minimum(link, outside), np.maximum(link, outside)
        new_low, new_high = np.minimum(vertex, outside), np.maximum(vertex, outside)
        earlier = (new_low < low) | ((new_low == low) & (new_high < high))
        better = (new > best) | ((new == best) & earlier)
        best, link = np.where(better, new, best), np.where(better, vertex, link)
    return sorted(edges)


def decided_edges(weights: FloatArray, ranks: Any) -> list[tuple[int, int]]:
    """The edges that all maximum spanning trees have, of edges that are told apart by ranks.

    Edges come before each other by larger weight, then by the smaller and the larger rank of their
    ends. Where all of these are equal nothing tells which edge to take, and none is taken.

    Examples
    --------
    >>> weights = np.array([[0.0, 0.6, 0.3], [0.6, 0.0, 0.3], [0.3, 0.3, 0.0]])
    >>> decided_edges(weights, [0, 1, 2]), decided_edges(weights, [0, 0, 1])
    ([(0, 1), (0, 2)], [(0, 1)])
    """
    n, ends = len(weights), (np.maximum.outer(ranks, ranks), np.minimum.outer(ranks, ranks))
    keys = np.stack([*(-x.ravel() for x in ends), np.round(weights, SAME).ravel()])
    order = np.lexsort(keys)
    place = np.zeros((n, n))
    place.flat[order[1:]] = np.cumsum(np.diff(keys[:, order], axis=1).any(axis=0))
    edges, found = spanning_edges(place), []
    if len(set(ranks)) == n:
        return edges
    for i, j in edges:
        near = _neighbours(n, [edge for edge in edges if edge != (i, j)])
        sides = (list(_search(near, end)) for end in (i, j))
        if (place[np.ix_(*sides)] == place[i, j]).sum() == 1:
            found.append((i, j))
    return found


def rooted(
    n: int,
    edges: Sequence[tuple[int, int]],
    root: Any = "center",
    ranks: Any = None,
) -> Forest:
    """The forest with every tree rooted at its centre, or (one of them) as told.

    The centre is the vertex whose farthest vertex is nearest, that of the smaller rank (by default
    the smaller one) if there are two; if nothing tells these apart, they are not connected. With
    an int as the root, that variable is the root of its tree, and other trees have their centres.

    Examples
    --------
    >>> rooted(3, [(0, 1), (1, 2)]).parent
    (1, -1, 1)
    """
    ranks = range(n) if ranks is None else ranks
    near = _neighbours(n, edges)
    parent = [-1] * n
    done = [False] * n
    for start in range(n):
        if done[start]:
            continue
        tree = list(_search(near, start))
        if root in tree:
            top = root
        else:
            while len(middle := _middle(near, start)) == 2 and len({ranks[v] for v in middle}) == 1:
                near[middle[0]].remove(middle[1])
                near[middle[1]].remove(middle[0])
            top = min(middle, key=lambda v: ranks[v])
        for v, above in _search(near, top).items():
            parent[v], done[v] = above, True
    return Forest(tuple(parent))


def _neighbours(n: int, edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    near: list[list[int]] = [[] for _ in range(n)]
    for i, j in edges:
        near[i].append(j)
        near[j].append(i)
    return near


def _search(near: list[list[int]], start: int) -> dict[int, int]:
    """What is reached from a vertex, the farthest last, each with where it was reached from."""
    reached = {start: -1}
    queue = [start]
    for v in queue:
        for other in near[v]:
            if other not in reached:
                reached[other] = v
                queue.append(other)
    return reached


def _middle(near: list[list[int]], start: int) -> list[int]:
    """The vertex in the middle of a longest path, or the two that are."""
    end = next(reversed(_search(near, start)))
    back = _search(near, end)
    path = [next(reversed(back))]
    while back[path[-1]] >= 0:
        path.append(back[path[-1]])
    half = len(path) // 2
    return path[half : half + 1] if len(path) % 2 else path[half - 1 : half + 1]


@dataclass(frozen=True)
class TreeVtree:
    """The vtree of a forest, and what its nodes stand for."""

    # a variable with children has its leaf on the left, and its children's nodes, grouped, on the
    # right
    vtree: Vtree
    # for every node one of the tree's variables at its top: the variable that decides at the node,
    # or one of the siblings grouped there
    top: list[int]
    decides: list[bool]  # whether the node is an inner node at which a variable decides


def tree_vtree(forest: Forest) -> TreeVtree:
    """The vtree of a forest: every variable beside its group of children.

    Siblings (and roots) are grouped by halves.

    Examples
    --------
    >>> tree_vtree(Forest((-1, 0, 0, 1))).vtree
    Vtree((0, ((1, 3), 2)))
    """
    nodes: list[tuple[int, int, int]] = []
    top: list[int] = []
    decides: list[bool] = []
    done: list[int] = []
    # a group of siblings; or a variable whose two parts are done; or None: two groups are done
    stack: list[Any] = [forest.roots]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            if len(item) > 1:
                half = len(item) // 2
                stack += [None, item[half:], item[:half]]
                continue
            v = item[0]
            if forest.children[v]:
                stack += [v, forest.children[v]]
            nodes.append((-1, -1, v))
            top.append(v)
            decides.append(False)
        else:
            b, a = done.pop(), done.pop()
            nodes.append((a, b, -1))
            top.append(top[a])
            decides.append(item is not None)
        done.append(len(nodes) - 1)
    return TreeVtree(Vtree(*zip(*nodes, strict=True)), top, decides)
