"""Tables at the edge: one column, one row, bits that follow from others, huge values, mistakes."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, strategies as st
from scipy.sparse import csr_array
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import expectedkernels as ek
from assertions import assert_raises
from completions import mean_and_deviation
from machines import products_of_normals

NAN = np.nan
GROUPS = [[0], [1, 2, 3]]


def mixed(n=70, seed=0):
    """Codes, a one-hot group, an ordinal column, a real one, and eight bits that hang together."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    codes = np.clip(np.round(z + rng.normal(size=n)), -1, 1) + 1
    group = (rng.integers(3, size=n) + (z > 0)) % 3
    ordinal = np.clip(np.round(2 + z + rng.normal(size=n)), 0, 4)
    bits = (rng.random((n, 8)) < 1 / (1 + np.exp(-z[:, None]))).astype(float)
    X = np.column_stack([codes, np.eye(3)[group], ordinal, z + 0.3 * rng.normal(size=n), bits])
    return X, np.sin(z) + 0.3 * codes + (group == 1) + 0.1 * ordinal


X_MIXED, Y_MIXED = mixed()
OF_TREES = {"groups": GROUPS, "n_bins": 5, "density": "chow_liu"}
FITTED = {
    "svr": ek.ExpectedSVR(C=3.0, **OF_TREES).fit(X_MIXED, Y_MIXED),
    "plain svr": ek.ExpectedSVR(C=5.0, standardize=False, **OF_TREES).fit(X_MIXED, Y_MIXED),
    "ridge, mixture": ek.ExpectedKernelRidge(
        alpha=0.1, gamma=0.2, groups=GROUPS, n_bins=5, density="mixture", random_state=0
    ).fit(X_MIXED, Y_MIXED),
}


@given(
    name=st.sampled_from(sorted(FITTED)),
    number=st.integers(0, len(X_MIXED) - 1),
    missing=st.sets(st.integers(0, 11), min_size=1, max_size=9),
)
def test_mixed_columns_against_enumeration(name, number, missing):
    model = FITTED[name]
    row = X_MIXED[number].copy()
    for i in missing:
        row[model.density_.variables[i].columns] = NAN
    sizes = [model.density_.variables[i].n_states for i in missing]
    if np.prod(sizes) > 4000:
        row[:] = X_MIXED[number]
        row[-6:] = NAN
    mean, std = model.predict(row[None], return_std=True)
    expected = mean_and_deviation(model.predict, model, row)
    np.testing.assert_allclose(mean[0], expected[0], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(std[0], expected[1], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("real", [False, True])
def test_a_single_column(real):
    rng = np.random.default_rng(0)
    y = rng.normal(size=60)
    X = np.where(np.arange(60) % 5, y, NAN)[:, None]
    density = products_of_normals(X) if real else "chow_liu"
    model = ek.ExpectedSVR(C=10.0, density=density).fit(X, y)
    mean, std = model.predict([[NAN], [1.0]], return_std=True)
    assert abs(mean[0]) < 0.5 < std[0]
    np.testing.assert_allclose(mean[1], 1.0, atol=0.3)
    draws = model.density_.draws(model._read([[NAN]]), 3000, np.random.default_rng(0))[:, 0]
    values = model._answers(draws)
    np.testing.assert_allclose([mean[0], std[0]], [values.mean(), values.std()], atol=0.1)


def test_a_single_row():
    model = ek.ExpectedSVR(density="chow_liu").fit([[1.0, 2.0]], [3.0])
    assert model.predict([[NAN, 2.0], [NAN, NAN]]).tolist() == [3.0, 3.0]
    assert ek.ExpectedSVR().fit([[1.0, 2.0]], [3.0]).predict([[1.0, 2.0]]).tolist() == [3.0]
    constant = ek.ExpectedSVR(density="chow_liu").fit(np.ones((5, 2)), np.arange(5.0))
    mean, std = constant.predict([[NAN, 1.0]], return_std=True)
    np.testing.assert_allclose([mean[0], std[0]], [2.0, 0.0], atol=1e-12)


def one_hot_rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    kind = rng.integers(3, size=n)
    return np.column_stack([np.eye(3)[kind], rng.normal(size=n)]), kind


def test_a_last_bit_follows_from_zeros():
    X, kind = one_hot_rows()
    holes = X.copy()
    holes[:, 0] = NAN
    model = ek.ExpectedSVR(groups=[[0, 1, 2]], density="chow_liu")
    whole = model.fit(X, kind).predict(X)
    for fit_missing in ("raise", "drop", "expected"):
        model.set_params(fit_missing=fit_missing).fit(holes, kind)
        np.testing.assert_array_equal(model.predict(holes), whole)
    share = model.circuit_.marginals()[0]
    np.testing.assert_allclose(share, (np.bincount(kind) + 1 / 3) / 61, atol=0.02)


@pytest.mark.parametrize(("row", "message"), [
    ([0.5, NAN, 0.0, 1.0], r"must hold 0 or 1\. Got 0\.5 in row 0, column 0"),
    ([1.0, 1.0, NAN, NAN], r"At most one column .* Row 0 has several, of columns \[0, 1, 2\]"),
])  # fmt: skip
def test_bits_are_checked_in_predictions_too(row, message):
    X, kind = one_hot_rows()
    model = ek.ExpectedSVR(groups=[[0, 1, 2]], density="chow_liu").fit(X, kind)
    for method in (model.predict, lambda rows: model.fit(rows, [0.0])):
        assert_raises(ek.DataError, message, method, [row])
    codes = ek.learn_chow_liu(np.column_stack([kind, X[:, 3] > 0]).astype(float))
    svr = SVR().fit(np.column_stack([X[:, :3], X[:, 3] > 0]), kind)
    given = ek.expected_prediction, svr, codes, [[*row[:3], 1.0]]
    assert_raises(ek.DataError, message, *given, groups=[[0, 1, 2], 3])


@pytest.mark.parametrize("scale", [1e300, 1e160, 1e-160])
@pytest.mark.parametrize("holes", [False, True])
def test_values_whose_squares_are_out_of_range(scale, holes):
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20.0)
    X[0, 0] = NAN if holes else X[0, 0]
    rows = np.array([[NAN, 0.3], [0.2, NAN], [0.1, 0.4]])
    for density in ("auto", "chow_liu"):
        model = ek.ExpectedSVR(density=density, tol=1e-9)
        plain, scaled = (model.fit(X * s, X[:, 1]).predict(rows * s) for s in (1.0, scale))
        np.testing.assert_allclose(scaled, plain, atol=1e-7)
    message = "Column 'y' holds values that cannot be standardised"
    assert_raises(ek.DataError, message, model.fit, X, y * scale)
    message = "cannot be 'scale' for values of this size"
    assert_raises(ek.DataError, message, model.set_params(standardize=False).fit, X * scale, y)
    features = ek.ExpectedKernelFeatures(density=products_of_normals(X))
    message = "Column 0 holds values that cannot be standardised"
    assert_raises(ek.DataError, message, features.fit, X * scale)
    features = ek.ExpectedKernelFeatures(5, random_state=0)
    plain, scaled = (features.fit(X * s).transform(rows * s) for s in (1.0, scale))
    np.testing.assert_allclose(scaled, plain, atol=1e-7)


@pytest.mark.parametrize("density", ["auto", "chow_liu"])
def test_an_outlier_leaves_its_column_almost_constant(density):
    X = np.random.default_rng(0).normal(size=(40, 3))
    wild = X.copy()
    wild[3, 0] = 1e160
    rows = [[0.5, 0.5, NAN], [NAN, 0.5, 0.1], [0.5, 0.5, 0.1]]
    found = ek.ExpectedSVR(density=density).fit(wild, X[:, 1]).predict(rows)
    np.testing.assert_allclose(found, 0.5, atol=0.3)


@pytest.mark.parametrize("big", [1e6, 1e12, 2.0**60, 1e100])
@pytest.mark.parametrize("signs", [(1, -1), (1, 1, 1, 1)])
def test_outliers_do_not_change_the_predictions_of_other_rows(big, signs):
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = ek.ExpectedKernelRidge(random_state=0).fit(X, X @ [1.0, 2.0, 3.0] + np.sin(X[:, 0]))
    rows = X[:6].copy()
    rows[:, 1] = NAN
    others = model.predict(rows)[len(signs) :]
    rows[: len(signs), 0] = big * np.array(signs)
    np.testing.assert_allclose(model.predict(rows)[len(signs) :], others, rtol=1e-11)


def test_tables_that_are_none_with_categories():
    X = np.round(np.random.default_rng(0).normal(size=(30, 2)))
    y = X[:, 0]
    model = ek.ExpectedSVR(categorical_features=[0], density="chow_liu")
    assert_raises(TypeError, "Sparse data was passed", model.fit, csr_array(X), y)
    assert_raises(ValueError, "Expected 2D array, got 1D", model.fit, X[:, 0], y)
    X[3, 0] = np.inf
    assert_raises(ek.DataError, "categories of column 0 contain infinity", model.fit, X, y)


def test_models_that_were_fitted_to_data_frames_take_tables_of_all_kinds():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.integers(3, size=(40, 3)).astype(float), columns=list("abc"))
    model, circuit = SVR().fit(frame, frame["a"]), ek.learn_chow_liu(frame.to_numpy())
    got = ek.expected_prediction(model, circuit, frame)  # without a warning
    np.testing.assert_allclose(got, model.predict(frame), rtol=1e-12)
    for rows in (frame.to_numpy(), pl.from_pandas(frame)):
        np.testing.assert_array_equal(ek.expected_prediction(model, circuit, rows), got)
    pipeline = make_pipeline(StandardScaler(), SVR()).fit(frame, frame["a"])
    search = GridSearchCV(model, {"C": [1.0]}, cv=2).fit(frame, frame["a"])
    for fitted in (pipeline, search):  # these are asked at completions
        found = ek.expected_prediction(fitted, circuit, frame)
        np.testing.assert_allclose(found, fitted.predict(frame), rtol=1e-12)
    given = ek.expected_prediction, model, circuit, frame[["c", "b", "a"]]
    assert_raises(ValueError, "feature names should match", *given)
    missing = frame.iloc[:1].astype(object)
    expected = ek.expected_prediction(model, circuit, [[NAN, *frame.iloc[0, 1:]]])
    for nothing in (None, NAN, pd.NA):
        missing.iloc[0, 0] = nothing
        np.testing.assert_array_equal(ek.expected_prediction(model, circuit, missing), expected)
    masked = np.ma.masked_array(frame.iloc[:1], [[True, False, False]])
    np.testing.assert_array_equal(ek.expected_prediction(model, circuit, masked), expected)
    message = r"swapped. The call is expected_prediction\(model"
    assert_raises(ek.DataError, message, ek.expected_prediction, model, masked, circuit)


def test_columns_without_a_value_in_fit_do_not_count():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = X.sum(axis=1)
    X[:, 2] = np.nan
    rows = np.array([[1.0, 1.0, np.nan], [1.0, 1.0, 1.0], [1.0, 1.0, 5.0]])
    for machine in (ek.ExpectedKernelRidge(alpha=0.1), ek.ExpectedSVR(density="chow_liu")):
        found = machine.fit(X, y).predict(rows)
        np.testing.assert_allclose(found, np.full(3, found[0]), rtol=1e-12)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("density", ["auto", "chow_liu", "gaussian_mixture"])
@pytest.mark.parametrize("far", [1e4, 1e80, 1e160, -1e308])
def test_absurd_rows_have_the_limit_and_leave_others_alone(density, standardize, far):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    X[:, 1] += X[:, 0]
    y = X[:, 0] + np.sin(X[:, 1])
    rows = np.where(rng.random((6, 3)) < 0.4, np.nan, X[:6])
    both = np.vstack([rows, [[far, np.nan, 0.0], [0.0, np.nan, far], [far, 0.0, 0.0]]])
    options = {"density": density, "standardize": standardize}
    model = ek.ExpectedKernelRidge(**options).fit(X, y)
    mean, std = model.predict(both, return_std=True)
    np.testing.assert_allclose(mean[:6], model.predict(rows), atol=1e-12)
    # where all kernels are zero, the function is its constant
    np.testing.assert_allclose(mean[6:], y.mean() if standardize else 0.0, atol=1e-12)
    np.testing.assert_allclose(std[6:], 0.0, atol=1e-12)
    assert np.isfinite(model.predict_interval(both)).all()
    classifier = ek.ExpectedKernelClassifier(**options).fit(X, y > 0)
    shares = classifier.predict_proba(both)
    np.testing.assert_allclose(shares[:6], classifier.predict_proba(rows), atol=1e-12)
    assert np.isfinite(shares).all()
    filled = ek.CircuitImputer(density=density).fit(X).transform(both)
    assert np.isfinite(filled).all()
