"""Learning from data in chunks gives what learning from all rows at once gives."""

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest

import expectedkernels as ek
from assertions import assert_raises, assert_same_circuit, refusals
from learning_searches import assert_alike, pieces, table

X, GAPS = table(240), table(240, missing=0.1)
N = len(X)
WEIGHTS = np.where(np.arange(N) // 60 == 1, 0.0, np.random.default_rng(0).integers(4, size=N) / 3)
"""The rows from 60 to 119 do not count, nor do some others."""
QUIET = {"progress": False}


def framed(X, **more):
    return pd.DataFrame(X, columns=list("abcd")).assign(**more)


def weighted(X):
    return framed(X, w=WEIGHTS)


@pytest.mark.parametrize("rows", [X, GAPS], ids=["complete", "gaps"])
@pytest.mark.parametrize("parameters", ["flows", "cpt"])
def test_trees_of_weighted_rows(rows, parameters, tmp_path):
    options = {"cardinalities": 3, "parameters": parameters}
    whole = ek.learn_chow_liu(rows, sample_weight=WEIGHTS, **options)
    assert abs(whole.log_likelihood(X) - ek.learn_chow_liu(rows, **options).log_likelihood(X)).max()
    weighted(rows).to_parquet(tmp_path / "rows.parquet", row_group_size=60)
    for data in (lambda: pieces(weighted(rows)), tmp_path / "rows.parquet"):
        found = ek.learn_chow_liu(data, sample_weight="w", **options)
        assert found.names == ("a", "b", "c", "d")
        assert_alike(found, whole.with_names(list("abcd")), GAPS)

    def by_number(chunk):
        return WEIGHTS[chunk[:, 4].astype(int)]

    numbered = np.column_stack([rows, np.arange(N)])
    columns = {**options, "cardinalities": [3, 3, 3, 3, N]}
    found = ek.learn_chow_liu(lambda: pieces(numbered), sample_weight=by_number, **columns)
    assert found.vtree == ek.learn_chow_liu(numbered, sample_weight=WEIGHTS, **columns).vtree


def test_impossible_rows_without_weight_do_not_matter():
    start = ek.factorized([[0.5, 0.5, 0.0]] * 2)
    rows, weights = np.array([[0, 1], [2, 0], [1, 1]]), np.array([1.0, 0.0, 2.0])
    whole = ek.em(start, rows, 1, sample_weight=weights, **QUIET)
    for options in ({}, {"batch_size": 5}):
        options["sample_weight"] = lambda chunk: weights[:2] if len(chunk) == 2 else weights[2:]
        found = ek.em(start, lambda: pieces(rows, 2), 1, **options, **QUIET)
        assert found.n_units == whole.n_units
    given, message = (start, lambda: pieces(rows, 2), 1), "In chunk 0: Row 1 of the data has probab"
    assert_raises(ek.DataError, message, ek.em, *given, batch_size=5, **QUIET)


def test_em_of_numbers():
    rng = np.random.default_rng(3)
    Z = np.concatenate([rng.normal(size=(120, 2)), rng.normal(4.0, 2.0, size=(120, 2))])
    Z[WEIGHTS == 0] *= 100.0  # nobody looks at these
    start = ek.gaussian_mixture([0.5, 0.5], [[0.0, 1.0], [3.0, 2.0]], np.ones((2, 2)))
    whole = ek.em(start, Z, 10, sample_weight=WEIGHTS, **QUIET)
    named, data = start.with_names(["a", "b"]), pd.DataFrame(Z, columns=["a", "b"])
    data["w"] = WEIGHTS
    found = ek.em(named, lambda: pieces(data), 10, sample_weight="w", **QUIET)
    np.testing.assert_allclose(found.log_likelihood(Z), whole.log_likelihood(Z), rtol=1e-9)
    X = np.random.default_rng(0).normal(size=(60, 2))
    X[:, 1] = np.where(np.arange(60) % 2, 0.0, 1000.0)  # one point for each component
    p = ek.gaussian_mixture([0.5, 0.5], [[0.0, 0.0], [1.0, 1000.0]], [[1.0, 100.0]] * 2)
    for data in (X, lambda: iter([X[:20], X[20:]])):  # the smallest variances
        variance = ek.em(p, data, 3, **QUIET).input(1).variance
        np.testing.assert_allclose(variance, [0.25, 0.25], rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"batch_size": 40}, {"device": "torch"}])
def test_hidden_trees_of_weighted_chunks(options):
    pytest.importorskip("torch")
    common = {"n_latent": 2, "epochs": 3, "rng": 0, "cardinalities": 3, **options, **QUIET}
    found = ek.learn_hclt(lambda: pieces(weighted(GAPS)), sample_weight="w", **common)
    whole = ek.learn_hclt(GAPS, sample_weight=WEIGHTS, **{"batch_size": None, **common})
    assert found.vtree == whole.vtree
    if "batch_size" in options:  # rows come in another order
        kept = WEIGHTS > 0
        assert found.log_likelihood(GAPS[kept]).mean() > -4.0
        return
    assert_alike(found, whole, GAPS, rtol=1e-7)
    given = ek.learn_hclt, lambda: pieces(GAPS)
    assert_raises(ek.DataError, "takes no 'X_valid'", *given, X_valid=GAPS, **common)


@pytest.mark.parametrize(("weights", "message"), [
    (WEIGHTS, "the name of a column of data frames, or a function .* Got ndarray"),
    ("v", "In chunk 0: There is no column 'v' of weights. Columns are 'a', 'b', 'c', 'd', 'w'"),
    (lambda chunk: -np.ones(len(chunk)), "In chunk 0: .*not negative"),
    (lambda chunk: np.zeros(len(chunk)), "positive, finite sum. Got 0"),
    (lambda chunk: [1.0], r"In chunk 0: .*must be 60 finite numbers"),
])  # fmt: skip
def test_weights_that_are_none(weights, message):
    start = ek.random_circuit(4, 2, 0, cardinalities=3).with_names(list("abcd"))
    data = weighted(GAPS)
    if callable(weights):
        data = data.drop(columns="w")
    for learn in (
        lambda **options: ek.learn_chow_liu(lambda: pieces(data), **options),
        lambda **options: ek.em(start, lambda: pieces(data), **options, **QUIET),
        lambda **options: ek.em(start, lambda: pieces(data), batch_size=9, **options, **QUIET),
    ):
        assert_raises(ek.DataError, message, learn, sample_weight=weights)
    given = ek.learn_chow_liu, lambda: pieces(GAPS)
    assert_raises(ek.DataError, "arrays have no names of columns", *given, sample_weight="w")


@pytest.mark.parametrize("learn", [
    lambda data: ek.em(ek.factorized([[0.5, 0.5]]), data, 1, batch_size=2, **QUIET),
    lambda data: ek.em(ek.factorized([[0.5, 0.5]]), data, 2, **QUIET),
    ek.learn_chow_liu,
])  # fmt: skip
def test_chunks_that_come_once_or_never(learn):
    once = iter([np.zeros((5, 1))])
    assert_raises(ek.DataError, "a new iterable every time", learn, lambda: once)
    assert_raises(ek.DataError, r"at least one (row|chunk)", learn, lambda: [])


def test_weights_and_batches_of_dask_collections():
    frames = pytest.importorskip("dask.dataframe")
    data = weighted(GAPS)
    lazy = frames.from_pandas(data, npartitions=4)
    start = ek.random_circuit(4, 2, 0, cardinalities=3).with_names(list("abcd"))
    parts = [part.compute() for part in lazy.partitions]
    for options in ({}, {"batch_size": 25, "rng": 1}):
        given = {"sample_weight": "w", **options, **QUIET}
        found = ek.em(start, lazy, 2, **given)
        assert_alike(found, ek.em(start, parts, 2, **given), GAPS)
    tree = ek.learn_chow_liu(lazy, sample_weight="w", parameters="cpt")
    whole = ek.learn_chow_liu(GAPS, sample_weight=WEIGHTS, parameters="cpt")
    assert_alike(tree, whole.with_names(list("abcd")), GAPS)


def labelled(X):
    """The rows as a data frame with numbers, codes and text."""
    return framed(X).assign(c=lambda x: x["c"].map({0: "low", 1: "mid", 2: "high"}))


@pytest.fixture
def parquet(tmp_path):
    """A function that writes a frame in row groups; returns the path."""
    pytest.importorskip("pyarrow")

    def write(X, name="rows.parquet", rows=70):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        X.to_parquet(path, row_group_size=rows)
        return path

    return write


def test_trees_of_files_have_the_names_and_labels_of_their_columns(parquet):
    X = labelled(table())
    whole = ek.learn_chow_liu(X)
    assert whole.states[2] == ("high", "low", "mid")
    path = parquet(X)
    parts = [(X[:200], "parts/1.parquet"), (X[list("dcba")][200:], "parts/2.parquet")]
    paths = [parquet(*part) for part in reversed(parts)][::-1]
    for data in (path, str(path), paths, paths[0].parent, lambda: map(pl.from_pandas, pieces(X))):
        found = ek.learn_chow_liu(data)
        assert_same_circuit(found, whole)
        assert found.schema == whole.schema
    long = labelled(table(70_000))  # a row group of more than one chunk
    path = parquet(long, "long.parquet", len(long))
    assert_same_circuit(ek.learn_chow_liu(path), ek.learn_chow_liu(long))


@pytest.mark.parametrize("as_frame", [False, True])
def test_values_may_be_missing_in_some_chunks(as_frame):
    X = table()
    X[200:] = table(100, missing=0.3, seed=1)
    X = labelled(X) if as_frame else X
    found, whole = ek.learn_chow_liu(lambda: pieces(X)), ek.learn_chow_liu(X)
    assert found.vtree == whole.vtree
    np.testing.assert_allclose(found.log_likelihood(X), whole.log_likelihood(X), rtol=1e-6)


@pytest.mark.parametrize("device", [None, "torch"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("rows", [X, GAPS], ids=["complete", "gaps"])
def test_em_on_chunks_is_em_on_the_whole(rows, weights, device, parquet):
    if device is not None:
        pytest.importorskip(device)
    start = ek.random_circuit(4, 3, 0, cardinalities=3).with_names(list("abcd"))
    data, in_frames = framed(rows), {}
    if weights is not None:
        data, in_frames = weighted(rows), {"sample_weight": "w"}
    options = {"pseudocount": 0.5, **QUIET}
    whole = ek.em(start, rows, 4, sample_weight=weights, device=device, **options)
    options |= in_frames
    for chunks in (lambda: pieces(data), parquet(data)):
        assert_alike(ek.em(start, chunks, 4, device=device, **options), whole, GAPS)
    if device is not None:
        single = ek.em(start, lambda: pieces(data), 4, device=device, dtype="float32", **options)
        assert_alike(single, whole, GAPS, rtol=1e-3, atol=1e-3)
        moved = ek.em(start.to(device), lambda: pieces(data), 4, **options)
        assert_alike(moved, whole, GAPS)


def learned(chunks):
    """A tree and a circuit that is fitted by EM."""
    start = ek.random_circuit(4, 2, 0, cardinalities=3)
    return ek.learn_chow_liu(chunks), ek.em(start, chunks, 3, pseudocount=0.1, progress=False)


@pytest.mark.parametrize("backend", ["threading", "loky", "multiprocessing"])
def test_workers_do_not_change_a_bit(backend):
    X = table()
    alone = learned(lambda: pieces(X, 40))
    with joblib.parallel_config(backend=backend, n_jobs=2):
        for found, wanted in zip(learned(lambda: pieces(X, 40)), alone, strict=True):
            assert_same_circuit(found, wanted)


def test_errors_name_the_chunk(parquet):
    X = table()
    X[80, 1] = 0.5
    message = r"In chunk 1: .*Got 0.5 in row 20, column 1"
    assert_raises(ek.DataError, message, ek.learn_chow_liu, lambda: pieces(X))
    path = parquet(framed(X))
    message = r"rows of .*rows.parquet from row 70 on: .* Got 0.5 in row 10, column 1 \('b'\)"
    assert_raises(ek.DataError, message, ek.learn_chow_liu, path)
    start, message = ek.factorized([[1.0, 0.0]] * 4), "In chunk 0: Row 1 of the data has prob"
    assert_raises(ek.DataError, message, ek.em, start, lambda: [[[0] * 4, [1] * 4]], 1, **QUIET)


test_what_cannot_be_learned_from = refusals(ek.DataError, [
    (lambda: [], {}, "needs at least one chunk"),
    (lambda: 3, {}, "an iterable of arrays or frames. Got int"),
    ("nowhere.parquet", {}, "nowhere.parquet is no Parquet file"),
    (lambda: [[[0, 1]], [[0]]], {}, "same columns. Got 2 and 1 columns"),
    (lambda: [[[0, 4]]], {"cardinalities": 3}, r"Column 1 of X must hold integers in 0..2"),
    (lambda: [labelled(table()), table()], {},
     "If X is a data frame with labels, so must be X_valid and all chunks"),
    (lambda: [pd.DataFrame({"a": [None], "b": [1.0]})], {}, "has no values"),
    (lambda: (pd.DataFrame({"a": np.arange(60_000) + i * 60_000}) for i in range(2)), {},
     "'a' has more than 100000 distinct values"),
], lambda chunks, options: ek.learn_chow_liu(chunks, **options))  # fmt: skip
