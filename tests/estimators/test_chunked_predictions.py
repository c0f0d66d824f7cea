"""Predictions for data in chunks are those for all rows at once, in the same order."""

import joblib
import numpy as np
import pandas as pd
import pytest

import expectedkernels as ek

MACHINES = {
    "svr": ek.ExpectedSVR,
    "ridge": ek.ExpectedKernelRidge,
    "process": ek.ExpectedGaussianProcessRegressor,
    "svc": ek.ExpectedSVC,
    "classes": ek.ExpectedKernelClassifier,
}


def table(n=60, seed=0):
    """Two columns of numbers and one of text, with gaps, and targets."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 2)).round(1), columns=["u", "v"])
    X["w"] = np.where(X["u"] + rng.normal(size=n) > 0, "yes", "no")
    y = X["u"] + X["v"] ** 2 + (X["w"] == "yes")
    return X.mask(rng.random(X.shape) < 0.2), y.to_numpy()


def fitted(name):
    X, y = table()
    if name in ("svc", "classes"):
        y = (y > 1).astype(int)
    return MACHINES[name](density="chow_liu", n_bins=3, random_state=0).fit(X, y)


@pytest.mark.parametrize("name", MACHINES)
def test_files_are_predicted_as_frames_are(name, tmp_path):
    pytest.importorskip("pyarrow")
    model, (X, _) = fitted(name), table(50, seed=1)
    path = tmp_path / "rows.parquet"
    X.assign(extra=1.0)[["extra", "w", "u", "v"]].to_parquet(path, row_group_size=20)
    wanted = model.predict(X)
    for n_jobs in (1, 2):
        found = list(model.predict_chunks(path, chunk_rows=15, n_jobs=n_jobs))
        assert [len(part) for part in found] == [15, 5, 15, 5, 10]
        np.testing.assert_allclose(np.concatenate(found), wanted, rtol=1e-9, atol=1e-9)


def test_workers_do_not_change_a_bit():
    model, (X, _) = fitted("ridge"), table(50, seed=1)
    alone = np.concatenate(list(model.predict_chunks(X, chunk_rows=9)))
    with joblib.parallel_config(backend="loky", n_jobs=2):
        found = np.concatenate(list(model.predict_chunks(X, chunk_rows=9)))
    np.testing.assert_array_equal(found, alone)


def test_dask_frames_are_predicted_lazily():
    dataframe = pytest.importorskip("dask.dataframe")
    model, (X, _) = fitted("ridge"), table(50, seed=1)
    lazy = dataframe.from_pandas(X, npartitions=3)
    mean, std = model.predict_chunks(lazy, return_std=True)
    wanted = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean.compute(), wanted[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(std.compute(), wanted[1], rtol=1e-9, atol=1e-9)


def test_other_methods_go_over_chunks():
    pyarrow = pytest.importorskip("pyarrow")
    model, (X, _) = fitted("classes"), table(50, seed=1)
    chunks = [pyarrow.Table.from_pandas(X[i : i + 20], preserve_index=False) for i in (0, 20, 40)]
    found = np.concatenate(list(ek.over_chunks(model.predict_proba, chunks)))
    np.testing.assert_allclose(found, model.predict_proba(X), rtol=1e-9)
    imputer = ek.CircuitImputer("mean", n_bins=3).fit(X[["u", "v"]])
    parts = list(ek.over_chunks(imputer.transform, X[["u", "v"]], chunk_rows=20))
    wanted = imputer.transform(X[["u", "v"]])
    np.testing.assert_allclose(np.concatenate(parts), wanted, rtol=1e-9)
