"""Prediction sets of classifiers."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

import expectedkernels as ek
from oracles import with_holes

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
    for one, other in pairwise(found):
        assert (one <= other).all()
    assert found[0].shape == (75, 3)
    assert found[0].dtype == np.bool_
    assert found[0].any(axis=1).all()
    best = model.predict_proba(rows).argmax(axis=1)
    assert found[0][np.arange(75), best].all()
    np.testing.assert_array_equal(model.predict_set(rows, 0.9), found[1])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_set(rows, 0.9), found[1])
    alone = np.concatenate(
        [clone(model).fit(X[::2], y[::2]).predict_set(rows[i : i + 1]) for i in (3, 0)]
    )
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
    with pytest.raises(ek.DataError, match="At least 2 rows of every class are needed"):
        ek.ExpectedKernelClassifier(density="gaussian").fit(X, y).predict_set(X)


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


def test_wrong_coverage():
    X, y = classes(60, [0.5, 0.5, 0.0])
    model = ek.ExpectedKernelClassifier(density="gaussian").fit(X, y)
    with pytest.raises(ek.DataError, match=r"'coverage' parameter of predict_set .* Got 1\.5"):
        model.predict_set(X, 1.5)
