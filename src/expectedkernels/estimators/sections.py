"""Expected kernels between rows with missing values and points, and their second moments.

    first:   E[k(x, s_i) | row]                    one sweep over (rows) x (points)
    second:  E[k(x, s_i) k(x, s_j) | row]          one sweep over (rows) x (points) x (points)

The factor of the kernel at observed columns is known and taken out of the sweeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.circuits.choice import evidence_side
from expectedkernels.circuits.conditionals import ConditionalsSide
from expectedkernels.circuits.queries import log_values
from expectedkernels.circuits.sides import CircuitSide, PointSide
from expectedkernels.estimators.atoms import Columns, pair, point_atoms, triple
from expectedkernels.estimators.rows import Density, Rows
from expectedkernels.kernels.blocks import Tables
from expectedkernels.kernels.gram import Axes, pieces
from expectedkernels.kernels.scaled import Place, divided

NEGLIGIBLE = 1e-100
"""Factors of a kernel below this count as zero; all others are at most one."""
FAR = 1e5
"""Scaled squared distances from the middle above which dot products lose too many digits."""


@dataclass(frozen=True, eq=False)
class RowAxis:
    """Rows of evidence as one axis of a sweep, with the atoms that their columns stand for.

    Attributes
    ----------
    side : CircuitSide
    atoms_of : function of a side and a variable
    """

    side: CircuitSide
    atoms_of: Callable[[CircuitSide, int], Any]

    def __getattr__(self, name: str) -> Any:
        # operand, circuit, n_rows, max_rows, root_rows and expand are those of the side
        if name == "side" or name.startswith("__"):  # asked for before there is one, by copy
            raise AttributeError(name)
        return getattr(self.side, name)

    def rows(self, chosen: slice) -> RowAxis:
        """The axis with some of its rows."""
        return RowAxis(self.side.rows(chosen), self.atoms_of)

    def atoms(self, variable: int) -> Any:
        """The atoms of a variable."""
        return self.atoms_of(self.side, variable)

    @cached_property
    def logs(self) -> Any:
        """What to divide the values of every row by, as logs; None: they are normalised."""
        if isinstance(self.side, ConditionalsSide):
            return None
        return log_values(self.side.circuit, self.side.evidence)[0][:, 0]


class Landmarks(PointSide):
    """Complete points as one axis of a sweep: those that differ in what counts.

    Parameters
    ----------
    density : Density
    points : array of shape (points, columns)
    active : bool array of shape (variables,), optional
        The variables that count; points that differ in others only are one.
    """

    def __init__(self, density: Density, points: Any, active: Any = None):
        self.density, self.active = density, active
        super().__init__(points, density.vtree, [None] * len(density.variables))
        found: Any = self.operand.patterns
        self.in_order = found.rows is None
        self.place: Any = np.arange(len(points)) if self.in_order else found.rows
        self._atoms = [point_atoms(values) for values, _ in self.columns]

    def _column(self, i: int) -> tuple[Any, Any]:
        """The distinct values of a variable's columns, and which one every point has."""
        x = self.points
        if self.active is not None and not self.active[i]:
            return np.zeros((1, 1)), np.zeros(len(x), dtype=np.intp)
        columns = self.density.variables[i].columns
        if len(columns) == 1:  # several times faster than rows of one entry
            values, codes = np.unique(x[:, columns[0]], return_inverse=True)
            return values[:, None], codes
        values, codes = np.unique(x[:, columns], axis=0, return_inverse=True)
        return values, codes.reshape(-1)

    @property
    def n_rows(self) -> int:
        """The number of points that differ in what counts."""
        return int(self.operand.patterns.count[-1])  # type: ignore[union-attr]

    @property
    def root_rows(self) -> None:
        """Every point that differs has a place of its own."""
        return

    def rows(self, chosen: slice) -> Landmarks:
        """Some of the points that differ."""
        _, first = np.unique(self.place, return_index=True)
        return Landmarks(self.density, self.points[first[chosen]], self.active)

    def atoms(self, variable: int) -> Columns:  # type: ignore[override]
        """The distinct values of a variable's columns as points."""
        return self._atoms[variable]

    def merged(self, weights: Any) -> Any:
        """Weights of all points, (..., points), summed over those of each that differs."""
        return weights @ self._membership

    @cached_property
    def _membership(self) -> Any:
        ones, every = np.ones(len(self.place)), np.arange(len(self.place))
        return sparse.csr_array((ones, (every, self.place)), shape=(len(every), self.n_rows))


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
        self.density, self.rates = density, rates
        self.landmarks = Landmarks(density, points)
        every = range(len(density.variables))
        self._kernels = [self._kernel(i, self.landmarks.atoms(i)) for i in every]

    def __call__(self, rows: Rows, index: Any, max_bytes: int) -> Iterator[tuple[int, Any]]:
        """For rows that differ in what they say: where a part begins, and its values."""
        circuit, landmarks = self.density.by_state, self.landmarks
        if not landmarks.n_rows:  # the constant functions have no points
            yield 0, np.empty((len(index), 0))
            return
        side = evidence_side(circuit, rows.evidence_by_state(index), landmarks.n_rows)
        axes = (RowAxis(side, self._atoms), landmarks)
        parts = []
        for at, values in divided_pieces(axes, Tables(self.density.vtree, self._table), max_bytes):
            parts.append(values)
            if at[1].stop == landmarks.n_rows:  # the last of the points for these rows
                values = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
                yield at[0].start, values if landmarks.in_order else values[:, landmarks.place]
                parts = []

    def _atoms(self, side: CircuitSide, variable: int) -> tuple[Any, int]:
        """The atoms of a variable, and the number of them with those that are observed."""
        return self.density.atoms(variable), side.atoms(variable).n

    def _kernel(self, variable: int, points: Any) -> Any:
        rates = self.rates[self.density.variables[variable].columns]
        return flushed(pair(rates, self.density.atoms(variable), points))

    def _table(self, variable: int, atoms: tuple[Any, ...]) -> Any:
        (_, n), points = atoms
        whole = points is self.landmarks.atoms(variable)
        matrix = self._kernels[variable] if whole else self._kernel(variable, points)
        # what is observed takes part with the density only
        return np.concatenate([matrix, np.ones((n - len(matrix), matrix.shape[1]))])


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
    ) -> Iterator[tuple[Place, Any, Landmarks]]:
        """For rows that observe the same variables: places, the values there, and the points.

        Points that differ in observed columns only are merged: the landmarks say which. With
        many points the values come in parts, too.
        """
        every = Landmarks(self.density, self.points, ~rows.observed[index[0]])
        side = evidence_side(self.density.circuit, rows.evidence(index), every.n_rows**2)

        def table(variable: int, atoms: tuple[Any, ...]) -> Any:
            n, a, b = atoms
            if not every.active[variable]:
                return np.ones((n, 1, 1))
            rates = self.rates[self.density.variables[variable].columns]
            return flushed(triple(rates, self.density.atoms(variable), a, b))

        axes = (RowAxis(side, lambda side, variable: side.atoms(variable).n), every, every)
        for at, values in divided_pieces(axes, Tables(self.density.vtree, table), max_bytes):
            yield at, values, every


def divided_pieces(axes: Axes, kernel: Tables, max_bytes: int) -> Iterator[tuple[Place, Any]]:
    """Expected kernels of rows on the first axis, part after part, and which these are."""
    logs = [axes[0].logs, *[None] * (len(axes) - 1)]
    for at, piece in pieces(axes, kernel, max_bytes, rows_first=True):
        yield at, divided(piece, logs, at).linear()


def flushed(matrix: Any) -> Any:
    """The matrix without numbers that do not count, so that the others stay in range."""
    return np.where(matrix < NEGLIGIBLE, 0.0, matrix)


def same_masks(observed: Any) -> list[Any]:
    """Groups of rows that observe the same variables."""
    _, inverse = np.unique(observed, axis=0, return_inverse=True)
    order = np.argsort(inverse.reshape(-1), kind="stable")
    stops = np.flatnonzero(np.diff(inverse.reshape(-1)[order])) + 1
    return np.split(order, stops)
