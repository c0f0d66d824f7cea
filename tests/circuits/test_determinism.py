import numpy as np
import pytest
from hypothesis import given, strategies as st

from circuit_oracles import drawn_circuit, drawn_deterministic, sparsified
from expectedkernels import (
    Categorical,
    Circuit,
    Gaussian,
    Indicator,
    Product,
    Sum,
    Vtree,
    factorized,
    gaussian_mixture,
    hmm,
    mixture,
    properties,
    random_circuit,
)
from oracles import Inner, Real, Table

seeds = st.integers(0, 2**32 - 1)


def deterministic(circuit):
    return properties(circuit).deterministic


def first_overlap(circuit):
    """The first (node, unit) whose inputs overlap, by enumeration of supports; None if none."""
    vtree, supports = circuit.vtree, []
    for node, block in enumerate(circuit.blocks):
        if isinstance(block, Table):
            supports.append(block.table != 0)
            continue
        left = supports[vtree.left[node]][block.index("left")]
        right = supports[vtree.right[node]][block.index("right")]
        products = (left[:, :, None] & right[:, None, :]).reshape(len(left), -1)
        used = block.csr.toarray() != 0
        counts = used.astype(int) @ products.astype(int)
        if (counts > 1).any():
            return node, int(np.flatnonzero((counts > 1).any(axis=1))[0])
        supports.append(counts > 0)
    return None


@given(seeds, st.sampled_from([0.3, 0.6, 0.8]), st.booleans())
def test_decided_as_by_enumeration(seed, zeros, signed):
    p = drawn_circuit(seed, n_max=5, zeros=zeros, signed=signed)
    expected = first_overlap(p)
    verdict = deterministic(p)
    assert verdict.holds is (expected is None)
    if expected is not None:
        node, unit = expected
        assert f"sum unit {unit} at vtree node {node} " in verdict.reason


@given(seeds)
def test_random_decisions_are_deterministic(seed):
    p = drawn_deterministic(seed)
    assert first_overlap(p) is None
    assert deterministic(p)
    assert deterministic(sparsified(p))


def test_reasons_and_what_normals_and_conditionals_keep():
    p = mixture(
        [
            factorized([[1, 1], [1, 0]], normalized=False),
            factorized([[0, 1], [1, 1]], normalized=False),
        ]
    )
    verdict = deterministic(p)
    assert repr(verdict) == (
        "no: sum unit 0 at vtree node 2 (variables {0, 1}) has inputs 0 and 1 with overlapping "
        "supports"
    )
    wide = deterministic(random_circuit(Vtree.right_linear(12), 2, rng=0))
    assert "(variables {10, 11})" in wide.reason
    long = mixture([factorized([[0.5, 0.5]] * 12), factorized([[0.2, 0.8]] * 12)])
    assert "(variables {0, 1, 2, 3, 4, 5, 6, 7, ...})" in deterministic(long).reason

    def branch(i, mean):
        return Product([Indicator(0, i, 2), Gaussian(1, mean, 1.0)])

    assert deterministic(Circuit.from_units(Sum([branch(0, 0.0), branch(1, 1.0)], [0.5, 0.5])))
    overlap = Circuit.from_units(
        Sum(
            [branch(0, 0.0), Product([Categorical(0, [0.5, 0.5]), Gaussian(1, 1.0, 1.0)])],
            [0.5, 0.5],
        )
    )
    assert deterministic(overlap).holds is False
    p = Circuit.from_units(
        Sum(
            [Product([Indicator(0, i, 2), Gaussian(1, float(i), 1.0)]) for i in range(2)],
            [0.5, 0.5],
        )
    )
    assert deterministic(p.condition({1: 0.3}))


@pytest.mark.parametrize(
    ("p", "holds"),
    [
        (factorized([[0.5, 0.5]] * 3), True),
        (gaussian_mixture([1.0], [[0.0, 1.0]], [[1.0, 1.0]]), True),
        (gaussian_mixture([0.5, 0.5], [0.0, 1.0], [1.0, 1.0]), False),
        (gaussian_mixture([0.5, 0.5], [[0.0, 1.0]] * 2, [[1.0, 1.0]] * 2), True),  # one component
        (gaussian_mixture([0.5, 0.5], [[0.0, 1.0], [9.0, 9.0]], [[1.0, 1.0]] * 2), False),
        (hmm([0.5, 0.5], np.full((2, 2), 0.5), np.eye(2), length=4), True),
        (hmm([0.5, 0.5], np.full((2, 2), 0.5), np.full((2, 2), 0.5), length=4), True),
        (hmm([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.1, 0.9]], length=4), False),
    ],
)
def test_cases(p, holds):
    assert deterministic(p).holds is holds


@pytest.mark.parametrize(("points", "holds"), [((0.0, 1.0), True), ((1.0, 1.0), False)])
def test_points_of_mass_only_meet_themselves(points, holds):
    normal = Real(np.eye(2), np.array(points), np.array([0.0, 0.0]))
    table = Table(np.array([[0.5, 0.5], [0.2, 0.8]]))
    root = Inner(2, 1, np.arange(2), np.arange(2), np.array([[0.5, 0.5]]))
    assert deterministic(Circuit(Vtree.balanced(2), (normal, table, root))).holds is holds
    beside = Real(np.eye(2), np.array(points), np.array([0.0, 1.0]))  # in a density
    assert deterministic(Circuit(Vtree.balanced(2), (beside, table, root))).holds is False


def test_answers_do_not_depend_on_where_arrays_are(xp):
    for p in (factorized([[0.5, 0.5]] * 3), random_circuit(3, 2, rng=0)):
        assert deterministic(p.to(xp)) == deterministic(p)


@pytest.mark.parametrize("meet", [True, False])
def test_supports_of_very_different_sizes(meet):
    # the supports of two units have 2 ** n points and one point in common; the inner products
    # of supports are so far apart that no scale holds both
    n = 1500
    vtree = Vtree.from_nested((n, Vtree.right_linear(n).to_nested()))
    every, zero = np.array([1.0, 1.0]), np.array([1.0, 0.0])
    blocks = []
    for node, variable in enumerate(vtree.variable.tolist()):
        if variable == n:
            blocks.append(Table(np.array([zero, every if meet else every - zero])))
        elif variable == n - 1:
            blocks.append(Table(np.array([every, zero])))
        elif variable >= 0:
            blocks.append(Table(np.eye(2)))
        elif node < vtree.root:
            # unit 0 branches on the variable, unit 1 fixes it
            left, right = np.array([0, 1, 0]), np.array([0, 0, 1])
            blocks.append(Inner(3, 2, left, right, np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])))
        else:
            index = np.array([0, 1])
            blocks.append(Inner(2, 1, index, index, np.array([[0.5, 0.5]])))
    p = Circuit.from_blocks(vtree, blocks)
    verdict = deterministic(p)
    assert verdict.holds is not meet
    if meet:
        assert f"at vtree node {vtree.root} " in verdict.reason
