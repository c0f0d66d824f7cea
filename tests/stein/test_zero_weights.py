"""Samples of weight zero, impossible and incomplete ones among them, are ignored everywhere."""

import warnings

import numpy as np
import pytest

import expectedkernels as ek

N, NAN = 60, np.nan


def model_with_zeros(rng):
    d = int(rng.integers(3, 6))
    cards = rng.integers(2, 4, size=d).tolist()
    factors = []
    for _ in range(d + 1):
        scope = rng.choice(d, size=int(rng.integers(1, 4)), replace=False).tolist()
        table = rng.gamma(1.0, size=[cards[v] for v in scope])
        table[rng.random(table.shape) < 0.3] = 0.0
        factors.append((scope, table))
    return ek.FactorGraph(cards, factors)


def campaign(budget, n_models):
    """Models, samples of `cis` of which some have weight zero, and the others alone."""
    seed = 0
    while n_models:
        seed += 1
        model = model_with_zeros(np.random.default_rng(seed))
        try:
            samples = ek.cis(model, N, budget, rng=seed)
        except ek.PropertyError:  # the model or all samples are impossible
            continue
        used = np.flatnonzero(samples.weights)
        complete = not np.isnan(samples.rows[used]).any()
        if 20 <= len(used) < N and (budget or complete):
            n_models -= 1
            logs = samples.log_weights[used]
            few = ek.WeightedSamples(
                model, samples.rows[used], samples.weights[used], log_weights=logs
            )
            yield model, samples, few, used


def assert_kept(found, expected, used):
    """All weights have those of the samples that count, and zeros for the others."""
    assert len(found) == N
    np.testing.assert_allclose(found[used], expected, rtol=1e-9, atol=1e-12)
    assert not np.delete(found, used).any()


@pytest.mark.parametrize("rule", ["default", "raw", "smoothed", "signed", "uniform"])
@pytest.mark.filterwarnings("ignore:Gibbs updates may not tell")
def test_weights_of_samples_with_weight_zero(rule):
    for model, samples, few, used in campaign(0, 15):
        found = ek.bbis(model, samples, weights=rule)
        expected = ek.bbis(model, few, weights=rule)
        assert_kept(found.weights, expected.weights, used)
        np.testing.assert_allclose(found.discrepancy, expected.discrepancy, rtol=1e-9, atol=1e-12)
        again = found.reweighted("raw")
        assert_kept(again.weights, expected.reweighted("raw").weights, used)
    for model, samples, few, used in campaign(2, 15):
        found = ek.collapsed_bbis(model, samples, weights=rule)
        expected = ek.collapsed_bbis(model, few, weights=rule)
        assert_kept(found.weights, expected.weights, used)
        for a, b in zip(found.marginals(), expected.marginals(), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore:Gibbs updates may not tell")
def test_samples_with_weight_zero_that_are_added_later():
    for model, samples, few, used in campaign(2, 8):
        start = ek.collapsed_bbis(model, few)
        found = start.extended(samples, log_weights=samples.log_weights).weights
        expected = start.extended(few, log_weights=few.log_weights).weights
        n = len(used)
        np.testing.assert_allclose(found[:n], expected[:n], rtol=1e-9, atol=1e-12)
        assert_kept(found[n:], expected[n:], used)


@pytest.mark.filterwarnings("ignore:Gibbs updates may not tell")
def test_thinning_and_discrepancies_ignore_samples_of_weight_zero():
    k = ek.ExpHamming()
    for model, samples, few, used in campaign(0, 20):
        chosen = ek.stein_thin(model, samples, 5)
        np.testing.assert_array_equal(chosen, used[ek.stein_thin(model, few, 5)])
        other = model.sample(20, rng=0)
        for found in (
            lambda x, model=model: ek.kdsd(x, model, operator="gibbs"),
            lambda x, model=model: ek.kdsd(x, model, operator="gibbs", unbiased=True),
            lambda x, model=model: ek.mmd2(x, model),
            lambda x, other=other: ek.mmd2(other, x, k),
            lambda x, model=model, other=other: ek.witness(x, model, k, other),
            lambda x, model=model: ek.log_partition_estimate(model, x, rng=0),
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                np.testing.assert_allclose(found(samples), found(few), rtol=1e-9, atol=1e-12)


def test_weights_that_are_given_leave_samples_out():
    grid = ek.ising_grid(3, 3, rng=0)
    rows = ek.gibbs(grid, 60, burn_in=10, thin=2, rng=0).astype(float)
    weights = np.ones(60)
    weights[::7] = 0.0
    few = rows[weights > 0]
    rows[::7] = NAN
    found = ek.log_partition_estimate(grid, rows, weights=weights, rng=0)
    np.testing.assert_allclose(found, ek.log_partition_estimate(grid, few, rng=0))
    logs = np.where(weights > 0, 0.0, -np.inf)
    found = ek.bbis(grid, rows, log_weights=logs).weights
    np.testing.assert_allclose(
        found[weights > 0], ek.bbis(grid, few, log_weights=logs[1:2].repeat(len(few))).weights
    )
    assert not found[::7].any()
    points = ek.Empirical(rows, weights / weights.sum())
    np.testing.assert_allclose(ek.mmd2(points, grid), ek.mmd2(few, grid), rtol=1e-9)


def test_all_samples_with_weight_zero():
    with pytest.raises(ek.DataError, match="All 2 samples have weight zero"):
        ek.stein_thin(ek.ising_grid(2, 2, rng=0), ek.Empirical(np.zeros((2, 4)), [0.0, 0.0]), 1)
