"""Data matrices for learning: rows of integer states, NaN where a value is missing, checked."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import frexp, inf, isfinite
from numbers import Real as RealNumber
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.arrays import to_numpy
from expectedkernels.checks import check_count, is_int
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.evidence import Evidence
from expectedkernels.circuits.frames import column_names, frame_columns, is_frame, is_missing
from expectedkernels.circuits.labelled import as_table
from expectedkernels.circuits.numbers import refuse_rowless
from expectedkernels.circuits.schema import Schema, frame_schema, joint_column
from expectedkernels.errors import DataError

IntArray = np.ndarray[Any, np.dtype[np.intp]]
FloatArray = np.ndarray[Any, np.dtype[np.float64]]

MISSING = -1
"""The state of a value that is not observed."""
MANY_STATES = 1000
"""A column with larger codes is more likely an identifier or a measurement than a category."""
MAX_STATES = 100
"""How many distinct labels a column may have by default."""


@dataclass(frozen=True, eq=False)
class Data:
    """Rows to learn from."""

    # (rows, variables): `MISSING` where a value is not observed; the rows for validation come last
    states: IntArray
    # (sets, rows): how much every row counts in the training data, and in the validation data if
    # there is any
    weights: FloatArray
    n_rows: int  # the number of rows of the training data as given
    cardinalities: tuple[int, ...]
    schema: Schema | None = None  # the names and states of the columns of data frames
    first: Any = None  # of distinct rows, where each comes first in the data as given

    @property
    def train(self) -> tuple[IntArray, FloatArray]:
        """The rows of the training data, and their weights."""
        return self.states[: self.n_rows], self.weights[0, : self.n_rows]

    @property
    def mean_weight(self) -> float:
        """The mean weight of the training rows, one if there are none."""
        return float(self.weights[0].sum()) / self.n_rows if self.n_rows else 1.0

    @property
    def is_complete(self) -> bool:
        """Whether no value is missing."""
        return not (self.states == MISSING).any()

    def distinct(self) -> Data:
        """The distinct rows of all sets, with the sums of their weights."""
        rows, weights, first = distinct_rows(self.states, self.weights, self.cardinalities)
        return replace(self, states=rows, weights=weights, first=first)

    def named(self, circuit: Circuit) -> Circuit:
        """The circuit with the names and states of the data."""
        return circuit if self.schema is None else circuit.with_schema(self.schema)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows to learn from: what they say, their weights, and their numbers in the data."""

    evidence: Evidence
    weights: Any
    numbers: Any


def read_data(
    X: Any, X_valid: Any, cardinalities: Any, sample_weight: Any, max_states: int = MAX_STATES
) -> Data:
    """The data as codes: the columns of data frames become variables with names and states.

    Text, categories and booleans become states in sorted order, or in that of the categories;
    integers are codes if they start at 0 with few gaps, and labels otherwise.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"sky": ["grey", "blue"], "cylinders": [4, 8]})
    >>> data = read_data(table, None, None, None)
    >>> data.schema.states, data.states.tolist()
    ((('blue', 'grey'), (4, 8)), [[1, 0], [0, 1]])
    """
    check_count("learning from data frames", "max_states", max_states, 2)
    X, X_valid, schema = as_table(X), as_table(X_valid), None
    if is_frame(X):
        X, X_valid, schema = _codes(X, X_valid, cardinalities, max_states)
        cardinalities = schema.cardinalities
    sets = [as_states(X)] if X_valid is None else [as_states(X), as_states(X_valid, "X_valid")]
    if not len(sets[-1]) and X_valid is not None:
        raise DataError("X_valid must have at least one row, or be None. Got no rows.")
    cards, n = as_cardinalities(cardinalities, *sets), len(sets[0])
    weights = np.zeros((len(sets), sum(map(len, sets))))
    weights[0, :n] = as_weights(sample_weight, n)
    weights[1:, n:] = 1.0
    return Data(np.concatenate(sets), weights, n, cards, schema)


def _codes(
    X: Any, X_valid: Any, cardinalities: Any, max_states: int
) -> tuple[FloatArray, Any, Schema]:
    """Data frames as arrays of codes with NaN, and what these stand for."""
    frames = [frame_columns(table) for table in (X, X_valid) if is_frame(table)]
    if len(frames) == 2 and [c.name for c in frames[0]] != [c.name for c in frames[1]]:
        plain = Schema((None,) * len(frames[0]), tuple(c.name for c in frames[0]))
        frames[1] = plain.ordered(frames[1], column_names(X_valid), "X_valid")
    if not frames[0]:
        raise DataError("X must have at least one column. Got a data frame without columns.")
    columns = [joint_column([frame[v] for frame in frames]) for v in range(len(frames[0]))]
    schema = schema_of(columns, column_names(X), cardinalities, max_states)
    codes, *more = [
        np.stack([schema.read_column(v, column) for v, column in enumerate(frame)], axis=1)
        for frame in frames
    ]
    if X_valid is not None and not more and schema.states is not None:
        raise DataError(
            "X is a data frame with labels, so X_valid must be a data frame, too: the codes of an "
            "array do not say what they stand for."
        )
    return codes, more[0] if more else X_valid, schema


def schema_of(columns: list[Any], names: Any, cardinalities: Any, max_states: int) -> Schema:
    """The schema of columns of states; raises if one holds something else."""
    given = None if cardinalities is None else _one_each(cardinalities, len(columns))
    schema = frame_schema(columns, names, given, max_states)
    for v, card in enumerate(schema.cardinalities):
        if card is None:
            require_states(columns[v], v)
            raise DataError(
                f"Column {v} ({columns[v].name!r}) of X has no values, so the number of its states "
                "is unknown. Give it with cardinalities=, or drop the column."
            )
    return schema


def _one_each(cardinalities: Any, n: int) -> list[int]:
    """One positive number per column."""
    cards: Any = [cardinalities] * n if is_int(cardinalities) else cardinalities
    cards = list(cards) if np.iterable(cards) else []
    if len(cards) != n or not all(is_int(c) and int(c) >= 1 for c in cards):
        raise DataError(
            f"The 'cardinalities' parameter must be a positive int, or one per column, {n} in all. "
            f"Got {cardinalities!r} instead."
        )
    return [int(c) for c in cards]


def require_states(column: Any, number: int) -> None:
    """Raise if a column of numbers holds some that are no states."""
    values = column.values
    odd = ~np.isnan(values) & ((values != np.floor(values)) | np.isinf(values))
    if odd.any():
        row = int(np.flatnonzero(odd)[0])
        refuse_entry(float(values[row]), row, number, "X", {number: column.name})


def as_states(X: Any, what: str = "X") -> IntArray:
    """The entries of a data matrix as integers, `MISSING` for NaN.

    Raises
    ------
    DataError
        If there are not rows and columns of non-negative integers, with the first offending entry
        and what to do about it.

    Examples
    --------
    >>> as_states([[0, 2.0], [float("nan"), 1]]).tolist()
    [[0, 2], [-1, 1]]
    """
    if isinstance(X, (str, bytes)):
        raise DataError(
            f"{what} must be a matrix of shape (rows, variables), one column per variable. "
            f"Got the text {X[:40]!r}; read files first, for instance with read_table."
        )
    refuse_rowless(X, f"{what} must be an array")
    names = getattr(X, "columns", None)
    if sparse.issparse(X):
        X = X.toarray()
    if isinstance(X, np.ma.MaskedArray):  # what is masked is missing
        X = np.where(np.ma.getmaskarray(X), np.array(None), X.data)
    try:
        rows = np.asarray(to_numpy(X) if hasattr(X, "detach") else X)
    except ValueError:
        rows = np.empty(0)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise DataError(
            f"{what} must be a matrix of shape (rows, variables), one column per variable. "
            f"Got shape {rows.shape}."
            + (" A single column is X.reshape(-1, 1), or X.to_frame()." if rows.ndim == 1 else "")
        )
    if rows.dtype.kind in "USO":
        rows = _from_objects(rows, what, names)
    if rows.dtype.kind not in "biuf":
        raise DataError(f"{what} must hold integers 0, 1, 2, ... Got entries of type {rows.dtype}.")
    missing = np.isnan(rows) if rows.dtype.kind == "f" else np.zeros(rows.shape, dtype=np.bool_)
    if rows.dtype == np.float16:  # too short for the comparison with the largest code
        rows = rows.astype(np.float64)
    with np.errstate(invalid="ignore"):
        good = (rows >= 0) & (rows < 2**31)
        if rows.dtype.kind == "f":
            good &= rows == np.floor(rows)
    if not (good | missing).all():
        row, column = (int(i) for i in np.argwhere(~(good | missing))[0])
        refuse_entry(rows[row, column], row, column, what, names)
    return np.where(missing, MISSING, np.where(missing, 0, rows).astype(np.intp))


def _from_objects(rows: Any, what: str, names: Any) -> Any:
    """Numbers that came as Python objects; text is refused."""
    text = [
        (row, column, entry)
        for row, entries in enumerate(rows.tolist())
        for column, entry in enumerate(entries)
        if not (is_missing(entry) or isinstance(entry, (RealNumber, np.bool_)))
    ]
    if text:
        # text beside numbers turns a whole array into text: point at an entry that is no number
        row, column, entry = next((item for item in text if not _is_number(item[2])), text[0])
        refuse_entry(entry, row, column, what, names)
    values = [[None if is_missing(entry) else entry for entry in row] for row in rows.tolist()]
    return np.array(values, dtype=np.float64).reshape(rows.shape)


def _is_number(text: Any) -> bool:
    try:
        float(text)
    except (TypeError, ValueError):
        return False
    return True


def refuse_entry(entry: Any, row: int, column: int, what: str, names: Any) -> None:
    """Say which entry is no state, and what to do about it."""
    place = f"row {row}, column {column}"
    if names is not None:
        place += f" ({names[column]!r})"
    if not isinstance(entry, (RealNumber, np.bool_)):
        found = f"{entry!r}"
        advice = (
            "Encode categories as integers first, for instance with scikit-learn's OrdinalEncoder."
        )
        if _is_number(entry):
            advice = "That is text: convert it to numbers first, for instance by X.astype(float)."
    elif entry < 0:
        found, advice = f"{entry}", "Codes start at 0, and a missing value is written as NaN."
    elif isfinite(float(entry)) and float(entry).is_integer():
        found, advice = f"{entry}", "That is too large for a code of a state."
    else:
        found = f"{entry}"
        advice = (
            "Discretise real values first, for instance with KBinsDiscretizer(encode='ordinal') "
            "of scikit-learn."
        )
    raise DataError(
        f"{what} must hold the states of discrete variables, coded as integers 0, 1, 2, ... "
        f"(NaN: missing). Got {found} in {place}. {advice}"
    )


def as_cardinalities(
    cardinalities: Any, states: IntArray, *more: IntArray, what: str = "X"
) -> tuple[int, ...]:
    """The number of states of every variable: as given, or one more than the largest code.

    An inferred cardinality is at least two, so that a column of zeros is a binary variable whose
    other state was not seen.

    Examples
    --------
    >>> as_cardinalities(None, np.array([[0, 3], [0, 1]]))
    (2, 4)
    """
    n = states.shape[1]
    for other in more:
        if other.shape[1] != n:
            raise DataError(
                f"All data must have the same columns. Got {n} and {other.shape[1]} columns."
            )
    largest = np.max([part.max(axis=0, initial=MISSING) for part in (states, *more)], axis=0)
    if cardinalities is None:
        _warn_of_codes_from_one(states, largest, what)
        return _inferred(largest, what)
    cards = _one_each(cardinalities, n)
    above = np.flatnonzero(largest >= np.asarray(cards))
    if len(above):
        column = int(above[0])
        raise DataError(
            f"Column {column} of {what} must hold integers in 0..{cards[column] - 1}, by its "
            f"cardinality. Got {int(largest[column])}."
        )
    return tuple(cards)


def _warn_of_codes_from_one(states: IntArray, largest: Any, what: str) -> None:
    """Warn if codes look as if they started at 1: no row has the state 0, all others are seen."""
    for column in np.flatnonzero(largest >= 2).tolist():
        seen = np.unique(states[:, column])
        seen = seen[seen != MISSING]
        if len(seen) and seen[0] == 1 and len(seen) == seen[-1]:
            warnings.warn(
                f"Column {column} of {what} holds the codes 1..{int(seen[-1])} and no 0, so state "
                "0 is taken for a state that was not seen. If codes start at 1, subtract one; if "
                "this is meant, give cardinalities=.",
                stacklevel=5,
            )
            return


def _inferred(largest: Any, what: str) -> tuple[int, ...]:
    unseen, many = np.flatnonzero(largest < 0), np.flatnonzero(largest >= MANY_STATES)
    if len(unseen):
        raise DataError(
            f"Column {int(unseen[0])} of {what} has no values, so the number of its states is "
            "unknown. Give it with cardinalities=."
        )
    if len(many):
        raise DataError(
            f"Column {int(many[0])} of {what} holds codes up to {int(largest[many[0]])}. If it is "
            "an identifier or a measurement, drop or discretise it; if it has so many states, "
            "give cardinalities=."
        )
    return tuple(int(c) for c in np.maximum(largest + 1, 2))


def as_weights(sample_weight: Any, n_rows: int) -> FloatArray:
    """The weights of the rows, ones by default, rounded so that their sums are exact.

    They become multiples of a power of two which is so small that nothing is lost against the
    sum of all, and so large that sums of them are exact whatever the order. Flows
    that are equal are then equal to the last bit, and ties are ties.

    Examples
    --------
    >>> as_weights(None, 3).tolist()
    [1.0, 1.0, 1.0]
    """
    weights = rounded_weights(sample_weight, n_rows)
    if n_rows:
        require_weight(float(weights.sum()))
    return weights


def require_weight(total: float) -> None:
    """Raise unless weights have a sum that can be divided by."""
    if not 0 < total < inf:
        raise DataError(
            f"The 'sample_weight' parameter must have a positive, finite sum. Got {total}."
        )


def rounded_weights(sample_weight: Any, n_rows: int) -> FloatArray:
    """What `as_weights` gives, of some rows of all: they may all have the weight zero."""
    if sample_weight is None:
        return np.ones(n_rows)
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"The 'sample_weight' parameter must be {n_rows} numbers, one per row. "
            f"NumPy says: {error}"
        ) from error
    if weights.shape != (n_rows,) or not np.isfinite(weights).all() or (weights < 0).any():
        raise DataError(
            f"The 'sample_weight' parameter must be {n_rows} finite numbers that are not negative, "
            f"one per row. Got an array of shape {weights.shape}"
            + ("." if weights.shape != (n_rows,) else " with other entries.")
        )
    total = float(weights.sum())
    unit = 2.0 ** (frexp(total)[1] - 52) if 0 < total < inf else 1.0
    return np.round(weights / unit) * unit


def distinct_rows(
    states: IntArray, weights: FloatArray, cardinalities: Sequence[int]
) -> tuple[IntArray, FloatArray, IntArray]:
    """The distinct rows, in the order of their states, the sums of their weights, and the first.

    The last are the numbers that these rows have among the given ones, where they come first.
    Weights have shape (sets, rows).

    Examples
    --------
    >>> rows, weights, first = distinct_rows(np.array([[1], [0], [1]]), np.ones((1, 3)), [2])
    >>> rows.tolist(), weights.tolist(), first.tolist()
    ([[0], [1]], [[1.0, 2.0]], [1, 0])
    """
    key = np.zeros(len(states), dtype=np.int64)
    n_keys = 1
    for column, cardinality in zip(states.T, cardinalities, strict=True):
        if n_keys * (cardinality + 1) >= 2**62:
            distinct, key = np.unique(key, return_inverse=True)
            n_keys = max(len(distinct), 1)
        key = key * (cardinality + 1) + (column - MISSING)
        n_keys *= cardinality + 1
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    sums = [np.bincount(place, w, minlength=len(first)) for w in weights]
    return states[first], np.stack(sums), first
