from fractions import Fraction
from math import exp, prod

import numpy as np
import pytest

import expectedkernels as ek
from expectedkernels.experiments.demo import (
    GAMMA,
    cluster_frequencies,
    digit_images,
    fit_mixture,
    run,
    table,
)


@pytest.fixture(scope="module")
def result():
    return run(seed=0, max_samples=1000, n_components=4)


def test_circuits_are_normalised_and_share_a_vtree(result):
    np.testing.assert_allclose([result.p.log_partition(), result.q.log_partition()], 0, atol=1e-9)
    assert ek.is_compatible(result.p, result.q)


def test_a_mixture_fits_better_than_independent_pixels():
    X = digit_images(8)
    one, eight = (fit_mixture(X, n).log_likelihood(X).mean() for n in (1, 8))
    assert eight > one


def test_exact_value_is_that_of_the_double_sum_in_rational_arithmetic():
    X, Y = digit_images(3), digit_images(8)
    components = []
    for images, n in ((X, 3), (Y, 2)):
        shares, white = cluster_frequencies(images, n)
        rational = [[Fraction(w) for w in row] for row in white.tolist()]
        components.append(list(zip(map(Fraction, shares.tolist()), rational, strict=True)))
    loss = 1 - Fraction(exp(-GAMMA))  # a pixel that differs multiplies the kernel by 1 - loss
    total = sum(
        v * w * prod(1 - loss * (a + b - 2 * a * b) for a, b in zip(x, y, strict=True))
        for v, x in components[0]
        for w, y in components[1]
    )
    exact = ek.expected_kernel(fit_mixture(X, 3), fit_mixture(Y, 2), ek.RBF(gamma=GAMMA))
    np.testing.assert_allclose(exact, float(total), rtol=1e-13)


def test_monte_carlo_agrees_with_the_exact_value(result):
    for estimate in result.estimates:
        assert abs(estimate.value - result.exact) < 5 * estimate.standard_error


def test_same_seed_same_numbers(result):
    again = run(seed=0, max_samples=1000, n_components=4)
    assert again.exact == result.exact
    assert [e.value for e in again.estimates] == [e.value for e in result.estimates]


def test_table_has_a_row_per_estimate_and_columns_that_line_up(result):
    rows = [row for row in table(result).splitlines() if row.startswith(("exact", "Monte"))]
    assert len(rows) == 3
    assert len({len(row) for row in rows}) == 1
