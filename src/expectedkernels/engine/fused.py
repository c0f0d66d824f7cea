"""Steps of passes on a GPU that are one launch each; `operations` has the same in several.

The kernels are written in Triton, which comes with torch where there is a GPU. Values are lines of
rows: programs take a part of one line, or of all lines of one node.
"""

from __future__ import annotations

from math import exp
from typing import Any

import triton
import triton.language as tl

COLUMNS = 1024
"""How many rows of one line a program takes at most."""
TILE = 2048
"""How many numbers of a node a program looks at together."""

WIDEST = 8192
"""How many weights of a unit are looked at together at most."""


@triton.jit
def _products(values, left, right, passed, out, n_passed, n_rows, COLUMNS: tl.constexpr):
    line = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < n_rows
    a = tl.load(values + tl.load(left + line) * n_rows + columns, mask=inside)
    b = tl.load(values + tl.load(right + line) * n_rows + columns, mask=inside)
    if line < n_passed:
        tl.store(passed + line * n_rows + columns, a * b, mask=inside)
    else:
        tl.store(out + line * n_rows + columns, a * b, mask=inside)


@triton.jit
def _pull(
    values, left, right, here, sent, derivatives, n_passed, n_rows, COLUMNS: tl.constexpr
):  # fmt: skip
    line = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < n_rows
    one = tl.load(left + line) * n_rows + columns
    other = tl.load(right + line) * n_rows + columns
    if line < n_passed:
        flow = tl.load(here + line * n_rows + columns, mask=inside)
    else:
        flow = tl.load(sent + line * n_rows + columns, mask=inside)
    a, b = tl.load(values + one, mask=inside), tl.load(values + other, mask=inside)
    tl.store(derivatives + one, flow * b, mask=inside)
    tl.store(derivatives + other, flow * a, mask=inside)


@triton.jit
def _quotient(x, y):
    if x.dtype == tl.float32:
        return tl.div_rn(x, tl.broadcast_to(y, x.shape))
    return x / y


@triton.jit
def _divide(
    values, starts, maxima, small, floor, share, n_rows,
    RAISED: tl.constexpr, LINES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    node = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    first, last = tl.load(starts + node), tl.load(starts + node + 1)
    top = tl.zeros([COLUMNS], dtype=values.dtype.element_ty)
    for line in range(first, last, LINES):
        lines = line + tl.arange(0, LINES)
        inside = (lines < last)[:, None] & (columns < n_rows)[None, :]
        places = lines[:, None].to(tl.int64) * n_rows + columns[None, :]
        top = tl.maximum(top, tl.max(tl.load(values + places, mask=inside, other=0.0), axis=0))
    top = tl.where(top == 0, top + 1, top * share)
    tl.store(maxima + node * n_rows + columns, top, mask=columns < n_rows)
    for line in range(first, last, LINES):
        lines = line + tl.arange(0, LINES)
        inside = (lines < last)[:, None] & (columns < n_rows)[None, :]
        places = lines[:, None].to(tl.int64) * n_rows + columns[None, :]
        x = tl.load(values + places, mask=inside, other=0.0)
        y = _quotient(x, top[None, :])
        if RAISED:
            low = (x > 0) & (y < floor)
            tl.store(small + places, low, mask=inside)
            y = tl.where(low, floor, y).to(x.dtype)
        tl.store(values + places, y, mask=inside)


@triton.jit
def _undivide(
    here, values, starts, maxima, small, out, mass, n_rows,
    RAISED: tl.constexpr, LINES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    node = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    first, last = tl.load(starts + node), tl.load(starts + node + 1)
    top = tl.load(maxima + node * n_rows + columns, mask=columns < n_rows, other=1.0)
    flow = tl.zeros([COLUMNS], dtype=values.dtype.element_ty)
    for line in range(first, last, LINES):
        lines = line + tl.arange(0, LINES)
        inside = (lines < last)[:, None] & (columns < n_rows)[None, :]
        places = lines[:, None].to(tl.int64) * n_rows + columns[None, :]
        x = tl.load(here + places, mask=inside, other=0.0)
        if RAISED:
            low = tl.load(small + places, mask=inside, other=0)
            value = tl.load(values + places, mask=inside, other=0.0)
            flow += tl.sum(tl.where(low, x * value, 0.0), axis=0)
        tl.store(out + places, _quotient(x, top[None, :]), mask=inside)
    if RAISED:
        tl.store(mass + node * n_rows + columns, flow, mask=columns < n_rows)


@triton.jit
def _look_up(states, leaves, bases, table, out, n_rows, COLUMNS: tl.constexpr):
    line = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < n_rows
    state = tl.load(states + tl.load(leaves + line) * n_rows + columns, mask=inside, other=0)
    found = tl.load(table + tl.load(bases + line) + state, mask=inside)
    tl.store(out + line * n_rows + columns, found, mask=inside)


@triton.jit
def _add_up(states, leaves, bases, units, table, n_rows, COLUMNS: tl.constexpr):
    line = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < n_rows
    state = tl.load(states + tl.load(leaves + line) * n_rows + columns, mask=inside, other=0)
    more = tl.load(units + line * n_rows + columns, mask=inside, other=0.0)
    tl.atomic_add(table + tl.load(bases + line) + state, more, mask=inside)


@triton.jit
def _move(
    weights, dots, good, beta, step, out, floor, n_units, width,
    UNITS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    units = tl.program_id(0).to(tl.int64) * UNITS + tl.arange(0, UNITS)
    columns = tl.arange(0, WIDTH)
    inside = (units < n_units)[:, None] & (columns < width)[None, :]
    places = units[:, None] * width + columns[None, :]
    old = tl.load(weights + places, mask=inside, other=0.0)
    alive = (old > 0).to(old.dtype)
    n_alive = tl.sum(alive, axis=1)
    prior = tl.load(beta) / tl.where(n_alive > 1, n_alive, 1.0)
    counts = old * tl.load(dots + places, mask=inside, other=0.0) + alive * prior[:, None]
    total = tl.sum(counts, axis=1)[:, None]
    shares = tl.where(total > 0, counts / tl.where(total > 0, total, 1.0), old)
    new = old + tl.load(step) * (shares - old)
    new = tl.where(new < floor, floor, new) * alive
    new = tl.where(tl.load(good), new, old).to(old.dtype)
    tl.store(out + places, new, mask=inside)


def _lines(n_lines: int, n_rows: int) -> tuple[Any, int]:
    """The programs for parts of lines, and how many rows each takes."""
    columns = min(COLUMNS, triton.next_power_of_2(n_rows))
    return (n_lines, triton.cdiv(n_rows, columns)), columns


def _nodes(n_nodes: int, n_lines: int, n_rows: int) -> tuple[Any, dict[str, int]]:
    """The programs for parts of nodes, and the shape of what each looks at together."""
    lines = min(32, triton.next_power_of_2(max(1, n_lines // n_nodes)))
    columns = min(TILE // lines, triton.next_power_of_2(n_rows))
    grid = n_nodes, triton.cdiv(n_rows, columns)
    return grid, {"LINES": lines, "COLUMNS": columns}


def products(values: Any, inputs: Any, passed: Any, n_passed: int) -> Any:
    """The products of pairs of lines; the first ones are written to `passed`, and nowhere else."""
    left, right = inputs
    out = values.new_empty((left.shape[0], values.shape[1]))
    grid, columns = _lines(*out.shape)
    _products[grid](values, left, right, passed, out, n_passed, out.shape[1], COLUMNS=columns)
    return out


def pull(values: Any, inputs: Any, here: Any, sent: Any, derivatives: Any, n_passed: int) -> None:
    """Write the derivatives in the inputs of products, none of which is used twice.

    Those of the first products are in `here`, of the others in `sent`.
    """
    left, right = inputs
    grid, columns = _lines(left.shape[0], values.shape[1])
    _pull[grid](
        values, left, right, here, sent, derivatives, n_passed, values.shape[1], COLUMNS=columns
    )


def divide(values: Any, starts: Any, floor: float | None, offset: float) -> tuple[Any, Any]:
    """Divide the values of nodes: the divisors, and what was clamped to the floor.

    The largest value of a node becomes the exponential of the offset.
    """
    n_nodes, n_rows = starts.shape[0] - 1, values.shape[1]
    maxima = values.new_empty((n_nodes, n_rows))
    small = None if floor is None else (values.new_empty(0) > 0).new_empty(values.shape)
    grid, shape = _nodes(n_nodes, *values.shape)
    _divide[grid](
        values, starts, maxima, values if small is None else small, floor or 0.0, exp(-offset),
        n_rows, RAISED=small is not None, **shape,
    )  # fmt: skip
    return maxima, small


def undivide(here: Any, values: Any, starts: Any, maxima: Any, small: Any) -> tuple[Any, Any]:
    """Derivatives over what values were divided by, and the flow through clamped ones, if any."""
    out = here.new_empty(here.shape)
    mass = None if small is None else maxima.new_empty(maxima.shape)
    grid, shape = _nodes(maxima.shape[0], *here.shape)
    _undivide[grid](
        here, values, starts, maxima, here if small is None else small, out,
        here if mass is None else mass, here.shape[1], RAISED=small is not None, **shape,
    )  # fmt: skip
    return out, None if mass is None else mass.sum(axis=0)


def move(weights: Any, dots: Any, good: Any, beta: Any, step: Any, floor: float, out: Any) -> None:
    """Write weights (units, width) moved towards the shares of counts, these times dots.

    Unless it is good, they stay as they are.
    """
    n_units, width = weights.shape
    wide = triton.next_power_of_2(width)
    units = max(1, TILE // wide)
    _move[(triton.cdiv(n_units, units),)](
        weights, dots, good, beta, step, out, floor, n_units, width, UNITS=units, WIDTH=wide
    )


def look_up(states: Any, leaves: Any, bases: Any, table: Any, out: Any) -> None:
    """Write the entries of the tables of units in the states of rows."""
    grid, columns = _lines(*out.shape)
    _look_up[grid](states, leaves, bases, table, out, out.shape[1], COLUMNS=columns)


def add_up(states: Any, leaves: Any, bases: Any, units: Any, table: Any) -> None:
    """Add what rows say of units to the entries of their states."""
    grid, columns = _lines(*units.shape)
    _add_up[grid](states, leaves, bases, units, table, units.shape[1], COLUMNS=columns)
