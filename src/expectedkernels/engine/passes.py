"""One pass up and one down over the levels of a circuit, in plain numbers kept in range.

Up, values: V = W (V[left] * V[right]). Down, derivatives of the root over its value: R. At every
node the sum of V * R over its units is one. Where bounds of the values leave a double's range,
the values of a node are divided by their largest, whose log is kept; scales of children add up to
that of their product, so the way down needs none. Values that are still too small are raised, and
the flow through them bounds the error that makes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, prod
from typing import Any

import numpy as np

from expectedkernels.engine.levels import Level, Levels, in_room, next_bounds

LOST = 1e-16
"""Flow through raised values up to which a row is as good as if none had been raised."""
CACHED_BYTES = 2**22
"""Rows are worked on in chunks whose values fit into so much memory: that of a cache."""
LEVEL_ENTRIES, LARGEST_BYTES = 40_000, 2**26
"""Where levels are small, chunks grow until a level has so many entries, or values fill memory."""
FEWEST, MOST = 32, 1024
"""How many rows a chunk has at least and at most."""


@dataclass(frozen=True, eq=False)
class Atoms:
    """What rows say of the atoms (states, components) of all variables.

    Attributes
    ----------
    values : array of shape (atoms, rows), or (atoms,) for one row
        In the order of the products of the lowest level.
    scale : array of shape (leaves, rows) or (leaves,), or None
        Logs of what the values of every variable were divided by; None: they are 0 or 1.
    low : array of shape (leaves,), or None
        The log of the smallest value that is not zero.
    raised : tuple of index arrays, or None
        The entries that were too small and got larger.
    """

    values: Any
    scale: Any = None
    low: Any = None
    raised: Any = None


@dataclass(eq=False)
class Up:
    """What a pass up found.

    Attributes
    ----------
    levels : Levels
    atoms : Atoms
    values : array of shape (units, rows) or (units,)
        Mantissas: to be multiplied by the exponential of their node's scale.
    inputs : list of arrays of shape (2, products, ...)
        For every level the values of the inputs of its products (None at the lowest).
    products : list of arrays of shape (products, ...)
    tops : dict from levels to arrays of shape (nodes, ...)
        What the values of a level's nodes were divided by.
    raised : dict from levels to tuples of index arrays
    scale : array of shape (vtree nodes, ...), or None if all are zero
    """

    levels: Levels
    atoms: Atoms
    values: Any
    inputs: list[Any] = field(default_factory=list)
    products: list[Any] = field(default_factory=list)
    tops: dict[int, Any] = field(default_factory=dict)
    raised: dict[int, Any] = field(default_factory=dict)
    scale: Any = None

    @property
    def log_roots(self) -> Any:
        """The logs of the values of the roots, (roots, rows) or (roots,)."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.values[self.levels.roots])
        return logs if self.scale is None else logs + self.scale[-1]

    def sums(self, number: int) -> Any:
        """The values of a level's units on the scale of its products."""
        level = self.levels.levels[number]
        values = self.values[level.start : level.stop]
        if number not in self.tops:
            return values
        return values * self.tops[number][level.node_of_unit]

    @property
    def possible(self) -> Any:
        """Which rows have a positive value (of the last root)."""
        return self.values[-1] > 0

    @property
    def has_raised(self) -> bool:
        """Whether some value was raised."""
        return bool(self.raised) or self.atoms.raised is not None


class Workspace:
    """Memory that one chunk of rows leaves to the next: fresh memory is slow at first touch."""

    def __init__(self) -> None:
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


def chunk_rows(levels: Levels, max_bytes: float = inf, values_only: bool = False) -> int:
    """How many rows are best worked on at once, up and down or (`values_only`) up."""
    kept = 0 if values_only else 2 * levels.n_products
    size = 8 * (levels.n_units + levels.n_atoms + kept)
    # a level takes some time however few its rows are
    busy = LEVEL_ENTRIES * len(levels.levels) / max(1.0, levels.n_entries)
    best = max(CACHED_BYTES // size, FEWEST, min(busy, LARGEST_BYTES // size))
    return int(max(1, min(best, MOST, max_bytes // (2 * size))))


def up(
    levels: Levels, atoms: Atoms, work: Workspace | None = None, values_only: bool = False
) -> Up:
    """The values of all units. The circuit has no negative weights, and `levels.room` > 0.

    With a workspace, what is found is good until the next pass that uses it. With `values_only`,
    there is no way down: inputs and products of levels are not kept.
    """
    work = Workspace() if work is None else work
    tail = atoms.values.shape[1:]
    values = work.array("values", (levels.n_units, *tail))
    found = Up(levels, atoms, values)
    safe, low, high = 0, None, None
    if atoms.scale is None:
        safe, low, high = levels.static_bounds
    for number, level in enumerate(levels.levels):
        pair, products = None, atoms.values
        if level.inputs is not None and not tail:
            pair = values.take(level.inputs)
            products = pair[0] * pair[1]
        elif level.inputs is not None:
            place = 0 if values_only else number
            pair = work.array(("inputs", place), (2, level.n_products, *tail))
            products = work.array(("products", place), (level.n_products, *tail))
            # indices are in range; other modes would copy
            values.take(level.inputs, axis=0, out=pair, mode="clip")
            np.multiply(pair[0], pair[1], out=products)
        if not values_only:
            found.inputs.append(pair)
            found.products.append(products)
        sums(level, products, values[level.start : level.stop])
        if number >= safe:
            if number == safe:
                low, high = _begin(found, low, high)
            _keep_in_range(found, number, low, high)
    return found


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


def _begin(found: Up, low: Any, high: Any) -> tuple[Any, Any]:
    """The bounds of the values where care of their range begins; starts the scales."""
    n_nodes = found.levels.vtree.n_nodes
    found.scale = np.zeros((n_nodes, *found.values.shape[1:]))
    if low is not None and found.levels.static_bounds[0] > 0:
        return low.copy(), high.copy()
    low, high = np.zeros(n_nodes), np.zeros(n_nodes)
    if found.atoms.scale is not None:
        leaves = found.levels.levels[0].nodes
        low[leaves] = found.atoms.low
        found.scale[leaves] = found.atoms.scale
    return low, high


def _keep_in_range(found: Up, number: int, low: Any, high: Any) -> None:
    """Divide the values of a level by their largest, if they may leave the range."""
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


@dataclass(eq=False)
class Down:
    """What a pass down found.

    Attributes
    ----------
    units : array of shape (units, ...)
        The derivative of the root in every unit's mantissa, over the root's value.
    atoms : array of shape (atoms, ...)
        The same in every atom.
    trusted : bool array of shape (rows,)
        Rows whose numbers are right; others left the range of plain numbers.
    """

    units: Any
    atoms: Any
    trusted: Any


def down(
    found: Up,
    exact: bool = False,
    work: Workspace | None = None,
    each: Callable[[int, Any], None] | None = None,
) -> Down:
    """The derivatives of the (only) root's log in all units and atoms.

    By default rows are trusted if their posteriors are right; rows of value zero have none. With
    `exact`, all derivatives of trusted rows are right to the last digits, also those of states
    that are unlikely beside the row's own. For rows of value zero the root's derivatives stand in
    the place of its log's then. `each` is called with every level's number and the derivatives in
    its units, on the scale of its products.
    """
    levels, values = found.levels, found.values
    work = Workspace() if work is None else work
    derivatives = work.array("derivatives", values.shape)
    derivatives[:] = 0.0
    smallest = float(np.exp(-levels.room))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        root = values[levels.roots]
        derivatives[levels.roots] = 1.0 / (np.where(root > 0, root, 1.0) if exact else root)
        lost: Any = 0.0
        for number in range(len(levels.levels) - 1, -1, -1):
            level = levels.levels[number]
            here = derivatives[level.start : level.stop]
            positive = here > 0 if exact else None
            if number in found.raised:
                flow = 1.0 if exact else values[level.start : level.stop] * here
                lost = lost + _by_row(flow, found.raised[number], values.shape)
            if number in found.tops:
                here = here / found.tops[number][level.node_of_unit]
            if exact:  # what is made of numbers as small as that may vanish
                lost = lost + (positive & (here < smallest)).any(axis=0)
            if each is not None:
                each(number, here)
            sent = work.array("sent", (level.n_products, *values.shape[1:]))
            back(level, here, sent)
            if level.inputs is not None:
                inputs = found.inputs[number]
                room = work.array("flow", inputs.shape) if sent.ndim > 1 else None
                flow = np.multiply(sent, inputs[::-1], out=room)
                scatter(level, flow, derivatives)
        if found.atoms.raised is not None:
            flow = 1.0 if exact else found.atoms.values * sent
            lost = lost + _by_row(flow, found.atoms.raised, values.shape)
        # a number that is not finite makes the sum so
        trusted = np.isfinite(sent.sum(axis=0)) & (lost <= LOST)
    return Down(derivatives, sent, trusted)


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


def scatter(level: Level, sent: Any, derivatives: Any) -> None:
    """Add what products send to their inputs, (2, products, ...), to the derivatives of these."""
    used, matrix, number = level.uses
    flat = sent.reshape(-1, *sent.shape[2:])
    if matrix is None:
        derivatives[used] = flat
    elif flat.ndim == 1:
        derivatives[used] = np.bincount(number, flat, len(used))
    else:
        derivatives[used] = matrix @ flat
