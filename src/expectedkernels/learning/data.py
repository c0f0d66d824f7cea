"""Data matrices for learning: rows of integer states, NaN where a value is missing, checked."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from math import frexp, inf, isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.arrays import to_numpy
from expectedkernels.circuits.numbers import refuse_rowless
from expectedkernels.errors import DataError

IntArray = np.ndarray[Any, np.dtype[np.intp]]
FloatArray = np.ndarray[Any, np.dtype[np.float64]]

MISSING = -1
"""The state of a value that is not observed."""
MANY_STATES = 1000
"""A column with larger codes is more likely an identifier or a measurement than a category."""


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
        if not (_is_missing(entry) or isinstance(entry, (Real, np.bool_)))
    ]
    if text:
        # text beside numbers turns a whole array into text: point at an entry that is no number
        row, column, entry = next((item for item in text if not _is_number(item[2])), text[0])
        refuse_entry(entry, row, column, what, names)
    values = [[None if _is_missing(entry) else entry for entry in row] for row in rows.tolist()]
    return np.array(values, dtype=np.float64).reshape(rows.shape)


def _is_missing(entry: Any) -> bool:
    """Whether an object says that there is no value: None, or the NA of pandas."""
    return entry is None or type(entry).__name__ == "NAType"


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
    if not isinstance(entry, (Real, np.bool_)):
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

    Parameters
    ----------
    cardinalities : int, sequence of int, or None
    states, *more : arrays of states with as many columns

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
    cards: Any = cardinalities
    if isinstance(cards, Integral):
        cards = [cards] * n
    cards = list(cards) if np.iterable(cards) else []
    if len(cards) != n or not all(isinstance(c, Integral) and int(c) >= 1 for c in cards):
        raise DataError(
            f"The 'cardinalities' parameter must be a positive int, or one per column, {n} in all. "
            f"Got {cardinalities!r} instead."
        )
    above = np.flatnonzero(largest >= np.asarray(cards))
    if len(above):
        column = int(above[0])
        raise DataError(
            f"Column {column} of {what} must hold integers in 0..{cards[column] - 1}, by its "
            f"cardinality. Got {int(largest[column])}."
        )
    return tuple(int(c) for c in cards)


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
                stacklevel=4,
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
    if n_rows and not 0 < total < inf:
        raise DataError("The 'sample_weight' parameter must have a positive, finite sum. Got 0.")
    unit = 2.0 ** (frexp(total)[1] - 52) if total else 1.0
    return np.round(weights / unit) * unit


def distinct_rows(
    states: IntArray, weights: FloatArray, cardinalities: Sequence[int]
) -> tuple[IntArray, FloatArray, IntArray]:
    """The distinct rows, in the order of their states, the sums of their weights, and the first.

    The last are the numbers that these rows have among the given ones, where they come first.

    Parameters
    ----------
    states : array of shape (rows, variables)
    weights : array of shape (sets, rows)

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
