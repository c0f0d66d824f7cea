from itertools import product
from math import exp, inf

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import expectedkernels as ek
from assertions import assert_close, assert_logs_close
from expectedkernels import KernelError
from expectedkernels.circuits.operands import InputComponents
from expectedkernels.kernels.factors import Factor, triples
from oracles import values_at, worlds
from strategies import domains, kernels, points, rngs, vtrees

INDEFINITE = ek.TableKernel([[[1.0, 2.0], [2.0, 1.0]]])


def test_definiteness_and_representation_of_sums_and_products():
    k = 2.0 * ek.RBF(1.0) + ek.Delta() * ek.ExpHamming()
    assert k.is_positive_definite()
    assert "sum of positive definite kernels" in k.is_positive_definite().reason
    assert "product of positive" in (ek.RBF(1.0) * ek.Delta()).is_positive_definite().reason
    k = sum([2.0 * ek.RBF(0.5), ek.Delta()])
    assert repr(k) == "(2.0 * RBF(gamma=0.5) + Delta())"
    assert repr(3.0 * ek.Delta()) == "3.0 * Delta()"
    assert repr(ek.Delta() * ek.RBF(1.0)) == "Delta() * RBF(gamma=1.0)"
    assert repr(k * ek.Delta()) == "(2.0 * RBF(gamma=0.5) + Delta()) * Delta()"
    names = {"RBF": ek.RBF, "Delta": ek.Delta}
    again = eval(repr(k * (ek.Delta() + ek.RBF(1.0))), names)
    X = worlds([3, 2])
    assert_close(again(X), (k * (ek.Delta() + ek.RBF(1.0)))(X))


@pytest.mark.parametrize("k", [
    INDEFINITE + ek.RBF(1.0),
    ek.RBF(1.0) + 2.0 * INDEFINITE,
    INDEFINITE * ek.RBF(1.0),
    ek.Delta() * (ek.RBF(1.0) + INDEFINITE),
], ids=repr)  # fmt: skip
def test_what_is_made_of_indefinite_kernels_is_not_trusted(k):
    verdict = k.is_positive_definite()
    assert verdict.holds is not True
    assert "negative eigenvalue, -1" in verdict.reason


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


def test_a_kernel_is_used_on_many_circuits():
    k = ek.RBF([0.1, 0.2, 0.3]) + ek.Delta()
    for vtree in (
        ek.Vtree.right_linear(3),
        ek.Vtree.left_linear(3),
        ek.Vtree.from_nested((1, (0, 2))),
    ):
        for cards in ((2, 2, 2), (2, 3, 4)):
            p = ek.random_circuit(vtree, 2, rng=0, cardinalities=cards)
            X = worlds(cards)
            P = values_at(p, X)[:, 0]
            assert_close(ek.expected_kernel(p, p, k), P @ k(X) @ P)


def test_a_factor_by_definition():
    factor = Factor(square=0.3, absolute=0.5, unequal=0.7)
    expected = [exp(-0.3 * d * d - 0.5 * abs(d) - 0.7 * (d != 0)) for d in (-2.0, 0.0, 0.5)]
    assert_close(np.exp(factor.log_at(np.array([-2.0, 0.0, 0.5]))), np.array(expected))


def test_products_add_rates_and_multiply_tables():
    table = np.array([[1.0, -2.0], [0.0, 3.0]])
    product = Factor(0.1, 0.2, 0.3, table) * Factor(1.0, 2.0, 3.0, table)
    assert (product.square, product.absolute, product.unequal) == (1.1, 2.2, 3.3)
    assert_close(product.table, table**2)
    assert (Factor(table=table) * Factor()).table is table
    assert (Factor() * Factor(table=table)).table is table
    assert (Factor(unequal=inf) * Factor(unequal=1.0)).unequal == inf
    with pytest.raises(KernelError, match="same shape"):
        Factor(table=table) * Factor(table=np.eye(3))


def test_remote_differences_have_no_warnings():
    difference = np.array([1e150, 1e308])
    assert_logs_close(Factor(absolute=1e-10).log_at(difference), -1e-10 * difference)
    np.testing.assert_array_equal(Factor(unequal=inf).log_at(difference), [-inf, -inf])


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
    found = triples(0.7, ATOMS, ATOMS, ATOMS)
    grids = [grid(i) for i in range(4)]
    for i, j, k in product(range(4), repeat=3):
        x, share = grids[i]
        parts = [np.exp(-0.7 * (x[:, None] - y) ** 2) @ s for y, s in (grids[j], grids[k])]
        assert found[i, j, k] == pytest.approx(share @ (parts[0] * parts[1]), rel=1e-11)
