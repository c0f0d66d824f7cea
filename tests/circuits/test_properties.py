import re
from itertools import product as pairs

import numpy as np
import pytest
from hypothesis import given, strategies as st

import expectedkernels as ek
import unit_graphs
from assertions import assert_raises
from circuit_oracles import drawn_circuit, drawn_deterministic, sparsified
from oracles import Inner, Real, Table, topological
from strategies import seeds
from unit_graphs import mix, pair, x


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
    names = ["smooth", "decomposable", "structured_decomposable", "deterministic"]
    assert all(getattr(found, name) for name in names)
    lines = repr(found).splitlines()
    assert [line.split(":")[0] for line in lines] == names
    assert str(found) == repr(found)
    assert "yes: products multiply units of the two children of a vtree node" in lines[1]
    overlapping = mix(ek.Product([x(0), x(1)]), ek.Product([x(0, 1), x(1, 0)]))
    assert ek.properties(ek.Circuit.from_units(overlapping)).deterministic.holds is False


WIDE = mix(ek.Product([pair(0, 1), x(2)]), ek.Product([x(0), x(1), x(2)]))
FAILURES = [
    (mix(ek.Product([x(0, 0), x(1)]), x(0, 1)), {
        "smooth": "no: sum unit #4 over variables {0, 1} has an input over {0, 1} and one over {0}",
        "decomposable": "yes: ", "structured_decomposable": "no: ", "deterministic": "yes: "}),
    (ek.Product([pair(0, 1), x(1)]), {
        "decomposable":
            "no: product unit #8 over variables {0, 1} has inputs that share variables {1}",
        "smooth": "yes: ", "structured_decomposable": "share variables {1}"}),
    (mix(ek.Product([pair(0, 1), x(2)]), ek.Product([x(0), pair(1, 2)])), {
        "structured_decomposable": "no: over variables {0, 1, 2}, product unit #8 splits into "
        "{0, 1} | {2}, product unit #17 splits into {0} | {1, 2}"}),
    (WIDE, {"structured_decomposable": "no: "}),
    (WIDE, {"structured_decomposable":
            "Circuit.from_units can reconcile all product units on one vtree"}),
    (ek.Product([pair(0, 1), pair(2, 3)]), {"structured_decomposable": "yes: "}),
]  # fmt: skip


@pytest.mark.parametrize(("root", "verdicts"), FAILURES)
def test_properties_say_where_they_fail(root, verdicts):
    found = ek.properties(root)
    for name, words in verdicts.items():
        assert words in repr(getattr(found, name))
    if root is WIDE:
        assert ek.Circuit.from_units(root).n_variables == 3


@given(seeds)
def test_structured_means_compatible_with_itself(seed):
    for root in (unit_graphs.drawn_unstructured(seed)[0], unit_graphs.drawn(seed)[0]):
        expected = splits_alike(root, root)
        assert ek.properties(root).structured_decomposable.holds is expected
        assert ek.is_compatible(root, root).holds is expected


@given(seeds, st.booleans(), st.booleans(), st.booleans())
def test_determinism_by_definition(seed, structured, smooth, signed):
    options = {"zeros": 0.7, "drop": 0.0 if smooth else 0.3}
    if structured:
        root, cards, _ = unit_graphs.drawn(seed, signed=signed, **options)
    else:
        root, cards = unit_graphs.drawn_unstructured(seed, **options)
    assert ek.properties(root).deterministic.holds is unit_graphs.is_deterministic(root, cards)


def with_many_states(root, n):
    """The graph times inputs that are never zero: too many states to enumerate."""
    return ek.Product([root, *(x(n + v) for v in range(17))])


@pytest.mark.parametrize("structured", [True, False])
@given(seeds)
def test_determinism_without_enumeration(structured, seed):
    draw = unit_graphs.drawn if structured else unit_graphs.drawn_unstructured
    root, cards, *_ = draw(seed, zeros=0.7)
    verdict = ek.properties(with_many_states(root, len(cards))).deterministic
    expected = unit_graphs.is_deterministic(root, cards)
    assert verdict.holds in ((expected,) if structured else (None, expected))


def decision(variables):
    """A deterministic mixture: two products separated by the first variable."""
    first, *rest = variables
    return mix(*(ek.Product([x(first, i), *(x(v) for v in rest)]) for i in range(2)))


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


@pytest.mark.parametrize(("root", "holds", "reason"), [
    (decision(range(4)), True, "in the form of blocks, no two inputs"),
    (mix(x(0, 0, 3), x(0, 2, 3), x(0, 1, 3)), True, "no two inputs"),
    (mix(x(0, 0), x(0)), False, r"sum unit over variables \{0\} has two inputs"),
    (mix(ek.Gaussian(0, 0, 1), ek.Gaussian(0, 9, 1)), False, "sum of several normal densities"),
    (mix(*(ek.Product([ek.Gaussian(v, m, 1) for v in (0, 1)]) for m in range(2))), False,
     "in the form of blocks, sum unit 0 .* overlapping"),
    (ek.Sum([x(0, 0), x(0)], [1.0, 0.0]), True, "no two inputs"),
    (mix(ek.Categorical(0, [0, 0]), x(0)), True, "no two inputs"),
    (mix(ek.Product([x(0), x(1)]), ek.Product([x(0), x(1, 0)])), False, "in the form of bl"),
    (equal_bits(0, 1, range(2, 40)), True, "^in the form of blocks"),
    (crossing(4), True, "at each of the 16 points"),
    (mix(ek.Product([x(0), pair(1, 2)]), ek.Product([pair(0, 1), x(2)])), False,
     "not zero at x0 = 0, x1 = 0, x2 = 0"),
    (crossing(30), None, "could not be decided: the circuit is neither structured-decomposable"),
])  # fmt: skip
def test_reasons_for_determinism(root, holds, reason):
    verdict = ek.properties(root).deterministic
    assert verdict.holds is holds
    assert bool(verdict) == bool(holds)
    assert re.search(reason, verdict.reason)


@given(seeds)
def test_compatibility_by_definition(seed):
    rng = np.random.default_rng(seed)
    graphs = unit_graphs.RandomGraphs(rng, (2, 3, 2))
    p, q = (graphs.unstructured([0, 1, 2]) for _ in range(2))
    expected = splits_alike(p, q)
    assert ek.is_compatible(p, q).holds is expected
    assert ek.is_compatible(q, p).holds is expected


@given(seeds)
def test_compatibility_of_circuits_and_graphs(seed):
    rng = np.random.default_rng(seed)
    nested = unit_graphs.random_nested(rng, rng.permutation(4))
    other = unit_graphs.random_nested(rng, rng.permutation(4))
    graphs = unit_graphs.RandomGraphs(rng, (2, 3, 2, 4))
    p, q = graphs.unit(nested), unit_graphs.RandomGraphs(rng, (2, 3, 2, 4)).unit(other)
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


def circuit(root, nested=None):
    return ek.Circuit.from_units(root, vtree=nested and ek.Vtree.from_nested(nested))


P, Q = ek.Product([pair(0, 1), pair(2, 3)]), ek.Product([pair(3, 2), pair(1, 0)])
LEFT, RIGHT = ek.Product([pair(0, 1), x(2)]), ek.Product([x(0), pair(1, 2)])
SWAPPED, PLAIN = circuit(Q, ((3, 2), (1, 0))), ek.Product([x(0), x(1), x(2)])
FLAT, REAL = ek.Product([x(0), x(1)]), ek.Product([x(0), ek.Gaussian(1, 0, 1)])
ROUGH = mix(FLAT, x(0, 1))
DEEP = [circuit(ek.Product([root, pair(3, 4)])) for root in (LEFT, RIGHT)]
COMPATIBILITY = [
    (P, Q, True, ""),
    (circuit(P), circuit(Q), True, ""),
    (circuit(P), Q, True, ""),
    (circuit(P), SWAPPED, True, "^their vtrees are equal up to swapping left and right$"),
    (P, SWAPPED, True, "^the first circuit splits its variables along the second one's vtree$"),
    # the highest difference is named
    (circuit(LEFT), circuit(RIGHT), False,
     r"^over variables \{0, 1, 2\}, a product unit of the first circuit splits into "
     r"\{0, 1\} \| \{2\}, one of the second into \{0\} \| \{1, 2\}$"),
    (LEFT, RIGHT, False,
     r"^over variables \{0, 1, 2\}, product unit #8 of the first circuit splits into "
     r"\{0, 1\} \| \{2\}, product unit #8 of the second into \{0\} \| \{1, 2\}$"),
    (circuit(LEFT), RIGHT, False, "^in the second circuit, .* the vtree: product.*[^.]$"),
    (*DEEP, False, r"^over variables \{0, 1, 2\}, "),
    (PLAIN, LEFT, False, "may be reconciled by Circuit.from_units with one vtree for both"),
    (circuit(PLAIN, ((0, 1), 2)), LEFT, True, ""),
    (PLAIN, circuit(LEFT), True, ""),
    (FLAT, ROUGH, False, "^in the second circuit, sum unit #"),
    (ROUGH, circuit(FLAT), False, "^in the first circuit, sum unit #"),
    (ek.Product([FLAT, x(1)]), FLAT, False, "share variables"),
    (FLAT, ek.Product([x(0), x(2)]), False,
     r"^the first circuit has the variables \{0, 1\}, the second \{0, 2\}$"),
    (circuit(FLAT), ek.Product([x(0), x(1, card=3)]), False,
     "^variable 1 has 2 states in the first circuit and has 3 states in the second$"),
    (REAL, FLAT, False, "variable 1 is real in the first circuit"),
]  # fmt: skip


@pytest.mark.parametrize(("p", "q", "holds", "reason"), COMPATIBILITY)
def test_reasons_for_compatibility(p, q, holds, reason):
    verdict = ek.is_compatible(p, q)
    assert verdict.holds is holds
    assert re.search(reason, verdict.reason)


def test_roots_and_domains_are_checked():
    k, message = ek.RBF(1.0), "same variables, but variable 1 is real"
    assert_raises(ek.CompatibilityError, message, ek.mmd2, circuit(REAL), circuit(FLAT), k)
    for call in (ek.properties, lambda root: ek.is_compatible(FLAT, root)):
        for root in ([x(0)], np.zeros((2, 2))):
            assert_raises(ek.CircuitError, r"root of a unit graph must be", call, root)


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
    assert p.vtree == ek.Vtree.right_linear(n)
    assert all(block.n_units <= 2 for block in p.blocks)
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
