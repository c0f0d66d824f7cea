"""Held-out predictions, and the intervals and sets that are calibrated by them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import joblib
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from expectedkernels.arrays import Array, RngLike, RowsLike, as_generator, require_memory, spans
from expectedkernels.checks import DataError, check_count, check_real
from expectedkernels.estimators.kernel_expansion import KernelExpansion, expect, masks_of, table
from expectedkernels.estimators.landmarks import FeatureRidge, Nystrom

FOLDS = 5
MOST_ROWS = 1000
"""How many rows are held out as they are, at most."""
ENOUGH = 200
"""How many of them are held out with values hidden too; so many of a kind need no such copies."""
FEW = 50
"""Of fewer rows no scale is learned, and they are put together with rows of other kinds."""
FEW_OF_CLASS = 20
PARTS = 4
"""Copies of rows lack numbers of variables out of one of so many ranges."""
AS_IS = -1
"""The part of rows without copies."""
DRAWS = 64
"""How many completions of a row tell how far a function spreads over what is missing."""
AT_ONCE = 2**15
"""How many completions there are at once, about."""
SMALLEST_SHARE = 0.01
"""The variance of the noise is at least this share of the mean squared error."""
ALPHAS = 10.0 ** np.arange(-0.5, 3.5, 0.5)
"""What the regularization strength of scales is chosen from."""
LEAST_REFERENCE = 20
EXACT = 1e-12
"""Shares of weights that differ by less, relative to their size, are equal."""
FLOOR = 0.001
"""What is added to squared scores before their logarithm is taken, as a share of their mean."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Predictions of models for rows that they were not fitted to.

    Attributes
    ----------
    rows : int array of shape (predictions,)
    Z : array of shape (predictions, columns)
        The rows in the units of the model, NaN where a value is missing or hidden.
    target : array of shape (predictions,) or (predictions, targets)
    mean, spread : arrays of shape (predictions, outputs)
        Expected values, and how far they spread over what is missing.
    logs : array of shape (predictions, outputs)
        Logarithms of the variances of the noise at the rows, relative to their mean.
    """

    rows: Any
    Z: Any
    target: Any
    mean: Any
    spread: Any
    logs: Any

    @classmethod
    def concat(cls, parts: list[HeldOut]) -> HeldOut:
        """Several parts as one."""
        each = zip(*([getattr(x, f.name) for f in fields(cls)] for x in parts), strict=True)
        return cls(*map(np.concatenate, each))

    def some(self, index: Any) -> HeldOut:
        """Some of them."""
        return HeldOut(*(getattr(self, f.name)[index] for f in fields(self)))


@dataclass(frozen=True, eq=False)
class RowScale:
    """The scale of errors: what f spreads over, and a noise that depends on the row.

    Attributes
    ----------
    noise : array of shape (outputs,)
        The root of the mean variance of what is left.
    gain : array of shape (outputs,)
        By how much scales that follow the row make held-out errors more likely, per row.
    log_variance : KernelExpansion or None
        The logarithm of the variance of the noise at a row; None if it is the same everywhere.
    limits : array of shape (2, outputs)
        What these logarithms are between.
    shift : array of shape (outputs,)
        What is added to them, so that the mean variance stays that of the noise.
    """

    noise: Any
    gain: Any
    log_variance: KernelExpansion | None = None
    limits: Any = None
    shift: Any = 0.0

    def logs(self, model: Any, Z: Any) -> Any:
        """Expected logarithms of the variances of the noise, relative to their mean."""
        if self.log_variance is None:
            return np.zeros((len(Z), len(self.noise)))
        found = self.log_variance.at(model.density_, Z[:, : len(model._shift)], model._resources)
        return np.clip(found, *self.limits) + self.shift

    def of(self, spread: Any, logs: Any) -> Any:
        """The scales of errors."""
        return np.hypot(spread, self.noise * np.exp(0.5 * logs))

    def scores(self, held_out: HeldOut) -> Any:
        """Errors, divided by their scales, (predictions, outputs)."""
        return (table(held_out.target) - held_out.mean) / self.of(held_out.spread, held_out.logs)


@dataclass(eq=False)
class Training:
    """Rows that a model was fitted to, and what is learned from holding some of them out.

    Attributes
    ----------
    seed : int
        What starts every draw: the same results for the same model.
    columns : Columns
    Z : array of shape (rows, columns)
    y : array
    sample_weight : array of shape (rows,) or None
    machine : KernelMachine or None
        Not fitted.
    kept : dict
        What was learned: predictions by their part, scales, and what else models make of them.
    work : dict
        What can be made again; copies of the model do not have it.
    """

    seed: int
    columns: Any
    Z: Any
    y: Any
    sample_weight: Any
    machine: Any
    kept: dict[Any, Any] = field(default_factory=dict, init=False)
    work: dict[Any, Any] = field(default_factory=dict, init=False)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"work": {}}

    def once(self, name: Any, make: Callable[[], Any], work: bool = False) -> Any:
        """What a function makes, or has made before."""
        known = self.work if work else self.kept
        if name not in known:
            known[name] = make()
        return known[name]

    def generator(self) -> np.random.Generator:
        """A new generator of random numbers."""
        return np.random.default_rng(self.seed)

    def folds(self, by_class: bool) -> list[tuple[Any, Any, Any]]:
        """For every fold a mask of the rows to fit to, rows held out, and which have copies.

        Stratified: of every class there are rows of positive weight to fit to in all folds, and at
        least 50 held out, if it has as many. Rows of weight zero are not held out.
        """
        n, weights, rng = len(self.Z), self.sample_weight, self.generator()
        labels = self.y if by_class else np.zeros(n)
        zero = np.zeros(n, dtype=np.bool_) if weights is None else weights == 0
        _, code, counts = np.unique(labels, return_inverse=True, return_counts=True)
        positive = np.bincount(code, ~zero)
        fewest = int(positive.min())
        if fewest < 2:
            what = "rows of every class" if by_class else "rows"
            raise DataError(
                f"At least 2 {what} are needed, so that some can be held out to see how far "
                f"predictions are off. Got {fewest}. Fit to more rows."
            )
        order = rng.permutation(n)
        order = order[np.lexsort((zero[order], code[order]))]
        fold, rank = np.empty(n, dtype=np.intp), np.empty(n, dtype=np.intp)
        fold[order] = np.arange(n) % min(FOLDS, n)
        rank[order] = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
        share = (positive / positive.sum())[code]
        asked = ~zero & (rank < np.maximum(FEW, MOST_ROWS * share))
        few = rank < np.maximum(FEW, ENOUGH * share)
        held_out = {k: np.flatnonzero(asked & (fold == k)) for k in np.unique(fold[asked])}
        return [(fold != k, rows, few[rows]) for k, rows in held_out.items()]

    def machines(self, model: Any) -> list[tuple[Any, ...]]:
        """Models that were not fitted to some rows, and these as they read them.

        Also the numbers of the rows, and which of them have copies.
        """
        found, weights = [], self.sample_weight
        for rest, rows, few in self.folds(is_classifier(model)):
            machine, weight = clone(self.machine), None if weights is None else weights[rest]
            machine.columns_ = self.columns
            with warnings.catch_warnings():
                # of what the whole model has warned of, and of categories that others lack
                warnings.simplefilter("ignore")
                machine._learn(self.Z[rest], self.y[rest], weight)
                Z = machine.columns_.standardise(machine._completed(self.Z[rows]))
            found.append((machine, Z, rows, few))
        return found

    def standardised(self, model: Any, rows: Any) -> Any:
        """Rows in the units of the model."""
        return model.columns_.standardise(model._completed(self.Z[rows]))

    def changes(self, model: Any, rows: Any, Z: Any) -> Any:
        """By how much predictions for copies change if the row of each is left out too."""
        return 0.0

    def answers(self, model: Any, part: int = AS_IS) -> HeldOut:
        """Held-out predictions for rows, as they are or with values hidden.

        Every part has its own random numbers: the order of calls does not matter.
        """
        if part in self.kept:
            return self.kept[part]
        rng, parts = np.random.default_rng([self.seed, part + 1]), []
        for machine, Z, rows, few in self.once("machines", lambda: self.machines(model), work=True):
            variables, used = machine.density_.variables, few | (part == AS_IS)
            Z, rows = Z[used], rows[used]
            if part != AS_IS:
                Z = hidden(variables, Z, part, rng)
            whole = np.where(np.isnan(Z), np.nan, self.standardised(model, rows))
            Z = machine._with_masks(Z)
            mean, spread = moments(machine, Z, rng)
            mean -= self.changes(model, rows, Z)
            parts.append(HeldOut(rows, whole, self.y[rows], mean, spread, np.zeros(mean.shape)))
        found = HeldOut.concat(parts)
        if not is_classifier(model):
            as_is = found if part == AS_IS else self.answers(model)
            found = replace(found, logs=self._leave_out_logs(model, found, as_is))
        self.kept[part] = found
        return found

    def pool(self, model: Any, count: int) -> HeldOut:
        """Held-out predictions for rows that lack about as many variables."""
        as_is, variables = self.answers(model), model.density_.variables
        part, counts = part_of(count, len(variables)), n_missing(variables, as_is.Z)
        own = np.flatnonzero(part_of(counts, len(variables)) == part)
        # masks that tell something are not those of values that are hidden at random
        informative = model.mask_rate_ and model.fit_missing_
        if part != AS_IS and len(own) < ENOUGH and not informative:
            return HeldOut.concat([as_is.some(own), self.answers(model, int(part))])
        if len(own) < FEW:
            away = np.abs(counts - count)
            own = np.flatnonzero(away <= np.sort(away)[min(ENOUGH, len(away)) - 1])
        return as_is.some(own)

    def every_answer(self, model: Any) -> HeldOut:
        """Held-out predictions for rows that lack any number of variables."""
        n = 0 if model.mask_rate_ and model.fit_missing_ else len(model.density_.variables)
        parts = np.unique(part_of(np.arange(n + 1), max(1, n)))
        return HeldOut.concat([self.answers(model, int(part)) for part in parts])

    def scale(self, model: Any) -> RowScale:
        """The scale of errors."""
        self.answers(model)
        return self.kept["scale"]

    def _learn_scale(self, model: Any, held_out: HeldOut) -> tuple[RowScale, Any]:
        """The scale of errors, and what it takes to leave a row out of it.

        Log squared scores are fitted by kernel ridge regression, with the bandwidth of the model.
        The fit is used if, without its own row, it makes scores more likely by more than 2 / n
        per row: with h the left-out values, log mean |e| - log mean |e| exp(-h / 2) - mean h / 2.
        """
        error, n, d = table(held_out.target) - held_out.mean, len(held_out.rows), len(model._shift)
        square = (error**2).mean(axis=0)
        rest = square - (held_out.spread**2).mean(axis=0)
        noise = np.sqrt(np.maximum(rest, SMALLEST_SHARE * square))
        noise = np.where(noise > 0, noise, np.finfo(np.float64).tiny)
        e = error / np.hypot(held_out.spread, noise)
        size = (e**2).mean(axis=0)
        if n < FEW or not size.any():
            return RowScale(noise, np.zeros(len(noise))), None
        e, size = np.where(size > 0, e, 1.0), np.where(size > 0, size, 1.0)
        t = np.log(e**2 + FLOOR * size)
        middle, points = t.mean(axis=0), model.density_.means(held_out.Z)
        given = model.density_, model._gammas(model.gamma_)[:d], points, model._resources
        nystrom = Nystrom.of(*given)
        F = nystrom.features(model.density_, points, model._resources)
        ridge = FeatureRidge.of(F.T @ F, F.T @ (t - middle))
        fits = ridge.leave_one_out(F, t - middle, np.ones(n), ALPHAS)
        losses = np.log((np.abs(e) * np.exp(-0.5 * fits)).mean(axis=1)) + 0.5 * fits.mean(1)
        best, every = losses.argmin(axis=0), np.arange(len(noise))
        gain = np.log(np.abs(e).mean(axis=0)) - losses[best, every]
        on, alphas = gain > 2.0 / n, ALPHAS[best]
        if not on.any():
            return RowScale(noise, gain), None
        coef = np.stack([ridge.coef(alphas[k])[:, k] for k in every], axis=1) * on
        f = KernelExpansion(nystrom.rates, points, nystrom.root @ coef, middle * on)
        scale = RowScale(noise, gain, f, np.stack([t.min(axis=0), t.max(axis=0)]) * on)
        errors = (t - middle - fits[best, :, every].T) * on
        return scale, (nystrom, ridge, F, coef, alphas, errors)

    def _leave_out_logs(self, model: Any, held_out: HeldOut, as_is: HeldOut) -> Any:
        """The logarithms of variances at copies of rows, by fits without the row of each.

        Learns the scale of errors at rows as they are, when these are evaluated.
        """
        scale, kept = self.once("scale fit", lambda: self._learn_scale(model, as_is), work=True)
        if kept is None:
            self.kept["scale"] = scale
            return held_out.logs
        nystrom, ridge, F, coef, alphas, errors = kept
        order = np.argsort(as_is.rows)
        at = order[np.searchsorted(as_is.rows[order], held_out.rows)]
        others = nystrom.features(model.density_, held_out.Z, model._resources)
        each = [ridge.changes(others, F[at], alpha) for alpha in alphas]
        logs = others @ coef - np.stack(each, axis=1) * errors[at] + scale.log_variance.intercept
        logs = np.clip(logs, *scale.limits)
        if held_out is as_is:
            self.kept["scale"] = replace(scale, shift=-np.log(np.exp(logs).mean(axis=0)))
        return logs + self.kept["scale"].shift


@dataclass(eq=False)
class LandmarkTraining(Training):
    """Drawn rows of a landmark model, standardised, which are left out in closed form.

    The density and the landmarks stay those of all rows: one among thousands does not change them
    much. Support vector machines have no closed form: their linear part is fitted again, without
    every fifth of the drawn rows.

    Attributes
    ----------
    nystrom : Nystrom
    ridge : FeatureRidge or None
        None if there is no closed form.
    alpha : float
    targets : array of shape (rows,) or (rows, outputs)
        As they were fitted to.
    copies : array of shape (rows,)
        The weights of rows with those of all that are equal.
    """

    nystrom: Nystrom
    ridge: FeatureRidge | None
    alpha: float
    targets: Any
    copies: Any

    def machines(self, model: Any) -> list[tuple[Any, ...]]:
        """The model itself and all rows; or models with other linear parts, for every fold."""
        folds: Any = self.folds(is_classifier(model))
        if self.ridge is not None:
            folds = [(None, *map(np.concatenate, zip(*(fold[1:] for fold in folds), strict=True)))]
        made = (model if rest is None else model._refitted(self, rest) for rest, *_ in folds)
        return [(x, self.Z[rows], rows, few) for x, (_, rows, few) in zip(made, folds, strict=True)]

    def standardised(self, model: Any, rows: Any) -> Any:
        """Rows in the units of the model."""
        return self.Z[rows]

    def changes(self, model: Any, rows: Any, Z: Any) -> Any:
        """By how much predictions for copies of rows, (copies, outputs), change without the rows.

        Without row i of weight c_i, that at features f~ is f~ w - c_i f~ (A + alpha)^-1 f_i e_i,
        with the leave-one-out error e_i of the row.
        """
        if self.ridge is None:
            return 0.0
        used, at = np.unique(rows, return_inverse=True)
        F, y, copies = model._features(self.nystrom, self.Z[used]), table(self.targets), self.copies
        fits = self.ridge.leave_one_out(F, y[used], copies[used], [self.alpha])[0]
        others = self.nystrom.features(model.density_, Z, model._resources)
        share = copies[rows] * self.ridge.changes(others, F[at], self.alpha)
        return share[:, None] * (y[rows] - fits[at]) * model._target[1]


def n_missing(variables: Any, Z: Any) -> Any:
    """How many variables every row lacks."""
    return masks_of(variables, Z).sum(axis=1)


def part_of(count: Any, n: int) -> Any:
    """The part that rows belong to which lack so many of n variables.

    Examples
    --------
    >>> part_of(np.arange(9), 8).tolist()
    [-1, 0, 0, 1, 1, 2, 2, 3, 3]
    """
    part = np.floor(PARTS * (np.asarray(count) - 0.5) / n).astype(np.intp)
    return np.where(np.asarray(count) > 0, part, AS_IS)


def hidden(variables: Any, Z: Any, part: int, rng: Any) -> Any:
    """Rows with values hidden at random, so that they belong to a part.

    All numbers of variables of the part are equally likely; a row that lacks more stays as it is.
    """
    Z, missing, every = Z.copy(), masks_of(variables, Z), np.arange(len(variables) + 1)
    wanted = rng.choice(every[part_of(every, len(variables)) == part], size=len(Z))
    order = np.where(missing, -1.0, rng.random(missing.shape)).argsort(axis=1).argsort(axis=1)
    hide = ~missing & (order < wanted[:, None])
    for i, v in enumerate(variables):
        Z[np.ix_(hide[:, i], v.columns)] = np.nan
    return Z


def moments(machine: Any, Z: Any, rng: Any) -> tuple[Any, Any]:
    """Exact means of a model's outputs, and spreads over completions that are drawn.

    The exact spread takes all pairs of support vectors for every pattern of missing values; a
    hundred times as long as the mean. Both are of shape (rows, outputs).
    """
    own = machine._machine.prior is not None
    mean = table(machine._expected(Z, False))
    variance = np.zeros(mean.shape)
    gaps = np.isnan(Z).any(axis=1) & machine._uses_spread
    if own and not gaps.all():
        variance[~gaps] = table(machine._expected(Z[~gaps], True)[1]) ** 2
    for values, deviations, rows, _ in completed(machine, Z, np.flatnonzero(gaps), DRAWS, rng):
        variance[rows] = ((values - mean[rows]) ** 2 + deviations**2).mean(axis=0)
    return mean, np.sqrt(variance)


def completed(machine: Any, Z: Any, index: Any, n: int, rng: Any) -> Any:
    """The outputs of a model at drawn completions of rows, part by part.

    Yields values and deviations, (n, rows, outputs), of the model itself at completions, the
    numbers of the rows, and the completions; deviations are zero but for processes.
    """
    for part in spans(len(index), max(1, AT_ONCE // max(1, n))):
        rows, d = index[part], len(machine._shift)
        samples = machine.density_.draws(Z[rows, :d], n, rng).reshape(n * len(rows), -1)
        samples = np.column_stack([samples, np.tile(Z[rows, d:], (n, 1))])
        has_own = machine._machine.prior is not None
        found = expect(machine._machine, machine.density_, samples, machine._resources, has_own)
        values, deviations = map(table, found if has_own else (found, np.zeros_like(found)))
        shape = (n, len(rows), values.shape[1])
        yield values.reshape(shape), deviations.reshape(shape), rows, samples


def weighted_quantiles(
    scores: Any, weights: Any, n_rows: int, own: Any, levels: Any, absolute: bool = False
) -> Any:
    """Quantiles of the score of one more row, away from the median, (rows, outputs, levels).

    Of n + 1 exchangeable scores, the last lies at or below the k-th smallest of the others with
    probability at least k / (n + 1). With weights, which are ratios of densities, shares of
    weights take the place of numbers. Levels that the scores do not reach are infinite.

    Parameters
    ----------
    scores : array of shape (scores, outputs)
    weights : array of shape (scores,)
    n_rows : int
        Of how many different rows there are scores: copies of a row count as one, together.
    own : array of shape (rows,)
        The weights of the rows whose quantiles are wanted.
    levels : array
    absolute : bool
        Whether they are upper quantiles of absolute scores at all levels.

    Examples
    --------
    >>> numbers = np.arange(9.0)[:, None]
    >>> weighted_quantiles(numbers, np.ones(9), 9, np.ones(1), [0.05, 0.1, 0.5, 0.9]).tolist()
    [[[-inf, 0.0, 4.0, 8.0]]]
    """
    found = np.empty((len(own), scores.shape[1], len(levels)))
    for k, level in enumerate(levels):
        sign, level = (1.0, level) if absolute or level >= 0.5 else (-1.0, 1.0 - level)
        for output, x in enumerate(np.abs(scores.T) if absolute else sign * scores.T):
            order = np.argsort(x, kind="stable")
            reached = np.cumsum(weights[order]) * (n_rows / len(x))
            at = np.searchsorted(reached, (1.0 - EXACT) * level * (reached[-1] + own))
            found[:, output, k] = sign * np.append(x[order], np.inf)[at]
    return found


class Calibrated:
    """The part of a model that is calibrated by rows that are held out."""

    _read: Any
    _training: Any
    density_: Any

    def calibrate(self) -> Self:
        """The model, calibrated for rows with any missing values.

        `predict_interval`, `predict_quantiles`, `sample_predictions`, `predict_set` and the
        probabilities of `ExpectedSVC` hold out training rows when they first need them: as they
        are, and with values hidden when a row with missing values comes. Call this once before a
        model is saved or served, so that no later call has to pay for it.

        Returns
        -------
        self

        Raises
        ------
        DataError
            If there was only one row, or only one row of a class, in fit.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> X = np.random.default_rng(0).normal(size=(40, 2))
        >>> model = ek.ExpectedKernelRidge(density="gaussian").fit(X, X.sum(axis=1)).calibrate()
        >>> low, high = model.predict_interval([[0.5, np.nan]])
        """
        check_is_fitted(self)
        self._training.every_answer(self)
        return self


class PredictionSets(Calibrated):
    """The part of a classifier that says which classes a row may have."""

    _probabilities: Any
    classes_: Any

    def predict_set(self, X: RowsLike, coverage: float = 0.9, *, by_class: bool = True) -> Array:
        """Which classes are in the prediction sets of rows (conformal prediction).

        Of the rows of every class, the given share has its class in the set; that is not the share
        among rows with a given set. The most probable class is in every set.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            NaN is missing.
        coverage : float
            The share of rows, between 0 and 1.
        by_class : bool
            Whether every class has its own threshold (class-conditional coverage). False: one for
            all, with smaller sets, which may nearly always lack a rare class (marginal coverage).

        Returns
        -------
        bool array of shape (rows, classes)
            In the order of `classes_`. A class of too few training rows for the coverage, fewer
            than 9 for 0.9, is in every set.

        Raises
        ------
        DataError
            If `coverage` is not between 0 and 1, or if there was only one row of a class in fit.

        Notes
        -----
        A class is in the set unless its probability is lower than that of most held-out rows of
        this class, among rows that lack about as many values. The first call fits the model five
        times more; see `calibrate`.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 2))
        >>> model = ek.ExpectedKernelClassifier().fit(X, np.where(X[:, 0] > 0, "up", "down"))
        >>> model.predict_set([[2.0, 0.0], [np.nan, 0.0]]).tolist()
        [[False, True], [True, True]]
        """
        check_real("predict_set", "coverage", coverage, 0.0, 1.0, "()", DataError)
        Z, training = self._read(X), self._training
        p = self._probabilities(*moments(self, Z, training.generator()))
        counts = n_missing(self.density_.variables, Z)
        found = p == p.max(axis=1, keepdims=True)
        for count in np.unique(counts):
            near, rows = training.pool(self, int(count)), np.flatnonzero(counts == count)
            every = HeldOut.concat([training.answers(self), near])
            for j, label in enumerate(self.classes_):
                pool = near.some(near.target == label) if by_class else near
                if len(pool.rows) < FEW_OF_CLASS and by_class:
                    pool = every.some(every.target == label)
                own = self._probabilities(pool.mean, pool.spread)
                scores = 1.0 - own[np.arange(len(own)), np.searchsorted(self.classes_, pool.target)]
                n, ones = len(np.unique(pool.rows)), np.ones(len(scores))
                limit = weighted_quantiles(scores[:, None], ones, n, np.ones(1), [coverage], True)
                found[rows, j] |= 1.0 - p[rows, j] <= limit[0, 0, 0]
        return found


class PredictionIntervals(Calibrated):
    """The part of a regressor that makes prediction intervals, by conformal prediction.

    Notes
    -----
    What is learned for it comes from rows that are held out: at first use, the model is fitted
    again five times, without each fifth of its rows, and evaluated at up to 1000 of them, and at
    about 200 with values hidden at random (unless a mask kernel takes missingness for informative).
    Landmark models leave rows out in closed form. Weights of rows are used in these fits only:
    intervals cover rows, not weights.
    """

    _expect: Any
    _machine: Any
    _row_classifier: Any
    _shift: Any
    columns_: Any

    @property
    def interval_gain_(self) -> Array:
        """By how much scales that follow the row make held-out errors more likely, per row.

        One number for every output. The width of intervals follows the row where it is larger than
        two over the number of rows held out (at most 1000), and is the same for all complete rows
        elsewhere. Zero for fewer than 50 rows.
        """
        return self._training.scale(self).gain

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

    def predict_interval(
        self,
        X: RowsLike,
        coverage: float = 0.9,
        *,
        bounds: tuple[float | None, float | None] | None = None,
        reference: RowsLike | None = None,
    ) -> tuple[Array, Array]:
        """The ends of prediction intervals: they hold the targets of a given share of rows.

        They are symmetric around the prediction, with half-widths
        ``q * sqrt(spread**2 + noise(x)**2)``: `spread` is how far f spreads over what is missing
        (and the deviation of a process), `noise` what is left of errors, which depends on the row
        where leave-one-out errors show this (`interval_gain_`), and `q` a quantile of the errors of
        held-out rows that lack about as many values (conformal prediction).

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            NaN is missing.
        coverage : float
            The share of rows, between 0 and 1.
        bounds : pair of float or None, optional
            What targets cannot be below or above, such as ``(0, None)``: ends are moved there.
        reference : array or data frame of shape (rows, columns), optional
            Rows without targets that the intervals are for, if these are distributed otherwise than
            those in fit (covariate shift); X itself, if it is large. Held-out errors are weighted
            by the ratio of densities, which a classifier of both sets of rows estimates.

        Returns
        -------
        low, high : arrays of the shape of predictions
            Infinite if the rows in fit are too few for the coverage: 8 or fewer for 0.9.

        Raises
        ------
        DataError
            If `coverage` is not between 0 and 1, targets in fit are outside of `bounds`, there was
            one row in fit, the reference has fewer than 20 rows, or rows in fit are too unlike it.

        Warns
        -----
        UserWarning
            If the rows in fit that are like the reference are few.

        Notes
        -----
        Coverage is marginal: that of all rows that lack about as many values, if these are missing
        completely at random. It is not guaranteed for every single row, nor for every pattern of
        missing values, nor if targets depend otherwise on the columns than they did in fit. The
        first call fits the model five times more, and the first for a row with missing values
        hides values of held-out rows: see `calibrate`. Spreads come from 64 samples of what is
        missing, with a fixed seed. The same rows have the same intervals; in another table, the
        width of those of an incomplete row varies (standard deviation: 5 to 20 %).

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
        check_is_fitted(self)
        ends = self._checked_bounds(bounds)
        Z, mean, scale = self._located(X)
        half = scale * self._score_quantiles(Z, [coverage], reference, absolute=True)[..., 0]
        return self._shaped(np.clip(mean - half, *ends)), self._shaped(np.clip(mean + half, *ends))

    def predict_quantiles(
        self,
        X: RowsLike,
        quantiles: ArrayLike = (0.05, 0.5, 0.95),
        *,
        reference: RowsLike | None = None,
    ) -> Array:
        """The quantiles of the targets of rows like these.

        As `predict_interval`, but by errors with their signs, so that both sides may differ.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            NaN is missing.
        quantiles : array of shape (quantiles,)
            Levels, between 0 and 1.
        reference : array or data frame of shape (rows, columns), optional
            Rows that the quantiles are for, as for `predict_interval`.

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
        levels = _check_levels(quantiles)
        Z, mean, scale = self._located(X)
        found = self._score_quantiles(Z, levels, reference)
        return self._shaped(mean[..., None] + scale[..., None] * found)

    def sample_predictions(self, X: RowsLike, n: int = 100, rng: RngLike = None) -> Array:
        """Samples of the targets of rows: their distribution, not a summary.

        What is missing is drawn from the density given what is observed, and to the prediction for
        the completed row an error is added that was made at a row that was held out.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            NaN is missing.
        n : int
            The number of samples for every row.
        rng : int, Generator or None
            Seed or generator of random numbers; an int makes results reproducible.

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
        check_count("sample_predictions", "n", n, error=DataError)
        generator, Z, training = as_generator(rng), self._read(X), self._training
        as_is, scale = training.answers(self), training.scale(self)
        pool, outputs = scale.scores(as_is), len(scale.noise)
        needed = 8.0 * len(Z) * outputs * n
        require_memory(needed, f"An array of {n} samples for every row", "Draw fewer of them.")
        answer = np.empty((len(Z), outputs, n))
        every = np.arange(len(Z) if n else 0)
        for values, deviations, rows, completions in completed(self, Z, every, n, generator):
            error = pool[generator.integers(len(pool), size=values.shape[:2])]
            logs = scale.logs(self, completions).reshape(values.shape)
            answer[rows] = np.moveaxis(values + error * scale.of(deviations, logs), 0, 2)
        return self._shaped(answer)

    def _located(self, X: Any) -> tuple[Any, Any, Any]:
        """Rows as they are read, predictions and scales, (rows, outputs)."""
        Z, training = self._read(X), self._training
        mean, spread = moments(self, Z, training.generator())
        scale = training.scale(self)
        return Z, mean, scale.of(spread, scale.logs(self, Z))

    def _score_quantiles(self, Z: Any, levels: Any, reference: Any, absolute: bool = False) -> Any:
        """The quantiles of scores for rows by what they lack, (rows, outputs, levels)."""
        counts, training = n_missing(self.density_.variables, Z), self._training
        tails = levels if absolute else [max(x, 1.0 - x) for x in levels]
        ratio, scale = self._density_ratio(reference, max(tails, default=0.5)), training.scale(self)
        answer = np.empty((len(Z), len(scale.noise), len(levels)))
        for count in np.unique(counts):
            pool, rows = training.pool(self, int(count)), np.flatnonzero(counts == count)
            scores, n = scale.scores(pool), len(np.unique(pool.rows))
            weights = ratio(pool.Z), n, ratio(Z[rows])
            answer[rows] = weighted_quantiles(scores, *weights, levels, absolute)
        return answer

    def _density_ratio(self, reference: Any, coverage: float) -> Callable[[Any], Any]:
        """The density of what rows show in a reference over that in training, as a function.

        The odds of a classifier of both: given what is observed, its expected probabilities are
        those of the marginal distributions of the observed columns.
        """
        if reference is None:
            return lambda Z: np.ones(len(Z))
        training, d = self._training, len(self._shift)
        new, known = self._read(reference)[:, :d], training.standardised(self, slice(None))
        if len(new) < LEAST_REFERENCE:
            raise DataError(
                f"The reference must have at least {LEAST_REFERENCE} rows to see how they differ "
                f"from those in fit. Got {len(new)}."
            )
        key = joblib.hash(new)
        if training.work.get("reference", ("",))[0] != key:
            classifier = self._row_classifier()
            classifier.columns_ = replace(self.columns_, unit=1.0, centre=0.0, scale=1.0)
            label = np.repeat([0, 1], [len(known), len(new)])
            classifier._learn(np.concatenate([known, new]), label, None)
            training.work["reference"] = key, classifier
        classifier = training.work["reference"][1]

        def ratio(Z: Any) -> Any:
            rows = classifier.columns_.standardise(classifier._completed(Z[:, :d]))
            p = classifier._probabilities(classifier._expected(rows, False))
            return len(known) / len(new) * p[:, 1] / p[:, 0]

        weights = ratio(training.answers(self).Z)
        # the mean is one, unless the classifier finds rows that there is none like in fit
        size = weights.sum() ** 2 / (weights**2).sum() * min(1.0, weights.mean())
        need = 2.0 / (1.0 - coverage)
        if size < need:
            raise DataError(
                "Rows in fit are too unlike the reference to say how far predictions are off "
                f"there: they are worth {int(size)} rows, at least {need:.0f} are needed. "
                "Fit to rows like the reference, or leave 'reference' out."
            )
        if size < min(0.5 * len(weights), 10.0 * need):
            warnings.warn(
                f"Rows in fit that are like the reference are worth only {size:.0f} rows; coverage "
                "may be off by some percent.",
                stacklevel=4,
            )
        return ratio

    def _checked_bounds(self, bounds: Any) -> tuple[float, float]:
        """The bounds of targets, infinite where there are none."""
        pair = (None, None) if bounds is None else bounds
        try:
            low, high = (
                default if x is None else float(x)
                for x, default in zip(pair, (-np.inf, np.inf), strict=True)
            )
        except (TypeError, ValueError):
            low = high = np.nan
        if not low < high:
            raise DataError(
                f"Bounds must be two numbers or None, the first smaller. Got {bounds!r}."
            )
        least, most = float(np.min(self._training.y)), float(np.max(self._training.y))
        if least < low or most > high:
            raise DataError(
                f"Targets in fit lie outside of bounds {bounds!r}: the smallest is {least:g}, the "
                f"largest {most:g}."
            )
        return low, high

    def _shaped(self, x: Any) -> Any:
        return x[:, 0] if self._machine.flat else x


def _check_levels(quantiles: Any) -> Any:
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
