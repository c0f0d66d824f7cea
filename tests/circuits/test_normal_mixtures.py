"""Log-densities of mixtures of normals beside sums over components, and beside sweeps."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import expectedkernels as ek
from expectedkernels.circuits.build import mixture_of_products
from expectedkernels.circuits.evidence import as_evidence
from expectedkernels.circuits.inputs import Normal
from expectedkernels.circuits.normal_mixtures import normal_mixture_logs
from expectedkernels.circuits.queries import _swept_logs


def parameters(n=6, d=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(n)), rng.normal(size=(n, d)), rng.uniform(0.1, 2.0, size=(n, d))


def mixture(weights, means, variances, vtree=None):
    eye = np.eye(len(weights))
    inputs = [Normal(eye, m, v) for m, v in zip(means.T, variances.T, strict=True)]
    return mixture_of_products(weights, inputs, vtree)


def naive(weights, means, variances, X):
    logs = norm.logpdf(X[:, None], means, np.sqrt(variances))
    return logsumexp(np.nansum(logs, axis=2), axis=1, b=weights)


def quick(circuit, X):
    return normal_mixture_logs(circuit, as_evidence(X, circuit.schema))


@pytest.mark.parametrize("vtree", [None, ek.Vtree.right_linear(4)])
@pytest.mark.parametrize("holes", [0.0, 0.4])
def test_log_densities_are_those_of_sums_over_components(vtree, holes, monkeypatch):
    monkeypatch.setattr("expectedkernels.circuits.normal_mixtures.CHUNK_ROWS", 7)
    given = parameters()
    circuit = mixture(*given, vtree)
    rng = np.random.default_rng(1)
    X = 3.0 * rng.normal(size=(50, 4))
    X[rng.random(X.shape) < holes] = np.nan
    found = circuit.log_likelihood(X)
    np.testing.assert_array_equal(found, quick(circuit, X))
    np.testing.assert_allclose(found, naive(*given, X), rtol=1e-12, atol=1e-12)
    swept = _swept_logs(circuit, as_evidence(X, circuit.schema), 2**30)[0][:, 0]
    np.testing.assert_allclose(found, swept, rtol=1e-12, atol=1e-12)


def test_units_may_be_shared_and_weighted():
    weights, means, variances = parameters()
    means[3:5], variances[3:5] = means[0], variances[0]
    means[5, :2], variances[5, :2] = means[1, :2], variances[1, :2]
    circuit = ek.mixture([mixture(weights, means, variances)] * 2, [0.3, 0.7])
    X = np.random.default_rng(1).normal(size=(20, 4))
    for one in (circuit, mixture(weights, means, variances)):
        np.testing.assert_allclose(
            one.log_likelihood(X), naive(weights, means, variances, X), rtol=1e-12
        )


def test_remote_rows_and_narrow_components_keep_their_digits():
    weights, means, variances = parameters()
    means, variances = means + 1e6, variances * 1e-12
    circuit = mixture(weights, means, variances)
    X = means[:3] + 1e-6
    np.testing.assert_allclose(
        circuit.log_likelihood(X), naive(weights, means, variances, X), rtol=1e-12
    )
    X[0, 1], X[1] = 1e300, np.nan
    assert circuit.log_likelihood(X)[0] == -np.inf
    np.testing.assert_allclose(circuit.log_likelihood(X)[1], 0.0, atol=1e-12)


def test_other_circuits_are_not_taken_for_mixtures():
    X = np.random.default_rng(1).normal(size=(5, 4))
    two = [
        ek.Sum([ek.Gaussian(v, 0.0, 1.0), ek.Gaussian(v, 1.0, 2.0)], [0.4, 0.6]) for v in range(4)
    ]
    sums = ek.Circuit.from_units(ek.Product(two))
    assert quick(sums, X) is None
    points = mixture(*parameters()[:2], np.zeros((6, 4)))
    assert quick(points, X) is None
    single = mixture(*(x[..., :1] if x.ndim == 2 else x for x in parameters()))
    assert quick(single, X[:, :1]) is None
    for circuit in (sums, single):
        assert np.isfinite(circuit.log_likelihood(X[:, : circuit.n_variables])).all()
