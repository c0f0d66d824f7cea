"""Gibbs sampling of discrete models, with or without some variables marginalised."""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from expectedkernels import arrays, checks
from expectedkernels.arrays import Array, RngLike, RowsLike, VariablesLike, from_logs, inverse_cdf
from expectedkernels.checks import DataError, PropertyError, SizeError, Verdict, public
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.queries import deterministic, refuse_signed
from expectedkernels.data.evidence import EvidenceLike, as_evidence, as_points
from expectedkernels.data.tables import as_floats, as_table, is_frame
from expectedkernels.engine.blocks import from_leaves
from expectedkernels.kernels.empirical import schema_of, variables_of
from expectedkernels.kernels.target import Target, TargetLike, as_target
from expectedkernels.models import factor_graph
from expectedkernels.models.factor_graph import BayesianNetwork, CollapsedModel, Factor, FactorGraph
from expectedkernels.vtrees import components

FEW_CHAINS = 8
"""So many chains are moved one by one: whole-array operations pay off only for more."""

BLOCK = 2**14
"""How many random numbers are drawn at a time."""

UNIFORM_TRIES = 16
"""How often a uniformly drawn start of probability zero is drawn again."""

SITE_ENTRIES = 2**16
"""A full conditional is tabulated if its table has at most this many entries."""

ALL_ENTRIES = 2**23
"""All tables of a model together have at most this many entries (64 MiB)."""

CACHED = 2**14
"""How many evaluated conditionals every variable keeps at a time."""

TABLE_STATES = 2**16
"""Marginals, circuits and functions are tabulated for up to this many states."""

RANDOM_STATES = 2**14
"""How many random states of a function are tried for one with positive probability."""

FORWARD_DRAWS = 256
"""How many samples of a Bayesian network are tried for each start."""

SUPPORT_STATES = 2**16
"""Up to this many states are looked at one by one."""

PRODUCT_PAIRS = 2**24
"""Determinism is decided for circuits with at most this many pairs of products to compare."""


def gibbs(
    target: TargetLike,
    n: int,
    burn_in: int = 0,
    thin: int = 1,
    rng: RngLike = None,
    *,
    scan: str = "systematic",
    chains: int = 1,
    start: RowsLike | None = None,
    evidence: EvidenceLike | None = None,
    progress: bool = True,
) -> Array:
    r"""States of a Gibbs sampler, shape (n, variables), or (chains, n, variables) for several.

    One step samples one variable from its conditional distribution given all others,
    :math:`p(x_i \mid x_{-i})`. States are recorded after the steps ``burn_in + thin``,
    ``burn_in + 2 * thin``, and so on: ``burn_in=2000, thin=1000`` records the states after step
    3000, 4000, ..., and a chain of n states takes ``burn_in + n * thin`` steps.

    Parameters
    ----------
    target : FactorGraph, BayesianNetwork, Circuit or Target
        Normalised or not. A `Target` (made of a function) and anything else with
        ``cardinalities`` and ``site_logs(X, variable)`` serve as well, without evidence.
    n : int
        The number of states that are recorded, for each chain.
    burn_in, thin : int
        Numbers of steps, each the update of a single variable.
    rng : int, Generator or None
        Chains are continued, not changed, by a larger n: the first states are the same.
    scan : "systematic" or "random"
        Whether variables are visited in the order of their numbers, over and over, or drawn with
        equal chances for every step (the same for all chains). Variables with a single possible
        state, such as observed ones, are not visited.
    chains : int
        The number of chains, moved together. Given the order of the variables they are
        independent.
    start : array of shape (variables,) or (chains, variables), or data frame, optional
        Default: uniformly drawn states. Those without probability are drawn again; where this does
        not help, possible states are drawn from the model itself.
    evidence : mapping, or array of shape (variables,) with NaN, optional
        What `FactorGraph.condition` or `Circuit.condition` take.
    progress : bool
        Whether a progress bar appears, on terminals and after a second.

    Returns
    -------
    int array
        Rows are states. ``samples.reshape(-1, samples.shape[-1])`` puts the chains below one
        another.

    Warns
    -----
    ReducibleWarning
        If zeros of the model keep single-site moves from some of its states, or may do so; see
        `irreducible`.

    See Also
    --------
    collapsed_gibbs : With some variables marginalised.

    Notes
    -----
    The conditional of a variable depends only on the variables that share a factor with it. Where
    these have few joint states, all conditionals are tabulated at the first visit, and a step is
    a look-up: about a microsecond for one chain. Others are evaluated from the factors that touch
    the variable. Circuits with up to 65 536 states are tabulated as a whole; in larger ones
    conditionals are evaluated, one batch for all chains, and remembered.

    References
    ----------
    S. Geman and D. Geman, "Stochastic relaxation, Gibbs distributions, and the Bayesian
    restoration of images", IEEE TPAMI 6, 1984.

    Examples
    --------
    >>> from expectedkernels.datasets import ising_grid
    >>> grid = ising_grid(4, 4, rng=0)
    >>> samples = gibbs(grid, 500, burn_in=2000, thin=100, rng=0)
    >>> samples.shape
    (500, 16)
    >>> circuit = grid.circuit()
    >>> exact = np.array([table[1] for table in circuit.marginals()])
    >>> bool(np.abs(samples.mean(axis=0) - exact).max() < 0.1)
    True
    """
    settings = n, burn_in, thin, rng, scan, chains, start, evidence, progress
    return _run("gibbs", target, (), *settings)[0]


def collapsed_gibbs(
    target: TargetLike,
    n: int,
    collapsed: VariablesLike,
    burn_in: int = 0,
    thin: int = 1,
    rng: RngLike = None,
    *,
    scan: str = "systematic",
    chains: int = 1,
    start: RowsLike | None = None,
    evidence: EvidenceLike | None = None,
    progress: bool = True,
) -> Array:
    r"""States of a Gibbs sampler of the marginal of some variables, NaN at the collapsed ones.

    The collapsed variables c are marginalised exactly. A step samples one of the others, s,
    from :math:`p(x_i \mid x_{s \setminus i}) \propto \sum_{x_c} p(x_c, x_s)`. The rows are ready
    for `collapsed_bbis`; as evidence on a circuit they give the exact conditionals of what is
    collapsed.

    Parameters
    ----------
    target : FactorGraph, BayesianNetwork or Circuit
        Real variables of a circuit can be collapsed, but not sampled.
    n : int
        The number of states that are recorded, for each chain.
    collapsed : set of int or str, or array of bool
        The variables to marginalise: numbers or names, or a mask with one entry per variable.
    burn_in, thin, rng, scan, chains, start, evidence, progress
        As for `gibbs`. Only sampled variables are visited, and entries of `start` at collapsed ones
        are not looked at.

    Returns
    -------
    float array of shape (n, variables), or (chains, n, variables) for several chains

    Warns
    -----
    ReducibleWarning
        As for `gibbs`, for the possible states of the sampled variables.

    See Also
    --------
    gibbs : With nothing marginalised.

    Notes
    -----
    In a factor graph, collapsed variables that are connected through one another are
    replaced by one factor over the sampled variables around them, by the circuit of the factors
    involved. Where it would have more than 65 536 entries, it is
    evaluated on the circuit instead, one batch for all chains and states of
    the variable, and conditionals are remembered.

    Deterministic variables keep single-site moves from changing anything around them. Collapsed,
    they do no harm: in the network below, `gibbs` would never leave the patients who
    have either disease, or those who have none.

    Examples
    --------
    >>> from expectedkernels.datasets import asia
    >>> network = asia()
    >>> rows = collapsed_gibbs(network, 1000, {"either"}, burn_in=2000, thin=20, rng=0)
    >>> rows[0].tolist()
    [1.0, 1.0, 0.0, 1.0, 1.0, nan, 1.0, 1.0]
    >>> circuit = network.circuit()
    >>> float(circuit.marginals(rows)[5][:, 0].mean().round(2))  # exact: 0.065
    0.07
    """
    settings = n, burn_in, thin, rng, scan, chains, start, evidence, progress
    states, sampled = _run("collapsed_gibbs", target, collapsed, *settings)
    rows = np.full(states.shape, np.nan)
    rows[..., sampled] = states[..., sampled]
    return rows


def irreducible(
    target: TargetLike, collapsed: VariablesLike = (), evidence: EvidenceLike | None = None
) -> Verdict:
    """Whether single-site moves lead from every possible state to every other, with the reason.

    If they do, the frequencies of a Gibbs sampler approach the probabilities of the model.

    Parameters
    ----------
    target : FactorGraph, BayesianNetwork or Circuit
        The distribution that the chain samples.
    collapsed, evidence
        As for `collapsed_gibbs` and `gibbs`.

    Returns
    -------
    Verdict
        Undecided if there are zeros and more than 65 536 states to look at. Variables of a
        factor graph are grouped by the factors with zeros, and every group is decided on its own.

    Examples
    --------
    >>> from expectedkernels.datasets import asia
    >>> irreducible(asia())
    no: zeros over the variables 'tub', 'lung', 'either' split the possible states into 2 classes,
    and single-site moves do not lead from one to another
    >>> bool(irreducible(asia(), collapsed={"either"}))
    True
    """
    return sampled_model(target, collapsed, evidence, "irreducible").connectivity().verdict()


def _run(what: str, target: Any, collapsed: Any, *settings: Any) -> tuple[Any, list[int]]:
    """The recorded states of chains, zero at collapsed variables, and the sampled variables."""
    n, burn_in, thin, rng, scan, chains, start, evidence, progress = settings
    model = sampled_model(target, collapsed, evidence, what)
    counts = {"n": (n, 0), "burn_in": (burn_in, 0), "thin": (thin, 1), "chains": (chains, 1)}
    for name, (number, least) in counts.items():
        checks.check_count(what, name, number, least)
    checks.check_choice(what, "scan", scan, ("systematic", "random"))
    generator = arrays.as_generator(rng)
    X = _read_starts(model, chains, start) if start is not None else None
    X = _draw_starts(model, chains, generator) if X is None else X
    connectivity = model.connectivity()
    connectivity.warn()
    shape = (n, chains, model.schema.n_variables)
    size = f"An array of {n * chains} samples"
    arrays.require_memory(8.0 * prod(shape), size, "Record fewer: raise 'thin'.")
    recorded = np.empty(shape, dtype=np.int64)
    sites: list[Any] = model.sites
    steps, due = burn_in + n * thin if n and sites else 0, burn_in + thin
    # look-ups in lists take less time than array calls
    few = chains <= FEW_CHAINS and all(isinstance(site, TableSite) for site in sites)
    states = X.tolist() if few else X
    with checks.progress_bar(steps, "Gibbs sampling", quiet=not progress) as bar:
        draws = _draws(generator, steps, len(sites), chains, scan, bar)
        for step, (visit, u) in enumerate(draws, 1):
            site = sites[visit]
            variable = site.variable
            if few:
                draw = site.draw_one
                for state, position in zip(states, u.tolist(), strict=True):
                    state[variable] = draw(state, position)
            else:
                X[:, variable] = site.draw(X, u)
            if step == due:
                recorded[(step - burn_in) // thin - 1] = states
                due += thin
    if connectivity.zeros is None and any(site.met_zero for site in sites):
        replace(connectivity, zeros=True).warn()
    if steps == 0:
        recorded[:] = X
    found = recorded[:, 0] if chains == 1 else np.ascontiguousarray(recorded.transpose(1, 0, 2))
    return found, model.sampled


def _draws(rng: Any, steps: int, n_sites: int, chains: int, scan: str, bar: Any) -> Iterator[Any]:
    """For every step the site it visits, and a number in [0, 1) for each chain.

    Numbers of a step lie side by side in the stream, so that more steps do not change the first
    ones.
    """
    shuffled = int(scan == "random")
    size = max(1, BLOCK // (chains + shuffled))
    for first in range(0, steps, size):
        last = min(first + size, steps)
        numbers = rng.random((last - first, chains + shuffled))
        if shuffled:
            visits = (numbers[:, 0] * n_sites).astype(np.intp)
        else:
            visits = np.arange(first, last) % n_sites
        yield from zip(visits.tolist(), numbers[:, shuffled:], strict=True)
        bar.update(last - first)


def _draw_starts(model: SampledModel, chains: int, generator: Any) -> Any:
    """Uniformly drawn states, drawn again (in the end from the model) if they are impossible."""
    free: Any = [site.variable for site in model.sites]
    X = np.zeros((chains, model.schema.n_variables), dtype=np.int64)
    X[:, list(model.fixed)] = list(model.fixed.values())
    bad = np.ones(chains, dtype=np.bool_)
    for _ in range(1 + UNIFORM_TRIES):
        sizes = [model.schema.cardinalities[v] for v in free]
        X[np.ix_(bad, free)] = generator.integers(sizes, size=(int(bad.sum()), len(free)))
        bad = ~(log_sum(model.terms, X) > -np.inf)
        if not bad.any():
            return X
    states = model.possible(int(bad.sum()), generator)
    sampled: Any = model.sampled
    X[np.ix_(bad, sampled)] = states[:, sampled]
    return X


def _read_starts(model: SampledModel, chains: int, start: Any) -> Any:
    """The given states, checked: inside the domain, as observed, and possible."""
    n, table = model.schema.n_variables, as_table(start)
    rows = np.array(model.schema.read_frame(table) if is_frame(table) else as_floats(table))
    if rows.shape not in ((n,), (chains, n)):
        what = f"The 'start' must be one state, of shape ({n},), or one per chain, ({chains}, {n})"
        raise DataError(f"{what}. Got shape {rows.shape}.")
    rows = np.broadcast_to(rows, (chains, n)).copy()
    rows[:, sorted(set(range(n)) - set(model.sampled))] = 0.0
    X = as_points(rows, model.schema.cardinalities, "The 'start'").astype(np.int64)
    for v, state in model.fixed.items():
        if (X[:, v] != state).any():
            what = f"The 'start' must agree with the evidence. Variable {v} can only be {state}"
            raise checks.EvidenceError(f"{what}, and starts at {int(X[X[:, v] != state][0, v])}.")
    possible = log_sum(model.terms, X) > -np.inf
    if not possible.all():
        row = int(np.argmin(possible))
        raise DataError(
            f"The 'start' must have positive probability. Chain {row} would start at the "
            f"impossible state {X[row].tolist()}; leave 'start' out to have one found."
        )
    return X


@dataclass(frozen=True, eq=False)
class Term:
    """The logarithm of a factor: a table, or a function of rows of all variables."""

    scope: tuple[int, ...]  # increasing
    logs: Any  # an array with one axis per variable, or a function

    @property
    def is_table(self) -> bool:
        """Whether it is a table."""
        return not callable(self.logs)

    def at(self, X: Any) -> Any:
        """The logarithms at rows of states, (n,)."""
        return self.logs[tuple(X[:, v] for v in self.scope)] if self.is_table else self.logs(X)


def log_sum(terms: Sequence[Term], X: Any) -> Any:
    """The sum of terms at rows of states, (n,)."""
    return sum((term.at(X) for term in terms), np.zeros(len(X)))


def sum_tables(terms: Iterable[Term], axes: Sequence[int], cardinalities: Sequence[Any]) -> Any:
    """The sum of tables over all states of some variables, increasing, one axis for each."""
    total = np.zeros([cardinalities[v] for v in axes])
    for term in terms:
        total += term.logs.reshape([cardinalities[v] if v in term.scope else 1 for v in axes])
    return total


def log_tables(model: FactorGraph) -> list[Term]:
    """The factors of a model as tables, without axes of variables with one state."""
    terms, cards = [], model.cardinalities
    for factor in model.factors:
        order = sorted(range(len(factor.scope)), key=factor.scope.__getitem__)
        scope = tuple(v for v in sorted(factor.scope) if cards[v] > 1)
        with np.errstate(divide="ignore"):
            logs = np.asarray(np.log(factor.table.transpose(order)))
        terms.append(Term(scope, logs.reshape([cards[v] for v in scope])))
    return terms


class TableSite:
    """A variable whose full conditional is tabulated for all states of its Markov blanket.

    A chain visits the same few states of a blanket over and over. With all conditionals at hand a
    visit is one look-up in a table of cumulative probabilities, without any arithmetic on
    factors: about a microsecond for one chain. The terms are those of the variable.
    """

    met_zero = False  # which is known before: tables are looked at as a whole

    def __init__(self, variable: int, blanket: list[int], cards: Any, terms: Any) -> None:
        self.variable, self.blanket, self._cards, self._terms = variable, blanket, cards, terms

    @cached_property
    def _table(self) -> tuple[Any, Any, tuple[Any, list[tuple[int, int]], int]]:
        """Cumulative probabilities of all states but the last by blanket, and strides of blankets.

        Made at the first visit, as arrays and for single chains as lists.
        """
        axes = sorted([*self.blanket, self.variable])
        logs = sum_tables(self._terms, axes, self._cards)
        logs = np.moveaxis(logs, axes.index(self.variable), -1)
        strides = np.cumprod([1, *logs.shape[-2:0:-1]])[::-1][: len(self.blanket)]
        chances = from_logs(logs.reshape(-1, logs.shape[-1]))
        edges: Any = np.ascontiguousarray(arrays.cumulative(chances))
        width, flat = edges.shape[1], memoryview(edges.reshape(-1))
        steps = list(zip(self.blanket, (strides * width).tolist(), strict=True))
        return edges, strides.astype(np.intp), (flat, steps, width)

    def draw_one(self, state: list[int], u: float) -> int:
        """The state of the variable at position u of its conditional, for one chain as a list."""
        _, _, (flat, steps, width) = self._table
        at = 0
        for v, step in steps:
            at += step * state[v]
        return bisect_right(flat, u, at, at + width) - at

    def draw(self, X: Any, u: Any) -> Any:
        """The state of the variable at positions u of its conditionals, for rows of chains."""
        edges, strides, _ = self._table
        return inverse_cdf(edges[X[:, self.blanket] @ strides], u)


class EvaluatedSite:
    """A variable whose full conditional is evaluated when a chain comes by, and cached.

    It depends on `others`; `logs` leads from rows to its logs up to a constant, (n, cardinality).
    Without `others` nothing is cached.
    """

    def __init__(self, variable: int, others: Any, logs: Callable[[Any], Any]) -> None:
        self.variable, self.others, self._logs = variable, others, logs
        self._cache: dict[bytes, Any] = {}
        self.met_zero = False

    def draw(self, X: Any, u: Any) -> Any:
        """The state of the variable at positions u of its conditionals, for rows of chains."""
        if self.others is None:
            return inverse_cdf(self.evaluated(X), u)
        keys = [row.tobytes() for row in np.ascontiguousarray(X[:, self.others])]
        new = {key: row for row, key in enumerate(keys) if key not in self._cache}
        if len(self._cache) + len(new) > CACHED:
            self._cache = {key: self._cache[key] for key in keys if key not in new}
        if new:
            self._cache.update(zip(new, self.evaluated(X[list(new.values())]), strict=True))
        return inverse_cdf(np.stack([self._cache[key] for key in keys]), u)

    def evaluated(self, X: Any) -> Any:
        """The cumulative probabilities of all states but the last, for rows of chains."""
        logs = np.asarray(self._logs(X), dtype=np.float64)
        impossible = ~(logs.max(axis=1) > -np.inf)
        if impossible.any():
            rule = f"Variable {self.variable} has no possible state given the others"
            at = X[np.argmax(impossible)].tolist()
            raise DataError(f"{rule}. Give a 'start' that is possible: a chain is at {at}.")
        self.met_zero |= bool((logs == -np.inf).any())
        return arrays.cumulative(from_logs(logs))


def _sites(cardinalities: Sequence[Any], terms: Sequence[Term], free: Sequence[int]) -> list[Any]:
    """The full conditionals of some variables of a product: tables where these are small."""
    sites: dict[int, Any] = {}
    found = []
    for v in free:
        own = [term for term in terms if v in term.scope]
        blanket = sorted({u for term in own for u in term.scope} - {v})
        found.append((prod(cardinalities[u] for u in (v, *blanket)), v, blanket, own))
    left = ALL_ENTRIES
    for size, v, blanket, own in sorted(found, key=lambda item: item[0]):
        if all(term.is_table for term in own) and size <= min(SITE_ENTRIES, left):
            left -= size
            sites[v] = TableSite(v, blanket, cardinalities, own)
        else:
            logs = partial(conditional_logs, partial(log_sum, own), v, cardinalities[v])
            sites[v] = EvaluatedSite(v, blanket, logs)
    return [sites[v] for v in free]


def conditional_logs(logs: Callable[[Any], Any], variable: int, card: int, X: Any) -> Any:
    """The sum of terms at rows with one variable in each of its states, (n, states)."""
    rows = np.repeat(X, card, axis=0)
    rows[:, variable] = np.tile(np.arange(card), len(X))
    return logs(rows).reshape(len(X), card)


@dataclass(frozen=True, eq=False)
class SampledModel:
    """The marginal of the sampled variables of a target, known up to a constant."""

    schema: Any
    sampled: list[int]  # the variables that are not collapsed
    fixed: dict[int, int]  # those of them with a single possible state, and the state
    terms: list[Term]  # whose sum is the log-probability; empty if only conditionals are known
    sites: list[Any]  # one per sampled variable that is not fixed
    possible: Callable[[int, Any], Any]  # so many rows of positive probability
    connectivity: Callable[[], Connectivity]  # which states single-site updates connect


def require_target(target: Any) -> None:
    """Raise unless this is a distribution whose full conditionals are known."""
    if not (hasattr(target, "site_logs") and hasattr(target, "cardinalities")):
        wrap = " Wrap it: Target(log_prob, cardinalities)." if callable(target) else ""
        raise DataError(
            "The target must be a FactorGraph, a BayesianNetwork, a Circuit, or a Target made of a "
            f"function. Got {type(target).__name__} instead.{wrap}"
        )


def sampled_model(given: Any, collapsed: Any, evidence: Any, what: str) -> SampledModel:
    """The marginal of the variables that are not collapsed, given evidence."""
    target = as_target(given)
    require_target(target)
    schema, hidden = schema_of(target), variables_of(target, collapsed)
    if not isinstance(target, (Circuit, FactorGraph)) and (evidence is not None or hidden):
        raise checks.CircuitError(
            f"Evidence and collapsed variables need a FactorGraph or a Circuit as the target of "
            f"{what}: others cannot be summed over exactly. Got {type(target).__name__}."
        )
    fixed = {v: 0 for v, card in enumerate(schema.cardinalities) if card == 1}
    if evidence is not None:
        read = as_evidence(evidence, schema)
        for v in range(schema.n_variables if read.n_rows == 1 else 0):
            weights = read.column(v).weights
            if weights is None or weights.shape[1] == 1:
                continue
            states = np.flatnonzero(weights[read.column(v).codes[0]])
            if len(states) == 1 and v in hidden:
                rule = f"V{schema.call(v)[1:]} is observed and collapsed at once"
                advice = "Leave it out of the evidence or out of the collapsed variables"
                raise checks.EvidenceError(f"{rule}. {advice}.")
            if len(states) == 1:  # one state is left
                fixed[v] = int(states[0])
    if isinstance(target, FactorGraph):
        parts = _of_factors(target, hidden, evidence, fixed)
    elif isinstance(target, Circuit):
        parts = _of_circuit(target, hidden, evidence, fixed, what)
    else:
        parts = _of_function(target)
    sampled = [v for v in range(schema.n_variables) if v not in hidden]
    fixed = {v: state for v, state in fixed.items() if v not in hidden}
    free = [v for v in sampled if v not in fixed]
    sites = _sites(schema.cardinalities, parts[0], free)
    if not isinstance(target, (Circuit, FactorGraph, Target)):
        sites = [EvaluatedSite(v, None, partial(target.site_logs, variable=v)) for v in free]
    return SampledModel(schema, sampled, fixed, parts[0], sites, *parts[1:])


Parts = tuple[list[Term], Callable[[int, Any], Any], Callable[[], Any]]
"""The terms of a sampled model, what samples possible states, and which states are connected."""


def _of_function(target: Any) -> Parts:
    """A function of complete states; of other targets only the conditionals are known."""
    if None in target.cardinalities:
        what = "Gibbs updates are of discrete variables, and this target is over the reals"
        raise PropertyError(f"{what}. Sample it elsewhere; bbis, stein_thin and kdsd take samples.")
    every = tuple(range(len(target.cardinalities)))
    terms = [Term(every, target.log_prob)] if isinstance(target, Target) else []

    def possible(n: int, rng: Any) -> Any:
        """Some of all states that are possible, or of many random ones."""
        cards = target.cardinalities
        few = prod(cards) <= TABLE_STATES
        size = (RANDOM_STATES, len(cards))
        rows = every_state(cards) if few else rng.integers(cards, size=size)
        good = rows[target.log_prob(rows) > -np.inf]
        if not len(good):
            states, advice = "random ones", "Give a possible one as 'start'."
            if few:
                states, advice = "all", "The target is zero everywhere."
            what = f"The log_prob of the target is -inf at {len(rows)} states ({states})"
            raise DataError(f"{what}, so that there is no state to start from. {advice}")
        return good[rng.integers(len(good), size=n)]

    return terms, possible, partial(Connectivity, None, None)


def _of_circuit(target: Circuit, hidden: Any, evidence: Any, fixed: Any, what: str) -> Parts:
    """The likelihood of a circuit, as a table if there are few states."""
    circuit, cards = target.to("numpy"), target.cardinalities
    circuit.require_single_root("Gibbs sampling")
    refuse_signed(circuit, "Gibbs sampling")
    free = [v for v in range(len(cards)) if v not in hidden and v not in fixed]
    for v in free:
        if cards[v] is None:
            raise PropertyError(
                f"{what} updates discrete variables. Variable {v} is real; it can be marginalised "
                "with collapsed_gibbs(..., collapsed=...)."
            )
    circuit = circuit if evidence is None else circuit.condition(evidence)

    def logs(X: Any) -> Any:
        rows = np.array(X, dtype=np.float64)
        rows[:, list(hidden)] = np.nan
        return circuit.log_likelihood(rows)

    term = _tabulated(free, logs, cards, fixed)

    def connectivity() -> Connectivity:
        if term.is_table:
            return connectivity_of([term], (), target.schema)
        positive = is_positive(circuit, free)
        return Connectivity(1 if positive else None, None if positive is None else not positive)

    return [term], circuit.sample, connectivity


def _tabulated(scope: Sequence[int], logs: Any, cards: Any, fixed: Mapping[int, int]) -> Term:
    """The logs of rows of all variables, as a table where the states of some are few enough."""
    shape = [cards[v] for v in scope]
    if prod(shape) > TABLE_STATES:
        return Term(tuple(scope), logs)
    rows = np.zeros((prod(shape), len(cards)), order="F")  # columns of zeros take no memory
    rows[:, list(fixed)] = list(fixed.values())
    rows[:, scope] = every_state(shape)
    return Term(tuple(scope), logs(rows).reshape(shape))


def _of_factors(target: FactorGraph, hidden: Any, evidence: Any, fixed: Any) -> Parts:
    """The factors of a model without collapsed variables; notes what they fix."""
    model = target if evidence is None else target.condition(evidence)
    tables = log_tables(model)
    for term in tables:
        states = np.flatnonzero(term.logs > -np.inf)
        if len(term.scope) == len(states) == 1:
            fixed[term.scope[0]] = int(states[0])
    terms = _marginalise(model, tables, hidden)
    if all(term.is_table for term in terms):
        tables = terms

    def possible(n: int, rng: Any) -> Any:
        if isinstance(target, BayesianNetwork):
            rows = factor_graph.forward_samples(target, n * FORWARD_DRAWS, rng, fixed)
            good = rows[model.log_score(rows) > -np.inf]
            if len(good) >= n:
                return good[:n]
        try:
            return model.sample(n, rng=rng)
        except SizeError as error:
            raise checks.CircuitError(
                "No state with positive probability was found to start from, and the model is too "
                "large to sample. Give one as 'start'."
            ) from error

    return terms, possible, partial(connectivity_of, tables, hidden, model.schema, model)


def _marginalise(model: FactorGraph, tables: list[Term], hidden: Collection[int]) -> list[Term]:
    """The terms of the marginal without the collapsed variables.

    Collapsed variables that are connected through collapsed ones are marginalised together: the
    result is a term over the sampled variables around them, a table if these have few states.
    """
    cards = model.cardinalities
    hidden = {v for v in hidden if cards[v] > 1}
    terms = [term for term in tables if not hidden.intersection(term.scope)]
    linked = [[v for v in factor.scope if v in hidden] for factor in model.factors]
    for part in map(set, components(linked, sorted(hidden))):
        inside = [f for f in model.factors if part.intersection(f.scope)]
        scope = sorted({v for f in inside for v in f.scope})
        around = [v for v in scope if v not in part and cards[v] > 1]
        if not around:
            continue
        place = {v: i for i, v in enumerate(scope)}
        factors = [Factor([place[v] for v in f.scope], f.table) for f in inside]
        local, gone = FactorGraph([cards[v] for v in scope], factors), [place[v] for v in part]
        try:
            logs: Any = local.circuit().log_likelihood
        except SizeError:  # too large as a whole: only the collapsed variables have to be summed
            logs = CollapsedModel(local, gone, shared=False).log_marginal

        def marginal(X: Any, logs: Any = logs, scope: Any = scope, gone: Any = gone) -> Any:
            rows = X[:, scope].astype(np.float64)
            rows[:, gone] = np.nan
            return logs(rows)

        terms.append(_tabulated(around, marginal, cards, {}))
    return terms


def every_state(cardinalities: Sequence[Any]) -> Any:
    """All states of some variables, one per row, the last varying fastest.

    Examples
    --------
    >>> every_state([2, 2]).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    n = prod(cardinalities)
    return np.indices(tuple(cardinalities)).reshape(len(cardinalities), n).T


@public
class ReducibleWarning(UserWarning):
    """Zeros keep a chain of single-site updates from (some of) the possible states.

    Such a chain stays in the class of states it started in, and frequencies do not approach
    probabilities however long it runs.

    Examples
    --------
    >>> import warnings
    >>> from expectedkernels.datasets import asia
    >>> from expectedkernels.sampling.gibbs import gibbs
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = gibbs(asia(), 10, rng=0)
    >>> caught[0].category.__name__
    'ReducibleWarning'
    """


@dataclass(frozen=True)
class Connectivity:
    """Which possible states single-site updates connect."""

    # the number of classes of possible states that updates do not leave, None if it is not known
    classes: int | None
    zeros: bool | None  # whether there are states without probability, None if it is not known
    variables: str = ""  # where the zeros are that separate classes, or may do so
    # variables with which, once they are collapsed, a single class is left, if some were found
    remedy: str = ""

    def verdict(self) -> Verdict:
        """Whether all possible states communicate, with the reason."""
        if self.classes == 1:
            return Verdict(True, "single-site moves connect all possible states")
        there = "there are" if self.zeros else "it is not known whether there are"
        reason = f"{there} zeros{self.variables}; there are too many states to look at each"
        if self.classes is not None:
            reason = f"zeros{self.variables} split the possible states into {self.classes} classes"
            reason += ", and single-site moves do not lead from one to another"
        return Verdict(None if self.classes is None else False, reason)

    def warn(self) -> None:
        """Warn if classes of states do not communicate, or may not, and say what to do."""
        if self.classes == 1 or not self.zeros:
            return
        split = f"Zeros{self.variables} split the possible states into {self.classes} classes"
        if self.classes is None:
            split = f"The model has zeros{self.variables}. They may split its possible states into"
            split += " classes (there are too many states to look at each)"
        remedy = self.remedy or "the variables that are functions of others"
        warnings.warn(
            f"{split} that single-site updates do not leave: a chain stays in the class it starts "
            f"in, and frequencies do not approach probabilities. Marginalise {remedy} with "
            "collapsed_gibbs(..., collapsed=...), replace the zeros by small numbers, or sample "
            "with cis.",
            ReducibleWarning,
            stacklevel=4,
        )


def connectivity_of(
    terms: Sequence[Term], collapsed: Collection[int], schema: Any, model: Any = None
) -> Connectivity:
    """Which states are connected in a product of tables with some variables marginalised.

    Only tables with zeros matter. Where these form groups without a common variable, the possible
    states are all combinations of possible states of the groups, and so are the classes: every
    group is looked at on its own.
    """
    strict = [term for term in terms if (term.logs == -np.inf).any()]
    scopes = [term.scope for term in strict]
    parts = components(scopes, dict.fromkeys(v for scope in scopes for v in scope))
    groups = [[t for t in strict if part.intersection(t.scope)] for part in map(set, parts)]
    cards = schema.cardinalities
    counts = [_count_group(group, collapsed, cards) for group in groups]
    apart = [group for group, count in zip(groups, counts, strict=True) if count != 1]
    if not apart:
        return Connectivity(1, bool(strict))
    # with these, once they are collapsed, a single class may be left
    remedy = set() if model is None else set(determined_variables(model)).difference(collapsed)
    if any(_count_group(group, remedy.union(collapsed), cards) != 1 for group in apart):
        remedy = set()
    classes = None if None in counts else prod(filter(None, counts))

    def listed(variables: Collection[int]) -> str:
        shown = [repr(schema.name(v)) for v in sorted(variables)]
        return ", ".join(shown[:8]) + (", ..." if len(shown) > 8 else "")

    where = {v for group in apart for term in group for v in term.scope}
    return Connectivity(classes, True, f" over the variables {listed(where)}", listed(remedy))


def _count_group(terms: Sequence[Term], collapsed: Collection[int], cards: Any) -> int | None:
    """The number of classes of the possible states of some tables, None if there are too many."""
    scope = sorted({v for term in terms for v in term.scope})
    if prod(cards[v] for v in scope) > SUPPORT_STATES:
        return None
    possible = sum_tables(terms, scope, cards) > -np.inf
    return count_classes(possible.any(axis=tuple(i for i, v in enumerate(scope) if v in collapsed)))


def count_classes(possible: Any) -> int:
    """The number of connected parts of a set of states, linked if they differ in one place.

    The set is an array of booleans with one axis per variable.

    Examples
    --------
    >>> count_classes(np.eye(3, dtype=bool))
    3
    >>> count_classes(np.tri(3, dtype=bool))
    1
    """
    possible = np.atleast_1d(possible)
    states, index = np.flatnonzero(possible), np.array(np.nonzero(possible))
    strides = np.array(possible.strides) // possible.itemsize
    # every state is linked to the lines through it, one along each axis
    first = possible.size * np.arange(1, 1 + possible.ndim)[:, None]
    lines = states - index * strides[:, None] + first
    links = np.tile(states, possible.ndim), lines.reshape(-1)
    size = possible.size * (1 + possible.ndim)
    graph = sparse.coo_array((np.ones(len(links[0]), dtype=np.int8), links), shape=(size, size))
    return len(np.unique(connected_components(graph, directed=False)[1][states]))


def determined_variables(target: FactorGraph) -> list[int]:
    """The variables to marginalise so that zeros of a model's tables are not met.

    In a Bayesian network these are the variables whose tables have zeros. In other factor graphs,
    for every table with zeros, the variable is taken whose sum leaves fewest of them.

    Parameters
    ----------
    target : FactorGraph
        The model whose tables have zeros.

    Returns
    -------
    list of int

    Raises
    ------
    PropertyError
        If it is given something else than a FactorGraph.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> asia = ek.asia()
    >>> [asia.names[v] for v in determined_variables(asia)]
    ['either']
    """
    if not isinstance(target, FactorGraph):
        what = "Variables that others determine are found by the tables of a FactorGraph"
        raise PropertyError(f"{what}. Got {type(target).__name__}; name them in 'collapsed'.")
    chosen: set[int] = set()
    for factor in target.factors:
        table = factor.table
        if (table > 0).all() or not factor.scope:
            continue
        if isinstance(target, BayesianNetwork):
            chosen.add(factor.scope[-1])
            continue
        summed = tuple(axis for axis, v in enumerate(factor.scope) if v in chosen)
        left = table.sum(axis=summed, keepdims=True)
        if (left > 0).all():
            continue
        others = [axis for axis in range(table.ndim) if axis not in summed]
        zeros_left = [int((left.sum(axis=axis) == 0).sum()) for axis in others]
        chosen.add(factor.scope[others[int(np.argmin(zeros_left))]])
    return sorted(chosen)


def is_positive(circuit: Circuit, variables: Sequence[int] | None = None) -> bool | None:
    """Whether all states of some variables are possible, by tables or counts; None if not known.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> is_positive(ek.factorized([[0.5, 0.5]])), is_positive(ek.factorized([[1.0, 0.0]]))
    (True, False)
    """
    every = range(circuit.n_variables) if variables is None else variables
    inputs: list[Any] = [circuit.input(v) for v in every]
    if all((block.table > 0).all() for block in inputs):
        return True
    pairs = sum(block.width**2 for block in circuit.blocks)
    try:
        if None in circuit.cardinalities or pairs > PRODUCT_PAIRS or not deterministic(circuit):
            return None
    except SizeError:
        return None
    return support_size(circuit) == prod(block.cardinality for block in inputs)


def support_size(circuit: Circuit) -> int:
    """How many states are possible in a deterministic circuit over discrete variables.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> support_size(ek.factorized([[0.5, 0.5, 0.0], [1.0, 0.0]]))
    2
    """
    blocks = circuit.to("numpy").blocks

    def inner(node: int, left: Any, right: Any) -> Any:
        (a, b), (_, starts) = blocks[node].inputs, blocks[node].flat
        terms = np.append((left[a] * right[b])[blocks[node].columns], 0)
        return np.add.reduceat(terms, starts[:-1]) * (np.diff(starts) > 0)

    def leaf(node: int, _: int) -> Any:  # the numbers of Python are exact
        return (blocks[node].table != 0).sum(axis=1).astype(object)

    return int(from_leaves(circuit.vtree, leaf, inner)[-1][0])
