"""Graphical models and evidence in `.uai` files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from math import inf, prod
from sys import float_info
from typing import Any

import numpy as np

from expectedkernels.arrays import Labels
from expectedkernels.checks import CircuitError, ParseError
from expectedkernels.io import text
from expectedkernels.io.text import PathLike, Source, write_text
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
    tokens = _Tokens(path)
    kind = "".join(tokens.words[:1]).upper()
    found = text.shown(tokens.words[0]) if kind else "the end of the file"
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
                    message = f"{what} must be {wanted} {limits}, found {text.shown(word)}"
                    raise self.error(message, self.place + i)
        self.place += len(words)
        self.require(len(words) == n, f"expected {what}, found the end of the file")
        return values or []

    def finish(self) -> None:
        """Raise if there are more words."""
        for word in self.words[self.place : self.place + 1]:
            raise self.error(f"expected the end of the file, found {text.shown(word)}", self.place)
