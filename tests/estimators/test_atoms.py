"""The kernel on points, intervals and normals against numerical integration."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import dblquad, quad

from expectedkernels.estimators.atoms import Normals, Pieces, pair, section, triple


def mean_over(f, low, high):
    if low == high:
        return f(low)
    kinks = np.linspace(low, high, 9)[1:-1]
    return quad(f, low, high, points=kinks, epsabs=1e-14, limit=400)[0] / (high - low)


def interval(low, high):
    return Pieces(np.array([[low]]), np.array([[high]]))


ends = st.tuples(st.floats(-3, 3), st.floats(0, 5) | st.just(0.0) | st.floats(1e-9, 1e-3)).map(
    lambda x: (x[0], x[0] + x[1])
)
rates = st.floats(1e-4, 1e3)


@given(rates, ends, st.floats(-4, 4))
def test_sections_are_means_over_intervals(rate, ends, centre):
    expected = mean_over(lambda x: np.exp(-rate * (x - centre) ** 2), *ends)
    got = section(rate, np.array([ends[0]]), np.array([ends[1]]), np.array([centre]))
    np.testing.assert_allclose(got, [[expected]], rtol=1e-9, atol=1e-13)


@given(st.floats(1e-3, 20), ends, ends)
def test_pairs_of_intervals(rate, a, b):
    def inner(y):
        return mean_over(lambda x: np.exp(-rate * (x - y) ** 2), *a)

    got = pair(np.array([rate]), interval(*a), interval(*b))
    np.testing.assert_allclose(got, [[mean_over(inner, *b)]], rtol=1e-8, atol=1e-11)
    back = pair(np.array([rate]), interval(*b), interval(*a))
    np.testing.assert_allclose(got, back.T, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("rate", [0.01, 1.0, 3e4])
@pytest.mark.parametrize("landmarks", ["points", "intervals"])
def test_triples(rate, landmarks):
    u = Pieces(np.array([[0.0], [1.0], [0.5]]), np.array([[1.0], [1.0], [0.75]]))
    low = np.array([[0.2], [0.9]])
    a = Pieces(low, low if landmarks == "points" else low + 0.4)
    got = triple(np.array([rate]), u, a, a)
    for i in range(3):
        for j in range(2):
            for k in range(2):

                def f(x, j=j, k=k):
                    at = Pieces.points([[x]])
                    values = pair(np.array([rate]), at, a)[0]
                    return values[j] * values[k]

                expected = mean_over(f, u.low[i, 0], u.high[i, 0])
                np.testing.assert_allclose(got[i, j, k], expected, rtol=1e-8, atol=1e-10)


def test_columns_multiply():
    a, b = Pieces.points([[0.0, 1.0], [2.0, 3.0]]), Pieces.points([[1.0, 1.0]])
    rates = np.array([0.3, 0.7])
    np.testing.assert_allclose(pair(rates, a, b)[:, 0], np.exp([-0.3, -0.3 - 0.7 * 4]))
    np.testing.assert_allclose(triple(rates, a, b, b)[:, 0, 0], np.exp([-0.6, -0.6 - 1.4 * 4]))


def test_normals_against_integration():
    rate = 0.8
    u, a = Normals(np.array([0.3]), np.array([0.5])), Normals(np.array([1.0]), np.array([0.7]))
    z = Normals.points([-0.4])

    def density(x, d):
        return np.exp(-((x - d.mean[0]) ** 2) / (2 * d.variance[0])) / np.sqrt(
            2 * np.pi * d.variance[0]
        )

    def k(x, y):
        return np.exp(-rate * (x - y) ** 2)

    both = dblquad(lambda y, x: density(x, u) * density(y, a) * k(x, y), -9, 9, -9, 9)[0]
    np.testing.assert_allclose(pair(np.array([rate]), u, a), [[both]], rtol=1e-7)
    three = dblquad(lambda y, x: density(x, u) * density(y, a) * k(x, y) * k(x, -0.4), -9, 9, -9, 9)
    np.testing.assert_allclose(triple(np.array([rate]), u, a, z), [[[three[0]]]], rtol=1e-7)


def test_zero_rates_give_ones():
    pieces = interval(0.0, 1.0)
    np.testing.assert_array_equal(pair(np.zeros(1), pieces, pieces), [[1.0]])
    np.testing.assert_array_equal(triple(np.zeros(1), pieces, pieces, pieces), [[[1.0]]])


def test_intervals_that_are_wide_for_the_kernel():
    ends = np.array([[0.0, 100.0], [50.0, 5000.0], [200.0, 300.0], [20.0, 21.0], [60.0, 60.0]])
    pieces = Pieces(ends[:, :1], ends[:, 1:])
    got = pair(np.array([1.0]), pieces, pieces)
    np.testing.assert_allclose(got, got.T, rtol=1e-9, atol=1e-15)
    for i, (low, high) in enumerate(ends):
        for j, (a, b) in enumerate(ends):
            nodes = np.linspace(low, high, 20001) if high > low else np.array([low])
            means = section(1.0, np.array([a]), np.array([b]), nodes)[0]
            expected = np.trapezoid(means, nodes) / (high - low) if high > low else means[0]
            np.testing.assert_allclose(got[i, j], expected, rtol=1e-4, atol=1e-12)


def test_intervals_of_outliers_stay_small_in_memory():
    edges = np.array([-1.0, 0.0, 1.0, 1e300])
    bins = Pieces(edges[:-1, None], edges[1:, None])
    values = triple(np.array([1.0]), bins, bins, Pieces.points([[0.5], [-1e300]]))
    assert values.shape == (3, 3, 2)
    assert ((values >= 0) & (values <= 1)).all()
