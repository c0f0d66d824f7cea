"""Stein kernels by their definition, on all worlds of small models."""

import numpy as np
from hypothesis import strategies as st

from circuit_oracles import log_joint
from expectedkernels import FactorGraph
from factor_graphs import factor_graphs, scores
from oracles import conditionals, evidence_as_weights, worlds
from strategies import circuits, kernels


def moved(X, variable, card, by):
    """The points with one variable shifted cyclically."""
    Y = X.copy()
    Y[:, variable] = (Y[:, variable] + by) % card
    return Y


def stein_gram(probabilities, cards, naive):
    """The Stein kernel between all worlds: scores and differences, as they are defined.

    k_p = s' k s - s' (difference of k in its second argument) - ... + trace of both differences.
    """
    X = worlds(cards)
    index = {tuple(x): n for n, x in enumerate(X)}
    K = naive(X, X)
    total = np.zeros_like(K)
    for i, card in enumerate(cards):
        up = [index[tuple(x)] for x in moved(X, i, card, 1)]
        down = [index[tuple(x)] for x in moved(X, i, card, -1)]
        score = 1.0 - probabilities[up] / probabilities
        by_second = K - K[:, down]
        by_first = K - K[down]
        by_both = K - K[:, down] - K[down] + K[np.ix_(down, down)]
        total += score[:, None] * K * score[None, :] - score[:, None] * by_second
        total += by_both - by_first * score[None, :]
    return total


def stein_size(probabilities, cards, naive):
    """The sum of the sizes of the terms of the Stein kernel: what rounding is relative to."""
    X = worlds(cards)
    index = {tuple(x): n for n, x in enumerate(X)}
    K = np.abs(naive(X, X))
    total = np.zeros_like(K)
    for i, card in enumerate(cards):
        up = [index[tuple(x)] for x in moved(X, i, card, 1)]
        down = [index[tuple(x)] for x in moved(X, i, card, -1)]
        r = probabilities[up] / probabilities
        total += np.outer(r, r) * K + r[:, None] * K[:, down] + K[down] * r + K[np.ix_(down, down)]
    return total


def conditionals_given(rows, probabilities, cards):
    """The distributions over all worlds that collapsed rows stand for, one per row."""
    return conditionals(probabilities, evidence_as_weights(rows, cards), worlds(cards))


def gibbs_gram(rows, probabilities, cards, naive):
    """The kernel of Gibbs updates between collapsed rows: what summing out one more changes."""
    X = worlds(cards)
    K = naive(X, X)
    total = np.zeros((len(rows), len(rows)))
    before = conditionals_given(rows, probabilities, cards)
    for i in range(len(cards)):
        wider = rows.copy()
        wider[:, i] = np.nan
        change = before - conditionals_given(wider, probabilities, cards)
        total += change @ K @ change.T
    return total


@st.composite
def circuit_problems(draw):
    """A target (deterministic, positive), a compatible circuit of any kind, and a kernel."""
    model = draw(factor_graphs(max_worlds=100, zeros=False))
    p, _ = model.compile()
    if draw(st.booleans()):
        other = draw(factor_graphs(max_worlds=100, zeros=True))
        if other.cardinalities == model.cardinalities:
            return p, other.compile(p.vtree)[0], draw(kernels(p.cardinalities, p.vtree))
    q = draw(circuits(p.cardinalities, p.vtree)).normalize()
    return p, q, draw(kernels(p.cardinalities, p.vtree, signed=True))


def states_and_masses(target):
    """All worlds of a factor graph, and their probabilities."""
    circuit = target.compile()[0]
    X = worlds(target.cardinalities)
    return X, np.exp(circuit.log_likelihood(X))


def joint(target):
    """The unnormalised probabilities of all states, one axis per variable."""
    if isinstance(target, FactorGraph):
        return scores(target).reshape(target.cardinalities)
    return np.exp(log_joint(target))


def greedy(G, m):
    """The points that Stein thinning chooses, by its definition."""
    chosen = []
    for _ in range(m):
        scores = [G[j, j] / 2 + sum(G[j, s] for s in chosen) for j in range(len(G))]
        # equal rows have equal scores up to rounding: the first
        chosen.append(int(np.flatnonzero(scores <= min(scores) + 1e-12)[0]))
    return chosen


def stein_like(n, rank, rng, spread=2.0):
    """A matrix with a few large and many small rows, as ratios of probabilities give."""
    features = rng.normal(size=(n, rank)) * np.exp(spread * rng.normal(size=(n, 1)))
    return features @ features.T
