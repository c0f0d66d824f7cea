"""Tables of networks and factor graphs from incomplete rows, by exact EM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from math import inf, log, prod
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import logsumexp, xlogy

from expectedkernels import arrays, checks
from expectedkernels.checks import CircuitError, DataError, check_parameter
from expectedkernels.data import tables as forms
from expectedkernels.data.chunks import StreamLike, WeightsLike
from expectedkernels.data.evidence import Column, Evidence, EvidenceLike, as_evidence
from expectedkernels.learning import training_data
from expectedkernels.learning.training_data import Data, Rows, Step, distinct_keys, fit_weights
from expectedkernels.models.factor_graph import BayesianNetwork, Factor, FactorGraph, converted
from expectedkernels.models.messages import LOWEST, TINY, inverse, require_room
from expectedkernels.vtrees import Elimination

M = TypeVar("M", bound=FactorGraph)
Source = tuple[Any, ...]
"""What enters a clique: (factor, axes, length of the last one), or the message (clique, axes)."""
Model = tuple[Sequence[int], Sequence[Sequence[int]], Elimination]
"""Cardinalities, scopes of factors in the order of the axes of their tables, and an elimination."""
Totals = tuple[float, list[Any]]
"""The log-likelihood of rows, and the expected counts of all tables."""
Part = tuple[Source, Any, tuple[int, ...], Any]
"""An array that enters a table: its source; the index of the groups of the table along its last
axis, None if it has one entry for all; its shape as it enters; and the sparse matrix that sums
groups up by their index."""
PER_BUCKET = 6_000
"""A bucket takes about as long as so many entries of tables."""


class FamilySums:
    """Likelihoods and expected counts of rows with missing values, by variable elimination.

    In the clique of a variable, rows with the same evidence on all that has been eliminated
    there are one group; the last axis of tables is that of groups. With `cut`, observed variables
    have no axes: the groups of a clique are divided into buckets by what is observed, and entries
    of factors are gathered by the observed states. Evidence is a factor as well, of a variable and
    of the distinct evidence on it, which is a variable that is always observed.
    """

    def __init__(self, model: Model, evidence: Evidence, cut: bool):
        self.model, self.evidence = model, evidence
        self.factors, self.shapes = set[Source](), dict[Source, tuple[int, ...]]()
        # a message, where its groups are in this, the shape of its table, and what enters
        self.buckets: list[tuple[Source, slice, tuple[int, ...], list[Part]]] = []
        columns = [evidence.column(v) for v in range(len(model[0]))]
        tops, n_all = [np.fmax(x.weights.max(axis=1), TINY) for x in columns], len(columns)
        self.constant = sum(np.log(x)[c.codes] for x, c in zip(tops, columns, strict=True))
        self.weights = [x.weights.T / top for x, top in zip(columns, tops, strict=True)]
        states = [_observed(x) if cut else np.full(evidence.n_rows, -1) for x in columns]
        states += [column.codes for column in columns]
        cards = [*model[0], *(column.n_statements for column in columns)]
        scopes, order = [*model[1], *((v, n_all + v) for v in range(n_all))], model[2]
        position = {v: i for i, v in enumerate([*order.order, *range(n_all, 2 * n_all)])}
        cliques = [(v, *sorted(c, key=position.__getitem__)) for v, c in enumerate(order.contexts)]
        first = [min(scope, key=position.__getitem__, default=-1) for scope in scopes]
        children, starts, groups = order.children(), dict[Source, int](), dict[int, Any]()
        for v in order.order:
            entering, (_, *separator) = [k for k, u in enumerate(first) if u == v], cliques[v]
            known = [states[u] >= 0 for u in (*separator, v)]
            keys = [(x, 2) for x in known]
            keys += [(states[u] + 1, cards[u] + 1) for u in (*separator, n_all + v)]
            keys += [(groups[c], int(groups[c].max()) + 1) for c in children[v]]
            rows, groups[v] = distinct_keys(keys)
            same = np.stack([x[rows] for x in known])
            ends = np.flatnonzero((same[:, 1:] != same[:, :-1]).any(axis=0)) + 1
            for some in np.split(np.arange(len(rows)), ends):
                own, n = rows[some], len(some)
                free = tuple(u for u in cliques[v] if states[u][own[0]] < 0)
                message, parts = (v, tuple(u for u in free if u != v)), list[Part]()
                begin = int(some[0]) - starts.setdefault(message, int(some[0]))
                self.shapes[message] = (*(cards[u] for u in message[1]), begin + n)
                found: list[Any] = []  # sources, their variables, indices, lengths of the last axis
                for k in entering:
                    kept = tuple(u for u in free if u in scopes[k])
                    seen = [u for u in scopes[k] if u not in free]
                    at, size = [states[u][own] for u in seen], [cards[u] for u in seen]
                    source = k, tuple(map([*scopes[k]].index, (*kept, *seen))), prod(size)
                    index = np.ravel_multi_index(at, size) if seen else None
                    found.append((source, kept, index, prod(size)))
                    self.factors.add(source)
                for c in children[v]:
                    below = c, tuple(u for u in cliques[c][1:] if u in free)
                    index = groups[c][own] - starts[below]
                    found.append((below, below[1], index, self.shapes[below][-1]))
                for source, kept, index, length in found:
                    size, matrix = [cards[u] if u in kept else 1 for u in free], None
                    if index is not None:
                        matrix = sparse.csc_array(
                            (np.ones(n), index, np.arange(n + 1)), (length, n)
                        )
                    parts.append((source, index, (*size, 1 if index is None else n), matrix))
                parts.sort(key=lambda part: prod(part[2]))
                shape = (*(cards[u] for u in free), n)
                self.buckets.append((message, slice(begin, begin + n), shape, parts))
        self.groups = {v: groups[v] for v in order.order if len(cliques[v]) == 1}
        self.n_entries = sum(prod(shape) for _, _, shape, _ in self.buckets)

    def forward(self, tables: Sequence[Any]) -> Any:
        """The log-likelihoods of rows; entries of tables are at most one.

        All are computed in logarithms if doubles do not have the range for one of them.
        """
        logs = self._forward(tables, in_logs=False)
        return logs if logs.min() > -inf else self._forward(tables, in_logs=True)

    @np.errstate(divide="ignore")
    def _forward(self, tables: Sequence[Any], in_logs: bool) -> Any:
        values, every = dict[Source, Any](), [*tables, *self.weights]
        # logs of the scales of messages, and lower bounds of logs of entries that are not zero
        logs, lows, self.conditionals = dict[Source, Any](), dict[Source, float](), list[Any]()
        for k, axes, n in self.factors:
            array = every[k].transpose(axes).reshape(-1, n)
            values[k, axes, n] = np.log(array) if in_logs else array
            lows[k, axes, n] = _lowest(array).min()
        for source, shape in self.shapes.items():
            values[source], logs[source], lows[source] = np.empty(shape), np.empty(shape[-1]), 0.0

        def gathered(parts: list[Part]) -> Iterator[Any]:
            for k, index, size, _ in parts:
                yield (values[k] if index is None else values[k].take(index, -1)).reshape(size)

        for message, place, shape, parts in self.buckets:
            offset = sum((logs[k][i] for k, i, *_ in parts if k in logs), start=np.zeros(shape[-1]))
            low = sum(lows[source] for source, *_ in parts)
            if low < LOWEST and not in_logs:
                exact = sum(map(_lowest, gathered(parts)))
                offset[exact < LOWEST] = -inf
                low = exact[exact >= LOWEST].min(initial=0.0)
            table = np.broadcast_to(
                reduce(np.add if in_logs else np.multiply, gathered(parts)), shape
            )
            sums, conditional = table, None
            if len(shape) > len(message[1]) + 1:  # the variable of the clique is not observed
                sums = logsumexp(table, axis=0) if in_logs else table.sum(axis=0)
                conditional = np.exp(table - _finite(sums)) if in_logs else table * inverse(sums)
            self.conditionals.append(conditional)
            top = sums.max(axis=tuple(range(sums.ndim - 1)))
            values[message][..., place] = sums - _finite(top) if in_logs else sums * inverse(top)
            logs[message][place] = offset + (top if in_logs else np.log(top))
            lows[message] = min(lows[message], low - log(shape[0]))
        return self.constant + sum(logs[v, ()][groups] for v, groups in self.groups.items())

    def backward(self, weights: Any) -> list[Any]:
        """The expected counts of all tables for weighted rows, after the last forward pass."""
        cards, scopes, _ = self.model
        counts = [np.zeros([cards[u] for u in scope]) for scope in scopes]
        beliefs: Any = {source: np.zeros(shape) for source, shape in self.shapes.items()}
        for v, groups in self.groups.items():
            beliefs[v, ()] = np.bincount(groups, weights, self.shapes[v, ()][-1])
        buckets = zip(self.buckets, self.conditionals, strict=True)
        for (message, place, _, parts), conditional in reversed([*buckets]):
            joint = beliefs[message][..., place]
            joint = joint if conditional is None else conditional * joint
            for source, index, size, indicator in parts:
                k, axes, *is_factor = source
                if is_factor and k >= len(counts):
                    continue
                sums = tuple(axis for axis, n in enumerate(size) if n == 1)
                own = joint.sum(axis=sums) if sums else joint
                if index is not None:
                    own = (indicator @ own.reshape(-1, len(index)).T).T
                if is_factor:
                    own = own.reshape([counts[k].shape[axis] for axis in axes])
                    counts[k] += own.transpose(np.argsort(axes))
                else:
                    beliefs[source] += own.reshape(beliefs[source].shape)
        return counts


def _observed(column: Column) -> Any:
    """The only state that a row allows a variable to have, -1 if there are several."""
    alone = np.count_nonzero(column.weights, axis=1) == 1
    return np.where(alone, column.weights.argmax(axis=1), -1)[column.codes]


def _finite(x: Any) -> Any:
    """Logarithms, zero where they are infinite."""
    return np.where(x > -inf, x, 0.0)


def _lowest(array: Any) -> Any:
    """The logs of the smallest entries above zero, for every place along the last axis."""
    return np.log(np.where(array > 0, array, 1.0).reshape(-1, array.shape[-1]).min(axis=0))


def as_network(name: str, given: Any, kind: type = BayesianNetwork) -> Any:
    """A network, perhaps of another library; raises if it is none of this kind."""
    network, wanted = converted(given), f"a {kind.__name__}"
    check_parameter(isinstance(network, kind), name, "network", given, wanted, CircuitError)
    return network


def model_of(network: FactorGraph) -> Model:
    """What is summed over: the cardinalities, the scopes of factors, and the elimination."""
    scopes = [factor.scope for factor in network.factors]
    return network.cardinalities, scopes, network._elimination


def family_sums(model: Model, evidence: Evidence, max_bytes: int, first: int = 0) -> Iterator[Any]:
    """Parts of the rows whose tables fit into memory, and the sums of each, cut where that pays."""
    n, found = evidence.n_rows, FamilySums(model, evidence, cut=False)
    if found.n_entries > PER_BUCKET * len(found.buckets):
        other = FamilySums(model, evidence, cut=True)
        saved = found.n_entries - other.n_entries
        found = other if saved > PER_BUCKET * len(other.buckets) else found
    if n > 1 and 16 * found.n_entries > max_bytes:
        for some in arrays.spans(n, max(1, n * max_bytes // (32 * found.n_entries))):
            yield from family_sums(model, evidence.rows(some), max_bytes, first + some.start)
        return
    why, advice = f"its tables have {found.n_entries:.3g} entries", "Observe more variables"
    require_room(16 * found.n_entries, max_bytes, "An incomplete row", why, advice)
    yield slice(first, first + n), found


def expected_counts(model: Model, max_bytes: int, parts: Any, tables: Any, rows: Rows) -> Any:
    """The totals of a chunk of rows, which may be in parts with their sums; None if it has none.

    Raises if a row is impossible.
    """
    total = None
    if len(rows.weights):
        parts = parts or family_sums(model, rows.evidence, max_bytes)
    for some, sums in parts:
        logs = sums.forward(tables)
        if logs.min() == -inf:
            row, why = rows.numbers[some][logs.argmin()], "the tables have probability zero"
            advice = 'Give start="data", or a network without these zeros'
            raise DataError(f"Row {row} of X is impossible: {why} for what it says. {advice}.")
        total = _added(total, (float(rows.weights[some] @ logs), sums.backward(rows.weights[some])))
        sums.conditionals.clear()  # as large as the tables, and there may be many parts
    return total


def _added(a: Totals | None, b: Totals) -> Totals:
    return b if a is None else (a[0] + b[0], [x + y for x, y in zip(a[1], b[1], strict=True)])


def _complete_counts(model: Model, rows: Rows) -> Totals:
    """How often the states of families occur in rows with values for all of the family."""
    counts = [np.zeros([model[0][u] for u in scope]) for scope in model[1]]
    states = np.stack([_observed(rows.evidence.column(v)) for v in range(len(model[0]))])
    for scope, found in zip(model[1], counts, strict=True):
        own = states[list(scope)]
        np.add.at(found, tuple(own[:, own.min(axis=0) >= 0]), rows.weights[own.min(axis=0) >= 0])
    return 0.0, counts


def learn_tables(
    network: M,
    X: EvidenceLike | StreamLike,
    iterations: int = 200,
    *,
    tolerance: float | None = 1e-6,
    pseudocount: float | Sequence[ArrayLike] = 1.0,
    sample_weight: WeightsLike | None = None,
    fixed: Sequence[str | int] = (),
    start: str = "data",
    rng: arrays.RngLike = None,
    callback: Callable[[M, float], object] | None = None,
    progress: bool = True,
    max_bytes: int = arrays.DEFAULT_MAX_BYTES,
) -> M:
    """The network with its tables fitted to rows with missing values, by exact EM.

    Every iteration computes the expected counts N of the states of each family (a variable with
    its parents) given what is observed in every row, by variable elimination for all rows
    at once, and sets each conditional distribution to

        P(x | parents) = (N(x, parents) + alpha) / (N(parents) + sum of alpha),

    where alpha are pseudocounts. The objective, the log-likelihood plus the sum of alpha times the
    log of the tables, never decreases. With complete rows one iteration gives the estimate.
    Rows with missing values count with all that they show; none is dropped, and nothing is imputed.

    The estimate is that of values missing at random. If the reason why a value is missing depends
    on the value, model it: `BayesianNetwork.with_masks`.

    Tables of a `FactorGraph` are fitted by generalised EM: after the expected counts, one pass of
    iterative proportional fitting, factor by factor.

    Parameters
    ----------
    network : BayesianNetwork or FactorGraph
        The structure, and with ``start="tables"`` the tables to start from: `load` reads one,
        `BayesianNetwork.from_arcs` makes one. Networks of pyAgrum and pgmpy are converted.
    X : array of shape (n, variables), data frame, list of (n, states) arrays, or chunks
        NaN, or None, for values that are not observed. Lists hold weights of states (soft
        evidence), one array per variable. Data in chunks are read once per iteration: see `em`.
    iterations : int
        The largest number of iterations. 0 returns the tables of the start.
    tolerance : float, optional
        Stop when the objective, divided by the weight of all rows, grows by less than this.
        None: after all iterations.
    pseudocount : float, or sequence of one array per table
        How many rows' worth of counts every conditional distribution gets in advance, spread
        evenly; multiplied by the mean weight of the rows. Arrays in the shapes of the tables are
        counts of a Dirichlet prior, less one: BDeu with an equivalent sample size s is
        ``[np.full(t.shape, s / t.size) for t in network.cpts]``. Factor graphs have none.
    sample_weight : array of shape (n,), str or callable, optional
        How much every row counts; for chunks as in `em`.
    fixed : sequence of names or numbers
        Variables of a Bayesian network whose tables stay as they are.
    start : {"data", "tables", "random"}
        Where EM starts: from the rows in which a family is complete, with one more row spread
        evenly; from the tables of the network, whose zeros stay zero and get no pseudocount; or
        from random tables. Families that no row has complete, as those of hidden variables, start
        at random with "data", too: equal tables would be a saddle point. Factor graphs start from
        their tables unless this is "random".
    rng : int, Generator or None
        For random tables.
    callback : callable, optional
        Called after every iteration with the network and the objective per unit of row weight, as
        it was found in the iteration.
    progress : bool
        Whether to show a bar (only on a terminal).
    max_bytes : int
        How much memory tables may take; more rows are worked on in parts.

    Returns
    -------
    BayesianNetwork, or FactorGraph
        Interrupting (Ctrl-C) returns that of the last complete iteration.

    Raises
    ------
    CircuitError
        If a parameter is wrong, or `fixed` names what is no variable.
    DataError
        If there are no rows, or one is impossible under the tables.
    SizeError
        If a row leaves so much open that its tables do not fit into memory.

    Notes
    -----
    Cost of an iteration: for every clique of the elimination, the number of distinct rows
    restricted to what was eliminated so far, times the entries of the clique without its observed
    variables where leaving these out pays.

    This is not `em` of the compiled circuit, which has more parameters than the network: its
    weights are conditionals given all of the context, not given the parents alone.

    Tables of hidden variables are found up to a permutation of their states, and effects computed
    from them are right only where they are identified.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> X = ek.asia().sample(2000, rng=0)
    >>> X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    >>> network = ek.learn_tables(ek.asia(), X, progress=False)
    >>> network.marginals({"smoke": "yes"})["bronc"].round(2).tolist()
    [0.6, 0.4]
    """
    name, network = "learn_tables", as_network("learn_tables", network, FactorGraph)
    directed, seen = isinstance(network, BayesianNetwork), None
    checks.check_count(name, "iterations", iterations)
    checks.check_choice(name, "start", start, ("data", "tables", "random"))
    checks.check_callback(name, callback, "two arguments")
    checks.check_real(name, "tolerance", 0.0 if tolerance is None else tolerance)
    arrays.check_max_bytes(max_bytes)
    for key in (fixed := [fixed] if isinstance(fixed, str) or not np.iterable(fixed) else fixed):
        if not directed or key not in (*range(network.n_variables), *(network.names or ())):
            rule = f"The 'fixed' parameter names {key!r}, which is no variable of this network"
            raise CircuitError(f"{rule} with a table of its own.")
    kept = {network.variable(key) for key in fixed}
    data = Data(network.schema, X, sample_weight, "learn_tables needs at least one row of data")
    (n_rows, weight, *_), model = data.totals, model_of(network)
    parts = [] if data.X is not None else [*family_sums(model, data.held.evidence, max_bytes)]
    nothing = Rows(as_evidence({}, network.schema), np.ones(1), np.zeros(1), 1)
    empty = [] if directed else [*family_sums(model, nothing.evidence, max_bytes)]
    count = partial(expected_counts, model, max_bytes)
    if directed and start == "data":
        _, seen = data.summed(partial(_complete_counts, model), _added) or training_data.used_up()
    first, generator = [factor.table for factor in network.factors], arrays.as_generator(rng)
    for k, table in enumerate(first):
        if start == "random" or (seen is not None and not seen[k].any()):
            table = generator.standard_exponential(table.shape)  # whose shares are uniform
        elif seen is not None:
            table = seen[k] + weight / n_rows / table.shape[-1]
        total = table.sum(axis=-1, keepdims=True) if directed else table.max() or 1.0
        first[k] = first[k] if k in kept else table / total
    alive, prior = [1.0 * (table > 0) for table in first], cast(Any, pseudocount)
    if not isinstance(prior, (list, tuple)):
        beta = weight / n_rows * checks.check_real(name, "pseudocount", prior)
        prior = [beta / np.maximum(x.sum(axis=-1, keepdims=True), 1.0) * x for x in alive]
    prior = [forms.as_floats(x, "Pseudocounts must be arrays") for x in prior]
    good = [x.shape for x in prior] == [x.shape for x in first]
    good = good and all(((x >= 0) & (x < inf)).all() for x in prior)
    wanted = "a float in the range [0, inf), or one array of such in the shape of every table"
    check_parameter(good, name, "pseudocount", pseudocount, wanted, CircuitError)
    alpha = [x * own for x, own in zip(prior, alive, strict=True)]

    def steps(tables: list[Any]) -> Iterator[Step]:
        for _ in range(iterations):
            found = data.summed(partial(count, parts, tables), _added)
            total, counts = found or training_data.used_up()
            if not directed:
                total -= weight * count(empty, tables, nothing)[0]
            tables = list(tables)
            for k, (n, own) in enumerate(zip(counts, alpha, strict=True)):
                if directed:
                    total += float(xlogy(own, tables[k]).sum())
                    tables[k] = tables[k] if k in kept else fit_weights(n + own, 0.0, old=tables[k])
                elif n.ndim:  # one by one: updates of all factors at once may diverge
                    _, now = count(empty, tables, nothing)
                    table = tables[k] * n * inverse(now[k])
                    tables[k] = table / table.max()
            yield Step(tables, total / weight)

    def made(step: Any) -> M:
        factors = [Factor(f.scope, t) for f, t in zip(network.factors, step.state, strict=True)]
        return network._with(factors, network._names, network._states)

    bar = checks.progress_bar(iterations, "EM", not progress, "iteration")
    tell: Any = None if callback is None else lambda step: callback(made(step), step.mean)
    return made(training_data.train(steps(first), first, bar, tolerance=tolerance, callback=tell))
