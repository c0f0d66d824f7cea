import pickle
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse
from scipy.stats import norm

import expectedkernels as ek
from assertions import assert_close, assert_logs_close, assert_raises, refusals
from circuit_oracles import all_worlds, drawn_circuit, joint, log_joint, sparsified
from expectedkernels import Circuit, CircuitError, Vtree, factorized, gaussian_mixture, hmm
from oracles import Inner, Table
from strategies import seeds, with_swaps
from unit_graphs import random_nested


@given(seeds)
def test_factorized_circuits_multiply_their_tables(seed):
    rng = np.random.default_rng(seed)
    tables = [rng.random(int(rng.integers(1, 5))) for _ in range(int(rng.integers(1, 6)))]
    vtree = Vtree.from_nested(random_nested(rng, rng.permutation(len(tables))))
    for p in (factorized(tables, normalized=False), factorized(tables, vtree, normalized=False)):
        assert p.cardinalities == tuple(len(table) for table in tables)
        expected = np.ones(())
        for table in tables:
            expected = expected[..., None] * table
        assert_close(np.exp(log_joint(p)), expected)
        assert_logs_close(p.log_likelihood(all_worlds(p.cardinalities)), np.log(expected).ravel())
    assert p.vtree == vtree


@given(seeds, st.integers(1, 3), st.booleans())
def test_mixtures_are_weighted_sums(seed, n_variables, given_weights):
    rng = np.random.default_rng(seed)
    vtree, n = Vtree.random(n_variables, rng=seed), int(rng.integers(1, 5))
    parts = [
        ek.random_circuit(with_swaps(vtree, rng), 3, seed + i, [2, 3, 2][:n_variables], density)
        for i, density in enumerate(rng.choice([None, 0.5], size=n))
    ]
    # weights need be neither normalised nor positive
    weights = rng.uniform(-1, 3, size=n) if given_weights else None
    p = ek.mixture(parts, weights, normalized=False)
    share = np.full(n, 1 / n) if weights is None else weights
    assert (p.n_roots, p.vtree) == (1, parts[0].vtree)
    terms = [w * joint(part) for w, part in zip(share, parts, strict=True)]
    assert_close(joint(p), sum(terms), sum(map(np.abs, terms)))


@given(seeds)
def test_stacks_have_all_roots_in_order(seed):
    p = drawn_circuit(seed, n_max=4, roots=2)
    q = drawn_circuit(seed, n_max=4, roots=1)  # the same vtree and cardinalities
    both = ek.algebra.stack([p, q, p])
    expected = np.concatenate([joint(p), joint(q), joint(p)])
    np.testing.assert_allclose(joint(both), expected, rtol=1e-10)
    totals = expected.reshape(5, -1).sum(axis=1)
    np.testing.assert_allclose(np.exp(both.log_partition()), totals, rtol=1e-10)


@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize("varying", [False, True])
def test_hidden_markov_models_sum_over_all_paths(length, varying):
    rng = np.random.default_rng(length)
    states, symbols = 3, [2, 3, 4, 2, 3][:length] if varying else [3] * length
    initial = rng.dirichlet(np.ones(states))
    transitions = rng.dirichlet(np.ones(states), size=(length - 1, states))
    emissions = [rng.dirichlet(np.ones(n), size=states) for n in symbols]
    if not varying:
        transitions[:], emissions = transitions[:1], [emissions[0]] * length
    paths = initial * emissions[0].T  # the last axis is the last state
    for step, emission in zip(transitions, emissions[1:], strict=True):
        paths = (paths @ step)[..., None, :] * emission.T
    expected = paths.sum(axis=-1)
    if varying:
        p = hmm(initial, transitions, emissions, normalized=False)
    else:
        step = transitions[0] if length > 1 else np.eye(states)
        p = hmm(initial, step, emissions[0], length=length, normalized=False)
    assert p.vtree == Vtree.right_linear(length)
    assert_close(np.exp(log_joint(p)), expected)
    assert_close(np.exp(p.log_likelihood(all_worlds(p.cardinalities))), expected.ravel())


def test_lengths_of_hidden_markov_models():
    start, step, emit = [0.5, 0.5], np.full((2, 2), 0.5), np.full((2, 3), 1 / 3)
    assert hmm(start, np.stack([step] * 3), emit).n_variables == 4
    assert hmm(start, step, [emit] * 5).n_variables == 5
    assert hmm(start, step, np.stack([emit] * 5)).n_variables == 5
    assert hmm(start, step.tolist(), emit.tolist(), length=6).n_variables == 6


@given(seeds)
def test_gaussian_mixtures_have_the_right_density(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    weights, means = rng.dirichlet(np.ones(n)), rng.normal(0, 3, size=(n, d))
    variances = rng.uniform(0.1, 4, size=(n, d))
    X = rng.normal(0, 3, size=(6, d))
    p = gaussian_mixture(weights, means, variances, Vtree.random(d, rng=seed), normalized=False)
    assert p.cardinalities == (None,) * d
    densities = norm.pdf(X[:, None, :], means, np.sqrt(variances)).prod(axis=2) @ weights
    assert_close(np.exp(p.log_likelihood(X)), densities)
    assert abs(p.log_partition()) < 1e-12
    q = gaussian_mixture(weights, means + 1, variances, p.vtree, normalized=False)
    mixed = [0.3, 0.7] @ np.exp([p.log_likelihood(X), q.log_likelihood(X)])
    assert_close(np.exp(ek.mixture([p, q], [0.3, 0.7]).log_likelihood(X)), mixed)


@pytest.mark.parametrize("density", [None, 0.1, 0.5, 1.0])
@given(seeds)
def test_random_circuits_are_distributions(density, seed):
    rng = np.random.default_rng(seed)
    n, units = int(rng.integers(1, 6)), int(rng.integers(1, 7))
    cards = tuple(rng.integers(1, 4, size=n).tolist())
    p = ek.random_circuit(Vtree.random(n, rng=seed), units, seed, cards, density)
    assert p.cardinalities == cards
    assert p.n_roots == 1
    values = joint(p)
    assert (values >= 0).all()
    assert values.sum() == pytest.approx(1.0, abs=1e-12)


def test_random_circuits_are_reproducible_thin_and_large():
    p, q = (ek.random_circuit(4, 3, rng=7) for _ in range(2))
    np.testing.assert_array_equal(joint(p), joint(q))
    generator = np.random.default_rng(7)
    np.testing.assert_array_equal(joint(p), joint(ek.random_circuit(4, 3, rng=generator)))
    assert (joint(ek.random_circuit(4, 3, rng=generator)) != joint(p)).any()
    dense = ek.random_circuit(8, 40, rng=0)
    thin = ek.random_circuit(8, 40, rng=0, density=0.1)
    assert thin.n_edges < 0.3 * dense.n_edges
    assert dense.n_parameters == 6 * 40 * 40 + 40 + 8 * 40 * 2
    p = ek.random_circuit(Vtree.balanced(8), 1000, rng=0)
    assert p.n_parameters > 6_000_000
    assert abs(p.log_partition()) < 1e-9


p2 = factorized([[0.5, 0.5], [0.5, 0.5]])
step2, emit2 = np.eye(2), np.eye(2)
LINEAR = (Vtree.right_linear(3), Vtree.left_linear(3))


test_errors = refusals(None, [
    (lambda: factorized([]), ek.VtreeError, "at least one variable"),
    (lambda: factorized([np.eye(2)]), CircuitError, r"variable 0 must have one .*\(2, 2\)"),
    (lambda: factorized([[1.0], []]), CircuitError, r"variable 1 must .* Got shape \(0,\)"),
    (lambda: factorized([[1, 1]], Vtree.balanced(2), normalized=False), CircuitError,
     r"tables for variables 0 to 0, but a vtree over \[0, 1\] \(2 in all\)"),
    (lambda: factorized([[np.nan, 1]], normalized=False), CircuitError, "must be finite numbers"),
    (lambda: ek.mixture([]), CircuitError, "at least one circuit. Got none"),
    (lambda: ek.mixture([p2], [0.5, 0.5]), CircuitError, r"mixture of 1 .* Got \[0.5 0.5\]"),
    (lambda: ek.mixture([p2], [np.nan], normalized=False), CircuitError, r"finite weights. Got"),
    (lambda: ek.mixture([p2, factorized([[0.5, 0.5]])]), ek.CompatibilityError,
     r"circuits 0 and 1 together needs .* variables \{0, 1\}, the second \{0\}"),
    (lambda: ek.algebra.stack([p2, p2, factorized([[0.5, 0.5], [0.2, 0.3, 0.5]])]),
     ek.CompatibilityError, "circuits 0 and 2 .* variable 1 has 2 states in the first"),
    (lambda: ek.algebra.stack([ek.random_circuit(v, 2, rng=0) for v in LINEAR]),
     ek.CompatibilityError, r"into \{0\} \| \{1, 2\}, one of the second into \{0, 1\} \| \{2\}"),
    (lambda: hmm([1, 0], step2, emit2), CircuitError, "'length' parameter of hmm .* Got None"),
    (lambda: hmm([1, 0], step2, emit2, length=0), CircuitError, r"an int in the range \[1,"),
    (lambda: hmm([1, 0, 0], step2, emit2, length=2), CircuitError, r"3 states and length 2"),
    (lambda: hmm([1, 0], step2, np.eye(3), length=2), CircuitError, r"Got \(2, 2\) and \[\(3,"),
    (lambda: hmm([1, 0], step2, [emit2] * 3, length=2), CircuitError, "length 2 needs"),
    (lambda: hmm([1, 0], [step2] * 4, emit2, length=3), CircuitError, r"Got \(4, 2, 2\)"),
    *((lambda x=x: gaussian_mixture(*x, normalized=False), CircuitError, message)
      for *x, message in [([1.0], [[0.0]], [[1.0, 1.0]], r"Got \(1, 1\), \(1, 2\) and \(1,\)"),
                          ([0.5, 0.5], [0.0], [1.0], r"and \(2,\)"),
                          (1.0, 0.0, 1.0, "one weight per component"),
                          ([], [], [], "per component")]),
    (lambda: gaussian_mixture([1.0], [[0.0, 0.0]], [[1.0, 1.0]], Vtree.balanced(1)), CircuitError,
     r"means and variances for variables 0 to 1, but a vtree over \[0\]"),
    (lambda: ek.random_circuit(2, 0), CircuitError, r"'units' parameter .* \[1, inf\). Got 0"),
    *((lambda x=x: ek.random_circuit(2, 2, density=x), CircuitError,
       rf"'density' .* range \(0, 1\]. Got {x}") for x in (0.0, 1.5)),
    (lambda: ek.random_circuit(2, 2, cardinalities=[2, 2, 2]), CircuitError,
     r"'cardinalities' parameter .* \(2 in all\). Got \[2, 2, 2\]"),
    (lambda: ek.random_circuit(2, 2, cardinalities=0), CircuitError, "positive int.* Got 0"),
    (lambda: ek.random_circuit(Vtree.balanced([1, 2]), 2), CircuitError, r"0 to 1, but a vtree"),
    (lambda: ek.random_circuit(0, 2), ek.VtreeError, "at least one variable"),
    (lambda: ek.random_circuit(2, 1).to(3), CircuitError, "array-API namespace. Got 3 instead"),
    (lambda: p2.to("nowhere"), CircuitError, "'torch', 'cpu', 'cuda', .* Got 'nowhere'"),
])  # fmt: skip


@pytest.mark.parametrize(("call", "message"), [
    ((factorized, [[0.5, 0.5], [0.5, 0.6]]), r"The table of variable 1 must be probabilities"),
    ((factorized, [[1.5, -0.5]]), r"variable 0 must be .*not negative.* sums to 1\."),
    ((ek.mixture, [factorized([[0.5, 0.5]])] * 2, [0.5, 0.4]), r"The weights of a mixture must"),
    ((gaussian_mixture, [0.5, 0.6], [0.0, 1.0], [1.0, 1.0]), r"The weights of a Gaussian"),
    ((hmm, [0.5, 0.4], np.eye(2), np.eye(2), 3), r"The initial states of an HMM .* Got \[0.5"),
    ((hmm, [0.5, 0.5], [[1, 0], [0.2, 0.2]], np.eye(2), 3), r"The transitions of an HMM"),
    ((hmm, [0.5, 0.5], np.eye(2), [[1, 0], [0.2, 0.2]], 3), r"The emissions of an HMM .* Got"),
])  # fmt: skip
def test_what_is_not_normalised_has_to_be_meant(call, message):
    make, *arguments = call
    assert_raises(CircuitError, message, make, *arguments)
    assert make(*arguments, normalized=False).n_roots == 1


def test_probabilities_may_be_rounded():
    third = [0.333333, 0.333333, 0.333334]
    assert factorized([third, [1 / 3] * 3]).n_variables == 2
    assert hmm([0.5, 0.5], np.eye(2), [third, third], length=2).n_variables == 2


PAIR = Vtree.balanced(2)
HALF = Table(np.array([[0.5, 0.5]]))


def two(root, left=HALF, right=HALF):
    return Circuit.from_blocks(PAIR, [left, right, root])


def test_sizes():
    # two sums over the three products of two tables each; one sum is a plain product
    weights = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]])
    block = Inner(3, 2, np.array([0, 0, 1]), np.array([0, 1, 1]), weights)
    tables = Table(np.array([[0.2, 0.8], [0.6, 0.4]]))
    p = two(block, tables, Table(np.array([[0.1, 0.3, 0.6], [0.0, 1.0, 0.0]])))
    assert (p.n_variables, p.cardinalities, p.n_roots) == (2, (2, 3), 2)
    assert (p.n_units, p.n_edges, p.n_parameters) == (2 + 2 + 3 + 1, 2 * 3 + 3, 4 + 6 + 3)
    assert repr(p) == "<Circuit of 2 variables: 8 units, 9 edges, 2 roots>"
    assert p.input(1).cardinality == 3
    p = gaussian_mixture([0.5, 0.5], [[0.0, 1.0], [1.0, 1.0]], [[1.0, 2.0], [1.0, 2.0]])
    assert p.cardinalities == (None, None)
    # the second variable has one distinct component, merged
    assert p.n_units == 2 + 1 + 2 + 1
    assert p.n_parameters == (2 + 4) + (1 + 2) + 2
    p = ek.random_circuit(5, 4, rng=0, density=0.5)
    q = sparsified(p)
    assert (p.n_units, p.n_edges, p.n_parameters) == (q.n_units, q.n_edges, q.n_parameters)


@given(seeds)
def test_circuits_move_there_and_back(seed):
    p = drawn_circuit(seed, n_max=3, roots=2, share_real=0.3)
    for where in ("torch", "numpy", pytest.importorskip("array_api_strict")):
        there = p.to(where)
        assert there.vtree is p.vtree
        assert (there.n_units, there.n_edges) == (p.n_units, p.n_edges)
        assert there.cardinalities == p.cardinalities
        for a, b in zip(p.blocks, there.to("numpy").blocks, strict=True):
            assert type(a) is type(b)
            for pair in zip(a.arrays, b.arrays, strict=True):
                pair = [x.toarray() if sparse.issparse(x) else x for x in pair]
                np.testing.assert_array_equal(*pair)


def test_arrays_are_where_they_were_moved(xp):
    there = ek.random_circuit(3, 2, rng=0, density=0.9)
    p = there.to(xp)
    kind = type(p.xp.ones(1))
    assert kind.__module__.partition(".")[0] == getattr(xp, "__name__", xp)
    for block in (*p.blocks, *gaussian_mixture([1.0], [0.0], [1.0]).to(xp).blocks):
        assert all(x is None or isinstance(x, kind) for x in block.arrays)
    assert p.to(xp) is p
    back = p.to("numpy")
    assert (p is there) == (back is p) == (xp == "numpy")
    assert back.to("numpy") is back
    if xp == "torch":
        assert p.to("cpu") is p
        assert there.to("cpu") is not there
        table = p.input(0).table.clone().requires_grad_()
        r = Circuit(Vtree.balanced(1), (Table(table),))
        assert r.to("torch") is r


test_blocks_are_checked = refusals(CircuitError, [
    (lambda: Circuit.from_blocks(Vtree.balanced([1, 2]), [HALF, HALF, Inner(1, 1, *[None] * 3)]),
     r"variables of a circuit are 0 to 1. Got a vtree over \[1, 2\]"),
    (lambda: Circuit.from_blocks(PAIR, [HALF, HALF]), "vtree of 3 nodes .* Got 2"),
    (lambda: two(Inner(1, 1, np.array([1]), np.array([0]), None)), r"vtree node 2, left"),
    (lambda: two(Inner(2, 2, np.array([0, 0]), np.array([-1, 0]), None)),
     r"right inputs must be in 0..0. Got -1..0"),
    (lambda: two(Inner(1, 1, None, None, np.array([[np.nan]]))), r"vtree node 2 \(variables"),
    (lambda: two(Inner(1, 1, None, None, sparse.csr_array(np.array([[np.inf]])))),
     "must be finite numbers. Got NaN or infinity"),
    (lambda: two(Inner(1, 1, None, None, None), Table(np.array([[np.inf, 1.0]]))),
     r"vtree node 0 \(variables \[0\]\)"),
    (lambda: gaussian_mixture([1.0], [np.nan], [1.0]), "Normal inputs of variable 0 need"),
    (lambda: gaussian_mixture([1.0], [0.0], [-1.0]), "variances"),
    (lambda: gaussian_mixture([np.nan], [0.0], [1.0], normalized=False), "must be finite numbers"),
])  # fmt: skip


@pytest.mark.parametrize("copied", [lambda p: p, lambda p: pickle.loads(pickle.dumps(p)), deepcopy])
def test_arrays_of_a_circuit_cannot_be_written_to(copied):
    table = np.array([[0.5, 0.5]])
    circuits = [
        two(Inner(1, 1, None, None, np.array([[2.0]])), Table(table)),
        ek.random_circuit(Vtree.balanced(4), 60, rng=0, density=0.02),
        gaussian_mixture([0.4, 0.6], [[0.0, 1.0], [2.0, 3.0]], [[1.0, 1.0], [2.0, 1.0]]),
        ek.random_circuit(3, 2, rng=0).condition({0: 1}),
    ]
    for p in map(copied, circuits):
        for block in p.blocks:
            for array in block.arrays:
                numbers = array.data if sparse.issparse(array) else array
                assert numbers is None or not numbers.flags.writeable
            assert not (isinstance(block, Inner) and block.csr.data.flags.writeable)
    table += 1.0  # what was given stays as it was, for its owner
    with pytest.raises(AttributeError):
        p.vtree = Vtree.balanced(1)
    assert p.aligned_to(p.vtree) is p
    assert p.aligned_to(Vtree.left_linear(p.n_variables)) is None
