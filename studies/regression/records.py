"""Results of the regression study: errors of predictions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from studies.base import ResultsFile

COMPLETE = "complete"
"""The method of predictions for rows without missing values."""


@dataclass(frozen=True, order=True)
class Cell:
    """One random mask: all methods are compared on it."""

    dataset: str
    split: str
    missing: str
    rate: float
    trial: int


@dataclass(frozen=True)
class Record:
    """The error of one method in one cell."""

    cell: Cell
    method: str
    rmse: float
    seconds: float
    rows: int


class Records(ResultsFile[Record]):
    """The results of the regression study in a folder, by (cell, method).

    Parameters
    ----------
    folder : str or Path
        Made if there is none; `results.csv` in it is read if it is there.
    settings : mapping
        Kept in `settings.json`. Results that were made with other settings are refused.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> cell = Cell("abalone", "valid", "bits", 0.5, 0)
    >>> with TemporaryDirectory() as folder:
    ...     Records(folder, {"seed": 0}).add([Record(cell, "mean", 2.5, 0.1, 583)])
    ...     (cell, "mean") in Records(folder, {"seed": 0})
    True
    """

    HEADER = ("dataset", "split", "missing", "rate", "trial", "method", "rmse", "seconds", "rows")

    def parse(self, row: list[str]) -> Record:
        """The result in a row of the file."""
        dataset, split, missing, rate, trial, method, rmse, seconds, rows = row
        cell = Cell(dataset, split, missing, float(rate), int(trial))
        return Record(cell, method, float(rmse), float(seconds), int(rows))

    def row(self, record: Record) -> Sequence[Any]:
        """A result as a row of the file."""
        found = (record.method, repr(record.rmse), f"{record.seconds:.3f}", record.rows)
        return (*astuple(record.cell), *found)

    def key(self, record: Record) -> Hashable:
        """The cell and the method."""
        return record.cell, record.method

    def place(self, record: Record) -> Hashable:
        """The data set, the split, what is missing, the method and the rate."""
        cell = record.cell
        return cell.dataset, cell.split, cell.missing, record.method, cell.rate

    def errors(self, dataset: str, split: str, missing: str, method: str, rate: float) -> Any:
        """The errors of all trials, shape (trials,)."""
        return self.column((dataset, split, missing, method, rate), "rmse")
