"""Text files: their bytes, lines, numbers and errors, and what each format holds."""

from __future__ import annotations

import gzip
import os
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any
from warnings import warn

from expectedkernels.checks import CircuitError, ParseError
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.graph import Unit
from expectedkernels.models.factor_graph import BayesianNetwork, FactorGraph
from expectedkernels.vtree import Vtree

PathLike = str | os.PathLike[str]
Record = tuple[int, list[str]]
"""The number of a line, from 1, and its tokens."""

LARGEST_VARIABLE = MOST_STATES = 2**20
"""Larger numbers of variables and states are taken for errors, before memory is allocated."""
MOST_AXES = 64
"""NumPy arrays have no more axes than this."""
GZIP_MAGIC = b"\x1f\x8b"
UNPACKED, UNPACKED_RATIO = 2**24, 100
"""Gzip data may unpack to so many bytes, or to so many times their own size."""


class Source:
    """A text file, plain or compressed with gzip, whose records know where they stand.

    Parameters
    ----------
    path : path
        The file. Whether it is compressed is seen from its first bytes, not from its name. Lines
        may end in any of the usual ways.
    data : bytes, optional
        What is in it, if it has been read already.
    any_encoding : bool
        Whether UTF-16 with a byte order mark is read, too, and anything else as Windows-1252, with
        a warning.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "tiny.vtree")
    ...     write_text(path, ["c a comment", "", "vtree 1", "L 0 1"])
    ...     list(Source(path).records())
    [(3, ['vtree', '1']), (4, ['L', '0', '1'])]
    """

    def __init__(self, path: PathLike, data: bytes | None = None, any_encoding: bool = False):
        self.path = checked_path(path)
        data = read_bytes(self.path) if data is None else data
        if data.startswith(GZIP_MAGIC):
            data = self._unpacked(data)
        self.size = len(data)
        text = self._decode(data, any_encoding)
        self.text = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
        self.is_plain = is_plain(text)

    def _decode(self, data: bytes, any_encoding: bool) -> str:
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            offset = error.start
        marked = data.startswith((BOM_UTF16_BE, BOM_UTF16_LE))
        with suppress(UnicodeDecodeError):
            text = data.decode("utf-16" if marked else "cp1252") if any_encoding else "\0"
            if "\0" not in text:
                advice = "of which Latin-1 is a part. If letters are wrong, save it in UTF-8"
                if not marked:
                    what = f"{self.path} is not in UTF-8: it is read as Windows-1252, {advice}."
                    warn(what, stacklevel=2)
                return text
        raise self.error(
            f"expected a text file (or one compressed with gzip), found byte {data[offset]:#04x} "
            f"at offset {offset}, which is not UTF-8. If it is text, save it in this encoding"
        )

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
                f"{len(data)} bytes of gzip data unpack to more than {limit} bytes, as in files "
                "made to exhaust memory. If you trust this one, unpack it with gunzip"
            )
        return unpacked

    def error(self, message: str, place: int | None = None) -> ParseError:
        """The error that says in which line of this file something is wrong."""
        return ParseError(message, path=self.path, line=place)

    def require(self, good: Any, message: str, place: int | None = None) -> None:
        """Raise an error unless something holds."""
        if not good:
            raise self.error(message, place)

    def records(self, comment: str | None = "c") -> Iterator[Record]:
        """The lines that are neither blank nor comments."""
        for number, line in enumerate(self.text.split("\n"), 1):
            tokens = line.split()
            if tokens and tokens[0] != comment:
                yield number, tokens

    def numbers(self, tokens: Sequence[str], line: int, kind: type = float) -> list[Any]:
        """Tokens as floats, or as ints."""
        values = numbers_of(tokens, kind, self.is_plain)
        if values is None:
            wrong = next(token for token in tokens if numbers_of([token], kind) is None)
            expected = "a number" if kind is float else "an integer"
            raise self.error(f"expected {expected}, found {quote(wrong)}", line)
        return values


def is_plain(text: str) -> bool:
    """Whether a text has nothing but ASCII that Python would take for part of a number."""
    return text.isascii() and "_" not in text


def numbers_of(tokens: Sequence[str], kind: type = float, plain: bool = False) -> Any:
    """The numbers that tokens in ASCII stand for, None if one of them is none.

    Those of a text that `is_plain` need no second look.
    """
    try:
        return [*map(kind, tokens)] if plain or is_plain("".join(tokens)) else None
    except ValueError:
        return None


def number_or_none(token: str, kind: type = float) -> Any:
    """The number that a token in ASCII stands for, None if it is none."""
    return (numbers_of([token], kind) or [None])[0]


def quote(text: str) -> str:
    """The text in quotes, cut to a length fit for a message."""
    return repr(text if len(text) <= 40 else text[:40] + "...")


def either(choices: Sequence[str]) -> str:
    """Some choices as a list in words."""
    *most, last = choices
    return f"{', '.join(most)} or {last}" if most else last


def read_bytes(path: PathLike) -> bytes:
    """The bytes of a file."""
    with open(checked_path(path), "rb") as file:
        return file.read()


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


CIRCUITS = (".npz", ".psdd", ".jpc", ".spn")
MODELS = (".uai", ".bif")
HOLDERS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (Circuit, CIRCUITS),
    (BayesianNetwork, MODELS),
    (FactorGraph, MODELS[:1]),
    (Vtree, (".vtree",)),
)
"""The suffixes of the files that hold an object; estimators are recognised by their methods."""


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
        if isinstance(obj, FactorGraph) and suffix in CIRCUITS:
            advice += ", or save its circuit, model.circuit()"
        if isinstance(obj, Circuit) and suffix == ".vtree":
            advice += ", or save its vtree, circuit.vtree"
    raise CircuitError(f"A {suffix} file does not hold a {type(obj).__name__}. {advice}.")
