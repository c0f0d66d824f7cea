"""Work in blocks: answers do not depend on their size, and rows without a distribution are told."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

import expectedkernels as ek
from expectedkernels import (
    CircuitImputer,
    ExpectedGaussianProcessRegressor,
    ExpectedKernelFeatures,
    ExpectedSVR,
)
from oracles import Table

NAN = np.nan
FIRST_IS_ZERO = ek.factorized([[1.0, 0.0], [0.5, 0.5]])


def holed(n=40, seed=0):
    """Two real columns and one of codes, with gaps in most rows, and a target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 1] += X[:, 0]
    X[:, 2] = rng.integers(3, size=n)
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + X[:, 2]
    X[rng.random(X.shape) < 0.4] = NAN
    return X, y


def test_normalized_features_use_the_resources_they_are_given(monkeypatch):
    X, _ = holed()
    seen = []
    model = ExpectedKernelFeatures(5, normalize=True, max_bytes=2**20, random_state=0)
    density = type(model.fit(X).density_)
    original = density.gram

    def recorded(self, rates, A, B=None, resources=None):
        seen.append(resources)
        return original(self, rates, A, B, resources)

    monkeypatch.setattr(density, "gram", recorded)
    model.fit_transform(X)
    assert [used.max_bytes for used in seen] == [2**20, 2**20]


@pytest.mark.parametrize("strategy", ["map", "mean", "sample"])
def test_imputed_values_do_not_depend_on_memory(strategy):
    X, _ = holed()
    expected = CircuitImputer(strategy, random_state=0).fit_transform(X)
    for max_bytes in (1, 2**12, 2**16):
        got = CircuitImputer(strategy, max_bytes=max_bytes, random_state=0).fit_transform(X)
        np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_imputers_complete_few_rows_at_once_with_little_memory():
    model = CircuitImputer(max_bytes=1).fit(holed()[0])
    assert model._chunk_rows() == 1
    assert model.set_params(max_bytes=24 * model.circuit_.n_units)._chunk_rows() == 3
    assert model.set_params(max_bytes=2**40)._chunk_rows() == 4096


def test_features_of_rows_of_probability_zero_are_refused():
    X = np.array([[0.0, 1.0], [0.0, 0.0], [0.0, NAN]])
    bad = np.array([[0.0, 1.0], [1.0, NAN]])
    message = "observed in row 1 has probability zero"
    for normalize in (False, True):
        model = ExpectedKernelFeatures(density=FIRST_IS_ZERO, normalize=normalize).fit(X)
        assert np.isfinite(model.transform(X)).all()
        with pytest.raises(ek.EvidenceError, match=message):
            model.transform(bad)
        with pytest.raises(ek.EvidenceError, match=message):
            ExpectedKernelFeatures(density=FIRST_IS_ZERO, normalize=normalize).fit(bad)


@pytest.mark.parametrize("strategy", ["map", "mean", "sample"])
def test_rows_of_probability_zero_are_not_imputed(strategy):
    model = CircuitImputer(strategy, density=FIRST_IS_ZERO).fit([[0.0, 1.0], [0.0, 0.0]])
    with pytest.raises(ek.EvidenceError, match="observed in row 1 has probability zero"):
        model.transform([[0.0, 1.0], [1.0, NAN]])


def test_rows_that_are_surely_equal_need_noise():
    X = np.array([[0.0, 1.0], [NAN, 1.0], [NAN, 1.0], [0.0, 0.0], [NAN, 0.0]])
    model = ExpectedGaussianProcessRegressor(
        RBF(1.0), alpha=1e-20, optimizer=None, density="chow_liu"
    )
    model.set_params(density=FIRST_IS_ZERO)
    with pytest.raises(
        ek.KernelError,
        match=r"not positive definite to working precision. Increase 'alpha' .*\(it is 1e-20\)",
    ):
        model.fit(X, np.arange(5.0))


def test_a_density_has_one_root():
    two = ek.Circuit(ek.Vtree.balanced(1), (Table(np.eye(2)),))
    with pytest.raises(ek.DataError, match=r"density must have one root. Got 2 roots"):
        ExpectedSVR(density=two).fit([[0.0], [1.0]], [0.0, 1.0])


class TooFewStates:
    """A density of two states, whatever the data."""

    def fit(self, X, y=None):
        self.circuit_ = ek.factorized([[0.5, 0.5]] * X.shape[1])
        return self


def test_a_density_has_the_states_of_the_data():
    X = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    with pytest.raises(
        ek.DataError,
        match=r"must fit the data: its variable 1 must have at least 3 states.*\[1\].*Got 2 states",
    ):
        ExpectedSVR(density=TooFewStates()).fit(X, [0.0, 1.0, 2.0])
