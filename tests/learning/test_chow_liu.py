"""Trees, vtrees, circuits and parameters of Chow and Liu, against their definitions."""

from itertools import combinations
from math import log

import numpy as np
from hypothesis import example, given, settings, strategies as st

import expectedkernels as ek
from assertions import assert_close, assert_raises, refusals
from expectedkernels import em, learn_chow_liu
from expectedkernels.data.schema import Schema
from expectedkernels.learning.chow_liu import (
    ChowLiuTree,
    Forest,
    content_tree,
    decided_edges,
    flow_blocks,
    rooted,
    spanning_edges,
    tree_blocks,
    tree_of,
    tree_vtree,
)
from expectedkernels.learning.structure_search import tree_circuit
from expectedkernels.learning.training_data import Data, PairCounts, as_states, fit_weights
from learning_searches import dependent_rows as random_rows
from oracles import distribution, worlds
from strategies import domains, rngs


def random_forest(rng, n, share=1.0):
    """A rooted forest; every variable hangs below an earlier one (of a random order)."""
    order = rng.permutation(n)
    parent = [-1] * n
    for i in range(1, n):
        if rng.random() < share:
            parent[order[i]] = int(order[rng.integers(i)])
    return Forest(tuple(parent))


def joint(forest, conditionals, X):
    """The product of the conditional probabilities at complete points."""
    result = np.ones(len(X))
    for v, parent in enumerate(forest.parent):
        context = 0 if parent < 0 else X[:, parent].astype(int)
        result *= conditionals[v][context, X[:, v].astype(int)]
    return result


@given(rngs, st.integers(1, 9), st.sampled_from([1, 2, 4, 10**6]))
def test_trees_are_those_of_kruskal_and_tied_edges_are_taken_in_order(rng, n, n_values):
    weights = rng.integers(n_values, size=(n, n)).astype(float)
    weights = weights + weights.T
    tree = list(range(n))
    kruskal = []
    for i, j in sorted(combinations(range(n), 2), key=lambda e: (-weights[e], e)):
        if tree[i] != tree[j]:
            kruskal.append((i, j))
            tree = [tree[i] if t == tree[j] else t for t in tree]
    assert spanning_edges(weights) == sorted(kruskal)


@given(rngs, st.integers(1, 12), st.sampled_from([0.7, 1.0]))
def test_trees_are_rooted_at_their_centers(rng, n, share):
    forest = random_forest(rng, n, share)
    edges = [(v, p) for v, p in enumerate(forest.parent) if p >= 0]
    distance = np.full((n, n), np.inf)
    np.fill_diagonal(distance, 0.0)
    for i, j in edges:
        distance[i, j] = distance[j, i] = 1.0
    for k in range(n):
        distance = np.minimum(distance, distance[:, [k]] + distance[[k], :])
    farthest = np.where(np.isfinite(distance), distance, 0.0).max(axis=1)
    found = rooted(n, edges)
    again = [{v, p} for v, p in enumerate(found.parent) if p >= 0]
    assert sorted(map(sorted, again)) == sorted(map(sorted, edges))
    for root in found.roots:
        tree = np.flatnonzero(np.isfinite(distance[root]))
        assert root == tree[np.argmin(farthest[tree])]


def test_deep_trees_work():
    n = 2000
    forest = rooted(n, [(i, i + 1) for i in range(n - 1)], root=0)
    counts = PairCounts(np.zeros((0, 1), dtype=np.intp), [2], np.zeros(0))
    counts.cardinalities = np.full(n, 2)
    tree = ChowLiuTree(forest, counts, *tree_vtree(forest))
    tables = [np.array([[0.5, 0.5]]), *[np.array([[0.75, 0.25], [0.25, 0.75]])] * (n - 1)]
    p = ek.Circuit.from_blocks(tree.vtree, tree_blocks(tree, tables))
    assert_close(p.log_likelihood(np.zeros((1, n))), [log(0.5) + (n - 1) * log(0.75)])
    circuit = tree_circuit(tree)[0]
    n_units = circuit.n_indicators + sum(circuit.sizes()[:2])
    assert n_units == 2 * n + 2 * (n - 1) + 1 + 4 * (n - 2) + 2


@given(rngs, domains(min_variables=2), st.sampled_from([0.0, 0.5, 1.0]))
@settings(max_examples=40)
def test_both_parameter_rules_by_definition(rng, cardinalities, smoothing):
    X = random_rows(rng, cardinalities, 30)
    weights = rng.integers(1, 4, size=30).astype(float)
    tree = tree_of(PairCounts(X, cardinalities, weights), 1.0)
    flows, cpts = [], []
    for v, parent in enumerate(tree.forest.parent):
        card, n = cardinalities[v], 1 if parent < 0 else cardinalities[parent]
        count = np.zeros((n, card))
        np.add.at(count, (0 if parent < 0 else X[:, parent], X[:, v]), weights)
        beta = smoothing * weights.mean()
        flows.append(fit_weights(count, beta))
        cell = count + 4 * smoothing / (n * card)
        total = cell.sum(axis=1, keepdims=True)
        cpts.append(np.divide(cell, total, out=np.full_like(cell, 1 / card), where=total > 0))
    points = worlds(cardinalities)
    options = {"cardinalities": cardinalities, "sample_weight": weights}
    p = learn_chow_liu(X, pseudocount=smoothing, **options)
    np.testing.assert_allclose(distribution(p), joint(tree.forest, flows, points), atol=1e-14)
    q = learn_chow_liu(X, parameters="cpt", alpha=smoothing, **options)
    if tree.forest == tree_of(PairCounts(X, cardinalities, weights), smoothing).forest:
        np.testing.assert_allclose(distribution(q), joint(tree.forest, cpts, points), atol=1e-14)
    for found in (ek.properties(p), ek.properties(q)):
        assert all([found.smooth, found.deterministic, found.structured_decomposable])


def missing(rng, X, share):
    """The rows with some entries missing."""
    return np.where(rng.random(X.shape) < share, np.nan, X)


@given(rngs, domains(min_variables=2))
@example(np.random.default_rng(37), (4, 2))
@settings(max_examples=20)
def test_em_has_settled_on_data_with_missing_values(rng, cardinalities):
    X = missing(rng, random_rows(rng, cardinalities, 40), 0.2)
    X[0] = 0.0
    tree = tree_of(PairCounts(as_states(X), cardinalities, np.ones(40)), 1.0)
    complete, data = not np.isnan(X).any(), Data(Schema(tuple(cardinalities)), X)
    # a step gains at least the divergence of the two distributions; EM stops below 1e-6. With a
    # pseudocount the likelihood is not what EM maximises, and stops it when it falls
    before = ek.Circuit(tree.vtree, tuple(flow_blocks(tree, data, 0.0, 1.0, complete)))
    after = em(before, X, 1, progress=False)
    np.testing.assert_allclose(distribution(after), distribution(before), atol=1e-3)
    before = ek.Circuit(tree.vtree, tuple(flow_blocks(tree, data, 1.0, 1.0, complete)))
    learned = learn_chow_liu(X, cardinalities=cardinalities)
    np.testing.assert_allclose(distribution(learned), distribution(before), rtol=1e-12)
    assert ek.properties(learned).deterministic


def test_missing_values_cost_little():
    rng, cards = np.random.default_rng(0), [2, 3, 2, 2, 4, 2]
    truth = learn_chow_liu(random_rows(rng, cards, 60), cardinalities=cards)
    X, fresh = truth.sample(4000, rng=1), truth.sample(4000, rng=2)
    holes = missing(rng, X, 0.3)
    best = truth.log_likelihood(fresh).mean()
    for parameters in ("flows", "cpt"):
        p = learn_chow_liu(holes, parameters=parameters)
        assert best - p.log_likelihood(fresh).mean() < 0.02
    # rows with a hole are worth something
    complete = learn_chow_liu(X[~np.isnan(holes).any(axis=1)])
    p = learn_chow_liu(holes)
    assert p.log_likelihood(fresh).mean() > complete.log_likelihood(fresh).mean()


@given(rngs, st.integers(2, 5), st.integers(1, 4))
def test_decided_edges_are_those_of_all_best_trees(rng, n, n_weights):
    weights = np.triu(rng.integers(n_weights, size=(n, n)) / 4.0, 1)
    weights, ranks = weights + weights.T, rng.integers(n, size=n)
    pairs = list(combinations(range(n), 2))
    key = {e: (weights[e], *(-r for r in sorted(ranks[list(e)]))) for e in pairs}
    trees = [edges for edges in combinations(pairs, n - 1) if len(rooted(n, edges).roots) == 1]
    best = max(sorted((key[e] for e in tree), reverse=True) for tree in trees)
    same = [t for t in trees if sorted((key[e] for e in t), reverse=True) == best]
    assert set(decided_edges(weights, ranks)) == set.intersection(*map(set, same))
    order = rng.permutation(n)
    turned = decided_edges(weights[np.ix_(order, order)], ranks[order])
    again = {tuple(sorted((int(order[i]), int(order[j])))) for i, j in turned}
    assert again == set(decided_edges(weights, ranks))


def test_trees_of_copies_with_names_are_whole():
    X = np.random.default_rng(0).integers(3, size=(30, 3)).astype(float)
    X = np.column_stack([X, X[:, 0]])
    tree = content_tree(X, [3] * 4, ["b", "c", "d", "a"])
    assert_close(np.exp(tree.log_partition()), 1.0)
    order = [3, 1, 0, 2]
    turned = content_tree(X[:, order], [3] * 4, ["a", "c", "b", "d"])
    every = worlds([3] * 4)
    assert_close(turned.log_likelihood(every[:, order]), tree.log_likelihood(every))
    given = np.full((3, 4), np.nan)
    given[:, 0] = np.arange(3)
    assert (np.diag(tree.marginals(given)[3]) > 0.8).all()  # a copy is known where the other is


def test_constant_columns_are_connected_in_order():
    X = np.zeros((10, 4), dtype=int)
    X[:, 3] = np.arange(10) % 2
    for alpha in (0.0, 1.0):
        p = learn_chow_liu(X, pseudocount=0.0, alpha=alpha)
        assert ek.properties(p).deterministic
        np.testing.assert_allclose(np.exp(p.log_likelihood(X)), 0.5)
    same = learn_chow_liu(np.zeros((10, 4), dtype=int), alpha=0.0)
    assert repr(same.vtree) == "Vtree((0, (1, (2, 3))))"  # a star around variable 0


test_bad_parameters_are_refused = refusals(ek.CircuitError, [
    ({"parameters": "em"}, r"'parameters' .* must be 'flows' or 'cpt'. Got 'em' instead"),
    ({"root": "random"}, r"'root' .* must be 'center' or a variable in 0..1. Got 'random'"),
    ({"root": 2}, r"'root' .* a variable in 0..1. Got 2 instead"),
    ({"root": True}, r"'root' .* a variable in 0..1. Got True instead"),
], lambda options: learn_chow_liu([[0, 1], [1, 0]], **options))  # fmt: skip


def test_a_column_may_be_missing_altogether():
    X = np.array([[0, np.nan, 1], [1, np.nan, 0], [1, np.nan, np.nan]])
    p = learn_chow_liu(X, cardinalities=[2, 3, 2])
    np.testing.assert_allclose(p.marginals()[1], 1 / 3, rtol=1e-6)
    q = learn_chow_liu(X, cardinalities=[2, 3, 2], parameters="cpt", alpha=0.0)
    np.testing.assert_allclose(distribution(q).sum(), 1.0, rtol=1e-12)


def test_nltcs_has_the_published_size_and_likelihoods(nltcs):
    X = nltcs[0]
    circuit = tree_circuit(tree_of(PairCounts(X, [2] * 16, np.ones(len(X))), 1.0))[0]
    n_sums, n_products, n_decisions, _ = circuit.sizes()
    assert (n_sums, n_sums - n_decisions) == (43, 14)
    assert (n_products, circuit.n_indicators) == (46, 32)
    assert 2 * n_products + len(circuit.sum_of) == 166
    p = learn_chow_liu(X)
    means = [float(p.log_likelihood(rows).mean()) for rows in nltcs]
    np.testing.assert_allclose(means, [-6.7601, -6.7185, -6.7591], rtol=0, atol=5e-5)
    cpt = learn_chow_liu(X, parameters="cpt")
    np.testing.assert_allclose(cpt.log_likelihood(nltcs[2]).mean(), means[2], atol=1e-3)
    for root in range(16):
        turned = learn_chow_liu(X, root=root)
        assert turned.vtree.scope()[0] == root
        assert ek.properties(turned).deterministic


def test_too_many_states_are_refused_before_their_pairs_take_memory():
    message = r"100000 states \(20000 variables\) takes 74.5 GiB, more than 8 GiB"
    assert_raises(ek.SizeError, message, learn_chow_liu, np.zeros((2, 20_000)), cardinalities=5)
