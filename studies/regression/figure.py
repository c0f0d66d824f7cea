"""The curves of the regression study, as the plotting functions take them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from expectedkernels.plotting.results import Curve, plot_panels
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


PAPER = {
    "expected, bits": "expected prediction",
    "map, bits": "MAP",
    "masked mode": 'masked mode ("median")',
}
"""The methods in the figure of the paper."""


def curves(
    records: Records, dataset: str, split: str, missing: str, shown: Mapping[str, str]
) -> dict[str, Curve]:
    """The curves of one data set, in its unit."""
    unit, found = SOURCES[dataset].unit, {}
    rates = _rates(records)
    for method, label in shown.items():
        errors = [records.errors(dataset, split, missing, method, r) / unit for r in rates]
        found[label] = curve(rates, errors)
    return {label: line for label, line in found.items() if line is not None}


def _rates(records: Records) -> list[float]:
    return sorted(rate for rate in records.values("rate") if rate > 0)


def _reported(records: Records, dataset: str, method: str, like: str = "") -> dict[str, Curve]:
    """The paper's curve of a method, if there is one."""
    values = [(r, published(dataset, method, r)) for r in _rates(records)]
    known = [(r, value) for r, value in values if value is not None]
    if not known:
        return {}
    x, y = zip(*known, strict=True)
    return {f"{like or 'expected prediction'} (published)": Curve(x, y, like=like)}


def paper_figure(records: Records, comparable: bool) -> Any:
    """The axes of the figure of the paper, with its curves beside ours where rows are the same."""
    theirs = {"expected": "expected, bits", "map": "map, bits", "masked mode": "masked mode"}
    return _panels(records, "valid", "bits", PAPER, theirs if comparable else {})


def figure(records: Records, split: str, missing: str, comparable: bool) -> Any:
    """The axes of one panel per data set, or None if there are no results.

    The paper's curve of expected predictions is drawn where it can be compared with.
    """
    alike = comparable and (split, missing) == ("valid", "bits")
    return _panels(records, split, missing, SHOWN, {"expected": ""} if alike else {})


def _panels(
    records: Records,
    split: str,
    missing: str,
    shown: Mapping[str, str],
    theirs: Mapping[str, str],
) -> Any:
    """The axes of methods and, dashed, of published ones, in the colours of ours of that name."""
    panels, ylabels, levels = {}, {}, {}
    for dataset in records.values("dataset"):
        found = curves(records, dataset, split, missing, shown)
        if not found:
            continue
        unit = SOURCES[dataset].unit
        for method, ours in theirs.items():
            found |= _reported(records, dataset, method, shown.get(ours, ""))
        panels[dataset] = found
        ylabels[dataset] = "RMSE" + ("" if unit == 1 else f" / {unit:g}")
        complete = records.errors(dataset, split, "none", COMPLETE, 0.0) / unit
        levels[dataset] = {"nothing missing": float(complete[0])} if len(complete) else {}
    if not panels:
        return None
    return plot_panels(panels, f"share of {missing} that are missing", ylabels, levels)
