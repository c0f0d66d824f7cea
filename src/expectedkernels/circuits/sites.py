"""Values at points with one variable set to each of its states, for all variables at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from expectedkernels.circuits.base import BlockCircuit
from expectedkernels.circuits.evidence import Evidence, as_evidence
from expectedkernels.circuits.frames import is_frame
from expectedkernels.circuits.numbers import as_floats
from expectedkernels.circuits.observed import chunks, has_levels, observed
from expectedkernels.circuits.queries import site_logs
from expectedkernels.circuits.wide import logs_of
from expectedkernels.circuits.wide_passes import wide_ups
from expectedkernels.engine.passes import Workspace, down, up
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
    if circuit.n_roots > 1 or not circuit.is_on_host or circuit.levels.signed:
        return [site_logs(circuit, X, v) for v in chosen]
    points = circuit.schema.read_frame(X) if is_frame(X) else as_floats(X)
    evidence = as_evidence(points, circuit.schema, single=False)
    found = _atom_logs(circuit, evidence)
    place = {variable: slice(first, stop) for variable, first, stop in circuit.atom_slices}
    return [found[:, place[v]] for v in chosen]


def _atom_logs(circuit: BlockCircuit, evidence: Evidence) -> Any:
    """The log of the circuit with every atom set in turn, (rows, atoms)."""
    if not has_levels(circuit):
        return _wide_atom_logs(circuit, evidence)
    logs = np.empty((evidence.n_rows, circuit.levels.n_atoms))
    trusted = np.empty(evidence.n_rows, dtype=np.bool_)
    work = Workspace()
    for rows in chunks(circuit, evidence.n_rows):
        found = up(circuit.levels, observed(circuit, evidence.rows(rows)), work)
        below = down(found, exact=True, work=work)
        roots = found.log_roots[0]
        scale = np.zeros_like(roots) if found.scale is None else found.scale[-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            by_row = np.log(below.atoms) + np.where(roots > -np.inf, roots, scale)
        logs[rows], trusted[rows] = by_row.T, below.trusted
    if not trusted.all():
        lost = np.flatnonzero(~trusted)
        logs[lost] = _wide_atom_logs(circuit, evidence.rows(lost))
    return logs


def _wide_atom_logs(circuit: BlockCircuit, evidence: Evidence) -> Any:
    """The same, for values of any range."""
    logs = np.empty((evidence.n_rows, circuit.levels.n_atoms))
    for rows, found in wide_ups(circuit, evidence):
        logs[rows] = logs_of(found.derivatives()).T
    return logs
