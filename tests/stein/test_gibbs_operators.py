"""Kernels of Gibbs operators against their definition by enumeration."""

import numpy as np
import pytest

import expectedkernels as ek
from expectedkernels import (
    CollapsedSteinKernel,
    DataError,
    EvidenceError,
    Factor,
    FactorGraph,
    SteinKernel,
)
from oracles import worlds
from stein_oracles import gibbs_gram

CARDINALITIES = [(2, 2, 2), (3, 2, 4), (3, 3, 2)]


def random_model(cardinalities, rng, zeros=False):
    table = rng.random(cardinalities) + 0.01
    if zeros:
        table[tuple(0 for _ in cardinalities)] = 0.0
    return FactorGraph(cardinalities, [Factor(range(len(cardinalities)), table)])


def by_definition(model, rows, kernel):
    """The matrix of the operators by enumeration of all states of one table."""
    table = model.factors[0].table
    return gibbs_gram(rows, table.ravel() / table.sum(), table.shape, kernel.gram)


def random_rows(cardinalities, n, rng, share=0.4):
    rows = rng.integers(0, cardinalities, size=(n, len(cardinalities))).astype(float)
    rows[rng.random(rows.shape) < share] = np.nan
    return rows


@pytest.mark.parametrize("kernel", [ek.ExpHamming(), ek.Delta()], ids=["product", "zeros"])
@pytest.mark.parametrize("cardinalities", CARDINALITIES)
def test_points_follow_the_definition(cardinalities, kernel):
    model = random_model(cardinalities, np.random.default_rng(1))
    X = worlds(cardinalities)
    expected = by_definition(model, X, kernel)
    for target in (model, model.compile()[0]):
        found = SteinKernel(target, kernel, operator="gibbs")(X)
        np.testing.assert_allclose(found, expected, atol=1e-13)
    np.testing.assert_allclose(model.factors[0].table.ravel() @ expected, 0.0, atol=1e-13)


@pytest.mark.parametrize("cardinalities", CARDINALITIES)
def test_collapsed_samples_follow_the_definition(cardinalities):
    rng = np.random.default_rng(2)
    model = random_model(cardinalities, rng)
    rows = random_rows(cardinalities, 12, rng)
    expected = by_definition(model, rows, ek.ExpHamming())
    stein = CollapsedSteinKernel(model.compile()[0], ek.ExpHamming(), operator="gibbs")
    np.testing.assert_allclose(stein(rows), expected, atol=1e-13)
    np.testing.assert_allclose(stein(rows[:5], rows[5:]), expected[:5, 5:], atol=1e-13)
    np.testing.assert_allclose(
        stein.extended(expected[:8, :8], rows[:8], rows[8:]), expected, atol=1e-13
    )


def test_nothing_collapsed_is_the_kernel_of_points():
    grid = ek.ising_grid(2, 3, rng=3, cardinality=3)
    X = np.random.default_rng(0).integers(0, 3, size=(20, 6)).astype(float)
    points = SteinKernel(grid, ek.ExpHamming(), operator="gibbs")
    collapsed = CollapsedSteinKernel(grid.compile()[0], ek.ExpHamming(), operator="gibbs")
    np.testing.assert_allclose(collapsed(X), points(X), atol=1e-12)
    np.testing.assert_allclose(points.extended(points(X[:7]), X[:7], X[7:]), points(X), atol=1e-14)


@pytest.mark.parametrize("cardinality", [2, 3])
def test_a_fixed_partition_agrees_with_the_whole_model(cardinality):
    grid = ek.ising_grid(2, 3, rng=4, cardinality=cardinality)
    rows = np.random.default_rng(0).integers(0, cardinality, size=(9, 6)).astype(float)
    rows[:, [1, 5]] = np.nan
    whole = CollapsedSteinKernel(grid.compile()[0], ek.ExpHamming(), operator="gibbs")(rows)
    parts = ek.models.CollapsedModel(grid, [1, 5])
    part = ek.stein.PartitionSteinKernel(parts, ek.ExpHamming(), operator="gibbs")
    np.testing.assert_allclose(part(rows), whole, atol=1e-12)
    np.testing.assert_allclose(part.extended(whole[:4, :4], rows[:4], rows[4:]), whole, atol=1e-12)


def test_the_mean_is_zero_for_targets_with_zeros_too():
    model = random_model((3, 2, 2), np.random.default_rng(5), zeros=True)
    X = worlds([3, 2, 2])[1:]
    gram = SteinKernel(model, ek.ExpHamming(), operator="gibbs")(X)
    masses = model.factors[0].table.ravel()[1:]
    np.testing.assert_allclose(masses @ gram, 0.0, atol=1e-13)
    rows = np.vstack([X, [[0, np.nan, 0], [np.nan, 1, np.nan]]])
    stein = CollapsedSteinKernel(model.compile()[0], ek.ExpHamming(), operator="gibbs")
    expected = by_definition(model, rows, ek.ExpHamming())
    np.testing.assert_allclose(stein(rows), expected, atol=1e-13)


def test_rare_states_have_bounded_kernels():
    p = ek.factorized([[1e-9, 1.0 - 1e-9]] * 3)
    gram = SteinKernel(p, ek.ExpHamming(), operator="gibbs")([[0, 0, 0], [1, 1, 1]])
    assert 0.0 < gram.max() <= 2 * 3


def test_impossible_samples_are_refused():
    model = random_model((2, 2), np.random.default_rng(5), zeros=True)
    with pytest.raises(DataError, match=r"zero at row 1 of the samples, \[0, 0\]"):
        SteinKernel(model, ek.ExpHamming(), operator="gibbs")([[1, 1], [0, 0]])
    with pytest.raises(EvidenceError):
        CollapsedSteinKernel(model.compile()[0], ek.ExpHamming(), operator="gibbs")(
            [[1, 1], [0, 0]]
        )


def test_everything_collapsed_has_no_discrepancy():
    circuit = ek.factorized([[0.2, 0.8], [0.3, 0.7]])
    gram = CollapsedSteinKernel(circuit, ek.ExpHamming(), operator="gibbs")(
        [[np.nan, np.nan], [0, 1]]
    )
    np.testing.assert_array_equal(gram[0], 0.0)
    assert gram[1, 1] > 0.0
