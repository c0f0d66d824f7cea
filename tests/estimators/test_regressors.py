"""The estimators: numeric columns, incomplete training rows, densities, processes, defaults."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal
from sklearn.base import BaseEstimator, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

import expectedkernels as ek
from assertions import assert_raises, refusals
from completions import completions
from expectedkernels.estimators.kernel_models import log_marginal_likelihood, most_likely_kernel
from machines import answers
from oracles import with_holes


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
    processes = ek.ExpectedGaussianProcessRegressor, GaussianProcessRegressor
    pairs = [
        (ek.ExpectedSVR(C=2.0), SVR(C=2.0), y),
        (ek.ExpectedKernelRidge(alpha=0.3), KernelRidge(alpha=0.3, kernel="rbf"), y),
        (ek.ExpectedSVC(), SVC(), np.digitize(y, np.quantile(y, [0.3, 0.6]))),
        (*(process(kernel, **options) for process in processes), y),
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
    options = {"alpha": 0.1, "optimizer": None, "density": "chow_liu"}
    model = ek.ExpectedGaussianProcessRegressor(RBF(2.0), **options).fit(X, y)
    row = np.array([[np.nan, *X[0, 1:]]])
    mean, std = model.predict(row, return_std=True)
    rows, share = completions(model, row[0])
    centre, own = model.predict(rows, return_std=True)
    np.testing.assert_allclose(mean[0], share @ centre, rtol=1e-9)
    total = share @ own**2 + share @ (centre - mean[0]) ** 2
    np.testing.assert_allclose(std[0] ** 2, total, rtol=1e-8)


def test_dropping_and_refusing_incomplete_rows():
    X, y, _ = data()
    holes = X.copy()
    holes[3, 0] = holes[10, 1] = np.nan
    kept = np.delete(np.arange(len(X)), [3, 10])
    model = ek.ExpectedSVR(fit_missing="drop", standardize=False, density="chow_liu").fit(holes, y)
    theirs = SVR().fit(X[kept], y[kept]).predict(X)
    np.testing.assert_allclose(model.predict(X), theirs, rtol=1e-12)
    message = "fit_missing='drop' leaves ExpectedSVR nothing"
    assert_raises(ek.DataError, message, model.fit, np.full((3, 1), np.nan), [0.0, 1.0, 2.0])
    message = r"2 rows with missing values \(the first is row 3\)"
    assert_raises(ek.DataError, message, model.set_params(fit_missing="raise").fit, holes, y)


def test_densities_may_be_estimators():
    class Learner(BaseEstimator):
        def fit(self, X, y=None):
            cards = 1 + np.nanmax(X, axis=0).astype(int)
            self.circuit_ = ek.factorized([np.full(card, 1 / card) for card in cards])

    X, y, _ = data()
    model = ek.ExpectedSVR(density=Learner(), n_bins=4, random_state=0).fit(X, y)
    assert max(model.circuit_.cardinalities) >= 4
    assert np.isfinite(model.predict(with_holes(X))).all()


TALL = data(30)[0].astype(object)
TALL[2, 1] = "tall"


test_bad_input = refusals(ek.DataError, [
    (lambda X, y: ek.ExpectedSVR(groups=[[0, 1]]).fit(X, y), "group must hold 0 or 1. Got"),
    (lambda X, y: ek.ExpectedSVR(groups=[[2], [2]]).fit(X, y), "each once"),
    (lambda X, y: ek.ExpectedSVR(groups=[[5]]).fit(X, y),
     "'groups' parameter must name columns, or their numbers in 0..2"),
    (lambda X, y: ek.ExpectedSVR(groups=["a"]).fit(X, y), "must name columns.* Got 'a'"),
    (lambda X, y: ek.ExpectedSVR(categorical_features=[True]).fit(X, y),
     "a mask of 3 bools. Got True"),
    (lambda X, y: ek.ExpectedSVR(categorical_features=[3]).fit(X, y),
     "'categorical_features' parameter must name columns"),
    (lambda X, y: ek.ExpectedSVR().fit(X, y).predict(TALL), "Column 1 holds text, 'tall' in row 2"),
], lambda call: call(*data(20)[:2]))  # fmt: skip


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
    holes = with_holes(X, 0.3)
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
    message = r"'n' parameter .* in the range \[1, inf\). Got 0"
    assert_raises(ek.DataError, message, imputer.sample, holes, 0)
    mixed = ek.CircuitImputer("map", density="mixture", random_state=0).fit(holes)
    assert_raises(ek.PropertyError, "deterministic", mixed.transform, holes)


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("missing", ["some", "all", "none"])
def test_features_are_expected_kernels(missing, standardize):
    X = data(50)[0]
    one_gap = np.where(np.arange(3) == np.arange(50)[:, None] % 3, np.nan, X)
    holes = {"some": with_holes(X, 0.3), "all": one_gap, "none": X}[missing]
    options = {"gamma": 0.5, "standardize": standardize, "random_state": 0}
    features = ek.ExpectedKernelFeatures(8, **options).fit(holes)
    scaler = StandardScaler(with_mean=standardize, with_std=standardize).fit(holes)
    rows, landmarks = scaler.transform(holes), scaler.transform(features.landmarks_)
    assert np.isnan(landmarks).any(axis=1).all() == (missing == "all")
    read = features._read(holes), features._read(features.landmarks_)
    found = features.transform(holes)
    rates = 0.5 * (np.ones(3) if standardize else features.columns_.scale**2)
    np.testing.assert_allclose(found, features.density_.gram(rates, *read), rtol=1e-9)
    known = np.ix_(~np.isnan(rows).any(axis=1), ~np.isnan(landmarks).any(axis=1))
    wanted = ek.RBF(0.5)(np.nan_to_num(rows), np.nan_to_num(landmarks))
    np.testing.assert_allclose(found[known], wanted[known], rtol=1e-10)
    if missing == "none":
        every = ek.ExpectedKernelFeatures(50, normalize=True, **options).fit_transform(X)
        np.testing.assert_allclose(every @ every.T, ek.RBF(0.5)(rows, rows), atol=1e-6)
    scale = ek.ExpectedKernelFeatures(10, random_state=0).fit(holes).gamma_
    np.testing.assert_allclose(scale, 1 / 3, rtol=1e-6)


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
    model = ek.ExpectedGaussianProcessRegressor(alpha=1e-6, standardize=False).fit(X, y)
    covariances = model._covariances(model._read(X))
    np.testing.assert_allclose(
        covariances(KERNEL), KERNEL(X) + 1e-6 * np.eye(len(X)), rtol=1e-9, atol=1e-12
    )
    found = most_likely_kernel(KERNEL, covariances, y[:, None])
    likelihood = log_marginal_likelihood(covariances(found), y[:, None])
    np.testing.assert_allclose(likelihood, theirs.log_marginal_likelihood_value_, atol=0.01)


def test_covariances_of_incomplete_rows_are_those_of_samples():
    X, y = smooth(30, rate=0.3)
    options = {"alpha": 0.2, "n_bins": 4, "density": "chow_liu", "standardize": False}
    model = ek.ExpectedGaussianProcessRegressor(RBF(1.0, "fixed"), **options).fit(X, y)
    got = model._covariances(model._read(X))(model.kernel_)
    np.testing.assert_array_equal(np.diag(got), np.full(30, 1.2))
    imputer = ek.CircuitImputer("sample", n_bins=4, random_state=0).fit(X)
    draws = np.mean([model.kernel_(Z) for Z in imputer.sample(X, 3000)], axis=0)
    others = ~np.eye(30, dtype=bool)
    np.testing.assert_allclose(got[others], draws[others], atol=0.04)


@pytest.mark.parametrize("n_complete", [0, 4])
def test_kernels_are_fitted_with_few_or_no_complete_rows(n_complete):
    X, y = smooth(140)
    X = np.column_stack([X, X[:, 0] + 0.1 * np.random.default_rng(3).normal(size=140)])
    train, test = X[:90].copy(), X[90:]
    rows = np.arange(n_complete, 90)
    train[rows, rows % 3] = np.nan
    options = {"alpha": 1e-6, "random_state": 0, "density": "chow_liu"}
    model = ek.ExpectedGaussianProcessRegressor(KERNEL, **options).fit(train, y[:90])
    assert (model.model_ is None) == (n_complete == 0)
    assert model.score(test, y[90:]) > 0.9
    mean, std = model.predict(test, return_std=True)
    assert 0.2 < np.mean(((y[90:] - mean) / std) ** 2) < 3.0
    fixed = ek.ExpectedGaussianProcessRegressor(KERNEL, optimizer=None, **options)
    fixed.fit(train, y[:90])
    np.testing.assert_array_equal(fixed.kernel_.theta, KERNEL.theta)
    fixed.set_params(kernel=WhiteKernel())
    assert_raises(ek.KernelError, "RBF kernel", fixed.fit, train, y[:90])
    assert fixed.score(test, y[90:]) < model.score(test, y[90:])


def test_incomplete_rows_are_not_taken_for_exact_ones():
    X, y = smooth(60)
    holes = X.copy()
    holes[::2, 0] = np.nan  # what is left tells of the target only roughly
    model = ek.ExpectedGaussianProcessRegressor(alpha=1e-8, density="chow_liu").fit(holes, y)
    test, target = smooth(60, seed=1)
    assert model.score(test, target) > 0.5


def test_deviations_of_targets_almost_without_noise_are_scikit_learns():
    X, rows = np.random.default_rng(0).normal(size=(2, 200, 2))
    y, kernel = np.sin(X[:, 0]) * np.cos(X[:, 1]), 20.0 * RBF(2.4) + WhiteKernel(1e-6)
    theirs = GaussianProcessRegressor(kernel, optimizer=None, normalize_y=True).fit(X, y)
    wanted = theirs.predict(rows, return_std=True)[1]
    options = {"optimizer": None, "standardize": False, "density": "gaussian"}
    for n_landmarks, rtol in ((None, 1e-6), (200, 1e-2)):
        model = ek.ExpectedGaussianProcessRegressor(kernel, n_landmarks=n_landmarks, **options)
        np.testing.assert_allclose(
            model.fit(X, y).predict(rows, return_std=True)[1], wanted, rtol=rtol
        )
    circuit = ek.gaussian_mixture([1.0], [[0.0, 0.0]], [np.ones(2)])
    found = ek.expected_prediction(theirs, circuit, rows, return_std=True)[1]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


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
    np.testing.assert_allclose(model.predict(X), found, rtol=1e-12)  # whatever is in the blank one
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
