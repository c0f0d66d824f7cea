"""The study of missing values: errors of machines that expect predictions, and of others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, get_type_hints

import numpy as np
from sklearn.metrics import log_loss

from studies.base import Done, Results, cell_rng, check_names, chosen, collect, write_report
from studies.missing.methods import MASKED, METHODS, Fitted, Training, fit_method
from studies.missing.report import EXTRAS, report
from studies.missing.tables import (
    REGRESSION,
    TABLES,
    Table,
    available,
    draw_mask,
    hide,
    load_table,
)

HOLES = ("test", "both")
MECHANISMS = (("MCAR", 0.3), ("MCAR", 0.5), ("MAR", 0.5), ("MNAR", 0.3))
TRIALS = 5
COVERAGE = 0.9
FEWEST = 3
"""So many values of every variable are seen in training, however many are missing."""
QUICK_TABLES = ("diabetes", "wine", "iris")
QUICK_MECHANISMS = (("MCAR", 0.5), ("MNAR", 0.3))


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
    holes : {"test", "both"}
        Whether values are missing in test rows only, or in training rows as well.
    mechanism : {"MCAR", "MAR", "MNAR"}
    rate : float
    trial : int
    """

    table: str
    task: str
    holes: str
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
    order = cell_rng(settings.seed, table.name, trial).permutation(len(table.y))
    part = order[: n_train + n_test]
    return replace(table, X=table.X[part], y=table.y[part]), n_train


def cell_mask(table: Table, n_train: int, cell: Cell, settings: Settings) -> Any:
    """What is missing in a cell, (rows, variables): the same in all runs."""
    where = f"{cell.table}/{cell.mechanism} {cell.rate:g}"
    mask = draw_mask(cell_rng(settings.seed, where, cell.trial), table, cell.mechanism, cell.rate)
    if cell.holes == "test":
        mask[:n_train] = False
    few = (~mask[:n_train]).sum(axis=0) < FEWEST
    mask[:FEWEST, few] = False
    return mask


class Task(NamedTuple):
    """Rows with holes, scaled by what the training rows show.

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
    training = Training(X[:n], y[:n], table.task, table.owner, table.groups, trial)
    return Task(training, X[n:], y[n:], unit)


def evaluate(
    table: Table, cells: Sequence[tuple[Cell, Sequence[str]]], settings: Settings
) -> list[Any]:
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


def cells(
    tables: Sequence[Table],
    holes: Sequence[str],
    mechanisms: Sequence[tuple[str, float]],
    trials: int,
) -> Iterator[list[Cell]]:
    """All cells of a run, together where training rows are the same."""
    for trial, table, where in product(range(trials), tables, holes):
        found = [
            Cell(table.name, table.task, where, mechanism, rate, trial)
            for mechanism, rate in mechanisms
        ]
        yield from ([found] if where == "test" else [[cell] for cell in found])


def run(
    out: str | Path,
    folder: str | Path | None = None,
    *,
    tables: Sequence[str] | None = None,
    holes: Sequence[str] = HOLES,
    mechanisms: Sequence[tuple[str, float]] = MECHANISMS,
    methods: Sequence[str] = METHODS,
    trials: int = TRIALS,
    settings: Settings | None = None,
    jobs: int = 1,
    progress: bool = True,
) -> Results:
    """The results of all methods, written to `results.csv` in a folder as they are found.

    What is there already is not computed again, so an interrupted run goes on where it stopped.
    For `out` and `settings` see `Results`, for `jobs` and `progress` see `collect`.

    Parameters
    ----------
    folder : str or Path, optional
        The folder with the tables of the regression study.
    tables, holes, methods : sequences of str
        What to run, of `TABLES` (default: all that are there), `HOLES` and `METHODS`.
    mechanisms : sequence of pairs
        What is missing: "MCAR", "MAR" or "MNAR", and the rate.
    trials : int
        The number of splits of every table.
    """
    settings = Settings() if settings is None else settings
    names = available(folder) if tables is None else tables
    known = {"table": (names, TABLES), "place of holes": (holes, HOLES)}
    check_names({**known, "method": (methods, METHODS)}, jobs)
    loaded = {name: load_table(name, folder) for name in names}
    results = Results(out, KEYS, VALUES, asdict(settings))
    todo = []
    for group in cells(list(loaded.values()), holes, mechanisms, trials):
        usable = [m for m in methods if group[0].holes == "both" or m not in MASKED]
        left = [(cell, [m for m in usable if (*cell, m) not in results]) for cell in group]
        left = [(cell, wanted) for cell, wanted in left if wanted]
        if left:
            todo.append((loaded[group[0].table], left, settings))
    return collect(results, evaluate, todo, jobs, progress)


def reproduce_missing(
    out: Path, folder: Path | None = None, quick: bool = False, **asked: Any
) -> Done:
    """The study with its summary and figure, written to a folder (for what is asked, see `run`).

    A quick one takes one split of up to a hundred training rows of three tables.
    """
    few: dict[str, Any] = {
        "tables": QUICK_TABLES,
        "mechanisms": QUICK_MECHANISMS,
        "trials": 1,
        "settings": QUICK,
    }
    results = run(out, folder, **(few if quick else {}) | chosen(**asked))
    return write_report(results, *report(results.frame))
