"""Standard deviations: to a stated tolerance, and tiny ones of large coefficients."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.gaussian_process.kernels import RBF
from sklearn.svm import SVC, SVR

import expectedkernels as ek
from assertions import assert_raises
from completions import mean_and_deviation
from expectedkernels.estimators import variance as rounding, variance as spread
from expectedkernels.estimators.kernel_expansion import Resources, as_expansion
from expectedkernels.estimators.prediction import coded_density
from expectedkernels.estimators.variance import low_rank_variance
from strategies import rngs

NAN = np.nan
TOLERANCES = [0.1, 0.01, 0.001]


def table(n=260, seed=0, kinds=3):
    """Columns that hang together, the last three the bits of a category."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n, 2))
    X = factors @ rng.normal(size=(2, 6)) + 0.5 * rng.normal(size=(n, 6))
    X[:, 5] = np.round(X[:, 5])
    kind = np.eye(kinds)[np.digitize(factors[:, 0], [-0.5, 0.5])]
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + kind[:, 0] + 0.1 * rng.normal(size=n)
    return np.column_stack([X, kind]), y


def holes(X, seed=1, share=0.5):
    rng = np.random.default_rng(seed)
    gone = rng.random((len(X), 7)) < share
    rows = X.copy()
    rows[:, :6][gone[:, :6]] = NAN
    rows[gone[:, 6], 6:] = NAN
    rows[0, :], rows[1, 6], rows[1, 7:] = NAN, 0.0, NAN  # and one that rules a category out
    return rows


@pytest.mark.parametrize(("density", "options", "n"), [
    ("chow_liu", {"C": 1.0}, 30),
    ("chow_liu", {"C": 1000.0}, 30),
    ("mixture", {"C": 10.0, "n_bins": 4}, 6),
])  # fmt: skip
def test_learned_densities(density, options, n):
    X, y = table()
    model = ek.ExpectedSVR(epsilon=0.02, density=density, groups=[[6, 7, 8]], **options)
    model.fit(X[:180], y[:180])
    rows = holes(X[180 : 180 + n])
    mean, exact = model.predict(rows, return_std=True, std_tol=0)
    assert len(model._machine.expansion.points) > 96  # fewer take the exact way
    for tolerance in TOLERANCES:
        again, std = model.predict(rows, return_std=True, std_tol=tolerance)
        np.testing.assert_array_equal(again, mean)
        np.testing.assert_allclose(std, exact, rtol=tolerance)
        assert tolerance < 0.1 or (std != exact).any()  # it is not the exact one
    tolerances = ({}, {"std_tol": 0.01})  # the second is the default
    pair = (model.predict(rows, return_std=True, **given)[1] for given in tolerances)
    np.testing.assert_array_equal(*pair)


def test_several_outputs_and_threads():
    X, _ = table()
    y = np.column_stack([X[:, 0] + X[:, 3], np.sin(X[:, 1])])
    model = ek.ExpectedKernelRidge(density="chow_liu", alpha=1.0, gamma=2.0)
    model.fit(X[:180, :6], y[:180])
    rows = holes(X[180:200])[:, :6]
    values, exact = model.predict(rows, return_std=True, std_tol=0)
    again, std = model.predict(rows, return_std=True)
    np.testing.assert_array_equal(values, again)
    np.testing.assert_allclose(std, exact, rtol=0.01)
    assert (std != exact).any()
    model.set_params(n_jobs=2)
    np.testing.assert_array_equal(model.predict(rows, return_std=True)[1], std)


def test_models_that_are_fitted_elsewhere():
    X, y = table()
    X = np.round(X[:, :6])
    X -= X.min(axis=0)
    circuit = ek.learn_chow_liu(X)
    model = SVR(C=10.0, gamma=0.05).fit(X[:200], y[:200])
    rows = X[200:215].copy()
    rows[:, 1:5] = NAN
    exact = ek.expected_prediction(model, circuit, rows, return_std=True, std_tol=0)[1]
    std = ek.expected_prediction(model, circuit, rows, return_std=True)[1]
    np.testing.assert_allclose(std, exact, rtol=0.01)
    assert (std != exact).any()


@pytest.mark.parametrize("tolerance", [-0.1, np.nan, "small", None])
def test_tolerances_that_are_none(tolerance):
    X, y = table(40)
    model = ek.ExpectedSVR(density="chow_liu").fit(X, y)
    label = ek.ExpectedSVC(density="chow_liu").fit(X, y > 0)
    options = {"return_std": True, "std_tol": tolerance}
    for ask in (model.predict, label.decision_function):
        assert_raises(ek.DataError, "'std_tol' parameter of Expected", ask, X[:1], **options)
    given = SVC().fit([[0], [1]], [0, 1]), ek.factorized([[0.5, 0.5]]), [[NAN]]
    message = "'std_tol' parameter of expected_prediction"
    assert_raises(ek.DataError, message, ek.expected_prediction, *given, **options)


def rough(n=80, seed=0, real=False):
    """A target that is fitted with large coefficients and hardly depends on the last columns."""
    rng = np.random.default_rng(seed)
    X = rng.integers(4, size=(n, 4)).astype(float)
    X[:, 2] = np.clip(X[:, 2] + X[:, 3] - 1, 0, 4)
    if real:
        X[:, 3] += rng.random(n)
    return X, np.sin(X[:, 0]) + X[:, 1] ** 2 + 1e-4 * X[:, 3]


def enumerated(model, row):
    """The deviation over all completions, with more digits than doubles have."""
    f = model._machine.expansion
    rates, points, coef = (x.astype(np.longdouble) for x in (f.rates, f.points, f.coef[:, 0]))

    def function(rows):
        rows = np.asarray(model.columns_.standardise(rows), dtype=np.longdouble)
        away = rows[:, None] - points
        return np.exp(-(away**2 @ rates)) @ coef

    return float(mean_and_deviation(function, model, row)[1])


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("columns", [[3], [2, 3]])
def test_tiny_deviations_of_large_coefficients(real, columns):
    X, y = rough(real=real)
    model = ek.ExpectedKernelRidge(alpha=1e-13, gamma=0.005, n_bins=5, density="chow_liu").fit(X, y)
    assert np.abs(model._machine.expansion.coef).max() > 1e5
    rows = X[:6].copy()
    rows[:, columns] = NAN
    mean, std = model.predict(rows, return_std=True)
    expected = [enumerated(model, row) for row in rows]
    assert max(expected) < 0.02
    np.testing.assert_allclose(std, expected, rtol=1e-4)
    given = model.density_.rows(model._read(rows)), mean[:, None], model._resources
    plain = model.density_.plain_variance(model._machine.expansion, *given)[0]
    assert np.max(np.abs(np.sqrt(plain[:, 0]) / expected - 1)) > 1e-3  # what is avoided


def test_processes_do_not_miss_digits_below_their_own_variance():
    X, y = rough(40)
    kernel = RBF(3.0, "fixed")
    model = ek.ExpectedGaussianProcessRegressor(kernel, alpha=1e-6, density="chow_liu").fit(X, y)
    rows = np.where(np.arange(4) == 3, NAN, X[:3])
    assert np.isfinite(model.predict(rows, return_std=True)[1]).all()  # without a warning


@settings(max_examples=25)
@given(rngs, st.sampled_from(TOLERANCES), st.booleans(), st.integers(1, 3))
def test_random_circuits(rng, tolerance, real, units):
    n = int(rng.integers(2, 6))
    if real:
        means, variances = rng.normal(size=(3, n)), rng.uniform(0.1, 2.0, (3, n))
        circuit = ek.gaussian_mixture([0.3, 0.5, 0.2], means, variances)
        train, X = rng.normal(size=(40, n)), rng.normal(size=(6, n))
    else:
        cards = rng.integers(2, 5, size=n).tolist()
        vtree = ek.Vtree.random(n, rng)
        circuit = ek.random_circuit(vtree, units, rng, cardinalities=cards)
        draw = rng.random((46, n))
        train, X = np.split(np.floor(draw * cards), [40])
    X[rng.random(X.shape) < 0.6] = NAN
    X[0] = NAN
    model = SVR(C=100.0, gamma=0.4, epsilon=0.01)
    model.fit(train, np.sin(train @ rng.normal(size=n)) + 0.1 * rng.normal(size=40))
    density = coded_density(circuit, n)
    machine, resources = as_expansion(model).expansion, Resources(std_tol=tolerance)
    rows = density.rows(X[np.isnan(X).any(axis=1)])
    mean = density.mean(machine, rows, resources)
    exact = density.variance(machine, rows, mean, replace(resources, std_tol=0.0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounding, "FEW_POINTS", -1)
        found, left = low_rank_variance(machine, density, rows, mean, resources)
    assert left.mean() < 0.5
    np.testing.assert_allclose(np.sqrt(found[~left]), np.sqrt(exact[~left]), rtol=tolerance)


def test_tiny_spreads_keep_their_digits(monkeypatch):
    """f hardly depends on what is missing, with coefficients a million times its spread."""
    X, y = rough()
    model = ek.ExpectedKernelRidge(alpha=1e-9, gamma=0.02, density="chow_liu").fit(X, y)
    rows = X[:6].copy()
    rows[:, 2:] = NAN
    exact = model.predict(rows, return_std=True, std_tol=0)[1]  # by nodes
    size = np.abs(model._machine.expansion.coef).max()
    assert exact.max() < 1e-5 * size
    monkeypatch.setattr(rounding, "FEW_POINTS", -1)
    np.testing.assert_allclose(model.predict(rows, return_std=True)[1], exact, rtol=0.01)


@pytest.mark.parametrize("max_bytes", [2**16, 2**30])
def test_nodes_agree_with_sums_of_products_where_digits_suffice(monkeypatch, max_bytes):
    X, y = rough(real=True)
    kind = np.eye(3)[np.arange(len(X)) % 3]
    X = np.column_stack([X[:, [0, 2, 3]], kind])
    options = {"n_bins": 4, "max_bytes": max_bytes, "density": "chow_liu"}
    model = ek.ExpectedSVR(groups=[[3, 4, 5]], **options).fit(X, y + kind[:, 0])
    rows = X[:5].copy()
    rows[0, 0] = rows[1, [0, 2]] = rows[2, 3:] = rows[3, 3] = rows[4, [1, 3, 4]] = NAN
    expected = model.predict(rows, return_std=True)[1]
    monkeypatch.setattr(spread, "DOUBTFUL", np.inf)
    again = model.predict(rows, return_std=True)[1]
    assert (again > 0).sum() == 4  # a bit follows from the others
    np.testing.assert_allclose(again, expected, rtol=1e-9)


def test_lost_digits_are_told_where_nodes_are_too_many(monkeypatch):
    X, y = rough()
    model = ek.ExpectedKernelRidge(alpha=1e-13, gamma=0.005, density="chow_liu").fit(X, y)
    rows = np.where(np.arange(4) == 3, NAN, X[:2])
    monkeypatch.setattr(spread, "MOST_KERNELS", 1)
    with pytest.warns(RuntimeWarning, match="2 rows are too small beside the coefficients"):
        model.predict(rows, return_std=True)
