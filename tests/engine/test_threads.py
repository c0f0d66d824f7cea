"""Threads that share circuits, kernels and what these keep for the next call."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import expectedkernels as ek
from expectedkernels import Vtree
from strategies import RandomKernelGraphs, with_swaps


@pytest.fixture
def busy():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def kernel_circuit(vtree):
    """A random sum of product kernels of binary variables."""
    graphs = RandomKernelGraphs(np.random.default_rng(0), [2] * vtree.n_variables)
    return ek.KernelCircuit(graphs.unit(vtree.to_nested()), vtree=vtree)


def circuits(n):
    """Circuits on some vtrees, of different sizes."""
    rng = np.random.default_rng(0)
    vtrees = [Vtree.balanced(5), Vtree.right_linear(5), Vtree.random(5, rng=1)]
    return [ek.random_circuit(vtrees[i % 3], 1 + i % 4, rng=rng) for i in range(n)]


def test_many_threads_get_what_one_thread_gets(busy):
    kernels = {p.vtree: [ek.RBF(0.1), kernel_circuit(p.vtree)] for p in circuits(3)}
    X = np.random.default_rng(1).integers(2, size=(3, 5))

    def work(pair):
        p, q = pair
        found = [ek.expected_kernel(p, q, k) for k in kernels[p.vtree]]
        return [*found, *ek.expected_kernel(p, X, ek.RBF(0.1)).tolist(), p.log_partition()]

    def pairs():
        fresh = circuits(48)  # nothing is kept for these yet
        return [(p, fresh[(i + 3 * j) % 48]) for i, p in enumerate(fresh) for j in (0, 1)]

    alone = [work(pair) for pair in pairs()]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            assert list(pool.map(work, pairs(), timeout=60)) == alone


def test_kernel_circuits_on_swapped_vtrees():
    vtree = Vtree.balanced(5)
    k = kernel_circuit(vtree)
    rng = np.random.default_rng(0)
    p = ek.random_circuit(vtree, 2, rng=0)
    expected = ek.expected_kernel(p, p, k)
    for _ in range(20):
        q = p.aligned_to(with_swaps(vtree, rng))
        np.testing.assert_allclose(ek.expected_kernel(q, q, k), expected, rtol=1e-12)
    assert k.blocks(vtree, [2] * 5) is k.blocks(vtree, [2] * 5)
