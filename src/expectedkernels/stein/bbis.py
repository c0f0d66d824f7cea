"""Black-box importance sampling, its collapsed version, and Stein thinning."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from expectedkernels import arrays, checks
from expectedkernels.arrays import DEFAULT_MAX_BYTES, Array, RowsLike, SamplesLike, VariablesLike
from expectedkernels.checks import DataError, SizeError, check_choice, public_in, rows_numbered
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.kernels.empirical import as_log_weights, collapsed_rows, distinct_rows
from expectedkernels.kernels.kernel import Kernel, refuse_gradients, require_kernel
from expectedkernels.kernels.target import Target, TargetLike, refuse_functions
from expectedkernels.models.factor_graph import CollapsedModel, FactorGraph
from expectedkernels.sampling import weights as simplex
from expectedkernels.sampling.gibbs import determined_variables, irreducible
from expectedkernels.stein import langevin, stein_kernel
from expectedkernels.stein.stein_kernel import CollapsedSteinKernel, SteinKernel, ZerosMet
from expectedkernels.stein.weighted_samples import WeightedSamples

RULES = ("default", "raw", "smoothed", "signed", "uniform")
"""How weights can be made of a Gram matrix."""
REMEDIES = ("auto", "raise", "collapse", "smooth", "restrict")
"""What can be done about zeros in the target."""

ADVICE = (
    "Use zeros='auto' or operator='gibbs', which need no positive target; marginalise variables "
    "that others determine (zeros='collapse'); smooth the tables (zeros='smooth'); or restrict the "
    "shifts to the support (zeros='restrict')."
)

UPDATES = "The target has zeros: Gibbs updates take the place of shifts."


def stein_problem(
    call: str, target: Any, samples: Any, collapsed: Any, kernel: Any, log_weights: Any = None
) -> tuple[Any, Kernel, Any, Any]:
    """The target, kernel and rows of a call, checked, and the numbers of the rows that count."""
    target = stein_kernel.stein_target(call, target, samples, real=True)
    if not langevin.is_real(target):
        kernel = stein_kernel.DEFAULT_KERNEL if kernel is None else kernel
        require_kernel(kernel, "ExpHamming()")
        definite = kernel.is_positive_definite(target.cardinalities)
        if not definite:
            what = f"Stein weights need a positive definite kernel, but {definite.reason}"
            raise checks.KernelError(f"{what}. ExpHamming() is one.")
        strict = stein_kernel.is_strictly_positive_definite(kernel, target.cardinalities)
        if not strict:
            warnings.warn(
                f"The kernel may not be strictly positive definite ({strict.reason}): different "
                "distributions can have discrepancy zero, and weights that look perfect can be "
                "wrong. ExpHamming() tells all distributions apart.",
                stacklevel=4,
            )
    rows, used = collapsed_rows(target, samples, collapsed, log_weights=log_weights)
    if np.isnan(rows[used]).any():
        refuse_functions(target)
    kernel = langevin.median_kernel(target, rows[used]) if kernel is None else kernel
    return target, kernel, rows, used


class ZerosPlan(NamedTuple):
    """What is done about zeros."""

    target: Any  # as given, or smoothed
    operator: str
    hidden: tuple[int, ...] = ()  # the variables to marginalise
    note: str = ""  # the same in words, empty if nothing had to be done


def plan_zeros(target: Any, rows: Any, zeros: str, operator: str, epsilon: float) -> ZerosPlan:
    """What to do about the zeros of a target, by what is known of it before its evaluation.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> plan_zeros(ek.asia(), np.zeros((1, 8)), "auto", "shift", 0.01).note
    "The target has zeros: 'either' is marginalised, and Gibbs updates take the place of shifts."
    """
    if zeros == "smooth":
        if not isinstance(target, FactorGraph):
            what = f"Only the tables of a FactorGraph can be smoothed. Got {type(target).__name__}"
            raise checks.PropertyError(f"{what}; learn or compile the circuit of a smoothed model.")
        target = target if target.is_positive else target.smoothed(epsilon)
    if zeros == "collapse":
        return ZerosPlan(target, operator, tuple(determined_variables(target)))
    hidden, gone = [], set(np.flatnonzero(np.isnan(rows).all(axis=0)).tolist())
    if zeros == "auto" and isinstance(target, FactorGraph) and not target.is_positive:
        hidden = sorted(set(determined_variables(target)) - gone)
    if not hidden:
        return ZerosPlan(target, operator)
    if irreducible(target, gone) or not irreducible(target, gone.union(hidden)):
        return ZerosPlan(target, "gibbs", note=UPDATES)
    shown = ", ".join(repr(target.schema.name(v)) for v in hidden)
    verb = "is" if len(hidden) == 1 else "are"
    note = UPDATES.replace(": ", f": {shown} {verb} marginalised, and ")
    return ZerosPlan(target, "gibbs", tuple(hidden), note)


def has_no_zeros(target: Any) -> bool:
    """Whether a target is known to have no zeros."""
    return isinstance(target, FactorGraph) and target.is_positive


def warn_of_classes(target: Any, rows: Any, option: str = "") -> None:
    """Updates of single variables cannot weigh parts of the support against each other."""
    reason = "it is not known whether changes of single variables connect it"
    advice = "Samples of all parts, in the right proportions, are needed."
    if has_no_zeros(target):
        return
    if not isinstance(target, Target):
        verdict = irreducible(target, np.flatnonzero(np.isnan(rows).all(axis=0)).tolist())
        if verdict:
            return
        own = "zeros='collapse'" if isinstance(target, FactorGraph) else "collapsed_bbis"
        reason = verdict.reason
        advice = f"Marginalise the variables that others determine ({option or own})."
    what = "Gibbs updates may not tell what the parts of the support weigh"
    warnings.warn(f"{what}: {reason}. {advice}", stacklevel=4)


def stein_kernels(
    target: Any, rows: Any, kernel: Kernel, zeros: str, max_bytes: int
) -> dict[str, Any]:
    """Both Stein kernels for these rows, and the compiled target or else its conditionals."""
    refuse_gradients("What is made of a Stein kernel", kernel, target)
    if langevin.is_real(target):
        stein = langevin.LangevinSteinKernel(target, kernel)
        return {"stein": stein, "updates": stein}
    known: dict[str, Any] = {}
    make: Any = partial(SteinKernel, target, kernel, zeros)
    if np.isnan(rows).any():
        try:
            circuit = target
            if not isinstance(target, Circuit):
                kept = kernel.vtree is None and max_bytes >= DEFAULT_MAX_BYTES
                compiled = partial(target.compile, kernel.vtree, max_bytes=max_bytes)
                circuit = target.circuit() if kept else compiled()[0]
                _ = circuit.blocks  # tables may fit where units do not
            positive, known["circuit"] = has_no_zeros(target) or None, circuit
            settings = circuit, kernel, zeros, max_bytes
            make = partial(CollapsedSteinKernel, *settings, positive=positive)
        except SizeError as error:
            masks = np.unique(np.isnan(rows), axis=0)
            if len(masks) > 1:
                raise SizeError(
                    f"{error} Samples that collapse different variables need the whole model "
                    "compiled; with one set collapsed in all samples, only the conditionals are."
                ) from error
            hidden = np.flatnonzero(masks[0]).tolist()
            model = CollapsedModel(target, hidden, shared=False, max_bytes=max_bytes)
            known["conditionals"] = model.marginals
            make = partial(stein_kernel.PartitionSteinKernel, model, kernel, zeros, max_bytes)
    return {"stein": make(operator="shift"), "updates": make(operator="gibbs"), **known}


@public_in("stein")
@dataclass(frozen=True, eq=False, repr=False)
class SteinSamples(WeightedSamples):
    """Samples weighted by Stein discrepancy, with the Gram matrices the weights come from.

    Attributes
    ----------
    gram : array of shape (n, n), or None
        The Stein kernels of all pairs of samples that count, with shifts as operators.
    updates_gram : array of shape (n, n), or None
        The same for the operators of Gibbs updates, which the default rule looks at.
    stein, updates : SteinKernel, CollapsedSteinKernel or PartitionSteinKernel
        What makes them, when they are needed.
    operator : "shift" or "gibbs"
        Whose discrepancy is in `discrepancy`, and is minimised by rules other than the default.
    decision : str
        What was done about zeros of the target, and what the default rule found and did.
    used : int array, or None
        The numbers of the samples that count, None for all of them. The others had the weight zero
        from the start, and keep it.
    hidden : tuple of int
        Variables that are marginalised in all samples because of zeros, new ones included.
    note : str
        What was done about zeros of the target.

    Notes
    -----
    With shifts as operators, rare states dominate `discrepancy` and `uniform_discrepancy`, and the
    default rule, which keeps these states, may leave the first above the second; the discrepancies
    that it did look at are in `decision`.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> target = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
    >>> samples = ek.bbis(target, [[0, 0], [1, 1], [1, 0]], weights="raw")
    >>> samples.extended([[0, 1]]).n
    4
    """

    gram: Array = None
    updates_gram: Array = None
    stein: Any = None
    updates: Any = None
    operator: str = "shift"
    decision: str = ""
    used: Array = None
    hidden: tuple[int, ...] = ()
    note: str = ""

    def uniform(self) -> SteinSamples:
        """The same samples with equal weights; those that do not count keep the weight zero."""
        return self.reweighted("uniform")

    def extended(
        self,
        new: RowsLike,
        collapsed: VariablesLike | None = None,
        log_weights: ArrayLike | None = None,
    ) -> SteinSamples:
        """The samples with new ones, all weighted anew by the same rule.

        Only the rows of the Gram matrices that belong to new samples are computed.

        Parameters
        ----------
        new : array of shape (m, variables), or of shape (chains, m, variables)
            NaN where a variable is collapsed, as in `rows`.
        collapsed : iterable of int or str, or boolean array, optional
            What to marginalise in new samples, as for `collapsed_bbis`. Default: where they have
            NaN, even if one set was given for the others.
        log_weights : array of shape (m,), optional
            Logs of the importance weights of new samples, up to the same constant as those of the
            others; needed if these have some.

        Returns
        -------
        SteinSamples

        Raises
        ------
        DataError
            If new samples have missing values and the old ones none, or if only some samples
            have importance weights.
        PropertyError
            If the target is zero next to a sample.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> target = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
        >>> samples = ek.collapsed_bbis(target, [[0, 0], [1, 1]], [1])
        >>> samples.extended([[1, 0]], [1]).rows.tolist()
        [[0.0, nan], [1.0, nan], [1.0, nan]]
        """
        added, some = collapsed_rows(self.target, new, collapsed, least=0, log_weights=log_weights)
        if (self.log_weights is None) != (log_weights is None):
            raise DataError(
                "Either all samples have importance weights or none. Give log_weights for the new "
                "samples if, and only if, the others have them."
            )
        logs = None
        if log_weights is not None:
            logs = np.concatenate([self.log_weights, as_log_weights(log_weights, len(added))])
        added[:, list(self.hidden)] = np.nan
        if np.isnan(added[some]).any() and isinstance(self.stein, SteinKernel):
            what = "These samples have no collapsed variables, so new ones cannot have NaN"
            raise DataError(f"{what}. Use collapsed_bbis for all of them.")
        now = np.arange(self.n) if self.used is None else self.used
        known, used = self.rows[now], np.append(now, self.n + some)
        grams: Any = {}
        try:
            with rows_numbered(some):
                for name, stein in (("gram", self.stein), ("updates_gram", self.updates)):
                    gram = getattr(self, name)
                    grams[name] = None if gram is None else stein.extended(gram, known, added[some])
        except ZerosMet as error:
            advice = "Give all samples together to bbis or collapsed_bbis, with zeros='auto'."
            raise ZerosMet(error.where, advice) from error
        rows = np.vstack([self.rows, added])
        new_samples: Any = {"rows": rows, "used": used, "log_weights": logs, **grams}
        return weighted(replace(self, weights=None, **new_samples))

    def reweighted(self, weights: str = "default", operator: str | None = None) -> SteinSamples:
        """The same samples, weighted by another rule.

        Parameters
        ----------
        weights : "default", "raw", "smoothed", "signed" or "uniform"
            As for `bbis`.
        operator : "shift" or "gibbs", optional
            As for `bbis`. Default: that of these samples.

        Returns
        -------
        SteinSamples

        Raises
        ------
        PropertyError
            If the target is zero next to a sample, and shifts are requested.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> target = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
        >>> samples = ek.bbis(target, [[0, 0], [1, 1], [1, 0]])
        >>> samples.reweighted("uniform").weights.round(6).tolist()
        [0.333333, 0.333333, 0.333333]
        """
        check_choice("reweighted", "weights", weights, RULES)
        if operator is not None:
            check_choice("reweighted", "operator", operator, stein_kernel.OPERATORS)
        if operator is None or langevin.is_real(self.target):
            operator = self.operator
        try:
            return weighted(replace(self, rule=weights, operator=operator))
        except ZerosMet as error:
            advice = "Use operator='gibbs', which needs no positive target."
            raise ZerosMet(error.where, advice) from error


def check_memory(rows: Any, rule: str, operator: str, max_bytes: int) -> None:
    """Raise if the matrices behind the weights of these samples take more memory than allowed.

    Counted is what is held at the same time at the worst moment: Gram matrices of all samples and
    their copies, and the matrices of distinct samples that weights are computed with.
    """
    n, m = len(rows), len(distinct_rows(rows)[2])
    whole = {"uniform": 1, "default": 5 + (operator == "shift")}.get(rule, 4)
    needed = 8 * (whole * n**2 + (4 if rule == "uniform" else 6) * m**2)
    if needed > max_bytes:
        raise SizeError(
            f"The weights of {n} samples ({m} distinct) take {needed / 2**30:.3g} GiB of Gram "
            f"matrices, more than max_bytes={max_bytes}. Take fewer samples, such as every tenth "
            f"of a chain, or allow more memory: max_bytes={needed}."
        )
    advice = "Take fewer, such as every tenth of a chain."
    arrays.require_memory(needed, f"To weigh {n} samples", advice)


def weighted(samples: SteinSamples) -> SteinSamples:
    """The samples with weights by their rule.

    Gram matrices that the rule and the operator need are computed unless they are there; samples
    that do not count have the weight zero.
    """
    numbers = np.arange(samples.n) if samples.used is None else samples.used
    distinct, groups, first = distinct_rows(samples.rows[numbers])
    every, shift, stein = np.ix_(groups, groups), samples.operator == "shift", samples.stein
    ratios, updates = samples.gram, samples.updates_gram
    one = shift and ratios is None
    two = (samples.rule == "default" or not shift) and updates is None
    with rows_numbered(numbers[first]):
        if one and two and isinstance(stein, SteinKernel):
            grams = stein_kernel.shared_grams(stein, samples.updates, distinct)
            ratios, updates = (gram[every] for gram in grams)
        else:
            ratios = stein(distinct)[every] if one else ratios
            if two:
                cheaper = _by_conditionals(samples.target, samples.updates, distinct)
                updates = cheaper(distinct)[every]
    gram, equal = ratios if shift else updates, np.full(len(numbers), 1.0 / len(numbers))
    weights, certificate, decision = equal, None, samples.note
    if samples.rule == "signed":
        weights = simplex.signed_weights(gram)
    elif samples.rule == "default":
        cards: Any = samples.target.cardinalities
        exact = shift and (stein.zeros == "raise" or has_no_zeros(samples.target))
        exact = exact and bool(stein_kernel.is_strictly_positive_definite(stein.kernel, cards))
        logs = None if samples.log_weights is None else samples.log_weights[numbers]
        options: Any = {"groups": groups, "exact": exact, "log_weights": logs}
        found = simplex.default_weights(gram, updates, **options)
        weights, certificate = found.weights, found.certificate
        decision = f"{samples.note} {found.reason}".strip()
    elif samples.rule != "uniform":
        best = simplex.simplex_weights(gram, groups=groups)
        weights, certificate = best.weights, best.certificate
        weights = simplex.smoothed_weights(weights) if samples.rule == "smoothed" else weights
    whole = np.zeros(samples.n)
    whole[numbers] = weights
    # rounding can make a zero negative
    value, other = (max(0.0, float(w @ gram @ w)) for w in (weights, equal))
    result: Any = {"weights": whole, "certificate": certificate, "decision": decision}
    result |= {"discrepancy": value, "uniform_discrepancy": other}
    return replace(samples, gram=ratios, updates_gram=updates, **result)


def _by_conditionals(target: Any, whole: Any, rows: Any) -> Any:
    """The Stein kernel of updates that costs less: that of the target, or by its conditionals.

    How an update weighs states is different in every sample, so that there are few equal patterns
    in the sweep of the whole target. Conditionals of one set of variables do without.
    """
    hidden = np.isnan(rows)
    if not isinstance(whole, CollapsedSteinKernel) or not isinstance(target, FactorGraph):
        return whole
    if whole.kernel.vtree is not None or (hidden != hidden[0]).any() or hidden.all():
        return whole
    settings = whole.kernel, whole.zeros, whole.max_bytes
    try:
        if stein_kernel.partition_cost(target.cardinalities, rows) >= whole.cost(rows):
            return whole
        collapsed = np.flatnonzero(hidden[0]).tolist()
        model = CollapsedModel(target, collapsed, shared=False, max_bytes=whole.max_bytes)
    except SizeError:
        return whole
    return stein_kernel.PartitionSteinKernel(model, *settings, operator="gibbs")


def bbis(
    target: TargetLike,
    samples: SamplesLike,
    kernel: Kernel | None = None,
    *,
    weights: str = "default",
    signed: bool = False,
    operator: str = "shift",
    zeros: str = "auto",
    epsilon: float = 0.01,
    log_weights: ArrayLike | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> SteinSamples:
    r"""Samples weighted to approximate a target known up to a constant.

    The weights make the Stein discrepancy :math:`w^\top K w` of the weighted samples from the
    target small, where K is the Gram matrix of the target's Stein kernel (see `SteinKernel`).
    Where the samples come from does not matter: no proposal density is needed.

    Parameters
    ----------
    target : FactorGraph, BayesianNetwork, Circuit or Target
        Over discrete variables; a `Target` is made of a function, and may be a density over the
        reals, for which `operator`, `zeros` and `epsilon` do not matter.
    samples : array of shape (n, variables), or of shape (chains, n, variables)
        Complete points, for example of `gibbs`. Frames, labelled arrays and InferenceData are
        read as well, by the names of the variables if the target has names.
    kernel : Kernel, optional
        Strictly positive definite. Default: ``ExpHamming()``; over the reals `IMQ` with
        lengthscales by the median distance of standardised samples, or an `RBF`.
    weights : "default", "raw", "smoothed", "signed" or "uniform"
        "raw" are the probabilities that minimise the discrepancy. They repair samples from a wrong
        distribution, but spoil samples from the right one, because rare states lose their weight.
        "default" minimises the discrepancy of Gibbs updates instead, whose operators are bounded
        (see `default_weights`); what it did is in `decision`. "smoothed" adds 0.01 to
        the raw weights and normalises, as the curves published with the method do.
        "signed" minimises without a sign constraint: no probabilities, but often much better
        on collapsed samples.
    signed : bool
        The same as ``weights="signed"``.
    operator : "shift" or "gibbs"
        The operators of the discrepancy that "raw", "smoothed" and "signed" weights minimise (see
        `SteinKernel`): shifts, as published, or the bounded ones of Gibbs updates, which may meet
        zeros of the target.
    zeros : "auto", "raise", "collapse", "smooth" or "restrict"
        What to do if the target has zeros, which shifts must not meet. "auto": Gibbs updates take
        the place of shifts, which need no positive target; where the zeros of a factor graph keep
        updates of single variables apart, the variables that others determine (see
        `determined_variables`) are marginalised as well. What was done is in `decision`. "raise":
        an error. "collapse": marginalise the determined variables. "smooth": raise the zeros
        to `epsilon` (see `FactorGraph.smoothed`; this changes the target). "restrict": restrict
        the shifts to the support (which cannot see the relative mass of parts of the support
        that no change of a single variable connects).
    epsilon : float
        For ``zeros="smooth"``.
    log_weights : array of shape (n,), optional
        Logs of target over proposal, up to a constant, where the proposal is known: the default
        weights are then shrunk towards importance weights in place of equal ones (see
        `default_weights`). Good where a proposal visits several modes. Samples that
        carry log-weights, such as those of `cis`, need no argument. Samples of weight zero (-inf
        here, or a weight of zero that comes with them) are ignored and keep the weight zero.
    max_bytes : int
        How much memory all Gram matrices and intermediate values may take together.

    Returns
    -------
    SteinSamples
        With `weights`, `ess`, `discrepancy`, `certificate`, `marginals()`, `expect(f)`, `plot()`.

    Notes
    -----
    Cost: O(n^2 (sum of cardinalities)) for the Gram matrix of a kernel that factorises, by matrix
    products, and about O(n^3) for the weights; equal samples are merged before.

    Q. Liu and J. Lee, "Black-box importance sampling", AISTATS 2017; W. Li, Z. Zeng, A. Vergari
    and G. Van den Broeck, "Tractable Computation of Expected Kernels", UAI 2021.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> target = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
    >>> X = [[0, 0], [0, 1], [1, 0], [1, 1]]
    >>> samples = ek.bbis(target, X, weights="raw")
    >>> samples.weights.round(6).tolist()
    [0.1, 0.1, 0.4, 0.4]
    >>> patients = ek.cis(ek.asia(), 100, 0, rng=0)  # zeros are no obstacle
    >>> ek.bbis(ek.asia(), patients).decision.split(",")[0]
    "The target has zeros: 'either' is marginalised"
    """
    settings = weights, signed, operator, zeros, epsilon, log_weights, max_bytes
    return _weigh("bbis(target, samples, kernel)", target, samples, (), kernel, *settings)


def collapsed_bbis(
    target: TargetLike,
    samples: SamplesLike,
    collapsed: VariablesLike | None = None,
    kernel: Kernel | None = None,
    *,
    weights: str = "default",
    signed: bool = False,
    operator: str = "shift",
    zeros: str = "auto",
    epsilon: float = 0.01,
    log_weights: ArrayLike | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> SteinSamples:
    """Samples weighted as by `bbis`, with part of their variables marginalised exactly.

    Parameters
    ----------
    target : FactorGraph, BayesianNetwork or Circuit
        As for `bbis`; a function cannot be summed over exactly.
    samples : array of shape (n, variables), or of shape (chains, n, variables)
        What they say of collapsed variables is ignored. NaN marks a collapsed variable, too, as in
        the samples of `collapsed_gibbs`.
    collapsed : iterable of int or str, or boolean array, optional
        The variables to marginalise: one set for all samples, or a mask of shape (n, variables) (or
        (variables,)). Default: where the samples have NaN. Nothing collapsed makes plain `bbis`;
        with everything collapsed there is nothing to weigh, and all estimates are exact.
    kernel, weights, signed, operator, zeros, epsilon, log_weights, max_bytes
        As for `bbis`.

    Returns
    -------
    SteinSamples

    Notes
    -----
    The target is compiled once, and one sweep gives the kernels of all pairs of distinct samples
    (see `CollapsedSteinKernel`). If it is too large to be compiled, the same set must be
    collapsed in all samples: then only the conditionals are compiled (see
    `PartitionSteinKernel`). Where this is cheaper, it is done for Gibbs updates in any case.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> asia = ek.asia()
    >>> X = ek.collapsed_gibbs(asia, 50, ["either"], burn_in=100, thin=20, rng=0)
    >>> samples = ek.collapsed_bbis(asia, X, ["either", "lung", "bronc"])
    >>> samples.marginals()[3].shape
    (2,)
    """
    settings = weights, signed, operator, zeros, epsilon, log_weights, max_bytes
    call = "collapsed_bbis(target, samples, collapsed, kernel)"
    return _weigh(call, target, samples, collapsed, kernel, *settings)


def _weigh(
    call: str, target: Any, samples: Any, collapsed: Any, kernel: Any, *settings: Any
) -> SteinSamples:
    """Check the arguments, decide what to do about zeros, and weigh the samples."""
    rule, signed, operator, zeros, epsilon, log_weights, max_bytes = settings
    rule = "signed" if signed else rule
    check_choice("bbis", "weights", rule, RULES)
    if log_weights is not None and rule != "default":
        raise DataError(
            "Only weights='default' use log_weights. "
            f"Got weights={rule!r}. Leave out log_weights, or set weights='default'."
        )
    if log_weights is None and rule == "default" and isinstance(samples, WeightedSamples):
        log_weights = samples.log_weights
    arrays.check_max_bytes(max_bytes)
    check_choice("bbis", "operator", operator, stein_kernel.OPERATORS)
    check_choice("bbis", "zeros", zeros, REMEDIES)
    operator = "langevin" if langevin.is_real(target) else operator
    problem = stein_problem(call, target, samples, collapsed, kernel, log_weights)
    target, kernel, rows, used = problem
    check_memory(rows[used], rule, operator, max_bytes)

    def planned(plan: ZerosPlan) -> SteinSamples:
        free = rows.copy()
        free[:, list(plan.hidden)] = np.nan
        shifts = zeros if zeros == "restrict" else "raise"
        settings: Any = stein_kernels(plan.target, free[used], kernel, shifts, max_bytes)
        settings |= {"rows": free, "rule": rule, "log_weights": log_weights, **plan._asdict()}
        return weighted(SteinSamples(used=None if len(used) == len(rows) else used, **settings))

    plan = plan_zeros(target, rows[used], zeros, operator, epsilon)
    try:
        result = planned(plan)
    except SizeError:
        if zeros != "auto" or not plan.hidden:
            raise
        result = planned(plan._replace(hidden=(), note=UPDATES))
    except ZerosMet as error:
        if zeros != "auto":
            raise ZerosMet(error.where, ADVICE) from error
        result = planned(plan._replace(operator="gibbs", note=UPDATES))
    # complete samples that are not next to a zero do not show that there are some
    unseen = isinstance(result.stein, SteinKernel) and result.stein.zeros == "raise"
    if result.operator == "gibbs":
        if not isinstance(target, Target) or operator != "gibbs":
            warn_of_classes(result.target, result.rows[used])
    elif unseen and isinstance(result.target, FactorGraph) and not result.target.is_positive:
        warnings.warn(
            "The target has zeros, though none next to these samples: Stein operators do not have "
            f"mean zero, and weights that look good may be wrong. {ADVICE}",
            stacklevel=3,
        )
    return result


def stein_thin(
    target: TargetLike,
    samples: SamplesLike,
    m: int,
    *,
    kernel: Kernel | None = None,
    operator: str = "gibbs",
    collapsed: VariablesLike | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Array:
    r"""The numbers of m samples, with repeats, that together approximate a target.

    If the target is a circuit, or compiles to one, use `herd`: it knows the mean embedding of the
    target, and its points are several times closer to it. This function is for targets known up
    to a constant.

    One after the other, always the sample that makes the Stein discrepancy of those chosen
    smallest, all with equal weights:

    .. math:: j_t = \arg\min_j \; \tfrac{1}{2} G_{jj} + \sum_{s < t} G_{j, j_s}

    with the Gram matrix G of the target's Stein kernel, of which one row per step is computed.

    Parameters
    ----------
    target : FactorGraph, BayesianNetwork, Circuit or Target
        Known up to a constant, over discrete variables, or a `Target` over the reals.
    samples : array of shape (n, variables), or as for `bbis`
        From anywhere: a chain with its burn-in will do. Samples that come with a weight of zero
        are not chosen; other weights do not matter.
    m : int
        How many to choose.
    kernel : Kernel, optional
        Strictly positive definite. Default: ``ExpHamming()``; over the reals `IMQ`, as for `bbis`.
    operator : "gibbs" or "shift"
        As in `SteinKernel`. Shifts are unbounded where states are rare, so that these are never
        chosen: with them, the first m samples are often better.
    collapsed : iterable of int or str, or boolean array, optional
        What to marginalise exactly, as for `collapsed_bbis`. Default: where samples have NaN.
    max_bytes : int
        How much memory compiling and sums over collapsed variables may take.

    Returns
    -------
    int array of shape (m,)
        In the order of choice; of equal samples, the first; of others that are equally good,
        rounding may decide.

    Raises
    ------
    PropertyError
        If variables of a function are collapsed, or shifts meet zeros of the target.

    Notes
    -----
    O(n m) kernels in O(n) memory (a number for every state of every variable of a sample), where
    the weights of `bbis` take O(n^2) memory and O(n^3) time. Like all Stein discrepancies of
    single variables, this one hardly sees the relative mass of modes that are far apart.
    M. Riabiz et al., "Optimal thinning of MCMC output", JRSS B 2022; C. Benard, B. Staber and
    S. Da Veiga, "Kernel Stein discrepancy thinning", NeurIPS 2023, on what can go wrong.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> grid = ek.ising_grid(3, 3, rng=2)
    >>> X = np.random.default_rng(0).integers(2, size=(300, 9))
    >>> exact = np.array([table[1] for table in grid.marginals()])
    >>> errors = [
    ...     abs(rows.mean(axis=0) - exact).max() for rows in (X[ek.stein_thin(grid, X, 50)], X)
    ... ]
    >>> bool(errors[0] < errors[1] / 2)
    True
    """
    checks.check_count("stein_thin", "m", m, 1, error=DataError)
    check_choice("stein_thin", "operator", operator, stein_kernel.OPERATORS, DataError)
    arrays.check_max_bytes(max_bytes)
    call = "stein_thin(target, samples, m)"
    target, kernel, rows, used = stein_problem(call, target, samples, collapsed, kernel)
    rows = rows[used]
    first = np.sort(distinct_rows(rows)[2])  # in the order of the samples
    distinct, numbers = rows[first], used[first]
    made = stein_kernels(target, distinct, kernel, "raise", max_bytes)
    with rows_numbered(numbers):
        column, diagonal = made["updates" if operator == "gibbs" else "stein"]._columns(distinct)
        chosen = greedy_choice(column, diagonal, m)
    if operator == "gibbs" and not isinstance(target, Target):
        warn_of_classes(target, distinct, "collapsed=[...]")
    return numbers[chosen]


def greedy_choice(column: Callable[[int], Any], diagonal: Any, n: int, mu: Any = 0.0) -> list[int]:
    """The numbers of n candidates, with repeats, whose equal weights have a small discrepancy.

    Each is the best one to add to those before: greedy minimisation of the squared discrepancy from
    a distribution with the embedding `mu` at the candidates, which is zero for Stein kernels
    (kernel herding, if the diagonal is constant).

    Examples
    --------
    >>> eye, mu = np.eye(2), np.array([0.7, 0.3])
    >>> greedy_choice(eye.__getitem__, np.ones(2), 4, mu)
    [0, 1, 0, 0]
    """
    sums = 0.5 * np.asarray(diagonal)
    chosen = [int(np.argmin(sums - mu))]
    while len(chosen) < n:
        sums += column(chosen[-1])
        chosen.append(int(np.argmin(sums - (len(chosen) + 1) * mu)))
    return chosen
