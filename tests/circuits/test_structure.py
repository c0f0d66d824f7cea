from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st

import expectedkernels as ek
from assertions import assert_raises, refusals
from circuit_oracles import absolute, block_circuits, joint
from oracles import Inner, Real, Table, values_at, worlds
from strategies import seeds, with_swaps
from unit_graphs import RandomGraphs, drawn, drawn_unstructured, mix, pair, random_nested, values, x


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
