"""Default weights that are shrunk towards importance weights."""

import numpy as np
import pytest
from scipy.optimize import minimize

import expectedkernels as ek
from assertions import assert_close


def problem(n=12):
    """A target, samples of a proposal that is known, and logs of importance weights."""
    target, proposal = ek.ising_grid(2, 3, rng=0), ek.factorized([[0.4, 0.6]] * 6)
    X = proposal.sample(n, rng=1)
    return target, X, target.log_score(X) - proposal.log_likelihood(X)


def test_the_weights_minimise_what_they_should():
    target, X, logs = problem()
    G = ek.SteinKernel(target, operator="gibbs")(X)
    s = np.exp(logs - logs.max())
    s /= s.sum()
    c = s**2 @ np.diag(G)
    A = G + np.diag(c / s)
    found = minimize(
        lambda w: w @ A @ w,
        s,
        jac=lambda w: 2 * A @ w,
        bounds=[(0.0, 1.0)] * len(s),
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like},
        options={"ftol": 1e-15, "maxiter": 500},
    )
    samples = ek.bbis(target, X, log_weights=logs)
    np.testing.assert_allclose(samples.weights, found.x, atol=1e-5)
    assert "towards importance weights" in samples.decision
    assert f"one of {1 / (s**2).sum():.1f}" in samples.decision


def test_equal_importance_weights_make_the_rule_for_draws():
    target, X, _ = problem()
    K, G = (ek.SteinKernel(target, operator=o)(X) for o in ("shift", "gibbs"))
    found = ek.stein.default_weights(K, G, exact=False, log_weights=np.zeros(len(X)))
    shifted = G + np.eye(len(X)) * np.trace(G) / len(X)
    np.testing.assert_allclose(
        found.weights, ek.simplex_weights(shifted).weights, rtol=0, atol=1e-10
    )


def test_equal_samples_share_in_proportion_to_their_importance():
    target, X, logs = problem(6)
    twice = np.vstack([X, X[:1]])
    split = np.append(logs, logs[0] + np.log(0.25))
    split[0] += np.log(0.75)  # three quarters and one quarter of the same sample
    both = ek.bbis(target, twice, log_weights=split)
    np.testing.assert_allclose(both.weights[0], 3 * both.weights[-1], atol=1e-9)


def test_impossible_samples_have_no_weight():
    target, X, logs = problem()
    logs[3] = -np.inf
    samples = ek.bbis(target, X, log_weights=logs)
    assert samples.weights[3] == 0.0
    rest = ek.bbis(target, np.delete(X, 3, axis=0), log_weights=np.delete(logs, 3))
    np.testing.assert_allclose(np.delete(samples.weights, 3), rest.weights, atol=1e-10)


def test_samples_that_carry_log_weights_pass_them_on():
    target = ek.ising_grid(3, 3, rng=0)
    drawn = ek.cis(target, 30, 2, rng=0)
    carried = ek.collapsed_bbis(target, drawn)
    told = ek.collapsed_bbis(target, drawn.rows, log_weights=drawn.log_weights)
    np.testing.assert_array_equal(carried.weights, told.weights)
    np.testing.assert_array_equal(carried.log_weights, drawn.log_weights)
    plain = ek.collapsed_bbis(target, drawn, weights="raw")
    assert plain.log_weights is None


def test_new_samples_come_with_theirs():
    target, X, logs = problem()
    some = ek.bbis(target, X[:8], log_weights=logs[:8])
    every = ek.bbis(target, X, log_weights=logs)
    assert_close(some.extended(X[8:], log_weights=logs[8:]).weights, every.weights, scale=1.0)
    with pytest.raises(ek.DataError, match="Either all samples have importance weights or none"):
        some.extended(X[8:])
    with pytest.raises(ek.DataError, match="Either all samples have importance weights or none"):
        ek.bbis(target, X[:8]).extended(X[8:], log_weights=logs[8:])


def test_a_proposal_that_visits_both_modes_keeps_their_masses():
    place = np.arange(16).reshape(4, 4)
    pairs = [*zip(place[:, :-1].flat, place[:, 1:].flat, strict=True)]
    pairs += zip(place[:-1].flat, place[1:].flat, strict=True)
    glued = np.exp([[0.8, -0.8], [-0.8, 0.8]])
    factors = [([int(a), int(b)], glued) for a, b in pairs]
    magnet = ek.FactorGraph([2] * 16, [*factors, ([0], [0.3, 0.7])])
    exact = np.array([table[1] for table in magnet.marginals()])
    learned = ek.learn_chow_liu(magnet.sample(300, rng=9))
    errors = []
    for seed in range(4):
        X = learned.sample(200, rng=seed)
        logs = magnet.log_score(X) - learned.log_likelihood(X)
        errors.append(
            [
                np.abs(found.weights @ X - exact).mean()
                for found in (ek.bbis(magnet, X), ek.bbis(magnet, X, log_weights=logs))
            ]
        )
    plain, shrunk = np.mean(errors, axis=0)
    assert shrunk < plain


@pytest.mark.parametrize(
    ("logs", "options", "match"),
    [
        ([0.0], {}, "12 samples need as many log-weights"),
        ([np.nan] * 12, {}, "log-weights: numbers, or -inf"),
        ([-np.inf] * 12, {}, "but not for all"),
        ([0.0] * 12, {"weights": "raw"}, "weights='raw' are asked for. Leave out log_weights"),
        ([0.0] * 12, {"signed": True}, "weights='signed' are"),
    ],
)
def test_mistakes_are_told(logs, options, match):
    target, X, _ = problem()
    with pytest.raises(ek.DataError, match=match):
        ek.bbis(target, X, log_weights=logs, **options)
