"""Hidden Chow-Liu trees: a tree of hidden variables, each with one observed variable below it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil, inf, sqrt
from time import perf_counter
from typing import Any

import numpy as np

from expectedkernels.arrays import RngLike, RowsLike, as_generator, require_memory
from expectedkernels.checks import DataError, check_callback, check_count, check_real, progress_bar
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.inputs import Input, Table
from expectedkernels.data.chunks import StreamLike, WeightsLike, is_stream
from expectedkernels.data.evidence import Evidence
from expectedkernels.engine.blocks import Inner
from expectedkernels.learning.chow_liu import Forest, rooted, spanning_edges
from expectedkernels.learning.em import checked_steps, em, normalized, rows_for, told, wide_counts
from expectedkernels.learning.minibatch import (
    Trained,
    circuit_of,
    epochs as passes,
    mean_log_likelihood,
    start_of,
)
from expectedkernels.learning.training_data import (
    MAX_STATES,
    MISSING,
    Data,
    FloatArray,
    IntArray,
    PairCounts,
    Rows,
    mutual_information,
    read_chunks,
    read_data,
)
from expectedkernels.vtree import Vtree

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
        States coded as integers 0, 1, 2, ...; NaN for missing values, which are summed out. Data in
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
        To go on from, with its tree and weights, in the place of a new one: what `callback` kept,
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
        Called after every pass with the circuit of now, on the host, and its mean log-likelihood
        (of `X_valid`, or as it was found in the pass): to keep it, say by
        ``callback=lambda p, mean: ek.io.save(p, "so_far.npz")``.
    progress : bool
        Whether to show a bar with the mean log-likelihood, in nats and in bits for one variable,
        and rows per second (only on a terminal).

    Returns
    -------
    Circuit
        Normalised, on the host.

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
    steps = checked_steps(name, size, step)
    if is_stream(X):
        if X_valid is not None or restarts > 1:
            what = "'X_valid'" if X_valid is not None else "'restarts'"
            raise DataError(
                f"With data in chunks {name} takes no {what}. Leave it out, or give the rows as "
                "an array."
            )
        stream = read_chunks(X, cardinalities, sample_weight, MAX_STATES, name)
        generator = as_generator(rng)
        if start is None:
            forest = tree_of(stream.pair_counts(), alpha)
            start = stream.named(hidden_tree(forest, stream.cardinalities, n_latent, generator))
        return em(
            start,
            X,
            EPOCHS if epochs is None else epochs,
            pseudocount=beta,
            sample_weight=sample_weight,
            batch_size=size,
            step=step,
            device=device,
            dtype=dtype,
            rng=generator,
            callback=callback,
            progress=progress,
        )
    generator = as_generator(rng)
    if start is not None:
        start = normalized(start, name)
        train, mean_weight = rows_for(start, X, sample_weight)
        needs = "X_valid must have at least one row, or be None"
        valid = None if X_valid is None else rows_for(start, X_valid, None, needs)[0]
    else:
        data = read_data(X, X_valid, cardinalities, sample_weight)
        train, valid = _rows(data, 0), _rows(data, 1) if len(data.weights) > 1 else None
        mean_weight = data.mean_weight
        if len(train.weights) == 0:
            raise DataError(f"{name} needs at least one row of data. Got none.")
        forest = tree_of(PairCounts(*grouped(*data.train, data.cardinalities)), alpha)
    n = len(train.weights)
    size = automatic_size(train.weights) if batch_size == "auto" else min(size or n, n)
    is_auto = batch_size == "auto" and size < n
    epochs = (AUTO_EPOCHS if is_auto else EPOCHS) if epochs is None else epochs
    first = epochs // 3 if is_auto else 0
    steps = AUTO_STEPS if is_auto and step is None else steps
    phases = (first, n, (1.0, 1.0)), (epochs - first, size, steps)
    beta *= mean_weight
    largest = size * float(train.weights.max())
    best: Any = None
    highest = -inf
    with progress_bar(restarts * epochs, "HCLT", not progress, "pass") as bar:
        for _ in range(restarts):
            begin = start
            if begin is None:
                begin = data.named(hidden_tree(forest, data.cardinalities, n_latent, generator))
            trained = start_of(begin, device, dtype, beta * size / n, largest, wide_counts)
            every = passes(trained, train, phases, beta, generator)
            found, reached = _kept(trained, every, first, valid, patience, callback, bar, n)
            if best is None or reached > highest:
                best, highest = found, reached
    return circuit_of(best)


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


def _kept(
    best: Trained,
    every: Iterable[tuple[Trained, float]],
    first: int,
    valid: Rows | None,
    patience: int,
    callback: Callable[[Circuit, float], object] | None,
    bar: Any,
    n_rows: int,
) -> tuple[Trained, float]:
    """The circuit to be kept of those after every pass, and its mean log-likelihood.

    With pass `first` batches begin, and likelihoods may fall: `patience` counts from there anew.
    """
    highest, before, waited, n_variables = -inf, -inf, 0, best.circuit.n_variables
    begin = perf_counter()
    for i, (found, mean) in enumerate(every):
        rows = (i + 1) * n_rows, perf_counter() - begin
        bar.set_postfix_str(told(mean, n_variables, *rows), refresh=False)
        bar.update()
        reached = mean
        if valid is not None:
            reached = mean_log_likelihood(found, valid.evidence, valid.weights)
        if callback is not None:
            callback(circuit_of(found), reached)
        waited += 1
        if valid is None or i == first or reached > before:
            before, waited = reached, 0
        if valid is None or reached > highest:
            best, highest = found, reached
        if waited == patience:
            break
    return best, highest


def _rows(data: Data, number: int) -> Rows:
    """The rows of one set that have weights, and their numbers in it."""
    kept = np.flatnonzero(data.weights[number])
    states = np.where(data.states[kept] == MISSING, np.nan, data.states[kept])
    evidence = Evidence(data.cardinalities, states)
    return Rows(evidence, data.weights[number, kept], kept - number * data.n_rows)


def tree_of(counts: PairCounts, alpha: float) -> Forest:
    """The tree of pair counts with the largest mutual information."""
    weights = mutual_information(counts, alpha)
    return rooted(len(weights), spanning_edges(weights))


def hidden_tree(
    forest: Forest, cardinalities: Sequence[int], n_latent: int, generator: Any
) -> Circuit:
    """The circuit of the hidden tree, with random weights."""
    entries = n_latent * (n_latent * sum(v >= 0 for v in forest.parent) + sum(cardinalities))
    require_memory(8.0 * entries, f"A tree with n_latent={n_latent}", "Take fewer hidden states.")
    nodes: list[tuple[int, int, int]] = []
    blocks: list[Input | Inner] = []
    waiting: list[int] = []
    for v, joined in _in_postorder(forest):
        # a hidden variable is summed out where all that depends on it has been joined
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
    return Circuit(vtree, tuple(blocks))


def grouped(
    states: IntArray, weights: FloatArray, cardinalities: Sequence[int]
) -> tuple[IntArray, list[int], FloatArray]:
    """States and weights of rows as mutual information takes them, with numbers of states.

    Where variables have very many states, neighbours are put together in groups of about equal
    counts, and rows are taken evenly: a tree needs no more.
    """
    n, d = states.shape
    if sum(cardinalities) <= MOST_STATES:
        return states, list(cardinalities), weights
    kept = np.linspace(0, n - 1, min(n, MOST_ROWS)).astype(np.intp)
    most = max(2, MOST_STATES // d)
    found, cards = np.empty((len(kept), d), dtype=states.dtype), []
    for v, card in enumerate(cardinalities):
        column = states[kept, v]
        group = np.arange(card)
        if card > most:
            seen = np.bincount(column[column != MISSING], minlength=card)
            before = np.cumsum(seen) - seen
            group = (before * most // max(1, int(seen.sum()))).astype(np.intp)
            group = np.unique(group, return_inverse=True)[1]
        found[:, v] = np.where(column == MISSING, MISSING, group[column])
        cards.append(int(group.max()) + 1)
    return found, cards, weights[kept]


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
