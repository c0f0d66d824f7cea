import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_close
from expectedkernels.kernels import target as module
from expectedkernels.kernels.factors import Factor
from expectedkernels.kernels.points import log_products


def by_definition(factors, X, Y):
    """The product over variables, pair by pair and in whole numbers of states where there are."""
    values = np.ones((len(X), len(Y)))
    for v, factor in enumerate(factors):
        difference = X[:, v, None] - Y[None, :, v]
        values *= np.exp(factor.log_at(difference))
        if factor.table is not None:
            values *= factor.table[X[:, v].astype(int)][:, Y[:, v].astype(int)]
    return values


def assert_as_defined(factors, X, Y):
    logs, signs = log_products(factors, X, Y)
    values = np.exp(logs) * (1.0 if signs is None else signs)
    np.testing.assert_allclose(values, by_definition(factors, X, Y), rtol=1e-12, atol=0)
    precise, again = log_products(factors, X, Y, relative=True)
    assert_close(precise[np.isfinite(precise)], logs[np.isfinite(precise)])
    assert (signs is None) == (again is None)


def rates_of(rng, kind, d):
    if kind == "alike":
        return np.full(d, 0.3)
    rates = rng.random(d)
    if kind == "some zero":
        rates[rng.random(d) < 0.5] = 0.0
    return rates


KINDS = ("alike", "all different", "some zero")


@pytest.mark.parametrize("values", ["bits", "codes", "many codes", "large codes", "real", "mixed"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("field", ["square", "absolute", "unequal"])
def test_every_rate_equals_its_definition(values, kind, field):
    rng = np.random.default_rng(len(values) * 7 + len(kind))
    X, Y = (points(rng, values, n, 6) for n in (17, 23))
    Y[:5] = X[:5]
    Y[5:9, :3] = X[5:9, :3]
    scale = 1e-6 if values == "large codes" else 1.0
    factors = [Factor(**{field: scale * rate}) for rate in rates_of(rng, kind, 6)]
    assert_as_defined(factors, X, Y)
    assert_as_defined(factors, X, X)


def points(rng, values, n, d):
    top = {"bits": 2, "codes": 5, "many codes": 500, "large codes": 10**6}.get(values)
    if top is not None:
        return rng.integers(-1, top - 1, (n, d)).astype(float)
    X = rng.normal(size=(n, d))
    if values == "mixed":
        X[:, ::2] = rng.integers(0, 3, X[:, ::2].shape)
    return X


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e8])
@pytest.mark.parametrize("spread", [1e-8, 1e-3, 1.0, 30.0])
def test_squared_distances_do_not_cancel(offset, spread):
    rng = np.random.default_rng(3)
    X, Y = (offset + spread * rng.normal(size=(20, 7)) for _ in range(2))
    Y[:3] = X[:3]
    Y[3] = X[3] + 1e-9 * spread
    for rate in (0.7 / spread**2, 0.5):
        assert_as_defined([Factor(square=rate)] * 7, X, Y)


@pytest.mark.parametrize("size", [1e-150, 1e150])
def test_products_of_large_tables_keep_their_digits(size):
    rng = np.random.default_rng(0)
    tables = [(size if v % 2 else 1 / size) * (0.5 + rng.random((3, 3))) for v in range(40)]
    X = rng.integers(0, 3, (8, 40)).astype(float)
    assert_as_defined([Factor(table=table) for table in tables], X, X)


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
