"""The tables of compiled circuits as a few flat arrays, and back, with everything checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from expectedkernels.circuits.base import of_tables
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.schema import Schema
from expectedkernels.compilation.messages import MessagePlan, Stage, log_partition
from expectedkernels.compilation.tables import Scaled
from expectedkernels.compilation.tensors import Tensors
from expectedkernels.compilation.writing import context_plan
from expectedkernels.errors import CompatibilityError
from expectedkernels.vtree import Vtree

STAGE_INTEGERS = (
    "stage_variable",  # per stage
    "stage_states",  # per stage: how many the variable has
    "stage_is_log",  # per stage: whether its table holds logarithms
    "stage_parent",  # per stage: the later one that its message enters, -1 for none
    "context_size",  # per stage: the number of variables of its context
    "context",  # all contexts, stage by stage
    "max_bytes",  # one number
)
STAGE_FLOATS = ("stage_low", "conditionals")
TOLERANCE = 1e-6
"""How far the log of the sum of a distribution may be from zero."""
Require = Callable[[Any, str], None]
"""What raises with a message if a condition does not hold."""


def stage_arrays(tensors: Tensors) -> dict[str, Any]:
    """The arrays of a file that hold conditionals."""
    stages = tensors.plan.stages
    tables = [stage.factors[0] for stage in stages]
    parents = {child: i for i, stage in enumerate(stages) for child in stage.children}
    integers = (
        [stage.variable for stage in stages],
        [stage.shape[0] for stage in stages],
        [table.is_log for table in tables],
        [parents.get(i, -1) for i in range(len(stages))],
        [len(stage.context) for stage in stages],
        [v for stage in stages for v in stage.context],
        [tensors.max_bytes],
    )
    arrays: dict[str, Any] = {
        name: np.asarray(numbers, dtype=np.int64)
        for name, numbers in zip(STAGE_INTEGERS, integers, strict=True)
    }
    arrays["stage_low"] = np.array([table.low for table in tables], dtype=np.float64)
    arrays["conditionals"] = np.concatenate([table.data.reshape(-1) for table in tables])
    return arrays


def compiled_circuit(vtree: Vtree, arrays: dict[str, Any], require: Require) -> Circuit:
    """The circuit whose tables are in some arrays, on a vtree that was checked."""
    for name in (*STAGE_INTEGERS[:5], "stage_low"):
        require(len(arrays[name]) == vtree.n_variables, f"{name!r} has one entry per variable")
    order = arrays["stage_variable"].tolist()
    require(sorted(order) == list(range(len(order))), "every variable has one stage")
    sizes, flags = arrays["stage_states"], arrays["stage_is_log"]
    require(((sizes > 0) & (sizes < 2**31)).all(), "every variable has a state")
    require(((flags == 0) | (flags == 1)).all(), "tables hold numbers or logarithms")
    limit = arrays["max_bytes"].tolist()
    require(len(limit) == 1 and limit[0] > 0, "'max_bytes' is one positive number")
    cards = dict(zip(order, sizes.tolist(), strict=True))
    contexts = _contexts(order, arrays, require)
    stages = _stages(order, contexts, cards, arrays, require)
    plan = MessagePlan(tuple(stages), 0.0, is_normalized=True)
    _check_contexts(vtree, plan, require)
    total = log_partition(replace(plan, is_normalized=False), {})
    require(abs(total) <= TOLERANCE, "conditional probabilities sum to one")
    schema = Schema(tuple(cards[v] for v in range(len(cards))))
    return of_tables(Circuit, vtree, schema, Tensors(plan, limit[0]))


def _contexts(order: list[int], arrays: dict[str, Any], require: Require) -> list[tuple[int, ...]]:
    """The contexts of all stages: variables whose turn comes later, in that order."""
    counts, flat = arrays["context_size"], arrays["context"]
    require(
        ((counts >= 0) & (counts <= len(flat))).all() and counts.sum() == len(flat),
        f"'context' has {len(flat)} entries, which is not what stages need",
    )
    require(((flat >= 0) & (flat < len(order))).all(), "contexts are made of variables")
    position = np.argsort(order)
    bounds = [0, *np.cumsum(counts).tolist()]
    contexts = [tuple(flat[start:stop].tolist()) for start, stop in pairwise(bounds)]
    for i, context in enumerate(contexts):
        turns = [i, *position[list(context)].tolist()]
        require(all(a < b for a, b in pairwise(turns)), "contexts follow the order of stages")
    return contexts


def _stages(
    order: list[int],
    contexts: list[tuple[int, ...]],
    cards: dict[int, int],
    arrays: dict[str, Any],
    require: Require,
) -> list[Stage]:
    """The stages with their tables, each a conditional within its bounds."""
    shapes = [tuple(cards[u] for u in (v, *c)) for v, c in zip(order, contexts, strict=True)]
    numbers = arrays["conditionals"].astype(np.float64)
    require(
        sum(map(prod, shapes)) == len(numbers),
        f"'conditionals' has {len(numbers)} entries, which is not what stages need",
    )
    children = _children(order, contexts, arrays["stage_parent"].tolist(), require)
    stages: list[Stage] = []
    start = 0
    for i, (variable, context, shape) in enumerate(zip(order, contexts, shapes, strict=True)):
        data = numbers[start : start + prod(shape)].reshape(shape)
        start += data.size
        table = Scaled(data, float(arrays["stage_low"][i]), bool(arrays["stage_is_log"][i]))
        _check_table(table, require)
        axes = (variable, *context)
        places = tuple(
            tuple(cards[u] if u in contexts[child] else 1 for u in axes) for child in children[i]
        )
        stages.append(
            Stage(variable, context, shape, tuple(children[i]), places, (table,), data.size)
        )
    return stages


def _children(
    order: list[int], contexts: list[tuple[int, ...]], parents: list[int], require: Require
) -> list[list[int]]:
    """The stages whose messages enter every stage."""
    children: list[list[int]] = [[] for _ in order]
    for i, (parent, context) in enumerate(zip(parents, contexts, strict=True)):
        later = i < parent < len(order)
        require(later or parent == -1, "messages enter later stages")
        axes = {order[parent], *contexts[parent]} if later else set()
        require(axes.issuperset(context), "messages fit the stages that they enter")
        if later:
            children[parent].append(i)
    return children


def _check_table(table: Scaled, require: Require) -> None:
    """Raise unless a table holds conditional probabilities, zero or summing to one."""
    logs = table.logs if table.is_log or (table.data >= 0).all() else np.array([np.nan])
    require((logs <= TOLERANCE).all(), "'conditionals' are probabilities or their logarithms")
    least = logs.min(where=logs > -np.inf, initial=0.0)
    require(
        -np.inf < table.low <= least + TOLERANCE, "'stage_low' are bounds of the logs of tables"
    )
    totals = np.exp(logs).sum(axis=0)
    good = (totals == 0) | (np.abs(totals - 1.0) <= TOLERANCE)
    require(good.all(), "conditional probabilities sum to one")


def _check_contexts(vtree: Vtree, plan: MessagePlan, require: Require) -> None:
    """Raise unless units can be written out on the vtree, from tables of these very shapes."""
    try:
        steps = context_plan(vtree, plan).steps
    except CompatibilityError:
        steps = ()
    decided = {step.decides: step.axes for step in steps if step.kind in ("inputs", "decision")}
    several = {stage.variable for stage in plan.stages if stage.shape[0] > 1}
    fits = all(
        decided.get(stage.variable) == tuple(v for v in stage.context if v in several)
        for stage in plan.stages
    )
    require(fits, "contexts belong to the vtree")
