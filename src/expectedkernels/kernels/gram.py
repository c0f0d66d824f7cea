"""Values of a kernel for all rows of two or three axes, in chunks that fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Any

import numpy as np
from array_api_compat import is_torch_array

from expectedkernels.arrays import as_like, is_on_card, namespace, take, to_numpy
from expectedkernels.circuits.base import BlockCircuit
from expectedkernels.circuits.queries import log_values
from expectedkernels.circuits.sides import CircuitSide, PointSide
from expectedkernels.engine.sweep import Operand, Remote, peak_bytes, sweep
from expectedkernels.engine.value import Value, applied
from expectedkernels.kernels.blocks import KernelBlocks, Tables
from expectedkernels.kernels.scaled import Place, Scaled, concatenated, divided

Axes = tuple[Any, ...]
"""Two or three sides: a circuit, a circuit given evidence, points, or what has their methods."""
ProductKernel = KernelBlocks | Tables

CHUNK_BYTES = 2**27
"""Chunks are not larger than this even if they may be: memory beyond the cache is slow."""
SYMMETRIC_ROWS = 64
"""From this many rows on, computing half of a symmetric matrix is worth three sweeps for one."""


def gram(
    axes: Axes,
    kernel: ProductKernel,
    max_bytes: int,
    bar: Any = None,
    symmetric: bool = False,
) -> Scaled:
    """Values for all rows of the axes, in chunks that fit into memory.

    Two axes give E k(x, y), three give E k(x, y) k(x, z), with x on the first. With `symmetric`,
    there are two, they are the same and so is the kernel: half of it is computed.
    """
    if any(side.n_rows == 0 for side in axes):
        shape = tuple(map(extent_of, axes))
        return Scaled(as_like(np.zeros(shape), _array_of(axes)), None)
    axis, operands = _split(axes, kernel, max_bytes)
    if symmetric and (axis is not None or extent_of(axes[0]) >= SYMMETRIC_ROWS):
        return _symmetric_gram(axes[0], kernel, max_bytes, bar)
    if axis is not None:
        halves = [gram(some, kernel, max_bytes, bar) for _, some in _halves(axes, axis)]
        return concatenated(halves, axis)
    return _by_rows(_root(operands, axes, kernel, max_bytes, bar), axes)


def expected(axes: Axes, kernel: ProductKernel, max_bytes: int, logs: Any = None) -> Any:
    """The plain numbers of `gram`, given the evidence of the rows of every axis.

    `logs` are the log probabilities of that of the first axis, if they are known.
    """
    every = (slice(None),) * len(axes)
    return divided(gram(axes, kernel, max_bytes), _row_logs(axes, logs), every).linear()


def expected_pieces(
    axes: Axes, kernel: ProductKernel, max_bytes: int, logs: Any = None
) -> Iterator[tuple[Place, Any]]:
    """The same for some rows of the first axis after the other, and which these are."""
    logs = _row_logs(axes, logs)
    for at, piece in pieces(axes, kernel, max_bytes, rows_first=True):
        yield at, divided(piece, logs, at).linear()


def _row_logs(axes: Axes, known: Any) -> list[Any]:
    """What to divide the rows of every axis by, as logs; None where they are normalised."""
    found: list[Any] = [None] * len(axes)
    for i, side in enumerate(axes):
        evidence = getattr(side, "evidence", None)
        if evidence is not None:
            first = i == 0 and known is not None
            found[i] = known if first else log_values(side.circuit, evidence)[0][:, 0]
    return found


def pieces(
    axes: Axes,
    kernel: ProductKernel,
    max_bytes: int,
    bar: Any = None,
    rows_first: bool = False,
) -> Iterator[tuple[Place, Scaled]]:
    """Values for some rows of the axes after the other, and which these are.

    With `rows_first`, other axes than the first are cut only where it has a single row.
    """
    for part in parts(axes, kernel, max_bytes, rows_first):
        root = _root(part.operands, part.axes, kernel, max_bytes, bar)
        n, *others = map(extent_of, part.axes)
        begin, *later = part.first
        rest = tuple(slice(at, at + m) for at, m in zip(later, others, strict=True))
        # patterns become rows: several copies
        step = max(1, min(max_bytes, CHUNK_BYTES) // (64 * prod(others)))
        for start in range(0, n, step):
            rows = slice(start, min(n, start + step))
            at = (slice(begin + rows.start, begin + rows.stop), *rest)
            yield at, _by_rows(root, part.axes, rows)


@dataclass(frozen=True, eq=False)
class Swept:
    """Rows of the axes that are swept at once, what is swept, and which rows come first."""

    axes: Axes
    operands: list[Operand]
    first: tuple[int, ...]


def parts(
    axes: Axes,
    kernel: ProductKernel,
    max_bytes: int,
    rows_first: bool = False,
    first: tuple[int, ...] | None = None,
) -> Iterator[Swept]:
    """The rows of the axes in groups that fit into memory."""
    if any(side.n_rows == 0 for side in axes):
        return
    first = (0,) * len(axes) if first is None else first
    axis, operands = _split(axes, kernel, max_bytes, rows_first)
    if axis is None:
        yield Swept(axes, operands, first)
        return
    for start, some in _halves(axes, axis):
        begin = tuple(at + start * (i == axis) for i, at in enumerate(first))
        yield from parts(some, kernel, max_bytes, rows_first, begin)


def extent_of(side: Any) -> int:
    """The number of rows, or roots, of an axis."""
    return int(side.circuit.n_roots if side.n_rows is None else side.n_rows)


def _split(
    axes: Axes, kernel: ProductKernel, max_bytes: int, rows_first: bool = False
) -> tuple[int | None, list[Operand]]:
    """Which axis has too many rows to be swept at once; None and what to sweep if none has."""
    rows = [side.n_rows or 1 for side in axes]
    for axis, side in enumerate(axes):
        if side.max_rows and rows[axis] > side.max_rows:
            return axis, []
    operands = [*kernel.operands, *(side.operand for side in axes)]
    if max(rows) > 1 and peak_bytes(operands) > min(max_bytes, CHUNK_BYTES):
        return 0 if rows_first and rows[0] > 1 else rows.index(max(rows)), []
    return None, operands


def _halves(axes: Axes, axis: int) -> Iterator[tuple[int, Axes]]:
    """The axes with either half of the rows of one, and where these begin."""
    n = extent_of(axes[axis])
    for chosen in (slice(0, n // 2), slice(n // 2, n)):
        yield chosen.start, (*axes[:axis], axes[axis].rows(chosen), *axes[axis + 1 :])


def _root(
    operands: list[Operand], axes: Axes, kernel: ProductKernel, max_bytes: int, bar: Any
) -> Value:
    """The value at the root."""
    root = sweep(operands, _leaf(axes, kernel), max_bytes, _remote(axes, kernel))
    weights = kernel.root_weights
    if weights is not None:
        if is_torch_array(weights.matrix):  # as a parameter of the kernel
            on_host = isinstance(root.data, np.ndarray)
            there = to_numpy(weights.matrix) if on_host else weights.matrix.to(root.data)
            weights = replace(weights, matrix=there)
        root = applied(root, weights, 1)
    if bar is not None:
        bar.update(prod(side.n_rows or 1 for side in axes))
    return root


def _symmetric_gram(side: Any, kernel: ProductKernel, max_bytes: int, bar: Any) -> Scaled:
    """The values for all pairs of rows of one side, of which the corner is computed once."""
    n = side.n_rows or 1
    first, second = side.rows(slice(0, n // 2)), side.rows(slice(n // 2, n))
    corner = gram((first, second), kernel, max_bytes, bar)
    xp = namespace(corner.data)
    scale = None if corner.scale is None else xp.matrix_transpose(corner.scale)
    mirrored = Scaled(xp.matrix_transpose(corner.data), scale)
    above = gram((first, first), kernel, max_bytes, bar, symmetric=True)
    below = gram((second, second), kernel, max_bytes, bar, symmetric=True)
    halves = [concatenated([above, corner], 1), concatenated([mirrored, below], 1)]
    return concatenated(halves, 0)


def array_in(circuit: BlockCircuit) -> Any:
    """One of the circuit's arrays."""
    return circuit.blocks[0].numbers


def _array_of(axes: Axes) -> Any:
    """An array of the first circuit: results live where it does."""
    return array_in(next(side.circuit for side in axes if not isinstance(side, PointSide)))


def _remote(axes: Axes, kernel: ProductKernel) -> Remote | None:
    """What a sweep on a card may be captured by; None elsewhere."""
    like = _array_of(axes)
    if not is_on_card(like):
        return None
    whole = all(isinstance(side, CircuitSide) and side.evidence is None for side in axes)
    key = None
    if whole and isinstance(kernel, KernelBlocks) and not kernel.has_gradients:
        key = kernel.signature
    return Remote(like, key, lambda: _leaf(axes, kernel))


def _leaf(axes: Axes, kernel: ProductKernel) -> Any:
    """Leaves of the sweep: the kernel on atoms, expanded to the units of all axes."""
    inputs = kernel.leaves(lambda v: tuple(side.atoms(v) for side in axes), _array_of(axes))
    own = len(kernel.operands)
    # points only choose from their atoms: they do it while the others are atoms still
    order = sorted(range(len(axes)), key=lambda i: not isinstance(axes[i], PointSide))

    def leaf(nodes: Any, parts: Any) -> Value:
        value = inputs(nodes)
        for i in order:
            value = axes[i].expand(value, own + 1 + i, nodes, parts and parts[own + i])
        return value

    return leaf


def _by_rows(root: Value, axes: Axes, some: slice = slice(None)) -> Scaled:
    """The root's value with one entry per row along every axis, for some rows of the first."""
    at_root = _scaled(root, root.data.ndim - len(axes))  # the root, and the whole kernel
    data, scale = at_root.data, at_root.scale
    for axis, side in enumerate(axes):
        rows = side.root_rows
        if rows is None and axis == 0:
            data, scale = data[some, ...], None if scale is None else scale[some, ...]
        elif rows is not None:
            index = as_like(rows[some] if axis == 0 else rows, data)
            data = take(data, index, axis)
            scale = None if scale is None else take(scale, index, axis)
    return Scaled(data, scale)


def _scaled(root: Value, leading: int) -> Scaled:
    """The root's value at the first entry of some leading axes."""
    xp = namespace(root.data)
    first: Any = (*(0,) * leading, ...)
    if root.is_log:
        finite = root.data > -inf
        data = xp.astype(finite, root.data.dtype)
        data = (data if root.sign is None else root.sign)[first]
        return Scaled(data, xp.where(finite, root.data, xp.zeros_like(root.data))[first])
    data = root.data[first]
    return Scaled(
        data, None if root.scale is None else xp.broadcast_to(root.scale[first], data.shape)
    )


def by_kernel_root(axes: Axes, kernel: ProductKernel, max_bytes: int) -> Any:
    """Values of circuits without evidence, for every root of the kernel: its weights are unused."""
    operands = [*kernel.operands, *(side.operand for side in axes)]
    root = sweep(operands, _leaf(axes, kernel), max_bytes, _remote(axes, kernel))
    return _scaled(root, 1).linear()
