"""Whether kernels are sums of products is a property of theirs, not of what was kept for them."""

import numpy as np
import pytest

import expectedkernels as ek
from expectedkernels import Vtree
from expectedkernels.kernels.blocks import is_parallel, parallel_operand

NEAR, SAME = [[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.0], [0.0, 1.0]]
VTREE = Vtree.balanced(2)


def product(*tables):
    return ek.Product([ek.kernels.kernel_input(i, table) for i, table in enumerate(tables)])


PRODUCT = ek.KernelCircuit(product(NEAR, SAME), vtree=VTREE)
SUM_INSIDE = ek.KernelCircuit(
    ek.Sum([product(NEAR, SAME), product(SAME, NEAR)], [0.3, 0.7]), vtree=VTREE
)
KERNELS = [
    (ek.RBF(0.3), True),
    (2.0 * ek.RBF(0.3) + ek.Delta(), True),
    ((ek.RBF(0.3) + ek.Delta()) * (ek.Laplacian(1.0) + ek.Delta()), True),
    (PRODUCT, True),
    (SUM_INSIDE, False),
    (SUM_INSIDE + ek.RBF(0.3), False),
    (SUM_INSIDE * ek.RBF(0.3), False),
    (PRODUCT + SUM_INSIDE * PRODUCT, False),
    (PRODUCT * ek.RBF(0.3) + 0.5 * PRODUCT, True),
]


@pytest.mark.parametrize(("kernel", "parallel"), KERNELS, ids=[str(i) for i in range(len(KERNELS))])
def test_what_is_kept_does_not_change_what_kernels_are(kernel, parallel):
    blocks = kernel.blocks(VTREE, [2, 2])
    assert is_parallel(blocks) == parallel
    parallel_operand.cache_clear()
    assert is_parallel(blocks) == parallel
    for terms in range(1, 40):
        parallel_operand(VTREE, terms)
    assert is_parallel(blocks) == parallel
    assert is_parallel(kernel.blocks(VTREE, [2, 2])) == parallel


@pytest.mark.parametrize("kernel", [kernel for kernel, _ in KERNELS], ids=range(len(KERNELS)))
def test_expectations_of_all_forms_are_sums_over_states(kernel):
    p = ek.random_circuit(VTREE, 2, rng=0)
    X = np.array([[a, b] for a in (0, 1) for b in (0, 1)])
    mass = np.exp(p.log_likelihood(X))
    expected = mass @ kernel(X, X) @ mass
    np.testing.assert_allclose(ek.expected_kernel(p, p, kernel), expected, rtol=1e-12)
