"""What columns contribute to predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from expectedkernels.html import number
from expectedkernels.layouts import PALETTE
from expectedkernels.plotting.style import (
    EXACT,
    SAMPLED,
    axes_of,
    legend_above,
    name_lines,
    tidy,
    to_rgb,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_importances(
    names: Sequence[str], sizes: Sequence[float], xlabel: str = "mean size of the contribution"
) -> Axes:
    """The axes of a bar for everything named, the largest on top.

    Examples
    --------
    >>> ax = plot_importances(["width", "height"], [0.5, 2.0])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['width', 'height']
    """
    order = np.argsort(sizes)
    return _bars([names[i] for i in order], np.asarray(sizes)[order], xlabel, EXACT)


def plot_distributions(found: Mapping[str, Mapping[str, float]]) -> Axes:
    """The axes of a bar for every state of some variables, those of a variable together.

    Examples
    --------
    >>> ax = plot_distributions({"rain": {"no": 0.8, "yes": 0.2}})
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['rain = yes', 'rain = no']
    """
    bars = [
        (f"{name} = {state}", share, PALETTE[5 * (i % 2)])
        for i, (name, states) in enumerate(found.items())
        for state, share in states.items()
    ]
    names, sizes, colours = zip(*bars[::-1], strict=True)  # from below
    ax = _bars(names, sizes, "probability", colours)
    ax.set_xlim(0.0, 1.0)
    return ax


def _bars(names: Sequence[str], sizes: Any, xlabel: str, colours: Any) -> Axes:
    ax = axes_of(len(names))
    ax.barh(np.arange(len(names)), sizes, color=colours, height=0.7)
    ax.set_ylim(-0.7, len(names) - 0.3)
    name_lines(ax, names)
    ax.set_xlabel(xlabel)
    tidy(ax, legend=False)
    return ax


def plot_beeswarm(names: Sequence[str], values: Any, data: Any) -> Axes:
    """The axes of a dot for every contribution of every row; colours say how large the entry is.

    Parameters
    ----------
    names : sequence of str
    values, data : arrays of shape (rows, names)
        Contributions, and the entries of the rows; those that are no numbers are grey.

    Examples
    --------
    >>> ax = plot_beeswarm(["width"], np.array([[0.5], [2.0]]), np.array([[1.0], [3.0]]))
    >>> ax.get_xlabel()
    'contribution'
    """
    ax = axes_of(len(names))
    order = np.argsort(np.abs(values).mean(axis=0))
    for place, i in enumerate(order):
        rank = np.argsort(np.argsort(values[:, i], kind="stable"))
        away = 0.3 * ((rank * 0.618034) % 1.0 - 0.5)  # neighbours lie apart, always in the same way
        ax.scatter(values[:, i], place + away, c=_shades(data[:, i]), s=14, linewidths=0)
    ax.axvline(0.0, color="0.6", linewidth=1)
    name_lines(ax, [names[i] for i in order])
    ax.set_xlabel("contribution")
    ax.set_title("from small entries (blue) to large ones (orange)", fontsize="small")
    tidy(ax, legend=False)
    return ax


def plot_waterfall(names: Sequence[str], values: Any, base: float, data: Any) -> Axes:
    """The axes of the steps from the base value to the prediction of one row.

    Parameters
    ----------
    names : sequence of str
    values : array of shape (names,)
    base : float
    data : sequence
        What the row shows; None and NaN are not written down.

    Examples
    --------
    >>> ax = plot_waterfall(["width", "sex"], np.array([0.5, -2.0]), 1.0, [3.0, "male"])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['width = 3', 'sex = male']
    >>> ax = plot_waterfall(["carat"], np.array([14312.0]), -2000.0, [1.5])
    >>> ax.texts[0].get_text()
    '+14,300'
    """
    ax = axes_of(len(names))
    draw_waterfall(ax, names, values, base, data)
    legend_above(ax)
    return ax


def draw_waterfall(ax: Any, names: Sequence[str], values: Any, base: float, data: Any) -> None:
    """Draw the steps from the base value to the prediction of one row."""
    order = np.argsort(np.abs(values))
    steps = np.asarray(values)[order]
    starts = base + np.concatenate([[0.0], np.cumsum(steps)[:-1]])
    colours = [EXACT if step >= 0 else SAMPLED for step in steps]
    ax.barh(np.arange(len(order)), steps, left=starts, color=colours, height=0.7)
    for place, (start, step) in enumerate(zip(starts, steps, strict=True)):
        ax.annotate(
            number(step, 3, "+"),
            (start + max(step, 0.0), place),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
        )
    total = base + steps.sum()
    ax.axvline(base, color="0.6", linewidth=1, label=f"base value: {number(base)}")
    ax.axvline(
        total, color="black", linewidth=1, linestyle="--", label=f"this row: {number(total)}"
    )
    ax.use_sticky_edges = False
    ax.margins(x=0.15)
    name_lines(ax, [_with_entry(names[i], data[i]) for i in order])
    ax.set_xlabel("prediction")
    tidy(ax, legend=False)


def _shades(entries: Any) -> Any:
    """Colours from small to large; grey where entries are no numbers."""
    try:
        x = np.asarray(entries, dtype=np.float64)
    except (TypeError, ValueError):
        return "0.6"
    low, high = to_rgb(EXACT), to_rgb(SAMPLED)
    share = np.argsort(np.argsort(x)) / max(1, len(x) - 1)
    colours = np.outer(1.0 - share, low) + np.outer(share, high)
    colours[np.isnan(x)] = 0.6
    return colours


def _with_entry(name: str, entry: Any) -> str:
    if entry is None or entry != entry:
        return name
    if isinstance(entry, float):
        return f"{name} = {number(entry, 15 if entry.is_integer() else 4)}"
    return f"{name} = {entry}"
