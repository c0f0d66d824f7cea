"""Graphs of units as circuits: the vtree they follow, or why there is none."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import cache, reduce
from heapq import heappop, heappush
from math import inf
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.checks import CircuitError, CompatibilityError, PropertyError
from expectedkernels.circuits.graph import Graph, Unit, bits, show, union
from expectedkernels.circuits.inputs import TINY, Input, Real, Table, weighted_units
from expectedkernels.engine.blocks import Inner, from_leaves, from_root, inner_of_edges
from expectedkernels.vtree import Vtree, by_splits

Family = tuple[tuple[int, ...], int]
"""The inputs of a product unit that lie in some scope, and must not be split there: those over at
least two variables, in order of their numbers, and the variables of all of them. Univariate inputs
never stand in the way of a split."""


def find_vtree(graph: Graph) -> Vtree:
    """A vtree that the products of a decomposable graph split along; raises if there is none.

    From the top: products over a scope keep together what their inputs keep together, so the
    scope can only be split between the blocks of the finest partition that is coarser than
    all of theirs. Any such split will do, since a vtree that fits a circuit also fits it
    between the variables on one side only. Blocks are halved in order of their smallest
    variables. In a graph that is not smooth, units count as constant in the variables they lack.
    """

    def split(part: tuple[int, list[Family]]) -> Any:
        scope, families = part
        if scope.bit_count() == 1:
            return scope.bit_length() - 1
        blocks: list[int] = []
        for fully in (False, True):
            if len(blocks) < 2:
                families = _opened(graph, families, scope, fully)
                blocks = _blocks(graph, families, scope)
        if len(blocks) == 1:
            raise PropertyError(
                "The circuit is not structured-decomposable: "
                f"{_conflict(graph, families, scope)}. Exact expectations need structured "
                "circuits; for others, monte_carlo_expected_kernel gives an estimate with a "
                "standard error."
            )
        middle = len(blocks) // 2
        halves = union(blocks[:middle]), union(blocks[middle:])
        parts = []
        for half in halves:
            inside = {
                (tuple(i for i in factors if graph.masks[i] & half), cover & half): None
                for factors, cover in families
            }
            parts.append((half, list(inside)))
        return parts

    return by_splits((graph.masks[-1], [_alone(graph, len(graph.units) - 1)]), split)


def node_masks(vtree: Vtree) -> list[int]:
    """The variables below every vtree node, as bits."""
    return from_leaves(vtree, lambda _, v: 1 << v, lambda _, left, right: left | right)


def show_split(parts: Iterable[int], limit: int = 4) -> str:
    """A partition of a scope in words, cut short when it is long."""
    ordered = sorted(parts, key=_smallest)
    words = [show(part) for part in ordered[:limit]]
    if len(ordered) > limit:
        words.append(f"... {len(ordered)} parts in all")
    return " | ".join(words)


def can_be_flattened(graph: Graph, i: int) -> bool:
    """Whether a unit is, up to a factor, the product of its inputs."""
    kind = graph.units[i].kind
    return kind == "product" or (kind == "sum" and len(graph.inputs[i]) == 1)


def _alone(graph: Graph, i: int) -> Family:
    return (i,), graph.masks[i]


def _family(graph: Graph, inputs: Iterable[int], cover: int) -> Family:
    return tuple(sorted({i for i in inputs if graph.masks[i].bit_count() > 1})), cover


def _opened(graph: Graph, families: list[Family], scope: int, fully: bool) -> list[Family]:
    """Replace units that fill the scope by their inputs, and with `fully` all that can be.

    A sum can be opened when it stands alone. Products within products are only opened fully,
    when there is need: it costs time, and may make the vtree less like the graph.
    """
    masks = graph.masks
    result: list[Family] = []
    seen: set[Family] = set()
    work = families[::-1]
    while work:
        family = work.pop()
        factors, cover = family
        if not factors or family in seen:
            continue
        seen.add(family)
        if len(factors) == 1 and masks[factors[0]] == cover and (fully or cover == scope):
            i = factors[0]
            if graph.units[i].kind == "sum":
                inputs = [j for j in graph.inputs[i] if masks[j].bit_count() > 1]
                work += [_alone(graph, j) for j in reversed(inputs)]
            else:
                work.append(_family(graph, graph.inputs[i], cover))
        elif fully and any(can_be_flattened(graph, i) for i in factors):
            flat: list[int] = []
            stack = list(factors)
            while stack:  # products within the product are opened all the way down
                i = stack.pop()
                if can_be_flattened(graph, i):
                    stack += graph.inputs[i]
                else:
                    flat.append(i)
            work.append(_family(graph, flat, cover))
        else:
            result.append(family)
    return result


def _blocks(graph: Graph, families: Iterable[Family], scope: int) -> list[int]:
    """The finest partition of the scope that splits no factor, by smallest variable."""
    blocks: set[int] = set()
    covered = 0
    for factors, _ in families:
        for i in factors:
            mask = graph.masks[i]
            if mask in blocks:
                continue
            if mask & covered:
                touching = [block for block in blocks if block & mask]
                blocks.difference_update(touching)
                mask |= union(touching)
            blocks.add(mask)
            covered |= mask
    rest = scope & ~covered
    return sorted([*blocks, *(1 << v for v in bits(rest))], key=_smallest)


def _conflict(graph: Graph, families: list[Family], scope: int) -> str:
    """Two products over a scope that no vtree fits, in words.

    From the largest on, some factor crosses one that is not within another: otherwise those
    would be the blocks of a partition.
    """
    masks, largest = graph.masks, list[int]()

    def product(part: int) -> tuple[int, str]:
        """The first product unit with an input over these variables, in words."""
        for i, unit in enumerate(graph.units):
            parts = [masks[j] for j in graph.inputs[i]]
            if unit.kind == "product" and part in parts:
                break
        split = show_split(mask & scope for mask in parts if mask & scope)
        return i, f"product unit #{i} splits into {split}"

    masks_of_factors = {masks[i] for factors, _ in families for i in factors}
    for mask in sorted(masks_of_factors, key=lambda mask: (-mask.bit_count(), mask)):
        for other in largest:
            if mask & other and mask & ~other:
                (_, first), (_, second) = sorted(map(product, (mask, other)))
                return f"over variables {show(scope)}, {first}, but {second}"
        if not any(mask & other for other in largest):
            largest.append(mask)
    raise CircuitError("The products have a split in common.")  # pragma: no cover


def _smallest(mask: int) -> int:
    return (mask & -mask).bit_length()


Block = Input | Inner

Key = tuple[int, ...]
"""A unit wanted at a vtree node: the product of some units of the graph, one if there are none.
Units come in the order of their leftmost variables."""
ADVICE = (
    "sums within sums are multiplied out, so write it with numbers that differ less from each other"
)


def circuit_blocks(
    root: Unit, vtree: Vtree | None = None, smooth: bool = False
) -> tuple[Vtree, list[Block]]:
    """The vtree and the blocks of a circuit written as a graph of units.

    Products within products are flattened where the vtree asks for it, wide products are split
    in two along the vtree, sums within sums are multiplied out, and univariate sums become
    one table (or one mixture of normals).

    Parameters
    ----------
    root : Unit
        The root of a decomposable graph over the variables 0 to D - 1.
    vtree : Vtree, optional
        How to split the variables. By default a vtree that fits the products is found.
    smooth : bool
        Whether to fill up sums over different scopes with units that are one everywhere.

    Returns
    -------
    vtree : Vtree
        The given one, or the one found.
    blocks : list
        A block for each of its nodes; the last one has one unit.

    Raises
    ------
    PropertyError
        If the graph is not decomposable, not smooth, or fits no vtree.
    CompatibilityError
        If it does not fit the given vtree.
    CircuitError
        If weights of sums within sums multiply to numbers that are no doubles.

    Examples
    --------
    >>> from expectedkernels.circuits.graph import Indicator, Product, Sum
    >>> def point(*values):
    ...     return Product([Indicator(v, value, 2) for v, value in enumerate(values)])
    >>> vtree, blocks = circuit_blocks(Sum([point(0, 0, 0), point(1, 1, 1)], [0.4, 0.6]))
    >>> vtree
    Vtree((0, (1, 2)))
    >>> blocks[0].table.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    graph = Graph(root)
    scope = graph.masks[-1]
    missing = ((1 << scope.bit_length()) - 1) & ~scope
    if missing:
        raise CircuitError(
            f"The variables of a circuit must be 0 to D - 1. The largest here is "
            f"{scope.bit_length() - 1}, but there are no input units for {show(missing)}."
        )
    _ = graph.cardinalities  # raises if they disagree
    if (reason := graph.not_decomposable()) is not None:
        raise PropertyError(f"The circuit is not decomposable: {reason}.")
    if not smooth and (reason := graph.not_smooth()) is not None:
        raise PropertyError(
            f"The circuit is not smooth: {reason}. Pass smooth=True to Circuit.from_units (or "
            "to the reader of the file) to fill up the missing variables with units that are one."
        )
    if vtree is None:
        vtree = find_vtree(graph)
    elif sorted(vtree.scope().tolist()) != bits(scope):
        raise CompatibilityError(
            f"The vtree must have the variables of the circuit, {show(scope)}. Got one "
            f"over {show(sum(1 << v for v in vtree.scope().tolist()))}."
        )
    try:
        return vtree, _Builder(graph, vtree).blocks()
    except ArithmeticError:
        raise CircuitError(
            f"The circuit has weights beyond the range of double precision; {ADVICE}."
        ) from None


def _times(a: float, b: float) -> float:
    """The product of two doubles; raises if it is none, to all digits."""
    product = a * b
    if TINY <= abs(product) < inf or not (a and b):
        return product
    raise ArithmeticError


class _Builder:
    """The blocks of a graph along a vtree, made from the root down.

    A unit has its *home* at the lowest vtree node above all its variables. Wanted at its home,
    a sum stands for a weighted sum of products, and a product is split between the children of
    the node. Wanted above its home (to fill up a scope), a unit goes down on its side.

    Products of weights that are no doubles, to all digits, are an `ArithmeticError`.
    """

    def __init__(self, graph: Graph, vtree: Vtree):
        self.graph, self.vtree = graph, vtree
        leaves = np.flatnonzero(vtree.variable >= 0)
        place = dict(zip(vtree.variable[leaves].tolist(), range(len(leaves)), strict=True))
        first_leaf = np.cumsum(vtree.variable >= 0) - (vtree.n_below + 1) // 2
        self.start: list[int] = first_leaf.tolist()
        # for every unit the place of its leftmost variable, and the lowest node above them all
        self.low: list[int] = []
        self.home: list[int] = []
        lowest_above = cache(vtree.lca)
        for unit, inputs in zip(graph.units, graph.inputs, strict=True):
            if unit.kind == "input":
                self.low.append(place[unit.variable])  # type: ignore[attr-defined]
                self.home.append(int(leaves[self.low[-1]]))
            else:
                self.low.append(min(self.low[j] for j in inputs))
                self.home.append(reduce(lowest_above, {self.home[j] for j in inputs}))

    def blocks(self) -> list[Block]:
        """The blocks, children first."""
        wanted: dict[Key, int] = {(len(self.graph.units) - 1,): 0}
        return from_root(self.vtree, wanted, self._leaf_block, self._inner_block)

    def _inner_block(
        self, node: int, keys: dict[Key, int]
    ) -> tuple[Inner, dict[Key, int], dict[Key, int]]:
        """The block of an inner node, and what is wanted from the children."""
        wanted: tuple[dict[Key, int], dict[Key, int]] = {}, {}
        left: list[int] = []
        right: list[int] = []
        columns: dict[Key, tuple[int, float]] = {}
        entries: list[tuple[int, int, float]] = []
        for row, key in enumerate(keys):
            for term, weight in self._terms(key, node).items():
                if term not in columns:
                    one, other, scale = self._halves(term, node)
                    columns[term] = len(left), scale
                    left.append(wanted[0].setdefault(one, len(wanted[0])))
                    right.append(wanted[1].setdefault(other, len(wanted[1])))
                column, scale = columns[term]
                entries.append((row, column, _times(weight, scale)))
        rows, indices, weights = (np.array(numbers) for numbers in zip(*entries, strict=True))
        if not np.isfinite(weights).all():
            raise ArithmeticError
        order = np.lexsort((indices, rows))
        edges = (rows[order], indices[order], weights[order])
        sizes = (len(keys), *map(len, wanted))
        return inner_of_edges(np.array(left), np.array(right), edges, *sizes), *wanted

    def _terms(self, key: Key, node: int) -> dict[Key, float]:
        """A wanted unit as a weighted sum of what a node can split (or of input units)."""
        if len(key) != 1 or self._is_term(key[0], node):
            return {key: 1.0}
        terms: dict[Key, float] = {}
        pending = {key[0]: 1.0}  # sums still to be multiplied out, users before their inputs
        heap = [-key[0]]
        while heap:
            i = -heappop(heap)
            scale = pending.pop(i)
            unit: Any = self.graph.units[i]
            weights = unit.weights.tolist() if unit.kind == "sum" else [1.0]
            for j, weight in zip(self.graph.inputs[i], weights, strict=True):
                share = _times(scale, weight)
                if self._is_term(j, node):
                    terms[(j,)] = terms[(j,)] + share if (j,) in terms else share
                elif j in pending:
                    pending[j] += share
                else:
                    pending[j] = share
                    heappush(heap, -j)
        return terms

    def _is_term(self, i: int, node: int) -> bool:
        """Whether a unit is not to be multiplied out at a node (sums at home are)."""
        unit = self.graph.units[i]
        several = unit.kind == "product" and len(unit.inputs) > 1
        return several or unit.kind == "input" or self.home[i] != node

    def _halves(self, term: Key, node: int) -> tuple[Key, Key, float]:
        """What a term asks of the left and of the right child of a node, and its weight.

        Products within the product that have units on both sides are flattened.
        """
        graph, boundary = self.graph, self.start[int(self.vtree.right[node])]
        scale, low = 1.0, self.low.__getitem__
        middle = bisect_left(term, boundary, key=low)
        while crossing := [i for i in term[:middle] if self.home[i] == node]:
            if not can_be_flattened(graph, crossing[0]):
                raise self._misfit(term, crossing[0])
            unit: Any = graph.units[crossing[0]]
            if unit.kind == "sum":  # of one input
                scale = _times(scale, float(unit.weights[0]))
            parts = {*term, *graph.inputs[crossing[0]]} - {crossing[0]}
            term = tuple(sorted(parts, key=low))
            middle = bisect_left(term, boundary, key=low)
        return term[:middle], term[middle:], scale

    def _misfit(self, term: Key, cut: int) -> CompatibilityError:
        """A unit would be cut by the vtree, as it is multiplied with another one below its node."""
        graph, vtree, node = self.graph, self.vtree, self.home[cut]
        masks, whole = node_masks(vtree), union(graph.masks[i] for i in term)
        kinds = enumerate(unit.kind for unit in graph.units)
        product = next(i for i, kind in kinds if kind == "product" and not whole & ~graph.masks[i])
        parts = show_split(graph.masks[i] for i in graph.inputs[product])
        sides = show_split([masks[vtree.left[node]], masks[vtree.right[node]]])
        return CompatibilityError(
            f"The circuit does not fit the vtree: {graph.describe(product)} splits into {parts}, "
            f"but the vtree splits {show(masks[node])} into {sides}, and so would cut "
            f"{graph.describe(cut)}."
        )

    def _leaf_block(self, node: int, variable: int, keys: dict[Key, int]) -> Input:
        """The block of a leaf: every unit wanted there as a table or as a mixture of normals."""
        card = self.graph.cardinalities[variable]
        if card is None and () in keys:
            raise PropertyError(
                f"Only discrete variables can be filled up: variable {variable} is real, where a "
                f"unit that is one everywhere has no finite integral. {self.graph.not_smooth()}."
            )
        units: Any = self.graph.units
        first: dict[Any, int] = {}
        entries: list[tuple[int, int, float]] = []
        for row, wanted in enumerate(keys):
            for term, weight in self._terms(wanted, node).items():
                key = term if card is not None else (units[term[0]].mean, units[term[0]].variance)
                entries.append((row, first.setdefault(key, len(first)), weight))
        block: Input
        if card is not None:
            block = Table(np.stack([units[i[0]].probs if i else np.ones(card) for i in first]))
        else:
            means, variances = (np.array(numbers) for numbers in zip(*first, strict=True))
            block = Real(np.eye(len(first)), means, variances)
        *places, numbers = (np.array(x) for x in zip(*entries, strict=True))
        shape = (len(keys), block.n_units)
        weights = sparse.coo_array((numbers, tuple(places)), shape=shape)
        return weighted_units(block, weights, "The circuit", ADVICE)
