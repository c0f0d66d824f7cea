"""Shapley values as if columns were independent: in polynomial time.

Under a product of distributions the worth of a coalition S is a sum of products,

    v(S) = sum_i a_i prod_{l in S} u_il prod_{l not in S} e_il + b

with the kernels u of what a row shows and e of what is expected, and the mean over all orders is
an integral of a polynomial in t, of which Gauss and Legendre know the exact value:

    phi_j = sum_i a_i (u_ij - e_ij) integral_0^1 prod_{l != j} ((1 - t) e_il + t u_il) dt
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from expectedkernels.errors import DataError
from expectedkernels.estimators.circuits import AnyDensity
from expectedkernels.estimators.coalitions import Shares
from expectedkernels.estimators.expansion import Expansion
from expectedkernels.estimators.resources import Resources, chunks
from expectedkernels.estimators.rows import distinct
from expectedkernels.estimators.variables import Variable


def independent_shares(
    expansion: Expansion, density: AnyDensity, Z: Any, players: Sequence[Any], resources: Resources
) -> Shares:
    """The values of rows, for players that are columns of numbers.

    Columns of no player count as known from the start. Every variable has its distribution under
    the density, and they are independent, also those of one player.
    """
    if expansion.is_embedded:
        raise DataError(
            "method='independent' needs a model that was fitted to complete rows: a training row "
            "with missing values is no product of kernels of columns. Fit with "
            "fit_missing='drop', or use method='exact' or 'permutations'."
        )
    owner = _owners(density.variables, players)
    alone = [density.alone(i) for i in range(len(owner))]
    m, n = len(players), len(expansion.points)
    parts = []
    for index in chunks(np.arange(len(Z)), (m + 1) * n, resources.chunk_bytes):
        shown, hidden = np.ones((len(index), m + 1, n)), np.ones((len(index), m + 1, n))
        for single, variable, player in zip(alone, density.variables, owner, strict=True):
            u, e = _kernels(expansion, single, variable.columns, Z[index], resources)
            shown[:, player] *= u
            hidden[:, player] *= u if player == m else e
        parts.append(_shares(expansion, shown, hidden))
    return Shares(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _shares(expansion: Expansion, shown: Any, hidden: Any) -> tuple[Any, Any, Any]:
    """The values of rows, and the worth of nobody and of all."""
    coef, intercept = expansion.coef, expansion.intercept
    values = np.stack([_one_row(u, e, coef) for u, e in zip(shown, hidden, strict=True)])
    base, total = (k.prod(axis=1) @ coef + intercept for k in (hidden, shown))
    return values, base, total


def _one_row(u: Any, e: Any, coef: Any) -> Any:
    """The values of all players but the last, (players, outputs); u and e of (players, points)."""
    m = len(u) - 1
    values = np.zeros((m, coef.shape[1]))
    if not m:
        return values
    nodes, weights = np.polynomial.legendre.leggauss((m + 1) // 2)
    for t, weight in zip(0.5 * (nodes + 1.0), 0.5 * weights, strict=True):
        factors = (1.0 - t) * e + t * u
        before = np.ones_like(factors)
        np.cumprod(factors[:-1], axis=0, out=before[1:])
        after = np.ones_like(factors)
        after[:-1] = np.cumprod(factors[:0:-1], axis=0)[::-1]
        values += weight * (((u - e) * before * after)[:m] @ coef)
    return values


def _owners(variables: Sequence[Variable], players: Sequence[Any]) -> list[int]:
    """The player of every variable; the number of players for those of none."""
    owners = []
    for variable in variables:
        found = {i for i, columns in enumerate(players) if np.isin(variable.columns, columns).any()}
        whole = len(found) == 1 and np.isin(variable.columns, players[min(found)]).all()
        if found and not whole:
            raise DataError(
                "The 'players' parameter must leave categorical variables whole for "
                f"method='independent'. Got the bits {variable.columns.tolist()} of one variable "
                "with several players, or partly with none."
            )
        owners.append(min(found, default=len(players)))
    return owners


def _kernels(
    expansion: Expansion, density: AnyDensity, at: Any, Z: Any, resources: Resources
) -> tuple[Any, Any]:
    """The kernels between rows and points in some columns, and what is expected of them."""
    points = expansion.points[:, at]
    first, number = distinct(points)
    rows = np.concatenate([Z[:, at], np.full((1, len(at)), np.nan)])
    kernels = density.gram(expansion.rates[at], rows, points[first], resources)
    return kernels[:-1, number], kernels[-1:, number]
