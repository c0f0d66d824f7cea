"""Chow-Liu trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import minimum_spanning_tree

from expectedkernels.arrays import RowsLike, column_ranks
from expectedkernels.checks import CircuitError, check_choice, check_real, is_int, removed
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.inputs import Input, Table
from expectedkernels.data.chunks import StreamLike, WeightsLike
from expectedkernels.data.schema import Schema
from expectedkernels.engine.blocks import Inner, inner
from expectedkernels.learning.em import em
from expectedkernels.learning.training_data import (
    MAX_STATES,
    Data,
    FloatArray,
    PairCounts,
    mutual_information,
    read_data,
    shares,
)
from expectedkernels.vtree import Vtree

SAME = 12
"""Weights of edges are compared after rounding to so many decimals, so that ties stay ties."""


@dataclass(frozen=True)
class Forest:
    """Rooted trees over variables 0, 1, ...

    Examples
    --------
    >>> Forest((-1, 0, 0)).children
    [[1, 2], [], []]
    """

    parent: tuple[int, ...]  # the parent of every variable, -1 at roots

    @property
    def roots(self) -> list[int]:
        """The roots, in order."""
        return [v for v, parent in enumerate(self.parent) if parent < 0]

    @cached_property
    def children(self) -> list[list[int]]:
        """The children of every variable, in order."""
        children: list[list[int]] = [[] for _ in self.parent]
        for v, parent in enumerate(self.parent):
            if parent >= 0:
                children[parent].append(v)
        return children


def spanning_edges(weights: FloatArray) -> list[tuple[int, int]]:
    """The edges of the maximum spanning tree.

    Edges come before each other by (larger weight, smaller i, smaller j) for i < j, which makes
    the tree unique. Cost: O(D^2 log D).

    Examples
    --------
    >>> spanning_edges(np.array([[0.0, 0.1, 0.3], [0.1, 0.0, 0.2], [0.3, 0.2, 0.0]]))
    [(0, 2), (1, 2)]
    """
    n = len(weights)
    i, j = np.triu_indices(n, 1)
    rank = np.empty(len(i))
    rank[np.argsort(-np.round(weights, SAME)[i, j], kind="stable")] = np.arange(1, len(i) + 1)
    tree = minimum_spanning_tree(sparse.csr_array((rank, (i, j)), (n, n)))
    return sorted(zip(*(x.tolist() for x in tree.nonzero()), strict=True))


def decided_edges(weights: FloatArray, ranks: Any) -> list[tuple[int, int]]:
    """The edges that all maximum spanning trees have, of edges that are told apart by ranks.

    Edges come before each other by larger weight, then by the smaller and the larger rank of their
    ends. Where all of these are equal nothing tells which edge to take, and none is taken.

    Examples
    --------
    >>> weights = np.array([[0.0, 0.6, 0.3], [0.6, 0.0, 0.3], [0.3, 0.3, 0.0]])
    >>> decided_edges(weights, [0, 1, 2]), decided_edges(weights, [0, 0, 1])
    ([(0, 1), (0, 2)], [(0, 1)])
    """
    n, ends = len(weights), (np.maximum.outer(ranks, ranks), np.minimum.outer(ranks, ranks))
    keys = np.stack([*(-x.ravel() for x in ends), np.round(weights, SAME).ravel()])
    order = np.lexsort(keys)
    place = np.zeros((n, n))
    place.flat[order[1:]] = np.cumsum(np.diff(keys[:, order], axis=1).any(axis=0))
    edges, found = spanning_edges(place), []
    if len(set(ranks)) == n:
        return edges
    for i, j in edges:
        near = _neighbours(n, [edge for edge in edges if edge != (i, j)])
        sides = (list(_search(near, end)) for end in (i, j))
        if (place[np.ix_(*sides)] == place[i, j]).sum() == 1:
            found.append((i, j))
    return found


def rooted(
    n: int,
    edges: Sequence[tuple[int, int]],
    root: Any = "center",
    ranks: Any = None,
) -> Forest:
    """The forest with every tree rooted at its centre, or (one of them) as told.

    The centre is the vertex whose farthest vertex is nearest, that of the smaller rank (by default
    the smaller one) if there are two; if nothing tells these apart, they are not connected. With
    an int as the root, that variable is the root of its tree, and other trees have their centres.

    Examples
    --------
    >>> rooted(3, [(0, 1), (1, 2)]).parent
    (1, -1, 1)
    """
    ranks = range(n) if ranks is None else ranks
    near = _neighbours(n, edges)
    parent = [-1] * n
    done = [False] * n
    for start in range(n):
        if done[start]:
            continue
        tree = list(_search(near, start))
        if root in tree:
            top = root
        else:
            while len(middle := _middle(near, start)) == 2 and len({ranks[v] for v in middle}) == 1:
                near[middle[0]].remove(middle[1])
                near[middle[1]].remove(middle[0])
            top = min(middle, key=lambda v: ranks[v])
        for v, above in _search(near, top).items():
            parent[v], done[v] = above, True
    return Forest(tuple(parent))


def _neighbours(n: int, edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    near: list[list[int]] = [[] for _ in range(n)]
    for i, j in edges:
        near[i].append(j)
        near[j].append(i)
    return near


def _search(near: list[list[int]], start: int) -> dict[int, int]:
    """What is reached from a vertex, the farthest last, each with where it was reached from."""
    reached = {start: -1}
    queue = [start]
    for v in queue:
        for other in near[v]:
            if other not in reached:
                reached[other] = v
                queue.append(other)
    return reached


def _middle(near: list[list[int]], start: int) -> list[int]:
    """The vertex in the middle of a longest path, or the two that are."""
    end = next(reversed(_search(near, start)))
    back = _search(near, end)
    path = [next(reversed(back))]
    while back[path[-1]] >= 0:
        path.append(back[path[-1]])
    half = len(path) // 2
    return path[half : half + 1] if len(path) % 2 else path[half - 1 : half + 1]


def tree_vtree(forest: Forest) -> tuple[Vtree, list[int], list[bool]]:
    """The vtree of a forest: every variable beside its group of children.

    Also for every node one of the variables at its top (that which decides there, or one of the
    siblings grouped there), and whether it is an inner node at which a variable decides.

    Siblings (and roots) are grouped by halves.

    Examples
    --------
    >>> tree_vtree(Forest((-1, 0, 0, 1)))[0]
    Vtree((0, ((1, 3), 2)))
    """
    nodes: list[tuple[int, int, int]] = []
    top: list[int] = []
    decides: list[bool] = []
    done: list[int] = []
    # a group of siblings; or a variable whose two parts are done; or None: two groups are done
    stack: list[Any] = [forest.roots]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            if len(item) > 1:
                half = len(item) // 2
                stack += [None, item[half:], item[:half]]
                continue
            v = item[0]
            if forest.children[v]:
                stack += [v, forest.children[v]]
            nodes.append((-1, -1, v))
            top.append(v)
            decides.append(False)
        else:
            b, a = done.pop(), done.pop()
            nodes.append((a, b, -1))
            top.append(top[a])
            decides.append(item is not None)
        done.append(len(nodes) - 1)
    return Vtree(*zip(*nodes, strict=True)), top, decides


EM_ITERATIONS = 100
"""With missing values, the parameters come from at most so many iterations of EM,"""
EM_TOLERANCE = 1e-6
"""or until the mean log-likelihood improves by less than this."""


@removed(
    grouping="the vtree groups siblings by halves",
    min_mi="every variable is connected to another; independent ones change nothing",
    rng="nothing is drawn at random; 'root' may be a variable that you draw",
)
def learn_chow_liu(
    X: RowsLike | StreamLike,
    pseudocount: float = 1.0,
    *,
    alpha: float = 1.0,
    cardinalities: int | Sequence[int] | None = None,
    max_states: int = MAX_STATES,
    sample_weight: WeightsLike | None = None,
    parameters: str = "flows",
    root: str | int = "center",
) -> Circuit:
    """The circuit of the tree of variables with the largest total mutual information.

    Of all distributions in which every variable depends on one other, this one fits the data
    best. Its circuit is smooth, deterministic and structured-decomposable; it has one sum unit
    for every variable and state of its parent.

    Parameters
    ----------
    X : array of shape (n, variables), data frame, or data in chunks
        States coded as integers 0, 1, 2, ...; NaN for missing values. The columns of a data frame
        name the variables, and may hold text, categories, booleans or other integers, which
        become labelled states. Data in chunks need not fit into memory: paths of Parquet files, a
        Dask array or data frame, or a function that returns an iterable of arrays or frames (it
        is called for every pass).
    pseudocount : float
        How many rows' worth of counts every sum unit gets in advance, spread evenly over its
        inputs. Only for ``parameters="flows"``.
    alpha : float
        Smoothing of the mutual information: every pair of variables gets 4 alpha counts in
        advance, spread evenly over its cells.
    cardinalities : int or sequence of int, optional
        The number of states of every variable. Default: one more than the largest code, and at
        least two.
    max_states : int
        How many distinct labels a column of a data frame may have.
    sample_weight : array of shape (n,), str or callable, optional
        How much every row counts. The pseudocount is multiplied by the mean weight. With data in
        chunks, the name of a column of data frames, or a function from a chunk to the weights of
        its rows.
    parameters : {"flows", "cpt"}
        Where the weights come from: from how often they are used, with the pseudocount; or from
        the smoothed pairwise statistics of the tree, with `alpha`.
    root : "center" or int
        The root of the tree: its centre, or this variable.

    Returns
    -------
    Circuit

    Raises
    ------
    DataError
        If the data are not states coded as integers.

    Notes
    -----
    Missing values: the statistics of a pair come from the rows in which both are observed (right
    when values are missing completely at random), and the weights from EM, which sums
    missing values out (right when they are missing at random), started at these statistics.

    Data in chunks are read twice, and with missing values once more for every iteration of EM. The
    chunks are shared among the workers that `joblib.parallel_config` names; the result does not
    depend on their number.

    Cost: O(n s^2) for s states in all, and O(d^2) for the tree over d variables.

    References
    ----------
    Chow, C. and Liu, C. (1968). Approximating discrete probability distributions with dependence
    trees. IEEE Transactions on Information Theory 14(3).

    Examples
    --------
    >>> X = [[0, 0, 1], [0, 0, 0], [1, 1, 1], [1, 1, 0]]
    >>> p = learn_chow_liu(X, pseudocount=0.0, alpha=0.1)
    >>> p.vtree
    Vtree((0, (1, 2)))
    >>> np.exp(p.log_likelihood([[0, 0, 1], [0, 1, 1]])).round(6).tolist()
    [0.25, 0.0]
    """
    name = "learn_chow_liu"
    beta, alpha = check_real(name, "pseudocount", pseudocount), check_real(name, "alpha", alpha)
    check_choice(name, "parameters", parameters, ("flows", "cpt"))
    data, _, complete = read_data(X, None, cardinalities, sample_weight, max_states, name)
    tree = tree_of(data.pair_counts(complete), alpha, root)
    if parameters == "cpt":
        blocks = tree_blocks(tree, tree.conditionals(4.0 * alpha))
    else:
        blocks = flow_blocks(tree, data, beta, alpha, complete)
    return Circuit.from_blocks(tree.vtree, blocks).with_schema(data.schema)


@dataclass(frozen=True)
class ChowLiuTree:
    """A tree of variables with the statistics it was made of."""

    forest: Forest
    counts: PairCounts
    # of `tree_vtree`
    vtree: Vtree
    top: list[int]
    decides: list[bool]

    @cached_property
    def cardinalities(self) -> list[int]:
        """The number of states of every variable."""
        return [int(c) for c in self.counts.cardinalities]

    def contexts(self, variable: int) -> int:
        """The number of states of a variable's parent, 1 for roots."""
        parent = self.forest.parent[variable]
        return 1 if parent < 0 else int(self.counts.cardinalities[parent])

    def conditionals(self, beta: float, per_pair: bool = True) -> list[FloatArray]:
        """For every variable its probabilities, one row per state of its parent.

        Pseudocounts are for every pair of variables, as those of the mutual information, or for
        every row.
        """
        parents, pair = enumerate(self.forest.parent), self.counts.pair
        tables = (self.counts.single(v)[None] if u < 0 else pair(u, v) for v, u in parents)
        return [shares(n, beta / len(n) if per_pair else beta) for n in tables]


def tree_of(
    counts: PairCounts,
    alpha: float,
    root: Any = "center",
    ranks: Any = None,
) -> ChowLiuTree:
    """The tree with the largest total mutual information, rooted, and its vtree.

    Of trees that are equally good it is the one of the edges with the smallest ranks, by default
    the numbers of the variables. With ranks, edges are left out where variables of equal ranks
    leave a choice: then the distribution does not depend on the order of the variables.
    """
    n = len(counts.cardinalities)
    if root != "center" and not (is_int(root) and root in range(n)):
        raise CircuitError(
            "The 'root' parameter of learn_chow_liu must be 'center' or a variable in "
            f"0..{n - 1}. Got {root!r} instead."
        )
    information = mutual_information(counts, alpha)
    edges = spanning_edges(information) if ranks is None else decided_edges(information, ranks)
    forest = rooted(n, edges, root, ranks)
    return ChowLiuTree(forest, counts, *tree_vtree(forest))


def content_tree(
    X: Any, cardinalities: Sequence[int], names: Sequence[str] | None, pseudocount: float = 1.0
) -> Circuit:
    """A Chow-Liu tree that does not depend on the order of rows and columns; not minimised.

    Ties are broken by the contents of columns, then by names; see `tree_of`.

    Parameters
    ----------
    X : array of shape (rows, variables)
        States, NaN where missing.
    cardinalities : sequence of int
    names : sequence of str, or None
    pseudocount : float

    Examples
    --------
    >>> X = np.array([[0, 0, 1], [0, 0, 0], [1, 1, 1], [1, 1, 1]], dtype=float)
    >>> content_tree(X, [2, 2, 2], None).n_variables
    3
    """
    data, complete = Data(Schema(tuple(cardinalities)), X), not np.isnan(X).any()
    tree = tree_of(data.pair_counts(complete), 1.0, ranks=column_ranks(X, names))
    blocks = flow_blocks(tree, data, pseudocount, 1.0, complete)
    return Circuit(tree.vtree, tuple(blocks))


def tree_blocks(tree: ChowLiuTree, conditionals: Sequence[FloatArray]) -> list[Input | Inner]:
    """The blocks of a tree's circuit: at every node one unit per state of the parent variable."""
    vtree = tree.vtree
    blocks: list[Input | Inner] = []
    for node, v in enumerate(tree.top):
        cardinality = tree.cardinalities[v]
        if vtree.is_leaf(node):
            is_parent = bool(tree.forest.children[v])
            blocks.append(Table(np.eye(cardinality) if is_parent else conditionals[v]))
        elif tree.decides[node]:
            every = np.arange(cardinality)
            blocks.append(inner(every, every, conditionals[v], cardinality, cardinality))
        else:
            n = tree.contexts(v)
            blocks.append(Inner(n, n, None, None, None))
    return blocks


def flow_blocks(
    tree: ChowLiuTree, data: Data, beta: float, alpha: float, complete: bool
) -> list[Input | Inner]:
    """The blocks of a tree's circuit with weights from flows, not minimised.

    If values are missing, the flows are those that EM expects, started at the weights of pairs.
    """
    if complete:
        scaled = beta * tree.counts.mean_weight
        return tree_blocks(tree, tree.conditionals(scaled, per_pair=False))
    blocks = tree_blocks(tree, tree.conditionals(4.0 * (alpha or 1.0)))
    start = Circuit(tree.vtree, tuple(blocks)).with_schema(data.schema)
    options: Any = {"X": data, "iterations": EM_ITERATIONS, "tolerance": EM_TOLERANCE}
    return list(em(start, **options, pseudocount=beta, progress=False).blocks)
