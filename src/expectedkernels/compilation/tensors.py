"""Circuits as tables of conditionals: what questions about few rows are put to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import log
from typing import Any

import numpy as np

from expectedkernels.circuits.evidence import Evidence
from expectedkernels.compilation import answers, messages
from expectedkernels.compilation.messages import (
    NO_DISTRIBUTION,
    MessagePlan,
    Stage,
    solved,
    stage_table,
    warn_of_lost_shares,
)
from expectedkernels.compilation.tables import Scaled
from expectedkernels.errors import PropertyError


def conditionals(plan: MessagePlan) -> tuple[MessagePlan, float]:
    """The plan of the normalised model, one conditional per stage, and the log of the sum.

    Examples
    --------
    >>> from expectedkernels.compilation.datasets import asia
    >>> plan, log_z = conditionals(asia().messages)
    >>> bool(np.allclose([stage.factors[0].data.sum(axis=0).max() for stage in plan.stages], 1.0))
    True
    """
    found: list[Scaled | None] = []
    stages: list[Stage] = []
    log_z = plan.constant
    for stage in plan.stages:
        table = stage_table(stage, found, {})
        now = solved(table)
        if table.is_log:
            warn_of_lost_shares(table.data, now.conditional)
        log_z += now.top
        if log_z == -np.inf:
            raise PropertyError(NO_DISTRIBUTION)
        # entries of the table are at most one, so that they are divided by K at most
        low = table.low - log(len(table.data))
        share = Scaled(now.conditional, low)
        stages.append(replace(stage, factors=(share.tightened() if table.is_log else share,)))
        found.append(now.message)
        for child in stage.children:
            found[child] = None
    return MessagePlan(tuple(stages), 0.0, is_normalized=True), log_z


@dataclass(frozen=True, eq=False)
class Tensors:
    """The conditionals of a compiled model, and what can be asked of them: see `Shortcuts`.

    Attributes
    ----------
    plan : MessagePlan
    max_bytes : int
    asked : list of int
        How many rows were answered one by one so far.
    """

    plan: MessagePlan
    max_bytes: int
    asked: list[int] = field(default_factory=lambda: [0])

    def _one_by_one(self, n_rows: int, has_levels: bool) -> bool:
        """Whether rows are answered one by one, and not by the units of the circuit."""
        if answers.needs_circuit(self.plan, n_rows, has_levels, self.asked[0]):
            return False
        self.asked[0] += n_rows
        return True

    def log_values(self, evidence: Evidence | None, has_levels: bool) -> Any:
        """The log-probability of every row; complete ones are looked up."""
        if evidence is None:
            return np.zeros(1)
        rows = evidence.values
        complete = np.zeros(evidence.n_rows, dtype=np.bool_)
        if rows is not None:
            complete = ~np.isnan(rows).any(axis=1)
        others = np.flatnonzero(~complete)
        if len(others) and not self._one_by_one(len(others), has_levels):
            return None
        logs = np.empty(len(complete))
        if complete.any():
            logs[complete] = self._looked_up(rows[complete])
        weights = answers.row_weights(evidence.rows(others)) if len(others) else ()
        logs[others] = [messages.log_partition(self.plan, given) for given in weights]
        return logs

    def _looked_up(self, rows: Any) -> Any:
        """The log-probability of complete rows."""
        states = rows.T.astype(np.intp)
        total = np.zeros(len(rows))
        with np.errstate(divide="ignore"):
            for stage in self.plan.stages:
                place = (states[stage.variable], *(states[v] for v in stage.context))
                total += np.log(stage.factors[0].data[place])
        return total

    def marginals(self, evidence: Evidence | None, has_levels: bool) -> list[Any] | None:
        """The probabilities of the states of every variable, (rows, cardinality) each."""
        n_rows = 1 if evidence is None else evidence.n_rows
        if not self._one_by_one(n_rows, has_levels):
            return None
        room = max(self.max_bytes, self.plan.message_bytes)
        return answers.marginals(self.plan, evidence, room)
