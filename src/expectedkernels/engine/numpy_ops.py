"""The passes of a layer in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from expectedkernels.engine.layers import Level, Levels, in_room, next_bounds


class Workspace:
    """Memory that one chunk of rows leaves to the next: fresh memory is slow at first touch."""

    def __init__(self, levels: Any = None) -> None:
        self._held: dict[Any, Any] = {}

    def array(self, key: Any, shape: tuple[int, ...]) -> Any:
        """An array of a shape with anything in it; what had the same key is gone."""
        if len(shape) == 1:  # of one row: not worth it
            return np.empty(shape)
        size = prod(shape)
        held = self._held.get(key)
        if held is None or held.size < size:
            held = self._held[key] = np.empty(size)
        return held[:size].reshape(shape)


def sums(level: Level, products: Any, out: Any) -> None:
    """Write the weighted sums of a level's products."""
    if level.n_passed:
        out[: level.n_passed] = products[: level.n_passed]
    for stack in level.stacks:
        n, units, width = stack.weights.shape
        inputs = products[stack.products].reshape(n, width, -1)
        np.matmul(stack.weights, inputs, out=out[stack.units].reshape(n, units, -1))
    edges = level.edges
    if len(edges.starts) == 1:
        return
    inputs = products[level.sparse_products]
    if out.ndim == 1 and not edges.has_idle:
        terms = inputs[edges.products]
        terms *= edges.weights
        out[level.sparse_units] = np.add.reduceat(terms, edges.starts[:-1])
    else:
        out[level.sparse_units] = level.forth @ inputs


def products(found: Any, number: int, work: Workspace, place: int) -> tuple[Any, Any]:
    """The values of the inputs of a level's products, (2, products, ...), and of the products.

    No inputs, and the atoms, at the lowest level.
    """
    level, values = found.levels.levels[number], found.values
    if level.inputs is None:
        return None, found.atoms.values
    if values.ndim == 1:
        pair = values.take(level.inputs)
        return pair, pair[0] * pair[1]
    tail = values.shape[1:]
    pair = work.array(("inputs", place), (2, level.n_products, *tail))
    made = work.array(("products", place), (level.n_products, *tail))
    # indices are in range; other modes would copy
    values.take(level.inputs, axis=0, out=pair, mode="clip")
    return pair, np.multiply(pair[0], pair[1], out=made)


def first_bounds(found: Any) -> tuple[int, Any]:
    """The first level that needs care of its range, and bounds of the logs of values below it."""
    if found.atoms.scale is not None:
        return 0, None
    safe, low, high = found.levels.static_bounds
    return safe, (low, high)


def begin(found: Any, bounds: Any) -> tuple[Any, Any]:
    """The bounds of the values where care of their range begins; starts the scales."""
    n_nodes = found.levels.vtree.n_nodes
    found.scale = np.zeros((n_nodes, *found.values.shape[1:]))
    if bounds is not None and found.levels.static_bounds[0] > 0:
        return bounds[0].copy(), bounds[1].copy()
    low, high = np.zeros(n_nodes), np.zeros(n_nodes)
    if found.atoms.scale is not None:
        leaves = found.levels.levels[0].nodes
        low[leaves] = found.atoms.low
        found.scale[leaves] = found.atoms.scale
    return low, high


def keep_in_range(found: Any, number: int, bounds: tuple[Any, Any]) -> None:
    """Divide the values of a level by their largest, if they may leave the range."""
    low, high = bounds
    levels, level = found.levels, found.levels.levels[number]
    next_bounds(levels.vtree, level, low, high)
    nodes, vtree, scale = level.nodes, levels.vtree, found.scale
    if level.inputs is not None:
        scale[nodes] = scale[vtree.left[nodes]] + scale[vtree.right[nodes]]
    if in_room(level, low, high, levels.room):
        return
    values = found.values[level.start : level.stop]
    tops = level.tops(values)
    tops[tops == 0] = 1.0
    found.tops[number] = tops
    positive = values > 0  # before the division, which may lose some
    values /= tops[level.node_of_unit]
    scale[nodes] += np.log(tops)
    smallest, found_raised = raise_small(values, positive, levels.room)
    if found_raised is not None:
        found.raised[number] = found_raised
    low[nodes], high[nodes] = smallest, 0.0


def raise_small(values: Any, positive: Any, room: float) -> tuple[float, Any]:
    """Raise positive values below exp(-room); the smallest log, and which values they are."""
    smallest = float(values.min(where=positive, initial=1.0))
    floor = float(np.exp(-room))
    if smallest >= floor:
        return float(np.log(smallest)), None
    which = np.nonzero(positive & (values < floor))
    values[which] = floor
    return -room, which


def finish(found: Any) -> None:
    """Nothing is left to do: scales are those of all nodes."""


def undivided(found: Any, number: int, here: Any, exact: bool) -> tuple[Any, Any]:
    """The derivatives of a level on the scale of its products, and what raised values lose.

    That is what flows through them in every row, or with `exact` their number.
    """
    level, lost = found.levels.levels[number], None
    if number in found.raised:
        flow = 1.0 if exact else found.values[level.start : level.stop] * here
        lost = _by_row(flow, found.raised[number], found.values.shape)
    if number not in found.tops:
        return here, lost
    return here / found.tops[number][level.node_of_unit], lost


def raised_atom_flow(found: Any, sent: Any, exact: bool) -> Any:
    """The same of the raised atoms."""
    flow = 1.0 if exact else found.atoms.values * sent
    return _by_row(flow, found.atoms.raised, found.values.shape)


def _by_row(flow: Any, which: Any, shape: tuple[int, ...]) -> Any:
    """The sum over some entries, row by row; a number stands for an array of it."""
    kept = np.full(len(which[0]), flow) if np.ndim(flow) == 0 else flow[which]
    return kept.sum() if len(shape) == 1 else np.bincount(which[1], kept, shape[1])


def back(level: Level, units: Any, sent: Any) -> None:
    """Write the derivatives in a level's products, given those in its units."""
    if level.n_passed:
        sent[: level.n_passed] = units[: level.n_passed]
    for stack in level.stacks:
        n, height, width = stack.weights.shape
        above = units[stack.units].reshape(n, height, -1)
        below = sent[stack.products].reshape(n, width, -1)
        np.matmul(stack.weights.transpose(0, 2, 1), above, out=below)
    if len(level.edges.starts) == 1:
        return
    above = units[level.sparse_units]
    if above.ndim == 1 and level.single is not None:
        unit, weight = level.single
        sent[level.sparse_products] = above[unit] * weight
    elif above.ndim == 1:
        edges = level.edges
        terms = above[edges.units] * edges.weights
        sent[level.sparse_products] = np.bincount(edges.products, terms, level.forth.shape[1])
    else:
        sent[level.sparse_products] = level.back @ above


def pull(found: Any, number: int, here: Any, sent: Any, derivatives: Any, work: Workspace) -> None:
    """Write the derivatives in the inputs of a level's products, given those in the products."""
    inputs = found.inputs[number]
    room = work.array("flow", inputs.shape) if sent.ndim > 1 else None
    flow = np.multiply(sent, inputs[::-1], out=room)
    used, matrix, place = found.levels.levels[number].uses
    flat = flow.reshape(-1, *flow.shape[2:])
    if matrix is None:
        derivatives[used] = flat
    elif flat.ndim == 1:
        derivatives[used] = np.bincount(place, flat, len(used))
    else:
        derivatives[used] = matrix @ flat


def has_raised(found: Any) -> bool:
    """Whether some value was raised."""
    return bool(found.raised) or found.atoms.raised is not None


def times_atoms(found: Any, derivatives: Any) -> Any:
    """The derivatives in atoms, multiplied by the values of these."""
    derivatives *= found.atoms.values
    return derivatives


def renumbered(levels: Levels, numbers: Sequence[tuple[Any, Any]], floor: float) -> Levels:
    """The levels with other weights: those of stacks and of edges for every level.

    No weight is below the floor, and weights of a unit add up to one. What the circuit's matrices
    say of the old weights stays as it is.
    """
    made = []
    for level, (stacks, edges) in zip(levels.levels, numbers, strict=True):
        new = tuple(replace(s, weights=w) for s, w in zip(level.stacks, stacks, strict=True))
        own = replace(level, stacks=new, edges=replace(level.edges, weights=edges))
        made.append(level.like_this(own))
    return Levels(levels.vtree, tuple(made), levels.unit_starts)


def unit_sums(level: Level, terms: Any) -> Any:
    """For every edge of sparse nodes, the sum of the terms of all edges of its unit."""
    units = level.edges.units
    return np.bincount(units, terms, len(level.edges.starts) - 1)[units]


def edge_dots(level: Level, units: Any, products: Any) -> Any:
    """For every edge of sparse nodes, the sum over rows of its unit times its product."""
    above, below = units[level.sparse_units], products[level.sparse_products]
    above, below = (x.reshape(len(x), -1) for x in (above, below))
    return np.einsum("er,er->e", above[level.edges.units], below[level.edges.products])


def logs(values: Any) -> Any:
    """The logs of values, -inf for zeros."""
    with np.errstate(divide="ignore"):
        return np.log(values)
