"""Coverage and width of prediction intervals and sets."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn import datasets
from sklearn.decomposition import PCA

import expectedkernels as ek
from benchmarks.timing import divided, incomplete, show, timed
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


ALL = [interval_widths, prediction_sets, covariate_shift, intervals_beside_mapie]
