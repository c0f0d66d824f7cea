"""Circuits and points as operands of expected kernels, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from expectedkernels.arrays import as_like, namespace
from expectedkernels.checks import CircuitError
from expectedkernels.data.evidence import FEW_ROWS, Evidence, Patterns, patterns
from expectedkernels.engine.blocks import Inner, at_nodes
from expectedkernels.engine.plan import Part
from expectedkernels.engine.sweep import Operand, pad
from expectedkernels.engine.value import (
    Value,
    Weights,
    applied,
    from_log,
    joined,
    plain,
    repeated,
    taken,
    times,
    weights_of,
)
from expectedkernels.vtree import Vtree

if TYPE_CHECKING:
    from expectedkernels.circuits.circuit import Circuit

DENSE_RATE = 0.1
"""The time of one term of a dense matrix product, in terms of a sparse one."""
GATHER = 1.0
"""What gathering a number costs, in numbers computed."""
FOLDED_GATHER = 3.0
"""The same for nodes that are computed together: every number has its own index."""
NODE = 40_000.0
"""What a node costs in a sweep node by node, in numbers computed."""
STEP = 6_000.0
"""What a step of a folded sweep costs."""


@dataclass(frozen=True, eq=False)
class Extent:
    """The size of one axis of a sweep at every vtree node, with all its copies.

    Attributes
    ----------
    units, products, terms : arrays of shape (nodes,)
        `terms` are those of the weighted sums, in terms of sparse ones.
    indexed : boolean array of shape (2, nodes)
        Whether units of the left and of the right child are gathered, and not taken as they are.
    steps : int or None
        In how many groups nodes can be computed together; None: node by node.
    set_up : float
        What making the axis costs, in numbers computed.
    """

    units: Any
    products: Any
    terms: Any
    indexed: Any
    steps: int | None
    set_up: float = 0.0


def extent_of_operand(operand: Operand) -> Extent:
    """The size of the axis that an operand is."""
    single = operand.cached("extent", lambda: _single_extent(operand))
    if operand.patterns is None:
        return single
    return with_patterns(single, operand.patterns)


def with_patterns(single: Extent, found: Patterns) -> Extent:
    """The size of an axis with one copy of its units per pattern."""
    count = np.asarray(found.count, dtype=np.float64)
    if found.is_uniform:
        indexed, steps = single.indexed, single.steps
    else:
        looked_up = [[x is not None for x in side] for side in (found.left, found.right)]
        indexed, steps = single.indexed | np.asarray(looked_up), None
    return Extent(
        count * single.units, count * single.products, count * single.terms, indexed, steps
    )


def flat_extent(n_nodes: int, n: int) -> Extent:
    """The size of an axis with as many units everywhere: rows that are all different."""
    every = np.full(n_nodes, float(n))
    return Extent(every, every, np.zeros(n_nodes), np.ones((2, n_nodes), dtype=np.bool_), None)


def _single_extent(operand: Operand) -> Extent:
    n = operand.vtree.n_nodes
    products, terms, indexed = np.zeros(n), np.zeros(n), np.zeros((2, n), dtype=np.bool_)
    for node, block in enumerate(operand.inner):
        if block is None:
            continue
        products[node] = block.n_products
        indexed[:, node] = block.left is not None, block.right is not None
        if block.is_sparse:
            terms[node] = block.weights.nnz
        elif block.weights is not None:
            terms[node] = DENSE_RATE * block.n_products * block.n_units
    units = np.asarray(operand.units, dtype=np.float64)
    return Extent(units, products, terms, indexed, len(operand.fold.members))


def sweep_cost(a: Extent, b: Extent, width: int = 1) -> float:
    """What sweeping two axes costs, and making them, in numbers computed.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.random_circuit(ek.Vtree.balanced(4), 3, rng=0)
    >>> one, many = extent_of_operand(p.operand), flat_extent(p.vtree.n_nodes, 100)
    >>> sweep_cost(one, one) < sweep_cost(one, many)
    True
    """
    folded = a.steps is not None and b.steps is not None
    gathered = (a.indexed | b.indexed).sum(axis=0) * (FOLDED_GATHER if folded else GATHER)
    products = a.products * b.products
    numbers = (1.0 + gathered) * products + a.terms * b.products + a.units * b.terms
    numbers = np.where(products > 0, numbers, 2.0 * a.units * b.units)
    steps = max(a.steps, b.steps) * STEP if folded else len(a.units) * NODE  # type: ignore[type-var,operator]
    return float(width * numbers.sum()) + steps + a.set_up + b.set_up


@dataclass(frozen=True, eq=False)
class Atoms:
    """What a kernel is evaluated on, for one variable.

    Attributes
    ----------
    cardinality : int or None
        Of a discrete variable: the atoms are its states 0, 1, ...
    mean, variance : arrays of shape (atoms,) or (atoms, columns), or None
        Of a real variable: the atoms are normal distributions; variance zero is a point. Columns
        are independent given the atom.
    half : array, or None
        Half the widths of intervals over which these are spread; None: all are zero.
    """

    cardinality: int | None
    mean: Any = None
    variance: Any = None
    half: Any = None

    @property
    def n(self) -> int:
        """The number of atoms."""
        return int(self.mean.shape[0]) if self.cardinality is None else self.cardinality

    @cached_property
    def columns(self) -> tuple[Atoms, ...]:
        """The atoms of every column of a real variable."""
        if self.mean.ndim == 1:
            return (self,)
        halves = [None] * len(self.mean.T) if self.half is None else self.half.T
        every = zip(self.mean.T, self.variance.T, halves, strict=True)
        return tuple(Atoms(None, *column) for column in every)

    def first(self, n: int) -> Atoms:
        """The first atoms of a real variable."""
        half = None if self.half is None else self.half[:n]
        return Atoms(None, self.mean[:n], self.variance[:n], half)


class CircuitSide:
    """A circuit, optionally given a batch of rows of evidence.

    Rows are put together where they say the same, or not; by default if there are many.
    """

    max_rows: int | None = None
    """How many rows may be worked on at once, None for any number."""
    row_logs: Any = None
    """Logs of what the values of rows are to be divided by, beside the evidence's own."""

    def __init__(
        self,
        circuit: Circuit,
        evidence: Evidence | None = None,
        by_patterns: bool | None = None,
    ):
        self.circuit, self.evidence, self.by_patterns = circuit, evidence, by_patterns
        self.operand: Operand = circuit.operand
        if evidence is not None:
            few = FEW_ROWS
            if by_patterns is not None:
                few = 0 if by_patterns else evidence.n_rows
            self.operand = self.operand.batched(evidence.patterns(circuit.vtree, few))

    @property
    def n_rows(self) -> int | None:
        """The number of rows of evidence, None without evidence."""
        return None if self.evidence is None else self.evidence.n_rows

    @property
    def root_rows(self) -> Any:
        """Where along the root's axis the value of every row is; None: row i is at i."""
        return None if self.operand.patterns is None else self.operand.patterns.rows

    def rows(self, chosen: slice) -> CircuitSide:
        """The side with some of its rows."""
        some = self.evidence.rows(chosen)  # type: ignore[union-attr]
        return CircuitSide(self.circuit, some, self.by_patterns)

    def atoms(self, variable: int) -> Atoms:
        """The atoms of a variable."""
        block = self.circuit.input(variable)
        if block.cardinality is not None:
            return Atoms(block.cardinality)
        seen = () if self.evidence is None else self.evidence.column(variable).seen
        return Atoms(None, *block.beside_points(seen))

    def expand(self, value: Value, axis: int, nodes: Any, part: Part | None) -> Value:
        """From a value over atoms along an axis to one over patterns and units."""
        variables = self.circuit.vtree.variable[nodes]
        if self.circuit.cardinalities[int(variables[0])] is None:
            return self._expand_real(value, axis, int(variables[0]))
        weights = self._tables(nodes, part)
        if self.evidence is None:
            return applied(value, weights, axis)
        states = self._state_weights(variables, value, axis)
        copies = self.operand.copies(int(nodes[0]))
        value = times(repeated(value, axis, copies), states, weights.lo, weights.hi)
        return applied(value, weights, axis)

    def _tables(self, nodes: Any, part: Part | None) -> Weights:
        """The tables of one leaf, or the padded and stacked tables of a group of leaves."""
        blocks: Any = self.circuit.blocks
        operand = self.operand
        if part is None or operand.fold.single[part[0]]:
            node = int(nodes[0])
            return operand.cached(("leaf", node), lambda: weights_of(blocks[node].table))
        group = part[0]

        def stack() -> Weights:
            members = operand.fold.members[group]
            shape = (operand.fold.units[group], blocks[int(members[0])].cardinality)
            return weights_of(self.circuit.xp.stack([pad(blocks[v].table, shape) for v in members]))

        return operand.stacked("leaves", part, stack)

    def _state_weights(self, variables: Any, value: Value, axis: int) -> Value:
        """The evidence on discrete variables as weights of their states, along an axis."""
        evidence: Any = self.evidence
        if self.operand.patterns.is_uniform:  # type: ignore[union-attr]
            rows = evidence.state_weights(variables.tolist())
        else:
            rows = evidence.column(int(variables[0])).weights[None]
        shape = [1] * value.data.ndim
        shape[0], shape[axis] = len(rows), -1
        batch = tuple(rows.shape[1] if i == axis - 1 else 1 for i in range(len(value.batch)))
        return plain(as_like(rows.reshape(shape), value.data), batch)

    def _expand_real(self, value: Value, axis: int, variable: int) -> Value:
        """Components mix into units; an observed value takes the unit's density there."""
        block: Any = self.circuit.input(variable)
        mixing = self.operand.cached(("mixing", variable), lambda: weights_of(block.weights))
        if self.evidence is None:
            return applied(value, mixing, axis)
        column = self.evidence.column(variable)
        seen, n, n_components = column.seen, column.n_statements, block.n_components
        every = np.arange(n_components + len(seen))
        parts = []
        if len(seen):
            logs = block.log_density(seen) if column.logs is None else column.logs[: len(seen)]
            density = applied(_along(logs, value, axis), mixing, axis)
            at_points = np.repeat(every[n_components:], block.n_units)
            points = taken(value, axis, at_points, np.zeros(len(seen)))
            parts.append(times(points, density))
        if len(seen) < n:
            components = taken(value, axis, every[:n_components], [0])
            if column.logs is not None and column.logs[len(seen) :].any():
                left = _along(column.logs[len(seen) :], value, axis)
                components = repeated(components, axis, n - len(seen))
                components = times(components, left, mixing.lo, mixing.hi)
            parts.append(applied(components, mixing, axis))
        result = parts[0] if len(parts) == 1 else joined(parts, axis)
        if self.operand.patterns.is_uniform:  # type: ignore[union-attr]
            rows = (column.codes[:, None] * block.n_units + np.arange(block.n_units)).ravel()
            result = taken(result, axis, rows, column.codes)
        return result


def _along(logs: Any, value: Value, axis: int) -> Value:
    """What statements say, (statements, atoms), as logs along an axis of a value."""
    shape = [1] * value.data.ndim
    shape[axis] = -1
    batch = tuple(logs.shape[0] if i == axis - 1 else 1 for i in range(len(value.batch)))
    return from_log(as_like(namespace(logs).reshape(logs, tuple(shape)), value.data), batch)


class PointSide:
    """A set of complete points: one unit per node, one pattern per distinct restricted point.

    Parameters
    ----------
    points : array of shape (points, columns)
    vtree : Vtree
    domains : sequence of int or None
        The cardinality of every variable, None for real ones.
    places : sequence of int arrays, optional
        The columns of every variable. Default: one each, in their order.
    active : bool array of shape (variables,), optional
        The variables that count: the points are all the same in others, NaN.
    """

    max_rows: int | None = None

    def __init__(
        self, points: Any, vtree: Vtree, domains: Any, places: Any = None, active: Any = None
    ):
        self.points, self.vtree, self.domains = points, vtree, domains
        self.places, self.active = places, active
        self.columns = [self._column(variable) for variable in range(vtree.n_variables)]
        codes = [codes for _, codes in self.columns]
        found = patterns(vtree, codes, [len(values) for values, _ in self.columns])
        self.operand = point_operand(vtree).batched(found)

    def _column(self, variable: int) -> tuple[Any, Any]:
        """The distinct values of a variable, and which one every point has."""
        x = self.points[:, variable if self.places is None else self.places[variable]]
        x = x[:, 0] if x.ndim == 2 and x.shape[1] == 1 else x
        if self.active is not None and not self.active[variable]:
            return np.full((1, *x.shape[1:]), np.nan), np.zeros(len(x), dtype=np.intp)
        n = self.domains[variable]
        if n is not None and x.ndim == 1 and n <= len(x):  # a table of flags beats a sort
            states = x.astype(np.intp)
            seen = np.zeros(n, dtype=np.bool_)
            seen[states] = True
            return np.flatnonzero(seen).astype(x.dtype), (np.cumsum(seen) - 1)[states]
        values, codes = np.unique(x, axis=None if x.ndim == 1 else 0, return_inverse=True)
        return values, codes.reshape(-1)

    @property
    def n_rows(self) -> int:
        """The number of points."""
        return len(self.points)

    @property
    def root_rows(self) -> Any:
        """Where along the root's axis the value of every point is; None: point i is at i."""
        return self.operand.patterns.rows  # type: ignore[union-attr]

    def rows(self, chosen: slice) -> PointSide:
        """The side with some of its points."""
        return PointSide(self.points[chosen], self.vtree, self.domains, self.places, self.active)

    def atoms(self, variable: int) -> Atoms:
        """The atoms of a variable."""
        return self._atoms[variable]

    @cached_property
    def _atoms(self) -> list[Atoms]:
        return [
            Atoms(n) if n is not None else Atoms(None, values, np.zeros_like(values))
            for n, (values, _) in zip(self.domains, self.columns, strict=True)
        ]

    def expand(self, value: Value, axis: int, nodes: Any, part: Part | None) -> Value:
        """From a value over atoms along an axis to one over the distinct values of the points."""
        variable = int(self.vtree.variable[nodes[0]])
        values = self.columns[variable][0]
        index = np.arange(len(values)) if self.domains[variable] is None else values
        return taken(value, axis, index, np.zeros(len(values)))


@lru_cache(maxsize=8)
def point_operand(vtree: Vtree) -> Operand:
    """The operand of one unit per node."""
    one = Inner(1, 1, None, None, None)
    inner = at_nodes(vtree, None, lambda _: one)
    return Operand(vtree, [1] * vtree.n_nodes, inner, [None] * vtree.n_nodes)


Side = CircuitSide | PointSide


def check_single_root(circuit: Circuit, why: str) -> None:
    """Raise unless the circuit has one root."""
    if circuit.n_roots != 1:
        raise CircuitError(f"{why} needs a circuit with one root. Got {circuit.n_roots} roots.")
