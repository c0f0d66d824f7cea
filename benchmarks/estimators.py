"""Prediction intervals and sets, and landmark models of many rows."""

from __future__ import annotations

import resource
import tempfile
import warnings
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingRegressor

import expectedkernels as ek
from benchmarks.timing import best_of, data_file, divided, in_fresh_process, incomplete, show, timed
from expectedkernels.estimators import calibration

COVERAGE = 0.9
SPLITS = 10


def wedge(n: int, seed: int) -> tuple[Any, Any]:
    """One column, and a target whose noise grows with it."""
    rng = np.random.default_rng(seed)
    x = rng.random(n)
    return x[:, None], x + (0.05 + 2.0 * x) * rng.normal(size=n)


def engel() -> tuple[Any, Any]:
    """Expenses for food by income."""
    from statsmodels.datasets import engel as data

    table = data.load_pandas().data
    return table[["income"]].to_numpy(), table["foodexp"].to_numpy()


INTERVALS: dict[str, tuple[Any, int, int]] = {
    "Engel": (engel, 150, 6),
    "diabetes": (partial(datasets.load_diabetes, return_X_y=True), 300, 4),
    "wedge": (partial(wedge, 2600, 0), 600, 4),
}
"""Tables, numbers of training rows, and of splits."""


def ours(X: Any, y: Any, rows: Any) -> Any:
    return ek.ExpectedKernelRidge().fit(X, y).predict_interval(rows, COVERAGE)


def constant_noise(X: Any, y: Any, rows: Any) -> Any:
    with patch.object(calibration, "ALPHAS", np.array([1e15])):  # of the fit to log errors
        return ours(X, y, rows)


def mapie(X: Any, y: Any, rows: Any) -> Any:
    """Conformalized quantile regression."""
    from mapie.regression import ConformalizedQuantileRegressor

    inner, n = HistGradientBoostingRegressor(loss="quantile", quantile=0.5), 2 * len(X) // 3
    model = ConformalizedQuantileRegressor(inner, confidence_level=COVERAGE)
    model.fit(X[:n], y[:n]).conformalize(X[n:], y[n:])
    return model.predict_interval(rows)[1][:, :, 0].T


def summary(y: Any, low: Any, high: Any, by: Any) -> list[float]:
    """Coverage in every fifth of something, in all, and the score of Winkler.

    It is the width, and 2 / alpha times what is missed.
    """
    inside = (low <= y) & (y <= high)
    fifth = np.argsort(np.argsort(by)) * 5 // len(by)
    away = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    score = np.mean(high - low + 2.0 / (1.0 - COVERAGE) * away)
    return [*(inside[fifth == k].mean() for k in range(5)), inside.mean(), score]


def interval_widths() -> None:
    """Coverage of intervals by fifth, and scores, beside those of constant noise and of MAPIE."""
    methods = (ours, constant_noise, *([mapie] if find_spec("mapie") else []))
    lines = []
    for (name, (data, n, seeds)), ends in product(INTERVALS.items(), methods):
        found = []
        for seed in range(seeds):
            *train, rows, wanted = divided(*data(), n, seed)
            taken, (low, high) = timed(ends, *train, rows)
            by = rows[:, 0] if rows.shape[1] == 1 else 0.5 * (low + high)
            found.append([*summary(wanted, low, high, by), taken])
        lines.append((name, ends.__name__, *means(found)))
    title = f"Coverage of {COVERAGE:.0%} intervals for complete rows, scores and seconds"
    show(title, lines, ("", "", *(f"fifth {i}" for i in range(1, 6)), "all", "score", "seconds"))


def means(found: Any) -> list[str]:
    return [f"{x:.3f}" for x in np.mean(found, axis=0)]


def prediction_sets() -> None:
    """Coverage, that of the worst class (in the mean of splits; mean of the worst), and sizes."""
    names = ("iris", "wine", "breast_cancer", "digits")
    fewer = {"breast_cancer": lambda X: X[:, :13], "digits": PCA(10, random_state=0).fit_transform}
    kinds, lines = (ek.ExpectedKernelClassifier, ek.ExpectedSVC), []
    for name, kind, share in product(names, kinds, (0.0, 0.3)):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        X = fewer.get(name, np.asarray)(X)
        splits = np.array([set_figures(kind(), X, y, seed, share) for seed in range(SPLITS)])
        cells = []
        for all_rows, size, *classes in splits.transpose(1, 2, 0):
            worst = np.mean(classes, axis=1).min(), np.min(classes, axis=0).mean()
            cells += [f"{x:.3f}" for x in (all_rows.mean(), *worst, size.mean())]
        lines.append((name, kind.__name__, f"{share:.0%}", *cells))
    heads = ("coverage", "worst class", "worst of a split", "size")
    title = "Prediction sets by class, and by one threshold"
    show(title, lines, ("", "", "missing", *heads, *heads))


def set_figures(model: Any, X: Any, y: Any, seed: int, share: float) -> list[Any]:
    """The coverage of prediction sets, their size, and the coverage of every class."""
    X_train, y_train, X_test, y_test = divided(X, y, min(len(X) // 2, 500), seed)
    model.fit(X_train, y_train)
    rows, wanted, found = incomplete(X_test[:1000], share, seed), y_test[:1000], []
    for by_class in (True, False):
        members = model.predict_set(rows, COVERAGE, by_class=by_class)
        inside = members[np.arange(len(rows)), np.searchsorted(model.classes_, wanted)]
        classes = [inside[wanted == label].mean() for label in model.classes_]
        found.append([inside.mean(), members.sum(axis=1).mean(), *classes])
    return found


def shifted(n: int, d: int, away: float, seed: int) -> tuple[Any, Any]:
    """Columns whose first means are moved, and a target with noise that grows with the first."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[:, 0] += away
    X[:, 1] += 0.5 * away
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + np.exp(0.4 * X[:, 0]) * 0.5 * rng.normal(size=n)
    return incomplete(X, 0.15, rng), y


def covariate_shift() -> None:
    """Coverage without and with a reference of 400 rows, for means that are moved."""
    lines = []
    for away, d in ((x, d) for x in (0.0, 0.7, 1.4) for d in (2, 8)):
        found, seeds = [], range(8)
        for seed in seeds:
            X, y = shifted(400, d, 0.0, seed)
            rows, wanted = shifted(1000, d, away, 100 + seed)
            reference = shifted(400, d, away, 200 + seed)[0]
            model = ek.ExpectedKernelRidge().fit(X, y)
            ends = [model.predict_interval(rows)]
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    ends.append(model.predict_interval(rows, reference=reference))
            except ek.DataError:
                continue
            covered = [np.mean((low <= wanted) & (wanted <= high)) for low, high in ends]
            found.append([*covered, np.mean(np.isinf(ends[1][0]))])
        lines.append((f"{away:.1f}", d, *means(found), f"{len(seeds) - len(found)} of 8"))
    heads = ("moved by", "columns", "coverage", "with reference", "infinite", "raised")
    show(f"Coverage of {COVERAGE:.0%} intervals under covariate shift", lines, heads)


SHARES = (0.0, 0.3, 0.5)
"""Shares of missing values in test rows."""
MISSING = tuple(f"{share:.0%} missing" for share in SHARES)
TARGETS = {"abalone": "Rings", "elevators": "Goal", "delta_ailerons": "Sa"}


def diamonds() -> tuple[Any, Any]:
    """53 940 x 9, three of them text, and the logarithms of prices."""
    plotnine = import_module("plotnine")
    table = pd.read_csv(Path(plotnine.__file__).parent / "data" / "diamonds.csv")
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


def iterative() -> Any:
    """Iterative imputation, Nyström features and ridge regression."""
    from sklearn import compose, impute, kernel_approximation, linear_model, pipeline, preprocessing
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401

    text = compose.make_column_selector(dtype_include=["category", "object", "str"])
    bits = preprocessing.OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    encode = compose.make_column_transformer((bits, text), remainder="passthrough")
    imputer, scaler = impute.IterativeImputer(random_state=0), preprocessing.StandardScaler()
    kernel = kernel_approximation.Nystroem(n_components=500, random_state=0)
    ridge = linear_model.RidgeCV(np.logspace(-3, 3, 7))
    return pipeline.make_pipeline(encode, imputer, scaler, kernel, ridge)


OPTIONS: Any = {"random_state": 0, "categorical_features": "from_dtype"}
boosting = partial(HistGradientBoostingRegressor, **OPTIONS)
METHODS = {"expected": ek.ExpectedKernelRidge, "boosting": boosting, "iterative": iterative}


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
        for missing, method in product((0.0, 0.2), list(METHODS)[: 3 if table is diamonds else 2]):
            found = in_fresh_process(measure, method, table, n, missing)
            what = f"{table.__name__}, {n} rows, {missing:.0%} missing"
            lines.append((what, method, *(f"{x:.3f}" for x in found)))
    heads = ("training rows", "", "fit, s", "predict, s", "peak, GiB", *MISSING)
    show("Fits of many rows, and errors by missing values in test rows", lines, heads)


def measure(method: str, table: Any, n: int, missing: float) -> list[float]:
    """Seconds of a fit and of predictions, the peak of memory in GiB, and errors."""
    warnings.simplefilter("ignore")
    X, y, *test = divided(*table(), n, n_test=10_000)
    X = incomplete(X, missing, 2)
    if method == "boosting":
        text = [name for name in X if X[name].dtype.kind not in "fi"]
        X, test[0] = (x.astype(dict.fromkeys(text, "category")) for x in (X, test[0]))
    fit, model = timed(METHODS[method]().fit, X, y)
    predict, found = timed(errors, model, *test)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return [fit, predict / len(SHARES), peak, *found]


HOURS = [interval_widths, prediction_sets, covariate_shift]
HOURS += [landmark_loss, model_costs, many_rows]
