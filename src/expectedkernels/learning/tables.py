"""Data frames for learning: columns become variables with names and states."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from expectedkernels.checks import check_count
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.frames import column_names, frame_columns, is_frame
from expectedkernels.circuits.labelled import as_table
from expectedkernels.circuits.schema import Schema, frame_schema, joint_column
from expectedkernels.errors import DataError
from expectedkernels.learning.data import refuse_entry

MAX_STATES = 100
"""How many distinct labels a column may have by default."""


@dataclass(frozen=True)
class Coded:
    """Data as codes, and what they stand for.

    Attributes
    ----------
    X, X_valid : as given, or arrays of codes with NaN if they were data frames
    cardinalities : as given, or one int per variable
    schema : Schema, or None
        The names and states of the columns of data frames.
    """

    X: Any
    X_valid: Any
    cardinalities: Any
    schema: Schema | None = None

    def named(self, circuit: Circuit) -> Circuit:
        """The circuit with the names and states of the data."""
        return circuit if self.schema is None else circuit.with_schema(self.schema)


def coded(X: Any, X_valid: Any, cardinalities: Any, max_states: int) -> Coded:
    """The data as codes: the columns of data frames become variables with names and states.

    Text, categories and booleans become states in sorted order, or in that of the categories;
    integers are codes if they start at 0 with few gaps, and labels otherwise.

    Examples
    --------
    >>> import pandas as pd
    >>> data = coded(pd.DataFrame({"sky": ["grey", "blue"], "cylinders": [4, 8]}), None, None, 100)
    >>> data.schema.states, data.X.tolist()
    ((('blue', 'grey'), (4, 8)), [[1.0, 0.0], [0.0, 1.0]])
    """
    check_count("learning from data frames", "max_states", max_states, 2)
    X, X_valid = as_table(X), as_table(X_valid)
    if not is_frame(X):
        return Coded(X, X_valid, cardinalities)
    frames = [frame_columns(table) for table in (X, X_valid) if is_frame(table)]
    names = column_names(X)
    if len(frames) == 2 and [c.name for c in frames[0]] != [c.name for c in frames[1]]:
        plain = Schema((None,) * len(frames[0]), tuple(c.name for c in frames[0]))
        frames[1] = plain.ordered(frames[1], column_names(X_valid), "X_valid")
    if not frames[0]:
        raise DataError("X must have at least one column. Got a data frame without columns.")
    columns = [joint_column([frame[v] for frame in frames]) for v in range(len(frames[0]))]
    given = None if cardinalities is None else _one_each(cardinalities, len(columns))
    schema = frame_schema(columns, names, given, max_states)
    for v, card in enumerate(schema.cardinalities):
        if card is None:
            _refuse_column(columns[v], v)
    parts = [
        np.stack([schema.read_column(v, column) for v, column in enumerate(frame)], axis=1)
        for frame in frames
    ]
    if X_valid is not None and len(parts) == 1 and schema.states is not None:
        raise DataError(
            "X is a data frame with labels, so X_valid must be a data frame, too: the codes of an "
            "array do not say what they stand for."
        )
    return Coded(parts[0], parts[1] if len(parts) > 1 else X_valid, schema.cardinalities, schema)


def _one_each(cardinalities: Any, n: int) -> list[Any]:
    if isinstance(cardinalities, Integral):
        return [int(cardinalities)] * n
    given = list(cardinalities) if isinstance(cardinalities, Iterable) else []
    if len(given) != n:
        raise DataError(
            f"The 'cardinalities' parameter must be a positive int, or one per column, {n} in all. "
            f"Got {cardinalities!r} instead."
        )
    return given


def _refuse_column(column: Any, number: int) -> None:
    """Say why a numeric column holds no states."""
    values = column.values
    seen = ~np.isnan(values)
    if not seen.any():
        raise DataError(
            f"Column {number} ({column.name!r}) of X has no values, so the number of its states is "
            "unknown. Give it with cardinalities=, or drop the column."
        )
    odd = seen & ((values != np.floor(values)) | np.isinf(values))
    row = int(np.flatnonzero(odd)[0])
    refuse_entry(float(values[row]), row, number, "X", {number: column.name})
