"""The Gaussian kernel in plain numbers, on variables that have one or several columns each.

    k(x, y) = prod_c exp(-rate_c (x_c - y_c)^2)

What is known of a row splits it into the factor at observed columns and one at the others. The
first can be taken out of a sweep: there observed columns count as one, so that rows are the same
if they agree in what is said of the circuit, and points if they agree in the other columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from expectedkernels.circuits.sides import Atoms
from expectedkernels.kernels.blocks import Tables
from expectedkernels.kernels.reals import log_pairs
from expectedkernels.kernels.triples import triples
from expectedkernels.vtree import Vtree

NEGLIGIBLE = 1e-100
"""Factors of a kernel below this count as zero; all others are at most one."""
FAR = 1e5
"""Scaled squared distances from the middle above which dot products lose too many digits."""


def gaussian(vtree: Vtree, rates: Sequence[Any], components: Sequence[int] | None = None) -> Tables:
    """The kernel on a vtree, given the rates of the columns of every variable.

    With the numbers of components that the variables of the first axis have, its other atoms are
    observed values that are taken out: the kernel is one there, and where points are NaN.
    """
    made: dict[int, tuple[Any, Any]] = {}  # the same points meet one set of rows after the other

    def table(variable: int, atoms: tuple[Atoms, ...]) -> Any:
        if components is None:
            return on_atoms(rates[variable], *atoms)
        first, *others = atoms
        if np.isnan(others[0].mean[0]).any():
            return np.ones([x.n for x in atoms])
        known, values = made.get(variable, ((), None))
        if [*map(id, known)] != [*map(id, others)]:
            values = on_atoms(rates[variable], first.first(components[variable]), *others)
            made[variable] = others, values
        ones = np.ones((first.n - len(values), *values.shape[1:]))
        return np.concatenate([values, ones])

    return Tables(vtree, table)


def on_atoms(rates: Any, *atoms: Atoms) -> Any:
    """The numbers E k(x, y) for all pairs of atoms, or E k(x, y) k(x, z) for all triples.

    Parameters
    ----------
    rates : array of shape (columns,)
    *atoms : Atoms
        Of a real variable with as many columns.

    Examples
    --------
    >>> unit = Atoms(None, np.array([0.5]), np.zeros(1), np.array([0.5]))
    >>> zero = Atoms(None, np.zeros(1), np.zeros(1))
    >>> on_atoms([1.0], unit, zero).round(6).tolist()
    [[0.746824]]
    """
    columns = zip(rates, *(x.columns for x in atoms), strict=True)
    values: Any
    if len(atoms) == 2:
        values = np.exp(sum(log_pairs(float(rate), *of_column) for rate, *of_column in columns))
    else:
        values = 1.0
        for rate, *of_column in columns:
            values = values * triples(float(rate), *of_column)
    return np.where(values < NEGLIGIBLE, 0.0, values)


def at_known(rates: Any, X: Any, known: Any, points: Any) -> Any:
    """The kernel between rows and points at those columns of rows that are known, (rows, points).

    Examples
    --------
    >>> known = np.array([[True, False]])
    >>> at_known(np.ones(2), np.array([[1.0, np.nan]]), known, np.zeros((1, 2))).round(4).tolist()
    [[0.3679]]
    """
    if not len(points):
        return np.empty((len(known), 0))
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is found below
        centre = points.mean(axis=0)  # distances from dot products lose fewer digits around zero
        x = np.where(known, X - centre, 0.0)
        s = points - centre
        square, squares = (x**2) @ rates, s**2
        away = square[:, None] + (known * rates) @ squares.T - 2.0 * ((x * rates) @ s.T)
        far = ~(square <= FAR) | ~np.isfinite(squares.max())
        if far.any():
            away[far] = _distances(rates, X[far], known[far], points)
    return np.exp(-np.maximum(away, 0.0, out=away), out=away)


def _distances(rates: Any, X: Any, known: Any, points: Any) -> Any:
    """The squared distances at known columns, column by column: no digits are lost."""
    away = np.zeros((len(X), len(points)))
    for column, rate in enumerate(rates):
        part = rate * (X[:, column, None] - points[:, column]) ** 2
        away += np.where(known[:, column, None], part, 0.0)
    return away
