from functools import reduce

import numpy as np
import pytest
from hypothesis import given, strategies as st

from assertions import refusals
from expectedkernels import Vtree, VtreeError
from strategies import with_swaps
from unit_graphs import random_nested

seeds = st.integers(0, 2**32 - 1)


def drawn_nested(seed, n_max=12):
    """A random vtree as nested pairs, over variables that need not be 0, 1, ..."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, n_max + 1))
    return random_nested(rng, rng.choice(30, size=n, replace=False))


def variables_of(nested):
    return [part for part in subtrees(nested) if isinstance(part, int)]


def subtrees(nested):
    """All subtrees as nested pairs, in post-order."""
    if isinstance(nested, int):
        return [nested]
    return [*subtrees(nested[0]), *subtrees(nested[1]), nested]


def in_order(nested):
    """All subtrees, each between those on its left and those on its right."""
    if isinstance(nested, int):
        return [nested]
    return [*in_order(nested[0]), nested, *in_order(nested[1])]


def projected(nested, keep):
    if isinstance(nested, int):
        return nested if nested in keep else None
    left, right = (projected(child, keep) for child in nested)
    if left is None or right is None:
        return right if left is None else left
    return left, right


def height(nested):
    return 0 if isinstance(nested, int) else 1 + max(height(child) for child in nested)


def halved(variables):
    """The balanced vtree as nested pairs."""
    n = len(variables)
    return variables[0] if n == 1 else (halved(variables[: n // 2]), halved(variables[n // 2 :]))


@pytest.mark.parametrize("n", [1, 2, 3, 17])
def test_builders_by_definition(n):
    names = np.random.default_rng(n).permutation(n).tolist()
    shapes = {
        Vtree.balanced: halved,
        Vtree.right_linear: lambda v: reduce(lambda below, x: (x, below), v[-2::-1], v[-1]),
        Vtree.left_linear: lambda v: reduce(lambda below, x: (below, x), v[1:], v[0]),
    }
    for build, nested in shapes.items():
        for given_names in (names, np.array(names), (v for v in names)):
            assert build(given_names) == Vtree.from_nested(nested(names))
        assert build(n) == Vtree.from_nested(nested(list(range(n))))
    assert sorted(Vtree.random(names, rng=3).scope().tolist()) == list(range(n))
    assert Vtree.random(n, rng=3).scope().tolist() == list(range(n))
    assert Vtree.random(17, rng=n) == Vtree.random(17, rng=np.random.default_rng(n))
    assert len({Vtree.random(17, rng=seed) for seed in range(10)}) == 10


@given(seeds)
def test_nested_round_trip(seed):
    nested = drawn_nested(seed)
    vtree = Vtree.from_nested(nested)
    assert vtree.to_nested() == nested
    assert Vtree.from_nested(vtree.to_nested()) == vtree
    assert (vtree.n_variables, vtree.n_nodes) == (len(variables_of(nested)), vtree.root + 1)
    assert Vtree.from_nested([[np.int64(0), 1], 2]) == Vtree.from_nested(((0, 1), 2))


@given(seeds)
def test_nodes_are_renumbered_to_post_order(seed):
    vtree = Vtree.from_nested(drawn_nested(seed))
    rng = np.random.default_rng(seed)
    # any order with children before parents: sort by height, at random within one height
    order = np.lexsort((rng.random(vtree.n_nodes), vtree.height))
    number = np.argsort(order)
    left = [-1 if a < 0 else number[a] for a in vtree.left[order]]
    right = [-1 if b < 0 else number[b] for b in vtree.right[order]]
    assert Vtree(left, right, vtree.variable[order]) == vtree


@given(seeds)
def test_navigation_by_definition(seed):
    nested = drawn_nested(seed)
    vtree, parts = Vtree.from_nested(nested), subtrees(nested)
    scopes = [set(variables_of(part)) for part in parts]
    for node, part in enumerate(parts):
        assert vtree.scope(node).tolist() == variables_of(part)
        assert vtree.n_below[node] == len(subtrees(part))
        assert vtree.height[node] == height(part)
        assert vtree.is_leaf(node) == isinstance(part, int)
        above = [a for a in range(len(parts)) if a != node and scopes[node] < scopes[a]]
        assert vtree.depth[node] == len(above)
        assert vtree.parent[node] == min(above, key=lambda a: len(scopes[a]), default=-1)
        for variable in range(31):
            assert vtree.contains(node, variable) == (variable in scopes[node])
    assert [parts[node] for node in np.argsort(vtree.inorder)] == in_order(nested)
    for variable in variables_of(nested):
        assert parts[vtree.leaf(variable)] == variable


@given(seeds)
def test_lowest_common_ancestors_by_definition(seed):
    nested = drawn_nested(seed, n_max=8)
    vtree = Vtree.from_nested(nested)
    scopes = [set(variables_of(part)) for part in subtrees(nested)]
    for a, first in enumerate(scopes):
        for b, second in enumerate(scopes):
            above = [node for node, scope in enumerate(scopes) if first | second <= scope]
            assert vtree.lca(a, b) == min(above, key=lambda node: len(scopes[node]))
            assert vtree.is_descendant(a, b) == (first <= second)


@given(seeds)
def test_projection_drops_leaves_and_contracts(seed):
    nested = drawn_nested(seed)
    rng = np.random.default_rng(seed)
    variables = variables_of(nested)
    keep = rng.choice(variables, size=int(rng.integers(1, len(variables) + 1)), replace=False)
    expected = Vtree.from_nested(projected(nested, set(keep.tolist())))
    assert Vtree.from_nested(nested).project(keep) == expected
    assert Vtree.from_nested(nested).project(variables) == Vtree.from_nested(nested)


@given(seeds, st.booleans())
def test_vtrees_with_the_same_scopes_align(seed, swaps):
    rng = np.random.default_rng(seed)
    first = Vtree.from_nested(drawn_nested(seed, 12 if swaps else 5))
    shuffled = random_nested(rng, rng.permutation(first.scope()))
    second = with_swaps(first, rng) if swaps else Vtree.from_nested(shuffled)
    ours, theirs = ([set(v.scope(i).tolist()) for i in range(v.n_nodes)] for v in (first, second))
    alignment = first.align(second)
    if any(scope not in theirs for scope in ours):
        assert alignment is None
        return
    assert [theirs.index(scope) for scope in ours] == alignment.node.tolist()
    for node, swapped in enumerate(alignment.swapped.tolist()):
        children = first.left[node], first.right[node]
        if first.is_leaf(node):
            assert not swapped
        elif swapped:
            children = children[::-1]
        other = alignment.node[node]
        wanted = [] if first.is_leaf(node) else [second.left[other], second.right[other]]
        assert [alignment.node[child] for child in children if child >= 0] == wanted


def test_equality_immutability_and_representation():
    assert Vtree.balanced(3).align(Vtree.balanced(4)) is None
    assert Vtree.balanced([0, 1, 2]).align(Vtree.balanced([0, 1, 3])) is None
    first, second = (
        Vtree.from_nested(((0, 1), 2)),
        Vtree([-1, -1, 0, -1, 2], [-1, -1, 1, -1, 3], [0, 1, -1, 2, -1]),
    )
    assert first == second
    assert first == first
    assert hash(first) == hash(second)
    assert first != Vtree.from_nested((2, (0, 1)))
    assert first != Vtree.from_nested(((0, 1), 3))
    assert first != "((0, 1), 2)"
    vtree = Vtree.balanced(3)
    for array in (vtree.left, vtree.right, vtree.variable, vtree.n_below):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert repr(Vtree.balanced(1)) == "Vtree(0)"
    assert repr(Vtree.balanced(3)) == "Vtree((0, (1, 2)))"
    assert repr(Vtree.right_linear(1000)) == "<Vtree of 1000 variables, height 999>"


@pytest.mark.parametrize("build", [Vtree.right_linear, Vtree.left_linear])
def test_deep_vtrees(build):
    n = 10_000
    vtree = build(n)
    assert vtree.height[-1] == n - 1
    assert vtree.depth.max() == n - 1
    assert Vtree.from_nested(vtree.to_nested()) == vtree
    assert sorted(vtree.inorder.tolist()) == list(range(2 * n - 1))
    assert vtree.project(range(0, n, 2)).n_variables == n // 2
    assert vtree.lca(vtree.leaf(0), vtree.leaf(n - 1)) == vtree.root
    [turned] = {Vtree.left_linear, Vtree.right_linear} - {build}
    assert vtree.align(turned(n)) is None
    mirrored = turned(range(n - 1, -1, -1))
    alignment = vtree.align(mirrored)
    assert alignment.swapped.sum() == n - 1
    assert vtree != mirrored
    assert len({vtree, mirrored, build(n)}) == 2


test_errors = refusals(VtreeError, [
    (lambda: Vtree.balanced(0), "at least one variable. Got none"),
    (lambda: Vtree.random([], rng=0), "at least one variable. Got none"),
    (lambda: Vtree.balanced([3, 1, 3]), r"Variables \[3\] are repeated"),
    (lambda: Vtree.from_nested((0, (1, 0))), r"one leaf. Variables \[0\] are repeated"),
    (lambda: Vtree.from_nested((0, 1, 2)), r"a pair of nested vtrees. Got \(0, 1, 2\)"),
    (lambda: Vtree.from_nested((0, (1,))), r"a pair of nested vtrees. Got \(1,\)"),
    (lambda: Vtree.from_nested((0, True)), "Got True instead"),
    (lambda: Vtree.from_nested((0, "x")), "Got 'x' instead"),
    (lambda: Vtree([], [], []), "at least one node.* Got 0, 0 and 0"),
    (lambda: Vtree([-1], [-1, -1], [0]), "as many left and right .*Got 1, 2 and 1"),
    (lambda: Vtree([-1, 0], [-1, 0], [0, -1]), "Node 0 has two parents"),
    (lambda: Vtree([-1, -1, 0, 2], [-1, -1, 1, 1], [0, 1, -1, -1]), "Node 1 has two parents;"),
    (lambda: Vtree([-1, -1, 0], [-1, -1, 1], [0, 1, 2]), "Node 2 has a variable and children"),
    (lambda: Vtree([-1, -1, 0], [-1, -1, -1], [0, 1, -1]), "Node 2 needs two children with"),
    (lambda: Vtree([-1, 1], [-1, 0], [0, -1]), "smaller numbers. Got 1 and 0"),
    (lambda: Vtree([-1, -1], [-1, -1], [0, 1]), "Only 1 of 2 nodes are reached"),
    *((lambda variables=variables: Vtree.balanced(variables), r"an int .how many there are. or a")
      for variables in (2.0, "3", True, None, [0, "1"])),
    (lambda: Vtree.balanced(3).leaf(3), "Variable 3 is not in this vtree"),
    (lambda: Vtree.balanced(3).project([]), r"non-empty set of the variables. Got \[\]"),
    (lambda: Vtree.balanced(3).project([1, 7]), r"set of the variables. Got \[1, 7\]"),
])  # fmt: skip
