"""The kernel on points, intervals and normals against numerical integration."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.integrate import dblquad, quad

from expectedkernels.circuits.sides import Atoms
from expectedkernels.kernels.gaussian import at_known, on_atoms


def mean_over(f, low, high):
    if low == high:
        return f(low)
    kinks = np.linspace(low, high, 9)[1:-1]
    return quad(f, low, high, points=kinks, epsabs=1e-14, limit=400)[0] / (high - low)


def intervals(low, high):
    low, high = np.array(low, dtype=float), np.array(high, dtype=float)
    return Atoms(None, 0.5 * (low + high), np.zeros_like(low), 0.5 * (high - low))


def interval(low, high):
    return intervals([low], [high])


def at(*values):
    return Atoms(None, np.array(values, dtype=float), np.zeros(len(values)))


ends = st.tuples(st.floats(-3, 3), st.floats(0, 5) | st.just(0.0) | st.floats(1e-9, 1e-3)).map(
    lambda x: (x[0], x[0] + x[1])
)
rates = st.floats(1e-4, 1e3)


@given(rates, ends, st.floats(-4, 4))
def test_sections_are_means_over_intervals(rate, ends, centre):
    expected = mean_over(lambda x: np.exp(-rate * (x - centre) ** 2), *ends)
    got = on_atoms(np.array([rate]), interval(*ends), at(centre))
    np.testing.assert_allclose(got, [[expected]], rtol=1e-9, atol=1e-13)


@given(st.floats(1e-3, 20), ends, ends)
def test_pairs_of_intervals(rate, a, b):
    def inner(y):
        return mean_over(lambda x: np.exp(-rate * (x - y) ** 2), *a)

    got = on_atoms(np.array([rate]), interval(*a), interval(*b))
    np.testing.assert_allclose(got, [[mean_over(inner, *b)]], rtol=1e-8, atol=1e-11)
    back = on_atoms(np.array([rate]), interval(*b), interval(*a))
    np.testing.assert_allclose(got, back.T, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("rate", [0.01, 1.0, 3e4])
@pytest.mark.parametrize("landmarks", ["points", "intervals"])
def test_triples(rate, landmarks):
    low, high = np.array([0.0, 1.0, 0.5]), np.array([1.0, 1.0, 0.75])
    u, ends = intervals(low, high), np.array([0.2, 0.9])
    a = at(*ends) if landmarks == "points" else intervals(ends, ends + 0.4)
    got = on_atoms(np.array([rate]), u, a, a)
    for i in range(3):
        for j in range(2):
            for k in range(2):

                def f(x, j=j, k=k):
                    values = on_atoms(np.array([rate]), at(x), a)[0]
                    return values[j] * values[k]

                expected = mean_over(f, low[i], high[i])
                np.testing.assert_allclose(got[i, j, k], expected, rtol=1e-8, atol=1e-10)


def test_columns_multiply():
    a, b = (
        Atoms(None, x, np.zeros_like(x))
        for x in (np.array([[0.0, 1.0], [2.0, 3.0]]), np.ones((1, 2)))
    )
    rates = np.array([0.3, 0.7])
    np.testing.assert_allclose(on_atoms(rates, a, b)[:, 0], np.exp([-0.3, -0.3 - 0.7 * 4]))
    np.testing.assert_allclose(on_atoms(rates, a, b, b)[:, 0, 0], np.exp([-0.6, -0.6 - 1.4 * 4]))


def test_normals_against_integration():
    rate = 0.8
    u, a = (Atoms(None, np.array([m]), np.array([v])) for m, v in ((0.3, 0.5), (1.0, 0.7)))

    def density(x, d):
        return np.exp(-((x - d.mean[0]) ** 2) / (2 * d.variance[0])) / np.sqrt(
            2 * np.pi * d.variance[0]
        )

    def k(x, y):
        return np.exp(-rate * (x - y) ** 2)

    both = dblquad(lambda y, x: density(x, u) * density(y, a) * k(x, y), -9, 9, -9, 9)[0]
    np.testing.assert_allclose(on_atoms(np.array([rate]), u, a), [[both]], rtol=1e-7)
    three = dblquad(lambda y, x: density(x, u) * density(y, a) * k(x, y) * k(x, -0.4), -9, 9, -9, 9)
    np.testing.assert_allclose(
        on_atoms(np.array([rate]), u, a, at(-0.4)), [[[three[0]]]], rtol=1e-7
    )


def test_zero_rates_give_ones():
    pieces = interval(0.0, 1.0)
    np.testing.assert_array_equal(on_atoms(np.zeros(1), pieces, pieces), [[1.0]])
    np.testing.assert_array_equal(on_atoms(np.zeros(1), pieces, pieces, pieces), [[[1.0]]])


def test_intervals_that_are_wide_for_the_kernel():
    ends = np.array([[0.0, 100.0], [50.0, 5000.0], [200.0, 300.0], [20.0, 21.0], [60.0, 60.0]])
    pieces = intervals(*ends.T)
    got = on_atoms(np.array([1.0]), pieces, pieces)
    np.testing.assert_allclose(got, got.T, rtol=1e-9, atol=1e-15)
    for i, (low, high) in enumerate(ends):
        for j, (a, b) in enumerate(ends):
            nodes = np.linspace(low, high, 20001) if high > low else np.array([low])
            means = on_atoms(np.ones(1), interval(a, b), at(*nodes))[0]
            expected = np.trapezoid(means, nodes) / (high - low) if high > low else means[0]
            np.testing.assert_allclose(got[i, j], expected, rtol=1e-4, atol=1e-12)


def test_intervals_of_outliers_stay_small_in_memory():
    edges = np.array([-1.0, 0.0, 1.0, 1e300])
    bins = intervals(edges[:-1], edges[1:])
    values = on_atoms(np.array([1.0]), bins, bins, at(0.5, -1e300))
    assert values.shape == (3, 3, 2)
    assert ((values >= 0) & (values <= 1)).all()


def test_values_beside_pieces():
    both = Atoms(None, np.array([0.5, 0.5, 2.0]), np.zeros(3), np.array([0.5, 0.0, 0.0]))
    values = on_atoms(np.ones(1), both, at(0.5))[:, 0]
    np.testing.assert_allclose(values[1:], [1.0, np.exp(-2.25)])
    np.testing.assert_array_equal(values[:1], on_atoms(np.ones(1), interval(0.0, 1.0), at(0.5))[0])


def test_triples_of_intervals_that_are_wide_for_the_kernel():
    # in closed form, and by panels of the first interval in parts
    s = at(0.3, 7.0)
    whole = on_atoms(np.array([40.0]), interval(0.0, 16.0), s, s)[0]
    parts = [on_atoms(np.array([40.0]), interval(i, i + 1.0), s, s)[0] for i in range(16)]
    np.testing.assert_allclose(whole, np.mean(parts, axis=0), rtol=1e-11)


@pytest.mark.parametrize("away", [0.0, 1e2, 1e4, 1e6, 1e9, 1e200])
def test_remote_rows_keep_the_digits_of_small_distances(away):
    # around zero, and around a place where squares have no digits left for small distances
    rng = np.random.default_rng(0)
    points = rng.normal(size=(12, 2))
    points[6:] += away
    Z = np.vstack([points[::2] + rng.normal(size=(6, 2)), points[::3]])
    Z[::4, 1] = np.nan
    rates = np.array([0.5, 0.8])
    got = at_known(rates, Z, ~np.isnan(Z), points)
    with np.errstate(over="ignore"):
        squares = np.nan_to_num(rates * (Z[:, None] - points[None]) ** 2, posinf=np.inf)
    expected = np.exp(-squares.sum(axis=2))
    assert (expected[Z[:, 0] >= away - 9] > 1e-6).any()
    np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-100)
