"""What machines say of rows that they were not fitted to, with values hidden like those asked for.

A machine is fitted again without each of a few parts of its rows, and asked about these: as they
are, and with values hidden. How far it is off there says how far it will be off elsewhere.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state

from expectedkernels.arrays import spans
from expectedkernels.errors import DataError
from expectedkernels.estimators.base import KernelMachine
from expectedkernels.estimators.masks import masks_of

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


class Training:
    """The rows that a machine was fitted to, and what is learned from holding some of them out.

    Parameters
    ----------
    machine : KernelMachine
        Not fitted.
    columns : Columns
    Z : array of shape (rows, columns)
    y : array
    sample_weight : array of shape (rows,) or None
    """

    def __init__(self, machine: Any, columns: Any, Z: Any, y: Any, sample_weight: Any):
        self.machine, self.columns, self.Z = machine, columns, np.array(Z)
        self.y, self.sample_weight = np.array(y), sample_weight

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
        n, labels, zero = len(self.Z), np.zeros(len(self.Z)), np.zeros(len(self.Z), dtype=np.bool_)
        if is_classifier(self.machine):
            labels = self.y
        if self.sample_weight is not None:
            zero = self.sample_weight == 0
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
            return machine, machine._completed(self.Z[rows])

    def _part(self, rest: Any, rows: Any, rng: Any) -> tuple[Any, ...]:
        machine, Z = self.without(rest, rows)
        variables = machine.density_.variables
        # masks that tell something are not those of values that are hidden at random
        n = 0 if machine.mask_rate_ and machine.fit_missing_ else COPIES
        copies = [Z] + [hidden(variables, Z, k, COPIES, rng) for k in range(n)]
        Z = np.concatenate(copies)
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
        rows = index[part]
        drawn = machine.density_.draws(Z[rows], n, rng).reshape(n * len(rows), -1)
        like = np.tile(Z[rows], (n, 1))
        if machine._machine.prior is None:
            # by matrix products: libsvm's own prediction takes many times as long
            values = machine._machine.at(machine.density_, drawn, like, machine._resources)
            deviations = np.zeros_like(values)
        else:
            values, deviations = (table(x) for x in machine._expected(drawn, True, like=like))
        shape = (n, len(rows), values.shape[1])
        yield values.reshape(shape), deviations.reshape(shape), rows


def table(x: Any) -> Any:
    """Answers with an axis of outputs."""
    return x[:, None] if x.ndim == 1 else x


class CrossValidated(KernelMachine):
    """A kernel machine that keeps the rows it was fitted to, to hold some of them out later."""

    def _learn(self, Z: Any, y: Any, sample_weight: Any) -> Any:
        super()._learn(Z, y, sample_weight)
        # parameters that are changed after fit do not count
        kept = {"mask_kernel": self.mask_rate_ or None, **self._kept_parameters()}
        again = type(self)(**(self.get_params(deep=False) | kept))
        self._training = Training(again, self.columns_, Z, y, sample_weight)
        return self

    def _calibrated(self, held_out: HeldOut) -> Any:
        """What is learned from rows that are held out."""
        raise NotImplementedError

    def _kept_parameters(self) -> dict[str, Any]:
        """What is not learned again when rows are held out."""
        return {}
