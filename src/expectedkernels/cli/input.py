"""Tables and models that commands read, and estimators fitted to tables."""

from __future__ import annotations

import csv
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from gzip import compress
from importlib import import_module
from io import StringIO
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import typer

import expectedkernels as ek
from expectedkernels import io
from expectedkernels.checks import DataError, PropertyError, Verdict, imported
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.graph import Graph
from expectedkernels.circuits.properties import Properties, properties
from expectedkernels.cli.options import TABLES, WRONG_USAGE, fail, note, require, warn
from expectedkernels.data import tables
from expectedkernels.data.schema import Schema, frame_schema, joint_columns, listed
from expectedkernels.data.tables import Columns, FrameColumn, as_label
from expectedkernels.io import suffix_of, table_files
from expectedkernels.io.skops_format import load_estimator, require_skops as require_skops
from expectedkernels.io.table_files import PARQUET, TEXT, RawColumn, RawTable, forms_of, frame_of
from expectedkernels.io.text import CIRCUITS, MODELS, either
from expectedkernels.kernels.empirical import default_kernel as default_kernel
from expectedkernels.reports import pictures_of as pictures_of

Words = Sequence[str] | None
STANDARD_INPUT = "standard input"
STREAM_BYTES = 2**16
"""How much of a stream is read at once, if so much has come."""
MOST_STATES = 100
"""Columns with more distinct words raise."""
FEW_CATEGORIES, FEW_ROWS = 20, 10
"""So many categories are never too many, and so few rows do not tell."""
SIGNS = re.escape("$€£¥₹")
LIKE_NUMBER = re.compile(
    rf"[~(]?[+-]?(?P<before>[A-Z]{{0,2}}[{SIGNS}]|[A-Z]{{3}} )?\s*[+-]?(?=[.,]?\d)"
    rf"(\d{{1,3}}([.,'\s]\d{{3}})+|\d*)([.,]\d+)?\s*"
    rf"(?P<after>%|[{SIGNS}]|[^\W\d_]\S{{0,7}})?\)?"
)
"""A number with signs between thousands, a currency or a unit, or one that is only about right."""
ORDINALS = {"st", "nd", "rd", "th"}
MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
DATE = re.compile(
    rf"(\d{{4}}[-/.]\d\d?([-/.]\d\d?)?|\d\d?[-/.]\d\d?[-/.]\d{{2,4}}|{MONTH} \d\d?,? \d{{2,4}}|"
    rf"\d\d? {MONTH},? \d{{2,4}}|{MONTH} \d{{4}}|\d\d?:\d\d)([T ,]+\d\d?:\d\d.*|:\d\d.*)?",
    re.IGNORECASE,
)
ADVICE = "write numbers with a decimal point, without units and without signs between thousands"
REASONS = {
    "number": "numbers written as text: {}",
    "mark": "words among numbers: {}",
    "date": "dates or times",
    "words": "identifiers or free text",
}
"""Why columns of text are probably no categories."""
MAX_SHOWN = 5
"""How many words of a column a message names."""
LARGEST_CHECKED = 5_000
"""Determinism compares all pairs of products of a vtree node: `info` does for up to so many."""
ROUNDING = 1e-6
"""Sums this close to one are one: some formats print six decimals."""


def read_tables(paths: Sequence[str], without: Words, missing: Words) -> list[Columns]:
    """The columns of tables in files (-: standard input): the same, of one type in all of them.

    Columns to leave out have to be in one of the tables.
    """
    files = {path: read_file(path, missing) for path in dict.fromkeys(paths)}
    present = {path: {column.name for column in table.columns} for path, table in files.items()}
    for path, table in files.items():
        others = set().union(*present.values()) - present[path]
        files[path] = leave_out(table, [name for name in without or () if name not in others])
    first = next((table for table in files.values() if table.named), next(iter(files.values())))
    known = [column.name for column in first.columns]
    for path, table in files.items():
        if first.named and not table.named and len(table.columns) == len(known):
            pairs = zip(table.columns, known, strict=True)
            columns = tuple(replace(column, name=name) for column, name in pairs)
            files[path] = replace(table, columns=columns)
        found = [column.name for column in files[path].columns]
        what = f"{capitalized(table.path)} must have the same columns as {first.path}"
        same = sorted(found) == sorted(known)
        require(same, f"{what}. Got {listed(found)} and {listed(known)}.")
    forms = forms_of(list(files.values()))
    frames = {path: frame_of(table, forms) for path, table in files.items()}
    joint = joint_columns(list(frames.values()), "Table {}")
    warn_of_text(" and ".join(table.path for table in files.values()), joint)
    return [frames[path] for path in paths]


def read_file(path: str, missing: Words = None, without: Words = None) -> RawTable:
    """The table in a file (-: standard input), without some columns."""
    data = typer.get_binary_stream("stdin").read() if path == "-" else None
    name = STANDARD_INPUT if path == "-" else path
    return leave_out(table_files.read_raw(name, data, missing or ()), without)


def read_stream(path: str, missing: Words = None, without: Words = None) -> Iterator[RawTable]:
    """The table in a file; of standard input, tables of the lines that have come so far."""
    if path != "-":
        yield read_file(path, missing, without)
        return
    stream: Any = typer.get_binary_stream("stdin")
    chunk = header = stream.readline().rstrip(b"\n") + b"\n"
    text = b""
    if not table_files.read_raw(STANDARD_INPUT, header + header, missing or ()).named:
        header, text = b"", header
    while chunk:
        chunk = stream.read1(STREAM_BYTES)
        lines, end, text = (text + chunk).rpartition(b"\n") if chunk else (text, b"", b"")
        if lines.strip():
            table = table_files.read_raw(STANDARD_INPUT, header + lines + end, missing or ())
            yield leave_out(table, without)


def leave_out(table: RawTable, without: Words) -> RawTable:
    """A table without some columns; raises if one of them is not there."""
    known = [column.name for column in table.columns]
    for name in without or ():
        what = f"{capitalized(table.path)} has no column {name!r} to leave out"
        require(name in known, f"{what}. It has {listed(known)}.")
    kept = tuple(column for column in table.columns if column.name not in (without or ()))
    require(kept, "There is no column left.")
    return replace(table, columns=kept)


def capitalized(path: str) -> str:
    """How sentences that begin with a file call it."""
    return path.capitalize() if path == STANDARD_INPUT else path


def warn_of_text(path: str, columns: Iterable[FrameColumn]) -> None:
    """Name, in one warning, columns of text that are probably no categories, and the remedy."""
    suspects: list[tuple[str, str, list[str]]] = []
    for column in columns:
        kind, words = doubt(list(map(str, column.distinct)) if column.kind == "label" else [])
        kind = kind or ("words" if many_words(column) else "")
        suspects += [(kind, column.name, words[:MAX_SHOWN])] if kind else []
    if not suspects:
        return
    suspects.sort(key=lambda suspect: [*REASONS].index(suspect[0]))
    reasons = ((name, REASONS[kind].format(quoted(words))) for kind, name, words in suspects)
    listing = ", ".join(f"{name!r} ({reason})" for name, reason in reasons)
    marks = [quote(word) for kind, _, words in suspects if kind == "mark" for word in words]
    remedies = {
        "number": ADVICE,
        "mark": f"name cells without a value: {' '.join(f'--missing {mark}' for mark in marks)}",
        "date": "write dates as numbers, such as days or months",
    }
    leave = " ".join(f"--without {quote(name)}" for _, name, _ in suspects)
    others = [remedies[kind] for kind in remedies if kind in {kind for kind, _, _ in suspects}]
    remedy = "; or ".join([f"Leave them out: {leave}", *others])
    warn(f"{path}: text is categories, probably not meant for {listing}. {remedy}.")


def doubt(words: Collection[str]) -> tuple[str, list[str]]:
    """Why words are probably no categories, "" if nothing suggests it, and those that show it.

    They are numbers with separators, a currency or a unit, the same in all; or numbers but for few
    of them; or dates. Marks of missing values do not count.

    Examples
    --------
    >>> doubt(["3,300 g", "4 g", "-"]), doubt(["~11", "(10)", "US$ 5"])
    (('number', ['3,300 g']), ('number', ['(10)']))
    >>> doubt(["1a", "1b"])
    ('', [])
    """
    known = sorted(word for word in words if word.lower() not in table_files.AMONG_NUMBERS)
    found = [LIKE_NUMBER.fullmatch(word) for word in known]
    units = {(m["before"] or "", m["after"] or "") for m in found if m} - {("", "")}
    if known and all(found) and len(units) < 2 and not {u for _, u in units} & ORDINALS:
        return "number", known[:1]
    odd = [word for word in known if table_files.number_of(word) is None]
    if odd and len(known) - len(odd) > max(FEW_CATEGORIES, len(odd)):
        return "mark", odd
    dates = sum(DATE.fullmatch(word) is not None for word in words)
    return "date" if dates > 0.9 * len(words) else "", []


def many_words(column: FrameColumn) -> str | None:
    """How many different words a column of text has, None if these are few."""
    distinct, present = len(column.distinct), int((~column.missing).sum())
    few = distinct <= max(FEW_CATEGORIES, present / 2)
    if column.kind != "label" or (few and not FEW_ROWS <= present == distinct):
        return None
    return f"column {column.name!r} has {distinct} different words in {present} rows"


def quoted(words: Sequence[Any]) -> str:
    """The first words of a column, for a message."""
    more = "" if len(words) <= MAX_SHOWN else f" and {len(words) - MAX_SHOWN} more"
    return ", ".join(map(repr, words[:MAX_SHOWN])) + more


def coded(tables: Sequence[Columns], path: str, bins: int) -> tuple[Schema, list[Any]]:
    """Tables as states of the same variables: their schema, and arrays with NaN where missing.

    Text is states, and so are numbers of up to `bins` distinct values; others are divided into as
    many bins, with equal shares of the rows.
    """
    joint = in_states(tables, path, bins).columns
    schema = frame_schema(joint, tables[0].names, None, MOST_STATES)
    codes = np.stack([schema.read_column(v, column) for v, column in enumerate(joint)], axis=1)
    stops = np.cumsum([len(table) for table in tables])
    return schema, np.split(codes, stops[:-1])


def in_states(tables: Sequence[Columns], path: str, bins: int) -> Columns:
    """The columns of tables, one below the other, as `coded` reads them."""
    path = STANDARD_INPUT if path == "-" else path
    joint = [_discretised(column, bins, path) for column in joint_columns(tables, "Table {}")]
    return Columns(tuple(joint), tables[0].names)


def _discretised(column: FrameColumn, bins: int, path: str) -> FrameColumn:
    """A column of states: numbers of many different values become the names of their bins."""
    n, name = len(column.distinct), column.name if column.name.isdecimal() else repr(column.name)
    place = f"Column {name} of {path} has"
    require(n, f"{place} no values, so its states are unknown. Leave it out: --without.")
    advice = f"If they identify rows, leave it out: --without {quote(column.name)}"
    what = f"{n} different words, and up to {MOST_STATES} can be states"
    require(column.kind != "label" or n <= MOST_STATES, f"{place} {what}. {advice}.")
    if column.kind != "number":
        return column
    require(not np.isinf(column.values).any(), f"{place} infinite values.")
    if n > bins:
        return tables.binned(column, bins)
    if all(isinstance(x, int) for x in column.distinct):
        return column
    values = [None if x != x else as_label(x) for x in column.values.tolist()]
    return FrameColumn(column.name, "label", values, column.distinct)


def rows_for(circuit: Circuit, table: RawTable) -> Any:
    """The rows of a table as states of the variables of a circuit, NaN where missing."""
    schema, place = circuit.schema, capitalized(table.path)
    more = [name for name in table.names or () if name not in (schema.names or table.names or ())]
    good = not more or not set(schema.names or ()) <= set(table.names or ())
    advice = f"Leave them out: {' '.join(f'--without {quote(name)}' for name in more)}"
    require(good, f"{place} has columns that the model does not have. {advice}")
    columns: Any = schema.ordered(list(table.columns), table.names, place)  # type: ignore[arg-type]
    labels = [schema.labels(v) for v in range(len(columns))]
    read = _labelled_columns(replace(table, columns=tuple(columns)), labels)
    return np.stack([schema.read_column(v, column) for v, column in enumerate(read)], axis=1)


def _labelled_columns(table: RawTable, labels: Sequence[Any]) -> list[FrameColumn]:
    """The columns in the words of variables with these labels: numbers as names of bins.

    The type of a column is that of the labels, whatever the column looks like.
    """
    forms = forms_of([table])
    edges = [tables.edges_of(words) for words in labels]
    for column, words, ends in zip(table.columns, labels, edges, strict=True):
        if ends is not None:
            continue
        if words is not None and all(isinstance(label, bool) for label in words):
            forms[column.name] = table_files.TRUTH
        elif words is not None and any(isinstance(label, str) for label in words):
            forms[column.name] = TEXT
        elif forms[column.name] == TEXT:
            forms[column.name] = table_files.POINT
    read = list(frame_of(table, forms).columns)
    for i, (own, words, ends) in enumerate(zip(read, labels, edges, strict=True)):
        if ends is not None and own.kind == "number":
            read[i] = tables.in_bins(own, ends, words)
    return read


def evidence_of(circuit: Circuit, given: Words) -> Any:
    """The row of evidence that words such as rain=yes stand for, NaN where nothing is known."""
    row, schema = np.full(circuit.n_variables, np.nan), circuit.schema
    known: dict[int, str] = {}
    for words in given or ():
        signs = [i for i, letter in enumerate(words) if letter == "="]
        require(signs, f"Evidence is written as NAME=VALUE, such as rain=yes. Got {words!r}.")
        # names of variables may hold signs of equality, too
        places = [i for i in signs if words[:i].strip() in (circuit.names or ())]
        sign = max(places, default=signs[0])
        name = words[:sign].strip()
        variable = variable_of(circuit, name)
        cell = RawTable("--given", (RawColumn(name, [words[sign + 1 :]]),))
        require(cell[name].words, f"Nothing is said of {name!r} in {words!r}. Leave it out.")
        what = f"{name!r} can be given once. Got {known.get(variable)!r} and {words!r}"
        require(variable not in known, f"{what}.", WRONG_USAGE)
        known[variable] = words
        [column] = _labelled_columns(cell, [schema.labels(variable)])
        if schema.cardinalities[variable] is None:
            [row[variable]] = schema.read_column(variable, column)
        else:
            row[variable] = schema.state(variable, as_label(column.values[0]))
    return row if given else None


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
        parquet, pa = imported(*PARQUET), import_module("pyarrow")
        made = {}
        for name, column in columns.items():
            if isinstance(column, RawColumn):
                made[name] = column.to_arrow(pa)
            else:
                values = (x.item() if isinstance(x, np.generic) else x for x in column)
                made[name] = pa.array([None if tables.is_missing(x) else x for x in values])
        parquet.write_table(pa.table(made), out)
        return
    text = StringIO()
    delimiter = "\t" if suffix_of(out) == ".tsv" else ","
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerows([columns] if header else [])
    lists = (x.values if isinstance(x, RawColumn) else x for x in columns.values())
    writer.writerows(zip(*(map(table_files.text_of, x) for x in lists), strict=True))
    if out == "-":
        typer.echo(text.getvalue(), nl=False)
        return
    contents = text.getvalue().encode()
    Path(out).write_bytes(compress(contents, mtime=0) if out.endswith(".gz") else contents)


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
        rows = f"{self.rows} rows" if self.rows else type(self.model).__name__
        return f"{rows}, {len(self.forms)} columns"

    @property
    def classes(self) -> list[str] | None:
        """The names of the classes, None if numbers are predicted."""
        known = getattr(self.model, "classes_", None)
        return None if known is None else [str(as_label(name)) for name in known.tolist()]

    @property
    def task(self) -> str:
        """What it does."""
        return "regression" if self.classes is None else "classification"


def fit_predictor(
    path: str, target: str, classify: bool, without: Words, missing: Words, seed: int
) -> Fitted:
    """A regressor for a target of numbers, a classifier for others, fitted to a table."""
    raw = read_file(path, missing, without)
    place, forms = capitalized(raw.path), forms_of([raw])
    known = f"It has {listed(forms)}"
    require(target in forms, f"{place} has no column {target!r} to predict. {known}.")
    if classify:
        forms[target] = TEXT
    else:
        _check_target(raw, target, forms[target])
    table = frame_of(raw, forms)
    column = next(c for c in table.columns if c.name == target)
    observed = ~column.missing
    require(observed.any(), f"Column {target!r} of {raw.path} has no values to learn from.")
    if not observed.all():
        warn(f"{raw.path}: {(~observed).sum()} rows have no {target!r}, and are left out.")
    features = [c for c in table.columns if c.name != target]
    require(features, f"{place} has no column beside {target!r} to predict it from.")
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
    model.fit(X, y)
    forms = {c.name: forms[c.name] for c in features}
    return Fitted(model, raw.path, forms, list(missing or ()), target, len(X))


def _check_target(raw: RawTable, target: str, form: str) -> None:
    """Raise for a target of numbers that are written as text, or have words among them."""
    place, classes = f"Column {target!r} of {raw.path}", "with --classify, all are names of classes"
    column = raw[target]
    kind, odd = "mark", list(column.marks_among_numbers(form))
    if form == TEXT and not odd:
        kind, odd = doubt(column.words or set(map(str, column.values)) - {"None"})
    if kind == "number":
        what = f"holds numbers that are written as text, such as {odd[0]!r}"
        raise DataError(f"{place} {what}. {ADVICE.capitalize()}; {classes}.")
    if odd:
        remedy = " ".join(f"--missing {quote(word)}" for word in odd[:MAX_SHOWN])
        advice = f"Where nothing is known, leave cells empty or add {remedy}"
        raise DataError(f"{place} holds {quoted(odd)} among numbers. {advice}; {classes}.")


def save_fitted(fitted: Fitted, out: str) -> None:
    """Write an estimator to a file, with what is needed to read tables for it."""
    model, names = fitted.model, list(fitted.forms)
    with suppress(DataError):  # raised of a single row: those can be predicted all the same
        model.calibrate()  # once, and not in every command
    model.columns_ = replace(model.columns_, names=names)
    model.feature_names_in_ = np.array(names, dtype=object)
    model.table_ = {"target": fitted.target, "forms": fitted.forms, "missing": fitted.marks}
    io.save(model, out)


def load_fitted(path: str, missing: Words) -> Fitted:
    """The estimator in a file, also one that was fitted and saved elsewhere."""
    model = load_estimator(path)
    ours = hasattr(model, "columns_")
    require(ours, f"{path} holds a {type(model).__name__}, which is not of expectedkernels.")
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_  # rows are arrays here, of columns in this order
    about, levels = getattr(model, "table_", {}), model.columns_.categories
    names = enumerate(map(str, model.columns_.names))
    forms = about.get("forms") or {name: TEXT if i in levels else "" for i, name in names}
    marks = [*about.get("missing", ()), *(missing or ())]
    return Fitted(model, path, forms, marks, about.get("target", "prediction"))


def fit_imputer(raw: RawTable, strategy: str, seed: int) -> Fitted:
    """An imputer, fitted to a table."""
    forms = forms_of([raw])
    table = frame_of(raw, forms)
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
    imputer._of_states, imputer._units = model.density_, model.columns_
    imputer._require_circuit("--strategy mean")
    return replace(fitted, model=imputer)


def read_like(raw: RawTable, fitted: Fitted, *, partly: bool = False) -> tuple[Any, Any, Any]:
    """The rows of a file as an array for an estimator; types of columns; where these have no value.

    Parameters
    ----------
    raw : RawTable
    fitted : Fitted
    partly : bool
        Whether some columns may be absent: nothing is known of them then.
    """
    names, own = list(fitted.forms), forms_of([raw])
    absent = [name for name in names if name not in own]
    good = not absent or (partly and absent != names)
    what = f"{capitalized(raw.path)} lacks columns of {fitted.path}: {listed(absent)}"
    require(good, f"{what}. Where nothing is known, add columns without values.")
    numeric = {TEXT: table_files.POINT, table_files.TRUTH: table_files.POINT}
    forms = {x: fitted.forms[x] or numeric.get(own[x], own[x]) for x in own if x in names}
    found = {column.name: column for column in frame_of(raw, forms).columns}
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
    pairs = zip(column.distinct, tables.match_labels(levels, column.distinct), strict=True)
    known = {x: levels[i] for x, i in pairs if i >= 0}
    if unseen := [x for x in column.distinct if x not in known]:
        what = f"has categories that the training table has not: {quoted(unseen)}"
        warn(f"{path}: column {column.name!r} {what}. They are treated as missing.")
    return FrameColumn(column.name, "label", [known.get(x) for x in column.values])


def objects(columns: Sequence[FrameColumn], path: str) -> tuple[Any, list[int]]:
    """Columns as an array, and the numbers of those that hold categories."""
    for column in columns:
        for row in np.flatnonzero(np.isinf(column.values)) if column.kind == "number" else ():
            place = f"Column {column.name!r} of {path} is infinite in row {row}"
            fail(f"{place}. Leave cells empty where nothing is known.")
    categorical = [i for i, column in enumerate(columns) if column.kind != "number"]
    if not categorical:
        return np.column_stack([column.values for column in columns]), []
    return np.stack([np.array(column.values, dtype=object) for column in columns], 1), categorical


def waterfall(columns: Sequence[Mapping[str, Any]], base: float) -> Any:
    """The axes of what columns contribute to a prediction."""
    from expectedkernels.plotting import plot_waterfall

    names, values, shares = zip(*(part.values() for part in columns), strict=True)
    return plot_waterfall(names, np.array(shares), float(base), np.array(values, dtype=object))


def read_circuit(path: str | Path, vtree: Path | None = None) -> Any:
    """The circuit in a file, or, if it is not structured, the root of its graph of units."""
    suffix = suffix_of(path)
    if suffix not in CIRCUITS:
        found = f"file that ends in {either(CIRCUITS)}"
        if suffix in MODELS:
            advice = "`compile` makes a circuit of it, and `plot --kind model` draws it"
            found = f"circuit, found a model: {advice}"
        fail(f"{path}: expected a {found}")
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
    if suffix_of(path) in MODELS:
        return io.compile_file(path)[0]
    require(path != "-", "-: expected a table: circuits and models are read from files")
    known = ", ".join(CIRCUITS + MODELS)
    what = f"{path}: expected a circuit or a model, in a file that ends in {known}"
    require(is_model(path), what)
    found = read_circuit(path)
    what = f"{path} holds a circuit that splits its variables in several ways, which `info` shows"
    require(isinstance(found, Circuit), f"{what}. Queries need structured circuits.")
    return found


def read_network(path: str) -> Any:
    """The graphical model in a file."""
    what = f"{path}: expected a network, in a file that ends in {either(MODELS)}"
    require(suffix_of(path) in MODELS, f"{what}. Rows are compared given one: --network.")
    return io.read_model(path)


def read_any(path: str, circuit: Circuit, without: Any, missing: Any) -> Any:
    """A circuit from a file, or rows of a table by the variables of another circuit."""
    if is_model(path):
        return read_distribution(path)
    return rows_for(circuit, read_file(path, missing, without))


def marginals_of(path: str, given: Any, of: Words) -> list[dict[str, Any]]:
    """The marginal distributions of variables; means and variances of real ones."""
    circuit = read_distribution(path)
    schema = circuit.schema
    chosen = [variable_of(circuit, name) for name in of or ()] or range(circuit.n_variables)
    found = circuit.marginals(evidence_of(circuit, given))
    parts = []
    for v in chosen:
        card = circuit.cardinalities[v]
        states = ("mean", "variance") if card is None else schema.labels(v) or range(card)
        values = dict(zip(map(str, states), found[v].tolist(), strict=True))
        parts.append({"name": schema.name(v), "real": card is None, "values": values})
    return parts


def counts(circuit: Circuit) -> dict[str, int]:
    """The size of a circuit."""
    names = ("variables", "units", "edges", "parameters", "roots")
    return {name: getattr(circuit, f"n_{name}") for name in names}


def sizes(circuit: Any) -> dict[str, Any]:
    """The variables and the size of a circuit or a graph of units, in words."""
    if isinstance(circuit, Circuit):
        cards, found = circuit.cardinalities, counts(circuit)
        found = {name: n for name, n in found.items() if name != "roots" or n != 1}
    else:
        graph = Graph(circuit)
        cards = tuple(graph.cardinalities.values())
        found = {"variables": 0, "units": len(graph.units), "edges": sum(map(len, graph.inputs))}
    kinds = Counter(-1 if card is None else card for card in cards)
    names = {-1: "real", 2: "binary"}
    parts = [f"{n} {names.get(card, f'with {card} states')}" for card, n in sorted(kinds.items())]
    shown = parts if len(parts) <= 6 else [*parts[:5], f"... up to {max(kinds)} states"]
    return found | {"variables": f"{len(cards)} ({', '.join(shown)})"}


def describe(circuit: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The variables, size and sum of a circuit or a graph of units, in numbers and in words."""
    words, logs = sizes(circuit), None
    if not isinstance(circuit, Circuit):
        variables: Any = sorted(Graph(circuit).cardinalities.items())
    else:
        schema = circuit.schema
        cards = enumerate(schema.cardinalities)
        variables = [(schema.name(v), schema.labels(v) or card) for v, card in cards]
        try:
            logs = np.atleast_1d(circuit.log_partition())
            shown = ", ".join(f"exp({log:.6g})" for log in logs[:4]) + ", ..." * (len(logs) > 4)
            is_one = (np.abs(logs) <= ROUNDING).all()
            words["sum"] = "1, normalised" if is_one else f"{shown}, not normalised"
        except PropertyError:  # negative sums have no logarithm
            words["sum"] = "negative, so the circuit is no distribution"
    listed_variables = [{"name": name, "states": states} for name, states in variables]
    numbers = {"units": words["units"], "edges": words["edges"], "variables": listed_variables}
    return numbers | {"log_partition": logs}, words


def properties_of(circuit: Any) -> Any:
    """The structural properties of a circuit; determinism only if it does not take too long."""
    blocks = circuit.blocks if isinstance(circuit, Circuit) else ()
    most = max((block.width for block in blocks), default=0)
    if most <= LARGEST_CHECKED:
        return properties(circuit)
    holds = Verdict(True, "its units are those of a vtree's nodes")
    what = f"not checked, as a vtree node has {most} products and all pairs of them would be"
    unknown = Verdict(None, f"{what} compared; properties() does that")
    return Properties(holds, holds, holds, unknown)


def convert_file(source: str, out: str, missing: list[str] | None) -> None:
    """Write what is in a file into another one, in the format that its name says."""
    known = {"circuit": CIRCUITS, "model": MODELS}
    kind = next((x for x in known if suffix_of(source) in known[x]), "table")
    suffixes = known.get(kind, (*TABLES, "-"))
    advice = " `compile` makes a circuit of a model." * (kind == "model" and is_model(out))
    place = f"{source} holds a {kind}, which is written to files that end in"
    good = suffix_of(out) in suffixes or out.endswith(suffixes)
    require(good, f"{place} {', '.join(suffixes)}. Got {out} instead.{advice}")
    if kind != "table":
        io.save(read_distribution(source) if kind == "circuit" else io.read_model(source), out)
        return
    table = read_file(source, missing)
    if suffix_of(out) in (".parquet", ".pq"):
        table_files.warn_of_numbers(table.path, table.columns, forms_of([table]))
    write_rows({column.name: column for column in table.columns}, out, header=table.named)
