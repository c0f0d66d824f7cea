"""Tables from text and Parquet files: columns as the file has them, and as values of one type."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from importlib import import_module
from io import BytesIO
from typing import Any

import numpy as np

from expectedkernels.circuits.frames import (
    Columns,
    FrameColumn,
    as_label,
    frame_columns,
    is_missing,
)
from expectedkernels.errors import DataError
from expectedkernels.io.tables import (
    AMONG_NUMBERS,
    COMMA,
    MISSING,
    POINT,
    TEXT,
    TRUTH,
    TableSource,
    form_of,
    number_of,
    read_cells,
)
from expectedkernels.io.text import PathLike, Source, checked_path, shown

PARQUET_MAGIC = b"PAR1"
TRUTH_VALUES = {"true": True, "false": False}
WHOLE, LEADING_ZERO = re.compile(r"[+-]?\d+", re.ASCII), re.compile(r"[+-]?0\d", re.ASCII)
MOST_DIGITS = 18, 15
"""Whole numbers of so many digits are exact: as integers, and as floats."""


@dataclass(frozen=True, eq=False)
class RawColumn:
    """A column as a file has it.

    Attributes
    ----------
    name : str
    content : list of str, or array of pyarrow
        The cells of a text file as they are written, or the typed values of a Parquet file.
    """

    name: str
    content: Any

    @property
    def is_text(self) -> bool:
        """Whether it is of a text file."""
        return isinstance(self.content, list)

    @property
    def values(self) -> list[Any]:
        """Text as it is written, or values of Python."""
        return self.content if self.is_text else self.content.to_pylist()

    def words(self, marks: Collection[str] = ()) -> Counter[str]:
        """The distinct cells of a text file without space around them, and without what is missing.

        Parameters
        ----------
        marks : collection of str
            Cells that are missing values, beside the usual ones.
        """
        found: Counter[str] = Counter()
        for cell, n in Counter(self.content).items():
            if (word := cell.strip()) not in MISSING and word not in marks:
                found[word] += n
        return found

    def filled(self, values: Sequence[Any], missing: Sequence[bool], form: str) -> RawColumn:
        """The column with these values where it has none; all others stay as they are."""
        triples = zip(self.values, values, missing, strict=True)
        if self.is_text:
            point = "," if form == COMMA else "."
            cells = [text_of(x, point) if gap else cell for cell, x, gap in triples]
            return replace(self, content=cells)
        pa, kind = import_module("pyarrow"), self.content.type
        made = [_of_type(pa, x, kind) if gap else cell for cell, x, gap in triples]
        return replace(self, content=pa.array(made, kind))

    def to_arrow(self, pa: Any, marks: Collection[str] = ()) -> Any:
        """The column for a Parquet file: text is numbers there, unless these say less."""
        if not self.is_text:
            return self.content
        words = self.words(marks)
        numbers = [word for word in words if word.lower() not in AMONG_NUMBERS]
        whole = [len(word) for word in numbers if WHOLE.fullmatch(word)]
        form, only_whole = form_of(words), len(whole) == len(numbers)
        inexact = max(whole, default=0) > MOST_DIGITS[not only_whole]
        if form == TEXT or inexact or any(map(LEADING_ZERO.match, words)):
            return pa.array([cell if cell.strip() in words else None for cell in self.content])
        found: dict[str, Any] = {word: int(word) for word in numbers} if only_whole else {}
        found = found or {word: number_of(word, form) for word in numbers}
        return pa.array([found.get(cell.strip()) for cell in self.content])


@dataclass(frozen=True, eq=False)
class RawTable:
    """The columns of a file.

    Attributes
    ----------
    path : str
    columns : tuple of RawColumn
    names : tuple of str, or None
        None if columns are only numbered.
    """

    path: str
    columns: tuple[RawColumn, ...]
    names: tuple[str, ...] | None

    def __len__(self) -> int:
        return len(self.columns[0].content)

    def __getitem__(self, name: str) -> RawColumn:
        return next(column for column in self.columns if column.name == name)


def read_raw(path: PathLike, data: bytes | None = None) -> RawTable:
    r"""The columns of a text file (also gzipped), or of a Parquet file.

    Parameters
    ----------
    path : path
        The file. Parquet files are recognised by their first bytes, and need pyarrow.
    data : bytes, optional
        What is in it, if it has been read already.

    Returns
    -------
    RawTable

    Raises
    ------
    ParseError
        If there are no rows, if a row has another number of cells, or if names are not distinct.

    Examples
    --------
    >>> table = read_raw("rain.csv", b"sky,hours\ngrey,1.50\nnone,\n")
    >>> table.names, table["hours"].content
    (('sky', 'hours'), ['1.50', ''])
    >>> [column.values for column in frame_of(table, forms_of([table])).columns]
    [['grey', 'none'], array([1.5, nan])]
    """
    if data is None:
        with open(checked_path(path), "rb") as file:
            data = file.read()
    if data.startswith(PARQUET_MAGIC):
        return _read_parquet(Source(path, b""), data)
    source = TableSource(path, data)
    found = read_cells(source)
    names = None if found.names is None else _names(source, found.names)
    called = names or map(str, range(len(found.columns)))
    columns = tuple(map(RawColumn, called, found.columns))
    return RawTable(source.path, columns, names)


def _names(source: Source, words: list[str]) -> tuple[str, ...]:
    names = tuple(word or f"column {i + 1}" for i, word in enumerate(words))
    for name, word in zip(names, words, strict=True):
        if not word:
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


def forms_of(tables: Sequence[RawTable], marks: Collection[str] = ()) -> dict[str, str]:
    """The type of every column, by its name: one for all tables that have it.

    Columns whose cells are all numbers are numbers, others are text. Columns of Parquet files have
    their types; dates and times are text.

    Parameters
    ----------
    tables : sequence of RawTable
    marks : collection of str
        Cells that are missing values, beside the usual ones.
    """
    parts: dict[str, list[RawColumn]] = {}
    for table in tables:
        for column in table.columns:
            parts.setdefault(column.name, []).append(column)
    return {name: _form(columns, marks) for name, columns in parts.items()}


def _form(parts: Sequence[RawColumn], marks: Collection[str]) -> str:
    typed = {_arrow_form(part.content.type) for part in parts if not part.is_text}
    words = {word for part in parts if part.is_text for word in part.words(marks)}
    if typed == {TRUTH} and {word.lower() for word in words} <= TRUTH_VALUES.keys():
        return TRUTH
    return TEXT if typed - {POINT} else form_of(words)


def _arrow_form(kind: Any) -> str:
    types = import_module("pyarrow").types
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return POINT if number or types.is_null(kind) else TRUTH if types.is_boolean(kind) else TEXT


def frame_of(table: RawTable, forms: Mapping[str, str], marks: Collection[str] = ()) -> Columns:
    """The columns that have a type as numbers, truth values or text, with warnings.

    Raises
    ------
    DataError
        If a column of numbers holds something else.
    """
    known = [column for column in table.columns if column.name in forms]
    warn_of_numbers(table.path, known, forms, marks)
    columns = tuple(_read(table.path, c, forms[c.name], marks) for c in known)
    return Columns(columns, None if table.names is None else tuple(c.name for c in known))


def warn_of_numbers(
    path: str, columns: Sequence[RawColumn], forms: Mapping[str, str], marks: Collection[str] = ()
) -> None:
    """Say which cells of columns of numbers are missing, and which commas are decimal ones."""
    odd = {c.name: marks_among_numbers(c, forms[c.name], marks) for c in columns}
    if n := sum(sum(found.values()) for found in odd.values()):
        listed = ", ".join(
            f"{m} of {mark!r} in {name!r}" for name in odd for mark, m in odd[name].items()
        )
        cells = "1 cell is a missing value" if n == 1 else f"{n} cells are missing values"
        warnings.warn(f"{path}: {cells} among numbers: {listed}.", UserWarning, stacklevel=3)
    commas = {
        c.name: next((word for word in c.words(marks) if "," in word), None)
        for c in columns
        if c.is_text and forms[c.name] == COMMA
    }
    if example := next(filter(None, commas.values()), None):
        warnings.warn(
            f"{path}: decimal commas in {', '.join(map(repr, commas))}: {example!r} is read as "
            f"{number_of(example, COMMA)}.",
            UserWarning,
            stacklevel=3,
        )


def marks_among_numbers(
    column: RawColumn, form: str, marks: Collection[str] = ()
) -> dict[str, int]:
    """The words in a column of numbers that say that there is none, and how many there are."""
    if not column.is_text or form not in (POINT, COMMA):
        return {}
    return {word: n for word, n in column.words(marks).items() if word.lower() in AMONG_NUMBERS}


def _read(path: str, column: RawColumn, form: str, marks: Collection[str]) -> FrameColumn:
    """The values of a column of a type."""
    if column.is_text:
        cells = column.content
    else:
        found = _frame_column(column)
        values = found.values
        if found.kind == "number" and form in (POINT, COMMA):
            numbers = [x for x in map(number_of, marks) if x is not None]
            return replace(found, values=np.where(np.isin(values, numbers), np.nan, values))
        if found.kind == "bool" and form == TRUTH:
            return found
        if found.kind == "label" and form == TEXT:
            return replace(found, values=[None if x in marks else x for x in values])
        cells = ["" if is_missing(x) else str(as_label(x)) for x in values]
    read: dict[str, Any] = {}
    for row, cell in enumerate(cells):
        if cell not in read:
            read[cell] = _value(path, column.name, row, cell.strip(), form, marks)
    entries = [read[cell] for cell in cells]
    if form in (POINT, COMMA):
        return FrameColumn(column.name, "number", np.array(entries, dtype=np.float64))
    return FrameColumn(column.name, "bool" if form == TRUTH else "label", entries)


def _value(path: str, name: str, row: int, word: str, form: str, marks: Collection[str]) -> Any:
    missing = word in MISSING or word in marks
    if form == TEXT:
        return None if missing else word
    if form == TRUTH:
        found = None if missing else TRUTH_VALUES.get(word.lower())
        if found is None and not missing:
            raise DataError(
                f"Column {name!r} of {path} holds {word!r} in row {row}, where true or false is "
                "expected."
            )
        return found
    if missing or word.lower() in AMONG_NUMBERS:
        return np.nan
    number = number_of(word, form)
    if number is None:
        raise DataError(
            f"Column {name!r} of {path} holds {word!r} in row {row}, where numbers are expected. "
            f"If it says that nothing is known: --missing {word!r}."
        )
    return np.nan if number in map(number_of, marks) else number


def text_of(x: Any, point: str = ".") -> str:
    """A value as text: whole numbers without a point, nothing for what is missing."""
    x = x.item() if isinstance(x, np.generic) else x
    if is_missing(x):
        return ""
    if not isinstance(x, float):
        return str(x)
    return str(int(x)) if x.is_integer() and abs(x) < 2**53 else str(x).replace(".", point)


def pyarrow_for(path: str) -> tuple[Any, Any]:
    """The modules that read and write a Parquet file."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise ImportError(
            f"{path} is a Parquet file, which needs pyarrow: pip install pyarrow, or take CSV."
        ) from error


def _read_parquet(source: Source, data: bytes) -> RawTable:
    pa, parquet = pyarrow_for(source.path)
    try:
        # threads of pyarrow that still run when a short command ends may abort it
        table = parquet.ParquetFile(BytesIO(data)).read(use_threads=False)
    except pa.ArrowException as error:
        raise source.error(f"the Parquet data is damaged or cut off ({error})") from error
    if not table.num_rows or not table.num_columns:
        raise source.error("expected rows, found an empty table")
    names = tuple(table.column_names)
    _refuse_twice(source, names)
    return RawTable(source.path, tuple(map(RawColumn, names, table.columns)), names)


def _frame_column(column: RawColumn) -> FrameColumn:
    """The column of a Parquet file as one of a data frame; dates and times are text."""
    pa, values = import_module("pyarrow"), column.content
    if pa.types.is_temporal(values.type) and not pa.types.is_duration(values.type):
        values = pa.array(map(_moment, values.cast("string").to_pylist()), pa.string())
    return frame_columns(pa.table({column.name: values}))[0]


def _moment(word: str | None) -> str | None:
    """A date or time as text, without parts of a day that are zero."""
    return None if word is None else re.sub(r"( 00:00:00)?(\.0+)?(?=Z?$)", "", word, count=1)


def _of_type(pa: Any, x: Any, kind: Any) -> Any:
    """A value that was found for a column, as one of the type of the column."""
    types = pa.types
    if is_missing(x):
        return None
    if types.is_temporal(kind):
        return pa.scalar(x).cast(kind).as_py()
    if types.is_decimal(kind):
        return Decimal(repr(float(x))).quantize(Decimal(1).scaleb(-kind.scale))
    return round(float(x)) if types.is_integer(kind) else x
