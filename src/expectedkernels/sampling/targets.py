"""What a sampler needs of a target: conditionals of single variables, and where to start."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.evidence import as_evidence
from expectedkernels.circuits.queries import refuse_signed
from expectedkernels.circuits.sides import check_single_root
from expectedkernels.compilation.bayesian import BayesianNetwork, forward_samples
from expectedkernels.compilation.conditionals import CollapsedModel
from expectedkernels.compilation.factor import Factor
from expectedkernels.compilation.factors import FactorGraph
from expectedkernels.compilation.plan import LogFactor
from expectedkernels.errors import CircuitError, DataError, EvidenceError, PropertyError, SizeError
from expectedkernels.kernels.target import Target, as_target
from expectedkernels.sampling.cis_tables import components
from expectedkernels.sampling.reducible import Moves, moves_of_circuit, moves_of_factors
from expectedkernels.sampling.rows import variables_of
from expectedkernels.sampling.sites import (
    AnyFactor,
    EvaluatedSite,
    Memory,
    Site,
    Summed,
    factor_logs,
    factor_sites,
)

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


def _grid(n_variables: int, variables: Sequence[int], shape: Sequence[int]) -> Any:
    """All states of some variables, one per row, the last varying fastest; zero elsewhere."""
    rows = np.zeros((prod(shape), n_variables), dtype=np.intp)
    rows[:, variables] = np.indices(shape).reshape(len(shape), prod(shape)).T
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
