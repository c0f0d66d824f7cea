"""Points and weights that approximate a distribution: quadrature and herding."""

from __future__ import annotations

from collections.abc import Callable
from math import prod, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from expectedkernels import checks
from expectedkernels.arrays import Array, RngLike, RowsLike, as_generator, require_memory, spans
from expectedkernels.checks import DataError, KernelError, public
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.data.evidence import EvidenceLike, as_points
from expectedkernels.data.schema import Schema
from expectedkernels.discrepancies.mmd import MeanEmbedding, mean_embedding
from expectedkernels.kernels import empirical
from expectedkernels.kernels.empirical import DistributionLike, Empirical, default_kernel
from expectedkernels.kernels.kernel import Kernel, refuse_gradients, require_kernel
from expectedkernels.kernels.target import as_target, values_of
from expectedkernels.sampling.gibbs import every_state
from expectedkernels.sampling.weights import simplex_weights
from expectedkernels.stein.bbis import greedy_choice

if TYPE_CHECKING:
    from pandas import DataFrame


FEWEST_CANDIDATES = 1000
"""Points are chosen among at least so many samples, if there are so many states."""

SEEN = 1e-12
"""A point whose kernel the others explain up to this fraction has nothing to add."""

Column = Callable[[int], Any]
"""From the number of a candidate to its kernels with all candidates."""


class Quadrature(NamedTuple):
    """Weights of points, and the squared worst-case error of weighted sums over them."""

    weights: Array
    variance: float


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
        The distribution whose means are wanted.
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
    checks.check_real("quadrature", "jitter", jitter, error=DataError)
    found = embedding_of(p, k, evidence, "Quadrature")
    rows, schema = empirical.sample_rows(found.circuit, X), found.circuit.schema
    points = as_points(rows, schema, "The points of a quadrature")
    weights = best_weights(found, points, normalize, jitter)
    return Quadrature(weights, _squared_mmd(found, points, weights))


def embedding_of(p: Any, k: Any, evidence: Any, what: str) -> MeanEmbedding:
    """The distribution that points are to stand for, with its kernel."""
    if isinstance(p, Kernel):
        raise DataError(f"{what} is of a model. Got a kernel, {p!r}, in its place.")
    model = mean_embedding(as_target(p), what)
    # by how far values are apart before evidence fixes some of them
    kernel = default_kernel(model.circuit) if k is None else k
    circuit = model.circuit if evidence is None else model.circuit.condition(evidence)
    require_kernel(kernel, "ExpHamming()")
    refuse_gradients(what, kernel, p)
    definite = kernel.is_positive_definite(circuit.cardinalities)
    if not definite:
        rule = f"{what} needs a positive definite kernel, but {definite.reason}"
        advice = "ExpHamming() is one for discrete variables, RBF() for real ones"
        raise KernelError(f"{rule}. {advice}.")
    return MeanEmbedding(circuit, model.wide, kernel)


def _squared_mmd(embedding: MeanEmbedding, points: Any, weights: Any) -> float:
    """The squared discrepancy of weighted points; rounding may not make it negative."""
    square = weights @ embedding.kernel(points) @ weights + embedding.total
    return max(float(square - 2.0 * weights @ embedding.at(points)), 0.0)


def best_weights(given: MeanEmbedding, points: Any, normalize: bool, jitter: float = 1e-10) -> Any:
    """The weights of points with the smallest discrepancy, of all or of those that sum to one."""
    from scipy.linalg import cho_factor, cho_solve  # slow to import

    gram = given.kernel(points)
    n = len(gram)
    gram.flat[:: n + 1] += jitter * float(np.trace(gram)) / n
    try:
        factor = cho_factor(gram, lower=True, overwrite_a=True)
    except np.linalg.LinAlgError as error:
        what = f"The kernels of the {n} points are linearly dependent up to rounding"
        advice = f"Leave out those that are nearly equal, or give more than jitter={jitter:g}"
        raise KernelError(f"{what}. {advice}.") from error
    weights, ones = cho_solve(factor, np.stack([given.at(points), np.ones(n)], axis=1)).T
    if normalize:
        weights = weights + ones * (1.0 - weights.sum()) / ones.sum()
    return weights


def candidate_points(circuit: Circuit, n: int, rng: Any) -> Any:
    """Distinct points to choose n from: all possible states if they are few, or else samples."""
    many = max(FEWEST_CANDIDATES, 10 * n)
    if None not in circuit.cardinalities:
        possible = [np.flatnonzero(np.asarray(table) > 0) for table in circuit.marginals()]
        n_states = prod(map(len, possible))
        if n_states <= many:
            what = f"To choose {n} points among all {n_states} states"
            advice = "Ask for fewer points, or give some states as 'candidates'."
            require_memory(32.0 * n_states * len(possible), what, advice)
            places = every_state([len(states) for states in possible])
            points = [states[i] for states, i in zip(possible, places.T, strict=True)]
            every = np.stack(points, axis=1).astype(np.float64)
            return every[np.asarray(circuit.log_likelihood(every)) > -np.inf]
    return np.unique(circuit.sample(many, rng), axis=0)


def sequential_choice(column: Column, diagonal: Any, n: int, mu: Any) -> list[int]:
    """The numbers of up to n candidates whose best weights have a small discrepancy.

    Each lowers the variance of the quadrature most, which is known from the residuals of the
    embedding and of the diagonal: a pivoted partial Cholesky factorisation of the Gram matrix.
    There are fewer if no other candidate lowers it any more.

    Examples
    --------
    >>> gram = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> sequential_choice(gram.__getitem__, np.ones(3), 2, np.array([0.5, 0.6, 0.4]))
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
    """The columns of the Gram matrix of points, each on demand, and the diagonal."""

    def column(number: int) -> Any:
        return k(points, points[number : number + 1])[:, 0]

    # blocks on the diagonal, of which little is thrown away
    return column, np.concatenate([np.diag(k(points[part])) for part in spans(len(points), 64)])


WEIGHTS = ("equal", "quadrature", "simplex")
"""How points can be weighted."""

ROUNDS = 20
"""Points are refined at most so many times."""


@public
class HerdedPoints(Empirical):
    """Weighted points that approximate a model, and how well.

    Parameters
    ----------
    X : array of shape (points, variables)
        The points.
    weights : array of shape (points,)
        They sum to one.
    mmd : float
        The exact discrepancy between the weighted points and the model: no weighted mean of a
        function of norm 1 (in the space of the kernel) is further from its expectation.
    schema : Schema, optional
        Names and labels of the variables.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> points = ek.herd(ek.factorized([[0.25, 0.75]]), 4)
    >>> points
    <4 points of 1 variables, MMD 0>
    >>> points.expect(lambda X: X[:, 0])
    0.75
    """

    def __init__(self, X: RowsLike, weights: Array, mmd: float, schema: Schema | None = None):
        super().__init__(X, weights)
        self.mmd, self._schema = mmd, schema

    def expect(self, f: Callable[[Array], Array], *, vectorized: bool = True) -> Array:
        """The weighted mean of a function of the points.

        Parameters
        ----------
        f : callable
            From an array of points, one row each, to an array of shape (points,) or (points, k).
        vectorized : bool
            False for a function of a single point, which is then called point by point.

        Returns
        -------
        float, or array of shape (k,)

        Examples
        --------
        >>> import expectedkernels as ek
        >>> p = ek.factorized([[0.25, 0.75], [0.5, 0.5]])
        >>> round(ek.herd(p, 4, weights="quadrature").expect(lambda X: X[:, 0] * X[:, 1]), 6)
        0.375
        """
        values = values_of(f, self.X, "The function", vectorized, several=True)
        mean = self.weights @ values
        return mean if np.ndim(mean) else float(mean)

    def to_frame(self) -> DataFrame:
        """The points as a data frame of pandas, with the names and labels of the model.

        Returns
        -------
        data frame

        Examples
        --------
        >>> import expectedkernels as ek
        >>> rain = ek.factorized([[0.0, 1.0]]).with_names(["rain"], [["no", "yes"]])
        >>> ek.herd(rain, 1).to_frame().to_dict("records")
        [{'rain': 'yes'}]
        """
        schema = Schema((None,) * self.X.shape[1]) if self._schema is None else self._schema
        return schema.frame(self.X)

    def __repr__(self) -> str:
        n, d = self.X.shape
        return f"<{n} points of {d} variables, MMD {self.mmd:.3g}>"


def herd(
    p: DistributionLike,
    n: int,
    k: Kernel | None = None,
    *,
    evidence: EvidenceLike | None = None,
    candidates: RowsLike | None = None,
    weights: str = "equal",
    refine: bool = False,
    rng: RngLike = None,
) -> HerdedPoints:
    r"""Points that approximate a model: their exact discrepancy from it is made small.

    .. math:: \mathrm{MMD}^2 = M_k(p, p) - 2 \sum_i w_i \mu(x_i) + \sum_{ij} w_i w_j k(x_i, x_j),
              \qquad \mu(x) = E_p[k(X, x)]

    where the embedding is exact. Points are chosen one after the other, always the one
    that helps most. Use them for means of expensive functions from few evaluations, as scenarios
    that represent a model, or as completions of a row with missing values.

    Parameters
    ----------
    p : Circuit, FactorGraph, BayesianNetwork, model of another library, or small Target
        The distribution to approximate, normalised or not.
    n : int
        The number of points.
    k : Kernel, optional
        Default: as for `mmd2`.
    evidence : mapping, or array of shape (variables,) with NaN, optional
        Take p given this, as `Circuit.condition` does.
    candidates : array of shape (rows, variables), or data frame, optional
        What points are chosen from, for example rows of data. Default: all possible states, or,
        if they are more than max(1000, 10 n), as many samples from p.
    weights : "equal", "quadrature" or "simplex"
        "equal": herding; points may be repeated. "quadrature": points for the
        best weights that sum to one (see `quadrature`), which may be negative. "simplex": the same
        points with the best weights that are no less than zero; those with weight zero are left
        out. Without equal weights no point is repeated, and there may be fewer than `n`: those that
        improve nothing are not added.
    refine : bool
        Go on from point to point and change one discrete variable at a time as long as
        that helps.
    rng : int, Generator or None
        Seed or generator of random numbers; an int makes results reproducible.

    Returns
    -------
    HerdedPoints
        An `Empirical` with `X`, `weights`, `mmd`, and `expect(f)`.

    Raises
    ------
    DataError
        If no candidate has an expected kernel with the model.

    Notes
    -----
    Costs one expected kernel of p and the candidates, and O(n) kernels per candidate (O(n^2)
    operations unless weights are equal). The best point of all states would be the most probable
    state of a circuit with negative weights, which is NP-hard to find. The rule is deterministic
    given the candidates: means are not unbiased, but have a known worst-case error.
    Y. Chen, M. Welling and A. Smola, "Super-samples from kernel herding", UAI 2010; F. Huszar and
    D. Duvenaud, "Optimally-weighted herding is Bayesian quadrature", UAI 2012; O. Teymur et al.,
    "Optimal quantisation of probability measures using maximum mean discrepancy", AISTATS 2021.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> asia = ek.asia()
    >>> points = ek.herd(asia, 20, evidence={"smoke": "yes"}, rng=0)
    >>> draws = asia.circuit().condition({"smoke": "yes"}).sample(20, rng=0)
    >>> points.mmd < ek.mmd(asia.circuit().condition({"smoke": "yes"}), draws) / 3
    True
    """
    checks.check_count("herd", "n", n, 1, error=DataError)
    checks.check_choice("herd", "weights", weights, WEIGHTS, DataError)
    found, generator = embedding_of(p, k, evidence, "Herding"), as_generator(rng)
    if candidates is None:
        rows = candidate_points(found.circuit, n, generator)
    else:
        read = empirical.sample_rows(found.circuit, candidates)
        rows = np.unique(as_points(read, found.circuit.schema, "Candidates"), axis=0)
    choose = greedy_choice if weights == "equal" else sequential_choice
    points = rows[choose(*gram_columns(found.kernel, rows), n, found.at(rows))]
    if not len(points):
        raise DataError(
            "No candidate is near the model: the expected kernel of the model and each of them is "
            "zero. Give others, or a kernel that decays more slowly."
        )
    share = _weights_of(found, points, weights)
    square = _squared_mmd(found, points, share)
    for _ in range(ROUNDS if refine else 0):
        moved = _moved(found, points, share)
        again = _weights_of(found, moved, weights)
        after = _squared_mmd(found, moved, again)
        if not after < square * (1.0 - 1e-9):
            break
        points, share, square = moved, again, after
    kept = share != 0
    return HerdedPoints(points[kept], share[kept], sqrt(square), found.circuit.schema)


def _weights_of(embedding: MeanEmbedding, points: Any, rule: str) -> Any:
    """The weights of points by one of the rules; they sum to one."""
    if rule == "equal":
        return np.full(len(points), 1.0 / len(points))
    if rule == "quadrature":
        return best_weights(embedding, points, normalize=True)
    mu = embedding.at(points)
    # on the simplex, the quadratic form of this matrix is the squared discrepancy
    centred = embedding.kernel(points) - mu[:, None] - mu[None, :] + embedding.total
    return simplex_weights(centred).weights


def _moved(embedding: MeanEmbedding, points: Any, weights: Any) -> Any:
    """The points, each replaced by the best of those that differ in one variable from it."""
    domains = zip(embedding.circuit.cardinalities, embedding.circuit.marginals(), strict=True)
    possible = [() if card is None else np.flatnonzero(table).tolist() for card, table in domains]
    changes = [(v, state) for v, own in enumerate(possible) for state in own]
    variables, states = np.array(changes, dtype=np.intp).reshape(-1, 2).T
    points = points.copy()
    for i, weight in enumerate(weights):
        near = np.tile(points[i], (1 + len(states), 1))  # the point itself is the first
        near[np.arange(1, len(near)), variables] = states
        others = np.delete(np.arange(len(points)), i)
        _, own = gram_columns(embedding.kernel, near)
        cross = embedding.kernel(near, points[others]) @ weights[others] if len(others) else 0.0
        change = weight**2 * own + 2.0 * weight * (cross - embedding.at(near))
        points[i] = near[int(np.argmin(change))]
    return points
