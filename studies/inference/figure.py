"""The curves of the inference study, as the plotting functions take them."""

from __future__ import annotations

from typing import Any

from expectedkernels.plotting.results import Curve, plot_panels
from studies.base import curve
from studies.inference.claims import PROPOSAL, masks_of
from studies.inference.records import InferenceRecords

SHOWN = {
    "CBBIS (default weights)": ("masks", "default"),
    "CBBIS (raw weights)": ("masks", "raw"),
    "CVS": ("masks", "uniform"),
    "BBIS (raw weights)": ("none", "raw"),
    "VS": ("none", "uniform"),
    "CIS": ("online", "one set"),
    "CBBIS (smoothed weights)": ("masks", "smoothed"),
}
PAPER = {
    "CBBIS": ("masks", "smoothed"),
    "CVS": ("masks", "uniform"),
    "BBIS": ("none", "smoothed"),
    "VS": ("none", "uniform"),
    "CIS": ("online", "one set"),
}
"""The methods in figures, and in that of the paper: what is collapsed, and the rule for weights."""


def curves(
    records: InferenceRecords, model: str, share: float, proposal: str, shown: Any
) -> dict[str, Curve]:
    """The curves of the methods with one share of the variables collapsed, by name."""
    found = {}
    for name, (collapsed, rule) in shown.items():
        place = {
            "masks": (proposal, share, masks_of(share)),
            "none": (proposal, 0.0, "none"),
            "online": ("cis", share, "online"),
        }
        key = (model, *place[collapsed], rule)
        counts = records.counts(key)
        found[name] = curve(counts, [records.errors(key, n) for n in counts])
    return {name: line for name, line in found.items() if line is not None}


def paper_figure(records: InferenceRecords) -> Any:
    """The axes of the figure of the paper."""
    return figure(records, PROPOSAL, PAPER)


def figure(records: InferenceRecords, proposal: str, shown: Any = SHOWN) -> Any:
    """The axes of one panel per model and share, or None if there are no results."""
    panels = {}
    for model in records.values("model"):
        for share in sorted(s for s in records.values("collapsed") if s):
            if records.counts((model, proposal, share, masks_of(share), "uniform")):
                title = f"{model}, {100 * share:g} % collapsed"
                panels[title] = curves(records, model, share, proposal, shown)
    if not panels:
        return None
    ylabels = {next(iter(panels)): "log of the mean Hellinger distance"}
    return plot_panels(panels, "number of samples", ylabels)
