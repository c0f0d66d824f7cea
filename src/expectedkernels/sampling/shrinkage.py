"""The default weights: small discrepancy without throwing good samples away."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from expectedkernels.arrays import from_logs
from expectedkernels.errors import DataError, KernelError
from expectedkernels.sampling.weights import (
    Floats,
    SimplexWeights,
    certify,
    check_gram,
    minimised,
)

EXACT = 1e-12
"""A discrepancy is zero if its terms cancel up to this fraction of their sizes."""

USUAL = 2.0
"""Up to this z-score, samples look like independent draws from the target."""

NEGLIGIBLE = 1e-8
"""A smaller ridge is none."""


SMALLEST = 1e-12
"""An importance weight below this fraction of the largest is zero."""


@dataclass(frozen=True)
class DefaultWeights:
    """Weights on the simplex, and how they came about.

    Attributes
    ----------
    weights : array of shape (N,)
        They are not negative and sum to 1.
    rule : "gibbs", "exact" or "importance"
        Which problem the weights solve: the one of the Gibbs operators, the one of the ratio
        operators because its smallest value is zero, or the first with a ridge towards importance
        weights.
    ridge : float
        The multiple of the identity added to G, relative to the mean of its diagonal: 1 for samples
        that look like draws from the target, 0 for those that surely are not.
    certificate : float
        The relative gap of that problem, as in `SimplexWeights`.
    discrepancy, uniform_discrepancy : float
        The value w'Gw of the weights, and that of equal weights.
    z_score : float
        How far the mean of the kernel over pairs of different samples is from zero, in units of its
        standard deviation. Independent draws from the target have values around 0 up to 2
        or 3; large ones say that the samples are dependent or from another distribution.
    reason : str
        The same in words.

    Examples
    --------
    >>> found = default_weights([[2.0, 0.0], [0.0, 9.0]], [[1.0, 0.0], [0.0, 2.0]])
    >>> found.rule, found.ridge, round(found.ess, 6)
    ('gibbs', 1.0, 1.945946)
    >>> print(found.reason)
    The 2 samples look like independent draws from the target (z = 0.0). Minimising with a ridge
    of 1 takes the discrepancy from 0.75 to 0.688, with an effective size of 1.9.
    """

    weights: Floats = field(repr=False)
    rule: str
    ridge: float
    certificate: float
    discrepancy: float
    uniform_discrepancy: float
    z_score: float
    reason: str

    @property
    def ess(self) -> float:
        """The effective sample size, 1 / sum of squared weights."""
        return float(1.0 / np.sum(self.weights**2))


def default_weights(
    K: ArrayLike,
    G: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    exact: bool = True,
    log_weights: ArrayLike | None = None,
) -> DefaultWeights:
    """The weights that minimise a bounded discrepancy, shrunk if the samples look good already.

    Minimising the usual Stein discrepancy w'Kw repairs samples from a wrong distribution but
    spoils good ones: its operators hold ratios of probabilities, so the few rare states that every
    good sample contains dominate K and lose their weight. The operators behind G, one
    Gibbs update each, are bounded. Minimising w'Gw repairs wrong samples as well or
    better, and acts on good ones like a control variate.

    What is minimised is w'Gw + ridge (tr G / N) sum w^2. The ridge is min(1, exp(2 - z)) with
    `z_score`'s test of whether the samples are draws from the target: if they may be, every
    sample counts, and the second term, the variance of what the kernel cannot see, keeps the
    weights from concentrating; if they are not, the first term alone decides.

    There is one exception. If the smallest w'Kw is zero up to rounding, the weighted samples
    are the target itself, and these weights are taken.

    Parameters
    ----------
    K : array of shape (N, N)
        The Gram matrix of `SteinKernel`, `CollapsedSteinKernel` or `PartitionSteinKernel`.
    G : array of shape (N, N)
        The Gram matrix of the same kernel with ``operator="gibbs"``.
    groups : array of shape (N,), optional
        Labels of equal samples, as for `simplex_weights`.
    exact : bool
        Whether a discrepancy w'Kw of zero shows that the weighted samples are the target. It does
        not if the kernel is not strictly positive definite, nor if the operators were restricted
        to a support: samples that match one part of it and leave out the others have discrepancy
        zero, too. If False, there is no exception.
    log_weights : array of shape (N,), optional
        Logs of target over proposal, up to a constant. With the importance weights s that
        they make, what is minimised is w'Gw + c sum w^2 / s, c = sum s^2 G_nn: at w = s the second
        term is what w'Gw is there on average, if s is right. Equal s make the rule for draws from
        the target. Samples with -inf have weight zero.

    Returns
    -------
    DefaultWeights

    Raises
    ------
    KernelError
        If the two matrices are not those of the same samples.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> from expectedkernels.kernels.stein import SteinKernel
    >>> target = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
    >>> X = [[0, 0], [1, 1], [1, 0]]
    >>> K = SteinKernel(target, ek.ExpHamming())(X)
    >>> G = SteinKernel(target, ek.ExpHamming(), operator="gibbs")(X)
    >>> found = default_weights(K, G)
    >>> found.weights.round(3), found.rule
    (array([0.215, 0.418, 0.367]), 'gibbs')
    """
    gram, ratios = check_gram(G, "default_weights", "G"), check_gram(K, "default_weights")
    if gram.shape != ratios.shape:
        raise KernelError(
            "The 'K' and 'G' parameters of default_weights must belong to the same samples. Got "
            f"{len(ratios)} and {len(gram)} of them."
        )
    n = len(gram)
    uniform = certify(gram, np.full(n, 1.0 / n), "").discrepancy
    z = z_score(gram)
    best, rule, ridge = _exact(ratios, groups) if exact else None, "exact", 0.0
    if best is None:
        rule = "gibbs" if log_weights is None else "importance"
        if log_weights is None:
            best, ridge = _shrunk(gram, z, groups)
        else:
            best, ridge = _towards(gram, _shares(log_weights, n), groups), 1.0
    value = certify(gram, best.weights, "").discrepancy
    reason = _reason(rule, ridge, uniform, value, z, best.ess, n)
    if log_weights is not None:
        size = 1.0 / np.sum(_shares(log_weights, n) ** 2)
        reason += f" Importance weights alone have one of {size:.1f}."
    return DefaultWeights(best.weights, rule, ridge, best.certificate, value, uniform, z, reason)


def z_score(G: ArrayLike) -> float:
    """The mean of the kernel over pairs of different samples, in units of its standard deviation.

    For independent draws from the target, the entries off the diagonal have mean zero and are
    uncorrelated, however heavy the diagonal is.

    Examples
    --------
    >>> round(z_score([[1.0, 0.5], [0.5, 1.0]]), 6)
    1.0
    """
    gram = np.asarray(G, dtype=np.float64)
    pairs = gram[np.triu_indices(len(gram), 1)]
    pairs = np.ldexp(pairs, -np.frexp(np.abs(pairs).max(initial=0.0))[1])  # squares have a range
    scale = float(np.sqrt(np.sum(pairs**2)))
    return float(pairs.sum()) / scale if scale > 0.0 else 0.0


def _exact(ratios: Floats, groups: ArrayLike | None) -> SimplexWeights | None:
    """The weights with zero discrepancy, if there are any."""
    # A gap that stays open only means that the value is not known to be zero: no warning.
    found = minimised(ratios, groups, warn=False)
    size = float(found.weights @ (np.abs(ratios) @ found.weights))
    return found if found.discrepancy <= EXACT * size else None


def _shrunk(gram: Floats, z: float, groups: ArrayLike | None) -> tuple[SimplexWeights, float]:
    """The weights of the Gibbs operators with the ridge that the z-score asks for."""
    ridge = float(min(1.0, np.exp(USUAL - z)))
    ridge = ridge if ridge > NEGLIGIBLE else 0.0
    return minimised(gram, groups, ridge=ridge), ridge


def _shares(log_weights: ArrayLike, n: int) -> Floats:
    """Importance weights that sum to one."""
    weights = from_logs(np.asarray(log_weights, dtype=np.float64))
    if weights.shape != (n,) or not np.isfinite(weights).all() or not weights.any():
        raise DataError(
            f"The 'log_weights' parameter of default_weights must hold {n} numbers, not all -inf. "
            f"Got shape {weights.shape}."
        )
    return weights / weights.sum()


def _towards(gram: Floats, shares: Floats, groups: ArrayLike | None) -> SimplexWeights:
    """The weights of the Gibbs operators with a ridge towards importance weights."""
    used = np.flatnonzero(shares > SMALLEST * shares.max())
    some = None if groups is None else np.asarray(groups)[used]
    few = shares[used] / shares[used].sum()
    found = minimised(gram[np.ix_(used, used)], some, ridge=1.0, shares=few)
    weights = np.zeros(len(shares))
    weights[used] = found.weights
    return replace(found, weights=weights)


def _reason(
    rule: str, ridge: float, uniform: float, value: float, z: float, ess: float, n: int
) -> str:
    """What was decided, in words."""
    looks = "look" if z <= USUAL else "hardly look" if z <= 2 * USUAL else "do not look"
    draws = f"The {n} samples {looks} like independent draws from the target (z = {z:.1f})."
    if rule == "exact":
        return f"{draws} Weighted samples match the target up to rounding: no shrinkage."
    towards = " towards importance weights" if rule == "importance" else ""
    return (
        f"{draws} Minimising with a ridge of {ridge:.2g}{towards} takes the discrepancy from "
        f"{uniform:.3g} to {value:.3g}, with an effective size of {ess:.1f}."
    )
