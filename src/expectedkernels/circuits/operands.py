"""Circuits, circuits given evidence, and points as axes of joint passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from expectedkernels.arrays import as_like, namespace
from expectedkernels.checks import CircuitError
from expectedkernels.circuits.inputs import log_sizes
from expectedkernels.data.evidence import FEW_ROWS, Evidence, Patterns, patterns
from expectedkernels.engine.joint import Operand
from expectedkernels.engine.layers import Levels
from expectedkernels.engine.passes import chunk_rows
from expectedkernels.engine.scaled import NodeValues, exponentials
from expectedkernels.vtree import Vtree

if TYPE_CHECKING:
    from expectedkernels.circuits.circuit import Circuit

LEAST_ROOM = 30.0
"""With less room between the smallest weight and the smallest double, logs are better."""
ENTRY, REPEATED = 5e-10, 4.0
"""Seconds that one entry (of a unit, a product, or an edge) of one row takes by layers, and how
much longer it takes if it is shared by all rows that look alike at a node."""
LEVEL, IN_RANGE = 2e-5, 1.5e-8
"""Seconds that one layer takes, however few its entries are, and keeping a value in range."""
NODE, NODE_ROW = 6e-5, 1e-8
"""Seconds that finding and using the patterns of rows takes at a node, and of every row."""


def rows_are_cheaper(
    levels: Levels, n_rows: int, counts: Callable[[], Sequence[int]], watched: float = 0.0
) -> bool:
    """Whether a pass over layers for all rows costs less than one over the patterns of nodes.

    `counts` gives the number of patterns of every node; `watched` is the number of units whose
    values are kept in range.
    """
    n_chunks = -(-n_rows // chunk_rows(levels, values_only=True))
    cost = ENTRY * n_rows * levels.n_entries + LEVEL * n_chunks * len(levels.levels)
    cost += IN_RANGE * n_rows * watched
    other = levels.vtree.n_nodes * (NODE + NODE_ROW * n_rows)
    if cost <= other:
        return True
    return cost <= other + REPEATED * ENTRY * float(np.asarray(counts()) @ levels.entries)


@dataclass(frozen=True, eq=False)
class InputComponents:
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
    def columns(self) -> tuple[InputComponents, ...]:
        """The atoms of every column of a real variable."""
        if self.mean.ndim == 1:
            return (self,)
        halves = [None] * len(self.mean.T) if self.half is None else self.half.T
        every = zip(self.mean.T, self.variance.T, halves, strict=True)
        return tuple(InputComponents(None, *column) for column in every)

    def sent(self, like: Any) -> InputComponents:
        """The atoms in the library and on the device of an array."""
        arrays = (self.mean, self.variance, self.half)
        return InputComponents(
            self.cardinality, *(x if x is None else as_like(x, like) for x in arrays)
        )

    def taken(self, chosen: Any) -> InputComponents:
        """Some of the components of a real variable."""
        half = None if self.half is None else self.half[chosen]
        return InputComponents(None, self.mean[chosen], self.variance[chosen], half)


class CircuitOperand:
    """A circuit, optionally given a batch of rows of evidence.

    Rows are put together where they say the same, or not; by default if there are many.
    """

    max_rows: int | None = None
    """How many rows may be worked on at once, None for any number."""
    row_logs: Any = None
    """Logs of what the values of rows are to be divided by, beside the evidence's own."""

    def __init__(
        self, circuit: Circuit, evidence: Evidence | None = None, by_patterns: bool | None = None
    ):
        self.circuit, self.evidence, self.by_patterns = circuit, evidence, by_patterns

    @cached_property
    def numbers(self) -> Circuit:
        """The circuit on the host, or where it is if gradients are asked for."""
        return self.circuit if self.circuit.has_gradients else self.circuit.host

    @cached_property
    def operand(self) -> Operand:
        """The units of the circuit."""
        return self.numbers.operand

    @cached_property
    def batch(self) -> Patterns | None:
        """The patterns of rows of evidence, None without evidence."""
        if self.evidence is None:
            return None
        few = FEW_ROWS
        if self.by_patterns is not None:
            few = 0 if self.by_patterns else self.evidence.n_rows
        return self.evidence.patterns(self.circuit.vtree, few)

    @property
    def is_batched(self) -> bool:
        """Whether values depend on rows."""
        return self.evidence is not None

    @property
    def is_signed(self) -> bool:
        """Whether evidence has negative weights."""
        if self.evidence is None or self.evidence.values is not None:
            return False
        columns = map(self.evidence.column, range(self.circuit.n_variables))
        return any(x.weights is not None and bool((x.weights < 0).any()) for x in columns)

    @property
    def n_rows(self) -> int | None:
        """The number of rows of evidence, None without evidence."""
        return None if self.evidence is None else self.evidence.n_rows

    @property
    def row_index(self) -> Any:
        """The pattern at the root of every row; None: row i has pattern i."""
        return None if self.batch is None else self.batch.rows

    def rows(self, chosen: slice) -> CircuitOperand:
        """The side with some of its rows."""
        some = self.evidence.rows(chosen)  # type: ignore[union-attr]
        return CircuitOperand(self.circuit, some, self.by_patterns)

    def atoms(self, variable: int) -> InputComponents:
        """The atoms of a variable."""
        block = self.numbers.input(variable)
        if block.cardinality is not None:
            return InputComponents(block.cardinality)
        seen = () if self.evidence is None else self.evidence.column(variable).seen
        return InputComponents(None, *block.beside_points(seen))

    def likelihoods(
        self, variables: Sequence[int], uniform: bool, mode: str
    ) -> tuple[Any, NodeValues, bool]:
        """What evidence says of the atoms of variables, (variables, atoms, rows or patterns).

        In numbers, or in logs; also which of the atoms of the kernel these are (None: the same),
        and whether some were too small. Observed values of a real variable are behind its
        components. Several variables are discrete, with as many states, and taken row by row.
        """
        evidence: Any = self.evidence
        block: Any = self.numbers.input(variables[0])
        index = logs = sign = None
        if block.cardinality is None:
            column = evidence.column(variables[0])
            n, seen = block.width, column.seen
            statement = np.arange(column.n_statements)
            index = np.where(statement < len(seen), n + statement, np.arange(n)[:, None])
            if column.logs is None:
                logs, zeros = block.log_density(seen), np.zeros((len(statement) - len(seen), n))
                logs = namespace(logs).concat([logs, as_like(zeros, logs)])
            else:
                logs = column.logs
            logs = logs.T[None]
            if uniform:
                logs, index = logs[..., column.codes], index[:, column.codes]
        else:
            if uniform:
                weights = evidence.state_weights(variables)
            else:
                weights = evidence.column(variables[0]).weights[None]
            found, clamped = NodeValues(weights.swapaxes(1, 2)), False
            if mode == "logs" or evidence.values is None:
                sizes = np.abs(found.data)
                least, most = sizes.min(where=sizes > 0, initial=1.0), sizes.max(initial=1.0)
                found.low, found.high = float(np.log(least)), float(np.log(most))
                if mode == "logs" or least < 1e-30 or most > 1e30:
                    logs = log_sizes(sizes)
                    sign = np.sign(found.data) if (found.data < 0).any() else None
        if logs is not None:
            found, clamped = exponentials(logs, mode, axis=1)
            if sign is not None and mode != "logs":
                found.data, sign = found.data * sign, None
            found.sign = sign
        return index, found, clamped


class PointOperand:
    """A set of complete points.

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
    is_batched = True
    is_signed = False

    def __init__(
        self, points: Any, vtree: Vtree, domains: Any, places: Any = None, active: Any = None
    ):
        self.points, self.vtree, self.domains = points, vtree, domains
        self.places, self.active = places, active
        self.columns = [self._column(variable) for variable in range(vtree.n_variables)]

    @cached_property
    def batch(self) -> Patterns:
        """The patterns of the points."""
        codes = [codes for _, codes in self.columns]
        return patterns(self.vtree, codes, [len(values) for values, _ in self.columns])

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
    def row_index(self) -> Any:
        """The pattern at the root of every point; None: point i has pattern i."""
        return self.batch.rows

    def rows(self, chosen: slice) -> PointOperand:
        """The side with some of its points."""
        return PointOperand(self.points[chosen], self.vtree, self.domains, self.places, self.active)

    def atoms(self, variable: int) -> InputComponents:
        """The atoms of a variable."""
        return self._atoms[variable]

    @cached_property
    def _atoms(self) -> list[InputComponents]:
        return [
            InputComponents(n)
            if n is not None
            else InputComponents(None, values, np.zeros_like(values))
            for n, (values, _) in zip(self.domains, self.columns, strict=True)
        ]

    def index(self, variables: Sequence[int], uniform: bool) -> Any:
        """The atoms of variables at all points, or (of one) at its distinct values."""
        found = []
        for v in variables:
            values, codes = self.columns[v]
            index = np.arange(len(values)) if self.domains[v] is None else values.astype(np.intp)
            found.append(index[codes] if uniform else index)
        return np.stack(found)


Side = CircuitOperand | PointOperand


def check_single_root(circuit: Circuit, why: str) -> None:
    """Raise unless the circuit has one root."""
    if circuit.n_roots != 1:
        raise CircuitError(f"{why} needs a circuit with one root. Got {circuit.n_roots} roots.")
