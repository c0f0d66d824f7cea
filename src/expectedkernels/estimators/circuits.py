"""Circuits as densities of machines, and what machines ask of any density.

Every density answers the same questions about rows with missing values: circuits here, normal
distributions in `normals`, and averages of several in `averages`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from expectedkernels.circuits.marginalization import marginalize
from expectedkernels.circuits.queries import log_values
from expectedkernels.estimators.expansion import Expansion, Prior
from expectedkernels.estimators.gram import expected_gram
from expectedkernels.estimators.nodes import Nodes, nodes_of
from expectedkernels.estimators.resources import Resources
from expectedkernels.estimators.rounding import rounded_variance
from expectedkernels.estimators.rows import Density, Rows
from expectedkernels.estimators.spread import steady_variance
from expectedkernels.estimators.variables import Variable, completed_groups


class AnyDensity(Protocol):
    """What machines ask of a density."""

    @property
    def variables(self) -> list[Variable]:
        """Which columns belong together, and what their states are."""

    @property
    def circuit(self) -> Any:
        """The circuit, None if there is none."""

    def rows(self, Z: Any) -> Any:
        """Rows as the density reads them, for the methods below."""

    def check(self, rows: Any, names: Any = None) -> None:
        """Raise if the density knows that a row is impossible."""

    def mean(self, f: Expansion, rows: Any, resources: Resources) -> Any:
        """The expectations of functions given rows, (rows, outputs)."""

    def variance(
        self, f: Expansion, rows: Any, mean: Any, resources: Resources, prior: Prior | None = None
    ) -> Any:
        """The variances of functions given rows, with those of a process: (rows, outputs)."""

    def gram(self, rates: Any, A: Any, B: Any = None, resources: Resources | None = None) -> Any:
        """The expected kernels between rows, (rows of A, rows of B)."""

    def means(self, Z: Any) -> Any:
        """The rows with the expected values of what is missing."""

    def draws(self, Z: Any, n: int, rng: Any) -> Any:
        """Completions of the rows, (n, rows, columns)."""

    def nodes(self, rows: Any) -> list[Nodes]:
        """The nodes of every variable, given what rows show of the others."""

    def log_density(self, Z: Any) -> Any:
        """The log-densities of what rows show, (rows,)."""

    def alone(self, i: int) -> AnyDensity:
        """The density of one variable, of tables of its columns only."""


class CircuitDensity(Density):
    """A circuit as a density of columns of data.

    Parameters
    ----------
    circuit : Circuit
    variables : sequence of Variable
    """

    def rows(self, Z: Any) -> Rows:
        """The rows as evidence."""
        return Rows(self, Z)

    def check(self, rows: Rows, names: Any = None) -> None:
        """Raise if a row has probability zero; `names` are the numbers of rows in messages."""
        if len(rows):
            rows.require_possible(names)

    def mean(self, f: Expansion, rows: Rows, resources: Resources) -> Any:
        """The expectations of functions given rows, (rows, outputs)."""
        return f.mean(self, rows, resources)

    def variance(
        self, f: Expansion, rows: Rows, mean: Any, resources: Resources, prior: Prior | None = None
    ) -> Any:
        """The variances of functions given rows, with those of a process: (rows, outputs)."""
        if resources.std_tol > 0 and prior is None and not f.is_embedded:
            variance, left = rounded_variance(f, self, rows, mean, resources)
            if left.any():
                exact, others = replace(resources, std_tol=0.0), Rows(self, rows.Z[left])
                variance[left] = self.variance(f, others, mean[left], exact)
            return variance
        own: Any = 0.0
        if prior is None:
            variance = f.variance(self, rows, mean, resources)
        else:
            variance, forms = f.variance(self, rows, mean, resources, prior.form)
            own = prior.left(forms)
        if np.isnan(rows.Z).any():
            variance = steady_variance(f, self, rows, variance, resources, own)
        return variance + own

    def gram(self, rates: Any, A: Any, B: Any = None, resources: Resources | None = None) -> Any:
        """The expected kernels between rows, (rows of A, rows of B)."""
        return expected_gram(self, rates, A, B, resources)

    def means(self, Z: Any) -> Any:
        """The rows with the expected values of what is missing."""
        Z = completed_groups(self.variables, Z)
        gaps = np.flatnonzero(np.isnan(Z).any(axis=1))
        if not len(gaps):
            return Z
        rows = Rows(self, Z[gaps])
        shares = self.circuit.marginals(rows.states)
        for i, variable in enumerate(self.variables):
            missing = ~rows.said[i].observed
            share = np.atleast_2d(shares[i])
            values = share[:, :1] if variable.pieces is None else share @ variable.pieces.centre
            Z[np.ix_(gaps[missing], variable.columns)] = values[missing]
        return Z

    def draws(self, Z: Any, n: int, rng: Any) -> Any:
        """Completions of the rows, (n, rows, columns)."""
        Z = completed_groups(self.variables, Z)
        found = np.repeat(Z[None], n, axis=0)
        gaps = np.flatnonzero(np.isnan(Z).any(axis=1))
        if len(gaps):
            rows = Rows(self, Z[gaps])
            drawn = self.circuit.sample(n, rng, evidence=rows.states)
            for k in range(n):
                found[k, gaps] = filled(rows, np.arange(len(gaps)), drawn[:, k], rng)
        return found

    def nodes(self, rows: Rows) -> list[Nodes]:
        """The nodes of every variable, given what rows show of the others."""
        return nodes_of(self, rows)

    def alone(self, i: int) -> CircuitDensity:
        """The density of one variable, of tables of its columns only."""
        others = [k for k in range(len(self.variables)) if k != i]
        circuit = marginalize(self.circuit, others) if others else self.circuit
        return CircuitDensity(circuit, [self.variables[i].alone()])

    def log_density(self, Z: Any) -> Any:
        """The log-densities of what rows show: uniform in intervals, counts at single values."""
        rows = Rows(self, completed_groups(self.variables, Z))
        logs = log_values(self.circuit, rows.states)[0][:, 0]
        for variable, said in zip(self.variables, rows.said, strict=True):
            if variable.pieces is not None:
                width = 2.0 * variable.pieces.half
                size = np.log(np.where(width > 0, width, 1.0)).sum(axis=1)
                logs = logs - np.where(said.state >= 0, size[said.state], 0.0)
        return logs


def filled(rows: Rows, chunk: Any, states: Any, rng: Any = None) -> Any:
    """Rows completed by states: the middle of their pieces, or a draw from there."""
    Z = rows.Z[chunk].copy()
    for i, variable in enumerate(rows.density.variables):
        missing = ~rows.said[i].observed[chunk]
        values = states[missing, i]
        if variable.pieces is None:
            Z[missing, variable.columns[0]] = values
            continue
        pieces, at = variable.pieces, values.astype(np.intp)
        low, high = pieces.low[at], pieces.high[at]
        share = 0.5 if rng is None else rng.random(low.shape)
        Z[np.ix_(missing, variable.columns)] = low + share * (high - low)
    return Z
