"""Coverage and width of prediction intervals and sets: `python -m benchmarks.intervals [NAME ...]`.

`widths` compares intervals with those of an earlier commit (`--base COMMIT`), and `times` how long
the first ones take; `sets` has prediction sets of classifiers; `shift` has intervals for rows that
are distributed otherwise; `peers` puts conformalized quantile regression of MAPIE beside them (pip
install mapie).
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from typing import Any

import numpy as np

import expectedkernels as ek
from benchmarks.commits import BASE, run, source

COVERAGE = 0.9


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


def diabetes() -> tuple[Any, Any]:
    from sklearn.datasets import load_diabetes

    return load_diabetes(return_X_y=True)


def hidden(X: Any, share: float, seed: int) -> Any:
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


def interval_score(low: Any, high: Any, y: Any) -> float:
    """The score of Winkler: the width, and 2 / alpha times what is missed."""
    away = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return float(np.mean(high - low + 2.0 / (1.0 - COVERAGE) * away))


def summary(y: Any, low: Any, high: Any, by: Any) -> list[float]:
    """Coverage in every fifth of something, in all, and the interval score."""
    inside = (low <= y) & (y <= high)
    fifth = np.argsort(np.argsort(by)) * 5 // len(by)
    parts = [float(inside[fifth == k].mean()) for k in range(5)]
    return [*parts, float(inside.mean()), interval_score(low, high, y)]


def split(X: Any, y: Any, n: int, seed: int, share: float = 0.0) -> tuple[Any, list[float]]:
    """A model of n rows, and what its intervals for the others are like, by fifth of prediction."""
    order = np.random.default_rng(seed).permutation(len(X))
    model = ek.ExpectedKernelRidge().fit(X[order[:n]], y[order[:n]])
    rows = hidden(X[order[n:]], share, seed)
    low, high = model.predict_interval(rows, COVERAGE)
    return model, summary(y[order[n:]], low, high, model.predict(rows))


def figures() -> dict[str, list[float]]:
    """Means over seeds, for the library that is imported."""
    found: dict[str, list[list[float]]] = {}
    for seed in range(8):
        (X, y), (rows, wanted) = wedge(600, seed), wedge(2000, 100 + seed)
        low, high = ek.ExpectedKernelRidge().fit(X, y).predict_interval(rows, COVERAGE)
        found.setdefault("wedge", []).append(summary(wanted, low, high, rows[:, 0]))
    for seed in range(6):
        found.setdefault("Engel", []).append(split(*engel(), 150, seed)[1])
    for seed in range(4):
        for share in (0.0, 0.4):
            name = f"diabetes, {share:.0%} missing"
            found.setdefault(name, []).append(split(*diabetes(), 300, seed, share)[1])
    return {name: np.mean(every, axis=0).tolist() for name, every in found.items()}


def first() -> dict[str, float]:
    """Seconds for first intervals, for the library that is imported: 350 rows, ten columns."""
    X, y = diabetes()
    model = ek.ExpectedKernelRidge().fit(X[:350], y[:350])
    found = {}
    for name, rows in (("complete", X[350:351]), ("incomplete", hidden(X[350:], 0.4, 0))):
        begin = time.perf_counter()
        model.predict_interval(rows)
        found[name] = time.perf_counter() - begin
    return found


def of_commits(name: str, base: str) -> list[Any]:
    """What a function of this module returns for the libraries of a commit and of this tree."""
    results = []
    for commit in (base, "."):
        with source(commit) as src:
            process = run("benchmarks.intervals", src, name)
            output, _ = process.communicate()
        results.append(json.loads(output.splitlines()[-1]))
    return results


def times(base: str = BASE) -> None:
    """Seconds for the first interval of a complete row, and then of 92 incomplete rows."""
    print("\nseconds for the first interval of a complete row, and then of incomplete rows")
    for when, found in zip(("before", "now"), of_commits("first", base), strict=True):
        print(f"  {when:8}{found['complete']:.2f} {found['incomplete']:.2f}")


def widths(base: str = BASE) -> None:
    """Coverage by fifth (of x, or of the prediction), in all, and scores relative to a commit."""
    results = of_commits("figures", base)
    print(f"\ncoverage of {COVERAGE:.0%} intervals by fifth, in all; interval score over before's")
    for name, before in results[0].items():
        for when, values in (("before", before), ("now", results[1][name])):
            ratio = values[-1] / before[-1]
            shown = " ".join(f"{x:.3f}" for x in values[:-1])
            print(f"  {name:24}{when:8}{shown}   {ratio:.3f}")


def tables() -> dict[str, tuple[Any, Any]]:
    from sklearn import datasets
    from sklearn.decomposition import PCA

    found = {
        name: getattr(datasets, f"load_{name}")(return_X_y=True)
        for name in ("iris", "wine", "breast_cancer", "digits")
    }
    found["breast_cancer"] = found["breast_cancer"][0][:, :13], found["breast_cancer"][1]
    X, y = found["digits"]
    found["digits"] = PCA(10, random_state=0).fit_transform(X), y
    return found


def sets(splits: int = 10) -> None:
    """Coverage, that of the worst class (in the mean of splits; mean of the worst), and sizes."""
    print(
        "\ncoverage, worst class, mean of the worst of each split, size: by class | one threshold"
    )
    for name, (X, y) in tables().items():
        for kind in (ek.ExpectedKernelClassifier, ek.ExpectedSVC):
            for share in (0.0, 0.3):
                every = [set_figures(kind(), X, y, seed, share) for seed in range(splits)]
                shown = []
                for found in zip(*every, strict=True):
                    total, sizes, classes = (np.array(x) for x in zip(*found, strict=True))
                    worst = classes.mean(axis=0).min(), classes.min(axis=1).mean()
                    figures = total.mean(), *worst, sizes.mean()
                    shown.append(" ".join(f"{x:.3f}" for x in figures))
                print(f"  {name:14}{kind.__name__:26}{share:4.0%}  {' | '.join(shown)}", flush=True)


def set_figures(model: Any, X: Any, y: Any, seed: int, share: float) -> list[Any]:
    """The coverage of prediction sets, their size, and the coverage of every class."""
    order = np.random.default_rng(seed).permutation(len(X))
    n = min(len(X) // 2, 500)
    train, test = order[:n], order[n : n + 1000]
    model.fit(X[train], y[train])
    rows, found = hidden(X[test], share, seed), []
    for by_class in (True, False):
        members = model.predict_set(rows, COVERAGE, by_class=by_class)
        inside = members[np.arange(len(test)), np.searchsorted(model.classes_, y[test])]
        classes = [inside[y[test] == label].mean() for label in model.classes_]
        found.append((inside.mean(), members.sum(axis=1).mean(), classes))
    return found


def shifted(n: int, d: int, away: float, seed: int) -> tuple[Any, Any]:
    """Columns whose first means are moved, and a target with noise that grows with the first."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[:, 0] += away
    X[:, 1] += 0.5 * away
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + np.exp(0.4 * X[:, 0]) * 0.5 * rng.normal(size=n)
    return np.where(rng.random(X.shape) < 0.15, np.nan, X), y


def shift() -> None:
    """Coverage without and with a reference of 400 rows, for means that are moved."""
    print("\nmoved by, columns: coverage without and with reference, infinite ends; errors")
    for away in (0.0, 0.7, 1.4):
        for d in (2, 8):
            found, refused = [], 0
            for seed in range(8):
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
                    refused += 1
                    continue
                covered = [np.mean((low <= wanted) & (wanted <= high)) for low, high in ends]
                found.append([*covered, np.mean(np.isinf(ends[1][0]))])
            shown = " ".join(f"{x:.3f}" for x in np.mean(found, axis=0))
            print(f"  {away:.1f}, {d}: {shown}; {refused} of 8 raised", flush=True)


def peers() -> None:
    """Conformalized quantile regression of MAPIE, on complete rows, beside intervals of ours."""
    from mapie.regression import ConformalizedQuantileRegressor
    from sklearn.ensemble import HistGradientBoostingRegressor

    print("\ncoverage by fifth, in all, interval score, seconds to the first interval")
    cases: dict[str, Any] = {"Engel": (engel, 150, 6), "diabetes": (diabetes, 300, 4)}
    cases["wedge"] = (lambda: wedge(2600, 0), 600, 4)
    for name, (data, n, seeds) in cases.items():
        for method in ("ours", "MAPIE"):
            found = []
            for seed in range(seeds):
                X, y = data()
                order = np.random.default_rng(seed).permutation(len(X))
                train, test = order[:n], order[n:]
                begin = time.perf_counter()
                if method == "ours":
                    model: Any = ek.ExpectedKernelRidge().fit(X[train], y[train])
                    low, high = model.predict_interval(X[test], COVERAGE)
                else:
                    fit, rest = train[: 2 * n // 3], train[2 * n // 3 :]
                    inner = HistGradientBoostingRegressor(loss="quantile", quantile=0.5)
                    model = ConformalizedQuantileRegressor(inner, confidence_level=COVERAGE)
                    model.fit(X[fit], y[fit]).conformalize(X[rest], y[rest])
                    ends = model.predict_interval(X[test])[1]
                    low, high = ends[:, 0, 0], ends[:, 1, 0]
                taken = time.perf_counter() - begin
                order_by = X[test, 0] if X.shape[1] == 1 else 0.5 * (low + high)
                found.append([*summary(y[test], low, high, order_by), taken])
            shown = " ".join(f"{x:.3f}" for x in np.mean(found, axis=0))
            print(f"  {name:10}{method:8}{shown}", flush=True)


ALL = (widths, times, sets, shift, peers)
INNER = {"figures": figures, "first": first}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*")
    parser.add_argument("--base", default=BASE, help="the commit to compare with")
    asked = parser.parse_args()
    if asked.name and asked.name[0] in INNER:
        print(json.dumps(INNER[asked.name[0]]()))
        return
    for benchmark in ALL:
        if not asked.name or benchmark.__name__ in asked.name:
            benchmark(asked.base) if benchmark in (widths, times) else benchmark()


if __name__ == "__main__":
    main()
