"""Products, powers, quotients, shifts, sums and divergences against dense vectors."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import special

import expectedkernels as ek
from assertions import assert_close, assert_raises, refusals
from circuit_oracles import absolute, drawn_circuit, drawn_deterministic, joint
from oracles import Inner, Real, Table, distribution, values_at, worlds
from strategies import circuits, domains, rngs, vtrees, with_swaps

FEW = settings(max_examples=60)


@st.composite
def compatible(draw, forms=(None, None), signed=False):
    """Compatible circuits, equal vtrees but for swaps of children."""
    cards = draw(domains())
    vtree = draw(vtrees(len(cards)))
    rng = draw(rngs)
    found = []
    for form in forms:
        drawn = circuits(cards, with_swaps(vtree, rng), form=form, signed=signed)
        found.append(draw(drawn.filter(is_deterministic) if form == "deterministic" else drawn))
    return found


@st.composite
def deterministic_circuits(draw):
    """Deterministic circuits: disjoint units, or decisions on the values of variables."""
    if draw(st.booleans()):
        return drawn_deterministic(draw(st.integers(0, 2**32 - 1)))
    drawn = circuits(draw(domains()), form="deterministic")
    return draw(drawn.filter(is_deterministic))


def is_deterministic(circuit):
    """Whether a circuit is deterministic; one that came out zero was replaced by any other."""
    return bool(ek.properties(circuit).deterministic)


@given(compatible(signed=True) | compatible(forms=("deterministic", "deterministic")))
@FEW
def test_product_is_pointwise(pair):
    f, g = pair
    both = is_deterministic(f) and is_deterministic(g)
    h = ek.algebra.multiply(f, g)
    expected = distribution(f) * distribution(g)
    assert_close(
        distribution(h), expected, distribution(absolute(f)) * distribution(absolute(g)) + 1e-300
    )
    assert h.vtree == f.vtree
    assert ek.is_compatible(h, f)
    assert ek.is_compatible(h, g)
    assert is_deterministic(h) or not both


def test_products_of_many_units_are_made_in_chunks():
    # more than two million pairs of products, most of which are zero
    n = 1500
    tables = [Table(np.eye(n)), Table(np.eye(n))]
    weights = np.random.default_rng(0).random((2, 1, n)) + 0.1
    f, g = (
        ek.Circuit.from_blocks(ek.Vtree.balanced(2), [*tables, Inner(n, 1, None, None, w)])
        for w in weights
    )
    h = ek.algebra.multiply(f, g)
    logs = h.log_likelihood(np.repeat(np.arange(n)[:, None], 2, axis=1))
    assert_close(np.exp(logs), weights.prod(axis=(0, 1)))
    assert_close(np.exp(h.log_partition()), weights.prod(axis=(0, 1)).sum())


@given(compatible())
@FEW
def test_normalised_product(pair):
    f, g = pair
    dense = distribution(f) * distribution(g)
    if not dense.any():
        message = "supports of the circuits do not meet, so their product is zero everywhere"
        assert_raises(ek.PropertyError, message, ek.algebra.multiply, f, g, normalize=True)
        return
    h, log_z = ek.algebra.multiply(f, g, normalize=True)
    assert isinstance(log_z, float)
    assert_close(np.exp(log_z), dense.sum())
    assert_close(distribution(h), dense / dense.sum())
    assert_close(h.log_partition(), 0.0, 1.0)


@given(compatible(signed=True))
@FEW
def test_normalised_squares_of_signed_circuits(pair):
    f, dense = pair[0], distribution(pair[0]) ** 2
    if np.abs(dense).max() > 1e-6 * np.max(distribution(absolute(f)) ** 2):  # nothing cancels
        h, log_z = ek.algebra.multiply(f, f, normalize=True)
        assert_close(np.exp(log_z), dense.sum(), 1e3 * dense.sum())
        assert_close(distribution(h), dense / dense.sum(), 1e3)


@given(domains(), st.data())
@settings(max_examples=30)
def test_several_roots_are_multiplied_one_by_one(cards, data):
    vtree = data.draw(vtrees(len(cards)))
    f, g = (data.draw(circuits(cards, vtree, roots=3)) for _ in range(2))
    one = data.draw(circuits(cards, vtree))
    points = worlds(cards)
    a, b, c = (values_at(circuit, points) for circuit in (f, g, one))
    assert_close(values_at(ek.algebra.multiply(f, g), points), a * b)
    assert_close(values_at(ek.algebra.multiply(f, one), points), a * c)
    assert_close(values_at(ek.algebra.multiply(one, g), points), c * b)
    positive = data.draw(circuits(cards, vtree, "dense", roots=3))
    h, log_z = ek.algebra.multiply(positive, positive, normalize=True)
    squares = values_at(positive, points) ** 2
    assert_close(np.exp(log_z), squares.sum(axis=0))
    assert_close(values_at(h, points), squares / squares.sum(axis=0))


@pytest.mark.parametrize("tiny", [1e-200, 1e200, 3e-307])
def test_products_that_leave_the_range_can_be_normalised(tiny):
    # every table of the product has one entry, tiny * tiny, which is no double
    f = ek.factorized([[tiny, 0.0, 0.5], [1.0, tiny]], normalized=False)
    g = ek.factorized([[tiny, 0.25, 0.0], [0.0, tiny]], normalized=False)
    h, log_z = ek.algebra.multiply(f, g, normalize=True)
    assert_close(log_z, 4 * np.log(tiny))
    assert_close(distribution(h), np.array([0.0, 1.0, 0.0, 0.0, 0.0, 0.0]))
    f, g = (ek.factorized([[tiny, x]], normalized=False) for x in (0.0, 1.0))
    assert_raises(ek.CircuitError, r"beyond the range .*ask for", ek.algebra.multiply, f, g)


def _normal_mixture(rng, n_variables, n_components):
    return ek.gaussian_mixture(
        rng.random(n_components),
        rng.normal(size=(n_components, n_variables)),
        rng.uniform(0.3, 2.0, size=(n_components, n_variables)),
        normalized=False,
    )


@given(rngs, st.integers(1, 3))
@settings(max_examples=20)
def test_products_of_normals_are_normal(rng, n):
    f, g = _normal_mixture(rng, n, 3), _normal_mixture(rng, n, 2)
    X = rng.normal(size=(20, n))
    h = ek.algebra.multiply(f, g)
    assert_close(values_at(h, X), values_at(f, X) * values_at(g, X))
    log_z = ek.algebra.multiply(f, g, normalize=True)[1]
    assert_close(log_z, h.log_partition(), 1.0)


def test_products_of_remote_normals_and_of_points():
    f = ek.gaussian_mixture([1.0], [[0.0]], [[1.0]])
    g = ek.gaussian_mixture([1.0], [[100.0]], [[1.0]])
    h, log_z = ek.algebra.multiply(f, g, normalize=True)
    assert_close(log_z, -2500.0 - 0.5 * np.log(4 * np.pi))
    assert_close(h.marginals()[0], np.array([50.0, 0.5]))
    point = ek.gaussian_mixture([2.0], [[1.0]], [[0.0]], normalized=False)
    normal = ek.gaussian_mixture([1.0], [[0.0]], [[1.0]])
    h, log_z = ek.algebra.multiply(point, normal, normalize=True)
    assert_close(np.exp(log_z), 2.0 * np.exp(-0.5) / np.sqrt(2 * np.pi))
    assert_close(h.marginals()[0], np.array([1.0, 0.0]), 1.0)
    with pytest.raises(ek.PropertyError, match="two points of mass at the same place"):
        ek.algebra.multiply(point, point)
    elsewhere = ek.gaussian_mixture([1.0], [[3.0]], [[0.0]])
    assert ek.algebra.multiply(point, elsewhere).log_partition() == -np.inf
    weights, vtree = np.array([[0.0, 0.0], [1.0, 2.0]]), ek.Vtree.balanced(1)
    f, X = ek.Circuit(vtree, (Real(weights, *np.eye(2) + 1),)), np.array([[0.3], [1.2]])
    assert_close(values_at(ek.algebra.multiply(f, f), X), values_at(f, X) ** 2)


@given(deterministic_circuits(), st.sampled_from([-2.5, -1.0, -0.5, 0, 0.3, 1, 2, 3]))
@FEW
def test_power_on_the_support(f, alpha):
    dense = distribution(f)
    h = ek.algebra.power(f, alpha)
    expected = np.where(dense > 0, np.where(dense > 0, dense, 1.0) ** alpha, 0.0)
    assert_close(distribution(h), expected)
    assert ek.properties(h).deterministic
    assert h.vtree == f.vtree


def test_powers_of_several_roots_and_out_of_range():
    roots = ek.factorized([[4.0, 9.0]], normalized=False), ek.factorized([[1.0, 0.0]])
    f = ek.algebra.stack(roots)
    np.testing.assert_array_equal(ek.algebra.power(f, 0.5).input(0).table, [[2.0, 3.0], [1.0, 0.0]])
    fair = ek.factorized([[0.5, 0.25]], normalized=False)
    assert_close(distribution(ek.algebra.power(fair, 500)), np.array([0.5**500, 0.25**500]))
    for f, alpha in ((fair, 600), (fair, 1e308), (ek.factorized([[1e-200, 1.0]]), -3)):
        with pytest.raises(ek.CircuitError, match=r"The power .* has weights beyond the range"):
            ek.algebra.power(f, alpha)


def test_power_of_a_normal():
    classes = [ek.Indicator(0, i, 2) for i in range(2)]
    normals = [ek.Gaussian(1, -1.0, 0.5), ek.Gaussian(1, 2.0, 2.0)]
    terms = [ek.Product(pair) for pair in zip(classes, normals, strict=True)]
    f = ek.Circuit.from_units(ek.Sum(terms, [0.3, 0.7]))
    X = np.column_stack([[0, 1, 0, 1], np.linspace(-2, 3, 4)])
    for alpha in (0.5, 1.0, 3.0):
        assert_close(values_at(ek.algebra.power(f, alpha), X), values_at(f, X) ** alpha)
    assert_raises(ek.PropertyError, "A reciprocal: variable 1 is real", ek.algebra.reciprocal, f)
    point = ek.gaussian_mixture([1.0], [[0.0]], [[0.0]])
    assert_raises(ek.PropertyError, r"A power: variable 0 is real", ek.algebra.power, point, 2.0)


@given(st.data(), st.booleans())
@FEW
def test_quotient(data, signed):
    g = data.draw(deterministic_circuits())
    swapped = with_swaps(g.vtree, data.draw(rngs))
    f = data.draw(circuits(g.cardinalities, swapped, signed=signed))
    above, below = distribution(f), distribution(g)
    h = ek.algebra.quotient(f, g)
    expected = np.where(below > 0, above / np.where(below > 0, below, 1.0), 0.0)
    scale = distribution(absolute(f)) / np.where(below > 0, below, 1.0)
    assert_close(distribution(h), expected, scale + 1e-300)
    assert ek.is_compatible(h, f)
    assert ek.is_compatible(h, g)
    back = distribution(ek.algebra.multiply(h, g))
    assert_close(back, np.where(below > 0, above, 0.0), distribution(absolute(f)) + 1e-300)


@given(st.data(), st.integers(-5, 5))
@FEW
def test_shift_is_cyclic(data, by):
    f = data.draw(circuits(data.draw(domains()), signed=True))
    variable = data.draw(st.integers(0, f.n_variables - 1))
    card = f.cardinalities[variable]
    X = worlds(f.cardinalities)
    moved = X.copy()
    moved[:, variable] = (X[:, variable] + by) % card
    g = ek.algebra.shift(f, variable, by)
    np.testing.assert_array_equal(values_at(g, X), values_at(f, moved))
    np.testing.assert_array_equal(values_at(ek.algebra.shift(g, variable, -by), X), values_at(f, X))
    again = f
    for _ in range(card):
        again = ek.algebra.shift(again, variable)
    np.testing.assert_array_equal(values_at(again, X), values_at(f, X))
    assert again.n_units == f.n_units
    assert bool(ek.properties(g).deterministic) == bool(ek.properties(f).deterministic)
    assert g.vtree == f.vtree


def test_operations_come_back_to_the_host_but_shifts(xp):
    f = ek.factorized([[4.0, 9.0], [1.0, 0.0]], normalized=False)
    A, there = ek.algebra, f.to(xp)
    for expected, found in (
        (A.multiply(f, f), A.multiply(there, there)),
        (A.power(f, 0.5), A.power(there, 0.5)),
        (A.quotient(f, f), A.quotient(there, f)),
        (A.stack([f, f]), A.stack([there, f])),
        (A.linear_combination([f, f], [1, 2]), A.linear_combination([there, f], [1, 2])),
    ):
        np.testing.assert_array_equal(distribution(found), distribution(expected))
        assert found.xp is np
    shifted = A.shift(there, 0)
    assert type(shifted.input(0).table) is type(there.input(0).table)
    np.testing.assert_array_equal(shifted.to("numpy").input(0).table, [[9.0, 4.0]])


@given(st.data(), st.integers(1, 4))
@FEW
def test_linear_combination(data, n):
    cards = data.draw(domains())
    vtree = data.draw(vtrees(len(cards)))
    rng = data.draw(rngs)
    terms = [data.draw(circuits(cards, with_swaps(vtree, rng), signed=True)) for _ in range(n)]
    factors = rng.normal(size=n).round(1)
    h = ek.algebra.linear_combination(terms, factors)
    expected = sum(c * distribution(f) for c, f in zip(factors, terms, strict=True))
    scale = sum(abs(c) * distribution(absolute(f)) for c, f in zip(factors, terms, strict=True))
    assert_close(distribution(h), expected, scale + 1e-300)
    assert all(ek.is_compatible(h, f) for f in terms)


def test_linear_combination_of_several_roots():
    a, b = ek.factorized([[1.0, 0.0]]), ek.factorized([[0.0, 1.0]])
    h = ek.algebra.linear_combination([ek.algebra.stack([a, b]), a], [2.0, -1.0])
    np.testing.assert_array_equal(h.input(0).table, [[1.0, 0.0], [-1.0, 2.0]])
    with pytest.raises(ek.CircuitError, match=r"combined root by root.* Got \[2, 3\] roots"):
        ek.algebra.linear_combination(
            [ek.algebra.stack([a, b]), ek.algebra.stack([a, b, a])], [1.0, 1.0]
        )


@pytest.mark.parametrize("name", ["abalone", "elevators"])
def test_learned_circuits_stay_small(data_dir, name):
    folder = data_dir / "psdd"
    vtree = ek.read_vtree(folder / f"{name}.vtree")
    p = ek.read_psdd(folder / f"{name}.psdd", vtree)
    square = ek.algebra.multiply(p, p)
    assert square.n_edges <= p.n_edges
    assert ek.properties(square).deterministic
    log_z = ek.expected_kernel(p, p, ek.Delta(), log=True)
    assert_close(square.log_partition(), log_z)
    assert_close(ek.algebra.multiply(p, p, normalize=True)[1], log_z)
    assert ek.algebra.quotient(ek.algebra.shift(p, 0), p).n_edges <= 2 * p.n_edges
    X = p.sample(50, rng=0)
    ratio = ek.algebra.quotient(ek.algebra.shift(p, 3), p)
    moved = X.copy()
    moved[:, 3] = 1 - moved[:, 3]
    assert_close(ratio.log_likelihood(X), p.log_likelihood(moved) - p.log_likelihood(X), 1.0)


def test_equal_units_of_squares_are_merged():
    f = ek.random_circuit(ek.Vtree.right_linear(8), 6, rng=1, cardinalities=3)
    assert ek.algebra.square(f).n_units <= ek.algebra.multiply(f, f).n_units


A, D = ek.algebra, ek.divergences
COIN, UNIT = ek.factorized([[0.5, 0.5]]), ek.Indicator(0, 1, 2)
SEVERAL = A.stack([COIN, ek.factorized([[0.1, 0.9]])])
RIGHT, LEFT = (
    ek.factorized([[0.5, 0.5]] * 3, make(3))
    for make in (ek.Vtree.right_linear, ek.Vtree.left_linear)
)
STATES = ek.factorized([[0.5, 0.5], [0.5, 0.5], [0.2, 0.3, 0.5]], ek.Vtree.right_linear(3))
SIGNED = ek.factorized([[1.0, -2.0]], normalized=False)
MIXED = ek.mixture([ek.factorized([[0.2, 0.8]] * 2), ek.factorized([[0.6, 0.4]] * 2)])
ONE = ek.factorized([[1.0, 1.0]] * 2, normalized=False)
REAL = ek.gaussian_mixture([1.0], [[0.0]], [[1.0]])
test_what_is_refused = refusals(ek.CircuitError, [
    (lambda: A.multiply(SEVERAL, A.stack([SEVERAL, COIN])), r"root by root.* Got 2 and 3 roots"),
    (lambda: A.multiply(COIN, SIGNED, normalize=True), "negative value"),
    (lambda: A.multiply(RIGHT, LEFT), r"A product needs .*over variables \{0, 1, 2\}.*splits"),
    (lambda: A.quotient(RIGHT, LEFT), r"A quotient needs .*over variables \{0, 1, 2\}.*splits"),
    (lambda: A.linear_combination([RIGHT, LEFT], [1, 1]), "A linear combination needs compatible"),
    (lambda: A.multiply(RIGHT, STATES), "variable 2 has 2 states"),
    (lambda: A.quotient(RIGHT, STATES), "variable 2 has 2 states"),
    *((call, r"works on Circuits\. Got Indicator instead") for call in (
        lambda: A.multiply(COIN, UNIT),
        lambda: A.power(UNIT, 2.0),
        lambda: A.reciprocal(UNIT),
        lambda: A.quotient(UNIT, COIN),
        lambda: A.shift(UNIT, 0),
        lambda: A.linear_combination([COIN, UNIT], [1.0, 1.0]),
        lambda: A.marginalize(UNIT, [0]),
    )),
    *((lambda alpha=alpha: A.power(COIN, alpha), r"The 'alpha' parameter of power must be .* Got")
      for alpha in (np.nan, np.inf, "2", None, True, 1j)),
    (lambda: A.power(MIXED, 2.0), "A power needs a deterministic .*sum unit 0.*overlapping"),
    (lambda: A.reciprocal(MIXED), "A reciprocal needs a deterministic"),
    (lambda: A.quotient(ONE, MIXED), "Division needs a deterministic"),
    (lambda: A.power(SIGNED, 2.0), "without negative weights"),
    (lambda: A.reciprocal(SIGNED), "without negative weights"),
    (lambda: A.quotient(SIGNED, SIGNED), "without negative weights"),
    *((lambda v=v: A.shift(MIXED, v), r"A variable of this model is an int in 0\.\.1")
      for v in (2, -1, 0.0, True, "0")),
    *((lambda v=v: A.marginalize(MIXED, v), r"A variable of this model is an int in 0\.\.1")
      for v in (2, [-1], [0.0], "0", [True], None)),
    (lambda: A.marginalize(MIXED, [0, 1]), "At least one of the 2 variables must remain"),
    (lambda: A.shift(MIXED, 0, 0.5), r"'by' parameter of shift must be an int\. Got 0\.5"),
    (lambda: A.shift(REAL, 0), r"shift needs discrete variables\. Variable 0 is real"),
    *((lambda given=given: A.linear_combination(*given), "one finite coefficient for each")
      for given in (([], []), ([COIN], [1, 2]), ([COIN], [np.nan]), ([COIN] * 2, 1.0))),
])  # fmt: skip


@st.composite
def parts(draw, n):
    """Some of n variables, at least one, not all."""
    order = draw(st.permutations(range(n)))
    return sorted(order[: draw(st.integers(1, n - 1))])


def renumbered(nested, kept):
    """The nested vtree with the places of variables among those that are kept."""
    if isinstance(nested, int):
        return kept.index(nested)
    return tuple(renumbered(child, kept) for child in nested)


@given(st.data(), st.booleans(), st.sampled_from([1, 1, 3]))
@settings(max_examples=80)
def test_sums_over_worlds(data, signed, roots):
    cards = data.draw(domains(min_variables=2).filter(lambda cards: len(cards) > 1))
    f = data.draw(circuits(cards, signed=signed, roots=roots))
    gone = data.draw(parts(len(cards)))
    kept = [v for v in range(len(cards)) if v not in gone]
    h = ek.algebra.marginalize(f, gone)
    axes = tuple(1 + v for v in gone)
    table = joint(f)
    assert h.cardinalities == tuple(cards[v] for v in kept)
    assert h.vtree.to_nested() == renumbered(f.vtree.project(kept).to_nested(), kept)
    swapped = f.aligned_to(with_swaps(f.vtree, np.random.default_rng(0)))
    assert ek.is_compatible(h, ek.algebra.marginalize(swapped, gone))
    assert ek.algebra.marginalize(f, []) is f
    if len(gone) == 1:
        np.testing.assert_array_equal(joint(ek.algebra.marginalize(f, gone[0])), joint(h))
    if signed:
        scale = np.full(joint(h).shape, np.abs(table).sum() * 1e3 + 1e-300)
        assert_close(joint(h), table.sum(axis=axes), scale)
    else:
        assert_close(joint(h), table.sum(axis=axes))


@given(st.integers(0, 10_000), st.data())
@settings(max_examples=40)
def test_real_variables(seed, data):
    f = drawn_circuit(seed, share_real=0.5)
    if f.n_variables == 1:
        return
    gone = data.draw(parts(f.n_variables))
    kept = [v for v in range(f.n_variables) if v not in gone]
    rng = np.random.default_rng(seed)
    X = np.full((5, f.n_variables), np.nan)
    for v in kept:
        card = f.cardinalities[v]
        X[:, v] = rng.normal(size=5) if card is None else rng.integers(card, size=5)
    values = values_at(ek.algebra.marginalize(f, gone), X[:, kept])[:, 0]
    assert_close(values, np.exp(f.log_likelihood(X)), np.maximum(values, 1e-300))


def test_deep_chains():
    n = 3000
    p = ek.hmm([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], [[0.8, 0.2], [0.3, 0.7]], length=n)
    assert_close(ek.algebra.marginalize(p, range(1, n)).input(0).table[0], p.marginals()[0])
    assert_close(ek.algebra.marginalize(p, range(n - 1)).input(0).table[0], p.marginals()[-1])
    _, log_z = ek.algebra.multiply(p, p, normalize=True)
    assert_close(log_z, ek.expected_kernel(p, p, ek.Delta(), log=True))


@pytest.mark.parametrize("size", [1e-3, 1e3])
def test_numbers_that_leave_the_range(size):
    n = 400
    tables = [[size, 3 * size]] * n + [[0.25 / size, 0.25 / size]] * n
    inner = range(1, 2 * n + 1)
    for below in (ek.Vtree.right_linear(inner), ek.Vtree.balanced(inner)):
        # all factors but two cancel, those of either half leave the range on the way
        vtree = ek.Vtree.from_nested((0, (below.to_nested(), 2 * n + 1)))
        f = ek.factorized([[1.0, 2.0], *tables, [1.0, 3.0]], vtree, normalized=False)
        h = ek.algebra.marginalize(f, range(1, 2 * n + 1))
        expected = np.array([[[1.0, 3.0], [2.0, 6.0]]]) * 2.0**n
        assert_close(joint(h), expected)


def test_results_beyond_the_range_are_refused():
    f = ek.factorized([[1e-3, 2e-3]] * 200, normalized=False)
    with pytest.raises(ek.CircuitError, match=r"The marginal has weights beyond .*normalise"):
        ek.algebra.marginalize(f, range(1, 200))
    assert_close(
        ek.algebra.marginalize(f.normalize(), range(1, 200)).input(0).table, np.array([[1, 2]]) / 3
    )


ALPHAS = (0.3, 0.5, 2.0, 3.5)


@given(compatible(forms=("deterministic", "deterministic")))
@FEW
def test_divergences_are_sums_over_states(pair):
    p, q = (circuit.normalize() for circuit in pair)
    a, b = distribution(p), distribution(q)
    wanted = [special.entr(a).sum(), -special.xlogy(a, b).sum(), special.rel_entr(a, b).sum()]
    found = [D.entropy(p), D.cross_entropy(p, q), D.kl_divergence(p, q)]
    for alpha in ALPHAS:
        with np.errstate(divide="ignore"):
            # infinite where only the second is zero
            total = (a[a > 0] ** alpha * b[a > 0] ** (1 - alpha)).sum()
            wanted += [np.log(total) / (alpha - 1), (total - 1) / (alpha * (alpha - 1))]
        found += [D.renyi_divergence(p, q, alpha), D.power_divergence(p, q, alpha - 1)]
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
    assert D.renyi_divergence(p, q, 1) == D.power_divergence(p, q, 0) == found[2]
    assert D.kl_divergence(p, p) == 0.0


@given(compatible(forms=(None, "deterministic")))
@FEW
def test_logarithms_and_cross_entropies(pair):
    p, q = (circuit.normalize() for circuit in pair)
    a, b = distribution(p), distribution(q)
    np.testing.assert_allclose(D.cross_entropy(p, q), -special.xlogy(a, b).sum(), rtol=1e-10)
    found = A.logarithm(q)
    sums = ek.expected_kernel(found, worlds(q.cardinalities), ek.Delta())
    assert_close(sums, special.xlogy(b > 0, b), 1.0 + np.abs(special.xlogy(b > 0, b)))
    assert ek.is_compatible(found, p)


test_what_does_not_fit_is_refused = refusals(None, [
    (lambda: D.cross_entropy(RIGHT, LEFT), ek.CompatibilityError,
     r"A divergence needs compatible circuits, but"),
    (lambda: D.kl_divergence(MIXED, MIXED), ek.PropertyError,
     r"A logarithm needs a deterministic circuit, but"),
    (lambda: D.renyi_divergence(MIXED, MIXED, 0.5), ek.PropertyError,
     r"A power needs a deterministic circuit, but"),
    (lambda: D.entropy(ONE), ek.PropertyError, "sum to one"),
    (lambda: D.entropy(REAL), ek.PropertyError,
     "logarithm needs discrete variables. Variable 0 is real"),
    (lambda: D.renyi_divergence(COIN, COIN, 0.0), ek.CircuitError, "'alpha' parameter of renyi_d"),
    (lambda: D.power_divergence(COIN, COIN, -1.0), ek.CircuitError, "'lambda_' parameter of pow"),
])  # fmt: skip
