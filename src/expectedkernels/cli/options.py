"""Options, answers and reports that commands share."""

from __future__ import annotations

import json
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import partial, wraps
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer import Argument, Option
from typer.core import TyperGroup

FAILED, WRONG_USAGE, NO = 1, 2, 3
"""Exit codes: data or a file cannot be used; wrong usage; a test rejects."""

CONTEXT = {"help_option_names": ["-h", "--help"]}
TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq")
LINE = "expectedkernels.line"
"""Where contexts keep the words of the command line."""


class _Lazy:
    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("expectedkernels.cli.input"), name)


files: Any = _Lazy()
"""The module that reads tables and models, imported when a command runs: help is instant."""


@dataclass(frozen=True)
class Answer:
    """What a command prints, as JSON or as text.

    Attributes
    ----------
    numbers : object
        What is printed as JSON.
    words, text, tables : mapping, str, mapping
        What is printed otherwise: names and values, other text, and tables with their headings.
    rejected : bool
        Whether a test rejects, which is an exit code.
    """

    numbers: Any
    words: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    tables: Mapping[str, Any] = field(default_factory=dict)
    rejected: bool = False


@dataclass(frozen=True)
class Drawn(Answer):
    """What a command prints, and draws to figures and reports.

    Attributes
    ----------
    title : str
        The title of a report.
    details : mapping
        Names and values that only reports have.
    pictures : mapping
        From headings to functions that return axes; the first one is written by --plot.
    files : mapping
        From paths to what was read: tables, circuits, or texts.
    """

    title: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    pictures: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    files: Mapping[str, Any] = field(default_factory=dict)


def command(run: Callable[..., Answer | None]) -> Callable[..., None]:
    """A function that prints and draws the output of a command, with errors in one line.

    By the type of the output, the command has the options --json, --plot and --report.
    """
    form: Any = signature(run, eval_str=True)
    added = {Answer: OPTIONS[-1:], Drawn: OPTIONS}.get(form.return_annotation, ())

    def answered(**options: Any) -> None:
        with errors():
            answer = run(**{name: options[name] for name in form.parameters})
            if answer is None:
                return
            if options["as_json"]:
                numbers = plain(answer.numbers)
                typer.echo(json.dumps(numbers, indent=2, ensure_ascii=False, allow_nan=False))
            else:
                width = max(map(len, answer.words), default=0) + 2
                words = "\n".join(f"{name:{width}}{x}" for name, x in answer.words.items())
                parts = [words, answer.text, *(as_table(*x) for x in answer.tables.values())]
                typer.echo("\n\n".join(filter(None, parts)))
            if options.get("plot") or options.get("report"):
                _draw(answer, options["ctx"])
            if answer.rejected:
                raise typer.Exit(NO)

    handled: Any = wraps(run)(answered)
    handled.__signature__ = form.replace(parameters=[*form.parameters.values(), *added])
    return handled


@contextmanager
def errors() -> Iterator[None]:
    """Turn the errors a user can do something about into one line and an exit code."""
    printed: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        line = " ".join(str(message).splitlines())
        if line not in printed:
            printed.add(line)
            typer.echo(f"Warning: {line}", err=True)

    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=UserWarning)
        warnings.showwarning = show
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
    """Print a warning in one line on standard error, once."""
    warnings.warn(message, UserWarning, stacklevel=2)


def fail(message: str, code: int = FAILED) -> NoReturn:
    """Print an error in one line, and exit."""
    typer.echo(f"Error: {' '.join(message.splitlines())}", err=True)
    raise typer.Exit(code=code)


def require(good: Any, message: str, code: int = FAILED) -> None:
    """Print an error in one line, and exit, unless something holds."""
    if not good:
        fail(message, code)


def note(message: str) -> None:
    """Print progress on terminals."""
    if sys.stderr.isatty():
        typer.echo(message, err=True)


def as_table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A line with a name and numbers for every row, below a header."""
    first = max(len(heads[0]), *(len(row[0]) for row in rows)) + 2
    lines = []
    for name, *cells in [heads, *rows]:
        shown = (x if isinstance(x, str) else f"{x:.4g}" for x in cells)
        parts = (f"{x:>{max(12, len(head))}}" for x, head in zip(shown, heads[1:], strict=True))
        lines.append("  ".join([f"{name:{first}}", *parts]))
    return "\n".join(lines)


def plain(found: Any) -> Any:
    """Arrays and NumPy scalars as JSON values; NaN and infinity are null.

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
    """Report a missing file before anything is imported to read it."""
    if path is not None and str(path) != "-" and not Path(path).exists():
        fail(f"{path}: No such file or directory")
    return path


def refuse_twice(*paths: str | None) -> None:
    """Raise if two tables are to come from standard input."""
    alone = paths.count("-") < 2
    require(alone, "Standard input can be one of two tables, and not both.", WRONG_USAGE)


def check_folder(out: str) -> None:
    """Raise if nothing can be written to a path, before the work is done."""
    if Path(out).is_dir():
        raise IsADirectoryError(21, "Is a folder, and not a place for a file", out)
    if not Path(out).absolute().parent.is_dir():
        raise FileNotFoundError(2, "The folder to write to does not exist", out)


class Remembering(TyperGroup):
    """Commands that know the line that they were called by."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep the words, and read them."""
        ctx.meta[LINE] = f"{self.name} {shlex.join(args)}"
        return super().parse_args(ctx, args)


def _out(what: str, *suffixes: str, names: tuple[str, ...] = ("--out", "-o")) -> Any:
    """The option for the file of a result, which is checked before the work is done."""

    def check(path: Any) -> Any:
        if path is None or path == "-":
            return path
        if not str(path).lower().endswith(suffixes):
            raise typer.BadParameter(f"must end in {', '.join(suffixes)}. Got {path} instead.")
        with errors():
            check_folder(str(path))
        return path

    listed = f" ({', '.join(suffixes)})" if len(suffixes) < 5 else ""
    return Option(*names, callback=check, help=f"Where to write {what}{listed}.")


InFile = partial(Argument, callback=require_file)
InFileOption = partial(Option, callback=require_file)

AsJson = Annotated[bool, Option("--json", help="Print JSON.")]
Seed = Annotated[int, Option(min=0, help="Seed of all random choices.")]
Level = Annotated[float, Option(min=0.0, max=1.0, help="The level of the test.")]
BINS = "Divide numeric columns of more than N distinct values into N bins."
Bins = Annotated[int, Option(min=2, help=BINS)]
WITHOUT = "A column to leave out, such as an identifier (may be repeated)."
Without = Annotated[list[str] | None, Option(help=WITHOUT)]
MARKS = "Text that marks a missing value, in addition to empty cells, NA and NaN"
Missing = Annotated[list[str] | None, Option(metavar="MARK", help=f"{MARKS} (may be repeated).")]
PICTURES = (".png", ".svg", ".pdf")
Picture = Annotated[Path | None, _out("a figure", *PICTURES, names=("--plot",))]
Report = Annotated[Path | None, _out("a report", ".html", ".htm", names=("--report",))]
Out = Annotated[Path, _out("the circuit", ".npz")]
OutPicture = Annotated[Path, _out("the figure", *PICTURES)]
SHARED = (
    ("ctx", typer.Context, Parameter.empty),
    ("plot", Picture, None),
    ("report", Report, None),
)
OPTIONS = [
    Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
    for name, kind, default in (*SHARED, ("as_json", AsJson, False))
]
"""What commands that draw have in common; the last one is that of all that print."""
OutModel = Annotated[Path, _out("the model", ".skops")]
OutNetwork = Annotated[Path, _out("the network", ".bif", ".uai")]
TABLE = "the table: .csv, .tsv (these also with .gz), .parquet, or -"
OutTable = Annotated[str, _out(TABLE, *TABLES)]


def settings_of(ctx: Any) -> dict[str, Any]:
    """The command line, and the values of all options."""
    settings = {"command": ctx.meta.get(LINE, ctx.command_path)}
    for parameter in ctx.command.params:
        if parameter.name in ctx.params:
            source = ctx.get_parameter_source(parameter.name)
            default = " (default)" if source is not None and source.name == "DEFAULT" else ""
            name = max(parameter.opts, key=len).lstrip("-")
            settings[name] = f"{_text(ctx.params[parameter.name])}{default}"
    return settings


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value)) or "none"
    return str(value.value if isinstance(value, Enum) else value)


def _draw(answer: Any, ctx: typer.Context) -> None:
    """Write the figure and the report that were asked for."""
    from expectedkernels.plotting import close, save
    from expectedkernels.reports import write_report

    figures = {heading: make() for heading, make in answer.pictures.items()}
    if plot := ctx.params["plot"]:
        save(next(iter(figures.values())), plot)
    if report := ctx.params["report"]:
        files = answer.files.items()
        read = [["standard input" if path == "-" else path, _size(x)] for path, x in files]
        sections = {"Answer": {**answer.words, **answer.details}, **figures, **answer.tables}
        sections |= {"Files": (["file", "holds"], read)}
        write_report(report, answer.title, sections, settings_of(ctx))
    for axes in figures.values():
        close(axes)


def _size(found: Any) -> str:
    """How large a table, a circuit or a model is."""
    if isinstance(found, str):
        return found
    if hasattr(found, "columns"):
        return f"{len(found)} rows, {len(found.columns)} columns"
    return f"{found.n_variables} variables, {found.n_units} units"
