"""EM on parts of the data at a time, wherever arrays are: NumPy, torch, a card.

After every batch weights become (1 - step) times what they were, plus step times the shares of
the expected counts of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.arrays import Place, as_like, is_numpy, namespace, to_numpy
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.evidence import Evidence
from expectedkernels.circuits.likelihoods import certain
from expectedkernels.circuits.observed import chunks, observed
from expectedkernels.circuits.queries import log_values
from expectedkernels.engine.counts import EdgeCounts, by_node, count
from expectedkernels.engine.levels import Levels
from expectedkernels.engine.on_tensors import States, TensorLevels
from expectedkernels.engine.passes import (
    AnyLevels,
    Atoms,
    chunk_rows,
    operations,
    up,
    workspace,
)
from expectedkernels.engine.replay import Captured, fits, replayed
from expectedkernels.engine.sending import tensor_levels
from expectedkernels.errors import CircuitError, DataError

SMALLEST = {"float64": 1e-30, "float32": 1e-15}
"""Shares that are not zero stay above this, by the type of numbers."""

TRAINED_SHARE = 4
"""Steps of EM may keep one part in so many of a card's memory."""

Wide = Callable[[Circuit, Evidence, Any, Any], tuple[float, Any]]
Numbers = list[tuple[list[Any], Any]]
"""For every level the weights of its stacks, and of its edges."""


@dataclass(frozen=True, eq=False)
class Trained:
    """A circuit whose weights are being fitted.

    Attributes
    ----------
    circuit : Circuit
        On the host, as it was at the start.
    levels : Levels or TensorLevels
        With the weights of now.
    floor : float
        What no weight is below.
    wide : callable
        From a circuit, rows, their weights and numbers to the sum of their log-likelihoods and
        the expected counts of all nodes, in numbers of any range.
    """

    circuit: Circuit
    levels: AnyLevels
    floor: float
    wide: Wide


def start_of(
    circuit: Circuit, device: Any, dtype: str | None, beta: float, largest: float, wide: Wide
) -> Trained:
    """The circuit, normalised, with its weights at a place and of a type.

    Batches weigh at most `largest`, and `beta` is what sums get in advance for every batch.
    """
    if None in circuit.cardinalities:
        raise CircuitError(
            "EM in batches or on a device is for discrete variables. Variable "
            f"{circuit.cardinalities.index(None)} is real: leave out batch_size and device."
        )
    place = Place("numpy" if device is None else device, dtype)
    kind = dtype or "float64"
    if is_numpy(place.xp) and kind != "float64":
        raise CircuitError(
            "In NumPy, EM works in double precision. Single precision needs device='torch' or a "
            "card."
        )
    levels: AnyLevels = circuit.levels
    widest = max(int(np.diff(level.all_edges.starts).max()) for level in circuit.levels.levels)
    lowest = min(float(np.exp(level.bounds[0].min())) for level in circuit.levels.levels)
    least = min(lowest, beta / (widest * (largest + beta)) if beta > 0 else 0.0)
    floor = max(SMALLEST[kind], least * (1 - 1e-3))
    if not is_numpy(place.xp):
        levels = tensor_levels(circuit.levels, place.move(np.zeros(0)))
    every: Any = levels.levels
    numbers = [
        ([_raised(s.weights, floor) for s in level.stacks], _raised(level.edges.weights, floor))
        for level in every
    ]
    return Trained(circuit, operations(levels).renumbered(levels, numbers, floor), floor, wide)


def _raised(weights: Any, floor: float) -> Any:
    """The weights, those that are not zero at least as large as the floor."""
    return namespace(weights).where(weights > 0, weights.clip(min=floor), weights)


def batch_counts(
    trained: Trained, evidence: Evidence, weights: Any, numbers: Any
) -> tuple[float, EdgeCounts]:
    """The weighted sum of the log-likelihoods of rows, and the expected counts of all weights.

    Errors name rows by their `numbers`.
    """
    levels, total = trained.levels, 0.0
    counts, work = EdgeCounts(levels), workspace(levels)
    for rows, some in _parts(levels, evidence):
        found = up(levels, observed(trained.circuit, levels, some), work)
        own, named = weights[rows], numbers[rows]
        logs = to_numpy(found.log_roots).reshape(-1)
        if not (logs > -np.inf).all():
            refuse_zero_row(int(named[np.argmin(logs)]))
        good = certain(found) if found.has_raised else None
        if good is not None and not good.all():
            lost, kept = np.flatnonzero(~good), np.flatnonzero(good)
            more = trained.wide(circuit_of(trained), some.rows(lost), own[lost], named[lost])
            total += more[0]
            counts.add_nodes(more[1])
            if not len(kept):
                continue
            own, logs = own[kept], logs[kept]
            found = up(levels, observed(trained.circuit, levels, some.rows(kept)), work)
        count(found, _sent(own, found.values), counts, work)
        total += float(own @ logs)
    return total, counts


def mean_log_likelihood(trained: Trained, evidence: Evidence, weights: Any) -> float:
    """The weighted mean of the log-likelihoods of rows."""
    levels, total = trained.levels, 0.0
    work = workspace(levels)
    for rows, some in _parts(levels, evidence):
        atoms = observed(trained.circuit, levels, some)
        found = up(levels, atoms, work, values_only=True)
        logs = to_numpy(found.log_roots).reshape(-1)
        if found.has_raised:
            lost = np.flatnonzero(~certain(up(levels, atoms, work)))
            logs[lost] = log_values(circuit_of(trained), some.rows(lost))[0][:, 0]
        total += float(weights[rows] @ logs)
    return total / float(weights.sum())


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows to learn from: what they say, their weights, and their numbers in the data."""

    evidence: Evidence
    weights: Any
    numbers: Any


def epochs(
    trained: Trained,
    data: Rows,
    n: int,
    size: int,
    steps: tuple[float, float],
    beta: float,
    generator: np.random.Generator,
) -> Iterator[tuple[Trained, float]]:
    """The circuit after every pass over the data, n of them, and the mean log-likelihood in it.

    Rows come in random order, `size` at a time. Steps go evenly from the first to the last. `beta`
    is what sums get in advance for all of the data.
    """
    n_rows = data.evidence.n_rows
    per_pass = -(-n_rows // size)
    every = np.linspace(*steps, n * per_pass).tolist()
    sent = sent_data(trained, data, size)
    for epoch in range(n):
        order = np.arange(n_rows) if size >= n_rows else generator.permutation(n_rows)
        total = 0.0
        for i in range(per_pass):
            rows = order[i * size : (i + 1) * size]
            own, step = beta * len(rows) / n_rows, every[epoch * per_pass + i]
            done = None if sent is None else whole_step(trained, sent, rows, own, step)
            if done is None:
                part = data.evidence if per_pass == 1 else data.evidence.rows(rows)
                found, counts = batch_counts(trained, part, data.weights[rows], data.numbers[rows])
                done = stepped(trained, counts, own, step), found
            trained = done[0]
            total += done[1]
        yield trained, total / float(data.weights.sum())


@dataclass(frozen=True, eq=False)
class Sent:
    """Data on a card.

    Attributes
    ----------
    states : int tensor of shape (leaves, rows)
    weights : tensor of shape (rows,)
    captured : dict
        Steps that were made more than once.
    """

    states: Any
    weights: Any
    captured: dict[Any, Captured]


def sent_data(trained: Trained, data: Rows, size: int) -> Sent | None:
    """The data where the weights are; None if that is no card, or there is no room for them."""
    levels = trained.levels
    if isinstance(levels, Levels) or not levels.is_remote or chunk_rows(levels) < size:
        return None
    like, (n_rows, n_leaves) = levels.like, data.evidence.values.shape
    held = levels.n_units + levels.host.n_products
    if not fits(like, 4 * n_rows * n_leaves + 4 * like.element_size() * held * size, TRAINED_SHARE):
        return None
    step = max(1, 2**24 // n_leaves)
    parts = [
        observed(trained.circuit, levels, data.evidence.rows(slice(i, i + step))).values.states
        for i in range(0, n_rows, step)
    ]
    _ = levels.last_entries  # all levels with other weights share it
    xp = namespace(like)
    states = xp.concat([xp.astype(part, xp.int32) for part in parts], axis=1)
    return Sent(states, _sent(data.weights, like), {})


def whole_step(
    trained: Trained, sent: Sent, rows: Any, beta: float, step: float
) -> tuple[Trained, float] | None:
    """One step of EM on a card, launched as a whole: the circuit, and the sum of log-likelihoods.

    None if some values left the range of plain numbers, or a row is impossible.
    """
    levels: Any = trained.levels
    ops, like = operations(levels), levels.like
    numbers = [(s.weights for s in level.stacks) for level in levels.levels]
    stacks = [weights for level in numbers for weights in level]
    edges = [level.edges.weights for level in levels.levels]
    chosen = as_like(rows, sent.states)
    states = sent.states.index_select(1, chosen).to(levels.bases.dtype)
    given = (states, sent.weights.index_select(0, chosen), *as_like(np.array([beta, step]), like))

    def unflattened(flat: Any) -> TensorLevels:
        every, found = iter(flat), []
        for level in levels.levels:
            found.append([next(every) for _ in level.stacks])
        return ops.renumbered(levels, [(own, next(every)) for own in found], trained.floor)

    def run(states: Any, weights: Any, beta: Any, step: Any, *flat: Any) -> tuple[Any, None]:
        now = unflattened(flat)
        found = up(now, Atoms(States(states, levels.n_atoms)))
        counts = EdgeCounts(now)
        below = count(found, weights, counts)
        logs = found.log_roots.reshape(-1)
        good = ((logs - logs == 0) & below.trusted).all()
        after = stepped(replace(trained, levels=now), counts, beta, step).levels
        return (
            weights.to(logs.dtype) @ logs,
            good,
            *(s.weights for level in after.levels for s in level.stacks),
            *(level.edges.weights for level in after.levels),
        ), None

    key = (len(rows), beta > 0)
    found, _ = replayed(sent.captured, key, (trained.circuit,), run, (*given, *stacks, *edges))
    total, good, *flat = found
    total, good = to_numpy(namespace(total).stack([total, good.to(total.dtype)])).tolist()
    if not good:
        return None
    return replace(trained, levels=unflattened(flat)), total


def _parts(levels: AnyLevels, evidence: Evidence) -> Iterator[tuple[slice, Evidence]]:
    """The rows that are worked on at once."""
    n = evidence.n_rows
    for rows in chunks(levels, n):
        yield rows, evidence if rows.stop - rows.start == n else evidence.rows(rows)


def _sent(weights: Any, like: Any) -> Any:
    """The weights of rows where values are."""
    sent = as_like(np.array(weights), like)
    return sent if is_numpy(namespace(like)) else sent.to(like.dtype)


def refuse_zero_row(number: int) -> None:
    """Raise because a row of the data has probability zero."""
    raise DataError(
        f"Row {number} of the data has probability zero "
        "under the circuit, whatever its weights: zeros stay zero in EM. Start from a circuit "
        "with larger support, or drop the row."
    )


def stepped(trained: Trained, counts: EdgeCounts, beta: Any, step: Any) -> Trained:
    """The circuit with its weights moved towards the shares of counts.

    What is given in advance and the step are numbers, or tensors without axes.
    """
    ops = operations(trained.levels)
    every: Any = trained.levels.levels
    numbers: Numbers = []
    for level, (stacks, edges) in zip(every, counts.by_level(), strict=True):
        moved = [
            _moved(stack.weights, found, _row_sums, beta, step, trained.floor)
            for stack, found in zip(level.stacks, stacks, strict=True)
        ]

        def sums(terms: Any, level: Any = level) -> Any:
            return ops.unit_sums(level, terms)

        numbers.append((moved, _moved(level.edges.weights, edges, sums, beta, step, trained.floor)))
    levels = ops.renumbered(trained.levels, numbers, trained.floor)
    return replace(trained, levels=levels)


def _row_sums(terms: Any) -> Any:
    return terms.sum(axis=2)[..., None]


def _moved(old: Any, counts: Any, sums: Any, beta: Any, step: Any, floor: float) -> Any:
    """Weights moved towards shares of counts; those of units without any stay."""
    xp = namespace(old)
    alive = xp.astype(old > 0, old.dtype)
    if not isinstance(beta, float) or beta > 0:
        counts = counts + beta * alive / sums(alive).clip(min=1.0)
    total = sums(counts)
    # where there is nothing to divide by, one does for what is not used
    shares = xp.where(total > 0, counts / xp.where(total > 0, total, xp.ones_like(total)), old)
    moved = shares if isinstance(step, float) and step == 1 else old + step * (shares - old)
    return moved.clip(min=floor) * alive


def circuit_of(trained: Trained) -> Circuit:
    """The circuit with the weights of now, on the host, every unit summing to one."""
    every: Any = trained.levels.levels
    numbers = [([s.weights for s in level.stacks], level.edges.weights) for level in every]
    found = by_node(trained.levels.host, numbers)
    blocks = tuple(map(_refilled, trained.circuit.blocks, found))
    circuit = trained.circuit
    return Circuit(circuit.vtree, blocks, circuit.names, circuit.states)


def _refilled(block: Any, numbers: Any) -> Any:
    """The block with other numbers, as shares in double precision."""
    if numbers is None:
        return block
    numbers = numbers.astype(np.float64)
    if not sparse.issparse(block.numbers):
        total = numbers.sum(axis=1, keepdims=True)
        return block.with_numbers(numbers / np.where(total > 0, total, 1.0))
    starts = block.matrix.indptr
    units = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return block.refilled(numbers / np.bincount(units, numbers, len(starts) - 1)[units])
