"""What the studies share: results in a file that grows, the work on them, tables and curves."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar
from zlib import crc32

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from expectedkernels.checks import DataError, ParseError, progress_bar
from expectedkernels.reports import write_report

FILES = "files"
"""Where `settings.json` has the sums of files: more of them may come later."""


class OfCell(Protocol):
    """A result, which is of a cell of a study; among others, a cell has a field `trial`."""

    @property
    def cell(self) -> Any:
        """Where the result is from."""


R = TypeVar("R", bound=OfCell)


class ResultsFile(Generic[R]):
    """The results in a folder, each under a key of its own.

    A study says in a subclass what its results are: the columns of the file, a result from a row
    and back, the key of a result, and its place, which it shares with the results of other trials.

    Parameters
    ----------
    folder : str or Path
        Made if there is none; `results.csv` in it is read if it is there.
    settings : mapping
        Kept in `settings.json`. Results that were made with other settings are refused.
    """

    HEADER: ClassVar[tuple[str, ...]] = ()

    def __init__(self, folder: str | Path, settings: Mapping[str, Any]):
        self.folder = Path(folder)
        self.path = self.folder / "results.csv"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._check_settings(dict(settings))
        self._found: dict[Hashable, R] = {}
        self._places: dict[Hashable, dict[int, R]] = {}
        if self.path.exists():
            self._read()

    def parse(self, row: list[str]) -> R:
        """The result in a row of the file; raises ValueError if there is none."""
        raise NotImplementedError

    def row(self, record: R) -> Sequence[Any]:
        """A result as a row of the file."""
        raise NotImplementedError

    def key(self, record: R) -> Hashable:
        """What a result is of."""
        raise NotImplementedError

    def place(self, record: R) -> Hashable:
        """What a result is of, but for the trial."""
        raise NotImplementedError

    def _check_settings(self, settings: dict[str, Any]) -> None:
        path = self.folder / "settings.json"
        if path.exists() and self.path.exists():
            before = json.loads(path.read_text(encoding="utf-8"))
            before.pop(FILES, None)
            if before != settings:
                raise DataError(
                    f"The results in {self.folder} were made with other settings: {before}, and "
                    f"not {settings}. Choose another folder with --out, or remove this one."
                )
            return
        self._write_settings(settings)

    def _write_settings(self, settings: dict[str, Any]) -> None:
        path = self.folder / "settings.json"
        path.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")

    def _read(self) -> None:
        text = self.path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        if whole != text:  # an append was cut off
            os.truncate(self.path, len(whole.encode()))
        for line, row in enumerate(csv.reader(io.StringIO(whole)), start=1):
            if line == 1:
                if tuple(row) != self.HEADER:
                    raise ParseError(
                        f"expected the columns {', '.join(self.HEADER)}, found {', '.join(row)}. "
                        "Choose another folder with --out",
                        str(self.path),
                        1,
                    )
                continue
            try:
                record = self.parse(row)
            except ValueError:
                raise ParseError(f"expected a result, found {row}", str(self.path), line) from None
            self._note(record)

    def _note(self, record: R) -> None:
        self._found[self.key(record)] = record
        self._places.setdefault(self.place(record), {})[record.cell.trial] = record

    def trials_at(self, place: Hashable) -> dict[int, R]:
        """The results of all trials at a place, by the number of the trial."""
        return self._places.get(place, {})

    def column(self, place: Hashable, field: str) -> Any:
        """One field of the results of all trials at a place, shape (trials,)."""
        found = self.trials_at(place)
        return np.array([getattr(found[trial], field) for trial in sorted(found)])

    def __contains__(self, key: Hashable) -> bool:
        return key in self._found

    def __iter__(self) -> Iterator[R]:
        return iter(self._found.values())

    def __len__(self) -> int:
        return len(self._found)

    def values(self, field: str) -> list[Any]:
        """The distinct values of a field of the cells, in the order of the file."""
        return list(dict.fromkeys(getattr(record.cell, field) for record in self))

    def add(self, records: Sequence[R]) -> None:
        """Append results to the file, all or (if the process is killed) at most a cut-off line."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self.path.exists() or self.path.stat().st_size == 0:
            writer.writerow(self.HEADER)
        for record in records:
            writer.writerow(self.row(record))
            self._note(record)
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, text.getvalue().encode())
        finally:
            os.close(descriptor)


class Drawing(NamedTuple):
    """A figure: the name of its file, what it is, what is said of it, and its axes."""

    name: str
    title: str
    words: str
    axes: Any


@dataclass(frozen=True)
class Done:
    """What a run wrote, its summary, what it says in short, and what could not be done."""

    records: Any
    files: tuple[Path, ...]
    text: str
    words: str
    problem: str = ""

    def write_page(self, path: Path, settings: Mapping[str, Any]) -> Path:
        """The path, after the study was written there: one HTML file with tables and figures.

        The settings of its results, with their seed, are written down beside the given ones.
        """
        folder = self.records.folder
        title, sections = _sections(self.text, folder)
        kept = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
        return write_report(path, title, sections, {**settings, **_flat(kept)})


def chosen(**asked: Any) -> dict[str, Any]:
    """What was asked for; None and empty lists leave the choice to the study.

    Examples
    --------
    >>> chosen(trials=3, methods=None, datasets=[])
    {'trials': 3}
    """
    return {name: value for name, value in asked.items() if value is not None and value != []}


def check_names(names: Sequence[str], known: Collection[str], what: str) -> None:
    """Raise if a name is not among those that are known."""
    for name in names:
        if name not in known:
            raise DataError(f"There is no {what} {name!r}. There are: {'; '.join(known)}.")


def check_jobs(jobs: int) -> None:
    """Raise if there is nobody to do the work."""
    if jobs == 0:
        raise DataError("The number of processes must be at least 1, or -1 for all. Got 0.")


def collect(
    records: ResultsFile[Any],
    work: Callable[..., list[Any]],
    todo: Collection[tuple[Any, ...]],
    label: Callable[[Any], str],
    jobs: int,
    progress: bool,
) -> None:
    """Add what `work` finds for the arguments in `todo`, as it is found, by several processes.

    Parameters
    ----------
    records : ResultsFile
    work : function
        From arguments to a list of records.
    todo : collection of tuples of arguments
    label : function
        From a record to what the bar says of it.
    jobs : int
        The number of processes.
    progress : bool
        Whether to show a bar (only on a terminal).
    """
    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
    with progress_bar(len(todo), "cells", not progress) as bar:
        for found in parallel(
            joblib.delayed(_on_one_thread)(work, *arguments) for arguments in todo
        ):
            records.add(found)
            bar.set_postfix_str(label(found[0]), refresh=False)
            bar.update()


def _on_one_thread(work: Callable[..., list[Any]], *arguments: Any) -> list[Any]:
    # One thread each: the matrices are small, and other processes work on other cells.
    with threadpool_limits(1):
        return work(*arguments)


def written(records: ResultsFile[Any], text: str, draw: Callable[[], Iterable[Drawing]]) -> Done:
    """The summary and the figures of a study, in the folder of its results.

    Parameters
    ----------
    records : ResultsFile
    text : str
        The summary. What its section "In short" says is repeated on the screen; figures come
        after it.
    draw : function
        Gives the figures; those without axes are left out.
    """
    words = text.partition("## In short\n\n")[2].partition("\n\n##")[0]
    pictures, problem = [], ""
    try:
        from expectedkernels.plotting.style import close, save

        for drawing in draw():
            if drawing.axes is not None:
                path = save(drawing.axes[0], records.folder / f"{drawing.name}.png")
                close(drawing.axes[0])
                pictures.append(path)
                shown = f"## {drawing.title}\n\n{drawing.words}\n\n![{drawing.title}]({path.name})"
                text = _before_tables(text, shown)
    except ImportError as error:
        problem = f"No picture was written. {error}"
    path = records.folder / "summary.md"
    path.write_text(text, encoding="utf-8")
    return Done(records, (records.path, path, *pictures), text, words.strip(), problem)


def _before_tables(text: str, section: str) -> str:
    """A summary with one more section, before the first of those with tables."""
    lines = text.split("\n\n")
    first = next((i for i, line in enumerate(lines) if line.startswith("|")), len(lines))
    heads = [i for i, line in enumerate(lines[:first]) if line.startswith("## ")]
    at = heads[-1] if heads and first < len(lines) else len(lines)
    return "\n\n".join([*lines[:at], section, *lines[at:]])


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings within settings, one by one."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        inner = value if isinstance(value, dict) else {}
        found |= {f"study: {name}, {key}": x for key, x in inner.items()}
        found |= {} if inner else {f"study: {name}": value}
    return found


def _sections(text: str, folder: Path) -> tuple[str, dict[str, list[Any]]]:
    """The title of a summary, and what is below each of its headings."""
    title = above = ""
    heading = "What was done"
    found: dict[str, list[Any]] = {}
    for block in text.strip().split("\n\n"):
        mark, _, rest = block.partition(" ")
        if mark == "#":
            title = rest
        elif mark == "##":
            above = heading = rest
        elif mark == "###":
            heading = f"{above}: {rest}"
        else:
            found.setdefault(heading, []).extend(_blocks(block, folder))
    return title, found


def _blocks(block: str, folder: Path) -> list[Any]:
    """A table, a picture, a list, or paragraphs."""
    if block.startswith("!["):
        return [(folder / block.rpartition("(")[2].rstrip(")")).read_bytes()]
    lines = [re.sub(r"\*+([^*]+)\*+", r"\1", line) for line in block.splitlines()]
    if block.startswith("- "):
        return [[line.removeprefix("- ") for line in lines]]
    if not block.startswith("|"):
        return lines
    head, _, *rows = (line[2:-2].split(" | ") for line in lines)
    return [(head, rows)]


def cell_rng(seed: int, where: str, *numbers: int) -> np.random.Generator:
    """Random numbers of their own for what a text and some numbers name, whatever ran before.

    Examples
    --------
    >>> cell_rng(0, "asia", 1).random() == cell_rng(0, "asia", 1).random()
    True
    >>> cell_rng(0, "asia", 1).random() == cell_rng(0, "asia", 2).random()
    False
    """
    return np.random.default_rng([seed, crc32(where.encode()), *numbers])


def spread(errors: Any) -> float:
    """The standard deviation over trials, zero for a single one.

    Examples
    --------
    >>> spread(np.array([1.0, 3.0])) ** 2, spread(np.array([1.0]))
    (2.0, 0.0)
    """
    return float(errors.std(ddof=1)) if len(errors) > 1 else 0.0


def standard_error(errors: Any, share: float) -> float:
    """That of the difference between our mean and one whose variance is a share of our spread's.

    Examples
    --------
    >>> standard_error(np.array([1.0, 3.0]), 1 / 2) ** 2
    2.0
    """
    return spread(errors) * sqrt(1 / len(errors) + share)


def distance(ours: float, theirs: float, error: float) -> float:
    """A difference in multiples of its standard error.

    Examples
    --------
    >>> distance(1.0, 2.0, 0.5)
    2.0
    """
    return abs(ours - theirs) / max(error, 1e-300)


def table_row(cells: Iterable[str]) -> str:
    """A row of a table in Markdown.

    Examples
    --------
    >>> table_row(["mean", "2.5"])
    '| mean | 2.5 |'
    """
    return "| " + " | ".join(cells) + " |"


def mean_and_std(errors: Any, digits: int) -> str:
    """The mean over trials and, of more than one, the standard deviation; empty without any.

    Examples
    --------
    >>> mean_and_std(np.array([1.0, 3.0]), 2), mean_and_std(np.array([1.0]), 3)
    ('2.00 ± 1.41', '1.000')
    """
    if not len(errors):
        return ""
    around = f" ± {spread(errors):.{digits}f}" if len(errors) > 1 else ""
    return f"{errors.mean():.{digits}f}{around}"


def curve(x: Sequence[float], errors: Sequence[Any]) -> Any:
    """The curve of the means over trials with a band of their spread, None if nothing is there.

    Parameters
    ----------
    x : sequence of float
    errors : sequence of arrays of shape (trials,)
        One for every x; without trials, the x is left out.

    Examples
    --------
    >>> curve([0.1, 0.5], [np.array([1.0, 3.0]), np.array([])]).mean
    [2.0]
    """
    # Here and not above: results and tables do not need matplotlib.
    from expectedkernels.plotting.results import Curve

    there = [(place, e) for place, e in zip(x, errors, strict=True) if len(e)]
    if not there:
        return None
    means = [float(e.mean()) for _, e in there]
    return Curve([place for place, _ in there], means, [spread(e) for _, e in there])
