"""Products of small tables as lists of logarithms: sums, marginals, and what they cost."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from expectedkernels.arrays import from_logs, log_sum_exp
from expectedkernels.compilation.orders import (
    elimination as eliminated,
    interaction_graph,
    min_fill_order,
)

SMALL = 2**12
"""Joint tables up to this size are made at once: faster than to eliminate variable by variable."""

Scope = tuple[int, ...]
LogTable = tuple[Scope, Any]
"""Variables, and logarithms with one axis for each of them."""


def restricted(table: LogTable, values: Mapping[int, int]) -> LogTable:
    """The table at the values of some of its variables."""
    scope, logs = table
    if not any(v in values for v in scope):
        return table
    index = tuple(values.get(v, slice(None)) for v in scope)
    return tuple(v for v in scope if v not in values), logs[index]


def joint(tables: Iterable[LogTable], axes: Scope, cardinalities: Any) -> Any:
    """The sum of logarithms over all assignments of the axes."""
    total = np.zeros([cardinalities[v] for v in axes])
    place = {v: axis for axis, v in enumerate(axes)}
    for scope, logs in tables:
        order = sorted(range(len(scope)), key=lambda axis: place[scope[axis]])
        shape = [1] * len(axes)
        for v in scope:
            shape[place[v]] = cardinalities[v]
        total += logs.transpose(order).reshape(shape)
    return total


def components(scopes: Iterable[Sequence[int]], variables: Iterable[int]) -> list[list[int]]:
    """The variables in groups that no scope connects."""
    near = neighbours(scopes, variables)
    found: list[list[int]] = []
    seen: set[int] = set()
    for start in near:
        if start in seen:
            continue
        group = [start]
        seen.add(start)
        for v in group:  # grows while it is read
            fresh = near[v] - seen
            seen |= fresh
            group += sorted(fresh)
        found.append(group)
    return found


def neighbours(scopes: Iterable[Sequence[int]], variables: Iterable[int]) -> dict[int, set[int]]:
    """For every variable those that it shares a scope with, and itself."""
    near = {v: {v} for v in variables}
    for scope in scopes:
        for v in scope:
            near[v].update(scope)
    return near


def elimination(scopes: Iterable[Scope], variables: Collection[int]) -> list[tuple[int, Scope]]:
    """The variables in min-fill order, each with those that its table still connects it to."""
    labels = sorted(variables)
    number = {v: i for i, v in enumerate(labels)}
    graph = interaction_graph(len(labels), [[number[v] for v in scope] for scope in scopes])
    found = eliminated(graph, min_fill_order(graph))
    return [(labels[v], tuple(labels[u] for u in sorted(found.contexts[v]))) for v in found.order]


def elimination_cost(
    scopes: Iterable[Scope], variables: Collection[int], cardinalities: Sequence[int]
) -> int:
    """The number of entries of all tables that elimination in min-fill order makes."""
    return sum(
        cardinalities[v] * prod(cardinalities[u] for u in near)
        for v, near in elimination(scopes, variables)
    )


def log_sum(
    tables: Sequence[LogTable],
    variables: Collection[int],
    kept: Scope,
    cardinalities: Sequence[int],
) -> Any:
    """The log of the sum over all variables but the kept ones, one axis for each of these."""
    gone = tuple(v for v in variables if v not in kept)
    if prod(cardinalities[v] for v in (*kept, *gone)) <= SMALL:
        logs = joint(tables, kept + gone, cardinalities)
        return log_sum_exp(logs.reshape(*logs.shape[: len(kept)], -1))
    rest = list(tables)
    for v, _ in elimination([scope for scope, _ in tables], variables):
        if v in kept:
            continue
        bucket = [table for table in rest if v in table[0]]
        rest = [table for table in rest if v not in table[0]]
        around = tuple(sorted({u for scope, _ in bucket for u in scope} - {v}))
        rest.append((around, log_sum_exp(joint(bucket, (*around, v), cardinalities))))
    return joint(rest, kept, cardinalities)


def marginals(
    tables: Sequence[LogTable],
    variables: Collection[int],
    cardinalities: Sequence[int],
    given: Sequence[tuple[int, int] | None] = (None,),
) -> dict[int, Any]:
    """The marginals of all variables, given each of some statements, (statements, cardinality).

    A statement is a variable and its value, or None. Where a statement is impossible, the
    variables that depend on it get zeros.

    Notes
    -----
    Variables are eliminated one by one; what each of them sends on comes back along the same way.
    All statements go through this together, on a leading axis.
    """
    local: dict[int, list[LogTable]] = {v: [] for v in variables}
    steps = elimination([scope for scope, _ in tables], variables)
    place = {v: i for i, (v, _) in enumerate(steps)}
    for scope, logs in tables:
        if scope:
            local[min(scope, key=place.__getitem__)].append((scope, logs))
    for v, table in _statements(given, cardinalities).items():
        local[v].append(((-1, v), table))
    parent = [min(near, key=place.__getitem__) if near else None for _, near in steps]
    # -1 is the axis of the statements, and always the first
    counts = {-1: len(given), **{v: cardinalities[v] for v in variables}}
    wholes: list[Any] = []
    for (v, near), above in zip(steps, parent, strict=True):
        whole = joint(local[v], (-1, *near, v), counts)
        message = log_sum_exp(whole)
        wholes.append(whole - np.where(message > -np.inf, message, 0.0)[..., None])
        local[v] = [((-1, *near), message)]
        if above is not None:
            local[above].append(((-1, *near), message))
    beliefs: dict[int, LogTable] = {}
    found: dict[int, Any] = {}
    for i in range(len(steps) - 1, -1, -1):
        (v, near), above = steps[i], parent[i]
        scope = (-1, *near, v)
        # given its surroundings, times how likely these are in the end
        outside = local[v][0] if above is None else _summed(beliefs[above], (-1, *near))
        beliefs[v] = scope, wholes[i] + outside[1][..., None]
        share = from_logs(_summed(beliefs[v], (-1, v))[1])
        found[v] = share / np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
    return found


def _statements(
    given: Sequence[tuple[int, int] | None], cardinalities: Sequence[int]
) -> dict[int, Any]:
    """What the statements say of each variable they name: zero for allowed states, -inf else."""
    said: dict[int, Any] = {}
    for row, statement in enumerate(given):
        if statement is not None:
            v, value = statement
            table = said.setdefault(v, np.zeros((len(given), cardinalities[v])))
            table[row, np.arange(cardinalities[v]) != value] = -np.inf
    return said


def _summed(table: LogTable, kept: Scope) -> LogTable:
    """The table summed over all axes but some, which come in the given order."""
    scope, logs = table
    gone = [v for v in scope if v not in kept]
    logs = logs.transpose([scope.index(v) for v in (*kept, *gone)])
    if gone:
        logs = log_sum_exp(logs.reshape(*logs.shape[: len(kept)], -1))
    return kept, logs
