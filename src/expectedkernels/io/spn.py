"""Circuits in `.spn` files: units numbered by their lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from expectedkernels.arrays import StatesLike
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.graph import Unit
from expectedkernels.circuits.units import Indicator
from expectedkernels.io.text import PathLike, Source, logs, plain, shown, write_text
from expectedkernels.io.unit_lists import (
    MOST_STATES,
    UnitWriter,
    circuit_of,
    known,
    product,
    weighted_sum,
)
from expectedkernels.io.vtree import resolve
from expectedkernels.vtree import Vtree


def read_spn(
    path: PathLike,
    vtree: Vtree | PathLike | None = None,
    *,
    smooth: bool = False,
    as_units: bool = False,
    names: Sequence[str] | None = None,
    states: StatesLike | None = None,
) -> Circuit | Unit:
    """The circuit in a `.spn` file, plain or compressed with gzip.

    The first line holds the numbers of states in parentheses, then comes one unit per line,
    numbered from 0: ``v variable value`` (both from 0), ``* input...`` or
    ``+ input log-weight ...``. The last unit is the root, and the last line is ``EOF``.

    Parameters
    ----------
    path : path
        The file.
    vtree : Vtree or path, optional
        The vtree, or its file; by default it is found from the products.
    smooth : bool
        Whether to add the variables that some inputs of a sum leave out.
    as_units : bool
        Whether to return the root of a graph of units, which need not be structured, and not a
        `Circuit`.
    names, states : sequences, optional
        The names of the variables and the labels of their states, which the format does not hold.

    Returns
    -------
    Circuit or unit

    Raises
    ------
    ParseError
        If the file does not follow the format, with the line. Also if a weight is positive but too
        small for a double.
    PropertyError
        If the circuit in the file has no vtree; ask for its units then.
    CompatibilityError
        If the circuit in the file does not fit the given vtree.

    Examples
    --------
    >>> import os, tempfile
    >>> from expectedkernels.io.text import write_text
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "small.spn")
    ...     write_text(path, ["(2 3)", "v 0 1", "v 1 2", "* 0 1", "EOF"])
    ...     read_spn(path)
    <Circuit of 2 variables: 3 units, 2 edges>
    """
    source = Source(path)
    records = source.records(comment=None)
    cards = _states(source, *next(records, (1, [])))
    units: dict[int, Any] = {}
    complete = False
    for line, tokens in records:
        if complete:
            raise source.error(f"expected nothing after EOF, found {shown(tokens[0])}", line)
        complete = tokens == ["EOF"]
        if not complete:
            units[len(units)] = _unit(source, cards, units, tokens, line)
    if not complete:
        raise source.error("expected the last line to be EOF; is the file complete?")
    if not units:
        raise source.error("expected at least one unit before EOF")
    root = units[len(units) - 1]
    if as_units:
        return root
    missing = set(range(len(cards))) - root.scope
    if missing:
        raise source.error(
            f"the first line announces {len(cards)} variables, but the root does not depend on "
            f"variable {min(missing)}",
            1,
        )
    return circuit_of(source, root, resolve(vtree)[0], smooth).with_names(names, states)


def _states(source: Source, line: int, tokens: list[str]) -> list[int]:
    """The number of states of every variable, from the first line."""
    text = " ".join(tokens)
    inside = text[1:-1].split()
    if len(text) < 2 or text[0] != "(" or text[-1] != ")" or not inside:
        raise source.error(
            f"expected the numbers of states in parentheses, like '(2 2 3)', found {shown(text)}",
            line,
        )
    states = [source.integer(token, "a number of states", line) for token in inside]
    if not 1 <= min(states) <= max(states) <= MOST_STATES:
        raise source.error(f"numbers of states must be from 1 to {MOST_STATES}", line)
    return states


def _unit(
    source: Source, states: list[int], units: dict[int, Any], tokens: list[str], line: int
) -> Any:
    """The unit in one line."""
    kind, rest = tokens[0], tokens[1:]
    if kind == "v" and len(rest) == 2:
        variable = source.integer(rest[0], "a variable", line)
        value = source.integer(rest[1], "a value", line)
        if not (0 <= variable < len(states) and 0 <= value < states[variable]):
            raise source.error(
                f"variables are 0 to {len(states) - 1} with values as in the first line, found "
                f"variable {variable} with value {value}",
                line,
            )
        return Indicator(variable, value, states[variable])
    if kind == "*" and rest:
        return product(known(source, units, rest, line))
    if kind == "+" and rest and len(rest) % 2 == 0:
        return weighted_sum(source, known(source, units, rest[::2], line), rest[1::2], line)
    raise source.error(
        "expected 'v variable value', '* input...', '+ input log ...' or 'EOF', found "
        f"{shown(' '.join(tokens))}",
        line,
    )


def write_spn(circuit: Circuit, path: PathLike) -> None:
    """Write a circuit of discrete variables to a `.spn` file (compressed if it ends in .gz).

    Tables that are not indicators are written as sums of indicators.

    Parameters
    ----------
    circuit : Circuit
        One root, discrete variables, no negative weights; normalised or not.
    path : path
        Where to write.

    Raises
    ------
    CircuitError
        If the circuit cannot be written in this format.

    Examples
    --------
    >>> import os, tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from expectedkernels.circuits.inputs import Table
    >>> fair = Circuit.from_blocks(Vtree.balanced(1), [Table(np.array([[0.5, 0.5]]))])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "fair.spn")
    ...     write_spn(fair, path)
    ...     print(Path(path).read_text())
    (2)
    v 0 0
    v 0 1
    + 0 -0.6931471805599453 1 -0.6931471805599453
    EOF
    """
    circuit = plain(circuit, ".spn")
    states = " ".join(str(states) for states in circuit.cardinalities)
    write_text(path, [f"({states})", *_Writer(circuit).records(), "EOF"])


class _Writer(UnitWriter):
    """The records of a `.spn` file."""

    def __init__(self, circuit: Circuit):
        super().__init__(circuit)
        self.indicators: dict[tuple[int, int], int] = {}

    def indicator(self, variable: int, value: int) -> int:
        """The number of an indicator, written if it is new."""
        if (variable, value) not in self.indicators:
            self.indicators[variable, value] = self.add(f"v {variable} {value}")
        return self.indicators[variable, value]

    def input(self, node: int, values: list[float]) -> int:
        """Write an indicator or a sum of some, and return its number."""
        variable = int(self.vtree.variable[node])
        support = [value for value, weight in enumerate(values) if weight] or [0]
        inputs = [self.indicator(variable, value) for value in support]
        if len(support) == 1 and values[support[0]] == 1.0:
            return inputs[0]
        return self.add(self.sum(node, inputs, logs([values[value] for value in support])))

    def product(self, node: int, left: int, right: int) -> str:
        """The record of a product of two units."""
        return f"* {left} {right}"

    def sum(self, node: int, inputs: list[int], log_weights: list[str]) -> str:
        """The record of a sum of units."""
        return "+ " + " ".join(f"{i} {w}" for i, w in zip(inputs, log_weights, strict=True))
