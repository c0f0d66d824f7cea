"""Matrices of expected kernels in parts and on three axes, and Gaussian kernels by integration."""

import tracemalloc

import numpy as np
import pytest

import expectedkernels as ek
from circuit_oracles import rare
from expectedkernels.circuits.operands import CircuitOperand, InputComponents, PointOperand, Tables
from expectedkernels.data.evidence import as_evidence
from expectedkernels.kernels import gram as module
from expectedkernels.kernels.gram import (
    at_known,
    gram,
    is_parallel,
    on_atoms,
    pieces,
)
from oracles import distribution, with_holes, worlds
from strategies import points


def intervals(low, high):
    low, high = np.array(low, dtype=float), np.array(high, dtype=float)
    return InputComponents(None, 0.5 * (low + high), np.zeros_like(low), 0.5 * (high - low))


def interval(low, high):
    return intervals([low], [high])


def at(*values):
    return InputComponents(None, np.array(values, dtype=float), np.zeros(len(values)))


def test_columns_multiply():
    a, b = (
        InputComponents(None, x, np.zeros_like(x))
        for x in (np.array([[0.0, 1.0], [2.0, 3.0]]), np.ones((1, 2)))
    )
    rates = np.array([0.3, 0.7])
    np.testing.assert_allclose(on_atoms(rates, a, b)[:, 0], np.exp([-0.3, -0.3 - 0.7 * 4]))
    np.testing.assert_allclose(on_atoms(rates, a, b, b)[:, 0, 0], np.exp([-0.6, -0.6 - 1.4 * 4]))
    np.testing.assert_array_equal(on_atoms(np.zeros(2), a, b, b), np.ones((2, 1, 1)))


def test_wide_intervals():
    ends = np.array([[0.0, 100.0], [50.0, 5000.0], [200.0, 300.0], [20.0, 21.0], [60.0, 60.0]])
    pieces = intervals(*ends.T)
    got = on_atoms(np.array([1.0]), pieces, pieces)
    np.testing.assert_allclose(got, got.T, rtol=1e-9, atol=1e-15)
    for i, (low, high) in enumerate(ends):
        for j, (a, b) in enumerate(ends):
            nodes = np.linspace(low, high, 20001) if high > low else np.array([low])
            means = on_atoms(np.ones(1), interval(a, b), at(*nodes))[0]
            expected = np.trapezoid(means, nodes) / (high - low) if high > low else means[0]
            np.testing.assert_allclose(got[i, j], expected, rtol=1e-4, atol=1e-12)
    edges = np.array([-1.0, 0.0, 1.0, 1e300])
    bins = intervals(edges[:-1], edges[1:])
    values = on_atoms(np.array([1.0]), bins, bins, at(0.5, -1e300))
    assert values.shape == (3, 3, 2)
    assert ((values >= 0) & (values <= 1)).all()
    both = InputComponents(None, np.array([0.5, 0.5, 2.0]), np.zeros(3), np.array([0.5, 0.0, 0.0]))
    values = on_atoms(np.ones(1), both, at(0.5))[:, 0]
    np.testing.assert_allclose(values[1:], [1.0, np.exp(-2.25)])
    np.testing.assert_array_equal(values[:1], on_atoms(np.ones(1), interval(0.0, 1.0), at(0.5))[0])
    # in closed form, and by panels of the first interval in parts
    s = at(0.3, 7.0)
    whole = on_atoms(np.array([40.0]), interval(0.0, 16.0), s, s)[0]
    parts = [on_atoms(np.array([40.0]), interval(i, i + 1.0), s, s)[0] for i in range(16)]
    np.testing.assert_allclose(whole, np.mean(parts, axis=0), rtol=1e-11)


@pytest.mark.parametrize("away", [0.0, 1e2, 1e4, 1e6, 1e9, 1e200])
def test_remote_rows_keep_the_digits_of_small_distances(away):
    # around zero, and around a place where squares have no digits left for small distances
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    X[6:] += away
    Z = np.vstack([X[::2] + rng.normal(size=(6, 2)), X[::3]])
    Z[::4, 1] = np.nan
    rates = np.array([0.5, 0.8])
    got = at_known(rates, Z, ~np.isnan(Z), X)
    with np.errstate(over="ignore"):
        squares = np.nan_to_num(rates * (Z[:, None] - X[None]) ** 2, posinf=np.inf)
    expected = np.exp(-squares.sum(axis=2))
    assert (expected[Z[:, 0] >= away - 9] > 1e-6).any()
    np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-100)


@pytest.mark.parametrize("chunk", [2**27, 400_000])
def test_symmetric_matrices_keep_the_scales_of_both_triangles(monkeypatch, chunk):
    monkeypatch.setattr(module, "CHUNK_BYTES", chunk)
    p, X, logs = rare(300)
    assert logs.min() < -700  # not a float
    assert np.ptp(logs) > 700  # nor do all have one scale
    side = CircuitOperand(p, as_evidence(X, p.cardinalities))
    blocks = ek.RBF(0.01).blocks(p.vtree, p.cardinalities)
    found = gram((side, side), blocks, 2**30, symmetric=True)
    expected = logs[:, None] + logs[None, :] + ek.RBF(0.01).logs(X, X)[0]
    np.testing.assert_allclose(found.log(), expected, rtol=1e-12)


def test_pieces_of_few_patterns_are_spread_in_parts(monkeypatch):
    # all rows are equal: one pattern, but as many numbers as pairs of rows
    p = ek.factorized([[0.5, 0.5], [0.2, 0.8]])
    side = CircuitOperand(p, as_evidence(np.zeros((1000, 2)), p.cardinalities))
    blocks = ek.RBF(0.3).blocks(p.vtree, p.cardinalities)
    monkeypatch.setattr(module, "CHUNK_BYTES", 64 * 1000 * 30)
    seen = np.zeros((1000, 1000), dtype=int)
    for at, piece in pieces((side, side), blocks, 2**30):
        seen[at] += 1
        assert piece.data.shape == seen[at].shape
        assert len(piece.data) <= 30
    assert (seen == 1).all()


CARDS = [2, 3, 2]
KERNELS = {
    "RBF": ek.RBF(0.4),
    "Laplacian": ek.Laplacian(0.3),
    "product": ek.RBF(0.2) * ek.ExpHamming(0.6),
}


def circuits(seed):
    rng = np.random.default_rng(seed)
    vtree = ek.Vtree.random(3, rng)
    return [ek.random_circuit(vtree, 3, rng, CARDS) for _ in range(3)]


def expected(p, q, r, k):
    """The expectation by its definition, over all worlds."""
    X = worlds(CARDS)
    K = k.gram(X, X)
    return distribution(p) @ ((K @ distribution(q)) * (K @ distribution(r)))


def tables(k, p):
    """A product kernel by its numbers on pairs and triples of states."""
    factors = k.blocks(p.vtree, p.cardinalities).factors

    def table(variable, atoms):
        n = atoms[0].cardinality
        difference = np.arange(n)[:, None] - np.arange(n)
        one = np.exp(factors[variable][0].log_at(difference.astype(float)))
        return one if len(atoms) == 2 else one[:, :, None] * one[:, None, :]

    return Tables(table)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("seed", range(3))
def test_a_kernel_given_by_tables_on_two_and_three_circuits(name, seed):
    p, q, r = circuits(seed)
    k = KERNELS[name]
    axes = tuple(map(CircuitOperand, (p, q, r)))
    found = gram(axes, tables(k, p), 2**30).linear()
    np.testing.assert_allclose(found, expected(p, q, r, k), rtol=1e-12)
    pairs = gram(axes[:2], tables(k, p), 2**30).linear()
    np.testing.assert_allclose(pairs, ek.expected_kernel(p, q, k), rtol=1e-12)


@pytest.mark.parametrize("chunk", [2**27, 3000])
@pytest.mark.parametrize("rows_first", [False, True])
def test_rows_points_and_a_circuit(monkeypatch, chunk, rows_first):
    monkeypatch.setattr(module, "CHUNK_BYTES", chunk)
    p, q, _ = circuits(5)
    k = KERNELS["RBF"]
    rng = np.random.default_rng(0)
    E, S = with_holes(points(rng, CARDS, 40), 0.5), points(rng, CARDS, 7)
    side = CircuitOperand(p, as_evidence(E, p.cardinalities))
    axes = (side, PointOperand(S, p.vtree, p.cardinalities), CircuitOperand(q))
    values = np.full((40, 7, 1), np.nan)
    blocks = tables(k, p)
    for at, piece in pieces(axes, blocks, 2**30, rows_first=rows_first):
        values[at] = piece.linear()
    np.testing.assert_allclose(gram(axes, blocks, 2**30).linear(), values, rtol=1e-13)
    X = worlds(CARDS)
    K = k.gram(X, X)
    fits = (np.isnan(E[:, None]) | (E[:, None] == X)).all(axis=2)
    wanted = (fits * distribution(p) * (K @ distribution(q))) @ k.gram(X, S)
    np.testing.assert_allclose(values[:, :, 0], wanted, rtol=1e-12)


NEAR, SAME = [[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.0], [0.0, 1.0]]
VTREE = ek.Vtree.balanced(2)


def product(*tables):
    return ek.Product([ek.kernels.kernel_input(i, table) for i, table in enumerate(tables)])


PRODUCT = ek.KernelCircuit(product(NEAR, SAME), vtree=VTREE)
SUM_INSIDE = ek.KernelCircuit(
    ek.Sum([product(NEAR, SAME), product(SAME, NEAR)], [0.3, 0.7]), vtree=VTREE
)


@pytest.mark.parametrize(("kernel", "parallel"), [
    (ek.RBF(0.3), True),
    (2.0 * ek.RBF(0.3) + ek.Delta(), True),
    ((ek.RBF(0.3) + ek.Delta()) * (ek.Laplacian(1.0) + ek.Delta()), True),
    (PRODUCT, True),
    (SUM_INSIDE, False),
    (SUM_INSIDE + ek.RBF(0.3), False),
    (SUM_INSIDE * ek.RBF(0.3), False),
    (PRODUCT + SUM_INSIDE * PRODUCT, False),
    (PRODUCT * ek.RBF(0.3) + 0.5 * PRODUCT, True),
], ids=range(9))  # fmt: skip
def test_sums_of_products_are_parallel(kernel, parallel):
    assert is_parallel(kernel.blocks(VTREE, [2, 2])) == parallel


@pytest.mark.parametrize("n_variables", [3, 300])
def test_sums_over_weighted_points_in_pieces_keep_their_scales(n_variables):
    p, X, logs = rare(n_variables)
    w = np.linspace(0.5, 1.5, 70)
    got = ek.expected_kernel(ek.Empirical(X, w), p, ek.Delta(), log=True, max_bytes=30_000)
    np.testing.assert_allclose(got, np.logaddexp.reduce(np.log(w) + logs), rtol=1e-12)


def test_results_are_not_copied():
    rng = np.random.default_rng(0)
    p = ek.random_circuit(ek.Vtree.balanced(10), 2, rng=0)
    E, X = with_holes(rng.integers(2, size=(1500, 10)), 0.4), rng.integers(2, size=(800, 10))
    ek.expected_kernel(p, X[:2], ek.RBF(0.3), evidence_p=E[:2])
    size, budget = 8 * len(E) * len(X), 2_000_000
    for log in (False, True):
        tracemalloc.start()
        ek.expected_kernel(p, X, ek.RBF(0.3), evidence_p=E, log=log, max_bytes=budget)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < size + 2 * budget
