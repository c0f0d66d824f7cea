import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

from assertions import assert_close
from circuit_oracles import joint, random_blocks, random_domain
from expectedkernels import Circuit, Vtree, algebra
from oracles import Inner, Real, Table

seeds = st.integers(0, 2**32 - 1)
PAIR = Vtree.balanced(2)


def drawn_blocks(seed, n_max=5, **options):
    """Blocks whose units are drawn from few numbers, so that many are equal or zero."""
    rng = np.random.default_rng(seed)
    vtree, cards = random_domain(rng, n_max)
    blocks = random_blocks(rng, vtree, cards, roots=int(rng.integers(1, 4)), **options)
    coarse = []
    for block in blocks:
        if isinstance(block, Table):
            coarse.append(Table(np.round(block.table, 0)))
        elif block.weights is None:
            coarse.append(block)
        else:
            weights = np.round(block.csr.toarray(), 0)
            if block.is_sparse:
                weights = sparse.csr_array(weights)
            coarse.append(Inner(block.n_products, block.n_units, block.left, block.right, weights))
    return vtree, coarse


@pytest.mark.parametrize("signed", [False, True])
@given(seeds)
def test_functions_and_roots_stay(signed, seed):
    vtree, blocks = drawn_blocks(seed, zeros=0.4, signed=signed)
    expected = joint(Circuit(vtree, tuple(blocks)))
    small = Circuit.from_blocks(vtree, blocks)
    assert small.n_roots == len(expected)
    np.testing.assert_allclose(joint(small), expected, rtol=1e-10, atol=1e-10)


@given(seeds)
def test_no_unit_is_equal_to_another_or_useless(seed):
    vtree, blocks = drawn_blocks(seed, zeros=0.4)
    circuit = Circuit.from_blocks(vtree, blocks)
    small = circuit.blocks
    if not joint(circuit).any():
        return
    for node, block in enumerate(small):
        if node != vtree.root:
            parent = small[vtree.parent[node]]
            side = "left" if vtree.left[vtree.parent[node]] == node else "right"
            assert set(parent.index(side)) == set(range(block.n_units))
        if isinstance(block, Table):
            if node != vtree.root:
                assert len(np.unique(block.table, axis=0)) == block.n_units
                assert block.table.any(axis=1).all()
            continue
        inputs = set(zip(block.index("left"), block.index("right"), strict=True))
        if node != vtree.root or block.weights is not None:
            assert len(inputs) == block.n_products
        if block.weights is not None:
            weights = block.csr.toarray()
            assert weights.any(axis=0).all()
            if node != vtree.root:
                assert weights.any(axis=1).all()
                assert len(np.unique(weights, axis=0)) == block.n_units


@given(seeds)
def test_minimising_twice_changes_nothing(seed):
    vtree, blocks = drawn_blocks(seed, zeros=0.4)
    once = Circuit.from_blocks(vtree, blocks)
    twice = Circuit.from_blocks(vtree, once.blocks)
    assert twice.n_units == once.n_units
    assert twice.n_edges == once.n_edges


def test_equal_units_become_one_from_the_leaves_up():
    table = Table(np.array([[0.2, 0.8], [0.2, 0.8], [0.5, 0.5]]))
    # the first two products, and with them the two sums, are equal once tables are merged
    weights = np.array([[0.5, 0.0, 0.5], [0.0, 0.5, 0.5]])
    block = Inner(3, 2, np.arange(3), np.arange(3), weights)
    vtree = Vtree.from_nested(((0, 1), 2))
    top = Inner(2, 1, np.array([0, 1]), np.array([0, 0]), np.array([[0.3, 0.7]]))
    p = Circuit.from_blocks(vtree, [table, table, block, Table(np.array([[0.1, 0.9]])), top])
    assert [b.n_units for b in p.blocks] == [2, 2, 1, 1, 1]
    assert p.blocks[2].n_products == 2
    assert p.blocks[-1].csr.toarray().tolist() == [[1.0]]


def test_equal_products_of_one_sum_add_their_weights():
    table = Table(np.array([[0.2, 0.8], [0.2, 0.8]]))
    root = Inner(2, 1, np.arange(2), np.arange(2), np.array([[0.25, 0.5]]))
    p = Circuit.from_blocks(PAIR, [table, table, root])
    assert p.blocks[-1].csr.toarray().tolist() == [[0.75]]
    cancelled = Inner(2, 1, np.arange(2), np.arange(2), np.array([[0.5, -0.5]]))
    q = Circuit.from_blocks(PAIR, [table, table, cancelled])
    assert q.log_partition() == -np.inf


def test_equal_and_zero_roots_keep_their_places():
    table = Table(np.array([[0.2, 0.8], [0.0, 0.0]]))
    root = Inner(2, 4, np.arange(2), np.zeros(2, int), np.array([[1, 0], [0, 1], [1, 1], [2, 0]]))
    p = Circuit.from_blocks(PAIR, [table, Table(np.array([[0.5, 0.5]])), root])
    assert p.n_roots == 4
    assert_close(np.exp(p.log_partition()), np.array([1.0, 0.0, 1.0, 2.0]))
    unweighted = Inner(3, 3, np.array([0, 1, 0]), np.zeros(3, int), None)
    p = Circuit.from_blocks(PAIR, [table, Table(np.array([[0.5, 0.5]])), unweighted])
    assert p.n_roots == 3
    assert_close(np.exp(p.log_partition()), np.array([1.0, 0.0, 1.0]))
    assert p.blocks[-1].n_products == 1


@pytest.mark.parametrize("roots", [1, 3])
@pytest.mark.parametrize("nested", [0, (0, 1), ((0, 1), (2, 3))])
def test_circuits_that_are_zero_everywhere(nested, roots):
    vtree = Vtree.from_nested(nested)
    blocks = []
    for v in vtree.variable:
        blocks.append(Table(np.zeros((2, 3))) if v >= 0 else Inner(2, 2, None, None, None))
    if vtree.n_nodes > 1:
        blocks[-1] = Inner(2, roots, None, None, np.ones((roots, 2)))
    else:
        blocks = [Table(np.zeros((roots, 3)))]
    p = Circuit.from_blocks(vtree, blocks)
    assert p.n_roots == roots
    assert p.cardinalities == (3,) * vtree.n_variables
    assert (np.asarray(p.log_partition()) == -np.inf).all()
    rows = np.zeros((2, vtree.n_variables))
    assert (p.log_likelihood(rows) == -np.inf).all()


def test_real_circuits_that_are_zero_everywhere():
    zero = Real(np.zeros((1, 2)), np.zeros(2), np.ones(2))
    for blocks in ([zero], [zero, zero, Inner(1, 1, None, None, None)]):
        vtree = Vtree.balanced((len(blocks) + 1) // 2)
        p = Circuit.from_blocks(vtree, blocks)
        assert p.log_partition() == -np.inf
        assert p.cardinalities == (None,) * vtree.n_variables
        assert p.log_likelihood(np.zeros((1, vtree.n_variables))).tolist() == [-np.inf]


def test_equal_normal_components_become_one():
    normal = Real(
        np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]),
        np.array([1.0, 1.0, 5.0]),
        np.array([2.0, 2.0, 1.0]),
    )
    block, place = normal.merged()
    assert (block.n_units, len(block.mean)) == (1, 1)
    assert place.tolist() == [0, 0, -1]


def test_stacking_a_circuit_on_itself_shares_everything():
    rng = np.random.default_rng(0)
    vtree, cards = Vtree.balanced(6), [2] * 6
    p = Circuit.from_blocks(vtree, random_blocks(rng, vtree, cards))
    both = algebra.stack([p, p])
    assert both.n_roots == 2
    assert sum(b.n_units for b in both.blocks[:-1]) == sum(b.n_units for b in p.blocks[:-1])
