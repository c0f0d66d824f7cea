"""Probabilities of classes from decision functions that spread over what is missing.

A decision function of mean m and deviation s becomes the probability

    sigmoid((a m + c) / sqrt(1 + pi a^2 s^2 / 8)),

which is close to the mean of sigmoid(a f + c) for a normal f; a and c are fitted to rows that were
held out (Platt scaling). Probabilities of pairs of classes are joined to those of all classes.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from expectedkernels.estimators.calibration import HeldOut

SMALLEST = 1e-7
"""Probabilities of one class of a pair are at least this."""
STEEPEST = 20.0
"""The logarithm of a slope is at most this, and at least less this."""


def logits(mean: Any, spread: Any, slope: Any, offset: Any) -> Any:
    """The logits of probabilities of decision functions, nearer to zero where these spread.

    Examples
    --------
    >>> logits(np.array([1.0, 1.0]), np.array([0.0, 2.0]), 2.0, 0.0).round(2).tolist()
    [2.0, 0.74]
    """
    return (slope * mean + offset) / np.sqrt(1.0 + np.pi / 8.0 * (slope * spread) ** 2)


def learn_sigmoid(mean: Any, spread: Any, positive: Any) -> tuple[float, float]:
    """The slope, which is positive, and the offset of the most likely probabilities.

    Targets are a little inside of zero and one, as if one more row of each class was seen in the
    other, so that slopes stay finite where classes are separated.

    Parameters
    ----------
    mean, spread : arrays of shape (rows,)
    positive : bool array of shape (rows,)
    """
    n = int(positive.sum())
    high, low = (n + 1.0) / (n + 2.0), 1.0 / (len(positive) - n + 2.0)
    wanted = np.where(positive, high, low)
    size = float(np.abs(mean).mean()) or 1.0
    mean, spread = mean / size, spread / size

    def loss(parameters: Any) -> float:
        z = logits(mean, spread, np.exp(parameters[0]), parameters[1])
        return float((np.logaddexp(0.0, z) - wanted * z).mean())

    start = np.array([0.0, 0.0])
    bounds = [(-STEEPEST, STEEPEST), (None, None)]
    found = minimize(loss, start, method="L-BFGS-B", bounds=bounds).x
    return float(np.exp(found[0]) / size), float(found[1])


def learn_sigmoids(held_out: HeldOut) -> Any:
    """The slope and the offset of every pair of classes, (pairs, 2)."""
    classes = np.unique(held_out.target)
    found = []
    for k, (i, j) in enumerate(combinations(classes, 2)):
        if len(classes) == 2:
            i, j = j, i  # a single function is positive for the second class
        rows = (held_out.target == i) | (held_out.target == j)
        mean, spread = held_out.mean[rows, k], held_out.spread[rows, k]
        found.append(learn_sigmoid(mean, spread, held_out.target[rows] == i))
    return np.array(found)


def class_probabilities(mean: Any, spread: Any, sigmoids: Any, n_classes: int) -> Any:
    """The probabilities of classes from decision functions of pairs, (rows, classes)."""
    first = expit(logits(mean, spread, sigmoids[:, 0], sigmoids[:, 1]))
    if n_classes == 2:
        return np.concatenate([1.0 - first, first], axis=1)
    return coupled(first, n_classes)


def coupled(first: Any, n_classes: int) -> Any:
    """The probabilities of classes that agree best with those of pairs, (rows, classes).

    They minimise sum_ij (r_ji p_i - r_ij p_j)^2 among those that sum to one [1]_.

    Parameters
    ----------
    first : array of shape (rows, pairs)
        The probabilities r_ij of the first class of every pair, if it is one of the two.
    n_classes : int

    References
    ----------
    .. [1] T.-F. Wu, C.-J. Lin and R. C. Weng, *Probability Estimates for Multi-class
       Classification by Pairwise Coupling*, JMLR 5, 2004.

    Examples
    --------
    >>> coupled(np.array([[0.5, 0.75, 0.75]]), 3).round(4).tolist()
    [[0.4286, 0.4286, 0.1429]]
    """
    first = np.clip(first, SMALLEST, 1.0 - SMALLEST)
    system = np.zeros((len(first), n_classes + 1, n_classes + 1))
    for k, (i, j) in enumerate(combinations(range(n_classes), 2)):
        r = first[:, k]
        system[:, i, i] += (1.0 - r) ** 2
        system[:, j, j] += r**2
        system[:, i, j] = system[:, j, i] = -r * (1.0 - r)
    system[:, n_classes, :n_classes] = system[:, :n_classes, n_classes] = 1.0
    sums = np.zeros((len(first), n_classes + 1, 1))
    sums[:, n_classes] = 1.0
    p = np.maximum(np.linalg.solve(system, sums)[:, :n_classes, 0], 0.0)
    return p / p.sum(axis=1, keepdims=True)
