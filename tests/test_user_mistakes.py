"""What people do by accident: arrays that change later, text, masks, circuits that go away."""

import gc
import weakref

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_close

NEAR = np.array([[1.0, 0.5], [0.5, 1.0]])


def test_circuits_share_no_memory_and_are_forgotten():
    a, table, rate = np.array([0.2, 0.8]), NEAR.copy(), np.array([0.1, 0.2])
    X, w = np.array([[0.0, 1.0]]), np.array([1.0])
    p, q = ek.factorized([a, [0.5, 0.5]]), ek.Empirical(X, w)
    kernels = [ek.TableKernel([table, NEAR]), ek.RBF(rate)]
    before = [ek.expected_kernel(p, q, k) for k in kernels]
    for array in (a, table, rate, X, w):
        array += 1.0
    assert [ek.expected_kernel(p, q, k) for k in kernels] == before
    p = ek.random_circuit(ek.Vtree.balanced(16), 3, rng=0)
    ek.expected_kernel(p, p, ek.RBF(0.1))
    gone = weakref.ref(p.blocks[-1])
    del p
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("X", [[["a", "b"]], [[0, 1], [0]]])
def test_text_and_ragged_rows_are_refused(X):
    p = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
    with pytest.raises(ek.DataError, match="must be arrays of numbers"):
        ek.expected_kernel(p, X, ek.RBF(0.1))
    with pytest.raises(ek.DataError, match="must be arrays of numbers"):
        p.log_likelihood(X)


def test_masked_entries_are_missing():
    p = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
    masked = np.ma.masked_array([[1, 0]], mask=[[False, True]])
    assert_close(p.log_likelihood(masked), p.log_likelihood([[1, np.nan]]))


@pytest.mark.parametrize("budget", [0, -5, "1 GiB"])
def test_memory_budgets_are_positive(budget):
    p = ek.factorized([[0.2, 0.8]])
    with pytest.raises(ek.DataError, match="'max_bytes' parameter must be a positive int"):
        ek.expected_kernel(p, p, ek.RBF(0.1), max_bytes=budget)


def test_unit_graphs_with_products_of_different_widths_meet_on_a_common_vtree():
    leaves = [ek.Categorical(v, [0.3, 0.7]) for v in range(3)]
    wide = ek.Product(leaves)
    narrow = ek.Product([ek.Product(leaves[:2]), leaves[2]])
    other = ek.Product([leaves[0], ek.Product(leaves[1:])])
    k = ek.RBF(0.4)
    p = ek.factorized([[0.3, 0.7]] * 3)
    exact = ek.expected_kernel(p, p, k)
    for a, b in [(wide, narrow), (narrow, other), (wide, wide)]:
        assert_close(ek.expected_kernel(a, b, k), exact)
    mixed = ek.Sum([narrow, other], [0.5, 0.5])
    assert_close(ek.expected_kernel(mixed, mixed, k), exact)


def test_sums_of_lists_of_kernels():
    k = sum([ek.RBF(0.1), ek.Delta(), ek.Laplacian(0.2)])
    x = [[0.0, 1.0]]
    assert_close(k(x, [[1.0, 1.0]]), [[np.exp(-0.1) + np.exp(-0.2)]])


@pytest.mark.parametrize("log", [False, True])
def test_points_against_points_in_chunks(log):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(2_500, 3)), rng.normal(size=(1_700, 3))  # more than 2**21 pairs
    w, v = rng.random(2_500), rng.random(1_700)
    k = ek.RBF(0.3)
    gram = k(X, Y)
    cases = [
        (X, Y, gram),
        (ek.Empirical(X, w), Y, w @ gram),
        (X, ek.Empirical(Y, v), gram @ v),
        (ek.Empirical(X, w), ek.Empirical(Y, v), w @ gram @ v),
    ]
    for p, q, expected in cases:
        result = ek.expected_kernel(p, q, k, log=log)
        assert_close(np.exp(result) if log else result, expected)


COIN = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
BITS = np.array([[0, 1], [1, 0], [1, 1]])


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: COIN.sample(2, rng=rng),
        lambda rng: ek.Categorical(0, [0.5, 0.5]).sample(2, rng=rng),
        lambda rng: ek.Vtree.random(3, rng=rng),
        lambda rng: ek.random_circuit(3, 2, rng=rng),
        lambda rng: ek.ising_grid(2, 2, rng=rng),
        lambda rng: ek.monte_carlo_expected_kernel(COIN, COIN, ek.RBF(1.0), 5, rng=rng),
        lambda rng: ek.learn_mixture(BITS, 2, rng=rng),
    ],
)
def test_seeds_are_numbers(draw):
    with pytest.raises(ek.CircuitError, match=r"'rng' parameter must be .* Got 'a' instead"):
        draw("a")
