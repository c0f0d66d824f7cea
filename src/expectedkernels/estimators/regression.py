"""Support vector regression and kernel ridge with missing values."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVR
from sklearn.utils._param_validation import Interval, StrOptions

from expectedkernels.arrays import Array, RowsLike
from expectedkernels.estimators.base import (
    GAMMA,
    KernelMachine,
    estimator,
    scaled_gamma,
)
from expectedkernels.estimators.calibration import PredictionIntervals
from expectedkernels.estimators.encoding import read_target
from expectedkernels.estimators.kernel_expansion import MULTIPLES, table

ALPHAS = 10.0 ** np.arange(-3.0, 1.5, 0.5)
"""What "auto" chooses the weight of the size of functions from."""
RATES = (0.03, 0.1, 0.3, 1.0, 3.0)
"""What "auto" chooses the rate of the kernel from, in multiples of "scale"."""
SMALLEST = 0.01
"""The smallest probability of a class, before probabilities are made to sum to one."""


class LeastSquares(KernelMachine):
    """Kernel least squares, with parameters that are best at rows that are left out."""

    alpha_: Any
    _best_rate: Any

    def _choose_left_out(
        self,
        Z: Any,
        masks: Any,
        y: Any,
        labels: Any,
        sample_weight: Any,
        is_auto: bool,
        shares: Any,
    ) -> tuple[float, Any, float]:
        """The weight, the rate of the kernel and that of masks; rows that differ are left out."""
        alphas = ALPHAS if self.alpha == "auto" else [self.alpha]
        rows, weights = self._rows_to_choose_by(Z, masks, labels, sample_weight)
        if is_auto:
            scale = weighted_scale(self._for_kernel(Z[rows]), weights)
            gammas = [rate * scale for rate in RATES]
        else:
            gammas = [scaled_gamma(self.gamma, self._for_kernel(Z))]
        return self._best(Z, masks, y, rows, weights, (alphas, gammas, shares))

    def _make(self, **kernel: Any) -> KernelRidge:
        return KernelRidge(alpha=self.alpha_, **kernel)


@estimator()
class ExpectedKernelClassifier(ClassifierMixin, LeastSquares):  # type: ignore[misc]
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

    alpha: float | str = "auto"
    gamma: float | str = "auto"

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
        return read_target(self, X, y, labels=True)

    def _learn_target(self, y: Any, sample_weight: Any) -> Any:
        """The one-hot labels, less the frequencies of the classes."""
        self._target: tuple[Any, Any]
        self.classes_, label = np.unique(y, return_inverse=True)
        bits = np.eye(len(self.classes_))[label]
        frequencies = np.average(bits, axis=0, weights=sample_weight)
        self._target = frequencies, 1.0
        return bits - frequencies

    def _choose(self, Z: Any, masks: Any, y: Any, sample_weight: Any) -> None:
        """Choose the weight and the rates that are "auto"."""
        shares = MULTIPLES if self.mask_kernel == "auto" and masks.any() else (0.0,)
        given = Z, masks, y, y.argmax(axis=1), sample_weight
        best = self._choose_left_out(*given, self.gamma == "auto", shares)
        self.alpha_, self.gamma_, self.mask_rate_ = best

    def _losses(self, left_out: Any, targets: Any, weights: Any) -> Any:
        """The log losses of the leave-one-out probabilities, for every alpha."""
        bits = targets + self._target[0]
        every = (as_probabilities(x + self._target[0]) for x in left_out)
        return [-float(weights @ np.log((p * bits).sum(axis=1))) for p in every]


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


@estimator()
class ExpectedSVR(RegressorMixin, PredictionIntervals):  # type: ignore[misc]
    r"""Support vector regression that expects its prediction over missing values, exactly.

    The model to start with is `ExpectedKernelRidge`, which chooses its parameters itself; this one
    gives less weight to outliers. The prediction for a row with missing values (NaN) is

    .. math:: E[f(x) \mid x_{obs}] = \sum_j a_j E[k(s_j, x) \mid x_{obs}] + b

    under a density learned from the data. Complete rows get the prediction of scikit-learn's SVR
    (fitted to standardised columns and targets); a row of nothing but missing values gets E[f].

    Parameters
    ----------
    C : float
        How much errors count.
    epsilon : float
        Errors below this do not count; in standard deviations of the target if `standardize`.
    gamma : {"scale", "auto"} or float
        The rate of the kernel ``exp(-gamma |x - x'|^2)``, as in scikit-learn's SVR.
    tol : float
        When to stop.

    Attributes
    ----------
    model_ : SVR
        The fitted model, of standardised columns and targets if `standardize` (of columns less
        one of their values if they lie further from zero than a thousand deviations); with
        kernel="precomputed" if rows were incomplete.
    densities_, density_weights_ : list of str and array
        What the density is an average of, and with which weights.
    circuit_ : Circuit or None
        The tree among them, if there is one.
    gamma_ : float
        The rate of the kernel (of standardised columns if `standardize`).
    mask_rate_ : float
        The rate of the mask kernel, 0 if masks do not count.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    expected_prediction : The same for a model and a circuit that are already there.

    Notes
    -----
    The answer is consistent when values are missing (completely) at random, f is the best predictor
    of the target and the density is right. SVR estimates medians rather than means.

    With `standardize`, f is what ``make_pipeline(StandardScaler(), SVR())`` inside a
    ``TransformedTargetRegressor`` with a StandardScaler would be, for the numeric columns: columns
    in large units do not drown the others, and C and epsilon have a meaning that does not depend on
    units. Bits of categories stay 0 and 1, codes in single columns of `groups` stay as they are.
    The density, predictions and deviations are in the units of the data in any case.

    Predictions and their standard deviations do not depend on the order of rows and of columns,
    nor on where the zero of a column is, up to rounding and to the stopping tolerance of the solver
    (`tol` of support vector machines, the optimizer of a Gaussian process); gamma="scale" depends
    on zero without `standardize`, as in scikit-learn. Ties in a Chow-Liu tree are broken by what
    columns hold, then by their names; where columns without names have equal contents, the tree
    leaves out the edges that this does not decide. Densities with random starts draw in an order
    that rows and columns have by their ranks, which leaves some tables of few rows undecided.
    Prediction intervals come from random folds and draws, and vary a little with the order.

    With a `mask_kernel`, the function depends on what is missing, and what it expects is
    right only for rows whose values are missing for the reasons they were missing for in fit. Give
    it rows with holes in fit: of other rows it says nothing. In `shapley_values` and
    `acquisition_gain` the function is the one of the row's own mask.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> X[:, 1] += X[:, 0]
    >>> y = X[:, 0] + X[:, 1]
    >>> model = ExpectedSVR(C=10.0).fit(X, y)
    >>> mean, std = model.predict([[1.0, np.nan, 0.0], [1.0, 1.0, 0.0]], return_std=True)
    >>> bool(1.5 < mean[0] < 2.5), bool(0.5 < std[0] < 1.5), float(std[1])
    (True, True, 0.0)

    Here a value is missing where the target is large:

    >>> X[y > 1.0, 1] = np.nan
    >>> plain, masked = (ExpectedSVR(mask_kernel=kind).fit(X, y) for kind in (None, "auto"))
    >>> plain.mask_rate_, masked.mask_rate_ > 0, masked.score(X, y) > plain.score(X, y)
    (0.0, True, True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PredictionIntervals._parameter_constraints,
        "C": [Interval(Real, 0.0, None, closed="right")],
        "epsilon": [Interval(Real, 0.0, None, closed="left")],
        "gamma": GAMMA,
        "tol": [Interval(Real, 0.0, None, closed="neither")],
    }
    _scales_target: ClassVar[bool] = True

    C: float = 1.0
    epsilon: float = 0.1
    gamma: str | float = "scale"
    tol: float = 1e-3

    def fit(self, X: RowsLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the density of the columns and the regression function.

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
        >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.5]], [0.0, 1.0, 2.0, 3.0]
        >>> ek.ExpectedSVR().fit(X, y).n_features_in_
        2
        """
        return self._fit(X, y, sample_weight)

    def predict(self, X: RowsLike, return_std: bool = False, std_tol: float = 0.01) -> Array:
        """The expected predictions, and on request their standard deviations.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
        return_std : bool
            Also return the standard deviation of f(x) due to missing values: zero for complete
            rows. It has no noise in it; for that see `predict_interval`.
        std_tol : float
            The relative error that standard deviations may have; 0 asks for exact ones, which take
            all pairs of support vectors for every row. Exact where that is quick.

        Returns
        -------
        array of shape (rows,), or two of them

        Examples
        --------
        >>> import expectedkernels as ek
        >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.5]], [0.0, 1.0, 2.0, 3.0]
        >>> ek.ExpectedSVR().fit(X, y).predict([[0.0, np.nan]]).shape
        (1,)
        """
        return self._expect(X, return_std, std_tol)

    def _make(self, **kernel: Any) -> SVR:
        return SVR(C=self.C, epsilon=self.epsilon, tol=self.tol, **kernel)

    def _as_ridge(self, Z: Any, masks: Any, y: Any) -> tuple[float, Any]:
        return 0.5 / self.C, (y - y.mean())[:, None]


@estimator()
class ExpectedKernelRidge(RegressorMixin, LeastSquares, PredictionIntervals):  # type: ignore[misc]
    """Kernel ridge regression that expects its prediction over missing values, exactly.

    The model to start with for numbers: it estimates means, so that the average of its predictions
    over missing values is itself a prediction of the mean, and by default it chooses its
    parameters by leave-one-out errors in closed form.

    Parameters
    ----------
    alpha : float or "auto"
        Regularization strength. "auto" takes the value from 0.001 to 10 with the smallest squared
        leave-one-out error (of at most 1000 rows), and gamma with it if that is None.
    gamma : {"scale", "auto"}, float or None
        The bandwidth of the kernel ``exp(-gamma |x - x'|^2)``. None with alpha="auto" is the best
        of five values around "scale", and else, like "auto", one over the number of columns, as in
        scikit-learn's KernelRidge.

    Attributes
    ----------
    model_ : KernelRidge
        The fitted model, of standardised columns and targets if `standardize`; with
        kernel="precomputed" if rows were incomplete.
    densities_, density_weights_ : list of str and array
        What the density is an average of, and with which weights.
    circuit_ : Circuit or None
        The tree among them, if there is one.
    alpha_ : float
        What was given, or chosen.
    gamma_, mask_rate_ : float
        The rates of the kernel, and of the mask kernel.

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, np.nan]])
    >>> model = ExpectedKernelRidge(alpha=0.01).fit(X, [0.0, 1.0, 2.0, 3.0])
    >>> model.predict([[2.0, np.nan]]).shape
    (1,)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PredictionIntervals._parameter_constraints,
        "alpha": [StrOptions({"auto"}), Interval(Real, 0.0, None, closed="left")],
        "gamma": [*GAMMA, None],
    }
    _multi_output: ClassVar[bool] = True
    _scales_target: ClassVar[bool] = True

    alpha: float | str = "auto"
    gamma: str | float | None = None

    def fit(self, X: RowsLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the density of the columns and the regression function.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            NaN, None and pandas' NA are missing.
        y : array of shape (rows,) or (rows, targets)
        sample_weight : array of shape (rows,), optional
            How much errors count in each row. The density does not use it.

        Returns
        -------
        self

        Examples
        --------
        >>> import expectedkernels as ek
        >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.5]], [0.0, 1.0, 2.0, 3.0]
        >>> ek.ExpectedKernelRidge().fit(X, y).n_features_in_
        2
        """
        return self._fit(X, y, sample_weight)

    def predict(self, X: RowsLike, return_std: bool = False, std_tol: float = 0.01) -> Array:
        """The expected predictions, and on request their standard deviations.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
        return_std : bool
            Also return the standard deviation of f(x) due to missing values: zero for complete
            rows. It has no noise in it; for that see `predict_interval`.
        std_tol : float
            The relative error that standard deviations may have; 0 asks for exact ones, which take
            all pairs of support vectors for every row. Exact where that is quick.

        Returns
        -------
        array of shape (rows,), or two of them

        Examples
        --------
        >>> import expectedkernels as ek
        >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.5]], [0.0, 1.0, 2.0, 3.0]
        >>> ek.ExpectedKernelRidge().fit(X, y).predict([[0.0, np.nan]]).shape
        (1,)
        """
        return self._expect(X, return_std, std_tol)

    def _as_ridge(self, Z: Any, masks: Any, y: Any) -> tuple[float, Any]:
        return self.alpha_, table(y)

    def _choose(self, Z: Any, masks: Any, y: Any, sample_weight: Any) -> None:
        """Learn the rates of the kernels, and the weight if it is "auto"."""
        self.alpha_, self._best_rate = self.alpha, None
        if isinstance(self.alpha, str):
            given = Z, masks, table(y), table(y), sample_weight, self.gamma is None, (0.0,)
            self.alpha_, self._best_rate, _ = self._choose_left_out(*given)
        super()._choose(Z, masks, y, sample_weight)

    def _rate(self, Z: Any) -> Any:
        return super()._rate(Z) if self._best_rate is None else self._best_rate

    def _kept_parameters(self) -> dict[str, Any]:
        chosen = {"alpha": self.alpha_, "gamma": self.gamma_}
        return chosen if isinstance(self.alpha, str) else {}
