"""Arrays of numbers, of whatever library: read as floats, or refused with what they are instead."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.arrays import has_gradient, to_numpy
from expectedkernels.circuits.frames import is_missing
from expectedkernels.errors import DataError

ARRAYS = "Points and evidence must be arrays"
FRAMES = (
    "Labels are read from data frames: pandas.DataFrame(X, columns=...), with the names of the "
    "variables."
)
LIKE_NUMBER = re.compile(r"[^\w\s]{0,2}\s*\d[\d.,'\s]*(e[+-]?\d+|[^\d\s]{0,8})", re.IGNORECASE)
"""What people take for a number: it may have separators, a currency and a unit."""


def look_numeric(words: Sequence[Any]) -> bool:
    """Whether all words of a column begin like numbers, as with thousands apart or with units.

    Examples
    --------
    >>> look_numeric(["1,234", "12 kg", "$ 5"]), look_numeric(["2024-01-02"])
    (True, False)
    """
    return bool(words) and all(LIKE_NUMBER.fullmatch(str(word)) for word in words)


def as_floats(rows: Any, what: str = ARRAYS) -> Any:
    """The rows as an array of floats; what a masked array hides is missing.

    Text is no number, not even if it consists of digits: it may be the label of a state.

    Examples
    --------
    >>> as_floats([[0, None], [1, 2]]).tolist()
    [[0.0, nan], [1.0, 2.0]]
    """
    if sparse.issparse(rows):
        _refuse("a sparse matrix", "Make it dense: X.toarray().", what)
    refuse_rowless(rows, what)
    if isinstance(rows, (str, bytes)):
        _refuse(f"the text {rows[:40]!r}", "Read files first, for instance with read_table.", what)
    if has_gradient(rows):
        _refuse("a tensor that gradients are asked for", "They are not followed: x.detach().", what)
    if hasattr(rows, "__array_namespace__") or hasattr(rows, "detach"):
        rows = to_numpy(rows)
    try:
        if isinstance(rows, np.ma.MaskedArray):
            return _unmasked(rows, what)
        array = np.asarray(rows)
        _check_kind(array, what)
        if array.dtype.kind == "O":
            array = _checked_objects(array, rows, what)
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{what} of numbers, with NaN for what is missing, and as many entries in every "
            f"row. NumPy says: {error}"
        ) from error


def refuse_rowless(X: Any, what: str = ARRAYS) -> None:
    """Raise if an object has no rows, or not yet: generators, mappings, lazy data frames."""
    frame = "Give a data frame: pandas.DataFrame(X)."
    for method in ("collect", "compute"):
        if hasattr(type(X), method) and hasattr(type(X), "columns"):
            found = f"a {type(X).__name__}, which holds no rows yet"
            _refuse(found, f"Call X.{method}().", what)
    if isinstance(X, Iterator):
        _refuse(f"a {type(X).__name__}", "Make a list of it: list(X).", what)
    if isinstance(X, Mapping):
        _refuse(f"a mapping (of type {type(X).__name__})", frame, what)
    if isinstance(X, (list, tuple)) and len(X) and isinstance(X[0], Mapping):
        _refuse("a list of mappings", frame, what)
    if getattr(getattr(X, "dtype", None), "names", None) is not None:
        _refuse("records with named fields", frame, what)


def _unmasked(rows: Any, what: str) -> Any:
    _check_kind(rows, what)
    return np.where(np.ma.getmaskarray(rows), np.nan, rows.astype(np.float64).filled(np.nan))


def _refuse(found: str, advice: str, what: str = ARRAYS) -> None:
    message = f"{what} of numbers, with NaN for what is missing. Got {found}. {advice}"
    raise DataError(message.rstrip())


def _check_kind(array: Any, what: str) -> None:
    """Raise if NumPy would make numbers of what is none."""
    kind = array.dtype.kind
    if kind in "USaT":
        _refuse(f"text, {_first(array)!r}", FRAMES if what == ARRAYS else "", what)
    if kind == "c":
        _refuse(f"complex numbers, {_first(array)!r}", "Give their real parts, X.real.", what)
    if kind in "mM":
        _refuse("dates or durations", "Convert them to numbers of the unit that you mean.", what)


def _first(array: Any) -> Any:
    return array.reshape(-1)[0].item() if array.size else ""


def _checked_objects(array: Any, given: Any, what: str) -> Any:
    """Python objects that are numbers or missing; others are refused."""
    if array.ndim == 0 and given is not None:
        found = f"an object of type {type(given).__qualname__}"
        _refuse(found, "Give an array of shape (rows, variables)." if what == ARRAYS else "", what)
    entries = array.reshape(-1).tolist()
    for entry in entries:
        if isinstance(entry, (str, bytes)):
            _refuse(f"text, {entry!r}", FRAMES if what == ARRAYS else "", what)
        if isinstance(entry, complex):
            _refuse(f"complex numbers, {entry!r}", "Give their real parts.", what)
    numbers = [np.nan if is_missing(entry) else entry for entry in entries]
    return np.asarray(numbers, dtype=np.float64).reshape(array.shape)
