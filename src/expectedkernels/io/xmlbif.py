"""Bayesian networks in XMLBIF files (`.xmlbif`, `.bifxml`, `.xml`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import escape

import numpy as np

from expectedkernels.compilation.bayesian import BayesianNetwork
from expectedkernels.errors import CircuitError, ParseError
from expectedkernels.io.bif import check_family, check_parents, written_names
from expectedkernels.io.text import PathLike, Source, shown, write_text

PARTS = {"VARIABLE": ("NAME", "OUTCOME"), "DEFINITION": ("FOR", "GIVEN", "TABLE")}
"""The elements that matter, and the elements in them whose texts do; others are skipped."""


def read_xmlbif(path: PathLike) -> BayesianNetwork:
    """The Bayesian network in an XMLBIF file (version 0.3), plain or compressed with gzip.

    Variables are numbered in the order of their declarations. In a table the state of the variable
    itself varies fastest, and that of its first parent slowest. Properties and comments are
    skipped. A document type is fine, but the file may not declare entities of its own, with
    which small files grow large.

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
    >>> text = '''<BIF VERSION="0.3"><NETWORK><NAME>weather</NAME>
    ... <VARIABLE><NAME>rain</NAME><OUTCOME>yes</OUTCOME><OUTCOME>no</OUTCOME></VARIABLE>
    ... <VARIABLE><NAME>wet</NAME><OUTCOME>yes</OUTCOME><OUTCOME>no</OUTCOME></VARIABLE>
    ... <DEFINITION><FOR>rain</FOR><TABLE>0.2 0.8</TABLE></DEFINITION>
    ... <DEFINITION><FOR>wet</FOR><GIVEN>rain</GIVEN><TABLE>0.9 0.1 0.3 0.7</TABLE></DEFINITION>
    ... </NETWORK></BIF>'''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "weather.xmlbif")
    ...     write_text(path, text.splitlines())
    ...     network = read_xmlbif(path)
    >>> network.names, network.states[0], network.cpts[1].tolist()
    (['rain', 'wet'], ['yes', 'no'], [[0.9, 0.1], [0.3, 0.7]])
    """
    source = Source(path)
    elements = _Parser(source).elements()
    variables = _variables(source, [e for e in elements if e.kind == "VARIABLE"])
    definitions = _definitions(source, [e for e in elements if e.kind == "DEFINITION"], variables)
    number = {name: v for v, name in enumerate(variables)}
    parents = [[number[p] for p in definitions[name].texts["GIVEN"]] for name in variables]
    cards = [len(variable.texts["OUTCOME"]) for variable in variables.values()]
    cpts = [
        _table(source, definitions[name], [cards[u] for u in (*parents[v], v)])
        for v, name in enumerate(variables)
    ]
    states = [variable.texts["OUTCOME"] for variable in variables.values()]
    try:
        return BayesianNetwork(parents, cpts, list(variables), states)
    except CircuitError as error:
        raise source.error(str(error)) from None


@dataclass
class Element:
    """A variable or a definition, as it stands in the file: the texts of its parts."""

    kind: str
    line: int
    texts: dict[str, list[str]] = field(default_factory=dict)


class _Parser:
    """Collects the variables and definitions of a file."""

    def __init__(self, source: Source):
        self.source = source
        self.path: list[str] = []
        self.found: list[Element] = []
        self.text: list[str] | None = None  # of the part that is being read
        self.expat = expat.ParserCreate()
        self.expat.buffer_text = True
        self.expat.specified_attributes = True  # defaults in a document type multiply
        self.expat.StartElementHandler = self.start
        self.expat.EndElementHandler = self.end
        self.expat.CharacterDataHandler = self.characters
        self.expat.EntityDeclHandler = self.entity
        self.expat.ExternalEntityRefHandler = self.entity
        self.expat.SkippedEntityHandler = self.entity

    def elements(self) -> list[Element]:
        """The variables and definitions in the order of the file."""
        try:
            self.expat.Parse(self.source.text, True)
        except expat.ExpatError as error:
            raise self.source.error(
                f"expected a network in XML, but the file is not well-formed "
                f"({expat.ErrorString(error.code)})",
                error.lineno,
            ) from None
        return self.found

    def error(self, message: str) -> ParseError:
        return self.source.error(message, self.expat.CurrentLineNumber)

    def entity(self, *_: Any) -> int:
        raise self.error("networks need no entities of their own, and files with some are refused")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Begin an element."""
        if not self.path and name != "BIF":
            raise self.error(f"expected the element 'BIF', found {shown(name)}")
        if self.text is not None:
            raise self.error(f"expected a text in {shown(self.path[-1])}, found {shown(name)}")
        if self.path == ["BIF", "NETWORK"] and name in PARTS:
            kind = attributes.get("TYPE", "nature")
            if name == "VARIABLE" and kind != "nature":
                raise self.error(
                    f"variables of a Bayesian network have the type 'nature', found {shown(kind)}"
                )
            texts: dict[str, list[str]] = {part: [] for part in PARTS[name]}
            self.found.append(Element(name, self.expat.CurrentLineNumber, texts))
        elif len(self.path) == 3 and self.path[:2] == ["BIF", "NETWORK"]:
            self.text = [] if name in PARTS.get(self.path[2], ()) else None
        self.path.append(name)

    def characters(self, text: str) -> None:
        """Keep a piece of text, if it matters."""
        if self.text is not None:
            self.text.append(text)

    def end(self, name: str) -> None:
        """End an element."""
        self.path.pop()
        if self.text is not None:
            self.found[-1].texts[name].append("".join(self.text).strip())
            self.text = None


def _variables(source: Source, elements: list[Element]) -> dict[str, Element]:
    """The declared variables by name, each with states."""
    variables: dict[str, Element] = {}
    for element in elements:
        names, states = element.texts["NAME"], element.texts["OUTCOME"]
        if len(names) != 1 or not names[0]:
            raise source.error(f"a variable has one name, found {len(names)}", element.line)
        if names[0] in variables:
            raise source.error(f"variable {shown(names[0])} is declared twice", element.line)
        if not states or len(set(states)) != len(states):
            what = "two outcomes of one name" if states else "no outcomes"
            raise source.error(f"variable {shown(names[0])} has {what}", element.line)
        variables[names[0]] = element
    if not variables:
        raise source.error("expected the declaration of at least one variable, found none")
    return variables


def _definitions(
    source: Source, elements: list[Element], variables: dict[str, Element]
) -> dict[str, Element]:
    """The definitions by the variables they are for, one for each."""
    definitions: dict[str, Element] = {}
    for element in elements:
        children, parents = element.texts["FOR"], element.texts["GIVEN"]
        if len(children) != 1 or len(element.texts["TABLE"]) != 1:
            raise source.error(
                f"a definition is for one variable and has one table, found {len(children)} and "
                f"{len(element.texts['TABLE'])}",
                element.line,
            )
        child = children[0]
        check_family(source, (child, *parents), variables, element.line)
        if child in definitions:
            raise source.error(f"variable {shown(child)} has two definitions", element.line)
        definitions[child] = element
    for name, variable in variables.items():
        if name not in definitions:
            raise source.error(f"variable {shown(name)} has no definition", variable.line)
    return definitions


def _table(source: Source, element: Element, shape: list[int]) -> Any:
    """The probabilities of a definition, of a given shape."""
    name, line = shown(element.texts["FOR"][0]), element.line
    words = element.texts["TABLE"][0].split()
    check_parents(source, len(shape) - 1, name, line)
    if len(words) != prod(shape):
        raise source.error(
            f"expected {prod(shape)} probabilities of {name}, found {len(words)}", line
        )
    values = np.asarray(source.numbers(words, line))
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        raise source.error(
            f"probabilities must be finite and not negative, found "
            f"{shown(words[int(np.argmax(bad))])} among those of {name}",
            line,
        )
    return values.reshape(shape)


def write_xmlbif(network: BayesianNetwork, path: PathLike) -> None:
    """Write a Bayesian network to an XMLBIF file (compressed if its name ends in .gz).

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
    ...     path = os.path.join(folder, "coin.xmlbif")
    ...     write_xmlbif(coin, path)
    ...     print(Path(path).read_text())
    <?xml version="1.0"?>
    <BIF VERSION="0.3">
    <NETWORK>
    <NAME>unknown</NAME>
    <VARIABLE TYPE="nature">
      <NAME>coin</NAME>
      <OUTCOME>heads</OUTCOME>
      <OUTCOME>tails</OUTCOME>
    </VARIABLE>
    <DEFINITION>
      <FOR>coin</FOR>
      <TABLE>0.5 0.5</TABLE>
    </DEFINITION>
    </NETWORK>
    </BIF>
    """
    network, names, labels = written_names(network, "An XMLBIF", _escaped)
    lines = ['<?xml version="1.0"?>', '<BIF VERSION="0.3">', "<NETWORK>", "<NAME>unknown</NAME>"]
    for name, states in zip(names, labels, strict=True):
        lines += ['<VARIABLE TYPE="nature">', f"  <NAME>{name}</NAME>"]
        lines += [f"  <OUTCOME>{label}</OUTCOME>" for label in states]
        lines.append("</VARIABLE>")
    for name, parents, table in zip(names, network.parents, network.cpts, strict=True):
        lines += ["<DEFINITION>", f"  <FOR>{name}</FOR>"]
        lines += [f"  <GIVEN>{names[parent]}</GIVEN>" for parent in parents]
        numbers = " ".join(map(repr, table.reshape(-1).tolist()))
        lines += [f"  <TABLE>{numbers}</TABLE>", "</DEFINITION>"]
    write_text(path, [*lines, "</NETWORK>", "</BIF>"])


def _escaped(name: str) -> str:
    """A name as it stands in XML, in ASCII."""
    if not name or name != name.strip() or not name.isprintable():
        raise CircuitError(
            "Names and labels in an XMLBIF file are not empty, have no white space at their ends "
            f"and no control characters. Got {name!r}."
        )
    return escape(name).encode("ascii", "xmlcharrefreplace").decode("ascii")
