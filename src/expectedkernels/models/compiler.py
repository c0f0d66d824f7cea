"""Factor graphs compiled to circuits."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from expectedkernels.arrays import DEFAULT_MAX_BYTES, check_max_bytes
from expectedkernels.checks import PropertyError
from expectedkernels.circuits.circuit import Circuit, of_tables
from expectedkernels.circuits.inputs import Input, Table
from expectedkernels.data.evidence import Evidence
from expectedkernels.data.schema import Schema
from expectedkernels.engine.blocks import Inner, inner, inner_of_edges
from expectedkernels.models import messages
from expectedkernels.models.clique_tree import (
    CompilationPlan,
    Potential,
    Scaled,
    Step,
    make_plan,
    product,
    spread,
)
from expectedkernels.models.messages import (
    NO_DISTRIBUTION,
    MessagePlan,
    Stage,
    compilation_stages,
    forward,
    solved,
)
from expectedkernels.vtree import Vtree

Axes = tuple[int, ...]
LEAST_LOG = float(np.log(np.finfo(np.float64).tiny))


def context_plan(vtree: Vtree, shares: MessagePlan) -> CompilationPlan:
    """The plan of the circuit of some conditionals: that of the model they came from."""
    cards = {stage.variable: stage.shape[0] for stage in shares.stages}
    scopes = ((stage.variable, *stage.context) for stage in shares.stages)
    wide = (tuple(sorted(v for v in scope if cards[v] > 1)) for scope in scopes)
    tables: dict[Axes, Any] = {scope: None for scope in wide if scope}
    sizes = tuple(cards[v] for v in range(len(cards)))
    return make_plan(Potential(sizes, tables, 0.0), vtree, "context")


def refuse_large(plan: CompilationPlan, needed: int, max_bytes: int, what: str) -> None:
    """Raise if something needs more memory than there is."""
    why = f"the {plan.method} method has width {plan.width} and {plan.n_products} products on its"
    advice = "Condition on some variables, or try another vtree"
    messages.require_room(needed, max_bytes, what, f"{why} vtree", advice)


def written_blocks(
    plan: CompilationPlan, shares: Sequence[Scaled | None]
) -> tuple[Input | Inner, ...]:
    """The blocks of all nodes; warns of shares that are too small for a double."""
    logs = [table.logs for table in shares if table is not None and table.is_log]
    lost = sum(np.count_nonzero((x > -np.inf) & (x < LEAST_LOG)) for x in logs)
    if lost:
        warnings.warn(
            f"{lost} conditional probabilities of the model are below 2e-308, too small for the "
            "weights of a circuit, where they count as zero or lose digits. Results of the model "
            "itself, and likelihoods and marginals of circuits compiled by contexts, keep them.",
            stacklevel=2,
        )
    numbers = (None if table is None else table.numbers for table in shares)
    blocks = [_block(plan, node, table) for node, table in enumerate(numbers)]
    return Circuit.from_blocks(plan.vtree, blocks).blocks


def _block(plan: CompilationPlan, node: int, table: Any) -> Input | Inner:
    """The units of one vtree node.

    The table holds the weights of what is decided or summed there, which is the first axis.
    """
    step, cards = plan.steps[node], plan.potential.cardinalities
    if step.kind == "literals":
        return Table(np.eye(cards[step.decides]))
    shares: Any = None if table is None else table.reshape(len(table), -1).T  # a row for every unit
    if step.kind == "inputs":
        return Table(np.ascontiguousarray(shares))
    children = int(plan.vtree.left[node]), int(plan.vtree.right[node])
    below = [plan.steps[child] for child in children]
    n_left, n_right = (plan.size(child.axes) for child in below)
    if step.kind == "product":
        left, right = (_numbers(child.axes, step.axes, cards) for child in below)
        return inner(left, right, None, n_left, n_right)
    if step.kind == "sum":
        left, right = np.divmod(np.arange(n_left * n_right), n_right)
        columns = _numbers(step.wide, (*step.axes, *_summed_axes(step)), cards)
    else:
        # one product for every unit of the other side, whose context tells the value decided
        other = plan.steps[step.other]
        left, right = _numbers((step.decides,), other.axes, cards), np.arange(plan.size(other.axes))
        if step.other == children[0]:
            left, right = right, left
        columns = _numbers(other.axes, (*step.axes, step.decides), cards)
    alive = shares > 0
    edges = np.nonzero(alive)[0], columns.reshape(shares.shape)[alive], shares[alive]
    return inner_of_edges(left, right, edges, len(shares), n_left, n_right)


def _summed_axes(step: Step) -> Axes:
    """The variables of the table of a step that are summed out."""
    return tuple(v for v in step.wide if v not in step.axes)


def _numbers(axes: Axes, wide: Axes, cardinalities: Sequence[int]) -> Any:
    """For every assignment of the wide axes the number of its restriction to some of them."""
    shape = [cardinalities[v] for v in axes]
    numbers = np.arange(int(np.prod(shape, dtype=np.intp))).reshape(shape)
    shape = [cardinalities[v] for v in wide]
    return np.broadcast_to(spread(numbers, axes, wide), shape).reshape(-1)


SERIES = 8
"""How many questions of several rows units are written out for, as if it were known."""


def conditionals(plan: MessagePlan) -> tuple[MessagePlan, float]:
    """The plan of the normalised model, one conditional per stage, and the log of the sum.

    Examples
    --------
    >>> from expectedkernels.datasets import asia
    >>> plan, log_z = conditionals(asia().messages)
    >>> bool(np.allclose([stage.factors[0].data.sum(axis=0).max() for stage in plan.stages], 1.0))
    True
    """
    stages: list[Stage] = []
    log_z = plan.constant
    for stage, found in forward(plan, {}):
        log_z += found.top
        if log_z == -np.inf:
            raise PropertyError(NO_DISTRIBUTION)
        stages.append(replace(stage, factors=(found.conditional.tightened(),)))
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
        return not plan.in_logs and messages.needs_circuit(plan, n_rows, self.max_bytes, SERIES)

    def blocks(self, vtree: Vtree) -> tuple[Input | Inner, ...]:
        """The blocks of the circuit."""
        plan = context_plan(vtree, self.plan)
        refuse_large(plan, plan.n_bytes, self.max_bytes, "To write out the units of this circuit")
        tables = {stage.variable: stage.factors[0] for stage in self.plan.stages}
        kinds = ("inputs", "decision")
        deciding = (step.decides if step.kind in kinds else -1 for step in plan.steps)
        return written_blocks(plan, [tables.get(variable) for variable in deciding])

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
        if len(others):
            logs[others] = messages.log_partitions(self.plan, evidence.rows(others))
        return logs

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
        room = max(self.max_bytes, self.plan.message_bytes)
        return messages.marginals(self.plan, evidence, room)


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
    refuse_large(plan, plan.n_bytes, max_bytes, "Compiling this model")
    shares, log_z = _boundary_shares(plan)
    if log_z == -np.inf:
        raise PropertyError(NO_DISTRIBUTION)
    return Circuit(plan.vtree, written_blocks(plan, shares)), log_z


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

    The table of a node has one axis for what is summed out, and one per variable of ``step.axes``.
    """
    messages: list[Any] = []
    shares: list[Scaled | None] = []
    log_z, cards = plan.potential.constant, plan.potential.cardinalities
    children = zip(plan.vtree.left.tolist(), plan.vtree.right.tolist(), strict=True)
    for step, below in zip(plan.steps, children, strict=True):
        axes = (*_summed_axes(step), *step.axes)
        parts = plan.potential.placed(step.scopes, axes)
        for child in below if below[0] >= 0 else ():
            parts.append(messages[child].placed(plan.steps[child].axes, axes))
            messages[child] = None
        table = product(parts, [cards[v] for v in axes])
        found = solved(table.shaped([-1, *(cards[v] for v in step.axes)]))
        log_z += found.top
        messages.append(found.message)
        shares.append(None if step.kind == "literals" else found.conditional)
    return shares, log_z
