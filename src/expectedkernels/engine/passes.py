"""Passes over layers: forward, backward, counts, and passes in logarithms."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from math import inf
from typing import Any

import numpy as np

from expectedkernels.arrays import namespace
from expectedkernels.engine import operations as ops
from expectedkernels.engine.layers import MOST_MASS, SINGLE_MASS, Edges, Layers, double_logs

CACHED_BYTES = 2**22
"""Rows are worked on in chunks whose values fit into so much memory: that of a cache."""
LEVEL_ENTRIES, LARGEST_BYTES = 40_000, 2**26
"""Where layers are small, chunks grow until a layer has so many entries, or values fill memory."""
FEWEST, MOST = 32, 1024
"""How many rows a chunk has at least and at most."""


@dataclass(frozen=True, eq=False)
class LeafValues:
    """What rows say of the atoms (states, components) of all variables.

    Attributes
    ----------
    values : array of shape (atoms, rows), or (atoms,) for one row
        In the order of the products of the lowest layer.
    scale : array of shape (leaves, rows) or (leaves,), or None
        Logs of what the values of every variable were divided by; None: they are 0 or 1.
    low : array of shape (leaves,), or None
        The log of the smallest value that is not zero.
    clamped : bool array like values, or None
        The entries that were too small and got larger.
    """

    values: Any
    scale: Any = None
    low: Any = None
    clamped: Any = None


@dataclass(eq=False)
class Forward:
    """What a forward pass found.

    Attributes
    ----------
    layers : Layers
    atoms : LeafValues
    values : array of shape (units, rows) or (units,)
        Mantissas: to be multiplied by the exponential of their node's scale.
    inputs : list of arrays of shape (2, products, ...)
        For every layer the values of the inputs of its products (None at the lowest).
    products : list of arrays of shape (products, ...)
    maxima : dict from layers to arrays of shape (nodes, ...)
        What the values of a layer's nodes were divided by.
    clamped : dict from layers to bool arrays of shape (units, ...)
    scale : array of shape (rows,) or (), or None if it is zero
        What is to be added to the logs of the roots' values.
    in_logs : bool
        Whether atoms and values are logarithms; nothing else is kept then.
    """

    layers: Layers
    atoms: LeafValues
    values: Any
    inputs: list[Any] = field(default_factory=list)
    products: list[Any] = field(default_factory=list)
    maxima: dict[int, Any] = field(default_factory=dict)
    clamped: dict[int, Any] = field(default_factory=dict)
    scale: Any = None
    in_logs: bool = False

    @property
    def log_roots(self) -> Any:
        """The logs of the values of the roots, (roots, rows) or (roots,)."""
        logs = double_logs(self.values[self.layers.roots])
        return logs if self.scale is None else logs + self.scale

    def sums(self, number: int) -> Any:
        """The values of a layer's units on the scale of its products."""
        layer = self.layers.layers[number]
        values = self.values[layer.start : layer.stop]
        if number not in self.maxima:
            return values
        return values * self.maxima[number][layer.node_of_unit]

    @property
    def possible(self) -> Any:
        """Which rows have a positive value (of the last root)."""
        return self.values[-1] > (-inf if self.in_logs else 0)

    def product_values(self, number: int) -> Any:
        """The values of a layer's products, or of all atoms, (products, ...)."""
        if self.in_logs:
            return product_logs(self.layers, number, self.values, self.atoms.values)
        products = self.products[number]
        if not isinstance(products, tuple):
            return products
        return ops.times_atoms(self, self.values.new_ones(self.atoms.values.shape))

    @property
    def clamped_mark(self) -> Any:
        """Whether some value was clamped, where the values are; None if nothing can have been."""
        masks = [x for x in (*self.clamped.values(), self.atoms.clamped) if x is not None]
        return reduce(operator.or_, [mask.any() for mask in masks]) if masks else None


def chunk_rows(layers: Layers, max_bytes: float = inf, values_only: bool = False) -> int:
    """How many rows are best worked on at once, forward and backward or (`values_only`) forward."""
    if isinstance(layers, ops.TensorLayers):
        if layers.is_remote:
            return layers.most_rows(max_bytes)
        layers = layers.on_cpu
    kept = 0 if values_only else 2 * layers.n_products
    size = 8 * (layers.n_units + layers.n_atoms + kept)
    # a layer takes some time however few its rows are
    busy = LEVEL_ENTRIES * len(layers.layers) / max(1.0, layers.n_entries)
    best = max(CACHED_BYTES // size, FEWEST, min(busy, LARGEST_BYTES // size))
    return int(max(1, min(best, MOST, max_bytes // (2 * size))))


def forward(
    layers: Layers,
    atoms: LeafValues,
    work: Any = None,
    values_only: bool = False,
    offset: float = 0.0,
    bounds: tuple[float, float, bool] = (0.0, 0.0, False),
    drop: bool = False,
) -> Forward:
    """The values of all units. The circuit has no negative weights, and `layers.margin` > 0.

    With a workspace, what is found is good until the next pass that uses it. With `values_only`,
    there is no backward pass: inputs and products of layers are not kept. With an `offset` (in
    tensors, for a backward pass that is not exact), values of divided nodes may be smaller beside
    their largest, whose log it is, by as much. `bounds` are those of the logs of atoms without a
    scale, and whether values may be negative. With `drop`, values that are too small become zero.
    """
    work = ops.Workspace(layers.like) if work is None else work
    values = work.array("values", (layers.n_units, *atoms.values.shape[1:]))
    found = Forward(layers, atoms, values)
    given = atoms.scale is not None
    ranges = layers.ranges(offset, (atoms.low, 0.0, False) if given else bounds)
    steps = enumerate(zip(layers.layers, ranges, strict=True))
    for number, (layer, (is_divided, is_clamped)) in steps:
        pair, products = ops.products(found, number, work, 0 if values_only else number)
        if not values_only:
            found.inputs.append(pair)
            found.products.append(products)
        here = values[layer.start : layer.stop]
        ops.write_sums(layer, products, here)
        if is_divided:
            floor = float(np.exp(-layers.margin)) if is_clamped else None
            found.maxima[number], small = ops.divide(layer, here, floor, offset, bounds[2], drop)
            if small is not None:
                found.clamped[number] = small
    parts = [atoms.scale] if given else []
    if found.maxima:
        parts.insert(0, double_logs(namespace(values).concat([*found.maxima.values()])))
    found.scale = sum(part.sum(axis=0) for part in parts) if parts else None
    return found


@dataclass(eq=False)
class Backward:
    """What a backward pass found.

    Attributes
    ----------
    atoms : array of shape (atoms, ...)
        The derivative of the root in every atom, over the root's value.
    reliable : bool array of shape (rows,)
        Rows whose numbers are right; others left the range of plain numbers.
    """

    atoms: Any
    reliable: Any


def backward(
    found: Forward,
    exact: bool = False,
    work: Any = None,
    each: Callable[[int, Any], None] | None = None,
    to_atoms: bool = True,
    weights: Any = 1.0,
) -> Backward:
    """The derivatives of the (only) root's log in all units and atoms.

    By default rows are reliable if their posteriors are right; rows of value zero have none. With
    `exact`, all derivatives of reliable rows are right to the last digits, also those of states
    that are unlikely beside the row's own. For rows of value zero the root's derivatives stand in
    the place of its log's then. `each` is called with every layer's number and the derivatives in
    its units, on the scale of its products. Without `to_atoms` the way ends at the input units.
    Derivatives in rows are multiplied by the weights of these.
    """
    layers, values = found.layers, found.values
    work = ops.Workspace(layers.like) if work is None else work
    derivatives = work.array("derivatives", values.shape)
    derivatives[:] = 0.0
    smallest = float(np.exp(-layers.margin))
    to_atoms = to_atoms or found.atoms.clamped is not None
    sent: Any = None
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        root = values[layers.roots]
        derivatives[layers.roots] = weights / (root + (root == 0) if exact else root)
        mass: Any = 0.0
        for number in range(len(layers.layers) - 1, -1, -1):
            layer = layers.layers[number]
            here = derivatives[layer.start : layer.stop]
            positive = here > 0 if exact else None
            here, more = _undivided(found, number, here, exact)
            if more is not None:
                mass = mass + more
            if exact:  # what is made of numbers as small as that may vanish
                mass = mass + (positive & (here < smallest)).any(axis=0)
            if each is not None:
                each(number, here)
            if number == 0 and not to_atoms:
                break
            sent = work.array("sent", (layer.n_products, *values.shape[1:]))
            ops.write_sums(layer, here, sent, turned=True)
            if layer.inputs is not None:
                ops.pull(found, number, here, sent, derivatives, work)
        if found.atoms.clamped is not None:
            mass = mass + _flow(found.atoms.values, sent, found.atoms.clamped, exact)
        # a number that is not finite makes the sum so, and then the difference is not zero
        total = (sent if to_atoms else here).sum(axis=0)
        most = (SINGLE_MASS if layers.is_single else MOST_MASS) * weights
        reliable = (total - total == 0) & (mass <= most)
    return Backward(sent if to_atoms else None, reliable)


def _undivided(found: Forward, number: int, here: Any, exact: bool) -> tuple[Any, Any]:
    """The derivatives of a layer on the scale of its products, and what clamped values lose."""
    if number not in found.maxima:
        return here, None
    layer, maxima = found.layers.layers[number], found.maxima[number]
    values, small = found.values[layer.start : layer.stop], found.clamped.get(number)
    fused: Any = None if exact else ops.fused_at(values)
    if fused is not None:
        return fused.undivide(here, values, layer.unit_places, maxima, small)
    mass = None if small is None else _flow(values, here, small, exact)
    return layer.divided(here, maxima), mass


def _flow(values: Any, derivatives: Any, small: Any, exact: bool) -> Any:
    """What flows through clamped values in every row, or with `exact` their number."""
    if exact:
        return small.sum(axis=0)
    flow = values * derivatives
    xp = namespace(flow)
    return xp.where(small, flow, xp.zeros_like(flow)).sum(axis=0)


def weight_dots(found: Forward, weights: Any, work: Any = None) -> tuple[Backward, Any]:
    """The backward pass in weighted rows, and for all weights, as one list, what rows say of them.

    That is the sum over rows of the derivative in the unit times the value of the product: times
    the weight, how often the edge is expected to be used.
    """
    layers = found.layers
    dots = namespace(layers.flat).empty_like(layers.flat)
    parts = layers.split(dots)

    def each(number: int, units: Any) -> None:
        ops.write_dots(found, number, units, *parts[number])

    return backward(found, work=work, each=each, to_atoms=False, weights=weights), dots


Sums = Callable[[Edges, Any, Any], Any]
"""From edges, the logs of their weights (None: all are one) and those of products to those of
units: of sums, or of the largest terms."""


def largest(edges: Edges, weights: Any, products: Any) -> Any:
    """The logs of the largest terms of units.

    Examples
    --------
    >>> edges = Edges(np.array([0, 2]), np.array([0, 1]), np.ones(2))
    >>> largest(edges, np.array([-1.0, -2.0]), np.array([-3.0, -1.0])).tolist()
    [-3.0]
    """
    terms = products[edges.products] + weights.reshape(-1, *[1] * (products.ndim - 1))
    if not isinstance(terms, np.ndarray):
        units: Any = edges.units
        out = terms.new_full((len(edges.starts) - 1, terms.shape[1]), -inf)
        return out.scatter_reduce_(0, units[:, None].expand_as(terms), terms, "amax")
    filled = edges.starts[1:] > edges.starts[:-1]
    found = np.maximum.reduceat(terms, edges.starts[:-1][filled])
    if filled.all():
        return found
    out = np.full((len(filled), *terms.shape[1:]), -inf)
    out[filled] = found
    return out


def forward_over(sums: Sums, layers: Layers, atoms: Any) -> Any:
    """The logs of the values of all units, (units, ...), given those of atoms, (atoms, ...)."""
    shape = (layers.n_units, *atoms.shape[1:])
    values: Any = np.empty(shape) if isinstance(atoms, np.ndarray) else atoms.new_empty(shape)
    for number, layer in enumerate(layers.layers):
        products = product_logs(layers, number, values, atoms)
        found = sums(layers.all_edges(number), layers.log_weights[number], products)
        values[layer.start : layer.stop] = found
    return values


def product_logs(layers: Layers, number: int, values: Any, atoms: Any) -> Any:
    """The logs of a layer's products (atoms at the lowest), given those of all units below."""
    inputs = layers.layers[number].inputs
    return atoms if inputs is None else values[inputs[0]] + values[inputs[1]]


def backward_over(sums: Sums, layers: Layers, values: Any) -> Any:
    """The logs of the derivatives of the (only) root in all atoms, (atoms, ...)."""
    found = np.full(values.shape, -inf)
    found[layers.roots] = 0.0
    sent: Any = None
    for layer, own in zip(layers.layers[::-1], layers.log_weights[::-1], strict=True):
        order, by_product = layer.by_product
        sent = sums(by_product, own[order], found[layer.start : layer.stop])
        if layer.inputs is not None:
            used, matrix, _ = layer.uses
            flow = sent + values[layer.inputs[::-1]]
            flow = flow.reshape(-1, *flow.shape[2:])
            if matrix is not None:
                flow = sums(Edges(matrix.indptr, matrix.indices, None), None, flow)
            found[used] = flow
    return sent
