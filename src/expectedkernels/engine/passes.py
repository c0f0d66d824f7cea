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
from math import inf
from typing import Any

import numpy as np

from expectedkernels.engine import on_arrays, on_tensors
from expectedkernels.engine.levels import Levels
from expectedkernels.engine.tensors import TensorLevels

AnyLevels = Levels | TensorLevels

CACHED_BYTES = 2**22
"""Rows are worked on in chunks whose values fit into so much memory: that of a cache."""
LEVEL_ENTRIES, LARGEST_BYTES = 40_000, 2**26
"""Where levels are small, chunks grow until a level has so many entries, or values fill memory."""
FEWEST, MOST = 32, 1024
"""How many rows a chunk has at least and at most."""


def operations(levels: AnyLevels) -> Any:
    """What works on the arrays of these levels."""
    return on_arrays if isinstance(levels, Levels) else on_tensors


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
    lift : float
        The log of the largest value of a node that was divided.
    """

    levels: AnyLevels
    atoms: Atoms
    values: Any
    inputs: list[Any] = field(default_factory=list)
    products: list[Any] = field(default_factory=list)
    tops: dict[int, Any] = field(default_factory=dict)
    raised: dict[int, Any] = field(default_factory=dict)
    scale: Any = None
    lift: float = 0.0

    @property
    def log_roots(self) -> Any:
        """The logs of the values of the roots, (roots, rows) or (roots,)."""
        logs = operations(self.levels).logs(self.values[self.levels.roots])
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
        return operations(self.levels).has_raised(self)


def workspace(levels: AnyLevels) -> Any:
    """Memory for passes over some levels, one after the other."""
    return operations(levels).Workspace(levels)


def chunk_rows(levels: AnyLevels, max_bytes: float = inf, values_only: bool = False) -> int:
    """How many rows are best worked on at once, up and down or (`values_only`) up."""
    if isinstance(levels, TensorLevels):
        if levels.is_remote:
            return levels.most_rows(max_bytes)
        levels = levels.host
    kept = 0 if values_only else 2 * levels.n_products
    size = 8 * (levels.n_units + levels.n_atoms + kept)
    # a level takes some time however few its rows are
    busy = LEVEL_ENTRIES * len(levels.levels) / max(1.0, levels.n_entries)
    best = max(CACHED_BYTES // size, FEWEST, min(busy, LARGEST_BYTES // size))
    return int(max(1, min(best, MOST, max_bytes // (2 * size))))


def up(
    levels: AnyLevels,
    atoms: Atoms,
    work: Any = None,
    values_only: bool = False,
    lift: float = 0.0,
) -> Up:
    """The values of all units. The circuit has no negative weights, and `levels.room` > 0.

    With a workspace, what is found is good until the next pass that uses it. With `values_only`,
    there is no way down: inputs and products of levels are not kept. With a `lift` (in tensors, for
    a way down that is not exact), values of divided nodes may be smaller beside their largest,
    whose log it is, by as much.
    """
    ops = operations(levels)
    work = ops.Workspace(levels) if work is None else work
    values = work.array("values", (levels.n_units, *atoms.values.shape[1:]))
    found = Up(levels, atoms, values, lift=lift)
    safe, bounds = ops.first_bounds(found)
    every: Any = levels.levels
    for number, level in enumerate(every):
        pair, products = ops.products(found, number, work, 0 if values_only else number)
        if not values_only:
            found.inputs.append(pair)
            found.products.append(products)
        ops.sums(level, products, values[level.start : level.stop])
        if number >= safe:
            if number == safe:
                bounds = ops.begin(found, bounds)
            ops.keep_in_range(found, number, bounds)
    ops.finish(found)
    return found


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
    work: Any = None,
    each: Callable[[int, Any], None] | None = None,
    to_atoms: bool = True,
    weights: Any = 1.0,
) -> Down:
    """The derivatives of the (only) root's log in all units and atoms.

    By default rows are trusted if their posteriors are right; rows of value zero have none. With
    `exact`, all derivatives of trusted rows are right to the last digits, also those of states
    that are unlikely beside the row's own. For rows of value zero the root's derivatives stand in
    the place of its log's then. `each` is called with every level's number and the derivatives in
    its units, on the scale of its products. Without `to_atoms` the way ends at the input units.
    Derivatives in rows are multiplied by the weights of these.
    """
    levels, values = found.levels, found.values
    ops = operations(levels)
    work = ops.Workspace(levels) if work is None else work
    derivatives = work.array("derivatives", values.shape)
    if not levels.has_every_use_once:
        derivatives[:] = 0.0
    smallest = float(np.exp(-levels.room))
    to_atoms = to_atoms or found.atoms.raised is not None
    sent: Any = None
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        root = values[levels.roots]
        derivatives[levels.roots] = weights / (root + (root == 0) if exact else root)
        lost: Any = 0.0
        for number in range(len(levels.levels) - 1, -1, -1):
            level = levels.levels[number]
            here = derivatives[level.start : level.stop]
            positive = here > 0 if exact else None
            here, more = ops.undivided(found, number, here, exact)
            if more is not None:
                lost = lost + more
            if exact:  # what is made of numbers as small as that may vanish
                lost = lost + (positive & (here < smallest)).any(axis=0)
            if each is not None:
                each(number, here)
            if number == 0 and not to_atoms:
                break
            sent = work.array("sent", (level.n_products, *values.shape[1:]))
            ops.back(level, here, sent)
            if level.inputs is not None:
                ops.pull(found, number, here, sent, derivatives, work)
        if found.atoms.raised is not None:
            lost = lost + ops.raised_atom_flow(found, sent, exact)
        # a number that is not finite makes the sum so, and then the difference is not zero
        total = (sent if to_atoms else here).sum(axis=0)
        trusted = (total - total == 0) & (lost <= levels.lost * weights)
    return Down(derivatives, sent if to_atoms else None, trusted)
