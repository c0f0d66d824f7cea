"""The compilers: messages over assignments at every vtree node, and the blocks they weigh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from expectedkernels.circuits.base import of_tables
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.inputs import Input, Table
from expectedkernels.circuits.schema import Schema
from expectedkernels.compilation.messages import NO_DISTRIBUTION, MessagePlan, compilation_stages
from expectedkernels.compilation.plan import CompilationPlan
from expectedkernels.compilation.tables import Scaled, scaled_logs
from expectedkernels.compilation.tensors import Tensors, conditionals
from expectedkernels.compilation.writing import (
    Axes,
    context_plan,
    refuse_large,
    spread,
    weighted,
    written_blocks,
)
from expectedkernels.engine.blocks import Inner
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES, check_max_bytes
from expectedkernels.errors import PropertyError
from expectedkernels.vtree import Vtree


def compiled(plan: CompilationPlan, max_bytes: int = DEFAULT_MAX_BYTES) -> tuple[Circuit, float]:
    """The normalised, deterministic circuit of a model, and the log of its partition function.

    Parameters
    ----------
    plan : CompilationPlan
    max_bytes : int
        Plans that need more memory than about this are refused.

    Notes
    -----
    Units are indexed by assignments. In the context method a unit belongs to a vtree node and an
    assignment of the variables outside that interact with those inside; it stands for the inside
    given the outside. In the boundary method it belongs to an assignment of the inside variables
    that interact with the outside, and stands for that assignment and everything below. The
    partition functions of the units are the messages of variable elimination; dividing by
    them makes every unit a distribution. Cost: O(D K^(w+1)) for D variables of K states and width
    w.
    """
    if plan.method == "context":
        return by_contexts(plan.vtree, compilation_stages(plan), max_bytes)
    check_max_bytes(max_bytes)
    refuse_large(plan, plan.n_bytes, max_bytes, "Compiling this model")
    shares, log_z = _boundary_shares(plan)
    if log_z == -np.inf:
        raise PropertyError(NO_DISTRIBUTION)
    blocks = written_blocks(
        plan.vtree, shares, lambda node, table: _boundary_block(plan, node, table)
    )
    return Circuit(plan.vtree, blocks), log_z


def by_contexts(vtree: Vtree, stages: MessagePlan, max_bytes: int) -> tuple[Circuit, float]:
    """What `compiled` gives by contexts: tables now, and blocks when somebody asks for them."""
    check_max_bytes(max_bytes)
    if stages.table_bytes > min(max_bytes, DEFAULT_MAX_BYTES):
        plan = context_plan(vtree, stages)
        refuse_large(plan, stages.table_bytes, max_bytes, "Compiling this model")
    shares, log_z = conditionals(stages)
    cards = {stage.variable: stage.shape[0] for stage in stages.stages}
    schema = Schema(tuple(cards[v] for v in range(len(cards))))
    return of_tables(Circuit, vtree, schema, Tensors(shares, max_bytes)), log_z


def _boundary_shares(plan: CompilationPlan) -> tuple[list[Scaled | None], float]:
    """The weights of all nodes of a compilation by boundaries, and the log of the model's sum.

    The table of a node has one axis per variable of ``step.wide``; the logs of its sums, which go
    to the parent, one per variable of ``step.axes``.
    """
    messages: list[Any] = []
    shares: list[Scaled | None] = []
    cards = plan.potential.cardinalities
    for node, step in enumerate(plan.steps):
        children = [int(plan.vtree.left[node]), int(plan.vtree.right[node])]
        parts = [(plan.potential.tables[scope].logs, scope) for scope in step.scopes]
        if children[0] >= 0:
            parts += [(messages[child], plan.steps[child].axes) for child in children]
        logs = _added(parts, step.wide, cards)
        messages.append(_summed(logs, step.wide, step.axes))
        literals = step.kind == "literals"
        shares.append(None if literals else _shares(logs, step.wide, messages[-1], step.axes))
        if children[0] >= 0:
            messages[children[0]] = messages[children[1]] = None
    return shares, plan.potential.constant + float(messages[-1])


def _boundary_block(plan: CompilationPlan, node: int, shares: Any) -> Input | Inner:
    """The units of one vtree node; `shares` are the weights of all assignments of the axes."""
    step, cards = plan.steps[node], plan.potential.cardinalities
    if step.kind == "literals":
        return Table(np.eye(cards[step.decides]))
    if step.kind == "inputs":
        return Table(shares.reshape(-1, cards[step.decides]))
    children = int(plan.vtree.left[node]), int(plan.vtree.right[node])
    n_left, n_right = (plan.steps[child].n_units for child in children)
    left, right = np.divmod(np.arange(n_left * n_right), n_right)
    gone = [v for v in step.wide if v not in set(step.axes)]
    order = [step.wide.index(v) for v in (*step.axes, *gone)]
    columns = np.arange(shares.size).reshape(shares.shape)
    shares, columns = (x.transpose(order).reshape(step.n_units, -1) for x in (shares, columns))
    return weighted(left, right, shares, columns, n_left, n_right)


def _added(parts: Sequence[tuple[Any, Axes]], axes: Axes, cardinalities: Sequence[int]) -> Any:
    """The sum of tables of logarithms over parts of the axes, over all of them."""
    total = np.zeros([cardinalities[v] for v in axes])
    for logs, scope in parts:
        total += spread(logs, scope, axes)
    return total


def _summed(logs: Any, axes: Axes, kept: Axes) -> Any:
    """The log of the sum over all axes but the kept ones, which come in their own order."""
    place = {v: axis for axis, v in enumerate(axes)}
    gone = tuple(axis for axis, v in enumerate(axes) if v not in set(kept))
    if gone:
        top = logs.max(axis=gone, keepdims=True)
        top = np.where(top > -np.inf, top, 0.0)
        with np.errstate(divide="ignore"):
            logs = np.log(np.exp(logs - top).sum(axis=gone)) + top.reshape(
                [n for axis, n in enumerate(logs.shape) if axis not in gone]
            )
    left = sorted(kept, key=lambda v: place[v])
    return logs.transpose([left.index(v) for v in kept])


def _shares(logs: Any, axes: Axes, sums: Any, kept: Axes) -> Scaled:
    """The numbers with these logarithms, divided by their sums; zero where the sum is zero."""
    sums = spread(sums, kept, axes)
    return scaled_logs(logs - np.where(sums > -np.inf, sums, 0.0))
