"""Evidence as values of atoms: the states of discrete variables, the components of real ones."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

import numpy as np
from array_api_compat import is_torch_array

from expectedkernels.arrays import as_like
from expectedkernels.circuits.base import BlockCircuit
from expectedkernels.circuits.evidence import Column, Evidence
from expectedkernels.engine.passes import AnyLevels, Atoms, chunk_rows
from expectedkernels.engine.sending import tensor_levels
from expectedkernels.engine.tensors import States, TensorLevels

LEAST_ROOM = 30.0
"""With less room between the smallest weight and the smallest double, logs are better."""
LEAST_TENSOR_ROOM = {"float64": LEAST_ROOM, "float32": 20.0}
"""The same for tensors of either type."""


def levels_of(circuit: BlockCircuit) -> AnyLevels | None:
    """The levels that passes go over, where the circuit is; None if passes cannot answer.

    They can with weights that are not negative nor too small, in NumPy or in torch, if no
    gradients are asked for.
    """
    if circuit.is_on_host:
        levels: AnyLevels = circuit.levels
        return None if circuit.levels.signed or levels.room < LEAST_ROOM else levels
    like: Any = circuit.blocks[0].numbers
    kind = str(like.dtype).rpartition(".")[2]
    if not is_torch_array(like) or kind not in LEAST_TENSOR_ROOM or circuit.has_gradients:
        return None
    host = circuit.host
    if host.levels.signed:
        return None
    empty = circuit.xp.empty(0, dtype=like.dtype, device=like.device)
    levels = host.remembered(
        f"levels in {kind} at {like.device}", lambda: tensor_levels(host.levels, empty)
    )
    return None if levels.room < LEAST_TENSOR_ROOM[kind] else levels


def chunks(
    levels: AnyLevels,
    n_rows: int,
    max_bytes: float = inf,
    per_row: int = 1,
    values_only: bool = False,
) -> Iterator[slice]:
    """Rows that are worked on at once, all of about one size, with `per_row` answers each."""
    most = max(1, chunk_rows(levels, max_bytes, values_only) // per_row)
    step = max(1, -(-n_rows // max(1, -(-n_rows // most))))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def observed(circuit: BlockCircuit, levels: AnyLevels, evidence: Evidence | None) -> Atoms:
    """What rows of evidence say of all atoms of a circuit on the host, for passes over levels.

    One row gives arrays of one axis less in NumPy, but not in torch.
    """
    if isinstance(levels, TensorLevels):
        return _sent(circuit, levels, evidence)
    if evidence is None:
        return Atoms(np.ones(circuit.levels.n_atoms))
    if evidence.values is not None and None not in circuit.cardinalities:
        return Atoms(_states(circuit, evidence.values))
    return _general(circuit, evidence, levels.room)


def _sent(circuit: BlockCircuit, levels: TensorLevels, evidence: Evidence | None) -> Atoms:
    """The same in tensors: states as they are, anything else as the values of atoms."""
    like = levels.like
    real = None in circuit.cardinalities
    if evidence is None and real:
        return Atoms(like.new_ones((levels.n_atoms, 1)))
    if evidence is None:
        return Atoms(States(levels.leaf_states, levels.n_atoms))
    if evidence.values is not None and not real:
        return Atoms(States(_coded(levels, evidence.values), levels.n_atoms))
    found = _general(circuit, evidence, levels.room)
    values = as_like(found.values.reshape(levels.n_atoms, -1), like).to(like.dtype)
    if found.scale is None:
        return Atoms(values)
    raised = None
    if found.raised is not None:
        mask = np.zeros(found.values.shape, dtype=np.bool_)
        mask[found.raised] = True
        raised = as_like(mask.reshape(levels.n_atoms, -1), like)
    scale = as_like(found.scale.reshape(len(found.scale), -1), like)
    return Atoms(values, scale, found.low, raised)


def _coded(levels: TensorLevels, rows: Any) -> Any:
    """The state of every leaf's variable in every row, sent as they are and laid out there."""
    states = as_like(rows, levels.like).T.index_select(0, levels.leaf_variables)
    known = states.nan_to_num(-1.0).to(levels.bases.dtype)
    return known.where(known >= 0, levels.leaf_states)


def log_modes(circuit: BlockCircuit, evidence: Evidence) -> Any:
    """The logs of the largest values of all atoms: of a component not observed, its mode's."""
    if evidence.values is not None and None not in circuit.cardinalities:
        return np.where(_states(circuit, evidence.values) > 0, 0.0, -inf)
    logs = np.empty((circuit.levels.n_atoms, evidence.n_rows))
    for variable, first, stop in circuit.atom_slices:
        column = evidence.column(variable)
        logs[first:stop] = circuit.input(variable).log_modes(column)[:, column.codes]
    return logs[:, 0] if evidence.n_rows == 1 else logs


def _states(circuit: BlockCircuit, rows: Any) -> Any:
    """One for every state that a row of values allows, zero for others."""
    variable, state = circuit.atom_names
    if len(rows) == 1:
        x = rows[0].take(variable)
        return ((x == state) | (x != x)).astype(np.float64)
    x = rows.T.take(variable, axis=0)
    return ((x == state[:, None]) | (x != x)).astype(np.float64)


def _general(circuit: BlockCircuit, evidence: Evidence, room: float) -> Atoms:
    """Soft evidence and densities, relative to the largest of every variable and row."""
    level, n = circuit.levels.levels[0], evidence.n_rows
    values = np.empty((level.n_products, n))
    if evidence.values is not None and any(c is not None for c in circuit.cardinalities):
        values = _states(circuit, evidence.values).reshape(-1, n)
    scale, low = np.zeros((len(level.nodes), n)), np.zeros(len(level.nodes))
    raised = []
    for i, node in enumerate(level.nodes.tolist()):
        variable = int(circuit.vtree.variable[node])
        column = _column(evidence, variable)
        if column is None:
            continue
        first, stop = level.product_starts[i : i + 2].tolist()
        logs = circuit.input(variable).log_weights(column)[:, column.codes]
        top = logs.max(axis=0)
        scale[i] = np.where(top > -np.inf, top, 0.0)
        logs = logs - scale[i]
        small = np.nonzero((logs < -room) & (logs > -np.inf))
        if len(small[0]):
            logs[small] = -room
            raised.append((small[0] + first, small[1]))
        values[first:stop] = np.exp(logs)
        low[i] = logs.min(where=logs > -np.inf, initial=0.0)
    places: Any = tuple(map(np.concatenate, zip(*raised, strict=True))) or None
    hard = not scale.any() and not low.any()
    if n == 1:
        values, scale = values[:, 0], scale[:, 0]
        places = None if places is None else places[:1]
    return Atoms(values) if hard else Atoms(values, scale, low, places)


def _column(evidence: Evidence, variable: int) -> Column | None:
    """What rows say of a variable; None if that is a state, or any."""
    if evidence.values is None:
        return evidence.column(variable)
    if evidence.domains[variable] is not None:
        return None
    return Column(None, evidence.values[:, variable], slice(None))  # no need to tell equal ones
