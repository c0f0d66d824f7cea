import pytest

from expectedkernels import Vtree
from expectedkernels.engine.nodes import at_nodes, from_leaves, from_root

VTREES = [Vtree.balanced(1), Vtree.balanced(5), Vtree.right_linear(4), Vtree.random(9, rng=0)]


@pytest.mark.parametrize("vtree", VTREES, ids=str)
def test_leaves_are_told_their_variables(vtree):
    found = at_nodes(vtree, lambda node, variable: (node, variable), lambda node: (node, -1))
    assert found == list(enumerate(vtree.variable.tolist()))
    alone = at_nodes(vtree, None, lambda node: node)
    assert alone == [None if vtree.is_leaf(i) else i for i in range(vtree.n_nodes)]


@pytest.mark.parametrize("vtree", VTREES, ids=str)
def test_what_is_found_below_goes_up(vtree):
    scopes = from_leaves(vtree, lambda _, variable: [variable], lambda _, a, b: a + b)
    assert scopes == [vtree.scope(node).tolist() for node in range(vtree.n_nodes)]


@pytest.mark.parametrize("vtree", VTREES, ids=str)
def test_what_is_given_goes_down(vtree):
    visited = []

    def leaf(node, variable, path):
        visited.append(node)
        assert vtree.leaf(variable) == node
        return path

    def inner(node, path):
        visited.append(node)
        return path, [*path, node], [*path, node]

    paths = from_root(vtree, [], leaf, inner)
    assert visited == list(range(vtree.n_nodes))[::-1]
    for node, path in enumerate(paths):
        assert [*path, node][0] == vtree.root
        assert len(path) == vtree.depth[node]
        assert path[-1:] == [int(vtree.parent[node])] * (node != vtree.root)
