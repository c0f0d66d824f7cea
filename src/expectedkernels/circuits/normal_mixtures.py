"""Log-densities of mixtures of products of normals, component by component.

Circuits whose only sum is the root need no values of units: every product below it is a normal
distribution with independent columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from expectedkernels.circuits.base import BlockCircuit
from expectedkernels.circuits.evidence import Evidence
from expectedkernels.engine.nodes import from_leaves

CHUNK_ROWS = 2048
"""How many rows are worked on at once: they stay in the cache."""


@dataclass(frozen=True, eq=False)
class Components:
    """The components of a mixture of products of normals.

    Attributes
    ----------
    logs : array of shape (components,)
        The logs of their weights.
    means, variances : arrays of shape (components, variables)
    """

    logs: Any
    means: Any
    variances: Any

    def log_density(self, X: Any) -> Any:
        """The log-densities of what rows show, (rows,); NaN is missing."""
        known = ~np.isnan(X)
        complete = bool(known.all())
        sizes = -0.5 * np.log(2.0 * np.pi * self.variances)
        rates = -0.5 / self.variances
        found, away = np.empty((len(self.logs), len(X))), np.empty_like(X)
        with np.errstate(over="ignore"):  # the log-density of a remote value is -inf
            for k, mean in enumerate(self.means):
                np.subtract(X, mean, out=away)
                np.multiply(away, away, out=away)
                if complete:
                    found[k] = away @ rates[k] + (self.logs[k] + sizes[k].sum())
                else:
                    away[~known] = 0.0
                    found[k] = away @ rates[k] + known @ sizes[k] + self.logs[k]
        top = found.max(axis=0)
        top[top == -np.inf] = 0.0
        found -= top
        with np.errstate(divide="ignore"):
            return np.log(np.exp(found, out=found).sum(axis=0)) + top


def normal_mixture_logs(circuit: BlockCircuit, evidence: Evidence | None) -> Any:
    """The log-densities of rows, (rows,), None if the circuit is no mixture of normals."""
    if evidence is None or evidence.values is None or not circuit.is_on_host:
        return None
    parts = circuit.remembered("normal components", lambda: _components(circuit))
    if parts is None:
        return None
    X = evidence.values
    chunks = (X[i : i + CHUNK_ROWS] for i in range(0, len(X), CHUNK_ROWS))
    return np.concatenate([parts.log_density(chunk) for chunk in chunks])


def _components(circuit: BlockCircuit) -> Components | None:
    """The components, None if there are sums below the root, or inputs that are not normal."""
    n, root = circuit.n_variables, circuit.vtree.root
    blocks: Any = circuit.blocks
    if circuit.n_roots != 1 or n == 1 or set(circuit.cardinalities) != {None}:
        return None

    def leaf(node: int, variable: int) -> Components | None:
        return _inputs(blocks[node], np.eye(n)[variable])

    def inner(node: int, left: Components | None, right: Components | None) -> Components | None:
        if left is None or right is None:
            return None
        return _sums(blocks[node], left, right, node == root)

    return from_leaves(circuit.vtree, leaf, inner)[root]


def _inputs(block: Any, place: Any) -> Components | None:
    """The units of an input, with zeros in other columns; None if they are not normal."""
    weights = np.asarray(block.weights)
    if block.half is not None or block.mean.ndim != 1 or (block.variance <= 0).any():
        return None
    if ((weights != 0).sum(axis=1) != 1).any() or (weights.max(axis=1) <= 0).any():
        return None
    at = weights.argmax(axis=1)
    means, variances = block.mean[at], block.variance[at]
    return Components(
        np.log(weights.max(axis=1)), *(np.outer(x, place) for x in (means, variances))
    )


def _sums(block: Any, left: Components, right: Components, root: bool) -> Components | None:
    """The units of an inner node, all terms of the root; None if others have several."""
    a, b = block.inputs
    logs, means, variances = (
        getattr(left, name)[a] + getattr(right, name)[b] for name in ("logs", "means", "variances")
    )
    if block.weights is not None:
        numbers, starts = block.flat
        if (numbers <= 0).any() or not (root or (np.diff(starts) == 1).all()):
            return None
        at = block.columns
        logs, means, variances = np.log(numbers) + logs[at], means[at], variances[at]
    return Components(logs, means, variances)
