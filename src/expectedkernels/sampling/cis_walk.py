"""Multiply factors one by one, and sample a variable whenever the product gets too large."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from expectedkernels.arrays import cumulative, from_logs
from expectedkernels.compilation.factors import FactorGraph
from expectedkernels.sampling.cis_rules import Order, Situation, breadth_first, by_vtree, choices
from expectedkernels.sampling.cis_tables import (
    LogTable,
    components,
    elimination_cost,
    log_sum,
    marginals,
    restricted,
)

MAX_KEPT = 20_000
"""How many situations are remembered for samples that start alike."""


class Model:
    """A factor graph as tables of logarithms, without what no sample needs to look at."""

    def __init__(self, graph: FactorGraph):
        self.cardinalities = graph.cardinalities
        self.known: dict[int, int] = {}  # of what only a point mass is left, as when observed
        self.constant = 0.0  # the log of constant factors, and of states without any factor
        wide = {v for factor in graph.factors if len(factor.scope) > 1 for v in factor.scope}
        alone: dict[int, Any] = {}
        self.tables: list[LogTable] = []
        with np.errstate(divide="ignore"):
            for factor in graph.factors:
                logs = np.log(factor.table)
                if len(factor.scope) == 1 and factor.scope[0] not in wide:
                    alone[factor.scope[0]] = alone.get(factor.scope[0], 0.0) + logs
                else:
                    self._add(factor.scope, logs)
        for v, logs in alone.items():
            states = np.flatnonzero(logs > -np.inf)
            if len(states) == 1 and len(logs) > 1:
                self.known[v] = int(states[0])
                self.constant += float(logs[states[0]])
            else:
                self._add((v,), logs)
        self.variables = sorted({v for scope, _ in self.tables for v in scope})
        for v, card in enumerate(self.cardinalities):
            if v not in self.known and v not in self.variables:
                self.constant += float(np.log(card))

    def _add(self, scope: tuple[int, ...], logs: Any) -> None:
        kept = tuple(v for v in scope if self.cardinalities[v] > 1)
        logs = logs.reshape([self.cardinalities[v] for v in kept])
        if kept:
            self.tables.append((kept, logs))
        else:
            self.constant += float(logs)

    def marginals(self, rows: Any) -> list[Any]:
        """The conditional marginals given rows with NaN, row by row."""
        tables = [np.full((len(rows), card), 1.0 / card) for card in self.cardinalities]
        for number, row in enumerate(rows):
            values = {v: int(x) for v, x in enumerate(row) if not np.isnan(x)}
            left = [v for v in self.variables if v not in values]
            rest = [restricted(table, values) for table in self.tables]
            for v, share in marginals(rest, left, self.cardinalities).items():
                tables[v][number] = share[0]
            for v, state in self.known.items():
                tables[v][number] = np.arange(self.cardinalities[v]) == state
        return tables


@dataclass(eq=False)
class State:
    """A product of factors in which a variable must be sampled, or that is complete."""

    root: int  # where the order of the factors starts
    place: int  # how many factors have been multiplied
    tables: tuple[LogTable, ...]  # the product, at the values sampled so far
    constant: float  # the log of the factors of which nothing is left but a number
    inside: tuple[int, ...]  # the variables that are in the product, increasing
    sampled: tuple[tuple[int, int], ...]
    done: bool = False  # whether all factors are in and nothing needs to be sampled
    choice: tuple[int, ...] | None = None
    shares: dict[int, Any] = field(default_factory=dict)
    edges: dict[int, Any] = field(default_factory=dict)
    log_mass: float | None = None


@dataclass(eq=False)
class Walk:
    """All ways in which a sample can come about, as states and what leads from one to the next."""

    model: Model
    graph: FactorGraph
    order: str
    select: str
    # when a product is too large: by the number of its variables, by the cost of eliminating them
    budget: int | None
    max_size: int | None
    query: int | None
    protected: frozenset[int]  # what is never sampled
    _orders: dict[int, Order] = field(default_factory=dict)
    _states: dict[Any, State] = field(default_factory=dict)

    @cached_property
    def roots(self) -> tuple[int, ...]:
        """The variables that an order may start from, with equal chances."""
        variables = self.model.variables
        if not variables:
            return (0,)
        if self.order == "rbfs":
            return tuple(variables)
        return (self.query if self.query in variables else variables[0],)

    def order_from(self, root: int) -> Order:
        """The order of the factors for one root."""
        if root not in self._orders:
            scopes = [scope for scope, _ in self.model.tables]
            if self.order == "vtree":
                self._orders[root] = by_vtree(scopes, self.graph.vtree, root)
            else:
                self._orders[root] = breadth_first(scopes, root, self.order == "rev")
        return self._orders[root]

    def start(self, root: int) -> State:
        """The first state from a root."""
        return self._kept(State(root, 0, (), self.model.constant, (), ()))

    def after(self, state: State, variable: int, value: int) -> State:
        """The next state, once a variable has got a value."""
        values = {variable: value}
        tables, constant = _split([restricted(table, values) for table in state.tables])
        return self._kept(
            State(
                state.root,
                state.place,
                tables,
                state.constant + constant,
                tuple(v for v in state.inside if v != variable),
                (*state.sampled, (variable, value)),
            )
        )

    def _kept(self, state: State) -> State:
        """The state, moved on to where something must be sampled; remembered for the next time."""
        key = (state.root, state.sampled)
        if key in self._states:
            return self._states[key]
        self._advance(state)
        if len(self._states) < MAX_KEPT:
            self._states[key] = state
        return state

    def _advance(self, state: State) -> None:
        """Multiply factors until something must be sampled, or none is left."""
        order, values = self.order_from(state.root), dict(state.sampled)
        while not self._too_large(state):
            if state.place == len(order.factors) or state.constant == -np.inf:
                state.done = True
                return
            table = restricted(self.model.tables[order.factors[state.place]], values)
            tables, constant = _split([table])
            state.place += 1
            state.tables += tables
            state.constant += constant
            state.inside = tuple(sorted({*state.inside, *table[0]}))

    def _too_large(self, state: State) -> bool:
        if self.protected.issuperset(state.inside) or state.constant == -np.inf:
            return False
        if self.budget is not None and len(state.inside) > self.budget:
            return True
        if self.max_size is None or len(state.inside) < 2:
            return False
        scopes = [scope for scope, _ in state.tables]
        cost = elimination_cost(scopes, state.inside, self.model.cardinalities)
        return cost > self.max_size

    def choices(self, state: State) -> tuple[int, ...]:
        """The variables that may be sampled next, with equal chances."""
        if state.choice is None:
            candidates = tuple(v for v in state.inside if v not in self.protected)
            order, cards = self.order_from(state.root), self.model.cardinalities
            now = Situation(
                state.tables, state.inside, candidates, order, state.place, self.query, cards
            )
            state.choice = choices(self.select, now)
        return state.choice

    def proposal(self, state: State, variable: int) -> Any:
        """The marginal distribution of a variable in the product, None if it is zero."""
        if variable not in state.shares:
            group, tables = next(part for part in _parts(state) if variable in part[0])
            share = from_logs(log_sum(tables, group, (variable,), self.model.cardinalities))
            state.shares[variable] = share / share.sum() if share.any() else None
        return state.shares[variable]

    def drawn(self, state: State, variable: int, u: float) -> int:
        """The value of a variable at a position of its proposal."""
        if variable not in state.edges:
            state.edges[variable] = cumulative(self.proposal(state, variable)[None, :])[0]
        return int(state.edges[variable].searchsorted(u, side="right"))

    def log_mass(self, state: State) -> float:
        """The log of the sum of a complete product over the variables that were not sampled."""
        if state.log_mass is None:
            cards = self.model.cardinalities
            total = state.constant
            if total > -np.inf:
                for group, tables in _parts(state):
                    total += float(log_sum(tables, group, (), cards))
            state.log_mass = total
        return state.log_mass


def _parts(state: State) -> Iterator[tuple[list[int], list[LogTable]]]:
    """The variables of a product in groups that no table connects, and the tables of each."""
    for group in components([scope for scope, _ in state.tables], state.inside):
        inside = set(group)
        yield group, [table for table in state.tables if not inside.isdisjoint(table[0])]


def _split(tables: Sequence[LogTable]) -> tuple[tuple[LogTable, ...], float]:
    """The tables that have variables, and the sum of the others."""
    constant = sum(float(logs) for scope, logs in tables if not scope)
    return tuple(table for table in tables if table[0]), constant
