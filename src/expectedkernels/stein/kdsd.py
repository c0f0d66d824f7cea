"""The kernelised discrete Stein discrepancy, and what to do about zeros of targets."""

from __future__ import annotations

import warnings
from functools import partial
from math import prod
from typing import Any, NamedTuple
from weakref import ReferenceType, ref

import numpy as np

from expectedkernels.algebra import multiply, quotient
from expectedkernels.arrays import (
    DEFAULT_MAX_BYTES,
    Array,
    SamplesLike,
    as_like,
    check_max_bytes,
    place_of,
)
from expectedkernels.checks import DataError, KernelError, PropertyError, SizeError, rows_numbered
from expectedkernels.circuits.circuit import Circuit, host_for
from expectedkernels.circuits.graph import Unit
from expectedkernels.circuits.operands import CircuitOperand, check_single_root
from expectedkernels.circuits.properties import require_compatible
from expectedkernels.circuits.queries import deterministic, require_normalized
from expectedkernels.expectation import refuse_functions, require_distribution, two_distributions
from expectedkernels.kernels.empirical import (
    DistributionLike,
    Empirical,
    check_roles,
    collapsed_rows,
    distinct_rows,
    is_model,
    sample_rows,
    sample_weights,
)
from expectedkernels.kernels.gram import gram
from expectedkernels.kernels.kernel import ExpHamming, Kernel, refuse_gradients, require_kernel
from expectedkernels.kernels.target import Target, TargetLike, as_target
from expectedkernels.models import converted
from expectedkernels.models.factor_graph import CollapsedModel, FactorGraph
from expectedkernels.sampling.gibbs import determined_variables, irreducible, support_size
from expectedkernels.stein.stein_kernel import (
    OPERATORS,
    CollapsedSteinKernel,
    PartitionSteinKernel,
    SteinKernel,
    check_choices,
    discrete_cardinalities,
    is_strictly_positive_definite,
    marked,
    one_marked,
    stein_target,
    with_marks,
)

KEPT_BYTES = 2**26
"""How large a signed measure may be that a circuit keeps for the next call."""

TOO_RARE_BETWEEN = (
    "Some state of the target is more than 1e150 times less likely than one next to it. Compare "
    "samples of q with it by bounded operators: kdsd(q.sample(1000), p, k, operator='gibbs')."
)


def kdsd(
    q: DistributionLike | SamplesLike,
    p: TargetLike,
    k: Kernel | None = None,
    *,
    unbiased: bool = False,
    zeros: str = "raise",
    operator: str = "shift",
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Array:
    r"""The kernelised discrete Stein discrepancy KDSD(q || p), exactly.

    .. math:: \mathrm{KDSD}(q \| p) = \sum_{x, x'} q(x)\, q(x')\, k_p(x, x')

    Here :math:`k_p` is the Stein kernel of the target p (see `SteinKernel`). The discrepancy is
    zero if q is p, positive otherwise if k is strictly positive definite, and does not depend on
    the normaliser of p.

    Parameters
    ----------
    q : Circuit, FactorGraph, unit graph, or samples
        A circuit, and weights of points, must sum to one. Samples are arrays of
        shape (n, variables) or (chains, n, variables), frames, labelled arrays or InferenceData,
        with equal weights, or Empirical and WeightedSamples with theirs; samples of weight zero
        are ignored.
    p : Circuit, FactorGraph, or (for samples) Target
        The target. If q is a circuit, p must be deterministic, and compatible with q: a factor
        graph is compiled on the vtree of q.
    k : Kernel, optional
        Default: ``ExpHamming()``.
    unbiased : bool
        For points: leave out pairs of a point with itself (U-statistic). The mean over samples of
        q is then the discrepancy of q itself, and it may be negative.
    zeros : "raise" or "restrict"
        For points: what to do if the target has zeros, as in `SteinKernel`. Between circuits the
        target must be positive.
    operator : "shift" or "gibbs"
        For points: as in `SteinKernel`. Between circuits the operators are shifts.
    max_bytes : int
        How much memory intermediate values may take, as for `expected_kernel`.

    Returns
    -------
    float, or tensor
        A tensor if gradients are asked for: by parameters of the kernel, and for points also by
        those of a circuit that is the target.

    Raises
    ------
    PropertyError
        If the target has zeros, or is a circuit that is not deterministic.
    CompatibilityError
        If the circuits are not compatible with each other or with the kernel.

    Notes
    -----
    Between circuits, with :math:`\rho = q / p`, the discrepancy is the sum over variables i of
    the expected kernels of the signed measures
    :math:`u_i(y) = p(\uparrow_i y) (\rho(y) - \rho(\uparrow_i y))` with themselves. All of them are
    one expected kernel of a single circuit, in which exactly one variable is marked as
    shifted, so that the cost does not grow with the square of the number of variables:
    it is linear for circuits of bounded width. q need not be deterministic.

    W. Li, Z. Zeng, A. Vergari and G. Van den Broeck, "Tractable Computation of Expected Kernels",
    UAI 2021; J. Yang, Q. Liu, V. Rao and J. Neville, "Goodness-of-fit testing for discrete
    distributions via Stein discrepancy", ICML 2018.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.5, 0.5]]), ek.factorized([[0.25, 0.75]])
    >>> round(ek.kdsd(q, p, ek.Delta()), 12)
    0.5
    >>> ek.kdsd(p, p, ek.Delta())
    0.0
    >>> ek.kdsd([[0], [1], [1], [1]], p, ek.Delta())
    0.5
    """
    k = ExpHamming() if k is None else k
    q, p = converted(q), converted(p)
    if not is_model(q) or not is_model(p):
        call = "kdsd(q, p, k), with the samples (or another model) first and the target second"
        check_roles(call, p, q)
    check_choices(k, zeros, operator)
    check_max_bytes(max_bytes)
    if is_model(q):
        value = _between_models(q, p, k, operator, max_bytes)
    else:
        value = _of_samples(q, p, k, zeros, operator, unbiased)
    return float(value) if isinstance(value, np.generic) else value  # tensors know gradients


def _between_models(q: Any, p: Any, k: Kernel, operator: str, max_bytes: int) -> Any:
    """The discrepancy of a model from another."""
    refuse_functions(q, p)
    if operator != "shift":
        raise KernelError(
            "Between models the operators of a discrepancy are shifts. Compare samples of q with "
            f"p: kdsd(q.sample(1000), p, k, operator={operator!r})."
        )
    for model in (q, p):
        if not isinstance(model, Unit):
            discrete_cardinalities(model)
    # shifts go through the states in the order of the target
    p, q = two_distributions(p, q, max_bytes)
    for circuit in (q, p):
        check_single_root(circuit, "A discrepancy")
        cardinalities = discrete_cardinalities(circuit)
    require_compatible(q, p)
    q, p = (host_for(x, "The discrepancy between circuits") for x in (q, p))
    require_normalized(q, "A discrepancy")
    measure = kept_measure(q.aligned_to(p.vtree), p)
    kernel = with_marks(k.blocks(measure.vtree, cardinalities), cardinalities, np.eye(2))
    side = CircuitOperand(measure.to(place_of(k.tensors[0])) if k.tensors else measure)
    return gram((side, side), kernel, max_bytes).linear("The discrepancy", TOO_RARE_BETWEEN)[0, 0]


def _of_samples(
    samples: Any, target: Any, k: Kernel, zeros: str, operator: str, unbiased: bool
) -> Any:
    """The discrepancy of samples, as a V- or U-statistic."""
    target = as_target(target)
    discrete_cardinalities(target)
    q = Empirical(sample_rows(target, samples), sample_weights(samples)).counted()
    require_distribution(q, "A discrepancy")
    points = q.merged()
    with rows_numbered(points.numbers):
        matrix = SteinKernel(target, k, zeros, operator)(points.X)
    w = as_like(points.weights, matrix)
    if not unbiased:
        return w @ matrix @ w
    # the mean over pairs of different draws; equal draws are different, too
    squares = np.bincount(distinct_rows(q.X)[1], q.weights**2)
    total = float(q.weights.sum()) ** 2 - float(squares.sum())
    if not total > 0:
        raise DataError(
            "An unbiased discrepancy needs at least two points with positive weights. "
            f"Got {len(q.X)}."
        )
    return (w @ matrix @ w - as_like(squares, matrix) @ matrix.diagonal()) / total


def stein_measure(q: Circuit, p: Circuit) -> Circuit:
    """The signed measures of the discrepancy of q, one for every variable, as one circuit.

    It is over marked states: with variable i marked (and no other) it is u_i, else zero.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.5, 0.5]]), ek.factorized([[0.25, 0.75]])
    >>> stein_measure(q, p).input(0).table.tolist()
    [[0.0, 0.0, -0.5, 0.5]]
    """
    verdict = deterministic(p)
    if not verdict:
        raise PropertyError(
            f"The exact discrepancy needs a deterministic target, but {verdict.reason}. Compile a "
            "factor graph, learn one by learn_chow_liu or learn_strudel, or compare samples of q "
            "with the target: kdsd(q.sample(1000), p, k)."
        )
    require_positive(p)
    change = marked(quotient(q, p), lambda t: t - np.roll(t, -1, axis=1))
    shifted = marked(p, lambda t: np.roll(t, -1, axis=1))
    one = one_marked(p.vtree, [int(c) for c in p.cardinalities if c is not None])
    return multiply(multiply(shifted, one), change)


def kept_measure(q: Circuit, p: Circuit) -> Circuit:
    """What `stein_measure` makes, kept with q for the next call.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.5, 0.5]]), ek.factorized([[0.25, 0.75]])
    >>> kept_measure(q, p) is kept_measure(q, p)
    True
    """
    kept: list[tuple[ReferenceType[Circuit], Circuit]] = q.operand.cached("stein measure", list)
    for target, measure in kept[:1]:  # threads may share it
        if target() is p:
            return measure
    made = stein_measure(q, p)
    if 16 * made.n_edges <= KEPT_BYTES:
        kept[:] = [(ref(p), made)]  # targets are not kept alive
    return made


def require_positive(p: Circuit) -> None:
    """Raise unless a deterministic circuit is positive everywhere.

    The sizes of supports multiply at products and add up at deterministic sums, so they are
    counted exactly, in integers of any size.
    """
    count = support_size(p)
    n_states = prod(int(c) for c in p.cardinalities if c is not None)
    if count < n_states:
        found = "not all of its" if n_states > 10**15 else f"{count} of its {n_states}"
        raise PropertyError(
            f"The target has zeros: {found} states are possible, and Stein operators need all of "
            "them. Smooth the tables (FactorGraph.smoothed), or compare samples of q with it, "
            "operators restricted to the support: kdsd(q.sample(1000), p, k, zeros='restrict')."
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
    if np.isnan(rows[used]).any():
        refuse_functions(target)
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
        advice = f"Sum out the variables that others determine ({option or own})."
    warnings.warn(
        f"Gibbs updates may not tell what the parts of the support weigh: {reason}. {advice}",
        stacklevel=4,
    )


def stein_kernels(
    target: Any, rows: Any, kernel: Kernel, zeros: str, max_bytes: int
) -> tuple[Any, Any, Circuit | None, Any]:
    """Both Stein kernels for these rows, and the compiled target or else its conditionals."""
    refuse_gradients("What is made of a Stein kernel", kernel, target)
    circuit, conditionals = None, None
    make: Any = partial(SteinKernel, target, kernel, zeros)
    if np.isnan(rows).any():
        try:
            circuit = target
            if not isinstance(target, Circuit):
                circuit, _ = target.compile(kernel.vtree, max_bytes=max_bytes)
                _ = circuit.blocks  # tables may fit where units do not
            known = has_no_zeros(target) or None
            make = partial(CollapsedSteinKernel, circuit, kernel, zeros, max_bytes, positive=known)
        except SizeError as error:
            masks = np.unique(np.isnan(rows), axis=0)
            if len(masks) > 1:
                raise SizeError(
                    f"{error} Samples that collapse different variables need the whole model "
                    "compiled; with one set collapsed in all samples, only the conditionals are."
                ) from error
            hidden = np.flatnonzero(masks[0]).tolist()
            model = CollapsedModel(target, hidden, shared=False, max_bytes=max_bytes)
            circuit, conditionals = None, model.marginals
            make = partial(PartitionSteinKernel, model, kernel, zeros, max_bytes)
    shifts, updates = (make(operator=kind) for kind in OPERATORS)
    return shifts, updates, circuit, conditionals
