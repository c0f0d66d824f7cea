"""States around points are asked in as many calls as memory needs, none of them twice."""

import numpy as np

import expectedkernels as ek
from expectedkernels.kernels import target as module


class Counted:
    """A function that remembers the rows it is asked for."""

    def __init__(self, model):
        self.model, self.asked = model, []

    def __call__(self, X):
        self.asked.append(X.copy())
        return self.model.log_score(X)


def test_no_state_is_asked_twice(monkeypatch):
    model = ek.ising_grid(3, 3, rng=0, cardinality=3)
    X = np.random.default_rng(0).integers(3, size=(40, 9))
    X = np.vstack([X, X[:10]])
    whole = ek.Target(model.log_score, model.cardinalities).all_site_logs(X)
    counted = Counted(model)
    ek.Target(counted, model.cardinalities).all_site_logs(X)
    (asked,) = counted.asked
    assert len(np.unique(asked, axis=0)) == len(asked) <= 40 * (1 + 9 * 2)
    counted.asked.clear()
    ek.bbis(ek.Target(counted, model.cardinalities), X)
    assert len(counted.asked) == 1  # both kinds of operators share the answers
    # less memory: more calls, the same values
    monkeypatch.setattr(module, "KEY_BYTES", 8 * 27 * 7)
    monkeypatch.setattr(module, "ASKED_BYTES", 8 * 9 * 30)
    counted.asked.clear()
    parts = ek.Target(counted, model.cardinalities).all_site_logs(X)
    assert max(map(len, counted.asked)) <= 30
    for a, b in zip(parts, whole, strict=True):
        np.testing.assert_array_equal(a, b)
