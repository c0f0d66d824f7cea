"""Tables of elimination, and the plan that combines them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log, prod
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from expectedkernels.checks import CompatibilityError, VtreeError, check_choice, check_parameter
from expectedkernels.vtree import Vtree
from expectedkernels.vtrees import interaction_graph

LOWEST = -600.0
"""Products whose logarithms may lie below this are made in logarithms: doubles end near -708."""
SMALL = 2**11
"""Rows are answered one by one from tables up to this size."""
SHORT = 16
"""Lists of so few numbers are faster than arrays."""
MOST_AXES = 50
"""Einstein sums have letters for about so many axes."""


class Scaled(NamedTuple):
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

    def shaped(self, shape: Sequence[int]) -> Scaled:
        """The same numbers in another shape."""
        return Scaled(self.data.reshape(shape), self.low, self.is_log)

    def placed(self, scope: Sequence[int], axes: Sequence[int]) -> Scaled:
        """The table of a scope with an axis of length one for each other variable of some axes."""
        data = np.asarray(spread(self.data, scope, axes), order="C")
        return Scaled(data, self.low, self.is_log)

    def tightened(self) -> Scaled:
        """The same numbers with the largest lower bound."""
        if self.is_log:
            return scaled_logs(self.data)
        positive = self.data[self.data > 0]
        return Scaled(self.data, log(positive.min()) if positive.size else 0.0)


def scaled_logs(logs: Any) -> Scaled:
    """The numbers with these logarithms, none above zero: plain ones if they have the range."""
    finite = logs[logs > -np.inf]
    low = float(finite.min()) if finite.size else 0.0
    return Scaled(logs, low, True) if low < LOWEST else Scaled(np.exp(logs), low)


def scaled(table: Any) -> tuple[Scaled, float]:
    """A table of numbers that are not negative over its largest one, and the log of that."""
    if table.size <= SHORT:
        positive = [x for x in table.reshape(-1).tolist() if x > 0.0]
        top, low = max(positive, default=0.0), min(positive, default=0.0)
    else:
        top, low = float(table.max()), float(table.min())
        if low == 0.0 < top:
            low = float(table[table > 0].min())
    if top == 0.0:
        return Scaled(table, 0.0), -np.inf
    bound = log(low) - log(top)
    if bound < LOWEST:
        with np.errstate(divide="ignore"):
            return Scaled(np.log(table) - log(top), bound, True), log(top)
    return Scaled(table if top == 1.0 else table / top, bound), log(top)


def rescaled(numbers: Scaled) -> tuple[Scaled, float]:
    """Numbers over their largest one, and the log of that."""
    if not numbers.is_log:
        return scaled(numbers.data)
    top = float(numbers.data.max())
    return (numbers if top == -np.inf else scaled_logs(numbers.data - top)), top


def spread(table: Any, scope: Sequence[int], axes: Sequence[int]) -> Any:
    """A table over some variables, with an axis of length one for each of the others."""
    shape = [table.shape[scope.index(v)] if v in scope else 1 for v in axes]
    return table.transpose([scope.index(v) for v in axes if v in scope]).reshape(shape)


def product(parts: Sequence[Scaled], shape: Sequence[int]) -> Scaled:
    """The product of tables with an axis of length one for whatever they do not depend on.

    Examples
    --------
    >>> a, b = Scaled(np.array([[0.5], [1.0]]), -1.0), Scaled(np.array([[1.0, 0.5, 0.25]]), -2.0)
    >>> product([a, b], (2, 3)).data.tolist()
    [[0.5, 0.25, 0.125], [1.0, 0.5, 0.25]]
    """
    shape = tuple(shape)
    if not parts:
        return Scaled(np.ones(shape), 0.0)
    low = sum([part.low for part in parts])
    if low < LOWEST:
        parts = [part.tightened() for part in parts]
        low = sum([part.low for part in parts])
    in_logs = low < LOWEST or True in [part.is_log for part in parts]
    arrays = [part.logs if in_logs else part.data for part in parts]
    arrays.sort(key=attrgetter("size"))
    total = arrays[0]
    for array in arrays[1:]:  # the small ones with each other, before they meet the largest
        total = total + array if in_logs else total * array
    return Scaled(total if total.shape == shape else np.broadcast_to(total, shape), low, in_logs)


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


METHODS = ("context", "boundary")
"""How units are indexed: by what lies outside a vtree node, or by what lies inside."""


@dataclass(frozen=True, eq=False)
class Potential:
    """A product of factors with different scopes, and a constant.

    Attributes
    ----------
    cardinalities : tuple of int
        The number of states of every variable.
    tables : dict from tuples of int to Scaled
        The table of every scope, none of them empty. The largest entry of each is one (unless all
        are zero).
    constant : float
        The logarithm of what multiplies them all.
    """

    cardinalities: tuple[int, ...]
    tables: dict[tuple[int, ...], Scaled]
    constant: float

    def placed(self, scopes: Iterable[tuple[int, ...]], axes: Sequence[int]) -> list[Scaled]:
        """The tables of some scopes with an axis for every variable of these axes."""
        return [self.tables[scope].placed(scope, axes) for scope in scopes]

    @classmethod
    def of(
        cls, cardinalities: Sequence[int], factors: Sequence[tuple[Sequence[int], Any]]
    ) -> Potential:
        """The product of (scope, table) pairs; equal scopes are multiplied, constants collected.

        Variables with one state are left out of the scopes: they interact with nothing.
        """
        found: dict[tuple[int, ...], list[Scaled]] = {}
        constant = 0.0
        for scope, table in factors:
            axes = sorted(scope)
            kept = tuple(v for v in axes if cardinalities[v] > 1)
            numbers, top = scaled(np.asarray(table, dtype=np.float64))
            constant += top
            numbers = numbers.placed(scope, axes).shaped([cardinalities[v] for v in kept])
            found.setdefault(kept, []).append(numbers)
        found.pop((), None)
        tables = {}
        for scope, parts in found.items():
            tables[scope] = parts[0]
            if len(parts) > 1:
                tables[scope], top = rescaled(product(parts, parts[0].data.shape))
                constant += top
        return cls(tuple(cardinalities), tables, constant)


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
    other : int
        At a decision the child that is not the deciding leaf, -1 elsewhere.
    """

    kind: str
    axes: tuple[int, ...]
    wide: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...] = ()
    decides: int = -1
    other: int = -1


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
        deciding = (step for step in self.steps if step.kind in ("inputs", "decision"))
        return {step.decides: step.axes for step in deciding}

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
    def n_pairs(self) -> int:
        """The sum of squared numbers of products: the work of an expected kernel."""
        return sum(n**2 for n in self.products)

    @property
    def width(self) -> int:
        """The largest number of variables in one table, less one: the width of the elimination."""
        return max(len(step.wide) for step in self.steps) - 1

    def __repr__(self) -> str:
        return (
            f"<CompilationPlan: {self.method} method, {self.n_sums} sums, "
            f"{self.n_products} products, width {self.width}>"
        )


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
    check_parameter(good, "compile", "vtree", vtree, "a Vtree or None", VtreeError)
    check_choice("compile", "method", method, (*METHODS, None))
    n = len(potential.cardinalities)
    if (scope := sorted(vtree.scope().tolist())) != list(range(n)):
        rule = f"The vtree must be over the variables 0..{n - 1} of the model"
        raise CompatibilityError(f"{rule}. Got one over {scope[:20]}.")
    tree = _Tree(potential, vtree)
    steps, clash = ((), 0) if method == "boundary" else tree.by_context()
    if method == "context" and not steps:
        raise CompatibilityError(
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
        for node, (a, b) in enumerate(self.children):
            axes = tuple(sorted(contexts[node], key=decided_at.__getitem__))
            v = decides.get(node, self.variables[node])
            if node in decides:
                other = b if self.leaf[v] == a else a
                steps.append(Step("decision", axes, (v, *axes), decides=v, other=other))
            elif a >= 0:
                steps.append(Step("product", axes, axes))
            elif decided_at[v] == node:
                steps.append(Step("inputs", axes, (v, *axes), decides=v))
            else:
                steps.append(Step("literals", (v,), (v,), decides=v))
        return tuple(steps), -1

    def by_boundary(self) -> tuple[Step, ...]:
        """The steps of the boundary method: a unit per assignment of the rim of a node."""
        boundaries, depth = self.boundaries, self.vtree.depth
        inside: list[list[tuple[int, ...]]] = [[] for _ in self.children]
        for scope in self.potential.tables:  # at the lowest node that it lies below
            leaves = [self.leaf[v] for v in scope]
            node = min(leaves, key=lambda leaf: depth[leaf])  # the shortest way up
            for leaf in leaves:
                node = self.vtree.lca(leaf, node)
            inside[node].append(scope)
        steps: list[Step] = []
        for node, (a, b) in enumerate(self.children):
            axes, v, scopes = boundaries[node], self.variables[node], tuple(inside[node])
            if a < 0:
                steps.append(Step("literals" if axes else "inputs", axes, (v,), scopes, v))
            else:
                steps.append(Step("sum", axes, boundaries[a] + boundaries[b], scopes))
        return tuple(steps)
