"""Columns of tables encoded as variables."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import narwhals.stable.v1 as nw
import numpy as np
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from expectedkernels.checks import DataError
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.data.tables import (
    column_number,
    column_numbers,
    is_frame,
    is_missing,
    look_numeric,
    match_labels,
    refuse_rowless,
)

NUMBERS: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
"""What columns of numbers must be."""
ADVICE = "Convert it, or name the column in categorical_features."
NAMELESS = (
    " Text columns of data frames are categories by themselves: behind a ColumnTransformer, "
    "set_output(transform='pandas') keeps the types of columns."
)


def as_frame(X: Any) -> Any:
    """A table as one of those that are read below; raises if it looks like one and is none.

    What a masked array hides is missing.
    """
    kind = type(X)
    if hasattr(kind, "column_names") and hasattr(kind, "to_pandas"):
        X = X.to_pandas()
    if isinstance(X, np.ma.MaskedArray):
        X = np.where(np.ma.getmaskarray(X), np.nan, X.data)
    if not hasattr(X, "shape"):  # some sparse matrices are mappings
        refuse_rowless(X, "X must be a data frame, or an array")
    if hasattr(kind, "to_frame") and not hasattr(kind, "columns"):
        raise DataError(
            f"Expected 2D array, got 1D array instead: a {kind.__name__} of {len(X)} entries. "
            "Reshape your data: X.to_frame() is a table of one column; a single row of a data "
            "frame is frame.iloc[[i]], with two pairs of brackets."
        )
    twice = [name for name, n in Counter(column_names(X) or ()).items() if n > 1]
    if twice:
        raise DataError(
            f"The names of columns must be distinct. {twice[0]!r} is the name of several: "
            "rename them, or leave them out."
        )
    return X


def column_names(X: Any) -> list[Any] | None:
    """The names of the columns of a data frame."""
    return list(X.columns) if is_frame(X) else None


def split_columns(X: Any, estimator: Any = None, least: int = 1) -> list[Any]:
    """The columns of a table: those of a data frame as series of narwhals, others as arrays."""
    if is_frame(X):
        return list(nw.from_native(X, eager_only=True).iter_columns())
    check = {"estimator": estimator, "input_name": "X", "ensure_min_samples": least}
    return list(check_array(X, dtype=None, ensure_all_finite=False, **check).T)


def categorical_columns(columns: Sequence[Any]) -> list[int]:
    """The columns of a data frame that hold categories by their type: these, text, or bool."""
    found = []
    for i, column in enumerate(columns):
        dtype = column.dtype
        if dtype in (nw.String, nw.Object):
            present = [entry for entry in column.to_list() if not is_missing(entry)]
            of_text = all(isinstance(entry, (str, bool, np.bool_)) for entry in present)
            chosen = bool(present) and of_text
        else:
            chosen = dtype in (nw.Categorical, nw.Enum, nw.Boolean)
        found += [i] if chosen else []
    return found


def read_table(estimator: Any, X: Any, categorical: Any, *, reset: bool) -> list[Any]:
    """The columns of a table: numbers, and objects where they are categorical."""
    columns = split_columns(X, estimator)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    names, numeric = column_names(X), [i for i in range(len(columns)) if i not in categorical]
    found: list[Any] = [None] * len(columns)
    for i in categorical:
        found[i] = np.empty(len(columns[i]), dtype=object)
        found[i][:] = columns[i].to_list() if names else columns[i].tolist()
    advice = ADVICE + ("" if names else NAMELESS)
    chosen = [names[i] for i in numeric] if names else numeric
    if numeric:
        Z = read_numbers([columns[i] for i in numeric], chosen, advice, estimator)
        for i, column in zip(numeric, Z.T, strict=True):
            found[i] = column
    return found


def read_numbers(
    columns: Sequence[Any], names: Any, advice: str, estimator: Any = None, least: int = 1
) -> Any:
    """Columns as an array of numbers; text, dates and infinity are refused with their place."""
    names = range(len(columns)) if names is None else names
    read = [_numbers(x, name, advice) for x, name in zip(columns, names, strict=True)]
    Z = np.column_stack(read) if read else np.empty((0, 0))
    try:
        check = {"estimator": estimator, "input_name": "X", "ensure_min_samples": least}
        return check_array(Z, **check, **NUMBERS)
    except ValueError as error:
        if "contains infinity" not in str(error):
            raise
        row, column = (int(i) for i in np.argwhere(np.isinf(Z))[0])
        raise DataError(
            f"{error} The first is in row {row}, column {names[column]!r}. Put NaN for what is not "
            "known."
        ) from error


def _numbers(column: Any, name: Any, advice: str) -> Any:
    """The numbers of a column, NaN where they are missing."""
    dtype = column.dtype
    kind = getattr(dtype, "kind", "")
    if kind in "mM" if kind else dtype.is_temporal():
        raise DataError(f"Column {name!r} holds dates, where numbers are expected. {advice}")
    if kind and kind in "iufb":
        return column.astype(np.float64)
    if not kind and (dtype.is_numeric() or dtype == nw.Boolean):
        return np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)
    numbers = np.empty(len(column))
    for row, entry in enumerate(column.to_list() if not kind else column.tolist()):
        try:
            numbers[row] = np.nan if is_missing(entry) else entry
        except (TypeError, ValueError) as error:
            is_time = hasattr(entry, "isoformat") or hasattr(entry, "start_time")
            if isinstance(error, TypeError) and not is_time:
                raise
            what = f"text, {entry!r}" if isinstance(entry, str) else f"a {type(entry).__name__}"
            raise DataError(
                f"Column {name!r} holds {what} in row {row}, where numbers are expected. {advice}"
            ) from error
    return numbers


def read_target(
    estimator: Any, X: Any, y: Any, *, labels: bool = False, several: bool = False
) -> Any:
    """The checked targets of rows: numbers, of one output or several, or classes."""
    if y is None:
        validate_data(estimator, X, y, reset=False, skip_check_array=True)  # which says what to do
    if isinstance(y, np.ma.MaskedArray):
        y = np.where(np.ma.getmaskarray(y), np.nan, y.data.astype(object))
    entries: Any = np.asarray(y)
    if entries.dtype.kind in "fO" and entries.ndim in (1, 2):
        flat = [is_missing(entry) for entry in entries.reshape(-1).tolist()]
        missing: Any = np.array(flat, dtype=np.bool_).reshape(len(entries), -1).any(axis=1)
        if missing.any():
            raise DataError(
                f"Input y contains NaN: {int(missing.sum())} of {len(missing)} rows have no "
                f"target, the first is row {int(missing.argmax())}. Only X may have missing "
                "values; leave these rows out."
            )
    if labels:
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
    else:
        first = entries.reshape(-1)[0] if entries.dtype == object and entries.size else None
        if entries.dtype.kind in "mM" or hasattr(first, "isoformat"):
            raise DataError(  # they would be read as numbers of nanoseconds
                "Input y holds dates, where numbers are expected. Convert them, for example to "
                "days since the first one."
            )
        checks = {"input_name": "y", "estimator": estimator, "ensure_2d": False}
        y = check_array(y, dtype="numeric", **checks)
        y = (y if several else column_or_1d(y, warn=True)).astype(np.float64)
    check_consistent_length(X, y)
    return y


SLACK = 1e-9
NOT_A_STATE = -1
"""The state of a value that is observed but that the density does not know."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """Uniform distributions on boxes; a point has equal ends.

    Attributes
    ----------
    low, high : arrays of shape (pieces, columns)

    Examples
    --------
    >>> Pieces.points([[0.5], [2.0]]).n
    2
    """

    low: Any
    high: Any

    @classmethod
    def points(cls, x: Any) -> Pieces:
        """The rows of a matrix as points."""
        x = np.asarray(x, dtype=np.float64)
        return cls(x, x)

    @property
    def n(self) -> int:
        """The number of pieces."""
        return len(self.low)

    @property
    def centre(self) -> Any:
        """The middle of every piece."""
        return 0.5 * (self.low + self.high)

    @property
    def half(self) -> Any:
        """Half the widths of every piece."""
        return 0.5 * (self.high - self.low)

    def padded(self, n: int) -> Pieces:
        """The pieces, with the last one repeated up to a number."""
        index = np.minimum(np.arange(n), self.n - 1)
        return Pieces(self.low[index], self.high[index])


@dataclass(frozen=True, eq=False)
class Said:
    """What rows say of one variable.

    Attributes
    ----------
    observed : bool array of shape (rows,)
        Whether all its columns are known.
    state : int array of shape (rows,)
        The state of an observed variable, `NOT_A_STATE` if it is none or not observed.
    allowed : bool array of shape (rows, states), or None
        The states that partly observed columns leave; None: all or one everywhere.
    """

    observed: Any
    state: Any
    allowed: Any = None


@dataclass(frozen=True, eq=False)
class Variable:
    """One variable of a density and its columns of the data.

    Attributes
    ----------
    columns : int array
        Its columns: one, or the bits of a one-hot group.
    pieces : Pieces or None
        For every state the values of the columns there. None: the variable is real.
    cuts : array, or None
        The points that separate the intervals of a numeric column; they come first among its
        states, single values follow. None: values that are no states are not known.
    n_intervals : int
    n_spare : int
        How many of the last states never occur in data.
    """

    columns: Any
    pieces: Pieces | None = None
    cuts: Any = None
    n_intervals: int = 0
    n_spare: int = 0

    @property
    def n_states(self) -> int | None:
        """The number of states, None for a real variable."""
        return None if self.pieces is None else self.pieces.n

    def alone(self) -> Variable:
        """The variable of a table that has no other columns."""
        return replace(self, columns=np.arange(len(self.columns)))

    def say(self, Z: Any) -> Said:
        """What rows of the data say of the variable; NaN is missing."""
        x = Z[:, self.columns]
        known = ~np.isnan(x)
        observed = known.all(axis=1)
        if self.pieces is None:
            return Said(observed, np.full(len(x), NOT_A_STATE, dtype=np.intp))
        if len(self.columns) == 1:
            state = self.states_of(np.where(observed, x[:, 0], 0.0))
            return Said(observed, np.where(observed, state, NOT_A_STATE))
        return self._say_group(x, known, observed)

    def states_of(self, x: Any) -> Any:
        """The states of values of a single column."""
        pieces: Any = self.pieces
        values = pieces.low[self.n_intervals : pieces.n - self.n_spare, 0]
        state = np.full(len(x), NOT_A_STATE, dtype=np.intp)
        if self.cuts is not None:
            state = np.searchsorted(self.cuts, x, side="right")
        if len(values) and (self.cuts is None or self.n_intervals):
            order = np.argsort(values, kind="stable")
            at = order[np.minimum(np.searchsorted(values[order], x), len(values) - 1)]
            state = np.where(values[at] == x, at + self.n_intervals, state)
        return state

    def unknown(self, x: Any) -> Any:
        """Which values of a single column are no states; NaN is missing."""
        return ~np.isnan(x) & (self.states_of(np.nan_to_num(x)) < 0)

    def fits(self, x: Any) -> Any:
        """How well numbers in the columns fit states: codes by distance, bits by their size.

        (rows, states); those of bits sum to one.
        """
        values: Any = self.pieces.low  # type: ignore[union-attr]
        if x.shape[1] == 1:
            return -np.abs(x - values.T)
        none = values.sum(axis=1) == 0
        return x @ values.T + none * (1.0 - x.sum(axis=1, keepdims=True))

    def _say_group(self, x: Any, known: Any, observed: Any) -> Said:
        bits: Any = self.pieces.low  # type: ignore[union-attr]
        agree = np.ones((len(x), len(bits)), dtype=np.bool_)
        for column in range(x.shape[1]):
            agree &= (x[:, column, None] == bits[:, column]) | ~known[:, column, None]
        agree[~agree.any(axis=1)] = True  # says nothing that the density understands
        state = np.where(observed & ~agree.all(axis=1), agree.argmax(axis=1), NOT_A_STATE)
        partly = ~observed & ~agree.all(axis=1)
        return Said(observed, state, agree if partly.any() else None)


def numeric_variable(column: int, x: Any, n_bins: int) -> Variable:
    """A column of numbers: frequent values are states of their own, the others fall into bins.

    Parameters
    ----------
    column : int
    x : array
        Its values, NaN where they are missing.
    n_bins : int
        The number of states, about; bins have equal counts. A value that would fill two bins is a
        state of its own; if there are no more distinct values than bins, all are.

    Examples
    --------
    >>> numeric_variable(0, np.array([0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 4.0]), 4).pieces.n
    4
    """
    x = x[~np.isnan(x)]
    columns = np.array([column])
    values, counts = np.unique(x, return_counts=True)
    if len(values) <= n_bins:
        values = values if len(values) else np.zeros(1)
        middle = 0.5 * (values[1:] + values[:-1])
        return Variable(columns, Pieces.points(values[:, None]), cuts=middle)
    often = counts * n_bins >= 2 * len(x)
    spikes = values[often]
    rest = x[~np.isin(x, spikes)]
    edges = _edges(rest, max(1, n_bins - len(spikes)))
    low = np.concatenate([edges[:-1], spikes])[:, None]
    high = np.concatenate([edges[1:], spikes])[:, None]
    return Variable(columns, Pieces(low, high), _cuts(edges), len(edges) - 1)


def _edges(x: Any, n_bins: int) -> Any:
    """The ends of bins that hold some values each."""
    edges = np.unique(np.quantile(x, np.linspace(0.0, 1.0, n_bins + 1)))
    if len(edges) == 1:
        return np.repeat(edges, 2)
    place = np.searchsorted(_cuts(edges), x, side="right")
    filled = np.bincount(place, minlength=len(edges) - 1) > 0
    return np.concatenate([edges[:1], edges[1:][filled]])


def _cuts(edges: Any) -> Any:
    """The points that separate bins: a little below their ends, so that these belong to the next.

    Quantiles that are values of the data are so up to rounding, which another unit, or another
    zero, would change.
    """
    slack = SLACK * np.diff(edges)[:-1] + 4.0 * np.finfo(np.float64).eps * np.abs(edges[1:-1])
    return edges[1:-1] - slack


def states_variable(columns: Any, values: Any) -> Variable:
    """A column of codes, each of which is a state, or the columns of bits of one category."""
    x = np.asarray(values, dtype=np.float64).reshape(len(values), len(columns))
    return Variable(np.asarray(columns), Pieces.points(x))


def completed_groups(variables: Sequence[Variable], Z: Any) -> Any:
    """The data with the bits that follow from the others of their group.

    They are zero if another bit is one, and a last one is one if all others are zero, unless the
    variable has a state without a bit.
    """
    Z = np.array(Z, dtype=np.float64)
    for variable in variables:
        if len(variable.columns) > 1:
            x = Z[:, variable.columns]
            open_, ones = np.isnan(x), x == 1.0
            decided = ones.any(axis=1) & open_.any(axis=1)
            x[decided] = np.where(open_[decided], 0.0, x[decided])
            pieces: Any = variable.pieces
            if pieces.low.any(axis=1).all():
                last = (open_.sum(axis=1) == 1) & (np.nansum(np.abs(x), axis=1) == 0)
                x[last] = open_[last]
            Z[:, variable.columns] = x
    return Z


def check_circuit(circuit: Circuit, variables: Sequence[Variable], what: str) -> list[Variable]:
    """The variables with as many states as the circuit gives them; raises if they do not fit it.

    States that the circuit has beyond those of the data count as the last of these. Columns of
    which nothing is known hold states of the circuit, or real values.
    """
    if circuit.n_roots != 1:
        raise DataError(f"{what} must have one root. Got {circuit.n_roots} roots.")
    if circuit.n_variables != len(variables):
        raise DataError(
            f"{what} must be over {len(variables)} variables, one for every column or group of "
            f"columns. Got a circuit over {circuit.n_variables} variables."
        )
    fitted = []
    for i, (variable, cardinality) in enumerate(zip(variables, circuit.cardinalities, strict=True)):
        n = variable.n_states
        if n is None:
            if cardinality is not None:
                variable = states_variable(variable.columns, np.arange(cardinality))
            fitted.append(variable)
            continue
        if cardinality is None or cardinality < n:
            found = "a real variable" if cardinality is None else f"{cardinality} states"
            raise DataError(
                f"{what} must fit the data: its variable {i} must have at least {n} states, as "
                f"column(s) {variable.columns.tolist()} do. Got {found}."
            )
        pieces: Any = variable.pieces
        pieces = pieces.padded(cardinality)
        fitted.append(replace(variable, pieces=pieces, n_spare=cardinality - n))
    return fitted


MAX_SHOWN = 5
"""How many unseen categories a warning names."""
FEW_CATEGORIES = 20
"""So many categories are never too many."""
LARGEST_POWER = 330
"""Numbers above two to this, or all below its inverse, are too large or small to be squared."""
SMALLEST_SCALE, LARGEST_SCALE = 1e-140, 1e140
"""Deviations beyond these have squares that doubles do not hold."""
MOST_BYTES = 2**32
"""What the bits of all categories may take."""
FARTHEST = 1e100
"""Standardised numbers beyond this are as good as this: every kernel is zero there."""
MISSING_BITS = ("nan", "None", "<NA>")
"""What one-hot encoders call the category of missing values."""


@dataclass(frozen=True, eq=False)
class Encoding:
    """How the columns of a table become columns of numbers, and these standard units.

    A categorical column becomes one bit per category.

    Attributes
    ----------
    names : list
        What columns are called in messages.
    categories : dict from columns to arrays
        The categories of every categorical column.
    groups : list of lists of int
        Columns that together are one categorical variable: one-hot bits, or a single column of
        codes.
    unit, centre, scale : arrays of shape (columns of numbers,)
        Standardised, a number x is (x / unit - centre) / scale; units are powers of two.
    """

    names: list[Any]
    categories: dict[int, Any]
    groups: list[list[int]]
    unit: Any = 1.0
    centre: Any = 0.0
    scale: Any = 1.0

    @property
    def n_columns(self) -> int:
        """The number of columns of the table."""
        return len(self.names)

    @property
    def places(self) -> list[Any]:
        """For every column of the table its columns of numbers."""
        widths = [len(self.categories.get(i, [0])) for i in range(self.n_columns)]
        stops = np.cumsum(widths)
        return [np.arange(stop - width, stop) for stop, width in zip(stops, widths, strict=True)]

    @property
    def names_of_numbers(self) -> list[Any]:
        """For every column of numbers the name of its column of the table."""
        return [x for x, place in zip(self.names, self.places, strict=True) for _ in place]

    def groups_or_columns(self) -> list[list[int]]:
        """What is known or missing as a whole: groups, and columns that are in none."""
        grouped = {i: group for group in self.groups for i in group}
        every = (grouped.get(i, [i]) for i in range(self.n_columns))
        return [group for i, group in enumerate(every) if group[0] == i]

    @property
    def variable_names(self) -> list[str] | None:
        """The name of every variable, the first of a group's; None if columns have no names."""
        if not all(isinstance(name, str) for name in self.names):
            return None
        return [min(self.names[i] for i in group) for group in self.groups_or_columns()]

    def encode(self, table: list[Any]) -> Any:
        """The columns of numbers; unseen categories are missing, with a warning."""
        places = self.places
        self._require_memory(len(table[0]), places)
        Z = np.zeros((len(table[0]), int(places[-1][-1]) + 1))
        for i, column in enumerate(table):
            if i not in self.categories:
                Z[:, places[i][0]] = column
                continue
            codes = self._codes(i, column)
            known = codes >= 0
            Z[known, places[i][codes[known]]] = 1.0
            Z[np.ix_(~known, places[i])] = np.nan
        return Z

    def _require_memory(self, n_rows: int, places: list[Any]) -> None:
        """Raise if the bits of all categories take too much memory."""
        size, widest = 8 * n_rows * (int(places[-1][-1]) + 1), max(places, key=len)
        if size > MOST_BYTES:
            name = self.names[next(i for i, place in enumerate(places) if place is widest)]
            raise DataError(
                f"The bits of all categories take {size / 2**30:.1f} GiB, more than "
                f"{MOST_BYTES / 2**30:.3g} GiB: column {name!r} has {len(widest)} categories in "
                f"{n_rows} rows. If it is an identifier, leave it out; else put categories "
                "together."
            )

    def encode_entry(self, i: int, entry: Any) -> Any:
        """The numbers of one entry of a column; NaN if it is missing, or an unseen category."""
        column = np.empty(1, dtype=object)
        column[0] = entry
        if i in self.categories:
            code = self._codes(i, column)[0]
            return np.eye(len(self.categories[i]))[code] if code >= 0 else np.nan
        try:
            number = np.nan if is_missing(entry) else float(entry)
        except (TypeError, ValueError):
            number = np.inf
        if np.isinf(number):
            raise DataError(f"Column {self.names[i]!r} holds numbers. Got {entry!r} instead.")
        return number

    @property
    def numeric(self) -> Any:
        """Which columns of numbers hold quantities, not categories."""
        others = {*self.categories, *(i for group in self.groups for i in group)}
        widths = [len(place) for place in self.places]
        return np.repeat([i not in others for i in range(self.n_columns)], widths)

    def standardise(self, Z: Any) -> Any:
        """Columns of numbers in standard units."""
        with np.errstate(over="ignore"):  # what is far beyond all rows in fit stays there
            return np.clip((Z / self.unit - self.centre) / self.scale, -FARTHEST, FARTHEST)

    def undo(self, Z: Any) -> Any:
        """Columns of numbers in their own units."""
        return (Z * self.scale + self.centre) * self.unit

    def _codes(self, i: int, column: Any) -> Any:
        """The number of every entry's category, -1 if it is missing or unseen."""
        entries = column.tolist()
        present = [x for x in dict.fromkeys(entries) if not is_missing(x)]
        number = dict(zip(present, match_labels(self.categories[i].tolist(), present), strict=True))
        unseen = [x for x in present if number[x] < 0]
        if unseen:
            _warn_unseen(self.names[i], unseen)
        return np.fromiter((number.get(x, -1) for x in entries), np.intp, len(entries))

    def without_unseen_codes(self, variables: Sequence[Variable], Z: Any) -> Any:
        """The columns of numbers with codes that were not seen in fit as missing."""
        coded = {group[0] for group in self.groups if len(group) == 1}
        places = self.places
        for i in sorted(coded):
            place = int(places[i][0])
            variable = next(v for v in variables if v.columns[0] == place)
            if variable.pieces is None:
                continue
            bad = variable.unknown(Z[:, place])
            if bad.any():
                _warn_unseen(self.names[i], np.unique(Z[bad, place]).tolist())
                Z[bad, place] = np.nan
        return Z

    def variables(self, Z: Any, n_bins: int | None) -> list[Variable]:
        """The variables of the density, in the order of their first columns.

        Without a number of bins, what single columns hold is left to a circuit.
        """
        places, variables = self.places, []
        for group in self.groups_or_columns():
            columns = np.concatenate([places[i] for i in group])
            if group[0] in self.categories:
                variables.append(states_variable(columns, np.eye(len(columns))))
            elif n_bins is None and len(columns) == 1:
                variables.append(Variable(columns))
            elif self.numeric[columns[0]]:
                x = Z[:, columns[0]]
                variables.append(numeric_variable(int(columns[0]), x, cast(int, n_bins)))
            else:
                variables.append(self._group(columns, Z))
        return variables

    def _group(self, columns: Any, Z: Any) -> Variable:
        x = Z[:, columns]
        if len(columns) == 1:
            values = np.unique(x[~np.isnan(x)])
            return states_variable(columns, values if len(values) else [0.0])
        bits = np.eye(len(columns))
        if (~np.isnan(x).any(axis=1) & (x.sum(axis=1) == 0)).any():
            bits = np.vstack([bits, np.zeros(len(columns))])  # the category without a column
        return states_variable(columns, bits)


def measure(Z: Any, chosen: Any, sample_weight: Any = None) -> tuple[Any, Any, Any]:
    """Units, centres and scales of chosen columns, as by scikit-learn's StandardScaler.

    Units are one but where squares are out of range. Others stay as they are, and what is missing
    does not count.
    """
    unit, scale = np.ones(Z.shape[1]), np.ones(Z.shape[1])
    centre = np.zeros(Z.shape[1])
    chosen = np.flatnonzero(chosen & ~np.isnan(Z).all(axis=0))
    if len(chosen):
        power = np.frexp(np.nanmax(np.abs(Z[:, chosen]), axis=0))[1] - 1
        unit[chosen] = np.ldexp(1.0, np.where(np.abs(power) > LARGEST_POWER, power, 0))
        scaler = StandardScaler().fit(Z[:, chosen] / unit[chosen], sample_weight=sample_weight)
        centre[chosen], scale[chosen] = scaler.mean_, scaler.scale_
    return unit, centre, scale


def require_scales(names: Any, scale: Any) -> None:
    """Raise if a deviation has a square that is out of range."""
    bad = ~((scale >= SMALLEST_SCALE) & (scale <= LARGEST_SCALE))
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"Column {names[i]!r} holds values that cannot be standardised: their standard "
            f"deviation is {scale[i]:g}. Rescale the column."
        )


def require_bits(x: Any, names: Sequence[Any]) -> None:
    """Raise if rows are not the bits of one category; NaN is missing, no category all zeros."""
    bad = ~(np.isnan(x) | (x == 0) | (x == 1))
    if bad.any():
        row, column = (int(k) for k in np.argwhere(bad)[0])
        raise DataError(
            "The columns of a one-hot group must hold 0 or 1. "
            f"Got {x[row, column]} in row {row}, column {names[column]!r}."
        )
    twice = (x == 1).sum(axis=1) > 1
    if twice.any():
        raise DataError(
            "At most one column of a one-hot group can be 1. Row "
            f"{int(np.flatnonzero(twice)[0])} has several, of columns {list(names)}."
        )


def require_states(variables: Sequence[Variable], Z: Any, names: Sequence[Any]) -> None:
    """Raise if columns hold something else than states of a circuit, or bits of these."""
    for i, variable in enumerate(variables):
        columns, n = variable.columns, variable.n_states
        if n is None:
            continue
        if len(columns) > 1:
            require_bits(Z[:, columns], [names[k] for k in columns])
            continue
        x = Z[:, columns[0]]
        bad = variable.unknown(x)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise DataError(
                f"With this circuit, column {names[columns[0]]!r} must hold states 0..{n - 1} of "
                f"variable {i}. Got {x[row]} in row {row}. Other values need a circuit over real "
                "variables, or a density that is learned."
            )


def _warn_unseen(name: Any, unseen: list[Any]) -> None:
    shown = ", ".join(repr(x) for x in unseen[:MAX_SHOWN])
    more = "" if len(unseen) <= MAX_SHOWN else f" and {len(unseen) - MAX_SHOWN} more"
    warnings.warn(
        f"Column {name!r} has categories that were not seen in fit: {shown}{more}. They are "
        "treated as missing.",
        UserWarning,
        stacklevel=2,
    )


def learn_columns(
    estimator: Any,
    X: Any,
    categorical_features: Any,
    groups: Any,
    labels: Mapping[Any, Sequence[Any]] | None = None,
) -> tuple[Encoding, Any]:
    """How to read tables like this one, and this one as columns of numbers.

    Parameters
    ----------
    estimator, X, categorical_features, groups
        As they were given.
    labels : mapping from names of columns to labels, optional
        Categories that are known besides those that the table happens to show.
    """
    names, columns = column_names(X), split_columns(X, estimator)
    by_type = isinstance(categorical_features, str)
    categorical: list[int] = []
    if by_type and names is not None:
        categorical = categorical_columns(columns)
    elif not by_type and categorical_features is not None:
        chosen = categorical_features, names, len(columns), "categorical_features"
        categorical = column_numbers(*chosen)
    table = read_table(estimator, X, categorical, reset=True)
    names = list(range(len(table))) if names is None else names
    warn_of_missing_bits(names, table)
    categories = {
        i: _with_labels(_categories(table[i], names[i]), (labels or {}).get(names[i]))
        for i in categorical
    }
    if by_type:
        types = nw.String, nw.Object  # nobody called these categorical
        text = {i: found for i, found in categories.items() if columns[i].dtype in types}
        _warn_of_free_text(names, table, text)
    encoding = Encoding(names, categories, _groups(groups, names, categories))
    Z = encoding.encode(table)
    variables = encoding.variables(Z, None)
    require_states(variables, Z, encoding.names_of_numbers)
    return encoding, completed_groups(variables, Z)


def _categories(column: Any, name: Any) -> Any:
    present = [entry for entry in column.tolist() if not is_missing(entry)]
    if any(isinstance(entry, (float, np.floating)) and np.isinf(entry) for entry in present):
        raise DataError(f"The categories of column {name!r} contain infinity.")
    try:
        distinct = sorted(set(present))
    except TypeError as error:
        raise DataError(
            f"The categories of column {name!r} must be of one type. Got entries of several types, "
            f"such as {sorted({type(x).__name__ for x in present})}."
        ) from error
    found = np.empty(len(distinct) or 1, dtype=object)
    found[: len(distinct)] = distinct
    return found


def _with_labels(found: Any, labels: Sequence[Any] | None) -> Any:
    """The labels, if they are more than what was found."""
    if labels is None or not set(found.tolist()) < set(labels):
        return found
    known = np.empty(len(labels), dtype=object)
    known[:] = list(labels)
    return known


def _groups(groups: Any, names: list[Any], categories: dict[int, Any]) -> list[list[int]]:
    resolved: list[list[int]] = []
    seen: set[int] = set()
    for group in [] if groups is None else groups:
        members = [group] if isinstance(group, (str, int, np.integer)) else list(group)
        columns = [column_number(x, names, len(names), "groups") for x in members]
        again = [i for i in columns if i in seen or i in categories]
        if again or not columns:
            raise DataError(
                "The 'groups' parameter must name columns that are not categorical, each once. "
                f"Got {groups!r} instead."
            )
        seen.update(columns)
        resolved.append(columns)
    return resolved


def _warn_of_free_text(names: list[Any], table: list[Any], categories: dict[int, Any]) -> None:
    """Warn if text that nobody called categorical is different in most rows."""
    for i, found in categories.items():
        present = sum(not is_missing(entry) for entry in table[i].tolist())
        numeric = isinstance(found[0], str) and look_numeric(found.tolist())
        most = FEW_CATEGORIES if numeric else max(FEW_CATEGORIES, present / 2)
        if len(found) <= most or not isinstance(found[0], str):
            continue
        advice = "Names and free text say nothing of other rows: leave the column out"
        if numeric:
            advice = "These look like numbers: convert the column, for example by pandas.to_numeric"
        warnings.warn(
            f"Column {names[i]!r} holds text, and is taken for categorical: {len(found)} "
            f"categories in {present} rows. {advice}, or name it in categorical_features.",
            UserWarning,
            stacklevel=2,
        )


def warn_of_missing_bits(names: list[Any], table: list[Any]) -> None:
    """Warn if a one-hot encoder made a category of missing values: a bit called sex_nan."""
    for name, column in zip(names, table, strict=True):
        prefix, _, value = name.rpartition("_") if isinstance(name, str) else ("", "", "")
        if not prefix or value not in MISSING_BITS:
            continue
        others = [
            x
            for other, x in zip(names, table, strict=True)
            if other != name and isinstance(other, str) and other.startswith(f"{prefix}_")
        ]
        if others and _are_bits([column, *others]):
            warnings.warn(
                f"Column {name!r} looks like the bit that a one-hot encoder sets where {prefix!r} "
                "is missing, so that these rows count as complete, of a category of their own. "
                f"To have {prefix!r} averaged out where it is missing, leave the encoder out: "
                "text columns of data frames are categories, and NaN in them is missing.",
                UserWarning,
                stacklevel=2,
            )


def _are_bits(columns: list[Any]) -> bool:
    """Whether every row has exactly one 1 in columns of numbers, and zeros."""
    if any(column.dtype == object for column in columns):
        return False
    x = np.stack(columns, axis=1)
    return bool(((x == 0) | (x == 1)).all() and (x.sum(axis=1) == 1).all())
