"""Weights of densities by how well a machine predicts rows that are held out, with values hidden.

A machine is fitted again without each fifth of its rows, and predicts these under every density,
with a share of their values hidden. The weights are those of the best average of the predictions,
drawn towards equal ones.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from expectedkernels.estimators.calibration import Training, table
from expectedkernels.estimators.machines import expect
from expectedkernels.learning.orders import own_order

FEWEST_ROWS = 10
"""Fewer rows than this say nothing of weights: they are equal."""
HIDDEN = (0.1, 0.8)
"""Shares of the values that are hidden in a row are drawn between these."""
PULL = 0.02
"""How much equal weights count, in squared errors of the equal average."""


def stacked_weights(training: Training) -> Any:
    """The weights of the parts of an averaged density, (parts,); None if rows are too few.

    Parameters
    ----------
    training : Training
        Of a machine with equal weights, and of rows without missing values.
    """
    rng = training.generator()
    if len(training.Z) < FEWEST_ROWS:
        return None
    order, columns = own_order(training.Z, training.y)
    training, place = training.of_rows(order), np.argsort(columns)
    errors = []
    for rest, rows in training.folds(rng):
        machine, Z = training.without(rest, rows)
        variables = sorted(machine.density_.variables, key=lambda v: place[v.columns].min())
        Z = _hidden(variables, Z, rng)
        errors.append(_errors(machine, Z, table(training.y[rows])))
        if training.sample_weight is not None:
            errors[-1] *= np.sqrt(training.sample_weight[rows])[:, None, None]
    away = np.concatenate(errors)
    # targets in different units count alike
    away = away / np.maximum(away.std(axis=(0, 2), keepdims=True), np.finfo(np.float64).tiny)
    return best_average(away.reshape(-1, away.shape[2]))


def _hidden(variables: Any, Z: Any, rng: Any) -> Any:
    """Rows with a share of their variables hidden, another one for every row."""
    hide = rng.random((len(Z), len(variables))) < rng.uniform(*HIDDEN, size=(len(Z), 1))
    for i, variable in enumerate(variables):
        Z[np.ix_(hide[:, i], variable.columns)] = np.nan
    return Z


def _errors(machine: Any, Z: Any, y: Any) -> Any:
    """What predictions under every density are off, (rows, outputs, densities)."""
    found = [
        table(expect(machine._machine, part, Z, machine._resources)) - y
        for part in machine.density_.parts
    ]
    return np.stack(found, axis=2)


def best_average(errors: Any, pull: float = PULL) -> Any:
    """The weights a >= 0 of sum one with the least |errors a|^2, drawn towards equal ones.

    What is added is pull * |mean error|^2 * K * |a - 1/K|^2 for K weights.

    Parameters
    ----------
    errors : array of shape (answers, K)
    pull : float

    Examples
    --------
    >>> best_average(np.array([[1.0, -1.0], [1.0, -1.0]])).tolist()
    [0.5, 0.5]
    >>> best_average(np.array([[0.0, 1.0], [0.0, -2.0]])).round(3).tolist()
    [0.99, 0.01]
    """
    k = errors.shape[1]
    drawn = pull * float((errors.mean(axis=1) ** 2).sum()) * k
    form, linear = errors.T @ errors + drawn * np.eye(k), np.full(k, drawn / k)
    size = max(float(np.trace(form)), np.finfo(np.float64).tiny)
    form, linear = form / size, linear / size
    best = np.full(k, 1.0 / k)
    least = best @ form @ best - 2.0 * linear @ best
    # the minimum has some support, and is the minimum on its plane: there are few of these
    for n in range(1, k + 1):
        for support in combinations(range(k), n):
            s = list(support)
            system = np.ones((n + 1, n + 1))
            system[:n, :n], system[n, n] = form[np.ix_(s, s)], 0.0
            found = np.linalg.lstsq(system, np.append(linear[s], 1.0), rcond=None)[0][:n]
            if (found < 0).any():
                continue
            a = np.zeros(k)
            a[s] = found / found.sum()
            value = a @ form @ a - 2.0 * linear @ a
            if value < least:
                best, least = a, value
    return best
