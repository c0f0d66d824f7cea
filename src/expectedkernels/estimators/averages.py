"""Several densities at once: expectations are averaged, with fixed weights.

    E[f(x) | row] = sum_k a_k E_k[f(x) | row]

is as if one of them was drawn for every row. It is right up to the worst of them wherever they
agree, and needs no choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from expectedkernels.estimators.circuits import AnyDensity
from expectedkernels.estimators.expansion import Expansion, Prior
from expectedkernels.estimators.nodes import Nodes
from expectedkernels.estimators.resources import Resources
from expectedkernels.estimators.variables import Variable, completed_groups


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

    def log_density(self, Z: Any) -> Any:
        """The averaged log-densities of what rows show, (rows,)."""
        return self._mixed([part.log_density(Z) for part in self.parts])

    def _mixed(self, values: list[Any]) -> Any:
        return sum(w * value for w, value in zip(self.weights, values, strict=True))
