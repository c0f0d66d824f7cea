"""EM for circuits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, repeat
from math import frexp, inf, log
from operator import add
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from expectedkernels import arrays, checks
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.conditioning import certain, evidence_chunks, layers_of, observed
from expectedkernels.circuits.graph import Unit
from expectedkernels.circuits.inputs import Real
from expectedkernels.circuits.operands import ENTRY, LIKELIHOODS, CircuitOperand, JointPass
from expectedkernels.circuits.queries import conditional_units, refuse_signed
from expectedkernels.data.chunks import StreamLike, WeightsLike, naming
from expectedkernels.data.evidence import Column, Evidence, EvidenceLike
from expectedkernels.engine.layers import weight_cost
from expectedkernels.engine.nodes import NodePass
from expectedkernels.engine.operations import TensorLayers, Workspace
from expectedkernels.engine.passes import forward, weight_dots
from expectedkernels.engine.scaled import safe_log
from expectedkernels.learning import minibatch, training_data
from expectedkernels.learning.minibatch import CAPTURED, Batch, EMState, circuit_of, stepped
from expectedkernels.learning.training_data import VALID, Data, Result, Rows, Step, fit_weights

NEEDED = "EM needs at least one row of data"
CHUNK = 2**22
"""How many shares of flow along edges are computed at once."""
GATHER_ABOVE = 64
"""Sparse weights with less than one entry in so many are worth looking up edge by edge: a matrix
product is that much faster per entry."""


@dataclass(eq=False)
class Flow:
    """How often every unit of one vtree node is expected to take part.

    Attributes
    ----------
    node : int
    flow : array of shape (units, patterns)
        The posterior probability that a unit is used when the circuit is read as a generative
        process, summed over the weighted rows of each pattern.
    operand : CircuitOperand
    nodes : NodePass
    values : list of ScaledArray
        Of all nodes.
    """

    node: int
    flow: Any
    operand: CircuitOperand
    nodes: NodePass
    values: list[Any]

    @property
    def weights(self) -> Any:
        """The weights of the node's sums, None if it has none."""
        return self.operand.circuit.blocks[self.node].weights

    @property
    def logs(self) -> Any:
        """The logs of the values of the units, (units, patterns)."""
        value = self.values[self.node]
        if self._is_log:
            return value.data
        logs = safe_log(value.data)
        return logs if value.scale is None else logs + value.scale

    @property
    def _is_log(self) -> bool:
        return self.nodes.mode == "logs"

    @cached_property
    def _inputs(self) -> Any:
        vtree = self.operand.circuit.vtree
        children = (self.values[int(x[self.node])] for x in (vtree.left, vtree.right))
        return self.nodes.products(self.node, *children)

    @cached_property
    def _share(self) -> Any:
        """Flow over value of every unit, on the scale of the inputs."""
        inputs, value = self._inputs, self.values[self.node]
        same = value.scale is inputs.scale or (
            inputs.scale is not None and np.array_equal(value.scale, inputs.scale)
        )
        sums = value.data if same else self.weights @ inputs.data
        return np.divide(self.flow, sums, out=np.zeros_like(self.flow), where=sums != 0)

    def below(self, side: str) -> Flow:
        """What the products send to the left (or right) child."""
        circuit, found = self.operand.circuit, self.operand.batch
        child = int(getattr(circuit.vtree, side)[self.node])
        index = getattr(circuit.blocks[self.node], side)
        step = getattr(found, side)[self.node]
        sent = self.products
        if index is not None:
            sent = _incidence(index, circuit.blocks[child].n_units).T @ sent
        if step is not None:
            sent = sent @ _incidence(step, found.count[child])  # type: ignore[union-attr]
        return Flow(child, sent, self.operand, self.nodes, self.values)

    @cached_property
    def products(self) -> Any:
        """The flow of the product units, (products, patterns)."""
        if self.weights is None:
            return self.flow
        if self._is_log:
            return self._edge_by_edge[0]
        H = self._inputs.data
        with np.errstate(over="ignore", invalid="ignore"):  # where the product is zero
            return np.where(H != 0, (self.weights.T @ self._share) * H, 0.0)

    @property
    def edges(self) -> Any:
        """The flow through every weight, summed over all rows, as the weights are stored.

        A matrix for dense weights, one number per stored entry for sparse ones.
        """
        if self._is_log:
            return self._edge_by_edge[1]
        weights, H = self.weights, self._inputs.data
        if not sparse.issparse(weights):
            with np.errstate(over="ignore", invalid="ignore"):  # where there is no edge
                return np.where(weights != 0, weights * (self._share @ H.T), 0.0)
        unit = np.repeat(np.arange(weights.shape[0]), np.diff(weights.indptr))
        if np.prod(weights.shape) <= GATHER_ABOVE * weights.nnz:
            with np.errstate(over="ignore"):
                return weights.data * (self._share @ H.T)[unit, weights.indices]
        step = max(1, CHUNK // max(1, H.shape[1]))
        parts = [
            np.einsum("en,en->e", self._share[unit[some]], H[weights.indices[some]])
            for some in arrays.spans(weights.nnz, step)
        ]
        return weights.data * np.concatenate(parts)

    @cached_property
    def _edge_by_edge(self) -> tuple[Any, Any]:
        """The flow of products and of weights where values are out of range for plain numbers."""
        csr = sparse.csr_array(self.weights)
        unit = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
        sums, H = self.values[self.node].data, self._inputs.data
        to_products = _incidence(csr.indices, csr.shape[1]).T
        with np.errstate(divide="ignore"):
            logs = np.log(np.abs(csr.data))[:, None]
        total, products = np.zeros(csr.nnz), []
        for few in arrays.spans(self.flow.shape[1], max(1, CHUNK // max(1, csr.nnz))):
            below = sums[unit, few]
            with np.errstate(invalid="ignore"):
                share = np.exp(logs + H[csr.indices, few] - below)
            share = np.where(below > -inf, share, 0.0) * self.flow[unit, few]
            total += share.sum(axis=1)
            products.append(to_products @ share)
        if not sparse.issparse(self.weights):
            total = sparse.csr_array((total, csr.indices, csr.indptr), csr.shape).toarray()
        return np.concatenate(products, axis=1), total


def flows(circuit: Circuit, evidence: Evidence, weights: Any) -> Iterator[Flow]:
    """From the root down, how often every unit is expected to take part in weighted rows.

    Rows that look alike at a node, its patterns, are summed up. That is all that counts of edges
    need, and costs as little as a likelihood. Circuits with several roots take a weight for each,
    (rows, roots).
    """
    todo = [_at_root(circuit, evidence, weights)]
    while todo:
        here = todo.pop()
        yield here
        if not circuit.vtree.is_leaf(here.node):
            todo += [here.below("left"), here.below("right")]


def flow_at(circuit: Circuit, evidence: Evidence, weights: Any, node: int) -> tuple[Flow, Any]:
    """What `flows` gives for one node, and a row of every pattern there."""
    here = _at_root(circuit, evidence, weights)
    patterns: Any = here.operand.batch
    place = np.arange(evidence.n_rows) if patterns.rows is None else patterns.rows
    while here.node != node:
        is_left = circuit.vtree.is_descendant(node, int(circuit.vtree.left[here.node]))
        side = "left" if is_left else "right"
        step = getattr(patterns, side)[here.node]
        here, place = here.below(side), place if step is None else step[place]
    return here, np.unique(place, return_index=True)[1]


def _at_root(circuit: Circuit, evidence: Evidence, weights: Any) -> Flow:
    operand = CircuitOperand(circuit, evidence)
    rows = operand.batch.rows  # type: ignore[union-attr]
    total: Any = np.asarray(weights, dtype=np.float64).reshape(len(weights), -1).T
    if rows is not None:
        total = np.stack([np.bincount(rows, column) for column in total])
    nodes, values = JointPass((operand,), LIKELIHOODS).node_values()
    return Flow(circuit.vtree.root, total, operand, nodes, values)


def _incidence(index: Any, n: int) -> sparse.csr_array:
    """The 0-1 matrix that adds up what products send to their inputs."""
    starts = np.arange(len(index) + 1)
    return sparse.csr_array((np.ones(len(index)), index, starts), (len(index), n))


PASSES = 4.0
"""How many times a likelihood the two passes and the counts take."""
NODE = 1.5e-4
"""Seconds that flows of patterns of rows take at every node, however few these are."""
SPARSE = 3.0
"""How many times longer patterns take than rows in layers, by entry, where weights are sparse."""
Counts = list[Any]
"""For every vtree node the expected counts of its parameters, None if it has none."""


def expected_counts(
    circuit: Circuit, rows: Rows, max_bytes: int = arrays.DEFAULT_MAX_BYTES
) -> tuple[float, Counts]:
    """The log-likelihood of the data, and how often every parameter is expected to be used.

    Counts come as the parameters do: one number per stored weight and per entry of a table. For
    normal inputs they are (weights, moments), the moments being the expected count of every
    component and of the first two powers of the distance from its mean. With several roots the
    weights of rows are (rows, roots).
    """
    if not _by_layers(circuit, rows):
        return pattern_counts(circuit, rows, max_bytes)
    total, counts = layer_counts(EMState(circuit, circuit.layers, 0.0), rows)
    by_node = circuit.layers.by_node(counts)
    return total, [None if found is None else (found,) for found in by_node]


def _by_layers(circuit: Circuit, rows: Rows) -> bool:
    """Whether rows are counted faster in layers, all nodes of one height at a time, than patterns.

    Layers are for discrete variables, one root, and weights that are not too small.
    """
    if rows.weights.ndim > 1 or None in circuit.cardinalities:
        return False
    n, entries = rows.evidence.n_rows, np.array([*map(_entries, circuit.blocks)])
    saved = NODE * circuit.vtree.n_nodes / (PASSES * ENTRY)
    if n * entries.sum() > saved:
        slower = [SPARSE if sparse.issparse(block.numbers) else 0.0 for block in circuit.blocks]
        if (n - np.multiply(slower, rows.evidence.patterns(circuit.vtree).count)) @ entries > saved:
            return False
    return layers_of(circuit) is not None


def _entries(block: Any) -> float:
    """What a block adds to `Layers.entries`, without layers."""
    return block.n_units + 2 * block.width + weight_cost(block.numbers)


def layer_counts(trained: EMState, rows: Rows, counts: Any = None) -> tuple[float, Any]:
    """The weighted sum of the log-likelihoods of rows, and the expected counts of all weights.

    These are one list, and added to others, if there are some. Rows that leave the range of
    numbers, or are impossible, are counted by patterns; those that leave the range of floats first
    in doubles.
    """
    layers, total = trained.layers, 0.0
    counts = arrays.namespace(layers.flat).zeros_like(layers.flat) if counts is None else counts
    if trained.floor and not isinstance(layers, TensorLayers) and layers.n_atoms > layers.n_units:
        # states that many are better looked up than written out
        return _add_lost(trained, rows, counts), counts
    work = Workspace(layers.like)
    for some, evidence in evidence_chunks(layers, rows.evidence):
        found = forward(layers, observed(trained.circuit, layers, evidence), work)
        own = rows.weights[some]
        logs = arrays.to_numpy(found.log_roots).reshape(-1)
        good = logs > -inf
        if bool(found.clamped_mark):
            good &= certain(found)
        if not good.all():
            lost, kept = np.flatnonzero(~good), np.flatnonzero(good)
            left = Rows(evidence.rows(lost), own[lost], rows.numbers[some][lost], len(lost))
            total += _add_lost(trained, left, counts)
            if not len(kept):
                continue
            own, logs = own[kept], logs[kept]
            found = forward(layers, observed(trained.circuit, layers, evidence.rows(kept)), work)
        _, dots = weight_dots(found, minibatch.sent_weights(own, found.values), work)
        counts += dots * layers.flat
        total += float(own @ logs)
    return total, counts


def _add_lost(trained: EMState, rows: Rows, counts: Any) -> float:
    """Add the counts of rows by other means; the weighted sum of their log-likelihoods."""
    layers = trained.layers
    if isinstance(layers, TensorLayers) and layers.is_single:
        in_double = layers.with_weights(layers.flat.double(), layers.floor or 0.0)
        total, found = layer_counts(replace(trained, layers=in_double), rows)
        counts += found
        return total
    total, by_node = pattern_counts(circuit_of(trained), rows)
    found = layers.from_nodes([None if found is None else found[0] for found in by_node])
    counts += arrays.as_like(found, counts)
    return total


def pattern_counts(
    circuit: Circuit, rows: Rows, max_bytes: int = arrays.DEFAULT_MAX_BYTES
) -> tuple[float, Counts]:
    """What `expected_counts` gives, by both passes over patterns of rows at every node."""
    total = 0.0
    counts: Counts = [None] * circuit.vtree.n_nodes
    for part, chunk in pattern_chunks(circuit, rows.evidence, max_bytes):
        by_row = chunk.patterns(circuit.vtree).is_uniform
        for found in flows(circuit, chunk, rows.weights[part]):
            node = found.node
            block = circuit.blocks[node]
            if node == circuit.vtree.root:
                total += _log_likelihood(found, rows.numbers[part])
            if block.numbers is None:
                continue
            own: tuple[Any, ...] = (found.edges,) if not circuit.vtree.is_leaf(node) else ()
            if not own:
                column = chunk.column(int(circuit.vtree.variable[node]))
                statement = column.codes if by_row else np.arange(column.n_statements)
                count_leaf = _normal_counts if column.weights is None else _table_counts
                own = count_leaf(block, column, statement, found)
            counts[node] = _sum(counts[node], own)
    return total, counts


def _sum(one: Any, other: Any) -> Any:
    """The counts of one node for all rows, given those of two parts (None: there are none)."""
    if one is None or other is None:
        return other if one is None else one
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _log_likelihood(root: Flow, numbers: Any) -> float:
    """The weighted sum of the log-likelihoods of rows with these numbers; raises if one is -inf."""
    logs, weights = root.logs, root.flow
    used = weights > 0
    lost = (used & (logs == -inf)).any(axis=0)
    if lost.any():
        patterns: Any = root.operand.batch
        first = numbers[np.argmax(lost if patterns.rows is None else lost[patterns.rows])]
        raise checks.DataError(
            f"Row {first} of the data has probability zero under the circuit, whatever its "
            "weights: zeros stay zero in EM. Start from a circuit with larger support, or drop "
            "the row."
        )
    return float(weights[used] @ logs[used])


DEFAULT_STEPS = 1.0, 0.05
"""How far weights move towards the shares of a batch, at first and at last."""
SMALLEST_VARIANCE = 1e-6
"""Fitted variances stay above this part of the variable's variance in the data."""


def em(
    circuit: Circuit,
    X: EvidenceLike | StreamLike,
    iterations: int = 20,
    *,
    pseudocount: float = 0.0,
    sample_weight: WeightsLike | None = None,
    tolerance: float | None = None,
    batch_size: int | None = None,
    step: float | tuple[float, float] | None = None,
    device: str | None = None,
    dtype: str | None = None,
    rng: arrays.RngLike = None,
    callback: Callable[[Circuit, float], object] | None = None,
    progress: bool = True,
    max_bytes: int = arrays.DEFAULT_MAX_BYTES,
    X_valid: EvidenceLike | None = None,
    patience: int = 5,
) -> Circuit:
    """The circuit with its parameters fitted to data by expectation maximisation.

    Every iteration sets each weight to the expected share of its edge,

        w(n, c) = (F(n, c) + beta / k) / (F(n) + beta),

    where F counts how often the edge from sum n to its input c is expected to be used, k is the
    number of inputs of n and beta the pseudocount. Tables are sums over states, so the same rule
    fits them; means and variances of normal inputs become weighted moments. Weights and entries
    that are zero stay zero. Without a pseudocount the likelihood never decreases, and units that
    the data never reaches keep their parameters. For a deterministic circuit and complete data
    one iteration gives the maximum likelihood estimate.

    The structure stays as it is, unit for unit. Interrupting (Ctrl-C) returns the circuit of
    the last complete iteration, or the best one so far if there are validation data.

    Parameters
    ----------
    circuit : Circuit
        The structure and the parameters to start from, with one root and no negative weights.
    X : array of shape (n, variables), list of one (n, cardinality) array per variable, or chunks
        NaN stands for a value that is not observed. Data in chunks need not fit into memory:
        paths of Parquet files, a Dask array or data frame, or a function that returns an iterable
        of arrays or frames. They are read once per iteration, by the workers that
        `joblib.parallel_config` names; the result does not depend on their number. Batches, and
        passes on a device, are worked on where `em` was called, and take one more reading.
    iterations : int
        The largest number of passes over the data. Increase it if the mean log-likelihood still
        improves; `tolerance` stops earlier.
    pseudocount : float
        How many rows' worth of counts every sum unit and table gets in advance, spread evenly.
    sample_weight : array of shape (n,), str or callable, optional
        How much every row counts. The pseudocount is multiplied by the mean weight. With data in
        chunks, the name of a column of data frames, or a function from a chunk to the weights of
        its rows.
    tolerance : float, optional
        Stop when the mean log-likelihood improves by less than this. With a pseudocount or batches
        it may fall, which stops EM as well.
    batch_size : int, optional
        How many rows there are between two updates. Default: all. An iteration is one pass over
        the data, in random order; of data in chunks the order is random within a chunk, beyond
        which no batch goes.
    step : float, or pair of floats, optional
        With batches, how far weights move towards the shares of a batch, between 0 and 1; of a
        pair, from the first evenly to the second. Default: from 1 to 0.05; 1 without batches.
    device : str, optional
        Where the passes are made: "torch", "cuda", or another device of torch. Discrete variables
        only. Default: where the circuit is.
    dtype : {"float32", "float64"}, optional
        The type of numbers on a device. Default: those of the circuit.
    rng : int, Generator or None
        For the order of rows in batches.
    callback : callable, optional
        Called after every iteration with the current circuit, on the CPU, and the mean
        log-likelihood (of `X_valid`, or as it was found in the iteration): to keep it, say by
        ``callback=lambda p, mean: ek.io.save(p, "so_far.npz")``. EM resumes from such a circuit.
    progress : bool
        Whether to show a bar with the mean log-likelihood, in nats and in bits for one variable,
        and rows per second (only on a terminal).
    max_bytes : int
        How much memory intermediate values may take; rows are worked on in chunks.
    X_valid : array of shape (m, variables), optional
        Validation data, in memory. The parameters with the largest likelihood of these rows are
        returned, and EM stops when that has not become larger for `patience` iterations.
    patience : int
        The number of iterations without a larger likelihood of `X_valid` before EM stops.

    Returns
    -------
    Circuit
        Normalised, on the CPU.

    Notes
    -----
    An iteration costs a few times the likelihood of the distinct rows. Starting from sums whose
    inputs are all equal is starting from a saddle point: use random weights.

    A circuit compiled from a Bayesian network has more parameters than the network, so that this
    is not EM for its tables: see `learn_tables`.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> X = [[0, 0], [0, 0], [1, 1], [1, float("nan")]]
    >>> start = ek.random_circuit(2, units=2, rng=0)
    >>> p = em(start, X, iterations=50, progress=False)
    >>> round(float(p.log_likelihood(X).mean()), 3)
    -0.693
    """
    checks.check_count("em", "iterations", iterations)
    checks.check_count("em", "patience", patience, 1)
    checks.check_real("em", "pseudocount", pseudocount)
    checks.check_real("em", "tolerance", 0.0 if tolerance is None else tolerance)
    arrays.check_max_bytes(max_bytes)
    checks.check_callback("em", callback, "two arguments")
    steps = checked_steps("em", batch_size, step)
    current = normalized(circuit)
    if device is None:
        device, kind = _device_of(circuit)
        dtype = dtype or kind
    plain = batch_size is None and device is None and dtype is None and step is None
    data = X if isinstance(X, Data) else Data(current.schema, X, sample_weight, NEEDED)
    if plain:
        states: Any = full_passes(current, data, iterations, pseudocount, max_bytes)
    else:
        phases, place = [Phase(iterations, batch_size, steps)], (device or "numpy", dtype)
        states = epochs(current, data, phases, pseudocount, place, arrays.as_generator(rng))
    bar = checks.progress_bar(iterations, "EM", not progress, "iteration")
    stopping: Any = {"patience": patience, "tolerance": tolerance}
    valid = valid_rows(current, X_valid)
    return circuit_of(fit(current, data, states, bar, valid, callback, **stopping).state)


def valid_rows(circuit: Circuit, X_valid: Any) -> Rows | None:
    """The rows for validation, if there are any."""
    if X_valid is None:
        return None
    return Data(circuit.schema, X_valid, None, VALID).in_memory("X_valid")


def fit(
    start: Circuit, data: Data, states: Any, bar: Any, valid: Any, callback: Any, **stopping: Any
) -> Result:
    """Run EM: the last state, or the one that fits validation rows best.

    `states` are triples: the circuit after an iteration, the mean log-likelihood that was found in
    it, and whether patience counts anew.
    """
    begun, n_known = perf_counter(), 0 if data.X is not None else len(data.held.weights)

    def steps() -> Iterator[Step]:
        for state, mean, begins in states:
            score = None if valid is None else minibatch.mean_log_likelihood(state, valid)
            yield Step(state, mean, score, begins=begins)

    def text(number: int, step: Step) -> str:
        seconds = perf_counter() - begun
        return progress_text(step.mean, start.n_variables, number * n_known, seconds)

    def tell(step: Step) -> None:
        if callback is not None:
            callback(circuit_of(step.state), step.mean if step.valid is None else step.valid)

    return training_data.train(steps(), start, bar, callback=tell, text=text, **stopping)


def _device_of(circuit: Circuit) -> tuple[str | None, str | None]:
    """Where the passes of a circuit are made, and in which numbers: (None, None) in NumPy."""
    layers = None if None in circuit.cardinalities else layers_of(circuit)
    if not isinstance(layers, TensorLayers):
        return None, None
    return arrays.device_of(layers.like), "float32" if layers.is_single else "float64"


def checked_steps(name: str, batch_size: Any, step: Any) -> tuple[float, float]:
    """The first and the last step of EM in batches; raises unless they are steps."""
    if batch_size is not None:
        checks.check_count(name, "batch_size", batch_size, 1)
    if step is None:
        return (1.0, 1.0) if batch_size is None else DEFAULT_STEPS
    pair = step if isinstance(step, (tuple, list)) and len(step) == 2 else (step, step)
    first, last = (checks.check_real(name, "step", x, 0.0, 1.0, "(]") for x in pair)
    return first, last


def full_passes(
    current: Circuit, data: Data, n: int, beta: float, max_bytes: int = arrays.DEFAULT_MAX_BYTES
) -> Iterator[tuple[Circuit, float, bool]]:
    """What `fit` takes, where all rows are counted for every update, by workers if in chunks."""
    floors = _variance_floors(current, data)
    for i in range(n):
        found = data.summed(partial(_chunk_counts, current, max_bytes), _added)
        if found is None:
            training_data.used_up() if i else training_data.require_rows(0, data.needed)
        n_rows, weight, total, counts = found
        training_data.require_weight(weight)
        current = maximized(current, counts, beta * weight / n_rows, floors)
        yield current, total / weight, i == 0


def _chunk_counts(circuit: Circuit, max_bytes: int, rows: Rows) -> tuple[int, float, float, Counts]:
    """The number of rows of a chunk, their weight, log-likelihood, and the expected counts."""
    if not len(rows.weights):
        return rows.n_given, 0.0, 0.0, [None] * circuit.vtree.n_nodes
    return rows.n_given, float(rows.weights.sum()), *expected_counts(circuit, rows, max_bytes)


def _added(a: Any, b: Any) -> Any:
    return *(x + y for x, y in zip(a[:3], b[:3], strict=True)), [*map(_sum, a[3], b[3])]


class Phase(NamedTuple):
    """Passes over the data, `size` rows at a time (None: all), with steps from first to last."""

    n: int
    size: int | None
    steps: tuple[float, float]


def epochs(
    start: Circuit,
    data: Data,
    phases: Sequence[Phase],
    pseudocount: float,
    place: tuple[str, str | None],
    generator: np.random.Generator,
) -> Iterator[tuple[EMState, float, bool]]:
    """What `fit` takes, in layers at a place: a device, and the type of numbers there.

    Phases follow one another: see `Phase`. Rows come in random order within their chunk, which no
    batch goes beyond.
    """
    n_given, weight, largest, sizes = data.totals
    n_rows, in_memory, beta = sum(sizes), data.X is None, pseudocount * weight / n_given
    most = min(phases[-1].size or n_rows, n_rows)
    trained = minibatch.start_of(start, *place, beta * most / n_rows, most * largest)
    # over a power of two of about their size, weights keep to the range of floats
    unit = 2.0 ** (frexp(weight / n_rows)[1] - 1)
    beta /= unit
    for n, size, steps in phases:
        size = n_rows if size is None and in_memory else size
        per_pass = 1 if size is None else sum(-(-rows // size) for rows in sizes)
        every = chain(np.linspace(*steps, n * per_pass).tolist(), repeat(steps[1]))
        cuda = None
        for i in range(n):
            total, weight, counts = 0.0, 0.0, None
            for name, rows in data.chunks():
                if not len(rows.weights):
                    continue
                rows = replace(rows, weights=rows.weights / unit)
                with naming(name) if name else nullcontext():
                    if size is None:
                        logs, counts = layer_counts(trained, rows, counts)
                    else:
                        if cuda is None or not in_memory:
                            many = in_memory or len(rows.weights) >= CAPTURED * size
                            cuda = minibatch.cuda_steps(trained, rows, size) if many else None
                        options = size, every, beta / n_rows, generator
                        trained, logs = _pass(trained, rows, cuda, *options)
                total += logs
                weight += float(rows.weights.sum())
            if counts is not None:
                trained = stepped(trained, counts, beta, next(every))
            yield trained, total / weight if weight else training_data.used_up(), i == 0


def _pass(
    trained: EMState,
    data: Rows,
    cuda: minibatch.CudaSteps | None,
    size: int,
    steps: Iterator[float],
    beta: float,
    generator: np.random.Generator,
) -> tuple[EMState, float]:
    """The circuit after steps for all rows, and the sum of log-likelihoods; `beta` is for a row."""
    n_rows, total = data.evidence.n_rows, 0.0
    order = np.arange(n_rows) if size >= n_rows else generator.permutation(n_rows)
    several = (order[i : i + size] for i in range(0, n_rows, size))
    batches = [Batch(rows, beta * len(rows), next(steps)) for rows in several]
    if cuda is not None:
        trained, total, batches = cuda.run(trained, batches)
    for rows, own_beta, step in batches:
        evidence = data.evidence if size >= n_rows else data.evidence.rows(rows)
        batch = Rows(evidence, data.weights[rows], data.numbers[rows], len(rows))
        logs, counts = layer_counts(trained, batch)
        trained, total = stepped(trained, counts, own_beta, step), total + logs
    return trained, total


def _variance_floors(circuit: Circuit, data: Data) -> list[float]:
    """For every vtree node the smallest variance of components there, above that of points."""
    floors = [0.0] * circuit.vtree.n_nodes
    real = [v for v, domain in enumerate(circuit.cardinalities) if domain is None]
    centres = {v: float(circuit.input(v).mean.mean()) for v in real}
    found = data.summed(partial(_moments, centres), add) if real else None
    if found is not None:
        for v, (n, first, second) in zip(real, found.T, strict=True):
            variance = (second - first**2 / max(n, 1.0)) / max(n, 1.0)
            floors[circuit.vtree.leaf(v)] = SMALLEST_VARIANCE * (variance if variance > 0 else 1.0)
    return floors


def _moments(centres: dict[int, float], rows: Rows) -> Any:
    """For every variable the number of its values, and the sums of two powers around a centre."""
    found = np.zeros((3, len(centres)))
    for i, (v, centre) in enumerate(centres.items()):
        column = rows.evidence.column(v)
        x = column.values[column.codes] - centre
        x = x[~np.isnan(x)]
        found[:, i] = len(x), x.sum(), x @ x
    return found


def progress_text(mean: float, n_variables: int, n_rows: float = 0, seconds: float = 0.0) -> str:
    """What a bar of passes over data says: likelihoods, and how many rows there were per second.

    Examples
    --------
    >>> progress_text(-2.0, 4, 3000, 1.5)
    'log-likelihood -2.0000, 0.7213 bits per variable, 2000 rows/s'
    """
    found = f"log-likelihood {mean:.4f}, {-mean / (log(2) * n_variables):.4f} bits per variable"
    return f"{found}, {n_rows / seconds:.0f} rows/s" if n_rows and seconds else found


def normalized(circuit: Circuit, what: str = "EM") -> Circuit:
    """The circuit on the CPU with every unit summing to one, and its structure as it is.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[1.0, 3.0]], normalized=False)
    >>> normalized(p).input(0).table.round(12).tolist()
    [[0.25, 0.75]]
    """
    if not isinstance(circuit, Circuit):
        advice = " Make one with Circuit.from_units." if isinstance(circuit, Unit) else ""
        raise checks.CircuitError(
            "Parameters are fitted for the structure of a Circuit. "
            f"Got {type(circuit).__name__} instead.{advice}"
        )
    circuit.require_single_root(what)
    circuit = circuit.to("numpy")
    refuse_signed(circuit, what)
    blocks = tuple(map(stored_alike, circuit.blocks, conditional_units(circuit, None)))
    return Circuit(circuit.vtree, blocks, circuit.names, circuit.states)


def stored_alike(old: Any, new: Any) -> Any:
    """The new block, its weights stored as those of the old one are: densely, or not at all."""
    if old.numbers is None:
        return old
    spread = sparse.issparse(new.numbers) and not sparse.issparse(old.numbers)
    return new.with_numbers(new.numbers.toarray()) if spread else new


def pattern_chunks(
    circuit: Circuit, evidence: Evidence, max_bytes: int = arrays.DEFAULT_MAX_BYTES
) -> Iterator[tuple[slice, Evidence]]:
    """Rows in parts whose values fit into memory in both passes, and which these are."""
    units, products = np.array([(b.n_units, b.width) for b in circuit.blocks]).T
    # all values, the flows at one node, and what it takes to list the patterns
    size = 8 * int(units.sum() + (3 * units + 4 * products).max()) + 16 * len(units)
    for rows in arrays.spans(evidence.n_rows, max(1, max_bytes // size)):
        whole = rows.stop - rows.start == evidence.n_rows
        yield rows, evidence if whole else evidence.rows(rows)


def _table_counts(block: Any, column: Column, statement: Any, found: Flow) -> tuple[Any]:
    """The expected counts of the states in every unit."""
    allowed = column.weights[statement]
    allowed = allowed / np.maximum(allowed.max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    sums = block.table @ allowed.T
    share = np.divide(found.flow, sums, out=np.zeros_like(found.flow), where=sums > 0)
    return (block.table * (share @ allowed),)


def _normal_counts(block: Any, column: Column, statement: Any, found: Flow) -> tuple[Any, Any]:
    """The expected counts of the components in every unit, and the moments of the components."""
    x = column.values[statement]
    missing = np.isnan(x)
    values = np.where(missing, 0.0, x)
    log_density = np.where(missing[:, None], 0.0, block.log_density(values))
    away = np.where(missing[:, None], 0.0, values[:, None] - block.mean)
    square = np.where(missing[:, None], block.total_variance, away**2)
    logs = found.logs
    counts = np.zeros_like(block.weights)
    moments = np.zeros((3, len(block.mean)))
    for unit in range(block.n_units):
        used = np.flatnonzero(block.weights[unit])
        rows = np.flatnonzero(found.flow[unit] > 0)
        terms = np.log(block.weights[unit, used]) + log_density[np.ix_(rows, used)]
        share = np.exp(terms - logs[unit, rows, None]) * found.flow[unit, rows, None]
        counts[unit, used] = share.sum(axis=0)
        moments[0, used] += counts[unit, used]
        moments[1, used] += (share * away[np.ix_(rows, used)]).sum(axis=0)
        moments[2, used] += (share * square[np.ix_(rows, used)]).sum(axis=0)
    return counts, moments


def maximized(
    circuit: Circuit, counts: Counts, beta: float, floors: Iterable[float] = repeat(0.0)
) -> Circuit:
    """The circuit with the parameters that make expected counts most likely.

    `floors` are the smallest variances that components may get, for every vtree node.
    """

    def fit(block: Any, found: Any, floor: float) -> Any:
        if found is None:
            return block
        new = minibatch.with_stored(block, lambda old, sums: fit_weights(found[0], beta, sums, old))
        return new if len(found) == 1 else _moved(new, found[1], floor)

    blocks = tuple(map(fit, circuit.blocks, counts, floors))
    return Circuit(circuit.vtree, blocks, circuit.names, circuit.states)


def _moved(block: Real, moments: Any, floor: float) -> Real:
    """Real inputs whose normal components have new means and variances; others stay."""
    n, first, second = moments
    free = (n > 0) & (block.variance > 0) & (block.halves == 0)
    n = np.where(free, n, 1.0)
    shift = np.where(free, first / n, 0.0)
    # a floor below the old variance: the likelihood cannot decrease by being held there
    spread = np.maximum(second / n - shift**2, np.minimum(floor, block.variance))
    variance = np.where(free, spread, block.variance)
    return Real(block.weights, block.mean + shift, variance, block.half)
