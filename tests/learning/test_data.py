"""Data matrices: what is read, and what is refused with advice."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

import expectedkernels as ek
from expectedkernels import learn_chow_liu, learn_strudel
from expectedkernels.checks import check_choice, check_count, check_real
from expectedkernels.learning.data import as_cardinalities, as_states, as_weights, distinct_rows
from strategies import rngs


class Frame:
    """A matrix whose columns have names."""

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns

    def __array__(self, dtype=None, copy=None):
        return np.array(self.rows, dtype=object)


@pytest.mark.parametrize(
    "X",
    [
        [[0, 1], [2, 0]],
        np.array([[0.0, 1.0], [2.0, 0.0]]),
        np.array([[0, 1], [2, 0]], dtype=np.uint8),
        np.array([[0, 1.0], [2, False]], dtype=object),
        sparse.csr_array(np.array([[0, 1], [2, 0]])),
        Frame([[0, 1], [2, 0]], ["a", "b"]),
    ],
)
def test_integers_of_any_kind_are_states(X):
    assert as_states(X).tolist() == [[0, 1], [2, 0]]


def test_booleans_are_states():
    assert as_states(np.array([[True, False]])).tolist() == [[1, 0]]


def test_missing_values_are_marked():
    assert as_states([[0, float("nan")], [None, 1]]).tolist() == [[0, -1], [-1, 1]]


@pytest.mark.parametrize("learn", [learn_chow_liu, learn_strudel])
@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([0, 1, 1], r"X must be a matrix of shape \(rows, variables\).*Got shape \(3,\)"),
        ([[0, 1], [1]], r"X must be a matrix of shape"),
        (np.zeros((3, 0)), r"one column per variable. Got shape \(3, 0\)"),
        ([[0, "M"], [1, "F"]], r"Got 'M' in row 0, column 1. Encode categories as integers"),
        ([["0", "1"]], r"Got '0' in row 0, column 0. That is text: convert it to numbers"),
        (np.array([[0, "M"]], dtype=object), r"Got 'M' in row 0, column 1.*OrdinalEncoder"),
        (Frame([[0, "M"]], ["age", "sex"]), r"Got 'M' in row 0, column 1 \('sex'\)"),
        ([[0, 1], [0.5, 1]], r"Got 0.5 in row 1, column 0. Discretise.*KBinsDiscretizer"),
        ([[0, np.inf]], r"Got inf in row 0, column 1"),
        ([[0, 1], [-1, 1]], r"Got -1 in row 1, column 0. Codes start at 0, and a missing value"),
        ([[2**40, 1]], r"Got 1099511627776 in row 0, column 0. That is too large"),
        (np.array([[1j]]), r"X must hold integers 0, 1, 2.*complex128"),
        ([[0, 5000], [1, 2]], r"Column 1 of X holds codes up to 5000.*give cardinalities="),
        ([[0, np.nan], [1, np.nan]], r"Column 1 of X has no values.*Give it with cardinalities="),
        (np.zeros((0, 2)), r"Column 0 of X has no values"),
    ],
)
def test_matrices_that_are_not_states_are_refused(learn, X, message):
    with pytest.raises(ek.DataError, match=message):
        learn(X)


def test_a_column_of_zeros_is_a_binary_variable():
    assert as_cardinalities(None, np.array([[0, 2], [0, 0]])) == (2, 3)


def test_cardinalities_are_inferred_from_all_data_or_given():
    rows, more = np.array([[0, 1]]), np.array([[4, 0]])
    assert as_cardinalities(None, rows, more) == (5, 2)
    assert as_cardinalities([5, 7], rows, more) == (5, 7)
    assert as_cardinalities(6, rows) == (6, 6)
    assert as_cardinalities(5000, rows) == (5000, 5000)


@pytest.mark.parametrize("given_cards", [[2], [2, 0], [2, 2.5], "ab", [2, None]])
def test_cardinalities_that_do_not_fit_are_refused(given_cards):
    with pytest.raises(ek.DataError, match="must be a positive int, or one per column, 2 in all"):
        learn_chow_liu([[0, 1]], cardinalities=given_cards)


def test_states_beyond_given_cardinalities_are_refused():
    with pytest.raises(ek.DataError, match=r"Column 1 of X must hold integers in 0..1.*Got 2"):
        learn_chow_liu([[0, 1], [0, 2]], cardinalities=2)


def test_validation_data_need_the_same_columns_and_rows():
    with pytest.raises(ek.DataError, match=r"same columns. Got 2 and 3 columns"):
        learn_strudel([[0, 1]], [[0, 1, 1]])
    with pytest.raises(ek.DataError, match="X_valid must hold the states"):
        learn_strudel([[0, 1]], [[0, 0.5]])
    with pytest.raises(ek.DataError, match="X_valid must have at least one row"):
        learn_strudel([[0, 1]], np.zeros((0, 2)))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], r"must be 2 finite numbers.*Got an array of shape \(1,\)\."),
        ([1.0, -1.0], r"with other entries"),
        ([1.0, np.nan], r"with other entries"),
        ([0.0, 0.0], r"positive, finite sum. Got 0"),
    ],
)
@pytest.mark.parametrize("learn", [learn_chow_liu, learn_strudel])
def test_weights_that_do_not_fit_are_refused(learn, weights, message):
    with pytest.raises(ek.DataError, match=message):
        learn([[0, 1], [1, 1]], sample_weight=weights)


@given(rngs, st.integers(1, 200))
def test_sums_of_weights_are_exact_in_any_order(rng, n):
    given_weights = rng.gamma(0.3, size=n)
    weights = as_weights(given_weights, n)
    np.testing.assert_allclose(weights, given_weights, rtol=0, atol=1e-15 * given_weights.sum())
    part = weights[rng.random(n) < 0.7]
    assert part.cumsum()[-1:].tolist() == rng.permutation(part).cumsum()[-1:].tolist()


def test_integer_weights_stay_as_they_are():
    assert as_weights([3, 0, 7], 3).tolist() == [3.0, 0.0, 7.0]


@given(rngs, st.integers(0, 30), st.sampled_from([2, 3, 70]))
def test_distinct_rows_are_counted(rng, n, d):
    states = rng.integers(-1, 2, size=(n, d))
    if d == 70 and n:
        states = states[rng.integers(min(n, 3), size=n)]
    weights = rng.integers(0, 5, size=(2, n)).astype(float)
    rows, sums, first = distinct_rows(states, weights, [2] * d)
    expected = {}
    for row, w in zip(states.tolist(), weights.T, strict=True):
        expected[tuple(row)] = expected.get(tuple(row), 0) + w
    found = {tuple(row): w for row, w in zip(rows.tolist(), sums.T, strict=True)}
    np.testing.assert_array_equal(states[first], rows)
    assert found.keys() == expected.keys()
    assert all((found[row] == expected[row]).all() for row in found)


def test_parameters_are_checked():
    message = r"The 'alpha' parameter of f must be a float in the range \[0, inf\). Got -1"
    with pytest.raises(ek.CircuitError, match=message):
        check_real("f", "alpha", -1)
    for value in ("1", np.nan, np.inf, True, None):
        with pytest.raises(ek.CircuitError, match="must be a float"):
            check_real("f", "alpha", value)
    with pytest.raises(ek.CircuitError, match=r"must be an int in the range \[1, inf\) or None"):
        check_count("f", "n", 0, 1, none=True)
    with pytest.raises(ek.CircuitError, match=r"an int in the range \[0, inf\). Got 1.5 instead"):
        check_count("f", "n", 1.5)
    with pytest.raises(ek.CircuitError, match=r"must be 'a', 'b' or 'c'. Got 'd' instead"):
        check_choice("f", "x", "d", ("a", "b", "c"))
    assert check_count("f", "n", None, none=True) is None
    assert (check_real("f", "x", 2), check_count("f", "n", 3)) == (2.0, 3)
