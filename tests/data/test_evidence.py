import numpy as np
import pytest

from assertions import refusals
from expectedkernels import EvidenceError, Vtree
from expectedkernels.data.evidence import FEW_ROWS, Evidence, as_evidence, is_batch

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


@pytest.mark.parametrize(("evidence", "expected"), [
    ({0: 1, 1: {0, 2}, 2: 3.5}, ([[0, 1]], [[1, 0, 1]], [3.5])),
    ({1: [0.1, 0.9, 0.0]}, ([[1, 1]], [[0.1, 0.9, 0.0]], [nan])),
    ({np.int64(0): frozenset([1]), 1: np.float64(2)}, ([[0, 1]], [[0, 0, 1]], [nan])),
    ({0: {0, 1}, 2: {1.5}}, ([[1, 1]], [[1, 1, 1]], [1.5])),
    ({}, ([[1, 1]], [[1, 1, 1]], [nan])),
    ({0: nan, 1: nan, 2: nan}, ([[1, 1]], [[1, 1, 1]], [nan])),
])  # fmt: skip
def test_mappings(evidence, expected):
    assert_says(as_evidence(evidence, DOMAINS), *expected)
    assert not is_batch(evidence)


def test_few_rows_are_taken_as_they_are_and_many_by_pattern():
    vtree = Vtree.balanced(2)
    few = as_evidence(np.zeros((FEW_ROWS, 2)), (2, 2)).patterns(vtree)
    assert few.is_uniform
    assert few.count == [FEW_ROWS] * 3
    many = as_evidence(np.zeros((FEW_ROWS + 1, 2)), (2, 2)).patterns(vtree)
    assert many.count == [1, 1, 1]


test_errors = refusals(EvidenceError, [
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
], lambda evidence: as_evidence(evidence, DOMAINS))  # fmt: skip
