"""Witnesses, estimates from samples, results in files, and what `explain` says of a call."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import expectedkernels as ek
import strategies as draws
from assertions import assert_close, assert_raises
from expectedkernels.circuits.operands import JointPass
from oracles import distribution, unit_values_at, with_holes, worlds
from unit_graphs import drawn_unstructured


@settings(max_examples=30)
@given(st.data(), draws.domains(), draws.rngs)
def test_the_witness_is_the_difference_of_mean_embeddings(data, cards, rng):
    vtree = data.draw(draws.vtrees(len(cards)))
    trees = vtree, draws.with_swaps(vtree, rng)
    p, q = (data.draw(draws.circuits(cards, tree)).normalize() for tree in trees)
    (k, naive), X = data.draw(draws.kernels(cards, vtree)), worlds(cards)
    Y, Z = (draws.points(rng, cards, n) for n in (6, 4))
    one, other = (distribution(circuit) @ naive(X, Y) for circuit in (p, q))
    third = naive(Z, Y).mean(axis=0)
    assert_close(ek.witness(p, q, k, Y), one - other, one + other)
    assert_close(ek.witness(p, Z, k, Y), one - third, one + third)
    assert_close(ek.witness(ek.Empirical(Z), q, k, Y), third - other, third + other)
    np.testing.assert_array_equal(ek.witness(p, p, k, Y), np.zeros(6))


N = 4000


def assert_within(estimate, exact):
    """The estimate is within five standard errors, which are neither zero nor huge."""
    value, error = estimate
    assert isinstance(value, float)
    assert isinstance(error, float)
    assert 0 < error < 0.2 * abs(exact)
    assert abs(value - exact) < 5 * error


NEAR = [np.eye(2), np.full((2, 2), 0.5) + np.eye(2)]
INPUTS = [ek.kernels.kernel_input(v, table) for v, table in enumerate(NEAR)]
HEAVY = ek.Product([ek.Categorical(0, [5.0, 5.0]), ek.Categorical(1, [1.0, 2.0])])
NORMALS = ek.gaussian_mixture([0.4, 0.6], [[0.0, 0.0], [1.0, 2.0]], [[1.0, 0.5], [0.3, 2.0]])
NORMAL = ek.gaussian_mixture([1.0], [[0.5, 0.5]], [[1.0, 1.0]])
UNNORMALISED = ek.factorized([[1.0, 3.0], [2.0, 2.0]], normalized=False)
PAIR = ek.random_circuit(2, 2, rng=0)
X = draws.points(np.random.default_rng(0), (2, 2), 4)
CASES = {
    "points": (PAIR, X, ek.RBF(0.5)),
    "weighted points": (PAIR, ek.Empirical(X, [0.2, 1.0, 0.0, 3.0]), ek.RBF(0.5)),
    "masses": (UNNORMALISED, ek.Sum([HEAVY], [0.1]), ek.ExpHamming()),
    "real variables": (NORMALS, NORMAL, ek.Laplacian(0.5)),
    "kernel circuits": (PAIR, PAIR, ek.KernelCircuit(ek.Product(INPUTS))),
}
for seed in range(5):
    CASES[f"circuits {seed}"] = (
        *(ek.random_circuit(4, 3, rng=seed + i, cardinalities=(2, 3, 4, 2)) for i in (0, 100)),
        ek.RBF(0.3) + 0.5 * ek.Delta(),
    )


@pytest.mark.parametrize("case", CASES)
def test_estimates_are_near_the_exact_values(case):
    p, q, k = CASES[case]
    exact = np.mean(ek.expected_kernel(p, q, k))  # over points
    for pair in ((p, q), (q, p)):
        assert_within(ek.monte_carlo_expected_kernel(*pair, k, N, rng=0), exact)


@pytest.mark.parametrize("seed", range(6))
def test_units_that_are_not_structured_and_circuits_that_are_not_compatible(seed):
    p, cards = drawn_unstructured(seed)
    q, k, X = p, draws.rate_twin("RBF", 0.4), worlds(cards)
    P = Q = unit_values_at(p, X)
    if seed == 5:
        p = ek.random_circuit(ek.Vtree.right_linear(4), 3, rng=0)
        q = ek.random_circuit(ek.Vtree.left_linear(4), 3, rng=1)
        X = worlds([2] * 4)
        P, Q = distribution(p), distribution(q)
    exact = P @ k.naive(X, X) @ Q
    assert_within(ek.monte_carlo_expected_kernel(p, q, k.kernel, N, rng=seed), exact)


def test_chunks_make_one_estimate():
    # a few samples at a time give the mean and standard error of all of them together
    p, q = ek.random_circuit(3, 2, rng=0), ek.random_circuit(3, 2, rng=1)
    k = ek.RBF(0.3)
    value, error = ek.monte_carlo_expected_kernel(p, q, k, 1001, rng=0, chunk=10)
    generator = np.random.default_rng(0)
    values = []
    for size in [10] * 100 + [1]:
        X = p.sample(size, rng=generator)
        values.append(k.pairs(X, q.sample(size, rng=generator)))
    values = np.concatenate(values)
    np.testing.assert_allclose(value, values.mean(), rtol=1e-12)
    np.testing.assert_allclose(error, values.std(ddof=1) / np.sqrt(1001), rtol=1e-12)


def test_memory_is_that_of_one_chunk():
    p, peaks = ek.factorized([[0.5, 0.5], [0.2, 0.8]]), []
    for n in (50_000, 400_000):
        tracemalloc.start()
        ek.monte_carlo_expected_kernel(p, p, ek.RBF(0.3), n, rng=0, chunk=10_000)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 500_000  # one number a pair would take 2.8 MB more


P = ek.random_circuit(ek.Vtree.balanced(12), 6, rng=0)


def incomplete(n, seed=0):
    return with_holes(P.sample(n, rng=seed), 0.5)


CALLS = {
    "circuits": (P, {}),
    "points": (P.sample(50, rng=0), {}),
    "one row": (P, {"evidence_p": incomplete(1)}),
    "rows": (P, {"evidence_p": incomplete(20), "evidence_q": incomplete(3, seed=1)}),
    "many rows": (P.sample(20, rng=0), {"evidence_p": incomplete(90)}),
    "little memory": (P.sample(40, rng=0), {"evidence_p": incomplete(90), "max_bytes": 2**19}),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_call_does_what_is_said(monkeypatch, name):
    q, options = CALLS[name]
    k, passes, values = ek.RBF(0.1) + ek.ExpHamming(), [], JointPass.values
    said = ek.explain(P, q, k, **options)

    def watched(joint):
        if joint.kernel.operands:  # that is no likelihood
            passes.append(joint)
        return values(joint)

    monkeypatch.setattr(JointPass, "values", watched)
    found = ek.expected_kernel(P, q, k, **options)
    assert (len(passes), sum(joint.n_steps for joint in passes)) == (said.parts, said.steps)
    assert {joint.by_layers for joint in passes} == {said.path == "folded"}
    assert np.size(found) == np.prod(said.shape)
    assert said.n_bytes <= options.get("max_bytes", 2**30)
    if name == "little memory":
        assert said.parts > 1


KERNEL = ek.RBF(0.3)


def model():
    return ek.random_circuit(4, 3, 0, cardinalities=3)


def points(n, seed=0):
    return draws.points(np.random.default_rng(seed), (3,) * 4, n)


def holed(n, seed=1):
    return with_holes(points(n, seed), 0.5, seed)


def weighted(n):
    return ek.Empirical(points(n, 1), np.random.default_rng(n).random(n))


WRITTEN = {
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
@pytest.mark.parametrize("case", WRITTEN)
def test_files_and_arrays_hold_what_would_be_returned(case, log, tmp_path):
    p, q, options = WRITTEN[case]
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


def test_tensors_and_gradients_are_not_written(tmp_path):
    torch = pytest.importorskip("torch")
    with pytest.raises(ek.DataError, match="for circuits in NumPy"):
        ek.expected_kernel(model().to("torch"), points(3), KERNEL, out=tmp_path / "values.npy")
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


def test_explanations_count_and_refuse_as_the_call_does():
    p = ek.factorized([[0.5, 0.5], [0.2, 0.8]])
    # two leaves: four pairs of states, summed over one side and then over the other; one product
    assert ek.explain(p, p, ek.RBF(1.0)).operations == 2 * (4 + 8 + 4) + 1
    small, large = (ek.random_circuit(ek.Vtree.balanced(8), n, rng=0) for n in (4, 8))
    counts = [ek.explain(c, c, ek.RBF(1.0)).operations for c in (small, large)]
    assert 4 * counts[0] < counts[1] < 9 * counts[0]
    twice = ek.explain(small, small, ek.RBF(1.0) + ek.RBF(2.0))
    assert twice.operations > 1.9 * counts[0]
    assert "kernel with 2 terms" in str(twice)
    said = ek.explain(np.zeros((2049, 3)), np.zeros((5, 3)), ek.RBF(1.0))
    assert (said.path, said.parts, said.shape) == ("points", 3, (2049, 5))
    assert "3 blocks of at most 1024 x 1024 pairs" in str(said)
    points = ek.Empirical([[0.0]])
    assert ek.explain(points, [[1.0]], ek.RBF(1.0)).shape == (1, 1)
    assert repr(points) == "<Empirical distribution of 1 points, 1 variables>"
    sure = ek.factorized([[1.0, 0.0]])
    with pytest.raises(ek.EvidenceError, match="row 0 has probability zero"):
        ek.explain(sure, sure, ek.RBF(1.0), evidence_p=[[1]])
    with pytest.raises(ek.DataError, match="Evidence conditions circuits"):
        ek.explain([[0]], [[1]], ek.RBF(1.0), evidence_p=[[1]])
    assert " on cpu" not in str(ek.explain(p, p, ek.RBF(1.0)))
    pytest.importorskip("torch")
    moved = p.to("torch")
    assert " in torch on cpu: as it is" in str(ek.explain(moved, moved, ek.RBF(1.0)))
