"""The kernel that tells samples from a model, or from other samples, most reliably."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import sqrt
from typing import Any

import numpy as np

from expectedkernels.arrays import SamplesLike, VariablesLike
from expectedkernels.checks import check_choice
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.discrepancies.ascent import (
    Ratio,
    ascended,
    model_ratio,
    parameters,
    sample_ratio,
)
from expectedkernels.discrepancies.embeddings import Summable, mmd_noise, mmd_statistics, summable
from expectedkernels.discrepancies.nulls import KernelsLike, complete_samples, kernels_of
from expectedkernels.discrepancies.pairs import (
    counts_of,
    distinct_places,
    kernel_between,
    row_sums,
)
from expectedkernels.discrepancies.two_samples import pooled_kernels, two_sets
from expectedkernels.errors import DataError, KernelError
from expectedkernels.kernels.defaults import default_kernel
from expectedkernels.kernels.kernel import Kernel, require_kernel
from expectedkernels.kernels.rows import check_roles, is_model
from expectedkernels.kernels.target import TargetLike, as_target

LEAST_ERROR = 1e-8
"""Standard errors below this part of the kernel's values are rounding."""


MOST_ROWS = 2000
"""How many rows of either sample are used to move a kernel along a gradient, and to check it."""


def choose_kernel(
    samples: SamplesLike,
    other: TargetLike | SamplesLike,
    kernels: KernelsLike = "aggregate",
    method: str = "list",
    *,
    categorical_features: VariablesLike | None = None,
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
    method : "list" or "gradient"
        "gradient" goes on from the best of the list: rates, and weights of sums, follow the
        gradient of the ratio on one half of the rows, as long as the ratio on the other half
        grows. Give a rate per variable to have each chosen: ``RBF([0.1] * n)``. Needs torch, and
        at least four samples; of many, the first are used.
    categorical_features : names, numbers or mask of columns, optional
        Of two sets of samples the categorical columns, for the default kernels, as for `mmd2`.

    Returns
    -------
    Kernel

    Raises
    ------
    DataError
        If there are too few samples, values are missing, or there is no kernel.
    KernelError
        If the kernel that is best has no rate and no weight for gradients to change.

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
    >>> ek.choose_kernel(X[:200], p, ek.ExpHamming([0.5, 0.5]), method="gradient").gamma.shape
    (2,)
    """
    check_choice("choose_kernel", "method", method, ("list", "gradient"), DataError)
    if is_model(other) or hasattr(other, "compile") or callable(other):
        return _against_model(samples, other, kernels, method, categorical_features)
    first, second, schema = two_sets(samples, other)
    pooled = np.concatenate([first, second])
    found, _ = pooled_kernels(kernels, pooled, schema, categorical_features)
    best = _best(found, lambda k: _two_samples(k, first, second), first)
    if method == "list":
        return best
    pairs = zip(_halves(first), _halves(second), strict=True)
    return _moved(best, first.shape[1], [_sample_ratio(*pair) for pair in pairs])


def _against_model(
    samples: Any, other: Any, kernels: Any, method: str, categorical_features: Any
) -> Kernel:
    model = as_target(other)
    check_roles("choose_kernel(samples, model)", model, samples)
    given: Summable = summable(model)
    points = complete_samples(given.circuit, samples)
    default = partial(default_kernel, given.circuit, categorical_features=categorical_features)
    found = kernels_of(kernels, lambda scale: default(scale=scale), categorical_features)

    def estimate(k: Kernel) -> tuple[float, float]:
        value = mmd_statistics(given, [k])(points[None])
        return float(value[0, 0]), mmd_noise(given, k, points)[0]

    best = _best(found, estimate, points)
    if method == "list":
        return best
    ratios = [_model_ratio(given.circuit, half) for half in _halves(points)]
    return _moved(best, points.shape[1], ratios)


def _halves(points: Any) -> tuple[Any, Any]:
    """Every other of the rows, and the rest of them, so many as are used."""
    if len(points) < 4:
        raise DataError(
            "A gradient follows one half of the samples, and the other half checks it, so that at "
            f"least four are needed. Got {len(points)}."
        )
    return points[: 2 * MOST_ROWS : 2], points[1 : 2 * MOST_ROWS : 2]


def _moved(kernel: Kernel, n_variables: int, ratios: Sequence[Ratio]) -> Kernel:
    if not parameters(kernel, n_variables)[0]:
        raise KernelError(
            f"{kernel!r}, the best kernel here, has no rate and no weight for gradients to change. "
            "Choose among kernels that have, or with method='list'."
        )
    return ascended(kernel, n_variables, *ratios)


def _model_ratio(circuit: Circuit, points: Any) -> Ratio:
    rows, place = distinct_places(points[None])
    return model_ratio(circuit, rows, counts_of(place, len(rows))[0], LEAST_ERROR)


def _sample_ratio(first: Any, second: Any) -> Ratio:
    rows, place = distinct_places(np.concatenate([first, second])[None])
    sides = place[0, : len(first)], place[0, len(first) :]
    both = [np.bincount(own, minlength=len(rows)).astype(np.float64) for own in sides]
    return sample_ratio(rows, both, LEAST_ERROR)


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
