"""Searches for the tests of structure learning: data, single splits, structures to compare."""

import numpy as np

from expectedkernels import learn_strudel
from expectedkernels.learning.chow_liu import chow_liu_tree
from expectedkernels.learning.complete import CompleteSearch
from expectedkernels.learning.search import best_variable


def random_rows(rng, cardinalities, n):
    """Rows from a few clusters, so that there is something to find."""
    centers = [rng.integers(card, size=4) for card in cardinalities]
    cluster = rng.integers(4, size=n)
    noise = np.stack([rng.integers(card, size=n) for card in cardinalities], axis=1)
    near = np.stack([center[cluster] for center in centers], axis=1)
    return np.where(rng.random(noise.shape) < 0.7, near, noise)


def start(X, cardinalities, weights=None, alpha=1.0, beta=1.0):
    """A search on complete data, at its beginning."""
    weights = np.ones(len(X)) if weights is None else weights
    tree = chow_liu_tree(X, cardinalities, weights, alpha)
    return CompleteSearch(tree, X, weights[None, :], beta), tree


def advance(search, alpha=1.0, rng=None, edge="flow"):
    """One split, on a random variable with a generator, of a random edge if asked; whether any."""
    chosen = search.candidates.best(search.circuit)
    if chosen is not None:
        if edge == "random":
            chosen = int(rng.choice(sorted(search.candidates)))
        search.split(chosen, variable_of(search, chosen, alpha, rng))
    return chosen is not None


def variable_of(search, edge, alpha=1.0, rng=None):
    if rng is None:
        return best_variable(search, edge, alpha)
    return int(rng.choice(search.circuit.splittable_variables(edge)))


def shape(circuit):
    """The structure as a list: for every unit, in post-order, the numbers of its inputs."""
    variables = np.repeat(np.arange(len(circuit.cardinalities)), circuit.cardinalities).tolist()
    number, order, stack = {}, [], [(circuit.root, False)]
    while stack:
        unit, expanded = stack.pop()
        inputs = [circuit.input_of[edge] for edge in circuit.edges[unit]]
        if circuit.left[unit] >= 0:
            inputs = [circuit.left[unit], circuit.right[unit]]
        if expanded:
            number[unit] = len(order)
            if unit < circuit.n_indicators:
                variable = variables[unit]
                order.append((variable, unit - circuit.first[variable]))
            else:
                kind = "product" if circuit.left[unit] >= 0 else "sum"
                order.append((kind, [number[u] for u in inputs]))
        elif unit not in number:
            number[unit] = None
            stack.append((unit, True))
            stack += [(u, False) for u in reversed(inputs)]
    return order


def steps(*args, **options):
    """The circuit, and what the callback was told."""
    told = []
    return learn_strudel(*args, callback=told.append, **options), told


def assert_same_circuit(p, q):
    """Equal to the last bit."""
    assert p.vtree == q.vtree
    for a, b in zip(p.blocks, q.blocks, strict=True):
        assert type(a) is type(b)
        if hasattr(a, "table"):
            np.testing.assert_array_equal(a.table, b.table)
            continue
        np.testing.assert_array_equal(a.index("left"), b.index("left"))
        np.testing.assert_array_equal(a.index("right"), b.index("right"))
        np.testing.assert_array_equal(a.csr.toarray(), b.csr.toarray())
