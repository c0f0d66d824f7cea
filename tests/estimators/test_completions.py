"""Expected predictions of any model by quadrature completions, against all completions."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import expectedkernels as ek
from assertions import assert_close
from oracles import distribution, worlds

D = 8
P = ek.random_circuit(ek.Vtree.balanced(D), 4, 0, cardinalities=2)
EVERY, CHANCES = worlds([2] * D), distribution(P)
RNG = np.random.default_rng(0)
X = P.sample(300, rng=1)
Y = X[:, 0] + X[:, 1] * X[:, 2] - X[:, 3]
HOLES = np.where(RNG.random((12, D)) < 0.6, np.nan, X[:12])
FOREST = RandomForestRegressor(10, random_state=0).fit(X, Y)


def exact(f, rows):
    """Means over all completions of rows, by enumeration."""
    values = f(EVERY)
    found = []
    for row in rows:
        fits = ((row == EVERY) | np.isnan(row)).all(axis=1)
        share = CHANCES * fits
        found.append(share @ values / share.sum())
    return np.array(found)


def test_all_completions_are_exact():
    wanted = exact(FOREST.predict, HOLES)
    mean, std = ek.expected_prediction(FOREST, P, HOLES, return_std=True, n_completions=2**D)
    assert_close(mean, wanted, scale=1.0)
    squares = exact(lambda Z: FOREST.predict(Z) ** 2, HOLES)
    np.testing.assert_allclose(std, np.sqrt(np.maximum(squares - wanted**2, 0.0)), atol=1e-7)


def test_few_completions_are_close_and_closer_than_draws():
    wanted = exact(FOREST.predict, HOLES)
    mean = ek.expected_prediction(FOREST, P, HOLES, n_completions=10)
    imputer = ek.CircuitImputer(density=P).fit(X)
    drawn = np.mean([FOREST.predict(Z) for Z in imputer.sample(HOLES, 10, 0)], axis=0)
    errors = [np.sqrt(np.mean((a - wanted) ** 2)) for a in (mean, drawn)]
    assert errors[0] < errors[1] / 3


def test_complete_rows_get_the_answer_itself():
    both = np.vstack([X[:3], HOLES[:2], X[3:5]])
    found = ek.expected_prediction(FOREST, P, both)
    np.testing.assert_array_equal(found[[0, 1, 2, 5, 6]], FOREST.predict(X[:5]))
    assert ek.expected_prediction(FOREST, P, np.empty((0, D))).shape == (0,)


@pytest.mark.parametrize(
    "model",
    [
        HistGradientBoostingClassifier(max_iter=5),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
)
def test_classifiers_say_probabilities(model):
    model.fit(X, X[:, 0] + X[:, 1])
    found = ek.expected_prediction(model, P, HOLES, n_completions=2**D)
    assert_close(found, exact(model.predict_proba, HOLES), scale=1.0)
    assert_close(found.sum(axis=1), np.ones(len(HOLES)))


def test_decision_functions_and_names_of_columns():
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    model = RidgeClassifier().fit(frame, X[:, 0])
    rows = pd.DataFrame(HOLES, columns=list("abcdefgh"))
    found = ek.expected_prediction(model, P, rows, n_completions=2**D)
    plain = RidgeClassifier().fit(X, X[:, 0])
    assert_close(found, exact(plain.decision_function, HOLES), scale=1.0)
    assert ek.expected_prediction(Perceptron().fit(X, X[:, 0]), P, HOLES).shape == (12,)


def test_unnormalised_circuits_and_real_columns():
    circuit = ek.gaussian_mixture([0.4, 0.6], [[0.0, 0.0], [3.0, 1.0]], [[1.0, 1.0], [0.5, 2.0]])
    nan = np.nan
    rows = [[nan, 0.5], [1.0, nan], [nan, nan]]
    mean = ek.expected_prediction(lambda Z: Z.sum(axis=1), circuit, rows, n_completions=30)
    given = [circuit.marginals(row)[i][0] for row, i in ((rows[0], 0), (rows[1], 1))]
    wanted = [given[0] + 0.5, given[1] + 1.0, 0.6 * 3.0 + 0.6]
    np.testing.assert_allclose(mean, wanted, atol=0.05)


class Labeller(ClassifierMixin, BaseEstimator):
    def predict(self, Z):
        return np.where(Z[:, 0] > 0, "yes", "no")


@pytest.mark.parametrize(
    ("model", "options", "match"),
    [
        (Labeller(), {}, "Averages of labels mean nothing"),
        (RandomForestRegressor, {}, "of a fitted model with predict"),
        (FOREST, {"n_completions": 0}, "'n_completions' parameter"),
        (FOREST, {"std_tol": -1.0}, "'std_tol' parameter"),
    ],
)
def test_mistakes_are_told(model, options, match):
    with pytest.raises(ek.DataError, match=match):
        ek.expected_prediction(model, P, HOLES, **options)
