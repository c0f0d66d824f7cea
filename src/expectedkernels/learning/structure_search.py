"""Structures of splits, and the splits that may come next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.inputs import Input, Table
from expectedkernels.engine.blocks import Inner, at_nodes
from expectedkernels.learning.chow_liu import ChowLiuTree
from expectedkernels.learning.training_data import FloatArray, IntArray
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


class SplitStructure:
    """A circuit without weights: indicators, products of two units, sums.

    Units are numbered from 0, the indicators of all states of all variables first. An edge leads
    from a sum to one of its inputs: a product, or an indicator.

    Attributes
    ----------
    node : list of int
        The vtree node of every unit.
    indicators : list of int
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
        self.node: list[int] = []
        self.indicators: list[int] = []
        self.left: list[int] = []
        self.right: list[int] = []
        self.edges: list[list[int]] = []
        self.users: list[set[int]] = []
        self.sum_of: list[int] = []
        self.input_of: list[int] = []
        self.root = -1
        self.first: list[int] = []
        self.states: list[int] = []
        for variable, cardinality in enumerate(self.cardinalities):
            self.first.append(len(self.node))
            self.states.append(((1 << cardinality) - 1) << len(self.node))
            leaf = vtree.leaf(variable)
            for _ in range(cardinality):
                self._unit(leaf, 1 << len(self.node))
        self.n_indicators = len(self.node)

    def sizes(self) -> tuple[int, int, int, int]:
        """The number of sums, of products, of sums of products, and of the inputs of these."""
        inputs = [len(self.edges[u]) for u in self.sums() if self._is_decision(u)]
        n_products = sum(x >= 0 and len(y) > 0 for x, y in zip(self.left, self.users, strict=True))
        return sum(map(bool, self.edges)), n_products, len(inputs), sum(inputs)

    def _is_decision(self, unit: int) -> bool:
        """Whether the inputs of a sum are products."""
        return self.left[self.input_of[self.edges[unit][0]]] >= 0

    def _unit(self, node: int, indicators: int) -> int:
        self.node.append(node)
        self.indicators.append(indicators)
        self.left.append(-1)
        self.right.append(-1)
        self.edges.append([])
        self.users.append(set())
        return len(self.node) - 1

    def add_product(self, node: int, left: int, right: int) -> int:
        """A new product."""
        unit = self._unit(node, self.indicators[left] | self.indicators[right])
        self.left[unit], self.right[unit] = left, right
        for below in (left, right):
            if below >= self.n_indicators:
                self.users[below].add(unit)
        return unit

    def add_sum(self, node: int, inputs: Sequence[int]) -> int:
        """A new sum."""
        indicators = 0
        for unit in inputs:
            indicators |= self.indicators[unit]
        new = self._unit(node, indicators)
        self.edges[new] = [self._edge(new, unit) for unit in inputs]
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
        n_variables = self.scope_size[self.node[unit]]
        return self.left[unit] >= 0 and self.indicators[unit].bit_count() > n_variables

    def splittable_variables(self, edge: int) -> IntArray:
        """The variables with at least two states left below an edge, in order."""
        indicators = self.indicators[self.input_of[edge]]
        return np.flatnonzero([(indicators & states).bit_count() > 1 for states in self.states])

    def sums(self) -> list[int]:
        """The sums that the circuit has."""
        return [unit for unit, edges in enumerate(self.edges) if edges]

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
            products = [u for u in below if (self.indicators[u] & states).bit_count() > 1]

    def present(self, unit: int, variable: int) -> list[int]:
        """The states of a variable that are left below a unit."""
        bits = (self.indicators[unit] & self.states[variable]) >> self.first[variable]
        return [state for state in range(self.cardinalities[variable]) if bits >> state & 1]

    def _product_copies(
        self, unit: int, node: int, variable: int, copies: dict[int, dict[int, int]]
    ) -> dict[int, int]:
        below, new, present = (self.left[unit], self.right[unit]), {}, self.present(unit, variable)
        for state in present[::-1] if self.cardinalities[variable] == 2 else present:
            pair = (copies[x][state] if x in copies else x for x in below)
            new[state] = self.add_product(node, *pair)
        return new

    def _sum_copies(
        self, unit: int, variable: int, copies: dict[int, dict[int, int]], level: Level
    ) -> dict[int, int]:
        """A sum restricted to every state of a variable, and where the flow of its edges goes."""
        first, cardinality = self.first[variable], self.cardinalities[variable]
        old = self.edges[unit]
        moved = [[NOTHING] * cardinality for _ in old]
        level.edges += old
        level.moved += moved
        if not self._is_decision(unit):
            return {state: first + state for state in self.present(unit, variable)}
        new = {}
        for state in self.present(unit, variable):
            kept, inputs = [], []
            for row, edge in enumerate(old):
                below = self.input_of[edge]
                if self.indicators[below] >> (first + state) & 1:
                    kept.append(row)
                    inputs.append(copies[below][state] if below in copies else below)
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
        others = [other for other in self.edges[top] if other != edge]
        self.edges[top] = [moved[state] for state in copies] + others
        return moved

    def _release(self, edge: int) -> list[int]:
        """Remove an edge, and all units that nothing depends on without it."""
        dead = [edge]
        for gone in dead:  # grows while units die
            unit = self.input_of[gone]
            waiting = [unit] if self._forget(unit, gone) else []
            while waiting:
                product = waiting.pop()
                for below in (self.left[product], self.right[product]):
                    if self._forget(below, product):
                        dead += self.edges[below]
                        self.edges[below] = []
        return dead

    def _forget(self, unit: int, user: int) -> bool:
        """Remove a user of a unit; whether it was the last one (indicators stay)."""
        if unit < self.n_indicators:
            return False
        self.users[unit].discard(user)
        return not self.users[unit]


def tree_circuit(tree: ChowLiuTree) -> tuple[SplitStructure, list[Any]]:
    """The logical circuit of a tree: at every node one sum per state of the parent variable.

    Also, for every vtree node, the edges of its sums, one row per state of the parent variable.
    """
    circuit = SplitStructure(tree.vtree, tree.cardinalities)
    vtree = tree.vtree
    units: list[list[int]] = []
    edges: list[Any] = []
    for node, v in enumerate(tree.top):
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
            groups = [pairs] * len(contexts) if tree.decides[node] else [[p] for p in pairs]
            each = ([circuit.add_product(node, *pair) for pair in group] for group in groups)
            units.append([circuit.add_sum(node, products) for products in each])
        edges.append(np.asarray([circuit.edges[unit] for unit in units[-1]], dtype=np.int32))
    circuit.root = units[-1][0]
    return circuit, edges


def best_edge(circuit: SplitStructure, edges: IntArray, flow: FloatArray) -> int | None:
    """The edge with the largest flow, of several the first in the circuit's order."""
    best = edges[flow == flow.max(initial=0.0)].tolist()
    return next(in_order(circuit, best) if len(best) > 1 else iter(best), None)


def in_order(circuit: SplitStructure, edges: Collection[int]) -> Iterator[int]:
    """Edges in the circuit's post-order: inputs before the units that use them, each unit once.

    Only what lies above the edges is visited, and of that only what comes before the edges that
    are needed.
    """
    wanted = set(edges)
    todo = list({circuit.sum_of[edge] for edge in wanted})
    above = set(todo)
    for unit in todo:  # grows up to the root
        users = circuit.users[unit]
        if circuit.left[unit] >= 0:
            users = {circuit.sum_of[edge] for edge in users}
        todo += users - above
        above |= users
    stack: list[tuple[int, Iterator[int]]] = [(circuit.root, _inputs(circuit, circuit.root))]
    while stack:
        unit, waiting = stack[-1]
        for below in waiting:
            if below in above:
                above.discard(below)  # visited
                stack.append((below, _inputs(circuit, below)))
                break
        else:
            stack.pop()
            if circuit.left[unit] < 0:
                yield from (edge for edge in circuit.edges[unit] if edge in wanted)


def _inputs(circuit: SplitStructure, unit: int) -> Iterator[int]:
    """The inputs of a unit, in order."""
    if circuit.left[unit] >= 0:
        return iter((circuit.left[unit], circuit.right[unit]))
    return iter([circuit.input_of[edge] for edge in circuit.edges[unit]])


class NodePlan(NamedTuple):
    """How the edges at a vtree node become a block, given their weights."""

    edges: IntArray
    place: Any  # where the weights of edges are among the numbers of the block
    block: Callable[[FloatArray], Input | Inner]


def plan(circuit: SplitStructure) -> list[NodePlan]:
    """How a logical circuit becomes blocks. Cost: linear in its size."""
    inputs, left, right = (np.asarray(x) for x in (circuit.input_of, circuit.left, circuit.right))
    number = np.full(len(circuit.node), -1)
    sums_at: dict[int, list[int]] = {}
    for unit in circuit.sums():
        sums_at.setdefault(circuit.node[unit], []).append(unit)

    def edges_at(node: int, first: int) -> tuple[IntArray, list[int]]:
        """The edges of the sums, which are numbered from a first one, and how many each has."""
        sums = sums_at.get(node, [])
        number[sums] = np.arange(first, first + len(sums))
        edges = np.asarray([e for unit in sums for e in circuit.edges[unit]], dtype=np.intp)
        return edges, [len(circuit.edges[unit]) for unit in sums]

    def inner(node: int) -> NodePlan:
        edges, fan_in = edges_at(node, 0)
        starts, every = np.concatenate([[0], np.cumsum(fan_in)]), np.arange(len(edges))
        pair = number[left[inputs[edges]]], number[right[inputs[edges]]]
        shape = len(fan_in), len(edges)

        def block(weights: FloatArray) -> Inner:
            return Inner(*shape[::-1], *pair, sparse.csr_array((weights, every, starts), shape))

        return NodePlan(edges, slice(None), block)

    def leaf(node: int, variable: int) -> NodePlan:
        first, cardinality = circuit.first[variable], circuit.cardinalities[variable]
        # a leaf that is the root has no units but the circuit's own
        before = 0 if node == circuit.vtree.root else cardinality
        number[first : first + before] = np.arange(before)
        edges, fan_in = edges_at(node, before)
        place = before + np.repeat(np.arange(len(fan_in)), fan_in), inputs[edges] - first

        def block(weights: FloatArray) -> Table:
            table = np.eye(before + len(fan_in), cardinality)
            table[before:] = 0.0
            table[place] = weights
            return Table(table)

        return NodePlan(edges, place, block)

    return at_nodes(circuit.vtree, leaf, inner)


def weighted_circuit(
    circuit: SplitStructure, plans: list[NodePlan], weights: FloatArray
) -> Circuit:
    """The circuit with weights of its edges, not minimised: every edge keeps its place."""
    return Circuit(circuit.vtree, tuple(part.block(weights[part.edges]) for part in plans))
