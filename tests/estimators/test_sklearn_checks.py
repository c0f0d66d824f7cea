"""scikit-learn's own checks, pipelines, searches, data frames, copies."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import expectedkernels as ek

MACHINES = [
    ek.ExpectedSVR(),
    ek.ExpectedKernelRidge(),
    ek.ExpectedSVC(),
    ek.ExpectedKernelClassifier(),
    ek.ExpectedGaussianProcessRegressor(alpha=1e-3),
]
LANDMARKS = [clone(machine).set_params(n_landmarks=50) for machine in MACHINES]
ESTIMATORS = [*MACHINES, ek.ExpectedKernelFeatures(), ek.CircuitImputer()]


def expected_failures(estimator):
    """What also fails for scikit-learn's own support vector machines, for the same reason."""
    if isinstance(estimator, (ek.ExpectedSVR, ek.ExpectedSVC)):
        reason = "libsvm stops at a tolerance, not at the optimum"
        return {"check_sample_weight_equivalence_on_dense_data": reason}
    return {}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([*ESTIMATORS, *LANDMARKS], expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check, monkeypatch):
    # Otherwise check_array_api_input skips itself; it is about NumPy's arrays only, which SciPy
    # treats in the same way whether or not it dispatches on others.
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_every_parameter_is_documented_once(estimator):
    section = type(estimator).__doc__.split("Parameters\n----------\n")[1].split("\n\n")[0]
    names = [line.partition(" :")[0] for line in section.splitlines() if line[:1].strip()]
    assert sorted(names) == sorted(estimator.get_params(deep=False))


def diabetes(n=120, rate=0.2, seed=0):
    X, y = load_diabetes(return_X_y=True)
    X, y = StandardScaler().fit_transform(X[:n]), (y[:n] - 150.0) / 80.0
    holes = X.copy()
    holes[np.random.default_rng(seed).random(X.shape) < rate] = np.nan
    return X, holes, y


def test_a_circuit_can_be_cloned_and_searched():
    rng = np.random.default_rng(0)
    X = rng.integers(3, size=(60, 3)).astype(float)
    y = X.sum(axis=1)
    circuit = ek.learn_chow_liu(X)
    search = GridSearchCV(
        ek.ExpectedSVR(), {"density": ["chow_liu", "strudel", circuit]}, cv=2, error_score="raise"
    )
    holes = X.copy()
    holes[::3, 1] = np.nan
    search.fit(X, y)
    assert len(search.cv_results_["mean_test_score"]) == 3
    assert np.isfinite(search.predict(holes)).all()


def table(n=90, seed=0):
    rng = np.random.default_rng(seed)
    kind = rng.choice(["red", "green", "blue"], size=n)
    size = rng.normal(size=n) + (kind == "red")
    y = size + 2.0 * (kind == "blue")
    frame = pd.DataFrame(
        {"size": size, "kind": pd.Categorical(kind), "count": rng.integers(4, size=n)}
    )
    return frame, y


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_everything_that_stands_for_missing(missing):
    X, y = table()
    model = ek.ExpectedKernelRidge(alpha=0.1).fit(X, y)
    row = X.iloc[:1].astype(object)
    row.loc[0, "size"] = missing
    row.loc[0, "kind"] = missing
    expected = X.iloc[:1].copy()
    expected["size"] = np.nan
    expected["kind"] = pd.Categorical([None], categories=["blue", "green", "red"])
    np.testing.assert_array_equal(model.predict(row), model.predict(expected))


def test_pandas_extension_types():
    X, y = table()
    model = ek.ExpectedSVR().fit(X, y)
    nullable = X.astype({"count": "Int64", "size": "Float64"})
    nullable.loc[0, "count"] = pd.NA
    expected = X.astype({"count": float})
    expected.loc[0, "count"] = np.nan
    np.testing.assert_array_equal(model.predict(nullable), model.predict(expected))


def test_unseen_codes_count_as_missing():
    rng = np.random.default_rng(0)
    X = rng.integers(3, size=(50, 2)).astype(float)
    model = ek.ExpectedSVR(groups=[[0], [1]]).fit(X, X[:, 0])
    with pytest.warns(UserWarning, match="Column 1 has categories .*: 7.0"):
        got = model.predict([[1.0, 7.0]])
    np.testing.assert_array_equal(got, model.predict([[1.0, np.nan]]))


def test_names_and_masks_and_numbers_say_the_same():
    X, y = table()
    expected = ek.ExpectedSVR().fit(X, y).predict(X.assign(size=np.nan))
    for chosen in (["kind"], [1], [False, True, False]):
        model = ek.ExpectedSVR(categorical_features=chosen).fit(X, y)
        np.testing.assert_array_equal(model.predict(X.assign(size=np.nan)), expected)
    objects = X.to_numpy(dtype=object)
    model = ek.ExpectedSVR(categorical_features=[1]).fit(objects, y)
    objects = objects.copy()
    objects[:, 0] = None
    np.testing.assert_array_equal(model.predict(objects), expected)


def test_one_hot_groups_behind_an_encoder():
    X, y = table()
    encode = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["kind"]), remainder="passthrough"
    )
    Z = encode.fit_transform(X)
    model = ek.ExpectedSVR(groups=[[0, 1, 2]]).fit(Z, y)
    assert len(model.density_.variables) == 3
    Z[:, :3] = np.nan
    blank = X.assign(kind=pd.Categorical([None] * len(X), categories=["blue", "green", "red"]))
    np.testing.assert_allclose(
        model.predict(Z), ek.ExpectedSVR().fit(X, y).predict(blank), rtol=1e-6
    )


def test_pandas_output_of_transformers():
    X, _ = table()
    X.loc[:3, "size"] = np.nan
    X.loc[5:7, "kind"] = np.nan
    for strategy in ("map", "mean", "sample"):
        imputer = ek.CircuitImputer(strategy, random_state=0).set_output(transform="pandas")
        filled = imputer.fit_transform(X)
        assert filled.columns.tolist() == ["size", "kind", "count"]
        assert filled.index.equals(X.index)
        assert filled["kind"].dtype == "category"
        assert filled["size"].dtype == np.float64
    again = make_pipeline(ek.CircuitImputer().set_output(transform="pandas"), ek.ExpectedSVR())
    assert again.fit(X, np.arange(len(X))).predict(X).shape == (len(X),)
    features = ek.ExpectedKernelFeatures(5).set_output(transform="pandas").fit_transform(X)
    assert features.columns[0] == "expectedkernelfeatures0"


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("value", [True, np.False_])
def test_truth_values_are_no_numbers(estimator, value):
    X, _, y = diabetes(20)
    numbers = {"C", "epsilon", "alpha", "gamma", "tol", "mask_kernel", "n_components", "n_bins"}
    numbers |= {"n_jobs", "max_bytes", "random_state", "n_landmarks"}
    for name in numbers & set(estimator.get_params()):
        message = f"'{name}' parameter of .* must be one of: .* Got .* not taken for a number"
        with pytest.raises(ek.DataError, match=message):
            clone(estimator).set_params(**{name: value}).fit(X, y > 0)


def test_coverages_and_counts_are_numbers():
    X, _, y = diabetes(40)
    with pytest.raises(ek.DataError, match=r"'coverage' parameter .* range \(0, 1\). Got True"):
        ek.ExpectedKernelRidge().fit(X, y).predict_interval(X, True)
    with pytest.raises(ek.DataError, match=r"'n' parameter of CircuitImputer.sample .* Got True"):
        ek.CircuitImputer().fit(X).sample(X, True)
    with pytest.raises(ek.DataError, match=r"'cardinalities' parameter .* Got True"):
        ek.learn_chow_liu([[0, 1], [1, 0]], cardinalities=True)
