import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_close, assert_raises, refusals
from oracles import distribution, with_holes, worlds
from stein_oracles import conditionals_given

K = ek.ExpHamming(0.7)
REPEATS = 80
ABOVE = 0.05 + 3 * np.sqrt(0.05 * 0.95 / REPEATS)


def pair():
    vtree = ek.Vtree.balanced(4)
    return [ek.random_circuit(vtree, 3, rng, cardinalities=[2, 3, 2, 2]) for rng in (0, 1)]


def test_the_statistic_and_its_error_are_those_of_the_definition():
    p, q = pair()
    X = q.sample(12, rng=0)
    mu, mean = ek.expected_kernel(p, X, K), ek.expected_kernel(p, p, K)
    h = K(X) - mu[:, None] - mu[None, :] + mean
    off = h - np.diag(np.diag(h))
    test = ek.mmd_test(X, p, K, n_null=5, rng=0)
    assert_close(test.statistic, off.sum() / (12 * 11), scale=1.0)
    assert_close(test.standard_error, 2 * (off.sum(axis=1) / 11).std(ddof=1) / np.sqrt(12))
    low, high = test.interval(0.9)
    assert 0 <= low <= test.statistic <= high


@pytest.mark.parametrize("seed", range(3))
def test_incomplete_samples_are_completed_exactly(seed):
    p, q = pair()
    X, every = with_holes(q.sample(12, rng=seed), 0.3, seed), worlds(p.cardinalities)
    X[0] = np.nan  # nothing observed
    joint = distribution(p)
    centred = conditionals_given(X, joint, p.cardinalities) - joint
    h = centred @ K(every) @ centred.T
    test = ek.mmd_test(X, p, K, n_null=5, rng=0)
    assert_close(test.statistic, (h.sum() - np.trace(h)) / (12 * 11), scale=1.0)
    assert_raises(ek.DataError, "with complete samples", test.interval)


def share_rejected(sample, repeats, rng, level=0.05, n_null=19, **options):
    values = [
        ek.mmd_test(sample(seed), n_null=n_null, rng=rng, **options).p_value
        for seed in range(repeats)
    ]
    return np.mean(np.array(values) <= level)


@pytest.mark.parametrize(("k", "gaps", "repeats"), [(K, 0.3, REPEATS), ("aggregate", 0.0, 50)])
def test_incomplete_samples_and_several_kernels_keep_the_level_and_have_power(k, gaps, repeats):
    p, q = pair()
    rng = np.random.default_rng(3)
    for source, times, low, high in ((p, repeats, 0.0, ABOVE), (q, 10, 0.8, 1.0)):

        def sample(seed, source=source):
            return with_holes(source.sample(60, rng), gaps, seed)

        assert low <= share_rejected(sample, times, rng, model=p, k=k) <= high
    assert ek.mmd_test(np.full((10, 4), np.nan), p, n_null=19).p_value == 1.0
    test = ek.mmd_test(p.sample(60, rng), p, [K, ek.Delta()], rng=0)
    assert_raises(ek.DataError, "complete samples under one kernel", test.interval)


def test_incomplete_real_rows_that_are_equal_are_told_apart_from_numbers():
    p = ek.gaussian_mixture([0.4, 0.6], [[0.0, 1.0], [2.0, 3.0]], [[1.0, 1.0], [2.0, 1.0]])
    X = np.array([[-1.0, 0.5], [np.nan, 0.5], [-1.0, 0.5], [np.nan, 0.5], [2.0, np.nan]])
    k = ek.RBF(0.2)
    K = ek.expected_kernel(p, p, k, evidence_p=X, evidence_q=X)
    mu = ek.expected_kernel(p, p, k, evidence_p=X)
    h = K - mu[:, None] - mu + ek.expected_kernel(p, p, k)
    test = ek.mmd_test(X, p, k, n_null=3, rng=0)
    assert_close(test.statistic, (h.sum() - np.trace(h)) / 20, scale=1.0)


def test_observed_values_of_probability_zero_raise():
    p = ek.factorized([[1.0, 0.0], [0.5, 0.5]])
    with pytest.raises(ek.EvidenceError, match="row 2 has probability zero"):
        ek.mmd_test([[0, 0], [0, 1], [1, np.nan]], p)


@pytest.mark.parametrize("form", ["circuit", "graph", "function"])
def test_rare_states_keep_the_level(form):
    graph = ek.FactorGraph([2] * 5, [([v], [0.99, 0.01]) for v in range(5)])
    models = {
        "circuit": graph.compile()[0],
        "graph": graph,
        "function": ek.Target(graph.log_score, [2] * 5),
    }
    rng = np.random.default_rng(0)
    found = share_rejected(lambda _: graph.sample(40, rng), REPEATS, rng, model=models[form])
    assert found <= ABOVE


def test_real_variables():
    p = ek.gaussian_mixture([0.4, 0.6], [[0.0, 0.0], [3.0, 1.0]], [[1.0, 1.0], [0.5, 2.0]])
    rng = np.random.default_rng(2)
    found = share_rejected(lambda _: p.sample(30, rng), 60, rng, level=0.1, n_null=9, model=p)
    assert found <= 0.1 + 3 * 0.04
    assert ek.mmd_test(p.sample(60, rng) + np.array([0.0, 2.0]), p, rng=0).p_value == 0.005


def test_zeros_and_parts_of_the_support_are_seen():
    p = ek.FactorGraph([2, 2], [([0, 1], [[1.0, 0.0], [0.0, 1.0]])])
    X = np.zeros((40, 2))
    assert ek.kdsd_test(X, p, rng=0).p_value == 1.0  # no single change connects both parts
    assert ek.mmd_test(X, p, rng=0).p_value == 0.005
    assert ek.mmd_test([[0, 1]] * 20, p, rng=0).p_value == 0.005


MODEL, TEN = pair()[0], pair()[0].sample(10, rng=0)


test_mistakes = refusals(ek.DataError, [
    (lambda: ek.mmd_test(MODEL, TEN), r"swapped. The call is mmd_test\(samples, model, k\)"),
    (lambda: ek.mmd_test(np.zeros((5, 20)), ek.Target(len, [2] * 20)),
     "function of more than 262144 states"),
    (lambda: ek.mmd_test(TEN, MODEL, null="signs"),
     "'null' parameter of mmd_test must be 'auto' or 'model'"),
    (lambda: ek.mmd_test(ek.Empirical(TEN, np.arange(10) / 45), MODEL), "different weights"),
    (lambda: ek.mmd_test(TEN, "asia"), "must be a Circuit, a FactorGraph"),
    (lambda: ek.mmd_test(TEN, MODEL, n_null=1).interval(95), "'coverage' parameter"),
])  # fmt: skip


def test_pictures():
    p, _ = pair()
    ax = ek.mmd_test(p.sample(10, rng=0), p, rng=0).plot()
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    assert sorted(shown) == ["observed", "under the hypothesis"]


def test_samples_that_are_all_alike_do_not_make_an_interval_of_one_point():
    p, delta = ek.factorized([[0.7, 0.3]]), ek.Delta()
    for n_null in (1, 19):
        low, high = ek.mmd_test(np.ones((30, 1)), p, delta, n_null=n_null, rng=0).interval()
        truths = [ek.mmd2(p, ek.factorized([[1 - a, a]]), delta) for a in (0.96, 1.0)]
        assert low < min(truths)
        assert max(truths) < high
