"""Layers of several circuits at once: their units are tuples of units of the circuits.

A unit of p and one of q at a vtree node make one unit of the joint circuit, whose weights are the
Kronecker product of theirs. That is never built: weights act along the axis of their own operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, prod
from typing import Any
from weakref import ref

import numpy as np
from scipy import sparse

from expectedkernels.arrays import as_like, detach, is_on_gpu, namespace, to_numpy
from expectedkernels.engine.layers import DENSE_RATE, STACKED, Edges, IntArray, Layer, Layers
from expectedkernels.engine.operations import TensorLayers, layer_to_device
from expectedkernels.vtree import Vtree

STEP_COST = 6_000
"""What one more matrix product costs, in numbers computed: padding beats it below that."""
KEPT, KEPT_BYTES = 16, 2**27
"""How many layouts an operand keeps for the next call, and how much memory they may take."""
NO_EDGES = Edges(np.zeros(1, dtype=np.intp), np.zeros(0, dtype=np.intp), np.zeros(0))


@dataclass(frozen=True, eq=False)
class Operand:
    """One axis of a joint circuit: blocks of units on a vtree.

    Attributes
    ----------
    vtree : Vtree
    blocks : sequence
        For every vtree node a block with `n_units`, `width` (the number of its products, or atoms)
        and `matrix` (its weights; None: units are the products as they are), and at inner nodes
        with the inputs of its products, `left` and `right`.
    structure : Structure
        Shared with operands that differ in numbers only.
    """

    vtree: Vtree
    blocks: Sequence[Any]
    structure: Structure = field(default_factory=lambda: Structure())
    known: dict[Any, Any] = field(default_factory=dict)

    def renumbered(self, blocks: Sequence[Any]) -> Operand:
        """The operand with blocks that differ in numbers only."""
        return Operand(self.vtree, blocks, self.structure)

    def cached(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` makes, kept for the next call."""
        if key not in self.known:
            # if another thread was faster, all take what it made
            return self.known.setdefault(key, make())
        return self.known[key]

    @cached_property
    def units(self) -> list[int]:
        """The number of units of every node."""
        return [block.n_units for block in self.blocks]

    @cached_property
    def widths(self) -> list[int]:
        """The number of products, or atoms, of every node."""
        return [block.width for block in self.blocks]

    @cached_property
    def matrices(self) -> list[Any]:
        """The weights of every node, None where units are the products as they are."""
        return [block.matrix for block in self.blocks]

    @cached_property
    def terms(self) -> Any:
        """What the weights of every node cost: their number, and less for dense matrices."""

        def cost(matrix: Any) -> float:
            if matrix is None:
                return 0.0
            return matrix.nnz if sparse.issparse(matrix) else DENSE_RATE * prod(matrix.shape)

        return np.array([*map(cost, self.matrices)], dtype=np.float64)

    @cached_property
    def has_gradients(self) -> bool:
        """Whether gradients are required."""
        return any(getattr(matrix, "requires_grad", False) for matrix in self.matrices)

    @cached_property
    def is_signed(self) -> bool:
        """Whether some weight is negative."""
        return bool(self.bounds[3].any())

    @cached_property
    def bounds(self) -> Any:
        """Logs of least weights, largest sums of weights and how small units are, relatively.

        For every node, (4, nodes); the last row tells where weights are negative.
        """
        found = np.zeros((4, self.vtree.n_nodes))
        shapes: dict[Any, list[int]] = {}
        found[2] = -inf
        for node, matrix in enumerate(self.matrices):
            if matrix is not None and all(matrix.shape):
                key = (node,) if sparse.issparse(matrix) else tuple(matrix.shape)
                shapes.setdefault(key, []).append(node)
        every = [_bounds(_stacked([self.matrices[i] for i in x])) for x in shapes.values()]
        if every:
            nodes = np.concatenate([*shapes.values()])
            found[:, nodes] = to_numpy(namespace(every[0]).concat(every, axis=1))
        return found


class Structure:
    """What layouts of operands are kept with."""

    def __init__(self) -> None:
        self.layouts: dict[Any, Layout] = {}


@np.errstate(over="ignore", divide="ignore")
def _bounds(stack: Any) -> Any:
    """What `Operand.bounds` says of the nodes of a stack, (4, nodes)."""
    if sparse.issparse(stack) and stack.nnz < prod(stack.shape):  # some unit lacks some product
        sizes = np.abs(stack.data[stack.data != 0])
        low, high = (sizes.min(), abs(stack).sum(axis=1).max()) if sizes.size else (1.0, 1.0)
        return np.array([[np.log(low)], [np.log(high)], [-inf], [float((stack.data < 0).any())]])
    stack = stack.toarray()[None] if sparse.issparse(stack) else detach(stack)
    xp, n = namespace(stack), stack.shape[0]
    size = xp.abs(stack)
    low = xp.min(xp.reshape(xp.where(size > 0, size, xp.full_like(size, inf)), (n, -1)), axis=1)
    high, one = xp.max(xp.sum(size, axis=2), axis=1), xp.ones_like(low)
    low, high = xp.where(high > 0, low, one), xp.where(high > 0, high, one)
    least, most = xp.min(stack, axis=1), xp.max(size, axis=1)
    share = xp.min(least / xp.where(most > 0, most, xp.ones_like(most)), axis=1)
    share = xp.where(share > 0, share, xp.zeros_like(share))
    negative = xp.astype(xp.min(least, axis=1) < 0, low.dtype)
    return xp.stack([xp.log(low), xp.log(high), xp.log(share), negative])


def _stacked(matrices: Sequence[Any], shape: tuple[int, int] | None = None) -> Any:
    """Matrices in one array, padded with zeros to a shape; a single sparse one as it is."""
    if sparse.issparse(matrices[0]) and len(matrices) == 1:
        return matrices[0]
    shape = shape or tuple(matrices[0].shape)
    if isinstance(matrices[0], np.ndarray):
        stack = np.zeros((len(matrices), *shape))
        for place, matrix in zip(stack, matrices, strict=True):
            place[: matrix.shape[0], : matrix.shape[1]] = matrix
        return stack
    xp = namespace(matrices[0])
    missing = [(0, shape[1] - m.shape[1], 0, shape[0] - m.shape[0]) for m in matrices]
    pairs = zip(matrices, missing, strict=True)
    return xp.stack([xp.nn.functional.pad(m, pad) for m, pad in pairs]).to(xp.float64)


@dataclass(frozen=True, eq=False)
class Group:
    """Nodes of one layer that are computed together, with blocks padded to one shape.

    Attributes
    ----------
    nodes : int array
    units, widths : tuples of int
        The shape of a node's units, and of its products.
    passed : tuple of bool
        Which operands have products as units.
    """

    nodes: IntArray
    units: tuple[int, ...]
    widths: tuple[int, ...]
    passed: tuple[bool, ...]

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of units and of products of all nodes."""
        return len(self.nodes) * prod(self.units), len(self.nodes) * prod(self.widths)


@dataclass(frozen=True, eq=False)
class KroneckerStack:
    """Nodes of one layer, with the weights of every operand that has some.

    Attributes
    ----------
    weights : tuple of (axis, array of shape (nodes, units, width) or CSR array)
        In the order in which they are applied.
    shape : tuple of int
        Of the products: nodes, and the widths of all operands.
    units, products : slices
        Their place among the units and the products of the layer.
    """

    weights: tuple[tuple[int, Any], ...]
    shape: tuple[int, ...]
    units: slice
    products: slice

    def apply(self, x: Any, out: Any, turned: bool = False) -> Any:
        """The weighted sums of products, written to `out` unless that is None; never `turned`."""
        n, *widths = self.shape
        y, tail = x[self.products], prod(x.shape[1:])
        for number, (axis, w) in enumerate(self.weights, 1):
            split = n, prod(widths[:axis]), widths[axis], prod(widths[axis + 1 :]) * tail
            is_last = number == len(self.weights)
            y = apply_weights(w, y, split, out[self.units] if is_last and out is not None else None)
            widths[axis] = w.shape[-2]
        return y.reshape((-1, *x.shape[1:])) if out is None else None


def apply_weights(w: Any, x: Any, split: tuple[int, int, int, int], out: Any) -> Any:
    """The weights of nodes times the third of four axes, written to `out` unless that is None."""
    n, before, k, after = split
    if sparse.issparse(w):
        x = x.reshape(before, k, after)
        y = (w @ x[:, :, 0].T).T if after == 1 else np.stack([w @ part for part in x])
    elif before > 1 < after < w.shape[1] and not isinstance(x, np.ndarray):
        # in tensors a broadcast matrix is copied: values are fewer
        x = x.reshape(n, before, k, after).transpose(1, 2).reshape(n, k, before * after)
        y = (w @ x).reshape(n, -1, before, after).transpose(1, 2)
    else:
        left, right, shape = w, x.reshape(n, k, before * after), [n, -1, before * after]
        if after == 1:
            left, right, shape = x.reshape(n, before, k), w.swapaxes(1, 2), [n, before, -1]
        elif before > 1 and isinstance(x, np.ndarray):
            left, right = w[:, None], x.reshape(n, before, k, after)
            shape = [n, before, -1, after]
        elif before > 1:
            left = w[:, None].expand(n, before, *w.shape[1:]).reshape(-1, *w.shape[1:])
            right, shape = x.reshape(n * before, k, after), [n * before, -1, after]
        if out is None:
            return left @ right
        return namespace(x).matmul(left, right, out=out.reshape(shape))
    if out is not None:
        out[:] = y.reshape(out.shape)
    return y


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the units of several operands lie, without numbers.

    Attributes
    ----------
    vtree : Vtree
    layers : list of Layer, without weights
    groups : list (for every layer) of lists of Group
    starts : int array
        The place of the first unit of every vtree node.
    """

    vtree: Vtree
    layers: list[Layer]
    groups: list[list[Group]]
    starts: IntArray
    known: dict[Any, Layer] = field(default_factory=dict)

    @property
    def n_bytes(self) -> int:
        """The memory that it takes."""
        return sum(0 if layer.inputs is None else layer.inputs.nbytes for layer in self.layers)

    def bind(self, operands: Sequence[Operand], like: Any = None) -> Layers:
        """The layers with the weights of operands; with `like`, in tensors of its device."""
        bounds = sum(operand.bounds for operand in operands)
        made = []
        for number, (layer, groups) in enumerate(zip(self.layers, self.groups, strict=True)):
            stacks, ends = [], np.cumsum([(0, 0), *(group.sizes for group in groups)], axis=0)
            for group, start, stop in zip(groups, ends.tolist(), ends[1:].tolist(), strict=False):
                if not all(group.passed):
                    shape = len(group.nodes), *group.widths
                    weights = _weights(group, operands, like)
                    stacks.append(KroneckerStack(weights, shape, *map(slice, start, stop)))
            if like is not None:
                key = number, str(like.device)
                if key not in self.known:  # indices are sent once
                    self.known[key] = layer_to_device(layer, like)
                layer = self.known[key]
            made.append(replace(layer, stacks=tuple(stacks)).with_known(layer))
        on_cpu = Layers(self.vtree, tuple(made), self.starts, bounds)
        if like is None:
            vars(on_cpu)["entries"] = _entries(operands)
            return on_cpu
        return TensorLayers(self.vtree, tuple(made), self.starts, bounds, on_cpu=on_cpu)


def _weights(group: Group, operands: Sequence[Operand], like: Any) -> tuple[tuple[int, Any], ...]:
    """The weights of a group's nodes with their axes, those that shrink values most first."""
    found = []
    for axis, (operand, passed) in enumerate(zip(operands, group.passed, strict=True)):
        if not passed:
            matrices = [operand.matrices[node] for node in group.nodes.tolist()]
            if like is not None and isinstance(matrices[0], (np.ndarray, sparse.sparray)):
                matrices = [m.toarray() if sparse.issparse(m) else m for m in matrices]
            stack = _stacked(matrices, (group.units[axis], group.widths[axis]))
            found.append((axis, stack if like is None else as_like(stack, like)))
    found.sort(key=lambda pair: pair[1].shape[-2] / max(1, pair[1].shape[-1]))
    return tuple(found)


def _entries(operands: Sequence[Operand]) -> Any:
    """How many units, products and weights every node has; see `Layers.entries`."""
    units, widths = np.ones((2, operands[0].vtree.n_nodes))
    weights = np.zeros_like(units)
    for operand in operands:
        weights = weights * operand.units + operand.terms * widths
        units, widths = units * operand.units, widths * operand.widths
    return units + 2.0 * widths + weights


def joint_layout(operands: Sequence[Operand], largest: float = STACKED) -> Layout:
    """The layout of operands, kept as long as others of their structure are there.

    Matrices of more than the largest number of entries are not stacked.
    """
    kept = operands[-1].structure.layouts
    key = (tuple(ref(operand.structure) for operand in operands), largest)
    return _kept(kept, key, lambda: _layout(operands, largest))


def _kept(kept: dict[Any, Any], key: Any, make: Callable[[], Any]) -> Any:
    """What is kept for a key, which begins with references: made once, in the place of others."""
    if key not in kept:
        made = make()
        for old in list(kept):
            held = sum(getattr(x, "n_bytes", 0) for x in [*kept.values(), made])
            if len(kept) >= KEPT or held > KEPT_BYTES or not all(x() for x in old[0]):
                kept.pop(old, None)
        return kept.setdefault(key, made)
    return kept[key]


def joint_layers(operands: Sequence[Operand], like: Any = None) -> Layers:
    """The layers of operands with their weights, kept unless gradients are required."""
    layout = joint_layout(operands, inf if like is not None and is_on_gpu(like) else STACKED)
    if any(operand.has_gradients for operand in operands):
        return layout.bind(operands, like)
    kept = operands[-1].cached("joint", dict)
    key = (tuple(map(ref, operands)), None if like is None else str(like.device))
    return _kept(kept, key, lambda: layout.bind(operands, like))


def _layout(operands: Sequence[Operand], largest: float) -> Layout:
    vtree = operands[0].vtree
    starts = np.zeros(vtree.n_nodes, dtype=np.intp)
    shapes = np.ones((vtree.n_nodes, len(operands)), dtype=np.intp)
    layers, made, first = _groups(operands, largest), [], 0
    for height, groups in enumerate(layers):
        nodes = np.concatenate([group.nodes for group in groups])
        sizes = [np.full((len(g.nodes), 2), (prod(g.units), prod(g.widths))) for g in groups]
        ends = np.concatenate([[[0, 0]], np.cumsum(np.concatenate(sizes), axis=0)])
        starts[nodes] = first + ends[:-1, 0]
        for group in groups:
            shapes[group.nodes] = group.units
        views, inputs = None, np.zeros((2, 0), dtype=np.intp) if height else None
        if height:
            views = _views(operands, groups, starts, shapes)
            if views is None:
                parts = [_input_index(operands, group, starts, shapes) for group in groups]
                inputs = np.concatenate(parts, axis=1)
        n_passed = sum(group.sizes[0] for group in groups if all(group.passed))
        stop = first + int(ends[-1, 0])
        places = (nodes, first, stop, ends[:, 0], ends[:, 1], inputs, n_passed)
        made.append(Layer(*places, (), NO_EDGES, views))
        first = stop
    return Layout(vtree, made, layers, starts)


def _groups(operands: Sequence[Operand], largest: float) -> list[list[Group]]:
    """For every height the nodes that are computed together, those without weights first.

    Shapes that differ little are padded to a common one. Leaves of different numbers of atoms are
    apart, and so are sparse and large matrices.
    """
    vtree = operands[0].vtree
    kinds: dict[Any, dict[Any, list[int]]] = {}
    for node, height in enumerate(vtree.height.tolist()):
        shape = tuple((operand.units[node], operand.widths[node]) for operand in operands)
        matrices = [operand.matrices[node] for operand in operands]
        passed = tuple(matrix is None for matrix in matrices)
        alone = any(
            sparse.issparse(matrix) or (matrix is not None and prod(own) > largest)
            for matrix, own in zip(matrices, shape, strict=True)
        )
        widths = tuple(width for _, width in shape) if height == 0 else ()
        kind = (height, not all(passed), passed, widths, node if alone else -1)
        kinds.setdefault(kind, {}).setdefault(shape, []).append(node)
    layers: list[list[Group]] = [[] for _ in range(int(vtree.height.max()) + 1)]
    for kind in sorted(kinds):
        parts: list[tuple[list[int], Any]] = []
        for shape in sorted(kinds[kind], key=lambda shape: (_size(shape), shape)):
            nodes, top = parts[-1] if parts else ([], shape)
            wider = tuple(tuple(map(max, a, b)) for a, b in zip(top, shape, strict=True))
            if len(nodes) * (_size(wider) - _size(top)) > STEP_COST or not parts:
                parts.append(([], shape))
                nodes, wider = [], shape
            parts[-1] = nodes + kinds[kind][shape], wider
        for nodes, top in parts:
            units, widths = zip(*top, strict=True)
            layers[kind[0]].append(Group(np.sort(np.asarray(nodes)), units, widths, kind[2]))
    return layers


def _size(shape: Any) -> int:
    """About how many numbers the sums of a node of joint shape compute."""
    return prod(map(max, shape)) * max(map(max, shape))


def _index(operand: Operand, group: Group, width: int, side: str) -> Any:
    """The left or right inputs of the products of nodes, (nodes, width); None: in order."""
    blocks = [operand.blocks[node] for node in group.nodes.tolist()]
    if all(getattr(block, side) is None and block.width == width for block in blocks):
        return None
    index = np.zeros((len(blocks), width), dtype=np.intp)
    for row, block in zip(index, blocks, strict=True):
        row[: block.width] = block.index(side)
    return index


def _views(
    operands: Sequence[Operand], groups: list[Group], starts: IntArray, shapes: IntArray
) -> tuple[int, int] | None:
    """Where the inputs of the first node begin, if those of all nodes lie one after the other."""
    group, vtree, places = groups[0], operands[0].vtree, []
    for side in ("left", "right"):
        child = getattr(vtree, side)[group.nodes]
        if len(groups) > 1 or (shapes[child] != group.widths).any():
            return None
        for operand, width in zip(operands, group.widths, strict=True):
            if _index(operand, group, width, side) is not None:
                return None
        places.append(starts[child])
    (left, *_), (right, *_) = places
    step = 2 * prod(group.widths)
    in_turns = all((np.diff(x) == step).all() for x in places) and 2 * abs(left - right) == step
    return (int(left), int(right)) if in_turns or len(group.nodes) == 1 else None


def _input_index(
    operands: Sequence[Operand], group: Group, starts: IntArray, shapes: IntArray
) -> IntArray:
    """The places of the left and right inputs of every product of a group, (2, products)."""
    found = []
    for side in ("left", "right"):
        child = getattr(operands[0].vtree, side)[group.nodes]
        places, strides = starts[child], np.ones_like(shapes[child])
        strides[:, :-1] = np.cumprod(shapes[child][:, :0:-1], axis=1)[:, ::-1]
        for axis, (operand, width) in enumerate(zip(operands, group.widths, strict=True)):
            index = _index(operand, group, width, side)
            index = np.arange(width)[None] if index is None else index
            index = index.reshape(len(index), *[1] * axis, width)
            places = places[..., None] + index * strides[:, axis].reshape(-1, *[1] * (axis + 1))
        found.append(places.reshape(-1))
    return np.stack(found)
