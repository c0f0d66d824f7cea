"""What kernel ridge regression says of rows that are left out, in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh

ROUNDING = 1e-9
"""Losses that differ by less, relative to their size, are equal: the order of rows changes them."""


def leave_one_out(gram: Any, targets: Any, alphas: Any, weights: Any) -> Any:
    """What kernel ridge regression without each row says of it, (alphas, rows, outputs).

    With S = diag(weights)^1/2 and c = (S K S + alpha)^-1 S y, the error at row i of the fit to all
    other rows is c_i / (s_i (S K S + alpha)^-1_ii): one decomposition serves all alphas.

    Parameters
    ----------
    gram : array of shape (rows, rows)
    targets : array of shape (rows, outputs)
    alphas : array
    weights : array of shape (rows,)
        Positive.

    Examples
    --------
    >>> leave_one_out(np.eye(2), np.array([[1.0], [2.0]]), [0.5], np.ones(2)).tolist()
    [[[0.0], [0.0]]]
    """
    root = np.sqrt(weights)[:, None]
    values, vectors = eigh(root * gram * root.T)
    values = np.maximum(values, 0.0)
    turned = vectors.T @ (root * targets)
    answers = []
    for alpha in alphas:
        share = 1.0 / (values + alpha)
        coef = vectors @ (share[:, None] * turned)
        answers.append(targets - coef / (root * (vectors**2 @ share)[:, None]))
    return np.stack(answers)


def least(losses: Any) -> int:
    """The number of the smallest loss, the first of those that are equal up to rounding.

    Examples
    --------
    >>> least(np.array([0.3, 0.1 + 1e-17, 0.1, 0.2]))
    1
    """
    return int(np.argmax(losses <= (1.0 + ROUNDING) * np.min(losses)))
