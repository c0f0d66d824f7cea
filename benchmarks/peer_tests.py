"""Tests and compressed samples beside those of other libraries, on the same samples and kernels.

hyppo, goodpoints, coreax and stein-thinning are installed into an environment of their own:
`pip install '.[peer-tests]'`. Those that are not there are named.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from time import perf_counter
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

import expectedkernels as ek
from benchmarks.rejections import normals, score
from benchmarks.sequential import K, Table, network, states, tilted
from benchmarks.timing import show

REPEATS, DRAWS, POINTS, TRIES = 100, 4096, 64, 5
ROWS, N_NULL = 100, 199


def median_of(values: list[float]) -> str:
    return f"{np.median(values):.3g}"


def points_beside_peers() -> None:
    """4096 samples compressed to 64 points: their discrepancy from the model, and seconds."""
    real, bits = normals(), network().circuit()
    lines: list[tuple[str, ...]] = []
    found = [_compressed(real, ek.RBF(0.2), 0.2, score), _compressed(bits, K, 0.5, None)]
    for name in found[0]:
        lines.append((name, *(cells.get(name, "-") for cells in found)))
    title = f"{DRAWS} samples compressed to {POINTS} points: MMD to the model, mean of {TRIES} (s)"
    show(title, lines, ("", "2-D mixture, RBF(0.2)", "ASIA, ExpHamming(0.5)"))


def _compressed(model: Any, k: Any, gamma: float, gradient: Any) -> dict[str, str]:
    """The discrepancy and the time of every method."""
    target = ek.Target(model.log_likelihood, n_variables=2, score=score) if gradient else model

    def herd(rule: str) -> Callable[[Any, int], Any]:
        return lambda X, seed: ek.herd(model, POINTS, k, weights=rule, rng=seed)

    def thinned(X: Any, seed: int) -> Any:
        return X[ek.stein_thin(target, X, POINTS)]

    methods: dict[str, Callable[[Any, int], Any]] = {
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
        "stein_thin": thinned,
    }
    cells = {}
    for name, method in methods.items():
        apart, taken = [], []
        try:
            for seed in range(TRIES):
                X = model.sample(DRAWS, rng=seed)
                began = perf_counter()
                points = method(X, seed)
                taken.append(perf_counter() - began)
                if isinstance(points, np.ndarray):
                    points = ek.Empirical(points)
                apart.append(ek.mmd(points, model, k))
            cells[name] = f"{np.mean(apart):.4f} ({median_of(taken)})"
        except (ImportError, NotImplementedError) as reason:
            cells[name] = str(reason) or "-"
    return cells


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
        thin = import_module("goodpoints.kt").thin
        rounds = int(np.log2(DRAWS // POINTS))
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
    p = Table(np.exp(network().log_likelihood(states())))
    other, X = tilted(p, 0.156), states()

    def normal(shift: float, scale: float) -> Callable[[Any], Any]:
        return lambda rng: scale * rng.normal(size=(ROWS, 5)) + shift * np.eye(5)[0]

    def rows(table: Table) -> Callable[[Any], Any]:
        return lambda rng: X[table.sample(ROWS, rng)]

    cases = {
        "5-D normal, the same": (normal(0.0, 1.0), normal(0.0, 1.0)),
        "5-D normal, scale 1.25": (normal(0.0, 1.0), normal(0.0, 1.25)),
        "5-D normal, shift 0.6": (normal(0.0, 1.0), normal(0.6, 1.0)),
        "ASIA, the same": (rows(p), rows(p)),
        "ASIA, mmd 0.156": (rows(p), rows(other)),
    }
    lines: list[tuple[str, ...]] = []
    for name, sources in cases.items():
        cells = []
        for test in (_ours, _aggregate, _hyppo_mmd, _hyppo_energy, _ctt, _model):
            found, taken = [], []
            try:
                for seed in range(REPEATS):
                    rng = np.random.default_rng(seed)
                    pair = [draw(rng) for draw in sources]
                    began = perf_counter()
                    found.append(test(*pair, seed))
                    taken.append(1e3 * (perf_counter() - began))
                cells.append(f"{np.mean(found):.2f} ({median_of(taken)})")
            except (ImportError, NotImplementedError) as reason:
                cells.append(str(reason) or "-")
        lines.append((name, *cells))
    heads = ("mmd_two_sample_test", "aggregate", "hyppo MMD", "hyppo Energy", "goodpoints CTT")
    title = f"{ROWS} and {ROWS} rows, rejected at 5 %, {REPEATS} repetitions (ms)"
    show(title, lines, ("", *heads, "mmd_test, model"))


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
    return ek.mmd_test(Y, network(), n_null=N_NULL, rng=seed).p_value <= 0.05


ALL = [tests_beside_peers, points_beside_peers]
