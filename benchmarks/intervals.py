"""Intervals and probabilities, with more and more values missing.

Every table is split at random several times, and values of the test rows are hidden completely at
random: 90 % of targets should lie in 90 % intervals at any share.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

import expectedkernels as ek
from benchmarks.penguins import show

HIDDEN = (0.0, 0.3, 0.6, 0.9)
TRAIN, TEST, REPEATS = 300, 300, 8
FILES = {
    "abalone": "abalone.data",
    "insurance": "insurance.csv",
    "elevators": "elevators.data",
    "delta_ailerons": "delta_ailerons.data",
}


def intervals() -> None:
    """Coverage of 90 % intervals, and their mean width in standard deviations of the target."""
    for name, (X, y) in regression_tables().items():
        lines = []
        for model in (ek.ExpectedKernelRidge(alpha=0.1), ek.ExpectedSVR()):
            found = np.mean([_split(model, X, y, seed) for seed in range(REPEATS)], axis=0)
            lines.append((type(model).__name__, *(f"{c:.1%}, {w:.2f}" for c, w in found)))
        title = f"{name}: share of targets in 90 % intervals, and widths; {REPEATS} splits"
        show(title, [("", *(f"{share:.0%} hidden" for share in HIDDEN)), *lines])


def probabilities() -> None:
    """The log loss of probabilities of classes, and the share of classes that are wrong."""
    for name, (X, y) in _classes().items():
        lines = []
        for model in (ek.ExpectedKernelClassifier(), ek.ExpectedSVC()):
            found = np.mean([_losses(model, X, y, seed) for seed in range(REPEATS)], axis=0)
            lines.append((type(model).__name__, *(f"{x:.3f}, {e:.1%}" for x, e in found)))
        title = f"{name}: log loss, and share of wrong classes; {REPEATS} splits"
        show(title, [("", *(f"{share:.0%} hidden" for share in HIDDEN)), *lines])


def _classes() -> dict[str, tuple[Any, Any]]:
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

    tables = {
        f.__name__[5:]: f(return_X_y=True) for f in (load_iris, load_wine, load_breast_cancer)
    }
    X, y = load_diabetes(return_X_y=True)
    return {**tables, "thirds of diabetes": (X, np.digitize(y, np.quantile(y, [1 / 3, 2 / 3])))}


def _losses(model: Any, X: Any, y: Any, seed: int) -> Any:
    """The log loss and the share of wrong classes for every share of hidden values."""
    from sklearn.base import clone
    from sklearn.metrics import log_loss

    rng, found = np.random.default_rng(seed), []
    half = rng.permutation(len(X))[: min(TRAIN, len(X) // 2)]
    test = np.setdiff1d(np.arange(len(X)), half)
    fitted = clone(model).fit(X[half], y[half])
    for share in HIDDEN:
        rows = np.where(rng.random(X[test].shape) < share, np.nan, X[test])
        wrong = (fitted.predict(rows) != y[test]).mean()
        found.append((log_loss(y[test], fitted.predict_proba(rows)), wrong))
    return found


def regression_tables() -> dict[str, tuple[Any, Any]]:
    import pandas as pd
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True, as_frame=True)
    tables = {"diabetes": (X, y.to_numpy())}
    folder = Path(os.environ.get("EXPECTEDKERNELS_DATA", ".")) / "regression"
    for name, file in FILES.items():
        if (folder / file).is_file():
            frame = pd.read_csv(folder / file)
            tables[name] = frame.iloc[:, :-1], frame.iloc[:, -1].to_numpy(dtype=float)
        else:
            print(f"(no {file}: set EXPECTEDKERNELS_DATA to the folder with regression/)")
    return tables


def _split(model: Any, X: Any, y: Any, seed: int) -> Any:
    """Coverage and width for every share of hidden values."""
    from sklearn.base import clone

    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))
    train, test = order[:TRAIN], order[TRAIN : TRAIN + TEST]
    fitted, found = clone(model).fit(X.iloc[train], y[train]), []
    for share in HIDDEN:
        rows = X.iloc[test].astype({n: float for n in X.columns if X[n].dtype.kind in "iu"})
        low, high = fitted.predict_interval(rows.mask(rng.random(rows.shape) < share))
        inside = (low <= y[test]) & (y[test] <= high)
        found.append((inside.mean(), (high - low).mean() / y.std()))
    return found


ALL = [intervals, probabilities]
