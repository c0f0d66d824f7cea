"""How often intervals of discrepancies hold the truth: `python -m benchmarks coverage`."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

import expectedkernels as ek
from benchmarks.timing import show

BIT = 0.3
"""The probability that a bit of the model is one."""
KERNELS = (ek.ExpHamming(), ek.ExpHamming(0.02), ek.ExpHamming(2.0), ek.Delta())
SIZES, DIMENSIONS, DISTANCES = [30, 100, 1000], [1, 5, 12], [0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0]
HEADS = ("kernel", "bits", "n", "errors away", "bits moved", "%", "low", "high", "length")
N_NULL = 19


@threadpool_limits.wrap(limits=1)
def shares(
    k: Any, bits: int, n: int, distance: float, moved: int, repeats: int, share: float
) -> tuple[float, ...]:
    """Percent of intervals, lower and upper ends that are right, and the median length.

    Samples come from bits of which some have another probability, so many standard errors away. The
    length is that on the scale of the discrepancy, in terms of its error.
    """
    other = min(0.97, BIT + distance / np.sqrt(n * moved) * np.sqrt(BIT * (1 - BIT)))
    p, q = (
        ek.factorized([[1 - x, x]] * moved + [[1 - BIT, BIT]] * (bits - moved))
        for x in (BIT, other)
    )
    rng, found, scale, rounding = np.random.default_rng(0), [], 0.0, 1e-12
    for _ in range(repeats):
        test = ek.mmd_test(q.sample(n, rng), p, k, n_null=N_NULL, rng=rng)
        found.append(test.interval(share))
        scale += test.sampling_error.variance**0.25 / repeats
    truth, ends = float(ek.mmd2(p, q, k)), np.array(found)
    low, high = ends[:, 0] <= truth + rounding, ends[:, 1] >= truth - rounding
    length = float(np.median(np.diff(np.sqrt(ends), axis=1))) / scale
    return 100 * np.mean(low & high), 100 * np.mean(low), 100 * np.mean(high), length


def coverage(
    repeats: int = 200,
    share: float = 0.95,
    n: list[int] = SIZES,
    dimensions: list[int] = DIMENSIONS,
    distances: list[float] = DISTANCES,
    jobs: int = 1,
) -> None:
    """How often intervals of discrepancies, of which this share should, hold the truth."""
    cases = [
        (k, bits, size, distance, moved)
        for k, bits, size, distance in product(KERNELS, dimensions, n, distances)
        for moved in sorted({1, bits} if distance > 0 else {1})
    ]
    found = Parallel(jobs)(delayed(shares)(*case, repeats, share) for case in cases)
    lines = [
        (*case, *(f"{x:.1f}" for x in right), f"{length:.2f}")
        for case, (*right, length) in zip(cases, found, strict=True)
    ]
    show(f"Intervals of {100 * share:g} %, {repeats} repetitions", lines, HEADS)


ALL = [coverage]
