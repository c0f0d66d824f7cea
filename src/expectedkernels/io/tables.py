"""Tables of integer codes with missing values, separated by commas, semicolons, tabs or spaces."""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

import numpy as np

from expectedkernels.io.text import PathLike, Source, as_number, shown

MISSING_WORDS = frozenset(("", "?", "na", "n/a", "nan", "null", "none"))
"""What a cell without a value may hold, in any case."""
LARGEST_CODE = 2.0**53
DELIMITERS = (",", ";", "\t")


@dataclass(frozen=True, eq=False)
class DataTable:
    """Rows of integer codes.

    Attributes
    ----------
    X : array of shape (rows, columns)
        Floats; NaN where a value is missing.
    names : list of str, or None
        The names of the columns, if the file has a header.
    """

    X: Any
    names: list[str] | None


def read_table(path: PathLike) -> DataTable:
    """The rows of a file of integer codes, plain or compressed with gzip.

    Cells are separated by commas, semicolons, tabs or (if there are none of these) white space.
    Empty cells, ``nan``, ``NA``, ``?`` and the like are missing values. The first line is a
    header if one of its cells is neither a number nor missing.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    DataTable

    Raises
    ------
    ParseError
        If a row has another number of cells than the first one, or a cell is no code, with the
        line.

    Examples
    --------
    >>> import os, tempfile
    >>> from expectedkernels.io.text import write_text
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "data.csv")
    ...     write_text(path, ["size,color", "1,0", "2,"])
    ...     table = read_table(path)
    >>> table.names, table.X.tolist()
    (['size', 'color'], [[1.0, 0.0], [2.0, nan]])
    """
    source = Source(path)
    delimiter = delimiter_of(source)
    number, cells = next(rows_of(source, delimiter), (0, None))
    if cells is None:
        raise source.error("expected rows of integers, found an empty file")
    header = is_header(cells)
    names = [cell.strip() for cell in cells] if header else None
    X = _read_fast(source.text, delimiter, number if header else 0)
    if X is None or X.shape[1] != len(cells):
        X = _read_cells(source, delimiter, header)
    _check_codes(source, X, delimiter, header, names)
    return DataTable(X, names)


def delimiter_of(source: Source) -> str | None:
    """What separates the cells of a file, None for white space."""
    first = next((line for line in source.text.split("\n") if line.strip()), "")
    # a comma between digits may be a decimal one, if something else separates cells
    bare = re.sub(r"(?<=\d),(?=\d)", "", first)
    return next((d for d in DELIMITERS if d in bare), "," if "," in first else None)


def is_header(cells: Sequence[str]) -> bool:
    """Whether one of the cells of a first line is neither a number nor missing."""
    return any(value_of(cell) is None for cell in cells)


def rows_of(source: Source, delimiter: str | None) -> Iterator[tuple[int, list[str]]]:
    """Numbers of lines, from 1, and their cells, without blank lines."""
    if delimiter is None:
        for number, line in enumerate(source.text.split("\n"), 1):
            if line.strip():
                yield number, line.split()
        return
    reader = csv.reader(StringIO(source.text), delimiter=delimiter, skipinitialspace=True)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells) or len(cells) > 1:
                yield reader.line_num, cells
    except csv.Error as error:
        raise source.error(
            f"cannot tell cells apart ({error}); is a quote not closed?", reader.line_num
        ) from None


def value_of(cell: str) -> float | None:
    """The number in a cell, NaN if it is missing, None if it is something else."""
    word = cell.strip()
    if word.lower() in MISSING_WORDS:
        return np.nan
    return as_number(word)


def _read_fast(text: str, delimiter: str | None, skip: int) -> Any:
    """All rows at once, if there is nothing special about them; None otherwise."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of files without rows
        try:
            return np.loadtxt(
                StringIO(text), delimiter=delimiter, skiprows=skip, ndmin=2, comments=None
            )
        except (ValueError, UserWarning):
            return None


def _read_cells(source: Source, delimiter: str | None, header: bool) -> Any:
    """All rows, cell by cell."""
    X: list[list[Any]] = []
    names = None
    for number, cells in rows_of(source, delimiter):
        if header and names is None:
            names = cells
            continue
        wanted = len(X[0]) if X else len(cells if names is None else names)
        if len(cells) != wanted:
            raise source.error(f"expected {wanted} cells, found {len(cells)}", number)
        values = [value_of(cell) for cell in cells]
        if None in values:
            column = values.index(None)
            raise source.error(
                f"expected an integer code in column {column + 1}, found "
                f"{shown(cells[column])}; encode categories as 0, 1, 2, ... first",
                number,
            )
        X.append(values)
    return np.array(X, dtype=np.float64, ndmin=2) if X else np.empty((0, 1))


def _check_codes(
    source: Source, X: Any, delimiter: str | None, header: bool, names: list[str] | None
) -> None:
    """Raise unless all values are non-negative integers (or missing)."""
    if len(X) == 0:
        raise source.error("expected rows of integers, found only a header")
    with np.errstate(invalid="ignore"):
        good = np.isnan(X) | ((X >= 0) & (np.floor(X) == X) & (X < LARGEST_CODE))
    if good.all():
        return
    row, column = (int(i) for i in np.argwhere(~good)[0])
    lines = [number for number, _ in rows_of(source, delimiter)]
    name = "" if names is None else f" ({shown(names[column])})"
    found = X[row, column]
    advice = "discretise real values first, for instance into bins"
    if found < 0:
        advice = "codes start at 0"
    elif LARGEST_CODE <= found < np.inf:
        advice = "larger ones than 2**53 are not held exactly"
    raise source.error(
        f"expected integer codes 0, 1, 2, ... in column {column + 1}{name}, found {found:g}; "
        f"{advice}",
        lines[row + header],
    )
