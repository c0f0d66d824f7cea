"""Kernels at vtree nodes, and expected Gram matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from math import log, prod
from operator import itemgetter
from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from scipy import sparse

from expectedkernels import arrays
from expectedkernels.arrays import as_like, is_on_gpu, namespace, spans, take
from expectedkernels.checks import KernelError
from expectedkernels.circuits.operands import InputComponents, JointPass, PointOperand, Tables
from expectedkernels.circuits.queries import log_values
from expectedkernels.engine import scaled
from expectedkernels.engine.blocks import Inner, at_nodes, from_leaves, inner, side_by_side
from expectedkernels.engine.joint import Operand
from expectedkernels.engine.replay import total_bytes
from expectedkernels.engine.scaled import ScaledArray
from expectedkernels.kernels.factors import Factor, log_pairs, triples
from expectedkernels.vtree import Vtree


@dataclass(frozen=True, eq=False)
class KernelBlocks:
    """A kernel circuit on a vtree.

    Attributes
    ----------
    operand : Operand
        Its sum and product units; leaves have one unit per factor.
    factors : list (per variable) of tuples of Factor
        Its input units.
    weights : array of shape (roots,)
        The kernel is the sum of its roots with these weights: a tensor, if gradients are required.
    """

    operand: Operand
    factors: Sequence[tuple[Factor, ...]]
    weights: Any
    known: dict[Any, Any] = field(default_factory=dict)

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """What it adds to a pass: nothing, if it is a single product."""
        return () if len(self.weights) == 1 and is_parallel(self) else (self.operand,)

    @cached_property
    def _distinct(self) -> set[Factor]:
        """All factors, each once."""
        return {factor for factors in {*self.factors} for factor in factors}

    @cached_property
    def is_signed(self) -> bool:
        """Whether some value is negative."""
        return any(f.table is not None and (f.table < 0).any() for f in self._distinct)

    def key(self, variable: int) -> Any:
        """What is equal for variables with the same values."""
        return self.factors[variable]

    def table(
        self, variable: int, atoms: tuple[InputComponents, ...], like: Any, mode: str
    ) -> tuple[ScaledArray, bool]:
        """The values of a variable's factors on all pairs of atoms.

        Of shape (units, atoms of both axes), without the first axis for a single product; and
        whether some were too small. See `exponentials` for the mode.
        """
        factors = self.factors[variable]
        key = (factors, *(x.cardinality for x in atoms), mode)
        if key in self.known:
            return self.known[key]
        followed = any(f.tensors for f in factors)
        given = like if followed and is_torch_array(like) else None
        left, right = atoms
        found = (f.logs(left, right, variable, given) for f in factors)
        logs, signs, zeros = zip(*found, strict=True)
        xp = namespace(*logs)
        value, clamped = scaled.exponentials(xp.stack([as_like(x, logs[0]) for x in logs]), mode)
        if any(sign is not None for sign in signs):
            ones = [np.ones(tuple(logs[0].shape)) if sign is None else sign for sign in signs]
            sign = as_like(np.stack(ones), value.data)
            in_logs = mode == "logs"
            value.data = value.data + scaled.signed_logs(sign) if in_logs else value.data * sign
        if any(x is not None for x in zeros):
            if mode == "logs" or clamped:
                raise KernelError(
                    f"Gradients by the table of variable {variable} are not exact: it has zeros, "
                    "and its other entries are too far apart. Take a smaller gamma, or a table "
                    "without zeros."
                )
            more = xp.stack([xp.zeros_like(logs[0]) if x is None else x for x in zeros])
            value.data = value.data + more * (1.0 if value.scale is None else xp.exp(-value.scale))
        if not self.operands:
            value.data = value.data[0]
        if atoms[0].cardinality is not None and not followed:
            self.known[key] = value, clamped
        return value, clamped

    @cached_property
    def has_gradients(self) -> bool:
        """Whether gradients with respect to a gamma, a table or a weight are required."""
        return is_torch_array(self.weights) or any(f.tensors for f in self._distinct)


@lru_cache(maxsize=16)
def parallel_operand(vtree: Vtree, terms: int) -> Operand:
    """The units of `terms` product kernels side by side."""
    return Operand(vtree, [Inner(terms, terms, None, None, None)] * vtree.n_nodes)


@lru_cache(maxsize=16)
def uniform_product(vtree: Vtree, square: float, absolute: float, unequal: float) -> KernelBlocks:
    """The product of one factor for all variables, with what passes keep of it."""
    factors = [(Factor(square, absolute, unequal),)] * vtree.n_variables
    return KernelBlocks(parallel_operand(vtree, 1), factors, np.ones(1))


def is_parallel(blocks: KernelBlocks) -> bool:
    """Whether the kernel is a weighted sum of products, without sums inside."""
    every, n = blocks.operand.blocks, len(blocks.weights)
    return blocks.operand.cached(
        "parallel",
        lambda: all(x.left is x.right is x.weights is None and x.n_units == n for x in every),
    )


def direct_sum(parts: Sequence[KernelBlocks], scales: Sequence[Any]) -> KernelBlocks:
    """The sum of kernels, each times a scale, which may be a tensor."""
    vtree = parts[0].operand.vtree
    pairs = zip(scales, (part.weights for part in parts), strict=True)
    every = _together(*(_multiplied(scale, own) for scale, own in pairs))
    weights = namespace(every[0]).concat(every)
    factors = [
        tuple(f for part in parts for f in part.factors[v]) for v in range(vtree.n_variables)
    ]
    if all(map(is_parallel, parts)):
        return KernelBlocks(parallel_operand(vtree, len(weights)), factors, weights)
    operands = [part.operand for part in parts]
    units = list(map(sum, zip(*(op.units for op in operands), strict=True)))

    def inner_at(node: int) -> Inner:
        children = vtree.left[node], vtree.right[node]
        n_left, n_right = ([op.units[child] for op in operands] for child in children)
        return side_by_side([op.blocks[node] for op in operands], n_left, n_right)

    return KernelBlocks(kernel_operand(vtree, units, inner_at), factors, weights)


def kronecker(a: KernelBlocks, b: KernelBlocks) -> KernelBlocks:
    """The product of two kernels: units are pairs of units."""
    vtree = a.operand.vtree
    weights = _multiplied(a.weights[:, None], b.weights[None, :]).reshape(-1)
    factors = [
        tuple(f * g for f in a.factors[v] for g in b.factors[v]) for v in range(vtree.n_variables)
    ]
    if is_parallel(a) and is_parallel(b):
        return KernelBlocks(parallel_operand(vtree, len(weights)), factors, weights)
    units = [m * n for m, n in zip(a.operand.units, b.operand.units, strict=True)]

    def inner_at(node: int) -> Inner:
        first: Any = a.operand.blocks[node]
        second: Any = b.operand.blocks[node]
        children = vtree.left[node], vtree.right[node]
        left, right = (
            (one[:, None] * b.operand.units[child] + other[None, :]).ravel()
            for one, other, child in zip(first.inputs, second.inputs, children, strict=True)
        )
        matrix = sparse.csr_array(sparse.kron(first.csr, second.csr, format="csr"))
        return inner(left, right, matrix, *(units[child] for child in children))

    return KernelBlocks(kernel_operand(vtree, units, inner_at), factors, weights)


def _together(*weights: Any) -> list[Any]:
    """Weights in one library, on one device: those of the first tensor, if there is one."""
    found = [x if is_torch_array(x) else np.asarray(x) for x in weights]
    like = next(filter(is_torch_array, found), None)
    return found if like is None else [as_like(x, like).to(like.device) for x in found]


def _multiplied(*weights: Any) -> Any:
    """The products of weights, which multiply before anything else; raises if one is no float."""
    a, b = _together(*weights)
    with np.errstate(over="ignore", under="ignore"):
        products = a * b
    lost = (products == 0) & (a != 0) & (b != 0)
    if lost.any() or not namespace(products).isfinite(products).all():
        raise KernelError(
            "The weights of this kernel multiply to a number that is too "
            f"{'small' if lost.any() else 'large'} for a float. Scale it by less."
        )
    return products


def kernel_operand(vtree: Vtree, units: Sequence[int], inner_at: Callable[[int], Inner]) -> Operand:
    """The units of a kernel circuit with so many factors at every leaf."""

    def leaf(node: int, _: int) -> Inner:
        return Inner(units[node], units[node], None, None, None)

    return Operand(vtree, at_nodes(vtree, leaf, inner_at))


NEGLIGIBLE = 1e-100
"""Factors of a kernel below this count as zero; all others are at most one."""
FAR = 1e5
"""Scaled squared distances from the middle above which dot products lose too many digits."""


def gaussian(rates: Sequence[Any], components: Sequence[int] | None = None) -> Tables:
    """The kernel, given one `gamma` for each column of every variable.

    With the numbers of components that the variables of the first axis have, its other atoms are
    observed values that are taken out: the kernel is one there, and where points are NaN.
    """
    made: dict[int, tuple[Any, Any]] = {}  # the same points meet one set of rows after the other

    def table(variable: int, atoms: tuple[InputComponents, ...]) -> Any:
        if components is None:
            return on_atoms(rates[variable], *atoms)
        first, *others = atoms
        if np.isnan(others[0].mean[0]).any():
            return np.ones([x.n for x in atoms])
        known, values = made.get(variable, ((), None))
        if [*map(id, known)] != [*map(id, others)]:
            parts, n = (first.mean, first.variance, first.half), components[variable]
            own = InputComponents(None, *(None if x is None else x[:n] for x in parts))
            values = on_atoms(rates[variable], own, *others)
            made[variable] = others, values
        return np.concatenate([values, np.ones((first.n - len(values), *values.shape[1:]))])

    return Tables(table)


def on_atoms(rates: Any, *atoms: InputComponents) -> Any:
    """The numbers E k(x, y) for all pairs of atoms, or E k(x, y) k(x, z) for all triples.

    Parameters
    ----------
    rates : array of shape (columns,)
    *atoms : InputComponents
        Of a real variable with as many columns.

    Examples
    --------
    >>> unit = InputComponents(None, np.array([0.5]), np.zeros(1), np.array([0.5]))
    >>> zero = InputComponents(None, np.zeros(1), np.zeros(1))
    >>> on_atoms([1.0], unit, zero).round(6).tolist()
    [[0.746824]]
    """
    columns = zip(rates, *(x.columns for x in atoms), strict=True)
    values: Any
    if len(atoms) == 2:
        values = np.exp(sum(log_pairs(float(rate), *of_column) for rate, *of_column in columns))
    else:
        values = 1.0
        for rate, *of_column in columns:
            values = values * triples(float(rate), *of_column)
    return np.where(values < NEGLIGIBLE, 0.0, values)


def at_known(rates: Any, X: Any, known: Any, points: Any) -> Any:
    """The kernel between rows and points at those columns of rows that are known, (rows, points).

    Examples
    --------
    >>> known = np.array([[True, False]])
    >>> at_known(np.ones(2), np.array([[1.0, np.nan]]), known, np.zeros((1, 2))).round(4).tolist()
    [[0.3679]]
    """
    if not len(points):
        return np.empty((len(known), 0))
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is found below
        centre = points.mean(axis=0)  # distances from dot products lose fewer digits around zero
        x = np.where(known, X - centre, 0.0)
        s = points - centre
        square, squares = (x**2) @ rates, s**2
        away = square[:, None] + (known * rates) @ squares.T - 2.0 * ((x * rates) @ s.T)
        far = ~(square <= FAR) | ~np.isfinite(squares.max())
        if far.any():
            away[far] = _distances(rates, X[far], known[far], points)
    return np.exp(-np.maximum(away, 0.0, out=away), out=away)


def _distances(rates: Any, X: Any, known: Any, points: Any) -> Any:
    """The squared distances at known columns, column by column: no digits are lost."""
    away = np.zeros((len(X), len(points)))
    for column, rate in enumerate(rates):
        part = rate * (X[:, column, None] - points[:, column]) ** 2
        away += np.where(known[:, column, None], part, 0.0)
    return away


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
    operand = kernel_operand(vtree, units, inner)
    inputs: list[tuple[Factor, ...]] = [
        (own, other) if v in chosen else (own,)
        for v, (own, other) in enumerate(zip(factors, others, strict=True))
    ]
    return KernelBlocks(operand, inputs, np.ones(units[-1])), changed[-1]


Axes = tuple[Any, ...]
"""Two or three sides: a circuit, a circuit given evidence, points, or what has their methods."""
ProductKernel = KernelBlocks | Tables

CHUNK_BYTES = 2**27
"""Chunks are not larger than this even if they may be: memory beyond the cache is slow."""
LAYER_BYTES = 2**25
"""The same where all nodes of a height are computed together."""
SYMMETRIC_ROWS = 64
"""From this many rows on, computing half of a symmetric matrix is worth three passes for one."""
DEVICE_SHARE = 8
"""Unless told otherwise, values may take one part in so many of a GPU's memory."""


def gram(
    axes: Axes, kernel: ProductKernel, max_bytes: int, bar: Any = None, symmetric: bool = False
) -> ScaledArray:
    """Values for all rows of the axes.

    Two axes give E k(x, y), three (of `Tables`) E k(x, y) k(x, z), with x on the first. With
    `symmetric`, there are two, they are the same and so is the kernel: half of it is computed.
    """
    shape, found = tuple(map(extent_of, axes)), None
    make = _mirrored if symmetric else pieces
    for at, piece in make(axes, kernel, max_bytes, bar):
        if tuple(piece.data.shape) == shape:
            return piece
        if found is None:
            found = ScaledArray(*(as_like(x, piece.data) for x in np.zeros((2, *shape))))
        found.data[at] = piece.data
        if piece.scale is not None:
            found.scale[at] = piece.scale
    like = next(x.circuit.like for x in axes if not isinstance(x, PointOperand))
    return found or ScaledArray(as_like(np.zeros(shape), like))


def expected(axes: Axes, kernel: ProductKernel, max_bytes: int, logs: Any = None) -> Any:
    """The plain numbers of `gram`, given the evidence of the rows of every axis.

    `logs` are the log probabilities of that of the first axis, if they are known.
    """
    every = (slice(None),) * len(axes)
    return scaled.divided(gram(axes, kernel, max_bytes), _log_norms(axes, logs), every).linear()


def expected_pieces(
    axes: Axes, kernel: ProductKernel, max_bytes: int, logs: Any = None
) -> Iterator[tuple[scaled.Place, Any]]:
    """The same for some rows of the first axis after the other, and which these are."""
    logs = _log_norms(axes, logs)
    for at, piece in pieces(axes, kernel, max_bytes, rows_first=True):
        yield at, scaled.divided(piece, logs, at).linear()


def _log_norms(axes: Axes, known: Any) -> list[Any]:
    """What to divide the rows of every axis by, as logs; None where they are normalised."""
    found: list[Any] = [None] * len(axes)
    for i, operand in enumerate(axes):
        evidence = getattr(operand, "evidence", None)
        if evidence is not None and operand.log_norms is None:
            first = i == 0 and known is not None
            found[i] = known if first else log_values(operand.circuit, evidence)[0][:, 0]
    return found


def pieces(
    axes: Axes,
    kernel: ProductKernel,
    max_bytes: int,
    bar: Any = None,
    first: tuple[int, ...] = (0, 0, 0),
    rows_first: bool = False,
) -> Iterator[tuple[scaled.Place, ScaledArray]]:
    """Values for some rows of the axes after the other, and which these are.

    With `rows_first`, other axes than the first are cut only where it has a single row; `first` are
    the numbers of the first rows.
    """
    for joint, begin in parts(axes, kernel, max_bytes, rows_first, first):
        n, *others = map(extent_of, joint.axes)
        root = joint.values()
        if root is None:  # a few rows are out of range
            axis = int(np.argmax([operand.n_rows or 1 for operand in joint.axes]))
            for half, some in _halves(joint.axes, axis, begin):
                yield from pieces(some, kernel, max_bytes, bar, half, rows_first)
            continue
        if bar is not None:
            bar.update(prod(joint.shape))
        rest = tuple(slice(at, at + m) for at, m in zip(begin[1:], others, strict=False))
        # patterns become rows: several copies
        step = max(1, min(max_bytes, CHUNK_BYTES) // (64 * prod(others)))
        for rows in spans(n, step):
            own = slice(begin[0] + rows.start, begin[0] + rows.stop)
            yield (own, *rest), _by_rows(joint, root, rows)


def _mirrored(
    axes: Axes, kernel: ProductKernel, max_bytes: int, bar: Any, first: tuple[int, ...] = (0, 0)
) -> Iterator[tuple[scaled.Place, ScaledArray]]:
    """The pieces of a symmetric matrix: one corner, its mirror image, and two others likewise."""
    options, n_rows = (kernel, max_bytes, bar), extent_of(axes[0])
    if n_rows < SYMMETRIC_ROWS:
        joint, _ = next(parts(axes, kernel, max_bytes), (None, ()))
        if joint is None or prod(map(extent_of, joint.axes)) == n_rows**2:  # not cut anyway
            yield from pieces(axes, *options, first)
            return
    (a, one), (b, two) = _halves(axes, 0, first)
    for at, piece in pieces((one[0], two[0]), *options, (a[0], b[0])):
        yield at, piece
        yield at[::-1], piece.mapped(namespace(piece.data).matrix_transpose)
    for start, (half, _) in ((a[0], one), (b[0], two)):
        yield from _mirrored((half, half), *options, (start, start))


def parts(
    axes: Axes,
    kernel: ProductKernel,
    max_bytes: int,
    rows_first: bool = False,
    first: tuple[int, ...] = (0, 0, 0),
) -> Iterator[tuple[JointPass, tuple[int, ...]]]:
    """The passes that are made, which fit into memory, and the numbers of their first rows."""
    rows = [1 if operand.n_rows is None else operand.n_rows for operand in axes]
    if not all(rows):
        return
    wide = [i for i, operand in enumerate(axes) if operand.max_rows and rows[i] > operand.max_rows]
    axis = wide[-1] if wide else None
    if axis is None:
        joint = JointPass(axes, kernel)
        limit = min(max_bytes, LAYER_BYTES if joint.by_layers else CHUNK_BYTES)
        if is_on_gpu(joint.like) and max(rows) > 1:
            given = max_bytes != arrays.DEFAULT_MAX_BYTES
            limit = max_bytes if given else total_bytes(joint.like) // DEVICE_SHARE
        if max(rows) == 1 or joint.n_bytes <= limit:
            yield joint, first
            return
        axis = 0 if rows_first and rows[0] > 1 else rows.index(max(rows))
    for start, some in _halves(axes, axis, first):
        yield from parts(some, kernel, max_bytes, rows_first, start)


def extent_of(operand: Any) -> int:
    """The number of rows, or roots, of an axis."""
    return int(operand.circuit.n_roots if operand.n_rows is None else operand.n_rows)


def _halves(
    axes: Axes, axis: int, first: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], Axes]]:
    """The axes with either half of the rows of one, and the numbers of their first rows."""
    n = extent_of(axes[axis])
    for chosen in (slice(0, n // 2), slice(n // 2, n)):
        begin = tuple(at + chosen.start * (i == axis) for i, at in enumerate(first))
        yield begin, (*axes[:axis], axes[axis].rows(chosen), *axes[axis + 1 :])


def _by_rows(joint: JointPass, values: ScaledArray, some: slice = slice(None)) -> ScaledArray:
    """The values of the kernel with one entry per row along every axis, some of the first."""
    kernel, axes = joint.kernel, joint.axes
    if kernel.operands:
        values = _contracted(values, kernel.weights)
    elif is_torch_array(kernel.weights) or kernel.weights[0] != 1.0:
        values = _contracted(values.mapped(lambda x: x[None]), kernel.weights)
    circuits = [i for i, operand in enumerate(axes) if not isinstance(operand, PointOperand)]
    places = {i: n for n, i in enumerate(circuits)}
    places.update({i: len(circuits) + n for n, i in enumerate(joint.batched)})
    order = [places[i] for i in range(len(axes))]
    rest = [i for i in range(values.data.ndim) if i not in order]  # one root each, given evidence
    if rest or order != sorted(order):
        xp = namespace(values.data)
        values = values.mapped(lambda x: xp.permute_dims(x, (*rest, *order))[(0,) * len(rest)])
    for axis, operand in enumerate(axes):
        rows = None if joint.by_layers and axis in joint.batched else operand.row_index
        if rows is not None:
            index = as_like(rows[some] if axis == 0 else rows, values.data)
            values = values.mapped(partial(take, index=index, axis=axis))
        elif axis == 0:
            values = values.mapped(itemgetter(some))
    logs = [getattr(operand, "log_norms", None) for operand in axes]
    values = scaled.divided(values, logs, (some, *(slice(None),) * (len(axes) - 1)))
    if isinstance(values.data, np.ndarray) and not isinstance(joint.array, np.ndarray):
        values = values.mapped(partial(as_like, like=joint.array))
    return values


def _contracted(values: ScaledArray, weights: Any) -> ScaledArray:
    """The sum over the kernel's roots, with their weights."""
    top = 1.0
    if is_torch_array(weights):
        like = values.data
        weights = weights.to(like) if is_torch_array(like) else arrays.to_numpy(weights)
    else:  # products with the largest may be too large
        top = weights.max()
        weights = as_like(weights / top, values.data)
    found = scaled.contracted(values, weights, 0).mapped(lambda x: x[0, ...])
    if top == 1.0:
        return found
    zero = namespace(found.data).zeros_like(found.data)
    return replace(found, scale=(zero if found.scale is None else found.scale) + log(top))
