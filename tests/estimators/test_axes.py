"""Rows and points as axes: what is merged, taken out and cut gives the same numbers."""

import numpy as np
import pandas as pd
import pytest

import expectedkernels as ek
from expectedkernels.circuits.choice import side_in
from expectedkernels.estimators.expansion import Expansion, _Squares
from expectedkernels.estimators.gram import Work, each_kernel
from expectedkernels.estimators.prediction import coded_density
from expectedkernels.estimators.resources import Resources
from expectedkernels.estimators.rows import Rows
from expectedkernels.kernels.gaussian import at_known
from expectedkernels.kernels.gram import expected

CARDS = [3, 2, 4]
RATES = np.array([0.3, 0.7, 0.2])
NAN = np.nan
Z = np.array([[1.0, NAN, NAN], [NAN, NAN, 2.0], [NAN, NAN, NAN], [NAN, 1.0, 3.0], [0, NAN, NAN]])


@pytest.fixture
def density():
    rng = np.random.default_rng(3)
    return coded_density(ek.random_circuit(ek.Vtree.random(3, rng), 3, rng, CARDS), 3)


def points(n, seed=0):
    return np.random.default_rng(seed).integers(CARDS, size=(n, 3)).astype(float)


@pytest.mark.parametrize("max_bytes", [2**27, 1])
def test_first_moments_in_parts(density, max_bytes):
    S = np.concatenate([points(9), points(9)])  # every point twice
    values = np.full((5, 18), NAN)
    resources = Resources(max_bytes=max_bytes)
    for at, part in each_kernel(density, RATES, S, Rows(density, Z), resources):
        values[at] = part
    np.testing.assert_allclose(values, moments(density, S)[0], rtol=1e-12)


def test_rows_with_a_single_hole_are_those_of_sweeps(monkeypatch):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(80, 3))
    X[:, 1] += X[:, 0]
    X[X[:, 2] > 1.0, 2] = 0.5  # a spike
    frame = pd.DataFrame(X, columns=list("uvw")).assign(c=rng.choice(["x", "y", "z"], 80))
    model = ek.ExpectedKernelRidge(density="chow_liu", n_bins=4, random_state=0)
    model.fit(frame, X.sum(axis=1))
    density, S = model.density_, model.model_.X_fit_[:20]
    Z = model.model_.X_fit_.copy()
    for i, columns in enumerate([[0], [1], [2], [3, 4, 5], [3]]):  # [3]: part of a group
        Z[np.ix_(np.arange(i, 80, 6), columns)] = NAN
    assert np.isnan(Z[5::6]).sum() == 0
    Z[5::6, :2] = NAN
    rates = np.linspace(0.1, 0.6, 6)
    found = []
    for discrete in (True, False):  # False: as if it were not known
        monkeypatch.setattr(type(density), "is_discrete", discrete)
        values = np.full((80, 20), NAN)
        for at, part in each_kernel(density, rates, S, Rows(density, Z), Resources()):
            values[at] = part
        found.append(values)
    assert (found[0] != found[1]).any()
    np.testing.assert_allclose(*found, rtol=1e-12, atol=1e-15)


def test_first_moments_without_points(density):
    rows = Rows(density, np.full((2, 3), NAN))
    [(at, values)] = each_kernel(density, RATES, np.empty((0, 3)), rows, Resources())
    assert at.tolist() == [0, 1]
    assert values.shape == (2, 0)


@pytest.mark.parametrize("max_bytes", [2**27, 1])
def test_second_moments_in_parts(density, max_bytes):
    S = points(12)
    rng = np.random.default_rng(1)
    coef, form = rng.normal(size=(12, 2)), rng.normal(size=(12, 12))
    rows = Rows(density, Z)
    f = Expansion(RATES, S, coef, np.zeros(2))
    work = _Squares(density, RATES, max_bytes, f, rows, form)
    squares, forms = np.zeros((5, 2)), np.zeros(5)
    for group in ([0, 1], [2], [3], [4]):  # of rows that differ, with the same columns missing
        members = rows.distinct[0][group]
        assert (rows.observed[members] == rows.observed[members[0]]).all()
        for at, square, more in work(np.array(group)):
            squares[at] += square
            forms[at] += more
    second = moments(density, S)[1]
    np.testing.assert_allclose(squares, np.einsum("io,rij,jo->ro", coef, second, coef), rtol=1e-10)
    np.testing.assert_allclose(forms, np.einsum("ij,rij->r", form, second), rtol=1e-10)


def moments(density, S):
    """First and second moments by enumeration."""
    X = np.stack(np.meshgrid(*map(np.arange, CARDS), indexing="ij"), axis=-1).reshape(-1, 3)
    joint = np.exp(density.circuit.log_likelihood(X))
    kernels = np.exp(-((X[:, None] - S) ** 2 @ RATES))
    first, second = [], []
    for z in Z:
        share = joint * ((z == X) | np.isnan(z)).all(axis=1)
        first.append(share @ kernels / share.sum())
        second.append(kernels.T @ (share[:, None] * kernels) / share.sum())
    return np.array(first), np.array(second)


@pytest.mark.parametrize("form", ["rows", "patterns", "conditionals"])
def test_observed_columns_taken_out_change_nothing(density, form):
    S, rows = points(7), Rows(density, Z)
    work = Work(density, RATES, 2**27)
    axis = work.point_axis(S)
    whole = expected((side_in(form, density.real, rows.by_value), axis), work.kernel, 2**27)
    part = expected((side_in(form, density.real, rows.by_state), axis), work.open_kernel, 2**27)
    part = part * at_known(RATES, Z, rows.known_columns, S)
    np.testing.assert_allclose(part, whole, rtol=1e-12)
    np.testing.assert_allclose(whole, moments(density, S)[0], rtol=1e-12)


@pytest.mark.parametrize("form", ["rows", "patterns", "conditionals"])
def test_points_that_agree_in_what_counts_are_one(density, form):
    S, given = points(50), np.array([[NAN, 1.0, NAN], [NAN, 0.0, NAN]])
    rows, work = Rows(density, given), Work(density, RATES, 2**27)
    axis = work.point_axis(S, active=np.array([True, False, True]))
    assert axis.operand.patterns.count[-1] == len(np.unique(S[:, [0, 2]], axis=0))
    side = side_in(form, density.real, rows.by_state)
    merged = expected((side, axis), work.open_kernel, 2**27)
    full = expected((side, work.point_axis(S)), work.open_kernel, 2**27)
    np.testing.assert_allclose(merged, full, rtol=1e-12)
