"""Expected kernels by chunks of rows, blocks of points and workers: all give the same numbers."""

import operator
import os
from contextlib import contextmanager
from functools import partial

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVR

import expectedkernels as ek
from assertions import assert_raises
from expectedkernels.circuits.operands import CircuitOperand
from expectedkernels.estimators import circuit_density
from expectedkernels.estimators.circuit_density import Rows
from expectedkernels.estimators.kernel_expansion import Resources
from expectedkernels.estimators.prediction import coded_density
from expectedkernels.kernels.gram import at_known, expected
from machines import products_of_normals
from oracles import completions, with_holes

CARDS = [3, 2, 4]
RATES = np.array([0.3, 0.7, 0.2])
NAN = np.nan
Z = np.array([[1.0, NAN, NAN], [NAN, NAN, 2.0], [NAN, NAN, NAN], [NAN, 1.0, 3.0], [0, NAN, NAN]])


@pytest.fixture
def density():
    rng = np.random.default_rng(3)
    return coded_density(ek.random_circuit(ek.Vtree.random(3, rng), 3, rng, CARDS), 3)


def points(n, seed=0):
    return np.random.default_rng(seed).integers(CARDS, size=(n, 3)).astype(float)


def test_rows_with_a_single_hole_are_those_of_sweeps(monkeypatch):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(80, 3))
    X[:, 1] += X[:, 0]
    X[X[:, 2] > 1.0, 2] = 0.5  # a spike
    frame = pd.DataFrame(X, columns=list("uvw")).assign(c=rng.choice(["x", "y", "z"], 80))
    model = ek.ExpectedKernelRidge(density="chow_liu", n_bins=4, random_state=0)
    model.fit(frame, X.sum(axis=1))
    density, S = model.density_, model.model_.X_fit_[:20]
    Z = model.model_.X_fit_.copy()
    for i, columns in enumerate([[0], [1], [2], [3, 4, 5], [3]]):  # [3]: part of a group
        Z[np.ix_(np.arange(i, 80, 6), columns)] = NAN
    assert np.isnan(Z[5::6]).sum() == 0
    Z[5::6, :2] = NAN
    rates = np.linspace(0.1, 0.6, 6)
    found = []
    for discrete in (True, False):  # False: as if it were not known
        monkeypatch.setattr(type(density), "is_discrete", discrete)
        found.append(density.kernels(rates, Rows(density, Z), S, Resources()))
    assert (found[0] != found[1]).any()
    np.testing.assert_allclose(*found, rtol=1e-12, atol=1e-15)


def moments(density, S):
    """First and second moments by enumeration."""
    X, share = completions(density.circuit, Z)
    kernels = np.exp(-((X[:, None] - S) ** 2 @ RATES))
    return share @ kernels, np.einsum("rx,xi,xj->rij", share, kernels, kernels)


@pytest.mark.parametrize("form", ["rows", "patterns", "conditionals"])
def test_observed_columns_and_equal_points_taken_out_change_nothing(density, form):
    S, rows = points(7), Rows(density, Z)
    axis, kernels = density.point_axis(S), [density.kernel(RATES, x) for x in (False, True)]
    whole = expected((CircuitOperand(density.real, rows.by_value, form), axis), kernels[0], 2**27)
    part = expected((CircuitOperand(density.real, rows.by_state, form), axis), kernels[1], 2**27)
    part = part * at_known(RATES, Z, rows.known_columns, S)
    np.testing.assert_allclose(part, whole, rtol=1e-12)
    np.testing.assert_allclose(whole, moments(density, S)[0], rtol=1e-12)
    S, rows = points(50), Rows(density, np.array([[NAN, 1.0, NAN], [NAN, 0.0, NAN]]))
    axis = density.point_axis(S, active=np.array([True, False, True]))
    assert axis.batch.count[-1] == len(np.unique(S[:, [0, 2]], axis=0))
    operand = CircuitOperand(density.real, rows.by_state, form)
    merged = expected((operand, axis), kernels[1], 2**27)
    full = expected((operand, density.point_axis(S)), kernels[1], 2**27)
    np.testing.assert_allclose(merged, full, rtol=1e-12)


def table(n=18):
    """Two real columns and one of codes, the same with holes, targets, and classes."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 3))
    X[:, 1] += X[:, 0]
    X[:, 2] = rng.integers(3, size=n)
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + X[:, 2]
    return X, with_holes(X, 0.4), y, np.digitize(y, [0.5, 1.5])


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("make", [
    lambda **options: ek.ExpectedKernelRidge(alpha=0.1, **options),
    lambda **options: ek.ExpectedGaussianProcessRegressor(alpha=0.1, optimizer=None, **options),
], ids=["ridge", "process"])  # fmt: skip
def test_blocks_of_incomplete_rows_do_not_change_answers(monkeypatch, make, real):
    _, X, y, _ = table(40)
    new = np.vstack([X[:9], [[0.3, -0.2, 1.0], [NAN, 0.1, NAN]]])
    rates = np.array([0.7, 0.4, 0.2])
    assert np.isnan(X).any(axis=1).sum() > 3 * 7  # several blocks of either kind
    model = make(density=products_of_normals(X) if real else "chow_liu", n_bins=4)
    whole = model.fit(X, y).predict(new, return_std=True)
    grams = [model.density_.gram(rates, *rows) for rows in ((X,), (new, X))]
    np.testing.assert_array_equal(grams[0], grams[0].T)
    assert np.linalg.eigvalsh(grams[0]).min() > -1e-10
    np.testing.assert_allclose(grams[1][:9], grams[0][:9], rtol=1e-8, atol=1e-12)
    monkeypatch.setattr(circuit_density, "CHUNK_ROWS", 7)
    monkeypatch.setattr(circuit_density, "FEW_ROWS", 7)
    for rows, wanted in zip(((X,), (new, X)), grams, strict=True):
        found = model.density_.gram(rates, *rows)
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-13)
    for again in (False, True):
        found = (model.fit(X, y) if again else model).predict(new, return_std=True)
        np.testing.assert_allclose(found, whole, rtol=1e-6, atol=1e-7)


def test_distances_of_far_points_keep_their_digits():
    rng = np.random.default_rng(0)
    model = ek.ExpectedSVR(gamma=1.0, standardize=False, density="chow_liu")
    model.fit(rng.normal(size=(30, 2)), rng.normal(size=30))
    points = np.array([[1e8, 0.5], [1e300, 0.0], [0.0, 1.0]])
    rows = Rows(model.density_, np.array([[1e8 + 1, NAN], [1e300, 0.0], [-1e300, NAN], [0.0, 0.5]]))
    got = at_known(np.ones(2), rows.Z, rows.known_columns, points)
    expected = np.array([[np.exp(-1.0), 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, np.exp(-0.25)]])
    np.testing.assert_allclose(got, expected, atol=1e-12)
    far = model.predict([[1e300, NAN], [-1e300, NAN]])
    np.testing.assert_allclose(far, model.model_.intercept_[0] * np.ones(2))


def test_rows_of_one_pattern_are_worked_on_in_parts(monkeypatch):
    X, holes, y, _ = table(60)
    holes[5:15] = [0.3, NAN, NAN]
    model = ek.ExpectedKernelRidge(alpha=0.1).fit(X, y)
    wanted = model.predict(holes, return_std=True)
    filled = ek.CircuitImputer(density="auto").fit(X).transform(holes)
    monkeypatch.setattr("expectedkernels.learning.normals.CHUNK_ENTRIES", 600)
    monkeypatch.setattr("expectedkernels.estimators.kernel_expansion.CHUNK_BYTES", 2**16)
    np.testing.assert_allclose(model.predict(holes, return_std=True), wanted, rtol=1e-10)
    again = ek.CircuitImputer(density="auto").fit(X).transform(holes)
    np.testing.assert_allclose(again, filled, rtol=1e-10)


BACKENDS = ["threading", "multiprocessing", "loky", "dask"]
REGRESSORS = {
    "svr": ek.ExpectedSVR,
    "ridge": ek.ExpectedKernelRidge,
    "process": partial(ek.ExpectedGaussianProcessRegressor, optimizer=None),
}


@contextmanager
def small_tasks():
    """Tasks of a few rows each, so that small tables give everybody something to do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(circuit_density, "SPAN_ROWS", 5)
        patch.setattr(circuit_density, "CHUNK_ROWS", 6)
        yield


def answers(**more):
    """What all estimators say, fitted to complete rows and to rows with gaps, by name."""
    X, holed, y, classes = table()
    found, options = {}, {"n_bins": 4, "random_state": 0, **more}
    for name, make in REGRESSORS.items():
        for rows, train in (("complete", X), ("holed", holed)):
            model = make(**options).fit(train, y)
            mean, std = model.predict(holed, return_std=True)
            found[name, rows] = np.stack([mean, std])
    svc = ek.ExpectedSVC(**options).fit(holed, classes)
    found["svc"] = svc.decision_function(holed)
    features = ek.ExpectedKernelFeatures(9, normalize=True, **options)
    found["features"] = features.fit(holed).transform(holed)
    for strategy in ("map", "mean", "sample"):
        own = {name: x for name, x in options.items() if name != "n_jobs"}
        found[strategy] = ek.CircuitImputer(strategy, **own).fit_transform(holed)
    model = ek.ExpectedSVR(density=products_of_normals(X), **more).fit(X, y)
    found["normals"] = np.stack(model.predict(holed, return_std=True))
    given = SVR().fit(X, y), model.circuit_, holed
    found["expected_prediction"] = np.stack(ek.expected_prediction(*given, return_std=True, **more))
    return found


def named(backend):
    """Two workers of a backend; those of loky get most arrays as files that are read-only."""
    options = {"max_nbytes": 256} if backend == "loky" else {}
    return joblib.parallel_config(backend=backend, n_jobs=2, **options)


@pytest.fixture(scope="module")
def serial():
    with small_tasks():
        return answers()


@pytest.fixture(scope="module")
def cluster():
    """A cluster on this machine: a process of its own, with two threads."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=True, dashboard_address=":0"
        ) as local,
        distributed.Client(local) as client,
    ):
        yield client


@pytest.fixture(params=BACKENDS)
def backend(request):
    """The name of a backend, ready to be used."""
    if request.param == "dask":
        request.getfixturevalue("cluster")
    return request.param


def test_all_estimators_say_the_same_by_whatever_backend(backend, serial):
    with small_tasks(), named(backend):
        found = answers()
    assert found.keys() == serial.keys()
    for name, values in serial.items():
        assert np.isfinite(values).all()
        np.testing.assert_allclose(found[name], values, rtol=1e-11, atol=1e-11, err_msg=str(name))


def test_work_is_done_by_those_who_were_named(backend):
    tasks = [os.getpid] * 8
    with named(backend):
        seen = set(Resources().map(operator.call, tasks))
    assert (seen == {os.getpid()}) == (backend == "threading")


def test_results_come_in_the_order_of_the_tasks_from_threads_where_nobody_is_named():
    for n in (0, 1, 5, 8, 23):
        assert list(Resources(2).map(repr, list(range(n)))) == [str(i) for i in range(n)]
    tasks = [os.getpid] * 8
    assert set(Resources(2).map(operator.call, tasks)) == {os.getpid()}
    with joblib.parallel_config(n_jobs=2):
        assert set(Resources().map(operator.call, tasks)) == {os.getpid()}


@pytest.mark.parametrize(
    "more", [{"n_jobs": 3}, {"max_bytes": 2**13}, {"max_bytes": 2**15}], ids=str
)
def test_answers_do_not_depend_on_workers_nor_on_memory(more, serial):
    with small_tasks():
        found = answers(**more)
    for name, values in serial.items():
        if "n_jobs" in more:
            np.testing.assert_array_equal(found[name], values, err_msg=str(name))
        np.testing.assert_allclose(found[name], values, rtol=1e-9, atol=1e-10, err_msg=str(name))


@pytest.mark.parametrize("outer", ["loky", "threading"])
def test_searches_may_have_workers_whose_models_have_workers(outer):
    _, holed, y, _ = table()
    grid = {"C": [0.1, 1.0]}
    with small_tasks():
        alone = GridSearchCV(ek.ExpectedSVR(n_bins=4), grid, cv=2).fit(holed, y)
        with named(outer):
            shared = GridSearchCV(ek.ExpectedSVR(n_bins=4, n_jobs=2), grid, cv=2, n_jobs=2)
            shared.fit(holed, y)
        scores = [search.cv_results_["mean_test_score"] for search in (shared, alone)]
        np.testing.assert_allclose(*scores, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(shared.predict(holed), alone.predict(holed), rtol=1e-11)


FIRST_IS_ZERO = ek.factorized([[1.0, 0.0], [0.5, 0.5]])


def test_imputers_complete_few_rows_at_once_with_little_memory(monkeypatch):
    X, sizes, density = table(40)[1], [], circuit_density.CircuitDensity
    model, means = ek.CircuitImputer(density="chow_liu").fit(X), density.means
    monkeypatch.setattr(density, "means", lambda p, Z, *x: sizes.append(len(Z)) or means(p, Z, *x))
    for max_bytes, most in ((1, 1), (24 * model.circuit_.n_units, 3), (2**40, len(X))):
        sizes.clear()
        model.set_params(max_bytes=max_bytes).transform(X)
        assert max(sizes) <= most < sum(sizes) or len(sizes) == 1


@pytest.mark.parametrize("model", [
    *(ek.CircuitImputer(how) for how in ("map", "mean", "sample")),
    *(ek.ExpectedKernelFeatures(normalize=normalize) for normalize in (False, True)),
])  # fmt: skip
def test_rows_of_probability_zero_are_refused(model):
    model.set_params(density=FIRST_IS_ZERO)
    good = np.array([[0.0, 1.0], [0.0, 0.0], [0.0, NAN]])
    assert np.isfinite(model.fit(good).transform(good)).all()
    bad = [[0.0, 1.0], [1.0, NAN]]
    for ask in (model.transform, *([model.fit] if hasattr(model, "normalize") else [])):
        assert_raises(ek.EvidenceError, "observed in row 1 has probability zero", ask, bad)


def test_rows_that_are_surely_equal_need_noise():
    X = np.array([[0.0, 1.0], [NAN, 1.0], [NAN, 1.0], [0.0, 0.0], [NAN, 0.0]])
    options = {"alpha": 1e-20, "optimizer": None, "density": FIRST_IS_ZERO}
    model = ek.ExpectedGaussianProcessRegressor(RBF(1.0), **options)
    message = r"not positive definite to working precision. Increase 'alpha' .*\(it is 1e-20\)"
    assert_raises(ek.KernelError, message, model.fit, X, np.arange(5.0))
