"""How close is close: one comparison, with tolerances by number type."""

import numpy as np

TOLERANCE = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-4}
"""Relative errors that are allowed."""


def host(array):
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
    actual, expected = host(actual), host(expected)
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    rtol = TOLERANCE[actual.dtype]
    if scale is None:
        np.testing.assert_allclose(actual, expected, rtol=rtol, atol=0.0, equal_nan=False)
        return
    difference = np.abs(actual - expected)
    scale = np.broadcast_to(host(scale), difference.shape)
    np.testing.assert_array_less(difference, rtol * scale + np.finfo(actual.dtype).tiny)


def assert_logs_close(actual, expected):
    """Compare logarithms: absolute errors count up to one, relative ones beyond."""
    actual, expected = host(actual), host(expected)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(actual[~finite], expected[~finite])
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    assert_close(actual[finite], expected[finite], np.maximum(1.0, np.abs(expected[finite])))
