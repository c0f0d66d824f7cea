"""Weights of points, and points that stand for a model, against enumeration."""

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
        more = ([*greedy, j] for j in range(len(X)))
        sizes = [gram[np.ix_(s, s)].mean() - 2 * mu[s].mean() for s in more]
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
    mean = 0.4 * np.exp(-0.5) + 0.6 * np.exp(-0.25) * np.cos(3.0)
    np.testing.assert_allclose(weights @ np.cos(X[:, 0]), mean, atol=1e-3)


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


@pytest.mark.parametrize("weights", ["equal", "quadrature", "simplex"])
@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("evidence", [None, {1: 2}])
def test_the_discrepancy_is_that_of_enumeration(weights, refine, evidence):
    p, every = model(), worlds(CARDS)
    given = p if evidence is None else p.condition(evidence)
    points = ek.herd(p, 6, K, evidence=evidence, weights=weights, refine=refine, rng=0)
    gap = distribution(given)
    for x, w in zip(points.X, points.weights, strict=True):
        gap[np.flatnonzero((every == x).all(axis=1))] -= w
    assert_close(points.mmd, np.sqrt(gap @ K(every) @ gap), scale=1.0)
    assert_close(points.mmd, ek.mmd(given, points, K), scale=1.0)
    assert_close(points.weights.sum(), 1.0)
    if evidence is not None:
        assert (points.X[:, 1] == 2).all()
    f = every[:, 0] * every[:, 1]
    found = points.expect(lambda X: X[:, 0] * X[:, 1])
    norm = np.sqrt(f @ np.linalg.solve(K(every), f))
    assert abs(found - distribution(given) @ f) <= norm * points.mmd + 1e-12


def test_better_rules_have_smaller_discrepancies():
    p = ek.random_circuit(ek.Vtree.balanced(12), 4, 0, cardinalities=2)
    rules = "equal", "simplex", "quadrature"
    equal, simplex, best = (ek.herd(p, 30, weights=rule, rng=0) for rule in rules)
    drawn = np.mean([ek.mmd(p, p.sample(30, rng)) for rng in range(5)])
    assert best.mmd - 1e-10 < simplex.mmd < equal.mmd < drawn / 2
    assert (simplex.weights > 0).all()
    refined = ek.herd(p, 30, refine=True, rng=0)
    assert refined.mmd <= equal.mmd


def test_all_states_are_the_model_itself():
    p = model(2)
    points = ek.herd(p, 100, K, weights="quadrature")
    assert len(points.X) == 24
    assert points.mmd < 1e-7
    order = np.lexsort(points.X.T[::-1])
    np.testing.assert_allclose(points.weights[order], distribution(p), atol=1e-7)


def test_points_are_candidates_and_frames_have_labels():
    asia = ek.asia()
    rows = asia.sample(50, rng=1, as_frame=True)
    frame = ek.herd(asia, 5, candidates=rows).to_frame()
    assert list(frame.columns) == list(asia.names)
    assert set(frame.itertuples(index=False)) <= set(rows.itertuples(index=False))
    given = ek.herd(asia, 5, evidence={"smoke": "yes"}).to_frame()
    assert set(given["smoke"]) == {"yes"}


def test_real_points():
    p = ek.gaussian_mixture([0.4, 0.6], [[0.0, 0.0], [3.0, 1.0]], [[1.0, 1.0], [0.5, 2.0]])
    k = ek.RBF(0.2)
    for weights in ("equal", "quadrature", "simplex"):
        points = ek.herd(p, 20, k, weights=weights, refine=True, rng=0)
        assert_close(points.mmd, ek.mmd(p, points, k), scale=1.0)
        assert points.mmd < ek.mmd(p, p.sample(20, rng=0), k) / 3


CONDITIONED = model().condition({2: 0})


test_wrong_points_are_refused = refusals(None, [
    ({"n": 0}, ek.DataError, "'n' parameter of herd"),
    ({"weights": "best"}, ek.DataError, "'weights' parameter of herd must be"),
    ({"candidates": [[0, 0, 0, np.nan]]}, ek.DataError, "Candidates must be complete"),
    ({"k": ek.Delta(), "candidates": [[0, 0, 1, 0]]}, ek.DataError, "No candidate is near"),
], lambda options: ek.herd(CONDITIONED, **{"n": 3, "weights": "quadrature"} | options))  # fmt: skip
