"""Means of exp(-x^2) over intervals against fine rules, and numbers beyond the range of doubles."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from assertions import assert_close
from expectedkernels.circuits.inputs import (
    Wide,
    as_plain,
    is_plain,
    log_box,
    log_boxes,
    sums,
    tops,
    wide,
    wide_exp,
)

NODES, SHARES = np.polynomial.legendre.leggauss(40)


def log_mean(d, widths):
    """The log of the mean by a fine rule over every interval, scaled by its largest term."""
    values, shares = np.array([d]), np.ones(1)
    for half in widths:
        # panels that are narrow for the kernel, and for its slope at this distance
        panels = int(np.ceil(2.0 * half * (1.0 + abs(d) / 4.0))) + 1
        start = 2.0 * np.arange(panels)[:, None] - panels + 1.0
        nodes = ((start + NODES) / panels).ravel()
        share = np.tile(0.5 * SHARES / panels, panels)
        values = (values[:, None] + half * nodes).ravel()
        shares = (shares[:, None] * share).ravel()
    logs = -(values**2)
    return logs.max() + np.log(np.exp(logs - logs.max()) @ shares)


@pytest.mark.parametrize("d", [0.0, 1e-6, 0.3, 1.0, 2.7, 8.0, 60.0])
@pytest.mark.parametrize("a", [1e-9, 1e-3, 0.4, 0.6, 2.0, 7.0])
def test_one_interval(d, a):
    expected = log_mean(d, [a])
    found = log_box(np.array([d, -d]), np.array([a, a]))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("d", [0.0, 0.3, 1.5, 4.0, 9.0, 30.0])
@pytest.mark.parametrize("a", [1e-6, 0.02, 0.5, 3.0])
@pytest.mark.parametrize("b", [1e-3, 0.3, 1.0, 4.0])
def test_two_intervals(d, a, b):
    expected = log_mean(d, [a, b])
    found = log_boxes(np.array([d, -d, d]), np.array([a, a, b]), np.array([b, b, a]))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("d", [0.0, 10.0, 50.0, 79.5, 80.0, 80.5, 83.0, 120.0])
def test_intervals_that_are_wide_for_the_kernel(d):
    # one is integrated in closed form, the other by panels
    panels = 400
    start = 2.0 * np.arange(panels)[:, None] - panels + 1.0
    nodes = ((start + NODES) / panels).ravel()
    logs = log_box(d + 30.0 * nodes, 50.0)
    shares = np.tile(0.5 * SHARES / panels, panels)
    expected = logs.max() + np.log(np.exp(logs - logs.max()) @ shares)
    found = log_boxes(np.array([d]), np.array([30.0]), np.array([50.0]))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_without_width():
    d = np.array([0.5, 3.0, 1e200])
    zero = np.zeros(3)
    np.testing.assert_array_equal(log_box(d, zero)[:2], -(d[:2] ** 2))
    assert log_box(d, zero)[2] == -np.inf
    np.testing.assert_array_equal(log_boxes(d, zero, zero), log_box(d, zero))
    a = np.array([1.0, 0.2, 3.0])
    np.testing.assert_array_equal(log_boxes(d, zero, a), log_box(d, a))


reals = st.one_of(st.just(0.0), st.floats(1e-100, 1e100), st.floats(-1e100, -1e-100))
STARTS = np.array([0, 2, 2, 3])


def test_products_of_any_size():
    square = wide([1e-300, -1e300, 0.0]) * wide([1e-300, 1e300, 1e300])
    assert not is_plain(square)
    assert as_plain(square).tolist() == [0.0, -np.inf, 0.0]
    assert tops(square, STARTS).tolist() == [int(square.exponent[1]), 0, 0]
    total = sums(square, STARTS)  # beside 1e600, 1e-600 is nothing
    assert total.mantissa.tolist() == [square.mantissa[1], 0.0, 0.0]
    back = square / wide([1e-300, 1e300, 1e300])
    assert_close(as_plain(back), np.array([1e-300, -1e300, 0.0]))
    assert as_plain(square / wide([0.0, 0.0, 0.0])).tolist() == [0.0, 0.0, 0.0]


@given(st.lists(reals, min_size=1, max_size=5), reals)
def test_numbers_in_range_are_plain(numbers, factor):
    product = wide(numbers) * wide(np.asarray([factor]))
    assert is_plain(product)
    np.testing.assert_array_equal(as_plain(product), np.asarray(numbers) * factor)


@given(st.floats(-1e5, 1e5))
def test_exponentials(log):
    number = wide_exp(np.array([log, -np.inf]))
    assert number.mantissa[1] == 0.0
    log_2 = np.log(number.mantissa[0]) / np.log(2) + number.exponent[0]
    assert_close(log_2, log / np.log(2), max(1.0, abs(log)))


@pytest.mark.parametrize("alpha", [-1.0, 0.5, 2.0, -3.7, 501.0])
def test_powers(alpha):
    numbers = np.array([1.0, 1.001, 0.999, 0.0])
    power = wide(numbers) ** alpha
    assert_close(as_plain(power), np.array([*(numbers[:3] ** alpha), 0.0]))


def test_subnormal_numbers_are_plain_if_they_have_all_their_digits():
    assert is_plain(wide([5e-324, 1e-310, 1.0, 0.0]))
    assert not is_plain(wide([1e-300]) * wide([1.1e-10]))
    assert Wide(STARTS, STARTS).shifted(STARTS).exponent.tolist() == [0, 4, 4, 6]
