"""Variable trees: how structured circuits split their variables, as immutable arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from expectedkernels.arrays import RngLike, as_generator, require_memory
from expectedkernels.checks import VtreeError, is_int, public
from expectedkernels.display import FEW, overview, svg, tree_layout

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
        order = _postorder(left, right, variable)
        number = np.empty(len(variable), dtype=np.intp)
        number[order] = np.arange(len(order))
        old_left, old_right = np.asarray(left, np.intp)[order], np.asarray(right, np.intp)[order]
        self.variable = np.asarray(variable, np.intp)[order]
        inner = self.variable < 0
        # leaves may have any negative number for a child
        self.left = np.where(inner, number[np.where(inner, old_left, 0)], -1)
        self.right = np.where(inner, number[np.where(inner, old_right, 0)], -1)
        below = [1] * len(order)
        for node, a, b in self._inner:
            below[node] += below[a] + below[b]
        self.n_below = np.asarray(below, dtype=np.intp)
        for array in (self.left, self.right, self.variable, self.n_below):
            array.flags.writeable = False

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
        rng : int, Generator or None

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
        xs = _variables(variables)
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
        kept: list[Any] = []  # nested vtrees, None where nothing is left
        for variable in self.variable.tolist():
            if variable >= 0:
                kept.append(variable if variable in wanted else None)
            else:
                b, a = kept.pop(), kept.pop()
                kept.append(a if b is None else b if a is None else (a, b))
        return Vtree.from_nested(kept[0])

    def renumbered(self, number: Sequence[int]) -> Vtree:
        """The vtree in which variable v is called number[v].

        Examples
        --------
        >>> Vtree.from_nested((2, (0, 1))).renumbered([1, 2, 0])
        Vtree((0, (1, 2)))
        """
        variable = np.where(self.variable >= 0, np.asarray(number)[self.variable], -1)
        return Vtree(self.left.tolist(), self.right.tolist(), variable.tolist())

    @cached_property
    def _canonical(self) -> tuple[IntArray, IntArray, np.ndarray[Any, np.dtype[np.bool_]]]:
        """Nodes in the post-order that visits the child with the smaller first variable first.

        Returned with the variables in that order (which determine the tree together with the
        subtree sizes) and a flag at the nodes whose children were swapped.
        """
        smallest = self.variable.tolist()
        swapped = np.zeros(self.n_nodes, dtype=np.bool_)
        children = [(-1, -1)] * self.n_nodes
        for node, a, b in self._inner:
            smallest[node] = min(smallest[a], smallest[b])
            swapped[node] = smallest[b] < smallest[a]
            children[node] = (b, a) if swapped[node] else (a, b)
        order: list[int] = []
        stack = [self.root]
        while stack:  # parents first, second child first: the reverse is the post-order wanted
            node = stack.pop()
            order.append(node)
            stack += () if children[node][0] < 0 else children[node]
        nodes = np.asarray(order[::-1], dtype=np.intp)
        return nodes, self.variable[nodes], swapped

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
        if self == other:
            return Alignment(np.arange(self.n_nodes), np.zeros(self.n_nodes, dtype=np.bool_))
        if self.n_nodes != other.n_nodes:
            return None
        mine, my_variables, my_swaps = self._canonical
        theirs, their_variables, their_swaps = other._canonical
        if not (
            np.array_equal(my_variables, their_variables)
            and np.array_equal(self.n_below[mine], other.n_below[theirs])
        ):
            return None
        node = np.empty(self.n_nodes, dtype=np.intp)
        node[mine] = theirs
        return Alignment(node, my_swaps ^ their_swaps[node])

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
        if self is other:
            return True
        return (
            isinstance(other, Vtree)
            and np.array_equal(self.variable, other.variable)
            and np.array_equal(self.n_below, other.n_below)
        )

    @cached_property
    def _hash(self) -> int:
        return hash((self.variable.tobytes(), self.n_below.tobytes()))

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        if self.n_variables > 20:
            return f"<Vtree of {self.n_variables} variables, height {int(self.height[-1])}>"
        return f"Vtree({self.to_nested()!r})"

    def _repr_html_(self) -> str:
        labels = ["" if v < 0 else str(v) for v in self.variable.tolist()]
        drawn = tree_layout(self.left.tolist(), self.right.tolist(), labels, "Vtree")
        found = {"variables": self.n_variables, "height": int(self.height[-1])}
        return overview("Vtree", found, svg(drawn) if self.n_nodes <= FEW else "")


def by_splits(root: Any, split: Callable[[Any], Any]) -> Vtree:
    """The vtree of a thing that `split` turns into a variable, or into two smaller things."""
    stack, parts = [root], []
    while stack:
        parts.append(split(stack.pop()))
        if isinstance(parts[-1], (tuple, list)):
            stack += parts[-1][::-1]
    nodes: list[tuple[int, int, int]] = []
    done: list[int] = []
    for part in reversed(parts):
        inner = isinstance(part, (tuple, list))
        nodes.append((done.pop(), done.pop(), -1) if inner else (-1, -1, int(part)))
        done.append(len(nodes) - 1)
    return Vtree(*zip(*nodes, strict=True))


def _postorder(left: Sequence[int], right: Sequence[int], variable: Sequence[int]) -> IntArray:
    """The nodes in post-order from the last one, after checking that they form a full tree."""
    n = len(variable)
    if n == 0 or len(left) != n or len(right) != n:
        raise VtreeError(
            "A vtree needs at least one node, and as many left and right children as nodes. "
            f"Got {len(left)}, {len(right)} and {n}."
        )
    lefts, rights, variables = ([int(i) for i in xs] for xs in (left, right, variable))
    seen = np.zeros(n, dtype=np.bool_)
    order: list[int] = []
    stack = [n - 1]
    while stack:
        node = stack.pop()
        if seen[node]:
            raise VtreeError(f"Node {node} has two parents; a vtree is a tree.")
        seen[node] = True
        order.append(node)
        a, b = lefts[node], rights[node]
        if variables[node] >= 0:
            if a >= 0 or b >= 0:
                raise VtreeError(f"Node {node} has a variable and children; it can have only one.")
        elif not (0 <= a < node and 0 <= b < node):
            raise VtreeError(
                f"Node {node} needs two children with smaller numbers. Got {a} and {b}."
            )
        else:
            stack += [a, b]
    if len(order) != n:
        raise VtreeError(
            f"Only {len(order)} of {n} nodes are reached from the root, which is the last node."
        )
    present = Counter(v for v in variables if v >= 0)
    repeated = sorted(v for v, count in present.items() if count > 1)[:8]
    if repeated:
        raise VtreeError(f"Each variable has one leaf. Variables {repeated} are repeated.")
    return np.asarray(order[::-1], dtype=np.intp)


def _variables(given: Any) -> list[int]:
    """The variables of a vtree, by how many there are or as a list of them."""
    if is_int(given):
        require_memory(200.0 * given, f"A vtree of {given} variables", "Take fewer variables.")
        return list(range(given))
    found = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    for x in found:
        if not is_int(x):
            raise VtreeError(
                "The variables of a vtree are an int (how many there are) or a list of ints. "
                f"Got {x!r}{'' if x is given else ' among them'}."
            )
    return found
