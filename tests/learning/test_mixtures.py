"""Mixtures of circuits of one structure, and their EM against its definition."""

import numpy as np
import pytest
from scipy.special import logsumexp
from threadpoolctl import ThreadpoolController

import expectedkernels as ek
from assertions import assert_close, refusals
from expectedkernels import em, learn_mixture, learn_strudel
from expectedkernels.learning import strudel as module
from expectedkernels.learning.normals import (
    OneThread,
    fit_mixture,
    fit_normal,
    kernel_mixture,
    log_likelihood,
)

NAN = np.nan


def learned(X, k, **options):
    return learn_mixture(X, k, **({"rng": 0, "progress": False} | options))


def rows(n=200, seed=0):
    """Rows of five binary variables from three groups."""
    rng = np.random.default_rng(seed)
    centres = np.array([[9, 9, 1, 1, 5], [1, 8, 9, 9, 1], [3, 1, 2, 9, 9]]) / 10
    return (rng.random((n, 5)) < centres[rng.integers(3, size=n)]).astype(float)


def structure_of(X, splits=3):
    return learn_strudel(X, iterations=splits, progress=False)


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


def test_more_states_missing_values_and_few_rows():
    rng = np.random.default_rng(0)
    X = rng.integers(3, size=(60, 4)).astype(float)
    X[:, 1] = X[:, 0]
    q = learned(X, 3, splits=2, iterations=5)
    assert q.cardinalities == (3, 3, 3, 3)
    X[rng.random(X.shape) < 0.2] = NAN
    holey = learned(X, 3, splits=2, iterations=5)
    assert holey.log_partition() == pytest.approx(0.0, abs=1e-9)
    assert learned(X[:2], 5, splits=0, cardinalities=3, iterations=2).n_variables == 4


def test_validation_data_choose_the_iteration():
    X, X_valid = rows(40, seed=0), rows(400, seed=1)
    p = structure_of(X, splits=8)
    options = {"structure": p, "pseudocount": 0.05}
    every = (learned(X, 4, iterations=i, **options) for i in range(25))
    means = [p.log_likelihood(X_valid).mean() for p in every]
    best = learned(X, 4, iterations=24, X_valid=X_valid, **options)
    assert best.log_likelihood(X_valid).mean() == pytest.approx(max(means), abs=1e-10)
    assert max(means) > means[-1] + 1e-4


def test_seeds_tolerance_and_options():
    X = rows(100)
    a, b = (learned(X, 3, splits=2, iterations=3, rng=5) for _ in range(2))
    np.testing.assert_array_equal(a.log_likelihood(X), b.log_likelihood(X))
    p = structure_of(X)
    far, near = (learned(X, 3, structure=p, tolerance=t) for t in (1e-9, 1e9))
    assert_close(near.log_likelihood(X), learned(X, 3, structure=p, iterations=1).log_likelihood(X))
    assert far.log_likelihood(X).mean() > near.log_likelihood(X).mean()
    top = learned(X, 2, splits=2, iterations=1, alpha=0.5)
    assert top.n_roots == 1


def test_mixtures_of_a_real_data_set(nltcs):
    X, _, test = nltcs
    single = learn_strudel(X, iterations=100, progress=False)
    alone = learned(X, 1, splits=100, iterations=1)
    assert_close(alone.log_likelihood(test), single.log_likelihood(test), scale=1.0)
    mixed = learned(X, 5, splits=100, iterations=50)
    gain = mixed.log_likelihood(test).mean() - single.log_likelihood(test).mean()
    assert gain > 0.15
    assert ek.is_compatible(mixed, single)
    few = learned(X, 5, splits=100, iterations=5)
    assert -6.07 < few.log_likelihood(test).mean() < -6.035


PAIR = {"X": [[0, 0], [1, 1]], "k": 2, "structure": ek.factorized([[0.5, 0.5]] * 2)}
SURE = ek.factorized([[1, 0], [1, 1]], normalized=False)


test_bad_arguments_are_refused = refusals(ek.CircuitError, [
    ({"X": [[0.5, 0]]}, r"must be integers in 0..1. Got 0.5 in row 0"),
    ({"alpha": 0.5}, "Options of learn_strudel mean nothing .* Got alpha"),
    ({"structure": SURE}, "Row 1 of X has probability zero"),
    ({"structure": SURE, "X": [[0, 0]], "X_valid": [[1, 0]]}, "Row 0 of X_valid has"),
    ({"structure": ek.gaussian_mixture([1], [[0, 0]], [[1, 1]])}, "has the real variable 0"),
    ({"X": np.empty((0, 2))}, "A mixture needs at least one row"),
    ({"structure": "p.npz"}, "the structure of a Circuit. Got str instead"),
], lambda options: learned(**PAIR | options))  # fmt: skip


def test_components_without_pseudocount_do_not_disturb_each_other():
    # a weight of zero in one component must not touch the structure it shares with the others
    X = np.array([[0, 1], [1, 1]])
    p = ek.learn_mixture(X, 3, rng=0, pseudocount=0.0)
    assert np.isclose(p.log_partition(), 0.0)
    assert np.exp(p.log_likelihood([[0, 0], [1, 0]])).tolist() == [0.0, 0.0]


def test_any_circuit_can_be_the_structure():
    X = rows(150)
    dense = ek.random_circuit(5, 4, rng=0)
    q = learned(X, 2, structure=dense, iterations=5)
    assert q.log_partition() == pytest.approx(0.0, abs=1e-9)
    assert q.log_likelihood(X).mean() > dense.log_likelihood(X).mean()


def test_learning_with_holes_never_lowers_the_likelihood():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(80, 3)) @ rng.normal(size=(3, 3))
    whole = fit_normal(Z)
    np.testing.assert_allclose(whole.means[0], Z.mean(axis=0))
    Z[rng.random(Z.shape) < 0.3] = np.nan
    logs = [log_likelihood(fit_normal(Z, steps=n, tolerance=0), Z).mean() for n in range(1, 12)]
    assert (np.diff(logs) > -1e-3).all()
    mixture = fit_mixture(Z, 2, rng=rng)
    assert log_likelihood(mixture, Z).mean() > logs[0]


def test_kernel_mixtures_keep_mean_and_covariance():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 2))
    normal = fit_normal(Z)
    found = kernel_mixture(Z, normal, 0.6, rng)
    np.testing.assert_allclose(found.weights @ found.means, normal.means[0], atol=1e-12)
    away = found.means - normal.means[0]
    total = found.covariances[0] + (found.weights[:, None] * away).T @ away
    np.testing.assert_allclose(total, normal.covariances[0], rtol=0.1, atol=0.05)


def blas_threads():
    found = ThreadpoolController().select(user_api="blas").info()
    return [library["num_threads"] for library in found]


def test_the_limit_on_threads_is_lifted_by_the_last_that_leaves():
    before, limit = blas_threads(), OneThread()
    limit.__enter__()
    limit.__enter__()
    assert set(blas_threads()) == {1}
    limit.__exit__()
    assert set(blas_threads()) == {1}
    limit.__exit__()
    assert blas_threads() == before
