"""The regression study: predictions of kernel machines for rows with missing values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.metrics import root_mean_squared_error

from studies.base import Done, cell_rng, check_jobs, check_names, chosen, collect, written
from studies.regression.baselines import Effort, Imputers, draw_mask, hide
from studies.regression.datasets import SOURCES, Dataset, Split, load
from studies.regression.machines import BitDensity, CategoryDensity, Machine, fit_machine
from studies.regression.report import (
    COMPLETE,
    RATES,
    Cell,
    Record,
    Records,
    figure,
    overview,
    paper_in_words,
    summary,
)

MISSING = ("bits", "features")
EVALUATED = ("valid", "test")


@dataclass(frozen=True)
class Settings:
    """What has to be the same for results to belong together.

    Attributes
    ----------
    rows : int or None
        Evaluate only so many of the first rows. None: all.
    seed : int
    splits : int
        Splits of the circuit over bits, after its Chow-Liu tree.
    check : bool
        Whether the data have to be those of the paper, bit for bit.
    effort : Effort
    """

    rows: int | None = None
    seed: int = 0
    splits: int = 10
    check: bool = True
    effort: Effort = field(default_factory=Effort)


QUICK = Settings(rows=100, effort=Effort(donors=200, learners=200, rounds=2))
"""Settings for a first look within a minute."""
QUICK_RATES = (0.1, 0.5, 0.9)


class Study:
    """A data set with its regressor, densities and imputers, each made when it is needed."""

    def __init__(self, dataset: Dataset, settings: Settings):
        self.dataset, self.settings = dataset, settings
        self.imputers = Imputers(dataset, settings.effort)

    @cached_property
    def machine(self) -> Machine:
        """The regressor."""
        return fit_machine(self.dataset)

    @cached_property
    def bits(self) -> BitDensity:
        """The density over bits."""
        return BitDensity(self.dataset, self.settings.splits)

    @cached_property
    def categories(self) -> CategoryDensity:
        """The density over features."""
        return CategoryDensity(self.dataset)

    def sampled(self, density: BitDensity | CategoryDensity, rows: Any, rng: Any) -> Any:
        """The mean prediction for several completions from a density."""
        drawn = density.samples(rows, self.settings.effort.completions, rng)
        return np.mean([self.machine.predict(bits) for bits in drawn], axis=0)


METHODS: dict[str, Callable[[Study, Any, Cell, Any], Any]] = {
    "expected, categories": lambda s, X, *_: s.categories.expected(s.machine, X),
    "expected, bits": lambda s, X, *_: s.bits.expected(s.machine, X),
    "map, categories": lambda s, X, *_: s.machine.predict(s.categories.most_probable(X)),
    "map, bits": lambda s, X, *_: s.machine.predict(s.bits.most_probable(X)),
    "sampled, categories": lambda s, X, _, rng: s.sampled(s.categories, X, rng),
    "sampled, bits": lambda s, X, _, rng: s.sampled(s.bits, X, rng),
    "mean": lambda s, X, *_: s.machine.predict(s.imputers.mean(X)),
    "median": lambda s, X, c, _: s.machine.predict(s.imputers.median(X, c.missing)),
    "mode": lambda s, X, c, _: s.machine.predict(s.imputers.mode(X, c.missing)),
    "masked mode": lambda s, X, *_: s.machine.predict(s.imputers.masked_mode(X)),
    "k-NN": lambda s, X, *_: s.machine.predict(s.imputers.neighbours(X)),
    "iterative": lambda s, X, c, _: s.machine.predict(s.imputers.iterative(X, c.missing, c.rate)),
    "training mean": lambda s, X, *_: np.full(len(X), s.dataset.train.y.mean()),
}
"""Predictions for rows with missing bits, by name."""


def evaluation_rows(dataset: Dataset, split: str, settings: Settings) -> Split:
    """The rows to evaluate: of the validation rows all but the first, as in the paper."""
    rows: Split = getattr(dataset, split)
    chosen = slice(1 if split == "valid" else 0, settings.rows)
    return Split(rows.codes[chosen], rows.bits[chosen], rows.y[chosen])


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


def evaluate(study: Study, cell: Cell, methods: Sequence[str]) -> list[Record]:
    """The errors of some methods in a cell, all for the same missing bits."""
    settings = study.settings
    split = evaluation_rows(study.dataset, cell.split, settings)
    if cell.rate == 0:
        error = root_mean_squared_error(split.y, study.machine.predict(split.bits))
        return [Record(cell, COMPLETE, error, 0.0, len(split.y))]
    rows = hide(split.bits, cell_mask(study.dataset, cell, settings))
    found = []
    for name in methods:
        rng, began = _rng(cell, settings, 1), perf_counter()
        error = root_mean_squared_error(split.y, METHODS[name](study, rows, cell, rng))
        found.append(Record(cell, name, error, round(perf_counter() - began, 3), len(split.y)))
    return found


def _work(
    cell: Cell, methods: Sequence[str], folder: str | None, settings: Settings
) -> list[Record]:
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
        for split in splits:
            yield Cell(name, split, "none", 0.0, 0)
        for kind, rate, split in product(missing, rates, splits):
            for trial in range(trials):
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
) -> Records:
    """The errors of all methods, written to `results.csv` in a folder as they are found.

    What is there already is not computed again, so an interrupted run goes on where it stopped.
    For `out` and `settings` see `ResultsFile`, for `jobs` and `progress` see `collect`.

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
    check_names(datasets, SOURCES, "data set")
    check_names(splits, EVALUATED, "split")
    check_names(missing, MISSING, "kind of missingness")
    check_names(methods, METHODS, "method")
    check_jobs(jobs)
    records = Records(out, asdict(settings))
    todo = []
    for cell in cells(datasets, splits, missing, rates, trials):
        wanted = (COMPLETE,) if cell.rate == 0 else tuple(methods)
        left = [name for name in wanted if (cell, name) not in records]
        if left:
            todo.append((cell, left))
    where = None if folder is None else str(folder)
    for name in dict.fromkeys(cell.dataset for cell, _ in todo):
        load(name, where, check=settings.check)  # problems with files show before the work
    work = [(cell, left, where, settings) for cell, left in todo]
    collect(records, _work, work, lambda found: found.cell.dataset, jobs, progress)
    return records


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
    records = run(out, folder, settings=settings, **few | chosen(**asked))
    comparable = check and settings.rows is None
    return written(
        records,
        summary(records, comparable),
        overview(records),
        lambda: figure(records, comparable),
        "Figure 2 of the paper, from our runs",
        paper_in_words(records, comparable),
    )
