"""Likelihoods, sites, samples and completions, by fast paths and in their limits."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.special import logsumexp
from scipy.stats import norm

import circuit_oracles as oracle
import expectedkernels as ek
from assertions import assert_frequencies, assert_logs_close, assert_raises, refusals
from expectedkernels import factorized, mixture, random_circuit
from expectedkernels.circuits import queries
from expectedkernels.data.evidence import as_evidence
from oracles import evidence_as_weights, with_holes
from strategies import points, seeds


@pytest.mark.parametrize("roots", [1, 2])
def test_rows_out_of_range_are_done_in_logs(roots):
    far = np.exp([0.0, -5.0])
    tables = [far] * 200 + [far[::-1]] * 200
    p = mixture([factorized(t, normalized=False) for t in (tables, tables[::-1])])
    if roots == 2:
        block = p.blocks[-1]
        weights = np.vstack([block.weights, [[0.2, 0.3]]])
        last = type(block)(block.n_products, 2, block.left, block.right, weights)
        p = type(p)(p.vtree, (*p.blocks[:-1], last))
    X = np.zeros((3, 400))
    X[1, 200:] = 1
    evidence = as_evidence(X, p.schema)
    assert 0 in queries.layer_logs(p, evidence)[1]
    logs = queries.log_values(p, evidence)[0]
    assert_logs_close(logs, queries._swept_logs(p, evidence)[0])
    assert_logs_close(logs[0, 0], np.float64(-1000.0))


def test_rows_that_look_alike_go_by_patterns():
    tables = np.random.default_rng(1).dirichlet([1.0, 1.0], size=(30, 40))
    p = mixture([factorized(list(t)) for t in tables])
    X = np.random.default_rng(0).integers(0, 2, size=(40, 40)).astype(float)
    alike = as_evidence(X[:4].repeat(2000, axis=0), p.schema)
    assert not queries.by_rows(p, alike)
    assert queries.by_rows(p, as_evidence(X, p.schema))
    assert queries.by_rows(p, None)


def test_signed_circuits_and_tiny_weights_stay_with_logs():
    signed = mixture([factorized([[0.2, 0.8]]), factorized([[0.6, 0.4]])])
    block = type(signed.blocks[-1])(np.array([[0.5, -0.5]]))
    assert not queries.by_rows(type(signed)(signed.vtree, (block,)), None)
    tiny = type(signed)(signed.vtree, (type(block)(np.array([[1e-300, 1.0]])),))
    assert not queries.by_rows(tiny, None)
    assert_logs_close(tiny.log_likelihood([[0.0]]), np.log([1e-300]))


def test_rows_are_split_when_memory_is_short(monkeypatch):
    p = random_circuit(4, 3, rng=0)
    X = with_holes(points(np.random.default_rng(0), p.cardinalities, 100))
    read = as_evidence(X, (2,) * 4)
    signed = mixture([p, random_circuit(p.vtree, 2, rng=1)], [1.0, -0.9], normalized=False)
    whole, (logs, signs) = queries.log_values(p, read)[0], queries.log_values(signed, read)
    monkeypatch.setattr(queries, "DEFAULT_MAX_BYTES", 500)
    assert_logs_close(queries.log_values(p, read)[0], whole)
    parts, again = queries.log_values(signed, read)
    assert_logs_close(parts, logs)
    np.testing.assert_array_equal(again, signs)


def parameters(n=6, d=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(n)), rng.normal(size=(n, d)), rng.uniform(0.1, 2.0, size=(n, d))


def naive(weights, means, variances, X):
    logs = norm.logpdf(X[:, None], means, np.sqrt(variances))
    return logsumexp(np.nansum(logs, axis=2), axis=1, b=weights)


def quick(circuit, X):
    return queries.normal_mixture_logs(circuit, as_evidence(X, circuit.schema))


@pytest.mark.parametrize("vtree", [None, ek.Vtree.right_linear(4)])
@pytest.mark.parametrize("holes", [0.0, 0.4])
def test_log_densities_are_those_of_sums_over_components(vtree, holes, monkeypatch):
    monkeypatch.setattr("expectedkernels.circuits.queries.CHUNK_ROWS", 7)
    given = parameters()
    circuit = ek.gaussian_mixture(*given, vtree)
    rng = np.random.default_rng(1)
    X = with_holes(3.0 * rng.normal(size=(50, 4)), holes)
    found = circuit.log_likelihood(X)
    np.testing.assert_array_equal(found, quick(circuit, X))
    np.testing.assert_allclose(found, naive(*given, X), rtol=1e-12, atol=1e-12)
    swept = queries._swept_logs(circuit, as_evidence(X, circuit.schema))[0][:, 0]
    np.testing.assert_allclose(found, swept, rtol=1e-12, atol=1e-12)


def test_units_may_be_shared_and_weighted():
    weights, means, variances = parameters()
    means[3:5], variances[3:5] = means[0], variances[0]
    means[5, :2], variances[5, :2] = means[1, :2], variances[1, :2]
    circuit = mixture([ek.gaussian_mixture(weights, means, variances)] * 2, [0.3, 0.7])
    X = np.random.default_rng(1).normal(size=(20, 4))
    wanted = naive(weights, means, variances, X)
    for one in (circuit, ek.gaussian_mixture(weights, means, variances)):
        np.testing.assert_allclose(one.log_likelihood(X), wanted, rtol=1e-12)


def test_remote_rows_and_narrow_components_keep_their_digits():
    weights, means, variances = parameters()
    means, variances = means + 1e6, variances * 1e-12
    circuit = ek.gaussian_mixture(weights, means, variances)
    X = means[:3] + 1e-6
    wanted = naive(weights, means, variances, X)
    np.testing.assert_allclose(circuit.log_likelihood(X), wanted, rtol=1e-12)
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
    points = ek.gaussian_mixture(*parameters()[:2], np.zeros((6, 4)))
    assert quick(points, X) is None
    single = ek.gaussian_mixture(*(x[..., :1] if x.ndim == 2 else x for x in parameters()))
    assert quick(single, X[:, :1]) is None
    for circuit in (sums, single):
        assert np.isfinite(circuit.log_likelihood(X[:, : circuit.n_variables])).all()


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize(("n", "roots"), [(1, 1), (6, 1), (4, 3)])
@pytest.mark.parametrize("seed", range(12))
def test_sites_are_likelihoods_of_all_states(seed, n, roots, missing, monkeypatch):
    p = oracle.drawn_circuit(seed, roots=roots)
    rng = np.random.default_rng(seed)
    X = with_holes(points(rng, p.cardinalities, n), missing, seed)
    circuits = [p, p.to("torch")] if roots > 1 else [p]
    found = [(q, q.all_site_logs(X)) for q in circuits]
    monkeypatch.setattr(queries, "layers_of", lambda p: None)
    found.append((p, p.all_site_logs(X)))
    for v, card in enumerate(p.cardinalities):
        changed = np.repeat(X[None], card, axis=0)
        changed[:, :, v] = np.arange(card)[:, None]
        expected = np.stack([p.log_likelihood(rows) for rows in changed], axis=1)
        for q, logs in found:
            assert_logs_close(logs[v], expected)
            assert_logs_close(q.site_logs(X, v), expected)


@pytest.mark.parametrize("step", [2.0, 20.0, 58.0])
def test_sites_out_of_range_are_done_in_logs(step, monkeypatch):
    far = np.exp([0.0, -step]) / (1 + np.exp(-step))
    tables = [far] * 60 + [far[::-1]] * 60
    p = mixture([factorized(tables), factorized(tables[::-1])])
    X = np.zeros((2, 120))
    X[1, 60:] = 1
    asked = []
    again = queries._log_at_atoms
    monkeypatch.setattr(
        queries,
        "_log_at_atoms",
        lambda p, rows, exact: asked.append(rows.n_rows) or again(p, rows, exact),
    )
    every = p.all_site_logs(X)
    assert asked == ([] if step == 2.0 else [2])
    for v in (0, 59, 60, 119):
        assert_logs_close(every[v], p.site_logs(X, v))


def test_some_variables_and_no_rows():
    q = factorized([[0.5, 0.5], [0.1, 0.9]]).with_names(["a", "b"])
    assert_logs_close(q.all_site_logs([[0, 1]], ["b"])[0], np.log([[0.05, 0.45]]))
    assert [logs.shape for logs in q.all_site_logs(np.empty((0, 2)))] == [(0, 2)] * 2


def test_real_variables_have_no_states():
    p = oracle.drawn_circuit(1, share_real=1.0)
    assert_raises(ek.EvidenceError, "0 is real", p.all_site_logs, np.zeros((1, p.n_variables)))


nan = np.nan


@settings(max_examples=50)
@given(seeds, st.booleans(), st.sampled_from([2, 40]))
def test_samples_given_rows_weights_and_nothing(seed, deterministic, n_rows):
    p = (
        oracle.drawn_deterministic(seed)
        if deterministic
        else oracle.drawn_distribution(seed, n_max=4)
    )
    rng = np.random.default_rng(seed)
    rows = oracle.random_evidence(rng, p, n_rows)
    kept = evidence_as_weights(rows, p.cardinalities)
    soft = [w * rng.uniform(0.1, 3, size=w.shape) for w in kept]
    n = 2000 if n_rows == 2 else 200
    for evidence, weights in ((rows, kept), (soft, soft)):
        X = p.sample(n, rng=seed, evidence=evidence)
        assert X.shape == (n_rows, n, p.n_variables)
        for sample, row, expected in zip(X, rows, oracle.posterior(p, weights), strict=True):
            seen = ~np.isnan(row)
            assert (sample[:, seen] == row[seen]).all()
            assert_frequencies(sample, expected)
    one = p.sample(3000, rng=seed, evidence={v: w[0] for v, w in enumerate(soft)})
    assert_frequencies(one, oracle.posterior(p, soft)[0])
    X = p.sample(4000, rng=seed)
    assert X.shape == (4000, p.n_variables)
    assert_frequencies(X, np.exp(oracle.log_joint(p) - p.log_partition()))


def test_shapes_of_samples():
    p = ek.random_circuit(3, 2, rng=0, cardinalities=[2, 3, 2])
    assert p.sample(5, rng=0).shape == (5, 3)
    for evidence in ({0: 1}, [1, nan, nan], np.array([1, nan, nan])):
        X = p.sample(5, rng=0, evidence=evidence)
        assert X.shape == (5, 3)
        assert (X[:, 0] == 1).all()
    for evidence in ([[1, nan, nan]], [np.array([[0.0, 1.0]]), None, None]):
        assert p.sample(5, rng=0, evidence=evidence).shape == (1, 5, 3)
    assert p.sample(0, rng=0).shape == (0, 3)
    assert p.sample(0, rng=0, evidence=[[1, nan, nan]] * 2).shape == (2, 0, 3)
    assert p.sample(5, rng=0, evidence=np.empty((0, 3))).shape == (0, 5, 3)


def test_samples_are_reproducible_and_those_of_circuits_elsewhere(xp):
    p = ek.random_circuit(6, 4, rng=0)
    for same in (p.sample(9, rng=np.random.default_rng(3)), p.to(xp).sample(9, rng=3)):
        assert isinstance(same, np.ndarray)
        np.testing.assert_array_equal(same, p.sample(9, rng=3))
    assert (p.sample(9, rng=3) != p.sample(9, rng=4)).any()
    p = ek.factorized([[0.2, 0.7], [0.5, 0.1]], normalized=False)
    np.testing.assert_array_equal(p.to(xp).map([[nan, nan]]), p.map([[nan, nan]]))


@pytest.mark.parametrize("rows", [1, 40])
def test_normal_samples_given_evidence(rows):
    p = ek.gaussian_mixture([0.5, 0.5], [[0.0, 5.0], [4.0, 1.0]], [[1.0, 0.5], [2.0, 0.5]])
    x, n = 3.1, 20_000 // rows
    share = norm.pdf(x, [5.0, 1.0], np.sqrt(0.5))
    share /= share.sum()
    X = p.sample(n, rng=0, evidence=[[nan, x]] * rows)
    assert X.shape == (rows, n, 2)
    np.testing.assert_array_equal(X[..., 1], x)
    mean = share @ [0.0, 4.0]
    spread = share @ [1.0, 2.0 + 16.0] - mean**2
    assert abs(X[..., 0].mean() - mean) < 6 * np.sqrt(spread / X[..., 0].size)


@given(seeds, st.booleans(), st.sampled_from([1, 10, 50]))
def test_most_probable_completions(seed, ties, n):
    p = oracle.drawn_deterministic(seed, ties=ties)
    rng = np.random.default_rng(seed)
    rows = oracle.random_evidence(rng, p, n)
    if rng.random() < 0.3:
        rows[0] = nan
    kept = evidence_as_weights(rows, p.cardinalities)
    soft = [w * rng.uniform(0.1, 3, size=w.shape) for w in kept]
    for evidence, weights in ((rows, kept), (soft, soft)):
        completed = p.map(evidence)
        seen = ~np.isnan(rows)
        np.testing.assert_array_equal(completed[seen], rows[seen])
        scores = oracle.log_joint(p) + oracle.log_weights(weights, p.cardinalities)
        reached = scores[(np.arange(n), *completed.astype(int).T)]
        assert_logs_close(reached, scores.reshape(n, -1).max(axis=1))


def test_shapes_of_completions():
    p = ek.factorized([[0.2, 0.8], [0.1, 0.3, 0.6]])
    for X in ([nan, 0], np.array([nan, 0]), {1: 0}):
        assert p.map(X).tolist() == [1.0, 0.0]
    for X in ([[nan, 0]], np.array([[nan, 0]]), [None, np.array([[1.0, 0, 0]])]):
        assert p.map(X).tolist() == [[1.0, 0.0]]
    assert p.map([[0, 1], [nan, nan]]).tolist() == [[0.0, 1.0], [1.0, 2.0]]
    assert p.map({1: {0, 1}}).tolist() == [1.0, 1.0]
    assert p.map(np.empty((0, 2))).shape == (0, 2)


def test_most_probable_values_of_real_variables():
    parts = [
        ek.Product([ek.Indicator(0, i, 2), ek.Gaussian(1, mean, variance)])
        for i, (mean, variance) in enumerate([(-3.0, 1.0), (3.0, 100.0)])
    ]
    p = ek.Circuit.from_units(ek.Sum(parts, [0.2, 0.8]))
    # the narrow component has the larger density although it has the smaller weight
    assert p.map([nan, nan]).tolist() == [0.0, -3.0]
    found = p.map([[nan, 3.0], [1.0, nan], [nan, -3.0]])
    assert found.tolist() == [[1.0, 3.0], [1.0, 3.0], [0.0, -3.0]]


p2 = ek.mixture([ek.factorized([[1, 0], [1, 0]]), ek.factorized([[0, 1], [0, 1]])])
NORMALS = ek.gaussian_mixture([0.5, 0.5], [0, 1], [1, 1])
SIGNED, PART, ZERO = (
    ek.factorized(tables, normalized=False) for tables in ([[1, -1]], [[2, -1], [1, 1]], [[0, 0]])
)
SEVERAL = ek.algebra.stack([p2, p2])
REFUSED = [
    (lambda: ek.random_circuit(3, 2, rng=0).map([nan] * 3), ek.PropertyError,
     r"MAP needs a deterministic circuit, but sum unit .* overlapping.* NP-hard"),
    (lambda: NORMALS.map([nan]), ek.PropertyError, "several normal densities, which overlap"),
    (lambda: p2.map([[0, 1]]), ek.EvidenceError, "row 0 has probability zero"),
    (lambda: SEVERAL.map([nan, nan]), ek.CircuitError, "MAP needs .* Got 2 roots"),
    (lambda: SIGNED.map([nan]), ek.PropertyError, "MAP needs .* negative weights"),
    (lambda: p2.sample(-1), ek.DataError, "'n' parameter of sample must be an int .* Got -1"),
    (lambda: p2.sample(True), ek.DataError, "parameter of sample must be an int .* Got True"),
    (lambda: p2.sample(1, evidence=[0, 1]), ek.EvidenceError, "row 0 has probability zero"),
    (lambda: p2.sample(1, evidence={0: 7}), ek.EvidenceError, "A state of variable 0 is an int"),
    (lambda: SEVERAL.sample(1), ek.CircuitError, "Sampling needs .* Got 2 roots"),
    (lambda: ZERO.sample(1), ek.PropertyError, "sums to zero"),
    (lambda: PART.sample(1), ek.PropertyError,
     "Sampling needs a circuit without negative weights. There is one at vtree node 0"),
]  # fmt: skip


test_errors = refusals(None, REFUSED)
