"""The sweep: gather, multiply, sum, for every vtree node from the leaves to the root.

    leaf:   M_v comes from the caller
    inner:  M_v = W_1 W_2 ... ( M_left[left_1, left_2, ...] * M_right[right_1, right_2, ...] )

with one axis per operand: one circuit gives likelihoods, two give inner products, two and
a kernel give expected kernels. The weights of every operand act along its own axis.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from expectedkernels.arrays import (
    FEW_BYTES,
    Array,
    as_like,
    is_numpy,
    namespace,
    require_memory,
    take,
)
from expectedkernels.checks import DataError
from expectedkernels.data.evidence import Patterns
from expectedkernels.engine.plan import (
    FOLD_DEVICE,
    FOLD_HOST,
    Fold,
    Gather,
    IntArray,
    Part,
    Plan,
    Step,
    child_index,
    fold,
    folded_plan,
)
from expectedkernels.engine.replay import Captured, fits, replayed, total_bytes
from expectedkernels.engine.value import (
    Value,
    Weights,
    fitted,
    joined,
    product,
    scale_of,
    settled,
    to_log,
    weighted,
    weights_of,
)
from expectedkernels.vtree import Vtree

Leaf = Callable[[IntArray, tuple[Part, ...] | None], Value]
"""From the leaves (and, if they are folded, their place in every operand's fold) to their value."""

CACHED_BYTES = 2**21
"""Products of one node are worked on in parts of about this size."""
KEPT_STACKS = 8
"""How many stacks of weights, and parts of them, an operand keeps per node."""
CARD_SHARE = 8
"""Unless told otherwise, values may take one part in so many of a card's memory."""
DEFAULT_MAX_BYTES = 2**30
"""How much memory a call may use for intermediate values, unless told otherwise."""
SMALLER_CIRCUITS = (
    "Use circuits of fewer units (condition on some variables, sum some out with "
    "algebra.marginalize, or compile on another vtree), or estimate expectations: "
    "monte_carlo_expected_kernel."
)


def check_max_bytes(max_bytes: Any) -> None:
    """Raise unless this is an amount of memory."""
    if not (isinstance(max_bytes, (int, float, np.integer)) and max_bytes > 0):
        raise DataError(f"The 'max_bytes' parameter must be a positive int. Got {max_bytes!r}.")


@dataclass(frozen=True, eq=False)
class Operand:
    """One axis of a sweep: blocks on a vtree, and the batch of patterns they are evaluated for.

    Attributes
    ----------
    vtree : Vtree
    units : sequence of int
        The number of units of every node.
    inner : sequence of Inner or None
        The blocks, None at leaves.
    leaf_keys : sequence of hashables
        Leaves with equal keys may be computed together; None means never.
    xp : namespace
        Where the weights live.
    patterns : Patterns, optional
    steady : bool
        Whether the weights stay as they are; not so if gradients are asked for.
    """

    vtree: Vtree
    units: Sequence[int]
    inner: Sequence[Any]
    leaf_keys: Sequence[Hashable]
    xp: Any = np
    patterns: Patterns | None = None
    steady: bool = True
    _stacks: dict[Any, Any] = field(default_factory=dict)
    _captured: dict[Any, Captured] = field(default_factory=dict)

    @cached_property
    def fold(self) -> Fold:
        """The nodes that can be computed together."""
        largest = FOLD_HOST if is_numpy(self.xp) else FOLD_DEVICE
        return self.cached(
            "fold", lambda: fold(self.vtree, self.units, self.inner, self.leaf_keys, largest)
        )

    def fresh(self) -> Operand:
        """The operand with nothing cached but the fold."""
        return replace(self, steady=False, _stacks={"fold": self.fold}, _captured={})

    def renumbered(self, inner: Sequence[Any]) -> Operand:
        """The operand with blocks that differ in numbers only."""
        return replace(self, inner=inner, _stacks={"fold": self.fold}, _captured={})

    def batched(self, patterns: Patterns) -> Operand:
        """The operand for a batch of patterns; what is cached is shared."""
        return replace(self, patterns=patterns)

    def widest(self) -> int:
        """The largest number of units, or of products, of a node."""
        products = (block.n_products for block in self.inner if block is not None)
        return max([*self.units, *products])

    def copies(self, node: int) -> int:
        """The number of patterns at a node."""
        return 1 if self.patterns is None else self.patterns.count[node]

    def weights(self, node: int) -> Weights | None:
        """The weights of one node."""
        block = self.inner[node]
        if block is None or block.weights is None:
            return None
        return self.cached(("node", node), lambda: weights_of(block.weights))

    def folded_weights(self, part: Part) -> Weights | None:
        """The stacked weights of some nodes of a group of the fold."""
        group, _ = part
        if self.fold.single[group]:
            return self.weights(int(self.fold.members[group][0]))
        return self.stacked("group", part, lambda: self._stack(group))

    def stacked(self, kind: str, part: Part, make: Callable[[], Any]) -> Any:
        """The weights of some nodes of a group, from the stack of all that `make` makes."""
        group, slots = part
        stack = self.cached((kind, group), make)
        if slots is None or stack is None:
            return stack
        if not isinstance(slots, slice):
            index = as_like(slots, stack.matrix)
            matrix = take(stack.matrix, index, 0)
            return Weights(matrix, stack.lo, stack.hi, stack.signed)

        def cut() -> Weights:
            return Weights(stack.matrix[slots, ...], stack.lo, stack.hi, stack.signed)

        key = (kind, group, slots.start, slots.stop, slots.step)
        if key not in self._stacks and len(self._stacks) >= KEPT_STACKS * self.vtree.n_nodes:
            return cut()  # partners of ever new shapes ask for ever new parts
        return self.cached(key, cut)

    def cached(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` makes, kept for the next call."""
        if key not in self._stacks:
            # if another thread was faster, all take what it made
            return self._stacks.setdefault(key, make())
        return self._stacks[key]

    def _stack(self, group: int) -> Weights | None:
        blocks = [self.inner[node] for node in self.fold.members[group]]
        if any(block is None or block.weights is None for block in blocks):
            return None
        rows, columns = self.fold.units[group], self.fold.products[group]
        matrices = [pad(block.weights, (rows, columns)) for block in blocks]
        return weights_of(namespace(*matrices).stack(matrices))


def pad(array: Array, shape: tuple[int, ...]) -> Array:
    """The array with zeros behind its rows and columns up to a shape."""
    xp = namespace(array)
    for axis, n in enumerate(shape):
        missing = n - array.shape[axis]
        if missing:
            zeros = list(array.shape)
            zeros[axis] = missing
            array = xp.concat([array, as_like(np.zeros(zeros), array)], axis=axis)
    return array


@dataclass(frozen=True, eq=False)
class Remote:
    """A sweep on a card.

    Attributes
    ----------
    like : tensor
        One that is there.
    key : hashable, or None
        All that leaves depend on beside the operands; None: they depend on more.
    leaf : function
        Makes the leaves anew: they remember what they were asked for.
    """

    like: Any
    key: Hashable
    leaf: Callable[[], Leaf]


def sweep(
    operands: Sequence[Operand],
    leaf: Leaf,
    max_bytes: int = DEFAULT_MAX_BYTES,
    remote: Remote | None = None,
) -> Value:
    """The value at the root, by one pass from the leaves to the root.

    Small nodes of equal shape and height are computed together, unless the operands come in
    batches whose patterns differ from node to node, or that would need too much memory. On a
    card, a sweep that is made again is captured.
    """
    if remote is not None and max_bytes == DEFAULT_MAX_BYTES:
        max_bytes = total_bytes(remote.like) // CARD_SHARE
    plan = plan_of(operands, max_bytes)
    if max_bytes > DEFAULT_MAX_BYTES if plan is not None else _may_be_large(operands):
        require_memory(
            peak_bytes(operands) if plan is None else plan.peak_bytes,
            "A pass over all pairs of units of the circuits",
            SMALLER_CIRCUITS,
            None if remote is None else total_bytes(remote.like),
        )
    if plan is None:
        return deque(visit(operands, leaf), maxlen=1).pop()[2]
    if remote is None or remote.key is None or not fits(remote.like, plan.peak_bytes):
        return _run(plan, operands, leaf)
    if not all(op.steady and op.patterns is None for op in operands):
        return _run(plan, operands, leaf)

    def run() -> tuple[Any, Any]:
        root = _run(plan, operands, remote.leaf())
        return (root.data, root.scale, root.sign), replace(root, data=None, scale=None, sign=None)

    place = (remote.key, max_bytes, *map(id, operands))
    (data, scale, sign), rest = replayed(operands[-1]._captured, place, operands, run)
    return replace(rest, data=data, scale=scale, sign=sign)


def _may_be_large(operands: Sequence[Operand]) -> bool:
    """Whether a sweep node by node may need much memory, by the widest nodes of all operands."""
    copies = prod(1 if op.patterns is None else max(op.patterns.count) for op in operands)
    units = prod(op.cached("widest", op.widest) for op in operands)
    return 32 * copies * units * operands[0].vtree.n_nodes > FEW_BYTES


def plan_of(operands: Sequence[Operand], max_bytes: int = DEFAULT_MAX_BYTES) -> Plan | None:
    """The plan by which nodes are computed together; None if they are swept one by one."""
    batches = [op.patterns for op in operands]
    if not all(b is None or b.is_uniform for b in batches):
        return None
    batch = tuple(1 if b is None else b.count[0] for b in batches)
    return folded_plan(tuple(op.fold for op in operands), batch, max_bytes)


def visit(
    operands: Sequence[Operand], leaf: Leaf, with_products: bool = False
) -> Iterator[tuple[int, Value | None, Value]]:
    """Node by node, children first: the node, the value of its products, and that of its units.

    Values of products are None unless they are asked for, and at leaves.
    """
    vtree = operands[0].vtree
    values: dict[int, Value] = {}
    for node in range(vtree.n_nodes):
        products = None
        if vtree.left[node] < 0:
            values[node] = leaf(np.asarray([node]), None)
        elif with_products:
            products = products_at(operands, values, node)
            values[node] = _summed(products, [op.weights(node) for op in operands])
        else:
            values[node] = _units_at(operands, values, node)
        yield node, products, values[node]
        for child in (int(vtree.left[node]), int(vtree.right[node])):
            values.pop(child, None)


def upward(operands: Sequence[Operand], leaf: Leaf) -> list[Value]:
    """The values at all nodes."""
    return [value for _, _, value in visit(operands, leaf)]


def products_at(
    operands: Sequence[Operand], values: Any, node: int, cut: int = -1, rows: slice = slice(None)
) -> Value:
    """The values of the product units of an inner node, given those of its children.

    They are left in a form whose weighted sums stay in range. With an axis to cut, only for some
    rows of its patterns.
    """
    present = [w for w in (op.weights(node) for op in operands) if w is not None]
    bounds = sum(w.lo for w in present), sum(w.hi for w in present)
    kept = values[int(operands[0].vtree.left[node])].data
    left, right = (_child(operands, values, node, side, cut, rows) for side in ("left", "right"))
    left, right = fitted(left, right, *bounds)
    fresh = not isinstance(kept, np.ndarray) or not np.may_share_memory(left.data, kept)
    return product(left, right, reuse=fresh)


def _units_at(operands: Sequence[Operand], values: Any, node: int) -> Value:
    """The values of the units of an inner node, given those of its children.

    On a host, some patterns at a time, so that what is in between stays near the processor.
    """
    weights = [op.weights(node) for op in operands]
    batch = [op.copies(node) for op in operands]
    size = 8 * prod(batch) * prod(op.inner[node].n_products for op in operands)
    n_parts = min(max(batch), -(-size // CACHED_BYTES))
    if n_parts < 2 or not is_numpy(operands[-1].xp):
        return _summed(products_at(operands, values, node), weights)
    cut = next(i for i, n in enumerate(batch) if n >= n_parts)
    ends = [batch[cut] * i // n_parts for i in range(n_parts + 1)]
    parts = [
        _summed(products_at(operands, values, node, cut, rows), weights)
        for rows in map(slice, ends[:-1], ends[1:])
    ]
    return joined(parts, cut + 1)


def _child(
    operands: Sequence[Operand], values: Any, node: int, side: str, cut: int, some: slice
) -> Value:
    """The value of a child as the products of a node take it, gathered axis by axis.

    The axis that is cut comes first, then the last ones: single entries are gathered slowly, whole
    rows of them fast.
    """
    child = int(getattr(operands[0].vtree, side)[node])
    value, batch = values[child], list(values[child].batch)
    data, scale, sign = value.data, value.scale, value.sign
    axes = range(len(operands) - 1, -1, -1)
    for i in axes if cut < 0 else [cut, *(i for i in axes if i != cut)]:
        op, copies = operands[i], batch[i]
        block, patterns = op.inner[node], op.patterns
        rows = None if patterns is None else getattr(patterns, side)[node]
        batch[i] = op.copies(node)
        if i == cut:
            batch[i] = some.stop - some.start
            rows = some if rows is None else rows[some]
        if getattr(block, side) is not None:
            index: Any = child_index(block, patterns, node, side, op.units[child])
            if i == cut:
                index = index[some.start * block.n_products : some.stop * block.n_products]
            data, sign = _along(data, index, i + 1), _along(sign, index, i + 1)
        elif rows is not None:  # whole patterns are gathered faster than their entries
            data = _patterns_along(data, rows, i + 1, copies)
            sign = _patterns_along(sign, rows, i + 1, copies)
        scale = _along(scale, rows, i + 1)
    lo, hi, is_log, signed = value.lo, value.hi, value.is_log, value.signed
    return Value(data, tuple(batch), lo, hi, scale, is_log, sign, signed=signed)


def _summed(value: Value, weights: Sequence[Weights | None], spare: Array | None = None) -> Value:
    """Apply every operand's weights along its axis, those that shrink the value most first.

    `spare` is an array whose memory may be written to; the value's own is too, then.
    """
    present = [
        (w.n_units / max(1, w.matrix.shape[-1]), axis, w)
        for axis, w in enumerate(weights, start=1)
        if w is not None
    ]
    for _, axis, matrix in sorted(present, key=lambda entry: entry[:2]):
        after = weighted(value, matrix, axis, out=spare)
        value, spare = after, None if spare is None else value.data
    return settled(value)


def _along(array: Any, chosen: Any, axis: int) -> Any:
    """Entries of an array along an axis; None: all."""
    if array is None or chosen is None:
        return array
    if isinstance(chosen, slice):
        return array[(slice(None),) * axis + (chosen, ...)]
    return take(array, as_like(chosen, array), axis)


def _patterns_along(array: Any, rows: Any, axis: int, copies: int) -> Any:
    """Whole patterns of an array along an axis that holds `copies` of them."""
    if array is None or array.shape[axis] == copies:  # one entry each
        return _along(array, rows, axis)
    xp, (*before, n), after = namespace(array), array.shape[: axis + 1], array.shape[axis + 1 :]
    split = xp.reshape(array, (*before, copies, n // copies, *after))
    picked = _along(split, rows, axis)
    return xp.reshape(picked, (*before, picked.shape[axis] * split.shape[axis + 1], *after))


def _run(plan: Plan, operands: Sequence[Operand], leaf: Leaf) -> Value:
    """Execute a folded plan."""
    values: dict[int, Value] = {}
    for number, step in enumerate(plan.steps):
        values[number] = _step(step, operands, leaf, values)
        for source in step.last_use:
            del values[source]
    return values[len(plan.steps) - 1]


def _step(step: Step, operands: Sequence[Operand], leaf: Leaf, values: dict[int, Value]) -> Value:
    if step.left is None or step.right is None:
        return leaf(step.nodes, step.parts)
    weights = [op.folded_weights(part) for op, part in zip(operands, step.parts, strict=True)]
    lo = sum(w.lo for w in weights if w is not None)
    hi = sum(w.hi for w in weights if w is not None)
    left, right = (_fetch(values, gather) for gather in (step.left, step.right))
    left, right = fitted(left, right, lo, hi)
    # nobody else reads the children's values: their memory takes the results
    return _summed(product(left, right, reuse=True), weights, spare=right.data)


def _fetch(values: dict[int, Value], gather: Gather) -> Value:
    """The values of children, as the products of a step take them."""
    sources = [values[s] for s in gather.sources]
    if len(sources) > 1 and any(source.is_log for source in sources):
        sources = [to_log(source) for source in sources]
    if gather.flat is not None:
        return _entries_joined(sources, gather.flat, gather.scale)
    if gather.index is not None:
        return _some_entries(sources[0], gather.index)
    return _some_nodes(sources[0], gather.slots)


def _some_nodes(value: Value, slots: Any) -> Value:
    """Some of the nodes of a step's value."""
    return value if slots is None else value.mapped(lambda x: _along(x, slots, 0))


def _some_entries(value: Value, indices: tuple[IntArray | None, ...]) -> Value:
    """Some of the units of a step's value of one node, along every axis."""

    def pick(array: Array) -> Array:
        for axis, index in enumerate(indices, start=1):
            array = _along(array, index, axis)
        return array

    return value.mapped(pick, lambda scale: scale)


def _entries_joined(parts: list[Value], flat: IntArray, nodes: Any) -> Value:
    """Entries picked from values laid flat, one after the other."""
    first = parts[0]
    xp = namespace(first.data)

    def collect(arrays: list[Array]) -> Array:
        laid = [xp.reshape(a, (-1,)) for a in arrays]
        line = laid[0] if len(laid) == 1 else xp.concat(laid)
        if isinstance(line, np.ndarray):
            return line.take(flat)
        index = as_like(flat.reshape(-1), line)
        return xp.reshape(take(line, index, 0), flat.shape)

    scale = sign = None
    if [part for part in parts if part.scale is not None]:
        scale = xp.concat([scale_of(part) for part in parts])
        scale = take(scale, as_like(nodes, scale), 0)
    if [part for part in parts if part.sign is not None]:
        sign = collect([xp.ones_like(p.data) if p.sign is None else p.sign for p in parts])
    return Value(
        collect([part.data for part in parts]),
        first.batch,
        min(part.lo for part in parts),
        max(part.hi for part in parts),
        scale,
        first.is_log,
        sign,
        signed=any(part.signed for part in parts),
    )


def peak_bytes(operands: Sequence[Operand]) -> int:
    """The most bytes of values that are alive at once in a sweep node by node."""
    vtree = operands[0].vtree
    alive = peak = 0
    size = [0] * vtree.n_nodes
    for node in range(vtree.n_nodes):
        size[node] = 8 * prod(op.copies(node) * op.units[node] for op in operands)
        a, b = int(vtree.left[node]), int(vtree.right[node])
        if a < 0:
            alive += size[node]
            peak = max(peak, alive)
            continue
        # two gathered children and their product, one weighted sum at a time
        products = 8 * prod(op.copies(node) * op.inner[node].n_products for op in operands)
        kept = 3 * products + size[node]
        if is_numpy(operands[-1].xp):  # parts, their results, and short children in advance
            most = max(CACHED_BYTES, products // max(op.copies(node) for op in operands))
            kept = min(kept, 4 * most + products // 4 + 2 * size[node])
        peak = max(peak, alive + kept)
        alive += size[node] - size[a] - size[b]
    return peak


def operations(operands: Sequence[Operand]) -> int:
    """How many multiplications and additions a sweep makes, those of padding not counted."""
    total = 0
    for node, block in enumerate(operands[0].inner):
        if block is None:
            total += 2 * prod(op.copies(node) * op.units[node] for op in operands)
            continue
        blocks = [op.inner[node] for op in operands]
        sizes = [op.copies(node) * b.n_products for op, b in zip(operands, blocks, strict=True)]
        total += prod(sizes)
        weighted_axes = [i for i, b in enumerate(blocks) if b.weights is not None]
        # in the order of the sweep: what shrinks the value most comes first
        for i in sorted(
            weighted_axes, key=lambda i: blocks[i].n_units / max(1, blocks[i].n_products)
        ):
            b, copies = blocks[i], operands[i].copies(node)
            terms = b.weights.nnz if b.is_sparse else b.n_units * b.n_products
            others = prod(n for j, n in enumerate(sizes) if j != i)
            total += 2 * copies * terms * others
            sizes[i] = copies * b.n_units
    return total
