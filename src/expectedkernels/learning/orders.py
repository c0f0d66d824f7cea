"""Keys of rows and columns by what they hold, whatever order a table lists them in.

Where something is drawn at random, or ties are broken, these keys decide: the same table has the
same answers, however its rows and columns are sorted, and whatever their units and zeros are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

ROUNDS = 3


def content_keys(Z: Any) -> tuple[Any, Any]:
    """A key for every row and for every column of a table: integers that look random.

    They depend on the ranks of entries in their columns only. Rows and columns that these do not
    tell apart have equal keys: equal ones, and those that a symmetry of the table exchanges.

    Parameters
    ----------
    Z : array of shape (rows, columns)
        NaN is missing.

    Examples
    --------
    >>> rows, columns = content_keys(np.array([[2.0, 10.0], [1.0, 30.0], [1.0, 20.0]]))
    >>> again, others = content_keys(np.array([[20.0, 1.0], [10.0, 2.0], [30.0, 1.0]]))
    >>> (rows == again[[1, 2, 0]]).all(), (columns == others[[1, 0]]).all()
    (np.True_, np.True_)
    """
    ranks = _ranks(Z)
    columns = np.zeros(Z.shape[1], dtype=np.uint64)
    for _ in range(ROUNDS):  # rows are told apart by columns, and these by rows
        rows = np.zeros(len(Z), dtype=np.uint64)
        for key, own in zip(columns, ranks, strict=True):
            rows += _mixed(key ^ _mixed(own))
        columns = np.array([_mixed(rows ^ _mixed(own)).sum() for own in ranks], dtype=np.uint64)
    return rows, columns


def own_order(Z: Any, *beside: Any) -> tuple[Any, Any]:
    """The numbers of the rows and of the columns of a table, in the order of their keys.

    Rows and columns of equal keys stay as they come.

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
    rows, columns = content_keys(Z)
    keys = [x for y in beside for x in y.reshape(len(Z), -1).T]
    return np.lexsort((*keys, rows)), np.argsort(columns, kind="stable")


def column_ranks(Z: Any, names: Sequence[Any] | None = None) -> Any:
    """The place of every column by its key, and by its name where keys are equal.

    Without names, columns of equal keys have equal ranks.

    Examples
    --------
    >>> Z = np.array([[0.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    >>> ranks = column_ranks(Z)
    >>> bool(ranks[0] == ranks[2] != ranks[1])
    True
    >>> sorted(column_ranks(Z, ["a", "b", "c"]).tolist())
    [0, 1, 2]
    """
    keys = content_keys(Z)[1]
    names = [0] * len(keys) if names is None else names
    pairs = list(zip(keys.tolist(), names, strict=True))
    place = {pair: i for i, pair in enumerate(sorted(set(pairs)))}
    return np.array([place[pair] for pair in pairs])


def chosen_rows(Z: Any, n: int, seed: int, *beside: Any) -> Any:
    """The numbers of about n rows, drawn by their keys: all of those that are alike, or none.

    Equal rows differ by how many of them come before, so that some of them may be drawn.

    Parameters
    ----------
    Z : array of shape (rows, columns)
    n : int
    seed : int
    *beside : arrays of shape (rows,) or (rows, targets)
        What else tells apart rows that are equal.
    """
    if len(Z) <= n:
        return np.arange(len(Z))
    keys = row_keys(Z, seed, *beside)
    return np.flatnonzero(keys <= np.partition(keys, n - 1)[n - 1])


def row_keys(Z: Any, seed: int, *beside: Any) -> Any:
    """Keys of rows that differ between equal rows too."""
    whole = np.column_stack([Z, *beside])
    entries = np.nan_to_num(whole, nan=np.inf)
    _, number = np.unique(entries, axis=0, return_inverse=True)
    order = np.argsort(number.reshape(-1), kind="stable")
    counts = np.bincount(number.reshape(-1))
    before = np.empty(len(Z), dtype=np.uint64)
    before[order] = np.arange(len(Z)) - np.repeat(np.cumsum(counts) - counts, counts)
    return _mixed(content_keys(whole)[0] ^ _mixed(before ^ np.uint64(seed)))


def normal_numbers(rows: Any, columns: Any, n: int) -> Any:
    """Numbers as if drawn from the normal distribution, (n, rows, columns), by keys."""
    draw = _mixed(np.arange(n, dtype=np.uint64))[:, None, None]
    keys = _mixed(rows[:, None] ^ _mixed(columns ^ draw))
    return ndtri(((keys >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)


def _mixed(x: Any) -> Any:
    """Numbers that look random, the same for the same ones (the last steps of SplitMix64)."""
    with np.errstate(over="ignore"):
        x = np.asarray(x, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def _ranks(Z: Any) -> list[Any]:
    """For every entry of each column the number of different smaller ones; 0 if it is missing."""
    found = []
    for x in Z.T:
        seen, ranks = ~np.isnan(x), np.zeros(len(x), dtype=np.uint32)
        ranks[seen] = np.unique(x[seen], return_inverse=True)[1].reshape(-1) + 1
        found.append(ranks)
    return found
