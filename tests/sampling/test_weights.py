"""The steps behind weights on the simplex, and what the default weights minimise."""

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_raises
from expectedkernels import KernelError, SteinKernel, simplex_weights
from expectedkernels.sampling import weights as module
from expectedkernels.sampling.weights import certify, minimise, z_score
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
    merged = minimise(gram, member, ridge=0.7)
    shifted = gram + 0.7 * np.trace(gram) / 40 * np.eye(40)
    alone = minimise(shifted, np.arange(40))
    np.testing.assert_allclose(merged.weights, alone.weights, atol=1e-9)
    assert merged.discrepancy == pytest.approx(alone.discrepancy)
    assert merged.certificate < 1e-8


def test_later_methods_agree_with_pivoting():
    gram = stein_like(50, 80, np.random.default_rng(3), spread=1.0)
    balanced, exponents = module._balance(gram)
    scale = np.ldexp(1.0, exponents - exponents.max())
    value = simplex_weights(gram).discrepancy
    squares = certify(balanced, exponents, scale * module._least_squares(balanced, scale))
    np.testing.assert_allclose(squares.discrepancy, value, rtol=1e-9)


def test_a_large_gap_is_not_silent(monkeypatch):
    monkeypatch.setattr(module, "_attempts", lambda *_: iter([(np.full(3, 1 / 3), "a guess")]))
    with pytest.warns(RuntimeWarning, match="relative gap of"):
        found = simplex_weights(np.diag([1.0, 2.0, 3.0]))
    assert not found.solved


def test_pivoting_gives_way_to_other_methods(monkeypatch):
    monkeypatch.setattr(module, "_pivoting", lambda *arguments: None)
    found = simplex_weights(np.diag([1.0, 2.0, 4.0]))
    assert found.method == "non-negative least squares"
    np.testing.assert_allclose(found.weights, np.array([4, 2, 1]) / 7, rtol=1e-9)


def both_grams(target, X):
    kernel = ek.ExpHamming()
    return SteinKernel(target, kernel)(X), SteinKernel(target, kernel, operator="gibbs")(X)


def test_samples_from_elsewhere_minimise_the_discrepancy_of_gibbs_updates():
    grid = ek.ising_grid(3, 3, rng=1)
    X, _ = states_and_masses(grid)
    X = X[np.random.default_rng(0).integers(0, 512, size=150)]
    K, G = both_grams(grid, X)
    found = ek.stein.default_weights(K, G)
    assert (found.rule, found.ridge) == ("gibbs", 0.0)
    best = simplex_weights(G)
    np.testing.assert_array_equal(found.weights, best.weights)
    assert found.discrepancy == pytest.approx(best.discrepancy, rel=1e-12)
    assert found.certificate == best.certificate
    assert found.discrepancy <= found.uniform_discrepancy
    np.testing.assert_allclose(found.ess, 1 / np.sum(found.weights**2))
    assert "do not look like an independent sample" in found.reason


def test_draws_from_the_target_keep_their_weight():
    grid = ek.ising_grid(3, 3, rng=1)
    X, masses = states_and_masses(grid)
    X = X[np.random.default_rng(0).choice(512, size=100, p=masses / masses.sum())]
    K, G = both_grams(grid, X)
    found = ek.stein.default_weights(K, G)
    assert (found.rule, found.ridge) == ("gibbs", 1.0)
    best = simplex_weights(G + np.trace(G) / 100 * np.eye(100))
    np.testing.assert_allclose(found.weights, best.weights, atol=1e-12)
    assert simplex_weights(G).ess < found.ess
    assert "100 samples look like an independent sample" in found.reason
    _, label = np.unique(X, axis=0, return_inverse=True)
    label = label.ravel()
    assert len(np.unique(label)) < 100
    for state in np.unique(label):
        np.testing.assert_allclose(np.ptp(found.weights[label == state]), 0.0, atol=1e-10)
    again = ek.stein.default_weights(K, G, groups=label)
    np.testing.assert_allclose(again.weights, found.weights, atol=1e-10)


def test_samples_that_can_be_the_target_become_it():
    grid = ek.ising_grid(2, 2, rng=1)
    X, masses = states_and_masses(grid)
    found = ek.stein.default_weights(*both_grams(grid, X))
    assert found.rule == "exact"
    assert "up to rounding" in found.reason
    np.testing.assert_allclose(found.weights, masses, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_good_samples_are_not_spoiled_and_bad_ones_are_repaired(seed):
    grid = ek.ising_grid(3, 3, rng=seed)
    states, masses = states_and_masses(grid)
    exact = masses @ states
    means = []
    for proposal in (masses, np.full(512, 1 / 512)):
        errors = np.zeros((4, 3))
        for attempt in range(4):
            rng = np.random.default_rng([seed, attempt])
            X = states[rng.choice(512, size=60, p=proposal / proposal.sum())]
            K, G = both_grams(grid, X)
            errors[attempt] = [
                np.abs(w @ X - exact).mean()
                for w in (
                    np.full(60, 1 / 60),
                    simplex_weights(K).weights,
                    ek.stein.default_weights(K, G).weights,
                )
            ]
        means.append(np.log(errors).mean(axis=0))
    uniform, raw, default = np.transpose(means)
    assert (default < uniform).all()
    assert default.mean() < raw.mean()


def test_matrices_of_other_samples_are_refused():
    assert_raises(KernelError, "same samples", ek.stein.default_weights, np.eye(3), np.eye(2))
    with pytest.raises(KernelError, match="'K' parameter of default_weights must be finite"):
        ek.stein.default_weights(np.full((2, 2), np.inf), np.eye(2))
    with pytest.raises(KernelError, match="'G' parameter of default_weights must be symmetric"):
        ek.stein.default_weights(np.eye(2), [[1.0, 0.5], [0.0, 1.0]])
