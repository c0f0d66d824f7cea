"""Samples in the forms in which people have them."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr

import expectedkernels as ek
from assertions import assert_raises, refusals

NAMES, CARDS = ["a", "b", "c"], [2, 3, 2]
STATES = [["no", "yes"], ["x", "y", "z"], ["no", "yes"]]
RNG = np.random.default_rng(0)
TABLE = RNG.random(CARDS) + 0.2
NAMED = ek.FactorGraph(CARDS, [((0, 1, 2), TABLE)], NAMES, STATES)
PLAIN = ek.FactorGraph(CARDS, [((0, 1, 2), TABLE)])
CHAINS = RNG.integers(CARDS, size=(2, 5, 3))
X = CHAINS.reshape(-1, 3)


def labelled(*dims, names=True):
    coords = {"variable": NAMES} if names else {}
    array = xr.DataArray(CHAINS, dims=["chain", "draw", "variable"], coords=coords)
    return array.transpose(*dims) if dims else array


def dataset(order=NAMES):
    columns = {name: (("chain", "draw"), CHAINS[:, :, NAMES.index(name)]) for name in order}
    return xr.Dataset(columns)


def frame(order=NAMES, labels=False):
    columns = {name: X[:, NAMES.index(name)].tolist() for name in order}
    if labels:
        columns = {n: [STATES[NAMES.index(n)][i] for i in codes] for n, codes in columns.items()}
    return columns


FORMS = {
    "array": X,
    "lists": X.tolist(),
    "chains": CHAINS,
    "labelled": labelled(),
    "labelled, other order": labelled("variable", "draw", "chain"),
    "labelled, variables in other order": labelled().sel(variable=["c", "a", "b"]),
    "labelled, without labels": labelled("draw", "variable", "chain", names=False),
    "dataset": dataset(),
    "dataset, other order": dataset(["c", "a", "b"]),
    "dataset, other order of dimensions": dataset().transpose("draw", "chain"),
    "dataset, one array": xr.Dataset({"state": labelled("draw", "chain", "variable")}),
    "inference data": SimpleNamespace(posterior=dataset(["b", "a", "c"])),
    "weighted": ek.WeightedSamples(NAMED, X),
    "empirical": ek.Empirical(X),
    "pandas": pd.DataFrame(frame(["b", "c", "a"])),
    "pandas, by position": pd.DataFrame(X),
    "pandas, labels": pd.DataFrame(frame(["b", "c", "a"], labels=True)),
    "pandas, categories": pd.DataFrame(frame(labels=True)).astype("category"),
    "polars": pl.DataFrame(frame(["b", "c", "a"])),
    "polars, labels": pl.DataFrame(frame(["b", "c", "a"], labels=True)),
    "labelled, labels": labelled().astype(object),
}


def rows_of(target, samples):
    """The samples as the library reads them."""
    return ek.WeightedSamples(target, samples).rows


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_are_the_same_rows(form):
    np.testing.assert_array_equal(rows_of(NAMED, FORMS[form]), X)


@pytest.mark.parametrize("form", ["chains", "labelled", "inference data", "polars, labels"])
def test_all_functions_read_them(form):
    samples = FORMS[form]
    np.testing.assert_array_equal(ek.bbis(NAMED, samples).weights, ek.bbis(NAMED, X).weights)
    found = ek.collapsed_bbis(NAMED, samples, ["b"])
    np.testing.assert_array_equal(found.weights, ek.collapsed_bbis(NAMED, X, ["b"]).weights)
    assert ek.kdsd(samples, NAMED) == ek.kdsd(X, NAMED)
    ours, theirs = ek.kdsd_test(samples, NAMED, rng=0), ek.kdsd_test(X, NAMED, rng=0)
    assert (ours.statistic, ours.p_value) == (theirs.statistic, theirs.p_value)
    stein = ek.SteinKernel(NAMED)
    np.testing.assert_array_equal(stein(samples), stein(X))
    named = ek.Target(NAMED.log_score, CARDS, NAMES, STATES)
    np.testing.assert_allclose(ek.bbis(named, samples).weights, ek.bbis(NAMED, X).weights)
    np.testing.assert_array_equal(ek.WeightedSamples(NAMED, samples).rows, X)


def test_columns_by_position_and_missing_values():
    for form in ("dataset", "labelled", "pandas, by position"):
        np.testing.assert_array_equal(rows_of(PLAIN, FORMS[form]), X)
    swapped = rows_of(PLAIN, dataset(["c", "b", "a"]))
    np.testing.assert_array_equal(swapped, X[:, ::-1])
    table = pd.DataFrame(frame(labels=True)).astype(object)
    table.loc[1, "b"] = None
    table.loc[2, "a"] = np.nan
    rows = rows_of(NAMED, table)
    assert np.argwhere(np.isnan(rows)).tolist() == [[1, 1], [2, 0]]
    table = pl.DataFrame({"a": [0, None], "b": ["x", None], "c": [1, 1]})
    np.testing.assert_array_equal(rows_of(NAMED, table), [[0, 0, 1], [np.nan, np.nan, 1]])
    table = pd.DataFrame({"a": pd.array([0, None], dtype="Int64"), "b": [0, 1], "c": [1, 1]})
    np.testing.assert_array_equal(rows_of(NAMED, table), [[0, 0, 1], [np.nan, 1, 1]])


def test_labels_and_weights_of_samples():
    table = pd.DataFrame({"a": [True, False], "b": [0, 1], "c": [True, True]})
    assert_raises(ek.DataError, r"'a' must hold one of 'no', 'yes', or", rows_of, NAMED, table)
    np.testing.assert_array_equal(rows_of(PLAIN, table), [[1, 0, 1], [0, 1, 1]])
    turned = ek.Target(NAMED.log_score, CARDS, NAMES, [["true", "false"], "xyz", ["yes", "no"]])
    rows = rows_of(turned, table.assign(c=["no", "yes"]))
    np.testing.assert_array_equal(rows, [[0, 0, 1], [1, 1, 0]])
    weights = np.arange(1, 11) / 55
    given = ek.WeightedSamples(NAMED, X, weights)
    wanted = ek.kdsd(ek.Empirical(X, weights), NAMED)
    assert ek.kdsd(given, NAMED) == wanted != ek.kdsd(X, NAMED)
    assert_raises(ek.DataError, "samples that count alike", ek.kdsd_test, given, NAMED)
    assert ek.kdsd_test(given.uniform(), NAMED, rng=0) is not None
    np.testing.assert_array_equal(ek.bbis(NAMED, given).weights, ek.bbis(NAMED, X).weights)


@pytest.mark.parametrize("names", [("X", "weights", "posterior"), ("rows", "weights", "dims")])
def test_columns_may_have_any_name(names):
    target = ek.FactorGraph(CARDS, [((0, 1, 2), TABLE)], names)
    for table in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=list(names))):
        np.testing.assert_array_equal(rows_of(target, table), X)
    if "dims" not in names:
        columns = {name: (("draw",), X[:, v]) for v, name in enumerate(names)}
        np.testing.assert_array_equal(rows_of(target, xr.Dataset(columns)), X)


OF_SAMPLES = [
    lambda x: ek.bbis(NAMED, x),
    lambda x: ek.collapsed_bbis(NAMED, x, [0]),
    lambda x: ek.kdsd(x, NAMED),
    lambda x: ek.kdsd_test(x, NAMED),
    lambda x: ek.WeightedSamples(NAMED, x),
]
KERNELS = [
    lambda x: ek.SteinKernel(NAMED)(x),
    lambda x: ek.CollapsedSteinKernel(NAMED.compile()[0])(x),
]


@pytest.mark.parametrize("call", [*OF_SAMPLES, *KERNELS])
def test_mistakes_that_all_functions_see(call):
    assert_raises(ek.DataError, r"X\.reshape\(-1, 1\).*X\.reshape\(1, -1\)", call, [0, 1, 1])
    assert_raises(ek.DataError, r"shape \(samples, 3\).*Got shape \(2, 2\)", call, [[0, 1], [1, 1]])
    assert_raises(ek.DataError, r"integers in 0\.\.2", call, [[0, 3, 0], [0, 1, 1]])
    assert_raises(
        ek.DataError, r"object of type Delta|A kernel is in the place of the", call, ek.Delta()
    )


@pytest.mark.parametrize("call", OF_SAMPLES)
def test_states_counted_from_one(call):
    assert_raises(ek.DataError, r"counted from 0; if yours are counted from 1,", call, X + 1)
    assert_raises(ek.DataError, r"Got \d\.0 in row 0\.$", call, X + 3)
    call(X)


def test_columns_that_do_not_fit():
    with pytest.raises(ek.DataError, match="lacks columns that the model has: 'b'"):
        rows_of(NAMED, pd.DataFrame({"a": [0], "d": [1], "c": [1]}))
    with pytest.raises(ek.DataError, match=r"columns that the model does not have: 'd'\. Select"):
        rows_of(NAMED, dataset().assign(d=dataset()["a"]))
    with pytest.raises(ek.DataError, match=r"'b' must hold one of 'x', 'y', .*Got 'q' in row 0"):
        rows_of(NAMED, pd.DataFrame({"a": ["no"], "b": ["q"], "c": ["no"]}))
    with pytest.raises(ek.DataError, match=r"the states of variable 0 have no labels"):
        rows_of(PLAIN, pd.DataFrame({"a": ["no"], "b": ["q"], "c": ["no"]}))
    with pytest.raises(ek.DataError, match=r"one column per variable, 3 in all\. Got 2: 'a', 'b'"):
        rows_of(PLAIN, pd.DataFrame({"a": [0], "b": [0]}))
    with pytest.raises(ek.DataError, match="distinct column names"):
        rows_of(NAMED, pd.DataFrame([[0, 0, 0, 0]], columns=["a", "b", "c", "a"]))
    square = xr.DataArray(np.zeros((2, 5, 2, 2)), dims=["chain", "draw", "row", "column"])
    assert_raises(ek.DataError, r"\.stack\(variable=\['row', 'column'\]\)", rows_of, NAMED, square)
    assert_raises(ek.DataError, r"\.expand_dims\('variable'\)", rows_of, NAMED, dataset()["a"])
    with pytest.raises(ek.DataError, match=r"'grid' has \['chain'"):
        rows_of(NAMED, xr.Dataset({"a": dataset()["a"], "grid": square}))
    single = ek.FactorGraph([2], [], names=["a"])
    assert rows_of(single, dataset()["a"].expand_dims("variable")).shape == (10, 1)


test_swapped_arguments = refusals(ek.DataError, [
    (lambda: ek.bbis(X, NAMED), r"swapped. The call is bbis\(target, samples, kernel\)"),
    (lambda: ek.bbis(pd.DataFrame(X), NAMED), r"samples of type DataFrame as the target"),
    (lambda: ek.collapsed_bbis(X, NAMED, [0]), r"swapped. The call is collapsed_bbis"),
    (lambda: ek.kdsd_test(NAMED, X), r"swapped. The call is kdsd_test\(samples, target, k\)"),
    (lambda: ek.kdsd(NAMED, ek.Empirical(X)), r"samples of type Empirical as the target"),
    (lambda: ek.kdsd(NAMED, X), r"swapped. The call is kdsd\(q, p, k\)"),
    (lambda: ek.kdsd(NAMED.compile()[0], X.tolist()), r"swapped. The call is kdsd"),
    (lambda: ek.bbis(NAMED, ek.Delta()), r"kernel is in the place of the samples.*bbis\("),
    (lambda: ek.bbis(ek.Delta(), X), r"kernel is in the place of the target.*bbis\("),
    (lambda: ek.kdsd(X, ek.Delta(), NAMED), r"kernel is in the place of the target.*kdsd\("),
    (lambda: ek.kdsd_test(X, ek.Delta()), r"kernel is in the place of the target.*kdsd_test"),
    (lambda: ek.SteinKernel(ek.Delta(), NAMED), r"place of the target.*SteinKernel\(target"),
    (lambda: ek.bbis(NAMED, NAMED), r"Samples of a model are needed, not the model itself"),
    (lambda: ek.kdsd_test(NAMED, NAMED), r"Samples of a model are needed"),
])  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_distances_read_them_too(form):
    circuit = NAMED.compile()[0]
    assert ek.mmd(circuit, FORMS[form]) == pytest.approx(ek.mmd(circuit, X), abs=1e-12)
