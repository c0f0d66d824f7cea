"""Graphs of units: what they say by themselves, and the circuits that they become."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import norm

import expectedkernels as ek
from assertions import assert_frequencies, assert_raises, refusals
from circuit_oracles import absolute, block_circuits, joint
from oracles import Inner, Real, Table, values_at, with_holes, worlds
from strategies import seeds, with_swaps
from unit_graphs import RandomGraphs, drawn, drawn_unstructured, mix, pair, random_nested, values, x

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
        rows, message = np.vstack([X[positive], X[negative]]), rf"value in row {positive.sum()}\."
        assert_raises(ek.PropertyError, message, root.log_likelihood, rows)


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


def assert_same_function(root, cards, circuit):
    found = values_at(circuit, worlds(cards))
    np.testing.assert_allclose(found, values(root, cards)[:, None], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("drop", [0.0, 0.4])
@pytest.mark.parametrize("on_vtree", [False, True])
@given(seeds, st.booleans(), st.booleans())
def test_blocks_compute_the_same_function(drop, on_vtree, seed, signed, zeros):
    root, cards, nested = drawn(seed, signed=signed, zeros=0.4 if zeros else 0.0, drop=drop)
    given_vtree = with_swaps(ek.Vtree.from_nested(nested), np.random.default_rng(seed))
    circuit = ek.Circuit.from_units(root, vtree=given_vtree if on_vtree else None, smooth=drop > 0)
    assert (circuit.vtree is given_vtree) == on_vtree
    assert sorted(circuit.vtree.scope().tolist()) == list(range(len(cards)))
    assert circuit.cardinalities == cards
    assert_same_function(root, cards, circuit)


def all_nested(variables):
    """All vtrees over some variables as nested pairs, up to swapping."""
    if len(variables) == 1:
        return [variables[0]]
    first, *rest = variables
    trees = []
    for chosen in product([False, True], repeat=len(rest)):
        if not all(chosen):
            left = [first, *(v for v, c in zip(rest, chosen, strict=True) if c)]
            right = [v for v in rest if v not in left]
            trees += product(all_nested(left), all_nested(right))
    return trees


@given(seeds, st.booleans())
def test_a_vtree_is_found_when_there_is_one(seed, smooth):
    rng = np.random.default_rng(seed)
    graphs = RandomGraphs(rng, [2] * 4, drop=0.0 if smooth else 0.4)
    # parts along different vtrees, often with wide products: sometimes one vtree fits them all
    parts = [graphs.product(random_nested(rng, rng.permutation(4))) for _ in range(2)]
    root = graphs.sum([*parts, ek.Product([x(v) for v in range(4)])])
    fitting = []
    for nested in all_nested(range(4)):
        try:
            ek.Circuit.from_units(root, vtree=ek.Vtree.from_nested(nested), smooth=True)
        except ek.CompatibilityError:
            continue
        fitting.append(nested)
    if fitting:
        found = ek.Circuit.from_units(root, smooth=True)
        vtrees = map(ek.Vtree.from_nested, fitting)
        assert any(found.vtree.align(vtree) is not None for vtree in vtrees)
        assert_same_function(root, (2,) * 4, found)
    else:
        assert_raises(ek.PropertyError, "not structured", ek.Circuit.from_units, root, smooth=True)


@given(seeds)
def test_unstructured_circuits_are_converted_or_refused(seed):
    root, cards = drawn_unstructured(seed)
    try:
        found = ek.Circuit.from_units(root)
    except ek.PropertyError:
        assert not ek.properties(root).structured_decomposable
        assert_raises(ek.PropertyError, "not structured-decomposable", ek.Circuit.from_units, root)
    else:
        assert_same_function(root, cards, found)


def part(a, b):
    return ek.Product([pair(a, b), *(x(v) for v in range(4) if v not in (a, b))])


RIGHT = ek.Product([x(0), ek.Product([x(1), ek.Product([x(2), x(3)])])])
LEFT = ek.Product([ek.Product([ek.Product([x(0), x(1)]), x(2)]), x(3)])
SCALED = ek.Product([ek.Sum([ek.Product([x(0), x(2)])], [0.5]), x(1)])
NARROW = ek.Product([pair(0, 3), ek.Product([x(1), x(2)])])
TWICE = mix(ek.Product([x(0), x(1)]), ek.Product([x(0, 1), x(1, 1)]))
for _ in range(60):  # 2**60 paths
    TWICE = ek.Sum([TWICE, TWICE], [0.5, 0.5])
HALF = ek.Categorical(0, [0.5, 0.5])
ON_LEFT = {"vtree": ek.Vtree.from_nested(((0, 1), 2))}
FUNCTIONS = {
    "wide": (mix(part(0, 1), part(2, 3)), {}, ((0, 1), (2, 3))),
    "flat": (ek.Product([x(v) for v in (3, 1, 0, 2, 4)]), {}, ((0, 1), (2, (3, 4)))),
    "wide and narrow": (mix(ek.Product([x(v, 1) for v in range(4)]), NARROW), {}, ((0, 3), (1, 2))),
    "nested": (RIGHT, {}, (0, (1, (2, 3)))),
    "nested in two ways": (mix(RIGHT, LEFT), {}, None),
    "scaled": (mix(SCALED, ek.Product([x(v, 0) for v in range(3)])), ON_LEFT, None),
    "many paths": (TWICE, {}, (0, 1)),
    "table": (mix(x(0, 0), ek.Sum([x(0, 1), HALF], [1, 2]), ek.Product([x(0)])), {}, 0),
    "weight of zero": (ek.Sum([ek.Product([x(0), x(1)])], [0.0]), {}, (0, 1)),
    # {1, 2} must be cut to agree with {0, 1} | {2}, and the constant in 0 goes to the left
    "cut": (mix(pair(1, 2), ek.Product([pair(0, 1), x(2)])), {"smooth": True}, ((0, 1), 2)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_and_vtrees_of_graphs(name):
    root, options, nested = FUNCTIONS[name]
    circuit = ek.Circuit.from_units(root, **options)
    assert nested is None or circuit.vtree == ek.Vtree.from_nested(nested)
    assert_same_function(root, (2,) * circuit.n_variables, circuit)
    if name == "flat":
        assert all(block.n_units == 1 for block in circuit.blocks)
    if name == "many paths":
        assert circuit.blocks[-1].n_products == 2


def test_univariate_sums_become_tables_and_mixtures():
    assert isinstance(ek.Circuit.from_units(FUNCTIONS["table"][0]).blocks[0], Table)
    g = [ek.Gaussian(0, m, 1.0) for m in (0.0, 1.0, 0.0)]
    root = ek.Sum([g[0], ek.Sum(g[1:], [0.5, 0.5])], [0.2, 0.8])
    (block,) = ek.Circuit.from_units(root).blocks
    assert isinstance(block, Real)
    mixture = dict(zip(block.mean.tolist(), block.weights[0].tolist(), strict=True))
    assert mixture == pytest.approx({0.0: 0.6, 1.0: 0.4})
    circuit = ek.Circuit.from_units(mix(ek.Product([g[0], x(1, 0)]), ek.Product([g[1], x(1, 1)])))
    assert circuit.cardinalities == (None, 2)
    assert circuit.n_parameters > 0


ONE = x(0)


test_errors = refusals(None, [
    (mix(part(0, 1), part(1, 2)), {}, ek.PropertyError,
     r"over variables \{0, 1, 2\}, product unit #9 splits into \{0, 1\} \| \{2\}, but product "
     r"unit #19 .* \{0\} \| \{1, 2\}"),
    (mix(part(0, 1), part(1, 2), part(2, 3)), {}, ek.PropertyError,
     r"over variables \{0, 1, 2, 3\}, product unit #9 splits into .* unit #19 splits into"),
    (mix(ek.Product([x(0), pair(1, 2)]), ek.Product([pair(0, 1), x(2)])), {}, ek.PropertyError,
     r"not structured-decomposable: over variables \{0, 1, 2\}, product unit #8 splits into "
     r"\{0\} \| \{1, 2\}, but product unit #17 splits into \{0, 1\} \| \{2\}. "
     r".*monte_carlo_expected_kernel gives an estimate"),
    (mix(ek.Product([x(0), x(1)]), x(0, 1)), {}, ek.PropertyError,
     r"not smooth: sum unit #4 over variables \{0, 1\} has an input over \{0, 1\} and one "
     r"over \{0\}. Pass smooth=True"),
    (mix(ek.Product([x(0), ek.Gaussian(1, 0.0, 1.0)]), x(0, 1)), {"smooth": True}, ek.PropertyError,
     r"variable 1 is real.* sum unit #4 over .* one over \{0\}"),
    (ek.Product([ek.Product([x(0), x(1)]), x(0)]), {}, ek.PropertyError,
     r"not decomposable: product unit #4 .* \{0\}"),
    (ek.Product([ONE, ONE]), {}, ek.PropertyError, "not decomposable: product unit #1"),
    (ek.Product([x(1), x(3)]), {}, ek.CircuitError, r"no input units for \{0, 2\}"),
    (mix(x(0), ek.Categorical(0, [1, 1, 1])), {}, ek.CircuitError, "0 must have the same domain"),
    ([x(0)], {}, ek.CircuitError, r"root of a unit graph must be a Sum.* Got list"),
    (ek.Product([x(0), x(1)]), {"vtree": ek.Vtree.balanced(3)}, ek.CompatibilityError,
     r"variables of the circuit, \{0, 1\}. .*\{0, 1, 2\}"),
    (ek.Product([pair(0, 1), x(2)]), {"vtree": ek.Vtree.right_linear(3)}, ek.CompatibilityError,
     r"product unit #8 over variables \{0, 1, 2\} splits into \{0, 1\} \| \{2\}, but the "
     r"vtree splits \{0, 1, 2\} into \{0\} \| \{1, 2\}, and so would cut sum unit #6 over"),
    (mix(ek.Product([pair(1, 2), x(3)]), ek.Product([x(v) for v in range(4)])),
     {"vtree": ek.Vtree.from_nested(((0, 1), (2, 3))), "smooth": True}, ek.CompatibilityError,
     "would cut sum unit"),
], lambda root, options: ek.Circuit.from_units(root, **options))  # fmt: skip


@pytest.mark.parametrize("shape", [ek.Vtree.right_linear, ek.Vtree.left_linear, ek.Vtree.balanced])
def test_wide_and_deep_products_over_many_variables(shape):
    n = 1200  # beyond any recursion limit
    chain = x(n - 1)
    for v in range(n - 2, -1, -1):
        chain = ek.Product([x(v, 0), chain])
    root = mix(ek.Product([x(v) for v in range(n)]), chain)
    assert ek.Circuit.from_units(root, vtree=shape(n)).blocks[-1].n_products == 2
    found = ek.Circuit.from_units(root)
    assert found.n_variables == n
    assert sum(block.n_units for block in found.blocks) <= 4 * n


@pytest.mark.parametrize("signed", [False, True])
@given(data=st.data(), roots=st.integers(1, 3))
def test_functions_and_roots_stay(signed, data, roots):
    drawn = data.draw(block_circuits(signed=signed, roots=roots, minimised=False))
    expected, small = joint(drawn), ek.Circuit.from_blocks(drawn.vtree, drawn.blocks)
    assert small.n_roots == len(expected)
    scale = np.abs(joint(absolute(drawn))).max(initial=1.0)
    np.testing.assert_allclose(joint(small), expected, rtol=1e-10, atol=1e-10 * scale)


@given(st.integers(1, 3).flatmap(lambda roots: block_circuits(roots=roots, minimised=False)))
def test_no_unit_is_equal_to_another_or_useless(drawn):
    vtree = drawn.vtree
    circuit = ek.Circuit.from_blocks(vtree, drawn.blocks)
    small = circuit.blocks
    if not joint(circuit).any():
        return
    for node, block in enumerate(small):
        if node != vtree.root:
            parent = small[vtree.parent[node]]
            side = "left" if vtree.left[vtree.parent[node]] == node else "right"
            assert set(parent.index(side)) == set(range(block.n_units))
        if isinstance(block, Table):
            if node != vtree.root:
                assert len(np.unique(block.table, axis=0)) == block.n_units
                assert block.table.any(axis=1).all()
            continue
        inputs = set(zip(block.index("left"), block.index("right"), strict=True))
        if node != vtree.root or block.weights is not None:
            assert len(inputs) == block.n_products
        if block.weights is not None:
            weights = block.csr.toarray()
            assert weights.any(axis=0).all()
            if node != vtree.root:
                assert weights.any(axis=1).all()
                assert len(np.unique(weights, axis=0)) == block.n_units


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("roots", [1, 3])
@pytest.mark.parametrize("nested", [0, (0, 1), ((0, 1), (2, 3))])
def test_circuits_that_are_zero_everywhere(nested, roots, real):
    def zero(n):
        return Real(np.zeros((n, 3)), *np.ones((2, 3))) if real else Table(np.zeros((n, 3)))

    vtree, ones = ek.Vtree.from_nested(nested), np.ones((roots, 2))
    blocks = [zero(2) if v >= 0 else Inner(2, 2, None, None, None) for v in vtree.variable]
    blocks[-1] = zero(roots) if nested == 0 else Inner(2, roots, None, None, ones)
    p = ek.Circuit.from_blocks(vtree, blocks)
    assert p.n_roots == roots
    assert set(p.cardinalities) == {None if real else 3}
    assert (np.asarray(p.log_partition()) == -np.inf).all()
    assert (p.log_likelihood(np.zeros((2, vtree.n_variables))) == -np.inf).all()
