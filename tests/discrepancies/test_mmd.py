"""The distance of distributions against sums over states, and what is no distribution."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import expectedkernels as ek
from assertions import assert_close, assert_raises
from networks import bif_of_pgmpy
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
    assert ek.mmd2(p, p, twin.kernel) == ek.mmd(p, p, twin.kernel) == 0.0


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


def test_a_negative_square_is_refused():
    k = ek.TableKernel([[[0.0, 1.0], [1.0, 0.0]]])
    p, q = ek.factorized([[0.9, 0.1]]), ek.factorized([[0.2, 0.8]])
    assert ek.mmd2(p, q, k) < 0
    message = r"negative beyond rounding: the kernel is not positive definite \(no: the table of"
    assert_raises(ek.KernelError, message, ek.mmd, p, q, k)


def test_circuits_of_several_roots_are_refused():
    p = ek.random_circuit(3, 2, rng=0)
    message, pair = "A discrepancy needs a circuit with one root", ek.algebra.stack([p, p])
    for distance in (ek.mmd, ek.mmd2):
        assert_raises(ek.CircuitError, message, distance, p, pair, ek.Delta())


def random_model(rng, cards, names, n_factors):
    """A factor graph of random factors over two or three variables."""
    scopes = [rng.choice(len(cards), rng.integers(2, 4), replace=False) for _ in range(n_factors)]
    factors = [ek.Factor(s.tolist(), rng.random([cards[v] for v in s]) ** 3) for s in scopes]
    return ek.FactorGraph(cards, factors, names)


def in_other_order(model, order, noise=0.0, rng=None):
    """The model with its variables in another order, up to rounding."""
    place, factors = np.argsort(order), []
    for f in model.factors:
        off = noise * rng.normal(size=f.table.shape) if noise else 0.0
        factors.append(ek.Factor([int(place[v]) for v in f.scope], f.table * (1 + off)))
    cards, names = ([given[v] for v in order] for given in (model.cardinalities, model.names))
    states = model.states and [model.states[v] for v in order]
    return ek.FactorGraph(cards, factors, names, states)


@pytest.mark.parametrize("seed", range(12))
def test_models_of_different_structure_are_compared_exactly(seed):
    rng = np.random.default_rng(seed)
    cards, names = rng.integers(2, 4, size=6).tolist(), list("abcdef")
    order = rng.permutation(6).tolist()
    p = random_model(rng, cards, names, 6)
    q = random_model(rng, [cards[v] for v in order], [names[v] for v in order], 5)
    tree = ek.learn_chow_liu(p.sample(50, rng=seed), cardinalities=cards).with_names(names)
    X = worlds(cards)
    P, Q = np.exp(p.log_score(X)), np.exp(q.log_score(X[:, order]))
    P, Q, T = P / P.sum(), Q / Q.sum(), np.exp(tree.log_likelihood(X))
    k = [ek.ExpHamming(rng.random(6)), ek.RBF(rng.random(6)), ek.Delta() + ek.RBF(0.1)][seed % 3]
    K = k(X)
    for other, R in ((q, Q), (tree, T), (p.compile(ek.Vtree.balanced(6))[0], P)):
        wanted, size = (P - R) @ K @ (P - R), P @ K @ P
        assert_close(ek.mmd2(p, other, k), wanted, size)
        assert_close(ek.expected_kernel(p, other, k), P @ K @ R, size)
        assert_close(ek.witness(p, other, k, X[:20]), (K[:20] @ (P - R)), size)
    assert_close(ek.mmd2(tree, p, k), (P - T) @ K @ (P - T), P @ K @ P)
    plain = ek.RBF(0.3)
    wanted = (P - Q) @ plain(X) @ (P - Q)
    assert_close(ek.mmd2(q, p, plain), wanted, P @ plain(X) @ P)


@pytest.mark.parametrize("name", ["asia", "child", "alarm"])
def test_models_that_are_the_same_up_to_rounding_are_at_distance_zero(name):
    rng = np.random.default_rng(0)
    p, again = (ek.read_bif(bif_of_pgmpy(name)) for _ in range(2))
    order = rng.permutation(p.n_variables).tolist()
    same = [p, again, in_other_order(p, order), in_other_order(p, order, 1e-16, rng)]
    for q in [*same, p.compile()[0], p.compile(for_pairs=True)[0]]:
        assert ek.mmd(p, q) == ek.mmd(q, p) == 0.0
        assert ek.mmd2(p, q) == ek.mmd2(q, p) == 0.0


def test_kernel_circuits_need_the_vtree_of_the_circuit():
    rng = np.random.default_rng(0)
    p = random_model(rng, [2] * 4, None, 4)
    vtree = ek.Vtree.from_nested(((0, 3), (1, 2)))
    q = ek.random_circuit(vtree, 2, rng=1)
    near, same = np.array([[1.0, 0.5], [0.5, 1.0]]), np.eye(2)
    halves = [
        ek.Product([ek.kernels.kernel_input(v, table) for v in pair])
        for table in (near, same)
        for pair in ((0, 3), (1, 2))
    ]
    root = ek.Sum([ek.Product(halves[:2]), ek.Product(halves[2:])], [0.4, 0.6])
    k = ek.KernelCircuit(root, vtree)
    X = worlds([2] * 4)
    P, Q = np.exp(p.log_score(X)), distribution(q)
    P /= P.sum()
    assert_close(ek.mmd2(p, q, k), (P - Q) @ k(X) @ (P - Q), P @ k(X) @ P)


def test_a_vtree_that_suits_both_models_is_chosen():
    n = 16
    chain = [((v, v + 1), np.array([[3.0, 1.0], [1.0, 2.0]])) for v in range(n - 1)]
    order = [v for i in range(n // 2) for v in (i, i + n // 2)]
    far = [((order[i], order[i + 1]), np.array([[2.0, 1.0], [1.0, 4.0]])) for i in range(n - 1)]
    ring = ek.FactorGraph([2] * n, [*chain, ((0, n - 1), np.array([[2.0, 1.0], [1.0, 2.0]]))])
    other = ek.FactorGraph([2] * n, far)
    k = ek.ExpHamming()
    X = worlds([2] * n)
    P, Q = (np.exp(model.log_score(X)) for model in (ring, other))
    P, Q = P / P.sum(), Q / Q.sum()
    # E k(x, x') by one matrix per variable
    smooth = Q.reshape([2] * n)
    matrix = np.array([[1.0, np.exp(-1 / n)], [np.exp(-1 / n), 1.0]])
    for axis in range(n):
        smooth = np.moveaxis(np.tensordot(matrix, smooth, (1, axis)), 0, axis)
    assert_close(ek.expected_kernel(ring, other, k), P @ smooth.ravel())
    assert_close(ek.expected_kernel(other, ring, k), P @ smooth.ravel())
    sizes = [ek.explain(one, two, k).operations for one, two in ((ring, other), (other, ring))]
    assert sizes[0] == sizes[1]


P = ek.factorized([[0.5, 0.5], [0.2, 0.8]])
HEAVY = ek.factorized([[1.0, 1.0], [0.2, 0.8]], normalized=False)
UNIT = ek.Product([ek.Categorical(0, [1.0, 1.0]), ek.Categorical(1, [0.2, 0.8])])
LIGHT = ek.Empirical([[0, 1], [1, 1]], [0.25, 0.5])
K = ek.ExpHamming()
SUMS = r"must sum to one.*\(its log_partition\(\)\) is 0\.693147; normalize\(\)"
WEIGHTS = r"weights of points must sum to one.* These sum to 0\.75: divide"


@pytest.mark.parametrize("ask", [
    lambda x: ek.mmd(P, x, K),
    lambda x: ek.mmd(x, P, K),
    lambda x: ek.mmd2(x, [[0, 1]], K),
    lambda x: ek.witness(x, P, K, [[0, 1]]),
    lambda x: ek.witness(P, x, K, [[0, 1]]),
    lambda x: ek.kdsd(x, P, K),
])  # fmt: skip
def test_what_does_not_sum_to_one_is_refused(ask):
    for x in (HEAVY, UNIT):
        assert_raises(ek.PropertyError, SUMS, ask, x)
    assert_raises(ek.DataError, WEIGHTS, ask, LIGHT)
    ask(HEAVY.normalize())


def test_targets_need_no_normaliser_and_signs_and_rounding_are_fine():
    assert_close(ek.kdsd(P, HEAVY, K), ek.kdsd(P, HEAVY.normalize(), K), 1.0)
    points = P.sample(20, rng=0)
    same = [ek.kdsd_test(points, p, K, rng=0).statistic for p in (HEAVY, HEAVY.normalize())]
    assert_close(same[0], same[1])
    signed = ek.Empirical([[0, 1], [1, 1]], [1.5, -0.5])
    assert ek.mmd(P, signed, K) > 0
    assert np.isfinite(ek.kdsd(signed, P, K))
    rounded, off = (ek.factorized([[0.5, 0.5 + x]], normalized=False) for x in (5e-7, 2e-6))
    ek.mmd2(rounded, [[0]], K)
    message = "A discrepancy is between distributions"
    assert_raises(ek.PropertyError, message, ek.mmd2, off, [[0]], K)


def test_single_precision_has_a_wider_tolerance_and_gradients_pass():
    torch = pytest.importorskip("torch")
    for dtype, off in ((torch.float32, 2e-4), (torch.float64, 2e-7)):
        table = torch.tensor([[0.5, 0.5 + off]], dtype=dtype, requires_grad=True)
        p = ek.Circuit(ek.Vtree.balanced(1), (type(P.input(0))(table),))
        q = ek.factorized([[0.25, 0.75]]).to("torch") if dtype == torch.float64 else p
        value = ek.mmd2(p, q, ek.Delta())
        value.backward()
        assert table.grad is not None
    table = torch.tensor([[0.5, 0.5 + 2e-4]], dtype=torch.float64)
    p = ek.Circuit(p.vtree, (type(P.input(0))(table),))
    assert_raises(ek.PropertyError, "sum to one", ek.mmd2, p, q, ek.Delta())
