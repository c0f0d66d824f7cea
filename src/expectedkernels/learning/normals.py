"""Mixtures of normal distributions with full covariances: conditionals, and EM."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ContextDecorator
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, cast

import numpy as np
from sklearn.cluster import KMeans
from threadpoolctl import ThreadpoolController

from expectedkernels.arrays import chosen_rows, content_keys, normal_numbers, row_keys, spans

CHUNK_ENTRIES = 2**21
"""How many entries of stacked matrices are worked on at once, about."""
LOG_TAU = float(np.log(2.0 * np.pi))
RIDGE, LEAST = 1e-6, 1e-12
"""What is added to variances, those of columns that vary and of others."""
PRIOR_ROWS = 2.0
"""How many rows with independent columns are added to the data."""
KERNEL_CENTRES = 500
KERNEL_DRAWS = 3


@dataclass(frozen=True, eq=False)
class NormalMixture:
    """A mixture of normal distributions over a few real columns.

    Attributes
    ----------
    weights : array of shape (components,)
    means : array of shape (components, columns)
    covariances : array of shape (components or 1, columns, columns)
        One for all components, or one for each.
    """

    weights: Any
    means: Any
    covariances: Any


class OneThread(ContextDecorator):
    """BLAS with one thread: the matrices of one pattern are too small to be shared out.

    The limit is that of the process. Threads may enter at once: the last one to leave lifts it.
    """

    def __init__(self) -> None:
        self.lock, self.users, self.limit = Lock(), 0, cast(Any, None)

    @cached_property
    def pools(self) -> ThreadpoolController:
        """The libraries that are loaded, which takes long to find out."""
        return ThreadpoolController()

    def __enter__(self) -> None:
        with self.lock:
            self.users += 1
            if self.users == 1:
                self.limit = self.pools.limit(limits=1, user_api="blas")

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.users -= 1
            if not self.users:
                self.limit.restore_original_limits()


one_thread = OneThread()


@dataclass(frozen=True, eq=False)
class Given:
    """Some rows, in the order of their patterns of missing values, and the mixture given each.

    Patterns with about as many missing columns come together. What has fewer is filled up with a
    column behind the last, of which everything is zero.

    Attributes
    ----------
    rows : array of int
    pattern : array of int
        The pattern of every row.
    columns : array of shape (patterns, missing)
        The missing columns, filled up with the number of columns.
    responsibilities : array of shape (rows, components)
        The posterior weights of the components.
    means : array of shape (rows, components, missing)
        Of the components given the row.
    covariances : array of shape (components or 1, patterns, missing, missing)
    logs : array of shape (rows,)
        Log-densities of what is observed.
    """

    rows: Any
    pattern: Any
    columns: Any
    responsibilities: Any
    means: Any
    covariances: Any
    logs: Any

    def by_pattern(self) -> Iterator[tuple[int, Any]]:
        """Every pattern, and the places of its rows among these."""
        stops = np.searchsorted(self.pattern, np.arange(1, len(self.columns)))
        return enumerate(np.split(np.arange(len(self.rows)), stops))

    def filled(self, Z: Any, values: Any) -> Any:
        """The rows of a table with values, (..., rows, missing), in their missing columns."""
        wide = np.zeros((*values.shape[:-1], Z.shape[1] + 1))
        wide[..., :-1] = Z[self.rows]
        wide[..., np.arange(len(self.rows))[:, None], self.columns[self.pattern]] = values
        return wide[..., :-1]


Group = tuple[Any, Any, Any]
"""Rows, their patterns, and the missing columns of these, as in `Given`."""


def pattern_groups(Z: Any) -> list[Group]:
    """Rows by their patterns of missing values, of about as many missing columns each."""
    d = Z.shape[1]
    patterns, of = np.unique(np.isnan(Z), axis=0, return_inverse=True)
    order, sizes = np.argsort(of.ravel(), kind="stable"), patterns.sum(axis=1)
    bounds = [0, 1]
    while bounds[-1] <= sizes.max(initial=0):  # each at most a third above the first, or by one
        bounds.append(bounds[-1] + max(2, 1 + bounds[-1] // 3))
    found = []
    for low, high in itertools.pairwise(bounds):
        chosen = np.flatnonzero((sizes >= low) & (sizes < high))
        if len(chosen):
            columns = np.sort(np.where(patterns[chosen], np.arange(d), d), axis=1)
            pattern = np.searchsorted(chosen, of.ravel()[order])
            there = chosen[np.minimum(pattern, len(chosen) - 1)] == of.ravel()[order]
            found.append((order[there], pattern[there], columns[:, : sizes[chosen].max()]))
    return found


def condition(mixture: NormalMixture, Z: Any, groups: list[Group] | None = None) -> Iterator[Given]:
    """The mixture given the observed columns of rows, not too many rows at once."""
    Z = np.asarray(Z, dtype=np.float64)
    forms = [_precision(S) for S in mixture.covariances]
    for rows, pattern, columns in pattern_groups(Z) if groups is None else groups:
        size = max(mixture.means.size, len(forms) * columns.shape[1] ** 2, 1)
        for span in spans(len(rows), max(1, CHUNK_ENTRIES // size)):
            first, last = pattern[span][0], pattern[span][-1]
            group = rows[span], pattern[span] - first, columns[first : last + 1]
            yield _condition(mixture, forms, Z[rows[span]], group)


def _condition(mixture: NormalMixture, forms: list[Any], X: Any, group: Group) -> Given:
    """The mixture given rows of a group.

    Given the rest, the missing columns have the inverse of their part of the precision matrix as
    covariance. Completed by their means, deviations have the density of what is observed.
    """
    (_, pattern, columns), (n, d) = group, X.shape
    every, number = np.arange(columns.shape[1]), np.arange(len(columns))[:, None]
    missing = np.zeros((len(columns), d + 1), dtype=np.bool_)
    missing[number, columns] = True
    at = np.arange(n)[:, None], columns[pattern]
    x = np.zeros((n, d + 1))
    x[:, :d] = np.where(missing[pattern, :d], 0.0, X)
    means = np.empty((n, len(mixture.means), len(every)))
    logs, covariances = np.empty(means.shape[:2]), []
    padded = np.zeros((len(mixture.means), d + 1))
    padded[:, :d] = mixture.means
    for i, (P, root, log_det) in enumerate(forms):
        of = slice(None) if len(forms) == 1 else slice(i, i + 1)
        blocks = P[columns[:, :, None], columns[:, None]]
        blocks[:, every, every] += columns == d
        left = np.linalg.inv(blocks)
        own = -(left[pattern] @ (x @ P)[at][:, :, None])[:, :, 0]
        centres = np.where(missing, 0.0, padded[of, None])
        shift = -(centres @ P)[:, number, columns].swapaxes(0, 1) @ left
        means[:, of] = (padded[of][:, columns].swapaxes(0, 1) - shift)[pattern] + own[:, None]
        x[at] = own
        centres[:, number, columns] = shift.swapaxes(0, 1)
        away = (x[:, :d] @ root)[:, None] - (centres[..., :d] @ root).swapaxes(0, 1)[pattern]
        size = log_det + np.linalg.slogdet(blocks)[1] - missing[:, :d].sum(1) * LOG_TAU
        logs[:, of] = -0.5 * (np.einsum("ncd,ncd->nc", away, away) + size[pattern, None])
        x[at] = 0.0
        left[:, every, every] -= columns == d
        covariances.append(left)
    with np.errstate(divide="ignore"):
        logs += np.log(mixture.weights) - 0.5 * d * LOG_TAU
    top = logs.max(axis=1, keepdims=True)
    shares = np.exp(logs - top)
    total = shares.sum(axis=1, keepdims=True)
    found = (means, np.stack(covariances), (top + np.log(total))[:, 0])
    return Given(*group, shares / total, *found)


def _precision(S: Any) -> tuple[Any, Any, float]:
    """The inverse P of a covariance, a root R with R R' = P, and the log-determinant of S.

    P has a row and a column of zeros behind the last.
    """
    factor = np.linalg.cholesky(S)
    root = np.linalg.inv(factor).T
    return np.pad(root @ root.T, (0, 1)), root, 2.0 * float(np.log(np.diag(factor)).sum())


def log_likelihood(mixture: NormalMixture, Z: Any) -> Any:
    """The log-densities of the observed values of rows."""
    logs = np.empty(len(Z))
    for part in condition(mixture, Z):
        logs[part.rows] = part.logs
    return logs


def conditional_means(mixture: NormalMixture, Z: Any) -> Any:
    """The rows with the conditional means of their missing values."""
    found = np.array(Z, dtype=np.float64)
    for part in condition(mixture, Z):
        means = np.einsum("nc,ncu->nu", part.responsibilities, part.means)
        found[part.rows] = part.filled(found, means)
    return found


def draws(mixture: NormalMixture, Z: Any, n: int, rng: Any) -> Any:
    """Completions of the rows, (n, rows, columns)."""
    Z = np.asarray(Z, dtype=np.float64)
    uniform, normal = np.empty((n, len(Z))), np.empty((n, *Z.shape))
    _, pattern = np.unique(np.isnan(Z), axis=0, return_inverse=True)
    for number in np.unique(pattern):
        rows = np.flatnonzero(pattern.ravel() == number)
        uniform[:, rows] = rng.random((n, len(rows)))
        normal[:, rows] = rng.standard_normal((n, len(rows), Z.shape[1]))
    return _completions(mixture, Z, uniform, normal, np.arange(Z.shape[1]))


def _completions(mixture: NormalMixture, Z: Any, uniform: Any, normal: Any, keys: Any) -> Any:
    """Completions of rows by uniform and normal numbers; columns of equal keys share theirs."""
    found = np.repeat(Z[None], len(normal), axis=0)
    normal, same = np.pad(normal, ((0, 0), (0, 0), (0, 1))), np.pad(keys[:, None] == keys, (0, 1))
    for part in condition(mixture, Z):
        bounds = np.cumsum(part.responsibilities, axis=1)
        component = (uniform[:, part.rows, None] * bounds[:, -1:] >= bounds).sum(axis=2)
        component = component.clip(max=bounds.shape[1] - 1)
        alike = same[part.columns[:, :, None], part.columns[:, None]].sum(axis=1).clip(min=1)
        values, vectors = np.linalg.eigh(part.covariances)
        roots = (vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]) @ vectors.swapaxes(2, 3)
        roots = roots / np.sqrt(alike)[:, None]
        at = component if len(roots) > 1 else np.zeros((1, 1), dtype=np.intp)
        numbers = normal[:, part.rows[:, None], part.columns[part.pattern]]
        shift = (roots[at, part.pattern] @ numbers[..., None])[..., 0]
        means = part.means[np.arange(len(part.rows)), component]
        found[:, part.rows] = part.filled(Z, means + shift)
    return found


def fit_normal(Z: Any, *, steps: int = 25, tolerance: float = 1e-3) -> NormalMixture:
    """The normal distribution of incomplete rows, by exact EM, drawn a little to independence.

    Parameters
    ----------
    Z : array of shape (rows, columns)
        Standardised, NaN where missing.
    steps : int
        At most so many steps.
    tolerance : float
        Stop when a step gains less than this in the mean log-likelihood.
    """
    Z = np.asarray(Z, dtype=np.float64)
    mean, spread = moments(Z)
    start = NormalMixture(np.ones(1), mean[None], np.diag(spread + _ridge(spread))[None])
    return _em(Z, start, spread, steps, tolerance)


@one_thread
def _em(Z: Any, mixture: NormalMixture, spread: Any, steps: int, tolerance: float) -> NormalMixture:
    groups, before = pattern_groups(Z), -np.inf
    for _ in range(steps):
        total, counts, first, second = _expected_sums(mixture, Z, groups)
        mixture = _maximised(mixture.means, counts, first, second, spread)
        if total - before < tolerance * len(Z) or (len(counts) == 1 and not np.isnan(Z).any()):
            break
        before = total
    return mixture


def _expected_sums(mixture: NormalMixture, Z: Any, groups: list[Group]) -> Any:
    """The log-likelihood; expected counts and moments about the means, of every component."""
    c, d = mixture.means.shape
    total, counts = 0.0, np.zeros(c)
    first, second = np.zeros((c, d)), np.zeros((c, d, d))
    for part in condition(mixture, Z, groups):
        total += float(part.logs.sum())
        counts += part.responsibilities.sum(axis=0)
        places = part.columns[:, :, None] * (d + 1) + part.columns[:, None]
        pairs = zip(part.responsibilities.T, part.covariances, strict=True)
        for i, (share, left) in enumerate(pairs):
            away = part.filled(Z, part.means[:, i]) - mixture.means[i]
            weighed = away * share[:, None]
            first[i] += weighed.sum(axis=0)
            left = left * np.bincount(part.pattern, share, len(left))[:, None, None]
            scattered = np.bincount(places.ravel(), left.ravel(), (d + 1) ** 2)
            second[i] += weighed.T @ away + scattered.reshape(d + 1, d + 1)[:d, :d]
    return total, counts, first, second


def moments(Z: Any) -> tuple[Any, Any]:
    """The means and variances of the observed values of all columns."""
    observed = ~np.isnan(Z)
    n = np.maximum(observed.sum(axis=0), 1)
    mean = np.where(observed, Z, 0.0).sum(axis=0) / n
    return mean, (np.where(observed, Z - mean, 0.0) ** 2).sum(axis=0) / n


def _ridge(spread: Any) -> Any:
    return np.where(spread > LEAST, RIDGE, LEAST)


def kernel_mixture(Z: Any, normal: NormalMixture, width: float, rng: Any) -> NormalMixture:
    """One component for every row, all of one covariance; mean and covariance stay the normal's.

    Parameters
    ----------
    Z : array of shape (rows, columns)
        An incomplete row enters as a few samples of what is missing. They do not depend on
        the order of rows and columns.
    normal : NormalMixture
        One component.
    width : float in (0, 1]
        One is the normal itself; towards zero only the nearest row counts.
    rng : Generator
    """
    Z, seed = np.asarray(Z, dtype=np.float64), int(rng.integers(2**31 - 1))
    Z = Z[chosen_rows(Z, KERNEL_CENTRES, seed)]
    gaps = np.isnan(Z).any(axis=1)
    n_draws = max(1, min(KERNEL_DRAWS, (KERNEL_CENTRES - int((~gaps).sum())) // max(1, gaps.sum())))
    centres, weights = [Z[~gaps]], [np.ones(int((~gaps).sum()))]
    if gaps.any():
        rows, columns = row_keys(Z, seed)[gaps], content_keys(Z)[1]
        numbers = normal_numbers(rows, columns, n_draws)
        samples = _completions(normal, Z[gaps], np.zeros(numbers.shape[:2]), numbers, columns)
        centres.append(samples.reshape(-1, Z.shape[1]))
        weights.append(np.full(len(centres[-1]), 1.0 / n_draws))
    mean = normal.means[0]
    rows, shares = np.concatenate(centres), np.concatenate(weights)
    means = mean + np.sqrt(1.0 - width**2) * (rows - mean)
    return NormalMixture(shares / shares.sum(), means, width**2 * normal.covariances)


def fit_mixture(Z: Any, n_components: int, *, rng: Any) -> NormalMixture:
    """A mixture of normal distributions of incomplete rows, by exact EM.

    Parameters
    ----------
    Z : array of shape (rows, columns)
        Standardised, NaN where missing.
    n_components : int
    rng : Generator
    """
    Z = np.asarray(Z, dtype=np.float64)
    spread = moments(Z)[1]
    filled = conditional_means(fit_normal(Z), Z)
    n = min(n_components, len(np.unique(filled, axis=0)))
    seed = int(rng.integers(2**31 - 1))
    label = KMeans(n, n_init=1, random_state=seed).fit_predict(filled)
    counts = np.bincount(label, minlength=n).astype(np.float64)
    means = np.stack([filled[label == c].mean(axis=0) for c in range(n)])
    away = [filled[label == c] - means[c] for c in range(n)]
    scatter = np.stack([x.T @ x for x in away])
    start = _maximised(means, counts, np.zeros_like(means), scatter, spread)
    return _em(Z, start, spread, 50, 1e-3)


def _maximised(means: Any, counts: Any, first: Any, second: Any, spread: Any) -> NormalMixture:
    n = np.maximum(counts, 1e-300)
    step = first / n[:, None]
    scatter = second - counts[:, None, None] * step[:, :, None] * step[:, None, :]
    S = (scatter + PRIOR_ROWS * np.diag(spread)) / (counts + PRIOR_ROWS)[:, None, None]
    d = S.shape[1]
    S[:, np.arange(d), np.arange(d)] += _ridge(spread)
    weights = (counts + 1e-9) / (counts + 1e-9).sum()
    return NormalMixture(weights, means + step, S)
