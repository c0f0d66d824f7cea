"""Results of the study of missing values."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from studies.base import ResultsFile


@dataclass(frozen=True, order=True)
class Cell:
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

    @property
    def setting(self) -> str:
        """What is missing, in short."""
        return f"{self.mechanism} {self.rate:g}"


@dataclass(frozen=True)
class Record:
    """What one method did in one cell.

    Attributes
    ----------
    cell : Cell
    method : str
    error : float
        The root of the mean squared error in standard deviations of the target, or the share of
        wrong labels.
    log_loss, coverage, width : float
        Of probabilities, and of 90 % intervals (widths in standard deviations of the target, the
        median over rows); NaN where there are none.
    fit_seconds, predict_seconds : float
        Without the search for parameters.
    """

    cell: Cell
    method: str
    error: float
    log_loss: float
    coverage: float
    width: float
    fit_seconds: float
    predict_seconds: float


class Records(ResultsFile[Record]):
    """The results of the study of missing values in a folder, by (cell, method).

    Parameters
    ----------
    folder : str or Path
        Made if there is none; `results.csv` in it is read if it is there.
    settings : mapping
        Kept in `settings.json`. Results that were made with other settings are refused.
    """

    HEADER = (
        *("table", "task", "holes", "mechanism", "rate", "trial", "method", "error", "log_loss"),
        *("coverage", "width", "fit_seconds", "predict_seconds"),
    )

    def parse(self, row: list[str]) -> Record:
        """The result in a row of the file."""
        table, task, holes, mechanism, rate, trial, method, *numbers = row
        error, loss, coverage, width, fit, predict = map(float, numbers)
        cell = Cell(table, task, holes, mechanism, float(rate), int(trial))
        return Record(cell, method, error, loss, coverage, width, fit, predict)

    def row(self, record: Record) -> Sequence[Any]:
        """A result as a row of the file."""
        exact = (record.error, record.log_loss, record.coverage, record.width)
        seconds = (record.fit_seconds, record.predict_seconds)
        numbers = (*map(repr, exact), *(f"{x:.4f}" for x in seconds))
        return (*astuple(record.cell), record.method, *numbers)

    def key(self, record: Record) -> Hashable:
        """The cell and the method."""
        return record.cell, record.method

    def place(self, record: Record) -> Hashable:
        """The table, where holes are and which, and the method."""
        return record.cell.table, record.cell.holes, record.cell.setting, record.method
