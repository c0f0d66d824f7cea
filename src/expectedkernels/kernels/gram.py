"""Kernel operands at vtree nodes, and expected Gram matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from math import inf, prod
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
from array_api_compat import is_torch_array
from scipy import sparse

from expectedkernels.arrays import as_like, has_gradient, is_on_card, namespace, take, to_numpy
from expectedkernels.checks import KernelError
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.operands import Atoms, CircuitSide, PointSide
from expectedkernels.circuits.queries import log_values
from expectedkernels.engine.blocks import Inner, at_nodes, from_leaves, inner, side_by_side
from expectedkernels.engine.sweep import Operand, Remote, peak_bytes, sweep
from expectedkernels.engine.value import (
    Value,
    Weights,
    applied,
    from_log,
    joined,
    plain,
    spread,
    weights_of,
)
from expectedkernels.kernels.factors import Factor, log_pairs, log_triples, triples
from expectedkernels.kernels.points import Place, Scaled, concatenated, divided
from expectedkernels.vtree import Vtree


@dataclass(frozen=True, eq=False)
class KernelBlocks:
    """A kernel circuit on a vtree.

    Attributes
    ----------
    operand : Operand
        Its sum and product units.
    factors : list (per variable) of tuples of Factor
        Its input units.
    weights : array of shape (roots,)
        The kernel is the sum of its roots with these weights.
    tensor : tensor of shape (roots,), or None
        The weights, if gradients by them are asked for.
    kept : dict, or None
        Where values on pairs of states are kept from sweep to sweep, for who makes many of them
        in one place, of two axes, and asks for no gradients by the kernel.
    """

    operand: Operand
    factors: list[tuple[Factor, ...]]
    weights: Any
    tensor: Any = None
    kept: dict[Any, Value] | None = None

    @property
    def vtree(self) -> Vtree:
        """The vtree."""
        return self.operand.vtree

    @property
    def operands(self) -> tuple[Operand, ...]:
        """What it adds to a sweep."""
        return (self.operand,)

    def leaves(self, atoms: Callable[[int], tuple[Atoms, ...]], like: Any) -> Any:
        """A function from leaves to the kernel's input units there, on all pairs of atoms.

        With three axes on all triples; the kernel must be a single product then.
        """
        memo: dict[Any, Value] = {} if self.kept is None else self.kept

        def single(variable: int, of_axes: tuple[Atoms, ...]) -> Value:
            factors = self.factors[variable]
            if of_axes[0].cardinality is None:
                return _leaf_value(factors, of_axes, variable, like)
            key = (factors, of_axes[0].cardinality)
            if key not in memo:
                memo[key] = _leaf_value(factors, of_axes, variable, like)
            return memo[key]

        def leaf(nodes: Any) -> Value:
            variable = int(self.vtree.variable[nodes[0]])
            of_axes = atoms(variable)  # leaves that are folded have equal domains
            if len(of_axes) == 3 and not (is_parallel(self) and len(self.weights) == 1):
                raise KernelError(
                    "The product of two values of a kernel needs a kernel that is a product over "
                    f"the variables. This one is a sum of {len(self.weights)} terms, or a circuit."
                )
            if self._are_alike or len(nodes) == 1:
                return spread(single(variable, of_axes), len(nodes))
            variables = self.vtree.variable[nodes].tolist()
            return joined([single(v, of_axes) for v in variables], 0)

        return leaf

    @cached_property
    def signature(self) -> tuple[Any, ...]:
        """What tells the input units from those of other kernels on the same operand."""
        first = tuple(factor.signature for factor in self.factors[0])
        if self._are_alike:
            return first
        return tuple(tuple(factor.signature for factor in factors) for factors in self.factors)

    @cached_property
    def has_gradients(self) -> bool:
        """Whether gradients by a rate, a table or a weight are asked for."""
        every = self.factors[:1] if self._are_alike else self.factors
        return self.tensor is not None or any(f.tensors for factors in every for f in factors)

    @cached_property
    def _are_alike(self) -> bool:
        """Whether all variables have the same factors."""
        return self.factors.count(self.factors[0]) == len(self.factors)

    @property
    def root_weights(self) -> Weights | None:
        """The weights of the roots, None if there is one root of weight one."""
        if self.tensor is not None:
            return weights_of(self.tensor[None, :])
        if len(self.weights) == 1 and self.weights[0] == 1.0:
            return None
        return weights_of(np.asarray(self.weights, dtype=np.float64)[None, :])


@dataclass(frozen=True, eq=False)
class Tables:
    """A product kernel given by plain numbers on the atoms of every variable.

    Attributes
    ----------
    vtree : Vtree
    table : function of a variable and the atoms of all axes
        Gives an array with one axis for each, of numbers that are zero or of a size that products
        of many can have.
    """

    vtree: Vtree
    table: Callable[[int, tuple[Any, ...]], Any]

    root_weights = None
    operands: ClassVar[tuple[Operand, ...]] = ()
    """What it adds to a sweep: nothing, as it has one unit per node."""

    def leaves(self, atoms: Callable[[int], tuple[Any, ...]], like: Any) -> Any:
        """A function from leaves to the numbers of their variables."""

        def leaf(nodes: Any) -> Value:
            values = []
            for variable in self.vtree.variable[nodes].tolist():
                table = self.table(variable, atoms(variable))
                values.append(plain(table[None], (1,) * table.ndim))
            return values[0] if len(values) == 1 else joined(values, 0)

        return leaf


def _leaf_value(
    factors: Sequence[Factor], atoms: tuple[Atoms, ...], variable: int, like: Any
) -> Value:
    """The values of some factors of one variable on all pairs (or triples) of atoms.

    In tensors that know their gradients, if such are asked for.
    """
    found: list[tuple[Any, Any, Any]]
    if len(atoms) == 2 and is_torch_array(like) and any(factor.tensors for factor in factors):
        found = [f.logs_with_gradients(*atoms, variable, like) for f in factors]
    else:
        of_factor: Any = Factor.logs if len(atoms) == 2 else log_triples
        found = [(*of_factor(factor, *atoms, variable), None) for factor in factors]
    xp, sign = namespace(found[0][0]), None
    if any(s is not None for _, s, _ in found):
        signs = [np.ones(tuple(x.shape)) if s is None else s for x, s, _ in found]
        sign = as_like(np.stack(signs)[None], like)
    logs = as_like(xp.stack([x for x, _, _ in found])[None, ...], like)
    value = from_log(logs, (1,) * (1 + len(atoms)), sign)
    if all(zeros is None for _, _, zeros in found):
        return value
    if value.is_log:
        raise KernelError(
            f"Gradients by the table of variable {variable} are not exact: it has zeros, and its "
            "other entries are too far apart. Take a smaller rate, or a table without zeros."
        )
    zeros = xp.stack([xp.zeros_like(x) if z is None else z for x, _, z in found])[None, ...]
    scale = 1.0 if value.scale is None else xp.exp(-value.scale)
    return replace(value, data=value.data + scale * zeros)


@lru_cache(maxsize=16)
def parallel_operand(vtree: Vtree, terms: int) -> Operand:
    """The units of `terms` product kernels side by side."""
    block = Inner(terms, terms, None, None, None)
    blocks = at_nodes(vtree, None, lambda _: block)
    return Operand(vtree, [terms] * vtree.n_nodes, blocks, ["kernel"] * vtree.n_nodes)


def product_form(vtree: Vtree, factors: Sequence[Factor]) -> KernelBlocks:
    """The product of one factor per variable, split along the vtree."""
    inputs: list[tuple[Factor, ...]] = [(f,) for f in factors]
    if factors.count(factors[0]) == len(factors):  # one tuple is made, and found equal, faster
        inputs = inputs[:1] * len(factors)
    return KernelBlocks(parallel_operand(vtree, 1), inputs, np.ones(1))


def is_parallel(blocks: KernelBlocks) -> bool:
    """Whether the kernel is a weighted sum of products, without sums inside."""
    terms = len(blocks.weights)
    return all(
        block is None
        or (block.left is block.right is block.weights is None and block.n_units == terms)
        for block in blocks.operand.inner
    )


def direct_sum(
    parts: Sequence[KernelBlocks], scales: Sequence[float], tensors: Sequence[Any]
) -> KernelBlocks:
    """The sum of kernels, each times a scale, for which there may be tensors."""
    vtree = parts[0].vtree
    tensor = None
    if any(map(has_gradient, tensors)) or any(part.tensor is not None for part in parts):
        every: list[Any] = []
        for scale, part in zip(tensors, parts, strict=True):
            own = part.weights if part.tensor is None else part.tensor
            every.append((as_like(own, scale) if has_gradient(scale) else own) * scale)
        like = next(x for x in every if not isinstance(x, np.ndarray))
        tensor = namespace(like).concat([as_like(x, like).to(like.device) for x in every])
    weights = np.concatenate(
        [_multiplied(s, part.weights) for s, part in zip(scales, parts, strict=True)]
    )
    factors = [
        tuple(f for part in parts for f in part.factors[v]) for v in range(vtree.n_variables)
    ]
    if all(is_parallel(part) for part in parts):
        return KernelBlocks(parallel_operand(vtree, len(weights)), factors, weights, tensor)
    operands = [part.operand for part in parts]
    units = list(map(sum, zip(*(op.units for op in operands), strict=True)))

    def inner_at(node: int) -> Inner:
        children = vtree.left[node], vtree.right[node]
        n_left, n_right = ([op.units[child] for op in operands] for child in children)
        return side_by_side([op.inner[node] for op in operands], n_left, n_right)

    return KernelBlocks(_operand(vtree, units, inner_at), factors, weights, tensor)


def kronecker(a: KernelBlocks, b: KernelBlocks) -> KernelBlocks:
    """The product of two kernels: units are pairs of units."""
    vtree = a.vtree
    weights = _multiplied(a.weights[:, None], b.weights[None, :]).ravel()
    tensor = None
    if a.tensor is not None or b.tensor is not None:
        like = b.tensor if a.tensor is None else a.tensor
        one, two = (as_like(x.weights if x.tensor is None else x.tensor, like) for x in (a, b))
        tensor = (one[:, None] * two.to(one.device)[None, :]).reshape(-1)
    factors = [
        tuple(f * g for f in a.factors[v] for g in b.factors[v]) for v in range(vtree.n_variables)
    ]
    if is_parallel(a) and is_parallel(b):
        return KernelBlocks(parallel_operand(vtree, len(weights)), factors, weights, tensor)
    units = [m * n for m, n in zip(a.operand.units, b.operand.units, strict=True)]

    def inner_at(node: int) -> Inner:
        first: Any = a.operand.inner[node]
        second: Any = b.operand.inner[node]
        children = vtree.left[node], vtree.right[node]
        left, right = (
            (one[:, None] * b.operand.units[child] + other[None, :]).ravel()
            for one, other, child in zip(first.inputs, second.inputs, children, strict=True)
        )
        matrix = sparse.csr_array(sparse.kron(first.csr, second.csr, format="csr"))
        return inner(left, right, matrix, *(units[child] for child in children))

    return KernelBlocks(_operand(vtree, units, inner_at), factors, weights, tensor)


def _multiplied(a: Any, b: Any) -> Any:
    """The products of weights, which multiply before anything else; raises if one is no float."""
    with np.errstate(over="ignore", under="ignore"):
        products = a * b
    lost = (products == 0) & (a != 0) & (b != 0)
    if lost.any() or not np.isfinite(products).all():
        raise KernelError(
            "The weights of this kernel multiply to a number that is too "
            f"{'small' if lost.any() else 'large'} for a float. Scale it by less."
        )
    return products


def _operand(vtree: Vtree, units: list[int], inner_at: Callable[[int], Inner]) -> Operand:
    return Operand(vtree, units, at_nodes(vtree, None, inner_at), [None] * vtree.n_nodes)


NEGLIGIBLE = 1e-100
"""Factors of a kernel below this count as zero; all others are at most one."""
FAR = 1e5
"""Scaled squared distances from the middle above which dot products lose too many digits."""


def gaussian(vtree: Vtree, rates: Sequence[Any], components: Sequence[int] | None = None) -> Tables:
    """The kernel on a vtree, given the rates of the columns of every variable.

    With the numbers of components that the variables of the first axis have, its other atoms are
    observed values that are taken out: the kernel is one there, and where points are NaN.
    """
    made: dict[int, tuple[Any, Any]] = {}  # the same points meet one set of rows after the other

    def table(variable: int, atoms: tuple[Atoms, ...]) -> Any:
        if components is None:
            return on_atoms(rates[variable], *atoms)
        first, *others = atoms
        if np.isnan(others[0].mean[0]).any():
            return np.ones([x.n for x in atoms])
        known, values = made.get(variable, ((), None))
        if [*map(id, known)] != [*map(id, others)]:
            values = on_atoms(rates[variable], first.first(components[variable]), *others)
            made[variable] = others, values
        ones = np.ones((first.n - len(values), *values.shape[1:]))
        return np.concatenate([values, ones])

    return Tables(vtree, table)


def on_atoms(rates: Any, *atoms: Atoms) -> Any:
    """The numbers E k(x, y) for all pairs of atoms, or E k(x, y) k(x, z) for all triples.

    Parameters
    ----------
    rates : array of shape (columns,)
    *atoms : Atoms
        Of a real variable with as many columns.

    Examples
    --------
    >>> unit = Atoms(None, np.array([0.5]), np.zeros(1), np.array([0.5]))
    >>> zero = Atoms(None, np.zeros(1), np.zeros(1))
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
    operand = _operand(vtree, units, inner)
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
SYMMETRIC_ROWS = 64
"""From this many rows on, computing half of a symmetric matrix is worth three sweeps for one."""


def gram(
    axes: Axes,
    kernel: ProductKernel,
    max_bytes: int,
    bar: Any = None,
    symmetric: bool = False,
) -> Scaled:
    """Values for all rows of the axes, in chunks that fit into memory.

    Two axes give E k(x, y), three give E k(x, y) k(x, z), with x on the first. With `symmetric`,
    there are two, they are the same and so is the kernel: half of it is computed.
    """
    if any(side.n_rows == 0 for side in axes):
        shape = tuple(map(extent_of, axes))
        return Scaled(as_like(np.zeros(shape), _array_of(axes)), None)
    axis, operands = _split(axes, kernel, max_bytes)
    if symmetric and (axis is not None or extent_of(axes[0]) >= SYMMETRIC_ROWS):
        return _symmetric_gram(axes[0], kernel, max_bytes, bar)
    if axis is not None:
        halves = [gram(some, kernel, max_bytes, bar) for _, some in _halves(axes, axis)]
        return concatenated(halves, axis)
    return _by_rows(_root(operands, axes, kernel, max_bytes, bar), axes)


def expected(axes: Axes, kernel: ProductKernel, max_bytes: int, logs: Any = None) -> Any:
    """The plain numbers of `gram`, given the evidence of the rows of every axis.

    `logs` are the log probabilities of that of the first axis, if they are known.
    """
    every = (slice(None),) * len(axes)
    return divided(gram(axes, kernel, max_bytes), _row_logs(axes, logs), every).linear()


def expected_pieces(
    axes: Axes, kernel: ProductKernel, max_bytes: int, logs: Any = None
) -> Iterator[tuple[Place, Any]]:
    """The same for some rows of the first axis after the other, and which these are."""
    logs = _row_logs(axes, logs)
    for at, piece in pieces(axes, kernel, max_bytes, rows_first=True):
        yield at, divided(piece, logs, at).linear()


def _row_logs(axes: Axes, known: Any) -> list[Any]:
    """What to divide the rows of every axis by, as logs; None where they are normalised."""
    found: list[Any] = [None] * len(axes)
    for i, side in enumerate(axes):
        evidence = getattr(side, "evidence", None)
        if evidence is not None:
            first = i == 0 and known is not None
            found[i] = known if first else log_values(side.circuit, evidence)[0][:, 0]
    return found


def pieces(
    axes: Axes,
    kernel: ProductKernel,
    max_bytes: int,
    bar: Any = None,
    rows_first: bool = False,
) -> Iterator[tuple[Place, Scaled]]:
    """Values for some rows of the axes after the other, and which these are.

    With `rows_first`, other axes than the first are cut only where it has a single row.
    """
    for some, operands, (begin, *later) in parts(axes, kernel, max_bytes, rows_first):
        root = _root(operands, some, kernel, max_bytes, bar)
        n, *others = map(extent_of, some)
        rest = tuple(slice(at, at + m) for at, m in zip(later, others, strict=True))
        # patterns become rows: several copies
        step = max(1, min(max_bytes, CHUNK_BYTES) // (64 * prod(others)))
        for start in range(0, n, step):
            rows = slice(start, min(n, start + step))
            at = (slice(begin + rows.start, begin + rows.stop), *rest)
            yield at, _by_rows(root, some, rows)


def parts(
    axes: Axes,
    kernel: ProductKernel,
    max_bytes: int,
    rows_first: bool = False,
    first: tuple[int, ...] | None = None,
) -> Iterator[tuple[Axes, list[Operand], tuple[int, ...]]]:
    """The rows of the axes that are swept at once, what is swept, and which rows come first."""
    if any(side.n_rows == 0 for side in axes):
        return
    first = (0,) * len(axes) if first is None else first
    axis, operands = _split(axes, kernel, max_bytes, rows_first)
    if axis is None:
        yield axes, operands, first
        return
    for start, some in _halves(axes, axis):
        begin = tuple(at + start * (i == axis) for i, at in enumerate(first))
        yield from parts(some, kernel, max_bytes, rows_first, begin)


def extent_of(side: Any) -> int:
    """The number of rows, or roots, of an axis."""
    return int(side.circuit.n_roots if side.n_rows is None else side.n_rows)


def _split(
    axes: Axes, kernel: ProductKernel, max_bytes: int, rows_first: bool = False
) -> tuple[int | None, list[Operand]]:
    """Which axis has too many rows to be swept at once; None and what to sweep if none has."""
    rows = [side.n_rows or 1 for side in axes]
    for axis, side in enumerate(axes):
        if side.max_rows and rows[axis] > side.max_rows:
            return axis, []
    operands = [*kernel.operands, *(side.operand for side in axes)]
    if max(rows) > 1 and peak_bytes(operands) > min(max_bytes, CHUNK_BYTES):
        return 0 if rows_first and rows[0] > 1 else rows.index(max(rows)), []
    return None, operands


def _halves(axes: Axes, axis: int) -> Iterator[tuple[int, Axes]]:
    """The axes with either half of the rows of one, and where these begin."""
    n = extent_of(axes[axis])
    for chosen in (slice(0, n // 2), slice(n // 2, n)):
        yield chosen.start, (*axes[:axis], axes[axis].rows(chosen), *axes[axis + 1 :])


def _root(
    operands: list[Operand], axes: Axes, kernel: ProductKernel, max_bytes: int, bar: Any
) -> Value:
    """The value at the root."""
    root = sweep(operands, _leaf(axes, kernel), max_bytes, _remote(axes, kernel))
    weights = kernel.root_weights
    if weights is not None:
        if is_torch_array(weights.matrix):  # as a parameter of the kernel
            on_host = isinstance(root.data, np.ndarray)
            there = to_numpy(weights.matrix) if on_host else weights.matrix.to(root.data)
            weights = replace(weights, matrix=there)
        root = applied(root, weights, 1)
    if bar is not None:
        bar.update(prod(side.n_rows or 1 for side in axes))
    return root


def _symmetric_gram(side: Any, kernel: ProductKernel, max_bytes: int, bar: Any) -> Scaled:
    """The values for all pairs of rows of one side, of which the corner is computed once."""
    n = side.n_rows or 1
    first, second = side.rows(slice(0, n // 2)), side.rows(slice(n // 2, n))
    corner = gram((first, second), kernel, max_bytes, bar)
    mirrored = corner.mapped(namespace(corner.data).matrix_transpose)
    above = gram((first, first), kernel, max_bytes, bar, symmetric=True)
    below = gram((second, second), kernel, max_bytes, bar, symmetric=True)
    halves = [concatenated([above, corner], 1), concatenated([mirrored, below], 1)]
    return concatenated(halves, 0)


def array_in(circuit: Circuit) -> Any:
    """One of the circuit's arrays."""
    return circuit.blocks[0].numbers


def _array_of(axes: Axes) -> Any:
    """An array of the first circuit: results live where it does."""
    return array_in(next(side.circuit for side in axes if not isinstance(side, PointSide)))


def _remote(axes: Axes, kernel: ProductKernel) -> Remote | None:
    """What a sweep on a card may be captured by; None elsewhere."""
    like = _array_of(axes)
    if not is_on_card(like):
        return None
    whole = all(isinstance(side, CircuitSide) and side.evidence is None for side in axes)
    key = None
    if whole and isinstance(kernel, KernelBlocks) and not kernel.has_gradients:
        key = kernel.signature
    return Remote(like, key, lambda: _leaf(axes, kernel))


def _leaf(axes: Axes, kernel: ProductKernel) -> Any:
    """Leaves of the sweep: the kernel on atoms, expanded to the units of all axes."""
    inputs = kernel.leaves(lambda v: tuple(side.atoms(v) for side in axes), _array_of(axes))
    own = len(kernel.operands)
    # points only choose from their atoms: they do it while the others are atoms still
    order = sorted(range(len(axes)), key=lambda i: not isinstance(axes[i], PointSide))

    def leaf(nodes: Any, parts: Any) -> Value:
        value = inputs(nodes)
        for i in order:
            value = axes[i].expand(value, own + 1 + i, nodes, parts and parts[own + i])
        return value

    return leaf


def _by_rows(root: Value, axes: Axes, some: slice = slice(None)) -> Scaled:
    """The root's value with one entry per row along every axis, for some rows of the first."""
    values = _scaled(root, root.data.ndim - len(axes))  # the root, and the whole kernel
    for axis, side in enumerate(axes):
        rows = side.root_rows
        if rows is None and axis == 0:
            values = values.mapped(itemgetter((some, ...)))
        elif rows is not None:
            index = as_like(rows[some] if axis == 0 else rows, values.data)
            values = values.mapped(partial(take, index=index, axis=axis))
    logs = [getattr(side, "row_logs", None) for side in axes]
    return divided(values, logs, (some, *(slice(None),) * (len(axes) - 1)))


def _scaled(root: Value, leading: int) -> Scaled:
    """The root's value at the first entry of some leading axes."""
    xp = namespace(root.data)
    first: Any = (*(0,) * leading, ...)
    if root.is_log:
        finite = root.data > -inf
        data = xp.astype(finite, root.data.dtype)
        data = (data if root.sign is None else root.sign)[first]
        return Scaled(data, xp.where(finite, root.data, xp.zeros_like(root.data))[first])
    data, scale = root.data[first], root.scale
    return Scaled(data, None if scale is None else xp.broadcast_to(scale[first], data.shape))


def by_kernel_root(axes: Axes, kernel: ProductKernel, max_bytes: int) -> Any:
    """Values of circuits without evidence, for every root of the kernel: its weights are unused."""
    operands = [*kernel.operands, *(side.operand for side in axes)]
    root = sweep(operands, _leaf(axes, kernel), max_bytes, _remote(axes, kernel))
    return _scaled(root, 1).linear()
