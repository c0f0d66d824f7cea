"""Weights of the densities that are averaged: given, equal, or by rows that are held out."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone

import expectedkernels as ek
from assertions import assert_close
from expectedkernels.estimators.machines import expect
from expectedkernels.estimators.stacking import PULL, best_average

NAN = np.nan
REGRESSORS = [
    ek.ExpectedSVR(density_weights="stacked"),
    ek.ExpectedKernelRidge(density_weights="stacked"),
    ek.ExpectedGaussianProcessRegressor(density_weights="stacked"),
]


def ring(n=80, seed=0):
    """Two columns on a circle: only densities with several centres know where rows can be."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0.0, 2.0 * np.pi, size=n)
    X = np.column_stack([np.cos(angle), np.sin(angle), rng.normal(size=n)])
    return X + 0.05 * rng.normal(size=X.shape), X[:, 1] ** 2 + 0.1 * X[:, 2], rng


@pytest.mark.parametrize("seed", range(8))
def test_the_best_average_is_the_minimum_on_the_simplex(seed):
    rng = np.random.default_rng(seed)
    errors = rng.normal(size=(30, 4)) * rng.uniform(0.2, 2.0, size=4) + rng.normal(size=(30, 1))
    pull = PULL * (errors.mean(axis=1) ** 2).sum() * 4

    def cost(a):
        return ((errors @ a) ** 2).sum() + pull * ((a - 0.25) ** 2).sum()

    sums = {"type": "eq", "fun": lambda a: a.sum() - 1.0}
    wanted = minimize(cost, np.full(4, 0.25), bounds=[(0, 1)] * 4, constraints=sums, tol=1e-12).x
    found = best_average(errors)
    assert found.sum() == pytest.approx(1.0)
    assert (found >= 0).all()
    assert cost(found) <= cost(wanted) + 1e-9
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_no_errors_say_nothing_of_weights():
    np.testing.assert_array_equal(best_average(np.zeros((5, 4))), np.full(4, 0.25))
    found = best_average(np.outer(np.ones(5), [1e-200, 2e-200]))
    np.testing.assert_allclose(found.sum(), 1.0)


@pytest.mark.parametrize("model", REGRESSORS, ids=lambda m: type(m).__name__)
def test_stacked_predictions_are_averages_with_the_weights(model):
    X, y, rng = ring()
    model = clone(model).fit(X, y)
    weights = model.density_weights_
    assert weights.sum() == pytest.approx(1.0)
    assert len(weights) == len(model.densities_) == 2
    assert weights[0] < 0.5  # one normal distribution is no circle
    holes = np.where(rng.random(X.shape) < 0.4, NAN, X)
    parts = [expect(model._machine, p, holes, model._resources) for p in model.density_.parts]
    assert_close(model.predict(holes), weights @ np.stack(parts), scale=1.0)
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.density_weights_, weights)
    given = clone(model).set_params(density_weights=weights).fit(X, y)
    assert_close(given.predict(holes), model.predict(holes), scale=1.0)
    low, high = model.predict_interval(holes[:5])
    assert (low < high).all()


def test_stacking_several_targets_and_weighted_rows():
    X, y, rng = ring()
    model = ek.ExpectedKernelRidge(alpha=0.1, density_weights="stacked")
    both = clone(model).fit(X, np.column_stack([y, 1e6 * y]))
    np.testing.assert_allclose(both.density_weights_, clone(model).fit(X, y).density_weights_)
    weighted = clone(model).fit(X, y, sample_weight=rng.uniform(0.5, 2.0, size=len(y)))
    assert weighted.density_weights_.sum() == pytest.approx(1.0)


def test_where_weights_are_not_stacked_they_are_equal():
    X, y, rng = ring()
    model = ek.ExpectedKernelRidge(density_weights="stacked")
    few = clone(model).fit(X[:9], y[:9])
    np.testing.assert_allclose(few.density_weights_, 0.5)
    holed = clone(model).fit(np.where(rng.random(X.shape) < 0.2, NAN, X), y)
    np.testing.assert_allclose(holed.density_weights_, 0.5)
    alone = clone(model).set_params(density="gaussian").fit(X, y)
    np.testing.assert_array_equal(alone.density_weights_, [1.0])


def test_given_weights():
    X, y, rng = ring()
    holes = np.where(rng.random(X.shape) < 0.4, NAN, X)
    model = ek.ExpectedSVR(density_weights=[2.0, 0.0]).fit(X, y)
    np.testing.assert_array_equal(model.density_weights_, [1.0, 0.0])
    normal = ek.ExpectedSVR(density="gaussian").fit(X, y)
    assert_close(model.predict(holes), normal.predict(holes), scale=1.0)
    one = np.where(np.arange(X.size).reshape(X.shape) == 4, NAN, X)  # some folds have no holes
    low, high = ek.ExpectedSVR(density_weights=[1.0, 2.0]).fit(one, y).predict_interval(holes[:5])
    assert (low < high).all()
    labels = y > np.median(y)
    for machine in (ek.ExpectedSVC(), ek.ExpectedKernelClassifier()):
        machine.set_params(density_weights=[0.0, 1.0]).fit(holes, labels)
        kernel = clone(machine).set_params(density="kernel", density_weights="equal")
        np.testing.assert_array_equal(
            machine.predict(holes), kernel.fit(holes, labels).predict(holes)
        )


@pytest.mark.parametrize(
    "weights", [[0.5, 0.5, 0.5], [-1.0, 0.5], [0.0] * 2, [NAN] * 2, np.ones((2, 1))]
)
def test_other_weights_are_refused(weights):
    X, y, _ = ring(30)
    with pytest.raises(ek.DataError, match=r"must have 2 weights .* those of gaussian, kernel"):
        ek.ExpectedSVR(density_weights=weights).fit(X, y)


def test_weights_of_one_density_are_refused():
    X, y, _ = ring(30)
    with pytest.raises(ek.DataError, match=r"for densities that are averages.* for chow_liu alone"):
        ek.ExpectedSVR(density="chow_liu", density_weights=[1.0]).fit(X, y)
    with pytest.raises(ValueError, match="'density_weights' parameter of ExpectedSVC must be"):
        ek.ExpectedSVC(density_weights="stacked").fit(X, y > 0.5)
