"""Factors of kernels: one function of two values for every variable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, inf, log, pi, sqrt
from typing import Any

import numpy as np

from expectedkernels import arrays
from expectedkernels.arrays import as_like, detach, has_gradient, namespace, to_numpy
from expectedkernels.checks import KernelError, Verdict
from expectedkernels.circuits.inputs import PANEL, log_box, log_boxes, log_sum_exp, panel_rule
from expectedkernels.circuits.operands import InputComponents

RULE = np.polynomial.legendre.leggauss(12)
MOST_PANELS = 64
"""An interval is cut into at most so many panels of the width of the kernel, if it need not be."""


@np.errstate(over="ignore")  # the log of a remote value is -inf
def log_pairs(rate: float, a: InputComponents, b: InputComponents) -> Any:
    """The log of E exp(-gamma (x - y)^2) for all pairs of atoms, (atoms of a, atoms of b).

    The difference of two atoms has a variance and two widths. The variance shrinks gamma and
    the value; the widths leave a mean over one or two intervals, which points do not have.

    Examples
    --------
    >>> unit, zero = (
    ...     InputComponents(None, np.ones(1), np.zeros(1), np.ones(1)),
    ...     InputComponents(None, *np.zeros((2, 1))),
    ... )
    >>> log_pairs(1.0, unit, zero).round(4).tolist()
    [[-0.8186]]
    """
    away = a.mean[:, None] - b.mean[None, :]
    root: Any = np.sqrt(rate)
    shrink: Any = None
    if a.variance.any() or b.variance.any():
        shrink = 1.0 + 2.0 * rate * (a.variance[:, None] + b.variance[None, :])
        root = np.sqrt(rate / shrink)
    away *= root
    logs = -(away**2)
    half, other = half_of(a)[:, None], half_of(b)
    wide = (half > 0) | (other > 0)  # where both are points all is done
    if wide.any():
        widths = (np.broadcast_to(root * x, wide.shape)[wide] for x in (half, other))
        logs[wide] = log_boxes(away[wide], *widths)
    return logs if shrink is None else logs - 0.5 * np.log(shrink)


def half_of(atoms: InputComponents) -> Any:
    """Half the widths of all atoms."""
    return np.zeros(atoms.n) if atoms.half is None else atoms.half


def panels_of(rate: float, low: Any, high: Any) -> int:
    """How many panels of the kernel's width the widest interval has."""
    return max(1, ceil(np.sqrt(rate) * float(np.max(high - low, initial=0.0))))


def rule(low: Any, high: Any, panels: int) -> tuple[Any, Any]:
    """Nodes of every interval, (intervals, nodes), and their shares."""
    inside, shares = panel_rule(panels, RULE)
    return low[:, None] + (high - low)[:, None] * (0.5 * (inside + 1.0)), shares


@dataclass(frozen=True, eq=False)
class Factor:
    """The kernel exp(-square d^2 - absolute |d| - unequal [d != 0]) * table of one variable.

    Here d is the difference of the two values. The family is closed under products.

    Attributes
    ----------
    square, absolute, unequal : float
        Non-negative; `unequal` may be infinite (the Kronecker delta).
    table : array of shape (cardinality, cardinality), or None
        Only for discrete variables.
    tensors : mapping, or None
        The tensors of those of the above that require gradients, by their names.
    """

    square: float = 0.0
    absolute: float = 0.0
    unequal: float = 0.0
    table: Any = None
    tensors: Mapping[str, Any] | None = None

    def __mul__(self, other: Factor) -> Factor:
        """The product: exponents add, and tables multiply."""
        tables = [f.table.shape for f in (self, other) if f.table is not None]
        if len(set(tables)) > 1:
            raise KernelError(
                "Tables of one variable must have the same shape to be multiplied. "
                f"Got {tables[0]} and {tables[1]}."
            )
        plain, tensors = {}, {}
        for name in ("square", "absolute", "unequal", "table"):
            plain[name] = _multiplied(*(getattr(f, name) for f in (self, other)))
            both = [(f.tensors or {}).get(name, getattr(f, name)) for f in (self, other)]
            if any(map(has_gradient, both)):
                tensors[name] = _multiplied(*both)
        return Factor(**plain, tensors=tensors or None)

    def logs(
        self, left: InputComponents, right: InputComponents, variable: int, like: Any = None
    ) -> tuple[Any, Any, Any]:
        """Logs of the absolute values on pairs of atoms, and signs (None: all non-negative).

        With a tensor `like`, logs know their gradients; and what is zero but has gradients.
        """
        self.check(left.cardinality, variable)
        arrays.require_memory(
            24.0 * left.n * right.n,
            f"The kernel between {left.n} and {right.n} states or densities of variable {variable}",
            "Put rare states together, or use fewer components.",
        )
        if left.cardinality is None:
            if like is not None:
                left, right = left.sent(like), right.sent(like)
            return _log_expectation(self, left, right, variable), None, None
        away = np.abs(_differences(left.cardinality))
        logs = self.log_at(away)
        sign = None if self.table is None or not (self.table < 0).any() else np.sign(self.table)
        if like is None:
            if self.table is not None:
                with np.errstate(divide="ignore"):
                    logs = logs + np.log(np.abs(self.table))
            return logs, sign, None
        logs, tensors = as_like(logs, like), self.tensors or {}
        for name, power in (("square", away**2), ("absolute", away), ("unequal", away > 0)):
            if name in tensors:
                rate = tensors[name].to(logs)
                logs = logs - as_like(power * 1.0, like) * (rate - rate.detach())
        if self.table is None:
            return logs, None, None
        table = tensors["table"].to(logs) if "table" in tensors else as_like(self.table, like)
        nothing = (table == 0).detach()
        zeros = (table * nothing * logs.exp()) if "table" in tensors else None
        logs = logs + table.abs().masked_fill(nothing, 1.0).log()
        return logs.masked_fill(nothing, -inf), sign, zeros

    def check(self, cardinality: int | None, variable: int) -> None:
        """Raise unless the factor can be used on a variable with so many states (None: real)."""
        if self.table is None:
            return
        if cardinality is None:
            raise KernelError(
                f"A table kernel cannot be used on the real variable {variable}: there is no "
                "closed form. RBF, Laplacian, ExpHamming, Delta and their products have one."
            )
        if self.table.shape != (cardinality, cardinality):
            raise KernelError(
                f"The table of variable {variable} must have shape ({cardinality}, {cardinality}), "
                f"one row and column per state. Got {self.table.shape}."
            )

    def log_at(self, difference: Any) -> Any:
        """The log of the part without the table, at differences of values."""
        size = np.abs(difference)
        logs = np.zeros_like(size)
        if self.square:
            with np.errstate(over="ignore"):  # the log of a remote value is -inf
                logs = logs - self.square * size**2
        if self.absolute:
            logs = logs - self.absolute * size
        if self.unequal:
            logs = np.where(size > 0, -inf if self.unequal == inf else logs - self.unequal, logs)
        return logs

    def verdict(self, variable: int) -> Verdict:
        """Whether the factor is a positive (semi-)definite kernel."""
        if self.table is None:
            return Verdict(True, "exponentials of distances are positive definite")
        n = len(self.table)
        matrix = self.table * np.exp(self.log_at(_differences(n)))
        if not np.array_equal(matrix, matrix.T):
            row, column = np.argwhere(matrix != matrix.T)[0]
            pair = f"entries ({row}, {column}) and ({column}, {row})"
            values = f"{matrix[row, column]} and {matrix[column, row]}"
            reason = f"the table of variable {variable} is not symmetric: {pair} are {values}"
            return Verdict(False, reason)
        lowest = float(np.linalg.eigvalsh(matrix)[0])
        # rounding moves eigenvalues by a multiple of the largest entry
        if lowest < -1e-12 * n * max(1e-300, float(np.abs(matrix).max())):
            reason = f"the table of variable {variable} has a negative eigenvalue, {lowest:.3g}"
            return Verdict(False, reason)
        return Verdict(True, f"the table of variable {variable} has no negative eigenvalue")


def _differences(n: int) -> Any:
    """The differences of all pairs of states."""
    return np.subtract.outer(np.arange(n, dtype=np.float64), np.arange(n))


def _multiplied(one: Any, two: Any) -> Any:
    """The sum of two exponents, or the product of two tables, which may be tensors or None."""
    if one is None or two is None:
        return two if one is None else one
    if not max(np.ndim(detach(one)), np.ndim(detach(two))):
        return one + two
    like = one if has_gradient(one) else two
    return as_like(one, like) * as_like(two, like)


def _log_expectation(
    factor: Factor, left: InputComponents, right: InputComponents, variable: int
) -> Any:
    """The log expectation when the two values are independent, normal or spread over intervals.

    The difference of the values is normal with mean m and variance v. Completing the square with
    the Gaussian part of the kernel leaves a normal with mean m / s and variance v / s, where
    s = 1 + 2 square v, and the factor s^(-1/2) exp(-square m^2 / s). Intervals move m: the factor
    is averaged over them.
    """
    wide = not (left.half is right.half is None)
    if factor.absolute and wide:
        raise KernelError(
            f"A Laplacian kernel cannot be used on the real variable {variable}: its inputs are "
            "intervals, over which it is not integrated. RBF, ExpHamming and Delta are."
        )
    xp = namespace(left.mean, right.mean)
    like = left.mean if xp is namespace(left.mean) else right.mean
    mean = as_like(left.mean, like)[:, None] - as_like(right.mean, like)[None, :]
    variance = as_like(left.variance, like)[:, None] + as_like(right.variance, like)[None, :]
    tensors = {} if isinstance(mean, np.ndarray) else factor.tensors or {}
    square, absolute, unequal = (
        tensors[name].to(mean) if name in tensors else getattr(factor, name)
        for name in ("square", "absolute", "unequal")
    )
    shrink = 1.0 + 2.0 * square * variance
    logs = -0.5 * xp.log(shrink)
    if factor.square and wide:
        logs = log_pairs(factor.square, left, right)
    elif factor.square:
        with np.errstate(over="ignore"):  # the log of a remote value is -inf
            logs = logs - square * mean**2 / shrink
    if factor.absolute:
        logs = logs + _log_laplace(mean / shrink, variance / shrink, absolute)
    if factor.unequal:
        differ = (variance > 0) | (mean != 0)  # a normal meets a given point with probability 0
        if wide:
            differ |= (half_of(left) > 0)[:, None] | (half_of(right) > 0)[None, :]
        away = xp.full_like(logs, -inf) if factor.unequal == inf else logs - unequal
        logs = xp.where(differ, away, logs)
    return logs


def _log_laplace(mean: Any, variance: Any, rate: Any) -> Any:
    """The log of E exp(-gamma |z|) for normal z; variance zero is a point.

    Special functions are evaluated on the CPU. Gradients flow through the tangent.
    """
    with np.errstate(over="ignore"):  # the density at zero of a remote normal is zero
        given = to_numpy(mean), to_numpy(variance), float(detach(rate))
        logs, by_mean, by_variance, by_rate = _log_laplace_on_cpu(*given)
    if isinstance(mean, np.ndarray):
        return logs
    logs, by_mean, by_variance = (as_like(x, mean) for x in (logs, by_mean, by_variance))
    tangent = by_mean * (mean - detach(mean)) + by_variance * (variance - detach(variance))
    if has_gradient(rate):
        tangent = tangent + as_like(by_rate, mean) * (rate - detach(rate))
    return logs + tangent


def _log_laplace_on_cpu(mean: Any, variance: Any, rate: float) -> tuple[Any, ...]:
    """The log, without cancellation, and its derivatives by mean, variance and gamma."""
    from scipy import special  # slow to import, and only needed here

    point = variance == 0
    sd = np.sqrt(np.where(point, 1.0, variance))

    def half(sign: float) -> Any:
        # E[exp(-gamma z); z > 0] for z with mean sign * mean
        x = rate * sd - sign * mean / sd
        tail = -(mean**2) / (2 * sd**2) + np.log(special.erfcx(np.maximum(x, 0) / np.sqrt(2)))
        bulk = 0.5 * rate**2 * sd**2 - sign * rate * mean + special.log_ndtr(-np.minimum(x, 0))
        return np.where(x > 0, tail - log(2), bulk)

    above, below = half(1.0), half(-1.0)
    logs = np.logaddexp(above, below)
    # the kernel has slope -gamma above zero, gamma below, and a kink of -2 gamma at zero
    at_zero = -(mean**2) / (2 * sd**2) - np.log(sd) - 0.5 * log(2 * pi)
    by_mean = -rate * np.tanh(0.5 * (above - below))
    density = np.exp(at_zero - logs)
    by_variance = 0.5 * rate**2 - rate * density
    by_rate = variance * (rate - 2.0 * density) - mean * np.tanh(0.5 * (above - below))
    return (
        np.where(point, -rate * np.abs(mean), logs),
        np.where(point, -rate * np.sign(mean), by_mean),
        np.where(point, 0.5 * rate**2, by_variance),
        np.where(point, -np.abs(mean), by_rate),
    )


def triples(rate: float, x: InputComponents, y: InputComponents, z: InputComponents) -> Any:
    """The numbers E exp(-gamma (x - y)^2 - gamma (x - z)^2) for triples of real atoms.

    An interval of x is cut into panels with nodes, which makes one batch of matrix products of
    what would be one closed form for every entry.

    Examples
    --------
    >>> zero, one = (
    ...     InputComponents(None, np.zeros(1), np.zeros(1)),
    ...     InputComponents(None, np.ones(1), np.zeros(1)),
    ... )
    >>> triples(1.0, zero, one, one).round(6).tolist()
    [[[0.135335]]]
    """
    if rate == 0.0:
        return np.ones((x.n, y.n, z.n))
    half = half_of(x)
    low, high = x.mean - half, x.mean + half
    panels = panels_of(2.0 * rate, -half, half)
    points = not (half_of(y).any() or half_of(z).any())
    if x.variance.any() or (points and panels > MOST_PANELS):
        return np.exp(_log_square(rate, x, y, z))
    nodes, shares = x.mean[:, None], np.ones(1)
    if half.any():
        nodes, shares = rule(low, high, min(panels, 16 * MOST_PANELS))
    at = InputComponents(None, nodes.ravel(), np.zeros(nodes.size))
    first = np.exp(log_pairs(rate, at, y)).reshape(*nodes.shape, -1)
    second = first if z is y else np.exp(log_pairs(rate, at, z)).reshape(*nodes.shape, -1)
    return np.swapaxes(first * shares[:, None], 1, 2) @ second


def _log_square(rate: float, x: InputComponents, y: InputComponents, z: InputComponents) -> Any:
    """The Gaussian part; intervals of the second and third argument become nodes."""
    (y, shares), (z, other_shares) = (_nodes(rate, atoms) for atoms in (y, z))
    logs = _log_normal(rate, x, y, z)
    if len(shares) == len(other_shares) == 1:
        return logs
    shape = (x.n, -1, len(shares), z.n // len(other_shares), len(other_shares))
    return log_sum_exp(logs.reshape(shape), (2, 4), shares[:, None, None] * other_shares)[0]


def _log_normal(rate: float, x: InputComponents, y: InputComponents, z: InputComponents) -> Any:
    """The same where the second and third argument are normals or points."""
    # points shrink nothing: what follows is smaller then
    shrink, other = (
        1.0 + 2.0 * rate * (atoms.variance if atoms.variance.any() else np.zeros(1))
        for atoms in (y, z)
    )
    shrink = shrink[:, None]
    r, q = rate / shrink, rate / other
    total = r + q
    m, n = y.mean[:, None], z.mean[None, :]
    spread = 1.0 + 2.0 * total * x.variance[:, None, None]
    root = np.sqrt(total / spread)
    with np.errstate(over="ignore"):  # the log of a remote value is -inf
        logs = -0.5 * np.log(shrink * other) - r * q / total * (m - n) ** 2
        away = root * (x.mean[:, None, None] - (r * m + q * n) / total)
        logs = logs - 0.5 * np.log(spread)
        if x.half is None:
            return logs - away**2
        return logs + log_box(away, root * x.half[:, None, None])


def _nodes(rate: float, atoms: InputComponents) -> tuple[InputComponents, Any]:
    """The atoms with nodes for their intervals, as many for each, and the shares of the nodes."""
    half = half_of(atoms)
    if not half.any():
        return atoms, np.ones(1)
    panels = max(1, ceil(2.0 * sqrt(rate) * float(half.max()) / PANEL))
    inside, shares = panel_rule(panels)
    mean = (atoms.mean[:, None] + half[:, None] * inside).ravel()
    spread = InputComponents(None, mean, np.repeat(atoms.variance, len(inside)))
    return spread, shares
