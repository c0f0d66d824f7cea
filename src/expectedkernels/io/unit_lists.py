"""What `.jpc` and `.spn` files share: circuits written as lists of units."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.units import Product, Sum, topological
from expectedkernels.engine.blocks import Inner
from expectedkernels.engine.nodes import from_leaves
from expectedkernels.errors import CircuitError, CompatibilityError, PropertyError
from expectedkernels.io.text import Source, logs
from expectedkernels.vtree import Vtree

T = TypeVar("T")
MOST_STATES = 2**20
"""Variables with more states than this are taken for errors, before memory is asked for."""
TABLE_ENTRIES = 2**24
"""The tables of the units of a file may have so many entries, however short the file is."""
ENTRIES_PER_BYTE = 16
STEPS_PER_BYTE = 1024


def known(source: Source, units: Mapping[int, T], tokens: list[str], line: int) -> list[T]:
    """The units that the ids in some tokens stand for: `units` maps ids to units."""
    if not source.odd:
        try:
            return [units[int(token)] for token in tokens]
        except (KeyError, ValueError):
            pass
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


class UnitWriter(ABC):
    """The records of a circuit, one per unit, inputs first and the root last.

    Units that only pass a product on have no record of their own.

    Parameters
    ----------
    circuit : Circuit
        One root, discrete variables, no negative weights.
    """

    def __init__(self, circuit: Circuit):
        self.vtree, self.blocks = circuit.vtree, circuit.blocks
        self.vtree_id = circuit.vtree.inorder.tolist()
        self.lines: list[str] = []

    @abstractmethod
    def input(self, node: int, values: list[float]) -> int:
        """Write an input unit with a table of values, and return its number."""

    @abstractmethod
    def product(self, node: int, left: int, right: int) -> str:
        """The record of a product of two units."""

    @abstractmethod
    def sum(self, node: int, inputs: list[int], log_weights: list[str]) -> str:
        """The record of a sum of units."""

    def add(self, record: str) -> int:
        """Write a record and return the number of its unit."""
        self.lines.append(record)
        return len(self.lines) - 1

    def records(self) -> list[str]:
        """All records."""
        from_leaves(self.vtree, self._inputs, self._units)
        return self.lines

    def _inputs(self, node: int, variable: int) -> Any:
        """Write the inputs of a leaf and return their numbers."""
        tables: Any = self.blocks[node].numbers
        return np.asarray([self.input(node, values) for values in tables.tolist()])

    def _units(self, node: int, left: Any, right: Any) -> Any:
        """Write the products and sums of an inner node and return the numbers of its units."""
        block: Any = self.blocks[node]
        a, b = block.inputs
        pairs = zip(left[a].tolist(), right[b].tolist(), strict=True)
        new = [self.add(self.product(node, *pair)) for pair in pairs]
        return np.asarray(new if block.numbers is None else self._sums(node, block, new))

    def _sums(self, node: int, block: Inner, products: list[int]) -> list[int]:
        """Write the sums of a node and return the numbers of its units."""
        csr = block.csr
        inputs = np.asarray(products)[csr.indices].tolist()
        weights, log_weights = csr.data.tolist(), logs(csr.data)
        new = []
        stop = 0
        for stop_next in csr.indptr[1:].tolist():
            start, stop = stop, stop_next
            if start == stop:  # zero everywhere
                new.append(self.add(self.sum(node, products[:1], ["-inf"])))
            elif stop - start == 1 and weights[start] == 1.0 and node != self.vtree.root:
                new.append(inputs[start])
            else:
                new.append(self.add(self.sum(node, inputs[start:stop], log_weights[start:stop])))
        return new
