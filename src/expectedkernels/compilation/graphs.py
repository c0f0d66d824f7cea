"""Circuits, vtrees and graphical models as graphs of networkx."""

from __future__ import annotations

from typing import Any

import numpy as np

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.graph import Graph
from expectedkernels.circuits.units import Unit
from expectedkernels.compilation.bayesian import BayesianNetwork
from expectedkernels.compilation.factors import FactorGraph
from expectedkernels.compilation.layers import imported
from expectedkernels.engine.nodes import from_leaves
from expectedkernels.errors import CircuitError
from expectedkernels.vtree import Vtree

PARAMETERS = ("probs", "mean", "variance")
"""What input units of the families have, or a part of it."""


def to_networkx(model: Circuit | Unit | Vtree | FactorGraph) -> Any:
    """The graph of a circuit, a vtree or a graphical model, to be drawn or searched by networkx.

    Parameters
    ----------
    model : Circuit, Unit, Vtree, FactorGraph or BayesianNetwork

    Returns
    -------
    networkx's DiGraph, or Graph of a FactorGraph
        Of a circuit: the units, numbered with inputs first and the root last, with a ``kind`` of
        "sum", "product" or "input", and edges to their inputs, those of sums with a ``weight``.
        Inputs have their ``variable`` and parameters. Of a vtree: its nodes, those at leaves with
        a ``variable``, and edges to their children with a ``side``. Of a Bayesian network: the
        variables by name or number with their ``cardinality`` and ``table``, edges from parents.
        Of a factor graph: variables and, as pairs ("factor", number), factors with a ``table``,
        told apart by ``bipartite`` (0 and 1).

    Raises
    ------
    CircuitError
        If it is none of these, or networkx is not installed.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> graph = to_networkx(ek.asia())
    >>> sorted(graph.predecessors("either"))
    ['lung', 'tub']
    >>> units = to_networkx(ek.factorized([[0.2, 0.8], [0.5, 0.5]]))
    >>> [kind for _, kind in units.nodes(data="kind")], list(units.edges)
    (['input', 'input', 'product'], [(2, 0), (2, 1)])
    """
    networkx = imported("networkx", "networkx")
    if isinstance(model, Vtree):
        return _vtree(model, networkx.DiGraph())
    if isinstance(model, Circuit):
        return _circuit(model.to("numpy"), networkx.DiGraph())
    if isinstance(model, Unit):
        return _units(model, networkx.DiGraph())
    if isinstance(model, BayesianNetwork):
        return _network(model, networkx.DiGraph())
    if isinstance(model, FactorGraph):
        return _factors(model, networkx.Graph())
    raise CircuitError(
        "Graphs are made of Circuits, units, Vtrees, FactorGraphs and BayesianNetworks. "
        f"Got {type(model).__name__} instead."
    )


def _vtree(vtree: Vtree, graph: Any) -> Any:
    def leaf(node: int, variable: int) -> int:
        graph.add_node(node, variable=variable)
        return node

    def inner(node: int, left: int, right: int) -> int:
        graph.add_edge(node, left, side="left")
        graph.add_edge(node, right, side="right")
        return node

    from_leaves(vtree, leaf, inner)
    return graph


def _units(root: Unit, graph: Any) -> Any:
    found = Graph(root)
    for i, unit in enumerate(found.units):
        facts = {name: getattr(unit, name) for name in PARAMETERS if hasattr(unit, name)}
        if unit.kind == "input":
            facts["variable"] = unit.variable  # type: ignore[attr-defined]
        graph.add_node(i, kind=unit.kind, **facts)
        for j, below in enumerate(found.inputs[i]):
            more = {"weight": float(unit.weights[j])} if unit.kind == "sum" else {}  # type: ignore[attr-defined]
            graph.add_edge(i, below, **more)
    return graph


def _circuit(circuit: Circuit, graph: Any) -> Any:
    """The units of a circuit; sums that only pass a product on are left out."""
    blocks: Any = circuit.blocks
    called: Any = circuit.names or range(circuit.n_variables)

    def add(kind: str, inputs: Any, weights: Any = None, **facts: Any) -> int:
        number = len(graph)
        graph.add_node(number, kind=kind, **facts)
        for i, below in enumerate(inputs):
            graph.add_edge(
                number, int(below), **({} if weights is None else {"weight": weights[i]})
            )
        return number

    def leaf(node: int, variable: int) -> Any:
        block, name = blocks[node], called[variable]
        if block.cardinality is not None:
            return np.array([add("input", (), variable=name, probs=row) for row in block.numbers])
        shared = {"mean": block.mean, "variance": block.variance, "half": block.halves}
        return np.array(
            [add("input", (), variable=name, weights=row, **shared) for row in block.numbers]
        )

    def inner(node: int, left: Any, right: Any) -> Any:
        block = blocks[node]
        a, b = block.inputs
        made = np.array([add("product", pair) for pair in zip(left[a], right[b], strict=True)])
        csr, units = block.csr, []
        for start, stop in zip(csr.indptr[:-1], csr.indptr[1:], strict=True):
            below, weights = made[csr.indices[start:stop]], csr.data[start:stop].tolist()
            units.append(int(below[0]) if weights == [1.0] else add("sum", below, weights))
        return np.array(units)

    from_leaves(circuit.vtree, leaf, inner)
    return graph


def _named(model: FactorGraph) -> list[Any]:
    return list(model.names or range(model.n_variables))


def _network(network: BayesianNetwork, graph: Any) -> Any:
    names = _named(network)
    for v, table in enumerate(network.cpts):
        graph.add_node(names[v], cardinality=network.cardinalities[v], table=np.asarray(table))
    for v, above in enumerate(network.parents):
        graph.add_edges_from((names[parent], names[v]) for parent in above)
    return graph


def _factors(model: FactorGraph, graph: Any) -> Any:
    names = _named(model)
    for name, cardinality in zip(names, model.cardinalities, strict=True):
        graph.add_node(name, cardinality=cardinality, bipartite=0)
    for i, factor in enumerate(model.factors):
        graph.add_node(("factor", i), table=np.asarray(factor.table), bipartite=1)
        graph.add_edges_from((("factor", i), names[v]) for v in factor.scope)
    return graph
