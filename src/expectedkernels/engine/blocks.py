"""Blocks: the product and sum units of one inner vtree node, as index arrays and weights."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.arrays import frozen

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

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays of numbers the block consists of."""
        return (self.weights,)

    @cached_property
    def csr(self) -> sparse.csr_array:
        """The weights in sparse form on the host, with sorted indices and no stored zeros."""
        if self.weights is None:
            return frozen(sparse.csr_array(sparse.eye_array(self.n_units, format="csr")))
        weights = self.weights
        if not sparse.issparse(weights):
            detached = weights.detach().cpu() if hasattr(weights, "detach") else weights
            weights = np.asarray(detached)
        return frozen(tidy(weights))

    def index(self, side: str) -> np.ndarray[Any, np.dtype[np.intp]]:
        """The left (or right) input of every product, written out, on the host."""
        index = self.left if side == "left" else self.right
        if index is None:
            return np.arange(self.n_products)
        return np.asarray(index.cpu() if hasattr(index, "cpu") else index, dtype=np.intp)

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


def inner(
    left: Array,
    right: Array,
    weights: Array | None,
    n_left: int,
    n_right: int,
) -> Inner:
    """The block with these products and weights, stored in the cheapest form.

    Identity index arrays become None, weights that only pass products through are dropped
    (the products are reordered), and the rest is kept dense or sparse, whichever is smaller
    to work with.
    """
    left, right = np.asarray(left, dtype=np.intp), np.asarray(right, dtype=np.intp)
    if weights is not None and sparse.issparse(weights):
        weights = sparse.csr_array(weights)
        n_units, n_products = weights.shape
        one_each = np.array_equal(weights.indptr, np.arange(n_units + 1))
        if one_each and np.all(weights.data == 1.0):
            left, right = left[weights.indices], right[weights.indices]
            weights = None
        if weights is not None:
            size = n_units * n_products
            if size <= DENSE_BELOW or weights.nnz >= DENSE_DENSITY * size:
                weights = weights.toarray()
    n_products = len(left)
    return Inner(
        n_products=n_products,
        n_units=n_products if weights is None else weights.shape[0],
        left=None if _is_identity(left, n_left) else left,
        right=None if _is_identity(right, n_right) else right,
        weights=weights,
    )


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
    if len(weights) == n_units and (weights == 1.0).all():  # every unit has an edge
        left, right, n_products = left[products], right[products], n_units
    elif (
        n_units * n_products <= DENSE_BELOW or len(weights) >= DENSE_DENSITY * n_units * n_products
    ):
        matrix = np.zeros((n_units, n_products))
        matrix[units, products] = weights
    else:
        starts = np.searchsorted(units, np.arange(n_units + 1))
        shape = (n_units, n_products)
        matrix = sparse.csr_array((weights, products, starts), shape=shape)
    return Inner(
        n_products,
        n_units,
        None if _is_identity(left, n_left) else left,
        None if _is_identity(right, n_right) else right,
        matrix,
    )


def _is_identity(index: np.ndarray[Any, np.dtype[np.intp]], n: int) -> bool:
    return len(index) == n and bool(np.array_equal(index, np.arange(n)))
