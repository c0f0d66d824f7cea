"""What the tests of files share: random block circuits, their values, and damaged files."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import strategies as st
from scipy import sparse

from expectedkernels import Circuit, Vtree, load, save
from oracles import Inner, Real, Table


def _worlds(cardinalities):
    """All joint states, one per row, the last variable varying fastest."""
    return np.array(list(itertools.product(*map(range, cardinalities))))


def _values(circuit):
    """The values of the first root at all joint states, by enumeration."""
    worlds = _worlds(circuit.cardinalities)
    values = []
    for node, block in enumerate(circuit.blocks):
        if isinstance(block, Table):
            values.append(block.table[:, worlds[:, circuit.vtree.variable[node]]])
        else:
            a = values[circuit.vtree.left[node]][block.index("left")]
            b = values[circuit.vtree.right[node]][block.index("right")]
            values.append(block.csr @ (a * b))
    return values[-1][0]


def _total(circuit):
    """The sum of the first root over all joint states, by a pass over the blocks."""
    totals = []
    for node, block in enumerate(circuit.blocks):
        if isinstance(block, Table):
            totals.append(block.table.sum(axis=1))
        else:
            a = totals[circuit.vtree.left[node]][block.index("left")]
            b = totals[circuit.vtree.right[node]][block.index("right")]
            totals.append(block.csr @ (a * b))
    return float(totals[-1][0])


def _random_numbers(rng, shape, signed):
    """Numbers with a good share of zeros and ones."""
    numbers = rng.choice([0.0, 1.0, np.nan], p=[0.25, 0.15, 0.6], size=shape)
    numbers = np.where(np.isnan(numbers), rng.gamma(0.5, size=shape) + 1e-6, numbers)
    return numbers * rng.choice([-1.0, 1.0], size=shape) if signed else numbers


def _random_index(rng, n_products, n_units):
    if n_products == n_units and rng.random() < 0.5:
        return None
    return rng.integers(n_units, size=n_products)


def _random_blocks(rng, vtree, binary, signed, real, roots):
    n_units = rng.integers(1, 4, size=vtree.n_nodes)
    n_units[-1] = roots
    blocks = []
    for node in range(vtree.n_nodes):
        k = int(n_units[node])
        if vtree.is_leaf(node):
            if real and rng.random() < 0.5:
                m = int(rng.integers(1, 4))
                normal = rng.normal(size=m), rng.gamma(2.0, size=m)
                blocks.append(Real(_random_numbers(rng, (k, m), signed), *normal))
            else:
                card = 2 if binary else int(rng.integers(1, 4))
                blocks.append(Table(_random_numbers(rng, (k, card), signed)))
            continue
        form = rng.choice(["pass", "dense", "sparse"])
        n_products = k if form == "pass" else int(rng.integers(1, 5))
        left = _random_index(rng, n_products, n_units[vtree.left[node]])
        right = _random_index(rng, n_products, n_units[vtree.right[node]])
        weights = _random_numbers(rng, (k, n_products), signed)
        if form == "sparse":
            weights = sparse.csr_array(weights)
        blocks.append(Inner(n_products, k, left, right, None if form == "pass" else weights))
    return blocks


@st.composite
def _circuits(draw, binary=False, signed=False, real=False, roots=1, minimised=True):
    """Circuits with few variables, any mixture of block forms, and zeros in all places."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    vtree = Vtree.random(rng.permutation(draw(st.integers(1, 6))).tolist(), rng)
    blocks = _random_blocks(rng, vtree, binary, signed, real, roots)
    return Circuit.from_blocks(vtree, blocks) if minimised else Circuit(vtree, tuple(blocks))


def _normalised(circuit):
    """The circuit with its root divided by its total."""
    *blocks, root = circuit.blocks
    total = _total(circuit)
    if isinstance(root, Table):
        root = Table(root.table / total)
    else:
        root = Inner(root.n_products, 1, root.left, root.right, root.csr.toarray() / total)
    return Circuit(circuit.vtree, (*blocks, root))


def _chain(n):
    """A circuit on a right-linear vtree over n binary variables, normalised."""
    vtree = Vtree.right_linear(n)
    rng = np.random.default_rng(0)
    p = rng.uniform(0.1, 0.9, size=(n, 2))
    blocks = []
    for node in range(vtree.n_nodes):
        if vtree.is_leaf(node):
            q = p[vtree.variable[node]]
            blocks.append(Table(np.stack([q, 1 - q], axis=1)))
        else:
            weights = np.array([[0.25, 0.75], [0.5, 0.5]])
            blocks.append(Inner(2, 2, np.array([0, 1]), np.array([1, 0]), weights))
    blocks[-1] = Inner(2, 1, np.array([0, 1]), np.array([1, 0]), np.array([[0.25, 0.75]]))
    return Circuit.from_blocks(vtree, blocks)


@pytest.fixture(scope="session")
def values():
    return _values


@pytest.fixture(scope="session")
def total():
    return _total


@pytest.fixture(scope="session")
def circuits():
    return _circuits


@pytest.fixture(scope="session")
def normalised():
    return _normalised


@pytest.fixture(scope="session")
def chain():
    return _chain


@pytest.fixture
def changed_arrays(tmp_path):
    """Gives the arrays in the file of a circuit, and a loader of changed ones."""
    path = tmp_path / "changed.npz"

    def arrays_of(circuit):
        save(circuit, path)
        with np.load(path) as file:
            found = dict(file)

        def reload(**changes):
            new = {name: array for name, array in (found | changes).items() if array is not None}
            with open(path, "wb") as file:
                np.savez(file, **new)
            return load(path)

        return found, reload

    return arrays_of


@pytest.fixture
def write(tmp_path):
    """Writes lines to a file of a given name in a new folder, and returns its path."""

    def writer(name, lines):
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n")
        return path

    return writer
