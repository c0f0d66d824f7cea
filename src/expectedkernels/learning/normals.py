"""Mixtures of normal distributions with full covariances: conditionals, and learning with holes.

Given the other columns, the missing ones have the inverse of their part of the precision matrix as
covariance.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ContextDecorator
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, cast

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from threadpoolctl import ThreadpoolController

from expectedkernels.arrays import chosen_rows, content_keys, normal_numbers, row_keys

CHUNK_ENTRIES = 2**21
"""How many entries of stacked matrices are worked on at once, about."""
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
    """Some rows of one pattern, and the mixture given what they show.

    Attributes
    ----------
    rows : array of int
    columns : array of int
        Those that are missing.
    shares : array of shape (rows, components)
        The posterior weights of the components.
    means : array of shape (rows, components, missing)
        Of the components given the row.
    covariances : array of shape (components or 1, missing, missing)
    logs : array of shape (rows,)
        Log-densities of what is observed.
    """

    rows: Any
    columns: Any
    shares: Any
    means: Any
    covariances: Any
    logs: Any


def given(mixture: NormalMixture, Z: Any) -> Iterator[Given]:
    """The mixture given the observed columns of rows, pattern by pattern, not too many rows."""
    Z = np.asarray(Z, dtype=np.float64)
    patterns, pattern = np.unique(np.isnan(Z), axis=0, return_inverse=True)
    order = np.argsort(pattern.ravel(), kind="stable")
    stops = np.cumsum(np.bincount(pattern.ravel(), minlength=len(patterns)))
    forms = [_precision(S) for S in mixture.covariances]
    n_rows = max(1, CHUNK_ENTRIES // max(1, mixture.means.size))
    for missing, members in zip(patterns, np.split(order, stops[:-1]), strict=True):
        for start in range(0, len(members), n_rows):
            rows = members[start : start + n_rows]
            yield _of_pattern(mixture, forms, Z[rows], rows, missing)


def _of_pattern(mixture: NormalMixture, forms: list[Any], Z: Any, rows: Any, missing: Any) -> Given:
    u, o = np.flatnonzero(missing), np.flatnonzero(~missing)
    means = np.empty((len(Z), len(mixture.means), len(u)))
    logs, covariances = np.empty(means.shape[:2]), []
    for i, (precision, root, log_det) in enumerate(forms):
        of = slice(None) if len(forms) == 1 else slice(i, i + 1)
        block = precision[u][:, u]
        covariances.append(np.linalg.inv(block))
        turn = precision[o][:, u] @ -covariances[-1]
        x, centres = (y[:, o] @ turn for y in (Z, mixture.means[of]))
        means[:, of] = mixture.means[of][:, u] - centres + x[:, None]
        # completed by what is expected, deviations have the density of what is observed
        full = (
            y[:, o] @ root[o] + filled @ root[u]
            for y, filled in ((Z, x), (mixture.means[of], centres))
        )
        size = log_det + np.linalg.slogdet(block)[1] + len(o) * np.log(2.0 * np.pi)
        logs[:, of] = -0.5 * (cdist(*full, "sqeuclidean") + size)
    with np.errstate(divide="ignore"):
        shares, total = _posterior(logs + np.log(mixture.weights))
    return Given(rows, u, shares, means, np.array(covariances), total)


def _posterior(logs: Any) -> tuple[Any, Any]:
    """The shares of numbers given by logs, (rows, components), and the logs of their sums."""
    top = logs.max(axis=1, keepdims=True)
    numbers = np.exp(logs - top)
    total = numbers.sum(axis=1, keepdims=True)
    return numbers / total, (top + np.log(total))[:, 0]


def log_likelihood(mixture: NormalMixture, Z: Any) -> Any:
    """The log-densities of what the rows show; holes are integrated out."""
    logs = np.empty(len(Z))
    for part in given(mixture, Z):
        logs[part.rows] = part.logs
    return logs


def conditional_means(mixture: NormalMixture, Z: Any) -> Any:
    """The rows with the conditional means in their holes."""
    filled = np.array(Z, dtype=np.float64)
    for part in given(mixture, Z):
        expected = np.einsum("nc,ncu->nu", part.shares, part.means)
        filled[np.ix_(part.rows, part.columns)] = expected
    return filled


def draws(mixture: NormalMixture, Z: Any, n: int, rng: Any) -> Any:
    """Completions of the rows, (n, rows, columns)."""
    Z = np.asarray(Z, dtype=np.float64)
    found = np.repeat(Z[None], n, axis=0)
    for part in given(mixture, Z):
        size, d = len(part.rows), Z.shape[1]
        bounds = np.cumsum(part.shares, axis=1)
        uniform = rng.random((n, size)) * bounds[:, -1]
        component = (uniform[..., None] >= bounds).sum(axis=2).clip(max=bounds.shape[1] - 1)
        normal = rng.standard_normal((n, size, d))[..., part.columns]
        roots = np.stack([_root(S) for S in part.covariances])
        at = component if len(roots) > 1 else np.zeros_like(component)
        shift = np.einsum("nrde,nre->nrd", roots[at], normal)
        drawn = part.means[np.arange(size), component] + shift
        found[:, part.rows[:, None], part.columns] = drawn
    return found


def _root(S: Any) -> Any:
    """The symmetric square root of a covariance that may be singular."""
    values, vectors = np.linalg.eigh(S)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def fit_normal(Z: Any, *, steps: int = 25, tolerance: float = 1e-3) -> NormalMixture:
    """The normal distribution of rows with holes, by exact EM, drawn a little to independence.

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
    mean, spread = _moments(Z)
    start = NormalMixture(np.ones(1), mean[None], np.diag(spread + _ridge(spread))[None])
    return _em(Z, start, spread, steps, tolerance)


@one_thread
def _em(Z: Any, mixture: NormalMixture, spread: Any, steps: int, tolerance: float) -> NormalMixture:
    holes = find_holes(Z)
    before = -np.inf
    for _ in range(steps):
        total, counts, first, second = _expected_sums(mixture, Z, holes)
        mixture = _maximised(mixture.means, counts, first, second, spread)
        if total - before < tolerance * len(Z) or (len(counts) == 1 and not np.isnan(Z).any()):
            break
        before = total
    return mixture


@dataclass(frozen=True, eq=False)
class Holes:
    """Rows whose patterns have about as many missing columns.

    Attributes
    ----------
    rows : array of int
    pattern : array of int
        The pattern of every row.
    columns : array of shape (patterns, most missing)
        The missing columns, filled up with the number of columns.
    """

    rows: Any
    pattern: Any
    columns: Any


def find_holes(Z: Any) -> list[Holes]:
    """The patterns of missing values of rows, in groups of about equal size."""
    d = Z.shape[1]
    patterns, of = np.unique(np.isnan(Z), axis=0, return_inverse=True)
    sizes = patterns.sum(axis=1)
    found = []
    for low, high in itertools.pairwise(_bounds(int(sizes.max(initial=0)))):
        chosen = np.flatnonzero((sizes >= low) & (sizes < high))
        if not len(chosen):
            continue
        most = int(sizes[chosen].max())
        columns = np.sort(np.where(patterns[chosen], np.arange(d), d), axis=1)[:, :most]
        place = np.full(len(patterns), -1)
        place[chosen] = np.arange(len(chosen))
        rows = np.flatnonzero(place[of.ravel()] >= 0)
        found.append(Holes(rows, place[of.ravel()[rows]], columns))
    return found


def _bounds(most: int) -> list[int]:
    """Numbers of missing columns that are treated alike: each at most a third above the first."""
    bounds = [0, 1]
    while bounds[-1] <= most:
        bounds.append(bounds[-1] + 1 + bounds[-1] // 3)
    return bounds


def _expected_sums(mixture: NormalMixture, Z: Any, holes: list[Holes]) -> Any:
    """The log-likelihood; expected counts and moments about the means, of every component."""
    c, d = mixture.means.shape
    total, counts = 0.0, np.zeros(c)
    first, second = np.zeros((c, d)), np.zeros((c, d, d))
    forms = [_precision(S) for S in mixture.covariances]
    for group in holes:
        size = max(1, CHUNK_ENTRIES // max(d, group.columns.shape[1] ** 2) // c)
        for start in range(0, len(group.rows), size):
            part = _slice(group, start, start + size)
            X = Z[part.rows]
            found = [_completed(X - m, part, form)
                     for m, form in zip(mixture.means, forms, strict=True)]  # fmt: skip
            logs = np.stack([f[0] for f in found], axis=1) + np.log(mixture.weights)
            shares, totals = _posterior(logs)
            total += float(totals.sum())
            counts += shares.sum(axis=0)
            for i, (_, full, left) in enumerate(found):
                weighed = full * shares[:, i : i + 1]
                first[i] += weighed.sum(axis=0)
                second[i] += weighed.T @ full
                by_pattern = np.bincount(part.pattern, shares[:, i], len(part.columns))
                second[i] += _scattered(left * by_pattern[:, None, None], part.columns, d)
    return total, counts, first, second


def _slice(group: Holes, start: int, stop: int) -> Holes:
    used, pattern = np.unique(group.pattern[start:stop], return_inverse=True)
    return Holes(group.rows[start:stop], pattern.ravel(), group.columns[used])


def _precision(S: Any) -> tuple[Any, Any, float]:
    """The inverse P of a covariance, a root R with R R' = P, and the log-determinant of S."""
    factor = np.linalg.cholesky(S)
    root = np.linalg.inv(factor).T
    return root @ root.T, root, 2.0 * float(np.log(np.diag(factor)).sum())


def _completed(away: Any, holes: Holes, form: Any) -> tuple[Any, Any, Any]:
    """Log-densities, expected deviations, and the covariances that are left for each pattern.

    Given the rest, the missing columns have the inverse of their part of the precision as
    covariance.
    """
    precision, _, log_det = form
    n, d = away.shape
    seen = ~np.isnan(away)
    full = np.where(seen, away, 0.0)
    columns = holes.columns
    filler = columns == d
    inside = np.minimum(columns, d - 1)
    blocks = precision[inside[:, :, None], inside[:, None, :]]
    blocks = np.where(filler[:, :, None] | filler[:, None, :], np.eye(columns.shape[1]), blocks)
    left = np.linalg.inv(blocks)
    log_blocks = np.linalg.slogdet(blocks)[1]
    wide = np.zeros((n, d + 1))
    wide[:, :d] = full
    pulls = np.zeros((n, d + 1))
    pulls[:, :d] = full @ precision
    at = columns[holes.pattern]
    rows = np.arange(n)[:, None]
    shift = (left[holes.pattern] @ pulls[rows, at][:, :, None])[:, :, 0]
    wide[rows, at] = -shift
    full = wide[:, :d]
    square = np.einsum("nd,nd->n", full @ precision, full)
    known = seen.sum(axis=1)
    logs = -0.5 * (square + log_det + log_blocks[holes.pattern] + known * np.log(2.0 * np.pi))
    return logs, full, np.where(filler[:, :, None] | filler[:, None, :], 0.0, left)


def _scattered(left: Any, columns: Any, d: int) -> Any:
    """Matrices over missing columns, added up in their places."""
    flat = columns[:, :, None] * (d + 1) + columns[:, None, :]
    total = np.bincount(flat.ravel(), left.ravel(), (d + 1) ** 2)
    return total.reshape(d + 1, d + 1)[:d, :d]


def _moments(Z: Any) -> tuple[Any, Any]:
    """The means and variances of the observed values of all columns."""
    seen = ~np.isnan(Z)
    n = np.maximum(seen.sum(axis=0), 1)
    mean = np.where(seen, Z, 0.0).sum(axis=0) / n
    return mean, (np.where(seen, Z - mean, 0.0) ** 2).sum(axis=0) / n


def _ridge(spread: Any) -> Any:
    return np.where(spread > LEAST, RIDGE, LEAST)


def kernel_mixture(Z: Any, normal: NormalMixture, width: float, rng: Any) -> NormalMixture:
    """One component for every row, all of one covariance; mean and covariance stay the normal's.

    Parameters
    ----------
    Z : array of shape (rows, columns)
        A row with holes enters as a few draws of what is missing. What is drawn does not depend on
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
        drawn = _completions(normal, Z[gaps], normal_numbers(rows, columns, n_draws), columns)
        centres.append(drawn.reshape(-1, Z.shape[1]))
        weights.append(np.full(len(centres[-1]), 1.0 / n_draws))
    mean = normal.means[0]
    rows, shares = np.concatenate(centres), np.concatenate(weights)
    means = mean + np.sqrt(1.0 - width**2) * (rows - mean)
    return NormalMixture(shares / shares.sum(), means, width**2 * normal.covariances)


def _completions(normal: NormalMixture, Z: Any, numbers: Any, columns: Any) -> Any:
    """Completions of rows by normal numbers, (n, rows, columns), that alike columns share."""
    found = np.repeat(Z[None], len(numbers), axis=0)
    for part in given(normal, Z):
        at = part.rows[:, None], part.columns
        alike = (columns[part.columns, None] == columns[part.columns]).sum(axis=1)
        root = _root(part.covariances[0]) / np.sqrt(alike)
        found[:, *at] = part.means[:, 0] + numbers[:, *at] @ root.T
    return found


def fit_mixture(
    Z: Any,
    n_components: int,
    *,
    steps: int = 50,
    tolerance: float = 1e-3,
    rng: Any,
) -> NormalMixture:
    """A mixture of normal distributions of rows with holes, by exact EM.

    Parameters
    ----------
    Z : array of shape (rows, columns)
        Standardised, NaN where missing.
    n_components : int
    steps, tolerance
        As for `fit_normal`.
    rng : Generator
    """
    Z = np.asarray(Z, dtype=np.float64)
    spread = _moments(Z)[1]
    filled = conditional_means(fit_normal(Z), Z)
    n = min(n_components, len(np.unique(filled, axis=0)))
    seed = int(rng.integers(2**31 - 1))
    label = KMeans(n, n_init=1, random_state=seed).fit_predict(filled)
    counts = np.bincount(label, minlength=n).astype(np.float64)
    means = np.stack([filled[label == c].mean(axis=0) for c in range(n)])
    away = [filled[label == c] - means[c] for c in range(n)]
    scatter = np.stack([x.T @ x for x in away])
    start = _maximised(means, counts, np.zeros_like(means), scatter, spread)
    return _em(Z, start, spread, steps, tolerance)


def _maximised(means: Any, counts: Any, first: Any, second: Any, spread: Any) -> NormalMixture:
    n = np.maximum(counts, 1e-300)
    step = first / n[:, None]
    scatter = second - counts[:, None, None] * step[:, :, None] * step[:, None, :]
    S = (scatter + PRIOR_ROWS * np.diag(spread)) / (counts + PRIOR_ROWS)[:, None, None]
    d = S.shape[1]
    S[:, np.arange(d), np.arange(d)] += _ridge(spread)
    weights = (counts + 1e-9) / (counts + 1e-9).sum()
    return NormalMixture(weights, means + step, S)
