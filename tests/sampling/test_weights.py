"""The steps behind weights on the simplex, each against the exact solution."""

import numpy as np
import pytest

import expectedkernels as ek
from expectedkernels import SteinKernel, simplex_weights
from expectedkernels.sampling import weights as module
from expectedkernels.sampling.weights import certify, minimised, z_score
from stein_oracles import states_and_masses, stein_like


def test_the_z_score_tells_draws_from_the_target_from_others():
    grid = ek.ising_grid(3, 3, rng=0)
    states, masses = states_and_masses(grid)
    rng = np.random.default_rng(0)
    gibbs = SteinKernel(grid, ek.ExpHamming(), operator="gibbs")
    good = [
        z_score(gibbs(states[rng.choice(512, size=60, p=masses / masses.sum())])) for _ in range(30)
    ]
    assert abs(np.mean(good)) < 1.0
    assert np.std(good) < 3.0
    assert z_score(gibbs(states[rng.integers(0, 512, size=60)])) > 6.0
    assert z_score(np.eye(3)) == 0.0


def test_the_ridge_of_merged_samples_is_that_of_all():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(12, 5))
    member = rng.integers(12, size=40)
    gram = (features @ features.T)[np.ix_(member, member)]
    merged = minimised(gram, member, ridge=0.7)
    shifted = gram + 0.7 * np.trace(gram) / 40 * np.eye(40)
    alone = minimised(shifted, np.arange(40))
    np.testing.assert_allclose(merged.weights, alone.weights, atol=1e-9)
    assert merged.discrepancy == pytest.approx(alone.discrepancy)
    assert merged.certificate < 1e-8


def test_later_methods_agree_with_pivoting():
    gram = stein_like(50, 80, np.random.default_rng(3), spread=1.0)
    balanced, exponents = module._balanced(gram)
    scale = np.ldexp(1.0, exponents - exponents.max())
    value = simplex_weights(gram).discrepancy
    squares = certify(gram, scale * module._least_squares(balanced, scale), "")
    np.testing.assert_allclose(squares.discrepancy, value, rtol=1e-9)


def test_a_large_gap_is_not_silent(monkeypatch):
    monkeypatch.setattr(module, "_attempts", lambda gram: iter([(np.full(3, 1 / 3), "a guess")]))
    with pytest.warns(RuntimeWarning, match="relative gap of"):
        found = simplex_weights(np.diag([1.0, 2.0, 3.0]))
    assert not found.solved


def test_pivoting_gives_way_to_other_methods(monkeypatch):
    monkeypatch.setattr(module, "_pivoting", lambda *arguments: None)
    found = simplex_weights(np.diag([1.0, 2.0, 4.0]))
    assert found.method == "non-negative least squares"
    np.testing.assert_allclose(found.weights, np.array([4, 2, 1]) / 7, rtol=1e-9)
