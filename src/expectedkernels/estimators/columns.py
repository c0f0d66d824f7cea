"""Columns: from those of tables to columns of numbers, and to variables."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from expectedkernels.circuits.frames import column_number, column_numbers, match_labels
from expectedkernels.circuits.numbers import look_numeric
from expectedkernels.errors import DataError
from expectedkernels.estimators.tables import (
    by_dtype,
    column_names,
    is_category,
    is_missing,
    n_columns,
    read_table,
)
from expectedkernels.estimators.variables import (
    Variable,
    codes_variable,
    completed_groups,
    group_variable,
    numeric_variable,
)

MAX_SHOWN = 5
"""How many unseen categories a warning names."""
FEW_CATEGORIES = 20
"""So many categories are never too many."""
LARGEST_POWER = 330
"""Numbers above two to this, or all below its inverse, are too large or small to be squared."""
MOST_BYTES = 2**32
"""What the bits of all categories may take."""
FARTHEST = 1e150
"""Numbers beyond this, at a common scale, are as good as this."""
MISSING_BITS = ("nan", "None", "<NA>")
"""What one-hot encoders call the category of missing values."""


@dataclass(frozen=True, eq=False)
class Columns:
    """How the columns of a table become columns of numbers.

    Numeric columns stay as they are; a categorical column becomes one bit per category.

    Attributes
    ----------
    names : list
        What columns are called in messages.
    categories : dict from columns to arrays
        The categories of every categorical column.
    groups : list of lists of int
        Columns that together are one categorical variable: one-hot bits, or a single column of
        codes.
    powers : dict from columns to int
        Powers of two that numeric columns are divided by, where their squares are out of range.
    """

    names: list[Any]
    categories: dict[int, Any]
    groups: list[list[int]]
    powers: dict[int, int] = field(default_factory=dict)

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
                Z[:, places[i][0]] = self._in_range(i, column)
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
        return float(self._in_range(i, np.array([number]))[0])

    def _in_range(self, i: int, column: Any) -> Any:
        """The numbers of a column, divided by its power of two."""
        if i not in self.powers:
            return column
        with np.errstate(over="ignore"):  # what is far beyond all rows in fit stays there
            return np.clip(np.ldexp(column, -self.powers[i]), -FARTHEST, FARTHEST)

    def brought_in_range(self, Z: Any) -> tuple[Columns, Any]:
        """Columns that divide by powers of two where squares are out of range, and their numbers.

        Parameters
        ----------
        Z : array
            The columns of numbers, with no power taken out.
        """
        grouped = {i for group in self.groups for i in group}
        powers = {}
        for i, place in enumerate(self.places):
            if i in self.categories or i in grouped:
                continue
            x = Z[:, place[0]]
            power = int(np.frexp(np.abs(x[~np.isnan(x)]).max(initial=0.0))[1])
            if abs(power) > LARGEST_POWER:
                powers[i] = power
        columns, Z = replace(self, powers=powers), Z.copy()
        for i in powers:
            place = self.places[i][0]
            Z[:, place] = columns._in_range(i, Z[:, place])
        return columns, Z

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
            known = ~np.isnan(Z[:, place])
            bad = known & (variable.states_of(np.nan_to_num(Z[:, place])) < 0)
            if bad.any():
                _warn_unseen(self.names[i], np.unique(Z[bad, place]).tolist())
                Z[bad, place] = np.nan
        return Z

    def variables(self, Z: Any, n_bins: int) -> list[Variable]:
        """The variables of the density, in the order of their first columns."""
        places = self.places
        grouped = {i: group for group in self.groups for i in group}
        variables = []
        for i, place in enumerate(places):
            if i in self.categories:
                n = len(place)
                single = n == 1
                bits = np.eye(n)
                variables.append(
                    codes_variable(int(place[0]), [1.0]) if single else group_variable(place, bits)
                )
            elif i not in grouped:
                column = int(place[0])
                variables.append(numeric_variable(column, Z[:, column], n_bins))
            elif grouped[i][0] == i:
                columns = [int(places[j][0]) for j in grouped[i]]
                variables.append(self._group(columns, Z))
        return variables

    @property
    def _bits(self) -> list[tuple[list[int], list[Any]]]:
        """The columns of numbers of one-hot groups, and their names."""
        places = self.places
        return [
            ([int(places[i][0]) for i in group], [self.names[i] for i in group])
            for group in self.groups
            if len(group) > 1
        ]

    def check_bits(self, Z: Any) -> None:
        """Raise if one-hot groups hold anything but zeros and at most one 1."""
        for columns, names in self._bits:
            require_bits(Z[:, columns], names)

    def completed(self, Z: Any) -> Any:
        """The columns of numbers with the bits that follow from the others of their group."""
        return completed_groups([self._group(columns, Z) for columns, _ in self._bits], Z)

    def _group(self, columns: list[int], Z: Any) -> Variable:
        x = Z[:, columns]
        if len(columns) == 1:
            values = np.unique(x[~np.isnan(x)])
            return codes_variable(columns[0], values if len(values) else [0.0])
        bits = np.eye(len(columns))
        if (~np.isnan(x).any(axis=1) & (x.sum(axis=1) == 0)).any():
            bits = np.vstack([bits, np.zeros(len(columns))])  # the category without a column
        return group_variable(columns, bits)


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
) -> tuple[Columns, Any]:
    """How to read tables like this one, and this one as columns of numbers.

    Parameters
    ----------
    estimator, X, categorical_features, groups
        As they were given.
    labels : mapping from names of columns to labels, optional
        Categories that are known besides those that the table happens to show.
    """
    names = column_names(X)
    categorical = _categorical(estimator, X, categorical_features, names)
    table = read_table(estimator, X, categorical, reset=True)
    names = list(range(len(table))) if names is None else names
    warn_of_missing_bits(names, table)
    categories = {
        i: _with_labels(_categories(table[i], names[i]), (labels or {}).get(names[i]))
        for i in categorical
    }
    if isinstance(categorical_features, str):
        called = {i for i, dtype in enumerate(getattr(X, "dtypes", [])) if is_category(dtype)}
        text = {i: found for i, found in categories.items() if i not in called}
        _warn_of_free_text(names, table, text)
    columns = Columns(names, categories, _groups(groups, names, categories))
    Z = columns.encode(table)
    columns.check_bits(Z)
    return columns, columns.completed(Z)


def _categorical(estimator: Any, X: Any, chosen: Any, names: list[Any] | None) -> list[int]:
    if chosen is None:
        return []
    if isinstance(chosen, str):
        return by_dtype(X)
    return column_numbers(chosen, names, n_columns(estimator, X), "categorical_features")


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
