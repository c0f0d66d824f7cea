"""Kernel ridge regression that chooses its weight and rate by rows that are left out."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.kernel_ridge import KernelRidge
from sklearn.preprocessing import StandardScaler

import expectedkernels as ek

NAN = np.nan
ALPHAS = 10.0 ** np.arange(-3.0, 1.5, 0.5)
RATES = 0.03, 0.1, 0.3, 1.0, 3.0
"""What "auto" chooses from; rates are those of all columns together."""


def waves(n=30, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=n), rng


@pytest.mark.parametrize("gamma", [None, 0.4])
def test_auto_is_best_for_rows_that_are_left_out(gamma):
    X, y, _ = waves(14)
    model = ek.ExpectedKernelRidge(alpha="auto", gamma=gamma).fit(X, y)
    Z, t = StandardScaler().fit_transform(X), (y - y.mean()) / y.std()
    losses = {}
    for rate in np.array(RATES) / 2 if gamma is None else [gamma]:
        for alpha in ALPHAS:
            ridge = KernelRidge(alpha=alpha, kernel="rbf", gamma=rate)
            away = []
            for i in range(len(Z)):
                rest = np.arange(len(Z)) != i
                away.append(ridge.fit(Z[rest], t[rest]).predict(Z[[i]])[0] - t[i])
            losses[alpha, rate] = np.square(away).sum()
    alpha, rate = min(losses, key=losses.get)
    assert (model.alpha_, model.gamma_) == (pytest.approx(alpha), pytest.approx(rate))
    fixed = ek.ExpectedKernelRidge(alpha=model.alpha_, gamma=model.gamma_).fit(X, y)
    np.testing.assert_allclose(fixed.predict(X), model.predict(X))
    assert fixed.alpha_ == model.alpha_


def test_parameters_are_chosen_by_default():
    X, y, _ = waves()
    model, chosen = ek.ExpectedKernelRidge().fit(X, y), ek.ExpectedKernelRidge(alpha="auto")
    assert (model.alpha_, model.gamma_) != (1.0, 0.5)
    assert model.alpha_ in ALPHAS
    np.testing.assert_array_equal(model.predict(X), chosen.fit(X, y).predict(X))


def test_auto_is_better_than_a_fixed_weight():
    X, y = load_diabetes(return_X_y=True)
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.3, NAN, X)
    for train in (X[:200], holes[:200]):
        plain, chosen = (
            ek.ExpectedKernelRidge(alpha=alpha).fit(train, y[:200]).score(holes[200:], y[200:])
            for alpha in (1.0, "auto")
        )
        assert chosen > plain


def test_equal_rows_are_left_out_together():
    X, y, _ = waves()
    model = ek.ExpectedKernelRidge(alpha="auto", density="gaussian")
    times = np.arange(len(X)) % 3 + 1
    weighted = clone(model).fit(X, y, sample_weight=times)
    repeated = clone(model).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert weighted.alpha_ == repeated.alpha_
    assert weighted.gamma_ == pytest.approx(repeated.gamma_)


@pytest.mark.parametrize("mask_kernel", [None, 0.5, "auto"])
@pytest.mark.parametrize("density", ["auto", "chow_liu"])
def test_auto_with_holes_masks_and_several_targets(density, mask_kernel):
    X, y, rng = waves(40)
    holes = np.where(rng.random(X.shape) < 0.2, NAN, X)
    model = ek.ExpectedKernelRidge(alpha="auto", density=density, mask_kernel=mask_kernel)
    model.fit(holes, np.column_stack([y, -y]))
    assert model.alpha_ in ALPHAS
    found = model.predict(holes)
    np.testing.assert_allclose(found[:, 0], -found[:, 1], atol=1e-9)
    low, high = model.predict_interval(holes[:4])
    assert (low < high).all()
    again = model._training.machine
    assert (again.alpha, again.gamma) == (model.alpha_, model.gamma_)
