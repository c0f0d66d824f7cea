"""Work in blocks: answers do not depend on their size, and rows without a distribution are told."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF
from sklearn.preprocessing import StandardScaler

import expectedkernels as ek
from expectedkernels import (
    CircuitImputer,
    ExpectedGaussianProcessRegressor,
    ExpectedKernelFeatures,
    ExpectedKernelRidge,
    ExpectedSVC,
    ExpectedSVR,
)
from expectedkernels.circuits.inputs import Table
from expectedkernels.estimators import expansion, gram, imputer
from normal_densities import products_of_normals

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


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda **options: ExpectedKernelRidge(alpha=0.1, **options),
        lambda **options: ExpectedGaussianProcessRegressor(alpha=0.1, optimizer=None, **options),
    ],
    ids=["ridge", "process"],
)
def test_blocks_of_incomplete_rows_do_not_change_answers(monkeypatch, make, real):
    X, y = holed()
    new = np.vstack([X[:9], [[0.3, -0.2, 1.0], [NAN, 0.1, NAN]]])
    rates = np.array([0.7, 0.4, 0.2])
    assert np.isnan(X).any(axis=1).sum() > 3 * 7  # several blocks of either kind
    density = products_of_normals(X) if real else "chow_liu"
    whole = make(density=density, n_bins=4).fit(X, y)
    expected = whole.predict(new, return_std=True)
    kernels = gram.expected_gram(whole.density_, rates, X)
    across = gram.expected_gram(whole.density_, rates, new, X)
    monkeypatch.setattr(gram, "CHUNK_ROWS", 7)
    monkeypatch.setattr(expansion, "FEW_ROWS", 7)
    blocked = gram.expected_gram(whole.density_, rates, X)
    np.testing.assert_allclose(blocked, kernels, rtol=1e-9, atol=1e-13)
    blocked = gram.expected_gram(whole.density_, rates, new, X)
    np.testing.assert_allclose(blocked, across, rtol=1e-9, atol=1e-13)
    for got, wanted in zip(whole.predict(new, return_std=True), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-7)
    parts = make(density=density, n_bins=4).fit(X, y).predict(new, return_std=True)
    for got, wanted in zip(parts, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-7)


def test_blocks_of_complete_rows_do_not_change_kernels(monkeypatch):
    X, _ = holed()
    model = ExpectedKernelFeatures(20, gamma=0.5, normalize=True, random_state=0)
    expected = model.fit_transform(X)
    seen = []
    pieces = gram.chunks

    def recorded(index, n_points, max_bytes):
        found = pieces(index, n_points, 96 * max(1, n_points))  # three rows each
        seen.append(len(found))
        return found

    monkeypatch.setattr(gram, "chunks", recorded)
    np.testing.assert_allclose(model.fit_transform(X), expected, rtol=1e-9, atol=1e-12)
    assert max(seen) > 1


def test_normalized_features_use_the_resources_they_are_given(monkeypatch):
    X, _ = holed()
    seen = []
    original = gram.expected_gram

    def recorded(density, rates, A, B=None, resources=None):
        seen.append(resources)
        return original(density, rates, A, B, resources)

    monkeypatch.setattr("expectedkernels.estimators.circuits.expected_gram", recorded)
    ExpectedKernelFeatures(5, normalize=True, max_bytes=2**20, random_state=0).fit_transform(X)
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
    assert model.set_params(max_bytes=2**40)._chunk_rows() == imputer.CHUNK_ROWS


def test_classifiers_evaluate_complete_rows_once():
    X, _ = holed(90)
    complete = X[~np.isnan(X).any(axis=1)]
    labels = np.arange(len(complete)) % 3
    model = ExpectedSVC(C=5.0, density="chow_liu").fit(complete, labels)
    decisions = model.decision_function(X)
    single = np.concatenate([model.predict(row[None]) for row in X])
    called = []
    evaluate = model._machine.predict
    object.__setattr__(model._machine, "predict", lambda Z: called.append(Z) or evaluate(Z))
    np.testing.assert_array_equal(model.predict(X), single)
    assert not called
    own = model.model_.predict(StandardScaler().fit_transform(complete))
    np.testing.assert_array_equal(model.predict(complete), own)
    assert not called
    np.testing.assert_array_equal(model.decision_function(X), decisions)
    assert len(called) == 1


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
    two = ek.Circuit(ek.factorized([[0.5, 0.5]]).vtree, (Table(np.eye(2)),))
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
