"""Messages of variable elimination, and the queries that they serve."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import log, prod
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from expectedkernels.arrays import DEFAULT_MAX_BYTES, check_max_bytes, memory_limit, require_memory
from expectedkernels.checks import PropertyError, SizeError
from expectedkernels.circuits.queries import refuse_impossible
from expectedkernels.data.evidence import Evidence
from expectedkernels.vtrees import Elimination, elimination, interaction_graph, min_fill_order

TINY = np.finfo(np.float64).tiny
LOWEST = -600.0
"""Products whose logarithms may lie below this are made in logarithms: doubles end near -708."""
SMALL = 2**11
"""Rows are computed one by one from tables up to this size."""
MOST_AXES = 50
"""Einstein sums have letters for about so many axes."""
Weights = Mapping[int, Any]
"""Weights of the states of some variables: evidence."""
CUT = 2_000
"""It takes about as long to cut a stage down to what is observed as so many entries of a table."""
NO_DISTRIBUTION = (
    "The factors of this model multiply to zero at every state (Z = 0), so there is no "
    "distribution. Check its zero entries and the evidence."
)


class ScaledTable(NamedTuple):
    """Numbers between zero and one, or their logarithms.

    Attributes
    ----------
    data : array
    low : float
        A lower bound of the logarithms of those that are not zero.
    is_log : bool
    """

    data: Any
    low: float
    is_log: bool = False

    @property
    def logs(self) -> Any:
        """The logarithms."""
        if self.is_log:
            return self.data
        with np.errstate(divide="ignore"):
            return np.log(self.data)

    @property
    def numbers(self) -> Any:
        """The numbers themselves, zero where they are too small for doubles."""
        return np.exp(self.data) if self.is_log else self.data

    def shaped(self, shape: Sequence[int]) -> ScaledTable:
        """The same numbers in another shape."""
        return ScaledTable(self.data.reshape(shape), self.low, self.is_log)

    def placed(self, scope: Sequence[int], axes: Sequence[int]) -> ScaledTable:
        """The table of a scope with an axis of length one for each other variable of some axes."""
        data = np.asarray(expand_axes(self.data, scope, axes), order="C")
        return ScaledTable(data, self.low, self.is_log)

    def with_largest_bound(self) -> ScaledTable:
        """The same numbers with the largest lower bound."""
        if self.is_log:
            return scaled_logs(self.data)
        positive = self.data[self.data > 0]
        return ScaledTable(self.data, log(positive.min()) if positive.size else 0.0)


def scaled_logs(logs: Any) -> ScaledTable:
    """The numbers with these logarithms, none above zero: plain ones if they have the range."""
    finite = logs[logs > -np.inf]
    low = float(finite.min()) if finite.size else 0.0
    return ScaledTable(logs, low, True) if low < LOWEST else ScaledTable(np.exp(logs), low)


def scaled(table: Any) -> tuple[ScaledTable, float]:
    """A table of numbers that are not negative over its largest one, and the log of that."""
    top, low = float(table.max()), float(table.min())
    if top == 0.0:
        return ScaledTable(table, 0.0), -np.inf
    low = float(table[table > 0].min()) if low == 0.0 else low
    bound = log(low) - log(top)
    if bound < LOWEST:
        with np.errstate(divide="ignore"):
            return ScaledTable(np.log(table) - log(top), bound, True), log(top)
    return ScaledTable(table if top == 1.0 else table / top, bound), log(top)


def rescaled(numbers: ScaledTable) -> tuple[ScaledTable, float]:
    """Numbers over their largest one, and the log of that."""
    if not numbers.is_log:
        return scaled(numbers.data)
    top = float(numbers.data.max())
    return (numbers if top == -np.inf else scaled_logs(numbers.data - top)), top


def expand_axes(table: Any, scope: Sequence[int], axes: Sequence[int]) -> Any:
    """A table over some variables, with an axis of length one for each of the others."""
    shape = [table.shape[scope.index(v)] if v in scope else 1 for v in axes]
    return table.transpose([scope.index(v) for v in axes if v in scope]).reshape(shape)


def product(parts: Sequence[ScaledTable], shape: Sequence[int]) -> ScaledTable:
    """The product of tables with an axis of length one for whatever they do not depend on.

    Examples
    --------
    >>> a = ScaledTable(np.array([[0.5], [1.0]]), -1.0)
    >>> b = ScaledTable(np.array([[1.0, 0.5, 0.25]]), -2.0)
    >>> product([a, b], (2, 3)).data.tolist()
    [[0.5, 0.25, 0.125], [1.0, 0.5, 0.25]]
    """
    shape = tuple(shape)
    if not parts:
        return ScaledTable(np.ones(shape), 0.0)
    low = sum([part.low for part in parts])
    if low < LOWEST:
        parts = [part.with_largest_bound() for part in parts]
        low = sum([part.low for part in parts])
    in_logs = low < LOWEST or True in [part.is_log for part in parts]
    arrays = [part.logs if in_logs else part.data for part in parts]
    arrays.sort(key=attrgetter("size"))
    data = arrays[0]
    for array in arrays[1:]:  # the small ones with each other, before they meet the largest
        data = data + array if in_logs else data * array
    return ScaledTable(data if data.shape == shape else np.broadcast_to(data, shape), low, in_logs)


def summed(table: Any, axes: tuple[int, ...]) -> Any:
    """The sum over some axes.

    Examples
    --------
    >>> summed(np.arange(6.0).reshape(2, 3), (1,)).tolist()
    [3.0, 12.0]
    """
    if table.size <= SMALL or table.ndim > MOST_AXES:
        return np.add.reduce(table, axis=axes)
    every = list(range(table.ndim))
    # three times faster along short axes
    return np.einsum(table, every, [axis for axis in every if axis not in axes])


@dataclass(frozen=True, eq=False)
class Potential:
    """A product of factors with different scopes, and a constant.

    Attributes
    ----------
    cardinalities : tuple of int
        The number of states of every variable.
    tables : dict from tuples of int to ScaledTable
        The table of every scope, none of them empty. The largest entry of each is one (unless all
        are zero).
    constant : float
        The logarithm of what multiplies them all.
    """

    cardinalities: tuple[int, ...]
    tables: dict[tuple[int, ...], ScaledTable]
    constant: float

    def placed(self, scopes: Iterable[tuple[int, ...]], axes: Sequence[int]) -> list[ScaledTable]:
        """The tables of some scopes with an axis for every variable of these axes."""
        return [self.tables[scope].placed(scope, axes) for scope in scopes]

    @classmethod
    def of(cls, cards: Sequence[int], factors: Sequence[tuple[Sequence[int], Any]]) -> Potential:
        """The product of (scope, table) pairs; equal scopes are multiplied, constants collected.

        Variables with one state are left out of the scopes: they interact with nothing.
        """
        found: dict[tuple[int, ...], list[ScaledTable]] = {}
        constant = 0.0
        for scope, table in factors:
            order = sorted(range(len(scope)), key=scope.__getitem__)
            kept = tuple([scope[i] for i in order if cards[scope[i]] > 1])
            data = np.asarray(table, dtype=np.float64).transpose(order)
            numbers, top = scaled(data.reshape([cards[v] for v in kept]))
            constant += top
            found.setdefault(kept, []).append(numbers)
        found.pop((), None)
        tables = {}
        for scope, parts in found.items():
            tables[scope] = parts[0]
            if len(parts) > 1:
                tables[scope], top = rescaled(product(parts, parts[0].data.shape))
                constant += top
        return cls(tuple(cards), tables, constant)


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
    factors : tuple of ScaledTable
        The factors that enter, in such shapes too.
    """

    variable: int
    context: tuple[int, ...]
    shape: tuple[int, ...]
    children: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]
    factors: tuple[ScaledTable, ...]

    @property
    def n_entries(self) -> int:
        """The number of entries of the table."""
        return prod(self.shape)

    @property
    def message_size(self) -> int:
        """The number of entries of the message."""
        return prod(self.shape[1:])

    def with_states(self, states: Mapping[int, int]) -> Stage:
        """The stage with one state of some variables."""
        at = [states.get(v, -1) for v in (self.variable, *self.context)]
        if max(at) < 0:
            return self

        def cut(shape: tuple[int, ...]) -> tuple[int, ...]:
            return tuple([n if i < 0 else 1 for n, i in zip(shape, at, strict=True)])

        factors = []
        for factor in self.factors:
            pairs = zip(factor.data.shape, at, strict=True)
            index = [slice(None) if n == 1 or i < 0 else slice(i, i + 1) for n, i in pairs]
            factors.append(factor._replace(data=factor.data[tuple(index)]))
        places = tuple(map(cut, self.places))
        return replace(self, shape=cut(self.shape), places=places, factors=tuple(factors))


def make_stage(
    cards: Mapping[int, int] | Sequence[int],
    variable: int,
    context: tuple[int, ...],
    factors: Iterable[ScaledTable],
    children: Sequence[int],
    stages: Sequence[Stage],
) -> Stage:
    """The stage of a variable, after those of its children."""
    axes = (variable, *context)
    inside = [stages[child].context for child in children]
    places = tuple([tuple([cards[u] if u in own else 1 for u in axes]) for own in inside])
    shape = tuple([cards[u] for u in axes])
    return Stage(variable, context, shape, tuple(children), places, tuple(factors))


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
        return self.is_normalized and not self.in_logs and self._largest <= SMALL

    @cached_property
    def summed_axes(self) -> list[list[tuple[int, ...]]]:
        """For every stage and each of its children the axes that are not in their message."""
        found = []
        for stage in self.stages:
            axes = list(enumerate((stage.variable, *stage.context)))
            inside = [self.stages[child].context for child in stage.children]
            found.append([tuple(i for i, v in axes if v not in own) for own in inside])
        return found

    @cached_property
    def table_bytes(self) -> int:
        """About how much memory it takes to keep all tables and messages."""
        return self.message_bytes + 8 * (self.n_entries - self._largest)

    @cached_property
    def message_bytes(self) -> int:
        """About how much memory it takes to keep all messages, and two tables at a time."""
        return 8 * (2 * sum(stage.message_size for stage in self.stages) + 3 * self._largest)

    @property
    def _largest(self) -> int:
        return max(stage.n_entries for stage in self.stages)

    @cached_property
    def passing_bytes(self) -> int:
        """About how much memory it takes if messages go where they have entered."""
        held = most = 0
        for stage in self.stages:
            most = max(most, held + 2 * stage.n_entries + stage.message_size)
            held += stage.message_size - sum(self.stages[i].message_size for i in stage.children)
        return 8 * most


def message_plan(potential: Potential, order: Elimination) -> MessagePlan:
    """The stages of an elimination of the variables of a product of factors."""
    position = {v: i for i, v in enumerate(order.order)}
    scopes: list[list[tuple[int, ...]]] = [[] for _ in position]
    for scope in potential.tables:
        scopes[min(position[v] for v in scope)].append(scope)
    children: list[list[int]] = [[] for _ in position]
    stages: list[Stage] = []
    for i, v in enumerate(order.order):
        context = tuple(sorted(order.contexts[v], key=position.__getitem__))
        if context:
            children[position[context[0]]].append(i)
        factors = potential.placed(scopes[i], (v, *context))
        stages.append(make_stage(potential.cardinalities, v, context, factors, children[i], stages))
    return MessagePlan(tuple(stages), potential.constant)


def min_fill_cost(
    scopes: Sequence[Sequence[int]], variables: Collection[int], cardinalities: Sequence[int]
) -> int:
    """The number of entries of all tables that elimination in min-fill order makes."""
    labels, found = _min_fill(scopes, variables)
    cards = [cardinalities[v] for v in labels]
    near = zip(cards, found.contexts, strict=True)
    return sum(card * prod(cards[u] for u in context) for card, context in near)


def _min_fill(
    scopes: Sequence[Sequence[int]], variables: Collection[int], last: Sequence[int] = ()
) -> tuple[dict[int, int], Elimination]:
    """The places of some variables, increasing, and their elimination in min-fill order."""
    number = {v: i for i, v in enumerate(sorted(variables))}
    graph = interaction_graph(len(number), [[number[v] for v in scope] for scope in scopes])
    kept = [number[v] for v in last]
    return number, elimination(graph, [v for v in min_fill_order(graph) if v not in kept] + kept)


def product_plan(
    tables: Sequence[tuple[Sequence[int], Any]],
    variables: Collection[int],
    cardinalities: Sequence[int],
    last: Sequence[int] = (),
) -> tuple[list[int], MessagePlan]:
    """Some variables, increasing, and the plan that eliminates their product of tables."""
    number, order = _min_fill([scope for scope, _ in tables], variables, last)
    factors = [([number[v] for v in scope], table) for scope, table in tables]
    potential = Potential.of([cardinalities[v] for v in number], factors)
    return list(number), message_plan(potential, order)


class Solved(NamedTuple):
    """The table of one stage.

    Attributes
    ----------
    table : ScaledTable of shape (K, *context)
        Proportional to the conditional of the variable given its context; where states are
        maximised instead, an array of the best one for every context.
    sums : array of shape context, or None
        What it sums to along the first axis; None: one, or zero for impossible contexts.
    message : ScaledTable, or None
        The sums over the largest of them; None: all are one.
    top : float
        The log of the largest, -inf if all are zero.
    """

    table: Any
    sums: Any
    message: ScaledTable | None
    top: float

    @property
    def conditional(self) -> ScaledTable:
        """The conditional, (K, *context), zero given what is impossible."""
        table = self.table
        if table.is_log:
            return scaled_logs(table.data)
        if len(table.data) == 1:  # nothing is summed, and one is one without rounding
            return ScaledTable((table.data > 0).astype(np.float64), 0.0)
        data = table.data if self.sums is None else table.data * inverse(self.sums)
        # entries of the table are at most one, so that they are divided by K at most
        return ScaledTable(np.ascontiguousarray(data), table.low - log(len(data)))


def inverse(x: Any) -> Any:
    """One over numbers, zero where they are zero, or so small that it is no float."""
    return 1.0 / x if x.min() >= TINY else np.divide(1.0, x, out=np.zeros_like(x), where=x >= TINY)


def solved(table: ScaledTable, maximise: bool = False) -> Solved:
    """The table of a stage and its message: sums over the states of its variable, or maxima."""
    kept: Any = table
    if maximise:  # the first place of the largest, in few bytes
        kept = table.data.argmax(axis=0).astype(np.min_scalar_type(len(table.data)))
        totals = table.data.max(axis=0)
    elif table.is_log:
        highest = table.data.max(axis=0)
        highest = np.where(highest > -np.inf, highest, 0.0)
        with np.errstate(divide="ignore"):
            totals = np.log(np.exp(table.data - highest).sum(axis=0)) + highest
        kept = ScaledTable(table.data - np.where(totals > -np.inf, totals, 0.0), table.low, True)
    else:
        totals = np.add.reduce(table.data, axis=0)
    top = float(np.maximum.reduce(totals, axis=None))
    if top == (-np.inf if table.is_log else 0.0):
        return Solved(kept, None, ScaledTable(np.zeros_like(totals), 0.0), -np.inf)
    if table.is_log:
        return Solved(kept, None, scaled_logs(totals - top), top)
    return Solved(kept, totals, ScaledTable(totals * (1.0 / top), table.low - log(top)), log(top))


def forward(
    plan: MessagePlan,
    weights: Weights,
    messages: list[ScaledTable | None] | None = None,
    maximise: bool = False,
) -> Iterator[tuple[Stage, Solved]]:
    """The stages in their order, up to the first that is impossible.

    Messages go to a list, if there is one, and are otherwise let go where they have entered.
    """
    keep = messages is not None
    sent: list[ScaledTable | None] = [] if messages is None else messages
    for stage in plan.stages:
        found = _solve_stage(plan, stage, sent, weights, maximise)
        sent.append(found.message)
        if not keep:
            for child in stage.children:
                sent[child] = None
        yield stage, found
        if found.top == -np.inf:
            return


def _solve_stage(
    plan: MessagePlan,
    stage: Stage,
    messages: Sequence[ScaledTable | None],
    weights: Weights,
    maximise: bool = False,
) -> Solved:
    """The table of a stage and its message, None if that is one."""
    sent = ((messages[i], shape) for i, shape in zip(stage.children, stage.places, strict=True))
    parts = [message.shaped(shape) for message, shape in sent if message is not None]  # else one
    if stage.variable in weights:
        numbers, _ = scaled(weights[stage.variable])
        parts.append(numbers.shaped([-1] + [1] * len(stage.context)))
    if plan.is_normalized and not maximise and not parts:
        return Solved(stage.factors[0], None, None, 0.0)
    return solved(product([*stage.factors, *parts], stage.shape), maximise)


def observed(plan: MessagePlan, weights: Weights) -> tuple[MessagePlan, Weights]:
    """The plan and the weights with one state of every variable that can have no other.

    Where tables are too small for this to be worth it, nothing changes.
    """
    states = {v: int(x.argmax()) for v, x in weights.items() if np.count_nonzero(x) == 1}
    if not states or plan.n_entries <= CUT * len(plan.stages):
        return plan, weights
    left = {v: x[[states[v]]] if v in states else x for v, x in weights.items()}
    return replace(plan, stages=tuple([stage.with_states(states) for stage in plan.stages])), left


@dataclass(eq=False)
class Solution:
    """What a pass over all stages of a plan gives.

    Attributes
    ----------
    plan : MessagePlan
        Of the tables, which may have been cut down to what is observed.
    weights : dict of arrays
        Those of this plan.
    states : sequence of int
        The states that are observed, if that is all that is (see `solve_states`).
    messages, solved : lists
        Of all stages up to the first that is impossible; tables that are not kept are None.
    log_z : float
        The log of the sum over all states, -inf if it is zero; then there is nothing else.
    given : dict of arrays
        The weights before tables were cut down.
    """

    plan: MessagePlan
    weights: Weights
    states: States
    messages: list[ScaledTable | None]
    solved: list[Any]
    log_z: float
    given: Weights = field(default_factory=dict)

    def backwards(self) -> Iterator[tuple[int, Stage, Solved]]:
        """The stages from the last to the first, once; tables are let go on the way."""
        for i in range(len(self.plan.stages) - 1, -1, -1):
            stage, found = self.plan.stages[i], self.solved[i]
            self.solved[i] = None
            if found is None:
                found = _solve_stage(self.plan, stage, self.messages, self.weights)
            self.messages[i] = None
            yield i, stage, found


def solve(
    plan: MessagePlan, given: Weights, keep: bool, cut: bool = False, free: bool = False
) -> Solution:
    """The messages of all stages given weights unless they are freed, and tables that are kept."""
    plan, weights = observed(plan, given) if cut else (plan, given)
    tops = [max(own.tolist()) for own in weights.values()]  # which tables are divided by
    log_z = plan.constant + (sum(map(log, tops)) if all(tops) else -np.inf)
    solution = Solution(plan, weights, (), [], [], log_z, given)
    if plan.is_normalized and not weights:  # all messages are one
        solution.messages += [None] * len(plan.stages)
        solution.solved += [Solved(stage.factors[0], None, None, 0.0) for stage in plan.stages]
        return solution
    for _, found in forward(plan, weights, None if free else solution.messages):
        solution.log_z += found.top
        solution.solved.append(found if keep else None)
    return solution


def solution_marginals(solution: Solution) -> list[Any]:
    """The probabilities of the states of every variable, from the last stage to the first."""
    plan, states = solution.plan, solution.states
    result: list[Any] = [None] * len(plan.stages)
    beliefs: list[Any] = [None] * len(plan.stages)  # of the contexts
    for i, stage, (table, sums, *_) in solution.backwards():
        belief, beliefs[i] = beliefs[i], None
        if belief is None:
            belief = np.ones(stage.shape[1:])
        state = states[stage.variable] if states else -1
        numbers = table if states else table.numbers
        if state >= 0:
            shares = np.zeros(stage.shape[0])
            shares[state] = 1.0
            if stage.children:
                joint = np.zeros(stage.shape)
                joint[state] = belief
        else:
            ratio = belief if sums is None else belief * inverse(sums)
            if not stage.children:
                shares = numbers.reshape(stage.shape[0], -1) @ ratio.reshape(-1)
            else:
                joint = numbers * ratio
                shares = np.add.reduce(joint.reshape(stage.shape[0], -1), axis=1)
            shares = shares / np.add.reduce(shares)
        result[stage.variable] = shares
        for child, axes in zip(stage.children, plan.summed_axes[i], strict=True):
            beliefs[child] = summed(joint, axes) if axes else joint
    for v, weights in solution.given.items():
        if len(result[v]) < len(weights):  # cut down to what is observed
            result[v] = (weights > 0).astype(np.float64)
    return result


def solution_samples(solution: Solution, n: int, rng: Any) -> Any:
    """Independent samples, (n, variables), from the last stage to the first."""
    shape = (n, len(solution.plan.stages))
    require_memory(8.0 * prod(shape), f"An array of {n} samples", "Draw some of them at a time.")
    states = np.empty(shape, dtype=np.intp)
    for _, stage, found in solution.backwards():
        given = found.table.numbers[(slice(None), *(states[:, u] for u in stage.context))]
        edges = np.cumsum(given.reshape(stage.shape[0], -1), axis=0)
        state = (edges <= rng.random(n) * edges[-1]).sum(axis=0)
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


SMALL_MESSAGE = LOWEST / 4
"""Messages are scaled where the logs of their numbers may lie below this."""

States = Sequence[int]
"""Of every variable the state that is observed, -1 if there is none."""


def solve_states(plan: MessagePlan, states: States) -> Solution | None:
    """The solution of a small plan given states; None if some numbers are too small for it.

    Two to three times faster than `solve` for one row: tables of observed variables are the parts
    of their states, and messages are scaled only where they need it.
    """
    solution = Solution(plan, {}, states, [], [], 0.0)
    messages, keep = solution.messages, solution.solved.append
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
        if not touched:
            keep((table, None))
            messages.append(None)
            continue
        total = table if is_known else np.add.reduce(table, axis=0)
        keep((table, total))
        if stage.context and low >= SMALL_MESSAGE:
            messages.append(ScaledTable(total, low))
            continue
        own, top = scaled(total)
        solution.log_z += top
        if top == -np.inf:
            return solution
        if own.is_log:
            return None
        messages.append(own if stage.context else None)
    return solution


STAGE = 10_000
"""Setting up a stage takes about as long as so many entries of its table."""
CIRCUIT_BYTES = 40
"""About how much memory an entry of a table takes in a circuit."""
COMPILED = 9, 60
"""How many times longer compiling takes than an elimination: per stage, and per entry."""


def needs_circuit(
    plan: MessagePlan, n_rows: int, max_bytes: int = DEFAULT_MAX_BYTES, series: int = 1
) -> bool:
    """Whether rows of evidence go through a circuit for all of them, and not one by one.

    This depends on the number of rows and on the sizes of tables, and on nothing that came before.
    The time to write out units is divided among a series of queries.
    """
    stages, entries = STAGE * len(plan.stages), plan.n_entries
    if CIRCUIT_BYTES * entries > max_bytes:
        return n_rows == 0
    by_messages = n_rows * (stages + 2 * entries)
    by_circuit = stages // 4 + 4 * n_rows * entries
    written = (COMPILED[0] * stages + COMPILED[1] * entries) // series
    return by_messages > by_circuit + written or n_rows == 0


def row_weights(evidence: Evidence | None, row: int) -> Weights:
    """The weights of the states of variables that a row says something of."""
    found: dict[int, Any] = {}
    if evidence is None:
        return found
    if evidence.values is not None:
        values, cards = evidence.values[row], evidence.domains
        for v in np.flatnonzero(~np.isnan(values)).tolist():
            found[v] = np.zeros(cards[v])
            found[v][int(values[v])] = 1.0
        return found
    for v in range(len(evidence.domains)):
        column = evidence.column(v)
        weights = column.weights[column.codes[row]]
        if (weights != 1.0).any():
            found[v] = weights
    return found


def _solve_rows(
    plan: MessagePlan, evidence: Evidence | None, is_small: bool, **settings: bool
) -> Iterator[Solution]:
    """The solutions of rows of evidence: those of states one by one if tables are small."""
    values = evidence.values if evidence is not None and is_small else None
    if values is not None:
        values = np.where(np.isnan(values), -1.0, values).astype(np.intp).tolist()
    for row in range(1 if evidence is None else evidence.n_rows):
        found = None if values is None else solve_states(plan, values[row])
        yield found or solve(plan, row_weights(evidence, row), **settings)


def marginals(plan: MessagePlan, evidence: Evidence | None, max_bytes: int) -> list[Any]:
    """The probabilities of the states of every variable, (rows, cardinality) each."""
    rows = [solution_marginals(solution) for solution in solutions(plan, evidence, max_bytes, True)]
    if len(rows) == 1:
        return [found[None] for found in rows[0]]
    return [np.stack(found) for found in zip(*rows, strict=True)]


def log_partitions(plan: MessagePlan, evidence: Evidence | None) -> Any:
    """The log of the sum over all states that evidence allows, for every row."""
    settings = {"keep": False, "cut": True, "free": True}
    return np.array([row.log_z for row in _solve_rows(plan, evidence, plan.is_small, **settings)])


def solutions(
    plan: MessagePlan, evidence: Evidence | None, max_bytes: int, for_marginals: bool = False
) -> Iterator[Solution]:
    """The messages for every row, with the tables if memory allows."""
    most = max_bytes if max_bytes <= DEFAULT_MAX_BYTES else min(max_bytes, memory_limit())
    keep = plan.table_bytes <= most
    if not keep:
        require_tables(plan, plan.message_bytes, max_bytes)
    small = for_marginals and plan.is_small
    rows = _solve_rows(plan, evidence, small, keep=keep, cut=for_marginals)
    for row, found in enumerate(rows):
        if found.log_z == -np.inf:
            refuse_zero(plan)
            refuse_impossible(np.asarray([True] * row + [False]), evidence is not None)
        yield found


def sampled_rows(plan: MessagePlan, evidence: Evidence | None, n: int, rng: Any) -> Any:
    """Independent samples for every row of evidence, (rows, n, variables)."""
    solved_rows = solutions(plan, evidence, DEFAULT_MAX_BYTES)
    return np.stack([solution_samples(solution, n, rng) for solution in solved_rows])


def most_probable_rows(plan: MessagePlan, evidence: Evidence) -> Any:
    """The most probable states given every row of evidence, (rows, variables)."""
    require_tables(plan, plan.message_bytes, DEFAULT_MAX_BYTES)
    rows = range(evidence.n_rows)
    found = [most_probable_states(plan, row_weights(evidence, row)) for row in rows]
    possible = np.asarray([states is not None for states in found])
    if not possible.all():
        refuse_zero(plan)
        refuse_impossible(possible, True)
    return np.stack(found)


def refuse_zero(plan: MessagePlan) -> None:
    """Raise if the model is impossible whatever the evidence."""
    if -np.inf in log_partitions(plan, None):
        raise PropertyError(NO_DISTRIBUTION)


def require_room(needed: int, max_bytes: int, what: str, why: str, advice: str) -> None:
    """Raise if something needs more memory than there is."""
    check_max_bytes(max_bytes)
    if needed > max_bytes:
        rule = f"{what} needs about {needed / 2**30:.3g} GiB, more than max_bytes={max_bytes}"
        raise SizeError(f"{rule}: {why}. {advice}, or allow more memory.")
    require_memory(needed, what, f"{advice}.")


def require_tables(plan: MessagePlan, needed: int, max_bytes: int) -> None:
    """Raise if the tables or messages of a plan need more memory than there is."""
    why = f"the best order found has width {max(len(stage.context) for stage in plan.stages)}"
    require_room(needed, max_bytes, "Variable elimination", why, "Condition on some variables")
