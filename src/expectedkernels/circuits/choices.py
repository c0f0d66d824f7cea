"""Samples and most probable rows by one pass up and choices on the way down the levels."""

from __future__ import annotations

from typing import Any

import numpy as np

from expectedkernels.circuits.base import BlockCircuit
from expectedkernels.circuits.evidence import Evidence
from expectedkernels.circuits.inputs import Normal
from expectedkernels.circuits.likelihoods import certain
from expectedkernels.circuits.observed import chunks, has_levels, log_modes, observed
from expectedkernels.circuits.queries import refuse_impossible
from expectedkernels.engine.blocks import Inner
from expectedkernels.engine.descend import Choice, descend, drawn, searched, walked_to
from expectedkernels.engine.levels import Levels
from expectedkernels.engine.passes import Up, Workspace, up
from expectedkernels.engine.semiring import MAX, lifted, up_over

NOISE_BYTES = 2**28
"""How much memory random numbers may take, which are drawn before the samples are made."""

MANY = 16
"""With so many samples per row, fewer rows are worked on at once."""


def level_map(circuit: BlockCircuit, evidence: Evidence) -> Any:
    """The most probable completions of rows, in logs; the circuit is deterministic."""
    levels = circuit.levels
    weights = circuit.remembered("log weights", lambda: lifted(MAX, levels))
    completed = np.empty((evidence.n_rows, circuit.n_variables))
    possible = np.ones(evidence.n_rows, dtype=np.bool_)
    for rows in chunks(circuit, evidence.n_rows):
        some = evidence.rows(rows)
        atoms = log_modes(circuit, some)
        values = up_over(MAX, levels, weights, atoms)
        possible[rows] = values[-1] > -np.inf
        refuse_impossible(possible, given=True)

        choose = _best(levels, weights, values, atoms)
        chosen = descend(levels, some.n_rows, choose)
        _write(circuit, some, chosen, None, np.arange(some.n_rows), completed[rows])
    return completed


def _best(levels: Levels, weights: Any, values: Any, atoms: Any) -> Any:
    """The choice of edges that make up the largest values."""

    def choose(choice: Choice) -> Any:
        level = choice.level
        products, own = level.all_edges.products, weights[choice.number]
        rows = np.tile(np.arange(choice.units.shape[1]), len(choice.nodes))

        def scores(places: Any, edges: Any) -> Any:
            row = rows[places]
            if level.inputs is None:
                return _at(atoms, products[edges], row) + own[edges]
            left, right = (side[products[edges]] for side in level.inputs)
            # the very sums the values are the largest of
            return _at(values, left, row) + _at(values, right, row) + own[edges]

        goals = _at(values, level.start + choice.flat, rows)
        chosen = walked_to(level.all_edges, choice.flat, scores, goals)
        return chosen.reshape(choice.units.shape)

    return choose


def _at(array: Any, places: Any, rows: Any) -> Any:
    """Entries of an array of shape (places, rows), or (places,) for a single row."""
    if array.ndim == 1:
        return array[places]
    return array.reshape(-1)[places * array.shape[1] + rows]


def level_samples(
    circuit: BlockCircuit, evidence: Evidence | None, generator: Any, n: int, out: Any
) -> bool:
    """Write n samples for every row of evidence, one row after the other.

    False, and the generator as it was, if plain numbers cannot do it. Random numbers are drawn
    node by node from the root down, for all samples at once.
    """
    n_rows = 1 if evidence is None else evidence.n_rows
    if not has_levels(circuit) or 8 * circuit.vtree.n_nodes * len(out) > NOISE_BYTES:
        return False
    if any(isinstance(block, Normal) and block.half is not None for block in circuit.blocks):
        return False  # intervals want one more random number
    before = generator.bit_generator.state
    noise, normal = _noise(circuit, generator, len(out))
    possible = np.ones(n_rows, dtype=np.bool_)
    work = Workspace()
    for rows in chunks(circuit, n_rows, per_row=1 + n // MANY):
        some = (
            evidence
            if evidence is None or rows.stop - rows.start == n_rows
            else evidence.rows(rows)
        )
        found = up(circuit.levels, observed(circuit, some), work)
        possible[rows] = found.values[-1] > 0
        refuse_impossible(possible, evidence is not None)
        if found.has_raised and not certain(found).all():
            generator.bit_generator.state = before
            return False
        samples = slice(rows.start * n, rows.stop * n)
        if n:
            _sample(circuit, some, found, n, noise[:, samples], normal[:, samples], out[samples])
    return True


def _noise(circuit: BlockCircuit, generator: Any, n: int) -> tuple[Any, Any]:
    """A uniform number for every choice, (nodes, n), and normal ones for real variables."""
    nodes = circuit.vtree.n_nodes
    real = [node for node, block in enumerate(circuit.blocks) if isinstance(block, Normal)]
    uniform, normal = np.empty((nodes, n)), np.empty((len(real), n))
    place = {node: i for i, node in enumerate(real)}
    for node in range(nodes - 1, -1, -1):
        block = circuit.blocks[node]
        if isinstance(block, Inner) and block.weights is None:
            continue
        generator.random(out=uniform[node])
        if node in place:
            generator.standard_normal(out=normal[place[node]])
    return uniform, normal


def _sample(
    circuit: BlockCircuit,
    evidence: Evidence | None,
    found: Up,
    n: int,
    uniform: Any,
    normal: Any,
    out: Any,
) -> None:
    """Write the samples of some rows of evidence."""
    row_of = np.repeat(np.arange(len(out) // n), n)

    def choose(choice: Choice) -> Any:
        numbers = uniform[choice.nodes].reshape(-1)
        inputs = found.products[choice.number]
        edges = choice.level.all_edges
        if inputs.ndim == 1:
            picked = searched(_level_shares(edges, inputs), edges, choice.flat, numbers)
            return picked.reshape(choice.units.shape)
        rows = np.tile(row_of, len(choice.nodes))

        def scores(places: Any, at: Any) -> Any:
            return edges.weights[at] * _at(inputs, edges.products[at], rows[places])

        totals = _at(found.sums(choice.number), choice.flat, rows)
        return drawn(edges, choice.flat, scores, totals, numbers).reshape(choice.units.shape)

    chosen = descend(circuit.levels, len(out), choose)
    _write(circuit, evidence, chosen, normal, row_of, out)


def _level_shares(edges: Any, inputs: Any) -> Any:
    """The share of every edge in its unit, of a single row of values."""
    terms = edges.weights * inputs[edges.products]
    totals = np.bincount(edges.units, terms, len(edges.starts) - 1)
    return terms / np.where(totals > 0, totals, 1.0)[edges.units]


def _write(
    circuit: BlockCircuit, evidence: Evidence | None, chosen: Any, normal: Any, rows: Any, out: Any
) -> None:
    """Write the values that chosen atoms stand for; observed values of real variables stay."""
    level = circuit.levels.levels[0]
    out[:, circuit.vtree.variable[level.nodes]] = circuit.atom_names[1][chosen].T
    real = [node for node, block in enumerate(circuit.blocks) if isinstance(block, Normal)]
    for i, node in enumerate(real):
        variable = int(circuit.vtree.variable[node])
        block: Any = circuit.blocks[node]
        component = out[:, variable].astype(np.intp)
        values = block.mean[component]
        if normal is not None:
            values = values + np.sqrt(block.variance[component]) * normal[i]
        if evidence is not None:
            column = evidence.column(variable)
            seen = column.values[column.codes[rows]]
            values = np.where(np.isnan(seen), values, seen)
        out[:, variable] = values
