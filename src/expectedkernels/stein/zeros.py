"""Targets with zeros, and the Stein kernels that suit a target and its samples."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from expectedkernels.checks import KernelError, PropertyError, SizeError
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.kernels.empirical import collapsed_rows
from expectedkernels.kernels.kernel import ExpHamming, Kernel, refuse_gradients, require_kernel
from expectedkernels.kernels.target import Target
from expectedkernels.models.factor_graph import BayesianNetwork, CollapsedModel, FactorGraph
from expectedkernels.sampling.gibbs import irreducible
from expectedkernels.stein.stein_kernel import (
    OPERATORS,
    CollapsedSteinKernel,
    PartitionSteinKernel,
    SteinKernel,
    is_strictly_positive_definite,
    stein_target,
)

REMEDIES = ("auto", "raise", "collapse", "smooth", "restrict")
"""What can be done about zeros in the target."""

ADVICE = (
    "Use zeros='auto' or operator='gibbs', which need no positive target; sum out the variables "
    "that others determine (zeros='collapse'); smooth the tables (zeros='smooth'); or restrict the "
    "shifts to the support (zeros='restrict')."
)

UPDATES = "The target has zeros: Gibbs updates take the place of shifts."


def stein_problem(
    call: str, target: Any, samples: Any, collapsed: Any, kernel: Any, log_weights: Any = None
) -> tuple[Any, Kernel, Any, Any]:
    """The target, kernel and rows of a call, checked, and the numbers of the rows that count."""
    target, cardinalities = stein_target(call, target, samples)
    kernel = ExpHamming() if kernel is None else kernel
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
            stacklevel=4,
        )
    rows, used = collapsed_rows(target, samples, collapsed, log_weights=log_weights)
    if isinstance(target, Target) and np.isnan(rows[used]).any():
        raise PropertyError(
            "Collapsed variables are summed out exactly, and a Target is a function, which cannot "
            "be summed over. Give the model as a FactorGraph, or complete samples."
        )
    return target, kernel, rows, used


class ZerosPlan(NamedTuple):
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
    known = has_no_zeros(target) or None
    first = CollapsedSteinKernel(circuit, kernel, zeros, max_bytes, positive=known)
    return first, first.with_operator("gibbs"), circuit, None
