"""Probabilities of classes, and the sigmoids, pairs and averages behind them."""

import itertools

import numpy as np
import pytest
from scipy.special import expit
from sklearn.datasets import load_iris
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import log_loss

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
    losses = []
    for share in (0.0, 0.5, 0.9):
        p = model.predict_proba(with_holes(X[~train], share))
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
    with pytest.raises(ek.DataError, match=message):
        ek.ExpectedSVC().fit(X, y, sample_weight=(y != "b").astype(float))
    assert_raises(ek.DataError, message, ek.ExpectedSVC(class_weight={"b": 0.0}).fit, X, y)
    few = np.where((y != "b") | (np.arange(30) < 12), 1.0, 0.0)  # two rows of "b" are left
    p = ek.ExpectedSVC(density="gaussian").fit(X, y, sample_weight=few).predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    one = ek.ExpectedSVC(density="chow_liu").fit(X, np.arange(30) == 3)
    with pytest.raises(ek.DataError, match=r"At least 2 rows of every class are needed, .*Got 1\."):
        one.predict_proba(X)


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
    assert model.gamma_ == pytest.approx(1 / 3)
    for wrong in ({"alpha": 0.0}, {"gamma": "median"}):
        name = next(iter(wrong))
        with pytest.raises(ValueError, match=f"'{name}' parameter of ExpectedKernel"):
            ek.ExpectedKernelClassifier(**wrong).fit(X, y)


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
    fitted_to = np.where((np.arange(60) % 9 == 0)[:, None] & (np.arange(3) == 2), NAN, X)
    model = ek.ExpectedSVC(groups=[[0], [1], [2]], density="chow_liu")
    model.fit(fitted_to if holed else X, y)
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
    if holes:
        X[::5, 2] = NAN
    model = ek.ExpectedKernelClassifier(
        alpha=0.3, gamma=0.2, density="chow_liu", groups=[[0], [1], [2]]
    ).fit(X, y)
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
    rows, counts = np.unique(
        np.column_stack([X, y == "green", y == "red"]), axis=0, return_counts=True
    )
    Z, bits = rows[:, :3], np.column_stack([1 - rows[:, 3] - rows[:, 4], rows[:, 3:]])
    frequencies = counts @ bits / counts.sum()
    losses = {}
    for rate in np.array(kernel_models.RATES) / (3 * X.var()):
        for alpha in kernel_models.ALPHAS:
            p = np.empty_like(bits)
            for i in range(len(Z)):
                rest = np.arange(len(Z)) != i
                ridge = KernelRidge(alpha=alpha, kernel="rbf", gamma=rate)
                ridge.fit(Z[rest], bits[rest] - frequencies, sample_weight=counts[rest])
                p[i] = ridge.predict(Z[[i]])[0] + frequencies
            losses[alpha, rate] = -counts @ np.log((as_probabilities(p) * bits).sum(axis=1))
    alpha, rate = min(losses, key=losses.get)
    assert (model.alpha_, model.gamma_) == (pytest.approx(alpha), pytest.approx(rate))
    fixed = ek.ExpectedKernelClassifier(alpha=0.7, standardize=False).fit(X, y)
    assert fixed.alpha_ == 0.7


def test_many_classes_have_smaller_smallest_probabilities():
    p = as_probabilities(np.eye(100)[:3])
    np.testing.assert_allclose(p.min(axis=1), 0.001 / 1.099)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
