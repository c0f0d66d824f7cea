"""The fixed point of bridge sampling and its variance, from logs of two samples."""

import numpy as np
import pytest

from expectedkernels.stein.bridge import _bridge, _mean_variance


def iterated(ours, theirs):
    """The fixed point of Meng and Wong, iterated as it is written."""
    share, z = len(ours) / (len(ours) + len(theirs)), 1.0
    ours, theirs = np.exp(ours), np.exp(theirs)
    for _ in range(2000):
        above = (theirs / (share * theirs + (1 - share) * z)).mean()
        z = above / (1.0 / (share * ours + (1 - share) * z)).mean()
    return np.log(z)


@pytest.mark.parametrize("sizes", [(50, 50), (30, 90)])
def test_the_estimate_is_the_fixed_point_of_the_bridge(sizes):
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(1.0, 0.5, sizes[0]), rng.normal(0.5, 0.5, sizes[1])
    found = _bridge(ours, np.full(sizes[0], 1 / sizes[0]), theirs)
    assert found.log_z == pytest.approx(iterated(ours, theirs), abs=1e-10)


def test_intervals_of_other_targets_do_not_become_wider():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        ours, theirs = rng.normal(0.1, 0.7, 150), rng.normal(-0.1, 0.7, 150)
        widened, plain = (_bridge(ours, np.full(150, 1 / 150), theirs, x) for x in (False, True))
        assert plain.standard_error < widened.standard_error < 1.03 * plain.standard_error


def test_dependent_samples_count_for_less():
    values = np.random.default_rng(0).normal(size=400)
    equal = np.full(400, 1 / 400)
    assert _mean_variance(values, equal, False) == pytest.approx(1 / 400, rel=0.2)
    assert _mean_variance(values, equal, True) == pytest.approx(1 / 400, rel=0.4)
    repeated = np.repeat(values[:40], 10)
    assert _mean_variance(repeated, equal, True) == pytest.approx(1 / 40, rel=0.5)


@pytest.mark.parametrize(("memory", "least"), [(0.0, 1.0), (0.7, 0.9), (0.95, 0.75)])
def test_variances_of_means_of_chains(memory, least):
    rng, n, found = np.random.default_rng(1), 500, []
    for _ in range(200):
        noise, x = rng.normal(size=n), np.zeros(n)
        x[0] = noise[0] / np.sqrt(1 - memory**2)
        for i in range(1, n):
            x[i] = memory * x[i - 1] + noise[i]
        found.append(_mean_variance(x, np.full(n, 1 / n), True))
    lags = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    exact = (memory**lags).mean() / (1 - memory**2)
    # the larger of three estimates is too large if values are independent, and a fifth too small
    # where the longest memory leaves about a dozen independent ones
    assert least * exact < np.mean(found) < 1.5 * exact
