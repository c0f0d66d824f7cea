"""Expected kernels between rows with missing values: both arguments are distributions.

    M(p_i, p_j) = E[k(x, x')]  for independent x ~ p(. | row i), x' ~ p(. | row j)

is the inner product of mean embeddings, so matrices of it are positive semidefinite. Machines
that were fitted to incomplete rows are expansions in such embeddings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from expectedkernels.circuits.conditionals import ConditionalsSide
from expectedkernels.circuits.evidence import Column, Evidence
from expectedkernels.circuits.sides import CircuitSide
from expectedkernels.estimators.atoms import Columns, pair, triple, with_points
from expectedkernels.estimators.expansion import Expansion, Resources, each_kernel, parts
from expectedkernels.estimators.rows import Density, Rows
from expectedkernels.estimators.sections import RowAxis, flushed, observed_kernel
from expectedkernels.kernels.blocks import Tables
from expectedkernels.kernels.gram import gram
from expectedkernels.kernels.scaled import divided

CHUNK_ROWS = 256
"""How many distributions are worked on at once: each may bring a value of its own."""
FEW_ROWS = 64
"""The same where two of them meet a third."""


class Distributions:
    """Rows as one axis of a sweep: the conditional distributions, with exact observed values.

    Parameters
    ----------
    density : Density
    Z : array of shape (rows, columns)
        NaN is missing.
    """

    def __init__(self, density: Density, Z: Any):
        self.density, rows = density, Rows(density, Z)
        self.values = [self._observed(rows, i) for i in range(len(rows.said))]
        known: list[Any] = []
        columns: list[Column] = []
        for i, column in enumerate(rows.statements):
            if density.variables[i].pieces is None:
                known.append(None)
                columns.append(column)
                continue
            distinct, codes = self.values[i]
            states, statement = _by_value(rows, i, column, distinct, codes)
            known.append(states)
            columns.append(statement)
        circuit = density.extended(known)
        evidence = Evidence(circuit.cardinalities, columns=columns)
        make = ConditionalsSide if density.is_discrete else CircuitSide
        self.axis = RowAxis(make(circuit, evidence), self._atoms)

    @staticmethod
    def _observed(rows: Rows, i: int) -> tuple[Any, Any]:
        """The distinct observed values of a variable, and the one of every row that has one."""
        observed = rows.said[i].observed
        x = rows.Z[observed][:, rows.density.variables[i].columns]
        distinct, inverse = np.unique(x, axis=0, return_inverse=True)
        codes = np.full(len(observed), -1, dtype=np.intp)
        codes[observed] = inverse.reshape(-1)
        return distinct, codes

    def _atoms(self, side: CircuitSide, i: int) -> Columns:
        """The states of a variable, and then its observed values."""
        pieces = self.density.variables[i].pieces
        return (side.atoms(i),) if pieces is None else with_points(pieces.atoms, self.values[i][0])


def _by_value(rows: Rows, i: int, column: Column, distinct: Any, codes: Any) -> tuple[Any, Column]:
    """The states of a variable's observed values, and what rows say in terms of both."""
    said = rows.said[i]
    n = int(rows.density.variables[i].n_states or 0)
    states = np.zeros(len(distinct), dtype=np.intp)
    states[codes[said.observed]] = said.state[said.observed]
    # a row that observes a value points there; others keep what they say of the states
    number = np.where(codes >= 0, codes, len(distinct) + column.codes)
    used, number = np.unique(number, return_inverse=True)
    values = used[used < len(distinct)]
    others = used[used >= len(distinct)] - len(distinct)
    weights = np.zeros((len(used), n + len(distinct)))
    weights[np.arange(len(values)), n + values] = 1.0
    weights[len(values) :, :n] = column.weights[others][:, :n]
    return states, Column(weights, None, number.reshape(-1))


def meet(rates: Any, sides: list[Distributions], max_bytes: int) -> Any:
    """The expected kernel of all pairs (or the triple of all triples) of distributions."""
    density = sides[0].density
    kernel = pair if len(sides) == 2 else triple

    def table(variable: int, atoms: tuple[Any, ...]) -> Any:
        return flushed(kernel(rates[density.variables[variable].columns], *atoms))

    axes = tuple(distributions.axis for distributions in sides)
    found = gram(axes, Tables(density.vtree, table), max_bytes)
    every = (slice(None),) * len(axes)
    return divided(found, [axis.logs for axis in axes], every).linear()


def expected_gram(
    density: Density, rates: Any, A: Any, B: Any = None, resources: Resources | None = None
) -> Any:
    """The expected kernels between rows, (rows of A, rows of B); B is A by default."""
    resources = resources or Resources()
    other = A if B is None else B
    gaps = [np.isnan(x).any(axis=1) for x in (A, other)]
    (i, a), (j, b) = ((np.flatnonzero(gap), np.flatnonzero(~gap)) for gap in gaps)
    gram = np.empty((len(A), len(other)))
    gram[np.ix_(a, b)] = _points(density, rates, A[a], other[b], resources)
    _sections(gram, i, b, density, rates, A[i], other[b], resources)
    if B is None:
        gram[np.ix_(b, i)] = gram[np.ix_(i, b)].T
    else:
        _sections(gram.T, j, a, density, rates, other[j], A[a], resources)
    _blocks(gram, i, j, density, rates, A[i], other[j], B is None, resources)
    return gram if B is not None else 0.5 * (gram + gram.T)


def _points(density: Density, rates: Any, A: Any, B: Any, resources: Resources) -> Any:
    values = np.zeros((len(A), len(B)))
    if len(A) and len(B):
        rows = Rows(density, A)
        for index in parts(np.arange(len(A)), len(B), resources.chunk_bytes):
            values[index] = observed_kernel(rates, rows, index, B)
    return values


def _sections(
    gram: Any, i: Any, b: Any, density: Density, rates: Any, A: Any, B: Any, resources: Resources
) -> None:
    """Fill in the expected kernels between incomplete rows and points."""
    if not len(i) or not len(b):
        return
    for members, kernels in each_kernel(density, rates, B, Rows(density, A), resources):
        gram[np.ix_(i[members], b)] = kernels


@dataclass(frozen=True, eq=False)
class _Meetings:
    """The function from spans of rows, of one or several tables, to what their kernels expect.

    Attributes
    ----------
    density : Density
    rates : array of shape (columns,)
    tables : tuple of arrays of shape (rows, columns)
    max_bytes : int
    """

    density: Density
    rates: Any
    tables: tuple[Any, ...]
    max_bytes: int
    _made: dict[Any, Distributions] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_made": {}}

    def __call__(self, spans: tuple[tuple[int, slice], ...]) -> Any:
        """The values for spans of rows, each given with the number of its table."""
        sides = [self.distributions(table, span) for table, span in spans]
        return meet(self.rates, sides, self.max_bytes)

    def distributions(self, table: int, span: slice) -> Distributions:
        """The distributions of some rows, made once."""
        key = (table, span.start)
        if key not in self._made:
            self._made[key] = Distributions(self.density, self.tables[table][span])
        return self._made[key]


def _spans(n: int, size: int) -> list[slice]:
    return [slice(start, min(n, start + size)) for start in range(0, n, size)]


def _blocks(
    gram: Any,
    i: Any,
    j: Any,
    density: Density,
    rates: Any,
    A: Any,
    B: Any,
    symmetric: bool,
    resources: Resources,
) -> None:
    """Fill in the expected kernels between incomplete rows, block by block."""
    tables = (A,) if symmetric else (A, B)
    work = _Meetings(density, rates, tables, resources.chunk_bytes)
    tasks = [
        ((0, rows), (len(tables) - 1, columns))
        for rows in _spans(len(A), CHUNK_ROWS)
        for columns in _spans(len(B), CHUNK_ROWS)
        if not symmetric or rows.start <= columns.start
    ]
    for ((_, rows), (_, columns)), values in zip(tasks, resources.map(work, tasks), strict=True):
        gram[np.ix_(i[rows], j[columns])] = values
        if symmetric:
            gram[np.ix_(j[columns], i[rows])] = values.T


@dataclass(frozen=True, eq=False)
class _EmbeddedSquares:
    """The function from a row to the expected squares of expansions, and of a quadratic form."""

    expansion: Expansion
    meetings: _Meetings
    quadratic: Any

    def __call__(self, row: int) -> tuple[Any, float]:
        """The squares, (outputs,), and the form."""
        coef = self.expansion.coef
        spans = _spans(len(coef), FEW_ROWS)
        squares, form = np.zeros(coef.shape[1]), 0.0
        here = Distributions(self.meetings.density, self.meetings.tables[1][row : row + 1])
        for m, a in enumerate(spans):
            for n, b in enumerate(spans[: m + 1]):
                sides = [here, *(self.meetings.distributions(0, span) for span in (a, b))]
                second = meet(self.meetings.rates, sides, self.meetings.max_bytes)[0]
                twice = 1.0 if m == n else 2.0
                squares += twice * np.einsum("io,ij,jo->o", coef[a], second, coef[b])
                if self.quadratic is not None:
                    form += twice * float((self.quadratic[a, b] * second).sum())
        return squares, form


@dataclass(frozen=True, eq=False)
class EmbeddedExpansion(Expansion):
    """An expansion in mean embeddings: some of its points have missing values."""

    def at(self, density: Density, Z: Any, resources: Resources) -> Any:
        """The values at complete rows, or the expected ones at others."""
        gram = expected_gram(density, self.rates, Z, self.points, resources)
        return gram @ self.coef + self.intercept

    def merged(self) -> Expansion:
        """The same functions without points of no weight."""
        used = (self.coef != 0).any(axis=1)
        if not used.any():
            used[:1] = True
        return EmbeddedExpansion(self.rates, self.points[used], self.coef[used], self.intercept)

    def mean(self, density: Density, rows: Rows, resources: Resources) -> Any:
        """The expected values given rows, (rows, outputs)."""
        return self.at(density, rows.Z, resources)

    def variance(
        self, density: Density, rows: Rows, mean: Any, resources: Resources, quadratic: Any = None
    ) -> Any:
        """The variances given rows, and expectations of a quadratic form, as for points."""
        squares, forms = np.zeros((len(rows), self.coef.shape[1])), np.zeros(len(rows))
        if not np.isnan(rows.Z).any():  # products of expectations, one row at a time
            if quadratic is None:
                return squares
            gram = expected_gram(density, self.rates, rows.Z, self.points, resources)
            return squares, np.einsum("ri,ri->r", gram @ quadratic, gram)
        first, inverse = rows.distinct_values
        tables = (self.points, rows.Z[first])
        meetings = _Meetings(density, self.rates, tables, resources.chunk_bytes)
        work = _EmbeddedSquares(self, meetings, quadratic)
        found = list(resources.map(work, list(range(len(first)))))
        squares += np.stack([square for square, _ in found])[inverse]
        forms += np.array([form for _, form in found])[inverse]
        variance = np.maximum(squares - (mean - self.intercept) ** 2, 0.0)
        return variance if quadratic is None else (variance, forms)
