"""Effects of interventions on networks, and which of their mechanisms changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from expectedkernels import arrays, checks
from expectedkernels.arrays import Array, RowsLike
from expectedkernels.checks import CircuitError, DataError, check_parameter
from expectedkernels.data import evidence as forms, tables
from expectedkernels.data.evidence import Column, Evidence, EvidenceLike, as_evidence
from expectedkernels.data.schema import Schema, match
from expectedkernels.discrepancies.hypothesis_tests import rank_p_value
from expectedkernels.discrepancies.mmd import kernel_terms
from expectedkernels.kernels.kernel import ExpHamming, Kernel, factor_matrix
from expectedkernels.learning import network_tables
from expectedkernels.learning.network_tables import FamilySums, learn_tables, model_of
from expectedkernels.models.factor_graph import BayesianNetwork, converted
from expectedkernels.models.messages import inverse, require_room
from expectedkernels.reports import Reported
from expectedkernels.sampling.gibbs import every_state
from expectedkernels.vtrees import best_elimination, elimination_cost

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

PRIOR = 4.0
"""How many rows the pooled tables count for where tables are fitted to either set of rows."""
ROUNDING = 1e-12
"""Tables that differ by less are equal."""
NEGLIGIBLE = 0.05
"""A log-likelihood ratio that is smaller is that of equal tables."""


def effect(
    network: BayesianNetwork,
    treatment: str | int,
    outcome: str | int | Sequence[str | int],
    of: Sequence[str | int],
    evidence: EvidenceLike | None = None,
    values: ArrayLike | Mapping[str, float] | Sequence[object] | None = None,
    k: Kernel | None = None,
) -> Effect:
    """The effect of setting a variable of a network on others, as differences of means and MMD.

    The distributions of the outcome if the treatment is set to either of two states are those of
    `BayesianNetwork.do` with ``natural=True``: evidence on variables that the treatment does not
    act on gives conditional effects, and evidence on the treatment itself is on the value that
    it would have had anyway, which gives the effect on the treated (or on the untreated).

    Parameters
    ----------
    network : BayesianNetwork
        With all tables; hidden variables are variables like others. Networks of pyAgrum and pgmpy
        are converted.
    treatment : name or number
        The variable that is set.
    outcome : name, number, or sequence of these
        The variables whose distribution is compared.
    of : pair of states
        The states of the treatment, first that of the control.
    evidence : mapping, array of one or more rows with NaN, or data frame, optional
        What is known of the units, as for `BayesianNetwork.marginals`. With rows, all attributes of
        the result have a leading axis for them.
    values : array, mapping or series by labels, or sequence of one of these per outcome, optional
        The numbers that the states of the outcome count. Default: labels that are numbers, else
        0, 1, ..., so that for two states the difference is that of the probabilities of the second.
    k : Kernel, optional
        A product over the variables, or a sum of such, of which the factors of the outcomes are
        taken. Default: ``ExpHamming()`` over all variables.

    Returns
    -------
    Effect
        With `control`, `treated`, `difference`, `mmd2`, `mmd` and `witness(X)`.

    Raises
    ------
    CircuitError
        If the network is none, or `of` is no pair.
    EvidenceError
        If there is evidence on what comes after the treatment, or it is impossible.
    SizeError
        If the outcomes have too many joint states.
    KernelError
        If the kernel is no sum of products over the variables.

    Notes
    -----
    The network is taken as it is: the effect is right if its arcs are causes and its tables are
    right. Tables learned from data with hidden variables give a right effect only where that is
    identified.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> found = ek.effect(ek.asia(), "smoke", "lung", of=("no", "yes"), values=[1, 0])
    >>> round(float(found.difference), 6), found.treated.round(6).tolist()
    (0.09, [0.1, 0.9])
    >>> treated = ek.effect(ek.asia(), "bronc", "dysp", ("no", "yes"), {"bronc": "yes"}, [1, 0])
    >>> round(float(treated.difference), 4)
    0.6602
    """
    network = network_tables.as_network("effect", network)
    schema, v, cards = network.schema, network.variable(treatment), network.cardinalities
    wanted = f"two states of {schema.call(v)}: without and with the treatment"
    check_parameter(np.asarray(of, object).shape == (2,), "effect", "of", of, wanted, CircuitError)
    rows = as_evidence({} if evidence is None else evidence, schema)
    columns, outcomes = [rows.column(u) for u in range(len(cards))], schema.variables(outcome)
    good, wanted = 0 < len(outcomes) == len({*outcomes}), "one or several variables, each once"
    check_parameter(good, "effect", "outcome", outcome, wanted, CircuitError)
    for u in [u for u, column in enumerate(columns) if (column.weights != 1.0).any()]:
        if v in _ancestors(network, network.parents[u]):
            one, other = schema.name(u), schema.name(v)
            why = f"{one!r} comes after {other!r}, so knowing it is no property of those treated"
            advice = f"network.do({{{other!r}: ...}}).marginals(evidence)"
            raise checks.EvidenceError(f"{why}. Ask {advice} for what is seen after the action.")
    n = prod(shape := [cards[u] for u in outcomes])
    arrays.require_memory(24.0 * n * n, "A table of joint outcomes", "Name fewer outcomes.")
    # the joint state of the outcomes is one more variable
    free = Column(np.ones((1, n)), None, np.zeros(rows.n_rows, dtype=np.intp))
    given = Evidence((*cards, n), columns=[*columns, free])
    cpts = [*network.cpts, np.eye(n).reshape(*shape, n)]
    model = BayesianNetwork([*network.parents, outcomes], cpts)
    pair = [model.do({v: network.state(v, x)}, natural=True).marginals(given)[-1] for x in of]
    change, gram, every = pair[1] - pair[0], np.zeros((n, n)), every_state(shape).T
    several: Any = values if len(outcomes) > 1 and values is not None else [values] * len(outcomes)
    good = isinstance(several, (Sequence, np.ndarray)) and len(several) == len(outcomes)
    check_parameter(good, "effect", "values", values, "one array per outcome", DataError)
    means = [_values(network, *x)[i] for *x, i in zip(outcomes, several, every, strict=True)]
    for weight, own in _terms("effect", ExpHamming() if k is None else k, network):
        parts = [own[u][np.ix_(i, i)] for u, i in zip(outcomes, every, strict=True)]
        gram += weight * np.prod(parts, axis=0)
    mean = change @ (np.stack(means, axis=1) if len(outcomes) > 1 else means[0])
    mmd2 = np.einsum("ns,st,nt->n", change, gram, change)
    found: Any = [*(arm.reshape(-1, *shape) for arm in pair), mean, mmd2]
    if evidence is None or not forms.is_batch(evidence):
        found = [x[0] for x in found]
    return Effect(*[*found, gram, schema.subset(outcomes)])


@checks.public
@dataclass(frozen=True, eq=False)
class Effect:
    """What `effect` finds; attributes have a leading axis for rows of evidence.

    Attributes
    ----------
    control, treated : arrays
        The joint distributions of the outcomes without and with treatment, one axis per outcome.
    difference : float, or array with an entry per outcome if there are several
        The mean of the outcome with treatment, less that without.
    mmd2 : float
        The squared maximum mean discrepancy between both distributions.
    gram : array
        The kernel between all joint states of the outcomes.
    schema : Schema
        The outcomes.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> found = ek.effect(ek.asia(), "smoke", "lung", ("no", "yes"), k=ek.Delta())
    >>> round(float(found.mmd2), 6), round(float(found.mmd), 6)
    (0.0162, 0.127279)
    """

    control: Array
    treated: Array
    difference: Array
    mmd2: Array
    gram: Array = field(repr=False)
    schema: Schema = field(repr=False)

    @property
    def mmd(self) -> Array:
        """The maximum mean discrepancy between the outcomes of both arms."""
        return np.sqrt(np.maximum(self.mmd2, 0.0))

    def witness(self, X: RowsLike) -> Array:
        """The witness function of the MMD: positive at outcomes that are more frequent if treated.

        Parameters
        ----------
        X : array of shape (points, outcomes), or data frame
            States of the outcomes.

        Returns
        -------
        array of shape (points,), or (rows of evidence, points)

        Examples
        --------
        >>> import expectedkernels as ek
        >>> found = ek.effect(ek.asia(), "smoke", "lung", ("no", "yes"), k=ek.Delta())
        >>> found.witness([[0], [1]]).round(6).tolist()
        [0.09, -0.09]
        """
        states = forms.as_points(X, self.schema, "States of outcomes").T.astype(np.intp)
        cards: Any = self.schema.cardinalities
        change, index = self.treated - self.control, np.ravel_multi_index(tuple(states), cards)
        return change.reshape(*change.shape[: -len(states)], -1) @ self.gram[:, index]


def _ancestors(network: BayesianNetwork, variables: Sequence[int]) -> list[int]:
    """Some variables and all that come before them."""
    found = list(dict.fromkeys(variables))
    for v in found:  # grows
        found += [u for u in network.parents[v] if u not in found]
    return sorted(found)


def _terms(name: str, k: Kernel, network: BayesianNetwork) -> list[tuple[float, list[Any]]]:
    """The terms of a kernel: weights, and matrices over pairs of states of every variable."""
    cards, terms = network.cardinalities, kernel_terms(name, k, network)
    return [(w, [factor_matrix(x, cards[v], v) for v, x in enumerate(own)]) for w, own in terms]


def _values(network: BayesianNetwork, variable: int, given: Any) -> Any:
    """Numbers for the states of a variable: as given, labels that are numbers, or codes."""
    labels, n = network.schema.labels(variable) or ("",), network.cardinalities[variable]
    default = [*map(float, labels)] if all(map(tables.is_number, labels)) else range(n)
    if hasattr(given, "keys") and np.ndim(given) < 2 and {*labels} <= {*given.keys()}:
        given = [given[label] for label in labels]
    found = tables.as_floats(default if given is None else given, "The 'values' must be an array")
    if found.shape not in ((n,), (1, n)) or not np.isfinite(found).all():
        wanted = f"{n} finite numbers, one per state of {network.schema.call(variable)}"
        raise DataError(f"The 'values' must be {wanted}. Got {checks.preview(given)} instead.")
    return found.reshape(n)


def mechanism_change(
    before: BayesianNetwork | RowsLike,
    after: BayesianNetwork | RowsLike,
    network: BayesianNetwork | None = None,
    *,
    target: str | int | None = None,
    values: ArrayLike | Mapping[str, float] | None = None,
    k: Kernel | None = None,
    n_permutations: int = 0,
    rng: arrays.RngLike = None,
    max_bytes: int = arrays.DEFAULT_MAX_BYTES,
) -> MechanismChange:
    r"""Which conditional tables of a network are responsible for a change, by exact Shapley values.

    The value of a set S of tables is the mean of the target, or the squared MMD from `before`, in
    the network that has the tables of `after` for S and those of `before` elsewhere. It is
    multilinear in the tables, so that the Shapley value of table i is an integral,

    .. math:: \phi_i = \int_0^1 \langle \partial Z / \partial \theta_i, Q_i - P_i \rangle\,dt,
              \quad \theta(t) = (1 - t) P + t Q,

    of a polynomial, which Gauss-Legendre quadrature with half as many nodes as there are changed
    tables integrates exactly: no sum over subsets. The values sum to the whole change.

    Parameters
    ----------
    before, after : BayesianNetwork; or with `network` arrays of rows, or data frames
        Networks with the same parents and states, matched by names; or rows with missing values, to
        which tables are fitted.
    network : BayesianNetwork, optional
        The structure, for rows.
    target : name or number, optional
        The variable whose mean has changed. Default: the squared MMD of all variables.
    values : array, or mapping or series by labels, optional
        The numbers that the states of the target count. Default: labels that are numbers, else
        0, 1, ...
    k : Kernel, optional
        Without a target: a product over the variables without negative values, or a sum of such.
        Tables that act on no variable that it looks at have the value zero. Default:
        ``ExpHamming()``.
    n_permutations : int
        For rows: how often they are divided at random between both sets, for p-values.
    rng : int, Generator or None
        For permutations, and the tables of variables that no row shows with their parents.
    max_bytes : int
        How much memory tables may take.

    Returns
    -------
    MechanismChange
        Prints a sentence; has `shapley`, `total`, `divergences`, `p_values`, `frame()`, `plot()`
        and `report()`.

    Raises
    ------
    DataError
        If rows come without a network, or as weights of states.
    CircuitError
        If the networks have other parents.
    KernelError
        If the kernel is no sum of products, or has negative values.
    SizeError
        If sums over pairs of states do not fit into memory.

    Notes
    -----
    For rows, tables are fitted to all rows first (`learn_tables`), and from there to either set
    with four rows' worth of the pooled distributions as pseudocounts: distributions that a set
    never reaches stay pooled. A p-value compares the likelihood ratio of a table, of expected
    counts under the pooled network, with those of permuted rows. It is exact if nothing has
    changed, missingness included; otherwise, for tables that have not, it is approximate. There is
    no correction for many tables.

    Cost of a mean: a pass forward and backward for every two changed tables. The squared MMD
    takes twice as many, over pairs of states.

    References
    ----------
    Owen (1972), Multilinear extensions of games; Budhathoki et al. (2021), Why did the distribution
    change?

    Examples
    --------
    >>> import expectedkernels as ek
    >>> before = ek.asia()
    >>> after = before.do({"smoke": [0.8, 0.2], "dysp": before.cpts[7] * 0.5 + 0.25})
    >>> found = ek.mechanism_change(before, after, target="dysp", values=[1, 0])
    >>> {name: round(x, 4) for name, x in zip(found.names, found.shapley.tolist()) if x}
    {'smoke': 0.0526, 'dysp': 0.0145}
    """
    name, p, q, p_values = "mechanism_change", converted(before), converted(after), None
    checks.check_count(name, "n_permutations", n_permutations)
    idle, value, when = ("values", values, "without") if target is None else ("k", k, "with")
    check_parameter(value is None, name, idle, value, f"None {when} a target", CircuitError)
    good, wanted = network is not None or n_permutations == 0, "0 for networks"
    check_parameter(good, name, "n_permutations", n_permutations, wanted, CircuitError)
    if network is not None:
        given = network_tables.as_network(name, network), before, after, n_permutations
        p, q, p_values = _fitted(*given, arrays.as_generator(rng), max_bytes)
    elif not (isinstance(p, BayesianNetwork) and isinstance(q, BayesianNetwork)):
        rule = "Rows alone do not say what depends on what"
        raise DataError(f"{rule}. Give the 'network' parameter of mechanism_change.")
    P, Q = [x / x.sum(axis=-1, keepdims=True) for x in p.cpts], _matched_tables(p, q)
    changed = np.array([bool(np.abs(a - b).max() > ROUNDING) for a, b in zip(P, Q, strict=True)])
    rows, shapley = [np.ones((1, n)) for n in p.cardinalities], np.zeros(len(P))
    if target is None:
        k = ExpHamming() if k is None else k
        weights, terms = zip(*_terms(name, k, p), strict=True)
        rows = [np.stack([own[v].ravel() for own in terms]) for v in range(len(P))]
        measure = f"squared MMD with {k!r}"
        if min(x.min() for x in rows) < 0:
            raise checks.KernelError(f"{name} takes kernels that are not negative. Got {k!r}.")
    else:
        numbers = _values(p, v := p.variable(target), values)
        weights, measure = (np.ptp(numbers),), f"mean of {p.schema.name(v)!r}"
        # a shift changes no difference of means, and positive numbers are weights of states
        rows[v] = 1.0 + (numbers[None] - numbers.min()) / (weights[0] or 1.0)
    least = 16 * elimination_cost(p._elimination, p.cardinalities)
    require_room(
        least, max_bytes, "Attributing a change", "cliques are wide", "Put states together"
    )
    kept = _ancestors(p, [v for v, x in enumerate(rows) if (x != 1.0).any()])  # others sum to one
    if n := int(changed[kept].sum()):
        part, a, b = p._restricted(kept), [P[v] for v in kept], [Q[v] for v in kept]
        (cards, scopes, order), paths = model_of(part), [(a, b, 1.0)]
        if target is None:
            cards = [size * size for size in cards]
            order = best_elimination(part.graph, cards)
            advice = f"Give target=... (about {least / 2**30:.2g} GiB), or a kernel of few outcomes"
            what, why = "Attributing MMD", "it is a sum over pairs of states"
            require_room(16 * elimination_cost(order, cards), max_bytes, what, why, advice)
            aa, ba, bb = (list(map(_outer, *x)) for x in ((a, a), (b, a), (b, b)))
            paths = [(aa, bb, 1.0), (aa, ba, -2.0)]
        evidence = as_evidence([rows[v] for v in kept], cards)
        sums = FamilySums((cards, scopes, order), evidence, cut=False)
        nodes, shares = np.polynomial.legendre.leggauss((n + 1) // 2)
        for t, share in zip(0.5 * (nodes + 1.0), 0.5 * shares, strict=True):
            for a, b, sign in paths:
                now = [(1.0 - t) * x + t * y for x, y in zip(a, b, strict=True)]
                counts = sums.backward(weights * np.exp(sums.forward(now)))
                # derivatives are counts over tables, which are zero only where both ends are
                for v, count, x, y, z in zip(kept, counts, a, b, now, strict=True):
                    shapley[v] += sign * share * float((count * (y - x) * inverse(z)).sum())
    [(_, sums)] = network_tables.family_sums(model_of(p), as_evidence({}, p.schema), max_bytes)
    sums.forward(Q)
    joint = zip(sums.backward(np.ones(1)), P, Q, strict=True)
    divergences = np.array([float((xlogy(n, y) - xlogy(n, x)).sum()) for n, x, y in joint])
    names, total = [p.schema.name(v) for v in range(len(P))], float(shapley.sum())
    return MechanismChange(measure, total, shapley, divergences, changed, p_values, names, p, q)


def _outer(a: Any, b: Any) -> Any:
    """The table of pairs of states, given those of the first and of the second state."""
    axes = np.arange(2 * a.ndim).reshape(2, -1).T.ravel()
    return np.multiply.outer(a, b).transpose(axes).reshape([n * n for n in a.shape])


def _matched_tables(p: BayesianNetwork, q: BayesianNetwork) -> list[Any]:
    """The normalised tables of q, with variables and states in the order of p."""
    matching, found = match(p.schema, q.schema), []
    q = q._restricted(matching.variables)
    for v, (mine, theirs) in enumerate(zip(p.parents, q.parents, strict=True)):
        if set(mine) != set(theirs) or p.cardinalities[v] != q.cardinalities[v]:
            one, other = (tuple(p.schema.name(u) for u in x) for x in (mine, theirs))
            what = f"{p.schema.name(v)!r} has {one} before and {other} after"
            raise CircuitError(f"mechanism_change compares networks with the same parents. {what}.")
        table = q.cpts[v].transpose([*map(theirs.index, mine), len(mine)])
        for axis, codes in enumerate(matching.states[u] for u in (*mine, v)):
            table = table.take(codes, axis) if codes else table
        found.append(table / table.sum(axis=-1, keepdims=True))
    return found


def _fitted(network: Any, before: Any, after: Any, n: int, rng: Any, max_bytes: int) -> Any:
    """The networks of either set of rows, and p-values of tables from n permutations."""
    rows = [as_evidence(x, network.schema, single=False).values for x in (before, after)]
    if any(x is None for x in rows):
        raise DataError("mechanism_change takes rows with states. Got weights of states.")
    every, options = np.concatenate(rows), dict[str, Any](progress=False, max_bytes=max_bytes)
    pooled = learn_tables(network, every, rng=rng, **options)
    options["start"], prior = "tables", [PRIOR * table for table in pooled.cpts]
    p, q = (learn_tables(pooled, x, pseudocount=prior, **options) for x in rows)
    if not n:
        return p, q, None
    # pseudocounts would be changes where one set has more missing values
    pooled = learn_tables(pooled, every, pseudocount=0.0, **options)
    model, read = model_of(network), as_evidence(every, network.schema)
    parts = [*network_tables.family_sums(model, read, max_bytes)]
    for _, sums in parts:
        sums.forward(pooled.cpts)

    def best(side: Any) -> Any:  # log-likelihoods of rows with tables of their own
        counts: Any = zip(*(sums.backward(side[some]) for some, sums in parts), strict=True)
        pairs = [(x, x.sum(axis=-1)) for x in (np.sum(own, axis=0) for own in counts)]
        return np.array([xlogy(x, x).sum() - xlogy(y, y).sum() for x, y in pairs])

    first = np.arange(len(every)) < len(rows[0])
    masks = [first | True, first, *(rng.permutation(first) for _ in range(n))]
    found = [best(mask) + best(~mask) for mask in masks]
    ratios = np.maximum(found[1:], found[0] + NEGLIGIBLE).T
    return p, q, np.array([rank_p_value(x[0], x[1:]) for x in ratios])


@checks.public
@dataclass(frozen=True, eq=False)
class MechanismChange(Reported):
    """What `mechanism_change` finds.

    Attributes
    ----------
    measure : str
        What has changed.
    total : float
        By how much: the sum of the Shapley values.
    shapley : array of shape (variables,)
        The part of every table.
    divergences : array of shape (variables,)
        The summands of the Kullback-Leibler divergence of `before` from `after`, one per table.
    changed : bool array of shape (variables,)
        Whether tables differ.
    p_values : array of shape (variables,), or None
        Of tables that differ by chance only.
    names : list
        The names of the variables, or their numbers.
    before, after : BayesianNetwork
        The networks that were compared.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> after = ek.asia().do({"smoke": [0.8, 0.2]})
    >>> print(ek.mechanism_change(ek.asia(), after, target="lung", values=[1, 0]))
    The mean of 'lung' changed by 0.027, in 1 of 8 tables. The largest part, 0.027, is that of
    'smoke'.
    """

    measure: str
    total: float
    shapley: Array = field(repr=False)
    divergences: Array = field(repr=False)
    changed: Array = field(repr=False)
    p_values: Array | None = field(repr=False)
    names: list[str | int] = field(repr=False)
    before: BayesianNetwork = field(repr=False)
    after: BayesianNetwork = field(repr=False)

    _title = "Changed mechanisms"
    _table = "Tables, the largest part first"
    _picture = "Parts of the change"

    def _settings(self) -> dict[str, Any]:
        return {"change of": self.measure}

    def frame(self) -> DataFrame:
        """A data frame with a row per table, the largest part of the change first. Needs pandas.

        Returns
        -------
        DataFrame
            With the columns `shapley`, `divergence`, `changed`, and `p_value` if there are some.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> after = ek.asia().do({"smoke": [0.8, 0.2]})
        >>> ek.mechanism_change(ek.asia(), after).frame().index[0]
        'smoke'
        """
        order = np.argsort(-np.abs(self.shapley), kind="stable")
        found = {"shapley": self.shapley, "divergence": self.divergences, "changed": self.changed}
        found |= {} if self.p_values is None else {"p_value": self.p_values}
        return tables.ranked_frame(self.names, order, **found)

    def plot(self) -> Axes:
        """Axes with the parts of the tables, the largest on top. Needs matplotlib.

        Returns
        -------
        matplotlib axes

        Examples
        --------
        >>> import expectedkernels as ek
        >>> after = ek.asia().do({"smoke": [0.8, 0.2]})
        >>> ek.mechanism_change(ek.asia(), after, target="lung").plot().get_xlabel()
        "part of the change of the mean of 'lung'"
        """
        from expectedkernels.plotting import MOST_BARS, plot_importances

        order = np.argsort(-np.abs(self.shapley), kind="stable")[:MOST_BARS]
        what = f"part of the change of the {self.measure}"
        return plot_importances([str(self.names[v]) for v in order], self.shapley[order], what)

    def __str__(self) -> str:
        top, n = int(np.argmax(np.abs(self.shapley))), int(self.changed.sum())
        what = f"The {self.measure} changed by {self.total:.4g}, in {n} of {len(self.names)} tables"
        return f"{what}. The largest part, {self.shapley[top]:.4g}, is that of {self.names[top]!r}."
