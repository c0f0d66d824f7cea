"""Sums of a kernel over the pairs of many samples, each distinct row read once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from expectedkernels.kernels.kernel import Kernel

Between = Callable[[Any, Any], Any]
"""From the numbers of some rows and of others to the matrix of their kernels."""

CHUNK = 2**22
"""How many values of a kernel are held at once."""


def distinct_places(samples: Any) -> tuple[Any, Any]:
    """The distinct rows of samples (m, n, variables), and where each row is among them, (m, n).

    Examples
    --------
    >>> rows, place = distinct_places(np.array([[[1, 0], [0, 0]], [[0, 0], [0, 0]]]))
    >>> rows.tolist(), place.tolist()
    ([[0, 0], [1, 0]], [[1, 0], [0, 0]])
    """
    m, n, d = samples.shape
    rows, place = np.unique(samples.reshape(m * n, d), axis=0, return_inverse=True)
    return rows, place.reshape(m, n)


def counts_of(place: Any, size: int) -> Any:
    """How often every distinct row occurs in every sample, (m, size).

    Examples
    --------
    >>> counts_of(np.array([[1, 0], [0, 0]]), 2).tolist()
    [[1.0, 1.0], [2.0, 0.0]]
    """
    m = len(place)
    flat = (place + size * np.arange(m)[:, None]).reshape(-1)
    return np.bincount(flat, minlength=m * size).reshape(m, size).astype(np.float64)


def quadratic_forms(between: Between, weights: Any) -> tuple[Any, Any]:
    """The sums of weights times kernels times weights, (m,), and the diagonal, (rows,).

    Examples
    --------
    >>> forms, diagonal = quadratic_forms(lambda a, b: np.eye(3)[a][:, b], np.array([[1, 2, 0.0]]))
    >>> forms.tolist(), diagonal.tolist()
    ([5.0], [1.0, 1.0, 1.0])
    """
    size = weights.shape[1]
    every = np.arange(size)
    total, diagonal = np.zeros(len(weights)), np.zeros(size)
    step = max(1, CHUNK // max(1, size))
    for start in range(0, size, step):
        some = every[start : start + step]
        matrix = between(some, every)
        diagonal[some] = matrix[np.arange(len(some)), some]
        total += ((weights @ matrix.T) * weights[:, some]).sum(axis=1)
    return total, diagonal


def pair_means(between: Between, place: Any, size: int) -> Any:
    """The mean of a kernel over pairs of different draws, for every sample, (m,).

    Parameters
    ----------
    between : function
        From the numbers of distinct rows to their kernels.
    place : int array of shape (m, n)
        Which row every draw is.
    size : int
        How many distinct rows there are.

    Notes
    -----
    Kernels of all pairs of distinct rows serve all samples if these are fewer than the pairs within
    the samples; else every sample has its own.

    Examples
    --------
    >>> pair_means(lambda a, b: np.eye(3)[a][:, b], np.array([[0, 0, 1], [0, 1, 2]]), 3).round(6)
    array([0.333333, 0.      ])
    """
    n = place.shape[1]
    own = [np.unique(row, return_counts=True) for row in place]
    if size**2 <= sum(len(rows) ** 2 for rows, _ in own):
        counts = counts_of(place, size)
        total, diagonal = quadratic_forms(between, counts)
        return (total - counts @ diagonal) / (n * (n - 1))
    means = np.zeros(len(place))
    for number, (rows, found) in enumerate(own):
        counts = found[None, :].astype(np.float64)
        total, diagonal = quadratic_forms(_among(between, rows), counts)
        means[number] = (total - counts @ diagonal)[0] / (n * (n - 1))
    return means


def _among(between: Between, rows: Any) -> Between:
    """The kernels of some of the rows, by their numbers among these."""
    return lambda a, b: between(rows[a], rows[b])


def row_sums(between: Between, weights: Any) -> tuple[Any, Any, Any]:
    """The weighted sums of kernels along rows, those of their squares, and the diagonal.

    Examples
    --------
    >>> sums, squares, own = row_sums(
    ...     lambda a, b: np.full((2, 2), 3.0)[a][:, b], np.array([1.0, 2])
    ... )
    >>> sums.tolist(), squares.tolist(), own.tolist()
    ([9.0, 9.0], [27.0, 27.0], [3.0, 3.0])
    """
    every = np.arange(len(weights))
    sums, squares, diagonal = np.zeros((3, len(weights)))
    step = max(1, CHUNK // len(weights))
    for start in range(0, len(weights), step):
        some = every[start : start + step]
        matrix = between(some, every)
        sums[some], squares[some] = matrix @ weights, matrix**2 @ weights
        diagonal[some] = matrix[np.arange(len(some)), some]
    return sums, squares, diagonal


def kernel_between(k: Kernel, rows: Any) -> Between:
    """The kernels of some rows and others, by their numbers."""
    return lambda a, b: k.numbers(rows[a], rows[b])
