"""What counts say: of pairs of variables, their mutual information; of units, their weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np
from scipy.special import xlogy

from expectedkernels.errors import SizeError
from expectedkernels.learning.data import MISSING, FloatArray, IntArray

MOST_BYTES = 2**33
"""What the counts of all pairs of states may take."""
CHUNK = 2**21
"""About how many numbers an intermediate matrix may have."""
SMALLEST_SHARE = 1e-30
"""Shares that are not zero stay above this: no row would notice smaller ones, but they would
leave the range in which values are plain numbers."""


class PairCounts:
    """How often the states of two variables occur together, for all pairs.

    Rows in which one of the two is missing do not count for the pair. Counts of parts of the data
    can be added, if all are told whether the whole is `complete`.

    Examples
    --------
    >>> counts = PairCounts(np.array([[0, 1], [1, 1], [1, 0]]), [2, 2], np.ones(3))
    >>> counts.pair(0, 1).tolist()
    [[0.0, 1.0], [1.0, 1.0]]
    """

    def __init__(
        self,
        states: IntArray,
        cardinalities: Sequence[int] | IntArray,
        weights: FloatArray,
        complete: bool | None = None,
    ) -> None:
        self.cardinalities = np.asarray(cardinalities, dtype=np.intp)
        self.start = np.concatenate([[0], np.cumsum(self.cardinalities)])[:-1]
        self._complete = not (states == MISSING).any() if complete is None else complete
        # Without missing values the first state of a variable is where all others are not: its
        # counts follow by subtraction, and the products of matrices have a fraction of the size.
        drop = 1 if self._complete else 0
        self._variable = np.repeat(np.arange(len(cardinalities)), self.cardinalities - drop)
        self._state = np.concatenate([np.arange(drop, c) for c in cardinalities])
        self._state = self._state.astype(states.dtype)
        _refuse_many(len(self._state) + 1, self.cardinalities)
        self._gram = self._products(states, weights)

    def _products(self, states: IntArray, weights: FloatArray) -> FloatArray:
        """Weighted inner products of a constant column and the indicators of states."""
        n = len(self._state) + 1
        total = np.zeros((n, n))
        step = max(1, CHUNK // n)
        number = np.float32 if _is_exact_in_single(weights) else np.float64
        plain = bool((weights == 1).all())  # then the matrix product is symmetric: half the work
        for begin in range(0, len(states), step):
            rows = states[begin : begin + step]
            indicators = np.ones((len(rows), n), dtype=number)
            np.equal(rows[:, self._variable], self._state, out=indicators[:, 1:])
            if plain:
                total += indicators.T @ indicators
            else:
                scaled = indicators * weights[begin : begin + step, None].astype(number)
                total += scaled.T @ indicators
        return total

    def __add__(self, other: PairCounts) -> PairCounts:
        found = copy(self)
        found._gram = self._gram + other._gram
        return found

    def _expanded(self, part: FloatArray, variables: IntArray) -> FloatArray:
        """From counts along the constant and some states to counts along all states, on axis 0.

        Only the rows of some variables, which come one after the other.
        """
        first, last = int(variables[0]), int(variables[-1])
        if not self._complete:
            start = int(self.start[first])
            return part[1 + start : 1 + start + int(self.cardinalities[variables].sum())]
        cards = self.cardinalities[variables]
        full = np.empty((int(cards.sum()), part.shape[1]))
        zero = np.concatenate([[0], np.cumsum(cards)])[:-1]
        others = np.ones(len(full), dtype=np.bool_)
        others[zero] = False
        begin = int(self.start[first]) - first + 1
        kept = part[begin : begin + len(full) - (last - first + 1)]
        full[others] = kept
        full[zero] = part[0]
        several = cards > 1
        if several.any():
            where = (np.cumsum(cards - 1) - (cards - 1))[several]
            full[zero[several]] -= np.add.reduceat(kept, where, axis=0)
        return full

    def rows(self, variables: IntArray) -> FloatArray:
        """Counts of the states of consecutive variables with the states of all variables."""
        every = np.arange(len(self.cardinalities))
        return self._expanded(self._expanded(self._gram, variables).T, every).T

    def pair(self, i: int, j: int) -> FloatArray:
        """Counts of the states of variable i (rows) with those of variable j."""
        counts = self._expanded(self._gram, np.asarray([i]))
        return self._expanded(counts.T, np.asarray([j])).T

    def single(self, i: int) -> FloatArray:
        """Counts of the states of variable i."""
        return self._expanded(self._gram[:, :1], np.asarray([i]))[:, 0]

    def blocks(self) -> Iterator[tuple[IntArray, FloatArray]]:
        """Consecutive variables and their counts with all variables, a few at a time."""
        width = int(self.cardinalities.sum())
        batch = max(1, CHUNK // (width * int(self.cardinalities.max())))
        for begin in range(0, len(self.cardinalities), batch):
            variables = np.arange(begin, min(begin + batch, len(self.cardinalities)))
            yield variables, self.rows(variables)


def _refuse_many(n: int, cardinalities: IntArray) -> None:
    """Raise if a square matrix of n rows, of counts of all pairs, takes too much memory."""
    if 8 * n**2 > MOST_BYTES:
        raise SizeError(
            f"Counting all pairs of {int(cardinalities.sum())} states ({len(cardinalities)} "
            f"variables) takes {8 * n**2 / 2**30:.1f} GiB, more than {MOST_BYTES / 2**30:.3g} GiB. "
            "Put rare states together, drop columns, or fit the weights of a given structure "
            "with em, which counts no pairs."
        )


def _is_exact_in_single(weights: FloatArray) -> bool:
    """Whether sums of the weights are exact in single precision, which is twice as fast."""
    return bool(weights.sum() < 2**24 and (weights == np.floor(weights)).all())


def mutual_information(counts: PairCounts, alpha: float = 1.0) -> FloatArray:
    """The smoothed mutual information of all pairs of variables, symmetric, zero on the diagonal.

    Every pair shares a pseudocount of 4 alpha in all, evenly spread over its cells, so that
    the result is the mutual information of a distribution, whatever the cardinalities:

        P(a, b) = (n(a, b) + 4 alpha / (card_i card_j)) / (W + 4 alpha)
        MI_ij = sum_ab P(a, b) log( P(a, b) / (P(a) P(b)) )

    Examples
    --------
    >>> counts = PairCounts(np.array([[0, 0], [1, 1]]), [2, 2], np.full(2, 5.0))
    >>> mutual_information(counts, alpha=0.0).round(6).tolist()
    [[0.0, 0.693147], [0.693147, 0.0]]
    """
    cards, start = counts.cardinalities, counts.start
    joint = np.empty((len(cards), len(cards)))
    alone = np.empty((len(cards), len(cards)))
    inverse = 1.0 / np.repeat(cards, cards)
    mass = 4.0 * alpha
    for variables, n in counts.blocks():
        inside = start[variables] - start[variables[0]]
        share = np.repeat(1.0 / cards[variables], cards[variables])
        smoothed = n + mass * (share[:, None] * inverse)
        per_state = np.add.reduceat(smoothed, start, axis=1)
        total = np.add.reduceat(per_state, inside, axis=0)
        total[total == 0] = 1.0  # no data and no pseudocounts: no information
        spread = np.repeat(total, cards[variables], axis=0)
        P = smoothed / np.repeat(spread, cards, axis=1)
        cells = np.add.reduceat(xlogy(P, P), inside, axis=0)
        joint[variables] = np.add.reduceat(cells, start, axis=1)
        marginal = per_state / spread
        alone[variables] = np.add.reduceat(xlogy(marginal, marginal), inside, axis=0)
    result = joint - alone - alone.T
    result = np.maximum((result + result.T) / 2, 0.0)
    np.fill_diagonal(result, 0.0)
    return result


def row_sums(numbers: Any) -> Any:
    """The sums of rows, as a column."""
    return numbers.sum(axis=1, keepdims=True)


def group_sums(group: Any) -> Callable[[Any], Any]:
    """The function from numbers to the sums of their groups, these given by their numbers."""
    return lambda numbers: np.bincount(group, numbers)[group]


def shares(
    counts: Any, beta: float, sums: Callable[[Any], Any] = row_sums, old: Any = None
) -> FloatArray:
    """The weights that make counts most likely: shares of the counts of their groups.

    (n + beta / k) / (total + beta) in a group of k. `sums` leads from numbers to the sums of their
    groups. Zeros among the old weights stay zero, and are none of the k. Groups without counts
    and pseudocounts keep their old weights, or get equal ones.

    Examples
    --------
    >>> shares([[3.0, 0.0], [0.0, 0.0]], beta=1.0).tolist()
    [[0.875, 0.125], [0.5, 0.5]]
    """
    counts = np.asarray(counts, dtype=np.float64)
    if old is None:
        ones = np.ones(counts.shape)
        k, total = sums(ones), sums(counts) + beta
        return np.divide(counts + beta / k, total, out=ones / k, where=total > 0)
    if beta > 0:
        alive = (old != 0).astype(np.float64)
        counts = counts + beta * alive / np.maximum(sums(alive), 1.0)
    total = np.broadcast_to(sums(counts), counts.shape)
    found = np.array(np.broadcast_to(old, counts.shape), dtype=np.float64)
    np.divide(counts, total, out=found, where=total > 0)
    return np.where((found > 0) & (total > 0), np.maximum(found, SMALLEST_SHARE), found)
