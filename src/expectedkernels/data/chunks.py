"""Data in chunks: files, lazy frames and functions that return them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
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
from expectedkernels.checks import CircuitError, DataError, check_count, imported
from expectedkernels.data.tables import Columns, is_frame

SOURCES = {"polars": ("collect_batches",), "pyarrow": ("scanner", "iter_batches")}
"""The methods of what libraries read in chunks."""


def is_source(X: Any) -> bool:
    """Whether it is a dataset or an open Parquet file of pyarrow, or a lazy frame of polars.

    Examples
    --------
    >>> import polars as pl
    >>> is_source(pl.LazyFrame({"a": [1]})), is_source(pl.DataFrame({"a": [1]}))
    (True, False)
    """
    kind = type(X)
    methods = SOURCES.get(kind.__module__.partition(".")[0], ())
    return any(hasattr(kind, method) for method in methods)


def as_chunk(X: Any) -> Any:
    """A batch of records of pyarrow as a table; everything else as it is."""
    batch = type(X).__name__ == "RecordBatch"
    return import_module("pyarrow").Table.from_batches([X]) if batch else X


ROWS = 2**16
"""How many rows of a file, or of an array, are a chunk."""
PARQUET = "pyarrow.parquet", "pyarrow", DataError
"""The module that reads Parquet files, its package, and what is raised without it."""
BUNDLE = 32
"""Of how many chunks of a Dask collection the counts are computed at once."""

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
        may be processes, or other computers, and read files themselves.

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
        At the first result, if there is nothing to be read. Errors of the function
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
    return nonempty(each_chunk(function, data, n_jobs, rows=chunk_rows, columns=columns))


def nonempty(results: Iterator[tuple[str, Any]]) -> Iterator[Any]:
    """The results without names of chunks; raises if there are none."""
    first = next(results, None)
    if first is None:
        raise DataError(
            "There is nothing to be read: the data have no rows, or are an iterator that has been "
            "used up. Give a function that returns a new one to read them again."
        )
    yield first[1]
    yield from (result for _, result in results)


def each_chunk(
    function: Callable[[Any], Any],
    data: Any,
    n_jobs: int | None = None,
    at_once: int = 2,
    **reading: Any,
) -> Iterator[tuple[str, Any]]:
    """What errors call every chunk, and the result of a function of it, in their order.

    Few chunks are held at a time; Dask's workers are given so many at once.
    """
    if is_dask(data):
        dask: Any = import_module("dask")
        tasks = iter(_delayed(function, data))
        while bundle := list(islice(tasks, at_once)):
            yield from chain.from_iterable(dask.compute(*bundle))
        return
    parts, workers = _parts(data, **reading), effective_n_jobs(n_jobs)
    if workers == 1:
        for part in parts:
            yield from _apply(function, *part)
        return
    options = {"n_jobs": n_jobs, "prefer": "threads"}
    bundles: Iterable[Iterable[Part]] = [parts]
    try:
        parallel = Parallel(return_as="generator", **options)
    except ValueError:  # not every backend gives results as they come
        parallel = Parallel(**options)
        bundles = iter(lambda: list(islice(parts, 4 * workers)), [])
    for some in bundles:
        # as one object: arrays among arguments are scattered, and lost with a worker that dies
        work = (delayed(partial(_listed, function, *part))() for part in some)
        yield from chain.from_iterable(parallel(work))


def summed(function: Callable[[Any], Any], data: Any, add: Callable[[Any, Any], Any]) -> Any:
    """The results of a function of chunks, added up in their order; None if there are none."""
    results = (x for _, x in each_chunk(function, data, at_once=BUNDLE) if x is not None)
    first = next(results, None)
    return reduce(add, results, first)


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


Part = tuple[Any, ...]
"""What is handed to a worker: a function that gives named chunks, and its arguments."""


def _at_hand(rows: Any, name: str) -> Iterator[tuple[str, Any]]:
    """A chunk that is held in memory."""
    yield name, as_chunk(rows)


def _row_group(
    path: str, number: int, first: int, size: int, columns: Sequence[str]
) -> Iterator[tuple[str, Any]]:
    """Rows of a Parquet file that lie together: workers read them."""
    with imported(*PARQUET).ParquetFile(path) as file:
        for batch in file.iter_batches(size, [number], list(columns)):
            table = as_chunk(batch).select(list(columns))  # files may hold them in other orders
            yield f"the rows of {path} from row {first} on", table
            first += len(table)


def _parts(data: Any, rows: int = ROWS, columns: Sequence[str] | None = None) -> Iterator[Part]:
    """What is handed to workers, one after the other."""
    paths = [data] if isinstance(data, str) else paths_of(data)
    if paths is not None:
        for path in paths:
            yield from _row_groups(path, rows, columns)
        return
    for i, chunk in enumerate(_chunks(data, rows, columns)):
        yield _at_hand, chunk, f"chunk {i}"


def _chunks(data: Any, rows: int, columns: Sequence[str] | None) -> Iterable[Any]:
    """The chunks of data that are no files."""
    if is_source(data):
        names = None if columns is None else list(columns)
        if hasattr(data, "collect_batches"):
            chosen = data if names is None else data.select(names)
            batches = chosen.collect_batches(chunk_size=rows, maintain_order=True)
        else:
            read = data.iter_batches if hasattr(data, "iter_batches") else data.to_batches
            batches = read(batch_size=rows, columns=names)
        return (batch for batch in batches if len(batch))
    if columns is not None:
        raise DataError("The 'columns' parameter is for Parquet files. Select columns of the data.")
    if is_frame(data) and not isinstance(data, Columns):
        import narwhals.stable.v1 as nw

        frame = nw.from_native(data, eager_only=True)
        return (frame[i : i + rows].to_native() for i in range(0, len(frame), rows))
    if hasattr(data, "shape"):
        return (data[i : i + rows] for i in range(0, len(data), rows))
    found = data() if callable(data) else data
    if not isinstance(found, Iterable):
        raise DataError(
            "Data in chunks are Parquet files, a Dask collection, a pyarrow dataset, a lazy frame "
            f"of polars, or an iterable of arrays or frames. Got {type(found).__name__} instead."
        )
    return found


def _row_groups(path: Any, rows: int, columns: Sequence[str] | None) -> Iterator[Part]:
    """The row groups of a Parquet file, or of those in a folder, by their names."""
    files = sorted(Path(path).glob("*.parquet")) if Path(path).is_dir() else [Path(path)]
    if not files or not all(file.is_file() for file in files):
        raise DataError(
            f"{path} is no Parquet file, and no folder with files called *.parquet. Give the path "
            "of one, or several paths."
        )
    for name in map(str, files):
        with imported(*PARQUET).ParquetFile(name) as file:
            names = tuple(file.schema_arrow.names)
            columns = names if columns is None else columns
            missing = [column for column in columns if column not in names]
            if missing:
                raise DataError(
                    f"{name} has no column {missing[0]!r}. It has {', '.join(names[:20])}."
                )
            sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        for i, first in enumerate(np.cumsum([0, *sizes])[:-1].tolist()):
            yield _row_group, name, i, first, rows, columns


def _listed(*work: Any) -> list[tuple[str, Any]]:
    return list(_apply(*work))


def _apply(function: Any, read: Any, *part: Any) -> Iterator[tuple[str, Any]]:
    """The names of the chunks of a part, and the function of every one; errors name the chunk."""
    for name, rows in read(*part):
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


def _delayed(function: Any, X: Any) -> list[Any]:
    """What Dask's workers will find for the chunks of a collection: names and results."""
    dask: Any = import_module("dask")
    if hasattr(X, "columns"):
        chunks = X.to_delayed()
    elif X.ndim == 2:
        chunks = X.rechunk({1: -1}).to_delayed()[:, 0]
    else:
        raise DataError(f"A Dask array must have shape (rows, variables). Got {X.ndim} axes.")
    task = dask.delayed(_listed, pure=False)
    return [task(function, _at_hand, rows, f"chunk {i}") for i, rows in enumerate(chunks)]


def _lazily(function: Any, X: Any) -> Any:
    """The results for a Dask collection as a Dask array, or several."""
    arrays: Any = import_module("dask.array")
    first = X.head(1, npartitions=-1) if hasattr(X, "columns") else X[:1].compute()
    sample = function(first)
    sizes = [np.nan] * X.npartitions if hasattr(X, "columns") else X.chunks[0]
    whole = [found[0][1] for found in _delayed(function, X)]

    def concat(parts: list[Any], like: Any) -> Any:
        if hasattr(like, "iloc"):
            return import_module("dask.dataframe").from_delayed(parts, meta=like.iloc[:0])
        like = np.asarray(like)
        every = [
            arrays.from_delayed(part, (size, *like.shape[1:]), like.dtype)
            for part, size in zip(parts, sizes, strict=True)
        ]
        return arrays.concatenate(every, allow_unknown_chunksizes=True)

    if not isinstance(sample, tuple):
        return concat(whole, sample)
    return tuple(concat([part[i] for part in whole], like) for i, like in enumerate(sample))
