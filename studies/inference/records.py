"""Results of the inference study: errors of estimated marginals, ours and known ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

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
CURVE = ["model", "proposal", "collapsed", "masks", "rule"]
"""What a curve over numbers of samples is of."""


class InferenceRecords(ResultsFile):
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

    RECORD = Record

    def __init__(
        self,
        folder: str | Path,
        settings: Mapping[str, Any],
        files: Mapping[str, str] | None = None,
    ):
        self._curves: tuple[Any, dict[Any, Any]] = (None, {})
        super().__init__(folder, settings)
        if not files:
            return
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
        self._write_settings({**settings, FILES: known | dict(files)})

    def curve(self, key: Curve) -> Any:
        """The results of a curve, all trials and numbers of samples."""
        frame = self.frame
        if self._curves[0] is not frame:
            self._curves = frame, dict(iter(frame.groupby(CURVE)))
        return self._curves[1].get(key, frame[:0])

    def by_trial(self, key: Curve) -> Any:
        """The logs of the mean Hellinger distances, trials down and numbers of samples across."""
        return self.curve(key).pivot(index="trial", columns="n", values="error")

    def errors(self, key: Curve, n: int) -> Any:
        """The logs of the mean Hellinger distances of all trials, shape (trials,)."""
        found = self.curve(key)
        return found["error"][found["n"] == n]

    def counts(self, key: Curve) -> list[int]:
        """The numbers of samples for which there are results of a curve."""
        return sorted(self.curve(key)["n"].unique())


def _read(name: str, index: list[str]) -> Any:
    return pd.read_csv(Path(__file__).with_name(name), index_col=index, na_filter=False)


REFERENCE = _read("reference.csv", CURVE).rename(columns=int).sort_index()
"""Errors from an independent computation, to compare with, by curve and number of samples.

The paper shows curves but no numbers, and its figures smooth the weights without saying so. These
numbers come from another implementation of the same protocol, by exact computation: means of
five tries of the log of the mean Hellinger distance, on the grid of the paper ("ising") and the
network "asia".
"""
REFERENCE_WEIGHTS = _read("reference_weights.csv", CURVE[:3]).sort_index()
"""The same at 200 samples with masks per sample, means of ten tries, by rule for weights."""
COUNTS = tuple(REFERENCE.columns)
"""The numbers of samples of all known curves."""
TRIES = 5
"""How many tries the means of curves are of."""
