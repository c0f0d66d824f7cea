"""Atoms of variables with several columns: one distribution of a real number for each of them.

    pair(a, b)       E exp(-rate (x - y)^2)                          for x in a, y in b
    triple(u, a, b)  E exp(-rate (x - y)^2) exp(-rate (x - z)^2)     for x in u, y in a, z in b

All values are independent, and so are the columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from expectedkernels.circuits.sides import Atoms
from expectedkernels.kernels.reals import log_pairs
from expectedkernels.kernels.triples import triples

Columns = tuple[Atoms, ...]
"""The same number of atoms for every column of a variable."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """Uniform distributions on boxes; a point has equal ends.

    Attributes
    ----------
    low, high : arrays of shape (pieces, columns)

    Examples
    --------
    >>> Pieces.points([[0.5], [2.0]]).n
    2
    """

    low: Any
    high: Any

    @classmethod
    def points(cls, x: Any) -> Pieces:
        """The rows of a matrix as points."""
        x = np.asarray(x, dtype=np.float64)
        return cls(x, x)

    @property
    def n(self) -> int:
        """The number of pieces."""
        return len(self.low)

    @property
    def centre(self) -> Any:
        """The middle of every piece."""
        return 0.5 * (self.low + self.high)

    @cached_property
    def atoms(self) -> Columns:
        """The pieces as atoms of every column."""
        half = 0.5 * (self.high - self.low)
        return tuple(
            Atoms(None, x, np.zeros(self.n), h if h.any() else None)
            for x, h in zip(self.centre.T, half.T, strict=True)
        )

    def padded(self, n: int) -> Pieces:
        """The pieces, with the last one repeated up to a number."""
        index = np.minimum(np.arange(n), self.n - 1)
        return Pieces(self.low[index], self.high[index])


def point_atoms(x: Any) -> Columns:
    """The rows of a matrix as points."""
    return tuple(Atoms(None, column, np.zeros(len(x))) for column in x.T)


def with_points(atoms: Columns, x: Any) -> Columns:
    """Atoms, and then the rows of a matrix as points."""
    return tuple(
        Atoms(
            None,
            np.concatenate([a.mean, column]),
            np.concatenate([a.variance, np.zeros(len(column))]),
            None if a.half is None else np.concatenate([a.half, np.zeros(len(column))]),
        )
        for a, column in zip(atoms, x.T, strict=True)
    )


def pair(rates: Any, a: Columns, b: Columns) -> Any:
    """The expected kernel of all pairs of atoms, (atoms of a, atoms of b).

    Parameters
    ----------
    rates : array of shape (columns,)
    a, b : tuples of Atoms
        One for every column.

    Examples
    --------
    >>> unit = Pieces(np.array([[0.0]]), np.array([[1.0]]))
    >>> pair(np.array([1.0]), unit.atoms, point_atoms(np.zeros((1, 1)))).round(6).tolist()
    [[0.746824]]
    """
    logs: Any = 0.0
    for rate, first, second in zip(rates, a, b, strict=True):
        logs = logs + log_pairs(float(rate), first, second)
    return np.exp(logs)


def triple(rates: Any, u: Columns, a: Columns, b: Columns) -> Any:
    """The expected product of two kernels that share a value, (atoms of u, of a, of b).

    Examples
    --------
    >>> zero, one = point_atoms(np.zeros((1, 1))), point_atoms(np.ones((1, 1)))
    >>> triple(np.array([1.0]), zero, one, one).round(6).tolist()
    [[[0.135335]]]
    """
    values: Any = 1.0
    for rate, x, y, z in zip(rates, u, a, b, strict=True):
        values = values * triples(float(rate), x, y, z)
    return values
