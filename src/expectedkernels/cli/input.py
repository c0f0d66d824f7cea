"""Tables and models that commands read, and estimators fitted to tables."""

from __future__ import annotations

import csv
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from gzip import compress
from io import StringIO
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import typer

import expectedkernels as ek
from expectedkernels import io
from expectedkernels.checks import CircuitError, DataError, ParseError, PropertyError, Verdict
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.graph import Graph
from expectedkernels.circuits.properties import Properties, properties
from expectedkernels.cli.options import TABLES, note, warn
from expectedkernels.data.schema import Schema, frame_schema, joint_columns, listed
from expectedkernels.data.tables import (
    Columns,
    FrameColumn,
    as_label,
    binned,
    edges_of,
    in_bins,
    is_missing,
    match_labels,
)
from expectedkernels.io import suffix_of, table_files
from expectedkernels.io.table_files import AMONG_NUMBERS, POINT, TEXT, TRUTH, RawColumn, RawTable

STANDARD_INPUT = "standard input"
MOST_STATES = 100
"""Columns of more different words are refused."""
FEW_CATEGORIES, FEW_ROWS = 20, 10
"""So many categories are never too many, and so few rows do not tell."""
SIGNS = re.escape("$€£¥₹")
LIKE_NUMBER = re.compile(
    rf"[+-]?(?P<before>[{SIGNS}]|[A-Z]{{3}} )?\s*[+-]?"
    rf"(\d{{1,3}}([.,'\s]\d{{3}})+|\d+)([.,]\d+)?\s*"
    rf"(?P<after>%|[{SIGNS}]|[^\W\d_]\S{{0,7}})?"
)
"""A number with signs between thousands, a currency or a unit."""
ORDINALS = {"st", "nd", "rd", "th"}
MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
DATE = re.compile(
    rf"(\d{{4}}[-/.]\d\d?([-/.]\d\d?)?|\d\d?[-/.]\d\d?[-/.]\d{{2,4}}|{MONTH} \d\d?,? \d{{2,4}}|"
    rf"\d\d? {MONTH},? \d{{2,4}}|{MONTH} \d{{4}}|\d\d?:\d\d)([T ,]+\d\d?:\d\d.*|:\d\d.*)?",
    re.IGNORECASE,
)
ADVICE = "Write numbers with a decimal point, without units and without signs between thousands"
MAX_SHOWN = 5
"""How many words of a column a message names."""


def read_tables(
    paths: Sequence[str],
    without: Sequence[str] | None = None,
    missing: Sequence[str] | None = None,
) -> list[Columns]:
    """The columns of tables in files (-: standard input): the same, of one type in all of them."""
    files = {path: leave_out(read_file(path, missing), without) for path in dict.fromkeys(paths)}
    if named := next((table for table in files.values() if table.named), None):
        files = {path: _named_like(table, named) for path, table in files.items()}
    first = next(iter(files.values()))
    for table in files.values():
        known, found = ([column.name for column in x.columns] for x in (first, table))
        if sorted(found) != sorted(known):
            raise DataError(
                f"{capitalized(table.path)} must have the same columns as {first.path}. "
                f"Got {listed(found)} and {listed(known)}."
            )
    forms = table_files.forms_of(list(files.values()))
    frames = {path: table_files.frame_of(table, forms) for path, table in files.items()}
    joint = joint_columns(list(frames.values()), "Table {}")
    warn_of_text(" and ".join(table.path for table in files.values()), joint)
    return [frames[path] for path in paths]


def _named_like(table: RawTable, other: RawTable) -> RawTable:
    """A table without names with those of another one of as many columns."""
    if table.named or len(table.columns) != len(other.columns):
        return table
    pairs = zip(table.columns, other.columns, strict=True)
    return replace(table, columns=tuple(replace(mine, name=its.name) for mine, its in pairs))


def read_file(path: str, missing: Sequence[str] | None = None) -> RawTable:
    """The table in a file (-: standard input)."""
    data = typer.get_binary_stream("stdin").read() if path == "-" else None
    return table_files.read_raw(STANDARD_INPUT if path == "-" else path, data, missing or ())


def leave_out(table: RawTable, without: Sequence[str] | None) -> RawTable:
    """A table without some columns; raises if one of them is not there."""
    known = [column.name for column in table.columns]
    unknown = [name for name in without or () if name not in known]
    if unknown:
        raise DataError(
            f"{capitalized(table.path)} has no column {unknown[0]!r} to leave out. It has "
            f"{listed(known)}."
        )
    kept = tuple(column for column in table.columns if column.name not in (without or ()))
    if not kept:
        raise DataError("There is no column left.")
    return replace(table, columns=kept)


def capitalized(path: str) -> str:
    """How sentences that begin with a file call it."""
    return path.capitalize() if path == STANDARD_INPUT else path


def warn_of_text(path: str, columns: Iterable[FrameColumn]) -> None:
    """Name, in one warning, columns of text that are probably no categories, and the remedy."""
    remedies = [
        f"{ADVICE[0].lower()}{ADVICE[1:]}",
        "name cells without a value:",
        "write dates as numbers, such as days or months",
        "",
    ]
    suspects = []
    for column in columns:
        words = [] if column.kind != "label" else list(map(str, column.distinct))
        dates = sum(DATE.fullmatch(word) is not None for word in words)
        if look_numeric(words):
            example = next(filter(LIKE_NUMBER.fullmatch, words))
            suspects.append((0, column.name, f"numbers written as text: {example!r}"))
        elif odd := among_numbers(words)[:MAX_SHOWN]:
            suspects.append((1, column.name, f"words among numbers: {quoted(odd)}"))
            remedies[1] += "".join(f" --missing {quote(word)}" for word in odd)
        elif words and dates > 0.9 * len(words):
            suspects.append((2, column.name, "dates or times"))
        elif many_words(column):
            suspects.append((3, column.name, "identifiers or free text"))
    if not suspects:
        return
    suspects.sort(key=lambda suspect: suspect[0])
    listing = ", ".join(f"{name!r} ({reason})" for _, name, reason in suspects)
    leave = " ".join(f"--without {quote(name)}" for _, name, _ in suspects)
    others = [remedies[i] for i in sorted({i for i, _, _ in suspects} - {3})]
    remedy = "; or ".join([f"Leave them out: {leave}", *others])
    warn(f"{path}: text is categories, probably not meant for {listing}. {remedy}.")


def look_numeric(words: Collection[str]) -> bool:
    """Whether all words are numbers with separators, a currency or a unit, the same in all.

    Marks of missing values among them do not count.

    Examples
    --------
    >>> look_numeric(["3,300 g", "4 g", "-"]), look_numeric(["1a", "1b"])
    (True, False)
    """
    words = [word for word in words if word.lower() not in AMONG_NUMBERS]
    found = [LIKE_NUMBER.fullmatch(word) for word in words]
    units = {(m["before"] or "", m["after"] or "") for m in found if m} - {("", "")}
    return all(found) and bool(words) and len(units) < 2 and not {u for _, u in units} & ORDINALS


def many_words(column: FrameColumn) -> str | None:
    """How many different words a column of text has, None if these are few."""
    distinct, present = len(column.distinct), int((~column.missing).sum())
    few = distinct <= max(FEW_CATEGORIES, present / 2)
    if column.kind != "label" or (few and not FEW_ROWS <= present == distinct):
        return None
    return f"column {column.name!r} has {distinct} different words in {present} rows"


def among_numbers(words: Collection[str]) -> list[str]:
    """The words of a column that has numbers but for few of them."""
    known = [word for word in words if word.lower() not in AMONG_NUMBERS]
    odd = [word for word in known if table_files.number_of(word) is None]
    return odd if len(known) - len(odd) > max(FEW_CATEGORIES, len(odd)) else []


def quoted(words: Sequence[Any]) -> str:
    """The first words of a column, for a message."""
    more = "" if len(words) <= MAX_SHOWN else f" and {len(words) - MAX_SHOWN} more"
    return ", ".join(map(repr, words[:MAX_SHOWN])) + more


def coded(tables: Sequence[Columns], path: str, bins: int) -> tuple[Schema, list[Any]]:
    """Tables as states of the same variables: their schema, and arrays with NaN where missing.

    Text is states, and so are numbers of up to `bins` distinct values; others are divided into as
    many bins, with equal shares of the rows.
    """
    path = STANDARD_INPUT if path == "-" else path
    joint = [_discretised(column, bins, path) for column in joint_columns(tables, "Table {}")]
    schema = frame_schema(joint, tables[0].names, None, MOST_STATES)
    codes = np.stack([schema.read_column(v, column) for v, column in enumerate(joint)], axis=1)
    stops = np.cumsum([len(table) for table in tables])
    return schema, np.split(codes, stops[:-1])


def _discretised(column: FrameColumn, bins: int, path: str) -> FrameColumn:
    """A column of states: numbers of many different values become the names of their bins."""
    found = column.distinct
    if not found:
        name = column.name if column.name.isdecimal() else repr(column.name)
        raise DataError(
            f"Column {name} of {path} has no values, so the number of its states is "
            "unknown. Leave it out: --without."
        )
    if column.kind != "number":
        if len(found) > MOST_STATES and column.kind == "label":
            raise DataError(
                f"Column {column.name!r} of {path} has {len(found)} different words, and up to "
                f"{MOST_STATES} can be states. If they identify rows, leave it out: "
                f"--without {quote(column.name)}."
            )
        return column
    if np.isinf(column.values).any():
        raise DataError(f"Column {column.name!r} of {path} has infinite values.")
    if len(found) > bins:
        return binned(column, bins)
    if all(isinstance(x, int) for x in found):
        return column
    values = [None if x != x else as_label(x) for x in column.values.tolist()]
    return FrameColumn(column.name, "label", values, found)


def rows_for(circuit: Circuit, table: RawTable) -> Any:
    """The rows of a table as states of the variables of a circuit, NaN where missing."""
    schema = circuit.schema
    if schema.names is not None and table.names is not None:
        more = [name for name in table.names if name not in schema.names]
        if more and set(schema.names) <= set(table.names):
            raise DataError(
                f"{capitalized(table.path)} has columns that the model does not have. Leave them "
                f"out: {' '.join(f'--without {quote(name)}' for name in more)}"
            )
    columns: Any = schema.ordered(list(table.columns), table.names, capitalized(table.path))  # type: ignore[arg-type]
    table, labels = replace(table, columns=tuple(columns)), map(schema.labels, range(len(columns)))
    read = enumerate(_labelled_columns(table, list(labels)))
    return np.stack([schema.read_column(v, column) for v, column in read], axis=1)


def _labelled_columns(table: RawTable, labels: Sequence[Any]) -> list[FrameColumn]:
    """The columns in the words of variables with these labels: numbers as names of bins."""
    own, names = table_files.forms_of([table]), [column.name for column in table.columns]
    forms = {x: _form_by(words, own[x]) for x, words in zip(names, labels, strict=True)}
    pairs = zip(table_files.frame_of(table, forms).columns, labels, strict=True)
    return [
        in_bins(column, edges, words)
        if column.kind == "number" and (edges := edges_of(words)) is not None
        else column
        for column, words in pairs
    ]


def _form_by(labels: Sequence[Any] | None, form: str) -> str:
    """The type of the column of a variable: that of its labels, whatever the column looks like."""
    if edges_of(labels) is not None:
        return form
    if labels is not None and all(isinstance(label, bool) for label in labels):
        return TRUTH
    if labels is not None and any(isinstance(label, str) for label in labels):
        return TEXT
    return POINT if form == TEXT else form


def evidence_of(circuit: Circuit, given: Sequence[str] | None) -> Any:
    """The row of evidence that words such as rain=yes stand for, NaN where nothing is known."""
    row, schema = np.full(circuit.n_variables, np.nan), circuit.schema
    said: dict[int, str] = {}
    for words in given or ():
        name, value = _name_and_value(circuit, words)
        variable = variable_of(circuit, name)
        cell = RawTable("--given", (RawColumn(name, [value]),))
        if not cell[name].words:
            raise DataError(f"Nothing is said of {name!r} in {words!r}. Leave it out.")
        if variable in said:
            raise typer.BadParameter(
                f"{name!r} can be given once. Got {said[variable]!r} and {words!r}."
            )
        said[variable] = words
        [column] = _labelled_columns(cell, [schema.labels(variable)])
        if schema.cardinalities[variable] is None:
            [row[variable]] = schema.read_column(variable, column)
        else:
            row[variable] = schema.state(variable, as_label(column.values[0]))
    return row


def _name_and_value(circuit: Circuit, words: str) -> tuple[str, str]:
    """What is before and behind a sign of equality; names of variables may hold others."""
    signs = [i for i, letter in enumerate(words) if letter == "="]
    if not signs:
        raise DataError(f"What is given is written as NAME=VALUE, such as rain=yes. Got {words!r}.")
    known = [i for i in signs if words[:i].strip() in (circuit.names or ())]
    sign = max(known, default=signs[0])
    return words[:sign].strip(), words[sign + 1 :]


def variable_of(circuit: Circuit, name: str) -> int:
    """The number of a variable, by its name, or by its number if there are no names."""
    word = name.strip()
    numbered = circuit.names is None and word.isdecimal()
    return circuit.schema.variable(int(word) if numbered else word)


def write_rows(columns: Mapping[str, Any], out: str, *, header: bool = True) -> None:
    """Write a table: CSV, TSV or Parquet by the suffix, or CSV to standard output (-).

    Parameters
    ----------
    columns : mapping from names to RawColumn, or to values
        Raw columns are written as they are.
    out : str
    header : bool
        Whether text files begin with the names.
    """
    if suffix_of(out) in (".parquet", ".pq"):
        pa, parquet = table_files.pyarrow_for(out)
        made = {name: _arrow(pa, column) for name, column in columns.items()}
        parquet.write_table(pa.table(made), out)
        return
    text = StringIO()
    delimiter = "\t" if suffix_of(out) == ".tsv" else ","
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerows([columns] if header else [])
    values = (x.values if isinstance(x, RawColumn) else x for x in columns.values())
    cells = (map(table_files.text_of, column) for column in values)
    writer.writerows(zip(*cells, strict=True))
    if out == "-":
        typer.echo(text.getvalue(), nl=False)
        return
    contents = text.getvalue().encode()
    Path(out).write_bytes(compress(contents, mtime=0) if out.endswith(".gz") else contents)


def _arrow(pa: Any, column: Any) -> Any:
    if isinstance(column, RawColumn):
        return column.to_arrow(pa)
    values = (x.item() if isinstance(x, np.generic) else x for x in column)
    return pa.array([None if is_missing(x) else x for x in values])


def decoded(circuit: Circuit, rows: Any) -> dict[str, list[Any]]:
    """Columns of labels, codes and numbers, by their names, of rows of a circuit."""
    schema = circuit.schema
    columns: dict[str, list[Any]] = {}
    for v, column in enumerate(np.asarray(rows, dtype=np.float64).T):
        labels = schema.labels(v)
        values = column if schema.cardinalities[v] is None else column.astype(np.intp)
        name = f"x{v}" if schema.names is None else schema.names[v]
        columns[name] = [x if labels is None else labels[x] for x in values.tolist()]
    return columns


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


def fit_predictor(
    path: str,
    target: str,
    classify: bool,
    without: Sequence[str] | None,
    missing: Sequence[str] | None,
    seed: int,
) -> Fitted:
    """A regressor for a target of numbers, a classifier for others, fitted to a table."""
    raw, marks = leave_out(read_file(path, missing), without), list(missing or ())
    forms = table_files.forms_of([raw])
    if target not in forms:
        names = listed(forms)
        raise DataError(
            f"{capitalized(raw.path)} has no column {target!r} to predict. It has {names}."
        )
    forms[target] = TEXT if classify else forms[target]
    if not classify:
        _check_target(raw, target, forms[target])
    table = table_files.frame_of(raw, forms)
    column = next(c for c in table.columns if c.name == target)
    observed = ~column.missing
    if not observed.any():
        raise DataError(f"Column {target!r} of {raw.path} has no values to learn from.")
    if not observed.all():
        warn(f"{raw.path}: {(~observed).sum()} rows have no {target!r}, and are left out.")
    features = [c for c in table.columns if c.name != target]
    if not features:
        raise DataError(
            f"{capitalized(raw.path)} has no column beside {target!r} to predict it from."
        )
    warn_of_text(raw.path, features)
    labels = column.kind != "number"
    if labels and (many := many_words(column)):
        warn(f"{raw.path}: {many}. They are taken for names of classes: few rows say what each is.")
        warnings.filterwarnings("ignore", "The number of unique classes")  # which says the same
    kind: Any = ek.ExpectedKernelClassifier if labels else ek.ExpectedKernelRidge
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
            f"{capitalized(raw.path)} has {len(X)} rows to learn from, and the matrix of all "
            "pairs of them takes too much memory. Give a table with a random sample of its rows."
        ) from error
    forms = {c.name: forms[c.name] for c in features}
    return Fitted(model, raw.path, forms, marks, target, len(X))


def save_fitted(fitted: Fitted, out: str) -> None:
    """Write an estimator to a file, with what is needed to read tables for it."""
    model, names = fitted.model, list(fitted.forms)
    if fitted.classes is None and fitted.rows > 1:  # calibrated once, and not in every command
        model.predict_interval(np.full((1, len(names)), None, dtype=object))
    model.columns_ = replace(model.columns_, names=names)
    model.feature_names_in_ = np.array(names, dtype=object)
    model.table_ = {"target": fitted.target, "forms": fitted.forms, "missing": fitted.marks}
    io.save(model, out)


def load_fitted(path: str, missing: Sequence[str] | None) -> Fitted:
    """The estimator in a file, also one that was fitted and saved elsewhere."""
    model = io.FORMATS[".skops"][0](path)  # whatever its name is
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
    warn_of_text(raw.path, table.columns)
    empty = [column.name for column in table.columns if column.missing.all()]
    if empty:
        warn(f"{raw.path}: without a value, and left as they are: {', '.join(empty)}.")
        warnings.filterwarnings("ignore", "Columns without a value in fit")  # the same, in numbers
    X, categorical = objects(table.columns, raw.path)
    options: Any = {"categorical_features": categorical or None, "random_state": seed}
    imputer = ek.CircuitImputer(strategy, **options).fit(X)
    return Fitted(imputer, raw.path, forms, list(raw.columns[0].marks))


def as_imputer(fitted: Fitted, strategy: str, seed: int) -> Fitted:
    """An imputer with the density of the columns that an estimator predicts from."""
    model = fitted.model
    if isinstance(model, ek.CircuitImputer):
        return replace(fitted, model=model.set_params(strategy=strategy, random_state=seed))
    imputer: Any = ek.CircuitImputer(strategy, density=model.density, random_state=seed)
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
            f"{capitalized(raw.path)} lacks columns of {fitted.path}: {listed(absent)}. "
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
    columns = [found.get(name, FrameColumn(name, "number", nothing)) for name in names]
    levels = fitted.model.columns_.categories
    read = [_in_levels(column, levels.get(i), raw.path) for i, column in enumerate(columns)]
    return objects(read, raw.path)[0], forms, [column.missing for column in columns]


def _in_levels(column: FrameColumn, levels: Any, path: str) -> FrameColumn:
    """A column with the categories of training, if it has any; others are missing."""
    if levels is None:
        return column
    if column.kind == "number":
        return FrameColumn(column.name, "label", [None] * len(column.values))
    levels = [as_label(level) for level in levels.tolist() if level is not None]
    found = match_labels(levels, column.distinct)
    known = {x: levels[i] for x, i in zip(column.distinct, found, strict=True) if i >= 0}
    if unseen := [x for x in column.distinct if x not in known]:
        warn(
            f"{path}: column {column.name!r} has categories that the training table has not: "
            f"{quoted(unseen)}. They are treated as missing."
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
    return np.stack([np.array(column.values, dtype=object) for column in columns], 1), categorical


def _check_target(raw: RawTable, target: str, form: str) -> None:
    """Refuse a target of numbers that are written as text, or have words among them."""
    place, classes = f"Column {target!r} of {raw.path}", "with --classify, all are names of classes"
    column = raw[target]
    odd: Sequence[str] = list(table_files.marks_among_numbers(column, form))
    if form == TEXT and not odd:
        words = column.words or set(map(str, column.values)) - {"None"}
        if look_numeric(words):
            shown = next(filter(LIKE_NUMBER.fullmatch, sorted(words)))
            raise DataError(
                f"{place} holds numbers that are written as text, such as {shown!r}. "
                f"{ADVICE}; {classes}."
            )
        odd = among_numbers(words)
    if odd:
        remedy = " ".join(f"--missing {quote(word)}" for word in odd[:MAX_SHOWN])
        raise DataError(
            f"{place} holds {quoted(odd)} among numbers. Where nothing is known, leave "
            f"cells empty or add {remedy}; {classes}."
        )


CIRCUITS = (".npz", ".psdd", ".jpc", ".spn")
MODELS = (".uai", ".bif")
LARGEST_CHECKED = 5_000
"""Determinism compares all pairs of products of a vtree node: `info` does for up to so many."""
ROUNDING = 1e-6
"""Sums this close to one are one: some formats print six decimals."""


def read_circuit(path: Path, vtree: Path | None) -> Any:
    """The circuit in a file, or, if it is not structured, the root of its graph of units."""
    suffix = suffix_of(path)
    if suffix in MODELS:
        advice = "found a model: `compile` makes a circuit of it, and `plot --kind model` draws it"
        raise ParseError(f"expected a circuit, {advice}", path=str(path))
    if suffix not in CIRCUITS:
        raise ParseError("expected a file that ends in .npz, .psdd, .jpc or .spn", path=str(path))
    try:
        return io.load(path) if suffix == ".npz" else io.load(path, vtree=vtree)
    except PropertyError:
        if suffix not in (".jpc", ".spn"):
            raise
        return io.load(path, as_units=True)


def is_model(path: str) -> bool:
    """Whether a file holds a circuit or a graphical model, by its name."""
    return suffix_of(path) in CIRCUITS + MODELS


def read_distribution(path: str) -> Circuit:
    """The circuit in a file, or that of the graphical model in it."""
    suffix = suffix_of(path)
    if suffix in MODELS:
        return io.compile_file(path)[0]
    if path == "-":
        raise ParseError("expected a table: circuits and models are read from files", path)
    if suffix not in CIRCUITS:
        known = ", ".join(CIRCUITS + MODELS)
        raise ParseError(f"expected a circuit or a model, in a file that ends in {known}", path)
    found = read_circuit(Path(path), None)
    if not isinstance(found, Circuit):
        raise PropertyError(
            f"{path} holds a circuit that splits its variables in several ways, which `info` "
            "shows. Questions are answered by structured circuits."
        )
    return found


def _size(circuit: Any) -> tuple[dict[int, int | None], dict[str, int]]:
    """The states of the variables of a circuit or a graph of units, and how large it is."""
    if isinstance(circuit, Circuit):
        sizes = {"units": circuit.n_units, "edges": circuit.n_edges}
        return dict(enumerate(circuit.cardinalities)), sizes
    graph = Graph(circuit)
    sizes = {"units": len(graph.units), "edges": sum(map(len, graph.inputs))}
    return dict(sorted(graph.cardinalities.items())), sizes


def in_numbers(circuit: Any) -> dict[str, Any]:
    """The variables and the size of a circuit or a graph of units; the log of what it sums to."""
    cards, sizes = _size(circuit)
    variables: list[dict[str, Any]] = [{"name": v, "states": c} for v, c in cards.items()]
    logs = None
    if isinstance(circuit, Circuit):
        logs = _log_sums(circuit)
        for v, variable in enumerate(variables):
            labels = circuit.schema.labels(v)
            variable |= {"name": circuit.schema.name(v), "states": labels or cards[v]}
    return {"variables": variables, **sizes, "log_partition": logs}


def _log_sums(circuit: Circuit) -> Any:
    try:
        return np.atleast_1d(circuit.log_partition())
    except PropertyError:  # negative sums have no logarithm
        return None


def sizes(circuit: Any) -> dict[str, str]:
    """The variables and the size of a circuit or a graph of units, in words."""
    cards, found = _size(circuit)
    if isinstance(circuit, Circuit):
        found["parameters"] = circuit.n_parameters
        found |= {} if circuit.n_roots == 1 else {"roots": circuit.n_roots}
    words = {name: str(count) for name, count in found.items()}
    counts = Counter(-1 if card is None else card for card in cards.values())
    names = {-1: "real", 2: "binary"}
    kinds = [f"{n} {names.get(card, f'with {card} states')}" for card, n in sorted(counts.items())]
    shown = kinds if len(kinds) <= 6 else [*kinds[:5], f"... up to {max(counts)} states"]
    return {"variables": f"{len(cards)} ({', '.join(shown)})", **words}


def sum_in_words(circuit: Circuit) -> str:
    """What a circuit sums to over all states, and whether that is one."""
    logs = _log_sums(circuit)
    if logs is None:
        return "negative, so the circuit is no distribution"
    if (np.abs(logs) <= ROUNDING).all():
        return "1, normalised"
    shown = ", ".join(f"exp({log:.6g})" for log in logs[:4]) + (", ..." if len(logs) > 4 else "")
    return f"{shown}, not normalised"


def circuit_properties(circuit: Circuit) -> Any:
    """The structural properties of a circuit; determinism only if it does not take too long."""
    inner = [block for block in circuit.operand.inner if block is not None]
    most = max((block.n_products for block in inner), default=1)
    if most <= LARGEST_CHECKED:
        return properties(circuit)
    holds = Verdict(True, "its units are those of a vtree's nodes")
    unknown = Verdict(
        None,
        f"not checked, as a vtree node has {most} products and all pairs of them would be "
        "compared; properties() does that",
    )
    return Properties(holds, holds, holds, unknown)


def convert_file(source: str, out: str, missing: list[str] | None) -> None:
    """Write what is in a file into another one, in the format that its name says."""
    known = {"circuit": CIRCUITS, "model": MODELS}
    kind = next((x for x in known if suffix_of(source) in known[x]), "table")
    suffixes = known.get(kind, (*TABLES, "-"))
    if suffix_of(out) not in suffixes and not out.endswith(suffixes):
        advice = (
            " `compile` makes a circuit of a model." if kind == "model" and is_model(out) else ""
        )
        raise CircuitError(
            f"{source} holds a {kind}, which is written to files that end in "
            f"{', '.join(suffixes)}. Got {out} instead.{advice}"
        )
    if kind != "table":
        io.save(read_distribution(source) if kind == "circuit" else io.read_model(source), out)
        return
    table = read_file(source, missing)
    if suffix_of(out) in (".parquet", ".pq"):
        table_files.warn_of_numbers(table.path, table.columns, table_files.forms_of([table]))
    columns = {column.name: column for column in table.columns}
    write_rows(columns, out, header=table.named)
