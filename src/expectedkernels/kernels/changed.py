"""Product kernels in which one variable at a time has another factor, all of them side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from expectedkernels.engine.blocks import Inner
from expectedkernels.engine.nodes import at_nodes, from_leaves
from expectedkernels.engine.sweep import Operand
from expectedkernels.kernels.blocks import KernelBlocks
from expectedkernels.kernels.factors import Factor
from expectedkernels.vtree import Vtree


def one_changed(
    vtree: Vtree, factors: Sequence[Factor], others: Sequence[Factor], variables: Sequence[int]
) -> tuple[KernelBlocks, list[int]]:
    """The product of factors, then the products in which one of the variables has its other factor.

    Every product is a root. Also returned: which variable is changed in the roots from the
    second on. Parts without a changed variable are shared by all products.
    """
    chosen = set(variables)
    changed = from_leaves(
        vtree, lambda _, v: [v] if v in chosen else [], lambda _, left, right: left + right
    )

    def inner(node: int) -> Inner:
        n, m = (len(changed[child[node]]) for child in (vtree.left, vtree.right))
        left = np.concatenate([np.arange(n + 1), np.zeros(m, dtype=np.intp)])
        right = np.concatenate([np.zeros(n + 1, dtype=np.intp), np.arange(1, m + 1)])
        return Inner(n + m + 1, n + m + 1, left, right, None)

    units = [len(found) + 1 for found in changed]
    operand = Operand(vtree, units, at_nodes(vtree, None, inner), [None] * len(units))
    inputs: list[tuple[Factor, ...]] = [
        (own, other) if v in chosen else (own,)
        for v, (own, other) in enumerate(zip(factors, others, strict=True))
    ]
    return KernelBlocks(operand, inputs, np.ones(units[-1])), changed[-1]
