"""How close is close: one comparison, with tolerances by number type."""

import numpy as np
import pytest
from scipy import sparse

TOLERANCE = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-4}
"""Relative errors that are allowed."""


def to_numpy(array):
    """An array of any library as a NumPy array."""
    if hasattr(array, "detach"):
        array = array.detach().cpu()
    return np.asarray(array)


def assert_close(actual, expected, scale=None):
    """Compare numbers, each relative to itself or to what it is the (cancelling) sum of.

    Parameters
    ----------
    actual, expected : array or float
        They must have the same shape. NaN is equal to nothing.
    scale : array or float, optional
        What errors are relative to. Default: the expected numbers.
    """
    actual, expected = to_numpy(actual), to_numpy(expected)
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    rtol = TOLERANCE[actual.dtype]
    if scale is None:
        np.testing.assert_allclose(actual, expected, rtol=rtol, atol=0.0, equal_nan=False)
        return
    difference = np.abs(actual - expected)
    scale = np.broadcast_to(to_numpy(scale), difference.shape)
    np.testing.assert_array_less(difference, rtol * scale + np.finfo(actual.dtype).tiny)


def assert_all_close(found, expected, **tolerances):
    """Compare the arrays of two sequences one by one."""
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(to_numpy(one), to_numpy(other), **tolerances)


def assert_logs_close(actual, expected):
    """Compare logarithms: absolute errors count up to one, relative ones beyond."""
    actual, expected = to_numpy(actual), to_numpy(expected)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(actual[~finite], expected[~finite])
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    assert_close(actual[finite], expected[finite], np.maximum(1.0, np.abs(expected[finite])))


def assert_frequencies(X, p, effective=1.0):
    """Compare how often all points were drawn with their probabilities, (*cardinalities).

    Six standard deviations, and a little for rare points; impossible points are never drawn.
    `effective` is the number of independent points that one point of a chain stands for.
    """
    X, p = X.reshape(-1, X.shape[-1]).astype(int), p / p.sum()
    counts = np.bincount(np.ravel_multi_index(X.T, p.shape), minlength=p.size) * effective
    n, p = len(X) * effective, p.ravel()
    assert not counts[p == 0].any()
    assert (np.abs(counts - n * p) <= 6 * np.sqrt(n * p * (1 - p)) + 6).all()


def assert_same_array(a, b):
    """Two arrays (dense, sparse, or None) have the same types, shapes and bytes."""
    if a is None or b is None:
        assert a is b
        return
    assert (sparse.issparse(a), a.shape) == (sparse.issparse(b), b.shape)
    for part in ("data", "indices", "indptr") if sparse.issparse(a) else (None,):
        x, y = (a, b) if part is None else (getattr(a, part), getattr(b, part))
        assert x.dtype == y.dtype
        assert x.tobytes() == y.tobytes()


def assert_same_circuit(a, b):
    """Two circuits are the same to the last bit."""
    assert a.vtree == b.vtree
    for x, y in zip(a.blocks, b.blocks, strict=True):
        assert type(x) is type(y)
        assert x.n_units == y.n_units
        for one, other in zip(x.arrays, y.arrays, strict=True):
            assert_same_array(one, other)


def assert_raises(error, match, call, *args, **options):
    """A call raises an error with such a message."""
    with pytest.raises(error, match=match):
        call(*args, **options)


def rejected(test, repeats, level=0.05):
    """How many of repeated tests, which are given a number each, reject at a level: their share."""
    return np.mean([test(seed).p_value <= level for seed in range(repeats)])


def refusals(error, rows, ask=lambda call: call()):
    """A test with a case for every row (*arguments, message): asking so raises such an error.

    Without an error for all rows, they are (*arguments, error, message).
    """

    @pytest.mark.parametrize("row", rows, ids=range(len(rows)))
    def test(row):
        *arguments, message = row
        own = error or arguments.pop()
        assert_raises(own, message, ask, *arguments)

    return test
