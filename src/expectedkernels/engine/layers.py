"""The nodes of a vtree in layers, with the weights of each layer stacked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise
from math import inf, prod
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.arrays import namespace, to_numpy
from expectedkernels.engine.blocks import runs, tidy
from expectedkernels.vtree import Vtree

IntArray = np.ndarray[Any, np.dtype[np.intp]]

DENSE_SIZE, DENSE_SHARE = 256, 0.3
"""Matrices of at least this many entries, and this share of them not zero, are kept dense."""
STACKED = 64 * 64
"""On the CPU larger dense matrices are taken as they are: stacks of copies gain nothing."""
DENSE_RATE = 0.1
"""The time of one term of a dense matrix product, in terms of a sparse one."""
LARGEST_MARGIN, EXPONENTS = 300.0, 690.0
"""Logs of mantissas stay within the first, and of what is made of two of them in the second."""
MOST_MASS = 1e-16
"""Flow through clamped values up to which a row is as good as if none had been clamped."""
SINGLE_RANGE, SINGLE_MASS = (38.0, 86.0), 1e-7
"""The same in single precision."""
LEAST_MARGIN = 30.0
"""With less headroom between the smallest weight and the smallest double, logs are better."""
PASSED, DENSE, SPARSE = range(3)


@dataclass(frozen=True, eq=False)
class Stack:
    """Nodes of one layer whose weights are dense and of one shape: one stacked product.

    Attributes
    ----------
    weights : array of shape (nodes, units, products)
    units, products : slices
        Their place among the units and the products of the layer.
    """

    weights: Any
    units: slice
    products: slice

    def apply(self, x: Any, out: Any, turned: bool = False) -> None:
        """Write what the weights make of products; `turned`, of derivatives in units."""
        w, source, goal = self.weights, self.products, self.units
        if turned:
            w, source, goal = w.swapaxes(1, 2), goal, source
        n, height, width = w.shape
        inputs, place = x[source].reshape(n, width, -1), out[goal].reshape(n, height, -1)
        namespace(x).matmul(w, inputs, out=place)


@dataclass(frozen=True, eq=False)
class Edges:
    """Weighted edges from units to products, unit by unit.

    Attributes
    ----------
    starts : int array of shape (units + 1,)
    products : int array
    weights : array
    """

    starts: IntArray
    products: IntArray
    weights: Any

    @cached_property
    def units(self) -> IntArray:
        """The unit of every edge."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @cached_property
    def longest(self) -> int:
        """The most edges that a unit has."""
        return int(np.diff(self.starts).max(initial=1))


@dataclass(frozen=True, eq=False)
class Layer:
    """All nodes of one height: first those without weights, then dense, then sparse ones.

    Attributes
    ----------
    nodes : int array
    start, stop : int
        The place of the layer's units in the buffer.
    unit_starts, product_starts : int arrays of shape (nodes + 1,)
        The first unit and product of every node, counted from those of the layer.
    inputs : int array of shape (2, products), or None at height 0
        The place in the buffer of the left and right input of every product.
    n_passed : int
        How many units are a product as it is; they come first.
    stacks : tuple of Stack
    edges : Edges
        Of the sparse nodes: units and products counted from the first sparse ones.
    views : tuple of int, or None
        Where the left and right inputs of all products begin, if those of every node lie together
        and in order, left and right in turns; there are no places of inputs then.
    """

    nodes: IntArray
    start: int
    stop: int
    unit_starts: IntArray
    product_starts: IntArray
    inputs: IntArray | None
    n_passed: int
    stacks: tuple[Any, ...]
    edges: Edges
    views: tuple[int, int] | None = None

    @property
    def n_units(self) -> int:
        """The number of units."""
        return self.stop - self.start

    @cached_property
    def n_products(self) -> int:
        """The number of products, or of atoms."""
        return int(self.product_starts[-1])

    @cached_property
    def n_passed_nodes(self) -> int:
        """The number of nodes without weights; they come first."""
        return int(np.searchsorted(self.unit_starts, self.n_passed))

    @cached_property
    def sparse_units(self) -> slice:
        """The units of the sparse nodes."""
        return slice(self.n_units - len(self.edges.starts) + 1, self.n_units)

    @cached_property
    def sparse_products(self) -> slice:
        """The products of the sparse nodes."""
        first = self.stacks[-1].products.stop if self.stacks else self.n_passed
        return slice(first, self.n_products)

    @cached_property
    def forth(self) -> sparse.csr_array:
        """The weights of the sparse nodes, (units, products)."""
        edges, products = self.edges, self.sparse_products
        shape = (len(edges.starts) - 1, products.stop - products.start)
        return sparse.csr_array((edges.weights, edges.products, edges.starts), shape=shape)

    @cached_property
    def back(self) -> sparse.csr_array:
        """The weights of the sparse nodes, (products, units)."""
        return sparse.csr_array(self.forth.T)

    @cached_property
    def uses(self) -> tuple[IntArray, sparse.csr_array | None, IntArray]:
        """The units that are inputs, and how products add to them.

        The units' places in the buffer; the 0-1 matrix from (left and right) inputs to these, None
        if no unit is used twice (places come in the order of the inputs then); and the number of
        the unit of every input.
        """
        flat = self.inputs.reshape(-1)  # type: ignore[union-attr]
        used, number = np.unique(flat, return_inverse=True)
        if len(used) == len(flat):
            return flat, None, number
        entries = (np.ones(len(flat)), (number, np.arange(len(flat))))
        return used, sparse.csr_array(entries, shape=(len(used), len(flat))), number

    @cached_property
    def is_used_once(self) -> bool:
        """Whether no unit is an input of two products."""
        return self.inputs is not None and self.uses[1] is None

    @cached_property
    def height(self) -> int:
        """The number of units of every node, 0 if nodes differ in it."""
        sizes = np.diff(self.unit_starts)
        return int(sizes[0]) if (sizes == sizes[0]).all() else 0

    @cached_property
    def unit_places(self) -> Any:
        """Where the units of every node begin, where the other arrays are."""
        return self.unit_starts

    @cached_property
    def node_of_unit(self) -> IntArray:
        """The node of every unit, counted within the layer."""
        return np.repeat(np.arange(len(self.nodes)), np.diff(self.unit_starts))

    @cached_property
    def all_edges(self) -> Edges:
        """The edges of all units of the layer; those without weights have one of weight one."""
        if not self.n_passed and not self.stacks:
            return self.edges
        one, own = np.ones(self.n_passed), self.edges
        parts: list[Any] = [(one, np.arange(self.n_passed), one)]
        for stack in self.stacks:
            n, height, width = stack.weights.shape
            flat = stack.weights.reshape(n * height, width)
            row, column = np.nonzero(flat)
            products = column + stack.products.start + row // height * width
            parts.append((np.bincount(row, minlength=n * height), products, flat[row, column]))
        first = self.sparse_products.start
        return concat_edges([*parts, (np.diff(own.starts), own.products + first, own.weights)])

    @cached_property
    def by_product(self) -> tuple[IntArray, Edges]:
        """The order of all edges by their products, and edges from products to units."""
        edges = self.all_edges
        counts = np.bincount(edges.products, minlength=self.n_products)
        order = np.argsort(edges.products, kind="stable")
        starts = np.concatenate([[0], np.cumsum(counts)])
        return order, Edges(starts, edges.units[order], edges.weights[order])

    @cached_property
    def table_bases(self) -> Any:
        """Where the entries of every input unit begin, with one more for each unit."""
        widths = np.repeat(np.diff(self.product_starts), np.diff(self.unit_starts)) + 1
        return np.cumsum(widths) - widths

    def divided(self, values: Any, maxima: Any, out: Any = None) -> Any:
        """The values of units over those of their nodes, written to `out` if there is one."""
        divide = namespace(values).divide
        if not self.height:
            return divide(values, maxima[self.node_of_unit], out=out)
        shape = len(self.nodes), self.height, -1
        out = None if out is None else out.reshape(shape)
        parts = divide(values.reshape(shape), maxima.reshape(shape[0], 1, -1), out=out)
        return parts.reshape(values.shape)

    def pair(self, values: Any) -> tuple[Any, Any]:
        """The values of the left and right inputs of all products, as views."""
        (a, b), n = self.views, len(self.nodes)  # type: ignore[misc]
        width, tail = self.n_products // n, values.shape[1:]
        if n == 1:
            return values[a : a + width], values[b : b + width]
        first = min(a, b)
        both = values[first : first + 2 * self.n_products].reshape(n, 2, width, *tail)
        return both[:, int(a > b)], both[:, int(b > a)]

    def with_weights(self, stacks: Sequence[Any], weights: Any) -> Layer:
        """The layer with other weights of its stacks and edges; what is known of places stays."""
        own = tuple(replace(s, weights=w) for s, w in zip(self.stacks, stacks, strict=True))
        edges = replace(self.edges, weights=weights)
        vars(edges).update({k: v for k, v in vars(self.edges).items() if k != "weights"})
        return replace(self, stacks=own, edges=edges).with_known(self)

    def with_known(self, other: Layer) -> Layer:
        """The layer with what is known of the places of units and inputs of another one."""
        kept = ("uses", "node_of_unit", "height", "is_used_once", "unit_places")
        vars(self).update({name: vars(other)[name] for name in kept if name in vars(other)})
        return self


@dataclass(frozen=True, eq=False)
class Flat:
    """All edges of a circuit in one row: unit by unit, layer by layer.

    Attributes
    ----------
    starts : list of int
        Where the edges of every layer begin.
    units, products : int arrays
        The unit of every edge in the buffer; its product, counted from the first atom on.
    weights : array
    inputs : int array of shape (2, edges)
        The inputs of the product of every edge in the buffer; zeros at the leaves.
    nodes : int array
        The vtree node of every unit in the buffer.
    """

    starts: list[int]
    units: Any
    products: Any
    weights: Any
    inputs: Any
    nodes: Any


@dataclass(frozen=True, eq=False)
class Layers:
    """The layers of a circuit, and where its nodes lie.

    Attributes
    ----------
    vtree : Vtree
    layers : tuple of Layer, by height
    unit_starts : int array
        The place in the buffer of the first unit of every vtree node.
    bounds : array of shape (4, nodes)
        See `Operand.bounds`.
    matrices : sequence
        The weights of every node, None where units are products as they are.
    floor : float, or None
        What no weight is below, if weights are not those of the matrices; those of a unit add up
        to one then.
    """

    vtree: Vtree
    layers: tuple[Layer, ...]
    unit_starts: IntArray
    bounds: Any
    matrices: Sequence[Any] = ()
    floor: float | None = None

    @property
    def on_cpu(self) -> Layers:
        """The layers on the CPU."""
        return self

    @cached_property
    def like(self) -> Any:
        """An array of the type and at the place of all numbers."""
        return self.layers[0].edges.weights

    @cached_property
    def is_single(self) -> bool:
        """Whether numbers are of single precision."""
        return int(self.like.dtype.itemsize) == 4

    def all_edges(self, number: int) -> Edges:
        """The edges of all units of a layer, where the numbers are."""
        return self.layers[number].all_edges

    @cached_property
    def log_weights(self) -> list[Any]:
        """The logs of the sizes of the weights of all edges of every layer."""
        return [double_logs(abs(self.all_edges(i).weights)) for i in range(len(self.layers))]

    @cached_property
    def flat_edges(self) -> Flat:
        """The edges of all layers, one after the other."""
        parts: list[Any] = []
        starts, first = [0], 0
        for layer in self.layers:
            own = layer.all_edges
            below = np.zeros((2, len(own.products)), dtype=np.intp)
            if layer.inputs is not None:
                below = layer.inputs[:, own.products]
            nodes = layer.nodes[layer.node_of_unit]
            units = own.units + layer.start
            parts.append((units, own.products + first, own.weights, below, nodes))
            starts.append(starts[-1] + len(own.products))
            first += layer.n_products
        return Flat(starts, *(np.concatenate(x, axis=-1) for x in zip(*parts, strict=True)))

    @cached_property
    def n_units(self) -> int:
        """The number of units."""
        return self.layers[-1].stop

    @cached_property
    def n_products(self) -> int:
        """The number of products of all layers but the lowest."""
        return sum(layer.n_products for layer in self.layers[1:])

    @cached_property
    def n_watched(self) -> int:
        """The number of units whose values may leave their range, if atoms are 0 or 1."""
        pairs = zip(self.layers, self.ranges(), strict=True)
        return sum(layer.n_units for layer, (is_divided, _) in pairs if is_divided)

    @cached_property
    def n_entries(self) -> float:
        """The sum of the entries of all nodes."""
        return float(self.entries.sum())

    @cached_property
    def entries(self) -> Any:
        """How many units, products and weights every vtree node has; dense ones count little."""
        total = np.asarray([weight_cost(matrix) for matrix in self.matrices])
        for layer in self.layers:
            total[layer.nodes] += np.diff(layer.unit_starts) + 2 * np.diff(layer.product_starts)
        return total

    @cached_property
    def atom_numbers(self) -> tuple[Any, Any, Any]:
        """The leaf of every atom, its number there and how many there are."""
        sizes = np.diff(self.layers[0].product_starts)
        leaf, number = runs(np.zeros_like(sizes), sizes)
        return leaf, number, sizes[leaf]

    @cached_property
    def n_atoms(self) -> int:
        """The number of atoms."""
        return self.layers[0].n_products

    @cached_property
    def roots(self) -> slice:
        """The place of the roots in the buffer."""
        return slice(self.layers[-1].start, self.layers[-1].stop)

    @cached_property
    def signed(self) -> bool:
        """Whether there are negative weights."""
        return bool(self.bounds[3].any())

    @cached_property
    def _bounds(self) -> tuple[Any, Any, Any]:
        """The first three of the bounds, or those of weights above the floor that sum to one."""
        low, high, spread, _ = self.bounds
        if self.floor is not None:
            weighted = np.array([matrix is not None for matrix in self.matrices])
            low, high = weighted * np.log(self.floor), weighted * 1e-3  # up to rounding
            spread = np.where(spread > -inf, np.log(self.floor), -inf)
        return low, high, spread

    @cached_property
    def margin(self) -> float:
        """How far from zero the logs of mantissas may be; negative: weights are too small."""
        return log_headroom(*self._bounds[:2], self.is_single)

    @cached_property
    def known_ranges(self) -> dict[Any, list[tuple[bool, bool]]]:
        """What is known of ranges, by the arguments of `ranges`."""
        return {}

    def ranges(
        self, offset: float = 0.0, bounds: tuple[Any, float, bool] = (0.0, 0.0, False)
    ) -> list[tuple[bool, bool]]:
        """Which layers are divided, and which of these may hold values that are too small then.

        Given the bounds of the logs of atoms (the lower one may be that of every leaf), and whether
        values may be negative: sums of such have no lower bound. By default atoms are 0 or 1. Every
        node has its own bounds: those of its children added up, and of its weights.
        """
        low_atoms, high_atoms, signed = bounds
        key = (offset, bounds) if isinstance(low_atoms, (int, float)) else None
        if key in self.known_ranges:
            return self.known_ranges[key]
        vtree, margin, ranges = self.vtree, self.margin, []
        low, high = np.zeros((2, vtree.n_nodes))
        low[self.on_cpu.layers[0].nodes], high[self.on_cpu.layers[0].nodes] = low_atoms, high_atoms
        below, above, spread = self._bounds
        for layer in self.on_cpu.layers:
            nodes = layer.nodes
            if layer.inputs is not None:
                a, b = vtree.left[nodes], vtree.right[nodes]
                low[nodes], high[nodes] = low[a] + low[b], high[a] + high[b]
            low[nodes] += -inf if signed else below[nodes]
            high[nodes] += above[nodes]
            is_divided, is_clamped = low[nodes].min() < -margin or high[nodes].max() > margin, False
            if is_divided:
                # the smallest value over the largest, by both bounds or by the weights alone
                least = -inf if signed else np.maximum(low[nodes] - high[nodes], spread[nodes])
                least = np.asarray(least + offset)
                is_clamped = bool(least.min() < -margin)
                low[nodes], high[nodes] = np.maximum(least, -margin), offset
            ranges.append((bool(is_divided), is_clamped))
        if key is not None:
            self.known_ranges[key] = ranges
        return ranges

    @cached_property
    def slices(self) -> tuple[list[list[slice]], list[slice], list[tuple[slice, int]]]:
        """Where all weights lie in one list: those of the stacks and of the edges of every layer.

        Stacks come first, side by side where units have as many weights: the third are these parts,
        with the number of weights.
        """
        stacks = [[slice(0)] * len(layer.stacks) for layer in self.layers]
        every = [
            (stack.weights.shape, own, i)
            for own, layer in zip(stacks, self.layers, strict=True)
            for i, stack in enumerate(layer.stacks)
        ]
        every.sort(key=lambda stack: stack[0][2])
        groups, end = [], 0
        for width, some in groupby(every, key=lambda stack: int(stack[0][2])):
            first = end
            for shape, own, i in some:
                own[i], end = slice(end, end + prod(shape)), end + prod(shape)
            groups.append((slice(first, end), width))
        ends = np.cumsum([end, *(layer.edges.weights.shape[0] for layer in self.layers)]).tolist()
        return stacks, list(map(slice, ends[:-1], ends[1:])), groups

    def split(self, flat: Any) -> list[tuple[list[Any], Any]]:
        """The parts of such a list that belong to the stacks, and to the edges, of every layer."""
        result = []
        for layer, own, edges in zip(self.layers, *self.slices[:2], strict=True):
            pairs = zip(own, layer.stacks, strict=True)
            stacks = [flat[place].reshape(stack.weights.shape) for place, stack in pairs]
            result.append((stacks, flat[edges]))
        return result

    @cached_property
    def flat(self) -> Any:
        """All weights as one list."""
        xp, size = namespace(self.like), self.slices[1][-1].stop
        flat = xp.empty(size, dtype=self.like.dtype, device=self.like.device)
        for layer, (stacks, edges) in zip(self.layers, self.split(flat), strict=True):
            for stack, part in zip(layer.stacks, stacks, strict=True):
                part[...] = stack.weights
            edges[...] = layer.edges.weights
        return flat

    def with_weights(self, flat: Any, floor: float | None) -> Any:
        """The layers with other weights, as one list.

        With a floor no weight is below it, and those of a unit add up to one: ranges are known from
        that alone. What the circuit's matrices say of the old weights stays as it is.
        """
        pairs = zip(self.layers, self.split(flat), strict=True)
        layers = tuple(layer.with_weights(stacks, edges) for layer, (stacks, edges) in pairs)
        result = replace(self, layers=layers, floor=floor)
        kept = ["last_entries", "edge_entries", "atom_numbers", "leaf_variables", "leaf_states"]
        kept += ["slices", "stored"]
        if self.floor == floor is not None and self.is_single == result.is_single:
            kept += ["margin", "known_ranges"]
        vars(result).update({name: vars(self)[name] for name in kept if name in vars(self)})
        vars(result)["flat"] = flat
        return result

    @cached_property
    def stored(self) -> tuple[list[int], Any]:
        """The nodes with weights in the order of the list of all weights.

        And which of the numbers that they store are in that list: edges have no zeros.
        """
        stacked, nodes = list[Any](), list[int]()
        for layer, places in zip(self.on_cpu.layers, self.on_cpu.slices[0], strict=True):
            own = layer.nodes[layer.n_passed_nodes :].tolist()
            for stack, place in zip(layer.stacks, places, strict=True):
                n = len(stack.weights)
                stacked.append((place.start, own[:n]))
                own = own[n:]
            nodes += own
        edges = [stored_numbers(self.matrices[node]).reshape(-1) != 0 for node in nodes]
        dense = np.ones(self.on_cpu.slices[1][0].start, dtype=np.bool_)
        nodes = [node for _, own in sorted(stacked) for node in own] + nodes
        return nodes, np.concatenate([dense, *edges])

    def from_nodes(self, numbers: Sequence[Any]) -> Any:
        """Numbers of nodes, as their weights are stored, in the order of the list of weights."""
        nodes, kept = self.stored
        return np.concatenate([numbers[node].reshape(-1) for node in nodes])[kept]

    def by_node(self, flat: Any) -> list[Any]:
        """The same the other way round; None where nodes have no weights.

        A matrix for dense weights, one number per stored entry for sparse ones.
        """
        nodes, kept = self.stored
        own, result, first = np.zeros(len(kept)), list[Any]([None] * self.vtree.n_nodes), 0
        own[kept] = to_numpy(flat)
        for node in nodes:
            like = stored_numbers(self.matrices[node])
            result[node] = own[first : first + like.size].reshape(like.shape)
            first += like.size
        return result


def log_headroom(low: Any, high: Any, single: bool = False) -> float:
    """How far from zero the logs of plain numbers may be, by the bounds of weights of nodes."""
    largest, exponents = SINGLE_RANGE if single else (LARGEST_MARGIN, EXPONENTS)
    return min(largest, (exponents - max(-float(low.min()), float(high.max()))) / 2)


def double_logs(values: Any) -> Any:
    """The logs of values in double precision, -inf for zeros."""
    with np.errstate(divide="ignore"):
        return np.log(values) if isinstance(values, np.ndarray) else values.double().log()


def stored_numbers(matrix: Any) -> Any:
    """The numbers of a matrix as they are stored."""
    return matrix.data if sparse.issparse(matrix) else matrix


def kind_of(matrix: Any, node: int = 0) -> tuple[int, tuple[int, ...]]:
    """How the sums of a node are computed; equal kinds lie side by side, and are stacked."""
    if matrix is None:
        return PASSED, ()
    size = matrix.shape[0] * matrix.shape[1]
    if sparse.issparse(matrix):
        return SPARSE, (1,)
    if size >= DENSE_SIZE and np.count_nonzero(matrix) >= DENSE_SHARE * size:
        return DENSE, (*matrix.shape, node if size > STACKED else -1)
    return SPARSE, (0,)


def weight_cost(matrix: Any) -> float:
    """The number of weights, those of matrix products in terms of single ones."""
    kind = kind_of(matrix)[0]
    if kind == PASSED:
        return 0.0
    if kind == DENSE:
        return DENSE_RATE * matrix.shape[0] * matrix.shape[1]
    return float(matrix.nnz if sparse.issparse(matrix) else matrix.size)


def concat_edges(parts: list[tuple[Any, Any, Any]]) -> Edges:
    """The edges of several nodes, one after the other."""
    nothing = np.zeros(0)
    counts, columns, numbers = zip(*parts, strict=True) if parts else ([nothing],) * 3
    starts = np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.intp)
    return Edges(
        starts, np.concatenate(columns).astype(np.intp), np.concatenate(numbers, dtype=np.float64)
    )


def circuit_layers(vtree: Vtree, blocks: Sequence[Any], bounds: Any) -> Layers:
    """The layers of blocks of units, given the bounds of their weights (see `Operand.bounds`)."""
    matrices = [block.matrix for block in blocks]
    heights, starts = vtree.height, np.zeros(vtree.n_nodes, dtype=np.intp)
    order = np.argsort(heights, kind="stable")
    cuts = np.searchsorted(heights[order], np.arange(int(heights.max()) + 2))
    layers: list[Layer] = []
    for height, (a, b) in enumerate(pairwise(cuts.tolist())):
        kinds = {node: kind_of(matrices[node], node) for node in order[a:b].tolist()}
        nodes = sorted(kinds, key=lambda node: (kinds[node], node))
        shapes = np.array([(blocks[node].n_units, blocks[node].width) for node in nodes])
        ends = np.concatenate([np.zeros((1, 2), dtype=np.intp), np.cumsum(shapes, axis=0)])
        first = layers[-1].stop if layers else 0
        starts[nodes] = first + ends[:-1, 0]
        inputs = None
        if height:
            own = zip(*(blocks[node].inputs for node in nodes), strict=True)
            inputs = np.stack(
                [
                    np.concatenate(index) + np.repeat(starts[child[nodes]], shapes[:, 1])
                    for index, child in zip(own, (vtree.left, vtree.right), strict=True)
                ]
            )
        n_passed = sum(kinds[node][0] == PASSED for node in nodes)
        stacks, at = [], n_passed
        for kind, group in groupby(nodes[n_passed:], key=kinds.__getitem__):
            if kind[0] == DENSE:
                some = [matrices[node] for node in group]
                units, products = (slice(*ends[[at, at + len(some)], i].tolist()) for i in (0, 1))
                weights = some[0][None] if len(some) == 1 else np.stack(some)
                stacks.append(Stack(weights, units, products))
                at += len(some)
        single = [matrices[node] for node in nodes[at:]]
        edges = _edges(single, ends[at:-1, 1] - ends[at, 1])
        stop, passed = first + int(ends[-1, 0]), int(ends[n_passed, 0])
        places = (np.asarray(nodes), first, stop, ends[:, 0], ends[:, 1], inputs, passed)
        layers.append(Layer(*places, tuple(stacks), edges))
    return Layers(vtree, tuple(layers), starts, bounds, matrices)


def _edges(own: list[Any], first: IntArray) -> Edges:
    """The edges of sparse nodes; those stored as small matrices come first, all at once."""
    n_small = sum(not sparse.issparse(matrix) for matrix in own)
    parts = []
    if n_small:
        numbers = np.concatenate([matrix.reshape(-1) for matrix in own[:n_small]])
        heights, widths = np.array([matrix.shape for matrix in own[:n_small]]).T
        widths, begins = np.repeat(widths, heights), np.repeat(first[:n_small], heights)
        row, column = runs(begins, widths)
        kept = np.flatnonzero(numbers)
        counts = np.bincount(row[kept], minlength=len(widths))
        parts.append((counts, column[kept], numbers[kept]))
    for matrix, start in zip(map(tidy, own[n_small:]), first[n_small:], strict=True):
        parts.append((np.diff(matrix.indptr), matrix.indices + start, matrix.data))
    return concat_edges(parts)
