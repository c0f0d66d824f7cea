"""Kernel expansions, f(x) = sum_j a_j k(s_j, x) + b, on rows with missing values.

What is known of a row gives E[f(x)] and Var[f(x)]: the first needs E[k(s_j, x)], the second
E[k(s_i, x) k(s_j, x)], and both come from sweeps over the circuit of the density. Points s_j with
missing values stand for mean embeddings: machines that were fitted to incomplete rows have such.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.arrays import spans
from expectedkernels.circuits.choice import evidence_side
from expectedkernels.estimators.gram import (
    Meetings,
    Work,
    each_kernel,
    expected_gram,
    meeting_sides,
)
from expectedkernels.estimators.resources import Resources, chunks
from expectedkernels.estimators.rows import Density, Rows, distinct
from expectedkernels.kernels.gaussian import at_known
from expectedkernels.kernels.gram import expected_pieces

FEW_ROWS = 64
"""How many points with missing values meet as many others, and a row, at once."""
NOTHING = 40.0
"""The kernel of this distance, at rate one, is zero: exp(-1600) is smaller than any number."""

Squares = Iterator[tuple[Any, Any, Any]]
"""Numbers of rows, and what to add to their squares and to their forms."""


@dataclass(frozen=True, eq=False)
class Prior:
    """What a Gaussian process adds to the variance: scale^2 (total - E[k' form k])."""

    total: float
    form: Any
    scale: Any

    def left(self, forms: Any) -> Any:
        """The variance of the process itself, (rows, outputs)."""
        return np.maximum(self.total - forms, 0.0)[:, None] * self.scale**2


@dataclass(frozen=True, eq=False)
class Expansion:
    """A weighted sum of kernels at points, plus a constant; several of them at once.

    Attributes
    ----------
    rates : array of shape (columns,)
        The kernel is exp(-sum_c rates_c (x_c - s_c)^2).
    points : array of shape (points, columns)
        NaN is missing.
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

    @property
    def is_embedded(self) -> bool:
        """Whether some of the points have missing values."""
        return bool(np.isnan(self.points).any())

    def brought_near(self, Z: Any) -> Any:
        """Complete rows, with values no further away than where all kernels are zero.

        Squares of others need not be numbers.
        """
        if not len(self.points):
            return Z
        with np.errstate(divide="ignore"):
            reach = NOTHING / np.sqrt(self.rates)
        return np.clip(Z, self.points.min(axis=0) - reach, self.points.max(axis=0) + reach)

    def at(self, density: Any, Z: Any, resources: Resources) -> Any:
        """The values at complete rows, (rows, outputs), whatever kind of density it is."""
        if self.is_embedded:
            gram = density.gram(self.rates, Z, self.points, resources)
            return gram @ self.coef + self.intercept
        answer = np.empty((len(Z), self.coef.shape[1]))
        for index in chunks(np.arange(len(Z)), len(self.points), resources.chunk_bytes):
            kernels = kernels_between(density, self.rates, Z[index], self.points, resources)
            answer[index] = kernels @ self.coef + self.intercept
        return answer

    def mean(self, density: Density, rows: Rows, resources: Resources) -> Any:
        """The expected values given rows, (rows, outputs)."""
        if self.is_embedded:
            return self.at(density, rows.Z, resources)
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
        squares, forms = np.zeros((len(rows), self.coef.shape[1])), np.zeros(len(rows))
        find = self._embedded_squares if self.is_embedded else self._squares
        for at, square, form in find(density, rows, resources, quadratic):
            squares[at] += square
            forms[at] += form
        variance = np.maximum(squares - (mean - self.intercept) ** 2, 0.0)
        return variance if quadratic is None else (variance, forms)

    def _squares(
        self, density: Density, rows: Rows, resources: Resources, quadratic: Any
    ) -> Squares:
        work = _Squares(density, self.rates, resources.chunk_bytes, self, rows, quadratic)
        _, mask = distinct(rows.observed[rows.distinct[0]])
        order = np.argsort(mask, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(mask[order])) + 1)
        for found in resources.map(work, groups):
            yield from found

    def _embedded_squares(
        self, density: Density, rows: Rows, resources: Resources, quadratic: Any
    ) -> Squares:
        if not np.isnan(rows.Z).any():  # products of expectations, one row at a time
            gram = expected_gram(density, self.rates, rows.Z, self.points, resources)
            form = 0.0 if quadratic is None else np.einsum("ri,ri->r", gram @ quadratic, gram)
            yield slice(None), (gram @ self.coef) ** 2, form
            return
        first, inverse = distinct(np.nan_to_num(rows.Z, nan=np.inf))
        points = meeting_sides(density, self.points, FEW_ROWS)
        sides = (meeting_sides(density, rows.Z[first], 1), points, points)
        meetings = Meetings(density, self.rates, resources.chunk_bytes, sides)
        work = _EmbeddedSquares(self, meetings, quadratic)
        found = list(resources.map(work, list(range(len(first)))))
        squares, forms = (np.stack(each) for each in zip(*found, strict=True))
        yield slice(None), squares[inverse], forms[inverse]


def kernels_between(density: Any, rates: Any, A: Any, B: Any, resources: Resources) -> Any:
    """The expected kernels between rows under any density, which complete rows need not ask."""
    if np.isnan(A).any() or np.isnan(B).any():
        return density.gram(rates, A, None if B is A else B, resources)
    return at_known(rates, A, np.ones(A.shape, dtype=np.bool_), B)


@dataclass(frozen=True, eq=False)
class _Squares(Work):
    """The function from a group of rows to parts of their squares and forms.

    The groups are of rows that differ and observe the same variables. Points that differ in
    observed columns only are one in the sweep.
    """

    expansion: Expansion
    rows: Rows
    quadratic: Any

    def __call__(self, group: Any) -> list[tuple[Any, Any, Any]]:
        """Numbers of rows, and what to add to their squares and to their forms."""
        index, points, found = self.rows.distinct[0][group], self.expansion.points, []
        known, active = self.rows.known_columns[index[0]], ~self.rows.observed[index[0]]
        first, place = distinct(points[:, ~known])
        ones = np.ones(len(place))
        shape = len(place), len(first)
        merge = sparse.csr_array((ones, (np.arange(len(place)), place)), shape=shape)
        given = self.rows.by_state.rows(index)
        side = evidence_side(self.density.real, given, len(first) ** 2)
        axis = self.point_axis(points[first], active)
        axes = (side, axis, axis)
        logs = self.rows.logs[group]
        for (some, *pair), values in expected_pieces(axes, self.open_kernel, self.max_bytes, logs):
            for number, second in zip(group[some], values, strict=True):
                members = self.rows.members(number, number + 1)
                for at in chunks(members, len(points), self.max_bytes):
                    found.append((at, *self._of_rows(at, second, merge, *pair)))
        return found

    def _of_rows(self, at: Any, second: Any, merge: Any, a: slice, b: slice) -> tuple[Any, Any]:
        rows, points = self.rows, self.expansion.points
        known = at_known(self.rates, rows.Z[at], rows.known_columns[at], points)
        columns = []
        for coef in self.expansion.coef.T:
            merged = (known * coef) @ merge
            columns.append(np.einsum("mi,mi->m", merged[:, a] @ second, merged[:, b]))
        forms = np.zeros(len(at))
        if self.quadratic is not None:
            for i, k in enumerate(known):
                form = ((self.quadratic * k[:, None] * k).T @ merge).T @ merge
                forms[i] = (form[a, b] * second).sum()
        return np.stack(columns, axis=1), forms


@dataclass(frozen=True, eq=False)
class _EmbeddedSquares:
    """The function from a row to the expected squares of expansions, and of a quadratic form."""

    expansion: Expansion
    meetings: Meetings
    quadratic: Any

    def __call__(self, row: int) -> tuple[Any, float]:
        """The squares, (outputs,), and the form."""
        coef = self.expansion.coef
        squares, form = np.zeros(coef.shape[1]), 0.0
        parts = spans(len(coef), FEW_ROWS)
        for m, a in enumerate(parts):
            for n, b in enumerate(parts[: m + 1]):
                second = self.meetings((row, m, n))[0]
                twice = 1.0 if m == n else 2.0
                squares += twice * np.einsum("io,ij,jo->o", coef[a], second, coef[b])
                if self.quadratic is not None:
                    form += twice * float((self.quadratic[a, b] * second).sum())
        return squares, form
