"""Drawings of tests, and of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMED = 5
"""How many groups have their names written beside them."""


def plot_null(test: Any) -> Axes:
    """The axes with a statistic and the histogram of those under the hypothesis."""
    ax = _axes()
    ax.hist(test.null, bins=30, color="0.75", label="under the hypothesis")
    ax.axvline(test.statistic, color="#D55E00", linewidth=2, label="observed")
    ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel("statistic")
    ax.set_ylabel("simulated samples")
    ax.set_title(f"p = {test.p_value:.3g}", loc="left", fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    return ax


def plot_groups(found: Any) -> Axes:
    """The axes with the discrepancies of groups against their probabilities."""
    ax = _axes()
    ax.semilogx(found.probabilities, found.mmd, "o", color="#0072B2", markersize=4, alpha=0.6)
    for i in (-found.mmd).argsort()[:NAMED].tolist():
        at = found.probabilities[i], found.mmd[i]
        ax.annotate(found.groups[i], at, (4, 3), textcoords="offset points", fontsize="x-small")
    ax.set_xlabel("probability of the group")
    ax.set_ylabel("discrepancy from the population")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _axes() -> Any:
    """New axes; raises if there is no matplotlib."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Pictures need matplotlib, which is not installed. "
            "Install it with: pip install 'expectedkernels[plot]'"
        ) from error
    return plt.subplots(figsize=(5.4, 3.4), layout="constrained")[1]
