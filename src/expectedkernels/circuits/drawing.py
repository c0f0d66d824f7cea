"""Layouts and HTML of circuits and vtrees."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np

from expectedkernels.checks import SizeError
from expectedkernels.circuits.block_circuit import BlockCircuit
from expectedkernels.circuits.graph import Graph, Leaf, Sum, Unit
from expectedkernels.display import (
    FEW,
    WHITE,
    Layout,
    depths,
    layered,
    overview,
    pale,
    svg,
    tree_layout,
)
from expectedkernels.engine.blocks import at_nodes, from_leaves, from_root
from expectedkernels.vtree import Vtree

WIDEST = 3.0
"""How far units of a node are apart at most."""
TIMES = "\N{MULTIPLICATION SIGN}"


def circuit_layout(circuit: BlockCircuit) -> Layout:
    """The units of a circuit: sums above the products they are made of, below them their inputs.

    Units lie above the variables of their scope, and have its colour; inputs are white. Sums of
    one product with weight one are not drawn.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> layout = circuit_layout(ek.factorized([[0.2, 0.8], [0.5, 0.5]]))
    >>> layout.labels, layout.edges.tolist()
    (['0', '1', '×'], [[2, 0], [2, 1]])
    """
    host, paper = circuit.host, _Paper()
    blocks: Any = host.blocks
    names = _names(host.vtree, host.names)
    places = _places(host.vtree, blocks)
    depth, fills = host.vtree.depth.tolist(), map(pale, count())

    def leaf(node: int, variable: int) -> list[int]:
        labels = _input_labels(blocks[node], names[variable], host.schema.labels(variable))
        return [
            paper.node(x, -2.0 * depth[node], label, WHITE)
            for x, label in zip(_within(places[node], len(labels)), labels, strict=True)
        ]

    def inner(node: int, left: list[int], right: list[int]) -> list[int]:
        block, fill = blocks[node], next(fills)
        products = []
        across = _within(places[node], block.n_products)
        for x, a, b in zip(across, *(i.tolist() for i in block.inputs), strict=True):
            product = paper.node(x, -2.0 * depth[node] - 1.0, TIMES, fill)
            paper.connect(product, [left[a], right[b]], [0.3, 0.3])
            products.append(product)
        return _sums(paper, block, products, places[node], -2.0 * depth[node], fill)

    from_leaves(host.vtree, leaf, inner)
    return paper.layout(title=repr(circuit))


def _sums(
    paper: _Paper, block: Any, products: list[int], place: Any, y: float, fill: str
) -> list[int]:
    """The nodes of the units of an inner block."""
    data, starts = block.flat
    units = []
    for i, x in enumerate(_within(place, block.n_units)):
        terms = slice(starts[i], starts[i + 1])
        below = [products[j] for j in block.columns[terms].tolist()]
        weights = data[terms]
        if len(below) == 1 and weights[0] == 1.0:
            units.append(below[0])
            continue
        units.append(paper.node(x, y, "+", fill))
        largest = float(np.abs(weights).max(initial=0.0)) or 1.0
        paper.connect(units[-1], below, (weights / largest).tolist())
    return units


def graph_layout(root: Unit) -> Layout:
    """The units of a graph in layers, inputs at the bottom, in the order of their neighbours.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> graph_layout(ek.Product([ek.Indicator(0, 1, 2), ek.Gaussian(1, 0.0, 1.0)])).labels
    ['0', '1', '×']
    """
    graph, paper = Graph(root), _Paper()
    edges = [(i, j) for i, below in enumerate(graph.inputs) for j in below]
    height = depths(len(graph.units), [(j, i) for i, j in edges])
    x, y = layered(height.max() - height, edges)
    colours: dict[int, int] = {}
    for unit, mask, across, up in zip(graph.units, graph.masks, x, y, strict=True):
        if isinstance(unit, Leaf):
            paper.node(across, up, str(unit.variable), WHITE)
        else:
            fill = pale(colours.setdefault(mask, len(colours)))
            paper.node(across, up, "+" if isinstance(unit, Sum) else TIMES, fill)
    for i, (unit, below) in enumerate(zip(graph.units, graph.inputs, strict=True)):
        if isinstance(unit, Sum):
            largest = float(np.abs(unit.weights).max()) or 1.0
            paper.connect(i, below, (unit.weights / largest).tolist())
        else:
            paper.connect(i, below, [0.3] * len(below))
    return paper.layout(title=repr(root))


def vtree_layout(
    vtree: Vtree, names: Sequence[str] | None = None, counts: Sequence[int] | None = None
) -> Layout:
    """The nodes of a vtree, with the names of variables at leaves, and counts at all of them.

    Examples
    --------
    >>> vtree_layout(Vtree.balanced(3), counts=[1, 2, 3, 4, 5]).labels
    ['0: 1', '1: 2', '2: 3', '4', '5']
    """
    called = _names(vtree, names)
    labels = at_nodes(vtree, lambda node, v: called[v], lambda node: "")
    if counts is not None:
        labels = [f"{a}: {n}" if a else str(n) for a, n in zip(labels, counts, strict=True)]
    title = f"Vtree of {vtree.n_variables} variables"
    return tree_layout(vtree.left.tolist(), vtree.right.tolist(), labels, title)


def summary_layout(circuit: BlockCircuit) -> Layout:
    """The vtree of a circuit, with how many units there are at every node.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> summary_layout(ek.factorized([[0.2, 0.8], [0.5, 0.5]])).labels
    ['0: 1', '1: 1', '1']
    """
    counts = [block.n_units for block in circuit.blocks]
    return vtree_layout(circuit.vtree, circuit.names, counts)


def circuit_html(circuit: BlockCircuit) -> str:
    """What notebooks show of a circuit: its variables and sizes, and its units if they are few.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> "<svg" in circuit_html(ek.factorized([[0.2, 0.8]]))
    True
    """
    try:
        sizes = {"units": circuit.n_units, "edges": circuit.n_edges}
    except SizeError:
        return overview(repr(circuit), {"variables": _listed(circuit.n_variables, circuit.names)})
    found = {
        "variables": _listed(circuit.n_variables, circuit.names),
        **sizes,
        "parameters": circuit.n_parameters,
        "roots": circuit.n_roots,
    }
    few = circuit.n_units <= FEW
    return overview("Circuit", found, svg(circuit_layout(circuit)) if few else "")


def unit_html(root: Unit) -> str:
    """What notebooks show of a graph of units, likewise.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> "<svg" in unit_html(ek.Indicator(0, 1, 2))
    True
    """
    graph = Graph(root)
    found = {"units": len(graph.units), "edges": sum(map(len, graph.inputs))}
    few = len(graph.units) <= FEW
    return overview(repr(root), found, svg(graph_layout(root)) if few else "")


def _listed(n: int, names: Sequence[str] | None) -> str:
    """How many variables there are, and what the first of them are called."""
    if names is None:
        return str(n)
    return f"{n}: {', '.join(map(str, names[:12]))}{', ...' if n > 12 else ''}"


class _Paper:
    """Where nodes and edges are collected."""

    def __init__(self) -> None:
        self.places: list[tuple[float, float]] = []
        self.labels: list[str] = []
        self.fills: list[str] = []
        self.edges: list[tuple[int, int]] = []
        self.weights: list[float] = []

    def node(self, x: float, y: float, label: str, fill: str) -> int:
        """The number of a new node."""
        self.places.append((x, y))
        self.labels.append(label)
        self.fills.append(fill)
        return len(self.labels) - 1

    def connect(self, upper: int, below: Sequence[int], weights: Sequence[float]) -> None:
        """Draw edges from a node to those below it."""
        self.edges += [(upper, lower) for lower in below]
        self.weights += weights

    def layout(self, title: str) -> Layout:
        """What was collected."""
        x, y = np.asarray(self.places, dtype=np.float64).T
        edges = np.asarray(self.edges, dtype=np.intp).reshape(-1, 2)
        weights = np.asarray(self.weights, dtype=np.float64)
        return Layout(x, y, self.labels, self.fills, edges, weights, title=title)


def _places(vtree: Vtree, blocks: Any) -> list[tuple[float, float]]:
    """Where the units of every node begin and end: above those of its children."""
    widths = from_leaves(
        vtree,
        lambda node, _: float(blocks[node].n_units),
        lambda node, left, right: max(left + right, blocks[node].n_units, blocks[node].n_products),
    )

    def inner(node: int, given: tuple[float, float]) -> Any:
        start, stop = given
        left, right = widths[vtree.left[node]], widths[vtree.right[node]]
        middle = start + (stop - start) * left / (left + right)
        return given, (start, middle), (middle, stop)

    return from_root(vtree, (0.0, 1.4 * widths[-1]), lambda node, _, given: given, inner)


def _within(place: tuple[float, float], n: int) -> list[float]:
    """The places of n units in the middle between two ends, not too far apart."""
    start, stop = place
    gap = min((stop - start) / n, WIDEST)
    return [(start + stop) / 2 + gap * (i - (n - 1) / 2) for i in range(n)]


def _names(vtree: Vtree, names: Sequence[str] | None) -> Any:
    """What variables are called, by their numbers."""
    return {v: str(v) if names is None else str(names[v]) for v in vtree.scope().tolist()}


def _input_labels(block: Any, name: str, states: Any) -> list[str]:
    """The name for every input unit; with the state, where there is only one that is possible."""
    labels = []
    for row in block.numbers:
        possible = np.flatnonzero(row)
        alone = block.cardinality is not None and block.cardinality > 1 and len(possible) == 1
        state = "" if not alone else int(possible[0]) if states is None else states[possible[0]]
        labels.append(f"{name}={state}" if alone else name)
    return labels
