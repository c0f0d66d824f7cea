"""Data, searches and circuits to compare in the tests of structure learning."""

import numpy as np

from expectedkernels import learn_strudel


def random_rows(rng, cardinalities, n):
    """Rows from a few clusters, so that there is something to find."""
    centers = [rng.integers(card, size=4) for card in cardinalities]
    cluster = rng.integers(4, size=n)
    noise = np.stack([rng.integers(card, size=n) for card in cardinalities], axis=1)
    near = np.stack([center[cluster] for center in centers], axis=1)
    return np.where(rng.random(noise.shape) < 0.7, near, noise)


def dependent_rows(rng, cardinalities, n):
    """Rows whose columns depend on each other."""
    columns = [rng.integers(cardinalities[0], size=n)]
    for card in cardinalities[1:]:
        other = columns[rng.integers(len(columns))]
        noise = rng.integers(card, size=n)
        columns.append(np.where(rng.random(n) < 0.6, other % card, noise))
    return np.stack(columns, axis=1)


def steps(*args, **options):
    """The circuit, and what the callback was told."""
    told = []
    return learn_strudel(*args, callback=told.append, **options), told


def table(n=300, missing=0.0, seed=0):
    """Rows of four variables that depend on each other."""
    rng = np.random.default_rng(seed)
    X = rng.integers(3, size=(n, 4)).astype(float)
    X[:, 1] = np.where(rng.random(n) < 0.8, X[:, 0], X[:, 1])
    X[:, 2] = np.where(rng.random(n) < 0.7, X[:, 1], X[:, 2])
    return np.where(rng.random(X.shape) < missing, np.nan, X)


def pieces(X, size=60):
    """The rows in chunks."""
    return [X[i : i + size] for i in range(0, len(X), size)]


def assert_alike(p, q, X, rtol=1e-9, atol=1e-11):
    """Two circuits have about the same log-likelihoods."""
    np.testing.assert_allclose(p.log_likelihood(X), q.log_likelihood(X), rtol=rtol, atol=atol)
