"""Shapley values against all orders and all worlds."""

import sys
from itertools import combinations, permutations
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import expectedkernels as ek
from assertions import assert_raises, refusals
from machines import products_of_normals
from network_oracles import shapley
from oracles import completions
from strategies import points

NAN = np.nan
CARDS = [2, 3, 2, 3]


def fitted(rng, circuit, **options):
    X = points(rng, CARDS, 40)
    y = np.sin(X @ [1.0, 0.7, -1.1, 0.4]) + X[:, 0] * X[:, 1]
    return ek.ExpectedKernelRidge(density=circuit, **options).fit(X, y)


def dependent(seed, units=3):
    rng = np.random.default_rng(seed)
    return rng, ek.random_circuit(ek.Vtree.random(4, rng), units, rng, cardinalities=CARDS)


def worth_of(circuit, f, row, players, known=()):
    """E[f | what a set of players and the columns known from the start show], over all worlds."""

    def worth(shown):
        columns = [*known, *(c for i in sorted(shown) for c in players[i])]
        visible = np.where(np.isin(range(4), columns), row, NAN)
        points, share = completions(circuit, visible)
        return share[0] @ f(points)

    return worth


def with_gaps(rng, n, share=0.2):
    X = points(rng, CARDS, n)
    return np.where(rng.random(X.shape) < share, NAN, X)


def over_subsets_of_others(v, players, i, j):
    """The Shapley interaction index by definition: over the orders of the others and the pair."""
    others = [k for k in players if k not in (i, j)]
    orders = list(permutations([*others, "pair"]))
    total = 0.0
    for order in orders:
        S = frozenset(order[: order.index("pair")])
        total = total + v(S | {i, j}) - v(S | {i}) - v(S | {j}) + v(S)
    return total / len(orders)


PLAYERS = [None, [[0, 3], 1], [3, [1, 2]]]
"""Players with several columns; and columns that are known from the start."""


@pytest.mark.parametrize("players", PLAYERS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_values_are_means_over_all_orders_of_expectations_over_all_worlds(seed, players):
    rng, circuit = dependent(seed)
    model = fitted(rng, circuit, alpha=0.1)
    X = with_gaps(rng, 5)
    found = ek.shapley_values(model, X, players, interactions=True)
    columns = [np.atleast_1d(p).tolist() for p in players or range(4)]
    known = sorted(set(range(4)) - {c for player in columns for c in player})
    for i, row in enumerate(X):
        v, n = worth_of(circuit, model.predict, row, columns, known), range(len(columns))
        values, pairs = found.values[i], found.interactions[i]
        np.testing.assert_allclose(values, list(shapley(v, n).values()), atol=1e-12)
        for a, b in combinations(n, 2):
            index = over_subsets_of_others(v, n, a, b)
            np.testing.assert_allclose([pairs[a, b], pairs[b, a]], index, atol=1e-12)
        assert not pairs[n, n].any()
        assert not values[[np.isnan(row[c]).all() for c in columns]].any()
        np.testing.assert_allclose(found.base_values[i], v(frozenset()), atol=1e-12)
    np.testing.assert_allclose(found.predictions, model.predict(X), atol=1e-12)
    np.testing.assert_allclose(found.base_value, found.base_values, atol=1e-12)
    assert found.names == ["+".join(map(str, c)) if len(c) > 1 else c[0] for c in columns]
    wanted = [[None if len(c) > 1 or np.isnan(x[c[0]]) else x[c[0]] for c in columns] for x in X]
    assert [[None if x != x else x for x in row] for row in found.data.tolist()] == wanted


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
        np.testing.assert_allclose(values, list(shapley(v, range(3)).values()), atol=1e-12)


@pytest.mark.parametrize("density", ["gaussian", "kernel", "auto"])
def test_independent_values_of_normal_densities_are_those_of_their_marginals(density):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 2)) * [1.0, 20.0] + [5.0, 1e3]
    X[:, 1] += 15.0 * X[:, 0]
    y = np.sin(X[:, 0]) + X[:, 1]
    model = ek.ExpectedSVR(density=density).fit(X, y)
    parts = model.density_.parts if density == "auto" else [model.density_]
    found = ek.shapley_values(model, X[:3], method="independent")
    columns = []  # mixtures of normal distributions of one column each
    for i, (centre, scale) in enumerate(
        zip(model.columns_.centre, model.columns_.scale, strict=True)
    ):
        units, weights = [], []
        for mixture in (part.mixture for part in parts):
            variance = scale**2 * mixture.covariances[0, i, i]
            units += [ek.Gaussian(i, centre + scale * m, variance) for m in mixture.means[:, i]]
            weights += (mixture.weights / len(parts)).tolist()
        columns.append(ek.Sum(units, weights))
    product = ek.Circuit.from_units(ek.Product(columns))
    exact = ek.shapley_values(ek.ExpectedSVR(density=product).fit(X, y), X[:3])
    np.testing.assert_allclose(found.values, exact.values, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.base_values, exact.base_values, rtol=1e-9)


def test_permutations_are_unbiased_and_know_their_errors():
    rng, circuit = dependent(5)
    model = fitted(rng, circuit, alpha=0.1)
    X = points(rng, CARDS, 2)
    exact = ek.shapley_values(model, X).values
    options = {"method": "permutations", "n_permutations": 32}
    runs = [ek.shapley_values(model, X, rng=seed, **options) for seed in range(100)]
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
    X = points(rng, CARDS, 2)
    exact = ek.shapley_values(model, X)
    # so many that rows are worked on one by one
    many = ek.shapley_values(model, X, method="permutations", n_permutations=10_000, rng=0)
    assert np.abs((many.values - exact.values) / many.standard_errors).max() < 4.0
    rows = ek.shapley_values(model, np.tile(X, (1100, 1)))  # more than one batch
    np.testing.assert_allclose(rows.values, np.tile(exact.values, (1100, 1)), atol=1e-10)


def test_coalitions_in_parts_have_the_values_of_pairs():
    """The square of a sum is one of pairs, of which both players get half."""
    X = np.random.default_rng(0).normal(size=(2, 17))
    frame = pd.DataFrame(X, columns=list("abcdefghijklmnopq"))
    found = ek.shapley_values(lambda rows: np.nansum(rows, axis=1) ** 2, frame, method="exact")
    assert found.names == list(frame.columns)
    np.testing.assert_allclose(found.values, X * X.sum(axis=1, keepdims=True), atol=1e-10)


@pytest.mark.parametrize("players", PLAYERS, ids=str)
def test_independent_values_of_dependent_columns_are_those_of_their_marginals(players):
    rng, circuit = dependent(9)
    product = ek.factorized([np.asarray(table) for table in circuit.marginals()])
    X, found = with_gaps(rng, 6), []
    for p, method in ((circuit, "independent"), (product, "exact")):
        model = fitted(np.random.default_rng(0), p, gamma=0.5, alpha=0.1)
        found.append(ek.shapley_values(model, X, players, method=method))
    for name in ("values", "base_values", "predictions"):
        np.testing.assert_allclose(*(getattr(one, name) for one in found), atol=1e-12)


def test_independent_values_of_normals_bits_and_many_columns():
    rng = np.random.default_rng(3)
    X = np.column_stack([np.eye(3)[rng.integers(3, size=90)], rng.normal(size=(90, 30))])
    y = X[:, 1] + np.sin(X[:, 3]) + X[:, 4]
    model = ek.ExpectedSVR(groups=[[0, 1, 2]]).fit(X, y)
    found = ek.shapley_values(model, X[:3], method="independent")
    assert found.values.shape == (3, 31)
    total = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(total, model.predict(X[:3]), atol=1e-10)
    given = ek.shapley_values, model, X[:3], [0, 1, 2, 3]
    message = "must leave categorical variables whole"
    assert_raises(ek.DataError, message, *given, method="independent")


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
    given = ek.shapley_values, model, X[1:3]
    assert_raises(ek.DataError, "need all subsets.*up to 16", *given, interactions=True)


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
    squares = ek.ExpectedKernelClassifier().fit(X, y)
    shares = ek.shapley_values(squares, X[:4])
    total = shares.values.sum(axis=1) + shares.base_values
    np.testing.assert_allclose(total, squares.decision_function(X[:4]), atol=1e-12)
    np.testing.assert_allclose(shares.values.sum(axis=2), 0.0, atol=1e-10)  # they sum to one
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
    given = ek.shapley_values, model, X[:2]
    assert_raises(ek.DataError, "was fitted to complete rows", *given, method="independent")


IMPOSSIBLE = ek.ExpectedKernelRidge(density=ek.factorized([[1.0, 0.0], [0.5, 0.5]]))
IMPOSSIBLE.fit([[0.0, 0.0], [0.0, 1.0]], [0.0, 1.0])


SUMS = lambda Z: np.nan_to_num(Z).sum(axis=1)  # noqa: E731


test_mistakes_are_named = refusals(ValueError, [
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
    ({"X": np.zeros((1, 21)), "method": "exact"}, "21 players, more than 20"),
    ({"model": IMPOSSIBLE, "X": [[0, 0], [0, 1], [1, 1]]}, "row 2 has probability zero"),
], lambda change: ek.shapley_values(**{"model": SUMS, "X": [[1.0, 2.0]]} | change))  # fmt: skip


def test_explanations_of_shap(monkeypatch):
    found = ek.shapley_values(SUMS, [[2.0, 3.0]])
    monkeypatch.setitem(sys.modules, "shap", None)
    assert_raises(ImportError, "pip install shap", found.to_shap)
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
    assert_raises(ek.CircuitError, "'kind' parameter of plot must be 'bar'", found.plot, "pie")
