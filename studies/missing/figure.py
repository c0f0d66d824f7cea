"""The figure of the study of missing values."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from expectedkernels.plotting.results import Curve, plot_panels
from studies.base import spread
from studies.missing.methods import EXPECTED
from studies.missing.records import Records
from studies.missing.report import PLACES, TASKS, Errors, errors_of

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


def figure(records: Records) -> Any:
    """The axes of how much larger errors are than those of the expected SVM, None without results.

    Bands are standard errors over tables.
    """
    panels, settings = {}, {}
    for task in TASKS:
        for holes, place in PLACES.items():
            errors = errors_of(records, task, holes)
            if errors is not None and OURS in errors.methods:
                title = f"{task}\n{place}"
                panels[title], settings[title] = _curves(errors), errors.settings
    if not any(panels.values()):
        return None
    levels = {title: {OURS: 0.0} for title in panels}
    ylabels = {next(iter(panels)): f"error minus that of the {OURS}"}
    axes = plot_panels(panels, "", ylabels, levels)
    for ax, names in zip(axes, settings.values(), strict=True):
        ax.set_xticks(range(len(names)), names, rotation=30)
        ax.title.set_size("medium")
    return axes


def _curves(errors: Errors) -> dict[str, Curve]:
    ours = errors.values[errors.methods.index(OURS)]
    curves = {}
    for method in SHOWN:
        if method not in errors.methods:
            continue
        more = errors.values[errors.methods.index(method)] - ours
        found = [
            (x, column[there])
            for x, (column, there) in enumerate(zip(more.T, errors.common.T, strict=True))
            if there.any()
        ]
        bands = [spread(d) / sqrt(len(d)) for _, d in found]
        curves[method] = Curve([x for x, _ in found], [float(np.mean(d)) for _, d in found], bands)
    return curves
