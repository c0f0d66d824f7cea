"""Tables at the edge: one column or row, bits that follow, huge values, any order, any zero."""

import warnings
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given, settings, strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import expectedkernels as ek
from assertions import assert_raises
from completions import mean_and_deviation
from machines import MACHINES, answers, products_of_normals, target

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


@pytest.mark.parametrize(
    ("n_landmarks", "density"), [(None, "auto"), (30, "auto"), (20, "chow_liu")]
)
def test_choices_do_not_depend_on_orders(n_landmarks, density, monkeypatch):
    monkeypatch.setattr("expectedkernels.estimators.landmarks.DRAWN", 60)
    monkeypatch.setattr("expectedkernels.estimators.base.MOST_COMPLETE", 50)
    monkeypatch.setattr("expectedkernels.estimators.base.MOST_INCOMPLETE", 30)
    monkeypatch.setattr("expectedkernels.learning.normals.KERNEL_CENTRES", 50)
    X, holes, y = table(90, seed=1)
    rows, columns = np.random.default_rng(2).permutation(90), np.array([2, 0, 1])
    for model, train in product(
        (ek.ExpectedKernelRidge(), ek.ExpectedKernelClassifier()), (X, holes)
    ):
        model.set_params(alpha="auto", n_landmarks=n_landmarks, density=density)
        labels = target(model, y)
        wanted = answers(model.fit(train, labels), holes)
        model.fit(train[rows][:, columns], labels[rows])
        np.testing.assert_allclose(answers(model, holes[:, columns]), wanted, atol=1e-8)
