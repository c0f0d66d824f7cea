"""Online collapsed importance sampling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from scipy.special import entr

from expectedkernels.arrays import RngLike, as_generator, cumulative, to_numpy
from expectedkernels.checks import (
    CircuitError,
    EvidenceError,
    PropertyError,
    check_choice,
    check_count,
    progress_bar,
)
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.data.evidence import EvidenceLike, as_evidence
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES
from expectedkernels.kernels.target import as_target
from expectedkernels.models.clique_tree import Scaled, product, rescaled
from expectedkernels.models.factor_graph import FactorGraph
from expectedkernels.models.messages import (
    ScopedTable,
    forward,
    min_fill_cost,
    product_plan,
    solution_marginals,
    solve,
    solved,
)
from expectedkernels.stein.weighted_samples import WeightedSamples
from expectedkernels.vtree import Vtree
from expectedkernels.vtrees import components, neighbours

SMALL_JOINT = 2**14
"""Joint tables up to this size are made at once: faster than to eliminate variable by variable."""

Scope = tuple[int, ...]


def restricted(table: ScopedTable, values: Mapping[int, int]) -> ScopedTable:
    """The table at the values of some of its variables."""
    scope, numbers = table
    if not any(v in values for v in scope):
        return table
    index = tuple(values.get(v, slice(None)) for v in scope)
    kept = tuple(v for v in scope if v not in values)
    return kept, numbers._replace(data=np.asarray(numbers.data[index]))


def joint(
    tables: Sequence[ScopedTable], axes: Sequence[int], cardinalities: Sequence[int]
) -> Scaled | None:
    """The product of tables over all assignments of the axes, None if these are many."""
    shape = [cardinalities[v] for v in axes]
    if prod(shape) > SMALL_JOINT:
        return None
    return product([table.placed(scope, axes) for scope, table in tables], shape)


def summed(
    tables: Sequence[ScopedTable],
    variables: Sequence[int],
    cardinalities: Sequence[int],
    last: tuple[int, ...] = (),
) -> tuple[Any, float]:
    """The marginal of the last variable in a product, up to a factor, and a log.

    That is -inf if the product is zero everywhere; without a last variable it is that of the sum.
    """
    whole = joint(tables, [*(v for v in variables if v not in last), *last], cardinalities)
    if whole is not None:
        found = solved(whole.shaped([-1, *(cardinalities[v] for v in last)]))
        return found.message, found.top
    _, plan = product_plan(tables, variables, cardinalities, last)
    log_z = plan.constant
    for _, found in forward(plan, {}):
        log_z += found.top
    return found.table, log_z


def marginals(
    tables: Sequence[ScopedTable],
    variables: Sequence[int],
    cardinalities: Sequence[int],
    query: int | None = None,
) -> dict[int, Any]:
    """The marginals of all variables, (1, cardinality); more rows follow given states of a query.

    A row is zero where the state is impossible.
    """
    whole = joint(tables, variables, cardinalities)
    found: dict[int, Any] = {}
    if whole is not None:
        numbers = rescaled(whole)[0].numbers
        own = 1 if query is None else cardinalities[query]
        if query is not None:
            numbers = np.moveaxis(numbers, list(variables).index(query), 0)
        left = own
        for v in (u for u in variables if u != query):
            shape = own, left // own, cardinalities[v], -1
            found[v] = np.add.reduce(numbers.reshape(shape), axis=(1, 3))
            left *= cardinalities[v]
        if query is None:
            return {v: _shares(share) for v, share in found.items()}
        found[query] = np.diag(np.add.reduce(numbers.reshape(own, -1), axis=1))
        return {v: _shares(np.vstack([share.sum(axis=0), share])) for v, share in found.items()}
    labels, plan = product_plan(tables, variables, cardinalities)
    weights: list[dict[int, Any]] = [{}]
    if query is not None:
        weights += [{labels.index(query): w} for w in np.eye(cardinalities[query])]
    found = {v: np.zeros((len(weights), cardinalities[v])) for v in variables}
    for row, given in enumerate(weights):
        solution = solve(plan, given, keep=True)
        if solution.log_z > -np.inf:
            for v, share in zip(labels, solution_marginals(solution), strict=True):
                found[v][row] = share
    return {v: _shares(share) for v, share in found.items()}


def _shares(table: Any) -> Any:
    return table / np.maximum(table.sum(axis=1, keepdims=True), 1e-300)


ORDERS = ("rbfs", "bfs", "rev", "vtree")
"""How factors are ordered: see `cis`."""


@dataclass(frozen=True, eq=False)
class Order:
    """An order of the factors."""

    factors: tuple[int, ...]
    scopes: tuple[Scope, ...]  # the variables of every factor, in this order
    distance: dict[int, int]  # the place of every variable when they are reached breadth first
    reversed: bool = False  # whether the root of the search comes last

    @cached_property
    def places(self) -> dict[int, list[int]]:
        """The places of the factors of every variable, increasing."""
        found: dict[int, list[int]] = {v: [] for v in self.distance}
        for place, scope in enumerate(self.scopes):
            for v in scope:
                found[v].append(place)
        return found

    def coming(self, variable: int, place: int) -> int:
        """How many factors of a variable come at this place or later."""
        return sum(at >= place for at in self.places[variable])


def breadth_first(scopes: Sequence[Scope], root: int, backwards: bool = False) -> Order:
    """The factors in the order in which their variables are reached from a root.

    The factors of a variable are appended when it is reached, and the variables in them are
    reached next, in the order of their scopes. What the root does not reach follows from the
    smallest variable on.
    """
    of: dict[int, list[int]] = {}
    for number, scope in enumerate(scopes):
        for v in scope:
            of.setdefault(v, []).append(number)
    factors: list[int] = []
    used: set[int] = set()
    reached: dict[int, int] = {}
    for start in [root, *sorted(of)]:
        if start in reached or start not in of:
            continue
        queue = [start]
        reached[start] = len(reached)
        for v in queue:  # grows while it is read
            for number in of[v]:
                if number in used:
                    continue
                used.add(number)
                factors.append(number)
                for u in scopes[number]:
                    if u not in reached:
                        reached[u] = len(reached)
                        queue.append(u)
    if backwards:
        factors.reverse()
    return Order(tuple(factors), tuple(scopes[i] for i in factors), reached, backwards)


def by_vtree(scopes: Sequence[Scope], vtree: Vtree, root: int) -> Order:
    """The factors at the lowest vtree nodes that contain them, children before parents."""
    at = []
    for scope in scopes:
        node = vtree.leaf(scope[0])
        for v in scope[1:]:
            node = vtree.lca(node, vtree.leaf(v))
        at.append(node)
    factors = sorted(range(len(scopes)), key=lambda number: (at[number], number))
    reached = breadth_first(scopes, root).distance
    return Order(tuple(factors), tuple(scopes[i] for i in factors), reached)


@dataclass(eq=False)
class State:
    """A product of factors in which a variable must be sampled, or that is complete."""

    root: int  # where the order of the factors starts
    place: int  # how many factors have been multiplied
    tables: tuple[ScopedTable, ...]  # the product, at the values sampled so far
    constant: float  # the log of the factors of which nothing is left but a number
    inside: tuple[int, ...]  # the variables that are in the product, increasing
    sampled: tuple[tuple[int, int], ...]
    done: bool = False  # whether all factors are in and nothing needs to be sampled
    choice: tuple[int, ...] | None = None
    shares: dict[int, Any] = field(default_factory=dict)
    edges: dict[int, Any] = field(default_factory=dict)
    log_mass: float | None = None


def by_frontier(sampler: CollapsedSampler, state: State) -> list[float]:
    """Far from the frontier first; on the frontier, those with the fewest factors to come.

    The frontier is made of the variables inside that have factors yet to come.
    """
    order = sampler.order_from(state.root)
    near = neighbours([scope for scope, _ in state.tables], state.inside)
    queue = [v for v in state.inside if order.coming(v, state.place)]
    distance = dict.fromkeys(queue, 0)
    for v in queue:  # grows while it is read
        for u in sorted(near[v]):
            if u not in distance:
                distance[u] = distance[v] + 1
                queue.append(u)
    return [
        -float(distance.get(v, np.inf)) or float(order.coming(v, state.place))
        for v in sampler.candidates(state)
    ]


def by_information(sampler: CollapsedSampler, state: State) -> list[float]:
    """The smallest mutual information with the query; by the frontier where it is not inside."""
    if sampler.query not in state.inside:
        return by_frontier(sampler, state)
    found = sampler.marginals(state, sampler.query)
    weights = found[sampler.query][0]
    scores = []
    for v in sampler.candidates(state):
        total, shares = found[v][0], found[v][1:]
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(shares > 0, shares * np.log(shares / total), 0.0)
        scores.append(float(weights @ terms.sum(axis=1)))
    return scores


def by_variance(sampler: CollapsedSampler, state: State) -> list[float]:
    """The smallest variance that sampling adds to the chance of the query's first state.

    By the frontier where the query is not inside.
    """
    if sampler.query not in state.inside:
        return by_frontier(sampler, state)
    found = sampler.marginals(state, sampler.query)
    chance = found[sampler.query][0, 0]
    scores = []
    for v in sampler.candidates(state):
        total, given = found[v][:2]
        ratio = np.divide(given**2, total, out=np.zeros(len(total)), where=total > 0)
        scores.append(float(chance**2 * (ratio.sum() - 1.0)))
    return scores if chance > 0 else [0.0] * len(scores)


def by_distance(sampler: CollapsedSampler, state: State) -> list[float]:
    """The last one in breadth-first order from the query; by the frontier if the query is last."""
    order = sampler.order_from(state.root)
    if order.reversed:
        return by_frontier(sampler, state)
    return [-float(order.distance[v]) for v in sampler.candidates(state)]


def by_entropy(sampler: CollapsedSampler, state: State) -> list[float]:
    """The smallest entropy: what is almost known adds little noise when it is sampled."""
    found = sampler.marginals(state)
    return [float(entr(found[v]).sum()) for v in sampler.candidates(state)]


RULES: dict[str, Callable[[CollapsedSampler, State], list[float]]] = {
    "frontier": by_frontier,
    "mi": by_information,
    "rbvar": by_variance,
    "fd": by_distance,
    "ent": by_entropy,
    "rand": lambda sampler, state: [],
}
"""Rules that score the candidates; one with the smallest score is sampled, or any by "rand"."""

REMOVED = {
    "frb": "use 'rbvar' with a query, or 'frontier'",
    "size": "use 'frontier'",
    "ind": "use 'frontier', or 'rand'",
}
"""What to use instead of rules that earlier versions had."""

MAX_KEPT = 20_000
"""How many situations are remembered for samples that start alike."""


class CollapsedSampler:
    """All ways in which a sample can come about, as states and what leads from one to the next.

    The factors are tables without what no sample needs to look at.
    """

    def __init__(
        self,
        graph: FactorGraph,
        order: str,
        select: str,
        budget: int | None,
        max_size: int | None,
        query: int | None,
        protected: frozenset[int],
    ) -> None:
        self.graph, self.order, self.select = graph, order, select
        # when a product is too large: by the number of its variables, by the cost of elimination
        self.budget, self.max_size = budget, max_size
        self.query, self.protected = query, protected  # what is never sampled
        self._orders: dict[int, Order] = {}
        self._states: dict[Any, State] = {}
        self.cardinalities = graph.cardinalities
        self.known: dict[int, int] = {}  # of what only a point mass is left, as when observed
        self.constant = 0.0  # the log of constant factors, and of states without any factor
        wide = {v for factor in graph.factors if len(factor.scope) > 1 for v in factor.scope}
        alone: dict[int, list[Any]] = {}
        self.tables: list[ScopedTable] = []
        for factor in graph.factors:
            if len(factor.scope) == 1 and factor.scope[0] not in wide:
                alone.setdefault(factor.scope[0], []).append(factor.table)
            else:
                self._add(factor.scope, Scaled(factor.table, 0.0))
        for v, tables in alone.items():
            numbers = product(
                [self._scaled(Scaled(table, 0.0)) for table in tables], tables[0].shape
            )
            states = np.flatnonzero(numbers.logs > -np.inf)
            if len(states) == 1 and len(numbers.data) > 1:
                self.known[v] = int(states[0])
                self.constant += float(numbers.logs[states[0]])
            else:
                self._add((v,), numbers)
        self.variables = sorted({v for scope, _ in self.tables for v in scope})
        for v, card in enumerate(self.cardinalities):
            if v not in self.known and v not in self.variables:
                self.constant += float(np.log(card))

    def _scaled(self, numbers: Scaled) -> Scaled:
        """Numbers over their largest one, which goes to the constant."""
        found, top = rescaled(numbers)
        self.constant += top
        return found

    def _add(self, scope: tuple[int, ...], numbers: Scaled) -> None:
        kept = tuple(v for v in scope if self.cardinalities[v] > 1)
        found = self._scaled(numbers)
        if kept:
            self.tables.append((kept, found.shaped([self.cardinalities[v] for v in kept])))

    def conditionals(self, rows: Any) -> list[Any]:
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

    @cached_property
    def roots(self) -> tuple[int, ...]:
        """The variables that an order may start from, with equal chances."""
        variables = self.variables
        if not variables:
            return (0,)
        if self.order == "rbfs":
            return tuple(variables)
        return (self.query if self.query in variables else variables[0],)

    def order_from(self, root: int) -> Order:
        """The order of the factors for one root."""
        if root not in self._orders:
            scopes = [scope for scope, _ in self.tables]
            if self.order == "vtree":
                self._orders[root] = by_vtree(scopes, self.graph.vtree, root)
            else:
                self._orders[root] = breadth_first(scopes, root, self.order == "rev")
        return self._orders[root]

    def start(self, root: int) -> State:
        """The first state from a root."""
        return self._kept(State(root, 0, (), self.constant, (), ()))

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
            table = restricted(self.tables[order.factors[state.place]], values)
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
        cost = min_fill_cost(scopes, state.inside, self.cardinalities)
        return cost > self.max_size

    def candidates(self, state: State) -> tuple[int, ...]:
        """The variables that may be sampled."""
        return tuple(v for v in state.inside if v not in self.protected)

    def marginals(self, state: State, query: int | None = None) -> dict[int, Any]:
        """The marginals in the product; also given the states of a query, in rows that follow."""
        return marginals(state.tables, state.inside, self.cardinalities, query)

    def choices(self, state: State) -> tuple[int, ...]:
        """The variables that may be sampled next, with equal chances: all of "rand", else one."""
        if state.choice is None:
            state.choice = self.candidates(state)
            if self.select != "rand" and len(state.choice) > 1:
                # rounding makes equal scores equal: the first of them wins on every machine
                scores = np.round(RULES[self.select](self, state), 12)
                state.choice = (state.choice[int(np.argmin(scores))],)
        return state.choice

    def proposal(self, state: State, variable: int) -> Any:
        """The marginal distribution of a variable in the product, None if it is zero."""
        if variable not in state.shares:
            group, tables = next(part for part in _parts(state) if variable in part[0])
            found, log_z = summed(tables, group, self.cardinalities, (variable,))
            share = None if log_z == -np.inf else found.numbers
            state.shares[variable] = None if share is None else share / share.sum()
        return state.shares[variable]

    def drawn(self, state: State, variable: int, u: float) -> int:
        """The value of a variable at a position of its proposal."""
        if variable not in state.edges:
            state.edges[variable] = cumulative(self.proposal(state, variable)[None, :])[0]
        return int(state.edges[variable].searchsorted(u, side="right"))

    def log_mass(self, state: State) -> float:
        """The log of the sum of a complete product over the variables that were not sampled."""
        if state.log_mass is None:
            cards = self.cardinalities
            total = state.constant
            if total > -np.inf:
                for group, tables in _parts(state):
                    total += summed(tables, group, cards)[1]
            state.log_mass = total
        return state.log_mass


def _parts(state: State) -> Iterator[tuple[list[int], list[ScopedTable]]]:
    """The variables of a product in groups that no table connects, and the tables of each."""
    for group in components([scope for scope, _ in state.tables], state.inside):
        inside = set(group)
        yield group, [table for table in state.tables if not inside.isdisjoint(table[0])]


def _split(tables: Sequence[ScopedTable]) -> tuple[tuple[ScopedTable, ...], float]:
    """The tables that have variables, and the sum of the logs of the others."""
    constant = sum(float(table.logs) for scope, table in tables if not scope)
    return tuple(table for table in tables if table[0]), constant


DEFAULT_MAX_SIZE = 100_000
"""The size limit where none is given: products up to this size take milliseconds."""


def cis(
    target: FactorGraph | Circuit,
    n: int,
    collapse_budget: int | None = None,
    rng: RngLike = None,
    *,
    max_size: int | None = None,
    order: str = "rbfs",
    select: str = "frontier",
    query: int | str | None = None,
    evidence: EvidenceLike | None = None,
    protected: Iterable[int | str] = (),
    progress: bool = True,
) -> WeightedSamples:
    r"""Weighted samples by online collapsed importance sampling.

    For every sample the factors are multiplied one after the other. Whenever the product is too
    large, one of its variables is sampled from its marginal in the product, and the product goes
    on with that value. What has not been sampled in the end is summed over exactly. The weight

    .. math:: w_n = \frac{\sum_{x_c} \prod_f f(x_c, x^n_s)}{q(x^n_s)}

    divides the mass of the product of all factors at the sampled values by the chance of sampling
    these, so that the mean of the weights is the partition function in expectation. Factors with
    zeros are no problem.

    Parameters
    ----------
    target : FactorGraph or Circuit
        A circuit counts as a single factor: see the notes.
    n : int
        The number of samples.
    collapse_budget : int, optional
        A product is too large if it has more than so many variables. So many are collapsed in the
        end (more if variables are protected, fewer if there are not as many), besides those that
        are in no factor.
    rng : int, Generator or None
    max_size : int, optional
        A product of at least two variables is too large if variable elimination in min-fill order
        makes tables with more than so many entries in all; a circuit would have about as many
        products. Default: no limit if there is a budget, else 100 000.
    order : "rbfs", "bfs", "rev" or "vtree"
        The order of the factors: breadth first from a variable drawn anew for every sample, for
        samples that serve all marginals; breadth first from the query (or from the first
        variable); the same list reversed; or bottom-up along the vtree of the model.
    select : str
        Which variable is sampled; of equal ones, the first.

        * ``"frontier"``: the farthest from the variables that have factors to come, which makes
          proposals close to the true conditionals; where only such variables are left, the one
          with the fewest;
        * ``"mi"``: the smallest mutual information with the query in the product;
        * ``"rbvar"``: the smallest variance that sampling it adds to the probability of the
          query's first state;
        * ``"fd"``: the last one that a breadth-first search from the root of the order reaches;
          ``"frontier"`` for the order "rev";
        * ``"ent"``: the smallest entropy in the product;
        * ``"rand"``: any, with equal chances.

        "mi" and "rbvar" act as "frontier" while the query is not in the product.
    query : int or str, optional
        The variable of interest. It is protected.
    evidence : mapping, or array with NaN, optional
        As for `FactorGraph.condition`. The samples have the observed values.
    protected : iterable of int or str
        Variables that are never sampled.
    progress : bool
        Show a progress bar, after a second and on a terminal.

    Returns
    -------
    WeightedSamples
        With `log_weights` and `log_z`, the log of the mean weight. Its target is the model given
        the evidence. A sample that later factors show to be impossible has the weight zero, and
        NaN for what had not been sampled by then.

    Raises
    ------
    PropertyError
        If no sample has a positive weight.

    Notes
    -----
    Samples share work: what happens after the same values of the same variables in the same order
    is computed once.

    A circuit has all its marginals at hand, so that nothing needs to be sampled before it is
    complete: samples are exact, their weights are all equal to its partition function, and there
    is no order. Variables are then selected at random, by "rand" or "frontier".

    References
    ----------
    T. Friedman and G. Van den Broeck, "Approximate Knowledge Compilation by Online Collapsed
    Importance Sampling", NeurIPS 2018.

    Examples
    --------
    >>> from expectedkernels.datasets import asia, ising_grid
    >>> grid = ising_grid(4, 4, rng=0)
    >>> samples = cis(grid, 100, collapse_budget=8, rng=0)
    >>> samples.collapsed.sum(axis=1).tolist() == [8] * 100
    True
    >>> abs(samples.log_z - grid.log_partition()) < 0.1
    True
    >>> smokers = cis(asia(), 50, 4, rng=0, evidence={"smoke": "yes"})
    >>> round(float(np.exp(smokers.log_z)), 2)
    0.5
    """
    check_choice("cis", "order", order, ORDERS)
    check_choice("cis", "select", select, tuple(RULES), removed=REMOVED)
    check_count("cis", "n", n, 1)
    check_count("cis", "collapse_budget", collapse_budget, 0, none=True)
    check_count("cis", "max_size", max_size, 1, none=True)
    generator = as_generator(rng)
    target = as_target(target)
    if isinstance(target, Circuit):
        if max_size is not None:
            raise CircuitError(
                "The 'max_size' parameter of cis limits products of factors, which a circuit does "
                f"not have. Got {max_size}; use collapse_budget instead."
            )
        safe = _protected(target, query, protected)
        return _from_circuit(target, n, collapse_budget, generator, select, evidence, safe)
    if not isinstance(target, FactorGraph):
        raise CircuitError(
            "The target of cis must be a FactorGraph, a BayesianNetwork or a Circuit; others "
            f"cannot be summed over exactly. Got {type(target).__name__} instead."
        )
    if query is None and select in ("mi", "rbvar"):
        raise CircuitError(
            f"The rule select={select!r} of cis asks what sampling does to a query. Give one as "
            "query=..., or use select='frontier' for all marginals."
        )
    if collapse_budget is None and max_size is None:
        max_size = DEFAULT_MAX_SIZE
    safe = _protected(target, query, protected)
    chosen = None if query is None else target.variable(query)
    graph = target if evidence is None else target.condition(evidence)
    sampler = CollapsedSampler(graph, order, select, collapse_budget, max_size, chosen, safe)
    rows = np.full((n, graph.n_variables), np.nan)
    logs = np.empty(n)
    with progress_bar(n, "collapsed importance sampling", quiet=not progress) as bar:
        for number in range(n):
            logs[number] = _draw(sampler, generator, rows[number])
            bar.update(1)
    return _weighed(sampler, rows, logs)


def _draw(sampler: CollapsedSampler, rng: np.random.Generator, row: Any) -> float:
    """Fill a row with one sample; returns its log-weight."""
    for v, value in sampler.known.items():
        row[v] = value
    log_q = 0.0
    state = sampler.start(sampler.roots[rng.integers(len(sampler.roots))])
    while not state.done:
        options = sampler.choices(state)
        v = options[rng.integers(len(options))]
        share = sampler.proposal(state, v)
        if share is None:
            return -np.inf
        value = sampler.drawn(state, v, rng.random())
        log_q += float(np.log(share[value]))
        row[v] = value
        state = sampler.after(state, v, value)
    return sampler.log_mass(state) - log_q


def _weighed(sampler: CollapsedSampler, rows: Any, logs: Any) -> WeightedSamples:
    top = logs.max()
    if top == -np.inf:
        raise PropertyError(
            f"All {len(rows)} samples have the weight zero: later factors show every one of them "
            "to be impossible. Draw more samples, allow a larger collapse_budget or max_size, or "
            "check the zeros of the model and the evidence."
        )
    weights = np.exp(logs - top)
    too_large = sampler.graph.plan().n_bytes > DEFAULT_MAX_BYTES
    return WeightedSamples(
        sampler.graph,
        rows,
        weights / weights.sum(),
        rule="cis",
        log_weights=logs,
        log_z=float(top + np.log(weights.mean())),
        conditionals=sampler.conditionals if too_large else None,
    )


def _from_circuit(
    target: Circuit,
    n: int,
    budget: int | None,
    rng: np.random.Generator,
    select: str,
    evidence: Any,
    protected: frozenset[int],
) -> WeightedSamples:
    """Exact samples of a circuit, of which some variables are forgotten again."""
    if select not in ("frontier", "rand"):
        raise CircuitError(
            f"The rule select={select!r} of cis needs the factors of a FactorGraph. For a circuit "
            "use 'rand'."
        )
    log_z, known = float(to_numpy(target.log_partition())), np.full(target.n_variables, np.nan)
    if evidence is not None:
        given = as_evidence(evidence, target.cardinalities)
        if given.n_rows != 1:
            raise EvidenceError(f"Evidence for cis is one row. Got {given.n_rows} rows.")
        log_z = float(to_numpy(target.log_likelihood(given))[0])
        target = target.condition(given)
        for v, share in enumerate(target.marginals()):
            if np.count_nonzero(share) == 1:
                known[v] = int(np.argmax(share))
    rows = np.array(to_numpy(target.sample(n, rng)), dtype=np.float64)
    free = [v for v in range(target.n_variables) if np.isnan(known[v])]
    candidates = [v for v in free if v not in protected]
    size = len(free) if budget is None else budget
    n_sampled = min(len(candidates), max(0, len(free) - size))
    for row in rows:
        some = rng.permutation(candidates)[:n_sampled].tolist()
        gone = sorted(set(free).difference(some))
        row[gone] = np.nan
    return WeightedSamples(target, rows, rule="cis", log_weights=np.full(n, log_z), log_z=log_z)


def _protected(target: FactorGraph | Circuit, query: Any, protected: Any) -> frozenset[int]:
    """The variables that are never sampled, by number."""
    if isinstance(protected, str) or not np.iterable(protected):
        raise CircuitError(
            f"The 'protected' parameter of cis must be a list of variables. Got {protected!r}."
        )
    keys = [*protected] if query is None else [*protected, query]
    return frozenset(target.schema.variables(keys))
