"""Expected kernels between rows with missing values, and between such rows and points.

    M(p_i, p_j) = E[k(x, x')]  for independent x ~ p(. | row i), x' ~ p(. | row j)

is the inner product of mean embeddings, so matrices of it are positive semidefinite. Complete rows
are points: their factor of the kernel at what others observe is taken out of the sweeps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from expectedkernels.arrays import spans
from expectedkernels.circuits.choice import evidence_side
from expectedkernels.circuits.conditionals import ConditionalsSide
from expectedkernels.circuits.posteriors import atom_shares
from expectedkernels.circuits.sides import Atoms, CircuitSide, PointSide
from expectedkernels.estimators.resources import Resources, chunks
from expectedkernels.estimators.rows import Density, Rows
from expectedkernels.kernels.blocks import Tables
from expectedkernels.kernels.gaussian import at_known, gaussian, on_atoms
from expectedkernels.kernels.gram import CHUNK_BYTES, expected

SPAN_ROWS = 512
"""How many rows that differ are one task. The number of workers does not change it, nor, so,
the last digits of results."""
CHUNK_ROWS = 256
"""How many distributions are worked on at once: each may bring a value of its own."""


@dataclass(frozen=True, eq=False)
class Work:
    """A task that can be sent to other processes, without what is made on the way.

    Attributes
    ----------
    density : Density
    rates : array of shape (columns,)
    max_bytes : int
    """

    density: Density
    rates: Any
    max_bytes: int

    def __getstate__(self) -> dict[str, Any]:
        return {name: vars(self)[name] for name in self.__dataclass_fields__}

    @cached_property
    def kernel(self) -> Tables:
        """The kernel between rows."""
        return gaussian(self.density.vtree, self._rates)

    @cached_property
    def open_kernel(self) -> Tables:
        """The kernel between rows and points, without what rows observe."""
        return gaussian(self.density.vtree, self._rates, self.density.components)

    @property
    def _rates(self) -> list[Any]:
        return [self.rates[columns] for columns in self.density.places]

    def point_axis(self, points: Any, active: Any = None) -> PointSide:
        """Points as an axis of a sweep."""
        vtree, places = self.density.vtree, self.density.places
        return PointSide(points, vtree, [None] * len(places), places, active)


@dataclass(frozen=True, eq=False)
class _Sections(Work):
    """The function from spans of rows that differ to their kernels, or to weighted sums of them."""

    points: Any
    rows: Rows
    coef: Any

    @cached_property
    def axis(self) -> PointSide:
        """The points."""
        return self.point_axis(self.points)

    def __call__(self, span: slice) -> list[tuple[Any, Any]]:
        """Numbers of rows, and their values."""
        rows, n = self.rows, len(self.points)
        values, number = self._expected(span), rows.distinct[1]
        found = []
        for at in chunks(rows.members(span.start, span.stop), n, self.max_bytes):
            known = at_known(self.rates, rows.Z[at], rows.known_columns[at], self.points)
            known *= values[number[at] - span.start]
            found.append((at, known if self.coef is None else known @ self.coef))
        return found

    def _expected(self, span: slice) -> Any:
        """The expected kernels of rows that differ, without what they observe, (rows, points)."""
        rows, index = self.rows, self.rows.distinct[0][span]
        missing = ~rows.observed[index]
        single = (missing.sum(axis=1) == 1) & self.density.is_discrete
        values = np.empty((len(index), len(self.points)))
        several, alone = np.flatnonzero(~single), np.flatnonzero(single)
        if len(several):
            given = rows.by_state.rows(index[several])
            axes = (evidence_side(self.density.real, given, len(self.points)), self.axis)
            logs = rows.logs[span][several]
            values[several] = expected(axes, self.open_kernel, self.max_bytes, logs)
        if len(alone):  # the shares of one variable's states are all that is asked for
            shares = atom_shares(self.density.circuit, rows.states.rows(index[alone]))
            for v, start, stop in self.density.circuit.atom_slices:
                at = np.flatnonzero(missing[alone, v])
                values[alone[at]] = shares[at, start:stop] @ self.factors[v]
        return values

    @cached_property
    def factors(self) -> list[Any]:
        """For every variable the factors of kernels between its states and points."""
        found = []
        for v, columns in enumerate(self.density.places):
            block: Any = self.density.real.input(v)
            values = self.points[:, columns].reshape(len(self.points), *block.mean.shape[1:])
            atoms = (
                Atoms(None, *block.beside_points(())),
                Atoms(None, values, np.zeros_like(values)),
            )
            found.append(on_atoms(self._rates[v], *atoms))
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
    work = _Sections(density, rates, resources.chunk_bytes, points, rows, coef)
    most = min(resources.max_bytes, CHUNK_BYTES) // (32 * max(1, len(points)))
    for found in resources.map(work, spans(len(rows.distinct[0]), max(1, min(SPAN_ROWS, most)))):
        yield from found


def expected_gram(
    density: Density, rates: Any, A: Any, B: Any = None, resources: Resources | None = None
) -> Any:
    """The expected kernels between rows, (rows of A, rows of B); B is A by default."""
    resources = resources or Resources()
    other = A if B is None else B
    gaps = [np.isnan(x).any(axis=1) for x in (A, other)]
    (i, a), (j, b) = ((np.flatnonzero(gap), np.flatnonzero(~gap)) for gap in gaps)
    gram = np.empty((len(A), len(other)))
    for at in chunks(a, len(b), resources.chunk_bytes):
        known = np.ones((len(at), A.shape[1]), dtype=np.bool_)
        gram[np.ix_(at, b)] = at_known(rates, A[at], known, other[b])
    _fill_sections(gram, i, b, density, rates, A[i], other[b], resources)
    if B is None:
        gram[np.ix_(b, i)] = gram[np.ix_(i, b)].T
    else:
        _fill_sections(gram.T, j, a, density, rates, other[j], A[a], resources)
    first = meeting_sides(density, A[i], CHUNK_ROWS)
    second = first if B is None else meeting_sides(density, other[j], CHUNK_ROWS)
    work = Meetings(density, rates, resources.chunk_bytes, (first, second))
    tasks = [(m, n) for m in range(len(first)) for n in range(m if B is None else 0, len(second))]
    rows, columns = spans(len(i), CHUNK_ROWS), spans(len(j), CHUNK_ROWS)
    for (m, n), values in zip(tasks, resources.map(work, tasks), strict=True):
        gram[np.ix_(i[rows[m]], j[columns[n]])] = values
        if B is None:
            gram[np.ix_(j[columns[n]], i[rows[m]])] = values.T
    return gram if B is not None else 0.5 * (gram + gram.T)


def _fill_sections(
    gram: Any, i: Any, b: Any, density: Density, rates: Any, A: Any, B: Any, resources: Resources
) -> None:
    """Fill in the expected kernels between incomplete rows and points."""
    if len(i) and len(b):
        for members, kernels in each_kernel(density, rates, B, Rows(density, A), resources):
            gram[np.ix_(i[members], b)] = kernels


def meeting_sides(density: Density, Z: Any, size: int) -> list[CircuitSide]:
    """The conditional distributions of rows as axes of a sweep, some rows each, made once."""
    if not len(Z):
        return []
    make = ConditionalsSide if density.is_discrete else CircuitSide
    whole = make(density.real, Rows(density, Z).by_value)
    return [whole.rows(span) for span in spans(len(Z), size)]


@dataclass(frozen=True, eq=False)
class Meetings(Work):
    """The function from numbers of sides, one for every axis, to what their kernels expect."""

    sides: tuple[list[CircuitSide], ...]

    def __call__(self, places: tuple[int, ...]) -> Any:
        """The values for all rows of these sides."""
        axes = tuple(sides[place] for sides, place in zip(self.sides, places, strict=True))
        return expected(axes, self.kernel, self.max_bytes)
