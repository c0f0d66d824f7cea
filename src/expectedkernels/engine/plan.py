"""Plans: in which order, and in which groups, the nodes of a vtree are swept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, prod
from operator import itemgetter
from typing import Any
from weakref import ref

import numpy as np

from expectedkernels.data.evidence import Patterns
from expectedkernels.engine.blocks import Inner
from expectedkernels.vtree import Vtree

IntArray = np.ndarray[Any, np.dtype[np.intp]]
Part = tuple[int, Any]
"""A group of a fold, and the slots of some of its nodes."""

STEP_COST = 6_000
"""What one more step of a sweep costs, in numbers computed: padding beats a step below that."""
FOLD_HOST = 64 * 64
"""On the host only weight matrices of at most this many entries are stacked: larger ones gain
nothing from it."""
FOLD_DEVICE = 2**40
"""On other devices all equal shapes are stacked: launching a kernel costs more than padding."""
CACHED_PLANS, CACHED_BYTES = 16, 2**27
"""How many plans a fold keeps for the next call, and how much memory these may take together."""


@dataclass(frozen=True, eq=False)
class Fold:
    """Which nodes of one operand have blocks of one shape at one height, and can be stacked.

    Attributes
    ----------
    group : int array
        The group of every node.
    slot : int array
        Its place in the group.
    members : list of int arrays
        The nodes of every group.
    units, products : lists of int
        The padded number of units and products of every group.
    single : list of bool
        Whether a group is one node as it is: not padded, not stacked.
    """

    vtree: Vtree
    inner: Sequence[Any]
    group: IntArray
    slot: IntArray
    members: list[IntArray]
    units: list[int]
    products: list[int]
    single: list[bool]
    _index: dict[tuple[int, str], IntArray | None] = field(default_factory=dict)
    plans: dict[Any, Plan | None] = field(default_factory=dict)

    @cached_property
    def size(self) -> int:
        """The number of (padded) units of all nodes."""
        return sum(n * len(nodes) for n, nodes in zip(self.units, self.members, strict=True))

    def index(self, group: int, slots: IntArray, side: str) -> IntArray | None:
        """The left or right inputs of the (padded) products of some nodes of a group."""
        if (group, side) not in self._index:
            self._index[group, side] = self._stacked_index(group, side)
        stacked = self._index[group, side]
        if stacked is None or len(slots) == len(stacked):  # slots ascend: these are all
            return stacked
        return stacked[slots]

    def _stacked_index(self, group: int, side: str) -> IntArray | None:
        blocks = [self.inner[node] for node in self.members[group].tolist()]
        if all(getattr(block, side) is None for block in blocks):
            return None
        stacked = np.zeros((len(blocks), self.products[group]), dtype=np.intp)
        for row, block in zip(stacked, blocks, strict=True):
            row[: block.n_products] = block.index(side)
        return stacked


def fold(
    vtree: Vtree,
    units: Sequence[int],
    inner: Sequence[Inner | None],
    leaf_keys: Sequence[Hashable],
    largest: int = FOLD_HOST,
) -> Fold:
    """The fold of one operand.

    `leaf_keys` says which leaves may be stacked: those with equal keys that are not None.
    Blocks that all have one size, and the root, are taken as they are, without padding.
    """
    kinds: list[Hashable] = []  # None: a group of its own
    shapes: list[tuple[int, int]] = []
    for node, (block, height) in enumerate(zip(inner, vtree.height.tolist(), strict=True)):
        if block is None:
            shapes.append((units[node], 0))
            key = leaf_keys[node]
            kinds.append(None if key is None else ("leaf", key))
        else:
            shapes.append((units[node], block.n_products))
            alone = block.is_sparse or units[node] * block.n_products > largest
            kinds.append(None if alone else (height, block.weights is None))
    common = _common_shapes(kinds, shapes)
    groups: dict[Hashable, int] = {}
    members: list[list[int]] = []
    sizes: list[tuple[int, int, bool]] = []
    group = np.empty(vtree.n_nodes, dtype=np.intp)
    slot = np.empty(vtree.n_nodes, dtype=np.intp)
    for node, (kind, shape) in enumerate(zip(kinds, shapes, strict=True)):
        single = kind is None
        padded = shape if single else common[kind, shape]
        g = groups.setdefault(("node", node) if single else (kind, padded), len(members))
        if g == len(members):
            members.append([])
            sizes.append((*padded, single))
        group[node], slot[node] = g, len(members[g])
        members[g].append(node)
    return Fold(
        vtree,
        inner,
        group,
        slot,
        [np.asarray(nodes, dtype=np.intp) for nodes in members],
        [n for n, _, _ in sizes],
        [m for _, m, _ in sizes],
        [single for _, _, single in sizes],
    )


def _common_shapes(
    kinds: Sequence[Hashable], shapes: Sequence[tuple[int, int]]
) -> dict[tuple[Hashable, tuple[int, int]], tuple[int, int]]:
    """The shape that blocks of every kind and shape are padded to.

    Going from small to large shapes, the next one joins those before it if padding them to
    its size costs less than a step.
    """
    counts = Counter((kind, shape) for kind, shape in zip(kinds, shapes, strict=True) if kind)
    by_kind: dict[Hashable, list[tuple[int, int]]] = {}
    for kind, shape in counts:
        by_kind.setdefault(kind, []).append(shape)
    common = {}
    for kind, found in by_kind.items():
        together: list[tuple[int, int]] = []
        top, number = (0, 0), 0
        for shape in sorted(found, key=lambda shape: (max(shape), shape)):
            wider = (max(top[0], shape[0]), max(top[1], shape[1]))
            if number * (max(wider) ** 2 - max(top) ** 2) > STEP_COST:
                common.update({(kind, x): top for x in together})
                together, wider, number = [], shape, 0
            together.append(shape)
            top, number = wider, number + counts[kind, shape]
        common.update({(kind, x): top for x in together})
    return common


@dataclass(frozen=True, eq=False)
class Gather:
    """Where the inputs of a step's products lie among the values computed before.

    Attributes
    ----------
    sources : tuple of int
        The steps that computed them.
    slots : int array, slice, or None
        With one source whose units are taken as they are: which of its nodes.
    index : list of int arrays (or None), one per operand
        With one source of one node: which entries along every axis.
    flat : int array
        Otherwise: which entries of the flattened sources, one after the other.
    scale : int array
        Which node of the sources (counted one after the other) each node of the step reads.
    """

    sources: tuple[int, ...]
    slots: Any = None
    index: tuple[IntArray | None, ...] | None = None
    flat: IntArray | None = None
    scale: IntArray | None = None

    @property
    def n_bytes(self) -> int:
        """The memory that the largest of its arrays takes."""
        return 0 if self.flat is None else int(self.flat.nbytes)


@dataclass(frozen=True, eq=False)
class Step:
    """One group of nodes, computed together.

    Attributes
    ----------
    nodes : int array
        The vtree nodes.
    parts : tuple of (group, slots)
        For every operand the group of its fold these nodes are in, and their places there
        (an int array, a slice, or None: all of the group, in order).
    left, right : Gather, or None at leaves
    last_use : list of int
        Earlier steps whose values no later step needs.
    """

    nodes: IntArray
    parts: tuple[Part, ...]
    left: Gather | None
    right: Gather | None
    last_use: list[int]


@dataclass(frozen=True, eq=False)
class Plan:
    """The steps of a sweep, inputs first, and the shapes of their values and products.

    Examples
    --------
    >>> from expectedkernels.vtree import Vtree
    >>> vtree = Vtree.balanced(4)
    >>> blocks = [None if vtree.is_leaf(v) else Inner(2, 2, None, None, None) for v in range(7)]
    >>> print(folded_plan((fold(vtree, [2] * 7, blocks, [2] * 7),), (1,)))
    3 steps for 7 nodes
      4 leaves: (4, 2)
      2 inner nodes: (2, 2)
      1 inner nodes: (1, 2)
    """

    steps: list[Step]
    shapes: list[tuple[int, ...]]
    products: list[tuple[int, ...]]

    def __str__(self) -> str:
        lines = [f"{len(self.steps)} steps for {sum(len(s.nodes) for s in self.steps)} nodes"]
        for step, shape in zip(self.steps, self.shapes, strict=True):
            kind = "leaves" if step.left is None else "inner nodes"
            lines.append(f"  {len(step.nodes)} {kind}: {shape}")
        return "\n".join(lines)

    @cached_property
    def index_bytes(self) -> int:
        """The memory that the plan itself takes."""
        gathers = (g for step in self.steps for g in (step.left, step.right) if g is not None)
        return sum(gather.n_bytes for gather in gathers)

    @cached_property
    def peak_bytes(self) -> int:
        """The most memory that values take at once, with two gathered children of a step."""
        peak, alive = 0, self.index_bytes
        for step, shape, products in zip(self.steps, self.shapes, self.products, strict=True):
            peak = max(peak, alive + 8 * (prod(shape) + 2 * prod(products)))
            alive += 8 * prod(shape) - sum(8 * prod(self.shapes[s]) for s in step.last_use)
        return peak


def folded_plan(
    folds: tuple[Fold, ...], batch: tuple[int, ...], max_bytes: float = inf
) -> Plan | None:
    """The plan that computes nodes of equal shape and height together, level by level.

    Every operand is unbatched, or batched with one pattern per row (`batch` copies) everywhere.
    None if it would need too much memory.
    """
    # the largest: small ones are shared by many circuits
    kept = max(reversed(folds), key=lambda fold: fold.size).plans
    key = (tuple(map(ref, folds)), batch, max_bytes)  # equal while the folds are there
    if key not in kept:
        plan = _new_plan(folds, batch, max_bytes)
        plan = None if plan is None or plan.peak_bytes > max_bytes else plan
        for old in list(kept):  # plans for folds that are gone go, and the oldest, to make room
            full = len(kept) >= CACHED_PLANS or _held([*kept.values(), plan]) > CACHED_BYTES
            if full or not all(fold() for fold in old[0]):
                kept.pop(old, None)
        return kept.setdefault(key, plan)
    return kept[key]


def _held(plans: Sequence[Plan | None]) -> int:
    """The memory that plans take."""
    return sum(plan.index_bytes for plan in plans if plan is not None)


def _new_plan(folds: tuple[Fold, ...], batch: tuple[int, ...], max_bytes: float) -> Plan | None:
    """See `folded_plan`; None as soon as the plan itself takes more memory than allowed."""
    vtree = folds[0].vtree
    keyed: dict[tuple[int, ...], list[int]] = {}
    ids = zip(vtree.height.tolist(), *(f.group.tolist() for f in folds), strict=True)
    for node, key in enumerate(ids):
        keyed.setdefault(key, []).append(node)
    order = sorted(keyed, key=itemgetter(0))
    step_of = np.empty(vtree.n_nodes, dtype=np.intp)
    slot_of = np.empty(vtree.n_nodes, dtype=np.intp)
    steps: list[Step] = []
    shapes: list[tuple[int, ...]] = []
    products: list[tuple[int, ...]] = []
    user: dict[int, int] = {}
    taken = 0
    for number, key in enumerate(order):
        nodes = np.asarray(keyed[key], dtype=np.intp)
        step_of[nodes], slot_of[nodes] = number, np.arange(len(nodes))
        parts = []
        for f, group in zip(folds, key[1:], strict=True):
            parts.append((group, _as_slice(f.slot[nodes], len(f.members[group]))))
        for sizes, kept in (("units", shapes), ("products", products)):
            axes = zip(folds, batch, key[1:], strict=True)
            kept.append((len(nodes), *(a * getattr(f, sizes)[g] for f, a, g in axes)))
        gathers: dict[str, Gather] = {}
        if taken + 8 * prod(products[-1]) > max_bytes:
            return None
        for side in ("left", "right") if key[0] > 0 else ():
            children = getattr(vtree, side)[nodes]
            gathers[side] = _gather(
                folds, batch, parts, nodes, side, step_of[children], slot_of[children], shapes
            )
            user.update(dict.fromkeys(gathers[side].sources, number))
            taken += gathers[side].n_bytes
        steps.append(Step(nodes, tuple(parts), gathers.get("left"), gathers.get("right"), []))
    for source, number in user.items():
        steps[number].last_use.append(source)
    return Plan(steps, shapes, products)


def _gather(
    folds: tuple[Fold, ...],
    batch: tuple[int, ...],
    parts: list[Part],
    nodes: IntArray,
    side: str,
    steps: IntArray,
    slots: IntArray,
    shapes: list[tuple[int, ...]],
) -> Gather:
    """How the children of a step's nodes are read."""
    indices = []
    as_is = True
    for axis, (f, (group, _)) in enumerate(zip(folds, parts, strict=True)):
        index = f.index(group, f.slot[nodes], side)
        fits = all(shapes[s][axis + 1] == batch[axis] * f.products[group] for s in set(steps))
        as_is &= index is None and fits
        if index is None and not fits:  # the child is not padded as its parent is
            real = np.asarray([f.inner[node].n_products for node in nodes])
            every = np.arange(f.products[group])[None, :]
            index = np.where(every < real[:, None], every, 0)
        indices.append(index)
    sources = tuple(sorted({int(s) for s in steps}))
    if len(sources) == 1 and as_is:
        return Gather(sources, slots=_as_slice(slots, shapes[sources[0]][0]))
    if len(nodes) == 1 and shapes[sources[0]][0] == 1:
        single = tuple(
            None if index is None else _with_copies(index, a, shapes[sources[0]][axis + 1] // a)[0]
            for axis, (index, a) in enumerate(zip(indices, batch, strict=True))
        )
        return Gather(sources, index=single)
    offset_of = dict(
        zip(sources, np.cumsum([0] + [int(np.prod(shapes[s])) for s in sources]), strict=False)
    )
    first_of = dict(zip(sources, np.cumsum([0] + [shapes[s][0] for s in sources]), strict=False))
    inner_shape = np.asarray([shapes[s][1:] for s in steps])  # (nodes, axes)
    flat = np.asarray([offset_of[int(s)] for s in steps]) + slots * inner_shape.prod(axis=1)
    for axis, (index, a) in enumerate(zip(indices, batch, strict=True)):
        stride = inner_shape[:, axis + 1 :].prod(axis=1)
        if index is None:
            index = np.broadcast_to(
                np.arange(folds[axis].products[parts[axis][0]]),
                (len(nodes), folds[axis].products[parts[axis][0]]),
            )
        full = _with_copies(index, a, inner_shape[:, axis, None] // a)
        flat = flat[..., None] + (full * stride[:, None]).reshape(
            len(nodes), *([1] * axis), full.shape[1]
        )
    scale = np.asarray([first_of[int(s)] for s in steps]) + slots
    return Gather(sources, flat=flat, scale=scale)


def _with_copies(index: IntArray, copies: int, units: Any) -> IntArray:
    """The index into `copies` runs of `units` units each, one row per node."""
    if copies == 1:
        return index
    start = np.arange(copies)[None, :, None] * np.reshape(units, (-1, 1, 1))
    return (start + index[:, None, :]).reshape(len(index), -1)


def _as_slice(slots: IntArray, n: int) -> Any:
    """The slots as None (all), a slice, or themselves."""
    if len(slots) == n and np.array_equal(slots, np.arange(n)):
        return None
    step = int(slots[1] - slots[0]) if len(slots) > 1 else 1
    if step > 0 and np.array_equal(slots, slots[0] + step * np.arange(len(slots))):
        return slice(int(slots[0]), int(slots[-1]) + 1, step)
    return slots


def child_index(
    block: Inner, patterns: Patterns | None, node: int, side: str, n_units: int
) -> IntArray | None:
    """The entries of a child's axis that the (batched) products of a node take; None: all."""
    index = getattr(block, side)
    copies = None if patterns is None else getattr(patterns, side)[node]
    if index is None and copies is None:
        return None
    index = block.index(side)
    if patterns is None:
        return index
    if copies is None:
        copies = np.arange(patterns.count[node])
    return (copies[:, None] * n_units + index[None, :]).ravel()
