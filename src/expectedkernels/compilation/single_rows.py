"""Single rows of states asked of small tables: likelihoods and marginals in few steps.

Conditionals and their messages are at most one, so that messages are scaled only where they get
small; and of what a row observes only the observed part of a table is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from expectedkernels.compilation.messages import MessagePlan, inverse, spread_belief
from expectedkernels.compilation.tables import LOWEST, Scaled, scaled

SMALL_MESSAGE = LOWEST / 4
"""Messages are scaled where the logs of their numbers may lie below this."""

States = Sequence[int]
"""Of every variable the state that is observed, -1 if there is none."""


class Passed(NamedTuple):
    """What a pass over all stages gives.

    Attributes
    ----------
    log_z : float
        The log of the probability of the states.
    tables : list of arrays
        The product of what enters every stage, (K, *context); of observed variables the part of
        their state, of shape context.
    sums : list of arrays
        These, summed over the states of the variable; None: they are one.
    """

    log_z: float
    tables: list[Any]
    sums: list[Any]


def passed(plan: MessagePlan, states: States) -> Passed | None:
    """The tables of all stages of a small plan; None if some numbers are too small for it."""
    log_z = 0.0
    messages: list[Scaled | None] = []
    tables: list[Any] = []
    sums: list[Any] = []
    for stage in plan.stages:
        state, (table, low, _) = states[stage.variable], stage.factors[0]
        touched = is_known = state >= 0
        if is_known:
            table = table[state]
        for child, shape in zip(stage.children, stage.places, strict=True):
            message = messages[child]
            if message is None:
                continue
            low += message.low
            if low < LOWEST:
                return None
            data, touched = message.data.reshape(shape), True
            table = table * (data[state if shape[0] > 1 else 0] if is_known else data)
        tables.append(table)
        if not touched:
            sums.append(None)
            messages.append(None)
            continue
        total = table if is_known else np.add.reduce(table, axis=0)
        sums.append(total)
        if stage.context and low >= SMALL_MESSAGE:
            messages.append(Scaled(total, low))
            continue
        own, top = scaled(total)
        if top == -np.inf:
            return Passed(top, tables, sums)
        if own.is_log:
            return None
        log_z += top
        messages.append(own if stage.context else None)
    return Passed(log_z, tables, sums)


def marginals(plan: MessagePlan, states: States, found: Passed) -> list[Any]:
    """The probabilities of the states of every variable, from the last stage to the first."""
    result: list[Any] = [None] * len(plan.stages)
    beliefs: list[Any] = [None] * len(plan.stages)  # of the contexts
    for i in range(len(plan.stages) - 1, -1, -1):
        stage, table, sums = plan.stages[i], found.tables[i], found.sums[i]
        belief, beliefs[i] = beliefs[i], None
        if belief is None:
            belief = np.ones(stage.shape[1:])
        state = states[stage.variable]
        if state >= 0:
            shares = np.zeros(stage.shape[0])
            shares[state] = 1.0
            result[stage.variable] = shares
            if stage.children:
                joint = np.zeros(stage.shape)
                joint[state] = belief
                spread_belief(stage, joint, plan.spreads[i], beliefs)
            continue
        ratio = belief if sums is None else belief * inverse(sums)
        if stage.children:
            shares = spread_belief(stage, table * ratio, plan.spreads[i], beliefs)
        else:
            shares = table.reshape(stage.shape[0], -1) @ ratio.reshape(-1)
        result[stage.variable] = shares / np.add.reduce(shares)
    return result
