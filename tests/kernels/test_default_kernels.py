"""Kernels by default, and the median heuristic."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import expectedkernels as ek
from assertions import assert_close, assert_raises, refusals


def test_the_median_heuristic():
    X = np.random.default_rng(0).normal(size=(30, 3))
    away = [np.linalg.norm(x - y) for i, x in enumerate(X) for y in X[:i]]
    for given in (X, np.vstack([X, [[np.nan, 0, 0]]]), pd.DataFrame(X)):
        assert_close(ek.median_gamma(given), 0.5 / np.median(away) ** 2)
    many = np.random.default_rng(1).normal(size=(5000, 3))
    np.testing.assert_allclose(ek.median_gamma(many), ek.median_gamma(X), rtol=0.3)


test_rows_without_a_median_distance = refusals(ek.DataError, [
    ([1.0, 2.0], r"reshape\(-1, 1\)"),
    (pd.DataFrame({"a": ["x", "y"]}), r"The column 'a' holds labels"),
    *((X, r"at least two different rows") for X in ([[1.0]], [[1.0], [1.0]], [[np.nan], [1.0]])),
    ([[0.0], [np.inf]], "Got infinite ones in column 0"),
], ek.median_gamma)  # fmt: skip


def test_kernels_fit_the_kinds_of_variables():
    p, q = ek.factorized([[0.2, 0.8], [0.5, 0.5]]), ek.factorized([[0.7, 0.3], [0.5, 0.5]])
    assert ek.mmd(p, q) == ek.mmd(p, q, ek.ExpHamming())
    X = np.array([[0, 1], [1, 1], [0, 0]])
    assert ek.mmd(p, X) == ek.mmd(p, X, ek.ExpHamming())
    assert ek.mmd(X, X[:2]) == ek.mmd(X, X[:2], ek.ExpHamming())
    Y = np.array([[0.0, 1.5], [1.0, 2.0], [3.0, 0.25]])
    f = ek.gaussian_mixture([0.4, 0.6], [[0, 0], [3, 1]], [[1, 1], [1, 2]])
    g = ek.gaussian_mixture([1.0], [[1, 1]], [[1, 2]])
    units = Y.std(axis=0)
    kernel = ek.RBF(ek.median_gamma(Y / units) / units**2)
    assert_close(ek.mmd(f, Y), ek.mmd(f, Y, kernel))
    one, other = Y[:, :1], Y[:2, :1]
    kernel = ek.RBF(ek.median_gamma(np.concatenate([one, other])))
    assert ek.mmd(one, other) == ek.mmd(one, other, kernel)
    pairs = zip(f.marginals(), g.marginals(), strict=True)
    squared = np.array([(a[0] - b[0]) ** 2 + a[1] + b[1] for a, b in pairs])
    assert_close(ek.mmd(f, g), ek.mmd(f, g, ek.RBF(0.25 / squared)))


def test_mixed_variables_and_witnesses():
    p, q = (
        ek.Circuit.from_units(ek.Product([ek.Categorical(0, table), ek.Gaussian(1, 0.0, 2.0)]))
        for table in ([0.2, 0.8], [0.6, 0.4])
    )
    wanted = ek.RBF([0.0, 0.125]) * ek.ExpHamming([1.0, 0.0])
    X = [[0.0, 0.3], [1.0, -2.0]]
    np.testing.assert_allclose(ek.witness(p, q, X), ek.witness(p, q, wanted, X))
    p, q = ek.factorized([[0.9, 0.1]]).with_names(["a"], [["n", "y"]]), ek.factorized([[0.5, 0.5]])
    wanted = ek.witness(p, q, ek.ExpHamming(), [[0], [1]])
    assert_close(ek.witness(p, q, X=[[0], [1]]), wanted)
    assert_close(ek.witness(p, q, [[0], [1]]), wanted)
    assert_close(ek.witness(p, q, None, pd.DataFrame({"a": ["n", "y"]})), wanted)
    one, other = pd.DataFrame({"a": ["n", "y"]}), pd.DataFrame({"a": ["n", "n"]})
    assert_close(ek.witness(one, other, ek.Delta(), one), [0.5 - 1.0, 0.5])
    assert_raises(ek.DataError, r"Give some as X", ek.witness, p, q)


INCOMES = np.random.default_rng(0).integers(20_000, 60_000, (2, 150, 1))
INCOMES[1] += 20_000


@pytest.mark.parametrize(
    "form", [np.asarray, pd.DataFrame, lambda x: pl.DataFrame(x, schema=["a"])]
)
def test_whole_numbers_of_many_values_are_compared_as_numbers(form):
    X, Y = map(form, INCOMES)
    kernel = ek.RBF(ek.median_gamma(np.concatenate(INCOMES)))
    test = ek.mmd_two_sample_test(X, Y, rng=0)
    assert test.p_value == 0.005
    assert isinstance(test.kernel, ek.RBF)
    assert "; columns of numbers: " in str(test)
    assert_close(ek.mmd2(X, Y), ek.mmd2(X, Y, kernel))
    assert_close(ek.mmd(X, Y), ek.mmd(X, Y, kernel))
    assert_close(ek.witness(X, Y, X), ek.witness(X, Y, kernel, X))
    assert isinstance(ek.choose_kernel(X, Y), ek.RBF)


def test_the_type_of_a_column_of_a_frame_says_what_it_is():
    rng = np.random.default_rng(2)

    def rows():
        columns = {"rooms": rng.integers(1, 4, 60), "code": rng.integers(1, 60, 60)}
        columns |= {"sold": rng.random(60) < 0.5, "town": rng.choice(["a", "b", "c"], 60)}
        return pd.DataFrame(columns).astype({"code": pd.CategoricalDtype(range(1, 60))})

    frames = rows(), rows()
    test = ek.mmd_two_sample_test(*frames, rng=0)
    assert test.categorical == {"rooms": False, "code": True, "sold": True, "town": True}
    gamma = ek.median_gamma(np.concatenate([frame[["rooms"]] for frame in frames]))
    wanted = ek.RBF([gamma, 0, 0, 0]) * ek.ExpHamming([0, 1 / 3, 1 / 3, 1 / 3])
    assert_close(ek.mmd2(*frames), ek.mmd2(*frames, wanted))
    text = str(test)
    assert "columns of numbers: 'rooms'; columns of categories: 'code', 'sold', 'town')." in text
    assert "columns of" not in str(ek.mmd_two_sample_test(*frames, wanted, rng=0))


@pytest.mark.parametrize(("column", "categorical"), [
    (np.arange(200) % 20, True),
    (np.arange(200) % 21, False),
    (np.arange(30) % 15, True),
    (np.arange(30) % 16, False),
    (np.arange(2), True),
    ([-1, 1, 1, -1], True),
    ([0.5, 1, 1, 0.5], False),
    ([23, 45, 31, 60, 18], False),
])  # fmt: skip
def test_whole_numbers_in_arrays_are_categorical_if_they_are_few(column, categorical):
    X = np.asarray(column, dtype=float)[:, None]
    kernel = ek.ExpHamming() if categorical else ek.RBF(ek.median_gamma(X))
    assert_close(ek.mmd2(X[:1], X[1:]), ek.mmd2(X[:1], X[1:], kernel))


def test_the_caller_says_what_is_categorical():
    X, Y = INCOMES
    label = ek.ExpHamming()
    assert_close(ek.mmd2(X, Y, categorical_features=[0]), ek.mmd2(X, Y, label))
    assert_close(ek.mmd(X, Y, categorical_features=[True]), ek.mmd(X, Y, label))
    assert ek.mmd_two_sample_test(X, Y, categorical_features=0, rng=0).categorical == {0: True}
    few = np.array([[0, 1], [1, 1], [0, 0]] * 5)
    gamma = ek.median_gamma(np.concatenate([few, few[:6]])[:, 1:])
    mixed = ek.ExpHamming([1.0, 0.0]) * ek.RBF([0.0, gamma])
    assert_close(ek.mmd2(few, few[:6], categorical_features=[0]), ek.mmd2(few, few[:6], mixed))
    frame = pd.DataFrame({"a": [1, 2, 3, 4], "b": list("xyxy")})
    k = ek.choose_kernel(frame, frame[:2], "aggregate", categorical_features=["a", "b"])
    assert isinstance(k, ek.ExpHamming)


@pytest.mark.parametrize(("features", "k", "match"), [
    (["c"], None, r"'categorical_features' parameter must name .* Got 'c'"),
    ([2], None, r"or their numbers in 0..1, .* Got 2 instead"),
    ([True], None, "a mask of 2 bools. Got True"),
    (["a"], None, "The column 'b' holds labels, and so is categorical"),
    (["a", "b"], ek.Delta(), "is for the default kernel, and a kernel is given"),
])  # fmt: skip
def test_wrong_categorical_columns_are_refused(features, k, match):
    frame = pd.DataFrame({"a": [1, 2, 3, 4], "b": list("xyxy")})
    assert_raises(ek.DataError, match, ek.mmd2, frame, frame[:2], k, categorical_features=features)
    with pytest.raises(ek.DataError, match=match):
        ek.mmd_two_sample_test(frame, frame[:2], k, categorical_features=features)


def test_columns_that_never_vary_and_circuits_say_what_they_are():
    p = ek.factorized([[0.2, 0.8]])
    with pytest.raises(ek.DataError, match="a circuit says itself which of its variables"):
        ek.mmd2(p, [[0], [1]], categorical_features=[0])
    with pytest.raises(ek.DataError, match="a circuit says itself which of its variables"):
        ek.choose_kernel([[0], [1]], p, categorical_features=[0])
    rng = np.random.default_rng(3)
    frames = [pd.DataFrame({"year": 2024, "kind": rng.choice(["a", "b"], 30)}) for _ in range(2)]
    alone = [frame[["kind"]] for frame in frames]
    assert_close(ek.mmd2(*frames), ek.mmd2(*alone))
    assert ek.mmd2(frames[0][["year"]], frames[1][["year"]]) == 0.0


@pytest.mark.parametrize("size", [1e200, 1e160, 1e-200])
def test_errors_about_values_out_of_range_speak_of_the_values(size):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(2, 6, 2)) * size
    for call in (
        lambda: ek.mmd2(X, Y),
        lambda: ek.mmd_two_sample_test(X, Y, rng=0),
        lambda: ek.choose_kernel(X, Y),
        lambda: ek.median_gamma(X),
    ):
        with pytest.raises(ek.DataError, match=r"Values are about \S+ apart, .* Rescale") as raised:
            call()
        assert "gamma" not in str(raised.value)
    g = ek.gaussian_mixture([1.0], [[0.0]], [[1e308]])
    with pytest.raises(ek.DataError, match=r"Values are about 1.41e"):
        ek.mmd2(g, ek.gaussian_mixture([1.0], [[1.0]], [[1e308]]))


def test_infinite_values_are_found_where_they_are():
    X, Y = np.arange(12.0).reshape(6, 2) + 0.5, np.arange(12.0).reshape(6, 2)
    Y[4, 1] = np.inf
    assert_raises(ek.DataError, r"Got inf in row 4, column 1", ek.mmd_two_sample_test, X, Y)
    assert_raises(ek.KernelError, r"finite points. Got inf in row 4, column 1", ek.mmd2, X, Y)


def test_units_of_columns_do_not_matter():
    rng = np.random.default_rng(0)

    def table(low, high):
        incomes, children = rng.integers(20_000, 60_000, 100), rng.integers(low, high, 100)
        return pd.DataFrame({"income": incomes, "children": children})

    one, other = table(0, 2), table(2, 5)
    assert ek.mmd_two_sample_test(one, other, rng=0).p_value < 0.01
    units = {"income": 0.001, "children": 12.0}
    scaled = [frame.assign(**{k: frame[k] * u for k, u in units.items()}) for frame in (one, other)]
    np.testing.assert_allclose(ek.mmd2(*scaled), ek.mmd2(one, other), rtol=1e-9)

    def pair(unit):
        return [ek.gaussian_mixture([1.0], [[m, m * unit]], [[1.0, unit**2]]) for m in (0.0, 1.0)]

    np.testing.assert_allclose(ek.mmd2(*pair(1e6)), ek.mmd2(*pair(1.0)), rtol=1e-9)
