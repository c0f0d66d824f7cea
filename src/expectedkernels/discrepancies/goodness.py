"""A test of whether samples come from a target, by their Stein discrepancy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from expectedkernels.arrays import Array, RngLike, SamplesLike
from expectedkernels.checks import check_choice, check_count, check_real
from expectedkernels.discrepancies.nulls import (
    KernelsLike,
    Statistic,
    check_refit,
    complete_samples,
    kernels_of,
    null_drawer,
    null_generator,
    outcome,
    refitted,
    simulated,
    simulated_source,
)
from expectedkernels.discrepancies.outcomes import GoodnessOfFit
from expectedkernels.discrepancies.pairs import distinct_places, pair_means
from expectedkernels.errors import DataError, rows_numbered
from expectedkernels.kernels.library import ExpHamming
from expectedkernels.kernels.rows import check_roles
from expectedkernels.kernels.stein import SteinKernel, discrete_cardinalities, selected_grams
from expectedkernels.kernels.target import TargetLike, as_target

NULLS = ("auto", "model", "gibbs", "signs")

ENOUGH = 8.0
"""Random signs are trusted if there are this many for every unit of skewness, squared."""


def kdsd_test(
    samples: SamplesLike,
    target: TargetLike,
    k: KernelsLike = None,
    operator: str = "gibbs",
    *,
    null: str = "auto",
    n_null: int = 199,
    change: float | None = None,
    zeros: str = "raise",
    refit: Callable[[Array], TargetLike] | None = None,
    rng: RngLike = None,
) -> GoodnessOfFit:
    r"""A test of the hypothesis that samples come from a target known up to a constant.

    The statistic is the unbiased discrepancy of the samples,
    :math:`\frac{1}{n (n - 1)} \sum_{i \ne j} k_p(x_i, x_j)`. It is ranked among the statistics of
    samples that are simulated under the hypothesis.

    Parameters
    ----------
    samples : array of shape (n, variables), or of shape (chains, n, variables)
        At least two complete points, in the order in which they were drawn. Frames, labelled
        arrays and InferenceData are read as well, by the names of the variables if the target
        has names.
    target : FactorGraph, BayesianNetwork, Circuit or Target
        Known up to a constant; a circuit need not be deterministic.
    k : Kernel, list of kernels, or "aggregate"; optional
        Default: ``ExpHamming()``. Several kernels, or "aggregate" for rates from 0.5 / D to 8 / D,
        are one test: the largest standardised statistic is ranked.
    operator : "gibbs" or "shift"
        As in `SteinKernel`. Gibbs updates are bounded and need no positive target.
    null : "auto", "model", "gibbs" or "signs"
        How samples under the hypothesis come about. "model": independent draws of the target, if it
        is a circuit, compiles to one, or is a function of at most 2^18 states. "gibbs": Gibbs
        chains that lead from the samples to a hub and back, for all other targets. Both keep
        the level exactly for independent samples of any size. "signs": random signs (wild
        bootstrap), for the samples of a Markov chain; the level holds for many samples. "auto":
        the first of these that is possible; signs if `change` is given.
    n_null : int
        How many samples are simulated; the p-value is a multiple of 1 / (n_null + 1).
    change : float, optional
        For samples of a Markov chain that depend on their predecessors: the probability that the
        sign changes from one sample to the next, one over twice the number of steps after which
        they do not. Only samples that far apart are compared, and signs need many times as many
        samples. Default: one half, for independent samples. Samples of which few rare ones
        outweigh all others are refused, because signs reject them too often.
    zeros : "raise" or "restrict"
        What shifts do if the target has zeros, as in `SteinKernel`.
    refit : function, optional
        For a target that was fitted to these samples: how. The function takes an array of samples
        and returns a target. The statistic is then that of ``refit(samples)``, and simulated
        samples get targets of their own (parametric bootstrap); they are drawn from the target of
        ten copies of the samples, to which pseudocounts matter little.
    rng : int, Generator or None

    Returns
    -------
    GoodnessOfFit

    Raises
    ------
    DataError
        If there are fewer than two samples, they have different weights, or random signs cannot
        judge them.

    Notes
    -----
    Draws of the target and the samples are exchangeable under the hypothesis, so the probability of
    a p-value of at most a is at most a, for every kernel and operator. The same holds for Gibbs
    chains, however slowly they mix: see J. Besag and P. Clifford, "Generalized Monte Carlo
    significance tests", Biometrika 1989. If samples have ties, as those of rare states do, the
    probability is smaller.

    The masses of parts of the support that no change of a single variable connects are not
    compared (see `irreducible`); `mmd_test` does.

    J. Yang, Q. Liu, V. Rao and J. Neville, "Goodness-of-fit testing for discrete distributions via
    Stein discrepancy", ICML 2018; K. Chwialkowski, H. Strathmann and A. Gretton, "A kernel test
    of goodness of fit", ICML 2016 (signs for dependent samples).

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.5, 0.5], [0.3, 0.7]])
    >>> q = ek.factorized([[0.6, 0.4], [0.5, 0.5]])
    >>> kdsd_test(q.sample(200, rng=0), p, rng=0).p_value
    0.005
    """
    target = as_target(target)
    check_roles("kdsd_test(samples, target, k)", target, samples)
    cardinalities = discrete_cardinalities(target)
    points = complete_samples(target, samples)
    check_count("kdsd_test", "n_null", n_null, 1, error=DataError)
    null = _checked_null(null, change, refit)
    kernels = kernels_of(k, lambda c: ExpHamming(None if c == 1.0 else c / len(cardinalities)))
    generator = null_generator(rng)

    def statistic_of(model: Any) -> Statistic:
        return _statistic([SteinKernel(model, kernel, zeros, operator) for kernel in kernels])

    if refit is not None:
        target = as_target(refit(points))
    first = np.unique(points, axis=0, return_index=True)[1]  # statistics look at distinct rows
    if null == "signs":
        change = 0.5 if change is None else change
        steins = [SteinKernel(target, kernel, zeros, operator) for kernel in kernels]
        with rows_numbered(first):
            found = _signed_statistics(steins, points, n_null, change, generator)
        drawn = "signs"
    else:
        statistic = statistic_of(target)
        with rows_numbered(first):
            observed = statistic(points[None])  # names impossible samples before others are drawn
        source = target if refit is None else as_target(simulated_source(refit, points))
        drawn, draw = null_drawer(source, points, null, generator)
        if refit is not None:
            statistic = refitted(lambda X: statistic_of(as_target(refit(X))))
        found = simulated(observed, statistic, draw, points.size, n_null)
    return GoodnessOfFit(**outcome(found, drawn, kernels), n=len(points))


def _checked_null(null: Any, change: Any, refit: Any) -> str:
    check_choice("kdsd_test", "null", null, NULLS, DataError)
    if change is None and refit is None:
        return str(null)
    if change is not None:
        check_real("kdsd_test", "change", change, 0, 0.5, "(]", error=DataError)
    check_refit(refit)
    if change is not None and (refit is not None or null in ("model", "gibbs")):
        other = "refit" if refit is not None else f"null={null!r}"
        raise DataError(
            f"'change' is for the random signs of dependent samples. Got {other} as well, which "
            "is for independent ones."
        )
    if refit is not None and null in ("gibbs", "signs"):
        raise DataError(
            f"Models are fitted anew to draws of the model. Got null={null!r} beside 'refit'; "
            "use null='model'."
        )
    return "signs" if change is not None else "model"


def _statistic(kernels: list[SteinKernel]) -> Statistic:
    """The unbiased discrepancies of samples, one row per kernel."""

    def statistic(samples: Any) -> Any:
        rows, place = distinct_places(samples)
        found = [pair_means(f, place, len(rows)) for f in selected_grams(kernels, rows)]
        return np.stack(found)

    return statistic


def _signed_statistics(
    kernels: list[SteinKernel], points: Any, m: int, change: float, generator: Any
) -> Any:
    """The discrepancies of samples, and those with random signs, (kernels, 1 + m)."""
    rows, place = distinct_places(points[None])
    place, every, n = place[0], np.arange(len(rows)), len(points)
    apart = _steps_apart(change, n)
    signs = np.vstack([np.ones(n), _signs(generator, m, n, change)])
    sums = np.stack([np.bincount(place, row, minlength=len(rows)) for row in signs])
    found = []
    for between in selected_grams(kernels, rows):
        matrix = between(every, every)
        if matrix.min() >= 0:
            raise DataError(
                f"Random signs cannot judge these {n} samples: no two of them disagree (no entry "
                "of their Stein kernel is negative), so the statistic is the largest one that "
                "signs can give, whatever the samples come from. Thin a chain until its samples "
                "are independent, and use null='auto'."
            )
        _refuse_skewed(matrix[place, place], change)
        near = np.full(1 + m, matrix[place, place].sum())
        for lag in range(1, apart):
            near += 2.0 * (signs[:, lag:] * signs[:, :-lag]) @ matrix[place[lag:], place[:-lag]]
        total = ((sums @ matrix) * sums).sum(axis=1)
        found.append((total - near) / ((n - apart) * (n - apart + 1)))
    return np.stack(found)


def _refuse_skewed(own: Any, change: float) -> None:
    """Raise if few samples, by their Stein kernels with themselves, outweigh all others.

    The error of random signs grows with the squared skewness over the number of independent signs,
    and the squared skewness is below the kurtosis, less one.
    """
    n = len(own)
    kurtosis = n * float((own**2).sum() / own.sum() ** 2)
    needed = ENOUGH * (kurtosis - 1.0) * (1.0 - change) / change
    if n < needed:
        raise DataError(
            f"Random signs cannot judge these {n} samples: by the sizes of their Stein kernels "
            f"they count as {n / kurtosis:.1f}, because rare states outweigh the others. With "
            f"change={change:g}, about {needed:.0f} samples of this kind are needed. Draw more; or "
            "thin a chain until its samples are independent, and use null='auto'."
        )


def _steps_apart(change: float, n: int) -> int:
    """How many steps samples are apart that are compared: those next to each other depend."""
    apart = max(1, round(0.5 / change))
    if apart >= n:
        raise DataError(
            f"With change={change:g}, samples are compared that are at least {apart} steps apart. "
            f"Got {n} samples; draw more of them, or thin the chain and raise 'change'."
        )
    return apart


def _signs(generator: Any, m: int, n: int, change: float) -> Any:
    """Rows of signs that change from one to the next with a probability."""
    start = generator.choice([-1.0, 1.0], size=(m, 1))
    flips = np.where(generator.random((m, n - 1)) < change, -1.0, 1.0)
    return np.hstack([start, start * np.cumprod(flips, axis=1)])
