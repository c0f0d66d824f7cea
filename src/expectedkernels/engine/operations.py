"""The steps of passes over one layer, in NumPy and in torch, and layers in tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import groupby
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from expectedkernels.arrays import as_like, is_on_gpu, namespace, take
from expectedkernels.engine.layers import Edges, Layer, Layers, Stack
from expectedkernels.engine.replay import Captured, total_bytes

FUSED_ROWS = 16
"""For fewer rows, launches that take the rows of one unit together have too little to do."""
GPU_SHARE, MOST_ROWS = 8, 2**15
"""Values may take one part in so many of a GPU's memory; how many rows are worked on at once."""


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
class TensorLayers(Layers):
    """The layers of a circuit with numbers and the indices that passes use in tensors.

    Attributes
    ----------
    on_cpu : Layers
    bases : int tensor
        Where the table of every input unit begins in a list of all of them, in which every unit
        has one entry more than its variable has states: their sum.
    """

    on_cpu: Any = None
    bases: Any = None

    @property
    def is_remote(self) -> bool:
        """Whether the numbers are on a GPU."""
        return is_on_gpu(self.like)

    def all_edges(self, number: int) -> Edges:
        """The edges of all units of a layer, sent once."""
        kept = vars(self.layers[number])
        if "all_edges" not in kept:
            kept["all_edges"] = _sent_edges(self.on_cpu.layers[number].all_edges, self.like)
        return kept["all_edges"]

    def most_rows(self, max_bytes: float) -> int:
        """How many rows a pass takes at once on a GPU: as many as memory allows."""
        widest = max(2 * layer.n_products + layer.edges.weights.shape[0] for layer in self.layers)
        size = 3 * self.n_units + self.n_products + 3 * widest + 2 * self.n_atoms
        margin = min(max_bytes, total_bytes(self.like) / GPU_SHARE)
        most = margin // (self.like.element_size() * size)
        return int(max(1, min(most, MOST_ROWS)))

    @cached_property
    def table(self) -> Any:
        """All entries of the tables of input units, and behind those of every unit their sum."""
        layer = self.layers[0]
        sizes = (prod(self.matrices[node].shape) for node in self.on_cpu.layers[0].nodes)
        table = self.like.new_zeros(self.bases.shape[0] + sum(sizes))
        for stack in layer.stacks:
            tables = self.tables(stack, table)
            tables[..., :-1] = stack.weights
            tables[..., -1] = stack.weights.sum(axis=2)
        edges = layer.edges
        if edges.weights.shape[0]:
            table[self.edge_entries] = edges.weights
            ends = self.last_entries[layer.sparse_units]
            table.index_add_(0, ends.index_select(0, edges.units), edges.weights)
        return table

    def tables(self, stack: Stack, entries: Any) -> Any:
        """A stack's part of a list of the entries of tables: every unit's, and behind its sum."""
        n, height, width = stack.weights.shape
        first = int(self.on_cpu.layers[0].table_bases[stack.units.start]) if n * height else 0
        return entries[first : first + n * height * (width + 1)].view(n, height, width + 1)

    @cached_property
    def edge_entries(self) -> Any:
        """The places of the edges of input units among the entries of tables."""
        layer = self.on_cpu.layers[0]
        edges, at = layer.edges, layer.sparse_units
        first = layer.product_starts[layer.node_of_unit[at]] - layer.sparse_products.start
        entries = layer.table_bases[at][edges.units] + edges.products - first[edges.units]
        return as_like(entries, self.bases)

    @cached_property
    def last_entries(self) -> Any:
        """The place of the sum of every input unit in the list of tables."""
        layer = self.on_cpu.layers[0]
        widths = np.repeat(np.diff(layer.product_starts), np.diff(layer.unit_starts))
        return self.bases + as_like(widths, self.bases)

    @cached_property
    def leaf_variables(self) -> Any:
        """The variable of every leaf."""
        return as_like(self.on_cpu.vtree.variable[self.on_cpu.layers[0].nodes], self.bases)

    @cached_property
    def leaf_states(self) -> Any:
        """The number of atoms of every leaf, (leaves, 1)."""
        return as_like(np.diff(self.on_cpu.layers[0].product_starts)[:, None], self.bases)

    @cached_property
    def captured(self) -> dict[Any, Captured]:
        """Passes that were made more than once."""
        return {}

    @cached_property
    def atom_numbers(self) -> tuple[Any, Any, Any]:
        """The leaf of every atom; its number there and how many there are, (atoms, 1)."""
        leaf, *numbers = self.on_cpu.atom_numbers
        parts = (leaf, *(x[:, None] for x in numbers))
        leaf, number, size = (as_like(part, self.bases) for part in parts)
        return leaf, number, size

    def entries_at(self, states: Any) -> Any:
        """The places in the list of tables of input units in every row, (units, rows)."""
        return self.bases[:, None] + states.index_select(0, self.layers[0].node_of_unit)


def tensor_layers(on_cpu: Layers, like: Any) -> TensorLayers:
    """The layers with their numbers as tensors of the type and at the place of another one."""
    made = []
    for layer in on_cpu.layers:
        stacks = []  # of one shape together: launches cost more than copies
        for _, group in groupby(layer.stacks, key=lambda stack: stack.weights.shape[1:]):
            some = list(group)
            weights = like.new_tensor(np.concatenate([stack.weights for stack in some]))
            ends = ((x.units, x.products) for x in (some[0], some[-1]))
            places = (slice(a.start, b.stop) for a, b in zip(*ends, strict=True))
            stacks.append(Stack(weights, *places))
        sent = layer_to_device(layer, like)
        new = replace(sent, stacks=tuple(stacks), edges=_sent_edges(layer.edges, like))
        vars(sent)["is_used_once"] = layer.is_used_once
        made.append(new.with_known(sent))
    bases = as_like(on_cpu.layers[0].table_bases, like)
    known = (on_cpu.unit_starts, on_cpu.bounds, on_cpu.matrices)
    return TensorLayers(on_cpu.vtree, tuple(made), *known, on_cpu=on_cpu, bases=bases)


def layer_to_device(layer: Layer, like: Any) -> Layer:
    """The layer with its indices in tensors on the device of another one, without edges."""
    inputs = None if layer.inputs is None else as_like(layer.inputs, like)
    new = replace(layer, inputs=inputs, edges=replace(layer.edges, weights=like[:0]))
    vars(new)["node_of_unit"] = as_like(layer.node_of_unit, like)
    vars(new)["unit_places"] = as_like(np.ascontiguousarray(layer.unit_starts), like)
    return new


def _sent_edges(edges: Edges, like: Any) -> Edges:
    """The edges in tensors like another one."""
    starts, products = (as_like(x, like) for x in (edges.starts, edges.products))
    new = Edges(starts, products, like.new_tensor(edges.weights))
    vars(new)["units"] = as_like(edges.units, like)
    return new


class Workspace:
    """Memory that one chunk of rows leaves to the next: fresh memory is slow at first touch."""

    def __init__(self, like: Any) -> None:
        self._like = like
        self._held: dict[Any, Any] = {}

    def array(self, key: Any, shape: tuple[int, ...]) -> Any:
        """An array of a shape with anything in it; what had the same key is gone."""
        if not isinstance(self._like, np.ndarray):  # torch keeps memory by itself
            return self._like.new_empty(shape)
        if len(shape) == 1:  # of one row: not worth it
            return np.empty(shape)
        size = prod(shape)
        held = self._held.get(key)
        if held is None or held.size < size:
            held = self._held[key] = np.empty(size)
        return held[:size].reshape(shape)


@cache
def _fused() -> ModuleType | None:
    """Steps of passes that are one launch each; None where Triton is not installed."""
    try:
        from expectedkernels.engine import fused
    except ImportError:
        return None
    return fused


def fused_at(values: Any, least: int = FUSED_ROWS) -> ModuleType | None:
    """Steps of one launch each for values of many rows; None if they are not on a GPU."""
    return _fused() if is_on_gpu(values) and values.shape[1] >= least else None


def _fused_for(layer: Layer, values: Any, turned: bool = False) -> ModuleType | None:
    """Fused steps for the products of a layer, or (`turned`) for the derivatives in these.

    They also write what is passed to or from units without weights.
    """
    if isinstance(values, np.ndarray) or layer.inputs is None or layer.views is not None:
        return None
    return fused_at(values) if layer.is_used_once or not turned else None


def products(found: Any, number: int, work: Workspace, place: int) -> tuple[Any, Any]:
    """The values of the inputs of a layer's products, (2, products, ...), and of the products.

    No inputs, and the atoms, at the lowest layer. In torch inputs are taken anew on the way back.
    """
    layer, values = found.layers.layers[number], found.values
    if layer.inputs is None:
        atoms = found.atoms.values
        return None, (found.layers, atoms) if isinstance(atoms, States) else atoms
    tail = values.shape[1:]
    if layer.views is not None:
        left, right = layer.pair(values)
        made = work.array(("products", place), (layer.n_products, *tail))
        namespace(values).multiply(left, right, out=made.reshape(left.shape))
        return None, made
    if isinstance(values, np.ndarray):
        if values.ndim == 1:
            pair = values.take(layer.inputs)
            return pair, pair[0] * pair[1]
        pair = work.array(("inputs", place), (2, layer.n_products, *tail))
        made = work.array(("products", place), (layer.n_products, *tail))
        # indices are in range; other modes would copy
        values.take(layer.inputs, axis=0, out=pair, mode="clip")
        return pair, np.multiply(pair[0], pair[1], out=made)
    fused = _fused_for(layer, values)
    if fused is not None:
        here = values[layer.start : layer.stop]
        return None, fused.products(values, layer.inputs, here, layer.n_passed)
    left, right = layer.inputs
    return None, values.index_select(0, left).mul_(values.index_select(0, right))


def write_sums(layer: Layer, x: Any, out: Any, turned: bool = False) -> None:
    """Write the weighted sums of a layer's products; `turned`, of the derivatives in its units."""
    if isinstance(x, tuple):  # the states of variables: entries of tables
        layers, atoms = x
        fused = fused_at(out)
        if fused is not None:
            fused.look_up(atoms.states, layer.node_of_unit, layers.bases, layers.table, out)
        else:
            out.copy_(layers.table[layers.entries_at(atoms.states)])
        return
    if layer.n_passed and _fused_for(layer, out, turned) is None:
        out[: layer.n_passed] = x[: layer.n_passed]
    for stack in layer.stacks:
        stack.apply(x, out, turned)
    edges, source, goal = layer.edges, layer.sparse_products, layer.sparse_units
    if goal.start == goal.stop:
        return
    rows, columns = edges.units, edges.products
    if turned:
        source, goal, rows, columns = goal, source, columns, rows
    if not isinstance(x, np.ndarray):
        terms = x[source].index_select(0, columns).mul_(edges.weights[:, None])
        out[goal].zero_().index_add_(0, rows, terms)
    elif x.ndim == 1:
        out[goal] = np.bincount(rows, x[source][columns] * edges.weights, goal.stop - goal.start)
    else:
        out[goal] = (layer.back if turned else layer.forth) @ x[source]


def divide(
    layer: Layer, values: Any, floor: float | None, offset: float, signed: bool, drop: bool
) -> tuple[Any, Any]:
    """Divide the values of nodes: the divisors, and which values were clamped to the floor.

    The largest value of a node becomes the exponential of the offset. With `drop` values below the
    floor become zero.
    """
    in_numpy = isinstance(values, np.ndarray)
    fused = None if in_numpy or signed or drop else fused_at(values)
    if fused is not None:
        return fused.divide(values, layer.unit_places, floor, offset)
    maxima = _maxima(layer, abs(values) if signed else values)
    if offset:
        maxima *= float(np.exp(-offset))
    maxima += maxima == 0
    nonzero = None if floor is None else values != 0  # before the division, which may lose some
    layer.divided(values, maxima, out=values)
    if nonzero is None:
        return maxima, None
    small = nonzero & ((abs(values) if signed else values) < floor)
    if not in_numpy:
        values.masked_fill_(small, 0.0 if drop else floor)
    elif small.any():
        values[small] = 0.0 if drop else floor
    else:
        small = None
    return maxima, small


def _maxima(layer: Layer, values: Any) -> Any:
    """The largest of every node's values, (nodes, ...)."""
    n, starts = len(layer.nodes), layer.unit_starts
    if values.ndim == 1:
        return np.maximum.reduceat(values, starts[:-1])
    if layer.height:
        parts = values.reshape(n, layer.height, -1)
        return parts.max(1) if isinstance(parts, np.ndarray) else parts.amax(1)
    if not isinstance(values, np.ndarray):
        nodes: Any = layer.node_of_unit
        maxima = values.new_zeros((n, values.shape[1]))
        return maxima.scatter_reduce_(0, nodes[:, None].expand_as(values), values, "amax")
    sizes = np.diff(starts)
    if n <= int(sizes.max()):
        return np.maximum.reduceat(values, starts[:-1])
    maxima = values[starts[:-1]]
    for i in range(1, int(sizes.max())):
        longer = np.flatnonzero(sizes > i)
        maxima[longer] = np.maximum(maxima[longer], values[starts[longer] + i])
    return maxima


def differentiable(
    layers: Any, atoms: Any, bounds: tuple[float, float, bool]
) -> tuple[Any, Any, bool]:
    """The values of the roots of a joint circuit, and their log-scales, with gradients.

    Also whether some value was too small, and is zero now.
    """
    values, scale, clamped = atoms[:0], None, False
    floor = float(np.exp(-layers.margin))
    cat = namespace(atoms).cat
    for layer, (is_divided, is_checked) in zip(
        layers.layers, layers.ranges(0.0, bounds), strict=True
    ):
        products = atoms
        if layer.inputs is not None:
            left, right = layer.pair(values) if layer.views else values[layer.inputs]
            products = (left * right).reshape(-1, atoms.shape[1])
        parts = [stack.apply(products, None) for stack in layer.stacks]
        here = cat([products[: layer.n_passed], *parts]) if layer.n_passed else cat(parts)
        if is_divided:
            maxima = _maxima(layer, here.detach().abs())
            maxima = maxima + (maxima == 0)
            here, more = layer.divided(here, maxima), maxima.log().sum(axis=0)
            scale = more if scale is None else scale + more
            if is_checked:
                small = (here != 0) & (here.abs() < floor)
                clamped = clamped or bool(small.any())
                here = here.masked_fill(small, 0.0)
        values = cat([values, here])
    return values[layers.roots], scale, clamped


def pull(found: Any, number: int, here: Any, sent: Any, derivatives: Any, work: Workspace) -> None:
    """Write the derivatives in the inputs of a layer's products, given those in the products."""
    layer, values = found.layers.layers[number], found.values
    if isinstance(values, np.ndarray):
        inputs = found.inputs[number]
        margin = work.array("flow", inputs.shape) if sent.ndim > 1 else None
        flow = np.multiply(sent, inputs[::-1], out=margin)
        used, matrix, place = layer.uses
        flow = flow.reshape(-1, *flow.shape[2:])
        if matrix is not None:
            flow = matrix @ flow if flow.ndim > 1 else np.bincount(place, flow, len(used))
        derivatives[used] = flow
        return
    fused: Any = _fused_for(layer, values, turned=True)
    if fused is not None:
        fused.pull(values, layer.inputs, here, sent, derivatives, layer.n_passed)
        return
    left, right = layer.inputs
    for own, other in ((left, right), (right, left)):
        flow = values.index_select(0, other).mul_(sent)
        if layer.is_used_once:
            derivatives.index_copy_(0, own, flow)
        else:
            derivatives.index_add_(0, own, flow)


def times_atoms(found: Any, derivatives: Any) -> Any:
    """The derivatives in atoms, multiplied by the values of these."""
    atoms = found.atoms.values
    if isinstance(atoms, States):
        leaf, number, size = found.layers.atom_numbers
        states = atoms.states.index_select(0, leaf)
        return derivatives.masked_fill_((states != number) & (states != size), 0.0)
    derivatives *= atoms
    return derivatives


def normalised(layers: Layers, terms: Any) -> Any:
    """The terms of atoms over the sums of those of their variables."""
    leaf, starts = layers.atom_numbers[0], layers.layers[0].product_starts[:-1]
    if isinstance(terms, np.ndarray):
        totals = np.add.reduceat(terms, starts)
    else:
        totals = terms.new_zeros((len(starts), terms.shape[1])).index_add_(0, leaf, terms)
    terms /= take(totals, leaf, 0)
    return terms


def segment_sums(terms: Any, segments: Any, n: int) -> Any:
    """The sums of the terms of every segment, given the segment of every term."""
    if isinstance(terms, np.ndarray):
        return np.bincount(segments, terms, n)
    return terms.new_zeros(n).index_add_(0, segments, terms)


def unit_sums(layer: Layer, terms: Any) -> Any:
    """For every edge of sparse nodes, the sum of the terms of all edges of its unit."""
    units = layer.edges.units
    return segment_sums(terms, units, layer.edges.starts.shape[0] - 1)[units]


def write_dots(found: Any, number: int, units: Any, stacks: Sequence[Any], edges: Any) -> None:
    """Write the sums over rows of derivatives times values, for all weights of a layer."""
    layer, products = found.layers.layers[number], found.products[number]
    if isinstance(products, tuple):
        _write_table_dots(found.layers, products[1], units, stacks, edges)
        return
    xp = namespace(units)
    for out, stack in zip(stacks, layer.stacks, strict=True):
        n, height, width = stack.weights.shape
        above = units[stack.units].reshape(n, height, -1)
        below = products[stack.products].reshape(n, width, -1)
        xp.matmul(above, below.swapaxes(1, 2), out=out)
    n = edges.shape[0]
    if n:
        above = take(units[layer.sparse_units], layer.edges.units, 0)
        below = take(products[layer.sparse_products], layer.edges.products, 0)
        edges[:] = xp.vecdot(above.reshape(n, -1), below.reshape(n, -1))


def _write_table_dots(
    layers: TensorLayers, atoms: States, units: Any, stacks: Sequence[Any], edges: Any
) -> None:
    """The same of input units: what rows add to the entries of their states."""
    layer, uses = layers.layers[0], layers.table.new_zeros(layers.table.shape)
    fused = fused_at(units)
    if fused is not None:
        fused.add_up(atoms.states, layer.node_of_unit, layers.bases, units, uses)
    else:
        uses.index_add_(0, layers.entries_at(atoms.states).reshape(-1), units.reshape(-1))
    for own, stack in zip(stacks, layer.stacks, strict=True):
        tables = layers.tables(stack, uses)
        own.copy_(tables[..., :-1]).add_(tables[..., -1:])
    if edges.shape[0]:
        unknown = uses[layers.last_entries[layer.sparse_units]]
        edges.copy_(uses[layers.edge_entries]).add_(unknown.index_select(0, layer.edges.units))
