"""The style of figures, and plots of values."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from expectedkernels.arrays import NumbersLike, on_host
from expectedkernels.checks import DataError
from expectedkernels.display import PALETTE, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes


try:
    import matplotlib.pyplot as plt
    from matplotlib.colors import to_rgb as to_rgb
    from matplotlib.ticker import MaxNLocator as MaxNLocator, PercentFormatter as PercentFormatter
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


def tidy(ax: Any, legend: bool = True, **labels: str) -> None:
    """Leave only what is read: two spines, a faint grid, labels, a legend without a frame."""
    ax.set(**labels)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(which="major", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    if legend:
        ax.legend(frameon=False)


def plot_gram(gram: NumbersLike, label: str = "kernel") -> Axes:
    """The axes with a matrix of kernels (or of discrepancies) as an image.

    Parameters
    ----------
    gram : array of shape (rows, columns)
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
    values = np.asarray(on_host(gram), dtype=np.float64)
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
    both = [np.asarray(on_host(x), dtype=np.float64).reshape(-1) for x in (at_p, at_q)]
    if not all(map(len, both)):
        raise DataError(f"Values at rows of both are drawn. Got {len(both[0])} and {len(both[1])}.")
    ax = new_axes()
    edges = np.histogram_bin_edges(np.concatenate(both), bins=30)
    for values, colour, label in zip(both, (EXACT, SAMPLED), ("first", "second"), strict=True):
        shares = np.full(len(values), 1.0 / len(values))
        ax.hist(values, bins=edges, weights=shares, color=colour, alpha=0.5, label=label)
        ax.axvline(values.mean(), color=colour, linestyle="--", linewidth=1)
    tidy(ax, xlabel="witness function", ylabel="share of rows")
    return ax
