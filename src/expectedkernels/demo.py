"""The demo: predictions from rows with missing values, expected and imputed, on diabetes data."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
from scipy.stats import rankdata
from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.utils import Bunch
from threadpoolctl import threadpool_limits

import expectedkernels as ek
from expectedkernels.checks import progress_bar

METHODS = EXPECTED, ITERATIVE, NEIGHBOURS, MEDIAN = (
    *("expected prediction", "iterative imputation"),
    *("nearest neighbours", "median imputation"),
)
RATES = (0.1, 0.3, 0.5, 0.7, 0.9)
SHOWN_RATE, SHOWN_ROWS = 0.5, 25
COVERAGE = 0.9
EPSILON = 5.0
COLUMNS = (
    *("age", "sex", "body mass index", "blood pressure", "cholesterol", "LDL", "HDL"),
    *("cholesterol / HDL", "log triglycerides", "glucose"),
)
"""What the columns are; the table has short names for them."""
GRID = {"C": [10.0, 30.0, 100.0], "gamma": [0.01, 0.03, 0.1]}


@dataclass(frozen=True, eq=False)
class Shown:
    """What is shown of single rows with missing values.

    Attributes
    ----------
    measured, expected : array of shape (rows,)
        The targets, and the expected predictions.
    low, high : array of shape (rows,)
        The ends of intervals for the targets.
    names, entries, contributions : list, array and array
        What the first row shows, and what that contributes to its prediction (Shapley values).
    base : float
        The expected prediction if nothing is known.
    """

    measured: Any
    expected: Any
    low: Any
    high: Any
    names: list[str]
    entries: Any
    contributions: Any
    base: float

    @property
    def coverage(self) -> float:
        """The share of rows whose target is in the interval.

        Examples
        --------
        >>> y, zero, one = np.array([0.5, -0.9, 2.0, 0.0]), np.zeros(4), np.ones(4)
        >>> Shown(y, zero, zero - 1, one, [], zero, zero, 0.0).coverage
        0.75
        """
        return float(np.mean((self.low <= self.measured) & (self.measured <= self.high)))


@dataclass(frozen=True, eq=False)
class Result:
    """What the demo found.

    Attributes
    ----------
    complete : array of shape (splits,)
        The errors (RMSE) with nothing missing.
    errors : dict
        From methods to errors (RMSE), shape (splits, fractions).
    shown : Shown
        Of the test rows of the first split, half of whose values are missing.
    seconds : float
    """

    complete: Any
    errors: dict[str, Any]
    shown: Any
    seconds: float

    def mean_errors(self) -> dict[str, Any]:
        """The errors of every method at every missing fraction, averaged over the splits."""
        return {method: errors.mean(axis=0) for method, errors in self.errors.items()}

    def mean_ranks(self) -> dict[str, float]:
        """The rank (1 is best) of every method, averaged over splits and missing fractions."""
        ranks = rankdata(np.stack(list(self.errors.values())), axis=0)
        return dict(zip(self.errors, ranks.mean(axis=(1, 2)).tolist(), strict=True))


def run(seed: int = 0, n_splits: int = 8) -> Result:
    """The errors of expected predictions and of imputation at several missing fractions.

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
    if n_splits < 1:
        raise ValueError(f"'n_splits' must be at least 1. Got {n_splits}.")
    start = perf_counter()
    complete, errors, shown = [], [], None
    # the matrices are small: more threads only wait for each other
    with threadpool_limits(1), progress_bar(n_splits, "splits") as bar:
        for number in range(n_splits):
            rng = np.random.default_rng([seed, number])
            split = split_diabetes(rng)
            model = fit_model(split)
            complete.append(rmse(model.predict(split.X_test), split.y_test))
            hidden = [hide(split.X_test, rate, rng) for rate in RATES]
            rows = np.concatenate(hidden)  # at once: what is common to rates is computed once
            predictors = fit_predictors(model, split).values()
            found = [np.split(predict(rows), len(RATES)) for predict in predictors]
            errors.append([[rmse(values, split.y_test) for values in rates] for rates in found])
            shown = shown or show(model, split, hidden[RATES.index(SHOWN_RATE)])
            bar.update()
    by_method = dict(zip(METHODS, np.swapaxes(np.array(errors), 0, 1), strict=True))
    return Result(np.array(complete), by_method, shown, perf_counter() - start)


def split_diabetes(rng: np.random.Generator) -> Bunch:
    """A random split of scikit-learn's diabetes data, with columns of mean 0 and variance 1.

    The scaler of the training rows, which made them so, turns them back.

    Examples
    --------
    >>> split = split_diabetes(np.random.default_rng(0))
    >>> split.X_train.shape, split.X_test.shape
    ((294, 10), (148, 10))
    """
    X, y = load_diabetes(return_X_y=True, scaled=False)
    seed = int(rng.integers(2**31))
    train, test, y_train, y_test = train_test_split(X, y, test_size=1 / 3, random_state=seed)
    scaler = StandardScaler().fit(train)
    train, test = scaler.transform(train), scaler.transform(test)
    return Bunch(X_train=train, y_train=y_train, X_test=test, y_test=y_test, scaler=scaler)


def hide(X: Any, rate: float, rng: np.random.Generator) -> Any:
    """The rows with NaN in place of values, each of which is missing with the same probability.

    Examples
    --------
    >>> hide(np.ones((1, 4)), 0.5, np.random.default_rng(0)).tolist()
    [[1.0, nan, nan, nan]]
    """
    return np.where(rng.random(X.shape) < rate, np.nan, X)


def fit_model(split: Bunch) -> ek.ExpectedSVR:
    """A regressor of complete rows, whose C and gamma are those that cross-validation likes best.

    The density that missing values are expected under is the default one.
    """
    search = GridSearchCV(SVR(epsilon=EPSILON), GRID, scoring="neg_mean_squared_error")
    search.fit(split.X_train, split.y_train)
    model = ek.ExpectedSVR(epsilon=EPSILON, standardize=False, **search.best_params_)
    return model.fit(split.X_train, split.y_train)


def fit_predictors(model: ek.ExpectedSVR, split: Bunch) -> dict[str, Any]:
    """Functions from rows with missing values to predictions: all use the same fitted regressor.

    Examples
    --------
    >>> split = split_diabetes(np.random.default_rng(0))
    >>> predictors = fit_predictors(fit_model(split), split)
    >>> [predict(split.X_test[:3]).shape for predict in predictors.values()]
    [(3,), (3,), (3,), (3,)]
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

    imputers = {
        # From complete rows nothing changes after the first of ten rounds: without tol=0 it would
        # be the only one for incomplete rows as well, and the predictions worse.
        ITERATIVE: IterativeImputer(max_iter=10, tol=0.0, random_state=0),
        NEIGHBOURS: KNNImputer(n_neighbors=10),
        MEDIAN: SimpleImputer(strategy="median"),
    }
    predictors: dict[str, Any] = {EXPECTED: model.predict}
    with catch_warnings():
        simplefilter("ignore", ConvergenceWarning)
        for method, imputer in imputers.items():
            fitted = imputer.fit(split.X_train)
            predictors[method] = lambda X, by=fitted: model.model_.predict(by.transform(X))
    return predictors


def show(model: ek.ExpectedSVR, split: Bunch, hidden: Any) -> Shown:
    """Predictions for the test rows with missing values, and why that of the first is what it is.

    Intervals are symmetric: their middle is the prediction.
    """
    low, high = model.predict_interval(hidden, COVERAGE)
    found = ek.shapley_values(model, hidden[:1])
    observed = ~np.isnan(hidden[0])
    names = [name for name, there in zip(COLUMNS, observed, strict=True) if there]
    entries = split.scaler.inverse_transform(hidden[:1])[0, observed]
    why = found.values[0, observed], float(found.base_values[0])
    return Shown(split.y_test, (low + high) / 2, low, high, names, entries, *why)


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
    n_splits, found = len(result.complete), result.shown
    rows = [("missing values", [f"{rate:.0%} " for rate in RATES], "mean rank")]
    for method, means in errors.items():
        cells = [f"{e:.2f}{'*' if e == b else ' '}" for e, b in zip(means, best, strict=True)]
        rows.append((method, cells, f"{ranks[method]:.2f}"))
    lines = [f"{a:21}{''.join(f'{x:>9}' for x in cells)}{b:>12}" for a, cells, b in rows]
    splits = "1 split" if n_splits == 1 else f"means of {n_splits} random splits"
    return f"""\
Disease progression from ten measurements, by support vector regression on complete rows.
Then values of the test rows go missing. Root mean squared errors:

{chr(10).join(lines)}

* lowest; {splits}; with nothing missing {result.complete.mean():.2f} for all.

Only the expected prediction has intervals. With {SHOWN_RATE:.0%} missing, those of
{COVERAGE:.0%} hold the measured progression of {found.coverage:.0%} of {len(found.measured)} rows.
Time: {result.seconds:.1f} s"""


def plot(result: Result) -> Any:
    """The axes of a picture: errors by missing fraction, intervals, and one explanation.

    Examples
    --------
    >>> rows, errors = np.arange(3.0), {method: np.ones((1, len(RATES))) for method in METHODS}
    >>> shown = Shown(rows, rows, rows - 1, rows + 1, ["age"], [30.0], np.array([-1.0]), 1.0)
    >>> axes = plot(Result(np.ones(1), errors, shown, seconds=1.0))
    >>> axes[0].get_ylabel()
    'root mean squared error'
    """
    # Here and not above: the table does not need matplotlib.
    from expectedkernels.plotting import plot_demo

    titles = (
        "Error of predictions, diabetes data",
        f"{SHOWN_ROWS} test rows with {SHOWN_RATE:.0%} of their values missing",
        "Why this prediction?",
    )
    return plot_demo(result, RATES, SHOWN_ROWS, titles)
