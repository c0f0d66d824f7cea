"""Hidden Chow-Liu trees: a tree of hidden variables, each with one observed variable below it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, sqrt
from typing import Any

import numpy as np

from expectedkernels.arrays import RngLike, RowsLike, as_generator, require_memory
from expectedkernels.checks import DataError, check_callback, check_count, check_real, progress_bar
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.inputs import Input, Table
from expectedkernels.data.chunks import StreamLike, WeightsLike, is_stream
from expectedkernels.engine.blocks import Inner
from expectedkernels.learning.chow_liu import Forest, tree_of
from expectedkernels.learning.em import Phase, checked_steps, fit, normalized, valid_rows
from expectedkernels.learning.minibatch import circuit_of
from expectedkernels.learning.training_data import (
    MAX_STATES,
    MISSING,
    Data,
    FloatArray,
    PairCounts,
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
    in_chunks = is_stream(X)
    if in_chunks and (X_valid is not None or restarts > 1):
        what = "'X_valid'" if X_valid is not None else "'restarts'"
        raise DataError(
            f"With data in chunks {name} takes no {what}. Leave it out, or give the rows as "
            "an array."
        )
    generator, needed = as_generator(rng), f"{name} needs at least one row of data"
    if start is not None:
        start = normalized(start, name)
        data, valid = Data(start.schema, X, sample_weight, needed), valid_rows(start, X_valid)
    else:
        options = cardinalities, sample_weight, MAX_STATES, name, needed
        data, beside, complete = read_data(X, X_valid, *options)
        valid = None if beside is None else beside.held
        counts = data.pair_counts(complete) if in_chunks else grouped_counts(data)
        forest = tree_of(counts, alpha).forest

    def begin() -> Circuit:
        if start is not None:
            return start
        cards: Any = data.schema.cardinalities
        return hidden_tree(forest, cards, n_latent, generator).with_schema(data.schema)

    phases = [Phase(EPOCHS if epochs is None else epochs, size, steps)]
    if batch_size == "auto" and not in_chunks:
        size = automatic_size(data.held.weights)
        if size < len(data.held.weights):
            n = AUTO_EPOCHS if epochs is None else epochs
            last = Phase(n - n // 3, size, AUTO_STEPS if step is None else steps)
            phases = [Phase(n // 3, None, (1.0, 1.0)), last]
    plain = in_chunks and all(x is None for x in (phases[0].size, device, dtype, step))
    best: Any = None
    for _ in range(restarts):
        found = fit(
            begin(),
            data,
            phases,
            beta,
            device=None if plain else device or "numpy",
            dtype=dtype,
            generator=generator,
            valid=valid,
            patience=patience,
            callback=callback,
            bar=progress_bar(sum(phase.n for phase in phases), "HCLT", not progress, "pass"),
        )
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
