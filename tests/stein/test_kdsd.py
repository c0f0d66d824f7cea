"""The measure behind KDSD between circuits, the supports it counts, and what is kept of it."""

import gc
import sys
from weakref import ref

import numpy as np
import pytest
from hypothesis import given, settings

import expectedkernels as ek
from assertions import assert_close, assert_raises
from expectedkernels import SteinKernel
from expectedkernels.sampling.gibbs import is_positive, support_size
from expectedkernels.stein.stein_kernel import require_positive, stein_measure
from factor_graphs import factor_graphs, random_chain
from oracles import distribution
from stein_oracles import circuit_problems, stein_gram, stein_size
from strategies import points, rngs


def test_it_is_linear_in_the_number_of_variables():
    rng = np.random.default_rng(0)
    pairs = []
    for n in (12, 24, 48):
        p, _ = random_chain(n, rng).compile()
        q, _ = random_chain(n, rng).compile(p.vtree)
        pairs.append(sum(block.n_units**2 for block in stein_measure(q, p).blocks))
    assert pairs[2] - pairs[1] == 2 * (pairs[1] - pairs[0])


def all_but_one(n, holes=1):
    """A deterministic circuit over n binary variables that is zero at one state only, or nowhere.

    Every sum decides by the next variable: zero frees all that follow, one goes on.
    """
    rest = ek.Categorical(n - 1, [0.5, 0.0 if holes else 0.5])
    for v in range(n - 2, -1, -1):
        free = ek.Product([ek.Categorical(u, [0.5, 0.5]) for u in range(v + 1, n)])
        zero, one = (ek.Indicator(v, state, 2) for state in (0, 1))
        rest = ek.Sum([ek.Product([zero, free]), ek.Product([one, rest])], [0.5, 0.5])
    return ek.Circuit.from_units(rest, vtree=ek.Vtree.right_linear(n))


@pytest.mark.parametrize(("n", "found"), [
    (1, "1 of its 2 states"),
    (5, "31 of its 32 states"),
    (60, "not all of its states"),
    (200, "not all of its states"),
])  # fmt: skip
def test_one_zero_among_any_number_of_states(n, found):
    p = all_but_one(n)
    assert support_size(p) == 2**n - 1
    assert not is_positive(p)
    with pytest.raises(ek.PropertyError, match=rf"The target has zeros: {found} are possible"):
        require_positive(p)
    full = all_but_one(n, holes=0)
    assert support_size(full) == 2**n
    assert is_positive(full)
    require_positive(full)


def test_a_second_call_keeps_the_measure_and_nothing_alive():
    targets = [ek.factorized([[0.5, 0.5], [0.1 * n, 1 - 0.1 * n]]) for n in (1, 2, 3, 4)]
    q = ek.factorized([[0.3, 0.7], [0.6, 0.4]])
    for p in (*targets, *targets[::-1]):
        first, second = ek.kdsd(q, p, ek.ExpHamming()), ek.kdsd(q, p, ek.RBF(0.3))
        fresh = ek.factorized([[0.3, 0.7], [0.6, 0.4]])
        assert first == ek.kdsd(fresh, p, ek.ExpHamming())
        assert second == ek.kdsd(fresh, p, ek.RBF(0.3))
    assert len(q.operand.cached("stein measure", list)) == 1
    gone = ref(targets[0])
    del p, targets
    gc.collect()
    assert gone() is None


def test_large_measures_are_not_kept(monkeypatch):
    monkeypatch.setattr(sys.modules[require_positive.__module__], "KEPT_BYTES", 0)
    p, q = ek.factorized([[0.5, 0.5]] * 3), ek.factorized([[0.3, 0.7]] * 3)
    ek.kdsd(q, p, ek.ExpHamming())
    assert len(q.operand.cached("stein measure", list)) == 0


@settings(max_examples=60)
@given(circuit_problems())
def test_it_is_the_mean_of_the_stein_kernel(problem):
    p, q, twin = problem
    P, Q = distribution(p), distribution(q)
    gram = stein_gram(P, p.cardinalities, twin.naive)
    size = Q @ stein_size(P, p.cardinalities, twin.naive) @ Q
    assert_close(ek.kdsd(q, p, twin.kernel), Q @ gram @ Q, size)
    assert_close(ek.kdsd(p, p, twin.kernel), 0.0, max(1.0, size))


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


def test_reasons_not_to_answer():
    k = ek.ExpHamming()
    p, q = ek.factorized([[0.5, 0.5]] * 2), ek.factorized([[0.3, 0.7]] * 2)
    overlapping = ek.mixture([p, q], [0.5, 0.5])
    assert_raises(ek.PropertyError, "needs a deterministic target", ek.kdsd, p, overlapping, k)
    assert ek.kdsd(overlapping, p, k) > 0
    with pytest.raises(ek.PropertyError, match=r"2 of its 4 states are possible"):
        ek.kdsd(p, ek.factorized([[1.0, 0.0], [0.5, 0.5]]), k)
    four = ek.random_circuit(ek.Vtree.balanced(4), 2, rng=0)
    other = ek.FactorGraph([2] * 4, [((0, 2), np.ones((2, 2)))])
    with pytest.raises(ek.CompatibilityError):
        ek.kdsd(four, other.compile(ek.Vtree.from_nested(((0, 2), (1, 3))))[0], k)
    assert_raises(ek.DataError, "at least two points", ek.kdsd, [[0, 1]], p, k, unbiased=True)
    assert_raises(ek.DataError, "must be a FactorGraph", ek.kdsd, p, 3, k)
    real = ek.gaussian_mixture([1.0], [[0.0]], [[1.0]])
    assert_raises(ek.PropertyError, "is real", ek.kdsd, real, real, ek.RBF(1.0))


def test_factor_graphs_are_compiled_on_the_vtree_of_the_other():
    p, q = ek.ising_grid(2, 3, rng=0), ek.ising_grid(2, 3, rng=1)
    r = ek.random_circuit(ek.Vtree.balanced(6), 3, rng=1)
    assert_close(ek.kdsd(r, p, ek.ExpHamming()), ek.kdsd(r, p.compile(r.vtree)[0], ek.ExpHamming()))
    circuit, _ = p.compile()
    wanted = ek.kdsd(q.compile(circuit.vtree)[0], circuit, ek.ExpHamming())
    for target in (p, circuit):
        np.testing.assert_allclose(ek.kdsd(q, target, ek.ExpHamming()), wanted, rtol=1e-10)
