"""Values, integrals and samples of unit graphs, one pass over the units in topological order.

These serve graphs that have no vtree, where blocks and the sweep over them do not apply.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from expectedkernels.arrays import as_generator, on_host
from expectedkernels.errors import DataError, PropertyError

if TYPE_CHECKING:  # units offer these functions as methods, so their module imports this one
    from expectedkernels.circuits.graph import Graph

Array = np.ndarray[Any, np.dtype[Any]]

CELLS_AT_ONCE = 2**24
"""Rows are evaluated in chunks of about this many values over all units."""


def evaluate(graph: Graph, columns: dict[int, Array]) -> tuple[list[Array], list[Array]]:
    """The log of the absolute value and the sign of every unit, at every row.

    `columns` holds prepared values, one column per variable (see `prepared`).
    """
    logs: list[Array] = []
    signs: list[Array] = []
    for unit, inputs in zip(graph.units, graph.inputs, strict=True):
        if unit.kind == "input":
            log, sign = unit.log_values(columns[unit.variable])  # type: ignore[attr-defined]
        else:
            log, sign = np.stack([logs[j] for j in inputs]), np.stack([signs[j] for j in inputs])
            if unit.kind == "sum":
                log, sign = _weighted_sum(unit.weights, log, sign)  # type: ignore[attr-defined]
            else:
                log, sign = log.sum(axis=0), sign.prod(axis=0)
        logs.append(log)
        signs.append(sign)
    return logs, signs


def _weighted_sum(weights: Array, logs: Array, signs: Array) -> tuple[Array, Array]:
    """The weighted sum of the rows as log and sign, scaled by the largest term."""
    with np.errstate(divide="ignore"):
        terms = logs + np.log(np.abs(weights))[:, None]
        top = terms.max(axis=0)
        top = np.where(top == -np.inf, 0.0, top)
        total = (np.sign(weights)[:, None] * signs * np.exp(terms - top)).sum(axis=0)
        return top + np.log(np.abs(total)), np.sign(total)


def log_likelihood(graph: Graph, X: Any) -> Array:
    """The log of the root's value at every row, NaN entries marginalised out."""
    columns, missing = prepared(graph, X)
    if missing:
        _require_tractable(graph, "Marginalising out missing values")
    n = len(next(iter(columns.values())))
    rows = max(1, CELLS_AT_ONCE // len(graph.units))
    log, sign = np.empty(n), np.empty(n)
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        logs, signs = evaluate(graph, {v: column[part] for v, column in columns.items()})
        log[part], sign[part] = logs[-1], signs[-1]
    if (sign < 0).any():
        raise PropertyError(
            "A circuit must be non-negative to have a log-likelihood. "
            f"Got a negative value in row {int(np.argmax(sign < 0))}."
        )
    return log


def log_partition(graph: Graph) -> float:
    """The log of the root's sum or integral over all values of its variables."""
    logs, signs = _integrals(graph, "A partition function")
    if signs[-1] < 0:
        raise PropertyError(
            "The partition function of a circuit must be non-negative to have a logarithm. "
            f"Got a negative one, with absolute value exp({logs[-1]:.6g})."
        )
    return float(logs[-1])


def sample(graph: Graph, n: int, rng: Any) -> Array:
    """Samples from the distribution proportional to the root, NaN outside its scope."""
    if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 0:
        raise DataError(f"The number of samples must be a non-negative int. Got {n!r} instead.")
    if (reason := graph.has_negative()) is not None:
        raise PropertyError(f"Sampling needs non-negative weights and tables, but {reason}.")
    logs, _ = _integrals(graph, "Sampling")
    if logs[-1] == -np.inf:
        raise PropertyError("The circuit is zero everywhere: there is nothing to sample from.")
    generator = as_generator(rng)
    X = np.full((int(n), graph.masks[-1].bit_length()), np.nan)
    arriving: list[list[Array]] = [[] for _ in graph.units]
    arriving[-1].append(np.arange(int(n)))
    for i in range(len(graph.units) - 1, -1, -1):
        if not arriving[i]:
            continue
        rows = np.concatenate(arriving[i])
        arriving[i] = []
        unit: Any = graph.units[i]
        if unit.kind == "input":
            X[rows, unit.variable] = unit.draw(len(rows), generator)
        elif unit.kind == "sum":
            with np.errstate(divide="ignore"):
                scores = np.log(unit.weights) + logs[list(graph.inputs[i])]
            choice = draw_positions(np.exp(scores - scores.max()), len(rows), generator)
            for j, chosen in _groups(rows, choice):
                arriving[graph.inputs[i][j]].append(chosen)
        else:
            for j in graph.inputs[i]:
                arriving[j].append(rows)
    return X


def prepared(graph: Graph, X: Any) -> tuple[dict[int, Array], bool]:
    """The checked columns of the variables in the scope, and whether any value is missing.

    States of discrete variables become integers, with the number of states standing for
    "missing"; values of real variables stay floats, with NaN for it.
    """
    try:
        X = np.asarray(on_host(X), dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(f"X must be an array of numbers: {error}.") from None
    width = graph.masks[-1].bit_length()
    if X.ndim != 2 or X.shape[1] < width:
        raise DataError(
            f"X must have shape (rows, columns) with at least {width} columns, one per variable. "
            f"Got shape {X.shape} instead."
        )
    columns: dict[int, Array] = {}
    any_missing = False
    for v, card in graph.cardinalities.items():
        columns[v], missing = _prepared_column(X[:, v], v, card)
        any_missing = any_missing or missing
    return columns, any_missing


def _prepared_column(column: Array, variable: int, card: int | None) -> tuple[Array, bool]:
    missing = np.isnan(column)
    if card is None:
        wrong, domain = np.isinf(column), "finite"
    else:
        inside = (column >= 0) & (column < card) & (column == np.floor(column))
        wrong, domain = ~missing & ~inside, f"integers from 0 to {card - 1}"
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"The values of variable {variable} must be {domain}, or NaN for missing. "
            f"Got {column[row]} in row {row}."
        )
    if card is not None:
        column = np.where(missing, card, column).astype(np.intp)
    return column, bool(missing.any())


def _integrals(graph: Graph, what: str) -> tuple[Array, Array]:
    """The partition function of every unit as log and sign."""
    _require_tractable(graph, what)
    columns = {
        v: np.array([np.nan]) if card is None else np.array([card])
        for v, card in graph.cardinalities.items()
    }
    logs, signs = evaluate(graph, columns)
    return np.concatenate(logs), np.concatenate(signs)


def _require_tractable(graph: Graph, what: str) -> None:
    reason = graph.not_smooth() or graph.not_decomposable()
    if reason is not None:
        raise PropertyError(f"{what} needs a smooth and decomposable circuit, but {reason}.")


def draw_positions(weights: Array, n: int, generator: np.random.Generator) -> Array:
    """Positions drawn with probabilities proportional to the weights."""
    cumulative = np.cumsum(weights)
    return np.searchsorted(cumulative / cumulative[-1], generator.random(n), side="right")


def _groups(rows: Array, choice: Array) -> Iterator[tuple[int, Array]]:
    """The rows of every choice that occurs."""
    order = np.argsort(choice, kind="stable")
    values, starts = np.unique(choice[order], return_index=True)
    return zip(values.tolist(), np.split(rows[order], starts[1:]), strict=True)
