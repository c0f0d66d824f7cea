"""Kernels for those who name none: by the kinds of the variables, and by how far points are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from expectedkernels.arrays import RowsLike
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.evidence import refuse_flat
from expectedkernels.circuits.frames import frame_columns, is_frame
from expectedkernels.circuits.numbers import as_floats
from expectedkernels.errors import DataError
from expectedkernels.kernels.kernel import Kernel
from expectedkernels.kernels.library import RBF, ExpHamming

MOST_POINTS = 1000
"""More points than this are thinned evenly before distances are taken."""


def median_gamma(X: RowsLike) -> float:
    r"""The rate of an `RBF` kernel by the median heuristic, :math:`\gamma = 1 / (2 m^2)`.

    Here m is the median of the (positive) Euclidean distances between rows. At the median distance
    the kernel is exp(-1/2).

    Parameters
    ----------
    X : array of shape (points, variables), or data frame of numbers
        Rows with missing values are left out. Of many rows, about 1000 are looked at.

    Returns
    -------
    float

    Raises
    ------
    DataError
        If there are no two different rows.

    Examples
    --------
    >>> median_gamma([[0.0], [1.0], [3.0]])
    0.125
    """
    from scipy.spatial.distance import pdist  # a fifth of the time to start up

    points = _numbers(X)
    points = points[~np.isnan(points).any(axis=1)]
    if len(points) > MOST_POINTS:
        points = points[np.linspace(0, len(points) - 1, MOST_POINTS).round().astype(np.intp)]
    distances = pdist(points) if len(points) > 1 else np.empty(0)
    distances = distances[distances > 0]
    if not len(distances):
        raise DataError(
            "The median heuristic needs at least two different rows without missing values. "
            f"Got {len(points)} rows{' that are all equal' if len(points) > 1 else ''}."
        )
    return float(0.5 / np.median(distances) ** 2)


def _numbers(X: Any) -> Any:
    if is_frame(X):
        columns = frame_columns(X)
        for column in columns:
            if column.kind != "number":
                raise DataError(
                    f"Distances are between numbers. The column {column.name!r} holds labels."
                )
        return np.stack([column.values for column in columns], axis=1)
    points = as_floats(X)
    refuse_flat(points, "Points")
    return points


def default_kernel(*distributions: Any, scale: float = 1.0) -> Kernel:
    """The kernel for variables of these circuits or points, if no other is given.

    Discrete variables: ``ExpHamming()``. Real ones: ``RBF`` with the rate of the median heuristic
    on the points (see `median_gamma`); if there are only circuits, the mean squared distance of
    two draws, which is known exactly, takes the place of the squared median. Both: the
    product, each over its own variables.

    Parameters
    ----------
    *distributions : Circuit or array of shape (points, variables)
    scale : float
        What the default rates are multiplied by.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> default_kernel(ek.factorized([[0.5, 0.5], [0.2, 0.8]]))
    ExpHamming(gamma=None)
    >>> default_kernel(np.array([[0.0], [1.5], [3.0]]))
    RBF(gamma=0.2222222222222222)
    """
    circuits = [x for x in distributions if isinstance(x, Circuit)]
    points = [as_floats(x) for x in distributions if not isinstance(x, Circuit)]
    if circuits:
        real = np.asarray([card is None for card in circuits[0].cardinalities])
    else:
        real = ~np.all([_holds_codes(x) for x in points], axis=0)
    if not real.any():
        return ExpHamming() if scale == 1.0 else ExpHamming(scale / len(real))
    rate = scale * _real_rate(circuits, points, np.flatnonzero(real))
    if real.all():
        return RBF(rate)
    share = scale / max(1, int((~real).sum()))
    return RBF(np.where(real, rate, 0.0)) * ExpHamming(np.where(real, 0.0, share))


def _holds_codes(points: Any) -> Any:
    """Which columns look like codes of states: natural numbers."""
    return ((points >= 0) & (points == np.floor(points))).all(axis=0)


def _real_rate(circuits: Sequence[Circuit], points: Sequence[Any], real: Any) -> float:
    """The rate for the real variables of circuits and points."""
    if points:
        together = np.concatenate([x[:, real] for x in points])
        return median_gamma(together)
    moments = [np.stack([circuit.marginals()[v] for v in real]) for circuit in circuits]
    first, second = moments[0], moments[-1]
    square = float(((first[:, 0] - second[:, 0]) ** 2 + first[:, 1] + second[:, 1]).sum())
    if not square > 0:
        raise DataError(
            "The default kernel needs real variables that vary. Give a kernel, such as RBF(1.0)."
        )
    return 0.5 / square
