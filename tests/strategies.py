"""Hypothesis strategies: random vtrees, circuits, kernels, points and evidence.

Kernels and evidence come as twins: the object the library takes, and what it stands for in plain
arrays, so that every fast path has something naive to be compared with.
"""

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

import expectedkernels as ek
from circuit_oracles import log_distribution
from oracles import Inner, Table, evidence_as_weights, unit_values_at, worlds
from unit_graphs import RandomGraphs

seeds = st.integers(0, 2**32 - 1)
rngs = seeds.map(np.random.default_rng)
FORMS = ("dense", "sparse", "deterministic")


@st.composite
def domains(draw, max_worlds=256, min_variables=1, max_variables=6):
    """Cardinalities from 2 to 4 of a few variables, with at most so many worlds."""
    n = draw(st.integers(min_variables, max_variables))
    cards = draw(rngs).integers(2, 5, size=n).tolist()
    while np.prod(cards) > max_worlds:
        cards.remove(max(cards))
    return tuple(cards)


@st.composite
def vtrees(draw, n_variables):
    """Vtrees over so many variables, in any order and shape."""
    rng = draw(rngs)
    return ek.Vtree.random(rng.permutation(n_variables).tolist(), rng)


def with_swaps(vtree, rng):
    """The vtree with left and right swapped at random nodes."""
    swap = rng.random(vtree.n_nodes) < 0.5
    left, right = np.where(swap, vtree.right, vtree.left), np.where(swap, vtree.left, vtree.right)
    return ek.Vtree(left, right, vtree.variable)


def numbers(rng, shape, zeros=0.0, signed=False, digits=0):
    """Numbers of different sizes, some of them zero, but never a row of zeros.

    `digits` says how many powers of ten they spread over, up and down.
    """
    x = (rng.gamma(0.7, size=shape) + 1e-3) * 10.0 ** rng.uniform(-digits, digits, size=shape)
    keep = rng.random(shape) >= zeros
    keep[np.arange(shape[0]), rng.integers(shape[1], size=shape[0])] = True
    x = np.where(keep, x, 0.0)
    return x * rng.choice([-1.0, 1.0], size=shape) if signed else x


def random_blocks(rng, vtree, cardinalities, form, roots=1, signed=False, digits=0):
    """Blocks of one of three forms, unnormalised.

    Dense: every sum takes all products. Sparse: products of any two units, sums take a few of
    them, tables have zeros. Deterministic: the units of a node have disjoint supports.
    """
    blocks = []
    for node, variable in enumerate(vtree.variable.tolist()):
        is_root = node == vtree.root
        k = roots if is_root else int(rng.integers(1, 4))
        if variable >= 0:
            card = cardinalities[variable]
            table = numbers(rng, (k, card), 0.0 if form == "dense" else 0.4, signed, digits)
            if form == "deterministic" and not is_root:
                table = table.max(axis=0) * (rng.integers(k, size=card) == np.arange(k)[:, None])
            blocks.append(Table(table))
            continue
        n_left, n_right = (blocks[c].n_units for c in (vtree.left[node], vtree.right[node]))
        if form == "dense":
            left, right = np.divmod(np.arange(n_left * n_right), n_right)
            weights = numbers(rng, (k, len(left)), 0.0, signed, digits)
        elif form == "sparse":
            m = int(rng.integers(1, 5))
            left, right = rng.integers(n_left, size=m), rng.integers(n_right, size=m)
            weights = numbers(rng, (k, m), 0.5, signed, digits)
        else:
            left, right = np.divmod(np.arange(n_left * n_right), n_right)
            weights = numbers(rng, (k, len(left)), 0.2, signed, digits)
            weights *= is_root | (rng.integers(k, size=len(left)) == np.arange(k)[:, None])
        weights = weights if form == "dense" else sparse.csr_array(weights)
        blocks.append(Inner(len(left), k, left, right, weights))
    return blocks


@st.composite
def circuits(draw, cardinalities, vtree=None, form=None, roots=1, signed=False, digits=0):
    """Circuits over a discrete domain, unnormalised, on a given vtree or on any.

    A circuit that is not signed is not zero everywhere either.
    """
    vtree = draw(vtrees(len(cardinalities))) if vtree is None else vtree
    form = draw(st.sampled_from(FORMS)) if form is None else form
    rng = draw(rngs)
    blocks = random_blocks(rng, vtree, cardinalities, form, roots, signed, digits)
    # minimised, or as drawn: with zero, equal and unused units, and sparse weights
    build = draw(st.sampled_from([ek.Circuit.from_blocks, ek.Circuit]))
    circuit = build(vtree, tuple(blocks))
    if not signed and roots == 1 and not (log_distribution(circuit) > -np.inf).any():
        dense = random_blocks(rng, vtree, cardinalities, "dense", roots, digits=digits)
        circuit = ek.Circuit.from_blocks(vtree, dense)
    return circuit


class KernelTwin(NamedTuple):
    """A kernel, and its Gram matrix by the textbook formula."""

    kernel: ek.Kernel
    naive: Callable[[Any, Any], Any]


def rate_twin(name, gamma=None):
    """A kernel of the library with a rate, one rate per variable, or (None) the default."""

    def naive(X, Y):
        rate = 1.0 / X.shape[1] if gamma is None else np.asarray(gamma)
        difference = np.abs(X[:, None, :] - Y[None, :, :])
        size = {"RBF": difference**2, "Laplacian": difference, "ExpHamming": difference > 0}[name]
        return np.exp(-(rate * size).sum(axis=2))

    return KernelTwin(getattr(ek, name)(gamma), naive)


def delta_twin():
    """The Kronecker delta."""
    return KernelTwin(ek.Delta(), lambda X, Y: np.all(X[:, None] == Y[None], axis=2) * 1.0)


def table_twin(tables):
    """A product of tables."""

    def naive(X, Y):
        X, Y = X.astype(int), Y.astype(int)
        parts = [table[np.ix_(X[:, v], Y[:, v])] for v, table in enumerate(tables)]
        return np.prod(parts, axis=0)

    return KernelTwin(ek.TableKernel(tables), naive)


def circuit_twin(root, cardinalities, vtree=None):
    """A kernel circuit, written as a graph of units over pairs of states."""

    def naive(X, Y):
        codes = X[:, None, :] * np.asarray(cardinalities) + Y[None, :, :]
        values = unit_values_at(root, codes.reshape(-1, X.shape[1]))
        return values.reshape(len(X), len(Y))

    return KernelTwin(ek.KernelCircuit(root, vtree), naive)


def sum_twin(twins, scales):
    """A weighted sum of kernels."""
    terms = [scale * twin.kernel for scale, twin in zip(scales, twins, strict=True)]

    def naive(X, Y):
        return sum(s * twin.naive(X, Y) for s, twin in zip(scales, twins, strict=True))

    return KernelTwin(reduce(add, terms), naive)


def product_twin(a, b):
    """A product of kernels."""
    return KernelTwin(a.kernel * b.kernel, lambda X, Y: a.naive(X, Y) * b.naive(X, Y))


def kernel_table(rng, card, definite, signed):
    """A table of a kernel: any matrix, or a symmetric one without negative eigenvalues."""
    if not definite:
        return numbers(rng, (card, card), 0.3, signed)
    root = numbers(rng, (card, card), 0.3, signed)
    table = root @ root.T
    return (table + table.T) / 2


class RandomKernelGraphs(RandomGraphs):
    """Draws kernel circuits along a nested vtree, sums inside."""

    def __init__(self, rng, cardinalities, definite=False, signed_tables=False):
        super().__init__(rng, cardinalities)
        self.definite, self.signed_tables = definite, signed_tables

    def leaf(self, variable):
        card = self.cardinalities[variable]
        table = kernel_table(self.rng, card, self.definite, self.signed_tables)
        return ek.kernels.kernel_input(variable, table)


@st.composite
def kernels(draw, cardinalities, vtree=None, definite=False, signed=False, depth=2):
    """Twins from the whole algebra of kernels over a discrete domain.

    Parameters
    ----------
    vtree : Vtree, optional
        For kernel circuits; without one these are left out.
    definite : bool
        Only positive definite kernels.
    signed : bool
        Whether kernels may be negative somewhere.
    depth : int
        How often sums and products may nest.
    """
    form = draw(st.sampled_from(["plain", "plain", "sum", "product"])) if depth else "plain"
    if form != "plain":
        n = draw(st.integers(2, 5)) if form == "sum" else 2
        options = {"vtree": vtree, "definite": definite, "signed": signed, "depth": depth - 1}
        twins = [draw(kernels(cardinalities, **options)) for _ in range(n)]
        if form == "product":
            return product_twin(*twins)
        return sum_twin(twins, draw(rngs).choice([1.0, 0.3, 2.0], size=n).tolist())
    names = ["RBF", "Laplacian", "ExpHamming", "Delta", "TableKernel", "KernelCircuit"]
    name = draw(st.sampled_from(names if vtree is not None else names[:-1]))
    if name == "Delta":
        return delta_twin()
    rng = draw(rngs)
    if name == "TableKernel":
        return table_twin([kernel_table(rng, card, definite, signed) for card in cardinalities])
    if name == "KernelCircuit":
        graphs = RandomKernelGraphs(rng, cardinalities, definite, signed)
        return circuit_twin(graphs.unit(vtree.to_nested()), cardinalities, vtree)
    if draw(st.booleans()):
        return rate_twin(name, rng.uniform(0.0, 1.0, size=len(cardinalities)))
    default = name == "ExpHamming" and draw(st.booleans())
    return rate_twin(name, None if default else float(rng.uniform(0.05, 2.0)))


class EvidenceTwin(NamedTuple):
    """Evidence as the library takes it, and as one array of weights per variable."""

    given: Any
    weights: list[Any]


@st.composite
def evidence(draw, circuit, rows=None, form=None):
    """Twins of possible evidence on a circuit: values with holes, sets, or soft weights."""
    form = draw(st.sampled_from(["holes", "sets", "soft"])) if form is None else form
    n = draw(st.sampled_from([1, 2, 5, 33, 40])) if rows is None else rows
    rng = draw(rngs)
    every = worlds(circuit.cardinalities)
    possible = every[log_distribution(circuit) > -np.inf]
    X = possible[rng.integers(len(possible), size=n)]
    holes = rng.random(X.shape) < rng.choice([0.2, 0.5, 0.9])
    rows = np.where(holes, np.nan, X)
    if form == "holes":
        return EvidenceTwin(rows, evidence_as_weights(rows, circuit.cardinalities))
    weights = evidence_as_weights(rows, circuit.cardinalities)
    for v, table in enumerate(weights):
        if form == "sets":
            weights[v] = np.maximum(table, rng.random(table.shape) < 0.3)
        else:
            weights[v] = np.maximum(table, rng.random(table.shape) < 0.3) * rng.gamma(
                1.0, size=table.shape
            )
    given = [w if (w != 1).any() or rng.random() < 0.5 else None for w in weights]
    if all(w is None for w in given):
        given[-1] = weights[-1]
    return EvidenceTwin(given, weights)


def points(rng, cardinalities, n):
    """So many points of a discrete domain."""
    return np.stack([rng.integers(card, size=n) for card in cardinalities], axis=1).astype(float)
