"""How often intervals of discrepancies hold the truth: `python -m benchmarks.coverage`.

A line is one kernel, and a source of n samples some standard errors of a mean away from the model,
in one of its variables or in all of them: the share of intervals that hold the true discrepancy, of
lower ends that are not above it, of upper ends that are not below it, and the median length of the
intervals on the scale of the discrepancy, in terms of its error.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config

import expectedkernels as ek

SHARE = 0.3
"""The probability that a bit of the model is one."""

KERNELS = {
    "bits": ("ExpHamming()", "ExpHamming(0.02)", "ExpHamming(2.0)", "Delta()"),
    "numbers": ("RBF(0.5)", "RBF(4.0)"),
}


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
        return (
            f"{self.kind:7} {self.kernel:16} {self.dimension:2} variables, {self.moved:3} moved, "
            f"n = {self.n:4}, {self.distance:4} errors away"
        )


def shares(case: Case, repeats: int, coverage: float, n_null: int = 19) -> tuple[float, ...]:
    """Percent of intervals, lower and upper ends that are right, and the median length."""
    p, q = case.models()
    name, _, inner = case.kernel.rstrip(")").partition("(")
    k = getattr(ek, name)(*map(float, inner.split()))
    rng, found, scale, rounding = np.random.default_rng(0), [], 0.0, 1e-12
    for _ in range(repeats):
        test = ek.mmd_test(q.sample(case.n, rng), p, k, n_null=n_null, rng=rng)
        found.append(test.interval(coverage))
        scale += test.sampling_error.variance**0.25 / repeats
    truth, ends = float(ek.mmd2(p, q, k)), np.array(found)
    low, high = ends[:, 0] <= truth + rounding, ends[:, 1] >= truth - rounding
    length = float(np.median(np.diff(np.sqrt(ends), axis=1))) / scale
    return 100 * np.mean(low & high), 100 * np.mean(low), 100 * np.mean(high), length


def line(case: Case, repeats: int, coverage: float) -> str:
    both, low, high, length = shares(case, repeats, coverage)
    return f"{case} {both:5.1f} % (low {low:5.1f}, high {high:5.1f}), length {length:.2f}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--coverage", type=float, default=0.95)
    parser.add_argument("--n", type=int, nargs="*", default=[30, 100, 1000])
    parser.add_argument("--dimensions", type=int, nargs="*", default=[1, 5, 12])
    parser.add_argument("--distances", type=float, nargs="*", default=[0, 0.5, 1, 2, 3, 5, 10])
    parser.add_argument("--kinds", nargs="*", default=list(KERNELS), choices=list(KERNELS))
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    given = parser.parse_args(arguments)
    cases = [
        Case(kind, kernel, d, n, distance, moved)
        for kind in given.kinds
        for kernel, d, n, distance in product(
            KERNELS[kind], given.dimensions, given.n, given.distances
        )
        for moved in (("one", "all") if d > 1 and distance > 0 else ("one",))
    ]
    print(f"Intervals of {100 * given.coverage:g} %, {given.repeats} repetitions")
    with parallel_config("loky", n_jobs=given.jobs, inner_max_num_threads=1):
        work = (delayed(line)(case, given.repeats, given.coverage) for case in cases)
        for text in Parallel(return_as="generator")(work):
            print(text, flush=True)


if __name__ == "__main__":
    from benchmarks import coverage  # by its name, so that other processes import it, too

    coverage.main()
