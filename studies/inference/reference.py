"""Errors of the inference study from an independent computation, to compare with.

The paper shows curves but no numbers, and its figures smooth the weights without saying so. These
numbers come from another implementation of the same protocol, by exact computation: means of
five tries of the log of the mean Hellinger distance, on the grid of the paper ("ising") and the
network "asia", and of ten tries for the comparison of weights.
"""

from __future__ import annotations

from collections.abc import Iterator

COUNTS = (10, 50, 100, 150, 200)
"""The numbers of samples of all curves."""
TRIES = 5
"""How many tries the means of curves are of."""

Key = tuple[str, str, float, str, str]
"""Model, proposal, collapsed share, masks and rule."""

_CURVES: dict[Key, tuple[float, ...]] = {
    ("ising", "gibbs", 0.0, "none", "uniform"): (-2.36, -3.12, -3.58, -3.64, -3.78),
    ("ising", "gibbs", 0.0, "none", "raw"): (-2.34, -2.81, -2.87, -2.93, -2.95),
    ("ising", "gibbs", 0.0, "none", "smoothed"): (-2.36, -3.02, -3.28, -3.42, -3.57),
    ("ising", "gibbs", 0.25, "per sample", "uniform"): (-2.59, -3.19, -3.68, -3.74, -3.89),
    ("ising", "gibbs", 0.25, "per sample", "raw"): (-2.40, -2.95, -3.32, -3.69, -3.75),
    ("ising", "gibbs", 0.25, "per sample", "smoothed"): (-2.43, -3.11, -3.71, -3.86, -4.07),
    ("ising", "gibbs", 0.5, "per sample", "uniform"): (-2.81, -3.34, -3.83, -3.94, -4.09),
    ("ising", "gibbs", 0.5, "per sample", "raw"): (-2.64, -3.62, -3.93, -4.23, -4.53),
    ("ising", "gibbs", 0.5, "per sample", "smoothed"): (-2.69, -3.67, -4.10, -4.32, -4.55),
    ("ising", "gibbs", 0.25, "fixed", "uniform"): (-2.57, -3.33, -3.77, -3.80, -3.95),
    ("ising", "gibbs", 0.25, "fixed", "raw"): (-2.57, -2.92, -2.84, -2.93, -2.85),
    ("ising", "gibbs", 0.5, "fixed", "uniform"): (-2.85, -3.42, -3.87, -4.00, -4.02),
    ("ising", "gibbs", 0.5, "fixed", "raw"): (-2.84, -3.88, -3.97, -3.89, -4.15),
    ("ising", "uniform", 0.0, "none", "uniform"): (-1.40, -1.47, -1.49, -1.49, -1.50),
    ("ising", "uniform", 0.0, "none", "raw"): (-1.02, -1.28, -1.42, -1.54, -1.67),
    ("ising", "uniform", 0.25, "per sample", "uniform"): (-1.57, -1.60, -1.62, -1.64, -1.64),
    ("ising", "uniform", 0.25, "per sample", "raw"): (-1.30, -1.60, -1.76, -2.01, -2.01),
    ("ising", "uniform", 0.5, "per sample", "uniform"): (-1.86, -1.88, -1.88, -1.89, -1.88),
    ("ising", "uniform", 0.5, "per sample", "raw"): (-1.73, -2.62, -2.56, -2.91, -2.89),
    ("ising", "uniform", 0.5, "fixed", "uniform"): (-1.79, -1.84, -1.87, -1.87, -1.87),
    ("ising", "uniform", 0.5, "fixed", "raw"): (-1.90, -2.56, -3.18, -3.58, -3.68),
    ("asia", "gibbs", 0.0, "none", "uniform"): (-2.52, -3.30, -3.46, -3.72, -3.91),
    ("asia", "gibbs", 0.0, "none", "raw"): (-1.98, -1.92, -2.03, -1.98, -1.96),
    ("asia", "gibbs", 0.25, "per sample", "uniform"): (-2.65, -3.42, -3.62, -3.83, -4.03),
    ("asia", "gibbs", 0.25, "per sample", "raw"): (-2.38, -2.60, -2.69, -2.60, -2.53),
    ("asia", "gibbs", 0.25, "per sample", "smoothed"): (-2.42, -2.80, -3.21, -3.33, -3.50),
    ("asia", "gibbs", 0.5, "per sample", "uniform"): (-2.81, -3.77, -3.77, -4.06, -4.16),
    ("asia", "gibbs", 0.5, "per sample", "raw"): (-2.67, -3.32, -4.73, -4.68, -4.88),
    ("asia", "gibbs", 0.5, "per sample", "smoothed"): (-2.71, -3.53, -4.25, -4.40, -4.54),
}

RULES = ("uniform", "raw", "smoothed", "best ridge", "signed")
"""The columns of the comparison of weights at 200 samples."""

_RULES: dict[tuple[str, str, float], tuple[float, ...]] = {
    ("ising", "gibbs", 0.0): (-3.99, -3.10, -3.82, -4.21, -3.03),
    ("ising", "gibbs", 0.25): (-4.02, -3.83, -4.17, -4.37, -3.36),
    ("ising", "gibbs", 0.5): (-4.27, -4.42, -4.59, -4.85, -4.26),
    ("ising", "uniform", 0.0): (-1.51, -1.65, -1.57, -1.77, -1.68),
    ("ising", "uniform", 0.25): (-1.65, -2.22, -1.80, -2.24, -2.26),
    ("ising", "uniform", 0.5): (-1.90, -3.32, -2.16, -3.32, -3.47),
    ("ising", "sticky", 0.0): (-1.99, -2.12, -2.07, -2.15, -2.11),
    ("ising", "sticky", 0.25): (-2.18, -2.35, -2.27, -2.39, -2.52),
    ("ising", "sticky", 0.5): (-2.45, -2.90, -2.61, -2.92, -3.13),
    ("asia", "gibbs", 0.0): (-3.79, -1.87, -2.68, -3.86, -1.88),
    ("asia", "gibbs", 0.25): (-3.91, -2.52, -3.27, -4.00, -4.04),
    ("asia", "gibbs", 0.5): (-4.17, -4.73, -4.47, -5.05, -7.70),
    ("asia", "uniform", 0.0): (-1.25, -2.62, -1.47, -2.44, -2.48),
    ("asia", "uniform", 0.25): (-1.30, -4.18, -1.57, -3.51, -3.38),
    ("asia", "uniform", 0.5): (-1.43, -11.6, -1.74, -6.64, -6.45),
    ("asia", "sticky", 0.0): (-2.23, -2.07, -2.13, -2.45, -2.06),
    ("asia", "sticky", 0.25): (-2.31, -2.52, -2.36, -2.68, -4.20),
    ("asia", "sticky", 0.5): (-2.46, -3.70, -2.77, -4.56, -8.00),
}


def reference_curve(
    model: str, proposal: str, collapsed: float, masks: str, rule: str
) -> dict[int, float]:
    """The errors at all numbers of samples that are known; empty if none are.

    Examples
    --------
    >>> reference_curve("asia", "gibbs", 0.0, "none", "raw")[200]
    -1.96
    """
    values = _CURVES.get((model, proposal, collapsed, masks, rule))
    return {} if values is None else dict(zip(COUNTS, values, strict=True))


def reference_curves() -> Iterator[tuple[Key, int, float]]:
    """All known errors: the curve, the number of samples and the error."""
    for key in _CURVES:
        for n, value in reference_curve(*key).items():
            yield key, n, value


def reference_rules(model: str, proposal: str, collapsed: float) -> dict[str, float]:
    """The errors of rules for weights at 200 samples, per-sample masks; empty if unknown.

    Examples
    --------
    >>> reference_rules("asia", "sticky", 0.5)["signed"]
    -8.0
    """
    values = _RULES.get((model, proposal, collapsed))
    return {} if values is None else dict(zip(RULES, values, strict=True))
