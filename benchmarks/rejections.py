"""How often tests of densities over the reals, and of conditional independence, reject at 5 %."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from time import perf_counter
from typing import Any

import numpy as np
from scipy.special import softmax

import expectedkernels as ek
from benchmarks.timing import cross, incomplete, show

LEVELS, POWERS, N_NULL = 1000, 200, 19
MEANS = np.array([[-1.5, 0.0], [1.5, 1.0], [0.5, -2.0]])
WEIGHTS, OTHER_WEIGHTS = (0.5, 0.3, 0.2), (0.35, 0.45, 0.2)
VARIANCE = 0.5


def rejected(p_value: Callable[[Any], float], repeats: int, seed: Any) -> tuple[float, float]:
    """The share of p-values of at most 5 %, and milliseconds of a repetition."""
    rng, began = np.random.default_rng(seed), perf_counter()
    share = float(np.mean([p_value(rng) <= 0.05 for _ in range(repeats)]))
    return share, 1e3 * (perf_counter() - began) / repeats


def normals(weights: Any = WEIGHTS, variance: float = VARIANCE) -> Any:
    """A mixture of three normals in two dimensions, as a circuit."""
    return ek.gaussian_mixture(weights, MEANS, np.full((3, 2), variance))


def score(X: Any) -> Any:
    """The gradient of its log-density."""
    logs = np.log(WEIGHTS) - 0.5 * ((X[:, None] - MEANS) ** 2).sum(axis=2) / VARIANCE
    return (softmax(logs, axis=1) @ MEANS - X) / VARIANCE


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

    def cell(case: tuple[Any, int], test: Any) -> str:
        (draw, n), level = case, test is tests["chains"] and case[0] is sources["true"]
        repeats = LEVELS if level else POWERS
        share, ms = rejected(lambda rng: test(draw(n, rng), rng).p_value, repeats, n)
        return f"{share:.3f} ({ms:.0f} ms)"

    cases = {f"{name}, n = {n}": (draw, n) for name, draw in sources.items() for n in (30, 100)}
    title = f"Rejected at 5 %, {POWERS} repetitions ({LEVELS} of the level of chains)"
    cross(title, cases, tests, cell)


def rows(n: int, effect: float, rng: Any) -> tuple[Any, Any, Any, Any]:
    """Ternary x, y and z (three columns), and the distributions of z, and of x and y given z.

    The effect is a logit of y = x.
    """
    p_z = rng.dirichlet(np.full(27, 3.0))
    x, y = rng.normal(size=(27, 3)), rng.normal(size=(27, 1, 3)) + effect * np.eye(3)
    p_x, p_y = softmax(x, axis=1), softmax(y, axis=2)
    z = rng.choice(27, size=n, p=p_z)
    x = (rng.random((n, 1)) > np.cumsum(p_x[z], axis=1)).sum(axis=1)
    y = (rng.random((n, 1)) > np.cumsum(p_y[z, x], axis=1)).sum(axis=1)
    Z = np.stack([z // 9, z // 3 % 3, z % 3], axis=1)
    known = p_z, p_x, (p_x[:, :, None] * p_y).sum(axis=1)
    return np.minimum(x, 2), np.minimum(y, 2), Z, known


def truth(known: Any) -> Callable[[Any, Any], Any]:
    """A density that knows the distributions: that of x for the first call, then that of y."""
    made = iter(known[1:])

    def density(X: Any, cardinalities: Any) -> Any:
        joint = (known[0][:, None] * next(made)).T.reshape(3, 3, 3, 3)
        return ek.FactorGraph([3] * 4, [(range(4), joint)]).circuit()

    return density


def p_value(method: str, n: int, effect: float, rng: Any) -> float:
    x, y, Z, known = rows(n, effect, rng)
    if method == "causal-learn KCI":
        kci = import_module("causallearn.utils.cit").CIT
        return float(kci(np.column_stack([x, y, Z]).astype(float), "kci")(0, 1, [2, 3, 4]))
    density: Any = {
        "true distributions": truth(known),
        "mixture of 8": ("mixture", 8),
        "single tree": lambda X, cards: ek.learn_chow_liu(X, cardinalities=cards),
    }[method.removesuffix(", 20 % missing")]
    Z = incomplete(Z, 0.2, rng) if method.endswith("missing") else Z
    return ek.independence_test(x, y, Z, density=density, n_null=99, rng=rng).p_value


def independence() -> None:
    """Rejections at 5 % with true, learned and too simple densities, and with missing values."""
    lines = []
    cases = [
        ("true distributions", 300, 400),
        ("mixture of 8", 300, LEVELS),
        ("mixture of 8", 1000, LEVELS),
        ("mixture of 8, 20 % missing", 300, 400),
        ("single tree", 300, POWERS),
        ("causal-learn KCI", 300, 100),
    ]
    for method, n, repeats in cases:
        times = {0.0: repeats, 0.5: min(POWERS, repeats), 1.0: min(POWERS, repeats)}
        try:
            (level, ms), *powers = [
                rejected(partial(p_value, method, n, effect), times[effect], [n, int(10 * effect)])
                for effect in times
            ]
        except ImportError:
            lines.append((method, n, *["not installed"] * 4))
            continue
        cells = (f"{level:.3f} ({repeats})", *(f"{power:.2f}" for power, _ in powers))
        lines.append((method, n, *cells, f"{ms:.0f}"))
    title = "Rejected at 5 %: x and y given three ternary columns, with all interactions"
    show(title, lines, ("", "n", "independent", "logit 0.5", "logit 1", "ms"))


ALL = [langevin, independence]
