"""The Gaussian kernel on pieces of columns: points, intervals with uniform density, and normals.

    pair(a, b)       E exp(-rate (x - y)^2)                          for x in a, y in b
    triple(u, a, b)  E exp(-rate (x - y)^2) exp(-rate (x - z)^2)     for x in u, y in a, z in b

All values are independent. Intervals have closed forms with the error function; where two of
them meet, or where a difference of error functions would cancel, Gauss-Legendre rules on pieces
that are narrow for the kernel are exact up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import ceil
from typing import Any

import numpy as np
from scipy.special import erf, erfc

NODES, SHARES = np.polynomial.legendre.leggauss(12)
MOST_PANELS = 64
"""An interval is cut into at most so many panels of the width of the kernel."""
WIDE = 2
"""The size of intervals that would need more."""


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

    def join(self, other: Any) -> Pieces:
        """These pieces, and then the others."""
        low, high = (np.concatenate([getattr(self, x), getattr(other, x)]) for x in ("low", "high"))
        return Pieces(low, high)

    def padded(self, n: int) -> Pieces:
        """The pieces, with the last one repeated up to a number."""
        index = np.minimum(np.arange(n), self.n - 1)
        return Pieces(self.low[index], self.high[index])


@dataclass(frozen=True, eq=False)
class Normals:
    """Normal distributions; one of variance zero is a point.

    Attributes
    ----------
    mean, variance : arrays of shape (atoms,)
    """

    mean: Any
    variance: Any

    @classmethod
    def points(cls, x: Any) -> Normals:
        """The numbers in a column as points."""
        x = np.asarray(x, dtype=np.float64).reshape(-1)
        return cls(x, np.zeros(len(x)))

    @property
    def n(self) -> int:
        """The number of distributions."""
        return len(self.mean)

    def join(self, other: Any) -> Normals:
        """These distributions, and then the others."""
        return Normals(
            np.concatenate([self.mean, other.mean]),
            np.concatenate([self.variance, other.variance]),
        )


Atoms = Pieces | Normals


@np.errstate(over="ignore")  # the kernel of points that far apart is zero
def pair(rates: Any, a: Atoms, b: Atoms) -> Any:
    """The expected kernel of all pairs of atoms, (atoms of a, atoms of b).

    Parameters
    ----------
    rates : array of shape (columns,)
    a, b : Pieces or Normals
        Of the same kind and columns.

    Examples
    --------
    >>> unit = Pieces(np.array([[0.0]]), np.array([[1.0]]))
    >>> pair(np.array([1.0]), unit, Pieces.points([[0.0]])).round(6).tolist()
    [[0.746824]]
    """
    if isinstance(a, Normals):
        shrink = 1.0 + 2.0 * rates[0] * (a.variance[:, None] + b.variance[None, :])  # type: ignore[union-attr]
        away = (a.mean[:, None] - b.mean[None, :]) ** 2  # type: ignore[union-attr]
        return np.exp(-rates[0] * away / shrink) / np.sqrt(shrink)
    values: Any = 1.0
    for column, rate in enumerate(rates):
        ends = [(x.low[:, column], x.high[:, column]) for x in (a, b)]  # type: ignore[union-attr]
        values = values * _pair(rate, *ends)
    return values


@np.errstate(over="ignore")  # the kernel of points that far apart is zero
def triple(rates: Any, u: Atoms, a: Atoms, b: Atoms) -> Any:
    """The expected product of two kernels that share a value, (atoms of u, of a, of b).

    Examples
    --------
    >>> at = Pieces.points
    >>> triple(np.array([1.0]), at([[0.0]]), at([[1.0]]), at([[1.0]])).round(6).tolist()
    [[[0.135335]]]
    """
    if isinstance(u, Normals):
        return _triple_normal(rates[0], u, a, b)
    values: Any = 1.0
    for column, rate in enumerate(rates):
        ends = [(x.low[:, column], x.high[:, column]) for x in (u, a, b)]  # type: ignore[union-attr]
        values = values * _triple(rate, *ends)
    return values


def section(rate: float, low: Any, high: Any, centre: Any) -> Any:
    """The mean of exp(-rate (x - centre)^2) over intervals, (intervals, centres).

    Examples
    --------
    >>> at = np.array([0.0])
    >>> section(1.0, at, np.array([2.0]), at).round(6).tolist()
    [[0.441041]]
    """
    root = np.sqrt(rate)
    width = root * (high - low)
    values = np.exp(-((root * (0.5 * (low + high)[:, None] - centre)) ** 2))
    narrow = (width > 0) & (width <= 1)
    if narrow.any():
        nodes, shares = rule(low[narrow], high[narrow], 1)
        away = root * (nodes[:, :, None] - centre)
        values[narrow] = np.einsum("q,nqc->nc", shares, np.exp(-(away**2)))
    wide = width > 1
    if wide.any():
        a, b = (root * (end[wide][:, None] - centre) for end in (low, high))
        # both ends on one side: tails are subtracted, which keeps their digits
        left, right = np.where(a > 0, a, -b), np.where(a > 0, b, -a)
        tails = erfc(np.maximum(left, 0.0)) - erfc(np.maximum(right, 0.0))
        across = (a <= 0) & (b >= 0)
        area = np.where(across, erf(b) - erf(a), tails)
        values[wide] = 0.5 * np.sqrt(np.pi) * area / width[wide][:, None]
    return values


def rule(low: Any, high: Any, panels: int) -> tuple[Any, Any]:
    """Nodes of every interval, (intervals, nodes), and their shares."""
    start = np.arange(panels)[:, None]
    inside = ((start + 0.5 * (NODES + 1.0)) / panels).ravel()
    return low[:, None] + (high - low)[:, None] * inside, np.tile(0.5 * SHARES / panels, panels)


def panels_of(rate: float, low: Any, high: Any) -> int:
    """How many panels of the kernel's width the widest interval has."""
    return max(1, ceil(np.sqrt(rate) * float(np.max(high - low, initial=0.0))))


def _pair(rate: float, a: tuple[Any, Any], b: tuple[Any, Any]) -> Any:
    if rate == 0.0:
        return np.ones((len(a[0]), len(b[0])))
    values = np.empty((len(a[0]), len(b[0])))
    sizes = [_size(rate, *x) for x in (a, b)]
    for i, j in product(*(np.unique(size).tolist() for size in sizes)):
        first, second = np.flatnonzero(sizes[0] == i), np.flatnonzero(sizes[1] == j)
        x, y = (a[0][first], a[1][first]), (b[0][second], b[1][second])
        if min(i, j) == WIDE:
            part = _overlap(rate, x, y)
        else:  # the nodes are those of the smaller ones
            part = _mean_section(rate, x, y) if j <= i else _mean_section(rate, y, x).T
        values[np.ix_(first, second)] = part
    return values


def _size(rate: float, low: Any, high: Any) -> Any:
    """Whether intervals are points, as wide as some kernels, or wider: 0, 1 or `WIDE`."""
    return (high > low).astype(np.intp) + (np.sqrt(rate) * (high - low) > MOST_PANELS)


def _mean_section(rate: float, a: tuple[Any, Any], b: tuple[Any, Any]) -> Any:
    """The mean over b of the sections of a, with nodes in b."""
    if (b[0] == b[1]).all():
        return section(rate, *a, b[0])
    nodes, shares = rule(*b, panels_of(rate, *b))
    return section(rate, *a, nodes.ravel()).reshape(len(a[0]), len(nodes), -1) @ shares


def _overlap(rate: float, a: tuple[Any, Any], b: tuple[Any, Any]) -> Any:
    """The expected kernel of intervals that are wide for it, in closed form."""
    root = np.sqrt(rate)
    (a_low, a_high), (b_low, b_high) = ((root * x[0], root * x[1]) for x in (a, b))

    def twice_integrated(t: Any) -> Any:
        return 0.5 * (np.sqrt(np.pi) * t * erf(t) + np.exp(-np.minimum(t**2, 700.0)))

    def between(x: Any, y: Any) -> Any:
        return twice_integrated(x[:, None] - y)

    area = between(a_high, b_low) - between(a_high, b_high)
    area += between(a_low, b_high) - between(a_low, b_low)
    apart = np.maximum(a_low[:, None] - b_high, b_low - a_high[:, None]) > 10.0
    widths = (a_high - a_low)[:, None] * (b_high - b_low)
    return np.where(apart, 0.0, np.maximum(area, 0.0) / widths)


def _triple(rate: float, u: tuple[Any, Any], a: tuple[Any, Any], b: tuple[Any, Any]) -> Any:
    if rate == 0.0:
        return np.ones((len(u[0]), len(a[0]), len(b[0])))
    panels = panels_of(2.0 * rate, *u)
    points = all((low == high).all() for low, high in (a, b))
    if points and panels > MOST_PANELS:
        s, t = a[0][:, None], b[0][None, :]
        values = section(2.0 * rate, *u, (0.5 * (s + t)).ravel())
        return values.reshape(-1, *np.broadcast_shapes(s.shape, t.shape)) * np.exp(
            -0.5 * rate * (s - t) ** 2
        )
    nodes, shares = rule(*u, min(panels, 16 * MOST_PANELS))
    if (u[0] == u[1]).all():
        nodes, shares = u[0][:, None], np.ones(1)
    first, second = (
        _pair(rate, (nodes.ravel(), nodes.ravel()), x).reshape(*nodes.shape, -1) for x in (a, b)
    )
    return np.swapaxes(first * shares[:, None], 1, 2) @ second


def _triple_normal(rate: float, u: Any, a: Any, b: Any) -> Any:
    """Integrate y and z out, multiply the two Gaussian functions of x, integrate x out."""
    if rate == 0.0:
        return np.ones((u.n, a.n, b.n))
    shrink = [1.0 + 2.0 * rate * x.variance for x in (a, b)]
    r, s = rate / shrink[0][:, None], rate / shrink[1][None, :]
    m, n = a.mean[:, None], b.mean[None, :]
    total = r + s
    factor = np.exp(-r * s / total * (m - n) ** 2)
    factor = factor / np.sqrt(shrink[0][:, None] * shrink[1][None, :])
    spread = 1.0 + 2.0 * total * u.variance[:, None, None]
    away = (u.mean[:, None, None] - (r * m + s * n) / total) ** 2
    return factor * np.exp(-total * away / spread) / np.sqrt(spread)
