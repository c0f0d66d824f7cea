import numpy as np
import pytest
from hypothesis import given, settings

import expectedkernels as ek
from assertions import assert_close
from expectedkernels import SteinKernel
from factor_graphs import factor_graphs, random_chain
from oracles import distribution, worlds
from stein_oracles import circuit_problems, stein_gram, stein_size
from strategies import points, rngs


@settings(max_examples=60)
@given(circuit_problems())
def test_it_is_the_mean_of_the_stein_kernel(problem):
    p, q, twin = problem
    P, Q = distribution(p), distribution(q)
    gram = stein_gram(P, p.cardinalities, twin.naive)
    size = Q @ stein_size(P, p.cardinalities, twin.naive) @ Q
    assert_close(ek.kdsd(q, p, twin.kernel), Q @ gram @ Q, size)


@settings(max_examples=30)
@given(circuit_problems())
def test_it_is_zero_at_the_target_and_grows_with_the_square(problem):
    p, q, _ = problem
    k = ek.ExpHamming()
    Q, P = distribution(q), distribution(p)
    far = ek.kdsd(q, p, k)
    size = Q @ stein_size(P, p.cardinalities, lambda X, Y: k(X, Y)) @ Q
    assert far >= 0
    assert_close(ek.kdsd(p, p, k), 0.0, max(1.0, size))
    for t in (0.1, 0.5):
        between = ek.mixture([p, q], [1 - t, t])
        assert_close(ek.kdsd(between, p, k), t**2 * far, max(1.0, size))


@settings(max_examples=30)
@given(factor_graphs(max_worlds=100, zeros=False), rngs)
def test_samples_against_a_target(model, rng):
    k = ek.ExpHamming()
    X = points(rng, model.cardinalities, 8)
    w = rng.dirichlet(np.ones(8))
    gram = SteinKernel(model, k)(X)
    size = np.abs(gram).max()
    circuit, _ = model.compile()
    for target in (model, circuit):
        assert_close(ek.kdsd(X, target, k), gram.mean(), size)
        assert_close(ek.kdsd(ek.Empirical(X, w), target, k), w @ gram @ w, size)
        u = (gram.sum() - np.trace(gram)) / (8 * 7)
        assert_close(ek.kdsd(X, target, k, unbiased=True), u, size)
    # all worlds, weighted by the target, are the target
    every = worlds(model.cardinalities)
    exact = ek.Empirical(every, distribution(circuit))
    assert_close(ek.kdsd(exact, model, k), 0.0, np.abs(SteinKernel(model, k)(every)).max())


def test_long_chains_agree_with_one_variable_at_a_time():
    rng = np.random.default_rng(3)
    p, _ = random_chain(60, rng).compile()
    q, _ = random_chain(60, rng).compile(p.vtree)
    k, total = ek.ExpHamming(), 0.0
    rho = ek.algebra.quotient(q, p)
    for i in range(60):
        change = ek.algebra.linear_combination([rho, ek.algebra.shift(rho, i)], [1.0, -1.0])
        u = ek.algebra.multiply(ek.algebra.shift(p, i), change)
        total += ek.expected_kernel(u, u, k)
    assert_close(ek.kdsd(q, p, k), total)


def test_a_factor_graph_is_compiled_on_the_vtree_of_q():
    model = ek.ising_grid(2, 3, rng=0)
    q = ek.random_circuit(ek.Vtree.balanced(6), 3, rng=1)
    circuit, _ = model.compile(q.vtree)
    assert_close(ek.kdsd(q, model, ek.ExpHamming()), ek.kdsd(q, circuit, ek.ExpHamming()))


def test_reasons_not_to_answer():
    k = ek.ExpHamming()
    p, q = ek.factorized([[0.5, 0.5]] * 2), ek.factorized([[0.3, 0.7]] * 2)
    overlapping = ek.mixture([p, q], [0.5, 0.5])
    with pytest.raises(ek.PropertyError, match="needs a deterministic target"):
        ek.kdsd(p, overlapping, k)
    assert ek.kdsd(overlapping, p, k) > 0
    with pytest.raises(ek.PropertyError, match=r"2 of its 4 states \(0.5\) are possible"):
        ek.kdsd(p, ek.factorized([[1.0, 0.0], [0.5, 0.5]]), k)
    four = ek.random_circuit(ek.Vtree.balanced(4), 2, rng=0)
    other = ek.FactorGraph([2] * 4, [((0, 2), np.ones((2, 2)))])
    with pytest.raises(ek.CompatibilityError):
        ek.kdsd(four, other.compile(ek.Vtree.from_nested(((0, 2), (1, 3))))[0], k)
    with pytest.raises(ek.KernelError, match="must be an expectedkernels kernel"):
        ek.kdsd(p, q, "rbf")
    for q_given in (p, [[0, 1]]):
        with pytest.raises(ek.CircuitError, match="'max_bytes' parameter must be a positive int"):
            ek.kdsd(q_given, p, k, max_bytes="x")
    with pytest.raises(ek.DataError, match="at least two points"):
        ek.kdsd([[0, 1]], p, k, unbiased=True)
    with pytest.raises(ek.DataError, match="must be a FactorGraph"):
        ek.kdsd(p, 3, k)
    real = ek.gaussian_mixture([1.0], [[0.0]], [[1.0]])
    with pytest.raises(ek.PropertyError, match="is real"):
        ek.kdsd(real, real, ek.RBF(1.0))


def test_two_factor_graphs():
    p, q = ek.ising_grid(2, 3, rng=0), ek.ising_grid(2, 3, rng=1)
    circuit, _ = p.compile()
    wanted = ek.kdsd(q.compile(circuit.vtree)[0], circuit, ek.ExpHamming())
    for target in (p, circuit):
        np.testing.assert_allclose(ek.kdsd(q, target, ek.ExpHamming()), wanted, rtol=1e-10)
