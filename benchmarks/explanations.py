"""Exact explanations of predictions, and gains of missing values, beside asking row by row."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import expectedkernels as ek
from benchmarks.timing import seconds, show

N_TRAIN, N_ROWS = 400, 100
A_FEW = 32
"""The naive way is measured for so many rows of evidence."""


def shapley() -> None:
    """All subsets of 12 columns for 100 rows, and the other two methods."""
    X, model = _fitted(12)
    naive = _each(model, np.where(np.random.default_rng(0).random((A_FEW, 12)) < 0.5, np.nan, X[0]))
    rows = []
    for what, options, n in (
        ("all subsets", {"method": "exact"}, N_ROWS * 2**12),
        ("128 permutations", {"method": "permutations", "rng": 0}, N_ROWS * 128 * 13),
        ("independent columns", {"method": "independent"}, N_ROWS * 2**12),
    ):
        took = _seconds(lambda options=options: ek.shapley_values(model, X[:N_ROWS], **options))
        rows.append((what, seconds(took), seconds(n * naive), f"{n * naive / took:.0f} x"))
    show("Shapley values of 12 columns for 100 rows, beside one prediction at a time", rows)


def acquisition() -> None:
    """The gains of 10 columns, half of them missing, for 100 rows."""
    X, model = _fitted(10)
    hidden = np.where(np.random.default_rng(0).random((N_ROWS, 10)) < 0.5, np.nan, X[:N_ROWS])
    naive = int(np.isnan(hidden).sum()) * 10 * _each(model, hidden[:A_FEW])
    took = _seconds(lambda: ek.acquisition_gain(model, hidden))
    title = "gains of 10 columns for 100 rows, beside one prediction per bin at a time"
    show(title, [("half missing", seconds(took), seconds(naive), f"{naive / took:.0f} x")])


def _fitted(n_columns: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(N_TRAIN, 3))
    X = factors @ rng.normal(size=(3, n_columns)) + rng.normal(size=(N_TRAIN, n_columns))
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=N_TRAIN)
    return X, ek.ExpectedSVR().fit(X, y)


def _each(model: Any, rows: Any) -> float:
    """The time of one prediction, asked for row by row."""
    return _seconds(lambda: [model.predict(row[None]) for row in rows]) / len(rows)


def _seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


ALL = [shapley, acquisition]
