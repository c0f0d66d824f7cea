"""From logical circuits and weights of edges to blocks, and back from counts to edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.circuits.inputs import Input, Table
from expectedkernels.engine.blocks import Inner
from expectedkernels.engine.nodes import at_nodes
from expectedkernels.learning.data import FloatArray, IntArray
from expectedkernels.learning.logical import Logical


@dataclass(frozen=True, eq=False)
class LeafPlan:
    """How the edges at a leaf become a table: the size, and the row and column of every edge."""

    edges: IntArray
    n_units: int
    n_indicators: int
    place: tuple[IntArray, IntArray]

    def block(self, weights: FloatArray, cardinality: int) -> Table:
        """The table of indicators and sums, given the weights of all edges."""
        table = np.zeros((self.n_units, cardinality))
        table[: self.n_indicators] = np.eye(self.n_indicators, cardinality)
        table[self.place] = weights[self.edges]
        return Table(table)

    def counts(self, found: Any) -> FloatArray:
        """Counts of entries of the table as counts of the edges."""
        return found[self.place]


@dataclass(frozen=True, eq=False)
class InnerPlan:
    """How the edges at an inner node become products, one each, and a row of weights per sum."""

    edges: IntArray
    starts: IntArray
    left: IntArray
    right: IntArray

    def block(self, weights: FloatArray, cardinality: int) -> Inner:
        """The products and sums, given the weights of all edges."""
        n, m = len(self.starts) - 1, len(self.edges)
        csr = sparse.csr_array((weights[self.edges], np.arange(m), self.starts), (n, m))
        return Inner(m, n, self.left, self.right, csr)

    def counts(self, found: Any) -> FloatArray:
        """Counts of stored weights as counts of the edges."""
        return found


Plan = list[LeafPlan | InnerPlan]


def plan(circuit: Logical) -> Plan:
    """How a logical circuit becomes blocks. Cost: linear in its size."""
    inputs, left, right = (np.asarray(x) for x in (circuit.input_of, circuit.left, circuit.right))
    number = np.full(len(circuit.node), -1)
    sums_at: dict[int, list[int]] = {}
    for unit in circuit.sums():
        sums_at.setdefault(circuit.node[unit], []).append(unit)

    def edges_at(node: int) -> tuple[list[int], IntArray, list[int]]:
        sums = sums_at.get(node, [])
        edges = np.asarray([e for unit in sums for e in circuit.edges[unit]], dtype=np.intp)
        return sums, edges, [len(circuit.edges[unit]) for unit in sums]

    def inner(node: int) -> InnerPlan:
        sums, edges, fan_in = edges_at(node)
        number[sums] = np.arange(len(sums))
        starts = np.concatenate([[0], np.cumsum(fan_in)])
        products = inputs[edges]
        return InnerPlan(edges, starts, number[left[products]], number[right[products]])

    def leaf(node: int, variable: int) -> LeafPlan:
        sums, edges, fan_in = edges_at(node)
        first = circuit.first[variable]
        # a leaf that is the root has no units but the circuit's own
        before = 0 if node == circuit.vtree.root else circuit.cardinalities[variable]
        number[first : first + before] = np.arange(before)
        number[sums] = np.arange(before, before + len(sums))
        row = before + np.repeat(np.arange(len(sums)), fan_in)
        return LeafPlan(edges, before + len(sums), before, (row, inputs[edges] - first))

    return at_nodes(circuit.vtree, leaf, inner)


def blocks_of(circuit: Logical, plans: Plan, weights: FloatArray) -> list[Input | Inner]:
    """The blocks of a logical circuit with weights of its edges, not minimised."""
    variables = circuit.vtree.variable.tolist()
    cards = circuit.cardinalities
    return [p.block(weights, cards[v]) for p, v in zip(plans, variables, strict=True)]
