"""Samples weighted by Stein discrepancy: the rules that make weights of Gram matrices."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from expectedkernels.arrays import Array, RowsLike, VariablesLike, require_memory
from expectedkernels.checks import check_choice
from expectedkernels.errors import DataError, SizeError, rows_numbered
from expectedkernels.kernels.stein import (
    OPERATORS,
    SteinKernel,
    ZerosMet,
    is_strictly_positive_definite,
    shared_grams,
)
from expectedkernels.sampling.rows import as_log_weights, collapsed_rows, distinct_rows
from expectedkernels.sampling.samples import WeightedSamples
from expectedkernels.sampling.shrinkage import default_weights
from expectedkernels.sampling.weights import signed_weights, simplex_weights, smoothed_weights
from expectedkernels.sampling.zeros import is_positive

RULES = ("default", "raw", "smoothed", "signed", "uniform")
"""How weights can be made of a Gram matrix."""


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
        Variables that are summed out in all samples because of zeros, new ones included.
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
    decision: str = field(default="")
    used: Array = None
    hidden: tuple[int, ...] = ()
    note: str = ""

    @property
    def _numbers(self) -> Any:
        """The numbers of the samples that count."""
        return np.arange(len(self.rows)) if self.used is None else self.used

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
            What to sum out in the new samples, as for `collapsed_bbis`. Default: where they have
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
            If there are gaps in new samples, and none in the old ones, or if only some samples
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
        logs = None
        if (self.log_weights is None) != (log_weights is None):
            raise DataError(
                "Either all samples have importance weights or none. Give log_weights for the new "
                "samples if, and only if, the others have them."
            )
        if log_weights is not None:
            logs = np.concatenate([self.log_weights, as_log_weights(log_weights, len(added))])
        added[:, list(self.hidden)] = np.nan
        if np.isnan(added[some]).any() and isinstance(self.stein, SteinKernel):
            raise DataError(
                "These samples have no collapsed variables, so new ones cannot have NaN. "
                "Use collapsed_bbis for all of them."
            )
        known, used = self.rows[self._numbers], np.append(self._numbers, self.n + some)
        try:
            with rows_numbered(some):
                first, second = (
                    None if gram is None else stein.extended(gram, known, added[some])
                    for gram, stein in ((self.gram, self.stein), (self.updates_gram, self.updates))
                )
        except ZerosMet as error:
            advice = "Give all samples together to bbis or collapsed_bbis, with zeros='auto'."
            raise ZerosMet(error.where, advice) from error
        rows = np.vstack([self.rows, added])
        more = replace(
            self,
            gram=first,
            updates_gram=second,
            rows=rows,
            used=used,
            weights=None,
            log_weights=logs,
        )
        return weighted(more)

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
            If the target is zero next to a sample, and shifts are asked for.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> target = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
        >>> samples = ek.bbis(target, [[0, 0], [1, 1], [1, 0]])
        >>> samples.reweighted("uniform").weights.round(6).tolist()
        [0.333333, 0.333333, 0.333333]
        """
        check_choice("reweighted", "weights", weights, RULES)
        operator = self.operator if operator is None else operator
        check_choice("reweighted", "operator", operator, OPERATORS)
        try:
            return weighted(replace(self, rule=weights, operator=operator))
        except ZerosMet as error:
            raise ZerosMet(
                error.where, "Use operator='gibbs', which needs no positive target."
            ) from error


def check_memory(rows: Any, rule: str, operator: str, max_bytes: int) -> None:
    """Raise if the matrices behind the weights of these samples take more memory than allowed.

    Counted is what is held at the same time at the worst moment: Gram matrices of all samples and
    their copies, and the matrices of distinct samples that weights are computed with.
    """
    n, m = len(rows), len(distinct_rows(rows)[2])
    whole = 4 + (rule == "default") * (1 + (operator == "shift"))
    few = 6
    if rule == "uniform":
        whole, few = 1, 4
    needed = 8 * (whole * n**2 + few * m**2)
    if needed > max_bytes:
        raise SizeError(
            f"The weights of {n} samples ({m} distinct) take {needed / 2**30:.3g} GiB of Gram "
            f"matrices, more than max_bytes={max_bytes}. Take fewer samples, such as every tenth "
            f"of a chain, or allow more memory: max_bytes={needed}."
        )
    require_memory(needed, f"To weigh {n} samples", "Take fewer, such as every tenth of a chain.")


def weighted(samples: SteinSamples) -> SteinSamples:
    """The samples with weights by their rule; those that do not count have the weight zero."""
    used = samples._numbers
    equal = np.full(len(used), 1.0 / len(used))
    distinct, groups, first = distinct_rows(samples.rows[used])
    shift = samples.operator == "shift"
    with rows_numbered(used[first]):
        samples = _with_grams(samples, distinct, groups)
    chosen = samples.gram if shift else samples.updates_gram
    certificate, decision = None, samples.note
    if samples.rule == "uniform":
        weights = equal
    elif samples.rule == "signed":
        weights = signed_weights(chosen)
    elif samples.rule == "default":
        exact = shift and (samples.stein.zeros == "raise" or is_positive(samples.target))
        exact &= bool(is_strictly_positive_definite(samples.stein.kernel, samples.cardinalities))
        logs = None if samples.log_weights is None else samples.log_weights[used]
        found = default_weights(
            chosen, samples.updates_gram, groups=groups, exact=exact, log_weights=logs
        )
        weights, certificate = found.weights, found.certificate
        decision = f"{samples.note} {found.reason}".strip()
    else:
        best = simplex_weights(chosen, groups=groups)
        weights, certificate = best.weights, best.certificate
        if samples.rule == "smoothed":
            weights = smoothed_weights(weights)
    shares = np.zeros(samples.n)
    shares[used] = weights
    return replace(
        samples,
        weights=shares,
        certificate=certificate,
        decision=decision,
        # rounding can make a zero negative
        discrepancy=max(0.0, float(weights @ chosen @ weights)),
        uniform_discrepancy=max(0.0, float(equal @ chosen @ equal)),
    )


def _with_grams(samples: SteinSamples, distinct: Any, groups: Any) -> SteinSamples:
    """The samples with the Gram matrices that their rule and operator need."""
    shift = samples.operator == "shift"
    first = shift and samples.gram is None
    second = (samples.rule == "default" or not shift) and samples.updates_gram is None
    every = np.ix_(groups, groups)
    if first and second and isinstance(samples.stein, SteinKernel):
        both = shared_grams(samples.stein, samples.updates, distinct)
        return replace(samples, gram=both[0][every], updates_gram=both[1][every])
    if first:
        samples = replace(samples, gram=samples.stein(distinct)[every])
    if second:
        samples = replace(samples, updates_gram=samples.updates(distinct)[every])
    return samples
