"""Whatever the density: imputation, features, machines; averages, and circuits with names."""

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.mixture import GaussianMixture
from sklearn.svm import SVR

import expectedkernels as ek
from assertions import assert_close, assert_raises, refusals
from oracles import Table

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
    table = np.column_stack([bits, 10.0 * (X["x"] > 0), X["z"]])
    holes = table.copy()
    holes[:20, :2] = holes[10:30, 2] = holes[30:40, 0] = NAN
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
    for density in OTHERS[1:]:
        message = rf"'map' of CircuitImputer .* density='{density}'"
        assert_raises(ek.DataError, message, ek.CircuitImputer("map", density=density).fit, X)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("density", EVERY)
def test_features_are_means_of_features_of_draws(density, normalize):
    X, _, rng = frame()
    options = {"density": density, "normalize": normalize, "random_state": 0}
    model = ek.ExpectedKernelFeatures(8, gamma=0.5, **options).fit(X)
    row = X.iloc[:1].assign(x=NAN)
    drawn = model.density_.draws(model._read(row), 2000, rng)[:, 0]
    kernels = model.density_.gram(model._gammas(0.5), drawn, model._landmarks)
    wanted = kernels if model._root is None else kernels @ model._root
    error = 5.0 * wanted.std(axis=0) / np.sqrt(len(drawn)) + 1e-9
    assert (np.abs(model.transform(row)[0] - wanted.mean(axis=0)) < error).all()


@pytest.mark.parametrize("fit_holes", [False, True])
@pytest.mark.parametrize("density", ["auto", "gaussian_mixture", "chow_liu"])
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
    with pytest.warns(UserWarning, match="'kind' has categories .* not seen in fit: 'other'"):
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


def learner(**given):
    """A density that is an estimator, with any circuit."""
    return SimpleNamespace(fit=lambda X: None, **given)


COIN = ek.factorized([[0.5, 0.5]])
TWO_ROOTS = ek.Circuit(ek.Vtree.balanced(1), (Table(np.eye(2)),))


test_other_densities_are_refused = refusals(ek.DataError, [
    *((pair, r"such as \('gaussian_mixture', 3\); names are .* Got") for pair in NO_PAIRS),
    ("diagonal_mixture", "which was removed: use 'gaussian_mixture'"),
    (("diagonal_mixture", 3), "which was removed: use 'gaussian_mixture'"),
    ("tree", "The 'density' parameter of ExpectedSVR must be"),
    (learner(), r"must have a Circuit as 'circuit_'.*from SimpleNamespace"),
    (TWO_ROOTS, r"density must have one root. Got 2 roots"),
    (ek.factorized([[0.5, 0.5]] * 3), r"density must be over 1 variables.*over 3"),
    (COIN, r"column 0 .* states 0\.\.1 .* Got 2.0 in row 2"),
    (learner(circuit_=COIN), r"its variable 0 must have at least 3 states.*\[0\].*Got 2 states"),
], lambda density: ek.ExpectedSVR(density=density).fit([[0.0], [1.0], [2.0]], [0] * 3))  # fmt: skip


def table(seed, n=60):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    X = pd.DataFrame({"a": a, "b": a + 0.5 * rng.normal(size=n), "c": rng.choice(list("xyz"), n)})
    holes = X.iloc[:8].copy()
    holes.loc[[0, 1, 2], "b"] = np.nan
    holes.loc[[2, 3], "c"] = None
    holes.loc[[4], ["a", "b", "c"]] = None
    return X, a + (X["c"] == "x"), holes


@pytest.mark.parametrize("name", [*EVERY, "strudel", "mixture"])
def test_every_density_serves_all_machines(name):
    X, y, holes = table(0)
    for kind in (ek.ExpectedSVR, ek.ExpectedKernelRidge, ek.ExpectedGaussianProcessRegressor):
        process = kind is ek.ExpectedGaussianProcessRegressor
        options = {"optimizer": None} if process else {}
        model = kind(density=name, random_state=0, **options).fit(X, y)
        mean, std = model.predict(holes, return_std=True)
        assert (std[:5] > 0).all()
        drawn = model.density_.draws(model._read(holes), 400, np.random.default_rng(0))
        rows = drawn.reshape(-1, drawn.shape[2])
        f = model._machine.expansion.at(model.density_, rows, model._resources)
        f = f.reshape(400, len(holes))
        np.testing.assert_array_less(abs(mean - f.mean(axis=0)), 5 * f.std(axis=0) / 20 + 1e-6)
        if not process:
            np.testing.assert_allclose(std, f.std(axis=0), rtol=0.2, atol=0.1)


def test_the_average_is_that_of_its_parts():
    X, y, holes = table(1)
    model = ek.ExpectedSVR(density="auto", random_state=0).fit(X, y)
    p = model.density_
    assert p.names == ["gaussian", "kernel(0.6)"]
    assert repr(p) == "AverageDensity(0.5 gaussian + 0.5 kernel(0.6))"
    Z, f = model._read(holes)[:5], model._machine.expansion
    every = [part.mean(f, part.rows(Z), model._resources) for part in p.parts]
    np.testing.assert_allclose(model.predict(holes)[:5], np.mean(every, axis=0)[:, 0])
    assert model.circuit_ is None
    means = p.means(Z)
    for nodes, variable in zip(p.nodes(p.rows(Z)), p.variables, strict=True):
        assert set(nodes.rows) == set(np.flatnonzero(np.isnan(Z[:, variable.columns[0]])))
        for row in np.unique(nodes.rows):
            weights, values = nodes.weights[nodes.rows == row], nodes.values[nodes.rows == row]
            wanted = means[row, variable.columns]
            np.testing.assert_allclose(weights.sum(), 1.0)
            np.testing.assert_allclose(weights @ values, wanted, rtol=0.02, atol=0.02)
    assert np.isfinite(ek.acquisition_gain(model, holes)[2, 1:]).all()


def test_the_parts_depend_on_the_kinds_of_columns_alone():
    X, y, holes = table(2)
    X.loc[X.index[::4], "b"] = np.nan
    model = ek.ExpectedKernelRidge(density="auto", random_state=0).fit(X, y)
    assert model.density_.names == ["gaussian", "kernel(0.6)"]
    assert np.isfinite(model.predict(holes)).all()
    rng = np.random.default_rng(0)
    states = np.where(rng.random((40, 3)) < 0.2, np.nan, rng.integers(3, size=(40, 3)))
    text = pd.DataFrame(states).map(lambda x: None if np.isnan(x) else "abc"[int(x)])
    bits = np.eye(3)[rng.integers(3, size=40)]
    for table_, groups in ((text, None), (states, [[0], [1], [2]]), (bits, [[0, 1, 2]])):
        model = ek.ExpectedKernelRidge(groups=groups).fit(table_, rng.normal(size=40))
        assert model.densities_ == ["gaussian", "chow_liu"]
        assert model.circuit_ is model.density_.parts[1].circuit
        np.testing.assert_array_equal(model.density_weights_, [0.5, 0.5])
        assert np.isfinite(model.predict(table_)).all()


@pytest.mark.parametrize("name", ["auto", "gaussian"])
def test_deviations_of_expected_kernels_under_normals_are_refused(name):
    X, y, holes = table(3, 30)
    X.loc[X.index[::4], "b"] = np.nan
    model = ek.ExpectedSVR(density=name, fit_missing="expected").fit(X, y)
    assert np.isfinite(model.predict(holes)).all()
    message = "Fit it with fit_missing='mean'"
    assert_raises(ek.KernelError, message, model.predict, holes, return_std=True)


RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(RNG.normal(size=(30, 3)), columns=["a", "b", "c"])
TARGET = TABLE["a"].to_numpy() + 0.1 * RNG.normal(size=30)
HOLES = TABLE.iloc[:4].assign(a=np.nan)


def normals(**means):
    circuit = ek.gaussian_mixture([1.0], [list(means.values())], [[1.0] * len(means)])
    return circuit.with_names(list(means))


IN_ORDER, TURNED = normals(a=1.0, b=2.0, c=0.0), normals(c=0.0, a=1.0, b=2.0)


PLAIN = ek.gaussian_mixture([1.0], [[1.0, 2.0, 0.0]], [[1.0] * 3])
MIXTURE = GaussianMixture(2, covariance_type="diag", random_state=0).fit(TABLE)
ASIA = ek.asia()
LABELS = ASIA.sample(100, rng=0, as_frame=True)
UNKNOWN = LABELS.iloc[:2].astype(object).assign(smoke=None)
SAME = {
    "names": (TURNED, IN_ORDER, TABLE, HOLES),
    "places": (IN_ORDER, PLAIN, TABLE.to_numpy(), HOLES.to_numpy()),
    "scikit-learn": (MIXTURE, ek.as_model(MIXTURE), TABLE, HOLES),
    "models": (ASIA, ASIA.compile()[0], LABELS, UNKNOWN),
    "pgmpy": (lambda: ek.models.to_pgmpy(ASIA), ASIA.compile()[0], LABELS, UNKNOWN),
}


@pytest.mark.parametrize("form", SAME)
def test_densities_come_in_many_forms(form):
    density, same, X, rows = SAME[form]
    if form == "pgmpy":
        pytest.importorskip("pgmpy")
        density = density()
    models = [ek.ExpectedSVR(density=p).fit(X, np.arange(len(X)) % 7) for p in (density, same)]
    assert_close(*(model.predict(rows) for model in models))


def test_densities_of_other_variables_and_those_that_are_not_fitted():
    svr = SVR().fit(TABLE, TARGET)
    assert_close(*(ek.expected_prediction(svr, p, HOLES) for p in (TURNED, IN_ORDER)))
    other = normals(a=0.0, b=0.0, x=0.0)
    model = ek.ExpectedSVR(density=other)
    message = r"Only the table has \['c'\], only the circuit \['x'\]"
    assert_raises(ek.DataError, message, model.fit, TABLE, TARGET)
    message = "matched with the columns of a table by these"
    assert_raises(ek.DataError, message, ek.expected_prediction, svr, other, HOLES)
    model = ek.ExpectedSVR(density=GaussianMixture(2, covariance_type="diag"))
    assert_raises(ek.CircuitError, "not fitted yet: call its fit first", model.fit, TABLE, TARGET)


def test_categories_are_those_of_the_circuit():
    rain = ek.factorized([[0.2, 0.3, 0.5]]).with_names(["rain"], [["no", "some", "much"]])
    table = pd.DataFrame({"rain": ["no", "some"] * 10})
    model = ek.ExpectedKernelRidge(density=rain).fit(table, np.arange(20.0))
    found = model.predict(pd.DataFrame({"rain": ["no", "some", "much", None]}))
    assert found[3] == pytest.approx(found[:3] @ [0.2, 0.3, 0.5])
    message = r"'rain' has the categories \['lots', 'no'\], and"
    assert_raises(ek.DataError, message, model.fit, table.replace("some", "lots"), np.arange(20.0))


@pytest.mark.parametrize("order", [list, sorted])
def test_densities_take_states_by_their_labels(order):
    circuit, table = ASIA.compile()[0], LABELS[order(LABELS.columns)]
    target = (table["dysp"] == "yes") + 0.5 * (table["xray"] == "yes")
    model = ek.ExpectedSVR(density=circuit).fit(table, target)
    row = table.iloc[[0]].astype(object)
    pairs = itertools.product(["yes", "no"], repeat=2)
    every = pd.concat([row.assign(smoke=smoke, dysp=dysp) for smoke, dysp in pairs])
    chances = np.exp(circuit.log_likelihood(every))
    expected = model.predict(every) @ chances / chances.sum()
    assert_close(model.predict(row.assign(smoke=None, dysp=None)), [expected])
