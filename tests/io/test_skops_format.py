"""Files of fitted estimators: what comes back, and which files are refused."""

import json
import os
import sys
import zipfile
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.preprocessing import StandardScaler

import expectedkernels as ek
from assertions import assert_raises
from oracles import with_holes

skops = pytest.importorskip("skops.io")
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
    """Rows with missing values, and numbers to predict; as a frame with a column of text."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    y, X = X @ [1.0, -1.0, 0.5], with_holes(X, 0.2)
    words = np.where(np.isnan(X[:, 1]), None, np.where(X[:, 1] > 0, "up", "down"))
    return pd.DataFrame(X, columns=list("abc")).assign(b=words) if with_text else X, y


@pytest.mark.parametrize("with_text", [False, True], ids=["numbers", "text"])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_estimators_come_back_from_files(estimator, with_text):
    X, y = table(with_text)
    estimator = clone(estimator)
    estimator.fit(X, np.digitize(y, [-0.5, 0.5]) if is_classifier(estimator) else y)
    if hasattr(estimator, "predict_interval"):
        estimator.predict_interval(X)  # what calibrates them is kept
    ek.save(estimator, "model.skops")
    found = ek.load("model.skops")
    assert getattr(found, "feature_names_in_", [None])[0] == ("a" if with_text else None)
    methods = ["predict", "transform", "predict_proba", "predict_interval"]
    asked = [name for name in methods if hasattr(estimator, name)]
    assert asked
    for name in asked:
        np.testing.assert_array_equal(getattr(found, name)(X), getattr(estimator, name)(X))


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


def test_damaged_files_and_those_of_other_versions(folder):
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
    rewritten("model.skops", "cut.skops", lambda data: data[:100])
    rewritten("model.skops", "odd.skops", lambda data: json.dumps({"protocol": 2}).encode())
    for name in ("cut.skops", "odd.skops"):
        assert_raises(ek.ParseError, f"{name}: .* found other or damaged data", ek.load, name)


def test_without_skops_the_extra_is_named(monkeypatch):
    model = ek.CircuitImputer().fit([[0.0, 1.0], [1.0, 0.0]])
    monkeypatch.setitem(sys.modules, "skops.io", None)
    for call in (lambda: ek.save(model, "m.skops"), lambda: ek.load("m.skops")):
        assert_raises(ImportError, r"pip install 'expectedkernels\[skops\]'", call)
