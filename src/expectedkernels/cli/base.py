"""What all commands share: errors, warnings and answers as people and programs read them."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

FAILED, WRONG_USAGE, NO = 1, 2, 3
"""Exit codes: something is wrong with a file or its data, or with the call; the answer is no."""

CONTEXT = {"help_option_names": ["-h", "--help"]}

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Where to write the circuit (.npz).")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random choices.")]
Without = Annotated[
    list[str] | None,
    typer.Option(help="A column to leave out, such as an identifier (may be repeated)."),
]
Bins = Annotated[
    int,
    typer.Option(min=2, help="Divide numeric columns of more than N distinct values into N bins."),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MARK",
        help="Text of cells without a value, beside empty ones, NA, NaN and the like (may be "
        "repeated).",
    ),
]
Level = Annotated[float, typer.Option(min=0.0, max=1.0, help="The level of the test.")]


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


def show(found: Mapping[str, str]) -> None:
    """Print names and values in two columns."""
    width = max(map(len, found)) + 2
    for name, value in found.items():
        typer.echo(f"{name:{width}}{value}")


def show_json(found: Any) -> None:
    """Print an answer for programs: NaN and infinity, which JSON does not know, are null."""
    typer.echo(json.dumps(plain(found), indent=2, ensure_ascii=False, allow_nan=False))


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
    from expectedkernels.errors import CircuitError

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
