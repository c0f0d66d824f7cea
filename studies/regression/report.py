"""The regression study in tables, words and a figure, with the published numbers beside ours."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from studies.base import Results, compare, curves, mean_and_std, plot_panels
from studies.regression.datasets import SOURCES

COMPLETE = "complete"
"""The method of predictions for rows without missing values."""
IMPUTATIONS = ("median", "mean", "k-NN", "iterative")
"""The imputations people use, which expected predictions have to beat."""
OURS, PAPERS = "expected, categories", "expected, bits"
TITLES = {"bits": "Bits missing", "features": "Features missing"}
PLACES = {"valid": "validation rows (without the first)", "test": "test rows"}
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
OTHER_ROWS = (
    "\n\n**These are not the rows of the paper** (a quick run, or other data): nothing here can be "
    "compared with published numbers."
)


def _published() -> Any:
    frame = pd.read_csv(Path(__file__).with_name("published.csv"), index_col=["dataset", "method"])
    return frame.rename(columns=float).rename_axis(columns="rate").stack().sort_index()


PUBLISHED = _published()
"""The errors that the paper's experiments reported, in units of data sets.

Means of five repetitions, on the validation rows without the first, with bits missing completely
at random. The paper plots "expected", "MAP" and "median" (which is the mode of the masked rows);
"mean" was stored beside them.
"""
RATES = tuple(dict.fromkeys(PUBLISHED.index.get_level_values("rate").tolist()))


def errors(results: Results) -> Any:
    """The results with errors in units of their data sets."""
    units = results.frame["dataset"].map({name: s.unit for name, s in SOURCES.items()})
    return results.frame.assign(error=results.frame["rmse"] / units.astype(float))


def means(found: Any, methods: tuple[str, ...]) -> Any:
    """The mean error of some methods (columns) by data set, split, what is missing and rate."""
    index = ["dataset", "split", "missing", "rate"]
    table = found.pivot_table("error", index, "method", sort=False)
    return table.reindex(columns=list(methods)).dropna()


def against_published(found: Any, ours: str, theirs: str = "expected") -> Any:
    """All cells of a method for which there is a published error."""
    rows = found.query("split == 'valid' and missing == 'bits' and method == @ours")
    grouped = rows.groupby(["dataset", "rate"], sort=False)["error"]
    compared = compare(grouped, PUBLISHED.xs(theirs, level="method"))
    return compared.assign(change=compared["mean"] / compared["known"] - 1)


def overview(found: Any) -> Any:
    """The mean ranks (1 is best) of expected predictions and imputations, in each setting."""
    methods = (OURS, PAPERS, *IMPUTATIONS)
    ranks = {}
    for split, (missing, title) in product(PLACES, TITLES.items()):
        some = found[(found["split"] == split) & (found["missing"] == missing)]
        there = tuple(name for name in methods if name in set(some["method"]))
        ranks[f"{title}, {split}"] = means(some, there).rank(axis=1).mean().dropna()
    table = pd.DataFrame(ranks, index=pd.Index(methods, name="method"))
    return table.dropna(axis=1, how="all")


def report(results: Results, comparable: bool = True) -> tuple[Any, ...]:
    """What `write_report` writes; published numbers are there if the rows are the paper's."""
    found = errors(results)
    short = _compared(found) if comparable else []
    for title, ranks in overview(found).items():
        shown = ", ".join(f"{name} {rank:.2f}" for name, rank in ranks.sort_values().items())
        short.append(f"{title}: mean ranks {shown}.")
    constant = means(found, (OURS, "training mean"))
    if len(constant):
        lost = constant[constant[OURS] > constant["training mean"]]
        short.append(
            f"Expected predictions lose to the training mean in {len(lost)} of {len(constant)} "
            f"cells{_listed(lost)}. These regressors minimise absolute errors, so on skewed "
            "targets their predictions are biased for the mean."
        )
    sections = []
    for (missing, title), (split, place) in product(TITLES.items(), PLACES.items()):
        some = found[(found["split"] == split) & (found["missing"] == missing)]
        parts = [
            part
            for name in some["dataset"].unique()
            for part in table(found, name, split, missing, comparable)
        ]
        sections += [(f"{title}, {place}", parts)] if parts else []
    intro = Path(__file__).with_name("page.md").read_text(encoding="utf-8").rstrip()
    title = "Figure 2 of the paper, from our runs"
    drawn = title, caption(found, comparable), lambda: figure(found, comparable)
    return intro + OTHER_ROWS * (not comparable), short, sections, overview(found), drawn


def table(found: Any, dataset: str, split: str, missing: str, comparable: bool) -> list[Any]:
    """The methods (down) by rates (across) of a data set, with published errors below."""
    unit, own = SOURCES[dataset].unit, found.query("dataset == @dataset and split == @split")
    rows = own[own["missing"] == missing]
    grid: Any = {"index": "method", "columns": "rate", "values": "error", "sort": False}
    shown = rows.pivot_table(aggfunc=lambda e: mean_and_std(e, 3), **grid).sort_index(axis=1)
    average = rows.pivot_table(**grid).sort_index(axis=1)
    if comparable and (split, missing) == ("valid", "bits"):
        for theirs in (t for t, ours in COUNTERPARTS.items() if ours in average.index):
            row = PUBLISHED.loc[dataset, theirs].reindex(shown.columns)
            shown.loc[f"*published: {theirs}*"] = row.map("{:.3f}".format, na_action="ignore")
    shown.columns = [f"{rate:g}" for rate in shown.columns]
    complete = own[own["method"] == COMPLETE]["error"]
    note = f"Complete rows: {complete.iloc[0]:.4g}. " if len(complete) else ""
    winners = average.idxmin().value_counts(sort=False)
    note += "Smallest: " + ", ".join(f"{name} ({n})" for name, n in winners.items()) + "."
    head = f"### {dataset}" + (f", in multiples of {unit:g}" if unit != 1 else "")
    return [head, shown.fillna(""), note]


def caption(found: Any, comparable: bool) -> str:
    """What the paper's figure shows, drawn from these results, and where it does not hold."""
    some = found[(found["split"] == "valid") & (found["missing"] == "bits")]
    cells = means(some, (PAPERS, "map, bits", "masked mode", "mean"))
    lost = cells[cells[PAPERS] > cells[["map, bits", "masked mode"]].min(axis=1)]
    simpler = cells[cells[PAPERS] > cells["mean"]]
    dashed = " Dashed: what the paper reports." if comparable else ""
    return (
        "Validation rows with bits missing, under the paper's circuit over bits; means and "
        f"standard deviations of our own runs.{dashed} Of these three, expected predictions have "
        f"the smallest error in {len(cells) - len(lost)} of {len(cells)} cells{_listed(lost)}. "
        "Imputation by training means, which the paper's figure leaves out, has a smaller one than "
        f"they have in {len(simpler)}{_listed(simpler)}."
    )


def _listed(cells: Any) -> str:
    where = "; ".join(
        f"{name}, {split}, {kind}, {rate:g}" for name, split, kind, rate in cells.index
    )
    return f" ({where})" if where else ""


def _compared(found: Any) -> list[str]:
    same, better = against_published(found, PAPERS), against_published(found, OURS)
    exact = against_published(found, "map, bits", "map")
    lines = []
    if len(same):
        far = same[same["distance"] > 3]["distance"]
        where = "; ".join(f"{name} at {rate:g}: {x:.1f}" for (name, rate), x in far.items())
        lines.append(
            "The paper's expected predictions: ours (bits) are within three standard errors of "
            f"the published ones in {len(same) - len(far)} of {len(same)} cells"
            f"{f' (not: {where})' if where else ''}. With five trials, one or two of 36 cells are "
            "outside by chance; --trials 40 tells more."
        )
    if len(better):
        change = 100 * better.groupby("dataset", sort=False)["change"].mean()
        shown = ", ".join(f"{name} {value:+.1f} %" for name, value in change.items())
        lines.append(
            "A circuit over the original features is below the published errors in "
            f"{(better['change'] < 0).sum()} of {len(better)} cells; mean change: {shown}."
        )
    if len(exact):
        lines.append(
            "Most probable completions here are exact; they are worse than the published ones "
            f"in {(exact['change'] > 0).sum()} of {len(exact)} cells, which seem to come from a "
            "greedy search instead."
        )
    return lines


def figure(found: Any, comparable: bool) -> Any:
    """The axes of the figure of the paper, None without results.

    Its curves, dashed, are beside ours where the rows are the same.
    """
    from expectedkernels.plotting.results import Curve

    found = found[found["split"] == "valid"]
    panels, ylabels, levels = {}, {}, {}
    for dataset, own in found.groupby("dataset", sort=False):
        rows = own[own["missing"] == "bits"]
        lines = curves(rows, {SHOWN[m]: rows["method"] == m for m in SHOWN}, "rate")
        if not lines:
            continue
        there = np.intersect1d(rows["rate"], RATES)
        for theirs, ours in COUNTERPARTS.items() if comparable and len(there) else ():
            if SHOWN.get(ours) in lines:
                values = PUBLISHED.loc[dataset, theirs][there].tolist()
                name = f"{SHOWN[ours]} (published)"
                lines[name] = Curve(there.tolist(), values, like=SHOWN[ours])
        unit, complete = SOURCES[dataset].unit, own[own["method"] == COMPLETE]["error"]
        panels[dataset] = lines
        ylabels[dataset] = "RMSE" + ("" if unit == 1 else f" / {unit:g}")
        levels[dataset] = {"nothing missing": complete.iloc[0]} if len(complete) else {}
    if not panels:
        return None
    return plot_panels(panels, "share of bits that are missing", ylabels, levels)
