"""Statistics, their errors, and draws under the hypothesis, against their definitions."""

import numpy as np
import pytest
from scipy import optimize, stats

import expectedkernels as ek
from assertions import assert_close
from benchmarks import levels
from expectedkernels.discrepancies.hypothesis_tests import (
    SamplingError,
    compare_scores,
    directed_error,
    mmd_errors,
    null_generator,
    null_sampler,
    random_signs,
    score_interval,
)
from expectedkernels.discrepancies.mmd import mean_embedding

K = ek.ExpHamming(0.7)


def test_p_values_are_those_of_student_if_nothing_is_skewed():
    values = np.array([-1.0, 0.5, 1.0, 1.5, 3.0])
    found = compare_scores(values, ("a", "b"))
    assert_close(found.p_value, stats.ttest_1samp(values, 0.0).pvalue)


@pytest.mark.parametrize("n", [10, 100, 1000])
def test_few_samples_that_differ_say_nothing(n):
    for few in [few for few in (1, 2, 3, 4) if few < n / 4]:
        found = compare_scores(np.where(np.arange(n) < few, 0.9, 1.0), ("a", "b"))
        assert (found.p_value, found.judged) == (1.0, False)
        assert "which is not judged: too few samples" in str(found)
    found = compare_scores(np.where(np.arange(n) < max(5, n // 10), 0.9, 1.0), ("a", "b"))
    assert found.judged
    assert found.p_value < 1e-3
    assert not compare_scores(np.r_[np.full(98, 1.0), 0.9, 1.1], ("a", "b")).judged


@pytest.mark.parametrize("expected", [2, 4, 6, 10])
def test_rare_differences_keep_all_levels(expected):
    """Of 100 samples so many are expected in rare states, without which the difference is wrong."""
    rng, repeats, share = np.random.default_rng(expected), 4000, expected / 100
    rare = rng.random((repeats, 100)) < share
    for sizes in (np.ones(rare.shape), rng.exponential(size=rare.shape)):
        values = np.where(rare, sizes, 0.0) - share
        differ = values[np.ptp(values, axis=1) > 0]  # otherwise it is an error
        found = np.array([compare_scores(row, ("a", "b")).p_value for row in differ])
        for level in (0.05, 0.01, 0.001):
            assert np.sum(found <= level) / repeats <= level + 3 * np.sqrt(level / repeats)


def test_chains_have_the_distribution_of_the_samples():
    """Whatever the hub is: the samples and the ends of chains are exchangeable."""
    p = ek.FactorGraph([2, 3], [([0, 1], [[5.0, 1.0, 0.0], [1.0, 1.0, 8.0]])])
    rng = np.random.default_rng(3)
    X = p.sample(20000, rng)
    kind, draw = null_sampler(p, X, "gibbs", rng)
    [Y] = draw(1)
    assert kind == "gibbs"
    table = np.zeros((6, 6))
    np.add.at(table, tuple((Z @ [3, 1]).astype(int) for Z in (X, Y)), 1.0 / len(X))
    np.testing.assert_allclose(table, table.T, atol=0.012)
    np.testing.assert_allclose(table.sum(axis=0), table.sum(axis=1), atol=0.012)


@pytest.mark.parametrize(("change", "apart"), [(0.5, 1), (0.1, 5), (0.3, 2)])
def test_samples_next_to_each_other_are_not_compared(change, apart):
    p, _ = ek.ising_grid(2, 3, rng=0).compile()
    X, n = p.sample(30, rng=0), 30
    H = ek.SteinKernel(p, ek.ExpHamming(), operator="gibbs")(X)
    far = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) >= apart
    test = ek.kdsd_test(X, p, null="signs", change=change, n_null=7, rng=0)
    signs = random_signs(null_generator(0), 7, n, change)
    assert_close(test.statistic, H[far].mean(), scale=1.0)
    wanted = [(np.outer(s, s) * H)[far].mean() for s in signs]
    np.testing.assert_allclose(test.null, wanted, atol=1e-14)


def test_networks_are_sampled_from_their_roots_down():
    # no circuit is needed: a network in which every pair of variables has a common child
    rng = np.random.default_rng(1)
    parents = [[]] * 40 + [rng.choice(40, 8, replace=False).tolist() for _ in range(60)]
    cpts = [rng.dirichlet([1.0, 1.0], size=(2,) * len(p)) for p in parents]
    wide = ek.BayesianNetwork(parents, cpts)
    kind, draw = null_sampler(wide, np.zeros((5, 100)), "model", rng)
    assert (kind, draw(2).shape) == ("model", (2, 5, 100))


def test_noise_is_that_of_the_definition():
    p, q = ek.factorized([[0.5, 0.5], [0.3, 0.7]]), ek.factorized([[0.6, 0.4], [0.5, 0.5]])
    X, n = q.sample(12, rng=0), 12
    centre = np.eye(n) - np.full((n, n), 1 / n)
    C = centre @ K(X) @ centre
    _, noise = mmd_errors(mean_embedding(p), K, X)
    assert_close(noise.mean, np.trace(C) / (n * (n - 1)))
    off = C - np.diag(np.diag(C))
    assert_close(noise.variance, 2 * (off**2).sum() / (n * (n - 1) ** 3))
    # simulated samples show noise where samples show none
    noise = directed_error(0.0, 0.0, SamplingError(0.0, 0.0, 30), np.array([-0.02, 0.02]))
    assert_close(noise.variance, 4e-4)
    assert score_interval(0.0, noise, 0.9)[1] > 0.02


@pytest.mark.parametrize("d", [1, 3, 10])
@pytest.mark.parametrize("found", [0.5, 4.0, 60.0])
def test_ends_are_those_of_a_normal_vector(d, found):
    """Errors alike in d directions make a noncentral chi-squared variable."""
    low, high = score_interval(found, SamplingError(d, 2.0 * d, 10**7, 1.0), 0.9)

    def end(tail):
        def excess(theta2):
            return stats.ncx2.cdf(found + d, d, theta2) - tail

        return optimize.brentq(excess, 1e-9, 1e3) if excess(1e-9) > 0 else 0.0

    np.testing.assert_allclose([low, high], [end(0.95), end(0.05)], atol=0.03 * np.sqrt(found + d))


@pytest.mark.parametrize("power", [False, True])
def test_the_campaign_prints_a_line_for_every_test(power, capsys):
    levels.levels(repeats=2, n=[10], models=["rare bits"], power=power)
    _, title, header, *lines = capsys.readouterr().out.splitlines()
    assert title == f"{'rejected' if power else 'level'} at 5 %, 2 repetitions"
    assert header.split() == list(levels.COLUMNS)
    wanted = sum(len(forms) for _, forms in levels.TESTS.values()) - 2 * power  # trees fit trees
    assert len(lines) == wanted
    assert all(line.startswith("  rare bits") and " % " in line for line in lines)


@pytest.mark.parametrize("name", ["chain of 30", "weak grid", "strong grid"])
def test_models_have_the_size_that_they_say(name):
    graph = levels.ground_of(name).forms["graph"]
    assert graph.n_variables == (30 if name == "chain of 30" else 25)
    other = levels.changed(graph, 0.1)
    assert [f.scope for f in other.factors] == [f.scope for f in graph.factors]


@pytest.mark.parametrize(("n", "distance"), [(30, 2.0), (100, 3.0), (100, 0.0), (30, 8.0)])
def test_intervals_hold_the_truth_at_every_distance(n, distance):
    both, low, high, _ = levels.shares(ek.ExpHamming(), 1, n, distance, 1, 120, 0.9)
    assert min(low, high) >= 95 - 3 * 2.0
    assert both >= 90 - 3 * 2.8


def test_the_campaign_prints_a_line_for_every_case(capsys):
    levels.coverage(repeats=2, n=[10], dimensions=[1, 2], distances=[0.0, 1.0])
    _, title, heads, *lines = capsys.readouterr().out.splitlines()
    assert title == "Intervals of 95 %, 2 repetitions"
    assert heads.split() == " ".join(levels.HEADS).split()
    assert len(lines) == 4 * (2 + 3)
