"""Black-box importance sampling: weights for samples from anywhere, by Stein discrepancy."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.compilation.bayesian import BayesianNetwork
from expectedkernels.compilation.conditionals import CollapsedModel
from expectedkernels.compilation.factors import FactorGraph
from expectedkernels.discrepancies.collapsed import CollapsedSteinKernel
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES, check_max_bytes
from expectedkernels.errors import CircuitError, DataError, KernelError, PropertyError, SizeError
from expectedkernels.kernels.kernel import Kernel
from expectedkernels.kernels.library import ExpHamming
from expectedkernels.kernels.stein import (
    OPERATORS,
    SteinKernel,
    discrete_cardinalities,
    is_strictly_positive_definite,
)
from expectedkernels.kernels.stein import REMEDIES as HINTS
from expectedkernels.sampling.gibbs import irreducible
from expectedkernels.sampling.partition import PartitionSteinKernel
from expectedkernels.sampling.rows import collapsed_rows, distinct_rows
from expectedkernels.sampling.samples import WeightedSamples
from expectedkernels.sampling.shrinkage import default_weights
from expectedkernels.sampling.weights import signed_weights, simplex_weights, smoothed_weights

RULES = ("default", "raw", "smoothed", "signed", "uniform")
"""How weights can be made of a Gram matrix."""

REMEDIES = ("raise", "collapse", "smooth", "restrict")
"""What can be done about zeros in the target."""


@dataclass(frozen=True, eq=False, repr=False)
class SteinSamples(WeightedSamples):
    """Samples weighted by Stein discrepancy, with the Gram matrices the weights come from.

    Attributes
    ----------
    gram : array of shape (n, n), or None
        The Stein kernels of all pairs of samples, with shifts as operators.
    updates_gram : array of shape (n, n), or None
        The same for the operators of Gibbs updates, which the default rule looks at.
    stein, updates : SteinKernel, CollapsedSteinKernel or PartitionSteinKernel
        What makes them, when they are needed.
    operator : "shift" or "gibbs"
        Whose discrepancy is in `discrepancy`, and is minimised by rules other than the default.
    decision : str
        What the default rule found and did; empty for other rules.
    hidden : tuple of int
        Variables that ``zeros="collapse"`` sums out in all samples, new ones included.

    Notes
    -----
    With shifts as operators, rare states dominate `discrepancy` and `uniform_discrepancy`, and the
    default rule, which keeps these states, may leave the first above the second; the discrepancies
    that it did look at are in `decision`.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> target = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
    >>> samples = bbis(target, [[0, 0], [1, 1], [1, 0]], weights="raw")
    >>> samples.extended([[0, 1]]).n
    4
    """

    gram: Any = None
    updates_gram: Any = None
    stein: Any = None
    updates: Any = None
    operator: str = "shift"
    decision: str = field(default="")
    hidden: tuple[int, ...] = ()

    def uniform(self) -> SteinSamples:
        """The same samples with equal weights."""
        return self.reweighted("uniform", self.operator)

    def extended(self, new: Any, collapsed: Any = None) -> SteinSamples:
        """The samples with new ones, all weighted anew by the same rule.

        Only the rows of the Gram matrices that belong to new samples are computed.

        Parameters
        ----------
        new : array of shape (m, variables), or of shape (chains, m, variables)
            NaN where a variable is collapsed, as in `rows`.
        collapsed : iterable of int or str, or boolean array, optional
            What to sum out in the new samples, as for `collapsed_bbis`. Default: where they have
            NaN, even if one set was given for the others.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> target = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
        >>> samples = ek.collapsed_bbis(target, [[0, 0], [1, 1]], [1])
        >>> samples.extended([[1, 0]], [1]).rows.tolist()
        [[0.0, nan], [1.0, nan], [1.0, nan]]
        """
        added = collapsed_rows(self.target, new, collapsed, self.cardinalities, least=0)
        added[:, list(self.hidden)] = np.nan
        if np.isnan(added).any() and isinstance(self.stein, SteinKernel):
            raise DataError(
                "These samples have no collapsed variables, so new ones cannot have NaN. "
                "Use collapsed_bbis for all of them."
            )
        first, second = (
            None if known is None else stein.extended(known, self.rows, added)
            for known, stein in ((self.gram, self.stein), (self.updates_gram, self.updates))
        )
        rows = np.vstack([self.rows, added])
        return _weighted(replace(self, gram=first, updates_gram=second, rows=rows, weights=None))

    def reweighted(self, weights: str = "default", operator: str = "shift") -> SteinSamples:
        """The same samples, weighted by another rule.

        Parameters
        ----------
        weights : "default", "raw", "smoothed", "signed" or "uniform"
            As for `bbis`.
        operator : "shift" or "gibbs"
            As for `bbis`.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> target = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
        >>> samples = bbis(target, [[0, 0], [1, 1], [1, 0]])
        >>> samples.reweighted("uniform").weights.round(6).tolist()
        [0.333333, 0.333333, 0.333333]
        """
        _check_choice("weights", weights, RULES)
        _check_choice("operator", operator, OPERATORS)
        return _weighted(replace(self, rule=weights, operator=operator))


def bbis(
    target: Any,
    samples: Any,
    kernel: Kernel | None = None,
    *,
    weights: str = "default",
    signed: bool = False,
    operator: str = "shift",
    zeros: str = "raise",
    epsilon: float = 0.01,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> SteinSamples:
    r"""Samples weighted so that they stand for a target known up to a constant.

    The weights make the Stein discrepancy :math:`w^\top K w` of the weighted samples from the
    target small, where K is the Gram matrix of the target's Stein kernel (see `SteinKernel`).
    Where the samples come from does not matter: no proposal density is needed.

    Parameters
    ----------
    target : FactorGraph, BayesianNetwork or Circuit
        Over discrete variables, positive everywhere (but see `zeros`).
    samples : array of shape (n, variables), or of shape (chains, n, variables)
        Complete points, for example of `gibbs`.
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
    zeros : "raise", "collapse", "smooth" or "restrict"
        What to do if the target has zeros, which Stein operators must not meet: raise, sum out
        the variables that others determine (see `determined_variables`), raise the zeros to
        `epsilon` (see `FactorGraph.smoothed`; this changes the target), or restrict the operators
        to the support (which cannot see the relative mass of parts of the support that no change
        of a single variable connects).
    epsilon : float
        For ``zeros="smooth"``.
    max_bytes : int
        How much memory intermediate values and a Gram matrix may take.

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
    """
    rule = "signed" if signed else weights
    return _from_samples(target, samples, (), kernel, rule, operator, zeros, epsilon, max_bytes)


def collapsed_bbis(
    target: Any,
    samples: Any,
    collapsed: Any = None,
    kernel: Kernel | None = None,
    *,
    weights: str = "default",
    signed: bool = False,
    operator: str = "shift",
    zeros: str = "raise",
    epsilon: float = 0.01,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> SteinSamples:
    """Samples weighted as by `bbis`, with part of their variables summed out exactly.

    Parameters
    ----------
    target : FactorGraph, BayesianNetwork or Circuit
        As for `bbis`. Only the distribution of the variables that are not collapsed has to be
        positive everywhere.
    samples : array of shape (n, variables), or of shape (chains, n, variables)
        What they say of collapsed variables is ignored. NaN marks a collapsed variable, too, as in
        the samples of `collapsed_gibbs`.
    collapsed : iterable of int or str, or boolean array, optional
        The variables to sum out: one set for all samples, or a mask of shape (n, variables) (or
        (variables,)). Default: where the samples have NaN. Nothing collapsed makes plain `bbis`;
        with everything collapsed there is nothing to weigh, and all estimates are exact.
    kernel, weights, signed, operator, zeros, epsilon, max_bytes
        As for `bbis`.

    Notes
    -----
    The target is compiled once, and one sweep gives the kernels of all pairs of distinct samples
    (see `CollapsedSteinKernel`). If it is too large to be compiled, the same set must be
    collapsed in all samples: then only the conditionals are compiled (see
    `PartitionSteinKernel`).

    Examples
    --------
    >>> import expectedkernels as ek
    >>> asia = ek.asia()
    >>> X = ek.collapsed_gibbs(asia, 50, ["either"], burn_in=100, thin=20, rng=0)
    >>> samples = ek.collapsed_bbis(asia, X, ["either", "lung", "bronc"])
    >>> samples.marginals()[3].shape
    (2,)
    """
    rule = "signed" if signed else weights
    return _from_samples(
        target, samples, collapsed, kernel, rule, operator, zeros, epsilon, max_bytes
    )


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
) -> SteinSamples:
    """Check the arguments, compute the Gram matrix, and weigh the samples."""
    cardinalities = discrete_cardinalities(target)
    check_max_bytes(max_bytes)
    _check_choice("weights", rule, RULES)
    _check_choice("operator", operator, OPERATORS)
    _check_choice("zeros", zeros, REMEDIES)
    kernel = ExpHamming() if kernel is None else kernel
    _check_kernel(kernel, cardinalities)
    rows = collapsed_rows(target, samples, collapsed, cardinalities)
    if 8 * len(rows) ** 2 > max_bytes:
        raise CircuitError(
            f"The Gram matrix of {len(rows)} samples takes {8 * len(rows) ** 2 / 2**30:.3g} GiB, "
            f"more than max_bytes={max_bytes}. Take fewer samples, such as every tenth of a chain, "
            "or allow more memory."
        )
    if zeros == "smooth":
        target = _smoothed(target, epsilon)
    hidden = tuple(determined_variables(target)) if zeros == "collapse" else ()
    rows[:, list(hidden)] = np.nan
    at_zeros = "restrict" if zeros == "restrict" else "raise"
    stein, updates, circuit, conditionals = _stein(target, rows, kernel, at_zeros, max_bytes)
    weighted = _weighted(
        SteinSamples(
            target,
            rows,
            None,
            rule,
            conditionals=conditionals,
            circuit=circuit,
            stein=stein,
            updates=updates,
            operator=operator,
            hidden=hidden,
        )
    )
    if operator == "gibbs":
        _warn_of_classes(target, rows)
    elif at_zeros == "raise" and isinstance(stein, SteinKernel):
        _warn_of_zeros(target)
    return weighted


def determined_variables(target: FactorGraph) -> list[int]:
    """The variables to sum out so that zeros of a model's tables are not met.

    In a Bayesian network these are the variables whose tables have zeros. In other factor graphs,
    for every table with zeros, the variable is taken whose sum leaves fewest of them.

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


def _check_choice(name: str, value: Any, choices: Any) -> None:
    if not isinstance(value, str) or value not in choices:
        raise CircuitError(
            f"The '{name}' parameter must be one of {list(choices)}. Got {value!r} instead."
        )


def _check_kernel(kernel: Any, cardinalities: list[int]) -> None:
    if not isinstance(kernel, Kernel):
        raise KernelError(
            "The kernel must be an expectedkernels kernel, such as ExpHamming(). "
            f"Got {type(kernel).__name__} instead."
        )
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


def _is_positive(target: Any) -> bool:
    """Whether a target is known to have no zeros."""
    return isinstance(target, FactorGraph) and target.is_positive


def _warn_of_zeros(target: Any) -> None:
    """Complete samples that are not next to a zero do not show that there are some."""
    if isinstance(target, FactorGraph) and not target.is_positive:
        warnings.warn(
            "The target has zeros, though none next to these samples: Stein operators do not have "
            f"mean zero, and weights that look good may be wrong. {HINTS}",
            stacklevel=4,
        )


def _warn_of_classes(target: Any, rows: Any) -> None:
    """Updates of single variables cannot weigh parts of the support against each other."""
    if _is_positive(target):
        return
    verdict = irreducible(target, np.flatnonzero(np.isnan(rows).all(axis=0)).tolist())
    if not verdict:
        warnings.warn(
            f"Gibbs updates may not tell what the parts of the support weigh: {verdict.reason}. "
            "Sum out the variables that others determine (zeros='collapse').",
            stacklevel=4,
        )


def _smoothed(target: Any, epsilon: float) -> FactorGraph:
    if not isinstance(target, FactorGraph):
        raise PropertyError(
            "Only the tables of a FactorGraph can be smoothed. Got "
            f"{type(target).__name__}; learn or compile the circuit of a smoothed model."
        )
    return target if target.is_positive else target.smoothed(epsilon)


def _stein(
    target: Any, rows: Any, kernel: Kernel, zeros: str, max_bytes: int
) -> tuple[Any, Any, Circuit | None, Any]:
    """Both Stein kernels for these rows, and the compiled target or else its conditionals."""
    if not np.isnan(rows).any():
        shifts, updates = (SteinKernel(target, kernel, zeros, kind) for kind in OPERATORS)
        return shifts, updates, None, None
    try:
        circuit = target
        if not isinstance(target, Circuit):
            circuit, _ = target.compile(kernel.vtree, max_bytes=max_bytes)
    except SizeError as error:
        masks = np.unique(np.isnan(rows), axis=0)
        if len(masks) > 1:
            raise SizeError(
                f"{error} Samples that collapse different variables need the whole model compiled; "
                "with one set collapsed in all samples, only the conditionals are."
            ) from error
        hidden = np.flatnonzero(masks[0]).tolist()
        model = CollapsedModel(target, hidden, shared=False, max_bytes=max_bytes)
        first, second = (
            PartitionSteinKernel(model, kernel, zeros, max_bytes, operator=kind)
            for kind in OPERATORS
        )
        return first, second, None, model.marginals
    known = True if _is_positive(target) else None
    one, other = (
        CollapsedSteinKernel(circuit, kernel, zeros, max_bytes, operator=kind, positive=known)
        for kind in OPERATORS
    )
    return one, other, circuit, None


def _weighted(samples: SteinSamples) -> SteinSamples:
    """The samples with weights by their rule."""
    n = len(samples.rows)
    equal = np.full(n, 1.0 / n)
    distinct, groups = distinct_rows(samples.rows)
    shift = samples.operator == "shift"
    if shift and samples.gram is None:
        matrix = samples.stein(distinct)[np.ix_(groups, groups)]
        samples = replace(samples, gram=matrix)
    if (samples.rule == "default" or not shift) and samples.updates_gram is None:
        matrix = samples.updates(distinct)[np.ix_(groups, groups)]
        samples = replace(samples, updates_gram=matrix)
    chosen = samples.gram if shift else samples.updates_gram
    certificate, decision = None, ""
    if samples.rule == "uniform":
        weights = equal
    elif samples.rule == "signed":
        weights = signed_weights(chosen)
    elif samples.rule == "default":
        exact = shift and (samples.stein.zeros == "raise" or _is_positive(samples.target))
        exact &= bool(is_strictly_positive_definite(samples.stein.kernel, samples.cardinalities))
        found = default_weights(chosen, samples.updates_gram, groups=groups, exact=exact)
        weights, certificate, decision = found.weights, found.certificate, found.reason
    else:
        best = simplex_weights(chosen, groups=groups)
        weights, certificate = best.weights, best.certificate
        if samples.rule == "smoothed":
            weights = smoothed_weights(weights)
    return replace(
        samples,
        weights=weights,
        certificate=certificate,
        decision=decision,
        # rounding can make a zero negative
        discrepancy=max(0.0, float(weights @ chosen @ weights)),
        uniform_discrepancy=max(0.0, float(equal @ chosen @ equal)),
    )
