"""Kernels that factorise, at all pairs of points: sums over variables by matrix products.

A product of factors is one exponential of a sum over variables. Squared distances, counts of
unequal values, and sums of logs of tables are matrix products; other distances are looped over by
SciPy, without temporaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np

from expectedkernels.errors import KernelError
from expectedkernels.kernels.factors import Factor

EXACT = 2.0**52
"""Whole numbers below this, and their sums, are exact."""
EXPANDED = 256.0
"""Up to this sum of squared norms |x|^2 + |y|^2 - 2 xy is as good as needed: the log of the kernel
is wrong by about 1e-16 times it."""
MOST_STATES = 32
"""Columns of whole numbers with at most so many different ones are compared as indicators."""
FEW_STATES = 5
"""Up to so many states a column, sums by matrix products are faster than pair by pair."""
LARGE_LOG = 256.0
"""Products of tables are sums of logs up to this size, which are wrong by about 1e-16 times it."""


def log_products(
    factors: Sequence[Factor], X: Any, Y: Any, relative: bool = False
) -> tuple[Any, Any]:
    """Logs of the absolute values of a product of factors at all pairs of rows, and its signs.

    The logs have a small absolute error, so that the kernel has a small relative one; with
    `relative` theirs is small relative to themselves. Signs are None if no value is negative.

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [1.0, 3.0]])
    >>> log_products([Factor(square=1.0), Factor(absolute=0.5)], X, X)[0].tolist()
    [[0.0, -2.5], [-2.5, 0.0]]
    """
    parts = [
        _square_logs(*_used(factors, "square", X, Y), relative),
        _absolute_logs(*_used(factors, "absolute", X, Y)),
        _unequal_logs(*_used(factors, "unequal", X, Y)),
    ]
    signs = None
    if any(factor.table is not None for factor in factors):
        logs, signs = _table_logs(factors, X, Y)
        parts.append(logs)
    found = [part for part in parts if part is not None]
    if not found:
        return np.zeros((len(X), len(Y))), signs
    total = found[0]
    for part in found[1:]:
        total += part
    return total, signs


def product_values(factors: Sequence[Factor], X: Any, Y: Any) -> Any:
    """The values of a product of factors at all pairs of rows.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0]])
    >>> product_values([Factor(square=1.0)], X, X).round(6).tolist()
    [[1.0, 0.367879], [0.367879, 1.0]]
    """
    logs, signs = log_products(factors, X, Y)
    values = np.exp(logs, out=logs)
    return values if signs is None else values * signs


def _used(factors: Sequence[Factor], rate: str, X: Any, Y: Any) -> tuple[Any, Any, Any]:
    """The rates of one kind that are not zero, and the columns that have them."""
    if factors.count(factors[0]) == len(factors):
        rates = np.full(len(factors), getattr(factors[0], rate))
        return (rates, X, Y) if rates[0] else (rates[:0], X[:, :0], Y[:, :0])
    rates = np.asarray([getattr(factor, rate) for factor in factors])
    used = np.flatnonzero(rates)
    if len(used) == len(rates):
        return rates, X, Y
    return rates[used], X[:, used], Y[:, used]


def _square_logs(rates: Any, X: Any, Y: Any, relative: bool) -> Any:
    if not len(rates):
        return None
    alike, ranges = bool((rates == rates[0]).all()), _whole_ranges(X, Y)
    if ranges is not None:
        low, high = ranges
        if alike and len(rates) * float((high - low).max()) ** 2 < EXACT / 8:
            logs = _expanded(X - low, Y - low)
            logs *= rates[0]
            return logs
        if _are_few(low, high):
            return _by_states([-r * _squared(n) for r, n in _sizes(rates, low, high)], X, Y, low)
    if not relative and len(X) and len(Y) and _spread(rates, X, Y) <= EXPANDED:
        logs = _expanded_about_mean(rates, X, Y)
        if logs is not None:
            return logs
    return _distances(X, Y, "sqeuclidean", rates, alike)


def _absolute_logs(rates: Any, X: Any, Y: Any) -> Any:
    if not len(rates):
        return None
    alike, ranges = bool((rates == rates[0]).all()), _cheap_states(X, Y)
    if ranges is None:
        return _distances(X, Y, "cityblock", rates, alike)
    # whole numbers are summed exactly
    factors = np.ones(len(rates)) if alike else rates
    tables = [-r * np.sqrt(_squared(n)) for r, n in _sizes(factors, *ranges)]
    logs = _by_states(tables, X, Y, ranges[0])
    if alike:
        logs *= rates[0]
    return logs


def _unequal_logs(rates: Any, X: Any, Y: Any) -> Any:
    """Counts of unequal values times rates, of which some may be infinite."""
    if not len(rates):
        return None
    never = rates == inf
    if never.any() and not never.all():
        logs = _unequal_logs(rates[~never], X[:, ~never], Y[:, ~never])
        return np.where(_unequal(X[:, never], Y[:, never]) < 0, -inf, logs)
    if never.any():
        return np.where(_unequal(X, Y) < 0, -inf, 0.0)
    if (rates == rates[0]).all():
        logs = _unequal(X, Y)
        logs *= rates[0]
        return logs
    ranges = _few_states(X, Y)
    if ranges is not None:
        low, high = ranges
        return _by_states([r * (np.eye(n) - 1) for r, n in _sizes(rates, low, high)], X, Y, low)
    logs = _distances(X, Y, "hamming", rates, False)
    logs *= rates.sum()  # the distance is a weighted mean
    return logs


def _unequal(X: Any, Y: Any) -> Any:
    """Less the number of columns in which two rows differ."""
    ranges = _few_states(X, Y)
    if ranges is None:
        logs = _distances(X, Y, "hamming", np.ones(1), True)
        logs *= X.shape[1]
        return np.rint(logs, out=logs)
    low, high = ranges
    if (high - low <= 1).all():
        return _expanded(X - low, Y - low)
    sizes = (high - low + 1).astype(np.intp)
    logs = _indicators(X, low, sizes) @ _indicators(Y, low, sizes).T
    logs -= X.shape[1]
    return logs


def _table_logs(factors: Sequence[Factor], X: Any, Y: Any) -> tuple[Any, Any]:
    """The sums of the logs of tables, and the signs of their products."""
    columns = [v for v, factor in enumerate(factors) if factor.table is not None]
    tables: list[Any] = [factors[v].table for v in columns]
    for v, table in zip(columns, tables, strict=True):
        for side in (X, Y):
            check_states(table, side[:, v], v)
    X, Y, low = X[:, columns], Y[:, columns], np.zeros(len(columns))
    sizes = [np.abs(table) for table in tables]
    logs_of = [np.log(size, where=size > 0, out=np.zeros_like(size)) for size in sizes]
    if sum(float(np.abs(logs).max()) for logs in logs_of) <= LARGE_LOG:
        logs = _by_states(logs_of, X, Y, low)
    else:
        logs = _log_of_products(tables, X, Y)
    if any((size == 0).any() for size in sizes):
        zeros = _by_states([(size == 0).astype(np.float64) for size in sizes], X, Y, low)
        logs[zeros > 0] = -inf
    if not any((table < 0).any() for table in tables):
        return logs, None
    below = _by_states([(table < 0).astype(np.float64) for table in tables], X, Y, low)
    return logs, 1.0 - 2.0 * (below % 2)


def _log_of_products(tables: list[Any], X: Any, Y: Any) -> Any:
    """The logs of products of entries of tables, multiplied as mantissas beside exponents."""
    mantissa, exponent = np.ones((len(X), len(Y))), np.zeros((len(X), len(Y)), dtype=np.intp)
    for v, table in enumerate(tables):
        size = np.abs(np.where(table == 0, 1.0, table))
        entries = size[X[:, v].astype(np.intp)][:, Y[:, v].astype(np.intp)]
        mantissa, more = np.frexp(mantissa * entries)
        exponent += more
    return np.log(mantissa) + exponent * np.log(2.0)


def check_states(table: Any, column: Any, variable: int) -> None:
    """Raise unless all values are states of a table."""
    if ((column < 0) | (column >= len(table)) | (column != np.floor(column))).any():
        raise KernelError(
            f"The table of variable {variable} is for states 0..{len(table) - 1}. "
            "Got points with other values."
        )


def _whole_ranges(X: Any, Y: Any) -> tuple[Any, Any] | None:
    """The least and greatest entry of every column of both, None unless all are whole numbers."""
    if not len(X) or not len(Y):
        return None
    for side in (X, Y):
        if not np.array_equal(side, np.rint(side)):
            return None
    low = np.minimum(X.min(axis=0), Y.min(axis=0))
    high = np.maximum(X.max(axis=0), Y.max(axis=0))
    return (low, high) if max(abs(low).max(), abs(high).max()) < EXACT else None


def _are_few(low: Any, high: Any) -> bool:
    """Whether columns of whole numbers have few different ones."""
    return bool((high - low < MOST_STATES).all())


def _few_states(X: Any, Y: Any) -> Any:
    """The least and greatest entries of columns that have few states, else None."""
    ranges = _whole_ranges(X, Y)
    return ranges if ranges is not None and _are_few(*ranges) else None


def _cheap_states(X: Any, Y: Any) -> Any:
    """The least and greatest entries of columns with so few states that pairs take longer."""
    ranges = _few_states(X, Y)
    return ranges if ranges is not None and (ranges[1] - ranges[0]).mean() < FEW_STATES else None


def _sizes(rates: Any, low: Any, high: Any) -> Any:
    """Every rate, and the number of states that its column may have."""
    return zip(rates.tolist(), (high - low + 1).astype(np.intp).tolist(), strict=True)


def _squared(n: int) -> Any:
    """The squared differences of n states."""
    states = np.arange(n, dtype=np.float64)
    return (states[:, None] - states[None, :]) ** 2


def _expanded(X: Any, Y: Any) -> Any:
    """Less the squared distances, by one matrix product; exact if all entries are whole numbers."""
    ones = np.ones((max(len(X), len(Y)), 1))
    left = np.hstack([2.0 * X, -_norms(X), -ones[: len(X)]])
    return left @ np.hstack([Y, ones[: len(Y)], _norms(Y)]).T


def _norms(X: Any) -> Any:
    return np.einsum("ij,ij->i", X, X)[:, None]


def _about_mean(rates: Any, X: Any, Y: Any) -> tuple[Any, Any]:
    """Both sets of points about their common middle, in units of the rates."""
    middle, root = 0.5 * X.mean(axis=0) + 0.5 * Y.mean(axis=0), np.sqrt(rates)
    A = (X - middle) * root
    return A, A if Y is X else (Y - middle) * root


def _spread(rates: Any, X: Any, Y: Any) -> float:
    """The largest sum of squared norms about the middle; not a number where it is too large."""
    with np.errstate(over="ignore", invalid="ignore"):
        A, B = _about_mean(rates, X, Y)
        return float(_norms(A).max() + _norms(B).max())


def _expanded_about_mean(rates: Any, X: Any, Y: Any) -> Any:
    """The logs by one matrix product, None if too many points are nearly equal.

    Those of nearly equal points are computed by their definition: equal points have log zero.
    """
    A, B = _about_mean(rates, X, Y)
    size = float(_norms(A).max() + _norms(B).max())
    if B is A:  # every step gives a symmetric matrix
        logs = A @ A.T
        logs *= 2.0
        logs -= _norms(A) + _norms(A).T
    else:
        logs = _expanded(A, B)
    close = np.flatnonzero(logs.ravel() > -1e-9 * size)
    if len(close) * len(rates) > logs.size:
        return None
    row, column = np.divmod(close, len(Y))
    logs.ravel()[close] = -((X[row] - Y[column]) ** 2 @ rates)
    return logs


def _distances(X: Any, Y: Any, metric: str, rates: Any, alike: bool) -> Any:
    """Less the distances, in which columns count with their rates."""
    from scipy.spatial import distance  # slow to import, and only needed here

    given = {} if alike else {"w": rates}
    if Y is X and len(X):  # half of them, and nothing on the diagonal
        found = distance.pdist(X, metric, **given)
    else:
        found = distance.cdist(X, Y, metric, **given)
    found *= -rates[0] if alike else -1.0
    return distance.squareform(found, checks=False) if found.ndim == 1 else found


def _by_states(tables: list[Any], X: Any, Y: Any, low: Any) -> Any:
    """Sums over columns of tables at pairs of states, which are counted from `low`."""
    sizes = np.asarray([len(table) for table in tables])
    codes = (Y - low).astype(np.intp)
    right = np.vstack([table[:, codes[:, v]] for v, table in enumerate(tables)])
    return _indicators(X, low, sizes) @ right


def _indicators(X: Any, low: Any, sizes: Any) -> Any:
    """Ones where a column is in a state, all columns side by side."""
    starts = np.cumsum(sizes) - sizes
    found = np.zeros((len(X), int(sizes.sum())))
    found[np.arange(len(X))[:, None], (X - low).astype(np.intp) + starts] = 1.0
    return found
