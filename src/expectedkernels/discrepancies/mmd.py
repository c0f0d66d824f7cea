"""Maximum mean discrepancy between circuits, points, or both, and where it comes from."""

from __future__ import annotations

from math import sqrt
from typing import Any

from expectedkernels.arrays import Array, RowsLike, VariablesLike, as_like, detach
from expectedkernels.checks import DataError, KernelError
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.graph import Unit
from expectedkernels.circuits.operands import check_single_root
from expectedkernels.data.tables import as_table, is_frame
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES
from expectedkernels.expectation import (
    expected_kernel,
    refuse_functions,
    require_distribution,
    two_distributions,
)
from expectedkernels.kernels.empirical import (
    DistributionLike,
    Empirical,
    default_kernel,
    refuse_features,
    sample_weights,
    shared_schema,
)
from expectedkernels.kernels.kernel import Kernel, is_kernel_compatible
from expectedkernels.models import converted

ROUNDING = 2.0**-49
"""A squared discrepancy that is no larger, of the size of its terms, is their rounding error."""


def mmd2(
    p: DistributionLike,
    q: DistributionLike,
    k: Kernel | None = None,
    *,
    categorical_features: VariablesLike | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Array:
    """The squared maximum mean discrepancy, M(p, p) + M(q, q) - 2 M(p, q), exactly.

    Parameters
    ----------
    p, q : Circuit, FactorGraph, unit graph, Empirical, or array or frame of points
        Points have equal weights. Circuits, and weights of points, must sum to one, and circuits
        must be compatible with each other. Models are compiled: for M(p, q) on a vtree that both
        share, that of the circuit or of the model for which both are smaller, and for M(p, p) and
        M(q, q) each on the vtree that suits it. Variables and states are matched by their names
        and labels, if both sides have them.
    k : Kernel, optional
        Default: ``ExpHamming()`` for categorical variables, ``RBF`` with the median heuristic for
        numbers (see `median_gamma`), and their product for both.
    categorical_features : names, numbers or mask of columns, optional
        The categorical columns of tables, for the default kernel. By default the type of a column
        of a data frame decides: text, categories and bools are categorical, numbers are not. In
        arrays, columns of few distinct whole numbers are: at most 20, and each of them twice on
        average.
    max_bytes : int
        How much memory intermediate values may take, as for `expected_kernel`.

    Returns
    -------
    float, or array
        Zero if it is no larger than the rounding errors of its terms (one part in 5e14).

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.9, 0.1]]), ek.factorized([[0.5, 0.5]])
    >>> round(ek.mmd2(p, q, ek.Delta()), 12)
    0.32
    >>> ek.mmd2(p, p)
    0.0
    """
    p, q, k, common = _prepared(p, q, k, categorical_features, max_bytes)
    return _terms(p, q, k, common, max_bytes)[0]


def _terms(p: Any, q: Any, k: Kernel, common: Any, max_bytes: int) -> tuple[Any, Any]:
    """The squared discrepancy, zero if it is rounding, and the size of its terms.

    `common` are the two distributions on one vtree, which the mixed term alone needs.
    """
    own = expected_kernel(p, p, k, max_bytes=max_bytes)
    if q is p:
        return 0.0 * own, own
    own = own + expected_kernel(q, q, k, max_bytes=max_bytes)
    squared = own - 2.0 * expected_kernel(common[0], common[1], k, max_bytes=max_bytes)
    return abs(0.0 * squared) if abs(squared) <= ROUNDING * abs(own) else squared, own


def mmd(
    p: DistributionLike,
    q: DistributionLike,
    k: Kernel | None = None,
    *,
    categorical_features: VariablesLike | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Array:
    """The maximum mean discrepancy, the square root of `mmd2`.

    Rounding may leave a squared discrepancy of zero slightly negative; it counts as zero. A value
    that is negative beyond rounding means that the kernel is not positive definite, and raises.

    Parameters
    ----------
    p, q, k, categorical_features, max_bytes
        As for `mmd2`.

    Returns
    -------
    float, or array

    Raises
    ------
    KernelError
        If the squared discrepancy is negative beyond rounding: the kernel is not positive definite.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.9, 0.1]]), ek.factorized([[0.5, 0.5]])
    >>> round(ek.mmd(p, q, ek.Delta()), 6)
    0.565685
    """
    p, q, k, common = _prepared(p, q, k, categorical_features, max_bytes)
    squared, size = _terms(p, q, k, common, max_bytes)
    if squared > 0:
        return sqrt(squared) if isinstance(squared, float) else squared**0.5
    if squared < -1e-10 * abs(float(detach(size))):
        raise KernelError(
            f"The squared discrepancy is {float(detach(squared)):.6g}, which is negative beyond "
            f"rounding: the kernel is not positive definite ({k.is_positive_definite()!r})."
        )
    return abs(0.0 * squared)


def witness(
    p: DistributionLike,
    q: DistributionLike,
    k: Kernel | None = None,
    X: RowsLike | None = None,
    *,
    categorical_features: VariablesLike | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Array:
    """The witness function of the MMD at the rows of X: E_p[k(x, X_i)] - E_q[k(x', X_i)].

    Parameters
    ----------
    p, q, k, categorical_features, max_bytes
        As for `mmd2`.
    X : array of shape (points, variables), or data frame

    Returns
    -------
    array of shape (points,)

    Raises
    ------
    DataError
        If there are no points.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.9, 0.1]]), ek.factorized([[0.5, 0.5]])
    >>> ek.witness(p, q, ek.Delta(), [[0], [1]]).round(12).tolist()
    [0.4, -0.4]
    """
    if X is None and k is not None and not isinstance(k, Kernel):
        k, X = None, k  # witness(p, q, X)
    if X is None:
        raise DataError("The witness function is evaluated at points. Give some as X.")
    given = p, q
    p, q, k, _ = _prepared(p, q, k, categorical_features, max_bytes, common=False)
    X = as_table(X)
    if is_frame(X):
        X = _frame_points(X, p, q, given)
    first, second = (expected_kernel(x, X, k, max_bytes=max_bytes) for x in (p, q))
    return as_like(first, second) - as_like(second, first)  # one of them may be on a card


def _frame_points(X: Any, p: Any, q: Any, given: tuple[Any, Any]) -> Any:
    """The rows of a frame as the distributions have them."""
    circuit = next((x for x in (p, q) if isinstance(x, Circuit)), None)
    if circuit is not None:
        return circuit.schema.read_frame(X)
    tables = [x.frame if isinstance(x, Empirical) else x for x in given]
    return shared_schema(*(x for x in tables if is_frame(x)), X).read_frame(X)


def _prepared(
    p: Any, q: Any, k: Any, categorical_features: Any, max_bytes: int, common: bool = True
) -> tuple[Any, Any, Kernel, Any]:
    """Two distributions over the same variables, the kernel, and both on a common vtree.

    The last are the first two, unless one of these is a model that was compiled on another vtree.
    """
    one, other = as_distribution(p), as_distribution(q)
    first, second = two_distributions(one, other, max_bytes, common=False)
    second = first if q is p else second
    for x in (first, second):
        if isinstance(x, Circuit):
            check_single_root(x, "A discrepancy")
        require_distribution(x, "A discrepancy")
    if k is None:
        k = default_kernel(first, second, categorical_features=categorical_features)
    else:
        refuse_features(categorical_features)
    both = isinstance(first, Circuit) and isinstance(second, Circuit) and q is not p
    if not common or not both or not any(hasattr(x, "compile") for x in (one, other)):
        return first, second, k, (first, second)
    pair = two_distributions(one, other, max_bytes)
    if not is_kernel_compatible(k, first, first) or not is_kernel_compatible(k, second, second):
        return *pair, k, pair
    return first, second, k, pair


def as_distribution(x: Any) -> Any:
    """A plain array or frame of points stands for its empirical distribution."""
    refuse_functions(x)
    if isinstance(x, (Circuit, Unit, Empirical)) or hasattr(x, "compile"):
        return x
    model = converted(x)
    if model is not x:
        return model
    weights = sample_weights(x)
    return Empirical(x if weights is None else x.rows, weights)
