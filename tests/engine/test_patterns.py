import numpy as np
from hypothesis import given, strategies as st

from expectedkernels import Vtree
from expectedkernels.engine.patterns import patterns, uniform
from unit_graphs import random_nested

seeds = st.integers(0, 2**32 - 1)


def drawn_rows(seed):
    """A vtree, codes of rows for every variable (all used), and how many codes there are."""
    rng = np.random.default_rng(seed)
    n, n_rows = int(rng.integers(1, 8)), int(rng.integers(1, 60))
    vtree = Vtree.from_nested(random_nested(rng, rng.permutation(n)))
    raw = rng.integers(int(rng.integers(1, 40)), size=(n, n_rows))
    if rng.random() < 0.2:
        raw[int(rng.integers(n))] = rng.permutation(n_rows)
    codes = [np.unique(x, return_inverse=True)[1].reshape(-1) for x in raw]
    return vtree, codes, [int(x.max()) + 1 for x in codes], n_rows


def rows_from(found, vtree, n_rows):
    """The codes of all rows, read from the root's patterns down to the leaves."""
    at = {vtree.root: np.arange(n_rows) if found.rows is None else found.rows}
    codes = {}
    for node in range(vtree.root, -1, -1):
        pattern = at.pop(node)
        assert pattern.max() < found.count[node]
        if vtree.is_leaf(node):
            codes[int(vtree.variable[node])] = pattern
            continue
        for side in ("left", "right"):
            step = getattr(found, side)[node]
            child = int(getattr(vtree, side)[node])
            at[child] = pattern if step is None else step[pattern]
            assert step is None or len(step) == found.count[node]
    return [codes[v] for v in range(vtree.n_variables)]


@given(seeds)
def test_rows_can_be_read_back(seed):
    vtree, codes, counts, n_rows = drawn_rows(seed)
    found = patterns(vtree, codes, counts)
    for actual, expected in zip(rows_from(found, vtree, n_rows), codes, strict=True):
        np.testing.assert_array_equal(actual, expected)


@given(seeds)
def test_counts_are_minimal(seed):
    vtree, codes, counts, _ = drawn_rows(seed)
    found = patterns(vtree, codes, counts)
    for node in range(vtree.n_nodes):
        restricted = np.stack([codes[v] for v in vtree.scope(node)])
        assert found.count[node] == len(np.unique(restricted, axis=1).T)


@given(seeds)
def test_uniform_means_one_pattern_per_row_in_order(seed):
    vtree, codes, counts, n_rows = drawn_rows(seed)
    found = patterns(vtree, codes, counts)
    if found.is_uniform:
        assert set(found.count) == {n_rows}
        assert all((x == np.arange(n_rows)).all() for x in codes)


def test_uniform_patterns():
    vtree = Vtree.balanced(3)
    found = uniform(vtree, 4)
    assert found.is_uniform
    assert found.count == [4] * 5
    for codes in rows_from(found, vtree, 4):
        assert codes.tolist() == [0, 1, 2, 3]
    codes = [np.arange(4)] * 3
    assert patterns(vtree, codes, [4] * 3).is_uniform
    assert not patterns(vtree, [codes[0], codes[0], codes[0][::-1]], [4] * 3).is_uniform


def test_equal_rows_are_computed_once():
    vtree = Vtree.right_linear(3)
    codes = [np.zeros(1000, dtype=np.intp)] * 3
    found = patterns(vtree, codes, [1, 1, 1])
    assert found.count == [1] * 5
    assert found.rows.tolist() == [0] * 1000


def test_many_codes_of_many_rows():
    # the number of pairs of codes is far beyond the number of rows
    rng = np.random.default_rng(0)
    codes = [rng.permutation(5000) // 2 for _ in range(4)]
    vtree = Vtree.balanced(4)
    found = patterns(vtree, codes, [2500] * 4)
    for actual, expected in zip(rows_from(found, vtree, 5000), codes, strict=True):
        np.testing.assert_array_equal(actual, expected)


@given(seeds)
def test_first_rows_with_the_same_pattern(seed):
    vtree, codes, counts, n_rows = drawn_rows(seed)
    found = patterns(vtree, codes, counts).first_rows(vtree)
    assert found.shape == (vtree.n_nodes, n_rows)
    for node in range(vtree.n_nodes):
        below = np.stack([codes[v] for v in vtree.scope(node)], axis=1).tolist()
        assert found[node].tolist() == [below.index(row) for row in below]
