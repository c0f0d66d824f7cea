"""Graphical models in `.uai` and `.bif` files, and evidence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import accumulate, islice, product, takewhile
from math import inf, prod
from operator import itemgetter
from sys import float_info
from typing import Any
from warnings import catch_warnings

import numpy as np

from expectedkernels.arrays import Labels
from expectedkernels.checks import CircuitError, ParseError
from expectedkernels.io import text
from expectedkernels.io.text import PathLike, Source, write_text
from expectedkernels.models import factor_graph
from expectedkernels.models.factor_graph import ROUNDING, BayesianNetwork, Factor, FactorGraph

WORD = r'[^\s{}()\[\]|;,"]'
"""The letters of names that need no quotes."""
NAME = rf'"[^"\n]*"|{WORD}++'
NAMES = rf"(?:[\s,]++|{NAME})*+"
NUMBERS = r'[^;{}()\[\]|"]*+'
ENTRIES = re.compile(rf"\s*(\(({NAMES})\)|(?:table|default)(?!{WORD}))({NUMBERS});|")
"""Rows given states of the parents, tables and defaults, and nothing where there are no more."""
COMMENT = re.compile(r'("[^"\n]*")|//[^\n]*|/\*.*?\*/|("|/\*)', re.DOTALL)
"""A quoted name, in which there is no comment; a comment; the start of one that is not closed."""
PATTERNS = {"NAME": NAME, "NAMES": NAMES, "NUMBERS": NUMBERS, "BAR": r"\|?", "END": r"\Z"}
WANTED = {"NAME": "a name", "NAMES": "a name", "NUMBERS": "a number", "END": "the end of the file"}
LARGEST_DEFAULTS = 2**22
"""How many probabilities of a file may be left to defaults."""
Entries = list[re.Match[str]]


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
    for place, family, *_ in families.values():  # misspelt names first: others lack tables then
        for i, name in enumerate(family):
            what = "named twice" if name in variables else "not declared"
            child, other = text.quote(family[-1]), text.quote(name)
            message = f"in the probabilities of {child}, {other} is {what}"
            reader.require(name in variables and name not in family[:i], message, place)
    for name, (place, _) in variables.items():
        reader.require(name in families, f"variable {text.quote(name)} has no probabilities", place)
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
        if any(mark in self.text for mark in ('"', "//", "/*")):
            self.text = COMMENT.sub(self._without_comment, self.text)
        self.place = self.n_given = self.n_needed = 0
        self.variables: dict[str, tuple[int, list[str]]] = {}  # places and states
        self.families: dict[
            str, tuple[int, list[str], Entries, Any, list[int]]
        ] = {}  # the variable comes last
        while word := self.take("network", "variable", "probability", "property", "END"):
            if word in ("variable", "probability"):
                (self.variable if word == "variable" else self.probability)(self.place - len(word))
            else:
                for mark in "{}" if word == "network" else ";":
                    self.skip_to(mark)

    def _without_comment(self, found: re.Match[str]) -> str:
        what = "a quoted name" if found[2] == '"' else "a comment"
        self.require(not found[2], f"{what} is not closed", found.start())
        return found[1] or " " + "\n" * found[0].count("\n")

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
            other = text.quote(token[1].strip('"')) if token[1] else "the end of the file"
            more = [WANTED[after]] if after in ("NAMES", "NUMBERS") else []
            expected = text.either([*more, *(WANTED.get(x, f"'{x}'") for x in choices)])
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
        twice = f"variable {text.quote(name)} is declared twice"
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
            what = f"{text.quote(count)} different states of variable {text.quote(name)}"
            self.require(good, f"expected {what}, found {text.quote(', '.join(states))}", start)
        self.require(name in self.variables, f"variable {text.quote(name)} has no type", place)

    def probability(self, place: int) -> None:
        """Read the probabilities of a variable."""
        _, name, _, parents, *_ = self.takes("( NAME BAR NAMES ) {")
        child = name.strip('"')
        twice = f"variable {text.quote(child)} has probabilities twice"
        self.require(child not in self.families, twice, place)
        entries: Entries = []
        word = ""
        while word != "}":
            entries += takewhile(itemgetter(0), ENTRIES.finditer(self.text, self.place))
            self.place = max(self.place, entries[-1].end() if entries else 0)
            word = self.take("(", "table", "default", "property", "}")
            if word == "property":
                self.skip_to(";")
            elif word != "}":  # an entry that is not whole
                self.takes("NAMES ) NUMBERS ;" if word == "(" else "NUMBERS ;")
        values, stops = self.numbers_in(entries)
        self.families[child] = place, [*_names(parents), child], entries, values, stops
        self.n_given += len(values)

    def numbers_in(self, entries: Entries) -> tuple[Any, list[int]]:
        """The numbers of entries, one after the other, and where those of each end."""
        listed = [entry[3] for entry in entries]
        stops = [*accumulate(row.count(",") + 1 for row in listed)]
        values = np.zeros(0)
        with catch_warnings(action="error"), suppress(DeprecationWarning, ValueError):
            values = np.fromstring(",".join(listed), sep=",")
        if len(values) != (stops or [0])[-1] or not (np.isfinite(values) & (values >= 0)).all():
            rows = [row.replace(",", " ").split() for row in listed]
            for entry, word in ((x, y) for x, row in zip(entries, rows, strict=True) for y in row):
                x = text.number_or_none(word)
                what = f"finite numbers that are not negative, found {text.quote(word)}"
                self.require(x is not None and 0 <= x < inf, f"expected {what}", entry.start(3))
            values = np.array([float(word) for row in rows for word in row])
            stops = [*accumulate(map(len, rows))]
        return values, stops

    def table(
        self, place: int, family: list[str], entries: Entries, values: Any, stops: list[int]
    ) -> Any:
        """The table of one variable: axes of the parents, then its own."""
        *above, own = (self.variables[name][1] for name in family)
        shape, n, child = [len(states) for states in above], len(own), text.quote(family[-1])
        size = prod(shape)
        self.n_needed += n * size
        self.require(
            len(family) <= text.MOST_AXES and self.n_needed <= LARGEST_DEFAULTS + self.n_given,
            f"the table of {child} has {len(above)} parents, at most {text.MOST_AXES - 1} can be, "
            f"and {n * size} numbers. With those before it, {self.n_needed} are needed: the file "
            f"gives {self.n_given}, and defaults fill up to {LARGEST_DEFAULTS}",
            place,
        )
        rows: dict[int, tuple[int, Any]] = {}  # places and numbers
        plain = ([x if re.fullmatch(f"{WORD}+", x) else f'"{x}"' for x in y] for y in above)
        usual = enumerate(map(", ".join, product(*plain))) if size <= 2 * len(entries) else ()
        written = {states: row for row, states in usual}
        default: tuple[int, Any] = place, np.nan
        for entry, begin, stop in zip(entries, [0, *stops], stops, strict=False):
            start, kind, row = entry.start(1), entry[1], written.get(entry[2], -1)
            given, numbers = [entry[2]] if row >= 0 else _names(entry[2] or ""), values[begin:stop]
            wanted = n * size if kind == "table" else n
            if len(numbers) != wanted:
                found = f"of {child}, found {len(numbers)}"
                raise self.error(f"expected {wanted} probabilities {found}", start)
            if kind == "default":
                default = start, numbers
                continue
            if kind != "table" and row < 0:
                row, pairs = 0, list(zip(given, above, strict=False))
                if len(given) != len(above) or not all(x in labels for x, labels in pairs):
                    expected = f"expected states of {dict(zip(family, above, strict=False))}"
                    raise self.error(f"{expected}, found ({', '.join(given)})", start)
                for x, labels in pairs:
                    row = row * len(labels) + labels.index(x)
            columns = enumerate(np.reshape(numbers, (n, size)).T) if kind == "table" else ()
            for i, some in columns or ((row, numbers),):
                if i in rows:
                    what = f"{child} given ({', '.join(given)})" if given else child
                    raise self.error(f"the probabilities of {what} are given twice", start)
                rows[i] = start, some
        table = np.full((size, n), default[1])
        if rows:
            table[list(rows)] = np.concatenate([x for _, x in rows.values()]).reshape(-1, n)
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


def _names(listed: str) -> list[str]:
    return [name.strip('"') for name in re.findall(NAME, listed)]


def write_bif(network: BayesianNetwork, path: PathLike) -> None:
    """Write a Bayesian network to a `.bif` file (compressed if its name ends in .gz).

    Numbers read back exactly. Variables without names are called x0, x1, ..., and states
    without labels 0, 1, ...

    Parameters
    ----------
    network : BayesianNetwork
        What to write.
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
    network = factor_graph.converted(network)
    text.require_holder(network, ".bif")
    cards = network.cardinalities
    names = [_quoted(name) for name in network.names or [f"x{v}" for v in range(len(cards))]]
    known = [network.schema.labels(v) or range(card) for v, card in enumerate(cards)]
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


def read_uai(
    path: PathLike, *, names: Sequence[str] | None = None, states: Sequence[Labels] | None = None
) -> FactorGraph:
    """The model in a `.uai` file, plain or compressed with gzip.

    The file holds, separated by any white space, ``MARKOV`` or ``BAYES``; the number of variables
    and the number of states of each; the number of factors and the scope of each (its size
    and its variables, from 0); and the tables (their size and their entries, the last variable of
    the scope varying fastest). What follows a ``#`` in a line is a comment.

    Parameters
    ----------
    path : path
        The file.
    names, states : sequences, optional
        The names of the variables and the labels of their states, which the format does not hold.

    Returns
    -------
    FactorGraph or BayesianNetwork
        ``BAYES`` files, where the last variable of a scope is the child, become Bayesian
        networks.

    Raises
    ------
    ParseError
        If the file does not follow the format, with the line.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "small.uai")
    ...     write_text(path, ["MARKOV 2 2 2", "1", "2 0 1", "4 1.0 2.0 3.0 4.0"])
    ...     read_uai(path)
    <FactorGraph of 2 variables: 1 factors>
    """
    tokens = _Tokens(path)
    kind = "".join(tokens.words[:1]).upper()
    found = text.quote(tokens.words[0]) if kind else "the end of the file"
    tokens.require(kind in ("MARKOV", "BAYES"), f"expected 'MARKOV' or 'BAYES', found {found}")
    tokens.place = 1
    [n] = tokens.take(1, "the number of variables", low=1, high=text.LARGEST_VARIABLE)
    cards = tokens.take(n, "a number of states", low=1, high=text.MOST_STATES)
    scopes = []
    for _ in range(*tokens.take(1, "the number of factors")):
        [size] = tokens.take(1, "the size of a scope", high=min(n, text.MOST_AXES))
        scope = tokens.take(size, "a variable", high=n - 1)
        tokens.require(len(set(scope)) == size, f"a variable is repeated in the scope {scope}")
        scopes.append(scope)
    factors = []
    for scope in scopes:
        shape = [cards[v] for v in scope]
        size = prod(shape)
        tokens.take(1, f"the size of a table over {shape} states", low=size, high=size)
        entries = tokens.take(size, "an entry of a table", float, high=float_info.max)
        factors.append(Factor(scope, np.reshape(entries, shape)))
    tokens.finish()
    if kind == "MARKOV":
        return FactorGraph(cards, factors, names, states)
    tables = {factor.scope[-1:]: factor for factor in factors}
    counts = Counter(factor.scope[-1:] for factor in factors)
    advice = "Write MARKOV in the first line to read plain factors"
    for child in ((), *((v,) for v in range(n))):
        rule = "in a BAYES file every variable is the last one in the scope of one table"
        found = f"{counts[child]} of {child[0]}" if child else "one without variables"
        tokens.require(counts[child] == len(child), f"{rule}, found {found}. {advice}", 0)
    ordered = [tables[v,] for v in range(n)]
    try:
        parents, cpts = zip(*((f.scope[:-1], f.table) for f in ordered), strict=True)
        return BayesianNetwork(parents, cpts).with_names(names, states)
    except CircuitError as error:
        raise tokens.error(f"{error} {advice}", 0) from None


def write_uai(model: FactorGraph, path: PathLike) -> None:
    """Write a model to a `.uai` file (compressed if its name ends in .gz).

    Bayesian networks become ``BAYES`` files, other models ``MARKOV`` files. Names and labels are
    not written, as the format has none. Numbers read back exactly.

    Parameters
    ----------
    model : FactorGraph
        What to write.
    path : path
        Where to write.

    Examples
    --------
    >>> import os, tempfile
    >>> from pathlib import Path
    >>> model = FactorGraph([2, 2], [Factor([0, 1], [[1.0, 2.0], [3.0, 4.0]])])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "small.uai")
    ...     write_uai(model, path)
    ...     print(Path(path).read_text())
    MARKOV
    2
    2 2
    1
    2 0 1
    <BLANKLINE>
    4
     1.0 2.0 3.0 4.0
    """
    model = factor_graph.converted(model)
    text.require_holder(model, ".uai")
    lines = ["BAYES" if isinstance(model, BayesianNetwork) else "MARKOV", str(model.n_variables)]
    lines += [" ".join(map(str, model.cardinalities)), str(len(model.factors))]
    lines += [" ".join(map(str, (len(f.scope), *f.scope))) for f in model.factors]
    for factor in model.factors:
        entries = factor.table.reshape(-1).tolist()
        lines += ["", str(len(entries)), " " + " ".join(map(repr, entries))]
    write_text(path, lines)


def read_uai_evidence(path: PathLike) -> list[dict[int, int]]:
    """The sets of observations in a `.uai.evid` file, as one mapping each.

    A set is the number of observed variables, followed by pairs of variable and value. The file
    may hold one set, or the number of sets followed by so many of them.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    list of dict
        From variables to values, as `FactorGraph.condition` takes them.

    Raises
    ------
    ParseError
        If the file does not follow the format, with the line.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "small.uai.evid")
    ...     write_text(path, ["2 5 0 7 1"])
    ...     read_uai_evidence(path)
    [{5: 0, 7: 1}]
    """
    tokens = _Tokens(path)
    if not tokens.words:
        return []
    [count] = tokens.take(1, "the number of observations (or of sets)")
    single = len(tokens.words) == 2 * count + 1
    alone = len(tokens.text.lstrip().split("\n", 1)[0].split()) == 1
    if single and not (count and alone and _holds_sets(tokens.words)):
        return [_observations(tokens, count)]
    what = "the number of observations"
    sets = [_observations(tokens, *tokens.take(1, what)) for _ in range(count)]
    tokens.finish()
    return sets


def _holds_sets(words: list[str]) -> bool:
    """Whether a file reads as a number of sets and so many sets."""
    place = 1
    for _ in range(int(words[0])):
        count = text.number_or_none(words[place], int) if place < len(words) else None
        if count is None or count < 0:
            return False
        place += 1 + 2 * count
    return place == len(words)


def _observations(tokens: _Tokens, count: int) -> dict[int, int]:
    """So many pairs of variable and value."""
    observed: dict[int, int] = {}
    for _ in range(count):
        [variable] = tokens.take(1, "a variable", high=text.LARGEST_VARIABLE)
        tokens.require(variable not in observed, f"variable {variable} is observed twice")
        [observed[variable]] = tokens.take(1, "a value")
    return observed


def write_uai_evidence(
    evidence: Mapping[int, int] | Sequence[Mapping[int, int]], path: PathLike
) -> None:
    """Write one set of observations, or several, to a `.uai.evid` file.

    Parameters
    ----------
    evidence : mapping from variables to values, or a sequence of such mappings
        Numbers of variables, and numbers of their states.
    path : path
        Where to write.

    Raises
    ------
    CircuitError
        If it is something else.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "small.uai.evid")
    ...     write_uai_evidence([{5: 0, 7: 1}, {}], path)
    ...     read_uai_evidence(path)
    [{5: 0, 7: 1}, {}]
    """
    sets: Any = list(evidence) if isinstance(evidence, Sequence) else [evidence]
    lines = [str(len(sets))] if not isinstance(evidence, Mapping) else []
    for observed in sets:
        if not isinstance(observed, Mapping):
            kind = f"a {type(observed).__name__}, but mappings"
            raise CircuitError(f"A .uai.evid file does not hold {kind}. The path comes second.")
        pairs = [f" {int(variable)} {int(value)}" for variable, value in observed.items()]
        lines.append(str(len(observed)) + "".join(pairs))
    write_text(path, lines)


class _Tokens(Source):
    """The words of a file, one after the other, with the lines they stand in."""

    text, place = "", 0

    def __init__(self, path: PathLike):
        super().__init__(path)
        self.text = re.sub(r"#[^\n]*", "", self.text)
        self.words = self.text.split()

    def error(self, message: str, place: int | None = None) -> ParseError:
        """The error at the word that was read last, or at another one."""
        place = max(self.place - 1, 0) if place is None else place
        found = next(islice(re.finditer(r"\S+", self.text), place, None), None)
        line = None if found is None else self.text.count("\n", 0, found.start()) + 1
        return super().error(message, line)

    def take(
        self, n: int, what: str, kind: Any = int, low: int = 0, high: float = inf
    ) -> list[Any]:
        """The next words as numbers in a range."""
        words = self.words[self.place : self.place + n]
        values = text.numbers_of(words, kind)
        # sums tell of NaN, which may hide from the others
        if values is None or (
            words and not (low <= min(values) and max(values) <= high and sum(values) < inf)
        ):
            for i, word in enumerate(words):
                value = text.number_or_none(word, kind)
                if value is None or not low <= value <= high:
                    wanted = "a finite number" if kind is float else "an integer"
                    limits = f"at least {low}" if high > text.MOST_STATES else f"in {low}..{high}"
                    message = f"{what} must be {wanted} {limits}, found {text.quote(word)}"
                    raise self.error(message, self.place + i)
        self.place += len(words)
        self.require(len(words) == n, f"expected {what}, found the end of the file")
        return values or []

    def finish(self) -> None:
        """Raise if there are more words."""
        for word in self.words[self.place : self.place + 1]:
            raise self.error(f"expected the end of the file, found {text.quote(word)}", self.place)
