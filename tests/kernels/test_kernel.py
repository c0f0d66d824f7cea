from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import expectedkernels as ek
from assertions import assert_close
from expectedkernels import KernelError
from expectedkernels.circuits.operands import InputComponents
from expectedkernels.kernels.factors import Factor, triples
from oracles import values_at, worlds
from strategies import RandomKernelGraphs, domains, kernels, points, rngs, vtrees

GRAPH = ek.Product([ek.kernels.kernel_input(v, np.eye(2)) for v in range(2)])


@pytest.mark.parametrize(("k", "text"), [
    (ek.RBF(0.5), "RBF(gamma=0.5)"),
    (ek.RBF(2), "RBF(gamma=2.0)"),
    (ek.Laplacian([0.5, 1]), "Laplacian(gamma=[0.5, 1.0])"),
    (ek.ExpHamming(), "ExpHamming(gamma=None)"),
    (ek.Delta(), "Delta()"),
    (ek.TableKernel([np.eye(2)] * 3), "TableKernel(3 tables)"),
    (ek.KernelCircuit(GRAPH), "<KernelCircuit of 2 variables: 3 units>"),
    (sum([2.0 * ek.RBF(0.5), ek.Delta()]), "(2.0 * RBF(gamma=0.5) + Delta())"),
    (3.0 * ek.Delta(), "3.0 * Delta()"),
    (ek.Delta() * ek.RBF(1.0), "Delta() * RBF(gamma=1.0)"),
    ((ek.RBF(0.5) + ek.Delta()) * ek.Delta(), "(RBF(gamma=0.5) + Delta()) * Delta()"),
])  # fmt: skip
def test_representations(k, text):
    assert repr(k) == text
    if text.endswith(")") and "tables" not in text:
        X = worlds([3, 2])
        assert_close(eval(text, vars(ek))(X), k(X))


CROOKED, NEGATIVE = [[1.0, 0.5], [0.4, 1.0]], [[1.0, 2.0], [2.0, 1.0]]
INDEFINITE = ek.TableKernel([NEGATIVE])
OF_TABLES = "table of variable 1 is not symmetric: entries (0, 1) and (1, 0) are 0.5 and 0.4"


def kernel_circuit(*tables):
    return ek.KernelCircuit(ek.Product([ek.kernels.kernel_input(*x) for x in enumerate(tables)]))


@pytest.mark.parametrize(("k", "holds", "reason"), [
    *((k, True, "positive definite") for k in (ek.RBF(1.0), ek.Laplacian(1.0), ek.Delta())),
    (ek.ExpHamming(), True, "positive definite"),
    (2.0 * ek.RBF(1.0) + ek.Delta() * ek.ExpHamming(), True, "sum of positive definite kernels"),
    (ek.RBF(1.0) * ek.Delta(), True, "product of positive"),
    (INDEFINITE + ek.RBF(1.0), False, "negative eigenvalue, -1"),
    (ek.RBF(1.0) + 2.0 * INDEFINITE, False, "negative eigenvalue, -1"),
    (INDEFINITE * ek.RBF(1.0), False, "negative eigenvalue, -1"),
    (ek.Delta() * (ek.RBF(1.0) + INDEFINITE), False, "negative eigenvalue, -1"),
    (ek.TableKernel([np.eye(3), [[1.0, -0.5], [-0.5, 1.0]]]), True, ""),
    (ek.TableKernel([np.zeros((2, 2))]), True, ""),
    (ek.TableKernel([np.eye(2), CROOKED]), False, OF_TABLES),
    (kernel_circuit(np.eye(2), np.eye(2) + 1), True,
     "all inputs are positive definite and no weight is negative"),
    (kernel_circuit(np.eye(2), CROOKED), False, "table of variable 1 is not symmetric"),
    (kernel_circuit(NEGATIVE, np.eye(2)), False,
     "the table of variable 0 has a negative eigenvalue, -1"),
])  # fmt: skip
def test_definiteness(k, holds, reason):
    verdict = k.is_positive_definite()
    assert verdict.holds is holds
    assert reason in verdict.reason


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_eigenvalues_of_zero_may_come_out_slightly_negative(scale):
    root = np.random.default_rng(0).normal(size=(6, 2))
    table = root @ root.T
    assert ek.TableKernel([scale * (table + table.T) / 2]).is_positive_definite()


@settings(max_examples=40)
@given(st.data(), domains(max_worlds=64), rngs)
def test_projections_are_circuits(data, cards, rng):
    vtree = data.draw(vtrees(len(cards)))
    twin = data.draw(kernels(cards, vtree, signed=True))
    X, x = worlds(cards), points(rng, cards, 1)
    left = twin.kernel.left_projection(x[0], cards, vtree)
    right = twin.kernel.right_projection(x[0], cards, vtree)
    size = np.abs(twin.naive(X, X)).max()
    assert_close(values_at(left, X)[:, 0], twin.naive(X, x)[:, 0], size)
    assert_close(values_at(right, X)[:, 0], twin.naive(x, X)[0], size)
    # the expected kernel at a point is an inner product of circuits
    p = ek.random_circuit(vtree, 3, rng, cards)
    inner = ek.expected_kernel(p, left, ek.Delta())
    assert_close(inner, ek.expected_kernel(p, x, twin.kernel)[0], size)


def test_projections_know_the_variables_of_their_kernel():
    tables = [np.eye(3) + 0.5, np.eye(2)]
    f = ek.TableKernel(tables).left_projection([2, 1])
    assert f.cardinalities == (3, 2)
    units = [ek.kernels.kernel_input(v, np.eye(3) + v) for v in range(3)]
    k = ek.KernelCircuit(ek.Product([ek.Product(units[:2]), units[2]]))
    f = k.right_projection([2, 1, 0])
    assert f.cardinalities == (3, 3, 3)
    assert f.vtree == k.vtree
    X = worlds([3, 3, 3])
    assert_close(values_at(f, X)[:, 0], k([[2, 1, 0]], X)[0])
    mixed = (2.0 * ek.RBF(0.5) + ek.Delta() * k).left_projection([2, 1, 0])
    assert mixed.cardinalities == (3, 3, 3)
    assert mixed.vtree == k.vtree
    assert ek.RBF(1.0).left_projection([0, 1]).cardinalities == (2, 2)


def test_products_multiply_tables_of_one_shape():
    table = np.array([[1.0, -2.0], [0.0, 3.0]])
    assert_close((Factor(table=table) * Factor(table=table)).table, table**2)
    with pytest.raises(KernelError, match="same shape"):
        Factor(table=table) * Factor(table=np.eye(3))


P = ek.random_circuit(ek.Vtree.from_nested(((0, 1), 2)), 2, rng=0)
Q = ek.random_circuit(ek.Vtree.from_nested((2, (1, 0))), 2, rng=1)
OTHER = ek.random_circuit(ek.Vtree.from_nested((0, (1, 2))), 2, rng=0)
UNITS = [ek.Categorical(v, [0.5, 0.5]) for v in range(3)]
NARROW, WIDE = ek.Product([ek.Product(UNITS[:2]), UNITS[2]]), ek.Product(UNITS)


def along(nested):
    """A kernel circuit on a vtree."""
    graphs = RandomKernelGraphs(np.random.default_rng(0), (2, 2, 2))
    return ek.KernelCircuit(graphs.unit(nested), ek.Vtree.from_nested(nested))


OWN = along(((0, 1), 2))


@pytest.mark.parametrize(("k", "p", "q", "reason"), [
    (ek.RBF(1.0), P, Q, ""),
    (ek.Delta() * ek.ExpHamming(), P, Q, ""),
    (2.0 * ek.Laplacian(1.0), P, Q, ""),
    (along((2, (0, 1))), P, Q, "the kernel's products split the variables as the circuits' do"),
    (ek.RBF(1.0), NARROW, NARROW, ""),
    (OWN, NARROW, P, ""),
    (OWN, WIDE, P, ""),  # fits every vtree: it is written on that of the circuit
    (OWN, P, WIDE, ""),
])  # fmt: skip
def test_kernels_that_fit_circuits(k, p, q, reason):
    verdict, X = ek.is_kernel_compatible(k, p, q), worlds([2, 2, 2])
    assert verdict
    assert reason in verdict.reason
    one, other = (np.exp(circuit.log_likelihood(X)) for circuit in (p, q))
    assert_close(ek.expected_kernel(p, q, k), one @ k(X) @ other)
    assert_close(ek.expected_kernel(q, p, k), other @ k(X) @ one)


@pytest.mark.parametrize(("k", "q", "reason"), [
    (along((0, (1, 2))), Q, "split their variables in different ways"),
    (ek.RBF(1.0) + along((0, (1, 2))), Q, "split their variables in different ways"),
    (ek.TableKernel([np.eye(2)] * 2), Q, "is for 2 variables"),
    (ek.TableKernel([np.eye(3)] * 3), Q, "must have shape (2, 2)"),
    (ek.RBF(1.0), OTHER, "splits into"),
])  # fmt: skip
def test_kernels_that_do_not_fit_circuits(k, q, reason):
    verdict = ek.is_kernel_compatible(k, P, q)
    assert not verdict
    assert reason in verdict.reason


NODES, SHARES = np.polynomial.legendre.leggauss(50)
ATOMS = InputComponents(
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
    assert (triples(0.0, ATOMS, ATOMS, ATOMS) == np.ones((4, 4, 4))).all()
    found = triples(0.7, ATOMS, ATOMS, ATOMS)
    grids = [grid(i) for i in range(4)]
    for i, j, k in product(range(4), repeat=3):
        x, share = grids[i]
        parts = [np.exp(-0.7 * (x[:, None] - y) ** 2) @ s for y, s in (grids[j], grids[k])]
        assert found[i, j, k] == pytest.approx(share @ (parts[0] * parts[1]), rel=1e-11)
