"""Training data in memory and in chunks, their counts, and the loop of iterative fits."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import frexp, inf, isfinite
from numbers import Real as RealNumber
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import xlogy

from expectedkernels.arrays import to_numpy
from expectedkernels.checks import DataError, SizeError, check_count, is_int
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.data.chunks import each_chunk, is_stream, summed
from expectedkernels.data.evidence import Evidence, as_evidence
from expectedkernels.data.schema import Schema, frame_schema, joint_column
from expectedkernels.data.tables import (
    Columns,
    FrameColumn,
    as_table,
    column_names,
    frame_columns,
    is_frame,
    is_missing,
    refuse_rowless,
)

IntArray = np.ndarray[Any, np.dtype[np.intp]]
FloatArray = np.ndarray[Any, np.dtype[np.float64]]

MISSING = -1
"""The state of a value that is not observed."""
MANY_STATES = 1000
"""A column with larger codes is more likely an identifier or a measurement than a category."""
MAX_STATES = 100
"""How many distinct labels a column may have by default."""


@dataclass(frozen=True, eq=False)
class Data:
    """Rows to learn from."""

    # (rows, variables): `MISSING` where a value is not observed; the rows for validation come last
    states: IntArray
    # (sets, rows): how much every row counts in the training data, and in the validation data if
    # there is any
    weights: FloatArray
    n_rows: int  # the number of rows of the training data as given
    cardinalities: tuple[int, ...]
    schema: Schema | None = None  # the names and states of the columns of data frames
    first: Any = None  # of distinct rows, where each comes first in the data as given

    @property
    def train(self) -> tuple[IntArray, FloatArray]:
        """The rows of the training data, and their weights."""
        return self.states[: self.n_rows], self.weights[0, : self.n_rows]

    @property
    def mean_weight(self) -> float:
        """The mean weight of the training rows, one if there are none."""
        return float(self.weights[0].sum()) / self.n_rows if self.n_rows else 1.0

    @property
    def is_complete(self) -> bool:
        """Whether no value is missing."""
        return not (self.states == MISSING).any()

    def pair_counts(self) -> PairCounts:
        """How often the states of two variables occur together in the training data."""
        return PairCounts(self.train[0], self.cardinalities, self.train[1])

    def distinct(self) -> Data:
        """The distinct rows of all sets, with the sums of their weights."""
        rows, weights, first = distinct_rows(self.states, self.weights, self.cardinalities)
        return replace(self, states=rows, weights=weights, first=first)

    def named(self, circuit: Circuit) -> Circuit:
        """The circuit with the names and states of the data."""
        return circuit if self.schema is None else circuit.with_schema(self.schema)


class Totals(NamedTuple):
    """The number of all rows; the weight of all, the largest, and the sizes of chunks in use."""

    n_rows: int
    weight: float
    largest: float
    sizes: list[int]


@dataclass(eq=False)
class Rows:
    """Rows with weights, all in memory: one chunk."""

    evidence: Evidence
    weights: Any
    numbers: Any  # in the data as given
    n_given: int = 0  # how many rows there were with those of weight zero
    parts: list[slice] | None = None  # those that the E-step takes at once

    def chunks(self) -> Iterator[tuple[str, Rows]]:
        """What errors call every chunk, and its rows."""
        yield "", self

    def summed(self, function: Callable[[Rows], Any], add: Callable[[Any, Any], Any]) -> Any:
        """The results of a function of chunks, added up."""
        return function(self)

    @property
    def totals(self) -> Totals:
        """What is known of all chunks."""
        n, largest = len(self.weights), float(self.weights.max(initial=0.0))
        return Totals(self.n_given or n, float(self.weights.sum()), largest, [n] if n else [])


@dataclass(eq=False)
class ChunkedRows:
    """Rows that are read chunk by chunk, as often as needed: see `Rows`."""

    X: Any
    schema: Schema
    sample_weight: Any

    def chunks(self) -> Iterator[tuple[str, Rows]]:
        """What errors call every chunk, and its rows that have weights."""
        return each_chunk(partial(_chunk_rows, self.schema, self.sample_weight), self.X)

    def summed(self, function: Callable[[Rows], Any], add: Callable[[Any, Any], Any]) -> Any:
        """The results of a function of chunks, added up; None if there are no chunks."""
        work = partial(_of_chunk, function, self.schema, self.sample_weight)
        return summed(work, self.X, add)

    @cached_property
    def totals(self) -> Totals:
        """What is known of all chunks, by a pass over them."""
        found = [rows.totals for _, rows in self.chunks()]
        n_rows, weight = sum(x.n_rows for x in found), sum(x.weight for x in found)
        require_rows(n_rows)
        require_weight(weight)
        largest = max(x.largest for x in found)
        return Totals(n_rows, weight, largest, [n for x in found for n in x.sizes])


def rows_of(
    schema: Schema, X: Any, sample_weight: Any = None, what: str = ""
) -> Rows | ChunkedRows:
    """The rows of data as evidence on variables, without those of weight zero."""
    if is_stream(X):
        check_weighing(sample_weight)
        return ChunkedRows(X, schema, sample_weight)
    evidence = as_evidence(X, schema, single=False)
    require_rows(evidence.n_rows, what)
    return _weighted_rows(evidence, as_weights(sample_weight, evidence.n_rows))


def require_rows(n: int, what: str = "") -> None:
    """Raise if there are no rows."""
    if n == 0:
        raise DataError(f"{what or 'EM needs at least one row of data'}. Got none.")


def _weighted_rows(evidence: Evidence, weights: FloatArray) -> Rows:
    numbers, n = np.flatnonzero(weights), evidence.n_rows
    some = evidence if len(numbers) == n else evidence.rows(numbers)
    return Rows(some, weights[numbers], numbers, n)


def _chunk_rows(schema: Schema, sample_weight: Any, chunk: Any) -> Rows:
    chunk, given = weighed(sample_weight, chunk)
    evidence = as_evidence(chunk, schema, single=False)
    return _weighted_rows(evidence, rounded_weights(given, evidence.n_rows))


def _of_chunk(function: Any, schema: Schema, sample_weight: Any, chunk: Any) -> Any:
    return function(_chunk_rows(schema, sample_weight, chunk))


@dataclass(frozen=True, eq=False)
class Step:
    """What an iterative fit has reached: a state, and how well that fits."""

    state: Any
    mean: float  # of the training rows
    valid: float | None = None  # what the best state is chosen by; None: the last one is the best
    size: int = field(default=1, kw_only=True)
    begins: bool = field(default=False, kw_only=True)  # whether patience counts anew


class Result(NamedTuple):
    """The state that a fit ends with, its score, and whether the user interrupted."""

    state: Any
    score: float
    interrupted: bool


def describe(number: int, step: Step) -> str:
    """What a bar says of a step."""
    valid = "" if step.valid is None else f", valid {step.valid:.4f}"
    return f"log-likelihood {step.mean:.4f}{valid}"


def train(
    steps: Iterable[Step],
    start: Any,
    bar: Any,
    *,
    score: float = -inf,
    patience: int | None = None,
    tolerance: float | None = None,
    callback: Callable[[Step], object] | None = None,
    text: Callable[[int, Step], str] = describe,
) -> Result:
    """Run a fit: the best state until it ends, does not get better, or the user interrupts.

    It stops after `patience` steps without a better score, or when the mean gains less than the
    tolerance.
    """
    best, highest, recent, before, waited = start, score, score, -inf, 0
    with bar:
        try:
            for number, step in enumerate(steps, 1):
                bar.set_postfix_str(text(number, step), refresh=False)
                bar.update(step.size)
                reached = step.mean if step.valid is None else step.valid
                waited += 1
                if step.valid is None or step.begins or reached > recent:
                    recent, waited = reached, 0
                if step.valid is None or reached > highest:
                    best, highest = step.state, reached
                if callback is not None:
                    callback(step)
                if waited == patience or (tolerance is not None and step.mean - before < tolerance):
                    break
                before = step.mean
        except KeyboardInterrupt:
            if not bar.disable:
                message = f"{bar.desc} was interrupted: returning the best circuit so far."
                bar.write(message, file=sys.stderr)
            return Result(best, highest, True)
    return Result(best, highest, False)


def with_nan(states: IntArray) -> FloatArray:
    """States as numbers, NaN where they are missing."""
    return np.where(states == MISSING, np.nan, states)


def read_data(
    X: Any, X_valid: Any, cardinalities: Any, sample_weight: Any, max_states: int = MAX_STATES
) -> Data:
    """The data as codes: the columns of data frames become variables with names and states.

    Text, categories and booleans become states in sorted order, or in that of the categories;
    integers are codes if they start at 0 with few gaps, and labels otherwise.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"sky": ["grey", "blue"], "cylinders": [4, 8]})
    >>> data = read_data(table, None, None, None)
    >>> data.schema.states, data.states.tolist()
    ((('blue', 'grey'), (4, 8)), [[1, 0], [0, 1]])
    """
    check_count("learning from data frames", "max_states", max_states, 2)
    X, X_valid, schema = as_table(X), as_table(X_valid), None
    if is_frame(X):
        X, X_valid, schema = _codes(X, X_valid, cardinalities, max_states)
        cardinalities = schema.cardinalities
    sets = [as_states(X)] if X_valid is None else [as_states(X), as_states(X_valid, "X_valid")]
    if not len(sets[-1]) and X_valid is not None:
        raise DataError("X_valid must have at least one row, or be None. Got no rows.")
    cards, n = as_cardinalities(cardinalities, *sets), len(sets[0])
    weights = np.zeros((len(sets), sum(map(len, sets))))
    weights[0, :n] = as_weights(sample_weight, n)
    weights[1:, n:] = 1.0
    return Data(np.concatenate(sets), weights, n, cards, schema)


def _codes(
    X: Any, X_valid: Any, cardinalities: Any, max_states: int
) -> tuple[FloatArray, Any, Schema]:
    """Data frames as arrays of codes with NaN, and what these stand for."""
    frames = [frame_columns(table) for table in (X, X_valid) if is_frame(table)]
    if len(frames) == 2 and [c.name for c in frames[0]] != [c.name for c in frames[1]]:
        plain = Schema((None,) * len(frames[0]), tuple(c.name for c in frames[0]))
        frames[1] = plain.ordered(frames[1], column_names(X_valid), "X_valid")
    if not frames[0]:
        raise DataError("X must have at least one column. Got a data frame without columns.")
    columns = [joint_column([frame[v] for frame in frames]) for v in range(len(frames[0]))]
    schema = schema_of(columns, column_names(X), cardinalities, max_states)
    codes, *more = [
        np.stack([schema.read_column(v, column) for v, column in enumerate(frame)], axis=1)
        for frame in frames
    ]
    if X_valid is not None and not more and schema.states is not None:
        raise DataError(
            "X is a data frame with labels, so X_valid must be a data frame, too: the codes of an "
            "array do not say what they stand for."
        )
    return codes, more[0] if more else X_valid, schema


def schema_of(columns: list[Any], names: Any, cardinalities: Any, max_states: int) -> Schema:
    """The schema of columns of states; raises if one holds something else."""
    given = None if cardinalities is None else _one_each(cardinalities, len(columns))
    schema = frame_schema(columns, names, given, max_states)
    for v, card in enumerate(schema.cardinalities):
        if card is None:
            require_states(columns[v], v)
            raise DataError(
                f"Column {v} ({columns[v].name!r}) of X has no values, so the number of its states "
                "is unknown. Give it with cardinalities=, or drop the column."
            )
    return schema


def _one_each(cardinalities: Any, n: int) -> list[int]:
    """One positive number per column."""
    cards: Any = [cardinalities] * n if is_int(cardinalities) else cardinalities
    cards = list(cards) if np.iterable(cards) else []
    if len(cards) != n or not all(is_int(c) and int(c) >= 1 for c in cards):
        raise DataError(
            f"The 'cardinalities' parameter must be a positive int, or one per column, {n} in all. "
            f"Got {cardinalities!r} instead."
        )
    return [int(c) for c in cards]


def require_states(column: Any, number: int) -> None:
    """Raise if a column of numbers holds some that are no states."""
    values = column.values
    odd = ~np.isnan(values) & ((values != np.floor(values)) | np.isinf(values))
    if odd.any():
        row = int(np.flatnonzero(odd)[0])
        refuse_entry(float(values[row]), row, number, "X", {number: column.name})


def as_states(X: Any, what: str = "X") -> IntArray:
    """The entries of a data matrix as integers, `MISSING` for NaN.

    Raises
    ------
    DataError
        If there are not rows and columns of non-negative integers, with the first offending entry
        and what to do about it.

    Examples
    --------
    >>> as_states([[0, 2.0], [float("nan"), 1]]).tolist()
    [[0, 2], [-1, 1]]
    """
    if isinstance(X, (str, bytes)):
        raise DataError(
            f"{what} must be a matrix of shape (rows, variables), one column per variable. "
            f"Got the text {X[:40]!r}; read files first, for instance with read_table."
        )
    refuse_rowless(X, f"{what} must be an array")
    names = getattr(X, "columns", None)
    if sparse.issparse(X):
        X = X.toarray()
    if isinstance(X, np.ma.MaskedArray):  # what is masked is missing
        X = np.where(np.ma.getmaskarray(X), np.array(None), X.data)
    try:
        rows = np.asarray(to_numpy(X) if hasattr(X, "detach") else X)
    except ValueError:
        rows = np.empty(0)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise DataError(
            f"{what} must be a matrix of shape (rows, variables), one column per variable. "
            f"Got shape {rows.shape}."
            + (" A single column is X.reshape(-1, 1), or X.to_frame()." if rows.ndim == 1 else "")
        )
    if rows.dtype.kind in "USO":
        rows = _from_objects(rows, what, names)
    if rows.dtype.kind not in "biuf":
        raise DataError(f"{what} must hold integers 0, 1, 2, ... Got entries of type {rows.dtype}.")
    values = rows.astype(np.float64)
    missing = np.isnan(values)
    bad = ~missing & ~((values >= 0) & (values < 2**31) & (values == np.floor(values)))
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        refuse_entry(rows[row, column], row, column, what, names)
    return np.where(missing, MISSING, values).astype(np.intp)


def _from_objects(rows: Any, what: str, names: Any) -> Any:
    """Numbers that came as Python objects; text is refused."""
    rows, values = rows.astype(object), np.full(rows.shape, np.nan)
    text = []
    for place in np.ndindex(rows.shape):
        entry = rows[place]
        if isinstance(entry, (RealNumber, np.bool_)):
            values[place] = entry
        elif not is_missing(entry):
            text.append((*place, entry))
    if text:
        # text beside numbers turns a whole array into text: point at an entry that is no number
        row, column, entry = next((item for item in text if not _is_number(item[2])), text[0])
        refuse_entry(entry, row, column, what, names)
    return values


def _is_number(text: Any) -> bool:
    try:
        float(text)
    except (TypeError, ValueError):
        return False
    return True


def refuse_entry(entry: Any, row: int, column: int, what: str, names: Any) -> None:
    """Say which entry is no state, and what to do about it."""
    place = f"row {row}, column {column}"
    if names is not None:
        place += f" ({names[column]!r})"
    found = f"{entry}"
    if not isinstance(entry, (RealNumber, np.bool_)):
        found = f"{entry!r}"
        advice = (
            "Encode categories as integers first, for instance with scikit-learn's OrdinalEncoder."
        )
        if _is_number(entry):
            advice = "That is text: convert it to numbers first, for instance by X.astype(float)."
    elif entry < 0:
        advice = "Codes start at 0, and a missing value is written as NaN."
    elif isfinite(float(entry)) and float(entry).is_integer():
        advice = "That is too large for a code of a state."
    else:
        advice = (
            "Discretise real values first, for instance with KBinsDiscretizer(encode='ordinal') "
            "of scikit-learn."
        )
    raise DataError(
        f"{what} must hold the states of discrete variables, coded as integers 0, 1, 2, ... "
        f"(NaN: missing). Got {found} in {place}. {advice}"
    )


def as_cardinalities(
    cardinalities: Any, states: IntArray, *more: IntArray, what: str = "X"
) -> tuple[int, ...]:
    """The number of states of every variable: as given, or one more than the largest code.

    An inferred cardinality is at least two, so that a column of zeros is a binary variable whose
    other state was not seen.

    Examples
    --------
    >>> as_cardinalities(None, np.array([[0, 3], [0, 1]]))
    (2, 4)
    """
    n = states.shape[1]
    for other in more:
        if other.shape[1] != n:
            raise DataError(
                f"All data must have the same columns. Got {n} and {other.shape[1]} columns."
            )
    largest = np.max([part.max(axis=0, initial=MISSING) for part in (states, *more)], axis=0)
    if cardinalities is None:
        _warn_of_codes_from_one(states, largest, what)
        return _inferred(largest, what)
    cards = _one_each(cardinalities, n)
    above = np.flatnonzero(largest >= np.asarray(cards))
    if len(above):
        column = int(above[0])
        raise DataError(
            f"Column {column} of {what} must hold integers in 0..{cards[column] - 1}, by its "
            f"cardinality. Got {int(largest[column])}."
        )
    return tuple(cards)


def _warn_of_codes_from_one(states: IntArray, largest: Any, what: str) -> None:
    """Warn if codes look as if they started at 1: no row has the state 0, all others are seen."""
    for column in np.flatnonzero(largest >= 2).tolist():
        seen = np.unique(states[:, column])
        seen = seen[seen != MISSING]
        if len(seen) and seen[0] == 1 and len(seen) == seen[-1]:
            warnings.warn(
                f"Column {column} of {what} holds the codes 1..{int(seen[-1])} and no 0, so state "
                "0 is taken for a state that was not seen. If codes start at 1, subtract one; if "
                "this is meant, give cardinalities=.",
                stacklevel=5,
            )
            return


def _inferred(largest: Any, what: str) -> tuple[int, ...]:
    unseen, many = np.flatnonzero(largest < 0), np.flatnonzero(largest >= MANY_STATES)
    if len(unseen):
        raise DataError(
            f"Column {int(unseen[0])} of {what} has no values, so the number of its states is "
            "unknown. Give it with cardinalities=."
        )
    if len(many):
        raise DataError(
            f"Column {int(many[0])} of {what} holds codes up to {int(largest[many[0]])}. If it is "
            "an identifier or a measurement, drop or discretise it; if it has so many states, "
            "give cardinalities=."
        )
    return tuple(int(c) for c in np.maximum(largest + 1, 2))


def as_weights(sample_weight: Any, n_rows: int) -> FloatArray:
    """The weights of the rows, ones by default, rounded so that their sums are exact.

    They become multiples of a power of two which is so small that nothing is lost against the
    sum of all, and so large that sums of them are exact whatever the order. Flows
    that are equal are then equal to the last bit, and ties are ties.

    Examples
    --------
    >>> as_weights(None, 3).tolist()
    [1.0, 1.0, 1.0]
    """
    weights = rounded_weights(sample_weight, n_rows)
    if n_rows:
        require_weight(float(weights.sum()))
    return weights


def require_weight(total: float) -> None:
    """Raise unless weights have a sum that can be divided by."""
    if not 0 < total < inf:
        raise DataError(
            f"The 'sample_weight' parameter must have a positive, finite sum. Got {total}."
        )


def rounded_weights(sample_weight: Any, n_rows: int) -> FloatArray:
    """What `as_weights` gives, of some rows of all: they may all have the weight zero."""
    if sample_weight is None:
        return np.ones(n_rows)
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"The 'sample_weight' parameter must be {n_rows} numbers, one per row. "
            f"NumPy says: {error}"
        ) from error
    if weights.shape != (n_rows,) or not np.isfinite(weights).all() or (weights < 0).any():
        raise DataError(
            f"The 'sample_weight' parameter must be {n_rows} finite numbers that are not negative, "
            f"one per row. Got an array of shape {weights.shape}"
            + ("." if weights.shape != (n_rows,) else " with other entries.")
        )
    total = float(weights.sum())
    unit = 2.0 ** (frexp(total)[1] - 52) if 0 < total < inf else 1.0
    return np.round(weights / unit) * unit


def distinct_rows(
    states: IntArray, weights: FloatArray, cardinalities: Sequence[int]
) -> tuple[IntArray, FloatArray, IntArray]:
    """The distinct rows, in the order of their states, the sums of their weights, and the first.

    The last are the numbers that these rows have among the given ones, where they come first.
    Weights have shape (sets, rows).

    Examples
    --------
    >>> rows, weights, first = distinct_rows(np.array([[1], [0], [1]]), np.ones((1, 3)), [2])
    >>> rows.tolist(), weights.tolist(), first.tolist()
    ([[0], [1]], [[1.0, 2.0]], [1, 0])
    """
    key = np.zeros(len(states), dtype=np.int64)
    n_keys = 1
    for column, cardinality in zip(states.T, cardinalities, strict=True):
        if n_keys * (cardinality + 1) >= 2**62:
            distinct, key = np.unique(key, return_inverse=True)
            n_keys = max(len(distinct), 1)
        key = key * (cardinality + 1) + (column - MISSING)
        n_keys *= cardinality + 1
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    sums = [np.bincount(place, w, minlength=len(first)) for w in weights]
    return states[first], np.stack(sums), first


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


MOST_DISTINCT = 100_000
"""A column with more distinct values holds no states."""


@dataclass(frozen=True, eq=False)
class DataInChunks:
    """Rows to learn from that are read chunk by chunk.

    Attributes
    ----------
    X : object
        Where they come from.
    cardinalities : tuple of int
    schema : Schema or None
        The names and states of the columns of data frames.
    is_complete : bool
        Whether no value is missing.
    sample_weight : str, callable or None
        How the weights of rows are found: see `weighed`.
    mean_weight : float
    """

    X: Any
    cardinalities: tuple[int, ...]
    schema: Schema | None
    is_complete: bool
    sample_weight: Any = None
    mean_weight: float = 1.0

    def pair_counts(self) -> PairCounts:
        """How often the states of two variables occur together in all chunks."""
        count = partial(_pair_counts, replace(self, X=None))  # workers need no rows but theirs
        found: PairCounts | None = summed(count, self.X, PairCounts.__add__)
        return used_up() if found is None else found

    def named(self, circuit: Circuit) -> Circuit:
        """The circuit with the names and states of the data."""
        return circuit if self.schema is None else circuit.with_schema(self.schema)


def used_up() -> Any:
    """Raise because there are no chunks any more."""
    raise DataError(
        "Data in chunks are read more than once, and the second time there were none. A "
        "function must return a new iterable every time it is called."
    )


@dataclass(frozen=True, eq=False)
class _Seen:
    """The distinct values of every column, whether some are missing, and what rows weigh."""

    columns: list[FrameColumn]
    names: tuple[str, ...] | None
    is_frame: bool
    is_complete: bool
    n_rows: int
    weight: float


def read_chunks(
    X: Any, cardinalities: Any, sample_weight: Any, max_states: int, name: str
) -> DataInChunks:
    """What columns of data in chunks hold, by one pass over them.

    Examples
    --------
    >>> data = read_chunks(lambda: [[[0, 2]], [[1, float("nan")]]], None, None, 100, "learn")
    >>> data.cardinalities, data.is_complete
    ((2, 3), False)
    """
    check_weighing(sample_weight)
    seen: _Seen | None = summed(partial(_seen, sample_weight), X, _joined)
    if seen is None:
        raise DataError(f"{name} needs at least one chunk of data. Got none.")
    if seen.n_rows:
        require_weight(seen.weight)
    schema = None
    if seen.is_frame:
        schema = schema_of(seen.columns, seen.names, cardinalities, max_states)
        cards: Any = tuple(schema.cardinalities)
    else:
        width = max(len(column.values) for column in seen.columns)
        states = np.full((width, len(seen.columns)), MISSING, dtype=np.intp)
        for v, column in enumerate(seen.columns):
            states[: len(column.values), v] = column.values
        cards = as_cardinalities(cardinalities, states)
    mean = seen.weight / seen.n_rows if seen.n_rows else 1.0
    return DataInChunks(X, cards, schema, seen.is_complete, sample_weight, mean)


def check_weighing(sample_weight: Any) -> None:
    """Raise unless the weights of rows can be found chunk by chunk."""
    if not (sample_weight is None or isinstance(sample_weight, str) or callable(sample_weight)):
        raise DataError(
            "With data in chunks the 'sample_weight' parameter is the name of a column of data "
            "frames, or a function from a chunk to the weights of its rows. "
            f"Got {type(sample_weight).__name__} instead."
        )


def weighed(sample_weight: str | Callable[[Any], Any] | None, chunk: Any) -> tuple[Any, Any]:
    """A chunk without a column of weights, and the weights of its rows, None if all weigh one.

    Examples
    --------
    >>> import pandas as pd
    >>> rows, weights = weighed("w", pd.DataFrame({"a": [0, 1], "w": [2.0, 0.5]}))
    >>> rows.names, weights.tolist()
    (('a',), [2.0, 0.5])
    """
    chunk = as_table(chunk)
    if sample_weight is None:
        return chunk, None
    if callable(sample_weight):
        return chunk, sample_weight(chunk)
    if not is_frame(chunk):
        raise DataError(
            f"The weights of rows are in the column {sample_weight!r}, and arrays have no names of "
            "columns. Give data frames, or a function from a chunk to weights as 'sample_weight'."
        )
    columns, names = frame_columns(chunk), column_names(chunk)
    own = next((column for column in columns if column.name == sample_weight), None)
    if own is None:
        found = ", ".join(repr(column.name) for column in columns[:20])
        raise DataError(f"There is no column {sample_weight!r} of weights. Columns are {found}.")
    rest = tuple(column for column in columns if column is not own)
    kept = None if names is None else tuple(column.name for column in rest)
    return Columns(rest, kept), own.values


def _seen(sample_weight: Any, chunk: Any) -> _Seen:
    chunk, given = weighed(sample_weight, chunk)
    if not is_frame(chunk):
        states = as_states(chunk, "A chunk")
        columns = [
            FrameColumn(str(v), "number", _distinct_codes(column))
            for v, column in enumerate(states.T)
        ]
        n, weight = len(states), _weight(given, len(states))
        return _Seen(columns, None, False, not (states == MISSING).any(), n, weight)
    columns = frame_columns(chunk)
    n = len(columns[0].values) if columns else 0
    missing = False
    for v, column in enumerate(columns):
        if column.kind == "number":
            require_states(column, v)
            missing |= bool(np.isnan(column.values).any())
        else:
            missing |= None in column.values
        columns[v] = _distinct(column)
    return _Seen(columns, column_names(chunk), True, not missing, n, _weight(given, n))


def _weight(given: Any, n_rows: int) -> float:
    """What all rows of a chunk weigh."""
    return float(n_rows) if given is None else float(rounded_weights(given, n_rows).sum())


def _distinct(column: FrameColumn) -> FrameColumn:
    """The column with every value once, and none that is missing."""
    if column.kind != "number":
        labels = [x for x in dict.fromkeys(column.values) if x is not None]
        return FrameColumn(column.name, column.kind, labels, column.categories)
    x = column.values[~np.isnan(column.values)]
    small = bool(len(x)) and x.min() >= 0 and x.max() < MOST_DISTINCT
    values = _distinct_codes(x.astype(np.intp)).astype(np.float64) if small else np.unique(x)
    return FrameColumn(column.name, "number", values)


def _distinct_codes(column: IntArray) -> IntArray:
    """The distinct codes of a column."""
    if not len(column) or column.max() >= MOST_DISTINCT:
        found = np.unique(column)
        return found[found != MISSING]
    return np.flatnonzero(np.bincount(column + 1)[1:])


def _joined(a: _Seen, b: _Seen) -> _Seen:
    """What two chunks hold together."""
    if a.is_frame != b.is_frame or len(a.columns) != len(b.columns):
        raise DataError(
            "All chunks must be data frames, or all arrays, with the same columns. Got chunks of "
            f"{len(a.columns)} and {len(b.columns)} columns."
        )
    others = b.columns
    if a.is_frame:
        plain = Schema((None,) * len(others), tuple(column.name for column in a.columns))
        others = plain.ordered(others, b.names, "A chunk")
    columns = [_distinct(joint_column(pair)) for pair in zip(a.columns, others, strict=True)]
    for column in columns:
        if len(column.values) > MOST_DISTINCT:
            raise DataError(
                f"The column {column.name!r} has more than {MOST_DISTINCT} distinct values, which "
                "are no states. Drop or bin it."
            )
    complete, n = a.is_complete and b.is_complete, a.n_rows + b.n_rows
    return _Seen(columns, a.names, a.is_frame, complete, n, a.weight + b.weight)


def _pair_counts(data: DataInChunks, chunk: Any) -> PairCounts:
    chunk, given = weighed(data.sample_weight, chunk)
    if data.schema is not None:
        chunk = data.schema.read_frame(chunk, "A chunk")
    states = as_states(chunk, "A chunk")
    as_cardinalities(data.cardinalities, states, what="a chunk")
    weights = rounded_weights(given, len(states))
    return PairCounts(states, data.cardinalities, weights, data.is_complete)


def moments(variables: Sequence[int], rows: Rows) -> Any:
    """For every variable the number, the mean and the squared deviations of its values."""
    found = np.zeros((3, len(variables)))
    for i, v in enumerate(variables):
        column = rows.evidence.column(v)
        x = column.values[column.codes]
        x = x[~np.isnan(x)]
        if len(x):
            found[:, i] = len(x), x.mean(), len(x) * x.var()
    return found


def joint_moments(a: Any, b: Any) -> Any:
    """The moments of two chunks together."""
    n = np.maximum(a[0] + b[0], 1.0)
    shift = b[1] - a[1]
    squares = a[2] + b[2] + shift**2 * a[0] * b[0] / n
    return np.stack([a[0] + b[0], a[1] + shift * b[0] / n, squares])
