"""Layers in torch, and their passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from types import ModuleType
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.arrays import as_like, is_on_card, namespace
from expectedkernels.engine.layers import (
    EXPONENTS,
    LARGEST_ROOM,
    LOST,
    Level,
    Levels,
    Stack,
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


def tensor_levels(host: Levels, like: Any) -> TensorLevels:
    """The levels with their numbers as tensors of the type and at the place of another one."""
    xp = namespace(like)

    def sent(array: Any) -> Any:
        return xp.asarray(np.array(array), device=like.device)

    def number(array: Any) -> Any:
        return sent(array).to(like.dtype)

    bases, made = _table_bases(host.levels[0]), []
    left, right = host.vtree.left, host.vtree.right
    for level in host.levels:
        lowest = level.inputs is None
        stacks = tuple(
            TensorStack(
                number(stack.weights),
                stack.units,
                stack.products,
                _stack_entries(bases, stack) if lowest else slice(0),
            )
            for stack in _merged(level.stacks)
        )
        edges, at = level.edges, level.sparse_units
        first = level.product_starts[level.node_of_unit[at]] - level.sparse_products.start
        entries = bases[at][edges.units] + edges.products - first[edges.units] if lowest else None
        sizes = np.unique(np.diff(level.unit_starts))
        flat = None if level.inputs is None else level.inputs.reshape(-1)
        made.append(
            TensorLevel(
                start=level.start,
                stop=level.stop,
                n_products=level.n_products,
                n_passed=level.n_passed,
                inputs=None if level.inputs is None else tuple(map(sent, level.inputs)),
                used_once=flat is not None and len(np.unique(flat)) == len(flat),
                starts=sent(level.unit_starts),
                stacks=stacks,
                edges=TensorEdges(
                    sent(edges.units),
                    sent(edges.products),
                    number(edges.weights),
                    sent(entries) if lowest else None,
                ),
                sparse_units=at,
                sparse_products=level.sparse_products,
                node_of_unit=sent(level.node_of_unit),
                nodes=sent(level.nodes),
                children=None if lowest else (sent(left[level.nodes]), sent(right[level.nodes])),
                n_nodes=len(level.nodes),
                height=int(sizes[0]) if len(sizes) == 1 else 0,
            )
        )
    return TensorLevels(host, tuple(made), sent(bases))


def _merged(stacks: Sequence[Stack]) -> list[Stack]:
    """Stacks one after the other, those of one shape together: launches cost more than copies."""
    found: list[list[Stack]] = []
    for stack in stacks:
        if found and found[-1][-1].weights.shape[1:] == stack.weights.shape[1:]:
            found[-1].append(stack)
        else:
            found.append([stack])
    return [
        Stack(
            np.concatenate([stack.weights for stack in group]),
            slice(group[0].units.start, group[-1].units.stop),
            slice(group[0].products.start, group[-1].products.stop),
        )
        for group in found
    ]


def _table_bases(level: Level) -> Any:
    """Where the entries of every input unit begin, with one more for each unit."""
    widths = np.repeat(np.diff(level.product_starts), np.diff(level.unit_starts)) + 1
    return np.cumsum(widths) - widths


def _stack_entries(bases: Any, stack: Any) -> slice:
    """Where the weights of a stack of tables lie among all entries: one after the other."""
    n, height, width = stack.weights.shape
    first = int(bases[stack.units.start]) if n * height else 0
    return slice(first, first + n * height * (width + 1))


def unit_sums(level: TensorLevel, terms: Any) -> Any:
    """For every edge of sparse nodes, the sum of the terms of all edges of its unit."""
    n = level.sparse_units.stop - level.sparse_units.start
    return terms.new_zeros(n).index_add_(0, level.edges.units, terms)[level.edges.units]


class Workspace:
    """Memory for a pass; libraries of tensors keep what was freed by themselves."""

    def __init__(self, levels: TensorLevels) -> None:
        self._like = levels.like

    def array(self, key: Any, shape: tuple[int, ...]) -> Any:
        """A tensor of a shape with anything in it."""
        return self._like.new_empty(shape)


@cache
def _fused() -> ModuleType | None:
    """Steps of passes that are one launch each; None where Triton is not installed."""
    try:
        from expectedkernels.engine import fused
    except ImportError:
        return None
    return fused


def fused_at(values: Any) -> ModuleType | None:
    """Steps of one launch each for these values; None if they are not on a card."""
    return _fused() if is_on_card(values) and values.shape[1] else None


def products(found: Any, number: int, work: Workspace, place: int) -> tuple[None, Any]:
    """The values of a level's products; inputs are taken anew on the way down.

    Where steps are fused, those that are units as they are, are written to the units alone.
    """
    level, values = found.levels.levels[number], found.values
    if level.inputs is None:
        atoms = found.atoms.values
        return None, (found.levels, atoms) if isinstance(atoms, States) else atoms
    fused = fused_at(values)
    if fused is not None:
        here = values[level.start : level.stop]
        return None, fused.products(values, level.inputs, here, level.n_passed)
    left, right = level.inputs
    return None, values.index_select(0, left).mul_(values.index_select(0, right))


def sums(level: TensorLevel, products: Any, out: Any) -> None:
    """Write the weighted sums of a level's products."""
    if isinstance(products, tuple):
        levels, atoms = products
        fused = fused_at(out)
        if fused is not None:
            fused.look_up(atoms.states, level.node_of_unit, levels.bases, levels.table, out)
        else:
            out.copy_(levels.table[levels.entries_at(atoms.states)])
        return
    if level.inputs is None or fused_at(out) is None:
        out[: level.n_passed] = products[: level.n_passed]
    for stack in level.stacks:
        n, height, width = stack.weights.shape
        inputs = products[stack.products].view(n, width, -1)
        # with beta = 0 what was there does not matter, not even if it is not finite
        out[stack.units].view(n, height, -1).baddbmm_(stack.weights, inputs, beta=0)
    edges = level.edges
    if edges.weights.shape[0]:
        terms = products[level.sparse_products].index_select(0, edges.products)
        terms.mul_(edges.weights[:, None])
        out[level.sparse_units].zero_().index_add_(0, edges.units, terms)
    else:
        out[level.sparse_units] = 0.0


def first_bounds(found: Any) -> tuple[int, Any]:
    """The first level that is divided, and what is known of all of them."""
    levels, lift = found.levels, found.lift
    if found.atoms.scale is not None:
        ranges = levels.ranges_given(found.atoms.low, lift)
        return ranges.safe, ranges
    if lift not in levels.ranges:
        levels.ranges[lift] = levels.ranges_given(None, lift)
    return levels.ranges[lift].safe, levels.ranges[lift]


def begin(found: Any, ranges: Ranges) -> Ranges:
    """Start the scale of the root, to which the logs of all divisors add up."""
    shape = (1, found.values.shape[1])
    found.scale = found.values.new_zeros(shape, dtype=namespace(found.values).float64)
    if found.atoms.scale is not None:
        found.scale += found.atoms.scale.sum(axis=0)
    return ranges


def keep_in_range(found: Any, number: int, ranges: Ranges) -> None:
    """Divide the values of a level by their largest, if they may leave the range."""
    if not ranges.divided[number]:
        return
    level, levels = found.levels.levels[number], found.levels
    values = found.values[level.start : level.stop]
    floor = float(np.exp(-levels.room)) if ranges.raised[number] else None
    fused = fused_at(values)
    if fused is not None:
        found.tops[number], small = fused.divide(values, level.starts, floor, found.lift)
    else:
        found.tops[number], small = _divide(level, values, floor, found.lift)
    if small is not None:
        found.raised[number] = small


def finish(found: Any) -> None:
    """Add the logs of all divisors to the scale of the root."""
    if found.tops:
        tops = namespace(found.values).concat(list(found.tops.values()))
        found.scale += tops.to(found.scale.dtype).log_().sum(axis=0)


def _divide(level: TensorLevel, values: Any, floor: float | None, lift: float) -> tuple[Any, Any]:
    """Divide the values of nodes: the divisors, and what was raised to the floor.

    The largest value of a node becomes the exponential of the lift.
    """
    tops = _tops(level, values)
    tops = tops * float(np.exp(-lift)) + (tops == 0)
    positive = None if floor is None else values > 0
    values.copy_(_divided(level, values, tops))
    if positive is None:
        return tops, None
    small = positive & (values < floor)
    values.masked_fill_(small, floor)
    return tops, small


def _tops(level: TensorLevel, values: Any) -> Any:
    """The largest of every node's values, (nodes, rows)."""
    if level.height:
        return values.view(level.n_nodes, level.height, -1).amax(1)
    tops = values.new_zeros((level.n_nodes, values.shape[1]))
    return tops.scatter_reduce_(0, level.node_of_unit[:, None].expand_as(values), values, "amax")


def _divided(level: TensorLevel, values: Any, tops: Any) -> Any:
    """The values of a level's units over what their nodes were divided by."""
    if level.height:
        parts = values.view(level.n_nodes, level.height, -1) / tops[:, None]
        return parts.view(values.shape)
    return values / tops.index_select(0, level.node_of_unit)


def has_raised(found: Any) -> bool:
    """Whether some value was raised: one number, read when the pass is over."""
    mark = raised_mark(found)
    return mark is not None and bool(mark)


def raised_mark(found: Any) -> Any:
    """The same as a tensor; None if nothing can have been raised."""
    masks = [*found.raised.values()]
    if found.atoms.raised is not None:
        masks.append(found.atoms.raised)
    if not masks:
        return None
    some = masks[0].any()
    for mask in masks[1:]:
        some = some | mask.any()
    return some


def times_atoms(found: Any, derivatives: Any) -> Any:
    """The derivatives in atoms, multiplied by the values of these."""
    atoms = found.atoms.values
    if not isinstance(atoms, States):
        return derivatives.mul_(atoms)
    leaf, number, size = found.levels.atom_numbers
    states = atoms.states.index_select(0, leaf)
    return derivatives.masked_fill_((states != number) & (states != size), 0.0)


def normalised(levels: TensorLevels, terms: Any) -> Any:
    """The terms of atoms over the sums of those of their variables."""
    leaf, _, _ = levels.atom_numbers
    totals = terms.new_zeros((levels.leaf_states.shape[0], terms.shape[1]))
    return terms.div_(totals.index_add_(0, leaf, terms).index_select(0, leaf))


def undivided(found: Any, number: int, here: Any, exact: bool) -> tuple[Any, Any]:
    """The derivatives of a level on the scale of its products, and what raised values lose.

    That is what flows through them in every row, or with `exact` their number.
    """
    level, small = found.levels.levels[number], found.raised.get(number)
    if number not in found.tops:
        return here, None
    values, tops = found.values[level.start : level.stop], found.tops[number]
    fused = None if exact else fused_at(values)
    if fused is not None:
        return fused.undivide(here, values, level.starts, tops, small)
    lost = None
    if small is not None:
        lost = small if exact else (values * here).masked_fill_(~small, 0.0)
        lost = lost.sum(axis=0)
    return _divided(level, here, tops), lost


def raised_atom_flow(found: Any, sent: Any, exact: bool) -> Any:
    """The same of the raised atoms."""
    small = found.atoms.raised
    if exact:
        return small.sum(axis=0)
    return (found.atoms.values * sent).masked_fill_(~small, 0.0).sum(axis=0)


def back(level: TensorLevel, units: Any, sent: Any) -> None:
    """Write the derivatives in a level's products, given those in its units."""
    if not _is_pulled_at_once(level, units):
        sent[: level.n_passed] = units[: level.n_passed]
    for stack in level.stacks:
        n, height, width = stack.weights.shape
        above = units[stack.units].view(n, height, -1)
        below = sent[stack.products].view(n, width, -1)
        below.baddbmm_(stack.weights.swapaxes(1, 2), above, beta=0)
    edges = level.edges
    below = sent[level.sparse_products].zero_()
    if edges.weights.shape[0]:
        terms = units[level.sparse_units].index_select(0, edges.units).mul_(edges.weights[:, None])
        below.index_add_(0, edges.products, terms)


def _is_pulled_at_once(level: TensorLevel, units: Any) -> bool:
    """Whether one launch sends the derivatives in products to their inputs."""
    return level.used_once and level.inputs is not None and fused_at(units) is not None


def pull(found: Any, number: int, here: Any, sent: Any, derivatives: Any, work: Workspace) -> None:
    """Write the derivatives in the inputs of a level's products, given those in the products."""
    level, values = found.levels.levels[number], found.values
    left, right = level.inputs
    fused: Any = fused_at(values)
    if _is_pulled_at_once(level, here):
        fused.pull(values, level.inputs, here, sent, derivatives, level.n_passed)
        return
    for own, other in ((left, right), (right, left)):
        flow = values.index_select(0, other).mul_(sent)
        if level.used_once:
            derivatives.index_copy_(0, own, flow)
        else:
            derivatives.index_add_(0, own, flow)


def edge_dots(level: TensorLevel, units: Any, products: Any) -> Any:
    """For every edge of sparse nodes, the sum over rows of its unit times its product."""
    above = units[level.sparse_units].index_select(0, level.edges.units)
    below = products[level.sparse_products].index_select(0, level.edges.products)
    return above.mul_(below).sum(axis=1)


def table_uses(levels: TensorLevels, atoms: States, units: Any) -> Any:
    """For every entry of the list of tables, the sum of the derivatives of rows that take it."""
    uses = levels.table.new_zeros(levels.table.shape)
    fused = fused_at(units)
    if fused is not None:
        fused.add_up(atoms.states, levels.levels[0].node_of_unit, levels.bases, units, uses)
        return uses
    places = levels.entries_at(atoms.states).reshape(-1)
    return uses.index_add_(0, places, units.reshape(-1))


def table_counts(levels: TensorLevels, uses: Any) -> tuple[list[Any], Any]:
    """The counts of tables, as weights of stacks and edges, given how entries are taken."""
    level = levels.levels[0]
    weights = [stack.weights for stack in level.stacks]
    stacks, edges = [w.new_empty(w.shape) for w in weights], level.edges.weights
    dots = edges.new_empty(edges.shape)
    write_table_dots(levels, uses, stacks, dots)
    return [own.mul_(w) for own, w in zip(stacks, weights, strict=True)], dots.mul_(edges)


def write_table_dots(levels: TensorLevels, uses: Any, stacks: Sequence[Any], edges: Any) -> None:
    """Write the derivatives in all weights of tables, given how entries are taken."""
    level = levels.levels[0]
    for own, stack in zip(stacks, level.stacks, strict=True):
        tables = stack.tables(uses)
        own.copy_(tables[..., :-1]).add_(tables[..., -1:])
    if edges.shape[0]:
        unknown = uses[levels.last_entries[level.sparse_units]]
        edges.copy_(uses[level.edges.table]).add_(unknown.index_select(0, level.edges.units))


def logs(values: Any) -> Any:
    """The logs of values in double precision, -inf for zeros."""
    return values.to(namespace(values).float64).log()
