"""Sites: the conditional of one variable given all others, ready to be drawn from many times."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from expectedkernels.arrays import cumulative, drawn, from_logs
from expectedkernels.compilation.plan import LogFactor
from expectedkernels.errors import DataError

SITE_ENTRIES = 2**16
"""A conditional is tabulated if its table has at most this many entries."""

ALL_ENTRIES = 2**23
"""All tables of a model together have at most this many entries (64 MiB)."""

REMEMBERED = 2**18
"""How many evaluated conditionals are kept at a time."""


class TableSite:
    """A variable whose conditionals are tabulated for all states of its Markov blanket.

    A chain visits the same few states of a blanket over and over. With all conditionals at hand a
    visit is one look-up in a table of cumulative probabilities, without any arithmetic on
    factors: about a microsecond for one chain. The factors are those of the variable.
    """

    def __init__(
        self, variable: int, cardinalities: Sequence[Any], factors: Sequence[LogFactor]
    ) -> None:
        self.variable = variable
        self.blanket = blanket(variable, factors)
        self._shape = [cardinalities[v] for v in self.blanket]
        self._width = cardinalities[variable] - 1
        self._factors = factors

    @cached_property
    def edges(self) -> Any:
        """Cumulative probabilities of all states but the last, (blanket states, cardinality - 1).

        Made at the first visit.
        """
        logs = np.zeros((*self._shape, self._width + 1))
        for factor in self._factors:
            sizes = zip(self.blanket, self._shape, strict=True)
            inside = [n if v in factor.scope else 1 for v, n in sizes]
            along = np.moveaxis(factor.logs, factor.scope.index(self.variable), -1)
            logs += along.reshape(*inside, self._width + 1)
        return cumulative(from_logs(logs.reshape(-1, self._width + 1)))

    @cached_property
    def _strides(self) -> Any:
        steps = np.cumprod([1, *self._shape[:0:-1]])[::-1]
        return np.asarray(steps[: len(self.blanket)], dtype=np.intp)

    @cached_property
    def _flat(self) -> tuple[Any, list[tuple[int, int]]]:
        steps = (self._strides * self._width).tolist()
        flat: Any = np.ascontiguousarray(self.edges).reshape(-1)
        return memoryview(flat), list(zip(self.blanket, steps, strict=True))

    def draw_one(self, state: list[int], u: float) -> int:
        """The state of the variable at position u of its conditional, for one chain as a list."""
        edges, terms = self._flat
        at = 0
        for v, step in terms:
            at += step * state[v]
        return bisect_right(edges, u, at, at + self._width) - at

    def draw(self, X: Any, u: Any) -> Any:
        """The state of the variable at positions u of its conditionals, for rows of chains."""
        at = X[:, self.blanket] @ self._strides
        return drawn(self.edges[at], u)


class Memory:
    """Conditionals that were evaluated before, up to a number; and whether one had a zero."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, bytes], Any] = {}
        self.met_zero = False


class EvaluatedSite:
    """A variable whose conditionals are evaluated when a chain comes by, and remembered.

    They depend on `others`. `logs` leads from rows to logs of conditionals up to a constant, (n,
    cardinality), and all sites share one memory.
    """

    def __init__(
        self,
        variable: int,
        others: Sequence[int],
        logs: Callable[[Any], Any],
        memory: Memory,
        remember: bool = True,
    ) -> None:
        self.variable, self.others, self._logs = variable, list(others), logs
        self._memory, self._remember = memory, remember

    def draw(self, X: Any, u: Any) -> Any:
        """The state of the variable at positions u of its conditionals, for rows of chains."""
        edges = self._recalled(X) if self._remember else self._evaluated(X)
        return drawn(edges, u)

    def _evaluated(self, X: Any) -> Any:
        logs = np.asarray(self._logs(X), dtype=np.float64)
        top = logs.max(axis=1)
        if not (top > -np.inf).all():
            row = int(np.flatnonzero(~(top > -np.inf))[0])
            raise DataError(
                f"Variable {self.variable} has no possible state given the others: a chain is at "
                f"{X[row].tolist()}, a state without probability. Give a 'start' that is possible."
            )
        self._memory.met_zero |= bool((logs == -np.inf).any())
        return cumulative(from_logs(logs))

    def _recalled(self, X: Any) -> Any:
        known = self._memory.known
        seen = np.ascontiguousarray(X[:, self.others])
        keys = [(self.variable, row.tobytes()) for row in seen]
        new = {key: row for row, key in enumerate(keys) if key not in known}
        found = {}
        if new:
            found = dict(zip(new, self._evaluated(X[list(new.values())]), strict=True))
        edges = np.stack([found[key] if key in found else known[key] for key in keys])
        if len(known) + len(found) > REMEMBERED:
            known.clear()
        known.update(found)
        return edges


Site = TableSite | EvaluatedSite


def blanket(variable: int, factors: Sequence[Any]) -> list[int]:
    """The variables that share one of the factors with the variable, in increasing order."""
    return sorted({v for factor in factors for v in factor.scope} - {variable})


@dataclass(frozen=True, eq=False)
class Summed:
    """A factor without a table: what is left of others once collapsed variables are summed out."""

    scope: tuple[int, ...]
    logs: Callable[[Any], Any]  # from rows to the log of the factor at each


AnyFactor = LogFactor | Summed


def factor_sites(
    cardinalities: Sequence[Any],
    factors: Sequence[AnyFactor],
    free: Sequence[int],
    memory: Memory,
) -> list[Site]:
    """The sites of some variables of a product of factors: tables where these are small."""
    touching: dict[int, list[Any]] = {v: [] for v in free}
    for factor in factors:
        for v in factor.scope:
            if v in touching:
                touching[v].append(factor)
    blankets = {v: blanket(v, touching[v]) for v in free}
    sizes = {v: prod(cardinalities[u] for u in (v, *blankets[v])) for v in free}
    left = ALL_ENTRIES
    sites: dict[int, Site] = {}
    for v in sorted(free, key=lambda v: sizes[v]):
        tables = all(isinstance(factor, LogFactor) for factor in touching[v])
        if tables and sizes[v] <= min(SITE_ENTRIES, left):
            left -= sizes[v]
            sites[v] = TableSite(v, cardinalities, touching[v])
        else:
            logs = _along(touching[v], v, cardinalities[v])
            sites[v] = EvaluatedSite(v, blankets[v], logs, memory)
    return [sites[v] for v in free]


def factor_logs(factors: Sequence[AnyFactor], X: Any) -> Any:
    """The sum of the logs of factors at rows of points, (n,)."""
    total = np.zeros(len(X))
    for factor in factors:
        if isinstance(factor, Summed):
            total += factor.logs(X)
        else:
            total += factor.logs[tuple(X[:, v] for v in factor.scope)]
    return total


def _along(factors: Sequence[AnyFactor], variable: int, n_states: int) -> Callable[[Any], Any]:
    """The function that adds factors at rows of points, (n, states) along one variable."""

    def logs(X: Any) -> Any:
        rows = np.repeat(X, n_states, axis=0)
        rows[:, variable] = np.tile(np.arange(n_states), len(X))
        return factor_logs(factors, rows).reshape(len(X), n_states)

    return logs
