"""A test of whether samples come from a target, by their Stein discrepancy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from expectedkernels.arrays import Array, RngLike, RowsLike, as_generator
from expectedkernels.checks import check_count, check_real
from expectedkernels.errors import DataError
from expectedkernels.kernels.kernel import Kernel
from expectedkernels.kernels.rows import check_roles, sample_rows, sample_weights
from expectedkernels.kernels.stein import SteinKernel, discrete_cardinalities
from expectedkernels.kernels.target import TargetLike, as_target


@dataclass(frozen=True)
class GoodnessOfFit:
    """The result of `kdsd_test`.

    Attributes
    ----------
    statistic : float
        The discrepancy of the samples from the target (U-statistic).
    p_value : float
        How often a statistic at least as large is expected if the samples come from the target.
    n : int
        The number of samples.
    bootstrap : array
        The statistics drawn under the hypothesis that they do.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.5, 0.5], [0.3, 0.7]])
    >>> ek.kdsd_test(p.sample(100, rng=0), p, rng=0).p_value > 0.05
    True
    """

    statistic: float
    p_value: float
    n: int
    bootstrap: Array = field(repr=False)


def kdsd_test(
    samples: RowsLike,
    target: TargetLike,
    k: Kernel | None = None,
    operator: str = "gibbs",
    *,
    n_bootstrap: int = 1000,
    change: float = 0.5,
    zeros: str = "raise",
    rng: RngLike = None,
) -> GoodnessOfFit:
    r"""A test of the hypothesis that samples come from a target known up to a constant.

    The statistic is the unbiased discrepancy of the samples,
    :math:`\frac{1}{n (n - 1)} \sum_{i \ne j} k_p(x_i, x_j)`. Its distribution under the hypothesis
    is imitated by random signs (wild bootstrap): :math:`\sum_{i \ne j} s_i s_j k_p(x_i, x_j)`.

    Parameters
    ----------
    samples : array of shape (n, variables), or of shape (chains, n, variables)
        At least two complete points, in the order in which they were drawn. Frames, labelled
        arrays and InferenceData are read as well, by the names of the variables if the target
        has names.
    target : FactorGraph, BayesianNetwork, Circuit or Target
        Known up to a constant; a circuit need not be deterministic.
    k : Kernel, optional
        Default: ``ExpHamming()``.
    operator : "gibbs" or "shift"
        As in `SteinKernel`. Gibbs updates are bounded and need no positive target.
    n_bootstrap : int
        How many random signs are drawn; the p-value is a multiple of 1 / (n_bootstrap + 1).
    change : float
        The probability that the sign changes from one sample to the next. One half makes
        independent signs, right for independent samples. Samples of a Markov chain that depend on
        their predecessors need a smaller one, about one over the number of steps after which they
        do not, or the test rejects too often.
    zeros : "raise" or "restrict"
        What shifts do if the target has zeros, as in `SteinKernel`.
    rng : int, Generator or None

    Notes
    -----
    The level holds for many samples. With shifts, how many depends on the target: if it has states
    that are thousands of times less likely than their neighbours, and that samples of this size
    hardly ever see, the test rejects too often.

    The masses of parts of the support that no change of a single variable connects are not
    compared (see `irreducible`).

    J. Yang, Q. Liu, V. Rao and J. Neville, "Goodness-of-fit testing for discrete distributions via
    Stein discrepancy", ICML 2018; K. Chwialkowski, H. Strathmann and A. Gretton, "A kernel test
    of goodness of fit", ICML 2016 (signs for dependent samples).

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.5, 0.5], [0.3, 0.7]])
    >>> q = ek.factorized([[0.6, 0.4], [0.5, 0.5]])
    >>> kdsd_test(q.sample(200, rng=0), p, rng=0).p_value < 0.01
    True
    """
    target = as_target(target)
    check_roles("kdsd_test(samples, target, k)", target, samples)
    discrete_cardinalities(target)
    points = sample_rows(target, samples)
    if len(points) < 2:
        raise DataError(f"A test needs at least two samples. Got {len(points)}.")
    weights = sample_weights(samples)
    if weights is not None and not np.allclose(weights, weights[0], rtol=1e-9, atol=0.0):
        raise DataError(
            "A test is of samples that count alike, and these have different weights. Give their "
            "rows alone to test where they come from, or ask kdsd for their weighted discrepancy."
        )
    check_count("kdsd_test", "n_bootstrap", n_bootstrap, 1, error=DataError)
    check_real("kdsd_test", "change", change, 0, 0.5, "(]", error=DataError)
    distinct, place = np.unique(points, axis=0, return_inverse=True)
    place = place.reshape(-1)
    matrix = SteinKernel(target, k, zeros, operator)(distinct)
    n, counts = len(points), np.bincount(place)
    diagonal = float(counts @ np.diag(matrix))
    statistic = (counts @ matrix @ counts - diagonal) / (n * (n - 1))
    signs = _signs(as_generator(rng), int(n_bootstrap), n, float(change))
    sums = np.zeros((len(signs), len(distinct)))
    for row, drawn in zip(sums, signs, strict=True):
        row[:] = np.bincount(place, drawn, minlength=len(distinct))
    drawn = (((sums @ matrix) * sums).sum(axis=1) - diagonal) / (n * (n - 1))
    p_value = (1 + int((drawn >= statistic).sum())) / (len(drawn) + 1)
    return GoodnessOfFit(float(statistic), p_value, n, drawn)


def _signs(generator: Any, m: int, n: int, change: float) -> Any:
    """Rows of signs that change from one to the next with a probability."""
    start = generator.choice([-1.0, 1.0], size=(m, 1))
    flips = np.where(generator.random((m, n - 1)) < change, -1.0, 1.0)
    return np.hstack([start, start * np.cumprod(flips, axis=1)])
