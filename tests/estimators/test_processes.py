"""Gaussian processes on incomplete rows: kernels are fitted, and deviations add up."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from expectedkernels import ExpectedGaussianProcessRegressor

KERNEL = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(0.1)


def smooth(n=60, seed=0, rate=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    X[:, 1] += 2 * X[:, 0]
    y = np.sin(0.7 * X[:, 0]) + 0.05 * rng.normal(size=n)
    X[rng.random(X.shape) < rate] = np.nan
    return X, y


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
    np.testing.assert_array_equal(fixed.kernel_.theta, KERNEL.theta)
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
    np.testing.assert_allclose(gram[0, 0], model.predict(row)[0])
    mixed = np.vstack([row, [[np.nan, 0.0]]])
    np.testing.assert_allclose(model.predict(mixed, return_std=True)[1][0], std[0], rtol=1e-12)
    assert 0 < std[0] ** 2 < prior.total
