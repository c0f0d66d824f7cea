"""Whatever circuit the library makes, its file holds it to the last bit."""

import numpy as np
import pytest
from scipy import sparse

import expectedkernels as ek
from assertions import assert_same_circuit
from expectedkernels import CircuitError
from oracles import Inner, Real, Table


def _mixture(seed=0, n=3):
    rng = np.random.default_rng(seed)
    return ek.gaussian_mixture([0.2, 0.8], rng.normal(size=(2, n)), rng.random((2, n)) + 0.5)


def _discrete(seed=0, vtree=None, units=3, **options):
    vtree = ek.Vtree.balanced(5) if vtree is None else vtree
    return ek.random_circuit(vtree, units, rng=seed, **options)


def _sparse_block(index_dtype):
    weights = sparse.random_array((60, 80), density=0.03, rng=np.random.default_rng(0)).tocsr()
    weights.indices = weights.indices.astype(index_dtype)
    weights.indptr = weights.indptr.astype(index_dtype)
    rng = np.random.default_rng(0)
    tables = Table(rng.random((40, 2))), Table(rng.random((30, 3)))
    index = rng.integers(40, size=80), rng.integers(30, size=80)
    return ek.Circuit(ek.Vtree.balanced(2), (*tables, Inner(80, 60, *index, weights)))


def _stored_zeros():
    """Sparse weights with zeros among their numbers and unsorted columns."""
    weights = sparse.csr_array(
        (np.array([0.0, -0.0, 2.5]), np.array([2, 0, 1]), np.array([0, 2, 3])), shape=(2, 3)
    )
    tables = Table(np.eye(3)), Table(np.ones((3, 2)))
    return ek.Circuit(ek.Vtree.balanced(2), (*tables, Inner(3, 2, None, None, weights)))


KINDS = {
    "point masses": lambda: _mixture().condition({0: 1.0}),
    "point masses everywhere": lambda: _mixture().condition({0: 1.0, 1: -2.0, 2: 0.0}),
    "one real variable": lambda: _mixture(n=1),
    "one real variable, observed": lambda: _mixture(n=1).condition({0: 0.5}),
    "one variable": lambda: ek.factorized([[0.3, 0.7]]),
    "one state": lambda: ek.factorized([[1.0], [0.5, 0.5], [2.0]], normalized=False),
    "right-linear": lambda: _discrete(vtree=ek.Vtree.right_linear(2_000)),
    "sparse": lambda: _discrete(units=60, density=0.05),
    "sparse, wide indices": lambda: _sparse_block(np.int64),
    "sparse, narrow indices": lambda: _sparse_block(np.int32),
    "sparse, stored zeros": _stored_zeros,
    "dense": lambda: _discrete(units=40),
    "hmm": lambda: ek.hmm([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0.8, 0.2], [0.3, 0.7]], 6),
    "several roots": lambda: ek.algebra.stack([_discrete(seed) for seed in range(3)]),
    "several real roots": lambda: ek.algebra.stack([_mixture(seed) for seed in range(3)]),
    "mixture": lambda: ek.mixture([_discrete(seed) for seed in range(3)], [0.5, 0.0, 0.5]),
    "signed": lambda: ek.algebra.linear_combination([_discrete(0), _discrete(1)], [1.0, -1.0]),
    "all zero": lambda: ek.algebra.linear_combination([_discrete(0), _discrete(1)], [0.0, 0.0]),
    "no common support": lambda: ek.algebra.multiply(
        *(ek.factorized([row] * 4) for row in ([1.0, 0.0], [0.0, 1.0]))
    ),
    "no common support of reals": lambda: ek.algebra.linear_combination([_mixture()], [0.0]),
    "conditioned": lambda: _discrete(cardinalities=3).condition({0: 1, 3: 2}),
    "multiplied": lambda: ek.algebra.multiply(_discrete(0), _discrete(1)),
    "multiplied reals": lambda: ek.algebra.multiply(_mixture(0), _mixture(1)),
    "quotient": lambda: ek.algebra.quotient(_discrete(0), ek.factorized([[0.4, 0.6]] * 5)),
    "marginalized": lambda: ek.algebra.marginalize(_discrete(), [1, 2]),
    "shifted": lambda: ek.algebra.shift(_discrete(cardinalities=3), 2),
    "normalized": lambda: _discrete().normalize(),
    "single precision": lambda: ek.Circuit(
        ek.Vtree.balanced(1), (Table(np.array([[0.1, 0.9]], dtype=np.float32)),)
    ),
    "tiny and huge": lambda: ek.Circuit(
        ek.Vtree.balanced(1), (Table(np.array([[5e-324, -0.0, 1.7976931348623157e308]])),)
    ),
    "units without components": lambda: ek.Circuit(
        ek.Vtree.balanced(1), (Real(np.zeros((2, 0)), np.zeros(0), np.ones(0)),)
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip(tmp_path, kind):
    circuit = KINDS[kind]()
    ek.save(circuit, tmp_path / "a.npz")
    loaded = ek.load(tmp_path / "a.npz")
    assert_same_circuit(loaded, circuit)
    ek.save(loaded, tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


@pytest.mark.parametrize("kind", ["sparse", "point masses", "signed", "several roots"])
def test_torch_circuits_are_moved(tmp_path, kind):
    pytest.importorskip("torch")
    circuit = KINDS[kind]().to("torch")
    ek.save(circuit, tmp_path / "a.npz")
    assert_same_circuit(ek.load(tmp_path / "a.npz"), circuit.to("numpy"))


def test_numbers_that_are_not_finite_are_not_saved(tmp_path):
    circuit = ek.Circuit(ek.Vtree.balanced(1), (Table(np.array([[0.5, np.inf]])),))
    with pytest.raises(CircuitError, match="The tables of the circuit contain infinities or NaN"):
        ek.save(circuit, tmp_path / "a.npz")
    assert not (tmp_path / "a.npz").exists()


def test_labels_that_are_numbers_are_written_as_text(tmp_path):
    network = ek.BayesianNetwork([[]], [[0.2, 0.8]], names=["dose"], states=[[10, 20]])
    ek.io.write_bif(network, tmp_path / "network")
    assert ek.read_bif(tmp_path / "network").states == [["10", "20"]]
