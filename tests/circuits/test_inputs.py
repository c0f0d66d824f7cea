"""Inputs of real variables: normals, intervals, points, and normals spread over intervals."""

import pickle
from itertools import product

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_raises
from expectedkernels import Circuit, Vtree
from expectedkernels.circuits.inputs import log_box, log_boxes
from oracles import Inner, Real, Table

NODES, SHARES = np.polynomial.legendre.leggauss(60)
MEAN = np.array([0.5, 2.0, -1.0, 1.5])
VARIANCE = np.array([0.0, 0.0, 0.4, 0.2])
HALF = np.array([0.5, 1.0, 0.0, 0.7])  # two intervals, a normal, and a normal over an interval


def fine_rule(panels):
    """Nodes and shares of a rule over the interval from -1 to 1."""
    start = 2.0 * np.arange(panels)[:, None] - panels + 1.0
    return ((start + NODES) / panels).ravel(), np.tile(0.5 * SHARES / panels, panels)


def log_mean(d, widths):
    """The log of the mean of exp(-x^2) over every interval, scaled by its largest term."""
    values, shares = np.array([d]), np.ones(1)
    for half in widths:
        # panels that are narrow for the kernel, and for its slope at this distance
        nodes, share = fine_rule(int(np.ceil(2.0 * half * (1.0 + abs(d) / 4.0))) + 1)
        values = (values[:, None] + half * nodes).ravel()
        shares = (shares[:, None] * share).ravel()
    logs = -(values**2)
    return logs.max() + np.log(np.exp(logs - logs.max()) @ shares)


@pytest.mark.parametrize("d", [0.0, 1e-6, 0.3, 1.0, 2.7, 8.0, 60.0])
@pytest.mark.parametrize("a", [1e-9, 1e-3, 0.4, 0.6, 2.0, 7.0])
def test_one_interval(d, a):
    expected = log_mean(d, [a])
    found = log_box(np.array([d, -d]), np.array([a, a]))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("d", [0.0, 0.3, 1.5, 4.0, 9.0, 30.0])
@pytest.mark.parametrize("a", [1e-6, 0.02, 0.5, 3.0])
@pytest.mark.parametrize("b", [1e-3, 0.3, 1.0, 4.0])
def test_two_intervals(d, a, b):
    expected = log_mean(d, [a, b])
    found = log_boxes(np.array([d, -d, d]), np.array([a, a, b]), np.array([b, b, a]))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("d", [0.0, 10.0, 50.0, 79.5, 80.0, 80.5, 83.0, 120.0])
def test_intervals_that_are_wide_for_the_kernel(d):
    # one is integrated in closed form, the other by panels
    nodes, shares = fine_rule(400)
    logs = log_box(d + 30.0 * nodes, 50.0)
    expected = logs.max() + np.log(np.exp(logs - logs.max()) @ shares)
    found = log_boxes(np.array([d]), np.array([30.0]), np.array([50.0]))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_without_width():
    d = np.array([0.5, 3.0, 1e200])
    zero = np.zeros(3)
    np.testing.assert_array_equal(log_box(d, zero)[:2], -(d[:2] ** 2))
    assert log_box(d, zero)[2] == -np.inf
    np.testing.assert_array_equal(log_boxes(d, zero, zero), log_box(d, zero))
    a = np.array([1.0, 0.2, 3.0])
    np.testing.assert_array_equal(log_boxes(d, zero, a), log_box(d, a))


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def block(weights=None):
    return Real(np.eye(4) if weights is None else weights, MEAN, VARIANCE, HALF)


def pair_of_variables(rng):
    """A mixture of three products of a real variable of all kinds, and one of two states."""
    first = block(rng.dirichlet(np.ones(4), size=3))
    second = Table(rng.dirichlet(np.ones(2), size=3))
    top = Inner(3, 1, None, None, rng.dirichlet(np.ones(3))[None, :])
    return Circuit(Vtree.balanced(2), (first, second, top))


def grid(i, n=1):
    """Nodes of the interval of a component and of its normal, and their shares."""
    at, share = MEAN[i] + np.zeros(1), np.ones(1)
    if HALF[i]:
        at, share = (at[:, None] + HALF[i] * NODES).ravel(), np.tile(0.5 * SHARES, len(at))
    if VARIANCE[i]:
        z = 9.0 * NODES
        density = 9.0 * SHARES * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
        at = (at[:, None] + np.sqrt(VARIANCE[i]) * z).ravel()
        share = (share[:, None] * density).ravel()
    return at, share


@pytest.mark.parametrize("i", range(4))
def test_densities_integrate_to_one_and_have_the_moments(i):
    reach = HALF[i] + 10 * np.sqrt(VARIANCE[i]) + (VARIANCE[i] == 0) * 0.1
    x = np.linspace(MEAN[i] - reach, MEAN[i] + reach, 400_001)
    density = np.exp(block().log_density(x)[:, i])
    step = x[1] - x[0]
    assert density.sum() * step == pytest.approx(1.0, rel=1e-5)
    variance = (density * (x - MEAN[i]) ** 2).sum() * step
    assert variance == pytest.approx(block().total_variance[i], rel=1e-4)
    # beside an interval of density one, it is the more probable from weight 1 / density.max() on
    beside = Real(
        np.eye(2), *(np.array([x[i], y]) for x, y in ((MEAN, 9), (VARIANCE, 0), (HALF, 0.5)))
    )
    for weight, state in ((1 + 1e-6, 0), (1 - 1e-6, 1)):
        top = Inner(2, 1, None, None, np.array([[weight / density.max(), 1.0]]))
        p = Circuit(Vtree.balanced(2), (beside, Table(np.eye(2)), top))
        np.testing.assert_allclose(p.map([np.nan, np.nan]), [[MEAN[i], 9.0][state], state])


def test_intervals_that_are_narrow_touch_or_meet():
    narrow = Real(np.eye(1), np.zeros(1), np.ones(1), np.array([1e-9]))
    normal = Real(np.eye(1), np.zeros(1), np.ones(1))
    x = np.array([0.0, 1.0, 30.0, -5.0])
    np.testing.assert_allclose(narrow.log_density(x), normal.log_density(x), rtol=1e-12)
    edges = np.array([0.1, 0.3, 0.7, 1.1, 1.3])
    low, high = edges[:-1], edges[1:]
    bins = Real(np.eye(4), 0.5 * (low + high), np.zeros(4), 0.5 * (high - low))
    inside = np.isfinite(bins.log_density(edges))
    wanted = (edges[:, None] >= low) & (edges[:, None] <= high)
    np.testing.assert_array_equal(inside, wanted)
    # but intervals that only touch do not meet
    np.testing.assert_array_equal(bins.overlap(bins), np.eye(4, dtype=bool))
    points = Real(np.eye(2), np.array([0.25, 1.0]), np.zeros(2))
    wanted = [[True, True], [False, True], [True, True], [True, True]]
    np.testing.assert_array_equal(block().overlap(points), wanted)
    assert block().overlap(block())[0].tolist() == [True, False, True, True]


@pytest.mark.parametrize(("i", "j"), list(product(range(4), repeat=2)))
def test_expected_kernel_against_sums_over_nodes(i, j):
    def one(k):
        return Circuit(Vtree.balanced(1), (block().take([k]),))

    (x, p), (y, q) = grid(i), grid(j)
    expected = sum(p[k] * (np.exp(-0.8 * (x[k] - y) ** 2) @ q) for k in range(len(x)))
    assert ek.expected_kernel(one(i), one(j), ek.RBF(0.8)) == pytest.approx(expected, rel=1e-12)


def test_expected_kernels_with_points_and_evidence(rng):
    p = pair_of_variables(rng)
    k = ek.RBF(0.6)
    points = np.array([[0.25, 0.0], [1.7, 1.0], [5.0, 1.0]])
    found = ek.expected_kernel(p, points, k)
    weights = p.blocks[2].weights[0]
    expected = np.zeros(3)
    first, second = p.blocks[0].weights, p.blocks[1].table
    for u, v, i in product(range(3), range(2), range(4)):
        x, share = grid(i)
        for row, (s, t) in enumerate(points):
            value = share @ np.exp(-0.6 * (x - s) ** 2) * np.exp(-0.6 * (v - t) ** 2)
            expected[row] += weights[u] * first[u, i] * second[u, v] * value
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    # given its value, the real variable is a point
    evidence = np.array([[0.25, np.nan], [np.nan, 1.0]])
    found = ek.expected_kernel(p, points, k, evidence_p=evidence)
    for row, given in zip(found, ({0: 0.25}, {1: 1}), strict=True):
        conditional = p.condition(given)
        np.testing.assert_allclose(row, ek.expected_kernel(conditional, points, k), rtol=1e-12)


def test_kernels_of_remote_points_and_of_other_kinds():
    p = Circuit(Vtree.balanced(1), (Real(np.eye(1), np.zeros(1), np.zeros(1), np.ones(1)),))
    found = ek.expected_kernel(p, [[40.0]], ek.RBF(1.0), log=True)
    # the mean over the interval of exp(-(40 - x)^2), from its near end
    expected = -(39.0**2) + np.log(0.5 * 0.5 / 39.0 * (1 - 0.5 / 39.0**2 + 0.75 / 39.0**4))
    assert found[0] == pytest.approx(expected, rel=1e-12)
    p = Circuit(Vtree.balanced(1), (block(np.full((1, 4), 0.25)),))
    assert ek.expected_kernel(p, p, ek.ExpHamming(0.7)) == pytest.approx(np.exp(-0.7))
    assert ek.expected_kernel(p, [[0.5]], ek.Delta()).tolist() == [0.0]
    with pytest.raises(ek.KernelError, match="Laplacian kernel cannot be used on the real var"):
        ek.expected_kernel(p, p, ek.Laplacian(1.0))


def test_samples_marginals_and_conditionals(rng):
    p = pair_of_variables(rng)
    weights = p.blocks[2].weights[0] @ p.blocks[0].weights
    mean = weights @ MEAN
    variance = weights @ (VARIANCE + HALF**2 / 3 + MEAN**2) - mean**2
    np.testing.assert_allclose(p.marginals()[0], [mean, variance], rtol=1e-12)
    X = p.sample(20_000, rng=1)
    assert X[:, 0].mean() == pytest.approx(mean, abs=5 * np.sqrt(variance / 20_000))
    assert X[:, 0].var() == pytest.approx(variance, rel=0.05)
    density = np.exp(block().log_density(X[:5, 0])) @ p.blocks[0].weights.T
    state = p.blocks[1].table[:, X[:5, 1].astype(int)].T
    expected = np.log((density * state) @ p.blocks[2].weights[0])
    np.testing.assert_allclose(p.log_likelihood(X[:5]), expected, rtol=1e-12)


def test_files_pickles_and_mixtures_keep_the_widths(tmp_path, rng):
    p = pair_of_variables(rng)
    ek.save(p, tmp_path / "p.npz")
    for q in (ek.load(tmp_path / "p.npz"), pickle.loads(pickle.dumps(p))):
        np.testing.assert_array_equal(q.input(0).half, HALF)
        np.testing.assert_array_equal(q.input(0).weights, p.input(0).weights)
    plain = ek.gaussian_mixture([1.0], [[0.0, 1.0]], [[1.0, 2.0]])
    ek.save(plain, tmp_path / "q.npz")
    with np.load(tmp_path / "p.npz") as some, np.load(tmp_path / "q.npz") as none:
        arrays = dict(some)
        assert "normal_half" in arrays
        assert "normal_half" not in none.files
    np.savez(tmp_path / "p.npz", **(arrays | {"normal_half": -HALF}))
    assert_raises(ek.ParseError, r"widths .*not negative", ek.load, tmp_path / "p.npz")
    x = np.array([[0.25, 1.0], [2.5, 0.0]])
    parts = [p, p.condition({1: 1})]
    expected = np.mean([np.exp(part.log_likelihood(x)) for part in parts], axis=0)
    found = np.exp(ek.mixture(parts, [0.5, 0.5]).log_likelihood(x))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_learning_leaves_intervals_where_they_are(rng):
    p = pair_of_variables(rng)
    q = ek.em(p, p.sample(200, rng=3), iterations=2, progress=False)
    learned = q.input(0)
    wide = learned.halves > 0
    assert set(learned.mean[wide]) <= set(MEAN)
    X = p.sample(50, rng=4)
    assert np.isfinite(q.log_likelihood(X)).all()


def test_what_intervals_do_not_have(rng):
    pytest.importorskip("torch")
    p = Circuit(Vtree.balanced(1), (block().take([0, 1]).with_numbers(np.array([[0.5, 0.5]])),))
    assert_raises(ek.CircuitError, "inputs on intervals has its arrays in NumPy", p.to, "torch")
    assert_raises(ek.PropertyError, "product of densities on intervals", ek.algebra.multiply, p, p)
    one = Circuit(Vtree.balanced(1), (block().take([0]),))
    assert_raises(ek.PropertyError, "is real, and the power 2 of its", ek.algebra.power, one, 2.0)
    for half, message in ((-1.0, "widths that are not negative"), (np.inf, "finite widths")):
        leaf = Real(np.ones((1, 1)), np.zeros(1), np.zeros(1), np.array([half]))
        assert_raises(ek.CircuitError, message, Circuit.from_blocks, Vtree.balanced(1), [leaf])
