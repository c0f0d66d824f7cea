from fractions import Fraction
from math import exp, prod

import numpy as np

import expectedkernels as ek
from expectedkernels.experiments.digits import cluster_frequencies, digit_images, fit_mixture


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
    loss = 1 - Fraction(exp(-0.1))  # a pixel that differs multiplies the kernel by 1 - loss
    total = sum(
        v * w * prod(1 - loss * (a + b - 2 * a * b) for a, b in zip(x, y, strict=True))
        for v, x in components[0]
        for w, y in components[1]
    )
    exact = ek.expected_kernel(fit_mixture(X, 3), fit_mixture(Y, 2), ek.RBF(gamma=0.1))
    np.testing.assert_allclose(exact, float(total), rtol=1e-13)
