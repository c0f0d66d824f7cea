"""Samples and most probable completions of circuits, and determinism."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from expectedkernels.arrays import as_generator, as_like, require_memory, spans, to_numpy
from expectedkernels.checks import DataError, PropertyError, Verdict
from expectedkernels.circuits.conditioning import (
    chunks,
    evidence_chunks,
    levels_of,
    log_modes,
    observed,
)
from expectedkernels.circuits.logspace import LogValues, log_up
from expectedkernels.circuits.operands import check_single_root
from expectedkernels.circuits.queries import (
    certain,
    conditional_samples,
    refuse_impossible,
    refuse_signed,
    require_possible,
)
from expectedkernels.data.evidence import Evidence, as_evidence, is_batch
from expectedkernels.engine.layers import Levels
from expectedkernels.engine.passes import MAX, Up, lifted, up, up_over, workspace
from expectedkernels.engine.sampling import (
    Choice,
    Scores,
    descend,
    draw_alike,
    draw_edges,
    first_reaching,
)
from expectedkernels.engine.torch_ops import TensorLevels, best_values

if TYPE_CHECKING:
    from expectedkernels.circuits.circuit import Circuit


def deterministic(circuit: Circuit) -> Verdict:
    """Whether the inputs of every sum unit have disjoint supports, with the first that do not.

    Two units of one vtree node overlap iff the inner product of their support indicators is not
    zero, so one sweep of the circuit's supports against themselves decides. (Weights that
    cancel are taken as if they did not.) Cost: that of one expected kernel, once per circuit.
    """
    return circuit.remembered("deterministic", lambda: _decided(circuit.to("numpy")))


def _decided(circuit: Circuit) -> Verdict:
    """See `deterministic`."""
    for variable in circuit.vtree.scope().tolist():
        block: Any = circuit.input(variable)
        several = (block.numbers != 0).sum(axis=1) > 1
        if block.cardinality is None and several.any():
            kind = "normal densities, which" if block.half is None else "densities, which may"
            return Verdict(
                False,
                f"input unit {int(np.argmax(several))} of the real variable {variable} is a sum of "
                f"several {kind} overlap",
            )
    vtree, blocks = circuit.vtree, circuit.blocks
    sizes = [16.0 * max(block.n_units, block.width) * block.width for block in blocks]
    require_memory(
        max(sizes),
        "To decide whether the circuit is deterministic",
        "Compile it on a vtree that suits it, where it has fewer units.",
    )
    overlaps: list[Any] = [None] * vtree.n_nodes
    for node, block in enumerate(blocks):
        if vtree.is_leaf(node):
            overlaps[node] = block.overlaps(block)
            continue
        meets: Any = True
        for child, index in zip((vtree.left[node], vtree.right[node]), block.inputs, strict=True):
            meets = meets & overlaps[child][np.ix_(index, index)]
            overlaps[child] = None
        overlaps[node] = meets
        if block.weights is None:
            continue
        takes = abs(block.csr.sign())
        overlaps[node] = takes @ (takes @ meets.astype(np.float64)).T > 0
        np.fill_diagonal(meets, False)
        clashes = (takes @ meets.astype(np.float64)) * takes.toarray()
        if clashes.any():
            unit = int(np.flatnonzero(clashes.any(axis=1))[0])
            first = int(np.flatnonzero(clashes[unit])[0])
            inputs = takes.indices[takes.indptr[unit] : takes.indptr[unit + 1]]
            second = int(inputs[np.flatnonzero(meets[first, inputs])[0]])
            scope = vtree.scope(node).tolist()
            shown = ", ".join(map(str, scope[:8])) + (", ..." if len(scope) > 8 else "")
            return Verdict(
                False,
                f"sum unit {unit} at vtree node {node} (variables {{{shown}}}) has inputs "
                f"{first} and {second} with overlapping supports",
            )
    return Verdict(True, "no two inputs of any sum unit overlap")


NOISE_BYTES = 2**28
"""How much memory random numbers, which are drawn before the samples are made, may take."""

MANY = 16
"""With so many samples per row, fewer rows are worked on at once."""


def sample(circuit: Circuit, n: int, rng: Any = None, evidence: Any = None) -> Any:
    """See `Circuit.sample`."""
    check_samples(n)
    check_single_root(circuit, "Sampling")
    by_conditionals = circuit.is_known_nonnegative
    if not by_conditionals:
        refuse_signed(circuit.host, "Sampling")
    generator = as_generator(rng)
    read = None if evidence is None else as_evidence(evidence, circuit.schema)
    n_rows = 1 if read is None else read.n_rows
    shape = (n_rows * n, circuit.n_variables)
    require_memory(
        8.0 * prod(shape), f"An array of {shape[0]} samples", "Draw some of them at a time."
    )
    out = np.empty(shape)
    if n == 0:
        require_possible(circuit.host, read)
    elif n_rows and by_conditionals:
        conditional_samples(circuit.host, read, n, generator, out)
    elif n_rows:
        _write_samples(circuit, read, generator, n, out)
    return out.reshape(n_rows, n, circuit.n_variables) if is_batch(evidence) else out


def check_samples(n: Any) -> None:
    """Raise unless a number of samples is one."""
    if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 0:
        raise DataError(f"The number of samples must be a non-negative int. Got {n!r} instead.")


def most_probable(circuit: Circuit, X: Any) -> Any:
    """See `Circuit.map`."""
    check_single_root(circuit, "MAP")
    host = circuit.host
    refuse_signed(host, "MAP")
    verdict = deterministic(host)
    if not verdict:
        raise PropertyError(
            "Most probable completions need a deterministic circuit (for others the problem is "
            f"NP-hard). This one is not: {verdict.reason}."
        )
    read = as_evidence(X, circuit.schema)
    if read.n_rows == 0:
        return np.empty((0, circuit.n_variables))
    completed = _completed(circuit, read)
    return completed if is_batch(X) else completed[0]


def _completed(circuit: Circuit, evidence: Evidence) -> Any:
    """The most probable completions of rows, in logs; the circuit is deterministic."""
    levels: Any = levels_of(circuit)
    circuit = circuit.host
    levels = circuit.levels if levels is None else levels
    completed = np.empty((evidence.n_rows, circuit.n_variables))
    possible = np.ones(evidence.n_rows, dtype=np.bool_)
    for rows, some in evidence_chunks(levels, evidence):
        atoms = log_modes(circuit, some)
        if isinstance(levels, TensorLevels):
            atoms = as_like(atoms.reshape(len(atoms), -1), levels.like)
            every = map(levels.all_edges, range(len(levels.levels)))
            weights = [edges.weights.to(atoms.dtype).log() for edges in every]
            values = best_values(levels, weights, atoms)
        else:
            weights = circuit.remembered("log weights", partial(lifted, MAX, levels))
            values = up_over(MAX, levels, weights, atoms)
        possible[rows] = to_numpy(values[-1] > -np.inf)
        refuse_impossible(possible, given=True)
        chosen = descend(levels, some.n_rows, _best(weights, values, atoms))
        _write(circuit, some, chosen, None, np.arange(some.n_rows), completed[rows])
    return completed


def _best(weights: Any, values: Any, atoms: Any) -> Any:
    """The choice of edges that make up the largest values."""

    def choose(choice: Choice) -> Any:
        level = choice.level
        products, own = choice.edges.products, weights[choice.number]
        rows = np.arange(choice.rows.start, choice.rows.stop)
        rows = as_like(np.tile(rows, len(choice.nodes)), values)

        def scores(places: Any, edges: Any) -> Any:
            row = rows[places]
            if level.inputs is None:
                return _at(atoms, products[edges], row) + own[edges]
            left, right = (side[products[edges]] for side in level.inputs)
            # the very sums the values are the largest of
            return _at(values, left, row) + _at(values, right, row) + own[edges]

        goals = _at(values, level.start + choice.flat, rows)
        return first_reaching(choice.edges, choice.flat, scores, goals)

    return choose


def _at(array: Any, places: Any, rows: Any) -> Any:
    """Entries of an array of shape (places, rows), or (places,) for a single row."""
    if array.ndim == 1:
        return array[places]
    return array.reshape(-1)[places * array.shape[1] + rows]


def _write_samples(
    circuit: Circuit, evidence: Evidence | None, generator: Any, n: int, out: Any
) -> None:
    """Write n > 0 samples for every row of evidence, one row after the other.

    Random numbers are drawn node by node from the root down, for all samples at once.
    """
    n_rows = 1 if evidence is None else evidence.n_rows
    possible = np.ones(n_rows, dtype=np.bool_)
    levels = levels_of(circuit)
    circuit = circuit.host
    passed = circuit.levels if levels is None else levels
    work = workspace(passed)
    for part, noise in _noises(circuit, generator, len(out)):
        first = part.start // n
        for some in chunks(passed, -(-part.stop // n) - first, per_row=1 + n // MANY):
            rows = slice(first + some.start, first + some.stop)
            whole = evidence is None or rows.stop - rows.start == n_rows
            given = evidence if whole else evidence.rows(rows)  # type: ignore[union-attr]
            found = _values(circuit, levels, given, work)
            possible[rows] = to_numpy(found.possible)
            refuse_impossible(possible, evidence is not None)
            start, stop = max(part.start, rows.start * n), min(part.stop, rows.stop * n)
            row_of = np.arange(start, stop) // n - rows.start
            own = [x[:, start - part.start : stop - part.start] for x in noise]
            _sample(circuit, given, found, row_of, own, out[start:stop])


def _values(
    circuit: Circuit, levels: Levels | None, evidence: Evidence | None, work: Any
) -> Up | LogValues:
    """All values, in plain numbers if these can tell."""
    if levels is not None:
        found = up(levels, observed(circuit, levels, evidence), work)
        if not found.has_raised or certain(found).all():
            return found
    return log_up(circuit, evidence)


def _noises(circuit: Circuit, generator: Any, n: int) -> Iterator[tuple[slice, list[Any]]]:
    """Samples in parts (mostly one), with what is random in them.

    That is a uniform number for every choice, (nodes, samples), and for real variables normal
    ones and uniform ones, (variables, samples).
    """
    n_nodes, n_real = circuit.vtree.n_nodes, circuit.cardinalities.count(None)
    places = circuit.remembered("noise", partial(_noise_places, circuit))
    draws = (generator.random, generator.standard_normal, generator.random)
    for part in spans(n, max(1, NOISE_BYTES // (8 * n_nodes))):
        noise = [np.empty((k, part.stop - part.start)) for k in (n_nodes, n_real, n_real)]
        for kind, i in places:
            draws[kind](out=noise[kind][i])
        yield part, noise


def _noise_places(circuit: Circuit) -> list[tuple[int, int]]:
    """The kinds of noise, and their numbers: of the node, or of the real variable."""
    places = []
    n_real = circuit.cardinalities.count(None)
    for node, kinds in reversed(list(enumerate(map(attrgetter("noise"), circuit.blocks)))):
        n_real -= len(kinds) > 1
        places += [(kind, n_real if kind else node) for kind in kinds]
    return places


def _sample(
    circuit: Circuit,
    evidence: Evidence | None,
    found: Up | LogValues,
    row_of: Any,
    noise: list[Any],
    out: Any,
) -> None:
    """Write samples of some rows of evidence."""
    levels = circuit.levels if isinstance(found, LogValues) else found.levels

    def choose(choice: Choice) -> Any:
        numbers = as_like(noise[0][choice.nodes, choice.rows].reshape(-1), levels.like)
        edges, units = choice.edges, choice.flat
        if isinstance(found, Up) and found.values.shape[1:] in ((), (1,)):
            terms = found.product_values(choice.number).reshape(-1)[edges.products]
            return draw_alike(edges, units, edges.weights * terms, numbers)
        rows = as_like(np.tile(row_of[choice.rows], len(choice.nodes)), levels.like)
        return draw_edges(edges, units, *_scores(found, choice, rows), numbers)

    chosen = descend(levels, len(out), choose)
    _write(circuit, evidence, chosen, noise[1:], row_of, out)


def _scores(found: Up | LogValues, choice: Choice, rows: Any) -> tuple[Scores, Any]:
    """How scores of edges are made, and what those of every unit add up to."""
    if isinstance(found, LogValues):
        shares = found.shares(choice.number)
        return lambda places, at: _at(shares, at, rows[places]), np.ones(len(rows))
    edges, inputs = choice.edges, found.product_values(choice.number)

    def scores(places: Any, at: Any) -> Any:
        return edges.weights[at] * _at(inputs, edges.products[at], rows[places])

    return scores, _at(found.sums(choice.number), choice.flat, rows)


def _write(
    circuit: Circuit, evidence: Evidence | None, chosen: Any, noise: Any, rows: Any, out: Any
) -> None:
    """Write the values that chosen atoms stand for; observed values of real variables stay."""
    level = circuit.levels.levels[0]
    out[:, circuit.vtree.variable[level.nodes]] = circuit.atom_names[1][chosen].T
    real = [v for v in circuit.vtree.scope().tolist() if circuit.cardinalities[v] is None]
    for i, variable in enumerate(real):
        block: Any = circuit.input(variable)
        random = (None, None) if noise is None else (kind[i] for kind in noise)
        values = block.drawn(out[:, variable].astype(np.intp), *random)
        if evidence is not None:
            column = evidence.column(variable)
            seen = column.values[column.codes[rows]]
            values = np.where(np.isnan(seen), values, seen)
        out[:, variable] = values
