"""Pictures of circuits, models, values and results: `ek.plotting`. Only this needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from expectedkernels import display
from expectedkernels.arrays import NumbersLike, to_cpu
from expectedkernels.checks import DataError
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.graph import Graph, Unit
from expectedkernels.display import PALETTE, Layout, number, short
from expectedkernels.kernels.kernel import KernelCircuit
from expectedkernels.models.factor_graph import FactorGraph, converted, model_layout
from expectedkernels.vtree import Vtree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot", "plot_circuit", "plot_gram", "plot_intervals", "plot_model", "plot_vtree"]
__all__ += ["plot_witness"]

try:
    import matplotlib.pyplot as plt
    from matplotlib.colors import to_rgb
    from matplotlib.ticker import MaxNLocator, PercentFormatter
except ImportError as error:
    raise ImportError(
        "Pictures need matplotlib, which is not installed. "
        "Install it with: pip install 'expectedkernels[plot]'"
    ) from error


EXACT, SAMPLED = PALETTE[:2]

MOST_LETTERS = 32
"""Longer names are divided, or shortened."""


def row_of_axes(n: int, width: float, height: float, ratios: Sequence[float] | None = None) -> Any:
    """A figure of this size, in inches, and the array of its axes side by side."""
    options: Any = {"layout": "constrained", "squeeze": False, "width_ratios": ratios}
    figure, axes = plt.subplots(1, n, figsize=(width, height), **options)
    return figure, axes[0]


def new_axes(width: float = 5.4, height: float = 3.4) -> Any:
    """New axes of this size, in inches."""
    return row_of_axes(1, width, height)[1][0]


def axes_of(n: int) -> Any:
    """Axes that are high enough for so many lines."""
    return new_axes(6.4, 1.4 + 0.35 * n)


def name_lines(ax: Any, names: Sequence[str]) -> None:
    """Write names beside lines, from below; long ones in two lines."""
    words = [fill(short(str(name), 2 * MOST_LETTERS - 8), MOST_LETTERS) for name in names]
    long = any("\n" in name for name in words)
    ax.set_yticks(range(len(names)), words, fontsize="small" if long else None)


def legend_above(ax: Any) -> None:
    """A legend above the axes, where it hides nothing."""
    handles, labels = ax.get_legend_handles_labels()
    ax.figure.legend(handles, labels, loc="outside upper left", ncols=2, frameon=False)


def legend_below(figure: Any, axes: Any, ncols: int) -> None:
    """One legend for all axes, below them; the figure grows by its lines."""
    found = [ax.get_legend_handles_labels() for ax in axes]
    entries = {label: x for pair in found for x, label in zip(*pair, strict=True)}
    style: Any = {"loc": "outside lower center", "frameon": False, "fontsize": "small"}
    figure.legend(entries.values(), entries.keys(), ncols=ncols, **style)
    figure.set_figheight(figure.get_figheight() + 0.19 * ceil(len(entries) / ncols))


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
    >>> ax = new_axes()
    >>> with TemporaryDirectory() as folder:
    ...     save(ax, f"{folder}/curves.png").name
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


def tidy(ax: Any, legend: bool = True, **labels: str) -> Any:
    """The axes, with only what is read: two spines, a faint grid, labels, a plain legend."""
    ax.set(**labels)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(which="major", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    if legend:
        ax.legend(frameon=False)
    return ax


def plot_gram(gram: NumbersLike, label: str = "kernel") -> Axes:
    """The axes with a matrix of kernels (or of discrepancies) as an image.

    Parameters
    ----------
    gram : array of shape (rows, columns)
        The matrix.
    label : str
        What the values are.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    DataError
        If it is no matrix.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> ek.plotting.plot_gram([[1.0, 0.5], [0.5, 1.0]]).get_ylabel()
    'row'
    """
    values = np.asarray(to_cpu(gram), dtype=np.float64)
    if values.ndim != 2 or not values.size:
        raise DataError(f"A matrix is drawn here. Got an array of shape {values.shape}.")
    return draw_gram(values, label, "column", "row")


def draw_gram(values: Any, label: str, xlabel: str, ylabel: str, first: int = 0) -> Axes:
    """The axes with a matrix as an image; rows and columns are counted from `first` on."""
    ax, (rows, columns), start = new_axes(4.8, 4.0), values.shape, first - 0.5
    ends = (start, start + columns, start + rows, start)
    aspect = "equal" if rows == columns else "auto"
    image = ax.imshow(values, cmap="cividis", extent=ends, aspect=aspect)
    ax.figure.colorbar(image, label=label)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel=xlabel, ylabel=ylabel)
    return ax


def plot_witness(at_p: NumbersLike, at_q: NumbersLike) -> Axes:
    """The axes with histograms of a witness function at rows of two distributions.

    The difference of the two means is the squared discrepancy between the rows, if the function
    is that of these rows.

    Parameters
    ----------
    at_p, at_q : arrays
        Values of `ek.witness` at rows of either distribution, or `Drift.witness`.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    DataError
        If there are no values.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.9, 0.1]]), ek.factorized([[0.5, 0.5]])
    >>> values = (ek.witness(p, q, X=r.sample(20, rng=0)) for r in (p, q))
    >>> ek.plotting.plot_witness(*values).get_xlabel()
    'witness function'
    """
    both = [np.asarray(to_cpu(x), dtype=np.float64).reshape(-1) for x in (at_p, at_q)]
    if not all(map(len, both)):
        raise DataError(f"Values at rows of both are drawn. Got {len(both[0])} and {len(both[1])}.")
    ax = new_axes()
    edges = np.histogram_bin_edges(np.concatenate(both), bins=30)
    for values, colour, label in zip(both, (EXACT, SAMPLED), ("first", "second"), strict=True):
        shares = np.full(len(values), 1.0 / len(values))
        ax.hist(values, bins=edges, weights=shares, color=colour, alpha=0.5, label=label)
        ax.axvline(values.mean(), color=colour, linestyle="--", linewidth=1)
    return tidy(ax, xlabel="witness function", ylabel="share of rows")


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
    bars: list[Any] = []
    for i, (name, states) in enumerate(found.items()):
        bars += ((f"{name} = {x}", share, PALETTE[5 * (i % 2)]) for x, share in states.items())
    names, sizes, colours = zip(*bars[::-1], strict=True)  # from below
    ax = _bars(names, sizes, "probability", colours)
    ax.set_xlim(0.0, 1.0)
    return ax


def _bars(names: Sequence[str], sizes: Any, xlabel: str, colours: Any) -> Axes:
    ax = axes_of(len(names))
    ax.barh(np.arange(len(names)), sizes, color=colours, height=0.7)
    ax.set_ylim(-0.7, len(names) - 0.3)
    name_lines(ax, names)
    return tidy(ax, legend=False, xlabel=xlabel)


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
    ax.set_title("from small entries (blue) to large ones (orange)", fontsize="small")
    return tidy(ax, legend=False, xlabel="contribution")


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
    style: Any = {"textcoords": "offset points", "va": "center", "fontsize": "small"}
    for place, (start, step) in enumerate(zip(starts, steps, strict=True)):
        ax.annotate(number(step, 3, "+"), (start + max(step, 0.0), place), (3, 0), **style)
    total = base + steps.sum()
    ax.axvline(base, color="0.6", linewidth=1, label=f"base value: {number(base)}")
    style = {"color": "black", "linestyle": "--", "label": f"this row: {number(total)}"}
    ax.axvline(total, linewidth=1, **style)
    ax.use_sticky_edges = False
    ax.margins(x=0.15)
    name_lines(ax, [_with_entry(names[i], data[i]) for i in order])
    tidy(ax, legend=False, xlabel="prediction")


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


def plot_demo(result: Any, rates: Sequence[float], n_rows: int, titles: Sequence[str]) -> Any:
    """The axes of three panels: errors, predictions of rows, the first one explained."""
    _, axes = row_of_axes(3, 14, 4.4, ratios=[1, 1.5, 1.1])
    # the first method is in front and larger, each has a marker of its own
    style: dict[str, Any] = {"markersize": 6, "linewidth": 2.4, "zorder": 4}
    for i, (name, means) in enumerate(result.mean_errors().items()):
        style |= {"marker": "osD^vPX"[i % 7], "color": PALETTE[i % len(PALETTE)]}
        axes[0].plot([0.0, *rates], [result.complete.mean(), *means], label=name, **style)
        style = {"markersize": 4, "linewidth": 1.4}
    axes[0].xaxis.set_major_formatter(PercentFormatter(xmax=1.0))
    axes[0].yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
    found = result.shown
    parts = (found.measured, found.expected, found.low, found.high)
    measured, expected, low, high = (x[:n_rows] for x in parts)
    what = "expected prediction, 90 % interval"
    order, middle = _draw_rows(axes[1], measured, expected, low, high, what)
    at = int(np.flatnonzero(order == 0)[0])
    ring = {"markersize": 11, "markerfacecolor": "none", "markeredgecolor": SAMPLED}
    ring |= {"markeredgewidth": 2, "zorder": 6}
    axes[1].plot(at, middle[at], "o", **ring, label="explained on the right")
    draw_waterfall(axes[2], found.names, found.contributions, found.base, found.entries)
    labels = ("missing values", "root mean squared error"), ("test rows", "disease progression")
    for ax, (xlabel, ylabel) in zip(axes, labels, strict=False):
        tidy(ax, legend=False, xlabel=xlabel, ylabel=ylabel)
        # errors grow and rows are in order: this corner is free in both panels
        ax.legend(frameon=False, loc="upper left")
    axes[1].grid(visible=False, axis="x")
    total = found.base + np.sum(found.contributions)
    axes[2].set_xlabel(f"from {number(found.base)}, if nothing is known, to {number(total)}")
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title, loc="left", fontsize="medium", fontweight="bold")
    return axes


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
        The predictions.
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
        rule = "Predictions, both ends of intervals and targets are numbers of the same rows"
        raise DataError(f"{rule}. Got the shapes {shapes}.")
    ax = new_axes(min(10.0, 3.6 + 0.14 * len(arrays[0])), 3.6)
    what = "interval" if coverage is None else f"{100 * coverage:.3g} % interval"
    middle, low, high, *targets = arrays
    _draw_rows(ax, targets[0] if targets else None, middle, low, high, f"prediction, {what}")
    tidy(ax, legend=False, xlabel="rows")
    legend_above(ax)
    ax.grid(visible=False, axis="x")
    return ax


def _draw_rows(ax: Any, y: Any, predicted: Any, low: Any, high: Any, label: str) -> tuple[Any, Any]:
    """Rows side by side: dashes for targets, dots with bars for predictions; their order."""
    order = np.argsort(predicted)
    middle, low, high = (np.asarray(v)[order] for v in (predicted, low, high))
    places = np.arange(len(order))
    if y is not None:
        ends = places - 0.35, places + 0.35
        heights = np.asarray(y)[order]
        ax.hlines(heights, *ends, color="black", linewidth=2, zorder=5, label="measured")
    style: Any = {"fmt": "o", "markersize": 5, "color": EXACT, "ecolor": (*to_rgb(EXACT), 0.3)}
    bars = (middle - low, high - middle)
    ax.errorbar(places, middle, bars, elinewidth=5, zorder=4, label=label, **style)
    ax.margins(y=0.2)  # for the legend
    ax.set_xticks([])
    return order, middle


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
    left.set_title(f"effective sample size {samples.ess:.4g} of {n}", fontsize="medium")
    tidy(left, xlabel="sample, heaviest first", ylabel="weight")
    equal, weighted = (np.concatenate(s.marginals()) for s in (samples.uniform(), samples))
    right.plot([0, 1], [0, 1], color="0.6", linewidth=1)
    right.plot(equal, weighted, "o", color=EXACT, markersize=4)
    xlabel = "marginal with equal weights"
    tidy(right, legend=False, xlabel=xlabel, ylabel="weighted marginal")
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
    chance = "" if drift.p_value is None else f", p = {drift.p_value:.3g}"
    left_out = len(drift.names) - len(order)
    more = f"; {left_out} more columns" if left_out else ""
    words = f"discrepancy {drift.mmd:.3g}{chance}{more}"
    ax.figure.suptitle(words, x=0.01, ha="left", fontsize="medium")
    tidy(ax, legend=False, xlabel="part of the squared discrepancy")
    legend_below(ax.figure, [ax], 4)
    return ax


def plot_null(test: Any) -> Axes:
    """The axes with a statistic and the histogram of those under the hypothesis."""
    ax = new_axes()
    ax.hist(test.null, bins=30, color="0.75", label="under the hypothesis")
    ax.axvline(test.statistic, color=SAMPLED, linewidth=2, label="observed")
    ax.locator_params(axis="x", nbins=5)
    ax.set_title(f"p = {test.p_value:.3g}", loc="left", fontsize="medium")
    return tidy(ax, xlabel="statistic", ylabel="simulated samples")


def plot_stream(logs: Any, n_rows: int, threshold: float, alarm: int | None) -> Axes:
    """The last log e-values of a stream of rows, the threshold, and where it was reached."""
    ax = new_axes()
    ax.plot(range(n_rows - len(logs), n_rows), logs, label="rows")
    ax.axhline(threshold, color="black", linewidth=1, linestyle="--", label="threshold")
    if alarm is not None:
        ax.axvline(alarm, color="C3", linewidth=1, label="alarm")
    return tidy(ax, xlabel="row", ylabel="log e-value")


def plot_groups(found: Any) -> Axes:
    """The axes with the discrepancies of groups against their probabilities."""
    ax = new_axes(6.8)
    ax.plot(found.probabilities, found.mmd, "o", color=EXACT, markersize=4, alpha=0.6)
    if found.probabilities.max() > 10 * found.probabilities.min():
        ax.set_xscale("log")

    style: Any = {"textcoords": "axes fraction", "va": "center", "fontsize": "x-small"}
    style["arrowprops"] = {"arrowstyle": "-", "color": "0.7", "lw": 0.7, "relpos": (0.0, 0.5)}
    for place, i in enumerate((-found.mmd).argsort()[:NAMED].tolist()):
        # beside the picture, where names cannot lie on each other
        at, beside = (found.probabilities[i], found.mmd[i]), (1.06, 0.95 - 0.12 * place)
        ax.annotate(short(found.groups[i], MOST_LETTERS), at, beside, **style)
    ylabel = "discrepancy from the population"
    return tidy(ax, legend=False, xlabel="probability of the group", ylabel=ylabel)


MOST_UNITS = 200
"""Circuits with more units are drawn as their vtree, with the numbers of units."""

MOST_LABELS = 150
"""Graphs with more nodes are drawn without labels."""

AROUND = 0.8
"""How much space there is around the nodes, which are one apart."""

LONG = 8
"""Labels with more letters are not within nodes."""

LABEL_LETTERS = 24
"""Longer labels are shortened."""

WIDER = 2.0
"""How much further apart nodes are whose names are in a line below them."""

LARGEST = 14.0
"""How wide and high figures are at most, in inches."""


def plot_circuit(circuit: Circuit | KernelCircuit | Unit, ax: Axes | None = None) -> Axes:
    """The axes with the units of a circuit: sums, the products below them, inputs at the bottom.

    Units have the colour of their scope, and edges are as wide as weights are large beside the
    others of a sum; negative ones are dashed. Large circuits are drawn as their vtree, with
    the number of units at every node.

    Parameters
    ----------
    circuit : Circuit, KernelCircuit or unit
        A graph of units is drawn as it was written down.
    ax : matplotlib axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    DataError
        If it is something else.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.random_circuit(ek.Vtree.balanced(3), 2, rng=0)
    >>> sorted({text.get_text() for text in ek.plotting.plot_circuit(p).texts})
    ['+', '0', '1', '2', '×']
    """
    if isinstance(circuit, KernelCircuit):
        circuit = circuit.circuit
    if isinstance(circuit, Unit):
        return draw(display.graph_layout(Graph(circuit)), ax)
    _require(circuit, Circuit, "A circuit is drawn here")
    if circuit.n_units <= MOST_UNITS:
        return draw(display.circuit_layout(circuit), ax)
    counts = [block.n_units for block in circuit.blocks]
    return draw(display.vtree_layout(circuit.vtree, circuit.names, counts), ax)


def plot_vtree(vtree: Vtree, ax: Axes | None = None) -> Axes:
    """The axes with the nodes of a vtree.

    Parameters
    ----------
    vtree : Vtree
        The vtree to draw.
    ax : matplotlib axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    DataError
        If it is something else.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> [text.get_text() for text in ek.plotting.plot_vtree(ek.Vtree.balanced(3)).texts]
    ['0', '1', '2', '', '']
    """
    _require(vtree, Vtree, "A vtree is drawn here")
    return draw(display.vtree_layout(vtree), ax)


def plot_model(model: FactorGraph, ax: Axes | None = None) -> Axes:
    """The axes with the variables of a graphical model.

    Bayesian networks are drawn from the roots down. Of other factor graphs, factors of two
    variables are edges and those of more are dark squares; distances on paper are about those in
    the graph.

    Parameters
    ----------
    model : FactorGraph or BayesianNetwork
        The model to draw.
    ax : matplotlib axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    DataError
        If it is something else.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> ek.plotting.plot_model(ek.asia()).get_title(loc="left")
    'BayesianNetwork of 8 variables: 8 factors'
    """
    what = "A factor graph or Bayesian network is drawn here"
    _require(model, FactorGraph, f"{what} (ek.as_model translates those of other libraries)")
    return draw(model_layout(model), ax)


def _require(given: Any, kind: type, what: str) -> None:
    if not isinstance(given, kind):
        raise DataError(f"{what}. Got {type(given).__name__}.")


def draw(layout: Layout, ax: Axes | None = None) -> Axes:
    """The axes with a layout.

    Long names are below their nodes: upwards at nodes with nothing below them, else in a line.
    """
    labelled = len(layout.x) <= MOST_LABELS
    outside = [labelled and len(label) > LONG for label in layout.labels]
    ends = np.bincount(layout.edges[:, 0], minlength=len(layout.x)) == 0
    upright = not layout.arrows and not layout.squares and bool(ends[outside].all())
    longest = max((len(label) for label in layout.labels if labelled), default=0)
    room = AROUND + 0.17 * min(LABEL_LETTERS, longest) * (upright and longest > LONG)
    stretch = 1.0 if upright or not any(outside) else WIDER
    x, y = stretch * layout.x, 1.2 * layout.y
    wide, high = np.ptp(x) + 2 * AROUND, np.ptp(y) + AROUND + room
    scale = min(0.5, LARGEST / max(wide, high))  # inches per unit
    on: Any = ax or new_axes(*(max(3.4, float(scale * z) + 0.3) for z in (wide, high)))
    size = max(2.0, (26.0 if labelled else 8.0) * scale / 0.5)  # points
    _draw_edges(on, layout, x, y, size)
    on.set_xlim(x.min() - AROUND, x.max() + AROUND)
    on.set_ylim(y.min() - room, y.max() + AROUND)
    edge = {"markeredgecolor": "0.25", "markeredgewidth": 0.8 * min(1.0, size / 20)}
    for i, colour in enumerate(layout.fills):
        shape, width = ("s", 0.6 * size) if i in layout.squares else ("o", size)
        on.plot(x[i], y[i], shape, color=colour, markersize=width, **edge)
        if labelled:
            _write(on, layout.labels[i], (x[i], y[i]), size, outside[i], upright)
    on.set_title(layout.title.strip("<>"), fontsize="small", loc="left")
    on.set_axis_off()
    return on


def _write(ax: Any, label: str, at: Any, size: float, outside: bool, upright: bool) -> None:
    """Write a label into a node, or below it."""
    if not outside:
        small = min(10.0, size / 2.2, 1.35 * size / max(1, len(label)))
        ax.text(*at, label, ha="center", va="center_baseline", fontsize=small)
        return
    style: Any = {"ha": "center", "va": "top", "fontsize": min(8.0, max(4.0, size / 2.6))}
    style |= {"rotation": 90} if upright else {"bbox": {"fc": "white", "ec": "none", "pad": 0.5}}
    below = (0, -0.62 * size)
    ax.annotate(short(label, LABEL_LETTERS), at, below, textcoords="offset points", **style)


def _draw_edges(ax: Any, layout: Layout, x: Any, y: Any, size: float) -> None:
    ends = zip(layout.edges.tolist(), layout.weights.tolist(), strict=True)
    thin = min(1.0, max(0.4, size / 20))  # of small nodes
    for (a, b), weight in ends:
        style: dict[str, Any] = {"linewidth": thin * (0.6 + 2.0 * abs(weight)), "zorder": 0.5}
        style |= {"color": "0.45"} if weight >= 0 else {"color": SAMPLED, "linestyle": "--"}
        if layout.arrows:
            tips = {"arrowstyle": "-|>", "shrinkA": size / 2, "shrinkB": size / 2}
            ax.annotate("", (x[b], y[b]), (x[a], y[a]), arrowprops={**style, **tips})
        else:
            ax.plot([x[a], x[b]], [y[a], y[b]], **style)


def plot(what: object, path: str | Path | None = None) -> Axes | list[Axes]:
    """The axes with a picture of something, which is also written to a file if there is a path.

    Parameters
    ----------
    what : object
        A circuit, a kernel circuit, a graph of units, a vtree, a graphical model (also of pgmpy or
        pyAgrum), a matrix (also a tensor), or a result that has a method `plot`.
    path : str or Path, optional
        Its suffix chooses the format, such as .svg or .png.

    Returns
    -------
    matplotlib axes, or a list of them

    Raises
    ------
    DataError
        If there is no picture of such things.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> ek.plotting.plot(ek.asia()).get_title(loc="left")
    'BayesianNetwork of 8 variables: 8 factors'
    """
    given: Any = to_cpu(converted(what))
    axes: Any
    if isinstance(given, Circuit | KernelCircuit | Unit):
        axes = plot_circuit(given)
    elif isinstance(given, Vtree):
        axes = plot_vtree(given)
    elif isinstance(given, FactorGraph):
        axes = plot_model(given)
    elif callable(getattr(given, "plot", None)) and not hasattr(given, "columns"):
        axes = given.plot()
    elif isinstance(given, np.ndarray) and given.ndim == 2:
        axes = plot_gram(given)
    else:
        raise DataError(
            "There are pictures of circuits, vtrees, graphical models, matrices, and results with "
            f"a method 'plot'. Got {type(what).__name__}."
        )
    if path is not None:
        save(axes[0] if isinstance(axes, list) else axes, path)
    return axes


def __dir__() -> list[str]:
    return __all__
