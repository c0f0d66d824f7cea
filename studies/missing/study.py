"""The study of missing values: errors of expected predictions, imputation and boosting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, get_type_hints
from warnings import catch_warnings, simplefilter

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC, SVR

import expectedkernels as ek
from studies import base
from studies.regression.datasets import SOURCES, data_folder, raw_table

REGRESSION, CLASSIFICATION = "regression", "classification"
N_PIXELS = 20
"""So many pixels of the digits are columns: those of the largest variance."""


@dataclass(frozen=True, eq=False)
class Table:
    """A table without missing values.

    Attributes
    ----------
    name, task : str
    X : array of shape (rows, columns)
        Numbers, and the one-hot bits of categories.
    owner : int array of shape (columns,)
        The variable of every column: one of a number, several of a category.
    y : array of shape (rows,)
        Targets of mean zero and variance one, or the numbers of classes.
    """

    name: str
    task: str
    X: Any
    owner: Any
    y: Any

    @property
    def variables(self) -> list[list[int]]:
        """The columns of every variable."""
        return [np.flatnonzero(self.owner == v).tolist() for v in range(self.owner[-1] + 1)]

    @property
    def groups(self) -> list[list[int]]:
        """The columns of the categories."""
        return [columns for columns in self.variables if len(columns) > 1]


def make_table(name: str, task: str, columns: Sequence[Any], y: Any) -> Table:
    """The table of some columns, where those of text are categories.

    Examples
    --------
    >>> table = make_table("t", "regression", [["a", "b", "a"], [1.0, 2.0, 3.0]], [0.0, 3.0, 0.0])
    >>> table.X.tolist()
    [[1.0, 0.0, 1.0], [0.0, 1.0, 2.0], [1.0, 0.0, 3.0]]
    >>> table.owner.tolist()
    [0, 0, 1]
    """
    arrays, target = list(map(np.asarray, columns)), np.asarray(y)
    parts = [x[:, None] == np.unique(x) if x.dtype.kind in "UO" else x[:, None] for x in arrays]
    owner = np.repeat(np.arange(len(parts)), [part.shape[1] for part in parts])
    if task == REGRESSION:
        target = (target - target.mean()) / target.std()
    return Table(name, task, np.concatenate(parts, axis=1, dtype=np.float64), owner, target)


SHIPPED = dict.fromkeys(("diabetes", "linnerud"), REGRESSION)
SHIPPED |= dict.fromkeys(("breast_cancer", "wine", "iris", "digits"), CLASSIFICATION)
"""The tables that come with scikit-learn."""
TABLES = (*SHIPPED, *SOURCES)


def available(folder: str | Path | None) -> list[str]:
    """The tables that are there: those of scikit-learn, and those in a folder.

    Examples
    --------
    >>> available(None)
    ['diabetes', 'linnerud', 'breast_cancer', 'wine', 'iris', 'digits']
    """
    files = {name: data_folder(folder) / s.file for name, s in SOURCES.items() if folder}
    return [*SHIPPED, *(name for name, file in files.items() if file.is_file())]


def load_table(name: str, folder: str | Path | None = None) -> Table:
    """The table of this name, one of `TABLES`.

    Examples
    --------
    >>> table = load_table("iris")
    >>> table.task, table.X.shape
    ('classification', (150, 4))
    """
    if name in SHIPPED:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        X = X[:, np.argsort(-X.std(axis=0))[:N_PIXELS]] if name == "digits" else X
        return make_table(name, SHIPPED[name], X.T, y[:, 0] if name == "linnerud" else y)
    source, columns = SOURCES[name], []
    found = raw_table(source, folder)
    for column in (*source.discrete, *source.continuous):
        numbers = pd.to_numeric(found[column], errors="coerce")
        columns.append(found[column].astype(str) if numbers.isna().any() else numbers)
    return make_table(name, REGRESSION, columns, found[source.target].astype(float))


STEEPNESS = 2.0
"""How fast the chance of a missing value changes with the value that it depends on."""
LOWEST_RATE, HIGHEST_RATE = 0.1, 0.8
"""The missing fractions of masked copies: those of the test rows are unknown."""


def draw_mask(rng: np.random.Generator, table: Table, mechanism: str, rate: float) -> Any:
    """Which values of a table are missing, (rows, variables).

    Parameters
    ----------
    rng : Generator
    table : Table
    mechanism : {"MCAR", "MAR", "MNAR"}
        Every value with the same chance; with a chance that depends on a third of the variables,
        which are never missing; or with a chance that depends on the value itself.
    rate : float
        The mean chance of those that may be missing.

    Examples
    --------
    >>> mask = draw_mask(np.random.default_rng(0), load_table("iris"), "MAR", 0.5)
    >>> mask.mean(axis=0).round(1).tolist()
    [0.4, 0.5, 0.5, 0.0]
    """
    n, m = len(table.X), len(table.variables)
    if mechanism == "MCAR":
        return rng.random((n, m)) < rate
    columns = [  # a number for every value: itself, or one that its category has drawn
        table.X[:, c] @ (rng.normal(size=len(c)) if len(c) > 1 else [1.0]) for c in table.variables
    ]
    scores = _standardised(np.stack(columns, axis=1))
    hidden = np.ones(m, dtype=bool)
    if mechanism == "MAR":
        seen = rng.choice(m, max(1, round(m / 3)), replace=False)
        hidden[seen] = False
        scores = _standardised(scores[:, seen] @ rng.normal(size=(len(seen), m)))
    else:
        scores = scores * rng.choice([-1.0, 1.0], m)
    chance = np.stack([_chances(column, rate) for column in scores.T], axis=1)
    return (rng.random((n, m)) < chance) & hidden


def _standardised(x: Any) -> Any:
    deviation = x.std(axis=0)
    return (x - x.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


def _chances(score: Any, rate: float) -> Any:
    """Chances that grow with the score and have this mean."""
    steep = STEEPNESS * score
    most = 40.0 + np.abs(steep).max()
    return expit(steep + brentq(lambda a: expit(steep + a).mean() - rate, -most, most))


def draw_copy(rng: np.random.Generator, X: Any, owner: Any) -> Any:
    """The rows with more missing values, each row with a missing fraction of its own.

    Examples
    --------
    >>> draw_copy(np.random.default_rng(4), np.ones((1, 3)), np.array([0, 0, 1])).tolist()
    [[nan, nan, 1.0]]
    """
    rate = rng.uniform(LOWEST_RATE, HIGHEST_RATE, (len(X), 1))
    return hide(X, rng.random((len(X), owner.max() + 1)) < rate, owner)


def hide(X: Any, mask: Any, owner: Any) -> Any:
    """The rows with NaN in all columns of the variables that are missing."""
    return np.where(mask[:, owner], np.nan, X)


SVM, RIDGE = "SVM", "ridge"
MASKED = {f"expected {machine}, mask kernel": machine for machine in (SVM, RIDGE)}
"""These learn from missing values in training rows, if there are any."""
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
"""The gamma of the kernel, in multiples of scikit-learn's "scale"."""
BOOSTING = {"learning_rate": [0.05, 0.2], "min_samples_leaf": [5, 20]}
FOLDS = 3
NEIGHBOURS = 10
COPIES = 4
"""So many masked copies of the rows does boosting get."""


@dataclass(frozen=True, eq=False)
class Training(Table):
    """Rows to learn from, complete or not, and what several methods need of them.

    Numbers have mean zero and variance one in them.

    Attributes
    ----------
    seed : int
        Of masked copies.
    """

    seed: int

    @cached_property
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

        Iterative imputation is fitted to incomplete rows also where training rows are complete:
        from complete rows alone it would learn to stop after one round.
        """
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

        incomplete = np.concatenate([self.X, self.copies[0]]) if self.complete else self.X
        keep: Any = {"keep_empty_features": True}
        return {
            "mean": _timed(SimpleImputer(**keep).fit, self.X),
            "iterative": _timed(IterativeImputer(random_state=0, **keep).fit, incomplete),
            "k-NN": _timed(KNNImputer(n_neighbors=NEIGHBOURS, **keep).fit, self.X),
        }

    @cached_property
    def own_rows(self) -> Any:
        """Rows as expected predictions impute them for fit: complete ones as they are."""
        if self.complete:
            return self.X
        model = ek.ExpectedKernelRidge(alpha=1.0, groups=self.groups or None)
        return model.fit(self.X, self.y).model_.X_fit_

    @cached_property
    def own_search(self) -> dict[str, dict[str, Any]]:
        """The parameters that cross-validation on `own_rows` selects, by estimator."""
        return {name: searched(name, self.own_rows, self.y, self.task) for name in (SVM, RIDGE)}

    @cached_property
    def boosting_search(self) -> dict[str, Any]:
        """The parameters of boosting, by the rows as they are."""
        return _best(_booster(self.task), BOOSTING, self.X, self.y, self.task)


class Fitted(NamedTuple):
    """A fitted method.

    Attributes
    ----------
    seconds : float
        How long it took, without the search for parameters.
    predict : function
        From incomplete rows to targets or classes.
    probabilities, interval : function or None
        From incomplete rows to probabilities of classes; from them and a coverage to the ends of
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
    """The parameters of an estimator by cross-validation on complete rows."""
    if machine == RIDGE and task != REGRESSION:
        found = _make(RIDGE, task, {}).fit(X, y)
        return {"alpha": found.alpha_, "gamma": found.gamma_}
    sizes = {"C": SIZES} if machine == SVM else {"alpha": [1.0 / size for size in SIZES]}
    gammas = [rate / (X.shape[1] * max(X.var(), 1e-12)) for rate in RATES]
    return _best(_make(machine, task, {}), sizes | {"gamma": gammas}, X, y, task)


def _best(model: Any, grid: dict[str, Any], X: Any, y: Any, task: str) -> dict[str, Any]:
    scoring = "neg_mean_squared_error" if task == REGRESSION else "accuracy"
    return GridSearchCV(model, grid, cv=FOLDS, scoring=scoring).fit(X, y).best_params_


def _make(machine: str, task: str, parameters: dict[str, Any]) -> Any:
    """An estimator for complete rows.

    Least squares on classes are the same as those of `ExpectedKernelClassifier`, which
    chooses its parameters itself; the density, which complete rows do not need, is the cheapest.
    """
    if task == REGRESSION:
        return SVR(**parameters) if machine == SVM else KernelRidge(kernel="rbf", **parameters)
    if machine == SVM:
        return SVC(**parameters)
    return ek.ExpectedKernelClassifier(density="gaussian", standardize=False, **parameters)


def _fit_expected(machine: str, mask_kernel: str | None, training: Training) -> Fitted:
    options: Any = {"groups": training.groups or None, "mask_kernel": mask_kernel}
    if training.task == REGRESSION:
        kind: Any = ek.ExpectedSVR if machine == SVM else ek.ExpectedKernelRidge
    else:
        kind = ek.ExpectedSVC if machine == SVM else ek.ExpectedKernelClassifier
    if kind is not ek.ExpectedKernelClassifier:  # which chooses its parameters itself
        options |= training.own_search[machine]
    model = kind(**options)
    _, seconds = _timed(model.fit, training.X, training.y)
    names = ("predict_proba", "predict_interval")
    return Fitted(seconds, model.predict, *(getattr(model, name, None) for name in names))


def _fit_imputed(name: str, indicators: bool, machine: str, training: Training) -> Fitted:
    """An estimator fitted to imputed rows.

    Indicators mean nothing if nothing is missing in training: a masked copy of the rows is then
    filled in and learned from as well, and parameters are those for complete rows.
    """
    imputer, seconds = training.imputers[name]
    rows, y, task = training.X, training.y, training.task
    if indicators and training.complete:
        rows, y = np.concatenate([rows, training.copies[0]]), np.concatenate([y, y])

    def fill(X: Any) -> Any:
        filled = _quietly(imputer.transform, X)
        return training.indicated(filled, X) if indicators else filled

    filled, more = _timed(fill, rows)
    own = training.own_search[machine] if training.complete else searched(machine, filled, y, task)
    model = _make(machine, task, own)
    _, most = _timed(model.fit, filled, y)
    fitted = Fitted(seconds + more + most, lambda X: model.predict(fill(X)))
    if machine != RIDGE or task == REGRESSION:
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


PLACES = {"test": "missing in test rows only", "both": "missing in training and test rows"}
MECHANISMS = (("MCAR", 0.3), ("MCAR", 0.5), ("MAR", 0.5), ("MNAR", 0.3))
COVERAGE = 0.9
FEWEST = 3
"""So many values of every variable are seen in training, however many are missing."""
NAMES: dict[str, Any] = {
    "tables": ("table", TABLES),
    "missing": ("place of missing values", tuple(PLACES)),
    "methods": ("method", METHODS),
}
DEFAULTS = {"tables": (), "mechanisms": MECHANISMS, "trials": 5}
QUICK_OPTIONS: dict[str, Any] = {"tables": ("diabetes", "wine", "iris"), "trials": 1}
QUICK_OPTIONS["mechanisms"] = (("MCAR", 0.5), ("MNAR", 0.3))
TASKS = {
    "regression": "error = RMSE / standard deviation of the target",
    "classification": "error = share of wrong labels",
}
OURS = next(iter(EXPECTED))
SHOWN = (
    "expected SVM, mask kernel",
    "expected ridge",
    "mean, SVM",
    "iterative, SVM",
    "iterative + indicators, SVM",
    "k-NN, SVM",
    "boosting on masked copies",
)
"""The methods in the figure; more would be hard to distinguish."""
EXTRAS = {
    "log_loss": ("log loss", "{:.3f}"),
    "coverage": ("coverage of 90 % intervals", "{:.3f}"),
    "width": ("median width", "{:.3f}"),
    "fit_seconds": ("seconds of fit", "{:.2f}"),
    "predict_seconds": ("of predict", "{:.2f}"),
}


@dataclass(frozen=True)
class Settings:
    """What has to be the same for results to belong together.

    Attributes
    ----------
    seed : int
    n_train, n_test : int
        At most so many rows; two thirds of a table are for training.
    """

    seed: int = 0
    n_train: int = 300
    n_test: int = 200


QUICK = Settings(n_train=100, n_test=100)
"""Settings for a first look within a minute."""


class Cell(NamedTuple):
    """One split of one table with one random mask: all methods are compared on it.

    Attributes
    ----------
    table, task : str
    missing : {"test", "both"}
        Whether values are missing in test rows only, or in training rows as well.
    mechanism : {"MCAR", "MAR", "MNAR"}
    rate : float
    trial : int
    """

    table: str
    task: str
    missing: str
    mechanism: str
    rate: float
    trial: int


KEYS = get_type_hints(Cell) | {"method": str}
VALUES = dict.fromkeys(("error", *EXTRAS), float)
"""Errors are roots of mean squares in standard deviations of the target, or shares of wrong labels;
widths of 90 % intervals are medians over rows; times are without the search for parameters."""


def split_rows(table: Table, trial: int, settings: Settings) -> tuple[Table, int]:
    """A random split of a table, training rows first, and their number: the same for all methods.

    Examples
    --------
    >>> table, n_train = split_rows(load_table("iris"), 0, Settings())
    >>> n_train, len(table.y)
    (100, 150)
    """
    n_train = min(settings.n_train, 2 * len(table.y) // 3)
    n_test = min(settings.n_test, len(table.y) - n_train)
    order = base.cell_rng(settings.seed, table.name, trial).permutation(len(table.y))
    part = order[: n_train + n_test]
    return replace(table, X=table.X[part], y=table.y[part]), n_train


def cell_mask(table: Table, n_train: int, cell: Cell, settings: Settings) -> Any:
    """What is missing in a cell, (rows, variables): the same in all runs."""
    where = f"{cell.table}/{cell.mechanism} {cell.rate:g}"
    rng = base.cell_rng(settings.seed, where, cell.trial)
    mask = draw_mask(rng, table, cell.mechanism, cell.rate)
    if cell.missing == "test":
        mask[:n_train] = False
    few = (~mask[:n_train]).sum(axis=0) < FEWEST
    mask[:FEWEST, few] = False
    return mask


class Task(NamedTuple):
    """Incomplete rows, scaled by what the training rows show.

    Attributes
    ----------
    training : Training
    X_test, y_test : arrays
    unit : float
        That of the target, in its standard deviations over the whole table.
    """

    training: Training
    X_test: Any
    y_test: Any
    unit: float


def make_task(table: Table, n: int, mask: Any, trial: int) -> Task:
    """What methods get to see of a split with n training rows.

    Examples
    --------
    >>> table, n = split_rows(load_table("iris"), 0, Settings())
    >>> task = make_task(table, n, np.zeros((150, 4), dtype=bool), 0)
    >>> bool(np.abs(task.training.X.mean(axis=0)).max() < 1e-12)
    True
    """
    X = hide(table.X, mask, table.owner)
    bits = [column for group in table.groups for column in group]
    centre, spread = np.nanmean(X[:n], axis=0), np.nanstd(X[:n], axis=0)
    centre[bits], spread[bits] = 0.0, 1.0
    X = (X - centre) / np.where(spread > 0, spread, 1.0)
    y, unit = table.y, 1.0
    if table.task == REGRESSION:
        unit = float(y[:n].std()) or 1.0
        y = (y - y[:n].mean()) / unit
    training = Training(table.name, table.task, X[:n], table.owner, y[:n], trial)
    return Task(training, X[n:], y[n:], unit)


def work(table: Table, cells: Sequence[tuple[Cell, list[str]]], settings: Settings) -> list[Any]:
    """The results of some methods in cells that have the same training rows."""
    rows, n_train = split_rows(table, cells[0][0].trial, settings)
    training, found = None, []
    fitted: dict[str, Fitted] = {}
    for cell, methods in cells:
        task = make_task(rows, n_train, cell_mask(rows, n_train, cell, settings), cell.trial)
        training = training or task.training
        for name in methods:
            if name not in fitted:
                fitted[name] = fit_method(name, training)
            found.append((*cell, name, *_values(fitted[name], task)))
    return found


def _values(method: Fitted, task: Task) -> list[float]:
    """What a method did, one number for each of `VALUES`."""
    began = perf_counter()
    answer = method.predict(task.X_test)
    seconds = perf_counter() - began
    y, loss, coverage, width = task.y_test, np.nan, np.nan, np.nan
    if task.training.task == REGRESSION:
        error = task.unit * np.sqrt(np.mean((answer - y) ** 2))
    else:
        error = np.mean(answer != y)
    if method.probabilities is not None:
        p = method.probabilities(task.X_test)
        loss = log_loss(y, p, labels=np.unique(task.training.y))
    if method.interval is not None:
        low, high = method.interval(task.X_test, COVERAGE)
        coverage, width = np.mean((low <= y) & (y <= high)), task.unit * np.median(high - low)
    times = round(method.seconds, 4), round(seconds, 4)
    return [float(x) for x in (error, loss, coverage, width, *times)]


def tasks(options: Any, settings: Settings, folder: Any, results: base.Results) -> Iterator[Any]:
    """What is left to do, together where training rows are the same."""
    tables = [load_table(name, folder) for name in options.tables or available(folder)]
    for trial, table, where in product(range(options.trials), tables, options.missing):
        usable = [m for m in options.methods if where == "both" or m not in MASKED]
        cells = [Cell._make([table.name, table.task, where, *x, trial]) for x in options.mechanisms]
        left = [(cell, names) for cell in cells if (names := results.left(cell, usable))]
        groups = [left] if where == "test" else [[one] for one in left]
        yield from ((table, group, settings) for group in groups if group)


def values_of(frame: Any, task: str, missing: str) -> Any:
    """The results of methods (rows), averaged over splits, by field, table and setting.

    Tables and settings are those that all methods have errors for; None without any.
    """
    frame = frame[(frame["task"] == task) & (frame["missing"] == missing)]
    if frame.empty:
        return None
    setting = frame["mechanism"] + " " + frame["rate"].map("{:g}".format)
    grouped = frame.assign(setting=setting).groupby(["method", "table", "setting"], sort=False)
    means = grouped[["error", *EXTRAS]].mean().unstack(["table", "setting"])
    means = means.reindex([method for method in METHODS if method in means.index])
    common = means["error"].dropna(axis=1).columns
    kept = [column for column in means if column[1:] in set(common)]
    return means[kept] if kept else None


def against(errors: Any, ours: str) -> Any:
    """How much larger errors are than those of one of our methods, with tables as units.

    Wins are tables where ours has the smaller error; the distance is the mean difference in
    multiples of its standard error, NaN if there is none.
    """
    by_table = errors.T.groupby("table", sort=False).mean().T
    gap = by_table - by_table.loc[ours]
    error = gap.sem(axis=1).replace(0.0, np.nan)
    wins, losses = (gap > 0).sum(axis=1), (gap < 0).sum(axis=1)
    found = pd.DataFrame({"wins": wins, "losses": losses, "distance": gap.mean(axis=1) / error})
    record = wins.astype(str) + "-" + losses.astype(str)
    return found.assign(record=record, far=base.text(found["distance"], "{:+.1f}"))


def report(frame: Any, comparable: bool = True) -> tuple[Any, ...]:
    """What `write_report` writes."""
    short, sections, means, panels = [], [], {}, {}
    for task, (missing, place) in product(TASKS, PLACES.items()):
        values = values_of(frame, task, missing)
        if values is None:
            continue
        errors = values["error"]
        means[f"{task}, {missing}"], panels[f"{task}\n{place}"] = errors.mean(axis=1), errors
        extras = pd.DataFrame({field: values[field].mean(axis=1) for field in EXTRAS})
        short.append(f"- {task.capitalize()}, {place}: {_in_short(errors)}")
        ends = extras[["coverage", "width"]].dropna().itertuples()
        covered = [f"{m} {share:.1%} at a median width of {width:.2f}" for m, share, width in ends]
        short += [f"- Its 90 % intervals cover: {', '.join(covered)}."] if covered else []
        there = extras.dropna(axis=1, how="all")
        shown = {EXTRAS[x][0]: base.text(there[x], EXTRAS[x][1]) for x in there}
        tables = f"Tables: {', '.join(errors.columns.unique('table'))}; {TASKS[task]}."
        parts = [tables, error_table(errors), pd.DataFrame(shown)]
        sections.append((f"{task.capitalize()}, {place}", parts))
    rows = [m for m in METHODS if any(m in x for x in means.values())]
    words = {"short": "\n".join(short), "ours": OURS}
    words |= {} if comparable else {"other_settings": ""}
    return words, sections, pd.DataFrame(means).reindex(rows), lambda: figure(panels)


def error_table(errors: Any) -> Any:
    """Methods down; errors by setting, ranks and comparisons across, as text."""
    by_setting = errors.T.groupby("setting").mean().T
    table = by_setting.assign(all=errors.mean(axis=1)).map("{:.4f}".format)
    table["mean rank"] = errors.rank().mean(axis=1).map("{:.1f}".format)
    for ours in (name for name in EXPECTED if name in errors.index and name not in MASKED):
        table[[f"w-l {ours}", f"d/se {ours}"]] = against(errors, ours)[["record", "far"]]
        table.loc[ours, [f"w-l {ours}", f"d/se {ours}"]] = ""
    return table


def _in_short(errors: Any) -> str:
    """The smallest error of ours and of the others, and how far apart they are."""
    means, ranks = errors.mean(axis=1), errors.rank().mean(axis=1)
    shown = [f"{m} {means[m]:.4f} (mean rank {ranks[m]:.1f})" for m in errors.index]
    ours = [method for method in errors.index if method in EXPECTED]
    text = ", ".join(shown[: len(ours)])
    others = means.drop(ours)
    if others.empty:
        return text + "."
    best = others.idxmin()
    said = shown[errors.index.get_loc(best)]
    text += f", best of the {len(others)} others, in hindsight, {said}"
    for method in ours:
        found = against(errors, method).loc[best]
        text += f"; {method} against it {found['record']} tables"
        text += f", difference / standard error {found['far']}" if found["far"] else ""
    return text + "."


def figure(errors: dict[str, Any]) -> Any:
    """The axes of how much larger errors are than those of the expected SVM, None without results.

    Bands are standard errors over tables.
    """
    panels: dict[str, Any] = {}
    for title, found in errors.items():
        if OURS in found.index:
            gaps = (found - found.loc[OURS]).T.groupby("setting")
            mean, std = gaps.mean(), gaps.sem().fillna(0.0)
            shown = [method for method in SHOWN if method in mean]
            panels[title] = {x: pd.DataFrame({"mean": mean[x], "std": std[x]}) for x in shown}
    if not any(panels.values()):
        return None
    ylabels = {next(iter(panels)): f"error minus that of the {OURS}"}
    axes = base.plot_panels(panels, "", ylabels, {x: {OURS: 0.0} for x in panels})
    for ax in axes:
        ax.tick_params("x", rotation=30)
        ax.title.set_size("medium")
    return axes
