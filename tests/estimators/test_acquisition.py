"""Gains of missing values against the law of total variance over all worlds."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import expectedkernels as ek
from assertions import assert_raises, refusals
from expectedkernels.estimators import circuit_density as nodes
from machines import products_of_normals
from oracles import completions
from strategies import points

NAN = np.nan
CARDS = [2, 3, 2, 3]


def fitted(seed, outputs=1):
    rng = np.random.default_rng(seed)
    circuit = ek.random_circuit(ek.Vtree.random(4, rng), 3, rng, cardinalities=CARDS)
    X = points(rng, CARDS, 40)
    y = np.stack([np.sin(X @ rng.normal(size=4)) for _ in range(outputs)], axis=1)
    model = ek.ExpectedKernelRidge(density=circuit, alpha=0.1).fit(X, y if outputs > 1 else y[:, 0])
    return rng, circuit, model


def by_definition(circuit, f, row, j):
    """Var(f | row) - E[Var(f | row, x_j) | row], over all worlds; variances summed over outputs."""
    every, [share] = completions(circuit, row)

    def variance(share):
        mean = share @ f(every) / share.sum()
        return (share @ (f(every) - mean) ** 2).sum() / share.sum()

    parts = [share * (every[:, j] == state) for state in range(CARDS[j])]
    return variance(share) - sum(part.sum() * variance(part) for part in parts if part.any())


@pytest.mark.parametrize(("seed", "outputs"), [(0, 1), (1, 1), (2, 2)])
def test_gains_are_what_the_law_of_total_variance_says(seed, outputs):
    rng, circuit, model = fitted(seed, outputs)
    X = points(rng, CARDS, 6)
    X[rng.random(X.shape) < 0.6] = NAN
    X[0] = NAN
    f = lambda points: model.predict(points).reshape(len(points), -1)  # noqa: E731
    gain = ek.acquisition_gain(model, X)
    assert (np.isnan(gain) == ~np.isnan(X)).all()
    for i, j in np.argwhere(np.isnan(X)):
        expected = by_definition(circuit, f, X[i], j)
        np.testing.assert_allclose(gain[i, j], expected, atol=1e-12)
    costs = np.array([1.0, 2.0, 4.0, 0.5])
    np.testing.assert_allclose(ek.acquisition_gain(model, X, costs), gain / costs)
    np.testing.assert_allclose(ek.acquisition_gain(model, X, {1: 2.0}), gain / [1, 2, 1, 1])


def reals(n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[:, 1] += X[:, 0]
    X[:, 3] = np.where(rng.random(n) < 0.4, 0.0, X[:, 3])  # a value of its own beside bins
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + X[:, 2] * X[:, 3]


def mixed(seed, n=80, numbers=True):
    """Columns that depend on each other: a category in each but the first, if that has numbers."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(2 + seed, size=n)
    x = rng.normal(size=n) + kind
    other = np.where(rng.random(n) < 0.6, kind, rng.integers(3, size=n))
    size = x if numbers else np.array(["s", "m", "l"])[np.digitize(x, [0.5, 1.5])]
    X = pd.DataFrame({"size": size, "kind": kind, "other": other})
    X = X.assign(kind=X["kind"].map("k{}".format), other=X["other"].map("o{}".format))
    return X, np.sin(2 * x) + np.array([0.0, 2.0, -1.0, 1.0])[kind] * (1 + 0.5 * x) + other


def probabilities(model, X, name):
    """The mean probabilities of categories under all parts of a density, (rows, categories)."""
    density, i = model.density_, model.columns_.names.index(name)
    found = []
    for part in getattr(density, "parts", [density]):
        bits = np.maximum(part.means(model._read(X))[:, model.columns_.column_index[i]], 0.0)
        found.append(bits / bits.sum(axis=1, keepdims=True))
    return np.mean(found, axis=0)


@pytest.mark.parametrize("numbers", [True, False])
@pytest.mark.parametrize("density", ["auto", "gaussian", "kernel"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_gain_of_a_category_is_the_variance_that_it_explains(density, numbers, seed):
    X, y = mixed(seed, numbers=numbers)
    model = ek.ExpectedKernelRidge(alpha=0.1, density=density).fit(X, y)
    rows = X[:6].copy()
    rows["kind"] = None
    variance = model.predict(rows, return_std=True, std_tol=0)[1] ** 2
    np.testing.assert_allclose(ek.acquisition_gain(model, rows)[:, 1], variance, rtol=1e-9)
    rows.loc[rows.index[::2], "size"] = np.nan if numbers else None
    rows.loc[rows.index[::3], "other"] = None
    gain = ek.acquisition_gain(model, rows)[:, 1]
    before = model.predict(rows, return_std=True, std_tol=0)[1] ** 2
    after = np.zeros(6)
    for k, share in zip(np.unique(X["kind"]), probabilities(model, rows, "kind").T, strict=True):
        after += share * model.predict(rows.assign(kind=k), return_std=True, std_tol=0)[1] ** 2
    np.testing.assert_allclose(gain, before - after, rtol=1e-6, atol=1e-9)
    assert (gain <= before * (1 + 1e-12)).all()


def test_the_gain_of_a_category_for_other_machines():
    X, y = mixed(1)
    rows = X[:4].assign(kind=None)
    process = ek.ExpectedGaussianProcessRegressor(alpha=0.1, optimizer=None).fit(X, y)
    mean = process._machine.expansion  # without the variance of the process itself
    variance = process.density_.variance(
        mean, process.density_.rows(process._read(rows)), process.predict(rows)[:, None],
        process._resources,
    )  # fmt: skip
    found = ek.acquisition_gain(process, rows)[:, 1]
    np.testing.assert_allclose(found, variance[:, 0], rtol=1e-9)
    labels = np.digitize(y, [0.0, 2.0])
    for machine in (ek.ExpectedSVC(), ek.ExpectedKernelClassifier()):
        machine.fit(X, labels)
        std = machine._expected(machine._read(rows), return_std=True)[1]
        found = ek.acquisition_gain(machine, rows)[:, 1]
        np.testing.assert_allclose(found, (std**2).sum(axis=1), rtol=1e-9)
    holes = X.assign(kind=X["kind"].where(np.arange(len(X)) % 5 > 0, None))
    masked = ek.ExpectedKernelRidge(mask_kernel=0.3).fit(holes, y)
    std = masked.predict(rows, return_std=True, std_tol=0)[1]
    np.testing.assert_allclose(ek.acquisition_gain(masked, rows)[:, 1], std**2, rtol=1e-9)
    embedded = ek.ExpectedKernelRidge(density="gaussian", fit_missing="expected").fit(holes, y)
    assert (ek.acquisition_gain(embedded, rows)[:, 1] > 0).all()


def test_models_of_rows_with_holes_and_chunks_of_rows():
    X, y = reals()
    X[:20, 0] = NAN
    model = ek.ExpectedKernelRidge(n_bins=3, density="chow_liu").fit(X, y)
    gain = ek.acquisition_gain(model, X[:5])
    message = "acquisition_gain must be a fitted estimator"
    assert_raises(ek.DataError, message, ek.acquisition_gain, lambda Z: Z, [[1.0]])
    many = ek.acquisition_gain(model, np.tile(X[:5], (60, 1)))  # more rows than one chunk takes
    np.testing.assert_allclose(many, np.tile(gain, (60, 1)), rtol=1e-10)
    assert (gain[:, 0] > 0).all()
    assert np.isnan(gain[:, 1:]).all()
    assert np.isnan(ek.acquisition_gain(model, X[30:32])).all()


def test_groups_become_known_together_and_bits_that_are_known_are_not_asked_for():
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=80)
    X = np.column_stack([np.eye(3)[kind], rng.integers(2, size=80)])
    y = np.array([0.0, 1.0, 5.0])[kind] + X[:, 3]
    model = ek.ExpectedKernelRidge(standardize=False, gamma=0.5, density="chow_liu")
    bits = clone(model).set_params(groups=[[0, 1, 2]]).fit(X, y)
    frame = pd.DataFrame({"kind": np.array(["a", "b", "c"])[kind], "more": X[:, 3]})
    names = model.set_params(categorical_features=["kind"]).fit(frame, y)
    gain = ek.acquisition_gain(bits, [[NAN, NAN, NAN, 1.0], [0.0, NAN, NAN, NAN]])
    one = ek.acquisition_gain(names, pd.DataFrame({"kind": [None], "more": [1.0]}))
    np.testing.assert_allclose(gain[0, :3], one[0, 0])
    assert np.isnan(gain[1, 0])
    assert gain[1, 1] == gain[1, 2] > 0


def frame():
    rng = np.random.default_rng(3)
    sex = rng.choice(["f", "m"], size=120)
    size = rng.normal(size=120) + 2.0 * (sex == "m")
    X = pd.DataFrame({"sex": sex, "size": size, "noise": rng.normal(size=120)})
    return X, 3.0 * (sex == "m") + size


def test_questions_follow_gains_until_the_budget_is_spent():
    X, y = frame()
    model = ek.ExpectedSVR(C=3.0, density="chow_liu").fit(X, y)
    truth = X.iloc[5]
    history = ek.acquire(model, {}, lambda name: truth[name], budget=2)
    assert history.answers == [truth[name] for name in history.asked]
    shown = pd.DataFrame({name: pd.Series([None], dtype=X[name].dtype) for name in X})
    for step, name in enumerate(history.asked):
        gain = ek.acquisition_gain(model, shown)[0]
        np.testing.assert_allclose(history.gains[step], gain)
        np.testing.assert_allclose(history.predictions[step], model.predict(shown)[0])
        assert list(X.columns)[np.nanargmax(gain)] == name
        shown[name] = [truth[name]]
    np.testing.assert_allclose(history.predictions[-1], model.predict(shown)[0])
    assert history.costs.tolist() == [1.0, 1.0]
    assert "2 queries at cost 2" in repr(history)
    every = ek.acquire(model, {}, lambda name: truth[name], budget=np.inf)
    np.testing.assert_allclose(every.predictions[-1], model.predict(X.iloc[[5]])[0])
    assert sorted(every.asked) == sorted(X.columns)
    history = ek.acquire(model, {"noise": 0.0}, X.iloc[5].get, 1)
    widths = [bar.get_width() for bar in history.plot().patches]
    np.testing.assert_allclose(widths, np.sort(history.gains[0][:2]))
    assert_raises(ek.DataError, r"There were 1 queries. Got number 1", history.plot, 1)


def test_what_is_too_dear_is_not_asked_for_and_what_cannot_be_had_not_again():
    X, y = frame()
    model = ek.ExpectedSVR(C=3.0, density="chow_liu").fit(X, y)
    costs = {"sex": 10.0, "size": 2.0}
    history = ek.acquire(model, X.iloc[5][["noise"]], X.iloc[5].get, 5.0, costs)
    assert history.asked == ["size"]
    assert history.costs.tolist() == [2.0]
    silent = ek.acquire(model, X[5:6].assign(size=NAN, sex=None), lambda name: None, 7.0)
    assert sorted(silent.asked) == ["sex", "size"]
    assert (silent.predictions == silent.predictions[0]).all()
    none = ek.acquire(model, X[5:6], lambda name: None, 7.0)
    assert none.asked == []
    assert none.gains.shape == (0, 3)
    with pytest.warns(UserWarning, match="'sex' has categories that were not seen in fit: 'x'"):
        ek.acquire(model, {"size": 1.0, "noise": 0.0}, lambda name: "x", 1.0)


def test_groups_are_asked_for_as_a_whole():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.eye(3)[rng.integers(3, size=60)], rng.normal(size=60)])
    model = ek.ExpectedKernelRidge(groups=[[0, 1, 2]], density="chow_liu")
    model.fit(X, 3.0 * X[:, 1] + X[:, 3])
    history = ek.acquire(model, [NAN] * 4, lambda c: [0, 1, 0] if c == [0, 1, 2] else 0.5, 2)
    assert history.asked[0] == [0, 1, 2]
    np.testing.assert_allclose(history.predictions[-1], model.predict([[0, 1, 0, 0.5]])[0])
    silent = ek.acquire(model, [NAN] * 4, lambda c: None, 5)
    assert len(silent.asked) == 2
    message = r"columns \[0, 1, 2\] must be a value for each"
    assert_raises(ek.DataError, message, ek.acquire, model, [NAN] * 4, lambda c: 1.0, 5)


ASKED = {"model": fitted(0)[2], "row": {}, "ask": lambda column: 0, "budget": 1}


test_mistakes_are_named = refusals(ek.DataError, [
    ({"model": 3}, "'model' parameter of acquire must be a fitted estimator.*Got int"),
    ({"ask": 3}, "'ask' parameter of acquire must be a function. Got 3"),
    ({"budget": -1}, r"'budget' parameter of acquire .* \[0, inf\]. Got -1"),
    ({"costs": [1.0]}, r"one positive number for every one of 4 columns. Got \[1.0\]"),
    ({"costs": {0: -1.0}}, r"'costs' parameter of acquire .* \(0, inf\). Got -1.0"),
    ({"costs": {"x": 1.0}}, "'costs' parameter must name columns.*Got 'x'"),
    ({"row": {"x": 1.0}}, "'row' parameter must name columns.*Got 'x'"),
    ({"row": {0: "many"}}, "Column 0 holds text, 'many' in row 0, where numbers"),
    ({"row": np.full((2, 4), NAN)}, "must be a single row. Got 2 rows"),
    ({"ask": lambda column: "many"}, "holds text, 'many' in row 0, where numbers"),
], lambda change: ek.acquire(**ASKED | change))  # fmt: skip


@pytest.mark.parametrize(("density", "rough"), [
    ("auto", 0.1),
    ("gaussian", 0.1),
    ("kernel", 0.1),
    ("chow_liu", 0.01),
    (products_of_normals(reals()[0]), 0.15),
])  # fmt: skip
def test_a_single_hole_explains_all_the_variance(density, rough, monkeypatch):
    X, y = reals()
    model = ek.ExpectedSVR(C=2.0, n_bins=5, density=density).fit(X, y)
    rows = np.repeat(X[:3], 4, axis=0)
    rows[np.arange(12), np.tile(np.arange(4), 3)] = NAN
    variance = model.predict(rows, return_std=True)[1] ** 2
    found = np.nansum(ek.acquisition_gain(model, rows), axis=1)
    np.testing.assert_allclose(found, variance, rtol=rough, atol=1e-3 if rough == 0.1 else 1e-4)
    if model.circuit_ is not None:
        monkeypatch.setattr(nodes, "OF_INTERVALS", 12)
        monkeypatch.setattr(nodes, "OF_NORMALS", 60)
        found = np.nansum(ek.acquisition_gain(model, rows), axis=1)
        np.testing.assert_allclose(found, variance, rtol=1e-6)


def test_few_nodes_are_enough_and_no_gain_is_larger_than_the_variance(monkeypatch):
    X, y = reals(seed=1)
    for density, rough in (("chow_liu", 0.01), (products_of_normals(X), 0.04)):
        model = ek.ExpectedSVR(C=2.0, n_bins=5, density=density).fit(X, y)
        rows = np.where(np.random.default_rng(0).random((5, 4)) < 0.7, NAN, X[:5])
        gain = ek.acquisition_gain(model, rows)
        variance = model.predict(rows, return_std=True)[1] ** 2
        assert (np.nanmax(gain, axis=1, initial=0.0) <= 1.005 * variance + 1e-12).all()
        with monkeypatch.context() as patch:
            patch.setattr(nodes, "OF_INTERVALS", 8)
            patch.setattr(nodes, "OF_NORMALS", 40)
            finer = ek.acquisition_gain(model, rows)
        np.testing.assert_allclose(gain, finer, rtol=rough, atol=1e-4)
