"""Partition functions of targets that are too large to compile, from samples of them."""

from __future__ import annotations

import warnings
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit

from expectedkernels.arrays import RngLike, SamplesLike, as_generator, to_numpy
from expectedkernels.checks import DataError, PropertyError, check_real, rows_numbered
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.queries import require_normalized
from expectedkernels.data.evidence import as_points
from expectedkernels.kernels import empirical
from expectedkernels.kernels.kernel import refuse_gradients
from expectedkernels.kernels.target import TargetLike
from expectedkernels.learning.chow_liu import learn_chow_liu
from expectedkernels.stein.bbis import bbis
from expectedkernels.stein.stein_kernel import stein_target

LEAST = 20
"""How many samples of the target there must be."""
BATCHES = 7
"""Into how many batches dependent samples are divided."""
ENOUGH = 5.0
"""Of values that determine a variance: if there are more, one that was not seen counts less."""
TINY = 1e-40
"""The fourth power of a difference that is rounding."""
OVERLAP = 0.25
"""Below this overlap, in samples from the proposal, nothing can be said."""


class PartitionEstimate(NamedTuple):
    """What `log_partition_estimate` finds, a pair of numbers.

    Attributes
    ----------
    log_z : float
        The estimated log of the partition function.
    standard_error : float
        Of that estimate; infinite if it cannot be estimated.

    Examples
    --------
    >>> low, high = PartitionEstimate(1.0, 0.1).interval()
    >>> round(low, 3), round(high, 3)
    (0.804, 1.196)
    """

    log_z: float
    standard_error: float

    def interval(self, coverage: float = 0.95) -> tuple[float, float]:
        """A normal confidence interval of the log of the partition function."""
        check_real("interval", "coverage", coverage, 0, 1, "()", error=DataError)
        reach = NormalDist().inv_cdf(0.5 + 0.5 * coverage) * self.standard_error
        return self.log_z - reach, self.log_z + reach


def log_partition_estimate(
    target: TargetLike,
    samples: SamplesLike,
    *,
    proposal: Circuit | None = None,
    weights: ArrayLike | str | None = None,
    rng: RngLike = None,
) -> PartitionEstimate:
    r"""The log of a target's partition function and its standard error, from samples of it.

    A circuit q is learned from one half of the samples; the other half and as many samples of
    q are put into the bridge of Meng and Wong, whose estimate Z solves

    .. math:: \sum_A \frac{s_q Z}{s_p \ell + s_q Z} = \sum_Q \frac{s_p \ell}{s_p \ell + s_q Z}

    with :math:`\ell = \tilde p / q` at samples A of the target and Q of the circuit, and the
    shares of both among all.

    Parameters
    ----------
    target : FactorGraph, BayesianNetwork, Circuit or Target
        Over discrete variables, known up to the constant that is estimated.
    samples : array of shape (n, variables), or (chains, n, variables)
        Of the target, in the order in which they were drawn: those of `gibbs`, or weighted ones.
    proposal : Circuit, optional
        Another normalised circuit q, which must not have been learned from these samples: all of
        them are compared with it. Default: a Chow-Liu tree of the first half.
    weights : array of shape (n,), or "default", optional
        Weights of the samples; "default" for those of `bbis` on the samples that are compared
        with q. Default: those that come with the samples, else equal ones. Samples of weight zero
        are ignored.
    rng : int, Generator or None
        For the samples from q.

    Returns
    -------
    PartitionEstimate
        The pair (log_z, standard_error).

    Raises
    ------
    DataError
        If there are too few samples, or one has probability zero.
    PropertyError
        If the proposal does not fit the target.

    Warns
    -----
    RuntimeWarning
        If the samples and the samples from q hardly overlap. The standard error is infinite then.

    Notes
    -----
    Samples of the target may depend on those before: the standard error takes the larger of what
    autocorrelations and a few long batches say. Where few values determine the variance, as for a
    concentrated target whose samples are nearly all equal, it allows for one more sample on either
    side that is as different as it can be (a rule of three for states that were not seen). It
    knows nothing of modes that the samples have not seen, and is too small if a chain has hardly
    moved on between the first and the last; several chains from different starts show such modes.

    Where half of the variables can be marginalised, `cis` estimates the same number better, in its
    `log_z`; where everything can, ``compile`` gives it exactly.

    X.-L. Meng and W. H. Wong, "Simulating ratios of normalizing constants via a simple
    identity", Statistica Sinica 1996.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> grid = ek.ising_grid(3, 3, rng=0)
    >>> samples = ek.gibbs(grid, 400, burn_in=50, thin=5, rng=0)
    >>> log_z, error = ek.log_partition_estimate(grid, samples, rng=0)
    >>> abs(log_z - grid.log_partition()) < 3 * error < 0.3
    True
    """
    call = "log_partition_estimate(target, samples)"
    target = stein_target(call, target, samples)
    cards: Any = target.cardinalities
    refuse_gradients("log_partition_estimate", target)
    rows = empirical.sample_rows(target, samples, least=LEAST)
    used, shares = empirical.counted_rows(samples, len(rows)), empirical.sample_weights(samples)
    if weights is not None and not (isinstance(weights, str) and weights == "default"):
        shares = np.zeros(0) if isinstance(weights, str) else np.asarray(weights, dtype=np.float64)
        if shares.shape != (len(rows),) or not np.isfinite(shares).all() or (shares < 0).any():
            shown = weights if isinstance(weights, str) else f"an array of shape {shares.shape}"
            raise DataError(
                "The 'weights' parameter of log_partition_estimate must be 'default', "
                f"{len(rows)} numbers that are not negative, one per sample, or None. Got {shown}."
            )
    if shares is not None:
        used = used[shares[used] > 0]
        shares = shares[used]
    rows = rows[used]
    with rows_numbered(used):
        as_points(rows, cards, "Samples that a partition function is estimated from")
    if len(rows) < LEAST:
        raise DataError(
            f"Partition functions are estimated from at least {LEAST} samples with a weight above "
            f"zero. Got {len(rows)}."
        )
    model: Any = target
    scores = model.log_likelihood if isinstance(model, Circuit) else model.log_score
    logs = to_numpy(scores(rows))
    _require_possible(logs, used)
    if proposal is None:
        half = slice(len(rows) // 2)
        weighted = {} if shares is None else {"sample_weight": shares[half]}
        proposal = learn_chow_liu(rows[half], cardinalities=cards, **weighted)
        rest = slice(half.stop, None)
        rows, used, logs = rows[rest], used[rest], logs[rest]
        shares = None if shares is None else shares[rest]
    else:
        _check_proposal(proposal, target)
    if isinstance(weights, str):
        with rows_numbered(used):
            shares = bbis(target, rows).weights
    shares = np.full(len(rows), 1.0 / len(rows)) if shares is None else shares / shares.sum()
    draws = proposal.sample(len(rows), rng=as_generator(rng))
    ours = logs - to_numpy(proposal.log_likelihood(rows))
    _require_possible(ours, used)
    theirs = to_numpy(scores(draws)) - to_numpy(proposal.log_likelihood(draws))
    every = np.append(ours, theirs)
    # if many different states have one ratio, the proposal is the target
    equal = np.isfinite(every).all() and np.ptp(every) <= 1e-9 + 1e-12 * np.abs(every).max()
    equal = equal and len(empirical.distinct_rows(np.vstack([rows, draws]))[2]) >= LEAST
    return _bridge(ours, shares, theirs, equal)


def _require_possible(logs: Any, numbers: Any) -> None:
    if not np.isfinite(logs).all():
        raise DataError(
            "The sample in row {row} has probability zero under the target or the proposal, so it "
            "is no sample of the target, or the proposal does not cover it.",
            row=int(numbers[np.argmin(np.isfinite(logs))]),
        )


def _check_proposal(proposal: Any, target: Any) -> None:
    """Raise unless the proposal is over the states of the target, with exact likelihoods."""
    if not isinstance(proposal, Circuit):
        found = type(proposal).__name__
        raise PropertyError(f"The proposal must be a Circuit. Got {found} instead.")
    proposal.require_single_root("A proposal")
    require_normalized(proposal, "A proposal")
    if tuple(proposal.cardinalities) != tuple(target.cardinalities):
        what = "The proposal must have the variables of the target, with as many states"
        found = f"Got {list(proposal.cardinalities)} for {list(target.cardinalities)}"
        raise PropertyError(f"{what}. {found}.")


def _bridge(ours: Any, weights: Any, theirs: Any, equal_ratios: bool = False) -> PartitionEstimate:
    """The estimate from log ratios at weighted samples of the target, and at samples from q."""
    size, m = 1.0 / float(weights @ weights), len(theirs)
    odds = np.log(size / m)
    equal = np.full(m, 1.0 / m)

    def excess(log_z: float) -> float:
        # the left side less the right side of the equation, which increases with Z
        left = size * (weights @ expit(log_z - odds - ours))
        return float(left - m * (equal @ expit(odds + theirs - log_z)))

    finite = np.concatenate([ours, theirs[np.isfinite(theirs)]])
    ends = float(finite.min()) - 50.0, float(finite.max()) + 50.0
    log_z = float(brentq(excess, *ends, xtol=1e-300, rtol=1e-15, maxiter=1000))
    a, b = expit(log_z - odds - ours), expit(odds + theirs - log_z)
    overlap = m * float(equal @ b)  # how many samples from q could as well be samples of the target
    if overlap < OVERLAP:
        warnings.warn(
            "Samples of the target and of the proposal hardly overlap (in the weight "
            f"of {overlap:.2g} samples of {m}), so that the error of log_z={log_z:.6g} cannot be "
            "estimated. Give more samples, or a proposal that is closer to the target.",
            RuntimeWarning,
            stacklevel=3,
        )
        return PartitionEstimate(log_z, np.inf)
    slope = size * (weights @ (a * (1.0 - a))) + m * (equal @ (b * (1.0 - b)))
    variance = size**2 * _mean_variance(a, weights, True) + m**2 * _mean_variance(b, equal, False)
    if not equal_ratios:
        variance += _unseen_variance(a, weights) + _unseen_variance(b, equal)
    return PartitionEstimate(log_z, float(np.sqrt(variance) / slope))


def _unseen_variance(values: Any, weights: Any) -> float:
    """What a sample that was not seen may add to the variance of a sum of values in [0, 1].

    It is as far from the mean as it can be, and counts the less the more values determine the
    variance of those that were seen.
    """
    mean = float(weights @ values)
    parts = weights * (values - mean) / weights.max()
    found = float(parts @ parts) ** 2 / (float(np.sum(parts**4)) + TINY)
    return max(mean, 1.0 - mean) ** 2 * ENOUGH / (ENOUGH + found)


def _mean_variance(values: Any, weights: Any, dependent: bool) -> float:
    """The variance of a weighted mean of values, in the order in which they were drawn.

    If they depend, the largest of three estimates: that of independent values, by the initial
    monotone sequence of Geyer, and by sums of a few long batches, which see what is dependent over
    long times.
    """
    parts = weights * (values - weights @ values)
    n, found = len(parts), float(parts @ parts)
    if dependent:
        products = np.fft.irfft(np.abs(np.fft.rfft(parts, 2 * n)) ** 2)[:n]  # sums at every lag
        pairs = products[: n - n % 2].reshape(-1, 2).sum(axis=1)
        first = np.argmin(np.append(pairs > 0, False))
        sequence = 2.0 * np.minimum.accumulate(pairs)[:first].sum() - products[0]
        sums = np.array([part.sum() for part in np.array_split(parts, BATCHES)])
        found = max(found, float(sequence), float(sums @ sums) * BATCHES / (BATCHES - 1))
    return found * n / (n - 1)
