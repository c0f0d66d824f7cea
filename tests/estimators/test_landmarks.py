"""Landmark (Nyström) models: equal to models of all rows, to refits, and to data in memory."""

import copy
import pickle
import tracemalloc
from unittest.mock import MagicMock

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel

import expectedkernels as ek
from assertions import assert_raises, refusals
from machines import MACHINES, answers, target

NAN = np.nan
MODULE = "expectedkernels.estimators.landmarks"


def table(n, seed=0, missing=0.0):
    """Rows that go together, some values of them missing, and a target of all of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[:, 1] += X[:, 0]
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)
    return np.where(rng.random(X.shape) < missing, NAN, X), y


def said(model, X):
    """What a model says of rows, and their deviations."""
    return np.stack(answers(model, X, return_std=True))


GIVEN = {
    "ridge": {"alpha": 0.1, "gamma": 0.5},
    "classifier": {"alpha": 0.1, "gamma": 0.5},
    "process": {"kernel": 2.0 * RBF(1.0) + WhiteKernel(0.1), "optimizer": None, "alpha": 0.01},
}


@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.parametrize("options", [{}, {"mask_kernel": 0.3}, {"standardize": False}], ids=str)
@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_with_all_rows_as_landmarks_nothing_changes(name, options, missing):
    X, y = table(120, missing=missing)
    rows, model = table(40, seed=1, missing=0.3)[0], clone(MACHINES[name])
    model.set_params(density="gaussian", fit_missing="mean", **GIVEN[name], **options)
    full = clone(model).fit(X, target(model, y))
    found = model.set_params(n_landmarks=120).fit(X, target(model, y))
    assert (full.n_landmarks_, found.n_landmarks_) == (None, 120)
    assert found.model_ is None
    found, wanted = said(found, rows), said(full, rows)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["ridge", "classifier"])
@pytest.mark.parametrize("options", [{}, {"mask_kernel": "auto"}, {"alpha": 1.0}], ids=str)
def test_with_all_rows_as_landmarks_the_same_parameters_are_chosen(name, options):
    X, y = table(120, missing=0.15)
    X[y > 1.0, 2] = NAN
    model = clone(MACHINES[name]).set_params(density="gaussian", fit_missing="mean", **options)
    full = clone(model).fit(X, target(model, y))
    found = model.set_params(n_landmarks=120).fit(X, target(model, y))
    assert found.alpha_ == full.alpha_
    assert found.gamma_ == pytest.approx(full.gamma_, rel=1e-9)
    assert found.mask_rate_ == pytest.approx(full.mask_rate_, rel=1e-9)
    np.testing.assert_allclose(found.predict(X), full.predict(X), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["svr", "svc"])
def test_linear_machines_on_features_are_about_those_of_kernels(name):
    X, y = table(300, missing=0.1)
    rows, model = table(100, seed=1, missing=0.3)[0], clone(MACHINES[name])
    model.set_params(density="gaussian", tol=1e-6)
    full = clone(model).fit(X, target(model, y))
    found = model.set_params(n_landmarks=1000).fit(X, target(model, y))
    assert found.n_landmarks_ == 300  # all that differ
    wanted, spread = said(full, rows)
    np.testing.assert_allclose(said(found, rows)[0], wanted, atol=0.1 * spread.max())
    assert np.mean(found.predict(rows) == full.predict(rows)) > 0.9 or name == "svr"


def without(X, y, weights, rows, alpha, gamma, landmarks, at):
    """Ridge regression on features of landmarks, fitted to other rows, at some points."""
    values, vectors = np.linalg.eigh(rbf_kernel(landmarks, gamma=gamma))
    root = vectors / np.sqrt(np.maximum(values, 1e-14 * values.max()))
    F, rest = rbf_kernel(X, landmarks, gamma=gamma) @ root, ~rows
    ridge = Ridge(alpha, fit_intercept=False).fit(F[rest], y[rest], weights[rest])
    return ridge.predict(rbf_kernel(at, landmarks, gamma=gamma) @ root)


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_left_out_in_closed_form_are_refits(weighted):
    X, y = table(90)
    X, y = np.concatenate([X, X[:7], X[:3]]), np.concatenate([y, y[:7], y[:3]])  # some copies
    weights = np.random.default_rng(2).uniform(0.5, 2.0, size=100) if weighted else np.ones(100)
    model = ek.ExpectedKernelRidge(alpha=0.1, gamma=0.3, n_landmarks=25, standardize=False)
    model.fit(X, y, sample_weight=weights if weighted else None)
    rows, others = np.arange(20), table(20, seed=3)[0]
    changes = model._training.changes(model, rows, model._read(others))
    found = model.predict(others) - changes[:, 0]
    for i in rows:
        equal = (X[i] == X).all(axis=1) & (y == y[i])
        given = X, y, weights, equal, 0.1, 0.3, model.landmarks_, others[[i]]
        assert found[i] == pytest.approx(without(*given)[0], rel=1e-10, abs=1e-10)
    left_out = without(X, y, weights, np.zeros(100, dtype=bool), 0.1, 0.3, model.landmarks_, X)
    np.testing.assert_allclose(model.predict(X), left_out, rtol=1e-9)


def test_probabilities_are_calibrated():
    X, y = table(2100)
    rows, wanted = table(600, seed=1, missing=0.3)
    p = ek.ExpectedSVC(n_landmarks=100).fit(X, y > 0).predict_proba(rows)[:, 1]
    for low, high in ((0.0, 0.3), (0.3, 0.7), (0.7, 1.0)):
        some = (p >= low) & (p <= high)
        assert np.mean(wanted[some] > 0) == pytest.approx(p[some].mean(), abs=0.08)


def test_auto_takes_landmarks_for_many_rows_only(monkeypatch):
    monkeypatch.setattr(f"{MODULE}.MANY_ROWS", 60)
    monkeypatch.setattr(f"{MODULE}.LANDMARKS", 20)
    X, y = table(61)
    model = ek.ExpectedKernelRidge()
    assert model.fit(X[:60], y[:60]).n_landmarks_ is None
    assert model.landmarks_ is None
    assert model.densities_ == ["gaussian", "kernel(0.6)"]
    assert model.fit(X, y).n_landmarks_ == 20
    assert model.landmarks_.shape == (20, 4)
    assert {tuple(x) for x in model.landmarks_.round(9)} <= {tuple(x) for x in X.round(9)}
    assert model.densities_ == ["gaussian"]
    assert model.set_params(n_landmarks=None).fit(X, y).n_landmarks_ is None
    message = r"'n_landmarks' parameter of ExpectedKernelRidge must"
    for wrong in (0, 2.5, "some", True):
        assert_raises(ValueError, message, clone(model).set_params(n_landmarks=wrong).fit, X, y)


def frame(n=900):
    """A table with text and missing values; one of its labels is rare."""
    X, y = table(n, missing=0.1)
    rng = np.random.default_rng(5)
    kind = np.where(np.arange(n) == n - 1, "rare", rng.choice(["u", "v"], size=n))
    found = pd.DataFrame(X, columns=list("abcd")).assign(kind=kind, w=rng.uniform(0.5, 1.5, n))
    return found.assign(y=y + (kind == "v"), label=np.where(kind == "rare", "odd", y > 0))


@pytest.mark.parametrize("kind", ["parquet", "dask", "polars", "function"])
@pytest.mark.parametrize("name", ["ridge", "classifier", "svc"])
def test_data_in_chunks(kind, name, tmp_path, monkeypatch):
    monkeypatch.setattr(f"{MODULE}.DRAWN", 400)
    whole, path, classes = frame(), tmp_path / "rows.parquet", name != "ridge"
    whole.to_parquet(path, row_group_size=200)
    source = {
        "parquet": lambda: path,
        "dask": lambda: pytest.importorskip("dask.dataframe").from_pandas(whole, npartitions=5),
        "polars": lambda: pl.scan_parquet(path),
        "function": lambda: lambda: (whole[i : i + 170] for i in range(0, len(whole), 170)),
    }[kind]()
    model = clone(MACHINES[name]).set_params(n_landmarks=60)
    target = "label" if classes else "y"
    given = whole.drop(columns=[target, "w"])
    found = clone(model).fit(source, target, sample_weight="w")
    assert found.feature_names_in_.tolist() == given.columns.tolist()
    assert found.columns_.categories[4].tolist() == ["rare", "u", "v"]
    in_memory = model.fit(given, whole[target], sample_weight=whole["w"])
    if classes:
        assert found.classes_.tolist() == ["False", "True", "odd"]
    assert found.score(given, whole[target]) > in_memory.score(given, whole[target]) - 0.05
    two = clone(found).set_params(n_jobs=2).fit(source, target, sample_weight="w")
    np.testing.assert_array_equal(two.predict(given), found.predict(given))
    if name == "ridge":
        np.testing.assert_array_equal(two._machine.expansion.coef, found._machine.expansion.coef)


def test_arrays_in_chunks_and_few_rows(monkeypatch):
    X, y = table(500, missing=0.1)
    rows = np.column_stack([X, y, 2.0 * y])
    model = ek.ExpectedKernelRidge(alpha=0.1)
    found = model.fit(lambda: [rows[:300], rows[300:]], [4, 5]).predict(X)
    wanted = clone(model).fit(X, rows[:, 4:]).predict(X)  # all fit into memory
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9)
    monkeypatch.setattr(f"{MODULE}.DRAWN", 200)
    model.set_params(n_landmarks=50, fit_missing="drop")
    found = model.fit(lambda: [rows[:300, :5], rows[300:, :5]], 4)
    assert found.score(X, y) > 0.5
    model.set_params(fit_missing="raise")
    message = r"X has \d+ rows with missing values"
    assert_raises(ek.DataError, message, model.fit, lambda: [rows], 4)
    model = ek.ExpectedKernelRidge(n_landmarks=5).fit(lambda: of_kinds(["u", "v"], ["v", "a"]), "y")
    assert model.columns_.categories[0].tolist() == ["a", "u", "v"]


def of_kinds(*kinds):
    """A chunk of nothing but categories for each."""
    for kind in kinds:
        yield pd.DataFrame({"kind": np.resize(np.array(kind, dtype=object), 60), "y": range(60)})


ROWS, Y = table(20)
ALL, OTHER = np.column_stack([ROWS, Y]), "All chunks must have the same columns, in one order"


test_data_that_do_not_fit = refusals(ek.DataError, [
    *((lambda: [ROWS], given, {}, r"be its columns.* Got ndarray\.")
      for given in ((Y,), (0, Y), ([1, Y],))),
    (lambda: [ROWS], (7,), {}, r"In chunk 0: There is no column 7. Columns are \[0, 1"),
    *((lambda chunks=chunks: chunks, (0,), {}, "There is nothing to be read: the data have no rows")
      for chunks in ([], [ALL[:0]], [pd.DataFrame(ALL[:0])])),
    (lambda: [ROWS], (0,), {"n_landmarks": None}, r"needs landmarks\. Set n_landmarks"),
    (lambda: of_kinds(["v", "a"], [True, False]), ("y",), {},
     r"of column 'kind' must be of one type. Got entries"),
    *((lambda make=make: [make(ALL), make(ROWS)], (make(ALL).columns[3],), {}, OTHER)
      for make in (pd.DataFrame, pl.DataFrame)),
    (lambda: [ALL, ROWS], (3,), {}, OTHER),
], lambda data, given, options: ek.ExpectedKernelRidge(**options).fit(data, *given))  # fmt: skip


@pytest.mark.parametrize(("at", "value", "message"), [
    *(
        ((slice(5, None, 7), 5), weight, f"Sample weights must .* Got {weight:g} in row 1")
        for weight in (-1.0, np.nan, np.inf)
    ),
    ((200, 1), np.inf, r".*infinity.* is in row 196, column 1\."),
])  # fmt: skip
def test_rows_that_are_not_drawn_are_checked(at, value, message, monkeypatch):
    monkeypatch.setattr(f"{MODULE}.DRAWN", 50)
    X, y = table(300)
    rows = np.column_stack([X, y, np.ones(300)])
    rows[at] = value
    model = ek.ExpectedKernelRidge(n_landmarks=20)
    message = "In chunk 1: " + message
    assert_raises(ek.DataError, message, model.fit, lambda: [rows[:5], rows[4:]], 4, 5)


def test_fits_show_their_progress(monkeypatch):
    bar = MagicMock()
    monkeypatch.setattr(f"{MODULE}.CHUNK_ROWS", 100)
    monkeypatch.setattr(f"{MODULE}.progress_bar", bar)
    ek.ExpectedKernelRidge(n_landmarks=20).fit(*table(250))
    assert bar.call_args.args[0] == 250
    updates = bar.return_value.__enter__.return_value.update.call_args_list
    assert [call.args[0] for call in updates] == [100, 100, 50]


def test_explanations_acquisition_and_copies(tmp_path):
    X, y = table(400, missing=0.1)
    model = ek.ExpectedKernelRidge(n_landmarks=40).fit(X, y)
    rows = table(3, seed=1, missing=0.4)[0]
    rows[0] = [0.5, NAN, 0.1, NAN]
    shapley = ek.shapley_values(model, rows)
    total = shapley.values.sum(axis=1) + shapley.base_values
    np.testing.assert_allclose(total, model.predict(rows), rtol=1e-9)
    gain = ek.acquisition_gain(model, rows[:1])[0]
    assert np.isnan(gain).tolist() == [False, True, False, True] or (gain[[1, 3]] > 0).all()
    ends = model.predict_interval(rows)
    ek.save(model, tmp_path / "model.skops")
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(again.predict_interval(rows), ends)
    again = ek.load(tmp_path / "model.skops")
    np.testing.assert_allclose(again.predict_interval(rows), ends, rtol=1e-12)


def test_landmarks_of_expected_kernels_and_of_circuits():
    X, y = table(300, missing=0.2)
    model = ek.ExpectedKernelRidge(n_landmarks=60, density="chow_liu", n_bins=5).fit(X, y)
    assert model.fit_missing_ == "expected"
    assert not np.isnan(model.landmarks_).any()
    full = clone(model).set_params(n_landmarks=None).fit(X, y)
    rows, wanted = table(200, seed=1, missing=0.2)
    error, other = (np.mean((m.predict(rows) - wanted) ** 2) for m in (model, full))
    assert error < 1.1 * other
    assert (np.diff(model.predict_interval(rows), axis=0) > 0).all()


@pytest.mark.parametrize("name", ["svr", "svc"])
def test_support_vector_machines_that_do_not_converge(name, monkeypatch):
    models = "expectedkernels.estimators.kernel_models"
    monkeypatch.setattr(f"{models}.LIBLINEAR", {"dual": True, "max_iter": 3})
    X, y = table(200)
    model = clone(MACHINES[name]).set_params(n_landmarks=20, density="gaussian")
    with pytest.warns(ConvergenceWarning, match=r"after 3 passes over the rows, with C=1\. Set a"):
        model.fit(X, target(model, y, (0.0,)))
    model.calibrate()  # says it once


def test_support_vector_machines_that_take_too_much_memory(monkeypatch):
    X, y = table(500)
    monkeypatch.setattr("expectedkernels.estimators.kernel_models.NODE_BYTES", 2**20)
    monkeypatch.setattr(ek.ExpectedSVR, "_nystrom", None)  # refused before there are any
    message = r"The features of 500 rows take 19.5 GiB. Set a smaller n_landmarks.* max_bytes to"
    assert_raises(ek.DataError, message, ek.ExpectedSVR(n_landmarks=40).fit, X, y)


def test_no_matrix_of_all_pairs_of_rows_is_made():
    X, y = table(30_000)
    tracemalloc.start()
    model = ek.ExpectedKernelRidge(alpha=0.1, n_landmarks=50).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**26  # 7 GB otherwise
    assert model.score(X, y) > 0.8


def test_one_landmark_and_rows_that_are_all_equal():
    X, y = table(50)
    assert np.isfinite(ek.ExpectedKernelRidge(n_landmarks=1).fit(X, y).predict(X)).all()
    equal = ek.ExpectedKernelRidge(alpha=1.0, n_landmarks=5).fit(np.ones((50, 2)), y)
    assert equal.n_landmarks_ == 1
    wanted = KernelRidge(alpha=1.0, kernel="rbf").fit(np.zeros((50, 2)), y - y.mean())
    np.testing.assert_allclose(equal.predict([[1.0, 1.0]]), wanted.predict([[0, 0]]) + y.mean())
    X[:20, :2], X[20:40, :2] = (NAN, 0.0), (-NAN, -0.0)  # of any sign, these are copies
    X[20:40, 2:], y[20:40] = X[:20, 2:], y[:20]
    model = ek.ExpectedKernelRidge(n_landmarks=10, alpha=0.1, density="gaussian")
    assert model.fit(X[:40], y[:40])._training.copies.tolist() == [2.0] * 40


def in_chunks(X, y, size=700):
    rows = np.column_stack([X, y])
    return lambda: (rows[i : i + size] for i in range(0, len(rows), size))


@pytest.mark.parametrize("name", ["classifier", "svc"])
@pytest.mark.parametrize("chunked", [False, True])
def test_rows_of_every_class_are_drawn(name, chunked, monkeypatch):
    monkeypatch.setattr(f"{MODULE}.DRAWN", 200)
    X, y = table(4000)
    y = np.where(np.arange(4000) < 3, 2.0, y > 0)
    X[:3] += 4.0
    model = clone(MACHINES[name]).set_params(n_landmarks=20, density="gaussian")
    model.fit(in_chunks(X, y), 4) if chunked else model.fit(X, y)
    assert np.bincount(model._training.y.astype(int))[2] == 3
    assert model.predict_set(X[:9])[:, 2].all()
    assert model.predict_proba(X[:9]).shape == (9, 3)


@pytest.mark.parametrize("name", ["ridge", "svr"])
def test_rows_of_positive_weight_are_drawn(name, monkeypatch):
    monkeypatch.setattr(f"{MODULE}.DRAWN", 200)
    X, y = table(3000)
    weights = np.where(np.arange(3000) % 30, 0.0, 1.0)
    model = clone(MACHINES[name]).set_params(n_landmarks=50, density="gaussian")
    model.fit(X, y, sample_weight=weights)
    assert (model._training.sample_weight > 0).sum() == 100
    assert model.score(X, y) > 0.5


@pytest.mark.parametrize("name", ["ridge", "svr", "process"])
def test_chunks_whose_rows_are_all_left_out(name, monkeypatch):
    monkeypatch.setattr(f"{MODULE}.DRAWN", 300)
    X, y = table(2100)
    X[:1800, 1] = NAN
    model = clone(MACHINES[name]).set_params(fit_missing="drop", density="gaussian")
    assert model.fit(in_chunks(X, y), 4).score(X[1800:], y[1800:]) > 0.2
    assert model.n_landmarks_ is not None


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame])
def test_chunks_without_rows(make, monkeypatch):
    monkeypatch.setattr(f"{MODULE}.DRAWN", 40)
    rows = np.column_stack(table(60)) if make is np.asarray else frame(60)[["a", "kind", "y"]]
    model, y = ek.ExpectedKernelRidge(n_landmarks=20, alpha=0.1), 4 if make is np.asarray else "y"
    wanted = clone(model).fit(lambda: [rows[:30], rows[30:]], y)
    found = model.fit(lambda: [rows[:0], rows[:30], rows[30:30], rows[30:]], y)
    np.testing.assert_array_equal(found.landmarks_, wanted.landmarks_)
    np.testing.assert_array_equal(found._machine.expansion.coef, wanted._machine.expansion.coef)


def test_landmarks_of_raw_columns_that_lie_far_from_zero():
    X, y = table(300)
    model = ek.ExpectedKernelRidge(n_landmarks=30, alpha=0.1, gamma=0.3, standardize=False)
    near, far = (clone(model).fit(X + away, y).landmarks_ - away for away in (0.0, 1e8))
    np.testing.assert_allclose(far, near, atol=1e-6)


def test_models_do_not_depend_on_workers(monkeypatch):
    monkeypatch.setattr(f"{MODULE}.DRAWN", 300)
    monkeypatch.setattr(f"{MODULE}.CHUNK_ROWS", 100)
    (X, y), drawn, fitted = table(2100), [], []
    for n_jobs in (1, 2):
        state = np.random.RandomState(3)
        model = ek.ExpectedKernelRidge(n_landmarks=20, random_state=state, density="gaussian")
        drawn.append(clone(model).set_params(n_jobs=n_jobs).fit(in_chunks(X, y), 4).landmarks_)
        with joblib.parallel_config(backend="loky", n_jobs=n_jobs):
            fitted.append(model.fit(X[:250], y[:250])._machine.expansion.coef)
    np.testing.assert_array_equal(*drawn)
    np.testing.assert_array_equal(*fitted)


def test_processes_choose_mask_kernels_by_few_rows(monkeypatch):
    monkeypatch.setattr("expectedkernels.estimators.kernel_models.KERNEL_ROWS", 60)
    X, y = table(500, missing=0.1)
    sizes, fit = [], ek.ExpectedGaussianProcessRegressor._fit_kernel
    options = {"mask_kernel": "auto", "n_landmarks": 20, "optimizer": None, "density": "gaussian"}
    model = ek.ExpectedGaussianProcessRegressor(**options)
    monkeypatch.setattr(type(model), "_fit_kernel", lambda *x: sizes.append(len(x[1])) or fit(*x))
    model.fit(X, y)
    assert sizes == [60]


@pytest.mark.parametrize("name", ["ridge", "classifier", "svr", "svc"])
@pytest.mark.parametrize("n_landmarks", [None, 10])
def test_columns_that_only_rows_of_weight_zero_show(name, n_landmarks):
    X = np.random.default_rng(0).normal(size=(60, 3)) * [1.0, 100.0, 1.0] + [0.0, 1e3, 0.0]
    y, shown = X[:, 0], np.arange(60) >= 30
    X[~shown, 1] = NAN
    model = clone(MACHINES[name]).set_params(n_landmarks=n_landmarks, density="gaussian")
    model.fit(X, target(model, y, (0.0,)), sample_weight=1.0 - shown)
    np.testing.assert_allclose(model.columns_.centre[1], X[shown, 1].mean())
    np.testing.assert_allclose(model.columns_.scale[1], X[shown, 1].std())
    assert model.score(X[~shown], target(model, y, (0.0,))[~shown]) > 0.8
    model.calibrate()
