"""What is done about missing values today: fill them in, then predict."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from studies.regression.datasets import Dataset, one_hot

NEIGHBOURS = 10


@dataclass(frozen=True)
class Effort:
    """How much work goes into the baselines.

    Attributes
    ----------
    donors : int
        How many training rows k-nearest-neighbour imputation takes values from.
    learners : int
        How many training rows iterative imputation is fitted to,
    rounds : int
        and how often it goes over the columns.
    completions : int
        How many completions multiple imputation draws.
    """

    donors: int = 2000
    learners: int = 2000
    rounds: int = 10
    completions: int = 5


def hide(bits: Any, mask: Any) -> Any:
    """The rows with NaN where the mask says so."""
    return np.where(mask, np.nan, bits)


def fill(rows: Any, values: Any) -> Any:
    """The rows with values (one per column, or one per entry) in place of NaN.

    Examples
    --------
    >>> fill(np.array([[np.nan, 1.0]]), np.array([0.5, 0.0])).tolist()
    [[0.5, 1.0]]
    """
    return np.where(np.isnan(rows), values, rows)


def draw_mask(rng: Any, n_rows: int, sizes: tuple[int, ...], missing: str, rate: float) -> Any:
    """Which bits are missing: each by itself ("bits"), or all of a feature ("features").

    Examples
    --------
    >>> draw_mask(np.random.default_rng(1), 1, (2, 3), "features", 0.6).tolist()
    [[True, True, False, False, False]]
    """
    if missing == "bits":
        return rng.random((n_rows, sum(sizes))) < rate
    return np.repeat(rng.random((n_rows, len(sizes))) < rate, sizes, axis=1)


class Imputers:
    """Imputation with what the training rows say.

    Parameters
    ----------
    dataset : Dataset
    effort : Effort
    """

    def __init__(self, dataset: Dataset, effort: Effort):
        self.dataset, self.effort = dataset, effort
        self._iterative = lru_cache(maxsize=1)(self._fit_iterative)

    def mean(self, rows: Any) -> Any:
        """Every missing bit is the share of ones in its column."""
        return fill(rows, self.dataset.train.bits.mean(axis=0))

    def median(self, rows: Any, missing: str) -> Any:
        """Every missing bit is the median of its column; a missing feature, its median bin.

        Features whose categories have no order take the most frequent one.
        """
        if missing == "bits":
            return fill(rows, np.median(self.dataset.train.bits, axis=0))
        codes = self.dataset.train.codes
        n_discrete = len(self.dataset.source.discrete)
        middle = np.sort(codes, axis=0)[len(codes) // 2]
        middle[:n_discrete] = self._most_frequent()[:n_discrete]
        return fill(rows, one_hot(middle[None, :], self.dataset.sizes))

    def mode(self, rows: Any, missing: str) -> Any:
        """Every missing bit is the more frequent one; a missing feature, its mode."""
        if missing == "bits":
            return fill(rows, (self.dataset.train.bits.mean(axis=0) > 0.5).astype(np.float64))
        return fill(rows, one_hot(self._most_frequent()[None, :], self.dataset.sizes))

    def _most_frequent(self) -> Any:
        columns = zip(self.dataset.train.codes.T, self.dataset.sizes, strict=True)
        return np.array([np.bincount(codes, minlength=n).argmax() for codes, n in columns])

    def masked_mode(self, rows: Any) -> Any:
        """Every missing bit is the more frequent one among those observed in these rows.

        This is what the paper's experiments call median imputation.
        """
        seen = np.maximum((~np.isnan(rows)).sum(axis=0), 1)
        ones = np.nansum(rows, axis=0)
        return fill(rows, (ones > 0.5 * seen).astype(np.float64))

    @cached_property
    def _neighbours(self) -> Any:
        from sklearn.impute import KNNImputer

        donors = self.dataset.train.bits[: self.effort.donors]
        return KNNImputer(n_neighbors=min(NEIGHBOURS, len(donors))).fit(donors)

    def neighbours(self, rows: Any) -> Any:
        """Every missing bit is the mean of it in the nearest training rows."""
        return self._neighbours.transform(rows)

    def iterative(self, rows: Any, missing: str, rate: float) -> Any:
        """Every missing bit is predicted from the others, in rounds, by ridge regressions.

        The regressions are fitted to training rows from which as much was removed: from complete
        rows they would only learn that the bits of a feature sum to one.
        """
        return self._iterative(missing, rate).transform(rows)

    def _fit_iterative(self, missing: str, rate: float) -> Any:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer
        from sklearn.linear_model import Ridge

        bits = self.dataset.train.bits[: self.effort.learners]
        rng = np.random.default_rng([round(1000 * rate), len(missing)])
        mask = draw_mask(rng, len(bits), self.dataset.sizes, missing, rate)
        mask[:, mask.all(axis=0)] = False  # a column without any value would be dropped
        imputer = IterativeImputer(Ridge(alpha=1.0), max_iter=self.effort.rounds, random_state=0)
        with catch_warnings():
            simplefilter("ignore", ConvergenceWarning)
            return imputer.fit(hide(bits, mask))
