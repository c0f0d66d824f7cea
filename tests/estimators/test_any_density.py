"""Whatever the density: imputation, features, and columns in any order."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import expectedkernels as ek
from assertions import assert_close

NAN = np.nan
OTHERS = ["auto", "gaussian", "kernel", "gaussian_mixture"]
EVERY = [*OTHERS, "chow_liu"]
NO_PAIRS = ("gaussian", 3), ("mixture", 0), ("mixture", 2.0), ("mixture",), ("mixture", True)


def frame(n=60, seed=0):
    """Numbers, a category that depends on one of them, and a target."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    kind = np.where(x > 0.4, "high", np.where(x < -0.4, "low", "middle"))
    X = pd.DataFrame({"x": x, "kind": kind.astype(object), "z": x + 0.3 * rng.normal(size=n)})
    return X, 2.0 * x + X["z"].to_numpy(), rng


def holed(X, rng, share=0.25):
    return X.mask(rng.random(X.shape) < share)


@pytest.mark.parametrize("fit_holes", [False, True])
@pytest.mark.parametrize("density", EVERY)
def test_imputed_tables_are_complete_and_keep_what_is_known(density, fit_holes):
    X, _, rng = frame()
    holes = holed(X, rng)
    model = ek.CircuitImputer(density=density, random_state=0).set_output(transform="pandas")
    found = model.fit(holes if fit_holes else X).transform(holes)
    assert found.notna().all().all()
    known = holes.notna().to_numpy()
    assert (found.astype(object).to_numpy()[known] == X.to_numpy()[known]).all()
    assert set(found["kind"]) <= {"high", "low", "middle"}
    hidden = holes["x"].isna() & holes["z"].notna()
    away = (found["x"] - X["x"])[hidden]
    assert away.std() < 0.6 * X["x"].std()
    first, second = model.sample(holes, 2, random_state=1)
    assert {*first[:, 1], *second[:, 1]} <= {"high", "low", "middle"}
    assert (first != second).any()


@pytest.mark.parametrize("density", OTHERS)
def test_imputed_numbers_are_conditional_means(density):
    rng = np.random.default_rng(0)
    X = rng.multivariate_normal([0.0, 1.0], [[1.0, 0.8], [0.8, 1.0]], size=300)
    found = ek.CircuitImputer(density=density, random_state=0).fit(X).transform([[2.0, NAN]])
    assert found[0, 1] == pytest.approx(1.0 + 0.8 * 2.0, abs=0.35)
    many = ek.CircuitImputer("sample", density=density, random_state=0).fit(X)
    drawn = np.array([Z[0, 1] for Z in many.sample([[2.0, NAN]], 400, random_state=0)])
    assert drawn.mean() == pytest.approx(found[0, 1], abs=0.1)


def test_imputed_bits_and_codes_are_states():
    X, _, _ = frame()
    bits = pd.get_dummies(X["kind"]).to_numpy(float)[:, :2]  # the third is that of no bit
    codes = 10.0 * (X["x"] > 0)
    table = np.column_stack([bits, codes, X["z"]])
    holes = table.copy()
    holes[:20, :2] = NAN
    holes[10:30, 2] = NAN
    holes[30:40, 0] = NAN
    model = ek.CircuitImputer(density="gaussian", groups=[[0, 1], [2]]).fit(table)
    for found in (model.transform(holes), *model.sample(holes, 3, random_state=0)):
        assert set(map(tuple, found[:, :2])) <= {(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)}
        assert set(found[:, 2]) <= {0.0, 10.0}
        np.testing.assert_array_equal(found[30:40, 1], table[30:40, 1])
    right = (model.transform(holes)[:20, :2] == table[:20, :2]).all(axis=1)
    assert right.mean() > 0.6


def test_the_default_imputer_has_the_means_of_the_estimators_and_a_tree_for_the_rest():
    X, _, rng = frame()
    holes = holed(X, rng)
    imputer, tree = ek.CircuitImputer(), ek.CircuitImputer(density="chow_liu")
    found, other = (model.fit(holes).transform(holes) for model in (imputer, tree))
    assert imputer.densities_ == ["gaussian", "kernel(0.6)"]
    model = ek.ExpectedKernelRidge(alpha=0.1).fit(holes, np.arange(len(X)))
    means = model.columns_.undo(model.density_.means(model._read(holes)))
    np.testing.assert_allclose(found[:, [0, 2]].astype(float), means[:, [0, -1]], rtol=1e-9)
    assert (found[:, 1] == other[:, 1]).all()
    for strategy in ("map", "sample"):
        pair = (clone(m).set_params(strategy=strategy, random_state=0) for m in (imputer, tree))
        one, two = (m.fit(holes).transform(holes) for m in pair)
        assert (one == two).all()


@pytest.mark.parametrize("density", OTHERS[1:])
def test_what_needs_a_circuit_is_refused_without_one(density):
    X, _, _ = frame()
    with pytest.raises(ek.DataError, match=rf"'map' of CircuitImputer .* density='{density}'"):
        ek.CircuitImputer("map", density=density).fit(X)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("density", EVERY)
def test_features_are_means_of_features_of_draws(density, normalize):
    X, _, rng = frame()
    model = ek.ExpectedKernelFeatures(
        8, gamma=0.5, density=density, normalize=normalize, random_state=0
    ).fit(X)
    row = X.iloc[:1].assign(x=NAN)
    drawn = model.density_.draws(model._read(row), 2000, rng)[:, 0]
    kernels = model.density_.gram(model._rates(0.5), drawn, model._landmarks)
    wanted = kernels if model._root is None else kernels @ model._root
    error = 5.0 * wanted.std(axis=0) / np.sqrt(len(drawn)) + 1e-9
    assert (np.abs(model.transform(row)[0] - wanted.mean(axis=0)) < error).all()


@pytest.mark.parametrize("density", ["auto", "kernel"])
@pytest.mark.parametrize("fit_holes", [False, True])
def test_the_order_of_columns_does_not_matter(density, fit_holes):
    X, y, rng = frame(80)
    X = X.assign(w=rng.normal(size=80), v=X["z"] ** 2)
    holes = holed(X, rng)
    turned = ["v", "kind", "z", "w", "x"]
    first, second = (
        ek.ExpectedKernelRidge(density=density).fit(T[names], y).predict(holes[names])
        for T in [holes if fit_holes else X]
        for names in (list(X.columns), turned)
    )
    assert_close(second, first, scale=1.0)


@pytest.mark.parametrize("fit_holes", [False, True])
@pytest.mark.parametrize("density", ["auto", "gaussian_mixture"])
def test_categories_that_folds_or_masks_remove(density, fit_holes):
    X, y, rng = frame()
    X.loc[[7, 31], "kind"] = ["rare", "other"]
    holes = holed(X, rng)
    train = (holes if fit_holes else X).copy()
    train.loc[31, "kind"] = None  # a category that is hidden wherever it is
    train.loc[7, "kind"] = "rare"
    model = ek.ExpectedSVR(density=density).fit(train, y)
    rows = holes.iloc[:8].assign(z=NAN)
    low, high = model.predict_interval(rows)  # some folds are without the rare category
    assert (np.isfinite(low) & (low < high)).all()
    with pytest.warns(
        UserWarning, match="'kind' has categories that were not seen in fit: 'other'"
    ):
        found = model.predict(X.iloc[31:32].assign(z=NAN))
    assert_close(found, model.predict(X.iloc[31:32].assign(z=NAN, kind=None)))


@pytest.mark.parametrize("fit_holes", [False, True])
@pytest.mark.parametrize("name", ["gaussian_mixture", "mixture"])
def test_mixtures_with_a_given_number_of_components(name, fit_holes):
    X, y, rng = frame()
    holes = holed(X, rng)
    train = holes if fit_holes else X
    model = ek.ExpectedSVR(density=(name, 3)).fit(train, y)
    assert model.densities_ == [f"{name}(3)"]
    assert model.fit_missing_ == ("mean" if fit_holes else None)
    if name == "mixture":
        fewer = ek.ExpectedSVR(density=(name, 1)).fit(train, y)
        assert model.circuit_.n_units > 2 * fewer.circuit_.n_units
    else:
        assert len(model.density_.mixture.weights) == 3
    assert np.isfinite(clone(model).fit(train, y).predict(holes, return_std=True)).all()
    one = ek.ExpectedSVR(density=("gaussian_mixture", 1)).fit(train, y).predict(holes)
    plain = ek.ExpectedSVR(density="gaussian").fit(train, y).predict(holes)
    np.testing.assert_allclose(one, plain, atol=0.05 if fit_holes else 1e-9)  # EM stops earlier
    assert ek.CircuitImputer(density=(name, 2)).fit_transform(holes).shape == X.shape
    assert ek.ExpectedKernelFeatures(5, density=(name, 2)).fit_transform(holes).shape == (60, 5)


@pytest.mark.parametrize(
    ("density", "message"),
    [
        *((pair, r"such as \('gaussian_mixture', 3\); names are .* Got") for pair in NO_PAIRS),
        ("diagonal_mixture", "which was removed: use 'gaussian_mixture'"),
        (("diagonal_mixture", 3), "which was removed: use 'gaussian_mixture'"),
    ],
)
def test_other_densities_are_refused(density, message):
    X, y, _ = frame()
    with pytest.raises(ek.DataError, match=message):
        ek.ExpectedSVR(density=density).fit(X, y)
