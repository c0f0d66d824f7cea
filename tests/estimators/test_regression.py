"""Least squares on classes: averaged probabilities, and what "auto" chooses."""

import itertools

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel

import expectedkernels as ek
from expectedkernels.estimators import regression as least_squares
from expectedkernels.estimators.base import leave_one_out
from expectedkernels.estimators.regression import as_probabilities

NAN = np.nan
NAMES = np.array(["blue", "green", "red"])


def codes(n=60, seed=0):
    """Columns of codes, and three classes that depend on them."""
    rng = np.random.default_rng(seed)
    X = rng.integers(3, size=(n, 3)).astype(float)
    X[:, 1] = np.where(rng.random(n) < 0.6, X[:, 0], X[:, 1])
    y = NAMES[((X[:, 0] + (rng.random(n) < 0.3)) % 3).astype(int)]
    return X, y


def test_leaving_out_is_fitting_to_the_others():
    rng = np.random.default_rng(0)
    X, targets = rng.normal(size=(15, 2)), rng.normal(size=(15, 2))
    weights, alphas = rng.uniform(0.5, 2.0, size=15), [0.01, 1.0]
    found = leave_one_out(rbf_kernel(X, gamma=0.5), targets, alphas, weights)
    for alpha, answers in zip(alphas, found, strict=True):
        for i in range(15):
            rest = np.arange(15) != i
            model = KernelRidge(alpha=alpha, kernel="rbf", gamma=0.5)
            model.fit(X[rest], targets[rest], sample_weight=weights[rest])
            np.testing.assert_allclose(answers[i], model.predict(X[[i]])[0], rtol=1e-9)


@pytest.mark.parametrize("holes", [False, True])
def test_probabilities_are_averages_over_all_completions(holes):
    X, y = codes()
    if holes:
        X[::5, 2] = NAN
    model = ek.ExpectedKernelClassifier(
        alpha=0.3, gamma=0.2, density="chow_liu", groups=[[0], [1], [2]]
    ).fit(X, y)
    rows = np.array([[0, NAN, 1], [NAN, NAN, 2], [NAN, NAN, NAN], [2, 1, NAN]])
    worlds = np.array(list(itertools.product(range(3), repeat=3)), dtype=float)
    share = np.exp(model.circuit_.log_likelihood(worlds))
    values = model.decision_function(worlds)
    np.testing.assert_allclose(values.sum(axis=1), 1.0, rtol=1e-9)
    mean, std = model.decision_function(rows, return_std=True)
    for i, row in enumerate(rows):
        agree = ((worlds == row) | np.isnan(row)).all(axis=1)
        p = share * agree / (share @ agree)
        np.testing.assert_allclose(mean[i], p @ values, rtol=1e-9)
        np.testing.assert_allclose(std[i], np.sqrt(p @ (values - p @ values) ** 2), rtol=1e-6)
    np.testing.assert_allclose(model.predict_proba(rows), as_probabilities(mean), rtol=1e-12)
    np.testing.assert_array_equal(model.predict(rows), NAMES[mean.argmax(axis=1)])


def test_auto_takes_the_smallest_loss_of_what_is_left_out(monkeypatch):
    monkeypatch.setattr(least_squares, "ALPHAS", np.array([0.01, 0.3, 3.0]))
    X, y = codes(40)
    model = ek.ExpectedKernelClassifier(standardize=False).fit(X, y)
    rows, counts = np.unique(
        np.column_stack([X, y == "green", y == "red"]), axis=0, return_counts=True
    )
    Z, bits = rows[:, :3], np.column_stack([1 - rows[:, 3] - rows[:, 4], rows[:, 3:]])
    frequencies = counts @ bits / counts.sum()
    losses = {}
    for rate in np.array(least_squares.RATES) / (3 * X.var()):
        for alpha in least_squares.ALPHAS:
            p = np.empty_like(bits)
            for i in range(len(Z)):
                rest = np.arange(len(Z)) != i
                ridge = KernelRidge(alpha=alpha, kernel="rbf", gamma=rate)
                ridge.fit(Z[rest], bits[rest] - frequencies, sample_weight=counts[rest])
                p[i] = ridge.predict(Z[[i]])[0] + frequencies
            losses[alpha, rate] = -counts @ np.log((as_probabilities(p) * bits).sum(axis=1))
    alpha, rate = min(losses, key=losses.get)
    assert (model.alpha_, model.gamma_) == (pytest.approx(alpha), pytest.approx(rate))
    fixed = ek.ExpectedKernelClassifier(alpha=0.7, standardize=False).fit(X, y)
    assert fixed.alpha_ == 0.7


def test_many_classes_have_smaller_smallest_probabilities():
    p = as_probabilities(np.eye(100)[:3])
    np.testing.assert_allclose(p.min(axis=1), 0.001 / 1.099)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
