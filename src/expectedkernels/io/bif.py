"""Bayesian networks in `.bif` files."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from expectedkernels.checks import CircuitError, ParseError
from expectedkernels.io.text import MOST_AXES, PathLike, Source, shown, write_text
from expectedkernels.models import converted
from expectedkernels.models.factor_graph import ROUNDING, BayesianNetwork

TOKEN = re.compile(
    r"""
    (?P<skip> \s+ | //[^\n]* | /\*.*?\*/ )
    | "(?P<quoted> [^"\n]* )"
    | (?P<mark> [{}()\[\]|;,] )
    | (?P<word> (?: (?! // | /\* ) [^\s{}()\[\]|;,"] )+ )
    """,
    re.VERBOSE | re.DOTALL,
)
LARGEST_DEFAULTS = 2**22
"""How many probabilities of a file may be left to defaults."""
PLAIN = re.compile(r"(?:(?!//|/\*)[^\s{}()\[\]|;,\"])+")
"""Names that need no quotes."""


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
    if not parser.variables:
        raise parser.source.error("expected the declaration of at least one variable, found none")
    names = list(parser.variables)
    number = {name: v for v, name in enumerate(names)}
    tables = _Tables(parser)  # misspelt names first: they leave others without probabilities
    for name in names:
        if name not in parser.blocks:
            raise parser.source.error(
                f"variable {shown(name)} has no probabilities", parser.variables[name].line
            )
    tables.check_sizes([parser.blocks[name] for name in names])
    cpts = [tables.of(parser.blocks[name]) for name in names]
    parents = [[number[parent] for parent in parser.blocks[name].parents] for name in names]
    try:
        return BayesianNetwork(parents, cpts, names, [parser.variables[v].states for v in names])
    except CircuitError as error:
        raise parser.source.error(str(error)) from None


class Token(NamedTuple):
    """A word, a quoted name or a punctuation mark, and its line."""

    kind: str
    text: str
    line: int


@dataclass
class Variable:
    """A declared variable."""

    line: int
    states: list[str]


class Entry(NamedTuple):
    """A line of numbers: a row given states of the parents, a table, or a default."""

    kind: str
    given: tuple[str, ...]
    numbers: list[float]
    line: int


@dataclass
class Block:
    """The probabilities of one variable, as they stand in the file."""

    line: int
    child: str
    parents: list[str]
    entries: list[Entry] = field(default_factory=list)


class _Parser:
    """Reads declarations and probabilities, one token after the other."""

    def __init__(self, source: Source):
        self.source = source
        self.place, self.line = 0, 1  # behind the current token
        self.token = self._after()
        self.variables: dict[str, Variable] = {}
        self.blocks: dict[str, Block] = {}

    def _after(self) -> Token:
        """The next token that is no comment; behind the last, an empty one."""
        text = self.source.text
        while self.place < len(text):
            found = TOKEN.match(text, self.place)
            if found is None:
                what = "comment" if text.startswith("/*", self.place) else "quoted name"
                raise self.source.error(f"a {what} is not closed", self.line)
            kind, line = found.lastgroup or "skip", self.line
            self.line += found[0].count("\n")
            self.place = found.end()
            if kind != "skip":
                return Token(kind, found[kind], line)
        return Token("end", "", self.line)

    def error(self, expected: str) -> ParseError:
        found = shown(self.token.text) if self.token.kind != "end" else "the end of the file"
        return self.source.error(f"expected {expected}, found {found}", self.token.line)

    def next(self) -> Token:
        """The current token; moves on to the one after it."""
        token = self.token
        if token.kind != "end":
            self.token = self._after()
        return token

    def sees(self, *texts: str) -> bool:
        """Whether the current token is one of these words or marks."""
        return self.token.kind in ("mark", "word") and self.token.text in texts

    def take(self, text: str) -> None:
        """Move past a word or mark that must come now."""
        if not self.sees(text):
            raise self.error(f"'{text}'")
        self.next()

    def name(self, what: str) -> str:
        """The next token as a name."""
        if self.token.kind not in ("word", "quoted"):
            raise self.error(what)
        return self.next().text

    def names(self, close: str, what: str) -> list[str]:
        """Names up to a closing mark, separated by commas or spaces."""
        found = []
        while not self.sees(close):
            if self.sees(","):
                self.next()
            else:
                found.append(self.name(what))
        self.next()
        return found

    def skip_to(self, mark: str) -> None:
        """Move past everything up to a mark."""
        while not self.sees(mark):
            if self.token.kind == "end":
                raise self.error(f"'{mark}'")
            self.next()
        self.next()

    def read(self) -> None:
        """Read the whole file."""
        while self.token.kind != "end":
            if self.sees("network"):
                self.skip_to("{")
                self.skip_to("}")
            elif self.sees("variable"):
                self.variable()
            elif self.sees("probability"):
                self.probability()
            elif self.sees("property"):
                self.skip_to(";")
            else:
                raise self.error("'network', 'variable' or 'probability'")

    def variable(self) -> None:
        """Read the declaration of a variable."""
        line = self.next().line
        name = self.name("the name of a variable")
        if name in self.variables:
            raise self.source.error(f"variable {shown(name)} is declared twice", line)
        self.take("{")
        states: list[str] | None = None
        while not self.sees("}"):
            if self.sees("type"):
                states = self.states(name)
            elif self.sees("property"):
                self.skip_to(";")
            else:
                raise self.error("'type', 'property' or '}'")
        self.next()
        if states is None:
            raise self.source.error(f"variable {shown(name)} has no type", line)
        self.variables[name] = Variable(line, states)

    def states(self, name: str) -> list[str]:
        """Read the states of a variable."""
        line = self.next().line
        self.take("discrete")
        self.take("[")
        count = self.name("the number of states")
        self.take("]")
        self.take("{")
        states = self.names("}", "the name of a state")
        self.take(";")
        if str(len(states)) != count or not states:
            raise self.source.error(
                f"variable {shown(name)} is declared with {shown(count)} states, but "
                f"{len(states)} are named",
                line,
            )
        if len(set(states)) != len(states):
            raise self.source.error(f"variable {shown(name)} has two states of one name", line)
        return states

    def probability(self) -> None:
        """Read the probabilities of a variable."""
        line = self.next().line
        self.take("(")
        child = self.name("the name of a variable")
        if self.sees("|"):
            self.next()
        block = Block(line, child, self.names(")", "the name of a parent, or ')'"))
        if child in self.blocks:
            raise self.source.error(f"variable {shown(child)} has probabilities twice", line)
        self.take("{")
        while not self.sees("}"):
            if self.sees("property"):
                self.skip_to(";")
            else:
                block.entries.append(self.entry())
        self.next()
        self.blocks[child] = block

    def entry(self) -> Entry:
        """Read one line of numbers."""
        line = self.token.line
        plain = self.plain_entry()
        if plain is not None:
            return plain
        if self.sees("("):
            self.next()
            kind, given = "row", tuple(self.names(")", "a state of a parent, or ')'"))
        elif self.sees("table", "default"):
            kind, given = self.next().text, ()
        else:
            raise self.error("'(', 'table', 'default', 'property' or '}'")
        words = []
        while not self.sees(";"):
            if self.sees(","):
                self.next()
            elif self.token.kind == "word":
                words.append(self.next())
            else:
                raise self.error("a number or ';'")
        self.next()
        return Entry(kind, given, [self.number(word) for word in words], line)

    def plain_entry(self) -> Entry | None:
        """The line of numbers that starts here, if names and numbers stand between commas."""
        kind, line, text = self.token.text, self.token.line, self.source.text
        stop = text.find(";", self.place)
        if not self.sees("(", "table", "default") or stop < 0:
            return None
        given: tuple[str, ...] = ()
        inside, numbers = "", text[self.place : stop]
        if kind == "(":
            inside, _, numbers = numbers.partition(")")
            kind, given = "row", tuple(name.strip() for name in inside.split(","))
            if not all(map(PLAIN.fullmatch, given)):
                return None
        if "_" in numbers or not numbers.isascii():
            return None
        try:
            values = [float(number) for number in numbers.split(",")]
        except ValueError:
            return None
        if min(values) < 0 or not sum(values) < np.inf:  # or NaN
            return None
        self.line += text.count("\n", self.place, stop)
        self.place = stop + 1
        self.token = self._after()
        return Entry(kind, given, values, line)

    def number(self, token: Token) -> float:
        """A token as a probability."""
        value = self.source.numbers([token.text], token.line)[0]
        if not 0.0 <= value < np.inf:
            raise self.source.error(
                f"probabilities must be finite and not negative, found {token.text}", token.line
            )
        return value


class _Tables:
    """Makes conditional probability tables of what stands in the file."""

    def __init__(self, parser: _Parser):
        self.source, self.variables = parser.source, parser.variables
        for block in parser.blocks.values():
            check_family(self.source, (block.child, *block.parents), self.variables, block.line)

    def shape(self, block: Block) -> list[int]:
        """The shape of the table of one variable: axes of the parents, then its own."""
        return [len(self.variables[name].states) for name in (*block.parents, block.child)]

    def check_sizes(self, blocks: list[Block]) -> None:
        """Raise if tables are larger than their numbers explain, before memory is taken."""
        given = sum(len(entry.numbers) for block in blocks for entry in block.entries)
        check_sizes(
            self.source,
            [prod(self.shape(block)) for block in blocks],
            [len(block.parents) for block in blocks],
            [(shown(block.child), block.line) for block in blocks],
            given,
        )

    def of(self, block: Block) -> Any:
        """The table of one variable: axes of the parents, then its own."""
        *shape, n = self.shape(block)
        table = np.full((*shape, n), np.nan)
        lines = np.full(shape, block.line)
        filled = np.zeros(shape, dtype=np.bool_)
        codes = [
            {state: code for code, state in enumerate(self.variables[parent].states)}
            for parent in block.parents
        ]
        # defaults come last, wherever they stand: they are for the rows that nothing else fills
        for entry in sorted(block.entries, key=lambda entry: entry.kind == "default"):
            self._count(entry, table.size if entry.kind == "table" else n, block)
            values: Any = entry.numbers
            if entry.kind == "default":
                table[~filled], lines[~filled] = values, entry.line
                break
            if entry.kind == "table":
                values = np.moveaxis(np.reshape(values, (n, *shape)), 0, -1)
            place: Any = self._place(block, entry, codes) if entry.kind == "row" else ...
            if np.any(filled[place]):
                given = f" given ({', '.join(entry.given)})" if entry.given else ""
                raise self.source.error(
                    f"the probabilities of {shown(block.child)}{given} are given twice", entry.line
                )
            table[place], lines[place], filled[place] = values, entry.line, True
        self._check(block, table, lines)
        return table

    def _count(self, entry: Entry, wanted: int, block: Block) -> None:
        if len(entry.numbers) != wanted:
            raise self.source.error(
                f"expected {wanted} probabilities of {shown(block.child)}, found "
                f"{len(entry.numbers)}",
                entry.line,
            )

    def _place(self, block: Block, entry: Entry, codes: list[dict[str, int]]) -> tuple[int, ...]:
        """The states of the parents that a row is for."""
        if len(entry.given) != len(block.parents):
            raise self.source.error(
                f"expected states of the {len(block.parents)} parents of {shown(block.child)}, "
                f"found {len(entry.given)}",
                entry.line,
            )
        place = []
        for parent, state, code in zip(block.parents, entry.given, codes, strict=True):
            if state not in code:
                states = self.variables[parent].states
                raise self.source.error(
                    f"{shown(state)} is no state of {shown(parent)}, which has {states[:20]}",
                    entry.line,
                )
            place.append(code[state])
        return tuple(place)

    def _check(self, block: Block, table: Any, lines: Any) -> None:
        """Raise unless all rows are there and sum to one."""
        for place in np.argwhere(~(np.abs(table.sum(axis=-1) - 1.0) <= ROUNDING))[:1]:
            row = tuple(place.tolist())
            given = ", ".join(
                self.variables[parent].states[state]
                for parent, state in zip(block.parents, row, strict=True)
            )
            what = f"the probabilities of {shown(block.child)}" + (given and f" given ({given})")
            if np.isnan(table[row]).any():
                raise self.source.error(f"{what} are missing", block.line)
            raise self.source.error(
                f"{what} must sum to one, found a sum of {table[row].sum():.6g}", int(lines[row])
            )


def check_family(
    source: Source, family: Sequence[str], declared: Container[str], line: int
) -> None:
    """Raise unless a variable and its parents are declared, and different."""
    for name in family:
        if name not in declared:
            raise source.error(f"variable {shown(name)} is not declared", line)
    if len(set(family)) != len(family):
        raise source.error(f"the probabilities of {shown(family[0])} name a variable twice", line)


def check_sizes(
    source: Source, sizes: list[int], n_parents: list[int], where: list[tuple[str, int]], given: int
) -> None:
    """Raise unless tables have few enough axes, and are of a size that the file explains.

    Parameters
    ----------
    source : Source
    sizes, n_parents : lists of int
        The number of entries of every table, and of the parents of its variable.
    where : list of pairs
        The name of every variable, ready to be shown, and the line of its table.
    given : int
        How many numbers the file gives for all tables together.
    """
    for (name, line), count in zip(where, n_parents, strict=True):
        if count >= MOST_AXES:
            raise source.error(
                f"variables have at most {MOST_AXES - 1} parents, found {count} of {name}", line
            )
    if sum(sizes) > LARGEST_DEFAULTS + given:
        size = max(sizes)
        name, line = where[sizes.index(size)]
        raise source.error(
            f"the tables need {sum(sizes)} numbers, of which the file gives {given}, and defaults "
            f"fill at most {LARGEST_DEFAULTS}. The largest table is that of {name}, with {size}",
            line,
        )


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
    return name if PLAIN.fullmatch(name) else f'"{name}"'
