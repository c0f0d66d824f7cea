"""Estimates of partition functions, against exact ones and fixed points of the bridge."""

import numpy as np
import pytest
from scipy.signal import lfilter

import expectedkernels as ek
from assertions import refusals
from expectedkernels.stein.bridge import _bridge, _mean_variance
from factor_graphs import equal_chain


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


@pytest.mark.parametrize(("memory", "least"), [(0.0, 1.0), (0.7, 0.9), (0.95, 0.75)])
def test_variances_of_means_of_chains(memory, least):
    rng, n, found = np.random.default_rng(1), 500, []
    for _ in range(200):
        noise = rng.normal(size=n)
        noise[0] /= np.sqrt(1 - memory**2)
        x = lfilter([1.0], [1.0, -memory], noise)
        found.append(_mean_variance(x, np.full(n, 1 / n), True))
    lags = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    exact = (memory**lags).mean() / (1 - memory**2)
    # the larger of three estimates is too large if values are independent, and a fifth too small
    # where the longest memory leaves about a dozen independent ones
    assert least * exact < np.mean(found) < 1.5 * exact


GRID = ek.ising_grid(3, 3, rng=1)
SAMPLES = ek.gibbs(GRID, 600, burn_in=50, thin=5, rng=0, progress=False)


def test_a_perfect_proposal_has_no_error():
    circuit, log_z = GRID.compile()
    found = ek.log_partition_estimate(GRID, SAMPLES, proposal=circuit, rng=0)
    assert found.log_z == pytest.approx(log_z, abs=1e-9)
    assert found.standard_error == pytest.approx(0.0, abs=1e-9)


def test_large_constants_do_not_matter():
    shifted = ek.Target(lambda X: GRID.log_score(X) + 1e4, GRID.cardinalities)
    plain, found = (ek.log_partition_estimate(x, SAMPLES, rng=0) for x in (GRID, shifted))
    assert found.log_z - 1e4 == pytest.approx(plain.log_z, abs=1e-8)
    assert found.standard_error == pytest.approx(plain.standard_error, rel=1e-6)


@pytest.mark.parametrize("weights", [None, "default"])
def test_intervals_hold_the_truth(weights):
    truth, held, errors = GRID.log_partition(), 0, []
    for seed in range(10):
        samples = ek.gibbs(GRID, 200, burn_in=50, thin=5, rng=seed, progress=False)
        found = ek.log_partition_estimate(GRID, samples, weights=weights, rng=seed)
        low, high = found.interval(0.99)
        held += low < truth < high
        errors.append(found.log_z - truth)
    assert held >= 9
    assert np.sqrt(np.mean(np.square(errors))) < 0.15


def points(rng):
    """Nearly all mass at one state."""
    return ek.FactorGraph([2] * 5, [((v,), [1.0, 4e-3 * rng.exponential()]) for v in range(5)])


def sharp(rng):
    """A grid with strong interactions: a few states have nearly all mass."""
    grid = ek.ising_grid(2, 3, rng=rng)
    return ek.FactorGraph(grid.cardinalities, [(f.scope, f.table**6) for f in grid.factors])


def fields(rng):
    """An Ising model with strong fields."""
    chain = equal_chain(8, np.exp([[0.8, -0.8], [-0.8, 0.8]]))
    fields = [((v,), np.exp(rng.normal(size=2))) for v in range(8)]
    return ek.FactorGraph([2] * 8, [*chain.factors, *fields])


@pytest.mark.parametrize("n", [20, 60])
@pytest.mark.parametrize("model", [points, sharp, fields])
@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.filterwarnings("ignore:Samples of the target and of the proposal hardly")
def test_intervals_hold_the_truth_of_concentrated_targets(model, n, uniform):
    held, told, runs = 0, 0, 120
    for seed in range(runs):
        target = model(np.random.default_rng(seed))
        proposal = ek.factorized([[0.5, 0.5]] * target.n_variables) if uniform else None
        samples = target.sample(n, rng=seed)
        found = ek.log_partition_estimate(target, samples, proposal=proposal, rng=seed)
        assert found.standard_error > 0
        if np.isfinite(found.standard_error):
            low, high = found.interval(0.95)
            held += low <= target.log_partition() <= high
            told += 1
    assert held >= 0.93 * told
    assert told >= (0.4 if uniform else 1.0) * runs


def test_equal_samples_do_not_show_that_nothing_else_is_possible():
    certain = ek.FactorGraph([2] * 3, [((v,), [1.0, 1e-9]) for v in range(3)])
    for seed in range(10):
        found = ek.log_partition_estimate(certain, np.zeros((40, 3)), rng=seed)
        assert 0.03 < found.standard_error < 0.3
        assert found.log_z == pytest.approx(0.0, abs=2 * found.standard_error)


def test_a_proposal_that_does_not_meet_the_samples_tells_nothing():
    certain = ek.FactorGraph([2] * 20, [((v,), [1.0, 1e-3]) for v in range(20)])
    proposal = ek.factorized([[0.5, 0.5]] * 20)
    message = r"hardly overlap .* of 40\), .* cannot be estimated. Give"
    with pytest.warns(RuntimeWarning, match=message):
        found = ek.log_partition_estimate(certain, np.zeros((40, 20)), proposal=proposal, rng=0)
    assert found.standard_error == np.inf
    assert found.interval() == (-np.inf, np.inf)


def test_circuits_and_networks_are_targets():
    p = ek.factorized([[2.0, 6.0], [1.0, 1.0]], normalized=False)
    X = p.normalize().sample(100, rng=0)
    assert ek.log_partition_estimate(p, X, rng=0).log_z == pytest.approx(np.log(16.0), abs=0.05)
    network = ek.asia()
    X = network.sample(300, rng=0)
    assert ek.log_partition_estimate(network, X, rng=0).log_z == pytest.approx(0.0, abs=0.3)


def test_weights_count():
    rng = np.random.default_rng(0)
    X = rng.integers(2, size=(4000, 9))
    weights = np.exp(GRID.log_score(X) - GRID.log_score(X).max())
    q = ek.factorized([[0.5, 0.5]] * 9)
    found = ek.log_partition_estimate(GRID, X, proposal=q, weights=weights, rng=1)
    assert found.log_z == pytest.approx(GRID.log_partition(), abs=4 * found.standard_error)
    weighted = ek.WeightedSamples(GRID, X, weights / weights.sum())
    assert ek.log_partition_estimate(GRID, weighted, proposal=q, rng=1) == pytest.approx(found)


test_what_does_not_fit_is_refused = refusals(None, [
    ({"weights": "raw"}, ek.DataError, r"'weights' parameter .* must be 'default'"),
    ({"weights": [1.0]}, ek.DataError, r"600 numbers .* Got an array of shape \(1,\)"),
    ({"proposal": GRID}, ek.PropertyError, r"proposal must be a Circuit. Got FactorGraph"),
    ({"proposal": ek.factorized([[0.5, 0.5]] * 3)}, ek.PropertyError,
     r"must have the variables of the target"),
    ({"proposal": ek.factorized([[1.0, 0.0]] * 9)}, ek.DataError, r"row \d+ has probability zero"),
    ({"samples": SAMPLES[:5]}, ek.DataError, r"at least 20 samples"),
    ({"samples": np.full((20, 9), np.nan)}, ek.DataError, r"must be complete. Got NaN"),
    ({"target": SAMPLES, "samples": GRID}, ek.DataError, r"target and the samples are swapped"),
], lambda x: ek.log_partition_estimate(**{"target": GRID, "samples": SAMPLES} | x))  # fmt: skip
