"""The kernel that is chosen for a test."""

import numpy as np
import pytest

import expectedkernels as ek
from expectedkernels.discrepancies import power
from expectedkernels.discrepancies.embeddings import mmd_noise, mmd_statistics, summable

RATES = [ek.RBF(rate) for rate in (1e-3, 2.0, 1e6)]


def two(n=60, m=45, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)), rng.normal(size=(m, 2)) + np.array([0.5, 0.0])


def alike(n=300, seed=0):
    """Samples of two sources with equal means and covariances, one with two modes."""
    rng = np.random.default_rng(seed)
    modes = rng.choice([-0.95, 0.95], size=(n, 1)) + np.sqrt(1 - 0.95**2) * rng.normal(size=(n, 1))
    return rng.normal(size=(n, 1)), modes


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
        np.testing.assert_allclose(power._two_samples(k, X, Y), naive(k, X, Y), rtol=1e-12)


def test_standard_errors_are_those_of_repetitions():
    estimates, errors = np.transpose(
        [power._two_samples(ek.RBF(0.3), *two(80, 60, seed)) for seed in range(200)]
    )
    assert 0.85 < np.mean(errors) / np.std(estimates) < 1.15


def test_the_kernel_of_two_samples():
    X, Y = alike()
    assert ek.choose_kernel(X, Y, RATES) is max(
        RATES, key=lambda k: np.divide(*power._two_samples(k, X, Y))
    )
    assert ek.choose_kernel(X, Y, RATES) is RATES[1]
    assert isinstance(ek.choose_kernel(X, Y), ek.RBF)


def test_the_kernel_against_a_model():
    p, q = (ek.random_circuit(ek.Vtree.balanced(6), 2, rng=seed) for seed in (0, 1))
    X = q.sample(150, rng=0)
    kernels = [ek.ExpHamming(rate) for rate in (0.01, 0.5, 10.0)]
    ratios = []
    for k in kernels:
        value = float(mmd_statistics(summable(p), [k])(X[None])[0, 0])
        ratios.append(value / mmd_noise(summable(p), k, X)[0])
    assert ek.choose_kernel(X, p, kernels) is kernels[int(np.argmax(ratios))]
    assert isinstance(ek.choose_kernel(X, p), ek.ExpHamming)
    assert isinstance(ek.choose_kernel(ek.asia().sample(30, rng=0), ek.asia()), ek.ExpHamming)


def test_choosing_does_not_depend_on_the_scale_of_kernels():
    X, Y = alike()
    scaled = [1e-9 * RATES[0], 1e9 * RATES[1], 1e-5 * RATES[2]]
    assert ek.choose_kernel(X, Y, scaled) is scaled[1]


def test_a_kernel_that_was_chosen_on_other_rows_keeps_the_level():
    rejected = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X, Y = rng.normal(size=(2, 60, 1))
        k = ek.choose_kernel(X[:30], Y[:30], RATES)
        rejected += ek.mmd_two_sample_test(X[30:], Y[30:], k, n_null=19, rng=seed).p_value <= 0.05
    assert rejected <= 6  # of forty: two are expected


def test_parameters_with_gradients_are_numbers_here():
    torch = pytest.importorskip("torch")
    p = ek.factorized([[0.5, 0.5], [0.3, 0.7]])
    X = p.sample(40, rng=0)
    k, twin = ek.RBF(torch.tensor(0.25, requires_grad=True)), ek.RBF(0.25)
    assert ek.choose_kernel(X, p, [k]) is k
    assert ek.mmd_test(X, p, k, n_null=9, rng=0).statistic == pytest.approx(
        ek.mmd_test(X, p, twin, n_null=9, rng=0).statistic, rel=1e-12
    )
    assert ek.mmd_two_sample_test(X[:20], X[20:], k, n_null=9, rng=0).p_value == (
        ek.mmd_two_sample_test(X[:20], X[20:], twin, n_null=9, rng=0).p_value
    )


def test_mistakes():
    X, Y = two()
    p = ek.factorized([[0.5, 0.5], [0.3, 0.7]])
    with pytest.raises(ek.DataError, match="at least one kernel"):
        ek.choose_kernel(X, Y, [])
    with pytest.raises(ek.DataError, match="at least two samples"):
        ek.choose_kernel(X[:1], Y)
    with pytest.raises(ek.DataError, match="at least two samples"):
        ek.choose_kernel([[0, 1]], p)
    with pytest.raises(ek.KernelError, match="must be an expectedkernels kernel"):
        ek.choose_kernel(X, Y, ["rbf"])
    with pytest.raises(ek.DataError, match="NaN in row 0"):
        ek.choose_kernel(np.full((3, 2), np.nan), p)
