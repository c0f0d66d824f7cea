"""Blocks of wide numbers as blocks of doubles, with nothing lost on the way.

Where all numbers are doubles they stay what they are. Where some are not, factors that the numbers
of a unit share move up to the units that use it; what is then still too small or too large
beside its neighbours moves down again, into copies of the units below that are scaled by a power
of two. Only where no unit below has room for it either does this raise. Densities of real
variables differ without bounds: a part of a mixture of them that fits nowhere is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.circuits.inputs import Input
from expectedkernels.circuits.wide import (
    LOG_2,
    Scale,
    Wide,
    as_plain,
    is_plain,
    runs,
    tops,
    wide,
)
from expectedkernels.engine.blocks import Inner
from expectedkernels.engine.nodes import at_nodes, from_leaves, from_root
from expectedkernels.errors import CircuitError
from expectedkernels.vtree import Vtree

Part = tuple[Input | Inner, Wide]
"""A block that says what goes where, and its numbers."""

ROOM = 400
"""Numbers of units that share a factor beyond 2^-ROOM or 2^ROOM are scaled by it."""
LEAST, MOST = -1021, 1023
"""The exponents of numbers that keep all their digits, and can be added in pairs."""
STEP = 512
"""Units are copied with scales that are multiples of this, so that copies can be shared."""
ENDLESS, FAR_OFF = 2**40, 2**38


def plain_blocks(
    vtree: Vtree, parts: Iterable[Part], what: str, advice: str
) -> list[Input | Inner]:
    """The blocks with their wide numbers as doubles; raises if there is no such circuit.

    The parts come in the order of the vtree's nodes. `what` and `advice` are for the error.
    """
    blocks, _ = _fitted(vtree, list(parts), what, advice, free=False)
    return blocks


def replaced_blocks(
    vtree: Vtree, blocks: Sequence[Input | Inner], node: int, part: Part, what: str, advice: str
) -> list[Input | Inner]:
    """The blocks with a new one at a node, whose wide numbers may be no doubles (as above)."""
    block, numbers = part
    if is_plain(numbers):
        found = list(blocks)
        found[node] = block.refilled(as_plain(numbers))
        return found
    parts = [(other, wide(other.flat[0])) for other in blocks]
    parts[node] = part
    return plain_blocks(vtree, parts, what, advice)


def scaled_blocks(
    vtree: Vtree, parts: Iterable[Part], what: str, advice: str
) -> tuple[list[Input | Inner], Scale]:
    """The blocks as doubles, but for powers of two that the roots are short of (None: none)."""
    return _fitted(vtree, list(parts), what, advice, free=True)


def _fitted(
    vtree: Vtree, parts: list[Part], what: str, advice: str, free: bool
) -> tuple[list[Input | Inner], Scale]:
    if all(is_plain(numbers) for _, numbers in parts):
        return [block.refilled(as_plain(numbers)) for block, numbers in parts], None
    parts, scales = _lifted(vtree, parts)
    limits, shift, far = _reach(vtree, parts, scales[-1], free)
    reals = at_nodes(vtree, lambda node, _: parts[node][0].cardinality is None, lambda _: False)
    if far > 0 and any(reals):
        parts = [(block, _without_tiny(numbers)) for block, numbers in parts]
        limits, shift, far = _reach(vtree, parts, scales[-1], free)
    if far > 0:
        by = f"by a factor of exp({far * LOG_2:.0f})" if far < FAR_OFF // 2 else "within one sum"
        raise CircuitError(
            f"{what} has weights beyond the range of double precision, {by}; {advice}."
        )
    return _lowered(vtree, parts, limits, shift), scales[-1] - shift if free else None


def _reach(vtree: Vtree, parts: list[Part], scale: Any, free: bool) -> tuple[Any, Any, int]:
    """The limits of all units, how to scale the roots, and how far that is beyond their limits."""
    limits = _limits(vtree, parts)
    low, high = limits[-1].low, limits[-1].high
    shift = _between(0, low, high) if free else scale
    return limits, shift, int(np.max(np.maximum(low - shift, shift - high), initial=0))


def _without_tiny(numbers: Wide) -> Wide:
    """The numbers without those that are no doubles beside the largest of their unit."""
    return Wide(np.where(numbers.exponent < LEAST, 0.0, numbers.mantissa), numbers.exponent)


def _lifted(vtree: Vtree, parts: list[Part]) -> tuple[list[Part], list[Any]]:
    """The parts with common factors moved up, and what every unit is short of then."""

    def lifted(node: int, numbers: Wide) -> tuple[Part, Any]:
        block = parts[node][0]
        starts = block.flat[1]
        top = tops(numbers, starts)
        scale = top - np.clip(top, -ROOM, ROOM)
        return (block, numbers.shifted(-np.repeat(scale, np.diff(starts)))), scale

    def inner(node: int, *below: tuple[Part, Any]) -> tuple[Part, Any]:
        block, numbers = parts[node]
        for index, (_, scale) in zip(_edge_inputs(block), below, strict=True):
            numbers = numbers.shifted(scale[index])
        return lifted(node, numbers)

    found = from_leaves(vtree, lambda node, _: lifted(node, parts[node][1]), inner)
    return [part for part, _ in found], [scale for _, scale in found]


def _edge_inputs(block: Any) -> tuple[Any, Any]:
    """The left and right inputs of the products of all edges."""
    left, right = block.inputs
    return left[block.columns], right[block.columns]


@dataclass(frozen=True, eq=False)
class _Limits:
    """By how many powers of two every unit of a node can be scaled without leaving the range.

    Units that are zero have no limits: `low` is -ENDLESS. If `low` is above `high`, there is no
    form of the unit in doubles.
    """

    low: Any
    high: Any


def _limits(vtree: Vtree, parts: list[Part]) -> list[_Limits]:
    """The limits of all units: every number, and every unit below, takes what it can."""

    def limits(node: int, below: Sequence[tuple[Any, _Limits]]) -> _Limits:
        block, numbers = parts[node]
        low, high = LEAST - numbers.exponent, MOST - numbers.exponent
        zero = numbers.mantissa == 0
        for index, child in below:
            low, high = low + child.low[index], high + child.high[index]
            zero = zero | (child.low[index] == -ENDLESS)
        low = np.where(zero, -ENDLESS, np.clip(low, 1 - ENDLESS, ENDLESS - 1))
        high = np.where(zero, ENDLESS, np.clip(high, 1 - ENDLESS, ENDLESS - 1))
        starts = block.flat[1]
        low = _over_runs(np.maximum, low, starts, -ENDLESS)
        high = _over_runs(np.minimum, high, starts, ENDLESS)
        none = low > high  # so far apart that no scale of a unit above can make up for it
        return _Limits(np.where(none, FAR_OFF, low), np.where(none, -FAR_OFF, high))

    def inner(node: int, *below: _Limits) -> _Limits:
        return limits(node, tuple(zip(_edge_inputs(parts[node][0]), below, strict=True)))

    return from_leaves(vtree, lambda node, _: limits(node, ()), inner)


def _over_runs(reduce: Any, numbers: Any, starts: Any, nothing: int) -> Any:
    """The largest (or smallest) number of every run, `nothing` for empty ones."""
    result = np.full(len(starts) - 1, nothing, dtype=np.int64)
    filled = np.flatnonzero(np.diff(starts))
    if len(filled):
        result[filled] = reduce.reduceat(numbers, starts[filled])
    return result


def _lowered(
    vtree: Vtree, parts: list[Part], limits: list[_Limits], shift: Any
) -> list[Input | Inner]:
    """The blocks with the roots scaled by powers of two, and units copied where that helps."""

    def leaf(node: int, _: int, wanted: tuple[Any, Any]) -> Input:
        block, numbers = parts[node]
        units, shifts = wanted
        starts = block.flat[1]
        place, entry = runs(starts[units], np.diff(starts)[units])
        plain = as_plain(numbers[entry].shifted(shifts[place]))
        return block.with_numbers(plain.reshape(len(units), block.width))  # type: ignore[return-value]

    def inner(node: int, wanted: tuple[Any, Any]) -> tuple[Inner, Any, Any]:
        below = limits[vtree.left[node]], limits[vtree.right[node]]
        return _lowered_inner(*parts[node], *wanted, below)  # type: ignore[arg-type]

    return from_root(vtree, (np.arange(len(shift)), shift), leaf, inner)


def _lowered_inner(
    block: Inner, numbers: Wide, units: Any, shifts: Any, limits: tuple[_Limits, _Limits]
) -> tuple[Inner, Any, Any]:
    """Scaled copies of the units of an inner block, and those they need of the children."""
    csr = block.csr
    place, edge = runs(csr.indptr[units], np.diff(csr.indptr)[units])
    left, right = _edge_inputs(block)
    alive = (limits[0].low[left] > -ENDLESS) & (limits[1].low[right] > -ENDLESS)
    kept = (alive & (numbers.mantissa != 0))[edge]
    place, edge = place[kept], edge[kept]
    starts = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=len(units)))])
    scaled = numbers[edge].shifted(shifts[place])
    exponent, left, right = scaled.exponent, left[edge], right[edge]
    (low, high), (other_low, other_high) = (
        (found.low[index], found.high[index])
        for found, index in zip(limits, (left, right), strict=True)
    )
    inside = (exponent >= LEAST) & (exponent <= MOST)
    best = np.where(inside, 0, STEP * np.rint(exponent / STEP).astype(np.int64))
    given = _between(
        best,
        np.maximum(low + other_low, exponent - MOST),
        np.minimum(high + other_high, exponent - LEAST),
    )
    to_left = _between(
        given, np.maximum(low, given - other_high), np.minimum(high, given - other_low)
    )
    data = as_plain(Wide(scaled.mantissa, exponent - given))
    left_keys, left_index = _distinct(left, to_left)
    right_keys, right_index = _distinct(right, given - to_left)
    (first, second), column = _distinct(left_index, right_index)
    weights = sparse.csr_array((data, column, starts), shape=(len(units), len(first)))
    return Inner(len(first), len(units), first, second, weights), left_keys, right_keys


def _between(numbers: Any, low: Any, high: Any) -> Any:
    return np.minimum(np.maximum(numbers, low), high)


def _distinct(first: Any, second: Any) -> tuple[tuple[Any, Any], Any]:
    """The distinct pairs, and the place of every pair among them."""
    pairs = np.stack([first, second], axis=1).reshape(-1, 2)
    distinct, place = np.unique(pairs, axis=0, return_inverse=True)
    return (distinct[:, 0], distinct[:, 1]), place.reshape(-1)
