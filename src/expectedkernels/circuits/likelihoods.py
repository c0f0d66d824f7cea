"""Likelihoods of rows by one pass up over the levels of a circuit."""

from __future__ import annotations

from typing import Any

import numpy as np

from expectedkernels.circuits.base import BlockCircuit
from expectedkernels.circuits.evidence import Evidence
from expectedkernels.circuits.observed import chunks, has_levels, observed
from expectedkernels.engine.passes import Up, Workspace, chunk_rows, down, up

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
    if not has_levels(circuit):
        return False
    if evidence is None:
        return True
    n = evidence.n_rows
    levels = circuit.levels
    n_chunks = -(-n // chunk_rows(levels, values_only=True))
    cost = ENTRY * n * levels.n_entries + LEVEL * n_chunks * len(levels.levels)
    real = None in circuit.cardinalities
    cost += IN_RANGE * n * (levels.n_units + levels.n_atoms if real else levels.n_watched)
    other = circuit.vtree.n_nodes * (NODE + NODE_ROW * n)
    if cost <= other:
        return True
    counts = np.asarray(evidence.patterns(circuit.vtree).count)
    return cost <= other + REPEATED * ENTRY * float(counts @ levels.entries)


def level_logs(circuit: BlockCircuit, evidence: Evidence | None, max_bytes: float) -> Any:
    """The logs of the values of the roots, (rows, roots), NaN where logs are needed throughout."""
    n = 1 if evidence is None else evidence.n_rows
    logs = np.empty((n, circuit.n_roots))
    work = Workspace()
    for rows in chunks(circuit, n, max_bytes, values_only=True):
        some = evidence if evidence is None or rows.stop - rows.start == n else evidence.rows(rows)
        atoms = observed(circuit, some)
        found = up(circuit.levels, atoms, work, values_only=True)
        logs[rows] = found.log_roots.T
        if found.has_raised:
            found = up(circuit.levels, atoms, work)
            logs[rows][~certain(found)] = np.nan
    return logs


def certain(found: Up) -> Any:
    """Which rows are right although small values were raised: little flows through these."""
    values = found.values[found.levels.roots]
    if len(values) > 1:
        return np.zeros(values.shape[1:] or 1, dtype=np.bool_)
    # a sum is zero only if all its terms are
    return np.atleast_1d(down(found).trusted | (values[0] == 0))
