"""Pictures. The only module that needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

try:
    import matplotlib.pyplot as plt
    from matplotlib.colors import to_rgb
    from matplotlib.ticker import MaxNLocator, PercentFormatter
except ImportError as error:
    raise ImportError(
        "Pictures need matplotlib, which is not installed. "
        "Install it with: pip install 'expectedkernels[plot]'"
    ) from error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Two colours of the palette of Okabe and Ito, told apart with every kind of colour vision.
SAMPLED, EXACT = "#D55E00", "#0072B2"
# All of them, for curves, in the order in which they are used.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#B8A900")

MOST_BARS = 20
"""How many variables are shown, at most."""


@dataclass(frozen=True)
class Curve:
    """A curve with a band: means over trials, and their standard deviations (None: no band)."""

    x: Sequence[float]
    mean: Sequence[float]
    std: Sequence[float] | None = None


def plot_panels(
    panels: Mapping[str, Mapping[str, Curve]],
    xlabel: str = "",
    ylabels: Mapping[str, str] | None = None,
    levels: Mapping[str, Mapping[str, float]] | None = None,
) -> Any:
    """The axes of panels side by side, each with curves and bands of one standard deviation.

    A curve has the same colour in all panels, and there is one legend for all of them. Curves
    without a band are drawn dashed and in black: they are there to compare with.

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
    figure, axes = plt.subplots(
        1, len(panels), figsize=(3.4 * len(panels), 3.8), layout="constrained", squeeze=False
    )
    named = {name: None for curves in panels.values() for name, c in curves.items() if c.std}
    colour = {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(named)}
    for ax, (title, curves) in zip(axes[0], panels.items(), strict=True):
        for name, level in ((levels or {}).get(title) or {}).items():
            ax.axhline(level, color="0.6", linewidth=1, linestyle=":", label=name)
        for name, curve in curves.items():
            _draw_curve(ax, name, curve, colour.get(name, "black"))
        ax.set_title(title)
        ax.set_xlabel(xlabel)
        ax.set_ylabel((ylabels or {}).get(title, ""))
        _tidy(ax, legend=False)
    # As many columns as fit below so many panels.
    _legend_below(figure, axes[0], ncols=min(5, 5 * len(panels) // 4))
    return axes[0]


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
    _, axes = plt.subplots(
        1, 3, figsize=(14, 4.4), layout="constrained", gridspec_kw={"width_ratios": [1, 1.5, 1.1]}
    )
    for (name, curve), style in zip(errors.items(), _styles(len(errors)), strict=True):
        axes[0].plot(curve.x, curve.mean, label=name, **style)
    axes[0].xaxis.set_major_formatter(PercentFormatter(xmax=1.0))
    axes[0].yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
    axes[0].set_xlabel("missing values")
    _draw_rows(axes[1], measured, predicted, interval, explained.row)
    _draw_waterfall(axes[2], explained.names, explained.values, explained.base, explained.data)
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title, loc="left", fontsize="medium", fontweight="bold")
    for ax, ylabel in zip(axes, ylabels, strict=False):
        ax.set_ylabel(ylabel)
        _tidy(ax, legend=False)
        # Errors grow with the rate and rows are in order: this corner is free in both panels.
        ax.legend(frameon=False, loc="upper left")
    axes[1].grid(visible=False, axis="x")
    total = explained.base + np.sum(explained.values)
    axes[2].set_xlabel(f"from {explained.base:.4g}, if nothing is known, to {total:.4g}")
    return axes


def plot_samples(samples: Any) -> list[Axes]:
    """The axes with sorted weights, and with marginals against those of equal weights."""
    _, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.8), layout="constrained")
    n = len(samples)
    left.plot(np.arange(1, n + 1), np.sort(samples.weights)[::-1], color=EXACT, label="weights")
    left.axhline(1.0 / n, color=SAMPLED, linestyle="--", label="equal weights")
    left.set_xlabel("sample, heaviest first")
    left.set_ylabel("weight")
    left.set_title(f"effective sample size {samples.ess:.4g} of {n}", fontsize="medium")
    _tidy(left)
    equal, weighted = (np.concatenate(s.marginals()) for s in (samples.uniform(), samples))
    right.plot([0, 1], [0, 1], color="0.6", linewidth=1)
    right.plot(equal, weighted, "o", color=EXACT, markersize=4)
    right.set_xlabel("marginal with equal weights")
    right.set_ylabel("weighted marginal")
    _tidy(right, legend=False)
    return [left, right]


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
    ax = _axes_of(len(names))
    order = np.argsort(sizes)
    ax.barh(np.arange(len(order)), np.asarray(sizes)[order], color=EXACT, height=0.7)
    ax.set_yticks(np.arange(len(order)), [names[i] for i in order])
    ax.set_xlabel(xlabel)
    _tidy(ax, legend=False)
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
    ax = _axes_of(len(names))
    order = np.argsort(np.abs(values).mean(axis=0))
    for place, i in enumerate(order):
        rank = np.argsort(np.argsort(values[:, i], kind="stable"))
        away = 0.3 * ((rank * 0.618034) % 1.0 - 0.5)  # neighbours lie apart, always in the same way
        ax.scatter(values[:, i], place + away, c=_shades(data[:, i]), s=14, linewidths=0)
    ax.axvline(0.0, color="0.6", linewidth=1)
    ax.set_yticks(np.arange(len(order)), [names[i] for i in order])
    ax.set_xlabel("contribution")
    ax.set_title("from small entries (blue) to large ones (orange)", fontsize="small")
    _tidy(ax, legend=False)
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
    """
    ax = _axes_of(len(names))
    _draw_waterfall(ax, names, values, base, data)
    ax.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1.15), ncols=2)
    return ax


def _draw_waterfall(ax: Any, names: Sequence[str], values: Any, base: float, data: Any) -> None:
    order = np.argsort(np.abs(values))
    steps = np.asarray(values)[order]
    starts = base + np.concatenate([[0.0], np.cumsum(steps)[:-1]])
    colours = [EXACT if step >= 0 else SAMPLED for step in steps]
    ax.barh(np.arange(len(order)), steps, left=starts, color=colours, height=0.7)
    for place, (start, step) in enumerate(zip(starts, steps, strict=True)):
        ax.annotate(
            f"{step:+.3g}",
            (start + max(step, 0.0), place),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
        )
    total = base + steps.sum()
    ax.axvline(base, color="0.6", linewidth=1, label=f"base value: {base:.4g}")
    ax.axvline(total, color="black", linewidth=1, linestyle="--", label=f"this row: {total:.4g}")
    ax.use_sticky_edges = False
    ax.margins(x=0.15)
    ax.set_yticks(np.arange(len(order)), [_with_entry(names[i], data[i]) for i in order])
    ax.set_xlabel("prediction")
    _tidy(ax, legend=False)


def _axes_of(n: int) -> Any:
    """Axes that are high enough for so many lines."""
    return plt.subplots(figsize=(6.4, 1.4 + 0.35 * n), layout="constrained")[1]


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
    return f"{name} = {entry:.4g}" if isinstance(entry, float) else f"{name} = {entry}"


def plot_drift(drift: Any, order: Any) -> Axes:
    """The axes with the parts of variables in a drift: by ignoring them, and by Shapley values."""
    order = order[:MOST_BARS]
    _, ax = plt.subplots(figsize=(5.6, 1.2 + 0.3 * len(order)), layout="constrained")
    places = np.arange(len(order))
    ax.barh(places - 0.2, drift.ignoring[order], 0.4, color=SAMPLED, label="less without it")
    ax.barh(places + 0.2, drift.shapley[order], 0.4, color=EXACT, label="Shapley value")
    ax.axvline(drift.mmd2, color="black", linestyle="--", linewidth=1, label="all of it")
    ax.set_yticks(places, [str(drift.names[i]) for i in order.tolist()])
    ax.invert_yaxis()
    ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel("part of the squared discrepancy")
    chance = "" if drift.p_value is None else f", p = {drift.p_value:.3g}"
    ax.set_title(f"discrepancy {drift.mmd:.3g}{chance}", loc="left", fontsize="medium")
    _tidy(ax)
    return ax


def plot_monitor(monitor: Any) -> Axes:
    """The axes with the discrepancies between all windows, as an image."""
    figure, ax = plt.subplots(figsize=(4.8, 4.0), layout="constrained")
    last = len(monitor.mmd) + 0.5
    image = ax.imshow(monitor.mmd, cmap="cividis", extent=(0.5, last, last, 0.5))
    figure.colorbar(image, label="discrepancy")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("window")
    ax.set_ylabel("window")
    return ax


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


def _draw_rows(ax: Any, measured: Any, predicted: Any, interval: Any, marked: int) -> None:
    """Rows side by side: dashes for targets, dots with bars for predictions; one is marked."""
    order = np.argsort(predicted)
    y, middle, low, high = (np.asarray(v)[order] for v in (measured, predicted, *interval))
    places = np.arange(len(order))
    ends = places - 0.35, places + 0.35
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
        label="expected prediction, 90 % interval",
    )
    at = int(np.flatnonzero(order == marked)[0])
    ring = {"markersize": 11, "markerfacecolor": "none", "markeredgecolor": SAMPLED}
    ax.plot(
        at, middle[at], "o", **ring, markeredgewidth=2, zorder=6, label="explained on the right"
    )
    ax.margins(y=0.2)  # for the legend
    ax.set_xticks([])
    ax.set_xlabel("test rows")


def _legend_below(figure: Any, axes: Any, ncols: int) -> None:
    """One legend for all axes, below them."""
    entries = {
        label: handle
        for ax in axes
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside lower center",
        ncols=ncols,
        frameon=False,
    )


def _draw_curve(ax: Any, name: str, curve: Curve, colour: str) -> None:
    mean = np.asarray(curve.mean)
    if curve.std is None:
        ax.plot(curve.x, mean, "--", color=colour, linewidth=1.2, label=name, zorder=4)
        return
    std = np.asarray(curve.std)
    ax.plot(curve.x, mean, "o-", color=colour, linewidth=1.4, markersize=3, label=name)
    ax.fill_between(curve.x, mean - std, mean + std, color=colour, alpha=0.2, linewidth=0)


def save(ax: Axes, path: str | Path) -> Path:
    """The path, after the figure of the axes was written there.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Any axes of the figure.
    path : str or Path
        The file; its suffix chooses the format, and its folder is made if there is none.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> axes = plot_panels({"one": {"ours": Curve([0.1, 0.5], [1.0, 2.0], [0.1, 0.2])}})
    >>> with TemporaryDirectory() as folder:
    ...     save(axes[0], f"{folder}/curves.png").name
    'curves.png'
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure: Any = ax.figure
    figure.savefig(path, dpi=160)
    return path


def close(ax: Axes) -> None:
    """Forget the figure of the axes, which would else be kept until the end of the process."""
    figure: Any = ax.figure
    plt.close(figure)


def _tidy(ax: Any, legend: bool = True) -> None:
    """Leave only what is read: two spines, a faint grid, a legend without a frame."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(which="major", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    if legend:
        ax.legend(frameon=False)
