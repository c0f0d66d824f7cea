"""Passes up and down in wide numbers: any range, any signs, all digits.

Plain numbers are much faster; rows that leave their range, and circuits whose weights do, come
here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import mul
from typing import Any

import numpy as np

from expectedkernels.circuits.base import BlockCircuit
from expectedkernels.circuits.evidence import Evidence
from expectedkernels.circuits.observed import chunks
from expectedkernels.circuits.wide import Wide, sums, wide
from expectedkernels.engine.levels import Edges, Levels
from expectedkernels.engine.semiring import Semiring, down_over, lifted, products_over, up_over

SLOW = 8
"""How many rows in plain numbers take the memory of one in wide ones."""


def _full(shape: tuple[int, ...], ones: bool) -> Wide:
    return wide(np.full(shape, float(ones)))


def _sums(edges: Edges, weights: Any, products: Wide) -> Wide:
    terms = products[edges.products]
    if weights is not None:
        terms = terms * weights[(slice(None), *[None] * (len(products.shape) - 1))]
    return sums(terms, edges.starts)


WIDE = Semiring(_full, mul, _sums, wide)
"""Numbers of any size."""


@dataclass(frozen=True, eq=False)
class WideUp:
    """What a pass up in wide numbers found.

    Attributes
    ----------
    levels : Levels
    weights : list of Wide
        Of the edges of every level.
    atoms : Wide of shape (atoms, rows)
    values : Wide of shape (units, rows)
    """

    levels: Levels
    weights: list[Any]
    atoms: Wide
    values: Wide

    @property
    def possible(self) -> Any:
        """Which rows have a positive value."""
        return self.values.mantissa[-1] > 0

    def shares(self, number: int) -> Wide:
        """The shares of a level's edges in their units, (edges, rows)."""
        level = self.levels.levels[number]
        edges = level.all_edges
        products = products_over(WIDE, self.levels, number, self.values, self.atoms)
        terms = products[edges.products] * self.weights[number][:, None]
        return terms / self.values[level.start : level.stop][edges.units]

    def derivatives(self) -> Wide:
        """The derivatives of the (only) root in all atoms, (atoms, rows)."""
        return down_over(WIDE, self.levels, self.weights, self.values)


def wide_up(circuit: BlockCircuit, evidence: Evidence | None, absolute: bool = False) -> WideUp:
    """The values of all units given rows of evidence, (one row without any).

    With `absolute`, of the circuit with the absolute values of all weights.
    """
    levels = circuit.levels
    weights = circuit.remembered("wide weights", lambda: lifted(WIDE, levels))
    if absolute:
        weights = [Wide(np.abs(w.mantissa), w.exponent) for w in weights]
    atoms = _observed(circuit, evidence)
    return WideUp(levels, weights, atoms, up_over(WIDE, levels, weights, atoms))


def wide_ups(circuit: BlockCircuit, evidence: Evidence | None) -> Iterator[tuple[slice, WideUp]]:
    """Rows in chunks that fit into memory, with what passes up find."""
    n = 1 if evidence is None else evidence.n_rows
    for rows in chunks(circuit.levels, n, per_row=SLOW):
        yield rows, wide_up(circuit, None if evidence is None else evidence.rows(rows))


def node_values(circuit: BlockCircuit, found: WideUp) -> list[Wide]:
    """For every vtree node the values of its units, of the only row."""
    first = found.levels.unit_starts.tolist()
    return [
        found.values[start : start + n, 0]
        for start, n in zip(first, circuit.operand.units, strict=True)
    ]


def _observed(circuit: BlockCircuit, evidence: Evidence | None) -> Wide:
    """What rows of evidence say of all atoms, (atoms, rows)."""
    n = 1 if evidence is None else evidence.n_rows
    atoms = _full((circuit.levels.n_atoms, n), True)
    if evidence is None:
        return atoms
    for variable, first, stop in circuit.atom_slices:
        column = evidence.column(variable)
        atoms[first:stop] = circuit.input(variable).wide_weights(column)[:, column.codes]
    return atoms
