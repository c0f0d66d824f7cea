"""Columns of Gram matrices of Stein kernels against the whole matrix."""

import numpy as np
import pytest

import expectedkernels as ek
from expectedkernels.stein import stein_kernel as stein_columns
from expectedkernels.stein.stein_kernel import gram_columns

CARDS = [2, 3, 4]
TABLES = [np.eye(n) + 0.2 + 0.05 * np.add.outer(np.arange(n), np.arange(n)) for n in CARDS]
KERNELS = {
    "product": ek.TableKernel(TABLES),
    "sum of products": 0.5 * ek.TableKernel(TABLES) + 2.0 * ek.ExpHamming(0.3),
    "with zeros": ek.TableKernel([np.eye(n) for n in CARDS]),
}


@pytest.mark.parametrize("operator", ["gibbs", "shift"])
@pytest.mark.parametrize("name", KERNELS)
def test_columns_and_diagonal(name, operator, monkeypatch):
    monkeypatch.setattr(stein_columns, "CHUNK_ROWS", 7)
    monkeypatch.setattr(stein_columns, "DIAGONAL_ROWS", 3)
    rng = np.random.default_rng(0)
    p = ek.random_circuit(ek.Vtree.balanced(3), 3, rng, cardinalities=CARDS)
    X = rng.integers(CARDS, size=(17, 3)).astype(float)
    stein = ek.SteinKernel(p, KERNELS[name], operator=operator)
    assert (stein._terms is None) == (name == "with zeros")
    wanted = stein(X)
    column, diagonal = gram_columns(stein, X)
    size = np.abs(wanted).max()
    np.testing.assert_allclose(diagonal, np.diag(wanted), atol=1e-14 * size)
    for i in (0, 9, 16):
        np.testing.assert_allclose(column(i), wanted[:, i], atol=1e-14 * size)


def test_values_too_large_are_told():
    steep = ek.FactorGraph([2, 2], [ek.Factor([0], [1.0, 1e200]), ek.Factor([1], [1.0, 1.0])])
    stein = ek.SteinKernel(steep, ek.ExpHamming())
    with pytest.raises(ek.KernelError, match="too large for a float"):
        gram_columns(stein, np.array([[0.0, 0.0]]))
