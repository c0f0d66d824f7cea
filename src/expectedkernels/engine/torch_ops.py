"""Layers in torch, and their passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import groupby
from math import inf
from types import ModuleType
from typing import Any

import numpy as np

from expectedkernels.arrays import as_like, is_on_card, namespace
from expectedkernels.engine.layers import Edges, Level, Levels, Stack
from expectedkernels.engine.replay import Captured, total_bytes

FUSED_ROWS = 16
"""For fewer rows, launches that take the rows of one unit together have too little to do."""
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
class TensorLevels(Levels):
    """The levels of a circuit with numbers and the indices that passes use in tensors.

    Attributes
    ----------
    host : Levels
    bases : int tensor
        Where the table of every input unit begins in a list of all of them, in which every unit
        has one entry more than its variable has states: their sum.
    """

    host: Any = None
    bases: Any = None

    @property
    def is_remote(self) -> bool:
        """Whether the numbers are on a card."""
        return is_on_card(self.like)

    def all_edges(self, number: int) -> Edges:
        """The edges of all units of a level, sent once."""
        kept = vars(self.levels[number])
        if "all_edges" not in kept:
            kept["all_edges"] = _sent_edges(self.host.levels[number].all_edges, self.like)
        return kept["all_edges"]

    def most_rows(self, max_bytes: float) -> int:
        """How many rows a pass takes at once on a card: as many as memory allows."""
        widest = max(2 * level.n_products + level.edges.weights.shape[0] for level in self.levels)
        size = 3 * self.n_units + self.n_products + 3 * widest + 2 * self.n_atoms
        room = min(max_bytes, total_bytes(self.like) / CARD_SHARE)
        most = room // (self.like.element_size() * size)
        return int(max(1, min(most, MOST_ROWS)))

    @cached_property
    def table(self) -> Any:
        """All entries of the tables of input units, and behind those of every unit their sum."""
        level = self.levels[0]
        size = self.bases.shape[0] + sum(
            int(np.prod(self.matrices[node].shape)) for node in self.host.levels[0].nodes
        )
        table = self.like.new_zeros(size)
        for stack in level.stacks:
            tables = self.tables(stack, table)
            tables[..., :-1] = stack.weights
            tables[..., -1] = stack.weights.sum(axis=2)
        edges = level.edges
        if edges.weights.shape[0]:
            table[self.edge_entries] = edges.weights
            ends = self.last_entries[level.sparse_units]
            table.index_add_(0, ends.index_select(0, edges.units), edges.weights)
        return table

    def tables(self, stack: Stack, entries: Any) -> Any:
        """A stack's part of a list of the entries of tables: every unit's, and behind its sum."""
        n, height, width = stack.weights.shape
        first = int(self.host.levels[0].table_bases[stack.units.start]) if n * height else 0
        return entries[first : first + n * height * (width + 1)].view(n, height, width + 1)

    @cached_property
    def edge_entries(self) -> Any:
        """The places of the edges of input units among the entries of tables."""
        level = self.host.levels[0]
        edges, at = level.edges, level.sparse_units
        first = level.product_starts[level.node_of_unit[at]] - level.sparse_products.start
        entries = level.table_bases[at][edges.units] + edges.products - first[edges.units]
        return as_like(entries, self.bases)

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
        leaf, *numbers = self.host.atom_numbers
        parts = (leaf, *(x[:, None] for x in numbers))
        leaf, number, size = (as_like(part, self.bases) for part in parts)
        return leaf, number, size

    def entries_at(self, states: Any) -> Any:
        """The places in the list of tables of input units in every row, (units, rows)."""
        return self.bases[:, None] + states.index_select(0, self.levels[0].node_of_unit)


def in_double(levels: TensorLevels) -> TensorLevels:
    """The levels, trained in single precision, with their weights in double precision."""
    numbers = [
        ([stack.weights.double() for stack in level.stacks], level.edges.weights.double())
        for level in levels.levels
    ]
    return levels.with_weights(numbers, levels.floor or 0.0)


def tensor_levels(host: Levels, like: Any) -> TensorLevels:
    """The levels with their numbers as tensors of the type and at the place of another one."""
    made = []
    for level in host.levels:
        stacks = []  # of one shape together: launches cost more than copies
        for _, group in groupby(level.stacks, key=lambda stack: stack.weights.shape[1:]):
            some = list(group)
            weights = _sent(np.concatenate([stack.weights for stack in some]), like).to(like.dtype)
            units = slice(some[0].units.start, some[-1].units.stop)
            products = slice(some[0].products.start, some[-1].products.stop)
            stored = np.concatenate([np.r_[stack.stored] for stack in some])
            stacks.append(Stack(weights, units, products, stored))
        sent = sent_level(level, like)
        new = replace(sent, stacks=tuple(stacks), edges=_sent_edges(level.edges, like))
        vars(sent)["is_used_once"] = level.is_used_once
        made.append(new.with_known(sent))
    bases = _sent(host.levels[0].table_bases, like)
    known = (host.unit_starts, host.bounds, host.matrices)
    return TensorLevels(host.vtree, tuple(made), *known, host=host, bases=bases)


def sent_level(level: Level, like: Any) -> Level:
    """The level with its indices in tensors on the device of another one, without edges."""
    inputs = None if level.inputs is None else _sent(level.inputs, like)
    new = replace(level, inputs=inputs, edges=replace(level.edges, weights=like[:0]))
    vars(new)["node_of_unit"] = _sent(level.node_of_unit, like)
    vars(new)["unit_places"] = _sent(level.unit_starts, like)
    return new


def _sent(array: Any, like: Any) -> Any:
    return as_like(np.array(array), like)


def _sent_edges(edges: Edges, like: Any) -> Edges:
    """The edges in tensors like another one."""
    index = (edges.starts, edges.products, edges.units)
    starts, products, units = (_sent(x, like) for x in index)
    new = Edges(starts, products, _sent(edges.weights, like).to(like.dtype), edges.stored)
    vars(new)["units"] = units
    return new


def best_values(levels: TensorLevels, weights: Sequence[Any], atoms: Any) -> Any:
    """The logs of all units, the largest term in the place of sums, given logs of weights.

    They are of the type of the atoms: double precision, or sums of many logs become equal.
    """
    values = atoms.new_full((levels.n_units, atoms.shape[1]), -inf)
    for number, (level, own) in enumerate(zip(levels.levels, weights, strict=True)):
        edges, made = levels.all_edges(number), atoms
        if level.inputs is not None:
            left, right = level.inputs
            made = values.index_select(0, left) + values.index_select(0, right)
        terms = made.index_select(0, edges.products) + own[:, None]
        units: Any = edges.units
        index = units[:, None].expand_as(terms)
        values[level.start : level.stop].scatter_reduce_(0, index, terms, "amax")
    return values


def unit_sums(level: Level, terms: Any) -> Any:
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


def fused_at(values: Any, least: int = FUSED_ROWS) -> ModuleType | None:
    """Steps of one launch each for values of many rows; None if they are not on a card."""
    return _fused() if is_on_card(values) and values.shape[1] >= least else None


def products(found: Any, number: int, work: Workspace, place: int) -> tuple[None, Any]:
    """The values of a level's products; inputs are taken anew on the way down.

    Where steps are fused, those that are units as they are, are written to the units alone.
    """
    level, values = found.levels.levels[number], found.values
    if level.inputs is None:
        atoms = found.atoms.values
        return None, (found.levels, atoms) if isinstance(atoms, States) else atoms
    if level.views is not None:
        one, other = level.pair(values)
        return None, (one * other).reshape(level.n_products, -1)
    fused = fused_at(values)
    if fused is not None:
        here = values[level.start : level.stop]
        return None, fused.products(values, level.inputs, here, level.n_passed)
    left, right = level.inputs
    return None, values.index_select(0, left).mul_(values.index_select(0, right))


def sums(level: Level, products: Any, out: Any) -> None:
    """Write the weighted sums of a level's products."""
    if isinstance(products, tuple):
        levels, atoms = products
        fused = fused_at(out)
        if fused is not None:
            fused.look_up(atoms.states, level.node_of_unit, levels.bases, levels.table, out)
        else:
            out.copy_(levels.table[levels.entries_at(atoms.states)])
        return
    if level.inputs is None or level.views is not None or fused_at(out) is None:
        out[: level.n_passed] = products[: level.n_passed]
    for stack in level.stacks:
        stack.apply(products, out)
    edges = level.edges
    if edges.weights.shape[0]:
        terms = products[level.sparse_products].index_select(0, edges.products)
        terms.mul_(edges.weights[:, None])
        out[level.sparse_units].zero_().index_add_(0, edges.units, terms)
    else:
        out[level.sparse_units] = 0.0


def divide(
    level: Level, values: Any, floor: float | None, lift: float, signed: bool, drop: bool
) -> tuple[Any, Any]:
    """Divide the values of nodes: the divisors, and which values were raised to the floor.

    The largest value of a node becomes the exponential of the lift. With `drop` values below the
    floor become zero.
    """
    fused = None if signed or drop else fused_at(values)
    if fused is not None:
        return fused.divide(values, level.unit_places, floor, lift)
    tops = _tops(level, values.abs() if signed else values)
    tops = tops * float(np.exp(-lift)) + (tops == 0)
    nonzero = None if floor is None else values != 0
    values.copy_(level.divided(values, tops))
    if nonzero is None:
        return tops, None
    small = nonzero & ((values.abs() if signed else values) < floor)
    values.masked_fill_(small, 0.0 if drop else floor)
    return tops, small


def differentiable(
    levels: Any, atoms: Any, bounds: tuple[float, float, bool]
) -> tuple[Any, Any, bool]:
    """The values of the roots of a joint circuit, and their log-scales, with gradients.

    Also whether some value was too small, and is zero now.
    """
    values, scale, clamped = atoms[:0], None, False
    floor = float(np.exp(-levels.room))
    cat = namespace(atoms).cat
    for level, (is_divided, is_checked) in zip(
        levels.levels, levels.ranges(0.0, bounds), strict=True
    ):
        products = atoms
        if level.inputs is not None:
            left, right = level.pair(values) if level.views else values[level.inputs]
            products = (left * right).reshape(-1, atoms.shape[1])
        parts = [stack.apply(products, None) for stack in level.stacks]
        here = cat([products[: level.n_passed], *parts]) if level.n_passed else cat(parts)
        if is_divided:
            tops = _tops(level, here.detach().abs())
            tops = tops + (tops == 0)
            here, more = level.divided(here, tops), tops.log().sum(axis=0)
            scale = more if scale is None else scale + more
            if is_checked:
                small = (here != 0) & (here.abs() < floor)
                clamped = clamped or bool(small.any())
                here = here.masked_fill(small, 0.0)
        values = cat([values, here])
    return values[levels.roots], scale, clamped


def _tops(level: Level, values: Any) -> Any:
    """The largest of every node's values, (nodes, rows)."""
    if level.height:
        return values.view(len(level.nodes), level.height, -1).amax(1)
    tops = values.new_zeros((len(level.nodes), values.shape[1]))
    nodes: Any = level.node_of_unit
    return tops.scatter_reduce_(0, nodes[:, None].expand_as(values), values, "amax")


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


def back(level: Level, units: Any, sent: Any) -> None:
    """Write the derivatives in a level's products, given those in its units."""
    if not _is_pulled_at_once(level, units):
        sent[: level.n_passed] = units[: level.n_passed]
    for stack in level.stacks:
        stack.apply(units, sent, turned=True)
    edges = level.edges
    below = sent[level.sparse_products].zero_()
    if edges.weights.shape[0]:
        terms = units[level.sparse_units].index_select(0, edges.units).mul_(edges.weights[:, None])
        below.index_add_(0, edges.products, terms)


def _is_pulled_at_once(level: Level, units: Any) -> bool:
    """Whether one launch sends the derivatives in products to their inputs."""
    return level.is_used_once and level.inputs is not None and fused_at(units) is not None


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
        if level.is_used_once:
            derivatives.index_copy_(0, own, flow)
        else:
            derivatives.index_add_(0, own, flow)


def edge_dots(level: Level, units: Any, products: Any) -> Any:
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
        tables = levels.tables(stack, uses)
        own.copy_(tables[..., :-1]).add_(tables[..., -1:])
    if edges.shape[0]:
        unknown = uses[levels.last_entries[level.sparse_units]]
        edges.copy_(uses[levels.edge_entries]).add_(unknown.index_select(0, level.edges.units))


def logs(values: Any) -> Any:
    """The logs of values in double precision, -inf for zeros."""
    return values.to(namespace(values).float64).log()
