"""The study of missing values in tables and words: what its results say, and no more."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from scipy.stats import rankdata

from studies.base import spread, table_row
from studies.missing.methods import EXPECTED, MASKED, METHODS
from studies.missing.records import Records

TASKS = {
    "regression": "error = RMSE / standard deviation of the target",
    "classification": "error = share of wrong labels",
}
PLACES = {"test": "missing in test rows only", "both": "missing in training and test rows"}


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors of methods, averaged over splits, in cells that all of them have.

    Attributes
    ----------
    methods, tables, settings : list of str
    values : array of shape (methods, tables, settings)
        NaN where a method has no result.
    """

    methods: list[str]
    tables: list[str]
    settings: list[str]
    values: Any

    @property
    def common(self) -> Any:
        """Whether all methods have results, (tables, settings)."""
        return np.isfinite(self.values).all(axis=0)

    def mean(self, setting: str | None = None) -> Any:
        """The mean over tables (and settings) that all methods have results for, (methods,)."""
        chosen = [setting is None or setting == name for name in self.settings]
        return self.values[:, self.common & np.array(chosen)].mean(axis=1)

    def mean_ranks(self) -> Any:
        """The mean rank over tables and settings, 1 is best, (methods,)."""
        return rankdata(self.values[:, self.common], axis=0).mean(axis=1)

    def by_table(self) -> Any:
        """The mean over settings of every table that has results of all methods, (methods, n)."""
        there = self.common
        rows = [
            self.values[:, i, there[i]].mean(axis=1)
            for i in range(len(self.tables))
            if there[i].any()
        ]
        return np.stack(rows, axis=1)

    def against(self, ours: str) -> list[Comparison]:
        """Every method beside one of ours, with tables as units."""
        values = self.by_table()
        own = values[self.methods.index(ours)]
        return [Comparison(ours, m, v - own) for m, v in zip(self.methods, values, strict=True)]


@dataclass(frozen=True, eq=False)
class Comparison:
    """How much larger the errors of a method are than those of ours, by table."""

    ours: str
    method: str
    differences: Any

    @property
    def wins(self) -> int:
        """The tables where ours has the smaller error."""
        return int((self.differences > 0).sum())

    @property
    def losses(self) -> int:
        """The tables where the method has the smaller error."""
        return int((self.differences < 0).sum())

    @property
    def distance(self) -> float:
        """The mean difference in multiples of its standard error, NaN if there is none.

        Examples
        --------
        >>> Comparison("a", "b", np.array([1.0, 3.0])).distance
        2.0
        """
        error = spread(self.differences) / sqrt(len(self.differences))
        return float(self.differences.mean() / error) if error > 0 else np.nan


def errors_of(records: Records, task: str, holes: str) -> Errors | None:
    """The errors of all methods in a task, None if there are none that can be compared."""
    mine = [r for r in records if (r.cell.task, r.cell.holes) == (task, holes)]
    found = {r.method for r in mine}
    methods = [m for m in METHODS if m in found]
    tables, settings = (
        list(dict.fromkeys(getattr(r.cell, field) for r in mine)) for field in ("table", "setting")
    )
    values = np.full((len(methods), len(tables), len(settings)), np.nan)
    for at in np.ndindex(values.shape):
        place = (tables[at[1]], holes, settings[at[2]], methods[at[0]])
        trials = records.column(place, "error")
        values[at] = trials.mean() if len(trials) else np.nan
    errors = Errors(methods, tables, sorted(settings), values[:, :, np.argsort(settings)])
    return errors if values.size and errors.common.any() else None


def summary(records: Records) -> str:
    """The study as Markdown: what was done, what it says in short, and the tables."""
    parts = [_introduction(records), _words(records)]
    for task in TASKS:
        for holes, place in PLACES.items():
            errors = errors_of(records, task, holes)
            if errors is not None:
                title = f"## {task.capitalize()}, {place}"
                tables = ", ".join(errors.tables)
                parts += [title, f"Tables: {tables}; {TASKS[task]}.", error_table(errors)]
                parts += [_extras(records, errors, holes)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _introduction(records: Records) -> str:
    trials = len(records.values("trial"))
    return (
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


def error_table(errors: Errors) -> str:
    """Methods down; errors by setting, ranks and comparisons across."""
    ours = [name for name in EXPECTED if name in errors.methods and name not in MASKED]
    against = [errors.against(name) for name in ours]
    heads = [f"{word} {name}" for name in ours for word in ("w-l", "d/se")]
    columns = [errors.mean(s) for s in errors.settings if errors.common[:, _at(errors, s)].any()]
    shown = [s for s in errors.settings if errors.common[:, _at(errors, s)].any()]
    lines = [table_row(["method", *shown, "all", "mean rank", *heads])]
    lines.append(table_row(["---", *["---:"] * (len(shown) + 2 + len(heads))]))
    everything, ranks = errors.mean(), errors.mean_ranks()
    for i, method in enumerate(errors.methods):
        cells = [f"{column[i]:.4f}" for column in (*columns, everything)] + [f"{ranks[i]:.1f}"]
        for found in against:
            cells += _compared(found[i])
        lines.append(table_row([method, *cells]))
    return "\n".join(lines)


def _at(errors: Errors, setting: str) -> int:
    return errors.settings.index(setting)


def _compared(found: Comparison) -> list[str]:
    if found.ours == found.method:
        return ["", ""]
    far = "" if np.isnan(found.distance) else f"{found.distance:+.1f}"
    return [f"{found.wins}-{found.losses}", far]


def _extras(records: Records, errors: Errors, holes: str) -> str:
    """Log losses, intervals and times, as means over tables, settings and splits."""
    fields = {
        "log loss": ("log_loss", ".3f"),
        "coverage of 90 % intervals": ("coverage", ".3f"),
        "median width": ("width", ".3f"),
        "seconds of fit": ("fit_seconds", ".2f"),
        "of predict": ("predict_seconds", ".2f"),
    }
    columns = {head: _means(records, errors, holes, field) for head, (field, _) in fields.items()}
    shown = [head for head, values in columns.items() if np.isfinite(values).any()]
    lines = [table_row(["method", *shown]), table_row(["---", *["---:"] * len(shown)])]
    for i, method in enumerate(errors.methods):
        values = [(columns[head][i], fields[head][1]) for head in shown]
        lines.append(table_row([method, *("" if np.isnan(v) else f"{v:{f}}" for v, f in values)]))
    return "\n".join(lines)


def _means(records: Records, errors: Errors, holes: str, field: str) -> Any:
    """The means of a field over tables and settings that all methods have results for."""
    places = [(errors.tables[i], holes, errors.settings[j]) for i, j in np.argwhere(errors.common)]
    return np.array(
        [np.mean([records.column((*p, m), field).mean() for p in places]) for m in errors.methods]
    )


def _words(records: Records) -> str:
    lines = []
    for task in TASKS:
        for holes, place in PLACES.items():
            errors = errors_of(records, task, holes)
            if errors is not None:
                lines.append(f"- {task.capitalize()}, {place}: {_in_short(errors)}")
                lines += _intervals_in_short(records, errors, holes)
    return "## In short\n\n" + "\n".join(lines) if lines else ""


def _in_short(errors: Errors) -> str:
    """The smallest error of ours and of the others, and how far apart they are."""
    means, ranks = errors.mean(), errors.mean_ranks()
    others = [i for i, m in enumerate(errors.methods) if m not in EXPECTED]
    ours = [i for i, m in enumerate(errors.methods) if m in EXPECTED]
    said = [f"{errors.methods[i]} {means[i]:.4f} (mean rank {ranks[i]:.1f})" for i in ours]
    if not others:
        return ", ".join(said) + "."
    best = min(others, key=lambda i: means[i])
    said.append(
        f"best of the {len(others)} others, in hindsight, {errors.methods[best]} "
        f"{means[best]:.4f} ({ranks[best]:.1f})"
    )
    text = ", ".join(said)
    for i in ours:
        wins, distance = _compared(errors.against(errors.methods[i])[best])
        text += f"; {errors.methods[i]} against it {wins} tables"
        text += f", difference / standard error {distance}" if distance else ""
    return text + "."


def _intervals_in_short(records: Records, errors: Errors, holes: str) -> list[str]:
    covered = _means(records, errors, holes, "coverage")
    widths = _means(records, errors, holes, "width")
    said = [
        f"{method} {share:.1%} at a median width of {width:.2f}"
        for method, share, width in zip(errors.methods, covered, widths, strict=True)
        if np.isfinite(share)
    ]
    return [f"- Its 90 % intervals cover: {', '.join(said)}."] if said else []
