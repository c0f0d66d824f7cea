"""Leaf likelihoods of evidence, and circuits conditioned on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import inf
from operator import mul
from typing import Any

import numpy as np
from array_api_compat import is_torch_array

from expectedkernels.arrays import as_like, distinct_rows
from expectedkernels.circuits.block_circuit import BlockCircuit, plain_blocks
from expectedkernels.circuits.inputs import Input, Wide, as_plain, logs_of, sums, wide, wide_exp
from expectedkernels.data.evidence import Column, Evidence
from expectedkernels.engine.blocks import Inner, inner_of_edges
from expectedkernels.engine.layers import Edges, Level, Levels
from expectedkernels.engine.passes import (
    AnyLevels,
    Atoms,
    Semiring,
    Up,
    chunk_rows,
    down_over,
    lifted,
    products_over,
    up,
    up_over,
)
from expectedkernels.engine.torch_ops import States, TensorLevels, tensor_levels

LEAST_ROOM = 30.0
"""With less room between the smallest weight and the smallest double, logs are better."""
LEAST_TENSOR_ROOM = {"float64": LEAST_ROOM, "float32": 20.0}
"""The same for tensors of either type."""


def levels_of(circuit: BlockCircuit) -> AnyLevels | None:
    """The levels that passes go over, where the circuit is; None if passes cannot answer.

    They can with weights that are not negative nor too small, in NumPy or in torch, if no
    gradients are asked for.
    """
    if circuit.is_on_host:
        levels: AnyLevels = circuit.levels
        return None if circuit.levels.signed or levels.room < LEAST_ROOM else levels
    like: Any = circuit.blocks[0].numbers
    kind = str(like.dtype).rpartition(".")[2]
    if not is_torch_array(like) or kind not in LEAST_TENSOR_ROOM or circuit.has_gradients:
        return None
    host = circuit.host
    if host.levels.signed:
        return None
    empty = circuit.xp.empty(0, dtype=like.dtype, device=like.device)
    levels = host.remembered(
        f"levels in {kind} at {like.device}", lambda: tensor_levels(host.levels, empty)
    )
    return None if levels.room < LEAST_TENSOR_ROOM[kind] else levels


def chunks(
    levels: AnyLevels,
    n_rows: int,
    max_bytes: float = inf,
    per_row: int = 1,
    values_only: bool = False,
) -> Iterator[slice]:
    """Rows that are worked on at once, all of about one size, with `per_row` answers each."""
    most = max(1, chunk_rows(levels, max_bytes, values_only) // per_row)
    step = max(1, -(-n_rows // max(1, -(-n_rows // most))))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def observed(circuit: BlockCircuit, levels: AnyLevels, evidence: Evidence | None) -> Atoms:
    """What rows of evidence say of all atoms of a circuit on the host, for passes over levels.

    One row gives arrays of one axis less in NumPy, but not in torch.
    """
    if isinstance(levels, TensorLevels):
        return _sent(circuit, levels, evidence)
    if evidence is None:
        return Atoms(np.ones(circuit.levels.n_atoms))
    if evidence.values is not None and None not in circuit.cardinalities:
        return Atoms(_states(circuit, evidence.values))
    return _general(circuit, evidence, levels.room)


def _sent(circuit: BlockCircuit, levels: TensorLevels, evidence: Evidence | None) -> Atoms:
    """The same in tensors: states as they are, anything else as the values of atoms."""
    like = levels.like
    real = None in circuit.cardinalities
    if evidence is None and real:
        return Atoms(like.new_ones((levels.n_atoms, 1)))
    if evidence is None:
        return Atoms(States(levels.leaf_states, levels.n_atoms))
    if evidence.values is not None and not real:
        return Atoms(States(_leaf_states(levels, evidence.values), levels.n_atoms))
    found = _general(circuit, evidence, levels.room)
    values = as_like(found.values.reshape(levels.n_atoms, -1), like).to(like.dtype)
    if found.scale is None:
        return Atoms(values)
    raised = None
    if found.raised is not None:
        mask = np.zeros(found.values.shape, dtype=np.bool_)
        mask[found.raised] = True
        raised = as_like(mask.reshape(levels.n_atoms, -1), like)
    scale = as_like(found.scale.reshape(len(found.scale), -1), like)
    return Atoms(values, scale, found.low, raised)


def _leaf_states(levels: TensorLevels, rows: Any) -> Any:
    """The state of every leaf's variable in every row, sent as they are and laid out there."""
    states = as_like(rows, levels.like).T.index_select(0, levels.leaf_variables)
    known = states.nan_to_num(-1.0).to(levels.bases.dtype)
    return known.where(known >= 0, levels.leaf_states)


def log_modes(circuit: BlockCircuit, evidence: Evidence) -> Any:
    """The logs of the largest values of all atoms: of a component not observed, its mode's."""
    if evidence.values is not None and None not in circuit.cardinalities:
        return np.where(_states(circuit, evidence.values) > 0, 0.0, -inf)
    logs = np.empty((circuit.levels.n_atoms, evidence.n_rows))
    for variable, first, stop in circuit.atom_slices:
        column = evidence.column(variable)
        logs[first:stop] = circuit.input(variable).log_modes(column)[:, column.codes]
    return logs[:, 0] if evidence.n_rows == 1 else logs


def _states(circuit: BlockCircuit, rows: Any) -> Any:
    """One for every state that a row of values allows, zero for others."""
    variable, state = circuit.atom_names
    if len(rows) == 1:
        x = rows[0].take(variable)
        return ((x == state) | (x != x)).astype(np.float64)
    x = rows.T.take(variable, axis=0)
    return ((x == state[:, None]) | (x != x)).astype(np.float64)


def _general(circuit: BlockCircuit, evidence: Evidence, room: float) -> Atoms:
    """Soft evidence and densities, relative to the largest of every variable and row."""
    level, n = circuit.levels.levels[0], evidence.n_rows
    values = np.empty((level.n_products, n))
    if evidence.values is not None and any(c is not None for c in circuit.cardinalities):
        values = _states(circuit, evidence.values).reshape(-1, n)
    scale, low = np.zeros((len(level.nodes), n)), np.zeros(len(level.nodes))
    raised = []
    for i, node in enumerate(level.nodes.tolist()):
        variable = int(circuit.vtree.variable[node])
        column = _column(evidence, variable)
        if column is None:
            continue
        first, stop = level.product_starts[i : i + 2].tolist()
        logs = circuit.input(variable).log_weights(column)[:, column.codes]
        top = logs.max(axis=0)
        scale[i] = np.where(top > -np.inf, top, 0.0)
        logs = logs - scale[i]
        small = np.nonzero((logs < -room) & (logs > -np.inf))
        if len(small[0]):
            logs[small] = -room
            raised.append((small[0] + first, small[1]))
        values[first:stop] = np.exp(logs)
        low[i] = logs.min(where=logs > -np.inf, initial=0.0)
    places: Any = tuple(map(np.concatenate, zip(*raised, strict=True))) or None
    hard = not scale.any() and not low.any()
    if n == 1:
        values, scale = values[:, 0], scale[:, 0]
        places = None if places is None else places[:1]
    return Atoms(values) if hard else Atoms(values, scale, low, places)


def _column(evidence: Evidence, variable: int) -> Column | None:
    """What rows say of a variable; None if that is a state, or any."""
    if evidence.values is None:
        return evidence.column(variable)
    if evidence.domains[variable] is not None:
        return None
    return Column(None, evidence.values[:, variable], slice(None))  # no need to tell equal ones


SLOW = 8
"""How many rows in plain numbers take the memory of one in wide ones."""


def _full(shape: tuple[int, ...], ones: bool) -> Wide:
    return wide(np.full(shape, float(ones)))


def _sums(edges: Edges, weights: Any, products: Wide) -> Wide:
    terms = products[edges.products]
    if weights is not None:
        terms = terms * weights[(slice(None), *[None] * (len(products.shape) - 1))]
    return sums(terms, edges.starts)


WIDE = Semiring(_full, mul, _sums, wide)
"""Numbers of any size."""


@dataclass(frozen=True, eq=False)
class WideUp:
    """What a pass up in wide numbers found.

    Attributes
    ----------
    levels : Levels
    weights : list of Wide
        Of the edges of every level.
    atoms : Wide of shape (atoms, rows)
    values : Wide of shape (units, rows)
    """

    levels: Levels
    weights: list[Any]
    atoms: Wide
    values: Wide

    @property
    def possible(self) -> Any:
        """Which rows have a positive value."""
        return self.values.mantissa[-1] > 0

    def shares(self, number: int) -> Wide:
        """The shares of a level's edges in their units, (edges, rows)."""
        level = self.levels.levels[number]
        edges = level.all_edges
        products = products_over(WIDE, self.levels, number, self.values, self.atoms)
        terms = products[edges.products] * self.weights[number][:, None]
        return terms / self.values[level.start : level.stop][edges.units]

    def derivatives(self) -> Wide:
        """The derivatives of the (only) root in all atoms, (atoms, rows)."""
        return down_over(WIDE, self.levels, self.weights, self.values)


def wide_up(circuit: BlockCircuit, evidence: Evidence | None, absolute: bool = False) -> WideUp:
    """The values of all units given rows of evidence, (one row without any).

    With `absolute`, of the circuit with the absolute values of all weights.
    """
    levels = circuit.levels
    weights = circuit.remembered("wide weights", lambda: lifted(WIDE, levels))
    if absolute:
        weights = [Wide(np.abs(w.mantissa), w.exponent) for w in weights]
    atoms = _observed(circuit, evidence)
    return WideUp(levels, weights, atoms, up_over(WIDE, levels, weights, atoms))


def wide_ups(circuit: BlockCircuit, evidence: Evidence | None) -> Iterator[tuple[slice, WideUp]]:
    """Rows in chunks that fit into memory, with what passes up find."""
    n = 1 if evidence is None else evidence.n_rows
    for rows in chunks(circuit.levels, n, per_row=SLOW):
        yield rows, wide_up(circuit, None if evidence is None else evidence.rows(rows))


def node_values(circuit: BlockCircuit, found: WideUp) -> list[Wide]:
    """For every vtree node the values of its units, of the only row."""
    first = found.levels.unit_starts.tolist()
    return [
        found.values[start : start + n, 0]
        for start, n in zip(first, circuit.operand.units, strict=True)
    ]


def _observed(circuit: BlockCircuit, evidence: Evidence | None) -> Wide:
    """What rows of evidence say of all atoms, (atoms, rows)."""
    n = 1 if evidence is None else evidence.n_rows
    atoms = _full((circuit.levels.n_atoms, n), True)
    if evidence is None:
        return atoms
    for variable, first, stop in circuit.atom_slices:
        column = evidence.column(variable)
        atoms[first:stop] = wide_exp(circuit.input(variable).log_weights(column))[:, column.codes]
    return atoms


TINY = float(np.finfo(np.float64).tiny)
ADVICE = "ask for fewer rows at once, or write the circuit with numbers that differ less"
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
    nodes : int array
        The vtree node of every unit in the buffer.
    """

    levels: Levels
    starts: list[int]
    units: Any
    products: Any
    weights: Any
    inputs: Any
    nodes: Any


@dataclass(frozen=True, eq=False)
class Sums:
    """Distinct units of one level, with their edges.

    Attributes
    ----------
    units : int array
        The units they come from, ascending, counted within the level.
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

    None for the latter if there are real variables or negative weights, or if shares are no
    doubles.
    """
    if None in circuit.cardinalities or circuit.levels.signed:
        return True, None
    found = _values(circuit, evidence)
    if not np.all(found.possible):
        return False, None
    reached = _reached(circuit, evidence, found)
    if reached.shares.min() < 0:
        return True, None
    return True, lambda: conditional_blocks(circuit, reached)[0]


def _values(circuit: BlockCircuit, evidence: Evidence | None) -> Up | WideUp:
    """All values, in plain numbers if none of them is out of range."""
    levels = levels_of(circuit)
    if levels is not None:
        found = up(levels, observed(circuit, levels, evidence), values_only=True)
        if not found.has_raised:
            return found
    return wide_up(circuit, evidence)


def flat_edges(circuit: BlockCircuit) -> Flat:
    """The edges of all levels, one after the other."""
    return circuit.remembered("flat", partial(_flat, circuit.levels))


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
        np.concatenate([level.nodes[level.node_of_unit] for level in levels.levels]),
    )


@dataclass(frozen=True, eq=False)
class Reached:
    """The edges that take part given rows of evidence.

    Attributes
    ----------
    edges, rows : int arrays
        Pairs of an edge and a row, in the order of (unit, row, edge).
    shares : array
        The share of each of them in its unit; its log (which is negative) if it is no double.
    keys : int array
        The atom of every edge of the lowest level.
    n_rows : int
    first : int array of shape (vtree nodes, rows), or None
        The first row that says the same of the variables of a node; only such rows have edges
        there. None: all have.
    seen : list of arrays, or None
        The observed values of every leaf, which are atoms behind its own. None: there are none.
    """

    edges: Any
    rows: Any
    shares: Any
    keys: Any
    n_rows: int
    first: Any = None
    seen: Any = None

    def numbered(self, places: Any, nodes: Any = None) -> Any:
        """Pairs of a place and the row, or the first one that is like it at nodes, as numbers."""
        if self.n_rows == 1:
            return places
        rows = self.rows if nodes is None or self.first is None else self.first[nodes, self.rows]
        return places * self.n_rows + rows


def reached_edges(circuit: BlockCircuit, evidence: Evidence) -> Reached:
    """The edges that take part given rows of evidence that are possible.

    An input unit of a real variable that is observed has one edge, to the observed value.
    """
    patterns = evidence.patterns(circuit.vtree)
    first = None if patterns.is_uniform else patterns.first_rows(circuit.vtree)
    found = _reached(circuit, evidence, _values(circuit, evidence), first)
    return _at_points(circuit, evidence, found) if None in circuit.cardinalities else found


def _at_points(circuit: BlockCircuit, evidence: Evidence, found: Reached) -> Reached:
    """The same with edges to observed values in the place of those to components."""
    level, n = circuit.levels.levels[0], len(found.keys)
    seen: list[Any] = [()] * len(level.nodes)
    value = np.full((len(level.nodes), evidence.n_rows), -1)
    for leaf, (variable, _, _) in enumerate(circuit.atom_slices):
        if circuit.cardinalities[variable] is None:
            column = evidence.column(variable)
            seen[leaf] = column.seen
            value[leaf] = np.where(column.codes < len(seen[leaf]), column.codes, -1)
    leaf_of = circuit.leaf_of_atom[found.keys]
    value = value[leaf_of, found.rows[:n]]
    starts, sizes = _atom_starts(level, seen)[leaf_of], np.diff(level.product_starts)[leaf_of]
    atom = found.keys - level.product_starts[leaf_of]
    keys = starts + np.where(value < 0, atom, sizes + value)
    units = found.numbered(flat_edges(circuit).units[found.edges])[:n]
    kept = np.ones(len(found.edges), dtype=np.bool_)
    kept[1:n] = (value[1:] < 0) | (units[1:] != units[:-1])
    shares = found.shares.copy()
    shares[:n][value >= 0] = 1.0
    edges, rows, shares = (x[kept] for x in (found.edges, found.rows, shares))
    return Reached(edges, rows, shares, keys[kept[:n]], found.n_rows, found.first, seen)


def _atom_starts(level: Level, seen: Any) -> Any:
    """Where the atoms of every leaf begin, and all end; observed values follow components."""
    more = 0 if seen is None else [len(values) for values in seen]
    return np.concatenate([[0], np.cumsum(np.diff(level.product_starts) + more)])


def _reached(
    circuit: BlockCircuit, evidence: Evidence | None, found: Up | WideUp, first: Any = None
) -> Reached:
    """The edges that take part, and their shares in their units."""
    flat, levels = flat_edges(circuit), circuit.levels
    if isinstance(found, WideUp):
        positive, atoms = found.values.mantissa != 0, found.atoms.mantissa != 0
    else:
        positive, atoms = found.values > 0, found.atoms.values > 0
    n_rows = positive.shape[1] if positive.ndim > 1 else 1
    reached = np.zeros_like(positive)
    reached[(levels.n_units - 1, *(() if first is None else (first[-1],)))] = True
    parts: list[Any] = []
    for number in range(len(levels.levels) - 1, -1, -1):
        own = slice(flat.starts[number], flat.starts[number + 1])
        alive = reached.take(flat.units[own], axis=0)
        inputs = flat.inputs[:, own]
        if number:
            alive &= positive.take(inputs[0], axis=0)
            alive &= positive.take(inputs[1], axis=0)
        else:
            alive &= atoms.take(flat.products[own], axis=0)
        edge, *row = np.nonzero(alive)
        if number:
            below = inputs[:, edge]
            reached[(below, *(row if first is None else [first[flat.nodes[below], row[0]]]))] = True
        parts.append((edge + own.start, *row))
    edges, *row = (np.concatenate(x[::-1]) for x in zip(*parts, strict=True))
    rows = row[0] if row else np.zeros_like(edges)
    if n_rows > 1:
        order = np.argsort(flat.units[edges] * n_rows + rows, kind="stable")
        edges, rows = edges[order], rows[order]
    n = int(np.searchsorted(flat.units[edges], levels.levels[0].stop))
    shares = _shares(flat, found, edges, rows, n)
    if isinstance(found, Up) and shares.min(initial=1.0) < TINY:
        shares = _shares(flat, wide_up(circuit, evidence), edges, rows, n)
    return Reached(edges, rows, shares, flat.products[edges[:n]], n_rows, first)


def _shares(flat: Flat, found: Up | WideUp, edges: Any, rows: Any, n: int) -> Any:
    """The shares of edges in their units; the first n are of the lowest level."""
    (left, right), units = flat.inputs.take(edges[n:], axis=1), flat.units.take(edges)
    atoms: Any = found.atoms
    values: Any = found.values
    if isinstance(found, WideUp):
        lowest = atoms[flat.products[edges[:n]], rows[:n]]
        others = values[left, rows[n:]] * values[right, rows[n:]]
        terms = lowest.followed_by(others) * wide(flat.weights.take(edges))
        return _coded(terms / values[units, rows])
    values, atoms = (x.reshape(len(x), -1) for x in (values, atoms.values))
    others = values[left, rows[n:]] * values[right, rows[n:]]
    terms = np.concatenate([atoms[flat.products[edges[:n]], rows[:n]], others])
    terms *= flat.weights.take(edges)
    terms /= values[units, rows]
    if found.tops:
        tops = np.ones((flat.levels.vtree.n_nodes, values.shape[1]))
        for number, top in found.tops.items():
            tops[flat.levels.levels[number].nodes] = top.reshape(len(top), -1)
        terms /= tops[flat.nodes[units], rows]
    return terms


def _coded(shares: Wide) -> Any:
    """Positive shares as doubles, logs of those that are none."""
    plain = as_plain(shares)
    small = np.flatnonzero(plain < TINY)
    plain[small] = logs_of(shares[small])
    return plain


def _decoded(shares: Any) -> Wide:
    """The shares that doubles stand for."""
    found, small = wide(shares), np.flatnonzero(shares < 0)
    found[small] = wide_exp(shares[small])
    return found


def conditional_blocks(circuit: BlockCircuit, reached: Reached) -> tuple[Blocks, Any]:
    """The blocks of conditionals with one root each, and the root of every row.

    Distinct units are numbered through. The key of a product is the number of its left unit times
    that of all units of all rows, plus the number of its right one.
    """
    flat, levels = flat_edges(circuit), circuit.levels
    n_rows, kept, shares = reached.n_rows, reached.edges, reached.shares
    every = levels.n_units * n_rows
    units = reached.numbered(flat.units.take(kept))
    changes = np.concatenate([[True], units[1:] != units[:-1]])
    rows, begins = np.cumsum(changes) - 1, np.flatnonzero(changes)
    begins = np.append(begins, len(units))
    numbers = np.zeros(every, dtype=np.intp)
    inputs = flat.inputs.take(kept, axis=1)
    inputs = reached.numbered(inputs, flat.nodes[inputs])
    ends = [*(level.start * n_rows for level in levels.levels), every]
    cuts = np.searchsorted(units, ends).tolist()
    row_cuts = np.searchsorted(begins, cuts).tolist()
    found, first = [], 0
    for number, level in enumerate(levels.levels):
        a, b = row_cuts[number : number + 2]
        start, stop = cuts[number : number + 2]
        keys, share, starts = reached.keys, shares[start:stop], begins[a : b + 1] - start
        if number:
            left, right = numbers.take(inputs[:, start:stop])
            keys = left * every + right
            if b - a < stop - start:
                keys, share, starts = _without_copies(rows[start:stop] - a, keys, share, starts)
        own = units[begins[a:b]]
        # units are of one node if their edges are equal: keys differ between nodes
        some, place = distinct_rows(starts, keys, share)
        numbers[own] = place + first
        made = Sums(own // n_rows - level.start, starts, keys, share, first)
        found.append(_chosen(made, some))
        first += len(found[-1].units)
    roots = numbers[every - n_rows :] - found[-1].first
    roots = roots if reached.first is None else roots[reached.first[-1]]
    blocks = _blocks(circuit, found, every, reached.seen)
    if shares.min(initial=1.0) < 0:
        parts = [(block, _decoded(block.flat[0])) for block in blocks]
        blocks = tuple(plain_blocks(circuit.vtree, parts, "A conditional", ADVICE))
    return blocks, roots


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
    if shares.min() < 0:
        added = _coded(sums(_decoded(shares), np.append(first, len(keys))))
    else:
        added = np.add.reduceat(shares, first)
    return keys[first], added, np.searchsorted(first, starts)


def _chosen(sums: Sums, kept: Any) -> Sums:
    """Some of the units with their edges."""
    if len(kept) == len(sums.units):
        return sums
    sizes = (sums.starts[1:] - sums.starts[:-1])[kept]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    edges = np.arange(starts[-1]) + np.repeat(sums.starts[kept] - starts[:-1], sizes)
    return Sums(sums.units[kept], starts, sums.keys[edges], sums.shares[edges], sums.first)


def _blocks(circuit: BlockCircuit, sums: list[Sums], every: int, seen: Any) -> Blocks:
    """The blocks of distinct units; keys are two numbers of units, the first times `every`."""
    levels, n_nodes = circuit.levels, circuit.vtree.n_nodes
    first, count = np.zeros((2, n_nodes), dtype=np.intp)
    blocks: list[Any] = [None] * n_nodes
    for level, own in zip(levels.levels, sums, strict=True):
        firsts = np.searchsorted(level.node_of_unit[own.units], np.arange(len(level.nodes) + 1))
        first[level.nodes] = own.first + firsts[:-1]
        count[level.nodes] = np.diff(firsts)
        if level.inputs is None:
            made = _inputs(circuit, own, firsts, seen)
        else:
            made = _inner_blocks(levels, level, own, firsts, first, count, every)
        for node, block in zip(level.nodes.tolist(), made, strict=True):
            blocks[node] = block
    return tuple(blocks)


def _inputs(circuit: BlockCircuit, sums: Sums, firsts: Any, seen: Any) -> list[Any]:
    """The blocks of every leaf."""
    level = circuit.levels.levels[0]
    starts = _atom_starts(level, seen)
    widths = np.diff(starts)
    begins = np.concatenate([[0], np.cumsum(np.diff(firsts) * widths)])
    node = level.node_of_unit[sums.units]
    # where the row of every unit begins, less the first atom of its node
    offset = begins[node] + (np.arange(len(node)) - firsts[node]) * widths[node] - starts[node]
    flat = np.zeros(begins[-1])
    flat[np.repeat(offset, np.diff(sums.starts)) + sums.keys] = sums.shares
    ends, made = begins.tolist(), []
    for i, (variable, _, _) in enumerate(circuit.atom_slices):
        block: Any = circuit.input(variable)
        numbers = flat[ends[i] : ends[i + 1]].reshape(-1, widths[i])
        made.append(block.with_points(numbers, () if seen is None else seen[i]))
    return made


def _inner_blocks(
    levels: Levels, level: Level, sums: Sums, firsts: Any, first: Any, count: Any, every: int
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
    inputs = np.divmod(keys[order], every)
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
