"""Files in other formats: circuits, models and tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from expectedkernels import io
from expectedkernels.cli.models import CIRCUITS, MODELS, is_model, read_distribution
from expectedkernels.cli.pages import TABLES
from expectedkernels.cli.tables import read_file, write_rows
from expectedkernels.errors import CircuitError
from expectedkernels.io.files import suffix_of
from expectedkernels.io.raw import forms_of, warn_of_numbers


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
    table, marks = read_file(source), missing or ()
    if suffix_of(out) in (".parquet", ".pq"):
        warn_of_numbers(table.path, table.columns, forms_of([table], marks), marks)
    columns = {column.name: column for column in table.columns}
    write_rows(columns, out, marks, header=table.names is not None)


def _check(source: str, out: str, kind: str, suffixes: tuple[str, ...]) -> None:
    if suffix_of(out) in suffixes or out in suffixes or out.endswith(suffixes):
        return
    advice = " `compile` makes a circuit of a model." if kind == "model" and is_model(out) else ""
    raise CircuitError(
        f"{source} holds a {kind}, which is written to files that end in {', '.join(suffixes)}. "
        f"Got {out} instead.{advice}"
    )
