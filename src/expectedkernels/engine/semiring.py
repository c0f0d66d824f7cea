"""Passes over levels in any semiring: largest logs, truth, counts of any size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from expectedkernels.engine.levels import Edges, Levels


@dataclass(frozen=True, eq=False)
class Semiring:
    """Two operations that distribute over each other, on numbers of one type.

    Attributes
    ----------
    dtype : type
    zero : number
        What an empty sum is.
    plus, times : ufuncs
    lift : callable
        From weights to elements.

    Examples
    --------
    >>> MAX.plus(MAX.times(0.0, -1.0), MAX.zero), LOGIC.lift(np.array([0.0, 0.3])).tolist()
    (np.float64(-1.0), [False, True])
    """

    dtype: Any
    zero: Any
    plus: Any
    times: Any
    lift: Callable[[Any], Any]


def _logs(weights: Any) -> Any:
    with np.errstate(divide="ignore"):
        return np.log(weights)


def _ones(weights: Any) -> Any:
    """One for every weight that is not zero, as an int of any size."""
    return np.array([int(w != 0) for w in weights], dtype=object)


MAX = Semiring(np.float64, -np.inf, np.maximum, np.add, _logs)
"""Logs of values, the largest in the place of the sum."""
LOGIC = Semiring(np.bool_, False, np.logical_or, np.logical_and, lambda w: w != 0)
"""Which values are not zero."""
COUNTS = Semiring(object, 0, np.add, np.multiply, _ones)
"""How many terms are not zero, exactly."""


def lifted(semiring: Semiring, levels: Levels) -> list[Any]:
    """The weights of all edges of every level as elements of a semiring."""
    return [semiring.lift(level.all_edges.weights) for level in levels.levels]


def up_over(semiring: Semiring, levels: Levels, weights: Sequence[Any], atoms: Any) -> Any:
    """The values of all units, (units, ...), given lifted weights and atoms, (atoms, ...)."""
    values = np.empty((levels.n_units, *atoms.shape[1:]), dtype=semiring.dtype)
    for level, own in zip(levels.levels, weights, strict=True):
        products = atoms
        if level.inputs is not None:
            left, right = level.inputs
            products = semiring.times(values[left], values[right])
        here = values[level.start : level.stop]
        _summed(semiring, level.all_edges, own, products, here)
    return values


def _summed(semiring: Semiring, edges: Edges, weights: Any, products: Any, out: Any) -> None:
    """Write the sum over the edges of every unit."""
    if out.ndim == 1 and not edges.has_idle:
        terms = semiring.times(products[edges.products], weights)
        out[:] = semiring.plus.reduceat(terms, edges.starts[:-1])
        return
    out[:] = semiring.zero
    shape = (-1, *[1] * (out.ndim - 1))
    for units, chosen in edges.diagonals:
        terms = semiring.times(products[edges.products[chosen]], weights[chosen].reshape(shape))
        out[units] = semiring.plus(out[units], terms)
