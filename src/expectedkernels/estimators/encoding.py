"""Columns of tables encoded as columns of numbers, and as the variables of densities."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from expectedkernels.checks import DataError
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.data import tables
from expectedkernels.data.tables import is_frame, match_labels

ADVICE = "Convert it, or name the column in categorical_features."
NAMELESS = (
    " Text columns of data frames are categories by themselves: behind a ColumnTransformer, "
    "set_output(transform='pandas') keeps the types of columns."
)


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a table.

    Attributes
    ----------
    names : list
        Those of the columns of a data frame, or their numbers.
    columns : list of series of narwhals (of a data frame), or of arrays
    is_frame : bool
    """

    names: list[Any]
    columns: list[Any]
    is_frame: bool

    def entries(self, i: int) -> list[Any]:
        """What a column holds."""
        column = self.columns[i]
        return column.to_list() if self.is_frame else column.tolist()

    def kind(self, i: int) -> str:
        """What a column holds by its type: "number", "category", "text", "date" or "object"."""
        dtype = self.columns[i].dtype
        if not self.is_frame:
            kind = dtype.kind
            return "number" if kind in "iufb" else "date" if kind in "mM" else "object"
        if dtype.is_numeric():
            return "number"
        if dtype in (nw.Categorical, nw.Enum, nw.Boolean):
            return "category"
        present = [x for x in self.entries(i) if not tables.is_missing(x)]
        is_text = present and all(isinstance(x, (str, bool, np.bool_)) for x in present)
        return "date" if dtype.is_temporal() else "text" if is_text else "object"

    def numbers(self, at: Sequence[int], advice: str, estimator: Any = None, least: int = 1) -> Any:
        """Some columns as an array of numbers; raises for text, dates and infinity."""
        read = [self._numbers(i, advice) for i in at]
        Z = np.column_stack(read) if read else np.empty((0, 0))
        check: Any = {"estimator": estimator, "input_name": "X", "ensure_min_samples": least}
        try:
            return check_array(Z, dtype=np.float64, ensure_all_finite="allow-nan", **check)
        except ValueError as error:
            if "contains infinity" not in str(error):
                raise
            row, column = (int(i) for i in np.argwhere(np.isinf(Z))[0])
            raise DataError(
                f"{error} The first is in row {row}, column {self.names[at[column]]!r}. Put "
                "NaN for what is not known."
            ) from error

    def _numbers(self, i: int, advice: str) -> Any:
        """The numbers of a column, NaN where they are missing."""
        column, kind, what = self.columns[i], self.kind(i), f"Column {self.names[i]!r} holds"
        if kind == "number":
            cast = column.cast(nw.Float64).to_numpy() if self.is_frame else column
            return np.asarray(cast, dtype=np.float64)
        if kind == "date":
            raise DataError(f"{what} dates, where numbers are expected. {advice}")
        found = np.empty(len(column))
        for row, entry in enumerate(self.entries(i)):
            try:
                found[row] = np.nan if tables.is_missing(entry) else entry
            except (TypeError, ValueError) as error:
                is_time = hasattr(entry, "isoformat") or hasattr(entry, "start_time")
                if isinstance(error, TypeError) and not is_time:
                    raise
                text = f"text, {entry!r}" if isinstance(entry, str) else f"a {type(entry).__name__}"
                raise DataError(
                    f"{what} {text} in row {row}, where numbers are expected. {advice}"
                ) from error
        return found


def read_table(X: Any, estimator: Any = None, reset: bool | None = None, least: int = 1) -> Table:
    """The columns of a data frame or an array; masked entries are missing.

    With `reset`, the estimator learns the names and the number of columns, or checks them.
    """
    kind = type(X)
    if hasattr(kind, "column_names") and hasattr(kind, "to_pandas"):
        X = X.to_pandas()
    if isinstance(X, np.ma.MaskedArray):
        X = np.where(np.ma.getmaskarray(X), np.nan, X.data)
    if not hasattr(X, "shape"):  # some sparse matrices are mappings
        tables.refuse_rowless(X, "X must be a data frame, or an array")
    if hasattr(kind, "to_frame") and not hasattr(kind, "columns"):
        raise DataError(
            f"Expected 2D array, got 1D array instead: a {kind.__name__} of {len(X)} entries. "
            "Reshape your data: X.to_frame() is a table of one column; a single row of a data "
            "frame is frame.iloc[[i]], with two pairs of brackets."
        )
    framed = is_frame(X)
    if framed:
        names = list(X.columns)
        twice = [name for name, n in Counter(names).items() if n > 1]
        if twice:
            raise DataError(
                f"The names of columns must be distinct. {twice[0]!r} is the name of several: "
                "rename them, or leave them out."
            )
        columns = list(nw.from_native(X, eager_only=True).iter_columns())
    else:
        check: Any = {"estimator": estimator, "input_name": "X", "ensure_min_samples": least}
        columns = list(check_array(X, dtype=None, ensure_all_finite=False, **check).T)
        names = list(range(len(columns)))
    if reset is not None:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    return Table(names, columns, framed)


def read_target(estimator: Any, X: Any, y: Any, labels: bool, several: bool) -> Any:
    """The checked targets of rows: numbers, of one output or several, or classes."""
    if y is None:
        validate_data(estimator, X, y, reset=False, skip_check_array=True)  # which says what to do
    if isinstance(y, np.ma.MaskedArray):
        y = np.where(np.ma.getmaskarray(y), np.nan, y.data.astype(object))
    entries: Any = np.asarray(y)
    if entries.dtype.kind in "fO" and entries.ndim in (1, 2):
        flat = [tables.is_missing(entry) for entry in entries.reshape(-1).tolist()]
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


def require_weights(weights: Any) -> None:
    """Raise if weights of rows are negative, infinite or missing."""
    bad = ~((weights >= 0) & (weights < np.inf))
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"Sample weights must be finite and not negative. Got {weights[row]:g} in row {row}."
        )


SLACK = 1e-9
NOT_A_STATE = -1
"""The state of a value that is observed but that the density does not know."""


@dataclass(frozen=True, eq=False)
class Observation:
    """What rows show of one variable.

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
    low, high : arrays of shape (states, columns), or None
        The columns are uniformly distributed between these in every state; a state that is one
        value has equal ends. None: the variable is real.
    bin_edges : array, or None
        The points that separate the bins of a numeric column; bins come first among its states,
        single values follow. None: values that are no states are not known.
    n_bins : int
    n_spare : int
        How many of the last states never occur in data.
    """

    columns: Any
    low: Any = None
    high: Any = None
    bin_edges: Any = None
    n_bins: int = 0
    n_spare: int = 0

    @property
    def n_states(self) -> int | None:
        """The number of states, None for a real variable."""
        return None if self.low is None else len(self.low)

    @property
    def centre(self) -> Any:
        """The middle of every state."""
        return 0.5 * (self.low + self.high)

    def observe(self, Z: Any) -> Observation:
        """What rows of the data show of the variable; NaN is missing."""
        x = Z[:, self.columns]
        known = ~np.isnan(x)
        observed = known.all(axis=1)
        if self.low is None:
            return Observation(observed, np.full(len(x), NOT_A_STATE, dtype=np.intp))
        if len(self.columns) == 1:
            state = self.states_of(np.where(observed, x[:, 0], 0.0))
            return Observation(observed, np.where(observed, state, NOT_A_STATE))
        agree = np.ones((len(x), len(self.low)), dtype=np.bool_)
        for values, seen, bits in zip(x.T, known.T, self.low.T, strict=True):
            agree &= (values[:, None] == bits) | ~seen[:, None]
        agree[~agree.any(axis=1)] = True  # shows nothing that the density understands
        some = ~agree.all(axis=1)
        state = np.where(observed & some, agree.argmax(axis=1), NOT_A_STATE)
        return Observation(observed, state, agree if (some & ~observed).any() else None)

    def states_of(self, x: Any) -> Any:
        """The states of values of a single column."""
        state = np.full(len(x), NOT_A_STATE, dtype=np.intp)
        if self.bin_edges is not None:
            state = np.searchsorted(self.bin_edges, x, side="right")
        values = self.low[self.n_bins : len(self.low) - self.n_spare, 0]
        if len(values):
            order = np.argsort(values, kind="stable")
            at = order[np.minimum(np.searchsorted(values[order], x), len(values) - 1)]
            state = np.where(values[at] == x, at + self.n_bins, state)
        return state

    def unknown(self, x: Any) -> Any:
        """Which values of a single column are no states; NaN is missing."""
        return ~np.isnan(x) & (self.states_of(np.nan_to_num(x)) < 0)

    def fits(self, x: Any) -> Any:
        """How well numbers in the columns fit states: codes by distance, bits by their size.

        (rows, states); those of bits sum to one.
        """
        if x.shape[1] == 1:
            return -np.abs(x - self.low.T)
        none = self.low.sum(axis=1) == 0
        return x @ self.low.T + none * (1.0 - x.sum(axis=1, keepdims=True))


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
    >>> numeric_variable(0, np.array([0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 4.0]), 4).n_states
    4
    """
    x, columns = x[~np.isnan(x)], np.array([column])
    values, counts = np.unique(x, return_counts=True)
    if len(values) <= n_bins:
        values = values if len(values) else np.zeros(1)
        return states_variable(columns, values, 0.5 * (values[1:] + values[:-1]))
    frequent = values[counts * n_bins >= 2 * len(x)]
    rest = x[~np.isin(x, frequent)]
    share = np.linspace(0.0, 1.0, max(1, n_bins - len(frequent)) + 1)
    edges = np.unique(np.quantile(rest, share))
    edges = edges if len(edges) > 1 else np.repeat(edges, 2)
    place = np.searchsorted(_inner(edges), rest, side="right")
    filled = np.bincount(place, minlength=len(edges) - 1) > 0
    edges = np.concatenate([edges[:1], edges[1:][filled]])
    low, high = (np.concatenate([ends, frequent])[:, None] for ends in (edges[:-1], edges[1:]))
    return Variable(columns, low, high, _inner(edges), len(edges) - 1)


def _inner(edges: Any) -> Any:
    """The points that separate bins: a little below their ends, so that these belong to the next.

    Quantiles that are values of the data are so up to rounding, which another unit, or another
    zero, would change.
    """
    slack = SLACK * np.diff(edges)[:-1] + 4.0 * np.finfo(np.float64).eps * np.abs(edges[1:-1])
    return edges[1:-1] - slack


def states_variable(columns: Any, values: Any, bin_edges: Any = None) -> Variable:
    """A column of codes, each of which is a state, or the columns of bits of one category."""
    x = np.asarray(values, dtype=np.float64).reshape(len(values), len(columns))
    return Variable(np.asarray(columns), x, x, bin_edges)


def complete_groups(variables: Sequence[Variable], Z: Any) -> Any:
    """The data with the bits that follow from the others of their group.

    They are zero if another bit is one, and a last one is one if all others are zero, unless the
    variable has a state without a bit.
    """
    Z = np.array(Z, dtype=np.float64)
    for variable in variables:
        if len(variable.columns) > 1:
            x = Z[:, variable.columns]
            missing = np.isnan(x)
            x[missing & (x == 1.0).any(axis=1)[:, None]] = 0.0
            last = (missing.sum(axis=1) == 1) & (np.nansum(np.abs(x), axis=1) == 0)
            if variable.low.any(axis=1).all():
                x[last] = missing[last]
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
        elif cardinality is None or cardinality < n:
            found = "a real variable" if cardinality is None else f"{cardinality} states"
            raise DataError(
                f"{what} must fit the data: its variable {i} must have at least {n} states, as "
                f"column(s) {variable.columns.tolist()} do. Got {found}."
            )
        else:
            at = np.minimum(np.arange(cardinality), n - 1)
            ends = {"low": variable.low[at], "high": variable.high[at]}
            variable = replace(variable, **ends, n_spare=cardinality - n)
        fitted.append(variable)
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
    def column_index(self) -> list[Any]:
        """For every column of the table its columns of numbers."""
        widths = [len(self.categories.get(i, [0])) for i in range(len(self.names))]
        stops = np.cumsum(widths)
        return [np.arange(stop - width, stop) for stop, width in zip(stops, widths, strict=True)]

    @property
    def number_names(self) -> list[Any]:
        """For every column of numbers the name of its column of the table."""
        return [x for x, at in zip(self.names, self.column_index, strict=True) for _ in at]

    @property
    def numeric(self) -> Any:
        """Which columns of numbers hold quantities, not categories."""
        others = {*self.categories, *(i for group in self.groups for i in group)}
        return np.array([i not in others for i, at in enumerate(self.column_index) for _ in at])

    def groups_or_columns(self) -> list[list[int]]:
        """What is known or missing as a whole: groups, and columns that are in none."""
        grouped = {i: group for group in self.groups for i in group}
        every = (grouped.get(i, [i]) for i in range(len(self.names)))
        return [group for i, group in enumerate(every) if group[0] == i]

    @property
    def variable_names(self) -> list[str] | None:
        """The name of every variable, the first of a group's; None if columns have no names."""
        if not all(isinstance(name, str) for name in self.names):
            return None
        return [min(self.names[i] for i in group) for group in self.groups_or_columns()]

    def encode(self, table: Table, estimator: Any = None) -> Any:
        """The columns of numbers; unseen categories are missing, with a warning."""
        n_rows, index = len(table.columns[0]), self.column_index
        size, widest = 8 * n_rows * (int(index[-1][-1]) + 1), max(index, key=len)
        if size > MOST_BYTES:
            name = self.names[next(i for i, at in enumerate(index) if at is widest)]
            raise DataError(
                f"The bits of all categories take {size / 2**30:.1f} GiB, more than "
                f"{MOST_BYTES / 2**30:.3g} GiB: column {name!r} has {len(widest)} categories in "
                f"{n_rows} rows. If it is an identifier, leave it out; else put categories "
                "together."
            )
        Z = np.zeros((n_rows, int(index[-1][-1]) + 1))
        numeric = [i for i in range(len(self.names)) if i not in self.categories]
        if numeric:
            advice = ADVICE + ("" if isinstance(self.names[0], str) else NAMELESS)
            Z[:, [index[i][0] for i in numeric]] = table.numbers(numeric, advice, estimator)
        for i, categories in self.categories.items():
            entries = table.entries(i)
            present = [x for x in dict.fromkeys(entries) if not tables.is_missing(x)]
            number = dict(zip(present, match_labels(categories.tolist(), present), strict=True))
            self.warn_unseen(i, [x for x in present if number[x] < 0])
            codes = np.fromiter((number.get(x, -1) for x in entries), np.intp, len(entries))
            known = codes >= 0
            Z[known, index[i][codes[known]]] = 1.0
            Z[np.ix_(~known, index[i])] = np.nan
        return Z

    def warn_unseen(self, i: int, unseen: list[Any]) -> None:
        """Warn of categories of a column that were not seen in fit, if there are some."""
        if unseen:
            shown = ", ".join(repr(x) for x in unseen[:MAX_SHOWN])
            more = "" if len(unseen) <= MAX_SHOWN else f" and {len(unseen) - MAX_SHOWN} more"
            warnings.warn(
                f"Column {self.names[i]!r} has categories that were not seen in fit: "
                f"{shown}{more}. They are treated as missing.",
                stacklevel=2,
            )

    def standardise(self, Z: Any) -> Any:
        """Columns of numbers in standard units."""
        with np.errstate(over="ignore"):  # what is far beyond all rows in fit stays there
            return np.clip((Z / self.unit - self.centre) / self.scale, -FARTHEST, FARTHEST)

    def undo(self, Z: Any) -> Any:
        """Columns of numbers in their own units."""
        return (Z * self.scale + self.centre) * self.unit

    def variables(self, Z: Any, n_bins: int | None) -> list[Variable]:
        """The variables of the density, in the order of their first columns.

        Without a number of bins, what single columns hold is left to a circuit.
        """
        index, numeric, variables = self.column_index, self.numeric, []
        for group in self.groups_or_columns():
            columns = np.concatenate([index[i] for i in group])
            x = Z[:, columns]
            if group[0] in self.categories:
                variable = states_variable(columns, np.eye(len(columns)))
            elif len(columns) > 1:
                bits = np.eye(len(columns))
                if (~np.isnan(x).any(axis=1) & (x.sum(axis=1) == 0)).any():
                    bits = np.vstack([bits, np.zeros(len(columns))])  # a category without a bit
                variable = states_variable(columns, bits)
            elif n_bins is None:
                variable = Variable(columns)
            elif numeric[columns[0]]:
                variable = numeric_variable(int(columns[0]), x[:, 0], n_bins)
            else:
                values = np.unique(x[~np.isnan(x)])
                variable = states_variable(columns, values if len(values) else [0.0])
            variables.append(variable)
        return variables


def decode_column(Z: Any, categories: Any) -> Any:
    """What rows show of one column: numbers, or categories (None where there is none)."""
    if categories is None:
        return Z[:, 0]
    gap = np.isnan(Z).any(axis=1)
    found = np.array(categories, dtype=object)[np.where(gap[:, None], 0.0, Z).argmax(axis=1)]
    found[gap] = None
    return found


def measure(Z: Any, chosen: Any, sample_weight: Any = None) -> tuple[Any, Any, Any]:
    """Units, centres and scales of chosen columns, as by scikit-learn's StandardScaler.

    Units are one but where squares are out of range. Others stay as they are, and missing values
    do not count.
    """
    unit, scale = np.ones(Z.shape[1]), np.ones(Z.shape[1])
    centre = np.zeros(Z.shape[1])
    chosen = np.flatnonzero(chosen & ~np.isnan(Z).all(axis=0))
    if len(chosen):
        power = np.frexp(np.nanmax(np.abs(Z[:, chosen]), axis=0))[1] - 1
        unit[chosen] = np.ldexp(1.0, np.where(np.abs(power) > LARGEST_POWER, power, 0))
        if sample_weight is not None:  # a column may have no values but in rows of weight zero
            sample_weight = np.maximum(sample_weight, 1e-290 * np.max(sample_weight))
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


def require_states(variables: Sequence[Variable], Z: Any, columns: Encoding | None = None) -> None:
    """Raise if columns hold something else than states of a circuit, or bits of one category."""
    for i, variable in enumerate(variables):
        if variable.low is None:
            continue
        x, single = Z[:, variable.columns], len(variable.columns) == 1
        bad = variable.unknown(x[:, 0])[:, None] if single else ~(np.isnan(x) | (x == 0) | (x == 1))
        several = (x == 1).sum(axis=1, keepdims=True) > 1
        if not (bad.any() or several.any()):
            continue
        row, column = (int(k) for k in np.argwhere(bad if bad.any() else several)[0])
        names = range(Z.shape[1]) if columns is None else columns.number_names
        own, found = [names[k] for k in variable.columns], f"Got {x[row, column]} in row {row}"
        if single:
            raise DataError(
                f"With this circuit, column {own[0]!r} must hold states 0..{len(variable.low) - 1} "
                f"of variable {i}. {found}. Other values need a circuit over real variables, or a "
                "density that is learned."
            )
        raise DataError(
            f"The columns of a one-hot group must hold 0 or 1. {found}, column {own[column]!r}."
            if bad.any()
            else f"At most one column of a one-hot group can be 1. Row {row} has several, of "
            f"columns {own}."
        )


def learn_encoding(estimator: Any, X: Any, labels: Mapping[Any, Any]) -> tuple[Encoding, Any]:
    """How an estimator reads tables like this one, and this one as columns of numbers.

    Parameters
    ----------
    estimator : object with `categorical_features` and `groups`
    X : table
    labels : mapping from names of columns to labels
        Categories that are known besides those that the table happens to show.
    """
    table, by_type = read_table(X, estimator, reset=True), estimator.categorical_features
    names, kinds = table.names, [table.kind(i) for i in range(len(table.columns))]
    categorical = categorical_columns(estimator, table)
    _warn_of_missing_bits(table, kinds)
    categories = {i: _categories(table, i, labels.get(names[i])) for i in categorical}
    for i in categorical if isinstance(by_type, str) else ():
        if kinds[i] == "text":  # nobody called these categorical
            _warn_of_free_text(names[i], table.entries(i), categories[i].tolist())
    encoding = Encoding(names, categories, _groups(estimator.groups, names, categories))
    Z = encoding.encode(table, estimator)
    variables = encoding.variables(Z, None)
    require_states(variables, Z, encoding)
    return encoding, complete_groups(variables, Z)


def categorical_columns(estimator: Any, table: Table) -> list[int]:
    """The numbers of the columns of a table that hold categories for an estimator."""
    chosen, names = estimator.categorical_features, table.names
    if isinstance(chosen, str):
        every = range(len(names)) if table.is_frame else ()
        return [i for i in every if table.kind(i) in ("category", "text")]
    known = names if table.is_frame else None
    chosen = [] if chosen is None else chosen
    return tables.column_numbers(chosen, known, len(names), "categorical_features")


def _categories(table: Table, i: int, labels: Any) -> Any:
    """The categories of a column: the labels, if they are more than what is there.

    Those of a set are sorted.
    """
    name, present = table.names[i], {x for x in table.entries(i) if not tables.is_missing(x)}
    present |= labels if isinstance(labels, set) else set()
    if any(isinstance(entry, (float, np.floating)) and np.isinf(entry) for entry in present):
        raise DataError(f"The categories of column {name!r} contain infinity.")
    try:
        distinct = sorted(present)
    except TypeError as error:
        raise DataError(
            f"The categories of column {name!r} must be of one type. Got entries of several types, "
            f"such as {sorted({type(x).__name__ for x in present})}."
        ) from error
    distinct = list(labels) if labels is not None and present < set(labels) else distinct
    found = np.empty(len(distinct) or 1, dtype=object)
    found[: len(distinct)] = distinct
    return found


def _groups(groups: Any, names: list[Any], categories: dict[int, Any]) -> list[list[int]]:
    resolved: list[list[int]] = []
    seen = set(categories)
    for group in [] if groups is None else groups:
        members = [group] if isinstance(group, (str, int, np.integer)) else list(group)
        columns = [tables.column_number(x, names, len(names), "groups") for x in members]
        if seen & set(columns) or not columns:
            raise DataError(
                "The 'groups' parameter must name columns that are not categorical, each once. "
                f"Got {groups!r} instead."
            )
        seen.update(columns)
        resolved.append(columns)
    return resolved


def _warn_of_free_text(name: Any, column: list[Any], categories: list[Any]) -> None:
    """Warn if text that is categorical by its type alone is different in most rows."""
    present = sum(not tables.is_missing(entry) for entry in column)
    numeric = isinstance(categories[0], str) and tables.look_numeric(categories)
    most = FEW_CATEGORIES if numeric else max(FEW_CATEGORIES, present / 2)
    if len(categories) <= most or not isinstance(categories[0], str):
        return
    advice = "Names and free text say nothing of other rows: leave the column out"
    if numeric:
        advice = "These look like numbers: convert the column, for example by pandas.to_numeric"
    warnings.warn(
        f"Column {name!r} holds text, and is taken for categorical: {len(categories)} categories "
        f"in {present} rows. {advice}, or name it in categorical_features.",
        stacklevel=2,
    )


def _warn_of_missing_bits(table: Table, kinds: list[str]) -> None:
    """Warn if a one-hot encoder made a category of missing values: a bit called sex_nan."""
    for name in table.names:
        prefix, _, value = str(name).rpartition("_")
        if not prefix or value not in MISSING_BITS:
            continue
        bits = [i for i, x in enumerate(table.names) if str(x).startswith(f"{prefix}_")]
        if len(bits) == 1 or any(kinds[i] != "number" for i in bits):
            continue
        x = table.numbers(bits, ADVICE)
        if ((x == 0) | (x == 1)).all() and (x.sum(axis=1) == 1).all():
            warnings.warn(
                f"Column {name!r} looks like the bit that a one-hot encoder sets where {prefix!r} "
                "is missing, so that these rows count as complete, of a category of their own. "
                f"To have {prefix!r} averaged out where it is missing, leave the encoder out: "
                "text columns of data frames are categories, and NaN in them is missing.",
                stacklevel=2,
            )
