"""The Gaussian kernel on real atoms: points, normals, intervals, and normals spread over these."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from expectedkernels.circuits.boxes import log_box, log_boxes, panel_rule
from expectedkernels.circuits.sides import Atoms

RULE = np.polynomial.legendre.leggauss(12)
MOST_PANELS = 64
"""An interval is cut into at most so many panels of the width of the kernel, if it need not be."""


@np.errstate(over="ignore")  # the log of a remote value is -inf
def log_pairs(rate: float, a: Atoms, b: Atoms) -> Any:
    """The log of E exp(-rate (x - y)^2) for all pairs of atoms, (atoms of a, atoms of b).

    The difference of two atoms has a variance and two widths. The variance shrinks the rate and
    the value; the widths leave a mean over one or two intervals, which points do not have.

    Examples
    --------
    >>> unit, zero = (
    ...     Atoms(None, np.ones(1), np.zeros(1), np.ones(1)),
    ...     Atoms(None, *np.zeros((2, 1))),
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
    half, other = half_of(a)[:, None], half_of(b)[None, :]
    (points, wide), (also_points, also_wide) = (_by_width(x) for x in (a, b))
    for rows, columns in ((wide, also_points), (points, also_wide), (wide, also_wide)):
        if len(rows) and len(columns):  # where both are points all is done
            at = np.ix_(rows, columns)
            scale = root if shrink is None else root[at]
            widths = scale * half[rows], scale * other[:, columns]
            if rows is wide and columns is also_wide:
                logs[at] = log_boxes(away[at], *widths)
            else:
                logs[at] = log_box(away[at], widths[0] if rows is wide else widths[1])
    return logs if shrink is None else logs - 0.5 * np.log(shrink)


def _by_width(atoms: Atoms) -> tuple[Any, Any]:
    """Which atoms have no width, and which have one."""
    if atoms.half is None:
        return np.arange(atoms.n), np.arange(0)
    return np.flatnonzero(atoms.half == 0), np.flatnonzero(atoms.half)


def half_of(atoms: Atoms) -> Any:
    """Half the widths of all atoms."""
    return np.zeros(atoms.n) if atoms.half is None else atoms.half


def panels_of(rate: float, low: Any, high: Any) -> int:
    """How many panels of the kernel's width the widest interval has."""
    return max(1, ceil(np.sqrt(rate) * float(np.max(high - low, initial=0.0))))


def rule(low: Any, high: Any, panels: int) -> tuple[Any, Any]:
    """Nodes of every interval, (intervals, nodes), and their shares."""
    inside, shares = panel_rule(panels, RULE)
    return low[:, None] + (high - low)[:, None] * (0.5 * (inside + 1.0)), shares
