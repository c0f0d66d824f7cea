"""Data frames of pandas, polars and pyarrow: their columns as numbers or labels, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any

import numpy as np

from expectedkernels.errors import CircuitError, DataError

Label = str | int | float | bool
"""How people call a state."""


def is_frame(X: Any) -> bool:
    """Whether an object is a table with named columns.

    Examples
    --------
    >>> is_frame(np.zeros((2, 2))), is_frame([[0, 1]])
    (False, False)
    """
    if isinstance(X, (np.ndarray, list, tuple, dict)) or X is None:
        return False
    if isinstance(X, Columns):
        return True
    kind = type(X)  # asking the object itself may compute the columns of a lazy one
    if not (hasattr(kind, "columns") or hasattr(kind, "column_names")):
        return False
    import narwhals.stable.v1 as nw

    return bool(nw.dependencies.is_into_dataframe(X))


@dataclass(frozen=True, eq=False)
class FrameColumn:
    """One column of a data frame.

    Attributes
    ----------
    name : str
    kind : "number", "bool" or "label"
    values : float array with NaN (numbers), or list with None for what is missing
    categories : list, or None
        What a categorical column may hold, in its order.
    """

    name: str
    kind: str
    values: Any
    categories: list[Label] | None = None

    @cached_property
    def distinct(self) -> list[Label]:
        """What the column holds, sorted, without what is missing; categories in their order."""
        if self.categories is not None:
            return self.categories
        if self.kind == "number":
            found = np.unique(self.values[~np.isnan(self.values)]).tolist()
            return [int(x) if float(x).is_integer() else x for x in found]
        present = {value for value in self.values if value is not None}
        return sorted(present, key=lambda value: (isinstance(value, str), value))


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns that were collected from elsewhere, read like a data frame.

    Attributes
    ----------
    columns : tuple of FrameColumn
    names : tuple of str, or None
        None if columns are only numbered.
    """

    columns: tuple[FrameColumn, ...]
    names: tuple[str, ...] | None

    def __len__(self) -> int:
        return len(self.columns[0].values) if self.columns else 0


def frame_columns(X: Any) -> list[FrameColumn]:
    """The columns of a data frame."""
    if isinstance(X, Columns):
        return list(X.columns)
    import narwhals.stable.v1 as nw

    try:
        frame = nw.from_native(X, eager_only=True)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"A data frame must be held in memory and have distinct column names. {error}"
        ) from error
    return [_read(nw, _called(series.name), series) for series in frame.iter_columns()]


def array_column(name: str, values: Any) -> FrameColumn:
    """An array of numbers, labels or both as a column.

    Examples
    --------
    >>> array_column("rain", np.array(["no", None], dtype=object)).values
    ['no', None]
    """
    array = np.asarray(values)
    if array.dtype == np.bool_:
        return FrameColumn(name, "bool", array.tolist())
    if array.dtype.kind in "iuf":
        return FrameColumn(name, "number", array.astype(np.float64))
    return _by_values(name, _without_missing(array.tolist()))


def column_names(X: Any) -> tuple[str, ...] | None:
    """The names of the columns of a frame, None if they are numbered 0, 1, ... in this order."""
    if isinstance(X, Columns):
        return X.names
    names = list(X.column_names if hasattr(X, "column_names") else X.columns)
    return None if names == list(range(len(names))) else tuple(map(_called, names))


def column_numbers(chosen: Any, names: Sequence[Any] | None, n: int, parameter: str) -> list[int]:
    """The numbers of columns given by numbers, names, or a mask with a bool for each of them.

    Examples
    --------
    >>> column_numbers(["b", 0], ["a", "b"], 2, "columns")
    [0, 1]
    """
    keys: list[Any] = [chosen] if isinstance(chosen, (str, int)) else list(chosen)
    if keys and all(isinstance(x, (bool, np.bool_)) for x in keys):
        if len(keys) != n:
            raise DataError(
                f"The {parameter!r} parameter as a mask needs {n} entries. Got {len(keys)}."
            )
        return [int(i) for i in np.flatnonzero(keys)]
    return sorted(column_number(x, names, n, parameter) for x in keys)


def column_number(x: Any, names: Sequence[Any] | None, n: int, parameter: str) -> int:
    """The number of a column given by number or name."""
    if isinstance(x, str):
        if names is None or x not in names:
            raise DataError(
                f"The {parameter!r} parameter names the column {x!r}, which X does not have."
            )
        return names.index(x)
    if not isinstance(x, (int, np.integer)) or not 0 <= x < n:
        raise DataError(
            f"The {parameter!r} parameter must name columns, or their numbers in 0..{n - 1}. "
            f"Got {x!r} instead."
        )
    return int(x)


def _called(name: Any) -> str:
    """The name of a column as text; several levels are joined as a tuple of plain values."""
    if isinstance(name, tuple):
        name = tuple(x.item() if isinstance(x, np.generic) else x for x in name)
    return str(name)


def _read(nw: Any, name: str, series: Any) -> FrameColumn:
    dtype = series.dtype
    if dtype == nw.Boolean:
        return FrameColumn(name, "bool", _without_missing(series.to_list()))
    if dtype.is_numeric():
        return FrameColumn(name, "number", _floats(nw, name, series))
    if dtype.is_temporal():
        raise DataError(
            f"The column {name!r} holds dates, times or durations, which are neither states nor "
            "numbers. Make of it what you mean: a category (X[...].astype(str), .dt.month), or a "
            "number of days."
        )
    categories = None
    if dtype in (nw.Categorical, nw.Enum):
        categories = [as_label(value) for value in series.cat.get_categories().to_list()]
    given = series.to_list()
    _refuse_nested(name, given)
    values = _without_missing(given)
    return (
        _by_values(name, values)
        if categories is None
        else FrameColumn(name, "label", values, categories)
    )


def _refuse_nested(name: str, values: list[Any]) -> None:
    """Raise if entries of a column are no single values."""
    for row, value in enumerate(values):
        if isinstance(value, (list, dict, set, complex, np.ndarray)):
            raise DataError(
                f"The column {name!r} must hold one number or label per row. "
                f"Got {value!r} in row {row}."
            )


def _by_values(name: str, values: list[Any]) -> FrameColumn:
    """A column of Python objects, by what they are."""
    present = [value for value in values if value is not None]
    if present and all(isinstance(value, bool) for value in present):
        return FrameColumn(name, "bool", values)
    if present and not any(isinstance(value, (str, bool)) for value in present):
        numbers = [np.nan if value is None else value for value in values]
        return FrameColumn(name, "number", np.asarray(numbers, dtype=np.float64))
    words = list(dict.fromkeys(value for value in present if isinstance(value, str)))
    others = list(dict.fromkeys(value for value in present if not isinstance(value, str)))
    places = zip(others, match_labels(words, others), strict=True)
    as_words = {value: words[place] for value, place in places if place >= 0}
    return FrameColumn(name, "label", [as_words.get(value, value) for value in values])


def _floats(nw: Any, name: str, series: Any) -> Any:
    try:
        return np.array(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    except ValueError as error:  # pyarrow refuses integers that floats do not hold
        raise DataError(
            f"The column {name!r} holds numbers that are no floats. If they identify rows, leave "
            f"it out, else make them smaller or text. Found: {error}"
        ) from error


def _without_missing(values: list[Any]) -> list[Any]:
    return [None if is_missing(value) else as_label(value) for value in values]


def is_missing(value: Any) -> bool:
    """Whether an object says that there is no value: None, NaN, or the NA and NaT of pandas.

    Examples
    --------
    >>> is_missing(None), is_missing(float("nan")), is_missing("nan"), is_missing(0)
    (True, True, False, False)
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def as_label(value: Any) -> Label:
    """A value as a label: text, a number or a bool of Python; other things by their text.

    Examples
    --------
    >>> as_label(np.int64(3)), as_label("yes"), as_label(np.True_)
    (3, 'yes', True)
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        return int(number) if number.is_integer() else number
    return str(value)


def label_key(label: Any) -> Any:
    """What makes two labels of one column equal: the value, told apart from text."""
    return (isinstance(label, str), label)


def is_number(label: Any) -> bool:
    """Whether a label is a number, or text that reads as one."""
    try:
        float(label)
    except (TypeError, ValueError):
        return False
    return True


def _word(label: Any) -> str:
    text = str(label)
    whole = text.removesuffix(".0")
    if whole.removeprefix("-").isdecimal():
        return whole
    return text.lower() if text.lower() in ("true", "false") else text


def _number(label: Any) -> Any:
    return float(label) if is_number(label) and np.isfinite(float(label)) else label_key(label)


def match_labels(labels: Sequence[Any], others: Sequence[Any]) -> list[int]:
    """For every one of `others` the index of the label that means the same, -1 if there is none.

    This is the one rule by which labels of different tables and models are compared. Labels are
    equal by value, by how they are written ("1", 1 and "1.0", "True" and true), or as numbers
    ("01" and 1): the first of these that pairs most labels, and none twice. Text is not compared
    with text as numbers: "01" and "1" are two labels, whatever the labels beside them are.

    Examples
    --------
    >>> match_labels(["1", "2"], [2, 1, 3]), match_labels(["a", "true"], [True])
    ([1, 0, -1], [1])
    >>> match_labels(["01", "02"], ["1", "2"]), match_labels(["01", "02"], [1, 2, 3])
    ([-1, -1], [0, 1, -1])
    """
    best = [-1] * len(others)
    text = all(isinstance(label, str) for label in (*labels, *others))
    for key in (label_key, _word) if text else (label_key, _word, _number):
        index = {key(label): i for i, label in enumerate(labels)}
        keys = [key(label) for label in others]
        if len(index) < len(labels) or len(set(keys)) < len(keys):
            continue
        found = [index.get(label, -1) for label in keys]
        if sum(i >= 0 for i in found) > sum(i >= 0 for i in best):
            best = found
    return best


def make_frame(names: Sequence[Any], columns: Sequence[Any], index: Any = None) -> Any:
    """A data frame of pandas; columns are arrays, or pairs of codes (-1: missing) and labels.

    An index that is a list of ranges stands for all their combinations.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise CircuitError(
            "Data frames are made with pandas, which is not installed: pip install pandas, or ask "
            "for an array with as_frame=False."
        ) from error
    if isinstance(index, list):
        index = pd.MultiIndex.from_product(index, names=["row", "sample"])
    made = {}
    for name, column in zip(names, columns, strict=True):
        if isinstance(column, tuple):
            codes, labels = column
            column = pd.Categorical.from_codes(codes, categories=list(labels))
        made[name] = column
    return pd.DataFrame(made, index=index)


def ranked_frame(names: Sequence[Any], order: Any, **columns: Any) -> Any:
    """A data frame of pandas with named rows, in this order of them."""
    values = [column[order] for column in columns.values()]
    return make_frame(list(columns), values, np.asarray(names, dtype=object)[order])
