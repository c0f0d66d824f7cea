"""Single columns of Gram matrices of Stein kernels that are too large to be held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from expectedkernels.arrays import spans
from expectedkernels.kernels.stein import PairwiseKernel, SteinKernel, finite_gram

CHUNK_ROWS = 4096
"""How many rows are read, and meet another one, at once."""

DIAGONAL_ROWS = 64
"""Where nothing better is known, the diagonal is taken from blocks of this size."""


def gram_columns(stein: PairwiseKernel, rows: Any) -> tuple[Callable[[int], Any], Any]:
    """A function that gives one column of the Gram matrix of rows, and the diagonal of it.

    What the kernel knows of the rows is read once, and stays linear in their number.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> X = np.array([[0, 0], [0, 1], [1, 1]])
    >>> stein = SteinKernel(ek.factorized([[0.2, 0.8], [0.5, 0.5]]), operator="gibbs")
    >>> column, diagonal = gram_columns(stein, X)
    >>> bool(abs(column(2) - stein(X)[:, 2]).max() < 1e-15)
    True
    >>> bool(abs(diagonal - np.diag(stein(X))).max() < 1e-15)
    True
    """
    if isinstance(stein, SteinKernel) and stein._terms is not None:
        return _product_columns(stein, rows)
    sides = [stein._read(rows[chunk]) for chunk in spans(len(rows), CHUNK_ROWS)]
    blocks = (rows[chunk] for chunk in spans(len(rows), DIAGONAL_ROWS))
    diagonal = np.concatenate([np.diag(stein(block)) for block in blocks])

    def column(i: int) -> Any:
        one = stein._read(rows[i : i + 1])
        return np.concatenate([stein._between(one, side)[0] for side in sides])

    return column, diagonal


def _product_columns(stein: SteinKernel, rows: Any) -> tuple[Callable[[int], Any], Any]:
    """The same for products of positive kernels, as products of sparse matrices and vectors.

    Given one point, what a variable of another adds depends on its state, and is linear in how the
    operator weighs its other states.
    """
    terms: Any = stein._terms
    chunks, diagonal = [], []
    for chunk in spans(len(rows), CHUNK_ROWS):
        points, moves = stein._read(rows[chunk])
        chunks.append(_sparse(points, stein.cardinalities, moves))
        with np.errstate(over="ignore", invalid="ignore"):  # looked at below
            diagonal.append(finite_gram(_diagonal(terms, points, moves)))

    def column(i: int) -> Any:
        points, moves = stein._read(rows[i : i + 1])
        total: Any = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            for weight, matrices in terms:
                one = [matrix[state] for matrix, state in zip(matrices, points[0], strict=True)]
                means = [(move @ matrix)[0] for move, matrix in zip(moves, matrices, strict=True)]
                logs = np.log(np.concatenate(one))
                inside = np.concatenate(
                    [np.outer(1.0 / k, m).ravel() for k, m in zip(one, means, strict=True)]
                )
                parts = [np.exp(states @ logs) * (features @ inside) for states, features in chunks]
                total = total + weight * np.concatenate(parts)
        return finite_gram(total)

    return column, np.concatenate(diagonal)


def _sparse(points: Any, cardinalities: list[int], moves: list[Any]) -> tuple[Any, Any]:
    """Indicators of states, and weights of states where a variable is in its own one."""
    n, cards = len(points), np.asarray(cardinalities)
    own = _starts(cards) + points
    first = _starts(cards**2) + points * cards
    pairs = [first[:, [v]] + np.arange(card) for v, card in enumerate(cards)]
    states = _matrix(np.ones(own.size), own, n, int(cards.sum()))
    features = _matrix(
        np.concatenate(moves, axis=1).ravel(), np.hstack(pairs), n, int(cards @ cards)
    )
    return states, features


def _starts(sizes: Any) -> Any:
    return np.concatenate([[0], np.cumsum(sizes)[:-1]])


def _matrix(data: Any, columns: Any, n: int, width: int) -> Any:
    """A sparse matrix with as many entries in every row."""
    ends = np.arange(n + 1, dtype=np.int32) * np.int32(columns.shape[1])
    return csr_array((data, columns.ravel().astype(np.int32), ends), shape=(n, width))


def _diagonal(terms: Any, points: Any, moves: list[Any]) -> Any:
    """The kernels of points with themselves."""
    total: Any = 0.0
    for weight, matrices in terms:
        product, inside = 1.0, 0.0
        for v, matrix in enumerate(matrices):
            own = np.diag(matrix)[points[:, v]]
            product = product * own
            inside = inside + ((moves[v] @ matrix) * moves[v]).sum(axis=1) / own
        total = total + weight * product * inside
    return total
