"""Rows and points as axes: what is merged, and what is cut, gives the same numbers."""

import copy

import numpy as np
import pytest

import expectedkernels as ek
from expectedkernels.circuits.sides import CircuitSide
from expectedkernels.estimators.prediction import coded_density
from expectedkernels.estimators.rows import Rows
from expectedkernels.estimators.sections import FirstMoments, Landmarks, RowAxis, SecondMoments

CARDS = [3, 2, 4]
RATES = np.array([0.3, 0.7, 0.2])
NAN = np.nan


@pytest.fixture
def density():
    rng = np.random.default_rng(3)
    return coded_density(ek.random_circuit(ek.Vtree.random(3, rng), 3, rng, CARDS), 3)


def points(n, seed=0):
    return np.random.default_rng(seed).integers(CARDS, size=(n, 3)).astype(float)


def test_points_that_agree_in_what_counts_are_one(density):
    S = points(50)
    active = np.array([True, False, True])
    landmarks = Landmarks(density, S, active)
    assert landmarks.n_rows == len(np.unique(S[:, [0, 2]], axis=0))
    weights = np.random.default_rng(1).normal(size=(2, 50))
    merged = landmarks.merged(weights)
    for place in range(landmarks.n_rows):
        expected = weights[:, landmarks.place == place].sum(axis=1)
        np.testing.assert_allclose(merged[:, place], expected, rtol=1e-12)
    some = landmarks.rows(slice(2, 5))
    assert some.n_rows == 3
    first = [int(np.argmax(landmarks.place == place)) for place in (2, 3, 4)]
    np.testing.assert_array_equal(some.points[:, [0, 2]], S[first][:, [0, 2]])


@pytest.mark.parametrize("max_bytes", [2**27, 1])
def test_first_moments_in_parts(density, max_bytes):
    S = np.concatenate([points(9), points(9)])  # every point twice
    Z = np.array([[1.0, NAN, NAN], [NAN, NAN, 2.0], [NAN, NAN, NAN], [NAN, 1.0, 3.0]])
    rows = Rows(density, Z)
    values = np.full((4, 18), NAN)
    for start, part in FirstMoments(density, RATES, S)(rows, np.arange(4), max_bytes):
        values[start : start + len(part)] = part
    np.testing.assert_allclose(values, moments(density, Z, S)[0], rtol=1e-12)


def test_first_moments_without_points(density):
    rows = Rows(density, np.full((2, 3), NAN))
    [(start, values)] = FirstMoments(density, RATES, np.empty((0, 3)))(rows, np.arange(2), 2**27)
    assert start == 0
    assert values.shape == (2, 0)


@pytest.mark.parametrize("max_bytes", [2**27, 1])
def test_second_moments_in_parts(density, max_bytes):
    S = points(12)
    Z = np.array([[1.0, NAN, NAN], [0.0, NAN, NAN]])
    values = None
    found = SecondMoments(density, RATES, S)(Rows(density, Z), np.arange(2), max_bytes)
    for at, part, landmarks in found:
        if values is None:
            values = np.full((2, landmarks.n_rows, landmarks.n_rows), NAN)
        values[at] = part
    values = values[:, landmarks.place][:, :, landmarks.place]
    np.testing.assert_allclose(values, moments(density, Z, S)[1], rtol=1e-12)


def moments(density, Z, S):
    """First and second moments by enumeration, with the kernel at missing columns only."""
    X = np.stack(np.meshgrid(*map(np.arange, CARDS), indexing="ij"), axis=-1).reshape(-1, 3)
    joint = np.exp(density.circuit.log_likelihood(X))
    first, second = [], []
    for z in Z:
        missing = np.isnan(z)
        share = joint * ((z == X) | missing).all(axis=1)
        away = (X[:, None] - S) ** 2 @ np.where(missing, RATES, 0.0)
        kernels = np.exp(-away)
        first.append(share @ kernels / share.sum())
        second.append(kernels.T @ (share[:, None] * kernels) / share.sum())
    return np.array(first), np.array(second)


def test_axes_of_rows_can_be_copied(density):
    rows = Rows(density, np.array([[1.0, NAN, NAN]]))
    side = CircuitSide(density.circuit, rows.evidence(np.arange(1)))
    axis = copy.copy(RowAxis(side, getattr))
    assert axis.n_rows == 1
    with pytest.raises(AttributeError):
        axis.nothing  # noqa: B018
