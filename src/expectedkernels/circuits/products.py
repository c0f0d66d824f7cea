"""The blocks of the product of two circuits on one vtree: pairs of units, found before made.

One pass from the leaves up says which units meet (have a product that is not zero everywhere),
one from the root down which pairs are needed, and only these get numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.arrays import require_memory
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.equal_rows import distinct_pairs
from expectedkernels.circuits.ranges import Part
from expectedkernels.circuits.wide import runs, wide
from expectedkernels.engine.blocks import Inner
from expectedkernels.engine.nodes import from_leaves, from_root

CHUNK = 2**21
"""How many pairs are looked at in one go."""

PRODUCT = "The product of the two circuits"
FEWER_UNITS = (
    "Multiply circuits of fewer units: condition on some variables, or sum some out with "
    "algebra.marginalize, before. For the expectation of a product, expected_kernel(p, q, Delta()) "
    "needs less."
)

Pairs = tuple[Any, Any]
"""Units of the first circuit, and those of the second they are multiplied with."""


def product_parts(f: Circuit, g: Circuit, roots: Pairs) -> list[Part]:
    """The blocks of the products of pairs of roots, and their numbers.

    The circuits are on the same vtree, on the host. Blocks of no units mean that the product is
    zero everywhere.
    """
    vtree = f.vtree
    meets: list[Any] = from_leaves(
        vtree,
        lambda _, v: f.input(v).overlaps(g.input(v)),
        lambda node, *below: _inner_meetings(f.blocks[node], g.blocks[node], *below),
    )

    def leaf(node: int, variable: int, pairs: Pairs) -> Part:
        return f.input(variable).times(g.input(variable), *pairs)  # type: ignore[arg-type]

    def inner(node: int, pairs: Pairs) -> tuple[Part, Pairs, Pairs]:
        a, b = int(vtree.left[node]), int(vtree.right[node])
        below, meets[a], meets[b] = (meets[a], meets[b]), None, None
        return _inner_pairs(f.blocks[node], g.blocks[node], *below, pairs)

    return from_root(vtree, roots, leaf, inner)


def _takes(block: Any) -> Any:
    """One where a sum takes a product, dense or sparse as the weights are."""
    if block.is_sparse:
        return block.csr.astype(np.bool_).astype(np.float32)
    return (block.weights != 0).astype(np.float32)


def _inner_meetings(one: Any, other: Any, left: Any, right: Any) -> Any:
    """Which units of two inner blocks meet, given which units of the children do."""
    other_left, other_right = other.inputs
    takes = None if other.weights is None else _takes(other)
    own_left, own_right = one.inputs
    require_memory(5.0 * one.n_products * other.n_units, PRODUCT, FEWER_UNITS)
    met = np.zeros((one.n_products, other.n_units), dtype=np.bool_)
    rows = max(1, CHUNK // max(1, other.n_products))
    for start in range(0, one.n_products, rows):
        chosen = slice(start, start + rows)
        pairs = left[own_left[chosen]][:, other_left] & right[own_right[chosen]][:, other_right]
        met[chosen] = pairs if takes is None else (takes @ pairs.T.astype(np.float32)).T > 0
    return met if one.weights is None else _takes(one) @ met.astype(np.float32) > 0


def _inner_pairs(
    one: Any, other: Any, left: Any, right: Any, pairs: Pairs
) -> tuple[Part, Pairs, Pairs]:
    """The sums and products of wanted pairs, and the pairs of the children they need."""
    (own_left, own_right), (other_left, other_right) = one.inputs, other.inputs

    def alive(a: Any, b: Any) -> Any:
        return left[own_left[a], other_left[b]] & right[own_right[a], other_right[b]]

    unit, edge, other_edge = _common_edges(one.csr, other.csr, pairs, alive)
    (a, b), column = distinct_pairs(
        one.csr.indices[edge],
        other.csr.indices[other_edge],
        (one.n_products, other.n_products),
    )
    left_pairs, left_index = distinct_pairs(own_left[a], other_left[b], left.shape)
    right_pairs, right_index = distinct_pairs(own_right[a], other_right[b], right.shape)
    n_units = len(pairs[0])
    starts = np.concatenate([[0], np.cumsum(np.bincount(unit, minlength=n_units))])
    weights = sparse.csr_array((np.ones(len(column)), column, starts), shape=(n_units, len(a)))
    block = Inner(len(a), n_units, left_index, right_index, weights)
    numbers = wide(one.csr.data)[edge] * wide(other.csr.data)[other_edge]
    return (block, numbers), left_pairs, right_pairs


def _common_edges(one: Any, other: Any, pairs: Pairs, alive: Any) -> tuple[Any, Any, Any]:
    """The edges of sums of pairs: which pair, and which edge of either of its sums.

    `one` and `other` are the sums' weights in sparse form; `alive` says which products meet.
    """
    units, partners = pairs
    sizes = np.diff(one.indptr)[units]
    require_memory(32.0 * float(sizes.sum()), PRODUCT, FEWER_UNITS)
    pair, edge = runs(one.indptr[units], sizes)
    starts, counts = other.indptr[partners[pair]], np.diff(other.indptr)[partners[pair]]
    ends = np.cumsum(counts)
    found = []
    begin = kept = 0
    while begin < len(pair):
        reached = ends[begin] - counts[begin] + CHUNK
        stop = max(begin + 1, int(np.searchsorted(ends, reached, side="right")))
        row, partner = runs(starts[begin:stop], counts[begin:stop])
        row += begin
        keep = np.flatnonzero(alive(one.indices[edge[row]], other.indices[partner]))
        row = row[keep]
        found.append((pair[row], edge[row], partner[keep]))
        kept += len(row)
        require_memory(80.0 * kept, PRODUCT, FEWER_UNITS)  # with the products made of them
        begin = stop
    if not found:
        return tuple(np.zeros(0, dtype=np.intp) for _ in range(3))  # type: ignore[return-value]
    return tuple(np.concatenate(arrays) for arrays in zip(*found, strict=True))  # type: ignore[return-value]
