"""Blocks of units, and passes over the nodes of a vtree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np
from scipy import sparse

from expectedkernels.arrays import frozen, namespace, to_numpy
from expectedkernels.vtree import Vtree

T = TypeVar("T")
S = TypeVar("S")


def at_nodes(
    vtree: Vtree, leaf: Callable[[int, int], Any], inner: Callable[[int], Any]
) -> list[Any]:
    """What `leaf(node, variable)` and `inner(node)` give at every node, children first.

    Examples
    --------
    >>> at_nodes(Vtree.balanced(2), lambda node, variable: variable, lambda node: "both")
    [0, 1, 'both']
    """
    return from_leaves(vtree, leaf, lambda node, *_: inner(node))


def from_leaves(
    vtree: Vtree, leaf: Callable[[int, int], T], inner: Callable[[int, T, T], T]
) -> list[T]:
    """What is found at every node: `leaf(node, variable)`, or `inner(node, left, right)` above.

    Here left and right are what was found at the children.

    Examples
    --------
    >>> from_leaves(Vtree.balanced(3), lambda _, variable: 1, lambda _, left, right: left + right)
    [1, 1, 1, 2, 3]
    """
    values: list[T] = []
    children = zip(vtree.left.tolist(), vtree.right.tolist(), strict=True)
    for node, (v, (a, b)) in enumerate(zip(vtree.variable.tolist(), children, strict=True)):
        values.append(leaf(node, v) if v >= 0 else inner(node, values[a], values[b]))
    return values


def from_root(
    vtree: Vtree,
    given: S,
    leaf: Callable[[int, int, S], T],
    inner: Callable[[int, S], tuple[T, S, S]],
) -> list[T]:
    """What is found at every node, children first, going from the root down.

    `leaf(node, variable, given)` is what is found at a leaf, and `inner(node, given)` what is found
    at an inner node, with what its left and its right child are given.

    Examples
    --------
    >>> def inner(node, depth):
    ...     return depth, depth + 1, depth + 1
    >>> from_root(Vtree.balanced(3), 0, lambda node, variable, depth: depth, inner)
    [1, 2, 2, 1, 0]
    """
    handed: list[Any] = [None] * vtree.n_nodes
    values: list[Any] = [None] * vtree.n_nodes
    handed[vtree.root] = given
    variables, lefts, rights = (x.tolist() for x in (vtree.variable, vtree.left, vtree.right))
    for node in range(vtree.root, -1, -1):
        mine, handed[node] = handed[node], None
        if variables[node] >= 0:
            values[node] = leaf(node, variables[node], mine)
        else:
            a, b = lefts[node], rights[node]
            values[node], handed[a], handed[b] = inner(node, mine)
    return values


Array = Any
"""An array of NumPy or of any library that follows the array-API standard."""

DENSE_BELOW = 1024
"""Weight matrices with at most this many entries are always dense."""
DENSE_DENSITY = 0.1
"""Larger ones are dense when at least this share of the entries is not zero."""


@dataclass(frozen=True, eq=False)
class ReadOnly:
    """A base of blocks: no array of NumPy that such a dataclass holds can be written to."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            object.__setattr__(self, name, frozen(value))

    def __reduce__(self) -> tuple[Any, ...]:
        # arrays come out of a pickle writeable, so the constructor has to see them
        return type(self), tuple(getattr(self, field.name) for field in fields(self))


@dataclass(frozen=True, eq=False)
class Inner(ReadOnly):
    """The units of one inner vtree node: products of the children's units, and sums of these.

    Attributes
    ----------
    n_products, n_units : int
        How many products there are, and how many units the parent sees.
    left, right : arrays of int, or None
        For every product the unit of the left and of the right child; None means that
        product i takes unit i (and all units are taken).
    weights : dense array, scipy CSR array, or None
        The weights of the sum units, shape (n_units, n_products); None means that every unit
        is one product, unweighted.
    """

    n_products: int
    n_units: int
    left: Array | None
    right: Array | None
    weights: Array | None

    cardinality: ClassVar[None] = None

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays of numbers the block consists of."""
        return (self.weights,)

    @property
    def width(self) -> int:
        """The number of products."""
        return self.n_products

    @property
    def numbers(self) -> Array | None:
        """The weights, one row per unit."""
        return self.weights

    @property
    def matrix(self) -> Array | None:
        """The weights, if they are sparse without stored zeros."""
        return self.csr if self.is_sparse else self.weights

    @property
    def inputs(self) -> tuple[Any, Any]:
        """The left and right input of every product, written out, on the CPU."""
        return self.index("left"), self.index("right")

    @property
    def flat(self) -> tuple[Any, Any]:
        """The weights that are not zero, on the CPU, and where those of every unit start."""
        return self.csr.data, self.csr.indptr

    @property
    def columns(self) -> Any:
        """The products of these weights."""
        return self.csr.indices

    @property
    def noise_kinds(self) -> tuple[int, ...]:
        """What is random in a sample: which product a sum takes."""
        return () if self.weights is None else (0,)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The numbers of units, edges and parameters; sums of one product do not count."""
        if self.weights is None:
            return self.n_products, 2 * self.n_products, 0
        data, starts = self.flat
        fan_in = np.diff(starts)
        passes = fan_in == 1
        passes[passes] = data[starts[:-1][passes]] == 1.0
        n_sums, n_terms = int((~passes).sum()), int(fan_in[~passes].sum())
        return self.n_products + n_sums, 2 * self.n_products + n_terms, n_terms

    def with_numbers(self, rows: Array | None) -> Inner:
        """The block with other weights of the same products."""
        n_units = self.n_products if rows is None else rows.shape[0]
        return Inner(self.n_products, n_units, self.left, self.right, rows)

    def refilled(self, numbers: Any) -> Inner:
        """The block with other weights, laid flat, at the places of those that are not zero."""
        parts = (numbers, self.csr.indices, self.csr.indptr)
        return self.with_numbers(sparse.csr_array(parts, shape=self.csr.shape))

    def moved(self, move: Callable[[Any], Any]) -> Inner:
        """The block with its arrays elsewhere."""
        arrays = map(move, (self.left, self.right, self.weights))
        return Inner(self.n_products, self.n_units, *arrays)

    def swapped(self) -> Inner:
        """The block with left and right exchanged."""
        return Inner(self.n_products, self.n_units, self.right, self.left, self.weights)

    @cached_property
    def csr(self) -> sparse.csr_array:
        """The weights in sparse form on the CPU, with sorted indices and no stored zeros."""
        if self.weights is None:
            return frozen(sparse.csr_array(sparse.eye_array(self.n_units, format="csr")))
        return frozen(tidy(self.weights if self.is_sparse else to_numpy(self.weights)))

    def index(self, side: str) -> np.ndarray[Any, np.dtype[np.intp]]:
        """The left (or right) input of every product, written out, on the CPU."""
        index = self.left if side == "left" else self.right
        if index is None:
            return np.arange(self.n_products)
        return np.asarray(to_numpy(index), dtype=np.intp)

    @property
    def is_sparse(self) -> bool:
        """Whether the weights are stored sparsely."""
        return sparse.issparse(self.weights)


def tidy(weights: Any) -> sparse.csr_array:
    """The matrix in sparse form, with sorted indices and no stored zeros; itself if it is so.

    What is given stays as it is: blocks with other weights may share its index arrays.
    """
    csr = sparse.csr_array(weights)
    if csr.has_sorted_indices and csr.data.all():
        return csr
    csr = csr.copy()
    csr.eliminate_zeros()
    csr.sort_indices()
    return csr


def runs(starts: Any, counts: Any) -> tuple[Any, Any]:
    """The numbers and entries of runs: run i has `counts[i]` entries from `starts[i]` on.

    Examples
    --------
    >>> [x.tolist() for x in runs(np.array([5, 0]), np.array([2, 1]))]
    [[0, 0, 1], [5, 6, 0]]
    """
    xp = namespace(counts)
    repeat: Any = np.repeat if xp is np else xp.repeat_interleave
    run = repeat(xp.arange(len(counts), device=counts.device), counts)
    shift = starts - (xp.cumsum(counts, 0) - counts)
    return run, xp.arange(len(run), device=counts.device) + shift[run]


def inner(left: Array, right: Array, weights: Array | None, n_left: int, n_right: int) -> Inner:
    """The block with these products and weights, stored in the cheapest form.

    Identity index arrays become None, weights that only pass products through are dropped
    (the products are reordered), and the rest is kept dense or sparse, whichever is smaller
    to work with.
    """
    left, right = np.asarray(left, dtype=np.intp), np.asarray(right, dtype=np.intp)
    if weights is None or not sparse.issparse(weights):
        return _stored(left, right, weights, n_left, n_right)
    own = sparse.csr_array(weights)
    units = np.repeat(np.arange(own.shape[0]), np.diff(own.indptr))
    edges = units, own.indices, own.data
    return inner_of_edges(left, right, edges, own.shape[0], n_left, n_right)


def inner_of_edges(
    left: Array,
    right: Array,
    edges: tuple[Array, Array, Array],
    n_units: int,
    n_left: int,
    n_right: int,
) -> Inner:
    """The block with these products, and edges from units to products: what `inner` gives.

    The edges are (units, products, weights), by units and then products, none of them twice and
    all products used.

    Examples
    --------
    >>> nothing = np.arange(2)
    >>> edges = (np.array([0, 0]), np.array([0, 1]), np.array([0.3, 0.7]))
    >>> inner_of_edges(nothing, nothing, edges, 1, 2, 2).weights.tolist()
    [[0.3, 0.7]]
    """
    units, products, weights = edges
    n_products, matrix = len(left), None
    size = n_units * n_products
    if np.array_equal(units, np.arange(n_units)) and (weights == 1.0).all():
        left, right = left[products], right[products]
    elif size <= DENSE_BELOW or len(weights) >= DENSE_DENSITY * size:
        matrix = np.zeros((n_units, n_products))
        matrix[units, products] = weights
    else:
        starts = np.searchsorted(units, np.arange(n_units + 1))
        matrix = sparse.csr_array((weights, products, starts), shape=(n_units, n_products))
    return _stored(left, right, matrix, n_left, n_right)


def _stored(left: Any, right: Any, weights: Any, n_left: int, n_right: int) -> Inner:
    """The block without index arrays that take all units as they are."""
    n_units = len(left) if weights is None else weights.shape[0]
    n_products = len(left)
    left = None if _is_identity(left, n_left) else left
    right = None if _is_identity(right, n_right) else right
    return Inner(n_products, n_units, left, right, weights)


def side_by_side(blocks: Sequence[Inner], n_left: Sequence[int], n_right: Sequence[int]) -> Inner:
    """The units of several blocks, each of which sees only its own units below.

    `n_left` and `n_right` say how many units there are below every block.
    """
    left, right = (
        np.concatenate([b.index(side) for b in blocks])
        + np.repeat(np.cumsum(sizes) - sizes, [b.width for b in blocks])
        for side, sizes in (("left", n_left), ("right", n_right))
    )
    weights = None
    if any(block.weights is not None for block in blocks):
        weights = sparse.block_diag([block.csr for block in blocks], format="csr")
    return inner(left, right, weights, sum(n_left), sum(n_right))


def _is_identity(index: np.ndarray[Any, np.dtype[np.intp]], n: int) -> bool:
    return len(index) == n and bool(np.array_equal(index, np.arange(n)))
