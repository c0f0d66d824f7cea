"""Samples and most probable rows from the root down, against loops over units."""

import numpy as np
import pytest

from assertions import assert_close
from circuit_oracles import drawn_deterministic, drawn_distribution
from expectedkernels import factorized, mixture
from expectedkernels.circuits import queries as choices
from expectedkernels.circuits.conditioning import certain, observed
from expectedkernels.data.evidence import as_evidence
from expectedkernels.engine import sampling as descend
from expectedkernels.engine.passes import forward

SEEDS = range(8)


@pytest.mark.parametrize("long", [0, 12])
@pytest.mark.parametrize("seed", SEEDS)
def test_samples_by_layers_are_those_node_by_node(seed, long, monkeypatch):
    monkeypatch.setattr(descend, "LONG", long)
    p = drawn_distribution(seed, share_real=0.3)
    X = p.sample(4, rng=0)
    X[np.random.default_rng(seed).random(X.shape) < 0.6] = np.nan
    for rows, n in ((None, 30), (X[:1], 30), (X, 7)):
        found = p.sample(n, rng=7, evidence=rows)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(choices, "layers_of", lambda p: None)
            expected = p.sample(n, rng=7, evidence=rows)
        assert_close(found, expected, np.maximum(np.abs(expected), 1.0))


@pytest.mark.parametrize("seed", SEEDS)
def test_most_probable_rows_with_long_units(seed, monkeypatch):
    p = drawn_deterministic(seed)
    X = np.full((3, p.n_variables), np.nan)
    before = p.map(X)
    monkeypatch.setattr(descend, "LONG", 0)
    np.testing.assert_array_equal(p.map(X), before)
    np.testing.assert_array_equal(p.map(X[0]), before[0])


def test_samples_out_of_range_are_drawn_in_logs():
    far = np.exp([0.0, -5.0]) / (1 + np.exp(-5.0))
    tables = [far] * 200 + [far[::-1]] * 200
    p = mixture([factorized(tables), factorized(tables[::-1])])
    x = np.zeros((1, 400))
    x[0, 0] = np.nan
    assert not certain(forward(p.layers, observed(p, p.layers, as_evidence(x, p.schema)))).any()
    assert p.sample(2000, rng=0, evidence=x[0])[:, 0].mean() == pytest.approx(
        (far**2).sum(), abs=0.02
    )


def test_samples_in_parts_are_those_of_calls_one_after_the_other(monkeypatch):
    p = drawn_distribution(0)
    one, other = np.random.default_rng(3), np.random.default_rng(3)
    monkeypatch.setattr(choices, "NOISE_BYTES", 8 * 10 * p.vtree.n_nodes)
    several = np.concatenate([p.sample(n, rng=one) for n in (10, 10, 5)])
    np.testing.assert_array_equal(p.sample(25, rng=other), several)
    assert one.random() == other.random()
