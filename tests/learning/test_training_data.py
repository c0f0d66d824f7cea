"""Rows as states, their weights and orders, counts of pairs and mutual information."""

from itertools import combinations

import numpy as np
from hypothesis import given, strategies as st

import learning_oracles
from expectedkernels.arrays import own_order
from expectedkernels.data.schema import Schema
from expectedkernels.learning.training_data import (
    Data,
    PairCounts,
    as_states,
    as_weights,
    distinct_rows,
    mutual_information,
)
from strategies import domains, rngs


@given(rngs, st.integers(1, 200))
def test_sums_of_weights_are_exact_in_any_order(rng, n):
    given_weights = rng.gamma(0.3, size=n)
    weights = as_weights(given_weights, n)
    np.testing.assert_allclose(weights, given_weights, rtol=0, atol=1e-15 * given_weights.sum())
    part = weights[rng.random(n) < 0.7]
    assert part.cumsum()[-1:].tolist() == rng.permutation(part).cumsum()[-1:].tolist()


def test_integer_weights_stay_as_they_are():
    assert as_weights([3, 0, 7], 3).tolist() == [3.0, 0.0, 7.0]


@given(rngs, st.integers(0, 30), st.sampled_from([2, 3, 70]))
def test_distinct_rows_are_counted(rng, n, d):
    X = rng.integers(-1, 2, size=(n, d))
    if d == 70 and n:
        X = X[rng.integers(min(n, 3), size=n)]
    weights = rng.integers(1, 5, size=(2, n)).astype(float)
    given_rows = np.where(X < 0, np.nan, X)
    sets = [Data(Schema((2,) * d), given_rows, w).held for w in weights]
    rows, sums = distinct_rows(sets, [2] * d)
    expected = {}
    for row, w in zip(X.tolist(), weights.T, strict=True):
        expected[tuple(row)] = expected.get(tuple(row), 0) + w
    found = dict(zip(map(tuple, as_states(rows).tolist()), sums.T, strict=True))
    assert found.keys() == expected.keys()
    assert all((found[row] == expected[row]).all() for row in found)


def random_rows(rng, cardinalities, n):
    """Rows whose columns depend on each other."""
    columns = [rng.integers(cardinalities[0], size=n)]
    for card in cardinalities[1:]:
        other = columns[rng.integers(len(columns))]
        noise = rng.integers(card, size=n)
        columns.append(np.where(rng.random(n) < 0.6, other % card, noise))
    return np.stack(columns, axis=1)


@given(rngs, domains(min_variables=2, max_variables=4), st.sampled_from([0.0, 0.3, 1.0]))
def test_mutual_information_by_definition(rng, cardinalities, alpha):
    X = random_rows(rng, cardinalities, 20)
    weights = rng.integers(0, 4, size=20).astype(float)
    weights[0] = 1.0
    found = mutual_information(PairCounts(X, cardinalities, weights), alpha)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(np.diag(found), 0.0)
    assert (found >= 0).all()
    for i, j in combinations(range(len(cardinalities)), 2):
        expected = learning_oracles.mutual_information(X, cardinalities, weights, alpha, i, j)
        np.testing.assert_allclose(found[i, j], expected, atol=1e-13)


@given(rngs, domains(min_variables=2, max_variables=4), st.sampled_from([0.0, 1.0]))
def test_missing_values_leave_out_pairs(rng, cardinalities, alpha):
    X = random_rows(rng, cardinalities, 25)
    X[rng.random(X.shape) < 0.3] = -1
    weights = rng.gamma(1.0, size=25)
    counts = PairCounts(X, cardinalities, weights)
    found = mutual_information(counts, alpha)
    for i, j in combinations(range(len(cardinalities)), 2):
        both = (X[:, i] >= 0) & (X[:, j] >= 0)
        if not both.any():
            np.testing.assert_allclose(found[i, j], 0.0, atol=1e-13)
            continue
        expected = learning_oracles.mutual_information(
            X[both], cardinalities, weights[both], alpha, i, j
        )
        np.testing.assert_allclose(found[i, j], expected, atol=1e-13)
        table = np.zeros((cardinalities[i], cardinalities[j]))
        np.add.at(table, (X[both, i], X[both, j]), weights[both])
        np.testing.assert_allclose(counts.pair(i, j), table, atol=1e-12)
    alone = np.bincount(X[:, 0][X[:, 0] >= 0], weights[X[:, 0] >= 0], cardinalities[0])
    np.testing.assert_allclose(counts.single(0), alone, atol=1e-12)


def test_mutual_information_comes_in_parts_for_many_states(monkeypatch):
    rng = np.random.default_rng(0)
    cardinalities = [2, 1, 4, 3, 2]
    X = np.stack([rng.integers(card, size=50) for card in cardinalities], axis=1)
    whole = mutual_information(PairCounts(X, cardinalities, np.ones(50)))
    monkeypatch.setattr("expectedkernels.learning.training_data.CHUNK", 40)
    parts = mutual_information(PairCounts(X, cardinalities, np.ones(50)))
    np.testing.assert_allclose(parts, whole, atol=1e-15)
    np.testing.assert_allclose(whole[1], 0.0, atol=1e-15)


def table(n=300, missing=0.0, seed=0):
    """Rows of four variables that depend on each other."""
    rng = np.random.default_rng(seed)
    X = rng.integers(3, size=(n, 4)).astype(float)
    X[:, 1] = np.where(rng.random(n) < 0.8, X[:, 0], X[:, 1])
    X[:, 2] = np.where(rng.random(n) < 0.7, X[:, 1], X[:, 2])
    return np.where(rng.random(X.shape) < missing, np.nan, X)


def pieces(X, size=70):
    return [X[i : i + size] for i in range(0, len(X), size)]


def test_counts_of_parts_add_up():
    X = np.nan_to_num(table(missing=0.2), nan=-1).astype(np.intp)
    whole = PairCounts(X, [3] * 4, np.ones(300))
    parts = [PairCounts(x, [3] * 4, np.ones(len(x)), False) for x in pieces(X)]
    found = sum(parts[1:], parts[0])
    np.testing.assert_array_equal(found.table, whole.table)


@given(st.integers(0, 2**31), st.integers(1, 3))
def test_own_orders_tell_rows_and_columns_apart(seed, states):
    rng = np.random.default_rng(seed)
    Z = rng.integers(states, size=rng.integers(1, 8, size=2)).astype(float)
    Z[rng.random(Z.shape) < 0.2] = np.nan
    rows, columns = own_order(Z)
    assert sorted(rows) == list(range(len(Z)))
    assert sorted(columns) == list(range(Z.shape[1]))
    turned = Z[rng.permutation(len(Z))][:, rng.permutation(Z.shape[1])]
    again, others = own_order(turned)
    alike = np.sort(Z[rows][:, columns], axis=None), np.sort(turned[again][:, others], axis=None)
    np.testing.assert_array_equal(*alike)
    x = rng.normal(size=(30, Z.shape[1]))  # of which ranks tell all rows and columns apart
    rows, columns = own_order(x)
    turned = 3.0 * x[::-1, ::-1] + 7.0
    again, others = own_order(turned)
    np.testing.assert_allclose(3.0 * x[rows][:, columns] + 7.0, turned[again][:, others])
