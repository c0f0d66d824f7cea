import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_close, assert_raises

K = ek.ExpHamming(0.7)


def three():
    vtree = ek.Vtree.balanced(4)
    return [ek.random_circuit(vtree, 3, rng, cardinalities=[2, 3, 2, 2]) for rng in (0, 1, 2)]


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
    values = [ek.mmd_compare(p1, p2, q.sample(100, rng), K).p_value for _ in range(150)]
    assert np.mean(np.array(values) <= 0.05) <= 0.05 + 3 * 0.018
    found = ek.mmd_compare(p1, far, q.sample(200, rng), K)
    assert found.closer == "the first model"
    assert found.p_value < 1e-3
    assert "is smaller than that of the second model by" in str(found)


@pytest.mark.parametrize("n", [5, 10, 20])
def test_few_samples_and_skewed_differences_keep_the_level(n):
    """The source is both models in equal parts, so that it is equally far from them."""
    rare, common = ek.factorized([[0.9, 0.1]] * 3), ek.factorized([[0.6, 0.4]] * 3)
    rng, rejected, repeats = np.random.default_rng(0), 0, 300
    for _ in range(repeats):
        X = np.where(rng.random((n, 1)) < 0.5, rare.sample(n, rng), common.sample(n, rng))
        if len(np.unique(X.sum(axis=1))) > 1:
            rejected += ek.mmd_compare(rare, common, X, K).p_value <= 0.05
    assert rejected / repeats <= 0.05 + 3 * 0.0126


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
        frozenset((a, b)): ek.mmd_compare(models[a], models[b], X, K).p_value
        for a in models
        for b in models
        if a < b
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
    for rows in (X, X[:1].repeat(5, axis=0)):
        found = ek.mmd_compare(p, ek.factorized([[0.5, 0.5], [share, 1 - share]]), rows)
        assert (found.difference, found.standard_error, found.p_value) == (0.0, 0.0, 1.0)
    assert ek.mmd_compare(p, ek.factorized([[0.5, 0.5], [0.3 + 1e-9, 0.7 - 1e-9]]), X).z != 0.0


def test_mistakes():
    p1, p2, q = three()
    X = q.sample(20, rng=0)
    assert ek.mmd_compare(p1, p1, X).p_value == 1.0
    with pytest.raises(ek.DataError, match="All 5 samples see the same difference"):
        ek.mmd_compare(p1, p2, np.zeros((5, 4)))
    with pytest.raises(ek.DataError, match=r"swapped. The call is mmd_compare\(p1, p2, samples"):
        ek.mmd_compare(X, p1, p2)
    assert_raises(ek.DataError, "At least two models are compared", ek.mmd_compare_all, [p1], X)
    with pytest.raises(ek.DataError, match="a list, or as a mapping from names to models"):
        ek.mmd_compare_all(p1, X)
