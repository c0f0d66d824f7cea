"""Options and reports that commands share."""

from __future__ import annotations

import json
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

FAILED, WRONG_USAGE, NO = 1, 2, 3
"""Exit codes: something is wrong with a file or its data, or with the call; the answer is no."""

CONTEXT = {"help_option_names": ["-h", "--help"]}


@contextmanager
def errors() -> Iterator[None]:
    """Turn the errors a user can do something about into one line and an exit code."""
    printed: set[str] = set()

    def say(message: Warning | str, *_: Any, **__: Any) -> None:
        line = " ".join(str(message).splitlines())
        if line not in printed:
            printed.add(line)
            typer.echo(f"Warning: {line}", err=True)

    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=UserWarning)
        warnings.showwarning = say
        try:
            yield
        except BrokenPipeError:  # who reads has seen enough
            raise
        except OSError as error:
            place = "" if error.filename is None else f"{error.filename}: "
            fail(f"{place}{error.strerror or error}")
        except (ValueError, ImportError) as error:
            fail("\n".join([str(error), *getattr(error, "__notes__", ())]))
        except MemoryError:
            fail("There is not enough memory.")


def warn(message: str) -> None:
    """Say what is odd, in one line beside the answer, and once."""
    warnings.warn(message, UserWarning, stacklevel=2)


def fail(message: str, code: int = FAILED) -> NoReturn:
    """Say what is wrong, in one line, and end."""
    typer.echo(f"Error: {' '.join(message.splitlines())}", err=True)
    raise typer.Exit(code=code)


def note(message: str) -> None:
    """Say what is going on, to people only."""
    if sys.stderr.isatty():
        typer.echo(message, err=True)


def show(words: Mapping[str, Any]) -> None:
    """Print names and values in two columns."""
    width = max(map(len, words)) + 2
    for name, value in words.items():
        typer.echo(f"{name:{width}}{value}")


def show_json(found: Any) -> None:
    """Print an answer for programs: NaN and infinity, which JSON does not know, are null."""
    typer.echo(json.dumps(plain(found), indent=2, ensure_ascii=False, allow_nan=False))


def answer(as_json: bool, found: Any, words: Mapping[str, Any]) -> None:
    """Print an answer for programs, or in words."""
    if as_json:
        show_json(found)
    else:
        show(words)


def show_table(heads: Sequence[str], rows: Sequence[Sequence[Any]], digits: int) -> None:
    """Print a line with a name and numbers for every row, below what they are."""
    first = max(len(heads[0]), *(len(row[0]) for row in rows)) + 2
    widths = [max(12, len(head)) for head in heads[1:]]
    for name, *cells in [heads, *rows]:
        shown = (x if isinstance(x, str) else f"{x:.{digits}g}" for x in cells)
        parts = (f"{cell:>{width}}" for cell, width in zip(shown, widths, strict=True))
        typer.echo("  ".join([f"{name:{first}}", *parts]))


def plain(found: Any) -> Any:
    """What arrays, and numbers of NumPy, are in JSON.

    Examples
    --------
    >>> plain({"a": (1.5, float("nan")), "b": True})
    {'a': [1.5, None], 'b': True}
    """
    if isinstance(found, Mapping):
        return {str(key): plain(value) for key, value in found.items()}
    if hasattr(found, "tolist"):
        return plain(found.tolist())
    if isinstance(found, Sequence) and not isinstance(found, str):
        return [plain(value) for value in found]
    if isinstance(found, float) and not -float("inf") < found < float("inf"):
        return None
    return found


def require_file(path: Any) -> Any:
    """Say that a file is not there before anything is imported to read it."""
    if path is not None and str(path) != "-" and not Path(path).exists():
        fail(f"{path}: No such file or directory")
    return path


def refuse_twice(*paths: str | None) -> None:
    """Raise if two tables are to come from standard input."""
    if paths.count("-") > 1:
        raise typer.BadParameter("Standard input can be one of two tables, and not both.")


def check_out(out: Path) -> None:
    """Raise before the work is done if its result cannot be written, or not be read again."""
    from expectedkernels.checks import CircuitError

    check_folder(str(out))
    if out.suffix != ".npz":
        raise CircuitError(f"The file for a circuit must end in .npz. Got {out} instead.")


def check_folder(out: str) -> None:
    """Raise if nothing can be written to a path, before the work is done."""
    path = Path(out)
    if path.is_dir():
        raise IsADirectoryError(21, "Is a folder, and not a place for a file", out)
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(2, "The folder to write to does not exist", out)


TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq")
LINE = "expectedkernels.line"
"""Where contexts keep the words of the command line."""


class Remembering(TyperGroup):
    """Commands that know the line that they were called by."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep the words, and read them."""
        ctx.meta[LINE] = f"{self.name} {shlex.join(args)}"
        return super().parse_args(ctx, args)


def _ends_in(*suffixes: str) -> Callable[[Any], Any]:
    """What says what is wrong with a file before the work is done whose result it is for."""

    def check(path: Any) -> Any:
        if path is None or path == "-":
            return path
        if not str(path).lower().endswith(suffixes):
            raise typer.BadParameter(f"must end in {', '.join(suffixes)}. Got {path} instead.")
        with errors():
            check_folder(str(path))
        return path

    return check


InFile = partial(typer.Argument, callback=require_file)
InFileOption = partial(typer.Option, callback=require_file)
OutOption = partial(typer.Option, "--out", "-o")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random choices.")]
Level = Annotated[float, typer.Option(min=0.0, max=1.0, help="The level of the test.")]
Bins = Annotated[
    int,
    typer.Option(min=2, help="Divide numeric columns of more than N distinct values into N bins."),
]
Without = Annotated[
    list[str] | None,
    typer.Option(help="A column to leave out, such as an identifier (may be repeated)."),
]
MARKS = "Text of cells without a value, beside empty ones, NA, NaN and the like"
Missing = Annotated[
    list[str] | None, typer.Option(metavar="MARK", help=f"{MARKS} (may be repeated).")
]
PICTURE, REPORT = _ends_in(".png", ".svg", ".pdf"), _ends_in(".html", ".htm")
Picture = Annotated[
    Path | None,
    typer.Option("--plot", callback=PICTURE, help="Where to write a picture (.png, .svg, .pdf)."),
]
Report = Annotated[
    Path | None,
    typer.Option("--report", callback=REPORT, help="Where to write a report with it (.html)."),
]
Out = Annotated[Path, OutOption(help="Where to write the circuit (.npz).")]
OutPicture = Annotated[
    Path, OutOption(callback=PICTURE, help="Where to write the picture (.png, .svg, .pdf).")
]
OutModel = Annotated[
    Path, OutOption(callback=_ends_in(".skops"), help="Where to write the model (.skops).")
]
TABLE = "Where to write the table: .csv, .tsv (these also with .gz), .parquet, or -."
OutTable = Annotated[str, OutOption(callback=_ends_in(*TABLES), help=TABLE)]


def settings_of(ctx: Any) -> dict[str, Any]:
    """The line that a command was called by, and the values of all of its options."""
    settings = {"command": ctx.meta.get(LINE, ctx.command_path)}
    for parameter in ctx.command.params:
        if parameter.name in ctx.params:
            source = ctx.get_parameter_source(parameter.name)
            default = " (default)" if source is not None and source.name == "DEFAULT" else ""
            name = max(parameter.opts, key=len).lstrip("-")
            settings[name] = f"{_said(ctx.params[parameter.name])}{default}"
    return settings


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
        held = [
            ["standard input" if path == "-" else path, _size(found)]
            for path, found in files.items()
        ]
        read = (["file", "holds"], held)
        sections = {"Answer": words, **drawn, **(tables or {}), "Files": read}
        write_report(report, title, sections, settings_of(ctx))
    for axes in drawn.values():
        close(axes)


def _size(found: Any) -> str:
    """How large a table, a circuit or a model is."""
    if isinstance(found, str):
        return found
    if hasattr(found, "columns"):
        return f"{len(found)} rows, {len(found.columns)} columns"
    return f"{found.n_variables} variables, {found.n_units} units"
