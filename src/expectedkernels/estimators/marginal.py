"""The parameters of a kernel by marginal likelihood, for rows with missing values.

An incomplete row tells of the process at a point that is not known. Then, before any target is
seen,

    Cov(y_i, y_j) = E[k(x_i, x_j)],   Var(y_i) = E[k(x_i, x_i)] + noise

over what the missing values could be; the parameters are those under which the targets are most
likely, as if they were normal with these moments.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.optimize import minimize

from expectedkernels.estimators.circuits import AnyDensity
from expectedkernels.estimators.expansion import kernels_between
from expectedkernels.estimators.machines import read_gp_kernel
from expectedkernels.estimators.resources import Resources
from expectedkernels.estimators.scaling import Scaling

STEP = 1e-5
"""The step of difference quotients in the logarithms of parameters."""
KEPT = 32
"""How many matrices of expected kernels are kept: amplitudes and noise do not change them."""


class Covariances:
    """The covariance matrices of the targets of some rows, for kernels with any parameters.

    Parameters
    ----------
    density : AnyDensity
    Z : array of shape (rows, columns)
        NaN is missing.
    alpha : float
        Added to the diagonal.
    resources : Resources
    kept : int
        How many matrices of expected kernels to keep.
    scaling : Scaling, optional
        How columns are standardised for the kernels.
    factors : array of shape (rows, rows), optional
        What expected kernels are multiplied with.
    """

    def __init__(
        self,
        density: AnyDensity,
        Z: Any,
        alpha: float,
        resources: Resources,
        kept: int = KEPT,
        scaling: Scaling | None = None,
        factors: Any = 1.0,
    ):
        self.alpha, self.n_columns = alpha, Z.shape[1]

        @lru_cache(maxsize=kept)
        def gram(rates: tuple[float, ...]) -> Any:
            raw = np.array(rates) if scaling is None else scaling.rates(np.array(rates))
            return kernels_between(density, raw, Z, Z, resources) * factors

        self._gram = gram

    def __call__(self, kernel: Any) -> Any:
        """The covariance matrix for a kernel."""
        amplitude, rates, noise = read_gp_kernel(kernel, self.n_columns)
        matrix = amplitude * self._gram(tuple(rates.tolist()))
        matrix[np.diag_indices(len(matrix))] = amplitude + noise + self.alpha
        return matrix


def log_marginal_likelihood(matrix: Any, targets: Any) -> float:
    """The log of the normal density of targets, (rows, outputs); -inf if there is none.

    Examples
    --------
    >>> round(log_marginal_likelihood(np.eye(2), np.zeros((2, 1))), 4)
    -1.8379
    """
    try:
        root = cholesky(matrix, lower=True)
    except np.linalg.LinAlgError:
        return -np.inf
    fit = float((targets * cho_solve((root, True), targets)).sum())
    size = float(np.log(np.diag(root)).sum()) + 0.5 * len(matrix) * np.log(2.0 * np.pi)
    return float(-0.5 * fit - targets.shape[1] * size)


def most_likely_kernel(kernel: Any, covariances: Covariances, targets: Any) -> Any:
    """The kernel with the parameters that make the targets most likely.

    Parameters
    ----------
    kernel : kernel of sklearn.gaussian_process
        With the parameters to start from, and their bounds.
    covariances : Covariances
    targets : array of shape (rows, outputs)
    """

    def loss(theta: Any) -> float:
        matrix = covariances(kernel.clone_with_theta(theta))
        return min(-log_marginal_likelihood(matrix, targets), 1e25)

    options = {"bounds": kernel.bounds, "options": {"eps": STEP}}
    return kernel.clone_with_theta(minimize(loss, kernel.theta, method="L-BFGS-B", **options).x)
