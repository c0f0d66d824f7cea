"""Questions to one circuit: likelihoods, partition functions, marginals, conditionals."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from expectedkernels.arrays import as_like, detach, is_numpy, namespace, to_numpy
from expectedkernels.circuits.base import BlockCircuit, host_for, shortcut
from expectedkernels.circuits.conditioned import conditioned_blocks
from expectedkernels.circuits.evidence import Evidence, as_evidence
from expectedkernels.circuits.frames import is_frame
from expectedkernels.circuits.labelled import as_table
from expectedkernels.circuits.likelihoods import by_rows, level_logs
from expectedkernels.circuits.normal_mixtures import normal_mixture_logs
from expectedkernels.circuits.numbers import as_floats
from expectedkernels.circuits.ranges import Part, plain_blocks
from expectedkernels.circuits.sides import CircuitSide, check_single_root
from expectedkernels.circuits.wide import Wide, sums, wide
from expectedkernels.circuits.wide_passes import node_values, wide_up
from expectedkernels.engine.nodes import at_nodes
from expectedkernels.engine.sweep import (
    DEFAULT_MAX_BYTES,
    peak_bytes,
    sweep,
)
from expectedkernels.engine.value import Value, plain, to_log
from expectedkernels.errors import EvidenceError, PropertyError

TOLERANCE, SINGLE_TOLERANCE = 1e-6, 1e-3
"""How far the log of the sum of a normalised circuit may be from zero, in doubles and in singles.
"""

AnyCircuit = TypeVar("AnyCircuit", bound=BlockCircuit)


def leaf_sums(side: CircuitSide) -> Any:
    """What the leaves of a likelihood sweep are: every unit summed over what evidence allows."""
    like: Any = side.circuit.blocks[0].numbers

    def leaf(nodes: Any, parts: Any) -> Value:
        n = side.atoms(int(side.circuit.vtree.variable[nodes[0]])).n
        ones = plain(as_like(np.ones((len(nodes), n)), like), (1,))
        return side.expand(ones, 1, nodes, parts and parts[0])

    return leaf


def log_values(
    circuit: BlockCircuit, evidence: Evidence | None, max_bytes: int = DEFAULT_MAX_BYTES
) -> tuple[Any, Any]:
    """Logs of the absolute values of the roots given rows of evidence, and signs (or None).

    Shape (rows, roots); one row without evidence.
    """
    n = 1 if evidence is None else evidence.n_rows
    if n == 0:
        return circuit.xp.zeros((0, circuit.n_roots)), None
    found = shortcut(circuit, "log_values", evidence)
    if found is None:
        found = normal_mixture_logs(circuit, evidence)
    if found is not None:
        return found[:, None], None
    if not by_rows(circuit, evidence):
        return _swept_logs(circuit, evidence, max_bytes)
    logs, lost = level_logs(circuit, evidence, max_bytes)
    if len(lost):
        some = None if evidence is None else evidence.rows(lost)
        again = _swept_logs(circuit, some, max_bytes)[0]
        logs[as_like(lost, logs)] = circuit.xp.astype(again, logs.dtype)
    return logs, None


def _swept_logs(
    circuit: BlockCircuit, evidence: Evidence | None, max_bytes: int
) -> tuple[Any, Any]:
    """What `log_values` gives, for any weights and values of any range."""
    side = CircuitSide(circuit, evidence)
    n = 1 if evidence is None else evidence.n_rows
    if n > 1 and peak_bytes([side.operand]) > max_bytes:
        half = n // 2
        parts = [
            _swept_logs(circuit, evidence.rows(rows), max_bytes)  # type: ignore[union-attr]
            for rows in (slice(0, half), slice(half, n))
        ]
        xp = circuit.xp
        logs = xp.concat([logs for logs, _ in parts])
        if all(sign is None for _, sign in parts):
            return logs, None
        signs = [xp.ones_like(x) if s is None else s for x, s in parts]
        return logs, xp.concat(signs)
    root = to_log(sweep([side.operand], leaf_sums(side), max_bytes))
    xp = namespace(root.data)
    rows = None if side.operand.patterns is None else side.operand.patterns.rows

    def by_row(array: Any) -> Any:
        if array is None:
            return None
        table = xp.reshape(array, (-1, circuit.n_roots))
        return table if rows is None else xp.take(table, as_like(rows, table), axis=0)

    return by_row(root.data), by_row(root.sign)


def log_likelihood(circuit: BlockCircuit, X: Any) -> Any:
    """See `Circuit.log_likelihood`."""
    logs, sign = log_values(circuit, as_evidence(X, circuit.schema, single=False))
    if sign is not None and circuit.is_known_nonnegative:
        logs, sign = namespace(logs).where(sign > 0, logs, -inf), None  # rounding of a zero
    _refuse_negative(sign)
    return logs[:, 0] if circuit.n_roots == 1 else logs


def site_logs(circuit: BlockCircuit, X: Any, variable: int | str) -> Any:
    """The logs of the values at points with one variable set to each of its states in turn."""
    domains = circuit.cardinalities
    variable = circuit.schema.variable(variable)
    cardinality = domains[variable]
    if cardinality is None:
        raise EvidenceError(
            f"Only discrete variables are set to each of their states. Variable {variable} is real."
        )
    X = as_table(X)
    points = circuit.schema.read_frame(X) if is_frame(X) else as_floats(X)
    rows = np.repeat(points, cardinality, axis=0)
    if rows.ndim == 2 and rows.shape[1] == len(domains):  # what else is wrong shows below
        rows[:, variable] = np.tile(np.arange(cardinality), len(points))
    logs = log_likelihood(circuit, rows)
    return namespace(logs).reshape(logs, (len(points), cardinality, *logs.shape[1:]))


def log_partition(circuit: BlockCircuit) -> Any:
    """See `Circuit.log_partition`."""
    found = shortcut(circuit, "log_values", None)
    if found is not None:
        return float(found[0])
    logs, sign = circuit.operand.cached("partition", lambda: log_values(circuit, None))
    _refuse_negative(sign)
    if circuit.n_roots > 1:
        return logs[0, :]
    return float(logs[0, 0]) if is_numpy(circuit.xp) else logs[0, 0]


def _refuse_negative(sign: Any) -> None:
    if sign is not None and (to_numpy(sign) < 0).any():
        raise PropertyError(
            "The circuit has a negative value here, so it has no logarithm and is no distribution. "
            "Signed circuits can be used in expected_kernel(..., log=False)."
        )


def condition(circuit: AnyCircuit, evidence: Any) -> AnyCircuit:
    """See `Circuit.condition`."""
    check_single_root(circuit, "Conditioning")
    read = as_evidence(evidence, circuit.schema)
    if read.n_rows != 1:
        raise EvidenceError(
            f"A circuit is conditioned on one row of evidence. Got {read.n_rows} rows; batches of "
            "conditionals are made by expected_kernel(..., evidence_p=rows)."
        )
    return _renormalized(circuit, read)


def normalize(circuit: AnyCircuit) -> AnyCircuit:
    """See `Circuit.normalize`."""
    return _renormalized(circuit, None)


def _renormalized(circuit: AnyCircuit, evidence: Evidence | None) -> AnyCircuit:
    """The circuit given evidence, with every unit scaled to sum to one."""
    circuit = host_for(circuit, "normalize" if evidence is None else "condition")
    if circuit.n_roots == 1:
        possible, cut = conditioned_blocks(circuit, evidence)
        _refuse_zero(possible, evidence)
        if cut is not None:
            return circuit.deferred(circuit.vtree, circuit.schema, cut)
    parts = conditional_parts(circuit, evidence)
    what = "The normalised circuit" if evidence is None else "The conditional"
    blocks = plain_blocks(circuit.vtree, parts, what, "write it with numbers that differ less")
    found = type(circuit).from_blocks(circuit.vtree, blocks).with_schema(circuit.schema)
    return replace(found, nonnegative=circuit.nonnegative)


def conditional_parts(circuit: BlockCircuit, evidence: Evidence | None) -> list[Part]:
    """The blocks of a circuit given evidence, unit for unit, and their numbers.

    Every unit is scaled to sum to one: weights become conditional probabilities,
    w_si value_i / value_s.
    """
    found = wide_up(circuit, evidence)
    root = found.values[found.levels.roots, 0]
    _refuse_negative(root.mantissa)
    _refuse_zero(bool((root.mantissa != 0).all()), evidence)
    signed = found.levels.signed
    if signed:
        # units may sum to zero without being zero: they are scaled by what the circuit of
        # absolute values sums to, and the roots are corrected at the end
        found = wide_up(circuit, evidence, absolute=True)
    values = node_values(circuit, found)

    def leaf(node: int, variable: int) -> Part:
        block: Any = circuit.blocks[node]
        numbers = wide(block.flat[0])
        if evidence is not None:
            alive = values[node].mantissa != 0
            block, numbers = block.given(evidence.column(variable), numbers, alive)
        return block, _shares(numbers, block.flat[1])

    def inner(node: int) -> Part:
        block: Any = circuit.blocks[node]
        left, right = block.inputs
        below = values[circuit.vtree.left[node]][left] * values[circuit.vtree.right[node]][right]
        data, starts = block.flat
        return block, _shares(wide(data) * below[block.columns], starts)

    parts = at_nodes(circuit.vtree, leaf, inner)
    if signed:
        block, numbers = parts[-1]
        parts[-1] = block, numbers * (values[-1] / root)[_rows(block.flat[1])]
    return parts


def _refuse_zero(possible: bool, evidence: Evidence | None) -> None:
    """Raise unless the evidence (or, without any, the circuit itself) is possible."""
    if possible:
        return
    if evidence is None:
        raise PropertyError(
            "The circuit sums to zero, so it cannot be normalised: check its weights and tables."
        )
    raise EvidenceError(
        "The evidence has probability zero under the circuit; there is no conditional."
    )


def _rows(starts: Any) -> Any:
    """The unit of every number."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def _shares(terms: Wide, starts: Any) -> Wide:
    """The terms of every unit over the sum of their absolute values, zero if that is zero."""
    totals = sums(Wide(np.abs(terms.mantissa), terms.exponent), starts)
    return terms / totals[_rows(starts)]


def negative_node(circuit: BlockCircuit) -> int | None:
    """The first vtree node with a negative weight or entry of a table, None if there is none."""
    signed = ((numbers < 0).any() for numbers, _ in map(attrgetter("flat"), circuit.blocks))
    return next((node for node, found in enumerate(signed) if found), None)


def refuse_signed(circuit: BlockCircuit, what: str) -> None:
    """Raise if a weight or an entry of a table is negative."""
    if circuit.is_on_host and not circuit.levels.signed:
        return
    node = negative_node(circuit)
    if node is not None:
        raise PropertyError(
            f"{what} needs a circuit without negative weights. There is one at vtree node {node}."
        )


def require_normalized(circuit: Any, what: str) -> None:
    """Raise unless a circuit (or a graph of units) with one root sums to one.

    `what` says who needs it, as the start of the error. The sum is kept by circuits, so that
    asking again costs nothing.
    """
    total = float(detach(circuit.log_partition()))
    single = isinstance(circuit, BlockCircuit) and "float32" in str(_dtype(circuit))
    if not abs(total) <= (SINGLE_TOLERANCE if single else TOLERANCE):
        raise PropertyError(
            f"{what} is between distributions, so a circuit must sum to one. The log of the sum "
            f"of this one (its log_partition()) is {total:.6g}; normalize() makes it one."
        )


def _dtype(circuit: BlockCircuit) -> Any:
    return circuit.blocks[0].arrays[0].dtype


def require_possible(circuit: BlockCircuit, evidence: Evidence | None) -> Any:
    """The log probabilities of rows of evidence; raises if one is zero."""
    logs, sign = log_values(circuit, evidence)
    _refuse_negative(sign)
    refuse_impossible(to_numpy(logs)[:, 0] > -inf, evidence is not None)
    return logs[:, 0]


def refuse_impossible(possible: Any, given: bool) -> None:
    """Raise unless all rows of evidence (or, if none is given, the circuit itself) are possible."""
    if possible.all():
        return
    if not given:
        raise PropertyError("The circuit sums to zero; it is no distribution.")
    row = int(np.flatnonzero(~possible)[0])
    raise EvidenceError(
        "The evidence in row {row} has probability zero under the circuit, so there is no "
        "conditional distribution. Check the row, or smooth the circuit's parameters.",
        row=row,
    )
