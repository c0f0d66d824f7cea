"""Input units: tables of states, normals, intervals and points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from math import inf, log, pi, sqrt
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag

from expectedkernels.arrays import (
    Array,
    as_like,
    distinct_dense_rows,
    is_numpy,
    namespace,
    to_numpy,
)
from expectedkernels.checks import CircuitError, PropertyError
from expectedkernels.engine.blocks import ReadOnly


def log_sum_exp(logs: Any, axis: Any, factors: Any = None) -> tuple[Any, Any]:
    """The logs of the absolute values of sums of exponentials, times factors, and their signs.

    Examples
    --------
    >>> log_sum_exp(np.array([-1000.0, -1000.0]), 0, np.array([1.0, 2.0]))[0].round(3).tolist()
    -998.901
    """
    top = logs.max(axis=axis, keepdims=True)
    top = np.where(top > -inf, top, 0.0)
    terms = np.exp(logs - top)
    total = (terms if factors is None else terms * factors).sum(axis=axis)
    with np.errstate(divide="ignore"):
        return np.log(np.abs(total)) + top.squeeze(axis), np.sign(total)


TINY = float(np.finfo(np.float64).tiny)


def in_range(numbers: Any, n_used: Any, sizes: Any) -> bool:
    """Whether numbers are finite, and `n_used` of their sizes are doubles of all digits."""
    return bool(np.isfinite(numbers).all()) and int((sizes >= TINY).sum()) == n_used


def require_range(numbers: Any, n_used: Any, sizes: Any, what: str, advice: str) -> None:
    """Raise unless numbers are in range."""
    if not in_range(numbers, n_used, sizes):
        raise CircuitError(f"{what} has weights beyond the range of double precision; {advice}.")


def weighted_units(block: Any, weights: Any, what: str, advice: str) -> Any:
    """The block of weighted sums of the units of another; `what` and `advice` are for the error.

    Raises if a number leaves the range of doubles.
    """
    weights, matrix = sparse.csr_array(weights), block.matrix
    matrix = block.csr if matrix is None else matrix
    n_used, sizes = 0, np.zeros(0)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        result = weights @ matrix
        if (weights.data != 1.0).any():  # what is passed on keeps its digits, however small it is
            sizes = abs(weights) @ abs(matrix)
            used = (weights != 0).astype(np.int64) @ (matrix != 0).astype(np.int64)
            n_used = (used > 0).sum()
    require_range(result.data if sparse.issparse(result) else result, n_used, sizes, what, advice)
    return block.with_numbers(result)


@np.errstate(divide="ignore")
def log_sizes(numbers: Any) -> Any:
    """The logs of absolute values, -inf of zero."""
    return np.log(np.abs(numbers))


FEW_NODES, FEW_SHARES = np.polynomial.legendre.leggauss(12) * np.array([[1.0], [0.5]])
"""Enough for exp(4 t) between -1 and 1."""
RULE = np.polynomial.legendre.leggauss(16)
PANEL = 0.75
"""This rule is exact up to rounding on panels of this width."""
MOST_PANELS = 48
"""Wider intervals have closed forms in which nothing cancels."""
STEEP = 1.0
"""From this product of half a width and a distance on, the near end of an interval rules."""
SERIES_FROM = 8.0
SERIES_TERMS = 24


@np.errstate(over="ignore")  # the log of a remote value is -inf
def log_box(d: Any, a: Any) -> Any:
    """The log of B(d, a, 0), elementwise.

    Examples
    --------
    >>> log_box(np.array([1.0, 0.0, 40.0]), np.array([0.0, 1.0, 1.0])).round(4).tolist()
    [-1.0, -0.2919, -1526.0502]
    """
    from scipy.special import erf, erfcx  # slow to import, and only needed here

    d, a = np.broadcast_arrays(np.abs(d), np.asarray(a, dtype=np.float64))
    logs = -(d**2)
    narrow = (a > 0) & (a <= 0.5) & (a * d <= 2.0)
    outside = (a > 0) & ~narrow & (d > a)
    across = (a > 0) & ~narrow & ~outside
    if narrow.any():
        x, w = d[narrow][:, None], a[narrow][:, None]
        inside = w * FEW_NODES
        terms = inside * (-2.0 * x - inside)
        logs[narrow] += np.log(np.exp(terms, out=terms) @ FEW_SHARES)
    if outside.any():
        x, w = d[outside], a[outside]
        tail = erfcx(x - w) - np.exp(-4.0 * w * x) * erfcx(x + w)
        logs[outside] = -((x - w) ** 2) + np.log(tail) + log(sqrt(pi) / 4.0) - np.log(w)
    if across.any():
        x, w = d[across], a[across]
        area = erf(x + w) + erf(w - x)
        logs[across] = np.log(area) + log(sqrt(pi) / 4.0) - np.log(w)
    return logs


@np.errstate(over="ignore", divide="ignore")
def log_boxes(d: Any, a: Any, b: Any) -> Any:
    """The log of B(d, a, b), elementwise.

    Examples
    --------
    >>> log_boxes(np.zeros(2), np.array([0.0, 1.0]), np.ones(2)).round(4).tolist()
    [-0.2919, -0.4515]
    """
    d, wide, narrow = np.broadcast_arrays(np.abs(d), np.maximum(a, b), np.minimum(a, b))
    panels = np.ceil(2.0 * narrow / PANEL)
    steep = (d > wide + narrow) & (narrow * (d - wide) >= STEEP)
    closed = (narrow > 0) & (steep | (panels > MOST_PANELS))
    logs = log_box(d, wide)
    if closed.any():
        logs[closed] = _log_closed(d[closed], wide[closed], narrow[closed])
    flat = (narrow > 0) & ~closed
    for n in np.unique(panels[flat]).astype(int).tolist():
        some = flat & (panels == n)
        nodes, shares = panel_rule(n)  # the mean over the narrower interval
        at = log_box(d[some][:, None] + narrow[some][:, None] * nodes, wide[some][:, None])
        logs[some] = log_sum_exp(at, 1, shares)[0]
    return logs


def panel_rule(panels: int, rule: tuple[Any, Any] = RULE) -> tuple[Any, Any]:
    """Nodes between -1 and 1, in panels of one width, and their shares, which sum to one."""
    nodes, shares = rule
    start = 2.0 * np.arange(panels)[:, None] - panels + 1.0
    return ((start + nodes) / panels).ravel(), np.tile(0.5 * shares / panels, panels)


def _log_closed(d: Any, wide: Any, narrow: Any) -> Any:
    """The log where intervals are apart, or wide: their overlap, and differences of tails."""
    from scipy.special import erfcx

    near = d - wide - narrow
    total = 2.0 * np.clip(-near, 0.0, 2.0 * narrow)
    steps = ((1.0, 0.0), (-1.0, 2.0 * narrow), (-1.0, 2.0 * wide), (1.0, 2.0 * (narrow + wide)))
    for sign, step in steps:
        t = np.abs(near + step)
        # the tail at the near ends is taken out: t^2 - near^2 = (t - near) (t + near)
        power = np.where(near > 0, step * (2.0 * near + step), np.minimum(t, 40.0) ** 2)
        # the integral of erfc from t to infinity times exp(t^2)
        inverse = 0.5 / np.maximum(t, SERIES_FROM) ** 2
        term, series = inverse, inverse
        for k in range(1, SERIES_TERMS):
            term = -term * (2 * k + 1) * inverse
            series = series + term
        tail = np.where(t < SERIES_FROM, 1.0 / sqrt(pi) - t * erfcx(t), series / sqrt(pi))
        total = total + sign * np.exp(-power) * tail
    scale = log(sqrt(pi) / 8.0) - np.log(wide) - np.log(narrow)
    return scale + np.log(total) - np.maximum(near, 0.0) ** 2


EDGE = 8.0 * float(np.finfo(np.float64).eps)
"""Ends of intervals are rounded: values this near (relatively) count as inside."""


@dataclass(frozen=True, eq=False)
class Family(ReadOnly):
    """What the families have in common: the words of blocks, of rows of numbers.

    A family holds arrays, and defines what its `numbers` are, and the other methods.
    """

    cardinality: ClassVar[Any] = None
    noise_kinds: ClassVar[Any] = (0,)
    numbers: ClassVar[Any]
    overlap: ClassVar[Any]
    take: ClassVar[Any]

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays the block consists of."""
        given = (getattr(self, field.name) for field in fields(self))
        return tuple(array for array in given if array is not None)

    @property
    def matrix(self) -> Array:
        """The rows of numbers."""
        return self.numbers

    @property
    def n_units(self) -> int:
        """The number of units."""
        return self.numbers.shape[0]

    @property
    def width(self) -> int:
        """The number of states or components."""
        return int(self.numbers.shape[1])

    @property
    def flat(self) -> tuple[Any, Any]:
        """All numbers, and where those of every unit start."""
        return self.numbers.reshape(-1), np.arange(self.n_units + 1) * self.width

    @property
    def n_parameters(self) -> int:
        """The number of parameters."""
        return self.n_units * self.width

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The numbers of units, edges and parameters."""
        return self.n_units, 0, self.n_parameters

    def moved(self, move: Callable[[Any], Any]) -> Any:
        """The block with its arrays elsewhere."""
        return type(self)(*map(move, self.arrays))

    def with_numbers(self, rows: Array) -> Any:
        """The block with other rows of numbers."""
        arrays = rows, *self.arrays[1:]
        return type(self)(*arrays)

    def invalid_reason(self) -> str | None:
        """What is wrong with the parameters, None if nothing is."""

    def refilled(self, numbers: Any) -> Any:
        """The block with other numbers, laid flat."""
        return self.with_numbers(numbers.reshape(self.numbers.shape))

    def merged(self) -> tuple[Any, Any]:
        """The block of distinct non-zero units, and for every unit its place there (-1: zero)."""
        kept, place = distinct_dense_rows(self.numbers)
        return (self if len(kept) == self.n_units else self.take(kept)), place

    def overlaps(self, other: Family) -> Any:
        """Which units of this block and of another can be not zero at the same value."""
        seen, also_seen = ((block.numbers != 0).astype(np.float32) for block in (self, other))
        return seen @ self.overlap(other).astype(np.float32) @ also_seen.T > 0


@dataclass(frozen=True, eq=False)
class Table(Family):
    """Input units of a discrete variable: one row of values per unit.

    Attributes
    ----------
    table : array of shape (units, cardinality)
    """

    table: Array

    @property
    def numbers(self) -> Array:
        """The table."""
        return self.table

    @property
    def cardinality(self) -> int:
        """The number of states of the variable."""
        return int(self.table.shape[1])

    def concat(self, others: Sequence[Table]) -> Table:
        """The block of the units of this block, and then those of others."""
        return Table(np.concatenate([self.table, *(other.table for other in others)]))

    def overlap(self, other: Table) -> Any:
        """Which states are equal, (states, states)."""
        return np.eye(self.cardinality, dtype=np.bool_)

    def times(self, other: Table, units: Any, partners: Any) -> tuple[Table, Any]:
        """The products of units with those of another block, and the logs of their sizes."""
        one, two = self.table[units], other.table[partners]
        with np.errstate(over="ignore", under="ignore"):
            block = Table(one * two)
        return block, (log_sizes(one) + log_sizes(two)).reshape(-1)

    def log_weights(self, column: Any) -> Any:
        """The logs of the weights of states, (states, statements)."""
        return log_sizes(column.weights).T

    log_modes = log_weights

    def marginal(self, shares: Any, evidence: Any, variable: int) -> Any:
        """The probabilities of the states, (rows, states)."""
        return shares

    def condition(self, column: Any) -> tuple[Table, Any]:
        """The block given what one row says, and the logs of factors of its weights."""
        return self, np.tile(self.log_weights(column)[:, column.codes[0]], self.n_units)

    def power(self, alpha: float) -> tuple[Table, Any]:
        """The powers of the states' indicators, and the factors of their numbers."""
        return self, 1.0

    def recoded(self, codes: Sequence[int]) -> Table:
        """The block with its states in another order; code -1 is a state that is impossible."""
        xp, index = namespace(self.table), np.asarray(codes) % (self.cardinality + 1)
        wider = xp.concat([self.table, xp.zeros_like(self.table[:, :1])], axis=1)
        return Table(xp.take(wider, as_like(index, wider), axis=1))

    def take(self, units: Any) -> Table:
        """The block with some of the units, in the given order."""
        return Table(self.table[units])


@dataclass(frozen=True, eq=False)
class Real(Family):
    """Input units of a real variable: weighted sums of normals, intervals and points.

    A component is the distribution of mean + sqrt(variance) N + half U, where N is standard
    normal and U uniform between -1 and 1: a normal distribution if half is zero, the uniform one
    on an interval if the variance is, and a point if both are.

    Attributes
    ----------
    weights : array of shape (units, components)
    mean, variance : arrays of shape (components,) or (components, columns)
        A variable of several columns, independent given the component, takes part in sweeps only,
        with evidence that weighs the components itself.
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

    def __post_init__(self) -> None:
        if self.half is not None and not (np.asarray(self.half) != 0).any():
            object.__setattr__(self, "half", None)
        super().__post_init__()

    @property
    def numbers(self) -> Array:
        """The weights."""
        return self.weights

    @property
    def n_parameters(self) -> int:
        """The number of non-zero weights, means, variances and widths."""
        used = to_numpy(self.weights) != 0
        return int(used.sum()) + (len(self.arrays) - 1) * self.width

    @property
    def halves(self) -> Any:
        """Half the widths of all components."""
        return np.zeros(self.width) if self.half is None else self.half

    @property
    def total_variance(self) -> Any:
        """The variances of all components, with those of the intervals."""
        return self.variance if self.half is None else self.variance + self.half**2 / 3.0

    def moved(self, move: Callable[[Any], Any]) -> Real:
        """The block with its arrays elsewhere."""
        if self.half is not None and not is_numpy(namespace(move(self.weights))):
            raise CircuitError(
                "A circuit with inputs on intervals has its arrays in NumPy: the integrals over "
                "intervals are computed there. Normal inputs can be elsewhere."
            )
        return super().moved(move)

    def concat(self, others: Sequence[Real]) -> Real:
        """The block of the units and components of this block, and then those of others."""
        blocks = [self, *others]
        parts = zip(*((block.mean, block.variance, block.halves) for block in blocks), strict=True)
        weights = block_diag(*(block.weights for block in blocks))
        return Real(weights, *map(np.concatenate, parts))

    def overlap(self, other: Real) -> Any:
        """Which components overlap, (components, components): normals meet all others.

        Intervals that have an end in common do not meet, nor do points in different places.
        """
        points, others = ((x.variance == 0) & (x.halves == 0) for x in (self, other))
        bounded = (self.variance == 0)[:, None] & (other.variance == 0)[None, :]
        away = np.abs(self.mean[:, None] - other.mean[None, :])
        reach = self.halves[:, None] + other.halves[None, :]
        size = np.abs(self.mean)[:, None] + np.abs(other.mean)[None, :] + reach
        inside = away < reach - EDGE * size
        return ~bounded | inside | ((points[:, None] | others[None, :]) & (away <= reach))

    def invalid_reason(self) -> str | None:
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

    def _log_density(self, away: Any) -> Any:
        """The log densities at distances from the means, (values, components)."""
        logs = log_normal(away, self.variance)
        if self.half is None:
            return logs
        inside = np.abs(away) <= self.half + EDGE * (np.abs(self.mean) + self.half)
        broad, smooth = self.half > 0, (self.half > 0) & (self.variance > 0)
        width = 2.0 * np.where(broad, self.half, 1.0)
        logs = np.where(broad, np.where(inside, -np.log(width), -inf), logs)
        if smooth.any():  # a normal, averaged over the interval
            root = np.sqrt(2.0 * self.variance[smooth])
            logs[:, smooth] = log_box(away[:, smooth] / root, self.half[smooth] / root)
            logs[:, smooth] -= np.log(root) + 0.5 * log(pi)
        return logs

    def times(self, other: Real, units: Any, partners: Any) -> tuple[Real, Any]:
        """The products of units with those of another block, and the logs of their sizes.

        Pairs that are no doubles beside the largest of their unit are left out.

        N(x; a, s) N(x; b, t) = N(a - b; 0, s + t) N(x; (a t + b s) / (s + t), s t / (s + t))
        """
        weights, others = self.weights[units], other.weights[partners]
        used = (weights != 0).T.astype(np.float32) @ (others != 0)
        first, second = np.nonzero((used > 0) & self.overlap(other))
        if (self.halves[first] > 0).any() or (other.halves[second] > 0).any():
            raise PropertyError(
                "The product of densities on intervals is not computed: with a normal density it "
                "is none of the input families. Use normal inputs, or cut the variable into states."
            )
        total = self.variance[first] + other.variance[second]
        if (total == 0).any():
            place = float(self.mean[first[np.argmin(total)]])
            raise PropertyError(
                "The product of two points of mass at the same place is not defined. Both circuits "
                f"have normal inputs of variance zero with mean {place}; use positive variances."
            )
        a, b = self.mean[first], other.mean[second]
        share = self.variance[first] / total
        density = log_normal(a - b, total)
        one, two = weights[:, first], others[:, second]
        logs = log_sizes(one) + log_sizes(two) + density
        logs[logs < logs.max(axis=1, keepdims=True, initial=-inf) + log(TINY)] = -inf
        with np.errstate(over="ignore", under="ignore"):
            numbers = np.where(logs > -inf, one * two * np.exp(density), 0.0)
        block = Real(numbers, a + (b - a) * share, share * other.variance[second])
        return block, logs.reshape(-1)

    def log_weights(self, column: Any) -> Any:
        """The logs of the densities, (components, statements), 0 where no value is observed."""
        if column.logs is not None:
            return column.logs.T
        missing = np.isnan(column.values)
        logs = self.log_density(np.where(missing, 0.0, column.values))
        xp = namespace(logs)
        return xp.where(as_like(missing[:, None], logs), xp.zeros_like(logs), logs).T

    def log_modes(self, column: Any) -> Any:
        """The logs of the densities, (components, statements), the largest ones if not observed."""
        largest = self._log_density(np.zeros((1, self.width))).T
        return np.where(np.isnan(column.values), largest, self.log_weights(column))

    def marginal(self, shares: Any, evidence: Any, variable: int) -> Any:
        """The mean and the variance, (rows, 2), given the shares of the components."""
        mean = shares @ self.mean
        away = (self.mean - mean[:, None]) ** 2  # no difference of large squares
        variance = shares @ self.total_variance + (shares * away).sum(axis=1)
        if evidence is not None:
            column = evidence.column(variable)
            observed = column.values[column.codes]
            mean = np.where(np.isnan(observed), mean, observed)
            variance = np.where(np.isnan(observed), variance, 0.0)
        return np.stack([mean, variance], axis=1)

    @property
    def noise_kinds(self) -> tuple[int, ...]:
        """What is random in a value: the component, a normal number, and one for intervals."""
        return (0, 1) if self.half is None else (0, 1, 2)

    def sample_values(self, components: Any, normal: Any, uniform: Any) -> Any:
        """The values of components for random numbers; without any, their means."""
        values = self.mean[components]
        if normal is not None:
            values = values + np.sqrt(self.variance[components]) * normal
            if self.half is not None:
                values = values + self.half[components] * (2.0 * uniform - 1.0)
        return values

    def condition(self, column: Any) -> tuple[Real, Any]:
        """The block given what one row says, and the logs of factors of its weights.

        An observed value leaves a point of every unit, with the unit's density there.
        """
        logs, value = self.log_weights(column)[:, column.codes[0]], column.values[column.codes[0]]
        if np.isnan(value):
            return self, np.tile(logs, self.n_units)
        logs, signs = log_sum_exp(np.where(self.weights != 0, logs, -inf), 1, self.weights)
        return Real(signs[:, None], np.array([value]), np.zeros(1)), logs

    def power(self, alpha: float) -> tuple[Real, Any]:
        """The powers of the densities, and the factors of their weights.

        N(x; m, v)^alpha = (2 pi v)^((1 - alpha) / 2) alpha^(-1/2) N(x; m, v / alpha)
        """
        if alpha <= 0 or self.half is not None or (self.variance == 0).any():
            raise PropertyError(
                f"the power {alpha:g} of its densities is none of the family: they must be normal, "
                "with positive variances, and the exponent positive"
            )
        logs = 0.5 * ((1.0 - alpha) * np.log(2.0 * np.pi * self.variance) - np.log(alpha))
        return Real(self.weights, self.mean, self.variance / alpha), np.exp(logs)

    def beside_points(self, values: Any) -> tuple[Any, Any, Any]:
        """The means, variances and half widths of the components, and then of points at values."""
        if not len(values):
            return self.mean, self.variance, self.half
        xp = namespace(self.mean)
        points = as_like(values, self.mean)
        half = None if self.half is None else np.concatenate([self.half, np.zeros(len(values))])
        variance = xp.concat([self.variance, xp.zeros_like(points)])
        return xp.concat([self.mean, points]), variance, half

    def take(self, units: Any) -> Real:
        """The block with some of the units, in the given order, and the components they use."""
        weights = self.weights[units]
        used = np.flatnonzero((np.asarray(weights) != 0).any(axis=0))
        return Real(weights[:, used], self.mean[used], self.variance[used], self.halves[used])

    def merged(self) -> tuple[Real, Any]:
        """The block of distinct non-zero units, of distinct components, and the places of units."""
        parameters = np.stack([self.mean, self.variance, self.halves], axis=1)
        distinct, place = np.unique(parameters, axis=0, return_inverse=True)
        weights = np.zeros((self.n_units, len(distinct)))
        np.add.at(weights.T, place.ravel(), np.asarray(self.weights).T)
        return super(Real, Real(weights, *distinct.T)).merged()


Input = Table | Real
Block = Any
"""A block of units: input units of a variable, or `Inner` ones, which the place says."""


def log_normal(away: Any, variance: Any) -> Any:
    """The log densities of normals at distances from their means; variance zero is a point."""
    xp = namespace(variance)
    point = variance == 0
    spread = xp.where(point, xp.ones_like(variance), variance)
    with np.errstate(over="ignore"):  # the log-density of a remote value is -inf
        density = -0.5 * (away**2 / spread + xp.log(spread) + log(2 * pi))
    at_point = xp.where(away == 0, xp.zeros_like(away), xp.full_like(away, -inf))
    return xp.where(xp.broadcast_to(point, away.shape), at_point, density)
