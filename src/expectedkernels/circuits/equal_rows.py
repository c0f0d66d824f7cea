"""Which rows of numbers are equal, to the last bit, and which pairs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

FEW = 64
"""So many rows are compared one by one: faster than to set up anything else."""
MIX = [np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)]
"""Odd numbers that spread the bits of what they are multiplied with."""

FLAGS = 8
"""Pairs are told apart by flags for all that are possible if these are at most so many per pair."""


def distinct_pairs(first: Any, second: Any, shape: tuple[int, int]) -> tuple[tuple[Any, Any], Any]:
    """The distinct pairs of numbers in ascending order, and the place of every pair among them.

    The numbers are below those of the shape.

    Examples
    --------
    >>> (a, b), place = distinct_pairs(np.array([1, 0, 1]), np.array([0, 2, 0]), (2, 3))
    >>> a.tolist(), b.tolist(), place.tolist()
    ([0, 1], [2, 0], [1, 0, 1])
    """
    keys = first.astype(np.int64) * shape[1] + second
    n_keys = shape[0] * shape[1]
    if n_keys > FLAGS * len(keys) + 1024:
        distinct, place = np.unique(keys, return_inverse=True)
    else:
        seen = np.zeros(n_keys, dtype=np.bool_)
        seen[keys] = True
        distinct, place = np.flatnonzero(seen), (np.cumsum(seen) - 1)[keys]
    return np.divmod(distinct, max(1, shape[1])), place.reshape(-1)


def distinct_rows(starts: Any, columns: Any, numbers: Any) -> tuple[Any, Any]:
    """The first of equal rows, ascending, and for every row its place among these (empty: -1).

    Parameters
    ----------
    starts : int array of shape (rows + 1,)
        Where the entries of every row begin.
    columns, numbers : arrays of shape (entries,)
        Entries that are not zero; columns ascend within a row.

    Notes
    -----
    Rows with different hashes are different; those with equal hashes are compared entry by entry.

    Examples
    --------
    >>> starts, columns = np.array([0, 1, 1, 2, 4]), np.array([3, 3, 0, 3])
    >>> kept, place = distinct_rows(starts, columns, np.array([0.5, 0.5, 0.5, 0.5]))
    >>> kept.tolist(), place.tolist()
    ([0, 3], [0, -1, 0, 1])
    """
    sizes = np.diff(starts)
    filled = np.flatnonzero(sizes)
    if len(filled) <= FEW:
        return _one_by_one(starts, columns, numbers)
    hashes = _hashes(columns, numbers, starts[filled])
    order = np.argsort(hashes, kind="stable")
    fresh = np.ones(len(order), dtype=np.bool_)
    fresh[1:] = hashes[order[1:]] != hashes[order[:-1]]
    place = np.full(len(sizes), -1, dtype=np.intp)
    if fresh.all():
        place[filled] = np.arange(len(filled))
        return filled, place
    twin = np.empty_like(filled)  # the first row with the same hash
    twin[order] = filled[order[np.flatnonzero(fresh)]][np.cumsum(fresh) - 1]
    again = filled != twin
    if not _same(starts, columns, numbers, filled[again], twin[again]):
        return _one_by_one(starts, columns, numbers)
    kept = filled[~again]
    place[kept] = np.arange(len(kept))
    place[filled] = place[twin]
    return kept, place


def distinct_dense_rows(rows: Any) -> tuple[Any, Any]:
    """What `distinct_rows` gives, for the rows of a matrix."""
    used = rows != 0
    starts = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
    return distinct_rows(starts, np.nonzero(used)[1], rows[used])


def _hashes(columns: Any, numbers: Any, starts: Any) -> Any:
    """A number per row that is the same for equal rows: the sum of its mixed entries."""
    mixed = numbers.view(np.uint64) ^ (columns.astype(np.uint64) * MIX[0])
    for shift, factor in ((31, MIX[1]), (29, MIX[2])):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= factor
    return np.add.reduceat(mixed, starts)


def _same(starts: Any, columns: Any, numbers: Any, rows: Any, twins: Any) -> bool:
    """Whether all rows are equal to their twins."""
    sizes = starts[rows + 1] - starts[rows]
    if not np.array_equal(sizes, starts[twins + 1] - starts[twins]):
        return False
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    a, b = within + np.repeat(starts[rows], sizes), within + np.repeat(starts[twins], sizes)
    return bool((columns[a] == columns[b]).all() and (numbers[a] == numbers[b]).all())


def _one_by_one(starts: Any, columns: Any, numbers: Any) -> tuple[Any, Any]:
    """What `distinct_rows` gives, by looking up every row among those before it."""
    ends = starts.tolist()
    place: list[int] = []
    first: dict[Any, int] = {}
    kept: list[int] = []
    for row, (a, b) in enumerate(pairwise(ends)):
        found = -1
        if a < b:
            found = first.setdefault((columns[a:b].tobytes(), numbers[a:b].tobytes()), len(kept))
            if found == len(kept):
                kept.append(row)
        place.append(found)
    return np.asarray(kept, dtype=np.intp), np.asarray(place, dtype=np.intp)
