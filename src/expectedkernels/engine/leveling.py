"""From blocks of units to levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.engine.levels import (
    DENSE,
    PASSED,
    SPARSE,
    Edges,
    IntArray,
    Level,
    Levels,
    Stack,
    entries_of,
    joined,
    kind_of,
)
from expectedkernels.vtree import Vtree


def levels(
    vtree: Vtree, matrices: Sequence[Any], inputs: Sequence[tuple[Any, Any] | None]
) -> Levels:
    """The levels of blocks of units.

    Parameters
    ----------
    vtree : Vtree
    matrices : sequence of dense or CSR arrays, or None
        For every node the weights of its units, (units, products), at leaves (units, atoms); None:
        units are the products as they are.
    inputs : sequence of pairs of int arrays, or None
        For every inner node the left and right unit of every product; None at leaves.
    """
    heights = vtree.height
    starts = np.zeros(vtree.n_nodes, dtype=np.intp)
    made: list[Level] = []
    order = np.argsort(heights, kind="stable")
    cuts = np.searchsorted(heights[order], np.arange(int(heights.max()) + 2))
    first = 0
    for height in range(len(cuts) - 1):
        nodes = order[cuts[height] : cuts[height + 1]].tolist()
        kinds = [kind_of(matrices[node], node) for node in nodes]
        ranked = sorted(range(len(nodes)), key=lambda i: (kinds[i], i))
        nodes, kinds = [nodes[i] for i in ranked], [kinds[i] for i in ranked]
        level = _level(vtree, matrices, inputs, starts, nodes, kinds, first)
        made.append(level)
        first = level.stop
    return Levels(vtree, tuple(made), starts)


def _level(
    vtree: Vtree,
    matrices: Sequence[Any],
    inputs: Sequence[tuple[Any, Any] | None],
    starts: IntArray,
    nodes: list[int],
    kinds: list[tuple[int, tuple[int, ...]]],
    first: int,
) -> Level:
    """The level of some nodes; writes where their units start."""
    given = [inputs[node] for node in nodes]
    shapes = [
        matrices[node].shape if pair is None or matrices[node] is not None else (len(pair[0]),) * 2
        for node, pair in zip(nodes, given, strict=True)
    ]
    unit_starts = np.concatenate([[0], np.cumsum([k for k, _ in shapes])]).astype(np.intp)
    product_starts = np.concatenate([[0], np.cumsum([m for _, m in shapes])]).astype(np.intp)
    starts[nodes] = first + unit_starts[:-1]
    own = [matrices[node] for node in nodes]
    places = None
    if given[0] is not None:
        sizes = np.diff(product_starts)
        places = np.stack(
            [
                np.concatenate([pair[side] for pair in given])  # type: ignore[index]
                + np.repeat(starts[children[nodes]], sizes)
                for side, children in ((0, vtree.left), (1, vtree.right))
            ]
        )
    which = [kind for kind, _ in kinds]
    n_passed = int(unit_starts[which.count(PASSED)])
    begin = len(which) - which.count(SPARSE)
    return Level(
        nodes=np.asarray(nodes, dtype=np.intp),
        start=first,
        stop=first + int(unit_starts[-1]),
        unit_starts=unit_starts,
        product_starts=product_starts,
        inputs=places,
        n_passed=n_passed,
        stacks=_stacks(own, kinds, unit_starts, product_starts),
        edges=_sparse_edges(own[begin:], product_starts[begin:-1] - product_starts[begin]),
        matrices=own,
    )


def _stacks(own: list[Any], kinds: Any, units: IntArray, products: IntArray) -> tuple[Stack, ...]:
    """The dense nodes of a level, those of one shape together."""
    stacks = []
    at = 0
    while at < len(own):
        end = at
        while end < len(own) and kinds[end] == kinds[at]:
            end += 1
        if kinds[at][0] == DENSE:
            dense = [m.toarray() if sparse.issparse(m) else m for m in own[at:end]]
            weights = dense[0][None] if len(dense) == 1 else np.stack(dense)
            stacks.append(
                Stack(
                    weights,
                    slice(int(units[at]), int(units[end])),
                    slice(int(products[at]), int(products[end])),
                )
            )
        at = end
    return tuple(stacks)


def _sparse_edges(own: list[Any], first: IntArray) -> Edges:
    """The edges of the sparse nodes; those stored as small matrices come first, all at once."""
    n_small = sum(not sparse.issparse(matrix) for matrix in own)
    parts = [entries_of(m, start) for m, start in zip(own[n_small:], first[n_small:], strict=True)]
    if not n_small:
        return joined(parts)
    *small, kept = _entries_of_all(own[:n_small], first[:n_small])
    return replace(joined([tuple(small), *parts]), kept=kept)


def _entries_of_all(own: list[Any], first: IntArray) -> tuple[Any, Any, Any, Any]:
    """What `entries_of` gives for many small matrices, one after the other, and which are kept."""
    numbers = np.concatenate([matrix.reshape(-1) for matrix in own])
    widths = np.repeat([m.shape[1] for m in own], [m.shape[0] for m in own])
    begins = np.repeat(first, [m.shape[0] for m in own])
    row = np.repeat(np.arange(len(widths)), widths)
    column = np.arange(len(numbers)) - np.repeat(np.cumsum(widths) - widths, widths) + begins[row]
    kept = np.flatnonzero(numbers)
    counts = np.bincount(row[kept], minlength=len(widths))
    return counts, column[kept], numbers[kept], kept
