"""Rates and weights of a kernel, moved along the gradient of what orders kernels by their power."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import numpy as np

from expectedkernels.arrays import as_like, detach, has_gradient
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.expectation import expected_kernel
from expectedkernels.kernels.kernel import Kernel, ProductKernel, SumKernel
from expectedkernels.kernels.library import RateKernel

STEPS, LEARNING_RATE = 30, 0.2
"""How often, and about how far at once, the logs of rates and weights are moved."""
CHECKED = 5
"""After so many steps the kernel is looked at with other rows."""

Build = Callable[[Sequence[Any]], Kernel]
"""From values of the parameters to the kernel that has them."""

Ratio = Callable[[Kernel], Any]
"""The estimate of a squared discrepancy over its standard error, by a kernel."""


def parameters(kernel: Kernel, n_variables: int) -> tuple[list[Any], Build]:
    """The rates and weights of a kernel, arrays of positive numbers, and how to set them.

    Rates that are zero stay zero. A kernel without parameters has an empty list.

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
        return _rates(kernel, n_variables)
    if not isinstance(kernel, (SumKernel, ProductKernel)):
        return [], lambda _: kernel
    parts = [parameters(k, n_variables) for k in kernel.kernels]
    found = [x for own, _ in parts for x in own]
    weights = kernel.weights if isinstance(kernel, SumKernel) else None

    def build(values: Sequence[Any]) -> Kernel:
        left = list(values)
        made = [make([left.pop(0) for _ in own]) for own, make in parts]
        return (
            ProductKernel(*made)
            if weights is None
            else SumKernel(made, left[0] if left else weights)
        )

    if weights is None or len(weights) == 1:  # the weight of a single term does not matter
        return found, build
    return [*found, np.array(weights)], build


def _rates(kernel: RateKernel, n_variables: int) -> tuple[list[Any], Build]:
    gamma = 1.0 / n_variables if kernel.gamma is None else kernel.gamma
    rates = np.asarray(gamma, dtype=np.float64)
    used = rates > 0
    if rates.ndim == 0 or used.all():
        return [rates], lambda values: type(kernel)(values[0])

    def build(values: Sequence[Any]) -> Kernel:
        given: Any = values[0]
        if has_gradient(given):
            every = as_like(rates.copy(), given).index_put((as_like(used, given),), given)
            return type(kernel)(every)
        every = rates.copy()
        every[used] = given
        return type(kernel)(every)

    return [rates[used]], build


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


def model_ratio(circuit: Circuit, rows: Any, counts: Any, floor: float) -> Ratio:
    """The squared discrepancy of samples from a circuit over its standard error, by kernels."""
    circuit = circuit.to("torch")

    def ratio(k: Kernel) -> Any:
        matrix, embedded = k(rows), expected_kernel(circuit, rows, k)
        c, n = as_like(counts, matrix), counts.sum()
        centred = matrix - embedded[:, None] - embedded
        partners = (centred @ c - centred.diagonal()) / (n - 1)
        total = expected_kernel(circuit, circuit, k)
        return _over_error([(partners, c)], total, floor * matrix.detach().abs().mean())

    return ratio


def sample_ratio(rows: Any, both: Sequence[Any], floor: float) -> Ratio:
    """The squared discrepancy of two samples over its standard error, by kernels.

    Samples are given by how often they have each of the rows.
    """

    def ratio(k: Kernel) -> Any:
        matrix = k(rows)
        a, b = (as_like(counts, matrix) for counts in both)
        sides = []
        for own, other in ((a, b), (b, a)):
            inside = (matrix @ own - matrix.diagonal()) / (own.sum() - 1)
            sides.append((inside - matrix @ other / other.sum(), own))
        return _over_error(sides, 0.0, floor * matrix.detach().abs().mean())

    return ratio


def _over_error(sides: Sequence[tuple[Any, Any]], total: Any, floor: Any) -> Any:
    """The sum of means over its standard error, of values and how often each occurs."""
    variance = floor**2
    for values, counts in sides:
        n = counts.sum()
        mean = counts @ values / n
        total = total + mean
        variance = variance + 4.0 * (counts @ (values - mean) ** 2) / (n - 1) / n
    return total / variance.sqrt()
