"""Fits, searches and standard deviations of kernel machines, beside other ways to them."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import expectedkernels as ek
from benchmarks.timing import seconds, show

MISSING = 0.3


def deviations() -> None:
    """Standard deviations with 700 support vectors: exact, and to one in a hundred."""
    X, y = _table(1040, 10)
    rows = np.where(np.random.default_rng(1).random((40, 10)) < 0.4, np.nan, X[1000:])
    lines = []
    for density in ("chow_liu", "auto"):
        model = ek.ExpectedSVR(C=10.0, density=density).fit(X[:1000], y[:1000])
        took, std = _timed(lambda model=model: model.predict(rows, return_std=True)[1])
        other, exact = _timed(lambda model=model: model.predict(rows, True, std_tol=0)[1])
        far = np.abs(std / exact - 1).max()
        n = len(model._machine.expansion.points)
        ratio = f"{other / took:.1f} x, {far:.1e} off at most"
        lines.append((f"{density}, {n} vectors", seconds(took), f"{seconds(other)} exact", ratio))
    show("standard deviations of 40 rows, 40 % of 10 columns missing", lines)


def fits() -> None:
    """Fits to rows with holes, beside iterative imputation and a support vector machine."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVR

    lines = []
    for n, d, densities in (
        (2000, 10, ("auto",)),
        (600, 8, ("auto", "chow_liu", "mixture", "gaussian_mixture")),
    ):
        X, y = _table(n, d)
        X = np.where(np.random.default_rng(2).random(X.shape) < MISSING, np.nan, X)
        usual = make_pipeline(IterativeImputer(), StandardScaler(), SVR())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it may stop early
            usual.fit(X, y)
            other = _timed(lambda usual=usual, X=X, y=y: usual.fit(X, y))[0]
        for density in densities:
            model = ek.ExpectedSVR(density=density)
            took = _timed(lambda model=model, X=X, y=y: model.fit(X, y))[0]
            beside = f"{seconds(other)} iterative imputation + SVR"
            what = f"{n} rows of {d} columns, {density}"
            lines.append((what, seconds(took), beside, f"{took / other:.1f} x as long"))
    show(f"fits of ExpectedSVR, {MISSING:.0%} missing", lines)


def searches() -> None:
    """A search over C and epsilon, with and without a memory."""
    from sklearn.model_selection import GridSearchCV

    X, y = _table(400, 8)
    X = np.where(np.random.default_rng(2).random(X.shape) < MISSING, np.nan, X)
    grid = {"C": [0.1, 1.0, 10.0, 100.0], "epsilon": [0.05, 0.1, 0.2]}
    lines = []
    for density in ("chow_liu", "auto"):
        model = ek.ExpectedSVR(density=density)
        other = _timed(lambda model=model: GridSearchCV(model, grid, cv=3).fit(X, y))[0]
        with tempfile.TemporaryDirectory() as folder:
            model.set_params(memory=folder)
            took = _timed(lambda model=model: GridSearchCV(model, grid, cv=3).fit(X, y))[0]
        ratio = f"{other / took:.1f} x"
        lines.append((density, seconds(took), f"{seconds(other)} without a memory", ratio))
    show("12 settings, 3 folds of 400 rows of 8 columns, 30 % missing", lines)


def _table(n: int, d: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) + rng.normal(size=(n, d))
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.3 * rng.normal(size=n)


def _timed(function: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = function()
    return time.perf_counter() - start, found


ALL = [deviations, fits, searches]
