"""Learning from data in chunks: what columns hold, and counts of chunks added up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.frames import FrameColumn, column_names, frame_columns, is_frame
from expectedkernels.circuits.labelled import as_table
from expectedkernels.circuits.schema import Schema, joint_column
from expectedkernels.circuits.streams import summed
from expectedkernels.errors import DataError
from expectedkernels.learning.data import (
    MISSING,
    IntArray,
    as_cardinalities,
    as_states,
    require_states,
    schema_of,
)
from expectedkernels.learning.statistics import PairCounts

MOST_DISTINCT = 100_000
"""A column with more distinct values holds no states."""


@dataclass(frozen=True, eq=False)
class DataInChunks:
    """Rows to learn from that are read chunk by chunk.

    Attributes
    ----------
    X : object
        Where they come from.
    cardinalities : tuple of int
    schema : Schema or None
        The names and states of the columns of data frames.
    is_complete : bool
        Whether no value is missing.
    """

    X: Any
    cardinalities: tuple[int, ...]
    schema: Schema | None
    is_complete: bool

    def pair_counts(self) -> PairCounts:
        """How often the states of two variables occur together in all chunks."""
        count = partial(_pair_counts, self.cardinalities, self.schema, self.is_complete)
        found: PairCounts | None = summed(count, self.X, PairCounts.__add__)
        if found is None:
            raise DataError(
                "Data in chunks are read more than once, and the second time there were none. A "
                "function must return a new iterable every time it is called."
            )
        return found

    def named(self, circuit: Circuit) -> Circuit:
        """The circuit with the names and states of the data."""
        return circuit if self.schema is None else circuit.with_schema(self.schema)


@dataclass(frozen=True, eq=False)
class _Seen:
    """The distinct values of every column, and whether some are missing."""

    columns: list[FrameColumn]
    names: tuple[str, ...] | None
    is_frame: bool
    is_complete: bool


def read_chunks(
    X: Any, cardinalities: Any, sample_weight: Any, max_states: int, name: str
) -> DataInChunks:
    """What columns of data in chunks hold, by one pass over them.

    Examples
    --------
    >>> data = read_chunks(lambda: [[[0, 2]], [[1, float("nan")]]], None, None, 100, "learn")
    >>> data.cardinalities, data.is_complete
    ((2, 3), False)
    """
    if sample_weight is not None:
        raise DataError(
            f"{name} takes no 'sample_weight' with data in chunks. Give arrays or a data frame."
        )
    seen: _Seen | None = summed(_seen, X, _joined)
    if seen is None:
        raise DataError(f"{name} needs at least one chunk of data. Got none.")
    if seen.is_frame:
        schema = schema_of(seen.columns, seen.names, cardinalities, max_states)
        return DataInChunks(X, tuple(schema.cardinalities), schema, seen.is_complete)  # type: ignore[arg-type]
    width = max(len(column.values) for column in seen.columns)
    states = np.full((width, len(seen.columns)), MISSING, dtype=np.intp)
    for v, column in enumerate(seen.columns):
        states[: len(column.values), v] = column.values
    return DataInChunks(X, as_cardinalities(cardinalities, states), None, seen.is_complete)


def _seen(chunk: Any) -> _Seen:
    chunk = as_table(chunk)
    if not is_frame(chunk):
        states = as_states(chunk, "A chunk")
        columns = [
            FrameColumn(str(v), "number", _codes(column)) for v, column in enumerate(states.T)
        ]
        return _Seen(columns, None, False, not (states == MISSING).any())
    columns = frame_columns(chunk)
    missing = False
    for v, column in enumerate(columns):
        if column.kind == "number":
            require_states(column, v)
            missing |= bool(np.isnan(column.values).any())
        else:
            missing |= None in column.values
        columns[v] = _distinct(column)
    return _Seen(columns, column_names(chunk), True, not missing)


def _distinct(column: FrameColumn) -> FrameColumn:
    """The column with every value once, and none that is missing."""
    if column.kind != "number":
        labels = [x for x in dict.fromkeys(column.values) if x is not None]
        return FrameColumn(column.name, column.kind, labels, column.categories)
    x = column.values[~np.isnan(column.values)]
    small = bool(len(x)) and x.min() >= 0 and x.max() < MOST_DISTINCT
    values = _codes(x.astype(np.intp)).astype(np.float64) if small else np.unique(x)
    return FrameColumn(column.name, "number", values)


def _codes(column: IntArray) -> IntArray:
    """The distinct codes of a column."""
    if not len(column) or column.max() >= MOST_DISTINCT:
        found = np.unique(column)
        return found[found != MISSING]
    return np.flatnonzero(np.bincount(column + 1)[1:])


def _joined(a: _Seen, b: _Seen) -> _Seen:
    """What two chunks hold together."""
    if a.is_frame != b.is_frame or len(a.columns) != len(b.columns):
        raise DataError(
            "All chunks must be data frames, or all arrays, with the same columns. Got chunks of "
            f"{len(a.columns)} and {len(b.columns)} columns."
        )
    others = b.columns
    if a.is_frame:
        plain = Schema((None,) * len(others), tuple(column.name for column in a.columns))
        others = plain.ordered(others, b.names, "A chunk")
    columns = [_distinct(joint_column(pair)) for pair in zip(a.columns, others, strict=True)]
    for column in columns:
        if len(column.values) > MOST_DISTINCT:
            raise DataError(
                f"The column {column.name!r} has more than {MOST_DISTINCT} distinct values, which "
                "are no states. Drop or bin it."
            )
    return _Seen(columns, a.names, a.is_frame, a.is_complete and b.is_complete)


def _pair_counts(
    cardinalities: tuple[int, ...], schema: Schema | None, is_complete: bool, chunk: Any
) -> PairCounts:
    chunk = as_table(chunk)
    if schema is not None:
        chunk = schema.read_frame(chunk, "A chunk")
    states = as_states(chunk, "A chunk")
    as_cardinalities(cardinalities, states, what="a chunk")
    return PairCounts(states, cardinalities, np.ones(len(states)), is_complete)
