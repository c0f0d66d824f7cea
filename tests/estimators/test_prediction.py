"""Expected predictions of fitted models of any kind against enumeration of completions."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, NuSVC, NuSVR

import expectedkernels as ek
from assertions import assert_close, refusals
from expectedkernels import expected_prediction
from oracles import (
    completions,
    values_at,
    with_holes,
    worlds,
)
from strategies import rngs

MODELS = {
    "SVR": lambda: SVR(C=5.0, gamma=0.3, epsilon=0.05),
    "NuSVR": lambda: NuSVR(C=5.0),
    "KernelRidge": lambda: KernelRidge(kernel="rbf", alpha=0.1),
    "SVC": lambda: SVC(C=3.0, gamma=0.4),
    "NuSVC": lambda: NuSVC(nu=0.5),
    "process": lambda: GaussianProcessRegressor(
        ConstantKernel(2.0) * RBF(1.5) + WhiteKernel(0.1), optimizer=None, normalize_y=True
    ),
}


def one_hot(X, cards):
    parts = [
        np.where(np.isnan(x)[:, None], np.nan, x[:, None] == np.arange(c)).astype(float)
        for x, c in zip(X.T, cards, strict=True)
    ]
    return np.concatenate(parts, axis=1)


def fitted(name, X, rng):
    model = MODELS[name]()
    if isinstance(model, (SVC, NuSVC)):
        y = np.arange(len(X)) % 3
        return model.set_params(decision_function_shape="ovo").fit(X, y)
    return model.fit(X, np.sin(X @ rng.normal(size=X.shape[1])) + 0.1 * rng.normal(size=len(X)))


def answers(model, X):
    values = model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)
    if not isinstance(model, GaussianProcessRegressor):
        return values, np.zeros_like(values)
    return values, model.predict(X, return_std=True)[1] ** 2


def enumerated(circuit, encode, model, row):
    """Mean and standard deviation over all completions of a row, by definition."""
    points = worlds(circuit.cardinalities)
    possible = ((encode(points) == row) | np.isnan(row)).all(axis=1)
    share = values_at(circuit, points)[:, 0] * possible
    share = share / share.sum()
    values, own = answers(model, encode(points))
    mean = share @ values
    return mean, np.sqrt(share @ (values - mean) ** 2 + share @ own)


@settings(max_examples=40)
@given(rngs, st.sampled_from(sorted(MODELS)), st.booleans(), st.integers(1, 3))
def test_expectations_are_those_over_all_completions(rng, name, bits, units):
    cards = rng.integers(2, 4, size=rng.integers(2, 5)).tolist()
    circuit = ek.random_circuit(ek.Vtree.random(len(cards), rng), units, rng, cardinalities=cards)
    encode = (lambda x: one_hot(x, cards)) if bits else (lambda x: x)
    draw = lambda n: np.stack([rng.integers(c, size=n) for c in cards], axis=1).astype(float)  # noqa: E731
    model = fitted(name, encode(draw(30)), rng)
    X = encode(draw(7))
    X[rng.random(X.shape) < 0.5] = np.nan  # of some groups a part: a known bit rules others out
    X[0] = np.nan
    mean, std = expected_prediction(model, circuit, X, return_std=True)
    for i, row in enumerate(X):
        expected, deviation = enumerated(circuit, encode, model, row)
        np.testing.assert_allclose(mean[i], expected, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(std[i], deviation, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("name", MODELS)
def test_complete_rows_get_the_models_own_prediction(name):
    rng = np.random.default_rng(1)
    X = rng.integers(3, size=(50, 4)).astype(float)
    model = fitted(name, X, rng)
    circuit = ek.random_circuit(4, 2, rng, cardinalities=3)
    mean, std = expected_prediction(model, circuit, X, return_std=True)
    values, own = answers(model, X)
    # the last bits of products of matrices depend on where these lie in memory
    np.testing.assert_allclose(mean, values, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(std, np.sqrt(own), rtol=1e-12)


def test_a_group_of_zeros_is_an_unknown_category():
    rng = np.random.default_rng(3)
    circuit = ek.random_circuit(ek.Vtree.balanced(2), 2, rng, cardinalities=3)
    points = worlds([3, 3])
    model = SVR(gamma=0.5).fit(one_hot(points, [3, 3]), rng.normal(size=9))
    got = expected_prediction(model, circuit, [[0.0, 0.0, 0.0, np.nan, np.nan, np.nan]])
    completions = np.hstack([np.zeros((3, 3)), np.eye(3)])
    share = circuit.marginals()[1]
    np.testing.assert_allclose(got, [share @ model.predict(completions)], rtol=1e-10)


def test_real_variables_against_quadrature():
    circuit = ek.gaussian_mixture([0.4, 0.6], [[0.0, 1.0], [2.0, -1.0]], [[1.0, 0.5], [0.3, 2.0]])
    rng = np.random.default_rng(4)
    train = rng.normal(size=(30, 2))
    model = SVR(C=10.0, gamma=0.7).fit(train, np.sin(train[:, 0]) + train[:, 1])
    grid, coarse = np.linspace(-12, 12, 6001), np.linspace(-8, 8, 161)
    every = [([0.3], grid), (grid, [0.8]), (coarse, coarse)]
    X = [[0.3, np.nan], [np.nan, 0.8], [np.nan, np.nan]]
    mean, std = expected_prediction(model, circuit, X, return_std=True)
    for i, values in enumerate(every):
        rows = np.stack(np.meshgrid(*values), axis=-1).reshape(-1, 2)
        share = np.exp(circuit.log_likelihood(rows))
        share /= share.sum()
        values = model.predict(rows)
        np.testing.assert_allclose(mean[i], share @ values, rtol=1e-6)
        np.testing.assert_allclose(std[i] ** 2, share @ (values - mean[i]) ** 2, rtol=1e-5)


MODEL = SVR(gamma=0.5).fit([[0.0, 1.0], [1.0, 0.0]], [0.0, 1.0])
PAIR = ek.factorized([[0.5, 0.5], [0.2, 0.8]])


@pytest.mark.parametrize("model", [
    SVR(kernel="poly").fit([[0.0, 1.0], [1.0, 1.0]], [1.0, 2.0]),
    KernelRidge().fit([[0.0, 1.0]], [1.0]),
    GaussianProcessRegressor(Matern(), optimizer=None).fit([[0.0, 1.0]], [1.0]),
    GaussianProcessRegressor(RBF(1.0) + RBF(2.0), optimizer=None).fit([[0.0, 1.0]], [1.0]),
])  # fmt: skip
def test_machines_with_other_kernels_are_asked_at_completions(model):
    wanted = np.array([0.2, 0.8]) @ model.predict([[0.0, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(expected_prediction(model, PAIR, [[0.0, np.nan]]), wanted)


test_bad_arguments = refusals(None, [
    (ek.factorized([[0.5, 0.5]] * 3), [[0, 1]], {}, ek.DataError, "over 2 variables.*over 3"),
    ("p", [[0, 1]], {}, ek.DataError, "must be a Circuit. Got str"),
    (PAIR, [[0, 1, 0]], {}, ek.DataError, "X must have 2 columns.*Got 3"),
    (PAIR, [[np.nan, 2]], {}, ek.DataError, "states 0..1 of variable 1.*Got 2.0 in row 0"),
    (PAIR, [[np.nan, 0.5]], {}, ek.DataError, "Got 0.5 in row 0"),
    (PAIR, [[np.inf, 0]], {}, ValueError, "contains infinity"),
    (PAIR, [["a", 0]], {}, ek.DataError, "Column 0 holds text, 'a' in row 0.*as for the model"),
    (PAIR, [[0, 1]], {"n_completions": 0}, ek.DataError, "'n_completions' parameter"),
    (PAIR, [[0, 1]], {"std_tol": -1.0}, ek.DataError, "'std_tol' parameter"),
    (PAIR, [[0, 1]], {"groups": [0]}, ek.DataError, "one entry per variable.*Got 1"),
    (PAIR, [[0, 1]], {"groups": [0, 0]}, ek.DataError, "every column in 0..1 once"),
    (ek.factorized([[0.2, 0.3, 0.5]]), [[0, 1]], {"groups": [[0, 1]]}, ek.DataError,
     "2 one-hot columns.*Got 3"),
    (ek.factorized([[1.0, 0.0], [0.5, 0.5]]), [[0, 1], [1, np.nan]], {}, ek.EvidenceError,
     "observed in row 1 has probability zero"),
], lambda circuit, X, options: expected_prediction(MODEL, circuit, X, **options))  # fmt: skip


D = 8
P = ek.random_circuit(ek.Vtree.balanced(D), 4, 0, cardinalities=2)
EVERY = worlds([2] * D)
X = P.sample(300, rng=1)
Y = X[:, 0] + X[:, 1] * X[:, 2] - X[:, 3]
HOLES = with_holes(X[:12], 0.6)


def exact(f, rows):
    """Means over all completions of rows, by enumeration."""
    return completions(P, rows)[1] @ f(EVERY)


FOREST = RandomForestRegressor(10, random_state=0).fit(X, Y)
FRAME = partial(pd.DataFrame, columns=list("abcdefgh"))


@pytest.mark.parametrize(("model", "method"), [
    (FOREST, "predict"),
    (HistGradientBoostingClassifier(max_iter=5).fit(X, X[:, 0] + X[:, 1]), "predict_proba"),
    (make_pipeline(StandardScaler(), LogisticRegression()).fit(X, X[:, 0] + X[:, 1]),
     "predict_proba"),
    (RidgeClassifier().fit(FRAME(X), X[:, 0]), "decision_function"),
    (Perceptron().fit(X, X[:, 0]), "decision_function"),
], ids=lambda x: x if isinstance(x, str) else type(x).__name__)  # fmt: skip
def test_all_completions_are_exact(model, method):
    framed = FRAME if hasattr(model, "feature_names_in_") else np.asarray
    f = lambda Z: getattr(model, method)(framed(Z))  # noqa: E731
    rows = np.vstack([HOLES, X[:3], HOLES[:2]])
    wanted, squares = exact(f, rows), exact(lambda Z: f(Z) ** 2, rows)
    mean, std = expected_prediction(model, P, framed(rows), return_std=True, n_completions=2**D)
    scale = 1.0 + np.abs(f(EVERY)).max()
    assert_close(mean, wanted, scale=scale)
    deviations = np.sqrt(np.maximum(squares - wanted**2, 0.0))
    np.testing.assert_allclose(std, deviations, atol=1e-7 * scale)
    few = expected_prediction(model, P, framed(rows))
    own = f(X[:3])  # of complete rows the answer itself, but for sums in another order
    np.testing.assert_allclose(few[12:15], own, rtol=0.0 if model is FOREST else 1e-13)
    assert expected_prediction(FOREST, P, np.empty((0, D))).shape == (0,)


def test_few_completions_are_close_and_closer_than_draws():
    wanted = exact(FOREST.predict, HOLES)
    mean = expected_prediction(FOREST, P, HOLES, n_completions=10)
    imputer = ek.CircuitImputer(density=P).fit(X)
    drawn = np.mean([FOREST.predict(Z) for Z in imputer.sample(HOLES, 10, 0)], axis=0)
    errors = [np.sqrt(np.mean((a - wanted) ** 2)) for a in (mean, drawn)]
    assert errors[0] < errors[1] / 3


def test_unnormalised_circuits_and_real_columns():
    circuit = ek.gaussian_mixture([0.4, 0.6], [[0.0, 0.0], [3.0, 1.0]], [[1.0, 1.0], [0.5, 2.0]])
    rows = [[np.nan, 0.5], [1.0, np.nan], [np.nan, np.nan]]
    mean = expected_prediction(lambda Z: Z.sum(axis=1), circuit, rows, n_completions=30)
    given = [circuit.marginals(row)[i][0] for row, i in ((rows[0], 0), (rows[1], 1))]
    wanted = [given[0] + 0.5, given[1] + 1.0, 0.6 * 3.0 + 0.6]
    np.testing.assert_allclose(mean, wanted, atol=0.05)


class Labeller(ClassifierMixin, BaseEstimator):
    def predict(self, Z):
        return np.where(Z[:, 0] > 0, "yes", "no")


test_models_that_are_not_supported = refusals(None, [
    (SVR(kernel="precomputed").fit([[1.0]], [1.0]), ek.KernelError, "for SVR.*'precomputed'"),
    ("model", ek.DataError, r"with predict or predict_proba.*Got 'model'"),
    (SVR(), NotFittedError, "not fitted yet"),
    (Labeller(), ek.DataError, "Averages of labels mean nothing"),
    (RandomForestRegressor, ek.DataError, "of a fitted model with predict"),
], lambda model: expected_prediction(model, PAIR, [[0.0, np.nan]]))  # fmt: skip
