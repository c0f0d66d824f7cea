"""Tables in text files: their cells as they are written, and the values that these stand for."""

from __future__ import annotations

import csv
import re
import warnings
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from typing import Any

import numpy as np

from expectedkernels.io.text import PathLike, Source, as_number, shown

MISSING = frozenset(
    (
        *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND"),
        *("1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
    )
)
"""Cells without a value: those that pandas takes for such."""
NO_CODES = frozenset(("?", "na", "n/a", "nan", "none", "null"))
"""Cells without a value, in any case, in tables of codes."""
AMONG_NUMBERS = NO_CODES.union(
    [mark.lower() for mark in MISSING],
    ["-", "--", ".", "..", "...", "*", "\N{EN DASH}", "\N{EM DASH}"],
)
"""Cells without a value, in any case, where all others of the column are numbers."""
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


class TableSource(Source):
    """A text file in UTF-8, UTF-16 with its mark, or Windows-1252 (as Latin-1), with a warning."""

    def _decode(self, data: bytes) -> str:
        if data.startswith((BOM_UTF16_BE, BOM_UTF16_LE)):
            encoding = "utf-16"
        else:
            try:
                return data.decode("utf-8-sig")
            except UnicodeDecodeError:
                encoding = "cp1252"
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            return super()._decode(data)
        if "\0" in text:
            return super()._decode(data)
        if encoding == "cp1252":
            warnings.warn(
                f"{self.path} is not in UTF-8: it is read as Windows-1252, of which Latin-1 is a "
                "part. If letters are wrong, save it in UTF-8.",
                UserWarning,
                stacklevel=2,
            )
        return text


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a text file.

    Attributes
    ----------
    names : list of str, or None
        What the first line calls the columns, None if it is a row.
    columns : list of lists of str
        The cells as they are written.
    lines : list of int
        The numbers of the lines that rows end in, from 1.
    """

    names: list[str] | None
    columns: list[list[str]]
    lines: list[int]


def read_cells(source: Source) -> Cells:
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
    >>> found = read_cells(Source("rain.csv", b'"sky, at noon";hours\ngrey;1,50\nblue;\n'))
    >>> found.names, found.columns
    (['sky, at noon', 'hours'], [['grey', 'blue'], ['1,50', '']])
    """
    if "\0" in source.text:
        raise source.error(
            "expected a table in a text file, found zero bytes, as in UTF-16 without its mark and "
            "in spreadsheets. Save it as CSV in UTF-8"
        )
    rows = list(_rows(source, _delimiter(source.text)))
    header = bool(rows) and _is_header(rows[0][1], [cells for _, cells in rows[1 : SAMPLE + 1]])
    if len(rows) <= header:
        raise source.error(f"expected rows, found {'only a header' if header else 'an empty file'}")
    width = len(rows[0][1])
    for line, cells in rows:
        if len(cells) != width:
            raise source.error(f"expected {width} cells, found {len(cells)}", line)
    names = [cell.strip() for cell in rows[0][1]] if header else None
    columns = [list(column) for column in zip(*(cells for _, cells in rows[header:]), strict=True)]
    return Cells(names, columns, [line for line, _ in rows[header:]])


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
    spaced = several and (len(words[0]) > 1 or numbers)
    return None if spaced else NO_DELIMITER


def _records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Numbers of lines, from 1, and their cells, without blank lines."""
    spaced = re.search(f'{re.escape(delimiter)} +"', text) is not None
    reader = csv.reader(StringIO(text), delimiter=delimiter, skipinitialspace=spaced, strict=True)
    for cells in reader:
        if cells and (len(cells) > 1 or not cells[0] or cells[0].strip()):  # "" is no blank line
            yield reader.line_num, cells


def _rows(source: Source, delimiter: str | None) -> Iterator[tuple[int, list[str]]]:
    if delimiter is None:
        yield from source.records(comment=None)
        return
    line = 0
    try:
        for line, cells in _records(source.text, delimiter):
            yield line, cells
    except csv.Error as error:
        raise source.error(
            f"cannot tell cells apart ({error}); is a quote not closed?", line + 1
        ) from None


def _is_header(first: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether the first line holds names: words, or years above columns of something else."""
    words = [cell.strip() for cell in first]
    if not all(map(_is_number, words)):
        return True
    years = [i for i, word in enumerate(words) if word]
    if len(years) < 2 or len({*words} - {""}) < len(years):
        return False
    columns = [[words[i]] + [cells[i].strip() for cells in below if i < len(cells)] for i in years]
    return all(
        YEAR.fullmatch(year) and any(cell and not YEAR.fullmatch(cell) for cell in cells)
        for year, *cells in columns
    )


def _is_number(word: str) -> bool:
    """Whether a word is a number, or says that there is none."""
    if word in MISSING or word.lower() in AMONG_NUMBERS:
        return True
    return number_of(word) is not None or number_of(word, COMMA) is not None


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
    return as_number(word.replace(point, "."))


def form_of(words: Collection[str]) -> str:
    """The type of a column that holds these words, as far as words tell: `TRUTH` is not among them.

    A comma is a decimal one, or separates thousands, if the words leave no other possibility.

    Examples
    --------
    >>> form_of(["2,621", "715.75"]), form_of(["3,14", "2"]), form_of(["2,621", "3,300"])
    ('number', 'number with decimal comma', 'text')
    """
    numbers = [word for word in words if word.lower() not in AMONG_NUMBERS]
    if not words:
        return POINT
    fits = [form for form in (POINT, COMMA) if all(number_of(w, form) is not None for w in numbers)]
    if not numbers or not fits:
        return TEXT
    if len(fits) > 1 and any("," in word for word in numbers):
        return TEXT
    return fits[0]


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

    Cells are separated by commas, semicolons, tabs, bars or white space. Empty cells, ``nan``,
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
    found = read_cells(source)
    columns = [_codes(source, found, i) for i in range(len(found.columns))]
    return DataTable(np.stack(columns, axis=1), found.names)


def _codes(source: Source, table: Cells, column: int) -> Any:
    """A column as codes; raises unless all are non-negative integers, or missing."""
    cells = table.columns[column]
    codes: dict[str, Any] = {}
    for row, cell in enumerate(cells):
        if cell in codes:
            continue
        word = cell.strip()
        missing = word in MISSING or word.lower() in NO_CODES
        codes[cell] = x = np.nan if missing else as_number(word)
        if missing or (x is not None and 0 <= x < LARGEST_CODE and x % 1 == 0):
            continue
        advice = "discretise real values first, for instance into bins"
        if x is None:
            advice = "encode categories as 0, 1, 2, ... first"
        elif x < 0:
            advice = "codes start at 0"
        elif LARGEST_CODE <= x < np.inf:
            advice = "larger ones than 2**53 are not held exactly"
        name = "" if table.names is None else f" ({shown(table.names[column])})"
        raise source.error(
            f"expected integer codes 0, 1, 2, ... in column {column + 1}{name}, found "
            f"{shown(word)}; {advice}",
            table.lines[row],
        )
    return np.array([codes[cell] for cell in cells], dtype=np.float64)
