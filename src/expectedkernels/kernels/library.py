"""The kernels that factorise over variables: RBF, Laplacian, Hamming, delta, tables."""

from __future__ import annotations

from math import inf
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from expectedkernels.arrays import Array, TablesLike, detach, has_gradient, on_host
from expectedkernels.circuits.evidence import Domains
from expectedkernels.circuits.numbers import as_floats
from expectedkernels.errors import KernelError
from expectedkernels.kernels.blocks import KernelBlocks, product_form
from expectedkernels.kernels.factors import Factor
from expectedkernels.kernels.kernel import Kernel
from expectedkernels.kernels.point_gradients import values_with_gradients
from expectedkernels.kernels.points import check_states, log_products, product_values
from expectedkernels.kernels.scaled import Scaled
from expectedkernels.verdict import Verdict
from expectedkernels.vtree import Vtree


class FactorKernel(Kernel):
    """A product of one factor per variable; it conforms to any vtree."""

    def factors(self, n_variables: int) -> list[Factor]:
        """One factor per variable."""
        raise NotImplementedError

    def blocks(self, vtree: Vtree, domains: Domains) -> KernelBlocks:
        """The kernel as a circuit on a vtree."""
        factors = self.factors(vtree.n_variables)
        if factors.count(factors[0]) < len(factors) or factors[0].table is not None:
            for variable, (factor, cardinality) in enumerate(zip(factors, domains, strict=True)):
                factor.check(cardinality, variable)
        return product_form(vtree, factors)

    def pairs(self, X: Array, Y: Array) -> Array:
        """The values k(x_i, y_i)."""
        X, Y = (np.asarray(on_host(Z), dtype=np.float64) for Z in (X, Y))
        logs, values = np.zeros(len(X)), np.ones(len(X))
        for variable, factor in enumerate(self.factors(X.shape[1])):
            x, y = X[:, variable], Y[:, variable]
            logs += factor.log_at(x - y)
            if factor.table is not None:
                for side in (x, y):
                    check_states(factor.table, side, variable)
                values *= factor.table[x.astype(np.intp), y.astype(np.intp)]
        return np.exp(logs, out=logs) * values

    def gram(self, X: Array, Y: Array) -> Array:
        """The values k(x_i, y_j)."""
        return product_values(self.factors(X.shape[1]), X, Y)

    def values_with_gradients(self, X: Array, Y: Array) -> Scaled:
        """The values k(x_i, y_j) as tensors that know their gradients."""
        return values_with_gradients(self.factors(X.shape[1]), X, Y)

    def single_product(self, n_variables: int) -> list[Factor] | None:
        """One factor per variable."""
        return self.factors(n_variables)

    def is_symmetric(self, n_variables: int) -> bool:
        """Whether all tables are symmetric."""
        return all(
            factor.table is None or np.array_equal(factor.table, factor.table.T)
            for factor in self.factors(n_variables)
        )

    def log_gram(self, X: Array, Y: Array) -> tuple[Array, Array]:
        """The logs and signs of the values k(x_i, y_j)."""
        logs, signs = log_products(self.factors(X.shape[1]), X, Y, relative=True)
        return logs, np.where(logs > -inf, 1.0 if signs is None else signs, 0.0)

    def is_positive_definite(self, cardinalities: Domains | None = None) -> Verdict:
        """Whether every factor is positive definite, with the first that is not."""
        return Verdict(True, "exponentials of distances are positive definite")


class RateKernel(FactorKernel):
    """A kernel with one non-negative rate `gamma`, or one rate per variable."""

    field = "square"

    def __init__(self, gamma: ArrayLike = 1.0):
        self.gamma = _checked_rate(on_host(gamma), type(self).__name__)
        self.tensor = gamma if has_gradient(gamma) else None

    @property
    def tensors(self) -> list[Array]:
        """The rates, if gradients by them are asked for."""
        return [] if self.tensor is None else [self.tensor]

    def factors(self, n_variables: int) -> list[Factor]:
        """One factor per variable."""
        name = type(self).__name__
        return _rate_factors(self.gamma, n_variables, self.field, name, self.tensor)

    def __repr__(self) -> str:
        gamma = self.gamma if isinstance(self.gamma, (float, type(None))) else self.gamma.tolist()
        return f"{type(self).__name__}(gamma={gamma!r})"


def _checked_rate(gamma: Any, name: str) -> Any:
    """A float, or an array of one float per variable."""
    if isinstance(gamma, np.ndarray) and gamma.ndim == 0 and gamma.dtype.kind in "iuf":
        gamma = float(gamma)
    if isinstance(gamma, Real) and not isinstance(gamma, bool):
        if 0 < float(gamma) < inf:
            return float(gamma)
    elif not isinstance(gamma, (str, bool)) and np.ndim(gamma) == 1:
        rates = np.array(gamma, dtype=np.float64)
        if np.isfinite(rates).all() and (rates >= 0).all():
            return rates
    raise KernelError(
        f"The 'gamma' parameter of {name} must be a float in the range (0, inf), or one "
        f"non-negative float per variable. Got {gamma!r} instead."
    )


def _rate_factors(
    gamma: Any, n_variables: int, field: str, name: str, tensor: Any = None
) -> list[Factor]:
    if isinstance(gamma, float):
        own = None if tensor is None else {field: tensor}
        return [Factor(**{field: gamma}, tensors=own)] * n_variables
    if len(gamma) != n_variables:
        raise KernelError(
            f"This {name} kernel has rates for {len(gamma)} variables. It is used on {n_variables}."
        )
    given = [None] * n_variables if tensor is None else [{field: own} for own in tensor]
    rates = zip(gamma, given, strict=True)
    return [Factor(**{field: float(rate)}, tensors=own) for rate, own in rates]


class RBF(RateKernel):
    """The Gaussian kernel ``exp(-gamma |x - x'|^2)`` of the Euclidean distance.

    Parameters
    ----------
    gamma : float, or one float per variable
        The rate(s), or a tensor of them (see `Kernel` on gradients).

    Examples
    --------
    >>> RBF(gamma=0.5)([[0.0, 0.0]], [[1.0, 1.0]]).round(6).tolist()
    [[0.367879]]
    """

    field = "square"


class Laplacian(RateKernel):
    """The kernel ``exp(-gamma sum_i |x_i - x_i'|)``.

    Parameters
    ----------
    gamma : float, or one float per variable
        The rate(s), or a tensor of them (see `Kernel` on gradients).

    Examples
    --------
    >>> Laplacian(gamma=0.5)([[0.0, 0.0]], [[1.0, 1.0]]).round(6).tolist()
    [[0.367879]]
    """

    field = "absolute"


class ExpHamming(RateKernel):
    """The kernel exp(-gamma h(x, x')), h the number of coordinates in which x and x' differ.

    Parameters
    ----------
    gamma : float, one float per variable, or None
        The rate(s), or a tensor of them (see `Kernel` on gradients). None means 1 / D for D
        variables.

    Examples
    --------
    >>> ExpHamming()([[0, 0, 1, 2]], [[0, 1, 1, 2], [1, 1, 0, 0]]).round(6).tolist()
    [[0.778801, 0.367879]]
    """

    field = "unequal"

    def __init__(self, gamma: ArrayLike | None = None):
        self.gamma = None if gamma is None else _checked_rate(on_host(gamma), "ExpHamming")
        self.tensor = gamma if has_gradient(gamma) else None

    def factors(self, n_variables: int) -> list[Factor]:
        """One factor per variable."""
        gamma = 1.0 / n_variables if self.gamma is None else self.gamma
        return _rate_factors(gamma, n_variables, self.field, "ExpHamming", self.tensor)


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

    def __init__(self, tables: TablesLike):
        what = "The tables of a TableKernel must be arrays"
        tables = list(tables)
        self.tables = [np.array(as_floats(detach(table), what)) for table in tables]
        for variable, table in enumerate(self.tables):
            if table.ndim != 2 or table.shape[0] != table.shape[1] or not len(table):
                raise KernelError(
                    f"The table of variable {variable} must be a square matrix. "
                    f"Got shape {table.shape}."
                )
            if not np.isfinite(table).all():
                raise KernelError(f"The table of variable {variable} must hold finite numbers.")
        self._factors = [
            Factor(table=table, tensors={"table": given} if has_gradient(given) else None)
            for table, given in zip(self.tables, tables, strict=True)
        ]

    @property
    def tensors(self) -> list[Array]:
        """The tables that gradients are asked for."""
        return [f.tensors["table"] for f in self._factors if f.tensors]

    @property
    def domains(self) -> Domains:
        """The number of states of every variable."""
        return [len(table) for table in self.tables]

    def factors(self, n_variables: int) -> list[Factor]:
        """One factor per variable."""
        if n_variables != len(self.tables):
            raise KernelError(
                f"This TableKernel has tables for {len(self.tables)} variables. "
                f"It is used on {n_variables}."
            )
        return self._factors

    def is_positive_definite(self, cardinalities: Domains | None = None) -> Verdict:
        """Whether every table is symmetric without negative eigenvalues."""
        for variable, factor in enumerate(self._factors):
            verdict = factor.verdict(variable)
            if not verdict:
                return verdict
        return Verdict(True, "no table has a negative eigenvalue")

    def __repr__(self) -> str:
        return f"TableKernel({len(self.tables)} tables)"
