"""Tables and models that commands read."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from gzip import compress
from io import StringIO
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import typer

from expectedkernels import io
from expectedkernels.checks import CircuitError, DataError, ParseError, PropertyError, Verdict
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.graph import Graph
from expectedkernels.circuits.properties import Properties, properties
from expectedkernels.cli.options import TABLES, warn
from expectedkernels.data.schema import Schema, frame_schema, joint_column, listed
from expectedkernels.data.tables import (
    Columns,
    FrameColumn,
    as_label,
    binned,
    edges_of,
    in_bins,
    is_missing,
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
    named = next((table for table in files.values() if table.names is not None), None)
    if named is not None:
        files = {path: _named_like(table, named) for path, table in files.items()}
    first, *others = files.values()
    for table in others:
        known, found = ([column.name for column in x.columns] for x in (first, table))
        if sorted(found) != sorted(known):
            raise DataError(
                f"{capitalized(table.path)} must have the same columns as {first.path}. "
                f"Got {listed(found)} and {listed(known)}."
            )
    forms = table_files.forms_of(list(files.values()))
    frames = {path: table_files.frame_of(table, forms) for path, table in files.items()}
    parts: dict[str, list[FrameColumn]] = {}
    for column in (column for frame in frames.values() for column in frame.columns):
        parts.setdefault(column.name, []).append(column)
    warn_of_text(
        " and ".join(table.path for table in files.values()), map(joint_column, parts.values())
    )
    return [frames[path] for path in paths]


def _named_like(table: RawTable, other: RawTable) -> RawTable:
    """A table without names with those of another one of as many columns."""
    if table.names is not None or len(table.columns) != len(other.columns):
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
    return select(table, [name for name in known if name not in set(without or ())])


def capitalized(path: str) -> str:
    """How sentences that begin with a file call it."""
    return path.capitalize() if path == STANDARD_INPUT else path


def select(table: RawTable, names: Iterable[str]) -> RawTable:
    """Some columns of a table, in this order."""
    kept = tuple(table[name] for name in names)
    if not kept:
        raise DataError("There is no column left.")
    named = table.names is not None
    return replace(table, columns=kept, names=tuple(c.name for c in kept) if named else None)


def missing_mask(column: FrameColumn) -> Any:
    """Where a column has no value."""
    if column.kind == "number":
        return np.isnan(column.values)
    return np.array([value is None for value in column.values], dtype=np.bool_)


def warn_of_text(path: str, columns: Iterable[FrameColumn]) -> None:
    """Name, in one warning, columns of text that are probably no categories, and the remedy."""
    numbers: dict[str, str] = {}
    mixed: dict[str, list[str]] = {}
    dates, identifiers = [], []
    for column in columns:
        words = [] if column.kind != "label" else list(map(str, column.distinct))
        if look_numeric(words):
            numbers[column.name] = next(filter(LIKE_NUMBER.fullmatch, words))
        elif odd := among_numbers(words):
            mixed[column.name] = odd[:MAX_SHOWN]
        elif words and sum(DATE.fullmatch(word) is not None for word in words) > 0.9 * len(words):
            dates.append(column.name)
        elif many_words(column):
            identifiers.append(column.name)
    suspects = [f"{name!r} (numbers written as text: {word!r})" for name, word in numbers.items()]
    suspects += [f"{name!r} (words among numbers: {quoted(x)})" for name, x in mixed.items()]
    suspects += [f"{name!r} (dates or times)" for name in dates]
    suspects += [f"{name!r} (identifiers or free text)" for name in identifiers]
    if not suspects:
        return
    leave = " ".join(f"--without {quote(x)}" for x in (*numbers, *mixed, *dates, *identifiers))
    others = [f"{ADVICE[0].lower()}{ADVICE[1:]}"] if numbers else []
    marks = [f"--missing {quote(word)}" for found in mixed.values() for word in found]
    others += [f"name cells without a value: {' '.join(marks)}"] if marks else []
    others += ["write dates as numbers, such as days or months"] if dates else []
    remedy = "; or ".join([f"Leave them out: {leave}", *others])
    warn(f"{path}: text is categories, probably not meant for {', '.join(suspects)}. {remedy}.")


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
    distinct, present = len(column.distinct), int((~missing_mask(column)).sum())
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
    first = tables[0]
    plain = Schema((None,) * len(first.columns), first.names)
    parts = [plain.ordered(list(table.columns), table.names, path) for table in tables]
    path = STANDARD_INPUT if path == "-" else path
    joint = [_discretised(joint_column(column), bins, path) for column in zip(*parts, strict=True)]
    schema = frame_schema(joint, first.names, None, MOST_STATES)
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
    table = replace(table, columns=tuple(columns))
    forms = table_files.forms_of([table])
    forms = {c.name: _form_by(schema, v, forms[c.name]) for v, c in enumerate(columns)}
    read = table_files.frame_of(table, forms).columns
    read = tuple(_in_states(schema, v, column) for v, column in enumerate(read))
    return np.stack([schema.read_column(v, column) for v, column in enumerate(read)], axis=1)


def _form_by(schema: Schema, variable: int, form: str) -> str:
    """The type of the column of a variable: that of its labels, whatever the column looks like."""
    labels = schema.labels(variable)
    if edges_of(labels) is not None:
        return form
    if labels is not None and all(isinstance(label, bool) for label in labels):
        return TRUTH
    if labels is not None and any(isinstance(label, str) for label in labels):
        return TEXT
    return POINT if form == TEXT else form


def _in_states(schema: Schema, variable: int, column: FrameColumn) -> FrameColumn:
    """A column in the words of a variable: numbers as names of bins."""
    labels = schema.labels(variable)
    if labels is None or column.kind != "number":
        return column
    edges = edges_of(labels)
    return column if edges is None else in_bins(column, edges, labels)


def evidence_of(circuit: Circuit, given: Sequence[str] | None) -> Any:
    """The row of evidence that words such as rain=yes stand for, NaN where nothing is known."""
    row = np.full(circuit.n_variables, np.nan)
    said: dict[int, str] = {}
    for words in given or ():
        name, value = _name_and_value(circuit, words)
        variable = variable_of(circuit, name)
        if not RawColumn(name, [value]).words:
            raise DataError(f"Nothing is said of {name!r} in {words!r}. Leave it out.")
        if variable in said:
            raise typer.BadParameter(
                f"{name!r} can be given once. Got {said[variable]!r} and {words!r}."
            )
        said[variable] = words
        row[variable] = _state(circuit.schema, variable, RawColumn(name, [value]))
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


def _state(schema: Schema, variable: int, cell: RawColumn) -> float:
    """The state or number in a cell."""
    table = RawTable("--given", (cell,), None)
    form = _form_by(schema, variable, table_files.forms_of([table])[cell.name])
    [column] = table_files.frame_of(table, {cell.name: form}).columns
    if schema.cardinalities[variable] is None:
        return float(schema.read_column(variable, column)[0])
    [key] = _in_states(schema, variable, column).values
    return float(schema.state(variable, as_label(key)))


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
    writer.writerows(zip(*map(_cells, columns.values()), strict=True))
    if out == "-":
        typer.echo(text.getvalue(), nl=False)
        return
    contents = text.getvalue().encode()
    Path(out).write_bytes(compress(contents, mtime=0) if out.endswith(".gz") else contents)


def _cells(column: Any) -> list[str]:
    if isinstance(column, RawColumn) and column.is_text:
        return column.content
    values = column.values if isinstance(column, RawColumn) else column
    return list(map(table_files.text_of, values))


def _arrow(pa: Any, column: Any) -> Any:
    if isinstance(column, RawColumn):
        return column.to_arrow(pa)
    values = (x.item() if isinstance(x, np.generic) else x for x in column)
    return pa.array([None if is_missing(x) else x for x in values])


def decoded(circuit: Circuit, rows: Any) -> dict[str, list[Any]]:
    """Columns of labels, codes and numbers, by their names, of rows of a circuit."""
    schema = circuit.schema
    names = list(schema.names or (f"x{v}" for v in range(schema.n_variables)))
    columns: list[list[Any]] = []
    for v, column in enumerate(np.asarray(rows, dtype=np.float64).T):
        labels = schema.labels(v)
        if schema.cardinalities[v] is None:
            columns.append(column.tolist())
        else:
            codes = column.astype(np.intp).tolist()
            columns.append(codes if labels is None else [labels[code] for code in codes])
    return dict(zip(names, columns, strict=True))


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
    return {"variables": variables_in_words(tuple(cards.values())), **words}


def variables_in_words(cardinalities: tuple[int | None, ...]) -> str:
    """How many variables there are, and with how many states."""
    counts = Counter(-1 if card is None else card for card in cardinalities)
    names = {-1: "real", 2: "binary"}
    kinds = [f"{n} {names.get(card, f'with {card} states')}" for card, n in sorted(counts.items())]
    shown = kinds if len(kinds) <= 6 else [*kinds[:5], f"... up to {max(counts)} states"]
    return f"{len(cardinalities)} ({', '.join(shown)})"


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
    kinds: list[tuple[str, tuple[str, ...], Callable[[str], Any]]] = [
        ("circuit", CIRCUITS, read_distribution),
        ("model", MODELS, io.read_model),
    ]
    for kind, suffixes, read in kinds:
        if suffix_of(source) in suffixes:
            _check(source, out, kind, suffixes)
            io.save(read(source), out)
            return
    _check(source, out, "table", (*TABLES, "-"))
    table = read_file(source, missing)
    if suffix_of(out) in (".parquet", ".pq"):
        table_files.warn_of_numbers(table.path, table.columns, table_files.forms_of([table]))
    columns = {column.name: column for column in table.columns}
    write_rows(columns, out, header=table.names is not None)


def _check(source: str, out: str, kind: str, suffixes: tuple[str, ...]) -> None:
    if suffix_of(out) in suffixes or out in suffixes or out.endswith(suffixes):
        return
    advice = " `compile` makes a circuit of a model." if kind == "model" and is_model(out) else ""
    raise CircuitError(
        f"{source} holds a {kind}, which is written to files that end in {', '.join(suffixes)}. "
        f"Got {out} instead.{advice}"
    )
