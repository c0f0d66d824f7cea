"""Tables that pyarrow, polars and Dask read some rows at a time, and those of pyarrow in memory."""

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


WET = RNG.choice(["no", "yes"], 80)
RAIN = np.where(RNG.random(80) < 0.8, WET, "no").astype(object)
RAIN[::9] = None
FRAME = pd.DataFrame({"rain": RAIN, "wet": WET})


def test_learning_and_queries():
    frame, table = FRAME, pyarrow.Table.from_pandas(FRAME)
    p, q = ek.learn_chow_liu(frame), ek.learn_chow_liu(table)
    assert q.schema == p.schema
    np.testing.assert_array_equal(q.log_likelihood(table), p.log_likelihood(frame))
    k = ek.ExpHamming(1.0)
    full, whole = table.drop_null(), frame.dropna()
    np.testing.assert_array_equal(ek.expected_kernel(q, full, k), ek.expected_kernel(p, whole, k))
    assert ek.mmd2(q, full, k) == ek.mmd2(p, whole, k)
    assert ek.WeightedSamples(q, full).n == len(whole)
    back = full.select(["wet", "rain"])  # columns are found by their names
    np.testing.assert_array_equal(q.log_likelihood(back), p.log_likelihood(whole))


def test_drift_and_estimators():
    frame, table = FRAME, pyarrow.Table.from_pandas(FRAME)
    found = ek.drift(table.slice(0, 40), table.slice(40), n_permutations=19, rng=0)
    wanted = ek.drift(frame[:40], frame[40:], n_permutations=19, rng=0)
    assert found.p_value == wanted.p_value
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("abc"))
    y = X.sum(axis=1).to_numpy()
    X = X.mask(rng.random(X.shape) < 0.2)
    arrow = pyarrow.Table.from_pandas(X)
    for density in ("gaussian", "chow_liu"):
        mine = ek.ExpectedKernelRidge(density=density).fit(arrow, y).predict(arrow)
        theirs = ek.ExpectedKernelRidge(density=density).fit(X, y).predict(X)
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)
