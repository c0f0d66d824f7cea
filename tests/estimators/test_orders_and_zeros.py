"""Predictions do not depend on where zero is in a column, nor on the order of rows and columns."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import expectedkernels as ek
from expectedkernels.estimators.orders import own_order

DENSITIES = ["gaussian", "kernel", "chow_liu", "diagonal_mixture", "auto"]
SHIFTS = [1e3, 1e6, 1e8, 1e10]


def table(n=60, holes=0.2, seed=0):
    """Rows of steps of 1/1024, which all shifts keep, without and with holes, and targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 1] += X[:, 0]
    X = np.round(1024.0 * X) / 1024.0
    return X, np.where(rng.random(X.shape) < holes, np.nan, X), X[:, 0] + np.sin(X[:, 1])


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("in_fit", [False, True])
def test_zero_may_be_anywhere(density, shift, in_fit):
    X, holes, y = table()
    model = ek.ExpectedKernelRidge(alpha=0.1, standardize=False, density=density)
    train = holes if in_fit else X
    wanted = model.fit(train, y).predict(holes)
    tolerance = 1e-6 + 1e-15 * shift  # means of columns are rounded
    for away in (shift, np.array([0.0, shift, 0.0])):
        found = model.fit(train + away, y).predict(holes + away)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=tolerance)


@pytest.mark.parametrize("shift", SHIFTS)
def test_zero_may_be_anywhere_for_all_machines(shift):
    X, holes, y = table()
    options = {"standardize": False, "density": "chow_liu"}
    for model in (
        ek.ExpectedSVR(tol=1e-9, **options),
        ek.ExpectedGaussianProcessRegressor(alpha=1e-2, optimizer=None, **options),
    ):
        wanted = model.fit(X, y).predict(holes, return_std=True)
        found = model.fit(X + shift, y).predict(holes + shift, return_std=True)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    for model in (ek.ExpectedSVC(tol=1e-9, **options), ek.ExpectedKernelClassifier(**options)):
        wanted = model.fit(X, y > 0).decision_function(holes)
        model.fit(X + shift, y > 0)
        np.testing.assert_allclose(model.decision_function(holes + shift), wanted, atol=1e-5)
        labels = model.predict(X + shift)
        np.testing.assert_array_equal(labels, model.decision_function(X + shift) > 0)
    features = ek.ExpectedKernelFeatures(10, random_state=0, **options)
    wanted = features.fit(X).transform(holes)
    np.testing.assert_allclose(
        features.fit(X + shift).transform(holes + shift), wanted, rtol=1e-5, atol=1e-5
    )


NAMED = ["gaussian_mixture", "strudel", "mixture", ("mixture", 3)]


@pytest.mark.parametrize("density", [*DENSITIES, *NAMED], ids=str)
@pytest.mark.parametrize("in_fit", [False, True])
def test_rows_and_columns_may_come_in_any_order(density, in_fit):
    X, holes, y = table(80, seed=1)
    X[:, 2] = holes[:, 2] = X[:, 2] > 0
    train = holes if in_fit else X
    rows, columns = np.random.default_rng(2).permutation(80), np.array([2, 0, 1])
    model = ek.ExpectedKernelRidge(alpha=0.1, density=density)
    wanted = model.fit(train, y).predict(holes)
    found = model.fit(train[rows], y[rows]).predict(holes)
    np.testing.assert_allclose(found, wanted, atol=1e-8)
    found = model.fit(train[:, columns], y).predict(holes[:, columns])
    np.testing.assert_allclose(found, wanted, atol=1e-8)
    whole = train[rows][:, columns]
    found = model.fit(whole, y[rows]).predict(holes[:, columns])
    np.testing.assert_allclose(found, wanted, atol=1e-8)


@pytest.mark.parametrize("options", [{"density_weights": "stacked"}, {"alpha": "auto"}], ids=str)
def test_choices_do_not_depend_on_orders(options, monkeypatch):
    monkeypatch.setattr("expectedkernels.estimators.base.MOST_COMPLETE", 50)
    monkeypatch.setattr("expectedkernels.learning.normals.KERNEL_CENTRES", 50)
    X, holes, y = table(90, seed=1)
    rows, columns = np.random.default_rng(2).permutation(90), np.array([2, 0, 1])
    model = ek.ExpectedKernelRidge(random_state=0, **options)
    wanted = model.fit(X, y).predict(holes)
    found = model.fit(X[rows][:, columns], y[rows]).predict(holes[:, columns])
    np.testing.assert_allclose(found, wanted, atol=1e-8)


@given(st.integers(0, 2**31), st.integers(1, 3))
def test_own_orders_tell_rows_and_columns_apart(seed, states):
    rng = np.random.default_rng(seed)
    Z = rng.integers(states, size=rng.integers(1, 8, size=2)).astype(float)
    Z[rng.random(Z.shape) < 0.2] = np.nan
    rows, columns = own_order(Z)
    assert sorted(rows) == list(range(len(Z)))
    assert sorted(columns) == list(range(Z.shape[1]))
    turned = Z[rng.permutation(len(Z))][:, rng.permutation(Z.shape[1])]
    again, others = own_order(turned)
    alike = np.sort(Z[rows][:, columns], axis=None), np.sort(turned[again][:, others], axis=None)
    np.testing.assert_array_equal(*alike)
    x = rng.normal(size=(30, Z.shape[1]))  # of which ranks tell all rows and columns apart
    rows, columns = own_order(x)
    turned = 3.0 * x[::-1, ::-1] + 7.0
    again, others = own_order(turned)
    np.testing.assert_allclose(3.0 * x[rows][:, columns] + 7.0, turned[again][:, others])


def test_kernels_that_are_almost_constant_are_told():
    X, _, y = table()
    with pytest.warns(UserWarning, match="differences between the means of columns for spread"):
        ek.ExpectedSVR(standardize=False).fit(X + np.array([0.0, 1e8, 0.0]), y)
    ek.ExpectedSVR(standardize=False).fit(X + 1e8, y)
