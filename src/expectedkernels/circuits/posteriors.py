"""Marginals by one pass up and one pass down over the levels of a circuit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from expectedkernels.arrays import as_like, to_numpy
from expectedkernels.circuits.base import BlockCircuit, shortcut
from expectedkernels.circuits.evidence import Column, Evidence, as_evidence, is_batch
from expectedkernels.circuits.marginals import Marginals
from expectedkernels.circuits.observed import chunks, levels_of, observed
from expectedkernels.circuits.queries import (
    log_values,
    refuse_impossible,
    refuse_signed,
    require_possible,
)
from expectedkernels.circuits.sides import check_single_root
from expectedkernels.circuits.squares import conditional_marginals
from expectedkernels.circuits.wide import as_plain, sums
from expectedkernels.circuits.wide_passes import wide_ups
from expectedkernels.engine.levels import Levels
from expectedkernels.engine.on_tensors import normalised
from expectedkernels.engine.passes import AnyLevels, Atoms, down, operations, up, workspace
from expectedkernels.engine.replay import replayed_pass
from expectedkernels.engine.tensors import States, TensorLevels
from expectedkernels.errors import PropertyError


def marginals(circuit: BlockCircuit, evidence: Any = None) -> Marginals:
    """See `Circuit.marginals`."""
    check_single_root(circuit, "Marginals")
    host = circuit.host
    read = None if evidence is None else as_evidence(evidence, circuit.schema)
    if read is not None and read.n_rows == 0:
        empty = [np.empty((0, 2 if card is None else card)) for card in circuit.cardinalities]
        return Marginals(empty, circuit.schema)
    result = shortcut(circuit, "marginals", read)
    if circuit.has_gradients:
        result = _with_gradients(circuit, read)
    elif result is None and circuit.is_known_nonnegative:
        result = conditional_marginals(host, read)
    elif result is None:
        refuse_signed(host, "A list of marginals")
        result = _by_variable(host, read, atom_shares(circuit, read))
    if not is_batch(evidence):
        result = [array[0] for array in result]
    return Marginals(result, circuit.schema)


def _with_gradients(circuit: BlockCircuit, evidence: Evidence | None) -> list[Any]:
    """The marginals of all variables as tensors: likelihoods of all their states, normalised."""
    domains = circuit.cardinalities
    if None in domains:
        raise PropertyError(
            "Marginals of real variables do not follow gradients, and they are asked for by "
            "numbers of this circuit. Give circuit.to('numpy'), which has none."
        )
    given = evidence or Evidence(domains, np.full((1, len(domains)), np.nan))
    require_possible(circuit, given)
    return [states_with_gradients(circuit, given, v) for v in range(len(domains))]


def states_with_gradients(circuit: BlockCircuit, evidence: Evidence, variable: int) -> Any:
    """The marginals of one variable as a tensor, (rows, states)."""
    weights = evidence.state_weights([variable])[0]
    row, state = np.nonzero(weights)
    own, alone = weights[row], weights[row] * np.eye(weights.shape[1])[state]
    whole = log_values(circuit, evidence)[0][:, 0]
    logs = _logs_with(circuit, evidence.rows(row), variable, alone)
    shares = (logs - whole[as_like(row, logs)]).exp()
    zero = np.flatnonzero(to_numpy(logs) == -np.inf)
    if len(zero):
        # a log of zero has no derivative, that of a sum with other states has
        more = _logs_with(circuit, evidence.rows(row[zero]), variable, (own + alone)[zero])
        risen = (more - whole[as_like(row[zero], logs)]).exp()
        shares = shares.index_put((as_like(zero, logs),), risen - risen.detach())
    places = as_like(row * weights.shape[1] + state, logs)
    every = logs.new_zeros(weights.size).index_put((places,), shares)
    return every.reshape(weights.shape)


def _logs_with(circuit: BlockCircuit, cases: Evidence, variable: int, weights: Any) -> Any:
    """The logs of the values of rows with other weights of the states of one variable."""
    columns = [cases.column(v) for v in range(circuit.n_variables)]
    columns[variable] = Column(weights, None, np.arange(len(weights)))
    return log_values(circuit, Evidence(circuit.cardinalities, columns=columns))[0][:, 0]


def _by_variable(circuit: BlockCircuit, evidence: Evidence | None, shares: Any) -> list[Any]:
    """The marginals of all variables, given the posterior probabilities of atoms, (rows, atoms)."""
    result: list[Any] = [None] * circuit.n_variables
    for variable, first, stop in circuit.atom_slices:
        block = circuit.input(variable)
        result[variable] = block.marginal(shares[:, first:stop], evidence, variable)
    return result


def atom_shares(circuit: BlockCircuit, evidence: Evidence | None) -> Any:
    """The posterior probabilities of all atoms, (rows, atoms)."""
    levels = levels_of(circuit)
    circuit = circuit.host
    if levels is None:
        return _wide_shares(circuit, evidence)
    n = 1 if evidence is None else evidence.n_rows
    shares = np.zeros((n, levels.n_atoms))
    trusted, possible = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    work = workspace(levels)
    for rows in chunks(levels, n):
        some = evidence if evidence is None or rows.stop - rows.start == n else evidence.rows(rows)
        found = _terms(levels, observed(circuit, levels, some), work)
        possible[rows] = to_numpy(found[2])
        if possible[rows].all():
            shares[rows], trusted[rows] = to_numpy(found[0]), to_numpy(found[1])
    refuse_impossible(possible, evidence is not None)
    if isinstance(levels, Levels):
        starts = levels.levels[0].product_starts
        with np.errstate(invalid="ignore", over="ignore"):
            totals = np.add.reduceat(shares, starts[:-1], axis=1)
            shares /= totals.take(circuit.leaf_of_atom, axis=1)
    if not trusted.all():
        lost = np.flatnonzero(~trusted)
        shares[lost] = _wide_shares(circuit, None if evidence is None else evidence.rows(lost))
    return shares


def _terms(levels: AnyLevels, atoms: Atoms, work: Any) -> tuple[Any, Any, Any]:
    """The flows through atoms, (rows, atoms), rows where they are right, and possible ones.

    In tensors those of a variable add up to one.
    """
    ops = operations(levels)

    def run(states: Any = None) -> tuple[Any, Any, Any]:
        given = atoms if states is None else Atoms(replace(atoms.values, states=states))
        found = up(levels, given, work)
        possible = found.possible
        if isinstance(levels, Levels) and not possible.all():
            return None, None, possible
        below = down(found, work=work)
        with np.errstate(invalid="ignore", over="ignore"):  # rows that are not trusted
            terms = ops.times_atoms(found, below.atoms)
        if isinstance(levels, TensorLevels):
            terms = normalised(levels, terms)
        return terms.T, below.trusted, possible

    if isinstance(levels, Levels) or not isinstance(atoms.values, States):
        return run()
    shares, trusted, possible = replayed_pass(levels, "marginals", atoms.values.states, run)
    return shares, trusted, possible


def _wide_shares(circuit: BlockCircuit, evidence: Evidence | None) -> Any:
    """The same, for values of any range."""
    shares = np.empty((1 if evidence is None else evidence.n_rows, circuit.levels.n_atoms))
    possible = np.ones(len(shares), dtype=np.bool_)
    for rows, found in wide_ups(circuit, evidence):
        possible[rows] = found.possible
        terms = found.atoms * found.derivatives()
        totals = sums(terms, circuit.levels.levels[0].product_starts)
        shares[rows] = as_plain(terms / totals[circuit.leaf_of_atom]).T
    refuse_impossible(possible, evidence is not None)
    return shares
