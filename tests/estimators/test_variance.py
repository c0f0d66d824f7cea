"""Variances over missing values: rounded ones, nodes and sums of products agree."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.svm import SVR

import expectedkernels as ek
from expectedkernels.estimators import variance as rounding, variance as spread
from expectedkernels.estimators.kernel_expansion import Resources
from expectedkernels.estimators.kernel_model import read_machine
from expectedkernels.estimators.prediction import coded_density
from expectedkernels.estimators.variance import low_rank_variance
from strategies import rngs

NAN = np.nan
TOLERANCES = [0.1, 0.01, 0.001]


def within(found, exact, tolerance):
    np.testing.assert_allclose(found, exact, rtol=tolerance)


@settings(max_examples=25)
@given(rngs, st.sampled_from(TOLERANCES), st.booleans(), st.integers(1, 3))
def test_random_circuits(rng, tolerance, real, units):
    n = int(rng.integers(2, 6))
    if real:
        circuit = ek.gaussian_mixture(
            [0.3, 0.5, 0.2], rng.normal(size=(3, n)), rng.uniform(0.1, 2.0, (3, n))
        )
        train, X = rng.normal(size=(40, n)), rng.normal(size=(6, n))
    else:
        cards = rng.integers(2, 5, size=n).tolist()
        vtree = ek.Vtree.random(n, rng)
        circuit = ek.random_circuit(vtree, units, rng, cardinalities=cards)
        draw = rng.random((46, n))
        train, X = np.split(np.floor(draw * cards), [40])
    X[rng.random(X.shape) < 0.6] = NAN
    X[0] = NAN
    model = SVR(C=100.0, gamma=0.4, epsilon=0.01)
    model.fit(train, np.sin(train @ rng.normal(size=n)) + 0.1 * rng.normal(size=40))
    density = coded_density(circuit, n)
    machine, resources = read_machine(model).expansion, Resources(std_tol=tolerance)
    rows = density.rows(X[np.isnan(X).any(axis=1)])
    mean = density.mean(machine, rows, resources)
    exact = density.variance(machine, rows, mean, replace(resources, std_tol=0.0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounding, "FEW_POINTS", -1)
        found, left = low_rank_variance(machine, density, rows, mean, resources)
    assert left.mean() < 0.5
    within(np.sqrt(found[~left]), np.sqrt(exact[~left]), tolerance)


def test_tiny_spreads_keep_their_digits(monkeypatch):
    """f hardly depends on what is missing, with coefficients a million times its spread."""
    rng = np.random.default_rng(0)
    X = rng.integers(4, size=(80, 4)).astype(float)
    y = np.sin(X[:, 0]) + X[:, 1] ** 2 + 1e-4 * X[:, 3]
    model = ek.ExpectedKernelRidge(alpha=1e-9, gamma=0.02, density="chow_liu").fit(X, y)
    rows = X[:6].copy()
    rows[:, 2:] = NAN
    exact = model.predict(rows, return_std=True, std_tol=0)[1]  # by nodes
    size = np.abs(model._machine.expansion.coef).max()
    assert exact.max() < 1e-5 * size
    monkeypatch.setattr(rounding, "FEW_POINTS", -1)
    within(model.predict(rows, return_std=True)[1], exact, 0.01)


def rough(n=80, seed=0, real=False):
    """A target that is fitted with large coefficients and hardly depends on the last columns."""
    rng = np.random.default_rng(seed)
    X = rng.integers(4, size=(n, 4)).astype(float)
    X[:, 2] = np.clip(X[:, 2] + X[:, 3] - 1, 0, 4)
    if real:
        X[:, 3] += rng.random(n)
    return X, np.sin(X[:, 0]) + X[:, 1] ** 2 + 1e-4 * X[:, 3]


@pytest.mark.parametrize("max_bytes", [2**16, 2**30])
def test_nodes_agree_with_sums_of_products_where_digits_suffice(monkeypatch, max_bytes):
    X, y = rough(real=True)
    kind = np.eye(3)[np.arange(len(X)) % 3]
    X = np.column_stack([X[:, [0, 2, 3]], kind])
    model = ek.ExpectedSVR(
        groups=[[3, 4, 5]], n_bins=4, max_bytes=max_bytes, density="chow_liu"
    ).fit(X, y + kind[:, 0])
    rows = X[:5].copy()
    rows[0, 0] = rows[1, [0, 2]] = rows[2, 3:] = rows[3, 3] = rows[4, [1, 3, 4]] = NAN
    expected = model.predict(rows, return_std=True)[1]
    monkeypatch.setattr(spread, "DOUBTFUL", np.inf)
    again = model.predict(rows, return_std=True)[1]
    assert (again > 0).sum() == 4  # a bit follows from the others
    np.testing.assert_allclose(again, expected, rtol=1e-9)


def test_lost_digits_are_told_where_nodes_are_too_many(monkeypatch):
    X, y = rough()
    model = ek.ExpectedKernelRidge(alpha=1e-13, gamma=0.005, density="chow_liu").fit(X, y)
    rows = X[:2].copy()
    rows[:, 3] = NAN
    monkeypatch.setattr(spread, "MOST_KERNELS", 1)
    with pytest.warns(RuntimeWarning, match="2 rows are too small beside the coefficients"):
        model.predict(rows, return_std=True)
