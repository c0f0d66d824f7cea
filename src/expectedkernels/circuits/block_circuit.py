"""Blocks of circuits: checked, minimised, weighted; where circuits and their blocks lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from scipy import sparse

from expectedkernels.arrays import distinct_dense_rows, distinct_pairs, distinct_sparse_rows
from expectedkernels.checks import CircuitError, PropertyError
from expectedkernels.circuits.inputs import Input, require_range
from expectedkernels.data.evidence import Evidence
from expectedkernels.data.schema import Schema
from expectedkernels.engine.blocks import Inner, at_nodes, from_leaves, from_root, inner, tidy
from expectedkernels.vtree import Vtree

if TYPE_CHECKING:
    from expectedkernels.circuits.circuit import Circuit

Blocks = list[Input | Inner]


def minimize(vtree: Vtree, blocks: Sequence[Input | Inner]) -> Blocks:
    """The same functions at the roots, with as few units as merging and dropping can reach.

    Units that are equal (same inputs, same weights, to the last bit) become one; units that are
    identically zero, and units no root depends on, go. The roots keep their number and order.
    Cost: linear in the size of the circuit.
    """
    small = _drop_unreachable(vtree, merge_equal(vtree, _drop_unreachable(vtree, blocks)))
    return small if all(block.n_units for block in small) else _zero(vtree, blocks)


def _zero(vtree: Vtree, blocks: Sequence[Input | Inner]) -> Blocks:
    """The circuit that is zero everywhere, with one unit per node but for the roots."""
    one = Inner(1, 1, None, None, None)

    def zero(block: Any, n: int = 1) -> Any:
        return block.with_numbers(np.zeros((n, block.width)))

    *below, root = at_nodes(vtree, lambda node, _: zero(blocks[node]), lambda _: one)
    return [*below, zero(root, blocks[-1].n_units)]


def _drop_unreachable(vtree: Vtree, blocks: Sequence[Any]) -> Blocks:
    """Keep the units that some root depends on."""

    def leaf(node: int, _: int, units: Any) -> Input:
        return blocks[node] if units is None else blocks[node].take(units)

    def inner_at(node: int, units: Any) -> tuple[Inner, Any, Any]:
        block = blocks[node]
        left, right = block.inputs
        weights = block.csr if (block.weights is None and units is not None) else block.weights
        if weights is not None:
            if units is not None:
                weights = weights[units]
            tidied = tidy(weights) if sparse.issparse(weights) else weights
            used = (tidied != 0).sum(axis=0) > 0
            if not used.all():
                left, right, weights = left[used], right[used], weights[:, np.flatnonzero(used)]
        left, n_left, from_left = _renumber(left, blocks[vtree.left[node]].n_units)
        right, n_right, from_right = _renumber(right, blocks[vtree.right[node]].n_units)
        return inner(left, right, weights, n_left, n_right), from_left, from_right

    return from_root(vtree, None, leaf, inner_at)


def _renumber(index: Any, n: int) -> tuple[Any, int, Any]:
    """The index into the used units only, how many there are, and which (None: all)."""
    used = np.zeros(n, dtype=np.bool_)
    used[index] = True
    if used.all():
        return index, n, None
    number = np.cumsum(used)
    return number[index] - 1, int(number[-1]), np.flatnonzero(used)


def merge_equal(vtree: Vtree, blocks: Sequence[Any]) -> Blocks:
    """Merge equal units and drop zero ones, bottom-up; roots all stay."""
    root = vtree.root

    def leaf(node: int, _: int) -> tuple[Any, Any]:
        return blocks[node].merged() if node != root else (blocks[node], None)

    def inner_at(node: int, below_left: Any, below_right: Any) -> tuple[Any, Any]:
        # children come as they are now, with the places of their former units
        block, is_root = blocks[node], node == root
        left, right = below_left[1][block.index("left")], below_right[1][block.index("right")]
        n_left, n_right = below_left[0].n_units, below_right[0].n_units
        alive = (left >= 0) & (right >= 0)
        pairs, column = distinct_pairs(left[alive], right[alive], (n_left, n_right))
        place: Any = None
        if block.weights is None and not is_root:  # every unit is one product
            place = np.full(block.n_products, -1, dtype=np.intp)
            place[alive] = column
            return inner(*pairs, None, n_left, n_right), place
        weights = block.csr if block.weights is None else block.weights
        if not alive.all() or len(pairs[0]) < block.n_products:
            left, right = pairs
            weights = _merge_columns(weights, alive, column, len(left))
        if not is_root:
            weights, place = _merge_rows(weights)
        return inner(left, right, weights, n_left, n_right), place

    return [block for block, _ in from_leaves(vtree, leaf, inner_at)]


def _merge_columns(weights: Any, alive: Any, column: Any, n: int) -> Any:
    """Add up the columns of products that became one, and drop those that became zero."""
    places = np.ones(len(column)), (np.flatnonzero(alive), column)
    merged = weights @ sparse.csr_array(places, shape=(weights.shape[1], n))
    merged = tidy(merged) if sparse.issparse(weights) else np.ascontiguousarray(merged)
    if not np.isfinite(merged.data if sparse.issparse(merged) else merged).all():
        raise CircuitError(
            "Weights of equal products of a sum unit add up to a number that is too large for a "
            "double. Scale the weights down."
        )
    return merged


def _merge_rows(weights: Any) -> tuple[Any, Any]:
    """Keep the first of equal rows of a weight matrix; rows of zeros go."""
    if sparse.issparse(weights):
        weights = tidy(weights)
        kept, place = distinct_sparse_rows(weights.indptr, weights.indices, weights.data)
    else:
        kept, place = distinct_dense_rows(weights)
    return (weights if len(kept) == weights.shape[0] else weights[kept]), place


def weighted_units(block: Any, weights: Any, what: str, advice: str) -> Any:
    """The block of weighted sums of the units of another; `what` and `advice` are for the error.

    Raises if a number leaves the range of doubles.
    """
    weights, matrix = sparse.csr_array(weights), block.matrix
    matrix = block.csr if matrix is None else matrix
    n_used, sizes = 0, np.zeros(0)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        found = weights @ matrix
        if (weights.data != 1.0).any():  # what is passed on keeps its digits, however small it is
            sizes = abs(weights) @ abs(matrix)
            used = (weights != 0).astype(np.int64) @ (matrix != 0).astype(np.int64)
            n_used = (used > 0).sum()
    require_range(found.data if sparse.issparse(found) else found, n_used, sizes, what, advice)
    return block.with_numbers(found)


Kind = TypeVar("Kind", bound="Circuit")


class Shortcuts(Protocol):
    """What a circuit was made from, where that answers some questions faster than blocks.

    Answers are None where blocks are to be asked. That depends on the question alone, not on what
    has been asked or made before, so that copies of a circuit give the same answers to the last
    digit.
    """

    def log_values(self, evidence: Evidence | None) -> Any:
        """The log of the value of the root for every row, -inf for rows that are impossible."""

    def marginals(self, evidence: Evidence | None) -> list[Any] | None:
        """The probabilities of the states of every variable, (rows, cardinality) each."""

    def blocks(self, vtree: Vtree) -> tuple[Input | Inner, ...]:
        """The blocks of the circuit."""


def of_tables(kind: type[Kind], vtree: Vtree, schema: Schema, tables: Shortcuts) -> Kind:
    """The circuit that tables are the whole value of."""
    return kind.deferred(vtree, schema, partial(tables.blocks, vtree), tables)


def shortcut(circuit: Circuit, question: str, evidence: Evidence | None) -> Any:
    """What is found without blocks, None if these are to be asked."""
    if circuit.shortcuts is None:
        return None
    return getattr(circuit.shortcuts, question)(evidence)


def host_for(circuit: Kind, what: str) -> Kind:
    """The circuit on the host; raises if gradients are asked for, as `what` loses them.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> host_for(ek.factorized([[0.2, 0.8]]), "A product").n_units
    1
    """
    if circuit.has_gradients:
        raise PropertyError(
            f"{what} does not follow gradients, and they are asked for by numbers of this "
            "circuit. Give circuit.to('numpy'), which has none."
        )
    return circuit.to("numpy")


def check_blocks(vtree: Vtree, blocks: Sequence[Input | Inner]) -> None:
    """Raise unless the blocks fit the vtree and hold finite numbers."""
    if sorted(vtree.scope().tolist()) != list(range(vtree.n_variables)):
        raise CircuitError(
            f"The variables of a circuit are 0 to {vtree.n_variables - 1}. "
            f"Got a vtree over {sorted(vtree.scope().tolist())}."
        )
    if len(blocks) != vtree.n_nodes:
        raise CircuitError(
            f"A vtree of {vtree.n_nodes} nodes needs as many blocks. Got {len(blocks)}."
        )

    def leaf(node: int, variable: int) -> int:
        block: Any = blocks[node]
        wrong = block.complaint()
        if wrong is not None:
            raise CircuitError(f"Normal inputs of variable {variable} need {wrong}.")
        return _checked_numbers(vtree, node, block)

    def inner(node: int, n_left: int, n_right: int) -> int:
        block: Any = blocks[node]
        for side, index, n in zip(("left", "right"), block.inputs, (n_left, n_right), strict=True):
            if len(index) and not (index.min() >= 0 and index.max() < n):
                raise CircuitError(
                    f"At vtree node {node}, {side} inputs must be in 0..{n - 1}. "
                    f"Got {int(index.min())}..{int(index.max())}."
                )
        return _checked_numbers(vtree, node, block)

    from_leaves(vtree, leaf, inner)


def _checked_numbers(vtree: Vtree, node: int, block: Input | Inner) -> int:
    """The number of units, after checking that their numbers are finite."""
    values: Any = block.numbers
    values = values.data if sparse.issparse(values) else values
    if values is not None and not np.isfinite(values).all():
        raise CircuitError(
            f"At vtree node {node} (variables {vtree.scope(node).tolist()[:8]}), weights and "
            "tables must be finite numbers. Got NaN or infinity."
        )
    return block.n_units


def renumbered(circuit: Kind, blocks: Sequence[Input | Inner]) -> Kind:
    """The circuit with blocks that differ in numbers only; how they are folded is kept."""
    new = replace(circuit, blocks=tuple(blocks))
    vars(new)["_operand"] = circuit._operand.renumbered(new.blocks)
    return new
