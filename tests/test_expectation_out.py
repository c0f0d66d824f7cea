"""Expected kernels put where they are asked to be, and explained in advance."""

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_close, assert_raises
from expectedkernels import DataError, EvidenceError
from oracles import with_holes

KERNEL = ek.RBF(0.3)


def model():
    return ek.random_circuit(4, 3, 0, cardinalities=3)


def points(n, seed=0):
    return np.random.default_rng(seed).integers(3, size=(n, 4)).astype(float)


def holed(n, seed=1):
    return with_holes(points(n, seed), 0.5, seed)


def weighted(n):
    return ek.Empirical(points(n, 1), np.random.default_rng(n).random(n))


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
    "evidence and weighted points": (model(), ek.Empirical(points(30)), {"evidence_p": holed(20)}),
    "points and weighted points": (points(3_000), weighted(800), {}),
    "points, weighted, and points": (weighted(3_000), points(800, 1), {}),
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
    if case.startswith("points"):  # more than 2**21 pairs, in chunks
        exact = KERNEL(getattr(p, "X", p), getattr(q, "X", q))
        exact = p.weights @ exact if isinstance(p, ek.Empirical) else exact
        exact = exact @ q.weights if isinstance(q, ek.Empirical) else exact
        assert_close(np.exp(wanted) if log else wanted, exact)


def test_files_are_deleted_if_something_goes_wrong(tmp_path):
    p, path = ek.factorized([[1e308] * 3] * 4, normalized=False), tmp_path / "values.npy"
    with pytest.raises(ek.KernelError, match="too large for a float here"):
        ek.expected_kernel(p, points(3), KERNEL, out=path)
    assert not path.exists()


@pytest.mark.parametrize(("q", "out", "message"), [
    (points(3), np.zeros(4), r"float64 array of shape \(3,\). Got ndarray .* shape \(4,\)"),
    (points(3), np.zeros(3, dtype=np.float32), "Got ndarray of type float32"),
    (points(3), [0.0] * 3, "Got list"),
    (points(3), np.broadcast_to(0.0, 3), "read-only. Give one that can be written to"),
    (points(3), "values.npz", "must end in .npy. Got 'values.npz'"),
    (model(), "values.npy", "This is a number"),
])  # fmt: skip
def test_what_cannot_be_written_to(q, out, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_raises(ek.DataError, message, ek.expected_kernel, model(), q, KERNEL, out=out)


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


def test_conditionals_are_said_to_be_taken_where_they_are(data_dir):
    p = ek.read_psdd(data_dir / "psdd" / "abalone.psdd")
    E = with_holes(p.sample(40, rng=0), 0.5)
    said = ek.explain(p, p, ek.RBF(0.1), evidence_p=E, evidence_q=E)
    assert said.forms == ("conditionals", "conditionals")
    assert "given 40 rows of evidence: the conditionals as one circuit" in str(said)
    assert "not by conditionals x patterns: " in str(said)
    assert "sparse matrices of weights" in str(said)


def test_operations_are_counted():
    p = ek.factorized([[0.5, 0.5], [0.2, 0.8]])
    # two leaves: four pairs of states, summed over one side and then over the other; one product
    assert ek.explain(p, p, ek.RBF(1.0)).operations == 2 * (4 + 8 + 4) + 1
    small, large = (ek.random_circuit(ek.Vtree.balanced(8), n, rng=0) for n in (4, 8))
    counts = [ek.explain(c, c, ek.RBF(1.0)).operations for c in (small, large)]
    assert 4 * counts[0] < counts[1] < 9 * counts[0]
    twice = ek.explain(small, small, ek.RBF(1.0) + ek.RBF(2.0))
    assert twice.operations > 1.9 * counts[0]
    assert "kernel with 2 terms" in str(twice)


def test_blocks_of_points_are_counted():
    said = ek.explain(np.zeros((2049, 3)), np.zeros((5, 3)), ek.RBF(1.0))
    assert said.path == "points"
    assert (said.parts, said.shape) == (3, (2049, 5))
    assert "3 blocks of at most 1024 x 1024 pairs" in str(said)
    assert ek.explain(ek.Empirical([[0.0]]), [[1.0]], ek.RBF(1.0)).shape == (1, 1)


def test_mistakes_are_told_as_by_the_call():
    p = ek.factorized([[1.0, 0.0]])
    with pytest.raises(EvidenceError, match="row 0 has probability zero"):
        ek.explain(p, p, ek.RBF(1.0), evidence_p=[[1]])
    with pytest.raises(DataError, match="Evidence conditions circuits"):
        ek.explain([[0]], [[1]], ek.RBF(1.0), evidence_p=[[1]])


def test_places_of_circuits():
    pytest.importorskip("torch")
    p = ek.random_circuit(3, 2, rng=0)
    assert " in torch on cpu: as it is" in str(
        ek.explain(p.to("torch"), p.to("torch"), ek.RBF(1.0))
    )
    assert " on cpu" not in str(ek.explain(p, p, ek.RBF(1.0)))
