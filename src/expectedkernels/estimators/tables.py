"""Reading tables: arrays and data frames of pandas and polars, whose entries may be missing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from expectedkernels.errors import DataError

NUMBERS: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
"""What columns of numbers must be."""
ADVICE = "Convert it, or name the column in categorical_features."
NO_NUMBER = re.compile(r"could not convert string|must be a string or a real number")
NAMELESS = (
    " Text columns of data frames are categories by themselves: behind a ColumnTransformer, "
    "set_output(transform='pandas') keeps the types of columns."
)


def is_missing(entry: Any) -> bool:
    """Whether an entry of a table stands for nothing: None, NaN, or pandas' NA."""
    if entry is None or type(entry).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(entry, (float, np.floating)) and entry != entry


def is_polars(X: Any) -> bool:
    """Whether a table is a data frame of polars (which need not be installed)."""
    return type(X).__module__.partition(".")[0] == "polars" and hasattr(X, "schema")


def is_frame(X: Any) -> bool:
    """Whether a table is a data frame of pandas or polars."""
    return is_polars(X) or (hasattr(X, "iloc") and hasattr(X, "columns"))


def as_frame(X: Any) -> Any:
    """A table as one of those that are read below; raises if it looks like one and is none.

    Tables of pyarrow become data frames of pandas, and what a masked array hides is missing.
    """
    kind = type(X)
    if hasattr(kind, "column_names") and hasattr(kind, "to_pandas"):
        X = X.to_pandas()
    if isinstance(X, np.ma.MaskedArray):
        X = np.where(np.ma.getmaskarray(X), np.nan, X.data)
    first = X[0] if isinstance(X, (list, tuple)) and X else X
    if isinstance(first, Mapping) and not hasattr(first, "shape"):  # as some sparse matrices are
        raise DataError(
            "X must be an array or a data frame, and rows by names are neither. A list of them "
            "becomes one by pandas.DataFrame(rows)."
        )
    if hasattr(kind, "collect_schema") and hasattr(kind, "collect"):
        raise DataError(f"X is a {kind.__name__}, without rows yet. Give X.collect().")
    if is_frame(X):
        twice = [name for name, count in Counter(X.columns).items() if count > 1]
        if twice:
            raise DataError(
                f"The names of columns must be distinct. {twice[0]!r} is the name of several: "
                "rename them, or leave them out."
            )
    return X


def refuse_series(X: Any) -> None:
    """Raise if a table is a single column of pandas or polars."""
    series = hasattr(X, "iloc") and not hasattr(X, "columns")
    series |= type(X).__module__.partition(".")[0] == "polars" and not hasattr(X, "columns")
    if series:
        raise DataError(
            f"Expected 2D array, got 1D array instead: a {type(X).__name__} of {len(X)} entries. "
            "Reshape your data: X.to_frame() is a table of one column; a single row of a data "
            "frame is frame.iloc[[i]], with two pairs of brackets."
        )


def column_names(X: Any) -> list[Any] | None:
    """The names of the columns of a data frame."""
    return list(X.columns) if is_frame(X) else None


def n_columns(estimator: Any, X: Any) -> int:
    """The number of columns of a table."""
    return len(X.columns) if is_frame(X) else int(_objects(estimator, X).shape[1])


def by_dtype(X: Any) -> list[int]:
    """The columns of a data frame that hold categories by their type: these, text, or bool."""
    refuse_series(X)
    if is_polars(X):
        types = enumerate(X.dtypes)
        return [i for i, x in types if is_category(x) or str(x) in ("String", "Boolean")]
    if not is_frame(X):
        return []
    return [i for i, dtype in enumerate(X.dtypes) if _is_categorical(X, i, dtype)]


def is_category(dtype: Any) -> bool:
    """Whether a type of pandas or polars is one of categories."""
    return str(dtype).partition("(")[0] in ("category", "Categorical", "Enum")


def _is_categorical(X: Any, i: int, dtype: Any) -> bool:
    if is_category(dtype) or getattr(dtype, "type", None) in (str, bool, np.bool_):
        return True
    if str(dtype) != "object":
        return False
    present = [entry for entry in X.iloc[:, i].tolist() if not is_missing(entry)]
    return bool(present) and all(isinstance(x, (str, bool, np.bool_)) for x in present)


def read_table(estimator: Any, X: Any, categorical: Sequence[int], *, reset: bool) -> list[Any]:
    """The columns of a table: numbers, and objects where they are categorical."""
    refuse_series(X)
    if not categorical:
        Z = checked(X, lambda x: validate_data(estimator, x, reset=reset, **NUMBERS))
        return list(Z.T)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    objects = None if is_frame(X) else _objects(estimator, X)
    n = len(X.columns) if objects is None else objects.shape[1]
    numeric = [i for i in range(n) if i not in set(categorical)]
    columns: list[Any] = [None] * n
    for i in categorical:
        columns[i] = _entries(X, i) if objects is None else objects[:, i]
    if numeric:
        part = _part(X, numeric) if objects is None else objects[:, numeric]
        Z = checked(part, lambda x: check_array(x, estimator=estimator, input_name="X", **NUMBERS))
        for i, column in zip(numeric, Z.T, strict=True):
            columns[i] = column
    return columns


def _objects(estimator: Any, X: Any) -> Any:
    """A table that is no data frame as an array of objects."""
    refuse_series(X)
    return check_array(
        X, dtype=object, ensure_all_finite=False, estimator=estimator, input_name="X"
    )


def _entries(X: Any, i: int) -> Any:
    """A column of a data frame as an array of objects."""
    if is_polars(X):
        entries = np.empty(len(X), dtype=object)
        entries[:] = X.get_column(X.columns[i]).to_list()
        return entries
    return np.asarray(X.iloc[:, i].astype(object), dtype=object)


def _part(X: Any, columns: list[int]) -> Any:
    """Some columns of a data frame."""
    if is_polars(X):
        return X.select([X.columns[i] for i in columns])
    return X.iloc[:, columns]


def checked(X: Any, check: Callable[[Any], Any], advice: str | None = None) -> Any:
    """The checked numbers; text and dates are refused with their place."""
    refuse_series(X)
    X = _without_missing_objects(X)
    if advice is None:
        advice = ADVICE if is_frame(X) else ADVICE + NAMELESS
    dates = [name for name, dtype in _dtypes(X) if _is_date(dtype)]
    if dates:
        raise DataError(f"Column {dates[0]!r} holds dates, where numbers are expected. {advice}")
    try:
        return check(X)
    except (ValueError, TypeError) as error:
        if "contains infinity" in str(error):
            raise DataError(f"{error} {_first_infinite(X)}") from error
        place = _first_other(X) if NO_NUMBER.search(str(error)) else None
        if place is None or (isinstance(error, TypeError) and not _is_time(place[2])):
            raise
        row, name, entry = place
        what = f"text, {entry!r}" if isinstance(entry, str) else f"a {type(entry).__name__}"
        raise DataError(
            f"Column {name!r} holds {what} in row {row}, where numbers are expected. {advice}"
        ) from error


def _dtypes(X: Any) -> list[tuple[Any, Any]]:
    """The names and types of the columns of a data frame."""
    return list(zip(X.columns, X.dtypes, strict=True)) if is_frame(X) else []


def _is_date(dtype: Any) -> bool:
    if getattr(dtype, "kind", "") in ("m", "M"):
        return True
    return str(dtype).partition("(")[0] in ("Date", "Datetime", "Duration", "Time")


def _without_missing_objects(X: Any) -> Any:
    """Columns of objects with NaN for whatever stands for a missing value."""
    if hasattr(X, "iloc"):
        kinds = [i for i, dtype in enumerate(X.dtypes) if str(dtype) == "object"]
        if not any(X.iloc[:, i].isna().any() for i in kinds):
            return X
        X = X.copy()
        for i in kinds:
            column = X.iloc[:, i]
            X[X.columns[i]] = column.where(~column.isna(), np.nan)
        return X
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 2:
        missing = [[is_missing(entry) for entry in row] for row in X.tolist()]
        return np.where(np.asarray(missing, dtype=np.bool_).reshape(X.shape), np.nan, X)
    return X


def _is_time(entry: Any) -> bool:
    """Whether an entry is a date, a time, or a period of time."""
    return hasattr(entry, "isoformat") or hasattr(entry, "start_time")


def _first_other(X: Any) -> tuple[int, Any, Any] | None:
    """Row, column and entry of the first entry that is no number."""
    names = column_names(X)
    for row, entries in enumerate(np.asarray(X, dtype=object).tolist()):
        for column, entry in enumerate(entries):
            try:
                float(np.nan if is_missing(entry) else entry)
            except (ValueError, TypeError):
                return row, column if names is None else names[column], entry
    return None


def _first_infinite(X: Any) -> str:
    """Where the first infinite number is, in words."""
    names = column_names(X)
    numbers = np.asarray(X, dtype=np.float64)
    found = np.argwhere(np.isinf(numbers))
    if not len(found):
        return "Rescale the column."
    row, column = (int(i) for i in found[0])
    name = column if names is None else names[column]
    return f"The first is in row {row}, column {name!r}. Put NaN for what is not known."


def read_target(estimator: Any, X: Any, y: Any, multi_output: bool = False) -> Any:
    """The checked numeric target."""
    if y is None:
        validate_data(estimator, X, y, reset=False, skip_check_array=True)  # which says what to do
    refuse_missing_targets(y)
    refuse_dates(y)
    checks = {"input_name": "y", "estimator": estimator, "ensure_2d": False, "dtype": "numeric"}
    y = check_array(y, **checks)
    if not multi_output:
        y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    return y.astype(np.float64)


def read_labels(estimator: Any, X: Any, y: Any) -> Any:
    """The checked classes of rows."""
    if y is None:
        validate_data(estimator, X, y, reset=False, skip_check_array=True)  # which says what to do
    refuse_missing_targets(y)
    y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    check_consistent_length(X, y)
    return y


def refuse_dates(y: Any) -> None:
    """Raise if targets are dates, which would be read as numbers of nanoseconds."""
    entries = np.asarray(y)
    first = entries.reshape(-1)[0] if entries.dtype == object and entries.size else None
    if entries.dtype.kind in "mM" or hasattr(first, "isoformat"):
        raise DataError(
            "Input y holds dates, where numbers are expected. Convert them, for example to days "
            "since the first one."
        )


def refuse_missing_targets(y: Any) -> None:
    """Raise if a row has no target: a density knows what columns could be, but not targets."""
    if isinstance(y, np.ma.MaskedArray):
        y = np.where(np.ma.getmaskarray(y), np.nan, y.data.astype(object))
    entries = np.asarray(y)
    if entries.dtype.kind not in "fO" or entries.ndim not in (1, 2):
        return
    if entries.dtype.kind == "f":
        missing = np.isnan(entries)
    else:
        flat = [is_missing(entry) for entry in entries.reshape(-1).tolist()]
        missing = np.array(flat, dtype=np.bool_).reshape(entries.shape)
    missing = missing.reshape(len(entries), -1).any(axis=1)
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise DataError(
            f"Input y contains NaN: {int(missing.sum())} of {len(missing)} rows have no target, "
            f"the first is row {row}. Only X may have missing values; leave these rows out."
        )
