"""In which order factors are multiplied, and which variable is sampled when it gets too much."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from expectedkernels.sampling.cis_tables import (
    LogTable,
    Scope,
    marginals,
    neighbours,
)
from expectedkernels.vtree import Vtree

ORDERS = ("rbfs", "bfs", "rev", "vtree")
"""How factors are ordered: see `cis`."""


@dataclass(frozen=True, eq=False)
class Order:
    """An order of the factors."""

    factors: tuple[int, ...]
    scopes: tuple[Scope, ...]  # the variables of every factor, in this order
    distance: dict[int, int]  # the place of every variable when they are reached breadth first
    reversed: bool = False  # whether the root of the search comes last

    @cached_property
    def places(self) -> dict[int, list[int]]:
        """The places of the factors of every variable, increasing."""
        found: dict[int, list[int]] = {v: [] for v in self.distance}
        for place, scope in enumerate(self.scopes):
            for v in scope:
                found[v].append(place)
        return found

    def coming(self, variable: int, place: int) -> int:
        """How many factors of a variable come at this place or later."""
        return sum(at >= place for at in self.places[variable])


def breadth_first(scopes: Sequence[Scope], root: int, backwards: bool = False) -> Order:
    """The factors in the order in which their variables are reached from a root.

    The factors of a variable are appended when it is reached, and the variables in them are
    reached next, in the order of their scopes. What the root does not reach follows from the
    smallest variable on.
    """
    of: dict[int, list[int]] = {}
    for number, scope in enumerate(scopes):
        for v in scope:
            of.setdefault(v, []).append(number)
    factors: list[int] = []
    used: set[int] = set()
    reached: dict[int, int] = {}
    for start in [root, *sorted(of)]:
        if start in reached or start not in of:
            continue
        queue = [start]
        reached[start] = len(reached)
        for v in queue:  # grows while it is read
            for number in of[v]:
                if number in used:
                    continue
                used.add(number)
                factors.append(number)
                for u in scopes[number]:
                    if u not in reached:
                        reached[u] = len(reached)
                        queue.append(u)
    if backwards:
        factors.reverse()
    return Order(tuple(factors), tuple(scopes[i] for i in factors), reached, backwards)


def by_vtree(scopes: Sequence[Scope], vtree: Vtree, root: int) -> Order:
    """The factors at the lowest vtree nodes that contain them, children before parents."""
    at = []
    for scope in scopes:
        node = vtree.leaf(scope[0])
        for v in scope[1:]:
            node = vtree.lca(node, vtree.leaf(v))
        at.append(node)
    factors = sorted(range(len(scopes)), key=lambda number: (at[number], number))
    reached = breadth_first(scopes, root).distance
    return Order(tuple(factors), tuple(scopes[i] for i in factors), reached)


@dataclass(frozen=True, eq=False)
class Situation:
    """What a rule can look at when a variable must be sampled."""

    tables: Sequence[LogTable]  # what has been multiplied so far, at the values sampled so far
    inside: tuple[int, ...]  # the variables of these tables, increasing
    candidates: tuple[int, ...]  # those that may be sampled, increasing
    order: Order
    place: int  # how many factors have been multiplied
    query: int | None
    cardinalities: Sequence[int]

    @cached_property
    def frontier(self) -> list[int]:
        """The variables inside that have factors yet to come."""
        return [v for v in self.inside if self.order.coming(v, self.place)]

    def marginals(self, *given: tuple[int, int]) -> dict[int, Any]:
        """The marginals in the product; also given values of variables, in the rows that follow."""
        return marginals(self.tables, self.inside, self.cardinalities, (None, *given))


def by_frontier(now: Situation) -> list[float]:
    """Far from the frontier first; on the frontier, those with the fewest factors to come.

    Distances are counted in tables. What the frontier cannot reach any more comes first: it is
    sampled from its exact conditional.
    """
    near = neighbours([scope for scope, _ in now.tables], now.inside)
    distance = dict.fromkeys(now.frontier, 0)
    queue = list(now.frontier)
    for v in queue:  # grows while it is read
        for u in sorted(near[v]):
            if u not in distance:
                distance[u] = distance[v] + 1
                queue.append(u)
    return [
        -float(distance.get(v, np.inf)) or float(now.order.coming(v, now.place))
        for v in now.candidates
    ]


def by_information(now: Situation) -> list[float]:
    """The smallest mutual information with the query; by the frontier where it is not inside."""
    if now.query not in now.inside:
        return by_frontier(now)
    states = range(now.cardinalities[now.query])
    found = now.marginals(*((now.query, state) for state in states))
    weights = found[now.query][0]
    scores = []
    for v in now.candidates:
        total, shares = found[v][0], found[v][1:]
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(shares > 0, shares * np.log(shares / total), 0.0)
        scores.append(float(weights @ terms.sum(axis=1)))
    return scores


def by_variance(now: Situation) -> list[float]:
    """The smallest variance that sampling adds to the chance of the query's first state.

    That is P(e)^2 (sum_a P(v=a | e)^2 / P(v=a) - 1) for the event e that the query has state 0.
    """
    if now.query not in now.inside:
        return by_frontier(now)
    found = now.marginals((now.query, 0))
    chance = found[now.query][0, 0]
    return [_variance(chance, found[v][1], found[v][0]) for v in now.candidates]


def _variance(chance: float, given: Any, total: Any) -> float:
    if chance == 0:
        return 0.0
    ratio = np.divide(given**2, total, out=np.zeros(len(total)), where=total > 0)
    return float(chance**2 * (ratio.sum() - 1.0))


def by_distance(now: Situation) -> list[float]:
    """The last one in breadth-first order from the query; by the frontier if the query is last."""
    if now.order.reversed:
        return by_frontier(now)
    return [-float(now.order.distance[v]) for v in now.candidates]


def by_entropy(now: Situation) -> list[float]:
    """The smallest entropy: what is almost known adds little noise when it is sampled."""
    scores, found = [], now.marginals()
    for v in now.candidates:
        share = found[v][0]
        share = share[share > 0]
        scores.append(float(-(share * np.log(share)).sum()))
    return scores


def by_chance(now: Situation) -> list[float]:
    """All the same: one of them is drawn."""
    return [0.0] * len(now.candidates)


RULES: dict[str, Callable[[Situation], list[float]]] = {
    "frontier": by_frontier,
    "mi": by_information,
    "rbvar": by_variance,
    "fd": by_distance,
    "ent": by_entropy,
    "rand": by_chance,
}
"""Rules that score the candidates; the one with the smallest score is sampled."""
REMOVED = {
    "frb": "use 'rbvar' with a query, or 'frontier'",
    "size": "use 'frontier'",
    "ind": "use 'frontier', or 'rand'",
}
"""What to use instead of rules that earlier versions had."""


def choices(rule: str, now: Situation) -> tuple[int, ...]:
    """The variables that a rule may choose, with equal chances: all of "rand", else one."""
    if rule == "rand" or len(now.candidates) == 1:
        return now.candidates
    # rounding makes equal scores equal, so that the first of them wins on every machine
    scores = np.round(RULES[rule](now), 12)
    return (now.candidates[int(np.argmin(scores))],)
