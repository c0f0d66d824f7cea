"""Expected kernels under normal distributions and mixtures of them, by quadrature."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import multivariate_normal

from expectedkernels.estimators import densities
from expectedkernels.estimators.densities import LEFT_OUT, NormalDensity
from expectedkernels.estimators.encoding import Variable
from expectedkernels.estimators.kernel_expansion import KernelExpansion, Prior, Resources
from expectedkernels.learning.normals import NormalMixture

RATES = np.array([0.3, 0.7, 0.2])
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)


def density(components, shared, seed, spread=1.0):
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(1 if shared else components, 3, 3)) * spread
    covariances = roots @ np.swapaxes(roots, 1, 2) + 0.1 * spread**2 * np.eye(3)
    weights = rng.dirichlet(np.ones(components))
    mixture = NormalMixture(weights, rng.normal(size=(components, 3)), covariances)
    variables = [Variable(np.array([i])) for i in range(3)]
    return NormalDensity(mixture, variables)


def worlds(p, z):
    """Completions of a row and their shares: Gauss-Hermite nodes of every component."""
    m = p.mixture
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
        values.append(rows)
        shares.append(weight * share / share.sum())
    shares = np.concatenate(shares)
    return np.concatenate(values), shares / shares.sum()


def kernels(X, Y):
    return np.exp(-(RATES * (X[:, None] - Y) ** 2).sum(axis=2))


def functions(seed, n=6):
    rng = np.random.default_rng(seed)
    return KernelExpansion(RATES, rng.normal(size=(n, 3)), rng.normal(size=(n, 2)), np.ones(2))


@pytest.mark.parametrize(("components", "shared"), [(1, True), (3, False), (4, True)])
def test_means_and_variances_are_those_of_quadrature(components, shared):
    p, f = density(components, shared, 0), functions(1)
    Z = np.array([[0.5, np.nan, -0.4], [np.nan, 0.3, np.nan], [1.0, 0.2, 0.3]])
    form = np.random.default_rng(2).normal(size=(6, 6))
    prior = Prior(5.0, form / np.sqrt(20.0), np.array([1.0, 2.0]))
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
    z = p.mixture.means[0] + spread
    z[1] = np.nan
    rows = p.rows(z[None])
    got = p.variance(f, rows, p.mean(f, rows, Resources()), Resources())[0]
    x, share = worlds(p, z)
    middle = p.means(z[None])
    away = 2.0 * RATES[1] * (f.points[:, 1] - middle[0, 1])
    slope = (kernels(middle, f.points) * away) @ f.coef  # f is straight so near by
    variance = share @ (x[:, 1] - middle[0, 1]) ** 2
    np.testing.assert_allclose(got, slope[0] ** 2 * variance, rtol=2e-2, atol=1e-3 * spread**3)


def test_draws_means_and_nodes_agree():
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


@pytest.mark.parametrize("largest", [600.0, -1e9])
def test_rows_of_one_pattern_have_the_same_kernels_as_each_alone(monkeypatch, largest):
    monkeypatch.setattr(densities, "LARGEST_EXPONENT", largest)
    p, f = density(5, True, 7), functions(2)
    Z = np.random.default_rng(3).normal(size=(6, 3))
    Z[:, 1:] = np.nan
    Z[0, 0] = 40.0  # far from all components
    alone = [p.mean(f, z[None], Resources())[0] for z in Z]
    np.testing.assert_allclose(p.mean(f, Z, Resources()), alone, rtol=1e-12)
