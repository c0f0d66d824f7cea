"""The compilers: messages over assignments at every vtree node, and the blocks they weigh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.inputs import Input, Table
from expectedkernels.compilation.plan import CompilationPlan, Step
from expectedkernels.engine.blocks import Inner, inner
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES, check_max_bytes
from expectedkernels.errors import PropertyError, SizeError

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
    # a weight, its column, and the temporaries that lead to it
    _refuse_large(plan, plan.n_bytes, max_bytes)
    blocks: list[Input | Inner] = []
    for node, step, logs, messages in _messages(plan):
        children = (int(plan.vtree.left[node]), int(plan.vtree.right[node]))
        blocks.append(_block(plan, step, children, logs, messages))
    log_z = _log_z(plan, messages[-1])
    return Circuit.from_blocks(plan.vtree, blocks), log_z


def _refuse_large(plan: CompilationPlan, needed: int, max_bytes: int) -> None:
    check_max_bytes(max_bytes)
    if needed > max_bytes:
        raise SizeError(
            f"Compiling this model needs about {needed / 2**30:.3g} GiB, more than "
            f"max_bytes={max_bytes}: the {plan.method} method has width {plan.width} on its vtree, "
            f"with {plan.n_products} products. Condition on some variables, try another vtree, or "
            "allow more memory."
        )


def _log_z(plan: CompilationPlan, message: Any) -> float:
    """The log of the partition function, from the message of the root; raises if it is -inf."""
    log_z = plan.potential.constant + float(message)
    if log_z == -np.inf:
        raise PropertyError(
            "The factors of this model multiply to zero at every state (Z = 0), so there is no "
            "distribution. Check its zero entries and the evidence."
        )
    return log_z


def _messages(plan: CompilationPlan) -> Iterator[tuple[int, Step, Any, list[Any]]]:
    """From the leaves up, the table made at every node and the messages so far.

    Yields (node, step, logs, messages): `logs` has one axis per variable of ``step.wide`` and is
    not normalised, ``messages[node]`` holds its log-sums, one axis per variable of ``step.axes``
    (None for literals that carry no weights). Messages are dropped once they have been used.
    """
    messages: list[Any] = []
    for node, step in enumerate(plan.steps):
        children = [int(plan.vtree.left[node]), int(plan.vtree.right[node])]
        if step.kind in ("inputs", "literals"):
            parts = []
        else:
            wanted = [step.other] if step.kind == "decision" else children
            parts = [(messages[c], plan.steps[c].axes) for c in wanted]
        parts += [(factor.logs, factor.scope) for factor in step.factors]
        logs = _added(parts, step.wide, plan.potential.cardinalities)
        messages.append(_summed(logs, step.wide, step.axes))
        yield node, step, logs, messages
        if children[0] >= 0:
            messages[children[0]] = messages[children[1]] = None


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
    return np.exp(logs - np.where(sums > -np.inf, sums, 0.0))


def _numbers(axes: Axes, wide: Axes, cardinalities: Sequence[int]) -> Any:
    """For every assignment of the wide axes the number of its restriction to some of them."""
    shape = [cardinalities[v] for v in axes]
    numbers = np.arange(int(np.prod(shape, dtype=np.intp))).reshape(shape)
    return np.broadcast_to(_spread(numbers, axes, wide), [cardinalities[v] for v in wide]).reshape(
        -1
    )


def _block(
    plan: CompilationPlan,
    step: Step,
    children: tuple[int, int],
    logs: Any,
    messages: list[Any],
) -> Input | Inner:
    """The units of one vtree node."""
    cards = plan.potential.cardinalities
    sums = messages[-1]
    if step.kind == "literals":
        return Table(np.eye(cards[step.decides]))
    if step.kind == "inputs":
        shares = _shares(logs, step.wide, sums, step.axes)
        return Table(shares.reshape(-1, cards[step.decides]))
    below = [plan.steps[child] for child in children]
    n_left, n_right = below[0].n_units, below[1].n_units
    if step.kind == "product":
        left, right = (_numbers(child.axes, step.axes, cards) for child in below)
        return inner(left, right, None, n_left, n_right)
    shares = _shares(logs, step.wide, sums, step.axes)
    if step.kind == "sum":
        left, right = np.divmod(np.arange(n_left * n_right), n_right)
        columns, n_products = np.arange(shares.size), shares.size
    else:
        # one product for every unit of the other side, whose context tells the value decided
        other = plan.steps[step.other]
        literal = _numbers((step.decides,), other.axes, cards)
        left, right = literal, np.arange(other.n_units)
        if step.other == children[0]:
            left, right = right, left
        columns, n_products = _numbers(other.axes, step.wide, cards), other.n_units
    weights = _weights(step, shares, columns.reshape(shares.shape), n_products)
    return inner(left, right, weights, n_left, n_right)


def _weights(step: Step, shares: Any, columns: Any, n_products: int) -> sparse.csr_array:
    """The weights of the units of a step in sparse form, from a table of them and their columns."""
    gone = [v for v in step.wide if v not in set(step.axes)]
    order = [step.wide.index(v) for v in (*step.axes, *gone)]
    shares, columns = (
        table.transpose(order).reshape(step.n_units, -1) for table in (shares, columns)
    )
    alive = shares > 0
    starts = np.concatenate([[0], np.cumsum(alive.sum(axis=1))])
    return sparse.csr_array((shares[alive], columns[alive], starts), (step.n_units, n_products))
