"""Circuits and kernels are values: they can be pickled and copied, also after they were used."""

import copy
import pickle

import numpy as np
import pytest

import expectedkernels as ek

NEAR = [[1.0, 0.5], [0.5, 1.0]]


def circuits():
    yield ek.random_circuit(ek.Vtree.balanced(5), 3, rng=0)
    yield ek.gaussian_mixture([0.4, 0.6], [[0.0, 1.0], [2.0, 3.0]], [[1.0, 1.0], [2.0, 1.0]])


@pytest.mark.parametrize("copied", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy])
@pytest.mark.parametrize("p", list(circuits()), ids=["discrete", "real"])
def test_circuits(p, copied):
    k = ek.RBF(0.3)
    before = ek.expected_kernel(p, p, k)
    q = copied(p)
    assert q is not p
    assert ek.expected_kernel(q, q, k) == before
    assert ek.mmd2(p, q, k) == 0.0


@pytest.mark.parametrize("copied", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy])
def test_kernels(copied):
    graph = ek.Product([ek.kernels.kernel_input(0, NEAR), ek.kernels.kernel_input(1, NEAR)])
    k = 2.0 * ek.RBF([0.1, 0.2]) + ek.KernelCircuit(graph) * ek.TableKernel([NEAR, NEAR])
    p = ek.factorized([[0.2, 0.8], [0.7, 0.3]])
    before = ek.expected_kernel(p, p, k)
    assert ek.expected_kernel(p, p, copied(k)) == before
    X = np.array([[0, 1], [1, 1]])
    np.testing.assert_array_equal(copied(k)(X), k(X))
