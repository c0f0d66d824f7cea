"""Weights of points, and the points that are chosen, against enumeration."""

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_close, refusals
from expectedkernels.discrepancies.quadrature import candidate_points, sequential_choice
from expectedkernels.stein.bbis import greedy_choice
from oracles import distribution, worlds

K = ek.ExpHamming(0.5)
CARDS = [2, 3, 2, 2]


def model(rng=0):
    return ek.random_circuit(ek.Vtree.balanced(4), 3, rng, cardinalities=CARDS)


@pytest.mark.parametrize("seed", range(3))
def test_points_are_chosen_as_the_definitions_say(seed):
    X = worlds(CARDS)
    chances = distribution(model(seed))
    mu = chances @ K(X)
    gram = K(X) * np.outer(np.sqrt(1 + chances), np.sqrt(1 + chances))  # no constant diagonal
    greedy, best = [], []
    for _ in range(8):
        sizes = [
            gram[np.ix_(s, s)].mean() - 2 * mu[s].mean()
            for s in ([*greedy, j] for j in range(len(X)))
        ]
        greedy.append(int(np.argmin(sizes)))
        drops = [
            -1.0 if j in best else mu[s] @ np.linalg.solve(gram[np.ix_(s, s)], mu[s])
            for j, s in ((j, [*best, j]) for j in range(len(X)))
        ]
        best.append(int(np.argmax(drops)))
    assert greedy_choice(gram.__getitem__, np.diag(gram), 8, mu) == greedy
    assert sequential_choice(gram.__getitem__, np.diag(gram), 8, mu) == best


def test_candidates_are_all_possible_states_if_they_are_few():
    p = model().condition({0: 1, 1: {0, 2}})
    assert candidate_points(p, 5, np.random.default_rng(0)).tolist() == [
        [1, b, c, d] for b in (0, 2) for c in (0, 1) for d in (0, 1)
    ]
    many = ek.factorized([[0.3, 0.7]] * 30)
    draws = candidate_points(many, 5, np.random.default_rng(0))
    assert draws.shape[1] == 30
    assert 500 < len(draws) <= 1000
    xor = ek.mixture([ek.factorized([[1.0, 0.0]] * 2), ek.factorized([[0.0, 1.0]] * 2)])
    assert candidate_points(xor, 1, None).tolist() == [[0, 0], [1, 1]]


def embedded(chances, X):
    """The embedding at points and the mean of the kernel, by enumeration."""
    every = worlds(CARDS)
    return chances @ K(every, X), chances @ K(every) @ chances


@pytest.mark.parametrize("evidence", [None, {1: 2}, {1: {0, 2}, 3: [0.2, 0.5]}])
@pytest.mark.parametrize("normalize", [False, True])
def test_weights_and_variance_are_those_of_enumeration(evidence, normalize):
    p, X = model(), worlds(CARDS)[::5]
    chances = distribution(p if evidence is None else p.condition(evidence))
    mu, total = embedded(chances, X)
    gram, ones = K(X), np.ones(len(X))
    wanted = np.linalg.solve(gram, mu)
    if normalize:  # the conditions of Lagrange
        edge = np.block([[gram, ones[:, None]], [ones[None, :], np.zeros((1, 1))]])
        wanted = np.linalg.solve(edge, np.append(mu, 1.0))[:-1]
    weights, variance = ek.quadrature(p, X, K, evidence=evidence, normalize=normalize, jitter=0.0)
    assert_close(weights, wanted, scale=1.0)
    assert_close(variance, wanted @ gram @ wanted - 2 * wanted @ mu + total, scale=1.0)
    if normalize:
        assert_close(weights.sum(), 1.0)


def test_equal_points_share_their_weight():
    p = model()
    weights, _ = ek.quadrature(p, [[0, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]], K)
    alone, _ = ek.quadrature(p, [[0, 0, 0, 0], [1, 1, 1, 1]], K)
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-5)
    np.testing.assert_allclose(weights[:2].sum(), alone[0], rtol=1e-5)
    with pytest.raises(ek.KernelError, match=r"linearly dependent .* more than jitter=0"):
        ek.quadrature(p, [[0, 0, 0, 0], [0, 0, 0, 0]], K, jitter=0.0)


def test_functions_are_models():
    asia = ek.asia()
    X = asia.sample(6, rng=0)
    function = ek.Target(asia.log_score, asia.cardinalities, asia.names)
    wanted = ek.quadrature(asia, X)
    np.testing.assert_allclose(ek.quadrature(function, X).weights, wanted.weights, atol=1e-9)


def test_real_variables():
    p = ek.gaussian_mixture([0.4, 0.6], [[0.0], [3.0]], [[1.0], [0.5]])
    X = np.linspace(-3.0, 6.0, 19)[:, None]
    weights, variance = ek.quadrature(p, X, ek.RBF(0.5))
    assert 0.0 <= variance < 1e-6
    np.testing.assert_allclose(weights @ np.cos(X[:, 0]), _mean_cosine(), atol=1e-3)


def _mean_cosine():
    return 0.4 * np.exp(-0.5) + 0.6 * np.exp(-0.25) * np.cos(3.0)


test_mistakes_are_told = refusals(None, [
    (lambda: ek.quadrature(model(), [[0, 0, np.nan, 0]]), ek.DataError, "NaN in row 0, col.* 2"),
    (lambda: ek.quadrature(K, [[0]]), ek.DataError, "is of a model. Got a kernel"),
    (lambda: ek.quadrature([[0, 1]], [[0, 1]]), ek.DataError, "must be a Circuit, a Factor"),
    (lambda: ek.quadrature(model(), [[0, 0]]), ek.DataError, r"shape \(samples, 4\)"),
    (lambda: ek.quadrature(model(), [[0] * 4], jitter=-1), ek.DataError, "'jitter'"),
    (lambda: ek.quadrature(model(), [[0] * 4], ek.TableKernel([-np.eye(c) for c in CARDS])),
     ek.KernelError, "Quadrature needs a positive definite kernel"),
    (lambda: ek.quadrature(model(), [[0] * 4], evidence={0: 5}), ek.CircuitError, "5"),
])  # fmt: skip
