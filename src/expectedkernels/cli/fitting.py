"""Estimators fitted to tables from files, and tables read as those that they were fitted to."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any

import numpy as np

from expectedkernels.checks import DataError
from expectedkernels.cli import input as files
from expectedkernels.cli.input import ADVICE, LIKE_NUMBER, MAX_SHOWN
from expectedkernels.cli.options import note, warn
from expectedkernels.data.schema import listed
from expectedkernels.data.tables import FrameColumn, as_label, match_labels
from expectedkernels.estimators.imputation import CircuitImputer
from expectedkernels.estimators.regression import ExpectedKernelClassifier, ExpectedKernelRidge
from expectedkernels.io import table_files
from expectedkernels.io.skops_format import load_estimator, save_estimator
from expectedkernels.io.table_files import POINT, TEXT, TRUTH, RawTable


@dataclass(frozen=True, eq=False)
class Fitted:
    """An estimator, and what is needed to read tables for it.

    Attributes
    ----------
    model : fitted estimator
    path : str
        The file of the table that it was fitted to, or its own.
    forms : dict from names to types
        The columns that it predicts from, in their order.
    marks : list of str
        Text of cells without a value.
    target : str
        What it predicts.
    rows : int
        How many rows it was fitted to; 0 if that is not known.
    """

    model: Any
    path: str
    forms: dict[str, str]
    marks: list[str]
    target: str = "prediction"
    rows: int = 0

    @property
    def size(self) -> str:
        """How large it is, in words."""
        kind = type(self.model).__name__
        return f"{f'{self.rows} rows' if self.rows else kind}, {len(self.forms)} columns"

    @property
    def classes(self) -> list[str] | None:
        """The names of the classes, None if numbers are predicted."""
        if not hasattr(self.model, "classes_"):
            return None
        return [str(as_label(name)) for name in self.model.classes_.tolist()]

    def levels(self, name: str) -> list[Any] | None:
        """The categories of a column, None if it is numeric."""
        found = self.model.columns_.categories.get(list(self.forms).index(name))
        return None if found is None else found.tolist()


def fit(
    path: str,
    target: str,
    classify: bool,
    without: Sequence[str] | None,
    missing: Sequence[str] | None,
    seed: int,
) -> Fitted:
    """A regressor for a target of numbers, a classifier for others, fitted to a table."""
    raw, marks = files.leave_out(files.read_file(path, missing), without), list(missing or ())
    forms = table_files.forms_of([raw])
    if target not in forms:
        names = listed(forms)
        raise DataError(
            f"{files.capitalized(raw.path)} has no column {target!r} to predict. It has {names}."
        )
    forms[target] = TEXT if classify else forms[target]
    if not classify:
        _check_target(raw, target, forms[target])
    table = table_files.frame_of(raw, forms)
    column = next(c for c in table.columns if c.name == target)
    observed = ~files.missing_mask(column)
    if not observed.any():
        raise DataError(f"Column {target!r} of {raw.path} has no values to learn from.")
    if not observed.all():
        warn(f"{raw.path}: {(~observed).sum()} rows have no {target!r}, and are left out.")
    features = [c for c in table.columns if c.name != target]
    if not features:
        raise DataError(
            f"{files.capitalized(raw.path)} has no column beside {target!r} to predict it from."
        )
    files.warn_of_text(raw.path, features)
    labels = column.kind != "number"
    if labels and (many := files.many_words(column)):
        warn(f"{raw.path}: {many}. They are taken for names of classes: few rows say what each is.")
        warnings.filterwarnings("ignore", "The number of unique classes")  # which says the same
    kind: Any = ExpectedKernelClassifier if labels else ExpectedKernelRidge
    X, categorical = objects(features, raw.path)
    model = kind(alpha="auto", categorical_features=categorical or None, random_state=seed)
    types = {"number": float, "bool": bool, "label": str}
    X, y = X[observed], np.asarray(column.values)[observed].astype(types[column.kind])
    note(f"Fitting {kind.__name__} to {len(X)} rows ...")
    try:
        model.fit(X, y)
    except DataError as error:
        if "max_bytes" not in str(error):  # which no command takes
            raise
        raise DataError(
            f"{files.capitalized(raw.path)} has {len(X)} rows to learn from, and the matrix of all "
            "pairs of them takes too much memory. Give a table with a random sample of its rows."
        ) from error
    forms = {c.name: forms[c.name] for c in features}
    return Fitted(model, raw.path, forms, marks, target, len(X))


def save(fitted: Fitted, out: str) -> None:
    """Write an estimator to a file, with what is needed to read tables for it."""
    model, names = fitted.model, list(fitted.forms)
    if fitted.classes is None and fitted.rows > 1:  # calibrated once, and not in every command
        model.predict_interval(np.full((1, len(names)), None, dtype=object))
    model.columns_ = replace(model.columns_, names=names)
    model.feature_names_in_ = np.array(names, dtype=object)
    model.table_ = {"target": fitted.target, "forms": fitted.forms, "missing": fitted.marks}
    save_estimator(model, out)


def load(path: str, missing: Sequence[str] | None) -> Fitted:
    """The estimator in a file, also one that was fitted and saved elsewhere."""
    model = load_estimator(path)
    if not hasattr(model, "columns_"):
        raise DataError(f"{path} holds a {type(model).__name__}, which is not of expectedkernels.")
    names = list(map(str, model.columns_.names))
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_  # rows are arrays here, of columns in this order
    about = getattr(model, "table_", {})
    forms = about.get("forms") or {
        name: TEXT if i in model.columns_.categories else "" for i, name in enumerate(names)
    }
    marks = [*about.get("missing", ()), *(missing or ())]
    return Fitted(model, path, forms, marks, about.get("target", "prediction"))


def fit_imputer(raw: RawTable, strategy: str, seed: int) -> Fitted:
    """An imputer, fitted to a table."""
    forms = table_files.forms_of([raw])
    table = table_files.frame_of(raw, forms)
    files.warn_of_text(raw.path, table.columns)
    empty = [column.name for column in table.columns if files.missing_mask(column).all()]
    if empty:
        warn(f"{raw.path}: without a value, and left as they are: {', '.join(empty)}.")
        warnings.filterwarnings("ignore", "Columns without a value in fit")  # the same, in numbers
    X, categorical = objects(table.columns, raw.path)
    imputer = CircuitImputer(strategy, categorical_features=categorical or None, random_state=seed)
    return Fitted(imputer.fit(X), raw.path, forms, list(raw.columns[0].marks))


def as_imputer(fitted: Fitted, strategy: str, seed: int) -> Fitted:
    """An imputer with the density of the columns that an estimator predicts from."""
    model = fitted.model
    if isinstance(model, CircuitImputer):
        return replace(fitted, model=model.set_params(strategy=strategy, random_state=seed))
    imputer = CircuitImputer(strategy, density=model.density, random_state=seed)
    for name in ("n_features_in_", "columns_", "density_", "circuit_", "_unseen"):
        setattr(imputer, name, getattr(model, name))
    imputer._tree = None
    imputer._require_circuit("--strategy mean")
    return replace(fitted, model=imputer)


def read_like(
    raw: RawTable, fitted: Fitted, *, partly: bool = False
) -> tuple[Any, dict[str, str], list[Any]]:
    """The rows of a file as an array for an estimator; types of columns; where these have no value.

    Parameters
    ----------
    raw : RawTable
    fitted : Fitted
    partly : bool
        Whether some columns may be absent: nothing is known of them then.
    """
    names = list(fitted.forms)
    absent = [name for name in names if name not in {column.name for column in raw.columns}]
    if absent and (not partly or absent == names):
        raise DataError(
            f"{files.capitalized(raw.path)} lacks columns of {fitted.path}: {listed(absent)}. "
            "Where nothing is known, add columns without values."
        )
    own = table_files.forms_of([raw])
    numeric = {TEXT: POINT, TRUTH: POINT}
    forms = {
        name: fitted.forms[name] or numeric.get(form, form)
        for name, form in own.items()
        if name in names
    }
    found = {column.name: column for column in table_files.frame_of(raw, forms).columns}
    nothing = np.full(len(raw), np.nan)
    columns = [found[x] if x in found else FrameColumn(x, "number", nothing) for x in names]
    read = [_in_levels(column, fitted.levels(column.name), raw.path) for column in columns]
    return objects(read, raw.path)[0], forms, [files.missing_mask(column) for column in columns]


def _in_levels(column: FrameColumn, levels: list[Any] | None, path: str) -> FrameColumn:
    """A column with the categories of training, if it has any; others are missing."""
    if levels is None:
        return column
    if column.kind == "number":
        return FrameColumn(column.name, "label", [None] * len(column.values))
    levels = [as_label(level) for level in levels if level is not None]
    found = match_labels(levels, column.distinct)
    known = {x: levels[i] for x, i in zip(column.distinct, found, strict=True) if i >= 0}
    if unseen := [x for x in column.distinct if x not in known]:
        warn(
            f"{path}: column {column.name!r} has categories that the training table has not: "
            f"{files.quoted(unseen)}. They are treated as missing."
        )
    return FrameColumn(column.name, "label", [known.get(x) for x in column.values])


def objects(columns: Sequence[FrameColumn], path: str) -> tuple[Any, list[int]]:
    """Columns as an array, and the numbers of those that hold categories."""
    for column in columns:
        if column.kind == "number" and np.isinf(column.values).any():
            row = int(np.argmax(np.isinf(column.values)))
            raise DataError(
                f"Column {column.name!r} of {path} is infinite in row {row}. Leave cells empty "
                "where nothing is known."
            )
    categorical = [i for i, column in enumerate(columns) if column.kind != "number"]
    if not categorical:
        return np.column_stack([column.values for column in columns]), []
    X = np.empty((len(columns[0].values), len(columns)), dtype=object)
    for i, column in enumerate(columns):
        X[:, i] = column.values
    return X, categorical


def _check_target(raw: RawTable, target: str, form: str) -> None:
    """Refuse a target of numbers that are written as text, or have words among them."""
    place, classes = f"Column {target!r} of {raw.path}", "with --classify, all are names of classes"
    column = raw[target]
    odd: Sequence[str] = list(table_files.marks_among_numbers(column, form))
    if form == TEXT and not odd:
        words = column.words or set(map(str, column.values)) - {"None"}
        if files.look_numeric(words):
            shown = next(filter(LIKE_NUMBER.fullmatch, sorted(words)))
            raise DataError(
                f"{place} holds numbers that are written as text, such as {shown!r}. "
                f"{ADVICE}; {classes}."
            )
        odd = files.among_numbers(words)
    if odd:
        remedy = " ".join(f"--missing {quote(word)}" for word in odd[:MAX_SHOWN])
        raise DataError(
            f"{place} holds {files.quoted(odd)} among numbers. Where nothing is known, leave "
            f"cells empty or add {remedy}; {classes}."
        )
