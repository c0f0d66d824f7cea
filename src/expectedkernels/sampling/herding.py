"""Kernel herding: few points that stand for a model, chosen by their exact discrepancy."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from expectedkernels.arrays import Array, RngLike, RowsLike, as_generator
from expectedkernels.checks import check_choice, check_count
from expectedkernels.circuits.evidence import EvidenceLike
from expectedkernels.circuits.schema import Schema
from expectedkernels.discrepancies.quadrature import (
    Embedding,
    best_weights,
    candidate_points,
    complete_points,
    embedding_of,
    gram_columns,
    greedy_choice,
    sequential_choice,
)
from expectedkernels.errors import DataError
from expectedkernels.kernels.empirical import DistributionLike, Empirical
from expectedkernels.kernels.functions import values_of
from expectedkernels.kernels.kernel import Kernel
from expectedkernels.sampling.weights import simplex_weights

if TYPE_CHECKING:
    from pandas import DataFrame

WEIGHTS = ("equal", "quadrature", "simplex")
"""How points can be weighted."""

ROUNDS = 20
"""Points are refined at most so many times."""


class HerdedPoints(Empirical):
    """Weighted points that stand for a model, and how well they do.

    Parameters
    ----------
    X : array of shape (points, variables)
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
    r"""Points that stand for a model: their exact discrepancy from it is made small.

    .. math:: \mathrm{MMD}^2 = M_k(p, p) - 2 \sum_i w_i \mu(x_i) + \sum_{ij} w_i w_j k(x_i, x_j),
              \qquad \mu(x) = E_p[k(X, x)]

    where the embedding is exact. Points are chosen one after the other, always the one
    that helps most. Use them for means of expensive functions from few evaluations, as scenarios
    that represent a model, or as completions of a row with missing values.

    Parameters
    ----------
    p : Circuit, FactorGraph, BayesianNetwork, model of another library, or small Target
    n : int
        The number of points.
    k : Kernel, optional
        Default: as for `mmd2`.
    evidence : mapping, or array of shape (variables,) with NaN, optional
        Take p given this, as `Circuit.condition` does.
    candidates : array of shape (rows, variables), or data frame, optional
        What points are chosen from, for example rows of data. Default: all possible states, or,
        if they are more than max(1000, 10 n), as many draws from p.
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
    check_count("herd", "n", n, 1, error=DataError)
    check_choice("herd", "weights", weights, WEIGHTS, DataError)
    found, generator = embedding_of(p, k, evidence, "Herding"), as_generator(rng)
    if candidates is None:
        rows = candidate_points(found.circuit, n, generator)
    else:
        rows = np.unique(complete_points(found.circuit, candidates, "Candidates"), axis=0)
    column, diagonal = gram_columns(found.kernel, rows)
    choose = greedy_choice if weights == "equal" else sequential_choice
    points = rows[choose(column, diagonal, found.at(rows), n)]
    if not len(points):
        raise DataError(
            "No candidate is near the model: the expected kernel of the model and each of them is "
            "zero. Give others, or a kernel that decays more slowly."
        )
    share = _weights_of(found, points, weights)
    if refine:
        points, share = _refined(found, points, share, weights)
    kept = share != 0
    points, share = points[kept], share[kept]
    mmd = sqrt(found.squared_mmd(points, share))
    return HerdedPoints(points, share, mmd, found.circuit.schema)


def _weights_of(embedding: Embedding, points: Any, rule: str) -> Any:
    """The weights of points by one of the rules; they sum to one."""
    if rule == "equal":
        return np.full(len(points), 1.0 / len(points))
    if rule == "quadrature":
        return best_weights(embedding, points, normalize=True)
    mu = embedding.at(points)
    # on the simplex, the quadratic form of this matrix is the squared discrepancy
    centred = embedding.kernel(points) - mu[:, None] - mu[None, :] + embedding.total
    return simplex_weights(centred).weights


def _refined(embedding: Embedding, points: Any, weights: Any, rule: str) -> tuple[Any, Any]:
    """The points after changes of single variables that lower the discrepancy, and weights."""
    best, value = (points, weights), embedding.squared_mmd(points, weights)
    possible = [
        None if card is None else np.flatnonzero(np.asarray(table) > 0)
        for card, table in zip(
            embedding.circuit.cardinalities, embedding.circuit.marginals(), strict=True
        )
    ]
    for _ in range(ROUNDS):
        moved = _moved(embedding, *best, possible)
        share = _weights_of(embedding, moved, rule)
        after = embedding.squared_mmd(moved, share)
        if not after < value * (1.0 - 1e-9):
            break
        best, value = (moved, share), after
    return best


def _moved(embedding: Embedding, points: Any, weights: Any, possible: list[Any]) -> Any:
    """The points, each replaced by the best of those that differ in one variable from it."""
    points = points.copy()
    for i, weight in enumerate(weights):
        around = [points[i : i + 1]]
        for v, states in enumerate(possible):
            if states is not None:
                near = np.repeat(points[i : i + 1], len(states), axis=0)
                near[:, v] = states
                around.append(near[states != points[i, v]])
        near = np.concatenate(around)
        others = np.delete(np.arange(len(points)), i)
        _, own = gram_columns(embedding.kernel, near)
        cross = embedding.kernel(near, points[others]) @ weights[others] if len(others) else 0.0
        change = weight**2 * own + 2.0 * weight * (cross - embedding.at(near))
        points[i] = near[int(np.argmin(change))]
    return points
