"""Prediction intervals and sets, and landmark models of many rows."""

from __future__ import annotations

import resource
import tempfile
import warnings
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.decomposition import PCA

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


diabetes = partial(datasets.load_diabetes, return_X_y=True)


def summary(y: Any, low: Any, high: Any, by: Any) -> list[float]:
    """Coverage in every fifth of something, in all, and the score of Winkler.

    It is the width, and 2 / alpha times what is missed.
    """
    inside = (low <= y) & (y <= high)
    fifth = np.argsort(np.argsort(by)) * 5 // len(by)
    parts = [float(inside[fifth == k].mean()) for k in range(5)]
    away = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    score = float(np.mean(high - low + 2.0 / (1.0 - COVERAGE) * away))
    return [*parts, float(inside.mean()), score]


def means(found: Any) -> list[str]:
    return [f"{x:.3f}" for x in np.mean(found, axis=0)]


FIFTHS = (*(f"fifth {i + 1}" for i in range(5)), "all")


def interval_widths() -> None:
    """Coverage by fifth (of x, or of the prediction), and scores beside those of constant noise."""
    cases: dict[str, Any] = {"wedge": [(*wedge(600, s), *wedge(2000, 100 + s)) for s in range(8)]}
    cases["Engel"] = [divided(*engel(), 150, seed) for seed in range(6)]
    splits = [divided(*diabetes(), 300, seed) for seed in range(4)]
    for share in (0.0, 0.4):
        rows = [(X, y, incomplete(Z, share, s), z) for s, (X, y, Z, z) in enumerate(splits)]
        cases[f"diabetes, {share:.0%} missing"] = rows
    lines = []
    for name, case in cases.items():
        scores = []
        for noise, alphas in (("constant", np.array([1e15])), ("by row", calibration.ALPHAS)):
            found = []
            for X, y, rows, wanted in case:
                with patch.object(calibration, "ALPHAS", alphas):
                    model = ek.ExpectedKernelRidge().fit(X, y)
                    ends = model.predict_interval(rows, COVERAGE)
                by = rows[:, 0] if name == "wedge" else model.predict(rows)
                found.append(summary(wanted, *ends, by))
            *cells, _ = means(found)
            scores.append(np.mean(found, axis=0)[-1])
            lines.append((name, noise, *cells, f"{scores[-1] / scores[0]:.3f}"))
    title = (
        f"Coverage of {COVERAGE:.0%} intervals, and interval scores over those of constant noise"
    )
    show(title, lines, ("", "noise", *FIFTHS, "score"))


def prediction_sets() -> None:
    """Coverage, that of the worst class (in the mean of splits; mean of the worst), and sizes."""
    names = ("iris", "wine", "breast_cancer", "digits")
    tables = {name: getattr(datasets, f"load_{name}")(return_X_y=True) for name in names}
    fewer = {"breast_cancer": lambda X: X[:, :13], "digits": PCA(10, random_state=0).fit_transform}
    print(
        "\ncoverage, worst class, mean of the worst of each split, size: by class | one threshold"
    )
    for name, (X, y) in tables.items():
        X = fewer.get(name, np.asarray)(X)
        for kind in (ek.ExpectedKernelClassifier, ek.ExpectedSVC):
            for share in (0.0, 0.3):
                every = [set_figures(kind(), X, y, seed, share) for seed in range(SPLITS)]
                shown = []
                for found in zip(*every, strict=True):
                    total, sizes, classes = (np.array(x) for x in zip(*found, strict=True))
                    worst = classes.mean(axis=0).min(), classes.min(axis=1).mean()
                    shown.append(" ".join(means([(total.mean(), *worst, sizes.mean())])))
                print(f"  {name:14}{kind.__name__:26}{share:4.0%}  {' | '.join(shown)}", flush=True)


def set_figures(model: Any, X: Any, y: Any, seed: int, share: float) -> list[Any]:
    """The coverage of prediction sets, their size, and the coverage of every class."""
    X_train, y_train, X_test, y_test = divided(X, y, min(len(X) // 2, 500), seed)
    model.fit(X_train, y_train)
    rows, wanted, found = incomplete(X_test[:1000], share, seed), y_test[:1000], []
    for by_class in (True, False):
        members = model.predict_set(rows, COVERAGE, by_class=by_class)
        inside = members[np.arange(len(rows)), np.searchsorted(model.classes_, wanted)]
        classes = [inside[wanted == label].mean() for label in model.classes_]
        found.append((inside.mean(), members.sum(axis=1).mean(), classes))
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


def intervals_beside_mapie() -> None:
    """Conformalized quantile regression of MAPIE, on complete rows, beside intervals of ours."""
    from mapie.regression import ConformalizedQuantileRegressor
    from sklearn.ensemble import HistGradientBoostingRegressor

    def ours(X: Any, y: Any, rows: Any) -> Any:
        return ek.ExpectedKernelRidge().fit(X, y).predict_interval(rows, COVERAGE)

    def theirs(X: Any, y: Any, rows: Any) -> Any:
        inner, n = HistGradientBoostingRegressor(loss="quantile", quantile=0.5), 2 * len(X) // 3
        model = ConformalizedQuantileRegressor(inner, confidence_level=COVERAGE)
        model.fit(X[:n], y[:n]).conformalize(X[n:], y[n:])
        return model.predict_interval(rows)[1][:, :, 0].T

    cases = {"Engel": (engel, 150, 6), "diabetes": (diabetes, 300, 4)}
    cases["wedge"] = (partial(wedge, 2600, 0), 600, 4)
    lines = []
    for name, (data, n, seeds) in cases.items():
        for method, ends in (("ours", ours), ("MAPIE", theirs)):
            found = []
            for seed in range(seeds):
                *train, rows, wanted = divided(*data(), n, seed)
                taken, (low, high) = timed(ends, *train, rows)
                by = rows[:, 0] if rows.shape[1] == 1 else 0.5 * (low + high)
                found.append([*summary(wanted, low, high, by), taken])
            lines.append((name, method, *means(found)))
    title = "Coverage by fifth and in all, interval scores, and seconds to the first intervals"
    show(title, lines, ("", "", *FIFTHS, "score", "seconds"))


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


HOURS = [interval_widths, prediction_sets, covariate_shift, intervals_beside_mapie]
HOURS += [landmark_loss, model_costs, many_rows]
