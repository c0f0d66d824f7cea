"""Results of the inference study: errors of estimated marginals."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from expectedkernels.checks import DataError
from studies.base import FILES, ResultsFile


@dataclass(frozen=True, order=True)
class Cell:
    """One set of samples: all rules for weights are compared on it.

    Attributes
    ----------
    model : str
    proposal : str
        Where the samples come from: "gibbs", "uniform", "sticky" or "cis".
    collapsed : float
        The share of the variables that are summed out.
    masks : str
        How they are chosen: "none", "per sample" or "fixed"; "online" for CIS.
    trial : int
    """

    model: str
    proposal: str
    collapsed: float
    masks: str
    trial: int


@dataclass(frozen=True)
class Record:
    """The error of the first n samples of a cell with the weights of one rule."""

    cell: Cell
    rule: str
    n: int
    error: float
    ess: float
    discrepancy: float


Curve = tuple[str, str, float, str, str]
"""Model, proposal, collapsed share, masks and rule."""


class InferenceRecords(ResultsFile[Record]):
    """The results of the inference study in a folder, by (cell, rule, n).

    Parameters
    ----------
    folder : str or Path
        Made if there is none; `results.csv` in it is read if it is there.
    settings : mapping
        Kept in `settings.json`. Results that were made with other settings are refused.
    files : mapping, optional
        From the names of models to the SHA-256 sums of their files, kept with the settings. Results
        that were made with another file of the same name are refused.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> cell = Cell("asia", "gibbs", 0.25, "fixed", 0)
    >>> with TemporaryDirectory() as folder:
    ...     records = InferenceRecords(folder, {})
    ...     records.add([Record(cell, "raw", 10, -2.5, 4.0, 0.1)])
    ...     records.errors(("asia", "gibbs", 0.25, "fixed", "raw"), 10).tolist()
    [-2.5]
    """

    HEADER = (
        *("model", "proposal", "collapsed", "masks", "trial"),
        *("rule", "n", "error", "ess", "discrepancy"),
    )

    def __init__(
        self,
        folder: str | Path,
        settings: Mapping[str, Any],
        files: Mapping[str, str] | None = None,
    ):
        self._counts: dict[Curve, set[int]] = {}
        super().__init__(folder, settings)
        if files:
            self._check_files(dict(settings), files)

    def _check_files(self, settings: dict[str, Any], files: Mapping[str, str]) -> None:
        path = self.folder / "settings.json"
        known = json.loads(path.read_text(encoding="utf-8")).get(FILES, {})
        # What was made before sums were kept may be of any file.
        before = dict.fromkeys(self.values("model"), "unknown") | known
        for name, digest in files.items():
            if before.get(name, digest) != digest:
                raise DataError(
                    f"The results of {name} in {self.folder} were made with another file of this "
                    f"name: its SHA-256 sum was {before[name]}, and is {digest} now. Choose "
                    "another folder with --out, or another name for the file."
                )
        self._write_settings(settings | {FILES: known | dict(files)})

    def parse(self, row: list[str]) -> Record:
        """The result in a row of the file."""
        model, proposal, collapsed, masks, trial, rule, n, *numbers = row
        cell = Cell(model, proposal, float(collapsed), masks, int(trial))
        error, ess, discrepancy = map(float, numbers)
        return Record(cell, rule, int(n), error, ess, discrepancy)

    def row(self, record: Record) -> Sequence[Any]:
        """A result as a row of the file."""
        numbers = f"{record.error:.9g}", f"{record.ess:.6g}", f"{record.discrepancy:.6g}"
        return (*astuple(record.cell), record.rule, record.n, *numbers)

    def key(self, record: Record) -> Hashable:
        """The cell, the rule and the number of samples."""
        return record.cell, record.rule, record.n

    def _note(self, record: Record) -> None:
        super()._note(record)
        curve, n = self.place(record)
        self._counts.setdefault(curve, set()).add(n)

    def place(self, record: Record) -> tuple[Curve, int]:
        """The curve, and the number of samples on it."""
        cell = record.cell
        return (cell.model, cell.proposal, cell.collapsed, cell.masks, record.rule), record.n

    def errors(self, curve: Curve, n: int) -> Any:
        """The logs of the mean Hellinger distances of all trials, shape (trials,)."""
        return self.column((curve, n), "error")

    def sizes(self, curve: Curve, n: int) -> Any:
        """The effective sample sizes of all trials, shape (trials,)."""
        return self.column((curve, n), "ess")

    def by_trial(self, curve: Curve, n: int, trials: Sequence[int]) -> Any:
        """The errors of some trials of a curve, in their order."""
        found = self.trials_at((curve, n))
        return np.array([found[trial].error for trial in trials])

    def counts(self, curve: Curve) -> list[int]:
        """The numbers of samples for which there are results of a curve."""
        return sorted(self._counts.get(curve, ()))

    def trials(self, curve: Curve) -> list[int]:
        """The trials of which there are results of a curve at all its numbers of samples."""
        found = [set(self.trials_at((curve, n))) for n in self.counts(curve)]
        return sorted(set.intersection(*found)) if found else []
