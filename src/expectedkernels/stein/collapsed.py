"""Stein kernels of collapsed samples, and of targets with zeros."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from expectedkernels.algebra import shift
from expectedkernels.arrays import Array, RowsLike
from expectedkernels.checks import (
    DataError,
    KernelError,
    PropertyError,
    SizeError,
    progress_bar,
    public,
    public_in,
)
from expectedkernels.circuits.block_circuit import host_for
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.operands import (
    CircuitSide,
    check_single_root,
    extent_of_operand,
    sweep_cost,
)
from expectedkernels.circuits.queries import require_possible
from expectedkernels.data.evidence import Column, Evidence, as_evidence
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES
from expectedkernels.expectation import expected_kernel
from expectedkernels.kernels.empirical import sample_rows
from expectedkernels.kernels.gram import KernelBlocks, gram
from expectedkernels.kernels.kernel import ExpHamming, Kernel, refuse_gradients, require_kernel
from expectedkernels.kernels.points import Scaled
from expectedkernels.kernels.target import Target
from expectedkernels.models.factor_graph import BayesianNetwork, CollapsedModel, FactorGraph
from expectedkernels.sampling.gibbs import irreducible, is_positive
from expectedkernels.stein.stein_kernel import (
    OPERATORS,
    TOO_RARE,
    PairwiseKernel,
    SteinKernel,
    check_choices,
    discrete_cardinalities,
    is_strictly_positive_definite,
    marked,
    same_single_mark,
    steps,
    update_moves,
)

CHUNK_BYTES = 2**26
"""Pairs of samples are worked on in groups whose values stay near the processor."""


@public
class CollapsedSteinKernel(PairwiseKernel):
    r"""The Stein kernel of a target between collapsed samples.

    A collapsed sample has values for some variables (:math:`x_s`) and stands for the distribution
    of all others given these, :math:`p(x_c \mid x_s)`. The kernel of two of them is the mean of the
    Stein kernel of p (see `SteinKernel`) over what both stand for. Every sample may
    have values for other variables.

    Parameters
    ----------
    circuit : Circuit
        The target, normalised or not; it need not be deterministic.
    kernel : Kernel, optional
        Must be compatible with the circuit. Default: ``ExpHamming()``.
    zeros : "raise" or "restrict"
        For shifts: what to do if the target has zeros, as in `SteinKernel`. Only the distribution
        of the variables with values matters: zeros that collapsed variables fill do no harm.
    max_bytes : int
        How much memory intermediate values may take.
    operator : "shift" or "gibbs"
        As in `SteinKernel`. The updates of "gibbs" are those of `collapsed_gibbs`: a variable is
        drawn anew given the other values, with the collapsed variables summed out.
    positive : bool, optional
        Whether the target is known to be positive everywhere. Default: found out, which takes a
        check of determinism; what then is not known is looked up next to the samples.

    Raises
    ------
    DataError
        If it is not given a circuit.

    Notes
    -----
    A variable contributes to the kernel of two samples only if both have values for it. With
    :math:`f` the circuit's table of that variable, the operators turn it into
    :math:`f(\uparrow v)(\delta_x(v) - \delta_{\downarrow x}(v))` ("shift") and
    :math:`f(v)(\delta_x(v) - p(x_i \mid x_{s \setminus i}))` ("gibbs"); all variables together are
    one sweep in which one variable is marked (see `expectedkernels.kernels.marks`), for all
    pairs of distinct rows at once. Cost: that of about three expected kernels.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
    >>> stein = CollapsedSteinKernel(p, ek.ExpHamming())
    >>> nan = float("nan")
    >>> stein([[0, nan, 1], [nan, 1, nan], [1, nan, nan]]).round(6).tolist()
    [[68.97897, 0.0, -1.800878], [0.0, 0.489207, 0.0], [-1.800878, 0.0, 0.57358]]
    """

    def __init__(
        self,
        circuit: Circuit,
        kernel: Kernel | None = None,
        zeros: str = "raise",
        max_bytes: int = DEFAULT_MAX_BYTES,
        *,
        operator: str = "shift",
        positive: bool | None = None,
    ):
        if not isinstance(circuit, Circuit):
            why = ": a function cannot be summed over exactly" * isinstance(circuit, Target)
            raise DataError(
                "The target of collapsed samples must be a Circuit (a FactorGraph compiles to "
                f"one). Got {type(circuit).__name__} instead{why}."
            )
        kernel = ExpHamming() if kernel is None else kernel
        check_choices(kernel, zeros, operator)
        refuse_gradients("CollapsedSteinKernel", kernel)
        check_single_root(circuit, "A Stein kernel")
        self.cardinalities = discrete_cardinalities(circuit)
        self.circuit = host_for(circuit, "CollapsedSteinKernel")
        self.kernel, self.zeros, self.operator, self.max_bytes = kernel, zeros, operator, max_bytes
        self._blocks = self._marked_kernel()
        self._set_marked(positive)

    def _set_marked(self, positive: bool | None) -> None:
        """Set what a marked state means, and whether shifts may meet zeros."""
        if self.operator == "gibbs":
            self._marked, self._positive = marked(self.circuit, lambda table: table), True
            return
        self._marked = marked(self.circuit, lambda table: np.roll(table, -1, axis=1))
        self._positive = bool(is_positive(self.circuit)) if positive is None else positive

    def with_operator(self, operator: str) -> CollapsedSteinKernel:
        """The same with another operator; what does not depend on it is shared.

        Parameters
        ----------
        operator : "shift" or "gibbs"

        Returns
        -------
        CollapsedSteinKernel

        Examples
        --------
        >>> import expectedkernels as ek
        >>> stein = CollapsedSteinKernel(ek.factorized([[0.2, 0.8], [0.5, 0.5]]))
        >>> stein.with_operator("gibbs").operator
        'gibbs'
        """
        check_choices(self.kernel, self.zeros, operator)
        other = copy(self)
        other.operator = operator
        other._set_marked(None)
        return other

    def __getstate__(self) -> dict[str, Any]:
        # blocks refer to a module, which cannot be pickled, and are quickly made again
        return {name: value for name, value in vars(self).items() if name != "_blocks"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._blocks = self._marked_kernel()

    def _marked_kernel(self) -> KernelBlocks:
        blocks = self.kernel.blocks(self.circuit.vtree, self.cardinalities)
        return same_single_mark(blocks, self.cardinalities)

    def cost(self, rows: RowsLike) -> float:
        """What the Gram matrix of rows costs, in numbers computed, before it is.

        Parameters
        ----------
        rows : array of shape (n, variables)
            NaN is collapsed.

        Returns
        -------
        float

        Examples
        --------
        >>> import expectedkernels as ek
        >>> stein = CollapsedSteinKernel(ek.factorized([[0.2, 0.8], [0.5, 0.5]]))
        >>> nan = float("nan")
        >>> stein.cost([[0, nan]]) < stein.cost([[0, nan], [1, nan], [0, 1]])
        True
        """
        extent = extent_of_operand(self._read(rows)[1].operand)
        # with and without a mark there are three products for one, and half of the pairs
        return 0.5 * sweep_cost(extent, extent, 3)

    def _gram(self, first: Any, second: Any) -> Any:
        (logs, p), (other_logs, q) = first, second
        with progress_bar(len(logs) * len(other_logs), "Stein kernels") as bar:
            most = min(self.max_bytes, CHUNK_BYTES)
            found = gram((p, q), self._blocks, most, bar, symmetric=p is q)
        scale = -logs[:, None] - other_logs[None, :]
        scaled = Scaled(found.data, scale if found.scale is None else found.scale + scale)
        return scaled.linear("The Stein kernel of two samples", TOO_RARE)

    def _read(self, rows: Any) -> tuple[Any, CircuitSide]:
        """The logs of the probabilities of rows, and the marked circuit given these."""
        from scipy.special import logsumexp  # slow to import, and only needed here

        values = sample_rows(self.circuit, rows, least=0)
        logs = np.asarray(require_possible(self.circuit, as_evidence(values, self.cardinalities)))
        kept = None
        if not self._positive:
            _, kept = steps(self.circuit, values, self.zeros)
        columns = []
        tables = self.circuit.all_site_logs(values) if self.operator == "gibbs" else []
        for v, n in enumerate(self.cardinalities):
            seen = np.flatnonzero(~np.isnan(values[:, v]))
            here = np.eye(n)[values[seen, v].astype(np.intp)]
            if self.operator == "gibbs":
                # a sum of rounded numbers may be less than one of its terms by rounding
                log_chance = logs[seen] - logsumexp(tables[v][seen], axis=1)
                log_chance = np.minimum(log_chance, 0.0)[:, None]
                moves = np.where(here == 1, -np.expm1(log_chance), -np.exp(log_chance))
            else:
                before = np.roll(here, -1, axis=1)
                moves = here - (before if kept is None else kept[seen, v, None] * before)
            columns.append(_column(len(values), seen, here, moves))
        evidence = Evidence([2 * n for n in self.cardinalities], columns=columns)
        return logs, CircuitSide(self._marked, evidence, by_patterns=True)

    def __repr__(self) -> str:
        return f"<CollapsedSteinKernel of {self.circuit!r} with {self.kernel!r}>"


def _column(n_rows: int, seen: Any, here: Any, moves: Any) -> Column:
    """What rows say of one variable, as weights of its states and of its marked states.

    A value lets the variable be in that state, or, if it is marked, in any state with the weights
    of the operator. A variable that is summed out can be in any state, but is never marked.
    """
    n = here.shape[1]
    statements = np.hstack([np.ones((n_rows, n)), np.zeros((n_rows, n))])
    statements[seen] = np.hstack([here, moves])
    distinct, codes = np.unique(statements, axis=0, return_inverse=True)
    return Column(distinct, None, codes.reshape(-1))


NODE, PAIR = 110_000.0, 30.0
"""What a node costs for every sampled variable, and a pair of conditionals, in numbers computed."""


@public_in("stein")
class PartitionSteinKernel(PairwiseKernel):
    """The Stein kernel of a model between samples that all collapse the same variables.

    Only the conditionals of the collapsed variables are compiled (see `CollapsedModel`), so that
    the model itself may be too large for that.

    Parameters
    ----------
    model : CollapsedModel
    kernel : Kernel
    zeros : "raise" or "restrict"
        As in `SteinKernel`.
    max_bytes : int
        How much memory intermediate values may take.
    operator : "shift" or "gibbs"
        As in `SteinKernel`.

    Notes
    -----
    Every sampled variable takes one batch of expected kernels between the conditionals given the
    samples and given the samples with that variable in other states.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> grid = ek.ising_grid(3, 3, rng=0)
    >>> model = ek.models.CollapsedModel(grid, [1, 3, 5, 7])
    >>> stein = PartitionSteinKernel(model, ek.ExpHamming())
    >>> rows = np.ones((2, 9))
    >>> rows[:, [1, 3, 5, 7]] = np.nan
    >>> rows[1, 0] = 0
    >>> whole = ek.CollapsedSteinKernel(grid.circuit(), ek.ExpHamming())
    >>> bool(abs(stein(rows) - whole(rows)).max() < 1e-9)
    True
    """

    def __init__(
        self,
        model: CollapsedModel,
        kernel: Kernel,
        zeros: str = "raise",
        max_bytes: int = DEFAULT_MAX_BYTES,
        *,
        operator: str = "shift",
    ):
        check_choices(kernel, zeros, operator)
        refuse_gradients("PartitionSteinKernel", kernel)
        self.operator = operator
        self.model, self.kernel, self.zeros, self.max_bytes = model, kernel, zeros, max_bytes
        self.cardinalities = list(model.model.cardinalities)

    def site_logs(self, X: Array, variable: int) -> Array:
        """The logs of the marginal of the sampled variables, one of them set to each state."""
        n, card = len(X), self.cardinalities[variable]
        rows = np.repeat(X, card, axis=0)
        rows[:, variable] = np.tile(np.arange(card), n)
        return self.model.log_marginal(rows).reshape(n, card)

    def _read(self, rows: Any) -> tuple[Any, Any, Any]:
        values = sample_rows(self.model.model, rows, least=0)
        free = np.isnan(values)
        wanted = np.zeros(values.shape[1], dtype=np.bool_)
        wanted[list(self.model.collapsed)] = True
        if (free != wanted).any():
            row = int(np.argmax((free != wanted).any(axis=1)))
            raise DataError(
                "All samples must collapse the same variables here, "
                f"{list(self.model.collapsed)}. Row {{row}} collapses "
                f"{np.flatnonzero(free[row]).tolist()}; compile the whole model to mix them.",
                row=row,
            )
        if self.operator == "gibbs":
            return values, None, None
        return values, *steps(self, values, self.zeros, self.model.sampled)

    def _gram(self, first: Any, second: Any) -> Any:
        total = np.zeros((len(first[0]), len(second[0])))
        for variable in self.model.sampled:
            circuit = self.model.circuit
            if self.operator == "shift":
                circuit = shift(circuit, variable)
            evidence, weights = own = self._measures(first, variable)
            others, other_weights = own if second is first else self._measures(second, variable)
            given: Any = {"evidence_p": evidence, "evidence_q": others}
            means = expected_kernel(
                circuit, circuit, self.kernel, **given, max_bytes=self.max_bytes
            )
            means = weights[:, None] * means * other_weights[None, :]
            n, m = total.shape
            total += means.reshape(-1, n, means.shape[1] // m, m).sum(axis=(0, 2))
        return total

    def _measures(self, given: Any, variable: int) -> tuple[Evidence, Any]:
        """Conditionals, as evidence on the circuit, and their signed masses.

        For shifts: first the conditionals given the next state of the variable, placed at its state
        (the circuit is shifted), then those given its state, placed at the state before. Else
        the conditionals given every state of it.
        """
        rows, ratios, kept = given
        card = self.cardinalities[variable]
        states = rows[:, variable].astype(np.intp)
        if self.operator == "gibbs":
            return self._updates(rows, states, variable)
        after = rows.copy()
        after[:, variable] = (states + 1) % card
        # where the next state is impossible, its ratio is zero, and any conditional will do
        after[ratios[:, variable] == 0] = rows[ratios[:, variable] == 0]
        both = np.concatenate([after, rows])
        evidence, _ = self.model.evidence(both)
        places = (both[:, variable].astype(np.intp) - 1) % card
        evidence[variable] = np.eye(card)[places]
        weights = np.concatenate([ratios[:, variable], -kept[:, variable]])
        return as_evidence(evidence, self.cardinalities), weights

    def _updates(self, rows: Any, states: Any, variable: int) -> tuple[Evidence, Any]:
        """Conditionals given every state of a variable, and how an update weighs them."""
        card = self.cardinalities[variable]
        weights = update_moves(self.site_logs(rows, variable), states, rows)
        every = np.tile(rows, (card, 1))
        every[:, variable] = np.repeat(np.arange(card), len(rows))
        # impossible states have no weight, and any conditional will do
        impossible = (weights == 0).T.reshape(-1)
        every[impossible] = np.tile(rows, (card, 1))[impossible]
        evidence, _ = self.model.evidence(every)
        return as_evidence(evidence, self.cardinalities), weights.T.reshape(-1)


def partition_cost(cardinalities: Any, rows: Any) -> float:
    """What the Gram matrix of rows costs by their conditionals, in numbers computed.

    Examples
    --------
    >>> partition_cost([2, 2], np.array([[0.0, np.nan]]))
    330120.0
    """
    sampled = np.flatnonzero(~np.isnan(rows).any(axis=0))
    n_nodes = 2 * len(cardinalities) - 1
    pairs = sum((cardinalities[v] * len(rows)) ** 2 for v in sampled.tolist())
    return len(sampled) * n_nodes * NODE + PAIR * pairs


REMEDIES = ("auto", "raise", "collapse", "smooth", "restrict")
"""What can be done about zeros in the target."""

ADVICE = (
    "Use zeros='auto' or operator='gibbs', which need no positive target; sum out the variables "
    "that others determine (zeros='collapse'); smooth the tables (zeros='smooth'); or restrict the "
    "shifts to the support (zeros='restrict')."
)

UPDATES = "The target has zeros: Gibbs updates take the place of shifts."


@dataclass(frozen=True)
class ZerosPlan:
    """What is done about zeros."""

    target: Any  # as given, or smoothed
    hidden: tuple[int, ...]  # the variables to sum out
    shifts: str  # what shifts do where they meet zeros: "raise" or "restrict"
    operator: str
    note: str = ""  # the same in words, empty if nothing had to be done


def plan_zeros(
    target: Any, rows: Any, zeros: str, operator: str, epsilon: float = 0.01
) -> ZerosPlan:
    """What to do about the zeros of a target, by what is known of it before it is asked.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> plan_zeros(ek.asia(), np.zeros((1, 8)), "auto", "shift").note
    "The target has zeros: 'either' is summed out, and Gibbs updates take the place of shifts."
    """
    if zeros == "smooth":
        if not isinstance(target, FactorGraph):
            raise PropertyError(
                "Only the tables of a FactorGraph can be smoothed. Got "
                f"{type(target).__name__}; learn or compile the circuit of a smoothed model."
            )
        target = target if target.is_positive else target.smoothed(epsilon)
    if zeros == "collapse":
        return ZerosPlan(target, tuple(determined_variables(target)), "raise", operator)
    if zeros != "auto" or has_no_zeros(target) or not isinstance(target, FactorGraph):
        return ZerosPlan(target, (), "restrict" if zeros == "restrict" else "raise", operator)
    gone = set(np.flatnonzero(np.isnan(rows).all(axis=0)).tolist())
    hidden = set(determined_variables(target)) - gone
    if not hidden:
        return ZerosPlan(target, (), "raise", operator)
    if not irreducible(target, gone) and irreducible(target, gone | hidden):
        names = target.names
        shown = ", ".join(str(v) if names is None else repr(names[v]) for v in sorted(hidden))
        verb = "is" if len(hidden) == 1 else "are"
        note = UPDATES.replace(": ", f": {shown} {verb} summed out, and ")
        return ZerosPlan(target, tuple(sorted(hidden)), "raise", "gibbs", note)
    return ZerosPlan(target, (), "raise", "gibbs", UPDATES)


def has_no_zeros(target: Any) -> bool:
    """Whether a target is known to have no zeros."""
    return isinstance(target, FactorGraph) and target.is_positive


def warn_of_zeros(target: Any, stacklevel: int) -> None:
    """Complete samples that are not next to a zero do not show that there are some."""
    if isinstance(target, FactorGraph) and not target.is_positive:
        warnings.warn(
            "The target has zeros, though none next to these samples: Stein operators do not have "
            f"mean zero, and weights that look good may be wrong. {ADVICE}",
            stacklevel=stacklevel + 1,
        )


def warn_of_classes(target: Any, rows: Any, stacklevel: int, option: str = "") -> None:
    """Updates of single variables cannot weigh parts of the support against each other."""
    if has_no_zeros(target):
        return
    if isinstance(target, Target):
        reason = "it is not known whether changes of single variables connect it"
        advice = "Samples of all parts, in the right proportions, are needed."
    else:
        verdict = irreducible(target, np.flatnonzero(np.isnan(rows).all(axis=0)).tolist())
        if verdict:
            return
        reason = verdict.reason
        own = "zeros='collapse'" if isinstance(target, FactorGraph) else "collapsed_bbis"
        advice = f"Sum out the variables that others determine ({option or own})."
    warnings.warn(
        f"Gibbs updates may not tell what the parts of the support weigh: {reason}. {advice}",
        stacklevel=stacklevel + 1,
    )


def determined_variables(target: FactorGraph) -> list[int]:
    """The variables to sum out so that zeros of a model's tables are not met.

    In a Bayesian network these are the variables whose tables have zeros. In other factor graphs,
    for every table with zeros, the variable is taken whose sum leaves fewest of them.

    Parameters
    ----------
    target : FactorGraph

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
        raise PropertyError(
            "Variables that others determine are found by the tables of a FactorGraph. Got "
            f"{type(target).__name__}; name them in 'collapsed'."
        )
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


def require_summable(target: Any, rows: Any) -> None:
    """Raise if variables of a function are collapsed in some row."""
    if isinstance(target, Target) and np.isnan(rows).any():
        raise PropertyError(
            "Collapsed variables are summed out exactly, and a Target is a function, which cannot "
            "be summed over. Give the model as a FactorGraph, or complete samples."
        )


def stein_kernels(
    target: Any, rows: Any, kernel: Kernel, zeros: str, max_bytes: int
) -> tuple[Any, Any, Circuit | None, Any]:
    """Both Stein kernels for these rows, and the compiled target or else its conditionals."""
    refuse_gradients("What is made of a Stein kernel", kernel, target)
    if not np.isnan(rows).any():
        shifts, updates = (SteinKernel(target, kernel, zeros, kind) for kind in OPERATORS)
        return shifts, updates, None, None
    try:
        circuit = target
        if not isinstance(target, Circuit):
            circuit, _ = target.compile(kernel.vtree, max_bytes=max_bytes)
            _ = circuit.blocks  # tables may fit where units do not
    except SizeError as error:
        masks = np.unique(np.isnan(rows), axis=0)
        if len(masks) > 1:
            raise SizeError(
                f"{error} Samples that collapse different variables need the whole model compiled; "
                "with one set collapsed in all samples, only the conditionals are."
            ) from error
        hidden = np.flatnonzero(masks[0]).tolist()
        model = CollapsedModel(target, hidden, shared=False, max_bytes=max_bytes)
        one, other = (
            PartitionSteinKernel(model, kernel, zeros, max_bytes, operator=kind)
            for kind in OPERATORS
        )
        return one, other, None, model.marginals
    known = True if has_no_zeros(target) else None
    first = CollapsedSteinKernel(circuit, kernel, zeros, max_bytes, positive=known)
    return first, first.with_operator("gibbs"), circuit, None


def check_stein_kernel(kernel: Any, cardinalities: list[int], level: int) -> None:
    """Raise unless a kernel is positive definite, and warn if it may not be strictly so."""
    require_kernel(kernel, "ExpHamming()")
    definite = kernel.is_positive_definite(cardinalities)
    if not definite:
        raise KernelError(
            f"Stein weights need a positive definite kernel, but {definite.reason}. "
            "ExpHamming() is one."
        )
    strict = is_strictly_positive_definite(kernel, cardinalities)
    if not strict:
        warnings.warn(
            f"The kernel may not be strictly positive definite ({strict.reason}): different "
            "distributions can have discrepancy zero, and weights that look perfect can be wrong. "
            "ExpHamming() tells all distributions apart.",
            stacklevel=level + 1,
        )
