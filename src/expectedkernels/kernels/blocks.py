"""Kernels in blocks on a vtree: what every kernel becomes before it is swept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from array_api_compat import is_torch_array
from scipy import sparse

from expectedkernels.arrays import as_like, has_gradient, namespace
from expectedkernels.circuits.sides import Atoms
from expectedkernels.engine.blocks import Inner, inner, side_by_side
from expectedkernels.engine.nodes import at_nodes
from expectedkernels.engine.sweep import Operand
from expectedkernels.engine.value import Value, Weights, from_log, joined, plain, spread, weights_of
from expectedkernels.errors import KernelError
from expectedkernels.kernels.factors import Factor
from expectedkernels.kernels.triples import log_triples
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
        alike = self.factors.count(self.factors[0]) == len(self.factors)

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
            if alike or len(nodes) == 1:
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
    """The values of some factors of one variable on all pairs (or triples) of atoms."""
    if len(atoms) == 2 and is_torch_array(like) and any(factor.tensors for factor in factors):
        return _leaf_with_gradients(factors, atoms, variable, like)
    of_factor: Any = Factor.logs if len(atoms) == 2 else log_triples
    parts = [of_factor(factor, *atoms, variable) for factor in factors]
    logs = namespace(parts[0][0]).stack([x for x, _ in parts])
    sign = None
    if any(s is not None for _, s in parts):
        sign = np.stack([np.ones_like(x) if s is None else s for x, s in parts])
        sign = as_like(sign[None], like)
    return from_log(as_like(logs[None, ...], like), (1,) * (1 + len(atoms)), sign)


def _leaf_with_gradients(
    factors: Sequence[Factor], atoms: tuple[Atoms, ...], variable: int, like: Any
) -> Value:
    """The same in tensors that know their gradients."""
    one, two = atoms
    found = [f.logs_with_gradients(one, two, variable, like) for f in factors]
    xp, sign = namespace(like), None
    logs = xp.stack([x for x, _, _ in found])[None, ...]
    if any(s is not None for _, s, _ in found):
        sign = as_like(
            np.stack([np.ones(tuple(x.shape)) if s is None else s for x, s, _ in found])[None], like
        )
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
    alike = factors.count(factors[0]) == len(factors)
    # one tuple for all is made, and found equal, faster
    one: tuple[Factor, ...] = (factors[0],)
    inputs = [one] * len(factors)
    if not alike:
        inputs = [(f,) for f in factors]
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
    parts: Sequence[KernelBlocks], scales: Sequence[float], tensors: Sequence[Any] | None = None
) -> KernelBlocks:
    """The sum of kernels, each times a scale, for which there may be tensors."""
    vtree = parts[0].vtree
    tensor = None
    known = scales if tensors is None else tensors
    if any(map(has_gradient, known)) or any(part.tensor is not None for part in parts):
        tensor = _concatenated([_in_tensors(s, part) for s, part in zip(known, parts, strict=True)])
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


def _in_tensors(scale: Any, part: KernelBlocks) -> Any:
    """The weights of a kernel times a scale: a tensor if gradients by one of them are asked for."""
    weights = part.weights if part.tensor is None else part.tensor
    return as_like(weights, scale) * scale if has_gradient(scale) else weights * scale


def _concatenated(weights: Sequence[Any]) -> Any:
    """Weights of which some are tensors as one tensor."""
    like = next(x for x in weights if not isinstance(x, np.ndarray))
    return namespace(like).concat([as_like(x, like).to(like.device) for x in weights])


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
