"""The conditional of a circuit by levels: shares of edges, and only the distinct units they need.

Given evidence, many units are zero or cannot be reached, and units that differ only in what is now
known become equal. Two passes find them: which units are reached, from the root down, and which of
these are equal, from the leaves up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from expectedkernels.circuits.base import BlockCircuit
from expectedkernels.circuits.equal_rows import distinct_rows
from expectedkernels.circuits.evidence import Evidence
from expectedkernels.circuits.inputs import Input, Table
from expectedkernels.circuits.observed import has_levels, observed
from expectedkernels.engine.blocks import Inner, inner_of_edges
from expectedkernels.engine.levels import Level, Levels
from expectedkernels.engine.passes import Up, up

TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class Sums:
    """Units of one level, each with its edges: rows of numbers that are not zero.

    Attributes
    ----------
    units : int array
        The units, ascending, counted within the level.
    starts : int array of shape (units + 1,)
        Where the edges of every unit begin.
    columns, shares : arrays
        The product (or atom) and the weight of every edge; columns ascend within a unit.
    """

    units: Any
    starts: Any
    columns: Any
    shares: Any

    @property
    def rows(self) -> Any:
        """The place of the unit of every edge among the units."""
        return np.repeat(np.arange(len(self.units)), np.diff(self.starts))


def conditioned_blocks(
    circuit: BlockCircuit, evidence: Evidence | None
) -> tuple[bool, tuple[Input | Inner, ...] | None]:
    """Whether the evidence is possible, and the blocks of the conditional with one root.

    None for the blocks if plain numbers cannot tell, or if there are real variables.
    """
    if None in circuit.cardinalities or not has_levels(circuit):
        return True, None
    found = up(circuit.levels, observed(circuit, evidence))
    if found.has_raised:
        return True, None
    if not found.values[-1] > 0:
        return False, None
    sums = _reached_sums(found)
    if any((x.shares < TINY).any() for x in sums):
        return True, None
    return True, _blocks(circuit, sums)


def _reached_sums(found: Up) -> list[Sums]:
    """The units that take part, level by level, with the shares of their edges."""
    levels = found.levels
    reached = np.zeros(levels.n_units, dtype=np.bool_)
    reached[levels.roots] = True
    sums: list[Any] = [None] * len(levels.levels)
    for number in range(len(levels.levels) - 1, -1, -1):
        level = levels.levels[number]
        edges = level.all_edges
        terms = edges.weights * found.products[number][edges.products]
        kept = np.flatnonzero(reached[level.start : level.stop][edges.units] & (terms > 0))
        unit, column = edges.units[kept], edges.products[kept]
        sums[number] = _grouped(unit, column, terms[kept] / found.sums(number)[unit])
        if level.inputs is not None:
            reached[level.inputs[:, column]] = True
    return sums


def _grouped(unit: Any, column: Any, share: Any) -> Sums:
    """Edges in the order of their units as sums."""
    begins = np.flatnonzero(np.concatenate([[True], unit[1:] != unit[:-1]]))
    return Sums(unit[begins], np.append(begins, len(unit)), column, share)


def _blocks(circuit: BlockCircuit, sums: list[Sums]) -> tuple[Input | Inner, ...]:
    """The blocks of distinct units."""
    levels = circuit.levels
    place = np.zeros(levels.n_units, dtype=np.intp)
    count = np.zeros(circuit.vtree.n_nodes, dtype=np.intp)
    blocks: list[Any] = [None] * circuit.vtree.n_nodes
    for level, given in zip(levels.levels, sums, strict=True):
        products = None
        own = given
        if level.inputs is not None:
            own, products = _with_distinct_products(levels, level, given, place, count)
        # units are of one node if their edges are equal: columns differ between nodes
        kept, group = distinct_rows(own.starts, own.columns, own.shares)
        nodes = level.node_of_unit[own.units]
        firsts = np.searchsorted(nodes[kept], np.arange(len(level.nodes) + 1))
        place[level.start + own.units] = group - firsts[nodes]
        count[level.nodes] = np.diff(firsts)
        made = _tables(level, own, kept, firsts)
        if products is not None:
            made = _inner_blocks(circuit, level, own, kept, firsts, products, count)
        for node, block in zip(level.nodes.tolist(), made, strict=True):
            blocks[node] = block
    return tuple(blocks)


def _with_distinct_products(
    levels: Levels, level: Level, sums: Sums, place: Any, count: Any
) -> tuple[Sums, tuple[Any, Any]]:
    """The sums over distinct products, and these: ascending keys, and where a node's begin.

    The key of a product is its left unit times the number of right ones plus its right unit, after
    the keys of earlier nodes.
    """
    vtree = levels.vtree
    n_right = count[vtree.right[level.nodes]]
    sizes = count[vtree.left[level.nodes]] * n_right
    begins = np.concatenate([[0], np.cumsum(sizes)])
    left, right = level.inputs[:, sums.columns]  # type: ignore[index]
    rows = sums.rows
    node = level.node_of_unit[sums.units[rows]]
    keys = begins[node] + place[left] * n_right[node] + place[right]
    distinct, columns = np.unique(keys, return_inverse=True)
    if len(rows) == len(sums.units):  # one product each
        return Sums(sums.units, sums.starts, columns, sums.shares), (distinct, begins)
    n = len(distinct)
    order = np.argsort(rows * n + columns, kind="stable")
    codes = (rows * n + columns)[order]
    first = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    shares = np.add.reduceat(sums.shares[order], first)
    rows, columns = np.divmod(codes[first], n)
    return _grouped(sums.units[rows], columns, shares), (distinct, begins)


def _tables(level: Level, sums: Sums, kept: Any, firsts: Any) -> list[Any]:
    """The tables of the kept units of every leaf."""
    if level.inputs is not None:
        return []
    widths = np.diff(level.product_starts)
    sizes = np.diff(firsts) * widths
    begins = np.concatenate([[0], np.cumsum(sizes)])
    node = level.node_of_unit[sums.units[kept]]
    # where the row of every kept unit begins, less the first column of its node
    offset = begins[node] + (np.arange(len(kept)) - firsts[node]) * widths[node]
    offset -= level.product_starts[node]
    rows, edges = _edges_of(sums, kept)
    numbers = np.zeros(begins[-1])
    numbers[offset[rows] + sums.columns[edges]] = sums.shares[edges]
    ends = begins.tolist()
    return [
        Table(numbers[a:b].reshape(-1, width))
        for a, b, width in zip(ends[:-1], ends[1:], widths.tolist(), strict=True)
    ]


def _edges_of(sums: Sums, kept: Any) -> tuple[Any, Any]:
    """The edges of the kept units, one after the other: which unit each is of, and which it is."""
    sizes = np.diff(sums.starts)[kept]
    rows = np.repeat(np.arange(len(kept)), sizes)
    return rows, np.arange(len(rows)) + (sums.starts[kept] - np.cumsum(sizes) + sizes)[rows]


def _inner_blocks(
    circuit: BlockCircuit,
    level: Level,
    sums: Sums,
    kept: Any,
    firsts: Any,
    products: tuple[Any, Any],
    count: Any,
) -> list[Any]:
    """The blocks of the kept units of every inner node."""
    keys, begins = products
    vtree = circuit.vtree
    cuts = np.searchsorted(keys, begins).tolist()
    rows, edges = _edges_of(sums, kept)
    ends = np.searchsorted(rows, firsts).tolist()
    columns, shares = sums.columns[edges], sums.shares[edges]
    lefts, rights = (
        count[vtree.left[level.nodes]].tolist(),
        count[vtree.right[level.nodes]].tolist(),
    )
    units = firsts.tolist()
    made = []
    for i, (n_left, n_right) in enumerate(zip(lefts, rights, strict=True)):
        left, right = np.divmod(keys[cuts[i] : cuts[i + 1]] - begins[i], n_right)
        some = slice(ends[i], ends[i + 1])
        made.append(
            inner_of_edges(
                left,
                right,
                (rows[some] - units[i], columns[some] - cuts[i], shares[some]),
                units[i + 1] - units[i],
                n_left,
                n_right,
            )
        )
    return made
