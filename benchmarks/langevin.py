"""Tests of densities over the reals: how often they reject true and false hypotheses."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

import expectedkernels as ek
from benchmarks.timing import show

LEVELS, POWERS, N_NULL = 1000, 200, 19
MEANS = np.array([[-1.5, 0.0], [1.5, 1.0], [0.5, -2.0]])
WEIGHTS, OTHER_WEIGHTS = (0.5, 0.3, 0.2), (0.35, 0.45, 0.2)
VARIANCE = 0.5


def normals(weights: Any = WEIGHTS, variance: float = VARIANCE) -> Any:
    """A mixture of three normals in two dimensions, as a circuit."""
    return ek.gaussian_mixture(weights, MEANS, np.full((3, 2), variance))


def score(X: Any) -> Any:
    """The gradient of its log-density."""
    logs = np.log(WEIGHTS) - 0.5 * ((X[:, None] - MEANS) ** 2).sum(axis=2) / VARIANCE
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return ((shares / shares.sum(axis=1, keepdims=True)) @ MEANS - X) / VARIANCE


def langevin() -> None:
    """Rejections at 5 % by Langevin chains, by random signs, and by an exact mean embedding."""
    model = normals()
    density = ek.Target(model.log_likelihood, n_variables=2, score=score)
    tests = {
        "chains": lambda X, rng: ek.kdsd_test(X, density, n_null=N_NULL, rng=rng),
        "signs": lambda X, rng: ek.kdsd_test(X, density, null="signs", n_null=N_NULL, rng=rng),
        "mmd_test": lambda X, rng: ek.mmd_test(X, model, n_null=N_NULL, rng=rng),
    }
    sources = {
        "true": lambda n, rng: model.sample(n, rng),
        "shifted by 0.4": lambda n, rng: model.sample(n, rng) + np.array([0.4, 0.0]),
        "other weights": lambda n, rng: normals(OTHER_WEIGHTS).sample(n, rng),
        "variances times 1.5": lambda n, rng: normals(variance=1.5 * VARIANCE).sample(n, rng),
    }
    lines = []
    for source, draw in sources.items():
        for n in (30, 100):
            cells = []
            for name, test in tests.items():
                rng, found, began = np.random.default_rng(n), [], perf_counter()
                for _ in range(LEVELS if source == "true" and name == "chains" else POWERS):
                    found.append(test(draw(n, rng), rng).p_value <= 0.05)
                taken = 1e3 * (perf_counter() - began) / len(found)
                cells.append(f"{np.mean(found):.3f} ({taken:.0f} ms)")
            lines.append((f"{source}, n = {n}", *cells))
    title = f"Rejected at 5 %, {POWERS} repetitions ({LEVELS} of the level of chains)"
    show(title, lines, ("", *tests))


ALL = [langevin]
