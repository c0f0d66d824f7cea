"""The methods of the study: machines that expect predictions, and what is done instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any, NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC, SVR

import expectedkernels as ek
from studies.missing.tables import REGRESSION, draw_copy

SVM, RIDGE = "SVM", "ridge"
MASKED = {f"expected {machine}, mask kernel": machine for machine in (SVM, RIDGE)}
"""These learn from holes in training rows, and have nothing to learn where there are none."""
EXPECTED = {**{f"expected {machine}": machine for machine in (SVM, RIDGE)}, **MASKED}
IMPUTED = {
    f"{imputer}{' + indicators' if indicators else ''}, {machine}": (imputer, indicators, machine)
    for machine in (SVM, RIDGE)
    for imputer in ("mean", "iterative", "k-NN")
    for indicators in (False, True)
}
BOOSTED = {"boosting": False, "boosting on masked copies": True}
METHODS = (*EXPECTED, *IMPUTED, *BOOSTED)

SIZES = (1.0, 10.0, 100.0)
"""C of support vector machines; alpha of ridge regression is one over it."""
RATES = (0.1, 0.3, 1.0)
"""The rate of the kernel, in multiples of scikit-learn's "scale"."""
BOOSTING = {"learning_rate": [0.05, 0.2], "min_samples_leaf": [5, 20]}
FOLDS = 3
NEIGHBOURS = 10
COPIES = 4
"""So many masked copies of the rows does boosting get."""


@dataclass(frozen=True, eq=False)
class Training:
    """Rows to learn from, with or without holes, and what several methods need of them.

    Attributes
    ----------
    X : array of shape (rows, columns)
        Numbers have mean zero and variance one.
    y : array of shape (rows,)
        Of mean zero and variance one, or the numbers of classes.
    task : str
    owner : int array of shape (columns,)
        The variable of every column.
    groups : list of lists of int
        The columns of categories.
    seed : int
        Of masked copies.
    """

    X: Any
    y: Any
    task: str
    owner: Any
    groups: list[list[int]]
    seed: int

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return not np.isnan(self.X).any()

    @cached_property
    def copies(self) -> list[Any]:
        """The rows with more missing values."""
        rng = np.random.default_rng(self.seed)
        return [draw_copy(rng, self.X, self.owner) for _ in range(COPIES)]

    def indicated(self, X: Any, rows: Any) -> Any:
        """Filled rows with a column for every variable that says whether it was missing."""
        first = np.unique(self.owner, return_index=True)[1]
        return np.concatenate([X, np.isnan(rows[:, first])], axis=1)

    @cached_property
    def imputers(self) -> dict[str, tuple[Any, float]]:
        """Fitted imputers and how long that took.

        Iterative imputation is fitted to rows with holes also where training rows have none: from
        complete rows alone it would learn to stop after one round.
        """
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

        holed = np.concatenate([self.X, self.copies[0]]) if self.complete else self.X
        keep: Any = {"keep_empty_features": True}
        return {
            "mean": _timed(SimpleImputer(**keep).fit, self.X),
            "iterative": _timed(IterativeImputer(random_state=0, **keep).fit, holed),
            "k-NN": _timed(KNNImputer(n_neighbors=NEIGHBOURS, **keep).fit, self.X),
        }

    @cached_property
    def own_rows(self) -> Any:
        """Rows as the expected machines fill them in for fit: complete ones as they are."""
        if self.complete:
            return self.X
        model = ek.ExpectedKernelRidge(alpha=1.0, groups=self.groups or None)
        return model.fit(self.X, self.y).model_.X_fit_

    @cached_property
    def own_search(self) -> dict[str, dict[str, Any]]:
        """The parameters that the rows of expected machines ask for, by machine."""
        return {name: searched(name, self.own_rows, self.y, self.task) for name in (SVM, RIDGE)}

    @cached_property
    def boosting_search(self) -> dict[str, Any]:
        """The parameters of boosting, by the rows as they are."""
        search = GridSearchCV(_booster(self.task), BOOSTING, cv=FOLDS, scoring=_scoring(self.task))
        best: dict[str, Any] = search.fit(self.X, self.y).best_params_
        return best


class Fitted(NamedTuple):
    """A fitted method.

    Attributes
    ----------
    seconds : float
        How long it took, without the search for parameters.
    predict : function
        From rows with holes to targets or classes.
    probabilities, interval : function or None
        From rows with holes to probabilities of classes; from them and a coverage to the ends of
        intervals.
    """

    seconds: float
    predict: Callable[[Any], Any]
    probabilities: Callable[[Any], Any] | None = None
    interval: Callable[[Any, float], Any] | None = None


def fit_method(name: str, training: Training) -> Fitted:
    """A method, one of `METHODS`, fitted to training rows."""
    if name in EXPECTED:
        return _fit_expected(EXPECTED[name], "auto" if name in MASKED else None, training)
    if name in IMPUTED:
        return _fit_imputed(*IMPUTED[name], training)
    rows, y = training.X, training.y
    if BOOSTED[name]:
        rows, y = np.concatenate([rows, *training.copies]), np.tile(y, 1 + COPIES)
    model = _booster(training.task).set_params(**training.boosting_search)
    _, seconds = _timed(model.fit, rows, y)
    return Fitted(seconds, model.predict, getattr(model, "predict_proba", None))


def searched(machine: str, X: Any, y: Any, task: str) -> dict[str, Any]:
    """The parameters of a machine by cross-validation on rows without holes."""
    if machine == RIDGE and task != REGRESSION:
        found = _make(RIDGE, task, {}).fit(X, y)
        return {"alpha": found.alpha_, "gamma": found.gamma_}
    gammas = [rate / (X.shape[1] * max(X.var(), 1e-12)) for rate in RATES]
    grid = {"C": SIZES} if machine == SVM else {"alpha": [1.0 / size for size in SIZES]}
    search = GridSearchCV(
        _make(machine, task, {}), {**grid, "gamma": gammas}, cv=FOLDS, scoring=_scoring(task)
    )
    best: dict[str, Any] = search.fit(X, y).best_params_
    return best


def _scoring(task: str) -> str:
    return "neg_mean_squared_error" if task == REGRESSION else "accuracy"


def _make(machine: str, task: str, parameters: dict[str, Any]) -> Any:
    """A machine for rows without holes.

    Least squares on classes are the same as those of the expected machine, which chooses its
    parameters itself; the density, which complete rows do not need, is the cheapest.
    """
    if task == REGRESSION:
        return SVR(**parameters) if machine == SVM else KernelRidge(kernel="rbf", **parameters)
    if machine == SVM:
        return SVC(**parameters)
    return ek.ExpectedKernelClassifier(density="gaussian", standardize=False, **parameters)


def _fit_expected(machine: str, mask_kernel: str | None, training: Training) -> Fitted:
    regression = training.task == REGRESSION
    kinds: dict[Any, Any] = {
        (SVM, True): ek.ExpectedSVR,
        (RIDGE, True): ek.ExpectedKernelRidge,
        (SVM, False): ek.ExpectedSVC,
        (RIDGE, False): ek.ExpectedKernelClassifier,
    }
    chooses = machine == RIDGE and not regression  # its parameters itself
    own = {} if chooses else training.own_search[machine]
    model = kinds[machine, regression](
        groups=training.groups or None, mask_kernel=mask_kernel, **own
    )
    _, seconds = _timed(model.fit, training.X, training.y)
    if regression:
        return Fitted(seconds, model.predict, interval=model.predict_interval)
    return Fitted(seconds, model.predict, probabilities=model.predict_proba)


def _fit_imputed(name: str, indicators: bool, machine: str, training: Training) -> Fitted:
    """A machine fitted to filled rows.

    Indicators mean nothing if nothing is missing in training: a masked copy of the rows is then
    filled in and learned from as well, and parameters are those that complete rows ask for.
    """
    imputer, seconds = training.imputers[name]
    rows, y = training.X, training.y
    if indicators and training.complete:
        rows, y = np.concatenate([rows, training.copies[0]]), np.concatenate([y, y])

    def fill(X: Any) -> Any:
        filled = _quietly(imputer.transform, X)
        return training.indicated(filled, X) if indicators else filled

    filled, more = _timed(fill, rows)
    if training.complete:
        parameters = training.own_search[machine]
    else:
        parameters = searched(machine, filled, y, training.task)
    model = _make(machine, training.task, parameters)
    _, most = _timed(model.fit, filled, y)
    fitted = Fitted(seconds + more + most, lambda X: model.predict(fill(X)))
    if machine != RIDGE or training.task == REGRESSION:
        return fitted
    return fitted._replace(probabilities=lambda X: model.predict_proba(fill(X)))


def _booster(task: str) -> Any:
    kind = HistGradientBoostingRegressor if task == REGRESSION else HistGradientBoostingClassifier
    return kind(max_leaf_nodes=15, random_state=0)


def _timed(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    began = perf_counter()
    found = _quietly(function, *arguments)
    return found, perf_counter() - began


def _quietly(function: Callable[..., Any], *arguments: Any) -> Any:
    with catch_warnings():
        simplefilter("ignore", ConvergenceWarning)  # ten rounds are what people take
        return function(*arguments)
