"""Stein thinning: the few of many samples that stand for a target best."""

from __future__ import annotations

from typing import Any

import numpy as np

from expectedkernels.arrays import Array, SamplesLike, VariablesLike
from expectedkernels.checks import check_choice, check_count
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES, check_max_bytes
from expectedkernels.errors import DataError, PropertyError, rows_numbered
from expectedkernels.kernels.kernel import Kernel
from expectedkernels.kernels.library import ExpHamming
from expectedkernels.kernels.rows import check_roles
from expectedkernels.kernels.stein import OPERATORS, PairwiseKernel, discrete_cardinalities
from expectedkernels.kernels.stein_columns import gram_columns
from expectedkernels.kernels.target import Target, TargetLike, as_target
from expectedkernels.sampling.rows import collapsed_rows, distinct_rows
from expectedkernels.sampling.stein_kernels import check_stein_kernel, stein_kernels
from expectedkernels.sampling.zeros import warn_of_classes


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
    r"""The numbers of m samples, with repeats, that together stand for a target.

    One after the other, always the sample that makes the Stein discrepancy of those chosen
    smallest, all with equal weights:

    .. math:: j_t = \arg\min_j \; \tfrac{1}{2} G_{jj} + \sum_{s < t} G_{j, j_s}

    with the Gram matrix G of the target's Stein kernel, of which one row per step is computed.

    Parameters
    ----------
    target : FactorGraph, BayesianNetwork, Circuit or Target
        Over discrete variables, known up to a constant.
    samples : array of shape (n, variables), or as for `bbis`
        From anywhere: a chain with its burn-in will do. Samples that come with a weight of zero
        are not chosen; other weights do not matter.
    m : int
        How many to choose.
    kernel : Kernel, optional
        Strictly positive definite. Default: ``ExpHamming()``.
    operator : "gibbs" or "shift"
        As in `SteinKernel`. Shifts are unbounded where states are rare, so that these are never
        chosen: with them, the first m samples are often better.
    collapsed : iterable of int or str, or boolean array, optional
        What to sum out exactly, as for `collapsed_bbis`. Default: where samples have NaN.
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
    target = as_target(target)
    check_roles("stein_thin(target, samples, m)", target, samples)
    cardinalities = discrete_cardinalities(target)
    check_count("stein_thin", "m", m, 1, error=DataError)
    check_choice("stein_thin", "operator", operator, OPERATORS, DataError)
    check_max_bytes(max_bytes)
    rows, used = collapsed_rows(target, samples, collapsed)
    rows = rows[used]
    if isinstance(target, Target) and np.isnan(rows).any():
        raise PropertyError(
            "Collapsed variables are summed out exactly, and a Target is a function, which cannot "
            "be summed over. Give the model as a FactorGraph, or complete samples."
        )
    k = ExpHamming() if kernel is None else kernel
    check_stein_kernel(k, cardinalities, level=3)
    first = np.sort(distinct_rows(rows)[2])  # in the order of the samples
    distinct, numbers = rows[first], used[first]
    shifts, updates, _, _ = stein_kernels(target, distinct, k, "raise", max_bytes)
    with rows_numbered(numbers):
        chosen = _greedy(updates if operator == "gibbs" else shifts, distinct, m)
    if operator == "gibbs" and not isinstance(target, Target):
        warn_of_classes(target, distinct, 3, "collapsed=[...]")
    return numbers[chosen]


def _greedy(stein: PairwiseKernel, rows: Any, m: int) -> list[int]:
    """The numbers of m rows, each the best one to add to those before."""
    column, diagonal = gram_columns(stein, rows)
    sums = 0.5 * diagonal
    chosen = [int(np.argmin(sums))]
    while len(chosen) < m:
        sums += column(chosen[-1])
        chosen.append(int(np.argmin(sums)))
    return chosen
