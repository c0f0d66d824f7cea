"""The kernel that tells samples from a model, or from other samples, most reliably."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from expectedkernels.arrays import SamplesLike
from expectedkernels.discrepancies.embeddings import Summable, mmd_noise, mmd_statistics, summable
from expectedkernels.discrepancies.nulls import KernelsLike, complete_samples, kernels_of
from expectedkernels.discrepancies.pairs import distinct_places, kernel_between, row_sums
from expectedkernels.discrepancies.two_samples import two_sets
from expectedkernels.kernels.defaults import default_kernel
from expectedkernels.kernels.kernel import Kernel, require_kernel
from expectedkernels.kernels.rows import check_roles, is_model
from expectedkernels.kernels.target import TargetLike, as_target

LEAST_ERROR = 1e-8
"""Standard errors below this part of the kernel's values are rounding."""


def choose_kernel(
    samples: SamplesLike, other: TargetLike | SamplesLike, kernels: KernelsLike = "aggregate"
) -> Kernel:
    r"""The kernel whose test tells samples from a model, or from other samples, most reliably.

    A test rejects where the estimate of the squared discrepancy is many standard errors above
    zero. So this is the kernel with the largest

    .. math:: \widehat{\mathrm{MMD}}^2 / \hat\sigma,

    the unbiased estimate over its standard error, which for large samples orders kernels by the
    power of their tests.

    Parameters
    ----------
    samples : array of shape (n, variables), or data frame
        At least two complete points.
    other : Circuit, FactorGraph, or another model; or samples
        What the samples are compared with, as for `mmd_test` or `mmd_two_sample_test`.
    kernels : list of kernels, or "aggregate"
        To choose from. Default: rates from half to eight times the default of the test.

    Returns
    -------
    Kernel

    Raises
    ------
    DataError
        If there are fewer than two samples, values are missing, or there is no kernel.

    Notes
    -----
    Choose with some rows and test with others, as in the example: a kernel that was chosen by the
    rows that are tested rejects too often. (A list of kernels, given to a test, needs no rows of
    its own, as the test knows of all of them.) All numbers are computed on the host.

    D. J. Sutherland et al., "Generative models and model criticism via optimized maximum mean
    discrepancy", ICLR 2017.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.5, 0.5], [0.3, 0.7]])
    >>> X = ek.factorized([[0.6, 0.4], [0.5, 0.5]]).sample(400, rng=0)
    >>> k = ek.choose_kernel(X[:200], p, [ek.ExpHamming(0.1), ek.ExpHamming(5.0)])
    >>> k
    ExpHamming(gamma=0.1)
    >>> ek.mmd_test(X[200:], p, k, rng=0).p_value
    0.005
    """
    if is_model(other) or hasattr(other, "compile") or callable(other):
        return _against_model(samples, other, kernels)
    first, second = two_sets(samples, other)
    pooled = np.concatenate([first, second])
    found = kernels_of(kernels, lambda scale: default_kernel(pooled, scale=scale))
    return _best(found, lambda k: _two_samples(k, first, second), first)


def _against_model(samples: Any, other: Any, kernels: Any) -> Kernel:
    model = as_target(other)
    check_roles("choose_kernel(samples, model)", model, samples)
    given: Summable = summable(model)
    points = complete_samples(given.circuit, samples)
    found = kernels_of(kernels, lambda scale: default_kernel(given.circuit, scale=scale))

    def estimate(k: Kernel) -> tuple[float, float]:
        value = mmd_statistics(given, [k])(points[None])
        return float(value[0, 0]), mmd_noise(given, k, points)[0]

    return _best(found, estimate, points)


def _best(kernels: list[Kernel], estimate: Any, points: Any) -> Kernel:
    """The kernel with the most standard errors, the first of equals."""
    ratios = []
    for k in kernels:
        require_kernel(k)
        value, error = estimate(k)
        size = float(np.abs(k.pairs(points, points)).mean())
        ratios.append(value / max(error, LEAST_ERROR * size, 1e-300))
    return kernels[int(np.argmax(ratios))]


def _two_samples(k: Kernel, X: Any, Y: Any) -> tuple[float, float]:
    """The unbiased estimate of the squared discrepancy of two samples, and its standard error."""
    n = len(X)
    rows, place = distinct_places(np.concatenate([X, Y])[None])
    between = kernel_between(k, rows)
    value, variance = 0.0, 0.0
    sums = []
    for own in (place[0, :n], place[0, n:]):
        weights = np.bincount(own, minlength=len(rows)).astype(np.float64)
        sums.append((own, *row_sums(between, weights)[::2]))
    for (own, mine, diagonal), (others, theirs, _) in (sums, sums[::-1]):
        inside = (mine[own] - diagonal[own]) / (len(own) - 1)
        partners = inside - theirs[own] / len(others)
        value += float(partners.mean())
        variance += 4.0 * float(partners.var(ddof=1)) / len(own)
    return value, sqrt(variance)
