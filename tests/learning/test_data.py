"""Data matrices: what is read, and what is refused with advice."""

import numpy as np
import pytest
from scipy import sparse

import expectedkernels as ek
from expectedkernels import learn_chow_liu, learn_strudel


@pytest.mark.parametrize(
    "X",
    [
        np.array([[0.0, 1.0], [2.0, 0.0]]),
        np.array([[0, 1], [2, 0]], dtype=np.uint8),
        np.array([[0, 1.0], [2, False]], dtype=object),
        sparse.csr_array(np.array([[0, 1], [2, 0]])),
        np.ma.MaskedArray([[0, 1], [2, 0]]),
    ],
)
def test_integers_of_any_kind_are_states(X):
    wanted = learn_chow_liu([[0, 1], [2, 0]])
    assert wanted.cardinalities == (3, 2)  # a column of zeros would be binary, too
    found = learn_chow_liu(X)
    np.testing.assert_array_equal(found.log_likelihood([[2, 1]]), wanted.log_likelihood([[2, 1]]))


@pytest.mark.parametrize("missing", [None, np.nan, np.ma.masked])
def test_missing_values_are_marked(missing):
    X, gaps = np.ma.MaskedArray([[0, 1], [1, 1], [1, 0.0]]), [[0, np.nan], [1, 1], [1, 0]]
    X[0, 1] = np.nan if missing is None else missing
    X = X if missing is np.ma.masked else [[0, missing], [1, 1], [1, 0]]
    found, wanted = learn_strudel(X), learn_strudel(gaps)
    np.testing.assert_array_equal(found.log_likelihood(gaps), wanted.log_likelihood(gaps))


@pytest.mark.parametrize("learn", [learn_chow_liu, learn_strudel])
@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([0, 1, 1], r"X must be a matrix of shape \(rows, variables\).*Got shape \(3,\)"),
        ([[0, 1], [1]], r"as many entries in every row"),
        (np.zeros((3, 0)), r"one column per variable. Got shape \(3, 0\)"),
        ([[0, "M"], [1, "F"]], r"Got text, '0'. Labels are read from data frames"),
        (np.array([[0, "M"]], dtype=object), r"Got text, 'M'. Labels are read from data frames"),
        ([[0, 1], [0.5, 1]], r"Got 0.5 in row 1, column 0. Discretise.*KBinsDiscretizer"),
        ([[0, np.inf]], r"Got inf in row 0, column 1"),
        ([[0, 1], [-1, 1]], r"Got -1 in row 1, column 0. Codes start at 0, and a missing value"),
        ([[2**40, 1]], r"Got 1099511627776 in row 0, column 0. That is too large"),
        (np.array([[1j]]), r"Got complex numbers"),
        ([[0, 5000], [1, 2]], r"Column 1 of X holds codes up to 5000.*give cardinalities="),
        ([[0, np.nan], [1, np.nan]], r"Column 1 .*of X has no values.*Give it with cardinalities="),
        (np.zeros((0, 2)), r"Column 0 .*of X has no values"),
    ],
)
def test_matrices_that_are_not_states_are_refused(learn, X, message):
    with pytest.raises(ek.DataError, match=message):
        learn(X)


def test_chunks_are_refused_where_rows_are_needed_together():
    with pytest.raises(ek.DataError, match=r"X must be rows in memory. Got data in chunks"):
        learn_strudel(lambda: [[[0, 1]]])


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


@pytest.mark.parametrize("value", ["1", np.nan, np.inf, True, None])
def test_parameters_are_checked(value):
    with pytest.raises(
        ek.CircuitError, match="'alpha' parameter of learn_chow_liu must be a float"
    ):
        learn_chow_liu([[0, 1]], alpha=value)
