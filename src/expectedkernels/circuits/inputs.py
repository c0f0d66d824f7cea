"""Input blocks: the univariate units of one variable, one class per family.

A family is a row of numbers per unit, and what the columns of these rows stand for: the states of
a discrete variable, or distributions of a real one. All families answer the same questions, so
that circuits need not ask which one they have got:

    numbers, with_numbers(rows)     the rows, and the block with others in their place
    moved(move)                     the block with its arrays elsewhere
    zero()                          the block of one unit that is zero
    beside(others)                  the block of all units of several
    meets(other)                    which columns of two blocks can stand for the same value
    take(units), merged()           some units, and the distinct ones
    complaint()                     what is wrong with the parameters, None if nothing is
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, log, pi
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.arrays import Array, as_like, is_numpy, namespace, to_numpy
from expectedkernels.circuits.boxes import log_box
from expectedkernels.circuits.equal_rows import distinct_dense_rows
from expectedkernels.engine.blocks import ReadOnly
from expectedkernels.errors import CircuitError

EDGE = 8.0 * float(np.finfo(np.float64).eps)
"""Ends of intervals are rounded: values this near (relatively) count as inside."""


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

    @property
    def numbers(self) -> Array:
        """The rows of numbers, one per unit."""
        return self.table

    def with_numbers(self, rows: Array) -> Table:
        """The block with other rows of numbers."""
        return Table(rows)

    def moved(self, move: Callable[[Any], Any]) -> Table:
        """The block with its arrays elsewhere."""
        return Table(move(self.table))

    def zero(self) -> Table:
        """The block of one unit that is zero."""
        return Table(np.zeros((1, self.cardinality)))

    def beside(self, others: Sequence[Table]) -> Table:
        """The block of the units of this block, and then those of others."""
        return Table(np.concatenate([self.table, *(other.table for other in others)]))

    def meets(self, other: Table) -> Any:
        """Which states are equal, (states, states)."""
        return np.eye(self.cardinality, dtype=np.bool_)

    def complaint(self) -> str | None:
        """What is wrong with the parameters: a table has none."""
        return None

    def take(self, units: Any) -> Table:
        """The block with some of the units, in the given order."""
        return Table(self.table[units])

    def merged(self) -> tuple[Table, Any]:
        """The block of distinct non-zero units, and for every unit its place there (-1: zero)."""
        return _merge(self, self.table)


@dataclass(frozen=True, eq=False)
class Real(ReadOnly):
    """Input units of a real variable: weighted sums of normals, intervals and points.

    A component is the distribution of mean + sqrt(variance) N + half U, where N is standard
    normal and U uniform between -1 and 1: a normal distribution if half is zero, the uniform one
    on an interval if the variance is, and a point if both are.

    Attributes
    ----------
    weights : array of shape (units, components)
    mean, variance : arrays of shape (components,)
    half : array of shape (components,), or None
        Half the widths of the intervals; None: all are zero.

    Examples
    --------
    >>> block = Real(np.eye(2), np.array([0.5, 3.0]), np.zeros(2), np.array([0.5, 1.0]))
    >>> np.exp(block.log_density(np.array([0.25, 2.5]))).tolist()
    [[1.0, 0.0], [0.0, 0.5]]
    """

    weights: Array
    mean: Array
    variance: Array
    half: Array | None = None

    cardinality = None

    def __post_init__(self) -> None:
        if self.half is not None and not (np.asarray(self.half) != 0).any():
            object.__setattr__(self, "half", None)
        super().__post_init__()

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays the block consists of."""
        widths = () if self.half is None else (self.half,)
        return (self.weights, self.mean, self.variance, *widths)

    @property
    def n_units(self) -> int:
        """The number of units."""
        return int(self.weights.shape[0])

    @property
    def n_components(self) -> int:
        """The number of components."""
        return int(self.mean.shape[0])

    @property
    def n_parameters(self) -> int:
        """The number of non-zero weights, means, variances and widths."""
        used = to_numpy(self.weights) != 0
        return int(used.sum()) + (len(self.arrays) - 1) * self.n_components

    @property
    def numbers(self) -> Array:
        """The rows of numbers, one per unit."""
        return self.weights

    @property
    def halves(self) -> Any:
        """Half the widths of all components."""
        return np.zeros(self.n_components) if self.half is None else self.half

    @property
    def spread(self) -> Any:
        """The variances of all components, with those of the intervals."""
        return self.variance if self.half is None else self.variance + self.half**2 / 3.0

    @property
    def is_point(self) -> Any:
        """Which components are points."""
        point = self.variance == 0
        return point if self.half is None else point & (self.half == 0)

    def with_numbers(self, rows: Array) -> Real:
        """The block with other weights."""
        return Real(rows, self.mean, self.variance, self.half)

    def moved(self, move: Callable[[Any], Any]) -> Real:
        """The block with its arrays elsewhere."""
        weights = move(self.weights)
        if self.half is not None and not is_numpy(namespace(weights)):
            raise CircuitError(
                "A circuit with inputs on intervals has its arrays in NumPy: the integrals over "
                "intervals are computed there. Normal inputs can be elsewhere."
            )
        half = None if self.half is None else move(self.half)
        return Real(weights, move(self.mean), move(self.variance), half)

    def zero(self) -> Real:
        """The block of one unit that is zero."""
        return Real(np.zeros((1, 1)), np.zeros(1), np.ones(1))

    def beside(self, others: Sequence[Real]) -> Real:
        """The block of the units and components of this block, and then those of others."""
        blocks = [self, *others]
        return Real(
            sparse.block_diag([block.weights for block in blocks]).toarray(),
            np.concatenate([block.mean for block in blocks]),
            np.concatenate([block.variance for block in blocks]),
            np.concatenate([block.halves for block in blocks]),
        )

    def meets(self, other: Real) -> Any:
        """Which components overlap, (components, components): normals meet all others.

        Intervals that have an end in common do not meet, nor do points in different places.
        """
        bounded = (self.variance == 0)[:, None] & (other.variance == 0)[None, :]
        away = np.abs(self.mean[:, None] - other.mean[None, :])
        reach = self.halves[:, None] + other.halves[None, :]
        size = np.abs(self.mean)[:, None] + np.abs(other.mean)[None, :] + reach
        inside = away < reach - EDGE * size
        touching = np.where(self.is_point[:, None] | other.is_point[None, :], away <= reach, False)
        return ~bounded | inside | touching

    def complaint(self) -> str | None:
        """What is wrong with the parameters, None if nothing is."""
        if not (np.isfinite(self.mean).all() and (np.asarray(self.variance) >= 0).all()):
            return "finite means, and variances that are not negative (zero: a point mass)"
        if self.half is not None and not (np.isfinite(self.half).all() and (self.half >= 0).all()):
            return "finite widths that are not negative"
        return None

    def log_density(self, x: Any) -> Any:
        """The log densities of the components at some values, (values, components).

        A point has the log density 0 where it is, and -inf elsewhere.
        """
        return self._log_density(as_like(x, self.mean)[:, None] - self.mean[None, :])

    def log_peak(self) -> Any:
        """The log densities of the components at their means, where they are largest."""
        return self._log_density(np.zeros((1, self.n_components)))[0]

    def _log_density(self, away: Any) -> Any:
        """The log densities at distances from the means, (values, components)."""
        logs = _log_normal(away, self.variance)
        if self.half is None:
            return logs
        inside = np.abs(away) <= self.half + EDGE * (np.abs(self.mean) + self.half)
        wide, smooth = self.half > 0, (self.half > 0) & (self.variance > 0)
        width = 2.0 * np.where(wide, self.half, 1.0)
        logs = np.where(wide, np.where(inside, -np.log(width), -inf), logs)
        if smooth.any():  # a normal, averaged over the interval
            root = np.sqrt(2.0 * self.variance[smooth])
            logs[:, smooth] = log_box(away[:, smooth] / root, self.half[smooth] / root)
            logs[:, smooth] -= np.log(root) + 0.5 * log(pi)
        return logs

    def draw(self, generator: Any, components: Any) -> Any:
        """A value of each of the given components."""
        drawn = generator.normal(self.mean[components], np.sqrt(self.variance[components]))
        if self.half is not None:
            drawn = drawn + self.half[components] * generator.uniform(-1.0, 1.0, len(components))
        return drawn

    def take(self, units: Any) -> Real:
        """The block with some of the units, in the given order, and the components they use."""
        weights = self.weights[units]
        used = np.flatnonzero((np.asarray(weights) != 0).any(axis=0))
        half = None if self.half is None else self.half[used]
        return Real(weights[:, used], self.mean[used], self.variance[used], half)

    def merged(self) -> tuple[Real, Any]:
        """The block of distinct non-zero units, and for every unit its place there (-1: zero)."""
        parameters = np.stack([self.mean, self.variance, self.halves], axis=1)
        distinct, place = np.unique(parameters, axis=0, return_inverse=True)
        weights = np.zeros((self.n_units, len(distinct)))
        np.add.at(weights.T, place.ravel(), np.asarray(self.weights).T)
        return _merge(Real(weights, *distinct.T), weights)


Normal = Real
"""The family, where all components are normal."""

Input = Table | Real


def _log_normal(away: Any, variance: Any) -> Any:
    """The log densities of normals at distances from their means; variance zero is a point."""
    xp = namespace(variance)
    point = variance == 0
    spread = xp.where(point, xp.ones_like(variance), variance)
    with np.errstate(over="ignore"):  # the log-density of a remote value is -inf
        density = -0.5 * (away**2 / spread + xp.log(spread) + log(2 * pi))
    at_point = xp.where(away == 0, xp.zeros_like(away), xp.full_like(away, -inf))
    return xp.where(xp.broadcast_to(point, away.shape), at_point, density)


def _merge(block: Any, rows: Any) -> tuple[Any, Any]:
    """Keep the first of equal rows; rows of zeros go."""
    kept, place = distinct_dense_rows(rows)
    return (block if len(kept) == len(rows) else block.take(kept)), place
