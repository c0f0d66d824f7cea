"""Bayesian networks in `.bif` files."""

from __future__ import annotations

import re
from functools import cache
from itertools import product
from math import inf, prod
from typing import Any

import numpy as np

from expectedkernels.checks import CircuitError, ParseError
from expectedkernels.io.text import (
    MOST_AXES,
    PathLike,
    Source,
    either,
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
EXPECTED = {
    "NAME": "a name",
    "NAMES": "a name",
    "NUMBERS": "a number",
    "END": "the end of the file",
}
LARGEST_DEFAULTS = 2**22
"""How many probabilities of a file may be left to defaults."""
Entries = list[tuple[re.Match[str], list[float]]]


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
    reader = _Reader(path)
    variables, families = reader.variables, reader.families
    found = "expected the declaration of at least one variable, found none"
    reader.require(variables, found)
    for place, family, _ in families.values():  # misspelt names first: others lack tables then
        for i, name in enumerate(family):
            what = "named twice" if name in variables else "not declared"
            message = f"in the probabilities of {shown(family[-1])}, {shown(name)} is {what}"
            reader.require(name in variables and name not in family[:i], message, place)
    for name, (place, _) in variables.items():
        reader.require(name in families, f"variable {shown(name)} has no probabilities", place)
    number = {name: v for v, name in enumerate(variables)}
    parents = [[number[parent] for parent in families[name][1][:-1]] for name in variables]
    cpts = [reader.table(*families[name]) for name in variables]
    states = [states for _, states in variables.values()]
    try:
        return BayesianNetwork(parents, cpts, list(variables), states)
    except CircuitError as error:
        raise reader.error(str(error)) from None


@cache
def _pattern(choices: tuple[str, ...]) -> re.Pattern[str]:
    """Space, and one of some words, marks or `PATTERNS`."""
    words = (rf"{x}(?!{WORD})" if x.isalpha() else re.escape(x) for x in choices)
    return re.compile(rf"\s*({'|'.join(map(PATTERNS.get, choices, words))})")


class _Reader(Source):
    """What a file declares, by the names of variables; places are in its text without comments."""

    def __init__(self, path: PathLike):
        super().__init__(path)
        self.text = COMMENT.sub(self._without_comment, self.text)
        self.place = self.n_given = self.n_needed = 0
        self.variables: dict[str, tuple[int, list[str]]] = {}  # places and states
        self.families: dict[str, tuple[int, list[str], Entries]] = {}  # the variable comes last
        while word := self.take("network", "variable", "probability", "property", "END"):
            if word in ("variable", "probability"):
                (self.variable if word == "variable" else self.probability)(self.place - len(word))
            else:
                for mark in "{}" if word == "network" else ";":
                    self.skip_to(mark)

    def _without_comment(self, found: re.Match[str]) -> str:
        text = found[0]
        closed = text[0] != '"' or (len(text) > 1 and text[-1] == '"')
        self.require(closed, "a quoted name is not closed", found.start())
        closed = not text.startswith("/*") or (len(text) > 3 and text.endswith("*/"))
        self.require(closed, "a comment is not closed", found.start())
        return text if text[0] == '"' else " " + "\n" * text.count("\n")

    def error(self, message: str, place: int | None = None) -> ParseError:
        """The error with the line of a place."""
        line = None if place is None else self.text.count("\n", 0, place) + 1
        return super().error(message, line)

    def take(self, *choices: str, after: str = "") -> str:
        """Move past one of some words, marks or `PATTERNS`, which must come next.

        What comes before it may be a list that could go on.
        """
        found = _pattern(choices).match(self.text, self.place)
        if found is None:
            token: Any = re.compile(rf"\s*({NAME}|.|\Z)").match(self.text, self.place)
            other = shown(token[1].strip('"')) if token[1] else "the end of the file"
            more = [EXPECTED[after]] if after in ("NAMES", "NUMBERS") else []
            expected = either([*more, *(EXPECTED.get(x, f"'{x}'") for x in choices)])
            raise self.error(f"expected {expected}, found {other}", token.start(1))
        self.place = found.end()
        return found[1]

    def takes(self, choices: str) -> list[str]:
        """Move past some words, marks and `PATTERNS`, with spaces between them."""
        parts = choices.split()
        return [self.take(x, after=y) for x, y in zip(parts, ["", *parts], strict=False)]

    def skip_to(self, mark: str) -> None:
        """Move past everything up to a mark."""
        rest: Any = re.compile(rf'(?:"[^"]*"|[^"{mark}])*+').match(self.text, self.place)
        self.place = rest.end()
        self.take(mark)

    def variable(self, place: int) -> None:
        """Read the declaration of a variable."""
        name = self.take("NAME").strip('"')
        twice = f"variable {shown(name)} is declared twice"
        self.require(name not in self.variables, twice, place)
        self.take("{")
        while (word := self.take("type", "property", "}")) != "}":
            if word == "property":
                self.skip_to(";")
                continue
            start = self.place
            *_, count, _, _, names, _, _ = self.takes("discrete [ NAME ] { NAMES } ;")
            self.variables[name] = place, (states := _names(names))
            good = str(len({*states})) == count and len({*states}) == len(states) > 0
            what = f"{shown(count)} different states of variable {shown(name)}"
            self.require(good, f"expected {what}, found {shown(', '.join(states))}", start)
        self.require(name in self.variables, f"variable {shown(name)} has no type", place)

    def probability(self, place: int) -> None:
        """Read the probabilities of a variable."""
        _, name, _, parents, *_ = self.takes("( NAME BAR NAMES ) {")
        child = name.strip('"')
        twice = f"variable {shown(child)} has probabilities twice"
        self.require(child not in self.families, twice, place)
        entries: Entries = []
        self.families[child] = place, [*_names(parents), child], entries
        word = ""
        while word != "}":
            while (entry := ENTRY.match(self.text, self.place)) is not None:
                words = entry[3].replace(",", " ").split()
                numbers = numbers_of(words)
                if numbers is None or not (min(numbers, default=0) >= 0 and sum(numbers) < inf):
                    wrong = (x for x in words if not 0 <= (numbers_of([x]) or [-1])[0] < inf)
                    what = "finite numbers that are not negative"
                    message = f"expected {what}, found {shown(next(wrong, entry[3]))}"
                    raise self.error(message, entry.start(3))
                entries.append((entry, numbers))
                self.n_given += len(numbers)
                self.place = entry.end()
            word = self.take("(", "table", "default", "property", "}")
            if word == "property":
                self.skip_to(";")
            elif word != "}":  # an entry that is not whole
                self.takes("NAMES ) NUMBERS ;" if word == "(" else "NUMBERS ;")

    def table(self, place: int, family: list[str], entries: Entries) -> Any:
        """The table of one variable: axes of the parents, then its own."""
        *above, own = (self.variables[name][1] for name in family)
        shape, n, child = [len(states) for states in above], len(own), shown(family[-1])
        size = prod(shape)
        self.n_needed += n * size
        self.require(
            len(family) <= MOST_AXES and self.n_needed <= LARGEST_DEFAULTS + self.n_given,
            f"the table of {child} has {len(above)} parents, at most {MOST_AXES - 1} can be, and "
            f"{n * size} numbers. With those before it, {self.n_needed} are needed: the file gives "
            f"{self.n_given}, and defaults fill up to {LARGEST_DEFAULTS}",
            place,
        )
        rows: dict[int, tuple[int, Any]] = {}  # places and numbers
        default: tuple[int, Any] = place, np.nan
        for entry, numbers in entries:
            start, kind, given = entry.start(1), entry[1], _names(entry[2] or "")
            wanted = n * size if kind == "table" else n
            if len(numbers) != wanted:
                found = f"of {child}, found {len(numbers)}"
                raise self.error(f"expected {wanted} probabilities {found}", start)
            if kind == "default":
                default = start, numbers
                continue
            if kind == "table":
                new: dict[int, Any] = dict(enumerate(np.reshape(numbers, (n, size)).T))
            else:
                row, pairs = 0, list(zip(given, above, strict=False))
                if len(given) != len(above) or not all(x in labels for x, labels in pairs):
                    expected = f"expected states of {dict(zip(family, above, strict=False))}"
                    raise self.error(f"{expected}, found ({', '.join(given)})", start)
                for x, labels in pairs:
                    row = row * len(labels) + labels.index(x)
                new = {row: numbers}
            if new.keys() & rows.keys():
                what = f"{child} given ({', '.join(given)})" if given else child
                raise self.error(f"the probabilities of {what} are given twice", start)
            rows |= {row: (start, x) for row, x in new.items()}
        table = np.full((size, n), default[1])
        if rows:
            table[list(rows)] = [numbers for _, numbers in rows.values()]
        wrong = ~(np.abs(table.sum(axis=1) - 1.0) <= ROUNDING)
        if wrong.any():
            row = int(np.argmax(wrong))
            at = zip(above, np.unravel_index(row, shape), strict=True)
            states = ", ".join(known[state] for known, state in at)
            start, numbers = rows.get(row, default)
            total = "none" if numbers is np.nan else f"a sum of {sum(numbers):.6g}"
            what = f"probabilities of {child}" + (states and f" given ({states})")
            raise self.error(f"expected {what} that sum to one, found {total}", start)
        return table.reshape((*shape, n))


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
    states = [[_quoted(str(label)) for label in labels] for labels in known]
    lines = ["network unknown {", "}"]
    for name, labels in zip(names, states, strict=True):
        kind = f"  type discrete [ {len(labels)} ] {{ {', '.join(labels)} }};"
        lines += [f"variable {name} {{", kind, "}"]
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
        rule = "Names and labels in a .bif file are ASCII, without quotes and line breaks."
        raise CircuitError(f"{rule} Got {name!r}.")
    plain = re.fullmatch(f"{WORD}+", name) and not re.search("//|/[*]", name)
    return name if plain else f'"{name}"'
