"""Covariances of incomplete rows, marginal likelihoods, and kernels that maximise them."""

import numpy as np
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import expectedkernels as ek
from expectedkernels import ExpectedGaussianProcessRegressor
from expectedkernels.estimators.gaussian_process import (
    log_marginal_likelihood,
    most_likely_kernel,
)
from expectedkernels.estimators.kernel_expansion import Masks

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
    np.testing.assert_allclose(log_marginal_likelihood(matrix, targets), expected)
    assert log_marginal_likelihood(-np.eye(2), np.ones((2, 1))) == -np.inf


def test_complete_rows_have_scikit_learns_covariances_and_kernel():
    X, y = smooth()
    theirs = GaussianProcessRegressor(KERNEL, alpha=1e-6).fit(X, y)
    model = ExpectedGaussianProcessRegressor(alpha=1e-6, standardize=False).fit(X, y)
    covariances = model._covariances(model._read(X), Masks(0.0, np.zeros(X.shape, dtype=bool)))
    np.testing.assert_allclose(
        covariances(KERNEL), KERNEL(X) + 1e-6 * np.eye(len(X)), rtol=1e-9, atol=1e-12
    )
    found = most_likely_kernel(KERNEL, covariances, y[:, None])
    likelihood = log_marginal_likelihood(covariances(found), y[:, None])
    np.testing.assert_allclose(likelihood, theirs.log_marginal_likelihood_value_, atol=0.01)


def test_covariances_of_incomplete_rows_are_those_of_samples():
    X, y = smooth(30, rate=0.3)
    model = ExpectedGaussianProcessRegressor(
        RBF(1.0, "fixed"), alpha=0.2, n_bins=4, density="chow_liu", standardize=False
    ).fit(X, y)
    got = model._covariances(model._read(X), Masks(0.0, np.isnan(X)))(model.kernel_)
    np.testing.assert_array_equal(np.diag(got), np.full(30, 1.2))
    imputer = ek.CircuitImputer("sample", n_bins=4, random_state=0).fit(X)
    draws = np.mean([model.kernel_(Z) for Z in imputer.sample(X, 3000)], axis=0)
    others = ~np.eye(30, dtype=bool)
    np.testing.assert_allclose(got[others], draws[others], atol=0.04)
