"""Passes in other semirings, and choices on the way down, against loops over units."""

import numpy as np
import pytest

from assertions import assert_close
from circuit_oracles import all_worlds, drawn_deterministic, drawn_distribution, joint, sparsified
from expectedkernels.circuits.build import factorized, mixture
from expectedkernels.circuits.choices import level_samples
from expectedkernels.circuits.evidence import as_evidence
from expectedkernels.circuits.observed import observed
from expectedkernels.circuits.sampling import _draw
from expectedkernels.engine import descend
from expectedkernels.engine.semiring import COUNTS, LOGIC, MAX, lifted, up_over

SEEDS = range(8)


def root_over(semiring, p, atoms):
    return up_over(semiring, p.levels, lifted(semiring, p.levels), atoms)[-1]


@pytest.mark.parametrize("form", [lambda p: p, sparsified])
@pytest.mark.parametrize("seed", SEEDS)
def test_largest_value_of_deterministic_circuits(seed, form):
    p = form(drawn_deterministic(seed))
    one = np.zeros(p.levels.n_atoms)
    largest = joint(p)[0].max()
    assert_close(np.exp(root_over(MAX, p, one)), largest)
    assert_close(np.exp(root_over(MAX, p, one[:, None].repeat(3, 1))), np.full(3, largest))


@pytest.mark.parametrize("seed", SEEDS)
def test_supports_and_counts(seed):
    p = drawn_deterministic(seed)
    worlds = all_worlds(p.cardinalities)
    atoms = observed(p, as_evidence(worlds, p.schema)).values
    positive = joint(p)[0].reshape(-1) > 0
    np.testing.assert_array_equal(root_over(LOGIC, p, atoms > 0), positive)
    everything = np.full(p.levels.n_atoms, 1, dtype=object)
    assert root_over(COUNTS, p, everything) == positive.sum()


def test_counts_have_any_size():

    p = factorized([[0.5, 0.25, 0.25]] * 100)
    everything = np.full(p.levels.n_atoms, 1, dtype=object)
    assert root_over(COUNTS, p, everything) == 3**100


@pytest.mark.parametrize("long", [0, 12])
@pytest.mark.parametrize("seed", SEEDS)
def test_samples_are_those_of_the_walk_node_by_node(seed, long, monkeypatch):
    monkeypatch.setattr(descend, "LONG", long)
    p = drawn_distribution(seed, share_real=0.3)
    X = p.sample(4, rng=0)
    X[np.random.default_rng(seed).random(X.shape) < 0.6] = np.nan
    for rows, n in ((None, 50), (X[:1], 50), (X, 20)):
        read = None if rows is None else as_evidence(rows, p.schema)
        shape = ((1 if rows is None else len(rows)) * n, p.n_variables)
        found, expected = np.empty(shape), np.empty(shape)
        assert level_samples(p, read, np.random.default_rng(7), n, found)
        _draw(p, read, np.random.default_rng(7), np.repeat(np.arange(shape[0] // n), n), expected)
        assert_close(found, expected, scale=np.maximum(np.abs(expected), 1.0))


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
    generator = np.random.default_rng(3)
    assert not level_samples(p, as_evidence(x, p.schema), generator, 5, np.empty((5, 400)))
    assert generator.random() == np.random.default_rng(3).random()
    assert p.sample(2000, rng=0, evidence=x[0])[:, 0].mean() == pytest.approx(
        (far**2).sum(), abs=0.02
    )
