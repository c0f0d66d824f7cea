"""Random unit graphs for tests, and naive definitions to compare with."""

import numpy as np

import oracles
from expectedkernels import Categorical, Indicator, Product, Sum
from oracles import topological


def x(variable, value=None, card=2):
    """An input unit: an indicator, or probabilities that differ between variables."""
    if value is not None:
        return Indicator(variable, value, card)
    table = np.arange(1.0, card + 1.0) + variable
    return Categorical(variable, table / table.sum())


def mix(*units):
    """A sum of units with different weights."""
    return Sum(units, np.arange(1, len(units) + 1) / 4)


def pair(a, b):
    """A deterministic sum of two products over two binary variables."""
    return mix(Product([x(a, 0), x(b, 0)]), Product([x(a, 1), x(b, 1)]))


def worlds(cardinalities):
    """All points of a discrete domain, as integers."""
    return oracles.worlds(cardinalities).astype(int)


def values(root, cardinalities):
    """The values of a unit at all points."""
    return oracles.unit_values_at(root, worlds(cardinalities))


def is_deterministic(root, cardinalities):
    """Determinism by definition."""
    for unit in topological(root):
        if isinstance(unit, Sum):
            inputs = [u for u, w in zip(unit.inputs, unit.weights, strict=True) if w != 0]
            table = np.array([values(u, cardinalities) for u in inputs])
            if ((table != 0).sum(axis=0) > 1).any():
                return False
    return True


class RandomGraphs:
    """Draws units along a vtree written as nested pairs, or with random splits.

    Parameters
    ----------
    rng : numpy.random.Generator
    cardinalities : sequence of int
    zeros : float
        The share of zeros in tables.
    signed : bool
        Whether weights and tables may be negative.
    drop : float
        How often an input of a product is left out, so that sums are not smooth.
    """

    def __init__(self, rng, cardinalities, zeros=0.0, signed=False, drop=0.0):
        self.rng, self.cardinalities = rng, cardinalities
        self.zeros, self.signed, self.drop = zeros, signed, drop
        self.pool = {}

    def chance(self, share):
        return self.rng.random() < share

    def numbers(self, n):
        numbers = self.rng.uniform(0.1, 1.0, size=n)
        return numbers * self.rng.choice([-1, 1], size=n) if self.signed else numbers

    def shuffled(self, units):
        return [units[i] for i in self.rng.permutation(len(units))]

    def leaf(self, variable):
        card = self.cardinalities[variable]
        if self.chance(0.3):
            return Indicator(variable, int(self.rng.integers(card)), card)
        table = self.numbers(card) * (self.rng.random(card) >= self.zeros)
        return Categorical(variable, table)

    def unit(self, nested):
        """A unit over the variables of a nested vtree, perhaps one made before."""
        pool = self.pool.setdefault(str(nested), [])
        if not pool or self.chance(0.6):
            pool.append(self._new(nested))
        return pool[int(self.rng.integers(len(pool)))]

    def _new(self, nested):
        if isinstance(nested, int):
            if self.chance(0.3):
                return self.sum([self.leaf(nested) for _ in range(2)])
            return self.leaf(nested)
        terms = [self.product(nested) for _ in range(int(self.rng.integers(1, 4)))]
        if self.chance(0.2):
            terms.append(self.unit(nested))  # a sum within a sum
        if len(terms) == 1 and self.chance(0.5):
            return terms[0]
        return self.sum(terms)

    def sum(self, terms):
        return Sum(self.shuffled(terms), self.numbers(len(terms)))

    def product(self, nested):
        """A product along the vtree: plain, wide, nested, or wrapped."""
        factors = self.factors(nested)
        if len(factors) > 2 and self.chance(0.3):
            factors = self.shuffled(factors)  # nested across the vtree
            factors = [Product(factors[:2]), *factors[2:]]
        result = Product(self.shuffled(factors))
        if self.chance(0.1):
            result = Product([result])
        return Sum([result], self.numbers(1)) if self.chance(0.1) else result

    def factors(self, nested):
        factors = []
        for child in nested:
            if not isinstance(child, int) and self.chance(0.3):
                factors += self.factors(child)
            elif not self.chance(self.drop):
                factors.append(self.unit(child))
        return factors or [self.unit(nested[int(self.rng.integers(2))])]

    def unstructured(self, variables, depth=2):
        """A smooth and decomposable unit whose products split at random."""
        if len(variables) == 1:
            return self.leaf(variables[0])
        terms = []
        for _ in range(int(self.rng.integers(1, 3))):
            cut = int(self.rng.integers(1, len(variables)))
            order = self.shuffled(variables)
            halves = (sorted(order[:cut]), sorted(order[cut:]))
            terms.append(Product([self.unstructured(half, depth - 1) for half in halves]))
        return self.sum(terms)


def random_nested(rng, variables):
    """A random vtree as nested pairs."""
    variables = list(variables)
    if len(variables) == 1:
        return int(variables[0])
    cut = int(rng.integers(1, len(variables)))
    return random_nested(rng, variables[:cut]), random_nested(rng, variables[cut:])


def drawn(seed, **options):
    """A random graph along a vtree, with its cardinalities and the nested vtree."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    cardinalities = tuple(int(card) for card in rng.integers(2, 5, size=n))
    nested = random_nested(rng, rng.permutation(n))
    graphs = RandomGraphs(rng, cardinalities, **options)
    root = graphs.unit(nested)
    while len(root.scope) < n:  # inputs were left out: add a product that has them all
        root = graphs.sum([root, Product([graphs.leaf(v) for v in range(n)])])
    return root, cardinalities, nested


def drawn_unstructured(seed, **options):
    """A random smooth and decomposable graph, with its cardinalities."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    cardinalities = tuple(int(card) for card in rng.integers(2, 5, size=n))
    root = RandomGraphs(rng, cardinalities, **options).unstructured(list(range(n)))
    return root, cardinalities
