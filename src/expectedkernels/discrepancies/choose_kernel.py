"""Kernels chosen by the power of a test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

import numpy as np

from expectedkernels.arrays import SamplesLike, VariablesLike, as_like, detach, to_cpu
from expectedkernels.checks import DataError, KernelError, check_choice
from expectedkernels.discrepancies import hypothesis_tests as tests
from expectedkernels.discrepancies.hypothesis_tests import KernelsLike
from expectedkernels.discrepancies.mmd import MeanEmbedding, mean_embedding
from expectedkernels.kernels.empirical import check_roles, default_kernel, is_model
from expectedkernels.kernels.kernel import Kernel, ProductKernel, RateKernel, SumKernel
from expectedkernels.kernels.target import TargetLike, as_target

STEPS, LEARNING_RATE = 30, 0.2
"""How often, and about how far at once, the logs of `gamma` and weights are moved."""
CHECKED = 5
"""After so many steps the kernel is looked at with other rows."""

Ratio = Callable[[Kernel], Any]
"""The estimate of a squared discrepancy over its standard error, by a kernel."""
Build = Callable[[Sequence[Any]], Kernel]
"""From values of the parameters to the kernel that has them."""


def parameters(kernel: Kernel, n_variables: int) -> tuple[list[Any], Build]:
    """`gamma` and weights of a kernel, arrays of positive numbers, and how to set them.

    Zeros stay zero. A kernel without parameters has an empty list.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> found, build = parameters(2.0 * ek.RBF(0.5) + ek.Delta(), 3)
    >>> [x.tolist() for x in found]
    [0.5, [1.0, 1.0]]
    >>> build([0.25, [1.0, 3.0]])
    (2.0 * RBF(gamma=0.25) + 3.0 * Delta())
    """
    if isinstance(kernel, RateKernel):
        return _gammas(kernel, n_variables)
    if not isinstance(kernel, (SumKernel, ProductKernel)):
        return [], lambda _: kernel
    parts = [parameters(k, n_variables) for k in kernel.kernels]
    found = [x for own, _ in parts for x in own]
    weights = kernel.weights if isinstance(kernel, SumKernel) else None

    def build(values: Sequence[Any]) -> Kernel:
        left = list(values)
        made = [make([left.pop(0) for _ in own]) for own, make in parts]
        if weights is None:
            return ProductKernel(*made)
        return SumKernel(made, left[0] if left else weights)

    if weights is None or len(weights) == 1:  # the weight of a single term does not matter
        return found, build
    return [*found, np.array(weights)], build


def _gammas(kernel: RateKernel, n_variables: int) -> tuple[list[Any], Build]:
    gamma = 1.0 / n_variables if kernel.gamma is None else kernel.gamma
    rates = np.asarray(gamma, dtype=np.float64)
    used = rates > 0
    if rates.ndim == 0 or used.all():
        return [rates], lambda values: type(kernel)(values[0])

    def build(values: Sequence[Any]) -> Kernel:
        every = as_like(rates.copy(), values[0])
        every[as_like(used, values[0])] = values[0]
        return type(kernel)(every)

    return [rates[used]], build


def _model_ratio(given: MeanEmbedding, points: Any) -> Ratio:
    """The squared discrepancy of samples from a model over its standard error, by kernels."""
    rows, place = tests.distinct_places(points[None])
    counts, n = tests.counts_of(place, len(rows)), len(points)

    def ratio(k: Kernel) -> Any:
        model = replace(given, kernel=k)
        sums, diagonal = tests.row_sums(lambda some: k(rows[some], rows), counts)
        c, embedded = as_like(counts[0], sums), as_like(model.at(rows), sums)
        partners = (sums[:, 0] - diagonal - (n - 2) * embedded - c @ embedded) / (n - 1)
        return _over_error([(partners, c)], model.total, diagonal)

    return ratio


def _sample_ratio(first: Any, second: Any) -> Ratio:
    """The squared discrepancy of two samples over its standard error, by kernels."""
    rows, [place] = tests.distinct_places(np.concatenate([first, second])[None])
    n, m = len(first), len(second)
    counts = np.stack([np.bincount(x, minlength=len(rows)) for x in np.split(place, [n])]) + 0.0

    def ratio(k: Kernel) -> Any:
        sums, own = tests.row_sums(lambda some: k(rows[some], rows), counts)
        first = (sums[:, 0] - own) / (n - 1) - sums[:, 1] / m
        second = (sums[:, 1] - own) / (m - 1) - sums[:, 0] / n
        c = as_like(counts, own)
        return _over_error([(first, c[0]), (second, c[1])], 0.0, own)

    return ratio


def _over_error(sides: Sequence[tuple[Any, Any]], total: Any, own: Any) -> Any:
    """The sum of means over its standard error, of values and how often each occurs."""
    variance = (LEAST_ERROR * abs(detach(own)).mean()) ** 2 + 1e-300
    for values, counts in sides:
        n = counts.sum()
        mean = counts @ values / n
        total = total + mean
        variance = variance + 4.0 * (counts @ (values - mean) ** 2) / (n - 1) / n
    return total / variance**0.5


def ascended(kernel: Kernel, n_variables: int, up: Ratio, check: Ratio) -> Kernel:
    """The kernel on the way up one ratio at which another, of other rows, is the largest.

    What is learned from few rows may be true of these only: then the kernel is the one given.
    """
    import torch

    start, build = parameters(kernel, n_variables)
    if not start:
        return kernel
    logs = [torch.tensor(np.log(x), dtype=torch.float64, requires_grad=True) for x in start]
    optimizer = torch.optim.Adam(logs, lr=LEARNING_RATE)
    best, found = -inf, kernel
    for step in range(STEPS + 1):
        here = build([x.exp() for x in logs])
        if step % CHECKED == 0:
            reached = float(detach(check(here)))
            if reached > best:
                now = build([np.exp(x.detach().numpy()) for x in logs])
                best, found = reached, now if step else kernel
        value = up(here)
        if step == STEPS or not bool(torch.isfinite(value)):
            break
        optimizer.zero_grad()
        (-value).backward()
        optimizer.step()
    return found


LEAST_ERROR = 1e-8
"""Standard errors below this part of the kernel's values are rounding."""


MOST_ROWS = 2000
"""How many rows of either sample are used to move a kernel along a gradient, and to check it."""


def choose_kernel(
    samples: SamplesLike,
    other: TargetLike | SamplesLike,
    kernels: KernelsLike = "aggregate",
    method: str = "list",
    *,
    categorical_features: VariablesLike | None = None,
) -> Kernel:
    r"""The kernel whose test tells samples from a model, or from other samples, most reliably.

    A test rejects where the estimate of the squared discrepancy is many standard errors above
    zero. So this is the kernel with the largest

    .. math:: \widehat{\mathrm{MMD}}^2 / \hat\sigma,

    the unbiased estimate over its standard error, which for large samples orders kernels by the
    power of their tests.

    Parameters
    ----------
    samples : array of shape (n, variables), or data frame
        At least two complete points.
    other : Circuit, FactorGraph, or another model; or samples
        What the samples are compared with, as for `mmd_test` or `mmd_two_sample_test`.
    kernels : list of kernels, or "aggregate"
        To choose from. Default: `gamma` from half to eight times the default of the test.
    method : "list" or "gradient"
        "gradient" continues from the best of the list: `gamma`, and weights of sums, follow the
        gradient of the ratio on one half of the rows, as long as the ratio on the other half
        grows. Give one `gamma` per variable to choose each: ``RBF([0.1] * n)``. Needs torch, and
        at least four samples; of many, the first are used.
    categorical_features : names, numbers or mask of columns, optional
        Of two sets of samples the categorical columns, for the default kernels, as for `mmd2`.

    Returns
    -------
    Kernel

    Raises
    ------
    DataError
        If there are too few samples, values are missing, or there is no kernel.
    KernelError
        If the kernel that is best has no `gamma` and no weight for gradients to change.

    Notes
    -----
    Choose with some rows and test with others, as in the example: a kernel that was chosen by the
    rows that are tested rejects too often. (A list of kernels, given to a test, needs no rows of
    its own, as the test knows of all of them.) All numbers are computed on the CPU.

    D. J. Sutherland et al., "Generative models and model criticism via optimized maximum mean
    discrepancy", ICLR 2017.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.5, 0.5], [0.3, 0.7]])
    >>> X = ek.factorized([[0.6, 0.4], [0.5, 0.5]]).sample(400, rng=0)
    >>> k = ek.choose_kernel(X[:200], p, [ek.ExpHamming(0.1), ek.ExpHamming(5.0)])
    >>> k
    ExpHamming(gamma=0.1)
    >>> ek.mmd_test(X[200:], p, k, rng=0).p_value
    0.005
    >>> ek.choose_kernel(X[:200], p, ek.ExpHamming([0.5, 0.5]), method="gradient").gamma.shape
    (2,)
    """
    check_choice("choose_kernel", "method", method, ("list", "gradient"), DataError)
    if is_model(other) or hasattr(other, "compile") or callable(other):
        model = as_target(other)
        check_roles("choose_kernel(samples, model)", model, samples)
        given = mean_embedding(model)
        sets = [tests.complete_samples(given.circuit, samples)]
        default = partial(default_kernel, given.circuit, categorical_features=categorical_features)
        found = tests.kernels_of(kernels, default, categorical_features)
        ratio: Callable[..., Ratio] = partial(_model_ratio, given)
    else:
        *sets, schema = tests.two_sets(samples, other)
        found, _ = tests.pooled_kernels(kernels, np.concatenate(sets), schema, categorical_features)
        ratio = _sample_ratio
    score = ratio(*sets)
    best = max(found, key=lambda k: float(to_cpu(score(k))))
    if method == "list":
        return best
    n_variables = sets[0].shape[1]
    if min(map(len, sets)) < 4:
        why = "A gradient follows one half of the samples, and the other half checks it"
        raise DataError(f"{why}, so that at least four are needed. Got {min(map(len, sets))}.")
    halves = ([points[half : 2 * MOST_ROWS : 2] for points in sets] for half in (0, 1))
    if not parameters(best, n_variables)[0]:
        what = f"{best!r}, the best kernel here, has no gamma and no weight for gradients to change"
        raise KernelError(f"{what}. Choose among kernels that have, or with method='list'.")
    if len(sets) == 1:
        ratio = partial(_model_ratio, replace(given, circuit=given.circuit.to("torch")))
    return ascended(best, n_variables, *(ratio(*half) for half in halves))
