"""Conditionals written out as the units of a circuit, in whatever numbers these take."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.arrays import require_memory
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.inputs import Input, Table
from expectedkernels.circuits.ranges import Part, plain_blocks
from expectedkernels.circuits.wide import Wide, wide, wide_exp
from expectedkernels.compilation.messages import MessagePlan
from expectedkernels.compilation.plan import CompilationPlan, Potential, make_plan
from expectedkernels.compilation.tables import Scaled
from expectedkernels.engine.blocks import DENSE_BELOW, Inner, inner, inner_of_edges
from expectedkernels.errors import CircuitError, SizeError
from expectedkernels.vtree import Vtree

Axes = tuple[int, ...]
Make = Callable[[int, Any], Input | Inner]
"""The block of a vtree node, given the table of its shares (None: it has none)."""


def context_plan(vtree: Vtree, shares: MessagePlan) -> CompilationPlan:
    """The plan of the circuit of some conditionals: that of the model they came from."""
    cards = {stage.variable: stage.shape[0] for stage in shares.stages}
    scopes = ((stage.variable, *stage.context) for stage in shares.stages)
    wide = (tuple(sorted(v for v in scope if cards[v] > 1)) for scope in scopes)
    tables: dict[Axes, Any] = {scope: None for scope in wide if scope}
    sizes = tuple(cards[v] for v in range(len(cards)))
    return make_plan(Potential(sizes, tables, 0.0), vtree, "context")


def context_blocks(vtree: Vtree, shares: MessagePlan, max_bytes: int) -> tuple[Input | Inner, ...]:
    """The blocks of the circuit of some conditionals."""
    plan = context_plan(vtree, shares)
    refuse_large(plan, plan.n_bytes, max_bytes, "To write out the units of this circuit")
    tables = {stage.variable: stage.factors[0] for stage in shares.stages}
    decided = [step.decides if step.kind in ("inputs", "decision") else -1 for step in plan.steps]
    return written_blocks(
        vtree,
        [tables.get(v) for v in decided],
        lambda node, table: _context_block(plan, node, table),
    )


def refuse_large(plan: CompilationPlan, needed: int, max_bytes: int, what: str) -> None:
    """Raise if something needs more memory than there is."""
    if needed > max_bytes:
        raise SizeError(
            f"{what} needs about {needed / 2**30:.3g} GiB, more than "
            f"max_bytes={max_bytes}: the {plan.method} method has width {plan.width} on its vtree, "
            f"with {plan.n_products} products. Condition on some variables, try another vtree, or "
            "allow more memory."
        )
    require_memory(needed, what, "Condition on some variables, or try another vtree.")


def written_blocks(
    vtree: Vtree, shares: Sequence[Scaled | None], make: Make
) -> tuple[Input | Inner, ...]:
    """The blocks of all nodes; what is too small for a double moves to the units below."""
    tables = list(enumerate(shares))
    if any(table is not None and table.is_log for table in shares):
        try:
            parts = [_part(make, node, table) for node, table in tables]
            blocks = plain_blocks(vtree, parts, "The circuit", "compile a milder model")
            return Circuit.from_blocks(vtree, blocks).blocks
        except CircuitError:
            _warn_of_lost_shares(shares)
    blocks = [make(node, None if table is None else table.numbers) for node, table in tables]
    return Circuit.from_blocks(vtree, blocks).blocks


def _part(make: Make, node: int, table: Scaled | None) -> Part:
    """The block of a node, and its numbers, which may be no doubles."""
    if table is None:
        block = make(node, None)
        return block, wide(block.flat[0])
    # a block of the places of shares in their table, from one on, says which of them goes where
    logs = table.logs
    places = np.where(logs > -np.inf, np.arange(1.0, logs.size + 1).reshape(logs.shape), 0.0)
    block = make(node, places)
    place = block.flat[0].astype(np.intp)
    numbers = wide_exp(logs.reshape(-1))[np.maximum(place - 1, 0)]
    return block, Wide(np.where(place > 0, numbers.mantissa, 0.0), numbers.exponent)


def _warn_of_lost_shares(shares: Sequence[Scaled | None]) -> None:
    """Say that conditional probabilities are too small for a circuit, however it is scaled."""
    least = np.log(np.finfo(np.float64).tiny)
    logs = [table.logs for table in shares if table is not None]
    lost = sum(np.count_nonzero((x > -np.inf) & (x < least)) for x in logs)
    warnings.warn(
        f"{lost} conditional probabilities of the model are below 2e-308, too small for the "
        "weights of a circuit, where they count as zero or lose digits. Answers of the model "
        "itself keep them, and so do the likelihoods and marginals of its circuit if it is "
        "compiled by contexts.",
        UserWarning,
        stacklevel=2,
    )


def _context_block(plan: CompilationPlan, node: int, table: Any) -> Input | Inner:
    """The units of one vtree node; the table holds what is decided there, (states, *context)."""
    step, cards = plan.steps[node], plan.potential.cardinalities
    if step.kind == "literals":
        return Table(np.eye(cards[step.decides]))
    if step.kind == "inputs":
        return Table(np.ascontiguousarray(_by_unit(table)))
    children = int(plan.vtree.left[node]), int(plan.vtree.right[node])
    below = [plan.steps[child] for child in children]
    n_left, n_right = below[0].n_units, below[1].n_units
    if step.kind == "product":
        left, right = (_numbers(child.axes, step.axes, cards) for child in below)
        return inner(left, right, None, n_left, n_right)
    # one product for every unit of the other side, whose context tells the value decided
    other = plan.steps[step.other]
    left, right = _numbers((step.decides,), other.axes, cards), np.arange(other.n_units)
    if step.other == children[0]:
        left, right = right, left
    columns = _numbers(other.axes, (*step.axes, step.decides), cards)
    shares = _by_unit(table)
    return weighted(left, right, shares, columns.reshape(shares.shape), n_left, n_right)


def _by_unit(table: Any) -> Any:
    """A table (states, *context) with one row per unit."""
    return table.reshape(len(table), -1).T


def weighted(left: Any, right: Any, shares: Any, columns: Any, n_left: int, n_right: int) -> Inner:
    """The block with these products, whose units have rows of shares of the products in columns."""
    alive = shares > 0
    n_units, n_products = len(shares), len(left)
    if n_units * n_products <= DENSE_BELOW:
        edges = (np.nonzero(alive)[0], columns[alive], shares[alive])
        return inner_of_edges(left, right, edges, n_units, n_left, n_right)
    if alive.all():
        starts = np.arange(0, shares.size + 1, shares.shape[1])
        entries = (shares.reshape(-1), columns.reshape(-1), starts)
    else:
        starts = np.concatenate([[0], np.cumsum(alive.sum(axis=1))])
        entries = (shares[alive], columns[alive], starts)
    weights = sparse.csr_array(entries, (n_units, n_products))
    return inner(left, right, weights, n_left, n_right)


def spread(table: Any, scope: Axes, axes: Axes) -> Any:
    """A table over some variables, with an axis of length one for each of the others."""
    place = {v: axis for axis, v in enumerate(axes)}
    order = sorted(range(len(scope)), key=lambda axis: place[scope[axis]])
    shape = [1] * len(axes)
    for axis, v in enumerate(scope):
        shape[place[v]] = table.shape[axis]
    return table.transpose(order).reshape(shape)


def _numbers(axes: Axes, wide: Axes, cardinalities: Sequence[int]) -> Any:
    """For every assignment of the wide axes the number of its restriction to some of them."""
    shape = [cardinalities[v] for v in axes]
    numbers = np.arange(int(np.prod(shape, dtype=np.intp))).reshape(shape)
    return np.broadcast_to(spread(numbers, axes, wide), [cardinalities[v] for v in wide]).reshape(
        -1
    )
