"""Classification of rows with missing values by least squares, whose averages are probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.kernel_ridge import KernelRidge
from sklearn.utils._param_validation import Interval, StrOptions

from expectedkernels.arrays import Array, RowsLike, VariableLike
from expectedkernels.checks import removed
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES
from expectedkernels.estimators.base import REMOVED_PARAMETERS, KernelMachine, scaled_gamma
from expectedkernels.estimators.densities import DensityLike
from expectedkernels.estimators.left_out import least, leave_one_out
from expectedkernels.estimators.masks import MULTIPLES, Masks, chosen
from expectedkernels.estimators.scaling import Scaling
from expectedkernels.estimators.tables import read_labels

ALPHAS = 10.0 ** np.arange(-3.0, 1.5, 0.5)
"""What "auto" chooses the weight of the size of functions from."""
RATES = (0.03, 0.1, 0.3, 1.0, 3.0)
"""What "auto" chooses the rate of the kernel from, in multiples of "scale"."""
SMALLEST = 0.01
"""The smallest probability of a class, before probabilities are made to sum to one."""


class ExpectedKernelClassifier(ClassifierMixin, KernelMachine):  # type: ignore[misc]
    r"""Kernel least squares on classes, whose probabilities are averaged over missing values.

    Kernel ridge regression of the one-hot labels, less their frequencies, gives one function for
    every class; they sum to one, and estimate the probabilities of the classes. A row with missing
    values gets

    .. math:: E[f_c(x) \mid x_{obs}]

    exactly, which is the averaged probability itself: unlike the margins of a support vector
    machine, these functions mean the same thing everywhere, so that their mean is a fair vote.

    Parameters
    ----------
    alpha : float or "auto"
        How much the size of the functions counts.
    gamma : float, "scale" or "auto"
        The rate of the kernel ``exp(-gamma |x - x'|^2)``; "scale" as in scikit-learn's SVC.
    density, n_bins, categorical_features, groups, standardize
        As for `ExpectedSVR`.
    fit_missing, mask_kernel, n_jobs, max_bytes, memory, random_state
        As for `ExpectedSVR`. The state also draws the rows for "auto" where there are many.

    Attributes
    ----------
    classes_ : array
    alpha_, gamma_, mask_rate_ : float
        What was given, or chosen.
    model_ : KernelRidge
        The fitted model, of standardised columns if `standardize`; with kernel="precomputed" if
        rows were incomplete.
    densities_, density_weights_ : list of str and array
        What the density is an average of, and with which weights.
    circuit_ : Circuit or None
        The tree among them, if there is one.

    See Also
    --------
    ExpectedSVC : Support vector classification.

    Notes
    -----
    "auto" takes what makes the log loss of the leave-one-out probabilities smallest, of rates
    around "scale", of alphas from 0.001 to 10, and of rates of masks for each of these (0
    unless the loss falls by 5 %). Rows that are equal, with equal labels, are left out together;
    the frequencies of the classes stay those of all rows.

    Probabilities are cautious where classes are well separated: far from the rows in fit, functions
    go back to the frequencies. `ExpectedSVC.predict_proba` has the smaller log loss there, for five
    more fits; which classes are predicted is about as often right.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> X[:, 1] += 2 * X[:, 0]
    >>> y = np.where(X[:, 1] > 0, "up", "down")
    >>> model = ExpectedKernelClassifier().fit(X, y)
    >>> model.predict([[1.5, np.nan], [-1.5, np.nan]]).tolist()
    ['up', 'down']
    >>> model.predict_proba([[1.5, np.nan], [0.0, np.nan]]).round(1).tolist()
    [[0.0, 1.0], [0.5, 0.5]]
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **KernelMachine._parameter_constraints,
        "alpha": [StrOptions({"auto"}), Interval(Real, 0.0, None, closed="neither")],
        "gamma": [StrOptions({"auto", "scale"}), Interval(Real, 0.0, None, closed="neither")],
    }

    @removed(**REMOVED_PARAMETERS)
    def __init__(
        self,
        *,
        alpha: float | str = "auto",
        gamma: float | str = "auto",
        density: DensityLike = "auto",
        n_bins: int = 10,
        categorical_features: str | ArrayLike | None = "from_dtype",
        groups: Sequence[Sequence[VariableLike]] | None = None,
        standardize: bool = True,
        fit_missing: str = "auto",
        mask_kernel: float | str | None = None,
        n_jobs: int | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        memory: object = None,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.alpha, self.gamma = alpha, gamma
        self.density, self.n_bins = density, n_bins
        self.categorical_features, self.groups = categorical_features, groups
        self.standardize = standardize
        self.fit_missing, self.mask_kernel = fit_missing, mask_kernel
        self.n_jobs, self.max_bytes, self.random_state = n_jobs, max_bytes, random_state
        self.memory = memory

    def fit(self, X: RowsLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the density of the columns and the functions of the classes.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            NaN, None and pandas' NA are missing.
        y : array of shape (rows,)
        sample_weight : array of shape (rows,), optional
            How much errors count in each row. The density does not use it.

        Returns
        -------
        self

        Examples
        --------
        >>> import expectedkernels as ek
        >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.5]], [0, 0, 1, 1]
        >>> ek.ExpectedKernelClassifier().fit(X, y).n_features_in_
        2
        """
        return self._fit(X, y, sample_weight)

    def predict(self, X: RowsLike) -> Array:
        """The classes of the largest averaged probabilities.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            NaN is missing.

        Returns
        -------
        array of shape (rows,)

        Examples
        --------
        >>> import expectedkernels as ek
        >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.5]], [0, 0, 1, 1]
        >>> ek.ExpectedKernelClassifier().fit(X, y).predict([[0.0, np.nan]]).tolist()
        [0]
        """
        values = self._expect(X, return_std=False)
        return self.classes_[np.argmax(values, axis=1)]

    def predict_proba(self, X: RowsLike) -> Array:
        """The averaged probabilities of the classes: at least 0.01 before they are normalised.

        With more than ten classes it is a tenth of one over their number.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            NaN is missing.

        Returns
        -------
        array of shape (rows, classes)

        Examples
        --------
        >>> import expectedkernels as ek
        >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.5]], [0, 0, 1, 1]
        >>> ek.ExpectedKernelClassifier().fit(X, y).predict_proba([[0.0, np.nan]]).shape
        (1, 2)
        """
        return as_probabilities(self._expect(X, return_std=False))

    def decision_function(
        self, X: RowsLike, return_std: bool = False, std_tol: float = 0.01
    ) -> Array:
        """The expected functions of the classes, and on request their standard deviations.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
        return_std : bool
            Also return how far the functions spread over what is missing; zero for complete rows.
        std_tol : float
            The relative error that standard deviations may have; 0 asks for exact ones, which take
            all pairs of support vectors for every row. Exact where that is quick.

        Returns
        -------
        array of shape (rows,) for two classes, the second less the first; else (rows, classes)

        Examples
        --------
        >>> import expectedkernels as ek
        >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.5]], [0, 0, 1, 1]
        >>> ek.ExpectedKernelClassifier().fit(X, y).decision_function([[0.0, np.nan]]).shape
        (1,)
        """
        answer = self._expect(X, return_std, std_tol)
        mean, std = answer if return_std else (answer, None)
        if len(self.classes_) == 2:  # the two sum to one, so that both deviations are the same
            mean, std = mean[:, 1] - mean[:, 0], None if std is None else 2.0 * std[:, 1]
        return (mean, std) if return_std else mean

    def _read_target(self, X: Any, y: Any) -> Any:
        return read_labels(self, X, y)

    def _learn_target(self, y: Any, sample_weight: Any) -> Any:
        """The one-hot labels, less the frequencies of the classes."""
        self.classes_, label = np.unique(y, return_inverse=True)
        bits = np.eye(len(self.classes_))[label]
        frequencies = np.average(bits, axis=0, weights=sample_weight)
        self._target = Scaling(frequencies, np.ones(len(self.classes_)))
        return self._target.apply(bits)

    def _choose(self, Z: Any, for_kernel: Any, masks: Any, y: Any, sample_weight: Any) -> None:
        """Choose the weight and the rates that are "auto"."""
        alphas = ALPHAS if self.alpha == "auto" else np.array([float(self.alpha)])
        rows, weights = self._rows_to_choose_by(Z, masks, y.argmax(axis=1), sample_weight)
        if self.gamma == "auto":
            scale = weighted_scale(for_kernel[rows], weights)
            rates = [share * scale for share in RATES]
        else:
            rates = [scaled_gamma(self.gamma, for_kernel)]
        shares = MULTIPLES if self.mask_kernel == "auto" and masks.any() else (0.0,)
        given = self._given_mask_rate
        self.alpha_, self.gamma_, self.mask_rate_ = float(alphas[0]), rates[0], given
        if len(rates) * len(alphas) * len(shares) == 1:
            return
        tried: list[list[Any]] = [[] for _ in shares]
        for gamma in rates:
            gram = self._gram(gamma, Z[rows])
            for found, share in zip(tried, shares, strict=True):
                own = Masks(given + share * self._unit(gamma, for_kernel), masks[rows])
                known = gram * own.factors(own.points) if own.rate else gram
                losses = self._losses(known, y[rows], alphas, weights)
                every = zip(losses, alphas.tolist(), strict=True)
                found += [(loss, alpha, gamma, own.rate) for loss, alpha in every]
        best = [found[least([loss for loss, *_ in found])] for found in tried]
        found = best[chosen([loss for loss, *_ in best])]
        self.alpha_, self.gamma_, self.mask_rate_ = found[1:]

    def _losses(self, gram: Any, y: Any, alphas: Any, weights: Any) -> list[float]:
        """The log losses of the leave-one-out probabilities, for every alpha."""
        undo = self._target.undo  # type: ignore[union-attr]
        bits = undo(y)
        every = (as_probabilities(undo(x)) for x in leave_one_out(gram, y, alphas, weights))
        return [-float(weights @ np.log((p * bits).sum(axis=1))) for p in every]

    def _rate(self, Z: Any) -> Any:
        return self.gamma_

    def _make(self, kernel: Any) -> KernelRidge:
        if kernel == "precomputed":
            return KernelRidge(alpha=self.alpha_, kernel="precomputed")
        return KernelRidge(alpha=self.alpha_, kernel="rbf", gamma=kernel)

    def _coefficients(self, model: Any, n_rows: int) -> tuple[Any, Any]:
        coef = np.asarray(model.dual_coef_)
        return coef, np.zeros(coef.shape[1])

    def _embedded(self, expansion: Any, **more: Any) -> Any:
        return super()._embedded(expansion, flat=False, **more)


def weighted_scale(Z: Any, weights: Any) -> float:
    """The rate that "scale" stands for, with rows that count as much as they weigh."""
    seen = ~np.isnan(Z)
    entries, shares = Z[seen], np.broadcast_to(weights[:, None], Z.shape)[seen]
    if not len(entries):
        return 1.0
    mean = np.average(entries, weights=shares)
    deviation = np.sqrt(np.average((entries - mean) ** 2, weights=shares))
    return scaled_gamma("scale", np.tile([[-deviation], [deviation]], Z.shape[1]))


def as_probabilities(values: Any) -> Any:
    """Values of classes, (rows, classes), made at least a little and to sum to one.

    Examples
    --------
    >>> as_probabilities(np.array([[1.2, -0.2]])).round(3).tolist()
    [[0.992, 0.008]]
    """
    positive = np.maximum(values, min(SMALLEST, 0.1 / values.shape[1]))
    return positive / positive.sum(axis=1, keepdims=True)
