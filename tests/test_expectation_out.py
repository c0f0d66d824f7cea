"""Expected kernels that are put where they are asked to be, in place of a new array."""

import numpy as np
import pytest

import expectedkernels as ek

KERNEL = ek.RBF(0.3)


def model():
    return ek.random_circuit(4, 3, 0, cardinalities=3)


def points(n, seed=0):
    return np.random.default_rng(seed).integers(3, size=(n, 4)).astype(float)


def holed(n, seed=1):
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, 4)) < 0.5, np.nan, points(n, seed))


CASES = {
    "evidence and points": (model(), points(30), {"evidence_p": holed(20)}),
    "evidence and evidence": (
        model(),
        model(),
        {"evidence_p": holed(9), "evidence_q": holed(7, 2)},
    ),
    "a circuit and points": (model(), points(30), {}),
    "points and points": (points(3_000), points(800, 1), {}),
    "one row of evidence": (model(), model(), {"evidence_p": holed(1)}),
    "evidence and weighted points": (
        model(),
        ek.Empirical(points(30)),
        {"evidence_p": holed(20)},
    ),
    "points and weighted points": (points(3_000), ek.Empirical(points(800, 1)), {}),
}


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_files_and_arrays_hold_what_would_be_returned(case, log, tmp_path):
    p, q, options = CASES[case]
    options = options | {"log": log, "max_bytes": 2**12}  # in parts, as more than 2**21 points
    wanted = ek.expected_kernel(p, q, KERNEL, **options)
    given = np.full(wanted.shape, np.nan)
    found = ek.expected_kernel(p, q, KERNEL, out=given, **options)
    assert np.shares_memory(found, given)
    np.testing.assert_array_equal(given, wanted)
    path = tmp_path / "values.npy"
    found = ek.expected_kernel(p, q, KERNEL, out=path, **options)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.load(path, mmap_mode="r"), wanted)


def test_files_are_deleted_if_something_goes_wrong(tmp_path):
    p, path = ek.factorized([[1e308] * 3] * 4, normalized=False), tmp_path / "values.npy"
    with pytest.raises(ek.KernelError, match="too large for a float here"):
        ek.expected_kernel(p, points(3), KERNEL, out=path)
    assert not path.exists()


@pytest.mark.parametrize(
    ("q", "out", "message"),
    [
        (points(3), np.zeros(4), r"float64 array of shape \(3,\). Got ndarray .* shape \(4,\)"),
        (points(3), np.zeros(3, dtype=np.float32), "Got ndarray of type float32"),
        (points(3), [0.0] * 3, "Got list"),
        (points(3), np.broadcast_to(0.0, 3), "read-only. Give one that can be written to"),
        (points(3), "values.npz", "must end in .npy. Got 'values.npz'"),
        (model(), "values.npy", "This is a number"),
    ],
)
def test_what_cannot_be_written_to(q, out, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ek.DataError, match=message):
        ek.expected_kernel(model(), q, KERNEL, out=out)


def test_tensors_are_not_written_to_files(tmp_path):
    pytest.importorskip("torch")
    with pytest.raises(ek.DataError, match="for circuits in NumPy"):
        ek.expected_kernel(model().to("torch"), points(3), KERNEL, out=tmp_path / "values.npy")


def test_gradients_are_not_written_to_arrays():
    torch = pytest.importorskip("torch")
    p, rows = ek.factorized([[0.5, 0.5]]), np.array([[0.0], [1.0]])
    k = ek.RBF(torch.tensor(0.3, dtype=torch.float64, requires_grad=True))
    for other, shape in ((p, (2,)), (rows, (2, 2))):
        with pytest.raises(ek.KernelError, match="'out' parameter does not follow gradients"):
            ek.expected_kernel(other, rows, k, out=np.empty(shape))
