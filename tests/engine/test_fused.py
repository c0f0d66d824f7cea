"""Steps of one launch each against the plain ones, on a card or by Triton's interpreter."""

from importlib.util import find_spec

import numpy as np
import pytest

import expectedkernels as ek
from assertions import to_numpy
from circuit_oracles import rows_of
from expectedkernels import Vtree
from expectedkernels.arrays import Place
from expectedkernels.circuits.conditioning import layers_of, observed
from expectedkernels.data.evidence import as_evidence
from expectedkernels.engine import operations as on_tensors
from expectedkernels.engine.passes import backward, forward
from expectedkernels.learning import minibatch as passes
from expectedkernels.learning.em import Phase, epochs
from expectedkernels.learning.minibatch import circuit_of
from expectedkernels.learning.training_data import Data, fit_weights, row_sums

torch = pytest.importorskip("torch")
if find_spec("triton") is None:
    pytest.skip("needs Triton", allow_module_level=True)
ON_CARD = torch.cuda.is_available()
WHERE = "cuda" if ON_CARD else "torch"
CIRCUITS = {
    "small": ek.random_circuit(6, 3, rng=0, cardinalities=3),
    "sparse": ek.random_circuit(Vtree.random(6, rng=1), 4, rng=1, cardinalities=3, density=0.4),
    "deep": ek.random_circuit(Vtree.right_linear(40), 3, rng=3, cardinalities=[2, 5] * 20),
    "hidden tree": ek.learn_hclt(
        np.random.default_rng(0).integers(0, 3, size=(40, 5)), 3, epochs=0, rng=0, progress=False
    ),
}


@pytest.fixture
def fused(monkeypatch):
    from expectedkernels.engine import fused as module

    called = []
    for name in ("products", "pull", "divide", "undivide", "look_up", "add_up", "move"):
        own = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *a, own=own, name=name: (called.append(name), own(*a))[1]
        )
    monkeypatch.setattr(on_tensors, "fused_at", lambda values: module)
    return called


@pytest.mark.parametrize(
    ("dtype", "offset"), [("float64", 0.0), ("float32", 0.0), ("float32", 15.0)]
)
@pytest.mark.parametrize("name", CIRCUITS)
def test_passes(name, dtype, offset, request):
    p = CIRCUITS[name].to(WHERE, dtype=dtype)
    layers = layers_of(p)
    atoms = observed(p.on_cpu, layers, as_evidence(rows_of(CIRCUITS[name], 11), p.schema))
    plain = forward(layers, atoms, offset=offset)
    below = backward(plain)
    called = request.getfixturevalue("fused")
    found = forward(layers, atoms, offset=offset)
    again = backward(found)
    off = 1e-13 if dtype == "float64" else 1e-5
    torch.testing.assert_close(found.values, plain.values, rtol=off, atol=0)
    torch.testing.assert_close(found.log_roots, plain.log_roots, rtol=off, atol=off)
    torch.testing.assert_close(again.atoms, below.atoms, rtol=off, atol=0)
    assert (again.reliable == below.reliable).all()
    assert {"products", "look_up"} <= set(called)
    assert ("pull" in called) == any(layer.is_used_once for layer in layers.layers[1:])
    assert ("undivide" in called) == bool(plain.maxima)


def test_small_values_are_raised(fused):
    place = Place(WHERE, None)
    values = place.move(np.array([[1.0, 0.0], [1e-9, 2.0], [0.0, 0.0], [4.0, 0.0]]))
    starts = place.move(np.array([0, 2, 4]))
    own = values.clone()
    module = on_tensors.fused_at(values)
    tops, small = module.divide(own, starts, 1e-6, 0.0)
    assert tops.tolist() == [[1.0, 2.0], [4.0, 1.0]]
    assert small.tolist() == [[False, False], [True, False], [False, False], [False, False]]
    np.testing.assert_allclose(to_numpy(own), [[1, 0], [1e-6, 1], [0, 0], [1, 0]])
    here = torch.ones_like(values)
    out, lost = module.undivide(here, own, starts, tops, small)
    np.testing.assert_allclose(to_numpy(out), [[1, 0.5], [1, 0.5], [0.25, 1], [0.25, 1]])
    np.testing.assert_allclose(to_numpy(lost), [1e-6, 0.0])
    lifted = values.clone()
    tops, small = module.divide(lifted, starts, 1e-6, np.log(1e4))
    assert not small.any()
    np.testing.assert_allclose(to_numpy(tops), [[1e-4, 2e-4], [4e-4, 1.0]])
    np.testing.assert_allclose(to_numpy(lifted), [[1e4, 0], [1e-5, 1e4], [0, 0], [1e4, 0]])


@pytest.mark.parametrize("good", [True, False])
def test_weights_are_moved(fused, good):
    place, rng = Place(WHERE, None), np.random.default_rng(0)
    old = rng.random((5, 3)) * (rng.random((5, 3)) < 0.7)
    old[0], old[1], old[4] = 0.0, [0.0, 1.0, 0.0], [0.2, 0.3, 0.5]
    dots = 3 * rng.random((5, 3))
    dots[4] = 0.0
    for beta, step in ((0.0, 1.0), (0.7, 0.25)):
        weights, uses = place.move(old), place.move(dots)
        out, told = place.move(np.full((5, 3), np.nan)), place.move(np.array(good))
        given = place.move(np.array(beta)), place.move(np.array(step))
        on_tensors.fused_at(weights).move(weights, uses, told, *given, 1e-3, out)
        wanted = fit_weights(old * dots, beta, row_sums, old, step, 1e-3) if good else old
        np.testing.assert_allclose(to_numpy(out), wanted, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["sparse", "hidden tree"])
@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_whole_steps(name, dtype, beta, monkeypatch, request):
    """Every step as on a card, but run where tensors are and not captured."""
    p = CIRCUITS[name]
    X = rows_of(p, 24)
    weights = np.random.default_rng(1).integers(1, 4, size=24).astype(float)
    data = Data(p.schema, X, weights)
    start = ek.em(p, X, 1, pseudocount=1.0, progress=False)

    def trained():
        phases, rng = [Phase(2, 10, (1.0, 0.5))], np.random.default_rng(2)
        return list(epochs(start, data, phases, beta, (WHERE, dtype), rng))

    wanted = trained()
    request.getfixturevalue("fused")
    monkeypatch.setattr(on_tensors.TensorLayers, "is_remote", True)
    monkeypatch.setattr(passes, "fits", lambda *a: True)
    ran = []

    def replayed(kept, key, run, inputs):
        ran.append(key)
        return run(*inputs)

    monkeypatch.setattr(passes, "replayed", replayed)
    found = trained()
    assert ran == [(10, beta > 0), (10, beta > 0), (4, beta > 0)] * 2
    off = 1e-9 if dtype == "float64" else 2e-4
    for (one, mean, _), (other, wanted_mean, _) in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mean, wanted_mean, rtol=off)
        ours, theirs = circuit_of(one), circuit_of(other)
        np.testing.assert_allclose(
            ours.log_likelihood(X), theirs.log_likelihood(X), rtol=off, atol=off
        )
