"""The default weights: what they minimise, when they are exact, and that they do no harm."""

import numpy as np
import pytest

import expectedkernels as ek
from expectedkernels import CollapsedSteinKernel, KernelError, SteinKernel, simplex_weights
from stein_oracles import states_and_masses


def both_grams(target, X):
    kernel = ek.ExpHamming()
    return SteinKernel(target, kernel)(X), SteinKernel(target, kernel, operator="gibbs")(X)


def mean_error(weights, X, exact):
    return np.abs(weights @ X - exact).mean()


def test_samples_from_elsewhere_minimise_the_discrepancy_of_gibbs_updates():
    grid = ek.ising_grid(3, 3, rng=1)
    X, _ = states_and_masses(grid)
    X = X[np.random.default_rng(0).integers(0, 512, size=150)]
    K, G = both_grams(grid, X)
    found = ek.stein.default_weights(K, G)
    assert (found.rule, found.ridge) == ("gibbs", 0.0)
    best = simplex_weights(G)
    np.testing.assert_array_equal(found.weights, best.weights)
    assert (found.discrepancy, found.certificate) == (best.discrepancy, best.certificate)
    assert found.discrepancy <= found.uniform_discrepancy
    np.testing.assert_allclose(found.ess, 1 / np.sum(found.weights**2))
    assert "do not look like independent draws" in found.reason


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
    assert "100 samples look like independent draws" in found.reason
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


def test_a_sample_with_everything_collapsed_takes_all():
    circuit = ek.factorized([[0.2, 0.8], [0.3, 0.7]])
    rows = [[0, 1], [np.nan, np.nan], [1, np.nan]]
    kernel = ek.ExpHamming()
    K = CollapsedSteinKernel(circuit, kernel)(rows)
    found = ek.stein.default_weights(
        K, CollapsedSteinKernel(circuit, kernel, operator="gibbs")(rows)
    )
    np.testing.assert_array_equal(found.weights, [0.0, 1.0, 0.0])


@pytest.mark.parametrize("seed", range(3))
def test_good_samples_are_not_spoiled_and_bad_ones_are_repaired(seed):
    grid = ek.ising_grid(3, 3, rng=seed)
    states, masses = states_and_masses(grid)
    exact = masses @ states
    uniform, raw, default = [], [], []
    for proposal in (masses, np.full(512, 1 / 512)):
        errors = np.zeros((4, 3))
        for attempt in range(4):
            rng = np.random.default_rng([seed, attempt])
            X = states[rng.choice(512, size=60, p=proposal / proposal.sum())]
            K, G = both_grams(grid, X)
            errors[attempt] = [
                mean_error(w, X, exact)
                for w in (
                    np.full(60, 1 / 60),
                    simplex_weights(K).weights,
                    ek.stein.default_weights(K, G).weights,
                )
            ]
        means = np.log(errors).mean(axis=0)
        uniform.append(means[0])
        raw.append(means[1])
        default.append(means[2])
    assert max(d - u for d, u in zip(default, uniform, strict=True)) < 0.0
    assert np.mean(default) < np.mean(raw)


def test_matrices_of_other_samples_are_refused():
    with pytest.raises(KernelError, match="same samples"):
        ek.stein.default_weights(np.eye(3), np.eye(2))
    with pytest.raises(KernelError, match="'K' parameter of default_weights must be finite"):
        ek.stein.default_weights(np.full((2, 2), np.inf), np.eye(2))
    with pytest.raises(KernelError, match="'G' parameter of default_weights must be symmetric"):
        ek.stein.default_weights(np.eye(2), [[1.0, 0.5], [0.0, 1.0]])
