"""What estimators do when nothing is said: standardised columns, fitted kernels, means."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.preprocessing import StandardScaler

import expectedkernels as ek
from machines import answers

NAN = np.nan
UNITS = np.array([1e-3, 1.0, 5e4])
PROCESS = ek.ExpectedGaussianProcessRegressor()
MACHINES = [ek.ExpectedSVR(tol=1e-9), ek.ExpectedKernelRidge(), PROCESS]


def in_units(n=70, seed=0):
    """Columns and a target in units of very different size."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 1] += X[:, 0]
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.3 * X[:, 2] + 0.1 * rng.normal(size=n)
    return X * UNITS + [1.0, -3.0, 2e5], 4000.0 + 800.0 * y, rng


@pytest.mark.parametrize("fit_holes", [False, True])
@pytest.mark.parametrize("machine", [*MACHINES, ek.ExpectedSVC(tol=1e-9, density="chow_liu")])
def test_standardised_machines_are_plain_ones_on_scaled_columns(machine, fit_holes):
    X, y, rng = in_units(50)
    holes = np.where(rng.random(X.shape) < 0.25, NAN, X)
    train = holes if fit_holes else X
    scaled, values = StandardScaler().fit(train), StandardScaler().fit(y[:, None])
    scale, centre = values.scale_[0], values.mean_[0]
    targets = y, (y - centre) / scale
    if isinstance(machine, ek.ExpectedSVC):
        scale, centre, targets = 1.0, 0.0, (y > 4000, y > 4000)
    model = clone(machine).fit(train, targets[0])
    plain = clone(machine).set_params(standardize=False).fit(scaled.transform(train), targets[1])
    got = answers(model, holes, return_std=True)
    wanted = answers(plain, scaled.transform(holes), return_std=True)
    np.testing.assert_allclose(got[0], wanted[0] * scale + centre, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(got[1], wanted[1] * scale, rtol=1e-3, atol=1e-3 * scale)


def test_bits_and_codes_stay_as_they_are():
    X, y, rng = in_units()
    kind = rng.integers(3, size=len(X))
    every = np.column_stack([np.eye(3)[kind], X[:, 2], kind * 10.0])
    model = ek.ExpectedSVR(groups=[[0, 1, 2], [4]]).fit(every, y)
    deviation = StandardScaler().fit(X[:, 2:]).scale_[0]
    np.testing.assert_allclose(model.columns_.scale, [1.0, 1.0, 1.0, deviation, 1.0])
    frame = pd.DataFrame({"kind": pd.Categorical(kind), "x": X[:, 2]})
    model = ek.ExpectedSVR(gamma=0.5).fit(frame, y)
    np.testing.assert_allclose(model.columns_.scale, [1.0, 1.0, 1.0, deviation])
    np.testing.assert_array_equal(model._machine.expansion.rates, np.full(4, 0.5))


def test_constant_and_blank_columns_are_not_divided():
    X, y, _ = in_units(40)
    X = np.column_stack([X, np.full(40, 7.0)])
    blank = np.where(np.arange(4) == 3, NAN, X)
    model, wanted = ek.ExpectedSVR(gamma=0.5), ek.ExpectedSVR(gamma=0.5).fit(X[:, :3], y)
    for rows, rtol in ((X, 1e-12), (blank, 1e-3)):
        found = model.fit(rows, y).predict(rows)
        np.testing.assert_allclose(found, wanted.predict(X[:, :3]), rtol=rtol)
    constant = ek.ExpectedSVR().fit(X, np.full(40, 3.0))
    np.testing.assert_allclose(constant.predict(blank), np.full(40, 3.0))


def test_weights_count_for_means_and_deviations():
    X, y, rng = in_units(40)
    times = rng.integers(0, 4, size=40)
    model = ek.ExpectedKernelRidge().fit(X, y, sample_weight=times)
    again = ek.ExpectedKernelRidge().fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(model.columns_.centre, again.columns_.centre, rtol=1e-12)
    np.testing.assert_allclose(model.columns_.scale, again.columns_.scale, rtol=1e-9)
    np.testing.assert_allclose(model.predict(X), again.predict(X), rtol=1e-8)
    assert model.alpha_ == again.alpha_
    assert model.gamma_ == pytest.approx(again.gamma_)


def test_a_process_at_the_bounds_of_the_default_kernel_does_not_warn():
    X, _, rng = in_units(40)
    for y in (X[:, 0], rng.normal(size=40), np.ones(40)):  # no noise at all, or nothing else
        clone(PROCESS).fit(X, y)


@pytest.mark.parametrize("machine", MACHINES)
def test_raw_tables_with_text_and_holes_need_no_preparation(machine):
    table = pytest.importorskip("palmerpenguins").load_penguins()
    table = table[table["body_mass_g"].notna()].sample(frac=1.0, random_state=0)
    X, y = table.drop(columns="body_mass_g"), table["body_mass_g"]
    assert X["sex"].isna().any()
    assert clone(machine).fit(X[:200], y[:200]).score(X[200:], y[200:]) > 0.8


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
    model = ek.ExpectedKernelRidge(gamma=gamma).fit(X, y)
    assert model.get_params()["alpha"] == "auto"
    Z, t = StandardScaler().fit_transform(X), (y - y.mean()) / y.std()
    losses = {}
    for rate, alpha in product(np.array(RATES) / 2 if gamma is None else [gamma], ALPHAS):
        ridge = KernelRidge(alpha=alpha, kernel="rbf", gamma=rate)
        found = cross_val_predict(ridge, Z, t, cv=LeaveOneOut())
        losses[alpha, rate] = np.square(found - t).sum()
    alpha, rate = min(losses, key=losses.get)
    assert (model.alpha_, model.gamma_) == (pytest.approx(alpha), pytest.approx(rate))
    fixed = ek.ExpectedKernelRidge(alpha=model.alpha_, gamma=model.gamma_).fit(X, y)
    np.testing.assert_allclose(fixed.predict(X), model.predict(X))
    assert fixed.alpha_ == model.alpha_


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
