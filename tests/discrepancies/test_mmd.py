import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import expectedkernels as ek
from assertions import assert_close
from oracles import distribution, worlds
from strategies import circuits, domains, kernels, points, rngs, vtrees, with_swaps


@st.composite
def drawn(draw):
    """Two normalised circuits and a positive definite kernel with its twin."""
    cards = draw(domains())
    vtree = draw(vtrees(len(cards)))
    p = draw(circuits(cards, vtree))
    q = draw(circuits(cards, with_swaps(vtree, draw(rngs))))
    twin = draw(kernels(cards, vtree, definite=True, signed=True))
    return p.normalize(), q.normalize(), twin


@settings(max_examples=50)
@given(drawn())
def test_it_is_the_distance_in_feature_space(problem):
    p, q, twin = problem
    X = worlds(p.cardinalities)
    K, P, Q = twin.naive(X, X), distribution(p), distribution(q)
    size = P @ K @ P + Q @ K @ Q
    squared = ek.mmd2(p, q, twin.kernel)
    assert_close(squared, (P - Q) @ K @ (P - Q), size)
    assert squared >= -1e-12 * size
    assert_close(ek.mmd2(q, p, twin.kernel), squared, size)
    assert_close(ek.mmd(p, q, twin.kernel), np.sqrt(max(0.0, squared)))


@settings(max_examples=30)
@given(drawn())
def test_nothing_is_far_from_itself(problem):
    p, _, twin = problem
    assert ek.mmd2(p, p, twin.kernel) == 0.0
    assert ek.mmd(p, p, twin.kernel) == 0.0


@settings(max_examples=30)
@given(drawn(), rngs)
def test_points_are_empirical_distributions(problem, rng):
    p, _, twin = problem
    X = worlds(p.cardinalities)
    K, P = twin.naive(X, X), distribution(p)
    Y, Z = points(rng, p.cardinalities, 7), points(rng, p.cardinalities, 40)
    share = rng.dirichlet(np.ones(7))
    cross, square = twin.naive(X, Y), twin.naive(Y, Y)
    for q, weights in ((Y, np.full(7, 1 / 7)), (ek.Empirical(Y, share), share)):
        size = P @ K @ P + weights @ square @ weights
        expected = size - 2 * P @ cross @ weights
        assert_close(ek.mmd2(p, q, twin.kernel), expected, size)
        assert_close(ek.mmd2(q, p, twin.kernel), expected, size)
    size = twin.naive(Z, Z).mean() + share @ square @ share
    expected = size - 2 * (twin.naive(Z, Y) @ share).mean()
    assert_close(ek.mmd2(Z, ek.Empirical(Y, share), twin.kernel), expected, size)
    assert_close(ek.mmd2(Y, Y[::-1], twin.kernel), 0.0, size)


def test_the_triangle_inequality():
    several = [ek.random_circuit(5, 3, rng=seed) for seed in range(4)]
    k = ek.RBF(0.2)
    for p in several:
        for q in several:
            for r in several:
                assert ek.mmd(p, r, k) <= ek.mmd(p, q, k) + ek.mmd(q, r, k) + 1e-12


def test_unit_graphs():
    def point(*values):
        return ek.Product([ek.Indicator(v, value, 2) for v, value in enumerate(values)])

    p, q = ek.Sum([point(0, 0), point(1, 1)], [0.5, 0.5]), point(0, 1)
    # the two share no point: the squared distances of their values add up
    assert_close(ek.mmd2(p, q, ek.Delta()), 1.5)
    assert_close(ek.mmd(p, ek.Circuit.from_units(q), ek.Delta()), np.sqrt(1.5))


def test_real_variables():
    p = ek.gaussian_mixture([1.0], [[0.0]], [[1.0]])
    q = ek.gaussian_mixture([1.0], [[3.0]], [[1.0]])
    # differences of independent values are normal with variance 2, and means 0 and 3
    k = ek.RBF(0.5)
    expected = 2 / np.sqrt(3) * (1 - np.exp(-(3.0**2) / 6))
    assert_close(ek.mmd2(p, q, k), expected)


def test_samples_approach_their_circuit():
    p = ek.random_circuit(6, 4, rng=0)
    k = ek.RBF(0.3)
    distances = [ek.mmd(p, p.sample(n, rng=1), k) for n in (30, 3000)]
    assert distances[1] < distances[0] / 3


def test_a_negative_square_is_refused():
    k = ek.TableKernel([[[0.0, 1.0], [1.0, 0.0]]])
    p, q = ek.factorized([[0.9, 0.1]]), ek.factorized([[0.2, 0.8]])
    assert ek.mmd2(p, q, k) < 0
    message = r"negative beyond rounding: the kernel is not positive definite \(no: the table of"
    with pytest.raises(ek.KernelError, match=message):
        ek.mmd(p, q, k)


def test_incompatible_circuits_are_refused():
    p = ek.factorized([[0.5, 0.5]] * 3, ek.Vtree.right_linear(3))
    q = ek.factorized([[0.5, 0.5]] * 3, ek.Vtree.left_linear(3))
    with pytest.raises(ek.CompatibilityError, match="#P-hard"):
        ek.mmd2(p, q, ek.Delta())


def test_circuits_of_several_roots_are_refused():
    p = ek.random_circuit(3, 2, rng=0)
    for distance in (ek.mmd, ek.mmd2):
        with pytest.raises(ek.CircuitError, match="A discrepancy needs a circuit with one root"):
            distance(p, ek.algebra.stack([p, p]), ek.Delta())


@settings(max_examples=5)
@given(drawn(), rngs)
def test_memory_may_be_limited(problem, rng):
    p, _, twin = problem
    Y = points(rng, p.cardinalities, 50)
    assert_close(
        ek.mmd2(p, Y, twin.kernel, max_bytes=5000),
        ek.mmd2(p, Y, twin.kernel),
        scale=ek.expected_kernel(p, p, twin.kernel),
    )
