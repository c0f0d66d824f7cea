"""What the studies share: results in a file that grows, the work on them, and a page of them."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from math import sqrt
from pathlib import Path
from typing import Any, ClassVar, get_type_hints
from zlib import crc32

import joblib
import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from expectedkernels.checks import DataError, ParseError, progress_bar

FILES = "files"
"""Where `settings.json` has the sums of files: more of them may come later."""


class ResultsFile:
    """The results in a folder, each under a key of its own: its fields before the first number.

    Parameters
    ----------
    folder : str or Path
        Made if there is none; `results.csv` in it is read if it is there.
    settings : mapping
        Kept in `settings.json`. Results that were made with other settings are refused.
    """

    RECORD: ClassVar[Any]
    """The class of a result: a dataclass whose first field `cell` is one, too."""

    def __init__(self, folder: str | Path, settings: Mapping[str, Any]):
        self.folder = Path(folder)
        self.path = self.folder / "results.csv"
        self.folder.mkdir(parents=True, exist_ok=True)
        hints = get_type_hints(self.RECORD)
        self._cell = hints.pop("cell")
        self._own, self._of_cell = list(hints.values()), list(get_type_hints(self._cell).values())
        self._n_keys = self._own.index(float)
        self.columns = [*get_type_hints(self._cell), *hints]
        self._found: dict[Hashable, Any] = {}
        self._frame: Any = None
        self._check_settings(dict(settings))
        if self.path.exists():
            self._read()

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
        lines = csv.reader(io.StringIO(whole))
        header = next(lines, self.columns)
        if header != self.columns:
            raise ParseError(
                f"expected the columns {', '.join(self.columns)}, found {', '.join(header)}. "
                "Choose another folder with --out",
                str(self.path),
                1,
            )
        types = [*self._of_cell, *self._own]
        for line, row in enumerate(lines, start=2):
            try:
                values = [kind(text) for kind, text in zip(types, row, strict=True)]
            except ValueError:
                raise ParseError(f"expected a result, found {row}", str(self.path), line) from None
            n = len(self._of_cell)
            self._note(self.RECORD(self._cell(*values[:n]), *values[n:]))

    def _note(self, record: Any) -> None:
        self._frame = None
        own = [getattr(record, name) for name in self.columns[len(self._of_cell) :]]
        self._found[(record.cell, *own[: self._n_keys])] = record

    @property
    def frame(self) -> Any:
        """The results as a data frame, a row each."""
        if self._frame is None:
            rows = [_row(record) for record in self]
            self._frame = pd.DataFrame(rows, columns=self.columns)
        return self._frame

    def __contains__(self, key: Hashable) -> bool:
        return key in self._found

    def __iter__(self) -> Iterator[Any]:
        return iter(self._found.values())

    def __len__(self) -> int:
        return len(self._found)

    def values(self, field: str) -> list[Any]:
        """The distinct values of a field of the cells, in the order of the file."""
        return list(dict.fromkeys(getattr(record.cell, field) for record in self))

    def add(self, records: Sequence[Any]) -> None:
        """Append results to the file, all or (if the process is killed) at most a cut-off line."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self.path.exists() or self.path.stat().st_size == 0:
            writer.writerow(self.columns)
        for record in records:
            writer.writerow(_row(record))
            self._note(record)
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, text.getvalue().encode())
        finally:
            os.close(descriptor)


def _row(record: Any) -> tuple[Any, ...]:
    cell, *own = astuple(record)
    return (*cell, *own)


@dataclass(frozen=True)
class Done:
    """What a run wrote, its table, what it says in short, and what could not be done."""

    records: Any
    files: tuple[Path, ...]
    table: Any
    words: str
    problem: str = ""


def chosen(**asked: Any) -> dict[str, Any]:
    """What was asked for; None and empty sequences leave the choice to the study.

    Examples
    --------
    >>> chosen(trials=3, methods=None, datasets=[])
    {'trials': 3}
    """
    return {name: value for name, value in asked.items() if value not in (None, [], ())}


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
    records: ResultsFile,
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


def written(
    records: ResultsFile, text: str, table: Any, draw: Callable[[], Any], title: str, words: str
) -> Done:
    """The page and the figure of a study, in the folder of its results.

    Parameters
    ----------
    records : ResultsFile
    text : str
        The page in Markdown. Its section "In short" is repeated on the screen; the figure comes
        after it.
    table : DataFrame
        Printed on the screen.
    draw : function
        Gives the axes of the figure, None if there is nothing to draw.
    title, words : str
        What the figure is, and what is said of it.
    """
    start, mark, rest = text.partition("## In short\n\n")
    short, mark_after, rest = rest.partition("\n\n## ")
    files, problem, section = [records.path, records.folder / "summary.md"], "", ""
    try:
        from expectedkernels.plotting.style import close, save

        axes = draw()
        if axes is not None:
            files.append(save(axes[0], records.folder / "figure.png"))
            close(axes[0])
            section = f"\n\n## {title}\n\n{words}\n\n![{title}](figure.png)"
    except ImportError as error:
        problem = f"No picture was written. {error}"
    page = f"{start}{mark}{short.rstrip()}{section}{mark_after}{rest.rstrip()}\n"
    files[1].write_text(page, encoding="utf-8")
    return Done(records, tuple(files), table, short.strip(), problem)


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


def plot_panels(
    panels: Mapping[str, Mapping[str, Any]],
    xlabel: str = "",
    ylabels: Mapping[str, str] | None = None,
    levels: Mapping[str, Mapping[str, float]] | None = None,
) -> Any:
    """The axes of panels side by side, each with curves and bands of one standard deviation.

    A curve has the same colour in all panels, and there is one legend for all of them. Curves
    without a band are dashed, and black if they are like no other: they are there to compare with.

    Parameters
    ----------
    panels : mapping
        From titles to mappings from names to curves.
    xlabel : str
    ylabels : mapping, optional
        From titles to labels.
    levels : mapping, optional
        From titles to mappings from names to horizontal lines.

    Returns
    -------
    array of matplotlib.axes.Axes

    Examples
    --------
    >>> from expectedkernels.plotting.results import Curve
    >>> curves = {"ours": Curve([0.1, 0.5], [1.0, 2.0], [0.1, 0.2]), "before": Curve([0.1], [2.0])}
    >>> axes = plot_panels({"one": curves, "two": curves}, xlabel="missing")
    >>> [ax.get_title() for ax in axes]
    ['one', 'two']
    """
    from expectedkernels.display import PALETTE
    from expectedkernels.plotting.style import legend_below, row_of_axes, tidy

    if not panels:
        raise ValueError("'panels' must have at least one entry. Got none.")
    figure, axes = row_of_axes(len(panels), 3.4 * len(panels), 3.4)
    named = {name: None for curves in panels.values() for name, c in curves.items() if c.std}
    colour = {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(named)}
    for ax, (title, curves) in zip(axes, panels.items(), strict=True):
        for name, level in ((levels or {}).get(title) or {}).items():
            ax.axhline(level, color="0.6", linewidth=1, linestyle=":", label=name)
        for name, curve in curves.items():
            _draw_curve(ax, name, curve, colour.get(curve.like or name, "black"))
        ylabel = (ylabels or {}).get(title, "")
        tidy(ax, legend=False, title=title, xlabel=xlabel, ylabel=ylabel)
    # As many columns as fit below so many panels.
    legend_below(figure, axes, ncols=min(5, 5 * len(panels) // 4))
    return axes


def _draw_curve(ax: Any, name: str, curve: Any, colour: str) -> None:
    mean = np.asarray(curve.mean)
    if curve.std is None:
        ax.plot(curve.x, mean, "--", color=colour, linewidth=1.2, label=name, zorder=4)
        return
    std = np.asarray(curve.std)
    ax.plot(curve.x, mean, "o-", color=colour, linewidth=1.4, markersize=3, label=name)
    ax.fill_between(curve.x, mean - std, mean + std, color=colour, alpha=0.2, linewidth=0)


def markdown(frame: Any) -> str:
    """A data frame of text as a table in Markdown, its index in the first columns.

    Examples
    --------
    >>> print(markdown(pd.DataFrame({"0.1": ["2.5"]}, index=pd.Index(["mean"], name="method"))))
    | method | 0.1 |
    | --- | ---: |
    | mean | 2.5 |
    """
    flat, n = frame.reset_index(), frame.index.nlevels
    rows = [list(flat.columns), ["---"] * n + ["---:"] * frame.shape[1], *flat.values.tolist()]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


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


def curve(frame: Any, x: str, y: str, unit: float = 1.0) -> Any:
    """The curve of the means of y over trials, with a band of their spread; None without any.

    Examples
    --------
    >>> curve(pd.DataFrame({"n": [10, 10], "error": [1.0, 3.0]}), "n", "error").mean
    [2.0]
    """
    # Here and not above: results and tables do not need matplotlib.
    from expectedkernels.plotting.results import Curve

    if frame.empty:
        return None
    grouped = frame.groupby(x)[y]
    mean, band = grouped.mean() / unit, grouped.std().fillna(0.0) / unit
    return Curve(mean.index.tolist(), mean.tolist(), band.tolist())
