import numpy as np
import pandas as pd
import pytest

import expectedkernels as ek
from assertions import assert_close, refusals

K = ek.ExpHamming(0.7)


def naive(X, Y, k):
    """The unbiased squared discrepancy, by its definition."""
    n, m = len(X), len(Y)
    first = (k(X).sum() - np.trace(k(X))) / (n * (n - 1))
    second = (k(Y).sum() - np.trace(k(Y))) / (m * (m - 1))
    return first + second - 2 * k(X, Y).mean()


@pytest.mark.parametrize("real", [False, True])
def test_the_statistic_is_that_of_the_definition(real):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2)) if real else rng.integers(2, size=(12, 3))
    Y = rng.normal(size=(7, 2)) if real else rng.integers(2, size=(7, 3))
    k = ek.RBF(0.5) if real else K
    test = ek.mmd_two_sample_test(X, Y, k, rng=0)
    assert (test.n, test.m, len(test.null)) == (12, 7, 199)
    assert_close(test.statistic, naive(X, Y, k), scale=1.0)


def test_it_keeps_its_level_and_has_power():
    rng = np.random.default_rng(1)

    def share(shift, repeats, k):
        values = [
            ek.mmd_two_sample_test(
                rng.normal(size=(20, 2)), rng.normal(size=(15, 2)) + shift, k, n_null=19, rng=rng
            ).p_value
            for _ in range(repeats)
        ]
        return np.mean(np.array(values) <= 0.05)

    for k in (None, "aggregate"):
        assert share(0.0, 150, k) <= 0.05 + 3 * 0.018
        assert share(1.5, 20, k) >= 0.8


def test_ties_are_no_evidence():
    X, Y = np.zeros((20, 3)), np.zeros((30, 3))
    assert ek.mmd_two_sample_test(X, Y, rng=0).p_value == 1.0
    rng = np.random.default_rng(2)
    rare = [(rng.random((20, 3)) < 0.01, rng.random((20, 3)) < 0.01) for _ in range(100)]
    values = [ek.mmd_two_sample_test(*pair, n_null=19, rng=rng).p_value for pair in rare]
    assert np.mean(np.array(values) <= 0.05) <= 0.05


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


COIN, TOSSES = ek.factorized([[0.5, 0.5]]), np.arange(10.0)[:, None] % 2


test_mistakes = refusals(None, [
    (COIN, ek.DataError, r"Got a Circuit; mmd_test\(samples, model\)"),
    (TOSSES[:1], ek.DataError, "at least two samples of each"),
    (np.zeros((3, 2)), ek.DataError, "1 and 2 columns"),
    (np.full((3, 1), np.nan), ek.DataError, r"NaN in row 0.* missing completely at random"),
    (ek.Empirical(TOSSES[:2], [0.25, 0.75]), ek.DataError, "different weights"),
    (ek.Target(len, [2]), ek.PropertyError, "a Target is a function"),
], lambda Y: ek.mmd_two_sample_test(TOSSES, Y))  # fmt: skip
