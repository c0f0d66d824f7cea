import numpy as np
import pytest
from hypothesis import given, strategies as st

from assertions import assert_close, assert_raises
from expectedkernels import DataError, EvidenceError, Vtree
from expectedkernels.data.evidence import (
    FEW_ROWS,
    Evidence,
    as_evidence,
    as_points,
    is_batch,
    patterns,
    uniform,
)
from unit_graphs import random_nested

seeds = st.integers(0, 2**32 - 1)
nan = np.nan
DOMAINS = (2, 3, None)


def statements(evidence, variable):
    """What every row says of a variable: weights of its states, or its value."""
    column = evidence.column(variable)
    return (column.values if column.weights is None else column.weights)[column.codes]


def assert_says(evidence, *expected):
    for variable, rows in enumerate(expected):
        np.testing.assert_array_equal(statements(evidence, variable), np.asarray(rows, float))


def test_rows():
    rows = np.array([[0, nan, 1.5], [nan, 2, nan], [1, 0, -2.0]])
    expected = ([[1, 0], [1, 1], [0, 1]], [[1, 1, 1], [0, 0, 1], [1, 0, 0]], [1.5, nan, -2.0])
    for form in (rows, rows.tolist()):
        read = as_evidence(form, DOMAINS)
        assert read.n_rows == 3
        assert_says(read, *expected)
        assert is_batch(form)
    assert as_evidence(read, DOMAINS) is read
    assert is_batch(read)
    assert_says(Evidence(DOMAINS, columns=[read.column(v) for v in range(3)]), *expected)
    assert as_evidence(np.empty((0, 3)), DOMAINS).n_rows == 0
    for form in (np.array([1, nan, 0.5]), [1, nan, 0.5], (1, nan, 0.5)):
        assert_says(as_evidence(form, DOMAINS), [[0, 1]], [[1, 1, 1]], [0.5])
        assert not is_batch(form)
    assert not is_batch(None)
    for form in (np.array([[True, False]]), np.array([[1, 0]], dtype=np.int8)):
        assert_says(as_evidence(form, (2, 2)), [[0, 1]], [[1, 0]])


def test_lists_of_weights():
    weights = [np.array([[0.5, 2.0], [0.0, 1.0]]), None, np.array([[1.5], [nan]])]
    lists = [[[0.5, 2.0], [0.0, 1.0]], None, [1.5, nan]]
    for form in (weights, lists):
        assert_says(as_evidence(form, DOMAINS), weights[0], np.ones((2, 3)), [1.5, nan])
        assert is_batch(form)
    assert is_batch([None] * 3)
    assert as_evidence([None] * 3, DOMAINS).n_rows == 1


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        ({0: 1, 1: {0, 2}, 2: 3.5}, ([[0, 1]], [[1, 0, 1]], [3.5])),
        ({1: [0.1, 0.9, 0.0]}, ([[1, 1]], [[0.1, 0.9, 0.0]], [nan])),
        ({np.int64(0): frozenset([1]), 1: np.float64(2)}, ([[0, 1]], [[0, 0, 1]], [nan])),
        ({0: {0, 1}, 2: {1.5}}, ([[1, 1]], [[1, 1, 1]], [1.5])),
        ({}, ([[1, 1]], [[1, 1, 1]], [nan])),
        ({0: nan, 1: nan, 2: nan}, ([[1, 1]], [[1, 1, 1]], [nan])),
    ],
)
def test_mappings(evidence, expected):
    assert_says(as_evidence(evidence, DOMAINS), *expected)
    assert not is_batch(evidence)


@given(seeds)
def test_rows_and_weights_say_the_same(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 50))
    domains = (2, 4, 3)
    rows = np.stack([rng.integers(card, size=n) for card in domains], axis=1).astype(float)
    rows[rng.random(rows.shape) < 0.4] = nan
    weights = [
        ((np.arange(card) == rows[:, [v]]) | np.isnan(rows[:, [v]])).astype(float)
        for v, card in enumerate(domains)
    ]
    chosen = slice(n // 4, n // 4 + 3)
    for form in (rows, weights):
        evidence = as_evidence(form, domains)
        for variable, expected in enumerate(weights):
            column = evidence.column(variable)
            assert column.n_statements == len(np.unique(expected, axis=0))
            np.testing.assert_array_equal(column.weights[column.codes], expected)
            np.testing.assert_array_equal(evidence.state_weights([variable])[0], expected)
            part = evidence.rows(chosen)
            assert part.n_rows == len(expected[chosen])
            np.testing.assert_array_equal(statements(part, variable), expected[chosen])


@given(seeds)
def test_real_columns(seed):
    rng = np.random.default_rng(seed)
    x = rng.choice([-1.5, 0.0, 2.5, nan], size=(int(rng.integers(1, 40)), 1))
    for form in (x, [x], [x[:, 0], None]):
        domains = (None,) * (2 if isinstance(form, list) and len(form) == 2 else 1)
        evidence = as_evidence(form, domains)
        column = evidence.column(0)
        np.testing.assert_array_equal(column.values[column.codes], x[:, 0])
        assert column.n_statements == len(np.unique(x))
        assert np.isnan(column.values).sum() <= 1
        np.testing.assert_array_equal(statements(evidence.rows(slice(0, 2)), 0), x[:2, 0])


def test_few_rows_are_taken_as_they_are_and_many_by_pattern():
    vtree = Vtree.balanced(2)
    few = as_evidence(np.zeros((FEW_ROWS, 2)), (2, 2)).patterns(vtree)
    assert few.is_uniform
    assert few.count == [FEW_ROWS] * 3
    many = as_evidence(np.zeros((FEW_ROWS + 1, 2)), (2, 2)).patterns(vtree)
    assert many.count == [1, 1, 1]


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ([[0, 1]], r"shape \(rows, 3\): one column per variable. Got shape \(1, 2\)"),
        ([0, 1, 0.0, 1], r"Got shape \(1, 4\)"),
        (np.zeros((1, 1, 3)), r"Got shape \(1, 1, 3\)"),
        (None, r"Got shape \(\)"),
        ([[2, 0, 0.0]], r"on variable 0 must be integers in 0..1. Got 2.0 in row 0"),
        ([[0, 0, 0.0], [0, 0.5, 0.0]], r"variable 1 must be integers in 0..2. Got 0.5 in row 1"),
        ([[-1, 0, 0.0]], "Got -1.0 in row 0"),
        ([[0, np.inf, 0.0]], r"variable 1 must be integers .* Got inf"),
        ([[0, 0, np.inf]], "variable 2 must be finite. Got inf in row 0"),
        ({3: 0}, r"an int in 0..2. Got 3 instead"),
        ({-1: 0}, r"an int in 0..2. Got -1 instead"),
        ({"a": 0}, r"an int in 0..2. Got 'a' instead"),
        ({0: 2}, r"A state of variable 0 is an int in 0..1. Got 2 instead"),
        ({1: {0, 3}}, r"A state of variable 1 is an int in 0..2. Got 3 instead"),
        ({2: {0.5, 1.5}}, r"real variable 2 must be one finite value. Got \{"),
        ({2: [0.5, 1.5]}, r"real variable 2 must be one finite value. Got \[0.5"),
        ({2: np.inf}, "real variable 2 must be one finite value"),
        ({0: [0.5, 0.25, 0.25]}, r"weights of variable 0 .* \(rows, 2\). Got .* shape \(1, 3\)\."),
        ({0: [-0.5, 1.0]}, r"non-negative .* shape \(1, 2\) with other entries"),
        ({0: [nan, 1.0]}, "finite, non-negative .* with other entries"),
        ([None, None], "needs one array per variable, 3 in all. Got 2"),
        ([np.ones((2, 2)), np.ones((3, 3)), None], r"All arrays of weights need as many rows. Got"),
        ([np.ones((2, 3)), None, None], r"weights of variable 0 .* Got .* shape \(2, 3\)\."),
        ([np.array([[np.inf, 1.0]]), None, None], "with other entries"),
        ([None, None, np.ones((2, 2))], r"real variable 2 must be one .* in every row. Got array"),
    ],
)
def test_errors(evidence, message):
    assert_raises(EvidenceError, message, as_evidence, evidence, DOMAINS)


def test_points():
    points = as_points([[0, 2, 0.5], [1, 0, -1.0]], DOMAINS)
    assert_close(points, np.array([[0, 2, 0.5], [1, 0, -1.0]]))
    for X, message in {
        (0, 2, 0.5): r"Y must be a 2-D array.*X.reshape\(1, -1\) if they are a single row",
        ((0, 1),): r"Y must have shape \(rows, 3\).* Got shape \(1, 2\)",
        ((0, nan, 0.0),): r"Y must be complete. Got NaN in row 0, column 1; missing values can",
        ((0, 3, 0.0),): r"Y on variable 1 must be integers in 0..2. Got 3.0 in row 0",
        ((0, 0, -np.inf),): "Y on variable 2 must be finite. Got -inf",
    }.items():
        assert_raises(DataError, message, as_points, X, DOMAINS, what="Y")


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
def test_patterns(seed):
    vtree, codes, counts, n_rows = drawn_rows(seed)
    found = patterns(vtree, codes, counts)
    for actual, expected in zip(rows_from(found, vtree, n_rows), codes, strict=True):
        np.testing.assert_array_equal(actual, expected)
    if found.is_uniform:
        assert set(found.count) == {n_rows}
        assert all((x == np.arange(n_rows)).all() for x in codes)
    first = found.first_rows(vtree)
    assert first.shape == (vtree.n_nodes, n_rows)
    for node in range(vtree.n_nodes):
        below = np.stack([codes[v] for v in vtree.scope(node)], axis=1).tolist()
        assert first[node].tolist() == [below.index(row) for row in below]
        assert found.count[node] == len(set(map(tuple, below)))


def test_uniform_and_many_patterns():
    vtree = Vtree.balanced(3)
    found = uniform(vtree, 4)
    assert found.is_uniform
    assert found.count == [4] * 5
    for codes in rows_from(found, vtree, 4):
        assert codes.tolist() == [0, 1, 2, 3]
    codes = [np.arange(4)] * 3
    assert patterns(vtree, codes, [4] * 3).is_uniform
    assert not patterns(vtree, [codes[0], codes[0], codes[0][::-1]], [4] * 3).is_uniform
    # the number of pairs of codes is far beyond the number of rows
    rng = np.random.default_rng(0)
    codes = [rng.permutation(5000) // 2 for _ in range(4)]
    vtree = Vtree.balanced(4)
    found = patterns(vtree, codes, [2500] * 4)
    for actual, expected in zip(rows_from(found, vtree, 5000), codes, strict=True):
        np.testing.assert_array_equal(actual, expected)
