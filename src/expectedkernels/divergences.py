"""Entropies and divergences of deterministic circuits, `ek.divergences`, exactly."""

from __future__ import annotations

from math import exp, expm1, inf, log

import numpy as np

from expectedkernels.algebra import compatible_pair, logarithm, multiply, power
from expectedkernels.checks import check_real
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.queries import log_values, require_normalized

__all__ = ["cross_entropy", "entropy", "kl_divergence", "power_divergence", "renyi_divergence"]

LOST = 1e-12
"""Of the mass of a distribution, less than this outside of a support counts as rounding."""


def __dir__() -> list[str]:
    return __all__


def entropy(p: Circuit) -> float:
    r"""The entropy of a deterministic circuit, :math:`-\sum_x p(x) \log p(x)`, in nats.

    Parameters
    ----------
    p : Circuit
        Deterministic, over discrete variables, summing to one.

    Returns
    -------
    float

    Raises
    ------
    PropertyError
        If the circuit is not deterministic, does not sum to one, has negative weights, or has a
        real variable.

    Notes
    -----
    Needs determinism: for other circuits the problem is #P-hard. Cost: at most O(\|p\|^2).

    Examples
    --------
    >>> import expectedkernels as ek
    >>> round(ek.divergences.entropy(ek.factorized([[0.5, 0.5], [0.25, 0.75]])), 6)
    1.255482
    """
    return cross_entropy(p, p)


def cross_entropy(p: Circuit, q: Circuit) -> float:
    r"""The cross-entropy :math:`-\sum_x p(x) \log q(x)`, in nats.

    Parameters
    ----------
    p, q : Circuit
        Compatible and summing to one; q deterministic, over discrete variables.

    Returns
    -------
    float
        Infinite if q is zero where p is not.

    Raises
    ------
    PropertyError
        If q is not deterministic, one of them does not sum to one, or a variable is real.
    CompatibilityError
        If the circuits are not compatible.

    Notes
    -----
    The logarithm of q is a circuit (see `algebra.logarithm`), and the sum that of a product. A mass
    of p below 1e-12 outside of the support of q counts as rounding.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.5, 0.5]]), ek.factorized([[0.25, 0.75]])
    >>> round(ek.divergences.cross_entropy(p, q), 6)
    0.836988
    """
    p, q = _two("cross_entropy", p, q)
    logs = logarithm(q)
    if _mass(p, power(q, 0.0)) < 1.0 - LOST:  # p has mass where q has none
        return inf
    found, sign = log_values(multiply(p, logs), None)
    value = float(np.exp(found[0, 0]))
    return value if sign is not None and sign[0, 0] < 0 else -value + 0.0


def kl_divergence(p: Circuit, q: Circuit) -> float:
    r"""The Kullback-Leibler divergence :math:`\sum_x p(x) \log (p(x) / q(x))`, in nats.

    Parameters
    ----------
    p, q : Circuit
        Compatible, deterministic, over discrete variables, summing to one.

    Returns
    -------
    float
        Infinite if q is zero where p is not.

    Raises
    ------
    PropertyError
        If one is not deterministic, does not sum to one, or has a real variable.
    CompatibilityError
        If the circuits are not compatible.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.5, 0.5]]), ek.factorized([[0.25, 0.75]])
    >>> round(ek.divergences.kl_divergence(p, q), 6)
    0.143841
    """
    return cross_entropy(p, q) - entropy(p)


def renyi_divergence(p: Circuit, q: Circuit, alpha: float) -> float:
    r"""The Renyi divergence :math:`\log \sum_x p(x)^\alpha q(x)^{1-\alpha} / (\alpha - 1)`.

    Parameters
    ----------
    p, q : Circuit
        Compatible, deterministic, over discrete variables, summing to one.
    alpha : float
        Positive. One stands for the limit, `kl_divergence`.

    Returns
    -------
    float
        Infinite if alpha is at least one and q is zero where p is not, or if the supports do not
        meet.

    Raises
    ------
    PropertyError
        If one is not deterministic, does not sum to one, or has a real variable.
    CompatibilityError
        If the circuits are not compatible.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.5, 0.5]]), ek.factorized([[0.25, 0.75]])
    >>> round(ek.divergences.renyi_divergence(p, q, 2.0), 6)
    0.287682
    """
    alpha = check_real("renyi_divergence", "alpha", alpha, ends="()")
    if alpha == 1.0:
        return kl_divergence(p, q)
    total = _log_sum("renyi_divergence", p, q, alpha)
    return total / (alpha - 1.0) + 0.0


def power_divergence(p: Circuit, q: Circuit, lambda_: float) -> float:
    r"""The power divergence of Cressie and Read, exactly.

    .. math:: \frac{\sum_x p(x)^{\lambda + 1} q(x)^{-\lambda} - 1}{\lambda (\lambda + 1)}

    One is half of Pearson's chi-squared divergence, -1/2 four times the squared Hellinger distance,
    zero the limit `kl_divergence`.

    Parameters
    ----------
    p, q : Circuit
        Compatible, deterministic, over discrete variables, summing to one.
    lambda_ : float
        More than -1.

    Returns
    -------
    float
        Infinite if lambda is not negative and q is zero where p is not.

    Raises
    ------
    PropertyError
        If one is not deterministic, does not sum to one, or has a real variable.
    CompatibilityError
        If the circuits are not compatible.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.5, 0.5]]), ek.factorized([[0.25, 0.75]])
    >>> round(ek.divergences.power_divergence(p, q, 1.0), 6)
    0.166667
    """
    check_real("power_divergence", "lambda_", lambda_, -1, ends="()")
    if lambda_ == 0:
        return kl_divergence(p, q)
    total = _log_sum("power_divergence", p, q, lambda_ + 1.0)
    grown = inf if total > log(1e308) else expm1(total)
    return grown / (lambda_ * (lambda_ + 1.0)) + 0.0


def _log_sum(name: str, p: Circuit, q: Circuit, alpha: float) -> float:
    """The log of the sum of p^alpha q^(1 - alpha)."""
    p, q = _two(name, p, q)
    one, other = power(p, alpha), power(q, 1.0 - alpha)
    shared = _mass(p, power(q, 0.0))
    if shared == 0.0:
        return -inf if alpha < 1 else inf
    if alpha > 1 and shared < 1.0 - LOST:
        return inf
    return float(multiply(one, other, normalize=True)[1])


def _mass(p: Circuit, indicator: Circuit) -> float:
    """The sum of a circuit over a support."""
    return exp(float(np.squeeze(log_values(multiply(p, indicator), None)[0])))


def _two(name: str, p: Circuit, q: Circuit) -> tuple[Circuit, Circuit]:
    """Both circuits on the CPU, over the same variables in the same order, checked."""
    p, q = compatible_pair(name, "A divergence", p, q)
    for circuit in (p, q):
        circuit.require_single_root("A divergence")
        require_normalized(circuit, "A divergence")
    return p, q
