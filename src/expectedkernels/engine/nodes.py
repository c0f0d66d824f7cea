"""Passes one vtree node at a time: patterns of rows, large nodes, and logarithms.

The values of a node are an array over the units of every operand and, behind these, the patterns
of every batch of rows: rows that are alike below a node share what is computed there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from math import exp, inf, log, prod
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.arrays import as_like, detach, namespace, spans, take
from expectedkernels.data.evidence import Patterns
from expectedkernels.engine.joint import Operand, apply_weights
from expectedkernels.engine.layers import log_headroom
from expectedkernels.engine.scaled import ScaledArray, signed_logs

CACHED_BYTES = 2**20
"""Products of one node are worked on in parts of about this size."""
LOG_TERMS = 2**18
"""How many terms of sums in logarithms are made at once."""
# A large array, freed once and never touched, lets the C library keep freed memory of up to twice
# its size: what is given back to the operating system is slow at the first touch after that.
np.empty(2**21)


Leaf = Callable[[int, str], tuple[ScaledArray, bool]]
"""From a variable and a mode to the values of its atoms, and whether some were too small."""


class NodePass:
    """A pass from the leaves to the root.

    Parameters
    ----------
    operands : sequence of Operand
    leaf : function
        See `Leaf`.
    batches : sequence of Patterns
    order : sequence of int, optional
        How the axes of operands, and then of batches, follow each other in arrays: as they are
        counted, or so that patterns come before the units of their own operand, which are gathered
        together then.
    mode : {"floor", "zero", "logs"}
        What is too small beside the other units of its node becomes as large as it may be, or
        zero; of values that are not negative, these are upper and lower bounds. In logarithms
        nothing is too small.
    signed : bool
        Whether values may be negative, so that sums of them may cancel.

    Attributes
    ----------
    clamped : bool
        Whether some value was too small.
    """

    def __init__(
        self,
        operands: Sequence[Operand],
        leaf: Leaf,
        batches: Sequence[Patterns] = (),
        order: Sequence[int] = (),
        mode: str = "floor",
        signed: bool = False,
    ):
        self.operands, self.leaf, self.batches, self.mode = operands, leaf, batches, mode
        self.order = order or range(len(operands) + len(batches))
        self.axis = np.argsort(self.order).tolist()
        self.vtree, self.signed = operands[0].vtree, signed
        self.bounds: Any = sum(op.bounds for op in operands)
        self.margin, self.clamped = log_headroom(*self.bounds[:2]), False
        self._keeps = True

    def root(self) -> ScaledArray:
        """The values of the roots, with axes as they are counted."""
        self._keeps = False
        value = deque(self, maxlen=1).pop()[2]
        value.data = namespace(value.data).permute_dims(value.data, tuple(self.axis))
        return value

    def __iter__(self) -> Iterator[tuple[int, ScaledArray | None, ScaledArray]]:
        """Every node, children first, with the values of its products and of its units.

        Those of products only where they are one array.
        """
        values: dict[int, ScaledArray] = {}
        for node, variable in enumerate(self.vtree.variable.tolist()):
            if variable >= 0:
                products, clamped = self.leaf(variable, self.mode)
                self.clamped |= clamped
                xp, order = namespace(products.data), tuple(self.order)
                products.data = xp.permute_dims(products.data, order)
                parts, axis = iter([products]), 0
            else:
                axis, cuts = self._split_batch(node)
                children = [values.pop(int(x[node])) for x in (self.vtree.left, self.vtree.right)]
                left, right = children
                parts = (self.products(node, left, right, axis, some) for some in cuts)
            sums = []
            for part in parts:
                sums.append(self._divided(node, self._sums(node, part)))
            values[node] = self._concat(sums, axis) if len(sums) > 1 else sums[0]
            yield node, part if len(sums) == 1 else None, values[node]

    def _concat(self, parts: list[ScaledArray], axis: int) -> ScaledArray:
        """The values of all parts of the patterns of a batch."""
        concat, scale = namespace(parts[0].data).concat, None
        behind = self.axis[len(self.operands) :]
        if any(part.scale is not None for part in parts):  # some may have stayed in their range
            zeros = (np.zeros([part.data.shape[i] for i in behind]) for part in parts)
            pairs = zip(parts, zeros, strict=True)
            scale = concat([_added(part.scale, zero) for part, zero in pairs], axis=axis)
        low, high = min(part.low for part in parts), max(part.high for part in parts)
        return ScaledArray(concat([x.data for x in parts], axis=behind[axis]), scale, low, high)

    def _split_batch(self, node: int) -> tuple[int, list[slice | None]]:
        """The batch that is worked on in parts, and these, which stay in the cache."""
        count = [batch.count[node] for batch in self.batches]
        size = 8 * prod(count) * prod(operand.widths[node] for operand in self.operands)
        n_parts = min(max(count, default=1), -(-size // CACHED_BYTES))
        if n_parts < 2:
            return 0, [None]
        axis = next(i for i, n in enumerate(count) if n >= n_parts)
        ends = [count[axis] * i // n_parts for i in range(n_parts + 1)]
        return axis, list(map(slice, ends[:-1], ends[1:]))

    def products(
        self, node: int, left: ScaledArray, right: ScaledArray, axis: int = 0, some: Any = None
    ) -> ScaledArray:
        """The values of products, given those of both children; for some patterns of a batch."""
        below = left.data
        left, right = (
            self._gather(node, value, side, axis, some)
            for value, side in ((left, "left"), (right, "right"))
        )
        scale = _added(left.scale, right.scale)
        low, high = left.low + right.low, left.high + right.high
        if self.mode == "logs":
            return ScaledArray(left.data + right.data)
        own = isinstance(below, np.ndarray) and not np.may_share_memory(left.data, below)
        # a copy can be written over
        data = namespace(left.data).multiply(left.data, right.data, out=left.data if own else None)
        return ScaledArray(data, scale, low, high)

    def _gather(
        self, node: int, value: ScaledArray, side: str, cut: int, some: slice | None
    ) -> ScaledArray:
        """The values of a child as the products of a node take them, axis by axis."""
        n = len(self.operands)
        index: list[Any] = [getattr(op.blocks[node], side) for op in self.operands]
        index += [getattr(batch, side)[node] for batch in self.batches]
        if some is not None:
            index[n + cut] = some if index[n + cut] is None else index[n + cut][some]
        data, scale = self._take(value.data, [index[i] for i in self.order]), value.scale
        if scale is not None:
            scale = self._take(scale, index[n:])
        return ScaledArray(data, scale, value.low, value.high)

    def _take(self, array: Any, places: list[Any]) -> Any:
        """Entries along axes."""
        array = array[tuple(x if isinstance(x, slice) else slice(None) for x in places)]
        takes = [i for i, x in enumerate(places) if not isinstance(x, slice | None)]
        # what leaves fewest entries first
        for axis in sorted(takes, key=lambda i: len(places[i]) / array.shape[i]):
            array = take(array, as_like(places[axis], array), axis)
        return array

    def _sums(self, node: int, products: ScaledArray) -> ScaledArray:
        """The weighted sums of products, along the axis of every operand."""
        weighted = [
            (op.units[node] / max(1, op.widths[node]), axis, op.matrices[node])
            for axis, op in zip(self.axis, self.operands, strict=False)
            if op.matrices[node] is not None
        ]
        data = products.data
        for _, axis, matrix in sorted(weighted, key=lambda entry: entry[:2]):
            shape = data.shape
            split = (1, prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))
            if self.mode == "logs":
                data = _log_sums(matrix, data, split)
            else:
                w = matrix if sparse.issparse(matrix) else matrix[None]
                data = apply_weights(w, data, split, None)
            data = data.reshape((*shape[:axis], -1, *shape[axis + 1 :]))
        return ScaledArray(data, products.scale, products.low, products.high)

    def _divided(self, node: int, value: ScaledArray) -> ScaledArray:
        """The values over the largest of their patterns, where they could leave their range."""
        if self.mode == "logs":
            return value
        below, above, spread, _ = self.bounds[:, node].tolist()
        low, high = value.low + below, value.high + above
        low = -inf if self.signed else low
        value.low, value.high = low, high
        if (low >= -self.margin and high <= self.margin) or not value.data.size:
            return value
        spread = spread if low > -inf else -inf
        sizes = np.abs(value.data) if self.signed else value.data
        low, high = float(sizes.min()), float(sizes.max())
        if low == 0 < high:
            low = float(np.where(sizes > 0, sizes, inf).min())
        low, high = (log(low), log(high)) if high > 0 else (0.0, 0.0)
        value.low, value.high = low, high
        passed_on = not self._keeps and node < self.vtree.n_nodes - 1  # others read sizes
        if passed_on and low >= -self.margin and high <= self.margin:
            return value
        axes = tuple(self.axis[: len(self.operands)])
        top = sizes.max(axis=axes)
        top = np.where(top > 0, top, 1.0)
        least = max(low - high, spread)
        data = value.data / np.expand_dims(top, axes)
        if least < -self.margin:
            small = (value.data != 0) & (np.abs(data) < exp(-self.margin))
            if small.any():
                self.clamped = True
                data[small] = 0.0 if self.mode == "zero" else exp(-self.margin)
        scale = _added(value.scale, np.log(top))
        return ScaledArray(data, scale, max(least, -self.margin), 0.0)


def _added(one: Any, other: Any) -> Any:
    """The sum of two log-scales, None for zero."""
    if one is None or other is None:
        return other if one is None else one
    return one + other


def _log_sums(matrix: Any, logs: Any, split: tuple[int, ...]) -> Any:
    """Logs of weighted sums along the third of four axes: no term is lost."""
    xp = namespace(logs)
    _, before, k, after = split
    logs = logs.reshape(before, 1, k, after)
    weights = signed_logs(as_like(matrix.toarray() if sparse.issparse(matrix) else matrix, logs))
    found = []
    for some in spans(matrix.shape[0], max(1, LOG_TERMS // max(1, before * k * after))):
        terms = logs + weights[some][None, :, :, None]
        top = xp.max(detach(terms).real, axis=2, keepdims=True)
        top = xp.where(top > -inf, top, xp.zeros_like(top))
        found.append(signed_logs(xp.sum(xp.exp(terms - top), axis=2).real) + top[:, :, 0])
    return xp.concat(found, axis=1)
