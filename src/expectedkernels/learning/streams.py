"""Learning from data in chunks: what columns hold, what rows weigh, and counts added up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.evidence import as_evidence
from expectedkernels.circuits.frames import (
    Columns,
    FrameColumn,
    column_names,
    frame_columns,
    is_frame,
)
from expectedkernels.circuits.labelled import as_table
from expectedkernels.circuits.schema import Schema, joint_column
from expectedkernels.circuits.streams import summed
from expectedkernels.errors import DataError
from expectedkernels.learning.data import (
    MISSING,
    IntArray,
    Rows,
    as_cardinalities,
    as_states,
    require_states,
    require_weight,
    rounded_weights,
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
    sample_weight : str, callable or None
        How the weights of rows are found: see `weighed`.
    mean_weight : float
    """

    X: Any
    cardinalities: tuple[int, ...]
    schema: Schema | None
    is_complete: bool
    sample_weight: Any = None
    mean_weight: float = 1.0

    def pair_counts(self) -> PairCounts:
        """How often the states of two variables occur together in all chunks."""
        count = partial(_pair_counts, replace(self, X=None))  # workers need no rows but theirs
        found: PairCounts | None = summed(count, self.X, PairCounts.__add__)
        return used_up() if found is None else found

    def named(self, circuit: Circuit) -> Circuit:
        """The circuit with the names and states of the data."""
        return circuit if self.schema is None else circuit.with_schema(self.schema)


def used_up() -> Any:
    """Raise because there are no chunks any more."""
    raise DataError(
        "Data in chunks are read more than once, and the second time there were none. A "
        "function must return a new iterable every time it is called."
    )


@dataclass(frozen=True, eq=False)
class _Seen:
    """The distinct values of every column, whether some are missing, and what rows weigh."""

    columns: list[FrameColumn]
    names: tuple[str, ...] | None
    is_frame: bool
    is_complete: bool
    n_rows: int
    weight: float


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
    check_weighing(sample_weight)
    seen: _Seen | None = summed(partial(_seen, sample_weight), X, _joined)
    if seen is None:
        raise DataError(f"{name} needs at least one chunk of data. Got none.")
    if seen.n_rows:
        require_weight(seen.weight)
    schema = None
    if seen.is_frame:
        schema = schema_of(seen.columns, seen.names, cardinalities, max_states)
        cards: Any = tuple(schema.cardinalities)
    else:
        width = max(len(column.values) for column in seen.columns)
        states = np.full((width, len(seen.columns)), MISSING, dtype=np.intp)
        for v, column in enumerate(seen.columns):
            states[: len(column.values), v] = column.values
        cards = as_cardinalities(cardinalities, states)
    mean = seen.weight / seen.n_rows if seen.n_rows else 1.0
    return DataInChunks(X, cards, schema, seen.is_complete, sample_weight, mean)


def check_weighing(sample_weight: Any) -> None:
    """Raise unless the weights of rows can be found chunk by chunk."""
    if not (sample_weight is None or isinstance(sample_weight, str) or callable(sample_weight)):
        raise DataError(
            "With data in chunks the 'sample_weight' parameter is the name of a column of data "
            "frames, or a function from a chunk to the weights of its rows. "
            f"Got {type(sample_weight).__name__} instead."
        )


def weighed(sample_weight: str | Callable[[Any], Any] | None, chunk: Any) -> tuple[Any, Any]:
    """A chunk without a column of weights, and the weights of its rows, None if all weigh one.

    Examples
    --------
    >>> import pandas as pd
    >>> rows, weights = weighed("w", pd.DataFrame({"a": [0, 1], "w": [2.0, 0.5]}))
    >>> rows.names, weights.tolist()
    (('a',), [2.0, 0.5])
    """
    chunk = as_table(chunk)
    if sample_weight is None:
        return chunk, None
    if callable(sample_weight):
        return chunk, sample_weight(chunk)
    if not is_frame(chunk):
        raise DataError(
            f"The weights of rows are in the column {sample_weight!r}, and arrays have no names of "
            "columns. Give data frames, or a function from a chunk to weights as 'sample_weight'."
        )
    columns, names = frame_columns(chunk), column_names(chunk)
    own = next((column for column in columns if column.name == sample_weight), None)
    if own is None:
        found = ", ".join(repr(column.name) for column in columns[:20])
        raise DataError(f"There is no column {sample_weight!r} of weights. Columns are {found}.")
    rest = tuple(column for column in columns if column is not own)
    kept = None if names is None else tuple(column.name for column in rest)
    return Columns(rest, kept), own.values


def _seen(sample_weight: Any, chunk: Any) -> _Seen:
    chunk, given = weighed(sample_weight, chunk)
    if not is_frame(chunk):
        states = as_states(chunk, "A chunk")
        columns = [
            FrameColumn(str(v), "number", _codes(column)) for v, column in enumerate(states.T)
        ]
        n, weight = len(states), _weight(given, len(states))
        return _Seen(columns, None, False, not (states == MISSING).any(), n, weight)
    columns = frame_columns(chunk)
    n = len(columns[0].values) if columns else 0
    missing = False
    for v, column in enumerate(columns):
        if column.kind == "number":
            require_states(column, v)
            missing |= bool(np.isnan(column.values).any())
        else:
            missing |= None in column.values
        columns[v] = _distinct(column)
    return _Seen(columns, column_names(chunk), True, not missing, n, _weight(given, n))


def _weight(given: Any, n_rows: int) -> float:
    """What all rows of a chunk weigh."""
    return float(n_rows) if given is None else float(rounded_weights(given, n_rows).sum())


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
    complete, n = a.is_complete and b.is_complete, a.n_rows + b.n_rows
    return _Seen(columns, a.names, a.is_frame, complete, n, a.weight + b.weight)


def _pair_counts(data: DataInChunks, chunk: Any) -> PairCounts:
    chunk, given = weighed(data.sample_weight, chunk)
    if data.schema is not None:
        chunk = data.schema.read_frame(chunk, "A chunk")
    states = as_states(chunk, "A chunk")
    as_cardinalities(data.cardinalities, states, what="a chunk")
    weights = rounded_weights(given, len(states))
    return PairCounts(states, data.cardinalities, weights, data.is_complete)


def chunk_rows(schema: Schema, sample_weight: Any, chunk: Any) -> tuple[int, Rows | None]:
    """The number of rows of a chunk, and those of them that have weights, if any."""
    chunk, given = weighed(sample_weight, chunk)
    evidence = as_evidence(chunk, schema, single=False)
    weights, n = rounded_weights(given, evidence.n_rows), evidence.n_rows
    numbers = np.flatnonzero(weights)
    if not len(numbers):
        return n, None
    some = evidence if len(numbers) == n else evidence.rows(numbers)
    return n, Rows(some, weights[numbers], numbers)


def chunk_moments(schema: Schema, sample_weight: Any, chunk: Any) -> Any:
    """For every variable the number, the mean and the squared deviations of its values."""
    rows = chunk_rows(schema, sample_weight, chunk)[1]
    if rows is None:
        return None
    values = rows.evidence.values
    seen = ~np.isnan(values)
    n = seen.sum(axis=0)
    mean = np.where(seen, values, 0.0).sum(axis=0) / np.maximum(n, 1)
    return np.stack([n, mean, (np.where(seen, values - mean, 0.0) ** 2).sum(axis=0)])


def joint_moments(a: Any, b: Any) -> Any:
    """The moments of two chunks together."""
    n = np.maximum(a[0] + b[0], 1.0)
    shift = b[1] - a[1]
    squares = a[2] + b[2] + shift**2 * a[0] * b[0] / n
    return np.stack([a[0] + b[0], a[1] + shift * b[0] / n, squares])
