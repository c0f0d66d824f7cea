"""Kernels for those who name none: by the kinds of the variables, and by how far points are."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from expectedkernels.arrays import RowsLike
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.evidence import refuse_flat
from expectedkernels.circuits.frames import column_numbers, frame_columns, is_frame
from expectedkernels.circuits.numbers import as_floats
from expectedkernels.errors import DataError
from expectedkernels.kernels.empirical import Empirical
from expectedkernels.kernels.kernel import Kernel
from expectedkernels.kernels.library import RBF, ExpHamming

MOST_POINTS = 1000
"""More points than this are thinned evenly before distances are taken."""
MOST_STATES = 20
"""A column of an array with more distinct whole numbers holds numbers, and no states."""


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
    return _rate(_median_distance(X))


def _median_distance(X: RowsLike) -> float:
    """The median of the positive distances between rows, of about 1000 rows at most."""
    from scipy.spatial.distance import pdist  # a fifth of the time to start up

    points = _numbers(X)
    points = points[~np.isnan(points).any(axis=1)]
    if np.isinf(points).any():
        column = int(np.argwhere(np.isinf(points))[0, 1])
        raise DataError(
            f"Distances are between finite numbers. Got infinite ones in column {column}; put NaN "
            "for what is not known, or leave such rows out."
        )
    if len(points) > MOST_POINTS:
        points = points[np.linspace(0, len(points) - 1, MOST_POINTS).round().astype(np.intp)]
    # squares of numbers between 1/2 and 1 are in range, and powers of two change no digit
    power = int(np.frexp(np.abs(points).max(initial=0.0))[1])
    distances = pdist(np.ldexp(points, -power)) if len(points) > 1 else np.empty(0)
    distances = distances[distances > 0]
    if not len(distances):
        raise DataError(
            "The median heuristic needs at least two different rows without missing values. "
            f"Got {len(points)} rows{' that are all equal' if len(points) > 1 else ''}."
        )
    return float(np.ldexp(np.median(distances), power))


def _rate(distance: float) -> float:
    """The rate of an `RBF` kernel that is exp(-1/2) at a distance."""
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        rate = float(np.float64(0.5) / np.float64(distance) ** 2)
    if not 0 < rate < np.inf:
        raise DataError(
            f"Values are about {distance:.3g} apart, and the square of that is out of the range of "
            "floating-point numbers. Rescale the columns, for instance by their standard "
            "deviation, in the same way in all that is compared."
        )
    return rate


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


def default_kernel(
    *distributions: Any, scale: float = 1.0, categorical_features: Any = None
) -> Kernel:
    """The kernel for variables of these circuits or points, if no other is given.

    Categorical variables (see `categorical_variables`): ``ExpHamming()``. Numbers: ``RBF`` with
    the rate of the median heuristic on the points (see `median_gamma`), several columns in units
    of their standard deviations; if there are only circuits, the mean squared distance of two
    draws, which is known exactly, takes the place of the squared median. Both: the product, each
    over its own variables.

    Parameters
    ----------
    *distributions : Circuit, Empirical, or array of shape (points, variables)
    scale : float
        What the default rates are multiplied by.
    categorical_features
        As for `categorical_variables`.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> default_kernel(ek.factorized([[0.5, 0.5], [0.2, 0.8]]))
    ExpHamming(gamma=None)
    >>> default_kernel(np.array([[0.0], [1.5], [3.0]]))
    RBF(gamma=0.2222222222222222)
    """
    circuits, points = _circuits_and_points(distributions)
    real = ~categorical_variables(*distributions, categorical_features=categorical_features)
    if not real.any():
        return ExpHamming() if scale == 1.0 else ExpHamming(scale / len(real))
    rates = np.zeros(len(real))
    rates[real] = scale * _real_rates(circuits, points, np.flatnonzero(real))
    if real.all():
        return RBF(float(rates[0]) if len(rates) == 1 else rates)
    share = scale / max(1, int((~real).sum()))
    return RBF(rates) * ExpHamming(np.where(real, 0.0, share))


def categorical_variables(*distributions: Any, categorical_features: Any = None) -> Any:
    """Which variables of circuits or points are categorical, a bool each; others are numbers.

    Circuits say it themselves. In data frames the type of a column decides: text, categories and
    bools are categorical, numbers are not. In arrays, columns of whole numbers are categorical if
    these are few: at most 20 distinct ones, of which every one is there twice on average.

    Parameters
    ----------
    *distributions : Circuit, Empirical, or array of shape (points, variables)
    categorical_features : names, numbers or mask of columns, optional
        Those that are categorical, whatever they hold.

    Examples
    --------
    >>> categorical_variables(np.array([[0, 20_000, 0.5], [1, 40_000, 0.5]] * 2 + [[1, 7, 2]]))
    array([ True, False, False])
    """
    circuits, points = _circuits_and_points(distributions)
    schemas = [x.schema for x in distributions if getattr(x, "schema", None) is not None]
    n = schemas[0].n_variables if schemas else points[0].shape[1]
    found = np.zeros(n, dtype=np.bool_)
    if schemas:
        found[:] = [card is not None for card in schemas[0].cardinalities]
    if categorical_features is None:
        return found if schemas else _hold_few_whole_numbers(np.concatenate(points))
    if circuits:
        raise DataError(
            "The 'categorical_features' parameter is for tables, and a circuit says itself which "
            "of its variables are discrete. Leave it out."
        )
    names = schemas[0].names if schemas else None
    chosen = column_numbers(categorical_features, names, n, "categorical_features")
    other = np.setdiff1d(np.flatnonzero(found), chosen)
    if len(other):
        raise DataError(
            f"The column {schemas[0].name(int(other[0]))!r} holds labels, and so is categorical. "
            "Name it in categorical_features, or turn it into numbers."
        )
    found[chosen] = True
    return found


def refuse_features(categorical_features: Any) -> None:
    """Raise if categorical columns are named beside a kernel, which they could not change."""
    if categorical_features is not None:
        raise DataError(
            "The 'categorical_features' parameter is for the default kernel, and a kernel is "
            "given. Leave one of them out."
        )


def _circuits_and_points(distributions: Sequence[Any]) -> tuple[list[Circuit], list[Any]]:
    circuits = [x for x in distributions if isinstance(x, Circuit)]
    others = [x for x in distributions if not isinstance(x, Circuit)]
    return circuits, [x.X if isinstance(x, Empirical) else as_floats(x) for x in others]


def _hold_few_whole_numbers(points: Any) -> Any:
    """Which columns look like codes of states: few distinct whole numbers."""
    found = np.zeros(points.shape[1], dtype=np.bool_)
    for column, values in enumerate(points.T):
        values = values[~np.isnan(values)]
        if (np.isfinite(values) & (values == np.floor(values))).all():
            found[column] = len(np.unique(values)) <= min(MOST_STATES, max(2, len(values) / 2))
    return found


def _real_rates(circuits: Sequence[Circuit], points: Sequence[Any], real: Any) -> Any:
    """The rates for the real variables of circuits and points, each in units of its own."""
    if points:
        together = np.concatenate([x[:, real] for x in points])
        together = together[np.isfinite(together).all(axis=1)]  # kernels refuse the other rows
        if (together == together[:1]).all():  # then all rates are the same
            return np.ones(len(real))
        units = np.ones(1) if len(real) == 1 else _spreads(together)
        distance = _median_distance(together / units)
    else:
        moments = [np.stack([circuit.marginals()[v] for v in real]) for circuit in circuits]
        apart = moments[0][:, 0] - moments[-1][:, 0]
        spreads = np.sqrt([moments[0][:, 1], moments[-1][:, 1]])
        units = np.hypot(apart, np.hypot(*spreads))
        distance = sqrt(np.count_nonzero(units))
        if not distance:
            raise DataError(
                "The default kernel needs real variables that vary. Give a kernel, such as "
                "RBF(1.0)."
            )
        units[units == 0.0] = 1.0
    return np.array([_rate(distance * float(unit)) for unit in units])


def _spreads(points: Any) -> Any:
    """The standard deviations of columns, one where all entries are equal."""
    away = points - points[:1]
    top = np.abs(away).max(axis=0)
    top[top == 0.0] = 1.0
    spreads = (away / top).std(axis=0) * top  # squares of what is at most one are in range
    return np.where(spreads > 0, spreads, 1.0)
