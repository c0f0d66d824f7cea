"""Normal distributions and mixtures learned from incomplete rows."""

import numpy as np
from threadpoolctl import ThreadpoolController

from expectedkernels.learning.normals import (
    OneThread,
    fit_mixture,
    fit_normal,
    kernel_mixture,
    log_likelihood,
)


def test_learning_with_holes_never_lowers_the_likelihood():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(80, 3)) @ rng.normal(size=(3, 3))
    whole = fit_normal(Z)
    np.testing.assert_allclose(whole.means[0], Z.mean(axis=0))
    Z[rng.random(Z.shape) < 0.3] = np.nan
    logs = [log_likelihood(fit_normal(Z, steps=n, tolerance=0), Z).mean() for n in range(1, 12)]
    assert (np.diff(logs) > -1e-3).all()
    mixture = fit_mixture(Z, 2, rng=rng)
    assert log_likelihood(mixture, Z).mean() > logs[0]


def test_kernel_mixtures_keep_mean_and_covariance():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 2))
    normal = fit_normal(Z)
    found = kernel_mixture(Z, normal, 0.6, rng)
    np.testing.assert_allclose(found.weights @ found.means, normal.means[0], atol=1e-12)
    away = found.means - normal.means[0]
    total = found.covariances[0] + (found.weights[:, None] * away).T @ away
    np.testing.assert_allclose(total, normal.covariances[0], rtol=0.1, atol=0.05)


def blas_threads():
    found = ThreadpoolController().select(user_api="blas").info()
    return [library["num_threads"] for library in found]


def test_the_limit_on_threads_is_lifted_by_the_last_that_leaves():
    before, limit = blas_threads(), OneThread()
    limit.__enter__()
    limit.__enter__()
    assert set(blas_threads()) == {1}
    limit.__exit__()
    assert set(blas_threads()) == {1}
    limit.__exit__()
    assert blas_threads() == before
