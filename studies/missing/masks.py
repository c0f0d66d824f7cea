"""What goes missing: completely at random, at random, and not at random."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from studies.missing.tables import Table

STEEPNESS = 2.0
"""How fast the chance of a hole changes with the value that it depends on."""
LOWEST_RATE, HIGHEST_RATE = 0.1, 0.8
"""The rates at which rows of masked copies lose values: nobody knows those of the test rows."""


def draw_mask(rng: np.random.Generator, table: Table, mechanism: str, rate: float) -> Any:
    """Which values of a table are missing, (rows, variables).

    Parameters
    ----------
    rng : Generator
    table : Table
    mechanism : {"MCAR", "MAR", "MNAR"}
        Every value with the same chance; with a chance that depends on a third of the variables,
        which are never missing; or with a chance that depends on the value itself.
    rate : float
        The mean chance of those that may be missing.

    Examples
    --------
    >>> from studies.missing.tables import load_table
    >>> mask = draw_mask(np.random.default_rng(0), load_table("iris"), "MAR", 0.5)
    >>> mask.mean(axis=0).round(1).tolist()
    [0.4, 0.5, 0.5, 0.0]
    """
    n, m = len(table.X), len(table.variables)
    if mechanism == "MCAR":
        return rng.random((n, m)) < rate
    scores = _scores(rng, table)
    hidden = np.ones(m, dtype=bool)
    if mechanism == "MAR":
        seen = rng.choice(m, max(1, round(m / 3)), replace=False)
        hidden[seen] = False
        scores = _standardised(scores[:, seen] @ rng.normal(size=(len(seen), m)))
    else:
        scores = scores * rng.choice([-1.0, 1.0], m)
    chance = np.stack([_chances(column, rate) for column in scores.T], axis=1)
    return (rng.random((n, m)) < chance) & hidden


def _scores(rng: np.random.Generator, table: Table) -> Any:
    """A number for every value: itself, or one that its category has drawn, (rows, variables)."""
    columns = [
        table.X[:, c[0]] if len(c) == 1 else table.X[:, list(c)] @ rng.normal(size=len(c))
        for c in table.variables
    ]
    return _standardised(np.stack(columns, axis=1))


def _standardised(x: Any) -> Any:
    deviation = x.std(axis=0)
    return (x - x.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


def _chances(score: Any, rate: float) -> Any:
    """Chances that grow with the score and have this mean."""
    steep = STEEPNESS * score
    most = 40.0 + np.abs(steep).max()
    return expit(steep + brentq(lambda a: expit(steep + a).mean() - rate, -most, most))


def draw_copy(rng: np.random.Generator, X: Any, owner: Any) -> Any:
    """The rows with more missing values, each row at a rate of its own.

    Examples
    --------
    >>> draw_copy(np.random.default_rng(4), np.ones((1, 3)), np.array([0, 0, 1])).tolist()
    [[nan, nan, 1.0]]
    """
    rate = rng.uniform(LOWEST_RATE, HIGHEST_RATE, (len(X), 1))
    return hide(X, rng.random((len(X), owner.max() + 1)) < rate, owner)


def hide(X: Any, mask: Any, owner: Any) -> Any:
    """The rows with NaN in all columns of the variables that are missing."""
    return np.where(mask[:, owner], np.nan, X)
