import pickle
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

from assertions import assert_close
from circuit_oracles import drawn_circuit, joint, sparsified
from expectedkernels import (
    Circuit,
    CircuitError,
    Vtree,
    factorized,
    gaussian_mixture,
    random_circuit,
)
from oracles import Inner, Real, Table

seeds = st.integers(0, 2**32 - 1)
PAIR = Vtree.balanced(2)
HALF = Table(np.array([[0.5, 0.5]]))


def two(root, left=HALF, right=HALF):
    return Circuit.from_blocks(PAIR, [left, right, root])


def test_sizes():
    # two sums over the three products of two tables each; one sum is a plain product
    weights = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]])
    block = Inner(3, 2, np.array([0, 0, 1]), np.array([0, 1, 1]), weights)
    tables = Table(np.array([[0.2, 0.8], [0.6, 0.4]]))
    p = two(block, tables, Table(np.array([[0.1, 0.3, 0.6], [0.0, 1.0, 0.0]])))
    assert p.n_variables == 2
    assert p.cardinalities == (2, 3)
    assert p.n_roots == 2
    assert p.n_units == 2 + 2 + 3 + 1
    assert p.n_edges == 2 * 3 + 3
    assert p.n_parameters == 4 + 6 + 3
    assert repr(p) == "<Circuit of 2 variables: 8 units, 9 edges, 2 roots>"
    assert p.input(1).cardinality == 3
    p = gaussian_mixture([0.5, 0.5], [[0.0, 1.0], [1.0, 1.0]], [[1.0, 2.0], [1.0, 2.0]])
    assert p.cardinalities == (None, None)
    # the second variable has one distinct component, merged
    assert p.n_units == 2 + 1 + 2 + 1
    assert p.n_parameters == (2 + 4) + (1 + 2) + 2
    p = random_circuit(5, 4, rng=0, density=0.5)
    q = sparsified(p)
    assert (p.n_units, p.n_edges, p.n_parameters) == (q.n_units, q.n_edges, q.n_parameters)


@given(seeds)
def test_circuits_move_there_and_back(seed):
    p = drawn_circuit(seed, n_max=3, roots=2, share_real=0.3)
    for where in ("torch", "numpy", pytest.importorskip("array_api_strict")):
        there = p.to(where)
        assert there.vtree is p.vtree
        assert (there.n_units, there.n_edges) == (p.n_units, p.n_edges)
        assert there.cardinalities == p.cardinalities
        back = there.to("numpy")
        for a, b in zip(p.blocks, back.blocks, strict=True):
            assert type(a) is type(b)
            if isinstance(a, Table):
                np.testing.assert_array_equal(a.table, b.table)
            elif isinstance(a, Real):
                for name in ("weights", "mean", "variance"):
                    np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
            else:
                np.testing.assert_array_equal(a.index("left"), b.index("left"))
                np.testing.assert_array_equal(a.index("right"), b.index("right"))
                np.testing.assert_array_equal(a.csr.toarray(), b.csr.toarray())


def test_arrays_are_where_they_were_moved(xp):
    p = random_circuit(3, 2, rng=0, density=0.9).to(xp)
    kind = type(p.xp.ones(1))
    assert kind.__module__.partition(".")[0] == getattr(xp, "__name__", xp)
    for block in p.blocks:
        arrays = [block.table] if isinstance(block, Table) else [block.left, block.weights]
        assert all(x is None or isinstance(x, kind) for x in arrays)
    normal = gaussian_mixture([1.0], [0.0], [1.0]).to(xp)
    assert isinstance(normal.blocks[0].mean, kind)


def test_unknown_targets_are_refused():
    with pytest.raises(CircuitError, match="Got 3 instead"):
        random_circuit(2, 1, rng=0).to(3)


@given(seeds)
def test_alignment_keeps_the_function(seed):
    p = drawn_circuit(seed, n_max=5, roots=2)

    def mirrored(nested):
        return nested if isinstance(nested, int) else tuple(mirrored(x) for x in nested[::-1])

    vtree = Vtree.from_nested(mirrored(p.vtree.to_nested()))
    q = p.aligned_to(vtree)
    assert q.vtree == vtree
    assert_close(joint(q), joint(p), np.abs(joint(p)) + 1e-300)
    assert p.aligned_to(p.vtree) is p


def test_alignment_and_frozen_circuits():
    p = factorized([[0.5, 0.5]] * 3, Vtree.right_linear(3))
    assert p.aligned_to(Vtree.left_linear(3)) is None
    p = factorized([[0.5, 0.5]])
    with pytest.raises(AttributeError):
        p.vtree = Vtree.balanced(1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Circuit.from_blocks(
                Vtree.balanced([1, 2]), [HALF, HALF, Inner(1, 1, *[None] * 3)]
            ),
            r"variables of a circuit are 0 to 1. Got a vtree over \[1, 2\]",
        ),
        (lambda: Circuit.from_blocks(PAIR, [HALF, HALF]), "vtree of 3 nodes .* Got 2"),
        (lambda: two(Inner(1, 1, np.array([1]), np.array([0]), None)), r"vtree node 2, left"),
        (
            lambda: two(Inner(2, 2, np.array([0, 0]), np.array([-1, 0]), None)),
            r"right inputs must be in 0..0. Got -1..0",
        ),
        (lambda: two(Inner(1, 1, None, None, np.array([[np.nan]]))), r"vtree node 2 \(variables"),
        (
            lambda: two(Inner(1, 1, None, None, sparse.csr_array(np.array([[np.inf]])))),
            "must be finite numbers. Got NaN or infinity",
        ),
        (
            lambda: two(Inner(1, 1, None, None, None), Table(np.array([[np.inf, 1.0]]))),
            r"vtree node 0 \(variables \[0\]\)",
        ),
        (lambda: gaussian_mixture([1.0], [np.nan], [1.0]), "Normal inputs of variable 0 need"),
        (lambda: gaussian_mixture([1.0], [0.0], [-1.0]), "variances"),
        (
            lambda: gaussian_mixture([np.nan], [0.0], [1.0], normalized=False),
            "must be finite numbers",
        ),
    ],
)
def test_blocks_are_checked(make, message):
    with pytest.raises(CircuitError, match=message):
        make()


@pytest.mark.parametrize("copied", [lambda p: p, lambda p: pickle.loads(pickle.dumps(p)), deepcopy])
def test_arrays_of_a_circuit_cannot_be_written_to(copied):
    table = np.array([[0.5, 0.5]])
    circuits = [
        two(Inner(1, 1, None, None, np.array([[2.0]])), Table(table)),
        random_circuit(Vtree.balanced(4), 60, rng=0, density=0.02),
        gaussian_mixture([0.4, 0.6], [[0.0, 1.0], [2.0, 3.0]], [[1.0, 1.0], [2.0, 1.0]]),
        random_circuit(3, 2, rng=0).condition({0: 1}),
    ]
    for p in map(copied, circuits):
        for block in p.blocks:
            for array in block.arrays:
                numbers = array.data if sparse.issparse(array) else array
                if numbers is not None:
                    with pytest.raises(ValueError, match="read-only"):
                        numbers[...] = 1.0
            if isinstance(block, Inner):
                with pytest.raises(ValueError, match="read-only"):
                    block.csr.data[0] = 1.0
    table += 1.0  # what was given stays as it was, for its owner


def test_circuits_that_are_there_already_stay_as_they_are(xp):
    p = random_circuit(5, 3, rng=0, density=0.5).to(xp)
    assert p.to(xp) is p
    assert p.condition({}).to("numpy") is not p
    other = p.to("numpy")
    assert (other is p) == (xp == "numpy")
    assert other.to("numpy") is other


def test_names_of_devices_of_arrays_that_stay():
    torch = pytest.importorskip("torch")
    p = random_circuit(3, 2, rng=0)
    q = p.to("torch")
    assert q.to("cpu") is q
    assert p.to("cpu") is not p
    table = torch.tensor([[0.25, 0.75]], dtype=torch.float64, requires_grad=True)
    r = Circuit(Vtree.balanced(1), (Table(table),))
    assert r.to("torch") is r
