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

from expectedkernels.circuits.base import host_for
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.evidence import Column, Evidence
from expectedkernels.circuits.inputs import Real
from expectedkernels.circuits.queries import log_values, refuse_signed
from expectedkernels.errors import EvidenceError
from expectedkernels.estimators.variables import Said, Variable

FARTHEST = 1e100
"""Deviations beyond this are as good as this, of values of real variables."""


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
        circuit = host_for(circuit, "Expected prediction")
        refuse_signed(circuit, "Expected prediction")
        self.circuit, self.variables = circuit, list(variables)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.circuit, self.variables)

    @property
    def vtree(self) -> Any:
        """The vtree of the circuit."""
        return self.circuit.vtree

    @property
    def places(self) -> list[Any]:
        """The columns of every variable."""
        return [variable.columns for variable in self.variables]

    @property
    def is_discrete(self) -> bool:
        """Whether no variable is real."""
        return all(variable.pieces is not None for variable in self.variables)

    @cached_property
    def real(self) -> Circuit:
        """The circuit over values of the columns: states are intervals or points there."""
        blocks = list(self.circuit.blocks)
        for i, variable in enumerate(self.variables):
            if variable.pieces is not None:
                mean, half = variable.pieces.centre, variable.pieces.half
                if len(variable.columns) == 1:
                    mean, half = mean[:, 0], half[:, 0]
                weights = self.circuit.input(i).numbers
                blocks[self.vtree.leaf(i)] = Real(weights, mean, np.zeros_like(mean), half)
        return Circuit(self.vtree, tuple(blocks))

    @cached_property
    def components(self) -> list[int]:
        """The number of components of every variable."""
        return [self.real.input(i).width for i in range(len(self.variables))]


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
        for i, columns in enumerate(self.density.places):
            known[:, columns] = self.observed[:, i, None]
        return known

    @cached_property
    def by_state(self) -> Evidence:
        """The rows as evidence on `Density.real`, of which observed values are taken out.

        They are the same if they are in the same state.
        """
        return self._evidence(exact=False)

    @cached_property
    def by_value(self) -> Evidence:
        """The rows as evidence on `Density.real`."""
        return self._evidence(exact=True)

    @cached_property
    def states(self) -> Evidence:
        """The rows as evidence on the circuit itself."""
        domains = self.density.circuit.cardinalities
        columns = [self.by_state.column(i) for i in range(len(domains))]
        for i, column in enumerate(columns):
            if column.logs is not None:
                columns[i] = Column(np.exp(column.logs), None, column.codes)
        return Evidence(domains, columns=columns)

    def _evidence(self, exact: bool) -> Evidence:
        columns = [self._statement(i, exact) for i in range(len(self.said))]
        return Evidence(self.density.real.cardinalities, columns=columns)

    def _statement(self, i: int, exact: bool) -> Column:
        """What rows say of a variable: a value, or a state, or which states are left."""
        variable, said = self.density.variables[i], self.said[i]
        x = self.Z[:, variable.columns]
        x = x[:, 0] if len(variable.columns) == 1 else x
        if variable.pieces is None:
            values, codes = np.unique(self.real_values(i), return_inverse=True)
            return Column(None, values, codes.reshape(-1))
        n, seen = variable.pieces.n, said.observed
        first, number = distinct(x[seen] if exact else said.state[seen])
        weights = np.vstack([np.eye(n), np.ones(n)])[said.state[seen][first]]  # -1: no state
        left, which = np.ones((int(not seen.all()), n)), np.zeros(1, dtype=np.intp)
        if said.allowed is not None:
            some, which = distinct(said.allowed[~seen])
            left = said.allowed[~seen][some]
        codes = np.empty(len(x), dtype=np.intp)
        codes[seen], codes[~seen] = number, len(first) + which
        values = np.full((len(first) + len(left), *x.shape[1:]), np.nan)
        values[: len(first)] = x[seen][first]
        with np.errstate(divide="ignore"):
            return Column(None, values, codes, np.log(np.vstack([weights, left])))

    def real_values(self, i: int) -> Any:
        """What rows say of a real variable; remote values as ones whose squares are numbers.

        So far out the widest component that is nearest has all of the row in any case.
        """
        block: Any = self.density.circuit.input(i)
        reach = FARTHEST * np.sqrt(block.variance).max()
        x = self.Z[:, self.density.variables[i].columns[0]]
        return np.clip(x, block.mean.min() - reach, block.mean.max() + reach) if reach else x

    @cached_property
    def distinct(self) -> tuple[Any, Any]:
        """Rows that stand for all that say the same, and for every row the number of its own."""
        order = self.density.vtree.scope()  # rows that are alike in a subtree come together
        codes = np.stack([self.by_state.column(i).codes for i in order], axis=1)
        return distinct(codes)

    def members(self, start: int, stop: int) -> Any:
        """The rows that say one of a range of these things, in order."""
        order, starts = self._grouped
        return order[starts[start] : starts[stop]]

    @cached_property
    def _grouped(self) -> tuple[Any, Any]:
        first, number = self.distinct
        order = np.argsort(number, kind="stable")
        return order, np.searchsorted(number[order], np.arange(len(first) + 1))

    @cached_property
    def logs(self) -> Any:
        """The log probabilities of what rows that differ say."""
        return log_values(self.density.circuit, self.states.rows(self.distinct[0]))[0][:, 0]

    def require_possible(self, names: Any = None) -> None:
        """Raise if a row has probability zero; `names` are the numbers of the rows in messages."""
        impossible = np.flatnonzero(~np.isfinite(self.logs)[self.distinct[1]])
        if len(impossible):
            row = int(impossible[0])
            row = row if names is None else int(names[row])
            raise EvidenceError(
                f"What is observed in row {row} has probability zero under the density, so its "
                "missing values have no distribution. Check the row, or smooth the density."
            )


def distinct(x: Any) -> tuple[Any, Any]:
    """Where each of the distinct entries (or rows) comes first, and the number of every one."""
    if x.ndim == 2 and not x.shape[1]:
        return np.arange(min(1, len(x))), np.zeros(len(x), dtype=np.intp)
    axis = None if x.ndim == 1 else 0
    _, first, number = np.unique(x, axis=axis, return_index=True, return_inverse=True)
    return first, number.reshape(-1)
