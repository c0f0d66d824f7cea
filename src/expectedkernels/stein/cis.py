"""Online collapsed importance sampling."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import prod
from typing import Any

import numpy as np
from scipy.special import entr, rel_entr

from expectedkernels import checks
from expectedkernels.arrays import DEFAULT_MAX_BYTES, RngLike, as_generator, cumulative, to_numpy
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.data.evidence import EvidenceLike, as_evidence
from expectedkernels.kernels.target import as_target
from expectedkernels.models.factor_graph import FactorGraph
from expectedkernels.models.messages import min_fill_cost, product_plan, solution_marginals, solve
from expectedkernels.sampling.gibbs import Term, log_tables, sum_tables
from expectedkernels.stein.weighted_samples import WeightedSamples
from expectedkernels.vtree import Vtree
from expectedkernels.vtrees import components, neighbours

ORDERS = ("rbfs", "bfs", "rev", "vtree")
"""How factors are ordered: see `cis`."""

REMOVED = {
    "frb": "use 'rbvar' with a query, or 'frontier'",
    "size": "use 'frontier'",
    "ind": "use 'frontier', or 'rand'",
}
"""What to use instead of rules that earlier versions had."""

DEFAULT_MAX_SIZE = 100_000
"""The size limit where none is given: products up to this size take milliseconds."""

SMALL_JOINT = 2**14
"""Joint tables up to this size are made at once: faster than to eliminate variable by variable."""

MAX_KEPT = 20_000
"""How many states are remembered for samples that start alike."""


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
        Seed or generator of random numbers; an int makes results reproducible.
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
    checks.check_choice("cis", "order", order, ORDERS)
    checks.check_choice("cis", "select", select, tuple(RULES), removed=REMOVED)
    checks.check_count("cis", "n", n, 1)
    checks.check_count("cis", "collapse_budget", collapse_budget, 0, none=True)
    checks.check_count("cis", "max_size", max_size, 1, none=True)
    generator, target = as_generator(rng), as_target(target)
    if not isinstance(target, (Circuit, FactorGraph)):
        raise checks.CircuitError(
            "The target of cis must be a FactorGraph, a BayesianNetwork or a Circuit; others "
            f"cannot be summed over exactly. Got {type(target).__name__} instead."
        )
    if isinstance(protected, str) or not np.iterable(protected):
        rule = "The 'protected' parameter of cis must be a list of variables"
        raise checks.CircuitError(f"{rule}. Got {protected!r}.")
    keys = [*protected] if query is None else [*protected, query]
    safe = frozenset(target.schema.variables(keys))
    if isinstance(target, Circuit):
        if max_size is not None:
            raise checks.CircuitError(
                "The 'max_size' parameter of cis limits products of factors, which a circuit does "
                f"not have. Got {max_size}; use collapse_budget instead."
            )
        return _from_circuit(target, n, collapse_budget, generator, select, evidence, safe)
    if query is None and select in ("mi", "rbvar"):
        what = f"The rule select={select!r} of cis asks what sampling does to a query"
        advice = "Give one as query=..., or use select='frontier' for all marginals"
        raise checks.CircuitError(f"{what}. {advice}.")
    if collapse_budget is None and max_size is None:
        max_size = DEFAULT_MAX_SIZE
    chosen = None if query is None else target.variable(query)
    graph = target if evidence is None else target.condition(evidence)
    sampler = CollapsedSampler(graph, order, select, collapse_budget, max_size, chosen, safe)
    rows, logs = np.full((n, graph.n_variables), np.nan), np.empty(n)
    with checks.progress_bar(n, "collapsed importance sampling", quiet=not progress) as bar:
        for number in range(n):
            logs[number] = sampler.sample(generator, rows[number])
            bar.update(1)
    top = logs.max()
    if top == -np.inf:
        what = f"All {n} samples have the weight zero: later factors show them to be impossible"
        advice = "Draw more, allow a larger collapse_budget or max_size, or check the model's zeros"
        raise checks.PropertyError(f"{what}. {advice}.")
    weights = np.exp(logs - top)
    found: Any = {"rule": "cis", "log_weights": logs, "log_z": float(top + np.log(weights.mean()))}
    if graph.plan().n_bytes > DEFAULT_MAX_BYTES:
        found["conditionals"] = sampler.conditionals
    return WeightedSamples(graph, rows, weights / weights.sum(), **found)


def _from_circuit(
    target: Circuit, n: int, budget: Any, rng: Any, select: str, evidence: Any, protected: Any
) -> WeightedSamples:
    """Exact samples of a circuit, of which some variables are forgotten again."""
    if select not in ("frontier", "rand"):
        what = f"The rule select={select!r} of cis needs the factors of a FactorGraph"
        raise checks.CircuitError(f"{what}. For a circuit use 'rand'.")
    log_z, known = float(to_numpy(target.log_partition())), np.full(target.n_variables, np.nan)
    if evidence is not None:
        given = as_evidence(evidence, target.cardinalities)
        if given.n_rows != 1:
            raise checks.EvidenceError(f"Evidence for cis is one row. Got {given.n_rows} rows.")
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


def restricted(table: Term, values: Mapping[int, int]) -> Term:
    """The table at the values of some of its variables."""
    if not any(v in values for v in table.scope):
        return table
    index = tuple(values.get(v, slice(None)) for v in table.scope)
    return Term(tuple(v for v in table.scope if v not in values), np.asarray(table.logs[index]))


def joint(tables: Sequence[Term], axes: Sequence[int], cards: Sequence[int]) -> Any:
    """The product over all states of some variables, and the log of its unit; None if too many."""
    if prod(cards[v] for v in axes) > SMALL_JOINT:
        return None
    logs = sum_tables(tables, axes, cards)
    top = logs.max()
    return np.exp(logs - (top if top > -np.inf else 0.0)), top


def _plan(tables: Sequence[Term], *settings: Any) -> tuple[list[int], Any]:
    """The variables of a product, and the plan of their elimination."""
    return product_plan([(table.scope, np.exp(table.logs)) for table in tables], *settings)


def summed(
    tables: Sequence[Term], variables: Sequence[int], cards: Sequence[int], last: Any = ()
) -> tuple[Any, float]:
    """The marginal of the last variable in a product, up to a factor, and the log of the sum.

    That is -inf if the product is zero everywhere.
    """
    axes = sorted(variables)
    whole = joint(tables, axes, cards)
    if whole is None:
        _, plan = _plan(tables, axes, cards, last)
        solution = solve(plan, {}, keep=True)
        return solution.solved[-1].table.numbers, solution.log_z
    numbers, top = whole
    log_z = float(top + np.log(numbers.sum())) if top > -np.inf else top
    return numbers.sum(axis=tuple(i for i, v in enumerate(axes) if v not in last)), log_z


def marginals(
    tables: Sequence[Term], variables: Sequence[int], cards: Sequence[int], query: Any = None
) -> dict[int, Any]:
    """The marginals of all variables, (1, cardinality); more rows follow given states of a query.

    A row is zero where the state is impossible.
    """
    axes, found = sorted(variables), {}
    whole = joint(tables, axes, cards)
    if whole is not None:
        numbers, own = whole[0], 1 if query is None else cards[query]
        if query is not None:
            numbers = np.moveaxis(numbers, axes.index(query), 0)
        left = own
        for v in (u for u in axes if u != query):
            shape = own, left // own, cards[v], -1
            found[v] = np.add.reduce(numbers.reshape(shape), axis=(1, 3))
            left *= cards[v]
        if query is not None:
            found[query] = np.diag(np.add.reduce(numbers.reshape(own, -1), axis=1))
            found = {v: np.vstack([share.sum(axis=0), share]) for v, share in found.items()}
    else:
        labels, plan = _plan(tables, axes, cards)
        weights: list[dict[int, Any]] = [{}]
        if query is not None:
            weights += [{labels.index(query): w} for w in np.eye(cards[query])]
        found = {v: np.zeros((len(weights), cards[v])) for v in axes}
        for row, given in enumerate(weights):
            solution = solve(plan, given, keep=True)
            if solution.log_z > -np.inf:
                for v, share in zip(labels, solution_marginals(solution), strict=True):
                    found[v][row] = share
    sums = {v: share.sum(axis=1, keepdims=True) for v, share in found.items()}
    return {v: share / np.where(sums[v] > 0, sums[v], 1.0) for v, share in found.items()}


@dataclass(frozen=True, eq=False)
class Order:
    """An order of the factors."""

    factors: list[int]
    positions: dict[int, list[int]]  # of the factors of every variable, increasing
    distance: dict[int, int]  # the place of every variable when they are reached breadth first
    reversed: bool = False  # whether the root of the search comes last

    def coming(self, variable: int, place: int) -> int:
        """How many factors of a variable come at this place or later."""
        positions = self.positions[variable]
        return len(positions) - bisect_left(positions, place)


def order_factors(
    scopes: Sequence[Sequence[int]], root: int, kind: str = "bfs", vtree: Vtree | None = None
) -> Order:
    """The factors in the order in which their variables are reached from a root.

    The factors of a variable are appended when it is reached, and the variables in them are
    reached next, in the order of their scopes. What the root does not reach follows from the
    smallest variable on. "rev" reverses the list; "vtree" takes factors at the lowest vtree
    nodes that contain them, children before parents.
    """
    of: dict[int, list[int]] = {}
    for number, scope in enumerate(scopes):
        for v in scope:
            of.setdefault(v, []).append(number)
    factors: dict[int, None] = {}
    reached: dict[int, int] = {}
    for start in [root, *sorted(of)]:
        queue = [start] if start in of and start not in reached else []
        for v in queue:  # grows while it is read
            reached.setdefault(v, len(reached))
            for number in of[v]:
                if number not in factors:
                    factors[number] = None
                    for u in scopes[number]:
                        if u not in reached:
                            reached[u] = len(reached)
                            queue.append(u)
    order = list(factors)
    if kind == "rev":
        order.reverse()
    if kind == "vtree" and vtree is not None:
        nodes = [reduce(vtree.lca, map(vtree.leaf, scope)) for scope in scopes]
        order.sort(key=lambda number: (nodes[number], number))
    places: dict[int, list[int]] = {v: [] for v in reached}
    for place, number in enumerate(order):
        for v in scopes[number]:
            places[v].append(place)
    return Order(order, places, reached, kind == "rev")


@dataclass(eq=False)
class State:
    """A product of factors in which a variable must be sampled, or that is complete."""

    root: int  # where the order of the factors starts
    place: int  # how many factors have been multiplied
    tables: list[Term]  # the product, at the values sampled so far
    constant: float  # the log of the factors of which nothing is left but a number
    inside: tuple[int, ...]  # the variables that are in the product, increasing
    sampled: tuple[tuple[int, int], ...]
    done: bool = False  # whether all factors are in and nothing needs to be sampled
    choices: tuple[int, ...] = ()
    proposals: dict[int, Any] = field(default_factory=dict)
    log_mass: float | None = None


def by_frontier(sampler: CollapsedSampler, state: State) -> list[float]:
    """Far from the frontier first; on the frontier, those with the fewest factors to come.

    The frontier is made of the variables inside that have factors yet to come.
    """
    order = sampler.order_from(state.root)
    near = neighbours([table.scope for table in state.tables], state.inside)
    queue = [v for v in state.inside if order.coming(v, state.place)]
    distance = dict.fromkeys(queue, 0)
    for v in queue:  # grows while it is read
        for u in sorted(near[v]):
            if u not in distance:
                distance[u] = distance[v] + 1
                queue.append(u)
    pairs = ((distance.get(v, np.inf), v) for v in sampler.candidates(state))
    return [-float(steps) or float(order.coming(v, state.place)) for steps, v in pairs]


def by_information(sampler: CollapsedSampler, state: State) -> list[float]:
    """The smallest mutual information with the query; by the frontier where it is not inside."""
    if sampler.query not in state.inside:
        return by_frontier(sampler, state)
    found = marginals(state.tables, state.inside, sampler.cardinalities, sampler.query)
    weights = found[sampler.query][0]
    tables = (found[v] for v in sampler.candidates(state))
    return [float(weights @ rel_entr(x[1:], x[0]).sum(axis=1)) for x in tables]


def by_variance(sampler: CollapsedSampler, state: State) -> list[float]:
    """The smallest variance that sampling adds to the chance of the query's first state.

    By the frontier where the query is not inside.
    """
    if sampler.query not in state.inside:
        return by_frontier(sampler, state)
    found = marginals(state.tables, state.inside, sampler.cardinalities, sampler.query)
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
    found = marginals(state.tables, state.inside, sampler.cardinalities)
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


class CollapsedSampler:
    """All ways in which a sample can come about, as states and what leads from one to the next.

    The factors are tables without what no sample needs to look at.
    """

    def __init__(
        self, graph: Any, order: str, select: str, budget: Any, max_size: Any, query: Any, safe: Any
    ) -> None:
        self.graph, self.order, self.select = graph, order, select
        # when a product is too large: by the number of its variables, by the cost of elimination
        self.budget, self.max_size = budget, max_size
        self.query, self.protected = query, safe  # what is never sampled
        self._orders: dict[int, Order] = {}
        self._states: dict[Any, State] = {}
        self.cardinalities = cards = graph.cardinalities
        self.known: dict[int, int] = {}  # of what only a point mass is left, as when observed
        self.constant = 0.0  # the log of constant factors, and of states without any factor
        self.scopes: list[tuple[int, ...]] = []  # of the tables, in the order of the factors
        self.tables: list[Term] = []
        wide = {v for factor in graph.factors if len(factor.scope) > 1 for v in factor.scope}
        alone: dict[int, Any] = {}
        for factor, table in zip(graph.factors, log_tables(graph), strict=True):
            if not table.scope:
                self.constant += float(table.logs)
            elif wide.isdisjoint(factor.scope):
                alone[table.scope[0]] = alone.get(table.scope[0], 0.0) + table.logs
            else:
                self.scopes.append(tuple(v for v in factor.scope if cards[v] > 1))
                self.tables.append(table)
        for v, logs in alone.items():
            states = np.flatnonzero(logs > -np.inf)
            if len(states) == 1:
                self.known[v] = int(states[0])
                self.constant += float(logs[states[0]])
            else:
                self.scopes.append((v,))
                self.tables.append(Term((v,), logs))
        self.variables = sorted({v for scope in self.scopes for v in scope})
        for v in set(range(len(cards))).difference(self.known, self.variables):
            self.constant += float(np.log(cards[v]))
        # the variables that an order may start from, with equal chances
        self.roots = self.variables or [0]
        if order != "rbfs":
            self.roots = [query] if query in self.variables else self.roots[:1]

    def sample(self, rng: np.random.Generator, row: Any) -> float:
        """Fill a row with one sample; returns its log-weight."""
        row[list(self.known)] = list(self.known.values())
        log_q, state = 0.0, self.start(self.roots[rng.integers(len(self.roots))])
        while not state.done:
            v = state.choices[rng.integers(len(state.choices))]
            proposal = self.proposal(state, v)
            if proposal is None:
                return -np.inf
            share, edges = proposal
            value = int(edges.searchsorted(rng.random(), side="right"))
            log_q += float(np.log(share[value]))
            row[v] = value
            state = self.after(state, v, value)
        return self.log_mass(state) - log_q

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

    def order_from(self, root: int) -> Order:
        """The order of the factors for one root."""
        if root not in self._orders:
            vtree = self.graph.vtree if self.order == "vtree" else None
            self._orders[root] = order_factors(self.scopes, root, self.order, vtree)
        return self._orders[root]

    def start(self, root: int) -> State:
        """The first state from a root."""
        kept = self._states.get((root, ()))
        return kept or self._advance(State(root, 0, [], self.constant, (), ()))

    def after(self, state: State, variable: int, value: int) -> State:
        """The next state, once a variable has got a value."""
        sampled = (*state.sampled, (variable, value))
        kept = self._states.get((state.root, sampled))
        if kept is not None:
            return kept
        inside = tuple(v for v in state.inside if v != variable)
        new = State(state.root, state.place, [], state.constant, inside, sampled)
        for table in state.tables:
            self._multiply(new, restricted(table, {variable: value}))
        return self._advance(new)

    def _multiply(self, state: State, table: Term) -> None:
        """Add a table to the product, or to its constant if nothing but a number is left of it."""
        if table.scope:
            state.tables.append(table)
        else:
            state.constant += float(table.logs)

    def _advance(self, state: State) -> State:
        """Multiply factors until something must be sampled, or none is left.

        The state is remembered for the next time.
        """
        order, values = self.order_from(state.root), dict(state.sampled)
        while not self._too_large(state):
            if state.place == len(order.factors) or state.constant == -np.inf:
                state.done = True
                break
            table = restricted(self.tables[order.factors[state.place]], values)
            self._multiply(state, table)
            state.place += 1
            state.inside = tuple(sorted({*state.inside, *table.scope}))
        if not state.done:  # what may be sampled next, with equal chances
            state.choices = self.candidates(state)
            if self.select != "rand" and len(state.choices) > 1:
                # rounding makes equal scores equal: the first of them wins on every computer
                scores = np.round(RULES[self.select](self, state), 12)
                state.choices = (state.choices[int(np.argmin(scores))],)
        if len(self._states) < MAX_KEPT:
            self._states[state.root, state.sampled] = state
        return state

    def _too_large(self, state: State) -> bool:
        if self.protected.issuperset(state.inside) or state.constant == -np.inf:
            return False
        if self.budget is not None and len(state.inside) > self.budget:
            return True
        if self.max_size is None or len(state.inside) < 2:
            return False
        scopes = [table.scope for table in state.tables]
        return min_fill_cost(scopes, state.inside, self.cardinalities) > self.max_size

    def candidates(self, state: State) -> tuple[int, ...]:
        """The variables that may be sampled."""
        return tuple(v for v in state.inside if v not in self.protected)

    def proposal(self, state: State, variable: int) -> tuple[Any, Any] | None:
        """The marginal of a variable in the product, and its cumulative sums; None if zero."""
        if variable not in state.proposals:
            group, tables = next(part for part in _parts(state) if variable in part[0])
            share, log_z = summed(tables, group, self.cardinalities, (variable,))
            state.proposals[variable] = None
            if log_z > -np.inf:
                share = share / share.sum()
                state.proposals[variable] = share, cumulative(share[None, :])[0]
        return state.proposals[variable]

    def log_mass(self, state: State) -> float:
        """The log of the sum of a complete product over the variables that were not sampled."""
        if state.log_mass is None:
            parts = _parts(state) if state.constant > -np.inf else ()
            masses = [summed(tables, group, self.cardinalities)[1] for group, tables in parts]
            state.log_mass = sum(masses, state.constant)
        return state.log_mass


def _parts(state: State) -> Iterator[tuple[list[int], list[Term]]]:
    """The variables of a product in groups that no table connects, and the tables of each."""
    for group in components([table.scope for table in state.tables], state.inside):
        inside = set(group)
        yield group, [table for table in state.tables if not inside.isdisjoint(table.scope)]
