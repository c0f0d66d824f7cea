"""Passes over the units of several circuits at once, by layers or node by node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, exp, floor, inf, prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from array_api_compat import is_torch_array
from scipy import sparse

from expectedkernels import arrays
from expectedkernels.arrays import as_like, is_on_gpu, namespace, take, to_numpy
from expectedkernels.circuits.inputs import log_sizes
from expectedkernels.circuits.operands import CircuitOperand, PointOperand, rows_are_cheaper
from expectedkernels.engine.joint import joint_layers, joint_layout, log_headroom
from expectedkernels.engine.layers import LEAST_MARGIN
from expectedkernels.engine.nodes import CACHED_BYTES, NodePass
from expectedkernels.engine.operations import differentiable
from expectedkernels.engine.passes import LeafValues, forward
from expectedkernels.engine.replay import CLONE, fits, replayed, total_bytes
from expectedkernels.engine.scaled import NodeValues, Scaled, exponentials

if TYPE_CHECKING:
    from expectedkernels.circuits.circuit import Circuit

LARGE_NODE = 2**14
"""With more products per node than this, nodes are computed one by one: nothing is gained."""
AGREEMENT = 1e-12
"""How far upper and lower bounds may be apart."""
FEW_ATOMS = 2**16
"""Values of at most so many atoms are kept for the next pass."""
FEW = 0.125
"""With less than this share of cells out of range, these are found by halves of rows."""


@dataclass(frozen=True, eq=False)
class Tables:
    """A product kernel given by plain numbers on the atoms of every variable.

    Attributes
    ----------
    numbers : function of a variable and the atoms of all axes
        Gives an array with one axis for each, of numbers that are zero or of a size that products
        of many can have.
    is_uniform : bool
        Whether all variables have the same values.
    """

    numbers: Callable[[int, tuple[Any, ...]], Any]
    is_uniform: bool = False

    operands: ClassVar[tuple[Any, ...]] = ()
    weights: ClassVar[tuple[float, ...]] = (1.0,)
    tensor: ClassVar[None] = None
    is_signed: ClassVar[bool] = False
    has_gradients: ClassVar[bool] = False

    def key(self, variable: int) -> Any:
        """What is equal for variables with the same values."""
        return None if self.is_uniform else variable

    def table(
        self, variable: int, atoms: tuple[Any, ...], like: Any, mode: str
    ) -> tuple[NodeValues, bool]:
        """The numbers of a variable."""
        return exponentials(log_sizes(self.numbers(variable, atoms)), mode)


LIKELIHOODS = Tables(lambda _, atoms: np.ones(atoms[0].n), is_uniform=True)
"""The kernel of a pass over one circuit."""


def array_in(circuit: Circuit) -> Any:
    """One of the circuit's arrays."""
    return circuit.blocks[0].numbers


class JointPass:
    """One pass over the units of all axes and of the kernel.

    Attributes
    ----------
    axes : tuple of sides
    kernel : object
        With values on atoms, `table`, and maybe with units of its own, `operands`.
    operands : list of Operand
        Of the kernel, if it has units, and of all circuits.
    batched : list of int
        The axes with rows, points first: they choose from their atoms while others are atoms still.
    array, like : arrays
        One of the first circuit: results live where it does. An empty one where values are: in
        torch if the first circuit is, or else in NumPy.
    """

    def __init__(self, axes: tuple[Any, ...], kernel: Any):
        self.axes, self.kernel = axes, kernel
        circuits = [side for side in axes if not isinstance(side, PointOperand)]
        self.operands = [*kernel.operands, *(side.operand for side in circuits)]
        self.vtree = self.operands[0].vtree
        rows = [i for i, side in enumerate(axes) if side not in circuits or side.evidence]
        self.batched = sorted(rows, key=lambda i: axes[i] in circuits)
        self.shape = tuple(axes[i].n_rows for i in self.batched)
        self.array = like = array_in(circuits[0].circuit)
        self.like: Any = np.empty(0)
        if is_torch_array(like):
            self.like = like.detach().new_empty(0, dtype=namespace(like).float64)
        self.signed = any(x.is_signed for x in (kernel, *self.operands, *axes))
        self.has_gradients = any(x.has_gradients for x in (kernel, *self.operands))

    @cached_property
    def by_layers(self) -> bool:
        """Whether all nodes of a height are computed together, for every row; not by patterns."""
        if is_torch_array(self.like):
            return True
        if self.margin < LEAST_MARGIN:
            return False
        widths = zip(*(operand.widths for operand in self.operands), strict=True)
        n_products = sum(map(prod, widths))
        if n_products > LARGE_NODE * self.vtree.n_nodes:
            return False
        sides = [self.axes[i] for i in self.batched]
        if len(sides) == 1 and isinstance(sides[0], PointOperand):
            return rows_are_cheaper(self.layers, sides[0].n_rows, lambda: sides[0].batch.count)
        return all(isinstance(x, CircuitOperand) and x.batch.is_uniform for x in sides)  # type: ignore[union-attr]

    @cached_property
    def margin(self) -> float:
        """How far from zero the logs of plain numbers may be."""
        return log_headroom(self.operands)

    @cached_property
    def layers(self) -> Any:
        """The layers."""
        return joint_layers(self.operands, self.like if is_torch_array(self.like) else None)

    @cached_property
    def n_bytes(self) -> int:
        """The most memory that values take at once, about."""
        if self.by_layers:
            widest = max(layer.n_products for layer in self.layers.layers)
            size = self.layers.n_units + 2 * widest + 2 * self.layers.n_atoms
            return 8 * size * prod(self.shape)
        rows, units, products = self._sizes
        below, inner = np.zeros_like(units), self.vtree.variable < 0
        below[inner] = units[self.vtree.left[inner]] + units[self.vtree.right[inner]]
        alive = np.cumsum(units - below) - units + below  # values of nodes that wait for others
        part = np.maximum(CACHED_BYTES / 8, products / rows.max(axis=0))
        return int(8 * (alive + np.minimum(3 * products + units, 4 * part + 2 * units)).max())

    @property
    def _sizes(self) -> tuple[Any, Any, Any]:
        """The number of rows or patterns of every batch, of units and of products of all nodes."""
        ones = np.ones((1, self.vtree.n_nodes))
        rows = np.concatenate([ones, *([self.axes[i].batch.count] for i in self.batched)])
        each = np.array([(op.units, op.widths) for op in self.operands], dtype=np.float64)
        units, products = rows.prod(axis=0) * each.prod(axis=0)
        return rows, units, products

    @property
    def n_steps(self) -> int:
        """The number of groups of nodes that are computed together."""
        if not self.by_layers:
            return self.vtree.n_nodes
        return sum(map(len, joint_layout(self.operands).groups))

    @property
    def operations(self) -> int:
        """How many multiplications and additions there are, those of padding not counted."""
        (rows, _, products), total = self._sizes, 0.0
        units_of, widths_of = zip(*((op.units, op.widths) for op in self.operands), strict=True)
        for node, cells in enumerate(rows.prod(axis=0).tolist()):
            units, sizes = ([x[node] for x in each] for each in (units_of, widths_of))
            for i in sorted(range(len(units)), key=lambda i: units[i] / max(1, sizes[i])):
                if (matrix := self.operands[i].matrices[node]) is not None:
                    terms = matrix.nnz if sparse.issparse(matrix) else prod(matrix.shape)
                    total += 2 * cells * terms * prod(n for j, n in enumerate(sizes) if j != i)
                    sizes[i] = units[i]
        return int(total + products.sum())

    def __str__(self) -> str:
        if not self.by_layers:
            return f"{self.vtree.n_nodes} nodes, one by one"
        groups = [group for layer in joint_layout(self.operands).groups for group in layer]
        lines = [f"{len(groups)} steps for {self.vtree.n_nodes} nodes"]
        for group in groups:
            kind = "leaves" if self.vtree.is_leaf(int(group.nodes[0])) else "inner nodes"
            lines.append(f"  {len(group.nodes)} {kind}: {(len(group.nodes), *group.units)}")
        return "\n".join(lines)

    def _leaf(self, variables: Sequence[int], mode: str) -> tuple[NodeValues, bool]:
        """The kernel on the atoms of variables that are alike, and what evidence says of these.

        Of shape (variables, kernel units, atoms of every circuit, rows or patterns of every batch),
        the first axis being one if they are all equal; and whether some values were too small.
        """
        like = self.like if self.batched or self.has_gradients else np.empty(0)
        xp = namespace(like)
        atoms = tuple(side.atoms(variables[0]) for side in self.axes)
        value, clamped = self.kernel.table(variables[0], atoms, like, mode)
        data: Any = as_like(value.data, like)[None]
        sign: Any = None if value.sign is None else as_like(value.sign, like)[None]
        scale = None if value.scale is None else as_like(value.scale, like).reshape(1)
        low, high, axis = value.low, value.high, list(range(data.ndim - len(self.axes), data.ndim))
        for i in self.batched:
            side, at = self.axes[i], axis[i]
            uniform = self.by_layers or side.batch.is_uniform
            scale = None if scale is None else scale[..., None]
            if isinstance(side, PointOperand):
                index = side.index(variables, uniform)
                data, sign = (x if x is None else _chosen(x, index, at) for x in (data, sign))
                axis = [x - (x > at) for x in axis]
                continue
            index, found, small = side.likelihoods(variables, uniform, mode)
            clamped |= small
            n, width, n_rows = found.data.shape
            shape = [n, *[1] * data.ndim]
            shape[at], shape[-1] = width, n_rows
            data, sign = (x if x is None else _repeated(x, index, at) for x in (data, sign))
            weights = as_like(found.data, like).reshape(shape)
            data = data + weights if mode == "logs" else data * weights
            low, high = low + found.low, high + found.high
            if found.sign is not None:
                signs = as_like(found.sign, like).reshape(shape)
                sign = signs if sign is None else sign * signs
            if found.scale is not None:
                before = [1] * self.batched.index(i)
                more = as_like(found.scale, like).reshape(n, *before, n_rows)
                scale = more if scale is None else scale + more
        sign = None if sign is None else xp.broadcast_to(sign, data.shape)
        if mode != "logs" and low < -self.margin:
            small = (data != 0) & (abs(data) < exp(-self.margin))
            low = -self.margin
            if bool(small.any()):
                least = exp(low) if mode == "floor" else 0.0
                data, clamped = xp.where(small, xp.full_like(data, least), data), True
        return NodeValues(data, scale, sign, low, high), clamped

    def _leaf_at(self, variable: int, mode: str) -> tuple[NodeValues, bool]:
        """The same of one variable, without the first axis."""
        value, clamped = self._leaf([variable], mode)
        scale = value.scale
        if scale is not None:
            shape = value.data.shape[value.data.ndim - len(self.batched) :]
            scale = namespace(scale).broadcast_to(scale[0], shape)
        sign = None if value.sign is None else value.sign[0]
        return NodeValues(value.data[0], scale, sign, value.low, value.high), clamped

    def values(self) -> Scaled | None:
        """The values of all roots and rows; None if those of a few rows are out of range."""
        arrays.require_memory(
            self.n_bytes,
            "A pass over all pairs of units of the circuits",
            arrays.SMALLER_CIRCUITS,
            total_bytes(self.like) if is_on_gpu(self.like) else None,
        )
        if self.margin < LEAST_MARGIN:
            return self._logs()
        value, clamped = self._plain("floor")
        if clamped and self.signed:
            return self._logs()
        found = _scaled(value)
        if not clamped:
            return found
        agree = _agree(found, _scaled(self._plain("zero")[0]))
        if agree.all():
            return found
        return None if prod(self.shape) > 1 and 1.0 - agree.mean() < FEW else self._logs()

    def _logs(self) -> Scaled:
        """The values in logarithms, which nothing is too small for."""
        self.by_layers = False
        root, _ = self._plain("logs")
        xp, finite = namespace(root.data), root.data > -inf
        sign = xp.astype(finite, root.data.dtype) if root.sign is None else root.sign
        return Scaled(sign, xp.where(finite, root.data, xp.zeros_like(root.data)))

    def _plain(self, mode: str) -> tuple[NodeValues, bool]:
        if self.by_layers:
            return self._by_layers(mode)
        found = self._nodes(mode)
        return found.root(), found.clamped

    def node_values(self) -> tuple[NodePass, list[NodeValues]]:
        """A pass by nodes, and the values of all of these: in logarithms if some are too small."""
        self.by_layers = False
        for mode in ("floor", "logs") if self.margin >= LEAST_MARGIN else ("logs",):
            nodes = self._nodes(mode)
            values = [value for _, _, value in nodes]
            if not nodes.clamped:
                break
        return nodes, values

    def _nodes(self, mode: str) -> NodePass:
        batches, order = [self.axes[i].batch for i in self.batched], []
        circuits = [i for i, side in enumerate(self.axes) if not isinstance(side, PointOperand)]
        if len(set(circuits) & set(self.batched)) > 1:
            n, first = len(self.operands), len(self.kernel.operands)
            points = [n + j for j, i in enumerate(self.batched) if i not in circuits]
            order = [*range(first), *points]
            for own, i in enumerate(circuits, first):
                order += [n + self.batched.index(i), own] if i in self.batched else [own]
        return NodePass(self.operands, self._leaf_at, batches, order, mode, self.signed)

    def _by_layers(self, mode: str) -> tuple[NodeValues, bool]:
        kernel, own, found = vars(self.layers).get("last_atoms", (None, "", None))
        if kernel is not self.kernel or own != mode or self.batched or self.has_gradients:
            found = self._atoms(mode)
            if not (self.batched or self.has_gradients) and len(found[0]) <= FEW_ATOMS:
                vars(self.layers)["last_atoms"] = self.kernel, mode, found
        atoms, scale, bounds, clamped = found
        if self.has_gradients:
            roots, more, small = differentiable(self.layers, atoms, bounds)
        else:
            roots, more, small = self._roots(self.layers, atoms, bounds, mode)
        if more is not None:
            scale = more if scale is None else scale + more
        data = roots.reshape(*(op.units[-1] for op in self.operands), *self.shape)
        scale = None if scale is None else scale.reshape(self.shape)
        return NodeValues(data, scale), clamped or small

    def _atoms(self, mode: str) -> tuple[Any, Any, tuple[int, int, bool], bool]:
        """The values of all atoms, their log-scales and bounds, and whether some were too small."""
        xp, clamped, low, high = namespace(self.like), False, 0.0, 0.0
        variables = self.vtree.variable[self.layers.layers[0].nodes].tolist()
        parts: list[Any] = [None] * len(variables)
        scale: Any = None
        shape = (-1, prod(self.shape)) if self.shape else (-1,)
        for places in self._alike(variables):
            value, small = self._leaf([variables[i] for i in places], mode)
            clamped, low, high = clamped or small, min(low, value.low), max(high, value.high)
            if value.scale is not None:
                more = xp.broadcast_to(value.scale, (len(places), *self.shape)).sum(axis=0)
                scale = more.reshape(-1) if scale is None else scale + more.reshape(-1)
            data = [x.reshape(shape) for x in value.data] * (len(places) // len(value.data))
            for i, x in zip(places, data, strict=True):
                parts[i] = x
        atoms = as_like(namespace(parts[0]).concat(parts), self.like)
        if is_torch_array(atoms):
            atoms = atoms.reshape(len(atoms), -1)
        return atoms, scale, (floor(low), ceil(high), self.signed), clamped

    def _alike(self, variables: list[int]) -> list[list[int]]:
        """The places of variables with the same values of the kernel, together."""
        domains = next(x.circuit for x in self.axes if isinstance(x, CircuitOperand)).cardinalities
        several = sum(isinstance(side, PointOperand) for side in self.axes) < 2
        if several and self.kernel.is_uniform and None not in domains and len({*domains}) == 1:
            return [list(range(len(variables)))]
        found: dict[Any, list[int]] = {}
        for i, v in enumerate(variables):
            alone = domains[v] is None or not several
            found.setdefault((i,) if alone else (self.kernel.key(v), domains[v]), []).append(i)
        return list(found.values())

    def _roots(self, layers: Any, atoms: Any, bounds: Any, mode: str) -> tuple[Any, Any, bool]:
        """The values of the roots, their log-scales, and whether some values were too small."""
        xp, alone = namespace(atoms), is_torch_array(atoms) and not self.batched

        def run(atoms: Any) -> tuple[tuple[Any, ...], None]:
            found = forward(
                layers, LeafValues(atoms), None, True, bounds=bounds, drop=mode == "zero"
            )
            parts = (found.values[layers.roots], found.scale, found.clamped_mark)
            if alone:  # a few numbers, read at once
                parts = tuple(atoms.new_zeros(1) if x is None else x.reshape(-1) for x in parts)
                return (xp.cat([x.to(atoms.dtype) for x in parts]),), None
            return parts, None

        if is_on_gpu(atoms) and fits(atoms, 8.0 * layers.n_units * atoms.shape[1]):
            key = ("joint", tuple(atoms.shape), mode, bounds)
            read = to_numpy if alone else CLONE
            found = replayed(layers.captured, key, (layers,), run, (atoms,), read)[0]
        else:
            found = run(atoms)[0]
        if alone:
            *roots, scale, mark = to_numpy(found[0])
            return np.array(roots), np.array([scale]), bool(mark)
        roots, scale, mark = found
        return roots, scale, mark is not None and bool(mark)


def _repeated(data: Any, index: Any, axis: int) -> Any:
    """Data with one more axis, for patterns: entries along an axis are chosen by these."""
    if index is None:
        return data[..., None]
    chosen = take(data, as_like(index.reshape(-1), data), axis)
    split = chosen.reshape(*data.shape[:axis], *index.shape, *data.shape[axis + 1 :])
    return namespace(data).moveaxis(split, axis + 1, -1)


def _chosen(data: Any, index: Any, axis: int) -> Any:
    """Entries along an axis, (variables, patterns) of them, in the first and the last axis."""
    return namespace(data).moveaxis(_repeated(data, index, axis), axis, 0)[:, 0]


def _scaled(root: NodeValues) -> Scaled:
    """The values of all roots and rows as mantissas and log-scales."""
    if root.scale is None:
        return Scaled(root.data, None)
    shape = (*[1] * (root.data.ndim - root.scale.ndim), *root.scale.shape)
    scale = root.scale.reshape(shape)
    if scale.shape != root.data.shape:
        scale = namespace(root.data).broadcast_to(scale, root.data.shape)
    return Scaled(root.data, scale)


def _agree(one: Scaled, other: Scaled) -> Any:
    """Which upper and lower bounds are as good as equal."""
    a, b = to_numpy(one.data), to_numpy(other.data)
    scales = [np.zeros(()) if x.scale is None else to_numpy(x.scale) for x in (one, other)]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        away = np.abs(b / a * np.exp(scales[1] - scales[0]) - 1.0)
        return ((a == 0) & (b == 0)) | (away <= AGREEMENT * (1.0 + np.abs(scales[0])))
