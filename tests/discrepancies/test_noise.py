import numpy as np
import pytest
from scipy import optimize, stats

import expectedkernels as ek
from assertions import assert_close
from benchmarks import coverage
from expectedkernels.discrepancies.embeddings import mmd_noise, summable
from expectedkernels.discrepancies.noise import Noise, noise_between, score_interval

K = ek.ExpHamming(0.7)


def test_noise_is_that_of_the_definition():
    p, q = ek.factorized([[0.5, 0.5], [0.3, 0.7]]), ek.factorized([[0.6, 0.4], [0.5, 0.5]])
    X, n = q.sample(12, rng=0), 12
    centre = np.eye(n) - np.full((n, n), 1 / n)
    C = centre @ K(X) @ centre
    _, noise = mmd_noise(summable(p), K, X)
    assert_close(noise.mean, np.trace(C) / (n * (n - 1)))
    assert_close(
        noise.variance, 2 * (C - np.diag(np.diag(C))).__pow__(2).sum() / (n * (n - 1) ** 3)
    )


@pytest.mark.parametrize("d", [1, 3, 10])
@pytest.mark.parametrize("found", [0.5, 4.0, 60.0])
def test_ends_are_those_of_a_normal_vector(d, found):
    """Errors alike in d directions make a noncentral chi-squared variable."""
    low, high = score_interval(found, Noise(d, 2.0 * d, 10**7, 1.0), 0.9)

    def end(tail):
        def excess(theta2):
            return stats.ncx2.cdf(found + d, d, theta2) - tail

        return optimize.brentq(excess, 1e-9, 1e3) if excess(1e-9) > 0 else 0.0

    np.testing.assert_allclose([low, high], [end(0.95), end(0.05)], atol=0.03 * np.sqrt(found + d))


def test_samples_that_are_all_alike_do_not_make_an_interval_of_one_point():
    p, delta = ek.factorized([[0.7, 0.3]]), ek.Delta()
    for n_null in (1, 19):
        low, high = ek.mmd_test(np.ones((30, 1)), p, delta, n_null=n_null, rng=0).interval()
        truths = [ek.mmd2(p, ek.factorized([[1 - a, a]]), delta) for a in (0.96, 1.0)]
        assert low < min(truths)
        assert max(truths) < high
    # what simulated samples show, if the samples show nothing
    noise = noise_between(0.0, 0.0, Noise(0.0, 0.0, 30), np.array([-0.02, 0.02]))
    assert_close(noise.variance, 4e-4)
    assert score_interval(0.0, noise, 0.9)[1] > 0.02


@pytest.mark.parametrize(("n", "distance"), [(30, 2.0), (100, 3.0), (100, 0.0), (30, 8.0)])
def test_intervals_hold_the_truth_at_every_distance(n, distance):
    case = coverage.Case("bits", "ExpHamming()", 1, n, distance, "one")
    both, low, high, _ = coverage.shares(case, 120, 0.9)
    assert min(low, high) >= 95 - 3 * 2.0
    assert both >= 90 - 3 * 2.8


def test_the_campaign_prints_a_line_for_every_case(capsys):
    coverage.main(
        ["--repeats", "2", "--n", "10", "--dimensions", "1", "2", "--distances", "0", "1"]
    )
    title, *lines = capsys.readouterr().out.splitlines()
    assert title == "Intervals of 95 %, 2 repetitions"
    assert len(lines) == 6 * (2 + 3)
    assert all("errors away" in line and "length" in line for line in lines)
