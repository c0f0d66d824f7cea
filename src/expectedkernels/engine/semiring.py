"""Passes over levels in any semiring: largest logs, truth, counts, numbers of any size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from expectedkernels.engine.levels import Edges, Levels


@dataclass(frozen=True, eq=False)
class Semiring:
    """Two operations that distribute over each other, on arrays of some kind.

    Attributes
    ----------
    full : callable
        From a shape and False or True to an array of zeros or ones.
    times : callable
    sums : callable
        From edges, their lifted weights (None: all are one) and an array of products to the sum
        over the edges of every unit.
    lift : callable
        From weights to elements.

    Examples
    --------
    >>> MAX.times(MAX.full((2,), True), -1.0).tolist(), LOGIC.lift(np.array([0.0, 0.3])).tolist()
    ([-1.0, -1.0], [False, True])
    """

    full: Callable[[tuple[int, ...], bool], Any]
    times: Callable[[Any, Any], Any]
    sums: Callable[[Edges, Any, Any], Any]
    lift: Callable[[Any], Any]


def _of_ufuncs(
    plus: Any, times: Any, zero: Any, one: Any, dtype: Any, lift: Callable[[Any], Any]
) -> Semiring:
    """The semiring on arrays of one type."""

    def full(shape: tuple[int, ...], ones: bool) -> Any:
        return np.full(shape, one if ones else zero, dtype=dtype)

    def terms(edges: Edges, weights: Any, products: Any, chosen: Any = slice(None)) -> Any:
        found = products[edges.products[chosen]]
        if weights is None:
            return found
        return times(found, weights[chosen].reshape(-1, *[1] * (products.ndim - 1)))

    def sums(edges: Edges, weights: Any, products: Any) -> Any:
        if products.ndim == 1 and not edges.has_idle:
            return plus.reduceat(terms(edges, weights, products), edges.starts[:-1])
        out = full((len(edges.starts) - 1, *products.shape[1:]), False)
        for units, chosen in edges.diagonals:
            out[units] = plus(out[units], terms(edges, weights, products, chosen))
        return out

    return Semiring(full, times, sums, lift)


def _logs(weights: Any) -> Any:
    with np.errstate(divide="ignore"):
        return np.log(weights)


def _ones(weights: Any) -> Any:
    """One for every weight that is not zero, as an int of any size."""
    return np.array([int(w != 0) for w in weights], dtype=object)


MAX = _of_ufuncs(np.maximum, np.add, -np.inf, 0.0, np.float64, _logs)
"""Logs of values, the largest in the place of the sum."""
LOGIC = _of_ufuncs(np.logical_or, np.logical_and, False, True, np.bool_, lambda w: w != 0)
"""Which values are not zero."""
COUNTS = _of_ufuncs(np.add, np.multiply, 0, 1, object, _ones)
"""How many terms are not zero, exactly."""


def lifted(semiring: Semiring, levels: Levels) -> list[Any]:
    """The weights of all edges of every level as elements of a semiring."""
    return [semiring.lift(level.all_edges.weights) for level in levels.levels]


def up_over(semiring: Semiring, levels: Levels, weights: Sequence[Any], atoms: Any) -> Any:
    """The values of all units, (units, ...), given lifted weights and atoms, (atoms, ...)."""
    values = semiring.full((levels.n_units, *atoms.shape[1:]), False)
    for number, level in enumerate(levels.levels):
        products = products_over(semiring, levels, number, values, atoms)
        found = semiring.sums(level.all_edges, weights[number], products)
        values[level.start : level.stop] = found
    return values


def products_over(semiring: Semiring, levels: Levels, number: int, values: Any, atoms: Any) -> Any:
    """The values of a level's products (atoms at the lowest), given those of all units below."""
    inputs = levels.levels[number].inputs
    return atoms if inputs is None else semiring.times(values[inputs[0]], values[inputs[1]])


def down_over(semiring: Semiring, levels: Levels, weights: Sequence[Any], values: Any) -> Any:
    """The derivatives of the (only) root in all atoms, (atoms, ...), given all values."""
    found = semiring.full(values.shape, False)
    found[levels.roots] = semiring.full((1, *values.shape[1:]), True)
    sent: Any = None
    for level, own in zip(levels.levels[::-1], weights[::-1], strict=True):
        order, by_product = level.by_product
        sent = semiring.sums(by_product, own[order], found[level.start : level.stop])
        if level.inputs is not None:
            for (units, edges), others in zip(level.used_by, level.inputs[::-1], strict=True):
                found[units] = semiring.sums(edges, None, semiring.times(sent, values[others]))
    return sent
