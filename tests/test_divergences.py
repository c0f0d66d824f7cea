"""Entropies and divergences, against sums over all states."""

from itertools import product
from math import inf

import numpy as np
import pytest

import expectedkernels as ek

CARDS = [2, 3, 2, 2]
STATES = np.array(list(product(*map(range, CARDS))))


def learned(seed, pseudocount=1.0, like=None):
    """A deterministic circuit, and its values at all states."""
    rng = np.random.default_rng(seed)
    X = np.stack([rng.integers(c, size=60) for c in CARDS], axis=1)
    X[:, 2] = np.where(rng.random(60) < 0.8, X[:, 0], X[:, 2])
    if like is None:
        p = ek.learn_chow_liu(X, pseudocount, cardinalities=CARDS)
    else:
        p = ek.em(like, X, 1, pseudocount=pseudocount, progress=False)
    return p, np.exp(p.log_likelihood(STATES))


def two(seed):
    p, a = learned(seed)
    q, b = learned(seed + 50, like=p)
    return p, a, q, b


@pytest.mark.parametrize("seed", range(4))
def test_all_are_sums_over_states(seed):
    p, a, q, b = two(seed)
    d = ek.divergences
    assert d.entropy(p) == pytest.approx(-(a @ np.log(a)), abs=1e-12)
    assert d.cross_entropy(p, q) == pytest.approx(-(a @ np.log(b)), abs=1e-12)
    assert d.kl_divergence(p, q) == pytest.approx(a @ np.log(a / b), abs=1e-12)
    for alpha in (0.3, 0.5, 2.0, 3.5):
        wanted = np.log((a**alpha * b ** (1 - alpha)).sum()) / (alpha - 1)
        assert d.renyi_divergence(p, q, alpha) == pytest.approx(wanted, abs=1e-12)
        wanted = ((a**alpha * b ** (1 - alpha)).sum() - 1) / (alpha * (alpha - 1))
        assert d.power_divergence(p, q, alpha - 1) == pytest.approx(wanted, abs=1e-12)
    assert d.renyi_divergence(p, q, 1) == d.power_divergence(p, q, 0) == d.kl_divergence(p, q)
    assert d.kl_divergence(p, p) == 0.0


def test_cross_entropies_and_logarithms_of_circuits():
    q, b = learned(0)
    p = ek.mixture([learned(1, like=q)[0], learned(2, like=q)[0]], [0.3, 0.7])
    a = np.exp(p.log_likelihood(STATES))
    assert ek.divergences.cross_entropy(p, q) == pytest.approx(-(a @ np.log(b)), abs=1e-12)
    with pytest.raises(ek.PropertyError, match=r"A logarithm needs a deterministic circuit, but"):
        ek.divergences.kl_divergence(p, q)
    with pytest.raises(ek.PropertyError, match=r"A power needs a deterministic circuit, but"):
        ek.divergences.renyi_divergence(p, q, 0.5)
    p, a = learned(3, pseudocount=0.0)
    found = ek.algebra.logarithm(p)
    wanted = np.where(a > 0, np.log(np.where(a > 0, a, 1.0)), 0.0)
    sums = ek.expected_kernel(found, STATES, ek.Delta())
    assert sums == pytest.approx(wanted, abs=1e-12)
    assert ek.is_compatible(found, p)


def test_supports_that_differ():
    p = ek.factorized([[0.5, 0.5, 0.0], [0.2, 0.8]])
    q = ek.factorized([[0.3, 0.0, 0.7], [0.5, 0.5]])
    r = ek.factorized([[0.0, 0.0, 1.0], [0.5, 0.5]])
    d = ek.divergences
    assert d.cross_entropy(p, q) == d.kl_divergence(p, q) == inf
    assert d.renyi_divergence(p, q, 2.0) == d.power_divergence(p, q, 1.0) == inf
    wanted = np.log(0.5**0.5 * 0.3**0.5 * (0.1**0.5 + 0.4**0.5)) / -0.5
    assert d.renyi_divergence(p, q, 0.5) == pytest.approx(wanted)
    assert d.renyi_divergence(p, r, 0.5) == inf
    assert d.power_divergence(p, r, -0.5) == pytest.approx(4.0)
    half = ek.factorized([[1.0, 0.0, 0.0], [0.2, 0.8]])
    assert d.kl_divergence(half, p) == pytest.approx(np.log(2.0))


def test_what_does_not_fit_is_refused():
    p = ek.factorized([[0.5, 0.5]] * 4)
    balanced = ek.random_circuit(ek.Vtree.balanced(4), 2, rng=0)
    linear = ek.random_circuit(ek.Vtree.right_linear(4), 2, rng=0)
    with pytest.raises(ek.CompatibilityError, match=r"A divergence needs compatible circuits, but"):
        ek.divergences.cross_entropy(balanced, linear)
    with pytest.raises(ek.PropertyError, match=r"sum to one"):
        ek.divergences.entropy(ek.factorized([[1.0, 1.0]], normalized=False))
    with pytest.raises(ek.PropertyError, match=r"discrete variables only. Variable 0 is real"):
        ek.divergences.entropy(ek.Circuit.from_units(ek.Gaussian(0, 0.0, 1.0)))
    with pytest.raises(ek.CircuitError, match=r"'alpha' parameter of renyi_divergence"):
        ek.divergences.renyi_divergence(p, p, 0.0)
    with pytest.raises(ek.CircuitError, match=r"'lambda_' parameter of power_divergence"):
        ek.divergences.power_divergence(p, p, -1.0)
