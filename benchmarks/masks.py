"""Kernels that know masks, where being missing tells something and where it does not.

Every table is split at random several times. About 30 % of the values are hidden, in the rows for
fitting and in those for testing alike: completely at random, or the larger ones. For the latter, a
value z standard deviations above the mean of its column (categories are numbered in the order of
their names) is hidden with probability 1 / (1 + exp(-3 (z - c))), with c such that 30 % of the
table are. All methods see the same rows and holes, and choose gamma by the same cross-validation on
the rows for fitting. The error is the root of the mean squared one over the standard deviation of
the target in the test rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

import expectedkernels as ek
from benchmarks.intervals import regression_tables
from benchmarks.penguins import show

SHARE, STEEPNESS = 0.3, 3.0
TRAIN, TEST, REPEATS = 300, 200, 3
C, GAMMAS = 10.0, (0.01, 0.03, 0.1)


def masks() -> None:
    """Errors without masks, with those that "auto" chooses, and by imputation with indicators."""
    names = ("no masks", 'mask_kernel="auto"', "iterative + indicators", "rates chosen")
    for what, hide in (("completely at random", _at_random), ("the larger ones", _larger)):
        lines, every = [], []
        for name, (X, y) in regression_tables().items():
            found = [_split(X, y, hide, seed) for seed in range(REPEATS)]
            every.append(np.mean([errors for errors, _ in found], axis=0))
            rates = " ".join(f"{rate:.2g}" for _, rate in found)
            lines.append((name, *(f"{error:.3f}" for error in every[-1]), rates))
        lines.append(("mean", *(f"{error:.4f}" for error in np.mean(every, axis=0)), ""))
        title = f"{SHARE:.0%} hidden in fit and test, {what}: RMSE / std(y), {REPEATS} splits"
        show(title, [("", *names), *lines])


def _split(X: Any, y: Any, hide: Callable[[Any, Any], Any], seed: int) -> tuple[list[float], float]:
    """The error of every method on one split, and the rate of masks that was chosen."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))[: TRAIN + TEST]
    table, target = X.iloc[order], y[order]
    holes, n = table.mask(hide(table, rng)), min(TRAIN, len(order) // 2)
    errors, rate = [], 0.0
    for model in _methods(X):
        with warnings.catch_warnings():  # of imputers that have not converged
            warnings.simplefilter("ignore")
            fitted = model.fit(holes.iloc[:n], target[:n])
            away = fitted.predict(holes.iloc[n:]) - target[n:]
        errors.append(float(np.sqrt((away**2).mean()) / target[n:].std()))
        rate = max(rate, getattr(fitted.best_estimator_, "mask_rate_", 0.0))
    return errors, rate


def _at_random(table: Any, rng: Any) -> Any:
    return rng.random(table.shape) < SHARE


def _larger(table: Any, rng: Any) -> Any:
    """Which values are hidden if the larger ones are, mostly."""
    codes = [
        table[name]
        if table[name].dtype.kind in "iuf"
        else np.unique(table[name], return_inverse=True)[1]
        for name in table.columns
    ]
    z = np.stack(codes, axis=1).astype(float)
    spread = z.std(axis=0)
    z = (z - z.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    centre = brentq(lambda c: expit(STEEPNESS * (z - c)).mean() - SHARE, -10.0, 10.0)
    return rng.random(z.shape) < expit(STEEPNESS * (z - centre))


def _methods(X: Any) -> list[Any]:
    from sklearn.model_selection import GridSearchCV

    plain, masked = (ek.ExpectedSVR(C=C, mask_kernel=kind) for kind in (None, "auto"))
    return [
        GridSearchCV(model, {name: GAMMAS}, cv=3)
        for model, name in (
            (plain, "gamma"),
            (masked, "gamma"),
            (_iterative(X), "regressor__svr__gamma"),
        )
    ]


def _iterative(X: Any) -> Any:
    """Iterative imputation of standardised numbers and bits, with indicators, before an SVR."""
    from sklearn.compose import TransformedTargetRegressor, make_column_transformer
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer, MissingIndicator, SimpleImputer
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    from sklearn.svm import SVR

    numeric = [name for name in X.columns if X[name].dtype.kind in "iuf"]
    text = [name for name in X.columns if name not in numeric]
    bits = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
    )
    columns = make_column_transformer(
        (StandardScaler(), numeric), (bits, text), sparse_threshold=0.0
    )
    filled = make_pipeline(columns, IterativeImputer(random_state=0, max_iter=20))
    both = make_union(filled, MissingIndicator(features="all"))
    model = make_pipeline(both, StandardScaler(), SVR(C=C))
    return TransformedTargetRegressor(model, transformer=StandardScaler())


ALL = [masks]
