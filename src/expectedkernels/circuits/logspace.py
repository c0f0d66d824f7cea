"""Passes in logarithms, for rows whose values leave the range of doubles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from expectedkernels.arrays import spans
from expectedkernels.circuits.inputs import log_sizes
from expectedkernels.data.evidence import Evidence
from expectedkernels.engine.blocks import from_leaves
from expectedkernels.engine.layers import Edges, Levels
from expectedkernels.engine.passes import (
    Semiring,
    chunk_rows,
    down_over,
    lifted,
    products_over,
    up_over,
)
from expectedkernels.vtree import Vtree

if TYPE_CHECKING:
    from expectedkernels.circuits.circuit import Circuit

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


def _sums(edges: Edges, weights: Any, products: Any) -> Any:
    terms = products[edges.products]
    return run_shares(terms if weights is None else terms + weights[:, None], edges.starts)[1]


LOGS = Semiring(lambda shape, ones: np.full(shape, 0.0 if ones else -inf), np.add, _sums, log_sizes)
"""Logarithms of values, of absolute weights."""


@dataclass(frozen=True, eq=False)
class LogValues:
    """The logarithms of what a pass up finds.

    Attributes
    ----------
    levels : Levels
    weights : list of arrays
        Logs of the weights of the edges of every level.
    atoms : array of shape (atoms, rows)
    values : array of shape (units, rows)
    """

    levels: Levels
    weights: list[Any]
    atoms: Any
    values: Any

    @property
    def possible(self) -> Any:
        """Which rows have a positive value."""
        return self.values[-1] > -inf

    def shares(self, number: int) -> Any:
        """The shares of a level's edges in their units, (edges, rows)."""
        edges = self.levels.levels[number].all_edges
        products = products_over(LOGS, self.levels, number, self.values, self.atoms)
        return run_shares(products[edges.products] + self.weights[number][:, None], edges.starts)[0]

    def derivatives(self) -> Any:
        """The logs of the derivatives of the (only) root in all atoms, (atoms, rows)."""
        return down_over(LOGS, self.levels, self.weights, self.values)


def state_values(circuit: Circuit, rows: Any) -> Any:
    """One for every state that a row of values allows, zero for others, (atoms, rows) or (atoms,).

    Atoms of real variables have numbers without a meaning.
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
    logs = np.empty((circuit.levels.n_atoms, evidence.n_rows))
    if evidence.values is not None and set(circuit.cardinalities) != {None}:
        logs = log_sizes(state_values(circuit, evidence.values).reshape(logs.shape))
    for variable, first, stop in circuit.atom_slices:
        column = evidence.column_of_values(variable)
        if column is not None:
            block = circuit.input(variable)
            found = block.log_modes(column) if modes else block.log_weights(column)
            logs[first:stop] = found[:, column.codes]
    return logs


def log_up(circuit: Circuit, evidence: Evidence | None) -> LogValues:
    """The logs of all units given rows of evidence (one row without any).

    They are those of the circuit with the absolute values of its weights.
    """
    levels = circuit.levels
    weights = circuit.remembered("log weights", lambda: lifted(LOGS, levels))
    atoms = np.zeros((levels.n_atoms, 1)) if evidence is None else atom_logs(circuit, evidence)
    return LogValues(levels, weights, atoms, up_over(LOGS, levels, weights, atoms))


def log_ups(circuit: Circuit, evidence: Evidence | None) -> Iterator[tuple[slice, LogValues]]:
    """Rows in chunks that fit into memory, with what passes up find."""
    n = 1 if evidence is None else evidence.n_rows
    step = max(1, chunk_rows(circuit.levels) // COPIES)
    for rows in spans(n, step):
        yield rows, log_up(circuit, None if evidence is None else evidence.rows(rows))


def node_logs(circuit: Circuit, evidence: Evidence | None) -> list[Any]:
    """For every vtree node the logs of its units, given one row."""
    found = log_up(circuit, evidence).values[:, 0]
    starts = circuit.levels.unit_starts.tolist()
    return [found[at : at + n] for at, n in zip(starts, circuit.operand.units, strict=True)]


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

    found = from_leaves(vtree, lambda node, _: scaled(node, logs[node]), inner)
    return [block for block, _ in found], found[-1][1]
