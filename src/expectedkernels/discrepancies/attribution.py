"""Discrepancies attributed to columns, and of subgroups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from expectedkernels.arrays import Array, RowsLike, spans
from expectedkernels.checks import (
    DataError,
    EvidenceError,
    KernelError,
    check_real,
    is_int,
    public_in,
)
from expectedkernels.circuits.block_circuit import host_for
from expectedkernels.circuits.build import stack
from expectedkernels.circuits.circuit import Circuit, align, require_circuits
from expectedkernels.circuits.operands import CircuitSide, check_single_root
from expectedkernels.circuits.properties import require_compatible
from expectedkernels.circuits.queries import require_normalized
from expectedkernels.data.tables import as_floats, as_table, is_frame, ranked_frame
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES
from expectedkernels.expectation import expected_kernel
from expectedkernels.kernels.empirical import default_kernel
from expectedkernels.kernels.factors import Factor
from expectedkernels.kernels.gram import by_kernel_root, is_parallel, one_changed
from expectedkernels.kernels.kernel import (
    FactorKernel,
    Kernel,
    SumKernel,
    factor_matrix,
    refuse_gradients,
    require_kernel,
)
from expectedkernels.reports import Reported
from expectedkernels.sampling.gibbs import every_state
from expectedkernels.stein.stein_kernel import marked

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


AT_ONCE = 64
"""How many variables are changed in one sweep, at most."""
SIGNS = np.array([1.0, -1.0])
IGNORED = "The kernel of groups ignores the variables that they are made by"


def ignoring(
    p: Circuit, q: Circuit, k: Kernel | None = None, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> Array:
    r"""How much smaller the squared discrepancy is if one variable is ignored, for every variable.

    .. math:: \delta_i = \mathrm{MMD}^2_k(p, q) - \mathrm{MMD}^2_{k \text{ without } i}(p, q)

    Without i means that the factor of variable i in the kernel is one, which leaves the discrepancy
    of the marginals of the other variables. The variable that has changed, or whose dependence
    on the others has, is usually the one with the largest value. The values do not sum to
    anything; see `shapley_account` for some that do.

    Parameters
    ----------
    p, q : Circuit
        Compatible, and summing to one.
    k : Kernel, optional
        A product over the variables, or a sum of such. Default: as for `mmd2`.
    max_bytes : int

    Returns
    -------
    array of shape (variables,)

    Raises
    ------
    KernelError
        If the kernel is no sum of products.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.5, 0.5], [0.2, 0.8]]), ek.factorized([[0.5, 0.5], [0.4, 0.6]])
    >>> ek.monitoring.ignoring(p, q, ek.Delta()).round(6).tolist()
    [-0.04, 0.04]
    """
    p, q, terms = _pair("ignoring", p, q, k)
    ones = [Factor()] * p.n_variables
    found = [(w, *_changed_forms(p, q, own, ones, max_bytes)) for w, own in terms]
    return np.sum([w * (whole - without) for w, whole, without in found], axis=0)


def univariate(
    p: Circuit, q: Circuit, k: Kernel | None = None, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> Array:
    r"""The squared discrepancy of every variable alone: that of its marginal distributions.

    The factors of all other variables in the kernel are one. A variable that differs strongly by
    itself may still have a negative value in `shapley_account`, where it dilutes the differences
    of others more than it adds.

    Parameters
    ----------
    p, q : Circuit
        Compatible, and summing to one.
    k : Kernel, optional
        A product over the variables, or a sum of such. Default: as for `mmd2`.
    max_bytes : int

    Returns
    -------
    array of shape (variables,)

    Raises
    ------
    KernelError
        If the kernel is no sum of products.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.5, 0.5], [0.2, 0.8]]), ek.factorized([[0.5, 0.5], [0.4, 0.6]])
    >>> ek.monitoring.univariate(p, q, ek.Delta()).round(6).tolist()
    [0.0, 0.08]
    """
    p, q, terms = _pair("univariate", p, q, k)
    ones = [Factor()] * p.n_variables
    parts = [w * _changed_forms(p, q, ones, own, max_bytes)[1] for w, own in terms]
    return np.sum(parts, axis=0)


def shapley_account(
    p: Circuit, q: Circuit, k: Kernel | None = None, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> Array:
    r"""The Shapley values of the variables in the squared discrepancy; they sum to it.

    The worth of a set of variables is the squared discrepancy of its marginals: the factors of all
    others are one. With factors :math:`1 + k_i` the value of variable i is

    .. math:: \int_0^1 \langle (p - q) \otimes (p - q), k_i \prod_{j \neq i} (1 + t k_j) \rangle\,dt

    and the integrand a polynomial in t, which Gauss-Legendre quadrature integrates exactly.
    A change of a dependence is shared among all variables that take part in it: ask `ignoring` who
    has changed, and this for an account of how much.

    Parameters
    ----------
    p, q : Circuit
        Compatible, summing to one, over discrete variables.
    k : Kernel, optional
        A product over the variables, or a sum of such. Default: as for `mmd2`.
    max_bytes : int

    Returns
    -------
    array of shape (variables,)

    Raises
    ------
    KernelError
        If the kernel is no sum of products, or a variable is real.

    Notes
    -----
    Cost: half as many sweeps as there are variables.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.5, 0.5], [0.2, 0.8]]), ek.factorized([[0.5, 0.5], [0.4, 0.6]])
    >>> values = ek.monitoring.shapley_account(p, q, ek.ExpHamming(1.0))
    >>> bool(abs(values.sum() - ek.mmd2(p, q, ek.ExpHamming(1.0))) < 1e-15), values.argmax().item()
    (True, 1)
    """
    p, q, terms = _pair("shapley_account", p, q, k)
    if None in p.cardinalities:
        raise KernelError(
            "Shapley values of a discrepancy need discrete variables. Variable "
            f"{p.cardinalities.index(None)} is real; ignoring(p, q, k) takes real ones."
        )
    nodes, shares = np.polynomial.legendre.leggauss((p.n_variables + 1) // 2)
    total = np.zeros(p.n_variables)
    for weight, factors in terms:
        excess = [
            factor_matrix(factor, int(n or 0), v) - 1.0
            for v, (factor, n) in enumerate(zip(factors, p.cardinalities, strict=True))
        ]
        alone = [Factor(table=table) for table in excess]
        for t, share in zip(0.5 * (nodes + 1.0), 0.5 * shares, strict=True):
            mixed = [Factor(table=1.0 + t * table) for table in excess]
            total += weight * share * _changed_forms(p, q, mixed, alone, max_bytes)[1]
    return total


def _pair(name: str, p: Any, q: Any, k: Any) -> tuple[Circuit, Circuit, Any]:
    """Two circuits on one vtree, and the kernel as weights and products of factors."""
    require_circuits(name, p, q)
    for circuit in (p, q):
        check_single_root(circuit, "A discrepancy")
        require_normalized(circuit, "A discrepancy")
    p, q = align(p, q)
    require_compatible(p, q)
    p, q = host_for(p, name), host_for(q, name)
    k = _kernel(name, default_kernel(p, q) if k is None else k)
    terms = _terms(k, p, "A discrepancy is attributed to variables by the factors of its kernel")
    return p, q.aligned_to(p.vtree), terms


def _kernel(name: str, k: Any) -> Kernel:
    require_kernel(k)
    refuse_gradients(name, k)
    return k


def _changed_forms(p: Circuit, q: Circuit, factors: Any, others: Any, max_bytes: int) -> Any:
    """The squared discrepancy, and for every variable that with its other factor."""
    both = stack([p, q])
    side = CircuitSide(both)
    changed = np.zeros(p.n_variables)
    whole = 0.0
    for part in spans(p.n_variables, AT_ONCE):
        variables = range(p.n_variables)[part]
        kernel, order = one_changed(both.vtree, factors, others, variables)
        values = by_kernel_root((side, side), kernel, max_bytes)
        forms = SIGNS @ values @ SIGNS
        whole, changed[order] = float(forms[0]), forms[1:]
    return whole, changed


GroupsLike = int | RowsLike | Sequence[Mapping[str, Any]] | Sequence[str | Sequence[str]]
"""Rows of evidence, mappings from variables to states, or variables whose states are groups."""


FEW_AT_ONCE = 8
"""The same where every group comes many times."""


@public_in("monitoring")
@dataclass(frozen=True, eq=False)
class Groups(Reported):
    """What `group_discrepancies` finds.

    Attributes
    ----------
    groups : list of str
        What is known of every group.
    probabilities : array of shape (groups,)
        How large the groups are.
    mmd2 : array of shape (groups,)
        The squared discrepancy of every group from the population.
    rows : array of shape (groups, variables)
        The groups as evidence, NaN where nothing is known.
    circuit : Circuit
    kernel : Kernel

    Examples
    --------
    >>> import expectedkernels as ek
    >>> found = ek.group_discrepancies(ek.asia().circuit(), ["smoke", "tub"])
    >>> found.groups, found.between.shape
    (['smoke = yes', 'smoke = no', 'tub = yes', 'tub = no'], (4, 4))
    """

    groups: list[str]
    probabilities: Array
    mmd2: Array
    rows: Array = field(repr=False)
    circuit: Circuit = field(repr=False)
    kernel: Kernel = field(repr=False)

    _title = "Groups of a population"
    _table = "Groups, the furthest first"
    _picture = "Discrepancies and sizes"

    def _numbers(self) -> dict[str, Any]:
        return {"groups": len(self.groups), "largest discrepancy": self.mmd.max()}

    @property
    def mmd(self) -> Array:
        """The discrepancy of every group from the population."""
        return np.sqrt(np.maximum(self.mmd2, 0.0))

    @cached_property
    def between(self) -> Array:
        """The squared discrepancies between all pairs of groups, (groups, groups).

        The kernel ignores the variables that either of the two is made by. Cost: a Gram matrix of
        the groups, and one value for every group and set of such variables.
        """
        known = ~np.isnan(self.rows)
        sets, place = np.unique(known, axis=0, return_inverse=True)
        kernels = _kernels(self.circuit, _terms(self.kernel, self.circuit), DEFAULT_MAX_BYTES)
        across = kernels(self.rows, known, self.rows, known)
        own = np.empty((len(known), len(sets)))
        for part in spans(len(known), FEW_AT_ONCE):
            # what is hidden on one side is ignored: the own variables here, those of others there
            rows, n = self.rows[part], len(self.rows[part])
            others = np.repeat(rows, len(sets), axis=0), np.tile(sets, (n, 1))
            values = kernels(rows, known[part], *others).reshape(n, n, len(sets))
            own[part] = values[np.arange(n), np.arange(n)]
        pairs = own[:, place.reshape(-1)]
        found = pairs + pairs.T - across - across.T
        np.fill_diagonal(found, 0.0)
        return found

    def frame(self) -> DataFrame:
        """A data frame with a row per group, the furthest from the population first. Needs pandas.

        Returns
        -------
        DataFrame
            With the columns `probability` and `mmd`.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> ek.group_discrepancies(ek.asia().circuit(), ["smoke"]).frame().shape
        (2, 2)
        """
        order = np.argsort(-self.mmd2, kind="stable")
        return ranked_frame(self.groups, order, probability=self.probabilities, mmd=self.mmd)

    def plot(self) -> Axes:
        """Axes with the discrepancies of the groups against their sizes. Needs matplotlib.

        Returns
        -------
        matplotlib axes

        Examples
        --------
        >>> import expectedkernels as ek
        >>> ek.group_discrepancies(ek.asia().circuit(), ["smoke"]).plot().get_xlabel()
        'probability of the group'
        """
        from expectedkernels.plotting.results import plot_groups

        return plot_groups(self)

    def __str__(self) -> str:
        top = int(np.argmax(self.mmd2))
        return (
            f"{len(self.groups)} groups, by {self.kernel!r}. The furthest from the population is "
            f"{self.groups[top]}: discrepancy {self.mmd[top]:.4g}, probability "
            f"{self.probabilities[top]:.3g}. Of rare groups a circuit knows little."
        )


def group_discrepancies(
    p: Circuit,
    groups: GroupsLike,
    k: Kernel | None = None,
    *,
    min_probability: float = 0.0,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Groups:
    """How far subgroups are from the population, all at once, with their probabilities.

    A group is what is left of the circuit given evidence. The variables that a group is
    made by are ignored by the kernel: they differ from those of the population by definition.

    Parameters
    ----------
    p : Circuit
        Of the population; it must sum to one.
    groups : array or frame of evidence, list of mappings, list of names, or int
        Rows with NaN for "not known"; mappings from names (or numbers) of variables to states;
        names of variables, each for all of its states, or tuples of names, for all combinations
        of their states; or a number, for all combinations of so many discrete variables.
    k : Kernel, optional
        A product over the variables, or a sum of such. Default: as for `mmd2`.
    min_probability : float
        Combinations of states that are less probable are left out, and those of probability zero.
    max_bytes : int
        How much memory intermediate values may take, as for `expected_kernel`.

    Returns
    -------
    Groups
        Prints a sentence; has `mmd`, `probabilities`, `between`, `frame()` and `plot()`.

    Raises
    ------
    EvidenceError
        If a group that was given by its states has probability zero.
    DataError
        If groups are given in another way.
    KernelError
        If the kernel is no sum of products over the variables.

    Notes
    -----
    Every state gets a copy that the kernel does not look at. Evidence on the copies makes groups,
    so that all groups are one call of `expected_kernel`, whatever variables they are made by.
    What a circuit says of groups that were rare in the data it was learned from is a guess:
    read the discrepancies beside the probabilities.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.asia().circuit()
    >>> found = ek.group_discrepancies(p, [{"smoke": 0}, {"smoke": 1}, {"tub": 0, "smoke": 1}])
    >>> found.groups
    ['smoke = yes', 'smoke = no', 'tub = yes, smoke = no']
    >>> found.mmd.round(3).tolist()
    [0.093, 0.093, 0.591]
    """
    require_circuits("group_discrepancies", p)
    check_single_root(p, "A discrepancy")
    require_normalized(p, "A discrepancy")
    check_real("group_discrepancies", "min_probability", min_probability, 0, 1, error=DataError)
    p = host_for(p, "group_discrepancies")
    k = _kernel("group_discrepancies", default_kernel(p) if k is None else k)
    terms = _terms(k, p)
    rows, enumerated = _rows_of(p, groups)
    chances = np.exp(p.log_likelihood(rows))
    kept = chances > 0
    if not enumerated and not kept.all():
        raise EvidenceError(
            f"Group {int(np.argmin(kept))}, {_call(p, rows[np.argmin(kept)])}, has probability "
            "zero, so there is no distribution of its members. Leave it out."
        )
    if enumerated:
        kept &= chances >= min_probability
    rows, chances = rows[kept], chances[kept]
    if not len(rows):
        raise DataError("There are no groups of at least this probability. Lower min_probability.")
    mmd2 = _from_population(p, rows, terms, max_bytes)
    return Groups([_call(p, row) for row in rows], chances, mmd2, rows, p, k)


def _from_population(p: Circuit, rows: Any, terms: Any, max_bytes: int) -> Any:
    """The squared discrepancies of groups from the population."""
    known = ~np.isnan(rows)
    sets, place = np.unique(known, axis=0, return_inverse=True)
    kernels = _kernels(p, terms, max_bytes)
    parts = [(rows[part], known[part]) for part in spans(len(rows), AT_ONCE)]
    own = np.concatenate([np.diag(kernels(*part, *part)) for part in parts])
    # beside the groups the population, of which the variables of every set are hidden
    free = np.full(sets.shape, np.nan)
    both = np.concatenate([rows, free]), np.concatenate([known, sets])
    across = kernels(*both, free[:1], np.zeros_like(sets[:1]))[:, 0]
    return own + across[len(rows) :][place.reshape(-1)] - 2.0 * across[: len(rows)]


def _kernels(p: Circuit, terms: Any, max_bytes: int) -> Callable[..., Any]:
    """The expected kernels of rows of evidence, given with what the kernel ignores of each."""
    circuit = marked(p, lambda table: table)  # with a copy of every state
    weights, products = zip(*terms, strict=True)
    variables = range(p.n_variables)
    beside = [map(_beside_copies, factors, p.cardinalities, variables) for factors in products]
    kernel = SumKernel([_Factors(list(factors)) for factors in beside], list(weights))

    def between(rows: Any, hidden: Any, others: Any, other_hidden: Any) -> Any:
        E, F = _evidence(p, rows, hidden), _evidence(p, others, other_hidden)
        given: Any = {"evidence_p": E, "evidence_q": F}
        return expected_kernel(circuit, circuit, kernel, **given, max_bytes=max_bytes)

    return between


def _beside_copies(factor: Factor, cardinality: int | None, variable: int) -> Factor:
    """The factor on states and their copies, which it does not look at."""
    if cardinality is None:
        return factor
    table = np.ones((2 * cardinality, 2 * cardinality))
    table[:cardinality, :cardinality] = factor_matrix(factor, cardinality, variable)
    return Factor(table=table)


def _evidence(p: Circuit, rows: Any, hidden: Any) -> list[Any]:
    """What rows allow every variable to be: states, or copies of them where they are hidden."""
    found: list[Any] = []
    for v, cardinality in enumerate(p.cardinalities):
        if cardinality is None:
            found.append(rows[:, v])
            continue
        states = np.arange(cardinality)
        allowed = np.isnan(rows[:, v, None]) | (rows[:, v, None] == states)
        parts = [allowed & ~hidden[:, v, None], allowed & hidden[:, v, None]]
        found.append(np.concatenate(parts, axis=1).astype(np.float64))
    return found


class _Factors(FactorKernel):
    """The product of given factors."""

    def __init__(self, factors: Sequence[Factor]):
        self._factors = list(factors)

    def factors(self, n_variables: int) -> list[Factor]:
        """One factor per variable."""
        return self._factors


def _terms(k: Kernel, p: Circuit, why: str = IGNORED) -> list[tuple[float, Sequence[Factor]]]:
    """The kernel as weights and products of factors."""
    blocks = k.blocks(p.vtree, p.cardinalities)
    if not is_parallel(blocks):
        raise KernelError(
            f"{why}, so it must be a product over the variables, or a sum of such. Got {k!r}, "
            "which has sums inside."
        )
    return list(zip(blocks.weights.tolist(), zip(*blocks.factors, strict=True), strict=True))


def _rows_of(p: Circuit, groups: Any) -> tuple[Any, bool]:
    """Groups as rows of evidence, and whether they are all combinations of states."""
    groups = as_table(groups)
    if is_int(groups):
        discrete = [v for v, card in enumerate(p.cardinalities) if card is not None]
        if not 1 <= groups <= len(discrete):
            raise DataError(
                f"Groups are made by 1 to {len(discrete)} discrete variables. Got {groups}."
            )
        return _combined(p, combinations(discrete, groups)), True
    if is_frame(groups):
        return _checked(p, p.schema.read_frame(groups)), False
    if isinstance(groups, (list, tuple)) and groups:
        if all(isinstance(x, Mapping) for x in groups):
            return _checked(p, np.stack([_row(p, x) for x in groups])), False
        keys = [(x,) if isinstance(x, str) else x for x in groups]
        if any(
            isinstance(x, (list, tuple)) and x and all(isinstance(y, str) for y in x) for x in keys
        ):
            return _combined(p, [p.schema.variables(key) for key in keys]), True
    rows = as_floats(groups)
    if rows.ndim != 2 or rows.shape[1] != p.n_variables or not len(rows):
        raise DataError(
            "Groups are rows of evidence with one column per variable, a list of mappings from "
            "names to states, a list of names (or tuples of names), or a number of variables. "
            f"Got an array of shape {rows.shape} for {p.n_variables} variables."
        )
    return _checked(p, rows), False


def _row(p: Circuit, group: Mapping[Any, Any]) -> Any:
    row = np.full(p.n_variables, np.nan)
    for key, state in group.items():
        variable = p.schema.variable(key)
        if p.cardinalities[variable] is None:
            row[variable] = float(state)
        else:
            row[variable] = p.schema.state(variable, state)
    return row


def _checked(p: Circuit, rows: Any) -> Any:
    """The rows, after checking that groups are made by states, each by at least one."""
    known = ~np.isnan(rows)
    if not known.any(axis=1).all():
        group = int(np.argmin(known.any(axis=1)))
        raise DataError(f"Group {group} says nothing, so it is the population. Leave it out.")
    for v in np.flatnonzero(known.any(axis=0)).tolist():
        if p.cardinalities[v] is None:
            raise DataError(
                f"Groups are made by states, and {p.schema.call(v)} is real. Divide it into bins "
                "before the circuit is learned."
            )
    return rows


def _combined(p: Circuit, sets: Iterable[Sequence[int]]) -> Any:
    """A row for every combination of states of every set of variables."""
    rows = []
    for variables in sets:
        states = every_state([p.cardinalities[v] or 1 for v in variables])
        rows.append(np.full((len(states), p.n_variables), np.nan))
        rows[-1][:, list(variables)] = states
    return _checked(p, np.concatenate(rows))


def _call(p: Circuit, row: Any) -> str:
    """What is known of a group, in words."""
    parts = []
    for v in np.flatnonzero(~np.isnan(row)).tolist():
        labels = p.schema.labels(v)
        state = int(row[v])
        parts.append(f"{p.schema.name(v)} = {state if labels is None else labels[state]}")
    return ", ".join(parts)
