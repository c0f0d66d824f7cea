"""Bayesian networks in `.bif` files."""

from __future__ import annotations

import re
from functools import cache
from itertools import product
from math import prod
from typing import Any

import numpy as np

from expectedkernels.checks import CircuitError, ParseError
from expectedkernels.io.text import (
    MOST_AXES,
    PathLike,
    Source,
    number_or_none,
    numbers_of,
    require_holder,
    shown,
    write_text,
)
from expectedkernels.models import converted
from expectedkernels.models.factor_graph import ROUNDING, BayesianNetwork

WORD = r'[^\s{}()\[\]|;,"]'
"""The letters of names that need no quotes."""
NAME = rf'"[^"\n]*"|{WORD}++'
NAMES = rf"(?:[\s,]++|{NAME})*+"
NUMBERS = r'[^;{}()\[\]|"]*+'
ENTRY = re.compile(rf"\s*(\(({NAMES})\)|(?:table|default)(?!{WORD}))({NUMBERS});")
"""A row given states of the parents, a table, or a default."""
COMMENT = re.compile(r'"[^"\n]*"?|//[^\n]*|/\*(?:.*?\*/|.*)', re.DOTALL)
"""A comment, or a quoted name, in which there is none."""
PATTERNS = {"NAME": NAME, "NAMES": NAMES, "NUMBERS": NUMBERS, "BAR": r"\|?", "END": r"\Z"}
EXPECTED = {"NAME": "a name", "END": "the end of the file"}
LARGEST_DEFAULTS = 2**22
"""How many probabilities of a file may be left to defaults."""
Block = tuple[int, list[str], list[tuple[re.Match[str], list[float]]]]
"""A place, parents with the variable behind them, and entries with their numbers."""


def read_bif(path: PathLike) -> BayesianNetwork:
    """The Bayesian network in a `.bif` file, plain or compressed with gzip.

    Variables are numbered in the order of their declarations. Distributions may be given row by row
    (``(a, b) 0.1, 0.9;``), as a ``table`` (whose first index is the state of the variable itself
    and whose last parent varies fastest), and with a ``default`` for the rows that are not listed.
    Comments and properties are skipped. Probabilities are taken as they are written, and may
    differ from a sum of one by rounding.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    BayesianNetwork
        With names and states.

    Raises
    ------
    ParseError
        If the file does not follow the format, with the line.

    Examples
    --------
    >>> import os, tempfile
    >>> text = '''
    ... network weather { }
    ... variable rain { type discrete [ 2 ] { yes, no }; }
    ... variable wet { type discrete [ 2 ] { yes, no }; }
    ... probability ( rain ) { table 0.2, 0.8; }
    ... probability ( wet | rain ) { (yes) 0.9, 0.1; default 0.3, 0.7; }
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "weather.bif")
    ...     write_text(path, text.splitlines())
    ...     network = read_bif(path)
    >>> network.names, network.states[0], network.cpts[1].tolist()
    (['rain', 'wet'], ['yes', 'no'], [[0.9, 0.1], [0.3, 0.7]])
    """
    reader = _Reader(Source(path))
    reader.read()
    variables, blocks = reader.variables, reader.blocks
    if not variables:
        raise reader.source.error("expected the declaration of at least one variable, found none")
    for place, family, _ in blocks.values():  # misspelt names first: others lack probabilities then
        for name in family:
            if name not in variables:
                raise reader.error(f"variable {shown(name)} is not declared", place)
        if len(set(family)) != len(family):
            message = f"the probabilities of {shown(family[-1])} name a variable twice"
            raise reader.error(message, place)
    for name, (place, _) in variables.items():
        if name not in blocks:
            raise reader.error(f"variable {shown(name)} has no probabilities", place)
    reader.check_sizes()
    number = {name: v for v, name in enumerate(variables)}
    parents = [[number[parent] for parent in blocks[name][1][:-1]] for name in variables]
    cpts = [reader.table(*blocks[name]) for name in variables]
    states = [states for _, states in variables.values()]
    try:
        return BayesianNetwork(parents, cpts, list(variables), states)
    except CircuitError as error:
        raise reader.source.error(str(error)) from None


@cache
def _pattern(choices: tuple[str, ...]) -> re.Pattern[str]:
    """Space, and one of some words, marks or `PATTERNS`."""
    words = (rf"{x}(?!{WORD})" if x.isalpha() else re.escape(x) for x in choices)
    return re.compile(rf"\s*({'|'.join(map(PATTERNS.get, choices, words))})")


class _Reader:
    """What a file declares, by the names of variables; places are in its text without comments."""

    def __init__(self, source: Source):
        self.source, self.text = source, source.text
        self.text = COMMENT.sub(self._without_comment, source.text)
        self.place = 0
        self.variables: dict[str, tuple[int, list[str]]] = {}  # places and states
        self.blocks: dict[str, Block] = {}

    def _without_comment(self, found: re.Match[str]) -> str:
        text = found[0]
        if text[0] == '"' and (len(text) == 1 or text[-1] != '"'):
            raise self.error("a quoted name is not closed", found.start())
        if text.startswith("/*") and (len(text) < 4 or not text.endswith("*/")):
            raise self.error("a comment is not closed", found.start())
        return text if text[0] == '"' else " " + "\n" * text.count("\n")

    def error(self, message: str, place: int) -> ParseError:
        """The error with the line of a place."""
        return self.source.error(message, self.text.count("\n", 0, place) + 1)

    def take(self, *choices: str) -> str:
        """Move past one of some words, marks or `PATTERNS`, which must come next."""
        found = _pattern(choices).match(self.text, self.place)
        if found is None:
            token: Any = re.compile(rf"\s*({NAME}|.|\Z)").match(self.text, self.place)
            other = shown(token[1].strip('"')) if token[1] else "the end of the file"
            *most, last = (EXPECTED.get(x, f"'{x}'") for x in choices)
            expected = f"{', '.join(most)} or {last}" if most else last
            raise self.error(f"expected {expected}, found {other}", token.start(1))
        self.place = found.end()
        return found[1]

    def takes(self, choices: str) -> list[str]:
        """Move past some words, marks and `PATTERNS`, with spaces between them."""
        return [self.take(choice) for choice in choices.split()]

    def skip_to(self, mark: str) -> None:
        """Move past everything up to a mark."""
        rest: Any = re.compile(rf'(?:"[^"]*"|[^"{mark}])*+').match(self.text, self.place)
        self.place = rest.end()
        self.take(mark)

    def read(self) -> None:
        """Read the whole file."""
        while word := self.take("network", "variable", "probability", "property", "END"):
            place = self.place - len(word)
            if word == "variable":
                self.variable(place)
            elif word == "probability":
                self.probability(place)
            else:
                for mark in "{}" if word == "network" else ";":
                    self.skip_to(mark)

    def variable(self, place: int) -> None:
        """Read the declaration of a variable."""
        name = self.take("NAME").strip('"')
        if name in self.variables:
            raise self.error(f"variable {shown(name)} is declared twice", place)
        self.take("{")
        while (word := self.take("type", "property", "}")) != "}":
            if word == "property":
                self.skip_to(";")
                continue
            start = self.place
            *_, count, _, _, names, _, _ = self.takes("discrete [ NAME ] { NAMES } ;")
            self.variables[name] = place, (states := _names(names))
            if str(len(states)) != count or not states:
                raise self.error(
                    f"variable {shown(name)} is declared with {shown(count)} states, but "
                    f"{len(states)} are named",
                    start,
                )
            if len(set(states)) != len(states):
                raise self.error(f"variable {shown(name)} has two states of one name", start)
        if name not in self.variables:
            raise self.error(f"variable {shown(name)} has no type", place)

    def probability(self, place: int) -> None:
        """Read the probabilities of a variable."""
        _, name, _, parents, *_ = self.takes("( NAME BAR NAMES ) {")
        child = name.strip('"')
        if child in self.blocks:
            raise self.error(f"variable {shown(child)} has probabilities twice", place)
        entries: list[tuple[re.Match[str], list[float]]] = []
        self.blocks[child] = place, [*_names(parents), child], entries
        word = ""
        while word != "}":
            while (entry := ENTRY.match(self.text, self.place)) is not None:
                entries.append((entry, self.numbers(entry)))
                self.place = entry.end()
            word = self.take("(", "table", "default", "property", "}")
            if word == "property":
                self.skip_to(";")
            elif word != "}":  # an entry that is not whole
                self.takes("NAMES ) NUMBERS ;" if word == "(" else "NUMBERS ;")

    def numbers(self, entry: re.Match[str]) -> list[float]:
        """The numbers of an entry, which are separated by commas or spaces."""
        values = numbers_of(entry[3].replace(",", " ").split())
        if values is None or not (min(values, default=0.0) >= 0.0 and sum(values) < np.inf):
            for part in re.compile(r"[^\s,]+").finditer(self.text, *entry.span(3)):
                value = number_or_none(part[0])
                if value is None or not 0.0 <= value < np.inf:
                    raise self.error(
                        "probabilities must be finite numbers that are not negative, found "
                        f"{shown(part[0])}",
                        part.start(),
                    )
        return values or []

    def check_sizes(self) -> None:
        """Raise unless tables have few axes, and a size that the file explains, before all else."""
        sizes, given = {}, 0
        for child, (place, family, entries) in self.blocks.items():
            if len(family) > MOST_AXES:
                raise self.error(
                    f"variables have at most {MOST_AXES - 1} parents, found {len(family) - 1} of "
                    f"{shown(child)}",
                    place,
                )
            sizes[child] = prod(len(self.variables[name][1]) for name in family)
            given += sum(len(numbers) for _, numbers in entries)
        if sum(sizes.values()) > LARGEST_DEFAULTS + given:
            child = max(sizes, key=lambda name: sizes[name])
            raise self.error(
                f"the tables need {sum(sizes.values())} numbers, of which the file gives {given}, "
                f"and defaults fill at most {LARGEST_DEFAULTS}. The largest table is that of "
                f"{shown(child)}, with {sizes[child]}",
                self.blocks[child][0],
            )

    def table(self, place: int, family: list[str], entries: Any) -> Any:
        """The table of one variable: axes of the parents, then its own."""
        codes = [{s: i for i, s in enumerate(self.variables[name][1])} for name in family]
        *shape, n = map(len, codes)
        size, child = prod(shape), shown(family[-1])
        rows: dict[int, tuple[int, Any]] = {}  # places and numbers
        default: tuple[int, Any] | None = None
        for entry, numbers in entries:
            start, kind = entry.start(1), entry[1]
            wanted = n * size if kind == "table" else n
            if len(numbers) != wanted:
                raise self.error(
                    f"expected {wanted} probabilities of {child}, found {len(numbers)}", start
                )
            if kind == "default":
                default = default or (start, numbers)
                continue
            given = _names(entry[2] or "")
            if kind == "table":
                found = {row: (start, x) for row, x in enumerate(np.reshape(numbers, (n, size)).T)}
            else:
                found = {self.row(codes[:-1], family, given, start): (start, numbers)}
            if found.keys() & rows.keys():
                states = f" given ({', '.join(given)})" if given else ""
                raise self.error(f"the probabilities of {child}{states} are given twice", start)
            rows |= found
        table = np.full((size, n), default[1] if default else np.nan)
        if rows:
            table[list(rows)] = [numbers for _, numbers in rows.values()]
        wrong = ~(np.abs(table.sum(axis=-1) - 1.0) <= ROUNDING)
        if wrong.any():
            row = int(np.argmax(wrong))
            at = zip(codes, np.unravel_index(row, shape), strict=False)
            states = ", ".join([*code][state] for code, state in at)
            what = f"the probabilities of {child}" + (states and f" given ({states})")
            start = rows.get(row, default or (None, ()))[0]
            if start is None:
                raise self.error(f"{what} are missing", place)
            raise self.error(
                f"{what} must sum to one, found a sum of {table[row].sum():.6g}", start
            )
        return table.reshape((*shape, n))

    def row(self, codes: Any, family: list[str], given: list[str], place: int) -> int:
        """The number of the row for states of the parents."""
        if len(given) != len(codes):
            raise self.error(
                f"expected states of the {len(codes)} parents of {shown(family[-1])}, found "
                f"{len(given)}",
                place,
            )
        row = 0
        for parent, state, code in zip(family, given, codes, strict=False):
            if state not in code:
                raise self.error(
                    f"{shown(state)} is no state of {shown(parent)}, which has {[*code][:20]}",
                    place,
                )
            row = row * len(code) + code[state]
        return row


def _names(text: str) -> list[str]:
    return [name.strip('"') for name in re.findall(NAME, text)]


def write_bif(network: BayesianNetwork, path: PathLike) -> None:
    """Write a Bayesian network to a `.bif` file (compressed if its name ends in .gz).

    Numbers read back exactly. Variables without names are called x0, x1, ..., and states
    without labels s0, s1, ...

    Parameters
    ----------
    network : BayesianNetwork
    path : path
        Where to write.

    Raises
    ------
    CircuitError
        If a name or label cannot be written.

    Examples
    --------
    >>> import os, tempfile
    >>> from pathlib import Path
    >>> coin = BayesianNetwork([[]], [[0.5, 0.5]], ["coin"], [["heads", "tails"]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "coin.bif")
    ...     write_bif(coin, path)
    ...     print(Path(path).read_text())
    network unknown {
    }
    variable coin {
      type discrete [ 2 ] { heads, tails };
    }
    probability ( coin ) {
      table 0.5, 0.5;
    }
    """
    network = converted(network)
    require_holder(network, ".bif")
    cards = network.cardinalities
    names = [_quoted(name) for name in network.names or [f"x{v}" for v in range(len(cards))]]
    known = network.states or [[f"s{state}" for state in range(card)] for card in cards]
    states = [[_quoted(str(label)) for label in given] for given in known]
    lines = ["network unknown {", "}"]
    for name, labels in zip(names, states, strict=True):
        lines += [
            f"variable {name} {{",
            f"  type discrete [ {len(labels)} ] {{ {', '.join(labels)} }};",
            "}",
        ]
    for v, (parents, table) in enumerate(zip(network.parents, network.cpts, strict=True)):
        given = f" | {', '.join(names[parent] for parent in parents)}" if parents else ""
        lines.append(f"probability ( {names[v]}{given} ) {{")
        rows = table.reshape(-1, len(states[v])).tolist()
        for where, row in zip(product(*(states[p] for p in parents)), rows, strict=True):
            start = f"({', '.join(where)})" if parents else "table"
            lines.append(f"  {start} {', '.join(map(repr, row))};")
        lines.append("}")
    write_text(path, lines)


def _quoted(name: str) -> str:
    """A name, in quotes if it needs them."""
    if not name.isascii() or '"' in name or "\n" in name:
        raise CircuitError(
            "Names and labels in a .bif file are ASCII, without quotes and line breaks. "
            f"Got {name!r}."
        )
    plain = re.fullmatch(f"{WORD}+", name) and not re.search("//|/[*]", name)
    return name if plain else f'"{name}"'
