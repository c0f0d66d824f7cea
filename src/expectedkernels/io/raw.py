"""Tables as people have them: numbers, text and holes, from CSV and Parquet files."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from importlib import import_module
from io import BytesIO
from typing import Any

import numpy as np

from expectedkernels.circuits.frames import Columns, FrameColumn, frame_columns
from expectedkernels.io.tables import MISSING_WORDS, delimiter_of, is_header, rows_of, value_of
from expectedkernels.io.text import PathLike, Source, checked_path, shown

PARQUET_MAGIC = b"PAR1"
DECIMAL_COMMA = re.compile(r"[+-]?\d*(\d|,\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
THOUSANDS = re.compile(r"[+-]?([1-9]\d{0,2}(,\d{3})+|\d+)", re.ASCII)


def _no_column(name: str) -> bool:
    return False


def read_raw(
    path: PathLike, data: bytes | None = None, verbatim: Callable[[str], bool] = _no_column
) -> Columns:
    r"""The columns of a CSV file (or one of its relatives, or gzipped), or of a Parquet file.

    Columns whose cells are all numbers are numbers, others are text. Decimal commas are read, with
    a warning, unless all of them could separate thousands. Empty cells, ``nan``, ``NA``, ``?`` and
    the like are missing values. The first line of a text file holds the names of the columns,
    unless all of its cells are numbers. Dates and times of Parquet files are text, as in CSV files.

    Parameters
    ----------
    path : path
        The file. Parquet files are recognised by their first bytes, and need pyarrow.
    data : bytes, optional
        What is in it, if it has been read already.
    verbatim : callable, optional
        Whether the column of a name is to be copied only: its cells stay as they are written.

    Returns
    -------
    Columns

    Raises
    ------
    ParseError
        If there are no rows, if a row has another number of cells, or if names are not distinct.

    Examples
    --------
    >>> table = read_raw("rain.csv", b"sky,hours\ngrey,1.5\nblue,\n")
    >>> table.names, table.columns[0].values, table.columns[1].values.tolist()
    (('sky', 'hours'), ['grey', 'blue'], [1.5, nan])
    """
    if data is None:
        with open(checked_path(path), "rb") as file:
            data = file.read()
    if data.startswith(PARQUET_MAGIC):
        return _read_parquet(Source(path, b""), data, verbatim)
    source = Source(path, data)
    rows = list(rows_of(source, delimiter_of(source)))
    header = bool(rows) and is_header([_with_point(cell) for cell in rows[0][1]])
    if len(rows) <= header:
        raise source.error(f"expected rows, found {'only a header' if header else 'an empty file'}")
    width = len(rows[0][1])
    for number, cells in rows:
        if len(cells) != width:
            raise source.error(f"expected {width} cells, found {len(cells)}", number)
    names = _names(source, rows[0][1]) if header else None
    entries = zip(*(cells for _, cells in rows[header:]), strict=True)
    called = names or tuple(map(str, range(width)))
    columns = []
    for name, entry in zip(called, entries, strict=True):
        if verbatim(name):
            columns.append(FrameColumn(name, "label", [cell or None for cell in entry]))
            continue
        columns.append(raw_column(name, entry))
        example = next((cell for cell in entry if "," in cell), None)
        if example is not None and columns[-1].kind == "number":
            warnings.warn(
                f"{source.path}: column {name!r} has decimal commas: {shown(example.strip())} is "
                f"read as {value_of(_with_point(example))}.",
                UserWarning,
                stacklevel=2,
            )
    return Columns(tuple(columns), names)


def _names(source: Source, cells: list[str]) -> tuple[str, ...]:
    names = tuple(cell.strip() or f"column {i + 1}" for i, cell in enumerate(cells))
    for name, cell in zip(names, cells, strict=True):
        if not cell.strip():
            warnings.warn(
                f"{source.path}: a column has no name, and is called {name!r}. If it numbers the "
                "rows, leave it out.",
                UserWarning,
                stacklevel=3,
            )
    _refuse_twice(source, names, 1)
    return names


def _refuse_twice(source: Source, names: Iterable[str], line: int | None = None) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        message = f"names of columns must be distinct, found {shown(twice[0])} twice"
        raise source.error(message, line)


def raw_column(name: str, cells: Iterable[str]) -> FrameColumn:
    """A column of cells: numbers, if all that are there are numbers.

    Examples
    --------
    >>> raw_column("size", ["3,14", "", "2"]).values.tolist()
    [3.14, nan, 2.0]
    >>> raw_column("price", ["1,234", "3,140"]).values  # or thousands?
    ['1,234', '3,140']
    """
    cells = list(cells)
    values = [value_of(cell) for cell in cells]
    words = [cell.strip() for cell in cells]
    present = [word for word in words if word.lower() not in MISSING_WORDS]
    if None in values and not all(map(THOUSANDS.fullmatch, present)):
        values = [value_of(_with_point(word)) for word in words]
    if None not in values:
        return FrameColumn(name, "number", np.array(values, dtype=np.float64))
    return FrameColumn(name, "label", [None if w.lower() in MISSING_WORDS else w for w in words])


def _with_point(cell: str) -> str:
    """A number with a decimal comma as one with a point, other cells as they are."""
    return cell.replace(",", ".") if DECIMAL_COMMA.fullmatch(cell.strip()) else cell


def pyarrow_for(path: str) -> tuple[Any, Any]:
    """The modules that read and write a Parquet file."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise ImportError(
            f"{path} is a Parquet file, which needs pyarrow: pip install pyarrow, or take CSV."
        ) from error


def _read_parquet(source: Source, data: bytes, verbatim: Callable[[str], bool]) -> Columns:
    pa, parquet = pyarrow_for(source.path)
    try:
        # threads of pyarrow that still run when a short command ends may abort it
        table = parquet.ParquetFile(BytesIO(data)).read(use_threads=False)
    except pa.ArrowException as error:
        raise source.error(f"the Parquet data is damaged or cut off ({error})") from error
    if not table.num_rows or not table.num_columns:
        raise source.error("expected rows, found an empty table")
    _refuse_twice(source, table.column_names)
    copied = {name: table[name].to_pylist() for name in set(table.column_names) if verbatim(name)}
    read = table.drop_columns(list(copied))
    for i, field in enumerate(read.schema):
        if pa.types.is_temporal(field.type) and not pa.types.is_duration(field.type):
            read = read.set_column(i, field.name, pa.array(_moments(read.column(i)), pa.string()))
    found = {column.name: column for column in frame_columns(read)} if len(read.schema) else {}
    found |= {name: FrameColumn(name, "label", values) for name, values in copied.items()}
    return Columns(tuple(found[name] for name in table.column_names), tuple(table.column_names))


def _moments(column: Any) -> list[str | None]:
    """Dates and times as text, without what is zero in all of them."""
    words = column.cast("string").to_pylist()
    for zeros in (r"\.0+(?=Z?$)", r" 00:00:00(?=Z?$)"):
        if all(word is None or re.search(zeros, word) for word in words):
            words = [None if word is None else re.sub(zeros, "", word) for word in words]
    return words
