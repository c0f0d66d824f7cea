"""Nodes of one variable given rows: values that stand for all that it could be.

States are their own nodes, intervals have those of Gauss and Legendre, and normal distributions
those of Gauss and Hermite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from expectedkernels.circuits.posteriors import atom_shares
from expectedkernels.estimators.rows import Density, Rows

OF_INTERVALS = 4
"""Nodes of one interval share an expectation, so that four cost hardly more than two."""
OF_NORMALS = 7


@dataclass(frozen=True, eq=False)
class Nodes:
    """Values of one variable in rows where it is missing.

    Attributes
    ----------
    rows : int array of shape (nodes,)
        The row of every node.
    values : array of shape (nodes, columns)
        What the columns of the variable hold.
    weights : array of shape (nodes,)
        Positive; those of one row sum to one.
    """

    rows: Any
    values: Any
    weights: Any


def nodes_of(density: Density, rows: Rows) -> list[Nodes]:
    """The nodes of every variable, given what rows show of the others."""
    shares = atom_shares(density.circuit, rows.states)
    found: list[Any] = [None] * len(density.variables)
    for i, first, stop in density.circuit.atom_slices:
        missing = np.flatnonzero(~rows.said[i].observed)
        values, weights, atoms = _rule(density, i)
        table = shares[missing, first:stop][:, atoms] * weights
        row, node = np.nonzero(table)
        total = table.sum(axis=1)[row]
        found[i] = Nodes(missing[row], values[node], table[row, node] / total)
    return found


def _rule(density: Density, i: int) -> tuple[Any, Any, Any]:
    """The nodes of all atoms of a variable, their weights, and whose they are."""
    variable, block = density.variables[i], density.circuit.input(i)
    if variable.pieces is not None:
        centre, half = variable.pieces.centre, variable.pieces.half
        root = np.zeros(len(centre))
    else:
        real: Any = block
        centre, half = real.mean[:, None], np.asarray(real.halves)[:, None]
        root = np.sqrt(real.variance)
    uniform, shares = np.polynomial.legendre.leggauss(OF_INTERVALS)
    normal, weights = np.polynomial.hermite_e.hermegauss(OF_NORMALS)
    parts = []
    for atom in range(len(centre)):
        u, s = (uniform, shares / shares.sum()) if half[atom].any() else (np.zeros(1), np.ones(1))
        z, w = (normal, weights / weights.sum()) if root[atom] > 0 else (np.zeros(1), np.ones(1))
        away = np.add.outer(root[atom] * z, u * half[atom].max()).reshape(-1, 1)
        parts.append((centre[atom] + away, np.outer(w, s).ravel(), np.full(away.size, atom)))
    values, weights, atoms = (np.concatenate(each) for each in zip(*parts, strict=True))
    return values, weights, atoms
