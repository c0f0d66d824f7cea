"""Graphical models and evidence in `.uai` files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from expectedkernels.arrays import Labels
from expectedkernels.checks import CircuitError, ParseError
from expectedkernels.io.text import (
    LARGEST_VARIABLE,
    MOST_AXES,
    MOST_STATES,
    PathLike,
    Source,
    number_or_none,
    numbers_of,
    require_holder,
    shown,
    whole,
    write_text,
)
from expectedkernels.models import converted
from expectedkernels.models.factor_graph import BayesianNetwork, Factor, FactorGraph


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
    tokens = _Tokens(Source(path))
    kind = tokens.word("'MARKOV' or 'BAYES'").upper()
    if kind not in ("MARKOV", "BAYES"):
        raise tokens.error(f"expected 'MARKOV' or 'BAYES', found {shown(tokens.last)}")
    n = tokens.integer("the number of variables", 1, LARGEST_VARIABLE)
    cards = [tokens.integer("a number of states", 1, MOST_STATES) for _ in range(n)]
    n_factors = tokens.integer("the number of factors", 0)
    scopes = [_scope(tokens, n) for _ in range(n_factors)]
    starts = []
    factors = []
    for scope in scopes:
        starts.append(tokens.place)
        factors.append(Factor(scope, tokens.table([cards[v] for v in scope])))
    tokens.finish()
    if kind == "MARKOV":
        return FactorGraph(cards, factors, names, states)
    return _network(tokens, starts, cards, factors).with_names(names, states)


def _scope(tokens: _Tokens, n: int) -> list[int]:
    """The variables of a factor."""
    size = tokens.integer("the size of a scope", 0, n)
    if size > MOST_AXES:
        raise tokens.error(f"factors have at most {MOST_AXES} variables, found {size}")
    scope: list[int] = []
    for _ in range(size):
        variable = tokens.integer("a variable", 0, n - 1)
        if variable in scope:
            raise tokens.error(f"variable {variable} is repeated in the scope of a factor")
        scope.append(variable)
    return scope


def _network(
    tokens: _Tokens, starts: list[int], cards: list[int], factors: list[Factor]
) -> BayesianNetwork:
    """The factors as conditional probability tables."""
    tables: dict[int, Factor] = {}
    for start, factor in zip(starts, factors, strict=True):
        if not factor.scope or factor.scope[-1] in tables:
            what = f"a second table of variable {factor.scope[-1]}" if factor.scope else "none"
            raise tokens.error(
                "in a BAYES file the last variable of every scope is a different one: the child. "
                f"Found {what}; write MARKOV in the first line to read plain factors",
                start,
            )
        tables[factor.scope[-1]] = factor
    missing = sorted(set(range(len(cards))) - set(tables))
    if missing:
        raise tokens.error(f"a BAYES file has a table for every variable; {missing[0]} has none", 0)
    ordered = [tables[v] for v in range(len(cards))]
    try:
        return BayesianNetwork(
            [factor.scope[:-1] for factor in ordered], [factor.table for factor in ordered]
        )
    except CircuitError as error:
        raise tokens.error(
            f"{error} Write MARKOV in the first line to read plain factors", 0
        ) from None


def write_uai(model: FactorGraph, path: PathLike) -> None:
    """Write a model to a `.uai` file (compressed if its name ends in .gz).

    Bayesian networks become ``BAYES`` files, other models ``MARKOV`` files. Names and labels are
    not written, as the format has none. Numbers read back exactly.

    Parameters
    ----------
    model : FactorGraph
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
    model = converted(model)
    require_holder(model, ".uai")
    lines = ["BAYES" if isinstance(model, BayesianNetwork) else "MARKOV", str(model.n_variables)]
    lines.append(" ".join(map(str, model.cardinalities)))
    lines.append(str(len(model.factors)))
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
    tokens = _Tokens(Source(path))
    if not tokens.words:
        return []
    count = tokens.integer("the number of observations (or of sets)", 0)
    single = len(tokens.words) == 2 * count + 1
    if single and not (count and tokens.alone and _holds_sets(tokens.words)):
        return [_observations(tokens, count)]
    sets = []
    for _ in range(count):
        sets.append(_observations(tokens, tokens.integer("the number of observations", 0)))
    tokens.finish()
    return sets


def _holds_sets(words: list[str]) -> bool:
    """Whether a file reads as a number of sets and so many sets."""
    place = 1
    for _ in range(int(words[0])):
        count = whole(words[place]) if place < len(words) else None
        if count is None or count < 0:
            return False
        place += 1 + 2 * count
    return place == len(words)


def _observations(tokens: _Tokens, count: int) -> dict[int, int]:
    """So many pairs of variable and value."""
    observed: dict[int, int] = {}
    for _ in range(count):
        variable = tokens.integer("a variable", 0, LARGEST_VARIABLE)
        if variable in observed:
            raise tokens.error(f"variable {variable} is observed twice")
        observed[variable] = tokens.integer("a value", 0)
    return observed


def write_uai_evidence(
    evidence: Mapping[int, int] | Sequence[Mapping[int, int]], path: PathLike
) -> None:
    """Write one set of observations, or several, to a `.uai.evid` file.

    Parameters
    ----------
    evidence : mapping from variables to values, or a sequence of such mappings
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
    several = not isinstance(evidence, Mapping)
    sets: Any = list(evidence) if isinstance(evidence, Sequence) else [evidence]
    for observed in sets:
        if not isinstance(observed, Mapping):
            kind = type(observed).__name__
            raise CircuitError(
                f"A .uai.evid file does not hold a {kind}, but mappings. The path comes second."
            )
    lines = [str(len(sets))] if several else []
    for observed in sets:
        pairs = [f" {int(variable)} {int(value)}" for variable, value in observed.items()]
        lines.append(str(len(observed)) + "".join(pairs))
    write_text(path, lines)


class _Tokens:
    """The words of a file, one after the other, with the lines they stand in."""

    def __init__(self, source: Source):
        self.source = source
        self.text = re.sub(r"#[^\n]*", "", source.text)
        self.words = self.text.split()
        self.place = 0

    @property
    def last(self) -> str:
        """The word that was read last."""
        return self.words[self.place - 1]

    @property
    def alone(self) -> bool:
        """Whether the first word is the only one in its line."""
        return len(self.text.lstrip().split("\n", 1)[0].split()) == 1

    def error(self, message: str, place: int | None = None) -> ParseError:
        """The error at the word that was read last, or at another one."""
        place = max(self.place - 1, 0) if place is None else place
        line = None
        # lines are only counted when they are needed
        for number, found in enumerate(re.finditer(r"\S+", self.text)):
            if number == place:
                line = self.text.count("\n", 0, found.start()) + 1
                break
        return self.source.error(message, line)

    def word(self, what: str) -> str:
        """The next word."""
        if self.place == len(self.words):
            raise self.error(f"expected {what}, found the end of the file")
        self.place += 1
        return self.last

    def integer(self, what: str, low: int, high: int | None = None) -> int:
        """The next word as an int in a range."""
        word = self.word(what)
        wanted = f"at least {low}" if high is None else f"in {low}..{high}"
        value = whole(word)
        if value is None or value < low or (high is not None and value > high):
            raise self.error(f"{what} must be an integer {wanted}, found {shown(word)}")
        return value

    def table(self, shape: list[int]) -> Any:
        """The next words as a table, after its size."""
        size = self.integer("the size of a table", 1)
        if size != prod(shape):
            raise self.error(
                f"a table over variables with {shape} states has {prod(shape)} entries, found "
                f"the size {size}"
            )
        start, self.place = self.place, self.place + size
        if self.place > len(self.words):
            self.place = len(self.words)
            raise self.error(f"expected {size} entries of a table, found the end of the file")
        words = self.words[start : self.place]
        found: Any = numbers_of(words) or [number_or_none(word) for word in words]
        values = np.array(found, dtype=np.float64)
        bad = ~(np.isfinite(values) & (values >= 0))
        if bad.any():
            place = start + int(np.argmax(bad))
            raise self.error(
                "the entries of a table must be finite numbers that are not negative, found "
                f"{shown(self.words[place])}",
                place,
            )
        return values.reshape(shape)

    def finish(self) -> None:
        """Raise if there are more words."""
        if self.place < len(self.words):
            self.place += 1
            raise self.error(f"expected the end of the file, found {shown(self.last)}")
