"""Sigmoids, pairs of classes, and spreads of votes of support vector machines."""

import itertools

import numpy as np
import pytest
from scipy.special import expit

import expectedkernels as ek
from expectedkernels.estimators import classification as classifiers
from expectedkernels.estimators.classification import coupled, learn_sigmoid, logits

NAN = np.nan


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
