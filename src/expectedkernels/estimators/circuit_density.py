"""Circuits, and averages of densities, as densities of incomplete rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from expectedkernels.algebra import marginalize
from expectedkernels.circuits.queries import atom_shares
from expectedkernels.estimators.encoding import Variable, completed_groups
from expectedkernels.estimators.kernel_expansion import (
    Density,
    Expansion,
    Prior,
    Resources,
    Rows,
    expected_gram,
)
from expectedkernels.estimators.variance import rounded_variance, steady_variance

OF_INTERVALS = 4
"""Nodes of one interval share an expectation, so that four cost hardly more than two."""
OF_NORMALS = 7


@dataclass(frozen=True, eq=False)
class Nodes:
    """Values of one variable in rows where it is missing.

    Attributes
    ----------
    rows : int array of shape (nodes,)
        The row of every node.
    values : array of shape (nodes, columns)
        What the columns of the variable hold.
    weights : array of shape (nodes,)
        Positive; those of one row sum to one.
    """

    rows: Any
    values: Any
    weights: Any


def _rule(density: Density, i: int) -> tuple[Any, Any, Any]:
    """The nodes of all atoms of a variable, their weights, and whose they are."""
    variable, block = density.variables[i], density.circuit.input(i)
    if variable.pieces is not None:
        centre, half = variable.pieces.centre, variable.pieces.half
        root = np.zeros(len(centre))
    else:
        real: Any = block
        centre, half = real.mean[:, None], np.asarray(real.halves)[:, None]
        root = np.sqrt(real.variance)
    uniform, shares = np.polynomial.legendre.leggauss(OF_INTERVALS)
    normal, weights = np.polynomial.hermite_e.hermegauss(OF_NORMALS)
    parts = []
    for atom in range(len(centre)):
        u, s = (uniform, shares / shares.sum()) if half[atom].any() else (np.zeros(1), np.ones(1))
        z, w = (normal, weights / weights.sum()) if root[atom] > 0 else (np.zeros(1), np.ones(1))
        away = np.add.outer(root[atom] * z, u * half[atom].max()).reshape(-1, 1)
        parts.append((centre[atom] + away, np.outer(w, s).ravel(), np.full(away.size, atom)))
    values, weights, atoms = (np.concatenate(each) for each in zip(*parts, strict=True))
    return values, weights, atoms


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
        shares = atom_shares(self.circuit, rows.states)
        found: list[Any] = [None] * len(self.variables)
        for i, first, stop in self.circuit.atom_slices:
            missing = np.flatnonzero(~rows.said[i].observed)
            values, weights, atoms = _rule(self, i)
            table = shares[missing, first:stop][:, atoms] * weights
            row, node = np.nonzero(table)
            total = table.sum(axis=1)[row]
            found[i] = Nodes(missing[row], values[node], table[row, node] / total)
        return found

    def alone(self, i: int) -> CircuitDensity:
        """The density of one variable, of tables of its columns only."""
        others = [k for k in range(len(self.variables)) if k != i]
        circuit = marginalize(self.circuit, others) if others else self.circuit
        return CircuitDensity(circuit, [self.variables[i].alone()])


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


class AverageDensity:
    """An average of densities.

    Parameters
    ----------
    parts : sequence of densities
    weights : array
    names : sequence of str
    variables : sequence of Variable
        Which columns belong together.
    """

    def __init__(
        self,
        parts: Sequence[AnyDensity],
        weights: Any,
        names: Sequence[str],
        variables: Sequence[Variable],
    ):
        self.parts, self.names, self.variables = list(parts), list(names), list(variables)
        self.weights = np.asarray(weights, dtype=np.float64)

    def __repr__(self) -> str:
        shares = zip(self.weights, self.names, strict=True)
        return "AverageDensity(" + " + ".join(f"{w:.3g} {name}" for w, name in shares) + ")"

    @property
    def circuit(self) -> Any:
        """The circuit of the last part that has one, None if none has."""
        circuits = [part.circuit for part in self.parts if part.circuit is not None]
        return circuits[-1] if circuits else None

    def rows(self, Z: Any) -> Any:
        """The rows as every part reads them."""
        return [part.rows(Z) for part in self.parts]

    def check(self, rows: Any, names: Any = None) -> None:
        """Raise if a part knows that a row is impossible."""
        for part, own in zip(self.parts, rows, strict=True):
            part.check(own, names)

    def _means(self, f: Expansion, rows: Any, resources: Resources) -> list[Any]:
        return [p.mean(f, own, resources) for p, own in zip(self.parts, rows, strict=True)]

    def mean(self, f: Expansion, rows: Any, resources: Resources) -> Any:
        """The expectations of functions given rows, (rows, outputs)."""
        return self._mixed(self._means(f, rows, resources))

    def variance(
        self, f: Expansion, rows: Any, mean: Any, resources: Resources, prior: Prior | None = None
    ) -> Any:
        """The variances of functions given rows, with those of a process: (rows, outputs)."""
        centres = self._means(f, rows, resources)
        within = [
            part.variance(f, own, centre, resources, prior) + (centre - mean) ** 2
            for part, own, centre in zip(self.parts, rows, centres, strict=True)
        ]
        return self._mixed(within)

    def gram(self, rates: Any, A: Any, B: Any = None, resources: Resources | None = None) -> Any:
        """The expected kernels between rows, (rows of A, rows of B)."""
        return self._mixed([part.gram(rates, A, B, resources) for part in self.parts])

    def means(self, Z: Any) -> Any:
        """The rows with the expected values of what is missing."""
        Z = completed_groups(self.variables, Z)
        # what is known stands as it is, to the last digit
        return np.where(np.isnan(Z), self._mixed([part.means(Z) for part in self.parts]), Z)

    def draws(self, Z: Any, n: int, rng: Any) -> Any:
        """Completions of the rows, (n, rows, columns): each from a density drawn for it."""
        chosen = rng.choice(len(self.parts), size=(n, len(Z)), p=self.weights)
        found = np.empty((n, *Z.shape))
        for k, part in enumerate(self.parts):
            drawn = part.draws(Z, n, rng)
            found[chosen == k] = drawn[chosen == k]
        return found

    def nodes(self, rows: Any) -> list[Nodes]:
        """The nodes of every variable, given what rows show of the others."""
        every = [part.nodes(own) for part, own in zip(self.parts, rows, strict=True)]
        return [
            Nodes(
                np.concatenate([n.rows for n in found]),
                np.concatenate([n.values for n in found]),
                np.concatenate([a * n.weights for a, n in zip(self.weights, found, strict=True)]),
            )
            for found in zip(*every, strict=True)
        ]

    def alone(self, i: int) -> AverageDensity:
        """The density of one variable, of tables of its columns only."""
        parts = [part.alone(i) for part in self.parts]
        return AverageDensity(parts, self.weights, self.names, [self.variables[i].alone()])

    def _mixed(self, values: list[Any]) -> Any:
        return sum(w * value for w, value in zip(self.weights, values, strict=True))
