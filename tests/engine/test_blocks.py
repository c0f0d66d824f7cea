import numpy as np
import pytest
from scipy import sparse

from expectedkernels.arrays import Place
from expectedkernels.engine.blocks import DENSE_BELOW, Inner, inner


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
