"""Weights on the simplex that minimise a quadratic form, and their shrinkage."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import ArrayLike, NDArray

from expectedkernels.arrays import from_logs, require_memory
from expectedkernels.checks import DataError, KernelError, check_real

Floats = NDArray[np.float64]

GAP_TOLERANCE = 1e-8
"""Relative gaps up to this one count as solved."""

JITTERS = (1e-13, 1e-11, 1e-9)
"""What is added to a diagonal of ones before Cholesky, one after the other until it works."""

EPS = float(np.finfo(np.float64).eps)

LARGEST, LEAST = 1000, -1070
"""Exponents: of entries that may be added up without an overflow, and of the error of the smallest.
"""

FAR = 60
"""Exponents of entries that differ by more than the precision of doubles."""


@dataclass(frozen=True)
class SimplexWeights:
    """Weights on the simplex and the proof that they are optimal.

    Attributes
    ----------
    weights : array of shape (N,)
        They are not negative and sum to 1.
    discrepancy : float
        The value w'Kw.
    certificate : float
        The relative gap 2 (w'Kw - min_i (Kw)_i) / w'Kw, at most 1. The value w'Kw exceeds the
        smallest possible one by at most this fraction of itself. Zero if w'Kw is zero up to
        rounding: nothing is smaller.
    rounding : float
        The rounding error in the gap and in w'Kw. A discrepancy below it is zero as far as
        floating-point numbers can tell.
    method : str
        What found the weights.

    Examples
    --------
    >>> found = simplex_weights([[1.0, 0.0], [0.0, 3.0]])
    >>> found.weights, round(found.ess, 6), found.solved
    (array([0.75, 0.25]), 1.6, True)
    """

    weights: Floats = field(repr=False)
    discrepancy: float
    certificate: float
    rounding: float = field(repr=False)
    method: str

    @property
    def solved(self) -> bool:
        """Whether the gap is small, relative to the discrepancy or to its rounding error."""
        gap = self.certificate * self.discrepancy
        return self.certificate <= GAP_TOLERANCE or gap <= self.rounding

    @property
    def ess(self) -> float:
        """The effective sample size, 1 / sum of squared weights."""
        return float(1.0 / np.sum(self.weights**2))


def simplex_weights(K: ArrayLike, *, groups: ArrayLike | None = None) -> SimplexWeights:
    """The minimiser of w'Kw over weights that are not negative and sum to 1.

    The problem is solved in its cone form, min u'Ku + M (1'u - 1)^2 over u >= 0, which has the
    solution w = u / 1'u for every M > 0, by block principal pivoting: solve on a set of positive
    coordinates, move every coordinate with a wrong sign to the other side, repeat. Equal samples
    are merged before and share their weight evenly after. If the gap stays large, non-negative
    least squares take over; if it is large even then, a warning is issued.

    Parameters
    ----------
    K : array of shape (N, N)
        Symmetric and positive semidefinite, for example the Gram matrix of a Stein kernel.
    groups : array of shape (N,), optional
        Labels; samples with the same label are equal and so are their rows of K. By default,
        equal samples are those whose distance K_ii + K_jj - 2 K_ij is zero up to rounding.

    Returns
    -------
    SimplexWeights

    Examples
    --------
    >>> found = simplex_weights([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 2.0]])
    >>> found.weights
    array([0.4, 0.4, 0.2])
    >>> round(found.discrepancy, 6), found.solved
    (0.4, True)
    """
    return minimise(check_gram(K, "simplex_weights"), groups)


def minimise(
    gram: Floats, groups: Any, warn: bool = True, ridge: float = 0.0, shares: Any = None
) -> SimplexWeights:
    """What `simplex_weights` returns, for a matrix that has been checked.

    `ridge` pulls the weights towards `shares`, positive numbers that sum to one (default: equal
    ones). What is minimised is w'Gw + ridge c sum w^2 / s, with c = sum s^2 diag(G); for
    equal shares that adds a multiple of the mean diagonal entry to the diagonal.
    """
    first, member = _groups(gram, groups)
    s = np.full(len(gram), 1.0 / len(gram)) if shares is None else shares
    # equal samples have weights in proportion to their shares, and one ridge for all of them
    together = np.bincount(member, s)
    room = max(0, _exponent(gram) - LARGEST) if ridge else 0  # for what is added to the diagonal
    merged = np.ldexp(gram[np.ix_(first, first)], -room)
    extra = ridge * float(s**2 @ np.ldexp(np.diagonal(gram), -room))
    merged.flat[:: len(merged) + 1] += extra / together
    balanced = _balance(merged)
    best: Any = None
    for weights, method in _attempts(*balanced):  # there is always one
        found = certify(*balanced, weights, method)
        if best is None or (found.solved, -found.discrepancy) > (best.solved, -best.discrepancy):
            best = found
        if best.solved:
            break
    if warn and not best.solved:
        warnings.warn(
            f"simplex_weights reached a relative gap of {best.certificate:.1e} only: the "
            f"discrepancy {best.discrepancy:.3g} may exceed the smallest one by that fraction. The "
            f"matrix of {len(gram)} samples is too ill-conditioned; merge near-equal samples or "
            "add a small multiple of the identity.",
            RuntimeWarning,
            stacklevel=3,
        )
    value, error = np.ldexp([best.discrepancy, best.rounding], room).tolist()
    weights = (best.weights / together)[member] * s
    return replace(best, weights=weights, discrepancy=value, rounding=error)


def signed_weights(K: ArrayLike, *, ridge: float = 1e-8) -> Floats:
    """The minimiser of w'Kw over weights of any sign that sum to 1.

    This is w = C^-1 1 / 1'C^-1 1 with C = K N / tr K + ridge I: one linear solve. The weights are
    not probabilities, and estimates with them can leave the range of the function.

    Parameters
    ----------
    K : array of shape (N, N)
        Symmetric and positive semidefinite.
    ridge : float
        Relative to the mean of the diagonal of K.

    Returns
    -------
    array of shape (n,)

    Examples
    --------
    >>> signed_weights([[1.0, 1.5], [1.5, 4.0]]).round(3)
    array([ 1.25, -0.25])
    """
    gram = check_gram(K, "signed_weights")
    check_real("signed_weights", "ridge", ridge, ends="()", error=DataError)
    n = len(gram)
    gram = np.ldexp(gram, -_exponent(gram))
    mean = np.trace(gram) / n
    if mean == 0.0:
        return np.full(n, 1.0 / n)
    shifted = gram / mean
    shifted.flat[:: n + 1] += ridge
    solved = scipy.linalg.solve(shifted, np.ones(n), assume_a="pos")
    return np.asarray(solved / solved.sum())


def smoothed_weights(weights: ArrayLike, amount: float = 0.01) -> Floats:
    """The weights (w + a) / (1 + a N), a step towards uniform ones that grows with N.

    Parameters
    ----------
    weights : array of shape (N,)
        They sum to 1.
    amount : float
        The a of the formula.

    Returns
    -------
    array of shape (n,)

    Raises
    ------
    DataError
        If the weights do not sum to one.

    Examples
    --------
    >>> smoothed_weights([1.0, 0.0], 0.5)
    array([0.75, 0.25])
    """
    w = _floats(weights, "The 'weights' parameter of smoothed_weights must be a vector of numbers")
    if w.ndim != 1 or w.size == 0 or not np.isclose(w.sum(), 1.0, atol=1e-8):
        what = "The 'weights' parameter of smoothed_weights must be a vector with sum 1"
        raise DataError(f"{what}. Got shape {w.shape} with sum {w.sum()!r} instead.")
    check_real("smoothed_weights", "amount", amount, error=DataError)
    return np.asarray((w + amount) / (1.0 + amount * len(w)))


def certify(matrix: Floats, exponents: Any, weights: Floats, method: str = "") -> SimplexWeights:
    """The weights with their discrepancy and their gap, on a balanced matrix."""
    # w = 2^(e + t) u with no u above one, so that nothing overflows; values are in units of 2^(2t)
    t = int(np.max((np.frexp(weights)[1] - exponents)[weights > 0]))
    back = -exponents - t
    u = np.ldexp(weights, back)
    slopes, sizes = matrix @ u, np.abs(matrix) @ u
    value = max(float(u @ slopes), 0.0)
    with np.errstate(over="ignore"):  # steep slopes do not matter
        heights = np.ldexp(slopes, back)
        # a weight below 2^-1000, which is zero in effect, makes up for what these lack
        heights[(back > LARGEST // 2) & (slopes >= 0)] = np.inf
        lowest = int(np.argmin(heights))
        slope, size = np.ldexp([slopes[lowest], sizes[lowest]], back[lowest]).tolist()
    rounding = 4.0 * len(matrix) * EPS * max(float(u @ sizes), size)
    rounding += float(np.ldexp(1.0, LEAST - 2 * t))
    gap = 2.0 * max(value - slope, 0.0)
    # No value is below zero, so the gap is never more than the value itself.
    relative = min(gap / value, 1.0) if value > rounding else 0.0
    value, rounding = np.ldexp([value, rounding], 2 * t).tolist()
    return SimplexWeights(weights, value, relative, rounding, method)


def _exponent(gram: Floats) -> int:
    """The exponent of the largest entry, which is below that power of two."""
    return int(np.frexp(np.abs(gram).max())[1])


def _balance(gram: Floats) -> tuple[Floats, Any]:
    """The matrix 2^(e_i + e_j) K_ij, whose diagonal is between 1/2 and 2, and the exponents e.

    Scaling by powers of two does not round, and entries of a positive semidefinite matrix do not
    exceed 2 then, however far apart they are.
    """
    diagonal = np.diagonal(gram)
    exponents = -(np.frexp(np.where(diagonal > 0, diagonal, 1.0))[1] // 2)
    with np.errstate(over="ignore"):
        matrix = np.ldexp(gram, exponents[:, None])
        np.ldexp(matrix, exponents, out=matrix)
    if not np.isfinite(matrix).all():
        i, j = np.argwhere(~np.isfinite(matrix))[0].tolist()
        raise KernelError(
            "A Gram matrix has no entry above the geometric mean of two on its diagonal. Got "
            f"{gram[i, j]:.3g} in row {i}, column {j}, where the diagonal has {gram[i, i]:.3g} and "
            f"{gram[j, j]:.3g}."
        )
    return matrix, exponents


def check_gram(K: ArrayLike, name: str, parameter: str = "K") -> Floats:
    """The matrix, symmetric to the last bit, after the checks that a Gram matrix must pass."""
    gram = _floats(K, f"The '{parameter}' parameter of {name} must be a matrix of numbers")
    what = f"The '{parameter}' parameter of {name} must be"
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or gram.size == 0:
        rule = f"{what} a square matrix with at least one row"
        raise KernelError(f"{rule}. Got shape {gram.shape} instead.")
    require_memory(24.0 * gram.size, "To check a Gram matrix and its copies", "Take fewer samples.")
    if not np.all(np.isfinite(gram)):
        i, j = np.argwhere(~np.isfinite(gram))[0]
        rule = f"{what} finite. Got {gram[i, j]} in row {i}, column {j}"
        raise KernelError(f"{rule}; a target with zeros gives infinite ratios.")
    exponent = _exponent(gram)
    scaled = np.ldexp(gram, -exponent)  # entries are at most one
    apart = scaled - scaled.T
    np.abs(apart, out=apart)
    size = float(np.abs(scaled).max())
    slack = 1e-8 * size + float(np.ldexp(1.0 * len(gram), LEAST - exponent))
    if apart.max() > slack:
        i, j = np.unravel_index(np.argmax(apart), gram.shape)
        rule = f"{what} symmetric. Got {gram[i, j]:.6g} in row {i}, column {j}"
        raise KernelError(f"{rule}, and {gram[j, i]:.6g} in row {j}, column {i}.")
    if apart.any():
        scaled = 0.5 * (scaled + scaled.T)
        gram = np.ldexp(scaled, exponent)
    del apart
    try:  # no eigenvalue is below minus the slack
        shifted = scaled.copy()
        shifted.flat[:: len(gram) + 1] += slack
        if slack > 0:
            scipy.linalg.cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        lowest = scipy.linalg.eigvalsh(scaled, subset_by_index=[0, 0])[0]
        lowest, size = np.ldexp([lowest, size], exponent).tolist()
        rule = f"{what} positive semidefinite, as a Gram matrix is"
        found = f"Its smallest eigenvalue is {lowest:.3g}, its largest entry {size:.3g}"
        raise KernelError(f"{rule}. {found}.") from None
    return gram


def _floats(values: ArrayLike, must: str) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise KernelError(f"{must}. NumPy says: {error}") from error


def _groups(gram: Floats, groups: ArrayLike | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """One sample of each group of equal ones, and the group of each sample."""
    n = len(gram)
    if groups is None:
        matrix, exponents = _balance(gram)
        # K_ii over the root of K_ii K_jj, about; samples of different sizes are not equal
        ratio = np.clip(exponents - exponents[:, None], -FAR, FAR)
        own = np.ldexp(np.diagonal(matrix)[:, None], ratio)
        both = own + own.T
        # The first sample at distance zero; samples are at distance zero from themselves.
        labels = np.argmax(both - 2.0 * matrix <= 64 * EPS * both, axis=1)
    else:
        labels = np.asarray(groups)
        if labels.shape != (n,):
            what = "The 'groups' parameter of simplex_weights must have one label for each sample"
            raise DataError(f"{what}: shape ({n},). Got shape {labels.shape} instead.")
    _, first, member = np.unique(labels, return_index=True, return_inverse=True)
    return first, member


def _attempts(balanced: Floats, exponents: Any) -> Iterator[tuple[Floats, str]]:
    """Candidates for the weights of distinct samples, from the cheapest to the last resort."""
    zero = np.diagonal(balanced) <= 0.0
    if zero.any():
        yield zero / np.count_nonzero(zero), "zero rows"
        return
    scale = np.ldexp(1.0, exponents - exponents.max())  # of weights w = scale u
    u = scale / (scale @ scale)
    for jitter in JITTERS:
        # The weight of the penalty is free; near the optimal value the cone form is well scaled.
        for _ in range(2):
            value = float(u @ balanced @ u)
            candidate = _pivoting(balanced, scale, max(value, 1e-14 / (scale @ scale)), jitter)
            if candidate is None:
                break
            u = candidate
            yield scale * u, "pivoting"
    candidate = _least_squares(balanced, scale)
    if candidate is not None:
        yield scale * candidate, "non-negative least squares"
    yield scale * u, "the last resort"


def _pivoting(balanced: Floats, scale: Floats, penalty: float, jitter: float) -> Floats | None:
    """The solution u of the cone form by block principal pivoting, None if it does not end."""
    n = len(balanced)
    matrix = balanced + penalty * np.outer(scale, scale)
    right = penalty * scale
    positive = np.ones(n, dtype=np.bool_)
    fewest, patience = n + 1, 3
    # About ten rounds are usual; rounding makes singular matrices cycle.
    for _ in range(60 + n // 5):
        x = np.zeros(n)
        solved = _solve(matrix, right, positive, jitter)
        if solved is None:
            return None
        x[positive] = solved
        slopes = matrix[:, positive] @ solved - right
        wrong = np.where(positive, x < 0.0, slopes < -1e-12 * np.abs(right))
        count = int(np.count_nonzero(wrong))
        if count == 0:
            break
        if count < fewest:
            fewest, patience = count, 3
        elif patience > 0:
            patience -= 1
        else:  # one at a time, always the last: this cannot cycle
            wrong[: np.flatnonzero(wrong)[-1]] = False
        positive ^= wrong
    else:
        return None
    u = np.maximum(x, 0.0)
    total = scale @ u
    return u / total if total > 0.0 else None


def _solve(matrix: Floats, right: Floats, positive: Any, jitter: float) -> Floats | None:
    """The solution on some coordinates, refined against the matrix without jitter."""
    if not positive.any():
        return np.zeros(0)
    block = matrix[np.ix_(positive, positive)]
    shifted = block.copy()
    shifted.flat[:: len(block) + 1] *= 1.0 + jitter
    try:
        factor = scipy.linalg.cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    b = right[positive]
    x = scipy.linalg.cho_solve(factor, b, check_finite=False)
    residual = b - block @ x
    refined = x + scipy.linalg.cho_solve(factor, residual, check_finite=False)
    if np.linalg.norm(b - block @ refined) < np.linalg.norm(residual):
        x = refined
    return np.asarray(x) if np.all(np.isfinite(x)) else None


def _least_squares(balanced: Floats, scale: Floats) -> Floats | None:
    """The solution u of the cone form as non-negative least squares on a factor of the matrix."""
    values, vectors = scipy.linalg.eigh(balanced)
    half = vectors * np.sqrt(np.maximum(values, 0.0))
    root = np.sqrt(1.0 / np.sum(scale**2))
    design = np.vstack([half.T, root * scale[None, :]])
    target = np.zeros(len(design))
    target[-1] = root
    try:
        u, _ = scipy.optimize.nnls(design, target, maxiter=30 * len(balanced))
    except RuntimeError:
        return None
    total = scale @ u
    return u / total if total > 0.0 else None


EXACT = 1e-12
"""A discrepancy is zero if its terms cancel up to this fraction of their sizes."""

USUAL = 2.0
"""Up to this z-score, samples look like an independent sample from the target."""

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
        that look like samples from the target, 0 for those that surely are not.
    certificate : float
        The relative gap of that problem, as in `SimplexWeights`.
    discrepancy, uniform_discrepancy : float
        The value w'Gw of the weights, and that of equal weights.
    z_score : float
        How far the mean of the kernel over pairs of different samples is from zero, in units of its
        standard deviation. Independent samples of the target have values around 0, up to 2
        or 3; large ones say that the samples are dependent or from another distribution.
    reason : str
        The same in words.

    Examples
    --------
    >>> found = default_weights([[2.0, 0.0], [0.0, 9.0]], [[1.0, 0.0], [0.0, 2.0]])
    >>> found.rule, found.ridge, round(found.ess, 6)
    ('gibbs', 1.0, 1.945946)
    >>> print(found.reason)
    The 2 samples look like an independent sample from the target (z = 0.0). Minimising with a ridge
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
    `z_score`'s test of whether the samples come from the target: if they may be, every
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
        term is what w'Gw is there on average, if s is right. Equal s make the rule for samples from
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
    >>> from expectedkernels.stein.stein_kernel import SteinKernel
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
        what = "The 'K' and 'G' parameters of default_weights must belong to the same samples"
        raise KernelError(f"{what}. Got {len(ratios)} and {len(gram)} of them.")
    n, z = len(gram), z_score(gram)
    rule, ridge, target, note = "exact", 0.0, "", ""
    if log_weights is not None:
        s = from_logs(np.asarray(log_weights, dtype=np.float64))
        if s.shape != (n,) or not np.isfinite(s).all() or not s.any():
            what = f"The 'log_weights' parameter of default_weights must hold {n} numbers"
            raise DataError(f"{what}, not all -inf. Got shape {s.shape}.")
        s /= s.sum()
        note = f" Importance weights alone have one of {1.0 / np.sum(s**2):.1f}."
    best = None
    if exact:
        # A gap that stays open only means that the value is not known to be zero: no warning.
        found = minimise(ratios, groups, warn=False)
        size = float(found.weights @ (np.abs(ratios) @ found.weights))
        best = found if found.discrepancy <= EXACT * size else None
    if best is None and log_weights is None:
        rule, ridge = "gibbs", float(min(1.0, np.exp(USUAL - z)))
        ridge = ridge if ridge > NEGLIGIBLE else 0.0
        best = minimise(gram, groups, ridge=ridge)
    elif best is None:
        rule, ridge, target = "importance", 1.0, " towards importance weights"
        used = np.flatnonzero(s > SMALLEST * s.max())
        some = None if groups is None else np.asarray(groups)[used]
        shares = s[used] / s[used].sum()
        best = minimise(gram[np.ix_(used, used)], some, ridge=ridge, shares=shares)
        weights = np.zeros(n)
        weights[used] = best.weights
        best = replace(best, weights=weights)
    uniform, value = (max(0.0, float(w @ gram @ w)) for w in (np.full(n, 1.0 / n), best.weights))
    looks = "look" if z <= USUAL else "hardly look" if z <= 2 * USUAL else "do not look"
    reason = f"The {n} samples {looks} like an independent sample from the target (z = {z:.1f}). "
    if rule == "exact":
        reason += "Weighted samples match the target up to rounding: no shrinkage."
    else:
        reason += (
            f"Minimising with a ridge of {ridge:.2g}{target} takes the discrepancy from "
            f"{uniform:.3g} to {value:.3g}, with an effective size of {best.ess:.1f}."
        )
    reason += note
    return DefaultWeights(best.weights, rule, ridge, best.certificate, value, uniform, z, reason)


def z_score(G: ArrayLike) -> float:
    """The mean of the kernel over pairs of different samples, in units of its standard deviation.

    For independent samples from the target, the entries off the diagonal have mean zero and are
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
