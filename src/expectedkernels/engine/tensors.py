"""Levels of circuits with numbers and indices in tensors, on a host or a card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.arrays import as_like, is_on_card
from expectedkernels.engine.levels import (
    EXPONENTS,
    LARGEST_ROOM,
    LOST,
    Level,
    Levels,
    in_room,
    next_bounds,
)
from expectedkernels.engine.replay import Captured, total_bytes
from expectedkernels.vtree import Vtree

SINGLE_EXPONENTS, SINGLE_ROOM, SINGLE_LOST = 86.0, 38.0, 1e-7
"""In single precision: how far logs reach, how far those of mantissas do, and what may be lost."""

CARD_SHARE, MOST_ROWS = 8, 2**15
"""Values may take one part in so many of a card's memory; how many rows are worked on at once."""


@dataclass(frozen=True, eq=False)
class States:
    """The state of every discrete variable in every row.

    Attributes
    ----------
    states : int tensor of shape (leaves, rows)
        The number of states stands for one that is not known.
    n_atoms : int
    """

    states: Any
    n_atoms: int

    @property
    def shape(self) -> tuple[int, int]:
        """The number of atoms, and of rows."""
        return self.n_atoms, int(self.states.shape[1])


@dataclass(frozen=True, eq=False)
class TensorStack:
    """Nodes of one level whose weights are dense and of one shape: tensors (nodes, units, width).

    `entries` says where those of input units lie in the list of all entries of tables.
    """

    weights: Any
    units: slice
    products: slice
    entries: slice

    def tables(self, entries: Any) -> Any:
        """Its part of a list of the entries of tables: every unit's, and behind them its sum."""
        n, height, width = self.weights.shape
        return entries[self.entries].view(n, height, width + 1)


@dataclass(frozen=True, eq=False)
class TensorEdges:
    """Weighted edges from units to products, in tensors; `table`: their places among entries."""

    units: Any
    products: Any
    weights: Any
    table: Any = None


@dataclass(frozen=True, eq=False)
class TensorLevel:
    """A level with its numbers and indices in tensors.

    Attributes
    ----------
    start, stop, n_products, n_passed : int
    inputs : pair of int tensors, or None at height 0
    used_once : bool
        Whether no unit is an input of two products.
    starts : int tensor of shape (nodes + 1,)
        Where the units of every node begin, counted within the level.
    stacks : tuple of TensorStack
    edges : TensorEdges
    sparse_units, sparse_products : slices
    node_of_unit : int tensor
    nodes : int tensor
    children : pair of int tensors, or None at height 0
        The left and right children of the nodes.
    n_nodes : int
    height : int
        The number of units of every node, 0 if nodes differ in it.
    """

    start: int
    stop: int
    n_products: int
    n_passed: int
    inputs: tuple[Any, Any] | None
    used_once: bool
    starts: Any
    stacks: tuple[TensorStack, ...]
    edges: TensorEdges
    sparse_units: slice
    sparse_products: slice
    node_of_unit: Any
    nodes: Any
    children: tuple[Any, Any] | None
    n_nodes: int
    height: int


@dataclass(frozen=True, eq=False)
class Ranges:
    """What is known of the range of all levels before a pass.

    Attributes
    ----------
    safe : int
        The first level that is divided.
    divided, raised : tuples of bool
        Which levels are divided, and which may hold values then that are too small.
    """

    safe: int
    divided: tuple[bool, ...]
    raised: tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class TensorLevels:
    """The levels of a circuit with numbers and indices in tensors.

    Attributes
    ----------
    host : Levels
    levels : tuple of TensorLevel, by height
    bases : int tensor
        Where the table of every input unit begins in a list of all of them, in which every unit
        has one entry more than its variable has states: their sum.
    floor : float, or None
        What no weight is below, if weights are not those of the levels on the host; those of a
        unit add up to one then.
    """

    host: Levels
    levels: tuple[TensorLevel, ...]
    bases: Any
    floor: float | None = None

    @property
    def vtree(self) -> Vtree:
        """The vtree."""
        return self.host.vtree

    @property
    def n_units(self) -> int:
        """The number of units."""
        return self.host.n_units

    @property
    def n_atoms(self) -> int:
        """The number of atoms."""
        return self.host.n_atoms

    @property
    def roots(self) -> slice:
        """The place of the roots in the buffer."""
        return self.host.roots

    @property
    def like(self) -> Any:
        """A tensor of the type and at the place of all numbers."""
        return self.levels[0].edges.weights

    @property
    def is_remote(self) -> bool:
        """Whether the numbers are on a card."""
        return is_on_card(self.like)

    def most_rows(self, max_bytes: float) -> int:
        """How many rows a pass takes at once on a card: as many as memory allows."""
        widest = max(2 * level.n_products + level.edges.weights.shape[0] for level in self.levels)
        size = 3 * self.n_units + self.host.n_products + 3 * widest + 2 * self.n_atoms
        room = min(max_bytes, total_bytes(self.like) / CARD_SHARE)
        most = room // (self.like.element_size() * size)
        return int(max(1, min(most, MOST_ROWS)))

    @cached_property
    def has_every_use_once(self) -> bool:
        """Whether a pass down writes to every unit but the roots, and once."""
        used = sum(2 * level.n_products for level in self.levels[1:])
        n_roots = self.roots.stop - self.roots.start
        return all(x.used_once for x in self.levels[1:]) and used == self.n_units - n_roots

    @property
    def is_single(self) -> bool:
        """Whether numbers are of single precision."""
        return self.like.element_size() == 4

    @property
    def lost(self) -> float:
        """Flow through raised values up to which a row is as good as if none had been raised."""
        return SINGLE_LOST if self.is_single else LOST

    @cached_property
    def room(self) -> float:
        """How far from zero the logs of mantissas may be; negative: weights are too small."""
        bounds = list(map(self._bounds, self.host.levels))
        low = min(float(below.min()) for below, _ in bounds)
        high = max(float(above.max()) for _, above in bounds)
        limits = (SINGLE_ROOM, SINGLE_EXPONENTS) if self.is_single else (LARGEST_ROOM, EXPONENTS)
        return min(limits[0], (limits[1] - max(-low, high)) / 2)

    def _bounds(self, level: Level) -> tuple[Any, Any]:
        """For every node the log of its smallest weight, and of the largest sum of a unit's."""
        if self.floor is None:
            return level.bounds
        weighted = np.array([matrix is not None for matrix in level.matrices])
        # sums of one, up to rounding
        return np.where(weighted, np.log(self.floor), 0.0), np.where(weighted, 1e-3, 0.0)

    @cached_property
    def ranges(self) -> dict[float, Ranges]:
        """What is known of ranges if atoms are 0 or 1, by the lift."""
        return {}

    def ranges_given(self, low_atoms: Any, lift: float = 0.0) -> Ranges:
        """What is known of ranges, given the logs of the smallest atoms of every leaf."""
        host, room = self.host, self.room
        low, high = np.zeros((2, host.vtree.n_nodes))
        if low_atoms is not None:
            low[host.levels[0].nodes] = low_atoms
        divided, raised = [], []
        for level in host.levels:
            next_bounds(host.vtree, level, low, high, self._bounds(level))
            divided.append(not in_room(level, low, high, room))
            raised.append(False)
            if divided[-1]:
                nodes = level.nodes
                # the smallest value over the largest, by both bounds or by the weights alone
                smallest = np.maximum(low[nodes] - high[nodes], _spreads(level, self.floor))
                raised[-1] = bool(smallest.min() + lift < -room)
                low[nodes], high[nodes] = np.maximum(smallest + lift, -room), lift
        safe = divided.index(True) if True in divided else len(divided)
        safe = safe if low_atoms is None else 0
        return Ranges(safe, tuple(divided), tuple(raised))

    @cached_property
    def table(self) -> Any:
        """All entries of the tables of input units, and behind those of every unit their sum."""
        level = self.levels[0]
        size = self.bases.shape[0] + sum(
            int(np.prod(matrix.shape)) for matrix in self.host.levels[0].matrices
        )
        table = self.like.new_zeros(size)
        for stack in level.stacks:
            tables = stack.tables(table)
            tables[..., :-1] = stack.weights
            tables[..., -1] = stack.weights.sum(axis=2)
        edges = level.edges
        if edges.weights.shape[0]:
            table[edges.table] = edges.weights
            ends = self.last_entries[level.sparse_units]
            table.index_add_(0, ends.index_select(0, edges.units), edges.weights)
        return table

    @cached_property
    def last_entries(self) -> Any:
        """The place of the sum of every input unit in the list of tables."""
        level = self.host.levels[0]
        widths = np.repeat(np.diff(level.product_starts), np.diff(level.unit_starts))
        return self.bases + as_like(widths, self.bases)

    @cached_property
    def leaf_variables(self) -> Any:
        """The variable of every leaf."""
        return as_like(self.host.vtree.variable[self.host.levels[0].nodes], self.bases)

    @cached_property
    def leaf_states(self) -> Any:
        """The number of atoms of every leaf, (leaves, 1)."""
        return as_like(np.diff(self.host.levels[0].product_starts)[:, None], self.bases)

    @cached_property
    def captured(self) -> dict[Any, Captured]:
        """Passes that were made more than once."""
        return {}

    @cached_property
    def atom_numbers(self) -> tuple[Any, Any, Any]:
        """The leaf of every atom; its number there and how many there are, (atoms, 1)."""
        starts = self.host.levels[0].product_starts
        sizes = np.diff(starts)
        leaf = np.repeat(np.arange(len(sizes)), sizes)
        parts = (leaf, (np.arange(starts[-1]) - starts[leaf])[:, None], sizes[leaf][:, None])
        leaf, number, size = (as_like(part, self.bases) for part in parts)
        return leaf, number, size

    def entries_at(self, states: Any) -> Any:
        """The places in the list of tables of input units in every row, (units, rows)."""
        return self.bases[:, None] + states.index_select(0, self.levels[0].node_of_unit)


def _spreads(level: Level, floor: float | None) -> Any:
    """For every node the log of how small a unit can be beside another one; -inf: no bound.

    With a floor, weights are others than those of the level, between the floor and one.
    """
    found = np.full(len(level.nodes), -np.inf)
    for i, matrix in enumerate(level.matrices):
        if matrix is not None and not sparse.issparse(matrix) and matrix.size:
            low, high = matrix.min(axis=0), matrix.max(axis=0)
            if low.min() > 0:
                found[i] = np.log((low / high).min() if floor is None else floor)
    return found


def renumbered(
    levels: TensorLevels, numbers: Sequence[tuple[Any, Any]], floor: float
) -> TensorLevels:
    """The levels with other weights: those of stacks and of edges for every level.

    No weight is below the floor, and weights of a unit add up to one: ranges are known from that
    alone, and are the same for all such weights.
    """
    made = []
    for level, (stacks, edges) in zip(levels.levels, numbers, strict=True):
        new = tuple(replace(s, weights=w) for s, w in zip(level.stacks, stacks, strict=True))
        made.append(replace(level, stacks=new, edges=replace(level.edges, weights=edges)))
    found = TensorLevels(levels.host, tuple(made), levels.bases, floor)
    kept = ["last_entries", "atom_numbers", "leaf_variables", "leaf_states", "has_every_use_once"]
    if levels.floor == floor and levels.is_single == found.is_single:
        kept += ["room", "ranges"]
    vars(found).update({name: vars(levels)[name] for name in kept if name in vars(levels)})
    return found


def in_double(levels: TensorLevels) -> TensorLevels:
    """The levels, trained in single precision, with their weights in double precision."""
    numbers = [
        ([stack.weights.double() for stack in level.stacks], level.edges.weights.double())
        for level in levels.levels
    ]
    return renumbered(levels, numbers, levels.floor or 0.0)
