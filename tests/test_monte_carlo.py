"""The sampled fallback of expected kernels."""

import numpy as np
import pytest

import expectedkernels as ek
from oracles import unit_values_at, worlds
from strategies import points, rate_twin
from unit_graphs import drawn_unstructured

N = 4000


def assert_within(estimate, exact):
    """The estimate is within five standard errors, which are neither zero nor huge."""
    value, error = estimate
    assert isinstance(value, float)
    assert isinstance(error, float)
    assert 0 < error < 0.2 * abs(exact)
    assert abs(value - exact) < 5 * error


NEAR = [np.eye(2), np.full((2, 2), 0.5) + np.eye(2)]
INPUTS = [ek.kernels.kernel_input(v, table) for v, table in enumerate(NEAR)]
HEAVY = ek.Product([ek.Categorical(0, [5.0, 5.0]), ek.Categorical(1, [1.0, 2.0])])
NORMALS = ek.gaussian_mixture([0.4, 0.6], [[0.0, 0.0], [1.0, 2.0]], [[1.0, 0.5], [0.3, 2.0]])
NORMAL = ek.gaussian_mixture([1.0], [[0.5, 0.5]], [[1.0, 1.0]])
UNNORMALISED = ek.factorized([[1.0, 3.0], [2.0, 2.0]], normalized=False)
PAIR = ek.random_circuit(2, 2, rng=0)
CASES = {
    "masses": (UNNORMALISED, ek.Sum([HEAVY], [0.1]), ek.ExpHamming()),
    "real variables": (NORMALS, NORMAL, ek.Laplacian(0.5)),
    "kernel circuits": (PAIR, PAIR, ek.KernelCircuit(ek.Product(INPUTS))),
}
for seed in range(5):
    CASES[f"circuits {seed}"] = (
        *(ek.random_circuit(4, 3, rng=seed + i, cardinalities=(2, 3, 4, 2)) for i in (0, 100)),
        ek.RBF(0.3) + 0.5 * ek.Delta(),
    )


@pytest.mark.parametrize("case", CASES)
def test_estimates_are_near_the_exact_values(case):
    p, q, k = CASES[case]
    assert_within(ek.monte_carlo_expected_kernel(p, q, k, N, rng=0), ek.expected_kernel(p, q, k))


@pytest.mark.parametrize("seed", range(5))
def test_unit_graphs_that_are_not_structured(seed):
    p, cards = drawn_unstructured(seed)
    twin, X = rate_twin("RBF", 0.4), worlds(cards)
    P = unit_values_at(p, X)
    exact = P @ twin.naive(X, X) @ P
    assert_within(ek.monte_carlo_expected_kernel(p, p, twin.kernel, N, rng=seed), exact)


def test_circuits_that_are_not_compatible():
    p = ek.random_circuit(ek.Vtree.right_linear(4), 3, rng=0)
    q = ek.random_circuit(ek.Vtree.left_linear(4), 3, rng=1)
    twin, X = rate_twin("Laplacian", 0.4), worlds([2] * 4)
    exact = np.exp(p.log_likelihood(X)) @ twin.naive(X, X) @ np.exp(q.log_likelihood(X))
    with pytest.raises(ek.CompatibilityError, match="monte_carlo_expected_kernel"):
        ek.expected_kernel(p, q, twin.kernel)
    assert_within(ek.monte_carlo_expected_kernel(p, q, twin.kernel, N, rng=2), exact)


@pytest.mark.parametrize("weights", [None, [0.2, 1.0, 0.0, 3.0]])
def test_points(weights):
    p = ek.random_circuit(3, 2, rng=0)
    X = points(np.random.default_rng(0), (2, 2, 2), 4)
    q = ek.Empirical(X, weights)
    k = ek.RBF(0.5)
    assert_within(ek.monte_carlo_expected_kernel(p, q, k, N, rng=0), ek.expected_kernel(p, q, k))
    assert_within(ek.monte_carlo_expected_kernel(q, p, k, N, rng=0), ek.expected_kernel(q, p, k))
    if weights is None:  # a plain array has equal weights
        estimate = ek.monte_carlo_expected_kernel(p, X, k, N, rng=0)
        assert estimate == ek.monte_carlo_expected_kernel(p, q, k, N, rng=0)


def test_chunks_make_one_estimate():
    # a few samples at a time give the mean and standard error of all of them together
    p, q = ek.random_circuit(3, 2, rng=0), ek.random_circuit(3, 2, rng=1)
    k = ek.RBF(0.3)
    value, error = ek.monte_carlo_expected_kernel(p, q, k, 1001, rng=0, chunk=10)
    generator = np.random.default_rng(0)
    values = []
    for size in [10] * 100 + [1]:
        X = p.sample(size, rng=generator)
        values.append(k.pairs(X, q.sample(size, rng=generator)))
    values = np.concatenate(values)
    np.testing.assert_allclose(value, values.mean(), rtol=1e-12)
    np.testing.assert_allclose(error, values.std(ddof=1) / np.sqrt(1001), rtol=1e-12)
