"""The regression study in tables and words, with the published numbers beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from studies.base import distance, mean_and_std, standard_error, table_row
from studies.regression.published import COUNTERPARTS, TRIALS, published
from studies.regression.records import COMPLETE, Records
from studies.regression.sources import SOURCES

IMPUTATIONS = ("median", "mean", "k-NN", "iterative")
"""The imputations people use, which expected predictions have to beat."""
OURS, PAPERS = "expected, categories", "expected, bits"
TITLES = {"bits": "Bits missing", "features": "Features missing"}
PLACES = {"valid": "validation rows (without the first)", "test": "test rows"}


@dataclass(frozen=True)
class Comparison:
    """Our error beside a published one, both in units of the data set."""

    dataset: str
    rate: float
    mean: float
    published: float
    standard_error: float

    @property
    def distance(self) -> float:
        """The difference in multiples of its standard error."""
        return distance(self.mean, self.published, self.standard_error)

    @property
    def change(self) -> float:
        """The difference as a share of the published error."""
        return self.mean / self.published - 1


def compare(records: Records, ours: str, theirs: str = "expected") -> list[Comparison]:
    """All cells of a method for which there is a published error.

    The standard error of the difference takes the published mean to be one of five trials with
    as much spread as ours.
    """
    found = []
    for dataset in records.values("dataset"):
        for rate in sorted(records.values("rate")):
            value = published(dataset, theirs, rate)
            errors = records.errors(dataset, "valid", "bits", ours, rate)
            if value is None or not len(errors):
                continue
            errors = errors / SOURCES[dataset].unit
            error = standard_error(errors, 1 / TRIALS)
            found.append(Comparison(dataset, rate, float(errors.mean()), value, error))
    return found


def mean_ranks(
    records: Records, split: str, missing: str, methods: tuple[str, ...]
) -> dict[str, float]:
    """The mean rank of every method (1 is best) over data sets and rates; empty without results."""
    ranks = []
    for dataset in records.values("dataset"):
        for rate in records.values("rate"):
            errors = [records.errors(dataset, split, missing, m, rate) for m in methods]
            if all(len(e) for e in errors):
                ranks.append(rankdata([e.mean() for e in errors]))
    return dict(zip(methods, np.mean(ranks, axis=0).tolist(), strict=True)) if ranks else {}


def summary(records: Records, comparable: bool = True) -> str:
    """The study as Markdown: what was done, the tables, and what they say.

    Parameters
    ----------
    records : Records
    comparable : bool
        Whether the data and the rows are those of the paper, so that published numbers apply.
    """
    parts = [
        "# Predictions with missing values",
        "Root mean squared errors of support vector regressors for rows with missing values: the "
        "exact expectation of the prediction under a circuit, and what can be done instead. "
        "All methods see the same missing values. Means and standard deviations over "
        f"{_trials(records)} random masks. 'Bits missing' hides bits of the one-hot "
        "encoding one by one, as in the paper; 'features missing' hides all bits of a feature.",
        _legend(),
    ]
    if not comparable:
        parts.append(
            "**These are not the rows of the paper** (a quick run, or other data): nothing here "
            "can be compared with published numbers."
        )
    parts.append(_words(records, comparable))
    for missing, split in ((m, s) for m in TITLES for s in PLACES):
        tables = [
            table(records, dataset, split, missing, comparable)
            for dataset in records.values("dataset")
            if len(_rates(records, dataset, split, missing))
        ]
        if tables:
            parts += [f"## {TITLES[missing]}, {PLACES[split]}", *tables]
    return "\n\n".join(part for part in parts if part) + "\n"


def _legend() -> str:
    return "\n".join(
        [
            "- *expected*: the expected prediction, exact; *map*: prediction for the most "
            "probable completion, exact; *sampled*: mean prediction for five sampled completions.",
            "- *categories*: under a Chow-Liu tree over the original features; *bits*: under the "
            "paper's circuit, over the bits one by one.",
            "- *mean, median, mode*: of the training rows; *masked mode*: of the masked rows "
            "themselves, which the paper calls median; *k-NN, iterative*: scikit-learn's imputers.",
            "- *training mean*: the mean target, whatever the row says; *complete*: nothing "
            "missing.",
            "- *published*: W. Li, Z. Zeng, A. Vergari and G. Van den Broeck, Tractable "
            "Computation of Expected Kernels, UAI 2021, section 7.1.",
        ]
    )


def _trials(records: Records) -> str:
    numbers = {record.cell.trial for record in records if record.cell.rate > 0}
    return str(max(numbers) + 1) if numbers else "no"


def _rates(records: Records, dataset: str, split: str, missing: str) -> list[float]:
    rates = {
        r.cell.rate
        for r in records
        if (r.cell.dataset, r.cell.split, r.cell.missing) == (dataset, split, missing)
    }
    return sorted(rates)


def table(records: Records, dataset: str, split: str, missing: str, comparable: bool) -> str:
    """One table: methods down, rates across, published errors below."""
    unit, rates = SOURCES[dataset].unit, _rates(records, dataset, split, missing)
    complete = records.errors(dataset, split, "none", COMPLETE, 0.0) / unit
    head = f"### {dataset}" + (f", in multiples of {unit:g}" if unit != 1 else "")
    lines = [
        table_row(["method", *(f"{rate:g}" for rate in rates)]),
        table_row(["---", *["---:"] * len(rates)]),
    ]
    means: dict[str, Any] = {}
    for method in dict.fromkeys(r.method for r in records if r.method != COMPLETE):
        errors = [records.errors(dataset, split, missing, method, r) / unit for r in rates]
        if any(len(e) for e in errors):
            means[method] = [e.mean() if len(e) else np.nan for e in errors]
            lines.append(table_row([method, *(mean_and_std(e, 3) for e in errors)]))
    best = [np.nanmin(column) for column in zip(*means.values(), strict=True)]
    if comparable and (split, missing) == ("valid", "bits"):
        for theirs, ours in COUNTERPARTS.items():
            if ours in means:
                values = [published(dataset, theirs, rate) for rate in rates]
                cells = ["" if v is None else f"{v:.3f}" for v in values]
                lines.append(table_row([f"*published: {theirs}*", *cells]))
    winners = [
        next(name for name, values in means.items() if values[i] == least)
        for i, least in enumerate(best)
        if np.isfinite(least)
    ]
    note = f"Complete rows: {complete[0]:.4g}. " if len(complete) else ""
    counts = {name: winners.count(name) for name in dict.fromkeys(winners)}
    note += "Smallest: " + ", ".join(f"{name} ({n})" for name, n in counts.items()) + "."
    return "\n".join([head, "", *lines, "", note])


def _words(records: Records, comparable: bool) -> str:
    """What the numbers say, also where they speak against the method."""
    lines = _against_published(records) if comparable else []
    for split in PLACES:
        for missing, title in TITLES.items():
            ranks = mean_ranks(records, split, missing, (OURS, PAPERS, *IMPUTATIONS))
            if ranks:
                order = sorted(ranks.items(), key=lambda item: item[1])
                shown = ", ".join(f"{name} {rank:.2f}" for name, rank in order)
                lines.append(f"- {title}, {split}: mean ranks {shown}.")
    lines += _lost_to_the_mean(records)
    return "## In short\n\n" + "\n".join(lines) if lines else ""


def paper_in_words(records: Records, comparable: bool) -> str:
    """What the paper's figure shows, drawn from these results, and where it does not hold."""
    cells, lost, simpler = 0, [], []
    for dataset in records.values("dataset"):
        for rate in sorted(records.values("rate")):
            ours, *others = (
                records.errors(dataset, "valid", "bits", method, rate)
                for method in (PAPERS, "map, bits", "masked mode", "mean")
            )
            if not all(map(len, (ours, *others))):
                continue
            cells += 1
            place = f"{dataset} at {rate:g}"
            lost += [place] if ours.mean() > min(e.mean() for e in others[:2]) else []
            simpler += [place] if ours.mean() > others[2].mean() else []
    dashed = " Dashed: what the paper reports." if comparable else ""
    shown = (
        "Validation rows with bits missing, under the paper's circuit over bits; means and "
        f"standard deviations of our own runs.{dashed} What the paper calls median imputation is "
        "the mode of the masked rows themselves."
    )
    if not cells:
        return shown
    return (
        f"{shown} Of these three, expected predictions have the smallest error in "
        f"{cells - len(lost)} of {cells} cells{_listed(lost)}. Imputation by training means, "
        "which the paper's figure leaves out, has a smaller one than they have in "
        f"{len(simpler)}{_listed(simpler)}."
    )


def _listed(places: list[str]) -> str:
    return f" ({'; '.join(places)})" if places else ""


def _against_published(records: Records) -> list[str]:
    lines = []
    same = compare(records, PAPERS)
    if same:
        far = [c for c in same if c.distance > 3]
        where = "; ".join(f"{c.dataset} at {c.rate:g}: {c.distance:.1f}" for c in far)
        lines.append(
            f"- The paper's expected predictions: ours (bits) are within three standard errors of "
            f"the published ones in {len(same) - len(far)} of {len(same)} cells"
            + (f" (not: {where})." if far else ".")
            + " Standard errors from a few trials are rough: with five, one or two of 36 cells "
            "are outside by chance; --trials 40 tells more."
        )
    better = compare(records, OURS)
    if better:
        below = sum(c.mean < c.published for c in better)
        change = {
            name: 100 * np.mean([c.change for c in better if c.dataset == name])
            for name in dict.fromkeys(c.dataset for c in better)
        }
        shown = ", ".join(f"{name} {value:+.1f} %" for name, value in change.items())
        lines.append(
            f"- A circuit over the original features is below the published errors in {below} of "
            f"{len(better)} cells; mean change: {shown}. The paper's circuit takes bits for "
            "variables of their own, and puts most of its mass on rows that are no one-hot codes."
        )
    exact = compare(records, "map, bits", "map")
    if exact:
        worse = sum(c.mean > c.published for c in exact)
        lines.append(
            f"- Most probable completions here are exact; they are worse than the published ones "
            f"in {worse} of {len(exact)} cells, which seem to come from a greedy search instead."
        )
    return lines


def _lost_to_the_mean(records: Records) -> list[str]:
    """Where a constant is better than the expected prediction."""
    total, lost = 0, []
    for dataset in records.values("dataset"):
        for split in PLACES:
            for missing in TITLES:
                for rate in _rates(records, dataset, split, missing):
                    ours, constant = (
                        records.errors(dataset, split, missing, method, rate)
                        for method in (OURS, "training mean")
                    )
                    if len(ours) and len(constant):
                        total += 1
                        if ours.mean() > constant.mean():
                            lost.append(f"{dataset}, {split}, {missing}, {rate:g}")
    if not total:
        return []
    where = f" ({'; '.join(lost)})" if lost else ""
    return [
        f"- Expected predictions lose to the training mean in {len(lost)} of {total} cells{where}. "
        "These regressors minimise absolute errors, so on skewed targets their predictions are "
        "biased for the mean, and no way of treating missing values can mend that."
    ]
