"""Random factor graphs, and what they stand for by definition."""

import numpy as np
from hypothesis import strategies as st

from expectedkernels import Factor, FactorGraph
from oracles import worlds
from strategies import rngs


def scores(model, tables=None):
    """The product of all factors at all worlds, the last variable varying fastest."""
    points = worlds(model.cardinalities).astype(int)
    values = np.ones(len(points), dtype=int)
    tables = tables or [factor.table for factor in model.factors]
    for factor, table in zip(model.factors, tables, strict=True):
        values = values * table[tuple(points[:, v] for v in factor.scope)]
    return values


def grid_scopes(rows, cols):
    """The edges of a grid."""
    across = [(i * cols + j, i * cols + j + 1) for i in range(rows) for j in range(cols - 1)]
    down = [(i * cols + j, (i + 1) * cols + j) for j in range(cols) for i in range(rows - 1)]
    return across + down


def row_by_row(model, rows, cols):
    """The log partition function of a pairwise grid, by the vector of partial sums over rows."""
    cards = model.cardinalities[:cols]
    tables = {factor.scope: factor.table for factor in model.factors}
    message, log_scale = np.ones(int(np.prod(cards))), 0.0
    for i in range(rows):
        for j in range(cols if i else 0):
            table = tables[(i - 1) * cols + j, i * cols + j]
            parts = message.reshape(int(np.prod(cards[:j])), cards[j], -1)
            message = np.stack(
                [sum(t * parts[:, a] for a, t in enumerate(column)) for column in table.T], 1
            )
        for j in range(cols - 1):
            table = tables[i * cols + j, i * cols + j + 1]
            message = message.reshape(int(np.prod(cards[:j])), cards[j], cards[j + 1], -1)
            for a, b in np.ndindex(*table.shape):
                message[:, a, b] *= table[a, b]
        log_scale += np.log(message.sum())
        message = message / message.sum()
    return log_scale


def random_table(rng, shape, zeros, alive):
    """Positive numbers of different sizes and some zeros, but not at one index."""
    table = rng.gamma(0.7, size=shape) + 1e-3
    keep = np.asarray(rng.random(shape) >= zeros)
    keep[alive] = True
    return np.where(keep, table, 0.0)


@st.composite
def factor_graphs(draw, max_worlds=200, shapes=("chain", "cycle", "grid", "loose"), zeros=True):
    """Factor graphs with at least one possible world.

    Chains, cycles and grids with cards from 2 to 4, with unary factors on some variables; or loose
    ones: any scopes from empty ones to four variables, repeated scopes, variables of one state
    and variables without factors.
    """
    rng = draw(rngs)
    shape = draw(st.sampled_from(shapes))
    n = draw(st.integers(1 if shape in ("chain", "loose") else 3, 6))
    if shape == "grid":
        n = (n // 2) * 2
        scopes = grid_scopes(2, n // 2)
    elif shape == "loose":
        sizes = rng.integers(0, min(n, 4) + 1, size=rng.integers(0, n + 3))
        scopes = [tuple(rng.permutation(n)[:size].tolist()) for size in sizes]
        scopes += [scope[::-1] for scope in scopes if rng.random() < 0.3]
    else:
        scopes = [(i, i + 1) for i in range(n - 1)] + ([(n - 1, 0)] if shape == "cycle" else [])
    scopes += [(v,) for v in range(n) if rng.random() < 0.3]
    cards = rng.integers(1 if shape == "loose" else 2, 5, size=n)
    while np.prod(cards) > max_worlds:
        cards[np.argmax(cards)] -= 1
    alive = [int(rng.integers(card)) for card in cards]
    share = float(rng.choice([0.0, 0.3, 0.7])) if zeros else 0.0
    factors = []
    for scope in rng.permutation(len(scopes)):
        chosen = scopes[scope]
        size = [int(cards[v]) for v in chosen]
        table = random_table(rng, size, share, tuple(alive[v] for v in chosen))
        factors.append(Factor(chosen, table))
    return FactorGraph(cards.tolist(), factors)


def random_chain(n, rng):
    """A chain of binary variables without zeros."""
    return FactorGraph([2] * n, [((i, i + 1), rng.random((2, 2)) + 0.05) for i in range(n - 1)])


def random_graph(rng, cards, scopes):
    """A factor graph with random tables on these scopes."""
    return FactorGraph(cards, [(s, rng.random([cards[v] for v in s])) for s in scopes])


def equal_chain(n, table=((1.0, 0.0), (0.0, 1.0))):
    """A chain of n variables with the same table on every edge."""
    return FactorGraph([len(table)] * n, [((i, i + 1), table) for i in range(n - 1)])
