"""Questions to graphical models: by variable elimination, or by a circuit where rows are many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from expectedkernels.arrays import as_generator, memory_limit, require_memory
from expectedkernels.circuits.evidence import Evidence
from expectedkernels.circuits.queries import refuse_impossible
from expectedkernels.compilation import messages
from expectedkernels.compilation.messages import (
    NO_DISTRIBUTION,
    MessagePlan,
    Solution,
    Weights,
)
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES, check_max_bytes
from expectedkernels.errors import PropertyError, SizeError

STAGE = 10_000
"""Setting up a stage takes about as long as so many entries of its table."""
CIRCUIT_BYTES = 40
"""About how much memory an entry of a table takes in a circuit."""
COMPILED = 9, 60
"""How many times longer compiling takes than an elimination: per stage, and per entry."""


def needs_circuit(
    plan: MessagePlan, n_rows: int, max_bytes: int = DEFAULT_MAX_BYTES, series: int = 1
) -> bool:
    """Whether rows of evidence are answered by a circuit for all of them, and not one by one.

    This depends on the number of rows and on the sizes of tables, and on nothing that came before.
    The time to write out units is divided among a series of questions.
    """
    stages, entries = STAGE * len(plan.stages), plan.n_entries
    if CIRCUIT_BYTES * entries > max_bytes:
        return n_rows == 0
    by_messages = n_rows * (stages + 2 * entries)
    by_circuit = stages // 4 + 4 * n_rows * entries
    written = (COMPILED[0] * stages + COMPILED[1] * entries) // series
    return by_messages > by_circuit + written or n_rows == 0


def marginals(plan: MessagePlan, evidence: Evidence | None, max_bytes: int) -> list[Any]:
    """The probabilities of the states of every variable, (rows, cardinality) each."""
    rows = [
        messages.marginals(solution) for solution in _solutions(plan, evidence, max_bytes, True)
    ]
    if len(rows) == 1:
        return [found[None] for found in rows[0]]
    return [np.stack(found) for found in zip(*rows, strict=True)]


def log_partitions(plan: MessagePlan, evidence: Evidence | None, max_bytes: int) -> Any:
    """The log of the sum over all states that evidence allows, for every row."""
    _require_room(plan, plan.passing_bytes, max_bytes)
    logs = [messages.log_partition(plan, weights) for weights in row_weights(evidence)]
    if evidence is None or -np.inf in logs:
        _refuse_zero(plan)
    return np.asarray(logs)


def samples(plan: MessagePlan, evidence: Evidence | None, n: int, rng: Any, max_bytes: int) -> Any:
    """Samples given every row of evidence, (rows, n, variables)."""
    generator = as_generator(rng)
    return np.stack(
        [
            messages.samples(solution, n, generator)
            for solution in _solutions(plan, evidence, max_bytes)
        ]
    )


def most_probable(plan: MessagePlan, evidence: Evidence, max_bytes: int) -> Any:
    """The most probable states of all variables given every row, (rows, variables)."""
    _require_room(plan, plan.message_bytes, max_bytes)
    found = [messages.most_probable(plan, weights) for weights in row_weights(evidence)]
    _refuse_impossible(plan, [row is not None for row in found], True)
    return np.stack(found)


def _solutions(
    plan: MessagePlan, evidence: Evidence | None, max_bytes: int, cut: bool = False
) -> Iterator[Solution]:
    """The messages for every row, with the tables if there is room for them."""
    most = max_bytes if max_bytes <= DEFAULT_MAX_BYTES else min(max_bytes, memory_limit())
    keep = plan.table_bytes <= most
    if not keep:
        _require_room(plan, plan.message_bytes, max_bytes)
    for row, weights in enumerate(row_weights(evidence)):
        solution = Solution(plan, weights, keep, cut)
        possible = solution.log_z > -np.inf
        _refuse_impossible(plan, [True] * row + [possible], evidence is not None)
        yield solution


def row_weights(evidence: Evidence | None) -> Iterator[Weights]:
    """For every row the weights of the states of variables that it says something of."""
    if evidence is None:
        yield {}
        return
    for row in range(evidence.n_rows):
        found = {}
        if evidence.values is not None:
            values, cards = evidence.values[row], evidence.domains
            for v in np.flatnonzero(~np.isnan(values)).tolist():
                found[v] = np.zeros(cards[v])  # type: ignore[arg-type]
                found[v][int(values[v])] = 1.0
            yield found
            continue
        for v in range(len(evidence.domains)):
            column = evidence.column(v)
            weights = column.weights[column.codes[row]]
            if (weights != 1.0).any():
                found[v] = weights
        yield found


def _refuse_impossible(plan: MessagePlan, possible: list[bool], given: bool) -> None:
    """Raise unless the model and all rows of evidence are possible."""
    if not all(possible):
        _refuse_zero(plan)
        refuse_impossible(np.asarray(possible), given)


def _refuse_zero(plan: MessagePlan) -> None:
    """Raise if the model is zero everywhere."""
    if messages.log_partition(plan, {}) == -np.inf:
        raise PropertyError(NO_DISTRIBUTION)


def _require_room(plan: MessagePlan, needed: int, max_bytes: int) -> None:
    check_max_bytes(max_bytes)
    if needed > max_bytes:
        width = max(len(stage.context) for stage in plan.stages)
        raise SizeError(
            f"Variable elimination needs about {needed / 2**30:.3g} GiB here, more than "
            f"max_bytes={max_bytes}: the best order found has width {width}. Condition on some "
            "variables, or allow more memory."
        )
    require_memory(needed, "Variable elimination", "Condition on some variables.")
