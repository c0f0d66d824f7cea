"""What passes over levels do with tensors, on a host or a card; `on_arrays` is the same in NumPy.

Indices are sent once, with the levels. Which levels are divided, and which may hold values that
have to be raised, is known before a pass from bounds alone: no number is read back during one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from expectedkernels.arrays import is_on_card, namespace
from expectedkernels.engine.tensors import Ranges, States, TensorLevel, TensorLevels, renumbered

__all__ = ["renumbered"]  # one of the operations, as the functions below


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
