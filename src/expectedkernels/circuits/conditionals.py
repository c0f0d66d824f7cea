"""Batches of conditionals as one circuit with many roots, with no more units than they need.

Given evidence, most units of a deterministic circuit are zero or cannot be reached, and units
that differ only in what is now known become equal. What is left, over all rows of a batch, is
often a small part of (patterns x units).
"""

from __future__ import annotations

from functools import cached_property
from math import inf
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.circuits.base import BlockCircuit
from expectedkernels.circuits.evidence import Evidence
from expectedkernels.circuits.inputs import Input
from expectedkernels.circuits.queries import leaf_sums
from expectedkernels.circuits.ranges import plain_blocks
from expectedkernels.circuits.sides import CircuitSide
from expectedkernels.circuits.wide import (
    Wide,
    as_plain,
    is_plain,
    sums,
    wide,
    wide_exp,
)
from expectedkernels.engine.blocks import Inner, inner
from expectedkernels.engine.sweep import Operand, upward
from expectedkernels.engine.value import to_log

Part = tuple[Input | Inner, Wide | None]
"""A block, and its numbers if they are not all doubles."""

TINY = float(np.finfo(np.float64).tiny)
SAFE = 1e-290
"""Products and quotients above this have all their digits."""
CHUNK_ROWS = 512
"""How many conditionals are worked on at once."""
KEPT_ROWS = 4 * CHUNK_ROWS
"""The parts of a side of at most so many rows are made once."""


class ConditionalsSide(CircuitSide):
    """A side of an expectation: the conditionals of a circuit, normalised."""

    max_rows = CHUNK_ROWS

    def __init__(self, circuit: BlockCircuit, evidence: Evidence):
        self.model, self.rows_of_evidence = circuit, evidence
        self._parts: dict[tuple[Any, Any, Any], ConditionalsSide] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return ConditionalsSide, (self.model, self.rows_of_evidence)

    @property
    def n_rows(self) -> int:
        """The number of rows of evidence."""
        return self.rows_of_evidence.n_rows

    def rows(self, chosen: slice) -> ConditionalsSide:
        """The side with some of its rows."""
        key = (chosen.start, chosen.stop, chosen.step)
        found = self._parts.get(key)
        if found is None:
            found = ConditionalsSide(self.model, self.rows_of_evidence.rows(chosen))
            if self.n_rows <= KEPT_ROWS:  # halves are asked for once per part of the other side
                self._parts[key] = found
        return found

    @cached_property
    def _built(self) -> tuple[BlockCircuit, Any]:
        return conditional_circuits(self.model, self.rows_of_evidence)

    @property
    def root_rows(self) -> Any:
        """The root of every row."""
        return self._built[1]

    @property
    def evidence(self) -> None:  # type: ignore[override]
        """Nothing is left to condition on."""
        return

    @property
    def circuit(self) -> BlockCircuit:  # type: ignore[override]
        """The circuit with one root per distinct conditional."""
        return self._built[0]

    @property
    def operand(self) -> Operand:  # type: ignore[override]
        """The circuit as one axis of a sweep."""
        return self._built[0].operand


def mean_reach(circuit: BlockCircuit, evidence: Evidence) -> Any:
    """The mean numbers of units, products and terms that a conditional needs, (3, nodes)."""
    side = CircuitSide(circuit, evidence)
    logs = _node_logs(side)
    found: Any = side.operand.patterns
    reached, products = _reached(circuit, found, logs)
    sizes = np.zeros((3, len(logs)))
    for node, block in enumerate(circuit.blocks):
        sizes[0, node] = np.count_nonzero(reached[node]) / len(reached[node])
        taken = products[node]
        if isinstance(block, Inner) and taken is not None:
            sizes[1, node] = np.count_nonzero(taken) / len(taken)
            if block.weights is not None:
                edges = taken.astype(np.float64) @ _takes(block).T
                sizes[2, node] = edges[reached[node]].sum() / len(taken)
    return sizes


def _node_logs(side: CircuitSide) -> list[Any]:
    """The logs of all (pattern, unit) of every node."""
    operand = side.operand
    return [
        to_log(value).data.reshape(operand.copies(node), -1)
        for node, value in enumerate(upward([operand], leaf_sums(side)))
    ]


def conditional_circuits(circuit: BlockCircuit, evidence: Evidence) -> tuple[BlockCircuit, Any]:
    """The conditionals given rows of evidence as roots of one circuit, and the root of every row.

    Every unit of the result sums to one. Real variables have a component for every observed value,
    after their own. Needs a non-negative circuit on the host, with one root, and evidence of
    positive probability. Cost: two passes over (patterns x edges).
    """
    side = CircuitSide(circuit, evidence)
    operand, vtree = side.operand, circuit.vtree
    found: Any = operand.patterns
    logs = _node_logs(side)
    reached, _ = _reached(circuit, found, logs)
    parts: list[Part] = []
    new: Part
    place: list[Any] = []  # of every (pattern, unit) among the new units
    for node, block in enumerate(circuit.blocks):
        if isinstance(block, Inner):
            a, b = int(vtree.left[node]), int(vtree.right[node])
            index = _child_units(block, found, node)
            inputs = logs[a][index["left"]] + logs[b][index["right"]]
            below = (place[a][index["left"]], place[b][index["right"]])
            new, where = _condensed(
                block,
                reached[node],
                inputs,
                logs[node],
                below,
                parts[a][0].n_units,
                parts[b][0].n_units,
            )
        else:
            column = evidence.column(int(vtree.variable[node]))
            wider, given = block.stated(column)
            given = given[column.codes] if found.is_uniform else given
            new, where = _condensed_leaf(wider, given, reached[node])
        parts.append(new)
        place.append(where)
    blocks = [block for block, _ in parts]
    if any(numbers is not None for _, numbers in parts):
        full = [(b, wide(b.flat[0]) if n is None else n) for b, n in parts]
        advice = "ask for fewer rows at once, or write the circuit with numbers that differ less"
        blocks = plain_blocks(vtree, full, "A conditional", advice)
    rows = np.arange(evidence.n_rows) if found.rows is None else found.rows
    return type(circuit)(vtree, tuple(blocks)), place[-1][rows, 0]


def _child_units(block: Inner, found: Any, node: int) -> dict[str, Any]:
    """Where the inputs of every (pattern, product) lie among the (patterns, units) of a child."""
    every = slice(None)
    index = {}
    for side in ("left", "right"):
        pattern, unit = getattr(found, side)[node], getattr(block, side)
        if pattern is None or unit is None:
            index[side] = (every if pattern is None else pattern, every if unit is None else unit)
        else:
            index[side] = np.ix_(pattern, unit)
    return index


def _reached(circuit: BlockCircuit, found: Any, logs: list[Any]) -> tuple[list[Any], list[Any]]:
    """Which (pattern, unit) and which (pattern, product) take part, from the root down."""
    vtree = circuit.vtree
    taken: list[Any] = [None] * vtree.n_nodes
    reached = [np.zeros(values.shape, dtype=np.bool_) for values in logs]
    reached[vtree.root][:] = True
    for node in range(vtree.root, -1, -1):
        block = circuit.blocks[node]
        if not isinstance(block, Inner):
            continue
        products = _reached_products(block, reached[node])
        index = _child_units(block, found, node)
        children = {side: int(getattr(vtree, side)[node]) for side in ("left", "right")}
        for side, child in children.items():
            products &= logs[child][index[side]] > -inf
        taken[node] = products
        for side, child in children.items():
            pattern, unit = getattr(found, side)[node], getattr(block, side)
            rows, columns = np.nonzero(products)
            rows = rows if pattern is None else pattern[rows]
            reached[child][rows, columns if unit is None else unit[columns]] = True
    return reached, taken


def _reached_products(block: Inner, units: Any) -> Any:
    if block.weights is None:
        return units.copy()
    return (units.astype(np.float64) @ _takes(block)) > 0


def _takes(block: Inner) -> sparse.csr_array:
    """Which units take which products, as ones."""
    takes = block.csr.copy()
    takes.data = np.ones(takes.nnz)
    return takes


def _condensed_leaf(block: Any, weights: Any, reached: Any) -> tuple[Part, Any]:
    """The distinct conditional distributions of the reached input units."""
    pattern, unit = np.nonzero(reached)
    tables, given = block.numbers[unit], weights[pattern]
    with np.errstate(over="ignore", invalid="ignore"):
        products = tables * given
        rows = products / products.sum(axis=1, keepdims=True)
        safe = ((products > SAFE) & (rows > SAFE)) | (tables == 0) | (given == 0)
    place = np.full(reached.shape, -1, dtype=np.intp)
    if safe.all():
        first, number = _distinct_rows(rows)
        place[pattern, unit] = number
        return (block.with_numbers(rows[first]), None), place
    numbers = wide(block.numbers)[unit] * wide(weights)[pattern]
    flat = Wide(numbers.mantissa.reshape(-1), numbers.exponent.reshape(-1))
    n = tables.shape[1]
    flat = flat / sums(flat, np.arange(len(unit) + 1) * n)[np.repeat(np.arange(len(unit)), n)]
    rows = as_plain(flat).reshape(len(unit), n)
    lost = not is_plain(flat)
    # numbers that are no doubles are told apart by both of their parts
    parts = np.hstack([part.reshape(rows.shape) for part in (flat.mantissa, flat.exponent)])
    first, number = _distinct_rows(parts if lost else rows)
    place[pattern, unit] = number
    entries = (first[:, None] * n + np.arange(n)).reshape(-1)
    return (block.with_numbers(rows[first]), flat[entries] if lost else None), place


def _distinct_rows(rows: Any) -> tuple[Any, Any]:
    """Where each distinct row comes first, and the number of every row among them."""
    if rows.shape[1] == 2:  # pairs of doubles are sorted fast as complex numbers
        rows = np.ascontiguousarray(rows).view(np.complex128)
        _, first, number = np.unique(rows[:, 0], return_index=True, return_inverse=True)
    else:
        _, first, number = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, number.reshape(-1)


def _condensed(
    block: Inner, reached: Any, inputs: Any, totals: Any, below: Any, n_left: int, n_right: int
) -> tuple[Part, Any]:
    """The distinct products of new units, and the sums of them that are not one product."""
    pattern, unit = np.nonzero(reached)
    place = np.full(reached.shape, -1, dtype=np.intp)
    if block.weights is None:
        key = below[0][pattern, unit] * n_right + below[1][pattern, unit]
        distinct, number = np.unique(key, return_inverse=True)
        place[pattern, unit] = number
        return (inner(*np.divmod(distinct, n_right), None, n_left, n_right), None), place
    csr = block.csr
    fan_in = np.diff(csr.indptr)[unit]
    row = np.repeat(np.arange(len(unit)), fan_in)
    first = np.repeat(csr.indptr[unit] - np.cumsum(fan_in) + fan_in, fan_in)
    edge = first + np.arange(len(row))
    product, owner = csr.indices[edge], pattern[row]
    alive = inputs[owner, product] > -inf
    row, edge, product, owner = row[alive], edge[alive], product[alive], owner[alive]
    logs = np.log(csr.data[edge]) + inputs[owner, product] - totals[owner, unit[row]]
    share = np.exp(logs)
    key = below[0][owner, product] * n_right + below[1][owner, product]
    distinct, number = np.unique(key, return_inverse=True)
    left, right = np.divmod(distinct, n_right)
    if (share < TINY).any():
        place[pattern, unit] = np.arange(len(unit))
        return _wide_sums(left, right, row, number, logs, len(unit)), place
    share /= np.bincount(row, share, minlength=len(unit))[row]
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(unit)))])
    taken = sparse.csr_array((share, number, starts), shape=(len(unit), len(distinct)))
    weights, where = _without_copies(taken)
    place[pattern, unit] = where
    return (inner(left, right, weights, n_left, n_right), None), place


def _wide_sums(left: Any, right: Any, row: Any, column: Any, logs: Any, n_units: int) -> Part:
    """The block of sums with weights given by their logs, equal entries added up."""
    key = row * len(left) + column
    order = np.argsort(key, kind="stable")
    distinct, begins = np.unique(key[order], return_index=True)
    numbers = sums(wide_exp(logs[order]), np.append(begins, len(key)))
    rows, columns = np.divmod(distinct, len(left))
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_units))])
    shape = (n_units, len(left))
    ones = sparse.csr_array((np.ones(len(columns)), columns, starts), shape=shape)
    return Inner(len(left), n_units, left, right, ones), numbers


def _without_copies(taken: sparse.csr_array) -> tuple[sparse.csr_array, Any]:
    """Sums of one product become that product, once; where each sum went."""
    taken.sum_duplicates()
    single = np.diff(taken.indptr) == 1
    passed, which = np.unique(taken.indices[taken.indptr[:-1][single]], return_inverse=True)
    where = np.empty(taken.shape[0], dtype=np.intp)
    where[single] = which
    where[~single] = len(passed) + np.arange(int((~single).sum()))
    fan_in = np.diff(taken.indptr)
    kept = np.repeat(~single, fan_in)
    ends = len(passed) + np.cumsum(fan_in[~single])
    parts = (
        np.concatenate([np.ones(len(passed)), taken.data[kept]]),
        np.concatenate([passed, taken.indices[kept]]),
        np.concatenate([np.arange(len(passed) + 1), ends]),
    )
    shape = (len(passed) + int((~single).sum()), taken.shape[1])
    return sparse.csr_array(parts, shape=shape), where
