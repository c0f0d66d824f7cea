"""Circuits in torch give the same results as in NumPy, and as sums over all states."""

import pickle
import re

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_all_close, assert_close, assert_logs_close, assert_raises, to_numpy
from circuit_oracles import drawn_circuit, drawn_distribution, marginal, posterior, rows_of
from expectedkernels import CircuitError, Vtree
from expectedkernels.circuits.conditioning import layers_of, observed
from expectedkernels.data.evidence import as_evidence
from expectedkernels.engine import sampling
from expectedkernels.engine.operations import TensorLayers
from expectedkernels.engine.passes import backward, forward
from oracles import evidence_as_weights
from strategies import points

torch = pytest.importorskip("torch")
CIRCUITS = {
    "small": ek.random_circuit(6, 3, rng=0, cardinalities=3),
    "sparse": ek.random_circuit(Vtree.random(40, rng=1), 12, rng=1, cardinalities=4, density=0.4),
    "wide": ek.random_circuit(Vtree.balanced(600), 3, rng=2, density=0.5),
    "deep": ek.random_circuit(Vtree.right_linear(200), 17, rng=3, cardinalities=[2, 5] * 100),
    "one variable": ek.factorized([[0.2, 0.3, 0.5]]),
}


@pytest.mark.parametrize(("dtype", "off"), [("float64", 1e-12), ("float32", 1e-5)])
@pytest.mark.parametrize("name", CIRCUITS)
def test_answers_are_those_of_arrays(name, dtype, off):
    p = CIRCUITS[name]
    q = p.to("torch", dtype=dtype)
    X = rows_of(p, 30)
    logs = q.log_likelihood(X)
    assert isinstance(logs, torch.Tensor)
    assert logs.dtype == torch.float64
    expected = p.log_likelihood(X)
    np.testing.assert_allclose(logs.numpy(), expected, rtol=off, atol=off)
    np.testing.assert_allclose(float(q.log_partition()), 0.0, atol=off)
    assert_all_close(q.marginals(X), p.marginals(X), atol=off)
    for found, wanted in zip(q.all_site_logs(X[:5]), p.all_site_logs(X[:5]), strict=True):
        assert found.dtype == torch.float64
        np.testing.assert_allclose(found.numpy(), wanted, rtol=off, atol=off)
    rng = np.random.default_rng(1)
    soft = [np.exp(3 * rng.normal(size=(4, c))) for c in p.cardinalities]
    found = q.log_likelihood(soft).numpy()
    np.testing.assert_allclose(found, p.log_likelihood(soft), rtol=off, atol=off)


@pytest.mark.parametrize("seed", range(8))
def test_zeros_and_sums_written_out(seed):
    p = drawn_distribution(seed)
    X = rows_of(p, 5, seed)
    table = posterior(p, evidence_as_weights(X, p.cardinalities))
    found = p.to("torch").marginals(X)
    for v in range(p.n_variables):
        assert_close(found[v], marginal(table, v))
    several = drawn_circuit(seed, roots=3, zeros=0.1)
    X = points(np.random.default_rng(seed), several.cardinalities, 6)
    assert_logs_close(several.to("torch").log_likelihood(X), several.log_likelihood(X))


@pytest.mark.parametrize("name", CIRCUITS)
def test_samples_are_those_of_arrays(name):
    p = CIRCUITS[name]
    q, X = p.to("torch"), rows_of(p, 6)
    np.testing.assert_array_equal(q.sample(50, rng=1), p.sample(50, rng=1))
    np.testing.assert_array_equal(q.sample(3, rng=1, evidence=X), p.sample(3, rng=1, evidence=X))
    single = p.to("torch", dtype="float32").sample(3, rng=1, evidence=X)
    assert (single == p.sample(3, rng=1, evidence=X)).mean() > 0.99


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_most_probable_rows(dtype):
    for p in (
        ek.learn_chow_liu(CIRCUITS["sparse"].sample(200, rng=0), pseudocount=1.0),
        ek.learn_chow_liu(CIRCUITS["small"].sample(200, rng=0), pseudocount=1.0),
    ):
        q, X = p.to("torch", dtype=dtype), rows_of(p, 20)
        found = q.map(X)
        assert_close(p.log_likelihood(found), p.log_likelihood(p.map(X)))
        np.testing.assert_array_equal(q.map(X[0]), found[0])
    other = CIRCUITS["small"].to("torch")
    assert_raises(ek.PropertyError, "needs a deterministic circuit", other.map, X)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_impossible_rows(dtype):
    p = ek.factorized([[1.0, 0.0], [0.5, 0.5]]).to("torch", dtype=dtype)
    zero, row = "row 0 has probability zero", [[1, 0]]
    assert_raises(ek.EvidenceError, zero, p.map, row)
    assert_raises(ek.EvidenceError, zero, p.sample, 2, rng=0, evidence=row)
    assert to_numpy(p.log_likelihood([[1, 0], [0, 0]])).tolist() == [-np.inf, np.log(0.5)]
    assert_raises(ek.EvidenceError, "row 1 has probability zero", p.marginals, [[0, 0], [1, 0]])
    assert to_numpy(p.log_likelihood(np.zeros((0, 2)))).shape == (0,)
    assert p.all_site_logs(np.zeros((0, 2)))[0].shape == (0, 2)


def test_real_variables_far_away():
    p = ek.gaussian_mixture([0.3, 0.7], [[0.0, 1.0], [2.0, -1.0]], [[1.0, 0.5], [2.0, 1.5]])
    X = np.array([[0.5, np.nan], [60.0, -60.0], [np.nan, np.nan], [0.1, 0.2]])
    q = p.to("torch")
    assert_logs_close(to_numpy(q.log_likelihood(X)), p.log_likelihood(X))
    assert_all_close(q.marginals(X), p.marginals(X), rtol=1e-10)
    assert_close(to_numpy(q.log_partition()), p.log_partition(), 1.0)
    assert_close(q.sample(8, rng=0, evidence=X), p.sample(8, rng=0, evidence=X))


def test_arrays_that_are_written_to_are_read_again():
    p = ek.random_circuit(3, 2, rng=0).to("torch")
    X = rows_of(p.on_cpu, 4)
    before = p.marginals(X)
    assert p.on_cpu is p.on_cpu
    weights = p.blocks[-1].weights
    with torch.no_grad():
        weights.copy_(weights.flip(1))
    again = ek.Circuit(p.vtree, p.blocks)
    assert_close(p.marginals(X)[0], again.to("numpy").marginals(X)[0])
    assert_close(to_numpy(p.log_likelihood(X)), again.to("numpy").log_likelihood(X))
    assert not np.allclose(before[0], p.marginals(X)[0])


def test_tensors_are_made_when_they_are_asked_for():
    p, q = (ek.random_circuit(3, 2, rng=i).with_names(["a", "b", "c"]) for i in range(2))
    there, k = ek.algebra.stack([p, q]).to("torch"), ek.RBF(0.5)
    assert (there.n_roots, there.names) == (2, ("a", "b", "c"))
    wanted = [ek.expected_kernel(x, q, k) for x in (p, q)]
    assert_close(to_numpy(ek.expected_kernel(there, q, k)), wanted)
    assert "blocks" not in vars(there)
    twin = pickle.loads(pickle.dumps(there))
    assert_close(to_numpy(ek.expected_kernel(twin, q, k)), wanted)
    for block in there.blocks:
        block.numbers.requires_grad_()
    ek.expected_kernel(there, q, k).sum().backward()
    table = there.blocks[0].table
    assert_close(to_numpy((table.grad * table).sum()), sum(wanted))


def test_types_of_numbers():
    p = ek.random_circuit(3, 2, rng=0, density=0.9)
    q = p.to("torch", dtype="float32")
    numbers = [block.arrays[0] for block in q.blocks if block.arrays[0] is not None]
    assert {x.dtype for x in numbers} == {torch.float32}
    assert q.to("torch", dtype="float64").input(0).table.dtype == torch.float64
    assert p.to("numpy", dtype="float32").input(0).table.dtype == np.float32
    assert q.log_likelihood(np.zeros((1, 3))).dtype == torch.float64  # logs keep their digits
    assert ek.expected_kernel(q, q, ek.RBF(0.5)).dtype == torch.float64
    assert_raises(CircuitError, r"are 'float32' or 'float64'. Got", p.to, "torch", dtype="int8")


@pytest.mark.parametrize("place", ["numpy", "torch"])
def test_numbers_that_singles_do_not_hold_are_refused(place):
    for number in (1e-50, 1e-39, -1e-45, 1e39):
        p = ek.factorized([[number, 1.0]], normalized=False)
        message = f"a number of size {re.escape(f'{abs(number):.2g}')}: keep"
        assert_raises(CircuitError, message, p.to, place, dtype="float32")
    edge = ek.factorized([[1.2e-38, 0.0, 3.4e38]], normalized=False).to(place, dtype="float32")
    assert (np.asarray(edge.input(0).table) > 0).tolist() == [[True, False, True]]
    leaf = ek.Product([ek.Indicator(0, 1, 2), ek.Indicator(1, 1, 2)])
    rest = ek.Product([ek.Indicator(0, 0, 2), ek.Indicator(1, 0, 2)])
    rare = ek.Circuit.from_units(ek.Sum([leaf, rest], [1e-60, 1.0]))
    assert_raises(CircuitError, "keep 'float64'", rare.to, place, dtype="float32")


@pytest.mark.parametrize("place", ["numpy", "torch"])
def test_singles_keep_logs_far_below_their_range(place):
    tables = [np.tile([[x, 1.0 - x]], (4000, 1)) for x in (0.4, 0.3)]
    p = ek.mixture([ek.factorized(t, Vtree.balanced(4000)) for t in tables])
    X = np.stack([np.zeros(4000), np.arange(4000) % 2])
    exact, single = p.log_likelihood(X), p.to(place, dtype="float32").log_likelihood(X)
    assert exact[0] < -3600
    np.testing.assert_allclose(np.asarray(single), exact, rtol=2e-7)


def tensor_pass(p, X):
    layers = layers_of(p)
    assert isinstance(layers, TensorLayers)
    return forward(layers, observed(p.on_cpu, layers, as_evidence(X, p.schema)))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values_out_of_range_are_done_again(dtype):
    ahead, behind = [1 - 1e-3, 1e-3], [1e-3, 1 - 1e-3]
    n = 200
    one, other = [ahead] * n, [behind] * n
    p = ek.mixture([ek.factorized(one + other), ek.factorized(other + one)])
    q = p.to("torch", dtype=dtype)
    X = np.zeros((3, 2 * n))
    X[1, :5] = np.nan
    found = tensor_pass(q, X)
    assert found.clamped_mark
    assert not backward(found).reliable.any()
    np.testing.assert_allclose(to_numpy(q.log_likelihood(X)), p.log_likelihood(X), rtol=1e-6)
    assert_all_close(q.marginals(X), p.marginals(X), atol=1e-5)
    assert_all_close(q.all_site_logs(X), p.all_site_logs(X), rtol=1e-6)
    np.testing.assert_array_equal(q.sample(9, rng=0, evidence=X), p.sample(9, rng=0, evidence=X))


def test_samples_in_parts(monkeypatch):
    p = CIRCUITS["sparse"]
    monkeypatch.setattr(sampling, "CHOICE_BYTES", 10_000)
    options = {"rng": 1, "evidence": rows_of(p, 3)}
    found = p.to("torch").sample(40, **options)
    np.testing.assert_array_equal(found, p.sample(40, **options))


def test_gradients_take_their_own_way():
    p = ek.random_circuit(3, 2, rng=0).to("torch")
    assert layers_of(p) is not None
    normals = ek.gaussian_mixture([0.3, 0.7], [[0.0, 1.0], [2.0, -1.0]], [[1.0, 0.5], [2.0, 1.5]])
    assert layers_of(normals.to("torch")) is not None
    p.blocks[-1].weights.requires_grad_(True)
    assert layers_of(p) is None
    p.log_likelihood(np.zeros((1, 3))).sum().backward()
    assert p.blocks[-1].weights.grad is not None
    assert_close(p.marginals()[0], ek.random_circuit(3, 2, rng=0).marginals()[0])


def test_negative_weights_and_half_precision_have_no_passes():
    signed = ek.factorized([[0.5, -0.2], [1.0, 2.0]], normalized=False)
    assert layers_of(signed.to("torch")) is None
    logs = [p.log_likelihood([[0, 1]]) for p in (signed.to("torch"), signed)]
    assert_close(*map(to_numpy, logs))
    p = ek.random_circuit(2, 2, rng=0)
    half = p.to("torch")
    tables = [torch.asarray(block.arrays[0]).half() for block in half.blocks[:1]]
    assert layers_of(ek.Circuit(Vtree.balanced(1), (type(half.blocks[0])(tables[0]),))) is None
