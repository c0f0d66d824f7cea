"""Used parameters and EM of mixtures, against their definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.special import logsumexp

import expectedkernels as ek
from assertions import assert_close
from circuit_oracles import drawn_deterministic
from expectedkernels import em, learn_mixture, learn_strudel
from expectedkernels.learning import mixtures as module
from expectedkernels.learning.em import normalized
from expectedkernels.learning.mixtures import Parameters
from strategies import seeds

NAN = np.nan


def learned(X, k, **options):
    return learn_mixture(X, k, **({"rng": 0, "progress": False} | options))


def rows(n=200, seed=0):
    """Rows of five binary variables from three groups."""
    rng = np.random.default_rng(seed)
    centres = np.array(
        [[0.9, 0.9, 0.1, 0.1, 0.5], [0.1, 0.8, 0.9, 0.9, 0.1], [0.3, 0.1, 0.2, 0.9, 0.9]]
    )
    return (rng.random((n, 5)) < centres[rng.integers(3, size=n)]).astype(float)


def structure_of(X, splits=3):
    return learn_strudel(X, iterations=splits, progress=False)


@given(seeds)
@settings(max_examples=25)
def test_used_parameters_give_likelihoods(seed):
    p = normalized(drawn_deterministic(seed))
    X = p.sample(45, rng=seed)
    layout = Parameters(p)
    uses = layout.uses(X)
    shares = np.concatenate(
        [
            np.ravel(b.table) if hasattr(b, "table") else b.csr.data
            for b in p.blocks
            if hasattr(b, "table") or b.weights is not None
        ]
    )
    with np.errstate(divide="ignore"):
        logs = uses @ np.log(shares)
    assert_close(np.exp(logs), np.exp(p.log_likelihood(X)), scale=1.0)
    again = layout.with_shares(shares)
    assert_close(again.log_likelihood(X), p.log_likelihood(X), scale=1.0)
    np.testing.assert_array_equal(layout.uses(X, max_bytes=500).toarray(), uses.toarray())


def naive_em(components, weights, X, iterations, beta):
    """EM with components fitted one by one, each to all rows with its responsibilities."""
    for _ in range(iterations):
        logs = np.stack([c.log_likelihood(X) for c in components], axis=1) + np.log(weights)
        r = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        weights = r.mean(axis=0)
        components = [
            em(c, X, 1, pseudocount=beta / r[:, k].mean(), sample_weight=r[:, k], progress=False)
            for k, c in enumerate(components)
        ]
    return ek.mixture(components, weights)


@pytest.mark.parametrize("holes", [0.0, 0.2])
@pytest.mark.parametrize("pseudocount", [0.0, 0.5])
def test_em_is_that_of_the_definition(monkeypatch, holes, pseudocount):
    X = rows(120)
    p = structure_of(X)
    X[np.random.default_rng(1).random(X.shape) < holes] = NAN
    cluster = np.random.default_rng(2).integers(3, size=len(X))
    R = 0.9 * np.eye(3)[cluster] + 0.1 / 3
    # distinct rows may be in several clusters here: what counts is the sum over equal rows
    start = [
        em(p, X, 1, pseudocount=pseudocount / R[:, k].mean(), sample_weight=R[:, k], progress=False)
        for k in range(3)
    ]
    expected = naive_em(start, R.mean(axis=0), X, 4, pseudocount)

    def clusters(distinct, weights, cardinalities, n, generator):
        shares = np.zeros((len(distinct), n))
        for x, r in zip(X, R, strict=True):
            shares[np.array([np.array_equal(x, y, equal_nan=True) for y in distinct])] += r
        return shares / weights[:, None]

    monkeypatch.setattr(module, "_clusters", clusters)
    q = learned(X, 3, structure=p, iterations=4, pseudocount=pseudocount)
    np.testing.assert_allclose(q.log_likelihood(X), expected.log_likelihood(X), rtol=1e-8)


def test_equal_components_are_one_circuit(monkeypatch):
    X = rows(100)
    p = structure_of(X)
    monkeypatch.setattr(module, "_clusters", lambda X, *of: np.full((len(X), of[2]), 1 / of[2]))
    q = learned(X, 3, structure=p, iterations=3, pseudocount=0.0)
    single = em(p, X, 1, progress=False)
    assert_close(q.log_likelihood(X), single.log_likelihood(X), scale=1.0)
    assert q.n_units == single.n_units


def test_an_interrupt_returns_the_best_so_far(monkeypatch):
    X = rows(100)
    p = structure_of(X)
    expected = learned(X, 3, structure=p, iterations=2)
    step, calls = module._updated, []

    def interrupted(*arguments):
        calls.append(None)
        if len(calls) == 4:  # the first one is the start
            raise KeyboardInterrupt
        return step(*arguments)

    monkeypatch.setattr(module, "_updated", interrupted)
    found = learned(X, 3, structure=p, iterations=10)
    assert_close(found.log_likelihood(X), expected.log_likelihood(X))


def test_uses_refuse_rows_outside_the_support():
    layout = Parameters(ek.factorized([[1, 0], [1, 1]], normalized=False))
    with pytest.raises(ek.DataError, match="Row 1 of the data has probability zero"):
        layout.uses([[0, 0], [1, 0]])
    assert layout.uses(np.empty((0, 2))).shape == (0, 4)
