"""Points that stand for a model: discrepancies against enumeration, and what the rules promise."""

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_close, refusals
from oracles import distribution, worlds

K = ek.ExpHamming(0.5)
CARDS = [2, 3, 2, 2]


def model(rng=0):
    return ek.random_circuit(ek.Vtree.balanced(4), 3, rng, cardinalities=CARDS)


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
    equal, simplex, best = (
        ek.herd(p, 30, weights=rule, rng=0) for rule in ("equal", "simplex", "quadrature")
    )
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


def test_real_variables():
    p = ek.gaussian_mixture([0.4, 0.6], [[0.0, 0.0], [3.0, 1.0]], [[1.0, 1.0], [0.5, 2.0]])
    k = ek.RBF(0.2)
    for weights in ("equal", "quadrature", "simplex"):
        points = ek.herd(p, 20, k, weights=weights, refine=True, rng=0)
        assert_close(points.mmd, ek.mmd(p, points, k), scale=1.0)
        assert points.mmd < ek.mmd(p, p.sample(20, rng=0), k) / 3


CONDITIONED = model().condition({2: 0})


test_mistakes_are_told = refusals(None, [
    ({"n": 0}, ek.DataError, "'n' parameter of herd"),
    ({"weights": "best"}, ek.DataError, "'weights' parameter of herd must be"),
    ({"candidates": [[0, 0, 0, np.nan]]}, ek.DataError, "Candidates must be complete"),
    ({"k": ek.Delta(), "candidates": [[0, 0, 1, 0]]}, ek.DataError, "No candidate is near"),
], lambda options: ek.herd(CONDITIONED, **{"n": 3, "weights": "quadrature"} | options))  # fmt: skip
