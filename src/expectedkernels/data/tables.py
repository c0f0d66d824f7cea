"""Columns of frames and arrays: names, types, labels, numbers, bins."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.arrays import has_gradient, to_numpy
from expectedkernels.checks import DataError, imported, is_int

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

    @property
    def missing(self) -> Any:
        """Where the column has no value."""
        if self.kind == "number":
            return np.isnan(self.values)
        return np.array([value is None for value in self.values], dtype=np.bool_)

    @cached_property
    def distinct(self) -> list[Label]:
        """What the column holds, sorted, without what is missing; categories in their order."""
        if self.categories is not None:
            return self.categories
        if self.kind == "number":
            x = self.values[~np.isnan(self.values)]
            few = len(x) and x.min() >= 0 and x.max() < 2**16 and (x == np.floor(x)).all()
            # counting codes beats a sort
            found = np.flatnonzero(np.bincount(x.astype(np.intp))) if few else np.unique(x)
            return [int(x) if float(x).is_integer() else x for x in found.tolist()]
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


def frame_columns(X: Any, only: Container[str] | None = None) -> list[FrameColumn]:
    """The columns of a data frame, or those with some names."""
    if isinstance(X, Columns):
        return list(X.columns)
    import narwhals.stable.v1 as nw

    try:
        frame = nw.from_native(X, eager_only=True)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"A data frame must be held in memory and have distinct column names. {error}"
        ) from error
    named = [(_name_of(series.name), series) for series in frame.iter_columns()]
    return [_read(nw, name, series) for name, series in named if only is None or name in only]


def array_column(name: str, values: Any) -> FrameColumn:
    """An array of numbers, labels or both as a column.

    Examples
    --------
    >>> array_column("rain", np.array(["no", None], dtype=object)).values
    ['no', None]
    """
    array = np.asarray(values)
    if array.dtype.kind in "iuf":
        return FrameColumn(name, "number", array.astype(np.float64))
    return _by_values(name, array.tolist())


def column_names(X: Any) -> tuple[str, ...] | None:
    """The names of the columns of a frame, None if they are numbered 0, 1, ... in this order."""
    if isinstance(X, Columns):
        return X.names
    names = list(X.column_names if hasattr(X, "column_names") else X.columns)
    return None if names == list(range(len(names))) else tuple(map(_name_of, names))


def column_numbers(chosen: Any, names: Sequence[Any] | None, n: int, parameter: str) -> list[int]:
    """The numbers of columns given by numbers, names, or a mask with a bool for each of them.

    Examples
    --------
    >>> column_numbers(["b", 0], ["a", "b"], 2, "columns")
    [0, 1]
    """
    keys: list[Any] = [chosen] if isinstance(chosen, (str, int)) else list(chosen)
    if len(keys) == n and all(isinstance(x, (bool, np.bool_)) for x in keys):
        return np.flatnonzero(keys).tolist()
    return sorted(column_number(x, names, n, parameter) for x in keys)


def column_number(x: Any, names: Sequence[Any] | None, n: int, parameter: str) -> int:
    """The number of a column given by number or name."""
    if isinstance(x, str) and names is not None and x in names:
        return names.index(x)
    if isinstance(x, (bool, np.bool_, str)) or not is_int(x) or not 0 <= x < n:
        raise DataError(
            f"The {parameter!r} parameter must name columns, or their numbers in 0..{n - 1}, or be "
            f"a mask of {n} bools. Got {x!r} instead."
        )
    return int(x)


def _name_of(name: Any) -> str:
    """The name of a column as text; several levels are joined as a tuple of plain values."""
    if isinstance(name, tuple):
        name = tuple(x.item() if isinstance(x, np.generic) else x for x in name)
    return str(name)


def _read(nw: Any, name: str, series: Any) -> FrameColumn:
    dtype, categories = series.dtype, None
    if dtype.is_numeric():
        try:
            numbers = np.array(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
        except ValueError as error:  # pyarrow refuses integers that floats do not hold
            raise DataError(
                f"The column {name!r} holds numbers that are no floats. If they identify rows, "
                f"leave it out, else make them smaller or text. Found: {error}"
            ) from error
        return FrameColumn(name, "number", numbers)
    if dtype.is_temporal():
        raise DataError(
            f"The column {name!r} holds dates, times or durations. Convert it to a category "
            "(X[...].astype(str), .dt.month) or to a number of days."
        )
    if dtype in (nw.Categorical, nw.Enum):
        categories = [as_label(value) for value in series.cat.get_categories().to_list()]
    values = series.to_list()
    for row, value in enumerate(values):
        if isinstance(value, (list, dict, set, complex, np.ndarray)):
            raise DataError(
                f"The column {name!r} must hold one number or label per row. "
                f"Got {value!r} in row {row}."
            )
    if categories is None and dtype != nw.Boolean:
        return _by_values(name, values)
    return FrameColumn(name, "bool" if categories is None else "label", _labels(values), categories)


def _by_values(name: str, given: list[Any]) -> FrameColumn:
    """A column of Python objects, by what they are."""
    values = _labels(given)
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


def _labels(values: list[Any]) -> list[Any]:
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
    pd = imported("pandas", "pandas")
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


ARRAYS = "Points and evidence must be arrays"
FRAMES = "Labels are read from data frames: pandas.DataFrame(X, columns=names of the variables)."
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
    refuse_rowless(rows, what)
    if hasattr(rows, "__array_namespace__") or hasattr(rows, "detach"):
        rows = to_numpy(rows)
    try:
        masked = isinstance(rows, np.ma.MaskedArray)
        array: Any = rows if masked else np.asarray(rows)
        if array.dtype.kind == "O" and not masked:
            if array.ndim == 0 and rows is not None:
                advice = "Give an array of shape (rows, variables)." if what == ARRAYS else ""
                _refuse(f"an object of type {type(rows).__qualname__}", advice, what)
            entries = array.reshape(-1).tolist()
            for entry in entries:
                if isinstance(entry, (str, bytes, complex)):
                    _check_kind(np.asarray(entry), what)
            entries = [np.nan if is_missing(entry) else entry for entry in entries]
            array = np.asarray(entries, dtype=np.float64).reshape(array.shape)
        _check_kind(array, what)
        array = array.astype(np.float64, copy=False)
        return array.filled(np.nan) if masked else array
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{what} of numbers, with NaN for what is missing, and as many entries in every "
            f"row. NumPy says: {error}"
        ) from error


def refuse_rowless(X: Any, what: str = ARRAYS) -> None:
    """Raise if an object has no rows of numbers, or not yet: generators, mappings, lazy frames."""
    kind, frame = type(X), "Give a data frame: pandas.DataFrame(X)."
    if sparse.issparse(X):  # some are mappings
        _refuse("a sparse matrix", "Make it dense: X.toarray().", what)
    for method in ("collect", "compute"):
        if hasattr(kind, method) and hasattr(kind, "columns"):
            _refuse(f"a {kind.__name__}, which holds no rows yet", f"Call X.{method}().", what)
    if isinstance(X, Iterator):
        _refuse(f"a {kind.__name__}", "Make a list of it: list(X).", what)
    if isinstance(X, Mapping):
        _refuse(f"a mapping (of type {kind.__name__})", frame, what)
    if isinstance(X, (list, tuple)) and len(X) and isinstance(X[0], Mapping):
        _refuse("a list of mappings", frame, what)
    if getattr(getattr(X, "dtype", None), "names", None) is not None:
        _refuse("records with named fields", frame, what)
    if isinstance(X, (str, bytes)):
        _refuse(f"the text {X[:40]!r}", "Read files first, for instance with read_table.", what)
    if has_gradient(X):
        _refuse("a tensor that requires gradients", "They are not followed: x.detach().", what)


def _refuse(found: str, advice: str, what: str) -> None:
    message = f"{what} of numbers, with NaN for what is missing. Got {found}. {advice}"
    raise DataError(message.rstrip())


def _check_kind(array: Any, what: str) -> None:
    """Raise if NumPy would convert values to numbers that are not numeric."""
    kind, first = array.dtype.kind, array.reshape(-1)[:1].tolist() or [""]
    if kind in "USaT":
        _refuse(f"text, {first[0]!r}", FRAMES if what == ARRAYS else "", what)
    if kind == "c":
        _refuse(f"complex numbers, {first[0]!r}", "Give their real parts, X.real.", what)
    if kind in "mM":
        _refuse("dates or durations", "Convert them to numbers of the unit that you mean.", what)


SAMPLE_DIMS = ("chain", "draw", "sample")
"""The names of dimensions along which samples lie, in the order in which they are put."""


def is_labelled(X: Any) -> bool:
    """Whether an object is a labelled array, a dataset of such, or inference data.

    Examples
    --------
    >>> is_labelled(np.zeros((2, 2))), is_labelled({"rain": 1})
    (False, False)
    """
    kind = type(X)  # frames show their columns as attributes
    if hasattr(kind, "columns"):
        return False
    labelled = hasattr(kind, "dims") and hasattr(kind, "transpose") and hasattr(kind, "coords")
    return labelled or hasattr(kind, "data_vars") or hasattr(X, "posterior")


def as_table(X: Any) -> Any:
    """A labelled array or dataset as a data frame, chains below one another; all else as it is."""
    if not is_labelled(X):
        return X
    if not len(getattr(X, "data_vars", ())) and hasattr(X, "posterior"):
        X = getattr(X.posterior, "to_dataset", lambda data=X.posterior: data)()
    if hasattr(type(X), "data_vars"):
        extra = {x: a.dims for x, a in X.data_vars.items() if not {*a.dims} <= {*SAMPLE_DIMS}}
        if not extra:
            dims = [dim for dim in SAMPLE_DIMS if dim in X.dims]
            return X.to_dataframe(dims or None)[list(X.data_vars)]
        if len(X.data_vars) > 1:
            name, dims = next(iter(extra.items()))
            raise DataError(
                "Variables of a dataset of samples have the dimensions chain and draw. "
                f"{name!r} has {list(dims)}; pass that array alone, or its entries one by one."
            )
        X = X[next(iter(extra))]
    return _labelled(X)


def _labelled(array: Any) -> Any:
    """An array with named dimensions: samples along some, variables along the last."""
    leading = [dim for dim in SAMPLE_DIMS if dim in array.dims]
    others = [dim for dim in array.dims if dim not in SAMPLE_DIMS]
    if not leading and array.ndim == 2:
        leading, others = others[:1], others[1:]
    if not leading:
        return as_floats(array.values)
    if len(others) != 1:
        raise DataError(
            f"Labelled samples have one dimension for the variables, besides {leading}. Got "
            f"{others or 'none'}: use .stack(variable={others}), or .expand_dims('variable')."
        )
    values = array.transpose(*leading, *others).values
    values = values.reshape(-1, values.shape[-1])
    labels = array.coords[others[0]].values.tolist() if others[0] in array.coords else [None]
    named = all(isinstance(label, str) for label in labels)
    return make_frame(labels if named else range(values.shape[1]), values.T)


DIGITS = 6
"""Bins end at numbers of so many digits, unless their ends differ in later ones only."""


def binned(column: FrameColumn, n_bins: int) -> FrameColumn:
    """The column as names of bins, with equal shares of its finite values as far as ties allow.

    Examples
    --------
    >>> found = binned(FrameColumn("x", "number", np.array([1.0, 2.5, np.nan, 3.0, 7.0])), 2)
    >>> found.values
    ['below 2.75', 'below 2.75', None, '2.75 or more', '2.75 or more']
    """
    x = column.values
    low, high = np.nanmin(x), np.nanmax(x)
    exact = np.unique(np.nanquantile(x, np.arange(1, n_bins) / n_bins))
    exact = exact[exact > low]  # a bin begins at an edge, and none is before the smallest value
    if not len(exact):  # nearly all values are the smallest
        exact = np.array([x[x > low].min()])
    edges = np.unique([float(f"{edge:.{DIGITS}g}") for edge in exact])
    kept = len(edges) == len(exact) and edges[0] > low and edges[-1] <= high
    edges = edges if kept else exact
    return in_bins(column, edges, bin_names(edges))


def in_bins(column: FrameColumn, edges: Any, names: Sequence[Any]) -> FrameColumn:
    """A column of numbers as the names of the bins that they are in."""
    x = column.values
    places = np.searchsorted(edges, x, side="right").tolist()
    values = [None if v != v else names[i] for v, i in zip(x.tolist(), places, strict=True)]
    return FrameColumn(column.name, "label", values, list(names))


def bin_names(edges: Any) -> tuple[str, ...]:
    """The names of the bins between edges.

    Examples
    --------
    >>> bin_names([0.5, 2.0])
    ('below 0.5', '0.5 to 2', '2 or more')
    """
    short = [f"{edge:.{DIGITS}g}" for edge in edges]
    pairs = zip(short, edges, strict=True)
    ends = [word if float(word) == edge else repr(float(edge)) for word, edge in pairs]
    between = (f"{low} to {high}" for low, high in pairwise(ends))
    return (f"below {ends[0]}", *between, f"{ends[-1]} or more")


def edges_of(labels: Sequence[Any] | None) -> Any:
    """Where bins with these names begin, None if these are no names of bins.

    Examples
    --------
    >>> edges_of(["below 0.5", "0.5 to 2", "2 or more"]).tolist()
    [0.5, 2.0]
    """
    begins = [str(label).split(" ")[0] for label in labels or ()][1:]
    if not begins or not all(map(is_number, begins)):
        return None
    edges = np.array(begins, dtype=np.float64)
    return edges if bin_names(edges) == tuple(labels or ()) else None
