"""Kernel expansions, f(x) = sum_j a_j k(s_j, x) + b, on rows with missing values.

What is known of a row gives E[f(x)] and Var[f(x)]: the first needs E[k(s_j, x)], the second
E[k(s_i, x) k(s_j, x)], and both come from sweeps over the circuit of the density.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES
from expectedkernels.estimators.rows import Density, Rows
from expectedkernels.estimators.sections import (
    FirstMoments,
    Landmarks,
    SecondMoments,
    observed_kernel,
    same_masks,
)
from expectedkernels.estimators.variables import completed_groups

CHUNK_BYTES = 2**27
"""Chunks are not larger than this even if they may be: memory beyond the cache is slow."""
SPAN_ROWS = 512
"""How many rows that differ are one task. The number of workers does not change it, nor, so,
the last digits of results."""
BUNDLES = 4
"""Tasks are handed out in so many bundles per worker: what they share is sent once for each."""


@dataclass(frozen=True)
class Resources:
    """How much of the machine to use.

    Attributes
    ----------
    n_jobs : int or None
        Workers, as in scikit-learn: threads, unless `joblib.parallel_config` names others.
    max_bytes : int
        Memory for intermediate values, of all workers together.
    """

    n_jobs: int | None = None
    max_bytes: int = DEFAULT_MAX_BYTES

    @property
    def workers(self) -> int:
        """The number of workers."""
        return effective_n_jobs(self.n_jobs)

    @property
    def chunk_bytes(self) -> int:
        """What the chunks of one worker may take."""
        return max(2**16, min(self.max_bytes // self.workers, CHUNK_BYTES))

    def map(self, work: Callable[[Any], Any], tasks: list[Any]) -> Iterator[Any]:
        """The results of all tasks, in their order.

        Workers may be other processes, or other machines: `work` and the tasks must be such that
        they can be pickled, and what they find out must be in what they return.
        """
        if self.workers == 1 or len(tasks) <= 1:
            yield from map(work, tasks)
            return
        n = min(len(tasks), BUNDLES * self.workers)
        parallel = Parallel(n_jobs=self.n_jobs, prefer="threads")
        bundles = parallel(delayed(_all_done)(work, tasks[i::n]) for i in range(n))
        for i in range(len(tasks)):
            yield bundles[i % n][i // n]


def _all_done(work: Callable[[Any], Any], tasks: list[Any]) -> list[Any]:
    return [work(task) for task in tasks]


@dataclass(frozen=True, eq=False)
class Expansion:
    """A weighted sum of kernels at points, plus a constant; several of them at once.

    Attributes
    ----------
    rates : array of shape (columns,)
        The kernel is exp(-sum_c rates_c (x_c - s_c)^2).
    points : array of shape (points, columns)
    coef : array of shape (points, outputs)
    intercept : array of shape (outputs,)
    """

    rates: Any
    points: Any
    coef: Any
    intercept: Any

    def merged(self) -> Expansion:
        """The same functions with equal points put together, and without points of no weight."""
        points, place = np.unique(self.points, axis=0, return_inverse=True)
        coef = np.zeros((len(points), self.coef.shape[1]))
        np.add.at(coef, place.reshape(-1), self.coef)
        used = (coef != 0).any(axis=1)
        if not used.any():
            used[:1] = True
        return Expansion(self.rates, points[used], coef[used], self.intercept)

    def at(self, density: Density, Z: Any, resources: Resources) -> Any:
        """The values at complete rows, (rows, outputs)."""
        answer = np.empty((len(Z), self.coef.shape[1]))
        rows = Rows(density, Z)
        for index in parts(np.arange(len(Z)), len(self.points), resources.chunk_bytes):
            kernels = observed_kernel(self.rates, rows, index, self.points)
            answer[index] = kernels @ self.coef + self.intercept
        return answer

    def mean(self, density: Density, rows: Rows, resources: Resources) -> Any:
        """The expected values given rows, (rows, outputs)."""
        answer = np.empty((len(rows), self.coef.shape[1]))
        for members, values in each_kernel(
            density, self.rates, self.points, rows, resources, self.coef
        ):
            answer[members] = values + self.intercept
        return answer

    def variance(
        self, density: Density, rows: Rows, mean: Any, resources: Resources, quadratic: Any = None
    ) -> Any:
        """The variances given rows, (rows, outputs).

        With a quadratic form Q over the points, also the expectations of k' Q k, (rows,).
        """
        squares = np.zeros((len(rows), self.coef.shape[1]))
        forms = np.zeros(len(rows))
        same = Members(rows)
        work = _Squares(self, density, rows, same, quadratic, resources.chunk_bytes)
        groups = same_masks(rows.observed[same.first])
        for found in resources.map(work, groups):
            for at, square, form in found:
                squares[at] += square
                forms[at] += form
        variance = np.maximum(squares - (mean - self.intercept) ** 2, 0.0)
        return variance if quadratic is None else (variance, forms)


class Members:
    """Which rows say the same."""

    def __init__(self, rows: Rows):
        self.first, inverse = rows.distinct
        self.order = np.argsort(inverse, kind="stable")
        self.starts = np.searchsorted(inverse[self.order], np.arange(len(self.first) + 1))
        self.inverse = inverse

    def between(self, start: int, stop: int) -> Any:
        """The rows that say one of a range of things, in order."""
        return self.order[self.starts[start] : self.starts[stop]]

    def chunks(self, number: int, n_points: int, max_bytes: int) -> list[Any]:
        """The rows that say one thing, few enough to be compared with all points."""
        return parts(self.between(number, number + 1), n_points, max_bytes)


def parts(index: Any, n_points: int, max_bytes: int) -> list[Any]:
    """Pieces of an index whose matrices of kernels with all points fit into memory."""
    size = max(1, max_bytes // (32 * max(1, n_points)))
    return [index[i : i + size] for i in range(0, len(index), size)]


@dataclass(frozen=True, eq=False)
class _Squares:
    """The function from a group of rows to parts of their squares and forms.

    The groups are of rows that differ and observe the same variables.
    """

    expansion: Expansion
    density: Density
    rows: Rows
    same: Members
    quadratic: Any
    max_bytes: int

    def __call__(self, group: Any) -> list[tuple[Any, Any, Any]]:
        """Numbers of rows, and what to add to their squares and to their forms."""
        expansion, found = self.expansion, []
        moments = SecondMoments(self.density, expansion.rates, expansion.points)
        for place, values, points in moments(self.rows, self.same.first[group], self.max_bytes):
            for number, second in enumerate(values, start=place[0].start):
                n_points = len(expansion.points)
                for at in self.same.chunks(group[number], n_points, self.max_bytes):
                    found.append((at, *self._of_rows(at, second, points, *place[1:])))
        return found

    def _of_rows(
        self, at: Any, second: Any, points: Landmarks, a: slice, b: slice
    ) -> tuple[Any, Any]:
        known = observed_kernel(self.expansion.rates, self.rows, at, self.expansion.points)
        columns = []
        for coef in self.expansion.coef.T:
            merged = points.merged(known * coef)
            columns.append(np.einsum("mi,mi->m", merged[:, a] @ second, merged[:, b]))
        forms = np.zeros(len(at))
        if self.quadratic is not None:
            for i, k in enumerate(known):
                form = points.merged(points.merged((self.quadratic * k[:, None] * k).T).T)
                forms[i] = (form[a, b] * second).sum()
        return np.stack(columns, axis=1), forms


@dataclass(frozen=True, eq=False)
class _Kernels:
    """The function from spans of rows that differ to their kernels, or to weighted sums of them."""

    density: Density
    rates: Any
    points: Any
    rows: Rows
    same: Members
    coef: Any
    max_bytes: int

    @cached_property
    def moments(self) -> FirstMoments:
        """What all spans have in common."""
        return FirstMoments(self.density, self.rates, self.points)

    def __getstate__(self) -> dict[str, Any]:
        return {name: x for name, x in vars(self).items() if name != "moments"}

    def __call__(self, span: slice) -> list[tuple[Any, Any]]:
        """Numbers of rows, and their values."""
        found = []
        for start, values in self.moments(self.rows, self.same.first[span], self.max_bytes):
            begin = span.start + start
            members = self.same.between(begin, begin + len(values))
            for at in parts(members, len(self.points), self.max_bytes):
                known = observed_kernel(self.rates, self.rows, at, self.points)
                known *= values[self.same.inverse[at] - begin]
                found.append((at, known if self.coef is None else known @ self.coef))
        return found


def each_kernel(
    density: Density,
    rates: Any,
    points: Any,
    rows: Rows,
    resources: Resources,
    coef: Any = None,
) -> Iterator[tuple[Any, Any]]:
    """The values E[k(x, s_j) | row] of all rows and points, chunk by chunk.

    Pairs of the numbers of some rows and their values, (rows, points); with coefficients
    (points, outputs) their weighted sums, (rows, outputs).
    """
    same = Members(rows)
    work = _Kernels(density, rates, points, rows, same, coef, resources.chunk_bytes)
    n = len(same.first)
    spans = [slice(i, min(n, i + SPAN_ROWS)) for i in range(0, n, SPAN_ROWS)]
    for found in resources.map(work, spans):
        yield from found


def read_rows(density: Density, Z: Any) -> tuple[Any, Any, Rows]:
    """The data with completed groups, which rows are incomplete, and these as evidence."""
    Z = completed_groups(density.variables, Z)
    incomplete = np.flatnonzero(np.isnan(Z).any(axis=1))
    rows = Rows(density, Z[incomplete])
    if len(rows):
        rows.require_possible(incomplete)
    return Z, incomplete, rows
