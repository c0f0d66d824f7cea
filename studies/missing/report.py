"""The study of missing values in tables, words and a figure: what its results say, no more."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from studies.base import plot_panels
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


def values_of(frame: Any, task: str, holes: str) -> Any:
    """The results of methods (rows), averaged over splits, by field, table and setting.

    Tables and settings are those that all methods have errors for; None without any.
    """
    frame = frame[(frame["task"] == task) & (frame["holes"] == holes)]
    if frame.empty:
        return None
    setting = frame["mechanism"] + " " + frame["rate"].map("{:g}".format)
    grouped = frame.assign(setting=setting).groupby(["method", "table", "setting"], sort=False)
    means = grouped[["error", *EXTRAS]].mean().unstack(["table", "setting"])
    means = means.reindex([method for method in METHODS if method in means.index])
    common = means["error"].dropna(axis=1).columns
    kept = [column for column in means if column[1:] in set(common)]
    return means[kept] if kept else None


def against(errors: Any, ours: str) -> Any:
    """How much larger errors are than those of one of our methods, with tables as units.

    Wins are tables where ours has the smaller error; the distance is the mean difference in
    multiples of its standard error, NaN if there is none.
    """
    by_table = errors.T.groupby("table", sort=False).mean().T
    gap = by_table - by_table.loc[ours]
    error = (gap.std(axis=1) / np.sqrt(gap.shape[1])).replace(0.0, np.nan)
    wins, losses = (gap > 0).sum(axis=1), (gap < 0).sum(axis=1)
    found = pd.DataFrame({"wins": wins, "losses": losses, "distance": gap.mean(axis=1) / error})
    record = wins.astype(str) + "-" + losses.astype(str)
    return found.assign(
        record=record, far=found["distance"].map("{:+.1f}".format).replace("+nan", "")
    )


def report(frame: Any) -> tuple[Any, ...]:
    """What `write_report` writes."""
    short, sections, means, panels = [], [], {}, {}
    for task, (holes, place) in product(TASKS, PLACES.items()):
        values = values_of(frame, task, holes)
        if values is None:
            continue
        errors = values["error"]
        means[f"{task}, {holes}"], panels[f"{task}\n{place}"] = errors.mean(axis=1), errors
        extras = pd.DataFrame({field: values[field].mean(axis=1) for field in EXTRAS})
        short.append(f"{task.capitalize()}, {place}: {_in_short(errors)}")
        covered = [
            f"{method} {share:.1%} at a median width of {extras['width'][method]:.2f}"
            for method, share in extras["coverage"].dropna().items()
        ]
        short += [f"Its 90 % intervals cover: {', '.join(covered)}."] if covered else []
        shown = {
            head: extras[field].map(form.format, na_action="ignore").fillna("")
            for field, (head, form) in EXTRAS.items()
            if extras[field].notna().any()
        }
        tables = f"Tables: {', '.join(errors.columns.unique('table'))}; {TASKS[task]}."
        parts = [tables, error_table(errors), pd.DataFrame(shown)]
        sections.append((f"{task.capitalize()}, {place}", parts))
    there = [m for m in METHODS if any(m in x for x in means.values())]
    caption = (
        f"How much larger errors are than those of the {OURS}, with standard errors over tables."
    )
    drawn = "Errors beside those of the expected machine", caption, lambda: figure(panels)
    intro = Path(__file__).with_name("page.md").read_text(encoding="utf-8").rstrip()
    return intro, short, sections, pd.DataFrame(means).reindex(there), drawn


def error_table(errors: Any) -> Any:
    """Methods down; errors by setting, ranks and comparisons across, as text."""
    by_setting = errors.T.groupby("setting").mean().T
    table = by_setting.assign(all=errors.mean(axis=1)).map("{:.4f}".format)
    table["mean rank"] = errors.rank().mean(axis=1).map("{:.1f}".format)
    for ours in (name for name in EXPECTED if name in errors.index and name not in MASKED):
        table[[f"w-l {ours}", f"d/se {ours}"]] = against(errors, ours)[["record", "far"]]
        table.loc[ours, [f"w-l {ours}", f"d/se {ours}"]] = ""
    return table


def _in_short(errors: Any) -> str:
    """The smallest error of ours and of the others, and how far apart they are."""
    means, ranks = errors.mean(axis=1), errors.rank().mean(axis=1)
    shown = [f"{m} {means[m]:.4f} (mean rank {ranks[m]:.1f})" for m in errors.index]
    ours = [method for method in errors.index if method in EXPECTED]
    text = ", ".join(shown[: len(ours)])
    others = means.drop(ours)
    if others.empty:
        return text + "."
    best = others.idxmin()
    said = shown[errors.index.get_loc(best)]
    text += f", best of the {len(others)} others, in hindsight, {said}"
    for method in ours:
        found = against(errors, method).loc[best]
        text += f"; {method} against it {found['record']} tables"
        text += f", difference / standard error {found['far']}" if found["far"] else ""
    return text + "."


def figure(errors: dict[str, Any]) -> Any:
    """The axes of how much larger errors are than those of the expected SVM, None without results.

    Bands are standard errors over tables.
    """
    from expectedkernels.plotting.results import Curve

    panels, settings = {}, []
    for title, found in errors.items():
        if OURS not in found.index:
            continue
        gap = (found - found.loc[OURS]).T.groupby("setting")
        mean, band = gap.mean(), (gap.std() / np.sqrt(gap.count())).fillna(0.0)
        settings.append(list(mean.index))
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
    for ax, names in zip(axes, settings, strict=True):
        ax.set_xticks(range(len(names)), names, rotation=30)
        ax.title.set_size("medium")
    return axes
