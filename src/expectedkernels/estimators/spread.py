"""Variances of functions that hardly vary, where E[f^2] - E[f]^2 has no digits left.

A sum of kernels with large coefficients of both signs may be smooth, but the sum of their products
has the rounding errors of its largest terms. Few missing values leave few nodes: there f itself is
known to almost all digits, and so are its mean and variance over them.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from expectedkernels.estimators.expansion import Expansion
from expectedkernels.estimators.resources import Resources
from expectedkernels.estimators.rows import Density, Rows
from expectedkernels.kernels.reals import MOST_PANELS, panels_of, rule

ROUNDING = 10.0 * float(np.finfo(np.float64).eps)
"""The rounding error of a sum of products, in roots of sums of squares of its terms: about."""
DOUBTFUL = 1e6
"""A variance is looked at again if it is not larger than its rounding error by this factor."""
LOST = 10.0
"""One that cannot be had otherwise is not to be trusted if not larger by this factor."""
MOST_KERNELS = 10**8
"""How many kernels may be evaluated for one row."""


def steady_variance(
    expansion: Expansion,
    density: Density,
    rows: Rows,
    variance: Any,
    resources: Resources,
    more: Any = 0.0,
) -> Any:
    """The variances given rows, (rows, outputs), with those that lost their digits made anew.

    Parameters
    ----------
    expansion : Expansion
    density : Density
    rows : Rows
        With missing values.
    variance : array of shape (rows, outputs)
        As differences of squares.
    resources : Resources
    more : array
        What is added to them: digits far below it are not missed.
    """
    squares = replace(  # of the terms of f: the terms of f^2 are as large, and of both signs
        expansion,
        rates=2.0 * expansion.rates,
        coef=expansion.coef**2,
        intercept=np.zeros_like(expansion.intercept),
    )
    error = ROUNDING * squares.mean(density, rows, resources)
    doubtful = np.flatnonzero((variance + more < DOUBTFUL * error).any(axis=1))
    if not len(doubtful):
        return variance
    variance = np.array(variance)
    work = _AtNodes(expansion, density, rows, resources.max_bytes)
    untold = np.zeros(len(variance), dtype=np.bool_)
    for row, found in zip(doubtful, resources.map(work, doubtful.tolist()), strict=True):
        if found is None:
            untold[row] = True
        else:
            variance[row] = found
    lost = untold & (variance + more < LOST * error).any(axis=1)
    if lost.any():
        warnings.warn(
            f"The standard deviations of {int(lost.sum())} rows are too small beside the "
            "coefficients of the model to be told from rounding errors: they are rough. "
            "Coefficients are smaller with a smaller C, or a larger alpha.",
            RuntimeWarning,
            stacklevel=2,
        )
    return variance


@dataclass(frozen=True, eq=False)
class _AtNodes:
    """The function from rows to the variances over their nodes; None if these are too many."""

    expansion: Expansion
    density: Density
    rows: Rows
    max_bytes: int

    def __call__(self, row: int) -> Any:
        missing = np.flatnonzero(~self.rows.observed[row])
        if any(self.density.variables[i].pieces is None for i in missing):
            return None
        sizes = [self.density.variables[i].n_states or 1 for i in missing]
        most = MOST_KERNELS // len(self.expansion.points)
        if np.prod(sizes, dtype=float) > most:
            return None
        nodes = [self._nodes(int(i)) for i in missing if self._panels(int(i)) <= MOST_PANELS]
        if len(nodes) < len(missing):
            return None
        counts = [len(share) for _, share, _ in nodes]
        if np.prod(counts, dtype=float) > most:
            return None
        worlds = self._probabilities(row, missing, sizes)
        total, mean, square = 0.0, 0.0, 0.0
        n, size = int(np.prod(counts)), max(1, self.max_bytes // (64 * len(self.expansion.points)))
        for start in range(0, n, size):
            at = np.unravel_index(np.arange(start, min(n, start + size)), counts)
            share = worlds[tuple(state[k] for (_, _, state), k in zip(nodes, at, strict=True))]
            Z = np.repeat(self.rows.Z[row][None], len(share), axis=0)
            for i, (values, weight, _), k in zip(missing, nodes, at, strict=True):
                share = share * weight[k]
                Z[:, self.density.variables[i].columns] = values[k]
            used = share > 0
            if not used.any():
                continue
            f = self.expansion.at(self.density, Z[used], Resources(max_bytes=self.max_bytes))
            total, mean, square = _joined((total, mean, square), share[used], f)
        return square / total

    def _panels(self, i: int) -> int:
        """How many panels intervals of a variable need; f^2 has kernels of twice the rate."""
        variable = self.density.variables[i]
        pieces: Any = variable.pieces
        rate = 2.0 * float(self.expansion.rates[variable.columns].max())
        return panels_of(rate, pieces.low, pieces.high)

    def _nodes(self, i: int) -> tuple[Any, Any, Any]:
        """Values of a variable, their shares of the states they stand for, and these states."""
        variable = self.density.variables[i]
        pieces: Any = variable.pieces
        states = np.arange(pieces.n)
        if len(variable.columns) > 1 or (pieces.low == pieces.high).all():
            return pieces.low, np.ones(pieces.n), states
        low, high = pieces.low[:, 0], pieces.high[:, 0]
        values, shares = rule(low, high, self._panels(i))
        repeated, weights = np.repeat(states, len(shares)), np.tile(shares, pieces.n)
        values = values.reshape(-1, 1)
        kept = np.ones(len(values), dtype=np.bool_)
        for state in np.flatnonzero(low == high):  # a single value needs a single node
            kept[repeated == state] = False
            kept[state * len(shares)] = True
            weights[state * len(shares)] = 1.0
        return values[kept], weights[kept], repeated[kept]

    def _probabilities(self, row: int, missing: Any, sizes: list[int]) -> Any:
        """The probabilities of the states of what is missing, one axis for each variable."""
        states = np.full(len(self.density.variables), np.nan)
        for i, (variable, said) in enumerate(
            zip(self.density.variables, self.rows.said, strict=True)
        ):
            if variable.pieces is None:
                states[i] = self.rows.Z[row, variable.columns[0]]
            elif said.state[row] >= 0:
                states[i] = said.state[row]
        worlds = np.stack(np.unravel_index(np.arange(int(np.prod(sizes))), sizes), axis=1)
        every = np.tile(states, (len(worlds), 1))
        every[:, missing] = worlds
        logs = np.asarray(self.density.circuit.log_likelihood(every)).reshape(-1)
        for k, i in enumerate(missing):
            allowed = self.rows.said[i].allowed
            if allowed is not None:
                logs = np.where(allowed[row][worlds[:, k]], logs, -np.inf)
        return np.exp(logs - logsumexp(logs)).reshape(sizes)


def _joined(before: Any, share: Any, f: Any) -> tuple[Any, Any, Any]:
    """Weights, means and sums of squares around them, of what was before and of new values."""
    total, mean, square = before
    weight = share.sum()
    centre = share @ f / weight
    around = share @ (f - centre) ** 2
    both = total + weight
    step = (centre - mean) * (weight / both)
    return both, mean + step, square + around + (centre - mean) ** 2 * (total * weight / both)
