"""Kernels, their sums and products, and kernels that are circuits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import inf, isfinite
from numbers import Real
from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from numpy.typing import ArrayLike

from expectedkernels import arrays, checks
from expectedkernels.arrays import Array, NumbersLike, RowsLike, TablesLike
from expectedkernels.checks import CompatibilityError, KernelError, PropertyError, Verdict
from expectedkernels.circuits.build import with_root_weights
from expectedkernels.circuits.circuit import Circuit, cpu_circuit
from expectedkernels.circuits.graph import Categorical, Graph, Sum, Unit
from expectedkernels.circuits.inputs import Table
from expectedkernels.circuits.operands import InputComponents
from expectedkernels.circuits.properties import is_compatible
from expectedkernels.circuits.queries import log_values
from expectedkernels.data.evidence import Domains, as_evidence, as_points, check_rows, number_rows
from expectedkernels.data.tables import as_floats
from expectedkernels.display import overview
from expectedkernels.engine.blocks import at_nodes
from expectedkernels.engine.scaled import ScaledArray
from expectedkernels.kernels import gram, points
from expectedkernels.kernels.factors import Factor
from expectedkernels.kernels.gram import KernelBlocks
from expectedkernels.vtree import Vtree

CHUNK = 2**22
"""How many kernel values of points are worked on at once."""
NAMES = ("RBF", "Laplacian", "ExpHamming", "Delta", "TableKernel", "SumKernel", "ProductKernel")
"""Kernels of the library, whose names those of others may have."""
BLOCK = 1024
"""How many points on either side the values of a kernel are computed for at once."""


ASK_FOR_LOGS = (
    "Take smaller weights, or ask for logarithms: Kernel.logs(X, Y), or log=True in "
    "expected_kernel."
)


@checks.public
class Kernel:
    """A kernel on pairs of points.

    Kernels add (``k + l``), multiply (``k * l``) and scale by positive numbers (``2.0 * k``);
    the results are kernels again. Calling a kernel gives the Gram matrix of points.

    `gamma`, tables and weights may be tensors of torch that require gradients. Then
    `expected_kernel`, `mmd2`, `mmd`, `witness`, `kdsd`, Gram matrices and those of `SteinKernel`
    are tensors that know them (circuits are moved to torch). What has no derivative works with the
    numbers of these tensors: tests, samples, choices, estimators. All else raises.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> k = 2.0 * ek.RBF(gamma=0.5) + ek.Delta() * ek.Laplacian(gamma=1.0)
    >>> k
    (2.0 * RBF(gamma=0.5) + Delta() * Laplacian(gamma=1.0))
    >>> k([[0, 0], [1, 1]]).round(6).tolist()
    [[3.0, 0.735759], [0.735759, 3.0]]

    >>> import torch
    >>> rate = torch.tensor(0.5, requires_grad=True)
    >>> p = ek.factorized([[0.5, 0.5]])
    >>> ek.expected_kernel(p, p, ek.RBF(rate)).backward()
    >>> round(rate.grad.item(), 6)
    -0.303265
    """

    def _repr_html_(self) -> str:
        verdict = str(self.is_positive_definite())
        return overview("Kernel", {"kernel": repr(self), "positive definite": verdict})

    kernels: Sequence[Kernel] = ()
    """What the kernel is made of."""
    _definite = "exponentials of distances are positive definite"
    _combined: Any
    """The values of the kernel, from those of its parts."""

    @property
    def domains(self) -> Domains | None:
        """The number of states of every variable, None if the kernel fits any."""
        return next((k.domains for k in self.kernels if k.domains is not None), None)

    @property
    def vtree(self) -> Vtree | None:
        """How the kernel splits its variables, None if it fits any vtree."""
        return next((k.vtree for k in self.kernels if k.vtree is not None), None)

    @property
    def tensors(self) -> list[Array]:
        """The parameters that are tensors which require gradients."""
        return [x for k in self.kernels for x in k.tensors]

    def scaled(self, X: Array, Y: Array) -> ScaledArray:
        """The values k(x_i, y_j) with their logs; tensors, if parameters require gradients."""
        raise NotImplementedError

    def _scaled_parts(self, X: Any, Y: Any) -> list[ScaledArray]:
        """The values of all parts with their logs, in tensors if there is one."""
        parts = [k.scaled(X, Y) for k in self.kernels]
        return list(map(points.in_tensors, parts)) if self.tensors else parts

    def blocks(self, vtree: Vtree, domains: Domains) -> KernelBlocks:
        """The kernel as a circuit on a vtree; raises if it does not fit the variables."""
        raise NotImplementedError

    def pairs(self, X: Array, Y: Array) -> Array:
        """The values k(x_i, y_i) for the rows of two arrays of the same shape."""
        return self._combined([k.pairs(X, Y) for k in self.kernels])

    def gram(self, X: Array, Y: Array) -> Array:
        """The values k(x_i, y_j) of all rows; of a product of exponentials one of a sum."""
        factors = self.factors(X.shape[1])
        if factors is not None:
            return points.product_values(factors, X, Y)
        if self.kernels:
            return self._combined([k.gram(X, Y) for k in self.kernels])
        return self.scaled(X, Y).linear("The kernel", ASK_FOR_LOGS)

    def factors(self, n_variables: int) -> list[Factor] | None:
        """One factor per variable whose product is the kernel; None if it is not made like that."""
        return None

    def is_symmetric(self, n_variables: int) -> bool:
        """Whether k(x, x') and k(x', x) are known to be equal."""
        return bool(self.kernels) and all(k.is_symmetric(n_variables) for k in self.kernels)

    def is_positive_definite(self, cardinalities: Domains | None = None) -> Verdict:
        """Whether the kernel is positive (semi-)definite, by its inputs and weights.

        It is if all inputs are and no weight is negative, since such kernels are closed
        under sums and products. The check is linear in the number of inputs; it is
        sufficient, not necessary.

        Parameters
        ----------
        cardinalities : sequence of int or None, optional
            The states of every variable, for kernels that depend on them.

        Returns
        -------
        Verdict

        Examples
        --------
        >>> import expectedkernels as ek
        >>> bool(ek.RBF(gamma=0.5).is_positive_definite())
        True
        """
        verdicts = self._verdicts(cardinalities)
        return next((found for found in verdicts if not found), Verdict(True, self._definite))

    def _verdicts(self, cardinalities: Domains | None) -> Iterable[Verdict]:
        """Whether the kernels that this one is made of are positive definite."""
        return (k.is_positive_definite(cardinalities) for k in self.kernels)

    def __call__(self, X: RowsLike, Y: RowsLike | None = None) -> Array:
        """The Gram matrix of the rows of X and Y (default: X).

        Parameters
        ----------
        X, Y : arrays of shape (points, variables), or data frames

        Returns
        -------
        array of shape (points of X, points of Y)
            A tensor, if parameters of the kernel require gradients.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> ek.Delta()([[0, 1], [1, 1]]).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        if self.tensors:
            return self.scaled(*_two_sets(X, Y)).linear("The kernel", ASK_FOR_LOGS)
        return self.numbers(X, Y)

    def numbers(self, X: RowsLike, Y: RowsLike | None = None) -> Array:
        """The Gram matrix in NumPy, whether gradients are required or not.

        Parameters
        ----------
        X, Y : arrays of shape (points, variables), or data frames
            The points. Y defaults to X.

        Returns
        -------
        array of shape (points of X, points of Y)

        Examples
        --------
        >>> import expectedkernels as ek
        >>> ek.Delta().numbers([[0, 1]], [[1, 1], [0, 1]]).tolist()
        [[0.0, 1.0]]
        """
        first, second = _two_sets(X, Y)
        values = np.empty((len(first), len(second)))
        mirrored = second is first and self.is_symmetric(first.shape[1])
        with np.errstate(over="ignore"):
            for rows, columns in _blocks(first, second):
                if mirrored and rows.start > columns.start:
                    values[rows, columns] = values[columns, rows].T
                    continue
                here = first[rows]
                there = here if second is first and rows == columns else second[columns]
                values[rows, columns] = self.gram(here, there)
        refuse_infinite(values)
        return values

    def logs(self, X: RowsLike, Y: RowsLike | None = None) -> tuple[Array, Array]:
        """The logs of the absolute values of the Gram matrix, and its signs (-1, 0 or 1).

        Parameters
        ----------
        X, Y : arrays of shape (points, variables), or data frames
            The points. Y defaults to X.

        Returns
        -------
        tuple of two arrays of shape (points of X, points of Y)

        Examples
        --------
        >>> import expectedkernels as ek
        >>> logs, signs = ek.RBF(1.0).logs([[0.0]], [[100.0]])
        >>> logs.tolist(), signs.tolist()
        ([[-10000.0]], [[1.0]])
        """
        first, second = _two_sets(X, Y)
        if self.tensors:
            return self.scaled(first, second).logs()
        logs, signs = np.empty((2, len(first), len(second)))
        for at in _blocks(first, second):
            logs[at], signs[at] = self.scaled(first[at[0]], second[at[1]]).logs()
        return logs, signs

    def __add__(self, other: Kernel) -> Kernel:
        if not isinstance(other, Kernel):
            return NotImplemented
        return SumKernel([self, other], [1.0, 1.0])

    def __radd__(self, other: Any) -> Kernel:
        return self if other == 0 else NotImplemented  # so that sum() adds kernels

    def __mul__(self, other: Any) -> Kernel:
        if isinstance(other, Kernel):
            return ProductKernel(self, other)
        if isinstance(other, Real) or (is_torch_array(other) and other.ndim == 0):
            return SumKernel([self], [other])
        return NotImplemented

    __rmul__ = __mul__

    def left_projection(
        self, x: ArrayLike, cardinalities: Domains | None = None, vtree: Vtree | None = None
    ) -> Circuit:
        """The function k(., x) as a circuit (discrete variables).

        Parameters
        ----------
        x : array of shape (variables,)
            The point that stays fixed.
        cardinalities : sequence of int, optional
            Default: those the kernel is made for, or two states each if it fits any.
        vtree : Vtree, optional
            Default: the one the kernel is made for, or a balanced one if it fits any.

        Returns
        -------
        Circuit

        Examples
        --------
        >>> import expectedkernels as ek
        >>> f = ek.RBF(0.5).left_projection([0, 1])
        >>> f.log_likelihood([[0, 1], [1, 1], [1, 0]]).round(6).tolist()
        [0.0, -0.5, -1.0]
        """
        return self._projection(x, cardinalities, vtree, left=True)

    def right_projection(
        self, x: ArrayLike, cardinalities: Domains | None = None, vtree: Vtree | None = None
    ) -> Circuit:
        """The function k(x, .) as a circuit (discrete variables).

        Parameters
        ----------
        x, cardinalities, vtree : see `left_projection`

        Returns
        -------
        Circuit

        Examples
        --------
        >>> import expectedkernels as ek
        >>> f = ek.Delta().right_projection([1, 0], [2, 2])
        >>> np.exp(f.log_likelihood([[1, 0], [0, 0]])).tolist()
        [1.0, 0.0]
        """
        return self._projection(x, cardinalities, vtree, left=False)

    def _projection(self, x: Any, cardinalities: Any, vtree: Vtree | None, left: bool) -> Circuit:
        if np.ndim(x) != 1:
            raise KernelError(f"A projection is at one point, of shape (variables,). Got {x!r}.")
        refuse_gradients("A projection", self)
        d = len(x)
        known = self.domains if cardinalities is None else cardinalities
        domains = [2] * d if known is None else list(known)
        vtree = self.vtree if vtree is None else vtree
        if any(c is None for c in domains):
            raise KernelError("Projections are circuits over discrete variables only.")
        point = as_points(np.reshape(x, (1, -1)), domains)[0].astype(np.intp)
        blocks = self.blocks(Vtree.balanced(d) if vtree is None else vtree, domains)

        def leaf(node: int, v: int) -> Table:
            matrices = [factor_matrix(factor, domains[v], v) for factor in blocks.factors[v]]
            return Table(np.stack([m[:, point[v]] if left else m[point[v]] for m in matrices]))

        found = at_nodes(blocks.operand.vtree, leaf, blocks.operand.blocks.__getitem__)
        roots = Circuit(blocks.operand.vtree, tuple(found))
        return with_root_weights(roots, np.asarray(blocks.weights)[None, :], "The projection")


def require_kernel(kernel: Any, such_as: str = "RBF(gamma=0.1)") -> None:
    """Raise unless this is a kernel of the library; say what it is, and which one may be meant.

    Examples
    --------
    >>> require_kernel("rbf")
    Traceback (most recent call last):
    expectedkernels.KernelError: The kernel must be an expectedkernels kernel, such as \
RBF(gamma=0.1). Got str instead.
    """
    if isinstance(kernel, Kernel):
        return
    kind = kernel if isinstance(kernel, type) else type(kernel)
    name, advice = kind.__name__, ""
    if issubclass(kind, Kernel):
        advice = f" Make one of it: {name}(...)."
    elif name in NAMES:
        rate = " with gamma = 1 / (2 length_scale^2)" if hasattr(kernel, "length_scale") else ""
        advice = f" There is an expectedkernels.{name}: use that{rate}."
    what = name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"
    raise KernelError(
        f"The kernel must be an expectedkernels kernel, such as {such_as}. "
        f"Got {'the class ' if kind is kernel else ''}{what} instead.{advice}"
    )


def require_made_for(kernel: Kernel, own: int, n_variables: int) -> None:
    """Raise unless a kernel with parameters for so many variables is used on as many."""
    if own != n_variables:
        name = type(kernel).__name__
        raise KernelError(f"This {name} is for {own} variables. It is used on {n_variables}.")


def square_table(table: Any, variable: int) -> Any:
    """A kernel on the states of a variable as a new array, checked to be square and finite."""
    matrix = np.array(as_floats(arrays.detach(table), "The tables of a kernel must be arrays"))
    if matrix.ndim != 2 or len({*matrix.shape, 0}) != 2 or not np.isfinite(matrix).all():
        raise KernelError(
            f"The table of variable {variable} must be a square matrix of finite numbers. "
            f"Got shape {matrix.shape}."
        )
    return matrix


def factor_matrix(factor: Any, cardinality: int, variable: int) -> Any:
    """The values of a factor on all pairs of states."""
    states = InputComponents(cardinality)
    logs, sign, _ = factor.logs(states, states, variable)
    values = np.exp(logs)
    return values if sign is None else values * sign


def refuse_gradients(what: str, *given: Any) -> None:
    """Raise if gradients are required by kernels or circuits, which `what` does not follow.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> refuse_gradients("A choice", ek.RBF(0.5), ek.factorized([[0.2, 0.8]]))
    """
    for x in given:
        if isinstance(x, Kernel) and x.tensors:
            raise KernelError(
                f"{what} does not follow gradients, and they are required by parameters of "
                f"{x!r}. Make the kernel of plain numbers, as by gamma.detach()."
            )
        if isinstance(x, Circuit):
            cpu_circuit(x, what)


def refuse_infinite(values: Any) -> None:
    """Raise if values of a kernel have left the range of floats."""
    if not np.isfinite(values).all():
        raise KernelError(f"The kernel is too large for a float here. {ASK_FOR_LOGS}")


def _two_sets(X: Any, Y: Any) -> tuple[Any, Any]:
    """Two checked sets of points; one stands for both. Frames are matched by their names."""
    first, second = number_rows(X, X if Y is None else Y, what="Kernels compare")
    first = finite_rows(first)
    second = first if Y is None else finite_rows(second)
    if first.shape[1] != second.shape[1]:
        raise KernelError(
            "The points on both sides need as many columns. "
            f"Got {first.shape[1]} and {second.shape[1]}."
        )
    arrays.require_memory(
        8.0 * len(first) * len(second),
        f"The Gram matrix of {len(first)} x {len(second)} points",
        "Take fewer points, or have it written to a file: expected_kernel(X, Y, k, out='k.npy').",
    )
    return first, second


def _blocks(X: Any, Y: Any) -> Iterator[tuple[slice, slice]]:
    """The rows and columns of a matrix in blocks, so that what is made of a block stays small."""
    return product(arrays.spans(len(X), BLOCK), arrays.spans(len(Y), BLOCK))


def finite_rows(X: Any) -> Any:
    """Points as rows of floats; raises unless they are complete and finite."""
    rows = as_floats(X)
    check_rows(rows, "Points", KernelError)
    if not np.isfinite(rows).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(rows))[0])
        raise KernelError(
            f"Kernels compare complete, finite points. Got {rows[row, column]} in row {{row}}, "
            f"column {column}.",
            row=row,
        )
    return rows


class SumKernel(Kernel):
    """A sum of kernels with positive weights; written ``2.0 * k + l``."""

    _definite = "a sum of positive definite kernels is positive definite"

    def __init__(self, kernels: Sequence[Kernel], weights: Sequence[Any]):
        self.kernels, self.weights = list(kernels), [float(arrays.to_cpu(w)) for w in weights]
        self.scales = [w if arrays.has_gradient(w) else float(arrays.to_cpu(w)) for w in weights]
        for weight in self.weights:
            if not (weight > 0 and isfinite(weight)):
                raise KernelError(
                    "A weight of a kernel must be a float in the range (0, inf), so that sums of "
                    f"kernels stay positive definite. Got {weight} instead."
                )

    def blocks(self, vtree: Vtree, domains: Domains) -> KernelBlocks:
        """The kernel as a circuit on a vtree."""
        parts = [k.blocks(vtree, domains) for k in self.kernels]
        return gram.direct_sum(parts, self.scales)

    @property
    def tensors(self) -> list[Array]:
        """The parameters of all parts, and weights, that require gradients."""
        return [*super().tensors, *(w for w in self.scales if arrays.has_gradient(w))]

    def _combined(self, values: Sequence[Any]) -> Any:
        return sum(w * x for w, x in zip(self.weights, values, strict=True))

    def scaled(self, X: Any, Y: Any) -> ScaledArray:
        """The values k(x_i, y_j) with their logs."""
        return points.summed(self._scaled_parts(X, Y), self.scales)

    def __repr__(self) -> str:
        pairs = zip(self.kernels, self.weights, strict=True)
        terms = " + ".join(repr(k) if w == 1.0 else f"{w!r} * {k!r}" for k, w in pairs)
        return terms if len(self.kernels) == 1 else f"({terms})"


class ProductKernel(Kernel):
    """The product of two kernels; written ``k * l``."""

    _definite = "a product of positive definite kernels is positive definite"

    def __init__(self, first: Kernel, second: Kernel):
        self.kernels = (first, second)

    def blocks(self, vtree: Vtree, domains: Domains) -> KernelBlocks:
        """The kernel as a circuit on a vtree."""
        return gram.kronecker(*(k.blocks(vtree, domains) for k in self.kernels))

    def _combined(self, values: Sequence[Any]) -> Any:
        return values[0] * values[1]

    def factors(self, n_variables: int) -> list[Factor] | None:
        """The products of both kernels' factors, if both have one per variable."""
        first, second = (k.factors(n_variables) for k in self.kernels)
        if first is None or second is None:
            return None
        pairs = list(zip(first, second, strict=True))
        # two tables may be made for different numbers of states
        if any(f.table is not None and g.table is not None for f, g in pairs):
            return None
        known = {pair: pair[0] * pair[1] for pair in set(pairs)}
        return [known[pair] for pair in pairs]

    def scaled(self, X: Any, Y: Any) -> ScaledArray:
        """The values k(x_i, y_j) with their logs."""
        one, two = self._scaled_parts(X, Y)
        return ScaledArray(one.data * two.data, one.scale + two.scale)

    def __repr__(self) -> str:
        return " * ".join(map(repr, self.kernels))


class FactorKernel(Kernel):
    """A product of one factor per variable; it conforms to any vtree."""

    def factors(self, n_variables: int) -> list[Factor]:
        """One factor per variable."""
        raise NotImplementedError

    def blocks(self, vtree: Vtree, domains: Domains) -> KernelBlocks:
        """The kernel as a circuit on a vtree."""
        factors = self.factors(vtree.n_variables)
        first = factors[0]
        if first.table is None and not first.tensors and factors.count(first) == len(factors):
            return gram.uniform_product(vtree, first.square, first.absolute, first.unequal)
        for variable, (factor, cardinality) in enumerate(zip(factors, domains, strict=True)):
            factor.check(cardinality, variable)
        operand = gram.parallel_operand(vtree, 1)
        return KernelBlocks(operand, [(factor,) for factor in factors], np.ones(1))

    def pairs(self, X: Array, Y: Array) -> Array:
        """The values k(x_i, y_i)."""
        X, Y = (np.asarray(arrays.to_cpu(Z), dtype=np.float64) for Z in (X, Y))
        logs, values = np.zeros(len(X)), np.ones(len(X))
        for variable, factor in enumerate(self.factors(X.shape[1])):
            x, y = X[:, variable], Y[:, variable]
            logs += factor.log_at(x - y)
            if factor.table is not None:
                points.check_states(factor.table, variable, x, y)
                values *= factor.table[x.astype(np.intp), y.astype(np.intp)]
        return np.exp(logs, out=logs) * values

    def scaled(self, X: Array, Y: Array) -> ScaledArray:
        """The values k(x_i, y_j) with their logs."""
        return points.scaled_products(self.factors(X.shape[1]), X, Y)

    def is_symmetric(self, n_variables: int) -> bool:
        """Whether all tables are symmetric."""
        return all(
            factor.table is None or np.array_equal(factor.table, factor.table.T)
            for factor in self.factors(n_variables)
        )


class RateKernel(FactorKernel):
    """A kernel with one non-negative parameter `gamma`, or one per variable."""

    field = "square"

    def __init__(self, gamma: ArrayLike | None = 1.0):
        given, name = arrays.to_cpu(gamma), type(self).__name__
        kind = np.asarray(given).dtype.kind if np.ndim(given) < 2 else "O"
        rates = np.array(given, dtype=np.float64) if kind in "iuf" else np.array(np.nan)
        good = np.isfinite(rates).all() and ((rates >= 0).all() if rates.ndim else rates > 0)
        if not good and not (given is None and name == "ExpHamming"):
            raise KernelError(
                f"The 'gamma' parameter of {name} must be a float in the range (0, inf), or one "
                f"non-negative float per variable. Got {given!r} instead."
            )
        self.gamma: Any = None if given is None else rates if rates.ndim else float(rates)
        self.tensor = gamma if arrays.has_gradient(gamma) else None

    @property
    def tensors(self) -> list[Array]:
        """`gamma`, if it requires gradients."""
        return [] if self.tensor is None else [self.tensor]

    def factors(self, n_variables: int) -> list[Factor]:
        """One factor per variable."""
        gamma, name = 1.0 / n_variables if self.gamma is None else self.gamma, self.field
        if isinstance(gamma, float):
            own = None if self.tensor is None else {name: self.tensor}
            return [Factor(**{name: gamma}, tensors=own)] * n_variables
        require_made_for(self, len(gamma), n_variables)
        given: Any = [None] * n_variables if self.tensor is None else self.tensor
        tensors = [None if x is None else {name: x} for x in given]
        pairs = zip(gamma.tolist(), tensors, strict=True)
        return [Factor(**{name: rate}, tensors=own) for rate, own in pairs]

    def __repr__(self) -> str:
        gamma = self.gamma if isinstance(self.gamma, (float, type(None))) else self.gamma.tolist()
        return f"{type(self).__name__}(gamma={gamma!r})"


@checks.public
class RBF(RateKernel):
    """The Gaussian kernel ``exp(-gamma |x - x'|^2)`` of the Euclidean distance.

    Parameters
    ----------
    gamma : float, or one float per variable
        The inverse squared length scale, or a tensor (see `Kernel` on gradients).

    Raises
    ------
    KernelError
        If a `gamma` is negative, not finite or no number.

    Examples
    --------
    >>> RBF(gamma=0.5)([[0.0, 0.0]], [[1.0, 1.0]]).round(6).tolist()
    [[0.367879]]
    """


@checks.public
class Laplacian(RateKernel):
    """The kernel ``exp(-gamma sum_i |x_i - x_i'|)``.

    Parameters
    ----------
    gamma : float, or one float per variable
        The inverse length scale, or a tensor (see `Kernel` on gradients).

    Raises
    ------
    KernelError
        If a `gamma` is negative, not finite or no number.

    Examples
    --------
    >>> Laplacian(gamma=0.5)([[0.0, 0.0]], [[1.0, 1.0]]).round(6).tolist()
    [[0.367879]]
    """

    field = "absolute"


@checks.public
class ExpHamming(RateKernel):
    """The kernel exp(-gamma h(x, x')), h the number of coordinates in which x and x' differ.

    Parameters
    ----------
    gamma : float, one float per variable, or None
        How fast the kernel decays with every coordinate that differs, or a tensor (see `Kernel` on
        gradients). None means 1 / D for D variables.

    Examples
    --------
    >>> ExpHamming()([[0, 0, 1, 2]], [[0, 1, 1, 2], [1, 1, 0, 0]]).round(6).tolist()
    [[0.778801, 0.367879]]
    """

    field = "unequal"

    def __init__(self, gamma: ArrayLike | None = None):
        super().__init__(gamma)


@checks.public
class Delta(FactorKernel):
    """The Kronecker delta: 1 if x = x', else 0.

    Under continuous distributions two points are equal with probability zero, and so is
    the expectation.

    Examples
    --------
    >>> Delta()([[0, 1], [2, 2]]).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    def factors(self, n_variables: int) -> list[Factor]:
        """One factor per variable."""
        return [Factor(unequal=inf)] * n_variables

    def __repr__(self) -> str:
        return "Delta()"


@checks.public
class TableKernel(FactorKernel):
    """The product of one table per variable, k(x, x') = prod_i K_i[x_i, x_i'].

    Parameters
    ----------
    tables : sequence of square arrays
        K_i, one row and column per state of variable i. For a positive definite kernel every
        table is symmetric without negative eigenvalues (see `is_positive_definite`). Tables may
        be tensors (see `Kernel` on gradients).

    Raises
    ------
    KernelError
        If a table is not a square matrix of finite numbers.

    Examples
    --------
    >>> k = TableKernel([[[1.0, 0.5], [0.5, 1.0]], [[2.0, 0.0], [0.0, 2.0]]])
    >>> k([[0, 1]], [[1, 1]]).tolist()
    [[1.0]]
    """

    _definite = "no table has a negative eigenvalue"

    def __init__(self, tables: TablesLike):
        tables = list(tables)
        self.tables = [square_table(table, variable) for variable, table in enumerate(tables)]
        self._factors = [
            Factor(table=table, tensors={"table": given} if arrays.has_gradient(given) else None)
            for table, given in zip(self.tables, tables, strict=True)
        ]

    @property
    def tensors(self) -> list[Array]:
        """The tables that require gradients."""
        return [f.tensors["table"] for f in self._factors if f.tensors]

    @property
    def domains(self) -> Domains:
        """The number of states of every variable."""
        return [len(table) for table in self.tables]

    def factors(self, n_variables: int) -> list[Factor]:
        """One factor per variable."""
        require_made_for(self, len(self.tables), n_variables)
        return self._factors

    def _verdicts(self, cardinalities: Domains | None) -> Iterable[Verdict]:
        return (factor.verdict(variable) for variable, factor in enumerate(self._factors))

    def __repr__(self) -> str:
        return f"TableKernel({len(self.tables)} tables)"


def kernel_input(variable: int, table: NumbersLike) -> Unit:
    """An input unit of a kernel circuit: the kernel of one variable, as a square table.

    Parameters
    ----------
    variable : int
        The number of the variable.
    table : array of shape (cardinality, cardinality)
        The kernel of every pair of states.

    Returns
    -------
    Unit

    Raises
    ------
    KernelError
        If the table is not a square matrix of finite numbers.

    Examples
    --------
    >>> kernel_input(0, [[1.0, 0.5], [0.5, 1.0]]).scope
    frozenset({0})
    """
    return Categorical(variable, square_table(table, variable).ravel())


@checks.public
class KernelCircuit(Kernel):
    """A kernel written as a circuit of sums and products over kernels of one variable each.

    Internally the pair (x_i, x_i') is one variable with the pairs of states for its states, so
    that a kernel circuit is a circuit like any other: its vtree is found, equal units are
    merged, and so on.

    Parameters
    ----------
    root : unit graph
        Built of `Sum` (with non-negative weights), `Product`, and `kernel_input`.
    vtree : Vtree, optional
        Default: the one the products imply.

    Raises
    ------
    KernelError
        If it is built of other units, weights are negative, or inputs are not square tables.
    PropertyError
        If inputs of a sum are over different variables, or products split them in several ways.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> near, same = [[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.0], [0.0, 1.0]]
    >>> a = ek.Product([ek.kernels.kernel_input(0, near), ek.kernels.kernel_input(1, same)])
    >>> b = ek.Product([ek.kernels.kernel_input(0, same), ek.kernels.kernel_input(1, near)])
    >>> k = ek.KernelCircuit(ek.Sum([a, b], [0.3, 0.7]))
    >>> k([[0, 0]], [[0, 0], [1, 0]]).round(12).tolist()
    [[1.0, 0.15]]
    """

    _definite = "all inputs are positive definite and no weight is negative"

    def __init__(self, root: Unit, vtree: Vtree | None = None):
        if not isinstance(root, Unit):
            raise KernelError(
                "A kernel circuit is built of Sum, Product and kernel_input units. "
                f"Got {type(root).__name__} instead."
            )
        graph = Graph(root)
        for unit in graph.units:  # before sums of one variable become tables
            if isinstance(unit, Sum) and (unit.weights < 0).any():
                raise KernelError(
                    "The weights of a kernel circuit must not be negative: it may be indefinite. "
                    f"Got {unit.weights.min()} in a sum over variables {sorted(unit.scope)[:8]}."
                )
        if (reason := graph.not_smooth()) is not None:
            raise PropertyError(
                f"The kernel circuit is not smooth: {reason}. Multiply these inputs by kernels of "
                "the variables that they leave out, such as kernel_input(v, [[1, 1], [1, 1]])."
            )
        self.circuit = Circuit.from_units(root, vtree=vtree)
        self.cardinalities: list[int] = []
        for variable, pairs in enumerate(self.circuit.cardinalities):
            n = 0 if pairs is None else round(pairs**0.5)
            if pairs is None or n * n != pairs:
                raise KernelError(
                    f"The inputs of variable {variable} must be square tables, made by "
                    f"kernel_input. Got an input with {pairs} states."
                )
            self.cardinalities.append(n)

    @property
    def domains(self) -> Domains:
        """The number of states of every variable."""
        return self.cardinalities

    @property
    def vtree(self) -> Vtree:
        """How the kernel splits its variables."""
        return self.circuit.vtree

    def blocks(self, vtree: Vtree, domains: Domains) -> KernelBlocks:
        """The kernel as a circuit on a vtree; it must be its own up to swaps."""
        require_made_for(self, len(self.cardinalities), vtree.n_variables)
        if list(domains) != self.cardinalities:
            made, used = map(checks.preview, (self.cardinalities, list(domains)))
            raise KernelError(
                f"This kernel circuit is for variables of {made} states, and used on variables of "
                f"{used} states (None: a real variable)."
            )
        return _on_vtree(self.circuit, vtree)

    def pairs(self, X: Array, Y: Array) -> Array:
        """The values k(x_i, y_i)."""
        X, Y = (as_points(Z, self.cardinalities) for Z in (X, Y))
        return self._values(X * np.asarray(self.cardinalities) + Y).linear()

    def scaled(self, X: Array, Y: Array) -> ScaledArray:
        """The values k(x_i, y_j) with their logs."""
        X, Y = (as_points(Z, self.cardinalities) for Z in (X, Y))
        codes = X[:, None, :] * np.asarray(self.cardinalities) + Y[None, :, :]
        values = self._values(codes.reshape(-1, X.shape[1]))
        return values.mapped(lambda x: x.reshape(len(X), len(Y)))

    def _values(self, codes: Any) -> ScaledArray:
        """The values at pairs of points, coded as states."""
        logs, sign = log_values(self.circuit, as_evidence(codes, self.circuit.cardinalities))
        return ScaledArray(np.ones_like(logs[:, 0]) if sign is None else sign[:, 0], logs[:, 0])

    def _verdicts(self, cardinalities: Domains | None) -> Iterable[Verdict]:
        for variable in range(len(self.cardinalities)):
            for row in self.circuit.input(variable).numbers:
                yield _table_factor(row).verdict(variable)

    def __repr__(self) -> str:
        d, n = len(self.cardinalities), self.circuit.n_units
        return f"<KernelCircuit of {d} variables: {n} units>"


@lru_cache(maxsize=16)
def _on_vtree(kernel: Circuit, vtree: Vtree) -> KernelBlocks:
    """The circuit of a kernel as blocks on a vtree that is its own up to swaps."""
    circuit = kernel.aligned_to(vtree)
    if circuit is None:
        raise CompatibilityError(
            "The kernel circuit and the circuits split their variables in different ways "
            f"({kernel.vtree} and {vtree}). Kernels that are products (RBF, ...) fit every vtree."
        )
    inputs: list[Any] = [circuit.input(v) for v in range(vtree.n_variables)]
    factors = [tuple(map(_table_factor, block.table)) for block in inputs]
    blocks: Any = circuit.blocks
    operand = gram.kernel_operand(vtree, circuit.operand.units, blocks.__getitem__)
    return KernelBlocks(operand, factors, np.ones(1))


def _table_factor(row: Any) -> Factor:
    """The factor of an input unit, whose states are pairs of states."""
    n = round(len(row) ** 0.5)
    return Factor(table=row.reshape(n, n))


def is_kernel_compatible(k: Kernel, p: Circuit | Unit, q: Circuit | Unit) -> Verdict:
    """Whether a kernel fits two circuits, so that its expectation is tractable, and why.

    Parameters
    ----------
    k : Kernel
        The kernel to check.
    p, q : Circuit or graph of units
        The distributions of its two arguments.

    Returns
    -------
    Verdict

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.5, 0.5], [0.2, 0.8]])
    >>> ek.is_kernel_compatible(ek.RBF(1.0), p, p)
    yes: the kernel's products split the variables as the circuits' do
    """
    require_kernel(k)
    verdict = is_compatible(p, q)
    if not verdict:
        return verdict
    # a unit graph is written on the vtree of the circuit it is compared with
    circuits = [x for x in (p, q) if isinstance(x, Circuit)]
    circuit = circuits[0] if circuits else Circuit.from_units(p)  # type: ignore[arg-type]
    try:
        k.blocks(circuit.vtree, circuit.cardinalities)
    except (KernelError, CompatibilityError) as error:
        return Verdict(False, str(error))
    return Verdict(True, "the kernel's products split the variables as the circuits' do")
