"""Chow-Liu trees: the best tree of pairwise dependencies, as a deterministic circuit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np

from expectedkernels.arrays import RowsLike
from expectedkernels.checks import check_choice, check_real, removed
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.inputs import Input, Table
from expectedkernels.circuits.streams import StreamLike, WeightsLike, is_stream
from expectedkernels.engine.blocks import Inner, inner
from expectedkernels.errors import CircuitError
from expectedkernels.learning.data import (
    MAX_STATES,
    MISSING,
    Data,
    FloatArray,
    IntArray,
    read_data,
)
from expectedkernels.learning.em import em
from expectedkernels.learning.orders import column_ranks
from expectedkernels.learning.statistics import PairCounts, mutual_information, shares
from expectedkernels.learning.streams import DataInChunks, read_chunks
from expectedkernels.learning.trees import (
    Forest,
    TreeVtree,
    decided_edges,
    rooted,
    spanning_edges,
    tree_vtree,
)

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
    data: Data | DataInChunks
    if is_stream(X):
        data = read_chunks(X, cardinalities, sample_weight, max_states, name)
        tree = tree_of(data.pair_counts(), alpha, root)
    else:
        data = read_data(X, None, cardinalities, sample_weight, max_states)
        tree = chow_liu_tree(data.train[0], data.cardinalities, data.train[1], alpha, root=root)
    if parameters == "cpt":
        blocks = tree_blocks(tree, tree.conditionals(alpha))
    elif isinstance(data, Data):
        blocks = flow_blocks(tree, *data.train, beta, alpha)
    elif data.is_complete:
        blocks = tree_blocks(tree, tree.from_counts(beta * data.mean_weight))
    else:
        blocks = _fitted_blocks(data.named(_start(tree, alpha)), X, beta, sample_weight)
    return data.named(Circuit.from_blocks(tree.vtree, blocks))


@dataclass(frozen=True)
class ChowLiuTree:
    """A tree of variables with the statistics it was made of."""

    forest: Forest
    layout: TreeVtree
    counts: PairCounts

    @property
    def vtree(self) -> Any:
        """The vtree of the tree."""
        return self.layout.vtree

    @cached_property
    def cardinalities(self) -> list[int]:
        """The number of states of every variable."""
        return [int(c) for c in self.counts.cardinalities]

    def contexts(self, variable: int) -> int:
        """The number of states of a variable's parent, 1 for roots."""
        parent = self.forest.parent[variable]
        return 1 if parent < 0 else int(self.counts.cardinalities[parent])

    def conditionals(self, alpha: float) -> list[FloatArray]:
        """For every variable its probabilities, one row per state of its parent.

        They are smoothed as the mutual information is: 4 alpha counts for every pair.
        """
        return [shares(n, 4.0 * alpha / len(n)) for n in self._tables()]

    def from_counts(self, beta: float) -> list[FloatArray]:
        """For every variable its probabilities with a pseudocount, one row per parent's state."""
        return [shares(n, beta) for n in self._tables()]

    def _tables(self) -> Iterator[FloatArray]:
        """For every variable the counts of its states, one row per state of its parent."""
        for v, parent in enumerate(self.forest.parent):
            yield self.counts.single(v)[None, :] if parent < 0 else self.counts.pair(parent, v)


def chow_liu_tree(
    states: IntArray,
    cardinalities: Sequence[int],
    weights: FloatArray,
    alpha: float,
    *,
    root: Any = "center",
    ranks: Any = None,
) -> ChowLiuTree:
    """The tree with the largest total mutual information, rooted, and its vtree.

    Of trees that are equally good it is the one of the edges with the smallest ranks, by default
    the numbers of the variables. With ranks, edges are left out where variables of equal ranks
    leave a choice: then the distribution does not depend on the order of the variables.
    """
    counts = PairCounts(states, cardinalities, weights)
    return tree_of(counts, alpha, root, ranks)


def tree_of(
    counts: PairCounts,
    alpha: float,
    root: Any = "center",
    ranks: Any = None,
) -> ChowLiuTree:
    """The tree of pair counts."""
    name, n = "learn_chow_liu", len(counts.cardinalities)
    is_variable = isinstance(root, Integral) and not isinstance(root, bool)
    is_name = isinstance(root, str) and root == "center"
    if not (root in range(n) if is_variable else is_name):
        raise CircuitError(
            f"The 'root' parameter of {name} must be 'center' or a variable in 0..{n - 1}. "
            f"Got {root!r} instead."
        )
    information = mutual_information(counts, alpha)
    edges = spanning_edges(information) if ranks is None else decided_edges(information, ranks)
    forest = rooted(n, edges, root, ranks)
    return ChowLiuTree(forest, tree_vtree(forest), counts)


def content_tree(
    X: Any, cardinalities: Sequence[int], names: Sequence[str] | None, pseudocount: float = 1.0
) -> Circuit:
    """A Chow-Liu tree that does not depend on the order of rows and columns; not minimised.

    Ties are broken by the contents of columns, then by names; see `chow_liu_tree`.

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
    states = np.where(np.isnan(X), MISSING, X).astype(np.int64)
    weights = np.ones(len(states))
    tree = chow_liu_tree(states, cardinalities, weights, 1.0, ranks=column_ranks(X, names))
    blocks = flow_blocks(tree, states, weights, pseudocount, 1.0)
    return Circuit(tree.vtree, tuple(blocks))


def tree_blocks(tree: ChowLiuTree, conditionals: Sequence[FloatArray]) -> list[Input | Inner]:
    """The blocks of a tree's circuit: at every node one unit per state of the parent variable."""
    vtree = tree.vtree
    blocks: list[Input | Inner] = []
    for node, v in enumerate(tree.layout.top):
        cardinality = tree.cardinalities[v]
        if vtree.is_leaf(node):
            is_parent = bool(tree.forest.children[v])
            blocks.append(Table(np.eye(cardinality) if is_parent else conditionals[v]))
        elif tree.layout.decides[node]:
            every = np.arange(cardinality)
            blocks.append(inner(every, every, conditionals[v], cardinality, cardinality))
        else:
            n = tree.contexts(v)
            blocks.append(Inner(n, n, None, None, None))
    return blocks


def flow_blocks(
    tree: ChowLiuTree, states: IntArray, weights: FloatArray, beta: float, alpha: float
) -> list[Input | Inner]:
    """The blocks of a tree's circuit with weights from flows, expected ones if values are missing.

    Not minimised, so that every unit keeps its place.
    """
    scale = float(weights.mean()) if len(weights) else 1.0
    if not (states == MISSING).any():
        return tree_blocks(tree, tree.from_counts(beta * scale))
    X = np.where(states == MISSING, np.nan, states)
    return _fitted_blocks(_start(tree, alpha), X, beta, weights)


def _start(tree: ChowLiuTree, alpha: float) -> Circuit:
    """The circuit of a tree that EM starts from."""
    return Circuit(tree.vtree, tuple(tree_blocks(tree, tree.conditionals(alpha or 1.0))))


def _fitted_blocks(start: Circuit, X: Any, beta: float, weights: Any = None) -> list[Input | Inner]:
    fitted = em(
        start,
        X,
        EM_ITERATIONS,
        pseudocount=beta,
        sample_weight=weights,
        tolerance=EM_TOLERANCE,
        progress=False,
    )
    return list(fitted.blocks)
