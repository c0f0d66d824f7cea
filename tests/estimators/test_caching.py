"""Estimators with a memory: the same results, with less work."""

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import expectedkernels as ek

MACHINES = [
    (ek.ExpectedSVR(), {"C": [0.5, 5.0], "epsilon": [0.05, 0.2]}),
    (ek.ExpectedKernelRidge(), {"alpha": [0.1, 1.0]}),
    (ek.ExpectedGaussianProcessRegressor(optimizer=None), {"alpha": [0.1, 1.0]}),
    (ek.ExpectedSVC(), {"C": [0.5, 5.0]}),
    (ek.ExpectedKernelClassifier(), {"alpha": [0.1, 1.0]}),
]


def table(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 1] += X[:, 0]
    y = np.sin(X[:, 0]) + X[:, 1]
    return np.where(rng.random(X.shape) < 0.2, np.nan, X), y


def entries(folder):
    return sorted(folder.rglob("output.pkl"))


@pytest.mark.parametrize("density", ["chow_liu", "auto"])
@pytest.mark.parametrize(("machine", "grid"), MACHINES, ids=lambda x: type(x).__name__)
def test_searches_with_and_without(tmp_path, machine, grid, density):
    X, y = table()
    y = (y > 0).astype(int) if hasattr(machine, "decision_function") else y
    machine = clone(machine).set_params(density=density)
    plain = GridSearchCV(machine, grid, cv=2).fit(X, y)
    search = GridSearchCV(clone(machine).set_params(memory=tmp_path), grid, cv=2).fit(X, y)
    for name, found in plain.cv_results_.items():
        if "score" in name and "time" not in name:
            np.testing.assert_allclose(search.cv_results_[name], found, rtol=1e-9)
    np.testing.assert_allclose(search.predict(X), plain.predict(X), rtol=1e-9, atol=1e-12)
    before = len(entries(tmp_path))
    again = GridSearchCV(clone(machine).set_params(memory=str(tmp_path)), grid, cv=2).fit(X, y)
    assert len(entries(tmp_path)) == before  # nothing is made anew
    np.testing.assert_array_equal(again.predict(X), search.predict(X))


def test_other_processes_share_what_is_kept(tmp_path):
    X, y = table()
    machine = ek.ExpectedSVR(density="chow_liu", memory=joblib.Memory(tmp_path, verbose=0))
    grid = {"C": [0.5, 5.0], "epsilon": [0.05, 0.2]}
    found = GridSearchCV(machine, grid, cv=2, n_jobs=2).fit(X, y)
    alone = GridSearchCV(clone(machine).set_params(memory=None), grid, cv=2).fit(X, y)
    np.testing.assert_allclose(found.predict(X), alone.predict(X), rtol=1e-9, atol=1e-12)
    # three times (two folds, and all rows) a density and a Gram matrix, and kernels with
    # the rows that are left out of two folds, and with all
    before = len(entries(tmp_path))
    assert before == 9
    GridSearchCV(machine, {"C": [1.0, 2.0, 3.0]}, cv=2).fit(X, y)
    assert len(entries(tmp_path)) == before


def test_densities_are_learned_once(tmp_path):
    X, y = table()
    for C in (0.1, 1.0, 10.0):
        ek.ExpectedSVR(C=C, density="chow_liu", memory=tmp_path).fit(X, y)
        assert len(entries(tmp_path)) == 2  # a density and a Gram matrix
    ek.ExpectedSVR(density="chow_liu", n_bins=4, memory=tmp_path).fit(X, y)
    ek.ExpectedSVR(density="chow_liu", memory=tmp_path).fit(X[1:], y[1:])
    assert len(entries(tmp_path)) == 6  # other bins, other rows


def test_deviations_masks_and_intervals(tmp_path):
    X, y = table()
    for options in ({}, {"mask_kernel": 0.5}):
        plain = ek.ExpectedKernelRidge(density="chow_liu", **options).fit(X, y)
        found = clone(plain).set_params(memory=tmp_path).fit(X, y)
        for got, wanted in zip(
            (*found.predict(X[:6], return_std=True), *found.predict_interval(X[:6])),
            (*plain.predict(X[:6], return_std=True), *plain.predict_interval(X[:6])),
            strict=True,
        ):
            np.testing.assert_allclose(got, wanted, rtol=1e-7, atol=1e-9)


def test_learners_are_asked_every_time(tmp_path):
    class Learner:
        def fit(self, X):
            self.circuit_ = ek.learn_chow_liu(X)

    X, y = table()
    ek.ExpectedSVR(density=Learner(), memory=tmp_path).fit(X, y)
    assert not entries(tmp_path)


def test_memories_that_are_none():
    X, y = table(20)
    with pytest.raises(ValueError, match="'memory' parameter of ExpectedSVR"):
        ek.ExpectedSVR(memory=3).fit(X, y)
