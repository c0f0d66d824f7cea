"""Parameters that are chosen by some of many rows: the same for all orders of rows and columns."""

import numpy as np
from sklearn.datasets import load_iris

import expectedkernels as ek
from expectedkernels.estimators import base

NAN = np.nan


def test_a_choice_by_some_of_many_rows(monkeypatch):
    X, y = load_iris(return_X_y=True)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = NAN
    for most in ("MOST_COMPLETE", "MOST_INCOMPLETE"):
        monkeypatch.setattr(base, most, 40)
    first = ek.ExpectedKernelClassifier(random_state=0).fit(X, y)
    again = ek.ExpectedKernelClassifier(random_state=0).fit(X, y)
    assert (first.alpha_, first.gamma_) == (again.alpha_, again.gamma_)
    assert first.score(X, y) > 0.9


def table(n=60, holes=0.2, seed=0):
    """Rows of steps of 1/1024, which all shifts keep, without and with holes, and targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 1] += X[:, 0]
    X = np.round(1024.0 * X) / 1024.0
    return X, np.where(rng.random(X.shape) < holes, np.nan, X), X[:, 0] + np.sin(X[:, 1])


def test_rows_that_are_drawn_do_not_depend_on_orders(monkeypatch):
    monkeypatch.setattr("expectedkernels.estimators.base.MOST_COMPLETE", 30)
    monkeypatch.setattr("expectedkernels.learning.normals.KERNEL_CENTRES", 30)
    grid = np.stack(np.meshgrid(np.arange(9.0), np.arange(9.0)), axis=-1).reshape(-1, 2)
    y, rng = grid.sum(axis=1) ** 2, np.random.default_rng(0)
    test = np.array([[2.0, np.nan], [np.nan, 2.0], [7.5, np.nan], [np.nan, 7.5]])
    model = ek.ExpectedKernelRidge()
    wanted = model.fit(grid, y).predict(test)
    assert 30 <= len(model.density_.parts[1].mixture.weights) < 40
    np.testing.assert_allclose(wanted[::2], wanted[1::2], rtol=1e-9)
    rows = rng.permutation(81)
    np.testing.assert_allclose(model.fit(grid[rows], y[rows]).predict(test), wanted, rtol=1e-9)


def test_the_same_rows_have_the_same_choices(monkeypatch):
    monkeypatch.setattr("expectedkernels.estimators.base.MOST_COMPLETE", 20)
    X, holes, y = table(90, seed=1)
    found = [ek.ExpectedKernelRidge(alpha="auto").fit(X, y).predict(holes) for _ in range(3)]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_choices_do_not_depend_on_orders(monkeypatch):
    monkeypatch.setattr("expectedkernels.estimators.base.MOST_COMPLETE", 50)
    monkeypatch.setattr("expectedkernels.learning.normals.KERNEL_CENTRES", 50)
    X, holes, y = table(90, seed=1)
    rows, columns = np.random.default_rng(2).permutation(90), np.array([2, 0, 1])
    model = ek.ExpectedKernelRidge(alpha="auto", random_state=0)
    wanted = model.fit(X, y).predict(holes)
    found = model.fit(X[rows][:, columns], y[rows]).predict(holes[:, columns])
    np.testing.assert_allclose(found, wanted, atol=1e-8)
