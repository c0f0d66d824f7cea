"""Probabilities of classes, the sigmoids, pairs and averages behind them, and prediction sets."""

import itertools
import pickle

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import log_loss
from sklearn.model_selection import LeaveOneOut, cross_val_predict

import expectedkernels as ek
from assertions import assert_raises
from completions import mean_and_deviation
from expectedkernels.estimators import kernel_models
from expectedkernels.estimators.kernel_models import (
    as_probabilities,
    coupled,
    learn_sigmoid,
    logits,
)
from oracles import with_holes

NAN = np.nan


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_with_holes(n_classes):
    X, label = load_iris(return_X_y=True)
    X, y = X[label < n_classes], np.array(["c", "a", "b"])[label[label < n_classes]]
    train = np.random.default_rng(0).permutation(len(X)) % 2 == 0
    model = ek.ExpectedSVC(density="chow_liu").fit(X[train], y[train])
    every = [model.predict_proba(with_holes(X[~train], share)) for share in (0.0, 0.5, 0.9)]
    np.testing.assert_allclose(np.sum(every, axis=2), 1.0)
    losses = [log_loss(y[~train], p) for p in every]
    assert losses[0] < 0.2
    assert losses[0] < losses[1] < losses[2] < 1.05 * np.log(n_classes)
    best = model.classes_[every[0].argmax(axis=1)]
    assert (best == model.predict(X[~train])).mean() > 0.9
    np.testing.assert_array_equal(model.predict_proba(X[~train]), every[0])
    np.testing.assert_allclose(model.predict_proba([[NAN] * 4]), 1.0 / n_classes, atol=0.1)


@pytest.mark.parametrize("sizes", [(1200, 2), (600, 600, 3), (400, 400, 300, 2)])
def test_a_rare_class_among_many_rows_has_probabilities(sizes):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(y), 2)) + 6.0 * np.array([[0, 0], [1, 0], [0, 1], [1, 1]])[y]
    model = ek.ExpectedSVC(density="gaussian").fit(X, y)
    p = model.predict_proba(X)
    assert p.shape == (len(y), len(sizes))
    assert log_loss(y, p) < 0.02
    rare = y == len(sizes) - 1
    assert p[rare, -1].min() > np.quantile(p[~rare, -1], 0.99)


def test_a_class_without_weight_or_of_one_row_is_refused():
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], 10)
    X = rng.normal(size=(30, 2))
    message = "Every class needs rows of positive weight. All rows of class 'b' have weight zero"
    weights = (y != "b").astype(float)
    assert_raises(ek.DataError, message, ek.ExpectedSVC().fit, X, y, sample_weight=weights)
    assert_raises(ek.DataError, message, ek.ExpectedSVC(class_weight={"b": 0.0}).fit, X, y)
    few = np.where((y != "b") | (np.arange(30) < 12), 1.0, 0.0)  # two rows of "b" are left
    p = ek.ExpectedSVC(density="gaussian").fit(X, y, sample_weight=few).predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    for n_landmarks in (None, 20):
        model = ek.ExpectedSVC(n_landmarks=n_landmarks)
        message = r"at least 2 classes. Got one class, 'a'"
        assert_raises(ek.DataError, message, model.fit, X, ["a"] * 30)
    one = ek.ExpectedSVC(density="chow_liu").fit(X, np.arange(30) == 3)
    message = r"At least 2 rows of every class are needed, .*Got 1\."
    assert_raises(ek.DataError, message, one.predict_proba, X)


def test_rows_of_weight_zero_do_not_count_in_calibration():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=120)
    X = rng.normal(size=(120, 2)) + 2 * y[:, None]
    wrong = np.arange(120) % 2 == 0
    labels, weights = np.where(wrong, 1 - y, y), np.where(wrong, 0.0, 1.0)
    noisy = X[:, 0] + rng.normal(size=120)
    for model, target, ask in (
        (ek.ExpectedSVC(), labels, "predict_proba"),
        (ek.ExpectedKernelRidge(alpha=0.1), np.where(wrong, 100.0, noisy), "predict_interval"),
    ):
        model.set_params(density="gaussian")
        found = getattr(model.fit(X, target, sample_weight=weights), ask)(X)
        without = getattr(model.fit(X[~wrong], target[~wrong]), ask)(X)
        # folds are others
        np.testing.assert_allclose(found, without, atol=0.15 if ask == "predict_proba" else 0.3)
    # three rows count, and two folds have none of them
    low, high = model.fit(X, X[:, 0], sample_weight=np.arange(120) < 3).predict_interval(X)
    assert (low < high).all()


NAMES = np.array(["blue", "green", "red"])


def codes(n=60, seed=0):
    """Columns of codes, and three classes that depend on them."""
    rng = np.random.default_rng(seed)
    X = rng.integers(3, size=(n, 3)).astype(float)
    X[:, 1] = np.where(rng.random(n) < 0.6, X[:, 0], X[:, 1])
    y = NAMES[((X[:, 0] + (rng.random(n) < 0.3)) % 3).astype(int)]
    return X, y


def test_two_classes_have_one_decision_function():
    X, y = codes()
    model = ek.ExpectedKernelClassifier(alpha=1.0, gamma="scale").fit(X, y == "red")
    rows = np.array([[0, NAN, 1], [1, 1, 1]])
    values, std = model.decision_function(rows, return_std=True)
    p = model.predict_proba(rows)
    np.testing.assert_allclose(values, p[:, 1] - p[:, 0], rtol=1e-9)
    assert std[0] > 0 == std[1]
    assert (model.alpha_, model.gamma_) == (1.0, pytest.approx(1 / 3))
    for name, wrong in (("alpha", 0.0), ("gamma", "median")):
        model = ek.ExpectedKernelClassifier(**{name: wrong})
        assert_raises(ValueError, f"'{name}' parameter of ExpectedKernel", model.fit, X, y)


def test_sigmoids_of_spread_functions_are_about_means():
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    for mean, spread, slope, offset in itertools.product(
        (-2.0, 0.3, 1.0), (0.0, 0.5, 2.0), (0.5, 1.5), (-1.0, 0.0)
    ):
        exact = weights @ expit(slope * (mean + spread * nodes) + offset) / weights.sum()
        assert abs(expit(logits(mean, spread, slope, offset)) - exact) < 0.02


def test_sigmoids_are_found_again():
    rng = np.random.default_rng(0)
    mean, spread = rng.normal(size=20000) * 3.0, rng.random(20000)
    positive = rng.random(20000) < expit(logits(mean, spread, 0.8, -0.5))
    np.testing.assert_allclose(learn_sigmoid(mean, spread, positive), (0.8, -0.5), atol=0.06)
    scaled = learn_sigmoid(1000.0 * mean, 1000.0 * spread, positive)
    np.testing.assert_allclose(scaled, (0.0008, -0.5), atol=0.06)
    slope, _ = learn_sigmoid(np.array([-1.0, 1.0] * 5), np.zeros(10), np.array([False, True] * 5))
    assert 1.0 < slope < 10.0  # separated, but of ten rows only


def test_pairs_that_agree_are_joined_exactly():
    p = np.random.default_rng(0).dirichlet(np.ones(4), size=20)
    first = [p[:, i] / (p[:, i] + p[:, j]) for i, j in itertools.combinations(range(4), 2)]
    np.testing.assert_allclose(coupled(np.stack(first, axis=1), 4), p, atol=1e-6)
    sure = coupled(np.array([[1.0, 1.0, 0.5], [0.0, 0.0, 1.0]]), 3)
    np.testing.assert_allclose(sure, [[1, 0, 0], [0, 1, 0]], atol=1e-5)


@pytest.mark.parametrize("holed", [False, True])
def test_spreads_of_votes_are_those_over_all_completions(holed, monkeypatch):
    monkeypatch.setattr(kernel_models, "VOTE_DRAWS", 4000)
    rng = np.random.default_rng(0)
    X = rng.integers(3, size=(60, 3)).astype(float)
    y = (X.sum(axis=1) + (rng.random(60) < 0.3)).astype(int) % 3
    X[: 60 if holed else 0 : 9, 2] = NAN
    model = ek.ExpectedSVC(groups=[[0], [1], [2]], density="chow_liu").fit(X, y)
    rows = np.array([[0, NAN, 1], [NAN, NAN, 2], [NAN, NAN, NAN], [2, 1, 0]])
    values, std = model.decision_function(rows, return_std=True)
    np.testing.assert_array_equal(values, model.decision_function(rows))
    for row, found in zip(rows, std, strict=True):
        exact = mean_and_deviation(model.decision_function, model, row)[1]
        np.testing.assert_allclose(found, exact, rtol=0.06, atol=1e-6)
    assert (std[3] == 0).all()


@pytest.mark.parametrize("holes", [False, True])
def test_probabilities_are_averages_over_all_completions(holes):
    X, y = codes()
    X[: 60 if holes else 0 : 5, 2] = NAN
    options = {"density": "chow_liu", "groups": [[0], [1], [2]]}
    model = ek.ExpectedKernelClassifier(alpha=0.3, gamma=0.2, **options).fit(X, y)
    rows = np.array([[0, NAN, 1], [NAN, NAN, 2], [NAN, NAN, NAN], [2, 1, NAN]])
    mean, std = model.decision_function(rows, return_std=True)
    for i, row in enumerate(rows):
        wanted = mean_and_deviation(model.decision_function, model, row)
        np.testing.assert_allclose(mean[i], wanted[0], rtol=1e-9)
        np.testing.assert_allclose(std[i], wanted[1], rtol=1e-6)
    np.testing.assert_allclose(mean.sum(axis=1), 1.0, rtol=1e-9)
    np.testing.assert_allclose(model.predict_proba(rows), as_probabilities(mean), rtol=1e-12)
    np.testing.assert_array_equal(model.predict(rows), NAMES[mean.argmax(axis=1)])


def test_auto_takes_the_smallest_loss_of_what_is_left_out(monkeypatch):
    monkeypatch.setattr(kernel_models, "ALPHAS", np.array([0.01, 0.3, 3.0]))
    X, y = codes(40)
    model = ek.ExpectedKernelClassifier(standardize=False).fit(X, y)
    every = np.column_stack([X, y[:, None] == NAMES])
    rows, counts = np.unique(every, axis=0, return_counts=True)
    Z, bits = np.split(rows, [3], axis=1)
    frequencies = counts @ bits / counts.sum()
    losses, options = {}, {"cv": LeaveOneOut(), "params": {"sample_weight": counts}}
    rates = np.array(kernel_models.RATES) / (3 * X.var())
    for alpha, rate in itertools.product(kernel_models.ALPHAS, rates):
        ridge = KernelRidge(alpha=alpha, kernel="rbf", gamma=rate)
        p = cross_val_predict(ridge, Z, bits - frequencies, **options) + frequencies
        losses[alpha, rate] = -counts @ np.log((as_probabilities(p) * bits).sum(axis=1))
    alpha, rate = min(losses, key=losses.get)
    assert (model.alpha_, model.gamma_) == (pytest.approx(alpha), pytest.approx(rate))


def test_many_classes_have_smaller_smallest_probabilities():
    p = as_probabilities(np.eye(100)[:3])
    np.testing.assert_allclose(p.min(axis=1), 0.001 / 1.099)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


MODELS = [ek.ExpectedKernelClassifier(density="gaussian"), ek.ExpectedSVC(density="gaussian")]


def classes(n, shares, seed=0, spread=1.0):
    """Rows of classes that overlap, some of them rare."""
    rng = np.random.default_rng(seed)
    y = rng.choice(len(shares), size=n, p=shares)
    centres = 1.5 * np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
    X = centres[y] + spread * rng.normal(size=(n, 3))
    return X, np.array(["common", "other", "rare"])[y]


def covered(model, found, y):
    return found[np.arange(len(y)), np.searchsorted(model.classes_, y)]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_sets_are_never_empty_and_grow_with_coverage(model):
    X, y = load_iris(return_X_y=True)
    model = clone(model).fit(X[::2], y[::2])
    rows = with_holes(X[1::2], 0.3)
    found = [model.predict_set(rows, coverage) for coverage in (0.5, 0.9, 0.95)]
    for one, other in itertools.pairwise(found):
        assert (one <= other).all()
    assert found[0].shape == (75, 3)
    assert found[0].dtype == np.bool_
    assert found[0].any(axis=1).all()
    best = model.predict_proba(rows).argmax(axis=1)
    assert found[0][np.arange(75), best].all()
    np.testing.assert_array_equal(model.predict_set(rows, 0.9), found[1])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_set(rows, 0.9), found[1])
    again = clone(model).fit(X[::2], y[::2])
    alone = [again.predict_set(rows[[i]])[0] for i in (3, 0)]
    assert (alone == found[1][[3, 0]]).mean() > 0.9  # draws of what is missing differ


@pytest.mark.parametrize("n_landmarks", [None, 60])
@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_every_class_is_covered(model, n_landmarks):
    shares = [0.8, 0.15, 0.05]
    model = clone(model).set_params(n_landmarks=n_landmarks).fit(*classes(1000, shares))
    rows, y = classes(2000, shares, seed=1)
    for share in (0.0, 0.3):
        found = model.predict_set(with_holes(rows, share))
        inside = covered(model, found, y)
        for label in model.classes_:
            assert inside[y == label].mean() > 0.75
        assert 0.87 < inside.mean() < 0.98
        one = model.predict_set(with_holes(rows, share), by_class=False)
        assert one.sum() < found.sum()
        assert 0.86 < covered(model, one, y).mean() < 0.97


def test_a_class_of_few_rows_is_in_every_set():
    X, y = classes(300, [0.5, 0.5, 0.0])
    y = np.array(y, dtype=object)
    y[:5] = "rare"
    model = ek.ExpectedKernelClassifier(density="gaussian").fit(X, y)
    assert model.predict_set(X)[:, 2].all()
    assert not model.predict_set(X, 0.5)[:, 2].all()
    y[1:5] = "other"
    model.fit(X, y)
    assert_raises(ek.DataError, "At least 2 rows of every class", model.predict_set, X)
    message = r"'coverage' parameter of predict_set .* Got 1\.5"
    assert_raises(ek.DataError, message, model.predict_set, X, 1.5)


def test_thresholds_are_those_of_rows_that_are_held_out():
    X, y = classes(200, [0.5, 0.5, 0.0])
    model = ek.ExpectedKernelClassifier(alpha=0.1, gamma=0.5, density="gaussian").fit(X, y)
    answers = model._training.answers(model)
    p = np.maximum(answers.mean, 0.01)
    p /= p.sum(axis=1, keepdims=True)
    own = np.flatnonzero(answers.target == "other")
    scores = np.sort(1.0 - p[own, 1])
    limit = scores[int(np.ceil(0.8 * (len(own) + 1))) - 1]
    rows = classes(100, [0.5, 0.5, 0.0], seed=1)[0]
    probabilities = model.predict_proba(rows)
    wanted = (1.0 - probabilities[:, 1] <= limit) | (probabilities.argmax(axis=1) == 1)
    np.testing.assert_array_equal(model.predict_set(rows, 0.8)[:, 1], wanted)
