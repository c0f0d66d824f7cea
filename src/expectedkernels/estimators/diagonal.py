"""Mixtures of products as densities of machines: circuits whose variances are quick to have.

Given a row and a component, columns are independent, so that covariances of kernels are products
over the missing columns. Few components have a share of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import softmax

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.estimators.circuits import CircuitDensity
from expectedkernels.estimators.expansion import Expansion, Prior
from expectedkernels.estimators.normals import Axes, kept_components, variance_of
from expectedkernels.estimators.resources import Resources
from expectedkernels.estimators.rows import Rows
from expectedkernels.estimators.variables import Variable
from expectedkernels.kernels.gaussian import at_known

MANY_POINTS = 400
"""With more points, variances to a tolerance are quicker by rounding, as for other circuits."""


class DiagonalDensity(CircuitDensity):
    """A mixture of products of normal distributions and tables.

    The components that are left out of variances have a share of at most `normals.LEFT_OUT`.

    Parameters
    ----------
    circuit : Circuit
        From `mixture_of_products`; it may have put equal units together.
    variables : sequence of Variable
    weights : array of shape (components,)
    normals : dict from real variables to means and variances, (components,) each
    tables : dict from the others to arrays of shape (components, states)
    """

    def __init__(
        self,
        circuit: Circuit,
        variables: Sequence[Variable],
        weights: Any,
        normals: dict[int, tuple[Any, Any]],
        tables: dict[int, Any],
    ):
        super().__init__(circuit, variables)
        self.weights, self.normals, self.tables = weights, normals, tables

    def __reduce__(self) -> tuple[Any, ...]:
        given = (self.circuit, self.variables, self.weights, self.normals, self.tables)
        return type(self), given

    def variance(
        self, f: Expansion, rows: Rows, mean: Any, resources: Resources, prior: Prior | None = None
    ) -> Any:
        """The variances of functions given rows, with those of a process: (rows, outputs)."""
        partly = any(said.allowed is not None for said in rows.said)
        rounded = resources.std_tol > 0 and prior is None and len(f.points) > MANY_POINTS
        if f.is_embedded or partly or rounded or len(self.variables) == 1:
            return super().variance(f, rows, mean, resources, prior)
        shares = softmax(self._component_logs(rows), axis=1)
        near = at_known(f.rates, rows.Z, rows.known_columns, f.points)
        found, forms = np.zeros_like(mean), np.zeros(len(rows))
        for row in range(len(rows)):
            parts = self._parts(f, np.flatnonzero(~rows.observed[row]), shares[row])
            found[row] = variance_of(parts, near[row][:, None] * f.coef)
            if prior is not None:
                for _, share, h, pairs in parts:
                    v = h[0] * near[row]
                    forms[row] += share[0] * (v @ (prior.form * pairs) @ v)
        return found if prior is None else found + prior.left(forms)

    def _component_logs(self, rows: Rows) -> Any:
        """The logs of weights times densities of what rows show, (rows, components)."""
        logs = np.log(self.weights)[None]
        for i, said in enumerate(rows.said):
            if i in self.normals:
                mean, variance = self.normals[i]
                x = rows.real_values(i)[:, None]
                own = -0.5 * (x - mean) ** 2 / variance - 0.5 * np.log(variance)
                logs = logs + np.where(said.observed[:, None], own, 0.0)
            else:
                own = np.log(self.tables[i]).T[np.maximum(said.state, 0)]
                logs = logs + np.where(said.state[:, None] >= 0, own, 0.0)
        return logs

    def _parts(self, f: Expansion, missing: Any, shares: Any) -> list[Any]:
        """What `variance_of` asks of every component that counts."""
        real = [i for i in missing if i in self.normals]
        others = [i for i in missing if i not in self.normals]
        u = np.array([self.variables[i].columns[0] for i in real], dtype=np.intp)
        # distances come from products, which have no digits left far from zero
        centres = [self.normals[i][0] - self.normals[i][0][0] for i in real]
        spreads = [self.normals[i][1] for i in real]
        points = f.points[:, u] - np.array([self.normals[i][0][0] for i in real])
        root = np.sqrt(f.rates[u])
        parts = []
        kept, shares = kept_components(shares)
        for c, share in zip(kept, shares, strict=True):
            means = np.array([[x[c] for x in centres]])
            variances = np.array([x[c] for x in spreads])
            first, second = self._of_states(f, others, c)
            axes = Axes(np.diag(root), f.rates[u] * variances, first, second)
            parts.append((axes.at(means, points), np.array([share]), *axes.roots(means, points)))
        return parts

    def _of_states(self, f: Expansion, variables: list[int], c: int) -> tuple[Any, Any]:
        """E k(x, s) and E k(x, s) k(x, r) over missing discrete variables, for a component."""
        first: Any = 1.0
        second: Any = 1.0
        for i in variables:
            pieces: Any = self.variables[i].pieces
            columns = self.variables[i].columns
            known = np.ones(pieces.low.shape, dtype=np.bool_)
            k = at_known(f.rates[columns], pieces.low, known, f.points[:, columns])
            share = self.tables[i][c]
            first, second = first * (share @ k), second * ((k * share[:, None]).T @ k)
        return first, second
