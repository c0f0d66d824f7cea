"""Batches of conditionals as one circuit with many roots, with no more units than they need.

Given evidence, most units of a deterministic circuit are zero or cannot be reached, and units
that differ only in what is now known become equal. What is left, over all rows of a batch, is
often a small part of (rows x units).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from expectedkernels.circuits.base import BlockCircuit
from expectedkernels.circuits.conditioned import conditional_blocks, flat_edges, reached_edges
from expectedkernels.circuits.evidence import Evidence
from expectedkernels.circuits.sides import CircuitSide
from expectedkernels.engine.sweep import Operand

CHUNK_ROWS = 512
"""How many conditionals are worked on at once."""
KEPT_ROWS = 4 * CHUNK_ROWS
"""The parts of a side of at most so many rows are made once."""


class ConditionalsSide(CircuitSide):
    """A side of an expectation: the conditionals of a circuit, normalised."""

    max_rows = CHUNK_ROWS

    def __init__(self, circuit: BlockCircuit, evidence: Evidence):
        self.model, self.rows_of_evidence = circuit, evidence
        self._parts: dict[tuple[Any, Any, Any], ConditionalsSide] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return ConditionalsSide, (self.model, self.rows_of_evidence)

    @property
    def n_rows(self) -> int:
        """The number of rows of evidence."""
        return self.rows_of_evidence.n_rows

    def rows(self, chosen: slice) -> ConditionalsSide:
        """The side with some of its rows."""
        key = (chosen.start, chosen.stop, chosen.step)
        found = self._parts.get(key)
        if found is None:
            found = ConditionalsSide(self.model, self.rows_of_evidence.rows(chosen))
            if self.n_rows <= KEPT_ROWS:  # halves are asked for once per part of the other side
                self._parts[key] = found
        return found

    @cached_property
    def _built(self) -> tuple[BlockCircuit, Any]:
        return conditional_circuits(self.model, self.rows_of_evidence)

    @property
    def root_rows(self) -> Any:
        """The root of every row."""
        return self._built[1]

    @property
    def evidence(self) -> None:  # type: ignore[override]
        """Nothing is left to condition on."""
        return

    @property
    def circuit(self) -> BlockCircuit:  # type: ignore[override]
        """The circuit with one root per distinct conditional."""
        return self._built[0]

    @property
    def operand(self) -> Operand:  # type: ignore[override]
        """The circuit as one axis of a sweep."""
        return self._built[0].operand


def mean_reach(circuit: BlockCircuit, evidence: Evidence) -> Any:
    """The mean numbers of units, products and terms that a conditional needs, (3, nodes)."""
    flat, levels = flat_edges(circuit), circuit.levels
    reached = reached_edges(circuit, evidence)
    units, products = flat.units[reached.edges], flat.products[reached.edges]
    node = flat.nodes[units]
    distinct = [np.unique(reached.numbered(x), return_index=True)[1] for x in (units, products)]
    sizes = np.stack(
        [
            np.bincount(x, minlength=len(circuit.blocks)) / evidence.patterns(circuit.vtree).count
            for x in (*(node[which] for which in distinct), node)
        ]
    )
    sizes[1:, levels.levels[0].nodes] = 0.0
    for level in levels.levels[1:]:
        sizes[2, level.nodes[: level.n_passed_nodes]] = 0.0
    return sizes


def conditional_circuits(circuit: BlockCircuit, evidence: Evidence) -> tuple[BlockCircuit, Any]:
    """The conditionals given rows of evidence as roots of one circuit, and the root of every row.

    Every unit of the result sums to one. Real variables have a component for every observed value,
    after their own. Needs a non-negative circuit on the host, with one root, and evidence of
    positive probability. Cost: two passes over (rows x edges).
    """
    blocks, roots = conditional_blocks(circuit, reached_edges(circuit, evidence))
    return type(circuit)(circuit.vtree, blocks), roots
