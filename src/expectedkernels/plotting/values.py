"""Values of kernels, and of witness functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expectedkernels.arrays import NumbersLike, on_host
from expectedkernels.errors import DataError
from expectedkernels.plotting.style import EXACT, SAMPLED, MaxNLocator, new_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    ax = new_axes(4.8, 4.0)
    return draw_gram(ax, values, label, "column", "row")


def draw_gram(ax: Any, values: Any, label: str, xlabel: str, ylabel: str, first: int = 0) -> Axes:
    """The axes with a matrix as an image; rows and columns are counted from `first` on."""
    rows, columns = values.shape
    start = first - 0.5
    ends = (start, start + columns, start + rows, start)
    aspect = "equal" if rows == columns else "auto"
    image = ax.imshow(values, cmap="cividis", extent=ends, aspect=aspect)
    ax.figure.colorbar(image, label=label)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
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
    ax.set_xlabel("witness function")
    ax.set_ylabel("share of rows")
    tidy(ax)
    return ax
