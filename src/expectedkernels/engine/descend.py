"""From the root down with one unit per row at every node: choices level by level."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from expectedkernels.engine.levels import Edges, Level, Levels

Choose = Callable[["Choice"], Any]
"""From what there is to choose from to the chosen edge of every (node, row)."""
LONG = 12
"""From so many edges a unit, all of them are looked at together."""
Scores = Callable[[Any, Any], Any]
"""From places in a list of units, and an edge of each, to scores."""


@dataclass(frozen=True, eq=False)
class Choice:
    """Units of one level, one of whose edges each is to be chosen.

    Attributes
    ----------
    number : int
        The number of the level.
    level : Level
    nodes : int array
        The vtree nodes, without those that have no weights.
    units : int array of shape (nodes, rows)
        Their units, counted within the level.
    """

    number: int
    level: Level
    nodes: Any
    units: Any

    @property
    def flat(self) -> Any:
        """The units of all nodes, one after the other."""
        return self.units.reshape(-1)


def descend(levels: Levels, n: int, choose: Choose) -> Any:
    """The chosen atom of every leaf (in the order of the lowest level) and row, (leaves, n)."""
    at = np.zeros((levels.vtree.n_nodes, n), dtype=np.intp)
    at[-1] = levels.roots.start
    products: Any = None
    for number in range(len(levels.levels) - 1, -1, -1):
        level = levels.levels[number]
        products = at[level.nodes] - level.start
        free = level.n_passed_nodes
        if free < len(level.nodes):
            choice = Choice(number, level, level.nodes[free:], products[free:])
            products[free:] = level.all_edges.products[choose(choice)]
        if level.inputs is not None:
            for side, children in enumerate((levels.vtree.left, levels.vtree.right)):
                at[children[level.nodes]] = level.inputs[side][products]
    return products


def _runs(edges: Edges, units: Any) -> tuple[Any, Any, Any]:
    """The edges of units end to end: where each unit's begin, the unit's place, and the edges."""
    first = edges.starts[units]
    sizes = edges.starts[units + 1] - first
    begins = np.cumsum(sizes) - sizes
    owners = np.repeat(np.arange(len(units)), sizes)
    return begins, owners, np.arange(len(owners)) + (first - begins)[owners]


def _are_long(edges: Edges, units: Any) -> bool:
    """Whether units have so many edges that looking at one after the other takes too long."""
    counts = np.diff(edges.starts)
    return bool(counts.max() > LONG and counts[units].mean() > LONG)


def walked_to(edges: Edges, units: Any, scores: Scores, goals: Any) -> Any:
    """The first edge of every unit whose score reaches a goal; some edge does."""
    if _are_long(edges, units):
        begins, owners, every = _runs(edges, units)
        reached = np.flatnonzero(scores(owners, every) >= goals[owners])
        return every[reached[np.searchsorted(reached, begins)]]
    at = edges.starts[units]
    chosen = at.copy()
    waiting = np.arange(len(units))
    while len(waiting):
        missed = np.flatnonzero(scores(waiting, at) < goals)
        waiting, at, goals = waiting[missed], at[missed] + 1, goals[missed]
        chosen[waiting] = at
    return chosen


def drawn(edges: Edges, units: Any, scores: Scores, totals: Any, uniform: Any) -> Any:
    """One edge of every unit, with probability in proportion to scores, whose sums are given.

    The first edge up to which scores add up to more than a uniform number times their sum; if
    rounding makes that none, the last one whose score is positive.
    """
    if _are_long(edges, units):
        begins, owners, every = _runs(edges, units)
        shares = scores(owners, every) / totals[owners]
        ends = np.append(begins[1:], len(every))
        return every[_cut(shares, begins, ends, np.arange(len(units)), uniform)]
    goals = uniform * totals
    at, end = edges.starts[units], edges.starts[units + 1]
    chosen = at.copy()
    waiting, sums = np.arange(len(units)), np.zeros(len(units))
    while len(waiting):
        found = scores(waiting, at)
        sums += found
        taken = np.flatnonzero(found > 0)
        chosen[waiting[taken]] = at[taken]
        short = np.flatnonzero((sums <= goals) & (at + 1 < end))
        waiting, at, end = waiting[short], at[short] + 1, end[short]
        sums, goals = sums[short], goals[short]
    return chosen


def searched(shares: Any, edges: Edges, units: Any, uniform: Any) -> Any:
    """One edge for every unit of a list (with repetitions), drawn from the shares of all edges.

    Shares lie end to end, so that one search finds all.
    """
    return _cut(shares, edges.starts[:-1], edges.starts[1:], units, uniform)


def _cut(shares: Any, begins: Any, ends: Any, units: Any, uniform: Any) -> Any:
    """Where uniform numbers fall among the shares of their units, which lie end to end."""
    edge = np.cumsum(shares)
    before = np.concatenate([[0.0], edge])[begins]
    total = edge[ends - 1] - before
    found = np.searchsorted(edge, before[units] + uniform * total[units], side="right")
    # rounding may step over the last share that is positive
    positive = np.flatnonzero(shares > 0)
    last = positive[np.searchsorted(positive, ends) - 1]
    return np.minimum(found, last[units])
