"""Tables as people have them: text, bool, missing entries of all kinds, series, encoders."""

from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

import expectedkernels as ek
from assertions import assert_raises

NAN = np.nan
KINDS = ["blue", "green", "red"]


def table(n=60, seed=0, kind=None, tame=None):
    """Sizes, kinds and a bool; with types for the last two."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice(KINDS, size=n).astype(object)
    size = rng.normal(size=n) + (kinds == "red")
    tamed = rng.random(n) < 0.5
    y = size + 2.0 * (kinds == "blue") + tamed
    kinds[0] = None
    frame = pd.DataFrame({"size": size, "kind": kinds, "tame": tamed})
    frame["kind"] = pd.Categorical(kinds) if kind is None else frame["kind"].astype(kind)
    frame["tame"] = pd.Categorical(tamed) if tame is None else frame["tame"].astype(tame)
    return frame, y


def predictions(train, y, rows=None, model=ek.ExpectedSVR, **options):
    """What a model that was fitted to a table says of rows."""
    rows = train if rows is None else rows
    return model(density="chow_liu", **options).fit(train, y).predict(rows)


def expected():
    return predictions(*table(), model=ek.ExpectedKernelRidge)


@pytest.mark.parametrize("kind", ["category", object, "str", "string"])
@pytest.mark.parametrize("tame", [bool, "boolean", object])
def test_text_and_bool_columns_are_categories(kind, tame):
    X, y = table(kind=kind, tame=tame)
    assert X["kind"].isna()[0]
    model = ek.ExpectedKernelRidge(density="chow_liu").fit(X, y)
    assert model.columns_.categories[1].tolist() == KINDS
    np.testing.assert_array_equal(model.predict(X), expected())


def test_columns_of_no_text_stay_numbers():
    X, y = table()
    blank = pd.DataFrame({"size": X["size"], "none": [None] * len(X)})
    model = ek.ExpectedKernelRidge(density="chow_liu").fit(blank, y)
    assert model.columns_.categories == {}
    numbers = pd.DataFrame({"size": X["size"].astype(object), "count": np.arange(60)})
    assert ek.ExpectedKernelRidge(density="chow_liu").fit(numbers, y).columns_.categories == {}
    objects = numbers.to_numpy(dtype=object)
    objects[3, 0] = None
    again = objects.astype(float)
    np.testing.assert_array_equal(predictions(objects, y), predictions(again, y))


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical, pl.Enum(KINDS)])
def test_data_frames_of_polars(kind):
    X, y = table(kind=object, tame=bool)
    columns = {name: X[name].tolist() for name in X.columns}
    columns["kind"][0] = None
    frame = pl.DataFrame(columns).with_columns(pl.col("kind").cast(kind))
    model = ek.ExpectedKernelRidge(density="chow_liu").fit(frame, y)
    assert model.feature_names_in_.tolist() == ["size", "kind", "tame"]
    np.testing.assert_array_equal(model.predict(frame), expected())
    holes = frame.with_columns(pl.when(pl.col("tame")).then(pl.col("size")).alias("size"))
    pandas_holes = X.assign(size=X["size"].where(X["tame"]))
    np.testing.assert_array_equal(model.predict(holes), model.predict(pandas_holes))
    filled = ek.CircuitImputer().fit(frame).set_output(transform="pandas").transform(holes)
    assert not filled.isna().any().any()
    pair = predictions(frame.select("size"), y), predictions(X[["size"]], y)
    np.testing.assert_array_equal(*pair)
    dates = frame.with_columns(pl.lit(0).cast(pl.Date).alias("when"))
    assert_raises(ek.DataError, "Column 'when' holds dates", model.fit, dates, y)


@pytest.mark.parametrize("as_series", [pd.Series, pl.Series])
@pytest.mark.parametrize("chosen", ["from_dtype", [0], None])
def test_single_columns_are_refused(as_series, chosen):
    x = as_series(np.arange(20.0))
    model = ek.ExpectedSVR(categorical_features=chosen, density="chow_liu")
    message = r"got 1D .*a Series of 20 entries.*X\.to_frame\(\)"
    assert_raises(ek.DataError, message, model.fit, x, np.arange(20.0))
    fitted = ek.ExpectedSVR(density="chow_liu").fit(np.arange(20.0)[:, None], np.arange(20.0))
    for column in (x, np.arange(20.0)):
        assert_raises(ValueError, "Reshape your data", fitted.predict, column)
    assert model.fit(x.to_frame(), np.arange(20.0)).n_features_in_ == 1
    assert_raises(ek.DataError, "Reshape your data", ek.CircuitImputer().fit, x)


@pytest.mark.parametrize("nothing", [None, NAN, pd.NA])
def test_rows_without_a_label_are_told(nothing):
    X = np.arange(20.0).reshape(10, 2)
    labels = np.array(["a", "b"] * 5, dtype=object)
    labels[[4, 7]] = nothing
    message = "Input y contains NaN: 2 of 10 rows have no target, the first is row 4"
    for y in (labels, pd.Series(labels), pd.Series(labels, dtype="string")):
        assert_raises(ek.DataError, message, ek.ExpectedSVC(density="chow_liu").fit, X, y)
    numbers = np.arange(10.0)
    numbers[4] = numbers[7] = NAN
    for y in (numbers, pd.Series(numbers, dtype="Float64")):
        assert_raises(ek.DataError, message, ek.ExpectedSVR(density="chow_liu").fit, X, y)
    two = [[0.0, 1.0]] * 9 + [[0.0, NAN]]
    message = "1 of 10 rows have no target, the first is row 9"
    assert_raises(ek.DataError, message, ek.ExpectedKernelRidge().fit, X, two)


def test_text_without_names_comes_with_advice():
    X, y = table(kind="str", tame=bool)
    keep = make_column_transformer((SimpleImputer(), ["size"]), remainder="passthrough")
    model = ek.ExpectedSVR(density="chow_liu")
    message = r"Column 1 holds text.*set_output\(transform='pandas'"
    assert_raises(ek.DataError, message, model.fit, keep.fit_transform(X), y)
    keep.set_output(transform="pandas")
    assert len(model.fit(keep.fit_transform(X), y).columns_.categories) == 2


def test_bits_for_missing_values_are_told():
    X, y = table(kind="str", tame=bool)
    bits = X[["size", "tame"]].join(pd.get_dummies(X["kind"], "kind", dummy_na=True, dtype=float))
    assert "kind_nan" in bits.columns
    with pytest.warns(UserWarning, match="'kind_nan' looks like the bit .* leave the encoder out"):
        ek.ExpectedSVR(density="chow_liu").fit(bits, y)
    assert np.isfinite(predictions(X, y)).all()
    no_bits = bits.drop(columns=["kind_nan"]).rename(columns={"size": "size_nan"})
    ek.ExpectedSVR(density="chow_liu").fit(no_bits, y)  # which does not warn


def test_text_that_differs_in_most_rows_is_told():
    X, y = table(kind="str")
    named = X.assign(name=[f"animal {i}" for i in range(len(X))])
    message = "Column 'name' holds text.*60 categories in 60 rows. Names and free text"
    with pytest.warns(UserWarning, match=message):
        ek.ExpectedSVR(density="chow_liu").fit(named, y)
    for form in ("{}", "{},5", "{} kg", "{}e3"):
        written = X.assign(size=[form.format(i % 25) for i in range(len(X))])
        with pytest.warns(UserWarning, match="'size' holds text, .*look like numbers: convert"):
            ek.ExpectedSVR(density="chow_liu").fit(written, y)
    message = r"Column 'kind' holds text, '\w+' in row 1"
    assert_raises(ek.DataError, message, predictions, X, y, categorical_features=None)
    predictions(named, y, categorical_features=["name", "kind", "tame"])  # which does not warn
    ek.ExpectedSVR(density="chow_liu").fit(named.astype({"name": "category"}), y)  # nor does this


@pytest.mark.parametrize("density", ["chow_liu", "gaussian", "auto"])
def test_columns_without_values_in_fit_are_not_filled_in(density):
    X = np.random.default_rng(0).normal(size=(30, 3))
    X[3, 0], X[:, 2] = np.nan, np.nan
    imputer = ek.CircuitImputer(density=density, random_state=0)
    with pytest.warns(UserWarning, match="in fit keep their missing values: 2. Nothing"):
        imputer.fit(X)
    rows = X[:5].copy()
    rows[1, 2] = 7.0
    for found in (imputer.transform(rows), *imputer.sample(rows, 2)):
        np.testing.assert_array_equal(found[:, 2], rows[:, 2])
        assert not np.isnan(found[:, :2]).any()
    np.testing.assert_array_equal(found[0], X[0])


def test_columns_of_frames_without_values_keep_their_types():
    frame = pd.DataFrame({"a": [1.0, 2.0, np.nan], "d": ["x", None, "x"]})
    for name, kind in (("b", "category"), ("c", object)):
        frame[name] = pd.Series([None] * 3, dtype=kind)
    imputer = ek.CircuitImputer().set_output(transform="pandas")
    with pytest.warns(UserWarning, match="keep their missing values: 'b', 'c'"):
        imputer.fit(frame)
    found = imputer.transform(frame)
    assert found.dtypes.astype(str).tolist() == frame.dtypes.astype(str).tolist()
    assert found[["b", "c"]].isna().all(axis=None)
    assert found["d"].tolist() == ["x"] * 3
    assert found["a"].notna().all()


def small(n=12):
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"]), rng.normal(size=n)


def infinite(X):
    return X.assign(b=np.where(np.arange(len(X)) == 3, np.inf, X["b"]))


def test_what_a_mask_hides_is_missing():
    X, y = small()
    X = X.to_numpy()
    model = ek.ExpectedSVR(density="gaussian").fit(X, y)
    mask = np.arange(X.size).reshape(X.shape) % 5 == 0
    hidden = np.where(mask, np.nan, X)
    masked = np.ma.masked_array(X, mask)
    np.testing.assert_array_equal(model.predict(masked), model.predict(hidden))
    np.testing.assert_array_equal(predictions(masked, y, X), predictions(hidden, y, X))
    labels = np.ma.masked_array(np.arange(12), np.arange(12) == 3)
    message = "y contains NaN: 1 of 12 rows have no target"
    assert_raises(ek.DataError, message, model.fit, X, labels)


@pytest.mark.parametrize(("change", "message"), [
    (lambda X: X.assign(b=pd.date_range("2020", periods=12)), "Column 'b' holds dates"),
    (lambda X: X.assign(b=[pd.Timestamp(0).date()] * 12), "'b' holds a date in row 0, where"),
    (lambda X: X.assign(b=pd.period_range("2020", periods=12)), "'b' holds a Period in row 0"),
    (lambda X: X.to_dict("records"), "Got a list of mappings. Give a data frame"),
    (lambda X: X.iloc[0].to_dict(), "Got a mapping .* Give a data frame"),
    (lambda X: pl.from_pandas(X).lazy(),
     r"a LazyFrame, which holds no rows yet. Call X.collect\(\)|read the rows into memory"),
    (lambda X: X.set_axis(["a", "a"], axis=1), "must be distinct. 'a' is the name of several"),
    (infinite, r"contains infinity.* in row 3, column 'b'. Put NaN"),
    (lambda X: infinite(X).to_numpy(), r"contains infinity.* in row 3, column 1. Put NaN"),
])  # fmt: skip
def test_what_looks_like_a_table_is_told_what_to_be(change, message):
    X, y = small()
    for estimator in (ek.ExpectedKernelRidge(), ek.CircuitImputer()):
        assert_raises(ek.DataError, message, estimator.fit, change(X), y)


@pytest.mark.parametrize("model", [ek.ExpectedKernelRidge(), ek.ExpectedSVR()])
def test_targets_and_weights_are_numbers(model):
    X, y = small()
    for dates in (pd.date_range("2020", periods=12), [pd.Timestamp(0).date()] * 12):
        assert_raises(ek.DataError, r"y holds dates, .* since the first one", model.fit, X, dates)
    weights = [1.0, -0.5] * 6
    message = r"not negative. Got -0.5 in row 1"
    assert_raises(ek.DataError, message, model.fit, X, y, sample_weight=weights)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_everything_that_stands_for_missing(missing):
    X, y = table()
    model = ek.ExpectedKernelRidge(alpha=0.1).fit(X, y)
    row = X.iloc[1:2].astype(object)
    row.loc[1, ["size", "kind"]] = missing
    wanted = X.iloc[1:2].assign(size=NAN, kind=pd.Categorical([None], categories=KINDS))
    np.testing.assert_array_equal(model.predict(row), model.predict(wanted))
    X["count"] = np.arange(60) % 4
    nullable = X.astype({"count": "Int64", "size": "Float64"})
    nullable.loc[0, "count"] = missing
    wanted, model = X.assign(count=X["count"].where(X.index > 0)), ek.ExpectedSVR().fit(X, y)
    np.testing.assert_array_equal(model.predict(nullable), model.predict(wanted))


def test_unseen_codes_count_as_missing():
    X = np.random.default_rng(0).integers(3, size=(50, 2)).astype(float)
    model = ek.ExpectedSVR(groups=[[0], [1]]).fit(X, X[:, 0])
    with pytest.warns(UserWarning, match="Column 1 has categories .*: 7.0"):
        got = model.predict([[1.0, 7.0]])
    np.testing.assert_array_equal(got, model.predict([[1.0, np.nan]]))


def test_names_and_masks_and_numbers_say_the_same():
    X, y = table()
    X, holes = X[["size", "kind"]], X[["size", "kind"]].assign(size=NAN)
    wanted = predictions(X, y, holes)
    for chosen in (["kind"], [1], [False, True]):
        found = predictions(X, y, holes, categorical_features=chosen)
        np.testing.assert_array_equal(found, wanted)
    arrays = X.to_numpy(dtype=object), y, holes.to_numpy(dtype=object)
    found = predictions(*arrays, categorical_features=[1])
    np.testing.assert_array_equal(found, wanted)


def test_one_hot_groups_are_the_categories():
    X, y = (part[1:] for part in table())
    Z = np.column_stack([pd.get_dummies(X["kind"]), X["size"]]).astype(float)
    model = ek.ExpectedSVR(groups=[[0, 1, 2]]).fit(Z, y)
    assert len(model.density_.variables) == 2
    Z[:, :3] = NAN
    X = X[["size", "kind"]]
    blank = X.assign(kind=pd.Categorical([None] * len(X), categories=KINDS))
    wanted = ek.ExpectedSVR().fit(X, y).predict(blank)
    np.testing.assert_allclose(model.predict(Z), wanted, rtol=1e-6)


@pytest.mark.parametrize("kind", [object, "str", "string", "category"])
def test_pandas_output_of_transformers(kind):
    X, _ = table(kind=kind, tame="boolean")
    X.loc[:3, "size"] = X.loc[5:7, "kind"] = NAN
    X.loc[3, "tame"] = pd.NA
    densities = "auto", "gaussian", "kernel", "gaussian_mixture", "chow_liu"
    for strategy, density in [*product(["mean", "sample"], densities), ("map", "chow_liu")]:
        imputer = ek.CircuitImputer(strategy, density=density, random_state=0)
        filled = imputer.set_output(transform="pandas").fit_transform(X)
        assert not filled.isna().any().any()
        assert set(filled["kind"]) <= set(KINDS)
        pd.testing.assert_frame_equal(filled[8:], X[8:])  # types, names and all that is known
        assert filled["size"][4] == X["size"][4]
        first, second = imputer.sample(X, 2, random_state=1)
        assert (first[8:] == X[8:].to_numpy()).all()
        assert (first[:4, 0] != second[:4, 0]).any()
    again = make_pipeline(ek.CircuitImputer().set_output(transform="pandas"), ek.ExpectedSVR())
    assert again.fit(X, np.arange(len(X))).predict(X).shape == (len(X),)
    features = ek.ExpectedKernelFeatures(5).set_output(transform="pandas").fit_transform(X)
    assert features.columns[0] == "expectedkernelfeatures0"
