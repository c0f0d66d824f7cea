"""Numbers beyond the range of doubles."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from assertions import assert_close
from expectedkernels.circuits.wide import (
    Wide,
    as_plain,
    is_plain,
    sums,
    tops,
    wide,
    wide_exp,
)

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
