"""Circuits, and averages of densities, as densities of incomplete rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.arrays import spans
from expectedkernels.checks import EvidenceError
from expectedkernels.circuits import operands
from expectedkernels.circuits.circuit import Circuit, cpu_circuit
from expectedkernels.circuits.inputs import Real
from expectedkernels.circuits.operands import CircuitOperand, InputComponents, PointOperand
from expectedkernels.circuits.queries import atom_shares, log_values, refuse_signed
from expectedkernels.data.evidence import Column, Evidence
from expectedkernels.estimators import kernel_expansion
from expectedkernels.estimators.encoding import Observation, Variable
from expectedkernels.estimators.kernel_expansion import Density, KernelExpansion, Resources
from expectedkernels.estimators.variance import low_rank_variance, stable_variance
from expectedkernels.kernels import gram

FARTHEST = 1e100
"""Deviations beyond this are as good as this, of values of real variables."""
SPAN_ROWS = 512
"""How many rows that differ are one task. The number of workers does not change it, nor, so,
the last digits of results."""
CHUNK_ROWS = 256
"""How many distributions are worked on at once: each may bring a value of its own."""
FEW_ROWS = 64
"""How many points with missing values meet as many others, and a row, at once."""
SAME = 1e-9
"""Probabilities that differ by less are equal."""
OF_INTERVALS = 4
"""Nodes of one interval share an expectation, so that four cost hardly more than two."""
OF_NORMALS = 7


@dataclass(frozen=True, eq=False)
class Nodes:
    """Values of one variable in rows where it is missing.

    Attributes
    ----------
    rows : int array of shape (nodes,)
        The row of every node.
    values : array of shape (nodes, columns)
        What the columns of the variable hold.
    weights : array of shape (nodes,)
        Positive; those of one row sum to one.
    """

    rows: Any
    values: Any
    weights: Any


def _rule(density: CircuitDensity, i: int) -> tuple[Any, Any, Any]:
    """The nodes of all atoms of a variable, their weights, and whose they are."""
    block: Any = density.real.input(i)
    parts = block.mean, block.halves, np.sqrt(block.variance)
    centre, half, root = (np.reshape(x, (block.width, -1)) for x in parts)
    uniform, shares = np.polynomial.legendre.leggauss(OF_INTERVALS)
    normal, weights = np.polynomial.hermite_e.hermegauss(OF_NORMALS)
    found = []
    for atom in range(len(centre)):
        u, s = (uniform, shares / shares.sum()) if half[atom].any() else (np.zeros(1), np.ones(1))
        z, w = (normal, weights / weights.sum()) if root[atom].any() else (np.zeros(1), np.ones(1))
        away = np.add.outer(root[atom].max() * z, u * half[atom].max()).reshape(-1, 1)
        found.append((centre[atom] + away, np.outer(w, s).ravel(), np.full(away.size, atom)))
    values, weights, atoms = (np.concatenate(each) for each in zip(*found, strict=True))
    return values, weights, atoms


class Rows:
    """Rows of data, read as evidence on a density.

    Parameters
    ----------
    density : CircuitDensity
    Z : array of shape (rows, columns)
        NaN is missing; the bits of groups are completed.
    """

    def __init__(self, density: CircuitDensity, Z: Any):
        self.density, self.Z = density, Z
        self.observations: list[Observation] = [v.observe(Z) for v in density.variables]

    def __len__(self) -> int:
        return len(self.Z)

    @cached_property
    def observed(self) -> Any:
        """Which variables are observed, (rows, variables)."""
        return np.stack([own.observed for own in self.observations], axis=1)

    @cached_property
    def known_columns(self) -> Any:
        """Which columns belong to observed variables, (rows, columns)."""
        known = np.ones(self.Z.shape, dtype=np.bool_)
        for i, variable in enumerate(self.density.variables):
            known[:, variable.columns] = self.observed[:, i, None]
        return known

    @cached_property
    def by_state(self) -> Evidence:
        """The rows as evidence on `CircuitDensity.real`, of which observed values are taken out.

        They are the same if they are in the same state.
        """
        return self._evidence(exact=False)

    @cached_property
    def by_value(self) -> Evidence:
        """The rows as evidence on `CircuitDensity.real`."""
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
        """What rows say of every variable: a value, or a state, or which states are left."""
        columns = []
        pairs = zip(self.density.variables, self.observations, strict=True)
        for i, (variable, own) in enumerate(pairs):
            if variable.low is None:
                values, codes = np.unique(self._real_values(i), return_inverse=True)
                columns.append(Column(None, values, codes.reshape(-1)))
                continue
            x = self.Z[:, variable.columns]
            x = x[:, 0] if len(variable.columns) == 1 else x
            n, observed = len(variable.low), own.observed
            first, number = kernel_expansion.distinct(x[observed] if exact else own.state[observed])
            weights = np.vstack([np.eye(n), np.ones(n)])[own.state[observed][first]]  # -1: no state
            left, which = np.ones((int(not observed.all()), n)), np.zeros(1, dtype=np.intp)
            if own.allowed is not None:
                some, which = kernel_expansion.distinct(own.allowed[~observed])
                left = own.allowed[~observed][some]
            codes = np.empty(len(x), dtype=np.intp)
            codes[observed], codes[~observed] = number, len(first) + which
            values = np.full((len(first) + len(left), *x.shape[1:]), np.nan)
            values[: len(first)] = x[observed][first]
            with np.errstate(divide="ignore"):
                columns.append(Column(None, values, codes, np.log(np.vstack([weights, left]))))
        return Evidence(self.density.real.cardinalities, columns=columns)

    def _real_values(self, i: int) -> Any:
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
        order = self.density.circuit.vtree.scope()  # rows that are alike in a subtree come together
        codes = np.stack([self.by_state.column(i).codes for i in order], axis=1)
        return kernel_expansion.distinct(codes)

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


def first_largest(x: Any) -> Any:
    """The first of the largest entries of rows, up to rounding, which orders of rows change."""
    return (x >= x.max(axis=1, keepdims=True) - SAME).argmax(axis=1)


Squares = Iterator[tuple[Any, Any, Any]]
"""Numbers of rows, and what to add to their squares and to their forms."""


class CircuitDensity(Density):
    """A circuit as a density of columns of data.

    Parameters
    ----------
    circuit : Circuit
        With one root and no negative weights.
    variables : sequence of Variable
        One per variable of the circuit.
    """

    def __init__(self, circuit: Circuit, variables: Sequence[Variable]):
        circuit = cpu_circuit(circuit, "Expected prediction")
        refuse_signed(circuit, "Expected prediction")
        self.circuit, self.variables = circuit, list(variables)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.circuit, self.variables)

    @property
    def is_discrete(self) -> bool:
        """Whether no variable is real."""
        return all(variable.low is not None for variable in self.variables)

    @cached_property
    def real(self) -> Circuit:
        """The circuit over values of the columns: states are intervals or points there."""
        blocks = list(self.circuit.blocks)
        for i, variable in enumerate(self.variables):
            if variable.low is not None:
                mean, half = variable.centre, 0.5 * (variable.high - variable.low)
                if len(variable.columns) == 1:
                    mean, half = mean[:, 0], half[:, 0]
                weights = self.circuit.input(i).numbers
                blocks[self.circuit.vtree.leaf(i)] = Real(weights, mean, np.zeros_like(mean), half)
        return Circuit(self.circuit.vtree, tuple(blocks))

    def kernel(self, rates: Any, without_observed: bool = False) -> Any:
        """The kernel between rows, or rows and points, or that without what rows observe."""
        parts = [rates[variable.columns] for variable in self.variables]
        widths = [self.real.input(i).width for i in range(len(parts))]
        return gram.gaussian(parts, widths if without_observed else None)

    def point_axis(self, points: Any, active: Any = None) -> PointOperand:
        """Points as an axis of a sweep."""
        places = [variable.columns for variable in self.variables]
        return PointOperand(points, self.circuit.vtree, [None] * len(places), places, active)

    def rows(self, Z: Any) -> Rows:
        """The rows as evidence; raises if an incomplete one has probability zero."""
        rows, gaps = Rows(self, Z), np.isnan(Z).any(axis=1)
        impossible = gaps & ~np.isfinite(rows.logs)[rows.distinct[1]] if gaps.any() else gaps
        if impossible.any():
            raise EvidenceError(
                "What is observed in row {row} has probability zero under the density, so its "
                "missing values have no distribution. Check the row, or smooth the density.",
                row=int(impossible.argmax()),
            )
        return rows

    def variance(
        self, f: KernelExpansion, rows: Rows, mean: Any, resources: Resources, prior: Any = None
    ) -> Any:
        """The variances of functions given rows, with those of a process: (rows, outputs)."""
        if resources.std_tol > 0 and prior is None and not f.is_embedded:
            variance, left = low_rank_variance(f, self, rows, mean, resources)
            if left.any():
                exact, others = replace(resources, std_tol=0.0), Rows(self, rows.Z[left])
                variance[left] = self.variance(f, others, mean[left], exact)
            return variance
        variance, forms = self.plain_variance(f, rows, mean, resources, prior and prior.form)
        own = 0.0 if prior is None else prior.left(forms)
        return stable_variance(f, self, rows, variance, resources, own) + own

    def plain_variance(
        self, f: KernelExpansion, rows: Rows, mean: Any, resources: Resources, form: Any = None
    ) -> tuple[Any, Any]:
        """The variances as differences of squares, (rows, outputs), and E[k' form k], (rows,)."""
        squares, forms = np.zeros((len(rows), f.coef.shape[1])), np.zeros(len(rows))
        find = self._embedded if f.is_embedded else self.squares
        for at, square, more in find(f, rows, resources, form):
            squares[at] += square
            forms[at] += more
        return np.maximum(squares - (mean - f.intercept) ** 2, 0.0), forms

    def kernels(
        self, rates: Any, rows: Rows, points: Any, resources: Resources, coef: Any = None
    ) -> Any:
        """E[k(x, s) | row], (rows, points); with coefficients their sums, (rows, outputs)."""
        kernel, axis = self.kernel(rates, without_observed=True), self.point_axis(points)
        max_bytes, number = resources.chunk_bytes, rows.distinct[1]
        missing = ~rows.observed[rows.distinct[0]]
        single = (missing.sum(axis=1) == 1) & self.is_discrete
        factors = [self._factors(v, kernel, axis) for v in range(missing.shape[1] * single.any())]

        def section(span: slice) -> list[tuple[Any, Any]]:
            index, values = rows.distinct[0][span], np.empty((span.stop - span.start, len(points)))
            several, alone = np.flatnonzero(~single[span]), np.flatnonzero(single[span])
            if len(several):
                operand = operands.evidence_operand(
                    self.real, rows.by_state.rows(index[several]), len(points)
                )
                logs = rows.logs[span][several]
                values[several] = gram.expected((operand, axis), kernel, max_bytes, logs)
            if len(alone):  # the shares of one variable's states are all that is asked for
                shares = atom_shares(self.circuit, rows.states.rows(index[alone]))
                for v, start, stop in self.circuit.atom_slices:
                    at = np.flatnonzero(missing[span][alone, v])
                    values[alone[at]] = shares[at, start:stop] @ factors[v]
            found, members = [], rows.members(span.start, span.stop)
            for at in kernel_expansion.chunks(members, len(points), max_bytes):
                known = gram.at_known(rates, rows.Z[at], rows.known_columns[at], points)
                known *= values[number[at] - span.start]
                found.append((at, known if coef is None else known @ coef))
            return found

        found = np.empty((len(rows), len(points) if coef is None else coef.shape[1]))
        most = min(resources.max_bytes, gram.CHUNK_BYTES) // (32 * max(1, len(points)))
        for part in resources.map(section, spans(len(missing), max(1, min(SPAN_ROWS, most)))):
            for at, values in part:
                found[at] = values
        return found

    def _factors(self, v: int, kernel: Any, axis: PointOperand) -> Any:
        """The factors of kernels between the states of a variable and points."""
        block: Any = self.real.input(v)
        states = InputComponents(None, *block.beside_points(()))
        return kernel.numbers(v, (states, axis.atoms(v)))[:, axis.columns[v][1]]

    def between(self, rates: Any, A: Any, B: Any, resources: Resources) -> Any:
        """The expected kernels between incomplete rows, (rows of A, rows of B)."""
        one = self._operands(A, CHUNK_ROWS)
        two = one if B is None else self._operands(B, CHUNK_ROWS)
        found = np.empty((len(A), len(A if B is None else B)))
        tasks = [(m, n) for m in range(len(one)) for n in range(m if B is None else 0, len(two))]

        def meeting(task: tuple[int, int]) -> Any:
            sides = one[task[0]], two[task[1]]
            return gram.expected(sides, self.kernel(rates), resources.chunk_bytes)

        for task, values in zip(tasks, resources.map(meeting, tasks), strict=True):
            i, j = (slice(CHUNK_ROWS * k, CHUNK_ROWS * (k + 1)) for k in task)
            found[i, j] = values
            if B is None:
                found[j, i] = values.T
        return found

    def _operands(self, Z: Any, size: int) -> list[CircuitOperand]:
        """The conditional distributions of rows as axes of a sweep, some rows each, made once."""
        if not len(Z):
            return []
        form = "conditionals" if self.is_discrete else None
        whole = CircuitOperand(self.real, Rows(self, Z).by_value, form)
        return [whole.rows(span) for span in spans(len(Z), size)]

    def squares(self, f: KernelExpansion, rows: Rows, resources: Resources, form: Any) -> Squares:
        """Parts of E[f^2] and of E[k' form k] given rows.

        Rows that differ and observe the same variables are one task. Points that differ in observed
        columns only are one in the sweep.
        """
        kernel, max_bytes = self.kernel(f.rates, without_observed=True), resources.chunk_bytes

        def of_group(group: Any) -> list[tuple[Any, Any, Any]]:
            index, found = rows.distinct[0][group], []
            observed, active = rows.known_columns[index[0]], ~rows.observed[index[0]]
            first, place = kernel_expansion.distinct(f.points[:, ~observed])
            ones, shape = np.ones(len(place)), (len(place), len(first))
            merge = sparse.csr_array((ones, (np.arange(len(place)), place)), shape=shape)
            batch = operands.evidence_operand(self.real, rows.by_state.rows(index), len(first) ** 2)
            axis = self.point_axis(f.points[first], active)
            pieces = gram.expected_pieces((batch, axis, axis), kernel, max_bytes, rows.logs[group])
            for (some, a, b), values in pieces:
                for number, second in zip(group[some], values, strict=True):
                    members = rows.members(number, number + 1)
                    for at in kernel_expansion.chunks(members, len(f.points), max_bytes):
                        known = gram.at_known(f.rates, rows.Z[at], rows.known_columns[at], f.points)
                        merged = [(known * coef) @ merge for coef in f.coef.T]
                        squares = [np.einsum("mi,mi->m", x[:, a] @ second, x[:, b]) for x in merged]
                        forms = np.zeros(len(at))
                        for i, k in enumerate([] if form is None else known):
                            both = ((form * k[:, None] * k).T @ merge).T @ merge
                            forms[i] = (both[a, b] * second).sum()
                        found.append((at, np.stack(squares, axis=1), forms))
            return found

        _, mask = kernel_expansion.distinct(rows.observed[rows.distinct[0]])
        order = np.argsort(mask, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(mask[order])) + 1)
        for found in resources.map(of_group, groups):
            yield from found

    def _embedded(self, f: KernelExpansion, rows: Rows, resources: Resources, form: Any) -> Squares:
        """The same for points with missing values."""
        first, inverse = kernel_expansion.distinct(np.nan_to_num(rows.Z, nan=np.inf))
        points, sides = self._operands(f.points, FEW_ROWS), self._operands(rows.Z[first], 1)
        kernel, max_bytes = self.kernel(f.rates), resources.chunk_bytes
        shape = len(first), len(f.points)
        near = np.broadcast_to(self.further(f.rates, rows.Z[first], f.points), shape)

        def of_row(row: int) -> tuple[Any, float]:
            squares, more = np.zeros(f.coef.shape[1]), 0.0
            parts = spans(len(f.coef), FEW_ROWS)
            for m, a in enumerate(parts):
                for n, b in enumerate(parts[: m + 1]):
                    second = gram.expected((sides[row], points[m], points[n]), kernel, max_bytes)[0]
                    second = near[row, a, None] * second * near[row, b]
                    twice = 1.0 if m == n else 2.0
                    squares += twice * np.einsum("io,ij,jo->o", f.coef[a], second, f.coef[b])
                    more += 0.0 if form is None else twice * float((form[a, b] * second).sum())
            return squares, more

        found = list(resources.map(of_row, list(range(len(first)))))
        squares, forms = (np.stack(each) for each in zip(*found, strict=True))
        yield slice(None), squares[inverse], forms[inverse]

    def means(self, Z: Any, modes: Sequence[bool] = ()) -> Any:
        """The rows with the expected values of what is missing, of some variables the modes."""
        Z, gaps = np.array(Z), np.flatnonzero(np.isnan(Z).any(axis=1))
        if not len(gaps):
            return Z
        rows = Rows(self, Z[gaps])
        shares = self.circuit.marginals(rows.states)
        for i, variable in enumerate(self.variables):
            missing = ~rows.observed[:, i]
            share = np.atleast_2d(shares[i])
            if variable.low is None:
                values = share[:, :1]
            elif modes and modes[i]:
                values = variable.low[first_largest(share)]
            else:
                values = share @ variable.centre
            Z[np.ix_(gaps[missing], variable.columns)] = values[missing]
        return Z

    def draws(self, Z: Any, n: int, rng: Any) -> Any:
        """Completions of the rows, (n, rows, columns)."""
        found = np.repeat(Z[None], n, axis=0)
        gaps = np.flatnonzero(np.isnan(Z).any(axis=1))
        if len(gaps):
            rows = Rows(self, Z[gaps])
            samples = self.circuit.sample(n, rng, evidence=rows.states)
            for k in range(n):
                found[k, gaps] = filled(rows, np.arange(len(gaps)), samples[:, k], rng)
        return found

    def nodes(self, rows: Rows) -> list[Nodes]:
        """The nodes of every variable, given what rows show of the others."""
        shares = atom_shares(self.circuit, rows.states)
        found: list[Any] = [None] * len(self.variables)
        for i, first, stop in self.circuit.atom_slices:
            missing = np.flatnonzero(~rows.observed[:, i])
            values, weights, atoms = _rule(self, i)
            table = shares[missing, first:stop][:, atoms] * weights
            row, node = np.nonzero(table)
            total = table.sum(axis=1)[row]
            found[i] = Nodes(missing[row], values[node], table[row, node] / total)
        return found


def filled(rows: Rows, chunk: Any, states: Any, rng: Any = None) -> Any:
    """Rows completed by states: the middle of their pieces, or a draw from there."""
    Z = rows.Z[chunk].copy()
    for i, variable in enumerate(rows.density.variables):
        missing = ~rows.observed[chunk, i]
        values = states[missing, i]
        if variable.low is None:
            Z[missing, variable.columns[0]] = values
            continue
        low, high = (ends[values.astype(np.intp)] for ends in (variable.low, variable.high))
        share = 0.5 if rng is None else rng.random(low.shape)
        Z[np.ix_(missing, variable.columns)] = low + share * (high - low)
    return Z
