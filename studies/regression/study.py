"""The regression study: predictions of kernel machines for rows with missing values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, get_type_hints

from sklearn.metrics import root_mean_squared_error

from studies.base import Done, Results, cell_rng, check_names, chosen, collect, write_report
from studies.regression.datasets import SOURCES, Dataset, Split, load
from studies.regression.methods import METHODS, Effort, Settings, Study, draw_mask, hide
from studies.regression.report import COMPLETE, RATES, report

MISSING = ("bits", "features")
EVALUATED = ("valid", "test")
QUICK = Settings(rows=100, effort=Effort(donors=200, learners=200, rounds=2))
"""Settings for a first look within a minute."""
QUICK_RATES = (0.1, 0.5, 0.9)


class Cell(NamedTuple):
    """One random mask: all methods are compared on it."""

    dataset: str
    split: str
    missing: str
    rate: float
    trial: int


KEYS = get_type_hints(Cell) | {"method": str}
VALUES = {"rmse": float, "seconds": float, "rows": int}


def evaluation_rows(dataset: Dataset, split: str, settings: Settings) -> Split:
    """The rows to evaluate: of the validation rows all but the first, as in the paper."""
    rows: Split = getattr(dataset, split)
    part = slice(1 if split == "valid" else 0, settings.rows)
    return Split(rows.codes[part], rows.bits[part], rows.y[part])


def cell_mask(dataset: Dataset, cell: Cell, settings: Settings) -> Any:
    """Which bits are missing in a cell: the same for all methods, runs and numbers of rows."""
    n_rows = len(evaluation_rows(dataset, cell.split, Settings()).y)
    mask = draw_mask(_rng(cell, settings, 0), n_rows, dataset.sizes, cell.missing, cell.rate)
    return mask[: len(evaluation_rows(dataset, cell.split, settings).y)]


def _rng(cell: Cell, settings: Settings, stream: int) -> Any:
    where = f"{cell.dataset}/{cell.split}/{cell.missing}"
    return cell_rng(settings.seed, where, round(1000 * cell.rate), cell.trial, stream)


@lru_cache(maxsize=1)
def _study(name: str, folder: str | None, settings: Settings) -> Study:
    """The study of a data set; kept, as the next cell is most likely of the same."""
    return Study(load(name, folder, check=settings.check), settings)


def evaluate(study: Study, cell: Cell, methods: Sequence[str]) -> list[Any]:
    """The errors of some methods in a cell, all for the same missing bits."""
    split = evaluation_rows(study.dataset, cell.split, study.settings)
    if cell.rate == 0:
        error = root_mean_squared_error(split.y, study.machine.predict(split.bits))
        return [(*cell, COMPLETE, error, 0.0, len(split.y))]
    rows = hide(split.bits, cell_mask(study.dataset, cell, study.settings))
    found = []
    for name in methods:
        rng, began = _rng(cell, study.settings, 1), perf_counter()
        error = root_mean_squared_error(split.y, METHODS[name](study, rows, cell, rng))
        found.append((*cell, name, error, round(perf_counter() - began, 3), len(split.y)))
    return found


def _work(cell: Cell, methods: Sequence[str], folder: str | None, settings: Settings) -> list[Any]:
    return evaluate(_study(cell.dataset, folder, settings), cell, methods)


def cells(
    datasets: Sequence[str],
    splits: Sequence[str],
    missing: Sequence[str],
    rates: Sequence[float],
    trials: int,
) -> Iterator[Cell]:
    """All cells of a run, those that share fitted models next to each other."""
    for name in datasets:
        yield from (Cell(name, split, "none", 0.0, 0) for split in splits)
        for kind, rate, split, trial in product(missing, rates, splits, range(trials)):
            yield Cell(name, split, kind, rate, trial)


def run(
    out: str | Path,
    folder: str | Path | None = None,
    *,
    datasets: Sequence[str] = tuple(SOURCES),
    splits: Sequence[str] = EVALUATED,
    missing: Sequence[str] = MISSING,
    rates: Sequence[float] = RATES,
    trials: int = 5,
    methods: Sequence[str] = tuple(METHODS),
    settings: Settings | None = None,
    jobs: int = 1,
    progress: bool = True,
) -> Results:
    """The errors of all methods, written to `results.csv` in a folder as they are found.

    What is there already is not computed again, so an interrupted run goes on where it stopped.
    For `out` and `settings` see `Results`, for `jobs` and `progress` see `collect`.

    Parameters
    ----------
    folder : str or Path, optional
        The folder with the raw data, see `data_folder`.
    datasets, splits, missing, methods : sequences of str
        What to run, of `SOURCES`, `EVALUATED`, `MISSING` and `METHODS`.
    rates : sequence of float
        The probabilities that a bit (or a feature) is missing.
    trials : int
        The number of random masks for every rate.
    """
    settings = Settings() if settings is None else settings
    known = {"data set": (datasets, SOURCES), "split": (splits, EVALUATED)}
    kinds = {"kind of missingness": (missing, MISSING), "method": (methods, METHODS)}
    check_names({**known, **kinds}, jobs)
    results = Results(out, KEYS, VALUES, asdict(settings))
    where = None if folder is None else str(folder)
    todo = []
    for cell in cells(datasets, splits, missing, rates, trials):
        wanted = (COMPLETE,) if cell.rate == 0 else methods
        left = [name for name in wanted if (*cell, name) not in results]
        if left:
            todo.append((cell, left, where, settings))
    for name in dict.fromkeys(cell.dataset for cell, *_ in todo):
        load(name, where, check=settings.check)  # problems with files show before the work
    return collect(results, _work, todo, jobs, progress)


def reproduce_regression(
    out: Path, folder: Path | None = None, quick: bool = False, check: bool = True, **asked: Any
) -> Done:
    """The study with its page and figure, written to a folder (for what is asked, see `run`).

    A quick one evaluates a hundred validation rows at three rates.
    """
    settings = replace(QUICK if quick else Settings(), check=check)
    few: dict[str, Any] = (
        {"splits": EVALUATED[:1], "rates": QUICK_RATES, "trials": 2} if quick else {}
    )
    results = run(out, folder, settings=settings, **few | chosen(**asked))
    return write_report(results, *report(results, check and settings.rows is None))
