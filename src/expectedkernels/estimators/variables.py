"""Variables of a density: which columns each of them stands for, and what its states are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.errors import DataError

SLACK = 1e-9
NOT_A_STATE = -1
"""The state of a value that is observed but that the density does not know."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """Uniform distributions on boxes; a point has equal ends.

    Attributes
    ----------
    low, high : arrays of shape (pieces, columns)

    Examples
    --------
    >>> Pieces.points([[0.5], [2.0]]).n
    2
    """

    low: Any
    high: Any

    @classmethod
    def points(cls, x: Any) -> Pieces:
        """The rows of a matrix as points."""
        x = np.asarray(x, dtype=np.float64)
        return cls(x, x)

    @property
    def n(self) -> int:
        """The number of pieces."""
        return len(self.low)

    @property
    def centre(self) -> Any:
        """The middle of every piece."""
        return 0.5 * (self.low + self.high)

    @property
    def half(self) -> Any:
        """Half the widths of every piece."""
        return 0.5 * (self.high - self.low)

    def padded(self, n: int) -> Pieces:
        """The pieces, with the last one repeated up to a number."""
        index = np.minimum(np.arange(n), self.n - 1)
        return Pieces(self.low[index], self.high[index])


@dataclass(frozen=True, eq=False)
class Said:
    """What rows say of one variable.

    Attributes
    ----------
    observed : bool array of shape (rows,)
        Whether all its columns are known.
    state : int array of shape (rows,)
        The state of an observed variable, `NOT_A_STATE` if it is none or not observed.
    allowed : bool array of shape (rows, states), or None
        The states that partly observed columns leave; None: all or one everywhere.
    """

    observed: Any
    state: Any
    allowed: Any = None


@dataclass(frozen=True, eq=False)
class Variable:
    """One variable of a density and its columns of the data.

    Attributes
    ----------
    columns : int array
        Its columns: one, or the bits of a one-hot group.
    pieces : Pieces or None
        For every state the values of the columns there. None: the variable is real.
    cuts : array, or None
        The points that separate the intervals of a numeric column; they come first among its
        states, single values follow. None: values that are no states are not known.
    n_intervals : int
    n_spare : int
        How many of the last states never occur in data.
    """

    columns: Any
    pieces: Pieces | None = None
    cuts: Any = None
    n_intervals: int = 0
    n_spare: int = 0

    @property
    def n_states(self) -> int | None:
        """The number of states, None for a real variable."""
        return None if self.pieces is None else self.pieces.n

    def alone(self) -> Variable:
        """The variable of a table that has no other columns."""
        return replace(self, columns=np.arange(len(self.columns)))

    def say(self, Z: Any) -> Said:
        """What rows of the data say of the variable; NaN is missing."""
        x = Z[:, self.columns]
        known = ~np.isnan(x)
        observed = known.all(axis=1)
        if self.pieces is None:
            return Said(observed, np.full(len(x), NOT_A_STATE, dtype=np.intp))
        if len(self.columns) == 1:
            state = self.states_of(np.where(observed, x[:, 0], 0.0))
            return Said(observed, np.where(observed, state, NOT_A_STATE))
        return self._say_group(x, known, observed)

    def states_of(self, x: Any) -> Any:
        """The states of values of a single column."""
        pieces: Any = self.pieces
        values = pieces.low[self.n_intervals : pieces.n - self.n_spare, 0]
        state = np.full(len(x), NOT_A_STATE, dtype=np.intp)
        if self.cuts is not None:
            state = np.searchsorted(self.cuts, x, side="right")
        if len(values) and (self.cuts is None or self.n_intervals):
            order = np.argsort(values, kind="stable")
            at = order[np.minimum(np.searchsorted(values[order], x), len(values) - 1)]
            state = np.where(values[at] == x, at + self.n_intervals, state)
        return state

    def fits(self, x: Any) -> Any:
        """How well numbers in the columns fit states: codes by distance, bits by their size.

        (rows, states); those of bits sum to one.
        """
        values: Any = self.pieces.low  # type: ignore[union-attr]
        if x.shape[1] == 1:
            return -np.abs(x - values.T)
        none = values.sum(axis=1) == 0
        return x @ values.T + none * (1.0 - x.sum(axis=1, keepdims=True))

    def _say_group(self, x: Any, known: Any, observed: Any) -> Said:
        bits: Any = self.pieces.low  # type: ignore[union-attr]
        agree = np.ones((len(x), len(bits)), dtype=np.bool_)
        for column in range(x.shape[1]):
            agree &= (x[:, column, None] == bits[:, column]) | ~known[:, column, None]
        agree[~agree.any(axis=1)] = True  # says nothing that the density understands
        state = np.where(observed & ~agree.all(axis=1), agree.argmax(axis=1), NOT_A_STATE)
        partly = ~observed & ~agree.all(axis=1)
        return Said(observed, state, agree if partly.any() else None)


def numeric_variable(column: int, x: Any, n_bins: int) -> Variable:
    """A column of numbers: frequent values are states of their own, the others fall into bins.

    Parameters
    ----------
    column : int
    x : array
        Its values, NaN where they are missing.
    n_bins : int
        The number of states, about; bins have equal counts. A value that would fill two bins is a
        state of its own; if there are no more distinct values than bins, all are.

    Examples
    --------
    >>> numeric_variable(0, np.array([0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 4.0]), 4).pieces.n
    4
    """
    x = x[~np.isnan(x)]
    columns = np.array([column])
    values, counts = np.unique(x, return_counts=True)
    if len(values) <= n_bins:
        values = values if len(values) else np.zeros(1)
        middle = 0.5 * (values[1:] + values[:-1])
        return Variable(columns, Pieces.points(values[:, None]), cuts=middle)
    often = counts * n_bins >= 2 * len(x)
    spikes = values[often]
    rest = x[~np.isin(x, spikes)]
    edges = _edges(rest, max(1, n_bins - len(spikes)))
    low = np.concatenate([edges[:-1], spikes])[:, None]
    high = np.concatenate([edges[1:], spikes])[:, None]
    return Variable(columns, Pieces(low, high), _cuts(edges), len(edges) - 1)


def _edges(x: Any, n_bins: int) -> Any:
    """The ends of bins that hold some values each."""
    edges = np.unique(np.quantile(x, np.linspace(0.0, 1.0, n_bins + 1)))
    if len(edges) == 1:
        return np.repeat(edges, 2)
    place = np.searchsorted(_cuts(edges), x, side="right")
    filled = np.bincount(place, minlength=len(edges) - 1) > 0
    return np.concatenate([edges[:1], edges[1:][filled]])


def _cuts(edges: Any) -> Any:
    """The points that separate bins: a little below their ends, so that these belong to the next.

    Quantiles that are values of the data are so up to rounding, which another unit, or another
    zero, would change.
    """
    slack = SLACK * np.diff(edges)[:-1] + 4.0 * np.finfo(np.float64).eps * np.abs(edges[1:-1])
    return edges[1:-1] - slack


def codes_variable(column: int, values: Any) -> Variable:
    """A column of codes, each of which is a state."""
    return Variable(
        np.array([column]), Pieces.points(np.asarray(values, dtype=np.float64)[:, None])
    )


def group_variable(columns: Sequence[int], bits: Any) -> Variable:
    """Columns that are the bits of one categorical variable."""
    return Variable(np.asarray(columns), Pieces.points(bits))


def completed_groups(variables: Sequence[Variable], Z: Any) -> Any:
    """The data with the bits that follow from the others of their group.

    They are zero if another bit is one, and a last one is one if all others are zero, unless the
    variable has a state without a bit.
    """
    Z = np.array(Z, dtype=np.float64)
    for variable in variables:
        if len(variable.columns) > 1:
            x = Z[:, variable.columns]
            open_, ones = np.isnan(x), x == 1.0
            decided = ones.any(axis=1) & open_.any(axis=1)
            x[decided] = np.where(open_[decided], 0.0, x[decided])
            pieces: Any = variable.pieces
            if pieces.low.any(axis=1).all():
                last = (open_.sum(axis=1) == 1) & (np.nansum(np.abs(x), axis=1) == 0)
                x[last] = open_[last]
            Z[:, variable.columns] = x
    return Z


def check_circuit(circuit: Circuit, variables: Sequence[Variable], what: str) -> list[Variable]:
    """The variables with as many states as the circuit gives them; raises if they do not fit it.

    States that the circuit has beyond those of the data count as the last of these.
    """
    if circuit.n_roots != 1:
        raise DataError(f"{what} must have one root. Got {circuit.n_roots} roots.")
    if circuit.n_variables != len(variables):
        raise DataError(
            f"{what} must be over {len(variables)} variables, one for every column or group of "
            f"columns. Got a circuit over {circuit.n_variables} variables."
        )
    fitted = []
    for i, (variable, cardinality) in enumerate(zip(variables, circuit.cardinalities, strict=True)):
        n = variable.n_states
        if n is None or cardinality is None or cardinality < n:
            columns = variable.columns.tolist()
            wanted = "be real" if n is None else f"have at least {n} states"
            found = "a real variable" if cardinality is None else f"{cardinality} states"
            if n is None and cardinality is None:
                fitted.append(variable)
                continue
            raise DataError(
                f"{what} must fit the data: its variable {i} must {wanted}, as column(s) "
                f"{columns} do. Got {found}."
            )
        pieces = variable.pieces.padded(cardinality)  # type: ignore[union-attr]
        fitted.append(replace(variable, pieces=pieces, n_spare=cardinality - n))
    return fitted
