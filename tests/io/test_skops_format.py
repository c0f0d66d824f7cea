"""Files of fitted estimators: what comes back, and which files are refused."""

import json
import os
import sys
import zipfile
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.preprocessing import StandardScaler

import expectedkernels as ek
from assertions import assert_raises

skops = pytest.importorskip("skops.io")
ROWS = 40
ESTIMATORS = [
    ek.ExpectedSVR(),
    ek.ExpectedSVR(density="chow_liu", mask_kernel=0.5),
    ek.ExpectedKernelRidge(density="gaussian_mixture"),
    ek.ExpectedKernelRidge(density="strudel"),
    ek.ExpectedKernelRidge(density="mixture", fit_missing="expected"),
    ek.ExpectedSVC(density="mixture"),
    ek.ExpectedKernelClassifier(),
    ek.ExpectedGaussianProcessRegressor(alpha=1e-3),
    ek.ExpectedKernelFeatures(),
    ek.CircuitImputer(),
]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table(with_text):
    """Rows with missing values, numbers to predict, and categorical columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 3))
    y = X @ [1.0, -1.0, 0.5]
    X[rng.random(X.shape) < 0.2] = np.nan
    if not with_text:
        return X, y, None
    words = np.where(np.isnan(X[:, 1]), None, np.where(X[:, 1] > 0, "up", "down"))
    return np.column_stack([X[:, 0].astype(object), words, X[:, 2]]), y, [1]


@pytest.mark.parametrize("with_text", [False, True], ids=["numbers", "text"])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_estimators_come_back_from_files(estimator, with_text):
    X, y, categorical = table(with_text)
    if with_text:
        estimator = clone(estimator).set_params(categorical_features=categorical)
    estimator.fit(X, np.digitize(y, [-0.5, 0.5]) if is_classifier(estimator) else y)
    if hasattr(estimator, "predict_interval"):
        estimator.predict_interval(X)  # what calibrates them is kept
    ek.save(estimator, "model.skops")
    found = ek.load("model.skops")
    methods = ["predict", "transform", "predict_proba", "predict_interval"]
    asked = [name for name in methods if hasattr(estimator, name)]
    assert asked
    for name in asked:
        np.testing.assert_array_equal(getattr(found, name)(X), getattr(estimator, name)(X))


def test_estimators_fitted_to_frames_know_their_columns_again():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"size": [1.0, 2.0, np.nan, 4.0], "sky": ["grey", None, "blue", "grey"]})
    ek.save(ek.ExpectedKernelRidge().fit(frame, [1.0, 2.0, 3.0, 4.0]), "model.skops")
    found = ek.load("model.skops")
    assert found.feature_names_in_.tolist() == ["size", "sky"]
    with pytest.warns(UserWarning, match="categories that were not seen in fit: 'red'"):
        found.predict(frame.assign(sky="red"))


class Learner:
    def fit(self, X):
        self.circuit_ = ek.learn_chow_liu(X)
        return self


@pytest.mark.parametrize(("density", "message"), [
    (Learner(), r"Found: .*Learner"),
    (ek.asia(), "cannot be written to model.skops"),
])  # fmt: skip
def test_what_would_not_be_read_again_is_not_written(density, message, folder):
    X = ek.asia().sample(30, rng=0)
    model = ek.ExpectedKernelRidge(density=density).fit(X.astype(float), X[:, 0].astype(float))
    assert_raises(ek.CircuitError, message, ek.save, model, "model.skops")
    assert list(folder.iterdir()) == []


class Stranger(StandardScaler):
    def __setstate__(self, state):
        raise AssertionError("code of the author of a file was run")


def test_types_of_others_are_not_trusted():
    skops.dump(Stranger().fit([[0.0], [1.0]]), "model.skops")
    assert_raises(ek.ParseError, "expected types of expectedkernels, found", ek.load, "model.skops")
    model = ek.CircuitImputer().fit([[0.0, 1.0], [1.0, 0.0]])
    model.density_ = partial(os.system, "exit")  # partial objects of trusted functions are fine
    skops.dump(model, "model.skops")
    message = r"(posix|nt)\.system\. They are not trusted"
    assert_raises(ek.ParseError, message, ek.load, "model.skops")
    skops.dump({"a": [1, 2]}, "model.skops")
    assert_raises(ek.ParseError, "expected an estimator, found dict", ek.load, "model.skops")


@pytest.mark.parametrize("data", [b"", b"text", b"PK\x03\x04" + bytes(40)])
def test_other_data_are_no_estimators(data, folder):
    (folder / "model.skops").write_bytes(data)
    assert_raises(ek.ParseError, "expected an estimator in a skops file", ek.load, "model.skops")
    with pytest.raises(FileNotFoundError):
        ek.load("absent.skops")


def rewritten(source, out, change, comment=None):
    """A copy of a skops file with another schema, or another comment."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(out, "w") as new:
        new.comment = comment or old.comment
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, change(data) if name == "schema.json" else data)


def test_damaged_files_are_refused(folder):
    ek.save(ek.CircuitImputer().fit([[0.0, 1.0], [1.0, 0.0]]), "model.skops")
    rewritten("model.skops", "cut.skops", lambda data: data[:100])
    rewritten("model.skops", "odd.skops", lambda data: json.dumps({"protocol": 2}).encode())
    for name in ("cut.skops", "odd.skops"):
        assert_raises(ek.ParseError, f"{name}: .* found other or damaged data", ek.load, name)


def test_files_of_other_versions_name_both_versions():
    model = ek.CircuitImputer().fit([[0.0, 1.0], [1.0, 0.0]])
    ek.save(model, "model.skops")
    with zipfile.ZipFile("model.skops") as archive:
        assert archive.comment == f"expectedkernels {ek.__version__}".encode()
    old = b"expectedkernels 0.0.1"
    rewritten("model.skops", "old.skops", lambda data: data, old)
    ek.load("old.skops")
    moved = f'"{type(model.columns_).__module__}"'.encode(), b'"expectedkernels.old"'
    rewritten("model.skops", "moved.skops", lambda data: data.replace(*moved), old)
    message = f"version 0.0.1 of expectedkernels .* version {ek.__version__} lacks"
    assert_raises(ek.ParseError, message, ek.load, "moved.skops")


def test_without_skops_the_extra_is_named(monkeypatch):
    model = ek.CircuitImputer().fit([[0.0, 1.0], [1.0, 0.0]])
    monkeypatch.setitem(sys.modules, "skops.io", None)
    for call in (lambda: ek.save(model, "m.skops"), lambda: ek.load("m.skops")):
        assert_raises(ImportError, r"pip install 'expectedkernels\[skops\]'", call)
