"""Kernel values of points, scaled where they leave the range of doubles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from math import inf, log
from typing import Any

import numpy as np

from expectedkernels.arrays import detach, has_gradient, namespace
from expectedkernels.checks import KernelError
from expectedkernels.engine.scaled import ScaledArray
from expectedkernels.kernels.factors import Factor

EXACT = 2.0**52
"""Whole numbers below this, and their sums, are exact."""
EXPANDED = 256.0
"""Up to this sum of squared norms |x|^2 + |y|^2 - 2 xy is as good as needed: the log of the kernel
is wrong by about 1e-16 times it."""
METRICS = {"square": "sqeuclidean", "absolute": "cityblock", "unequal": "hamming"}
"""The distance of every kind of exponent."""


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
    logs = signs = None
    if any(factor.table is not None for factor in factors):
        logs, signs = _table_logs(factors, X, Y)
    never = np.zeros(len(factors), dtype=np.bool_)
    for kind in METRICS:
        rates = np.asarray([getattr(factor, kind) for factor in factors])
        never |= rates == inf
        used = (rates > 0) & (rates < inf)
        if used.any():
            part = _log_sums(kind, rates[used], *_columns(used, X, Y), relative)
            logs = part if logs is None else np.add(logs, part, out=logs)
    logs = np.zeros((len(X), len(Y))) if logs is None else logs
    if never.any():
        equal = _log_sums("unequal", np.ones(never.sum()), *_columns(never, X, Y)) == 0
        logs = np.where(equal, logs, -inf)
    return logs, signs


def _columns(used: Any, X: Any, Y: Any) -> tuple[Any, Any]:
    """Some of the columns of two sets of points; sets that are one stay so."""
    if used.all():
        return X, Y
    some = X[:, used]
    return some, some if Y is X else Y[:, used]


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


def _log_sums(kind: str, rates: Any, X: Any, Y: Any, relative: bool = True) -> Any:
    """Less the sums over columns of gammas times d^2, |d| or [d != 0] for differences d."""
    alike = bool((rates == rates[0]).all())
    ranges = _whole_ranges(X, Y)
    if ranges is not None:
        low, width = ranges
        # of differences that are at most one, all kinds are squares
        bits = width.max() <= 1
        if (kind == "square" or bits) and alike and len(rates) * width.max() ** 2 < EXACT / 8:
            logs = _expanded(X - low, Y - low)
            logs *= rates[0]
            return logs
        if bits:
            return _by_states([rate * (np.eye(2) - 1.0) for rate in rates], X, Y, low)
    if kind == "square" and not relative and len(X) and len(Y):
        logs = _expanded_about_mean(rates, X, Y)
        if logs is not None:
            return logs
    from scipy.spatial import distance  # slow to import, and only needed here

    given = {} if alike else {"w": rates}
    if Y is X and len(X):  # half of them, and nothing on the diagonal
        logs = distance.pdist(X, METRICS[kind], **given)
    else:
        logs = distance.cdist(X, Y, METRICS[kind], **given)
    logs *= -rates[0] if alike else -1.0
    if kind == "unequal":  # the distance is a weighted mean
        logs *= len(rates) if alike else rates.sum()
    return distance.squareform(logs, checks=False) if logs.ndim == 1 else logs


def _expanded(X: Any, Y: Any) -> Any:
    """Less the squared distances, by one matrix product; exact if all entries are whole numbers."""
    ones = np.ones((max(len(X), len(Y)), 1))
    left = np.hstack([2.0 * X, -_norms(X), -ones[: len(X)]])
    return left @ np.hstack([Y, ones[: len(Y)], _norms(Y)]).T


def _norms(X: Any) -> Any:
    """The squared norms of rows, as a column."""
    return np.einsum("ij,ij->i", X, X)[:, None]


def _expanded_about_mean(rates: Any, X: Any, Y: Any) -> Any:
    """The logs by one matrix product; None if points are far apart, or too many nearly equal.

    Twice as fast as distances pair by pair from 20 columns on. Logs of nearly equal points are
    computed by their definition: equal points have log zero.
    """
    middle, root = 0.5 * X.mean(axis=0) + 0.5 * Y.mean(axis=0), np.sqrt(rates)
    with np.errstate(over="ignore", invalid="ignore"):
        A = (X - middle) * root
        B = A if Y is X else (Y - middle) * root
        size = float(_norms(A).max() + _norms(B).max())
    if not size <= EXPANDED:
        return None
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


def _table_logs(factors: Sequence[Factor], X: Any, Y: Any) -> tuple[Any, Any]:
    """The sums of the logs of tables, and the signs of their products."""
    columns = [v for v, factor in enumerate(factors) if factor.table is not None]
    tables: list[Any] = [factors[v].table for v in columns]
    for v, table in zip(columns, tables, strict=True):
        check_states(table, v, X[:, v], Y[:, v])
    X, Y, low = X[:, columns], Y[:, columns], np.zeros(len(columns))
    sizes = [np.abs(table) for table in tables]
    logs_of = [np.log(size, where=size > 0, out=np.zeros_like(size)) for size in sizes]
    logs = _by_states(logs_of, X, Y, low)
    if any((size == 0).any() for size in sizes):
        zeros = _by_states([(size == 0).astype(np.float64) for size in sizes], X, Y, low)
        logs[zeros > 0] = -inf
    if not any((table < 0).any() for table in tables):
        return logs, None
    below = _by_states([(table < 0).astype(np.float64) for table in tables], X, Y, low)
    return logs, 1.0 - 2.0 * (below % 2)


def check_states(table: Any, variable: int, *columns: Any) -> None:
    """Raise unless all values are states that a table has."""
    x = np.concatenate(columns)
    if ((x < 0) | (x >= len(table)) | (x != np.floor(x))).any():
        raise KernelError(
            f"The table of variable {variable} is for states 0..{len(table) - 1}. "
            "Got points with other values."
        )


def _whole_ranges(X: Any, Y: Any) -> tuple[Any, Any] | None:
    """The least entry of every column of both, and its range; None unless all are whole numbers."""
    if not len(X) or not len(Y):
        return None
    for side in (X, Y):
        if not np.array_equal(side, np.rint(side)):
            return None
    low = np.minimum(X.min(axis=0), Y.min(axis=0))
    high = np.maximum(X.max(axis=0), Y.max(axis=0))
    return (low, high - low) if max(abs(low).max(), abs(high).max()) < EXACT else None


def _by_states(tables: list[Any], X: Any, Y: Any, low: Any) -> Any:
    """Sums over columns of tables at pairs of states, which are counted from `low`."""
    sizes = np.asarray([len(table) for table in tables])
    codes = (Y - low).astype(np.intp)
    right = np.vstack([table[:, codes[:, v]] for v, table in enumerate(tables)])
    indicators = np.zeros((len(X), len(right)))
    starts = np.cumsum(sizes) - sizes
    indicators[np.arange(len(X))[:, None], (X - low).astype(np.intp) + starts] = 1.0
    return indicators @ right


def in_tensors(values: ScaledArray) -> ScaledArray:
    """Values in tensors on the CPU."""
    import torch  # whoever asks for gradients has imported it

    return values.mapped(torch.as_tensor)


def scaled_products(factors: Sequence[Factor], X: Any, Y: Any) -> ScaledArray:
    """The values of a product of factors at all pairs of rows; tensors, if gradients are required.

    Logs are linear in gamma: those of gamma = 1 are what gradients need.
    """
    plain = [replace(f, table=None) if "table" in (f.tensors or {}) else f for f in factors]
    logs, signs = log_products(plain, X, Y, relative=True)
    values = ScaledArray(np.ones_like(logs) if signs is None else signs, logs)
    if not any(factor.tensors for factor in factors):
        return values
    values = in_tensors(values)
    data, scale = values.data, values.scale
    for name in METRICS:
        own = [(f.tensors or {}).get(name) for f in factors]
        for rate in {id(x): x for x in own if x is not None}.values():
            alone = [Factor(**{name: float(x is rate)}, tensors=None) for x in own]
            unit = scale.new_tensor(log_products(alone, X, Y, relative=True)[0])
            scale = scale + unit * (rate.to(scale) - rate.detach().to(scale))
    for variable, factor in enumerate(factors):
        if "table" in (factor.tensors or {}):
            table = factor.tensors["table"].to(data)  # type: ignore[index]
            x, y = X[:, variable], Y[:, variable]
            check_states(factor.table, variable, x, y)
            data = data * table[x.astype(np.intp)][:, y.astype(np.intp)]
    return ScaledArray(data, scale)


def summed(parts: Sequence[ScaledArray], weights: Sequence[Any]) -> ScaledArray:
    """The sum of values, each times a weight that may be a tensor."""
    terms = [
        (x.data * w.to(x.data), x.scale) if has_gradient(w) else (x.data, x.scale + log(w))
        for x, w in zip(parts, weights, strict=True)
    ]
    xp = namespace(parts[0].data)
    top = reduce(xp.maximum, (detach(scale) for _, scale in terms))
    top = xp.where(top > -inf, top, xp.zeros_like(top))
    return ScaledArray(sum(data * xp.exp(scale - top) for data, scale in terms), top)
