"""Values at points with one variable set to each of its states, for all variables at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from expectedkernels.arrays import as_like, to_numpy
from expectedkernels.circuits.base import BlockCircuit
from expectedkernels.circuits.evidence import Evidence, as_evidence
from expectedkernels.circuits.frames import is_frame
from expectedkernels.circuits.numbers import as_floats
from expectedkernels.circuits.observed import chunks, levels_of, observed
from expectedkernels.circuits.queries import site_logs
from expectedkernels.circuits.wide import logs_of
from expectedkernels.circuits.wide_passes import wide_ups
from expectedkernels.engine.passes import down, operations, up, workspace
from expectedkernels.errors import EvidenceError


def all_site_logs(circuit: BlockCircuit, X: Any, variables: Sequence[Any] | None) -> list[Any]:
    """See `Circuit.all_site_logs`."""
    every = range(circuit.n_variables) if variables is None else variables
    chosen = [circuit.schema.variable(v) for v in every]
    for variable in chosen:
        if circuit.cardinalities[variable] is None:
            raise EvidenceError(
                "Only discrete variables are set to each of their states. "
                f"Variable {variable} is real."
            )
    levels = levels_of(circuit)
    signed = circuit.is_on_host and circuit.levels.signed
    if circuit.n_roots > 1 or signed or (levels is None and not circuit.is_on_host):
        return [site_logs(circuit, X, v) for v in chosen]
    points = circuit.schema.read_frame(X) if is_frame(X) else as_floats(X)
    evidence = as_evidence(points, circuit.schema, single=False)
    found = _atom_logs(circuit, evidence)
    place = {variable: slice(first, stop) for variable, first, stop in circuit.host.atom_slices}
    return [found[:, place[v]] for v in chosen]


def _atom_logs(circuit: BlockCircuit, evidence: Evidence) -> Any:
    """The log of the circuit with every atom set in turn, (rows, atoms)."""
    levels = levels_of(circuit)
    if levels is None:
        return _wide_atom_logs(circuit, evidence)
    xp, host = circuit.xp, circuit.host
    parts = [xp.zeros((0, levels.n_atoms))] if evidence.n_rows == 0 else []
    trusted = np.empty(evidence.n_rows, dtype=np.bool_)
    work = workspace(levels)
    for rows in chunks(levels, evidence.n_rows):
        found = up(levels, observed(host, levels, evidence.rows(rows)), work)
        below = down(found, exact=True, work=work)
        roots = found.log_roots[0]
        scale = xp.zeros_like(roots) if found.scale is None else found.scale[-1]
        with np.errstate(invalid="ignore"):
            logs = operations(levels).logs(below.atoms)
            logs += xp.where(roots > -np.inf, roots, scale)
        parts.append(logs.reshape(levels.n_atoms, -1).T)
        trusted[rows] = to_numpy(below.trusted)
    logs = parts[0] if len(parts) == 1 else xp.concat(parts)
    if not trusted.all():
        lost = np.flatnonzero(~trusted)
        again = _wide_atom_logs(host, evidence.rows(lost))
        logs[as_like(lost, logs)] = as_like(again, logs)
    return logs


def _wide_atom_logs(circuit: BlockCircuit, evidence: Evidence) -> Any:
    """The same, for values of any range."""
    logs = np.empty((evidence.n_rows, circuit.levels.n_atoms))
    for rows, found in wide_ups(circuit, evidence):
        logs[rows] = logs_of(found.derivatives()).T
    return logs
