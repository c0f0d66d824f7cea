"""Forward and backward passes over layers in torch, and which circuits have them."""

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_close, to_numpy
from circuit_oracles import rows_of
from expectedkernels import Vtree
from expectedkernels.circuits.conditioning import layers_of, observed
from expectedkernels.data.evidence import as_evidence
from expectedkernels.engine import sampling
from expectedkernels.engine.operations import TensorLayers
from expectedkernels.engine.passes import backward, forward

torch = pytest.importorskip("torch")
SPARSE = ek.random_circuit(Vtree.random(40, rng=1), 12, rng=1, cardinalities=4, density=0.4)


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
    for found, wanted in zip(q.marginals(X), p.marginals(X), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    for found, wanted in zip(q.all_site_logs(X), p.all_site_logs(X), strict=True):
        np.testing.assert_allclose(to_numpy(found), wanted, rtol=1e-6)
    np.testing.assert_array_equal(q.sample(9, rng=0, evidence=X), p.sample(9, rng=0, evidence=X))


def test_samples_in_parts(monkeypatch):
    p = SPARSE
    monkeypatch.setattr(sampling, "CHOICE_BYTES", 10_000)
    X = rows_of(p, 3)
    np.testing.assert_array_equal(
        p.to("torch").sample(40, rng=1, evidence=X), p.sample(40, rng=1, evidence=X)
    )


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
    assert_close(
        to_numpy(signed.to("torch").log_likelihood([[0, 1]])), signed.log_likelihood([[0, 1]])
    )
    p = ek.random_circuit(2, 2, rng=0)
    half = p.to("torch")
    tables = [torch.asarray(block.arrays[0]).half() for block in half.blocks[:1]]
    assert layers_of(ek.Circuit(Vtree.balanced(1), (type(half.blocks[0])(tables[0]),))) is None
