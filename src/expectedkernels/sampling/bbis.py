"""Black-box importance sampling: weights for samples from anywhere, by Stein discrepancy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from expectedkernels.arrays import SamplesLike, VariablesLike
from expectedkernels.checks import check_choice
from expectedkernels.compilation.conditionals import CollapsedModel
from expectedkernels.compilation.factors import FactorGraph
from expectedkernels.discrepancies.collapsed import CollapsedSteinKernel
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES, check_max_bytes
from expectedkernels.errors import DataError, EvidenceError, PropertyError, SizeError
from expectedkernels.kernels.kernel import Kernel
from expectedkernels.kernels.library import ExpHamming
from expectedkernels.kernels.rows import check_roles
from expectedkernels.kernels.stein import (
    OPERATORS,
    SteinKernel,
    ZerosMet,
    discrete_cardinalities,
)
from expectedkernels.kernels.target import Target, TargetLike, as_target
from expectedkernels.sampling.partition import PartitionSteinKernel, partition_cost
from expectedkernels.sampling.rows import as_log_weights, collapsed_rows, distinct_rows
from expectedkernels.sampling.samples import WeightedSamples
from expectedkernels.sampling.stein_kernels import check_stein_kernel, stein_kernels
from expectedkernels.sampling.stein_samples import (
    RULES,
    SteinSamples,
    check_memory,
    weighted,
)
from expectedkernels.sampling.zeros import (
    ADVICE,
    REMEDIES,
    UPDATES,
    ZerosPlan,
    plan_zeros,
    warn_of_classes,
    warn_of_zeros,
)


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
    r"""Samples weighted so that they stand for a target known up to a constant.

    The weights make the Stein discrepancy :math:`w^\top K w` of the weighted samples from the
    target small, where K is the Gram matrix of the target's Stein kernel (see `SteinKernel`).
    Where the samples come from does not matter: no proposal density is needed.

    Parameters
    ----------
    target : FactorGraph, BayesianNetwork, Circuit or Target
        Over discrete variables; a `Target` is made of a function.
    samples : array of shape (n, variables), or of shape (chains, n, variables)
        Complete points, for example of `gibbs`. Frames, labelled arrays and InferenceData are
        read as well, by the names of the variables if the target has names.
    kernel : Kernel, optional
        Strictly positive definite. Default: ``ExpHamming()``.
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
        `determined_variables`) are summed out as well. What was done is in `decision`. "raise":
        an error. "collapse": sum out the determined variables. "smooth": raise the zeros
        to `epsilon` (see `FactorGraph.smoothed`; this changes the target). "restrict": restrict
        the shifts to the support (which cannot see the relative mass of parts of the support
        that no change of a single variable connects).
    epsilon : float
        For ``zeros="smooth"``.
    log_weights : array of shape (n,), optional
        Logs of target over proposal, up to a constant, where the proposal is known: the default
        weights are then shrunk towards importance weights in place of equal ones (see
        `default_weights`). Good where a proposal visits several modes. Samples that
        carry log-weights, such as those of `cis`, need not be told. Samples of weight zero (-inf
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
    "The target has zeros: 'either' is summed out"
    """
    target = as_target(target)
    check_roles("bbis(target, samples, kernel)", target, samples)
    rule = "signed" if signed else weights
    logs = _log_weights(samples, log_weights, rule)
    return _from_samples(
        target, samples, (), kernel, rule, operator, zeros, epsilon, max_bytes, logs
    )


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
    """Samples weighted as by `bbis`, with part of their variables summed out exactly.

    Parameters
    ----------
    target : FactorGraph, BayesianNetwork or Circuit
        As for `bbis`; a function cannot be summed over exactly.
    samples : array of shape (n, variables), or of shape (chains, n, variables)
        What they say of collapsed variables is ignored. NaN marks a collapsed variable, too, as in
        the samples of `collapsed_gibbs`.
    collapsed : iterable of int or str, or boolean array, optional
        The variables to sum out: one set for all samples, or a mask of shape (n, variables) (or
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
    target = as_target(target)
    check_roles("collapsed_bbis(target, samples, collapsed, kernel)", target, samples)
    rule = "signed" if signed else weights
    logs = _log_weights(samples, log_weights, rule)
    return _from_samples(
        target, samples, collapsed, kernel, rule, operator, zeros, epsilon, max_bytes, logs
    )


def _log_weights(samples: Any, given: Any, rule: str) -> Any:
    """The logs of importance weights that are given, or that samples of a sampler carry."""
    check_choice("bbis", "weights", rule, RULES)
    if given is not None and rule != "default":
        raise DataError(
            f"Importance weights are what default weights are shrunk to, and weights={rule!r} are "
            "asked for. Leave out log_weights, or ask for weights='default'."
        )
    if given is None and rule == "default" and isinstance(samples, WeightedSamples):
        return samples.log_weights
    return given


def _from_samples(
    target: Any,
    samples: Any,
    collapsed: Any,
    kernel: Any,
    rule: str,
    operator: str,
    zeros: str,
    epsilon: float,
    max_bytes: int,
    log_weights: Any = None,
) -> SteinSamples:
    """Check the arguments, compute the Gram matrix, and weigh the samples."""
    cardinalities = discrete_cardinalities(target)
    check_max_bytes(max_bytes)
    check_choice("bbis", "operator", operator, OPERATORS)
    check_choice("bbis", "zeros", zeros, REMEDIES)
    kernel = ExpHamming() if kernel is None else kernel
    check_stein_kernel(kernel, cardinalities, level=4)
    rows, used = collapsed_rows(target, samples, collapsed, log_weights=log_weights)
    logs = None if log_weights is None else as_log_weights(log_weights, len(rows))
    counted = rows[used]
    check_memory(counted, rule, operator, max_bytes)
    if isinstance(target, Target) and np.isnan(counted).any():
        raise PropertyError(
            "Collapsed variables are summed out exactly, and a Target is a function, which cannot "
            "be summed over. Give the model as a FactorGraph, or complete samples to bbis."
        )
    plan = plan_zeros(target, counted, zeros, operator, epsilon)
    try:
        found = _planned(plan, rows, used, kernel, rule, max_bytes, logs)
    except SizeError:
        if zeros != "auto" or not plan.hidden:
            raise
        plan = replace(plan, hidden=(), note=UPDATES)
        found = _planned(plan, rows, used, kernel, rule, max_bytes, logs)
    except ZerosMet as error:
        if zeros != "auto":
            raise ZerosMet(error.where, ADVICE) from error
        plan = replace(plan, operator="gibbs", note=UPDATES)
        found = _planned(plan, rows, used, kernel, rule, max_bytes, logs)
    _warn(found, operator)
    return found


def _planned(
    plan: ZerosPlan,
    rows: Any,
    used: Any,
    kernel: Kernel,
    rule: str,
    max_bytes: int,
    log_weights: Any,
) -> SteinSamples:
    """The samples with weights, zeros met as planned."""
    rows = rows.copy()
    rows[:, list(plan.hidden)] = np.nan
    stein, updates, circuit, conditionals = stein_kernels(
        plan.target, rows[used], kernel, plan.shifts, max_bytes
    )
    samples = SteinSamples(
        plan.target,
        rows,
        None,
        rule,
        log_weights=log_weights,
        conditionals=conditionals,
        circuit=circuit,
        stein=stein,
        updates=updates,
        operator=plan.operator,
        used=None if len(used) == len(rows) else used,
        hidden=plan.hidden,
        note=plan.note,
    )
    return weighted(_with_updates_by_parts(samples, max_bytes))


def _with_updates_by_parts(samples: SteinSamples, max_bytes: int) -> SteinSamples:
    """The samples with the Gram matrix of updates, where conditionals give it at a lower cost.

    How an update weighs states is different in every sample, so that there are few equal patterns
    in the sweep of the whole target. Conditionals of one set of variables do without.
    """
    counted = samples.rows if samples.used is None else samples.rows[samples.used]
    whole, hidden = samples.updates, np.isnan(counted)
    needed = samples.rule == "default" or samples.operator == "gibbs"
    if not (needed and len(hidden) and isinstance(whole, CollapsedSteinKernel)):
        return samples
    if not isinstance(samples.target, FactorGraph) or whole.kernel.vtree is not None:
        return samples
    if (hidden != hidden[0]).any() or hidden.all():
        return samples
    distinct, groups, _ = distinct_rows(counted)
    try:
        if partition_cost(samples.cardinalities, distinct) >= whole.cost(distinct):
            return samples
    except EvidenceError:  # weights name the row among all samples
        return samples
    collapsed = np.flatnonzero(hidden[0]).tolist()
    try:
        model = CollapsedModel(samples.target, collapsed, shared=False, max_bytes=max_bytes)
    except SizeError:
        return samples
    stein = PartitionSteinKernel(model, whole.kernel, whole.zeros, max_bytes, operator="gibbs")
    return replace(samples, updates_gram=stein(distinct)[np.ix_(groups, groups)])


def _warn(found: SteinSamples, asked: str) -> None:
    """Warn where weights may be wrong because of zeros."""
    level = 4  # whoever called bbis
    if found.operator == "gibbs":
        if not isinstance(found.target, Target) or asked != "gibbs":
            used = slice(None) if found.used is None else found.used
            warn_of_classes(found.target, found.rows[used], level)
    elif found.stein.zeros == "raise" and isinstance(found.stein, SteinKernel):
        warn_of_zeros(found.target, level)
