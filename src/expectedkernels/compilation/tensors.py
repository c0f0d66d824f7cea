"""Circuits as tables of conditionals: what questions about few rows are put to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from expectedkernels.circuits.evidence import Evidence
from expectedkernels.circuits.inputs import Input
from expectedkernels.compilation import answers, messages, single_rows
from expectedkernels.compilation.messages import (
    NO_DISTRIBUTION,
    MessagePlan,
    Stage,
    conditional,
    solved,
    stage_table,
)
from expectedkernels.compilation.tables import Scaled
from expectedkernels.compilation.writing import context_blocks
from expectedkernels.engine.blocks import Inner
from expectedkernels.errors import PropertyError
from expectedkernels.vtree import Vtree

SERIES = 8
"""How many questions of several rows units are written out for, as if it were known."""


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
        log_z += now.top
        if log_z == -np.inf:
            raise PropertyError(NO_DISTRIBUTION)
        stages.append(replace(stage, factors=(conditional(table, now).tightened(),)))
        found.append(now.message)
        for child in stage.children:
            found[child] = None
    return MessagePlan(tuple(stages), 0.0, is_normalized=True), log_z


@dataclass(frozen=True, eq=False)
class Tensors:
    """The conditionals of a compiled model, and what can be asked of them: see `Shortcuts`.

    Rows are answered one by one where they are few for the size of the tables, where there is no
    memory for units, and where a conditional probability is too small for the weights of these.

    Attributes
    ----------
    plan : MessagePlan
    max_bytes : int
    """

    plan: MessagePlan
    max_bytes: int

    def by_units(self, n_rows: int) -> bool:
        """Whether units answer so many rows, and not these tables."""
        plan = self.plan
        return not plan.in_logs and answers.needs_circuit(plan, n_rows, self.max_bytes, SERIES)

    def blocks(self, vtree: Vtree) -> tuple[Input | Inner, ...]:
        """The blocks of the circuit."""
        return context_blocks(vtree, self.plan, self.max_bytes)

    def log_values(self, evidence: Evidence | None) -> Any:
        """The log-probability of every row; complete ones are looked up."""
        if evidence is None:
            return np.zeros(1)
        rows = evidence.values
        complete = np.zeros(evidence.n_rows, dtype=np.bool_)
        if rows is not None:
            complete = ~np.isnan(rows).any(axis=1)
        others = np.flatnonzero(~complete)
        if len(others) and self.by_units(len(others)):
            return None
        logs = np.empty(len(complete))
        if complete.any():
            logs[complete] = self._looked_up(rows[complete])
        logs[others] = [self._log_value(evidence, row) for row in others.tolist()]
        return logs

    def _log_value(self, evidence: Evidence, row: int) -> float:
        """The log-probability of one row."""
        states = self._states(evidence, row)
        found = None if states is None else single_rows.passed(self.plan, states)
        if found is not None:
            return found.log_z
        [weights] = answers.row_weights(evidence.rows([row]))
        return messages.log_partition(self.plan, weights)

    def _states(self, evidence: Evidence, row: int) -> list[int] | None:
        """The states that a row observes, if it says no more and tables are small."""
        if evidence.values is None or not self.plan.is_small:
            return None
        values = evidence.values[row]
        return np.where(np.isnan(values), -1.0, values).astype(np.intp).tolist()

    def _looked_up(self, rows: Any) -> Any:
        """The log-probability of complete rows."""
        states = rows.T.astype(np.intp)
        total = np.zeros(len(rows))
        with np.errstate(divide="ignore"):
            for stage in self.plan.stages:
                table = stage.factors[0]
                found = table.data[(states[stage.variable], *(states[v] for v in stage.context))]
                total += found if table.is_log else np.log(found)
        return total

    def marginals(self, evidence: Evidence | None) -> list[Any] | None:
        """The probabilities of the states of every variable, (rows, cardinality) each."""
        if self.by_units(1 if evidence is None else evidence.n_rows):
            return None
        shares = None if evidence is None else self._shares(evidence)
        if shares is not None:
            return shares
        room = max(self.max_bytes, self.plan.message_bytes)
        return answers.marginals(self.plan, evidence, room)

    def _shares(self, evidence: Evidence) -> list[Any] | None:
        """What `marginals` gives, for possible rows of states and small tables; None for others."""
        found = []
        for row in range(evidence.n_rows):
            states = self._states(evidence, row)
            given = None if states is None else single_rows.passed(self.plan, states)
            if states is None or given is None or given.log_z == -np.inf:
                return None
            found.append(single_rows.marginals(self.plan, states, given))
        return [np.stack(shares) for shares in zip(*found, strict=True)]
