"""The choice of points for quadrature against the definition, and the points to choose from."""

import numpy as np
import pytest

import expectedkernels as ek
from expectedkernels.discrepancies.quadrature import candidate_points, sequential_choice
from expectedkernels.stein.weighted_samples import greedy_choice
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
