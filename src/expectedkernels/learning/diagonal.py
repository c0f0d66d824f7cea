"""Mixtures with independent columns, normal or discrete, learned from rows with holes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.cluster import KMeans

PRIOR_ROWS = 1.0
"""How many rows of the whole table are added to those of every component."""
RIDGE, LEAST = 1e-6, 1e-12
"""What is added to variances, those of columns that vary and of others."""


@dataclass(frozen=True, eq=False)
class DiagonalMixture:
    """A mixture of distributions with independent columns.

    Attributes
    ----------
    weights : array of shape (components,)
    means, variances : arrays of shape (components, numeric columns)
    tables : list of arrays of shape (components, states)
    """

    weights: Any
    means: Any
    variances: Any
    tables: list[Any]


def fit_diagonal(
    Z: Any,
    states: Any,
    cards: list[int],
    n_components: int,
    *,
    steps: int = 30,
    tolerance: float = 1e-3,
    rng: Any,
) -> DiagonalMixture:
    """The mixture of rows with holes, by exact EM.

    Parameters
    ----------
    Z : array of shape (rows, numeric columns)
        Standardised, NaN where missing.
    states : int array of shape (rows, discrete columns)
        -1 where missing.
    cards : list of int
        The numbers of states.
    n_components : int
    steps, tolerance
        At most so many steps; stop when one gains less than this in the mean log-likelihood.
    rng : Generator

    Examples
    --------
    >>> Z = np.array([[-1.0], [-1.1], [1.0], [np.nan]])
    >>> p = fit_diagonal(Z, np.array([[0], [0], [1], [1]]), [2], 2, rng=np.random.default_rng(0))
    >>> p.means.shape, p.tables[0].shape
    ((2, 1), (2, 2))
    """
    bits = [_bits(column, n) for column, n in zip(states.T, cards, strict=True)]
    shares = _started(Z, bits, n_components, rng)
    before = -np.inf
    for _ in range(steps):
        mixture = _maximised(Z, bits, shares)
        logs = component_logs(mixture, Z, bits)
        totals = logsumexp(logs, axis=1, keepdims=True)
        shares, total = np.exp(logs - totals), float(totals.mean())
        if total - before < tolerance:
            break
        before = total
    return mixture


def _bits(column: Any, n: int) -> Any:
    """The bits of states; all are zero where the state is missing."""
    return np.where(column[:, None] >= 0, np.eye(n)[np.maximum(column, 0)], 0.0)


def _started(Z: Any, bits: list[Any], n: int, rng: Any) -> Any:
    """Components of rows that are near each other."""
    seen = ~np.isnan(Z)
    whole = np.hstack([np.where(seen, Z, 0.0), *bits])
    n = max(1, min(n, len(np.unique(whole, axis=0))))
    seed = int(rng.integers(2**31 - 1))
    return np.eye(n)[KMeans(n, n_init=1, random_state=seed).fit_predict(whole)]


def _maximised(Z: Any, bits: list[Any], shares: Any) -> DiagonalMixture:
    seen = ~np.isnan(Z)
    x = np.where(seen, Z, 0.0)
    counts = shares.T @ seen.astype(np.float64)
    n = np.maximum(seen.sum(axis=0), 1)
    centre = x.sum(axis=0) / n
    spread = (np.where(seen, x - centre, 0.0) ** 2).sum(axis=0) / n
    # a component that sees nothing of a column has the mean of the whole
    means = (shares.T @ x + RIDGE * centre) / (counts + RIDGE)
    squares = shares.T @ x**2 - 2.0 * means * (shares.T @ x) + counts * means**2
    variances = (np.maximum(squares, 0.0) + PRIOR_ROWS * spread) / (counts + PRIOR_ROWS)
    variances = variances + np.where(spread > LEAST, RIDGE, LEAST)
    tables = []
    for bit in bits:
        overall = (bit.sum(axis=0) + 1.0) / (bit.sum() + bit.shape[1])
        found = shares.T @ bit + PRIOR_ROWS * overall
        tables.append(found / found.sum(axis=1, keepdims=True))
    weights = (shares.sum(axis=0) + RIDGE) / (len(Z) + RIDGE * shares.shape[1])
    return DiagonalMixture(weights, means, variances, tables)


def component_logs(mixture: DiagonalMixture, Z: Any, bits: list[Any]) -> Any:
    """The log of weight times density of what rows show, (rows, components)."""
    seen = ~np.isnan(Z)
    x, known = np.where(seen, Z, 0.0), seen.astype(np.float64)
    precision = 1.0 / mixture.variances
    logs = np.log(mixture.weights) - 0.5 * (
        x**2 @ precision.T
        - 2.0 * x @ (precision * mixture.means).T
        + known @ (precision * mixture.means**2 + np.log(2.0 * np.pi * mixture.variances)).T
    )
    for bit, table in zip(bits, mixture.tables, strict=True):
        logs = logs + bit @ np.log(table).T
    return logs
