"""How often tests of conditional independence reject, of true and of false hypotheses."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from time import perf_counter
from typing import Any

import numpy as np

import expectedkernels as ek
from benchmarks.timing import show

REPEATS, POWER = 1000, 200
N_NULL = 99


def tables(rng: Any, effect: float) -> tuple[Any, Any, Any]:
    """p(z), p(x | z) and p(y | x, z) of ternary variables, three in z; a logit of y = x."""
    z = rng.dirichlet(np.full(27, 3.0))
    x, y = rng.normal(size=(27, 3)), rng.normal(size=(27, 1, 3)) + effect * np.eye(3)
    x, y = np.exp(x), np.exp(y)
    return z, x / x.sum(axis=1, keepdims=True), y / y.sum(axis=2, keepdims=True)


def rows(n: int, effect: float, rng: Any) -> tuple[Any, Any, Any, Any]:
    """x, y, z, and the distributions of x and y given z."""
    p_z, p_x, p_y = tables(rng, effect)
    z = rng.choice(27, size=n, p=p_z)
    x = (rng.random((n, 1)) > np.cumsum(p_x[z], axis=1)).sum(axis=1)
    y = (rng.random((n, 1)) > np.cumsum(p_y[z, x], axis=1)).sum(axis=1)
    Z = np.stack([z // 9, z // 3 % 3, z % 3], axis=1)
    marginal = (p_x[:, :, None] * p_y).sum(axis=1)
    return np.minimum(x, 2), np.minimum(y, 2), Z, (p_z, p_x, marginal)


def truth(known: Any) -> Callable[[Any, Any], Any]:
    """A density that knows the distributions: that of x for the first call, then that of y."""
    made = iter(known[1:])

    def density(X: Any, cardinalities: Any) -> Any:
        joint = (known[0][:, None] * next(made)).T.reshape(3, 3, 3, 3)
        return ek.FactorGraph([3] * 4, [(range(4), joint)]).circuit()

    return density


def p_value(method: str, X: Any, rng: Any) -> float:
    x, y, Z, known = X
    if method == "causal-learn KCI":
        kci = import_module("causallearn.utils.cit").CIT
        return float(kci(np.column_stack([x, y, Z]).astype(float), "kci")(0, 1, [2, 3, 4]))
    density: Any = {
        "true distributions": truth(known),
        "mixture of 8": ("mixture", 8),
        "single tree": lambda X, cards: ek.learn_chow_liu(X, cardinalities=cards),
    }[method.removesuffix(", 20 % missing")]
    if method.endswith("missing"):
        Z = np.where(rng.random(Z.shape) < 0.2, np.nan, Z)
    return ek.independence_test(x, y, Z, density=density, n_null=N_NULL, rng=rng).p_value


def rejected(method: str, n: int, effect: float, repeats: int) -> tuple[float, float]:
    """The share of p-values of at most 5 %, and milliseconds of a test."""
    rng, found, taken = np.random.default_rng([n, int(10 * effect)]), [], 0.0
    for _ in range(repeats):
        X = rows(n, effect, rng)
        began = perf_counter()
        found.append(p_value(method, X, rng) <= 0.05)
        taken += perf_counter() - began
    return float(np.mean(found)), 1e3 * taken / repeats


def independence() -> None:
    """Rejections at 5 % with true, learned and too simple densities, and with missing values."""
    lines = []
    cases = [
        ("true distributions", 300, 400),
        ("mixture of 8", 300, REPEATS),
        ("mixture of 8", 1000, REPEATS),
        ("mixture of 8, 20 % missing", 300, 400),
        ("single tree", 300, POWER),
        ("causal-learn KCI", 300, 100),
    ]
    for method, n, repeats in cases:
        try:
            level, ms = rejected(method, n, 0.0, repeats)
            powers = [rejected(method, n, effect, min(POWER, repeats))[0] for effect in (0.5, 1.0)]
        except ImportError:
            lines.append((method, str(n), *["not installed"] * 4))
            continue
        cells = (f"{level:.3f} ({repeats})", *(f"{power:.2f}" for power in powers))
        lines.append((method, str(n), *cells, f"{ms:.0f}"))
    title = "Rejected at 5 %: x and y given three ternary columns, with all interactions"
    show(title, lines, ("", "n", "independent", "logit 0.5", "logit 1", "ms"))


ALL = [independence]
