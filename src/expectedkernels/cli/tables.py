"""Tables for circuits and for estimators: read, coded and written."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from gzip import compress
from io import StringIO
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import typer

from expectedkernels.circuits.bins import binned, edges_of, in_bins
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.frames import Columns, FrameColumn, as_label
from expectedkernels.circuits.schema import (
    Schema,
    frame_schema,
    joint_column,
    listed,
    look_like_numbers,
)
from expectedkernels.cli.models import suffix_of
from expectedkernels.errors import DataError
from expectedkernels.io.raw import pyarrow_for, raw_column, read_raw

STANDARD_INPUT = "standard input"
MOST_STATES = 100
"""Columns of more different integers are divided into bins."""
TRUTH = {"true": True, "false": False}


def read_columns(path: str, without: Sequence[str] | None = None) -> Columns:
    """The columns of a table in a file (-: standard input), without some of them."""
    return leave_out(read_all(path, set(without or ()).__contains__), without, path)


def leave_out(table: Columns, without: Sequence[str] | None, path: str) -> Columns:
    """A table without some columns; raises if one of them is not there."""
    known = [column.name for column in table.columns]
    unknown = [name for name in without or () if name not in known]
    if unknown:
        raise DataError(
            f"{called(path)} has no column {unknown[0]!r} to leave out. It has {listed(known)}."
        )
    return select(table, [c.name for c in table.columns if c.name not in set(without or ())])


def read_all(path: str, verbatim: Callable[[str], bool]) -> Columns:
    """All columns of a table in a file; those that are copied only have their cells as written."""
    if path == "-":
        data = typer.get_binary_stream("stdin").read()
        return read_raw(STANDARD_INPUT, data, verbatim)
    return read_raw(path, verbatim=verbatim)


def called(path: str) -> str:
    """How messages call a file."""
    return STANDARD_INPUT.capitalize() if path == "-" else path


def select(table: Columns, names: Iterable[str]) -> Columns:
    """Some columns of a table, in this order."""
    by_name = {column.name: column for column in table.columns}
    kept = tuple(by_name[name] for name in names)
    if not kept:
        raise DataError("There is no column left.")
    return Columns(kept, None if table.names is None else tuple(c.name for c in kept))


def in_order(table: Columns, names: Sequence[str], path: str, like: str) -> Columns:
    """The columns of a table with these names; raises if some are not there."""
    known = {column.name for column in table.columns}
    missing = [name for name in names if name not in known]
    if missing:
        raise DataError(
            f"{called(path)} lacks columns of {called(like)}: {listed(missing)}. A column without "
            "values says that nothing is known."
        )
    return select(table, names)


def coded(tables: Sequence[Columns], paths: Sequence[str], bins: int) -> tuple[Schema, list[Any]]:
    """Tables as states of the same variables: their schema, and arrays with NaN for holes.

    Text and few integers are states; other numbers are divided into bins with equal shares.
    """
    first = tables[0]
    plain = Schema((None,) * len(first.columns), first.names)
    parts = [list(first.columns)]
    for table, path in zip(tables[1:], paths[1:], strict=True):
        named = first.names is not None and table.names is not None
        found = [column.name for column in table.columns] if named else len(table.columns)
        wanted = list(first.names or ()) if named else len(first.columns)
        if sorted(found) != sorted(wanted) if named else found != wanted:  # type: ignore[arg-type]
            raise DataError(
                f"{called(path)} must have the same columns as {called(paths[0])}. "
                f"Got {found} and {wanted}."
            )
        parts.append(plain.ordered(list(table.columns), table.names, called(path)))
    joint = [
        _discretised(joint_column(_alike(column)), bins, paths[0])
        for column in zip(*parts, strict=True)
    ]
    schema = frame_schema(joint, first.names, None, MOST_STATES)
    codes = np.stack([schema.read_column(v, column) for v, column in enumerate(joint)], axis=1)
    stops = np.cumsum([len(table) for table in tables])
    return schema, np.split(codes, stops[:-1])


def alike(one: Columns, other: Columns) -> tuple[Columns, Columns]:
    """Two tables whose columns of the same name hold the same: text if one of them does."""
    mine, theirs = ({column.name: column for column in t.columns} for t in (one, other))
    for name in mine.keys() & theirs.keys():
        mine[name], theirs[name] = _alike((mine[name], theirs[name]))
    return Columns(tuple(mine.values()), one.names), Columns(tuple(theirs.values()), other.names)


def _alike(parts: Sequence[FrameColumn]) -> list[FrameColumn]:
    """The parts of one column: all truth values, or all text if one of them is."""
    if any(part.kind == "bool" for part in parts):
        parts = [as_truth(part) for part in parts]
    if all(part.kind != "label" for part in parts):
        return list(parts)
    return [as_text(part) for part in parts]


def as_text(column: FrameColumn) -> FrameColumn:
    """A column as text."""
    if column.kind == "label":
        return column
    values = column.values if column.kind == "bool" else column.values.tolist()
    words = [None if x is None or x != x else str(as_label(x)) for x in values]
    return FrameColumn(column.name, "label", words)


def as_truth(column: FrameColumn) -> FrameColumn:
    """A column of the words true and false as truth values, others as they are."""
    if column.kind != "label" or not {str(x).lower() for x in column.distinct} <= TRUTH.keys():
        return column
    values = [None if x is None else TRUTH[str(x).lower()] for x in column.values]
    return FrameColumn(column.name, "bool", values)


def _discretised(column: FrameColumn, bins: int, path: str) -> FrameColumn:
    """A column of states: numbers of many different values become the names of their bins."""
    found = column.distinct
    if not found:
        name = column.name if column.name.isdecimal() else repr(column.name)
        raise DataError(
            f"Column {name} of {called(path)} has no values, so the number of its states is "
            "unknown. Leave it out: --without."
        )
    if column.kind != "number":
        if len(found) > MOST_STATES and column.kind == "label":
            raise DataError(
                f"Column {column.name!r} of {called(path)} has {len(found)} different words, and "
                f"up to {MOST_STATES} can be states. If they identify rows, leave it out: "
                f"--without {quote(column.name)}."
            )
        return column
    if all(isinstance(x, int) for x in found) and len(found) <= MOST_STATES:
        return column
    if np.isinf(column.values).any():
        raise DataError(f"Column {column.name!r} of {called(path)} has infinite values.")
    if len(found) <= bins:
        values = [None if x != x else as_label(x) for x in column.values.tolist()]
        return FrameColumn(column.name, "label", values, found)
    return binned(column, bins)


def rows_for(circuit: Circuit, table: Columns, path: str) -> Any:
    """The rows of a table as states of the variables of a circuit, NaN for holes."""
    schema = circuit.schema
    if schema.names is not None and table.names is not None:
        more = [name for name in table.names if name not in schema.names]
        if more and set(schema.names) <= set(table.names):
            raise DataError(
                f"{called(path)} has columns that the model does not have. Leave them out: "
                f"{' '.join(f'--without {quote(name)}' for name in more)}"
            )
    columns = schema.ordered(list(table.columns), table.names, called(path))
    read = [_read_by(schema, v, column) for v, column in enumerate(columns)]
    return np.stack([schema.read_column(v, column) for v, column in enumerate(read)], axis=1)


def _read_by(schema: Schema, variable: int, column: FrameColumn) -> FrameColumn:
    """A column in the words of a variable: numbers as names of bins, or as text."""
    labels = schema.labels(variable)
    if labels is not None and column.kind != "number":
        return spelled(column, labels)
    if labels is None:
        return column
    edges = edges_of(labels)
    if edges is not None:
        return in_bins(column, edges, labels)
    if look_like_numbers(labels) and all(isinstance(label, str) for label in labels):
        return as_text(column)
    return column


def spelled(column: FrameColumn, labels: Sequence[Any]) -> FrameColumn:
    """A column with the truth values, or the words for them, that are among the labels."""
    if column.kind == "bool" or all(isinstance(label, bool) for label in labels):
        like = {str(label).lower(): label for label in labels}
        values = [None if x is None else like.get(str(x).lower(), x) for x in column.values]
        return FrameColumn(column.name, column.kind, values)
    return column


def evidence_of(circuit: Circuit, given: Sequence[str] | None) -> Any:
    """The row of evidence that words such as rain=yes stand for, NaN where nothing is known."""
    row = np.full(circuit.n_variables, np.nan)
    said: dict[int, str] = {}
    for words in given or ():
        name, sign, value = words.partition("=")
        if not sign:
            raise DataError(
                f"What is given is written as NAME=VALUE, such as rain=yes. Got {words!r}."
            )
        variable = variable_of(circuit, name)
        cell = raw_column(name, [value])
        if cell.distinct == []:
            raise DataError(f"Nothing is said of {name!r} in {words!r}. Leave it out.")
        if variable in said:
            raise typer.BadParameter(
                f"{name.strip()!r} can be given once. Got {said[variable]!r} and {words!r}."
            )
        said[variable] = words
        row[variable] = _value(circuit.schema, variable, cell)
    return row


def variable_of(circuit: Circuit, name: str) -> int:
    """The number of a variable, by its name, or by its number if there are no names."""
    word = name.strip()
    numbered = circuit.names is None and word.isdecimal()
    return circuit.schema.variable(int(word) if numbered else word)


def _value(schema: Schema, variable: int, cell: FrameColumn) -> float:
    """The state or number in a cell."""
    if schema.cardinalities[variable] is None:
        return float(schema.read_column(variable, cell)[0])
    [key] = _read_by(schema, variable, cell).values
    return float(schema.state(variable, as_label(key)))


def write_rows(names: Sequence[str], columns: Sequence[Any], out: str) -> None:
    """Write a table: CSV, TSV or Parquet by the suffix, or CSV to standard output (-)."""
    if suffix_of(out) in (".parquet", ".pq"):
        pa, parquet = pyarrow_for(out)
        parquet.write_table(pa.table(dict(zip(names, map(_typed, columns), strict=True))), out)
        return
    text = StringIO()
    delimiter = "\t" if suffix_of(out) == ".tsv" else ","
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*([_cell(x) for x in column] for column in columns), strict=True))
    if out == "-":
        typer.echo(text.getvalue(), nl=False)
        return
    contents = text.getvalue().encode()
    Path(out).write_bytes(compress(contents, mtime=0) if out.endswith(".gz") else contents)


def _typed(column: Any) -> list[Any]:
    return [None if x is None or x != x else x for x in map(_scalar, column)]


def _scalar(x: Any) -> Any:
    return x.item() if isinstance(x, np.generic) else x


def _cell(x: Any) -> str:
    """A value as text: whole numbers without a point, nothing for what is missing."""
    x = _scalar(x)
    if x is None or x != x:
        return ""
    return str(int(x)) if isinstance(x, float) and x.is_integer() and abs(x) < 2**53 else str(x)


def decoded(circuit: Circuit, rows: Any) -> tuple[list[str], list[list[Any]]]:
    """Names, and columns of labels, codes and numbers, of rows of a circuit."""
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
    return names, columns
