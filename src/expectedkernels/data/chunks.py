"""Data in chunks: files, lazy frames and functions that return them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from importlib import import_module
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import ArrayLike

from expectedkernels.arrays import Array
from expectedkernels.checks import CircuitError, DataError, check_count
from expectedkernels.data.tables import Columns, is_frame


def is_source(X: Any) -> bool:
    """Whether it is a dataset or an open Parquet file of pyarrow, or a lazy frame of polars.

    Examples
    --------
    >>> import polars as pl
    >>> is_source(pl.LazyFrame({"a": [1]})), is_source(pl.DataFrame({"a": [1]}))
    (True, False)
    """
    kind = type(X)
    if _library(kind) == "polars":
        return hasattr(kind, "collect_batches")
    return _library(kind) == "pyarrow" and (
        hasattr(kind, "scanner") or hasattr(kind, "iter_batches")
    )


def _library(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def read_source(X: Any, rows: int, columns: Sequence[str] | None) -> Iterator[Any]:
    """Frames of some rows each, of all columns or of these.

    Examples
    --------
    >>> import polars as pl
    >>> lazy = pl.LazyFrame({"a": range(5), "b": range(5)})
    >>> [part.shape for part in read_source(lazy, 3, ["b"])]
    [(3, 1), (2, 1)]
    """
    kind, names = type(X), None if columns is None else list(columns)
    if hasattr(kind, "collect_batches"):
        chosen = X if names is None else X.select(names)
        found = chosen.collect_batches(chunk_size=rows, maintain_order=True)
    elif hasattr(kind, "iter_batches"):
        found = X.iter_batches(batch_size=rows, columns=names)
    else:
        found = X.to_batches(batch_size=rows, columns=names)
    return (as_chunk(part) for part in found if len(part))


def as_chunk(X: Any) -> Any:
    """A batch of records of pyarrow as a table; everything else as it is."""
    kind = type(X)
    if _library(kind) != "pyarrow" or hasattr(kind, "to_batches"):
        return X
    return import_module("pyarrow").Table.from_batches([X]) if hasattr(kind, "schema") else X


ROWS = 2**16
"""How many rows of a file, or of an array, are a chunk."""
BUNDLE = 32
"""Of how many chunks of a Dask collection the counts are asked for at once."""

Pathlike = str | PathLike[str]
StreamLike = Pathlike | Sequence[Pathlike] | Callable[[], Iterable[Any]]
"""Rows that can be read more than once, in chunks: Parquet files, a function that returns an
iterable of arrays or data frames, or (not seen by type checkers) a list of data frames, a Dask
array or data frame, a dataset of pyarrow, or a lazy frame of polars."""
WeightsLike = ArrayLike | Callable[[Any], ArrayLike]
"""How much rows count: a number each; of data in chunks, the name of a column, or a function."""


def over_chunks(
    function: Callable[[Array], Array],
    data: StreamLike | Iterable[Array],
    *,
    columns: Sequence[str] | None = None,
    chunk_rows: int = ROWS,
    n_jobs: int | None = None,
) -> Iterator[Array] | Array:
    """The results of a function of rows for data that need not fit into memory, chunk by chunk.

    Parameters
    ----------
    function : callable
        From a table of some rows to what is wanted of them: `circuit.log_likelihood`,
        `model.predict`, `imputer.transform`.
    data : path, paths, Dask array or data frame, array, data frame, or iterable of chunks
        Parquet files (or a folder of them) are read a few rows at a time, by pyarrow, and come as
        its tables, as are its datasets and lazy frames of polars. Arrays (also memory-mapped
        ones) and frames are cut into chunks; iterables of arrays or frames, and functions that
        return such an iterable, say themselves what a chunk is.
    columns : sequence of str, optional
        Those of Parquet files, datasets and lazy frames to read. Default: all.
    chunk_rows : int
        How many rows of a file or an array are a chunk.
    n_jobs : int, optional
        Number of threads, or of workers of the backend that `joblib.parallel_config` names: they
        may be processes, or machines, and read files themselves.

    Returns
    -------
    iterator, or Dask array
        The results in the order of the chunks, each computed when it is due. Chunks, and so the
        numbers, do not depend on the workers. For a Dask collection a lazy Dask array (a data
        frame if the function returns one of pandas, a tuple if it returns a tuple), for which only
        the first row is computed at once.

    Raises
    ------
    DataError
        When the first result is asked for, if there is nothing to be read. Errors of the function
        say in which chunk they occur, those of others than this library by a note.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.5, 0.5], [0.2, 0.8]])
    >>> X = np.array([[0, 1], [1, 0], [1, 1]])
    >>> [logs.round(2).tolist() for logs in ek.over_chunks(p.log_likelihood, X, chunk_rows=2)]
    [[-0.92, -2.3], [-0.92]]
    """
    check_count("over_chunks", "chunk_rows", chunk_rows, 1)
    if is_dask(data):
        return _lazily(function, data)
    parts = parts_of(data, chunk_rows, None if columns is None else tuple(columns))
    return _some(_one_by_one(partial(_called, function), parts, n_jobs))


def _some(results: Iterator[tuple[str, Any]]) -> Iterator[Any]:
    """The results without names of chunks; raises if there are none."""
    found = False
    for _, result in results:
        found = True
        yield result
    if not found:
        raise DataError(
            "There is nothing to be read: the data have no rows, or are an iterator that has been "
            "used up. Give a function that returns a new one to read them again."
        )


def each_chunk(function: Callable[[Any], Any], data: Any) -> Iterator[tuple[str, Any]]:
    """What errors call every chunk, and the result of a function of it, in their order."""
    work = partial(_called, function)
    if is_dask(data):
        return chain.from_iterable(_computed(partial(_listed, work), data, 2))
    return _one_by_one(work, parts_of(data, ROWS, None), None)


def summed(function: Callable[[Any], Any], data: Any, add: Callable[[Any, Any], Any]) -> Any:
    """The results of a function of chunks, added up in their order; None if there are none."""
    work = partial(_sum, function, add)
    if is_dask(data):
        found = _computed(work, data, BUNDLE)
    else:
        found = _in_order(work, parts_of(data, ROWS, None), None)
    return _total(add, found)


def is_stream(X: Any) -> bool:
    """Whether data come in chunks, and can be read more than once.

    Examples
    --------
    >>> is_stream("rows.parquet"), is_stream([[0, 1]]), is_stream(lambda: iter([]))
    (True, False, True)
    """
    if isinstance(X, (list, tuple)) and X and all(map(is_frame, X)):
        return True
    given = callable(X) and not hasattr(X, "shape")
    return paths_of(X) is not None or is_dask(X) or is_source(X) or given


def is_dask(X: Any) -> bool:
    """Whether an object is an array or a data frame of Dask."""
    kind = type(X)
    return hasattr(kind, "__dask_graph__") and hasattr(kind, "to_delayed")


def paths_of(X: Any) -> list[Any] | None:
    """The paths of Parquet files that are given, one or several; None if it is something else."""
    several = list(X) if isinstance(X, (list, tuple)) else [X]
    are_paths = (
        isinstance(x, PathLike) or (isinstance(x, str) and x.endswith(".parquet")) for x in several
    )
    return several if several and all(are_paths) else None


@dataclass(frozen=True, eq=False)
class AtHand:
    """A chunk that is held in memory, and what errors call it."""

    rows: Any
    name: str

    def chunks(self) -> Iterator[tuple[str, Any]]:
        """The chunk, with its name."""
        yield self.name, as_chunk(self.rows)


@dataclass(frozen=True)
class RowGroup:
    """Rows of a Parquet file that lie together: workers are sent this, and read the rows."""

    path: str
    number: int
    first: int
    size: int
    columns: tuple[str, ...]

    def chunks(self) -> Iterator[tuple[str, Any]]:
        """Tables of some rows each, with their names."""
        pyarrow, parquet = _pyarrow()
        first = self.first
        with parquet.ParquetFile(self.path) as file:
            for batch in file.iter_batches(self.size, [self.number], list(self.columns)):
                # files may hold the same columns in other orders
                table = pyarrow.Table.from_batches([batch]).select(list(self.columns))
                yield f"the rows of {self.path} from row {first} on", table
                first += len(table)


Part = AtHand | RowGroup


def parts_of(data: Any, rows: int, columns: tuple[str, ...] | None) -> Iterator[Part]:
    """What is handed to workers, one after the other."""
    paths = [data] if isinstance(data, str) else paths_of(data)
    if paths is not None:
        yield from _row_groups(paths, rows, columns)
        return
    if is_source(data):
        chunks: Iterable[Any] = read_source(data, rows, columns)
    elif columns is None:
        chunks = _given(data, rows)
    else:
        raise DataError("The 'columns' parameter is for Parquet files. Select columns of the data.")
    for i, chunk in enumerate(chunks):
        yield AtHand(chunk, f"chunk {i}")


def _given(data: Any, rows: int) -> Iterable[Any]:
    """The chunks of data that are no files."""
    if is_frame(data) and not isinstance(data, Columns):
        import narwhals.stable.v1 as nw

        frame = nw.from_native(data, eager_only=True)
        return (frame[i : i + rows].to_native() for i in range(0, len(frame), rows))
    if hasattr(data, "shape"):
        return (data[i : i + rows] for i in range(0, len(data), rows))
    found = data() if callable(data) else data
    if not isinstance(found, Iterable):
        raise DataError(
            "Data in chunks are paths of Parquet files, a Dask array or data frame, a dataset of "
            "pyarrow, a lazy frame of polars, or an iterable of arrays or data frames (or a "
            f"function that returns one). Got {type(found).__name__} instead."
        )
    return found


def _row_groups(
    paths: Iterable[Pathlike], rows: int, columns: tuple[str, ...] | None
) -> Iterator[RowGroup]:
    _, parquet = _pyarrow()
    for path in _files(paths):
        with parquet.ParquetFile(path) as file:
            names = tuple(file.schema_arrow.names)
            columns = names if columns is None else columns
            missing = [name for name in columns if name not in names]
            if missing:
                raise DataError(
                    f"{path} has no column {missing[0]!r}. It has {', '.join(names[:20])}."
                )
            sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        for i, first in enumerate(np.cumsum([0, *sizes])[:-1].tolist()):
            yield RowGroup(path, i, first, rows, columns)


def _files(paths: Iterable[Pathlike]) -> Iterator[str]:
    """The Parquet files that paths name; those in a folder by their names."""
    for path in map(Path, paths):
        found = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not found or not all(file.is_file() for file in found):
            raise DataError(
                f"{path} is no Parquet file, and no folder with files called *.parquet. Give the "
                "path of one, or several paths."
            )
        yield from map(str, found)


def _pyarrow() -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise DataError(
            "Parquet files are read by pyarrow, which is not installed. Install it, or give an "
            "iterable of arrays or data frames."
        ) from error


def _in_order(work: Any, parts: Iterator[Part], n_jobs: int | None) -> Iterator[Any]:
    """What workers make of parts, in the order of these; few parts are held at a time."""
    workers = effective_n_jobs(n_jobs)
    if workers == 1:
        yield from map(work, parts)
        return
    options = {"n_jobs": n_jobs, "prefer": "threads"}
    try:
        parallel = Parallel(return_as="generator", **options)
    except ValueError:  # not every backend gives results as they come
        parallel = Parallel(**options)
        while bundle := list(islice(parts, 4 * workers)):
            yield from parallel(delayed(work)(part) for part in bundle)
        return
    yield from parallel(delayed(work)(part) for part in parts)


def _one_by_one(work: Any, parts: Iterator[Part], n_jobs: int | None) -> Iterator[Any]:
    """All that generators give for parts; alone, one after the other when they are due."""
    if effective_n_jobs(n_jobs) == 1:
        return chain.from_iterable(map(work, parts))
    return chain.from_iterable(_in_order(partial(_listed, work), parts, n_jobs))


def _listed(work: Any, part: Part) -> list[Any]:
    return list(work(part))


def _sum(function: Any, add: Any, part: Part) -> Any:
    return _total(add, (found for _, found in _called(function, part)))


def _total(add: Any, found: Iterable[Any]) -> Any:
    kept = (one for one in found if one is not None)
    first = next(kept, None)
    return reduce(add, kept, first)


def _called(function: Any, part: Part) -> Iterator[tuple[str, Any]]:
    """The names of the chunks of a part, and the function of every one; errors name the chunk."""
    for name, rows in part.chunks():
        with naming(name):
            found = function(rows)
        yield name, found


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Errors in here say in which chunk they occur."""
    try:
        yield
    except CircuitError as error:
        raise type(error)(f"In {name}: {error}") from error
    except Exception as error:
        error.add_note(f"In {name}.")
        raise


def _dask_parts(X: Any) -> list[Any]:
    """The chunks of a Dask collection, not computed yet."""
    if hasattr(X, "columns"):
        return list(X.to_delayed())
    if X.ndim != 2:
        raise DataError(f"A Dask array must have shape (rows, variables). Got {X.ndim} axes.")
    return list(X.rechunk({1: -1}).to_delayed()[:, 0])


def _computed(work: Any, X: Any, size: int) -> Iterator[Any]:
    """What Dask's workers make of chunks, some at a time, in the order of these."""
    dask: Any = import_module("dask")
    tasks = (_on_chunk(work, rows, i) for i, rows in enumerate(_dask_parts(X)))
    while bundle := list(islice(tasks, size)):
        yield from dask.compute(*bundle)


def _on_chunk(work: Any, rows: Any, number: int) -> Any:
    dask: Any = import_module("dask")
    return dask.delayed(_work_on)(work, rows, f"chunk {number}", pure=False)


def _work_on(work: Any, rows: Any, name: str) -> Any:
    return work(AtHand(rows, name))


def _lazily(function: Any, X: Any) -> Any:
    """The results for a Dask collection as a Dask array, or several."""
    arrays: Any = import_module("dask.array")
    first = X.head(1, npartitions=-1) if hasattr(X, "columns") else X[:1].compute()
    sample = function(first)
    sizes = [np.nan] * X.npartitions if hasattr(X, "columns") else X.chunks[0]
    whole = [_on_chunk(partial(_only, function), rows, i) for i, rows in enumerate(_dask_parts(X))]

    def joined(parts: list[Any], like: Any) -> Any:
        if hasattr(like, "iloc"):
            return import_module("dask.dataframe").from_delayed(parts, meta=like.iloc[:0])
        like = np.asarray(like)
        every = [
            arrays.from_delayed(part, (size, *like.shape[1:]), like.dtype)
            for part, size in zip(parts, sizes, strict=True)
        ]
        return arrays.concatenate(every, allow_unknown_chunksizes=True)

    if not isinstance(sample, tuple):
        return joined(whole, sample)
    return tuple(joined([part[i] for part in whole], like) for i, like in enumerate(sample))


def _only(function: Any, part: Part) -> Any:
    return next(_called(function, part))[1]
