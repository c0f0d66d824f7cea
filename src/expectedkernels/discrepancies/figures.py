"""Drawings of tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_null(test: Any) -> Axes:
    """The axes with a statistic and the histogram of those under the hypothesis."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Pictures need matplotlib, which is not installed. "
            "Install it with: pip install 'expectedkernels[plot]'"
        ) from error
    _, ax = plt.subplots(figsize=(5.4, 3.4), layout="constrained")
    ax.hist(test.null, bins=30, color="0.75", label="under the hypothesis")
    ax.axvline(test.statistic, color="#D55E00", linewidth=2, label="observed")
    ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel("statistic")
    ax.set_ylabel("simulated samples")
    ax.set_title(f"p = {test.p_value:.3g}", loc="left", fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    return ax
