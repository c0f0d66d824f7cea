"""Input blocks: the univariate units of one variable, as tables or as mixtures of normals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from expectedkernels.arrays import Array, to_numpy
from expectedkernels.engine.blocks import ReadOnly


@dataclass(frozen=True, eq=False)
class Table(ReadOnly):
    """Input units of a discrete variable: one row of values per unit.

    Attributes
    ----------
    table : array of shape (units, cardinality)
    """

    table: Array

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays the block consists of."""
        return (self.table,)

    @property
    def n_units(self) -> int:
        """The number of units."""
        return int(self.table.shape[0])

    @property
    def cardinality(self) -> int:
        """The number of states of the variable."""
        return int(self.table.shape[1])

    @property
    def n_parameters(self) -> int:
        """The number of table entries."""
        return self.n_units * self.cardinality

    def take(self, units: Any) -> Table:
        """The block with some of the units, in the given order."""
        return Table(self.table[units])

    def merged(self) -> tuple[Table, Any]:
        """The block of distinct non-zero units, and for every unit its place there (-1: zero)."""
        return _merge(self, self.table)


@dataclass(frozen=True, eq=False)
class Normal(ReadOnly):
    """Input units of a real variable: weighted sums of normal densities.

    Attributes
    ----------
    weights : array of shape (units, components)
    mean, variance : arrays of shape (components,)
    """

    weights: Array
    mean: Array
    variance: Array

    cardinality = None

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays the block consists of."""
        return (self.weights, self.mean, self.variance)

    @property
    def n_units(self) -> int:
        """The number of units."""
        return int(self.weights.shape[0])

    @property
    def n_parameters(self) -> int:
        """The number of non-zero weights, means and variances."""
        used = to_numpy(self.weights) != 0
        return int(used.sum()) + 2 * int(self.mean.shape[0])

    def take(self, units: Any) -> Normal:
        """The block with some of the units, in the given order, and the components they use."""
        weights = self.weights[units]
        used = np.flatnonzero((np.asarray(weights) != 0).any(axis=0))
        return Normal(weights[:, used], self.mean[used], self.variance[used])

    def merged(self) -> tuple[Normal, Any]:
        """The block of distinct non-zero units, and for every unit its place there (-1: zero)."""
        pairs = np.stack([self.mean, self.variance], axis=1)
        distinct, place = np.unique(pairs, axis=0, return_inverse=True)
        weights = np.zeros((self.n_units, len(distinct)))
        np.add.at(weights.T, place.ravel(), np.asarray(self.weights).T)
        return _merge(Normal(weights, distinct[:, 0], distinct[:, 1]), weights)


Input = Table | Normal


def _merge(block: Any, rows: Any) -> tuple[Any, Any]:
    """Keep the first of equal rows; rows of zeros go."""
    place = np.empty(len(rows), dtype=np.intp)
    first: dict[bytes, int] = {}
    kept: list[int] = []
    nonzero = (rows != 0).any(axis=1)
    for i, row in enumerate(rows):
        if not nonzero[i]:
            place[i] = -1
            continue
        j = first.setdefault(row.tobytes(), len(kept))
        if j == len(kept):
            kept.append(i)
        place[i] = j
    return (block if len(kept) == len(rows) else block.take(kept)), place
