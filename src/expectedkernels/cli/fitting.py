"""Estimators fitted to tables from files, and tables read as those that they were fitted to."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from expectedkernels.circuits.frames import Columns, FrameColumn
from expectedkernels.circuits.numbers import look_numeric
from expectedkernels.circuits.schema import listed
from expectedkernels.cli.base import note, warn
from expectedkernels.cli.tables import (
    as_text,
    called,
    in_order,
    read_all,
    read_columns,
    select,
    spelled,
)
from expectedkernels.errors import DataError
from expectedkernels.estimators.least_squares import ExpectedKernelClassifier
from expectedkernels.estimators.regressors import ExpectedKernelRidge
from expectedkernels.io.tables import value_of

FEW_CATEGORIES = 20
"""So many categories are never too many."""
PLAIN = "them with a decimal point, without units and without signs between thousands"
MAX_SHOWN = 5
"""How many words of a column a warning names."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """An estimator, and the table that it was fitted to.

    Attributes
    ----------
    model : fitted estimator
    table : Columns
        Without the target.
    path : str
    classes : list, or None
        The classes, None for numbers.
    """

    model: Any
    table: Columns
    path: str
    classes: list[Any] | None


def fit(path: str, target: str, classify: bool, without: Sequence[str] | None, seed: int) -> Fitted:
    """A regressor for a target of numbers, a classifier for others, fitted to a table."""
    table = read_columns(path, without)
    column = next((c for c in table.columns if c.name == target), None)
    if column is None:
        names = listed(c.name for c in table.columns)
        raise DataError(f"{called(path)} has no column {target!r} to predict. It has {names}.")
    known = ~_missing(column)
    if not known.any():
        raise DataError(f"Column {target!r} of {called(path)} has no values to learn from.")
    if not known.all():
        warn(f"{called(path)}: {(~known).sum()} rows have no {target!r}, and are left out.")
        table, column = _rows(table, known), _row_part(column, known)
    table = select(table, [c.name for c in table.columns if c.name != target])
    warn_of_free_text(table, path)
    labels = classify or column.kind != "number"
    if labels and not classify:
        _doubt_classes(column, path)
    kind: Any = ExpectedKernelClassifier if labels else ExpectedKernelRidge
    X, categorical = objects(table, path)
    model = kind(alpha="auto", categorical_features=categorical or None, random_state=seed)
    note(f"Fitting {kind.__name__} to {len(X)} rows ...")
    model.fit(X, np.asarray(column.values))
    return Fitted(model, table, path, model.classes_.tolist() if labels else None)


def _missing(column: FrameColumn) -> Any:
    if column.kind == "number":
        return np.isnan(column.values)
    return np.array([value is None for value in column.values], dtype=np.bool_)


def _row_part(column: FrameColumn, chosen: Any) -> FrameColumn:
    values = column.values
    if column.kind == "number":
        return FrameColumn(column.name, "number", values[chosen])
    kept = [values[i] for i in np.flatnonzero(chosen)]
    return FrameColumn(column.name, column.kind, kept, column.categories)


def _rows(table: Columns, chosen: Any) -> Columns:
    return Columns(tuple(_row_part(c, chosen) for c in table.columns), table.names)


def objects(table: Columns, path: str) -> tuple[Any, list[int]]:
    """A table as an array, and the numbers of its columns that hold categories."""
    for column in table.columns:
        if column.kind == "number" and np.isinf(column.values).any():
            row = int(np.argmax(np.isinf(column.values)))
            raise DataError(
                f"Column {column.name!r} of {called(path)} is infinite in row {row}. Leave cells "
                "empty where nothing is known."
            )
    categorical = [i for i, column in enumerate(table.columns) if column.kind != "number"]
    if not categorical:
        return np.column_stack([column.values for column in table.columns]), []
    X = np.empty((len(table), len(table.columns)), dtype=object)
    for i, column in enumerate(table.columns):
        X[:, i] = column.values
    return X, categorical


def warn_of_free_text(table: Columns, path: str) -> None:
    """Warn of text that is different in most rows, which says nothing of other rows."""
    for column in table.columns:
        many, odd = _many_words(column), _among_numbers(column)
        if odd:
            warn(
                f"{called(path)}: column {column.name!r} is text, as it holds {_shown(odd)} among "
                "numbers. Leave such cells empty if nothing is known there."
            )
        elif many is not None:
            advice = "Names and free text say nothing of other rows"
            if look_numeric(column.distinct):
                advice = f"If they are numbers, write {PLAIN}; if not"
            warn(f"{called(path)}: {many}. {advice}: leave it out, by --without '{column.name}'.")


def warn_of_empty(table: Columns, path: str) -> None:
    """Warn of columns without values, which `impute` leaves as they are."""
    empty = [column.name for column in table.columns if _missing(column).all()]
    if empty:
        warn(f"{called(path)}: without a value, and left as they are: {', '.join(empty)}.")
        warnings.filterwarnings("ignore", "Columns without a value in fit")  # the same, in numbers


def _many_words(column: FrameColumn) -> str | None:
    """How many different words a column of text has, None if these are few."""
    distinct, present = len(column.distinct), int((~_missing(column)).sum())
    if column.kind != "label" or distinct <= max(FEW_CATEGORIES, present / 2):
        return None
    return f"column {column.name!r} has {distinct} different words in {present} rows"


def _among_numbers(column: FrameColumn) -> list[Any]:
    """The words in a column of text that is one of numbers but for few of them."""
    if column.kind != "label":
        return []
    odd = [word for word in column.distinct if value_of(str(word)) is None]
    numbers = len(column.distinct) - len(odd)
    return odd if numbers > max(FEW_CATEGORIES, len(odd)) else []


def _shown(words: list[Any]) -> str:
    more = "" if len(words) <= MAX_SHOWN else f" and {len(words) - MAX_SHOWN} more"
    return ", ".join(map(repr, words[:MAX_SHOWN])) + more


def _doubt_classes(column: FrameColumn, path: str) -> None:
    """Refuse text that looks like numbers for classes, and warn of words that are too many."""
    many = _many_words(column)
    if many is None:
        return
    if look_numeric(column.distinct):
        raise DataError(
            f"{called(path)}: {many}, such as {column.distinct[0]!r}, that look like numbers. "
            f"Write {PLAIN}; with --classify they are names of classes."
        )
    warn(f"{called(path)}: {many}. They are taken for names of classes: few rows say what each is.")
    warnings.filterwarnings("ignore", "The number of unique classes")  # which says the same


def read_like(path: str, train: Columns, train_path: str) -> tuple[Any, Columns]:
    """The rows of a file as an array like that of a training table, and all its columns."""
    names = [column.name for column in train.columns]
    every = read_all(path, lambda name: name not in names)
    table = in_order(every, names, path, train_path)
    pairs = zip(table.columns, train.columns, strict=True)
    read = tuple(_like(column, known, path) for column, known in pairs)
    return objects(Columns(read, table.names), path)[0], every


def _like(column: FrameColumn, known: FrameColumn, path: str) -> FrameColumn:
    """A column of the kind of the one in training; words that were not there are missing."""
    if known.kind == "number":
        if column.kind == "number":
            return column
        row = int(np.argmin(_missing(column)))
        if _missing(column).all():
            return FrameColumn(column.name, "number", np.full(len(column.values), np.nan))
        raise DataError(
            f"Column {column.name!r} of {called(path)} holds {column.values[row]!r} in row {row}, "
            "and only numbers in the training table."
        )
    column = as_text(column) if column.kind == "number" else spelled(column, known.distinct)
    words = set(known.distinct)
    unseen = [x for x in column.distinct if x not in words]
    if unseen:
        warn(
            f"{called(path)}: column {column.name!r} has categories that the training table has "
            f"not: {_shown(unseen)}. They are treated as missing."
        )
    values = [x if x in words else None for x in column.values]
    return FrameColumn(column.name, known.kind, values)
