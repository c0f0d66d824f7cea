"""Expected RBF kernels under mixtures of normal distributions given what rows show.

For x ~ N(m, S) and rates G = diag(g), with L L' = I + 2 G^1/2 S G^1/2 and Y = L^-1 G^1/2,

    E k(x, s) = |L|^-1 exp(-|Y m - Y s|^2).

S is zero for what is observed: there the formula is the kernel itself. The second moment is
of the same form with 4 for 2; two rows are one with the sum of the covariances.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist

from expectedkernels.learning.normals import Given, NormalMixture, given

LEFT_OUT = 1e-6
"""Components that have less than this share of a row, all together, are left out."""
CHUNK_ENTRIES = 2**21


def embed(mixture: NormalMixture, Z: Any, rates: Any, points: Any) -> Any:
    """E[k(x, s) | what the row shows] for all rows and points, (rows, points)."""
    found = np.empty((len(Z), len(points)))
    root = np.sqrt(rates)
    for part in given(mixture, Z):
        maps = [_map(S, root, 2.0) for S in part.covariances]
        seen = [points @ Y.T for Y, _ in maps]
        for r, row in enumerate(part.rows):
            total = np.zeros(len(points))
            for means, shares, at in _components(part, r, len(maps)):
                Y, log_det = maps[at]
                distances = cdist(means @ Y.T, seen[at], "sqeuclidean")
                total += shares @ np.exp(-distances) * np.exp(-log_det)
            found[row] = total
    return found


def _components(part: Given, r: int, n_maps: int) -> Iterator[tuple[Any, Any, int]]:
    """Means and shares of the components that count for a row, by covariance."""
    shares = part.shares[r]
    order = np.argsort(shares)
    kept = order[np.cumsum(shares[order]) > LEFT_OUT]
    shares = shares / shares[kept].sum()
    if n_maps == 1:
        yield part.means[r, kept], shares[kept], 0
        return
    for c in kept:
        yield part.means[r, c : c + 1], shares[c : c + 1], int(c)


def _map(S: Any, root: Any, factor: float) -> tuple[Any, float]:
    """L^-1 G^1/2 and log |L|, where L L' = I + factor G^1/2 S G^1/2."""
    L = np.linalg.cholesky(np.eye(len(S)) + factor * root[:, None] * S * root)
    Y = solve_triangular(L, np.diag(root), lower=True, check_finite=False)
    return Y, float(np.log(np.diag(L)).sum())


def second_moments(mixture: NormalMixture, Z: Any, rates: Any, points: Any, coef: Any) -> Any:
    """E[f(x)^2 | what the row shows] for f = sum_j coef_j k(s_j, .), (rows, outputs)."""
    found = np.zeros((len(Z), coef.shape[1]))
    root = np.sqrt(rates)
    near = 0.5 * cdist(points * root, points * root, "sqeuclidean")
    for part in given(mixture, Z):
        maps = [_map(S, root, 4.0) for S in part.covariances]
        seen = [2.0 * points @ Y.T for Y, _ in maps]
        pairs = [np.exp(cdist(p, p, "sqeuclidean") / 8.0 - near) for p in seen]
        for r, row in enumerate(part.rows):
            for means, shares, at in _components(part, r, len(maps)):
                Y, log_det = maps[at]
                h = np.exp(-0.25 * cdist(2.0 * means @ Y.T, seen[at], "sqeuclidean"))
                for k in range(coef.shape[1]):
                    v = h * coef[:, k]
                    squares = np.einsum("cj,cj->c", v @ pairs[at], v)
                    found[row, k] += float(shares @ squares) * np.exp(-log_det)
    return found


def gram(mixture: NormalMixture, Z: Any, W: Any, rates: Any) -> Any:
    """E k(x, y) for x and y independent given rows of Z and of W, (rows of Z, rows of W)."""
    root = np.sqrt(rates)
    left, right = _stacked(mixture, Z), _stacked(mixture, W)
    found = np.zeros((len(Z), len(W)))
    d = len(rates)
    size = max(1, CHUNK_ENTRIES // (d * d))
    i, j = (x.ravel() for x in np.indices((len(left[0]), len(right[0]))))
    for start in range(0, len(i), size):
        a, b = i[start : start + size], j[start : start + size]
        S = left[3][a] + right[3][b]
        L = np.linalg.cholesky(np.eye(d) + 2.0 * root[:, None] * S * root)
        away = np.linalg.solve(L, (root * (left[2][a] - right[2][b]))[:, :, None])[:, :, 0]
        log_det = np.log(L[:, np.arange(d), np.arange(d)]).sum(axis=1)
        value = left[1][a] * right[1][b] * np.exp(-(away**2).sum(axis=1) - log_det)
        np.add.at(found, (left[0][a], right[0][b]), value)
    return found


def _stacked(mixture: NormalMixture, Z: Any) -> tuple[Any, Any, Any, Any]:
    """Components of all rows end to end: their row, share, mean and covariance."""
    rows, weights, centres, left = [], [], [], []
    for part in given(mixture, Z):
        for r, row in enumerate(part.rows):
            for means, shares, at in _components(part, r, len(part.covariances)):
                rows += [row] * len(shares)
                weights.append(shares)
                centres.append(means)
                left += [part.covariances[at]] * len(shares)
    return np.array(rows), np.concatenate(weights), np.concatenate(centres), np.stack(left)
