"""Minimisation of block circuits: merge equal units, drop zero and unreachable ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.circuits.equal_rows import distinct_dense_rows, distinct_rows
from expectedkernels.circuits.inputs import Input
from expectedkernels.engine.blocks import Inner, inner, tidy
from expectedkernels.errors import CircuitError
from expectedkernels.vtree import Vtree

Blocks = list[Input | Inner]
SPARSE_KEYS = 8
"""Products are told apart by a table of all pairs of units if it has at most so many per product.
"""


def minimize(vtree: Vtree, blocks: Sequence[Input | Inner]) -> Blocks:
    """The same functions at the roots, with as few units as merging and dropping can reach.

    Units that are equal (same inputs, same weights, to the last bit) become one; units that are
    identically zero, and units no root depends on, go. The roots keep their number and order.
    Cost: linear in the size of the circuit.
    """
    small = _drop_unreachable(vtree, _merge_equal(vtree, _drop_unreachable(vtree, list(blocks))))
    return small if all(block.n_units for block in small) else _zero(vtree, blocks)


def _zero(vtree: Vtree, blocks: Sequence[Input | Inner]) -> Blocks:
    """The circuit that is zero everywhere, with one unit per node but for the roots."""
    zeros: Blocks = []
    for block in blocks:
        unit = Inner(1, 1, None, None, None) if isinstance(block, Inner) else block.zero()
        zeros.append(unit)
    roots = blocks[-1].n_units
    if vtree.n_nodes > 1:
        zeros[-1] = Inner(1, roots, None, None, np.zeros((roots, 1)))
    else:
        zeros[-1] = blocks[-1].take([0] * roots)  # type: ignore[union-attr]
    return zeros


def _drop_unreachable(vtree: Vtree, blocks: Blocks) -> Blocks:
    """Keep the units that some root depends on."""
    blocks = list(blocks)
    wanted: list[Any] = [None] * vtree.n_nodes  # None: all of them
    for node in range(vtree.root, -1, -1):
        block = blocks[node]
        units = wanted[node]
        if not isinstance(block, Inner):
            if units is not None:
                blocks[node] = block.take(units)
            continue
        n_left = blocks[vtree.left[node]].n_units
        n_right = blocks[vtree.right[node]].n_units
        left, right = block.index("left"), block.index("right")
        weights = block.csr if (block.weights is None and units is not None) else block.weights
        if weights is not None:
            if units is not None:
                weights = weights[units]
            used = _used_columns(weights)
            if not used.all():
                left, right, weights = left[used], right[used], weights[:, np.flatnonzero(used)]
        left, wanted[vtree.left[node]] = _renumber(left, n_left)
        right, wanted[vtree.right[node]] = _renumber(right, n_right)
        new_left = n_left if wanted[vtree.left[node]] is None else len(wanted[vtree.left[node]])
        new_right = n_right if wanted[vtree.right[node]] is None else len(wanted[vtree.right[node]])
        blocks[node] = inner(left, right, weights, new_left, new_right)
    return blocks


def _used_columns(weights: Any) -> Any:
    """Which columns have an entry that is not zero."""
    if not sparse.issparse(weights):
        return (weights != 0).any(axis=0)
    used = np.zeros(weights.shape[1], dtype=np.bool_)
    used[weights.indices[weights.data != 0]] = True
    return used


def _renumber(index: Any, n: int) -> tuple[Any, Any]:
    """The index into the used units only, and which these are (None: all)."""
    used = np.zeros(n, dtype=np.bool_)
    used[index] = True
    if used.all():
        return index, None
    number = np.cumsum(used) - 1
    return number[index], np.flatnonzero(used)


def _merge_equal(vtree: Vtree, blocks: Blocks) -> Blocks:
    """Merge equal units and drop zero ones, bottom-up."""
    blocks = list(blocks)
    place: list[Any] = [None] * vtree.n_nodes
    for node, block in enumerate(blocks):
        if not isinstance(block, Inner):
            if node != vtree.root:
                blocks[node], place[node] = block.merged()
            continue
        a, b = vtree.left[node], vtree.right[node]
        left, right = place[a][block.index("left")], place[b][block.index("right")]
        n_left, n_right = blocks[a].n_units, blocks[b].n_units
        alive = (left >= 0) & (right >= 0)
        distinct, column = _distinct_products(left[alive], right[alive], n_left, n_right)
        place[a] = place[b] = None
        untouched = alive.all() and len(distinct) == block.n_products
        if node == vtree.root or block.weights is not None:
            weights = block.weights if block.weights is not None else block.csr
            if untouched:
                new_left, new_right = left, right
            else:
                new_left, new_right = np.divmod(distinct, max(n_right, 1))
                weights = _merge_columns(sparse.csr_array(weights), alive, column, len(distinct))
            if node != vtree.root:
                weights, place[node] = _merge_rows(weights)
            blocks[node] = inner(new_left, new_right, weights, n_left, n_right)
        else:  # every unit is one product
            new_left, new_right = np.divmod(distinct, max(n_right, 1))
            place[node] = np.full(block.n_products, -1, dtype=np.intp)
            place[node][alive] = column
            blocks[node] = inner(new_left, new_right, None, n_left, n_right)
    return blocks


def _distinct_products(left: Any, right: Any, n_left: int, n_right: int) -> tuple[Any, Any]:
    """The keys ``left * n_right + right`` that occur, ascending, and the place of every product."""
    key = left * max(n_right, 1) + right
    if n_left * n_right > SPARSE_KEYS * len(key):
        return np.unique(key, return_inverse=True)
    used = np.zeros(n_left * n_right, dtype=np.bool_)
    used[key] = True
    return np.flatnonzero(used), (np.cumsum(used) - 1)[key]


def _merge_columns(weights: Any, alive: Any, column: Any, n: int) -> Any:
    """Add up the columns of products that became one, and drop those that became zero."""
    number = np.full(weights.shape[1], -1, dtype=np.intp)
    number[alive] = column
    coo = weights.tocoo()
    target = number[coo.col]
    keep = (target >= 0) & (coo.data != 0)
    merged = sparse.coo_array(
        (coo.data[keep], (coo.row[keep], target[keep])), shape=(weights.shape[0], n)
    ).tocsr()
    merged.sum_duplicates()
    if not np.isfinite(merged.data).all():
        raise CircuitError(
            "Weights of equal products of a sum unit add up to a number that is too large for a "
            "double. Scale the weights down."
        )
    merged.eliminate_zeros()
    return merged


def _merge_rows(weights: Any) -> tuple[Any, Any]:
    """Keep the first of equal rows of a weight matrix; rows of zeros go."""
    if sparse.issparse(weights):
        weights = tidy(weights)
        kept, place = distinct_rows(weights.indptr, weights.indices, weights.data)
    else:
        kept, place = distinct_dense_rows(weights)
    return (weights if len(kept) == weights.shape[0] else weights[kept]), place
