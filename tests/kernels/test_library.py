import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import expectedkernels as ek
from assertions import assert_close, assert_logs_close, assert_raises
from strategies import domains, kernels, points, rate_twin, rngs, table_twin, vtrees


def assert_gram(twin, X, Y):
    """A kernel gives the Gram matrix of its textbook formula in all ways there are to ask."""
    expected = twin.naive(X, Y)
    size = np.abs(expected).max()
    assert_close(twin.kernel(X, Y), expected, size)
    assert_close(twin.kernel(X), twin.naive(X, X), np.abs(twin.naive(X, X)).max())
    n = min(len(X), len(Y))
    assert_close(twin.kernel.pairs(X[:n], Y[:n]), np.diag(expected), size)
    logs, signs = twin.kernel.logs(X, Y)
    np.testing.assert_array_equal(signs == 0, logs == -np.inf)
    assert_close(signs * np.exp(logs), expected, size)


def assert_precise(twin, X, Y):
    """Values have a small relative error, however small they are."""
    for found, other in ((twin.kernel(X, Y), Y), (twin.kernel(X), X)):
        np.testing.assert_allclose(found, twin.naive(X, other), rtol=1e-12, atol=0)
    assert_gram(twin, X, Y)


def rows_of(rng, values, n, d):
    top = {"bits": 2, "codes": 5, "many codes": 500, "large codes": 10**6}.get(values)
    if top is not None:
        return rng.integers(-1, top - 1, (n, d)).astype(float)
    X = rng.normal(size=(n, d))
    if values == "mixed":
        X[:, ::2] = rng.integers(0, 3, X[:, ::2].shape)
    return X


@pytest.mark.parametrize("values", ["bits", "codes", "many codes", "large codes", "real", "mixed"])
@pytest.mark.parametrize("rates", ["alike", "all different", "some zero"])
@pytest.mark.parametrize("name", ["RBF", "Laplacian", "ExpHamming"])
def test_kernels_with_rates(values, rates, name):
    rng = np.random.default_rng(len(values) * 7 + len(rates))
    X, Y = (rows_of(rng, values, n, 6) for n in (17, 23))
    Y[:5] = X[:5]
    Y[5:9, :3] = X[5:9, :3]
    gamma = rng.random(6) * (rng.random(6) < (0.5 if rates == "some zero" else 1.0))
    gamma = (1e-6 if values == "large codes" else 1.0) * (0.3 if rates == "alike" else gamma)
    assert_precise(rate_twin(name, gamma), X, Y)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e8])
@pytest.mark.parametrize("spread", [1e-8, 1e-3, 1.0, 30.0])
def test_squared_distances_do_not_cancel(offset, spread):
    rng = np.random.default_rng(3)
    X, Y = (offset + spread * rng.normal(size=(20, 7)) for _ in range(2))
    Y[:3] = X[:3]
    Y[3] = X[3] + 1e-9 * spread
    for rate in (0.7 / spread**2, 0.5):
        assert_precise(rate_twin("RBF", rate), X, Y)


@pytest.mark.parametrize("size", [1e-150, 1e150])
def test_products_of_large_tables_keep_their_digits(size):
    rng = np.random.default_rng(0)
    tables = [(size if v % 2 else 1 / size) * (0.5 + rng.random((3, 3))) for v in range(40)]
    X = rng.integers(0, 3, (8, 40)).astype(float)
    assert_precise(table_twin(tables), X, X[:5])


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
    monkeypatch.setattr("expectedkernels.kernels.target.KEY_BYTES", 8 * 27 * 7)
    monkeypatch.setattr("expectedkernels.kernels.target.ASKED_BYTES", 8 * 9 * 30)
    counted.asked.clear()
    parts = ek.Target(counted, model.cardinalities).all_site_logs(X)
    assert max(map(len, counted.asked)) <= 30
    for a, b in zip(parts, whole, strict=True):
        np.testing.assert_array_equal(a, b)


@settings(max_examples=80)
@given(st.data(), domains(max_worlds=64), rngs)
def test_the_whole_algebra(data, cards, rng):
    twin = data.draw(kernels(cards, data.draw(vtrees(len(cards))), signed=True))
    assert_gram(twin, points(rng, cards, 5), points(rng, cards, 4))


def test_one_point_and_remote_points():
    k = ek.RBF(0.5)
    assert k([[0, 1]], [[1, 1]]).shape == (1, 1)
    assert_raises(ek.KernelError, r"X.reshape\(1, -1\) if they are a single", k, [0, 1], [[1, 1]])
    X, Y = np.array([[0.0], [3.0]]), np.array([[1e6], [2.0]])
    logs, signs = ek.RBF(2.0).logs(X, Y)
    assert_logs_close(logs, -2.0 * (X - Y.T) ** 2)
    np.testing.assert_array_equal(signs, np.ones((2, 2)))
    logs, _ = (ek.RBF(2.0) + 0.5 * ek.Laplacian(1.0)).logs(X, Y)
    distance = np.abs(X - Y.T)
    assert_logs_close(logs, np.logaddexp(-2.0 * distance**2, np.log(0.5) - distance))
    logs, signs = ek.TableKernel([[[1.0, -1e-300], [0.0, 1.0]]] * 3).logs([[0] * 3, [1] * 3])
    assert_logs_close(logs, np.array([[0.0, -900 * np.log(10)], [-np.inf, 0.0]]))
    np.testing.assert_array_equal(signs, [[1.0, -1.0], [0.0, 1.0]])
    X = np.array([[1e200, 0.5], [0.0, 0.5]])
    assert ek.RBF(1.0)(X).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert ek.RBF(1.0).logs(X)[0][0, 1] == -np.inf


@settings(max_examples=40)
@given(st.data(), rngs)
def test_positive_definite_kernels_have_positive_definite_gram_matrices(data, rng):
    cards = (2, 3, 4)
    k = data.draw(kernels(cards, ek.Vtree.balanced(3), definite=True, signed=True)).kernel
    assert k.is_positive_definite(cards)
    gram = k(points(rng, cards, 12))
    assert_close(gram, gram.T, np.abs(gram).max())
    assert np.linalg.eigvalsh((gram + gram.T) / 2).min() >= -1e-12 * 12 * np.abs(gram).max()


@pytest.mark.parametrize("k", [ek.RBF(0.01), ek.Laplacian(0.1), ek.ExpHamming(), ek.Delta()])
@pytest.mark.parametrize("whole", [True, False])
def test_a_gram_matrix_of_several_blocks_is_symmetric_and_as_defined(k, whole):
    rng = np.random.default_rng(1)
    X = rng.integers(0, 9, (1100, 4)).astype(float) if whole else rng.normal(size=(1100, 4))
    found = k(X)
    assert np.array_equal(found, found.T)
    assert (np.diag(found) == 1.0).all()
    some = rng.integers(0, len(X), 50)
    difference = X[some, None] - X
    logs = sum(factor.log_at(difference[:, :, v]) for v, factor in enumerate(k.factors(4)))
    np.testing.assert_allclose(found[some], np.exp(logs), rtol=1e-12, atol=0)


def test_unsymmetric_and_empty_matrices():
    rng = np.random.default_rng(2)
    table = rng.random((3, 3))
    k = ek.TableKernel([table]) + 0.5 * ek.RBF(1.0) * ek.TableKernel([table.T])
    X = rng.integers(0, 3, (1030, 1)).astype(float)
    codes = X[:, 0].astype(int)
    single = table + 0.5 * ek.RBF(1.0)([[0], [1], [2]]) * table.T
    assert_close(k(X), single[codes][:, codes])
    for k in (ek.RBF(1.0), ek.Laplacian(1.0), ek.ExpHamming(), ek.Delta()):
        assert k(np.zeros((0, 2)), [[0.0, 1.5]]).shape == (0, 1)
        assert k([[0.0, 1.5]], np.zeros((0, 2))).shape == (1, 0)


@pytest.mark.parametrize("log", [False, True])
def test_sums_over_all_pairs_of_one_set_take_half_of_them(log):
    rng, n = np.random.default_rng(5), 2000  # their pairs do not fit into one piece
    X, weights = rng.integers(0, 3, (n, 2)).astype(float), (rng.normal(size=n) + 1.0) / n
    q, table = ek.Empirical(X, weights), rng.random((3, 3))
    for k in (ek.RBF(0.4), ek.TableKernel([table, table])):
        found = ek.expected_kernel(q, q, k, log=log)
        assert_close(np.exp(found) if log else found, weights @ k(X) @ weights)
