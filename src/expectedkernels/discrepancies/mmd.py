"""Maximum mean discrepancy between circuits, points, or both."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.sides import check_single_root
from expectedkernels.circuits.units import Unit
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES
from expectedkernels.errors import KernelError
from expectedkernels.expectation import Empirical, expected_kernel
from expectedkernels.kernels.kernel import Kernel


def mmd2(p: Any, q: Any, k: Kernel, *, max_bytes: int = DEFAULT_MAX_BYTES) -> Any:
    """The squared maximum mean discrepancy, M(p, p) + M(q, q) - 2 M(p, q), exactly.

    Parameters
    ----------
    p, q : Circuit, unit graph, Empirical, or array of points (with equal weights)
        Circuits must be compatible with each other.
    k : Kernel
    max_bytes : int
        How much memory intermediate values may take, as for `expected_kernel`.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.9, 0.1]]), ek.factorized([[0.5, 0.5]])
    >>> round(ek.mmd2(p, q, ek.Delta()), 12)
    0.32
    >>> ek.mmd2(p, p, ek.Delta())
    0.0
    """
    p, q = _as_distribution(p), _as_distribution(q)
    return (
        expected_kernel(p, p, k, max_bytes=max_bytes)
        + expected_kernel(q, q, k, max_bytes=max_bytes)
        - 2.0 * expected_kernel(p, q, k, max_bytes=max_bytes)
    )


def mmd(p: Any, q: Any, k: Kernel, *, max_bytes: int = DEFAULT_MAX_BYTES) -> Any:
    """The maximum mean discrepancy, the square root of `mmd2`.

    Rounding may leave a squared discrepancy of zero slightly negative; it counts as zero. A value
    that is negative beyond rounding means that the kernel is not positive definite, and raises.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.9, 0.1]]), ek.factorized([[0.5, 0.5]])
    >>> round(ek.mmd(p, q, ek.Delta()), 6)
    0.565685
    """
    p, q = _as_distribution(p), _as_distribution(q)
    squared = mmd2(p, q, k, max_bytes=max_bytes)
    if squared > 0:
        return sqrt(squared) if isinstance(squared, float) else squared**0.5
    size = sum(float(expected_kernel(x, x, k, max_bytes=max_bytes)) for x in (p, q))
    if squared < -1e-10 * abs(size):
        raise KernelError(
            f"The squared discrepancy is {float(squared):.6g}, which is negative beyond rounding: "
            f"the kernel is not positive definite ({k.is_positive_definite()!r})."
        )
    return 0.0 * squared


def _as_distribution(x: Any) -> Any:
    """A plain array of points stands for its empirical distribution."""
    if isinstance(x, Circuit):
        check_single_root(x, "A discrepancy")
        return x
    return x if isinstance(x, (Unit, Empirical)) else Empirical(np.asarray(x))
