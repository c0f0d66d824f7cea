"""Sides of an expectation: a circuit, a circuit given rows of evidence, or a set of points.

A side is one operand of a sweep plus what happens at its leaves: it names the *atoms* of every
variable (its states, or normal components and observed values), and turns values over atoms
into values over its (batched) input units. Kernels only ever see atoms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from expectedkernels.arrays import as_like, namespace
from expectedkernels.circuits.base import BlockCircuit
from expectedkernels.circuits.evidence import FEW_ROWS, Evidence
from expectedkernels.engine.blocks import Inner
from expectedkernels.engine.nodes import at_nodes
from expectedkernels.engine.patterns import patterns
from expectedkernels.engine.plan import Part
from expectedkernels.engine.sweep import Operand, pad
from expectedkernels.engine.value import (
    Value,
    Weights,
    applied,
    from_log,
    joined,
    plain,
    repeated,
    taken,
    times,
    weights_of,
)
from expectedkernels.errors import CircuitError
from expectedkernels.vtree import Vtree


@dataclass(frozen=True, eq=False)
class Atoms:
    """What a kernel is evaluated on, for one variable.

    Attributes
    ----------
    cardinality : int or None
        Of a discrete variable: the atoms are its states 0, 1, ...
    mean, variance : arrays, or None
        Of a real variable: the atoms are normal distributions; variance zero is a point.
    half : array, or None
        Half the widths of intervals over which these are spread; None: all are zero.
    """

    cardinality: int | None
    mean: Any = None
    variance: Any = None
    half: Any = None

    @property
    def n(self) -> int:
        """The number of atoms."""
        return int(self.mean.shape[0]) if self.cardinality is None else self.cardinality


class CircuitSide:
    """A circuit, optionally given a batch of rows of evidence.

    Rows are put together where they say the same, or not; by default if there are many.
    """

    max_rows: int | None = None
    """How many rows may be worked on at once, None for any number."""

    def __init__(
        self,
        circuit: BlockCircuit,
        evidence: Evidence | None = None,
        by_patterns: bool | None = None,
    ):
        self.circuit, self.evidence, self.by_patterns = circuit, evidence, by_patterns
        self.operand: Operand = circuit.operand
        if evidence is not None:
            few = FEW_ROWS
            if by_patterns is not None:
                few = 0 if by_patterns else evidence.n_rows
            self.operand = self.operand.batched(evidence.patterns(circuit.vtree, few))

    @property
    def n_rows(self) -> int | None:
        """The number of rows of evidence, None without evidence."""
        return None if self.evidence is None else self.evidence.n_rows

    @property
    def root_rows(self) -> Any:
        """Where along the root's axis the value of every row is; None: row i is at i."""
        return None if self.operand.patterns is None else self.operand.patterns.rows

    def rows(self, chosen: slice) -> CircuitSide:
        """The side with some of its rows."""
        some = self.evidence.rows(chosen)  # type: ignore[union-attr]
        return CircuitSide(self.circuit, some, self.by_patterns)

    def atoms(self, variable: int) -> Atoms:
        """The atoms of a variable."""
        block = self.circuit.input(variable)
        if block.cardinality is not None:
            return Atoms(block.cardinality)
        mean, variance, half = block.mean, block.variance, block.half
        if self.evidence is not None:
            seen = self._seen(variable)
            points = as_like(seen, mean)
            xp = self.circuit.xp
            mean = xp.concat([mean, points])
            variance = xp.concat([variance, xp.zeros_like(points)])
            half = None if half is None else np.concatenate([half, np.zeros(len(seen))])
        return Atoms(None, mean, variance, half)

    def _seen(self, variable: int) -> Any:
        """The observed values of a real variable."""
        values = self.evidence.column(variable).values  # type: ignore[union-attr]
        return values[~np.isnan(values)]

    def expand(self, value: Value, axis: int, nodes: Any, part: Part | None) -> Value:
        """From a value over atoms along an axis to one over patterns and units."""
        variables = self.circuit.vtree.variable[nodes]
        if self.circuit.cardinalities[int(variables[0])] is None:
            return self._expand_normal(value, axis, int(variables[0]))
        weights = self._tables(nodes, part)
        if self.evidence is None:
            return applied(value, weights, axis)
        states = self._state_weights(variables, value, axis)
        copies = self.operand.copies(int(nodes[0]))
        value = times(repeated(value, axis, copies), states, weights.lo, weights.hi)
        return applied(value, weights, axis)

    def _tables(self, nodes: Any, part: Part | None) -> Weights:
        """The tables of one leaf, or the padded and stacked tables of a group of leaves."""
        blocks: Any = self.circuit.blocks
        operand = self.operand
        if part is None or operand.fold.single[part[0]]:
            node = int(nodes[0])
            return operand.cached(("leaf", node), lambda: weights_of(blocks[node].table))
        group = part[0]

        def stack() -> Weights:
            members = operand.fold.members[group]
            shape = (operand.fold.units[group], blocks[int(members[0])].cardinality)
            return weights_of(self.circuit.xp.stack([pad(blocks[v].table, shape) for v in members]))

        return operand.stacked("leaves", part, stack)

    def _state_weights(self, variables: Any, value: Value, axis: int) -> Value:
        """The evidence on discrete variables as weights of their states, along an axis."""
        evidence: Any = self.evidence
        if self.operand.patterns.is_uniform:  # type: ignore[union-attr]
            rows = evidence.state_weights(variables.tolist())
        else:
            rows = evidence.column(int(variables[0])).weights[None]
        shape = [1] * value.data.ndim
        shape[0], shape[axis] = len(rows), -1
        batch = tuple(rows.shape[1] if i == axis - 1 else 1 for i in range(len(value.batch)))
        return plain(as_like(rows.reshape(shape), value.data), batch)

    def _expand_normal(self, value: Value, axis: int, variable: int) -> Value:
        """Components mix into units; an observed value takes the unit's density there."""
        block: Any = self.circuit.input(variable)
        mixing = weights_of(block.weights)
        if self.evidence is None:
            return applied(value, mixing, axis)
        column = self.evidence.column(variable)
        n_components, seen = int(block.mean.shape[0]), self._seen(variable)
        every = np.arange(n_components + len(seen))
        parts = []
        if len(seen):
            log_density = block.log_density(seen)
            shape = [1] * value.data.ndim
            shape[axis] = -1
            batch = tuple(len(seen) if i == axis - 1 else 1 for i in range(len(value.batch)))
            log_density = namespace(log_density).reshape(log_density, tuple(shape))
            density = applied(from_log(log_density, batch), mixing, axis)
            at_points = np.repeat(every[n_components:], block.n_units)
            points = taken(value, axis, at_points, np.zeros(len(seen)))
            parts.append(times(points, density))
        if len(seen) < len(column.values):
            components = taken(value, axis, every[:n_components], [0])
            parts.append(applied(components, mixing, axis))
        result = parts[0] if len(parts) == 1 else joined(parts, axis)
        if self.operand.patterns.is_uniform:  # type: ignore[union-attr]
            rows = (column.codes[:, None] * block.n_units + np.arange(block.n_units)).ravel()
            result = taken(result, axis, rows, column.codes)
        return result


class PointSide:
    """A set of complete points: one unit per node, one pattern per distinct restricted point.

    Parameters
    ----------
    points : array of shape (points, columns)
    vtree : Vtree
    domains : sequence of int or None
        The cardinality of every variable, None for real ones.
    """

    max_rows: int | None = None

    def __init__(self, points: Any, vtree: Vtree, domains: Any):
        self.points, self.vtree, self.domains = points, vtree, domains
        self.columns = [self._column(variable) for variable in range(vtree.n_variables)]
        codes = [codes for _, codes in self.columns]
        found = patterns(vtree, codes, [len(values) for values, _ in self.columns])
        self.operand = point_operand(vtree).batched(found)

    def _column(self, variable: int) -> tuple[Any, Any]:
        """The distinct values of a variable, and which one every point has."""
        values, codes = np.unique(self.points[:, variable], return_inverse=True)
        return values, codes.reshape(-1)

    @property
    def n_rows(self) -> int:
        """The number of points."""
        return len(self.points)

    @property
    def root_rows(self) -> Any:
        """Where along the root's axis the value of every point is; None: point i is at i."""
        return self.operand.patterns.rows  # type: ignore[union-attr]

    def rows(self, chosen: slice) -> PointSide:
        """The side with some of its points."""
        return PointSide(self.points[chosen], self.vtree, self.domains)

    def atoms(self, variable: int) -> Atoms:
        """The atoms of a variable."""
        if self.domains[variable] is not None:
            return Atoms(self.domains[variable])
        values = self.columns[variable][0]
        return Atoms(None, values, np.zeros_like(values))

    def expand(self, value: Value, axis: int, nodes: Any, part: Part | None) -> Value:
        """From a value over atoms along an axis to one over the distinct values of the points."""
        variable = int(self.vtree.variable[nodes[0]])
        values = self.columns[variable][0]
        index = np.arange(len(values)) if self.domains[variable] is None else values
        return taken(value, axis, index, np.zeros(len(values)))


@lru_cache(maxsize=8)
def point_operand(vtree: Vtree) -> Operand:
    """The operand of one unit per node."""
    one = Inner(1, 1, None, None, None)
    inner = at_nodes(vtree, None, lambda _: one)
    return Operand(vtree, [1] * vtree.n_nodes, inner, [None] * vtree.n_nodes)


Side = CircuitSide | PointSide


def check_single_root(circuit: BlockCircuit, why: str) -> None:
    """Raise unless the circuit has one root."""
    if circuit.n_roots != 1:
        raise CircuitError(f"{why} needs a circuit with one root. Got {circuit.n_roots} roots.")
