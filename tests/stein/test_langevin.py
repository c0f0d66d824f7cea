"""Stein kernels, weights and tests of densities over the reals."""

import numpy as np
import pandas as pd
import pytest
import torch

import expectedkernels as ek
from assertions import assert_close, assert_raises, refusals
from stein_oracles import greedy

MEANS = np.array([[0.0, 0.0], [2.0, 1.0]])
KERNELS = {
    "imq": ek.stein.IMQ([1.5, 0.7]),
    "imq, one scale": ek.stein.IMQ(2.0),
    "rbf": ek.RBF([0.3, 0.1]),
}


def log_mixture(X):
    """Two normals, as a function of tensors."""
    means = torch.as_tensor(MEANS)
    weights = torch.tensor([0.3, 0.7], dtype=torch.float64).log()
    return (weights - 0.5 * ((X[:, None] - means) ** 2).sum(2)).logsumexp(1)


def score(X):
    """The gradient of the same, in NumPy."""
    logs = np.log([0.3, 0.7]) - 0.5 * ((X[:, None] - MEANS) ** 2).sum(axis=2)
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return (shares / shares.sum(axis=1, keepdims=True)) @ MEANS - X


MIXTURE = ek.Target(log_mixture, n_variables=2)
CIRCUIT = ek.gaussian_mixture([0.3, 0.7], MEANS, np.ones((2, 2)))
QUICK = ek.Target(CIRCUIT.log_likelihood, n_variables=2, score=score)
NORMAL = ek.Target(
    lambda X: -0.5 * (X**2).sum(axis=1), n_variables=2, score=lambda X: -X, names=["a", "b"]
)


def by_autograd(k, x, y):
    """The Langevin Stein kernel of two points by its definition."""
    x, y = (torch.tensor(v, requires_grad=True) for v in (x, y))
    scores = [torch.autograd.grad(log_mixture(v[None]).sum(), v)[0] for v in (x, y)]
    if isinstance(k, ek.RBF):
        value = torch.exp(-(torch.as_tensor(k.gamma) * (x - y) ** 2).sum())
    else:
        value = (1 + ((x - y) ** 2 / torch.as_tensor(k.lengthscale) ** 2).sum()) ** -0.5
    by_x, by_y = torch.autograd.grad(value, (x, y), create_graph=True)
    both = sum(torch.autograd.grad(by_y[i], x, retain_graph=True)[0][i] for i in range(2))
    cross = scores[0] @ by_y + scores[1] @ by_x
    return (both + cross + value * (scores[0] @ scores[1])).item()


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_those_of_automatic_differentiation(name):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(5, 2)), 100 + rng.normal(size=(2, 2))])
    stein = ek.stein.LangevinSteinKernel(MIXTURE, KERNELS[name])
    wanted = np.array([[by_autograd(KERNELS[name], x, y) for y in X] for x in X])
    size = np.abs(np.diag(wanted)) ** 0.5
    size = np.outer(size, size)
    np.testing.assert_allclose(stein(X) / size, wanted / size, atol=1e-12)
    column, diagonal = stein._columns(X)
    assert_close(diagonal, np.diag(stein(X)))
    assert_close(column(3), stein(X)[3], scale=size[3])
    assert_close(stein.extended(stein(X[:4]), X[:4], X[4:]), stein(X), scale=size)


def test_imq_is_a_kernel_of_points():
    X = np.random.default_rng(0).normal(size=(6, 2))
    k = ek.stein.IMQ([1.0, 2.0])
    wanted = (1 + (((X[:, None] - X) / [1.0, 2.0]) ** 2).sum(axis=2)) ** -0.5
    assert_close(k(X), wanted)
    assert repr(k) == "IMQ(lengthscale=[1.0, 2.0])"
    message = "no product over the variables.*Use RBF"
    assert_raises(ek.KernelError, message, ek.expected_kernel, CIRCUIT, CIRCUIT, k)
    for scale in ([1.0, 0.0], "a"):
        assert_raises(ek.KernelError, "'lengthscale' parameter of IMQ", ek.stein.IMQ, scale)
    assert_raises(ek.KernelError, r"made for 3 variables. Got 2", ek.stein.IMQ([1.0] * 3), X)


def test_discrepancies_of_samples():
    X = np.random.default_rng(0).normal(size=(40, 2))
    k = ek.stein.IMQ(1.5)
    gram = ek.stein.LangevinSteinKernel(NORMAL, k)(X)
    assert_close(ek.kdsd(X, NORMAL, k), gram.mean())
    assert_close(ek.kdsd(X, NORMAL, k, unbiased=True), (gram.sum() - np.trace(gram)) / (40 * 39))
    frame = pd.DataFrame(X, columns=["a", "b"])[["b", "a"]]
    assert_close(ek.kdsd(frame, NORMAL, k), gram.mean())
    assert ek.kdsd(X, NORMAL) < ek.kdsd(X + 1.0, NORMAL)


def test_thinning_is_greedy():
    X = np.random.default_rng(1).normal(size=(60, 2)) * 1.5
    X = np.concatenate([X, X[:5]])
    k = ek.stein.IMQ(1.0)
    chosen = greedy(ek.stein.LangevinSteinKernel(NORMAL, k)(X), 20)
    np.testing.assert_array_equal(ek.stein_thin(NORMAL, X, 20, kernel=k), chosen)
    assert len(ek.stein_thin(MIXTURE, X, 5)) == 5


def test_weights_repair_samples():
    X = np.random.default_rng(0).normal(size=(150, 2)) * [2.0, 1.0] + [0.7, 0.0]
    found = ek.bbis(NORMAL, X)
    mean, variance = np.array(found.marginals()).T
    assert abs(mean[0]) < 0.15 < abs(X.mean(axis=0)[0])
    assert abs(variance[0] - 1) < 0.3
    assert_close(found.marginals()["a"], np.array(found.marginals()[0]))
    assert_close(found.expect(lambda Y: Y), mean)
    raw = ek.bbis(NORMAL, X, ek.RBF(0.3), weights="raw")
    gram = ek.stein.LangevinSteinKernel(NORMAL, ek.RBF(0.3))(X)
    assert_close(raw.weights, ek.simplex_weights(gram).weights, scale=1.0)
    assert raw.discrepancy < raw.uniform_discrepancy
    signed = raw.reweighted("signed")
    np.testing.assert_allclose(signed.weights, ek.stein.signed_weights(gram), atol=1e-6)
    more = ek.bbis(NORMAL, X[:100], ek.RBF(0.3), weights="raw").extended(X[100:])
    assert_close(more.weights, raw.weights, scale=1.0)
    assert more.thin(10).n == 10
    good = ek.bbis(MIXTURE, CIRCUIT.sample(200, rng=0))  # keep their weights
    assert "look like an independent sample" in good.decision
    assert good.ess > 60


def rejected(shift, repeats):
    rng = np.random.default_rng(0)
    samples = (CIRCUIT.sample(30, rng) + shift for _ in range(repeats))
    return np.mean([ek.kdsd_test(X, QUICK, n_null=19, rng=rng).p_value <= 0.05 for X in samples])


def test_chains_keep_the_level_and_have_power():
    assert rejected(0.0, 60) <= 0.05 + 3 * 0.029
    assert rejected(0.8, 10) >= 0.8
    X = CIRCUIT.sample(30, rng=0)
    test = ek.kdsd_test(X, MIXTURE, n_null=19, rng=0)
    assert test.drawn == "langevin"
    assert "19 exchangeable Langevin chains, IMQ" in str(test)
    assert_close(test.statistic, ek.kdsd(X, MIXTURE, test.kernel, unbiased=True))


def test_other_tests_of_densities():
    X = np.random.default_rng(0).normal(size=(60, 2))
    signs = ek.kdsd_test(X, NORMAL, change=0.25, rng=0)
    assert (signs.drawn, signs.p_value > 0.05) == ("signs", True)
    kernels = [ek.RBF(0.2), ek.stein.IMQ(1.0)]
    assert ek.kdsd_test(X, NORMAL, kernels, n_null=19, rng=0).kernel in kernels
    assert ek.kdsd_test(X + 1.0, NORMAL, "aggregate", n_null=19, rng=0).p_value == 0.05
    assert ek.kdsd_test(np.ones((6, 2)), NORMAL, ek.RBF(0.2), n_null=9, rng=0).p_value == 0.1
    assert ek.kdsd_test(X * [1.0, 0.0], NORMAL, n_null=19, rng=0).p_value == 0.05
    for options in ({"null": "gibbs"}, {"null": "model"}, {"refit": lambda X: NORMAL}):
        message = "tested by Langevin chains, null='auto'"
        assert_raises(ek.DataError, message, ek.kdsd_test, X, NORMAL, **options)


@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_far_samples_of_steep_densities(scale):
    X = np.random.default_rng(0).normal(size=(40, 1))
    steep = ek.Target(lambda Y: -np.cosh(Y).sum(axis=1), n_variables=1, score=lambda Y: -np.sinh(Y))
    test = ek.kdsd_test(scale * (X + 2.0), steep, n_null=19, rng=0)
    assert test.p_value == 0.05


def test_scores_are_given_or_differentiated():
    X = np.random.default_rng(0).normal(size=(4, 2))
    torch_normal = ek.Target(lambda Y: -0.5 * (Y**2).sum(1), n_variables=2)
    assert_close(torch_normal.score(X), NORMAL.score(X))
    assert_close(torch_normal.log_prob(X), NORMAL.log_prob(X))
    for score in (None, lambda y: -y):
        by_rows = {"n_variables": 2, "score": score, "vectorized": False}
        assert_close(ek.Target(lambda y: -0.5 * (y**2).sum(), **by_rows).score(X), -X)
    assert (NORMAL.is_real, NORMAL.cardinalities) == (True, (None, None))


test_mistakes_in_targets = refusals(ek.CircuitError, [
    (lambda: ek.Target(np.sum, [2], n_variables=1), "over states, with 'cardinalities', or over"),
    (lambda: ek.Target(np.sum, [2], score=np.sum), "over states, with 'cardinalities', or over"),
    (lambda: ek.Target(np.sum), r"'cardinalities' parameter of Target.*give n_variables"),
    (lambda: ek.Target(np.sum, n_variables=1, score=3), "'score' parameter of Target"),
    (lambda: ek.Target(np.sum, n_variables=0), "'n_variables' parameter of Target"),
])  # fmt: skip


REALS, STATES = np.array([[0.5], [1.0], [-0.5]]), ek.Target(lambda Y: 0.0 * Y[:, 0], [2])


def real(log_prob=lambda Y: Y[:, 0], **options):
    return ek.Target(log_prob, n_variables=1, **options)


test_mistakes_in_functions = refusals(None, [
    (lambda: ek.kdsd(REALS, real(lambda Y: np.where(Y > 0, 0, -np.inf)[:, 0], score=np.zeros_like)),
     ek.DataError, r"log_prob is -inf at row 2, .*positive everywhere"),
    (lambda: real(lambda Y: np.log(np.abs(Y)).sum(axis=1)).score(REALS),
     ek.DataError, r"takes a tensor of torch.*Target\(..., score=...\)"),
    (lambda: real(score=lambda Y: Y[:, 0]).score(REALS),
     ek.DataError, r"'score' of a Target has shape \(3,\)"),
    (lambda: real(lambda Y: Y).score(REALS), ek.DataError, "must give one number for each row"),
    (lambda: ek.kdsd(REALS, real(), ek.Laplacian(1.0)), ek.KernelError, "RBF or stein.IMQ. Got"),
    (lambda: ek.kdsd(REALS, real(score=lambda Y: Y + 1e200)), ek.KernelError, "too large for a"),
    (lambda: ek.stein.LangevinSteinKernel(STATES), ek.DataError, "is that of a density"),
    (lambda: STATES.score([[0]]), ek.PropertyError, "This target is over states"),
])  # fmt: skip


@pytest.mark.parametrize("call", [
    lambda: ek.gibbs(NORMAL, 5),
    lambda: ek.SteinKernel(NORMAL),
    lambda: NORMAL.site_logs([[0.0, 0.0]], 0),
    lambda: ek.mmd_test(np.zeros((5, 2)), NORMAL),
    lambda: ek.collapsed_bbis(NORMAL, [[0.0, np.nan], [1.0, np.nan]]),
    lambda: ek.kdsd(CIRCUIT, NORMAL),
    lambda: ek.kdsd([[0.0, 1.0]], CIRCUIT),
    lambda: ek.log_partition_estimate(NORMAL, np.zeros((5, 2))),
])  # fmt: skip
def test_what_is_for_states_says_so(call):
    assert_raises((ek.DataError, ek.PropertyError), r"real|states|Samples need values", call)
