"""Probabilities of classes."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss

import expectedkernels as ek

NAN = np.nan


def holes(X, share, seed=0):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, NAN, X)


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


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"alpha": 0.0}, "The 'alpha' parameter of ExpectedKernelClassifier must be"),
        ({"gamma": "median"}, "The 'gamma' parameter of ExpectedKernelClassifier must be"),
    ],
)
def test_parameters_are_checked(wrong, message):
    X, y = codes(10)
    with pytest.raises(ValueError, match=message):
        ek.ExpectedKernelClassifier(**wrong).fit(X, y)
