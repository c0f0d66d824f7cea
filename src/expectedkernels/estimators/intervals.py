"""Intervals, quantiles and draws of targets, for rows with and without missing values.

The error of a machine at a row that it was not fitted to, divided by

    scale = sqrt(spread of f over what is missing ^ 2 + noise ^ 2),

is a score. Its distribution over rows that were held out, and that lack about as many values, is
the one that is expected of new rows (conformal prediction); the scale makes it almost the same
everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from expectedkernels.arrays import Array, RngLike, RowsLike, as_generator, require_memory
from expectedkernels.checks import check_real
from expectedkernels.circuits.choices import check_samples
from expectedkernels.errors import DataError
from expectedkernels.estimators.calibration import (
    CrossValidated,
    HeldOut,
    completed,
    moments,
    n_missing,
    table,
)

ENOUGH = 200
"""So many scores are enough; where there are fewer, rows that lack more or less values count."""
SMALLEST_SHARE = 0.01
"""The variance of the noise is at least this share of the mean squared error."""


@dataclass(frozen=True, eq=False)
class Scores:
    """Errors of a machine at rows that it was not fitted to, divided by their scale.

    Attributes
    ----------
    noise : array of shape (outputs,)
    signed : array of shape (answers, outputs)
    n_missing : int array of shape (answers,)
    as_is : bool array of shape (answers,)
    """

    noise: Any
    signed: Any
    n_missing: Any
    as_is: Any

    @classmethod
    def of(cls, held_out: HeldOut) -> Scores:
        """The scores of what machines say of rows that they were not fitted to."""
        error, known = table(held_out.target) - held_out.mean, held_out.as_is
        square = (error[known] ** 2).mean(axis=0)
        rest = square - (held_out.spread[known] ** 2).mean(axis=0)
        noise = np.sqrt(np.maximum(rest, SMALLEST_SHARE * square))
        noise = np.where(noise > 0, noise, np.finfo(np.float64).tiny)
        signed = error / np.hypot(held_out.spread, noise)
        return cls(noise, signed, held_out.n_missing, known)

    def near(self, n_missing: int) -> Any:
        """The scores of rows that lack so many values, or about so many if they are few."""
        away = np.abs(self.n_missing - n_missing)
        enough = np.sort(away)[min(ENOUGH, len(away)) - 1]
        return self.signed[away <= enough]

    def quantiles(self, counts: Any, levels: Any, absolute: bool = False) -> Any:
        """The quantiles of scores for rows by what they lack, (rows, outputs, levels)."""
        answer = np.empty((len(counts), self.signed.shape[1], len(levels)))
        for count in np.unique(counts):
            scores = self.near(int(count))
            answer[counts == count] = cautious_quantiles(
                np.abs(scores) if absolute else scores, levels
            )
        return answer


def cautious_quantiles(scores: Any, levels: Any) -> Any:
    """The quantiles of one more draw, away from the median, (columns, levels).

    Of n + 1 exchangeable numbers, the last lies at or below the k-th smallest of the others with
    probability at least k / (n + 1). Levels that n numbers do not reach are infinite.

    Examples
    --------
    >>> cautious_quantiles(np.arange(9.0)[:, None], [0.05, 0.1, 0.5, 0.9]).tolist()
    [[-inf, 0.0, 4.0, 8.0]]
    """
    n, levels = len(scores), np.asarray(levels, dtype=np.float64)
    place = (n + 1) * levels
    steps = np.where(levels < 0.5, np.floor(place + 1e-9), np.ceil(place - 1e-9)).astype(np.intp)
    ends = np.full((1, scores.shape[1]), np.inf)
    ordered = np.concatenate([-ends, np.sort(scores, axis=0), ends])
    return ordered[np.clip(steps, 0, n + 1)].T


class PredictionIntervals(CrossValidated):
    """The part of a regressor that says where targets will be, not only functions of them.

    Notes
    -----
    What is learned for it comes from rows that are held out: at first use, the machine is fitted
    again five times, without each fifth of its rows, and asked about up to 400 of them, as they are
    and with values hidden at random (unless a mask kernel says that holes are not random). The rows
    are kept for that. Weights of rows are used in these fits only: intervals cover rows, not
    weights.
    """

    def predict_interval(self, X: RowsLike, coverage: float = 0.9) -> tuple[Array, Array]:
        """The ends of intervals that hold the targets of a given share of rows like these.

        They are symmetric around the prediction, with half-widths
        ``q * sqrt(spread**2 + noise**2)``: `spread` is how far f spreads over what is missing (and
        the deviation of a process), `noise` what is left of errors where nothing more is missing,
        and `q` a quantile of errors of rows that were held out and lack as many values.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            NaN is missing.
        coverage : float
            The share of rows, between 0 and 1.

        Returns
        -------
        low, high : arrays of the shape of predictions
            Infinite if the rows in fit are too few for the coverage.

        Raises
        ------
        DataError
            If `coverage` is not between 0 and 1, or if there was one row in fit.

        Notes
        -----
        The coverage is that of all rows that lack so many values, if these are missing completely
        at random; not of every single row. The first call fits the machine five times more; spreads
        come from 64 draws of what is missing, with a fixed seed. The same rows have the same
        intervals; beside other rows, those of a row with holes vary by some percent of their width.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 2))
        >>> y = X.sum(axis=1) + 0.1 * rng.normal(size=200)
        >>> model = ek.ExpectedKernelRidge(alpha=0.1).fit(X, y)
        >>> low, high = model.predict_interval([[0.5, 0.5], [0.5, np.nan]])
        >>> ((high - low) > 1.0).tolist()
        [False, True]
        """
        check_real("predict_interval", "coverage", coverage, 0.0, 1.0, "()", DataError)
        mean, scale, counts = self._located(X)
        half = scale * self._scores.quantiles(counts, [coverage], absolute=True)[..., 0]
        return self._shaped(mean - half), self._shaped(mean + half)

    def predict_quantiles(self, X: RowsLike, quantiles: ArrayLike = (0.05, 0.5, 0.95)) -> Array:
        """The quantiles of the targets of rows like these.

        As `predict_interval`, but by errors with their signs, so that both sides may differ.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            NaN is missing.
        quantiles : array of shape (quantiles,)
            Levels, between 0 and 1.

        Returns
        -------
        array of shape (rows, quantiles), or (rows, targets, quantiles)
            Infinite where the rows in fit are too few for a level.

        Raises
        ------
        DataError
            If levels are not between 0 and 1, or if there was one row in fit.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(100, 2))
        >>> model = ek.ExpectedSVR().fit(X, X.sum(axis=1))
        >>> found = model.predict_quantiles([[0.5, np.nan]], [0.1, 0.5, 0.9])
        >>> found.shape, bool((np.diff(found) > 0).all())
        ((1, 3), True)
        """
        levels = _levels(quantiles)
        mean, scale, counts = self._located(X)
        found = self._scores.quantiles(counts, levels)
        return self._shaped(mean[..., None] + scale[..., None] * found)

    def sample_predictions(self, X: RowsLike, n: int = 100, rng: RngLike = None) -> Array:
        """Draws from the distribution of the targets of rows: their histogram, not a summary.

        What is missing is drawn from the density given what is observed, and to the prediction for
        the completed row an error is added that was made at a row that was held out.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            NaN is missing.
        n : int
            The number of draws for every row.
        rng : int, Generator or None

        Returns
        -------
        array of shape (rows, n), or (rows, targets, n)

        Raises
        ------
        DataError
            If `n` is not a non-negative int, or if there was one row in fit.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(100, 2))
        >>> model = ek.ExpectedSVR().fit(X, X.sum(axis=1))
        >>> model.sample_predictions([[0.5, np.nan], [0.5, 0.1]], 10, rng=0).shape
        (2, 10)
        """
        check_samples(n)
        generator, Z, scores = as_generator(rng), self._read(X), self._scores
        outputs, pool = len(scores.noise), scores.signed[scores.as_is]
        needed = 8.0 * len(Z) * outputs * n
        require_memory(needed, f"An array of {n} samples for every row", "Draw fewer of them.")
        answer = np.empty((len(Z), outputs, n))
        every = np.arange(len(Z) if n else 0)
        for values, deviations, rows in completed(self, Z, every, n, generator):
            error = pool[generator.integers(len(pool), size=values.shape[:2])]
            drawn = values + error * np.hypot(deviations, scores.noise)
            answer[rows] = np.moveaxis(drawn, 0, 2)
        return self._shaped(answer)

    def _calibrated(self, held_out: HeldOut) -> Scores:
        return Scores.of(held_out)

    @property
    def _scores(self) -> Scores:
        scores: Scores = self._training.learned
        return scores

    def _located(self, X: Any) -> tuple[Any, Any, Any]:
        """Predictions and scales, (rows, outputs), and how many variables rows lack."""
        Z = self._read(X)
        mean, spread = moments(self, Z, self._training.generator())
        return mean, np.hypot(spread, self._scores.noise), n_missing(self.density_.variables, Z)

    def _shaped(self, x: Any) -> Any:
        return x[:, 0] if self._machine.flat else x


def _levels(quantiles: Any) -> Any:
    try:
        levels = np.asarray(quantiles, dtype=np.float64)
    except (TypeError, ValueError):
        levels = np.empty(())
    if levels.ndim != 1 or not ((levels > 0.0) & (levels < 1.0)).all():
        raise DataError(
            "Quantiles must be a list of levels between 0 and 1, such as [0.05, 0.5, 0.95]. "
            f"Got {quantiles!r} instead."
        )
    return levels
