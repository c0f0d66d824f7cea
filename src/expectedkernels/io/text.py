"""Text files: their lines, numbers and errors, and lists of units."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, TypeVar

import numpy as np

from expectedkernels.checks import CircuitError, CompatibilityError, ParseError, PropertyError
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.graph import Product, Sum, Unit, topological
from expectedkernels.vtree import Vtree

PathLike = str | os.PathLike[str]
Record = tuple[int, list[str]]
"""The number of a line, from 1, and its tokens."""

SMALLEST = float(np.finfo(np.float64).tiny)
LOWEST_LOG, HIGHEST_LOG = float(np.log(SMALLEST)), float(np.log(np.finfo(np.float64).max))
ROUNDING = 1e-6
"""Log-probabilities may be this far above zero: some programs print six decimals."""
LARGEST_VARIABLE = 2**20
MOST_AXES = 64
"""NumPy arrays have no more axes than this."""
LONGEST_INTEGER = 18
"""Integers have at most so many characters, so that sums of them fit 64 bits."""
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

    def variable(self, token: str, line: int) -> int:
        """A variable, numbered from 1 in the file, as a number from 0."""
        number = self.integer(token, "a variable", line)
        if not 1 <= number <= LARGEST_VARIABLE:
            raise self.error(
                f"variables are numbered from 1 to {LARGEST_VARIABLE}, found {token}", line
            )
        return number - 1

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
    return None if len(token) > LONGEST_INTEGER else as_number(token, int)


def numbers_of(tokens: Sequence[str], kind: Any = float) -> list[Any] | None:
    """The numbers that tokens in ASCII stand for, None if one of them is none."""
    letters = "".join(tokens)
    if "_" in letters or not letters.isascii():  # which Python takes for numbers
        return None
    try:
        return [kind(token) for token in tokens]
    except ValueError:
        return None


def as_number(token: str, kind: Any = float) -> Any:
    """The number that a token in ASCII stands for, None if it is none."""
    found = numbers_of([token], kind)
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


def logs(values: Any) -> list[str]:
    """The natural logarithms of an array of numbers, printed so that they read back exactly."""
    with np.errstate(divide="ignore"):
        return [repr(log) for log in np.log(np.asarray(values, dtype=np.float64)).tolist()]


def checked_path(path: Any) -> str:
    """The path as text; an int would be the number of a file that is open already."""
    if isinstance(path, (str, os.PathLike)):
        return os.fspath(path)
    raise CircuitError(f"The path of a file is text or a Path. Got {type(path).__name__} instead.")


def require_kind(given: Any, kind: type, file: str) -> None:
    """Raise unless an object is of the kind that a file holds; say what may be meant."""
    if isinstance(given, kind):
        return
    advice = ""
    if isinstance(given, (str, os.PathLike)):
        advice = " The path comes second."
    elif isinstance(given, Circuit) and kind is Vtree:
        advice = " Its vtree is circuit.vtree."
    elif isinstance(given, Circuit):
        advice = " Use save() with a .npz file."
    elif hasattr(given, "compile"):
        advice = " Use write_uai, or the circuit model.circuit()."
    elif isinstance(given, Unit):
        advice = " Circuit.from_units makes a circuit of it."
    raise CircuitError(
        f"A {file} file holds a {kind.__name__}. Got {type(given).__name__} instead.{advice}"
    )


def plain(circuit: Circuit, suffix: str) -> Circuit:
    """The circuit on the host, if it has one root, discrete variables and weights with logs."""
    require_kind(circuit, Circuit, suffix)
    if circuit.n_roots != 1:
        raise CircuitError(
            f"A {suffix} file holds a circuit with one root. Got {circuit.n_roots} roots; "
            "write them one by one, or use save() with a .npz file."
        )
    circuit = circuit.to("numpy")
    for node, variable in enumerate(circuit.vtree.variable.tolist()):
        block: Any = circuit.blocks[node]
        if variable >= 0 and circuit.cardinalities[variable] is None:
            raise CircuitError(
                f"A {suffix} file holds discrete variables. Variable {variable} is real; use "
                "save() with a .npz file."
            )
        values = block.numbers if variable >= 0 else block.flat[0]
        wrong = ~((values == 0) | ((values >= SMALLEST) & (values < np.inf)))
        if wrong.any():
            place = f"weights at vtree node {node}"
            what = place if variable < 0 else f"tables of variable {variable}"
            raise CircuitError(
                f"A {suffix} file holds logarithms, so weights and tables must be zero or at least "
                f"{SMALLEST:.3g}. The {what} contain {values[wrong].flat[0]}; use save() "
                "with a .npz file."
            )
    return circuit


T = TypeVar("T")
MOST_STATES = 2**20
"""Variables with more states than this are taken for errors, before memory is asked for."""
TABLE_ENTRIES = 2**24
"""The tables of the units of a file may have so many entries, however short the file is."""
ENTRIES_PER_BYTE = 16
STEPS_PER_BYTE = 1024


def known(source: Source, units: Mapping[int, T], tokens: list[str], line: int) -> list[T]:
    """The units that the ids in some tokens stand for: `units` maps ids to units."""
    names = numbers_of(tokens, int)
    if names is not None and all(name in units for name in names):
        return [units[name] for name in names]
    found = []
    for token in tokens:
        name = source.integer(token, "the id of an input", line)
        if name not in units:
            raise source.error(f"unit {name} has not appeared yet; inputs come first", line)
        found.append(units[name])
    return found


def circuit_of(source: Source, root: Any, vtree: Vtree | None, smooth: bool) -> Circuit:
    """The circuit of a graph of units from a file; see `Circuit.from_units`."""
    _check_tables(source, root)
    try:
        return Circuit.from_units(root, vtree=vtree, smooth=smooth)
    except (PropertyError, CompatibilityError):
        raise  # the file is sound, and its units can be asked for
    except CircuitError as error:
        raise source.error(str(error)) from error


def _check_tables(source: Source, root: Any) -> None:
    """Raise if the circuit of a root has tables out of all proportion to its file.

    A unit of one variable becomes a row of a table with an entry for every state, and takes a
    step for every state of every input.
    """
    variable: dict[Any, int] = {}
    entries = steps = 0
    cards: dict[int, int] = {}
    for unit in topological(root):
        if not unit.inputs:
            leaf: Any = unit
            variable[unit] = leaf.variable
            cards[leaf.variable] = leaf.cardinality
        else:
            below = {variable.get(i, -1) for i in unit.inputs}
            variable[unit] = below.pop() if len(below) == 1 else -1
        card = cards.get(variable[unit], 0)
        entries += card
        steps += card * len(unit.inputs)
    size = source.size
    if entries > TABLE_ENTRIES + ENTRIES_PER_BYTE * size or (
        steps > TABLE_ENTRIES * ENTRIES_PER_BYTE + STEPS_PER_BYTE * size
    ):
        worst = max(cards, key=lambda v: cards[v])
        raise source.error(
            f"the tables of the circuit would have about {entries} entries, too many for a file of "
            f"{size} bytes: variable {worst} (from 0) has {cards[worst]} states. Ask for its units "
            "(as_units=True)"
        )


def product(inputs: list[Any]) -> Any:
    """The product of some units; the unit itself if it is the only one."""
    return inputs[0] if len(inputs) == 1 else Product(inputs)


def weighted_sum(source: Source, inputs: list[Any], tokens: list[str], line: int) -> Sum:
    """The sum of some units with the log weights in some tokens."""
    log_weights = source.numbers(tokens, line)
    return Sum(inputs, source.weights(log_weights, [line] * len(log_weights)))
