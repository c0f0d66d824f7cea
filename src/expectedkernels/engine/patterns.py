"""Batches by unique pattern: a vtree node only sees a row restricted to its own variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from expectedkernels.vtree import Vtree

IntArray = np.ndarray[Any, np.dtype[np.intp]]


@dataclass(frozen=True, eq=False)
class Patterns:
    """The distinct restrictions of a batch of rows to the variables of every vtree node.

    Attributes
    ----------
    count : list of int
        The number of distinct restricted rows at every node.
    left, right : lists of int arrays, or None
        For every pattern of an inner node the pattern of its left and right child; None means
        pattern i has pattern i below it (and all are used).
    rows : int array, or None
        The pattern of every row at the root; None: row i has pattern i.
    """

    count: list[int]
    left: list[IntArray | None]
    right: list[IntArray | None]
    rows: IntArray | None

    @cached_property
    def is_uniform(self) -> bool:
        """Whether every node has one pattern per row, in the order of the rows."""
        return self.rows is None and all(x is None for x in self.left + self.right)

    def first_rows(self, vtree: Vtree) -> IntArray:
        """For every node and row the first row that has the same pattern there."""
        n_rows = self.count[-1] if self.rows is None else len(self.rows)
        every = np.arange(n_rows)
        code = np.tile(every, (vtree.n_nodes, 1))
        if self.rows is not None:
            code[-1] = self.rows
        for node in range(vtree.n_nodes - 1, -1, -1):
            for child, below in ((vtree.left, self.left), (vtree.right, self.right)):
                if child[node] >= 0:
                    index = below[node]
                    code[child[node]] = code[node] if index is None else index[code[node]]
            first = np.empty(self.count[node], dtype=np.intp)
            first[code[node, ::-1]] = every[::-1]  # the last one that is written stays
            code[node] = first[code[node]]
        return code


def uniform(vtree: Vtree, n_rows: int) -> Patterns:
    """One pattern per row everywhere: nothing to look up, good for few rows."""
    nothing: list[IntArray | None] = [None] * vtree.n_nodes
    return Patterns([n_rows] * vtree.n_nodes, nothing, nothing, None)


def patterns(vtree: Vtree, codes: Sequence[IntArray], counts: Sequence[int]) -> Patterns:
    """The patterns of rows given, for every variable, the code of each row and the number of codes.

    Cost: a sort of the rows per inner node, or less.
    """
    n_nodes, n_rows = vtree.n_nodes, len(codes[0])
    count = [0] * n_nodes
    left: list[IntArray | None] = [None] * n_nodes
    right: list[IntArray | None] = [None] * n_nodes
    code: list[IntArray | None] = [None] * n_nodes  # None once every row has its own pattern
    for node in range(n_nodes):
        a, b = int(vtree.left[node]), int(vtree.right[node])
        if a < 0:
            variable = int(vtree.variable[node])
            count[node], code[node] = int(counts[variable]), codes[variable]
            continue
        if code[a] is None or code[b] is None:
            count[node] = n_rows
            left[node], right[node] = code[a], code[b]
        else:
            count[node], left[node], right[node], code[node] = _join(
                code[a], code[b], count[a], count[b], n_rows
            )
        code[a] = code[b] = None
        left[node] = _unless_identity(left[node], count[a])
        right[node] = _unless_identity(right[node], count[b])
    return Patterns(count, left, right, code[vtree.root])


def _join(
    left: Any, right: Any, n_left: int, n_right: int, n_rows: int
) -> tuple[int, IntArray | None, IntArray | None, IntArray | None]:
    """The distinct pairs of codes, and the code of every row among them."""
    key = left * n_right + right
    if n_left * n_right <= 4 * n_rows:  # a table of flags beats a sort
        seen = np.zeros(n_left * n_right, dtype=np.bool_)
        seen[key] = True
        distinct = np.flatnonzero(seen)
        number = np.empty(n_left * n_right, dtype=np.intp)
        number[distinct] = np.arange(len(distinct))
        inverse = number[key]
    else:
        distinct, inverse = np.unique(key, return_inverse=True)
    if len(distinct) == n_rows:
        return n_rows, left, right, None
    return len(distinct), distinct // n_right, distinct % n_right, inverse


def _unless_identity(index: IntArray | None, n: int) -> IntArray | None:
    if index is None or (len(index) == n and np.array_equal(index, np.arange(n))):
        return None
    return index
