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
from expectedkernels.engine.passes import (
    AnyLevels,
    operations,
    up,
    workspace,
)
from expectedkernels.engine.sending import tensor_levels
from expectedkernels.engine.tensors import TensorLevels, in_double
from expectedkernels.errors import CircuitError, DataError

SMALLEST = {"float64": 1e-30, "float32": 1e-15}
"""Shares that are not zero stay above this, by the type of numbers."""

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
    trained: Trained, evidence: Evidence, weights: Any, numbers: Any, counts: Any = None
) -> tuple[float, EdgeCounts]:
    """The weighted sum of the log-likelihoods of rows, and the expected counts of all weights.

    These are added to others, if there are some. Errors name rows by their `numbers`.
    """
    levels, total = trained.levels, 0.0
    counts = EdgeCounts(levels) if counts is None else counts
    if isinstance(levels, Levels) and levels.n_atoms > levels.n_units:
        # states that many are better looked up than written out
        total, by_node = trained.wide(circuit_of(trained), evidence, weights, numbers)
        counts.add_nodes(by_node)
        return total, counts
    work = workspace(levels)
    for rows, some in _parts(levels, evidence):
        found = up(levels, observed(trained.circuit, levels, some), work)
        own, named = weights[rows], numbers[rows]
        logs = to_numpy(found.log_roots).reshape(-1)
        if not (logs > -np.inf).all():
            refuse_zero_row(int(named[np.argmin(logs)]))
        good = certain(found) if found.has_raised else None
        if good is not None and not good.all():
            lost, kept = np.flatnonzero(~good), np.flatnonzero(good)
            total += _add_lost(trained, some.rows(lost), own[lost], named[lost], counts)
            if not len(kept):
                continue
            own, logs = own[kept], logs[kept]
            found = up(levels, observed(trained.circuit, levels, some.rows(kept)), work)
        count(found, sent_weights(own, found.values), counts, work)
        total += float(own @ logs)
    return total, counts


def _add_lost(
    trained: Trained, evidence: Evidence, weights: Any, numbers: Any, counts: EdgeCounts
) -> float:
    """Add the counts of rows that left the range; the weighted sum of their log-likelihoods."""
    levels = trained.levels
    if isinstance(levels, TensorLevels) and levels.is_single:
        double = replace(trained, levels=in_double(levels))
        total, found = batch_counts(double, evidence, weights, numbers)
        counts.add(found)
        return total
    total, by_node = trained.wide(circuit_of(trained), evidence, weights, numbers)
    counts.add_nodes(by_node)
    return total


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


def _parts(levels: AnyLevels, evidence: Evidence) -> Iterator[tuple[slice, Evidence]]:
    """The rows that are worked on at once."""
    n = evidence.n_rows
    for rows in chunks(levels, n):
        yield rows, evidence if rows.stop - rows.start == n else evidence.rows(rows)


def sent_weights(weights: Any, like: Any) -> Any:
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
        stacked = [
            moved(stack.weights, found, row_sums, beta, step, trained.floor)
            for stack, found in zip(level.stacks, stacks, strict=True)
        ]

        def sums(terms: Any, level: Any = level) -> Any:
            return ops.unit_sums(level, terms)

        numbers.append(
            (stacked, moved(level.edges.weights, edges, sums, beta, step, trained.floor))
        )
    levels = ops.renumbered(trained.levels, numbers, trained.floor)
    return replace(trained, levels=levels)


def row_sums(terms: Any) -> Any:
    """The sums over the last axis, which stays."""
    return terms.sum(axis=-1)[..., None]


def moved(old: Any, counts: Any, sums: Any, beta: Any, step: Any, floor: float) -> Any:
    """Weights moved towards shares of counts; those of units without any stay."""
    xp = namespace(old)
    alive = xp.astype(old > 0, old.dtype)
    if not isinstance(beta, float) or beta > 0:
        counts = counts + beta * alive / sums(alive).clip(min=1.0)
    total = sums(counts)
    # where there is nothing to divide by, one does for what is not used
    shares = xp.where(total > 0, counts / xp.where(total > 0, total, xp.ones_like(total)), old)
    found = shares if isinstance(step, float) and step == 1 else old + step * (shares - old)
    return found.clip(min=floor) * alive


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
