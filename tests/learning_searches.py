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


def steps(*args, **options):
    """The circuit, and what the callback was told."""
    told = []
    return learn_strudel(*args, callback=told.append, **options), told


def assert_same_circuit(p, q):
    """Equal to the last bit."""
    assert p.vtree == q.vtree
    for a, b in zip(p.blocks, q.blocks, strict=True):
        assert type(a) is type(b)
        if hasattr(a, "table"):
            np.testing.assert_array_equal(a.table, b.table)
            continue
        np.testing.assert_array_equal(a.index("left"), b.index("left"))
        np.testing.assert_array_equal(a.index("right"), b.index("right"))
        np.testing.assert_array_equal(a.csr.toarray(), b.csr.toarray())
