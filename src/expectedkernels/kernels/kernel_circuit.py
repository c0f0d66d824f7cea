"""Kernels as circuits with sums inside."""

from __future__ import annotations

from typing import Any

import numpy as np

from expectedkernels.arrays import Array, NumbersLike
from expectedkernels.checks import CompatibilityError, KernelError, PropertyError, Verdict, public
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.graph import Categorical, Graph, Sum, Unit, topological
from expectedkernels.circuits.properties import is_compatible
from expectedkernels.circuits.queries import log_values
from expectedkernels.data.evidence import Domains, as_evidence, as_points
from expectedkernels.engine.sweep import Operand
from expectedkernels.kernels.factors import Factor
from expectedkernels.kernels.gram import KernelBlocks
from expectedkernels.kernels.kernel import Kernel, all_definite, require_kernel
from expectedkernels.kernels.points import Scaled
from expectedkernels.vtree import Vtree

KEPT_VTREES = 4
"""For how many vtrees, the last ones, a kernel circuit keeps what it is there."""


def kernel_input(variable: int, table: NumbersLike) -> Unit:
    """An input unit of a kernel circuit: the kernel of one variable, as a square table.

    Parameters
    ----------
    variable : int
    table : array of shape (cardinality, cardinality)

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
    matrix = np.asarray(table, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise KernelError(
            f"A kernel input of variable {variable} must be a square matrix of finite numbers. "
            f"Got shape {matrix.shape}."
        )
    return Categorical(variable, matrix.ravel())


@public
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

    def __init__(self, root: Unit, vtree: Vtree | None = None):
        if not isinstance(root, Unit):
            raise KernelError(
                "A kernel circuit is built of Sum, Product and kernel_input units. "
                f"Got {type(root).__name__} instead."
            )
        for unit in topological(root):  # before sums of one variable become tables
            if isinstance(unit, Sum) and (unit.weights < 0).any():
                raise KernelError(
                    "The weights of a kernel circuit must not be negative, or it may not be "
                    f"positive definite. Got {unit.weights.min()} in a sum over variables "
                    f"{sorted(unit.scope)[:8]}."
                )
        if (reason := Graph(root).not_smooth()) is not None:
            raise PropertyError(
                f"The kernel circuit is not smooth: {reason}. Multiply the inputs of this sum by "
                "kernels of the variables that they leave out, of ones if they do not matter: "
                "kernel_input(v, [[1, 1], [1, 1]])."
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
        self._aligned: dict[Vtree, KernelBlocks] = {}

    @property
    def domains(self) -> Domains:
        """The number of states of every variable."""
        return self.cardinalities

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_aligned": {}}  # what is cached is not part of the value

    @property
    def vtree(self) -> Vtree:
        """How the kernel splits its variables."""
        return self.circuit.vtree

    def blocks(self, vtree: Vtree, domains: Domains) -> KernelBlocks:
        """The kernel as a circuit on a vtree; it must be its own up to swaps."""
        if vtree.n_variables != len(self.cardinalities):
            raise KernelError(
                f"This kernel circuit is over {len(self.cardinalities)} variables. "
                f"It is used on {vtree.n_variables}."
            )
        for variable, (mine, given) in enumerate(zip(self.cardinalities, domains, strict=True)):
            if mine != given:
                what = "a real variable" if given is None else f"{given} states"
                raise KernelError(
                    f"This kernel circuit has {mine} states for variable {variable}, which has "
                    f"{what} here."
                )
        found = self._aligned.get(vtree)
        if found is None:
            found = self._on(vtree)
            kept = {**self._aligned, vtree: found}
            for oldest in list(kept)[:-KEPT_VTREES]:
                del kept[oldest]
            self._aligned = kept  # replaced, not changed: other threads may be reading
        return found

    def _on(self, vtree: Vtree) -> KernelBlocks:
        circuit = self.circuit.aligned_to(vtree)
        if circuit is None:
            raise CompatibilityError(
                "The kernel circuit and the circuits split their variables in different ways "
                f"({self.vtree} and {vtree}), so the expected kernel has no known polynomial "
                "algorithm. Kernels that factorise over variables (RBF, ...) fit every vtree."
            )
        factors = []
        for variable, n in enumerate(self.cardinalities):
            block: Any = circuit.input(variable)
            factors.append(tuple(Factor(table=row.reshape(n, n)) for row in block.table))
        found = circuit.operand
        operand = Operand(vtree, found.units, found.inner, [None] * vtree.n_nodes)
        return KernelBlocks(operand, factors, np.ones(1))

    def pairs(self, X: Array, Y: Array) -> Array:
        """The values k(x_i, y_i)."""
        X, Y = (as_points(Z, self.cardinalities) for Z in (X, Y))
        return self._values(X * np.asarray(self.cardinalities) + Y).linear()

    def scaled(self, X: Array, Y: Array) -> Scaled:
        """The values k(x_i, y_j) with their logs."""
        X, Y = (as_points(Z, self.cardinalities) for Z in (X, Y))
        codes = X[:, None, :] * np.asarray(self.cardinalities) + Y[None, :, :]
        values = self._values(codes.reshape(-1, X.shape[1]))
        return values.mapped(lambda x: x.reshape(len(X), len(Y)))

    def _values(self, codes: Any) -> Scaled:
        """The values at pairs of points, coded as states."""
        logs, sign = log_values(self.circuit, as_evidence(codes, self.circuit.cardinalities))
        return Scaled(np.ones_like(logs[:, 0]) if sign is None else sign[:, 0], logs[:, 0])

    def is_positive_definite(self, cardinalities: Domains | None = None) -> Verdict:
        """Whether all inputs are symmetric without negative eigenvalues."""
        verdicts = (
            Factor(table=row.reshape(n, n)).verdict(variable)
            for variable, n in enumerate(self.cardinalities)
            for row in self.circuit.input(variable).numbers
        )
        return all_definite(verdicts, "all inputs are positive definite and no weight is negative")

    def __repr__(self) -> str:
        return (
            f"<KernelCircuit of {len(self.cardinalities)} variables: {self.circuit.n_units} units>"
        )


def is_kernel_compatible(k: Kernel, p: Circuit | Unit, q: Circuit | Unit) -> Verdict:
    """Whether a kernel fits two circuits, so that its expectation is tractable, and why.

    Parameters
    ----------
    k : Kernel
    p, q : Circuit or graph of units

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
    other = q if isinstance(q, Circuit) else p
    circuit = p if isinstance(p, Circuit) else other
    circuit = circuit if isinstance(circuit, Circuit) else Circuit.from_units(circuit)
    try:
        k.blocks(circuit.vtree, circuit.cardinalities)
    except (KernelError, CompatibilityError) as error:
        return Verdict(False, str(error))
    return Verdict(True, "the kernel's products split the variables as the circuits' do")
