"""The curves of the regression study, as the plotting functions take them."""

from __future__ import annotations

from typing import Any

from expectedkernels.plotting.panels import Curve, plot_panels
from studies.base import curve
from studies.regression.published import published
from studies.regression.records import COMPLETE, Records
from studies.regression.sources import SOURCES

SHOWN = {
    "expected, categories": "expected prediction (features)",
    "expected, bits": "expected prediction (bits)",
    "map, bits": "MAP (bits)",
    "mean": "mean",
    "median": "median",
    "k-NN": "k-NN",
    "iterative": "iterative",
}
"""The methods in the figure, and what they are called there; more could not be told apart."""


def curves(records: Records, dataset: str, split: str, missing: str) -> dict[str, Curve]:
    """The curves of one data set, in its unit."""
    unit, found = SOURCES[dataset].unit, {}
    rates = sorted(rate for rate in records.values("rate") if rate > 0)
    for method, label in SHOWN.items():
        errors = [records.errors(dataset, split, missing, method, r) / unit for r in rates]
        found[label] = curve(rates, errors)
    return {label: line for label, line in found.items() if line is not None}


def figure(records: Records, split: str, missing: str, comparable: bool) -> Any:
    """The axes of one panel per data set, or None if there are no results.

    The paper's curve of expected predictions is drawn where it can be compared with.
    """
    panels, ylabels, levels = {}, {}, {}
    for dataset in records.values("dataset"):
        found = curves(records, dataset, split, missing)
        if not found:
            continue
        unit = SOURCES[dataset].unit
        if comparable and (split, missing) == ("valid", "bits"):
            rates = sorted(rate for rate in records.values("rate") if rate > 0)
            known = [(r, v) for r in rates if (v := published(dataset, "expected", r)) is not None]
            if known:
                line = Curve(*map(list, zip(*known, strict=True)))
                found["expected prediction (published)"] = line
        panels[dataset] = found
        ylabels[dataset] = "RMSE" + ("" if unit == 1 else f" / {unit:g}")
        complete = records.errors(dataset, split, "none", COMPLETE, 0.0) / unit
        levels[dataset] = {"nothing missing": float(complete[0])} if len(complete) else {}
    if not panels:
        return None
    return plot_panels(panels, f"probability that one of the {missing} is missing", ylabels, levels)
