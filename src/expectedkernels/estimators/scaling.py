"""Numeric columns and targets at a common scale, for the kernels of estimators.

A Gaussian kernel of standardised columns is one of the columns as they are, with a rate for each:

    exp(-gamma sum_c ((x_c - x'_c) / scale_c)^2)

so the density, its bins and its support never need to know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from expectedkernels.errors import DataError
from expectedkernels.estimators.columns import LARGEST_POWER, Columns
from expectedkernels.estimators.expansion import Expansion
from expectedkernels.estimators.machines import Machine

SMALLEST, LARGEST = 1e-140, 1e140
"""Deviations beyond these have squares that numbers do not hold."""
FAR = 1e3
"""So many deviations from zero, distances from dot products lose half of their digits."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """What columns (or targets) are reduced by, and divided by.

    Attributes
    ----------
    centre, scale : arrays of shape (columns,)

    Examples
    --------
    >>> scaling = Scaling(np.array([1.0]), np.array([2.0]))
    >>> scaling.apply(np.array([[5.0]])).tolist(), scaling.undo(np.array([[2.0]])).tolist()
    ([[2.0]], [[5.0]])
    """

    centre: Any
    scale: Any

    def apply(self, x: Any) -> Any:
        """The standardised columns."""
        return (x - self.centre) / self.scale

    def undo(self, x: Any) -> Any:
        """The columns at their own scale."""
        return x * self.scale + self.centre

    def rates(self, gamma: Any) -> Any:
        """The rates of the kernel for columns at their own scale, of one for standardised ones."""
        return gamma / self.scale**2


def learn_scaling(Z: Any, names: Sequence[Any], chosen: Any, sample_weight: Any = None) -> Scaling:
    """The means and deviations of chosen columns, as by scikit-learn's StandardScaler.

    Parameters
    ----------
    Z : array of shape (rows, columns)
        NaN is missing, and does not count.
    names : sequence
        What columns are called in messages.
    chosen : bool array of shape (columns,)
        Others stay as they are.
    sample_weight : array of shape (rows,), optional
    """
    centre, scale = np.zeros(Z.shape[1]), np.ones(Z.shape[1])
    chosen = np.flatnonzero(chosen & ~np.isnan(Z).all(axis=0))
    if len(chosen):
        # a variance that is no number would pass for that of a constant
        power = np.frexp(np.nanmax(np.abs(Z[:, chosen]), axis=0))[1]
        power = np.where(np.abs(power) > LARGEST_POWER, power, 0)
        scaler = StandardScaler().fit(np.ldexp(Z[:, chosen], -power), sample_weight=sample_weight)
        varies = scaler.scale_ != 1.0
        centre[chosen] = np.ldexp(scaler.mean_, power)
        scale[chosen] = np.ldexp(scaler.scale_, np.where(varies, power, 0))
    bad = ~np.isfinite(centre) | ~((scale >= SMALLEST) & (scale <= LARGEST))
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"Column {names[i]!r} holds values that cannot be standardised: their standard "
            f"deviation is {scale[i]:g}. Rescale the column."
        )
    return Scaling(centre, scale)


def centre_far(Z: Any) -> Scaling | None:
    """What brings columns that lie far from zero there, None if there are none.

    Kernels do not change, but squared distances of scikit-learn's have no digits left there. They
    are reduced by one of their values, so that differences are exact.

    Examples
    --------
    >>> scaling = centre_far(np.array([[1e9, 1.0], [1e9 + 1.0, 2.0]]))
    >>> scaling.centre.tolist(), scaling.scale.tolist()
    ([1000000000.0, 0.0], [1.0, 1.0])
    """
    centre = np.zeros(Z.shape[1])
    for i, x in enumerate(Z.T):
        middle = np.partition(x, (len(x) - 1) // 2)[(len(x) - 1) // 2]
        with np.errstate(over="ignore"):  # deviations that are no numbers are large
            spread = (x - middle).std()
        centre[i] = middle if 0.0 < FAR * spread < abs(middle) else 0.0
    return Scaling(centre, np.ones_like(centre)) if centre.any() else None


def numeric_columns(columns: Columns) -> tuple[list[Any], Any]:
    """The names of all columns of numbers, and which of them hold quantities, not categories."""
    grouped = {i for group in columns.groups for i in group}
    names: list[Any] = []
    numeric: list[bool] = []
    for i, place in enumerate(columns.places):
        names += [columns.names[i]] * len(place)
        numeric += [i not in columns.categories and i not in grouped] * len(place)
    return names, np.array(numeric)


def rescaled(machine: Machine, columns: Scaling | None, target: Scaling | None) -> Machine:
    """A machine of standardised columns and targets as one of columns and targets as they are."""
    expansion, predict, spread = machine.expansion, machine.predict, machine.spread
    if columns is not None:
        expansion = replace(
            expansion, rates=columns.rates(expansion.rates), points=columns.undo(expansion.points)
        )
        predict, spread = (f and partial(_of_columns, f, columns) for f in (predict, spread))
    if target is not None:
        expansion = of_target(expansion, target)
        predict = predict and partial(_of_target, predict, target)
    return replace(machine, expansion=expansion, predict=predict, spread=spread)


def of_target(expansion: Expansion, target: Scaling) -> Expansion:
    """An expansion of the standardised target as one of the target as it is."""
    return replace(
        expansion, coef=expansion.coef * target.scale, intercept=target.undo(expansion.intercept)
    )


def _of_columns(f: Callable[[Any], Any], columns: Scaling, Z: Any) -> Any:
    return f(columns.apply(Z))


def _of_target(f: Callable[[Any], Any], target: Scaling, Z: Any) -> Any:
    answers = f(Z)
    return target.undo(answers[:, None])[:, 0] if answers.ndim == 1 else target.undo(answers)
