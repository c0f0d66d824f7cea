"""Landmark models of many rows, compared with models of all rows and other libraries."""

from __future__ import annotations

import resource
import tempfile
import warnings
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import expectedkernels as ek
from benchmarks.timing import best_of, data_file, divided, in_fresh_process, incomplete, show, timed

SHARES = (0.0, 0.3, 0.5)
"""Shares of missing values in test rows."""
MISSING = tuple(f"{share:.0%} missing" for share in SHARES)
TARGETS = {"abalone": "Rings", "elevators": "Goal", "delta_ailerons": "Sa"}


def diamonds() -> tuple[Any, Any]:
    """53 940 x 9, three of them text, and the logarithms of prices."""
    found = find_spec("plotnine")
    if found is None or found.origin is None:
        raise ImportError("the diamonds come with plotnine: pip install plotnine")
    table = pd.read_csv(Path(found.origin).parent / "data" / "diamonds.csv")
    sizes = ["x", "y", "z"]
    table[sizes] = table[sizes].where(table[sizes] > 0)  # zeros stand for what is not known
    return table.drop(columns="price"), np.log(table["price"].to_numpy())


def latent(n: int = 510_000) -> tuple[Any, Any]:
    """Ten columns of three latent factors, and a smooth function of them."""
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(n, 3))
    X = factors @ rng.normal(size=(3, 10)) + 0.6 * rng.normal(size=(n, 10))
    f = 2.0 * np.sin(X[:, 0]) + X[:, 1] * X[:, 2] / 3.0 + np.abs(X[:, 3]) - 0.5 * X[:, 4]
    return pd.DataFrame(X, columns=[f"x{i}" for i in range(10)]), f + 0.5 * rng.normal(size=n)


def errors(model: Any, X: Any, y: Any) -> list[float]:
    """Root mean squared errors, for every share of missing values."""
    found = (model.predict(incomplete(X, share, 1)) for share in SHARES)
    return [float(np.sqrt(np.mean((p - y) ** 2))) for p in found]


def landmark_loss() -> None:
    """Errors of 500 landmarks over those of all rows: 3 200 rows, 800 test rows, three splits."""
    lines = []
    for name, target in TARGETS.items():
        if (path := data_file(f"regression/{name}.data")) is None:
            continue
        table, ratios = pd.read_csv(path), []
        y = table[target].to_numpy()
        for seed in range(3):
            rows = table.drop(columns=target), (y - y.mean()) / y.std()
            X_train, y_train, *test = divided(*rows, 3200, seed, 800)
            full = ek.ExpectedKernelRidge(density="gaussian", n_landmarks=None)
            full.fit(X_train, y_train)
            same = {"alpha": full.alpha_, "gamma": full.gamma_, "density": "gaussian"}
            few = ek.ExpectedKernelRidge(n_landmarks=500, **same).fit(X_train, y_train)
            own = ek.ExpectedKernelRidge().fit(X_train, y_train)
            ratios.append([np.divide(errors(m, *test), errors(full, *test)) for m in (few, own)])
        for what, ratio in zip(("same parameters", "own"), np.mean(ratios, axis=0), strict=True):
            lines.append((name, what, *(f"{x:.4f}" for x in ratio)))
    show("Errors over those of all rows, mean of three splits", lines, ("", "", *MISSING))


def expected() -> Any:
    return ek.ExpectedKernelRidge()


def boosting() -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(random_state=0, categorical_features="from_dtype")


def iterative() -> Any:
    """Iterative imputation, Nyström features and ridge regression."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.experimental import enable_iterative_imputer
    from sklearn.impute import IterativeImputer
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    assert enable_iterative_imputer
    text = make_column_selector(dtype_include=["category", "object", "str"])
    bits = (OneHotEncoder(sparse_output=False, handle_unknown="ignore"), text)
    encode = make_column_transformer(bits, remainder="passthrough")
    kernel = Nystroem(n_components=500, random_state=0)
    imputer = IterativeImputer(random_state=0)
    return make_pipeline(encode, imputer, StandardScaler(), kernel, RidgeCV(np.logspace(-3, 3, 7)))


def model_costs() -> None:
    """Seconds of models of 300 to 50 000 rows and ten columns, 20 % of whose values are missing."""
    lines = []
    for n in (300, 2_000, 50_000):
        X, y, test, _ = divided(*latent(n + 1000), n)
        fit, model = timed(ek.ExpectedKernelRidge().fit, incomplete(X, 0.2, 1), y)
        calibrate, _ = timed(model.calibrate)
        gaps = incomplete(test, 0.3, 1)
        every = [some for rows in (test, gaps) for some in (rows[:1], rows)]
        seconds = [best_of(partial(model.predict, some), 5) for some in every]
        seconds.append(best_of(partial(model.predict_interval, gaps), 5))
        with tempfile.TemporaryDirectory() as folder:
            ek.save(model, path := Path(folder) / "model.skops")
            size = f"{path.stat().st_size / 2**20:.1f} MiB"
        lines.append((n, *(f"{x:.3f}" for x in (fit, calibrate, *seconds)), size))
    heads = ("one complete row", "1000", "one incomplete row", "1000", "1000 intervals")
    show("Seconds, and size of the file", lines, ("rows", "fit", "calibrate", *heads, "file"))


def many_rows() -> None:
    """Fits of 50 000 x 9 and 500 000 x 10 rows, each in a fresh process, and of other models."""
    lines = []
    for table, n in ((diamonds, 50_000), (latent, 500_000)):
        methods = (expected, boosting, iterative) if table is diamonds else (expected, boosting)
        for missing in (0.0, 0.2):
            for method in methods:
                found = in_fresh_process(measure, method, table, n, missing)
                what = f"{table.__name__}, {n} rows, {missing:.0%} missing"
                lines.append((what, method.__name__, *(f"{x:.3f}" for x in found)))
    heads = ("training rows", "", "fit, s", "predict, s", "peak, GiB", *MISSING)
    show("Fits of many rows, and errors by missing values in test rows", lines, heads)


def measure(method: Any, table: Any, n: int, missing: float) -> list[float]:
    """Seconds of a fit and of predictions, the peak of memory in GiB, and errors."""
    warnings.simplefilter("ignore")
    X, y, *test = divided(*table(), n, n_test=10_000)
    X = incomplete(X, missing, 2)
    if method is boosting:
        text = [name for name in X if X[name].dtype.kind not in "fi"]
        X, test[0] = (x.astype(dict.fromkeys(text, "category")) for x in (X, test[0]))
    fit, model = timed(method().fit, X, y)
    predict, found = timed(errors, model, *test)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return [fit, predict / len(SHARES), peak, *found]


ALL = [landmark_loss, model_costs, many_rows]
