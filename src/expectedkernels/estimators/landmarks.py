"""Landmark (Nyström) models: features of rows, sums over chunks, closed-form leave-one-out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

import joblib
import narwhals.stable.v1 as nw
import numpy as np
from scipy.linalg import eigh
from sklearn.base import is_classifier
from sklearn.cluster import kmeans_plusplus

from expectedkernels.arrays import canonical_order, chosen_rows, row_keys, spans
from expectedkernels.checks import DataError, progress_bar
from expectedkernels.data.chunks import as_chunk, each_chunk, nonempty
from expectedkernels.data.tables import is_missing
from expectedkernels.estimators import encoding
from expectedkernels.estimators.kernel_expansion import FEWER_POINTS, Resources, distinct, table
from expectedkernels.learning.normals import one_thread

MANY_ROWS, LANDMARKS = 2_000, 500
"""From how many rows on "auto" takes landmarks, and how many."""
DRAWN = 10_000
"""So many rows are enough to learn densities, landmarks and bandwidths from."""
OF_CLASS = 50
"""So many rows of every class are among them, if there are as many."""
CHUNK_ROWS = 4_096
CANDIDATES = 10
"""Among how many rows each landmark is chosen, about."""
FLOOR = 1e-14
"""Eigenvalues of kernel matrices count as at least this share of the largest."""
LEAST = 1e-12
"""What errors are divided by is at least this: without regularization rows determine themselves."""


def inverse_root(kernels: Any) -> tuple[Any, Any]:
    """W with W' K W = 1, (rows, features), up to small eigenvalues; and the eigenvectors.

    Examples
    --------
    >>> root, vectors = inverse_root(np.diag([4.0, 1.0]))
    >>> np.abs(root @ vectors.T).tolist()
    [[0.5, 0.0], [0.0, 1.0]]
    """
    values, vectors = np.linalg.eigh(kernels)
    return vectors / np.sqrt(np.maximum(values, FLOOR * values.max())), vectors


def choose_landmarks(Z: Any, n: int, seed: int) -> Any:
    """The numbers of n rows that lie apart (k-means++), for rows and columns in any order.

    All rows that differ, if there are not as many.
    """
    # means of what is missing have rounding errors, which must not tell rows apart
    rough = np.round(Z / np.maximum(np.abs(Z).max(axis=0), np.finfo(np.float64).tiny), 9)
    first = distinct(rough)[0]
    some = first[chosen_rows(rough[first], CANDIDATES * n, seed)]
    if len(some) <= n:
        return some
    rows, columns = canonical_order(rough[some])
    return some[rows[kmeans_plusplus(Z[some][np.ix_(rows, columns)], n, random_state=seed)[1]]]


@dataclass(frozen=True, eq=False)
class Nystrom:
    """Features whose inner products approximate kernels: kernels with landmarks, times K^-1/2.

    Attributes
    ----------
    rates : array of shape (columns,)
    points : array of shape (landmarks, columns)
    root : array of shape (landmarks, features)
    """

    rates: Any
    points: Any
    root: Any

    @classmethod
    def of(cls, density: Any, rates: Any, points: Any, resources: Resources) -> Nystrom:
        """The features of given landmarks."""
        return cls(rates, points, inverse_root(density.gram(rates, points, None, resources))[0])

    def features(self, density: Any, Z: Any, resources: Resources) -> Any:
        """The expected features of rows, (rows, features)."""
        return density.gram(self.rates, Z, self.points, resources) @ self.root


@dataclass(frozen=True, eq=False)
class FeatureRidge:
    """Ridge regression on features, for every regularization strength by one decomposition.

    Attributes
    ----------
    values, vectors : arrays of shape (features,) and (features, features)
        Of A = F' D F, with the features F of rows and their weights D.
    moments : array of shape (features, outputs)
        F' D Y, with the targets Y, turned by the vectors.
    """

    values: Any
    vectors: Any
    moments: Any

    @classmethod
    def of(cls, gram: Any, moments: Any) -> FeatureRidge:
        """The one of given sums."""
        values, vectors = eigh(gram)
        return cls(np.maximum(values, 0.0), vectors, vectors.T @ moments)

    def inverse(self, alpha: float) -> Any:
        """The eigenvalues of (A + alpha)^-1."""
        return 1.0 / np.maximum(self.values + alpha, LEAST * self.values.max())

    def coef(self, alpha: float) -> Any:
        """The coefficients of features, (features, outputs)."""
        return self.vectors @ (self.inverse(alpha)[:, None] * self.moments)

    def leave_one_out(self, F: Any, targets: Any, copies: Any, alphas: Any) -> Any:
        """What fits without each row say of it, (alphas, rows, outputs).

        Without row i of weight c_i, the error is (y_i - f_i w) / (1 - c_i f_i (A + alpha)^-1 f_i).

        Parameters
        ----------
        F, targets : arrays of shape (rows, features) and (rows, outputs)
        copies : array of shape (rows,)
            The weights of rows together with those of all that are equal.
        alphas : array
        """
        shares, turned = np.stack([self.inverse(alpha) for alpha in alphas]), F @ self.vectors
        errors = targets - turned @ (shares[:, :, None] * self.moments)
        rest = 1.0 - copies[:, None] * (turned**2 @ shares.T)
        return targets - errors / np.maximum(rest, LEAST).T[:, :, None]

    def changes(self, others: Any, F: Any, alpha: float) -> Any:
        """How much the value at other features changes with the target of a row, (rows,).

        That is f~ (A + alpha)^-1 f, for rows of both arrays that belong together.
        """
        weighed = (others @ self.vectors) * self.inverse(alpha)
        return np.einsum("rq,rq->r", weighed, F @ self.vectors)


def row_contents(Z: Any, y: Any) -> list[bytes]:
    """What tells rows with targets apart."""
    rows = np.nan_to_num(np.column_stack([Z, y]), nan=np.inf, posinf=np.inf) + 0.0
    return [row.tobytes() for row in rows]  # NaN has several forms, and zero two


def feature_sums(features: Callable[[Any], Any], known: dict[bytes, int], *rows: Any) -> Any:
    """F' D F, F' D Y, and the weights of copies of rows that are known by their contents.

    Of rows with columns, targets and weights, as an array of arrays.
    """
    Z, y, weights = rows
    root, found = np.sqrt(weights)[:, None], np.empty(3, dtype=object)
    F = features(Z) * root
    place = [known.get(content, len(known)) for content in row_contents(Z, y)]
    copies = np.bincount(np.array(place, dtype=np.intp), weights, len(known) + 1)
    found[:] = F.T @ F, F.T @ (root * table(y)), copies
    return found


def kept_features(features: Callable[[Any], Any], Z: Any, *more: Any) -> list[tuple[Any, ...]]:
    """The features of rows, and what else belongs to these."""
    return [(features(Z), *more)]


@dataclass(frozen=True, eq=False)
class Source:
    """Rows to fit to, in memory, or in chunks that are read again for every step.

    Attributes
    ----------
    n_rows : int
    data : object
        Data in chunks.
    read : function
        From a chunk to standardised columns, targets and weights.
    """

    n_rows: int
    data: Any
    read: Callable[[Any], tuple[Any, ...]]

    @classmethod
    def of(cls, *rows: Any) -> Source:
        """Rows that are in memory."""
        every = spans(len(rows[0]), CHUNK_ROWS)
        return cls(len(rows[0]), lambda: (tuple(x[span] for x in rows) for span in every), tuple)

    def total(self, function: Callable[..., Any], n_jobs: int | None) -> Any:
        """The sum of a function of all rows, the same to the last bit for any number of workers."""
        total, work = None, partial(_chunk_total, function, self.read)
        with progress_bar(self.n_rows, "fit", unit="row") as bar:
            for n, part in nonempty(x for x in each_chunk(work, self.data, n_jobs) if x[1][0]):
                total = part if total is None else total + part
                bar.update(n)
        return total


@one_thread
def _chunk_total(function: Any, read: Any, chunk: Any) -> tuple[int, Any]:
    rows = read(chunk) if len(chunk) else [()]
    parts = (function(*(x[span] for x in rows)) for span in spans(len(rows[0]), CHUNK_ROWS))
    return len(rows[0]), reduce(add, parts) if len(rows[0]) else None


def choose_rows(Z: Any, seed: int, classes: Any, weights: Any) -> Any:
    """The numbers of the rows to learn from: all, if there are no more than a draw takes."""
    return np.arange(len(Z)) if len(Z) <= DRAWN else subsample(row_keys(Z, seed), classes, weights)


def subsample(keys: Any, classes: Any, weights: Any) -> Any:
    """Rows of the smallest keys: of all, of those of positive weight, and of every class."""
    code, zero = distinct(classes)[1], weights == 0
    every = np.split(np.lexsort((keys, zero, code)), np.cumsum(np.bincount(code)))
    most = np.argsort(keys)[:DRAWN], np.lexsort((keys, zero))[:DRAWN]
    return np.unique(np.concatenate([*most, *(x[:OF_CLASS] for x in every)]))


@dataclass(frozen=True, eq=False)
class Draw:
    """Some rows of data in chunks, drawn at random, and what the others hold.

    Attributes
    ----------
    n_rows : int
        How many rows there are.
    rows : data frame of narwhals, or array
        Those of the smallest keys, also of positive weight, and some of every class.
    labels : dict from columns to sets
        All that categorical columns hold.
    row_data : list of arrays of shape (rows,)
        Their keys, classes and weights.
    """

    n_rows: int
    rows: Any
    labels: dict[Any, set[Any]]
    row_data: list[Any]

    @classmethod
    def of(cls, n: int, rows: Any, labels: Any, *row_data: Any) -> Draw:
        """A draw from rows."""
        used = subsample(*row_data)
        return cls(n, rows[used], labels, [x[used] for x in row_data])

    def __add__(self, other: Draw) -> Draw:
        both, names = (self, other), {*self.labels, *other.labels}
        join: Any = nw.concat if isinstance(self.rows, nw.DataFrame) else np.concatenate
        labels = {x: set().union(*(draw.labels.get(x, ()) for draw in both)) for x in names}
        every = zip(self.row_data, other.row_data, strict=True)
        try:
            rows = join([x.rows for x in both])
        except Exception as error:  # libraries of frames have their own
            raise DataError(
                "All chunks must have the same columns, in one order and of the same types: "
                f"{str(error).strip()}. Select and cast them in every chunk."
            ) from error
        return Draw.of(self.n_rows + other.n_rows, rows, labels, *map(np.concatenate, every))


def draw_rows(estimator: Any, data: Any, target: Any, weight: Any) -> tuple[Draw, Any]:
    """Some rows of data in chunks, and the function that splits chunks into columns, y and weights.

    Targets and weights are columns, by name or number; a list of columns are several targets.
    """
    several = isinstance(target, list | tuple)
    wanted = [*(target if several else [target]), *([] if weight is None else [weight])]
    if wrong := [x for x in wanted if not isinstance(x, str | int | np.integer)]:
        raise DataError(
            "Of data in chunks, 'y' and 'sample_weight' must be its columns, by name or number. "
            f"Got {type(wrong[0]).__name__}. To give arrays, read the rows into memory first."
        )
    if estimator.n_landmarks is None:
        raise DataError(f"A model of data in chunks needs landmarks. {FEWER_POINTS}")
    split = partial(split_rows, wanted, several, weight is not None)
    draw = Source(0, data, as_rows)
    return draw.total(partial(_draw, estimator, split, estimator._seed()), estimator.n_jobs), split


def as_rows(chunk: Any) -> tuple[Any]:
    """A chunk as a data frame of narwhals, or as an array; nothing else is in the tuple."""
    rows = nw.from_native(as_chunk(chunk), eager_only=True, pass_through=True)
    return (rows if isinstance(rows, nw.DataFrame) else np.asarray(rows),)


def split_rows(wanted: list[Any], several: bool, weighted: bool, rows: Any) -> tuple[Any, ...]:
    """The columns to predict from, the targets and the weights of rows."""
    framed = isinstance(rows, nw.DataFrame)
    names = list(rows.columns if framed else range(rows.shape[1]))
    if absent := [x for x in wanted if x not in names]:
        raise DataError(f"There is no column {absent[0]!r}. Columns are {names[:20]}.")
    columns = [np.asarray(rows[:, names.index(x)]) for x in wanted]
    weights = columns.pop().astype(np.float64) if weighted else np.ones(len(rows))
    encoding.require_weights(weights)
    X = rows[:, [i for i, x in enumerate(names) if x not in wanted]]
    y = np.column_stack(columns) if several else columns[0]
    return X.to_native() if framed else X, y, weights


def _draw(estimator: Any, split: Callable[[Any], Any], seed: int, rows: Any) -> Draw:
    """Some of the rows, by keys that depend on targets."""
    (X, y, weights), by_class = split(rows), is_classifier(estimator)
    y = encoding.read_target(estimator, X, y, by_class, estimator._multi_output)
    keys = np.random.default_rng([seed, int(joblib.hash(y), 16)]).random(len(y))
    table = encoding.read_table(X, least=0)
    columns = {table.names[i]: i for i in encoding.categorical_columns(estimator, table)}
    labels = {x: {w for w in table.entries(i) if not is_missing(w)} for x, i in columns.items()}
    others = [i for i in range(len(table.columns)) if i not in columns.values()]
    if others:
        table.numbers(others, encoding.ADVICE, least=0)  # raises with the number of the row
    return Draw.of(len(y), rows, labels, keys, y if by_class else np.zeros(len(y)), weights)
