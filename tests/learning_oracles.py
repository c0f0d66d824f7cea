"""Naive definitions for learning: everything anew after every split, unit by unit, row by row."""

from math import log

import numpy as np

from oracles import topological


def mutual_information(X, cardinalities, weights, alpha, i, j):
    """The smoothed mutual information of one pair of variables, from its definition."""
    mass, total = 4 * alpha, sum(weights)
    joint = np.full(
        (cardinalities[i], cardinalities[j]), mass / cardinalities[i] / cardinalities[j]
    )
    for row, w in zip(X, weights, strict=True):
        joint[row[i], row[j]] += w
    joint /= total + mass
    alone_i, alone_j = joint.sum(axis=1), joint.sum(axis=0)
    return sum(
        p * log(p / (alone_i[a] * alone_j[b])) for (a, b), p in np.ndenumerate(joint) if p > 0
    )


class Unit:
    """A unit of a logical circuit: an indicator (variable, state), a product, or a sum."""

    def __init__(self, kind, inputs=(), literal=None):
        self.kind, self.inputs, self.literal = kind, list(inputs), literal


def tree_circuit(parent, cardinalities):
    """The circuit of a rooted forest, one sum per variable and state of its parent."""
    children = [[v for v, p in enumerate(parent) if p == u] for u in range(len(parent))]
    indicators = [
        [Unit("indicator", literal=(v, a)) for a in range(card)]
        for v, card in enumerate(cardinalities)
    ]

    def circuits(v):
        n = 1 if parent[v] < 0 else cardinalities[parent[v]]
        if not children[v]:
            return [Unit("sum", indicators[v]) for _ in range(n)]
        below = group([circuits(u) for u in children[v]])
        return [
            Unit("sum", [Unit("product", pair) for pair in zip(indicators[v], below, strict=True)])
            for _ in range(n)
        ]

    def group(lists):
        if len(lists) == 1:
            return lists[0]
        half = len(lists) // 2
        pairs = zip(group(lists[:half]), group(lists[half:]), strict=True)
        return [Unit("sum", [Unit("product", pair)]) for pair in pairs]

    (root,) = group([circuits(v) for v, p in enumerate(parent) if p < 0])
    return root


def shape(root):
    """The structure as a list: for every unit, in order, the numbers of its inputs."""
    order = topological(root)
    number = {unit: i for i, unit in enumerate(order)}
    return [unit.literal or (unit.kind, [number[u] for u in unit.inputs]) for unit in order]


def flows(root, X):
    """For every edge (sum, input) which rows use it."""
    order, value = topological(root), {}
    for unit in order:
        if unit.kind == "indicator":
            value[unit] = X[:, unit.literal[0]] == unit.literal[1]
        else:
            combine = np.logical_and if unit.kind == "product" else np.logical_or
            value[unit] = combine.reduce([value[u] for u in unit.inputs])
    flow, edges = dict.fromkeys(order, np.zeros(len(X), dtype=bool)) | {root: value[root]}, {}
    for unit in reversed(order):
        for u in unit.inputs:
            used = flow[unit] & value[u] if unit.kind == "sum" else flow[unit]
            if unit.kind == "sum":
                edges[unit, u] = used
            flow[u] = flow[u] | used
    return edges


class NaiveStrudel:
    """Structure search by the book, on complete data."""

    def __init__(self, parent, cardinalities, X, weights, alpha=1.0):
        self.root = tree_circuit(parent, cardinalities)
        self.cardinalities, self.X, self.weights = cardinalities, X, weights
        self.alpha = alpha

    def literals(self):
        """The indicators below every unit."""
        below = {}
        for unit in topological(self.root):
            below[unit] = frozenset([unit.literal] if unit.literal else ()).union(
                *(below[u] for u in unit.inputs)
            )
        return below

    def splittable(self, below):
        """The variables with at least two states in a set of indicators."""
        variables = [v for v, _ in below]
        return sorted(v for v in set(variables) if variables.count(v) > 1)

    def step(self):
        """Make the best split; whether there was one."""
        below, edges = self.literals(), flows(self.root, self.X)
        sums = (unit for unit in topological(self.root) if unit.kind == "sum")
        pairs = ((unit, u) for unit in sums for u in unit.inputs if u.kind == "product")
        candidates = [pair for pair in pairs if self.splittable(below[pair[1]])]
        if not candidates:
            return False
        size = [self.weights[edges[pair]].sum() for pair in candidates]
        best = [pair for pair, s in zip(candidates, size, strict=True) if s == max(size)]
        unit, product = best[0]
        variables = self.splittable(below[product])
        used = edges[unit, product]
        given = self.X[used], self.cardinalities, self.weights[used], self.alpha
        score = {
            v: sum(mutual_information(*given, v, u) for u in variables if u != v) for v in variables
        }
        top = max(score.values())
        self.split(unit, product, next(v for v in variables if score[v] >= top - 1e-12))
        return True

    def split(self, unit, product, variable):
        """Replace a product by its restrictions to the states of a variable."""
        card = self.cardinalities[variable]
        new = []
        for state in (1, 0) if card == 2 else range(card):
            memo = {}
            parts = [restrict(u, variable, state, memo) for u in product.inputs]
            if None not in parts:
                new.append(Unit("product", parts))
        unit.inputs = new + [u for u in unit.inputs if u is not product]

    def counts(self):
        """The number of sums that are not over indicators, and of their inputs."""
        sums = [u for u in topological(self.root) if u.kind == "sum"]
        sums = [u for u in sums if u.inputs[0].kind == "product"]
        return len(sums), sum(len(u.inputs) for u in sums)

    def log_likelihoods(self, pseudocount):
        """The log-likelihood of every row with weights in closed form."""
        edges, result = flows(self.root, self.X), np.zeros(len(self.X))
        for unit in topological(self.root):
            if unit.kind == "sum" and len(unit.inputs) > 1:
                size = [self.weights[edges[unit, u]].sum() for u in unit.inputs]
                k, total = len(unit.inputs), sum(size) + pseudocount
                for u, s in zip(unit.inputs, size, strict=True):
                    theta = (s + pseudocount / k) / total if total else 1 / k
                    if theta > 0:
                        result[edges[unit, u]] += log(theta)
        return result


def restrict(unit, variable, state, memo):
    """The unit given the state of a variable, sharing what does not change; None if empty."""
    if unit in memo:
        return memo[unit]
    if unit.kind == "indicator":
        v, a = unit.literal
        memo[unit] = None if v == variable and a != state else unit
        return memo[unit]
    parts = [restrict(u, variable, state, memo) for u in unit.inputs]
    if unit.kind == "product":
        result = None if None in parts else unit if parts == unit.inputs else Unit("product", parts)
    else:
        parts = [u for u in parts if u is not None]
        if not parts:
            result = None
        elif len(parts) == 1 and parts[0].kind == "indicator":
            result = parts[0]
        else:
            result = unit if parts == unit.inputs else Unit("sum", parts)
    memo[unit] = result
    return result
