"""Likelihoods of rows by one pass up over the levels of a circuit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from expectedkernels.arrays import to_numpy
from expectedkernels.circuits.base import BlockCircuit
from expectedkernels.circuits.evidence import Evidence
from expectedkernels.circuits.observed import chunks, levels_of, observed
from expectedkernels.engine.levels import Levels
from expectedkernels.engine.on_tensors import raised_mark
from expectedkernels.engine.passes import (
    AnyLevels,
    Atoms,
    Up,
    chunk_rows,
    down,
    up,
    workspace,
)
from expectedkernels.engine.replay import replayed_pass
from expectedkernels.engine.tensors import States

ENTRY = 5e-10
"""Seconds that one entry (of a unit, a product, or an edge) of one row takes by levels."""
REPEATED = 4.0
"""How much longer an entry takes if it is shared by all rows that look alike at a node."""
LEVEL = 2e-5
"""Seconds that one level takes, however few its entries are."""
IN_RANGE = 1.5e-8
"""Seconds that keeping a value in range takes."""
NODE, NODE_ROW = 6e-5, 1e-8
"""Seconds that finding and using the patterns of rows takes at a node, and of every row."""


def by_rows(circuit: BlockCircuit, evidence: Evidence | None) -> bool:
    """Whether a pass over levels, row by row, is the cheapest way to likelihoods.

    The other way works on the patterns of rows at every node, which is better for many rows that
    look alike. It is only considered where the time it takes in any case is not decisive.
    """
    levels = levels_of(circuit)
    if levels is None:
        return False
    if evidence is None or not isinstance(levels, Levels):
        return True
    n = evidence.n_rows
    n_chunks = -(-n // chunk_rows(levels, values_only=True))
    cost = ENTRY * n * levels.n_entries + LEVEL * n_chunks * len(levels.levels)
    real = None in circuit.cardinalities
    cost += IN_RANGE * n * (levels.n_units + levels.n_atoms if real else levels.n_watched)
    other = circuit.vtree.n_nodes * (NODE + NODE_ROW * n)
    if cost <= other:
        return True
    counts = np.asarray(evidence.patterns(circuit.vtree).count)
    return cost <= other + REPEATED * ENTRY * float(counts @ levels.entries)


def level_logs(
    circuit: BlockCircuit, evidence: Evidence | None, max_bytes: float
) -> tuple[Any, Any]:
    """The logs of the values of the roots, (rows, roots), and the rows where they are not right."""
    levels: Any = levels_of(circuit)
    host = circuit.host
    n = 1 if evidence is None else evidence.n_rows
    parts, lost = [], []
    work = workspace(levels)
    for rows in chunks(levels, n, max_bytes, values_only=True):
        some = evidence if evidence is None or rows.stop - rows.start == n else evidence.rows(rows)
        atoms = observed(host, levels, some)
        roots, raised = _root_logs(levels, atoms, work)
        parts.append(roots.reshape(circuit.n_roots, -1).T)
        if raised:
            lost.append(rows.start + np.flatnonzero(~certain(up(levels, atoms, work))))
    logs = parts[0] if len(parts) == 1 else circuit.xp.concat(parts)
    return logs, np.concatenate(lost) if lost else ()


def _root_logs(levels: AnyLevels, atoms: Atoms, work: Any) -> tuple[Any, bool]:
    """The logs of the values of the roots, and whether a value was raised on the way."""
    if isinstance(levels, Levels) or not isinstance(atoms.values, States):
        found = up(levels, atoms, work, values_only=True)
        return found.log_roots, found.has_raised

    def run(states: Any) -> tuple[Any, Any]:
        found = up(levels, Atoms(replace(atoms.values, states=states)), work, values_only=True)
        return found.log_roots, raised_mark(found)

    logs, mark = replayed_pass(levels, "likelihoods", atoms.values.states, run)
    return logs, mark is not None and bool(mark)


def certain(found: Up) -> Any:
    """Which rows are right although small values were raised: little flows through these."""
    values = found.values[found.levels.roots]
    if len(values) > 1:
        return np.zeros(values.shape[1:] or 1, dtype=np.bool_)
    # a sum is zero only if all its terms are
    return np.atleast_1d(to_numpy(down(found).trusted | (values[0] == 0)))
