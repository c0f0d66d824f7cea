"""Predictions do not depend on where zero is in a column, nor on the order of rows and columns."""

import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings, strategies as st
from sklearn.base import clone

import expectedkernels as ek
from machines import MACHINES, answers, target

DENSITIES = ["gaussian", "kernel", "chow_liu", "auto"]
SHIFTS = [1e3, 1e6, 1e8, 1e10]


def table(n=60, holes=0.2, seed=0):
    """Rows of steps of 1/1024, which all shifts keep, without and with holes, and targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 1] += X[:, 0]
    X = np.round(1024.0 * X) / 1024.0
    return X, np.where(rng.random(X.shape) < holes, np.nan, X), X[:, 0] + np.sin(X[:, 1])


EXACT = {"svr": {"tol": 1e-9}, "svc": {"tol": 1e-9}, "process": {"alpha": 0.01}}


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize(("name", "density"), [
    *(("ridge", p) for p in DENSITIES),
    *((name, "chow_liu") for name in (*MACHINES, "features") if name != "ridge"),
])  # fmt: skip
@pytest.mark.parametrize("in_fit", [False, True])
def test_zero_may_be_anywhere(name, density, shift, in_fit):
    X, holes, y = table()
    features = ek.ExpectedKernelFeatures(10, random_state=0)
    model = clone(MACHINES.get(name, features)).set_params(standardize=False, density=density)
    if name != "features":
        model.set_params(**EXACT.get(name, {"alpha": 0.1}))
    ask = ek.ExpectedKernelFeatures.transform if name == "features" else answers
    train, y = holes if in_fit else X, target(model, y, [0.0])
    wanted = ask(model.fit(train, y), holes)
    rough = 1e-6 if name == "ridge" else 1e-5
    tolerance = rough + 1e-15 * shift  # means of columns are rounded
    for away in (shift, np.array([0.0, shift, 0.0]))[: 2 if name == "ridge" else 1]:
        found = ask(model.fit(train + away, y), holes + away)
        np.testing.assert_allclose(found, wanted, rtol=rough, atol=tolerance)


@pytest.mark.parametrize("density", [*DENSITIES, "gaussian_mixture"])
@pytest.mark.parametrize(("scale", "zero"), [
    (15.0, 1.7e9),  # Unix seconds within a minute
    (2.0**-10, 2451545.0),  # Julian dates within minutes
])  # fmt: skip
def test_deviations_of_columns_far_from_zero(density, scale, zero):
    X, holes, y = table(120, holes=0.5)
    units, far = np.array([scale, 1.0, 1.0]), np.array([zero, 0.0, 0.0])
    model = ek.ExpectedKernelRidge(alpha=0.1, density=density)
    wanted = model.fit(X * units, y).predict(holes * units, return_std=True)
    found = model.fit(X * units + far, y).predict(holes * units + far, return_std=True)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


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
    for r, c in ((rows, slice(None)), (slice(None), columns), (rows, columns)):
        found = model.fit(train[r][:, c], y[r]).predict(holes[:, c])
        np.testing.assert_allclose(found, wanted, atol=1e-8)


def small_table(seed, kind, ties):
    """Few rows, of which columns are copies, or exchanged by a symmetry of all rows."""
    rng = np.random.default_rng(seed)
    n, d = 2 * int(rng.integers(3, 10)), int(rng.integers(2, 6))
    X = rng.integers(3, size=(n, d)).astype(float)
    if kind != "categorical" and rng.random() < 0.5:
        X += rng.normal(size=(n, d))
    if ties == "symmetric":
        X[n // 2 :] = X[: n // 2]
        X[n // 2 :, :2] = X[: n // 2, 1::-1]
    if rng.random() < 0.5:
        X[rng.random((n, d)) < 0.2] = np.nan
    if ties == "copied":
        X[:, -1] = X[:, 0]
    test = np.concatenate([X, rng.permuted(X, axis=0)])
    test[rng.random(test.shape) < 0.4] = np.nan
    states = {"numeric": [], "mixed": list(range(1, d)), "categorical": list(range(d))}[kind]
    names = [f"c{i}" for i in rng.permutation(d)]
    tables = [pd.DataFrame(Z, columns=names) for Z in (X, test)]
    for table in tables:
        for i in states:
            values = [None if np.isnan(x) else f"{x:g}" for x in np.round(table.iloc[:, i])]
            table[table.columns[i]] = pd.Series(values, dtype=object)
    return *tables, rng.normal(size=n), rng.permutation(n), rng.permutation(d)


KINDS = st.sampled_from(["numeric", "mixed", "categorical"])
TIES = st.sampled_from(["none", "copied", "symmetric"])


@settings(max_examples=40)
@given(st.integers(0, 2**31), KINDS, TIES, st.booleans())
@pytest.mark.parametrize("options", [{}, {"alpha": 0.1, "density": "chow_liu"}], ids=str)
def test_small_tables_have_the_same_predictions_in_any_order(options, seed, kind, ties, named):
    X, test, y, rows, columns = small_table(seed, kind, ties)
    assume(not X.isna().all().any())

    def predictions(X, y, test):
        model = ek.ExpectedKernelRidge(**options)
        if not named and kind != "numeric":
            text = [i for i, name in enumerate(X) if X[name].dtype == object]
            model.set_params(categorical_features=text)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*that were not seen in fit")
            if named:
                return model.fit(X, y).predict(test)
            return model.fit(X.to_numpy(), y).predict(test.to_numpy())

    wanted = predictions(X, y, test)
    found = predictions(X.iloc[:, columns], y, test.iloc[:, columns])
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
    found = predictions(X.iloc[rows], y[rows], test)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@settings(max_examples=30)
@given(st.integers(0, 2**31), KINDS, TIES, st.booleans())
def test_drift_does_not_depend_on_the_order_of_columns(seed, kind, ties, named):
    X, _, _, rows, columns = small_table(seed, kind, ties)
    assume(not X.isna().all().any())
    n = len(X) // 2
    if not named:
        X = X.apply(lambda column: pd.to_numeric(column)).set_axis(range(X.shape[1]), axis=1)

    def found(X):
        windows = (X[:n], X[n:]) if named else (X[:n].to_numpy(), X[n:].to_numpy())
        return ek.drift(*windows, n_bins=4, n_permutations=3, rng=0)

    one, other = found(X), found(X.iloc[:, columns])
    np.testing.assert_allclose(other.mmd2, one.mmd2, atol=1e-12)
    np.testing.assert_allclose(other.ignoring, one.ignoring[columns], atol=1e-12)
    assert one.p_value == other.p_value
    inside = np.concatenate([rows[rows < n], rows[rows >= n]])
    np.testing.assert_allclose(found(X.iloc[inside]).mmd2, one.mmd2, atol=1e-12)


def test_kernels_that_are_almost_constant_are_told():
    X, _, y = table()
    with pytest.warns(UserWarning, match="differences between the means of columns for spread"):
        ek.ExpectedSVR(standardize=False).fit(X + np.array([0.0, 1e8, 0.0]), y)
    ek.ExpectedSVR(standardize=False).fit(X + 1e8, y)


def test_rows_that_are_drawn_do_not_depend_on_orders(monkeypatch):
    monkeypatch.setattr("expectedkernels.estimators.base.MOST_COMPLETE", 30)
    monkeypatch.setattr("expectedkernels.learning.normals.KERNEL_CENTRES", 30)
    grid = np.stack(np.meshgrid(np.arange(9.0), np.arange(9.0)), axis=-1).reshape(-1, 2)
    y, rng = grid.sum(axis=1) ** 2, np.random.default_rng(0)
    test = np.array([[2.0, np.nan], [np.nan, 2.0], [7.5, np.nan], [np.nan, 7.5]])
    model = ek.ExpectedKernelRidge()
    wanted = model.fit(grid, y).predict(test)
    assert 30 <= len(model.density_.parts[1].mixture.weights) < 40
    np.testing.assert_allclose(wanted[::2], wanted[1::2], rtol=1e-9)
    rows = rng.permutation(81)
    np.testing.assert_allclose(model.fit(grid[rows], y[rows]).predict(test), wanted, rtol=1e-9)


@pytest.mark.parametrize("n_landmarks", [None, 30])
def test_choices_do_not_depend_on_orders(n_landmarks, monkeypatch):
    monkeypatch.setattr("expectedkernels.estimators.landmarks.DRAWN", 60)
    monkeypatch.setattr("expectedkernels.estimators.base.MOST_COMPLETE", 50)
    monkeypatch.setattr("expectedkernels.estimators.base.MOST_INCOMPLETE", 30)
    monkeypatch.setattr("expectedkernels.learning.normals.KERNEL_CENTRES", 50)
    X, holes, y = table(90, seed=1)
    rows, columns = np.random.default_rng(2).permutation(90), np.array([2, 0, 1])
    for model, train in product(
        (ek.ExpectedKernelRidge(), ek.ExpectedKernelClassifier()), (X, holes)
    ):
        model.set_params(alpha="auto", n_landmarks=n_landmarks)
        labels = target(model, y)
        wanted = answers(model.fit(train, labels), holes)
        model.fit(train[rows][:, columns], labels[rows])
        np.testing.assert_allclose(answers(model, holes[:, columns]), wanted, atol=1e-8)
