"""Text files: their lines, numbers and errors."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np

from expectedkernels.checks import CircuitError, ParseError
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.graph import Unit
from expectedkernels.models.factor_graph import BayesianNetwork, FactorGraph
from expectedkernels.vtree import Vtree

PathLike = str | os.PathLike[str]
Record = tuple[int, list[str]]
"""The number of a line, from 1, and its tokens."""

SMALLEST = float(np.finfo(np.float64).tiny)
LOWEST_LOG, HIGHEST_LOG = float(np.log(SMALLEST)), float(np.log(np.finfo(np.float64).max))
ROUNDING = 1e-6
"""Log-probabilities may be this far above zero: some programs print six decimals."""
LARGEST_VARIABLE = 2**20
MOST_STATES = 2**20
"""Variables with more states than this are taken for errors, before memory is asked for."""
MOST_AXES = 64
"""NumPy arrays have no more axes than this."""
LONGEST_INTEGER = 18
"""Integers have at most so many characters, so that sums of them fit 64 bits."""
GZIP_MAGIC = b"\x1f\x8b"
UNPACKED, UNPACKED_RATIO = 2**24, 100
"""Gzip data may unpack to so many bytes, or to so many times their own size."""


class Form(NamedTuple):
    """What lines that begin with a word look like, such as ``S id count (input log)...``."""

    text: str
    words: list[str]
    start: int
    """Where a list starts; the number of words if there is none."""
    step: int
    """How many words every entry of the list has, 0 if there is none."""


def forms(*texts: str) -> dict[str, Form]:
    """The forms of lines by their first words."""
    found = {}
    for text in texts:
        words = text.split()
        marks = (i for i, word in enumerate(words) if word[0] == "(" or word[-1] == ".")
        start = next(marks, len(words))
        names = [word.strip("().") for word in words]
        found[words[0]] = Form(text, names, start, len(words) - start)
    return found


class Source:
    """A text file, plain or compressed with gzip, whose records know where they stand.

    Parameters
    ----------
    path : path
        The file. Whether it is compressed is seen from its first bytes, not from its name. Lines
        may end in any of the usual ways.
    data : bytes, optional
        What is in it, if it has been read already.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "tiny.vtree")
    ...     write_text(path, ["c a comment", "", "vtree 1", "L 0 1"])
    ...     list(Source(path).records())
    [(3, ['vtree', '1']), (4, ['L', '0', '1'])]
    """

    def __init__(self, path: PathLike, data: bytes | None = None):
        self.path = checked_path(path)
        if data is None:
            with open(self.path, "rb") as file:
                data = file.read()
        if data.startswith(GZIP_MAGIC):
            data = self._unpacked(data)
        self.size = len(data)
        text = self._decode(data)
        self.text = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text

    def _decode(self, data: bytes) -> str:
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise self.error(
                f"expected a text file (or one compressed with gzip), found byte "
                f"{data[error.start]:#04x} at offset {error.start}, which is not UTF-8. If it is "
                "text, save it in this encoding"
            ) from error

    def _unpacked(self, data: bytes) -> bytes:
        """What gzip data unpack to, if it is not out of all proportion to them."""
        limit = max(UNPACKED, UNPACKED_RATIO * len(data))
        try:
            with gzip.GzipFile(fileobj=BytesIO(data)) as file:
                unpacked = file.read(limit + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise self.error(f"the gzip data is damaged or cut off ({error})") from error
        if len(unpacked) > limit:
            raise self.error(
                f"{len(data)} bytes of gzip data unpack to more than {limit} bytes, which files "
                "made to exhaust the memory do. If you trust this one, unpack it with gunzip and "
                "read the result"
            )
        return unpacked

    def error(self, message: str, line: int | None = None) -> ParseError:
        """The error that says where in this file something is wrong."""
        return ParseError(message, path=self.path, line=line)

    def records(self, comment: str | None = "c") -> Iterator[Record]:
        """The lines that are neither blank nor comments."""
        for number, line in enumerate(self.text.split("\n"), 1):
            tokens = line.split()
            if tokens and tokens[0] != comment:
                yield number, tokens

    def header(self, records: Iterator[Record], word: str) -> Record:
        """The first record, which must start with the name of the format."""
        number, tokens = next(records, (0, []))
        if not tokens:
            raise self.error(f"expected a header line '{word} ...', found an empty file")
        if tokens[0] != word:
            raise self.error(
                f"expected the header line '{word} ...', found {shown(' '.join(tokens))}", number
            )
        return number, tokens

    def counted(self, word: str, what: str) -> Iterator[Record]:
        """The records after the header, which must be as many as it says, and at least one."""
        records = self.records()
        line, header = self.header(records, word)
        if len(header) != 2:
            raise self.error(f"expected '{word}' and the number of {what}", line)
        count, found = self.integer(header[1], f"the number of {what}", line), 0
        for record in records:
            found += 1
            yield record
        if found != count or not count:
            raise self.error(
                f"the header announces {count} {what}, found {found}; is the file complete?", line
            )

    def form(self, forms: Mapping[str, Form], tokens: list[str], line: int) -> Form:
        """The form of a line, which must be one of these."""
        form, n = forms.get(tokens[0]), len(tokens)
        if form is not None and n >= form.start:
            if form.words[form.start - 1] == "count":
                count = self.integer(tokens[form.start - 1], "the number of inputs", line)
                wanted = form.start + form.step * max(count, 1)
                if count < 1 or n != wanted:
                    raise self.error(
                        f"a unit with {count} inputs needs at least one, and {wanted} entries in "
                        f"its line, found {n}",
                        line,
                    )
                return form
            entries, rest = divmod(n - form.start, form.step or 1)
            if rest == 0 and (entries > 0) == (form.step > 0):
                return form
        *most, last = (f"'{form.text}'" for form in forms.values())
        raise self.error(
            f"expected {', '.join(most)} or {last}, found {shown(' '.join(tokens))}", line
        )

    def new_id(self, token: str, known: Container[int], what: str, line: int) -> int:
        """The id in a token, which nothing may have had before."""
        name = self.integer(token, f"the id of a {what}", line)
        if name in known:
            raise self.error(f"the id {name} is used a second time", line)
        return name

    def integer(self, token: str, what: str, line: int) -> int:
        """A token as an int."""
        number = whole(token)
        if number is None:
            raise self.error(f"{what} must be an integer, found {shown(token)}", line)
        return number

    def variable(self, token: str, line: int, first: int = 1) -> int:
        """A variable, numbered from `first` in the file, as a number from 0."""
        number = self.integer(token, "a variable", line)
        if not first <= number <= LARGEST_VARIABLE:
            raise self.error(
                f"variables are numbered from {first} to {LARGEST_VARIABLE}, found {token}", line
            )
        return number - first

    def numbers(self, tokens: Sequence[str], line: int) -> list[float]:
        """Tokens as floats."""
        values = numbers_of(tokens)
        if values is None:
            wrong = next(token for token in tokens if numbers_of([token]) is None)
            raise self.error(f"expected a number, found {shown(wrong)}", line)
        return values

    def weights(self, logs: Any, lines: Any) -> Any:
        """The numbers with these logarithms (lines: where each stands), if doubles hold them."""
        logs = np.asarray(logs, dtype=np.float64)
        too_small = (logs < LOWEST_LOG) & (logs != -np.inf)
        bad = np.isnan(logs) | (logs > HIGHEST_LOG) | too_small
        if bad.any():
            first = int(np.argmax(bad))
            line, log = int(np.asarray(lines)[first]), float(logs[first])
            if np.isnan(log) or log == np.inf:
                raise self.error(f"a log weight must be a number or -inf, found {log}", line)
            raise self.error(
                f"the log weight {log} is outside [{LOWEST_LOG:.1f}, {HIGHEST_LOG:.1f}]: weights "
                "are held as doubles, which cannot represent it. Rescale the circuit, or write "
                "-inf where zero is meant",
                line,
            )
        return np.exp(logs)


def whole(token: str) -> int | None:
    """The integer that a token of ASCII digits stands for, None if it is none or too long."""
    if len(token) > LONGEST_INTEGER or "_" in token or not token.isascii():
        return None
    try:
        return int(token)
    except ValueError:
        return None


def numbers_of(tokens: Sequence[str]) -> list[float] | None:
    """The numbers that tokens in ASCII stand for, None if one of them is none."""
    letters = "".join(tokens)
    if "_" in letters or not letters.isascii():  # which Python takes for numbers
        return None
    try:
        return [float(token) for token in tokens]
    except ValueError:
        return None


def number_or_none(token: str) -> float | None:
    """The number that a token in ASCII stands for, None if it is none."""
    found = numbers_of([token])
    return None if found is None else found[0]


def shown(text: str) -> str:
    """The text in quotes, cut to a length fit for a message."""
    return repr(text if len(text) <= 40 else text[:40] + "...")


def write_text(path: PathLike, lines: Iterable[str]) -> None:
    """Write lines to a file, compressed if its name ends in .gz."""
    data = ("\n".join(lines) + "\n").encode("ascii")
    if checked_path(path).endswith(".gz"):
        data = gzip.compress(data, mtime=0)  # no time stamp: equal circuits give equal files
    with open(path, "wb") as file:
        file.write(data)


def checked_path(path: Any) -> str:
    """The path as text; an int would be the number of a file that is open already."""
    if isinstance(path, (str, os.PathLike)):
        return os.fspath(path)
    raise CircuitError(f"The path of a file is text or a Path. Got {type(path).__name__} instead.")


HOLDERS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (Circuit, (".npz", ".psdd", ".jpc", ".spn")),
    (BayesianNetwork, (".uai", ".bif")),
    (FactorGraph, (".uai",)),
    (Vtree, (".vtree",)),
)
"""The suffixes of the files that hold an object; estimators are told by their methods."""


def holders(obj: Any) -> tuple[str, ...]:
    """The suffixes of the files that hold an object."""
    if hasattr(obj, "get_params") and not isinstance(obj, type):
        return (".skops",)
    return next((suffixes for kind, suffixes in HOLDERS if isinstance(obj, kind)), ())


def require_holder(obj: Any, suffix: str) -> None:
    """Raise unless files with this suffix hold such objects; say what to do."""
    known = holders(obj)
    if suffix in known:
        return
    if isinstance(obj, (str, os.PathLike)):
        advice = "The path comes second: save(obj, path)"
    elif isinstance(obj, Unit):
        advice = "Save Circuit.from_units(root)"
    elif not known:
        advice = "joblib.dump and pickle hold kernels and other objects"
    else:
        advice = f"Save it to a file that ends in {' or '.join(known)}"
        if isinstance(obj, FactorGraph) and suffix in HOLDERS[0][1]:
            advice += ", or save its circuit, model.circuit()"
        if isinstance(obj, Circuit) and suffix == ".vtree":
            advice += ", or save its vtree, circuit.vtree"
    raise CircuitError(f"A {suffix} file does not hold a {type(obj).__name__}. {advice}.")
