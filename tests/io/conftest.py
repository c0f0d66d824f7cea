"""What the tests of files share: random block circuits, their values, and damaged files."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from circuit_oracles import random_blocks
from expectedkernels import Circuit, Vtree, load, save
from oracles import Inner, Table, distribution


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


@st.composite
def _circuits(draw, binary=False, signed=False, real=False, roots=1, minimised=True):
    """Circuits with few variables, any mixture of block forms, and zeros and ones in all places."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(1, 6))
    vtree = Vtree.random(rng.permutation(n).tolist(), rng)
    cards = [2 if binary else int(rng.integers(1, 4)) for _ in range(n)]
    cards = [None if real and rng.random() < 0.5 else card for card in cards]
    decades = float(rng.choice([0.0, 3.0]))  # all numbers are ones, or of different sizes
    options = {"zeros": 0.25, "signed": signed, "decades": decades}
    blocks = random_blocks(rng, vtree, cards, roots=roots, **options)
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
    return distribution


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
