"""Passes over the nodes of a vtree: at every node, from the leaves up, from the root down.

What happens at a node is given as two functions, one for leaves and one for inner nodes. Blocks are
made, checked and changed this way; numbers are summed by sweeps and by passes over levels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from expectedkernels.vtree import Vtree

T = TypeVar("T")
S = TypeVar("S")


def at_nodes(
    vtree: Vtree, leaf: Callable[[int, int], Any] | None, inner: Callable[[int], Any]
) -> list[Any]:
    """What `leaf(node, variable)` and `inner(node)` give at every node, children first.

    Without `leaf` there is None at leaves.

    Examples
    --------
    >>> at_nodes(Vtree.balanced(2), lambda node, variable: variable, lambda node: "both")
    [0, 1, 'both']
    """
    return [
        inner(node) if v < 0 else None if leaf is None else leaf(node, v)
        for node, v in enumerate(vtree.variable.tolist())
    ]


def from_leaves(
    vtree: Vtree, leaf: Callable[[int, int], T], inner: Callable[[int, T, T], T]
) -> list[T]:
    """What is found at every node: `leaf(node, variable)`, or `inner(node, left, right)` above.

    Here left and right are what was found at the children.

    Examples
    --------
    >>> from_leaves(Vtree.balanced(3), lambda _, variable: 1, lambda _, left, right: left + right)
    [1, 1, 1, 2, 3]
    """
    found: list[T] = []
    children = zip(vtree.left.tolist(), vtree.right.tolist(), strict=True)
    for node, (v, (a, b)) in enumerate(zip(vtree.variable.tolist(), children, strict=True)):
        found.append(leaf(node, v) if v >= 0 else inner(node, found[a], found[b]))
    return found


def from_root(
    vtree: Vtree,
    given: S,
    leaf: Callable[[int, int, S], T],
    inner: Callable[[int, S], tuple[T, S, S]],
) -> list[T]:
    """What is found at every node, children first, going from the root down.

    `leaf(node, variable, given)` is what is found at a leaf, and `inner(node, given)` what is found
    at an inner node, with what its left and its right child are given.

    Examples
    --------
    >>> def inner(node, depth):
    ...     return depth, depth + 1, depth + 1
    >>> from_root(Vtree.balanced(3), 0, lambda node, variable, depth: depth, inner)
    [1, 2, 2, 1, 0]
    """
    handed: list[Any] = [None] * vtree.n_nodes
    found: list[Any] = [None] * vtree.n_nodes
    handed[vtree.root] = given
    variables, lefts, rights = (x.tolist() for x in (vtree.variable, vtree.left, vtree.right))
    for node in range(vtree.root, -1, -1):
        mine, handed[node] = handed[node], None
        if variables[node] >= 0:
            found[node] = leaf(node, variables[node], mine)
        else:
            a, b = lefts[node], rights[node]
            found[node], handed[a], handed[b] = inner(node, mine)
    return found
