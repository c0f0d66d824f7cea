"""Shapley values against all orders and all worlds."""

import sys
from itertools import combinations, permutations
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF
from sklearn.svm import SVR

import expectedkernels as ek
from normal_densities import products_of_normals
from oracles import values_at, worlds

NAN = np.nan
CARDS = [2, 3, 2, 3]


def states(n, rng):
    return np.stack([rng.integers(c, size=n) for c in CARDS], axis=1).astype(float)


def fitted(rng, circuit, make=ek.ExpectedKernelRidge, **options):
    X = states(40, rng)
    y = np.sin(X @ [1.0, 0.7, -1.1, 0.4]) + X[:, 0] * X[:, 1]
    return make(density=circuit, **options).fit(X, y)


def dependent(seed, units=3):
    rng = np.random.default_rng(seed)
    return rng, ek.random_circuit(ek.Vtree.random(4, rng), units, rng, cardinalities=CARDS)


def worth_of(circuit, f):
    """The function from rows and known columns to E[f | these], over all worlds."""
    points = worlds(CARDS)
    share, values = values_at(circuit, points)[:, 0], f(points)

    def worth(row, known):
        possible = share * (points[:, known] == row[known]).all(axis=1)
        return possible @ values / possible.sum()

    return worth


def over_orders(v, players):
    """What every player adds on average over all orders; v takes a frozenset of players."""
    orders = list(permutations(players))
    total = dict.fromkeys(players, 0.0)
    for order in orders:
        for i, player in enumerate(order):
            total[player] = total[player] + v(frozenset(order[: i + 1])) - v(frozenset(order[:i]))
    return {player: x / len(orders) for player, x in total.items()}


def over_subsets_of_others(v, players, i, j):
    """The Shapley interaction index by definition: over the orders of the others and the pair."""
    others = [k for k in players if k not in (i, j)]
    orders = list(permutations([*others, "pair"]))
    total = 0.0
    for order in orders:
        S = frozenset(order[: order.index("pair")])
        total = total + v(S | {i, j}) - v(S | {i}) - v(S | {j}) + v(S)
    return total / len(orders)


@pytest.mark.parametrize("seed", range(4))
def test_values_are_means_over_all_orders_of_expectations_over_all_worlds(seed):
    rng, circuit = dependent(seed)
    model = fitted(rng, circuit, alpha=0.1)
    X = states(3, rng)
    found = ek.shapley_values(model, X, interactions=True)
    worth = worth_of(circuit, model.predict)
    for row, values, pairs in zip(X, found.values, found.interactions, strict=True):
        v = lambda S, row=row: worth(row, sorted(S))  # noqa: E731
        expected = over_orders(v, range(4))
        np.testing.assert_allclose(values, [expected[i] for i in range(4)], atol=1e-12)
        for i, j in combinations(range(4), 2):
            index = over_subsets_of_others(v, range(4), i, j)
            np.testing.assert_allclose([pairs[i, j], pairs[j, i]], index, atol=1e-12)
        assert not pairs[range(4), range(4)].any()
    np.testing.assert_allclose(found.predictions, model.predict(X), atol=1e-12)
    nothing = model.predict(np.full((1, 4), NAN))[0]
    np.testing.assert_allclose(found.base_values, nothing, atol=1e-12)
    assert found.base_value == pytest.approx(nothing, abs=1e-12)


def test_players_with_several_columns_and_columns_known_from_the_start():
    rng, circuit = dependent(7)
    model = fitted(rng, circuit, alpha=0.1)
    X = states(5, rng)
    found = ek.shapley_values(model, X, players=[[0, 3], 1])
    worth = worth_of(circuit, model.predict)
    for i, row in enumerate(X):
        who = {"pair": [0, 3], "one": [1]}
        v = lambda S, row=row, who=who: worth(row, [2, *(c for p in S for c in who[p])])  # noqa: E731
        expected = over_orders(v, list(who))
        np.testing.assert_allclose(found.values[i], list(expected.values()), atol=1e-12)
        np.testing.assert_allclose(found.base_values[i], v(frozenset()), atol=1e-12)
    assert found.names == ["0+3", 1]
    assert found.data[:, 0].tolist() == [None] * 5
    assert found.data[:, 1].tolist() == X[:, 1].tolist()


def test_what_is_missing_contributes_nothing_and_the_others_play_without_it():
    rng, circuit = dependent(8)
    model = fitted(rng, circuit, alpha=0.1)
    X = states(6, rng)
    X[[0, 1, 2], [1, 3, 1]] = NAN
    X[4] = NAN
    found = ek.shapley_values(model, X)
    assert (found.values[np.isnan(X)] == 0.0).all()
    worth = worth_of(circuit, model.predict)
    for i, row in enumerate(X):
        shown = np.flatnonzero(~np.isnan(row)).tolist()
        v = lambda S, row=row: worth(row, sorted(S))  # noqa: E731
        expected = over_orders(v, shown)
        np.testing.assert_allclose(found.values[i, shown], list(expected.values()), atol=1e-12)
    np.testing.assert_allclose(found.predictions, model.predict(X), atol=1e-12)


def test_a_column_that_says_nothing_contributes_nothing():
    rng = np.random.default_rng(0)
    circuit = ek.factorized([rng.dirichlet(np.ones(c)) for c in CARDS])
    kernel = RBF([1.0, 1.0, 1e12, 1.0])
    model = fitted(
        rng,
        circuit,
        ek.ExpectedGaussianProcessRegressor,
        kernel=kernel,
        optimizer=None,
        alpha=0.1,
        standardize=False,
    )
    for method in ("exact", "permutations", "independent"):
        found = ek.shapley_values(model, states(4, rng), method=method)
        np.testing.assert_allclose(found.values[:, 2], 0.0, atol=1e-13)
        assert (np.abs(found.values[:, 0]) > 1e-3).any()


@pytest.mark.parametrize("method", ["exact", "permutations", "independent"])
def test_values_sum_to_the_prediction_minus_the_base(method):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 5))
    X[:, 1] += X[:, 0]
    for density in ("auto", products_of_normals(X)):
        model = ek.ExpectedSVR(C=3.0, density=density).fit(X, np.sin(X[:, 0]) + X[:, 3])
        table = np.where(rng.random((4, 5)) < 0.2, NAN, X[:4])
        found = ek.shapley_values(model, table, method=method, rng=0)
        total = found.values.sum(axis=1) + found.base_values
        np.testing.assert_allclose(total, found.predictions, atol=1e-12)
        if method != "independent":
            np.testing.assert_allclose(found.predictions, model.predict(table), atol=1e-12)


@pytest.mark.parametrize("density", ["auto", "gaussian", "kernel"])
def test_densities_of_other_kinds(density):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 3))
    y = np.sin(X[:, 0]) + X[:, 1]
    model = ek.ExpectedSVR(density=density, random_state=0).fit(X, y)
    found = ek.shapley_values(model, X[:2])
    for row, values in zip(X, found.values, strict=False):
        hidden = lambda S, row=row: np.where(np.isin(range(3), list(S)), row, NAN)  # noqa: E731
        v = lambda S, hidden=hidden: model.predict(hidden(S)[None])[0]  # noqa: E731
        np.testing.assert_allclose(values, list(over_orders(v, range(3)).values()), atol=1e-12)


@pytest.mark.parametrize("density", ["gaussian", "kernel", "auto"])
def test_independent_values_of_normal_densities_are_those_of_their_marginals(density):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 2)) * [1.0, 20.0] + [5.0, 1e3]
    X[:, 1] += 15.0 * X[:, 0]
    y = np.sin(X[:, 0]) + X[:, 1]
    model = ek.ExpectedSVR(density=density).fit(X, y)
    parts = model.density_.parts if density == "auto" else [model.density_]
    found = ek.shapley_values(model, X[:3], method="independent")
    columns = []  # mixtures of normal distributions, as circuits over one column each
    for i in range(2):
        weights, means, variances = [], [], []
        for part in parts:
            n, scale = len(part.mixture.weights), model.columns_.scale[i]
            weights.append(part.mixture.weights / len(parts))
            means.append(model.columns_.centre[i] + scale * part.mixture.means[:, i])
            variances.append(np.full(n, scale**2 * part.mixture.covariances[0, i, i]))
        columns.append([np.concatenate(each) for each in (weights, means, variances)])
    (a, m, v), (b, n, w) = columns
    product = ek.gaussian_mixture(
        np.outer(a, b).ravel(),
        np.stack([np.repeat(m, len(b)), np.tile(n, len(a))], axis=1),
        np.stack([np.repeat(v, len(b)), np.tile(w, len(a))], axis=1),
    )
    exact = ek.shapley_values(ek.ExpectedSVR(density=product).fit(X, y), X[:3])
    np.testing.assert_allclose(found.values, exact.values, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.base_values, exact.base_values, rtol=1e-9)


def test_functions_of_classes_are_explained():
    X = frame()
    model = ek.ExpectedKernelClassifier().fit(X, np.digitize(X["weight"], [0.0, 1.0]))
    found = ek.shapley_values(model, X[:3])
    total = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(total, model.decision_function(X[:3]), atol=1e-12)
    np.testing.assert_allclose(found.values.sum(axis=2), 0.0, atol=1e-10)  # they sum to one


def test_permutations_are_unbiased_and_know_their_errors():
    rng, circuit = dependent(5)
    model = fitted(rng, circuit, alpha=0.1)
    X = states(2, rng)
    exact = ek.shapley_values(model, X).values
    runs = [
        ek.shapley_values(model, X, method="permutations", n_permutations=32, rng=seed)
        for seed in range(100)
    ]
    values = np.stack([run.values for run in runs])
    errors = np.stack([run.standard_errors for run in runs])
    away = (values.mean(axis=0) - exact) / (values.std(axis=0) / 10 + 1e-12)
    assert np.abs(away).max() < 4.0
    ratio = np.sqrt((errors**2).mean(axis=0)) / (values.std(axis=0) + 1e-12)
    assert ((ratio > 0.75) & (ratio < 1.35)).all()
    assert ek.shapley_values(model, X).standard_errors is None


def test_all_orders_in_permutations_give_the_exact_values():
    rng, circuit = dependent(6)
    model = fitted(rng, circuit, alpha=0.1)
    X = states(2, rng)
    exact = ek.shapley_values(model, X)
    # so many that rows are worked on one by one
    many = ek.shapley_values(model, X, method="permutations", n_permutations=10_000, rng=0)
    assert np.abs((many.values - exact.values) / many.standard_errors).max() < 4.0
    rows = ek.shapley_values(model, np.tile(X, (1100, 1)))  # more than one batch
    np.testing.assert_allclose(rows.values, np.tile(exact.values, (1100, 1)), atol=1e-10)


def test_coalitions_in_parts_have_the_values_of_pairs():
    """The square of a sum is one of pairs, of which both players get half."""
    X = np.random.default_rng(0).normal(size=(2, 17))
    found = ek.shapley_values(lambda rows: np.nansum(rows, axis=1) ** 2, X, method="exact")
    np.testing.assert_allclose(found.values, X * X.sum(axis=1, keepdims=True), atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_independent_columns_are_exact_under_a_product_density(seed):
    rng = np.random.default_rng(seed)
    circuit = ek.factorized([rng.dirichlet(np.ones(c)) for c in CARDS])
    model = fitted(rng, circuit, alpha=0.1)
    X = states(6, rng)
    X[rng.random(X.shape) < 0.2] = NAN
    for players in (None, [[0, 3], 1], [3, [1, 2]]):
        exact = ek.shapley_values(model, X, players)
        found = ek.shapley_values(model, X, players, method="independent")
        for name in ("values", "base_values", "predictions"):
            np.testing.assert_allclose(getattr(found, name), getattr(exact, name), atol=1e-12)


def test_independent_values_of_dependent_columns_are_those_of_their_marginals():
    rng, circuit = dependent(9)
    model = fitted(rng, circuit, alpha=0.1)
    X = states(3, rng)
    product = ek.factorized([np.asarray(table) for table in circuit.marginals()])
    found = ek.shapley_values(model, X, method="independent")
    worth = worth_of(product, model.predict)
    for row, values in zip(X, found.values, strict=True):
        v = lambda S, row=row: worth(row, sorted(S))  # noqa: E731
        np.testing.assert_allclose(values, list(over_orders(v, range(4)).values()), atol=1e-12)


def test_independent_values_of_normals_bits_and_many_columns():
    rng = np.random.default_rng(3)
    X = np.column_stack([np.eye(3)[rng.integers(3, size=90)], rng.normal(size=(90, 30))])
    y = X[:, 1] + np.sin(X[:, 3]) + X[:, 4]
    model = ek.ExpectedSVR(groups=[[0, 1, 2]]).fit(X, y)
    found = ek.shapley_values(model, X[:3], method="independent")
    assert found.values.shape == (3, 31)
    total = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(total, model.predict(X[:3]), atol=1e-10)
    with pytest.raises(ek.DataError, match="must leave categorical variables whole"):
        ek.shapley_values(model, X[:3], [0, 1, 2, 3], method="independent")


def test_many_players_are_estimated_and_few_are_not():
    rng = np.random.default_rng(4)
    X = rng.integers(2, size=(60, 16)).astype(float)
    model = ek.ExpectedKernelRidge().fit(X, X[:, 0] + X[:, 1] * X[:, 2])
    found = ek.shapley_values(model, X[:2], n_permutations=32, rng=0)
    assert found.standard_errors.shape == (2, 16)
    assert "16 players, estimated" in repr(found)
    fewer = ek.shapley_values(model, X[:2], [[0, 1, 2], list(range(3, 16))])
    assert fewer.standard_errors is None
    X[0, 3:] = NAN  # three players are left
    assert ek.shapley_values(model, X[:1]).standard_errors is None
    with pytest.raises(ek.DataError, match=r"Interactions need all subsets.*up to 16"):
        ek.shapley_values(model, X[1:3], interactions=True)


def test_too_many_players_for_all_subsets_are_refused():
    X = np.zeros((1, 21))
    with pytest.raises(ek.SizeError, match="21 players, more than 20"):
        ek.shapley_values(lambda Z: np.zeros(len(Z)), X, method="exact")


def frame(n=60, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], size=n)
    size = rng.normal(size=n) + (sex == "m")
    return pd.DataFrame({"sex": sex, "size": size, "weight": size + rng.normal(size=n)})


def test_data_frames_have_names_and_categories_and_classes_have_pairs():
    X = frame()
    y = np.where(X["weight"] > 1, "big", np.where(X["weight"] > 0, "middle", "small"))
    model = ek.ExpectedSVC().fit(X, y)
    X.loc[1, "sex"] = None
    found = ek.shapley_values(model, X[:4], players=["sex", "weight", "size"])
    assert found.values.shape == (4, 3, 3)
    assert found.names == ["sex", "weight", "size"]
    assert found.data[:, 0].tolist() == [X["sex"][0], None, X["sex"][2], X["sex"][3]]
    total = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(total, model._expected(model._read(X[:4]), False), atol=1e-10)
    two = ek.ExpectedSVC().fit(X, y == "big")
    assert ek.shapley_values(two, X[:4]).values.shape == (4, 3)


def test_models_of_rows_with_holes_several_targets_and_one_hot_groups():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.eye(3)[rng.integers(3, size=50)], rng.normal(size=(50, 2))])
    y = np.column_stack([X[:, 0] + X[:, 3], X[:, 4]])
    X[:8, 4] = NAN
    model = ek.ExpectedKernelRidge(groups=[[0, 1, 2]], n_bins=4, density="chow_liu").fit(X, y)
    found = ek.shapley_values(model, X[6:10], interactions=True)
    assert found.names == ["0+1+2", 3, 4]
    assert found.interactions.shape == (4, 3, 3, 2)
    total = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(total, model.predict(X[6:10]), atol=1e-10)
    with pytest.raises(ek.DataError, match="needs a model that was fitted to complete rows"):
        ek.shapley_values(model, X[:2], method="independent")


def test_functions_are_models_too():
    circuit = ek.factorized([[0.4, 0.6], [0.3, 0.7]])
    X = worlds([2, 2])
    svr = SVR(gamma=1.0).fit(X, X[:, 0])
    f = lambda Z: ek.expected_prediction(svr, circuit, Z)  # noqa: E731
    found = ek.shapley_values(f, pd.DataFrame(X, columns=["a", "b"]))
    assert found.names == ["a", "b"]
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, svr.predict(X))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": 3}, "must be a fitted estimator of this library, or a function.*Got int"),
        ({"model": lambda Z: Z.sum(axis=1)}, "must return a finite value.*with NaN or infinity"),
        ({"model": lambda Z: np.zeros((2, 2, 2))}, r"Got an array of shape \(2, 2, 2\)"),
        ({"players": [0, [0, 1]]}, "each at most once"),
        ({"players": [[]]}, "at least one for every player"),
        ({"players": [5]}, "must name columns, or their numbers in .*Got 5"),
        ({"players": ["x"]}, "must name columns.* Got 'x'"),
        ({"method": "kernel"}, "'method' parameter of shapley_values must be 'auto'"),
        ({"n_permutations": 8}, r"'n_permutations' parameter .* in the range \[32, inf\)"),
        ({"method": "independent"}, "needs a fitted estimator.*Got a function"),
    ],
)
def test_mistakes_are_named(change, message):
    arguments = {"model": lambda Z: np.nan_to_num(Z).sum(axis=1), "X": [[1.0, 2.0]], **change}
    with pytest.raises(ValueError, match=message):
        ek.shapley_values(**arguments)


def test_rows_that_are_impossible_are_named():
    circuit = ek.factorized([[1.0, 0.0], [0.5, 0.5]])
    model = ek.ExpectedKernelRidge(density=circuit).fit(worlds([2, 2])[:2], [0.0, 1.0])
    with pytest.raises(ek.EvidenceError, match="row 2 has probability zero"):
        ek.shapley_values(model, [[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]])


def test_explanations_of_shap(monkeypatch):
    found = ek.shapley_values(lambda Z: np.nan_to_num(Z).sum(axis=1), [[2.0, 3.0]])
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(ImportError, match="pip install shap"):
        found.to_shap()
    make = lambda values, **more: SimpleNamespace(values=values, **more)  # noqa: E731
    monkeypatch.setitem(sys.modules, "shap", SimpleNamespace(Explanation=make))
    same = found.to_shap()
    assert same.values.tolist() == [[2.0, 3.0]]
    assert same.base_values.tolist() == [0.0]
    assert same.data.tolist() == [[2.0, 3.0]]
    assert same.feature_names == ["0", "1"]


def test_pictures_show_the_values():
    X = frame()
    X.loc[0, "size"] = NAN
    model = ek.ExpectedKernelRidge().fit(X, np.arange(len(X)) / len(X))
    found = ek.shapley_values(model, X[:5])
    mean = np.sort(np.abs(found.values).mean(axis=0))
    ax = found.plot()
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], mean)
    ax = found.plot("waterfall", row=1)
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(sum(widths), found.predictions[1] - found.base_values[1])
    assert {text.get_text() for text in ax.get_yticklabels()} >= {f"sex = {X['sex'][1]}"}
    ax = found.plot("beeswarm")
    dots = np.concatenate([dots.get_offsets()[:, 0] for dots in ax.collections])
    np.testing.assert_allclose(np.sort(dots), np.sort(found.values.ravel()))
    with pytest.raises(ek.CircuitError, match="'kind' parameter of plot must be 'bar'"):
        found.plot("pie")
