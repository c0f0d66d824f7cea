"""From the root down: samples, and most probable completions."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from expectedkernels.arrays import as_generator
from expectedkernels.circuits.base import BlockCircuit
from expectedkernels.circuits.choices import level_map, level_samples
from expectedkernels.circuits.determinism import deterministic
from expectedkernels.circuits.evidence import Evidence, as_evidence, is_batch
from expectedkernels.circuits.inputs import Input, Table
from expectedkernels.circuits.queries import possible_values, refuse_signed
from expectedkernels.circuits.sides import CircuitSide, check_single_root
from expectedkernels.engine.blocks import Inner
from expectedkernels.engine.sweep import products_at
from expectedkernels.engine.value import to_log
from expectedkernels.errors import DataError, PropertyError


def sample(circuit: BlockCircuit, n: int, rng: Any = None, evidence: Any = None) -> Any:
    """See `Circuit.sample`."""
    if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 0:
        raise DataError(f"The number of samples must be a non-negative int. Got {n!r} instead.")
    check_single_root(circuit, "Sampling")
    circuit = circuit.to("numpy")
    refuse_signed(circuit, "Sampling")
    generator = as_generator(rng)
    read = None if evidence is None else as_evidence(evidence, circuit.schema)
    n_rows = 1 if read is None else read.n_rows
    drawn = np.empty((n_rows * n, circuit.n_variables))
    if n_rows and not level_samples(circuit, read, generator, n, drawn):
        _draw(circuit, read, generator, np.repeat(np.arange(n_rows), n), drawn)
    return drawn.reshape(n_rows, n, circuit.n_variables) if is_batch(evidence) else drawn


def _draw(
    circuit: BlockCircuit, read: Evidence | None, generator: Any, rows: Any, drawn: Any
) -> None:
    """Fill `drawn` with one sample for each of the given rows, whatever the range of values."""
    side = CircuitSide(circuit, read)
    values = possible_values(side)
    if not len(rows):
        return
    for node, units, _ in descend(
        circuit, side, rows, lambda *state: _draw_products(generator, values, *state)
    ):
        block: Any = circuit.blocks[node]
        variable = int(circuit.vtree.variable[node])
        column = None if read is None else read.column(variable)
        drawn[:, variable] = _draw_leaf(generator, block, column, units, rows)


def descend(circuit: BlockCircuit, side: CircuitSide, rows: Any, choose: Any) -> Any:
    """Walk from the root to the leaves with one unit per row; yields (leaf, units, patterns)."""
    vtree, found = circuit.vtree, side.operand.patterns
    top = rows if found is None or found.rows is None else found.rows[rows]
    top = np.zeros_like(rows) if found is None else top
    at: dict[int, tuple[Any, Any]] = {vtree.root: (np.zeros(len(rows), dtype=np.intp), top)}
    for node in range(vtree.root, -1, -1):
        units, pattern = at.pop(node)
        block = circuit.blocks[node]
        if not isinstance(block, Inner):
            yield node, units, pattern
            continue
        products = units if block.weights is None else choose(side, node, block, units, pattern)
        for name in ("left", "right"):
            child = int(getattr(vtree, name)[node])
            index = getattr(block, name)
            step = None if found is None else getattr(found, name)[node]
            at[child] = (
                products if index is None else index[products],
                pattern if step is None else step[pattern],
            )


def _draw_products(
    generator: Any,
    values: Any,
    side: CircuitSide,
    node: int,
    block: Inner,
    units: Any,
    pattern: Any,
) -> Any:
    """One input of its sum unit for every row, with probability in proportion to w_i value_i.

    The shares of all (pattern, unit) pairs are laid end to end, one unit interval each, so that
    one search finds the input of every row.
    """
    copies = side.operand.copies(node)
    inputs = to_log(products_at([side.operand], values, node)).data.reshape(copies, -1)
    csr = block.csr
    logs = inputs[:, csr.indices] + np.log(csr.data)
    starts = csr.indptr[:-1]
    fan_in = np.diff(csr.indptr)
    top = np.maximum.reduceat(logs, np.minimum(starts, logs.shape[1] - 1), axis=1)
    top = np.where(top > -inf, top, 0.0)
    shares = np.exp(logs - np.repeat(top, fan_in, axis=1))
    totals = np.add.reduceat(shares, np.minimum(starts, logs.shape[1] - 1), axis=1)
    totals = np.where(totals > 0, totals, 1.0)
    shares /= np.repeat(totals, fan_in, axis=1)
    used, place = np.unique(pattern * block.n_units + units, return_inverse=True)
    return _search(generator, shares, csr, used, place, block.n_units)


def _search(generator: Any, shares: Any, csr: Any, used: Any, place: Any, n_units: int) -> Any:
    """Draw from the shares of the (pattern, unit) pairs that occur."""
    pattern, unit = np.divmod(used, n_units)
    fan_in = np.diff(csr.indptr)[unit]
    stops = np.cumsum(fan_in)
    entry = (
        np.arange(stops[-1])
        - np.repeat(stops - fan_in, fan_in)
        + np.repeat(csr.indptr[unit], fan_in)
    )
    weight = shares[np.repeat(pattern, fan_in), entry]
    edge = np.cumsum(weight)
    before = np.concatenate([[0.0], edge])[stops - fan_in]
    total = edge[stops - 1] - before
    target = before[place] + generator.random(len(place)) * total[place]
    found = np.searchsorted(edge, target, side="right")
    # rounding may step over the last input with a positive share
    positive = np.flatnonzero(weight > 0)
    last = positive[np.searchsorted(positive, stops[place] - 1, side="right") - 1]
    return csr.indices[entry[np.minimum(found, last)]]


def _draw_leaf(generator: Any, block: Input, column: Any, units: Any, rows: Any) -> Any:
    """A value of the variable for every row, given its input unit."""
    if isinstance(block, Table):
        with np.errstate(divide="ignore"):  # logs: values times weights may be out of range
            logs = np.log(block.table)[units]
            if column is not None:
                logs += np.log(column.weights)[column.codes[rows]]
        table = np.exp(logs - logs.max(axis=1, keepdims=True))
        edge = np.cumsum(table, axis=1)
        target = generator.random(len(units)) * edge[:, -1]
        state = (edge <= target[:, None]).sum(axis=1)
        last = table.shape[1] - 1 - np.argmax((table > 0)[:, ::-1], axis=1)
        return np.minimum(state, last)
    edge = np.cumsum(block.weights, axis=1)[units]
    target = generator.random(len(units)) * edge[:, -1]
    component = np.minimum((edge <= target[:, None]).sum(axis=1), len(block.mean) - 1)
    drawn = block.draw(generator, component)
    if column is None:
        return drawn
    seen = column.values[column.codes[rows]]
    return np.where(np.isnan(seen), drawn, seen)


def most_probable(circuit: BlockCircuit, X: Any) -> Any:
    """See `Circuit.map`."""
    check_single_root(circuit, "MAP")
    circuit = circuit.to("numpy")
    refuse_signed(circuit, "MAP")
    verdict = deterministic(circuit)
    if not verdict:
        raise PropertyError(
            "Most probable completions need a deterministic circuit (for others the problem is "
            f"NP-hard). This one is not: {verdict.reason}."
        )
    read = as_evidence(X, circuit.schema)
    if read.n_rows == 0:
        return np.empty((0, circuit.n_variables))
    completed = level_map(circuit, read)
    return completed if is_batch(X) else completed[0]
