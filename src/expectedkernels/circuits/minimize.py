"""Minimisation of block circuits: merge equal units, drop zero and unreachable ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.circuits.equal_rows import distinct_dense_rows, distinct_pairs, distinct_rows
from expectedkernels.circuits.inputs import Input
from expectedkernels.engine.blocks import Inner, inner, tidy
from expectedkernels.engine.nodes import at_nodes, from_leaves, from_root
from expectedkernels.errors import CircuitError
from expectedkernels.vtree import Vtree

Blocks = list[Input | Inner]


def minimize(vtree: Vtree, blocks: Sequence[Input | Inner]) -> Blocks:
    """The same functions at the roots, with as few units as merging and dropping can reach.

    Units that are equal (same inputs, same weights, to the last bit) become one; units that are
    identically zero, and units no root depends on, go. The roots keep their number and order.
    Cost: linear in the size of the circuit.
    """
    small = _drop_unreachable(vtree, _merge_equal(vtree, _drop_unreachable(vtree, blocks)))
    return small if all(block.n_units for block in small) else _zero(vtree, blocks)


def _zero(vtree: Vtree, blocks: Sequence[Input | Inner]) -> Blocks:
    """The circuit that is zero everywhere, with one unit per node but for the roots."""
    one = Inner(1, 1, None, None, None)
    zeros = at_nodes(vtree, lambda node, _: blocks[node].zero(), lambda _: one)  # type: ignore[union-attr]
    zeros[-1] = zeros[-1].with_numbers(np.zeros((blocks[-1].n_units, zeros[-1].width)))
    return zeros


def _drop_unreachable(vtree: Vtree, blocks: Sequence[Any]) -> Blocks:
    """Keep the units that some root depends on."""

    def leaf(node: int, _: int, units: Any) -> Input:
        return blocks[node] if units is None else blocks[node].take(units)

    def inner_at(node: int, units: Any) -> tuple[Inner, Any, Any]:
        block = blocks[node]
        left, right = block.inputs
        weights = block.csr if (block.weights is None and units is not None) else block.weights
        if weights is not None:
            if units is not None:
                weights = weights[units]
            used = _used_columns(weights)
            if not used.all():
                left, right, weights = left[used], right[used], weights[:, np.flatnonzero(used)]
        left, n_left, from_left = _renumber(left, blocks[vtree.left[node]].n_units)
        right, n_right, from_right = _renumber(right, blocks[vtree.right[node]].n_units)
        return inner(left, right, weights, n_left, n_right), from_left, from_right

    return from_root(vtree, None, leaf, inner_at)


def _used_columns(weights: Any) -> Any:
    """Which columns have an entry that is not zero."""
    if not sparse.issparse(weights):
        return (weights != 0).any(axis=0)
    used = np.zeros(weights.shape[1], dtype=np.bool_)
    used[weights.indices[weights.data != 0]] = True
    return used


def _renumber(index: Any, n: int) -> tuple[Any, int, Any]:
    """The index into the used units only, how many there are, and which (None: all)."""
    used = np.zeros(n, dtype=np.bool_)
    used[index] = True
    if used.all():
        return index, n, None
    number = np.cumsum(used)
    return number[index] - 1, int(number[-1]), np.flatnonzero(used)


def _merge_equal(vtree: Vtree, blocks: Sequence[Any]) -> Blocks:
    """Merge equal units and drop zero ones, bottom-up."""
    root = vtree.root

    def leaf(node: int, _: int) -> tuple[Any, Any]:
        return blocks[node].merged() if node != root else (blocks[node], None)

    def inner_at(node: int, left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[Any, Any]:
        return _merged_inner(blocks[node], left, right, node == root)

    return [block for block, _ in from_leaves(vtree, leaf, inner_at)]


def _merged_inner(
    block: Inner, below_left: tuple[Any, Any], below_right: tuple[Any, Any], is_root: bool
) -> tuple[Inner, Any]:
    """The block of distinct units, and for every unit its place there (-1: zero); roots all stay.

    Children come as they are now, with the places of their former units.
    """
    left, right = below_left[1][block.index("left")], below_right[1][block.index("right")]
    n_left, n_right = below_left[0].n_units, below_right[0].n_units
    alive = (left >= 0) & (right >= 0)
    pairs, column = distinct_pairs(left[alive], right[alive], (n_left, n_right))
    if block.weights is None and not is_root:  # every unit is one product
        place: Any = np.full(block.n_products, -1, dtype=np.intp)
        place[alive] = column
        return inner(*pairs, None, n_left, n_right), place
    weights = block.csr if block.weights is None else block.weights
    if not alive.all() or len(pairs[0]) < block.n_products:
        left, right = pairs
        weights = _merge_columns(weights, alive, column, len(left))
    place = None
    if not is_root:
        weights, place = _merge_rows(weights)
    return inner(left, right, weights, n_left, n_right), place


def _merge_columns(weights: Any, alive: Any, column: Any, n: int) -> Any:
    """Add up the columns of products that became one, and drop those that became zero."""
    if not sparse.issparse(weights):
        merged = np.zeros((weights.shape[0], n))
        with np.errstate(over="ignore"):  # refused below, with words
            np.add.at(merged.T, column, weights[:, alive].T)
        _refuse_infinite(merged)
        return merged
    number = np.full(weights.shape[1], -1, dtype=np.intp)
    number[alive] = column
    coo = weights.tocoo()
    target = number[coo.col]
    keep = (target >= 0) & (coo.data != 0)
    merged = sparse.coo_array(
        (coo.data[keep], (coo.row[keep], target[keep])), shape=(weights.shape[0], n)
    ).tocsr()
    merged.sum_duplicates()
    _refuse_infinite(merged.data)
    merged.eliminate_zeros()
    return merged


def _refuse_infinite(numbers: Any) -> None:
    if not np.isfinite(numbers).all():
        raise CircuitError(
            "Weights of equal products of a sum unit add up to a number that is too large for a "
            "double. Scale the weights down."
        )


def _merge_rows(weights: Any) -> tuple[Any, Any]:
    """Keep the first of equal rows of a weight matrix; rows of zeros go."""
    if sparse.issparse(weights):
        weights = tidy(weights)
        kept, place = distinct_rows(weights.indptr, weights.indices, weights.data)
    else:
        kept, place = distinct_dense_rows(weights)
    return (weights if len(kept) == weights.shape[0] else weights[kept]), place
