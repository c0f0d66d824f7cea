"""Stein kernels as tensors that know their gradients, by the target and by the kernel.

The numbers are those of the host; what is added has the value zero, and gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from expectedkernels.arrays import as_like
from expectedkernels.kernels.kernel import Kernel


def moves_with_gradients(moves: Any, shares: Any, states: Any, operator: str) -> Any:
    """How the operator of one variable weighs its states, in tensors.

    Parameters
    ----------
    moves : array of shape (n, cardinality)
        The same as numbers.
    shares : tensor of shape (n, cardinality)
        The probabilities of its states given all other variables, which know gradients.
    states : int array of shape (n,)
    operator : "shift" or "gibbs"
    """
    found = as_like(moves, shares)
    change = -shares
    if operator == "shift":
        here = as_like(np.eye(moves.shape[1])[states], shares)
        rows = as_like(np.arange(len(states)), shares)
        following = as_like((states + 1) % moves.shape[1], shares)
        ratio = shares[rows, following] / shares[rows, as_like(states, shares)]
        change = ratio[:, None] * here
    return found + (change - change.detach())


def gram_with_gradients(kernel: Kernel, first: Any, second: Any) -> Any:
    """The Gram matrix by its definition: kernels at all changes of one variable on both sides."""
    (X, moves), (Y, others) = first, second
    total: Any = 0.0
    for v, pair in enumerate(zip(moves, others, strict=True)):
        values = kernel.values_with_gradients(*(_changed(side, v, pair) for side in (X, Y)))
        numbers = values.linear("The Stein kernel", "Leave out samples of rare states.")
        cube = numbers.reshape(len(X), -1, len(Y), pair[0].shape[1])
        here, there = (as_like(m, cube).to(cube) for m in pair)
        total = total + (here[:, :, None, None] * cube * there[None, None]).sum((1, 3))
    return total


def _changed(points: Any, variable: int, moves: Sequence[Any]) -> Any:
    """Points with one variable in each of its states, one after the other."""
    n = moves[0].shape[1]
    rows = np.repeat(points.astype(np.float64), n, axis=0)
    rows[:, variable] = np.tile(np.arange(n), len(points))
    return rows
