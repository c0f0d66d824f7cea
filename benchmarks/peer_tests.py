"""Tests and compressed samples beside those of other libraries, on the same samples and kernels.

hyppo, goodpoints, coreax and stein-thinning are installed into an environment of their own:
`pip install '.[peer-tests]'`. Those that are not there are named.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np

import expectedkernels as ek
from benchmarks.levels import normals, score
from benchmarks.sequential import ASIA, NETWORK, STATES, K, Table, tilted
from benchmarks.timing import cross, timed

REPEATS, DRAWS, POINTS, TRIES = 100, 4096, 64, 5
ROWS, N_NULL = 100, 199


def cell(work: Any, repeats: int, form: str, unit: float, row: Any, column: Any) -> str:
    """The mean of what repetitions return beside their own seconds, and the median of these."""
    try:
        found, taken = zip(*(work(row, column, seed) for seed in range(repeats)), strict=True)
    except (ImportError, NotImplementedError) as reason:
        return str(reason) or "-"
    return f"{np.mean(found):{form}} ({np.median(taken) / unit:.3g})"


class Source(NamedTuple):
    """What is compressed: samples of a model; kernels are exp(-gamma d^2)."""

    model: Any
    k: Any
    gamma: float
    gradient: Any = None


def herd(rule: str, source: Source, X: Any, seed: int) -> Any:
    return ek.herd(source.model, POINTS, source.k, weights=rule, rng=seed)


def stein_thin(source: Source, X: Any, seed: int) -> Any:
    target = source.model
    if source.gradient:
        target = ek.Target(target.log_likelihood, n_variables=2, score=source.gradient)
    return X[ek.stein_thin(target, X, POINTS)]


def compress(g: int, source: Source, X: Any, seed: int) -> Any:
    thin, rates = import_module("goodpoints.compress").compresspp_kt, np.array([1 / source.gamma])
    return X[thin(X, b"gaussian", rates, g=g, seed=seed)]


def kernel_thinning(source: Source, X: Any, seed: int) -> Any:
    def kernel(y: Any, X: Any) -> Any:
        return np.exp(-source.gamma * ((X - y) ** 2).sum(axis=1))

    thin, rounds = import_module("goodpoints.kt").thin, int(np.log2(DRAWS // POINTS))
    return X[thin(X, rounds, kernel, kernel, seed=seed, store_K=True)]


def coreax(source: Source, X: Any, seed: int) -> Any:
    import_module("jax").config.update("jax_enable_x64", True)
    kernels, solvers = import_module("coreax.kernels"), import_module("coreax.solvers")
    kernel = kernels.SquaredExponentialKernel(length_scale=(2.0 * source.gamma) ** -0.5)
    data = import_module("coreax").Data(X)
    return np.asarray(solvers.KernelHerding(POINTS, kernel=kernel).reduce(data)[0].points.data)


def stein_thinning(source: Source, X: Any, seed: int) -> Any:
    if source.gradient is None:
        raise NotImplementedError
    thin = import_module("stein_thinning.thinning").thin
    return X[thin(X, source.gradient(X), POINTS)]


METHODS: dict[str, Callable[[Source, Any, int], Any]] = {
    f"{POINTS} draws": lambda source, X, seed: X[:POINTS],
    f"all {DRAWS} draws": lambda source, X, seed: X,
    "herd, equal weights": partial(herd, "equal"),
    "herd, weights on the simplex": partial(herd, "simplex"),
    "herd, quadrature weights": partial(herd, "quadrature"),
    "goodpoints Compress++, g = 0": partial(compress, 0),
    "goodpoints Compress++, g = 4": partial(compress, 4),
    "goodpoints kernel thinning": kernel_thinning,
    "coreax kernel herding": coreax,
    "stein-thinning": stein_thinning,
    "stein_thin": stein_thin,
}


def points_beside_peers() -> None:
    """4096 samples compressed to 64 points: their discrepancy from the model, and seconds."""

    def work(method: Any, source: Source, seed: int) -> tuple[float, float]:
        X = source.model.sample(DRAWS, rng=seed)
        taken, points = timed(method, source, X, seed)
        points = ek.Empirical(points) if isinstance(points, np.ndarray) else points
        return ek.mmd(points, source.model, source.k), taken

    sources = {"2-D mixture, RBF(0.2)": Source(normals(), ek.RBF(0.2), 0.2, score)}
    sources["ASIA, ExpHamming(0.5)"] = Source(NETWORK.circuit(), K, 0.5)
    title = f"{DRAWS} samples compressed to {POINTS} points: MMD to the model, mean of {TRIES} (s)"
    cross(title, METHODS, sources, partial(cell, work, TRIES, ".4f", 1.0))


def tests_beside_peers() -> None:
    """Two samples of 100 rows, tested at 5 %: shares of rejections, and milliseconds."""

    def normal(shift: float, scale: float) -> Callable[[Any], Any]:
        return lambda rng: scale * rng.normal(size=(ROWS, 5)) + shift * np.eye(5)[0]

    def rows(table: Table) -> Callable[[Any], Any]:
        return lambda rng: STATES[table.sample(ROWS, rng)]

    cases = {
        "5-D normal, the same": (normal(0.0, 1.0), normal(0.0, 1.0)),
        "5-D normal, scale 1.25": (normal(0.0, 1.0), normal(0.0, 1.25)),
        "5-D normal, shift 0.6": (normal(0.0, 1.0), normal(0.6, 1.0)),
        "ASIA, the same": (rows(ASIA), rows(ASIA)),
        "ASIA, mmd 0.156": (rows(ASIA), rows(tilted(0.156))),
    }

    def work(sources: Any, test: Any, seed: int) -> tuple[bool, float]:
        rng = np.random.default_rng(seed)
        taken, p_value = timed(test, *[draw(rng) for draw in sources], seed)
        return p_value <= 0.05, taken

    title = f"{ROWS} and {ROWS} rows, rejected at 5 %, {REPEATS} repetitions (ms)"
    cross(title, cases, TESTS, partial(cell, work, REPEATS, ".2f", 1e-3))


def two_samples(k: Any, X: Any, Y: Any, seed: int) -> float:
    return ek.mmd_two_sample_test(X, Y, k, n_null=N_NULL, rng=seed).p_value


def hyppo_mmd(X: Any, Y: Any, seed: int) -> float:
    mmd = import_module("hyppo.ksample").MMD(gamma=ek.median_gamma(np.concatenate([X, Y])))
    with catch_warnings():
        simplefilter("ignore", RuntimeWarning)  # of fewer than 1000 permutations
        return mmd.test(X, Y, reps=N_NULL, auto=False, random_state=seed)[1]


def hyppo_energy(X: Any, Y: Any, seed: int) -> float:
    return import_module("hyppo.ksample").Energy().test(X, Y, auto=True)[1]


def compress_then_test(X: Any, Y: Any, seed: int) -> float:
    lam = ek.median_gamma(np.concatenate([X, Y])) ** -0.5
    seeds = {"null_seed": seed, "statistic_seed": seed}
    return 1.0 - import_module("goodpoints.ctt").ctt(X, Y, 2, lam=lam, **seeds).rejects


def model_test(X: Any, Y: Any, seed: int) -> float:
    if Y.shape[1] != 8:
        raise NotImplementedError
    return ek.mmd_test(Y, NETWORK, n_null=N_NULL, rng=seed).p_value


TESTS = {
    "mmd_two_sample_test": partial(two_samples, None),
    "aggregate": partial(two_samples, "aggregate"),
    "hyppo MMD": hyppo_mmd,
    "hyppo Energy": hyppo_energy,
    "goodpoints CTT": compress_then_test,
    "mmd_test, model": model_test,
}
MINUTES = [tests_beside_peers, points_beside_peers]
