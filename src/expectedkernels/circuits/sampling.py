"""From the root down: samples, and most probable completions."""

from __future__ import annotations

from typing import Any

import numpy as np

from expectedkernels.arrays import as_generator
from expectedkernels.circuits.base import BlockCircuit
from expectedkernels.circuits.choices import level_map, level_samples
from expectedkernels.circuits.determinism import deterministic
from expectedkernels.circuits.evidence import as_evidence, is_batch
from expectedkernels.circuits.queries import refuse_signed, require_possible
from expectedkernels.circuits.sides import check_single_root
from expectedkernels.errors import DataError, PropertyError


def sample(circuit: BlockCircuit, n: int, rng: Any = None, evidence: Any = None) -> Any:
    """See `Circuit.sample`."""
    if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 0:
        raise DataError(f"The number of samples must be a non-negative int. Got {n!r} instead.")
    check_single_root(circuit, "Sampling")
    circuit = circuit.to("numpy")
    refuse_signed(circuit, "Sampling")
    generator = as_generator(rng)
    read = None if evidence is None else as_evidence(evidence, circuit.schema)
    n_rows = 1 if read is None else read.n_rows
    drawn = np.empty((n_rows * n, circuit.n_variables))
    if n == 0:
        require_possible(circuit, read)
    elif n_rows:
        level_samples(circuit, read, generator, n, drawn)
    return drawn.reshape(n_rows, n, circuit.n_variables) if is_batch(evidence) else drawn


def most_probable(circuit: BlockCircuit, X: Any) -> Any:
    """See `Circuit.map`."""
    check_single_root(circuit, "MAP")
    circuit = circuit.to("numpy")
    refuse_signed(circuit, "MAP")
    verdict = deterministic(circuit)
    if not verdict:
        raise PropertyError(
            "Most probable completions need a deterministic circuit (for others the problem is "
            f"NP-hard). This one is not: {verdict.reason}."
        )
    read = as_evidence(X, circuit.schema)
    if read.n_rows == 0:
        return np.empty((0, circuit.n_variables))
    completed = level_map(circuit, read)
    return completed if is_batch(X) else completed[0]
