"""The nodes of a vtree in layers, with the weights of each layer stacked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from math import inf
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.engine.blocks import tidy
from expectedkernels.vtree import Vtree

IntArray = np.ndarray[Any, np.dtype[np.intp]]

DENSE_SIZE, DENSE_SHARE = 256, 0.3
"""Matrices of at least this many entries, and this share of them not zero, are kept dense."""
STACKED = 64 * 64
"""Larger dense matrices are taken as they are: stacks of copies gain nothing."""
DENSE_RATE = 0.1
"""The time of one term of a dense matrix product, in terms of a sparse one."""
LARGEST_ROOM, EXPONENTS = 300.0, 690.0
"""Logs of mantissas stay within the first, and of what is made of two of them in the second."""
LOST = 1e-16
"""Flow through raised values up to which a row is as good as if none had been raised."""
SINGLE_EXPONENTS, SINGLE_ROOM, SINGLE_LOST = 86.0, 38.0, 1e-7
"""The same in single precision."""
PASSED, DENSE, SPARSE = range(3)


@dataclass(frozen=True, eq=False)
class Stack:
    """Nodes of one level whose weights are dense and of one shape: one stacked product.

    Attributes
    ----------
    weights : array of shape (nodes, units, products)
    units, products : slices
        Their place among the units and the products of the level.
    """

    weights: Any
    units: slice
    products: slice


@dataclass(frozen=True, eq=False)
class Edges:
    """Weighted edges from units to products, unit by unit.

    Attributes
    ----------
    starts : int array of shape (units + 1,)
    products : int array
    weights : array
    kept : int array
        Which entries of the matrices that are stored dense (laid end to end) are edges; they come
        before those of matrices that are stored sparsely, all of which are edges.
    """

    starts: IntArray
    products: IntArray
    weights: Any
    kept: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.intp))

    @cached_property
    def units(self) -> IntArray:
        """The unit of every edge."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @cached_property
    def has_idle(self) -> bool:
        """Whether some unit has no edge."""
        return bool((np.diff(self.starts) == 0).any())

    @cached_property
    def most(self) -> int:
        """How many edges a unit has at most."""
        return int(np.diff(self.starts).max(initial=0))

    def matrix(self, n_products: int) -> sparse.csr_array:
        """The edges as a sparse matrix, (units, products)."""
        shape = (len(self.starts) - 1, n_products)
        return sparse.csr_array((self.weights, self.products, self.starts), shape=shape)


@dataclass(frozen=True, eq=False)
class Level:
    """All nodes of one height: first those without weights, then dense, then sparse ones.

    Attributes
    ----------
    nodes : int array
    start, stop : int
        The place of the level's units in the buffer.
    unit_starts, product_starts : int arrays of shape (nodes + 1,)
        The first unit and product of every node, counted from those of the level.
    inputs : int array of shape (2, products), or None at height 0
        The place in the buffer of the left and right input of every product.
    n_passed : int
        How many units are a product as it is; they come first.
    stacks : tuple of Stack
    edges : Edges
        Of the sparse nodes: units and products counted from the first sparse ones.
    matrices : list
        The weights of every node (None: passed).
    """

    nodes: IntArray
    start: int
    stop: int
    unit_starts: IntArray
    product_starts: IntArray
    inputs: IntArray | None
    n_passed: int
    stacks: tuple[Stack, ...]
    edges: Edges
    matrices: list[Any]

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
        return self.edges.matrix(self.sparse_products.stop - self.sparse_products.start)

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
        ones = np.ones(len(flat))
        shape = (len(used), len(flat))
        matrix = sparse.csr_array((ones, (number, np.arange(len(flat)))), shape=shape)
        return used, matrix, number

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
        """The node of every unit, counted within the level."""
        return np.repeat(np.arange(len(self.nodes)), np.diff(self.unit_starts))

    @cached_property
    def all_edges(self) -> Edges:
        """The edges of all units of the level; those without weights have one of weight one."""
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
        return joined([*parts, (np.diff(own.starts), own.products + first, own.weights)])

    @cached_property
    def by_product(self) -> tuple[IntArray, Edges]:
        """The order of all edges by their products, and edges from products to units."""
        edges = self.all_edges
        order, starts = _in_groups(edges.products, self.n_products)
        return order, Edges(starts, edges.units[order], edges.weights[order])

    @cached_property
    def bounds(self) -> tuple[Any, Any]:
        """For every node the log of its smallest weight, and of the largest sum of a unit's."""
        smallest, largest = np.ones(self.n_units), np.ones(self.n_units)
        with np.errstate(over="ignore"):  # then there is no room
            for stack in self.stacks:
                size = np.abs(stack.weights)
                low = np.where(size > 0, size, inf).min(axis=2).reshape(-1)
                smallest[stack.units], largest[stack.units] = low, size.sum(axis=2).reshape(-1)
            if len(self.edges.weights):
                _edge_bounds(self.edges, smallest[self.sparse_units], largest[self.sparse_units])
        starts = self.unit_starts[:-1]
        low = np.minimum.reduceat(smallest, starts)
        high = np.maximum.reduceat(largest, starts)
        return np.log(np.where(low < inf, low, 1.0)), np.log(np.where(high > 0, high, 1.0))

    @cached_property
    def table_bases(self) -> Any:
        """Where the entries of every input unit begin, with one more for each unit."""
        widths = np.repeat(np.diff(self.product_starts), np.diff(self.unit_starts)) + 1
        return np.cumsum(widths) - widths

    @cached_property
    def spread(self) -> Any:
        """For every node the log of how small a unit can be beside another; -inf: no bound."""
        found = np.full(len(self.nodes), -inf)
        for i, matrix in enumerate(self.matrices):
            if matrix is not None and not sparse.issparse(matrix) and matrix.size:
                low, high = matrix.min(axis=0), matrix.max(axis=0)
                if low.min() > 0:
                    found[i] = (np.log(low) - np.log(high)).min()
        return found

    def divided(self, values: Any, tops: Any) -> Any:
        """The values of units over those of their nodes."""
        if not self.height:
            return values / tops[self.node_of_unit]
        n = len(self.nodes)
        parts = values.reshape(n, self.height, -1) / tops.reshape(n, 1, -1)
        return parts.reshape(values.shape)

    def apply_stacks(self, x: Any, out: Any, matmul: Any, turned: bool = False) -> None:
        """Write what the weights of stacks make of products; `turned`, of derivatives in units."""
        for stack in self.stacks:
            w, source, goal = stack.weights, stack.products, stack.units
            if turned:
                w, source, goal = w.swapaxes(1, 2), goal, source
            n, height, width = w.shape
            inputs = x[source].reshape(n, width, -1)
            matmul(w, inputs, out=out[goal].reshape(n, height, -1))

    def by_node(self, stacks: Sequence[Any], edges: Any) -> list[Any]:
        """Numbers of stacks and edges as the weights of the nodes that have some are stored.

        A matrix for dense weights, one number per stored entry for sparse ones.
        """
        own = self.matrices[self.n_passed_nodes :]
        found = [matrix for stack in stacks for matrix in stack]
        for i, numbers in enumerate(found):
            if sparse.issparse(own[i]):
                found[i] = numbers[own[i].nonzero()]
        rest, n = own[len(found) :], len(self.edges.kept)
        small = [matrix for matrix in rest if not sparse.issparse(matrix)]
        flat = np.zeros(sum(matrix.size for matrix in small))
        flat[self.edges.kept] = edges[:n]
        parts = np.split(flat, np.cumsum([matrix.size for matrix in small]))
        found += [part.reshape(m.shape) for part, m in zip(parts, small, strict=False)]
        stored = np.cumsum([matrix.nnz for matrix in rest[len(small) :]], dtype=np.intp)
        return found + np.split(edges[n:], stored)[:-1]

    def by_stack(self, numbers: Sequence[Any]) -> tuple[list[Any], Any]:
        """The same the other way round, given the numbers of all vtree nodes."""
        free = self.n_passed_nodes
        pairs = list(zip(self.matrices[free:], self.nodes[free:].tolist(), strict=True))
        own = [(matrix, numbers[node]) for matrix, node in pairs]
        stacks, at = [], 0
        for stack in self.stacks:
            n = len(stack.weights)
            stacks.append(np.stack([_as_dense(*pair) for pair in own[at : at + n]]))
            at += n
        small = [x.reshape(-1) for matrix, x in own[at:] if not sparse.issparse(matrix)]
        stored = [x for matrix, x in own[at:] if sparse.issparse(matrix)]
        kept = np.concatenate(small)[self.edges.kept] if small else np.zeros(0)
        return stacks, np.concatenate([kept, *stored], dtype=np.float64)

    def like_this(self, level: Level) -> Level:
        """Another level with the same edges, which takes over what is known of these."""
        kept = ("uses", "node_of_unit", "height", "is_used_once", "unit_places")
        vars(level).update({name: vars(self)[name] for name in kept if name in vars(self)})
        return level


@dataclass(frozen=True, eq=False)
class Levels:
    """The levels of a circuit, and where its nodes lie.

    Attributes
    ----------
    vtree : Vtree
    levels : tuple of Level, by height
    unit_starts : int array
        The place in the buffer of the first unit of every vtree node.
    floor : float, or None
        What no weight is below, if weights are not those of the levels' matrices; those of a unit
        add up to one then.
    """

    vtree: Vtree
    levels: tuple[Level, ...]
    unit_starts: IntArray
    floor: float | None = None

    @property
    def host(self) -> Levels:
        """The levels on the host."""
        return self

    @property
    def like(self) -> Any:
        """An array of the type and at the place of all numbers."""
        return self.levels[0].edges.weights

    @property
    def is_single(self) -> bool:
        """Whether numbers are of single precision."""
        return int(self.like.dtype.itemsize) == 4

    @property
    def lost(self) -> float:
        """Flow through raised values up to which a row is as good as if none had been raised."""
        return SINGLE_LOST if self.is_single else LOST

    def all_edges(self, number: int) -> Edges:
        """The edges of all units of a level, where the numbers are."""
        return self.levels[number].all_edges

    @property
    def n_units(self) -> int:
        """The number of units."""
        return self.levels[-1].stop

    @cached_property
    def has_every_use_once(self) -> bool:
        """Whether a pass down writes to every unit but the roots, and once."""
        if not all(level.is_used_once for level in self.levels[1:]):
            return False
        return 2 * self.n_products == self.n_units - (self.roots.stop - self.roots.start)

    @cached_property
    def n_products(self) -> int:
        """The number of products of all levels but the lowest."""
        return sum(level.n_products for level in self.levels[1:])

    @cached_property
    def n_watched(self) -> int:
        """The number of units whose values may leave their range, if atoms are 0 or 1."""
        pairs = zip(self.levels, self.ranges(), strict=True)
        return sum(level.n_units for level, (is_divided, _) in pairs if is_divided)

    @cached_property
    def n_entries(self) -> float:
        """The sum of the entries of all nodes."""
        return float(self.entries.sum())

    @cached_property
    def entries(self) -> Any:
        """How many units, products and weights every vtree node has; dense ones count little."""
        total = np.zeros(self.vtree.n_nodes)
        for level in self.levels:
            weights = [weight_cost(matrix) for matrix in level.matrices]
            sizes = np.diff(level.unit_starts) + 2 * np.diff(level.product_starts)
            total[level.nodes] = sizes + weights
        return total

    @property
    def n_atoms(self) -> int:
        """The number of atoms."""
        return self.levels[0].n_products

    @property
    def roots(self) -> slice:
        """The place of the roots in the buffer."""
        return slice(self.levels[-1].start, self.levels[-1].stop)

    @cached_property
    def signed(self) -> bool:
        """Whether there are negative weights."""
        numbers = (
            m.data if sparse.issparse(m) else m for level in self.levels for m in level.matrices
        )
        return any(bool((x < 0).any()) for x in numbers if x is not None and x.size)

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
    def known_ranges(self) -> dict[float, list[tuple[bool, bool]]]:
        """What is known of ranges if atoms are 0 or 1, by the lift."""
        return {}

    def ranges(self, lift: float = 0.0) -> list[tuple[bool, bool]]:
        """What `ranges_given` says if atoms are 0 or 1."""
        if lift not in self.known_ranges:
            self.known_ranges[lift] = self.ranges_given(0.0, lift)
        return self.known_ranges[lift]

    def ranges_given(self, low_atoms: Any, lift: float = 0.0) -> list[tuple[bool, bool]]:
        """Which levels are divided, and which of these may hold values that are too small then.

        Given the logs of the smallest atoms of every leaf. Every node has its own bounds: those of
        its children added up, and of its weights.
        """
        vtree, room, found = self.vtree, self.room, []
        low, high = np.zeros((2, vtree.n_nodes))
        low[self.host.levels[0].nodes] = low_atoms
        for level in self.host.levels:
            nodes, (below, above) = level.nodes, self._bounds(level)
            if level.inputs is not None:
                a, b = vtree.left[nodes], vtree.right[nodes]
                low[nodes], high[nodes] = low[a] + low[b], high[a] + high[b]
            low[nodes] += below
            high[nodes] += above
            is_divided, is_raised = low[nodes].min() < -room or high[nodes].max() > room, False
            if is_divided:
                spread = level.spread
                if self.floor is not None:
                    spread = np.where(spread > -inf, np.log(self.floor), -inf)
                # the smallest value over the largest, by both bounds or by the weights alone
                smallest = np.maximum(low[nodes] - high[nodes], spread) + lift
                is_raised = bool(smallest.min() < -room)
                low[nodes], high[nodes] = np.maximum(smallest, -room), lift
            found.append((bool(is_divided), is_raised))
        return found

    def with_weights(self, numbers: Sequence[tuple[Any, Any]], floor: float | None) -> Any:
        """The levels with other weights: those of stacks and of edges for every level.

        With a floor no weight is below it, and those of a unit add up to one: ranges are known from
        that alone. What the circuit's matrices say of the old weights stays as it is.
        """
        made = []
        for level, (stacks, weights) in zip(self.levels, numbers, strict=True):
            new = tuple(replace(s, weights=w) for s, w in zip(level.stacks, stacks, strict=True))
            edges = replace(level.edges, weights=weights)
            vars(edges).update({k: v for k, v in vars(level.edges).items() if k != "weights"})
            made.append(level.like_this(replace(level, stacks=new, edges=edges)))
        found = replace(self, levels=tuple(made), floor=floor)
        kept = ["last_entries", "edge_entries", "atom_numbers", "leaf_variables", "leaf_states"]
        if self.floor == floor is not None and self.is_single == found.is_single:
            kept += ["room", "known_ranges"]
        vars(found).update({name: vars(self)[name] for name in kept if name in vars(self)})
        return found

    def renumbered(self, matrices: Sequence[Any]) -> Levels | None:
        """The levels with other weights at the same edges, None if edges differ."""
        own = [[matrices[node] for node in level.nodes.tolist()] for level in self.levels]
        pairs = zip(chain(*(level.matrices for level in self.levels)), chain(*own), strict=True)
        if not all(_have_same_edges(a, b) for a, b in pairs):
            return None
        numbers = [m.data if sparse.issparse(m) else m for m in matrices]
        found = self.with_weights([level.by_stack(numbers) for level in self.levels], None)
        made = (replace(x, matrices=m) for x, m in zip(found.levels, own, strict=True))
        levels = [old.like_this(new) for old, new in zip(self.levels, made, strict=True)]
        return replace(found, levels=tuple(levels))


def _have_same_edges(a: Any, b: Any) -> bool:
    """Whether two matrices are stored alike, and have zeros in the same places."""
    if a is None or b is None:
        return a is b
    if a.shape != b.shape or sparse.issparse(a) != sparse.issparse(b):
        return False
    if not sparse.issparse(a):
        return np.array_equal(a != 0, b != 0)
    alike = (np.array_equal(getattr(a, x), getattr(b, x)) for x in ("indptr", "indices"))
    return all(alike) and bool(b.data.all())


def _as_dense(matrix: Any, numbers: Any) -> Any:
    """Numbers as a dense matrix, given those of stored entries if the weights are sparse."""
    if not sparse.issparse(matrix):
        return numbers
    dense = np.zeros(matrix.shape)
    dense[matrix.nonzero()] = numbers
    return dense


def _in_groups(number: Any, n_groups: int) -> tuple[IntArray, IntArray]:
    """The order of things by the number of their group, and where each group starts then."""
    counts = np.bincount(number, minlength=n_groups)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
    return np.argsort(number, kind="stable"), starts


def _edge_bounds(edges: Edges, smallest: Any, largest: Any) -> None:
    """Write the smallest weight of every unit, and the sum of its weights; inf and 0 for none."""
    smallest[:], largest[:] = inf, 0.0
    filled = np.flatnonzero(np.diff(edges.starts))
    size, starts = np.abs(edges.weights), edges.starts[filled]
    smallest[filled] = np.minimum.reduceat(size, starts)
    largest[filled] = np.add.reduceat(size, starts)


def kind_of(matrix: Any, node: int = 0) -> tuple[int, tuple[int, ...]]:
    """How the sums of a node are computed; equal kinds lie side by side, and are stacked."""
    if matrix is None:
        return PASSED, ()
    size = matrix.shape[0] * matrix.shape[1]
    if size >= DENSE_SIZE:
        filled = matrix.nnz if sparse.issparse(matrix) else np.count_nonzero(matrix)
        if filled >= DENSE_SHARE * size:
            return DENSE, (*matrix.shape, node if size > STACKED else -1)
    return SPARSE, (int(sparse.issparse(matrix)),)


def weight_cost(matrix: Any) -> float:
    """The number of weights, those of matrix products in terms of single ones."""
    kind = kind_of(matrix)[0]
    if kind == PASSED:
        return 0.0
    if kind == DENSE:
        return DENSE_RATE * matrix.shape[0] * matrix.shape[1]
    return float(matrix.nnz if sparse.issparse(matrix) else matrix.size)


def joined(parts: list[tuple[Any, Any, Any]]) -> Edges:
    """The edges of several nodes, one after the other."""
    nothing = np.zeros(0)
    counts, columns, numbers = zip(*parts, strict=True) if parts else ([nothing],) * 3
    starts = np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.intp)
    return Edges(
        starts, np.concatenate(columns).astype(np.intp), np.concatenate(numbers, dtype=np.float64)
    )


def levels(
    vtree: Vtree, matrices: Sequence[Any], inputs: Sequence[tuple[Any, Any] | None]
) -> Levels:
    """The levels of blocks of units.

    Parameters
    ----------
    vtree : Vtree
    matrices : sequence of dense or CSR arrays, or None
        For every node the weights of its units, (units, products), at leaves (units, atoms); None:
        units are the products as they are.
    inputs : sequence of pairs of int arrays, or None
        For every inner node the left and right unit of every product; None at leaves.
    """
    heights = vtree.height
    starts = np.zeros(vtree.n_nodes, dtype=np.intp)
    made: list[Level] = []
    order = np.argsort(heights, kind="stable")
    cuts = np.searchsorted(heights[order], np.arange(int(heights.max()) + 2))
    first = 0
    for height in range(len(cuts) - 1):
        nodes = order[cuts[height] : cuts[height + 1]].tolist()
        kinds = [kind_of(matrices[node], node) for node in nodes]
        ranked = sorted(range(len(nodes)), key=lambda i: (kinds[i], i))
        nodes, kinds = [nodes[i] for i in ranked], [kinds[i] for i in ranked]
        level = _level(vtree, matrices, inputs, starts, nodes, kinds, first)
        made.append(level)
        first = level.stop
    return Levels(vtree, tuple(made), starts)


def _level(
    vtree: Vtree,
    matrices: Sequence[Any],
    inputs: Sequence[tuple[Any, Any] | None],
    starts: IntArray,
    nodes: list[int],
    kinds: list[tuple[int, tuple[int, ...]]],
    first: int,
) -> Level:
    """The level of some nodes; writes where their units start."""
    given = [inputs[node] for node in nodes]
    shapes = [
        matrices[node].shape if pair is None or matrices[node] is not None else (len(pair[0]),) * 2
        for node, pair in zip(nodes, given, strict=True)
    ]
    unit_starts = np.concatenate([[0], np.cumsum([k for k, _ in shapes])]).astype(np.intp)
    product_starts = np.concatenate([[0], np.cumsum([m for _, m in shapes])]).astype(np.intp)
    starts[nodes] = first + unit_starts[:-1]
    own = [matrices[node] for node in nodes]
    places = None
    if given[0] is not None:
        sizes = np.diff(product_starts)
        places = np.stack(
            [
                np.concatenate([pair[side] for pair in given])  # type: ignore[index]
                + np.repeat(starts[children[nodes]], sizes)
                for side, children in ((0, vtree.left), (1, vtree.right))
            ]
        )
    which = [kind for kind, _ in kinds]
    n_passed = int(unit_starts[which.count(PASSED)])
    begin = len(which) - which.count(SPARSE)
    return Level(
        nodes=np.asarray(nodes, dtype=np.intp),
        start=first,
        stop=first + int(unit_starts[-1]),
        unit_starts=unit_starts,
        product_starts=product_starts,
        inputs=places,
        n_passed=n_passed,
        stacks=_stacks(own, kinds, unit_starts, product_starts),
        edges=_sparse_edges(own[begin:], product_starts[begin:-1] - product_starts[begin]),
        matrices=own,
    )


def _stacks(own: list[Any], kinds: Any, units: IntArray, products: IntArray) -> tuple[Stack, ...]:
    """The dense nodes of a level, those of one shape together."""
    stacks = []
    at = 0
    while at < len(own):
        end = at
        while end < len(own) and kinds[end] == kinds[at]:
            end += 1
        if kinds[at][0] == DENSE:
            dense = [m.toarray() if sparse.issparse(m) else m for m in own[at:end]]
            weights = dense[0][None] if len(dense) == 1 else np.stack(dense)
            stacks.append(
                Stack(
                    weights,
                    slice(int(units[at]), int(units[end])),
                    slice(int(products[at]), int(products[end])),
                )
            )
        at = end
    return tuple(stacks)


def _sparse_edges(own: list[Any], first: IntArray) -> Edges:
    """The edges of the sparse nodes; those stored as small matrices come first, all at once."""
    n_small = sum(not sparse.issparse(matrix) for matrix in own)
    stored = zip(map(tidy, own[n_small:]), first[n_small:], strict=True)
    parts = [(np.diff(m.indptr), m.indices + start, m.data) for m, start in stored]
    if not n_small:
        return joined(parts)
    *small, kept = _entries_of_all(own[:n_small], first[:n_small])
    return replace(joined([tuple(small), *parts]), kept=kept)


def _entries_of_all(own: list[Any], first: IntArray) -> tuple[Any, Any, Any, Any]:
    """The numbers, columns and entries of rows of many small matrices, and which are kept."""
    numbers = np.concatenate([matrix.reshape(-1) for matrix in own])
    widths = np.repeat([m.shape[1] for m in own], [m.shape[0] for m in own])
    begins = np.repeat(first, [m.shape[0] for m in own])
    row = np.repeat(np.arange(len(widths)), widths)
    column = np.arange(len(numbers)) - np.repeat(np.cumsum(widths) - widths, widths) + begins[row]
    kept = np.flatnonzero(numbers)
    counts = np.bincount(row[kept], minlength=len(widths))
    return counts, column[kept], numbers[kept], kept
