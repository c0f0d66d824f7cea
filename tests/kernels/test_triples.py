"""Three axes: E k(x, y) k(x, z), against enumeration and sums over nodes."""

from itertools import product

import numpy as np
import pytest

import expectedkernels as ek
from expectedkernels import Circuit, Factor, Vtree
from expectedkernels.circuits.evidence import as_evidence
from expectedkernels.circuits.inputs import Real
from expectedkernels.circuits.sides import Atoms, CircuitSide, PointSide
from expectedkernels.kernels import gram as gram_module
from expectedkernels.kernels.blocks import Tables
from expectedkernels.kernels.gram import gram, pieces
from expectedkernels.kernels.triples import log_triples
from oracles import distribution, worlds

CARDS = [2, 3, 2]
KERNELS = {
    "RBF": ek.RBF(0.4),
    "Laplacian": ek.Laplacian(0.3),
    "product": ek.RBF(0.2) * ek.ExpHamming(0.6),
}


def circuits(seed):
    rng = np.random.default_rng(seed)
    vtree = Vtree.random(3, rng)
    return [ek.random_circuit(vtree, 3, rng, CARDS) for _ in range(3)]


def expected(p, q, r, k):
    """The expectation by its definition, over all worlds."""
    X = worlds(CARDS)
    K = k.gram(X, X)
    return distribution(p) @ ((K @ distribution(q)) * (K @ distribution(r)))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("seed", range(3))
def test_three_circuits(name, seed):
    p, q, r = circuits(seed)
    k = KERNELS[name]
    axes = tuple(map(CircuitSide, (p, q, r)))
    found = gram(axes, k.blocks(p.vtree, p.cardinalities), 2**30).linear()
    np.testing.assert_allclose(found, expected(p, q, r, k), rtol=1e-12)


@pytest.mark.parametrize("chunk", [2**27, 3000])
@pytest.mark.parametrize("rows_first", [False, True])
def test_rows_points_and_a_circuit(monkeypatch, chunk, rows_first):
    monkeypatch.setattr(gram_module, "CHUNK_BYTES", chunk)
    p, q, _ = circuits(5)
    k = KERNELS["RBF"]
    rng = np.random.default_rng(0)
    E = np.array([rng.integers(CARDS) for _ in range(40)], dtype=float)
    E[rng.random(E.shape) < 0.5] = np.nan
    S = np.array([rng.integers(CARDS) for _ in range(7)], dtype=float)
    side = CircuitSide(p, as_evidence(E, p.cardinalities))
    axes = (side, PointSide(S, p.vtree, p.cardinalities), CircuitSide(q))
    values = np.full((40, 7, 1), np.nan)
    blocks = k.blocks(p.vtree, p.cardinalities)
    for at, piece in pieces(axes, blocks, 2**30, rows_first=rows_first):
        values[at] = piece.linear()
    np.testing.assert_allclose(gram(axes, blocks, 2**30).linear(), values, rtol=1e-13)
    X = worlds(CARDS)
    K = k.gram(X, X)
    fits = (np.isnan(E[:, None]) | (E[:, None] == X)).all(axis=2)
    wanted = (fits * distribution(p) * (K @ distribution(q))) @ k.gram(X, S)
    np.testing.assert_allclose(values[:, :, 0], wanted, rtol=1e-12)


def test_a_kernel_given_by_tables():
    p, q, r = circuits(1)
    k = KERNELS["product"]
    factors = k.blocks(p.vtree, p.cardinalities).factors

    def table(variable, atoms):
        n = atoms[0].cardinality
        difference = np.arange(n)[:, None] - np.arange(n)
        one = np.exp(factors[variable][0].log_at(difference.astype(float)))
        return one if len(atoms) == 2 else one[:, :, None] * one[:, None, :]

    tables = Tables(p.vtree, table)
    axes = tuple(map(CircuitSide, (p, q, r)))
    found = gram(axes, tables, 2**30).linear()
    np.testing.assert_allclose(found, expected(p, q, r, k), rtol=1e-12)
    pairs = gram(axes[:2], tables, 2**30).linear()
    np.testing.assert_allclose(pairs, ek.expected_kernel(p, q, k), rtol=1e-12)


NODES, SHARES = np.polynomial.legendre.leggauss(50)
ATOMS = Atoms(
    None,
    np.array([0.5, -0.3, 1.2, 0.8]),
    np.array([0.0, 0.5, 0.0, 0.3]),
    np.array([0.0, 0.0, 0.7, 0.4]),
)


def grid(i):
    """Values and shares that stand for an atom."""
    at, share = ATOMS.mean[i : i + 1], np.ones(1)
    if ATOMS.half[i]:
        at, share = at + ATOMS.half[i] * NODES, 0.5 * SHARES
    if ATOMS.variance[i]:
        density = 8.0 * SHARES * np.exp(-0.5 * (8.0 * NODES) ** 2) / np.sqrt(2 * np.pi)
        at = (at[:, None] + np.sqrt(ATOMS.variance[i]) * 8.0 * NODES).ravel()
        share = (share[:, None] * density).ravel()
    return at, share


def test_triples_of_real_atoms_against_sums_over_nodes():
    found = np.exp(log_triples(Factor(square=0.7), ATOMS, ATOMS, ATOMS, 0)[0])
    grids = [grid(i) for i in range(4)]
    for i, j, k in product(range(4), repeat=3):
        x, share = grids[i]
        parts = [np.exp(-0.7 * (x[:, None] - y) ** 2) @ s for y, s in (grids[j], grids[k])]
        assert found[i, j, k] == pytest.approx(share @ (parts[0] * parts[1]), rel=1e-11)


def test_triples_where_values_must_agree():
    logs, _ = log_triples(Factor(unequal=0.4), ATOMS, ATOMS, ATOMS, 0)
    assert logs[0, 0, 0] == 0.0
    assert logs[0, 0, 1] == pytest.approx(-0.4)
    assert logs[1, 1, 0] == pytest.approx(-0.8)


def test_remote_triples_have_logs():
    x = Atoms(None, np.zeros(1), np.zeros(1), np.ones(1))
    far = Atoms(None, np.array([40.0]), np.zeros(1))
    logs, _ = log_triples(Factor(square=1.0), x, far, far, 0)
    # both kernels at once are one of twice the rate
    expected = Circuit(Vtree.balanced(1), (Real(np.eye(1), x.mean, x.variance, x.half),))
    log = ek.expected_kernel(expected, [[40.0]], ek.RBF(2.0), log=True)
    np.testing.assert_allclose(logs, log[0], rtol=1e-12)


def test_triples_that_are_refused():
    normal = Atoms(None, np.zeros(1), np.ones(1))
    with pytest.raises(ek.KernelError, match="product of two values of a Laplacian kernel"):
        log_triples(Factor(absolute=1.0), normal, normal, normal, 0)
    p, q, r = circuits(2)
    k = ek.RBF(0.3) + ek.Delta()
    with pytest.raises(ek.KernelError, match="needs a kernel that is a product over the variab"):
        gram(tuple(map(CircuitSide, (p, q, r))), k.blocks(p.vtree, p.cardinalities), 2**30)
