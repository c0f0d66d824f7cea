"""Gaussian processes on incomplete rows: covariances, likelihoods, kernels and deviations."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import expectedkernels as ek
from expectedkernels import ExpectedGaussianProcessRegressor
from expectedkernels.estimators.kernel_models import log_marginal_likelihood, most_likely_kernel

KERNEL = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(0.1)


def smooth(n=60, seed=0, rate=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    X[:, 1] += 2 * X[:, 0]
    y = np.sin(0.7 * X[:, 0]) + 0.05 * rng.normal(size=n)
    X[rng.random(X.shape) < rate] = np.nan
    return X, y


def test_likelihoods_are_those_of_normal_densities():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    matrix, targets = root @ root.T + np.eye(4), rng.normal(size=(4, 2))
    expected = sum(multivariate_normal(cov=matrix).logpdf(t) for t in targets.T)
    assert_allclose(log_marginal_likelihood(matrix, targets), expected)
    assert log_marginal_likelihood(-np.eye(2), np.ones((2, 1))) == -np.inf


def test_complete_rows_have_scikit_learns_covariances_and_kernel():
    X, y = smooth()
    theirs = GaussianProcessRegressor(KERNEL, alpha=1e-6).fit(X, y)
    model = ExpectedGaussianProcessRegressor(alpha=1e-6, standardize=False).fit(X, y)
    covariances = model._covariances(model._read(X))
    assert_allclose(covariances(KERNEL), KERNEL(X) + 1e-6 * np.eye(len(X)), rtol=1e-9, atol=1e-12)
    found = most_likely_kernel(KERNEL, covariances, y[:, None])
    likelihood = log_marginal_likelihood(covariances(found), y[:, None])
    assert_allclose(likelihood, theirs.log_marginal_likelihood_value_, atol=0.01)


def test_covariances_of_incomplete_rows_are_those_of_samples():
    X, y = smooth(30, rate=0.3)
    model = ExpectedGaussianProcessRegressor(
        RBF(1.0, "fixed"), alpha=0.2, n_bins=4, density="chow_liu", standardize=False
    ).fit(X, y)
    got = model._covariances(model._read(X))(model.kernel_)
    assert_array_equal(np.diag(got), np.full(30, 1.2))
    imputer = ek.CircuitImputer("sample", n_bins=4, random_state=0).fit(X)
    draws = np.mean([model.kernel_(Z) for Z in imputer.sample(X, 3000)], axis=0)
    others = ~np.eye(30, dtype=bool)
    assert_allclose(got[others], draws[others], atol=0.04)


@pytest.mark.parametrize("n_complete", [0, 4])
def test_kernels_are_fitted_with_few_or_no_complete_rows(n_complete):
    X, y = smooth(140)
    X = np.column_stack([X, X[:, 0] + 0.1 * np.random.default_rng(3).normal(size=140)])
    train, test = X[:90].copy(), X[90:]
    rows = np.arange(n_complete, 90)
    train[rows, rows % 3] = np.nan
    options = {"alpha": 1e-6, "random_state": 0, "density": "chow_liu"}
    model = ExpectedGaussianProcessRegressor(KERNEL, **options).fit(train, y[:90])
    assert (model.model_ is None) == (n_complete == 0)
    assert model.score(test, y[90:]) > 0.9
    mean, std = model.predict(test, return_std=True)
    assert 0.2 < np.mean(((y[90:] - mean) / std) ** 2) < 3.0
    fixed = ExpectedGaussianProcessRegressor(KERNEL, optimizer=None, **options)
    fixed.fit(train, y[:90])
    assert_array_equal(fixed.kernel_.theta, KERNEL.theta)
    assert fixed.score(test, y[90:]) < model.score(test, y[90:])


def test_incomplete_rows_are_not_taken_for_exact_ones():
    X, y = smooth(60)
    holes = X.copy()
    holes[::2, 0] = np.nan  # what is left tells of the target only roughly
    model = ExpectedGaussianProcessRegressor(alpha=1e-8, density="chow_liu").fit(holes, y)
    test, target = smooth(60, seed=1)
    assert model.score(test, target) > 0.5


def test_deviations_of_complete_rows_are_the_limit_of_incomplete_ones():
    X, y = smooth(40, rate=0.2)
    model = ExpectedGaussianProcessRegressor(alpha=0.1, density="chow_liu").fit(X, y)
    row = np.array([[0.3, 0.4]])
    _, std = model.predict(row, return_std=True)
    expansion, prior = model._machine.expansion, model._machine.prior
    gram = expansion.at(model.density_, model._read(row), model._resources)
    assert_allclose(gram[0, 0], model.predict(row)[0])
    mixed = np.vstack([row, [[np.nan, 0.0]]])
    assert_allclose(model.predict(mixed, return_std=True)[1][0], std[0], rtol=1e-12)
    assert 0 < std[0] ** 2 < prior.total


def test_deviations_of_targets_almost_without_noise_are_scikit_learns():
    X, rows = np.random.default_rng(0).normal(size=(2, 200, 2))
    y, kernel = np.sin(X[:, 0]) * np.cos(X[:, 1]), 20.0 * RBF(2.4) + WhiteKernel(1e-6)
    theirs = GaussianProcessRegressor(kernel, optimizer=None, normalize_y=True).fit(X, y)
    wanted = theirs.predict(rows, return_std=True)[1]
    options = {"optimizer": None, "standardize": False, "density": "gaussian"}
    for n_landmarks, rtol in ((None, 1e-6), (200, 1e-2)):
        model = ExpectedGaussianProcessRegressor(kernel, n_landmarks=n_landmarks, **options)
        assert_allclose(model.fit(X, y).predict(rows, return_std=True)[1], wanted, rtol=rtol)
    circuit = ek.gaussian_mixture([1.0], [[0.0, 0.0]], [np.ones(2)])
    found = ek.expected_prediction(theirs, circuit, rows, return_std=True)[1]
    assert_allclose(found, wanted, rtol=1e-6)
