"""Tests by MMD: of samples against a model, of two sets of samples, of models compared."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import expectedkernels as ek
from assertions import assert_close, assert_raises, refusals, rejected
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
    shown = [text.get_text() for text in test.plot().get_legend().get_texts()]
    assert sorted(shown) == ["observed", "under the hypothesis"]


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


@pytest.mark.parametrize(("k", "gaps", "repeats"), [(K, 0.3, REPEATS), ("aggregate", 0.0, 50)])
def test_incomplete_samples_and_several_kernels_keep_the_level_and_have_power(k, gaps, repeats):
    p, q = pair()
    rng = np.random.default_rng(3)
    for source, times, low, high in ((p, repeats, 0.0, ABOVE), (q, 10, 0.8, 1.0)):

        def test(seed, source=source):
            X = with_holes(source.sample(60, rng), gaps, seed)
            return ek.mmd_test(X, p, k, n_null=19, rng=rng)

        assert low <= rejected(test, times) <= high
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


@pytest.mark.parametrize("form", ["circuit", "graph", "function"])
def test_rare_states_keep_the_level(form):
    graph = ek.FactorGraph([2] * 5, [([v], [0.99, 0.01]) for v in range(5)])
    function, circuit = ek.Target(graph.log_score, [2] * 5), graph.compile()[0]
    model = {"circuit": circuit, "graph": graph, "function": function}[form]
    rng = np.random.default_rng(0)
    test = lambda _: ek.mmd_test(graph.sample(40, rng), model, n_null=19, rng=rng)  # noqa: E731
    assert rejected(test, REPEATS) <= ABOVE


def test_real_variables():
    p = ek.gaussian_mixture([0.4, 0.6], [[0.0, 0.0], [3.0, 1.0]], [[1.0, 1.0], [0.5, 2.0]])
    rng = np.random.default_rng(2)
    test = lambda _: ek.mmd_test(p.sample(30, rng), p, n_null=9, rng=rng)  # noqa: E731
    assert rejected(test, 60, level=0.1) <= 0.1 + 3 * 0.04
    assert ek.mmd_test(p.sample(60, rng) + np.array([0.0, 2.0]), p, rng=0).p_value == 0.005


def test_zeros_and_parts_of_the_support_are_seen():
    p = ek.FactorGraph([2, 2], [([0, 1], [[1.0, 0.0], [0.0, 1.0]])])
    X = np.zeros((40, 2))
    assert ek.kdsd_test(X, p, rng=0).p_value == 1.0  # no single change connects both parts
    assert ek.mmd_test(X, p, rng=0).p_value == 0.005
    assert ek.mmd_test([[0, 1]] * 20, p, rng=0).p_value == 0.005
    sure, rows = ek.factorized([[1.0, 0.0], [0.5, 0.5]]), [[0, 0], [0, 1], [1, np.nan]]
    assert_raises(ek.EvidenceError, "row 2 has probability zero", ek.mmd_test, rows, sure)


MODEL, OTHER = pair()
TEN, TOSSES = MODEL.sample(10, rng=0), np.arange(10.0)[:, None] % 2
COIN = ek.factorized([[0.5, 0.5]])


test_mistakes = refusals(ek.DataError, [
    (lambda: ek.mmd_test(MODEL, TEN), r"swapped. The call is mmd_test\(samples, model, k\)"),
    (lambda: ek.mmd_test(np.zeros((5, 20)), ek.Target(len, [2] * 20)),
     "function of more than 262144 states"),
    (lambda: ek.mmd_test(TEN, MODEL, null="signs"),
     "'null' parameter of mmd_test must be 'auto' or 'model'"),
    (lambda: ek.mmd_test(ek.Empirical(TEN, np.arange(10) / 45), MODEL), "different weights"),
    (lambda: ek.mmd_test(TEN, "asia"), "must be a Circuit, a FactorGraph"),
    (lambda: ek.mmd_test(TEN, MODEL, n_null=1).interval(95), "'coverage' parameter"),
    (lambda: ek.mmd_compare(MODEL, OTHER, np.zeros((5, 4))), "All 5 samples see the same diffe"),
    (lambda: ek.mmd_compare(TEN, MODEL, OTHER),
     r"swapped. The call is mmd_compare\(p1, p2, samples"),
    (lambda: ek.mmd_compare_all([MODEL], TEN), "At least two models are compared"),
    (lambda: ek.mmd_compare_all(MODEL, TEN), "a list, or as a mapping from names to models"),
    (lambda: ek.mmd_two_sample_test(TOSSES, COIN), r"Got a Circuit; mmd_test\(samples, model\)"),
    (lambda: ek.mmd_two_sample_test(TOSSES, TOSSES[:1]), "at least two samples of each"),
    (lambda: ek.mmd_two_sample_test(TOSSES, np.zeros((3, 2))), "1 and 2 columns"),
    (lambda: ek.mmd_two_sample_test(TOSSES, np.full((3, 1), np.nan)),
     r"NaN in row 0.* missing completely at random"),
    (lambda: ek.mmd_two_sample_test(TOSSES, ek.Empirical(TOSSES[:2], [0.25, 0.75])),
     "different weights"),
])  # fmt: skip


def test_samples_that_are_all_alike_do_not_make_an_interval_of_one_point():
    p, delta = ek.factorized([[0.7, 0.3]]), ek.Delta()
    for n_null in (1, 19):
        low, high = ek.mmd_test(np.ones((30, 1)), p, delta, n_null=n_null, rng=0).interval()
        truths = [ek.mmd2(p, ek.factorized([[1 - a, a]]), delta) for a in (0.96, 1.0)]
        assert low < min(truths)
        assert max(truths) < high


def naive(X, Y, k):
    """The unbiased squared discrepancy, by its definition."""
    n, m = len(X), len(Y)
    first = (k(X).sum() - np.trace(k(X))) / (n * (n - 1))
    second = (k(Y).sum() - np.trace(k(Y))) / (m * (m - 1))
    return first + second - 2 * k(X, Y).mean()


@pytest.mark.parametrize("real", [False, True])
def test_the_statistic_of_two_samples_is_that_of_the_definition(real):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2)) if real else rng.integers(2, size=(12, 3))
    Y = rng.normal(size=(7, 2)) if real else rng.integers(2, size=(7, 3))
    k = ek.RBF(0.5) if real else K
    test = ek.mmd_two_sample_test(X, Y, k, rng=0)
    assert (test.n, test.m, len(test.null)) == (12, 7, 199)
    assert_close(test.statistic, naive(X, Y, k), scale=1.0)


def test_two_samples_keep_the_level_and_have_power():
    rng = np.random.default_rng(1)

    def share(shift, repeats, k):
        def test(_):
            X, Y = rng.normal(size=(20, 2)), rng.normal(size=(15, 2)) + shift
            return ek.mmd_two_sample_test(X, Y, k, n_null=19, rng=rng)

        return rejected(test, repeats)

    for k in (None, "aggregate"):
        assert share(0.0, 150, k) <= 0.05 + 3 * 0.018
        assert share(1.5, 20, k) >= 0.8


def test_ties_are_no_evidence():
    X, target = np.zeros((20, 3)), ek.Target(len, [2] * 3)
    assert ek.mmd_two_sample_test(X, np.zeros((30, 3)), rng=0).p_value == 1.0
    assert_raises(ek.PropertyError, "a Target is a function", ek.mmd_two_sample_test, X, target)
    rng = np.random.default_rng(2)

    def test(_):
        return ek.mmd_two_sample_test(*(rng.random((2, 20, 3)) < 0.01), n_null=19, rng=rng)

    assert rejected(test, 100) <= 0.05


def test_frames_are_matched_by_name_and_label():
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"colour": rng.choice(["red", "blue"], 40), "size": rng.normal(size=40)})
    Y = pd.DataFrame({"size": rng.normal(size=30), "colour": rng.choice(["blue", "green"], 30)})
    assert ek.mmd_two_sample_test(X, Y, rng=0).p_value == 0.005
    Y["colour"] = rng.choice(["red", "blue"], 30)
    test = ek.mmd_two_sample_test(X, Y, rng=0)
    assert test.p_value > 0.05
    assert test.statistic == ek.mmd_two_sample_test(X, Y[["colour", "size"]], rng=0).statistic
    assert "both sets of samples have one source is not rejected" in str(test)


def three():
    return [*pair(), ek.random_circuit(ek.Vtree.balanced(4), 3, 2, cardinalities=[2, 3, 2, 2])]


def test_the_difference_is_that_of_two_discrepancies():
    p1, p2, q = three()
    X = q.sample(50, rng=0)
    found = ek.mmd_compare(p1, p2, X, K)
    assert_close(found.difference, ek.mmd2(p1, X, K) - ek.mmd2(p2, X, K), scale=1.0)
    assert found.z == found.difference / found.standard_error
    scores = [ek.expected_kernel(p, p, K) - 2 * ek.expected_kernel(p, X, K) for p in (p1, p2)]
    error = (scores[0] - scores[1]).std(ddof=1) / np.sqrt(len(X))
    assert_close(found.standard_error, error)
    other = ek.mmd_compare(p2, p1, X, K)
    assert_close(other.difference, -found.difference, scale=1.0)
    assert found.closer == ("the first model" if found.difference < 0 else "the second model")


def test_models_at_the_same_distance_are_told_apart_as_rarely_as_promised():
    q = ek.factorized([[0.5, 0.5], [0.5, 0.5]])
    p1, p2 = ek.factorized([[0.7, 0.3], [0.5, 0.5]]), ek.factorized([[0.5, 0.5], [0.3, 0.7]])
    far = ek.factorized([[0.05, 0.95], [0.1, 0.9]])
    rng = np.random.default_rng(0)
    test = lambda _: ek.mmd_compare(p1, p2, q.sample(100, rng), K)  # noqa: E731
    assert rejected(test, 150) <= 0.05 + 3 * 0.018
    found = ek.mmd_compare(p1, far, q.sample(200, rng), K)
    assert found.closer == "the first model"
    assert found.p_value < 1e-3
    assert "is smaller than that of the second model by" in str(found)


@pytest.mark.parametrize("n", [5, 10, 20])
def test_few_samples_and_skewed_differences_keep_the_level(n):
    """The source is both models in equal parts, so that it is equally far from them."""
    rare, common = ek.factorized([[0.9, 0.1]] * 3), ek.factorized([[0.6, 0.4]] * 3)
    rng, count = np.random.default_rng(0), 0
    for _ in range(300):
        X = np.where(rng.random((n, 1)) < 0.5, rare.sample(n, rng), common.sample(n, rng))
        if len(np.unique(X.sum(axis=1))) > 1:
            count += ek.mmd_compare(rare, common, X, K).p_value <= 0.05
    assert count / 300 <= 0.05 + 3 * 0.0126


def test_models_need_not_be_compatible_and_are_matched_by_name():
    names = ["a", "b", "c"]
    p1 = ek.random_circuit(ek.Vtree.right_linear(3), 2, 0).with_names(names)
    p2 = ek.random_circuit(ek.Vtree.from_nested(((0, 2), 1)), 2, 1).with_names(["c", "a", "b"])
    frame = p1.sample(60, rng=0, as_frame=True)
    found = ek.mmd_compare(p1, p2, frame, K)
    assert_close(found.difference, ek.mmd2(p1, frame, K) - ek.mmd2(p2, frame, K), scale=1.0)
    functions = [ek.Target(p.log_likelihood, p.cardinalities, p.names) for p in (p1, p2)]
    assert_close(ek.mmd_compare(*functions, frame, K).difference, found.difference, scale=1.0)


def test_several_models_are_compared_with_holms_rule():
    q = ek.factorized([[0.5, 0.5], [0.5, 0.5]])
    models = {f"{x}": ek.factorized([[x, 1 - x], [0.5, 0.5]]) for x in (0.9, 0.52, 0.5, 0.8)}
    X = q.sample(100, rng=1)
    found = ek.mmd_compare_all(models, X, K)
    single = {
        frozenset(names): ek.mmd_compare(*(models[name] for name in names), X, K).p_value
        for names in combinations(models, 2)
    }
    assert {frozenset(pair.names) for pair in found.pairs} == set(single)
    expected, least = {}, 0.0
    for rank, (names, value) in enumerate(sorted(single.items(), key=lambda item: item[1])):
        least = max(least, min(1.0, (6 - rank) * value))
        expected[names] = least
    for pair in found.pairs:
        assert pair.difference <= 0
        assert pair.closer == pair.names[0]
        assert_close(pair.p_value, expected[frozenset(pair.names)])
    assert set(found.names[:2]) == {"0.52", "0.5"}
    assert set(found.closest) == {"0.52", "0.5"}
    assert len(str(found).splitlines()) == 6
    assert ek.mmd_compare_all(list(models.values()), X, K).names[-1] == "model 1"


def test_rounding_is_no_difference():
    p, q = ek.factorized([[0.5, 0.5], [0.3, 0.7]]), ek.factorized([[0.6, 0.4], [0.5, 0.5]])
    X, share = q.sample(60, rng=0), 0.3 + 1e-15
    assert ek.mmd_compare(p, p, X).p_value == 1.0
    for rows in (X, X[:1].repeat(5, axis=0)):
        found = ek.mmd_compare(p, ek.factorized([[0.5, 0.5], [share, 1 - share]]), rows)
        assert (found.difference, found.standard_error, found.p_value) == (0.0, 0.0, 1.0)
    assert ek.mmd_compare(p, ek.factorized([[0.5, 0.5], [0.3 + 1e-9, 0.7 - 1e-9]]), X).z != 0.0
