"""Variances of expected predictions: exact, and of low rank."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from expectedkernels.arrays import spans
from expectedkernels.engine.blocks import from_leaves, from_root
from expectedkernels.estimators.kernel_expansion import KernelExpansion, Resources, distinct
from expectedkernels.kernels.factors import MOST_PANELS, panels_of, rule
from expectedkernels.kernels.gram import at_known
from expectedkernels.learning.normals import one_thread

FEW_POINTS = 96
"""Where no more points differ, all pairs of them are quicker."""
ROWS_AT_ONCE = 128
SKETCH = 64
"""At so many points it is seen which combinations matter."""
BASIS_POINTS = 64
BASIS_ERROR = 1e-11
"""Functions of one column are left out below this share of the largest."""
MOST_NODES = 20_000
"""With more nodes of one column, all pairs of points are evaluated."""
FLOOR = 1e-7
"""Deviations below this share of the size of the coefficients are not trusted."""
SHARE, MEAN_SHARE = 1.0, 0.2
"""Shares of the tolerance: of what is left out, at most, and of the error of the mean."""
TRIES = 4
REACH = 8.5
"""Normal distributions are cut off at so many deviations."""


class Functions(NamedTuple):
    """Functions of some columns that products of kernels at all points are sums of.

    Attributes
    ----------
    coef : array of shape (functions, points + 1)
        The last is the constant one.
    first : array of shape (units, functions)
        Their expectations, times the values of units (or of components of one variable).
    second : array of shape (units, functions, functions)
        The same for their products.
    """

    coef: Any
    first: Any
    second: Any


@one_thread
def low_rank_variance(
    expansion: KernelExpansion, density: Any, rows: Any, mean: Any, resources: Resources
) -> tuple[Any, Any]:
    """The variances given rows, (rows, outputs), and which rows have none that can be trusted.

    Parameters
    ----------
    expansion : KernelExpansion
        Of points without missing values.
    density : CircuitDensity
    rows : Rows
        With missing values.
    mean : array of shape (rows, outputs)
        The exact means.
    resources : Resources
        With a tolerance that is positive.
    """
    variance, circuit = np.full(mean.shape, np.nan), density.real
    rates, points, tolerance = expansion.rates, expansion.points, resources.std_tol
    index = np.flatnonzero(~_is_quick(expansion, rows))
    tasks = [index[span] for span in spans(len(index), ROWS_AT_ONCE)]
    some = np.unique(np.linspace(0, len(points) - 1, SKETCH).astype(np.intp))
    bases, sketches = {}, {}
    for i in np.flatnonzero(~rows.observed.all(axis=0)).tolist() if tasks else []:
        at = density.variables[i].columns
        bases[i] = _basis(circuit.input(i), rates[at], points[:, at])
        own = points[:, at]
        sketch = at_known(rates[at], own[some], np.ones((len(some), len(at)), bool), own)
        sketches[i] = np.column_stack([sketch, np.ones(len(some))])

    @np.errstate(invalid="ignore", divide="ignore", over="ignore")
    def of_rows(index: Any) -> Any:
        values, shares, scales = _unit_values(circuit, rows.by_state.rows(index))
        near = at_known(rates, rows.Z[index], rows.known_columns[index], points)
        centre = mean[index] - expansion.intercept
        found = np.empty(centre.shape)
        for r, row in enumerate(index):  # not a number where numbers are too small for doubles
            own = {i: shares[i][r] for i in np.flatnonzero(~rows.observed[row]).tolist()}
            up = _OneRow(circuit, bases, sketches, own, [v[r] for v in values], scales[:, r])
            for o, coef in enumerate(expansion.coef.T):
                found[r, o] = up.variance(np.append(near[r] * coef, -centre[r, o]), tolerance)
        return found

    if None not in bases.values():
        for task, found in zip(tasks, resources.map(of_rows, tasks), strict=True):
            variance[task] = found
    return variance, np.isnan(variance).any(axis=1)


def _is_quick(expansion: KernelExpansion, rows: Any) -> Any:
    """Which rows have so few points that differ in what is missing that all pairs are quicker."""
    first, number = rows.distinct
    masks, mask = np.unique(rows.known_columns[first], axis=0, return_inverse=True)
    differing = [len(distinct(expansion.points[:, ~known])[0]) for known in masks]
    pairs = np.asarray(differing)[mask.reshape(-1)] ** 2 / np.bincount(number)
    return (pairs <= FEW_POINTS**2)[number]


def _unit_values(circuit: Any, evidence: Any) -> tuple[list[Any], list[Any], Any]:
    """The values of all units given rows, the largest of each node one, and their scales.

    In between, for every variable, how much of its components rows leave.
    """
    shares: list[Any] = [None] * circuit.n_variables
    scales = np.ones((circuit.vtree.n_nodes, len(evidence.column(0).codes)))

    def summed(node: int, inputs: Any) -> Any:
        matrix = circuit.blocks[node].matrix
        found = inputs if matrix is None else (matrix @ inputs.T).T
        scales[node] = found.max(axis=1)
        return found / scales[node][:, None]

    def leaf(node: int, variable: int) -> Any:
        column = evidence.column(variable)
        logs = circuit.input(variable).log_weights(column)[:, column.codes].T
        shares[variable] = np.exp(logs - logs.max(axis=1, keepdims=True))
        return summed(node, shares[variable])

    def inner(node: int, one: Any, two: Any) -> Any:
        left, right = circuit.blocks[node].inputs
        return summed(node, one[:, left] * two[:, right])

    return from_leaves(circuit.vtree, leaf, inner), shares, scales


@dataclass(frozen=True, eq=False)
class _OneRow:
    """One row on its way up the vtree.

    Attributes
    ----------
    circuit : Circuit
    bases : dict from missing variables to Functions of components
    sketches : dict from missing variables to arrays of shape (sketched points, points + 1)
        The kernels between some points and all.
    shares : dict from missing variables to arrays of shape (components,)
    values : list of arrays of shape (units,)
        Of all units of every node, as long as `scales` of the nodes are divided by.
    scales : array of shape (nodes,)
    """

    circuit: Any
    bases: dict[int, Any]
    sketches: dict[int, Any]
    shares: dict[int, Any]
    values: list[Any]
    scales: Any

    def variance(self, weights: Any, tolerance: float) -> float:
        """The variance of a sum of kernels with these weights; NaN if it cannot be trusted."""
        if not (self.scales > 0).all():
            return np.nan
        sketched = np.prod([self.sketches[i] for i in self.shares], axis=0) @ weights
        share, n_cuts = (SHARE * tolerance) ** 2, max(1, 2 * len(self.shares) - 2)
        spare = share * float((sketched**2).mean())
        for _ in range(TRIES):
            first, second, left_out = self._moments(weights, spare / n_cuts)
            variance = second - first**2
            if not variance > FLOOR**2 * float(weights @ weights):
                return np.nan
            spare = share * variance
            if left_out <= spare and first**2 <= MEAN_SHARE**2 * spare:
                return variance
            spare = min(spare, left_out) / 10.0
        return np.nan

    def _moments(self, weights: Any, spare: float) -> tuple[float, float, float]:
        """The mean and the mean square of the function, and how much was left out of it."""
        lost: list[float] = []

        def constant(node: int) -> Functions:
            ones, values = np.ones((1, len(weights))), self.values[node][:, None]
            return Functions(ones, values, values[:, :, None])

        def leaf(node: int, variable: int) -> Functions:
            if variable not in self.shares:
                return constant(node)
            coef, first, second = self.bases[variable]
            rows = self.circuit.input(variable).numbers
            rows = rows * (self.shares[variable] / self.scales[node])
            turn = _cut(coef, weights, self._around[node], spare, lost)
            squares = np.tensordot(rows, turn.T @ second @ turn, 1)
            return Functions(turn.T @ coef, rows @ (first @ turn), squares)

        def inner(node: int, one: Functions, two: Functions) -> Functions:
            if self._inside[node] is None:
                return constant(node)
            block, vtree = self.circuit.blocks[node], self.circuit.vtree
            (left, right), matrix = block.inputs, block.matrix
            m, n = one.first.shape[1], two.first.shape[1]
            coef = (one.coef[:, None] * two.coef).reshape(m * n, -1)
            turn = np.eye(m * n)
            if all(self._inside[x[node]] is not None for x in (vtree.left, vtree.right)):
                turn = _cut(coef, weights, self._around[node], spare, lost)
            k = turn.shape[1]
            first = (one.first[left][:, :, None] * two.first[right][:, None]).reshape(-1, m * n)
            half = (one.second @ turn.reshape(m, n * k)).reshape(-1, m, n, k)[left]
            half = half.transpose(0, 2, 1, 3).reshape(-1, n, m * k)
            half = (two.second[right] @ half).reshape(-1, n, m, k).transpose(0, 2, 1, 3)
            first, second = first @ turn, turn.T @ half.reshape(-1, m * n, k)
            if matrix is not None:
                first = matrix @ first
                second = (matrix @ second.reshape(-1, k * k)).reshape(-1, k, k)
            scale = self.scales[node]
            return Functions(turn.T @ coef, first / scale, second / scale)

        top: Any = from_leaves(self.circuit.vtree, leaf, inner)[-1]
        scale = float(self.values[-1][0])
        return float(top.first[0, 0]) / scale, float(top.second[0, 0, 0]) / scale, sum(lost)

    @cached_property
    def _inside(self) -> list[Any]:
        """The sketches of the missing columns below nodes; None if there are none."""
        return from_leaves(
            self.circuit.vtree,
            lambda _, variable: self.sketches[variable] if variable in self.shares else None,
            lambda _, one, two: _times(one, two),
        )

    @cached_property
    def _around(self) -> list[Any]:
        """The sketches of the missing columns that are not below nodes; None if there are none."""
        vtree = self.circuit.vtree

        def halves(node: int, around: Any) -> tuple[Any, Any, Any]:
            one, two = self._inside[vtree.left[node]], self._inside[vtree.right[node]]
            return around, _times(around, two), _times(around, one)

        return from_root(vtree, None, lambda _node, _variable, around: around, halves)


def _times(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a * b


def _cut(coef: Any, weights: Any, around: Any, spare: float, lost: list[float]) -> Any:
    """The combinations of functions that matter, (functions, combinations).

    With nothing around there is one: the sum over all points. What is left out is noted.
    """
    if around is None:
        return (coef @ weights)[:, None]
    seen = (coef * weights) @ around.T
    tall = len(seen) > len(around)
    sizes, turn = np.linalg.eigh((seen.T @ seen if tall else seen @ seen.T) / len(around))
    without = np.cumsum(np.maximum(sizes, 0.0))
    n = min(int(np.searchsorted(without, spare, side="right")), len(without) - 1)
    lost.append(float(without[n - 1]) if n else 0.0)
    return np.linalg.qr(seen @ turn[:, n:])[0] if tall else turn[:, n:]


def _basis(block: Any, rates: Any, points: Any) -> Functions | None:
    """The functions of a variable; None if its components have too many nodes."""
    nodes = _nodes(block, rates)
    if nodes is None:
        return None
    values, share, component = nodes
    known = np.ones(values.shape, dtype=np.bool_)
    kernels = np.column_stack([at_known(rates, values, known, points), np.ones(len(values))])
    first, _ = distinct(points)
    chosen = first[np.unique(np.linspace(0, len(first) - 1, BASIS_POINTS).astype(np.intp))]
    root = np.sqrt(share)[:, None]
    turn, sizes, _ = np.linalg.svd(root * kernels[:, [*chosen, -1]], full_matrices=False)
    turn = turn[:, sizes > BASIS_ERROR * sizes[0]]
    functions, n, k = turn / root, block.width, turn.shape[1]
    to = sparse.csr_array((share, (component, np.arange(len(share)))), shape=(n, len(share)))
    squares = (functions[:, :, None] * functions[:, None]).reshape(-1, k * k)
    coef = turn.T @ (root * kernels)
    return Functions(coef, to @ functions, (to @ squares).reshape(n, k, k))


def _nodes(block: Any, rates: Any) -> tuple[Any, Any, Any] | None:
    """Values of the columns of a variable, their shares of components, and these; None: too many.

    They are exact to rounding for squares of kernels.
    """
    if block.mean.ndim > 1:
        if (block.variance != 0).any() or (block.halves != 0).any():
            return None
        return block.mean, np.ones(len(block.mean)), np.arange(len(block.mean))
    rate, mean, half = 2.0 * float(rates[0]), block.mean, block.halves
    found = []
    for c in range(len(mean)):
        deviation = float(np.sqrt(block.variance[c]))
        if deviation > 0 and half[c] > 0:
            return None
        if half[c] > 0:
            ends = mean[c : c + 1] - half[c], mean[c : c + 1] + half[c]
            panels = panels_of(rate, *ends)
            if panels > MOST_PANELS:
                return None
            values, share = rule(*ends, panels)
            values = values[0]
        elif deviation > 0:
            # equal steps, fine beside the density times squares of kernels: errors of 1e-13
            n = int(np.ceil(REACH * np.sqrt(1.0 + 2.0 * rate * deviation**2) / 0.8))
            if n > MOST_NODES:
                return None
            steps = REACH * np.arange(-n, n + 1) / n
            share = np.exp(-0.5 * steps**2)
            values, share = mean[c] + deviation * steps, share / share.sum()
        else:
            values, share = mean[c : c + 1], np.ones(1)
        found.append((values, share, np.full(len(values), c)))
    values, share, component = (np.concatenate(x) for x in zip(*found, strict=True))
    return None if len(values) > MOST_NODES else (values[:, None], share, component)


ROUNDING = 10.0 * float(np.finfo(np.float64).eps)
"""The rounding error of a sum of products, in roots of sums of squares of its terms: about."""
DOUBTFUL = 1e6
"""A variance is looked at again if it is not larger than its rounding error by this factor."""
LOST = 10.0
"""One that cannot be computed otherwise is not to be trusted if not larger by this factor."""
MOST_KERNELS = 10**8
"""How many kernels may be evaluated for one row."""


def stable_variance(
    f: KernelExpansion, density: Any, rows: Any, variance: Any, resources: Resources, more: Any = 0
) -> Any:
    """The variances given rows, (rows, outputs), with those that lost their digits made anew.

    Parameters
    ----------
    f : KernelExpansion
    density : CircuitDensity
    rows : Rows
        With missing values.
    variance : array of shape (rows, outputs)
        As differences of squares.
    resources : Resources
    more : array
        What is added to them: digits far below it are not missed.
    """
    # of the terms of f: the terms of f^2 are as large, and of both signs
    squares = replace(f, rates=2.0 * f.rates, coef=f.coef**2, intercept=0.0)
    error = ROUNDING * density.mean(squares, rows, resources)
    doubtful = np.flatnonzero((variance + more < DOUBTFUL * error).any(axis=1))
    if not len(doubtful):
        return variance
    variance = np.array(variance)
    untold = np.zeros(len(variance), dtype=np.bool_)

    def at_nodes(row: int) -> Any:
        return _node_variance(f, density, rows, row, resources.max_bytes)

    for row, found in zip(doubtful, resources.map(at_nodes, doubtful.tolist()), strict=True):
        if found is None:
            untold[row] = True
        else:
            variance[row] = found
    lost = untold & (variance + more < LOST * error).any(axis=1)
    if lost.any():
        warnings.warn(
            f"The standard deviations of {int(lost.sum())} rows are too small beside the "
            "coefficients of the model to exceed rounding errors: they are rough. "
            "Coefficients are smaller with a smaller C, or a larger alpha.",
            RuntimeWarning,
            stacklevel=2,
        )
    return variance


def _node_variance(f: KernelExpansion, density: Any, rows: Any, row: int, max_bytes: int) -> Any:
    """The variances of a row over all nodes of what is missing; None if these are too many."""
    missing = np.flatnonzero(~rows.observed[row])
    variables = [density.variables[i] for i in missing]
    sizes = [variable.n_states or 0 for variable in variables]
    most = MOST_KERNELS // len(f.points)
    if 0 in sizes or np.prod(sizes, dtype=float) > most:
        return None
    nodes: list[Any] = [
        _nodes(density.real.input(int(i)), f.rates[variable.columns])
        for i, variable in zip(missing, variables, strict=True)
    ]
    counts = [0 if found is None else len(found[1]) for found in nodes]
    if 0 in counts or np.prod(counts, dtype=float) > most:
        return None
    # the probabilities of the states of what is missing, one axis for each variable
    states = np.full((int(np.prod(sizes)), len(density.variables)), np.nan)
    states[:, missing] = np.stack(np.unravel_index(np.arange(len(states)), sizes), axis=1)
    given = density.circuit.condition(rows.states.rows(np.array([row])))
    worlds = np.exp(given.log_likelihood(states)).reshape(sizes)
    total, mean, square = 0.0, 0.0, 0.0
    for span in spans(int(np.prod(counts)), max(1, max_bytes // (64 * len(f.points)))):
        at = np.unravel_index(np.arange(span.start, span.stop), counts)
        share = worlds[tuple(state[k] for (_, _, state), k in zip(nodes, at, strict=True))]
        Z = np.repeat(rows.Z[row][None], len(share), axis=0)
        for variable, (values, weight, _), k in zip(variables, nodes, at, strict=True):
            share = share * weight[k]
            Z[:, variable.columns] = values[k]
        used = share > 0
        if used.any():
            y, share = f.at(density, Z[used], Resources(max_bytes=max_bytes)), share[used]
            weight, before = share.sum(), total
            centre, total = share @ y / weight, before + weight
            square += share @ (y - centre) ** 2 + (centre - mean) ** 2 * (before * weight / total)
            mean += (centre - mean) * (weight / total)
    return square / total
