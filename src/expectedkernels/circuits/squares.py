"""Squares of circuits: densities with negative weights, which are known to be no less than zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from expectedkernels.circuits.base import BlockCircuit
from expectedkernels.circuits.evidence import Evidence, as_evidence
from expectedkernels.circuits.queries import log_values, negative_node
from expectedkernels.errors import EvidenceError, PropertyError
from expectedkernels.verdict import Verdict

CHUNK = 2**14
"""How many rows are asked at once, at most."""


def nonnegative(circuit: BlockCircuit) -> Verdict:
    """Whether a circuit is known to have no negative values, with the reason.

    It has none if it has no negative weights, or if it was made by `square`, or from such a square
    by conditioning, marginalising, renaming, moving, copying or storing it. Of other circuits it is
    not known: that is hard to decide.

    Parameters
    ----------
    circuit : Circuit

    Returns
    -------
    Verdict

    Examples
    --------
    >>> import expectedkernels as ek
    >>> f = ek.factorized([[1.0, -2.0]], normalized=False)
    >>> bool(ek.algebra.nonnegative(f)), bool(ek.algebra.nonnegative(ek.algebra.square(f)))
    (False, True)
    """
    if circuit.is_known_nonnegative:
        return Verdict(True, "it is the square of a circuit")
    node = negative_node(circuit.host)
    if node is None:
        return Verdict(True, "no weight is negative")
    return Verdict(False, f"there is a negative weight at vtree node {node}, and it is no square")


def conditional_samples(
    circuit: BlockCircuit, evidence: Evidence | None, n: int, rng: Any, out: Any
) -> None:
    """Draw variable by variable, each given those before it; n rows for every row of evidence."""
    weights = _statements(circuit, evidence, "Sampling")
    for start in range(0, len(out), CHUNK):
        rows = np.arange(start, min(len(out), start + CHUNK))
        given = [w[rows // n] for w in weights]
        for v, allowed in enumerate(given):
            chances = _chances(circuit, given, v)
            noise = rng.random((len(rows), 1))
            state = (np.cumsum(chances, axis=1) <= noise).sum(axis=1)
            # rounding may leave the last sum below one, and a state that is impossible after it
            last = allowed.shape[1] - 1 - np.argmax(chances[:, ::-1] > 0, axis=1)
            out[rows, v] = np.minimum(state, last)
            given[v] = np.eye(allowed.shape[1])[out[rows, v].astype(np.intp)]


def conditional_marginals(circuit: BlockCircuit, evidence: Evidence | None) -> list[Any]:
    """The probabilities of the states of every variable, (rows, cardinality)."""
    weights = _statements(circuit, evidence, "A list of marginals")
    return [_chances(circuit, weights, v) for v in range(len(weights))]


def _statements(circuit: BlockCircuit, evidence: Evidence | None, what: str) -> list[Any]:
    """For every variable what rows allow it to be, (rows, cardinality)."""
    found = []
    for v, cardinality in enumerate(circuit.cardinalities):
        if cardinality is None:
            raise PropertyError(
                f"{what} of a square goes through the states of every variable. Variable {v} is "
                "real."
            )
        column = None if evidence is None else evidence.column(v)
        known = np.ones((1, cardinality)) if column is None else column.weights[column.codes]
        found.append(known)
    return found


def _chances(circuit: BlockCircuit, weights: list[Any], variable: int) -> Any:
    """The probabilities of the states of a variable, given what rows allow all of them to be."""
    n, cardinality = weights[variable].shape
    given = [np.repeat(w, cardinality, axis=0) for w in weights]
    given[variable] = given[variable] * np.tile(np.eye(cardinality), (n, 1))
    logs, sign = log_values(circuit, as_evidence(given, circuit.schema))
    logs = logs[:, 0].reshape(n, cardinality)
    if sign is not None:  # of what cancels, rounding may be left
        logs = np.where(np.reshape(sign[:, 0], (n, cardinality)) > 0, logs, -np.inf)
    top = logs.max(axis=1, keepdims=True)
    if not np.isfinite(top).all():
        raise EvidenceError(
            f"Row {int(np.argmin(np.isfinite(top[:, 0])))} of the evidence has probability zero."
        )
    values = np.exp(logs - top)
    return values / values.sum(axis=1, keepdims=True)
