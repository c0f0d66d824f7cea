"""Rows with missing values as evidence on the circuit of a density.

Given what is observed, the kernel splits into a factor at the observed columns, which is known,
and the expectation over the others. So rows that agree in the states of what is
observed need one expectation only, whatever the exact values are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.evidence import Column, Evidence
from expectedkernels.circuits.inputs import Table
from expectedkernels.circuits.queries import log_values, refuse_signed
from expectedkernels.circuits.sides import CircuitSide
from expectedkernels.errors import EvidenceError
from expectedkernels.estimators.atoms import Columns
from expectedkernels.estimators.variables import NOT_A_STATE, Said, Variable


class Density:
    """A circuit and what its variables mean in the columns of data.

    Parameters
    ----------
    circuit : Circuit
        With one root and no negative weights.
    variables : sequence of Variable
        One per variable of the circuit.
    """

    def __init__(self, circuit: Circuit, variables: Sequence[Variable]):
        circuit = circuit.to("numpy")
        refuse_signed(circuit, "Expected prediction")
        self.circuit, self.variables = circuit, list(variables)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.circuit, self.variables)

    @property
    def vtree(self) -> Any:
        """The vtree of the circuit."""
        return self.circuit.vtree

    @property
    def is_discrete(self) -> bool:
        """Whether no variable is real."""
        return all(variable.pieces is not None for variable in self.variables)

    def atoms(self, variable: int) -> Columns:
        """The atoms of a variable: its states, or the components of its inputs."""
        pieces = self.variables[variable].pieces
        return (CircuitSide(self.circuit).atoms(variable),) if pieces is None else pieces.atoms

    @cached_property
    def by_state(self) -> Circuit:
        """The circuit in which being observed in a state is a state of its own.

        After its c states a variable has c more for being observed there, and one for being
        observed where the density knows no state.
        """
        known = [
            None if v.pieces is None else np.append(np.arange(v.pieces.n), NOT_A_STATE)
            for v in self.variables
        ]
        return self.extended(known)

    def extended(self, known: Sequence[Any]) -> Circuit:
        """The circuit with more states: every variable also takes on copies of given states."""
        blocks = list(self.circuit.blocks)
        for i, states in enumerate(known):
            block = self.circuit.input(i)
            if isinstance(block, Table):
                every = np.concatenate([block.table, block.table.sum(axis=1, keepdims=True)], 1)
                blocks[self.vtree.leaf(i)] = Table(
                    np.concatenate([block.table, every[:, states]], 1)
                )
        return Circuit(self.vtree, tuple(blocks))


class Rows:
    """Rows of data, read as evidence on a density.

    Parameters
    ----------
    density : Density
    Z : array of shape (rows, columns)
        NaN is missing; the bits of groups are completed.
    """

    def __init__(self, density: Density, Z: Any):
        self.density, self.Z = density, Z
        self.said: list[Said] = [variable.say(Z) for variable in density.variables]

    def __len__(self) -> int:
        return len(self.Z)

    @cached_property
    def observed(self) -> Any:
        """Which variables are observed, (rows, variables)."""
        return np.stack([said.observed for said in self.said], axis=1)

    @cached_property
    def known_columns(self) -> Any:
        """Which columns belong to observed variables, (rows, columns)."""
        known = np.zeros(self.Z.shape, dtype=np.bool_)
        for i, variable in enumerate(self.density.variables):
            known[:, variable.columns] = self.observed[:, i, None]
        return known

    @cached_property
    def statements(self) -> list[Column]:
        """For every variable what rows say of its states: observed, unknown, or what is left.

        The weights are those of the states of `Density.by_state`.
        """
        return [self._statement(i) for i in range(len(self.said))]

    def _statement(self, i: int) -> Column:
        variable, said = self.density.variables[i], self.said[i]
        if variable.pieces is None:
            x = self.Z[:, variable.columns[0]]
            values, codes = np.unique(x, return_inverse=True)
            return Column(None, values, codes.reshape(-1))
        n = variable.pieces.n
        observed = np.concatenate([np.zeros((n + 1, n)), np.eye(n + 1)], axis=1)
        open_ = np.append(np.ones(n), np.zeros(n + 1))
        codes = np.where(said.state == NOT_A_STATE, n, said.state)
        codes = np.where(said.observed, codes, n + 1)
        weights = np.vstack([observed, open_])
        if said.allowed is not None:
            partly = np.flatnonzero(~said.observed & ~said.allowed.all(axis=1))
            distinct, number = np.unique(said.allowed[partly], axis=0, return_inverse=True)
            codes[partly] = len(weights) + number.reshape(-1)
            more = np.concatenate([distinct, np.zeros((len(distinct), n + 1))], axis=1)
            weights = np.vstack([weights, more])
        used, codes = np.unique(codes, return_inverse=True)
        return Column(weights[used], None, codes.reshape(-1))

    @cached_property
    def distinct(self) -> tuple[Any, Any]:
        """Rows that stand for all that say the same, and for every row the number of its own."""
        codes = np.stack([column.codes for column in self.statements], axis=1)
        order = self.density.vtree.scope()  # rows that are alike in a subtree come together
        _, first, inverse = np.unique(
            codes[:, order], axis=0, return_index=True, return_inverse=True
        )
        return first, inverse.reshape(-1)

    @cached_property
    def distinct_values(self) -> tuple[Any, Any]:
        """The same for rows that are equal, value for value."""
        filled = np.where(np.isnan(self.Z), np.inf, self.Z)
        _, first, inverse = np.unique(filled, axis=0, return_index=True, return_inverse=True)
        return first, inverse.reshape(-1)

    def evidence_by_state(self, index: Any) -> Evidence:
        """Some rows as evidence on `Density.by_state`."""
        columns = [_taken(column, index) for column in self.statements]
        return Evidence(self.density.by_state.cardinalities, columns=columns)

    def evidence(self, index: Any) -> Evidence:
        """Some rows as evidence on the circuit itself."""
        columns = []
        for column, variable in zip(self.statements, self.density.variables, strict=True):
            chosen = _taken(column, index)
            if variable.pieces is not None:
                n = variable.pieces.n
                weights = chosen.weights[:, :n] + chosen.weights[:, n : 2 * n]
                weights = weights + chosen.weights[:, 2 * n :]
                chosen = Column(weights, None, chosen.codes)
            columns.append(chosen)
        return Evidence(self.density.circuit.cardinalities, columns=columns)

    def require_possible(self, names: Any = None) -> None:
        """Raise if a row has probability zero; `names` are the numbers of the rows in messages."""
        first, inverse = self.distinct
        logs, _ = log_values(self.density.circuit, self.evidence(first))
        impossible = np.flatnonzero(~np.isfinite(logs[inverse, 0]))
        if len(impossible):
            row = int(impossible[0])
            row = row if names is None else int(names[row])
            raise EvidenceError(
                f"What is observed in row {row} has probability zero under the density, so its "
                "missing values have no distribution. Check the row, or smooth the density."
            )


def _taken(column: Column, index: Any) -> Column:
    """What some rows say of a variable."""
    used, codes = np.unique(column.codes[index], return_inverse=True)
    weights = None if column.weights is None else column.weights[used]
    values = None if column.values is None else column.values[used]
    return Column(weights, values, codes.reshape(-1))
