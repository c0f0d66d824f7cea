"""The curves of the inference study, as the plotting functions take them."""

from __future__ import annotations

from typing import Any

from expectedkernels.plotting.panels import Curve, plot_panels
from studies.base import curve
from studies.inference.claims import masks_of
from studies.inference.records import InferenceRecords


def curves(records: InferenceRecords, model: str, share: float, proposal: str) -> dict[str, Curve]:
    """The curves of the methods with one share of the variables collapsed, by name."""
    masks = masks_of(share)
    wanted = {
        "CBBIS (default weights)": (model, proposal, share, masks, "default"),
        "CBBIS (raw weights)": (model, proposal, share, masks, "raw"),
        "CVS": (model, proposal, share, masks, "uniform"),
        "BBIS (raw weights)": (model, proposal, 0.0, "none", "raw"),
        "VS": (model, proposal, 0.0, "none", "uniform"),
        "CIS": (model, "cis", share, "online", "one set"),
        "CBBIS (smoothed weights)": (model, proposal, share, masks, "smoothed"),
    }
    found = {}
    for name, key in wanted.items():
        counts = records.counts(key)
        found[name] = curve(counts, [records.errors(key, n) for n in counts])
    return {name: line for name, line in found.items() if line is not None}


def figure(records: InferenceRecords, proposal: str) -> Any:
    """The axes of one panel per model and share, or None if there are no results."""
    panels = {}
    for model in records.values("model"):
        for share in sorted(s for s in records.values("collapsed") if s):
            if records.counts((model, proposal, share, masks_of(share), "uniform")):
                title = f"{model}, {100 * share:g} % collapsed"
                panels[title] = curves(records, model, share, proposal)
    if not panels:
        return None
    ylabels = {next(iter(panels)): "log of the mean Hellinger distance"}
    return plot_panels(panels, "number of samples", ylabels)
