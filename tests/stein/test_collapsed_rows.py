import numpy as np
import pytest

import expectedkernels as ek

CARDS = [2, 3, 4]
TARGET = ek.FactorGraph(CARDS, [ek.Factor([0, 1, 2], np.ones(CARDS))], names=["a", "b", "c"])
X = np.array([[0, 2, 3], [1, 0, 1], [0, 1, 2], [1, 2, 0]])


def read(samples, collapsed=None, target=TARGET):
    return ek.collapsed_bbis(target, samples, collapsed, weights="uniform").rows


@pytest.mark.parametrize(
    "samples", [X, X.tolist(), X.astype(np.int8), X.astype(np.float32), X.reshape(2, 2, 3)]
)
def test_samples_come_in_many_types(samples):
    np.testing.assert_array_equal(read(samples, [1])[:, [0, 2]], X[:, [0, 2]])
    assert np.isnan(read(samples, [1])[:, 1]).all()


@pytest.mark.parametrize("one", ["b", 1, np.int64(1), ["b"], {1}, range(1, 2), np.array([1])])
def test_one_set_for_all_samples(one):
    assert np.isnan(read(X, one)).tolist() == [[False, True, False]] * 4


def test_masks_come_in_many_types():
    mask = np.random.default_rng(0).random(X.shape) < 0.5
    many = [mask, mask.tolist(), tuple(map(tuple, mask)), mask.reshape(2, 2, 3)]
    for given in many:
        np.testing.assert_array_equal(np.isnan(read(X, given)), mask)
    np.testing.assert_array_equal(np.isnan(read(np.where(mask, np.nan, X))), mask)
    np.testing.assert_array_equal(np.isnan(read(X, mask[0])), np.tile(mask[0], (4, 1)))


def test_tables_with_columns_are_read_by_value():
    pandas = pytest.importorskip("pandas")
    mask = np.random.default_rng(0).random(X.shape) < 0.5
    rows = read(pandas.DataFrame(X), pandas.DataFrame(mask))  # iteration would give the columns
    np.testing.assert_array_equal(rows, np.where(mask, np.nan, X))


def test_values_of_collapsed_variables_do_not_matter():
    assert np.isnan(read([[0, 99, 0]], [1])[0, 1])
    assert np.isnan(read([[0, np.inf, 0]], [1])[0, 1])


@pytest.mark.parametrize("value", [-1, 3, 0.5, np.inf])
def test_values_outside_the_domain(value):
    for collapsed in (None, (), [0]):
        with pytest.raises(
            ek.DataError, match=r"Samples on variable 1 .*must be integers in 0\.\.2"
        ):
            read([[0, 2, 0], [0, value, 0]], collapsed)


def test_mistakes():
    with pytest.raises(ek.DataError, match="set of numbers or names, or a mask of booleans"):
        read(X, 1.5)
    with pytest.raises(ek.DataError, match=r"mask of booleans of shape \(4, 3\)"):
        read(X, [[True, False], [True]])
    with pytest.raises(ek.DataError, match=r"shape \(4, 3\) or \(3,\). Got array"):
        read(X, np.ones((4, 3), dtype=int))
    with pytest.raises(ek.DataError, match="Got NaN in row 0, column 2"):
        read([[0, 1, np.nan]], [1])
    with pytest.raises(ek.DataError, match="with at least one sample"):
        read(X[:0])
    with pytest.raises(ek.CircuitError, match="'z'"):
        read(X, ["z"], TARGET.compile()[0])


def test_equal_rows_have_equal_entries():
    nan = np.nan
    rows = np.array([[1, nan, 0], [0, 1, 0], [1, nan, 0], [nan, nan, 0], [0, nan, 0]])
    samples = ek.collapsed_bbis(TARGET, rows, weights="raw")
    np.testing.assert_array_equal(samples.rows, rows)
    np.testing.assert_array_equal(samples.gram[0], samples.gram[2])
    kernel = ek.CollapsedSteinKernel(TARGET.compile()[0])
    np.testing.assert_allclose(samples.gram, kernel(rows), atol=1e-14)
