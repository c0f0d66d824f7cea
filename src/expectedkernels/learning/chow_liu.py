"""Chow-Liu trees, and hidden Chow-Liu trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, sqrt
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import minimum_spanning_tree

from expectedkernels import checks
from expectedkernels.arrays import RngLike, RowsLike, as_generator, column_ranks, require_memory
from expectedkernels.checks import CircuitError, DataError, check_callback, check_count, check_real
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.inputs import Input, Table
from expectedkernels.data.chunks import StreamLike, WeightsLike, is_stream
from expectedkernels.data.schema import Schema
from expectedkernels.engine.blocks import Inner, inner
from expectedkernels.learning import em, training_data
from expectedkernels.learning.minibatch import circuit_of
from expectedkernels.learning.training_data import MAX_STATES, MISSING, Data, FloatArray, PairCounts
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
    """The edges that all maximum spanning trees have, of edges that are distinguished by ranks.

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
    n: int, edges: Sequence[tuple[int, int]], root: Any = "center", ranks: Any = None
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
    parent: dict[int, int] = {}
    for start in range(n):
        if start in parent:
            continue
        if root in _search(near, start):
            top = root
        else:
            while len(middle := _middle(near, start)) == 2 and len({ranks[v] for v in middle}) == 1:
                near[middle[0]].remove(middle[1])
                near[middle[1]].remove(middle[0])
            top = min(middle, key=lambda v: ranks[v])
        parent |= _search(near, top)
    return Forest(tuple(parent[v] for v in range(n)))


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


@checks.removed(
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
    checks.check_choice(name, "parameters", parameters, ("flows", "cpt"))
    options = cardinalities, sample_weight, max_states, name
    data, _, complete = training_data.read_data(X, None, *options)
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
        return [training_data.fit_weights(n, beta / len(n) if per_pair else beta) for n in tables]


def tree_of(
    counts: PairCounts, alpha: float, root: Any = "center", ranks: Any = None
) -> ChowLiuTree:
    """The tree with the largest total mutual information, rooted, and its vtree.

    Of trees that are equally good it is the one of the edges with the smallest ranks, by default
    the numbers of the variables. With ranks, edges are left out where variables of equal ranks
    leave a choice: then the distribution does not depend on the order of the variables.
    """
    n = len(counts.cardinalities)
    if root != "center" and not (checks.is_int(root) and root in range(n)):
        raise CircuitError(
            "The 'root' parameter of learn_chow_liu must be 'center' or a variable in "
            f"0..{n - 1}. Got {root!r} instead."
        )
    information = training_data.mutual_information(counts, alpha)
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
    return Circuit(tree.vtree, tuple(flow_blocks(tree, data, pseudocount, 1.0, complete)))


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
    return list(em.em(start, **options, pseudocount=beta, progress=False).blocks)


SPREAD = 4.0
"""Weights start in proportion to exp(-SPREAD u), u uniform: nearly equal ones learn less."""
MOST_STATES, MOST_ROWS = 4096, 20_000
"""How many states all variables together may have, and how many rows there may be, before states
are put together and rows left out for finding the tree."""
FEWEST_ROWS = 100
"""With fewer rows `batch_size="auto"` is the full batch."""
EPOCHS, AUTO_EPOCHS = 50, 15
"""How many passes over the data there are, and how many with batches of the automatic size."""
AUTO_STEPS = 0.5, 0.05
"""The first and the last step with batches of the automatic size."""


def learn_hclt(
    X: RowsLike | StreamLike,
    n_latent: int = 16,
    *,
    X_valid: RowsLike | None = None,
    batch_size: int | str | None = "auto",
    epochs: int | None = None,
    pseudocount: float = 0.1,
    step: float | tuple[float, float] | None = None,
    patience: int = 5,
    cardinalities: int | Sequence[int] | None = None,
    sample_weight: WeightsLike | None = None,
    alpha: float = 1.0,
    start: Circuit | None = None,
    restarts: int = 1,
    device: str | None = None,
    dtype: str | None = None,
    rng: RngLike = None,
    callback: Callable[[Circuit, float], object] | None = None,
    progress: bool = True,
) -> Circuit:
    """The hidden Chow-Liu tree fitted to data by EM, as a dense circuit.

    The tree is that of `learn_chow_liu`. Every variable gets a hidden one with `n_latent` states;
    hidden variables depend on each other along the tree, and every observed one on its own.

    Parameters
    ----------
    X : array of shape (n, variables), data frame, or data in chunks
        States coded as integers 0, 1, 2, ...; NaN for missing values. Data in
        chunks (see `learn_chow_liu`) are read twice, and once more for every pass of EM over all.
    n_latent : int
        The number of states of hidden variables.
    X_valid : array or data frame, optional
        The weights with the largest likelihood of these rows are kept, and learning ends when
        that has not become larger for some time.
    batch_size : "auto", int or None
        How many rows there are between two updates, of one chunk if data come in chunks. None:
        all rows (the full batch). "auto": all rows in the first third of the passes, then sqrt(n)
        / 2 batches of n rows; but all rows throughout if n < 100, or if data come in chunks. Rows
        with weights w count as sum(w) / max(w) rows.
    epochs : int, optional
        How many passes over the data there are at most. Default: 15 with batches of the automatic
        size, otherwise 50.
    pseudocount : float
        How many rows' worth of counts every sum unit and table gets in advance, spread evenly.
    step : float, or pair of floats, optional
        With batches, how far weights move towards the shares of a batch: see `em`. Default: from
        0.5 to 0.05 with batches of the automatic size, from 1 to 0.05 with others.
    patience : int
        After how many passes without a better likelihood of `X_valid` learning ends. Passes in
        batches of the automatic size are compared with one another only: likelihoods may fall
        when batches begin.
    cardinalities : int or sequence of int, optional
        The number of states of every variable. Default: one more than the largest code, and at
        least two.
    sample_weight : array of shape (n,), str or callable, optional
        How much every row counts. The pseudocount is multiplied by the mean weight. With data in
        chunks, the name of a column of data frames, or a function from a chunk to the weights of
        its rows.
    alpha : float
        Smoothing of the mutual information: every pair of variables gets 4 alpha counts in
        advance, spread evenly over its cells.
    start : Circuit, optional
        To resume from, with its tree and weights, in the place of a new one: what `callback` kept,
        or another circuit over these variables. `n_latent`, `alpha` and `cardinalities` do not
        matter then, and `restarts` differ in the order of rows alone.
    restarts : int
        How many times to begin, from other weights each time. What is kept has the largest
        likelihood, of `X_valid` if there is one, and otherwise of the data.
    device : str, optional
        Where to learn: "torch", "cuda", or another device of torch. Default: in NumPy.
    dtype : {"float32", "float64"}, optional
        The type of numbers on a device. Default: "float64".
    rng : int, Generator or None
        For the weights at the start, and the order of rows.
    callback : callable, optional
        Called after every pass with the current circuit, on the CPU, and its mean log-likelihood
        (of `X_valid`, or as it was found in the pass): to keep it, say by
        ``callback=lambda p, mean: ek.io.save(p, "so_far.npz")``.
    progress : bool
        Whether to show a bar with the mean log-likelihood, in nats and in bits for one variable,
        and rows per second (only on a terminal).

    Returns
    -------
    Circuit
        Normalised, on the CPU.

    Raises
    ------
    DataError
        If the data are not states coded as integers, or there are none.

    Notes
    -----
    A pass costs O(n d K (K + 1)) for n rows of d variables and K = `n_latent`.

    With batches of the automatic size, ten passes make more updates than fifty over the full batch,
    and the small steps at the end average over many rows. Passes over the full batch come first
    because batches that small, from random weights, can end in worse optima.

    References
    ----------
    Liu, A. and Van den Broeck, G. (2021). Tractable regularization of probabilistic circuits.
    NeurIPS.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> X = [[0, 0, 1], [0, 0, 0], [1, 1, 1], [1, 1, 0]] * 5
    >>> p = learn_hclt(X, 2, epochs=100, pseudocount=0.0, rng=0, progress=False)
    >>> round(float(p.log_likelihood(X).mean()), 3)
    -1.386
    """
    name = "learn_hclt"
    check_count(name, "n_latent", n_latent, 1)
    check_count(name, "epochs", epochs, none=True)
    check_count(name, "patience", patience, 1)
    check_count(name, "restarts", restarts, 1)
    check_callback(name, callback, "two arguments")
    beta, alpha = check_real(name, "pseudocount", pseudocount), check_real(name, "alpha", alpha)
    check_count(name, "batch_size", batch_size, 1, none=True, auto=True)
    size: Any = None if batch_size == "auto" else batch_size
    steps = em.checked_steps(name, size, step)
    in_chunks = is_stream(X)
    if in_chunks and (X_valid is not None or restarts > 1):
        what = "'X_valid'" if X_valid is not None else "'restarts'"
        raise DataError(
            f"With data in chunks {name} takes no {what}. Leave it out, or give the rows as "
            "an array."
        )
    generator, needed = as_generator(rng), f"{name} needs at least one row of data"
    if start is not None:
        start = em.normalized(start, name)
        data, valid = Data(start.schema, X, sample_weight, needed), em.valid_rows(start, X_valid)
    else:
        options = cardinalities, sample_weight, MAX_STATES, name, needed
        data, beside, complete = training_data.read_data(X, X_valid, *options)
        valid = None if beside is None else beside.held
        counts = data.pair_counts(complete) if in_chunks else grouped_counts(data)
        forest = tree_of(counts, alpha).forest

    phases = [em.Phase(EPOCHS if epochs is None else epochs, size, steps)]
    if batch_size == "auto" and not in_chunks:
        size = automatic_size(data.held.weights)
        if size < len(data.held.weights):
            n = AUTO_EPOCHS if epochs is None else epochs
            last = em.Phase(n - n // 3, size, AUTO_STEPS if step is None else steps)
            phases = [em.Phase(n // 3, None, (1.0, 1.0)), last]
    plain = in_chunks and all(x is None for x in (phases[0].size, device, dtype, step))
    best: Any = None
    for _ in range(restarts):
        first = hidden_tree(forest, data.schema, n_latent, generator) if start is None else start
        n = sum(phase.n for phase in phases)
        if plain:
            states: Any = em.full_passes(first, data, n, beta)
        else:
            states = em.epochs(first, data, phases, beta, (device or "numpy", dtype), generator)
        bar = checks.progress_bar(n, "HCLT", not progress, "pass")
        found = em.fit(first, data, states, bar, valid, callback, patience=patience)
        if best is None or found.score > best.score:
            best = found
        if found.interrupted:
            break
    return circuit_of(best.state)


def automatic_size(weights: FloatArray) -> int:
    """How many rows there are between two updates, given the weights of all rows.

    Batches have about equal sizes, and larger ones if single rows weigh much.

    Examples
    --------
    >>> automatic_size(np.ones(400)), automatic_size(np.ones(50))
    (40, 50)
    """
    n = float((weights / weights.max()).sum())
    return len(weights) if n < FEWEST_ROWS else ceil(len(weights) / (sqrt(n) // 2))


def hidden_tree(forest: Forest, schema: Schema, n_latent: int, generator: Any) -> Circuit:
    """The circuit of the hidden tree, with random weights."""
    cardinalities: Any = schema.cardinalities
    entries = n_latent * (n_latent * sum(v >= 0 for v in forest.parent) + sum(cardinalities))
    require_memory(8.0 * entries, f"A tree with n_latent={n_latent}", "Take fewer hidden states.")
    nodes: list[tuple[int, int, int]] = []
    blocks: list[Input | Inner] = []
    waiting: list[int] = []
    for v, joined in _in_postorder(forest):
        # a hidden variable is marginalised where all that depends on it has been joined
        n_units = 1 if forest.parent[v] < 0 else n_latent
        if joined == 0:
            waiting.append(len(nodes))
            nodes.append((-1, -1, v))
            n_units = n_latent if forest.children[v] else n_units
            blocks.append(Table(_random(n_units, cardinalities[v], generator)))
            continue
        right, left = waiting.pop(), waiting.pop()
        waiting.append(len(nodes))
        nodes.append((left, right, -1))
        if joined < len(forest.children[v]):
            blocks.append(Inner(n_latent, n_latent, None, None, None))
        else:
            weights = _random(n_units, n_latent, generator)
            blocks.append(Inner(n_latent, n_units, None, None, weights))
    vtree = Vtree(*map(list, zip(*nodes, strict=True)))
    return Circuit(vtree, tuple(blocks)).with_schema(schema)


def grouped_counts(data: Data) -> PairCounts:
    """The counts of pairs that mutual information takes.

    Where variables have very many states, neighbours are put together in groups of about equal
    counts, and rows are taken evenly: a tree needs no more.
    """
    states, weights = data.held.states, data.held.weights
    cardinalities: Any = list(data.schema.cardinalities)
    if sum(cardinalities) > MOST_STATES:
        kept = np.linspace(0, len(states) - 1, min(len(states), MOST_ROWS)).astype(np.intp)
        states, weights = states[kept], weights[kept]
        most = max(2, MOST_STATES // len(cardinalities))
        for v, card in enumerate(cardinalities):
            if card > most:
                column = states[:, v]
                seen = np.bincount(column[column != MISSING], minlength=card)
                before = np.cumsum(seen) - seen
                group = np.unique(before * most // max(1, seen.sum()), return_inverse=True)[1]
                states[:, v] = np.where(column == MISSING, MISSING, group[column])
                cardinalities[v] = int(group.max()) + 1
    return PairCounts(states, cardinalities, weights)


def _random(n_units: int, width: int, generator: Any) -> FloatArray:
    """Rows of random weights that sum to one."""
    weights = np.exp(-SPREAD * generator.random((n_units, width)))
    return weights / weights.sum(axis=1, keepdims=True)


def _in_postorder(forest: Forest) -> list[tuple[int, int]]:
    """Vtree nodes from the leaves up: every variable, and how many of its children are joined.

    The child whose part is tallest is joined last, which keeps the vtree low.
    """
    order: list[int] = list(forest.roots)
    for v in order:
        order += forest.children[v]
    height, parts = [0] * len(order), {v: [(v, 0)] for v in order}
    for v in reversed(order):
        for i, child in enumerate(sorted(forest.children[v], key=height.__getitem__)):
            parts[v] += [*parts.pop(child), (v, i + 1)]
            height[v] = max(height[v], height[child]) + 1
    return parts[forest.roots[0]]
