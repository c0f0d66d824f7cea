"""Random Bayesian networks, and what they stand for by definition: sums over all states."""

from itertools import combinations
from math import factorial

import numpy as np

import expectedkernels as ek
from factor_graphs import scores as joint
from oracles import with_holes, worlds


def random_tables(rng, parents, cards, zeros=0.2):
    """Conditional distributions with some zeros."""
    found = []
    for v, above in enumerate(parents):
        table = rng.dirichlet(np.ones(cards[v]), size=[cards[u] for u in above])
        keep = rng.random(table.shape) >= zeros
        keep[..., rng.integers(cards[v])] = True
        table = np.where(keep, table, 0.0)
        found.append(table / table.sum(axis=-1, keepdims=True))
    return found


def random_network(rng, n=None, least=1, zeros=0.2):
    """A network of 2 to 5 variables with up to three states and parents."""
    n = int(rng.integers(2, 6)) if n is None else n
    cards = rng.integers(least, 4, size=n).tolist()
    parents = [rng.permutation(v)[: rng.integers(0, 4)].tolist() for v in range(n)]
    order = rng.permutation(n)  # parents need not come first
    place = np.argsort(order).tolist()
    shuffled = [[place[u] for u in parents[v]] for v in order]
    cards = [cards[v] for v in order]
    return ek.BayesianNetwork(shuffled, random_tables(rng, shuffled, cards, zeros))


def incomplete(network, n, share, seed=0):
    """Samples with a share of their values missing."""
    return with_holes(network.sample(n, rng=seed), share, seed)


def natural(network, actions):
    """The joint distribution when others see a variable in a state, by definition."""
    points = worlds(network.cardinalities).astype(int)
    values = np.ones(len(points))
    for v, (above, table) in enumerate(zip(network.parents, network.cpts, strict=True)):
        index = [np.full(len(points), actions[u]) if u in actions else points[:, u] for u in above]
        values = values * table[(*index, points[:, v])]
    return values


def evidence_like(model, weights):
    """How far every row of weights of states allows every world, (rows, worlds)."""
    points = worlds(model.cardinalities).astype(int)
    return np.prod([own[:, points[:, v]] for v, own in enumerate(weights)], axis=0)


def enumerated_counts(model, weights, sample_weight):
    """The log-likelihoods of rows, and the expected counts of all tables."""
    points = worlds(model.cardinalities).astype(int)
    like = evidence_like(model, weights) * joint(model)
    with np.errstate(divide="ignore"):
        logs = np.log(like.sum(axis=1))
    total = sample_weight @ (like / like.sum(axis=1, keepdims=True))
    counts = []
    for factor in model.factors:
        counts.append(np.zeros(factor.table.shape))
        np.add.at(counts[-1], tuple(points[:, v] for v in factor.scope), total)
    return logs, counts


def shapley(value, players):
    """The Shapley values of a set function, by definition."""
    n, found = len(players), {}
    for i in players:
        others = [j for j in players if j != i]
        found[i] = sum(
            factorial(r) * factorial(n - r - 1) / factorial(n) * (value({*s, i}) - value({*s}))
            for r in range(n)
            for s in combinations(others, r)
        )
    return found
