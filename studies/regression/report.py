"""The regression study in tables, words and a figure, with the published numbers beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from studies.base import (
    ResultsFile,
    curve,
    distance,
    markdown,
    mean_and_std,
    plot_panels,
    standard_error,
)
from studies.regression.datasets import SOURCES

COMPLETE = "complete"
"""The method of predictions for rows without missing values."""
IMPUTATIONS = ("median", "mean", "k-NN", "iterative")
"""The imputations people use, which expected predictions have to beat."""
OURS, PAPERS = "expected, categories", "expected, bits"
TITLES = {"bits": "Bits missing", "features": "Features missing"}
PLACES = {"valid": "validation rows (without the first)", "test": "test rows"}
TRIALS = 5
"""How many repetitions the published means are of."""
COUNTERPARTS = {
    "expected": PAPERS,
    "map": "map, bits",
    "masked mode": "masked mode",
    "mean": "mean",
}
"""Which of our methods is closest to each published one."""
SHOWN = {
    PAPERS: "expected prediction",
    "map, bits": "MAP",
    "masked mode": 'masked mode ("median")',
}
"""The methods in the figure of the paper."""


@dataclass(frozen=True, order=True)
class Cell:
    """One random mask: all methods are compared on it."""

    dataset: str
    split: str
    missing: str
    rate: float
    trial: int


@dataclass(frozen=True)
class Record:
    """The error of one method in one cell."""

    cell: Cell
    method: str
    rmse: float
    seconds: float
    rows: int


class Records(ResultsFile):
    """The results of the regression study in a folder, by (cell, method)."""

    RECORD = Record

    @property
    def errors(self) -> Any:
        """The results with errors in units of their data sets."""
        units = self.frame["dataset"].map({name: s.unit for name, s in SOURCES.items()})
        return self.frame.assign(error=self.frame["rmse"] / units.astype(float))

    def at(self, split: str, missing: str) -> Any:
        """The errors of all methods where something is missing."""
        found = self.errors
        return found[(found["split"] == split) & (found["missing"] == missing)]


def _published() -> Any:
    frame = pd.read_csv(Path(__file__).with_name("published.csv"), index_col=["dataset", "method"])
    return frame.rename(columns=float).rename_axis(columns="rate").stack().sort_index()


PUBLISHED = _published()
"""The errors that the paper's experiments reported, in units of data sets.

W. Li, Z. Zeng, A. Vergari and G. Van den Broeck, "Tractable Computation of Expected Kernels",
UAI 2021, section 7.1: means of five repetitions, on the validation rows without the first, with
bits missing completely at random. The paper plots "expected", "MAP" and "median" (which is the
mode of the masked rows); "mean" was stored beside them.
"""
RATES = tuple(dict.fromkeys(PUBLISHED.index.get_level_values("rate").tolist()))


def means(found: Any) -> Any:
    """The mean error of every method (columns) by data set, split, what is missing and rate."""
    index = ["dataset", "split", "missing", "rate"]
    return found.pivot_table("error", index, "method", sort=False)


def compare(records: Records, ours: str, theirs: str = "expected") -> Any:
    """All cells of a method for which there is a published error, as a frame.

    The standard error of the difference takes the published mean to be one of five trials with
    as much spread as ours.
    """
    found = records.at("valid", "bits")
    rows = []
    for (dataset, rate), own in found[found["method"] == ours].groupby(
        ["dataset", "rate"], sort=False
    )["error"]:
        value = PUBLISHED.get((dataset, theirs, rate))
        if value is not None:
            error, mean = standard_error(own, 1 / TRIALS), own.mean()
            far = distance(mean, value, error)
            rows.append((dataset, rate, mean, value, error, far, mean / value - 1))
    names = ["dataset", "rate", "mean", "published", "standard_error", "distance", "change"]
    return pd.DataFrame(rows, columns=names)


def mean_ranks(records: Records, split: str, missing: str, methods: tuple[str, ...]) -> Any:
    """The mean rank of every method (1 is best) over data sets and rates; empty without results."""
    found = means(records.at(split, missing)).reindex(columns=list(methods)).dropna()
    return found.rank(axis=1).mean().dropna()


def overview(records: Records) -> Any:
    """The mean ranks of expected predictions and of imputations, a column for each setting."""
    methods = (OURS, PAPERS, *IMPUTATIONS)
    found = {
        f"{TITLES[missing]}, {split}": mean_ranks(records, split, missing, methods)
        for split, missing in product(PLACES, TITLES)
    }
    return pd.DataFrame(found, index=pd.Index(methods, name="method")).dropna(axis=1, how="all")


def summary(records: Records, comparable: bool = True) -> str:
    """The study as Markdown: what was done, the tables, and what they say.

    Parameters
    ----------
    records : Records
    comparable : bool
        Whether the data and the rows are those of the paper, so that published numbers apply.
    """
    hidden = records.frame[records.frame["rate"] > 0]
    trials = hidden["trial"].max() + 1 if len(hidden) else "no"
    parts = [
        "# Predictions with missing values",
        "Root mean squared errors of support vector regressors for rows with missing values: the "
        "exact expectation of the prediction under a circuit, and what can be done instead. "
        "All methods see the same missing values. Means and standard deviations over "
        f"{trials} random masks. 'Bits missing' hides bits of the one-hot "
        "encoding one by one, as in the paper; 'features missing' hides all bits of a feature.",
        "- *expected*: the expected prediction, exact; *map*: prediction for the most "
        "probable completion, exact; *sampled*: mean prediction for five sampled completions.\n"
        "- *categories*: under a Chow-Liu tree over the original features; *bits*: under the "
        "paper's circuit, over the bits one by one.\n"
        "- *mean, median, mode*: of the training rows; *masked mode*: of the masked rows "
        "themselves, which the paper calls median; *k-NN, iterative*: scikit-learn's imputers.\n"
        "- *training mean*: the mean target, whatever the row says; *complete*: nothing missing.\n"
        "- *published*: W. Li, Z. Zeng, A. Vergari and G. Van den Broeck, Tractable "
        "Computation of Expected Kernels, UAI 2021, section 7.1.",
    ]
    if not comparable:
        parts.append(
            "**These are not the rows of the paper** (a quick run, or other data): nothing here "
            "can be compared with published numbers."
        )
    lines = _against_published(records) if comparable else []
    for title, ranks in overview(records).items():
        shown = ", ".join(f"{name} {rank:.2f}" for name, rank in ranks.sort_values().items())
        lines.append(f"- {title}: mean ranks {shown}.")
    lines += _lost_to_the_mean(records)
    parts += ["## In short\n\n" + "\n".join(lines)] if lines else []
    for missing, split in product(TITLES, PLACES):
        names = records.at(split, missing)["dataset"].unique()
        if len(names):
            parts.append(f"## {TITLES[missing]}, {PLACES[split]}")
        parts += [table(records, name, split, missing, comparable) for name in names]
    return "\n\n".join(parts) + "\n"


def table(records: Records, dataset: str, split: str, missing: str, comparable: bool) -> str:
    """One table: methods down, rates across, published errors below."""
    unit, found = SOURCES[dataset].unit, records.at(split, missing)
    found = found[found["dataset"] == dataset].astype({"rate": float})
    grid: Any = {"index": "method", "columns": "rate", "values": "error", "sort": False}
    shown = found.pivot_table(aggfunc=lambda e: mean_and_std(e, 3), **grid).sort_index(axis=1)
    average = found.pivot_table(**grid).sort_index(axis=1)
    if comparable and (split, missing) == ("valid", "bits"):
        for theirs in (t for t, ours in COUNTERPARTS.items() if ours in average.index):
            row = PUBLISHED.loc[dataset, theirs].reindex(shown.columns)
            shown.loc[f"*published: {theirs}*"] = row.map("{:.3f}".format, na_action="ignore")
    shown.columns = [f"{rate:g}" for rate in shown.columns]
    winners = average.idxmin().value_counts(sort=False)
    everything = records.errors
    where = (everything["dataset"] == dataset) & (everything["split"] == split)
    complete = everything[where & (everything["method"] == COMPLETE)]["error"]
    note = f"Complete rows: {complete.iloc[0]:.4g}. " if len(complete) else ""
    note += "Smallest: " + ", ".join(f"{name} ({n})" for name, n in winners.items()) + "."
    head = f"### {dataset}" + (f", in multiples of {unit:g}" if unit != 1 else "")
    return "\n\n".join([head, markdown(shown.fillna("")), note])


def paper_in_words(records: Records, comparable: bool) -> str:
    """What the paper's figure shows, drawn from these results, and where it does not hold."""
    methods = (PAPERS, "map, bits", "masked mode", "mean")
    found = means(records.at("valid", "bits")).reindex(columns=list(methods)).dropna()
    dashed = " Dashed: what the paper reports." if comparable else ""
    shown = (
        "Validation rows with bits missing, under the paper's circuit over bits; means and "
        f"standard deviations of our own runs.{dashed} What the paper calls median imputation is "
        "the mode of the masked rows themselves."
    )
    if found.empty:
        return shown
    lost = found[found[PAPERS] > found[["map, bits", "masked mode"]].min(axis=1)]
    simpler = found[found[PAPERS] > found["mean"]]
    listed = [
        "; ".join(f"{dataset} at {rate:g}" for dataset, _, _, rate in some.index)
        for some in (lost, simpler)
    ]
    return (
        f"{shown} Of these three, expected predictions have the smallest error in "
        f"{len(found) - len(lost)} of {len(found)} cells{_in_brackets(listed[0])}. Imputation by "
        "training means, which the paper's figure leaves out, has a smaller one than they have in "
        f"{len(simpler)}{_in_brackets(listed[1])}."
    )


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def _against_published(records: Records) -> list[str]:
    lines = []
    same, better = compare(records, PAPERS), compare(records, OURS)
    exact = compare(records, "map, bits", "map")
    if len(same):
        far = same[same["distance"] > 3]
        where = "; ".join(f"{c.dataset} at {c.rate:g}: {c.distance:.1f}" for c in far.itertuples())
        lines.append(
            f"- The paper's expected predictions: ours (bits) are within three standard errors of "
            f"the published ones in {len(same) - len(far)} of {len(same)} cells"
            f"{_in_brackets(where and f'not: {where}')}."
            " Standard errors from a few trials are rough: with five, one or two of 36 cells "
            "are outside by chance; --trials 40 tells more."
        )
    if len(better):
        change = 100 * better.groupby("dataset", sort=False)["change"].mean()
        shown = ", ".join(f"{name} {value:+.1f} %" for name, value in change.items())
        lines.append(
            f"- A circuit over the original features is below the published errors in "
            f"{(better['change'] < 0).sum()} of {len(better)} cells; mean change: {shown}. The "
            "paper's circuit takes bits for variables of their own, and puts most of its mass on "
            "rows that are no one-hot codes."
        )
    if len(exact):
        lines.append(
            "- Most probable completions here are exact; they are worse than the published ones "
            f"in {(exact['change'] > 0).sum()} of {len(exact)} cells, which seem to come from a "
            "greedy search instead."
        )
    return lines


def _lost_to_the_mean(records: Records) -> list[str]:
    """Where a constant is better than the expected prediction."""
    found = means(records.errors).reindex(columns=[OURS, "training mean"]).dropna()
    if found.empty:
        return []
    lost = found[found[OURS] > found["training mean"]]
    where = "; ".join(f"{', '.join(place[:3])}, {place[3]:g}" for place in lost.index)
    return [
        f"- Expected predictions lose to the training mean in {len(lost)} of {len(found)} cells"
        f"{_in_brackets(where)}. These regressors minimise absolute errors, so on skewed targets "
        "their predictions are biased for the mean, and no way of treating missing values can "
        "mend that."
    ]


def figure(records: Records, comparable: bool) -> Any:
    """The axes of the figure of the paper, None without results.

    Its curves, dashed, are beside ours where the rows are the same.
    """
    from expectedkernels.plotting.results import Curve

    found, everything = records.at("valid", "bits"), records.errors
    panels, ylabels, levels = {}, {}, {}
    for dataset, rows in found.groupby("dataset", sort=False):
        lines = {
            label: curve(rows[rows["method"] == method], "rate", "error")
            for method, label in SHOWN.items()
        }
        lines = {label: line for label, line in lines.items() if line is not None}
        if not lines:
            continue
        there = np.intersect1d(rows["rate"], RATES)
        for theirs, ours in COUNTERPARTS.items() if comparable and len(there) else ():
            if SHOWN.get(ours) in lines:
                values = PUBLISHED.loc[dataset, theirs][there]
                name = f"{SHOWN[ours]} (published)"
                lines[name] = Curve(there.tolist(), values.tolist(), like=SHOWN[ours])
        unit = SOURCES[dataset].unit
        where = (everything["dataset"] == dataset) & (everything["method"] == COMPLETE)
        complete = everything[where & (everything["split"] == "valid")]["error"]
        panels[dataset] = lines
        ylabels[dataset] = "RMSE" + ("" if unit == 1 else f" / {unit:g}")
        levels[dataset] = {"nothing missing": complete.iloc[0]} if len(complete) else {}
    if not panels:
        return None
    return plot_panels(panels, "share of bits that are missing", ylabels, levels)
