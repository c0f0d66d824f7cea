"""The passes of a layer in NumPy."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from expectedkernels.engine.layers import Level, Levels


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
        stack.apply(products, out)
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
    if level.views is not None:
        left, right = level.pair(values)
        made = work.array(("products", place), (level.n_products, *values.shape[1:]))
        np.multiply(left, right, out=made.reshape(left.shape))
        return None, made
    if values.ndim == 1:
        pair = values.take(level.inputs)
        return pair, pair[0] * pair[1]
    tail = values.shape[1:]
    pair = work.array(("inputs", place), (2, level.n_products, *tail))
    made = work.array(("products", place), (level.n_products, *tail))
    # indices are in range; other modes would copy
    values.take(level.inputs, axis=0, out=pair, mode="clip")
    return pair, np.multiply(pair[0], pair[1], out=made)


def divide(
    level: Level, values: Any, floor: float | None, lift: float, signed: bool, drop: bool
) -> tuple[Any, Any]:
    """Divide the values of nodes: the divisors, and which values were raised to the floor.

    The largest value of a node becomes the exponential of the lift. With `drop` values below the
    floor become zero.
    """
    tops = _tops(level, np.abs(values) if signed else values)
    if lift:
        tops *= np.exp(-lift)
    tops[tops == 0] = 1.0
    positive = None if floor is None else values != 0  # before the division, which may lose some
    n, height = len(level.nodes), level.height
    if height:
        parts = values.reshape(n, height, -1)
        parts /= tops.reshape(n, 1, -1)
    else:
        values /= tops[level.node_of_unit]
    if positive is None:
        return tops, None
    small = positive & ((np.abs(values) if signed else values) < floor)
    if not small.any():
        return tops, None
    values[small] = 0.0 if drop else floor
    return tops, small


def _tops(level: Level, values: Any) -> Any:
    """The largest of every node's values, (nodes, ...)."""
    starts = level.unit_starts
    if values.ndim == 1:
        return np.maximum.reduceat(values, starts[:-1])
    if len(level.nodes) <= int(np.diff(starts).max()):
        pairs = zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
        return np.stack([values[a:b].max(axis=0) for a, b in pairs])
    top = values[starts[:-1]]
    sizes = np.diff(starts)
    for i in range(1, int(sizes.max())):
        longer = np.flatnonzero(sizes > i)
        top[longer] = np.maximum(top[longer], values[starts[longer] + i])
    return top


def back(level: Level, units: Any, sent: Any) -> None:
    """Write the derivatives in a level's products, given those in its units."""
    if level.n_passed:
        sent[: level.n_passed] = units[: level.n_passed]
    for stack in level.stacks:
        stack.apply(units, sent, turned=True)
    if len(level.edges.starts) == 1:
        return
    above = units[level.sparse_units]
    if above.ndim == 1:
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


def times_atoms(found: Any, derivatives: Any) -> Any:
    """The derivatives in atoms, multiplied by the values of these."""
    derivatives *= found.atoms.values
    return derivatives


def normalised(levels: Levels, terms: Any) -> Any:
    """The terms of atoms over the sums of those of their variables."""
    starts = levels.levels[0].product_starts
    totals = np.add.reduceat(terms, starts[:-1])
    terms /= np.repeat(totals, np.diff(starts), axis=0)
    return terms


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
