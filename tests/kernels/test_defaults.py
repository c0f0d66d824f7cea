"""Kernels by default, and the median heuristic."""

import numpy as np
import pandas as pd
import pytest

import expectedkernels as ek
from assertions import assert_close
from expectedkernels.kernels.defaults import default_kernel


def test_the_median_heuristic_is_that_of_all_pairs():
    X = np.random.default_rng(0).normal(size=(30, 3))
    away = [np.linalg.norm(x - y) for i, x in enumerate(X) for y in X[:i]]
    assert_close(ek.median_gamma(X), 0.5 / np.median(away) ** 2)
    assert_close(ek.median_gamma(np.vstack([X, [[np.nan, 0, 0]]])), ek.median_gamma(X))
    assert_close(ek.median_gamma(pd.DataFrame(X)), ek.median_gamma(X))
    many = np.random.default_rng(1).normal(size=(5000, 3))
    np.testing.assert_allclose(ek.median_gamma(many), ek.median_gamma(X), rtol=0.3)


@pytest.mark.parametrize("X", [[[1.0]], [[1.0], [1.0]], [[np.nan], [1.0]]])
def test_equal_points_have_no_median_distance(X):
    with pytest.raises(ek.DataError, match=r"at least two different rows"):
        ek.median_gamma(X)


def test_the_median_of_other_things_is_refused():
    with pytest.raises(ek.DataError, match=r"reshape\(-1, 1\)"):
        ek.median_gamma([1.0, 2.0])
    with pytest.raises(ek.DataError, match=r"The column 'a' holds labels"):
        ek.median_gamma(pd.DataFrame({"a": ["x", "y"]}))


def test_kernels_fit_the_kinds_of_variables():
    p, q = ek.factorized([[0.2, 0.8], [0.5, 0.5]]), ek.factorized([[0.7, 0.3], [0.5, 0.5]])
    assert ek.mmd(p, q) == ek.mmd(p, q, ek.ExpHamming())
    X = np.array([[0, 1], [1, 1], [0, 0]])
    assert ek.mmd(p, X) == ek.mmd(p, X, ek.ExpHamming())
    assert ek.mmd(X, X[:2]) == ek.mmd(X, X[:2], ek.ExpHamming())
    Y = np.array([[0.0, 1.5], [1.0, 2.0], [3.0, 0.25]])
    f = ek.gaussian_mixture([0.4, 0.6], [[0, 0], [3, 1]], [[1, 1], [1, 2]])
    g = ek.gaussian_mixture([1.0], [[1, 1]], [[1, 2]])
    assert ek.mmd(f, Y) == ek.mmd(f, Y, ek.RBF(ek.median_gamma(Y)))
    squared = sum(
        (f.marginals()[v][0] - g.marginals()[v][0]) ** 2 + f.marginals()[v][1] + g.marginals()[v][1]
        for v in range(2)
    )
    assert_close(ek.mmd(f, g), ek.mmd(f, g, ek.RBF(0.5 / squared)))


def test_mixed_variables_get_a_product():
    units = ek.Product([ek.Categorical(0, [0.2, 0.8]), ek.Gaussian(1, 0.0, 2.0)])
    p = ek.Circuit.from_units(units)
    wanted = ek.RBF([0.0, 0.125]) * ek.ExpHamming([1.0, 0.0])
    X = [[0.0, 0.3], [1.0, -2.0]]
    np.testing.assert_allclose(default_kernel(p)(X), wanted(X))


def test_a_witness_takes_a_default_kernel_and_frames():
    p, q = ek.factorized([[0.9, 0.1]]).with_names(["a"], [["n", "y"]]), ek.factorized([[0.5, 0.5]])
    wanted = ek.witness(p, q, ek.ExpHamming(), [[0], [1]])
    assert_close(ek.witness(p, q, X=[[0], [1]]), wanted)
    assert_close(ek.witness(p, q, [[0], [1]]), wanted)
    assert_close(ek.witness(p, q, None, pd.DataFrame({"a": ["n", "y"]})), wanted)
    one, other = pd.DataFrame({"a": ["n", "y"]}), pd.DataFrame({"a": ["n", "n"]})
    assert_close(ek.witness(one, other, ek.Delta(), one), [0.5 - 1.0, 0.5])
    with pytest.raises(ek.DataError, match=r"Give some as X"):
        ek.witness(p, q)
