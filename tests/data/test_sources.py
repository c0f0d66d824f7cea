"""Tables that pyarrow, polars and Dask read some rows at a time are data in chunks."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import expectedkernels as ek

pyarrow = pytest.importorskip("pyarrow")
dataset = pytest.importorskip("pyarrow.dataset")
parquet = pytest.importorskip("pyarrow.parquet")

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.integers(3, size=(120, 3)).astype(float), columns=["a", "b", "c"])
X["b"] = np.where(RNG.random(120) < 0.8, X["a"], X["b"])
X = X.mask(RNG.random(X.shape) < 0.1)
X["c"] = X["c"].map({0: "low", 1: "mid", 2: "high"})


@pytest.fixture
def path(tmp_path):
    X.to_parquet(tmp_path / "rows.parquet", row_group_size=50, index=False)
    return tmp_path / "rows.parquet"


SOURCES = {
    "dataset": dataset.dataset,
    "file": parquet.ParquetFile,
    "lazy": pl.scan_parquet,
    "frames": lambda path: [X[:70], X[70:]],
    "batches": lambda path: lambda: parquet.read_table(path).to_batches(max_chunksize=33),
}


@pytest.mark.parametrize("name", SOURCES)
def test_sources_are_read_as_often_as_needed(name, path):
    whole = ek.learn_chow_liu(X)
    found = ek.learn_chow_liu(SOURCES[name](path))
    assert found.schema == whole.schema
    wanted = whole.log_likelihood(X)
    np.testing.assert_allclose(found.log_likelihood(X), wanted, rtol=1e-10)
    logs = list(ek.over_chunks(whole.log_likelihood, SOURCES[name](path), chunk_rows=30))
    np.testing.assert_array_equal(np.concatenate(logs), wanted)


@pytest.mark.parametrize("name", ["dataset", "file", "lazy"])
def test_columns_of_sources_are_chosen(name, path):
    chosen = ek.over_chunks(lambda part: part.shape, SOURCES[name](path), columns=["c", "a"])
    parts = list(chosen)
    assert [width for _, width in parts] == [2] * len(parts)
    assert sum(height for height, _ in parts) == len(X)
    numbers = X[["a", "b"]]
    model = ek.ExpectedKernelRidge(density="gaussian").fit(numbers, numbers.sum(axis=1))
    found = np.concatenate(list(model.predict_chunks(SOURCES[name](path), chunk_rows=40)))
    np.testing.assert_allclose(found, model.predict(numbers), rtol=1e-9, atol=1e-9)


def test_dask_frames_stay_frames():
    frames = pytest.importorskip("dask.dataframe")
    numbers = X[["a", "b"]]
    imputer = ek.CircuitImputer("mean", n_bins=3).set_output(transform="pandas").fit(numbers)
    found = ek.over_chunks(imputer.transform, frames.from_pandas(numbers, npartitions=3))
    assert list(found.columns) == ["a", "b"]
    wanted = imputer.transform(numbers)
    pd.testing.assert_frame_equal(found.compute(), wanted, rtol=1e-9)


def test_batches_of_records_in_a_generator(path):
    whole = ek.learn_chow_liu(X)
    batches = parquet.ParquetFile(path).iter_batches(33)
    found = np.concatenate(list(ek.over_chunks(whole.log_likelihood, batches)))
    np.testing.assert_array_equal(found, whole.log_likelihood(X))
