"""Gaussian process regression with missing values."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from functools import lru_cache
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_solve, cholesky
from scipy.optimize import minimize
from sklearn.base import RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, WhiteKernel
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from expectedkernels.arrays import Array, RowsLike
from expectedkernels.checks import KernelError
from expectedkernels.estimators.base import estimator
from expectedkernels.estimators.calibration import PredictionIntervals
from expectedkernels.estimators.kernel_expansion import (
    Masks,
    Prior,
    kernels_between,
    read_gp_kernel,
    table,
)

STEP = 1e-5
"""The step of difference quotients in the logarithms of parameters."""
KEPT = 32
"""How many matrices of expected kernels are kept: amplitudes and noise do not change them."""


class Covariances:
    """The covariance matrices of the targets of some rows, for kernels with any parameters.

    Parameters
    ----------
    gram : function from gamma to expected kernels between rows, (rows, rows)
    n_columns : int
    alpha : float
        Added to the diagonal.
    """

    def __init__(self, gram: Callable[[Any], Any], n_columns: int, alpha: float):
        self.alpha, self.n_columns = alpha, n_columns
        self._gram = lru_cache(maxsize=KEPT)(lambda gamma: gram(np.array(gamma)))

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


ENOUGH_ROWS = 200
"""So many rows are enough to fit the parameters of a kernel to."""


@estimator(n_restarts_optimizer="give a 'kernel' with other parameters to start elsewhere")
class ExpectedGaussianProcessRegressor(RegressorMixin, PredictionIntervals):  # type: ignore[misc]
    """Gaussian process regression that expects its prediction over missing values, exactly.

    The mean is the expectation of the posterior mean over what missing values could be, and the
    variance follows from the law of total variance: the expected posterior variance plus the
    variance of the posterior mean.

    Parameters
    ----------
    kernel : kernel of sklearn.gaussian_process, optional
        An RBF kernel, which may be multiplied with a ConstantKernel and added to a WhiteKernel.
        Default: all three, with scale, length and noise fitted to the data.
    alpha : float
        Added to the diagonal of the kernel matrix.
    optimizer : {"fmin_l_bfgs_b"} or None
        How the parameters of the kernel are fitted. With incomplete rows in the training data it
        is the complete ones that they are fitted to, if there are at least 200 of these; else up to
        200 rows of both kinds, through their expected kernels.
    normalize_y : bool
        Whether to scale the target to mean zero and variance one.
    standardize : bool
        Whether the kernel sees numeric columns with mean zero and variance one (by the observed
        values in fit). The target is the matter of `normalize_y`.

    Attributes
    ----------
    model_ : GaussianProcessRegressor or None
        The process fitted to the complete rows, None if there are none.
    kernel_ : kernel
        With fitted parameters.
    mask_rate_ : float
        The rate of the mask kernel.
    densities_, density_weights_ : list of str and array
        What the density is an average of, and with which weights.
    circuit_ : Circuit or None
        The tree among them, if there is one.

    Notes
    -----
    An incomplete training row tells of the function at a point that is not known. Its covariances
    with others are expected kernels; its variance is that of a complete row, so that what is
    missing acts as noise. The posterior is the best linear predictor for these moments.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 2))
    >>> model = ExpectedGaussianProcessRegressor(alpha=0.01).fit(X, X[:, 0])
    >>> mean, std = model.predict([[0.5, 0.0], [np.nan, 0.0]], return_std=True)
    >>> bool(std[0] < 0.2 < 0.5 < std[1])
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PredictionIntervals._parameter_constraints,
        "kernel": [Kernel, None],
        "alpha": [Interval(Real, 0.0, None, closed="neither")],
        "optimizer": [StrOptions({"fmin_l_bfgs_b"}), None],
        "normalize_y": ["boolean"],
    }
    _multi_output: ClassVar[bool] = True

    kernel: object = field(default=None, kw_only=False)
    alpha: float = 1e-10
    optimizer: str | None = "fmin_l_bfgs_b"
    normalize_y: bool = True

    def fit(self, X: RowsLike, y: ArrayLike) -> Self:
        """Learn the density of the columns and the process.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            NaN, None and pandas' NA are missing.
        y : array of shape (rows,) or (rows, targets)

        Returns
        -------
        self

        Examples
        --------
        >>> import expectedkernels as ek
        >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.5]], [0.0, 1.0, 2.0, 3.0]
        >>> ek.ExpectedGaussianProcessRegressor().fit(X, y).n_features_in_
        2
        """
        return self._fit(X, y)

    def predict(self, X: RowsLike, return_std: bool = False, std_tol: float = 0.01) -> Array:
        """The expected posterior means, and on request the standard deviations.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
        return_std : bool
            Also return the standard deviation, of the process (with the noise of its kernel) and of
            missing values together.
        std_tol : float
            The relative error that standard deviations may have; those of processes are exact.

        Returns
        -------
        array of shape (rows,), or two of them

        Examples
        --------
        >>> import expectedkernels as ek
        >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.5]], [0.0, 1.0, 2.0, 3.0]
        >>> ek.ExpectedGaussianProcessRegressor().fit(X, y).predict([[0.0, np.nan]]).shape
        (1,)
        """
        return self._expect(X, return_std, std_tol)

    def _rate(self, Z: Any) -> Any:
        return read_gp_kernel(self._start(Z.shape[1]), Z.shape[1])[1]

    def _start(self, n_columns: int) -> Any:
        """The kernel whose parameters are fitted."""
        if self.kernel is not None:
            return clone(self.kernel)
        length = RBF(np.sqrt(n_columns), (1e-2, 1e4))  # columns of variance one are that far apart
        return ConstantKernel(1.0, (1e-3, 1e4)) * length + WhiteKernel(0.1, (1e-6, 1e2))

    @contextmanager
    def _own_bounds(self) -> Iterator[None]:
        """Parameters at the bounds of the default kernel are no news: nobody chose these."""
        with warnings.catch_warnings():
            if self.kernel is None:
                warnings.filterwarnings(
                    "ignore", "The optimal value found for", category=ConvergenceWarning
                )
            yield

    def _kept_parameters(self) -> dict[str, Any]:
        return {"kernel": self.kernel_, "optimizer": None}

    def _n_matrices(self) -> int:
        """The covariances, and their derivatives by every parameter that is fitted."""
        n = len(self.columns_.numeric)
        return 1 if self.optimizer is None else 1 + self._start(n).n_dims

    def _make(self, **kernel: Any) -> GaussianProcessRegressor:
        return GaussianProcessRegressor(
            self._start(len(self.columns_.numeric)),
            alpha=self.alpha,
            optimizer=self.optimizer,
            normalize_y=self.normalize_y,
            random_state=self.random_state,
        )

    def _normalised(self, y: Any) -> tuple[Any, Any, Any]:
        """The targets, (rows, outputs), and what they were reduced and divided by."""
        targets = table(y)
        centre, scale = np.zeros(targets.shape[1]), np.ones(targets.shape[1])
        if self.normalize_y:
            centre, scale = targets.mean(axis=0), targets.std(axis=0)
            scale = np.where(scale > 0, scale, 1.0)
        return (targets - centre) / scale, centre, scale

    def _as_ridge(self, Z: Any, masks: Any, y: Any) -> tuple[float, Any]:
        """The process that does not know masks."""
        targets = self._normalised(y)[0]
        with self._own_bounds():
            kernel, _ = self._fit_kernel(Z, Masks(0.0, masks), y, targets)
        amplitude, self.gamma_, noise = read_gp_kernel(kernel, Z.shape[1])
        return (noise + self.alpha) / amplitude, targets

    def _fit_model(
        self, Z: Any, own: Masks, y: Any, sample_weight: Any
    ) -> tuple[Any, Any, Prior | None]:
        """The posterior, given the targets of rows that may be incomplete or have masks."""
        targets, centre, scale = self._normalised(y)
        embedded = self.fit_missing_ == "expected" or bool(own.rate)
        with self._own_bounds():
            if embedded:
                self.kernel_, self.model_ = self._fit_kernel(Z, own, y, targets)
            else:
                self.model_ = self._make().fit(self._near_zero(Z), y)
                self.kernel_ = self.model_.kernel_
        amplitude, self.gamma_, noise = read_gp_kernel(self.kernel_, Z.shape[1])
        try:
            root = (
                cholesky(self._covariances(Z, own)(self.kernel_), lower=True)
                if embedded
                else self.model_.L_
            )
        except np.linalg.LinAlgError as error:
            raise KernelError(
                "The expected kernel matrix is not positive definite to working precision. "
                f"Increase 'alpha' of {type(self).__name__} (it is {self.alpha})."
            ) from error
        alpha, inverse = (cho_solve((root, True), x) for x in (targets, np.eye(len(Z))))
        prior = Prior(amplitude + noise, amplitude**2 * inverse, scale)
        self._target = centre, scale
        return amplitude * alpha, np.zeros(len(scale)), prior

    def _covariances(self, Z: Any, own: Masks) -> Covariances:
        factors = own.factors(own.points)

        def gram(gamma: Any) -> Any:
            return (
                kernels_between(self.density_, self._rates(gamma), Z, Z, self._resources) * factors
            )

        return Covariances(gram, Z.shape[1], self.alpha)

    def _fit_kernel(self, Z: Any, own: Masks, y: Any, targets: Any) -> tuple[Any, Any]:
        """The kernel with fitted parameters, and the process of complete rows, if there are any."""
        gaps = own.points.any(axis=1)
        complete, model = np.flatnonzero(~gaps), self._make()
        kernel = self._start(Z.shape[1])
        if len(complete) < ENOUGH_ROWS and self.optimizer is not None and kernel.n_dims:
            rng = check_random_state(self.random_state)
            others = rng.permutation(np.flatnonzero(gaps))[: ENOUGH_ROWS - len(complete)]
            rows = np.concatenate([complete, others])
            kernel = most_likely_kernel(
                kernel,
                self._covariances(Z[rows], Masks(own.rate, own.points[rows])),
                targets[rows],
            )
            model.set_params(kernel=kernel, optimizer=None)
        if not len(complete):
            return kernel, None
        model.fit(self._for_kernel(Z[complete]), y[complete])
        return model.kernel_, model
