"""Calibration: hidden values, spreads and scores of rows that are held out."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import expectedkernels as ek
from expectedkernels.estimators import calibration
from expectedkernels.estimators.calibration import (
    Scores,
    cautious_quantiles,
    hidden,
    moments,
    n_missing,
)

NAN = np.nan
PROCESS = ek.ExpectedGaussianProcessRegressor(RBF(2.0) + WhiteKernel(0.1), optimizer=None)
MACHINES = [
    ek.ExpectedSVR(density="chow_liu"),
    ek.ExpectedKernelRidge(alpha=0.3, density="chow_liu"),
    clone(PROCESS).set_params(density="chow_liu"),
]


def line(n=80, seed=0, noise=0.2):
    """Two columns that go together, one that does not, and a target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 1] += X[:, 0]
    return X, X[:, 0] + np.sin(X[:, 1]) + 0.5 * X[:, 2] + noise * rng.normal(size=n)


def holes(X, share, seed=0):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, NAN, X)


def test_quantiles_of_one_more_draw():
    rng = np.random.default_rng(0)
    levels = np.array([0.1, 0.3, 0.7, 0.9])
    numbers = rng.normal(size=(4000, 20))
    found = np.stack([cautious_quantiles(x[:19, None], levels)[0] for x in numbers])
    below = (numbers[:, 19:] <= found).mean(axis=0)
    assert (np.abs(below - levels) < 0.03).all()
    assert cautious_quantiles(numbers[:1, :5].T, [0.9]).tolist() == [[np.inf]]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("share", [0.0, 0.15])
def test_spreads_are_those_of_predictions(machine, share, monkeypatch):
    monkeypatch.setattr(calibration, "DRAWS", 2000)
    X, y = line(50)
    model = clone(machine).fit(holes(X, share), y)
    rows = np.array([[1.0, NAN, 0.0], [NAN, NAN, 1.0], [0.5, 0.5, 0.5], [NAN, NAN, NAN]])
    mean, spread = moments(model, model._read(rows), np.random.default_rng(0))
    expected, std = model.predict(rows, return_std=True)
    np.testing.assert_allclose(mean[:, 0], expected, rtol=1e-12)
    np.testing.assert_allclose(spread[:, 0], std, rtol=0.08, atol=1e-6)


def test_hidden_values_are_of_whole_variables_and_all_numbers():
    X, y = line(600)
    kind = np.eye(3)[np.arange(600) % 3]
    model = ek.ExpectedSVR(groups=[[3, 4, 5]], density="chow_liu")
    model.fit(np.column_stack([X, kind])[:60], y[:60])
    variables, Z = model.density_.variables, np.column_stack([X, kind])
    Z[:10, 0] = NAN
    rng = np.random.default_rng(0)
    counts = [n_missing(variables, hidden(variables, Z, k, 4, rng)) for k in range(4)]
    share = np.bincount(np.concatenate(counts)[10:], minlength=5) / 2400
    assert (np.abs(share - 0.2) < 0.03).all()
    assert all((c[:10] >= 1).all() for c in counts)
    gaps = np.isnan(hidden(variables, Z, 2, 4, rng)[:, 3:])
    assert (gaps.all(axis=1) | ~gaps.any(axis=1)).all()


def test_intervals_are_scores_times_scales():
    X, y = line()
    model = ek.ExpectedKernelRidge(alpha=0.3, density="chow_liu").fit(X, y)
    found = model._training.held_out
    scores = Scores.of(found)
    error = (found.target[:, None] - found.mean)[found.as_is]
    np.testing.assert_allclose(scores.noise**2, (error**2).mean())  # nothing is missing there
    low, high = model.predict_interval(X[:4], coverage=0.8)
    near = np.abs(scores.signed[np.abs(found.n_missing) <= 1, 0])  # 200 of these
    near = np.sort(near)[int(np.ceil(0.8 * (len(near) + 1))) - 1]
    np.testing.assert_allclose(high - low, 2.0 * near * scores.noise[0])
    np.testing.assert_allclose((low + high) / 2.0, model.predict(X[:4]))
