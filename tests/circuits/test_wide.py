"""Numbers beyond the range of doubles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assertions import assert_close
from expectedkernels.circuits.wide import Wide, combined, settled, wide, wide_exp

reals = st.one_of(st.just(0.0), st.floats(1e-100, 1e100), st.floats(-1e100, -1e-100))
STARTS = np.array([0, 2, 2, 3])


def test_products_of_any_size():
    square = wide([1e-300, -1e300, 0.0]) * wide([1e-300, 1e300, 1e300])
    numbers, scale = settled(square, STARTS)
    assert numbers[0] == 0.0  # against 1e600 in the same unit it is nothing
    assert numbers[1] < 0.0
    assert numbers[2] == 0.0
    assert scale.tolist() == [int(square.exponent[1]) - 400, 0, 0]


@given(st.lists(reals, min_size=1, max_size=5), reals)
def test_numbers_in_range_are_plain(numbers, factor):
    product = wide(numbers) * wide(np.asarray([factor]))
    found, scale = settled(product, np.array([0, len(numbers)]), room=1000)
    assert scale is None
    np.testing.assert_array_equal(found, np.asarray(numbers) * factor)


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
    found, scale = settled(power, np.array([0, 4]))
    assert scale is None
    assert_close(found, np.array([*(numbers[:3] ** alpha), 0.0]))


def test_scales_add_up():
    one = np.array([1, 2])
    assert combined(None, None) is None
    assert combined(one, None) is one
    assert combined(None, one) is one
    assert combined(one, one).tolist() == [2, 4]
    assert Wide(one, one).shifted(one).exponent.tolist() == [2, 4]
