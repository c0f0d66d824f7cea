import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

from expectedkernels import Vtree
from expectedkernels.arrays import Place
from expectedkernels.engine.blocks import (
    DENSE_BELOW,
    Inner,
    from_root,
    inner,
)

seeds = st.integers(0, 2**32 - 1)
VTREES = [Vtree.balanced(1), Vtree.balanced(5), Vtree.right_linear(4), Vtree.random(9, rng=0)]


def by_definition(left, right, weights, A, B):
    """The units of a block, given the values of the children's units."""
    products = A[left] * B[right]
    return products if weights is None else weights @ products


def evaluate(block, A, B):
    return by_definition(block.index("left"), block.index("right"), block.csr.toarray(), A, B)


@given(seeds)
def test_blocks_keep_their_meaning(seed):
    rng = np.random.default_rng(seed)
    n_left, n_right, n_products, n_units = rng.integers(1, 8, size=4)
    left, right = rng.integers(n_left, size=n_products), rng.integers(n_right, size=n_products)
    weights = rng.normal(size=(n_units, n_products)) * (rng.random((n_units, n_products)) < 0.6)
    A, B = rng.normal(size=n_left), rng.normal(size=n_right)
    for given_weights in (None, weights, sparse.csr_array(weights)):
        block = inner(left, right, given_weights, n_left, n_right)
        assert block.n_units == (n_products if given_weights is None else n_units)
        expected = by_definition(left, right, None if given_weights is None else weights, A, B)
        np.testing.assert_allclose(evaluate(block, A, B), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.coo_array])
def test_sums_that_only_pass_products_through_are_dropped(form):
    weights = form(np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]))
    block = inner([0, 1, 2], [3, 4, 5], weights, 3, 6)
    assert block.weights is None
    assert block.left.tolist() == [2, 0]
    assert block.right.tolist() == [5, 3]
    assert (block.n_products, block.n_units) == (2, 2)
    kept = inner([0, 1, 2], [3, 4, 5], 2.0 * weights, 3, 6)
    assert kept.weights is not None
    twice = inner([0, 1], [0, 1], form(np.array([[1.0, 1.0], [0.0, 0.0]])), 2, 2)
    assert twice.weights.tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_weights_are_dense_or_sparse_whichever_is_smaller():
    n = DENSE_BELOW  # as many products, more than one unit: above the limit
    few = sparse.random_array((8, n), density=0.01, rng=np.random.default_rng(0), format="csr")
    many = sparse.random_array((8, n), density=0.5, rng=np.random.default_rng(0), format="csr")
    index = np.arange(n)
    assert inner(index, index, few, n, n).is_sparse
    assert not inner(index, index, many, n, n).is_sparse
    assert not inner([0], [0], sparse.csr_array(np.array([[0.5]])), 1, 1).is_sparse
    np.testing.assert_array_equal(inner(index, index, few, n, n).csr.toarray(), few.toarray())


def test_sparse_form_has_no_stored_zeros_and_sorted_indices(xp):
    weights = np.array([[0.0, 2.0, 0.5], [0.0, 0.0, 0.0]])
    csr = Inner(3, 2, None, None, Place(xp).move(weights)).csr
    assert csr.nnz == 2
    assert csr.indices.tolist() == [1, 2]
    np.testing.assert_array_equal(csr.toarray(), weights)
    messy = sparse.csr_array((np.array([0.5, 0.0, 2.0]), np.array([2, 0, 1]), np.array([0, 3, 3])))
    csr = Inner(3, 2, None, None, messy).csr
    assert csr.indices.tolist() == [1, 2]
    np.testing.assert_array_equal(Inner(2, 2, None, None, None).csr.toarray(), np.eye(2))


@pytest.mark.parametrize("vtree", VTREES, ids=str)
def test_what_is_given_goes_down(vtree):
    visited = []

    def leaf(node, variable, path):
        visited.append(node)
        assert vtree.leaf(variable) == node
        return path

    def inner(node, path):
        visited.append(node)
        return path, [*path, node], [*path, node]

    paths = from_root(vtree, [], leaf, inner)
    assert visited == list(range(vtree.n_nodes))[::-1]
    for node, path in enumerate(paths):
        assert [*path, node][0] == vtree.root
        assert len(path) == vtree.depth[node]
        assert path[-1:] == [int(vtree.parent[node])] * (node != vtree.root)
