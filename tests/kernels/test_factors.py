"""Factors of kernels on states, points, normals and intervals, for pairs and triples."""

from itertools import product
from math import exp, inf

import numpy as np
import pytest

from assertions import assert_close, assert_logs_close
from expectedkernels import KernelError
from expectedkernels.circuits.operands import InputComponents
from expectedkernels.kernels.factors import Factor, triples


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
