"""Messages of variable elimination, and the queries that they answer."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import log, prod
from typing import Any, NamedTuple

import numpy as np

from expectedkernels.arrays import Array, RngLike, as_generator, memory_limit, require_memory
from expectedkernels.checks import PropertyError, SizeError
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.queries import Marginals, refuse_impossible
from expectedkernels.circuits.sample_map import check_samples
from expectedkernels.data.evidence import Evidence, EvidenceLike, as_evidence, is_batch
from expectedkernels.data.schema import Schema
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES, check_max_bytes
from expectedkernels.models.clique_tree import (
    LOWEST,
    SMALL,
    CompilationPlan,
    Potential,
    Scaled,
    product,
    scaled,
    scaled_logs,
    summed,
    times,
)
from expectedkernels.vtrees import Elimination, elimination, interaction_graph, min_fill_order

Weights = Mapping[int, Any]
"""Weights of the states of some variables: evidence."""
CUT = 2_000
"""It takes about as long to cut a stage down to what is observed as so many entries of a table."""
NO_DISTRIBUTION = (
    "The factors of this model multiply to zero at every state (Z = 0), so there is no "
    "distribution. Check its zero entries and the evidence."
)


@dataclass(frozen=True, eq=False)
class Stage:
    """The elimination of one variable.

    Attributes
    ----------
    variable : int
    context : tuple of int
        The variables of its message, in the order of elimination.
    shape : tuple of int
        The cardinalities of the variable and of its context.
    children : tuple of int
        The stages whose messages enter.
    places : tuple of shapes
        The shapes in which they do.
    factors : tuple of Scaled
        The factors that enter, in such shapes too.
    n_entries : int
        The number of entries of the table.
    """

    variable: int
    context: tuple[int, ...]
    shape: tuple[int, ...]
    children: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]
    factors: tuple[Scaled, ...]
    n_entries: int


@dataclass(frozen=True, eq=False)
class MessagePlan:
    """The stages of an elimination, in its order, and the log of what multiplies them all.

    Attributes
    ----------
    stages : tuple of Stage
    constant : float
    is_normalized : bool
        Whether the only factor of every stage is a conditional, so that messages are one as long as
        no evidence enters them.
    """

    stages: tuple[Stage, ...]
    constant: float
    is_normalized: bool = False

    @cached_property
    def n_entries(self) -> int:
        """The number of entries of all tables."""
        return sum(stage.n_entries for stage in self.stages)

    @cached_property
    def in_logs(self) -> bool:
        """Whether some factors have a range that takes logarithms."""
        return any(factor.is_log for stage in self.stages for factor in stage.factors)

    @cached_property
    def is_small(self) -> bool:
        """Whether every stage has one conditional, of few plain numbers."""
        sizes = [stage.n_entries for stage in self.stages]
        return self.is_normalized and not self.in_logs and max(sizes) <= SMALL

    @cached_property
    def spreads(self) -> tuple[Spread, ...]:
        """How the belief of every stage is summed up for its children."""
        return tuple(_spread(self.stages, stage) for stage in self.stages)

    @cached_property
    def table_bytes(self) -> int:
        """About how much memory it takes to keep all tables and messages."""
        largest = max(stage.n_entries for stage in self.stages)
        return 8 * (self.n_entries + 2 * self._messages + 2 * largest)

    @cached_property
    def _messages(self) -> int:
        """The number of entries of all messages."""
        return sum(stage.n_entries // stage.shape[0] for stage in self.stages)

    @cached_property
    def message_bytes(self) -> int:
        """About how much memory it takes to keep all messages, and two tables at a time."""
        return 8 * (2 * self._messages + 3 * max(stage.n_entries for stage in self.stages))

    @cached_property
    def passing_bytes(self) -> int:
        """About how much memory it takes if messages go where they have entered."""
        held = most = 0
        for stage in self.stages:
            size = stage.n_entries // stage.shape[0]
            most = max(most, held + 2 * stage.n_entries + size)
            held += size - sum(
                self.stages[i].n_entries // self.stages[i].shape[0] for i in stage.children
            )
        return 8 * most


def message_plan(potential: Potential, found: Elimination) -> MessagePlan:
    """The stages of an elimination of the variables of a product of factors."""
    position = {v: i for i, v in enumerate(found.order)}
    scopes: list[list[tuple[int, ...]]] = [[] for _ in found.order]
    for scope in potential.tables:
        scopes[min(position[v] for v in scope)].append(scope)
    children: list[list[int]] = [[] for _ in found.order]
    stages: list[Stage] = []
    for i, v in enumerate(found.order):
        context = tuple(sorted(found.contexts[v], key=position.__getitem__))
        if context:
            children[position[context[0]]].append(i)
        stages.append(_stage(potential, v, context, scopes[i], children[i], stages))
    return MessagePlan(tuple(stages), potential.constant)


ScopedTable = tuple[tuple[int, ...], Scaled]
"""Some variables, and a table with one axis for each of them."""


def min_fill(
    scopes: Sequence[Sequence[int]], variables: Collection[int], last: Sequence[int] = ()
) -> tuple[list[int], Elimination]:
    """Some variables, increasing, and the elimination of their places in min-fill order."""
    labels = sorted(variables)
    number = {v: i for i, v in enumerate(labels)}
    graph = interaction_graph(len(labels), [[number[v] for v in scope] for scope in scopes])
    order = min_fill_order(graph)
    if last:
        kept = [number[v] for v in last]
        order = [v for v in order if v not in kept] + kept
    return labels, elimination(graph, order)


def min_fill_cost(
    scopes: Sequence[Sequence[int]], variables: Collection[int], cardinalities: Sequence[int]
) -> int:
    """The number of entries of all tables that elimination in min-fill order makes."""
    labels, found = min_fill(scopes, variables)
    cards = [cardinalities[v] for v in labels]
    near = zip(cards, found.contexts, strict=True)
    return sum(card * prod(cards[u] for u in context) for card, context in near)


def product_plan(
    tables: Sequence[ScopedTable],
    variables: Collection[int],
    cardinalities: Sequence[int],
    last: Sequence[int] = (),
) -> tuple[list[int], MessagePlan]:
    """Some variables, increasing, and the plan that eliminates their product of tables."""
    labels, order = min_fill([scope for scope, _ in tables], variables, last)
    number = {v: i for i, v in enumerate(labels)}
    factors = [([number[v] for v in scope], table) for scope, table in tables]
    return labels, message_plan(Potential.of([cardinalities[v] for v in labels], factors), order)


def compilation_stages(plan: CompilationPlan) -> MessagePlan:
    """The stages of a compilation by contexts, one per variable."""
    stages: list[Stage] = []
    sent: list[list[int]] = []  # from every node: the stages whose messages it sends on
    for node, step in enumerate(plan.steps):
        if step.kind == "literals":
            sent.append([])
        elif step.kind == "product":
            sent.append(sent[plan.vtree.left[node]] + sent[plan.vtree.right[node]])
        else:
            children = [] if step.other < 0 else sent[step.other]
            sent.append([len(stages)])
            stages.append(
                _stage(plan.potential, step.decides, step.axes, step.scopes, children, stages)
            )
    return MessagePlan(tuple(stages), plan.potential.constant)


def _stage(
    potential: Potential,
    variable: int,
    context: tuple[int, ...],
    scopes: Sequence[tuple[int, ...]],
    children: Sequence[int],
    stages: Sequence[Stage],
) -> Stage:
    """The stage of a variable, after those of its children."""
    cards, axes = potential.cardinalities, (variable, *context)
    shape = tuple([cards[u] for u in axes])
    factors = tuple([potential.tables[scope].placed(scope, axes) for scope in scopes])
    inside = [stages[child].context for child in children]
    places = tuple([tuple([cards[u] if u in own else 1 for u in axes]) for own in inside])
    return Stage(variable, context, shape, tuple(children), places, factors, prod(shape))


class Solved(NamedTuple):
    """The table of one stage.

    Attributes
    ----------
    table : Scaled of shape (K, *context)
        Proportional to the conditional of the variable given its context; where states are
        maximised instead, an array of the best one for every context.
    sums : array of shape context, or None
        What it sums to along the first axis; None: one, or zero for impossible contexts.
    message : Scaled, or None
        The sums over the largest of them; None: all are one.
    top : float
        The log of the largest, -inf if all are zero.
    """

    table: Any
    sums: Any
    message: Scaled | None
    top: float

    @property
    def conditional(self) -> Scaled:
        """The conditional, (K, *context), zero given what is impossible."""
        table = self.table
        if table.is_log:
            return scaled_logs(table.data)
        if len(table.data) == 1:  # nothing is summed, and one is one without rounding
            return Scaled((table.data > 0).astype(np.float64), 0.0)
        data = table.data if self.sums is None else times(table.data, inverse(self.sums)[None])
        # entries of the table are at most one, so that they are divided by K at most
        return Scaled(np.ascontiguousarray(data), table.low - log(len(data)))


def inverse(sums: Any) -> Any:
    """One over numbers, zero where they are zero."""
    return (
        1.0 / sums if sums.all() else np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    )


def _log_tops(weights: Weights) -> float:
    """The sum of the logs of the largest weights, which tables are divided by."""
    tops = [max(given.tolist()) for given in weights.values()]
    return sum(map(log, tops)) if all(tops) else -np.inf


def stage_table(stage: Stage, messages: Sequence[Scaled | None], weights: Weights) -> Scaled:
    """The product of what enters a stage."""
    parts = list(stage.factors)
    for child, shape in zip(stage.children, stage.places, strict=True):
        message = messages[child]
        if message is not None:  # else it is one
            parts.append(message.shaped(shape))
    if stage.variable in weights:
        numbers, _ = scaled(weights[stage.variable])
        parts.append(numbers.shaped([-1] + [1] * len(stage.context)))
    return product(parts, stage.shape)


def solved(table: Scaled, maximise: bool = False) -> Solved:
    """The table of a stage and its message: sums over the states of its variable, or maxima."""
    kept: Any = table
    if maximise:
        kept, totals = _largest(table.data)
    elif table.is_log:
        highest = table.data.max(axis=0)
        highest = np.where(highest > -np.inf, highest, 0.0)
        with np.errstate(divide="ignore"):
            totals = np.log(np.exp(table.data - highest).sum(axis=0)) + highest
        kept = Scaled(table.data - np.where(totals > -np.inf, totals, 0.0), table.low, True)
    else:
        totals = np.add.reduce(table.data, axis=0)
    top = float(np.maximum.reduce(totals, axis=None))
    if top == (-np.inf if table.is_log else 0.0):
        return Solved(kept, None, Scaled(np.zeros_like(totals), 0.0), -np.inf)
    if table.is_log:
        return Solved(kept, None, scaled_logs(totals - top), top)
    return Solved(kept, totals, Scaled(totals * (1.0 / top), table.low - log(top)), log(top))


def forward(
    plan: MessagePlan,
    weights: Weights,
    messages: list[Scaled | None] | None = None,
    maximise: bool = False,
) -> Iterator[tuple[Stage, Solved]]:
    """The stages in their order, up to the first that is impossible.

    Messages go to a list, if there is one, and are otherwise let go where they have entered.
    """
    keep = messages is not None
    sent: list[Scaled | None] = [] if messages is None else messages
    for stage in plan.stages:
        found = _found(plan, stage, sent, weights, maximise)
        sent.append(found.message)
        if not keep:
            for child in stage.children:
                sent[child] = None
        yield stage, found
        if found.top == -np.inf:
            return


def _found(
    plan: MessagePlan,
    stage: Stage,
    messages: Sequence[Scaled | None],
    weights: Weights,
    maximise: bool = False,
) -> Solved:
    """The table of a stage and its message, None if that is one."""
    untouched = plan.is_normalized and not maximise and stage.variable not in weights
    if untouched and all(messages[child] is None for child in stage.children):
        return Solved(stage.factors[0], None, None, 0.0)
    return solved(stage_table(stage, messages, weights), maximise)


def observed(plan: MessagePlan, weights: Weights) -> tuple[MessagePlan, Weights]:
    """The plan and the weights with one state of every variable that can have no other.

    Where tables are too small for this to be worth it, nothing changes.
    """
    states = {
        v: int(given.argmax()) for v, given in weights.items() if np.count_nonzero(given) == 1
    }
    if not states or plan.n_entries <= CUT * len(plan.stages):
        return plan, weights
    left = {v: x[[states[v]]] if v in states else x for v, x in weights.items()}
    return replace(plan, stages=tuple([_cut(stage, states) for stage in plan.stages])), left


def _cut(stage: Stage, states: Mapping[int, int]) -> Stage:
    """The stage with one state of some variables."""
    at = [states.get(v, -1) for v in (stage.variable, *stage.context)]
    if max(at) < 0:
        return stage

    def shorter(shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([n if i < 0 else 1 for n, i in zip(shape, at, strict=True)])

    factors = []
    for factor in stage.factors:
        pairs = zip(factor.data.shape, at, strict=True)
        place = [slice(None) if n == 1 or i < 0 else slice(i, i + 1) for n, i in pairs]
        factors.append(factor._replace(data=factor.data[tuple(place)]))
    shape, places = shorter(stage.shape), tuple(map(shorter, stage.places))
    return replace(stage, shape=shape, places=places, factors=tuple(factors), n_entries=prod(shape))


class Solution:
    """The messages of all stages of a plan given weights, and the tables if they are kept.

    Tables can be cut down to what is observed.

    Attributes
    ----------
    log_z : float
        The log of the sum over all states, -inf if it is zero; then there is nothing else.
    """

    def __init__(self, plan: MessagePlan, given: Weights, keep: bool, cut: bool = False):
        plan, weights = observed(plan, given) if cut else (plan, given)
        self.plan, self.weights, self.given = plan, weights, given
        self.messages: list[Scaled | None] = []
        self._solved: list[Solved | None] = []
        self.log_z = plan.constant + _log_tops(weights)
        for _, found in forward(plan, weights, self.messages):
            self.log_z += found.top
            self._solved.append(found if keep else None)

    def backwards(self) -> Iterator[tuple[Stage, Solved]]:
        """The stages from the last to the first, once; tables are let go on the way."""
        for i in range(len(self.plan.stages) - 1, -1, -1):
            stage, found = self.plan.stages[i], self._solved[i]
            self._solved[i] = None
            if found is None:
                found = _found(self.plan, stage, self.messages, self.weights)
            self.messages[i] = None
            yield stage, found


def log_partition(plan: MessagePlan, weights: Weights) -> float:
    """The log of the sum over all states of the weighted product, without keeping anything."""
    plan, weights = observed(plan, weights)
    tops = [found.top for _, found in forward(plan, weights)]
    return plan.constant + _log_tops(weights) + sum(tops)


def solution_marginals(solution: Solution) -> list[Any]:
    """The probabilities of the states of every variable, from the last stage to the first."""
    stages = solution.plan.stages
    result: list[Any] = [None] * len(stages)
    place = {stage.variable: i for i, stage in enumerate(stages)}
    beliefs: list[Any] = [None] * len(stages)  # of the contexts
    for stage, found in solution.backwards():
        i = place[stage.variable]
        belief, beliefs[i] = beliefs[i], None
        if belief is None:
            belief = np.ones(stage.shape[1:])
        ratio = belief if found.sums is None else times(belief, inverse(found.sums))
        table = found.table.numbers
        if not stage.children:
            shares = table.reshape(stage.shape[0], -1) @ ratio.reshape(-1)
        else:
            shares = spread_belief(
                stage, times(table, ratio[None]), solution.plan.spreads[i], beliefs
            )
        result[stage.variable] = shares / np.add.reduce(shares)
    for v, weights in solution.given.items():
        if len(result[v]) < len(weights):
            result[v] = (weights > 0).astype(np.float64)
    return result


Spread = tuple[list[tuple[int, int, tuple[bool, ...] | None]], int]
"""From which of the tables that are known, the joint one first, others are summed.

Steps are a child, the table that its belief comes from, and which axes of that stay; None: all, and
otherwise the belief is known from then on. Last comes the smallest table of the variable itself.
"""


def _spread(stages: Sequence[Stage], stage: Stage) -> Spread:
    """How the belief of a stage is summed up: small tables from larger ones."""
    known = [((stage.variable, *stage.context), stage.n_entries)]
    steps = []
    sizes = {child: prod(stages[child].shape[1:]) for child in stage.children}
    for child in sorted(stage.children, key=lambda child: -sizes[child]):
        wanted = stages[child].context
        fits = [i for i, (axes, _) in enumerate(known) if set(wanted).issubset(axes)]
        place = min(fits, key=lambda i: known[i][1])
        axes, kept = known[place][0], None
        if axes != wanted:
            kept = tuple([u in wanted for u in axes])
            known.append((wanted, sizes[child]))
        steps.append((child, place, kept))
    own = (i for i, (axes, _) in enumerate(known) if stage.variable in axes)
    return steps, min(own, key=lambda i: known[i][1])


def spread_belief(stage: Stage, joint: Any, spread: Spread, beliefs: list[Any]) -> Any:
    """The beliefs of the contexts of all children, and of the variable itself."""
    known = [joint]
    steps, own = spread
    for child, place, kept in steps:
        table = known[place]
        if kept is not None:
            table = summed(table, kept)
            known.append(table)
        beliefs[child] = table
    return np.add.reduce(known[own].reshape(stage.shape[0], -1), axis=1)


def solution_samples(solution: Solution, n: int, rng: Any) -> Any:
    """Independent samples, (n, variables), from the last stage to the first."""
    shape = (n, len(solution.plan.stages))
    require_memory(8.0 * prod(shape), f"An array of {n} samples", "Draw some of them at a time.")
    states = np.empty(shape, dtype=np.intp)
    for stage, found in solution.backwards():
        given = found.table.numbers[(slice(None), *(states[:, u] for u in stage.context))]
        edges = np.cumsum(given.reshape(stage.shape[0], -1), axis=0)
        target = rng.random(n) * edges[-1]
        state = (edges <= target).sum(axis=0)
        # rounding may step over the last state that is possible
        last = stage.shape[0] - 1 - np.argmax(given.reshape(stage.shape[0], -1)[::-1] > 0, axis=0)
        states[:, stage.variable] = np.minimum(state, last)
    return states.astype(np.float64)


def most_probable_states(plan: MessagePlan, weights: Weights) -> Any:
    """The most probable states of all variables together, None if all are impossible."""
    found = [now for _, now in forward(plan, weights, maximise=True)]
    if found[-1].top == -np.inf:
        return None
    states = np.empty(len(plan.stages), dtype=np.intp)
    for stage, now in zip(reversed(plan.stages), reversed(found), strict=True):
        states[stage.variable] = now.table[tuple(states[u] for u in stage.context)]
    return states.astype(np.float64)


def _largest(table: Any) -> tuple[Any, Any]:
    """The first place of the largest entry along the first axis, in few bytes, and that entry."""
    best = np.array(table[0])
    choice = np.zeros(best.shape, dtype=np.min_scalar_type(len(table)))
    for state in range(1, len(table)):
        better = table[state] > best
        choice[better] = state
        np.maximum(best, table[state], out=best)
    return choice, best


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


def row_marginals(plan: MessagePlan, states: States, found: Passed) -> list[Any]:
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
        solution_marginals(solution) for solution in _solutions(plan, evidence, max_bytes, True)
    ]
    if len(rows) == 1:
        return [found[None] for found in rows[0]]
    return [np.stack(found) for found in zip(*rows, strict=True)]


def log_partitions(plan: MessagePlan, evidence: Evidence | None, max_bytes: int) -> Any:
    """The log of the sum over all states that evidence allows, for every row."""
    _require_room(plan, plan.passing_bytes, max_bytes)
    logs = [log_partition(plan, weights) for weights in row_weights(evidence)]
    if evidence is None or -np.inf in logs:
        _refuse_zero(plan)
    return np.asarray(logs)


def samples(plan: MessagePlan, evidence: Evidence | None, n: int, rng: Any, max_bytes: int) -> Any:
    """Samples given every row of evidence, (rows, n, variables)."""
    generator = as_generator(rng)
    return np.stack(
        [
            solution_samples(solution, n, generator)
            for solution in _solutions(plan, evidence, max_bytes)
        ]
    )


def most_probable(plan: MessagePlan, evidence: Evidence, max_bytes: int) -> Any:
    """The most probable states of all variables given every row, (rows, variables)."""
    _require_room(plan, plan.message_bytes, max_bytes)
    found = [most_probable_states(plan, weights) for weights in row_weights(evidence)]
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
    if log_partition(plan, {}) == -np.inf:
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


class Questions:
    """A base of models: questions, by variable elimination or by a circuit.

    A model has a schema, the plan of its messages, and a way to compile it.
    """

    schema: Schema
    n_variables: Any
    messages: Any
    compile: Any

    @cached_property
    def _circuit(self) -> Circuit:
        """The circuit that questions are put to."""
        return self.compile()[0]

    def _read(self, evidence: Any) -> tuple[Evidence | None, bool]:
        """The rows of evidence, and whether a circuit answers them."""
        read = None if evidence is None else as_evidence(evidence, self.schema)
        n_rows = 1 if read is None else read.n_rows
        if not needs_circuit(self.messages, n_rows):
            return read, False
        tables: Any = self._circuit.shortcuts
        return read, tables is None or tables.by_units(n_rows)

    def marginals(
        self, evidence: EvidenceLike | None = None, max_bytes: int = DEFAULT_MAX_BYTES
    ) -> Marginals:
        """The probabilities of the states of every variable, given evidence.

        By variable elimination, for one row after the other; where this takes longer than to
        compile the model, by its circuit. See `Circuit.marginals`.

        Parameters
        ----------
        evidence : mapping, array of one or more rows with NaN, data frame, or list of weights
            As for `Circuit.condition`. Default: none.
        max_bytes : int
            Tables that do not fit are made twice; models whose messages do not fit are refused.

        Returns
        -------
        list of arrays
            Indexed by number or name of the variables, as that of `Circuit.marginals`.

        Raises
        ------
        EvidenceError
            If the evidence is impossible.

        Examples
        --------
        >>> from expectedkernels.datasets import asia
        >>> asia().marginals({"smoke": "yes"})["lung"].round(6).tolist()
        [0.1, 0.9]
        """
        read, by_circuit = self._read(evidence)
        if by_circuit:
            return self._circuit.marginals(evidence)
        found = marginals(self.messages, read, max_bytes)
        rows = found if is_batch(evidence) else [array[0] for array in found]
        return Marginals(rows, self.schema)

    def map(self, X: EvidenceLike, as_frame: bool | None = None) -> Array:
        """The rows of X with missing entries set to their most probable joint values.

        By variable elimination, or for many rows by a circuit; see `Circuit.map`.

        Parameters
        ----------
        X : array of one or more rows with NaN, data frame, or mapping
        as_frame : bool, optional
            Whether to return a data frame of pandas with names and labels, or an array of codes
            in the shape of X. Default: a frame if the states have labels, or if X is a frame.

        Returns
        -------
        array or data frame

        Examples
        --------
        >>> from expectedkernels.datasets import asia
        >>> asia().map({"dysp": "yes"})["bronc"].tolist()
        ['yes']
        """
        read, by_circuit = self._read(X)
        if by_circuit or read is None:
            return self._circuit.map(X, as_frame)
        found = most_probable(self.messages, read, DEFAULT_MAX_BYTES)
        return self.schema.labelled(found if is_batch(X) else found[0], X, as_frame)

    def sample(
        self,
        n: int,
        rng: RngLike = None,
        evidence: EvidenceLike | None = None,
        as_frame: bool = False,
    ) -> Array:
        """Independent samples of the normalised model, given evidence.

        By variable elimination, or for many rows by a circuit; see `Circuit.sample`.

        Parameters
        ----------
        n : int
        rng : int, Generator or None
        evidence : mapping, array of one or more rows with NaN, or data frame, optional
        as_frame : bool

        Returns
        -------
        array or data frame

        Examples
        --------
        >>> from expectedkernels.datasets import asia
        >>> asia().sample(5, rng=0).shape
        (5, 8)
        """
        check_samples(n)
        read, by_circuit = self._read(evidence)
        if by_circuit:
            return self._circuit.sample(n, rng, evidence, as_frame)
        drawn = samples(self.messages, read, n, rng, DEFAULT_MAX_BYTES)
        if not as_frame:
            return drawn if is_batch(evidence) else drawn[0]
        index = [range(size) for size in drawn.shape[:2]] if is_batch(evidence) else None
        return self.schema.frame(drawn.reshape(-1, self.n_variables), index)

    def log_likelihood(self, X: EvidenceLike) -> Array:
        """The log-probability of every row of X, NaN entries summed out, shape (n,).

        The model is compiled when it is first asked, and normalised; `log_score` is the sum of
        logs of factors as they are.

        Parameters
        ----------
        X : array of shape (n, variables), data frame, or list of arrays

        Returns
        -------
        array of shape (n,)

        Examples
        --------
        >>> import expectedkernels as ek
        >>> fg = ek.FactorGraph([2, 2], [ek.Factor([0, 1], [[1.0, 2.0], [3.0, 4.0]])])
        >>> import numpy as np
        >>> np.exp(fg.log_likelihood([[1, 1], [0, np.nan]])).round(12).tolist()
        [0.4, 0.3]
        """
        return self._circuit.log_likelihood(X)

    def log_partition(
        self, evidence: EvidenceLike | None = None, max_bytes: int = DEFAULT_MAX_BYTES
    ) -> float | Array:
        """The log of the sum over all states, or over those that evidence allows.

        By variable elimination, without a circuit.

        Parameters
        ----------
        evidence, max_bytes : see `marginals`

        Returns
        -------
        float, or array of shape (n,) for n rows of evidence
            -inf given impossible evidence.

        Raises
        ------
        PropertyError
            If the factors multiply to zero everywhere.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> fg = ek.FactorGraph([2, 2], [ek.Factor([0, 1], [[1.0, 2.0], [3.0, 4.0]])])
        >>> round(fg.log_partition(), 6), round(fg.log_partition({0: 1}), 6)
        (2.302585, 1.94591)
        """
        read = None if evidence is None else as_evidence(evidence, self.schema)
        found = log_partitions(self.messages, read, max_bytes)
        return found if is_batch(evidence) else float(found[0])
