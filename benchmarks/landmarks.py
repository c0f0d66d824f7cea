"""Landmark models of many rows: `python -m benchmarks.landmarks [loss] [costs] [rows] [tables]`.

`loss` compares 500 landmarks with all rows; `costs` times models of 300 to 50 000 rows; `rows` fits
50 000 and 500 000 rows in fresh processes; `tables` puts other models beside them. Tables come from
the folder that EXPECTEDKERNELS_DATA names, and the diamonds from the package plotnine, where it is
installed.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import expectedkernels as ek
from benchmarks.timing import best_of, timed

SHARES = (0.0, 0.3, 0.5)
"""Shares of missing values in test rows."""
TARGETS = {"abalone": "Rings", "elevators": "Goal", "delta_ailerons": "Sa"}


def regression(name: str, target: str) -> tuple[Any, Any]:
    folder = Path(os.environ["EXPECTEDKERNELS_DATA"]) / "regression"
    table = pd.read_csv(folder / f"{name}.data")
    y = table[target].to_numpy()
    return table.drop(columns=target), (y - y.mean()) / y.std()


def diamonds() -> tuple[Any, Any]:
    """53 940 x 9, three of them text, and the logarithms of prices."""
    found = find_spec("plotnine")
    if found is None or found.origin is None:
        sys.exit("The diamonds come with the package plotnine: pip install plotnine")
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


def divided(X: Any, y: Any, n: int, n_test: int, seed: int = 0) -> tuple[Any, Any, Any, Any]:
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = order[:n], order[n : n + n_test]
    return X.iloc[train], y[train], X.iloc[test], y[test]


def hidden(X: Any, share: float, seed: int = 1) -> Any:
    return X.mask(np.random.default_rng(seed).random(X.shape) < share)


def errors(model: Any, X: Any, y: Any) -> list[float]:
    """Root mean squared errors, for every share of missing values."""
    found = (model.predict(hidden(X, share)) for share in SHARES)
    return [float(np.sqrt(np.mean((p - y) ** 2))) for p in found]


def loss() -> None:
    """Errors of 500 landmarks over those of all rows: 3 200 rows, 800 test rows, three splits."""
    print("\nerrors over those of all rows, at 0, 30, 50 % missing; mean of three splits")
    for name, target in TARGETS.items():
        ratios = []
        for seed in range(3):
            X, y, *test = divided(*regression(name, target), 3200, 800, seed)
            full = ek.ExpectedKernelRidge(density="gaussian", n_landmarks=None).fit(X, y)
            same = {"alpha": full.alpha_, "gamma": full.gamma_, "density": "gaussian"}
            few = ek.ExpectedKernelRidge(n_landmarks=500, **same).fit(X, y)
            chosen = ek.ExpectedKernelRidge().fit(X, y)
            own = (errors(few, *test), errors(chosen, *test))
            ratios.append([np.divide(found, errors(full, *test)) for found in own])
        for what, ratio in zip(("same parameters", "own"), np.mean(ratios, axis=0), strict=True):
            print(f"  {name:16}{what:18}" + "".join(f"{x:8.4f}" for x in ratio))


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


def costs() -> None:
    """Seconds of models of 300 to 50 000 rows and ten columns, 20 % of whose values are missing."""
    print("\nrows: fit, calibrate; a complete row, 1000 of them, an incomplete row, 1000 of them")
    print("and with intervals (seconds); size of the saved model")
    for n in (300, 2_000, 50_000):
        X, y, test, _ = divided(*latent(n + 1000), n, 1000)
        fit, model = timed(ek.ExpectedKernelRidge().fit, hidden(X, 0.2), y)
        calibrate, _ = timed(model.calibrate)
        incomplete = hidden(test, 0.3)
        every = [some for rows in (test, incomplete) for some in (rows[:1], rows)]
        seconds = [best_of(partial(model.predict, some), 5) for some in every]
        seconds.append(best_of(partial(model.predict_interval, incomplete), 5))
        with tempfile.TemporaryDirectory() as folder:
            ek.save(model, path := Path(folder) / "model.skops")
            size = path.stat().st_size / 2**20
        shown = " ".join(f"{x:.3f}" for x in (fit, calibrate, *seconds))
        print(f"  {n:6} {shown}   {size:.1f} MiB", flush=True)


def rows() -> None:
    """Fits of 50 000 x 9 and 500 000 x 10 rows: seconds, memory, errors; boosting beside them."""
    tables: tuple[tuple[Callable[[], Any], int], ...] = ((diamonds, 50_000), (latent, 500_000))
    for table, n in tables:
        for missing in (0.0, 0.2):
            print(f"\n{table.__name__}, {n} rows, {missing:.0%} missing in training", flush=True)
            for method in (expected, boosting):
                print(line(method, table, n, missing), flush=True)


def tables() -> None:
    """The same with iterative imputation and Nyström features (diamonds only)."""
    for missing in (0.0, 0.2):
        print(f"\ndiamonds, 50000 rows, {missing:.0%} missing in training", flush=True)
        print(line(iterative, diamonds, 50_000, missing), flush=True)


def line(method: Any, table: Any, n: int, missing: float) -> str:
    """A line of seconds, memory and errors, measured in a fresh process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        taken, asked, peak, found = pool.submit(measure, method, table, n, missing).result()
    shown = " ".join(f"{x:.3f}" for x in found)
    times = f"fit {taken:6.1f} s, predict {asked:5.1f} s, peak {peak:.2f} GiB"
    return f"  {method.__name__:10} {times}; errors at 0, 30, 50 % missing: {shown}"


def measure(method: Any, table: Any, n: int, missing: float) -> tuple[float, float, float, Any]:
    warnings.simplefilter("ignore")
    X, y, *test = divided(*table(), n, 10_000)
    X = hidden(X, missing, seed=2)
    if method is boosting:
        text = [name for name in X if X[name].dtype.kind not in "fi"]
        X, test[0] = (x.astype(dict.fromkeys(text, "category")) for x in (X, test[0]))
    model, begin = method(), time.perf_counter()
    model.fit(X, y)
    taken, begin = time.perf_counter() - begin, time.perf_counter()
    found = errors(model, *test)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return taken, (time.perf_counter() - begin) / 3, peak, found


ALL = (loss, costs, rows, tables)


def chosen(names: list[str]) -> Iterator[Callable[[], None]]:
    return (f for f in ALL if not names or f.__name__ in names)


if __name__ == "__main__":
    for benchmark in chosen(sys.argv[1:]):
        benchmark()
