"""Points and weights that stand for a model: Bayesian quadrature with exact mean embeddings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod, sqrt
from typing import Any, NamedTuple

import numpy as np

from expectedkernels.arrays import Array, RowsLike
from expectedkernels.checks import check_real
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.evidence import EvidenceLike
from expectedkernels.discrepancies.embeddings import Summable, summable
from expectedkernels.discrepancies.nulls import every_state
from expectedkernels.errors import DataError, KernelError
from expectedkernels.kernels.defaults import default_kernel
from expectedkernels.kernels.empirical import DistributionLike
from expectedkernels.kernels.kernel import Kernel, refuse_gradients, require_kernel
from expectedkernels.kernels.rows import sample_rows
from expectedkernels.kernels.target import as_target

FEWEST_CANDIDATES = 1000
"""Points are chosen among at least so many draws, if there are so many states."""

SEEN = 1e-12
"""A point whose kernel the others explain up to this fraction has nothing to add."""

Column = Callable[[int], Any]
"""From the number of a candidate to its kernels with all candidates."""


class Quadrature(NamedTuple):
    """Weights of points, and the squared worst-case error of weighted sums over them."""

    weights: Array
    variance: float


@dataclass(frozen=True, eq=False)
class Embedding:
    """A normalised circuit with a kernel: what points are compared with.

    Attributes
    ----------
    model : Summable
    kernel : Kernel
    total : float
        The expected kernel of two independent draws.
    """

    model: Summable
    kernel: Kernel
    total: float

    @property
    def circuit(self) -> Circuit:
        """The distribution that points stand for."""
        return self.model.circuit

    def at(self, points: Any) -> Any:
        """The expected kernel of a draw and each of some points."""
        return np.asarray(self.model.embedding(points, self.kernel))

    def squared_mmd(self, points: Any, weights: Any) -> float:
        """The squared discrepancy of weighted points; rounding may not make it negative."""
        gram = self.kernel(points)
        square = weights @ gram @ weights - 2.0 * weights @ self.at(points) + self.total
        return max(float(square), 0.0)


def quadrature(
    p: DistributionLike,
    X: RowsLike,
    k: Kernel | None = None,
    *,
    evidence: EvidenceLike | None = None,
    normalize: bool = False,
    jitter: float = 1e-10,
) -> Quadrature:
    r"""The weights of points that make weighted sums of functions closest to their means under p.

    With the Gram matrix K of the points and the mean embedding
    :math:`\mu_i = E_p[k(x, X_i)]`, both exact,

    .. math:: w = K^{-1} \mu, \qquad
              \max_{\|f\|_k \le 1} \left(\sum_i w_i f(X_i) - E_p[f]\right)^2
              = M_k(p, p) - \mu^\top K^{-1} \mu

    so that a function of norm 1 has an error of at most the root of the variance: the mean of an
    expensive function from few evaluations.

    Parameters
    ----------
    p : Circuit, FactorGraph, BayesianNetwork, model of another library, or small Target
    X : array of shape (points, variables), or data frame
        Complete points; the columns of a frame are matched with variables by their names.
    k : Kernel, optional
        Default: as for `mmd2`.
    evidence : mapping, or array of shape (variables,) with NaN, optional
        Take p given this, as `Circuit.condition` does.
    normalize : bool
        Whether weights must sum to one, so that the means of constants are exact. They minimise the
        error among such weights, and may be negative all the same.
    jitter : float
        What is added to the diagonal of K, relative to its mean, for points that are (nearly)
        equal. The variance is that of the weights as they are, and not changed by it.

    Returns
    -------
    Quadrature
        `weights`, an array of shape (points,), and `variance`, a float.

    Raises
    ------
    DataError
        If points are not complete.

    Notes
    -----
    Costs one expected kernel of p and the points, and O(n^3) for n points. The bound holds
    for functions in the space of the kernel only: with `ExpHamming`, these are all functions of
    discrete variables, but rough ones have large norms. Like a Bayesian posterior variance,
    it does not depend on the function. C. E. Rasmussen and Z. Ghahramani, "Bayesian Monte Carlo",
    NIPS 2002; F.-X. Briol et al., "Probabilistic Integration", Statistical Science 2019.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> weights, variance = ek.quadrature(p, X)
    >>> weights.round(6).tolist(), variance < 1e-12
    ([0.1, 0.1, 0.4, 0.4], True)
    """
    check_real("quadrature", "jitter", jitter, error=DataError)
    found = embedding_of(p, k, evidence, "Quadrature")
    points = complete_points(found.circuit, X, "Points of a quadrature")
    weights = best_weights(found, points, normalize, jitter)
    return Quadrature(weights, found.squared_mmd(points, weights))


def embedding_of(p: Any, k: Any, evidence: Any, what: str) -> Embedding:
    """The distribution that points are to stand for, with its kernel."""
    if isinstance(p, Kernel):
        raise DataError(f"{what} is of a model. Got a kernel, {p!r}, in its place.")
    model = summable(as_target(p), what)
    # by how far values are apart before evidence fixes some of them
    kernel = default_kernel(model.circuit) if k is None else k
    if evidence is not None:
        model = Summable(model.circuit.condition(evidence), model.wide)
    require_kernel(kernel, "ExpHamming()")
    refuse_gradients(what, kernel, p)
    definite = kernel.is_positive_definite(model.circuit.cardinalities)
    if not definite:
        raise KernelError(
            f"{what} needs a positive definite kernel, but {definite.reason}. ExpHamming() is one "
            "for discrete variables, RBF() for real ones."
        )
    return Embedding(model, kernel, model.mean(kernel))


def complete_points(circuit: Circuit, X: Any, what: str) -> Any:
    """Rows without missing values, in the codes of a circuit."""
    points = sample_rows(circuit, X)
    missing = np.isnan(points)
    if missing.any():
        row, column = np.argwhere(missing)[0]
        raise DataError(f"{what} must be complete. Got NaN in row {row}, column {column}.")
    return points


def best_weights(embedding: Embedding, points: Any, normalize: bool, jitter: float = 1e-10) -> Any:
    """The weights of points with the smallest discrepancy, of all or of those that sum to one."""
    from scipy.linalg import cho_factor, cho_solve  # slow to import

    gram = embedding.kernel(points)
    n = len(gram)
    gram.flat[:: n + 1] += jitter * float(np.trace(gram)) / n
    try:
        factor = cho_factor(gram, lower=True, overwrite_a=True)
    except np.linalg.LinAlgError as error:
        raise KernelError(
            f"The kernels of the {n} points are linearly dependent up to rounding. Leave out those "
            f"that are nearly equal, or give more than jitter={jitter:g}."
        ) from error
    weights, ones = cho_solve(factor, np.stack([embedding.at(points), np.ones(n)], axis=1)).T
    if normalize:
        weights = weights + ones * (1.0 - weights.sum()) / ones.sum()
    return weights


def candidate_points(circuit: Circuit, n: int, rng: Any) -> Any:
    """Distinct points to choose n from: all possible states if they are few, or else draws."""
    many = max(FEWEST_CANDIDATES, 10 * n)
    if None not in circuit.cardinalities:
        possible = [np.flatnonzero(np.asarray(table) > 0) for table in circuit.marginals()]
        if prod(map(len, possible)) <= many:
            places = every_state([len(states) for states in possible])
            points = [states[i] for states, i in zip(possible, places.T, strict=True)]
            every = np.stack(points, axis=1).astype(np.float64)
            return every[np.asarray(circuit.log_likelihood(every)) > -np.inf]
    return np.unique(circuit.sample(many, rng), axis=0)


def greedy_choice(column: Column, diagonal: Any, mu: Any, n: int) -> list[int]:
    """The numbers of n candidates, with repeats, whose equal weights have a small discrepancy.

    Each is the best one to add to those before (greedy minimisation of the squared discrepancy;
    kernel herding, if the diagonal is constant).

    Examples
    --------
    >>> eye, mu = np.eye(2), np.array([0.7, 0.3])
    >>> greedy_choice(eye.__getitem__, np.ones(2), mu, 4)
    [0, 1, 0, 0]
    """
    sums, chosen = 0.5 * np.asarray(diagonal), []
    for step in range(1, n + 1):
        chosen.append(int(np.argmin(sums - step * mu)))
        sums = sums + column(chosen[-1])
    return chosen


def sequential_choice(column: Column, diagonal: Any, mu: Any, n: int) -> list[int]:
    """The numbers of up to n candidates whose best weights have a small discrepancy.

    Each lowers the variance of the quadrature most, which is known from the residuals of the
    embedding and of the diagonal: a pivoted partial Cholesky factorisation of the Gram matrix.
    There are fewer if no other candidate lowers it any more.

    Examples
    --------
    >>> gram = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> sequential_choice(gram.__getitem__, np.ones(3), np.array([0.5, 0.6, 0.4]), 2)
    [1, 2]
    """
    residual, left = np.array(mu), np.array(diagonal)
    least, factor = SEEN * left.max(), np.empty((n, len(residual)))
    chosen: list[int] = []
    for step in range(n):
        gain = np.where(left > least, residual**2, 0.0) / np.maximum(left, least)
        best = int(np.argmax(gain))
        if not gain[best] > 0.0:
            break
        root = sqrt(left[best])
        new = (column(best) - factor[:step, best] @ factor[:step]) / root
        factor[step] = new
        residual -= new * (residual[best] / root)
        left -= new**2
        left[best] = 0.0
        chosen.append(best)
    return chosen


def gram_columns(k: Kernel, points: Any) -> tuple[Column, Any]:
    """The columns of the Gram matrix of points, each when it is asked for, and the diagonal."""

    def column(number: int) -> Any:
        return k(points, points[number : number + 1])[:, 0]

    step = 64  # blocks on the diagonal, of which little is thrown away
    parts = [np.diag(k(points[i : i + step])) for i in range(0, len(points), step)]
    return column, np.concatenate(parts)
