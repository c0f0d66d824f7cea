"""What is captured on a card, without one: computations played from a tape read nothing."""

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_all_close
from expectedkernels.arrays import TAPE, Tape, as_like, numbers, to_numpy
from expectedkernels.circuits import operands
from expectedkernels.engine import operations as tensors, replay
from expectedkernels.kernels import gram
from expectedkernels.learning import minibatch as epochs

torch = pytest.importorskip("torch")


@pytest.fixture
def played(monkeypatch):
    """Tensors on the CPU count as those on a GPU; a capture is the computation from a tape."""
    found = []

    def capture(captured, run, inputs):
        tape = Tape()
        result = replay._with_tape(tape, run, inputs)
        silent = tape.rewound()
        again = replay._with_tape(silent, run, inputs)
        for a, b in zip(again, result, strict=True):
            assert (a is None) == (b is None)
            assert a is None or torch.equal(a, b)
        assert next(silent._next, None) is None
        found.append(len(tape.kept))
        captured.refused = True
        return result

    monkeypatch.setattr(replay, "_capture", capture)
    for module in (gram, operands, tensors, replay):
        monkeypatch.setattr(module, "is_on_gpu", lambda array: not isinstance(array, np.ndarray))
    for module in (gram, operands, tensors):
        monkeypatch.setattr(module, "total_bytes", lambda like: 2**34)
    for module in (operands, replay, epochs):
        monkeypatch.setattr(module, "fits", lambda *of: True)
    return found


@pytest.mark.parametrize("units", [1, 3])
def test_expected_kernels_are_played(played, units):
    vtree = ek.Vtree.balanced(7)
    p, q = (ek.random_circuit(vtree, units, rng=i) for i in range(2))
    k = ek.ExpHamming(0.5) + 2.0 * ek.Delta()
    expected = ek.expected_kernel(p, q, k)
    p, q = p.to("torch"), q.to("torch")
    for _ in range(3):
        assert float(ek.expected_kernel(p, q, k)) == pytest.approx(expected, rel=1e-13)
    assert len(played) == 1
    k = ek.ExpHamming(0.7) + 3.0 * ek.Delta()
    assert float(ek.expected_kernel(p, q, k)) == pytest.approx(ek.expected_kernel(p, q, k))
    assert played == [0]  # another kernel is other input of the same computation


def test_values_in_logs_are_played(played):
    p = ek.factorized([[1e-250, 1.0]] * 5).to("torch")
    q = ek.factorized([[1.0, 1e-250]] * 5).to("torch")
    found = [float(ek.expected_kernel(p, q, ek.Delta(), log=True)) for _ in range(3)]
    assert found[0] == pytest.approx(5 * (np.log(2) - 250 * np.log(10)))
    assert len(set(found)) == 1


def test_weights_that_are_written_to_are_seen(played):
    weights = torch.tensor([[0.2, 0.8]], dtype=torch.float64)
    p = ek.factorized([[0.5, 0.5], [0.5, 0.5]]).to("torch")
    q = ek.factorized([[0.5, 0.5], [0.5, 0.5]]).to("torch")
    for _ in range(3):
        assert float(ek.expected_kernel(p, q, ek.Delta())) == pytest.approx(0.25)
    p.blocks[0].table.copy_(weights)
    q.blocks[0].table.copy_(weights)
    assert float(ek.expected_kernel(p, q, ek.Delta())) == pytest.approx(0.68 * 0.5)


def test_passes_are_played(played):
    p = ek.random_circuit(ek.Vtree.balanced(6), 3, rng=0)
    X = p.sample(20, rng=1).astype(float)
    X[np.random.default_rng(2).random(X.shape) < 0.4] = np.nan
    there = p.to("torch")
    for _ in range(3):
        np.testing.assert_allclose(to_numpy(there.log_likelihood(X)), p.log_likelihood(X))
        assert_all_close(there.marginals(X), p.marginals(X), atol=1e-14)
    assert played == [0, 0]  # nothing is sent or read inside


@pytest.mark.parametrize("pseudocount", [0.0, 0.3])
def test_steps_of_em_are_played(played, pseudocount):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(50, 5)).astype(float)
    X[rng.random(X.shape) < 0.2] = np.nan
    start = ek.learn_hclt(X, 3, epochs=0, cardinalities=3, rng=0, progress=False)
    options = {"batch_size": 16, "pseudocount": pseudocount, "rng": 1, "progress": False}
    expected = ek.em(start, X, 4, **options)
    found = ek.em(start, X, 4, device="torch", **options)
    np.testing.assert_allclose(found.log_likelihood(X), expected.log_likelihood(X), rtol=1e-9)
    assert played == [0, 0]  # batches of 16 rows, and the last ones of 2


def test_steps_with_raised_values_are_played_in_single_precision(played):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 200, size=(40, 1)) + rng.integers(0, 3, size=(40, 60))
    start = ek.learn_hclt(X, 4, epochs=0, cardinalities=202, rng=0, progress=False)
    options = {"pseudocount": 1e-9, "rng": 1, "progress": False}
    expected = ek.em(start, X, 6, **options)
    found = ek.em(start, X, 6, device="torch", dtype="float32", **options)
    assert played == [0]
    np.testing.assert_allclose(found.log_likelihood(X), expected.log_likelihood(X), rtol=1e-3)


def test_a_tape_keeps_what_was_sent_and_read():
    tape = Tape()
    like = torch.zeros(0, dtype=torch.float64)

    def run(x):
        return as_like(x, like) + numbers(np, lambda: [x.sum()])[0]

    token = TAPE.set(tape)
    first = run(np.ones(2))
    TAPE.reset(token)
    token = TAPE.set(tape.rewound())
    assert torch.equal(as_like(np.zeros(2), like), torch.ones(2, dtype=torch.float64))
    TAPE.reset(token)
    assert first.tolist() == [3.0, 3.0]


def test_a_graph_is_refused_unless_it_agrees():
    a = torch.tensor([1.0, -torch.inf, torch.nan], dtype=torch.float64)
    assert replay._agree(a, a.clone())
    assert not replay._agree(a, a + 1e-6)
    assert replay._agree(a.float(), (a + 1e-6).float())
    assert not replay._agree(a.float(), (a + 0.1).float())
    assert replay._agree(None, None)
    assert not replay._agree(a, torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64))
    assert replay._agree(torch.tensor([True]), torch.tensor([True]))
    assert not replay._agree(torch.tensor([True]), torch.tensor([False]))
