"""What was found: tests, groups, drift, and weights of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expectedkernels.layouts import short
from expectedkernels.plotting.style import (
    EXACT,
    MOST_LETTERS,
    SAMPLED,
    legend_below,
    name_lines,
    new_axes,
    row_of_axes,
    tidy,
)
from expectedkernels.plotting.values import draw_gram

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_BARS = 20
"""How many variables are shown, at most."""

NAMED = 5
"""How many groups have their names written beside them."""


def plot_samples(samples: Any) -> list[Axes]:
    """The axes with sorted weights, and with marginals against those of equal weights."""
    _, (left, right) = row_of_axes(2, 8.4, 3.8)
    n = len(samples)
    left.plot(np.arange(1, n + 1), np.sort(samples.weights)[::-1], color=EXACT, label="weights")
    left.axhline(1.0 / n, color=SAMPLED, linestyle="--", label="equal weights")
    left.set_xlabel("sample, heaviest first")
    left.set_ylabel("weight")
    left.set_title(f"effective sample size {samples.ess:.4g} of {n}", fontsize="medium")
    tidy(left)
    equal, weighted = (np.concatenate(s.marginals()) for s in (samples.uniform(), samples))
    right.plot([0, 1], [0, 1], color="0.6", linewidth=1)
    right.plot(equal, weighted, "o", color=EXACT, markersize=4)
    right.set_xlabel("marginal with equal weights")
    right.set_ylabel("weighted marginal")
    tidy(right, legend=False)
    return [left, right]


def plot_drift(drift: Any, order: Any) -> Axes:
    """The axes with the parts of variables in a drift: alone, by Shapley values, by leaving out."""
    order = order[:MOST_BARS]
    ax = new_axes(6.4, 1.5 + 0.4 * len(order))
    bars = {"univariate": "0.6", "shapley": EXACT, "ignoring": SAMPLED}
    for i, (name, color) in enumerate(bars.items()):
        places = np.arange(len(order)) + 0.27 * (i - 1)
        ax.barh(places, getattr(drift, name)[order], 0.27, color=color, label=name)
    ax.axvline(drift.mmd2, color="black", linestyle="--", linewidth=1, label="all columns")
    name_lines(ax, [drift.names[i] for i in order.tolist()])
    ax.invert_yaxis()
    ax.locator_params(axis="x", nbins=4)
    ax.set_xlabel("part of the squared discrepancy")
    chance = "" if drift.p_value is None else f", p = {drift.p_value:.3g}"
    left_out = len(drift.names) - len(order)
    more = f"; {left_out} more columns" if left_out else ""
    words = f"discrepancy {drift.mmd:.3g}{chance}{more}"
    ax.figure.suptitle(words, x=0.01, ha="left", fontsize="medium")
    tidy(ax, legend=False)
    legend_below(ax.figure, [ax], 4)
    return ax


def plot_monitor(monitor: Any) -> Axes:
    """The axes with the discrepancies between all windows, as an image."""
    ax = new_axes(4.8, 4.0)
    return draw_gram(ax, monitor.mmd, "discrepancy", "window", "window", first=1)


def plot_null(test: Any) -> Axes:
    """The axes with a statistic and the histogram of those under the hypothesis."""
    ax = new_axes()
    ax.hist(test.null, bins=30, color="0.75", label="under the hypothesis")
    ax.axvline(test.statistic, color=SAMPLED, linewidth=2, label="observed")
    ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel("statistic")
    ax.set_ylabel("simulated samples")
    ax.set_title(f"p = {test.p_value:.3g}", loc="left", fontsize="medium")
    tidy(ax)
    return ax


def plot_groups(found: Any) -> Axes:
    """The axes with the discrepancies of groups against their probabilities."""
    ax = new_axes(6.8)
    ax.plot(found.probabilities, found.mmd, "o", color=EXACT, markersize=4, alpha=0.6)
    if found.probabilities.max() > 10 * found.probabilities.min():
        ax.set_xscale("log")
    for place, i in enumerate((-found.mmd).argsort()[:NAMED].tolist()):
        # beside the picture, where names cannot lie on each other
        ax.annotate(
            short(found.groups[i], MOST_LETTERS),
            (found.probabilities[i], found.mmd[i]),
            (1.06, 0.95 - 0.12 * place),
            textcoords="axes fraction",
            va="center",
            fontsize="x-small",
            arrowprops={"arrowstyle": "-", "color": "0.7", "lw": 0.7, "relpos": (0.0, 0.5)},
        )
    ax.set_xlabel("probability of the group")
    ax.set_ylabel("discrepancy from the population")
    tidy(ax, legend=False)
    return ax
