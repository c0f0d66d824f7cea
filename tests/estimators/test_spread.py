"""Standard deviations that are tiny beside the coefficients of a model."""

import itertools

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

import expectedkernels as ek
from expectedkernels.estimators import spread
from expectedkernels.estimators.resources import Resources
from expectedkernels.estimators.rows import Rows

NAN = np.nan
NODES, SHARES = np.polynomial.legendre.leggauss(20)


def rough(n=80, seed=0, real=False):
    """A target that is fitted with large coefficients and hardly depends on the last columns."""
    rng = np.random.default_rng(seed)
    X = rng.integers(4, size=(n, 4)).astype(float)
    X[:, 2] = np.clip(X[:, 2] + X[:, 3] - 1, 0, 4)
    if real:
        X[:, 3] += rng.random(n)
    return X, np.sin(X[:, 0]) + X[:, 1] ** 2 + 1e-4 * X[:, 3]


def function(expansion, Z):
    """The values of an expansion at complete rows, with more digits than doubles have."""
    rates, points, coef = (
        np.asarray(x, dtype=np.longdouble)
        for x in (expansion.rates, expansion.points, expansion.coef[:, 0])
    )
    away = np.asarray(Z, dtype=np.longdouble)[:, None] - points
    return np.exp(-(away**2 @ rates)) @ coef


def enumerated(model, row):
    """The deviation over all completions, around the mean, with long doubles."""
    variables = model.density_.variables
    missing = np.flatnonzero(np.isnan(row))
    base = np.array([v.say(row[None]).state[0] for v in variables], dtype=float)
    values, shares = [], []
    for states in itertools.product(*(range(variables[i].n_states) for i in missing)):
        world = base.copy()
        world[missing] = states
        share = np.exp(model.circuit_.log_likelihood(world[None])[0])
        ends = [(variables[i].pieces.low[s, 0], variables[i].pieces.high[s, 0])
                for i, s in zip(missing, states, strict=True)]  # fmt: skip
        rules = [
            [(low, 1.0)]
            if low == high
            else [
                (low + (high - low) * (x + 1) / 2, w / 2)
                for x, w in zip(NODES, SHARES, strict=True)
            ]
            for low, high in ends
        ]
        for nodes in itertools.product(*rules):
            filled = row.copy()
            filled[missing] = [x for x, _ in nodes]
            values.append(filled)
            shares.append(share * np.prod([w for _, w in nodes]))
    f = function(model._machine.expansion, np.array(values))
    shares = np.asarray(shares, dtype=np.longdouble)
    shares /= shares.sum()
    return float(np.sqrt(shares @ (f - shares @ f) ** 2))


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("columns", [[3], [2, 3]])
def test_tiny_deviations_of_large_coefficients(real, columns):
    X, y = rough(real=real)
    model = ek.ExpectedKernelRidge(alpha=1e-13, gamma=0.005, n_bins=5, density="chow_liu").fit(X, y)
    assert np.abs(model._machine.expansion.coef).max() > 1e5
    rows = X[:6].copy()
    rows[:, columns] = NAN
    mean, std = model.predict(rows, return_std=True)
    expected = [enumerated(model, row) for row in rows]
    assert max(expected) < 0.02
    np.testing.assert_allclose(std, expected, rtol=1e-4)
    plain = model._machine.expansion.variance(
        model.density_, Rows(model.density_, rows), mean[:, None], Resources()
    )
    assert np.max(np.abs(np.sqrt(plain[:, 0]) / expected - 1)) > 1e-3  # what is avoided


def test_support_vectors_with_a_large_bound():
    X, y = rough(60)
    model = ek.ExpectedSVR(C=1e6, epsilon=1e-4, gamma=0.05, tol=1e-6, density="chow_liu").fit(X, y)
    rows = X[:4].copy()
    rows[:, 3] = NAN
    std = model.predict(rows, return_std=True)[1]
    np.testing.assert_allclose(std, [enumerated(model, row) for row in rows], rtol=1e-6)


def test_embeddings_have_the_same_deviations():
    X, y = rough(50)
    holes = X.copy()
    holes[::7, 3] = NAN
    model = ek.ExpectedKernelRidge(alpha=1e-9, gamma=0.02, density="chow_liu").fit(holes, y)
    rows = X[1:4].copy()
    rows[:, 3] = NAN
    std = model.predict(rows, return_std=True)[1]
    values = np.unique(X[:, 3])
    for row, got in zip(rows, std, strict=True):
        filled = np.repeat(row[None], len(values), axis=0)
        filled[:, 3] = values
        share = np.exp(model.circuit_.log_likelihood(_states(model, filled)))
        f = model.predict(filled)
        share /= share.sum()
        np.testing.assert_allclose(got, np.sqrt(share @ (f - share @ f) ** 2), rtol=1e-4)


def _states(model, Z):
    columns = [v.states_of(Z[:, i]) for i, v in enumerate(model.density_.variables)]
    return np.stack(columns, axis=1).astype(float)


@pytest.mark.parametrize("max_bytes", [2**16, 2**30])
def test_nodes_agree_with_sums_of_products_where_digits_suffice(monkeypatch, max_bytes):
    X, y = rough(real=True)
    kind = np.eye(3)[np.arange(len(X)) % 3]
    X = np.column_stack([X[:, [0, 2, 3]], kind])
    model = ek.ExpectedSVR(
        groups=[[3, 4, 5]], n_bins=4, max_bytes=max_bytes, density="chow_liu"
    ).fit(X, y + kind[:, 0])
    rows = X[:5].copy()
    rows[0, 0] = rows[1, [0, 2]] = rows[2, 3:] = rows[3, 3] = rows[4, [1, 3, 4]] = NAN
    expected = model.predict(rows, return_std=True)[1]
    monkeypatch.setattr(spread, "DOUBTFUL", np.inf)
    again = model.predict(rows, return_std=True)[1]
    assert (again > 0).sum() == 4  # a bit follows from the others
    np.testing.assert_allclose(again, expected, rtol=1e-9)


def test_lost_digits_are_told_where_nodes_are_too_many(monkeypatch):
    X, y = rough()
    model = ek.ExpectedKernelRidge(alpha=1e-13, gamma=0.005, density="chow_liu").fit(X, y)
    rows = X[:2].copy()
    rows[:, 3] = NAN
    monkeypatch.setattr(spread, "MOST_KERNELS", 1)
    with pytest.warns(RuntimeWarning, match="2 rows are too small beside the coefficients"):
        model.predict(rows, return_std=True)


def test_processes_do_not_miss_digits_below_their_own_variance():
    X, y = rough(40)
    kernel = RBF(3.0, "fixed")
    model = ek.ExpectedGaussianProcessRegressor(kernel, alpha=1e-6, density="chow_liu").fit(X, y)
    rows = X[:3].copy()
    rows[:, 3] = NAN
    assert np.isfinite(model.predict(rows, return_std=True)[1]).all()  # without a warning
