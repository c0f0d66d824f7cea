"""Variable trees: how structured circuits split their variables, as immutable arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from expectedkernels.arrays import RngLike, as_generator, require_memory
from expectedkernels.checks import VtreeError, is_int, public
from expectedkernels.display import FEW, overview, svg, vtree_layout

IntArray = np.ndarray[Any, np.dtype[np.intp]]
Nested = int | Sequence["Nested"]
"""A variable, or a pair of nested vtrees."""


class Alignment(NamedTuple):
    """How the nodes of one vtree lie on another that is equal up to swapping left and right."""

    node: IntArray
    """For every node of the first vtree, the node of the second with the same variables."""
    swapped: np.ndarray[Any, np.dtype[np.bool_]]
    """Whether that node has its children the other way round."""


@public
class Vtree:
    """A full binary tree with one leaf per variable.

    Nodes are numbered in post-order: children come before parents, the root is last, and the
    nodes below node ``v`` are the consecutive numbers up to ``v``. Nothing here recurses, so
    a vtree may be as deep as it has variables.

    Parameters
    ----------
    left, right : sequences of int
        Children of every node, -1 at leaves, in any order in which children have smaller numbers
        than their parents. The last node is the root. (Nodes are renumbered to post-order.)
    variable : sequence of int
        The variable of every leaf, -1 at inner nodes.

    Raises
    ------
    VtreeError
        If the nodes do not form a full binary tree with one leaf per variable.

    Examples
    --------
    >>> vtree = Vtree.from_nested(((0, 1), 2))
    >>> vtree.n_nodes, vtree.n_variables
    (5, 3)
    >>> vtree.scope(2).tolist()
    [0, 1]
    >>> vtree
    Vtree(((0, 1), 2))
    """

    left: IntArray
    right: IntArray
    variable: IntArray
    n_below: IntArray
    """The number of nodes in the subtree of every node, itself included."""

    def __init__(self, left: Sequence[int], right: Sequence[int], variable: Sequence[int]):
        n = len(variable)
        if n == 0 or len(left) != n or len(right) != n:
            raise VtreeError(
                "A vtree needs at least one node, and as many left and right children as nodes. "
                f"Got {len(left)}, {len(right)} and {n}."
            )
        seen: set[int] = set()

        def split(node: int) -> Any:
            if node in seen:
                raise VtreeError(f"Node {node} has two parents; a vtree is a tree.")
            seen.add(node)
            a, b, v = int(left[node]), int(right[node]), int(variable[node])
            if v >= 0 and (a >= 0 or b >= 0):
                raise VtreeError(f"Node {node} has a variable and children; it can have only one.")
            if v < 0 and not (0 <= a < node and 0 <= b < node):
                raise VtreeError(
                    f"Node {node} needs two children with smaller numbers. Got {a} and {b}."
                )
            return v if v >= 0 else (a, b)

        order = _postorder(n - 1, split)
        if len(seen) != n:
            raise VtreeError(
                f"Only {len(seen)} of {n} nodes are reached from the root, which is the last node."
            )
        self._fill(order)

    def _fill(self, variables: Sequence[int]) -> None:
        """Set all arrays by the variables of nodes in post-order, which determine the tree."""
        below: list[int] = []
        stack: list[int] = []
        for v in variables:
            stack.append(1 if v >= 0 else 1 + stack.pop() + stack.pop())
            below.append(stack[-1])
        self.variable, self.n_below = (np.asarray(x, dtype=np.intp) for x in (variables, below))
        nodes, inner = np.arange(len(below)), self.variable < 0
        self.right = np.where(inner, nodes - 1, -1)
        self.left = np.where(inner, nodes - 1 - self.n_below[nodes - 1], -1)
        for array in (self.left, self.right, self.variable, self.n_below):
            array.flags.writeable = False
        present = self.variable[~inner]
        values, counts = np.unique(present, return_counts=True)
        if len(values) < len(present):
            repeated = values[counts > 1][:8].tolist()
            raise VtreeError(f"Each variable has one leaf. Variables {repeated} are repeated.")

    @classmethod
    def balanced(cls, variables: int | Iterable[int]) -> Vtree:
        """The vtree that halves its list of variables at every node.

        Parameters
        ----------
        variables : int or iterable of int
            Their number, or what they are, from left to right.

        Returns
        -------
        Vtree

        Examples
        --------
        >>> Vtree.balanced(5)
        Vtree(((0, 1), (2, (3, 4))))
        """
        return cls._over(variables, lambda n: n // 2)

    @classmethod
    def right_linear(cls, variables: int | Iterable[int]) -> Vtree:
        """The vtree whose left children are all leaves.

        Parameters
        ----------
        variables : int or iterable of int
            The variables in their order; an int n means 0, ..., n - 1.

        Returns
        -------
        Vtree

        Examples
        --------
        >>> Vtree.right_linear(4)
        Vtree((0, (1, (2, 3))))
        """
        return cls._over(variables, lambda n: 1)

    @classmethod
    def left_linear(cls, variables: int | Iterable[int]) -> Vtree:
        """The vtree whose right children are all leaves.

        Parameters
        ----------
        variables : int or iterable of int
            The variables in their order; an int n means 0, ..., n - 1.

        Returns
        -------
        Vtree

        Examples
        --------
        >>> Vtree.left_linear(4)
        Vtree((((0, 1), 2), 3))
        """
        return cls._over(variables, lambda n: n - 1)

    @classmethod
    def random(cls, variables: int | Iterable[int], rng: RngLike = None) -> Vtree:
        """A vtree over the variables in the given order, every split drawn uniformly.

        Parameters
        ----------
        variables : int or iterable of int
            The variables in their order; an int n means 0, ..., n - 1.
        rng : int, Generator or None
            Seed or generator of random numbers; an int makes results reproducible.

        Returns
        -------
        Vtree

        Examples
        --------
        >>> Vtree.random(4, rng=0).n_variables
        4
        """
        generator = as_generator(rng)
        return cls._over(variables, lambda n: int(generator.integers(1, n)))

    @classmethod
    def from_nested(cls, nested: Nested) -> Vtree:
        """The vtree written as nested pairs of variables.

        Parameters
        ----------
        nested : int or pair
            A variable, or a pair of nested vtrees.

        Returns
        -------
        Vtree

        Raises
        ------
        VtreeError
            If something is neither a variable nor a pair, or a variable comes twice.

        Examples
        --------
        >>> Vtree.from_nested((2, (0, 1))).scope().tolist()
        [2, 0, 1]
        """

        def split(item: Any) -> Any:
            if is_int(item) or (isinstance(item, (tuple, list)) and len(item) == 2):
                return item
            raise VtreeError(
                "A nested vtree is a variable (an int) or a pair of nested vtrees. "
                f"Got {item!r} instead."
            )

        return by_splits(nested, split)

    @staticmethod
    def _over(variables: int | Iterable[int], size: Callable[[int], int]) -> Vtree:
        """Split lists of variables, `size(length)` of them to the left, until one is left."""
        if is_int(variables):
            n: Any = variables
            require_memory(200.0 * n, f"A vtree of {n} variables", "Take fewer variables.")
            variables = range(n)
        many = isinstance(variables, Iterable) and not isinstance(variables, str)
        xs: list[Any] = list(variables) if many else [variables]  # type: ignore[arg-type]
        wrong = [x for x in xs if not is_int(x)]
        if wrong:
            raise VtreeError(
                "The variables of a vtree are an int (how many there are) or a list of ints. "
                f"Got {wrong[0]!r}{' among them' if many else ''}."
            )
        if not xs:
            raise VtreeError("A vtree needs at least one variable. Got none.")

        def split(span: tuple[int, int]) -> Any:
            start, stop = span
            if stop - start == 1:
                return int(xs[start])
            middle = start + size(stop - start)
            return (start, middle), (middle, stop)

        return by_splits((0, len(xs)), split)

    @property
    def n_nodes(self) -> int:
        """The number of nodes, 2 D - 1 for D variables."""
        return len(self.variable)

    @property
    def n_variables(self) -> int:
        """The number of variables D."""
        return (self.n_nodes + 1) // 2

    @property
    def root(self) -> int:
        """The number of the root node."""
        return self.n_nodes - 1

    def is_leaf(self, node: int) -> bool:
        """Whether the node is a leaf."""
        return bool(self.variable[node] >= 0)

    @cached_property
    def parent(self) -> IntArray:
        """The parent of every node, -1 at the root."""
        parent = np.full(self.n_nodes, -1, dtype=np.intp)
        inner = np.flatnonzero(self.variable < 0)
        parent[self.left[inner]] = inner
        parent[self.right[inner]] = inner
        return parent

    @property
    def _inner(self) -> Iterator[tuple[int, int, int]]:
        """The inner nodes with their children, from below."""
        inner = np.flatnonzero(self.variable < 0)
        arrays = (inner, self.left[inner], self.right[inner])
        return zip(*(array.tolist() for array in arrays), strict=True)

    @cached_property
    def height(self) -> IntArray:
        """The length of the longest path from every node down to a leaf."""
        height = [0] * self.n_nodes
        for node, a, b in self._inner:
            height[node] = 1 + max(height[a], height[b])
        return np.asarray(height, dtype=np.intp)

    @cached_property
    def depth(self) -> IntArray:
        """The distance of every node from the root."""
        depth = [0] * self.n_nodes
        for node, a, b in reversed(list(self._inner)):
            depth[a] = depth[b] = depth[node] + 1
        return np.asarray(depth, dtype=np.intp)

    @cached_property
    def inorder(self) -> IntArray:
        """The in-order position of every node (left subtree, node, right subtree)."""
        first, below = [0] * self.n_nodes, self.n_below.tolist()
        for node, a, b in reversed(list(self._inner)):
            first[a], first[b] = first[node], first[node] + below[a] + 1
            first[node] += below[a]
        return np.asarray(first, dtype=np.intp)

    @cached_property
    def _leaf_of(self) -> dict[int, int]:
        leaves = np.flatnonzero(self.variable >= 0)
        return dict(zip(self.variable[leaves].tolist(), leaves.tolist(), strict=True))

    def leaf(self, variable: int) -> int:
        """The leaf node of a variable.

        Parameters
        ----------
        variable : int
            The number of the variable.

        Returns
        -------
        int

        Raises
        ------
        VtreeError
            If the variable is not in the vtree.

        Examples
        --------
        >>> Vtree.right_linear(3).leaf(2)
        2
        """
        try:
            return self._leaf_of[int(variable)]
        except KeyError:
            raise VtreeError(f"Variable {variable} is not in this vtree.") from None

    def scope(self, node: int | None = None) -> IntArray:
        """The variables below a node (default: the root), from left to right.

        Parameters
        ----------
        node : int, optional
            The number of the node. Default: the root.

        Returns
        -------
        int array

        Examples
        --------
        >>> Vtree.from_nested((2, (0, 1))).scope().tolist()
        [2, 0, 1]
        """
        node = self.root if node is None else node
        below = self.variable[node - self.n_below[node] + 1 : node + 1]
        return below[below >= 0]

    def is_descendant(self, a: int, b: int) -> bool:
        """Whether node a is b or lies below b.

        Parameters
        ----------
        a, b : int
            The numbers of two nodes.

        Returns
        -------
        bool

        Examples
        --------
        >>> Vtree.balanced(2).is_descendant(0, 2)
        True
        """
        return bool(b - self.n_below[b] < a <= b)

    def contains(self, node: int, variable: int) -> bool:
        """Whether a variable lies below a node.

        Parameters
        ----------
        node, variable : int
            The numbers of a node and of a variable.

        Returns
        -------
        bool

        Examples
        --------
        >>> Vtree.balanced(2).contains(0, 1)
        False
        """
        return int(variable) in self._leaf_of and self.is_descendant(self.leaf(variable), node)

    def lca(self, a: int, b: int) -> int:
        """The lowest node above both a and b.

        Parameters
        ----------
        a, b : int
            The numbers of two nodes.

        Returns
        -------
        int

        Examples
        --------
        >>> Vtree.balanced(2).lca(0, 1)
        2
        """
        while not self.is_descendant(a, b):
            b = int(self.parent[b])
        return b

    def project(self, keep: Iterable[int]) -> Vtree:
        """The vtree over some of the variables: other leaves go, nodes with one child contract.

        Parameters
        ----------
        keep : iterable of int
            At least one variable.

        Returns
        -------
        Vtree

        Raises
        ------
        VtreeError
            If nothing is kept, or what is not there.

        Examples
        --------
        >>> Vtree.balanced(4).project([0, 2, 3])
        Vtree((0, (2, 3)))
        """
        wanted = {int(v) for v in keep}
        if not wanted or not wanted <= set(self._leaf_of):
            raise VtreeError(
                f"A projection keeps a non-empty set of the variables. Got {sorted(wanted)}."
            )
        order: list[int] = []
        kept: list[bool] = []  # whether anything is left of the nodes of a post-order
        for variable in self.variable.tolist():
            parts = [variable in wanted] if variable >= 0 else [kept.pop(), kept.pop()]
            kept.append(any(parts))
            order += [variable] * all(parts)
        return in_postorder(order)

    def renumbered(self, number: Sequence[int]) -> Vtree:
        """The vtree in which variable v is called number[v].

        Examples
        --------
        >>> Vtree.from_nested((2, (0, 1))).renumbered([1, 2, 0])
        Vtree((0, (1, 2)))
        """
        variable = np.where(self.variable >= 0, np.asarray(number)[self.variable], -1)
        return in_postorder(variable.tolist())

    def align(self, other: Vtree) -> Alignment | None:
        """How `other` lies on this vtree, or None if they differ by more than swapped children.

        Examples
        --------
        >>> a, b = Vtree.from_nested(((0, 1), 2)), Vtree.from_nested((2, (0, 1)))
        >>> a.align(b).node.tolist()
        [1, 2, 3, 0, 4]
        >>> a.align(Vtree.from_nested((0, (1, 2)))) is None
        True
        """
        return _alignment(self, other)

    def to_nested(self) -> Nested:
        """The vtree as nested pairs of variables, the inverse of `from_nested`.

        Returns
        -------
        int, or pair of nested vtrees

        Examples
        --------
        >>> Vtree.balanced(3).to_nested()
        (0, (1, 2))
        """
        nested: list[Any] = []
        for variable in self.variable.tolist():
            if variable >= 0:
                nested.append(variable)
            else:
                b, a = nested.pop(), nested.pop()
                nested.append((a, b))
        return nested[0]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vtree):
            return False
        return self is other or np.array_equal(self.variable, other.variable)

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(self.variable.tolist()))  # the same in every process

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        if self.n_variables > 20:
            return f"<Vtree of {self.n_variables} variables, height {int(self.height[-1])}>"
        return f"Vtree({self.to_nested()!r})"

    def _repr_html_(self) -> str:
        found = {"variables": self.n_variables, "height": int(self.height[-1])}
        return overview("Vtree", found, svg(vtree_layout(self)) if self.n_nodes <= FEW else "")


@lru_cache(maxsize=64)
def _alignment(one: Vtree, other: Vtree) -> Alignment | None:
    """How the nodes of one vtree lie on another, None if they differ by more than swaps."""
    if one == other:
        return Alignment(np.arange(one.n_nodes), np.zeros(one.n_nodes, dtype=np.bool_))
    if one._leaf_of.keys() != other._leaf_of.keys():
        return None
    parent, left = other.parent.tolist(), other.left.tolist()
    node = [other._leaf_of.get(v, -1) for v in one.variable.tolist()]
    swapped = np.zeros(one.n_nodes, dtype=np.bool_)
    for v, a, b in one._inner:
        node[v] = parent[node[a]]
        if node[v] != parent[node[b]]:
            return None
        swapped[v] = left[node[v]] != node[a]
    return Alignment(np.asarray(node, dtype=np.intp), swapped)


def in_postorder(variables: Sequence[int]) -> Vtree:
    """The vtree whose nodes in post-order have these variables, -1 at inner nodes."""
    vtree = Vtree.__new__(Vtree)
    vtree._fill(variables)
    return vtree


def by_splits(root: Any, split: Callable[[Any], Any]) -> Vtree:
    """The vtree of a thing that `split` turns into a variable, or into two smaller things."""
    return in_postorder(_postorder(root, split))


def _postorder(root: Any, split: Callable[[Any], Any]) -> list[int]:
    """The variables of the nodes of such a vtree in post-order, -1 at inner nodes."""
    order: list[int] = []
    parts = [root]
    missing: list[int] = []  # how many children of the nodes above have yet to come
    while parts:
        part = split(parts.pop())
        if isinstance(part, (tuple, list)):
            parts += part[::-1]
            missing.append(2)
            continue
        if part < 0:
            raise VtreeError(f"The variables of a vtree are not negative. Got {part}.")
        order.append(int(part))
        while missing and missing[-1] == 1:
            missing.pop()
            order.append(-1)
        missing[-1:] = [1] if missing else []
    return order
