"""The factor of a kernel that is known: its value at observed columns."""

import numpy as np
import pytest

import expectedkernels as ek
from expectedkernels.estimators.prediction import coded_density
from expectedkernels.estimators.rows import Rows
from expectedkernels.estimators.sections import observed_kernel


@pytest.mark.parametrize("away", [0.0, 1e2, 1e4, 1e6, 1e9, 1e200])
def test_remote_rows_keep_the_digits_of_small_distances(away):
    # around zero, and around a place where squares have no digits left for small distances
    rng = np.random.default_rng(0)
    p = ek.gaussian_mixture([1.0], [[0.0, 0.0]], [[1.0, 1.0]])
    points = rng.normal(size=(12, 2))
    points[6:] += away
    Z = np.vstack([points[::2] + rng.normal(size=(6, 2)), points[::3]])
    Z[::4, 1] = np.nan
    rates = np.array([0.5, 0.8])
    got = observed_kernel(rates, Rows(coded_density(p, 2), Z), np.arange(len(Z)), points)
    with np.errstate(over="ignore"):
        squares = np.nan_to_num(rates * (Z[:, None] - points[None]) ** 2, posinf=np.inf)
    expected = np.exp(-squares.sum(axis=2))
    assert (expected[Z[:, 0] >= away - 9] > 1e-6).any()
    np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-100)
