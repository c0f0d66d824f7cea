"""The demo: predictions from rows with missing values, expected and imputed, on diabetes data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
from scipy.stats import rankdata
from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from threadpoolctl import threadpool_limits
from tqdm import tqdm

import expectedkernels as ek

EXPECTED, ITERATIVE, NEIGHBOURS, MEDIAN = (
    "expected prediction",
    "iterative imputation",
    "nearest neighbours",
    "median imputation",
)
METHODS = (EXPECTED, ITERATIVE, NEIGHBOURS, MEDIAN)
RATES = (0.1, 0.3, 0.5, 0.7, 0.9)
SHOWN_RATE, SHOWN_ROWS = 0.5, 25
TEST_SHARE = 1 / 3
EPSILON = 5.0
GRID = {"C": [10.0, 30.0, 100.0], "gamma": [0.01, 0.03, 0.1]}


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to learn from and rows to predict, with columns of mean 0 and variance 1."""

    X_train: Any
    y_train: Any
    X_test: Any
    y_test: Any


@dataclass(frozen=True, eq=False)
class Predictions:
    """What is predicted for the same test rows.

    Attributes
    ----------
    complete : array of shape (rows,)
        The predictions with everything observed.
    expected, std : array of shape (rows,)
        The expected predictions with missing values, and their standard deviations.
    imputed : dict
        From methods to predictions from the rows as they filled them in.
    """

    complete: Any
    expected: Any
    std: Any
    imputed: dict[str, Any]

    def coverage(self, width: float) -> float:
        """The share of rows whose complete prediction is within so many standard deviations.

        Examples
        --------
        >>> zero, one = np.zeros(4), np.ones(4)
        >>> Predictions(np.array([0.5, -0.9, 2.0, 0.0]), zero, one, {}).coverage(1)
        0.75
        """
        return float(np.mean(np.abs(self.complete - self.expected) <= width * self.std))


@dataclass(frozen=True, eq=False)
class Result:
    """What the demo found.

    Attributes
    ----------
    complete : array of shape (splits,)
        The errors (RMSE) with nothing missing.
    errors : dict
        From methods to errors (RMSE), shape (splits, rates).
    predictions : Predictions
        For the test rows of the first split, half of whose values are missing.
    seconds : float
    """

    complete: Any
    errors: dict[str, Any]
    predictions: Predictions
    seconds: float

    def mean_errors(self) -> dict[str, Any]:
        """The errors of every method at every rate, averaged over the splits."""
        return {method: errors.mean(axis=0) for method, errors in self.errors.items()}

    def mean_ranks(self) -> dict[str, float]:
        """The rank (1 is best) of every method, averaged over splits and rates."""
        ranks = rankdata(np.stack(list(self.errors.values())), axis=0)
        return dict(zip(self.errors, ranks.mean(axis=(1, 2)).tolist(), strict=True))


def run(seed: int = 0, n_splits: int = 10) -> Result:
    """The errors of expected predictions and of imputation at several rates of missing values.

    Parameters
    ----------
    seed : int
        Seed of the splits and of what goes missing.
    n_splits : int
        How often the rows are split into those to learn from and those to predict.

    Examples
    --------
    >>> result = run(n_splits=1)
    >>> result.errors["expected prediction"].shape
    (1, 5)
    """
    start = perf_counter()
    complete, errors, shown = [], [], None
    for number in _numbers(n_splits):
        rng = np.random.default_rng([seed, number])
        split = split_diabetes(rng)
        machine = fit_machine(split)
        predictors = fit_predictors(machine, split)
        complete.append(rmse(machine.predict(split.X_test), split.y_test))
        hidden = {rate: hide(split.X_test, rate, rng) for rate in RATES}
        errors.append(
            [[rmse(f(hidden[rate]), split.y_test) for rate in RATES] for f in predictors.values()]
        )
        shown = shown or predict_all(machine, predictors, split.X_test, hidden[SHOWN_RATE])
    if shown is None:
        raise ValueError(f"'n_splits' must be at least 1. Got {n_splits}.")
    by_method = dict(zip(METHODS, np.swapaxes(np.array(errors), 0, 1), strict=True))
    return Result(np.array(complete), by_method, shown, perf_counter() - start)


def _numbers(n: int) -> Iterator[int]:
    """0, 1, ..., n - 1 with a bar on terminals; in the meantime, linear algebra has one thread.

    The matrices are small: more threads only wait for each other.
    """
    with threadpool_limits(1):
        yield from tqdm(range(n), desc="splits", leave=False, disable=None)


def split_diabetes(rng: np.random.Generator) -> Split:
    """A random split of scikit-learn's diabetes data, scaled by what the training rows say.

    Examples
    --------
    >>> split = split_diabetes(np.random.default_rng(0))
    >>> split.X_train.shape, split.X_test.shape
    ((294, 10), (148, 10))
    """
    X, y = load_diabetes(return_X_y=True, scaled=False)
    seed = int(rng.integers(2**31))
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=TEST_SHARE, random_state=seed
    )
    scaler = StandardScaler().fit(X_train)
    return Split(scaler.transform(X_train), y_train, scaler.transform(X_test), y_test)


def hide(X: Any, rate: float, rng: np.random.Generator) -> Any:
    """The rows with NaN in place of values, each of which is missing with the same probability.

    Examples
    --------
    >>> hide(np.ones((1, 4)), 0.5, np.random.default_rng(0)).tolist()
    [[1.0, nan, nan, nan]]
    """
    return np.where(rng.random(X.shape) < rate, np.nan, X)


def fit_machine(split: Split) -> ek.ExpectedSVR:
    """A regressor of complete rows, whose C and gamma are those that cross-validation likes best.

    The density that missing values are expected under is the default one.
    """
    search = GridSearchCV(SVR(epsilon=EPSILON), GRID, scoring="neg_mean_squared_error")
    search.fit(split.X_train, split.y_train)
    machine = ek.ExpectedSVR(epsilon=EPSILON, standardize=False, **search.best_params_)
    return machine.fit(split.X_train, split.y_train)


def fit_predictors(machine: ek.ExpectedSVR, split: Split) -> dict[str, Any]:
    """Functions from rows with missing values to predictions: all use the same fitted regressor.

    Examples
    --------
    >>> split = split_diabetes(np.random.default_rng(0))
    >>> predictors = fit_predictors(fit_machine(split), split)
    >>> [predict(split.X_test[:3]).shape for predict in predictors.values()]
    [(3,), (3,), (3,), (3,)]
    """
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

    imputers = {
        # From complete rows nothing changes after the first of ten rounds: without tol=0 it would
        # be the only one for incomplete rows as well, and the predictions worse.
        ITERATIVE: IterativeImputer(max_iter=10, tol=0.0, random_state=0),
        NEIGHBOURS: KNNImputer(n_neighbors=10),
        MEDIAN: SimpleImputer(strategy="median"),
    }
    predictors: dict[str, Any] = {EXPECTED: machine.predict}
    for method, imputer in imputers.items():
        predictors[method] = partial(_impute_and_predict, _fitted(imputer, split), machine.model_)
    return predictors


def _fitted(imputer: Any, split: Split) -> Any:
    from sklearn.exceptions import ConvergenceWarning

    with catch_warnings():
        simplefilter("ignore", ConvergenceWarning)
        return imputer.fit(split.X_train)


def _impute_and_predict(imputer: Any, model: SVR, X: Any) -> Any:
    return model.predict(imputer.transform(X))


def predict_all(
    machine: ek.ExpectedSVR, predictors: Mapping[str, Any], X: Any, hidden: Any
) -> Predictions:
    """The predictions of all methods for rows with missing values, and for the complete rows."""
    expected, std = machine.predict(hidden, return_std=True)
    imputed = {method: f(hidden) for method, f in predictors.items() if method != EXPECTED}
    return Predictions(machine.predict(X), expected, std, imputed)


def rmse(predictions: Any, y: Any) -> float:
    """The root of the mean squared error.

    Examples
    --------
    >>> rmse(np.array([1.0, 1.0]), np.array([2.0, 0.0]))
    1.0
    """
    return float(np.sqrt(np.mean((predictions - y) ** 2)))


def table(result: Result) -> str:
    """The result as a few lines of plain text, with a table."""
    errors, ranks = result.mean_errors(), result.mean_ranks()
    best = np.min(list(errors.values()), axis=0)
    n_splits, found = len(result.complete), result.predictions
    lines = [
        "Disease progression from ten measurements, by support vector regression on complete rows.",
        "Then values of the test rows go missing. Root mean squared errors:",
        "",
        _row("missing values", [f"{rate:.0%} " for rate in RATES], "mean rank"),
    ]
    for method, means in errors.items():
        cells = [f"{e:.2f}{'*' if e == b else ' '}" for e, b in zip(means, best, strict=True)]
        lines.append(_row(method, cells, f"{ranks[method]:.2f}"))
    splits = "1 split" if n_splits == 1 else f"means of {n_splits} random splits"
    return "\n".join(
        [
            *lines,
            "",
            f"* lowest; {splits}; with nothing missing {result.complete.mean():.2f} for all.",
            "",
            f"Only the expected prediction has error bars. With {SHOWN_RATE:.0%} missing, the "
            f"prediction from the complete row",
            f"is within one standard deviation of it for {found.coverage(1):.0%} of "
            f"{len(found.std)} rows, within two for {found.coverage(2):.0%}.",
            f"Time: {result.seconds:.1f} s",
        ]
    )


def _row(name: str, cells: list[str], rank: str) -> str:
    return f"{name:21}{''.join(f'{cell:>9}' for cell in cells)}{rank:>12}"


def plot(result: Result) -> Any:
    """The axes of a picture of the result: errors by rate, and predictions for the first rows.

    Examples
    --------
    >>> rows = np.arange(3.0)
    >>> found = Predictions(rows, rows, rows, {method: rows for method in METHODS[1:]})
    >>> errors = {method: np.ones((1, len(RATES))) for method in METHODS}
    >>> axes = plot(Result(np.ones(1), errors, found, seconds=1.0))
    >>> axes[0].get_ylabel()
    'root mean squared error'
    """
    # Here and not above: the table does not need matplotlib.
    from expectedkernels.plotting import Curve, plot_missing_values

    rates, start = [0.0, *RATES], result.complete.mean()
    found, rows = result.predictions, slice(SHOWN_ROWS)
    return plot_missing_values(
        {name: Curve(rates, [start, *means]) for name, means in result.mean_errors().items()},
        found.complete[rows],
        found.expected[rows],
        found.std[rows],
        {name: values[rows] for name, values in found.imputed.items()},
        titles=(
            "Error of predictions, diabetes data",
            f"{SHOWN_ROWS} test rows with {SHOWN_RATE:.0%} of their values missing",
        ),
        ylabels=("root mean squared error", "predicted disease progression"),
    )
