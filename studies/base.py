"""What the studies share: results in a file that grows, the work on them, and a page of them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from io import StringIO
from itertools import cycle
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
        Made with the first results; `results.csv` in it is read if it is there.
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
        self.settings, path = settings, self.folder / "settings.json"
        if self.path.exists():
            before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else settings
            if before != settings:
                raise DataError(
                    f"The results in {self.folder} were made with other settings: {before}, and "
                    f"not {settings}. Choose another folder with --out, or remove this one."
                )
            self._read()
        self._done = set(self.frame[self.keys].itertuples(index=False, name=None))

    def _read(self) -> None:
        text = self.path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        if whole != text:  # an append was cut off
            os.truncate(self.path, len(whole.encode()))
        if not whole:
            return
        try:
            found = pd.read_csv(StringIO(whole), dtype=str, keep_default_na=False)
            if list(found) != list(self.types):
                raise ValueError(f"columns {', '.join(self.types)}, found {', '.join(found)}")
            found = found.astype(self.types)
        except ValueError as error:
            advice = "Choose another folder with --out"
            raise ParseError(f"expected results: {error}. {advice}", str(self.path)) from None
        self.frame = found.drop_duplicates(self.keys, keep="last", ignore_index=True)

    def __contains__(self, key: tuple[Any, ...]) -> bool:
        return key in self._done

    def left(self, cell: tuple[Any, ...], names: Iterable[str], *more: Any) -> list[str]:
        """The names of which there are no results in a cell."""
        return [name for name in names if (*cell, name, *more) not in self]

    def add(self, rows: Iterable[Sequence[Any]]) -> None:
        """Append results to the file, all or (if the process is killed) at most a cut-off line."""
        new = pd.DataFrame(list(rows), columns=list(self.types)).astype(self.types)
        self.folder.mkdir(parents=True, exist_ok=True)
        if empty := not self.path.exists() or self.path.stat().st_size == 0:
            text = json.dumps(self.settings, indent=1) + "\n"
            (self.folder / "settings.json").write_text(text, encoding="utf-8")
        with self.path.open("ab", buffering=0) as file:
            file.write(new.to_csv(index=False, header=empty, na_rep="nan").encode())
        both = pd.concat([self.frame, new]) if len(self.frame) else new
        self.frame = both.drop_duplicates(self.keys, keep="last", ignore_index=True)
        self._done.update(new[self.keys].itertuples(index=False, name=None))


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


def run(
    study: Any, out: str | Path, folder: str | Path | None = None, quick: bool = False, **asked: Any
) -> Results:
    """The results of a study, written to `results.csv` in a folder as they are found.

    What is there already is not computed again, so an interrupted run resumes where it stopped.

    Parameters
    ----------
    study : module
        With `Settings` and those of a quick run, `QUICK`; the names and defaults of its options
        (see `choose`) and those of a quick run, `QUICK_OPTIONS`; the columns of its results, `KEYS`
        and `VALUES`; and `tasks`, which yields the arguments of `work` for what is left to do.
    out, folder : str or Path
        For the results, and with the data.
    quick : bool
        Take a first look within a minute.
    settings, seed, check
        Which are kept with the results; the last two are some of them.
    jobs, progress
        The number of processes, and whether a bar shows what is done.
    **asked
        The other options of the study.
    """
    own = {name: asked.pop(name) for name in ("seed", "check") if name in asked}
    options = choose(asked, study.NAMES, study.DEFAULTS, study.QUICK_OPTIONS if quick else {})
    settings = options.settings or (study.QUICK if quick else study.Settings())
    settings = replace(settings, **own)
    results = Results(out, study.KEYS, study.VALUES, asdict(settings))
    todo = list(study.tasks(options, settings, folder, results))
    parallel = joblib.Parallel(n_jobs=options.jobs, return_as="generator_unordered")
    calls = (joblib.delayed(_on_one_thread)(study.work, *arguments) for arguments in todo)
    with progress_bar(len(todo), "cells", not options.progress) as bar:
        for found in parallel(calls):
            results.add(found)
            bar.set_postfix_str(str(found[0][0]), refresh=False)
            bar.update()
    return results


def reproduce(study: Any, out: Path, folder: Path | None, quick: bool, **asked: Any) -> Any:
    """The study with its page and figure, written to a folder: see `run` and `write_report`."""
    results = run(study, out, folder, quick, **asked)
    comparable = not quick and asked.get("check", True)
    page = Path(study.__file__).with_name("page.md")
    return write_report(results, page, *study.report(results.frame, comparable))


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
) -> tuple[list[Path], Any, str]:
    """Write the page and the figure of a study; returns the files, the table, and words on it.

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
    from expectedkernels.plotting import close, save

    files = [results.path, results.folder / "summary.md"]
    if (axes := draw()) is not None:
        files.append(save(axes[0], results.folder / "figure.png"))
        close(axes[0])
        values["figure"] = "figure.png"
    filled = fill(page.read_text(encoding="utf-8"), values)
    parts = [filled]
    for head, contents in sections:
        parts += [f"## {head}", *(x if isinstance(x, str) else markdown(x) for x in contents)]
    files[1].write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    words = filled.partition("## In short\n")[2].partition("\n## ")[0].strip()
    return files, table, words


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


KNOWN = " (published)"
"""The end of the names of curves to compare with."""


def plot_panels(
    panels: Mapping[str, Mapping[str, Any]],
    xlabel: str,
    ylabels: Mapping[str, str],
    levels: Mapping[str, Mapping[str, float]],
) -> Any:
    """The axes of panels side by side, each with curves and bands of one standard deviation.

    A curve has the same colour in all panels, and there is one legend for all of them. Curves
    without a band are dashed, with the colour of those that they are to be compared with. There are
    no axes (None) without panels.

    Parameters
    ----------
    panels : mapping
        From titles to mappings from names to curves: data frames with the columns "mean" and,
        for a band, "std", indexed by x.
    xlabel : str
    ylabels : mapping
        From titles to labels.
    levels : mapping
        From titles to mappings from names to horizontal lines.

    Examples
    --------
    >>> ours = pd.DataFrame({"mean": [1.0, 2.0], "std": [0.1, 0.2]}, index=[0.1, 0.5])
    >>> curves = {"ours": ours, "ours (published)": ours[["mean"]]}
    >>> axes = plot_panels({"one": curves, "two": curves}, "missing", {}, {})
    >>> [ax.get_title() for ax in axes]
    ['one', 'two']
    """
    from expectedkernels.display import PALETTE
    from expectedkernels.plotting import legend_below, row_of_axes, tidy

    if not panels:
        return None
    figure, axes = row_of_axes(len(panels), 3.4 * len(panels), 3.4)
    names = dict.fromkeys(name for curves in panels.values() for name in curves)
    own = [name for name in names if not name.endswith(KNOWN)]
    colours = dict(zip(own, cycle(PALETTE), strict=False))
    for ax, (title, curves) in zip(axes, panels.items(), strict=True):
        for name, level in levels.get(title, {}).items():
            ax.axhline(level, color="0.6", linewidth=1, linestyle=":", label=name)
        for name, found in curves.items():
            x, mean, colour = found.index, found["mean"], colours.get(name.removesuffix(KNOWN))
            if "std" not in found:
                ax.plot(x, mean, "--", color=colour, linewidth=1.2, label=name, zorder=4)
                continue
            ax.plot(x, mean, "o-", color=colour, linewidth=1.4, markersize=3, label=name)
            ends = mean - found["std"], mean + found["std"]
            ax.fill_between(x, *ends, color=colour, alpha=0.2, linewidth=0)
        tidy(ax, legend=False, title=title, xlabel=xlabel, ylabel=ylabels.get(title, ""))
    # As many columns as fit below so many panels.
    legend_below(figure, axes, ncols=min(5, 5 * len(panels) // 4))
    return axes


def curve(frame: Any, x: str) -> Any:
    """The curve of mean errors over trials, with a band of their spread."""
    return frame.groupby(x)["error"].agg(["mean", "std"]).fillna({"std": 0.0})


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


def text(frame: Any, form: str) -> Any:
    """The numbers of a data frame or a series as text, empty where there is none.

    Examples
    --------
    >>> text(pd.Series([0.25, np.nan]), "{:.1%}").tolist()
    ['25.0%', '']
    """
    return frame.map(lambda x: "" if pd.isna(x) else form.format(x))


def mean_and_std(errors: Any, digits: int) -> str:
    """The mean over trials and, of more than one, the standard deviation.

    Examples
    --------
    >>> mean_and_std(pd.Series([1.0, 3.0]), 2), mean_and_std(pd.Series([1.0]), 3)
    ('2.00 ± 1.41', '1.000')
    """
    around = f" ± {errors.std():.{digits}f}" if len(errors) > 1 else ""
    return f"{errors.mean():.{digits}f}{around}"
