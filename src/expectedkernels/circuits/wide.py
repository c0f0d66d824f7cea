"""Wide numbers: mantissas beside binary exponents, for blocks whose numbers leave doubles.

Powers of two scale doubles exactly, so a block made by way of wide numbers holds the very numbers
that plain arithmetic gives wherever that stays in range. Where it does not, units are scaled down
(or up), and what they are short of is handed to the units above them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.circuits.inputs import Input, Normal, Table
from expectedkernels.engine.blocks import Inner
from expectedkernels.engine.value import Value
from expectedkernels.errors import CircuitError
from expectedkernels.vtree import Vtree

LOG_2 = log(2.0)
ROOM = 400
"""The largest number of a unit lies between 2^-ROOM and 2^ROOM: two of them can be multiplied."""
ROOT_ROOM = 1000
"""Nothing is multiplied with a root, so its numbers may use the whole range."""
LOWEST = -(2**40)
"""Stands for the exponent of zero."""
FAR = 4000
"""Exponents beyond this mean zero or infinity in any case."""

Scale = Any
"""Binary exponents that the units of a block are short of, or None: all zero."""


@dataclass(frozen=True, eq=False)
class Wide:
    """Numbers of any size.

    Attributes
    ----------
    mantissa : array
        Zero, or of absolute value in [1/2, 1).
    exponent : int array
        What power of two the mantissas are multiplied with.
    """

    mantissa: Any
    exponent: Any

    def __getitem__(self, chosen: Any) -> Wide:
        return Wide(self.mantissa[chosen], self.exponent[chosen])

    def shifted(self, exponents: Any) -> Wide:
        """The numbers times powers of two."""
        return Wide(self.mantissa, self.exponent + exponents)

    def __mul__(self, other: Wide) -> Wide:
        mantissa, shift = np.frexp(self.mantissa * other.mantissa)
        return Wide(mantissa, self.exponent + other.exponent + shift)

    def __pow__(self, alpha: float) -> Wide:
        """The power of the numbers that are not zero; they must be positive."""
        positive = self.mantissa != 0
        bits = self.exponent + np.log2(np.where(positive, self.mantissa, 1.0))
        with np.errstate(over="ignore"):
            power = np.clip(alpha * bits, LOWEST / 2, -LOWEST / 2)
        # plain powers are the most precise, above all those of one
        mild = positive & (np.abs(bits) <= ROOT_ROOM) & (np.abs(power) <= ROOT_ROOM)
        base = _plain(Wide(np.where(mild, self.mantissa, 1.0), np.where(mild, self.exponent, 0)))
        whole = np.where(mild, 0.0, np.floor(power))
        mantissa = np.where(mild, base**alpha, np.exp2(np.where(mild, 0.0, power - whole)))
        mantissa, shift = np.frexp(np.where(positive, mantissa, 0.0))
        return Wide(mantissa, np.where(positive, whole.astype(np.int64) + shift, 0))


def wide(numbers: Any) -> Wide:
    """Plain numbers as wide ones."""
    mantissa, exponent = np.frexp(np.asarray(numbers, dtype=np.float64))
    return Wide(mantissa, exponent.astype(np.int64))


def wide_exp(logs: Any) -> Wide:
    """The exponentials of natural logarithms; -inf gives zero."""
    finite = logs > -np.inf
    safe = np.where(finite, logs, 0.0)
    whole = np.floor(safe / LOG_2)
    mantissa, shift = np.frexp(np.where(finite, np.exp(safe - whole * LOG_2), 0.0))
    return Wide(mantissa, whole.astype(np.int64) + shift)


def wide_value(value: Value) -> Wide:
    """The values of the units of one node in a sweep of one circuit without evidence."""
    data = value.data[0]
    if value.is_log:
        size = wide_exp(data)
        return size if value.sign is None else Wide(size.mantissa * value.sign[0], size.exponent)
    return wide(data) if value.scale is None else wide(data) * wide_exp(value.scale[0])


def numbers_of(block: Input | Inner) -> tuple[Any, Any]:
    """The table or weights of a block laid flat, and where the numbers of every unit start."""
    if isinstance(block, Inner):
        return block.csr.data, block.csr.indptr
    rows = block.table if isinstance(block, Table) else block.weights
    return rows.reshape(-1), np.arange(rows.shape[0] + 1) * rows.shape[1]


def with_numbers(block: Input | Inner, numbers: Any) -> Input | Inner:
    """The block with other numbers at the places of its own."""
    if isinstance(block, Table):
        return Table(numbers.reshape(block.table.shape))
    if isinstance(block, Normal):
        return Normal(numbers.reshape(block.weights.shape), block.mean, block.variance)
    csr = block.csr
    weights = sparse.csr_array((numbers, csr.indices, csr.indptr), shape=csr.shape)
    return Inner(block.n_products, block.n_units, block.left, block.right, weights)


def rescaled_blocks(
    vtree: Vtree, parts: Iterable[tuple[Input | Inner, Wide]]
) -> tuple[list[Input | Inner], Scale]:
    """Blocks with wide numbers at the places of their own, and what the roots are short of.

    The parts are blocks and their numbers, in the order of the vtree's nodes.
    """
    blocks: list[Input | Inner] = []
    scales: list[Scale] = []
    for (block, numbers), a, b in zip(parts, vtree.left, vtree.right, strict=True):
        block, scale = rescaled(
            block, numbers, scales[a] if a >= 0 else None, scales[b] if b >= 0 else None
        )
        blocks.append(block)
        scales.append(scale)
    blocks[-1], scale = lifted(blocks[-1], scales[-1])
    return blocks, scale


def rescaled(
    block: Input | Inner,
    numbers: Wide,
    left: Scale = None,
    right: Scale = None,
    room: int = ROOM,
) -> tuple[Any, Scale]:
    """The block with wide numbers at the places of its own, and what its units are short of.

    `left` and `right` are what the units of the children are short of.
    """
    if isinstance(block, Inner):
        for side, below in (("left", left), ("right", right)):
            if below is not None:
                numbers = numbers.shifted(below[block.index(side)[block.csr.indices]])
    plain, scale = settled(numbers, numbers_of(block)[1], room)
    return with_numbers(block, plain), scale


def lifted(block: Input | Inner, scale: Scale) -> tuple[Any, Scale]:
    """The roots with what they are short of put into their numbers, as far as doubles reach."""
    if scale is None:
        return block, None
    numbers, starts = numbers_of(block)
    shift = np.repeat(scale, np.diff(starts))
    return rescaled(block, wide(numbers).shifted(shift), room=ROOT_ROOM)


def settled(numbers: Wide, starts: Any, room: int = ROOM) -> tuple[Any, Scale]:
    """Plain numbers, and the exponents that those of every unit are short of.

    The numbers of unit i are those from `starts[i]` to `starts[i + 1]`.
    """
    counts = np.diff(starts)
    filled = np.flatnonzero(counts)
    top = np.zeros(len(counts), dtype=np.int64)
    if len(filled):
        exponent = np.where(numbers.mantissa != 0, numbers.exponent, LOWEST)
        top[filled] = np.maximum.reduceat(exponent, starts[filled])
    scale = np.where(top == LOWEST, 0, top - np.clip(top, -room, room))
    if not scale.any():
        return _plain(numbers), None
    return _plain(numbers.shifted(-np.repeat(scale, counts))), scale


def _plain(numbers: Wide) -> Any:
    return np.ldexp(numbers.mantissa, np.clip(numbers.exponent, -FAR, FAR).astype(np.int32))


def combined(scale: Scale, more: Scale) -> Scale:
    """What units are short of in all."""
    if scale is None or more is None:
        return more if scale is None else scale
    return scale + more


def require_in_range(scale: Scale, what: str, advice: str) -> None:
    """Raise if roots are short of something, so that doubles cannot hold them."""
    if scale is not None:
        size = LOG_2 * float(scale[np.argmax(np.abs(scale))])
        raise CircuitError(
            f"{what} has weights beyond the range of double precision, by a factor of "
            f"exp({size:.0f}); {advice}."
        )
