"""Nodes of conditional distributions: their moments, and gains with more and with fewer of them."""

import numpy as np
import pytest

import expectedkernels as ek
from expectedkernels.estimators import circuit_density as nodes
from normal_densities import products_of_normals

NAN = np.nan


def reals(n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[:, 1] += X[:, 0]
    X[:, 3] = np.where(rng.random(n) < 0.4, 0.0, X[:, 3])  # a value of its own beside bins
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + X[:, 2] * X[:, 3]


@pytest.mark.parametrize("real", [False, True])
def test_a_single_hole_explains_all_the_variance(real, monkeypatch):
    X, y = reals()
    density = products_of_normals(X) if real else "chow_liu"
    model = ek.ExpectedSVR(C=2.0, n_bins=5, density=density).fit(X, y)
    rows = np.repeat(X[:3], 4, axis=0)
    rows[np.arange(12), np.tile(np.arange(4), 3)] = NAN
    variance = model.predict(rows, return_std=True)[1] ** 2
    found = np.nansum(ek.acquisition_gain(model, rows), axis=1)
    np.testing.assert_allclose(found, variance, rtol=0.15 if real else 0.01, atol=1e-4)
    monkeypatch.setattr(nodes, "OF_INTERVALS", 12)
    monkeypatch.setattr(nodes, "OF_NORMALS", 60)
    found = np.nansum(ek.acquisition_gain(model, rows), axis=1)
    np.testing.assert_allclose(found, variance, rtol=1e-6)


def test_few_nodes_are_enough_and_no_gain_is_larger_than_the_variance(monkeypatch):
    X, y = reals(seed=1)
    for density, rough in (("chow_liu", 0.01), (products_of_normals(X), 0.04)):
        model = ek.ExpectedSVR(C=2.0, n_bins=5, density=density).fit(X, y)
        rows = np.where(np.random.default_rng(0).random((5, 4)) < 0.7, NAN, X[:5])
        gain = ek.acquisition_gain(model, rows)
        variance = model.predict(rows, return_std=True)[1] ** 2
        assert (np.nanmax(gain, axis=1, initial=0.0) <= 1.005 * variance + 1e-12).all()
        with monkeypatch.context() as patch:
            patch.setattr(nodes, "OF_INTERVALS", 8)
            patch.setattr(nodes, "OF_NORMALS", 40)
            finer = ek.acquisition_gain(model, rows)
        np.testing.assert_allclose(gain, finer, rtol=rough, atol=1e-4)


def test_nodes_have_the_moments_of_the_conditional():
    X, y = reals()
    model = ek.ExpectedSVR(density=products_of_normals(X)).fit(X, y)
    Z = model._read([[0.3, NAN, NAN, NAN]])
    rows = model.density_.rows(Z)
    found = model.density_.nodes(rows)
    assert len(found[0].rows) == 0
    for i in (1, 2):
        mean, variance = model.circuit_.marginals(rows.states)[i][0]
        at, weights = found[i].values[:, 0], found[i].weights
        np.testing.assert_allclose([weights.sum(), weights @ at], [1.0, mean])
        np.testing.assert_allclose(weights @ (at - mean) ** 2, variance)
