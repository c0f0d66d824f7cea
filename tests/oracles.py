"""Naive definitions to compare with: enumeration of all worlds, and Algorithm 1 unit by unit."""

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import exp, log, log1p
from pathlib import Path

import numpy as np

import expectedkernels as ek
from expectedkernels import Product, Sum

Table, _, Inner = (type(block) for block in ek.factorized([[0.5, 0.5]] * 2).blocks)
Real = type(ek.gaussian_mixture([1.0], [[0.0]], [[1.0]]).blocks[0])
"""The blocks that `Circuit.from_blocks` takes: tables and normals at leaves, and others."""


def topological(root):
    """The units below a root, inputs before the units that use them, the root last."""
    order, done, stack = [], set(), [root]
    while stack:
        unit = stack[-1]
        waiting = [] if unit in done else [u for u in getattr(unit, "inputs", ()) if u not in done]
        if waiting:
            stack += reversed(waiting)
            continue
        stack.pop()
        if unit not in done:
            done.add(unit)
            order.append(unit)
    return order


def with_holes(X, share=0.5, seed=0):
    """The rows with a share of their values missing."""
    X = np.array(X, dtype=float)
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


def worlds(cardinalities):
    """All points of a discrete domain, one per row, the last variable varying fastest."""
    return np.array(list(product(*map(range, cardinalities))), dtype=float)


EXACT = np.vectorize(Fraction, otypes=[object])
"""Arrays of numbers as fractions, with which sums and products are exact."""


def log_of(fraction):
    """The log of a fraction of any size."""
    return log(fraction.numerator) - log(fraction.denominator) if fraction else -np.inf


def values_at(circuit, X, number=np.asarray):
    """The values of a circuit's roots at complete points, (rows, roots), by definition."""
    circuit = circuit.to("numpy")
    values = []
    for node, block in enumerate(circuit.blocks):
        column = X[:, circuit.vtree.variable[node]]
        if isinstance(block, Table):
            values.append(number(block.table)[:, column.astype(int)].T)
        elif isinstance(block, Real):
            square = (column[:, None] - block.mean) ** 2 / block.variance
            densities = np.exp(-0.5 * square) / np.sqrt(2 * np.pi * block.variance)
            values.append(densities @ block.weights.T)
        else:
            left = values[circuit.vtree.left[node]][:, block.index("left")]
            right = values[circuit.vtree.right[node]][:, block.index("right")]
            values.append(left * right @ number(block.csr.toarray()).T)
    return values[-1]


def unit_values_at(root, X, number=np.asarray):
    """The values of a unit graph over discrete variables at complete points, by definition."""
    values = {}
    for unit in topological(root):
        if isinstance(unit, Sum):
            weights = number(unit.weights)
            terms = [w * values[u] for w, u in zip(weights, unit.inputs, strict=True)]
            values[unit] = np.sum(terms, axis=0)
        elif isinstance(unit, Product):
            values[unit] = np.prod([values[u] for u in unit.inputs], axis=0)
        else:
            values[unit] = number(unit.probs)[X[:, unit.variable].astype(int)]
    return values[root]


def distribution(circuit):
    """The values of the first root at all worlds."""
    return values_at(circuit, worlds(circuit.cardinalities))[:, 0]


def evidence_weights(weights, X):
    """How far every row of evidence allows every point, (rows, points).

    `weights` holds one (rows, cardinality) array per variable.
    """
    total = 1.0
    for v, table in enumerate(weights):
        total = total * table[:, X[:, v].astype(int)]
    return total


def conditionals(values, weights, X):
    """The conditional distributions given rows of evidence, (rows, points)."""
    joint = evidence_weights(weights, X) * values
    return joint / joint.sum(axis=1, keepdims=True)


def evidence_as_weights(rows, cardinalities):
    """Evidence with NaN as one (rows, cardinality) array of weights per variable."""
    tables = []
    for column, card in zip(np.atleast_2d(rows).T, cardinalities, strict=True):
        known = column[:, None] == np.arange(card)
        tables.append(np.where(np.isnan(column)[:, None], 1.0, known))
    return tables


def completions(circuit, rows):
    """All points, and their probabilities given rows with NaN, (rows, points)."""
    points = worlds(circuit.cardinalities)
    evidence = evidence_as_weights(rows, circuit.cardinalities)
    return points, conditionals(distribution(circuit), evidence, points)


@dataclass(eq=False, slots=True)
class Input:
    """An input unit: a value for every state of a variable."""

    variable: int
    table: list


@dataclass(eq=False, slots=True)
class Decision:
    """A sum of products of two units each: elements (first, second, weight)."""

    elements: list = field(default_factory=list)


def units_of(circuit):
    """The roots of a circuit (over discrete variables) as graphs of inputs and decisions."""
    circuit = circuit.to("numpy")
    units = []
    for node, block in enumerate(circuit.blocks):
        if isinstance(block, Table):
            variable = int(circuit.vtree.variable[node])
            units.append([Input(variable, row.tolist()) for row in block.table])
            continue
        left, right = units[circuit.vtree.left[node]], units[circuit.vtree.right[node]]
        pairs = [
            (left[i], right[j])
            for i, j in zip(block.index("left"), block.index("right"), strict=True)
        ]
        units.append(
            [
                Decision([(*pair, w) for pair, w in zip(pairs, row, strict=True) if w])
                for row in block.csr.toarray().tolist()
            ]
        )
    return units[-1]


def read_psdd_units(path):
    """The root of a `.psdd` file, each record read as it stands."""
    units = {}
    root = None
    for line in Path(path).read_text().splitlines():
        kind, *words = line.split() or ["c"]
        if kind in ("c", "psdd"):
            continue
        if kind == "L":
            literal = int(words[2])
            root = Input(abs(literal) - 1, [0.0, 1.0] if literal > 0 else [1.0, 0.0])
        elif kind == "T":
            logs = [float(word) for word in words[3:]]
            if len(logs) == 1:
                logs = [log1p(-exp(logs[0])), logs[0]]
            root = Input(int(words[2]) - 1, [exp(x) for x in logs])
        else:
            elements = zip(words[3::3], words[4::3], words[5::3], strict=True)
            root = Decision([(units[a], units[b], exp(float(w))) for a, b, w in elements])
        units[words[0]] = root
    return root


def expected_kernel_by_units(p, q, tables):
    """E[k(x, x')] for a product kernel by the memoised recursion over pairs of units.

    The two circuits (see `units_of` and `read_psdd_units`) decompose their variables in the same
    way, left and right the same.

    Parameters
    ----------
    p, q : Input or Decision
    tables : sequence of nested lists
        The kernel of every variable, `tables[v][a][b]`.
    """
    memo = {}

    def pair(a, b):
        if (a, b) not in memo:
            if isinstance(a, Input):
                k = tables[a.variable]
                values = (
                    (x, y, k[i][j]) for i, x in enumerate(a.table) for j, y in enumerate(b.table)
                )
                memo[a, b] = sum(x * y * value for x, y, value in values)
            else:
                memo[a, b] = sum(
                    v * w * pair(left, other_left) * pair(right, other_right)
                    for left, right, v in a.elements
                    for other_left, other_right, w in b.elements
                )
        return memo[a, b]

    return pair(p, q)
