"""Expected kernels under normal distributions, by quadrature; averages of densities."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import multivariate_normal

import expectedkernels as ek
from expectedkernels.estimators.averages import AverageDensity
from expectedkernels.estimators.densities import NAMES, learn_density
from expectedkernels.estimators.expansion import Expansion, Prior
from expectedkernels.estimators.normals import LEFT_OUT, NormalDensity
from expectedkernels.estimators.resources import Resources
from expectedkernels.estimators.scaling import Scaling
from expectedkernels.estimators.variables import Variable
from expectedkernels.learning.normals import (
    NormalMixture,
    fit_mixture,
    fit_normal,
    kernel_mixture,
    log_likelihood,
)

RATES = np.array([0.3, 0.7, 0.2])
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)


def density(components, shared, seed, spread=1.0):
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(1 if shared else components, 3, 3)) * spread
    covariances = roots @ np.swapaxes(roots, 1, 2) + 0.1 * spread**2 * np.eye(3)
    weights = rng.dirichlet(np.ones(components))
    mixture = NormalMixture(weights, rng.normal(size=(components, 3)), covariances)
    variables = [Variable(np.array([i])) for i in range(3)]
    return NormalDensity(mixture, Scaling(np.array([0.5, 0.0, -0.3]), np.full(3, 0.5)), variables)


def worlds(p, z):
    """Completions of a row and their shares: Gauss-Hermite nodes of every component."""
    m, scaling = p.mixture, p.scaling
    z = scaling.apply(z)
    o, u = np.flatnonzero(~np.isnan(z)), np.flatnonzero(np.isnan(z))
    values, shares = [], []
    for c, weight in enumerate(m.weights):
        S = m.covariances[c if len(m.covariances) > 1 else 0]
        mean, left = m.means[c, u], S[np.ix_(u, u)]
        if len(o):
            gain = S[np.ix_(u, o)] @ np.linalg.inv(S[np.ix_(o, o)])
            mean, left = mean + gain @ (z[o] - m.means[c, o]), left - gain @ S[np.ix_(o, u)]
            weight = weight * multivariate_normal(m.means[c, o], S[np.ix_(o, o)]).pdf(z[o])
        grid = np.stack(np.meshgrid(*[NODES] * len(u), indexing="ij"), -1).reshape(-1, len(u))
        share = np.prod(np.stack(np.meshgrid(*[WEIGHTS] * len(u), indexing="ij"), -1), -1).ravel()
        rows = np.repeat(z[None], len(grid), axis=0)
        rows[:, u] = mean + grid @ np.linalg.cholesky(left).T
        values.append(scaling.undo(rows))
        shares.append(weight * share / share.sum())
    shares = np.concatenate(shares)
    return np.concatenate(values), shares / shares.sum()


def kernels(X, Y):
    return np.exp(-(RATES * (X[:, None] - Y) ** 2).sum(axis=2))


def functions(seed, n=6):
    rng = np.random.default_rng(seed)
    return Expansion(RATES, rng.normal(size=(n, 3)), rng.normal(size=(n, 2)), np.ones(2))


@pytest.mark.parametrize(("components", "shared"), [(1, True), (3, False), (4, True)])
def test_means_and_variances_are_those_of_quadrature(components, shared):
    p, f = density(components, shared, 0), functions(1)
    Z = np.array([[0.5, np.nan, -0.4], [np.nan, 0.3, np.nan], [1.0, 0.2, 0.3]])
    form = np.random.default_rng(2).normal(size=(6, 6))
    prior = Prior(5.0, form @ form.T / 20.0, np.array([1.0, 2.0]))
    rows = p.rows(Z)
    mean = p.mean(f, rows, Resources())
    variance = p.variance(f, rows, mean, Resources())
    both = p.variance(f, rows, mean, Resources(), prior)
    for i, z in enumerate(Z):
        x, share = worlds(p, z) if np.isnan(z).any() else (z[None], np.ones(1))
        k = kernels(x, f.points)
        values = k @ f.coef + f.intercept
        np.testing.assert_allclose(mean[i], share @ values, rtol=20 * LEFT_OUT)
        if components == 1:
            np.testing.assert_allclose(mean[i], share @ values, rtol=1e-9)
        around = share @ (values - share @ values) ** 2
        np.testing.assert_allclose(variance[i], around, rtol=50 * LEFT_OUT, atol=1e-12)
        left = prior.total - share @ np.einsum("ni,ij,nj->n", k, prior.form, k)
        own = max(left, 0.0) * prior.scale**2
        np.testing.assert_allclose(both[i], around + own, rtol=50 * LEFT_OUT)


@pytest.mark.parametrize(("components", "shared"), [(1, True), (2, False), (3, True)])
def test_gram_matrices_are_those_of_quadrature(components, shared):
    p = density(components, shared, 3)
    Z = np.array([[0.5, np.nan, -0.4], [np.nan, 0.3, np.nan], [1.0, 0.2, 0.3]])
    gram = p.gram(RATES, Z)
    found = [worlds(p, z) if np.isnan(z).any() else (z[None], np.ones(1)) for z in Z]
    for i, (x, share) in enumerate(found):
        for j, (y, weight) in enumerate(found):
            wanted = share @ kernels(x, y) @ weight
            np.testing.assert_allclose(gram[i, j], wanted, rtol=20 * LEFT_OUT)
    np.testing.assert_allclose(p.gram(RATES, Z, Z), gram, rtol=1e-12)
    assert np.linalg.eigvalsh(gram).min() > -1e-12


@settings(max_examples=10, deadline=None)
@given(st.floats(1e-8, 1e-3), st.integers(0, 10**6))
def test_tiny_deviations_keep_their_digits(spread, seed):
    p, f = density(1, True, seed, spread), functions(seed)
    z = p.scaling.undo(p.mixture.means[0] + spread)
    z[1] = np.nan
    rows = p.rows(z[None])
    got = p.variance(f, rows, p.mean(f, rows, Resources()), Resources())[0]
    x, share = worlds(p, z)
    middle = p.means(z[None])
    away = 2.0 * RATES[1] * (f.points[:, 1] - middle[0, 1])
    slope = (kernels(middle, f.points) * away) @ f.coef  # f is straight so near by
    variance = share @ (x[:, 1] - middle[0, 1]) ** 2
    np.testing.assert_allclose(got, slope[0] ** 2 * variance, rtol=2e-2, atol=1e-3 * spread**3)


def test_draws_means_nodes_and_log_densities_agree():
    p = density(3, False, 5)
    z = np.array([0.5, np.nan, -0.4])
    x, share = worlds(p, z)
    nodes = p.nodes(p.rows(z[None]))[1]
    values, weights = nodes.values, nodes.weights
    np.testing.assert_allclose(p.means(z[None])[0, 1], share @ x[:, 1], rtol=1e-9)
    np.testing.assert_allclose(weights.sum(), 1.0)
    np.testing.assert_allclose(weights @ values[:, 0], share @ x[:, 1], rtol=1e-3)
    np.testing.assert_allclose(weights @ values[:, 0] ** 2, share @ x[:, 1] ** 2, rtol=1e-3)
    np.testing.assert_allclose(weights @ values[:, 0] ** 9, share @ x[:, 1] ** 9, rtol=1e-2)
    drawn = p.draws(z[None], 4000, np.random.default_rng(0))[:, 0]
    assert (drawn[:, [0, 2]] == z[[0, 2]]).all()
    assert abs(drawn[:, 1].mean() - share @ x[:, 1]) < 4 * drawn[:, 1].std() / 63
    m = p.mixture
    at = p.scaling.apply(z)[[0, 2]]
    wanted = sum(
        w * multivariate_normal(mu[[0, 2]], S[np.ix_([0, 2], [0, 2])]).pdf(at)
        for w, mu, S in zip(m.weights, m.means, m.covariances, strict=True)
    )
    np.testing.assert_allclose(np.exp(p.log_density(z[None])), wanted * 4.0)


def test_learning_with_holes_never_lowers_the_likelihood():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(80, 3)) @ rng.normal(size=(3, 3))
    whole = fit_normal(Z)
    np.testing.assert_allclose(whole.means[0], Z.mean(axis=0))
    Z[rng.random(Z.shape) < 0.3] = np.nan
    logs = [log_likelihood(fit_normal(Z, steps=n, tolerance=0), Z).mean() for n in range(1, 12)]
    assert (np.diff(logs) > -1e-3).all()
    mixture = fit_mixture(Z, 2, rng=rng)
    assert log_likelihood(mixture, Z).mean() > logs[0]


def test_kernel_mixtures_keep_mean_and_covariance():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 2))
    normal = fit_normal(Z)
    found = kernel_mixture(Z, normal, 0.6, rng)
    np.testing.assert_allclose(found.weights @ found.means, normal.means[0], atol=1e-12)
    away = found.means - normal.means[0]
    total = found.covariances[0] + (found.weights[:, None] * away).T @ away
    np.testing.assert_allclose(total, normal.covariances[0], rtol=0.1, atol=0.05)


def table(seed, n=60):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    X = pd.DataFrame({"a": a, "b": a + 0.5 * rng.normal(size=n), "c": rng.choice(list("xyz"), n)})
    holes = X.iloc[:8].copy()
    holes.loc[[0, 1, 2], "b"] = np.nan
    holes.loc[[2, 3], "c"] = None
    holes.loc[[4], ["a", "b", "c"]] = None
    return X, a + (X["c"] == "x"), holes


@pytest.mark.parametrize("name", NAMES)
def test_every_density_serves_all_machines(name):
    X, y, holes = table(0)
    for kind in (ek.ExpectedSVR, ek.ExpectedKernelRidge, ek.ExpectedGaussianProcessRegressor):
        options = {} if kind is not ek.ExpectedGaussianProcessRegressor else {"optimizer": None}
        model = kind(density=name, random_state=0, **options).fit(X, y)
        mean, std = model.predict(holes, return_std=True)
        assert np.isfinite(mean).all()
        assert (std[:5] > 0).all()
        drawn = model.density_.draws(model._read(holes), 400, np.random.default_rng(0))
        rows = drawn.reshape(-1, drawn.shape[2])
        f = model._machine.expansion.at(model.density_, rows, Resources())
        f = f.reshape(400, len(holes))
        np.testing.assert_array_less(abs(mean - f.mean(axis=0)), 5 * f.std(axis=0) / 20 + 1e-6)
        if not options:
            np.testing.assert_allclose(std, f.std(axis=0), rtol=0.2, atol=0.1)


def test_the_average_is_that_of_its_parts():
    X, y, holes = table(1)
    model = ek.ExpectedSVR(density="auto", random_state=0).fit(X, y)
    p = model.density_
    assert isinstance(p, AverageDensity)
    assert p.names == ["gaussian", "kernel(0.6)"]
    assert repr(p) == "AverageDensity(0.5 gaussian + 0.5 kernel(0.6))"
    Z, f = model._read(holes)[:5], model._machine.expansion
    every = [part.mean(f, part.rows(Z), Resources()) for part in p.parts]
    np.testing.assert_allclose(model.predict(holes)[:5], np.mean(every, axis=0)[:, 0])
    assert model.circuit_ is None
    means = p.means(Z)
    for nodes, variable in zip(p.nodes(p.rows(Z)), p.variables, strict=True):
        assert set(nodes.rows) == set(np.flatnonzero(np.isnan(Z[:, variable.columns[0]])))
        for row in np.unique(nodes.rows):
            weights, values = nodes.weights[nodes.rows == row], nodes.values[nodes.rows == row]
            np.testing.assert_allclose(weights.sum(), 1.0)
            np.testing.assert_allclose(
                weights @ values, means[row, variable.columns], rtol=0.02, atol=0.02
            )
    assert np.isfinite(ek.acquisition_gain(model, holes)[2, 1:]).all()
    assert np.isfinite(p.log_density(Z)).all()


def test_the_parts_depend_on_the_kinds_of_columns_alone():
    X, y, holes = table(2)
    X.loc[X.index[::4], "b"] = np.nan
    model = ek.ExpectedKernelRidge(density="auto", random_state=0).fit(X, y)
    assert model.density_.names == ["gaussian", "kernel(0.6)"]
    assert np.isfinite(model.predict(holes)).all()
    rng = np.random.default_rng(0)
    states = np.where(rng.random((40, 3)) < 0.2, np.nan, rng.integers(3, size=(40, 3)))
    text = pd.DataFrame(states).map(lambda x: None if np.isnan(x) else "abc"[int(x)])
    bits = np.eye(3)[rng.integers(3, size=40)]
    for table_, options in (
        (text, {}),
        (states, {"groups": [[0], [1], [2]]}),
        (bits, {"groups": [[0, 1, 2]]}),
    ):
        model = ek.ExpectedKernelRidge(**options).fit(table_, rng.normal(size=40))
        assert model.densities_ == ["gaussian", "chow_liu"]
        assert model.circuit_ is model.density_.parts[1].circuit
        np.testing.assert_array_equal(model.density_weights_, [0.5, 0.5])
        assert np.isfinite(model.predict(table_)).all()


def test_deviations_of_expected_kernels_under_normals_are_refused():
    X, y, holes = table(3)
    X.loc[X.index[::4], "b"] = np.nan
    model = ek.ExpectedSVR(density="gaussian", fit_missing="expected").fit(X, y)
    assert np.isfinite(model.predict(holes)).all()
    with pytest.raises(ek.KernelError, match="Fit it with fit_missing='mean'"):
        model.predict(holes, return_std=True)


def test_densities_are_learned_by_name_only_once_each():
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = ek.ExpectedSVR(density="gaussian").fit(X, X[:, 0])
    again = learn_density("gaussian", model.columns_, X, n_bins=10, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(again.mixture.covariances, model.density_.mixture.covariances)
