"""Probabilities of classes of support vector machines, and spreads of their votes."""

import itertools

import numpy as np
import pytest
from scipy.special import expit
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss

import expectedkernels as ek
from expectedkernels.estimators import classifiers
from expectedkernels.estimators.probabilities import coupled, learn_sigmoid, logits

NAN = np.nan


def holes(X, share, seed=0):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, NAN, X)


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


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_with_holes(n_classes):
    X, label = load_iris(return_X_y=True)
    X, y = X[label < n_classes], np.array(["c", "a", "b"])[label[label < n_classes]]
    train = np.random.default_rng(0).permutation(len(X)) % 2 == 0
    model = ek.ExpectedSVC(density="chow_liu").fit(X[train], y[train])
    losses = []
    for share in (0.0, 0.5, 0.9):
        p = model.predict_proba(holes(X[~train], share))
        assert p.shape == (sum(~train), n_classes)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        losses.append(log_loss(y[~train], p))
    assert losses[0] < 0.2
    assert losses[0] < losses[1] < losses[2] < 1.05 * np.log(n_classes)
    p = model.predict_proba(X[~train])
    assert (model.classes_[p.argmax(axis=1)] == model.predict(X[~train])).mean() > 0.9
    np.testing.assert_array_equal(model.predict_proba(X[~train]), p)
    unknown = model.predict_proba([[NAN] * 4])
    np.testing.assert_allclose(unknown, 1.0 / n_classes, atol=0.1)


@pytest.mark.parametrize("holed", [False, True])
def test_spreads_of_votes_are_those_over_all_completions(holed, monkeypatch):
    monkeypatch.setattr(classifiers, "DRAWS", 4000)
    rng = np.random.default_rng(0)
    X = rng.integers(3, size=(60, 3)).astype(float)
    y = (X.sum(axis=1) + (rng.random(60) < 0.3)).astype(int) % 3
    fitted_to = np.where((np.arange(60) % 9 == 0)[:, None] & (np.arange(3) == 2), NAN, X)
    model = ek.ExpectedSVC(groups=[[0], [1], [2]], density="chow_liu")
    model.fit(fitted_to if holed else X, y)
    rows = np.array([[0, NAN, 1], [NAN, NAN, 2], [NAN, NAN, NAN], [2, 1, 0]])
    worlds = np.array(list(itertools.product(range(3), repeat=3)), dtype=float)
    share, votes = np.exp(model.circuit_.log_likelihood(worlds)), model.decision_function(worlds)
    values, std = model.decision_function(rows, return_std=True)
    np.testing.assert_array_equal(values, model.decision_function(rows))
    for row, found in zip(rows, std, strict=True):
        p = share * ((worlds == row) | np.isnan(row)).all(axis=1)
        p /= p.sum()
        exact = np.sqrt(p @ (votes - p @ votes) ** 2)
        np.testing.assert_allclose(found, exact, rtol=0.06, atol=1e-6)
    assert (std[3] == 0).all()


def test_a_class_of_one_row_has_no_probability():
    X = np.random.default_rng(0).normal(size=(20, 2))
    model = ek.ExpectedSVC(density="chow_liu").fit(X, np.arange(20) == 3)
    with pytest.raises(ek.DataError, match=r"At least 2 rows of every class are needed, .*Got 1\."):
        model.predict_proba(X)


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


def test_a_class_without_weight_is_refused():
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], 10)
    X = rng.normal(size=(30, 2))
    message = "Every class needs rows of positive weight. All rows of class 'b' have weight zero"
    with pytest.raises(ek.DataError, match=message):
        ek.ExpectedSVC().fit(X, y, sample_weight=(y != "b").astype(float))
    with pytest.raises(ek.DataError, match=message):
        ek.ExpectedSVC(class_weight={"b": 0.0}).fit(X, y)
    few = np.where((y != "b") | (np.arange(30) < 12), 1.0, 0.0)  # two rows of "b" are left
    p = ek.ExpectedSVC(density="gaussian").fit(X, y, sample_weight=few).predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


def test_rows_of_weight_zero_do_not_count_in_calibration():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=120)
    X = rng.normal(size=(120, 2)) + 2 * y[:, None]
    wrong = np.arange(120) % 2 == 0
    labels, weights = np.where(wrong, 1 - y, y), np.where(wrong, 0.0, 1.0)
    for model, target, ask in (
        (ek.ExpectedSVC(), labels, "predict_proba"),
        (ek.ExpectedKernelRidge(alpha=0.1), np.where(wrong, 100.0, X[:, 0]), "predict_interval"),
    ):
        model.set_params(density="gaussian")
        found = getattr(model.fit(X, target, sample_weight=weights), ask)(X)
        without = getattr(model.fit(X[~wrong], target[~wrong]), ask)(X)
        # folds are others
        np.testing.assert_allclose(found, without, atol=0.15)
    # three rows count, and two folds have none of them
    low, high = model.fit(X, X[:, 0], sample_weight=np.arange(120) < 3).predict_interval(X)
    assert (low < high).all()
