import gc
import weakref

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

from circuit_oracles import random_blocks, random_domain
from expectedkernels import Vtree
from expectedkernels.data.evidence import patterns, uniform
from expectedkernels.engine import plan as plan_module
from expectedkernels.engine.plan import child_index, fold, folded_plan
from oracles import Inner

seeds = st.integers(0, 2**32 - 1)


def folds_of(rng, vtree, cardinalities, n, largest=64 * 64):
    """Folds of random circuits on one vtree, and their blocks."""
    found = []
    for _ in range(n):
        blocks = random_blocks(rng, vtree, cardinalities)
        inner = [block if isinstance(block, Inner) else None for block in blocks]
        units = [block.n_units for block in blocks]
        keys = [None if isinstance(b, Inner) else b.cardinality for b in blocks]
        found.append(fold(vtree, units, inner, keys, largest))
    return found


def identity_blocks(vtree, n):
    return [None if v >= 0 else Inner(n, n, None, None, None) for v in vtree.variable]


@given(seeds)
def test_folds_have_a_place_with_room_for_every_node(seed):
    rng = np.random.default_rng(seed)
    vtree, cardinalities = random_domain(rng)
    (found,) = folds_of(rng, vtree, cardinalities, 1)
    for node in range(vtree.n_nodes):
        group, slot = int(found.group[node]), int(found.slot[node])
        assert found.members[group][slot] == node
        heights = vtree.height[found.members[group]]
        assert (heights == heights[0]).all()
        block = found.inner[node]
        if block is not None:
            assert found.units[group] >= block.n_units
            assert found.products[group] >= block.n_products
        if found.single[group]:
            assert found.members[group].tolist() == [node]
    assert sum(len(nodes) for nodes in found.members) == vtree.n_nodes


@given(seeds)
def test_folded_inputs_point_at_the_units_of_the_children(seed):
    rng = np.random.default_rng(seed)
    vtree, cardinalities = random_domain(rng)
    (found,) = folds_of(rng, vtree, cardinalities, 1)
    for group, nodes in enumerate(found.members):
        if vtree.is_leaf(nodes[0]):
            continue
        for side in ("left", "right"):
            stacked = found.index(group, np.arange(len(nodes)), side)
            for slot, node in enumerate(nodes):
                block = found.inner[node]
                if stacked is None:
                    assert getattr(block, side) is None
                    continue
                assert stacked.shape == (len(nodes), found.products[group])
                np.testing.assert_array_equal(stacked[slot, : block.n_products], block.index(side))
                some = found.index(group, np.array([slot]), side)
                np.testing.assert_array_equal(some[0], stacked[slot])


def test_sparse_and_large_blocks_and_special_leaves_stay_alone():
    vtree = Vtree.balanced(4)
    blocks = identity_blocks(vtree, 4)
    keys = [None if v == 3 else "table" for v in vtree.variable]
    found = fold(vtree, [4] * 7, blocks, keys, largest=3)
    alone = [bool(found.single[found.group[node]]) for node in range(7)]
    assert alone == [v < 0 or v == 3 for v in vtree.variable]
    blocks[2] = Inner(4, 4, None, None, sparse.csr_array(np.eye(4)))
    found = fold(vtree, [4] * 7, blocks, keys)
    assert [bool(found.single[found.group[node]]) for node in (2, 5)] == [True, False]
    blocks[2] = blocks[5]
    together = fold(vtree, [4] * 7, blocks, [2] * 7)
    assert len(together.members) == 3


@given(seeds, st.integers(1, 3))
def test_plans_compute_every_node_once_after_its_children(seed, n_operands):
    rng = np.random.default_rng(seed)
    vtree, cardinalities = random_domain(rng)
    folds = folds_of(rng, vtree, cardinalities, n_operands)
    batch = tuple(rng.integers(1, 3, size=n_operands).tolist())
    plan = folded_plan(tuple(folds), batch)
    step_of = {}
    for number, step in enumerate(plan.steps):
        for node in step.nodes.tolist():
            assert node not in step_of
            step_of[node] = number
    assert sorted(step_of) == list(range(vtree.n_nodes))
    assert step_of[vtree.root] == len(plan.steps) - 1
    freed = [source for step in plan.steps for source in step.last_use]
    assert sorted(freed) == list(range(len(plan.steps) - 1))
    for number, step in enumerate(plan.steps):
        if vtree.is_leaf(step.nodes[0]):
            assert step.left is None
            assert step.right is None
            continue
        for side, gather in (("left", step.left), ("right", step.right)):
            children = getattr(vtree, side)[step.nodes]
            assert set(gather.sources) == {step_of[int(child)] for child in children}
            assert all(source < number for source in gather.sources)
            for source in gather.sources:  # still there
                assert all(source not in earlier.last_use for earlier in plan.steps[:number])


@pytest.mark.parametrize("n", [1, 2, 64])
def test_balanced_vtrees_take_one_step_per_level(n):
    vtree = Vtree.balanced(n)
    found = fold(vtree, [3] * vtree.n_nodes, identity_blocks(vtree, 3), [2] * vtree.n_nodes)
    plan = folded_plan((found, found), (1, 5))
    assert len(plan.steps) == 1 + int(np.log2(n))
    assert plan.shapes[0] == (n, 3, 15)
    assert plan.shapes[-1] == (1, 3, 15)


def uneven():
    """The fold of blocks of two and of three units."""
    vtree = Vtree.balanced(4)
    units = [2 + node % 2 for node in range(7)]
    blocks = [
        None if vtree.is_leaf(v) else Inner(units[v], units[v], np.zeros(units[v], int), None, None)
        for v in range(7)
    ]
    return fold(vtree, units, blocks, ["same"] * 7)


def test_small_blocks_of_different_sizes_are_padded_to_one_shape():
    plan = folded_plan((uneven(),), (1,))
    assert len(plan.steps) == 3
    assert plan.shapes[0] == (4, 3)


def test_plans_can_be_printed():
    vtree = Vtree.right_linear(3)
    found = fold(vtree, [2] * 5, identity_blocks(vtree, 2), [2] * 5)
    assert str(folded_plan((found,), (4,))).splitlines() == [
        "3 steps for 5 nodes",
        "  3 leaves: (3, 8)",
        "  1 inner nodes: (1, 8)",
        "  1 inner nodes: (1, 8)",
    ]


def test_plans_are_cached():
    vtree = Vtree.balanced(4)
    found = fold(vtree, [2] * 7, identity_blocks(vtree, 2), [2] * 7)
    assert folded_plan((found,), (1,)) is folded_plan((found,), (1,))
    assert folded_plan((found,), (1,)) is not folded_plan((found,), (2,))


def test_inputs_of_batched_products():
    vtree = Vtree.balanced(2)
    block = Inner(2, 2, np.array([1, 0]), None, None)
    assert child_index(block, None, 2, "left", 2).tolist() == [1, 0]
    assert child_index(block, None, 2, "right", 2) is None
    assert child_index(block, uniform(vtree, 2), 2, "left", 2).tolist() == [1, 0, 3, 2]
    assert child_index(block, uniform(vtree, 2), 2, "right", 2) is None
    found = patterns(vtree, [np.array([1, 0]), np.array([0, 0])], [2, 1])
    assert child_index(block, found, 2, "left", 3).tolist() == [4, 3, 1, 0]
    assert child_index(block, found, 2, "right", 2).tolist() == [0, 1, 0, 1]


def test_the_largest_fold_keeps_plans_and_no_partners():
    vtree = Vtree.balanced(4)
    owner = fold(vtree, [4] * 7, identity_blocks(vtree, 4), [2] * 7)
    lasting = fold(vtree, [2] * 7, identity_blocks(vtree, 2), [2] * 7)
    kept = folded_plan((lasting, owner), (1, 1))
    for n in (1, 2, 3):
        partner = fold(vtree, [n] * 7, identity_blocks(vtree, n), [2] * 7)
        gone = weakref.ref(partner)
        folded_plan((owner, partner), (1, 1))
        assert len(partner.plans) == 0
        del partner
        gc.collect()
        assert gone() is None
        assert len(owner.plans) == 2  # those of partners before are forgotten
    assert folded_plan((lasting, owner), (1, 1)) is kept


def test_plans_that_are_kept_are_few_and_small(monkeypatch):
    found = uneven()
    first = folded_plan((found,), (1,))
    assert first.index_bytes > 0
    for copies in range(2, 60):
        folded_plan((found,), (copies,))
        assert len(found.plans) <= plan_module.CACHED_PLANS
    assert folded_plan((found,), (59,)) is folded_plan((found,), (59,))
    assert folded_plan((found,), (1,)) is not first
    monkeypatch.setattr(plan_module, "CACHED_BYTES", 3 * first.index_bytes)
    folded_plan((found,), (2,))
    last = folded_plan((found,), (1,), 1e9)
    assert len(found.plans) <= 2
    assert folded_plan((found,), (1,), 1e9) is last


def test_memory_of_plans_counts_the_products_of_a_step():
    vtree = Vtree.balanced(2)
    block = Inner(6, 2, np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, 0, 1, 0, 1]), np.ones((2, 6)))
    plan = folded_plan((fold(vtree, [2, 2, 2], [None, None, block], [2, 2, None]),), (5,))
    assert plan.shapes == [(2, 10), (1, 10)]
    assert plan.products[-1] == (1, 30)
    # the leaves, the root, two gathered children of its products, and the indices of these
    assert plan.index_bytes == 2 * 8 * 30
    assert plan.peak_bytes == plan.index_bytes + 8 * (20 + 10 + 2 * 30)
    assert (
        folded_plan((fold(vtree, [2] * 3, [None, None, block], [2, 2, None]),), (5,), 1199) is None
    )
