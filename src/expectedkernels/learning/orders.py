"""Orders of rows and columns that do not depend on how a table lists them.

Where something is drawn at random, it is drawn in these orders: the same table has the same
answers, however its rows and columns are sorted, and whatever their units and zeros are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ROUNDS = 3


def own_order(Z: Any, *beside: Any) -> tuple[Any, Any]:
    """The numbers of the rows and of the columns of a table, in an order of their own.

    Rows and columns that ranks do not tell apart stay as they come: equal ones, and some of tables
    of very few rows.

    Parameters
    ----------
    Z : array of shape (rows, columns)
        NaN is missing.
    *beside : arrays of shape (rows,) or (rows, targets)
        What else tells apart rows that are equal.

    Examples
    --------
    >>> Z = np.array([[2.0, 10.0], [1.0, 30.0], [1.0, 20.0]])
    >>> rows, columns = own_order(Z)
    >>> again, other = own_order(Z[::-1, ::-1])
    >>> (Z[rows][:, columns] == Z[::-1, ::-1][again][:, other]).all()
    np.True_
    """
    ranks = _ranks(Z)
    columns = np.zeros((1, Z.shape[1]), dtype=np.uint64)
    for _ in range(ROUNDS):  # rows are told apart by columns, and these by rows
        rows = _mixed(columns ^ _mixed(ranks)).sum(axis=1, keepdims=True)
        columns = _mixed(rows ^ _mixed(ranks)).sum(axis=0, keepdims=True)
    keys = [x for y in beside for x in y.reshape(len(Z), -1).T]
    return np.lexsort((*keys, rows[:, 0])), np.argsort(columns[0], kind="stable")


def _mixed(x: Any) -> Any:
    """Numbers that look random, the same for the same ones (the last steps of SplitMix64)."""
    with np.errstate(over="ignore"):
        x = np.asarray(x, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def _ranks(Z: Any) -> Any:
    """For every entry the number of different smaller ones in its column; 0 if it is missing."""
    ranks = np.zeros(Z.shape, dtype=np.uint64)
    for i, x in enumerate(Z.T):
        seen = ~np.isnan(x)
        ranks[seen, i] = np.unique(x[seen], return_inverse=True)[1].reshape(-1) + 1
    return ranks
