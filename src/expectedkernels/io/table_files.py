"""Tables in text and Parquet files."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from io import BytesIO, StringIO
from itertools import islice
from typing import Any
from warnings import warn

import numpy as np

from expectedkernels.checks import DataError, imported
from expectedkernels.data import chunks
from expectedkernels.data.tables import Columns, FrameColumn, as_label, frame_columns, is_missing
from expectedkernels.io.text import PathLike, Source, number_or_none, quote, read_bytes

PANDAS = "#N/A #NA -1.#IND -1.#QNAN -NaN -nan 1.#IND 1.#QNAN <NA> N/A NA NULL NaN None n/a nan null"
MISSING = frozenset(("", "#N/A N/A", *PANDAS.split()))
"""Cells without a value: those that pandas takes for such."""
NO_CODES = frozenset(("?", "na", "n/a", "nan", "none", "null"))
"""Cells without a value, in any case, in tables of codes."""
AMONG_NUMBERS = NO_CODES.union(
    [mark.lower() for mark in MISSING],
    ["-", "--", ".", "..", "...", "*", "\N{EN DASH}", "\N{EM DASH}"],
)
"""Cells without a value, in any case, where all others of the column are numbers."""
PARQUET = (*chunks.PARQUET, ", or use CSV")
POINT, COMMA, TEXT, TRUTH = "number", "number with decimal comma", "text", "truth value"
"""The types that columns of text files have."""
THOUSANDS = {
    POINT: re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?", re.ASCII),
    COMMA: re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d*)?", re.ASCII),
}
YEAR = re.compile(r"[12]\d{3}", re.ASCII)
DELIMITERS = ("\t", ";", "|", ",")
NO_DELIMITER = "\x1f"
SAMPLE = 100
"""How many rows say what separates cells."""
LARGEST_CODE = 2.0**53
PARQUET_MAGIC = b"PAR1"
TRUTH_VALUES = {"true": True, "false": False}
WHOLE, LEADING_ZERO = re.compile(r"[+-]?\d+", re.ASCII), re.compile(r"[+-]?0\d", re.ASCII)
MOST_DIGITS = 18, 15
"""Whole numbers of so many digits are exact: as integers, and as floats."""


def read_cells(source: Source) -> tuple[list[str] | None, list[list[str]], list[int]]:
    r"""The cells of a file, separated by commas, semicolons, tabs, bars or white space.

    What separates them is what gives the first rows equally many cells; quoted cells may hold it,
    and line ends. The first line is a header unless all of its cells are numbers, or missing;
    years are a header if the columns below them hold something else.

    Raises
    ------
    ParseError
        If there are no rows, or if a row has another number of cells than the first.

    Examples
    --------
    >>> read_cells(Source("rain.csv", b'"sky, at noon";hours\ngrey;1,50\nblue;\n'))
    (['sky, at noon', 'hours'], [['grey', 'blue'], ['1,50', '']], [2, 3])
    """
    if "\0" in source.text:
        raise source.error(
            "expected a table in a text file, found zero bytes, as in UTF-16 without its mark and "
            "in spreadsheets. Save it as CSV in UTF-8"
        )
    rows: list[tuple[int, list[str]]] = []
    delimiter = _delimiter(source.text)
    try:
        rows += _records(source.text, delimiter) if delimiter else source.records(comment=None)
    except csv.Error as error:
        message = f"cannot tell cells apart ({error}); is a quote not closed?"
        raise source.error(message, rows[-1][0] + 1 if rows else 1) from None
    header = bool(rows) and _is_header(rows[0][1], [cells for _, cells in rows[1 : SAMPLE + 1]])
    if len(rows) <= header:
        raise source.error(f"expected rows, found {'only a header' if header else 'an empty file'}")
    width = len(rows[0][1])
    for line, cells in rows:
        if len(cells) != width:
            raise source.error(f"expected {width} cells, found {len(cells)}", line)
    names = [cell.strip() for cell in rows[0][1]] if header else None
    columns = [list(column) for column in zip(*(cells for _, cells in rows[header:]), strict=True)]
    return names, columns, [line for line, _ in rows[header:]]


def _delimiter(text: str) -> str | None:
    """What separates the cells of a file, None for white space."""
    lines = list(islice((line.strip() for line in text.split("\n") if line.strip()), SAMPLE))
    shares = {}
    for delimiter in DELIMITERS:
        widths = []
        with suppress(csv.Error):  # to be reported when all rows are read
            for _, cells in islice(_records(text, delimiter), SAMPLE):
                widths.append(len(cells))
        width, n = Counter(widths).most_common(1)[0] if widths else (0, 0)
        if width > 1 and (widths[0] > 1 or not all(map(_is_number, lines[1:]))):
            shares[delimiter] = n / len(widths)
    if shares:
        return max(shares, key=lambda delimiter: shares[delimiter])
    words = [line.split() for line in lines]
    several = Counter(map(len, words)).most_common(1)[0][0] > 1 if words else False
    numbers = any(len(some) > 1 and all(map(_is_number, some)) for some in words)
    return None if several and (len(words[0]) > 1 or numbers) else NO_DELIMITER


def _records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Numbers of lines, from 1, and their cells, without blank lines."""
    spaced = re.search(f'{re.escape(delimiter)} +"', text) is not None
    reader = csv.reader(StringIO(text), delimiter=delimiter, skipinitialspace=spaced, strict=True)
    for cells in reader:
        if cells and (len(cells) > 1 or not cells[0] or cells[0].strip()):  # "" is no blank line
            yield reader.line_num, cells


def _is_header(first: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether the first line holds names: words, or years above columns of something else."""
    words = [cell.strip() for cell in first]
    if not all(map(_is_number, words)):
        return True
    years = {word: i for i, word in enumerate(words) if word}
    if not 2 <= len(years) == len(words) - words.count(""):
        return False
    columns = [[cells[i].strip() for cells in below if i < len(cells)] for i in years.values()]
    return all(map(YEAR.fullmatch, years)) and all(
        any(cell and not YEAR.fullmatch(cell) for cell in cells) for cells in columns
    )


def _is_number(word: str) -> bool:
    """Whether a word is a number, or says that there is none."""
    is_mark = word in MISSING or word.lower() in AMONG_NUMBERS
    return is_mark or number_of(word) is not None or number_of(word, COMMA) is not None


def number_of(word: str, form: str = POINT) -> float | None:
    """The number that a word stands for, None if it is none.

    Examples
    --------
    >>> number_of("2,621.5"), number_of("2.621,5", COMMA), number_of("2,62")
    (2621.5, 2621.5, None)
    """
    point, comma = (".", ",") if form == POINT else (",", ".")
    if comma in word:
        if not THOUSANDS[form].fullmatch(word):
            return None
        word = word.replace(comma, "")
    return number_or_none(word.replace(point, "."))


def form_of(words: Collection[str]) -> str:
    """The type of a column that holds these words, as far as words tell: `TRUTH` is not among them.

    A comma is a decimal one, or separates thousands, if the words leave no other possibility.

    Examples
    --------
    >>> form_of(["2,621", "715.75"]), form_of(["3,14", "2"]), form_of(["2,621", "3,300"])
    ('number', 'number with decimal comma', 'text')
    """
    if not words:
        return POINT
    numbers = [word for word in words if word.lower() not in AMONG_NUMBERS]
    fits = [form for form in (POINT, COMMA) if all(number_of(w, form) is not None for w in numbers)]
    unclear = not numbers or (len(fits) > 1 and any("," in word for word in numbers))
    return TEXT if unclear or not fits else fits[0]


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

    Cells are separated by commas, semicolons, tabs, bars or white space. No text, ``nan``,
    ``NA``, ``?`` and the like are missing values. The first line is a header if one of its cells
    is neither a number nor missing.

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
    names, columns, lines = read_cells(source)
    codes: dict[str, Any] = {}
    for i, cells in enumerate(columns):
        for row, cell in enumerate(cells):
            if cell in codes:
                continue
            word = cell.strip()
            missing = word in MISSING or word.lower() in NO_CODES
            codes[cell] = x = np.nan if missing else number_or_none(word)
            if missing or (x is not None and 0 <= x < LARGEST_CODE and x % 1 == 0):
                continue
            remedy = "discretise real values first, for instance into bins"
            if x is None or x < 0:
                remedy = "codes start at 0" if x else "encode categories as 0, 1, 2, ... first"
            elif LARGEST_CODE <= x < np.inf:
                remedy = "larger ones than 2**53 are not held exactly"
            name = "" if names is None else f" ({quote(names[i])})"
            place = f"in column {i + 1}{name}, found {quote(word)}"
            raise source.error(f"expected integer codes 0, 1, 2, ... {place}; {remedy}", lines[row])
    X = np.array([[codes[cell] for cell in cells] for cells in columns], dtype=np.float64)
    return DataTable(X.T.copy(), names)


@dataclass(frozen=True, eq=False)
class RawColumn:
    """A column as a file has it.

    Attributes
    ----------
    name : str
    content : list of str, or array of pyarrow
        The cells of a text file as they are written, or the typed values of a Parquet file.
    marks : collection of str
        Cells that are missing values, beside the usual ones.
    """

    name: str
    content: Any
    marks: Collection[str] = ()

    @property
    def is_text(self) -> bool:
        """Whether it is of a text file."""
        return isinstance(self.content, list)

    @property
    def values(self) -> list[Any]:
        """Text as it is written, or values of Python."""
        return self.content if self.is_text else self.content.to_pylist()

    @cached_property
    def words(self) -> Counter[str]:
        """The distinct cells of a text file that are not missing, without space around them."""
        found: Counter[str] = Counter()
        for cell, n in Counter(self.content).items() if self.is_text else ():
            if (word := cell.strip()) not in MISSING and word not in self.marks:
                found[word] += n
        return found

    def marks_among_numbers(self, form: str) -> dict[str, int]:
        """The words in a column of numbers that say that there is none, and how many there are."""
        words = self.words.items() if form in (POINT, COMMA) else ()
        return {word: n for word, n in words if word.lower() in AMONG_NUMBERS}

    def filled(self, values: Sequence[Any], missing: Sequence[bool], form: str) -> RawColumn:
        """The column with these values where it has none; all others stay as they are."""
        if self.is_text:
            point = "," if form == COMMA else "."
            triples = zip(self.content, values, missing, strict=True)
            cells = [text_of(x, point) if gap else cell for cell, x, gap in triples]
            return replace(self, content=cells)
        pa, kind = import_module("pyarrow"), self.content.type
        pairs = zip(values, missing, strict=True)
        made = [x if gap and not is_missing(x) else None for x, gap in pairs]
        if pa.types.is_integer(kind):
            made = [None if x is None else round(float(x)) for x in made]
        is_coded = pa.types.is_dictionary(kind)
        filler = pa.array(made, kind) if is_coded else pa.array(made).cast(kind, safe=False)
        choose = import_module("pyarrow.compute").if_else
        return replace(self, content=choose(pa.array(missing), filler, self.content))

    def to_arrow(self, pa: Any) -> Any:
        """The column for a Parquet file: text is numbers there, unless these say less."""
        if not self.is_text:
            return self.content
        words, form = self.words, form_of(self.words)
        numbers = [word for word in words if word.lower() not in AMONG_NUMBERS]
        whole = [len(word) for word in numbers if WHOLE.fullmatch(word)]
        only_whole = 0 < len(whole) == len(numbers)
        inexact = max(whole, default=0) > MOST_DIGITS[not only_whole]
        if form == TEXT or inexact or any(map(LEADING_ZERO.match, words)):
            return pa.array([cell if cell.strip() in words else None for cell in self.content])
        found = {word: int(word) if only_whole else number_of(word, form) for word in numbers}
        return pa.array([found.get(cell.strip()) for cell in self.content])

    def typed(self, path: str, form: str) -> FrameColumn:
        """The values of the column in a type; raises if some are not of it."""
        kind = {TEXT: "label", TRUTH: "bool"}.get(form, "number")
        found = FrameColumn(self.name, "", self.content) if self.is_text else _frame_column(self)
        values = found.values
        if found.kind != kind:
            cells, read = values, dict[str, Any]()
            if found.kind:
                cells = ["" if is_missing(x) else str(as_label(x)) for x in values]
            for row, cell in enumerate(cells):
                if cell not in read:
                    word = cell.strip()
                    place = f"Column {self.name!r} of {path} holds {word!r} in row {row}"
                    read[cell] = self._value(word, form, place)
            found, values = FrameColumn(self.name, kind, ()), [read[cell] for cell in cells]
        if kind == "label" and self.marks:
            values = [None if x in self.marks else x for x in values]
        if kind == "number":
            values = np.asarray(values, dtype=np.float64)
            marks = [x for x in map(number_of, self.marks) if x is not None]
            values = np.where(np.isin(values, marks), np.nan, values)
        return replace(found, values=values)

    def _value(self, word: str, form: str, place: str) -> Any:
        """What a word of the column stands for, None if it says that there is no value."""
        is_number = form in (POINT, COMMA)
        if word in MISSING or word in self.marks or (is_number and word.lower() in AMONG_NUMBERS):
            return None
        number = number_of(word, form) if is_number else TRUTH_VALUES.get(word.lower())
        if number is None and form != TEXT:
            wanted = "numbers are expected" if is_number else "true or false is expected"
            advice = f"If it says that nothing is known: --missing {word!r}"
            raise DataError(f"{place}, where {wanted}. {advice}.")
        return word if form == TEXT else number


@dataclass(frozen=True, eq=False)
class RawTable:
    """The columns of a file.

    Attributes
    ----------
    path : str
    columns : tuple of RawColumn
    named : bool
        Whether columns are not only numbered.
    """

    path: str
    columns: tuple[RawColumn, ...]
    named: bool = True

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the columns, None if these are only numbered."""
        return tuple(column.name for column in self.columns) if self.named else None

    def __len__(self) -> int:
        return len(self.columns[0].content)

    def __getitem__(self, name: str) -> RawColumn:
        return next(column for column in self.columns if column.name == name)


def read_raw(path: PathLike, data: bytes | None = None, marks: Collection[str] = ()) -> RawTable:
    r"""The columns of a text file (also gzipped), or of a Parquet file.

    Parameters
    ----------
    path : path
        The file. Parquet files are recognised by their first bytes, and need pyarrow.
    data : bytes, optional
        What is in it, if it has been read already.
    marks : collection of str
        Cells that are missing values, beside the usual ones.

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
    data = read_bytes(path) if data is None else data
    is_parquet = data.startswith(PARQUET_MAGIC)
    source = Source(path, b"" if is_parquet else data, any_encoding=True)
    names: Sequence[str] | None
    if is_parquet:
        parquet, pa = imported(*PARQUET), import_module("pyarrow")
        try:
            # threads of pyarrow that still run when a short command ends may abort it
            table = parquet.ParquetFile(BytesIO(data)).read(use_threads=False)
        except pa.ArrowException as error:
            raise source.error(f"the Parquet data is damaged or cut off ({error})") from error
        names, columns = table.column_names, table.columns
        if not table.num_rows or not names:
            raise source.error("expected rows, found an empty table")
    else:
        names, columns, _ = read_cells(source)
        for i in [i for i, name in enumerate(names or ()) if not name]:
            names = [*(names or ())[:i], f"column {i + 1}", *(names or ())[i + 1 :]]
            what = f"{source.path}: a column has no name, and is called {names[i]!r}."
            warn(f"{what} If it numbers the rows, leave it out.", stacklevel=2)
    for name in [name for name, count in Counter(names).items() if count > 1]:
        message = f"names of columns must be distinct, found {quote(name)} twice"
        raise source.error(message, None if is_parquet else 1)
    pairs = zip(names or map(str, range(len(columns))), columns, strict=True)
    found = tuple(RawColumn(name, content, marks) for name, content in pairs)
    return RawTable(source.path, found, names is not None)


def forms_of(tables: Sequence[RawTable]) -> dict[str, str]:
    """The type of every column, by its name: one for all tables that have it.

    Columns whose cells are all numbers are numbers, others are text. Columns of Parquet files have
    their types; dates and times are text.
    """
    parts: dict[str, list[RawColumn]] = {}
    for column in (column for table in tables for column in table.columns):
        parts.setdefault(column.name, []).append(column)
    forms = {}
    for name, columns in parts.items():
        typed = {_arrow_form(part.content.type) for part in columns if not part.is_text}
        words = {word for part in columns for word in part.words}
        is_truth = typed == {TRUTH} and {word.lower() for word in words} <= TRUTH_VALUES.keys()
        forms[name] = TRUTH if is_truth else TEXT if typed - {POINT} else form_of(words)
    return forms


def _arrow_form(kind: Any) -> str:
    types = import_module("pyarrow").types
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return POINT if number or types.is_null(kind) else TRUTH if types.is_boolean(kind) else TEXT


def frame_of(table: RawTable, forms: Mapping[str, str]) -> Columns:
    """The columns that have a type as numbers, truth values or text, with warnings.

    Raises
    ------
    DataError
        If a column of numbers holds something else.
    """
    known = tuple(column for column in table.columns if column.name in forms)
    warn_of_numbers(table.path, known, forms)
    columns = tuple(column.typed(table.path, forms[column.name]) for column in known)
    return Columns(columns, replace(table, columns=known).names)


def warn_of_numbers(path: str, columns: Sequence[RawColumn], forms: Mapping[str, str]) -> None:
    """Say which cells of columns of numbers are missing, and which commas are decimal ones."""
    odd = {c.name: c.marks_among_numbers(forms[c.name]) for c in columns}
    if n := sum(sum(found.values()) for found in odd.values()):
        marks = (f"{m} of {mark!r} in {name!r}" for name in odd for mark, m in odd[name].items())
        cells = "1 cell is a missing value" if n == 1 else f"{n} cells are missing values"
        warn(f"{path}: {cells} among numbers: {', '.join(marks)}.", stacklevel=3)
    some = [c for c in columns if forms[c.name] == COMMA]
    commas = {c.name: next((word for word in c.words if "," in word), None) for c in some}
    if example := next(filter(None, commas.values()), None):
        what = f"{example!r} is read as {number_of(example, COMMA)}"
        warn(f"{path}: decimal commas in {', '.join(map(repr, commas))}: {what}.", stacklevel=3)


def text_of(x: Any, point: str = ".") -> str:
    """A value as text: whole numbers without a point, nothing for what is missing."""
    x = x.item() if isinstance(x, np.generic) else x
    if isinstance(x, str) or is_missing(x):
        return x if isinstance(x, str) else ""
    if not isinstance(x, float):
        return str(x)
    return str(int(x)) if x.is_integer() and abs(x) < 2**53 else str(x).replace(".", point)


def _frame_column(column: RawColumn) -> FrameColumn:
    """The column of a Parquet file as one of a data frame; dates and times are text."""
    pa, values = import_module("pyarrow"), column.content
    if pa.types.is_temporal(values.type) and not pa.types.is_duration(values.type):
        # without parts of a day that are zero
        words = values.cast("string").to_pylist()
        short = (x and re.sub(r"( 00:00:00)?(\.0+)?(?=Z?$)", "", x, count=1) for x in words)
        values = pa.array(short, pa.string())
    if pa.types.is_integer(values.type):  # large ones to the digits that floats have
        values = values.cast(pa.float64(), safe=False)
    return frame_columns(pa.table({column.name: values}))[0]
