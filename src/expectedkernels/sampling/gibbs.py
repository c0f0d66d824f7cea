"""Gibbs sampling of discrete models, with or without some variables summed out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from expectedkernels.arrays import (
    Array,
    RngLike,
    RowsLike,
    VariablesLike,
    as_generator,
    require_memory,
)
from expectedkernels.checks import (
    DataError,
    EvidenceError,
    Verdict,
    check_choice,
    check_count,
    progress_bar,
)
from expectedkernels.data.evidence import EvidenceLike, as_points
from expectedkernels.data.tables import as_floats, as_table, is_frame
from expectedkernels.kernels.empirical import schema_of
from expectedkernels.kernels.target import TargetLike
from expectedkernels.models import converted
from expectedkernels.sampling.full_conditionals import (
    SampledModel,
    Site,
    TableSite,
    sampled_model,
    warn_reducible,
)

SCANS = ("systematic", "random")
"""In which order variables are visited."""

FEW_CHAINS = 8
"""So many chains are moved one by one: whole-array operations pay off only for more."""

BLOCK = 2**14
"""How many random numbers are drawn at a time."""

UNIFORM_TRIES = 16
"""How often a uniformly drawn start of probability zero is drawn again."""


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
    warn_reducible(moves, model.names)
    shape = (n, chains, len(model.cardinalities))
    require_memory(
        8.0 * prod(shape), f"An array of {n * chains} samples", "Record fewer: raise 'thin'."
    )
    recorded = np.empty(shape, dtype=np.int64)
    steps = burn_in + n * thin if n and model.sites else 0
    with progress_bar(steps, "Gibbs sampling", quiet=not progress) as bar:
        draws = _draws(generator, steps, len(model.sites), chains, scan, bar)
        if chains <= FEW_CHAINS and all(isinstance(site, TableSite) for site in model.sites):
            _move_lists(model.sites, X, draws, burn_in, thin, recorded)
        else:
            _move_rows(model.sites, X, draws, burn_in, thin, recorded)
    if moves.zeros is None and model.memory.met_zero:
        warn_reducible(replace(moves, zeros=True), model.names)
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


def _move_rows(
    sites: list[Site],
    X: Any,
    draws: Iterator[tuple[int, Any]],
    burn_in: int,
    thin: int,
    recorded: Any,
) -> None:
    """Move all chains together, an array operation for every step."""
    due, row = burn_in + thin, 0
    for step, (visit, u) in enumerate(draws, 1):
        site = sites[visit]
        X[:, site.variable] = site.draw(X, u)
        if step == due:
            recorded[row] = X
            due, row = due + thin, row + 1


def _move_lists(
    sites: list[Any],
    X: Any,
    draws: Iterator[tuple[int, Any]],
    burn_in: int,
    thin: int,
    recorded: Any,
) -> None:
    """Move a few chains one after the other: look-ups in lists take less time than array calls."""
    states = X.tolist()
    due, row = burn_in + thin, 0
    for step, (visit, u) in enumerate(draws, 1):
        site = sites[visit]
        variable, draw = site.variable, site.draw_one
        for state, position in zip(states, u.tolist(), strict=True):
            state[variable] = draw(state, position)
        if step == due:
            recorded[row] = states
            due, row = due + thin, row + 1


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
