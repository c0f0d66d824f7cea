"""Which variables a discrepancy comes from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from expectedkernels.arrays import Array
from expectedkernels.circuits.alignment import align, require_circuits
from expectedkernels.circuits.base import host_for
from expectedkernels.circuits.build import stack
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.properties import require_compatible
from expectedkernels.circuits.queries import require_normalized
from expectedkernels.circuits.sides import CircuitSide, check_single_root
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES
from expectedkernels.errors import KernelError
from expectedkernels.kernels.blocks import is_parallel
from expectedkernels.kernels.changed import one_changed
from expectedkernels.kernels.defaults import default_kernel
from expectedkernels.kernels.factors import Factor
from expectedkernels.kernels.gram import by_kernel_root
from expectedkernels.kernels.kernel import Kernel, factor_matrix, refuse_gradients, require_kernel

AT_ONCE = 64
"""How many variables are changed in one sweep, at most."""
SIGNS = np.array([1.0, -1.0])


def ignoring(
    p: Circuit, q: Circuit, k: Kernel | None = None, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> Array:
    r"""How much smaller the squared discrepancy is if one variable is ignored, for every variable.

    .. math:: \delta_i = \mathrm{MMD}^2_k(p, q) - \mathrm{MMD}^2_{k \text{ without } i}(p, q)

    Without i means that the factor of variable i in the kernel is one, which leaves the discrepancy
    of the marginals of the other variables. The variable that has changed, or whose dependence
    on the others has, is usually the one with the largest value. The values do not sum to
    anything; see `shapley_account` for some that do.

    Parameters
    ----------
    p, q : Circuit
        Compatible, and summing to one.
    k : Kernel, optional
        A product over the variables, or a sum of such. Default: as for `mmd2`.
    max_bytes : int

    Returns
    -------
    array of shape (variables,)

    Raises
    ------
    KernelError
        If the kernel is no sum of products.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.5, 0.5], [0.2, 0.8]]), ek.factorized([[0.5, 0.5], [0.4, 0.6]])
    >>> ek.monitoring.ignoring(p, q, ek.Delta()).round(6).tolist()
    [-0.04, 0.04]
    """
    p, q, terms = _prepared(p, q, k, "ignoring")
    total = np.zeros(p.n_variables)
    for weight, factors in terms:
        ones = [Factor()] * len(factors)
        whole, without = _changed_forms(p, q, factors, ones, max_bytes)
        total += weight * (whole - without)
    return total


def univariate(
    p: Circuit, q: Circuit, k: Kernel | None = None, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> Array:
    r"""The squared discrepancy of every variable alone: that of its marginal distributions.

    The factors of all other variables in the kernel are one. A variable that differs strongly by
    itself may still have a negative value in `shapley_account`, where it dilutes the differences
    of others more than it adds.

    Parameters
    ----------
    p, q : Circuit
        Compatible, and summing to one.
    k : Kernel, optional
        A product over the variables, or a sum of such. Default: as for `mmd2`.
    max_bytes : int

    Returns
    -------
    array of shape (variables,)

    Raises
    ------
    KernelError
        If the kernel is no sum of products.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.5, 0.5], [0.2, 0.8]]), ek.factorized([[0.5, 0.5], [0.4, 0.6]])
    >>> ek.monitoring.univariate(p, q, ek.Delta()).round(6).tolist()
    [0.0, 0.08]
    """
    p, q, terms = _prepared(p, q, k, "univariate")
    total = np.zeros(p.n_variables)
    for weight, factors in terms:
        ones = [Factor()] * len(factors)
        total += weight * _changed_forms(p, q, ones, factors, max_bytes)[1]
    return total


def shapley_account(
    p: Circuit, q: Circuit, k: Kernel | None = None, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> Array:
    r"""The Shapley values of the variables in the squared discrepancy; they sum to it.

    The worth of a set of variables is the squared discrepancy of its marginals: the factors of all
    others are one. With factors :math:`1 + k_i` the value of variable i is

    .. math:: \int_0^1 \langle (p - q) \otimes (p - q), k_i \prod_{j \neq i} (1 + t k_j) \rangle\,dt

    and the integrand a polynomial in t, which Gauss-Legendre quadrature integrates exactly.
    A change of a dependence is shared among all variables that take part in it: ask `ignoring` who
    has changed, and this for an account of how much.

    Parameters
    ----------
    p, q : Circuit
        Compatible, summing to one, over discrete variables.
    k : Kernel, optional
        A product over the variables, or a sum of such. Default: as for `mmd2`.
    max_bytes : int

    Returns
    -------
    array of shape (variables,)

    Raises
    ------
    KernelError
        If the kernel is no sum of products, or a variable is real.

    Notes
    -----
    Cost: half as many sweeps as there are variables.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.5, 0.5], [0.2, 0.8]]), ek.factorized([[0.5, 0.5], [0.4, 0.6]])
    >>> values = ek.monitoring.shapley_account(p, q, ek.ExpHamming(1.0))
    >>> bool(abs(values.sum() - ek.mmd2(p, q, ek.ExpHamming(1.0))) < 1e-15), values.argmax().item()
    (True, 1)
    """
    p, q, terms = _prepared(p, q, k, "shapley_account")
    if None in p.cardinalities:
        raise KernelError(
            "Shapley values of a discrepancy need discrete variables. Variable "
            f"{p.cardinalities.index(None)} is real; ignoring(p, q, k) takes real ones."
        )
    nodes, shares = np.polynomial.legendre.leggauss((p.n_variables + 1) // 2)
    total = np.zeros(p.n_variables)
    for weight, factors in terms:
        excess = [
            factor_matrix(factor, int(n or 0), v) - 1.0
            for v, (factor, n) in enumerate(zip(factors, p.cardinalities, strict=True))
        ]
        alone = [Factor(table=table) for table in excess]
        for t, share in zip(0.5 * (nodes + 1.0), 0.5 * shares, strict=True):
            mixed = [Factor(table=1.0 + t * table) for table in excess]
            total += weight * share * _changed_forms(p, q, mixed, alone, max_bytes)[1]
    return total


def _prepared(p: Any, q: Any, k: Any, name: str) -> tuple[Circuit, Circuit, Any]:
    """The circuits on one vtree, and the kernel as weights and products of factors."""
    require_circuits(name, p, q)
    for circuit in (p, q):
        check_single_root(circuit, "A discrepancy")
        require_normalized(circuit, "A discrepancy")
    p, q = align(p, q)
    require_compatible(p, q)
    p, q = host_for(p, name), host_for(q, name)
    k = default_kernel(p, q) if k is None else k
    require_kernel(k)
    refuse_gradients(name, k)
    blocks = k.blocks(p.vtree, p.cardinalities)
    if not is_parallel(blocks):
        raise KernelError(
            "A discrepancy is attributed to variables by the factors of its kernel, which must be "
            f"a product over the variables, or a sum of such products. Got {k!r}, which has sums "
            "inside."
        )
    products = zip(*blocks.factors, strict=True)
    return p, q.aligned_to(p.vtree), list(zip(blocks.weights, products, strict=True))


def _changed_forms(p: Circuit, q: Circuit, factors: Any, others: Any, max_bytes: int) -> Any:
    """The squared discrepancy, and for every variable that with its other factor."""
    both = stack([p, q])
    side = CircuitSide(both)
    changed = np.zeros(p.n_variables)
    whole = 0.0
    for variables in _groups(p.n_variables):
        kernel, order = one_changed(both.vtree, factors, others, variables)
        values = by_kernel_root((side, side), kernel, max_bytes)
        forms = SIGNS @ values @ SIGNS
        whole, changed[order] = float(forms[0]), forms[1:]
    return whole, changed


def _groups(n: int) -> Iterator[range]:
    for start in range(0, n, AT_ONCE):
        yield range(start, min(n, start + AT_ONCE))
