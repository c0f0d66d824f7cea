"""The study of missing values in tables, words and a figure: what its results say, no more."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from studies.base import ResultsFile, markdown, plot_panels
from studies.missing.methods import EXPECTED, MASKED, METHODS

TASKS = {
    "regression": "error = RMSE / standard deviation of the target",
    "classification": "error = share of wrong labels",
}
PLACES = {"test": "missing in test rows only", "both": "missing in training and test rows"}
OURS = next(iter(EXPECTED))
SHOWN = (
    "expected SVM, mask kernel",
    "expected ridge",
    "mean, SVM",
    "iterative, SVM",
    "iterative + indicators, SVM",
    "k-NN, SVM",
    "boosting on masked copies",
)
"""The methods in the figure; more could not be told apart."""
EXTRAS = {
    "log_loss": ("log loss", "{:.3f}"),
    "coverage": ("coverage of 90 % intervals", "{:.3f}"),
    "width": ("median width", "{:.3f}"),
    "fit_seconds": ("seconds of fit", "{:.2f}"),
    "predict_seconds": ("of predict", "{:.2f}"),
}


@dataclass(frozen=True, order=True)
class Cell:
    """One split of one table with one random mask: all methods are compared on it.

    Attributes
    ----------
    table, task : str
    holes : {"test", "both"}
        Whether values are missing in test rows only, or in training rows as well.
    mechanism : {"MCAR", "MAR", "MNAR"}
    rate : float
    trial : int
    """

    table: str
    task: str
    holes: str
    mechanism: str
    rate: float
    trial: int

    @property
    def setting(self) -> str:
        """What is missing, in short."""
        return f"{self.mechanism} {self.rate:g}"


@dataclass(frozen=True)
class Record:
    """What one method did in one cell.

    Attributes
    ----------
    cell : Cell
    method : str
    error : float
        The root of the mean squared error in standard deviations of the target, or the share of
        wrong labels.
    log_loss, coverage, width : float
        Of probabilities, and of 90 % intervals (widths in standard deviations of the target, the
        median over rows); NaN where there are none.
    fit_seconds, predict_seconds : float
        Without the search for parameters.
    """

    cell: Cell
    method: str
    error: float
    log_loss: float
    coverage: float
    width: float
    fit_seconds: float
    predict_seconds: float


class Records(ResultsFile):
    """The results of the study of missing values in a folder, by (cell, method)."""

    RECORD = Record


def values_of(records: Records, task: str, holes: str, field: str = "error") -> Any:
    """A field of the results of methods (rows), averaged over splits, by table and setting.

    Tables and settings (columns) are those that all methods have errors for; None without any.
    """
    frame = records.frame
    frame = frame[(frame["task"] == task) & (frame["holes"] == holes)]
    if frame.empty:
        return None
    setting = frame["mechanism"] + " " + frame["rate"].map("{:g}".format)
    grouped = frame.assign(setting=setting).groupby(["method", "table", "setting"], sort=False)
    means = grouped[["error", *EXTRAS]].mean().unstack(["table", "setting"])
    means = means.reindex([method for method in METHODS if method in means.index])
    common = means["error"].dropna(axis=1).columns
    return means[field][common] if len(common) else None


def against(errors: Any, ours: str) -> Any:
    """How much larger errors are than those of one of our methods, with tables as units.

    Wins are tables where ours has the smaller error; the distance is the mean difference in
    multiples of its standard error, NaN if there is none.
    """
    by_table = errors.T.groupby("table", sort=False).mean().T
    gap = by_table - by_table.loc[ours]
    error = (gap.std(axis=1) / np.sqrt(gap.shape[1])).replace(0.0, np.nan)
    wins, losses = (gap > 0).sum(axis=1), (gap < 0).sum(axis=1)
    return pd.DataFrame({"wins": wins, "losses": losses, "distance": gap.mean(axis=1) / error})


def overview(records: Records) -> Any:
    """The mean error of every method, a column for each task and place."""
    found = {
        f"{task}, {holes}": values_of(records, task, holes)
        for task, holes in product(TASKS, PLACES)
    }
    means = {name: x.mean(axis=1) for name, x in found.items() if x is not None}
    return pd.DataFrame(means).reindex([m for m in METHODS if any(m in x for x in means.values())])


def summary(records: Records) -> str:
    """The study as Markdown: what was done, what it says in short, and the tables."""
    trials = len(records.values("trial"))
    intro = (
        "# Predictions from rows with holes\n\n"
        "Expected predictions (default density) against imputation and boosting, with "
        f"{trials} random split{'' if trials == 1 else 's'} of every table. All methods see the "
        "same rows and holes, and choose "
        "their parameters by training rows alone. Holes: MCAR, completely at random; MAR, by the "
        "values of a third of the columns, which have none; MNAR, by the missing value itself.\n\n"
        "- *expected*: the exact expectation of the prediction over what is missing; *mask "
        "kernel*: what is missing counts too, if training rows say so.\n"
        "- *mean, iterative, k-NN*: scikit-learn's imputers, then the same machine; iterative "
        "imputation is fitted to rows with holes in any case. *+ indicators*: with columns that "
        "say what was missing; where training rows have no holes, a masked copy of them is "
        "learned from as well.\n"
        "- *boosting*: histogram gradient boosting, which takes rows with holes as they are; "
        "*on masked copies*: fitted to the rows and four copies with more holes.\n"
        "- *SVM*: support vector machines; *ridge*: kernel ridge regression, on one-hot labels in "
        "classification.\n"
        "- *w-l*: tables where the expected machine has the smaller and the larger mean error; "
        "*d/se*: the mean difference over tables (positive: the expected machine is better) in "
        "multiples of its standard error."
    )
    short, parts = [], []
    for task, (holes, place) in product(TASKS, PLACES.items()):
        errors = values_of(records, task, holes)
        if errors is None:
            continue
        extras = {field: values_of(records, task, holes, field).mean(axis=1) for field in EXTRAS}
        short.append(f"- {task.capitalize()}, {place}: {_in_short(errors)}")
        covered = [
            f"{method} {share:.1%} at a median width of {extras['width'][method]:.2f}"
            for method, share in extras["coverage"].dropna().items()
        ]
        short += [f"- Its 90 % intervals cover: {', '.join(covered)}."] if covered else []
        tables = ", ".join(errors.columns.unique("table"))
        shown = {
            head: extras[field].map(form.format, na_action="ignore")
            for field, (head, form) in EXTRAS.items()
            if extras[field].notna().any()
        }
        parts += [
            f"## {task.capitalize()}, {place}",
            f"Tables: {tables}; {TASKS[task]}.",
            markdown(error_table(errors)),
            markdown(pd.DataFrame(shown).fillna("")),
        ]
    words = ["## In short\n\n" + "\n".join(short)] if short else []
    return "\n\n".join([intro, *words, *parts]) + "\n"


def error_table(errors: Any) -> Any:
    """Methods down; errors by setting, ranks and comparisons across, as text."""
    by_setting = errors.T.groupby("setting").mean().T
    table = by_setting.assign(all=errors.mean(axis=1)).map("{:.4f}".format)
    table["mean rank"] = errors.rank().mean(axis=1).map("{:.1f}".format)
    for ours in (name for name in EXPECTED if name in errors.index and name not in MASKED):
        cells = [_compared(row) for row in against(errors, ours).itertuples()]
        table[[f"w-l {ours}", f"d/se {ours}"]] = cells
        table.loc[ours, [f"w-l {ours}", f"d/se {ours}"]] = ""
    return table


def _compared(found: Any) -> tuple[str, str]:
    far = "" if np.isnan(found.distance) else f"{found.distance:+.1f}"
    return f"{found.wins:.0f}-{found.losses:.0f}", far


def _in_short(errors: Any) -> str:
    """The smallest error of ours and of the others, and how far apart they are."""
    means, ranks = errors.mean(axis=1), errors.rank().mean(axis=1)
    ours = [method for method in errors.index if method in EXPECTED]
    others = means.drop(ours)
    said = [f"{method} {means[method]:.4f} (mean rank {ranks[method]:.1f})" for method in ours]
    if others.empty:
        return ", ".join(said) + "."
    best = others.idxmin()
    said.append(
        f"best of the {len(others)} others, in hindsight, {best} {means[best]:.4f} "
        f"({ranks[best]:.1f})"
    )
    text = ", ".join(said)
    for method in ours:
        wins, distance = _compared(against(errors, method).loc[best])
        text += f"; {method} against it {wins} tables"
        text += f", difference / standard error {distance}" if distance else ""
    return text + "."


def figure(records: Records) -> Any:
    """The axes of how much larger errors are than those of the expected SVM, None without results.

    Bands are standard errors over tables.
    """
    from expectedkernels.plotting.results import Curve

    panels, settings = {}, {}
    for task, (holes, place) in product(TASKS, PLACES.items()):
        errors = values_of(records, task, holes)
        if errors is None or OURS not in errors.index:
            continue
        title = f"{task}\n{place}"
        gap = (errors - errors.loc[OURS]).T.groupby("setting")
        mean, band = gap.mean(), (gap.std() / np.sqrt(gap.count())).fillna(0.0)
        settings[title] = list(mean.index)
        panels[title] = {
            method: Curve(range(len(mean)), mean[method].tolist(), band[method].tolist())
            for method in SHOWN
            if method in mean
        }
    if not any(panels.values()):
        return None
    levels = {title: {OURS: 0.0} for title in panels}
    ylabels = {next(iter(panels)): f"error minus that of the {OURS}"}
    axes = plot_panels(panels, "", ylabels, levels)
    for ax, names in zip(axes, settings.values(), strict=True):
        ax.set_xticks(range(len(names)), names, rotation=30)
        ax.title.set_size("medium")
    return axes
