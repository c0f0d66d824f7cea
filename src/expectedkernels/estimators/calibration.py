"""Held-out predictions, and prediction intervals calibrated by them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state

from expectedkernels.arrays import Array, RngLike, RowsLike, as_generator, require_memory, spans
from expectedkernels.checks import DataError, check_real
from expectedkernels.circuits.queries import check_samples
from expectedkernels.estimators.base import KernelMachine
from expectedkernels.estimators.kernel_expansion import expect, masks_of, table

FOLDS = 5
MOST_ROWS = 400
"""How many rows are asked about, at most."""
COPIES = 4
"""How often each of them is asked about with values hidden, besides as it is."""
DRAWS = 64
"""How many completions of a row tell how far a function spreads over what is missing."""
AT_ONCE = 2**15
"""How many completions there are at once, about."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What machines say of rows that they were not fitted to.

    Attributes
    ----------
    target : array of shape (answers,) or (answers, targets)
    mean, spread : arrays of shape (answers, outputs)
        Expected values, and how far they spread over what is missing.
    n_missing : int array of shape (answers,)
        How many variables are missing.
    as_is : bool array of shape (answers,)
        Whether nothing was hidden.
    """

    target: Any
    mean: Any
    spread: Any
    n_missing: Any
    as_is: Any


@dataclass(eq=False)
class Training:
    """The rows that a machine was fitted to, and what is learned from holding some of them out.

    Attributes
    ----------
    machine : KernelMachine
        Not fitted.
    columns : Columns
    Z : array of shape (rows, columns)
    y : array
    sample_weight : array of shape (rows,) or None
    """

    machine: Any
    columns: Any
    Z: Any
    y: Any
    sample_weight: Any

    @cached_property
    def seed(self) -> int:
        """What starts every draw: the same answers for the same machine."""
        state = self.machine.random_state
        return 0 if state is None else int(check_random_state(state).randint(2**31 - 1))

    def generator(self) -> np.random.Generator:
        """A new generator of random numbers."""
        return np.random.default_rng(self.seed)

    @cached_property
    def held_out(self) -> HeldOut:
        """What machines that were fitted to other rows say of some."""
        rng = self.generator()
        parts = [self._part(rest, rows, rng) for rest, rows in self.folds(rng)]
        return HeldOut(*(np.concatenate(each) for each in zip(*parts, strict=True)))

    @cached_property
    def learned(self) -> Any:
        """What the machine learns from that."""
        return self.machine._calibrated(self.held_out)

    def folds(self, rng: Any) -> list[tuple[Any, Any]]:
        """For every fold a mask of the rows to fit to, and the numbers of the rows to ask about.

        Stratified: of every class there are rows of positive weight to fit to in all folds, and at
        least two to ask about. Rows of weight zero are not asked about.
        """
        n, weights = len(self.Z), self.sample_weight
        labels = self.y if is_classifier(self.machine) else np.zeros(n)
        zero = np.zeros(n, dtype=np.bool_) if weights is None else weights == 0
        _, code, counts = np.unique(labels, return_inverse=True, return_counts=True)
        positive = np.bincount(code, ~zero)
        fewest = int(positive.min())
        if fewest < 2:
            what = "rows of every class" if is_classifier(self.machine) else "rows"
            raise DataError(
                f"At least 2 {what} are needed, so that some can be held out to see how far "
                f"predictions are off. Got {fewest}. Fit to more rows."
            )
        order = rng.permutation(n)
        order = order[np.lexsort((zero[order], code[order]))]
        fold, rank = np.empty(n, dtype=np.intp), np.empty(n, dtype=np.intp)
        fold[order] = np.arange(n) % min(FOLDS, n)
        rank[order] = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
        most = np.maximum(2, MOST_ROWS * positive / positive.sum())
        asked = ~zero & (rank < most[code])
        return [(fold != k, np.flatnonzero(asked & (fold == k))) for k in np.unique(fold[asked])]

    def without(self, rest: Any, rows: Any) -> tuple[Any, Any]:
        """The machine fitted to the rest of the rows, and some rows as it reads them."""
        machine, weights = clone(self.machine), self.sample_weight
        machine.columns_ = self.columns
        with warnings.catch_warnings():
            # of what the whole machine has warned of, and of categories that others lack
            warnings.simplefilter("ignore")
            machine._learn(self.Z[rest], self.y[rest], None if weights is None else weights[rest])
            return machine, machine.columns_.standardise(machine._completed(self.Z[rows]))

    def _part(self, rest: Any, rows: Any, rng: Any) -> tuple[Any, ...]:
        machine, Z = self.without(rest, rows)
        variables = machine.density_.variables
        # masks that tell something are not those of values that are hidden at random
        n = 0 if machine.mask_rate_ and machine.fit_missing_ else COPIES
        copies = [Z] + [hidden(variables, Z, k, COPIES, rng) for k in range(n)]
        Z = machine._with_masks(np.concatenate(copies))
        mean, spread = moments(machine, Z, rng)
        target = np.concatenate([self.y[rows]] * len(copies))
        as_is = np.arange(len(Z)) < len(rows)
        return target, mean, spread, n_missing(variables, Z), as_is


def n_missing(variables: Any, Z: Any) -> Any:
    """How many variables every row lacks."""
    return masks_of(variables, Z).sum(axis=1)


def hidden(variables: Any, Z: Any, part: int, parts: int, rng: Any) -> Any:
    """Rows with values hidden at random: a number of variables out of one of several parts.

    Over all parts every number is equally likely, from none to all; a row that lacks more
    variables than that stays as it is.
    """
    Z, missing = Z.copy(), masks_of(variables, Z)
    share = (part + rng.random(len(Z))) / parts
    wanted = np.floor(share * (len(variables) + 1)).astype(np.intp)
    order = np.where(missing, -1.0, rng.random(missing.shape)).argsort(axis=1).argsort(axis=1)
    hide = ~missing & (order < wanted[:, None])
    for i, v in enumerate(variables):
        Z[np.ix_(hide[:, i], v.columns)] = np.nan
    return Z


def moments(machine: Any, Z: Any, rng: Any) -> tuple[Any, Any]:
    """Exact means of a machine's outputs, and spreads over completions that are drawn.

    The exact spread takes all pairs of support vectors for every pattern of missing values; a
    hundred times as long as the mean. Both are of shape (rows, outputs).
    """
    own = machine._machine.prior is not None
    mean = table(machine._expected(Z, False))
    variance = np.zeros(mean.shape)
    gaps = np.isnan(Z).any(axis=1)
    if own and not gaps.all():
        variance[~gaps] = table(machine._expected(Z[~gaps], True)[1]) ** 2
    for values, deviations, rows in completed(machine, Z, np.flatnonzero(gaps), DRAWS, rng):
        variance[rows] = ((values - mean[rows]) ** 2 + deviations**2).mean(axis=0)
    return mean, np.sqrt(variance)


def completed(machine: Any, Z: Any, index: Any, n: int, rng: Any) -> Any:
    """What a machine says of drawn completions of rows, part by part.

    Yields values and deviations, (n, rows, outputs), of the machine itself at completions, and the
    numbers of the rows; deviations are zero but for processes.
    """
    for part in spans(len(index), max(1, AT_ONCE // max(1, n))):
        rows, d = index[part], len(machine._shift)
        drawn = machine.density_.draws(Z[rows, :d], n, rng).reshape(n * len(rows), -1)
        drawn = np.column_stack([drawn, np.tile(Z[rows, d:], (n, 1))])
        has_own = machine._machine.prior is not None
        found = expect(machine._machine, machine.density_, drawn, machine._resources, has_own)
        values, deviations = map(table, found if has_own else (found, np.zeros_like(found)))
        shape = (n, len(rows), values.shape[1])
        yield values.reshape(shape), deviations.reshape(shape), rows


class CrossValidated(KernelMachine):
    """A kernel machine that keeps the rows it was fitted to, to hold some of them out later."""

    def _learn(self, Z: Any, y: Any, sample_weight: Any) -> Any:
        super()._learn(Z, y, sample_weight)
        # parameters that are changed after fit do not count
        kept = {"mask_kernel": self.mask_rate_ or None, **self._kept_parameters()}
        again = type(self)(**(self.get_params(deep=False) | kept))
        self._training = Training(again, self.columns_, np.array(Z), np.array(y), sample_weight)
        return self

    def _calibrated(self, held_out: HeldOut) -> Any:
        """What is learned from rows that are held out."""
        raise NotImplementedError

    def _kept_parameters(self) -> dict[str, Any]:
        """What is not learned again when rows are held out."""
        return {}


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
            near = self.near(int(count))
            answer[counts == count] = cautious_quantiles(np.abs(near) if absolute else near, levels)
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

    def predict(self, X: RowsLike, return_std: bool = False, std_tol: float = 0.01) -> Array:
        """The expected predictions, and on request their standard deviations.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            NaN is missing.
        return_std : bool
            Also return the standard deviation of f(x) due to missing values: zero for complete
            rows. It has no noise in it; for that see `predict_interval`. That of a Gaussian process
            has the deviation of the process (with the noise of its kernel) in it.
        std_tol : float
            The relative error that standard deviations may have; 0 asks for exact ones, which take
            all pairs of support vectors for every row. Exact where that is quick, and for
            processes.

        Returns
        -------
        array of shape (rows,) or (rows, targets), or two of them

        Examples
        --------
        >>> import expectedkernels as ek
        >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.5]], [0.0, 1.0, 2.0, 3.0]
        >>> ek.ExpectedKernelRidge().fit(X, y).predict([[0.0, np.nan]]).shape
        (1,)
        """
        return self._expect(X, return_std, std_tol)

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
        return self._training.learned

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
