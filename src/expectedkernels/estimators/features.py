"""Expected kernel values at landmarks as features of rows with missing values."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from expectedkernels.arrays import Array, RowsLike, VariableLike
from expectedkernels.checks import removed
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES
from expectedkernels.estimators.base import (
    GAMMA,
    REMOVED_PARAMETERS,
    DensityEstimator,
    scaled_gamma,
)
from expectedkernels.estimators.densities import DensityLike
from expectedkernels.estimators.machines import read_rows


class ExpectedKernelFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, DensityEstimator):  # type: ignore[misc]
    """The features E[k(x, s_j) | what is observed] of rows, for landmarks s_j.

    Any model can follow: a row with missing values has complete features, which are the mean
    embedding of what it could be, evaluated at the landmarks.

    Parameters
    ----------
    n_components : int
        The number of landmarks, drawn at random from the complete rows that differ; fewer if there
        are not as many. If no row is complete, landmarks are the distributions of incomplete ones.
    gamma : {"scale", "auto"} or float
        The rate of the kernel ``exp(-gamma |x - x'|^2)``.
    normalize : bool
        Whether to multiply features with the inverse root of the landmarks' kernel matrix, so that
        inner products of features approximate expected kernels (the Nyström method).
    density, n_bins, categorical_features, groups, standardize, n_jobs, max_bytes, \
random_state
        As for `ExpectedSVR`.

    Attributes
    ----------
    landmarks_ : array of shape (components, columns)
    circuit_ : Circuit or None
        The density, if it is a circuit.
    densities_, density_weights_ : list of str and array
        What the density is an average of, and with which weights.
    gamma_ : float
        The rate of the kernel.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, np.nan]])
    >>> ExpectedKernelFeatures(n_components=2, random_state=0).fit_transform(X).shape
    (4, 2)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DensityEstimator._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "gamma": GAMMA,
        "normalize": ["boolean"],
        "standardize": ["boolean"],
    }

    @removed(binning=REMOVED_PARAMETERS["binning"])
    def __init__(
        self,
        n_components: int = 100,
        *,
        gamma: str | float = "scale",
        normalize: bool = False,
        density: DensityLike = "chow_liu",
        n_bins: int = 10,
        categorical_features: str | ArrayLike | None = "from_dtype",
        groups: Sequence[Sequence[VariableLike]] | None = None,
        standardize: bool = True,
        n_jobs: int | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.n_components, self.gamma, self.normalize = n_components, gamma, normalize
        self.density, self.n_bins = density, n_bins
        self.categorical_features, self.groups = categorical_features, groups
        self.standardize = standardize
        self.n_jobs, self.max_bytes, self.random_state = n_jobs, max_bytes, random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

    def fit(self, X: RowsLike, y: ArrayLike | None = None) -> Self:
        """Learn the density of the columns and choose landmarks.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            NaN, None and pandas' NA are missing.
        y : ignored

        Returns
        -------
        self

        Examples
        --------
        >>> import expectedkernels as ek
        >>> ek.ExpectedKernelFeatures(2).fit([[0.0, 1.0], [1.0, 0.0]]).n_features_in_
        2
        """
        self._validate_params()
        Z = self._learn_density(self._learn_columns(X))
        read_rows(self.density_, Z)  # raises if a row has probability zero
        self.gamma_ = scaled_gamma(self.gamma, self._learn_scaling(Z))
        complete = ~np.isnan(Z).any(axis=1)
        possible = np.unique(Z[complete] if complete.any() else Z, axis=0)
        rng = check_random_state(self.random_state)
        n = min(self.n_components, len(possible))
        self.landmarks_ = possible[np.sort(rng.permutation(len(possible))[:n])]
        self._n_features_out = n
        self._rates = self._raw_rates(self.gamma_, Z.shape[1])
        self._root = None
        if self.normalize:
            self._resources.require_matrix(n)
            gram = self.density_.gram(self._rates, self.landmarks_, None, self._resources)
            values, vectors = np.linalg.eigh(gram)
            values = np.maximum(values, 1e-12 * values.max())
            self._root = (vectors / np.sqrt(values)) @ vectors.T
        return self

    def transform(self, X: RowsLike) -> Array:
        """The expected kernel values between rows and landmarks.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            NaN is missing.

        Returns
        -------
        array of shape (rows, landmarks)

        Examples
        --------
        >>> import expectedkernels as ek
        >>> features = ek.ExpectedKernelFeatures(2).fit([[0.0, 1.0], [1.0, 0.0]])
        >>> features.transform([[0.0, np.nan]]).shape
        (1, 2)
        """
        Z = self._read(X)
        read_rows(self.density_, Z)  # raises if a row has probability zero
        gram = self.density_.gram(self._rates, Z, self.landmarks_, self._resources)
        return gram if self._root is None else gram @ self._root
