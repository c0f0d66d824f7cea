"""From the root down: drawn and most probable states, by passes over layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from expectedkernels.arrays import as_like, namespace, spans, to_numpy
from expectedkernels.engine.blocks import runs
from expectedkernels.engine.layers import Edges, Layer, Layers
from expectedkernels.engine.operations import segment_sums

LONG = 12
"""From so many edges a unit, all of them are looked at together."""
CHOICE_BYTES = 2**28
"""How much memory the edges of all chosen units of a layer may take, about."""

Scores = Callable[[Any, Any], Any]
"""From places in a list of units, and an edge of each, to scores."""


@dataclass(frozen=True, eq=False)
class Descent:
    """Units of one layer, one of whose edges each is to be chosen.

    Attributes
    ----------
    number : int
        The number of the layer.
    layer : Layer
    edges : Edges
        All edges of the layer.
    nodes : int array
        The vtree nodes, without those that have no weights.
    units : int array of shape (nodes, rows)
        Their units, counted within the layer.
    rows : slice
        Which rows these are.
    """

    number: int
    layer: Layer
    edges: Edges
    nodes: Any
    units: Any
    rows: slice

    @property
    def flat(self) -> Any:
        """The units of all nodes, one after the other."""
        return self.units.reshape(-1)


def descend(layers: Layers, n: int, choose: Callable[[Descent], Any]) -> Any:
    """The chosen atom of every leaf (in the order of the lowest layer) and row, (leaves, n).

    `choose` gives the chosen edge of every (node, row), one node after the other.
    """
    widest = max(len(layer.nodes) * layer.all_edges.longest for layer in layers.on_cpu.layers)
    parts = spans(n, max(1, CHOICE_BYTES // (48 * widest)))
    found = [_descend(layers, rows, choose) for rows in parts]
    return found[0] if len(found) == 1 else np.concatenate(found, axis=1)


def _descend(layers: Layers, rows: slice, choose: Callable[[Descent], Any]) -> Any:
    """The same for some rows."""
    vtree = layers.vtree
    at = as_like(np.zeros((vtree.n_nodes, rows.stop - rows.start), dtype=np.intp), layers.like)
    at[-1] = layers.roots.start
    products: Any = None
    for number in range(len(layers.layers) - 1, -1, -1):
        layer = layers.layers[number]
        products = at[layer.nodes] - layer.start
        free = layer.n_passed_nodes
        if free < len(layer.nodes):
            edges, units = layers.all_edges(number), products[free:]
            descent = Descent(number, layer, edges, layer.nodes[free:], units, rows)
            products[free:] = edges.products[choose(descent)].reshape(units.shape)
        if layer.inputs is not None:
            for inputs, children in zip(layer.inputs, (vtree.left, vtree.right), strict=True):
                at[children[layer.nodes]] = inputs[products]
    return to_numpy(products)


def _runs(edges: Edges, units: Any) -> tuple[Any, Any, Any, Any]:
    """The edges of units end to end: where each unit's begin and end, the unit's place, edges."""
    first = edges.starts[units]
    sizes = edges.starts[units + 1] - first
    ends = namespace(first).cumsum(sizes, 0)
    return ends - sizes, ends, *runs(first, sizes)


def _are_long(edges: Edges, units: Any) -> bool:
    """Whether units have so many edges that looking at one after the other takes too long."""
    if not isinstance(units, np.ndarray):
        return True
    return edges.longest > LONG and bool(np.diff(edges.starts)[units].mean() > LONG)


def first_reaching(edges: Edges, units: Any, scores: Scores, goals: Any) -> Any:
    """The first edge of every unit whose score reaches a goal; some edge does."""
    begins, _, owners, every = _runs(edges, units)
    xp = namespace(begins)
    reached = xp.nonzero(scores(owners, every) >= goals[owners])[0]
    return every[reached[xp.searchsorted(reached, begins)]]


def draw_edges(edges: Edges, units: Any, scores: Scores, totals: Any, uniform: Any) -> Any:
    """One edge of every unit, with probability in proportion to scores, whose sums are given.

    The first edge up to which scores add up to more than a uniform number times their sum; if
    rounding makes that none, the last one whose score is positive.
    """
    if _are_long(edges, units):
        begins, ends, owners, every = _runs(edges, units)
        shares = scores(owners, every) / totals[owners]
        return every[_search(shares, begins, ends, slice(None), uniform)]
    goals = uniform * totals
    at, end = edges.starts[units], edges.starts[units + 1]
    chosen = at.copy()
    waiting, sums = np.arange(len(units)), np.zeros(len(units))
    while len(waiting):
        terms = scores(waiting, at)
        sums += terms
        taken = np.flatnonzero(terms > 0)
        chosen[waiting[taken]] = at[taken]
        short = np.flatnonzero((sums <= goals) & (at + 1 < end))
        waiting, at, end = waiting[short], at[short] + 1, end[short]
        sums, goals = sums[short], goals[short]
    return chosen


def draw_alike(edges: Edges, units: Any, terms: Any, uniform: Any) -> Any:
    """One edge for every unit of a list (with repetitions), given the terms of all edges.

    Their shares in their units lie end to end, so that one search finds all.
    """
    xp, totals = namespace(terms), segment_sums(terms, edges.units, len(edges.starts) - 1)
    shares = terms / xp.where(totals > 0, totals, xp.ones_like(totals))[edges.units]
    return _search(shares, edges.starts[:-1], edges.starts[1:], units, uniform)


def _search(shares: Any, begins: Any, ends: Any, units: Any, uniform: Any) -> Any:
    """Where uniform numbers fall among the shares of their units, which lie end to end."""
    xp = namespace(shares)
    edge = xp.cumsum(shares, 0, dtype=xp.float64)
    before = edge[begins - 1] * (begins > 0)
    total = edge[ends - 1] - before
    positions = xp.searchsorted(edge, before[units] + uniform * total[units], side="right")
    # rounding may step over the last share that is positive
    positive = xp.nonzero(shares > 0)[0]
    last = positive[xp.searchsorted(positive, ends) - 1]
    return xp.minimum(positions, last[units])
