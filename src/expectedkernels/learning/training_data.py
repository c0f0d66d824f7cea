"""Training data in memory and in chunks, counts of pairs, and the loop of iterative fits."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import frexp, inf
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import xlogy

from expectedkernels.arrays import namespace
from expectedkernels.checks import DataError, SizeError, check_count, is_int
from expectedkernels.data import tables
from expectedkernels.data.chunks import each_chunk, is_stream, summed
from expectedkernels.data.evidence import Evidence, as_evidence
from expectedkernels.data.schema import Schema, frame_schema, joint_column
from expectedkernels.data.tables import FrameColumn, is_frame

IntArray = np.ndarray[Any, np.dtype[np.intp]]
FloatArray = np.ndarray[Any, np.dtype[np.float64]]

MISSING = -1
"""The state of a value that is not observed."""
MANY_STATES = 1000
"""A column with larger codes is more likely an identifier or a measurement than a category."""
MAX_STATES = 100
"""How many distinct labels a column may have by default."""
VALID = "X_valid must have at least one row, or be None"
MOST_DISTINCT = 100_000
"""A column with more distinct values holds no states."""


@dataclass(eq=False)
class Rows:
    """Rows with positive weights that are in memory together."""

    evidence: Evidence
    weights: Any
    numbers: Any  # in the data as given
    n_given: int  # how many rows there were with those of weight zero

    @cached_property
    def states(self) -> IntArray:
        """The rows as integers."""
        return as_states(self.evidence.values)


class Data:
    """Rows to learn from, as evidence on variables: in one chunk, or read chunk by chunk.

    `needed` is what to say if there are no rows at all, if they are needed.
    """

    def __init__(self, schema: Schema, X: Any, sample_weight: Any = None, needed: str = "") -> None:
        self.schema, self.needed = schema, needed
        self.X = X if is_stream(X) else None
        if self.X is not None:
            self._read = partial(_chunk_rows, schema, check_weighing(sample_weight))
            return
        self.held = _rows(schema, X, sample_weight)
        if needed:
            require_rows(self.held.n_given, needed)
        if self.held.n_given:
            require_weight(float(self.held.weights.sum()))

    def in_memory(self, what: str) -> Rows:
        """All rows; raises if they come in chunks."""
        if self.X is not None:
            raise DataError(f"{what} must be rows in memory. Got data in chunks; give an array.")
        return self.held

    def chunks(self) -> Iterator[tuple[str, Rows]]:
        """What errors call every chunk, and its rows."""
        return iter([("", self.held)]) if self.X is None else each_chunk(self._read, self.X)

    def summed(self, function: Callable[[Rows], Any], add: Callable[[Any, Any], Any]) -> Any:
        """The results of a function of chunks, added up; None if there are no chunks."""
        if self.X is None:
            return function(self.held)
        return summed(partial(_of_chunk, function, self._read), self.X, add)

    @cached_property
    def totals(self) -> tuple[int, float, float, list[int]]:
        """The number and weight of all rows, the largest weight, and the sizes of chunks in use."""
        chunks = [(rows.n_given, rows.weights) for _, rows in self.chunks()]
        n_rows, weight = sum(n for n, _ in chunks), sum(float(w.sum()) for _, w in chunks)
        require_rows(n_rows, self.needed)
        require_weight(weight)
        sizes = [len(w) for _, w in chunks if len(w)]
        return n_rows, weight, max(float(w.max(initial=0.0)) for _, w in chunks), sizes

    def pair_counts(self, complete: bool) -> PairCounts:
        """How often the states of two variables occur together; told whether all is complete."""
        count = partial(_pair_counts, self.schema.cardinalities, complete)
        found = self.summed(count, PairCounts.__add__)
        if found is None:
            used_up()
        if found.n_rows:
            require_weight(found.weight)
        return found


def _rows(schema: Schema, X: Any, sample_weight: Any) -> Rows:
    evidence = as_evidence(X, schema, single=False)
    weights = as_weights(sample_weight, evidence.n_rows)
    numbers, n = np.flatnonzero(weights), evidence.n_rows
    some = evidence if len(numbers) == n else evidence.rows(numbers)
    return Rows(some, weights[numbers], numbers, n)


def _chunk_rows(schema: Schema, sample_weight: Any, chunk: Any) -> Rows:
    return _rows(schema, *weighed(sample_weight, chunk))


def _of_chunk(function: Any, read: Any, chunk: Any) -> Any:
    return function(read(chunk))


def _pair_counts(cardinalities: Any, complete: bool, rows: Rows) -> PairCounts:
    return PairCounts(rows.states, cardinalities, rows.weights, complete, rows.n_given)


def require_rows(n: int, needed: str = "") -> None:
    """Raise if there are no rows."""
    if n == 0:
        raise DataError(f"{needed or 'EM needs at least one row of data'}. Got none.")


def used_up() -> Any:
    """Raise because there are no chunks any more."""
    raise DataError(
        "Data in chunks are read more than once, and the second time there were none. A "
        "function must return a new iterable every time it is called."
    )


def as_states(rows: Any) -> IntArray:
    """Numbers as states, `MISSING` for NaN.

    Examples
    --------
    >>> as_states(np.array([[0, 2.0], [np.nan, 1]])).tolist()
    [[0, 2], [-1, 1]]
    """
    missing = np.isnan(rows)
    return (np.where(missing, MISSING, rows) if missing.any() else rows).astype(np.intp)


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
                message = f"{bar.desc} was interrupted: returning the best model so far."
                bar.write(message, file=sys.stderr)
            return Result(best, highest, True)
    return Result(best, highest, False)


@dataclass(frozen=True, eq=False)
class _Seen:
    """The distinct values of every column, and whether some are missing."""

    columns: list[FrameColumn]
    names: tuple[str, ...] | None
    is_frame: bool
    is_complete: bool


def read_data(
    X: Any,
    X_valid: Any,
    cardinalities: Any,
    sample_weight: Any,
    max_states: int,
    name: str,
    needed: str = "",
) -> tuple[Data, Data | None, bool]:
    """The data as codes, also those for validation, and whether no value is missing.

    The columns of data frames become variables with names and states. Text, categories and
    booleans become states in sorted order, or in that of the categories; integers are codes if
    they start at 0 without many left out, and labels otherwise.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"sky": ["grey", "blue"], "cylinders": [4, 8]})
    >>> data, _, _ = read_data(table, None, None, None, 100, "learn")
    >>> data.schema.states, data.held.states.tolist()
    ((('blue', 'grey'), (4, 8)), [[1, 0], [0, 1]])
    >>> data, _, complete = read_data(lambda: [[[0, 2]], [[1, None]]], *[None] * 3, 100, "learn")
    >>> data.schema.cardinalities, complete
    ((2, 3), False)
    """
    check_count("learning from data frames", "max_states", max_states, 2)
    if is_stream(X):
        seen = summed(partial(_seen_in_chunk, check_weighing(sample_weight)), X, _merge)
        if seen is None:
            raise DataError(f"{name} needs at least one chunk of data. Got none.")
    else:
        seen = _seen(X := as_rows(X, "X"), "X")
    if X_valid is not None:
        seen = _merge(seen, _seen(X_valid := as_rows(X_valid, "X_valid"), "X_valid"))
    schema = _schema(seen, cardinalities, max_states)
    valid = None if X_valid is None else Data(schema, X_valid, None, VALID)
    return Data(schema, X, sample_weight, needed), valid, seen.is_complete


def as_rows(X: Any, what: str) -> Any:
    """A data frame as it is, everything else as a matrix of numbers."""
    X = tables.as_table(X)
    if is_frame(X):
        return X
    rows = tables.as_floats(X.toarray() if sparse.issparse(X) else X)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise DataError(
            f"{what} must be a matrix of shape (rows, variables), one column per variable. "
            f"Got shape {rows.shape}."
            + (" A single column is X.reshape(-1, 1), or X.to_frame()." if rows.ndim == 1 else "")
        )
    return rows


def _seen_in_chunk(sample_weight: Any, chunk: Any) -> _Seen:
    return _seen(as_rows(weighed(sample_weight, chunk)[0], "A chunk"), "A chunk")


def _seen(X: Any, what: str) -> _Seen:
    """What the columns of a data frame, or of a matrix, hold; raises if some are no states."""
    framed, complete, distinct = is_frame(X), True, []
    if framed:
        columns = tables.frame_columns(X)
    else:
        arrays = enumerate(np.ascontiguousarray(X.T))
        columns = [FrameColumn(str(v), "number", x) for v, x in arrays]
    if not columns:
        raise DataError(f"{what} must have at least one column. Got a data frame without columns.")
    for v, column in enumerate(columns):
        place = f"column {v}" + f" ({column.name!r})" * framed
        if column.kind == "number":
            _check_states(column.values, what, place, framed)
        complete &= not column.missing.any()
        distinct.append(_distinct(column))
    return _Seen(distinct, tables.column_names(X) if framed else None, framed, complete)


def _distinct(column: FrameColumn) -> FrameColumn:
    """The column with every value once, and none that is missing."""
    values: Any = column.distinct
    values = np.array(values, dtype=np.float64) if column.kind == "number" else values
    return FrameColumn(column.name, column.kind, values, column.categories)


def _check_states(x: Any, what: str, place: str, framed: bool) -> None:
    """Raise if numbers are no integers, or (of arrays, which have no labels) no codes of states."""
    low, high = (-inf, inf) if framed else (0, 2**31)
    bad = ~np.isnan(x) & ((x != np.floor(x)) | np.isinf(x) | (x < low) | (x >= high))
    if not bad.any():
        return
    row = int(np.argmax(bad))
    advice = (
        "Discretise real values first, for instance with KBinsDiscretizer(encode='ordinal') of "
        "scikit-learn."
    )
    if x[row] < 0:
        advice = "Codes start at 0, and a missing value is written as NaN."
    elif x[row] == np.floor(x[row]) < inf:
        advice = "That is too large for a code of a state."
    raise DataError(
        f"{what} must hold the states of discrete variables, coded as integers 0, 1, 2, ... "
        f"(NaN: missing). Got {x[row]:.15g} in row {row}, {place}. {advice}"
    )


def _merge(a: _Seen, b: _Seen) -> _Seen:
    """What two tables hold together."""
    if len(a.columns) != len(b.columns):
        raise DataError(
            "All data must have the same columns. Got "
            f"{len(a.columns)} and {len(b.columns)} columns."
        )
    others = b.columns
    if a.is_frame != b.is_frame:
        frame = a if a.is_frame else b
        if frame_schema(frame.columns, None, None, MOST_DISTINCT).states is not None:
            raise DataError(
                "If X is a data frame with labels, so must be X_valid and all chunks: the codes of "
                "an array do not say what they stand for."
            )
    elif a.is_frame:
        plain = Schema((None,) * len(others), tuple(column.name for column in a.columns))
        others = plain.ordered(others, b.names, "A part of the data")
    columns = [_distinct(joint_column(pair)) for pair in zip(a.columns, others, strict=True)]
    for column in columns:
        if len(column.values) > MOST_DISTINCT:
            raise DataError(
                f"The column {column.name!r} has more than {MOST_DISTINCT} distinct values, which "
                "are no states. Drop or bin it."
            )
    return _Seen(columns, a.names, a.is_frame, a.is_complete and b.is_complete)


def _schema(seen: _Seen, cardinalities: Any, max_states: int) -> Schema:
    """The numbers of states, as given or found, and the names and labels of data frames."""
    columns, n = seen.columns, len(seen.columns)
    cards: Any = [cardinalities] * n if is_int(cardinalities) else cardinalities
    if cards is not None:
        cards = list(cards) if np.iterable(cards) else []
        if len(cards) != n or not all(is_int(c) and int(c) >= 1 for c in cards):
            raise DataError(
                "The 'cardinalities' parameter must be a positive int, or one per column, "
                f"{n} in all. Got {cardinalities!r} instead."
            )
        cards = list(map(int, cards))
    if seen.is_frame:
        schema = frame_schema(columns, seen.names, cards, max_states)
    else:
        schema = Schema(tuple(_inferred([x.values for x in columns]) if cards is None else cards))
    for v, (card, column) in enumerate(zip(schema.cardinalities, columns, strict=True)):
        name = f"Column {v}" + f" ({column.name!r})" * seen.is_frame + " of X"
        if card is None:
            raise DataError(
                f"{name} has no values, so the number of its states is unknown. Give it with "
                "cardinalities=, or drop the column."
            )
        is_code = column.kind == "number" and schema.labels(v) is None and len(column.values)
        if is_code and column.values[-1] >= card:
            raise DataError(
                f"{name} must hold integers in 0..{card - 1}, by its cardinality. "
                f"Got {column.values[-1]:g}."
            )
    return schema


def _inferred(columns: list[Any]) -> list[int | None]:
    """One more than the largest of the distinct codes of every column; None if there are none.

    A column of zeros is a binary variable whose other state was not seen.
    """
    largest = [int(codes[-1]) if len(codes) else -1 for codes in columns]
    for v, (most, codes) in enumerate(zip(largest, columns, strict=True)):
        if most >= MANY_STATES:
            raise DataError(
                f"Column {v} of X holds codes up to {most}. If it is an identifier or a "
                "measurement, drop or discretise it; if it has so many states, give "
                "cardinalities=."
            )
        if most >= 2 and codes[0] == 1 and len(codes) == most:
            warnings.warn(
                f"Column {v} of X holds the codes 1..{most} and no 0, so state 0 is taken for a "
                "state that was not seen. If codes start at 1, subtract one; if this is meant, "
                "give cardinalities=.",
                stacklevel=5,
            )
            break
    return [None if most < 0 else max(2, most + 1) for most in largest]


def require_weight(total: float) -> None:
    """Raise unless weights have a sum that can be divided by."""
    if not 0 < total < inf:
        raise DataError(
            f"The 'sample_weight' parameter must have a positive, finite sum. Got {total}."
        )


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


def check_weighing(sample_weight: Any) -> Any:
    """The weights of rows of chunks; raises unless they can be found chunk by chunk."""
    if not (sample_weight is None or isinstance(sample_weight, str) or callable(sample_weight)):
        raise DataError(
            "With data in chunks the 'sample_weight' parameter is the name of a column of data "
            "frames, or a function from a chunk to the weights of its rows. "
            f"Got {type(sample_weight).__name__} instead."
        )
    return sample_weight


def weighed(sample_weight: str | Callable[[Any], Any] | None, chunk: Any) -> tuple[Any, Any]:
    """A chunk without a column of weights, and the weights of its rows, None if all weigh one.

    Examples
    --------
    >>> import pandas as pd
    >>> rows, weights = weighed("w", pd.DataFrame({"a": [0, 1], "w": [2.0, 0.5]}))
    >>> rows.names, weights.tolist()
    (('a',), [2.0, 0.5])
    """
    chunk = tables.as_table(chunk)
    if sample_weight is None:
        return chunk, None
    if callable(sample_weight):
        return chunk, sample_weight(chunk)
    if not is_frame(chunk):
        raise DataError(
            f"The weights of rows are in the column {sample_weight!r}, and arrays have no names of "
            "columns. Give data frames, or a function from a chunk to weights as 'sample_weight'."
        )
    columns, names = tables.frame_columns(chunk), tables.column_names(chunk)
    rest = tuple(column for column in columns if column.name != sample_weight)
    if len(rest) == len(columns):
        found = ", ".join(repr(column.name) for column in columns[:20])
        raise DataError(f"There is no column {sample_weight!r} of weights. Columns are {found}.")
    kept = None if names is None else tuple(column.name for column in rest)
    return tables.Columns(rest, kept), next(x.values for x in columns if x.name == sample_weight)


def distinct_keys(keys: Sequence[tuple[Any, int]]) -> tuple[Any, Any]:
    """A row of every distinct combination of keys, in their order, and the place of all rows.

    Keys are integers from 0 on, with how many there may be.

    Examples
    --------
    >>> [x.tolist() for x in distinct_keys([(np.array([1, 0, 1]), 2), (np.array([2, 2, 2]), 3)])]
    [[1, 0], [1, 0, 1]]
    """
    total, size = np.zeros(len(keys[0][0]), dtype=np.int64), 1
    for key, n in keys:
        if size * n >= 2**62:  # ranked anew before they leave the range of integers
            distinct, total = np.unique(total, return_inverse=True)
            size = max(len(distinct), 1)
        total, size = total * n + key, size * n
    _, first, place = np.unique(total, return_index=True, return_inverse=True)
    return first, place


def distinct_rows(sets: Sequence[Rows], cardinalities: Any) -> tuple[FloatArray, FloatArray]:
    """The distinct rows of all sets in the order of their states, NaN first.

    Also the sums of their weights, (sets, rows).

    Examples
    --------
    >>> rows = Data(Schema((2,)), [[1], [0], [1]]).held
    >>> [x.tolist() for x in distinct_rows([rows], [2])]
    [[[0.0], [1.0]], [[1.0, 2.0]]]
    """
    states = np.concatenate([rows.states for rows in sets])
    sizes = [cardinality + 1 for cardinality in cardinalities]
    first, place = distinct_keys([*zip(states.T - MISSING, sizes, strict=True)])
    places = np.split(place, np.cumsum([len(rows.weights) for rows in sets])[:-1])
    pairs = zip(places, sets, strict=True)
    sums = [np.bincount(at, rows.weights, minlength=len(first)) for at, rows in pairs]
    found = states[first]
    return np.where(found == MISSING, np.nan, found), np.stack(sums)


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
    can be added, if all know whether the whole is `complete`. `n_rows` are those that weights
    are a mean over, by default all.

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
        n_rows: int | None = None,
    ) -> None:
        self.cardinalities = np.asarray(cardinalities, dtype=np.intp)
        self.start = np.concatenate([[0], np.cumsum(self.cardinalities)])
        self.n_rows = len(states) if n_rows is None else n_rows
        complete = not (states == MISSING).any() if complete is None else complete
        n = int(self.start[-1])
        if 8 * n**2 > MOST_BYTES:
            raise SizeError(
                f"Counting all pairs of {n} states ({len(self.cardinalities)} variables) takes "
                f"{8 * n**2 / 2**30:.1f} GiB, more than {MOST_BYTES / 2**30:.3g} GiB. Put rare "
                "states together, drop columns, or fit the weights of a given structure with em, "
                "which counts no pairs."
            )
        # Without missing values the first state of a variable is where all others are not: its
        # counts follow by subtraction, and the products of matrices have a fraction of the size.
        drop = int(complete)
        variable = np.repeat(np.arange(len(self.cardinalities)), self.cardinalities - drop)
        state = np.concatenate([np.arange(drop, c) for c in self.cardinalities])
        gram = _gram(states, weights, variable, state.astype(states.dtype))
        self.weight = float(gram[0, 0])
        self.table = gram[1:, 1:]
        if complete:
            self.table = self._expanded(self._expanded(gram).T)

    def _expanded(self, part: FloatArray) -> FloatArray:
        """Counts along the constant and all states but the first, as counts along all states."""
        full = np.empty((int(self.start[-1]), part.shape[1]))
        zero, several = self.start[:-1], self.cardinalities > 1
        others = np.ones(len(full), dtype=np.bool_)
        others[zero] = False
        full[others], full[zero] = part[1:], part[0]
        if several.any():
            at = (zero - np.arange(len(zero)))[several]
            full[zero[several]] -= np.add.reduceat(part[1:], at, axis=0)
        return full

    def __add__(self, other: PairCounts) -> PairCounts:
        found = copy(self)
        found.table = self.table + other.table
        found.weight, found.n_rows = self.weight + other.weight, self.n_rows + other.n_rows
        return found

    @property
    def mean_weight(self) -> float:
        """The mean weight of the rows, one if there are none."""
        return self.weight / self.n_rows if self.n_rows else 1.0

    def pair(self, i: int, j: int) -> FloatArray:
        """Counts of the states of variable i (rows) with those of variable j."""
        start = self.start
        return self.table[start[i] : start[i + 1], start[j] : start[j + 1]]

    def single(self, i: int) -> FloatArray:
        """Counts of the states of variable i."""
        return self.pair(i, i).diagonal()


def _gram(states: IntArray, weights: FloatArray, variable: IntArray, state: IntArray) -> FloatArray:
    """Weighted inner products of a constant column and the indicators of states of variables."""
    n = len(state) + 1
    total = np.zeros((n, n))
    step = max(1, CHUNK // n)
    # sums that are exact in single precision are twice as fast there
    single = weights.sum() < 2**24 and (weights == np.floor(weights)).all()
    plain = bool((weights == 1).all())  # then the matrix product is symmetric: half the work
    for begin in range(0, len(states), step):
        rows = states[begin : begin + step]
        indicators = np.ones((len(rows), n), dtype=np.float32 if single else np.float64)
        np.equal(rows[:, variable], state, out=indicators[:, 1:])
        scaled = indicators
        if not plain:
            scaled = indicators * weights[begin : begin + step, None].astype(indicators.dtype)
        total += scaled.T @ indicators
    return total


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
    every, start = counts.cardinalities, counts.start[:-1]
    joint, alone = np.empty((2, len(every), len(every)))
    inverse = 1.0 / np.repeat(every, every)
    few = max(1, CHUNK // (len(inverse) * int(every.max())))
    for begin in range(0, len(every), few):  # consecutive variables, with all variables
        cards, some = every[begin : begin + few], slice(begin, begin + few)
        first, inside = start[begin], start[some] - start[begin]
        share = np.repeat(1.0 / cards, cards)
        prior = 4.0 * alpha * (share[:, None] * inverse)
        smoothed = counts.table[first : first + len(share)] + prior
        per_state = np.add.reduceat(smoothed, start, axis=1)
        total = np.add.reduceat(per_state, inside, axis=0)
        total[total == 0] = 1.0  # no data and no pseudocounts: no information
        spread = np.repeat(total, cards, axis=0)
        P = smoothed / np.repeat(spread, every, axis=1)
        cells = np.add.reduceat(xlogy(P, P), inside, axis=0)
        joint[some] = np.add.reduceat(cells, start, axis=1)
        marginal = per_state / spread
        alone[some] = np.add.reduceat(xlogy(marginal, marginal), inside, axis=0)
    result = joint - alone - alone.T
    result = np.maximum((result + result.T) / 2, 0.0)
    np.fill_diagonal(result, 0.0)
    return result


def row_sums(terms: Any) -> Any:
    """The sums over the last axis, which stays."""
    return terms.sum(axis=-1)[..., None]


def group_sums(group: Any) -> Callable[[Any], Any]:
    """The function from numbers to the sums of their groups, these given by their numbers."""
    return lambda numbers: np.bincount(group, numbers)[group]


def fit_weights(
    counts: Any,
    beta: Any,
    sums: Callable[[Any], Any] = row_sums,
    old: Any = None,
    step: Any = 1.0,
    floor: float | None = None,
) -> Any:
    """The weights that make counts most likely: shares of the counts of their groups.

    (n + beta / k) / (total + beta) in a group of k. `sums` leads from numbers to the sums of their
    groups. Zeros among the old weights (by default equal ones) stay zero, and are none of the k.
    Groups without counts and pseudocounts keep their old weights. A `step` is how far weights
    move. With a `floor` they stay above it: what one batch does not use is not lost for others.

    Examples
    --------
    >>> fit_weights(np.array([[3.0, 0.0], [0.0, 0.0]]), beta=1.0).tolist()
    [[0.875, 0.125], [0.5, 0.5]]
    """
    xp = namespace(counts)
    if old is None:
        old = xp.ones_like(counts)
        old = old / sums(old)
    alive = xp.astype(old > 0, old.dtype)
    if not isinstance(beta, float) or beta > 0:
        counts = counts + beta * alive / sums(alive).clip(min=1.0)
    total = sums(counts)
    # where there is nothing to divide by, one does for what is not used
    found = xp.where(total > 0, counts / xp.where(total > 0, total, xp.ones_like(total)), old)
    if not isinstance(step, float) or step != 1.0:
        found = old + step * (found - old)
    if floor is not None:
        return found.clip(min=floor) * alive
    return xp.where((found > 0) & (total > 0), found.clip(min=SMALLEST_SHARE), found)
