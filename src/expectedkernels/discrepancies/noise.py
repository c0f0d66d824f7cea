"""Confidence intervals of squared discrepancies, valid near the model and far from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

NODES = np.linspace(-6.5, 6.5, 651)
"""Where the normal error along the discrepancy is read."""


@dataclass(frozen=True)
class Noise:
    """The squared distance between the mean embeddings of samples and of their source.

    Attributes
    ----------
    mean, variance : float
        Of the distance, if samples were drawn again.
    n : int
        The number of samples.
    along : float
        The variance of the error in the direction of the discrepancy, where that is known.
    """

    mean: float
    variance: float
    n: int
    along: float = 0.0


def noise_between(statistic: float, error: float, spread: Noise, null: Any) -> Noise:
    """The noise of an estimate, along the discrepancy and in all.

    Near zero the direction of the discrepancy is not known, and the error along it is at most that
    of all directions together; else it is known from the standard error. Samples that are all in a
    few states do not show how they could differ: so the noise is no less than that of simulated
    samples of the model, and one more sample, of the model, is thought to be among those given.

    Examples
    --------
    >>> noise_between(0.5, 0.1, Noise(0.02, 1e-4, 100), np.zeros(9)).along.__round__(6)
    0.00505
    """
    mean, most = spread.mean, sqrt(spread.variance / 2.0)
    least = sqrt(float(np.mean(np.square(null))) / 2.0)
    if least > most:
        mean = max(mean * least / most if most > 0 else 0.0, least)
    one = max(statistic, 0.0) / spread.n**2
    mean, most = mean + one, max(least, most) + one
    along = min(most, error**2 / (4.0 * statistic) + one) if statistic > 0 else most
    return Noise(mean, 2.0 * most**2, spread.n, min(along, mean))


def score_interval(statistic: float, noise: Noise, coverage: float) -> tuple[float, float]:
    r"""The squared discrepancies under which an estimate is not unlikely.

    With the mean embeddings of the model, the source and the samples, :math:`\mu_p`,
    :math:`\mu_q` and :math:`\hat\mu`, and :math:`\theta = \|\mu_q - \mu_p\|`,

    .. math:: \|\hat\mu - \mu_p\|^2 = (\theta + s g)^2 + r,

    where s g is the error of :math:`\hat\mu` along the discrepancy, and r the squared error across.
    g is taken as Student's, r as a multiple of a chi-squared variable, and each end is the
    :math:`\theta^2` at which what was found, or more (less), has half of the remaining chance.

    Examples
    --------
    >>> ends = score_interval(24.0, Noise(1.0, 2.0, 10**6, 1.0), 0.9)  # of 5^2, in one dimension
    >>> np.sqrt(ends).round(2) - 5.0
    array([-1.64,  1.64])
    """
    tail = 0.5 - 0.5 * coverage
    chance = _chance_below(noise)
    found = statistic + noise.mean
    least = max(statistic, 0.0) + noise.mean  # estimates below zero do not say more than zero
    low = _last(lambda length: chance(length, found) > 1.0 - tail, sqrt(least))
    return low**2, _last(lambda length: chance(length, least) > tail, sqrt(least)) ** 2


def _chance_below(noise: Noise) -> Callable[[float, float], float]:
    """From a discrepancy and a value to the probability that what is found is at most that."""
    from scipy.special import gammainc, ndtr, stdtrit  # slow to import

    weights = np.exp(-0.5 * NODES**2)
    weights /= weights.sum()
    errors = np.copysign(stdtrit(noise.n - 1, ndtr(-np.abs(NODES))), NODES) * sqrt(noise.along)
    across, variance = noise.mean - noise.along, noise.variance - 2.0 * noise.along**2

    def chance(length: float, value: float) -> float:
        left = value - (length + errors) ** 2
        if across <= 1e-9 * noise.mean or variance <= 1e-9 * noise.variance:
            return float(weights @ (left >= across))
        half = across**2 / variance  # half of the degrees of freedom
        return float(weights @ gammainc(half, np.maximum(left, 0.0) * across / variance))

    return chance


def _last(holds: Callable[[float], bool], step: float) -> float:
    """The largest length for which something holds, zero if it never does."""
    if step == 0.0 or not holds(0.0):
        return 0.0
    low, high = 0.0, step
    while holds(high):
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
