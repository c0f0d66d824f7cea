import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import norm

import expectedkernels as ek
from assertions import assert_frequencies, assert_raises, refusals
from oracles import with_holes
from strategies import seeds
from unit_graphs import drawn, drawn_unstructured, values, worlds

a0, a1, b0 = ek.Indicator(0, 0, 2), ek.Indicator(0, 1, 2), ek.Categorical(1, [0.5, 0.25, 0.25])


test_constructors_check_their_arguments = refusals(ek.CircuitError, [
    (ek.Sum, [a0], [0.5, 0.5], "one for each of the 1 inputs"),
    (ek.Sum, [], [], "A Sum needs at least one input"),
    (ek.Sum, [a0, 3], [1, 1], "in a list of units. Got 3 among them"),
    (ek.Sum, a0, [1], "in a list of units. Got Ind"),
    *((ek.Sum, [a0], x, "'weights' parameter of Sum must be a non-empty list of finite")
      for x in ([np.inf], ["x"])),
    (ek.Product, [], "A Product needs at least one input"),
    (ek.Product, [None], "list of units. Got None"),
    *((ek.Categorical, 0, x, "'probs' parameter of Categorical must be a non-empty list")
      for x in ([], [[0.5, 0.5]], [np.nan, 1])),
    *((ek.Categorical, x, [1, 1], "'variable' parameter of Categorical must be an int")
      for x in (-1, 10**9)),
    *((ek.Indicator, x, 0, 2, f"'variable' parameter of Indicator .*Got {x}") for x in (0.5, True)),
    (ek.Indicator, 0, 2, 2, "'value' parameter of Indicator must be an int in the range"),
    (ek.Indicator, 0, 0, 0, "'card' parameter of Indicator must be an int in the range"),
    (ek.Gaussian, 0, np.nan, 1, "'mean' parameter of Gaussian must be a float"),
    *((ek.Gaussian, 0, 0, x, rf"'variance' parameter of Gaussian must be a float.*\(0,.*Got {x}")
      for x in (0, -1.0)),
], lambda make, *arguments: make(*arguments))  # fmt: skip


def test_units_are_frozen_and_compared_by_identity():
    one, other = ek.Indicator(0, 0, 2), ek.Indicator(0, 0, 2)
    assert one != other
    assert len({one, other, one}) == 2
    with pytest.raises(AttributeError):
        one.value = 1
    table = np.array([0.5, 0.5])
    unit = ek.Categorical(0, table)
    table[0] = 7.0
    assert unit.probs.tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="read-only"):
        unit.probs[0] = 1.0


def test_scopes_and_cardinalities():
    unit = ek.Sum([ek.Product([a0, b0]), ek.Product([a1, b0])], [1, 2])
    assert unit.scope == {0, 1}
    assert unit.n_variables == 2
    assert unit.cardinalities == (2, 3)
    assert repr(unit) == "<Sum of 2 inputs over variables {0, 1}>"
    wide = ek.Product([ek.Indicator(v, 0, 2) for v in range(100)])
    assert repr(wide) == (
        "<Product of 100 inputs over variables {0, 1, 2, 3, 4, 5, ... 100 in all}>"
    )
    assert repr(a1) == "Indicator(variable=0, value=1, card=2)"
    for other, message in (
        (ek.Categorical(0, [1, 1, 1]), r"variable 0.*with 3 states.*discrete with 2 states"),
        (ek.Gaussian(0, 0, 1), r"one that is real and one that is discrete"),
    ):
        root = ek.Sum([other, a0], [1, 1])
        assert_raises(ek.CircuitError, message, root.log_likelihood, [[0.0]])
        assert_raises(ek.CircuitError, message, getattr, root, "cardinalities")
    assert ek.Gaussian(2, 0, 1).cardinalities == (None, None, None)


@given(seeds, st.booleans(), st.booleans())
def test_log_likelihood_of_rows(seed, zeros, structured):
    share = 0.5 if zeros else 0.0
    if structured:
        root, cards, _ = drawn(seed, zeros=share, drop=0.2)
    else:
        root, cards = drawn_unstructured(seed, zeros=share)
    X, joint = worlds(cards).astype(float), values(root, cards).reshape(cards)
    np.testing.assert_allclose(np.exp(root.log_likelihood(X)), joint.ravel(), rtol=1e-10)
    if not structured:  # smooth and decomposable: what is missing can be summed out
        rng = np.random.default_rng(seed)
        X = with_holes(X[rng.integers(0, joint.size, size=10)], 0.5, seed)
        places = [tuple(slice(None) if np.isnan(x) else int(x) for x in row) for row in X]
        expected = [np.sum(joint[place]) for place in places]
        np.testing.assert_allclose(np.exp(root.log_likelihood(X)), expected, rtol=1e-10)
        np.testing.assert_allclose(np.exp(root.log_partition()), joint.sum(), rtol=1e-10)


@given(seeds)
def test_signed_circuits_have_a_log_likelihood_where_they_are_positive(seed):
    root, cards = drawn_unstructured(seed, signed=True)
    expected = values(root, cards)
    X = np.array(worlds(cards))
    positive = expected > 1e-12
    found = np.exp(root.log_likelihood(X[positive]))
    np.testing.assert_allclose(found, expected[positive], rtol=1e-6)
    negative = np.flatnonzero(expected < -1e-12)
    if len(negative):
        assert_raises(ek.PropertyError, "negative value in row 0", root.log_likelihood, X[negative])


def test_chunks_do_not_change_the_result():
    root, cards, _ = drawn(7)
    for _ in range(4000):  # more units times rows than are kept at once
        root = ek.Sum([root], [1.0])
    X = np.array(worlds(cards))
    many = np.resize(X, (5000, len(cards)))
    expected = np.resize(root.log_likelihood(X), 5000)
    np.testing.assert_array_equal(root.log_likelihood(many), expected)


def test_gaussian_inputs():
    wide = ek.Product([ek.Gaussian(0, 1.0, 4.0), ek.Indicator(1, 0, 2)])
    narrow = ek.Product([ek.Gaussian(0, -2.0, 0.25), ek.Categorical(1, [0.5, 0.5])])
    root, x = ek.Sum([wide, narrow], [0.3, 0.7]), np.linspace(-4, 4, 9)
    first, second = norm.pdf(x, 1.0, 2.0), norm.pdf(x, -2.0, 0.5)
    for state, share in ((0.0, 0.35), (np.nan, 0.7)):
        found = np.exp(root.log_likelihood(np.column_stack([x, np.full(9, state)])))
        np.testing.assert_allclose(found, 0.3 * first + share * second, rtol=1e-12)
    message = r"variable 0 must be finite. Got inf"
    assert_raises(ek.DataError, message, root.log_likelihood, [[np.inf, 0.0]])
    rows = [[np.nan, 1.0], [np.nan, np.nan]]
    np.testing.assert_allclose(np.exp(root.log_likelihood(rows)), [0.35, 1.0], rtol=1e-12)
    assert ek.Gaussian(0, 0, 1).log_likelihood([[1e200]]) == -np.inf
    samples = root.sample(20_000, rng=0)
    assert samples[:, 0].mean() == pytest.approx(0.3 * 1.0 - 0.7 * 2.0, abs=0.05)
    assert samples[:, 1].mean() == pytest.approx(0.35, abs=0.02)


def test_chunks_underflow_and_depth():
    n = 2000
    tiny = ek.Product([ek.Categorical(v, [1e-200, 1e-300]) for v in range(n)])
    huge = ek.Product([ek.Categorical(v, [1e308, 1e308]) for v in range(n)])
    root = ek.Sum([tiny, huge], [1.0, 0.0])
    assert root.log_likelihood(np.zeros((1, n)))[0] == pytest.approx(n * np.log(1e-200))
    expected = n * (np.log(1e308) + np.log(2))
    assert huge.log_partition() == pytest.approx(expected)
    assert ek.Product([a0, ek.Categorical(1, [0.0, 0.0])]).log_partition() == -np.inf
    below = [ek.Categorical(1999, [0.5, 0.5])] * 2
    for v in range(1998, -1, -1):
        products = [ek.Product([ek.Indicator(v, i, 2), below[i]]) for i in range(2)]
        below = [ek.Sum(products, [0.25, 0.75]), ek.Sum(products, [0.5, 0.5])]
    root = below[0]
    assert root.log_partition() == pytest.approx(0.0, abs=1e-9)
    assert root.sample(3, rng=1).shape == (3, 2000)
    expected = 1999 * np.log(0.25) + np.log(0.5)
    assert root.log_likelihood(np.zeros((1, 2000)))[0] == pytest.approx(expected)


test_data_is_checked = refusals(ek.DataError, [
    ([0, 1], r"at least 2 columns, one per variable. Got shape \(2,\)"),
    ([[0]], r"Got shape \(1, 1\)"),
    ([[0, "x"]], "X must be an array of numbers"),
    ([[0, 0], [2, 0]], "variable 0 must be integers in 0..1. Got 2.0 in row 1"),
    ([[0.5, 0]], "Got 0.5 in row 0"),
    ([[0, -1]], "variable 1 must be integers in 0..2"),
], lambda X: ek.Product([a0, b0]).log_likelihood(X))  # fmt: skip


def test_marginalising_needs_smoothness_and_decomposability():
    not_smooth = ek.Sum([a0, ek.Product([a1, b0])], [0.5, 0.5])
    np.testing.assert_allclose(np.exp(not_smooth.log_likelihood([[0, 0], [1, 0]])), [0.5, 0.25])
    for what, call, *rows in (
        ("Marginalising out missing values", not_smooth.log_likelihood, [[0, np.nan]]),
        ("A partition function", not_smooth.log_partition),
        ("Sampling", not_smooth.sample, 1),
    ):
        message = r"smooth and decomposable circuit, but sum unit #4 .* over \{0\} and .* \{0, 1\}"
        assert_raises(ek.PropertyError, f"{what} needs a {message}", call, *rows)
    square = ek.Product([ek.Categorical(0, [0.5, 2.0]), ek.Categorical(0, [0.5, 2.0])])
    np.testing.assert_allclose(np.exp(square.log_likelihood([[0], [1]])), [0.25, 4.0])
    with pytest.raises(ek.PropertyError, match=r"product unit #2 .* inputs that share variables"):
        square.log_likelihood([[np.nan]])


@given(seeds)
def test_samples_follow_the_distribution(seed):
    root, cards = drawn_unstructured(seed, zeros=0.3)
    joint = values(root, cards)
    if not joint.any():
        assert_raises(ek.PropertyError, "zero everywhere", root.sample, 1)
        return
    assert_frequencies(root.sample(4000, rng=seed), joint.reshape(cards))


def test_columns_outside_the_scope_are_ignored_and_left_missing_in_samples():
    np.testing.assert_allclose(b0.log_likelihood([[np.nan, 0, -5]]), np.log([0.5]))
    X = b0.sample(5, rng=3)
    np.testing.assert_array_equal(X, b0.sample(5, rng=np.random.default_rng(3)))
    assert np.isnan(X[:, 0]).all()
    assert not np.isnan(X[:, 1]).any()
    assert b0.sample(0).shape == (0, 2)
    assert_raises(ek.DataError, "'n' parameter of sample must be an int", a0.sample, 2.5)


test_negative_numbers_are_refused = refusals(ek.PropertyError, [
    (lambda: ek.Sum([a0, a1], [1.0, -0.5]).sample(1), "but sum unit #2 .* has the weight -0.5"),
    (lambda: ek.Categorical(0, [1.0, -0.25]).sample(1), "but input unit #0 .* the value -0.25"),
    (ek.Categorical(0, [1.0, -2.0]).log_partition, "must be non-negative to have a logarithm"),
])  # fmt: skip
