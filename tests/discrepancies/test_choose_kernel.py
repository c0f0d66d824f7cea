"""Ratios of a statistic to its error, and the ascent along their gradients."""

import numpy as np
import pytest

import expectedkernels as ek
from assertions import refusals, rejected
from expectedkernels.discrepancies import choose_kernel as ascent
from expectedkernels.discrepancies.mmd import mean_embedding


def two(n=60, m=45, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)), rng.normal(size=(m, 2)) + np.array([0.5, 0.0])


def ratio(k, X, Y):
    """The unbiased estimate of the squared discrepancy over its standard error."""
    value, variance = 0.0, 0.0
    for own, other in ((X, Y), (Y, X)):
        inside = k(own) * (1 - np.eye(len(own)))
        means = inside.sum(axis=1) / (len(own) - 1) - k(own, other).mean(axis=1)
        value += means.mean()
        variance += 4 * np.var(means, ddof=1) / len(own)
    return value / np.sqrt(variance)


def model_ratio(k, X, p):
    """The same against a model."""
    test = ek.mmd_test(X, p, k, n_null=1, rng=0)
    return test.statistic / test.standard_error


def test_standard_errors_are_those_of_repetitions():
    k, samples = ek.RBF(0.3), [two(80, 60, seed) for seed in range(200)]
    estimates = [ek.mmd_two_sample_test(X, Y, k, n_null=1).statistic for X, Y in samples]
    errors = np.divide(estimates, [ascent._sample_ratio(X, Y)(k) for X, Y in samples])
    assert 0.85 < np.mean(errors) / np.std(estimates) < 1.15


def test_ratios_are_those_of_the_definition_for_numbers_and_tensors():
    torch = pytest.importorskip("torch")
    rate = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    X, Y = two(9, 7)
    X[3] = X[0]  # equal rows count as often as they occur
    for make in (ek.RBF, lambda a: 2.0 * ek.RBF(a) + ek.Laplacian(0.2)):
        wanted, found = ratio(make(0.3), X, Y), ascent._sample_ratio(X, Y)
        np.testing.assert_allclose(found(make(0.3)), wanted, rtol=1e-12)
        assert float(found(make(rate)).detach()) == pytest.approx(wanted, rel=1e-9)
    p, q = (ek.random_circuit(ek.Vtree.balanced(4), 2, rng=seed) for seed in (0, 1))
    points = q.sample(30, rng=0)
    found = ascent._model_ratio(mean_embedding(p), points)(ek.ExpHamming(rate))
    wanted = model_ratio(ek.ExpHamming(0.3), points, p)
    assert float(found.detach()) == pytest.approx(wanted, rel=1e-9)


def test_parameters_are_taken_out_and_put_back():
    for k in (
        ek.RBF([0.3, 0.0, 2.0]),
        ek.ExpHamming([0.1, 0.2, 0.3]),
        (2.0 * ek.RBF(0.5) + ek.Delta()) * ek.Laplacian(0.1),
        3.0 * ek.RBF(0.5),
    ):
        found, build = ascent.parameters(k, 3)
        assert repr(build(found)) == repr(k)
        assert all((x > 0).all() for x in found)
    [rate] = ascent.parameters(ek.ExpHamming(), 4)[0]
    assert rate == 0.25
    assert ascent.parameters(ek.Delta(), 3)[0] == []


def test_kernels_that_other_rows_do_not_confirm_are_not_taken():
    torch = pytest.importorskip("torch")
    k = ek.RBF(0.5)
    up = lambda kernel: kernel.tensors[0]  # noqa: E731
    assert ascent.ascended(k, 2, up, lambda kernel: -kernel.tensors[0]) is k
    assert ascent.ascended(k, 2, up, up).gamma > 2.0
    assert ascent.ascended(k, 2, lambda kernel: torch.nan * kernel.tensors[0], up) is k


RATES = [ek.RBF(rate) for rate in (1e-3, 2.0, 1e6)]


def alike(n=300, seed=0):
    """Samples of two sources with equal means and covariances, one with two modes."""
    rng = np.random.default_rng(seed)
    modes = rng.choice([-0.95, 0.95], size=(n, 1)) + np.sqrt(1 - 0.95**2) * rng.normal(size=(n, 1))
    return rng.normal(size=(n, 1)), modes


def test_the_kernel_of_two_samples():
    X, Y = alike()
    assert ek.choose_kernel(X, Y, RATES) is max(RATES, key=lambda k: ratio(k, X, Y))
    assert ek.choose_kernel(X, Y, RATES) is RATES[1]
    assert isinstance(ek.choose_kernel(X, Y), ek.RBF)
    scaled = [1e-9 * RATES[0], 1e9 * RATES[1], 1e-5 * RATES[2]]
    assert ek.choose_kernel(X, Y, scaled) is scaled[1]


def test_the_kernel_against_a_model():
    p, q = (ek.random_circuit(ek.Vtree.balanced(6), 2, rng=seed) for seed in (0, 1))
    X = q.sample(150, rng=0)
    kernels = [ek.ExpHamming(rate) for rate in (0.01, 0.5, 10.0)]
    assert ek.choose_kernel(X, p, kernels) is max(kernels, key=lambda k: model_ratio(k, X, p))
    assert isinstance(ek.choose_kernel(X, p), ek.ExpHamming)
    assert isinstance(ek.choose_kernel(ek.asia().sample(30, rng=0), ek.asia()), ek.ExpHamming)


def test_a_kernel_that_was_chosen_on_other_rows_keeps_the_level():
    def test(seed):
        X, Y = np.random.default_rng(seed).normal(size=(2, 60, 1))
        k = ek.choose_kernel(X[:30], Y[:30], RATES)
        return ek.mmd_two_sample_test(X[30:], Y[30:], k, n_null=19, rng=seed)

    assert rejected(test, 40) <= 6 / 40  # two of forty are expected


def test_parameters_with_gradients_are_numbers_here():
    torch = pytest.importorskip("torch")
    p = ek.factorized([[0.5, 0.5], [0.3, 0.7]])
    X = p.sample(40, rng=0)
    k, twin = ek.RBF(torch.tensor(0.25, requires_grad=True)), ek.RBF(0.25)
    assert ek.choose_kernel(X, p, [k]) is k
    for test, given in ((ek.mmd_test, (X, p)), (ek.mmd_two_sample_test, (X[:20], X[20:]))):
        one, other = (test(*given, kernel, n_null=9, rng=0) for kernel in (k, twin))
        assert one.statistic == pytest.approx(other.statistic, rel=1e-12)
        assert one.p_value == other.p_value


def test_gradients_find_the_variables_that_differ():
    """Independent fair bits, and a source in which the first two are mostly equal."""
    pytest.importorskip("torch")
    p = ek.factorized([[0.5, 0.5]] * 8)
    parts = [ek.factorized([[x, 1 - x]] * 2 + [[0.5, 0.5]] * 6) for x in (0.02, 0.98)]
    q = ek.mixture([p, *parts], [0.3, 0.35, 0.35])
    kernels = [ek.ExpHamming(np.full(8, rate)) for rate in (0.1, 0.4)]
    X, fresh = q.sample(160, rng=0), q.sample(2000, rng=1)
    chosen = ek.choose_kernel(X, p, kernels)
    moved = ek.choose_kernel(X, p, kernels, method="gradient")
    assert moved.gamma[:2].min() > 2 * moved.gamma[2:].max()
    assert model_ratio(moved, fresh, p) > 1.2 * model_ratio(chosen, fresh, p)


def test_gradients_of_two_samples():
    pytest.importorskip("torch")
    X, Y = alike(400)
    k = ek.choose_kernel(X, Y, [ek.RBF(0.05)], method="gradient")
    assert k.gamma > 0.2
    mixed = ek.choose_kernel(X, Y, 0.5 * ek.RBF(0.5) + ek.Laplacian(0.5), method="gradient")
    assert repr(mixed).startswith("(")


U, V = two()
FAIR = ek.factorized([[0.5, 0.5], [0.3, 0.7]])


test_mistakes = refusals(None, [
    (U, V, {"method": "random"}, ek.DataError, "'method' parameter of choose_kernel"),
    (U[:3], V, {"method": "gradient"}, ek.DataError, r"at least four are needed\. Got 3"),
    (U, V, {"kernels": ek.Delta(), "method": "gradient"}, ek.KernelError,
     r"Delta\(\), the best kernel here, has no gamma"),
    (U, V, {"kernels": []}, ek.DataError, "at least one kernel"),
    (U[:1], V, {}, ek.DataError, "at least two samples"),
    ([[0, 1]], FAIR, {}, ek.DataError, "at least two samples"),
    (np.full((3, 2), np.nan), FAIR, {}, ek.DataError, "NaN in row 0"),
], lambda X, Y, options: ek.choose_kernel(X, Y, **options))  # fmt: skip
