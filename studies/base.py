"""What the studies share: results in a file that grows, the work on them, and a page of them."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from string import Formatter
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import joblib
import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from expectedkernels.checks import DataError, ParseError, progress_bar

REPETITIONS = 5
"""How many repetitions published means are of."""


class Results:
    """Rows of results in a folder, each under a key of its own.

    Parameters
    ----------
    folder : str or Path
        Made if there is none; `results.csv` in it is read if it is there.
    keys, values : mappings
        From the names of columns to their types; the first ones tell results apart.
    settings : mapping
        Kept in `settings.json`. Results that were made with other settings raise.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     results = Results(folder, {"trial": int}, {"error": float}, {})
    ...     results.add([(0, 0.5), (1, 1.5)])
    ...     again = Results(folder, {"trial": int}, {"error": float}, {})
    >>> (1,) in again, again.frame["error"].tolist()
    (True, [0.5, 1.5])
    """

    def __init__(
        self,
        folder: str | Path,
        keys: Mapping[str, type],
        values: Mapping[str, type],
        settings: Mapping[str, Any],
    ):
        self.folder = Path(folder)
        self.path = self.folder / "results.csv"
        self.types, self.keys = {**keys, **values}, list(keys)
        self.frame = pd.DataFrame({name: pd.Series(dtype=t) for name, t in self.types.items()})
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "settings.json"
        if self.path.exists():
            before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else settings
            if before != settings:
                raise DataError(
                    f"The results in {self.folder} were made with other settings: {before}, and "
                    f"not {settings}. Choose another folder with --out, or remove this one."
                )
            self._read()
        path.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
        self._done = set(self.frame[self.keys].itertuples(index=False, name=None))

    def _read(self) -> None:
        text = self.path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        if whole != text:  # an append was cut off
            os.truncate(self.path, len(whole.encode()))
        names, kinds = list(self.types), self.types.items()
        rows = list(csv.reader(StringIO(whole))) or [names]
        for line, row in enumerate(rows, 1):
            if len(row) != len(names) or (line == 1 and row != names):
                wanted = f"expected the columns {', '.join(names)}, found {', '.join(row)}"
                raise ParseError(
                    f"{wanted}. Choose another folder with --out", str(self.path), line
                )
        found = pd.DataFrame(rows[1:], columns=names)
        try:
            found = found.assign(**{x: found[x] == "True" for x, kind in kinds if kind is bool})
            found = found.astype(self.types)
        except ValueError as error:
            raise ParseError(f"expected results: {error}", str(self.path)) from None
        self.frame = found.drop_duplicates(self.keys, keep="last", ignore_index=True)

    def __contains__(self, key: tuple[Any, ...]) -> bool:
        return key in self._done

    def add(self, rows: Iterable[Sequence[Any]]) -> None:
        """Append results to the file, all or (if the process is killed) at most a cut-off line."""
        new = pd.DataFrame(list(rows), columns=list(self.types)).astype(self.types)
        empty = not self.path.exists() or self.path.stat().st_size == 0
        with self.path.open("ab", buffering=0) as file:
            file.write(new.to_csv(index=False, header=empty, na_rep="nan").encode())
        both = pd.concat([self.frame, new]) if len(self.frame) else new
        self.frame = both.drop_duplicates(self.keys, keep="last", ignore_index=True)
        self._done.update(new[self.keys].itertuples(index=False, name=None))


@dataclass(frozen=True)
class Done:
    """What a run wrote, its table, what it says in short, and what could not be done."""

    results: Results
    files: tuple[Path, ...]
    table: Any
    words: str
    problem: str = ""


def choose(
    asked: Mapping[str, Any],
    names: Mapping[str, tuple[str, Collection[str]]],
    defaults: Mapping[str, Any],
    quick: Mapping[str, Any] | None = None,
) -> Any:
    """The options of a run: those of the call, else those of a quick run, else the defaults.

    `names` says what values of an option are called, and which there are: all of them by default.
    None and empty sequences ask for nothing.

    Examples
    --------
    >>> choose({"splits": None}, {"splits": ("split", ("valid", "test"))}, {}).splits
    ('valid', 'test')
    >>> choose({"splits": ["all"]}, {"splits": ("split", ("valid", "test"))}, {})
    Traceback (most recent call last):
    ...
    expectedkernels.DataError: There is no split 'all'. There are: valid; test.
    """
    given = {name: value for name, value in asked.items() if value not in (None, [], ())}
    every = {option: tuple(there) for option, (_, there) in names.items()}
    known = {"settings": None, "jobs": 1, "progress": True, **every, **defaults}
    if unknown := set(given) - set(known):
        raise DataError(f"There is no option {', '.join(sorted(unknown))}.")
    options = known | dict(quick or {}) | given
    for option, (what, there) in names.items():
        for name in options[option]:
            if name not in there:
                raise DataError(f"There is no {what} {name!r}. There are: {'; '.join(there)}.")
    if options["jobs"] == 0:
        raise DataError("The number of processes must be at least 1, or -1 for all. Got 0.")
    return SimpleNamespace(**options)


def collect(
    results: Results,
    work: Callable[..., list[Any]],
    todo: Collection[tuple[Any, ...]],
    jobs: int,
    progress: bool,
) -> Results:
    """Add the rows that `work` finds for the arguments in `todo`, by so many processes."""
    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
    calls = (joblib.delayed(_on_one_thread)(work, *arguments) for arguments in todo)
    with progress_bar(len(todo), "cells", not progress) as bar:
        for found in parallel(calls):
            results.add(found)
            bar.set_postfix_str(str(found[0][0]), refresh=False)
            bar.update()
    return results


def _on_one_thread(work: Callable[..., list[Any]], *arguments: Any) -> list[Any]:
    # One thread each: the matrices are small, and other processes work on other cells.
    with threadpool_limits(1):
        return work(*arguments)


def write_report(
    results: Results,
    page: Path,
    values: dict[str, Any],
    sections: Iterable[tuple[str, Sequence[Any]]],
    table: Any,
    draw: Callable[[], Any],
) -> Done:
    """Write the page and the figure of a study to the folder of its results.

    Parameters
    ----------
    results : Results
    page : Path
        A template of the page in Markdown, of which lines with values that are not there are left
        out. Its section "In short" is also printed on the screen.
    values : dict
        What is filled in there, besides the `figure`.
    sections : titles with texts and data frames of text, which follow
    table : DataFrame
        Printed on the screen.
    draw : function
        For the axes of the figure (None if there are none).
    """
    files, problem = [results.path, results.folder / "summary.md"], ""
    try:
        from expectedkernels.plotting import close, save

        axes = draw()
        if axes is not None:
            files.append(save(axes[0], results.folder / "figure.png"))
            close(axes[0])
            values["figure"] = "figure.png"
    except ImportError as error:
        problem = f"No picture was written. {error}"
    text = fill(page.read_text(encoding="utf-8"), values)
    parts = [text]
    for head, contents in sections:
        parts += [f"## {head}", *(x if isinstance(x, str) else markdown(x) for x in contents)]
    files[1].write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    words = text.partition("## In short\n")[2].partition("\n## ")[0].strip()
    return Done(results, tuple(files), table, words, problem)


def fill(template: str, values: Mapping[str, Any]) -> str:
    r"""The lines of a template, without those of which a value is not there.

    Examples
    --------
    >>> fill("{n} cells.\nOf these, {lost} are lost.", {"n": 3})
    '3 cells.'
    """
    lines = []
    for line in template.splitlines():
        names = {name for _, name, _, _ in Formatter().parse(line) if name}
        if names <= values.keys():
            lines.append(line.format(**values))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip()


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


def compare(errors: Any, known: Any, share: Any = 1 / REPETITIONS) -> Any:
    """The means of groups of errors beside known ones, and how far apart they are.

    The standard error of the difference takes the variance of a known mean to be a share of that
    of our repetitions; distances are multiples of it.

    Examples
    --------
    >>> errors = pd.Series([1.0, 3.0], name="error").groupby(pd.Index(["a", "a"], name="model"))
    >>> compare(errors, pd.Series({"a": 1.0}).rename_axis("model"), 1 / 2)["distance"].round(6)
    model
    a    0.707107
    Name: distance, dtype: float64
    """
    found = errors.agg(["mean", "std", "count", "min", "max"])
    found = found.join(known.rename("known"), how="inner")
    found["standard_error"] = found["std"].fillna(0.0) * np.sqrt(1 / found["count"] + share)
    gap = found["mean"] - found["known"]
    return found.assign(distance=gap.abs() / found["standard_error"].clip(lower=1e-300))


@dataclass(frozen=True)
class Curve:
    """A curve with a band: means over trials, and their standard deviations (None: no band).

    `like` is the name of another curve, whose colour this one has.
    """

    x: Sequence[float]
    mean: Sequence[float]
    std: Sequence[float] | None = None
    like: str = ""


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

    Examples
    --------
    >>> curves = {"ours": Curve([0.1, 0.5], [1.0, 2.0], [0.1, 0.2]), "before": Curve([0.1], [2.0])}
    >>> axes = plot_panels({"one": curves, "two": curves}, xlabel="missing")
    >>> [ax.get_title() for ax in axes]
    ['one', 'two']
    """
    from expectedkernels.display import PALETTE
    from expectedkernels.plotting import legend_below, row_of_axes, tidy

    if not panels:
        raise ValueError("'panels' must have at least one entry. Got none.")
    figure, axes = row_of_axes(len(panels), 3.4 * len(panels), 3.4)
    named = {name: None for curves in panels.values() for name, c in curves.items() if c.std}
    colours = {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(named)}
    for ax, (title, curves) in zip(axes, panels.items(), strict=True):
        for name, level in ((levels or {}).get(title) or {}).items():
            ax.axhline(level, color="0.6", linewidth=1, linestyle=":", label=name)
        for name, found in curves.items():
            colour, mean = colours.get(found.like or name, "black"), np.asarray(found.mean)
            if found.std is None:
                ax.plot(found.x, mean, "--", color=colour, linewidth=1.2, label=name, zorder=4)
                continue
            band, std = {"color": colour, "alpha": 0.2, "linewidth": 0}, np.asarray(found.std)
            ax.plot(found.x, mean, "o-", color=colour, linewidth=1.4, markersize=3, label=name)
            ax.fill_between(found.x, mean - std, mean + std, **band)
        ylabel = (ylabels or {}).get(title, "")
        tidy(ax, legend=False, title=title, xlabel=xlabel, ylabel=ylabel)
    # As many columns as fit below so many panels.
    legend_below(figure, axes, ncols=min(5, 5 * len(panels) // 4))
    return axes


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
    """The mean over trials and, of more than one, the standard deviation.

    Examples
    --------
    >>> mean_and_std(pd.Series([1.0, 3.0]), 2), mean_and_std(pd.Series([1.0]), 3)
    ('2.00 ± 1.41', '1.000')
    """
    around = f" ± {errors.std():.{digits}f}" if len(errors) > 1 else ""
    return f"{errors.mean():.{digits}f}{around}"


def curves(frame: Any, names: Mapping[str, Any], x: str) -> dict[str, Any]:
    """The curves of mean errors over trials, with bands of their spread; those that are there.

    Names go to the rows of their curves, as booleans.
    """
    found = {}
    for name, rows in names.items():
        grouped = frame[rows].groupby(x)["error"]
        mean, band = grouped.mean(), grouped.std().fillna(0.0)
        if len(mean):
            found[name] = Curve(mean.index.tolist(), mean.tolist(), band.tolist())
    return found
