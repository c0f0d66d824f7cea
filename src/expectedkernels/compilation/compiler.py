"""The compilers: messages over assignments at every vtree node, and the blocks they weigh."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.inputs import Input, Table
from expectedkernels.circuits.schema import Schema
from expectedkernels.compilation.messages import (
    NO_DISTRIBUTION,
    MessagePlan,
    compilation_stages,
    warn_of_lost_shares,
)
from expectedkernels.compilation.plan import CompilationPlan, Step
from expectedkernels.compilation.tensors import Tensors, conditionals
from expectedkernels.engine.blocks import DENSE_BELOW, Inner, inner, inner_of_edges
from expectedkernels.engine.nodes import at_nodes
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES, check_max_bytes
from expectedkernels.errors import PropertyError, SizeError
from expectedkernels.vtree import Vtree

Axes = tuple[int, ...]


def compiled(plan: CompilationPlan, max_bytes: int = DEFAULT_MAX_BYTES) -> tuple[Circuit, float]:
    """The normalised, deterministic circuit of a model, and the log of its partition function.

    Parameters
    ----------
    plan : CompilationPlan
    max_bytes : int
        Plans that need more memory than about this are refused.

    Notes
    -----
    Units are indexed by assignments. In the context method a unit belongs to a vtree node and an
    assignment of the variables outside that interact with those inside; it stands for the inside
    given the outside. In the boundary method it belongs to an assignment of the inside variables
    that interact with the outside, and stands for that assignment and everything below. The
    partition functions of the units are the messages of variable elimination; dividing by
    them makes every unit a distribution. Cost: O(D K^(w+1)) for D variables of K states and width
    w.
    """
    if plan.method == "context":
        return deferred(plan.vtree, compilation_stages(plan), lambda: plan, max_bytes)
    check_max_bytes(max_bytes)
    _refuse_large(plan, plan.n_bytes, max_bytes, "Compiling this model")
    blocks, log_z = _boundary_blocks(plan)
    if log_z == -np.inf:
        raise PropertyError(NO_DISTRIBUTION)
    return Circuit.from_blocks(plan.vtree, blocks), log_z


def deferred(
    vtree: Vtree, stages: MessagePlan, planned: Callable[[], CompilationPlan], max_bytes: int
) -> tuple[Circuit, float]:
    """What `compiled` gives by contexts: tables now, and blocks when somebody asks for them.

    The plan is made when it is needed. Its contexts are those of the stages.
    """
    check_max_bytes(max_bytes)
    if stages.table_bytes > max_bytes:
        _refuse_large(planned(), stages.table_bytes, max_bytes, "Compiling this model")
    shares, log_z = conditionals(stages)

    def cut() -> tuple[Input | Inner, ...]:
        plan = planned()
        _refuse_large(plan, plan.n_bytes, max_bytes, "To write out the units of this circuit")
        tables = {stage.variable: stage.factors[0].data for stage in shares.stages}

        def block(node: int, _: int = -1) -> Input | Inner:
            return _context_block(plan, node, tables)

        blocks = at_nodes(vtree, block, block)
        return Circuit.from_blocks(vtree, blocks).blocks

    cards = {stage.variable: stage.shape[0] for stage in stages.stages}
    schema = Schema(tuple(cards[v] for v in range(len(cards))))
    return Circuit.deferred(vtree, schema, cut, Tensors(shares, max_bytes)), log_z


def _refuse_large(plan: CompilationPlan, needed: int, max_bytes: int, what: str) -> None:
    if needed > max_bytes:
        raise SizeError(
            f"{what} needs about {needed / 2**30:.3g} GiB, more than "
            f"max_bytes={max_bytes}: the {plan.method} method has width {plan.width} on its vtree, "
            f"with {plan.n_products} products. Condition on some variables, try another vtree, or "
            "allow more memory."
        )


def _context_block(plan: CompilationPlan, node: int, tables: Mapping[int, Any]) -> Input | Inner:
    """The units of one vtree node; tables hold what is decided, (states, *context)."""
    step, cards = plan.steps[node], plan.potential.cardinalities
    if step.kind == "literals":
        return Table(np.eye(cards[step.decides]))
    if step.kind == "inputs":
        return Table(np.ascontiguousarray(_by_unit(tables[step.decides])))
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
    shares = _by_unit(tables[step.decides])
    return _weighted(left, right, shares, columns.reshape(shares.shape), n_left, n_right)


def _by_unit(table: Any) -> Any:
    """A table (states, *context) with one row per unit."""
    return table.reshape(len(table), -1).T


def _weighted(left: Any, right: Any, shares: Any, columns: Any, n_left: int, n_right: int) -> Inner:
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


def _boundary_blocks(plan: CompilationPlan) -> tuple[list[Input | Inner], float]:
    """The units of all nodes of a compilation by boundaries, and the log of the sum of the model.

    The table of a node has one axis per variable of ``step.wide``; the logs of its sums, which go
    to the parent, one per variable of ``step.axes``.
    """
    messages: list[Any] = []
    blocks: list[Input | Inner] = []
    cards = plan.potential.cardinalities
    for node, step in enumerate(plan.steps):
        children = [int(plan.vtree.left[node]), int(plan.vtree.right[node])]
        parts = [(plan.potential.tables[scope].logs, scope) for scope in step.scopes]
        if children[0] >= 0:
            parts += [(messages[child], plan.steps[child].axes) for child in children]
        logs = _added(parts, step.wide, cards)
        messages.append(_summed(logs, step.wide, step.axes))
        blocks.append(
            _boundary_block(plan, step, children, _shares(logs, step.wide, messages[-1], step.axes))
        )
        if children[0] >= 0:
            messages[children[0]] = messages[children[1]] = None
    return blocks, plan.potential.constant + float(messages[-1])


def _boundary_block(
    plan: CompilationPlan, step: Step, children: Sequence[int], shares: Any
) -> Input | Inner:
    """The units of one vtree node; `shares` are the weights of all assignments of the axes."""
    cards = plan.potential.cardinalities
    if step.kind == "literals":
        return Table(np.eye(cards[step.decides]))
    if step.kind == "inputs":
        return Table(shares.reshape(-1, cards[step.decides]))
    n_left, n_right = (plan.steps[child].n_units for child in children)
    left, right = np.divmod(np.arange(n_left * n_right), n_right)
    gone = [v for v in step.wide if v not in set(step.axes)]
    order = [step.wide.index(v) for v in (*step.axes, *gone)]
    columns = np.arange(shares.size).reshape(shares.shape)
    shares, columns = (x.transpose(order).reshape(step.n_units, -1) for x in (shares, columns))
    return _weighted(left, right, shares, columns, n_left, n_right)


def _added(parts: Sequence[tuple[Any, Axes]], axes: Axes, cardinalities: Sequence[int]) -> Any:
    """The sum of tables of logarithms over parts of the axes, over all of them."""
    total = np.zeros([cardinalities[v] for v in axes])
    for logs, scope in parts:
        total += _spread(logs, scope, axes)
    return total


def _spread(table: Any, scope: Axes, axes: Axes) -> Any:
    """A table over some variables, with an axis of length one for each of the others."""
    place = {v: axis for axis, v in enumerate(axes)}
    order = sorted(range(len(scope)), key=lambda axis: place[scope[axis]])
    shape = [1] * len(axes)
    for axis, v in enumerate(scope):
        shape[place[v]] = table.shape[axis]
    return table.transpose(order).reshape(shape)


def _summed(logs: Any, axes: Axes, kept: Axes) -> Any:
    """The log of the sum over all axes but the kept ones, which come in their own order."""
    place = {v: axis for axis, v in enumerate(axes)}
    gone = tuple(axis for axis, v in enumerate(axes) if v not in set(kept))
    if gone:
        top = logs.max(axis=gone, keepdims=True)
        top = np.where(top > -np.inf, top, 0.0)
        with np.errstate(divide="ignore"):
            logs = np.log(np.exp(logs - top).sum(axis=gone)) + top.reshape(
                [n for axis, n in enumerate(logs.shape) if axis not in gone]
            )
    left = sorted(kept, key=lambda v: place[v])
    return logs.transpose([left.index(v) for v in kept])


def _shares(logs: Any, axes: Axes, sums: Any, kept: Axes) -> Any:
    """The numbers with these logarithms, divided by their sums; zero where the sum is zero."""
    sums = _spread(sums, kept, axes)
    shares = np.exp(logs - np.where(sums > -np.inf, sums, 0.0))
    warn_of_lost_shares(logs, shares)
    return shares


def _numbers(axes: Axes, wide: Axes, cardinalities: Sequence[int]) -> Any:
    """For every assignment of the wide axes the number of its restriction to some of them."""
    shape = [cardinalities[v] for v in axes]
    numbers = np.arange(int(np.prod(shape, dtype=np.intp))).reshape(shape)
    return np.broadcast_to(_spread(numbers, axes, wide), [cardinalities[v] for v in wide]).reshape(
        -1
    )
