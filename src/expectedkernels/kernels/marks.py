"""Marked states: circuits and kernels in which one variable is treated unlike the others.

Stein operators act on one variable at a time, and discrepancies sum over which one. With a second
copy of the states of every variable ("marked") that sum is one expected kernel: tables of circuits
say what a marked state means, and pairs of points count only if exactly one variable is
marked, the same on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.inputs import Table
from expectedkernels.engine.blocks import Inner
from expectedkernels.engine.nodes import at_nodes
from expectedkernels.engine.sweep import Operand
from expectedkernels.kernels.blocks import KernelBlocks, kronecker
from expectedkernels.kernels.factors import Factor
from expectedkernels.kernels.kernel import factor_matrix
from expectedkernels.kernels.point_gradients import values_with_gradients
from expectedkernels.vtree import Vtree


def marked(circuit: Circuit, change: Callable[[Any], Any]) -> Circuit:
    """The circuit over twice as many states, with changed tables for the marked ones.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = marked(ek.factorized([[0.1, 0.2, 0.7]]), lambda table: np.roll(table, -1, axis=1))
    >>> p.input(0).table.tolist()
    [[0.1, 0.2, 0.7, 0.2, 0.7, 0.1]]
    """

    def leaf(node: int, variable: int) -> Table:
        table = circuit.blocks[node].numbers
        return Table(np.concatenate([table, change(table)], axis=1))

    return Circuit(circuit.vtree, tuple(at_nodes(circuit.vtree, leaf, circuit.blocks.__getitem__)))


def one_marked(vtree: Vtree, cardinalities: Sequence[int]) -> Circuit:
    """The indicator of points in which exactly one variable is marked.

    Its units say that no variable of a vtree node is marked, or that one is.

    Examples
    --------
    >>> one = one_marked(Vtree.balanced(2), [2, 2])
    >>> one.log_likelihood([[0, 1], [0, 3], [2, 1], [2, 3]]).tolist()
    [-inf, 0.0, 0.0, -inf]
    """

    def leaf(node: int, variable: int) -> Table:
        table = np.kron(np.eye(2), np.ones(cardinalities[variable]))
        return Table(table[1:] if node == vtree.root else table)

    return Circuit(vtree, tuple(at_nodes(vtree, leaf, lambda node: _counter(node == vtree.root))))


def _counter(is_root: bool) -> Inner:
    """None marked: none on either side. One marked: one on one of the two sides."""
    if is_root:
        return Inner(2, 1, np.asarray([1, 0]), np.asarray([0, 1]), np.ones((1, 2)))
    weights = np.asarray([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
    return Inner(3, 2, np.asarray([0, 1, 0]), np.asarray([0, 0, 1]), weights)


def same_marks(kernel: KernelBlocks, cardinalities: Sequence[int]) -> KernelBlocks:
    """The kernel on marked states, zero unless the same variables are marked on both sides."""
    return _on_marked(kernel, cardinalities, np.eye(2))


def same_single_mark(kernel: KernelBlocks, cardinalities: Sequence[int]) -> KernelBlocks:
    """The kernel on marked states, zero unless one variable is marked, the same on both sides."""
    vtree = kernel.vtree
    inner = at_nodes(vtree, None, lambda node: _counter(node == vtree.root))
    units = [2] * vtree.n_nodes
    units[vtree.root] = 1
    factors = []
    for variable, n in enumerate(cardinalities):
        pair = [_mark_factor(n, 0), _mark_factor(n, 1)]
        factors.append(tuple(pair[1:] if vtree.leaf(variable) == vtree.root else pair))
    counter = KernelBlocks(
        Operand(vtree, units, inner, [None] * vtree.n_nodes), factors, np.ones(1)
    )
    return kronecker(_on_marked(kernel, cardinalities, np.ones((2, 2))), counter)


def _mark_factor(cardinality: int, mark: int) -> Factor:
    """One if both states have the mark (or both have none)."""
    states = np.zeros((2, 2))
    states[mark, mark] = 1.0
    return Factor(table=np.kron(states, np.ones((cardinality, cardinality))))


def _on_marked(kernel: KernelBlocks, cardinalities: Sequence[int], marks: Any) -> KernelBlocks:
    """The kernel on marked states, times a kernel of the marks of every variable."""
    tables: dict[Any, tuple[Factor, ...]] = {}
    factors = []
    for variable, (own, n) in enumerate(zip(kernel.factors, cardinalities, strict=True)):
        if (own, n) not in tables:  # equal tuples stay one tuple, which is found equal faster
            tables[own, n] = tuple(_marked_factor(f, n, variable, marks) for f in own)
        factors.append(tables[own, n])
    return replace(kernel, factors=factors)


def _marked_factor(factor: Factor, cardinality: int, variable: int, marks: Any) -> Factor:
    """A factor on marked states; gradients by its parameters are those by the table of it."""
    table = np.kron(marks, factor_matrix(factor, cardinality, variable))
    if not factor.tensors:
        return Factor(table=table)
    states = np.arange(cardinality, dtype=np.float64)[:, None]
    values = values_with_gradients([factor], states, states).linear()
    followed = values.new_tensor(marks).kron(values)
    return Factor(table=table, tensors={"table": followed})
