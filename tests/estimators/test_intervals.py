"""Prediction intervals, quantiles and samples of targets, and the calibration behind them."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import expectedkernels as ek
from assertions import assert_raises, refusals
from expectedkernels.estimators import calibration
from expectedkernels.estimators.calibration import (
    hidden,
    moments,
    n_missing,
    part_of,
    weighted_quantiles,
)
from oracles import with_holes

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


def wedge(n=600, seed=0):
    """A target whose noise grows with the column."""
    rng = np.random.default_rng(seed)
    x = rng.random(n)
    return x[:, None], x + (0.05 + 2.0 * x) * rng.normal(size=n)


def heteroscedastic(n=120, seed=0, missing=0.0, away=0.0):
    """A target whose noise grows with a column; rows may be away from others."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 1] += X[:, 0] + away
    y = X[:, 0] + np.exp(X[:, 1]) * rng.normal(size=n)
    return np.where(rng.random(X.shape) < missing, NAN, X), y


def covered(ends, y):
    """The share of targets within intervals."""
    return np.mean((ends[0] <= y) & (y <= ends[1]))


@pytest.mark.parametrize(
    ("n", "n_landmarks", "alpha"), [(80, None, 1e-8), (400, 400, 1e-4), (200, 200, 0.0)]
)
def test_rows_that_are_held_out_are_not_known(n, n_landmarks, alpha):
    X, y = line(n, noise=0.3)
    model = ek.ExpectedKernelRidge(alpha=alpha, gamma=5.0, n_landmarks=n_landmarks).fit(X, y)
    assert np.abs(model.predict(X) - y).max() < 0.1  # it has learned the noise
    low, high = model.predict_interval(X)
    assert (high - low).min() > 0.4
    assert np.median(high - low) > 1.0


@pytest.mark.parametrize(("n", "fitted_to"), [(150, 0.0), (60, 0.1)])
def test_coverage_with_more_and_more_missing(n, fitted_to):
    X, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(X))
    X, y = X[order[:350], :6], y[order[:350]]
    model = ek.ExpectedKernelRidge(alpha=0.3, density="chow_liu", n_bins=5)
    model.fit(with_holes(X[:n], fitted_to), y[:n])
    for share in (0.0, 0.3, 0.6, 0.9):
        rows = with_holes(X[150:], share)
        assert 0.8 < covered(model.predict_interval(rows), y[150:]) < 0.98
        found = model.predict_quantiles(rows, [0.1, 0.5, 0.9])
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


def test_several_targets_have_scales_of_their_own():
    X, y = wedge(400)
    Y = np.column_stack([y, X[:, 0] + np.random.default_rng(1).normal(size=400)])
    rows = [[0.1], [0.9]]
    for model in (ek.ExpectedKernelRidge(), clone(PROCESS)):
        low, high = model.fit(X, Y).predict_interval(rows)
        assert (high > low).all()
        assert model.predict_quantiles(rows, [0.2, 0.8]).shape == (2, 2, 2)
        assert model.sample_predictions(rows, 7, rng=0).shape == (2, 2, 7)
        if model.__class__ is ek.ExpectedKernelRidge:
            width = high - low
            assert width[1, 0] > 3.0 * width[0, 0]
            assert width[1, 1] == pytest.approx(width[0, 1])
            assert (model.interval_gain_ > 2.0 / 400).tolist() == [True, False]


def test_weights_of_rows_are_used_where_rows_are_held_out():
    X, y = line()
    weights = np.where(np.arange(80) < 60, 1.0, 1e-9)
    y[60:] += 50.0
    model = ek.ExpectedKernelRidge(alpha=0.3, density="chow_liu").fit(X, y, sample_weight=weights)
    found = model._training.answers(model)
    assert np.abs(found.mean).max() < 10.0


def quantiles(scores, levels, weights=None, n_rows=None, own=1.0):
    weights = np.ones(len(scores)) if weights is None else weights
    n_rows = len(scores) if n_rows is None else n_rows
    return weighted_quantiles(scores[:, None], weights, n_rows, np.array([own]), levels)[0, 0]


def test_few_rows():
    X, y = line(10)
    model = ek.ExpectedKernelRidge(density="chow_liu").fit(X, y)
    assert np.isinf(model.predict_interval(X, coverage=0.999)).all()
    assert model.predict_quantiles(X, []).shape == (10, 0)
    rows = [[0.5, 0.5, 0.5], [0.5, NAN, NAN]]
    for n, finite in ((4, False), (8, False), (9, True)):
        ends = ek.ExpectedKernelRidge(density="gaussian").fit(X[:n], y[:n]).predict_interval(rows)
        assert np.isfinite(ends).all() if finite else np.isinf(ends).all()
    answers = model._training.answers(model)
    errors = np.sort(np.abs(answers.target - answers.mean[:, 0]))
    for coverage, k in ((0.01, 1), (0.3, 4), (0.45, 5)):  # of eleven, also below one half
        low, high = model.predict_interval(rows[:1], coverage)
        assert (high - low)[0] == pytest.approx(2.0 * errors[k - 1])


RIDGE = ek.ExpectedKernelRidge(density="gaussian").fit(*line(30))
BOUNDS = r"Bounds must be two numbers or None, the first sm"


test_wrong_arguments = refusals(None, [
    (lambda X: RIDGE.predict_interval(X, coverage=90), ek.DataError,
     r"'coverage' .* in the range \(0, 1\)\. Got 90 instead"),
    *((lambda X, wrong=wrong: RIDGE.predict_quantiles(X, wrong), ek.DataError,
       "must be a list of levels between 0 and 1") for wrong in (0.5, [0.5, 1.0], ["a"], [NAN])),
    (lambda X: RIDGE.sample_predictions(X, -1), ek.DataError,
     r"parameter of sample_predictions must be an int .* Got -1"),
    (lambda X: RIDGE.sample_predictions(X, 3, rng="a"), ek.CircuitError, "The 'rng' parameter"),
    *((lambda X, wrong=wrong: RIDGE.predict_interval(X, bounds=wrong), ek.DataError, BOUNDS)
      for wrong in ((1.0, 0.0), 3.0, (0.0,), ("a", None), (NAN, None))),
    (lambda X: RIDGE.predict_interval(X, bounds=(None, 1)), ek.DataError,
     r"lie outside of bounds \(None, 1\): the smallest is"),
    (lambda X: RIDGE.predict_interval(X, reference=X[:19]), ek.DataError,
     r"must have at least 20 rows .* Got 19\."),
    (lambda X: RIDGE.predict_interval(X, reference=X[:, :1]), ValueError, "X has 1 features"),
    (lambda X: clone(RIDGE).predict_interval(X), NotFittedError, "not fitted"),
    (lambda X: clone(RIDGE).fit(X[:1], [0.0]).predict_interval(X), ek.DataError,
     r"At least 2 rows are needed, .*Got 1\. Fit"),
], lambda call: call(line(30)[0]))  # fmt: skip


def test_bounds():
    X, y = wedge(200)
    model = ek.ExpectedKernelRidge().fit(X, np.abs(y))
    low, high = model.predict_interval(X)
    assert low.min() < 0.0
    inner = model.predict_interval(X, bounds=(0.0, None))
    np.testing.assert_array_equal(inner, (np.maximum(low, 0.0), high))


def test_quantiles_of_one_more_draw():
    rng = np.random.default_rng(0)
    levels = np.array([0.1, 0.3, 0.7, 0.9])
    numbers = rng.normal(size=(4000, 20))
    found = np.stack([quantiles(x[:19], levels) for x in numbers])
    below = (numbers[:, 19:] <= found).mean(axis=0)
    assert (np.abs(below - levels) < 0.03).all()
    assert np.isinf(quantiles(numbers[0, :8], [0.9, 0.1])).all()
    assert quantiles(numbers[0, :9], [0.9]) == numbers[0, :9].max()


def test_copies_of_rows_count_as_one_row():
    numbers = np.random.default_rng(0).normal(size=40)
    few = np.repeat(numbers[:8], 5)  # 40 scores, of eight rows
    assert quantiles(few, [0.9], n_rows=8).tolist() == [np.inf]
    assert np.isfinite(quantiles(few, [0.9]))
    many = np.repeat(numbers, 3)
    pair = quantiles(many, [0.2, 0.6], n_rows=40), quantiles(numbers, [0.2, 0.6])
    np.testing.assert_allclose(*pair, atol=0.2)


def test_weights_of_scores_are_shares_of_a_distribution():
    rng = np.random.default_rng(0)
    numbers, counts = rng.normal(size=30), rng.integers(1, 4, size=30)
    repeated = np.repeat(numbers, counts)
    for level in (0.1, 0.5, 0.9):
        found = quantiles(numbers, [level], weights=counts.astype(float))
        np.testing.assert_array_equal(found, quantiles(repeated, [level]))
    assert quantiles(numbers, [0.5], own=100.0).tolist() == [np.inf]  # nothing like this row


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("share", [0.0, 0.15])
def test_spreads_are_those_of_predictions(machine, share, monkeypatch):
    monkeypatch.setattr(calibration, "DRAWS", 2000)
    X, y = line(50)
    model = clone(machine).fit(with_holes(X, share), y)
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
    counts = [n_missing(variables, hidden(variables, Z, part, rng)) for part in range(4)]
    for part, found in enumerate(counts):  # four variables: one number for every part
        assert (found == part + 1).all()
        assert (part_of(found, 4) == part).all()
    assert n_missing(variables, hidden(variables, Z, 0, rng))[:10].tolist() == [1] * 10
    gaps = np.isnan(hidden(variables, Z, 2, rng)[:, 3:])
    assert (gaps.all(axis=1) | ~gaps.any(axis=1)).all()
    assert sorted(part_of(np.arange(11), 10)) == part_of(np.arange(11), 10).tolist()
    assert set(part_of(np.arange(11), 10)) == {-1, 0, 1, 2, 3}


def test_intervals_are_scores_times_scales():
    X, y = line(noise=1.0)
    model = ek.ExpectedKernelRidge(alpha=0.3, density="chow_liu").fit(X, y)
    found, scale = model._training.answers(model), model._training.scale(model)
    error = found.target[:, None] - found.mean
    np.testing.assert_allclose(scale.noise**2, (error**2).mean())  # nothing is missing there
    assert scale.log_variance is None
    low, high = model.predict_interval(X[:4], coverage=0.8)
    near = np.sort(np.abs(error[:, 0]))[int(np.ceil(0.8 * 81)) - 1]
    np.testing.assert_allclose(high - low, 2.0 * near)
    np.testing.assert_allclose((low + high) / 2.0, model.predict(X[:4]))
    # and where half of three variables are missing, by copies that lack as many
    rows = np.array([[0.5, NAN, NAN]])
    pool = model._training.pool(model, 2)
    assert (np.isnan(pool.Z).sum(axis=1) == 2).all()
    _, spread = moments(model, model._read(rows), model._training.generator())
    sizes = np.hypot(pool.spread, scale.noise)[:, 0]
    scores = np.sort(np.abs(pool.target - pool.mean[:, 0]) / sizes)
    wanted = scores[int(np.ceil(0.8 * 81)) - 1] * np.hypot(spread, scale.noise)[0, 0]
    low, high = model.predict_interval(rows, coverage=0.8)
    np.testing.assert_allclose(high - low, 2.0 * wanted)


@pytest.mark.parametrize("n_landmarks", [None, 40])
def test_widths_follow_the_row(n_landmarks):
    model = ek.ExpectedKernelRidge(n_landmarks=n_landmarks).fit(*wedge(900 if n_landmarks else 600))
    rows, y = wedge(1000, seed=1)
    for some in np.array_split(np.argsort(rows[:, 0]), 5):
        assert 0.82 <= covered(model.predict_interval(rows[some]), y[some]) <= 0.98
    low, high = model.predict_interval([[0.1], [0.9]])
    assert (high - low)[1] > 4.0 * (high - low)[0]
    assert model.interval_gain_[0] > 0.1
    drawn = model.sample_predictions([[0.1], [0.9]], 2000, rng=0).std(axis=1)
    assert drawn[1] > 4.0 * drawn[0]
    wide, narrow = (np.diff(model.predict_quantiles([[x]], [0.1, 0.9]))[0, 0] for x in (0.9, 0.1))
    assert wide > 4.0 * narrow


@pytest.mark.parametrize("case", ["constant", "few", "homoscedastic"])
def test_scales_that_do_not_follow_the_row_are_those_of_the_noise_alone(case):
    X, y = line(49 if case == "few" else 200, noise=1.5)
    if case == "few":
        y = X[:, 0] + np.exp(X[:, 0]) * np.random.default_rng(0).normal(size=49)
    y = np.ones(200) if case == "constant" else y
    model = ek.ExpectedKernelRidge(alpha=0.1, density="gaussian").fit(X, y)
    low, high = model.predict_interval(X[:3])
    scale = model._training.scale(model)
    spread = np.random.default_rng(0).random((3, 1))
    found = scale.of(spread, scale.logs(model, X[:3]))
    np.testing.assert_array_equal(found, np.hypot(spread, scale.noise))
    assert len(set(np.round(high - low, 12))) == 1
    if case == "constant":
        np.testing.assert_allclose(high - low, 0.0, atol=1e-12)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_scales_are_fitted_without_the_row_that_they_are_for(missing):
    X, y = heteroscedastic(missing=missing)
    model = ek.ExpectedKernelRidge(alpha=0.3, density="gaussian").fit(X, y)
    training = model._training
    as_is, copies = training.answers(model), training.answers(model, 2)
    scale = training.scale(model)
    f = scale.log_variance
    assert f is not None
    e = (as_is.target - as_is.mean[:, 0]) / np.hypot(as_is.spread, scale.noise)[:, 0]
    t = np.log(e**2 + 0.001 * np.mean(e**2))
    K = model.density_.gram(f.rates, f.points)
    fits = [K @ np.linalg.solve(K + a * np.eye(120), t - t.mean()) for a in calibration.ALPHAS]
    gaps = [np.abs(fit - K @ f.coef[:, 0]).max() for fit in fits]
    alpha = calibration.ALPHAS[int(np.argmin(gaps))]
    assert min(gaps) < 1e-10
    for answers in (as_is, copies):
        k = model.density_.gram(f.rates, answers.Z, f.points)
        for i in range(0, len(answers.rows), 7):
            rest = as_is.rows != answers.rows[i]
            system = K[np.ix_(rest, rest)] + alpha * np.eye(rest.sum())
            wanted = k[i, rest] @ np.linalg.solve(system, (t - t.mean())[rest]) + t.mean()
            wanted = np.clip(wanted, t.min(), t.max()) + scale.shift[0]
            assert answers.logs[i, 0] == pytest.approx(wanted, abs=1e-5 if missing else 1e-10)
    np.testing.assert_allclose(np.exp(as_is.logs).mean(axis=0), 1.0)


def test_the_order_of_calls_does_not_matter():
    X, y = line(120)
    rows = np.array([[0.5, NAN, NAN], [NAN, 0.1, 0.2], [0.1, 0.2, 0.3], [NAN, NAN, NAN]])
    models = [ek.ExpectedKernelRidge(alpha=0.3, density="gaussian").fit(X, y) for _ in range(4)]
    one = np.stack([models[0].predict_interval(row[None]) for row in rows])[..., 0]
    other = np.stack([models[1].predict_interval(row[None]) for row in rows[::-1]])[::-1, :, 0]
    np.testing.assert_array_equal(one, other)
    assert models[2].calibrate() is models[2]
    known = set(models[2]._training.kept)
    found = np.stack([models[2].predict_interval(row[None]) for row in rows])[..., 0]
    np.testing.assert_array_equal(found, one)
    assert set(models[2]._training.kept) == known  # all was paid for
    models[1].set_params(alpha=1e-3)  # not fitted again: what was fitted counts
    again = pickle.loads(pickle.dumps(models[1]))  # it makes anew what it needs
    X[:], y[:] = 0.0, 0.0  # the rows are copies
    for model in (models[1], again, pickle.loads(pickle.dumps(again)), models[3]):
        np.testing.assert_array_equal(model.predict_interval(rows[2:3]), one[2:3].T)
        np.testing.assert_array_equal(model.predict_interval(rows[:1]), one[:1].T)


@pytest.mark.filterwarnings("ignore:Rows in fit that are like")
def test_intervals_for_rows_that_have_moved():
    model = ek.ExpectedSVR(density="gaussian").fit(*heteroscedastic(400, missing=0.1))
    rows, wanted = heteroscedastic(1000, 1, 0.1, away=1.2)
    reference = heteroscedastic(300, 2, 0.1, away=1.2)[0]
    ask = model.predict_interval
    plain, weighted = (covered(ask(rows, reference=x), wanted) for x in (None, reference))
    assert plain + 0.02 < weighted < 0.97
    levels = model.predict_quantiles(rows, [0.05, 0.95], reference=reference)
    assert (np.diff(levels) > 0).all()


def test_references_that_are_far_or_few():
    X, y = heteroscedastic(300, missing=0.1)
    ask = ek.ExpectedKernelRidge(density="gaussian").fit(X, y).predict_interval
    near, away, far = (heteroscedastic(300, 1, 0.1, away)[0] for away in (0.5, 1.5, 6.0))
    with pytest.warns(UserWarning, match="like the reference are worth only \\d+ rows; cov"):
        ask(X[:3], reference=away)
    message = r"too unlike the reference .* are worth \d+ rows, at le"
    assert_raises(ek.DataError, message, ask, X[:3], 0.95, reference=far)
    assert np.isfinite(ask(X[:3], 0.005, reference=near)).all()  # of few rows


def test_references_with_text_and_landmarks():
    X, y = heteroscedastic(300, missing=0.1)
    frame = pd.DataFrame(X, columns=list("abc")).assign(kind=np.where(y > 0, "u", "v"))
    for options in ({}, {"n_landmarks": 30}, {"mask_kernel": 0.2}):
        model = ek.ExpectedKernelRidge(density="gaussian", alpha=0.3, **options).fit(frame, y)
        plain = np.diff(model.predict_interval(frame[:20]), axis=0)
        same = np.diff(model.predict_interval(frame[:20], reference=frame), axis=0)
        np.testing.assert_allclose(same, plain, rtol=0.1)
