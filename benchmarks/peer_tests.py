"""Tests and compressed samples beside those of other libraries, on the same samples and kernels.

hyppo, goodpoints, coreax and stein-thinning are installed into an environment of their own:
`pip install '.[peer-tests]'`. Those that are not there are named.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

import expectedkernels as ek
from benchmarks.rejections import normals, score
from benchmarks.sequential import ASIA, NETWORK, STATES, K, Table, tilted
from benchmarks.timing import show, timed

REPEATS, DRAWS, POINTS, TRIES = 100, 4096, 64, 5
ROWS, N_NULL = 100, 199


def cell(repeats: int, form: str, unit: float, work: Callable[[int], Any]) -> str:
    """The mean of what repetitions return beside their own seconds, and the median of these."""
    try:
        found, taken = zip(*(work(seed) for seed in range(repeats)), strict=True)
    except (ImportError, NotImplementedError) as reason:
        return str(reason) or "-"
    return f"{np.mean(found):{form}} ({np.median(taken) / unit:.3g})"


def points_beside_peers() -> None:
    """4096 samples compressed to 64 points: their discrepancy from the model, and seconds."""
    mixture, asia = normals(), NETWORK.circuit()
    cases = ((mixture, ek.RBF(0.2), 0.2, score), (asia, K, 0.5, None))
    columns = []
    for model, k, gamma, gradient in cases:

        def work(method: Any, seed: int, model: Any = model, k: Any = k) -> tuple[float, float]:
            X = model.sample(DRAWS, rng=seed)
            taken, points = timed(method, X, seed)
            points = ek.Empirical(points) if isinstance(points, np.ndarray) else points
            return ek.mmd(points, model, k), taken

        methods = _methods(model, k, gamma, gradient)
        columns.append([cell(TRIES, ".4f", 1.0, partial(work, f)) for f in methods.values()])
    title = f"{DRAWS} samples compressed to {POINTS} points: MMD to the model, mean of {TRIES} (s)"
    lines = list(zip(methods, *columns, strict=True))
    show(title, lines, ("", "2-D mixture, RBF(0.2)", "ASIA, ExpHamming(0.5)"))


def _methods(
    model: Any, k: Any, gamma: float, gradient: Any
) -> dict[str, Callable[[Any, int], Any]]:
    target = ek.Target(model.log_likelihood, n_variables=2, score=score) if gradient else model

    def herd(rule: str) -> Callable[[Any, int], Any]:
        return lambda X, seed: ek.herd(model, POINTS, k, weights=rule, rng=seed)

    return {
        f"{POINTS} draws": lambda X, seed: X[:POINTS],
        f"all {DRAWS} draws": lambda X, seed: X,
        "herd, equal weights": herd("equal"),
        "herd, weights on the simplex": herd("simplex"),
        "herd, quadrature weights": herd("quadrature"),
        "goodpoints Compress++, g = 0": _compress(gamma, 0),
        "goodpoints Compress++, g = 4": _compress(gamma, 4),
        "goodpoints kernel thinning": _kernel_thinning(gamma),
        "coreax kernel herding": _coreax(gamma),
        "stein-thinning": _stein_thinning(gradient),
        "stein_thin": lambda X, seed: X[ek.stein_thin(target, X, POINTS)],
    }


def _compress(gamma: float, g: int) -> Callable[[Any, int], Any]:
    def method(X: Any, seed: int) -> Any:
        compress = import_module("goodpoints.compress")
        rates = np.array([1.0 / gamma])
        return X[compress.compresspp_kt(X, b"gaussian", rates, g=g, seed=seed)]

    return method


def _kernel_thinning(gamma: float) -> Callable[[Any, int], Any]:
    def kernel(y: Any, X: Any) -> Any:
        return np.exp(-gamma * ((X - y) ** 2).sum(axis=1))

    def method(X: Any, seed: int) -> Any:
        thin, rounds = import_module("goodpoints.kt").thin, int(np.log2(DRAWS // POINTS))
        return X[thin(X, rounds, kernel, kernel, seed=seed, store_K=True)]

    return method


def _coreax(gamma: float) -> Callable[[Any, int], Any]:
    def method(X: Any, seed: int) -> Any:
        import_module("jax").config.update("jax_enable_x64", True)
        kernels, solvers = import_module("coreax.kernels"), import_module("coreax.solvers")
        kernel = kernels.SquaredExponentialKernel(length_scale=(2.0 * gamma) ** -0.5)
        data = import_module("coreax").Data(X)
        coreset, _ = solvers.KernelHerding(POINTS, kernel=kernel).reduce(data)
        return np.asarray(coreset.points.data)

    return method


def _stein_thinning(gradient: Any) -> Callable[[Any, int], Any]:
    def method(X: Any, seed: int) -> Any:
        if gradient is None:
            raise NotImplementedError
        thin = import_module("stein_thinning.thinning").thin
        return X[thin(X, gradient(X), POINTS)]

    return method


def tests_beside_peers() -> None:
    """Two samples of 100 rows, tested at 5 %: shares of rejections, and milliseconds."""
    other = tilted(0.156)

    def normal(shift: float, scale: float) -> Callable[[Any], Any]:
        return lambda rng: scale * rng.normal(size=(ROWS, 5)) + shift * np.eye(5)[0]

    def rows(table: Table) -> Callable[[Any], Any]:
        return lambda rng: STATES[table.sample(ROWS, rng)]

    cases = {
        "5-D normal, the same": (normal(0.0, 1.0), normal(0.0, 1.0)),
        "5-D normal, scale 1.25": (normal(0.0, 1.0), normal(0.0, 1.25)),
        "5-D normal, shift 0.6": (normal(0.0, 1.0), normal(0.6, 1.0)),
        "ASIA, the same": (rows(ASIA), rows(ASIA)),
        "ASIA, mmd 0.156": (rows(ASIA), rows(other)),
    }
    tests = {
        "mmd_two_sample_test": _ours,
        "aggregate": _aggregate,
        "hyppo MMD": _hyppo_mmd,
        "hyppo Energy": _hyppo_energy,
        "goodpoints CTT": _ctt,
        "mmd_test, model": _model,
    }

    def work(test: Any, sources: Any, seed: int) -> tuple[bool, float]:
        rng = np.random.default_rng(seed)
        taken, found = timed(test, *[draw(rng) for draw in sources], seed)
        return found, taken

    lines = []
    for name, sources in cases.items():
        cells = [cell(REPEATS, ".2f", 1e-3, partial(work, f, sources)) for f in tests.values()]
        lines.append((name, *cells))
    title = f"{ROWS} and {ROWS} rows, rejected at 5 %, {REPEATS} repetitions (ms)"
    show(title, lines, ("", *tests))


def _ours(X: Any, Y: Any, seed: int) -> bool:
    return ek.mmd_two_sample_test(X, Y, n_null=N_NULL, rng=seed).p_value <= 0.05


def _aggregate(X: Any, Y: Any, seed: int) -> bool:
    return ek.mmd_two_sample_test(X, Y, "aggregate", n_null=N_NULL, rng=seed).p_value <= 0.05


def _hyppo_mmd(X: Any, Y: Any, seed: int) -> bool:
    mmd = import_module("hyppo.ksample").MMD(gamma=ek.median_gamma(np.concatenate([X, Y])))
    with catch_warnings():
        simplefilter("ignore", RuntimeWarning)  # of fewer than 1000 permutations
        return mmd.test(X, Y, reps=N_NULL, auto=False, random_state=seed)[1] <= 0.05


def _hyppo_energy(X: Any, Y: Any, seed: int) -> bool:
    return import_module("hyppo.ksample").Energy().test(X, Y, auto=True)[1] <= 0.05


def _ctt(X: Any, Y: Any, seed: int) -> bool:
    lam = ek.median_gamma(np.concatenate([X, Y])) ** -0.5
    seeds = {"null_seed": seed, "statistic_seed": seed}
    return bool(import_module("goodpoints.ctt").ctt(X, Y, 2, lam=lam, **seeds).rejects)


def _model(X: Any, Y: Any, seed: int) -> bool:
    if Y.shape[1] != 8:
        raise NotImplementedError
    return ek.mmd_test(Y, NETWORK, n_null=N_NULL, rng=seed).p_value <= 0.05


ALL = [tests_beside_peers, points_beside_peers]
