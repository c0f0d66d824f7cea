"""Online collapsed importance sampling: sample only what is too much to sum over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from expectedkernels.arrays import RngLike, as_generator, to_numpy
from expectedkernels.checks import check_choice, check_count
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.evidence import EvidenceLike, as_evidence
from expectedkernels.compilation.factors import FactorGraph
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES
from expectedkernels.errors import CircuitError, EvidenceError, PropertyError
from expectedkernels.kernels.target import as_target
from expectedkernels.progress import progress_bar
from expectedkernels.sampling.cis_rules import ORDERS, REMOVED, RULES
from expectedkernels.sampling.cis_walk import Model, Walk
from expectedkernels.sampling.samples import WeightedSamples

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
    >>> from expectedkernels.compilation.datasets import asia, ising_grid
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
    walk = Walk(Model(graph), graph, order, select, collapse_budget, max_size, chosen, safe)
    rows = np.full((n, graph.n_variables), np.nan)
    logs = np.empty(n)
    with progress_bar(n, "collapsed importance sampling", quiet=not progress) as bar:
        for number in range(n):
            logs[number] = _draw(walk, generator, rows[number])
            bar.update(1)
    return _weighed(walk, rows, logs)


def _draw(walk: Walk, rng: np.random.Generator, row: Any) -> float:
    """Fill a row with one sample; returns its log-weight."""
    for v, value in walk.model.known.items():
        row[v] = value
    log_q = 0.0
    state = walk.start(walk.roots[rng.integers(len(walk.roots))])
    while not state.done:
        options = walk.choices(state)
        v = options[rng.integers(len(options))]
        share = walk.proposal(state, v)
        if share is None:
            return -np.inf
        value = walk.drawn(state, v, rng.random())
        log_q += float(np.log(share[value]))
        row[v] = value
        state = walk.after(state, v, value)
    return walk.log_mass(state) - log_q


def _weighed(walk: Walk, rows: Any, logs: Any) -> WeightedSamples:
    top = logs.max()
    if top == -np.inf:
        raise PropertyError(
            f"All {len(rows)} samples have the weight zero: later factors show every one of them "
            "to be impossible. Draw more samples, allow a larger collapse_budget or max_size, or "
            "check the zeros of the model and the evidence."
        )
    weights = np.exp(logs - top)
    too_large = walk.graph.plan().n_bytes > DEFAULT_MAX_BYTES
    return WeightedSamples(
        walk.graph,
        rows,
        weights / weights.sum(),
        rule="cis",
        log_weights=logs,
        log_z=float(top + np.log(weights.mean())),
        conditionals=walk.model.marginals if too_large else None,
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
