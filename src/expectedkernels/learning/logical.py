"""Logical circuits: the supports of a deterministic circuit's units, and how to split them.

Structure search changes one circuit again and again, so this one is mutable: units and edges are
numbers into lists, and a split touches only what it changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from expectedkernels.learning.chow_liu import ChowLiuTree
from expectedkernels.learning.data import IntArray
from expectedkernels.vtree import Vtree

NOTHING = -1
"""The edge of a variable whose value is already fixed: no sum is left there."""


@dataclass
class Level:
    """What a split does to the edges at one vtree node."""

    node: int
    edges: list[int] = field(default_factory=list)  # edges some of whose flow moves elsewhere
    # for every such edge and state of the split variable the edge its flow moves to
    moved: list[list[int]] = field(default_factory=list)


@dataclass
class Split:
    """What a split changed."""

    node: int  # the vtree node of the edge that was split
    variable: int
    levels: list[Level]  # from the edge that was split down to the variable's leaf
    sums: list[int]  # new sums, and sums whose flow or inputs changed
    dead: list[int]  # edges that are gone


class Logical:
    """A circuit without weights: indicators, products of two units, sums.

    Units are numbered from 0, the indicators of all states of all variables first. An edge leads
    from a sum to one of its inputs: a product, or an indicator.

    Attributes
    ----------
    node : list of int
        The vtree node of every unit.
    seen : list of int
        For every unit the indicators below it, as the bits of an int.
    left, right : lists of int
        The inputs of products, -1 for other units.
    edges : list of lists of int
        The edges of sums in their order, empty for other units.
    users : list of sets of int
        The products that take a sum; the edges that lead to a product.
    sum_of, input_of : lists of int
        Where every edge starts and ends.
    root : int
    """

    def __init__(self, vtree: Vtree, cardinalities: Sequence[int]):
        self.vtree = vtree
        self.cardinalities = list(cardinalities)
        self.scope_size = ((vtree.n_below + 1) // 2).tolist()
        self.depth = vtree.depth.tolist()
        self.node: list[int] = []
        self.seen: list[int] = []
        self.left: list[int] = []
        self.right: list[int] = []
        self.edges: list[list[int]] = []
        self.users: list[set[int]] = []
        self.sum_of: list[int] = []
        self.input_of: list[int] = []
        self.root = -1
        self.n_sums = self.n_products = self.n_decisions = self.n_elements = 0
        self.first: list[int] = []
        self.states: list[int] = []
        for variable, cardinality in enumerate(self.cardinalities):
            self.first.append(len(self.node))
            self.states.append(((1 << cardinality) - 1) << len(self.node))
            leaf = vtree.leaf(variable)
            for _ in range(cardinality):
                self._unit(leaf, 1 << len(self.node))
        self.n_indicators = len(self.node)

    @property
    def n_units(self) -> int:
        """The number of sums, products and indicators."""
        return self.n_sums + self.n_products + self.n_indicators

    def _unit(self, node: int, seen: int) -> int:
        self.node.append(node)
        self.seen.append(seen)
        self.left.append(-1)
        self.right.append(-1)
        self.edges.append([])
        self.users.append(set())
        return len(self.node) - 1

    def add_product(self, node: int, left: int, right: int) -> int:
        """A new product."""
        unit = self._unit(node, self.seen[left] | self.seen[right])
        self.left[unit], self.right[unit] = left, right
        for below in (left, right):
            if below >= self.n_indicators:
                self.users[below].add(unit)
        self.n_products += 1
        return unit

    def add_sum(self, node: int, inputs: Sequence[int]) -> int:
        """A new sum."""
        seen = 0
        for unit in inputs:
            seen |= self.seen[unit]
        new = self._unit(node, seen)
        self.edges[new] = [self._edge(new, unit) for unit in inputs]
        self.n_sums += 1
        if self.left[inputs[0]] >= 0:
            self.n_decisions += 1
            self.n_elements += len(inputs)
        return new

    def _edge(self, start: int, end: int) -> int:
        edge = len(self.sum_of)
        self.sum_of.append(start)
        self.input_of.append(end)
        if end >= self.n_indicators:
            self.users[end].add(edge)
        return edge

    def is_splittable(self, edge: int) -> bool:
        """Whether the edge leads to a product under which some variable has two states left."""
        unit = self.input_of[edge]
        return (
            self.left[unit] >= 0 and self.seen[unit].bit_count() > self.scope_size[self.node[unit]]
        )

    def splittable_variables(self, edge: int) -> IntArray:
        """The variables with at least two states left below an edge, in order."""
        seen = self.seen[self.input_of[edge]]
        n = self.n_indicators
        packed = np.frombuffer(seen.to_bytes((n + 7) // 8, "little"), dtype=np.uint8)
        flags = np.unpackbits(packed, bitorder="little")[:n].astype(np.intp)
        return np.flatnonzero(np.add.reduceat(flags, self.first) > 1)

    def sums(self) -> Iterator[int]:
        """The sums that the circuit has."""
        for unit, edges in enumerate(self.edges):
            if edges:
                yield unit

    def split(self, edge: int, variable: int) -> Split:
        """Replace an edge from a sum to a product by one edge for every state of a variable.

        The product is copied for every state that is left below it; copies share what does not
        depend on the variable. What the sum stands for stays the same.
        """
        top, product = self.sum_of[edge], self.input_of[edge]
        path = self._dependents(product, variable)
        copies: dict[int, dict[int, int]] = {}
        levels: list[Level] = []
        sums: list[int] = [top]
        for node, above, products in reversed(path):
            for unit in products:
                copies[unit] = self._product_copies(unit, node, variable, copies)
            level = Level(node)
            for unit in above:
                copies[unit] = self._sum_copies(unit, variable, copies, level)
                sums.append(unit)
                sums += [new for new in copies[unit].values() if new >= self.n_indicators]
            levels.append(level)
        levels[-1].edges.append(edge)
        levels[-1].moved.append(self._replace(edge, variable, copies[product]))
        dead = self._release(edge)
        alive = [unit for unit in sums if self.edges[unit]]
        return Split(self.node[product], variable, levels[::-1], alive, dead)

    def _dependents(self, product: int, variable: int) -> list[tuple[int, list[int], list[int]]]:
        """The units below a product with several states of a variable left, level by level.

        Lists of (vtree node, sums, products), from the product down to the variable's leaf.
        """
        states, leaf = self.states[variable], self.vtree.leaf(variable)
        levels: list[tuple[int, list[int], list[int]]] = []
        node, products = self.node[product], [product]
        sums: list[int] = []
        while True:
            levels.append((node, sums, products))
            if not products:
                return levels
            on_left = self.vtree.is_descendant(leaf, int(self.vtree.left[node]))
            inputs = self.left if on_left else self.right
            node = int((self.vtree.left if on_left else self.vtree.right)[node])
            sums = list(dict.fromkeys(inputs[unit] for unit in products))
            below = dict.fromkeys(self.input_of[edge] for unit in sums for edge in self.edges[unit])
            products = [u for u in below if (self.seen[u] & states).bit_count() > 1]

    def _present(self, unit: int, variable: int) -> list[int]:
        """The states of a variable that are left below a unit."""
        bits = (self.seen[unit] & self.states[variable]) >> self.first[variable]
        return [state for state in range(self.cardinalities[variable]) if bits >> state & 1]

    def _product_copies(
        self, unit: int, node: int, variable: int, copies: dict[int, dict[int, int]]
    ) -> dict[int, int]:
        left, right = self.left[unit], self.right[unit]
        new = {}
        for state in self._order(unit, variable):
            if left in copies:
                new[state] = self.add_product(node, copies[left][state], right)
            else:
                new[state] = self.add_product(node, left, copies[right][state])
        return new

    def _order(self, unit: int, variable: int) -> list[int]:
        """The states left below a unit, in the order in which splits put them."""
        present = self._present(unit, variable)
        return present[::-1] if self.cardinalities[variable] == 2 else present

    def _sum_copies(
        self, unit: int, variable: int, copies: dict[int, dict[int, int]], level: Level
    ) -> dict[int, int]:
        """A sum restricted to every state of a variable, and where the flow of its edges goes."""
        first, cardinality = self.first[variable], self.cardinalities[variable]
        old = self.edges[unit]
        moved = [[NOTHING] * cardinality for _ in old]
        level.edges += old
        level.moved += moved
        if self.left[self.input_of[old[0]]] < 0:
            return {state: first + state for state in self._present(unit, variable)}
        new = {}
        for state in self._present(unit, variable):
            kept, inputs = [], []
            for row, edge in enumerate(old):
                below = self.input_of[edge]
                if below in copies:
                    if state in copies[below]:
                        kept.append(row)
                        inputs.append(copies[below][state])
                elif self.seen[below] >> (first + state) & 1:
                    kept.append(row)
                    inputs.append(below)
            new[state] = self.add_sum(self.node[unit], inputs)
            for row, edge in zip(kept, self.edges[new[state]], strict=True):
                moved[row][state] = edge
        return new

    def _replace(self, edge: int, variable: int, copies: dict[int, int]) -> list[int]:
        """Put the copies of a product in front of a sum's other inputs, and forget the product."""
        top = self.sum_of[edge]
        moved = [NOTHING] * self.cardinalities[variable]
        for state, unit in copies.items():
            moved[state] = self._edge(top, unit)
        self.edges[top] = [moved[state] for state in copies] + [
            other for other in self.edges[top] if other != edge
        ]
        self.n_elements += len(copies) - 1
        return moved

    def _release(self, edge: int) -> list[int]:
        """Remove an edge, and all units that nothing depends on without it."""
        dead = [edge]
        for gone in dead:  # grows while units die
            unit = self.input_of[gone]
            waiting = [unit] if self._forget(unit, gone) else []
            while waiting:
                product = waiting.pop()
                self.n_products -= 1
                for below in (self.left[product], self.right[product]):
                    if self._forget(below, product):
                        self.n_sums -= 1
                        if self.left[self.input_of[self.edges[below][0]]] >= 0:
                            self.n_decisions -= 1
                            self.n_elements -= len(self.edges[below])
                        dead += self.edges[below]
                        self.edges[below] = []
        return dead

    def _forget(self, unit: int, user: int) -> bool:
        """Remove a user of a unit; whether it was the last one (indicators stay)."""
        if unit < self.n_indicators:
            return False
        self.users[unit].discard(user)
        return not self.users[unit]


@dataclass
class TreeCircuit:
    """The logical circuit of a tree, and its edges."""

    circuit: Logical
    # for every vtree node the edges of its sums, one row per state of the parent variable
    edges: list[Any]


def tree_circuit(tree: ChowLiuTree) -> TreeCircuit:
    """The logical circuit of a tree: at every node one sum per state of the parent variable."""
    circuit = Logical(tree.vtree, tree.cardinalities)
    vtree = tree.vtree
    units: list[list[int]] = []
    edges: list[Any] = []
    for node, v in enumerate(tree.layout.top):
        states = range(circuit.first[v], circuit.first[v] + tree.cardinalities[v])
        contexts = range(tree.contexts(v))
        if vtree.is_leaf(node):
            if tree.forest.children[v]:
                units.append(list(states))
                edges.append(None)
                continue
            units.append([circuit.add_sum(node, states) for _ in contexts])
        else:
            left, right = units[int(vtree.left[node])], units[int(vtree.right[node])]
            pairs = list(zip(left, right, strict=True))
            groups = [pairs] * len(contexts) if tree.layout.decides[node] else [[p] for p in pairs]
            units.append(
                [
                    circuit.add_sum(node, [circuit.add_product(node, *pair) for pair in group])
                    for group in groups
                ]
            )
        edges.append(np.asarray([circuit.edges[unit] for unit in units[-1]], dtype=np.int32))
    circuit.root = units[-1][0]
    return TreeCircuit(circuit, edges)
