"""Values of a kernel for all rows of two sides, in chunks that fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

import numpy as np

from expectedkernels.arrays import as_like, namespace
from expectedkernels.circuits.base import BlockCircuit
from expectedkernels.circuits.sides import CircuitSide, Side
from expectedkernels.engine.blocks import Inner
from expectedkernels.engine.sweep import Operand, peak_bytes, sweep
from expectedkernels.engine.value import Value, applied
from expectedkernels.kernels.blocks import KernelBlocks
from expectedkernels.kernels.scaled import Place, Scaled, concatenated

CHUNK_BYTES = 2**27
"""Chunks are not larger than this even if they may be: memory beyond the cache is slow."""
SYMMETRIC_ROWS = 64
"""From this many rows on, computing half of a symmetric matrix is worth three sweeps for one."""


def gram(
    p: Side,
    q: Side,
    kernel: KernelBlocks,
    max_bytes: int,
    bar: Any = None,
    symmetric: bool = False,
) -> Scaled:
    """Values for all rows of both sides, in chunks that fit into memory.

    With `symmetric`, the two sides are the same and so is the kernel: half of it is computed.
    """
    if p.n_rows == 0 or q.n_rows == 0:
        shape = (extent_of(p), extent_of(q))
        return Scaled(as_like(np.zeros(shape), _array_of(p, q)), None)
    axis, operands = _split(p, q, kernel, max_bytes)
    if symmetric and (axis is not None or extent_of(p) >= SYMMETRIC_ROWS):
        return _symmetric_gram(p, kernel, max_bytes, bar)
    if axis is not None:
        parts = [gram(a, b, kernel, max_bytes, bar) for _, a, b in _halves(p, q, axis)]
        return concatenated(parts, axis)
    return _by_rows(_root(operands, p, q, kernel, max_bytes, bar), p, q)


def pieces(
    p: Side,
    q: Side,
    kernel: KernelBlocks,
    max_bytes: int,
    bar: Any,
    first: tuple[int, int] = (0, 0),
) -> Iterator[tuple[Place, Scaled]]:
    """Values for some rows of both sides after the other, and which these are."""
    if p.n_rows == 0 or q.n_rows == 0:
        return
    axis, operands = _split(p, q, kernel, max_bytes)
    if axis is not None:
        for start, a, b in _halves(p, q, axis):
            begin = (first[0] + start, first[1]) if axis == 0 else (first[0], first[1] + start)
            yield from pieces(a, b, kernel, max_bytes, bar, begin)
        return
    root = _root(operands, p, q, kernel, max_bytes, bar)
    n, m = extent_of(p), extent_of(q)
    step = max(1, min(max_bytes, CHUNK_BYTES) // (64 * m))  # patterns become rows: several copies
    for start in range(0, n, step):
        rows = slice(start, min(n, start + step))
        at = (slice(first[0] + rows.start, first[0] + rows.stop), slice(first[1], first[1] + m))
        yield at, _by_rows(root, p, q, rows)


def extent_of(side: Side) -> int:
    """The number of rows, or roots, of a side."""
    return side.circuit.n_roots if side.n_rows is None else side.n_rows


def _split(
    p: Side, q: Side, kernel: KernelBlocks, max_bytes: int
) -> tuple[int | None, list[Operand]]:
    """Which side has too many rows to be swept at once; None and what to sweep if none has."""
    rows = (p.n_rows or 1, q.n_rows or 1)
    for axis, side in enumerate((p, q)):
        if side.max_rows and rows[axis] > side.max_rows:
            return axis, []
    operands = [kernel.operand, p.operand, q.operand]
    if max(rows) > 1 and peak_bytes(operands) > min(max_bytes, CHUNK_BYTES):
        return int(rows[0] < rows[1]), []
    return None, operands


def _halves(p: Side, q: Side, axis: int) -> Iterator[tuple[int, Side, Side]]:
    """The two sides with either half of the rows of one, and where these begin."""
    n = extent_of((p, q)[axis])
    for chosen in (slice(0, n // 2), slice(n // 2, n)):
        pair = (p.rows(chosen), q) if axis == 0 else (p, q.rows(chosen))
        yield chosen.start, *pair


def _root(
    operands: list[Operand], p: Side, q: Side, kernel: KernelBlocks, max_bytes: int, bar: Any
) -> Value:
    """The value at the root."""
    root = sweep(operands, _pair_leaf(p, q, kernel), max_bytes)
    if kernel.root_weights is not None:
        root = applied(root, kernel.root_weights, 1)
    if bar is not None:
        bar.update((p.n_rows or 1) * (q.n_rows or 1))
    return root


def _symmetric_gram(side: Side, kernel: KernelBlocks, max_bytes: int, bar: Any) -> Scaled:
    """The values for all pairs of rows of one side, of which the corner is computed once."""
    n = side.n_rows or 1
    first, second = side.rows(slice(0, n // 2)), side.rows(slice(n // 2, n))
    corner = gram(first, second, kernel, max_bytes, bar)
    xp = namespace(corner.data)
    scale = None if corner.scale is None else xp.matrix_transpose(corner.scale)
    mirrored = Scaled(xp.matrix_transpose(corner.data), scale)
    above = gram(first, first, kernel, max_bytes, bar, symmetric=True)
    below = gram(second, second, kernel, max_bytes, bar, symmetric=True)
    halves = [concatenated([above, corner], 1), concatenated([mirrored, below], 1)]
    return concatenated(halves, 0)


def array_in(circuit: BlockCircuit) -> Any:
    """One of the circuit's arrays."""
    block: Any = circuit.blocks[0]
    return block.weights if isinstance(block, Inner) else block.numbers


def _array_of(p: Side, q: Side) -> Any:
    """An array of the first circuit: results live where it does."""
    return array_in(next(s.circuit for s in (p, q) if isinstance(s, CircuitSide)))


def _pair_leaf(p: Side, q: Side, kernel: KernelBlocks) -> Any:
    """Leaves of the sweep: the kernel on atoms, expanded to the units of both sides."""
    inputs = kernel.leaves(lambda v: (p.atoms(v), q.atoms(v)), _array_of(p, q))

    def leaf(nodes: Any, parts: Any) -> Value:
        value = inputs(nodes)
        value = p.expand(value, 2, nodes, parts and parts[1])
        return q.expand(value, 3, nodes, parts and parts[2])

    return leaf


def _by_rows(root: Value, p: Side, q: Side, some: slice = slice(None)) -> Scaled:
    """The root's value with one row (column) per row of p (of q), for some rows of p."""
    xp = namespace(root.data)
    if root.is_log:
        finite = root.data > -inf
        data = xp.astype(finite, root.data.dtype)
        data = (data if root.sign is None else root.sign)[0, 0, ...]
        scale = xp.where(finite, root.data, xp.zeros_like(root.data))[0, 0, ...]
    else:
        data = root.data[0, 0, ...]
        scale = None
        if root.scale is not None:
            scale = xp.broadcast_to(root.scale[0, 0, ...], data.shape)
    for axis, side in enumerate((p, q)):
        rows = side.root_rows
        if rows is None and axis == 0:
            data, scale = data[some, :], None if scale is None else scale[some, :]
        elif rows is not None:
            index = as_like(rows[some] if axis == 0 else rows, data)
            data = xp.take(data, index, axis=axis)
            scale = None if scale is None else xp.take(scale, index, axis=axis)
    return Scaled(data, scale)
