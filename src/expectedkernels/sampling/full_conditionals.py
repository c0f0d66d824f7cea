"""Full conditionals of targets, and states that Gibbs sampling reaches."""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import log, prod
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from expectedkernels.algebra import power
from expectedkernels.arrays import cumulative, drawn, from_logs
from expectedkernels.checks import (
    CircuitError,
    DataError,
    EvidenceError,
    PropertyError,
    SizeError,
    Verdict,
    public,
)
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.operands import check_single_root
from expectedkernels.circuits.queries import refuse_signed
from expectedkernels.circuits.sample_map import deterministic
from expectedkernels.data.evidence import as_evidence
from expectedkernels.kernels.empirical import variables_of
from expectedkernels.kernels.target import Target, as_target
from expectedkernels.models.clique_tree import LogFactor
from expectedkernels.models.factor_graph import (
    BayesianNetwork,
    CollapsedModel,
    Factor,
    FactorGraph,
    forward_samples,
)
from expectedkernels.vtrees import components

SITE_ENTRIES = 2**16
"""A conditional is tabulated if its table has at most this many entries."""

ALL_ENTRIES = 2**23
"""All tables of a model together have at most this many entries (64 MiB)."""

REMEMBERED = 2**18
"""How many evaluated conditionals are kept at a time."""


class TableSite:
    """A variable whose conditionals are tabulated for all states of its Markov blanket.

    A chain visits the same few states of a blanket over and over. With all conditionals at hand a
    visit is one look-up in a table of cumulative probabilities, without any arithmetic on
    factors: about a microsecond for one chain. The factors are those of the variable.
    """

    def __init__(
        self, variable: int, cardinalities: Sequence[Any], factors: Sequence[LogFactor]
    ) -> None:
        self.variable = variable
        self.blanket = blanket(variable, factors)
        self._shape = [cardinalities[v] for v in self.blanket]
        self._width = cardinalities[variable] - 1
        self._factors = factors

    @cached_property
    def edges(self) -> Any:
        """Cumulative probabilities of all states but the last, (blanket states, cardinality - 1).

        Made at the first visit.
        """
        logs = np.zeros((*self._shape, self._width + 1))
        for factor in self._factors:
            sizes = zip(self.blanket, self._shape, strict=True)
            inside = [n if v in factor.scope else 1 for v, n in sizes]
            along = np.moveaxis(factor.logs, factor.scope.index(self.variable), -1)
            logs += along.reshape(*inside, self._width + 1)
        return cumulative(from_logs(logs.reshape(-1, self._width + 1)))

    @cached_property
    def _strides(self) -> Any:
        steps = np.cumprod([1, *self._shape[:0:-1]])[::-1]
        return np.asarray(steps[: len(self.blanket)], dtype=np.intp)

    @cached_property
    def _flat(self) -> tuple[Any, list[tuple[int, int]]]:
        steps = (self._strides * self._width).tolist()
        flat: Any = np.ascontiguousarray(self.edges).reshape(-1)
        return memoryview(flat), list(zip(self.blanket, steps, strict=True))

    def draw_one(self, state: list[int], u: float) -> int:
        """The state of the variable at position u of its conditional, for one chain as a list."""
        edges, terms = self._flat
        at = 0
        for v, step in terms:
            at += step * state[v]
        return bisect_right(edges, u, at, at + self._width) - at

    def draw(self, X: Any, u: Any) -> Any:
        """The state of the variable at positions u of its conditionals, for rows of chains."""
        at = X[:, self.blanket] @ self._strides
        return drawn(self.edges[at], u)


class Memory:
    """Conditionals that were evaluated before, up to a number; and whether one had a zero."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, bytes], Any] = {}
        self.met_zero = False


class EvaluatedSite:
    """A variable whose conditionals are evaluated when a chain comes by, and remembered.

    They depend on `others`. `logs` leads from rows to logs of conditionals up to a constant, (n,
    cardinality), and all sites share one memory.
    """

    def __init__(
        self,
        variable: int,
        others: Sequence[int],
        logs: Callable[[Any], Any],
        memory: Memory,
        remember: bool = True,
    ) -> None:
        self.variable, self.others, self._logs = variable, list(others), logs
        self._memory, self._remember = memory, remember

    def draw(self, X: Any, u: Any) -> Any:
        """The state of the variable at positions u of its conditionals, for rows of chains."""
        edges = self._recalled(X) if self._remember else self._evaluated(X)
        return drawn(edges, u)

    def _evaluated(self, X: Any) -> Any:
        logs = np.asarray(self._logs(X), dtype=np.float64)
        top = logs.max(axis=1)
        if not (top > -np.inf).all():
            row = int(np.flatnonzero(~(top > -np.inf))[0])
            raise DataError(
                f"Variable {self.variable} has no possible state given the others: a chain is at "
                f"{X[row].tolist()}, a state without probability. Give a 'start' that is possible."
            )
        self._memory.met_zero |= bool((logs == -np.inf).any())
        return cumulative(from_logs(logs))

    def _recalled(self, X: Any) -> Any:
        known = self._memory.known
        seen = np.ascontiguousarray(X[:, self.others])
        keys = [(self.variable, row.tobytes()) for row in seen]
        new = {key: row for row, key in enumerate(keys) if key not in known}
        found = {}
        if new:
            found = dict(zip(new, self._evaluated(X[list(new.values())]), strict=True))
        edges = np.stack([found[key] if key in found else known[key] for key in keys])
        if len(known) + len(found) > REMEMBERED:
            known.clear()
        known.update(found)
        return edges


Site = TableSite | EvaluatedSite


def blanket(variable: int, factors: Sequence[Any]) -> list[int]:
    """The variables that share one of the factors with the variable, in increasing order."""
    return sorted({v for factor in factors for v in factor.scope} - {variable})


@dataclass(frozen=True, eq=False)
class Summed:
    """A factor without a table: what is left of others once collapsed variables are summed out."""

    scope: tuple[int, ...]
    logs: Callable[[Any], Any]  # from rows to the log of the factor at each


AnyFactor = LogFactor | Summed


def factor_sites(
    cardinalities: Sequence[Any],
    factors: Sequence[AnyFactor],
    free: Sequence[int],
    memory: Memory,
) -> list[Site]:
    """The sites of some variables of a product of factors: tables where these are small."""
    touching: dict[int, list[Any]] = {v: [] for v in free}
    for factor in factors:
        for v in factor.scope:
            if v in touching:
                touching[v].append(factor)
    blankets = {v: blanket(v, touching[v]) for v in free}
    sizes = {v: prod(cardinalities[u] for u in (v, *blankets[v])) for v in free}
    left = ALL_ENTRIES
    sites: dict[int, Site] = {}
    for v in sorted(free, key=lambda v: sizes[v]):
        tables = all(isinstance(factor, LogFactor) for factor in touching[v])
        if tables and sizes[v] <= min(SITE_ENTRIES, left):
            left -= sizes[v]
            sites[v] = TableSite(v, cardinalities, touching[v])
        else:
            logs = _along(touching[v], v, cardinalities[v])
            sites[v] = EvaluatedSite(v, blankets[v], logs, memory)
    return [sites[v] for v in free]


def factor_logs(factors: Sequence[AnyFactor], X: Any) -> Any:
    """The sum of the logs of factors at rows of points, (n,)."""
    total = np.zeros(len(X))
    for factor in factors:
        if isinstance(factor, Summed):
            total += factor.logs(X)
        else:
            total += factor.logs[tuple(X[:, v] for v in factor.scope)]
    return total


def _along(factors: Sequence[AnyFactor], variable: int, n_states: int) -> Callable[[Any], Any]:
    """The function that adds factors at rows of points, (n, states) along one variable."""

    def logs(X: Any) -> Any:
        rows = np.repeat(X, n_states, axis=0)
        rows[:, variable] = np.tile(np.arange(n_states), len(X))
        return factor_logs(factors, rows).reshape(len(X), n_states)

    return logs


SUPPORT_STATES = 2**16
"""Up to this many states are looked at one by one."""

PRODUCT_PAIRS = 2**24
"""Determinism is looked into in circuits with at most this many pairs of products to compare."""

CANDIDATES = 16
"""How many variables are tried when one is looked for that should be collapsed."""


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
class Moves:
    """Where single-site moves lead."""

    # the number of classes of possible states that moves do not leave, None if it is not known
    classes: int | None
    zeros: bool | None  # whether there are states without probability, None if it is not known
    variables: tuple[int, ...] = ()  # where the zeros are that separate classes, or may do so
    # variables with which, once they are collapsed, a single class is left; empty if none were
    # found
    remedy: tuple[int, ...] = ()

    def verdict(self, names: Sequence[str] | None = None) -> Verdict:
        """Whether all possible states communicate, with the reason."""
        where = f" over the variables {_listed(self.variables, names)}" if self.variables else ""
        if self.classes is None:
            found = {None: "it is not known whether there are", True: "there are", False: "no"}
            return Verdict(
                None, f"{found[self.zeros]} zeros{where}; there are too many states to look at each"
            )
        if self.classes > 1:
            return Verdict(
                False,
                f"zeros{where} split the possible states into {self.classes} classes, and "
                "single-site moves do not lead from one to another",
            )
        return Verdict(True, "single-site moves connect all possible states")


def moves_of_factors(factors: Sequence[LogFactor], collapsed: Collection[int] = ()) -> Moves:
    """Where single-site moves lead in a product of factors with some variables summed out.

    Only factors with zeros matter. Where these form groups without a common variable, the possible
    states are all combinations of possible states of the groups, and so are the classes: every
    group is looked at on its own.
    """
    strict = [factor for factor in factors if (factor.logs == -np.inf).any()]
    classes: int | None = 1
    where: list[int] = []
    for group in _groups(strict):
        found = _group_classes(group, collapsed)
        if found == 1:
            continue
        where += {v for factor in group for v in factor.scope}
        classes = None if found is None or classes is None else classes * found
    remedy: tuple[int, ...] = ()
    if classes is not None and classes > 1:
        groups = [factor for factor in strict if set(factor.scope) & set(where)]
        remedy = _remedy(groups, collapsed)
    return Moves(classes, bool(strict), tuple(sorted(set(where))), remedy)


def _groups(factors: Sequence[LogFactor]) -> list[list[LogFactor]]:
    """The factors in groups that share no variable."""
    scopes = [factor.scope for factor in factors]
    groups = components(scopes, dict.fromkeys(v for scope in scopes for v in scope))
    return [[f for f in factors if f.scope and f.scope[0] in group] for group in map(set, groups)]


def _group_classes(factors: Sequence[LogFactor], collapsed: Collection[int]) -> int | None:
    """The number of classes of the possible states of some factors, None if there are too many."""
    shape: dict[int, int] = {}
    for factor in factors:
        shape.update(zip(factor.scope, factor.logs.shape, strict=True))
    scope = sorted(shape)
    if prod(shape.values()) > SUPPORT_STATES:
        return None
    possible = np.ones([shape[v] for v in scope], dtype=np.bool_)
    for factor in factors:
        inside = [shape[v] if v in factor.scope else 1 for v in scope]
        possible &= (factor.logs > -np.inf).reshape(inside)
    summed = tuple(axis for axis, v in enumerate(scope) if v in collapsed)
    return count_classes(possible.any(axis=summed))


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
    number = np.full(possible.shape, -1, dtype=np.intp)
    n = int(possible.sum())
    number[possible] = np.arange(n)
    starts, stops = [], []
    for axis, size in enumerate(possible.shape):
        # along the lines of an axis every possible state is linked to the next one
        lines = np.moveaxis(number, axis, -1).reshape(-1)
        at = np.flatnonzero(lines >= 0)
        same = at[1:] // size == at[:-1] // size
        starts.append(lines[at[:-1][same]])
        stops.append(lines[at[1:][same]])
    if not starts:
        return n
    links = np.concatenate(starts), np.concatenate(stops)
    graph = sparse.coo_array((np.ones(len(links[0]), dtype=np.int8), links), shape=(n, n))
    return int(connected_components(graph, directed=False, return_labels=False))


def _remedy(factors: Sequence[LogFactor], collapsed: Collection[int]) -> tuple[int, ...]:
    """Variables that are functions of others and whose collapse leaves one class, if found."""
    groups = _groups(factors)

    def enough(chosen: Sequence[int]) -> bool:
        return all(_group_classes(group, {*collapsed, *chosen}) == 1 for group in groups)

    candidates = [v for v in _functions(factors) if v not in collapsed][:CANDIDATES]
    chosen: list[int] = []
    while not enough(chosen):
        if len(chosen) == len(candidates):
            return ()
        chosen.append(candidates[len(chosen)])
    for v in list(chosen):
        fewer = [u for u in chosen if u != v]
        chosen = fewer if enough(fewer) else chosen
    return tuple(sorted(chosen))


def _functions(factors: Sequence[LogFactor]) -> list[int]:
    """The variables that some factor makes a function of others, later ones first."""
    found = set()
    for factor in factors:
        possible = factor.logs > -np.inf
        for axis, v in enumerate(factor.scope):
            if len(factor.scope) > 1 and (possible.sum(axis=axis) <= 1).all():
                found.add(v)
    return sorted(found, reverse=True)


def moves_of_circuit(circuit: Circuit, free: Sequence[int]) -> Moves:
    """Where single-site moves lead in a circuit with too many states to look at each.

    Positive inputs make a positive circuit. The possible states of a deterministic one are counted
    by its power of zero; zeros are overlooked only if they are less than one state in 10^9. Free
    variables are those with more than one possible state; all are discrete.
    """
    inputs: list[Any] = [circuit.input(v) for v in free]
    if all((block.table > 0).all() for block in inputs):
        return Moves(1, False)
    pairs = sum(block.n_products**2 for block in circuit.operand.inner if block is not None)
    discrete = None not in circuit.cardinalities
    if not (discrete and pairs <= PRODUCT_PAIRS and deterministic(circuit)):
        return Moves(None, None)
    missing = sum(log(block.cardinality) for block in inputs)
    missing -= power(circuit, 0.0).log_partition()
    return Moves(1, False) if abs(missing) < 1e-9 else Moves(None, True)


def warn_reducible(moves: Moves, names: Sequence[str] | None) -> None:
    """Warn if classes of states do not communicate, or may not, and say what to do."""
    if moves.classes == 1 or not moves.zeros:
        return
    where = f" over the variables {_listed(moves.variables, names)}" if moves.variables else ""
    if moves.classes is None:
        text = (
            f"The model has zeros{where}. They may split its possible states into classes that "
            "single-site updates do not leave (there are too many states to look at each); then "
            "frequencies do not approach probabilities."
        )
    else:
        text = (
            f"Zeros{where} split the possible states into {moves.classes} classes that single-site "
            "updates do not leave: a chain stays in the class it starts in, and frequencies do not "
            "approach probabilities."
        )
    what = "the variables that are functions of others"
    if moves.remedy:
        what = _listed(moves.remedy, names)
    warnings.warn(
        f"{text} Sum out {what} with collapsed_gibbs(..., collapsed=...), replace the zeros by "
        "small numbers, or sample with cis.",
        ReducibleWarning,
        stacklevel=4,
    )


def _listed(variables: Sequence[int], names: Sequence[str] | None, limit: int = 8) -> str:
    shown = [str(v) if names is None else repr(names[v]) for v in variables[:limit]]
    return ", ".join(shown) + (", ..." if len(variables) > limit else "")


TABLE_STATES = 2**16
"""Sums over collapsed variables are tabulated for up to this many states of those around them."""

RANDOM_STATES = 2**14
"""How many random states of a function are asked for one with positive probability."""

FORWARD_DRAWS = 256
"""How many samples of a Bayesian network are tried for each start."""


@dataclass(frozen=True, eq=False)
class SampledModel:
    """The marginal of the sampled variables of a target, known up to a constant."""

    cardinalities: tuple[int | None, ...]
    sampled: tuple[int, ...]  # the variables that have values
    fixed: dict[int, int]  # those of them with a single possible state, and the state
    sites: list[Site]  # one per sampled variable that is not fixed
    # from rows to their log-probabilities up to a constant, whatever stands at other variables
    logs: Callable[[Any], Any] | None
    possible: Callable[[int, Any], Any] | None  # so many rows of positive probability
    moves: Callable[[], Moves]  # where single-site moves lead
    names: list[str] | None = None  # the names of the variables
    memory: Memory = field(default_factory=Memory)  # what the sites have met


def sampled_model(given: Any, collapsed: Any, evidence: Any, what: str) -> SampledModel:
    """The marginal of what is not collapsed, given evidence."""
    target = as_target(given)
    if isinstance(target, FactorGraph):
        return _of_factor_graph(target, variables_of(target, collapsed), evidence)
    if isinstance(target, Circuit):
        return _of_circuit(target, variables_of(target, collapsed), evidence, what)
    if not (hasattr(target, "site_logs") and hasattr(target, "cardinalities")):
        wrap = " Wrap it: Target(log_prob, cardinalities)." if callable(target) else ""
        raise CircuitError(
            f"The target of {what} must be a FactorGraph, a BayesianNetwork, a Circuit, or a "
            f"Target made of a function. Got {type(target).__name__} instead.{wrap}"
        )
    if evidence is not None or variables_of(target, collapsed):
        raise CircuitError(
            f"Evidence and collapsed variables need a FactorGraph, a BayesianNetwork or a Circuit "
            f"as the target of {what}: others cannot be summed over exactly. Got "
            f"{type(target).__name__}."
        )
    return _of_function(target)


def _of_function(target: Any) -> SampledModel:
    """A target that tells the log-probability of complete states, or only its conditionals."""
    cards, memory = tuple(target.cardinalities), Memory()
    everything = tuple(range(len(cards)))
    fixed = {v: 0 for v, card in enumerate(cards) if card == 1}
    known = isinstance(target, Target)

    def site(v: int) -> Site:
        others = [u for u in everything if u != v]
        return EvaluatedSite(v, others, lambda X: target.site_logs(X, v), memory, remember=known)

    return SampledModel(
        cards,
        everything,
        fixed,
        [site(v) for v in everything if v not in fixed],
        target.log_prob if known else None,
        _possible_states_of_function(target) if known else None,
        lambda: Moves(None, None),
        list(target.names) if known and target.names is not None else None,
        memory,
    )


def _possible_states_of_function(target: Target) -> Callable[[int, Any], Any]:
    """The function that draws possible states of a function, from all or from many random ones."""
    cards = target.cardinalities
    every = prod(cards) <= TABLE_STATES

    def draw(n: int, rng: Any) -> Any:
        if every:
            rows = _grid(len(cards), range(len(cards)), cards)
        else:
            rows = rng.integers(cards, size=(RANDOM_STATES, len(cards)))
        good = rows[target.log_prob(rows) > -np.inf]
        if not len(good):
            asked = "all" if every else "random ones"
            raise DataError(
                f"The log_prob of the target is -inf at {len(rows)} states ({asked}), so that "
                "there is no state to start from. "
                + ("The target is zero everywhere." if every else "Give a possible one as 'start'.")
            )
        return good[rng.integers(len(good), size=n)]

    return draw


def _of_factor_graph(
    target: FactorGraph, collapsed: Collection[int], evidence: Any
) -> SampledModel:
    model = target
    if evidence is not None:
        model = target.condition(evidence)
        _refuse_both(target, _observed(target, evidence), collapsed)
    cards, n = model.cardinalities, model.n_variables
    sampled = tuple(v for v in range(n) if v not in collapsed)
    everywhere = model.potential.factors
    fixed = _point_masses(cards, everywhere, sampled)
    free = [v for v in sampled if v not in fixed]
    possible = _possible_states(target, model, fixed)
    factors: Sequence[AnyFactor] = _summed_out(model, collapsed) if collapsed else everywhere
    impossible = model.potential.constant == -np.inf
    memory = Memory()

    def moves() -> Moves:
        tables = [factor for factor in factors if isinstance(factor, LogFactor)]
        if len(tables) == len(factors):
            return moves_of_factors(tables)
        return moves_of_factors(everywhere, collapsed)

    return SampledModel(
        cards,
        sampled,
        fixed,
        factor_sites(cards, factors, free, memory),
        lambda X: factor_logs(factors, X) - (np.inf if impossible else 0.0),
        possible,
        moves,
        model.names,
        memory,
    )


def _point_masses(
    cards: Sequence[int], factors: Sequence[LogFactor], sampled: Sequence[int]
) -> dict[int, int]:
    """The variables with one state, or with a factor of their own that leaves one."""
    fixed = {v: 0 for v in sampled if cards[v] == 1}
    for factor in factors:
        states = np.flatnonzero(factor.logs > -np.inf)
        if len(factor.scope) == 1 and len(states) == 1 and factor.scope[0] in sampled:
            fixed[factor.scope[0]] = int(states[0])
    return fixed


def _summed_out(model: FactorGraph, collapsed: Collection[int]) -> list[AnyFactor]:
    """The factors of the marginal without the collapsed variables.

    Collapsed variables that are connected through collapsed ones are summed out together: the
    result is a factor over the sampled variables around them. Its values come from the circuit of
    the factors involved, for all states of these variables at once if they are not too many.
    """
    hidden = {v for v in collapsed if model.cardinalities[v] > 1}
    factors: list[AnyFactor] = [
        factor for factor in model.potential.factors if not set(factor.scope) & hidden
    ]
    linked = [[v for v in factor.scope if v in hidden] for factor in model.factors]
    for part in map(set, components(linked, sorted(hidden))):
        inside = [f for f in model.factors if set(f.scope) & part]
        scope = sorted({v for f in inside for v in f.scope})
        around = [v for v in scope if v not in part and model.cardinalities[v] > 1]
        if not around:
            continue
        place = {v: i for i, v in enumerate(scope)}
        local = FactorGraph(
            [model.cardinalities[v] for v in scope],
            [Factor([place[v] for v in f.scope], f.table) for f in inside],
        )
        logs = _row_logs(local, {place[v] for v in part})
        shape = [model.cardinalities[v] for v in around]
        if prod(shape) > TABLE_STATES:
            factors.append(Summed(tuple(around), _of_columns(logs, scope)))
            continue
        rows = _grid(len(scope), [place[v] for v in around], shape)
        factors.append(LogFactor(tuple(around), logs(rows).reshape(shape)))
    return factors


def _of_columns(logs: Callable[[Any], Any], scope: Sequence[int]) -> Callable[[Any], Any]:
    return lambda X: logs(X[:, scope])


def every_state(cardinalities: Sequence[Any]) -> Any:
    """All states of some variables, one per row, the last varying fastest.

    Examples
    --------
    >>> every_state([2, 2]).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    n = prod(cardinalities)
    return np.indices(tuple(cardinalities)).reshape(len(cardinalities), n).T


def _grid(n_variables: int, variables: Sequence[int], shape: Sequence[int]) -> Any:
    """All states of some variables, one per row, the last varying fastest; zero elsewhere."""
    rows = np.zeros((prod(shape), n_variables), dtype=np.intp)
    rows[:, variables] = every_state(shape)
    return rows


def _row_logs(model: FactorGraph, collapsed: Collection[int]) -> Callable[[Any], Any]:
    """The function from rows to log-marginals, by a circuit."""
    try:
        circuit = model.circuit()
    except SizeError:  # too large as a whole: only the collapsed variables have to be summed
        return CollapsedModel(model, collapsed, shared=False).log_marginal
    return _circuit_logs(circuit, collapsed)


def _circuit_logs(circuit: Circuit, collapsed: Collection[int]) -> Callable[[Any], Any]:
    hidden = sorted(collapsed)

    def logs(X: Any) -> Any:
        rows = np.array(X, dtype=np.float64)
        rows[:, hidden] = np.nan
        return circuit.log_likelihood(rows)

    return logs


def _of_circuit(
    target: Circuit, collapsed: Collection[int], evidence: Any, what: str
) -> SampledModel:
    circuit = target.to("numpy")
    check_single_root(circuit, "Gibbs sampling")
    refuse_signed(circuit, "Gibbs sampling")
    cards = circuit.cardinalities
    sampled = tuple(v for v in range(circuit.n_variables) if v not in collapsed)
    for v in sampled:
        if cards[v] is None:
            raise PropertyError(
                f"{what} updates discrete variables. Variable {v} is real; it can be summed out "
                "with collapsed_gibbs(..., collapsed=...)."
            )
    fixed = {v: 0 for v in sampled if cards[v] == 1}
    if evidence is not None:
        fixed |= _known(evidence, cards, sampled)
        _refuse_both(target, _known(evidence, cards, collapsed), collapsed)
        circuit = circuit.condition(evidence)
    free = [v for v in sampled if v not in fixed]
    logs, memory = _circuit_logs(circuit, collapsed), Memory()

    def possible(n: int, rng: Any) -> Any:
        return circuit.sample(n, rng)

    shape: list[Any] = [cards[v] for v in free]
    whole: AnyFactor = Summed(tuple(free), logs)
    if prod(shape) <= TABLE_STATES:
        rows = _grid(circuit.n_variables, free, shape)
        rows[:, list(fixed)] = list(fixed.values())
        whole = LogFactor(tuple(free), logs(rows).reshape(shape))

    def moves() -> Moves:
        if isinstance(whole, LogFactor):
            return moves_of_factors([whole])
        return moves_of_circuit(circuit, free)

    sites = factor_sites(cards, [whole], free, memory)
    return SampledModel(cards, sampled, fixed, sites, logs, possible, moves, memory=memory)


def _observed(target: FactorGraph, evidence: Any) -> set[int]:
    """The variables whose value is given."""
    if isinstance(evidence, Mapping):
        return {
            target.variable(key)
            for key, given in evidence.items()
            if isinstance(given, str) or (np.ndim(given) == 0 and not isinstance(given, set))
        }
    row = np.asarray(evidence, dtype=np.float64).reshape(-1)
    return set(np.flatnonzero(~np.isnan(row)).tolist())


def _known(evidence: Any, cards: Sequence[Any], variables: Collection[int]) -> dict[int, int]:
    """The discrete variables among some that one row of evidence leaves a single state."""
    read = as_evidence(evidence, cards)
    found = {}
    for v in variables:
        column = read.column(v)
        if column.weights is not None and read.n_rows == 1:
            states = np.flatnonzero(column.weights[column.codes[0]])
            if len(states) == 1:
                found[v] = int(states[0])
    return found


def _refuse_both(target: Any, observed: Collection[int], collapsed: Collection[int]) -> None:
    for v in sorted(set(observed) & set(collapsed)):
        raise EvidenceError(
            f"V{target.schema.call(v)[1:]} is observed and collapsed at once. Leave it out "
            "of the evidence or out of the collapsed variables."
        )


def _possible_states(
    target: FactorGraph, model: FactorGraph, fixed: Mapping[int, int]
) -> Callable[[int, Any], Any]:
    """The function that draws possible states of a factor graph given evidence."""

    def draw(n: int, rng: Any) -> Any:
        if isinstance(target, BayesianNetwork):
            rows = forward_samples(target, n * FORWARD_DRAWS, rng, fixed)
            good = rows[model.log_score(rows) > -np.inf]
            if len(good) >= n:
                return good[:n]
        try:
            circuit = model.circuit()
            _ = circuit.blocks  # tables may fit where units do not
        except SizeError as error:
            raise CircuitError(
                "No state with positive probability was found to start from, and the model is too "
                "large to compile. Give one as 'start'."
            ) from error
        return circuit.sample(n, rng)

    return draw
