"""Kernels that know which values are missing: holes that mean something.

If being missing depends on the value, or on the target, the mask of a row is a feature of it:

    E[k(x, x')] exp(-rate |mask - mask'|)

with the number of variables that one of both rows lacks and the other shows. A product of positive
definite kernels is one. For rows of one mask it is the kernel without masks, with the coefficients
of an expansion scaled: everything that is exact stays so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from expectedkernels.estimators.expansion import Expansion, kernels_between
from expectedkernels.estimators.resources import Resources, chunks
from expectedkernels.estimators.rows import distinct

MULTIPLES = (0.0, 1.0, 4.0)
"""What "auto" chooses the rate from, in multiples of the rate of a standardised column."""
MARGIN = 0.05
"""By which share the loss must fall before the mask counts at all."""


def masks_of(variables: Sequence[Any], Z: Any) -> Any:
    """Which variables rows lack, (rows, variables): the bits of a category are one.

    Examples
    --------
    >>> from expectedkernels.estimators.variables import Variable
    >>> variables = [Variable(np.array([0])), Variable(np.array([1, 2]))]
    >>> masks_of(variables, np.array([[0.5, np.nan, np.nan]])).tolist()
    [[False, True]]
    """
    found = np.empty((len(Z), len(variables)), dtype=np.bool_)
    for i, variable in enumerate(variables):
        found[:, i] = np.isnan(Z[:, variable.columns]).any(axis=1)
    return found


@dataclass(frozen=True, eq=False)
class Masks:
    """What points lack, and how fast kernels fall with every variable that one of two rows lacks.

    Attributes
    ----------
    rate : float
    points : bool array of shape (points, variables)

    Examples
    --------
    >>> masks = Masks(1.0, np.array([[False, False], [True, True]]))
    >>> masks.factors(np.array([[False, True], [True, True]])).round(3).tolist()
    [[0.368, 0.368], [0.135, 1.0]]
    """

    rate: float
    points: Any

    def factors(self, own: Any) -> Any:
        """What kernels between rows with these masks and the points are multiplied with."""
        first, number = distinct(own)
        a, b = own[first].astype(np.float64), self.points.astype(np.float64)
        apart = a.sum(axis=1)[:, None] + b.sum(axis=1) - 2.0 * (a @ b.T)
        with np.errstate(over="ignore"):
            return np.exp(-self.rate * apart)[number]

    def values(self, f: Expansion, density: Any, Z: Any, own: Any, resources: Resources) -> Any:
        """The expectations of functions given rows with these masks, (rows, outputs)."""
        answer = np.empty((len(Z), f.coef.shape[1]))
        for at in chunks(np.arange(len(Z)), len(f.points), resources.chunk_bytes):
            kernels = kernels_between(density, f.rates, Z[at], f.points, resources)
            answer[at] = (kernels * self.factors(own[at])) @ f.coef + f.intercept
        return answer


def unit_rate(rates: Any, Z: Any, standardised: bool) -> float:
    """The mean rate of columns if they had variance one.

    Examples
    --------
    >>> unit_rate(0.25, np.array([[0.0], [4.0], [np.nan]]), False)
    1.0
    """
    if standardised:
        return float(np.mean(rates))
    seen = ~np.isnan(Z)
    count = np.maximum(seen.sum(axis=0), 1)
    centre = np.where(seen, Z, 0.0).sum(axis=0) / count
    return float(np.mean(rates * (np.where(seen, Z - centre, 0.0) ** 2).sum(axis=0) / count))


def chosen(losses: Sequence[float]) -> int:
    """The number of the smallest loss, 0 if it is not much smaller than the first.

    Examples
    --------
    >>> chosen([1.0, 0.97, 0.99]), chosen([1.0, 0.97, 0.9])
    (0, 2)
    """
    best = int(np.argmin(losses))
    return best if losses[best] < (1.0 - MARGIN) * losses[0] else 0
