"""The estimators: numeric columns, incomplete training rows, densities, bad input."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

import expectedkernels as ek
from assertions import assert_raises, refusals
from completions import completions
from machines import products_of_normals


def data(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 1] += X[:, 0]
    X[:, 2] = rng.integers(3, size=n)
    return X, np.sin(X[:, 0]) + 0.5 * X[:, 1] + X[:, 2], rng


@pytest.mark.parametrize("standardize", [False, True])
def test_complete_data_gives_the_wrapped_model(standardize):
    X, y, _ = data()
    y = 4000.0 + 800.0 * y if standardize else y
    kernel = ConstantKernel(2.0) * RBF(2.0) + WhiteKernel(0.1)
    options = {"optimizer": None, "normalize_y": standardize}
    pairs = [
        (ek.ExpectedSVR(C=2.0), SVR(C=2.0), y),
        (ek.ExpectedKernelRidge(alpha=0.3), KernelRidge(alpha=0.3, kernel="rbf"), y),
        (ek.ExpectedSVC(), SVC(), np.digitize(y, np.quantile(y, [0.3, 0.6]))),
        (
            ek.ExpectedGaussianProcessRegressor(kernel, **options),
            GaussianProcessRegressor(kernel, **options),
            y,
        ),
    ]
    for ours, theirs, target in pairs:
        if standardize:
            theirs = make_pipeline(StandardScaler(), theirs)
            if isinstance(ours, (ek.ExpectedSVR, ek.ExpectedKernelRidge)):
                theirs = TransformedTargetRegressor(theirs, transformer=StandardScaler())
        ours.set_params(standardize=standardize, density="chow_liu").fit(X, target)
        theirs.fit(X, target)
        # the last bits of products of matrices depend on where these lie in memory
        np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-10)
        if isinstance(ours, ek.ExpectedSVC):
            found, wanted = (model.decision_function(X) for model in (ours, theirs))
            np.testing.assert_allclose(found, wanted)
        if isinstance(ours, ek.ExpectedGaussianProcessRegressor):
            found, wanted = (model.predict(X, return_std=True)[1] for model in (ours, theirs))
            np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_a_process_adds_up_its_own_and_the_missing_variance():
    X, y, _ = data(40)
    X = np.round(X)
    model = ek.ExpectedGaussianProcessRegressor(
        RBF(2.0), alpha=0.1, optimizer=None, density="chow_liu"
    ).fit(X, y)
    row = X[:1].copy()
    row[0, 0] = np.nan
    mean, std = model.predict(row, return_std=True)
    rows, share = completions(model, row[0])
    centre, own = model.predict(rows, return_std=True)
    np.testing.assert_allclose(mean[0], share @ centre, rtol=1e-9)
    total = share @ own**2 + share @ (centre - mean[0]) ** 2
    np.testing.assert_allclose(std[0] ** 2, total, rtol=1e-8)


@pytest.mark.parametrize("real", [False, True])
def test_expected_gram_matrices_are_positive_semidefinite(real):
    X, y, rng = data(60)
    X[rng.random(X.shape) < 0.4] = np.nan
    density = products_of_normals(X) if real else "chow_liu"
    model = ek.ExpectedKernelRidge(n_bins=5, density=density).fit(X, y)
    X = model._read(X)
    gram = model.density_.gram(np.full(3, 0.7), X)
    np.testing.assert_array_equal(gram, gram.T)
    assert np.linalg.eigvalsh(gram).min() > -1e-10
    halves = model.density_.gram(np.full(3, 0.7), X[:25], X[25:])
    np.testing.assert_allclose(halves, gram[:25, 25:], rtol=1e-8, atol=1e-12)


def test_dropping_and_refusing_incomplete_rows():
    X, y, _ = data()
    holes = X.copy()
    holes[3, 0] = holes[10, 1] = np.nan
    kept = np.delete(np.arange(len(X)), [3, 10])
    model = ek.ExpectedSVR(fit_missing="drop", standardize=False, density="chow_liu").fit(holes, y)
    theirs = SVR().fit(X[kept], y[kept]).predict(X)
    np.testing.assert_allclose(model.predict(X), theirs, rtol=1e-12)
    with pytest.raises(ek.DataError, match=r"2 rows with missing values \(the first is row 3\)"):
        ek.ExpectedSVR(fit_missing="raise", density="chow_liu").fit(holes, y)
    with pytest.raises(ek.DataError, match="fit_missing='drop' leaves ExpectedSVR nothing"):
        ek.ExpectedSVR(fit_missing="drop", density="chow_liu").fit(
            np.full((3, 1), np.nan), [0.0, 1.0, 2.0]
        )


class Independent(BaseEstimator):
    """A density of the simplest kind."""

    def fit(self, X, y=None):
        tables = []
        for x in X.T:
            counts = np.bincount(x[~np.isnan(x)].astype(int), minlength=2) + 1.0
            tables.append(counts / counts.sum())
        self.circuit_ = ek.factorized(tables)
        return self


def test_densities_may_be_estimators():
    X, y, rng = data()
    model = ek.ExpectedSVR(density=Independent(), n_bins=4, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.circuit_.log_partition(), 0.0, atol=1e-9)
    X[rng.random(X.shape) < 0.5] = np.nan
    assert np.isfinite(model.predict(X)).all()


def test_bad_input():
    X, y, _ = data(30)
    text = X.astype(object)
    text[2, 1] = "tall"
    model = ek.ExpectedSVR(density="chow_liu").fit(X, y)
    assert_raises(ek.DataError, "Column 1 holds text, 'tall' in row 2", model.predict, text)
    with pytest.raises(ek.KernelError, match="RBF kernel"):
        ek.ExpectedGaussianProcessRegressor(WhiteKernel()).fit(X, y)


test_bad_columns = refusals(ek.DataError, [
    ({"groups": [[0, 1]]}, "one-hot group must hold 0 or 1. Got"),
    ({"groups": [[2], [2]]}, "each once"),
    ({"groups": [[5]]}, "'groups' parameter must name columns, or their numbers in 0..2"),
    ({"groups": ["a"]}, "must name columns.* Got 'a'"),
    ({"categorical_features": [True]}, "a mask of 3 bools. Got True"),
    ({"categorical_features": [3]}, "'categorical_features' parameter must name columns"),
], lambda options: ek.ExpectedSVR(**options).fit(*data(20)[:2]))  # fmt: skip


def test_the_category_without_a_bit():
    X = np.vstack([np.eye(2), np.zeros((2, 2)), [[1.0, 0.0]]])
    model = ek.ExpectedSVR(groups=[[0, 1]], density="chow_liu").fit(X, np.arange(5.0))
    assert model.circuit_.cardinalities == (3,)
    rows = [[np.nan, 0.0], [np.nan, 1.0]]
    share = model.circuit_.marginals()[0] * [1.0, 0.0, 1.0]
    values = model.predict(np.vstack([np.eye(2), np.zeros((1, 2))]))
    expected = [share @ values / share.sum(), values[1]]
    np.testing.assert_allclose(model.predict(rows), expected, rtol=1e-9)


def test_imputed_values_are_possible_and_agree_with_the_circuit():
    rng = np.random.default_rng(0)
    X = rng.integers(3, size=(100, 3)).astype(float)
    X[:, 1] = np.where(rng.random(100) < 0.8, X[:, 0], X[:, 1])
    holes = X.copy()
    holes[rng.random(X.shape) < 0.3] = np.nan
    imputer = ek.CircuitImputer("map").fit(holes)
    np.testing.assert_array_equal(imputer.transform(holes), imputer.circuit_.map(holes))
    means = ek.CircuitImputer(density="chow_liu").fit(holes).transform(holes)
    marginals = imputer.circuit_.marginals(holes)
    for i in range(3):
        missing = np.isnan(holes[:, i])
        np.testing.assert_allclose(means[missing, i], marginals[i][missing] @ np.arange(3.0))
    drawn = np.array(imputer.sample(holes, 300, random_state=0))
    assert drawn.shape == (300, 100, 3)
    np.testing.assert_allclose(drawn.mean(axis=0), means, atol=0.25)
    with pytest.raises(ek.DataError, match=r"'n' parameter .* in the range \[1, inf\). Got 0"):
        imputer.sample(holes, 0)
    with pytest.raises(ek.PropertyError, match="deterministic"):
        ek.CircuitImputer("map", density="mixture", random_state=0).fit(holes).transform(holes)


def gaps(X, rng):
    return np.where(rng.random(X.shape) < 0.3, np.nan, X)


def one_gap(X, rng):
    return np.where(np.arange(X.shape[1]) == np.arange(len(X))[:, None] % 3, np.nan, X)


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("missing", [gaps, one_gap, lambda X, rng: X], ids=["gaps", "all", "none"])
def test_features_are_expected_kernels(missing, standardize):
    X, _, rng = data(50)
    holes = missing(X, rng)
    options = {"gamma": 0.5, "standardize": standardize, "random_state": 0}
    features = ek.ExpectedKernelFeatures(8, **options).fit(holes)
    scaler = StandardScaler(with_mean=standardize, with_std=standardize).fit(holes)
    rows, landmarks = scaler.transform(holes), scaler.transform(features.landmarks_)
    assert np.isnan(landmarks).any(axis=1).all() == (missing is one_gap)
    read = features._read(holes), features._read(features.landmarks_)
    found = features.transform(holes)
    rates = 0.5 * (np.ones(3) if standardize else features.columns_.scale**2)
    np.testing.assert_allclose(found, features.density_.gram(rates, *read), rtol=1e-9)
    known = np.ix_(~np.isnan(rows).any(axis=1), ~np.isnan(landmarks).any(axis=1))
    wanted = ek.RBF(0.5)(np.nan_to_num(rows), np.nan_to_num(landmarks))
    np.testing.assert_allclose(found[known], wanted[known], rtol=1e-10)
    if missing not in (gaps, one_gap):
        every = ek.ExpectedKernelFeatures(50, normalize=True, **options).fit_transform(X)
        np.testing.assert_allclose(every @ every.T, ek.RBF(0.5)(rows, rows), atol=1e-6)
    scale = ek.ExpectedKernelFeatures(10, random_state=0).fit(holes).gamma_
    np.testing.assert_allclose(scale, 1 / 3, rtol=1e-6)
