"""Kernel expansions and their expectations given incomplete rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy import sparse

from expectedkernels.arrays import spans
from expectedkernels.checks import DataError, EvidenceError
from expectedkernels.circuits.block_circuit import host_for
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.evidence_forms import ConditionalsSide, evidence_side
from expectedkernels.circuits.inputs import Real
from expectedkernels.circuits.operands import Atoms, CircuitSide, PointSide
from expectedkernels.circuits.queries import atom_shares, log_values, refuse_signed
from expectedkernels.data.evidence import Column, Evidence
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES
from expectedkernels.estimators.encoding import Said, Variable
from expectedkernels.kernels.gram import (
    CHUNK_BYTES,
    Tables,
    at_known,
    expected,
    expected_pieces,
    gaussian,
    on_atoms,
)

FARTHEST = 1e100
"""Deviations beyond this are as good as this, of values of real variables."""


class Density:
    """A circuit and what its variables mean in the columns of data.

    Parameters
    ----------
    circuit : Circuit
        With one root and no negative weights.
    variables : sequence of Variable
        One per variable of the circuit.
    """

    def __init__(self, circuit: Circuit, variables: Sequence[Variable]):
        circuit = host_for(circuit, "Expected prediction")
        refuse_signed(circuit, "Expected prediction")
        self.circuit, self.variables = circuit, list(variables)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.circuit, self.variables)

    @property
    def vtree(self) -> Any:
        """The vtree of the circuit."""
        return self.circuit.vtree

    @property
    def places(self) -> list[Any]:
        """The columns of every variable."""
        return [variable.columns for variable in self.variables]

    @property
    def is_discrete(self) -> bool:
        """Whether no variable is real."""
        return all(variable.pieces is not None for variable in self.variables)

    @cached_property
    def real(self) -> Circuit:
        """The circuit over values of the columns: states are intervals or points there."""
        blocks = list(self.circuit.blocks)
        for i, variable in enumerate(self.variables):
            if variable.pieces is not None:
                mean, half = variable.pieces.centre, variable.pieces.half
                if len(variable.columns) == 1:
                    mean, half = mean[:, 0], half[:, 0]
                weights = self.circuit.input(i).numbers
                blocks[self.vtree.leaf(i)] = Real(weights, mean, np.zeros_like(mean), half)
        return Circuit(self.vtree, tuple(blocks))

    @cached_property
    def components(self) -> list[int]:
        """The number of components of every variable."""
        return [self.real.input(i).width for i in range(len(self.variables))]


class Rows:
    """Rows of data, read as evidence on a density.

    Parameters
    ----------
    density : Density
    Z : array of shape (rows, columns)
        NaN is missing; the bits of groups are completed.
    """

    def __init__(self, density: Density, Z: Any):
        self.density, self.Z = density, Z
        self.said: list[Said] = [variable.say(Z) for variable in density.variables]

    def __len__(self) -> int:
        return len(self.Z)

    @cached_property
    def observed(self) -> Any:
        """Which variables are observed, (rows, variables)."""
        return np.stack([said.observed for said in self.said], axis=1)

    @cached_property
    def known_columns(self) -> Any:
        """Which columns belong to observed variables, (rows, columns)."""
        known = np.zeros(self.Z.shape, dtype=np.bool_)
        for i, columns in enumerate(self.density.places):
            known[:, columns] = self.observed[:, i, None]
        return known

    @cached_property
    def by_state(self) -> Evidence:
        """The rows as evidence on `Density.real`, of which observed values are taken out.

        They are the same if they are in the same state.
        """
        return self._evidence(exact=False)

    @cached_property
    def by_value(self) -> Evidence:
        """The rows as evidence on `Density.real`."""
        return self._evidence(exact=True)

    @cached_property
    def states(self) -> Evidence:
        """The rows as evidence on the circuit itself."""
        domains = self.density.circuit.cardinalities
        columns = [self.by_state.column(i) for i in range(len(domains))]
        for i, column in enumerate(columns):
            if column.logs is not None:
                columns[i] = Column(np.exp(column.logs), None, column.codes)
        return Evidence(domains, columns=columns)

    def _evidence(self, exact: bool) -> Evidence:
        columns = [self._statement(i, exact) for i in range(len(self.said))]
        return Evidence(self.density.real.cardinalities, columns=columns)

    def _statement(self, i: int, exact: bool) -> Column:
        """What rows say of a variable: a value, or a state, or which states are left."""
        variable, said = self.density.variables[i], self.said[i]
        x = self.Z[:, variable.columns]
        x = x[:, 0] if len(variable.columns) == 1 else x
        if variable.pieces is None:
            values, codes = np.unique(self.real_values(i), return_inverse=True)
            return Column(None, values, codes.reshape(-1))
        n, seen = variable.pieces.n, said.observed
        first, number = distinct(x[seen] if exact else said.state[seen])
        weights = np.vstack([np.eye(n), np.ones(n)])[said.state[seen][first]]  # -1: no state
        left, which = np.ones((int(not seen.all()), n)), np.zeros(1, dtype=np.intp)
        if said.allowed is not None:
            some, which = distinct(said.allowed[~seen])
            left = said.allowed[~seen][some]
        codes = np.empty(len(x), dtype=np.intp)
        codes[seen], codes[~seen] = number, len(first) + which
        values = np.full((len(first) + len(left), *x.shape[1:]), np.nan)
        values[: len(first)] = x[seen][first]
        with np.errstate(divide="ignore"):
            return Column(None, values, codes, np.log(np.vstack([weights, left])))

    def real_values(self, i: int) -> Any:
        """What rows say of a real variable; remote values as ones whose squares are numbers.

        So far out the widest component that is nearest has all of the row in any case.
        """
        block: Any = self.density.circuit.input(i)
        reach = FARTHEST * np.sqrt(block.variance).max()
        x = self.Z[:, self.density.variables[i].columns[0]]
        return np.clip(x, block.mean.min() - reach, block.mean.max() + reach) if reach else x

    @cached_property
    def distinct(self) -> tuple[Any, Any]:
        """Rows that stand for all that say the same, and for every row the number of its own."""
        order = self.density.vtree.scope()  # rows that are alike in a subtree come together
        codes = np.stack([self.by_state.column(i).codes for i in order], axis=1)
        return distinct(codes)

    def members(self, start: int, stop: int) -> Any:
        """The rows that say one of a range of these things, in order."""
        order, starts = self._grouped
        return order[starts[start] : starts[stop]]

    @cached_property
    def _grouped(self) -> tuple[Any, Any]:
        first, number = self.distinct
        order = np.argsort(number, kind="stable")
        return order, np.searchsorted(number[order], np.arange(len(first) + 1))

    @cached_property
    def logs(self) -> Any:
        """The log probabilities of what rows that differ say."""
        return log_values(self.density.circuit, self.states.rows(self.distinct[0]))[0][:, 0]

    def require_possible(self, names: Any = None) -> None:
        """Raise if a row has probability zero; `names` are the numbers of the rows in messages."""
        impossible = np.flatnonzero(~np.isfinite(self.logs)[self.distinct[1]])
        if len(impossible):
            row = int(impossible[0])
            row = row if names is None else int(names[row])
            raise EvidenceError(
                f"What is observed in row {row} has probability zero under the density, so its "
                "missing values have no distribution. Check the row, or smooth the density."
            )


def distinct(x: Any) -> tuple[Any, Any]:
    """Where each of the distinct entries (or rows) comes first, and the number of every one."""
    if x.ndim == 2 and not x.shape[1]:
        return np.arange(min(1, len(x))), np.zeros(len(x), dtype=np.intp)
    axis = None if x.ndim == 1 else 0
    _, first, number = np.unique(x, axis=axis, return_index=True, return_inverse=True)
    return first, number.reshape(-1)


MATRICES = 4
"""Kernel matrices may take so many times the memory of other intermediate values."""
BUNDLES = 4
"""Tasks are handed out in so many bundles per worker: what they share is sent once for each."""


@dataclass(frozen=True)
class Resources:
    """How much of the machine to use, and how exact to be.

    Attributes
    ----------
    n_jobs : int or None
        Workers, as in scikit-learn: threads, unless `joblib.parallel_config` names others.
    max_bytes : int
        Memory for intermediate values, of all workers together.
    std_tol : float
        The relative error that standard deviations may have where exact ones take long.
    """

    n_jobs: int | None = None
    max_bytes: int = DEFAULT_MAX_BYTES
    std_tol: float = 0.0

    @property
    def workers(self) -> int:
        """The number of workers."""
        return effective_n_jobs(self.n_jobs)

    @property
    def chunk_bytes(self) -> int:
        """What the chunks of one worker may take."""
        return max(2**16, min(self.max_bytes // self.workers, CHUNK_BYTES))

    def require_matrix(self, n: int, matrices: int = 1) -> None:
        """Raise if kernel matrices of n rows take more memory than they may, before they do.

        Parameters
        ----------
        n : int
        matrices : int
            How many of them there are at once.

        Examples
        --------
        >>> Resources().require_matrix(10000)
        """
        limit, size = MATRICES * max(self.max_bytes, DEFAULT_MAX_BYTES), 8 * matrices * n**2
        if size > limit:
            what = "A kernel matrix" if matrices == 1 else f"{matrices} kernel matrices"
            raise DataError(
                f"{what} of {n} rows {'takes' if matrices == 1 else 'take'} {size / 2**30:.1f} "
                f"GiB, more than {limit / 2**30:.3g} GiB. Fit the model to a sample of the rows, "
                "or a linear model to ExpectedKernelFeatures of all rows. If there is enough "
                f"memory, set max_bytes to {-(-size // MATRICES)} or more."
            )

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


def chunks(index: Any, n_points: int, max_bytes: int) -> list[Any]:
    """Parts of an index whose matrices of kernels with all points fit into memory."""
    size = max(1, max_bytes // (32 * max(1, n_points)))
    return [index[span] for span in spans(len(index), size)]


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


FEW_ROWS = 64
"""How many points with missing values meet as many others, and a row, at once."""

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


MULTIPLES = (0.0, 1.0, 4.0)
"""What "auto" chooses the rate from, in multiples of the rate of a standardised column."""
MARGIN = 0.05
"""By which share the loss must fall before the mask counts at all."""


def masks_of(variables: Sequence[Any], Z: Any) -> Any:
    """Which variables rows lack, (rows, variables): the bits of a category are one.

    Examples
    --------
    >>> from expectedkernels.estimators.encoding import Variable
    >>> variables = [Variable(np.array([0])), Variable(np.array([1, 2]))]
    >>> masks_of(variables, np.array([[0.5, np.nan, np.nan]])).tolist()
    [[False, True]]
    """
    found = np.empty((len(Z), len(variables)), dtype=np.bool_)
    for i, variable in enumerate(variables):
        found[:, i] = np.isnan(Z[:, variable.columns]).any(axis=1)
    return found


@dataclass(frozen=True, eq=False)
class Masks:
    """What points lack, and how fast kernels fall with every variable that one of two rows lacks.

    Attributes
    ----------
    rate : float
    points : bool array of shape (points, variables)

    Examples
    --------
    >>> masks = Masks(1.0, np.array([[False, False], [True, True]]))
    >>> masks.factors(np.array([[False, True], [True, True]])).round(3).tolist()
    [[0.368, 0.368], [0.135, 1.0]]
    """

    rate: float
    points: Any

    def factors(self, own: Any) -> Any:
        """What kernels between rows with these masks and the points are multiplied with."""
        first, number = distinct(own)
        a, b = own[first].astype(np.float64), self.points.astype(np.float64)
        apart = a.sum(axis=1)[:, None] + b.sum(axis=1) - 2.0 * (a @ b.T)
        with np.errstate(over="ignore"):
            return np.exp(-self.rate * apart)[number]

    def values(self, f: Expansion, density: Any, Z: Any, own: Any, resources: Resources) -> Any:
        """The expectations of functions given rows with these masks, (rows, outputs)."""
        answer = np.empty((len(Z), f.coef.shape[1]))
        for at in chunks(np.arange(len(Z)), len(f.points), resources.chunk_bytes):
            kernels = kernels_between(density, f.rates, Z[at], f.points, resources)
            answer[at] = (kernels * self.factors(own[at])) @ f.coef + f.intercept
        return answer


def unit_rate(rates: Any, Z: Any, standardised: bool) -> float:
    """The mean rate of columns if they had variance one.

    Examples
    --------
    >>> unit_rate(0.25, np.array([[0.0], [4.0], [np.nan]]), False)
    1.0
    """
    if standardised:
        return float(np.mean(rates))
    seen = ~np.isnan(Z)
    count = np.maximum(seen.sum(axis=0), 1)
    centre = np.where(seen, Z, 0.0).sum(axis=0) / count
    return float(np.mean(rates * (np.where(seen, Z - centre, 0.0) ** 2).sum(axis=0) / count))


def chosen(losses: Sequence[float]) -> int:
    """The number of the smallest loss, 0 if it is not much smaller than the first.

    Examples
    --------
    >>> chosen([1.0, 0.97, 0.99]), chosen([1.0, 0.97, 0.9])
    (0, 2)
    """
    best = int(np.argmin(losses))
    return best if losses[best] < (1.0 - MARGIN) * losses[0] else 0
