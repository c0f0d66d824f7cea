"""Values of units and of pairs of units, kept in range: mantissas beside log-scales.

A `Value` holds one array for a group of vtree nodes: axis 0 runs over the nodes of the group,
every further axis over the units of one operand, `batch` copies of them if the operand is
batched. Values are plain numbers times a log-scale for as long as all non-zero entries
that share a scale fit into the range of the number type; where they do not, the entries
are kept as sign and logarithm. Either way no entry is lost to under- or overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import inf, log, prod
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.arrays import (
    Array,
    as_like,
    detach,
    device_of,
    namespace,
    numbers,
    take,
    to_numpy,
)

Batch = tuple[int, ...]

TILE = 2**16
"""How many numbers are turned from rows to columns at once."""


@lru_cache(maxsize=8)
def _limit_of(dtype: Any, xp: Any) -> float:
    return 0.97 * log(float(xp.finfo(dtype).max))


def limit(array: Array) -> float:
    """The largest |log| that entries may reach before they are rescaled."""
    if isinstance(array, np.ndarray) and array.dtype == np.float64:
        return 688.0  # the same, without the look-up
    return _limit_of(array.dtype, namespace(array))


@dataclass(slots=True, eq=False)
class Value:
    """Numbers in range.

    Attributes
    ----------
    data : array of shape (nodes, batch_1 * units_1, batch_2 * units_2, ...)
        Mantissas, or logarithms of absolute values if `is_log`.
    batch : tuple of int
        How many copies of its units every axis holds.
    lo, hi : float
        Bounds of the log of the non-zero mantissas.
    scale : array of shape (nodes, batch_1, batch_2, ...), or None
        What to add to the log of every mantissa.
    sign : array, or None
        The signs, if `is_log` and not all entries are non-negative.
    tight : bool
        Whether the largest mantissa of every scale is one.
    signed : bool
        Whether plain numbers may be negative, so that sums of them may cancel.
    """

    data: Array
    batch: Batch
    lo: float
    hi: float
    scale: Array | None = None
    is_log: bool = False
    sign: Array | None = None
    tight: bool = False
    signed: bool = False

    def mapped(self, entries: Any, scales: Any = None, batch: Batch | None = None) -> Value:
        """The value with functions applied to its entries, and to its scales (the same)."""
        scales = entries if scales is None else scales
        return Value(
            entries(self.data),
            self.batch if batch is None else batch,
            self.lo,
            self.hi,
            None if self.scale is None else scales(self.scale),
            self.is_log,
            None if self.sign is None else entries(self.sign),
            signed=self.signed,
        )


def plain(data: Array, batch: Batch) -> Value:
    """The value of an array of plain numbers."""
    lo, hi = bounds(data)
    return Value(data, batch, lo, hi, signed=has_negative(data))


def from_log(logs: Array, batch: Batch, sign: Array | None = None) -> Value:
    """The value with these logarithms of absolute values (and signs, if not all positive)."""
    return _settled(Value(logs, batch, -inf, inf, is_log=True, sign=sign))


def bounds(data: Array) -> tuple[float, float]:
    """The logs of the smallest and largest absolute value that is not zero; (0, 0) if none."""
    xp = namespace(data)
    if prod(data.shape) == 0:
        return 0.0, 0.0
    if xp is not np:
        low, high = numbers(xp, lambda: _ends(xp, xp.abs(detach(data))))
        return (0.0, 0.0) if high == 0.0 else (log(low), log(high))
    size = xp.abs(data)
    high = float(xp.max(size))
    if high == 0.0:
        return 0.0, 0.0
    # bits of positive numbers are in their order; less one, those of zero come last
    bits = size.view(f"u{size.itemsize}")
    bits -= 1
    return log(float((bits.min() + 1).view(size.dtype))), log(high)


def _ends(xp: Any, size: Array) -> tuple[Array, Array]:
    """The smallest number that is not zero, and the largest."""
    return xp.min(xp.where(size > 0, size, xp.full_like(size, inf))), xp.max(size)


def has_negative(data: Array) -> bool:
    """Whether some number is negative."""
    xp = namespace(data)
    return prod(data.shape) > 0 and numbers(xp, lambda: [xp.min(detach(data))])[0] < 0.0


def safe_log(x: Array) -> Array:
    """The log, -inf at zero without a warning."""
    xp = namespace(x)
    positive = x > 0
    return xp.where(positive, xp.log(xp.where(positive, x, xp.ones_like(x))), xp.full_like(x, -inf))


def grid(batch: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """The shape with every axis split into its batch and its units."""
    split: list[int] = [shape[0]]
    for copies, n in zip(batch, shape[1:], strict=True):
        split += [copies, n // copies if copies else 0]
    return tuple(split)


def _per_batch(x: Array, batch: Batch, reduce: Any) -> tuple[Array, tuple[int, ...]]:
    """Reduce over the units; also the shape in which the result meets the split array."""
    xp = namespace(x)
    split = grid(batch, x.shape)
    axes = tuple(range(2, 2 * len(batch) + 1, 2))
    reduced = reduce(xp.reshape(x, split), axis=axes)
    meet = tuple(1 if i in axes else n for i, n in enumerate(split))
    return reduced, meet


def tightened(value: Value) -> Value:
    """The same value with its largest mantissas (per scale) equal to one, and exact bounds."""
    if value.is_log or value.tight or prod(value.data.shape) == 0:
        return value
    if value.hi - value.lo > limit(value.data):  # the smallest mantissas would become zero
        return value
    xp = namespace(value.data)
    top, meet = _per_batch(xp.abs(detach(value.data)), value.batch, xp.max)
    top = xp.where(top > 0, top, xp.ones_like(top))
    split = grid(value.batch, value.data.shape)
    data = xp.reshape(xp.reshape(value.data, split) / xp.reshape(top, meet), value.data.shape)
    scale = xp.log(top) if value.scale is None else value.scale + xp.log(top)
    lo, hi = bounds(data)
    return Value(data, value.batch, lo, hi, scale, tight=True, signed=value.signed)


def to_log(value: Value) -> Value:
    """The same value as signs and logarithms."""
    if value.is_log:
        return value
    xp = namespace(value.data)
    logs = safe_log(xp.abs(value.data))
    if value.scale is not None:
        split = grid(value.batch, logs.shape)
        meet = tuple(n if i == 0 or i % 2 else 1 for i, n in enumerate(split))
        logs = xp.reshape(xp.reshape(logs, split) + xp.reshape(value.scale, meet), logs.shape)
    sign = xp.sign(value.data) if has_negative(value.data) else None
    return Value(logs, value.batch, -inf, inf, is_log=True, sign=sign)


def _settled(value: Value) -> Value:
    """A value of logarithms as scaled mantissas, if these have the range for it."""
    xp = namespace(value.data)
    if prod(value.data.shape) == 0:
        return Value(value.data, value.batch, 0.0, 0.0)
    logs = detach(value.data)
    top, meet = _per_batch(logs, value.batch, xp.max)
    top = xp.where(top > -inf, top, xp.zeros_like(top))
    split = grid(value.batch, logs.shape)
    shifted = xp.reshape(logs, split) - xp.reshape(top, meet)

    def read() -> tuple[Array, Array, Array]:
        small = xp.where(shifted > -inf, shifted, xp.zeros_like(shifted))
        return xp.min(small), xp.min(top), xp.max(top)

    low, least, most = numbers(xp, read)
    room = 0.5 * limit(value.data)
    if low < -room:
        return value
    if max(-least, most) - low < room:  # no scale needed
        data = xp.exp(value.data) if value.sign is None else xp.exp(value.data) * value.sign
        return Value(data, value.batch, least + low, most, signed=value.sign is not None)
    data = xp.reshape(
        xp.exp(xp.reshape(value.data, split) - xp.reshape(top, meet)), value.data.shape
    )
    if value.sign is not None:
        data = data * value.sign
    return Value(data, value.batch, low, 0.0, top, tight=True, signed=value.sign is not None)


def fitted(left: Value, right: Value, lo: float, hi: float) -> tuple[Value, Value]:
    """The two values in a form in which they can be multiplied, and then weighted, in range.

    `lo` and `hi` bound the log of what the weights do to the product. Both results are plain
    or both are logarithms.
    """
    if not (left.is_log or right.is_log):
        bound = limit(left.data)
        for narrow in (None, _measured, tightened):
            if narrow is not None:
                left, right = narrow(left), narrow(right)
            if left.lo + right.lo + lo >= -bound and left.hi + right.hi + hi <= bound:
                return left, right
    return to_log(left), to_log(right)


def _measured(value: Value) -> Value:
    """The same value with exact bounds."""
    lo, hi = bounds(value.data)
    return Value(
        value.data, value.batch, lo, hi, value.scale, tight=value.tight, signed=value.signed
    )


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of sum units: one matrix (units x products), or a stack of one per node.

    Attributes
    ----------
    matrix : dense array of shape (units, products) or (nodes, units, products), or CSR
    lo, hi : float
        Logs of the smallest non-zero weight, and of the largest sum of absolute weights of a unit.
    signed : bool
        Whether some weight is negative.
    """

    matrix: Array
    lo: float
    hi: float
    signed: bool = False

    @property
    def n_units(self) -> int:
        """The number of sum units (per node)."""
        return int(self.matrix.shape[-2])

    @cached_property
    def transposed(self) -> Array:
        """The dense matrices transposed, laid out for products from the right."""
        turned = namespace(self.matrix).matrix_transpose(self.matrix)
        return np.ascontiguousarray(turned) if isinstance(turned, np.ndarray) else turned


def weights_of(matrix: Array) -> Weights:
    """The weights with their bounds."""
    is_sparse = sparse.issparse(matrix)
    data = matrix.data if is_sparse else detach(matrix)
    if prod(data.shape) == 0:
        return Weights(matrix, 0.0, 0.0)
    xp = namespace(data)

    def read() -> list[Array]:
        low, top = _ends(xp, xp.abs(data))
        # a sum of large weights may be out of range
        shares = xp.abs(data) / xp.where(top > 0, top, xp.ones_like(top))
        if is_sparse:
            shares = sparse.csr_array((shares, matrix.indices, matrix.indptr), matrix.shape)
        totals = shares.sum(axis=1) if is_sparse else xp.sum(shares, axis=-1)
        return [low, top, xp.max(totals), xp.min(data)]

    low, top, total, least = numbers(xp, read)
    if top == 0.0:
        return Weights(matrix, 0.0, 0.0)
    return Weights(matrix, min(0.0, log(low)), max(0.0, log(top) + log(total)), least < 0.0)


def weighted(value: Value, weights: Weights, axis: int, out: Array | None = None) -> Value:
    """Sums along one operand's axis: every unit is a weighted sum of the products there.

    `out` is an array that may be overwritten with the result, if it has the right shape.
    """
    if value.is_log:
        return _apply_log(value, weights, axis)
    return _apply_plain(value, weights, axis, out)


def _apply_plain(value: Value, weights: Weights, axis: int, out: Array | None) -> Value:
    x, matrix = value.data, weights.matrix
    if not isinstance(x, np.ndarray):
        matrix = as_like(matrix.toarray() if sparse.issparse(matrix) else matrix, x)
    copies = value.batch[axis - 1]
    before, after = prod(x.shape[1:axis]), prod(x.shape[axis + 1 :])
    n_nodes, n_products = x.shape[0], x.shape[axis] // copies
    shape = (*x.shape[:axis], copies * weights.n_units, *x.shape[axis + 1 :])
    xp = namespace(x)
    if sparse.issparse(matrix):
        data = _apply_sparse(x, matrix, n_nodes * before * copies, n_products, after)
    elif after == 1:
        rows = xp.reshape(x, (n_nodes, before * copies, n_products))
        turned = weights.transposed if matrix is weights.matrix else xp.matrix_transpose(matrix)
        data = _matmul(xp, rows, turned, _room(out, shape, (n_nodes, before * copies, -1)))
    else:
        blocks = xp.reshape(x, (n_nodes, before * copies, n_products, after))
        stack = matrix if matrix.ndim == 2 else matrix[:, None, :, :]
        data = _matmul(xp, stack, blocks, _room(out, shape, (n_nodes, before * copies, -1, after)))
    signed = value.signed or weights.signed
    return Value(
        xp.reshape(data, shape),
        value.batch,
        -inf if signed else value.lo + weights.lo,  # terms that cancel leave any small number
        value.hi + weights.hi,
        value.scale,
        signed=signed,
    )


def _room(out: Array | None, shape: tuple[int, ...], view: tuple[int, ...]) -> Any:
    """The memory of `out` in another shape; None if it cannot be had without a copy."""
    if not isinstance(out, np.ndarray) or out.shape != shape or not out.flags.writeable:
        return None
    room = out.reshape(view)
    return room if np.may_share_memory(room, out) else None


def _matmul(xp: Any, a: Array, b: Array, out: Any) -> Array:
    if out is not None:
        return np.matmul(a, b, out=out)
    return a @ b if a.dtype == b.dtype else xp.matmul(a, b)  # the latter brings types together


def _apply_sparse(x: Any, matrix: Any, before: int, n_products: int, after: int) -> Any:
    """The sparse matrix times the middle axis of (before, products, after)."""
    if before == 1:
        return matrix @ x.reshape(n_products, after)
    if after == 1:
        return _sparse_times_rows(matrix, x.reshape(before, n_products))
    if after >= 16:
        blocks = x.reshape(before, n_products, after)
        return np.stack([matrix @ block for block in blocks])
    moved = np.moveaxis(x.reshape(before, n_products, after), 1, 0).reshape(n_products, -1)
    return np.moveaxis((matrix @ moved).reshape(-1, before, after), 0, 1)


def _sparse_times_rows(matrix: Any, rows: Any) -> Any:
    """The sparse matrix times every row, some rows at a time: these are turned within the cache."""
    if rows.size <= 4 * TILE:
        return (matrix @ rows.T).T
    found = np.empty((len(rows), matrix.shape[0]), dtype=np.result_type(matrix.dtype, rows.dtype))
    step = max(16, TILE // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        chosen = slice(start, start + step)
        found[chosen] = (matrix @ rows[chosen].T).T
    return found


def _apply_log(value: Value, weights: Weights, axis: int) -> Value:
    """Signed log-sum-exp of every unit over its own inputs only, so nothing underflows."""
    x, matrix, copies = value.data, weights.matrix, value.batch[axis - 1]
    xp = namespace(x)
    matrix = as_like(matrix.toarray() if sparse.issparse(matrix) else matrix, x)
    if matrix.ndim == 2:
        matrix = xp.broadcast_to(matrix[None, ...], (x.shape[0], *matrix.shape))
    host = to_numpy(matrix)
    before, after = prod(x.shape[1:axis]) * copies, prod(x.shape[axis + 1 :])
    split = (x.shape[0], before, x.shape[axis] // copies, after)
    logs = xp.reshape(x, split)
    sign = None if value.sign is None else xp.reshape(value.sign, split)
    signed = sign is not None or weights.signed
    found = []
    for node, unit in np.ndindex(host.shape[:2]):
        inputs = as_like(np.flatnonzero(host[node, unit]), x)
        w = xp.reshape(take(matrix[node, unit, :], inputs, 0), (1, -1, 1))
        factor = xp.sign(w) if signed else None
        if sign is not None:
            factor = factor * take(sign[node, ...], inputs, 1)
        found.append(_logsumexp(take(logs[node, ...], inputs, 1) + xp.log(xp.abs(w)), factor))
    shape = (*x.shape[:axis], copies * host.shape[1], *x.shape[axis + 1 :])

    def assembled(parts: Sequence[Array]) -> Array:
        stacked = xp.reshape(xp.stack(parts), (x.shape[0], host.shape[1], before, after))
        return xp.reshape(xp.permute_dims(stacked, (0, 2, 1, 3)), shape)

    totals, signs = zip(*found, strict=True)
    new = assembled(signs) if signed else None
    return Value(assembled(totals), value.batch, -inf, inf, is_log=True, sign=new)


def _logsumexp(terms: Array, factor: Array | None) -> tuple[Array, Array]:
    """Log and sign of the sum over axis 1 of factor * exp(terms)."""
    xp = namespace(terms)
    if terms.shape[1] == 0:
        empty = xp.full((terms.shape[0], terms.shape[2]), -inf, dtype=terms.dtype)
        return empty, xp.zeros_like(empty)
    top = xp.max(detach(terms), axis=1, keepdims=True)
    top = xp.where(top > -inf, top, xp.zeros_like(top))
    parts = xp.exp(terms - top)
    if factor is not None:
        parts = parts * factor
    total = xp.sum(parts, axis=1)
    return safe_log(xp.abs(total)) + top[:, 0, :], xp.sign(total)


def product(left: Value, right: Value, reuse: bool = False) -> Value:
    """The entrywise product of two fitted values; it may overwrite the left one on request."""
    if left.is_log:
        sign = left.sign
        if right.sign is not None:
            sign = right.sign if sign is None else sign * right.sign
        logs = left.data + right.data
        return Value(logs, left.batch, -inf, inf, is_log=True, sign=_in_full(sign, logs.shape))
    scale = left.scale
    if right.scale is not None:
        scale = right.scale if scale is None else scale + right.scale
    scale = _in_full(scale, (left.data.shape[0], *left.batch))
    data = left.data
    if reuse and isinstance(data, np.ndarray) and data.flags.writeable:
        np.multiply(data, right.data, out=data)
    else:
        data = data * right.data
    signed = left.signed or right.signed
    return Value(data, left.batch, left.lo + right.lo, left.hi + right.hi, scale, signed=signed)


def _in_full(array: Array | None, shape: tuple[int, ...]) -> Array | None:
    """The array in its full shape, where it came from a factor that is the same along some axes."""
    if array is None or array.shape == shape:
        return array
    return namespace(array).broadcast_to(array, shape)


def settled(value: Value) -> Value:
    """A value of logarithms back as plain numbers where these have the range; others pass.

    Sums that may have cancelled have no lower bound: it is measured here, before the entries are
    gathered, and so multiplied, by whoever takes them.
    """
    if value.is_log:
        return _settled(value)
    return _measured(value) if value.lo == -inf else value


def applied(value: Value, weights: Weights, axis: int) -> Value:
    """Weighted sums along one axis, after bringing the value into range for them."""
    if not value.is_log:
        bound = limit(value.data)
        for narrow in (_measured, tightened, to_log):
            if value.lo + weights.lo >= -bound and value.hi + weights.hi <= bound:
                break
            value = narrow(value)
    return settled(weighted(value, weights, axis))


def times(left: Value, right: Value, lo: float = 0.0, hi: float = 0.0) -> Value:
    """The entrywise product, in a form that stays in range under weights bounded by lo and hi."""
    return product(*fitted(left, right, lo, hi))


def repeated(value: Value, axis: int, copies: int) -> Value:
    """`copies` of all entries of an axis that has one so far, one after the other."""
    xp = namespace(value.data)
    reps = tuple(copies if i == axis else 1 for i in range(value.data.ndim))
    return value.mapped(lambda x: xp.tile(x, reps), batch=with_copies(value.batch, axis, copies))


def with_copies(batch: Batch, axis: int, copies: int) -> Batch:
    """The batch with another number of copies along an axis."""
    return (*batch[: axis - 1], copies, *batch[axis:])


def taken(value: Value, axis: int, entries: Any, batches: Any) -> Value:
    """Entries of an axis, grouped into batches that take over the scales of the given ones."""

    def at(index: Any) -> Any:
        index = as_like(np.asarray(index, dtype=np.intp), value.data)
        return lambda x: take(x, index, axis)

    return value.mapped(at(entries), at(batches), with_copies(value.batch, axis, len(batches)))


def joined(parts: Sequence[Value], axis: int) -> Value:
    """Values one after the other along an axis: batches of equal units, or nodes (axis 0)."""
    if any(part.is_log for part in parts):
        parts = [to_log(part) for part in parts]
    first = parts[0]
    xp = namespace(first.data)
    batch = tuple(
        sum(part.batch[i] for part in parts) if i == axis - 1 else copies
        for i, copies in enumerate(first.batch)
    )
    scale = sign = None
    if any(part.scale is not None for part in parts):
        scale = xp.concat([scale_of(part) for part in parts], axis=axis)
    if any(part.sign is not None for part in parts):
        ones = xp.ones_like
        signs = [ones(part.data) if part.sign is None else part.sign for part in parts]
        sign = xp.concat(signs, axis=axis)
    return Value(
        xp.concat([part.data for part in parts], axis=axis),
        batch,
        min(part.lo for part in parts),
        max(part.hi for part in parts),
        scale,
        first.is_log,
        sign,
        signed=any(part.signed for part in parts),
    )


def scale_of(value: Value) -> Array:
    """The scale, written out if it is zero."""
    if value.scale is not None:
        return value.scale
    xp = namespace(value.data)
    shape = (value.data.shape[0], *value.batch)
    return xp.zeros(shape, dtype=value.data.dtype, device=device_of(value.data))


def spread(value: Value, n: int) -> Value:
    """The value of one node as that of n equal ones, without copies."""
    xp = namespace(value.data)
    return value if n == 1 else value.mapped(lambda x: xp.broadcast_to(x, (n, *x.shape[1:])))
