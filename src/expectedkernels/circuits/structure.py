"""Graphs of units as circuits: the vtree they follow, or why there is none."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import cache, reduce
from heapq import heappop, heappush
from math import inf
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from expectedkernels.checks import CircuitError, CompatibilityError, PropertyError, Verdict
from expectedkernels.circuits.block_circuit import weighted_units
from expectedkernels.circuits.graph import Graph, Unit, bits, show, union
from expectedkernels.circuits.inputs import TINY, Input, Real, Table
from expectedkernels.engine.blocks import Inner, from_leaves, from_root, inner_of_edges
from expectedkernels.vtree import Vtree, by_splits


class Family(NamedTuple):
    """The inputs of a product unit that lie in some scope, and must not be split there.

    Univariate inputs never stand in the way of a split, so they only count in `cover`.
    """

    factors: tuple[int, ...]
    """The inputs over at least two variables, in order of their numbers."""
    cover: int
    """The variables of all the inputs in the scope."""
    origin: int
    """The unit they come from."""


def find_vtree(graph: Graph) -> Vtree | Verdict:
    """A vtree that the products of a decomposable graph split along, or why there is none.

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
            raise PropertyError(_conflict(graph, families, scope))
        middle = len(blocks) // 2
        halves = union(blocks[:middle]), union(blocks[middle:])
        return [(half, _restricted(graph, families, half)) for half in halves]

    try:
        return by_splits((graph.masks[-1], [_alone(graph, len(graph.units) - 1)]), split)
    except PropertyError as error:
        return Verdict(False, str(error))


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
    return Family((i,), graph.masks[i], i)


def _family(graph: Graph, inputs: Iterable[int], cover: int, origin: int) -> Family:
    several = {i for i in inputs if graph.masks[i].bit_count() > 1}
    return Family(tuple(sorted(several)), cover, origin)


def _opened(graph: Graph, families: list[Family], scope: int, fully: bool) -> list[Family]:
    """Replace units that fill the scope by their inputs, and with `fully` all that can be.

    A sum can be opened when it stands alone. Products within products are only opened fully,
    when there is need: it costs time, and may make the vtree less like the graph.
    """
    masks = graph.masks
    result: list[Family] = []
    seen: set[tuple[tuple[int, ...], int]] = set()
    work = families[::-1]
    while work:
        family = work.pop()
        factors, cover, _ = family
        if not factors or (factors, cover) in seen:
            continue
        seen.add((factors, cover))
        if len(factors) == 1 and masks[factors[0]] == cover and (fully or cover == scope):
            i = factors[0]
            if graph.units[i].kind == "sum":
                inputs = [j for j in graph.inputs[i] if masks[j].bit_count() > 1]
                work += [_alone(graph, j) for j in reversed(inputs)]
            else:
                work.append(_family(graph, graph.inputs[i], cover, i))
        elif fully and any(can_be_flattened(graph, i) for i in factors):
            work.append(_flattened(graph, family))
        else:
            result.append(family)
    return result


def _flattened(graph: Graph, family: Family) -> Family:
    """Products within the product opened all the way down."""
    flat: list[int] = []
    stack = list(family.factors)
    while stack:
        i = stack.pop()
        if can_be_flattened(graph, i):
            stack += graph.inputs[i]
        else:
            flat.append(i)
    return _family(graph, flat, family.cover, family.origin)


def _restricted(graph: Graph, families: list[Family], half: int) -> list[Family]:
    """The families within one half of a split."""
    masks = graph.masks
    result: dict[tuple[tuple[int, ...], int], Family] = {}
    for factors, cover, origin in families:
        inside = tuple(i for i in factors if masks[i] & half)
        if inside:
            result.setdefault((inside, cover & half), Family(inside, cover & half, origin))
    return list(result.values())


def _blocks(graph: Graph, families: Iterable[Family], scope: int) -> list[int]:
    """The finest partition of the scope that splits no factor, by smallest variable."""
    blocks: set[int] = set()
    covered = 0
    for family in families:
        for i in family.factors:
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
    factors = [(graph.masks[i], family) for family in families for i in family.factors]
    factors.sort(key=lambda factor: -factor[0].bit_count())
    largest: list[tuple[int, Family]] = []
    for mask, family in factors:
        for other, rival in largest:
            if mask & other and mask & ~other:
                first, second = (
                    f"{graph.units[f.origin].kind} unit #{f.origin} splits into "
                    f"{_show_family(graph, f)}"
                    for f in sorted((family, rival), key=lambda f: f.origin)
                )
                return f"over variables {show(scope)}, {first}, but {second}"
        if not any(mask & other for other, _ in largest):
            largest.append((mask, family))
    raise CircuitError("The products have a split in common.")  # pragma: no cover


def _show_family(graph: Graph, family: Family) -> str:
    parts = [graph.masks[i] for i in family.factors]
    rest = family.cover & ~union(parts)
    return show_split([*parts, *(1 << v for v in bits(rest))])


def _smallest(mask: int) -> int:
    return (mask & -mask).bit_length()


Block = Input | Inner

Key = int | tuple[int, int, int]
"""A unit wanted at a vtree node: its number in the graph, or (product, start, stop) for the
product of some consecutive factors of a product unit, or ONES."""
ADVICE = (
    "sums within sums are multiplied out, so write it with numbers that differ less from each other"
)
ONES = -1
"""The unit that is one everywhere, which fills up scopes."""


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
    _check(graph, smooth)
    if vtree is None:
        found = find_vtree(graph)
        if isinstance(found, Verdict):
            raise PropertyError(
                f"The circuit is not structured-decomposable: {found.reason}. Exact expectations "
                "need structured circuits; for others, monte_carlo_expected_kernel gives an "
                "estimate with a standard error."
            )
        vtree = found
    elif sorted(vtree.scope().tolist()) != bits(graph.masks[-1]):
        raise CompatibilityError(
            f"The vtree must have the variables of the circuit, {show(graph.masks[-1])}. Got one "
            f"over {show(sum(1 << v for v in vtree.scope().tolist()))}."
        )
    try:
        return vtree, _Builder(graph, vtree).blocks()
    except ArithmeticError:
        raise CircuitError(
            f"The circuit has weights beyond the range of double precision; {ADVICE}."
        ) from None


def _check(graph: Graph, smooth: bool) -> None:
    """Raise unless the graph is decomposable, smooth, and over the variables 0 to D - 1."""
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
    the node. Wanted above its home (to fill up a scope), a unit goes down on its side,
    with ones on the other.

    Products of weights that are no doubles, to all digits, are an `ArithmeticError`.
    """

    def __init__(self, graph: Graph, vtree: Vtree):
        self.graph, self.vtree = graph, vtree
        self.node_masks = node_masks(vtree)
        first_leaf = np.cumsum(vtree.variable >= 0) - (vtree.n_below + 1) // 2
        self.start: list[int] = first_leaf.tolist()
        self.low, self.home = _homes(graph, vtree)
        self.factors: dict[int, tuple[list[int], list[int], float]] = {}

    def blocks(self) -> list[Block]:
        """The blocks, children first."""
        wanted: dict[Key, int] = {len(self.graph.units) - 1: 0}
        return from_root(self.vtree, wanted, self._leaf_block, self._inner_block)

    def _inner_block(
        self, node: int, keys: dict[Key, int]
    ) -> tuple[Inner, dict[Key, int], dict[Key, int]]:
        """The block of an inner node, and what is wanted from the children."""
        boundary = self.start[int(self.vtree.right[node])]
        left_keys: dict[Key, int] = {}
        right_keys: dict[Key, int] = {}
        left: list[int] = []
        right: list[int] = []
        columns: dict[Key, int] = {}
        entries: list[tuple[int, int, float]] = []
        for row, key in enumerate(keys):
            for term, weight in self._terms(key, node).items():
                column = columns.get(term)
                if column is None:
                    column = columns[term] = len(left)
                    one, other = self._halves(term, node, boundary)
                    left.append(left_keys.setdefault(one, len(left_keys)))
                    right.append(right_keys.setdefault(other, len(right_keys)))
                at_home = isinstance(term, int) and term != ONES and self.home[term] == node
                # the weights of one-input sums that were passed through inside a product unit
                scale = self.factors[term][2] if at_home else 1.0  # type: ignore[index]
                entries.append((row, column, _times(weight, scale)))
        rows, indices, weights = (np.array(numbers) for numbers in zip(*entries, strict=True))
        if not np.isfinite(weights).all():
            raise ArithmeticError
        order = np.lexsort((indices, rows))
        edges = (rows[order], indices[order], weights[order])
        sizes = (len(keys), len(left_keys), len(right_keys))
        block = inner_of_edges(np.array(left), np.array(right), edges, *sizes)
        return block, left_keys, right_keys

    def _terms(self, key: Key, node: int) -> dict[Key, float]:
        """A wanted unit as a weighted sum of what a node can split (or of input units)."""
        if isinstance(key, tuple) or self._is_term(key, node):
            return {key: 1.0}
        terms: dict[Key, float] = {}
        pending = {key: 1.0}  # sums still to be multiplied out, users before their inputs
        heap = [-key]
        while heap:
            i = -heappop(heap)
            scale = pending.pop(i)
            unit: Any = self.graph.units[i]
            weights = unit.weights.tolist() if unit.kind == "sum" else [1.0]
            for j, weight in zip(self.graph.inputs[i], weights, strict=True):
                share = _times(scale, weight)
                if self._is_term(j, node):
                    terms[j] = terms[j] + share if j in terms else share
                elif j in pending:
                    pending[j] += share
                else:
                    pending[j] = share
                    heappush(heap, -j)
        return terms

    def _is_term(self, i: int, node: int) -> bool:
        """Whether a unit is not to be multiplied out at a node (sums at home are)."""
        if i == ONES or self.home[i] != node:
            return True
        unit = self.graph.units[i]
        return unit.kind == "input" or (unit.kind == "product" and len(unit.inputs) > 1)

    def _halves(self, term: Key, node: int, boundary: int) -> tuple[Key, Key]:
        """What a term asks of the left and of the right child of a node."""
        if term == ONES:
            return ONES, ONES
        if isinstance(term, tuple):
            product, start, stop = term
        elif self.home[term] != node:
            return (term, ONES) if self.low[term] < boundary else (ONES, term)
        else:
            product, start = term, 0
            stop = len(self._factors_of(product)[0])
        middle = bisect_left(self.factors[product][1], boundary, start, stop)
        return self._part(product, start, middle), self._part(product, middle, stop)

    def _part(self, product: int, start: int, stop: int) -> Key:
        if stop - start > 1:
            return product, start, stop
        return self.factors[product][0][start] if stop > start else ONES

    def _factors_of(self, product: int) -> tuple[list[int], list[int], float]:
        """The factors of a product unit from left to right, their places, and their scale.

        A factor must be alone below its home among the factors; one that is not is flattened.
        """
        if product in self.factors:
            return self.factors[product]
        graph, whole = self.graph, self.graph.masks[product]
        found: list[int] = []
        scale = 1.0
        stack = list(graph.inputs[product])
        while stack:
            i = stack.pop()
            if self.node_masks[self.home[i]] & whole == graph.masks[i]:
                found.append(i)
            elif can_be_flattened(graph, i):
                stack += graph.inputs[i]
                unit: Any = graph.units[i]
                if unit.kind == "sum":
                    scale = _times(scale, float(unit.weights[0]))
            else:
                raise self._misfit(product, i)
        found.sort(key=self.low.__getitem__)
        self.factors[product] = found, [self.low[i] for i in found], scale
        return self.factors[product]

    def _misfit(self, product: int, factor: int) -> CompatibilityError:
        graph, vtree, node = self.graph, self.vtree, self.home[factor]
        parts = show_split(graph.masks[i] for i in graph.inputs[product])
        sides = show_split([self.node_masks[vtree.left[node]], self.node_masks[vtree.right[node]]])
        return CompatibilityError(
            f"The circuit does not fit the vtree: {graph.describe(product)} splits into {parts}, "
            f"but the vtree splits {show(self.node_masks[node])} into {sides}, and so would cut "
            f"{graph.describe(factor)}."
        )

    def _leaf_block(self, node: int, variable: int, keys: dict[Key, int]) -> Input:
        """The block of a leaf: every unit wanted there as a table or as a mixture of normals."""
        card = self.graph.cardinalities[variable]
        if card is None and ONES in keys:
            raise PropertyError(
                f"Only discrete variables can be filled up: variable {variable} is real, where a "
                f"unit that is one everywhere has no finite integral. {self._lacking(variable)}"
            )
        rows = [self._terms(key, node) for key in keys]
        units: Any = self.graph.units
        first: dict[Any, int] = {}
        entries: list[tuple[int, int, float]] = []
        for row, terms in enumerate(rows):
            for i, weight in terms.items():
                key = i if card is not None else (units[i].mean, units[i].variance)
                entries.append((row, first.setdefault(key, len(first)), weight))
        block: Input
        if card is not None:
            block = Table(np.stack([np.ones(card) if i == ONES else units[i].probs for i in first]))
        else:
            means, variances = (np.array(numbers) for numbers in zip(*first, strict=True))
            block = Real(np.eye(len(first)), means, variances)
        *places, numbers = (np.array(x) for x in zip(*entries, strict=True))
        shape = (len(rows), block.n_units)
        weights = sparse.coo_array((numbers, tuple(places)), shape=shape)
        return weighted_units(block, weights, "The circuit", ADVICE)

    def _lacking(self, variable: int) -> str:
        """Which sum unit makes it necessary to fill up a variable."""
        graph, bit = self.graph, 1 << variable
        for i, unit in enumerate(graph.units):
            if unit.kind == "sum" and graph.masks[i] & bit:
                for j in graph.inputs[i]:
                    if not graph.masks[j] & bit:
                        return f"It is missing in {graph.describe(j)}, an input of sum unit #{i}."
        return ""


def _homes(graph: Graph, vtree: Vtree) -> tuple[list[int], list[int]]:
    """For every unit, the place of its leftmost variable, and the lowest node above them all."""
    leaves = np.flatnonzero(vtree.variable >= 0)
    place = dict(zip(vtree.variable[leaves].tolist(), range(len(leaves)), strict=True))
    lowest_above = cache(vtree.lca)
    low: list[int] = []
    home: list[int] = []
    for unit, inputs in zip(graph.units, graph.inputs, strict=True):
        if unit.kind == "input":
            low.append(place[unit.variable])  # type: ignore[attr-defined]
            home.append(int(leaves[low[-1]]))
        else:
            low.append(min(low[j] for j in inputs))
            home.append(reduce(lowest_above, {home[j] for j in inputs}))
    return low, home
