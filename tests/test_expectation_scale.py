"""Expected kernels far outside the range of floats: many variables, remote parts, zeros."""

from math import inf, log

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import special

import expectedkernels as ek
from assertions import assert_close, assert_logs_close, assert_raises, to_numpy
from circuit_oracles import log_distribution
from oracles import Table, evidence_weights, worlds
from strategies import circuits, domains, evidence, rngs, vtrees, with_swaps

MANY = 10_000
VTREES = (ek.Vtree.balanced, ek.Vtree.right_linear, ek.Vtree.left_linear)
HAMMING = np.exp(-0.3 * (1 - np.eye(2)))


def log_products(tables, others):
    """Sums over variables of log(t' K u), for K of two states that differ by exp(-0.3)."""
    return np.log(np.einsum("na,ab,nb->n", tables, HAMMING, others)).sum()


def forward(initial, transition, factors):
    """The log of a hidden Markov model's value, by the forward algorithm.

    `factors` holds the value of every state at every position.
    """
    total, state = 0.0, initial * factors[0]
    for factor in factors[1:]:
        state = (state @ transition) * factor
        total += np.log(state.sum())
        state = state / state.sum()
    return total + np.log(state.sum())


def test_hidden_markov_models():
    rng = np.random.default_rng(2)

    def model():
        return rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), 3), rng.dirichlet(np.ones(2), 3)

    (a, A, Ea), (b, B, Eb) = model(), model()
    p, q = ek.hmm(a, A, Ea, length=MANY), ek.hmm(b, B, Eb, length=MANY)
    X = rng.integers(2, size=(4, MANY)).astype(float)
    X[1:, ::7] = np.nan
    values = np.where(np.isnan(X)[:, :, None], 1.0, Ea.T[np.nan_to_num(X).astype(int)])
    expected = np.array([forward(a, A, x) for x in values])
    assert_close(p.log_likelihood(X), expected)
    assert_close(p.log_partition(), 0.0, scale=1.0)
    # a pair of models is a model over pairs of states
    pairs = (np.kron(a, b), np.kron(A, B))
    factor = (Ea @ HAMMING @ Eb.T).ravel()
    expected = forward(*pairs, np.broadcast_to(factor, (MANY, 9)))
    assert expected < -745
    assert_close(ek.expected_kernel(p, q, ek.RBF(0.3), log=True), expected)
    assert ek.expected_kernel(p, q, ek.RBF(0.3)) == 0.0
    # given evidence: the joint value over the probability of the evidence
    row = X[1]
    known = np.where(np.isnan(row)[:, None], 1.0, row[:, None] == np.arange(2))
    factors = np.einsum("sa,na,ab,tb->nst", Ea, known, HAMMING, Eb).reshape(MANY, 9)
    expected = forward(*pairs, factors) - p.log_likelihood(row[None])[0]
    actual = ek.expected_kernel(p, q, ek.RBF(0.3), evidence_p=row, log=True)
    assert_close(actual, np.array([expected]))


@pytest.mark.parametrize("shape", VTREES, ids=lambda build: build.__name__)
@pytest.mark.parametrize(("n", "low"), [(8, 1e-300), (600, 1e-9), (700, 1e-30)])
def test_parts_that_favour_opposite_halves(shape, n, low):
    # each half alone prefers one part by thousands of nats, and the other half the other part:
    # what is negligible at a node is not at its parent
    half = np.arange(n) < n // 2
    parts = np.ones((2, n, 2))
    parts[0, half, 1] = parts[1, ~half, 1] = parts[0, ~half, 0] = parts[1, half, 0] = low
    vtree, k, logs = shape(n), ek.RBF(0.3), np.log([0.3, 0.7])
    both = [ek.factorized(part, vtree, normalized=False) for part in parts]
    p = ek.mixture(both, [0.3, 0.7], normalized=False)
    X = np.stack([np.zeros(n), np.ones(n), half * 1.0, 1.0 - half, np.where(half, 1.0, np.nan)])
    known = np.where(np.isnan(X)[:, :, None], 1.0, X[:, :, None] == np.arange(2))
    values = np.log(np.einsum("cna,rna->rcn", parts, known)).sum(axis=2) + logs
    assert np.ptp(np.log(parts[:, : n // 2, 0]).sum(axis=1)) > 2000
    assert_close(p.log_likelihood(X), special.logsumexp(values, axis=1))

    def total(tables, others):
        """The sum over all pairs of a part of the first and of the others."""
        return special.logsumexp([log + log_products(t, u) for log, t, u in pairs(tables, others)])

    def pairs(tables, others):
        for a, t in zip(logs, tables, strict=True):
            for b, u in zip(logs if len(others) == 2 else [0.0], others, strict=True):
                yield a + b, t, u

    assert_logs_close(ek.expected_kernel(p, p, k, log=True), total(parts, parts))
    to_points = np.array([total(parts, [x]) for x in known[:4]])
    assert_logs_close(ek.expected_kernel(p, X[:4], k, log=True), to_points)
    given = [total(parts * x, parts) for x in known] - special.logsumexp(values, axis=1)
    for copies in (1, 8):
        rows = np.tile(X, (copies, 1))
        actual = ek.expected_kernel(p, p, k, evidence_p=rows, log=True)
        assert_close(actual, np.tile(given, copies), np.abs(values).max())


@settings(max_examples=60)
@given(st.data(), domains(max_worlds=64), rngs, st.sampled_from([20, 150]))
def test_numbers_of_all_sizes(data, cards, rng, digits):
    vtree = data.draw(vtrees(len(cards)))
    p = data.draw(circuits(cards, vtree, digits=digits))
    q = data.draw(circuits(cards, with_swaps(vtree, rng), digits=digits))
    gamma = 10.0 ** rng.uniform(-1, 3, size=len(cards))
    k = ek.RBF(gamma)
    k = k + ek.Delta() + ek.Laplacian(100.0) if rng.random() < 0.5 else k
    X = worlds(cards)
    P, Q = log_distribution(p), log_distribution(q)
    K, _ = k.logs(X)
    joint = P[:, None] + K + Q
    with np.errstate(divide="ignore"):  # a sum of nothing
        expected = special.logsumexp(joint)
        assert_logs_close(ek.expected_kernel(p, q, k, log=True), expected)
        at_points = special.logsumexp(P[:, None] + K, axis=0)
        assert_logs_close(ek.expected_kernel(p, X, k, log=True), at_points)
        twin = data.draw(evidence(p))
        allowed = np.log(evidence_weights(twin.weights, X))
        logs = special.logsumexp(allowed + P, axis=1)
        assert_logs_close(p.log_likelihood(twin.given), logs)
        expected = special.logsumexp(allowed[:, :, None] + joint, axis=(1, 2)) - logs
    actual = ek.expected_kernel(p, q, k, evidence_p=twin.given, log=True)
    np.testing.assert_array_equal(actual == -inf, expected == -inf)
    finite = np.isfinite(expected)
    # differences of logs are no closer than these
    size = 1 + np.abs(logs) + np.abs(expected)
    assert_close(actual[finite], expected[finite], size[finite])


def test_large_and_small_circuits_meet_in_range():
    # mantissas and scales of opposite sizes: their product is an ordinary number
    n = 40
    large, small = (ek.factorized(np.full((n, 2), x), normalized=False) for x in (1e30, 1e-30))
    assert_close(ek.expected_kernel(large, small, ek.RBF(np.zeros(n))), 2.0 ** (2 * n))
    log_of = ek.expected_kernel(large, large, ek.RBF(np.zeros(n)), log=True)
    assert_close(log_of, n * (60 * log(10) + log(4)))
    tiny = ek.Empirical(np.zeros((1, n)), [1e-300])
    value = ek.expected_kernel(
        tiny, ek.factorized(np.full((n, 2), 1e10), normalized=False), ek.RBF(np.zeros(n))
    )
    assert_close(value, 1e100 * 2.0**n)


def test_zeros_are_zeros():
    rng = np.random.default_rng(3)
    n = 1500
    t = rng.random((n, 2)) * 0.1
    p = ek.factorized(t, normalized=False)
    none = ek.factorized(np.where(np.arange(n)[:, None] == 7, [0.0, 1.0], t), normalized=False)
    other = ek.factorized(np.where(np.arange(n)[:, None] == 7, [1.0, 0.0], t), normalized=False)
    assert ek.expected_kernel(none, other, ek.Delta(), log=True) == -inf
    assert ek.expected_kernel(none, other, ek.Delta()) == 0.0
    X = np.zeros((3, n))
    X[1, 7] = 1.0
    X[2] = 1.0
    logs = ek.expected_kernel(none, X, ek.Delta(), log=True)
    assert logs[0] == -inf
    assert logs[1] < -2000
    # the mean over points whose values are zero, or far below the smallest float
    share = np.array([0.5, 0.25, 0.25])
    mean = ek.expected_kernel(none, ek.Empirical(X, share), ek.Delta(), log=True)
    assert_close(mean, special.logsumexp(logs[1:], b=0.25))
    mean = ek.expected_kernel(ek.Empirical(X, share), p, ek.RBF(0.3), log=True)
    each = ek.expected_kernel(p, X, ek.RBF(0.3), log=True)
    assert_close(mean, special.logsumexp(each, b=share))
    # the same next to a root that is not small at all
    together = ek.algebra.stack([none, ek.factorized(np.ones((n, 2)) / 2), none])
    mean = ek.expected_kernel(together, ek.Empirical(X, share), ek.Delta(), log=True)
    assert_close(mean[0], special.logsumexp(logs[1:], b=0.25))
    assert_close(mean[1:], np.array([-n * log(2), mean[0]]))


def test_signed_values_of_many_variables():
    # signs and sizes are kept apart: a product of many signed sums is exact
    n = 2000
    rng = np.random.default_rng(4)
    t = rng.normal(size=(n, 2))
    p, q = ek.factorized(t, normalized=False), ek.factorized(rng.random((n, 2)), normalized=False)
    tables = rng.normal(size=(n, 2, 2))
    u = np.stack([q.input(v).table[0] for v in range(n)])
    sizes = np.einsum("na,nab,nb->n", t, tables, u)
    k = ek.TableKernel(list(tables))
    # scaled into range by a last variable
    scale = -np.log(np.abs(sizes)).sum() / n
    scaled = ek.factorized(t * np.exp(scale), normalized=False)
    assert_close(ek.expected_kernel(scaled, q, k), np.prod(np.sign(sizes)))
    if np.prod(np.sign(sizes)) > 0:
        assert_close(ek.expected_kernel(p, q, k, log=True), np.log(np.abs(sizes)).sum())


HUGE = 1e308 * ek.RBF(1.0) + 1e308 * ek.Delta()


def test_weights_of_kernels_at_the_end_of_the_range():
    p = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
    small = ek.expected_kernel(p, p, ek.RBF(1.0) + ek.Delta())
    assert_close(ek.expected_kernel(p, p, HUGE, log=True), log(small) + log(1e308))
    assert_close(ek.expected_kernel(p, p, HUGE), small * 1e308)
    assert_close(HUGE.logs([[0, 1]])[0], np.array([[log(2) + log(1e308)]]))
    assert_raises(ek.KernelError, r"kernel is too large for a float .* Kernel.logs", HUGE, [[0, 1]])
    with pytest.raises(ek.KernelError, match="too large for a float"):
        ek.monte_carlo_expected_kernel(p, p, HUGE, 50, rng=0)


@pytest.mark.parametrize(
    ("k", "size"),
    [(HUGE * HUGE, "large"), (1e200 * HUGE, "large"), (1e-200 * (1e-200 * ek.RBF(1.0)), "small")],
)
def test_weights_of_kernels_beyond_the_range(k, size):
    p = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
    for log_wanted in (False, True):
        with pytest.raises(ek.KernelError, match=f"multiply to a number that is too {size}"):
            ek.expected_kernel(p, p, k, log=log_wanted)


def test_sums_of_tables_and_weights_at_the_end_of_the_range():
    p = ek.factorized([[1e308, 1e308]] * 2, normalized=False)
    expected = 2 * np.log(np.exp(ek.RBF(1.0).logs([[0], [1]])[0]).sum()) + 4 * log(1e308)
    assert_close(ek.expected_kernel(p, p, ek.RBF(1.0), log=True), expected)
    with pytest.raises(ek.KernelError, match=r"too large for a float here. Ask for its logarithm"):
        ek.expected_kernel(p, p, ek.RBF(1.0))
    q = ek.mixture([p, ek.factorized([[1.0, 0.0]] * 2)], [1e308, 1e308], normalized=False)
    assert_close(q.log_partition(), 3 * log(1e308) + 2 * log(2))


@pytest.mark.parametrize("where", ["numpy", "torch"])
def test_zeros_under_evidence_of_any_rarity(where):
    if where == "torch":
        pytest.importorskip("torch")
    n = 3000
    p = ek.hmm([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0.8, 0.2], [0.3, 0.7]], length=n).to(where)
    E = np.random.default_rng(0).integers(2, size=(2, n)).astype(float)
    assert to_numpy(p.log_likelihood(E)).max() < -1420
    points = np.concatenate([E, 1 - E[:1]])
    for rows in (points, ek.Empirical(points, [0.5, 0.25, 0.25])):
        expected = np.eye(2, 3) if rows is points else np.array([0.5, 0.25])
        assert_close(to_numpy(ek.expected_kernel(p, rows, ek.Delta(), evidence_p=E)), expected)
        with np.errstate(divide="ignore"):
            logs = np.log(expected)
        found = ek.expected_kernel(p, rows, ek.Delta(), evidence_p=E, log=True)
        np.testing.assert_allclose(to_numpy(found), logs, atol=1e-9)


def test_gradients_at_zeros_keep_their_scale():
    torch = pytest.importorskip("torch")
    p = ek.factorized([[0.0, 1.0], *[[2.0, 1e100]] * 16], normalized=False).to("torch")
    table = torch.tensor([[0.0, 1.0]], dtype=torch.float64, requires_grad=True)
    p = ek.Circuit(p.vtree, (Table(table), *p.blocks[1:]))
    values = ek.expected_kernel(p, [[0] * 17, [0] + [1] * 16], ek.Delta())
    assert to_numpy(values).tolist() == [0.0, 0.0]
    values[0].backward()  # the other one is out of range
    assert_close(to_numpy(table.grad), [[2.0**16, 0.0]])
