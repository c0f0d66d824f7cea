"""Kernel models of incomplete rows: least squares, support vectors, Gaussian processes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import combinations
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import ClassifierMixin, RegressorMixin, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import _ovr_decision_function

from expectedkernels.arrays import Array, RowsLike, chosen_rows
from expectedkernels.checks import DataError, KernelError, check_real
from expectedkernels.estimators import base, calibration
from expectedkernels.estimators.calibration import PredictionIntervals, PredictionSets
from expectedkernels.estimators.kernel_expansion import Prior, read_gp_kernel, table
from expectedkernels.estimators.landmarks import Source, kept_features

ALPHAS = 10.0 ** np.arange(-3.0, 1.5, 0.5)
"""What "auto" chooses the regularization strength from."""
RATES = (0.03, 0.1, 0.3, 1.0, 3.0)
"""What "auto" chooses gamma from, in multiples of "scale"."""
LEAST_SHARE = 0.01
"""The smallest probability of a class, before probabilities are made to sum to one."""


class LeastSquares(base.KernelMachine):
    """Kernel least squares, with parameters that are best at rows that are left out."""

    alpha_: Any

    @property
    def _opens_gamma(self) -> bool:
        """Whether gamma is to be chosen."""
        return self.gamma == "auto"

    def _choose(self, Z: Any, masks: Any, y: Any, sample_weight: Any) -> float:
        self.alpha_ = super()._choose(Z, masks, y, sample_weight)
        return self.alpha_

    def _choices(self, Z: Any, masks: Any, y: Any, rows: Any, weights: Any) -> tuple[Any, Any, Any]:
        if self._opens_gamma:
            scale = weighted_scale(self._for_kernel(Z[rows]), weights)
            return self._alphas(), [rate * scale for rate in RATES], table(y)
        return self._alphas(), [base.scaled_gamma(self.gamma, self._for_kernel(Z))], table(y)

    def _kept_parameters(self) -> dict[str, Any]:
        return {"alpha": self.alpha_, "gamma": self.gamma_}

    def _alphas(self) -> Any:
        return ALPHAS if isinstance(self.alpha, str) else [self.alpha]

    def _make(self, **kernel: Any) -> KernelRidge:
        return KernelRidge(alpha=self.alpha_, **kernel)


@base.estimator()
class ExpectedKernelClassifier(ClassifierMixin, PredictionSets, LeastSquares):  # type: ignore[misc]
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
        Regularization strength: larger values give smoother functions, for noisier targets.
    gamma : float, "scale" or "auto"
        That of the kernel ``exp(-gamma |x - x'|^2)``; "scale" as in scikit-learn's SVC.

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
    "auto" takes what makes the log loss of the leave-one-out probabilities smallest, of gammas
    around "scale" and alphas from 0.001 to 10, and then of gammas of masks (0 unless the loss
    falls by 5 %). Rows that are equal, with equal labels, are left out together;
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
        "alpha": [StrOptions({"auto"}), Interval(Real, 0.0, None, closed="neither")],
        "gamma": [StrOptions({"auto", "scale"}), Interval(Real, 0.0, None, closed="neither")],
    }

    _uses_spread: ClassVar[bool] = False

    alpha: float | str = "auto"
    gamma: float | str = "auto"

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
        largest = self._expect(X, return_std=False).argmax(axis=1)
        return self.classes_[largest]

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

    def _probabilities(self, mean: Any, spread: Any = None) -> Any:
        return as_probabilities(mean)

    def decision_function(
        self, X: RowsLike, return_std: bool = False, std_tol: float = 0.01
    ) -> Array:
        """The expected functions of the classes, and on request their standard deviations.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            The rows to predict; NaN, None and pandas' NA are missing.
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

    def _learn_target(self, y: Any, sample_weight: Any) -> Any:
        """The one-hot labels, less the frequencies of the classes."""
        self._target: tuple[Any, Any]
        self.classes_, self._target = np.unique(y), (0.0, 1.0)
        frequencies = np.average(self._as_target(y), axis=0, weights=sample_weight)
        self._target = frequencies, 1.0
        return self._as_target(y)

    def _as_target(self, y: Any) -> Any:
        return np.eye(len(self.classes_))[np.searchsorted(self.classes_, y)] - self._target[0]

    def _losses(self, predicted: Any, targets: Any, weights: Any) -> Any:
        """The log losses of the leave-one-out probabilities, for every alpha."""
        bits = targets + self._target[0]
        every = (as_probabilities(x + self._target[0]) for x in predicted)
        return [-float(weights @ np.log((p * bits).sum(axis=1))) for p in every]


def weighted_scale(Z: Any, weights: Any) -> float:
    """The gamma that "scale" means, with rows that count as much as they weigh."""
    observed = ~np.isnan(Z)
    entries, shares = Z[observed], np.broadcast_to(weights[:, None], Z.shape)[observed]
    if not len(entries):
        return 1.0
    mean = np.average(entries, weights=shares)
    deviation = np.sqrt(np.average((entries - mean) ** 2, weights=shares))
    return base.scaled_gamma("scale", np.tile([[-deviation], [deviation]], Z.shape[1]))


def as_probabilities(values: Any) -> Any:
    """Values of classes, (rows, classes), made at least a little and to sum to one.

    Examples
    --------
    >>> as_probabilities(np.array([[1.2, -0.2]])).round(3).tolist()
    [[0.992, 0.008]]
    """
    positive = np.maximum(values, min(LEAST_SHARE, 0.1 / values.shape[1]))
    return positive / positive.sum(axis=1, keepdims=True)


class Regressor(RegressorMixin, PredictionIntervals):  # type: ignore[misc]
    """A regressor with prediction intervals."""

    def _row_classifier(self) -> ExpectedKernelClassifier:
        """What tells apart training rows and others: smooth, so that no row gets all the weight."""
        names = ("density", "n_bins", "n_jobs", "max_bytes", "random_state")
        return ExpectedKernelClassifier(alpha=1.0, **{name: getattr(self, name) for name in names})


@dataclass(eq=False, repr=False, kw_only=True)
class SupportVectors(base.KernelMachine):
    """What support vector machines share.

    Parameters
    ----------
    C : float
        Inverse regularization strength.
    gamma : {"scale", "auto"} or float
        That of the kernel ``exp(-gamma |x - x'|^2)``, as in scikit-learn's SVR and SVC.
    tol : float
        Stopping tolerance.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "C": [Interval(Real, 0.0, None, closed="right")],
        "gamma": base.GAMMA,
        "tol": [Interval(Real, 0.0, None, closed="neither")],
    }

    C: float = 1.0
    gamma: str | float = "scale"
    tol: float = 1e-3

    _fit_linear: ClassVar[Any]
    """From features, targets and weights to coefficients, (features, outputs), and constants."""

    def _choices(self, Z: Any, masks: Any, y: Any, rows: Any, weights: Any) -> tuple[Any, Any, Any]:
        targets = np.equal.outer(y, np.unique(y)) if is_classifier(self) else table(y)
        gamma = base.scaled_gamma(self.gamma, self._for_kernel(Z))
        return [0.5 / self.C], [gamma], targets - targets.mean(axis=0)

    def _fit_landmarks(
        self, source: Source, as_is: Any, y: Any, Z: Any, targets: Any, weights: Any
    ) -> tuple[Any, Any, Any, Prior | None]:
        """Fit linear models to the features of all rows of a source."""
        what, size = f"The features of {source.n_rows} rows", source.n_rows * len(self._landmarks)
        advice = "Set a smaller n_landmarks, or use kernel least squares, which does not keep them."
        self._resources.require(NODE_BYTES * size, f"{what} take", advice)
        nystrom = self._nystrom(self.gamma_, self.mask_rate_)
        parts = source.total(partial(kept_features, partial(self._features, nystrom)), self.n_jobs)
        coef, intercept = self._fit_linear(*map(np.concatenate, zip(*parts, strict=True)))
        closed_form = nystrom, None, 0.0, targets, weights  # there is none
        self._keep_rows(calibration.LandmarkTraining, as_is, y, weights, None, *closed_form)
        return nystrom.points, nystrom.root @ coef, intercept, None

    def _refitted(self, training: calibration.LandmarkTraining, rest: Any) -> Self:
        """The model with a linear part that is fitted to some drawn rows only."""
        F, found = self._features(training.nystrom, training.Z[rest]), copy(self)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what the whole model has warned of
            coef, intercept = self._fit_linear(
                F, training.targets[rest], training.sample_weight[rest]
            )
        f = self._expansion(training.nystrom.points, training.nystrom.root @ coef, intercept)
        found._machine = replace(self._machine, expansion=f)
        return found


NODE_BYTES = 24
"""What liblinear takes for every feature of every row, with the feature itself."""
LIBLINEAR = {"dual": True, "max_iter": 3000}


def fit_linear(model: Any, F: Any, y: Any, weights: Any) -> Any:
    """The coefficients of a linear model of liblinear, and its constant after them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # whose advice is not for our users
        model.fit(F, y, weights)
    if np.max(model.n_iter_) >= model.max_iter:
        warnings.warn(
            f"The landmark model has not reached its tolerance after {model.max_iter} passes over "
            f"the rows, with C={model.C:g}. Set a smaller 'C' or a larger 'tol'.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return np.append(model.coef_, model.intercept_)


@base.estimator()
class ExpectedSVR(Regressor, SupportVectors):
    r"""Support vector regression with exact expected predictions for incomplete rows.

    The model to start with is `ExpectedKernelRidge`, which chooses its parameters itself; this one
    gives less weight to outliers. The prediction for a row with missing values (NaN) is

    .. math:: E[f(x) \mid x_{obs}] = \sum_j a_j E[k(s_j, x) \mid x_{obs}] + b

    under a density learned from the data. Complete rows get the prediction of scikit-learn's SVR
    (fitted to standardised columns and targets); a row of nothing but missing values gets E[f].

    Parameters
    ----------
    epsilon : float
        Errors below this do not count; in standard deviations of the target if `standardize`.

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
        The gamma of the kernel (of standardised columns if `standardize`).
    mask_rate_ : float
        The gamma of the mask kernel, 0 if masks do not count.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    expected_prediction : The same for a model and a circuit that are already there.

    Notes
    -----
    The result is consistent when values are missing (completely) at random, f is the best predictor
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
    it incomplete rows in fit: without any, masks are not learned from. In `shapley_values` and
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
        "epsilon": [Interval(Real, 0.0, None, closed="left")]
    }

    epsilon: float = 0.1

    def _make(self, **kernel: Any) -> SVR:
        return SVR(C=self.C, epsilon=self.epsilon, tol=self.tol, **kernel)

    def _fit_linear(self, F: Any, y: Any, weights: Any) -> tuple[Any, Any]:
        options = {"C": self.C, "tol": self.tol, "random_state": self._seed(), **LIBLINEAR}
        found = fit_linear(LinearSVR(epsilon=self.epsilon, **options), F, y, weights)
        return found[:-1, None], found[-1:]


@base.estimator()
class ExpectedKernelRidge(Regressor, LeastSquares):
    """Kernel ridge regression with exact expected predictions for incomplete rows.

    The model to start with for regression: it estimates conditional means, so the expectation of
    its predictions over missing values is a conditional mean again. By default it chooses its
    hyperparameters by leave-one-out errors in closed form.

    Parameters
    ----------
    alpha : float or "auto"
        Regularization strength: larger values give smoother functions, for noisier targets.
        "auto" takes the value from 0.001 to 10 with the smallest squared leave-one-out error (of
        at most 1000 rows), and gamma with it if that is None. Set it to fit faster.
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
        The gamma of the kernel, and that of the mask kernel.

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, np.nan]])
    >>> model = ExpectedKernelRidge(alpha=0.01).fit(X, [0.0, 1.0, 2.0, 3.0])
    >>> model.predict([[2.0, np.nan]]).shape
    (1,)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "alpha": [StrOptions({"auto"}), Interval(Real, 0.0, None, closed="left")],
        "gamma": [*base.GAMMA, None],
    }
    _multi_output: ClassVar[bool] = True

    alpha: float | str = "auto"
    gamma: str | float | None = None

    @property
    def _opens_gamma(self) -> bool:
        return self.gamma is None and isinstance(self.alpha, str)


LEAST_CHANCE = 1e-7
"""Probabilities of one class of a pair are at least this."""
STEEPEST = 20.0
"""The logarithm of a slope is at most this, and at least less this."""


def logits(mean: Any, spread: Any, slope: Any, offset: Any) -> Any:
    """The logits of probabilities of decision functions, nearer to zero where these spread.

    Examples
    --------
    >>> logits(np.array([1.0, 1.0]), np.array([0.0, 2.0]), 2.0, 0.0).round(2).tolist()
    [2.0, 0.74]
    """
    return (slope * mean + offset) / np.sqrt(1.0 + np.pi / 8.0 * (slope * spread) ** 2)


def learn_sigmoid(mean: Any, spread: Any, positive: Any) -> tuple[float, float]:
    """The slope, which is positive, and the offset of the most likely probabilities.

    Targets are a little inside of zero and one, as if one more row of each class was seen in the
    other, so that slopes stay finite where classes are separated.

    Parameters
    ----------
    mean, spread : arrays of shape (rows,)
    positive : bool array of shape (rows,)
    """
    n = int(positive.sum())
    high, low = (n + 1.0) / (n + 2.0), 1.0 / (len(positive) - n + 2.0)
    wanted = np.where(positive, high, low)
    size = float(np.abs(mean).mean()) or 1.0
    mean, spread = mean / size, spread / size

    def loss(parameters: Any) -> float:
        z = logits(mean, spread, np.exp(parameters[0]), parameters[1])
        return float((np.logaddexp(0.0, z) - wanted * z).mean())

    bounds = [(-STEEPEST, STEEPEST), (None, None)]
    found = minimize(loss, np.zeros(2), method="L-BFGS-B", bounds=bounds).x
    return float(np.exp(found[0]) / size), float(found[1])


def learn_sigmoids(held_out: calibration.HeldOut) -> Any:
    """The slope and the offset of every pair of classes, (pairs, 2)."""
    classes = np.unique(held_out.target)
    found = []
    for k, (i, j) in enumerate(combinations(classes, 2)):
        if len(classes) == 2:
            i, j = j, i  # a single function is positive for the second class
        some = held_out.some((held_out.target == i) | (held_out.target == j))
        found.append(learn_sigmoid(some.mean[:, k], some.spread[:, k], some.target == i))
    return np.array(found)


def coupled(first: Any, n_classes: int) -> Any:
    """The probabilities of classes that agree best with those of pairs, (rows, classes).

    They minimise sum_ij (r_ji p_i - r_ij p_j)^2 among those that sum to one [1]_.

    Parameters
    ----------
    first : array of shape (rows, pairs)
        The probabilities r_ij of the first class of every pair, if it is one of the two.
    n_classes : int

    References
    ----------
    .. [1] T.-F. Wu, C.-J. Lin and R. C. Weng, *Probability Estimates for Multi-class
       Classification by Pairwise Coupling*, JMLR 5, 2004.

    Examples
    --------
    >>> coupled(np.array([[0.5, 0.75, 0.75]]), 3).round(4).tolist()
    [[0.4286, 0.4286, 0.1429]]
    """
    first = np.clip(first, LEAST_CHANCE, 1.0 - LEAST_CHANCE)
    system = np.zeros((len(first), n_classes + 1, n_classes + 1))
    for k, (i, j) in enumerate(combinations(range(n_classes), 2)):
        r = first[:, k]
        system[:, i, i] += (1.0 - r) ** 2
        system[:, j, j] += r**2
        system[:, i, j] = system[:, j, i] = -r * (1.0 - r)
    system[:, n_classes, :n_classes] = system[:, :n_classes, n_classes] = 1.0
    sums = np.zeros((len(first), n_classes + 1, 1))
    sums[:, n_classes] = 1.0
    p = np.maximum(np.linalg.solve(system, sums)[:, :n_classes, 0], 0.0)
    return p / p.sum(axis=1, keepdims=True)


VOTE_DRAWS = 256
"""How many completions of a row tell how far votes spread over what is missing."""


@base.estimator(
    decision_function_shape="there is one value per class; for pairs of classes use "
    "expected_prediction with an SVC of scikit-learn"
)
class ExpectedSVC(ClassifierMixin, PredictionSets, SupportVectors):  # type: ignore[misc]
    """Support vector classification by the expected decision function over missing values.

    Complete rows get the class that scikit-learn's SVC predicts. Rows with missing values get the
    class by the sign of E[f(x) | what is observed], exactly, and by a vote of all pairs of
    classes if there are more than two. The sign of an expectation is not the expectation of a
    sign: the standard deviation of f says how clear the case is. The one to start with is
    `ExpectedKernelClassifier`, which averages probabilities.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        Weights of the errors of classes.

    Attributes
    ----------
    classes_ : array
    model_ : SVC
        The fitted model, of standardised columns if `standardize`; with kernel="precomputed" if
        rows were incomplete.
    densities_, density_weights_ : list of str and array
        What the density is an average of, and with which weights.
    circuit_ : Circuit or None
        The tree among them, if there is one.
    gamma_, mask_rate_ : float
        The gamma of the kernel, and that of the mask kernel.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> X[:, 1] += 2 * X[:, 0]
    >>> y = np.where(X[:, 1] > 0, "up", "down")
    >>> ExpectedSVC().fit(X, y).predict([[1.5, np.nan], [-1.5, np.nan]]).tolist()
    ['up', 'down']
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "class_weight": [StrOptions({"balanced"}), dict, None]
    }

    class_weight: Mapping[int, float] | Mapping[str, float] | str | None = None

    def predict(self, X: RowsLike) -> Array:
        """The classes by the expected decision function.

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
        >>> ek.ExpectedSVC().fit(X, y).predict([[0.0, np.nan]]).shape
        (1,)
        """
        values, n = self._expected(self._read(X), False), len(self.classes_)
        if self._machine.flat:
            return self.classes_[(values > 0).astype(np.intp)]
        winner = np.where(values > 0, *np.transpose([*combinations(range(n), 2)]))
        votes = (winner[:, :, None] == np.arange(n)).sum(axis=1)
        return self.classes_[np.argmax(votes, axis=1)]

    def decision_function(
        self, X: RowsLike, return_std: bool = False, std_tol: float = 0.01
    ) -> Array:
        """The expected decision function, and on request its standard deviation.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            The rows to predict; NaN, None and pandas' NA are missing.
        return_std : bool
            Also return how far it spreads over what is missing; zero for complete rows. For more
            than two classes, values are votes of pairs, and their deviations come from 256
            samples of what is missing, with a fixed seed.
        std_tol : float
            The relative error that standard deviations may have; 0 asks for exact ones, which take
            all pairs of support vectors for every row. Exact where that is quick.

        Returns
        -------
        array of shape (rows,) for two classes, or (rows, classes)

        Examples
        --------
        >>> import expectedkernels as ek
        >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.5]], [0, 0, 1, 1]
        >>> ek.ExpectedSVC().fit(X, y).decision_function([[0.0, np.nan]]).shape
        (1,)
        """
        check_real(type(self).__name__, "std_tol", std_tol, error=DataError)
        Z = self._read(X)
        if self._machine.flat:
            return self._expected(Z, return_std, std_tol=std_tol)
        values = self._by_class(self._expected(Z, False))
        if not return_std:
            return values
        deviations, rng = np.zeros(values.shape), self._training.generator()
        gaps = np.flatnonzero(np.isnan(Z).any(axis=1))
        for samples, _, rows, _ in calibration.completed(self, Z, gaps, VOTE_DRAWS, rng):
            found = self._by_class(samples.reshape(-1, samples.shape[2]))
            deviations[rows] = found.reshape(*samples.shape[:2], -1).std(axis=0)
        return values, deviations

    def _by_class(self, values: Any) -> Any:
        """Votes and confidences of classes, from values of pairs of them."""
        return _ovr_decision_function(values < 0, -values, len(self.classes_))

    def predict_proba(self, X: RowsLike) -> Array:
        """The probabilities of the classes.

        Those of pairs of classes are sigmoids of the expected decision functions, flatter where
        these spread over what is missing, and fitted to rows that are held out; more than two
        classes are joined by pairwise coupling. They need not agree with `predict` where it is
        close. The first call fits the model five times more.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            NaN is missing.

        Returns
        -------
        array of shape (rows, classes)

        Raises
        ------
        DataError
            If there was only one row of a class in fit.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(100, 2))
        >>> model = ExpectedSVC().fit(X, X[:, 0] > 0)
        >>> model.predict_proba([[1.5, 0.0], [np.nan, 0.0]]).round(1).tolist()
        [[0.0, 1.0], [0.5, 0.5]]
        """
        Z = self._read(X)
        return self._probabilities(*calibration.moments(self, Z, self._training.generator()))

    def _probabilities(self, mean: Any, spread: Any) -> Any:
        training = self._training
        every = training.once("sigmoids", lambda: learn_sigmoids(training.every_answer(self)))
        slopes, offsets = every.T
        first = expit(logits(mean, spread, slopes, offsets))
        if len(self.classes_) == 2:
            return np.concatenate([1.0 - first, first], axis=1)
        return coupled(first, len(self.classes_))

    def _learn(self, Z: Any, y: Any, sample_weight: Any, source: Source | None = None) -> Self:
        self.classes_, code = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            one = self.classes_[0].item()
            raise DataError(
                f"ExpectedSVC needs rows of at least 2 classes. Got one class, {one!r}."
            )
        weights = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        weights = weights * np.bincount(code, sample_weight)
        if not weights.all():
            raise DataError(
                f"Every class needs rows of positive weight. All rows of class "
                f"{self.classes_[weights.argmin()].item()!r} have weight zero. Leave these rows "
                "out, or change 'sample_weight' or 'class_weight'."
            )
        return super()._learn(Z, y, sample_weight, source)

    def _make(self, **kernel: Any) -> SVC:
        return SVC(C=self.C, tol=self.tol, class_weight=self.class_weight, **kernel)

    def _fit_linear(self, F: Any, y: Any, weights: Any) -> tuple[Any, Any]:
        options = {"C": self.C, "tol": self.tol, "random_state": self._seed(), **LIBLINEAR}
        shares = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        label, found = np.searchsorted(self.classes_, y), []
        for i, j in combinations(range(len(self.classes_)), 2):
            rows = (label == i) | (label == j)
            # as in scikit-learn's SVC, a single function is positive for the second class
            positive = label[rows] == (j if len(self.classes_) == 2 else i)
            model, used = LinearSVC(loss="hinge", **options), (weights * shares[label])[rows]
            found.append(fit_linear(model, F[rows], positive, used))
        return np.array(found)[:, :-1].T, np.array(found)[:, -1]


STEP = 1e-5
"""The step of difference quotients in the logarithms of parameters."""
KEPT = 32
"""How many matrices of expected kernels are kept: amplitudes and noise do not change them."""


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


def most_likely_kernel(kernel: Any, covariances: Callable[[Any], Any], targets: Any) -> Any:
    """The kernel with the parameters that make the targets most likely.

    Parameters
    ----------
    kernel : kernel of sklearn.gaussian_process
        With the parameters to start from, and their bounds.
    covariances : function from kernels to the covariance matrices of targets
    targets : array of shape (rows, outputs)
    """

    def loss(theta: Any) -> float:
        matrix = covariances(kernel.clone_with_theta(theta))
        return min(-log_marginal_likelihood(matrix, targets), 1e25)

    options = {"bounds": kernel.bounds, "options": {"eps": STEP}}
    return kernel.clone_with_theta(minimize(loss, kernel.theta, method="L-BFGS-B", **options).x)


ENOUGH_ROWS = 200
"""So many rows are enough to fit the parameters of a kernel to."""
KERNEL_ROWS = 500
"""To how many rows the parameters of a kernel are fitted in landmark models."""


@base.estimator(n_restarts_optimizer="give a 'kernel' with other parameters to start elsewhere")
class ExpectedGaussianProcessRegressor(Regressor, base.KernelMachine):
    """Gaussian process regression with exact expected predictions for incomplete rows.

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
        The process fitted to the complete rows, of targets that are scaled if `normalize_y`; None
        if there are none.
    kernel_ : kernel
        With fitted parameters.
    mask_rate_ : float
        The gamma of the mask kernel.
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

    def fit(self, X: RowsLike, y: ArrayLike) -> Self:  # type: ignore[override]
        """Learn the density of the columns and the process.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            NaN, None and pandas' NA are missing.
        y : array of shape (rows,) or (rows, targets)
            The targets.

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
        return super().fit(X, y)

    def _start(self, n_columns: int) -> Any:
        """The kernel whose parameters are fitted."""
        if self.kernel is not None:
            return clone(self.kernel)
        length = RBF(np.sqrt(n_columns), (1e-2, 1e4))  # columns of variance one are that far apart
        return ConstantKernel(1.0, (1e-3, 1e4)) * length + WhiteKernel(0.1, (1e-6, 1e2))

    @contextmanager
    def _own_bounds(self) -> Iterator[None]:
        """No warnings that parameters of the default kernel are at bounds, which are ours.

        Nor that rounding ends the search for better ones, where the likelihood is flat.
        """
        ours = "The optimal value found for|lbfgs .*\nABNORMAL"
        with warnings.catch_warnings():
            if self.kernel is None:
                warnings.filterwarnings("ignore", ours, ConvergenceWarning)
            yield

    def _kept_parameters(self) -> dict[str, Any]:
        return {"kernel": self.kernel_, "optimizer": None}

    def _n_matrices(self) -> int:
        """The covariances, and their derivatives by every parameter that is fitted."""
        return 1 if self.optimizer is None else 1 + self._start(len(self.columns_.numeric)).n_dims

    def _make(self, **kernel: Any) -> GaussianProcessRegressor:
        return GaussianProcessRegressor(
            self._start(len(self.columns_.numeric)),
            alpha=self.alpha,
            optimizer=self.optimizer,
            random_state=self.random_state,
        )

    @property
    def _scales_target(self) -> bool:
        return self.normalize_y

    def _choices(self, Z: Any, masks: Any, y: Any, rows: Any, weights: Any) -> tuple[Any, Any, Any]:
        """Those of the process that does not know masks, where these may count."""
        kernel = self._start(Z.shape[1])
        if self.mask_kernel == "auto" and masks.any():
            some = chosen_rows(Z, KERNEL_ROWS if self.n_landmarks_ else len(Z), self._seed())
            with self._own_bounds():
                kernel, _ = self._fit_kernel(Z[some], masks[some], y[some])
        amplitude, gamma, noise = read_gp_kernel(kernel, Z.shape[1])
        return [(noise + self.alpha) / amplitude], [gamma], table(y)

    def _fit_model(
        self, Z: Any, masks: Any, y: Any, sample_weight: Any
    ) -> tuple[Any, Any, Prior | None]:
        """The posterior, given the targets of rows that may be incomplete or have masks."""
        targets = table(y)
        embedded = self.fit_missing_ == "expected" or bool(self.mask_rate_)
        with self._own_bounds():
            if embedded:
                self.kernel_, self.model_ = self._fit_kernel(Z, masks, y)
            else:
                self.model_ = self._make().fit(self._near_zero(Z), y)
                self.kernel_ = self.model_.kernel_
        amplitude, self.gamma_, noise = read_gp_kernel(self.kernel_, len(self._shift))
        try:
            matrix = self._covariances(Z)(self.kernel_) if embedded else None
            root = self.model_.L_ if matrix is None else cholesky(matrix, lower=True)
        except np.linalg.LinAlgError as error:
            raise KernelError(
                "The expected kernel matrix is not positive definite to working precision. "
                f"Increase 'alpha' of {type(self).__name__} (it is {self.alpha})."
            ) from error
        coef = amplitude * cho_solve((root, True), targets)
        turned = amplitude * solve_triangular(root, np.eye(len(Z)), lower=True).T
        prior = Prior(amplitude + noise, turned, self._target[1])
        return coef, np.zeros(targets.shape[1]), prior

    def _fit_landmarks(
        self, source: Source, as_is: Any, y: Any, Z: Any, targets: Any, weights: Any
    ) -> tuple[Any, Any, Any, Prior | None]:
        """The posterior of a process whose covariances are inner products of features.

        Its variance has what features leave of the kernel: amplitude (1 - |f|^2) of every row.
        """
        rows, n = chosen_rows(Z, KERNEL_ROWS, self._seed()), len(self._shift)
        whole = self.density_.means(Z[rows, :n]) if np.isnan(Z[rows]).any() else Z[rows, :n]
        with self._own_bounds():
            self.kernel_ = self._make().fit(self._near_zero(whole), targets[rows]).kernel_
        amplitude, self.gamma_, noise = read_gp_kernel(self.kernel_, n)
        self._noise = (noise + self.alpha) / amplitude
        points, coef, intercept, _ = super()._fit_landmarks(source, as_is, y, Z, targets, weights)
        root, ridge = self._training.nystrom.root, self._training.ridge
        kept = np.maximum(1.0 - self._noise * ridge.inverse(self._noise), 0.0)
        turned = root @ ridge.vectors * np.sqrt(amplitude * kept)
        return points, coef, intercept, Prior(amplitude + noise, turned, self._target[1])

    def _alphas(self) -> Any:
        return [self._noise]

    def _covariances(self, Z: Any) -> Callable[[Any], Any]:
        """The covariance matrix of the targets of rows, for kernels with any parameters."""

        @lru_cache(maxsize=KEPT)
        def gram(gamma: tuple[float, ...]) -> Any:
            rates = self._gammas(np.array(gamma), Z.shape[1])
            return self.density_.gram(rates, Z, None, self._resources)

        def covariances(kernel: Any) -> Any:
            amplitude, gamma, noise = read_gp_kernel(kernel, len(self._shift))
            matrix = amplitude * gram(tuple(gamma.tolist()))
            matrix[np.diag_indices(len(matrix))] = amplitude + noise + self.alpha
            return matrix

        return covariances

    def _fit_kernel(self, Z: Any, masks: Any, y: Any) -> tuple[Any, Any]:
        """The kernel with fitted parameters, and the process of complete rows, if there are any."""
        gaps, n = masks.any(axis=1), len(self._shift)
        complete, model = np.flatnonzero(~gaps), self._make()
        kernel = self._start(n)
        if len(complete) < ENOUGH_ROWS and self.optimizer is not None and kernel.n_dims:
            rng = check_random_state(self.random_state)
            others = rng.permutation(np.flatnonzero(gaps))[: ENOUGH_ROWS - len(complete)]
            rows = np.concatenate([complete, others])
            kernel = most_likely_kernel(kernel, self._covariances(Z[rows]), table(y)[rows])
            model.set_params(kernel=kernel, optimizer=None)
        if not len(complete):
            return kernel, None
        model.fit(self._for_kernel(Z[complete, :n]), y[complete])
        return model.kernel_, model
