"""Ratios of a statistic to its error, and the ascent along their gradients."""

import numpy as np
import pytest

import expectedkernels as ek
from expectedkernels.discrepancies import choose_kernel as ascent, choose_kernel as power
from expectedkernels.discrepancies.hypothesis_tests import mean_embedding


def two(n=60, m=45, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)), rng.normal(size=(m, 2)) + np.array([0.5, 0.0])


def naive(k, X, Y):
    """The unbiased estimate of the squared discrepancy and its standard error, by loops."""
    value, variance = 0.0, 0.0
    for own, other in ((X, Y), (Y, X)):
        means = []
        for i, x in enumerate(own):
            inside = [float(k([x], [y])[0, 0]) for j, y in enumerate(own) if j != i]
            across = [float(k([x], [y])[0, 0]) for y in other]
            means.append(np.mean(inside) - np.mean(across))
        value += np.mean(means)
        variance += 4 * np.var(means, ddof=1) / len(own)
    return value, np.sqrt(variance)


def test_estimates_are_those_of_loops():
    X, Y = two(9, 7)
    X[3] = X[0]  # equal rows count as often as they occur
    for k in (ek.RBF(0.3), ek.RBF(0.3) + 2.0 * ek.Laplacian(0.2)):
        wanted = np.divide(*naive(k, X, Y))
        np.testing.assert_allclose(power._sample_ratio(X, Y)(k), wanted, rtol=1e-12)


def test_standard_errors_are_those_of_repetitions():
    k, samples = ek.RBF(0.3), [two(80, 60, seed) for seed in range(200)]
    estimates = [ek.mmd_two_sample_test(X, Y, k, n_null=1).statistic for X, Y in samples]
    errors = np.divide(estimates, [power._sample_ratio(X, Y)(k) for X, Y in samples])
    assert 0.85 < np.mean(errors) / np.std(estimates) < 1.15


def test_ratios_of_tensors_are_those_of_numbers():
    torch = pytest.importorskip("torch")
    rate = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    X, Y = two(9, 7)
    X[3] = X[0]
    for make in (ek.RBF, lambda a: 2.0 * ek.RBF(a) + ek.Laplacian(0.2)):
        found = power._sample_ratio(X, Y)(make(rate))
        assert float(found.detach()) == pytest.approx(np.divide(*naive(make(0.3), X, Y)), rel=1e-9)
    p, q = (ek.random_circuit(ek.Vtree.balanced(4), 2, rng=seed) for seed in (0, 1))
    points = q.sample(30, rng=0)
    found = power._model_ratio(mean_embedding(p), points, follow=True)(ek.ExpHamming(rate))
    test = ek.mmd_test(points, p, ek.ExpHamming(0.3), n_null=1, rng=0)
    ratio = test.statistic / test.standard_error
    assert float(found.detach()) == pytest.approx(ratio, rel=1e-9)


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


def test_a_kernel_that_gradients_chose_on_other_rows_keeps_the_level(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(ascent, "STEPS", 2)
    p, rejected = ek.factorized([[0.5, 0.5]] * 8), 0
    for seed in range(20):
        X = p.sample(40, rng=seed)
        k = ek.choose_kernel(X[:20], p, ek.ExpHamming([0.2] * 8), method="gradient")
        rejected += ek.mmd_test(X[20:], p, k, n_null=19, rng=seed).p_value <= 0.05
    assert rejected <= 4  # of twenty: one is expected
