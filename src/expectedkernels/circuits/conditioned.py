"""The conditional of a circuit by levels: shares of edges, and only the distinct units they need.

Given evidence, many units are zero or cannot be reached, and units that differ only in what is now
known become equal. Two passes find them: which units are reached, from the root down, and which of
these are equal, from the leaves up. Blocks are cut from what is left when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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
Blocks = tuple[Input | Inner, ...]


@dataclass(frozen=True, eq=False)
class Flat:
    """All edges of a circuit in one row: unit by unit, level by level.

    Attributes
    ----------
    levels : Levels
    starts : list of int
        Where the edges of every level begin.
    units, products : int arrays
        The unit of every edge in the buffer; its product, counted from the first atom on.
    weights : array
    inputs : int array of shape (2, edges)
        The inputs of the product of every edge in the buffer; zeros at the leaves.
    """

    levels: Levels
    starts: list[int]
    units: Any
    products: Any
    weights: Any
    inputs: Any


@dataclass(frozen=True, eq=False)
class Sums:
    """Distinct units of one level, with their edges.

    Attributes
    ----------
    units : int array
        The units, ascending, counted within the level.
    starts : int array of shape (units + 1,)
        Where the edges of every unit begin.
    keys, shares : arrays
        The product (or atom) and the weight of every edge; keys ascend within a unit.
    first : int
        The number of the first of them among all distinct units.
    """

    units: Any
    starts: Any
    keys: Any
    shares: Any
    first: int


def conditioned_blocks(
    circuit: BlockCircuit, evidence: Evidence | None
) -> tuple[bool, Callable[[], Blocks] | None]:
    """Whether the evidence is possible, and what cuts the blocks of the conditional with one root.

    None for the latter if plain numbers cannot tell, or if there are real variables.
    """
    if None in circuit.cardinalities or not has_levels(circuit):
        return True, None
    found = up(circuit.levels, observed(circuit, evidence))
    if found.has_raised:
        return True, None
    if not found.values[-1] > 0:
        return False, None
    flat = circuit.remembered("flat", partial(_flat, circuit.levels))
    kept, shares = _reached(flat, found)
    if shares.min() < TINY:
        return True, None
    return True, partial(_blocks, circuit.levels, _distinct_sums(flat, kept, shares))


def _flat(levels: Levels) -> Flat:
    """The edges of all levels, one after the other."""
    edges = [level.all_edges for level in levels.levels]
    first = np.cumsum([0, *(level.n_products for level in levels.levels)])
    pairs = [
        np.zeros((2, len(own.products)), dtype=np.intp)
        if level.inputs is None
        else level.inputs[:, own.products]
        for level, own in zip(levels.levels, edges, strict=True)
    ]
    own = list(zip(levels.levels, edges, first.tolist(), strict=False))
    return Flat(
        levels,
        np.cumsum([0, *(len(x.products) for x in edges)]).tolist(),
        np.concatenate([x.units + level.start for level, x, _ in own]),
        np.concatenate([x.products + start for _, x, start in own]),
        np.concatenate([x.weights for x in edges]),
        np.concatenate(pairs, axis=1),
    )


def _reached(flat: Flat, found: Up) -> tuple[Any, Any]:
    """The edges that take part, and their shares in their units."""
    levels = flat.levels
    terms = flat.weights * np.concatenate(found.products).take(flat.products)
    alive = terms > 0
    reached = np.zeros(levels.n_units, dtype=np.bool_)
    reached[levels.roots] = True
    for number in range(len(levels.levels) - 1, 0, -1):
        own = slice(flat.starts[number], flat.starts[number + 1])
        alive[own] &= reached.take(flat.units[own])
        reached[flat.inputs[:, own][:, alive[own]]] = True
    alive[: flat.starts[1]] &= reached[flat.units[: flat.starts[1]]]
    kept = np.flatnonzero(alive)
    totals = found.values
    if found.tops:
        totals = np.concatenate([found.sums(number) for number in range(len(levels.levels))])
    return kept, terms.take(kept) / totals.take(flat.units.take(kept))


def _distinct_sums(flat: Flat, kept: Any, shares: Any) -> list[Sums]:
    """The distinct units of every level.

    Distinct units are numbered through. The key of a product is the number of its left unit times
    that of all units plus the number of its right one.
    """
    levels, units = flat.levels, flat.units.take(kept)
    changes = np.concatenate([[True], units[1:] != units[:-1]])
    rows, begins = np.cumsum(changes) - 1, np.flatnonzero(changes)
    begins = np.append(begins, len(units))
    numbers = np.zeros(levels.n_units, dtype=np.intp)
    atoms, inputs = flat.products.take(kept), flat.inputs.take(kept, axis=1)
    cuts = np.searchsorted(kept, flat.starts).tolist()
    row_cuts = np.searchsorted(begins, cuts).tolist()
    found, first = [], 0
    for number, level in enumerate(levels.levels):
        a, b = row_cuts[number : number + 2]
        start, stop = cuts[number : number + 2]
        keys, share, starts = atoms[start:stop], shares[start:stop], begins[a : b + 1] - start
        if number:
            left, right = numbers.take(inputs[:, start:stop])
            keys = left * levels.n_units + right
            if b - a < stop - start:
                keys, share, starts = _without_copies(rows[start:stop] - a, keys, share, starts)
        own = units[begins[a:b]]
        # units are of one node if their edges are equal: keys differ between nodes
        some, place = distinct_rows(starts, keys, share)
        numbers[own] = place + first
        found.append(_chosen(Sums(own - level.start, starts, keys, share, first), some))
        first += len(found[-1].units)
    return found


def _without_copies(rows: Any, keys: Any, shares: Any, starts: Any) -> tuple[Any, Any, Any]:
    """Keys, shares and starts of units whose edges are sorted, those with equal keys added up."""
    new = np.ones(len(keys), dtype=np.bool_)
    np.greater(keys[1:], keys[:-1], out=new[1:])
    new[starts[:-1]] = True
    if new.all():  # they ascend as they are
        return keys, shares, starts
    order = np.lexsort((keys, rows))
    keys, shares = keys[order], shares[order]
    np.greater(keys[1:], keys[:-1], out=new[1:])
    new[starts[:-1]] = True
    first = np.flatnonzero(new)
    return keys[first], np.add.reduceat(shares, first), np.searchsorted(first, starts)


def _chosen(sums: Sums, kept: Any) -> Sums:
    """Some of the units with their edges."""
    if len(kept) == len(sums.units):
        return sums
    sizes = (sums.starts[1:] - sums.starts[:-1])[kept]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    edges = np.arange(starts[-1]) + np.repeat(sums.starts[kept] - starts[:-1], sizes)
    return Sums(sums.units[kept], starts, sums.keys[edges], sums.shares[edges], sums.first)


def _blocks(levels: Levels, sums: list[Sums]) -> Blocks:
    """The blocks of distinct units."""
    n_nodes = levels.vtree.n_nodes
    first, count = np.zeros((2, n_nodes), dtype=np.intp)
    blocks: list[Any] = [None] * n_nodes
    for level, own in zip(levels.levels, sums, strict=True):
        firsts = np.searchsorted(level.node_of_unit[own.units], np.arange(len(level.nodes) + 1))
        first[level.nodes] = own.first + firsts[:-1]
        count[level.nodes] = np.diff(firsts)
        if level.inputs is None:
            made = _tables(level, own, firsts)
        else:
            made = _inner_blocks(levels, level, own, firsts, first, count)
        for node, block in zip(level.nodes.tolist(), made, strict=True):
            blocks[node] = block
    return tuple(blocks)


def _tables(level: Level, sums: Sums, firsts: Any) -> list[Any]:
    """The tables of every leaf."""
    widths = np.diff(level.product_starts)
    begins = np.concatenate([[0], np.cumsum(np.diff(firsts) * widths)])
    node = level.node_of_unit[sums.units]
    # where the row of every unit begins, less the first atom of its node
    offset = begins[node] + (np.arange(len(node)) - firsts[node]) * widths[node]
    offset -= level.product_starts[node]
    numbers = np.zeros(begins[-1])
    numbers[np.repeat(offset, np.diff(sums.starts)) + sums.keys] = sums.shares
    ends = begins.tolist()
    return [
        Table(numbers[a:b].reshape(-1, width))
        for a, b, width in zip(ends[:-1], ends[1:], widths.tolist(), strict=True)
    ]


def _inner_blocks(
    levels: Levels, level: Level, sums: Sums, firsts: Any, first: Any, count: Any
) -> list[Any]:
    """The blocks of every inner node."""
    rows = np.repeat(np.arange(len(sums.units)), np.diff(sums.starts))
    keys, where, columns = np.unique(sums.keys, return_index=True, return_inverse=True)
    node = level.node_of_unit[sums.units[rows[where]]]
    order = np.argsort(node, kind="stable")  # the products of a node lie together
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    columns, node = place[columns], node[order]
    children = levels.vtree.left[level.nodes], levels.vtree.right[level.nodes]
    inputs = np.divmod(keys[order], levels.n_units)
    left, right = (x - first[child[node]] for x, child in zip(inputs, children, strict=True))
    cuts = np.searchsorted(node, np.arange(len(level.nodes) + 1)).tolist()
    ends, units = sums.starts[firsts].tolist(), firsts.tolist()
    n_left, n_right = (count[child].tolist() for child in children)
    made = []
    for i in range(len(level.nodes)):
        products, some = slice(cuts[i], cuts[i + 1]), slice(ends[i], ends[i + 1])
        edges = rows[some] - units[i], columns[some] - cuts[i], sums.shares[some]
        n_units = units[i + 1] - units[i]
        made.append(
            inner_of_edges(left[products], right[products], edges, n_units, n_left[i], n_right[i])
        )
    return made
