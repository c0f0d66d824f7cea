"""The study of missing values: errors of machines that expect predictions, and of others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.metrics import log_loss

from studies.base import Done, cell_rng, check_jobs, check_names, chosen, collect, written
from studies.missing.masks import draw_mask, hide
from studies.missing.methods import MASKED, METHODS, Fitted, Training, fit_method
from studies.missing.report import OURS, Cell, Record, Records, figure, overview, summary
from studies.missing.tables import REGRESSION, TABLES, Table, available, load_table

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


@dataclass(frozen=True, eq=False)
class Rows:
    """A split of a table.

    Attributes
    ----------
    table : Table
        The rows of the split, those for training first.
    n_train : int
    """

    table: Table
    n_train: int


def split_rows(table: Table, trial: int, settings: Settings) -> Rows:
    """A random split of a table, the same for all methods and masks.

    Examples
    --------
    >>> rows = split_rows(load_table("iris"), 0, Settings())
    >>> rows.n_train, len(rows.table.y)
    (100, 150)
    """
    n_train = min(settings.n_train, 2 * len(table.y) // 3)
    n_test = min(settings.n_test, len(table.y) - n_train)
    order = cell_rng(settings.seed, table.name, trial).permutation(len(table.y))
    chosen = order[: n_train + n_test]
    part = Table(table.name, table.task, table.X[chosen], table.variables, table.y[chosen])
    return Rows(part, n_train)


def cell_mask(rows: Rows, cell: Cell, settings: Settings) -> Any:
    """What is missing in a cell, (rows, variables): the same in all runs."""
    rng = cell_rng(settings.seed, f"{cell.table}/{cell.setting}", cell.trial)
    mask = draw_mask(rng, rows.table, cell.mechanism, cell.rate)
    if cell.holes == "test":
        mask[: rows.n_train] = False
    few = (~mask[: rows.n_train]).sum(axis=0) < FEWEST
    mask[:FEWEST, few] = False
    return mask


@dataclass(frozen=True, eq=False)
class Task:
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


def make_task(rows: Rows, mask: Any, trial: int) -> Task:
    """What methods get to see of a split.

    Examples
    --------
    >>> rows = split_rows(load_table("iris"), 0, Settings())
    >>> task = make_task(rows, np.zeros((150, 4), dtype=bool), 0)
    >>> bool(np.abs(task.training.X.mean(axis=0)).max() < 1e-12)
    True
    """
    table, n = rows.table, rows.n_train
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
) -> list[Record]:
    """The results of some methods in cells that have the same training rows."""
    rows = split_rows(table, cells[0][0].trial, settings)
    training, found = None, []
    fitted: dict[str, Fitted] = {}
    for cell, methods in cells:
        task = make_task(rows, cell_mask(rows, cell, settings), cell.trial)
        training = training or task.training
        for name in methods:
            if name not in fitted:
                fitted[name] = fit_method(name, training)
            found.append(_record(cell, name, fitted[name], task))
    return found


def _record(cell: Cell, name: str, method: Fitted, task: Task) -> Record:
    began = perf_counter()
    answer = method.predict(task.X_test)
    seconds = perf_counter() - began
    y, loss, coverage, width = task.y_test, np.nan, np.nan, np.nan
    if cell.task == REGRESSION:
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
    return Record(cell, name, *map(float, (error, loss, coverage, width, *times)))


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
) -> Records:
    """The results of all methods, written to `results.csv` in a folder as they are found.

    What is there already is not computed again, so an interrupted run goes on where it stopped.
    For `out` and `settings` see `ResultsFile`, for `jobs` and `progress` see `collect`.

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
    check_names(names, TABLES, "table")
    check_names(holes, HOLES, "place of holes")
    check_names(methods, METHODS, "method")
    check_jobs(jobs)
    loaded = {name: load_table(name, folder) for name in names}
    records = Records(out, asdict(settings))
    todo = []
    for group in cells(list(loaded.values()), holes, mechanisms, trials):
        usable = [m for m in methods if group[0].holes == "both" or m not in MASKED]
        left = [(cell, [m for m in usable if (cell, m) not in records]) for cell in group]
        left = [(cell, wanted) for cell, wanted in left if wanted]
        if left:
            todo.append((loaded[group[0].table], left, settings))
    collect(records, evaluate, todo, lambda found: found.cell.table, jobs, progress)
    return records


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
    records = run(out, folder, **(few if quick else {}) | chosen(**asked))
    return written(
        records,
        summary(records),
        overview(records),
        lambda: figure(records),
        "Errors beside those of the expected machine",
        f"How much larger errors are than those of the {OURS}, with standard errors over tables.",
    )
