"""Curves side by side: errors by rate, by number of samples, and one prediction explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from expectedkernels.arrays import NumbersLike
from expectedkernels.errors import DataError
from expectedkernels.html import number
from expectedkernels.layouts import PALETTE
from expectedkernels.plotting.contributions import draw_waterfall
from expectedkernels.plotting.style import (
    EXACT,
    SAMPLED,
    MaxNLocator,
    PercentFormatter,
    legend_above,
    legend_below,
    new_axes,
    row_of_axes,
    tidy,
    to_rgb,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Curve:
    """A curve with a band: means over trials, and their standard deviations (None: no band).

    `like` is the name of another curve, whose colour this one has.
    """

    x: Sequence[float]
    mean: Sequence[float]
    std: Sequence[float] | None = None
    like: str = ""


def plot_panels(
    panels: Mapping[str, Mapping[str, Curve]],
    xlabel: str = "",
    ylabels: Mapping[str, str] | None = None,
    levels: Mapping[str, Mapping[str, float]] | None = None,
) -> Any:
    """The axes of panels side by side, each with curves and bands of one standard deviation.

    A curve has the same colour in all panels, and there is one legend for all of them. Curves
    without a band are dashed, and black if they are like no other: they are there to compare with.

    Parameters
    ----------
    panels : mapping
        From titles to mappings from names to curves.
    xlabel : str
    ylabels : mapping, optional
        From titles to labels.
    levels : mapping, optional
        From titles to mappings from names to horizontal lines.

    Returns
    -------
    array of matplotlib.axes.Axes

    Examples
    --------
    >>> curves = {"ours": Curve([0.1, 0.5], [1.0, 2.0], [0.1, 0.2]), "before": Curve([0.1], [2.0])}
    >>> axes = plot_panels({"one": curves, "two": curves}, xlabel="missing")
    >>> [ax.get_title() for ax in axes]
    ['one', 'two']
    """
    if not panels:
        raise ValueError("'panels' must have at least one entry. Got none.")
    figure, axes = row_of_axes(len(panels), 3.4 * len(panels), 3.4)
    named = {name: None for curves in panels.values() for name, c in curves.items() if c.std}
    colour = {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(named)}
    for ax, (title, curves) in zip(axes, panels.items(), strict=True):
        for name, level in ((levels or {}).get(title) or {}).items():
            ax.axhline(level, color="0.6", linewidth=1, linestyle=":", label=name)
        for name, curve in curves.items():
            _draw_curve(ax, name, curve, colour.get(curve.like or name, "black"))
        ax.set_title(title)
        ax.set_xlabel(xlabel)
        ax.set_ylabel((ylabels or {}).get(title, ""))
        tidy(ax, legend=False)
    # As many columns as fit below so many panels.
    legend_below(figure, axes, ncols=min(5, 5 * len(panels) // 4))
    return axes


@dataclass(frozen=True, eq=False)
class Explained:
    """What the entries of one row contribute to its prediction.

    Attributes
    ----------
    row : int
        Its number among the rows that are shown.
    names : sequence of str
    values : array of shape (names,)
        The contributions.
    base : float
        The prediction if nothing is known.
    data : sequence
        The entries; None and NaN are not written down.
    """

    row: int
    names: Sequence[str]
    values: Any
    base: float
    data: Any


def plot_missing_values(
    errors: Mapping[str, Curve],
    measured: Sequence[float],
    predicted: Sequence[float],
    interval: tuple[Sequence[float], Sequence[float]],
    explained: Explained,
    titles: Sequence[str] = ("", "", ""),
    ylabels: tuple[str, str] = ("error", "prediction"),
) -> Any:
    """The axes of three panels: errors by rate, predictions with intervals, one of them explained.

    Rows are in the order of their predictions.

    Parameters
    ----------
    errors : mapping
        From methods to their errors at rates of missing values; that of the expected predictions
        comes first.
    measured, predicted : sequences of float
        The targets of some rows with missing values, and the expected predictions for them.
    interval : pair of sequences of float
        The ends of the intervals of these predictions.
    explained : Explained
    titles, ylabels : sequences of str
        What is written above the panels, and beside the first two.

    Returns
    -------
    array of matplotlib.axes.Axes

    Examples
    --------
    >>> errors = {"expected": Curve([0.1, 0.5], [1.0, 2.0])}
    >>> why = Explained(0, ["width"], np.array([0.5]), 0.7, [3.0])
    >>> axes = plot_missing_values(errors, [1.0, 2.0], [1.2, 1.9], ([1.0, 1.5], [1.4, 2.3]), why)
    >>> [ax.get_ylabel() for ax in axes]
    ['error', 'prediction', '']
    """
    lengths = [len(values) for values in (measured, predicted, *interval)]
    if len(set(lengths)) > 1:
        raise ValueError(
            "Targets, predictions and intervals must be those of the same rows. "
            f"Got {lengths} of them."
        )
    _, axes = row_of_axes(3, 14, 4.4, ratios=[1, 1.5, 1.1])
    for (name, curve), style in zip(errors.items(), _styles(len(errors)), strict=True):
        axes[0].plot(curve.x, curve.mean, label=name, **style)
    axes[0].xaxis.set_major_formatter(PercentFormatter(xmax=1.0))
    axes[0].yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
    axes[0].set_xlabel("missing values")
    what = "expected prediction, 90 % interval"
    _mark(axes[1], *_draw_rows(axes[1], measured, predicted, *interval, what), explained.row)
    axes[1].set_xlabel("test rows")
    draw_waterfall(axes[2], explained.names, explained.values, explained.base, explained.data)
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title, loc="left", fontsize="medium", fontweight="bold")
    for ax, ylabel in zip(axes, ylabels, strict=False):
        ax.set_ylabel(ylabel)
        tidy(ax, legend=False)
        # Errors grow with the rate and rows are in order: this corner is free in both panels.
        ax.legend(frameon=False, loc="upper left")
    axes[1].grid(visible=False, axis="x")
    total = explained.base + np.sum(explained.values)
    axes[2].set_xlabel(f"from {number(explained.base)}, if nothing is known, to {number(total)}")
    return axes


def _styles(n: int) -> list[dict[str, Any]]:
    """How methods are drawn: the first one in front and larger, each with a marker of its own."""
    first = {"color": PALETTE[0], "marker": "o", "markersize": 6, "linewidth": 2.4, "zorder": 4}
    rest = [
        {
            "color": PALETTE[i % len(PALETTE)],
            "marker": "sD^vPX"[(i - 1) % 6],
            "markersize": 4,
            "linewidth": 1.4,
        }
        for i in range(1, n)
    ]
    return [first, *rest]


def plot_intervals(
    predicted: NumbersLike,
    interval: tuple[NumbersLike, NumbersLike],
    measured: NumbersLike | None = None,
    coverage: float | None = None,
) -> Axes:
    """The axes with predictions and their intervals, in the order of the predictions.

    Parameters
    ----------
    predicted : array of shape (rows,)
    interval : pair of arrays of shape (rows,)
        What `predict_interval` gives; ends that are infinite leave the picture.
    measured : array of shape (rows,), optional
        The targets.
    coverage : float, optional
        What is written in the legend.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    DataError
        If these are not numbers of the same rows.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> ax = ek.plotting.plot_intervals([1.0, 2.0], ([0.5, 1.0], [1.5, 3.0]), coverage=0.9)
    >>> [text.get_text() for text in ax.figure.legends[0].get_texts()]
    ['prediction, 90 % interval']
    """
    given = [predicted, *interval, *([] if measured is None else [measured])]
    arrays = [np.asarray(values, dtype=np.float64) for values in given]
    shapes = [array.shape for array in arrays]
    if len(shapes[0]) != 1 or len(set(shapes)) > 1:
        raise DataError(
            "Predictions, both ends of intervals and targets are numbers of the same rows. "
            f"Got the shapes {shapes}."
        )
    ax = new_axes(min(10.0, 3.6 + 0.14 * len(arrays[0])), 3.6)
    what = "interval" if coverage is None else f"{100 * coverage:.3g} % interval"
    middle, low, high, *targets = arrays
    _draw_rows(ax, targets[0] if targets else None, middle, low, high, f"prediction, {what}")
    ax.set_xlabel("rows")
    tidy(ax, legend=False)
    legend_above(ax)
    ax.grid(visible=False, axis="x")
    return ax


def _draw_rows(
    ax: Any, measured: Any, predicted: Any, low: Any, high: Any, label: str
) -> tuple[Any, Any]:
    """Rows side by side: dashes for targets, dots with bars for predictions; their order."""
    order = np.argsort(predicted)
    middle, low, high = (np.asarray(v)[order] for v in (predicted, low, high))
    places = np.arange(len(order))
    if measured is not None:
        ends = places - 0.35, places + 0.35
        y = np.asarray(measured)[order]
        ax.hlines(y, *ends, color="black", linewidth=2, zorder=5, label="measured")
    ax.errorbar(
        places,
        middle,
        (middle - low, high - middle),
        fmt="o",
        color=EXACT,
        markersize=5,
        elinewidth=5,
        ecolor=(*to_rgb(EXACT), 0.3),
        zorder=4,
        label=label,
    )
    ax.margins(y=0.2)  # for the legend
    ax.set_xticks([])
    return order, middle


def _mark(ax: Any, order: Any, middle: Any, marked: int) -> None:
    """A ring around one of the rows."""
    at = int(np.flatnonzero(order == marked)[0])
    ring = {"markersize": 11, "markerfacecolor": "none", "markeredgecolor": SAMPLED}
    ax.plot(
        at, middle[at], "o", **ring, markeredgewidth=2, zorder=6, label="explained on the right"
    )


def _draw_curve(ax: Any, name: str, curve: Curve, colour: str) -> None:
    mean = np.asarray(curve.mean)
    if curve.std is None:
        ax.plot(curve.x, mean, "--", color=colour, linewidth=1.2, label=name, zorder=4)
        return
    std = np.asarray(curve.std)
    ax.plot(curve.x, mean, "o-", color=colour, linewidth=1.4, markersize=3, label=name)
    ax.fill_between(curve.x, mean - std, mean + std, color=colour, alpha=0.2, linewidth=0)
