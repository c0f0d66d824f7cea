"""Kernel expansions, f(x) = sum_j a_j k(s_j, x) + b, on rows with missing values.

What is known of a row gives E[f(x)] and Var[f(x)]: the first needs E[k(s_j, x)], the second
E[k(s_i, x) k(s_j, x)], and both come from sweeps over the circuit of the density.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES
from expectedkernels.estimators.rows import Density, Rows
from expectedkernels.estimators.sections import (
    FirstMoments,
    SecondMoments,
    observed_kernel,
    same_masks,
)
from expectedkernels.estimators.variables import completed_groups

CHUNK_BYTES = 2**27
"""Chunks are not larger than this even if they may be: memory beyond the cache is slow."""


@dataclass(frozen=True)
class Resources:
    """How much of the machine to use.

    Attributes
    ----------
    n_jobs : int or None
        Threads, as in scikit-learn.
    max_bytes : int
        Memory for intermediate values, of all threads together.
    """

    n_jobs: int | None = None
    max_bytes: int = DEFAULT_MAX_BYTES

    @property
    def workers(self) -> int:
        """The number of threads."""
        return effective_n_jobs(self.n_jobs)

    @property
    def chunk_bytes(self) -> int:
        """What the chunks of one thread may take."""
        return max(2**16, min(self.max_bytes // self.workers, CHUNK_BYTES))

    def each(self, work: Callable[[Any], None], tasks: list[Any]) -> None:
        """Do all tasks."""
        if self.workers == 1 or len(tasks) <= 1:
            for task in tasks:
                work(task)
            return
        Parallel(n_jobs=self.n_jobs, prefer="threads")(delayed(work)(task) for task in tasks)


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

        def use(members: Any, kernels: Any) -> None:
            answer[members] = kernels @ self.coef + self.intercept

        each_kernel(density, self.rates, self.points, rows, resources, use)
        return answer

    def variance(
        self, density: Density, rows: Rows, mean: Any, resources: Resources, quadratic: Any = None
    ) -> Any:
        """The variances given rows, (rows, outputs).

        With a quadratic form Q over the points, also the expectations of k' Q k, (rows,).
        """
        outputs = self.coef.shape[1]
        squares = np.zeros((len(rows), outputs))
        forms = np.zeros(len(rows))
        moments = SecondMoments(density, self.rates, self.points)
        members_of = _Members(rows)
        budget = resources.chunk_bytes

        def work(group: Any) -> None:
            for start, values, a, b in moments(rows, members_of.first[group], budget):
                for number, second in enumerate(values):
                    for at in members_of.chunks(group[start + number], len(self.points), budget):
                        at_observed = observed_kernel(self.rates, rows, at, self.points)
                        for k in range(outputs):
                            weights = at_observed * self.coef[:, k]
                            left, right = a.merged(weights), b.merged(weights)
                            squares[at, k] += np.einsum("mi,mi->m", left @ second, right)
                        if quadratic is not None:
                            for row, known in zip(at, at_observed, strict=True):
                                form = quadratic * known[:, None] * known
                                form = b.merged(a.merged(form.T).T)
                                forms[row] += float((form * second).sum())

        groups = same_masks(rows.observed[members_of.first])
        resources.each(work, groups)
        variance = np.maximum(squares - (mean - self.intercept) ** 2, 0.0)
        return variance if quadratic is None else (variance, forms)


class _Members:
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


def each_kernel(
    density: Density,
    rates: Any,
    points: Any,
    rows: Rows,
    resources: Resources,
    use: Callable[[Any, Any], None],
) -> None:
    """Hand over E[k(x, s_j) | row] for all rows and points, chunk by chunk.

    `use` gets the numbers of some rows, and their values, (rows, points).
    """
    moments = FirstMoments(density, rates, points)
    same = _Members(rows)
    n, workers = len(same.first), resources.workers
    size = n if workers == 1 else max(16, -(-n // (4 * workers)))
    budget = resources.chunk_bytes

    def work(span: slice) -> None:
        for start, values in moments(rows, same.first[span], budget):
            begin = span.start + start
            members = same.between(begin, begin + len(values))
            for at in parts(members, len(points), budget):
                known = observed_kernel(rates, rows, at, points)
                known *= values[same.inverse[at] - begin]
                use(at, known)

    resources.each(work, [slice(i, min(n, i + size)) for i in range(0, n, size)])


def read_rows(density: Density, Z: Any) -> tuple[Any, Any, Rows]:
    """The data with completed groups, which rows are incomplete, and these as evidence."""
    Z = completed_groups(density.variables, Z)
    incomplete = np.flatnonzero(np.isnan(Z).any(axis=1))
    rows = Rows(density, Z[incomplete])
    if len(rows):
        rows.require_possible(incomplete)
    return Z, incomplete, rows
