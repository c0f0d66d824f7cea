"""Support vector classification with missing values."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.svm import SVC
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import _ovr_decision_function

from expectedkernels.arrays import Array, RowsLike
from expectedkernels.checks import DataError, check_real
from expectedkernels.estimators.base import GAMMA, KernelMachine, estimator
from expectedkernels.estimators.calibration import CrossValidated, HeldOut, completed, moments
from expectedkernels.estimators.encoding import read_target

SMALLEST = 1e-7
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

    start = np.array([0.0, 0.0])
    bounds = [(-STEEPEST, STEEPEST), (None, None)]
    found = minimize(loss, start, method="L-BFGS-B", bounds=bounds).x
    return float(np.exp(found[0]) / size), float(found[1])


def learn_sigmoids(held_out: HeldOut) -> Any:
    """The slope and the offset of every pair of classes, (pairs, 2)."""
    classes = np.unique(held_out.target)
    found = []
    for k, (i, j) in enumerate(combinations(classes, 2)):
        if len(classes) == 2:
            i, j = j, i  # a single function is positive for the second class
        rows = (held_out.target == i) | (held_out.target == j)
        mean, spread = held_out.mean[rows, k], held_out.spread[rows, k]
        found.append(learn_sigmoid(mean, spread, held_out.target[rows] == i))
    return np.array(found)


def class_probabilities(mean: Any, spread: Any, sigmoids: Any, n_classes: int) -> Any:
    """The probabilities of classes from decision functions of pairs, (rows, classes)."""
    first = expit(logits(mean, spread, sigmoids[:, 0], sigmoids[:, 1]))
    if n_classes == 2:
        return np.concatenate([1.0 - first, first], axis=1)
    return coupled(first, n_classes)


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
    first = np.clip(first, SMALLEST, 1.0 - SMALLEST)
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


DRAWS = 256
"""How many completions of a row tell how far votes spread over what is missing."""


@estimator(
    decision_function_shape="there is one value per class; for pairs of classes use "
    "expected_prediction with an SVC of scikit-learn"
)
class ExpectedSVC(ClassifierMixin, CrossValidated):  # type: ignore[misc]
    """Support vector classification by the expected decision function over missing values.

    Complete rows get the class that scikit-learn's SVC predicts. Rows with missing values get the
    class by the sign of E[f(x) | what is observed], exactly, and by a vote of all pairs of
    classes if there are more than two. The sign of an expectation is not the expectation of a
    sign: the standard deviation of f says how clear the case is. The one to start with is
    `ExpectedKernelClassifier`, which averages probabilities.

    Parameters
    ----------
    C : float
        How much errors count.
    gamma : {"scale", "auto"} or float
        The rate of the kernel ``exp(-gamma |x - x'|^2)``, as in scikit-learn's SVC.
    tol : float
        When to stop.
    class_weight : dict, "balanced" or None
        How much errors in each class count.

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
        The rates of the kernel, and of the mask kernel.

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
        **KernelMachine._parameter_constraints,
        "C": [Interval(Real, 0.0, None, closed="right")],
        "gamma": GAMMA,
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    C: float = 1.0
    gamma: str | float = "scale"
    tol: float = 1e-3
    class_weight: Mapping[int, float] | Mapping[str, float] | str | None = None

    def fit(self, X: RowsLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the density of the columns and the decision function.

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
        >>> ek.ExpectedSVC().fit(X, y).n_features_in_
        2
        """
        self._fit(X, y, sample_weight)
        self.classes_ = self.model_.classes_
        return self

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
        values = self._expected(self._read(X), False)
        found = values > 0 if self._machine.flat else np.argmax(self._votes(values), axis=1)
        return self.classes_[found.astype(np.intp)]

    def decision_function(
        self, X: RowsLike, return_std: bool = False, std_tol: float = 0.01
    ) -> Array:
        """The expected decision function, and on request its standard deviation.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
        return_std : bool
            Also return how far it spreads over what is missing; zero for complete rows. For more
            than two classes, values are votes of pairs, and their deviations come from 256 draws
            of what is missing, with a fixed seed.
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
        return (values, self._spread_by_class(Z)) if return_std else values

    def _by_class(self, values: Any) -> Any:
        """Votes and confidences of classes, from values of pairs of them."""
        return _ovr_decision_function(values < 0, -values, len(self.classes_))

    def _spread_by_class(self, Z: Any) -> Any:
        """Deviations of votes and confidences over what is missing, (rows, classes)."""
        answer, rng = np.zeros((len(Z), len(self.classes_))), self._training.generator()
        gaps = np.flatnonzero(np.isnan(Z).any(axis=1))
        for values, _, rows in completed(self, Z, gaps, DRAWS, rng):
            found = self._by_class(values.reshape(-1, values.shape[2]))
            answer[rows] = found.reshape(*values.shape[:2], -1).std(axis=0)
        return answer

    def predict_proba(self, X: RowsLike) -> Array:
        """The probabilities of the classes.

        Those of pairs of classes are sigmoids of the expected decision functions, flatter where
        these spread over what is missing, and fitted to rows that are held out; more than two
        classes are joined by pairwise coupling. They need not agree with `predict` where it is
        close. The first call fits the machine five times more.

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
        sigmoids = self._training.learned
        mean, spread = moments(self, Z, self._training.generator())
        return class_probabilities(mean, spread, sigmoids, len(self.classes_))

    def _calibrated(self, held_out: HeldOut) -> Any:
        return learn_sigmoids(held_out)

    def _votes(self, values: Any) -> Any:
        """How many pairs every class wins, (rows, classes)."""
        n = len(self.classes_)
        votes = np.zeros((len(values), n))
        for k, (i, j) in enumerate(combinations(range(n), 2)):
            votes[:, i] += values[:, k] > 0
            votes[:, j] += values[:, k] <= 0
        return votes

    def _read_target(self, X: Any, y: Any) -> Any:
        return read_target(self, X, y, labels=True)

    def _learn(self, Z: Any, y: Any, sample_weight: Any) -> Self:
        classes, code = np.unique(y, return_inverse=True)
        weights = compute_class_weight(self.class_weight, classes=classes, y=y)
        weights = weights * np.bincount(code, sample_weight)
        if not weights.all():
            raise DataError(
                f"Every class needs rows of positive weight. All rows of class "
                f"{classes[weights.argmin()].item()!r} have weight zero. Leave these rows out, or "
                "change 'sample_weight' or 'class_weight'."
            )
        return super()._learn(Z, y, sample_weight)

    def _make(self, **kernel: Any) -> SVC:
        return SVC(C=self.C, tol=self.tol, class_weight=self.class_weight, **kernel)

    def _as_ridge(self, Z: Any, masks: Any, y: Any) -> tuple[float, Any]:
        bits = (np.asarray(y)[:, None] == np.unique(y)).astype(np.float64)
        return 0.5 / self.C, bits - bits.mean(axis=0)
