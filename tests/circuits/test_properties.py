from itertools import product as pairs

import numpy as np
import pytest
from hypothesis import given, strategies as st

import expectedkernels as ek
from assertions import assert_raises
from circuit_oracles import drawn_circuit, drawn_deterministic, sparsified
from oracles import Inner, Real, Table, topological
from strategies import seeds
from unit_graphs import RandomGraphs, drawn, drawn_unstructured, is_deterministic, random_nested


def x(variable, value=None, card=2):
    if value is None:
        return ek.Categorical(variable, np.linspace(0.2, 0.8, card))
    return ek.Indicator(variable, value, card)


def mix(*units):
    return ek.Sum(units, np.arange(1, len(units) + 1) / 4)


def pair(a, b):
    return mix(ek.Product([x(a, 0), x(b, 0)]), ek.Product([x(a, 1), x(b, 1)]))


def splits_alike(p, q):
    """The definition of compatibility for smooth and decomposable graphs."""
    products = [
        [u for u in topological(root) if isinstance(u, ek.Product) and len(u.inputs) > 1]
        for root in (p, q)
    ]
    return all(
        {u.scope for u in a.inputs} == {u.scope for u in b.inputs}
        for a, b in pairs(*products)
        if a.scope == b.scope
    )


def test_circuits_are_structured_by_construction():
    p = ek.Circuit.from_units(mix(ek.Product([x(0, 0), x(1)]), ek.Product([x(0, 1), x(1, 0)])))
    found = ek.properties(p)
    assert found.smooth
    assert found.decomposable
    assert found.structured_decomposable
    assert found.deterministic
    lines = repr(found).splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "smooth",
        "decomposable",
        "structured_decomposable",
        "deterministic",
    ]
    assert str(found) == repr(found)
    assert "yes: products multiply units of the two children of a vtree node" in lines[1]
    overlapping = ek.Circuit.from_units(
        mix(ek.Product([x(0), x(1)]), ek.Product([x(0, 1), x(1, 0)]))
    )
    assert ek.properties(overlapping).deterministic.holds is False


def test_smoothness_and_decomposability_say_where_they_fail():
    found = ek.properties(mix(ek.Product([x(0, 0), x(1)]), x(0, 1)))
    assert repr(found.smooth) == (
        "no: sum unit #4 over variables {0, 1} has an input over {0, 1} and one over {0}"
    )
    assert found.decomposable
    assert not found.structured_decomposable
    assert found.deterministic
    found = ek.properties(ek.Product([pair(0, 1), x(1)]))
    assert repr(found.decomposable) == (
        "no: product unit #8 over variables {0, 1} has inputs that share variables {1}"
    )
    assert found.smooth
    assert "share variables {1}" in found.structured_decomposable.reason


def test_structured_decomposability_says_where_it_fails():
    root = mix(ek.Product([pair(0, 1), x(2)]), ek.Product([x(0), pair(1, 2)]))
    verdict = ek.properties(root).structured_decomposable
    assert repr(verdict) == (
        "no: over variables {0, 1, 2}, product unit #8 splits into {0, 1} | {2}, "
        "product unit #17 splits into {0} | {1, 2}"
    )
    wide = mix(ek.Product([pair(0, 1), x(2)]), ek.Product([x(0), x(1), x(2)]))
    verdict = ek.properties(wide).structured_decomposable
    assert not verdict
    assert "Circuit.from_units can reconcile all product units on one vtree" in verdict.reason
    assert ek.Circuit.from_units(wide).n_variables == 3
    assert ek.properties(ek.Product([pair(0, 1), pair(2, 3)])).structured_decomposable


@given(seeds)
def test_structured_means_compatible_with_itself(seed):
    for root in (drawn_unstructured(seed)[0], drawn(seed)[0]):
        expected = splits_alike(root, root)
        assert ek.properties(root).structured_decomposable.holds is expected
        assert ek.is_compatible(root, root).holds is expected


@given(seeds, st.booleans(), st.booleans(), st.booleans())
def test_determinism_by_definition(seed, structured, smooth, signed):
    options = {"zeros": 0.7, "drop": 0.0 if smooth else 0.3}
    if structured:
        root, cards, _ = drawn(seed, signed=signed, **options)
    else:
        root, cards = drawn_unstructured(seed, **options)
    assert ek.properties(root).deterministic.holds is is_deterministic(root, cards)


def with_many_states(root, n):
    """The graph times inputs that are never zero: too many states to enumerate."""
    return ek.Product([root, *(x(n + v) for v in range(17))])


@given(seeds)
def test_determinism_of_structured_graphs_needs_no_enumeration(seed):
    root, cards, _ = drawn(seed, zeros=0.7)
    verdict = ek.properties(with_many_states(root, len(cards))).deterministic
    assert verdict.holds is is_deterministic(root, cards)


@given(seeds)
def test_determinism_is_never_wrong(seed):
    root, cards = drawn_unstructured(seed, zeros=0.7)
    verdict = ek.properties(with_many_states(root, len(cards))).deterministic
    assert verdict.holds in (None, is_deterministic(root, cards))


def decision(variables):
    """A deterministic mixture: two products separated by the first variable."""
    first, *rest = variables
    return mix(*(ek.Product([x(first, i), *(x(v) for v in rest)]) for i in range(2)))


@pytest.mark.parametrize(
    ("root", "holds", "reason"),
    [
        (decision(range(4)), True, "in the form of blocks, no two inputs"),
        (mix(x(0, 0, 3), x(0, 2, 3), x(0, 1, 3)), True, "no two inputs"),
        (mix(x(0, 0), x(0)), False, r"sum unit over variables \{0\} has two inputs"),
        (mix(ek.Gaussian(0, 0, 1), ek.Gaussian(0, 9, 1)), False, "sum of several normal densities"),
        (mix(*(ek.Product([ek.Gaussian(0, m, 1), ek.Gaussian(1, m, 1)]) for m in range(2))), False,
         "in the form of blocks, sum unit 0 .* overlapping"),
        (ek.Sum([x(0, 0), x(0)], [1.0, 0.0]), True, "no two inputs"),
        (mix(ek.Categorical(0, [0, 0]), x(0)), True, "no two inputs"),
        (mix(ek.Product([x(0), x(1)]), ek.Product([x(0), x(1, 0)])), False,
         "in the form of blocks"),
    ],
)  # fmt: skip
def test_reasons_for_determinism(root, holds, reason):
    verdict = ek.properties(root).deterministic
    assert verdict.holds is holds
    with pytest.raises(ValueError, match=reason):
        raise ValueError(verdict.reason)


def equal_bits(a, b, rest):
    """x_a = x_b for one input and x_a != x_b for the other, which no one variable shows."""
    rest = [x(v) for v in rest]
    unequal = mix(ek.Product([x(a, 0), x(b, 1)]), ek.Product([x(a, 1), x(b, 0)]))
    return mix(ek.Product([pair(a, b), *rest]), ek.Product([unequal, *rest]))


def crossing(n):
    """A deterministic circuit that is not structured-decomposable."""
    zero = ek.Product([x(0, 0), equal_bits(1, 2, range(3, n))])
    one = ek.Product([x(0, 1), equal_bits(2, 3, [1, *range(4, n)])])
    return mix(zero, one)


def test_determinism_may_need_blocks_or_states_or_stay_undecided():
    verdict = ek.properties(equal_bits(0, 1, range(2, 40))).deterministic
    assert verdict.holds is True
    assert verdict.reason.startswith("in the form of blocks")
    verdict = ek.properties(crossing(4)).deterministic
    assert verdict.holds is True
    assert "at each of the 16 points" in verdict.reason
    overlapping = mix(ek.Product([x(0), pair(1, 2)]), ek.Product([pair(0, 1), x(2)]))
    verdict = ek.properties(overlapping).deterministic
    assert verdict.holds is False
    assert "not zero at x0 = 0, x1 = 0, x2 = 0" in verdict.reason
    verdict = ek.properties(crossing(30)).deterministic
    assert verdict.holds is None
    assert "could not be decided: the circuit is neither structured-decomposable" in verdict.reason
    assert not verdict
    with pytest.raises(ek.CircuitError, match=r"root of a unit graph must be .* Got list instead"):
        ek.properties([x(0)])


@given(seeds)
def test_compatibility_by_definition(seed):
    rng = np.random.default_rng(seed)
    graphs = RandomGraphs(rng, (2, 3, 2))
    p, q = (graphs.unstructured([0, 1, 2]) for _ in range(2))
    expected = splits_alike(p, q)
    assert ek.is_compatible(p, q).holds is expected
    assert ek.is_compatible(q, p).holds is expected


@given(seeds)
def test_compatibility_of_circuits_and_graphs(seed):
    rng = np.random.default_rng(seed)
    nested = random_nested(rng, rng.permutation(4))
    other = random_nested(rng, rng.permutation(4))
    graphs = RandomGraphs(rng, (2, 3, 2, 4))
    p, q = graphs.unit(nested), RandomGraphs(rng, (2, 3, 2, 4)).unit(other)
    first = ek.Circuit.from_units(p, vtree=ek.Vtree.from_nested(nested))
    second = ek.Circuit.from_units(q, vtree=ek.Vtree.from_nested(other))
    expected = first.vtree.align(second.vtree) is not None
    assert ek.is_compatible(first, second).holds is expected
    assert ek.is_compatible(second, first).holds is expected
    assert ek.is_compatible(p, first)
    assert ek.is_compatible(first, p)
    assert ek.is_compatible(q, first).holds is ek.is_compatible(first, q).holds
    if expected:
        assert ek.is_compatible(q, first)


def test_compatible_circuits_may_swap_inputs():
    p = ek.Product([pair(0, 1), pair(2, 3)])
    q = ek.Product([pair(3, 2), pair(1, 0)])
    first, second = ek.Circuit.from_units(p), ek.Circuit.from_units(q)
    assert ek.is_compatible(p, q)
    assert ek.is_compatible(first, second)
    assert ek.is_compatible(first, q)
    swapped = ek.Circuit.from_units(q, vtree=ek.Vtree.from_nested(((3, 2), (1, 0))))
    assert repr(ek.is_compatible(first, swapped)) == (
        "yes: their vtrees are equal up to swapping left and right"
    )
    assert repr(ek.is_compatible(p, swapped)) == (
        "yes: the first circuit splits its variables along the second one's vtree"
    )


def test_the_highest_difference_is_named():
    left, right = ek.Product([pair(0, 1), x(2)]), ek.Product([x(0), pair(1, 2)])
    p, q = ek.Circuit.from_units(left), ek.Circuit.from_units(right)
    assert repr(ek.is_compatible(p, q)) == (
        "no: over variables {0, 1, 2}, a product unit of the first circuit splits into "
        "{0, 1} | {2}, one of the second into {0} | {1, 2}"
    )
    assert repr(ek.is_compatible(left, right)) == (
        "no: over variables {0, 1, 2}, product unit #8 of the first circuit splits into "
        "{0, 1} | {2}, product unit #8 of the second into {0} | {1, 2}"
    )
    reason = ek.is_compatible(p, right).reason
    assert reason.startswith("in the second circuit, The circuit does not fit the vtree: product")
    assert not reason.endswith(".")
    deep = ek.Circuit.from_units(ek.Product([left, pair(3, 4)]))
    other = ek.Circuit.from_units(ek.Product([right, pair(3, 4)]))
    assert ek.is_compatible(deep, other).reason.startswith("over variables {0, 1, 2}, ")


def test_graphs_must_be_smooth_decomposable_and_of_one_width():
    wide, narrow = ek.Product([x(0), x(1), x(2)]), ek.Product([pair(0, 1), x(2)])
    verdict = ek.is_compatible(wide, narrow)
    assert verdict.holds is False
    assert "may be reconciled by Circuit.from_units with one vtree for both" in verdict.reason
    vtree = ek.Circuit.from_units(narrow).vtree
    assert ek.is_compatible(ek.Circuit.from_units(wide, vtree=vtree), narrow)
    assert ek.is_compatible(wide, ek.Circuit.from_units(narrow))
    good = ek.Product([x(0), x(1)])
    rough = mix(good, x(0, 1))
    for p, q, name in ((good, rough, "second"), (rough, ek.Circuit.from_units(good), "first")):
        verdict = ek.is_compatible(p, q)
        assert verdict.holds is False
        assert verdict.reason.startswith(f"in the {name} circuit, sum unit #")
    assert "share variables" in ek.is_compatible(ek.Product([good, x(1)]), good).reason


def test_variables_and_domains_must_agree():
    p = ek.Product([x(0), x(1)])
    verdict = ek.is_compatible(p, ek.Product([x(0), x(2)]))
    assert verdict.reason == "the first circuit has the variables {0, 1}, the second {0, 2}"
    verdict = ek.is_compatible(ek.Circuit.from_units(p), ek.Product([x(0), x(1, card=3)]))
    assert (
        verdict.reason
        == "variable 1 has 2 states in the first circuit and has 3 states in the second"
    )
    verdict = ek.is_compatible(ek.Product([x(0), ek.Gaussian(1, 0, 1)]), p)
    assert "variable 1 is real in the first circuit" in verdict.reason
    real = ek.Circuit.from_units(ek.Product([x(0), ek.Gaussian(1, 0, 1)]))
    with pytest.raises(ek.CompatibilityError, match="same variables, but variable 1 is real"):
        ek.mmd2(real, ek.Circuit.from_units(p), ek.RBF(1.0))
    with pytest.raises(ek.CircuitError, match="root of a unit graph must be"):
        ek.is_compatible(p, np.zeros((2, 2)))


def test_incompatible_circuits_raise_with_advice_that_is_short():
    p = ek.Circuit.from_units(ek.Product([pair(0, 1), x(2)])).normalize()
    q = ek.Circuit.from_units(ek.Product([x(0), pair(1, 2)])).normalize()
    message = (
        r"not compatible: over variables \{0, 1, 2\}, a product unit.* \{1, 2\}. .* #P-hard in "
        "general; monte_carlo_expected_kernel gives an estimate with a standard error"
    )
    for compare in (ek.mmd2, ek.kdsd):
        assert_raises(ek.CompatibilityError, message, compare, p, q, ek.ExpHamming(0.5))
    n = 50
    p = ek.Circuit.from_units(ek.Product([x(v) for v in range(n)]), vtree=ek.Vtree.right_linear(n))
    q = ek.Circuit.from_units(ek.Product([x(v) for v in range(n)]), vtree=ek.Vtree.left_linear(n))
    reason = ek.is_compatible(p, q).reason
    assert "{0, 1, 2, 3, 4, 5, ... 50 in all}" in reason
    assert len(reason) < 300


def test_deep_circuits():
    n = 1500
    chain = x(n - 1)
    for v in range(n - 2, -1, -1):
        chain = mix(ek.Product([x(v, 0), chain]), ek.Product([x(v, 1), chain]))
    found = ek.properties(chain)
    assert found.structured_decomposable
    assert found.deterministic
    p = ek.Circuit.from_units(chain)
    assert ek.is_compatible(chain, p)
    assert ek.is_compatible(p, p)


def deterministic(circuit):
    return ek.properties(circuit).deterministic


def first_overlap(circuit):
    """The first (node, unit) whose inputs overlap, by enumeration of supports; None if none."""
    vtree, supports = circuit.vtree, []
    for node, block in enumerate(circuit.blocks):
        if isinstance(block, Table):
            supports.append(block.table != 0)
            continue
        left = supports[vtree.left[node]][block.index("left")]
        right = supports[vtree.right[node]][block.index("right")]
        products = (left[:, :, None] & right[:, None, :]).reshape(len(left), -1)
        used = block.csr.toarray() != 0
        counts = used.astype(int) @ products.astype(int)
        if (counts > 1).any():
            return node, int(np.flatnonzero((counts > 1).any(axis=1))[0])
        supports.append(counts > 0)
    return None


@given(seeds, st.sampled_from([0.3, 0.6, 0.8, None]), st.booleans())
def test_decided_as_by_enumeration(seed, zeros, signed):
    if zeros is None:
        p = drawn_deterministic(seed)
        assert deterministic(p).holds is deterministic(sparsified(p)).holds is True
    else:
        p = drawn_circuit(seed, n_max=5, zeros=zeros, signed=signed)
    expected, verdict = first_overlap(p), deterministic(p)
    assert verdict.holds is (expected is None)
    if expected is not None:
        assert "sum unit {1} at vtree node {0} ".format(*expected) in verdict.reason


def test_reasons_and_what_normals_and_conditionals_keep():
    wide = deterministic(ek.random_circuit(ek.Vtree.right_linear(12), 2, rng=0))
    assert "(variables {10, 11}) has inputs 0 and" in wide.reason
    long = ek.mixture([ek.factorized([[0.5, 0.5]] * 12), ek.factorized([[0.2, 0.8]] * 12)])
    assert "(variables {0, 1, 2, 3, 4, 5, ... 12 in all})" in deterministic(long).reason

    def with_normals(*units):
        parts = [ek.Product([u, ek.Gaussian(1, i, 1.0)]) for i, u in enumerate(units)]
        return ek.Circuit.from_units(ek.Sum(parts, [0.5, 0.5]))

    p = with_normals(x(0, 0), x(0, 1))
    assert deterministic(p)
    assert deterministic(p.condition({1: 0.3}))
    assert deterministic(with_normals(x(0, 0), x(0))).holds is False


@pytest.mark.parametrize(("points", "holds"), [((0.0, 1.0), True), ((1.0, 1.0), False)])
def test_points_of_mass_only_meet_themselves(points, holds):
    normal = Real(np.eye(2), np.array(points), np.array([0.0, 0.0]))
    table = Table(np.array([[0.5, 0.5], [0.2, 0.8]]))
    root = Inner(2, 1, np.arange(2), np.arange(2), np.array([[0.5, 0.5]]))
    assert deterministic(ek.Circuit(ek.Vtree.balanced(2), (normal, table, root))).holds is holds
    beside = Real(np.eye(2), np.array(points), np.array([0.0, 1.0]))  # in a density
    assert deterministic(ek.Circuit(ek.Vtree.balanced(2), (beside, table, root))).holds is False


def test_answers_do_not_depend_on_where_arrays_are(xp):
    for p in (ek.factorized([[0.5, 0.5]] * 3), ek.random_circuit(3, 2, rng=0)):
        assert deterministic(p.to(xp)) == deterministic(p)


@pytest.mark.parametrize("meet", [True, False])
def test_supports_of_very_different_sizes(meet):
    # the supports of two units have 2 ** n points and one point in common; the inner products
    # of supports are so far apart that no scale holds both
    n = 1500
    vtree = ek.Vtree.from_nested((n, ek.Vtree.right_linear(n).to_nested()))
    every, zero = np.array([1.0, 1.0]), np.array([1.0, 0.0])
    blocks = []
    for node, variable in enumerate(vtree.variable.tolist()):
        if variable == n:
            blocks.append(Table(np.array([zero, every if meet else every - zero])))
        elif variable == n - 1:
            blocks.append(Table(np.array([every, zero])))
        elif variable >= 0:
            blocks.append(Table(np.eye(2)))
        elif node < vtree.root:
            # unit 0 branches on the variable, unit 1 fixes it
            left, right = np.array([0, 1, 0]), np.array([0, 0, 1])
            blocks.append(Inner(3, 2, left, right, np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])))
        else:
            index = np.array([0, 1])
            blocks.append(Inner(2, 1, index, index, np.array([[0.5, 0.5]])))
    p = ek.Circuit.from_blocks(vtree, blocks)
    verdict = deterministic(p)
    assert verdict.holds is not meet
    if meet:
        assert f"at vtree node {vtree.root} " in verdict.reason
