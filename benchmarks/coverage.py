"""How often intervals of discrepancies hold the truth: `python -m benchmarks coverage`.

A line is one kernel, and a source of n samples some standard errors of a mean away from the model,
in one of its variables or in all of them: the share of intervals that hold the true discrepancy, of
lower ends that are not above it, of upper ends that are not below it, and the median length of the
intervals on the scale of the discrepancy, in terms of its error.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

import expectedkernels as ek

SHARE = 0.3
"""The probability that a bit of the model is one."""

KERNELS = [("bits", k) for k in ("ExpHamming()", "ExpHamming(0.02)", "ExpHamming(2.0)", "Delta()")]
KERNELS += [("numbers", k) for k in ("RBF(0.5)", "RBF(4.0)")]
SIZES, DIMENSIONS, DISTANCES = [30, 100, 1000], [1, 5, 12], [0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0]


@dataclass(frozen=True)
class Case:
    kind: str
    kernel: str
    dimension: int
    n: int
    distance: float
    moved: str

    def models(self) -> tuple[Any, Any]:
        """The model, and the source of the samples."""
        many = self.dimension if self.moved == "all" else 1
        step = self.distance / np.sqrt(self.n * many)
        if self.kind == "numbers":
            means = np.zeros((2, 1, self.dimension))
            means[1, :, :many] = step
            p, q = (ek.gaussian_mixture([1.0], m, np.ones((1, self.dimension))) for m in means)
            return p, q
        share = min(0.97, SHARE + step * np.sqrt(SHARE * (1 - SHARE)))
        bits = [[1 - share, share]] * many + [[1 - SHARE, SHARE]] * (self.dimension - many)
        return ek.factorized([[1 - SHARE, SHARE]] * self.dimension), ek.factorized(bits)

    def __str__(self) -> str:
        text = f"{self.kind:7} {self.kernel:16} {self.dimension:2} variables, {self.moved:3} moved"
        return f"{text}, n = {self.n:4}, {self.distance:4g} errors away"


def shares(case: Case, repeats: int, share: float, n_null: int = 19) -> tuple[float, ...]:
    """Percent of intervals, lower and upper ends that are right, and the median length."""
    p, q = case.models()
    name, _, inner = case.kernel.rstrip(")").partition("(")
    k = getattr(ek, name)(*map(float, inner.split()))
    rng, found, scale, rounding = np.random.default_rng(0), [], 0.0, 1e-12
    for _ in range(repeats):
        test = ek.mmd_test(q.sample(case.n, rng), p, k, n_null=n_null, rng=rng)
        found.append(test.interval(share))
        scale += test.sampling_error.variance**0.25 / repeats
    truth, ends = float(ek.mmd2(p, q, k)), np.array(found)
    low, high = ends[:, 0] <= truth + rounding, ends[:, 1] >= truth - rounding
    length = float(np.median(np.diff(np.sqrt(ends), axis=1))) / scale
    return 100 * np.mean(low & high), 100 * np.mean(low), 100 * np.mean(high), length


def line(case: Case, repeats: int, share: float) -> str:
    with threadpool_limits(1):
        both, low, high, length = shares(case, repeats, share)
    return f"{case} {both:5.1f} % (low {low:5.1f}, high {high:5.1f}), length {length:.2f}"


def coverage(
    repeats: int = 200,
    share: float = 0.95,
    n: list[int] = SIZES,
    dimensions: list[int] = DIMENSIONS,
    distances: list[float] = DISTANCES,
    jobs: int = 1,
) -> None:
    """How often intervals of discrepancies, of which this share should, hold the truth."""
    print(f"Intervals of {100 * share:g} %, {repeats} repetitions")
    cells = product(KERNELS, dimensions, n, distances, ("one", "all"))
    work = (
        delayed(line)(Case(kind, kernel, d, size, distance, moved), repeats, share)
        for (kind, kernel), d, size, distance, moved in cells
        if moved == "one" or (d > 1 and distance > 0)
    )
    for text in Parallel(jobs, return_as="generator")(work):
        print(text, flush=True)


ALL = [coverage]
