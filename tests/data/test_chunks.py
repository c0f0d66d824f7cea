"""Functions of rows over data in chunks: the order, the numbers, and what chunks may be."""

import math
import sys
from importlib import import_module

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest

import expectedkernels as ek
from assertions import assert_raises

NAMES = ["a", "b", "c"]


def model():
    return ek.random_circuit(3, 2, 0, cardinalities=3).with_names(NAMES)


def rows(n=50):
    rng = np.random.default_rng(1)
    return np.where(rng.random((n, 3)) < 0.2, np.nan, rng.integers(3, size=(n, 3)))


def joined(results):
    return np.concatenate(list(results))


@pytest.fixture
def path(tmp_path):
    """A file of fifty rows in row groups of twenty, with a column too many."""
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(rows(), columns=NAMES)
    frame["extra"] = 7.0
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=20)
    return tmp_path / "rows.parquet"


def table():
    """Rows with labels and missing values."""
    frame = pd.DataFrame(rows(), columns=NAMES)
    return frame.assign(c=frame["c"].map({0: "low", 1: "mid", 2: "high"}))


CHUNKS = {
    "iterator": lambda path: lambda: iter([table()[:30], table()[30:]]),
    "list": lambda path: [table()[:30], table()[30:]],
    "polars": lambda path: pl.from_pandas(table()),
    "lazy": pl.scan_parquet,
    "path": lambda path: path,
    "dataset": lambda path: import_module("pyarrow.dataset").dataset(path),
    "file": lambda path: import_module("pyarrow.parquet").ParquetFile(path),
    "table": lambda path: import_module("pyarrow.parquet").read_table(path),
    "batches": lambda path: lambda: pl.read_parquet(path).to_arrow().to_batches(max_chunksize=33),
}


@pytest.fixture
def labelled(tmp_path):
    """A file of rows with labels."""
    pytest.importorskip("pyarrow")
    table().to_parquet(tmp_path / "labels.parquet", row_group_size=20, index=False)
    return tmp_path / "labels.parquet"


@pytest.mark.parametrize("name", CHUNKS)
def test_chunks_may_be_many_things(name, labelled):
    whole, data = ek.learn_chow_liu(table()), CHUNKS[name](labelled)
    wanted, found = whole.log_likelihood(table()), ek.learn_chow_liu(data)
    assert found.schema == whole.schema
    np.testing.assert_allclose(found.log_likelihood(table()), wanted, rtol=1e-10)
    logs = joined(ek.over_chunks(whole.log_likelihood, data, chunk_rows=7))
    np.testing.assert_array_equal(logs, wanted)


def test_batches_that_a_generator_gives_once(labelled):
    whole = ek.learn_chow_liu(table())
    batches = import_module("pyarrow.parquet").ParquetFile(labelled).iter_batches(33)
    found = joined(ek.over_chunks(whole.log_likelihood, batches))
    np.testing.assert_array_equal(found, whole.log_likelihood(table()))
    found = joined(ek.over_chunks(model().log_likelihood, rows(), chunk_rows=7))
    np.testing.assert_array_equal(found, model().log_likelihood(rows()))


@pytest.mark.parametrize("name", ["dataset", "file", "lazy"])
def test_columns_of_sources_are_chosen(name, labelled):
    data = CHUNKS[name](labelled)
    parts = list(ek.over_chunks(lambda part: part.shape, data, columns=["c", "a"]))
    assert [width for _, width in parts] == [2] * len(parts)
    assert sum(height for height, _ in parts) == len(table())
    numbers = table()[["a", "b"]]
    fitted = ek.ExpectedKernelRidge(density="gaussian").fit(numbers, numbers.sum(axis=1))
    found = joined(fitted.predict_chunks(data, chunk_rows=40))
    np.testing.assert_allclose(found, fitted.predict(numbers), rtol=1e-9, atol=1e-9)


def test_files_are_read_some_rows_at_a_time(path):
    assert list(ek.over_chunks(len, path, chunk_rows=8)) == [8, 8, 4, 8, 8, 4, 8, 2]
    wanted = model().log_likelihood(rows())
    for data in (path, [path], str(path), path.parent):
        found = joined(ek.over_chunks(model().log_likelihood, data, columns=NAMES, chunk_rows=8))
        np.testing.assert_array_equal(found, wanted)
    np.save(path.with_name("rows.npy"), rows())
    mapped = np.load(path.with_name("rows.npy"), mmap_mode="r")
    assert list(ek.over_chunks(len, mapped, chunk_rows=20)) == [20, 20, 10]


@pytest.mark.parametrize("backend", ["threading", "loky", "multiprocessing"])
def test_results_come_in_order_whoever_works(backend, path):
    wanted = model().log_likelihood(rows())
    with joblib.parallel_config(backend=backend):
        found = ek.over_chunks(model().log_likelihood, path, columns=NAMES, chunk_rows=8, n_jobs=2)
        np.testing.assert_array_equal(joined(found), wanted)


def test_chunks_are_read_when_they_are_due():
    read = []

    def chunks():
        for i in range(3):
            read.append(i)
            yield rows(4)

    found = ek.over_chunks(model().log_likelihood, chunks())
    assert read == []
    next(found)
    assert read == [0]


def test_dask_collections_stay_lazy():
    array, dataframe = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    wanted = model().log_likelihood(rows())
    lazy = ek.over_chunks(model().log_likelihood, array.from_array(rows(), chunks=(20, 2)))
    assert lazy.shape == (50,)
    assert lazy.chunks == ((20, 20, 10),)
    np.testing.assert_array_equal(lazy.compute(), wanted)
    frame = dataframe.from_pandas(pd.DataFrame(rows(), columns=NAMES), npartitions=3)
    lazy = ek.over_chunks(model().log_likelihood, frame)
    assert math.isnan(lazy.shape[0])
    np.testing.assert_array_equal(lazy.compute(), wanted)

    def both(X):
        return X.sum(axis=1), 2.0 * X

    X = np.arange(24.0).reshape(8, 3)
    total, twice = ek.over_chunks(both, array.from_array(X, chunks=(3, 3)))
    np.testing.assert_array_equal(total.compute(), X.sum(axis=1))
    np.testing.assert_array_equal(twice.compute(), 2.0 * X)
    assert_raises(ek.DataError, "Got 1 axes", ek.over_chunks, len, array.ones(3))
    numbers = table()[["a", "b"]]
    imputer = ek.CircuitImputer("mean", n_bins=3).set_output(transform="pandas").fit(numbers)
    found = ek.over_chunks(imputer.transform, dataframe.from_pandas(numbers, npartitions=3))
    assert list(found.columns) == ["a", "b"]
    pd.testing.assert_frame_equal(found.compute(), imputer.transform(numbers), rtol=1e-9)


def test_errors_say_which_chunk(path):
    X = rows()
    X[31, 1] = 9
    with pytest.raises(ek.EvidenceError, match=r"^In chunk 3: .*"):
        joined(ek.over_chunks(model().log_likelihood, X, chunk_rows=10))
    with pytest.raises(ek.DataError, match=r"no column 'z'. It has a, b, c, extra"):
        list(ek.over_chunks(len, path, columns=["a", "z"]))
    with pytest.raises(ek.DataError, match="'columns' parameter is for Parquet files"):
        list(ek.over_chunks(len, X, columns=["a"]))
    with pytest.raises(ek.DataError, match="no Parquet file, and no folder"):
        list(ek.over_chunks(len, "rows.csv"))
    with pytest.raises(ek.CircuitError, match="'chunk_rows' parameter of over_chunks"):
        ek.over_chunks(len, X, chunk_rows=0)

    def foreign(chunk):
        if len(chunk) == 2:
            raise KeyError("not ours")
        return len(chunk)

    for n_jobs in (1, 2):
        with pytest.raises(KeyError, match="not ours") as caught:
            list(ek.over_chunks(foreign, rows(), chunk_rows=8, n_jobs=n_jobs))
        assert caught.value.__notes__ == ["In chunk 6."]
    with pytest.raises(KeyError, match="not ours") as caught:
        list(ek.over_chunks(foreign, path, chunk_rows=8))
    assert caught.value.__notes__ == [f"In the rows of {path} from row 48 on."]


@pytest.mark.parametrize("data", [np.empty((0, 3)), [], iter([]), pd.DataFrame({"a": []}), list])
def test_no_data_are_an_error(data):
    assert_raises(ek.DataError, "nothing to be read: the data", list, ek.over_chunks(len, data))
    assert list(ek.over_chunks(lambda chunk: None, rows(), chunk_rows=25)) == [None, None]


def test_files_need_pyarrow(path, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    assert len(list(ek.over_chunks(len, rows()))) == 1
    assert_raises(ek.DataError, "package pyarrow is not installed", list, ek.over_chunks(len, path))
