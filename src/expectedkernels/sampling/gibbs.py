"""Gibbs sampling of discrete models, with or without some variables summed out."""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from expectedkernels.arrays import (
    Array,
    RngLike,
    RowsLike,
    VariablesLike,
    as_generator,
    cumulative,
    drawn,
    from_logs,
    require_memory,
)
from expectedkernels.checks import (
    CircuitError,
    DataError,
    EvidenceError,
    PropertyError,
    SizeError,
    Verdict,
    check_choice,
    check_count,
    progress_bar,
    public,
)
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.operands import check_single_root
from expectedkernels.circuits.queries import refuse_signed
from expectedkernels.circuits.sample_map import deterministic
from expectedkernels.data.evidence import EvidenceLike, as_evidence, as_points
from expectedkernels.data.tables import as_floats, as_table, is_frame
from expectedkernels.engine.passes import COUNTS, lifted, up_over
from expectedkernels.kernels.empirical import schema_of, variables_of
from expectedkernels.kernels.target import Target, TargetLike, as_target
from expectedkernels.models import converted
from expectedkernels.models.clique_tree import LogFactor
from expectedkernels.models.factor_graph import (
    BayesianNetwork,
    CollapsedModel,
    Factor,
    FactorGraph,
    forward_samples,
)
from expectedkernels.vtrees import components

SCANS = ("systematic", "random")
"""In which order variables are visited."""

FEW_CHAINS = 8
"""So many chains are moved one by one: whole-array operations pay off only for more."""

BLOCK = 2**14
"""How many random numbers are drawn at a time."""

UNIFORM_TRIES = 16
"""How often a uniformly drawn start of probability zero is drawn again."""

SITE_ENTRIES = 2**16
"""A conditional is tabulated if its table has at most this many entries."""

ALL_ENTRIES = 2**23
"""All tables of a model together have at most this many entries (64 MiB)."""

REMEMBERED = 2**14
"""How many evaluated conditionals every variable keeps at a time."""

TABLE_STATES = 2**16
"""Sums over collapsed variables are tabulated for up to this many states of those around them."""

RANDOM_STATES = 2**14
"""How many random states of a function are asked for one with positive probability."""

FORWARD_DRAWS = 256
"""How many samples of a Bayesian network are tried for each start."""

SUPPORT_STATES = 2**16
"""Up to this many states are looked at one by one."""

PRODUCT_PAIRS = 2**24
"""Determinism is looked into in circuits with at most this many pairs of products to compare."""

CANDIDATES = 16
"""How many variables are tried when one is looked for that should be collapsed."""


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

    One step draws one variable from its conditional distribution given all others,
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
    collapsed_gibbs : With some variables summed out.

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
    model = sampled_model(target, (), evidence, "gibbs")
    start = _start_rows(target, start)
    return _chain(model, "gibbs", n, burn_in, thin, rng, scan, chains, start, progress)


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

    The collapsed variables c are summed out exactly. A step draws one of the others, s,
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
        The variables to sum out: numbers or names, or a mask with one entry per variable.
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
    gibbs : With nothing summed out.

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
    model = sampled_model(target, collapsed, evidence, "collapsed_gibbs")
    start = _start_rows(target, start)
    states = _chain(model, "collapsed_gibbs", n, burn_in, thin, rng, scan, chains, start, progress)
    rows = states.astype(np.float64)
    hidden = sorted(set(range(rows.shape[-1])) - set(model.sampled))
    rows[..., hidden] = np.nan
    return rows


def irreducible(
    target: TargetLike, collapsed: VariablesLike = (), evidence: EvidenceLike | None = None
) -> Verdict:
    """Whether single-site moves lead from every possible state to every other, with the reason.

    If they do, the frequencies of a Gibbs sampler approach the probabilities of the model.

    Parameters
    ----------
    target : FactorGraph, BayesianNetwork or Circuit
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
    model = sampled_model(target, collapsed, evidence, "irreducible")
    return model.moves().verdict(model.names)


def _chain(
    model: SampledModel,
    what: str,
    n: int,
    burn_in: int,
    thin: int,
    rng: Any,
    scan: str,
    chains: int,
    start: Any,
    progress: bool,
) -> Any:
    """Check the arguments, find a start, warn if there is reason to, and run the chains."""
    for name, number, least in (
        ("n", n, 0),
        ("burn_in", burn_in, 0),
        ("thin", thin, 1),
        ("chains", chains, 1),
    ):
        check_count(what, name, number, least)
    check_choice(what, "scan", scan, SCANS)
    generator = as_generator(rng)
    X = _starts(model, chains, generator) if start is None else _given(model, chains, start)
    moves = model.moves()
    moves.warn(model.names)
    shape = (n, chains, len(model.cardinalities))
    require_memory(
        8.0 * prod(shape), f"An array of {n * chains} samples", "Record fewer: raise 'thin'."
    )
    recorded = np.empty(shape, dtype=np.int64)
    sites: list[Any] = model.sites
    steps, due = burn_in + n * thin if n and sites else 0, burn_in + thin
    # look-ups in lists take less time than array calls
    few = chains <= FEW_CHAINS and all(isinstance(site, TableSite) for site in sites)
    states = X.tolist() if few else X
    with progress_bar(steps, "Gibbs sampling", quiet=not progress) as bar:
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
    if moves.zeros is None and any(site.met_zero for site in sites):
        replace(moves, zeros=True).warn(model.names)
    if steps == 0:
        recorded[:] = X
    return recorded[:, 0] if chains == 1 else np.ascontiguousarray(recorded.transpose(1, 0, 2))


def _draws(
    generator: Any, steps: int, n_sites: int, chains: int, scan: str, bar: Any
) -> Iterator[tuple[int, Any]]:
    """For every step the site it visits, and a number in [0, 1) for each chain.

    Numbers of a step lie side by side in the stream, so that more steps do not change the first
    ones.
    """
    shuffled = int(scan == "random")
    size = max(1, BLOCK // (chains + shuffled))
    for first in range(0, steps, size):
        last = min(first + size, steps)
        numbers = generator.random((last - first, chains + shuffled))
        if shuffled:
            visits = (numbers[:, 0] * n_sites).astype(np.intp)
        else:
            visits = np.arange(first, last) % n_sites
        yield from zip(visits.tolist(), numbers[:, shuffled:], strict=True)
        bar.update(last - first)


def _starts(model: SampledModel, chains: int, generator: Any) -> Any:
    """Uniformly drawn states, drawn again (in the end from the model) if they are impossible."""
    X = _uniform(model, chains, generator)
    if model.logs is None:
        return X
    bad = ~(model.logs(X) > -np.inf)
    for _ in range(UNIFORM_TRIES):
        if not bad.any():
            return X
        X[bad] = _uniform(model, int(bad.sum()), generator)
        bad = ~(model.logs(X) > -np.inf)
    if bad.any() and model.possible is not None:
        drawn = model.possible(int(bad.sum()), generator)
        X[np.ix_(bad, model.sampled)] = drawn[:, model.sampled]
    return X


def _uniform(model: SampledModel, chains: int, generator: Any) -> Any:
    X = np.zeros((chains, len(model.cardinalities)), dtype=np.int64)
    free = [site.variable for site in model.sites]
    X[:, free] = generator.integers(
        [model.cardinalities[v] for v in free], size=(chains, len(free))
    )
    X[:, list(model.fixed)] = list(model.fixed.values())
    return X


def _start_rows(target: Any, start: Any) -> Any:
    """The states to start at; those of a data frame in the order and codes of the target."""
    table = as_table(start)
    return schema_of(converted(target)).read_frame(table) if is_frame(table) else table


def _given(model: SampledModel, chains: int, start: Any) -> Any:
    """The given states, checked: inside the domain, as observed, and possible."""
    n = len(model.cardinalities)
    rows = np.array(as_floats(start))
    if rows.shape not in ((n,), (chains, n)):
        raise DataError(
            f"The 'start' must be one state, of shape ({n},), or one per chain, ({chains}, {n}). "
            f"Got shape {rows.shape}."
        )
    rows = np.broadcast_to(rows, (chains, n)).copy()
    rows[:, sorted(set(range(n)) - set(model.sampled))] = 0.0
    X = as_points(rows, model.cardinalities, "The 'start'").astype(np.int64)
    for v, state in model.fixed.items():
        if (X[:, v] != state).any():
            raise EvidenceError(
                f"The 'start' must agree with the evidence. Variable {v} can only be {state}, and "
                f"starts at {int(X[X[:, v] != state][0, v])}."
            )
    if model.logs is not None and not (model.logs(X) > -np.inf).all():
        row = int(np.flatnonzero(~(model.logs(X) > -np.inf))[0])
        raise DataError(
            f"The 'start' must have positive probability. Chain {row} would start at the "
            f"impossible state {X[row].tolist()}; leave 'start' out to have one found."
        )
    return X


class TableSite:
    """A variable whose conditionals are tabulated for all states of its Markov blanket.

    A chain visits the same few states of a blanket over and over. With all conditionals at hand a
    visit is one look-up in a table of cumulative probabilities, without any arithmetic on
    factors: about a microsecond for one chain. The factors are those of the variable.
    """

    met_zero = False  # which is known before: tables are looked at as a whole

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


class EvaluatedSite:
    """A variable whose conditionals are evaluated when a chain comes by, and remembered.

    They depend on `others`. `logs` leads from rows to logs of conditionals up to a constant, (n,
    cardinality); without `others` nothing is remembered.
    """

    def __init__(
        self, variable: int, others: Sequence[int] | None, logs: Callable[[Any], Any]
    ) -> None:
        self.variable, self.others, self._logs = variable, others, logs
        self._known: dict[bytes, Any] = {}
        self.met_zero = False

    def draw(self, X: Any, u: Any) -> Any:
        """The state of the variable at positions u of its conditionals, for rows of chains."""
        if self.others is None:
            return drawn(self.evaluated(X), u)
        keys = [row.tobytes() for row in np.ascontiguousarray(X[:, self.others])]
        new = {key: row for row, key in enumerate(keys) if key not in self._known}
        fresh = {}
        if new:
            fresh = dict(zip(new, self.evaluated(X[list(new.values())]), strict=True))
        edges = np.stack([fresh[key] if key in fresh else self._known[key] for key in keys])
        if len(self._known) + len(fresh) > REMEMBERED:
            self._known.clear()
        self._known.update(fresh)
        return drawn(edges, u)

    def evaluated(self, X: Any) -> Any:
        """The cumulative probabilities of all states but the last, for rows of chains."""
        logs = np.asarray(self._logs(X), dtype=np.float64)
        impossible = ~(logs.max(axis=1) > -np.inf)
        if impossible.any():
            raise DataError(
                f"Variable {self.variable} has no possible state given the others: a chain is at "
                f"{X[np.argmax(impossible)].tolist()}, a state without probability. Give a 'start' "
                "that is possible."
            )
        self.met_zero |= bool((logs == -np.inf).any())
        return cumulative(from_logs(logs))


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
    cardinalities: Sequence[Any], factors: Sequence[AnyFactor], free: Sequence[int]
) -> list[Site]:
    """The sites of some variables of a product of factors: tables where these are small."""
    touching: dict[int, list[Any]] = {v: [f for f in factors if v in f.scope] for v in free}
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
            sites[v] = EvaluatedSite(v, blankets[v], logs)
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

    def _where(self, names: Sequence[str] | None) -> str:
        return f" over the variables {_listed(self.variables, names)}" if self.variables else ""

    def verdict(self, names: Sequence[str] | None = None) -> Verdict:
        """Whether all possible states communicate, with the reason."""
        if self.classes == 1:
            return Verdict(True, "single-site moves connect all possible states")
        if self.classes is None:
            there = "there are" if self.zeros else "it is not known whether there are"
            reason = f"{there} zeros{self._where(names)}; there are too many states to look at each"
            return Verdict(None, reason)
        return Verdict(
            False,
            f"zeros{self._where(names)} split the possible states into {self.classes} classes, and "
            "single-site moves do not lead from one to another",
        )

    def warn(self, names: Sequence[str] | None) -> None:
        """Warn if classes of states do not communicate, or may not, and say what to do."""
        if self.classes == 1 or not self.zeros:
            return
        text = (
            f"Zeros{self._where(names)} split the possible states into {self.classes} classes that "
            "single-site updates do not leave: a chain stays in the class it starts in, and "
            "frequencies do not approach probabilities."
        )
        if self.classes is None:
            text = (
                f"The model has zeros{self._where(names)}. They may split its possible states into "
                "classes that single-site updates do not leave (there are too many states to look "
                "at each); then frequencies do not approach probabilities."
            )
        what = _listed(self.remedy, names) or "the variables that are functions of others"
        warnings.warn(
            f"{text} Sum out {what} with collapsed_gibbs(..., collapsed=...), replace the zeros by "
            "small numbers, or sample with cis.",
            ReducibleWarning,
            stacklevel=4,
        )


def _listed(variables: Sequence[int], names: Sequence[str] | None, limit: int = 8) -> str:
    shown = [str(v) if names is None else repr(names[v]) for v in variables[:limit]]
    return ", ".join(shown) + (", ..." if len(variables) > limit else "")


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

    functions = {
        v
        for factor in factors
        for axis, v in enumerate(factor.scope)
        if len(factor.scope) > 1 and ((factor.logs > -np.inf).sum(axis=axis) <= 1).all()
    }
    candidates = sorted(functions - set(collapsed), reverse=True)[:CANDIDATES]
    chosen: list[int] = []
    while not enough(chosen):
        if len(chosen) == len(candidates):
            return ()
        chosen.append(candidates[len(chosen)])
    for v in list(chosen):
        fewer = [u for u in chosen if u != v]
        chosen = fewer if enough(fewer) else chosen
    return tuple(sorted(chosen))


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
    pairs = sum(block.n_products**2 for block in circuit.operand.inner if block is not None)
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
    levels = circuit.to("numpy").levels
    everything = np.full(levels.n_atoms, 1, dtype=object)
    return int(up_over(COUNTS, levels, lifted(COUNTS, levels), everything)[levels.roots][0])


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
    names: Sequence[str] | None = None  # the names of the variables


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
    cards = tuple(target.cardinalities)
    everything = tuple(range(len(cards)))
    fixed = {v: 0 for v, card in enumerate(cards) if card == 1}
    known = isinstance(target, Target)

    def site(v: int) -> Site:
        others = [u for u in everything if u != v] if known else None
        return EvaluatedSite(v, others, lambda X: target.site_logs(X, v))

    return SampledModel(
        cards,
        everything,
        fixed,
        [site(v) for v in everything if v not in fixed],
        target.log_prob if known else None,
        _possible_states_of_function(target) if known else None,
        lambda: Moves(None, None),
        target.names if known else None,
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
        _refuse_observed(target, evidence, collapsed)
    cards, n = model.cardinalities, model.n_variables
    sampled = tuple(v for v in range(n) if v not in collapsed)
    everywhere = model.potential.factors
    fixed = {v: 0 for v in sampled if cards[v] == 1}
    for factor in everywhere:
        states = np.flatnonzero(factor.logs > -np.inf)
        if len(factor.scope) == 1 and len(states) == 1 and factor.scope[0] in sampled:
            fixed[factor.scope[0]] = int(states[0])
    factors: Sequence[AnyFactor] = _summed_out(model, collapsed) if collapsed else everywhere
    impossible = model.potential.constant == -np.inf

    def moves() -> Moves:
        tables = [factor for factor in factors if isinstance(factor, LogFactor)]
        if len(tables) == len(factors):
            return moves_of_factors(tables)
        return moves_of_factors(everywhere, collapsed)

    return SampledModel(
        cards,
        sampled,
        fixed,
        factor_sites(cards, factors, [v for v in sampled if v not in fixed]),
        lambda X: factor_logs(factors, X) - (np.inf if impossible else 0.0),
        _possible_states(target, model, fixed),
        moves,
        model.names,
    )


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
            factors.append(Summed(tuple(around), partial(_of_columns, logs, scope)))
            continue
        rows = _grid(len(scope), [place[v] for v in around], shape)
        factors.append(LogFactor(tuple(around), logs(rows).reshape(shape)))
    return factors


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


def _of_columns(logs: Callable[[Any], Any], scope: Sequence[int], X: Any) -> Any:
    return logs(X[:, scope])


def _row_logs(model: FactorGraph, collapsed: Collection[int]) -> Callable[[Any], Any]:
    """The function from rows to log-marginals, by a circuit."""
    try:
        return partial(_circuit_logs, model.circuit(), collapsed)
    except SizeError:  # too large as a whole: only the collapsed variables have to be summed
        return CollapsedModel(model, collapsed, shared=False).log_marginal


def _circuit_logs(circuit: Circuit, collapsed: Collection[int], X: Any) -> Any:
    rows = np.array(X, dtype=np.float64)
    rows[:, sorted(collapsed)] = np.nan
    return circuit.log_likelihood(rows)


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
        _refuse_observed(target, evidence, collapsed)
        fixed |= _observed(evidence, cards, sampled)
        circuit = circuit.condition(evidence)
    free = [v for v in sampled if v not in fixed]
    logs = partial(_circuit_logs, circuit, collapsed)
    shape: list[Any] = [cards[v] for v in free]
    whole: AnyFactor = Summed(tuple(free), logs)
    if prod(shape) <= TABLE_STATES:
        rows = _grid(circuit.n_variables, free, shape)
        rows[:, list(fixed)] = list(fixed.values())
        whole = LogFactor(tuple(free), logs(rows).reshape(shape))

    def moves() -> Moves:
        if isinstance(whole, LogFactor):
            return moves_of_factors([whole])
        positive = is_positive(circuit, free)
        return Moves(1, False) if positive else Moves(None, None if positive is None else True)

    sites = factor_sites(cards, [whole], free)
    return SampledModel(cards, sampled, fixed, sites, logs, circuit.sample, moves)


def _observed(evidence: Any, variables: Any, some: Collection[int]) -> dict[int, int]:
    """The discrete variables among some that one row of evidence leaves a single state."""
    read = as_evidence(evidence, variables)
    found = {}
    for v in some:
        weights = read.column(v).weights
        if weights is not None and read.n_rows == 1 and weights.shape[1] > 1:
            states = np.flatnonzero(weights[read.column(v).codes[0]])
            if len(states) == 1:
                found[v] = int(states[0])
    return found


def _refuse_observed(target: Any, evidence: Any, collapsed: Collection[int]) -> None:
    for v in sorted(_observed(evidence, target.schema, collapsed)):
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
            return model.sample(n, rng=rng)
        except SizeError as error:
            raise CircuitError(
                "No state with positive probability was found to start from, and the model is too "
                "large to sample. Give one as 'start'."
            ) from error

    return draw
