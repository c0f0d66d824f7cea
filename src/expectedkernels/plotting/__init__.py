"""Pictures. The only package that needs matplotlib."""

from expectedkernels.plotting.contributions import plot_beeswarm, plot_importances, plot_waterfall
from expectedkernels.plotting.panels import Curve, Explained, plot_missing_values, plot_panels
from expectedkernels.plotting.results import (
    plot_drift,
    plot_groups,
    plot_monitor,
    plot_null,
    plot_samples,
)
from expectedkernels.plotting.style import close, save

__all__ = [
    "Curve",
    "Explained",
    "close",
    "plot_beeswarm",
    "plot_drift",
    "plot_groups",
    "plot_importances",
    "plot_missing_values",
    "plot_monitor",
    "plot_null",
    "plot_panels",
    "plot_samples",
    "plot_waterfall",
    "save",
]
