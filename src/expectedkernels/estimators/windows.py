"""Windows of data over the same columns: read together, and fitted on one structure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from expectedkernels.circuits.bins import binned
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.evidence import as_evidence
from expectedkernels.circuits.frames import (
    FrameColumn,
    array_column,
    column_names,
    frame_columns,
    is_frame,
)
from expectedkernels.circuits.labelled import as_table
from expectedkernels.circuits.schema import Schema, joint_column
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES
from expectedkernels.errors import DataError
from expectedkernels.learning.chow_liu import EM_ITERATIONS, EM_TOLERANCE, content_tree
from expectedkernels.learning.data import MAX_STATES
from expectedkernels.learning.em import chunks_of, em, expected_counts, maximized


@dataclass(frozen=True, eq=False)
class Windows:
    """Rows of several windows as states, and the circuit of all of them together.

    Attributes
    ----------
    states : array of shape (rows, variables)
        One window after the other, NaN where a value is missing.
    sizes : tuple of int
        The number of rows of every window.
    schema : Schema
    pooled : Circuit
        Learned from all rows. Equal units are kept apart: they may differ in a window.
    pseudocount : float
    """

    states: Any
    sizes: tuple[int, ...]
    schema: Schema
    pooled: Circuit
    pseudocount: float

    @cached_property
    def starts(self) -> Any:
        """Where every window begins, and where the last one ends."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    def rows(self, window: int) -> Any:
        """The states of the rows of a window."""
        return self.states[self.starts[window] : self.starts[window + 1]]

    def empty(self, window: int) -> list[Any]:
        """The names, or numbers, of columns that have no value in a window."""
        names = self.schema.names or range(self.schema.n_variables)
        return [names[v] for v in np.flatnonzero(np.isnan(self.rows(window)).all(axis=0))]

    def fitted(self, window: int) -> Circuit:
        """The circuit with the most likely parameters for a window, up to the pseudocount."""
        rows = self.rows(window)
        iterations = EM_ITERATIONS if np.isnan(rows).any() else 1
        return em(
            self.pooled,
            rows,
            iterations,
            pseudocount=self.pseudocount,
            tolerance=EM_TOLERANCE,
            progress=False,
        )

    @cached_property
    def _evidence(self) -> tuple[Any, Any, Any]:
        evidence = as_evidence(self.states, self.pooled.schema, single=False)
        chunks = chunks_of(self.pooled, evidence, DEFAULT_MAX_BYTES)
        return evidence, chunks, self._counts(evidence, chunks, np.ones(len(self.states)))

    def _counts(self, evidence: Any, chunks: Any, weights: Any) -> Any:
        return expected_counts(self.pooled, evidence, weights, chunks)[1]

    def divided(self, first: Any) -> tuple[Circuit, Circuit]:
        """The circuits of the rows that a mask chooses, and of the others, by one step of EM.

        For complete rows they are the most likely ones. Expected counts add up over rows, so
        those of the others are what is left.
        """
        evidence, chunks, whole = self._evidence
        chosen = self._counts(evidence, chunks, np.asarray(first, dtype=np.float64))
        rest = [
            None if a is None else tuple(np.maximum(x - y, 0.0) for x, y in zip(a, b, strict=True))
            for a, b in zip(whole, chosen, strict=True)
        ]
        one, other = (maximized(self.pooled, x, self.pseudocount) for x in (chosen, rest))
        return one, other


def read_windows(tables: Sequence[Any], n_bins: int, pseudocount: float) -> Windows:
    """Windows of rows, read by the values that they have together.

    Labels, and numbers of which there are few, are states; other numbers are divided into bins
    with equal shares of all rows.
    """
    parts, names = _columns_of([as_table(table) for table in tables])
    sizes = tuple(len(columns[0].values) for columns in parts)
    if min(sizes) < 2:
        raise DataError(
            f"Every window needs at least two rows. Window {sizes.index(min(sizes)) + 1} has "
            f"{min(sizes)}."
        )
    found = [_states(joint_column(column), n_bins) for column in zip(*parts, strict=True)]
    states = np.stack([codes for codes, _ in found], axis=1)
    schema = Schema(
        tuple(len(labels) for _, labels in found), names, tuple(labels for _, labels in found)
    )
    cards = [len(labels) for _, labels in found]
    pooled = content_tree(states, cards, names, pseudocount).with_schema(schema)
    return Windows(states, sizes, schema, pooled, pseudocount)


def _columns_of(tables: Sequence[Any]) -> tuple[list[list[FrameColumn]], Any]:
    """The columns of every table in the order of the first, and their names."""
    parts: list[list[FrameColumn]] = []
    plain = None
    for number, table in enumerate(tables):
        columns, names = _columns(table, number + 1)
        if plain is None:
            plain = Schema((None,) * len(columns), names)
        else:
            columns = plain.ordered(columns, names, f"Window {number + 1}")
        parts.append(columns)
    return parts, None if plain is None else plain.names


def _columns(table: Any, number: int) -> tuple[list[FrameColumn], Any]:
    if is_frame(table):
        columns, names = frame_columns(table), column_names(table)
    else:
        array = np.asarray(table)
        if isinstance(table, np.ma.MaskedArray):  # what is masked is missing
            array = np.where(np.ma.getmaskarray(table), np.array(None), array)
        if array.ndim != 2:
            raise DataError(
                "A window is a data frame, or an array of shape (rows, columns). Window "
                f"{number} has shape {array.shape}."
            )
        columns, names = [array_column(str(i), x) for i, x in enumerate(array.T)], None
    if not columns:
        raise DataError(f"Window {number} has no columns.")
    return columns, names


def _states(column: FrameColumn, n_bins: int) -> tuple[Any, tuple[Any, ...]]:
    """The states of a column, NaN where it has no value, and their labels: at least two."""
    labels = column.distinct
    if not labels:
        raise DataError(
            f"Column {column.name!r} has no value in any window. Leave it out of all of them."
        )
    if column.kind == "number" and len(labels) > n_bins:
        if np.isinf(column.values).any():
            raise DataError(
                f"Column {column.name!r} has infinite values. Put NaN for what is not known."
            )
        column = binned(column, n_bins)
        labels = column.distinct
    if len(labels) > MAX_STATES:
        raise DataError(
            f"Column {column.name!r} has {len(labels)} different labels, which are too many for "
            "states. If it is an identifier, leave it out; else put labels together."
        )
    if len(labels) == 1:
        labels = [*labels, "another value"]
    codes = {label: float(code) for code, label in enumerate(labels)}
    values = column.values.tolist() if column.kind == "number" else column.values
    return np.asarray([codes.get(x, np.nan) for x in values]), tuple(labels)
