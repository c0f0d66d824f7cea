"""Tables that other libraries read some rows at a time, as often as they are asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any


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
