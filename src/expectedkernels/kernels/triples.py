"""Products of two values of a factor that share an argument, expected over atoms.

    log E k(x, y) k(x, z),    x, y and z independent

A point x leaves two expectations that are multiplied. Otherwise y and z are integrated out, which
leaves two Gaussian functions of x, whose product is one again. Intervals of y and z are cut into
panels with nodes: three intervals have no closed form.
"""

from __future__ import annotations

from math import ceil, sqrt
from typing import Any

import numpy as np

from expectedkernels.circuits.boxes import PANEL, log_box, panel_rule
from expectedkernels.circuits.sides import Atoms
from expectedkernels.errors import KernelError
from expectedkernels.kernels.factors import Factor
from expectedkernels.kernels.reals import MOST_PANELS, half_of, log_pairs, panels_of, rule


def log_triples(factor: Factor, x: Atoms, y: Atoms, z: Atoms, variable: int) -> tuple[Any, Any]:
    """Logs of the absolute values on triples of atoms, and signs (None: all non-negative).

    Examples
    --------
    >>> states = Atoms(2)
    >>> logs, _ = log_triples(Factor(square=1.0), states, states, states, 0)
    >>> logs[0].tolist()
    [[0.0, -1.0], [-1.0, -2.0]]
    """
    if x.cardinality is not None:
        return _products(factor, x, y, z, variable)
    point = (x.variance == 0) & (half_of(x) == 0)
    logs = np.empty((x.n, y.n, z.n))
    if point.any():
        logs[point] = _products(factor, _taken(x, point), y, z, variable)[0]
    if point.all():
        return logs, None
    if factor.absolute:
        raise KernelError(
            f"The product of two values of a Laplacian kernel has no closed form on the real "
            f"variable {variable}. RBF, ExpHamming and Delta have one."
        )
    # a value with a density differs from any other
    logs[~point] = _log_square(factor.square, _taken(x, ~point), y, z) - 2.0 * factor.unequal
    return logs, None


def triples(rate: float, x: Atoms, y: Atoms, z: Atoms) -> Any:
    """The numbers E exp(-rate (x - y)^2 - rate (x - z)^2) for triples of real atoms.

    An interval of x is cut into panels with nodes, which makes one batch of matrix products of
    what would be one closed form for every entry.

    Examples
    --------
    >>> zero, one = Atoms(None, np.zeros(1), np.zeros(1)), Atoms(None, np.ones(1), np.zeros(1))
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
    at = Atoms(None, nodes.ravel(), np.zeros(nodes.size))
    first = np.exp(log_pairs(rate, at, y)).reshape(*nodes.shape, -1)
    second = first if z is y else np.exp(log_pairs(rate, at, z)).reshape(*nodes.shape, -1)
    return np.swapaxes(first * shares[:, None], 1, 2) @ second


def _products(factor: Factor, x: Atoms, y: Atoms, z: Atoms, variable: int) -> tuple[Any, Any]:
    """Two expectations given the first argument, multiplied."""
    (logs, sign), (others, other_sign) = (factor.logs(x, other, variable) for other in (y, z))
    products = logs[:, :, None] + others[:, None, :]
    if sign is None or other_sign is None:  # both, as they are of one factor
        return products, None
    return products, sign[:, :, None] * other_sign[:, None, :]


def _log_square(rate: float, x: Atoms, y: Atoms, z: Atoms) -> Any:
    """The Gaussian part; intervals of the second and third argument become nodes."""
    if rate == 0.0:
        return np.zeros((x.n, y.n, z.n))
    (y, shares), (z, other_shares) = (_nodes(rate, atoms) for atoms in (y, z))
    logs = _log_normal(rate, x, y, z)
    if len(shares) == len(other_shares) == 1:
        return logs
    shape = (x.n, -1, len(shares), z.n // len(other_shares), len(other_shares))
    logs = logs.reshape(shape)
    top = logs.max(axis=(2, 4), keepdims=True)
    top = np.where(top > -np.inf, top, 0.0)
    with np.errstate(divide="ignore"):
        means = np.einsum("xypzq,p,q->xyz", np.exp(logs - top), shares, other_shares)
        return np.log(means) + top[:, :, 0, :, 0]


def _log_normal(rate: float, x: Atoms, y: Atoms, z: Atoms) -> Any:
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


def _nodes(rate: float, atoms: Atoms) -> tuple[Atoms, Any]:
    """The atoms with nodes for their intervals, as many for each, and the shares of the nodes."""
    half = half_of(atoms)
    if not half.any():
        return atoms, np.ones(1)
    panels = max(1, ceil(2.0 * sqrt(rate) * float(half.max()) / PANEL))
    inside, shares = panel_rule(panels)
    mean = (atoms.mean[:, None] + half[:, None] * inside).ravel()
    spread = Atoms(None, mean, np.repeat(atoms.variance, len(inside)))
    return spread, shares


def _taken(atoms: Atoms, chosen: Any) -> Atoms:
    half = None if atoms.half is None else atoms.half[chosen]
    return Atoms(None, atoms.mean[chosen], atoms.variance[chosen], half)
