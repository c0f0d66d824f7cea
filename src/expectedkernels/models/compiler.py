"""Factor graphs compiled to circuits."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from math import prod
from typing import Any

import numpy as np

from expectedkernels import checks
from expectedkernels.arrays import DEFAULT_MAX_BYTES, check_max_bytes
from expectedkernels.circuits.circuit import Circuit, of_tables
from expectedkernels.circuits.inputs import Input, Table
from expectedkernels.data.evidence import Evidence
from expectedkernels.data.schema import Schema
from expectedkernels.engine.blocks import Inner, inner, inner_of_edges
from expectedkernels.models import messages
from expectedkernels.models.messages import MessagePlan, Potential, ScaledTable, Stage
from expectedkernels.vtree import Vtree
from expectedkernels.vtrees import Elimination, interaction_graph

Axes = tuple[int, ...]
LEAST_LOG = float(np.log(np.finfo(np.float64).tiny))
DECIDING = ("inputs", "decision")
"""The kinds of steps that decide a variable, by its conditional, in the context method."""
METHODS = ("context", "boundary")
"""How units are indexed: by what lies outside a vtree node, or by what lies inside."""


@dataclass(frozen=True, eq=False)
class Step:
    """What happens at one vtree node.

    Attributes
    ----------
    kind : str
        ``"literals"`` (one indicator per state), ``"inputs"`` (one table per assignment of the
        outside), ``"product"`` (two independent sides), ``"decision"`` (a leaf decides a variable
        and the other side depends on it) or ``"sum"`` (products of everything on both sides).
    axes : tuple of int
        The variables whose assignments number the units; in the context method those that are
        decided next, from here to the root, come first.
    wide : tuple of int
        The variables of the largest table made here; what is decided comes first.
    scopes : tuple of tuples of int
        The scopes of the tables that are used here, in the boundary method.
    decides : int
        The variable that a leaf or a decision decides, -1 elsewhere.
    """

    kind: str
    axes: tuple[int, ...]
    wide: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...] = ()
    decides: int = -1


@dataclass(frozen=True, eq=False)
class CompilationPlan:
    """The steps of a compilation, one per vtree node, children first; printable and costed.

    Attributes
    ----------
    potential : Potential
    vtree : Vtree
    method : str
        ``"context"`` or ``"boundary"``.
    steps : tuple of Step

    Examples
    --------
    >>> from expectedkernels.datasets import ising_grid
    >>> ising_grid(4, 4, rng=0).plan()
    <CompilationPlan: context method, 179 sums, 290 products, width 4>
    """

    potential: Potential
    vtree: Vtree
    method: str
    steps: tuple[Step, ...]

    @property
    def contexts(self) -> dict[int, tuple[int, ...]]:
        """In the context method, what numbers the units that decide each variable, in order."""
        return {step.decides: step.axes for step in self.steps if step.kind in DECIDING}

    def size(self, variables: Sequence[int]) -> int:
        """The number of joint states of some variables: of units, or of entries of a table."""
        return prod(self.potential.cardinalities[v] for v in variables)

    @property
    def n_sums(self) -> int:
        """The number of sum units at inner vtree nodes (those of one product included)."""
        inner = zip(self.steps, self.vtree.left.tolist(), strict=True)
        return sum(self.size(step.axes) for step, left in inner if left >= 0)

    @cached_property
    def products(self) -> list[int]:
        """How many products enter the units of every inner vtree node."""
        inner = (step for step in self.steps if step.kind not in ("literals", "inputs"))
        return [self.size(step.wide) for step in inner]

    @property
    def n_products(self) -> int:
        """The number of inputs of these sums, if no two sums share a product."""
        return sum(self.products)

    @property
    def n_bytes(self) -> int:
        """About how much memory the circuit takes."""
        return 40 * self.n_products

    @property
    def width(self) -> int:
        """The largest number of variables in one table, less one: the width of the elimination."""
        return max(len(step.wide) for step in self.steps) - 1

    def __repr__(self) -> str:
        sizes = f"{self.n_sums} sums, {self.n_products} products, width {self.width}"
        return f"<CompilationPlan: {self.method} method, {sizes}>"


def make_plan(potential: Potential, vtree: Vtree, method: str | None = None) -> CompilationPlan:
    """The plan of one method for a vtree.

    Parameters
    ----------
    potential : Potential
    vtree : Vtree
        Over all variables.
    method : "context", "boundary" or None
        None: the context method if the vtree allows it, otherwise the boundary method, which
        any vtree allows.
    """
    good = isinstance(vtree, Vtree)
    checks.check_parameter(good, "compile", "vtree", vtree, "a Vtree or None", checks.VtreeError)
    checks.check_choice("compile", "method", method, (*METHODS, None))
    n = len(potential.cardinalities)
    if (scope := sorted(vtree.scope().tolist())) != list(range(n)):
        rule = f"The vtree must be over the variables 0..{n - 1} of the model"
        raise checks.CompatibilityError(f"{rule}. Got one over {scope[:20]}.")
    tree = _Tree(potential, vtree)
    steps, clash = ((), 0) if method == "boundary" else tree.by_context()
    if method == "context" and not steps:
        raise checks.CompatibilityError(
            "The context method needs a leaf beside every node that it interacts with, and both "
            f"sides of vtree node {clash} interact. Use method='boundary', or a conditioning vtree."
        )
    if not steps:
        return CompilationPlan(potential, vtree, "boundary", tree.by_boundary())
    return CompilationPlan(potential, vtree, "context", steps)


class _Tree:
    """The variables of a model on a vtree: who interacts with whom, below and across nodes."""

    def __init__(self, potential: Potential, vtree: Vtree):
        self.potential, self.vtree = potential, vtree
        n = len(potential.cardinalities)
        self.graph = interaction_graph(n, potential.tables)
        self.leaf = {v: vtree.leaf(v) for v in range(n)}
        self.variables = vtree.variable.tolist()
        self.children = list(zip(vtree.left.tolist(), vtree.right.tolist(), strict=True))
        self.first = (np.arange(vtree.n_nodes) - vtree.n_below + 1).tolist()

    def below(self, variable: int, node: int) -> bool:
        return self.first[node] <= self.leaf[variable] <= node

    @property
    def boundaries(self) -> list[tuple[int, ...]]:
        """For every node the inside variables that interact with the outside."""
        reach = {}
        for v, near in enumerate(self.graph):
            leaves = [self.leaf[u] for u in near]
            reach[v] = (min(leaves), max(leaves)) if leaves else (self.leaf[v],) * 2
        found: list[tuple[int, ...]] = []
        for node, (a, b) in enumerate(self.children):
            inside = found[a] + found[b] if a >= 0 else (self.variables[node],)
            start = self.first[node]
            found.append(tuple(v for v in inside if reach[v][0] < start or reach[v][1] > node))
        return found

    def by_context(self) -> tuple[tuple[Step, ...], int]:
        """The steps of the context method: a unit per assignment of the outside of a node.

        There are none if both sides of a node interact and are no leaves; that node comes second.
        """
        contexts: list[Any] = []  # for every node the outside variables that interact with it
        # a variable is decided at its leaf, or at the parent of that
        decided_at = [self.leaf[v] for v in range(len(self.leaf))]
        decides: dict[int, int] = {}
        for node, (a, b) in enumerate(self.children):
            if a < 0:
                contexts.append(self.graph[self.variables[node]])
                continue
            if any(self.below(v, b) for v in contexts[a]):
                v = self.variables[a] if self.variables[a] >= 0 else self.variables[b]
                if v < 0:
                    return (), node
                decides[node], decided_at[v] = v, node
            contexts.append({v for v in contexts[a] | contexts[b] if not self.below(v, node)})
        steps: list[Step] = []
        for node, (a, _) in enumerate(self.children):
            axes = tuple(sorted(contexts[node], key=decided_at.__getitem__))
            v = decides.get(node, self.variables[node])
            if node in decides:
                steps.append(Step("decision", axes, (v, *axes), decides=v))
            elif a >= 0:
                steps.append(Step("product", axes, axes))
            elif decided_at[v] == node:
                steps.append(Step("inputs", axes, (v, *axes), decides=v))
            else:
                steps.append(Step("literals", (v,), (v,), decides=v))
        return tuple(steps), -1

    def by_boundary(self) -> tuple[Step, ...]:
        """The steps of the boundary method: a unit per assignment of the rim of a node."""
        boundaries, vtree = self.boundaries, self.vtree
        inside: list[list[tuple[int, ...]]] = [[] for _ in self.children]
        for scope in self.potential.tables:  # at the lowest node that it lies below
            leaves = sorted([self.leaf[v] for v in scope], key=vtree.depth.__getitem__)
            # the shortest way up
            inside[reduce(lambda node, leaf: vtree.lca(leaf, node), leaves)].append(scope)
        steps: list[Step] = []
        for node, (a, b) in enumerate(self.children):
            axes, v, scopes = boundaries[node], self.variables[node], tuple(inside[node])
            if a < 0:
                steps.append(Step("literals" if axes else "inputs", axes, (v,), scopes, v))
            else:
                steps.append(Step("sum", axes, boundaries[a] + boundaries[b], scopes))
        return tuple(steps)


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


def written_blocks(plan: CompilationPlan, shares: Sequence[Any]) -> tuple[Input | Inner, ...]:
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
        is_first = below[0].decides == step.decides
        other = below[1 if is_first else 0]
        left, right = _numbers((step.decides,), other.axes, cards), np.arange(plan.size(other.axes))
        left, right = (left, right) if is_first else (right, left)
        columns = _numbers(other.axes, (*step.axes, step.decides), cards)
    alive = shares > 0
    edges = np.nonzero(alive)[0], columns.reshape(shares.shape)[alive], shares[alive]
    return inner_of_edges(left, right, edges, len(shares), n_left, n_right)


def _summed_axes(step: Step) -> Axes:
    """The variables of the table of a step that are marginalised."""
    return tuple(v for v in step.wide if v not in step.axes)


def _numbers(axes: Axes, wide: Axes, cardinalities: Sequence[int]) -> Any:
    """For every assignment of the wide axes the number of its restriction to some of them."""
    shape = [cardinalities[v] for v in axes]
    numbers = np.arange(int(np.prod(shape, dtype=np.intp))).reshape(shape)
    shape = [cardinalities[v] for v in wide]
    return np.broadcast_to(messages.expand_axes(numbers, axes, wide), shape).reshape(-1)


SERIES = 8
"""How many queries of several rows units are written out for, as if it were known."""


@dataclass(frozen=True, eq=False)
class CliqueTree:
    """The conditionals of a compiled model, and their queries: see `Circuit.clique_tree`.

    Rows are computed one by one where they are few for the size of the tables, where there is no
    memory for units, and where a conditional probability is too small for the weights of these.

    Attributes
    ----------
    plan : MessagePlan
    max_bytes : int
    """

    plan: MessagePlan
    max_bytes: int

    def by_units(self, n_rows: int) -> bool:
        """Whether units serve so many rows, and not these tables."""
        plan = self.plan
        return not plan.in_logs and messages.needs_circuit(plan, n_rows, self.max_bytes, SERIES)

    def blocks(self, vtree: Vtree) -> tuple[Input | Inner, ...]:
        """The blocks of the circuit."""
        plan = context_plan(vtree, self.plan)
        refuse_large(plan, plan.n_bytes, self.max_bytes, "To write out the units of this circuit")
        tables = {stage.variable: stage.factors[0] for stage in self.plan.stages}
        shares = [tables[s.decides] if s.kind in DECIDING else None for s in plan.steps]
        return written_blocks(plan, shares)

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
            states, total = rows[complete].T.astype(np.intp), np.zeros(complete.sum())
            with np.errstate(divide="ignore"):
                for stage in self.plan.stages:
                    table = stage.factors[0]
                    index = (states[stage.variable], *(states[v] for v in stage.context))
                    total += table.data[index] if table.is_log else np.log(table.data[index])
            logs[complete] = total
        if len(others):
            logs[others] = messages.log_partitions(self.plan, evidence.rows(others))
        return logs

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
        Plans that need more memory than about this raise `SizeError`.

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
        contexts = plan.contexts
        sets = tuple(frozenset(contexts[v]) for v in range(len(contexts)))
        stages = messages.message_plan(plan.potential, Elimination(tuple(contexts), sets))
        return by_contexts(plan.vtree, stages, max_bytes)
    refuse_large(plan, plan.n_bytes, max_bytes, "Compiling this model")
    sent: list[Any] = []
    # tables with one axis for what is marginalised, and one per variable of the step
    shares: list[ScaledTable | None] = []
    log_z, cards = plan.potential.constant, plan.potential.cardinalities
    children = zip(plan.vtree.left.tolist(), plan.vtree.right.tolist(), strict=True)
    for step, below in zip(plan.steps, children, strict=True):
        axes = (*_summed_axes(step), *step.axes)
        parts = plan.potential.placed(step.scopes, axes)
        for child in below if below[0] >= 0 else ():
            parts.append(sent[child].placed(plan.steps[child].axes, axes))
            sent[child] = None
        table = messages.product(parts, [cards[v] for v in axes])
        found = messages.solved(table.shaped([-1, *(cards[v] for v in step.axes)]))
        log_z += found.top
        sent.append(found.message)
        shares.append(None if step.kind == "literals" else found.conditional)
    if log_z == -np.inf:
        raise checks.PropertyError(messages.NO_DISTRIBUTION)
    return Circuit(plan.vtree, written_blocks(plan, shares)), log_z


def by_contexts(vtree: Vtree, stages: MessagePlan, max_bytes: int) -> tuple[Circuit, float]:
    """What `compiled` gives by contexts: tables now, and blocks when a query needs them."""
    check_max_bytes(max_bytes)
    if stages.table_bytes > min(max_bytes, DEFAULT_MAX_BYTES):
        plan = context_plan(vtree, stages)
        refuse_large(plan, stages.table_bytes, max_bytes, "Compiling this model")
    shares: list[Stage] = []  # the conditionals of the normalised model
    log_z = stages.constant
    for stage, found in messages.forward(stages, {}):
        log_z += found.top
        if log_z == -np.inf:
            raise checks.PropertyError(messages.NO_DISTRIBUTION)
        shares.append(replace(stage, factors=(found.conditional.with_largest_bound(),)))
    tables = CliqueTree(MessagePlan(tuple(shares), 0.0, is_normalized=True), max_bytes)
    cards = {stage.variable: stage.shape[0] for stage in shares}
    schema = Schema(tuple(map(cards.get, range(len(cards)))))
    return of_tables(Circuit, vtree, schema, tables), log_z
