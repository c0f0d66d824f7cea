"""Pictures and reports of commands: what was found, in what, and by which words."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from expectedkernels.cli.base import check_folder, errors

PICTURES = (".png", ".svg", ".pdf")
TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq")
LINE = "expectedkernels.line"
"""Where contexts keep the words of the command line."""


class Remembering(TyperGroup):
    """Commands that know the line that they were called by."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep the words, and read them."""
        ctx.meta[LINE] = f"{self.name} {shlex.join(args)}"
        return super().parse_args(ctx, args)


def _picture_place(path: Path | None) -> Path | None:
    return _place(path, PICTURES)


def _report_place(path: Path | None) -> Path | None:
    return _place(path, (".html", ".htm"))


def _model_place(path: Path) -> Any:
    return _place(path, (".skops",))


def _table_place(path: str) -> str:
    return path if path == "-" else _place(path, TABLES)


def _place(path: Any, suffixes: tuple[str, ...]) -> Any:
    """Say what is wrong with a file before the work is done whose result it is for."""
    if path is None:
        return None
    if not str(path).lower().endswith(suffixes):
        raise typer.BadParameter(f"must end in {', '.join(suffixes)}. Got {path} instead.")
    with errors():
        check_folder(str(path))
    return path


Picture = Annotated[
    Path | None,
    typer.Option(
        "--plot", callback=_picture_place, help="Where to write a picture (.png, .svg, .pdf)."
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        "--report", callback=_report_place, help="Where to write a report with it (.html)."
    ),
]


OutPicture = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        callback=_picture_place,
        help="Where to write the picture (.png, .svg, .pdf).",
    ),
]
OutModel = Annotated[
    Path,
    typer.Option("--out", "-o", callback=_model_place, help="Where to write the model (.skops)."),
]
OutTable = Annotated[
    str,
    typer.Option(
        "--out",
        "-o",
        callback=_table_place,
        help="Where to write the table: .csv, .tsv (these also with .gz), .parquet, or -.",
    ),
]


def settings_of(ctx: typer.Context) -> dict[str, Any]:
    """The line that a command was called by, and the values of all of its options."""
    return {"command": ctx.meta.get(LINE, ctx.command_path)} | dict(_options(ctx))


def _options(ctx: Any) -> Iterator[tuple[str, str]]:
    for parameter in ctx.command.params:
        if parameter.name in ctx.params:
            source = ctx.get_parameter_source(parameter.name)
            default = " (default)" if source is not None and source.name == "DEFAULT" else ""
            name = max(parameter.opts, key=len).lstrip("-")
            yield name, f"{_said(ctx.params[parameter.name])}{default}"


def _said(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, list | tuple):
        return ", ".join(map(_said, value)) or "none"
    return str(value.value if isinstance(value, Enum) else value)


def draw(
    ctx: typer.Context,
    title: str,
    words: Mapping[str, Any],
    pictures: Mapping[str, Callable[[], Any]],
    files: Mapping[str, Any],
    tables: Mapping[str, Any] | None = None,
) -> None:
    """Write the picture (the first one) and the report that were asked for.

    Parameters
    ----------
    ctx : typer.Context
    title : str
    words : mapping
        The answer.
    pictures : mapping
        From headings to what draws axes.
    files : mapping
        From paths to what was read: tables and circuits.
    tables : mapping, optional
        From headings to tables.
    """
    plot, report = ctx.params["plot"], ctx.params["report"]
    if plot is None and report is None:
        return
    from expectedkernels.plotting.style import close, save
    from expectedkernels.reports import write_report

    drawn = {heading: make() for heading, make in pictures.items()}
    if plot is not None:
        save(next(iter(drawn.values())), plot)
    if report is not None:
        read = (["file", "holds"], [[_called(path), _size(found)] for path, found in files.items()])
        sections = {"Answer": words, **drawn, **(tables or {}), "Files": read}
        write_report(report, title, sections, settings_of(ctx))
    for axes in drawn.values():
        close(axes)


def _called(path: str) -> str:
    return "standard input" if path == "-" else path


def _size(found: Any) -> str:
    """How large a table, a circuit or a model is."""
    if isinstance(found, str):
        return found
    if hasattr(found, "columns"):
        return f"{len(found)} rows, {len(found.columns)} columns"
    return f"{found.n_variables} variables, {found.n_units} units"
