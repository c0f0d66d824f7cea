"""EM in batches, on devices and by chunks, against EM on all rows in NumPy."""

import sys

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_close, refusals
from circuit_oracles import sparsified
from expectedkernels import Vtree
from expectedkernels.engine import operations as tensors
from expectedkernels.engine.operations import TensorLayers
from expectedkernels.learning import minibatch as epochs
from expectedkernels.learning.em import layer_counts, pattern_counts
from expectedkernels.learning.minibatch import circuit_of, start_of, stepped
from expectedkernels.learning.training_data import Data
from learning_searches import assert_alike, pieces, table
from oracles import with_holes

P = ek.random_circuit(Vtree.random(12, rng=1), 18, rng=1, cardinalities=4, density=0.5)
START = ek.random_circuit(P.vtree, 18, rng=5, cardinalities=4, density=0.7)
RNG = np.random.default_rng(0)
X = with_holes(P.sample(120, rng=1), 0.3)
GAPS = table(240, missing=0.1)
QUIET = {"progress": False}


@pytest.mark.parametrize("in_chunks", [False, True])
@pytest.mark.parametrize("weight", [1e-30, 1e30])
def test_the_size_of_weights_does_not_matter_in_single_precision(weight, in_chunks, monkeypatch):
    """Every step as on a card, where derivatives times tiny weights would vanish."""
    pytest.importorskip("torch")
    n_states = 3 if weight < 1 else 200
    start = ek.random_circuit(6, 3, rng=0, cardinalities=n_states)
    rows = np.random.default_rng(0).integers(0, n_states, size=(40, 6))
    options = {"pseudocount": 0.5, "progress": False}
    wanted = ek.em(start, rows, 3, **options)
    monkeypatch.setattr(TensorLayers, "is_remote", True)
    monkeypatch.setattr(epochs, "fits", lambda *of: True)
    monkeypatch.setattr(tensors, "total_bytes", lambda like: 2**34)
    monkeypatch.setattr(epochs, "replayed", lambda kept, key, run, inputs: run(*inputs))
    options |= {"device": "torch", "dtype": "float32"}
    weights = np.full(40, weight)
    options["sample_weight"] = (lambda chunk: weights) if in_chunks else weights
    found = ek.em(start, (lambda: [rows]) if in_chunks else rows, 3, **options)
    np.testing.assert_allclose(found.log_likelihood(rows), wanted.log_likelihood(rows), rtol=1e-4)


def test_zeros_stay_zero_and_idle_units_stay():
    p = ek.factorized([[0.5, 0.5, 0.0], [0.3, 0.7]])
    q = ek.em(p, [[0, 0], [0, np.nan]], 3, batch_size=1, rng=0, step=0.5, progress=False)
    table = q.input(0).table
    assert table[0, 2] == 0
    assert 0 < table[0, 1] < 0.2
    trained = start_of(p, None, None, 0.0, 1.0)
    same = circuit_of(stepped(trained, 0.0 * trained.layers.flat, 0.0, 1.0))
    assert_close(same.input(0).table, p.input(0).table)


def test_soft_evidence(monkeypatch):
    pytest.importorskip("torch")
    soft = [np.random.default_rng(v).random((30, 4)) for v in range(12)]
    wanted = ek.em(START, soft, 2, progress=False)
    for is_remote in (False, True):
        monkeypatch.setattr(TensorLayers, "is_remote", is_remote)
        monkeypatch.setattr(tensors, "total_bytes", lambda like: 2**34)
        found = ek.em(START, soft, 2, progress=False, device="torch")
        assert_close(found.log_likelihood(X), wanted.log_likelihood(X))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_too_far_apart_are_worked_out_in_wide_numbers(dtype, sparse):
    pytest.importorskip("torch")
    n = 200
    one, other = [[1 - 1e-3, 1e-3]] * n, [[1e-3, 1 - 1e-3]] * n
    p = ek.mixture([ek.factorized(one + other), ek.factorized(other + one)], [0.3, 0.7])
    p = sparsified(p) if sparse else p
    rows = np.zeros((4, 2 * n))
    rows[1:, n:] = np.nan
    rows[3, 0] = np.nan
    weights = [1.0, 2.0, 0.0, 1.0]
    options = {"pseudocount": 1.0, "sample_weight": weights, "progress": False}
    wanted = ek.em(p, rows, 2, **options).log_likelihood(rows)
    found = ek.em(p, rows, 2, device="torch", dtype=dtype, **options).log_likelihood(rows)
    np.testing.assert_allclose(found, wanted, rtol=1e-10 if dtype == "float64" else 1e-5)
    large = ek.random_circuit(8, 20, rng=0, density=0.5 if sparse else 1.0)
    X = large.sample(10, rng=0)
    data = Data(large.schema, X).held
    trained = start_of(large, "torch", None, 0.0, 1.0)
    found = pattern_counts(large, data)[1]
    numbers = [None if part is None else part[0] for part in found]
    counts = trained.layers.from_nodes(numbers)
    again = layer_counts(trained, data)[1]
    pairs = map(trained.layers.by_node, (counts, again))
    for one, other in zip(*pairs, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_circuits_in_torch_are_fitted_there():
    pytest.importorskip("torch")
    wanted = ek.em(START, X, 2, progress=False).log_likelihood(X)
    for dtype, off in (("float64", 1e-10), ("float32", 1e-4)):
        found = ek.em(START.to("torch", dtype=dtype), X, 2, progress=False).log_likelihood(X)
        np.testing.assert_allclose(found, wanted, atol=off)
        assert np.abs(found - wanted).max() > off / 1e5  # in numbers of this type
    real = ek.gaussian_mixture([0.3, 0.7], [0.0, 2.0], [1.0, 2.0])
    one, other = (ek.em(p, [[0.5], [1.5]], 1, progress=False) for p in (real.to("torch"), real))
    assert_close(one.log_likelihood([[0.5]]), other.log_likelihood([[0.5]]))


def test_batches_end_with_their_chunk(monkeypatch):
    module = sys.modules[ek.em.__module__]
    made, own = [], module.stepped
    monkeypatch.setattr(module, "stepped", lambda *given: made.append(given[2:]) or own(*given))
    start = ek.random_circuit(4, 2, 0, cardinalities=3)
    before = start.log_likelihood(GAPS).mean()
    options = {"pseudocount": float(len(GAPS)), "step": (1.0, 0.3), **QUIET}
    ek.em(start, lambda: pieces(GAPS, 100), 2, batch_size=60, rng=0, **options)
    sizes, steps = zip(*made, strict=True)
    np.testing.assert_allclose(sizes, [60, 40, 60, 40, 40] * 2)
    np.testing.assert_allclose(steps, np.linspace(1.0, 0.3, 10))
    found = ek.em(start, lambda: pieces(GAPS, 100), 3, batch_size=10**6, rng=0, **QUIET)
    assert found.log_likelihood(GAPS).mean() > before
    assert [beta for beta, _ in made[10:]] == [0.0] * 9  # one step per chunk


def test_steps_as_they_are_made_on_a_gpu(monkeypatch):
    pytest.importorskip("torch")
    start = ek.random_circuit(4, 2, 0, cardinalities=3)
    options = {"batch_size": 20, "pseudocount": 0.5, "device": "torch", "rng": 1, **QUIET}
    wanted = ek.em(start, lambda: pieces(GAPS, 100), 2, **options)
    ran = []
    monkeypatch.setattr(TensorLayers, "is_remote", True)
    monkeypatch.setattr(epochs, "fits", lambda *given: True)
    monkeypatch.setattr(epochs, "replayed", lambda _, key, run, x: ran.append(key[0]) or run(*x))
    monkeypatch.setattr(sys.modules[ek.em.__module__], "CAPTURED", 1)
    found = ek.em(start, lambda: pieces(GAPS, 100), 2, **options)
    assert ran == [20] * 24
    assert_alike(found, wanted, GAPS)


WEIGHTS = RNG.integers(0, 3, size=120).astype(float)
PLACES = [
    {"step": 1.0},
    {"device": "torch"},
    {"device": "torch", "dtype": "float64", "batch_size": 120, "step": 1.0},
    {"device": "torch", "dtype": "float32"},
]


@pytest.mark.parametrize("options", [{}, {"sample_weight": WEIGHTS, "pseudocount": 2.0}])
@pytest.mark.parametrize("place", PLACES)
def test_all_rows_at_once_are_plain_em(place, options):
    pytest.importorskip("torch")
    wanted = ek.em(START, X, 4, progress=False, **options)
    found = ek.em(START, X, 4, progress=False, **options, **place)
    near = {"rtol": 0, "atol": 1e-5} if place.get("dtype") == "float32" else {"rtol": 1e-10}
    np.testing.assert_allclose(found.log_likelihood(X), wanted.log_likelihood(X), **near)
    assert abs(found.log_partition()) < 1e-12
    assert found.is_on_cpu
    for one, other in zip(found.blocks, wanted.blocks, strict=True):
        assert type(one.numbers) is type(other.numbers)


def test_one_batch_moves_weights_by_its_step():
    # one variable with states 0 and 1, seen 3 times and once; halfway from (1/2, 1/2)
    p = ek.factorized([[0.5, 0.5]])
    rows = [[0], [0], [0], [1]]
    q = ek.em(p, rows, 1, step=0.5, progress=False)
    assert_close(q.input(0).table, [[0.625, 0.375]])
    q = ek.em(p, rows, 1, batch_size=4, step=(0.5, 0.1), pseudocount=4.0, progress=False)
    assert_close(q.input(0).table, [[0.5 + 0.5 * (5 / 8 - 0.5), 0.5 - 0.5 * (5 / 8 - 0.5)]])


SURE = ek.factorized([[1.0, 0.0], [0.5, 0.5]])
REAL = ek.gaussian_mixture([0.3, 0.7], [0.0, 2.0], [1.0, 2.0])


test_what_is_wrong_is_said = refusals(None, [
    (SURE, [[0, 0], [0, 1], [1, 0]], {"batch_size": 3}, ek.DataError,
     "Row 2 of the data has probability zero"),
    (REAL, [[0.5]], {"batch_size": 1}, ek.CircuitError,
     "Variable 0 is real: leave out batch_size and device"),
    (SURE, [[0, 0]], {"dtype": "float32"}, ek.CircuitError, "precision needs device='torch'"),
], lambda circuit, rows, options: ek.em(circuit, rows, **QUIET, **options))  # fmt: skip
