"""What estimators keep, what they refuse to take, and rows in chunks."""

import tracemalloc

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import expectedkernels as ek
from assertions import assert_raises
from machines import MACHINES, target
from oracles import with_holes

GRIDS = {"svr": {"C": [0.5, 5.0], "epsilon": [0.05, 0.2]}, "svc": {"C": [0.5, 5.0]}}


def table(n=40, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    X[:, 1] += X[:, 0]
    return with_holes(X, 0.2, seed), np.sin(X[:, 0]) + X[:, 1]


def entries(folder):
    return sorted(folder.rglob("output.pkl"))


@pytest.mark.parametrize("density", ["chow_liu", "auto"])
@pytest.mark.parametrize("name", MACHINES)
def test_searches_with_and_without(tmp_path, name, density):
    X, y = table()
    machine, grid = clone(MACHINES[name]), GRIDS.get(name, {"alpha": [0.1, 1.0]})
    y = target(machine.set_params(density=density), y, [0.0])
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


def test_densities_are_learned_once_and_learners_are_asked_every_time(tmp_path):
    class Learner:
        def fit(self, X):
            self.circuit_ = ek.learn_chow_liu(X)

    X, y = table()
    ek.ExpectedSVR(density=Learner(), memory=tmp_path).fit(X, y)
    assert not entries(tmp_path)
    for C in (0.1, 1.0, 10.0):
        ek.ExpectedSVR(C=C, density="chow_liu", memory=tmp_path).fit(X, y)
        assert len(entries(tmp_path)) == 2  # a density and a Gram matrix
    ek.ExpectedSVR(density="chow_liu", n_bins=4, memory=tmp_path).fit(X, y)
    ek.ExpectedSVR(density="chow_liu", memory=tmp_path).fit(X[1:], y[1:])
    assert len(entries(tmp_path)) == 6  # other bins, other rows
    message = "'memory' parameter of ExpectedSVR"
    assert_raises(ValueError, message, ek.ExpectedSVR(memory=3).fit, X, y)


def test_deviations_masks_and_intervals(tmp_path):
    X, y = table()
    for mask_kernel in (None, 0.5):
        model = ek.ExpectedKernelRidge(density="chow_liu", mask_kernel=mask_kernel)
        found, wanted = (
            [*kept.predict(X[:6], return_std=True), *kept.predict_interval(X[:6])]
            for kept in (clone(model).set_params(memory=tmp_path).fit(X, y), model.fit(X, y))
        )
        np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9)


ONE = (
    r"A kernel matrix of 53940 rows takes 21\.7 GiB\. Set n_landmarks, such as n_landmarks=500 "
    r"\(the default for more than 2000 rows\)\..* set max_bytes to 58"
)


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("name", MACHINES)
def test_too_many_rows_are_refused_before_memory_is_taken(name, holes):
    X = np.random.default_rng(0).normal(size=(53940, 2))
    X[: 5000 if holes else 0, 0] = np.nan
    model = clone(MACHINES[name]).set_params(n_landmarks=None)
    if name == "process":
        model.set_params(optimizer="fmin_l_bfgs_b")
    several = "4 kernel matrices of 53940 rows take 86.7 GiB"
    message = several if name == "process" else ONE
    tracemalloc.start()
    assert_raises(ek.DataError, message, model.fit, X, (X[:, 1] > 0).astype(float))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**27


def test_rows_that_are_dropped_take_no_memory():
    X = np.full((53940, 2), np.nan)
    X[:50] = np.random.default_rng(0).normal(size=(50, 2))
    model = ek.ExpectedKernelRidge(alpha=0.1, fit_missing="drop").fit(X, np.arange(53940.0))
    assert np.isfinite(model.predict(X[:50])).all()


@pytest.mark.parametrize("model", [ek.ExpectedKernelRidge(), ek.CircuitImputer()])
def test_identifiers_are_refused_before_memory_is_taken(model):
    X = np.array([[f"row {i}", i] for i in range(30000)], dtype=object)
    model.set_params(categorical_features=[0])
    message = r"take 6.7 GiB.* column 0 has 30000 categories in 30000"
    assert_raises(ek.DataError, message, model.fit, X, np.arange(30000.0))


def test_normal_distributions_of_too_many_columns_are_refused():
    model, message = ek.ExpectedKernelRidge(), r"normal distribution of 8500 columns.* 4.3 GiB"
    assert_raises(ek.DataError, message, model.fit, np.zeros((20, 8500)), np.arange(20.0))


def test_kernels_that_are_too_many_are_not_kept(tmp_path):
    X, y = table(60)
    X, holes = np.where(np.isnan(X), 0.0, X), X[:30]
    model = ek.ExpectedKernelRidge(alpha=0.1, memory=tmp_path).fit(X, y)
    wanted = model.predict(holes)
    model.set_params(max_bytes=1000)
    kept = len(entries(tmp_path))
    np.testing.assert_allclose(model.predict(holes[:20]), wanted[:20], rtol=1e-10)
    assert len(entries(tmp_path)) == kept


def text_table(n=60, seed=0):
    """Two columns of numbers and one of text, with gaps, and targets."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 2)).round(1), columns=["u", "v"])
    X["w"] = np.where(X["u"] + rng.normal(size=n) > 0, "yes", "no")
    y = X["u"] + X["v"] ** 2 + (X["w"] == "yes")
    return X.mask(rng.random(X.shape) < 0.2), y.to_numpy()


def fitted(name):
    X, y = text_table()
    model = clone(MACHINES[name]).set_params(density="chow_liu", n_bins=3, random_state=0)
    return model.fit(X, target(model, y, [1.0]))


@pytest.mark.parametrize("name", MACHINES)
def test_files_are_predicted_as_frames_are(name, tmp_path):
    pytest.importorskip("pyarrow")
    model, (X, _) = fitted(name), text_table(50, seed=1)
    path = tmp_path / "rows.parquet"
    X.assign(extra=1.0)[["extra", "w", "u", "v"]].to_parquet(path, row_group_size=20)
    wanted = model.predict(X)
    for n_jobs in (1, 2):
        found = list(model.predict_chunks(path, chunk_rows=15, n_jobs=n_jobs))
        assert [len(part) for part in found] == [15, 5, 15, 5, 10]
        np.testing.assert_allclose(np.concatenate(found), wanted, rtol=1e-9, atol=1e-9)


def test_workers_and_dask_frames():
    model, (X, _) = fitted("ridge"), text_table(50, seed=1)
    alone = np.concatenate(list(model.predict_chunks(X, chunk_rows=9)))
    with joblib.parallel_config(backend="loky", n_jobs=2):
        found = np.concatenate(list(model.predict_chunks(X, chunk_rows=9)))
    np.testing.assert_array_equal(found, alone)
    dataframe = pytest.importorskip("dask.dataframe")
    lazy = dataframe.from_pandas(X, npartitions=3)
    mean, std = model.predict_chunks(lazy, return_std=True)
    wanted = model.predict(X, return_std=True)
    np.testing.assert_allclose([mean.compute(), std.compute()], wanted, rtol=1e-9, atol=1e-9)


def test_other_methods_go_over_chunks():
    pyarrow = pytest.importorskip("pyarrow")
    model, (X, _) = fitted("classifier"), text_table(50, seed=1)
    chunks = [pyarrow.Table.from_pandas(X[i : i + 20], preserve_index=False) for i in (0, 20, 40)]
    found = np.concatenate(list(ek.over_chunks(model.predict_proba, chunks)))
    np.testing.assert_allclose(found, model.predict_proba(X), rtol=1e-9)
    imputer = ek.CircuitImputer("mean", n_bins=3).fit(X[["u", "v"]])
    parts = list(ek.over_chunks(imputer.transform, X[["u", "v"]], chunk_rows=20))
    wanted = imputer.transform(X[["u", "v"]])
    np.testing.assert_allclose(np.concatenate(parts), wanted, rtol=1e-9)
