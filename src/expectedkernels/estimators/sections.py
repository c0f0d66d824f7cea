"""Expected kernels between rows with missing values and points, and their second moments.

    first:   E[k(x, s_i) | row]                    one sweep over (rows) x (points)
    second:  E[k(x, s_i) k(x, s_j) | row]          one sweep over (rows) x (points) x (points)

The factor of the kernel at observed columns is known and taken out of the sweeps.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.circuits.choice import evidence_side
from expectedkernels.circuits.conditionals import ConditionalsSide
from expectedkernels.circuits.queries import log_values
from expectedkernels.circuits.sides import CircuitSide, point_operand
from expectedkernels.engine.patterns import patterns
from expectedkernels.engine.sweep import Operand, peak_bytes, sweep
from expectedkernels.engine.value import Value, joined, plain, taken, to_log
from expectedkernels.estimators.atoms import Atoms, pair, triple
from expectedkernels.estimators.rows import Density, Rows

NEGLIGIBLE = 1e-100
"""Factors of a kernel below this count as zero; all others are at most one."""
FAR = 1e5
"""Scaled squared distances from the middle above which dot products lose too many digits."""


class Landmarks:
    """Complete points as one axis of a sweep.

    Parameters
    ----------
    density : Density
    points : array of shape (points, columns)
    active : bool array of shape (variables,), optional
        The variables that count; points that differ in others only are one.
    index : slice, optional
        Which of the points.
    """

    def __init__(self, density: Density, points: Any, active: Any = None, index: Any = None):
        self.density, self.points, self.active = density, points, active
        self.index = slice(0, len(points)) if index is None else index
        self.columns = [self._column(i) for i in range(len(density.variables))]
        codes = [codes for _, codes in self.columns]
        found = patterns(density.vtree, codes, [len(values) for values, _ in self.columns])
        self.operand: Operand = point_operand(density.vtree).batched(found)
        self.in_order = found.rows is None
        self.place: Any = np.arange(len(codes[0])) if self.in_order else found.rows

    def _column(self, i: int) -> tuple[Any, Any]:
        """The distinct values of a variable's columns, and which one every point has."""
        x = self.points[self.index]
        if self.active is not None and not self.active[i]:
            return np.zeros((1, 1)), np.zeros(len(x), dtype=np.intp)
        columns = self.density.variables[i].columns
        if len(columns) == 1:  # several times faster than rows of one entry
            values, codes = np.unique(x[:, columns[0]], return_inverse=True)
            return values[:, None], codes
        values, codes = np.unique(x[:, columns], axis=0, return_inverse=True)
        return values, codes.reshape(-1)

    def halves(self) -> list[Landmarks]:
        """The first and the second half of the points."""
        start, stop = self.index.start, self.index.stop
        middle = (start + stop) // 2
        parts = (slice(start, middle), slice(middle, stop))
        return [Landmarks(self.density, self.points, self.active, part) for part in parts]

    @property
    def n(self) -> int:
        """The number of points that differ in what counts."""
        return int(self.operand.patterns.count[-1])  # type: ignore[union-attr]

    def atoms(self, i: int) -> Atoms:
        """The distinct values of a variable as points."""
        return self.density.variables[i].points(self.columns[i][0])

    def expand(self, value: Value, axis: int) -> Value:
        """From a value over atoms along an axis to one over patterns."""
        n = value.data.shape[axis]
        return taken(value, axis, np.arange(n), np.zeros(n))

    def merged(self, weights: Any) -> Any:
        """Weights of all points, (..., points), summed over those of each that differs."""
        return weights[..., self.index] @ self._membership

    @cached_property
    def _membership(self) -> Any:
        ones, every = np.ones(len(self.place)), np.arange(len(self.place))
        return sparse.csr_array((ones, (every, self.place)), shape=(len(every), self.n))


def observed_kernel(rates: Any, rows: Rows, index: Any, points: Any) -> Any:
    """The kernel at the observed columns of some rows, (rows, points)."""
    known = rows.known_columns[index]
    if not len(points):
        return np.empty((len(known), 0))
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is found below
        centre = points.mean(axis=0)  # distances from dot products lose fewer digits around zero
        x = np.where(known, rows.Z[index] - centre, 0.0)
        s = points - centre
        square, squares = (x**2) @ rates, s**2
        away = square[:, None] + (known * rates) @ squares.T - 2.0 * ((x * rates) @ s.T)
        far = ~(square <= FAR) | ~np.isfinite(squares.max())
        if far.any():
            away[far] = _distances(rates, rows.Z[index][far], known[far], points)
    return np.exp(-np.maximum(away, 0.0, out=away), out=away)


def _distances(rates: Any, Z: Any, known: Any, points: Any) -> Any:
    """The squared distances at known columns, column by column: no digits are lost."""
    away = np.zeros((len(Z), len(points)))
    for column, rate in enumerate(rates):
        part = rate * (Z[:, column, None] - points[:, column]) ** 2
        away += np.where(known[:, column, None], part, 0.0)
    return away


class FirstMoments:
    """The function from rows to E[k(x, s_i) | row] with the observed columns left out.

    Parameters
    ----------
    density : Density
    rates : array of shape (columns,)
    points : array of shape (points, columns)
    """

    def __init__(self, density: Density, rates: Any, points: Any):
        self.density, self.landmarks = density, Landmarks(density, points)
        self._kernels = []
        for i, variable in enumerate(density.variables):
            matrix = pair(rates[variable.columns], density.atoms(i), self.landmarks.atoms(i))
            self._kernels.append(flushed(matrix))

    def __call__(self, rows: Rows, index: Any, max_bytes: int) -> Iterator[tuple[int, Any]]:
        """For rows that differ in what they say: where a part begins, and its values."""
        circuit, landmarks = self.density.by_state, self.landmarks
        side = evidence_side(circuit, rows.evidence_by_state(index), landmarks.n)
        waiting = [(0, side)]
        while waiting:
            start, side = waiting.pop()
            n = evidence_rows(side)
            small = side.max_rows is None or n <= side.max_rows
            operands = [side.operand, landmarks.operand] if small else []
            if n > 1 and not (small and peak_bytes(operands) <= max_bytes):
                waiting += _halved(start, side, n)
                continue
            root = sweep(operands, self._leaf(side), max_bytes)
            values = by_rows(root, side)
            if not landmarks.in_order:
                values = values[:, landmarks.place]
            yield start, values

    def _leaf(self, side: CircuitSide) -> Any:
        def leaf(nodes: Any, parts: Any) -> Value:
            values = []
            for variable in self.density.vtree.variable[nodes].tolist():
                matrix = self._kernels[variable]
                # what is observed takes part with the density only
                observed = np.ones((side.atoms(variable).n - len(matrix), matrix.shape[1]))
                values.append(plain(np.concatenate([matrix, observed])[None], (1, 1)))
            value = values[0] if len(values) == 1 else joined(values, 0)
            value = self.landmarks.expand(value, 2)
            return side.expand(value, 1, nodes, parts and parts[0])

        return leaf


class SecondMoments:
    """The function from rows to E[k(x, s_i) k(x, s_j) | row] with observed columns left out.

    Parameters
    ----------
    density : Density
    rates : array of shape (columns,)
    points : array of shape (points, columns)
    """

    def __init__(self, density: Density, rates: Any, points: Any):
        self.density, self.rates, self.points = density, rates, points

    def __call__(
        self, rows: Rows, index: Any, max_bytes: int
    ) -> Iterator[tuple[int, Any, Landmarks, Landmarks]]:
        """For rows that observe the same variables: where a part begins, its values, its points.

        Points that differ in observed columns only are merged: the landmarks say which. With
        many points the values come in parts, too.
        """
        every = Landmarks(self.density, self.points, ~rows.observed[index[0]])
        side = evidence_side(self.density.circuit, rows.evidence(index), every.n**2)
        waiting = [(0, side, every, every)]
        while waiting:
            start, side, a, b = waiting.pop()
            n = evidence_rows(side)
            small = side.max_rows is None or n <= side.max_rows
            operands = [side.operand, a.operand, b.operand] if small else []
            if not (small and peak_bytes(operands) <= max_bytes):
                if n > 1:
                    waiting += [(at, part, a, b) for at, part in _halved(start, side, n)]
                    continue
                if max(a.n, b.n) > 1:
                    wide_a = a.n > b.n
                    for half in (a if wide_a else b).halves():
                        waiting.append((start, side, *((half, b) if wide_a else (a, half))))
                    continue
            root = sweep(operands, self._leaf(side, a, b), max_bytes)
            yield start, by_rows(root, side), a, b

    def _leaf(self, side: CircuitSide, a: Landmarks, b: Landmarks) -> Any:
        def leaf(nodes: Any, parts: Any) -> Value:
            values = [plain(self._kernel(v, side, a, b)[None], (1, 1, 1)) for v in variables(nodes)]
            value = values[0] if len(values) == 1 else joined(values, 0)
            value = b.expand(a.expand(value, 2), 3)
            return side.expand(value, 1, nodes, parts and parts[0])

        def variables(nodes: Any) -> Any:
            return self.density.vtree.variable[nodes].tolist()

        return leaf

    def _kernel(self, variable: int, side: CircuitSide, a: Landmarks, b: Landmarks) -> Any:
        n = side.atoms(variable).n
        if not a.active[variable]:
            return np.ones((n, 1, 1))
        rates = self.rates[self.density.variables[variable].columns]
        matrix = triple(rates, self.density.atoms(variable), a.atoms(variable), b.atoms(variable))
        return flushed(matrix)


def evidence_rows(side: CircuitSide) -> int:
    """How many rows of evidence a side has."""
    return int(side.n_rows)  # type: ignore[arg-type]


def _halved(start: int, side: CircuitSide, n: int) -> list[tuple[int, CircuitSide]]:
    """The second half of the rows of a side, and the first, which is next in line."""
    half = n // 2
    return [
        (start + half, side.rows(slice(half, n))),
        (start, side.rows(slice(0, half))),
    ]


def flushed(matrix: Any) -> Any:
    """The matrix without numbers that do not count, so that the others stay in range."""
    return np.where(matrix < NEGLIGIBLE, 0.0, matrix)


def by_rows(root: Value, side: CircuitSide) -> Any:
    """The values at the root as plain numbers, one row per row of evidence, normalised."""
    place = side.root_rows
    if isinstance(side, ConditionalsSide):
        data = linear(root)
        return data if place is None else data[place]
    logs = log_values(side.circuit, side.evidence)[0][:, 0]
    data = to_log(root).data[0]
    data = data if place is None else data[place]
    shift = logs.reshape(-1, *[1] * (data.ndim - 1))
    return np.exp(data - shift)


def linear(root: Value) -> Any:
    """The values at the root as plain numbers; no logarithm is taken of those that have none."""
    if root.is_log:
        return np.exp(root.data[0])
    if root.scale is None:
        return root.data[0]
    return root.data[0] * np.exp(root.scale[0])


def same_masks(observed: Any) -> list[Any]:
    """Groups of rows that observe the same variables."""
    _, inverse = np.unique(observed, axis=0, return_inverse=True)
    order = np.argsort(inverse.reshape(-1), kind="stable")
    stops = np.flatnonzero(np.diff(inverse.reshape(-1)[order])) + 1
    return np.split(order, stops)
