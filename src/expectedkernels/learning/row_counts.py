"""Expected counts of few rows, by one pass up and one down over the levels of a circuit."""

from __future__ import annotations

from typing import Any

import numpy as np

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.evidence import Evidence
from expectedkernels.circuits.likelihoods import ENTRY
from expectedkernels.circuits.observed import chunks, levels_of, observed
from expectedkernels.engine.counts import EdgeCounts, count
from expectedkernels.engine.levels import weight_cost
from expectedkernels.engine.passes import up, workspace

PASSES = 4.0
"""How many times a likelihood the two passes and the counts take."""
NODE = 1.5e-4
"""Seconds that flows of patterns of rows take at every node, however few these are."""


def row_counts(circuit: Circuit, evidence: Evidence, weights: Any) -> tuple[float, Any] | None:
    """The log-likelihood of weighted rows, and the counts of all parameters by vtree node.

    None if patterns of rows are cheaper or plain numbers cannot tell, if there are real variables,
    or if a row has probability zero.
    """
    n = evidence.n_rows
    if PASSES * ENTRY * n * sum(map(_entries, circuit.blocks)) > NODE * circuit.vtree.n_nodes:
        return None
    levels = None if None in circuit.cardinalities else levels_of(circuit)
    if levels is None:
        return None
    total, counts, work = 0.0, EdgeCounts(levels), workspace(levels)
    for rows in chunks(levels, n):
        some = evidence if rows.stop - rows.start == n else evidence.rows(rows)
        found = up(levels, observed(circuit, levels, some), work)
        logs = np.atleast_1d(found.log_roots[0])
        if not (logs > -np.inf).all():
            return None
        below = count(found, weights[rows], counts, work)
        if not np.all(below.trusted):
            return None
        total += float(weights[rows] @ logs)
    return total, counts.by_node()


def _entries(block: Any) -> float:
    """What a block adds to `Levels.entries`, without levels."""
    return block.n_units + 2 * block.width + weight_cost(block.numbers)
