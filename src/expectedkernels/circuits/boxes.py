"""Means of exp(-x^2) over intervals, in logs and without loss of digits.

    B(d, a, b) = E exp(-(d + a U + b U')^2),    U, U' uniform between -1 and 1

With b = 0 it is a difference of error functions, otherwise one of their integrals; both cancel
where intervals are narrow or far away. There a rule with nodes, or scaled tails, take over.
"""

from __future__ import annotations

from math import log, pi, sqrt
from typing import Any

import numpy as np

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
    d, a, b = np.broadcast_arrays(np.abs(d), a, b)
    wide, narrow = np.maximum(a, b), np.minimum(a, b)
    steep = (narrow > 0) & (d > wide + narrow) & (narrow * (d - wide) >= STEEP)
    panels = np.ceil(2.0 * narrow / PANEL)
    flat = (narrow > 0) & ~steep & (panels <= MOST_PANELS)
    closed = (narrow > 0) & ~steep & ~flat
    logs = log_box(d, wide)
    if steep.any():
        logs[steep] = _log_apart(d[steep], wide[steep], narrow[steep])
    if closed.any():
        logs[closed] = _log_overlap(d[closed], wide[closed], narrow[closed])
    for n in np.unique(panels[flat]).astype(int).tolist():
        some = flat & (panels == n)
        logs[some] = _log_mean(d[some], wide[some], narrow[some], n)
    return logs


def _log_mean(d: Any, wide: Any, narrow: Any, panels: int) -> Any:
    """The mean over the narrower interval by a rule with nodes."""
    nodes, shares = panel_rule(panels)
    logs = log_box(d[:, None] + narrow[:, None] * nodes, wide[:, None])
    top = logs.max(axis=1)
    return top + np.log(np.exp(logs - top[:, None]) @ shares)


def panel_rule(panels: int, rule: tuple[Any, Any] = RULE) -> tuple[Any, Any]:
    """Nodes between -1 and 1, in panels of one width, and their shares, which sum to one."""
    nodes, shares = rule
    start = 2.0 * np.arange(panels)[:, None] - panels + 1.0
    return ((start + nodes) / panels).ravel(), np.tile(0.5 * shares / panels, panels)


def _log_apart(d: Any, wide: Any, narrow: Any) -> Any:
    """The log where the intervals are apart: differences of tails, that of the near ends first."""
    near = d - wide - narrow
    total = _tail(near)
    for sign, step in ((-1.0, 2.0 * narrow), (-1.0, 2.0 * wide), (1.0, 2.0 * (narrow + wide))):
        # t^2 - near^2 = (t - near) (t + near)
        total = total + sign * np.exp(-step * (2.0 * near + step)) * _tail(near + step)
    return -(near**2) + np.log(total) + log(sqrt(pi) / 8.0) - np.log(wide) - np.log(narrow)


def _log_overlap(d: Any, wide: Any, narrow: Any) -> Any:
    """The log where both are wide for the kernel: by how much they overlap, and what edges add."""
    total = 2.0 * np.clip(wide + narrow - d, 0.0, 2.0 * narrow)
    for sign, t in (
        (1.0, d + wide + narrow),
        (-1.0, d + wide - narrow),
        (-1.0, d - wide + narrow),
        (1.0, d - wide - narrow),
    ):
        t = np.abs(t)
        total = total + sign * np.exp(-(np.minimum(t, 40.0) ** 2)) * _tail(t)
    return np.log(total) + log(sqrt(pi) / 8.0) - np.log(wide) - np.log(narrow)


def _tail(t: Any) -> Any:
    """The integral of erfc from t to infinity times exp(t^2), for t that are not negative."""
    from scipy.special import erfcx

    near = 1.0 / sqrt(pi) - t * erfcx(t)
    inverse = 0.5 / np.maximum(t, SERIES_FROM) ** 2
    term, series = inverse, inverse
    for k in range(1, SERIES_TERMS):
        term = -term * (2 * k + 1) * inverse
        series = series + term
    return np.where(t < SERIES_FROM, near, series / sqrt(pi))
