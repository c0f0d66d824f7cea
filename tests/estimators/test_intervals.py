"""Prediction intervals, quantiles and samples of targets, and the calibration behind them."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import expectedkernels as ek
from expectedkernels.estimators import calibration
from expectedkernels.estimators.calibration import (
    Scores,
    cautious_quantiles,
    hidden,
    moments,
    n_missing,
)

NAN = np.nan
PROCESS = ek.ExpectedGaussianProcessRegressor(RBF(2.0) + WhiteKernel(0.1), optimizer=None)
MACHINES = [
    ek.ExpectedSVR(density="chow_liu"),
    ek.ExpectedKernelRidge(alpha=0.3, density="chow_liu"),
    clone(PROCESS).set_params(density="chow_liu"),
]


def line(n=80, seed=0, noise=0.2):
    """Two columns that go together, one that does not, and a target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 1] += X[:, 0]
    return X, X[:, 0] + np.sin(X[:, 1]) + 0.5 * X[:, 2] + noise * rng.normal(size=n)


def holes(X, share, seed=0):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, NAN, X)


def test_rows_that_are_held_out_are_not_known():
    X, y = line()
    model = ek.ExpectedKernelRidge(alpha=1e-8, gamma=5.0, density="chow_liu").fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-3)
    low, high = model.predict_interval(X)
    assert (high - low > 1.0).all()


@pytest.mark.parametrize(("n", "fitted_to"), [(150, 0.0), (60, 0.1)])
def test_coverage_with_more_and_more_missing(n, fitted_to):
    X, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(X))
    X, y = X[order[:350], :6], y[order[:350]]
    model = ek.ExpectedKernelRidge(alpha=0.3, density="chow_liu", n_bins=5)
    model.fit(holes(X[:n], fitted_to), y[:n])
    for share in (0.0, 0.3, 0.6, 0.9):
        low, high = model.predict_interval(holes(X[150:], share))
        assert 0.8 < ((low <= y[150:]) & (y[150:] <= high)).mean() < 0.98
        found = model.predict_quantiles(holes(X[150:], share), [0.1, 0.5, 0.9])
        assert (np.diff(found, axis=1) > 0).all()
        below = (y[150:, None] <= found).mean(axis=0)
        assert (np.abs(below - [0.1, 0.5, 0.9]) < 15.0 / n).all()


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: type(m).__name__)
def test_draws_have_the_mean_and_spread_of_targets(machine):
    X, y = line(100)
    model = clone(machine).fit(X, y)
    rows = np.array([[1.0, NAN, 0.0], [0.5, 0.5, 0.5]])
    drawn = model.sample_predictions(rows, 4000, rng=0)
    assert drawn.shape == (2, 4000)
    np.testing.assert_allclose(drawn.mean(axis=1), model.predict(rows), atol=0.1)
    low, high = np.quantile(drawn, [0.05, 0.95], axis=1)
    ends = model.predict_interval(rows)
    np.testing.assert_allclose(high - low, ends[1] - ends[0], rtol=0.25)
    assert model.sample_predictions(rows, 0).shape == (2, 0)


def test_answers_are_repeated_and_kept():
    X, y = line()
    model = ek.ExpectedSVR(density="chow_liu").fit(X, y)
    rows = holes(X, 0.4)
    fresh = pickle.loads(pickle.dumps(model))
    first = model.predict_interval(rows)
    model.set_params(C=1e-3)  # not fitted again: what was fitted counts
    for again in (model, fresh, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict_interval(rows), first)
    X[:], y[:] = 0.0, 0.0  # the rows are copies
    other = ek.ExpectedSVR(density="chow_liu").fit(*line())
    X[:], y[:] = 0.0, 0.0
    np.testing.assert_array_equal(other.predict_interval(rows), first)


def test_several_targets():
    X, y = line()
    Y = np.column_stack([y, 100.0 * X[:, 2]])
    for machine in MACHINES[1:]:
        model = clone(machine).fit(X, Y)
        rows = holes(X[:5], 0.3)
        low, high = model.predict_interval(rows)
        assert low.shape == (5, 2)
        assert (high > low).all()
        assert model.predict_quantiles(rows, [0.2, 0.8]).shape == (5, 2, 2)
        assert model.sample_predictions(rows, 7, rng=0).shape == (5, 2, 7)


def test_categories_that_some_folds_lack():
    X, y = line(60)
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["kind"] = np.where(np.arange(60) == 7, "rare", np.where(X[:, 0] > 0, "up", "down"))
    model = ek.ExpectedSVR(density="chow_liu").fit(frame, y)
    low, high = model.predict_interval(frame.mask(np.random.default_rng(0).random((60, 4)) < 0.3))
    assert (high > low).all()
    codes = np.column_stack([X, np.arange(60) == 7])
    model = ek.ExpectedSVR(groups=[[3]], density="chow_liu").fit(codes, y)
    assert np.isfinite(model.predict_interval(codes)).all()


def test_weights_of_rows_are_used_where_rows_are_held_out():
    X, y = line()
    weights = np.where(np.arange(80) < 60, 1.0, 1e-9)
    y[60:] += 50.0
    model = ek.ExpectedKernelRidge(alpha=0.3, density="chow_liu").fit(X, y, sample_weight=weights)
    found = model._training.held_out
    assert np.abs(found.mean).max() < 10.0


def test_too_few_rows_and_wrong_arguments():
    X, y = line(10)
    model = ek.ExpectedKernelRidge(density="chow_liu").fit(X, y)
    assert np.isinf(model.predict_interval(X, coverage=0.999)).all()
    with pytest.raises(ek.DataError, match=r"'coverage' .* in the range \(0, 1\)\. Got 90 instead"):
        model.predict_interval(X, coverage=90)
    for wrong in (0.5, [0.5, 1.0], ["a"], [NAN]):
        with pytest.raises(ek.DataError, match="must be a list of levels between 0 and 1"):
            model.predict_quantiles(X, wrong)
    with pytest.raises(ek.DataError, match=r"must be a non-negative int\. Got -1"):
        model.sample_predictions(X, -1)
    with pytest.raises(ek.CircuitError, match="The 'rng' parameter"):
        model.sample_predictions(X, 3, rng="a")
    one = ek.ExpectedKernelRidge(density="chow_liu").fit(X[:1], y[:1])
    with pytest.raises(ek.DataError, match=r"At least 2 rows are needed, .*Got 1\. Fit"):
        one.predict_interval(X)


def test_quantiles_of_one_more_draw():
    rng = np.random.default_rng(0)
    levels = np.array([0.1, 0.3, 0.7, 0.9])
    numbers = rng.normal(size=(4000, 20))
    found = np.stack([cautious_quantiles(x[:19, None], levels)[0] for x in numbers])
    below = (numbers[:, 19:] <= found).mean(axis=0)
    assert (np.abs(below - levels) < 0.03).all()
    assert cautious_quantiles(numbers[:1, :5].T, [0.9]).tolist() == [[np.inf]]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("share", [0.0, 0.15])
def test_spreads_are_those_of_predictions(machine, share, monkeypatch):
    monkeypatch.setattr(calibration, "DRAWS", 2000)
    X, y = line(50)
    model = clone(machine).fit(holes(X, share), y)
    rows = np.array([[1.0, NAN, 0.0], [NAN, NAN, 1.0], [0.5, 0.5, 0.5], [NAN, NAN, NAN]])
    mean, spread = moments(model, model._read(rows), np.random.default_rng(0))
    expected, std = model.predict(rows, return_std=True)
    np.testing.assert_allclose(mean[:, 0], expected, rtol=1e-12)
    np.testing.assert_allclose(spread[:, 0], std, rtol=0.08, atol=1e-6)


def test_hidden_values_are_of_whole_variables_and_all_numbers():
    X, y = line(600)
    kind = np.eye(3)[np.arange(600) % 3]
    model = ek.ExpectedSVR(groups=[[3, 4, 5]], density="chow_liu")
    model.fit(np.column_stack([X, kind])[:60], y[:60])
    variables, Z = model.density_.variables, np.column_stack([X, kind])
    Z[:10, 0] = NAN
    rng = np.random.default_rng(0)
    counts = [n_missing(variables, hidden(variables, Z, k, 4, rng)) for k in range(4)]
    share = np.bincount(np.concatenate(counts)[10:], minlength=5) / 2400
    assert (np.abs(share - 0.2) < 0.03).all()
    assert all((c[:10] >= 1).all() for c in counts)
    gaps = np.isnan(hidden(variables, Z, 2, 4, rng)[:, 3:])
    assert (gaps.all(axis=1) | ~gaps.any(axis=1)).all()


def test_intervals_are_scores_times_scales():
    X, y = line()
    model = ek.ExpectedKernelRidge(alpha=0.3, density="chow_liu").fit(X, y)
    found = model._training.held_out
    scores = Scores.of(found)
    error = (found.target[:, None] - found.mean)[found.as_is]
    np.testing.assert_allclose(scores.noise**2, (error**2).mean())  # nothing is missing there
    low, high = model.predict_interval(X[:4], coverage=0.8)
    near = np.abs(scores.signed[np.abs(found.n_missing) <= 1, 0])  # 200 of these
    near = np.sort(near)[int(np.ceil(0.8 * (len(near) + 1))) - 1]
    np.testing.assert_allclose(high - low, 2.0 * near * scores.noise[0])
    np.testing.assert_allclose((low + high) / 2.0, model.predict(X[:4]))
