"""How large the axes of a sweep are, and what sweeping two of them costs, before it is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from expectedkernels.engine.patterns import Patterns
from expectedkernels.engine.sweep import Operand

DENSE_RATE = 0.1
"""The time of one term of a dense matrix product, in terms of a sparse one."""
GATHER = 1.0
"""What gathering a number costs, in numbers computed."""
FOLDED_GATHER = 3.0
"""The same for nodes that are computed together: every number has its own index."""
NODE = 40_000.0
"""What a node costs in a sweep node by node, in numbers computed."""
STEP = 6_000.0
"""What a step of a folded sweep costs."""


@dataclass(frozen=True, eq=False)
class Extent:
    """The size of one axis of a sweep at every vtree node, with all its copies.

    Attributes
    ----------
    units, products, terms : arrays of shape (nodes,)
        `terms` are those of the weighted sums, in terms of sparse ones.
    indexed : boolean array of shape (2, nodes)
        Whether units of the left and of the right child are gathered, and not taken as they are.
    steps : int or None
        In how many groups nodes can be computed together; None: node by node.
    set_up : float
        What making the axis costs, in numbers computed.
    """

    units: Any
    products: Any
    terms: Any
    indexed: Any
    steps: int | None
    set_up: float = 0.0


def extent_of_operand(operand: Operand) -> Extent:
    """The size of the axis that an operand is."""
    single = operand.cached("extent", lambda: _single_extent(operand))
    if operand.patterns is None:
        return single
    return with_patterns(single, operand.patterns)


def with_patterns(single: Extent, found: Patterns) -> Extent:
    """The size of an axis with one copy of its units per pattern."""
    count = np.asarray(found.count, dtype=np.float64)
    if found.is_uniform:
        indexed, steps = single.indexed, single.steps
    else:
        looked_up = [[x is not None for x in side] for side in (found.left, found.right)]
        indexed, steps = single.indexed | np.asarray(looked_up), None
    return Extent(
        count * single.units, count * single.products, count * single.terms, indexed, steps
    )


def flat_extent(n_nodes: int, n: int) -> Extent:
    """The size of an axis with as many units everywhere: rows that are all different."""
    every = np.full(n_nodes, float(n))
    return Extent(every, every, np.zeros(n_nodes), np.ones((2, n_nodes), dtype=np.bool_), None)


def _single_extent(operand: Operand) -> Extent:
    n = operand.vtree.n_nodes
    products, terms, indexed = np.zeros(n), np.zeros(n), np.zeros((2, n), dtype=np.bool_)
    for node, block in enumerate(operand.inner):
        if block is None:
            continue
        products[node] = block.n_products
        indexed[:, node] = block.left is not None, block.right is not None
        if block.is_sparse:
            terms[node] = block.weights.nnz
        elif block.weights is not None:
            terms[node] = DENSE_RATE * block.n_products * block.n_units
    units = np.asarray(operand.units, dtype=np.float64)
    return Extent(units, products, terms, indexed, len(operand.fold.members))


def sweep_cost(a: Extent, b: Extent, width: int = 1) -> float:
    """What sweeping two axes costs, and making them, in numbers computed.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.random_circuit(ek.Vtree.balanced(4), 3, rng=0)
    >>> one, many = extent_of_operand(p.operand), flat_extent(p.vtree.n_nodes, 100)
    >>> sweep_cost(one, one) < sweep_cost(one, many)
    True
    """
    folded = a.steps is not None and b.steps is not None
    gathered = (a.indexed | b.indexed).sum(axis=0) * (FOLDED_GATHER if folded else GATHER)
    products = a.products * b.products
    numbers = (1.0 + gathered) * products + a.terms * b.products + a.units * b.terms
    numbers = np.where(products > 0, numbers, 2.0 * a.units * b.units)
    steps = max(a.steps, b.steps) * STEP if folded else len(a.units) * NODE  # type: ignore[type-var,operator]
    return float(width * numbers.sum()) + steps + a.set_up + b.set_up
