"""The expected kernel of mixtures of pixels is the double sum, in rational arithmetic."""

from fractions import Fraction
from math import exp, prod

import numpy as np
from sklearn.datasets import load_digits

import expectedkernels as ek


def groups_of_images(digit, n_groups):
    """Images of a digit as rows of bits, in groups that hold the more the later they come."""
    X, y = load_digits(return_X_y=True)
    X = (X[y == digit] >= 8).astype(int)
    ends = len(X) * np.arange(1, n_groups) ** 2 // n_groups**2
    return np.split(X, ends)


def mixture_of_groups(groups):
    """The mixture with one component of independent pixels per group, and what it is made of."""
    shares = [len(group) / sum(map(len, groups)) for group in groups]
    white = [(group.sum(axis=0) + 0.5) / (len(group) + 1) for group in groups]
    parts = [ek.factorized(np.stack([1 - w, w], axis=1)) for w in white]
    rational = [[Fraction(w) for w in row.tolist()] for row in white]
    return ek.mixture(parts, shares), list(zip(map(Fraction, shares), rational, strict=True))


def test_exact_value_is_that_of_the_double_sum_in_rational_arithmetic():
    p, of_p = mixture_of_groups(groups_of_images(3, 3))
    q, of_q = mixture_of_groups(groups_of_images(8, 2))
    loss = 1 - Fraction(exp(-0.1))  # a pixel that differs multiplies the kernel by 1 - loss
    total = sum(
        v * w * prod(1 - loss * (a + b - 2 * a * b) for a, b in zip(x, y, strict=True))
        for v, x in of_p
        for w, y in of_q
    )
    exact = ek.expected_kernel(p, q, ek.RBF(gamma=0.1))
    np.testing.assert_allclose(exact, float(total), rtol=1e-13)
