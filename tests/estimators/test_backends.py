"""Answers are the same whoever does the work: this thread, others, processes, or a cluster."""

import operator
import os
from contextlib import contextmanager
from functools import partial

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVR

from expectedkernels import (
    CircuitImputer,
    ExpectedGaussianProcessRegressor,
    ExpectedKernelFeatures,
    ExpectedKernelRidge,
    ExpectedSVC,
    ExpectedSVR,
    expected_prediction,
)
from expectedkernels.estimators import gram
from expectedkernels.estimators.resources import Resources
from normal_densities import products_of_normals

BACKENDS = ["threading", "multiprocessing", "loky", "dask"]
REGRESSORS = {
    "svr": ExpectedSVR,
    "ridge": ExpectedKernelRidge,
    "process": partial(ExpectedGaussianProcessRegressor, optimizer=None),
}


def table(n=18):
    """Three columns without gaps, the same with gaps, targets, and classes."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 3))
    X[:, 1] += X[:, 0]
    y = np.sin(X[:, 0]) + X[:, 1]
    holed = np.where(rng.random(X.shape) < 0.4, np.nan, X)
    return X, holed, y, np.digitize(y, [-1.0, 1.0])


@contextmanager
def small_tasks():
    """Tasks of a few rows each, so that small tables give everybody something to do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gram, "SPAN_ROWS", 5)
        patch.setattr(gram, "CHUNK_ROWS", 6)
        yield


def answers():
    """What all estimators say, fitted to complete rows and to rows with gaps, by name."""
    X, holed, y, classes = table()
    found = {}
    for name, make in REGRESSORS.items():
        for rows, train in (("complete", X), ("holed", holed)):
            model = make(n_bins=4, random_state=0).fit(train, y)
            mean, std = model.predict(holed, return_std=True)
            found[name, rows] = np.stack([mean, std])
    svc = ExpectedSVC(n_bins=4, random_state=0).fit(holed, classes)
    found["svc"] = svc.decision_function(holed)
    features = ExpectedKernelFeatures(9, normalize=True, n_bins=4, random_state=0)
    found["features"] = features.fit(holed).transform(holed)
    found["imputer"] = CircuitImputer("mean", n_bins=4, random_state=0).fit_transform(holed)
    model = ExpectedSVR(density=products_of_normals(X)).fit(X, y)
    found["normals"] = np.stack(model.predict(holed, return_std=True))
    predicted = expected_prediction(SVR().fit(X, y), model.circuit_, holed, return_std=True)
    found["expected_prediction"] = np.stack(predicted)
    return found


@contextmanager
def named(backend):
    """Two workers of a backend; those of loky get most arrays as files that are read-only."""
    options = {"max_nbytes": 256} if backend == "loky" else {}
    with joblib.parallel_config(backend=backend, n_jobs=2, **options):
        yield


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


def test_threads_are_preferred_where_nobody_is_named():
    tasks = [os.getpid] * 8
    assert set(Resources(2).map(operator.call, tasks)) == {os.getpid()}
    with joblib.parallel_config(n_jobs=2):
        assert set(Resources().map(operator.call, tasks)) == {os.getpid()}


@pytest.mark.parametrize("n", [0, 1, 5, 8, 23])
def test_results_come_in_the_order_of_the_tasks(n):
    assert list(Resources(2).map(str, list(range(n)))) == [str(i) for i in range(n)]


def test_answers_do_not_depend_on_the_number_of_workers():
    _, holed, y, _ = table()
    with small_tasks():
        for make in REGRESSORS.values():
            alone = make(n_bins=4).fit(holed, y).predict(holed, return_std=True)
            shared = make(n_bins=4, n_jobs=3).fit(holed, y).predict(holed, return_std=True)
            np.testing.assert_array_equal(shared, alone)


@pytest.mark.parametrize("outer", ["loky", "threading"])
def test_searches_may_have_workers_whose_models_have_workers(outer):
    _, holed, y, _ = table()
    grid = {"C": [0.1, 1.0]}
    with small_tasks():
        alone = GridSearchCV(ExpectedSVR(n_bins=4), grid, cv=2).fit(holed, y)
        with named(outer):
            shared = GridSearchCV(ExpectedSVR(n_bins=4, n_jobs=2), grid, cv=2, n_jobs=2)
            shared.fit(holed, y)
        name = "mean_test_score"
        np.testing.assert_allclose(
            shared.cv_results_[name], alone.cv_results_[name], rtol=1e-11, atol=1e-11
        )
        np.testing.assert_allclose(shared.predict(holed), alone.predict(holed), rtol=1e-11)
