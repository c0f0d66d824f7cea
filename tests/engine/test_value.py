from dataclasses import replace
from fractions import Fraction
from math import inf, log

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

from assertions import assert_close, assert_logs_close, host
from expectedkernels.arrays import Place
from expectedkernels.engine.value import (
    applied,
    bounds,
    from_log,
    joined,
    plain,
    repeated,
    scale_of,
    settled,
    spread,
    taken,
    tightened,
    times,
    to_log,
    weighted,
    weights_of,
)

seeds = st.integers(0, 2**32 - 1)
NODES, BATCH, UNITS = 2, (2, 1), (3, 2)
SHAPE = (NODES, BATCH[0] * UNITS[0], BATCH[1] * UNITS[1])


class Exact:
    """Exact numbers, and beside them what the absolute values of all terms add up to."""

    def __init__(self, numbers, size=None):
        self.numbers = numbers
        self.size = abs(numbers) if size is None else size

    def __mul__(self, other):
        return Exact(self.numbers * other.numbers, self.size * other.size)

    def weighted(self, weights, axis):
        """The weights of every node applied to the units of an axis, in every batch."""
        return Exact(
            _weighted(self.numbers, weights, axis), _weighted(self.size, abs(weights), axis)
        )

    def logs(self):
        return _logs(self.numbers), np.sign(self.numbers).astype(float)


def _weighted(numbers, weights, axis):
    copies, units = BATCH[axis - 1], UNITS[axis - 1]
    moved = np.moveaxis(numbers, axis, -1)
    result = np.empty_like(moved)
    for node in range(NODES):
        for copy in range(copies):
            part = slice(copy * units, (copy + 1) * units)
            result[node, ..., part] = moved[node, ..., part] @ weights[node].T
    return np.moveaxis(result, -1, axis)


@np.vectorize(otypes=[float])
def _logs(number):
    if number == 0:
        return -inf
    return log(abs(number.numerator)) - log(number.denominator)


def dyadic(rng, shape, powers, zeros=0.2, signed=False):
    """Exact numbers, short in binary, over a wide range of magnitudes."""
    signs = rng.choice([-1, 1], size=shape) if signed else np.ones(shape, dtype=int)
    numbers = np.empty(shape, dtype=object)
    for i in np.ndindex(*shape):
        power = int(rng.integers(-powers, powers + 1))
        number = int(rng.integers(1, 1 << 20)) * Fraction(2) ** power
        numbers[i] = Fraction(0) if rng.random() < zeros else int(signs[i]) * number
    return numbers


def in_form(exact, form, dtype=np.float64):
    """A value made of exact numbers: plain, as logarithms, or scaled by hand."""
    logs, sign = exact.logs()
    if form == "plain" and np.abs(logs[logs > -inf]).max(initial=0.0) < 600:
        return plain(exact.numbers.astype(dtype), BATCH)
    if form == "scaled":
        grid = logs.reshape(NODES, BATCH[0], UNITS[0], BATCH[1], UNITS[1])
        top = np.where(grid > -inf, grid, -1e9).max(axis=(2, 4))
        top = np.where(top > -1e9, top, 0.0)
        mantissas = np.exp(grid - top[:, :, None, :, None]).reshape(SHAPE) * sign
        lost = (np.abs(mantissas) < np.finfo(dtype).tiny) & (sign != 0)
        if not lost.any():
            made = plain(mantissas.astype(dtype), BATCH)
            return replace(made, scale=top.astype(dtype))
    return from_log(logs.astype(dtype), BATCH, sign.astype(dtype) if (sign < 0).any() else None)


def assert_is(value, exact, rtol=1e-9):
    """Compare in logarithms, errors relative to the sum of the absolute values of all terms."""
    value = to_log(value)
    logs, sign = host(value.data).astype(float), host(value.sign) if value.sign is not None else 1.0
    expected, expected_sign = exact.logs()
    assert logs.shape == expected.shape
    assert not np.isnan(logs).any()
    size = _logs(exact.size)
    np.testing.assert_array_equal(logs[size == -inf], -inf)
    size = np.where(size > -inf, size, 0.0)
    difference = np.exp(logs - size) * sign - np.exp(expected - size) * expected_sign
    np.testing.assert_array_less(np.abs(difference), rtol)
    clear = expected - size > log(1e-3)
    np.testing.assert_array_less(np.abs(logs[clear] - expected[clear]), 1e3 * rtol)


def random_weights(rng, units, powers, signed):
    """Weights of every node, exact, and as the engine takes them: one matrix, a stack, or CSR."""
    kind = rng.choice(["matrix", "stack", "sparse"])
    one = dyadic(rng, (1, units, units), powers, zeros=0.3, signed=signed)
    exact = (
        dyadic(rng, (NODES, units, units), powers, zeros=0.3, signed=signed)
        if kind == "stack"
        else np.concatenate([one] * NODES)
    )
    matrix = exact.astype(float) if kind == "stack" else exact[0].astype(float)
    return exact, sparse.csr_array(matrix) if kind == "sparse" else matrix


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("powers", [4, 500, 5000])
@given(seeds)
def test_all_forms_agree_with_exact_numbers(signed, powers, seed):
    rng = np.random.default_rng(seed)
    exacts = [Exact(dyadic(rng, SHAPE, powers, signed=signed)) for _ in range(3)]
    values = [in_form(e, rng.choice(["plain", "scaled", "log"])) for e in exacts]
    for _ in range(int(rng.integers(1, 6))):
        i, j = rng.integers(len(values), size=2)
        step = rng.choice(["times", "weighted", "form"], p=[0.5, 0.4, 0.1])
        if step == "times":
            values.append(times(values[i], values[j]))
            exacts.append(exacts[i] * exacts[j])
        elif step == "weighted":
            axis = int(rng.integers(1, 3))
            weights, matrix = random_weights(rng, UNITS[axis - 1], min(powers, 400), signed)
            values.append(applied(values[i], weights_of(matrix), axis))
            exacts.append(exacts[i].weighted(weights, axis))
        else:
            change = [to_log, tightened, lambda v: settled(to_log(v))][int(rng.integers(3))]
            values.append(change(values[i]))
            exacts.append(exacts[i])
        assert_is(values[-1], exacts[-1])


@pytest.mark.parametrize("signed", [False, True])
@given(seeds)
def test_single_precision(signed, seed):
    rng = np.random.default_rng(seed)
    exacts = [Exact(dyadic(rng, SHAPE, 60, signed=signed)) for _ in range(2)]
    values = [in_form(e, rng.choice(["scaled", "log"]), np.float32) for e in exacts]
    weights, matrix = random_weights(rng, UNITS[0], 40, signed)
    value = applied(times(*values), weights_of(matrix.astype(np.float32)), 1)
    value = times(value, value)
    exact = (exacts[0] * exacts[1]).weighted(weights, 1)
    assert value.data.dtype == np.float32
    assert_is(value, exact * exact, rtol=1e-3)


def test_nothing_is_lost_over_hundreds_of_orders_of_magnitude():
    entries = np.array([[1e150, 1e-150, 0.0]])
    value = plain(entries, (1,))
    logs = np.log(1e150)
    for times_more in range(2, 12):
        value = times(value, plain(entries, (1,)))
        assert_logs_close(
            to_log(value).data, np.array([[times_more * logs, -times_more * logs, -inf]])
        )


def test_tightening_refuses_to_lose_the_smallest_numbers():
    wide = plain(np.exp(np.array([[400.0, -400.0]])), (1,))
    assert_logs_close(to_log(tightened(wide)).data, np.array([[400.0, -400.0]]))
    narrow = tightened(plain(np.exp(np.array([[400.0, 100.0]])), (1,)))
    assert_close(narrow.data, np.exp(np.array([[0.0, -300.0]])))
    assert_close(narrow.scale, np.array([[400.0]]))
    assert (narrow.hi, narrow.tight) == (0.0, True)
    assert tightened(narrow) is narrow


@pytest.mark.parametrize("n", [8, 12])
def test_sums_that_cancel_are_followed_down(n):
    # every sum leaves 2 ** -48 of its terms; 2 ** n of them are far below the smallest number
    value = plain(np.array([[1.0, 1.0 - 2.0**-48]]), (1,))
    minus = weights_of(np.array([[1.0, -1.0]]))
    value = applied(value, minus, 1)
    for _ in range(n):
        value = times(value, value)
    assert_logs_close(to_log(value).data, np.array([[-48 * 2.0**n * np.log(2)]]))


def test_signs_of_values_alone_make_sums_cancel():
    value = plain(np.array([[1.0, -(1.0 - 2.0**-48)]]), (1,))
    value = applied(value, weights_of(np.array([[1.0, 1.0]])), 1)
    for _ in range(10):
        value = times(value, value)
    assert_logs_close(to_log(value).data, np.array([[-48 * 2.0**10 * np.log(2)]]))


def test_log_sums_with_far_apart_terms():
    logs = np.array([[0.0, -5000.0, -inf, -1e6]])
    value = from_log(logs, (1,))
    assert value.is_log
    weights = np.array([[1.0, 0, 0, 0], [0, 2.0, 3.0, 0], [0, 0, 1.0, 0], [0, 0, 1.0, 0.5]])
    expected = np.array([[0.0, -5000.0 + np.log(2), -inf, -1e6 - np.log(2)]])
    assert_logs_close(to_log(applied(value, weights_of(weights), 1)).data, expected)


def test_signed_log_sums():
    value = from_log(np.array([[1000.0, 1000.0]]), (1,), np.array([[1.0, -1.0]]))
    result = to_log(applied(value, weights_of(np.array([[3.0, 1.0], [1.0, 3.0], [1.0, 1.0]])), 1))
    assert_logs_close(result.data, np.array([[1000 + np.log(2), 1000 + np.log(2), -inf]]))
    assert result.sign.tolist()[0][:2] == [1.0, -1.0]


def test_zero_values_and_weights():
    zero = plain(np.zeros((1, 3)), (1,))
    assert bounds(zero.data) == (0.0, 0.0)
    for weights in (np.zeros((2, 3)), sparse.csr_array((2, 3)), np.ones((2, 3))):
        result = applied(times(zero, zero), weights_of(weights), 1)
        assert host(to_log(result).data).tolist() == [[-inf, -inf]]
    nothing = from_log(np.full((1, 2), -inf), (1,))
    assert nothing.data.tolist() == [[0.0, 0.0]]
    assert tightened(zero).data.tolist() == [[0.0] * 3]


def test_bounds_are_those_of_the_numbers_that_are_not_zero():
    lo, hi = bounds(np.array([[0.0, -2.0, 0.5]]))
    assert lo == pytest.approx(np.log(0.5))
    assert hi == pytest.approx(np.log(2))
    assert bounds(np.empty((2, 0))) == (0.0, 0.0)
    weights = weights_of(np.array([[0.5, -0.25], [3.0, 1.0]]))
    assert weights.lo == pytest.approx(np.log(0.25))
    assert weights.hi == pytest.approx(np.log(4))
    assert (weights.signed, weights.n_units) == (True, 2)
    same = weights_of(sparse.csr_array(weights.matrix))
    assert (same.lo, same.hi, same.signed) == (weights.lo, weights.hi, True)


def test_results_may_be_written_into_memory_that_is_given():
    value = plain(np.arange(6.0).reshape(1, 6), (2,))
    weights = weights_of(np.array([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]]))
    room = np.full((1, 6), np.nan)
    expected = weighted(value, weights, 1).data
    inside = weighted(value, weights, 1, out=room)
    np.testing.assert_array_equal(inside.data, expected)
    assert np.shares_memory(inside.data, room)
    other = np.full((1, 5), np.nan)  # of another shape: not used
    np.testing.assert_array_equal(weighted(value, weights, 1, out=other).data, expected)
    assert np.isnan(other).all()


@given(seeds)
def test_rearrangements(seed):
    rng = np.random.default_rng(seed)
    exact = Exact(dyadic(rng, SHAPE, int(rng.choice([5, 3000])), signed=rng.random() < 0.5))
    value = in_form(exact, rng.choice(["plain", "scaled", "log"]))
    twice = repeated(taken(value, 1, np.arange(UNITS[0]), [0]), 1, 2)
    first = exact.numbers[:, : UNITS[0]]
    assert twice.batch == (2, BATCH[1])
    assert_is(twice, Exact(np.concatenate([first, first], axis=1)))
    batches = rng.integers(BATCH[0], size=3)
    entries = (batches[:, None] * UNITS[0] + np.arange(UNITS[0])).ravel()
    some = taken(value, 1, entries, batches)
    assert some.batch == (3, BATCH[1])
    assert_is(some, Exact(exact.numbers[:, entries]))
    other = in_form(exact * exact, rng.choice(["plain", "scaled", "log"]))
    both = joined([value, other], 1)
    assert both.batch == (2 * BATCH[0], BATCH[1])
    assert_is(both, Exact(np.concatenate([exact.numbers, exact.numbers**2], axis=1)))
    nodes = joined([value, other], 0)
    assert nodes.batch == BATCH
    assert_is(nodes, Exact(np.concatenate([exact.numbers, exact.numbers**2], axis=0)))
    one = replace(
        value,
        data=value.data[:1],
        scale=None if value.scale is None else value.scale[:1],
        sign=None if value.sign is None else value.sign[:1],
    )
    assert spread(one, 1) is one
    assert_is(spread(one, 3), Exact(np.concatenate([exact.numbers[:1]] * 3)))
    assert scale_of(value).shape == (NODES, *BATCH)


@pytest.mark.parametrize("powers", [10, 3000])
def test_values_live_where_their_arrays_do(xp, powers):
    move = Place(xp).move
    rng = np.random.default_rng(4)
    exact = Exact(dyadic(rng, SHAPE, powers, signed=True))
    logs, sign = exact.logs()
    value = from_log(move(logs), BATCH, move(sign))
    weights, _ = random_weights(rng, UNITS[0], 20, True)
    stack = weights_of(move(weights.astype(float)))
    result = times(applied(value, stack, 1), value)
    result = applied(result, weights_of(weights[0].astype(float)), 1)  # weights on the host
    assert type(result.data) is type(move(np.ones(1)))
    one = np.concatenate([weights[:1]] * NODES)
    assert_is(result, (exact.weighted(weights, 1) * exact).weighted(one, 1))


@pytest.mark.parametrize("powers", [2, 3000])
def test_gradients_flow_through_all_forms(powers):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    logs = torch.tensor(rng.normal(0, powers, size=(1, 4)), requires_grad=True)
    matrix = torch.tensor(rng.uniform(0.5, 1.5, size=(2, 4)), requires_grad=True)

    def f(logs, matrix):
        value = applied(from_log(logs, (1,)), weights_of(matrix), 1)
        return to_log(times(value, value)).data

    assert torch.autograd.gradcheck(f, (logs, matrix), eps=1e-4, atol=1e-5)


def test_sparse_products_of_many_rows_equal_those_of_single_ones():
    rng = np.random.default_rng(0)
    matrix = sparse.random_array((30, 700), density=0.01, rng=rng, format="csr")
    rows = rng.random((1, 900, 700))
    found = weighted(plain(rows, (1, 1)), weights_of(matrix), 2).data
    assert_close(found[0], rows[0] @ matrix.toarray().T)
    some = weighted(plain(rows[:, 5:6], (1, 1)), weights_of(matrix), 2).data
    assert np.array_equal(some[0, 0], found[0, 5])
