"""Chow-Liu trees as circuits: determinism, weights of rows, missing values, options."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import expectedkernels as ek
from expectedkernels import learn_chow_liu
from oracles import distribution, worlds
from strategies import domains, rngs


def random_rows(rng, cardinalities, n):
    """Rows whose columns depend on each other."""
    columns = [rng.integers(cardinalities[0], size=n)]
    for card in cardinalities[1:]:
        other = columns[rng.integers(len(columns))]
        noise = rng.integers(card, size=n)
        columns.append(np.where(rng.random(n) < 0.6, other % card, noise))
    return np.stack(columns, axis=1)


def test_roots_can_be_chosen():
    X = random_rows(np.random.default_rng(0), [2] * 6, 200)
    for root in range(6):
        p = learn_chow_liu(X, root=root)
        assert p.vtree.scope()[0] == root
        assert ek.properties(p).deterministic


@given(rngs, domains(), st.sampled_from(["flows", "cpt"]))
@settings(max_examples=40)
def test_learned_circuits_are_deterministic_distributions(rng, cardinalities, parameters):
    X = random_rows(rng, cardinalities, 30)
    p = learn_chow_liu(X, cardinalities=cardinalities, parameters=parameters)
    found = ek.properties(p)
    assert found.smooth
    assert found.deterministic
    assert found.structured_decomposable
    values = distribution(p)
    np.testing.assert_allclose(values.sum(), 1.0, rtol=1e-12)
    for v, marginal in enumerate(p.marginals()):
        states = worlds(cardinalities)[:, v]
        expected = [values[states == a].sum() for a in range(cardinalities[v])]
        np.testing.assert_allclose(marginal, expected, rtol=1e-10)


@given(rngs, domains(min_variables=2))
@settings(max_examples=40)
def test_integer_weights_are_repeated_rows(rng, cardinalities):
    X = random_rows(rng, cardinalities, 20)
    weights = rng.integers(0, 4, size=20)
    weights[0] = 1
    repeated = np.repeat(X, weights, axis=0)
    for options in ({"parameters": "cpt"}, {"pseudocount": 0.0}):
        p = learn_chow_liu(X, sample_weight=weights, cardinalities=cardinalities, **options)
        q = learn_chow_liu(repeated, cardinalities=cardinalities, **options)
        assert p.vtree == q.vtree
        np.testing.assert_array_equal(distribution(p), distribution(q))


def test_the_pseudocount_grows_with_the_mean_weight():
    X = random_rows(np.random.default_rng(0), [2, 3, 2], 40)
    p = learn_chow_liu(X, sample_weight=np.full(40, 2.5), alpha=2.5)
    np.testing.assert_allclose(distribution(p), distribution(learn_chow_liu(X)), rtol=1e-12)


def test_one_variable():
    p = learn_chow_liu([[0], [2], [2]], pseudocount=3.0)
    np.testing.assert_allclose(distribution(p), [2 / 6, 1 / 6, 3 / 6])
    assert p.vtree.n_nodes == 1


@pytest.mark.parametrize("parameters", ["flows", "cpt"])
def test_no_rows_give_a_uniform_distribution(parameters):
    p = learn_chow_liu(np.zeros((0, 3)), cardinalities=[2, 3, 2], parameters=parameters)
    np.testing.assert_allclose(distribution(p), 1 / 12)
    p = learn_chow_liu(np.zeros((0, 2)), 0.0, cardinalities=2, alpha=0.0, parameters=parameters)
    np.testing.assert_allclose(distribution(p), 1 / 4)


def test_constant_columns_are_connected_in_order():
    X = np.zeros((10, 4), dtype=int)
    X[:, 3] = np.arange(10) % 2
    for alpha in (0.0, 1.0):
        p = learn_chow_liu(X, pseudocount=0.0, alpha=alpha)
        assert ek.properties(p).deterministic
        np.testing.assert_allclose(np.exp(p.log_likelihood(X)), 0.5)
    same = learn_chow_liu(np.zeros((10, 4), dtype=int), alpha=0.0)
    assert repr(same.vtree) == "Vtree((0, (1, (2, 3))))"  # a star around variable 0


def test_variables_of_one_state():
    p = learn_chow_liu([[0, 0, 1], [0, 1, 0]], cardinalities=[1, 2, 2])
    assert p.cardinalities == (1, 2, 2)
    np.testing.assert_allclose(distribution(p).sum(), 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pseudocount": -1.0}, r"'pseudocount' parameter of learn_chow_liu must be a float in"),
        ({"alpha": np.nan}, r"'alpha' parameter of learn_chow_liu must be a float in the range"),
        ({"parameters": "em"}, r"'parameters' .* must be 'flows' or 'cpt'. Got 'em' instead"),
        ({"root": "random"}, r"'root' .* must be 'center' or a variable in 0..1. Got 'random'"),
        ({"root": 2}, r"'root' .* a variable in 0..1. Got 2 instead"),
        ({"root": True}, r"'root' .* a variable in 0..1. Got True instead"),
    ],
)
def test_bad_parameters_are_refused(options, message):
    with pytest.raises(ek.CircuitError, match=message):
        learn_chow_liu([[0, 1], [1, 0]], **options)


def missing(rng, X, share):
    """The rows with some entries missing."""
    return np.where(rng.random(X.shape) < share, np.nan, X)


def test_a_column_may_be_missing_altogether():
    X = np.array([[0, np.nan, 1], [1, np.nan, 0], [1, np.nan, np.nan]])
    p = learn_chow_liu(X, cardinalities=[2, 3, 2])
    np.testing.assert_allclose(p.marginals()[1], 1 / 3, rtol=1e-6)
    q = learn_chow_liu(X, cardinalities=[2, 3, 2], parameters="cpt", alpha=0.0)
    np.testing.assert_allclose(distribution(q).sum(), 1.0, rtol=1e-12)


def test_weights_of_rows_with_missing_values():
    rng = np.random.default_rng(3)
    X = missing(rng, random_rows(rng, [2, 3, 2], 30), 0.2)
    weights = rng.integers(1, 4, size=30)
    p = learn_chow_liu(X, 0.0, sample_weight=weights)
    q = learn_chow_liu(np.repeat(X, weights, axis=0), 0.0)
    np.testing.assert_allclose(distribution(p), distribution(q), atol=1e-9)


@pytest.fixture(scope="module")
def nltcs(data_dir):
    return [
        np.loadtxt(data_dir / "density" / f"nltcs.{part}.data", delimiter=",", dtype=np.intp)
        for part in ("train", "valid", "test")
    ]


def test_nltcs(nltcs):
    p = learn_chow_liu(nltcs[0])
    means = [float(p.log_likelihood(X).mean()) for X in nltcs]
    np.testing.assert_allclose(means, [-6.7601, -6.7185, -6.7591], rtol=0, atol=5e-5)
    assert ek.properties(p).deterministic
    cpt = learn_chow_liu(nltcs[0], parameters="cpt")
    np.testing.assert_allclose(cpt.log_likelihood(nltcs[2]).mean(), means[2], atol=1e-3)


def test_too_many_states_are_refused_before_their_pairs_take_memory():
    message = r"100000 states \(20000 variables\) takes 74.5 GiB, more than 8 GiB"
    with pytest.raises(ek.SizeError, match=message):
        learn_chow_liu(np.zeros((2, 20_000)), cardinalities=5)
