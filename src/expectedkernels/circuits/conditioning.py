"""Leaf likelihoods of evidence, and circuits conditioned on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import is_torch_array
from scipy import sparse

from expectedkernels.arrays import as_like, distinct_sparse_rows, spans, to_numpy
from expectedkernels.circuits.inputs import TINY, Block, Real, log_sizes
from expectedkernels.data.evidence import Column, Evidence
from expectedkernels.engine import passes
from expectedkernels.engine.blocks import from_leaves, inner_of_edges, runs
from expectedkernels.engine.layers import LEAST_MARGIN, Edges, Layer, Layers
from expectedkernels.engine.operations import States, TensorLayers, tensor_layers
from expectedkernels.engine.passes import Forward, LeafValues
from expectedkernels.vtree import Vtree

if TYPE_CHECKING:
    from expectedkernels.circuits.circuit import Circuit

LEAST_TENSOR_MARGIN = {"float64": LEAST_MARGIN, "float32": 20.0}
"""The same for tensors of either type."""


def layers_of(circuit: Circuit) -> Layers | None:
    """The layers that passes go over, where the circuit is; None if passes cannot be used.

    They can with weights that are not negative nor too small, in NumPy or in torch, if no
    gradients are required.
    """
    if circuit.is_on_cpu:
        layers = circuit.layers
        return None if layers.signed or layers.margin < LEAST_MARGIN else layers
    like: Any = circuit.like
    kind = str(like.dtype).rpartition(".")[2]
    usable = is_torch_array(like) and kind in LEAST_TENSOR_MARGIN and not circuit.has_gradients
    if not usable or (on_cpu := circuit.on_cpu).layers.signed:
        return None
    key, empty = f"layers in {kind} at {like.device}", like.new_empty(0)
    layers = on_cpu.operand.cached(key, lambda: tensor_layers(on_cpu.layers, empty))
    return None if layers.margin < LEAST_TENSOR_MARGIN[kind] else layers


def chunks(
    layers: Layers, n_rows: int, max_bytes: float = inf, per_row: int = 1, values_only: bool = False
) -> list[slice]:
    """Rows that are worked on at once, all of about one size, with `per_row` results each."""
    most = max(1, passes.chunk_rows(layers, max_bytes, values_only) // per_row)
    step = max(1, -(-n_rows // max(1, -(-n_rows // most))))
    return spans(n_rows, step)


def evidence_chunks(
    layers: Layers, evidence: Evidence | None, max_bytes: float = inf, values_only: bool = False
) -> Iterator[tuple[slice, Any]]:
    """Rows of evidence that are worked on at once, and which these are; None is one row."""
    if evidence is None or evidence.n_rows == 1:
        yield slice(0, 1), evidence
        return
    for rows in chunks(layers, evidence.n_rows, max_bytes, values_only=values_only):
        yield rows, evidence.rows(rows)


def observed(circuit: Circuit, layers: Layers, evidence: Evidence | None) -> LeafValues:
    """What rows of evidence say of all atoms of a circuit on the CPU, for passes over layers.

    One row gives arrays of one axis less in NumPy, but not in torch, where states stay as they are.
    """
    coded = None not in circuit.cardinalities and (evidence is None or evidence.values is not None)
    if coded and isinstance(layers, TensorLayers):
        states = layers.leaf_states
        if evidence is not None:  # laid out there
            rows = as_like(evidence.values, layers.like).T.index_select(0, layers.leaf_variables)
            codes = rows.nan_to_num(-1.0).to(layers.bases.dtype)
            states = codes.where(codes >= 0, states)
        return LeafValues(States(states, layers.n_atoms))
    if evidence is None:
        found = LeafValues(np.ones(circuit.layers.n_atoms))
    elif coded:
        found = LeafValues(state_values(circuit, evidence.values))
    else:
        found = _general(circuit, evidence, layers.margin)
    if not isinstance(layers, TensorLayers):
        return found
    parts = [found.values, found.scale, found.clamped]
    parts = [None if x is None else as_like(x.reshape(len(x), -1), layers.like) for x in parts]
    return LeafValues(parts[0].to(layers.like.dtype), parts[1], found.low, parts[2])


def _general(circuit: Circuit, evidence: Evidence, margin: float) -> LeafValues:
    """Soft evidence and densities, relative to the largest of every variable and row."""
    starts = circuit.layers.layers[0].product_starts[:-1]
    logs = atom_logs(circuit, evidence)
    top = np.maximum.reduceat(logs, starts)
    scale: Any = np.where(top > -inf, top, 0.0)
    logs -= scale[circuit.layers.atom_numbers[0]]
    clamped: Any = (logs < -margin) & (logs > -inf)
    logs[clamped] = -margin
    values = np.exp(logs)
    low: Any = np.minimum.reduceat(np.where(logs > -inf, logs, 0.0).min(axis=1), starts)
    if not scale.any() and not low.any():
        scale = low = None
    clamped = clamped if clamped.any() else None
    if evidence.n_rows == 1:
        values, scale, clamped = (None if x is None else x[:, 0] for x in (values, scale, clamped))
    return LeafValues(values, scale, low, clamped)


COPIES = 8
"""How many rows in doubles take the memory of one in logarithms."""


def run_shares(logs: Any, starts: Any) -> tuple[Any, Any]:
    """The shares of terms in the sums of their runs, and the logs of these sums.

    The terms of run i are those from `starts[i]` to `starts[i + 1]`. Shares that are no doubles are
    zero, and so are those of runs whose terms are all zero.

    Examples
    --------
    >>> shares, totals = run_shares(np.array([-2000.0, -2000.0, -np.inf]), np.array([0, 2, 3]))
    >>> shares.tolist(), totals.round(3).tolist()
    ([0.5, 0.5, 0.0], [-1999.307, -inf])
    """
    counts = np.diff(starts)
    filled = np.flatnonzero(counts)
    totals = np.full((len(counts), *logs.shape[1:]), -inf)
    if not len(filled):
        return np.zeros_like(logs), totals
    top = np.maximum.reduceat(logs, starts[filled])
    top = np.where(top > -inf, top, 0.0)
    terms = np.exp(logs - np.repeat(top, counts[filled], axis=0))
    sums = np.add.reduceat(terms, starts[filled])
    with np.errstate(divide="ignore"):
        totals[filled] = np.log(sums) + top
    return terms / np.repeat(np.where(sums > 0, sums, 1.0), counts[filled], axis=0), totals


def log_sums(edges: Edges, weights: Any, products: Any) -> Any:
    """The logs of the sums of terms of units, given those of weights and products."""
    terms = products[edges.products]
    return run_shares(terms if weights is None else terms + weights[:, None], edges.starts)[1]


def state_values(circuit: Circuit, rows: Any) -> Any:
    """One for every state that a row of values allows, zero for others, (atoms, rows) or (atoms,).

    LeafValues of real variables have numbers without a meaning.
    """
    variable, state = circuit.atom_names
    x = rows[0].take(variable) if len(rows) == 1 else rows.T.take(variable, axis=0)
    state = state if len(rows) == 1 else state[:, None]
    return ((x == state) | (x != x)).astype(np.float64)


def atom_logs(circuit: Circuit, evidence: Evidence, modes: bool = False) -> Any:
    """The logs of what rows of evidence say of all atoms, (atoms, rows).

    That is the weight of a state, or the density of a component: of one that is not observed, zero
    or (`modes`) the log of its largest density.
    """
    logs = np.empty((circuit.layers.n_atoms, evidence.n_rows))
    if evidence.values is not None and set(circuit.cardinalities) != {None}:
        logs = log_sizes(state_values(circuit, evidence.values).reshape(logs.shape))
    for variable, first, stop in circuit.atom_slices:
        if evidence.values is None:
            column = evidence.column(variable)
        elif circuit.cardinalities[variable] is None:  # equal values apart
            column = Column(None, evidence.values[:, variable], slice(None))
        else:
            continue
        block = circuit.input(variable)
        column_logs = block.log_modes(column) if modes else block.log_weights(column)
        logs[first:stop] = column_logs[:, column.codes]
    return logs


def forward_logs(circuit: Circuit, evidence: Evidence | None) -> Forward:
    """The logs of all units given rows of evidence (one row without any).

    They are those of the circuit with the absolute values of its weights.
    """
    layers = circuit.layers
    atoms = np.zeros((layers.n_atoms, 1)) if evidence is None else atom_logs(circuit, evidence)
    values = passes.forward_over(log_sums, layers, atoms)
    return Forward(layers, LeafValues(atoms), values, in_logs=True)


def normalized_blocks(
    vtree: Vtree, blocks: Sequence[Any], logs: Sequence[Any]
) -> tuple[list[Any], Any]:
    """The blocks with every unit scaled to sum to one, and the logs of what the roots summed to.

    `logs` are the logs of the sizes of all numbers of the blocks, whose own numbers only give the
    signs; units of signed circuits are scaled by what absolute values sum to. Weights that are no
    doubles then, beside the others of their unit, are zero.
    """

    def scaled(node: int, logs: Any) -> tuple[Any, Any]:
        numbers, starts = blocks[node].flat
        shares, totals = run_shares(logs, starts)
        return blocks[node].refilled(np.copysign(shares, numbers)), totals

    def inner(node: int, left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[Any, Any]:
        a, b = blocks[node].inputs
        below = left[1][a] + right[1][b]
        return scaled(node, logs[node] + below[blocks[node].columns])

    result = from_leaves(vtree, lambda node, _: scaled(node, logs[node]), inner)
    return [block for block, _ in result], result[-1][1]


def all_values(
    circuit: Circuit, evidence: Evidence | None, work: Any = None, exact: bool = False
) -> Forward:
    """The values of all units, as logarithms where plain numbers cannot tell.

    Those of clamped values are right for what flows through the root unless they must be `exact`.
    """
    if (layers := layers_of(circuit)) is not None:
        atoms = observed(circuit.on_cpu, layers, evidence)
        forward = passes.forward(layers, atoms, work, values_only=exact)
        if not bool(forward.clamped_mark) or (not exact and certain(forward).all()):
            return forward
    return forward_logs(circuit.on_cpu, evidence)


def certain(forward: Forward) -> Any:
    """Which rows are right although small values were clamped: little flows through these."""
    values = forward.values[forward.layers.roots]
    if len(values) > 1:
        return np.zeros(values.shape[1:] or 1, dtype=np.bool_)
    # a sum is zero only if all its terms are
    return np.atleast_1d(to_numpy(passes.backward(forward).reliable | (values[0] == 0)))


@dataclass(frozen=True, eq=False)
class ActiveEdges:
    """The edges that take part given rows of evidence.

    Attributes
    ----------
    edges, rows : int arrays
        Pairs of an edge and a row, in the order of (unit, row, edge).
    shares : array
        The share of each of them in its unit.
    keys : int array
        The atom of every edge of the lowest layer.
    n_rows : int
    is_exact : bool
        Whether all shares are doubles; others are left out.
    first : int array of shape (vtree nodes, rows), or None
        The first row that says the same of the variables of a node; only such rows have edges
        there. None: all have.
    points : list of arrays, or None
        The observed values of every leaf, which are atoms behind its own. None: there are none.
    """

    edges: Any
    rows: Any
    shares: Any
    keys: Any
    n_rows: int
    is_exact: bool = True
    first: Any = None
    points: Any = None

    def numbered(self, places: Any, nodes: Any = None) -> Any:
        """Pairs of a place and the row, or the first one that is like it at nodes, as numbers."""
        rows = self.rows if nodes is None or self.first is None else self.first[nodes, self.rows]
        return places * self.n_rows + rows


def active_edges(circuit: Circuit, evidence: Evidence, alike: bool = True) -> ActiveEdges:
    """The edges that take part given rows of evidence that are possible.

    An input unit of a real variable that is observed has one edge, to the observed value. Rows that
    are alike below a node share its edges, unless told otherwise.
    """
    patterns = evidence.patterns(circuit.vtree, *(() if alike else (evidence.n_rows,)))
    first = None if patterns.is_uniform else patterns.first_rows(circuit.vtree)
    values = all_values(circuit, evidence, exact=True)
    active = active_edges_in(circuit, values, first)
    return _at_points(circuit, evidence, active) if None in circuit.cardinalities else active


def _at_points(circuit: Circuit, evidence: Evidence, active: ActiveEdges) -> ActiveEdges:
    """The same with edges to observed values in the place of those to components."""
    layer, n = circuit.layers.layers[0], len(active.keys)
    points: list[Any] = [()] * len(layer.nodes)
    value = np.full((len(layer.nodes), evidence.n_rows), -1)
    for leaf, (variable, _, _) in enumerate(circuit.atom_slices):
        if circuit.cardinalities[variable] is None:
            column = evidence.column(variable)
            points[leaf] = column.observed
            value[leaf] = np.where(column.codes < len(points[leaf]), column.codes, -1)
    leaf_of = circuit.layers.atom_numbers[0][active.keys]
    value = value[leaf_of, active.rows[:n]]
    starts, sizes = _atom_starts(layer, points)[leaf_of], np.diff(layer.product_starts)[leaf_of]
    atom = active.keys - layer.product_starts[leaf_of]
    keys = starts + np.where(value < 0, atom, sizes + value)
    units = active.numbered(circuit.layers.flat_edges.units[active.edges])[:n]
    kept = np.ones(len(active.edges), dtype=np.bool_)
    kept[1:n] = (value[1:] < 0) | (units[1:] != units[:-1])
    shares = active.shares.copy()
    shares[:n][value >= 0] = 1.0
    edges, rows, shares = (x[kept] for x in (active.edges, active.rows, shares))
    keys = keys[kept[:n]]
    return replace(active, edges=edges, rows=rows, shares=shares, keys=keys, points=points)


def _atom_starts(layer: Layer, points: Any) -> Any:
    """Where the atoms of every leaf begin, and all end; observed values follow components."""
    more = 0 if points is None else [len(values) for values in points]
    return np.concatenate([[0], np.cumsum(np.diff(layer.product_starts) + more)])


def active_edges_in(circuit: Circuit, forward: Forward, first: Any = None) -> ActiveEdges:
    """The edges that take part, and their shares in their units."""
    layers, flat, in_logs = circuit.layers, circuit.layers.flat_edges, forward.in_logs
    values, atoms = (x.reshape(len(x), -1) for x in (forward.values, forward.atoms.values))
    positive, possible = (x > (-inf if in_logs else 0.0) for x in (values, atoms))
    n_rows = values.shape[1]
    used = np.zeros_like(positive)
    used[-1, slice(None) if first is None else first[-1]] = True
    parts: list[Any] = []
    for number in range(len(layers.layers) - 1, -1, -1):
        own = slice(flat.starts[number], flat.starts[number + 1])
        alive = used.take(flat.units[own], axis=0)
        inputs = flat.inputs[:, own]
        if not number:
            alive &= possible.take(flat.products[own], axis=0)
        for side in inputs if number else ():
            alive &= positive.take(side, axis=0)
        edge, row = np.nonzero(alive)
        if number:
            below = inputs[:, edge]
            used[below, row if first is None else first[flat.nodes[below], row]] = True
        parts.append((edge + own.start, row))
    edges, rows = (np.concatenate(x[::-1]) for x in zip(*parts, strict=True))
    if n_rows > 1:
        order = np.argsort(flat.units[edges] * n_rows + rows, kind="stable")
        edges, rows = edges[order], rows[order]
    units, weights = flat.units.take(edges), flat.weights.take(edges)
    n = int(np.searchsorted(units, layers.layers[0].stop))  # those of leaves come first
    lowest, (left, right) = (flat.products[edges[:n]], rows[:n]), flat.inputs.take(edges[n:], 1)
    one, other = values[left, rows[n:]], values[right, rows[n:]]
    starts = np.flatnonzero(np.diff(units, prepend=-1) | np.diff(rows, prepend=-1))
    if in_logs:
        logs = np.concatenate([atoms[lowest], one + other]) + np.log(weights)
        shares = run_shares(logs, np.append(starts, len(logs)))[0]
    else:
        shares = np.concatenate([atoms[lowest], one * other]) * weights
        shares /= np.repeat(np.add.reduceat(shares, starts), np.diff(starts, append=len(shares)))
    kept, keys = shares >= TINY, lowest[0]
    exact = bool(kept.all())
    if not exact:
        edges, rows, shares, keys = edges[kept], rows[kept], shares[kept], keys[kept[:n]]
    return ActiveEdges(edges, rows, shares, keys, n_rows, exact, first)


def conditional_blocks(circuit: Circuit, active: ActiveEdges) -> tuple[tuple[Block, ...], Any]:
    """The blocks of conditionals with one root each, and the root of every row.

    Distinct units are numbered through. The key of a product is the number of its left unit times
    that of all units of all rows, plus the number of its right one.
    """
    layers, flat, n_rows = circuit.layers, circuit.layers.flat_edges, active.n_rows
    every = layers.n_units * n_rows
    units = active.numbered(flat.units.take(active.edges))
    begins = np.append(np.flatnonzero(np.diff(units, prepend=-1)), len(units))
    numbers = np.zeros(every, dtype=np.intp)
    inputs = flat.inputs.take(active.edges, axis=1)
    inputs = active.numbered(inputs, flat.nodes[inputs])
    limits = [*(layer.start * n_rows for layer in layers.layers), every]
    cuts = np.searchsorted(units, limits).tolist()
    row_cuts = np.searchsorted(begins, cuts).tolist()
    vtree = circuit.vtree
    blocks: list[Any] = [None] * vtree.n_nodes
    firsts, counts = np.zeros((2, vtree.n_nodes), dtype=np.intp)  # of distinct units of nodes
    first = 0
    for number, layer in enumerate(layers.layers):
        a, b = row_cuts[number : number + 2]
        start, stop = cuts[number : number + 2]
        keys, share, starts = active.keys, active.shares[start:stop], begins[a : b + 1] - start
        if number:
            left, right = numbers.take(inputs[:, start:stop])
            keys = left * every + right
            if b - a < stop - start:  # shares of equal products are added up
                matrix = sparse.csr_array((share.copy(), keys, starts), shape=(b - a, every**2))
                matrix.sum_duplicates()
                keys, share, starts = matrix.indices, matrix.data, matrix.indptr
        own = units[begins[a:b]]
        # units are of one node if their edges are equal: keys differ between nodes
        some, place = distinct_sparse_rows(starts, keys, share)
        numbers[own] = place + first
        if len(some) < len(own):  # edges of those that stay
            sizes = np.diff(starts)[some]
            kept = runs(starts[some], sizes)[1]
            keys, share, starts = keys[kept], share[kept], np.append(0, np.cumsum(sizes))
        node = layer.node_of_unit[own[some] // n_rows - layer.start]
        ends = np.searchsorted(node, np.arange(len(layer.nodes) + 1))
        firsts[layer.nodes], counts[layer.nodes] = first + ends[:-1], np.diff(ends)
        edges = starts, keys, share
        if number:
            made = _inner_blocks(vtree, layer, node, ends, edges, firsts, counts, every)
        else:
            made = _input_blocks(circuit, ends, edges, active.points)
        for i, block in zip(layer.nodes.tolist(), made, strict=True):
            blocks[i] = block
        first += len(some)
    roots = numbers[every - n_rows :] - firsts[-1]
    return tuple(blocks), roots if active.first is None else roots[active.first[-1]]


def _input_blocks(circuit: Circuit, ends: Any, edges: Any, points: Any) -> list[Any]:
    """The blocks of leaves, given the ends of their units, and starts, atoms and shares."""
    (starts, keys, shares), first_atom = edges, _atom_starts(circuit.layers.layers[0], points)
    widths, n_units = np.diff(first_atom), np.diff(ends)
    begins = np.append(0, np.cumsum(n_units * widths))
    # where the row of every unit begins, less the first atom of its node
    node = np.repeat(np.arange(len(n_units)), n_units)
    offset = (begins[:-1] - ends[:-1] * widths - first_atom[:-1])[node]
    offset += np.arange(len(node)) * widths[node]
    flat, blocks = np.zeros(begins[-1]), []
    flat[np.repeat(offset, np.diff(starts)) + keys] = shares
    for i, (variable, _, _) in enumerate(circuit.atom_slices):
        numbers = flat[begins[i] : begins[i + 1]].reshape(-1, widths[i])
        block = circuit.input(variable).with_numbers(numbers)
        more = points is not None and len(points[i]) > 0
        blocks.append(Real(numbers, *block.beside_points(points[i])) if more else block)
    return blocks


def _inner_blocks(
    vtree: Vtree, layer: Layer, node: Any, ends: Any, edges: Any, first: Any, count: Any, every: int
) -> list[Any]:
    """The blocks of every inner node, given the node of every unit, and starts, keys and shares.

    Keys are two numbers of units, the first times `every`.
    """
    starts, keys, shares = edges
    rows = np.repeat(np.arange(len(node)), np.diff(starts))
    keys, where, columns = np.unique(keys, return_index=True, return_inverse=True)
    node = node[rows[where]]
    order = np.argsort(node, kind="stable")  # the products of a node lie together
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    columns, node = place[columns], node[order]
    children = vtree.left[layer.nodes], vtree.right[layer.nodes]
    inputs = np.divmod(keys[order], every)
    left, right = (x - first[child[node]] for x, child in zip(inputs, children, strict=True))
    cuts = np.searchsorted(node, np.arange(len(layer.nodes) + 1)).tolist()
    stops, units = starts[ends].tolist(), ends.tolist()
    n_left, n_right = (count[child].tolist() for child in children)
    blocks = []
    for i in range(len(layer.nodes)):
        products, some = slice(cuts[i], cuts[i + 1]), slice(stops[i], stops[i + 1])
        own = rows[some] - units[i], columns[some] - cuts[i], shares[some]
        sizes = units[i + 1] - units[i], n_left[i], n_right[i]
        blocks.append(inner_of_edges(left[products], right[products], own, *sizes))
    return blocks
