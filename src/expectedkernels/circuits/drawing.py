"""Layouts and HTML of circuits and vtrees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from expectedkernels.checks import SizeError
from expectedkernels.circuits.circuit import Circuit
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
from expectedkernels.engine.blocks import at_nodes, from_leaves
from expectedkernels.vtree import Vtree

TIMES = "\N{MULTIPLICATION SIGN}"

Drawn = tuple[str, Any, Sequence[int], Any]
"""A unit: label, scope (None: an input), inputs, and their weights (None: a product)."""


def circuit_layout(circuit: Circuit) -> Layout:
    """The units of a circuit in layers, inputs at the bottom, in the order of their neighbours.

    Units have the colour of their scope; inputs are white. Sums of one product with weight one are
    not drawn.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> layout = circuit_layout(ek.factorized([[0.2, 0.8], [0.5, 0.5]]))
    >>> layout.labels, layout.edges.tolist()
    (['0', '1', '×'], [[2, 0], [2, 1]])
    """
    host, units = circuit.host, list[Drawn]()
    blocks: Any = host.blocks

    def added(unit: Drawn) -> int:
        units.append(unit)
        return len(units) - 1

    def leaf(node: int, variable: int) -> list[int]:
        labels = _input_labels(blocks[node], str(host.schema.name(variable)), variable, host)
        return [added((label, None, (), None)) for label in labels]

    def inner(node: int, left: list[int], right: list[int]) -> list[int]:
        block = blocks[node]
        pairs = zip(*(index.tolist() for index in block.inputs), strict=True)
        products = [added((TIMES, node, (left[a], right[b]), None)) for a, b in pairs]
        (data, starts), columns = block.flat, block.columns
        found = []
        for i in range(block.n_units):
            terms = slice(starts[i], starts[i + 1])
            below, weights = [products[j] for j in columns[terms].tolist()], data[terms]
            alone = len(below) == 1 and weights[0] == 1.0
            found.append(below[0] if alone else added(("+", node, below, weights)))
        return found

    from_leaves(host.vtree, leaf, inner)
    return _layout(units, repr(circuit))


def graph_layout(root: Unit) -> Layout:
    """The units of a graph in layers, inputs at the bottom, in the order of their neighbours.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> graph_layout(ek.Product([ek.Indicator(0, 1, 2), ek.Gaussian(1, 0.0, 1.0)])).labels
    ['0', '1', '×']
    """
    graph, units = Graph(root), list[Drawn]()
    for unit, mask, below in zip(graph.units, graph.masks, graph.inputs, strict=True):
        if isinstance(unit, Leaf):
            units.append((str(unit.variable), None, (), None))
        elif isinstance(unit, Sum):
            units.append(("+", mask, below, unit.weights))
        else:
            units.append((TIMES, mask, below, None))
    return _layout(units, repr(root))


def _layout(units: Sequence[Drawn], title: str) -> Layout:
    """Units in layers, those of a scope in one colour, with edges as wide as their weights."""
    edges = [(i, j) for i, (_, _, below, _) in enumerate(units) for j in below]
    height = depths(len(units), [(j, i) for i, j in edges])
    x, y = layered(height.max() - height, edges)
    colours: dict[Any, int] = {}
    fills = [
        WHITE if scope is None else pale(colours.setdefault(scope, len(colours)))
        for _, scope, _, _ in units
    ]
    widths = [
        np.full(len(below), 0.3) if w is None else w / (np.abs(w).max(initial=0.0) or 1.0)
        for _, _, below, w in units
    ]
    pairs = np.asarray(edges, dtype=np.intp).reshape(-1, 2)
    return Layout(x, y, [u[0] for u in units], fills, pairs, np.concatenate(widths), title=title)


def vtree_layout(
    vtree: Vtree, names: Sequence[str] | None = None, counts: Sequence[int] | None = None
) -> Layout:
    """The nodes of a vtree, with the names of variables at leaves, and counts at all of them.

    Examples
    --------
    >>> vtree_layout(Vtree.balanced(3), counts=[1, 2, 3, 4, 5]).labels
    ['0: 1', '1: 2', '2: 3', '4', '5']
    """
    labels = at_nodes(vtree, lambda _, v: str(v if names is None else names[v]), lambda _: "")
    if counts is not None:
        labels = [f"{a}: {n}" if a else str(n) for a, n in zip(labels, counts, strict=True)]
    title = f"Vtree of {vtree.n_variables} variables"
    return tree_layout(vtree.left.tolist(), vtree.right.tolist(), labels, title)


def summary_layout(circuit: Circuit) -> Layout:
    """The vtree of a circuit, with how many units there are at every node.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> summary_layout(ek.factorized([[0.2, 0.8], [0.5, 0.5]])).labels
    ['0: 1', '1: 1', '1']
    """
    counts = [block.n_units for block in circuit.blocks]
    return vtree_layout(circuit.vtree, circuit.names, counts)


def circuit_html(circuit: Circuit) -> str:
    """What notebooks show of a circuit: its variables and sizes, and its units if they are few.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> "<svg" in circuit_html(ek.factorized([[0.2, 0.8]]))
    True
    """
    n, names = circuit.n_variables, circuit.names
    called = "" if names is None else f": {', '.join(names[:12])}{', ...' if n > 12 else ''}"
    found: dict[str, Any] = {"variables": f"{n}{called}"}
    try:
        found |= {"units": circuit.n_units, "edges": circuit.n_edges}
    except SizeError:
        return overview(repr(circuit), found)
    found |= {"parameters": circuit.n_parameters, "roots": circuit.n_roots}
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


def _input_labels(block: Any, name: str, variable: int, circuit: Circuit) -> list[str]:
    """The name for every input unit; with the state, where there is only one that is possible."""
    labels = []
    states: Any = circuit.schema.labels(variable) or range(block.cardinality or 0)
    for row in block.numbers:
        possible = np.flatnonzero(row)
        alone = len(states) > 1 and len(possible) == 1
        labels.append(f"{name}={states[possible[0]]}" if alone else name)
    return labels
