"""Bayesian networks in `.bif` files."""

from __future__ import annotations

import re
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from expectedkernels.checks import CircuitError, ParseError
from expectedkernels.io.text import MOST_AXES, PathLike, Source, numbers_of, shown, write_text
from expectedkernels.models import converted
from expectedkernels.models.factor_graph import ROUNDING, BayesianNetwork

WORD = r'[^\s{}()\[\]|;,"]'
"""The letters of names that need no quotes."""
NAME = re.compile(rf'"[^"\n]*"|{WORD}++')
NAMES = re.compile(rf"(?:[\s,]++|{NAME.pattern})*+")
NUMBERS = re.compile(r'[^;{}()\[\]|"]*+')
ENTRY = re.compile(rf"\s*(?:(\()({NAMES.pattern})\)|(table|default)(?!{WORD}))({NUMBERS.pattern});")
"""A row given states of the parents, a table, or a default."""
TOKEN = re.compile(rf"\s*({NAME.pattern}|[{{}}()\[\]|;,]|\Z)")
COMMENT = re.compile(r'"[^"\n]*"?|//[^\n]*|/\*(?:.*?\*/|.*)', re.DOTALL)
"""A comment, or a quoted name, in which there is none."""
LARGEST_DEFAULTS = 2**22
"""How many probabilities of a file may be left to defaults."""


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
    parser = _Parser(Source(path))
    parser.read()
    variables, blocks = parser.variables, parser.blocks
    if not variables:
        raise parser.source.error("expected the declaration of at least one variable, found none")
    for block in blocks.values():  # misspelt names first: they leave others without probabilities
        for name in block.family:
            if name not in variables:
                raise parser.error(f"variable {shown(name)} is not declared", block.place)
        if len(set(block.family)) != len(block.family):
            message = f"the probabilities of {shown(block.child)} name a variable twice"
            raise parser.error(message, block.place)
    for name, (place, _) in variables.items():
        if name not in blocks:
            raise parser.error(f"variable {shown(name)} has no probabilities", place)
    parser.check_sizes()
    number = {name: v for v, name in enumerate(variables)}
    parents = [[number[parent] for parent in blocks[name].family[:-1]] for name in variables]
    cpts = [parser.table(blocks[name]) for name in variables]
    states = [states for _, states in variables.values()]
    try:
        return BayesianNetwork(parents, cpts, list(variables), states)
    except CircuitError as error:
        raise parser.source.error(str(error)) from None


class Entry(NamedTuple):
    """Numbers of a block: a row given states of the parents, a table, or a default."""

    kind: str
    given: list[str]
    numbers: list[float]
    place: int


class Block(NamedTuple):
    """The probabilities of one variable, the last of its family, as they stand in the file."""

    place: int
    family: list[str]
    entries: list[Entry]

    @property
    def child(self) -> str:
        """The variable."""
        return self.family[-1]


class _Parser:
    """Reads declarations and probabilities; all places are in the text without comments."""

    def __init__(self, source: Source):
        self.source = source
        self.text = source.text
        self.text = COMMENT.sub(self._without_comment, source.text)
        self.place = 0
        self.variables: dict[str, tuple[int, list[str]]] = {}
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

    def unexpected(self, expected: str) -> ParseError:
        """The error that the next token is another one."""
        token, place = self.peek(), self.place
        found = shown(token.strip('"')) if token else "the end of the file"
        return self.error(f"expected {expected}, found {found}", place)

    def peek(self) -> str:
        """The next token, where the place is then; behind the last, an empty one."""
        found: Any = TOKEN.match(self.text, self.place)
        self.place = found.start(1)
        return found[1]

    def take(self, *tokens: str, expected: str = "") -> str:
        """Move past the next token, which must be one of these."""
        token = self.peek()
        if token not in tokens:
            raise self.unexpected(expected or f"'{tokens[0]}'")
        self.place += len(token)
        return token

    def name(self, what: str) -> str:
        """Move past a name."""
        token = self.peek()
        if not token or token in "{}()[]|;,":
            raise self.unexpected(what)
        self.place += len(token)
        return token.strip('"')

    def names(self, close: str, what: str) -> list[str]:
        """Move past names, separated by commas or spaces, and what closes their list."""
        found: Any = NAMES.match(self.text, self.place)
        self.place = found.end()
        self.take(close, expected=what)
        return _names(found[0])

    def skip_to(self, mark: str) -> None:
        """Move past everything up to a mark."""
        while (token := self.peek()) != mark:
            if not token:
                raise self.unexpected(f"'{mark}'")
            self.place += len(token)
        self.place += 1

    def read(self) -> None:
        """Read the whole file."""
        words = "network", "variable", "probability", "property"
        while self.peek():
            place = self.place
            word = self.take(*words, expected="'network', 'variable' or 'probability'")
            if word == "network":
                self.skip_to("{")
                self.skip_to("}")
            elif word == "property":
                self.skip_to(";")
            elif word == "variable":
                self.variable(place)
            else:
                self.probability(place)

    def variable(self, place: int) -> None:
        """Read the declaration of a variable."""
        name = self.name("the name of a variable")
        if name in self.variables:
            raise self.error(f"variable {shown(name)} is declared twice", place)
        self.take("{")
        states: list[str] | None = None
        while self.peek() != "}":
            start = self.place
            if self.take("type", "property", expected="'type', 'property' or '}'") == "property":
                self.skip_to(";")
            else:
                states = self.states(name, start)
        self.take("}")
        if states is None:
            raise self.error(f"variable {shown(name)} has no type", place)
        self.variables[name] = place, states

    def states(self, name: str, place: int) -> list[str]:
        """Read the states of a variable."""
        self.take("discrete")
        self.take("[")
        count = self.name("the number of states")
        self.take("]")
        self.take("{")
        states = self.names("}", "the name of a state")
        self.take(";")
        if str(len(states)) != count or not states:
            raise self.error(
                f"variable {shown(name)} is declared with {shown(count)} states, but "
                f"{len(states)} are named",
                place,
            )
        if len(set(states)) != len(states):
            raise self.error(f"variable {shown(name)} has two states of one name", place)
        return states

    def probability(self, place: int) -> None:
        """Read the probabilities of a variable."""
        self.take("(")
        child = self.name("the name of a variable")
        if self.peek() == "|":
            self.place += 1
        block = Block(place, [*self.names(")", "the name of a parent, or ')'"), child], [])
        if child in self.blocks:
            raise self.error(f"variable {shown(child)} has probabilities twice", place)
        self.take("{")
        while True:
            entry = ENTRY.match(self.text, self.place)
            if entry is not None:
                block.entries.append(self.entry(entry))
                self.place = entry.end()
                continue
            words, expected = ("(", "table", "default", "property"), "'(', 'table', 'default', "
            token = self.take("}", *words, expected=f"{expected}'property' or '}}'")
            if token == "}":
                break
            if token == "property":
                self.skip_to(";")
                continue
            if token == "(":
                self.names(")", "a state of a parent, or ')'")
            numbers: Any = NUMBERS.match(self.text, self.place)
            self.place = numbers.end()
            raise self.unexpected("a number or ';'")
        self.blocks[child] = block

    def entry(self, found: re.Match[str]) -> Entry:
        """The numbers in a match, which are separated by commas or spaces."""
        paren, given, word, text = found.groups()
        values = numbers_of(text.replace(",", " ").split())
        if values is None or not (min(values, default=0.0) >= 0.0 and sum(values) < np.inf):
            for part in re.compile(r"[^\s,]+").finditer(self.text, *found.span(4)):
                value = numbers_of([part[0]])
                if value is None:
                    raise self.error(f"expected a number, found {shown(part[0])}", part.start())
                if not 0.0 <= value[0] < np.inf:
                    message = f"probabilities must be finite and not negative, found {part[0]}"
                    raise self.error(message, part.start())
        start = found.start(1 if paren else 3)
        return Entry(word or paren, _names(given or ""), values or [], start)

    def shape(self, block: Block) -> list[int]:
        """The shape of the table of one variable: axes of the parents, then its own."""
        return [len(self.variables[name][1]) for name in block.family]

    def check_sizes(self) -> None:
        """Raise unless tables have few axes, and a size that the file explains, before all else."""
        blocks = self.blocks.values()
        for block in blocks:
            count = len(block.family) - 1
            if count >= MOST_AXES:
                most, name = MOST_AXES - 1, shown(block.child)
                raise self.error(
                    f"variables have at most {most} parents, found {count} of {name}", block.place
                )
        sizes = [prod(self.shape(block)) for block in blocks]
        given = sum(len(entry.numbers) for block in blocks for entry in block.entries)
        if sum(sizes) > LARGEST_DEFAULTS + given:
            size, block = max(zip(sizes, blocks, strict=True), key=lambda pair: pair[0])
            raise self.error(
                f"the tables need {sum(sizes)} numbers, of which the file gives {given}, and "
                f"defaults fill at most {LARGEST_DEFAULTS}. The largest table is that of "
                f"{shown(block.child)}, with {size}",
                block.place,
            )

    def table(self, block: Block) -> Any:
        """The table of one variable: axes of the parents, then its own."""
        *shape, n = self.shape(block)
        codes = [
            {state: code for code, state in enumerate(self.variables[parent][1])}
            for parent in block.family[:-1]
        ]
        rows: dict[int, Entry] = {}  # -1: a whole table
        default: Entry | None = None
        for entry in block.entries:
            wanted = n * prod(shape) if entry.kind == "table" else n
            if len(entry.numbers) != wanted:
                raise self.error(
                    f"expected {wanted} probabilities of {shown(block.child)}, found "
                    f"{len(entry.numbers)}",
                    entry.place,
                )
            if entry.kind == "default":
                default = default or entry
                continue
            row = -1 if entry.kind == "table" else self.row(block, entry, codes)
            if row in rows or -1 in rows or (row == -1 and rows):
                given = f" given ({', '.join(entry.given)})" if entry.given else ""
                raise self.error(
                    f"the probabilities of {shown(block.child)}{given} are given twice", entry.place
                )
            rows[row] = entry
        if -1 in rows:
            table = np.reshape(rows[-1].numbers, (n, -1)).T.copy()
        else:
            table = np.full((prod(shape), n), default.numbers if default else np.nan)
            if rows:
                table[list(rows)] = [entry.numbers for entry in rows.values()]
        wrong = ~(np.abs(table.sum(axis=-1) - 1.0) <= ROUNDING)
        if wrong.any():
            row = int(np.argmax(wrong))
            states = zip(codes, np.unravel_index(row, shape), strict=True)
            given = ", ".join([*code][state] for code, state in states)
            what = f"the probabilities of {shown(block.child)}" + (given and f" given ({given})")
            found = rows.get(row, rows.get(-1, default))
            if found is None:
                raise self.error(f"{what} are missing", block.place)
            total = f"found a sum of {table[row].sum():.6g}"
            raise self.error(f"{what} must sum to one, {total}", found.place)
        return table.reshape((*shape, n))

    def row(self, block: Block, entry: Entry, codes: list[dict[str, int]]) -> int:
        """The number of the row for states of the parents."""
        if len(entry.given) != len(codes):
            raise self.error(
                f"expected states of the {len(codes)} parents of {shown(block.child)}, "
                f"found {len(entry.given)}",
                entry.place,
            )
        row = 0
        for parent, state, code in zip(block.family, entry.given, codes, strict=False):
            if state not in code:
                raise self.error(
                    f"{shown(state)} is no state of {shown(parent)}, which has {[*code][:20]}",
                    entry.place,
                )
            row = row * len(code) + code[state]
        return row


def _names(text: str) -> list[str]:
    return [name.strip('"') for name in NAME.findall(text)]


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
    if not isinstance(network, BayesianNetwork):
        raise CircuitError(
            f"A .bif file holds a Bayesian network. Got a {type(network).__name__}; use write_uai."
        )
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
