"""Minibatches and epochs of EM, on CPU and GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from expectedkernels.arrays import Place, as_like, is_numpy, namespace, to_numpy
from expectedkernels.checks import CircuitError
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.conditioning import observed
from expectedkernels.circuits.queries import layer_logs, log_values
from expectedkernels.engine import operations
from expectedkernels.engine.layers import Layers
from expectedkernels.engine.operations import States, TensorLayers, tensor_layers
from expectedkernels.engine.passes import LeafValues, forward, weight_dots
from expectedkernels.engine.replay import Captured, fits, replayed
from expectedkernels.learning.training_data import Rows, fit_weights, group_sums, row_sums

TINY = np.finfo(np.float64).tiny
SMALLEST = {"float64": 1e-30, "float32": 1e-15}
"""Shares that are not zero stay above this, by the type of numbers."""


@dataclass(frozen=True, eq=False)
class EMState:
    """A circuit whose weights are being fitted.

    Attributes
    ----------
    circuit : Circuit
        On the CPU, as it was at the start.
    layers : Layers or TensorLayers
        With the current weights.
    floor : float
        What no weight is below.
    """

    circuit: Circuit
    layers: Layers
    floor: float


def start_of(circuit: Circuit, device: Any, dtype: str | None, beta: float, most: float) -> EMState:
    """The circuit, normalised, with its weights at a place and of a type.

    Batches weigh at most `most`, and `beta` is what sums get in advance for every batch.
    """
    if None in circuit.cardinalities:
        raise CircuitError(
            "EM in batches or on a device is for discrete variables. Variable "
            f"{circuit.cardinalities.index(None)} is real: leave out batch_size and device."
        )
    place = Place("numpy" if device is None else device, dtype)
    kind = dtype or "float64"
    if is_numpy(place.xp) and kind != "float64":
        raise CircuitError(
            "In NumPy, EM works in double precision. Single precision needs device='torch' or "
            "device='cuda'."
        )
    layers: Layers = circuit.layers
    widest = max(int(np.diff(layer.all_edges.starts).max()) for layer in circuit.layers.layers)
    lowest = float(np.exp(circuit.layers.bounds[0].min()))
    least = min(lowest, beta / (widest * (most + beta)) if beta > 0 else 0.0)
    floor = max(SMALLEST[kind], least * (1 - 1e-3))
    if not is_numpy(place.xp):
        layers = tensor_layers(circuit.layers, place.move(np.zeros(0)))
    # weights that are not zero are at least as large as the floor
    old = layers.flat
    raised = namespace(old).where(old > 0, old.clip(min=floor), old)
    return EMState(circuit, layers.with_weights(raised, floor), floor)


def mean_log_likelihood(trained: EMState | Circuit, data: Rows) -> float:
    """The weighted mean of the log-likelihoods of rows."""
    evidence, weights = data.evidence, data.weights
    if isinstance(trained, Circuit):
        return float(weights @ trained.log_likelihood(evidence)) / float(weights.sum())
    found, lost = layer_logs(trained.circuit, evidence, trained.layers)
    logs = to_numpy(found)[:, 0]
    if len(lost):
        logs[lost] = log_values(circuit_of(trained), evidence.rows(lost))[0][:, 0]
    return float(weights @ logs) / float(weights.sum())


def sent_weights(weights: Any, like: Any) -> Any:
    """The weights of rows where values are."""
    sent = as_like(np.array(weights), like)
    return sent if is_numpy(namespace(like)) else sent.to(like.dtype)


def stepped(trained: EMState, counts: Any, beta: Any, step: Any) -> EMState:
    """The circuit with its weights moved towards the shares of counts, which are one list.

    What is given in advance and the step are numbers, or tensors without axes.
    """
    layers, floor, after = trained.layers, trained.floor, namespace(counts).empty_like(counts)
    for part, width in layers.slices[2]:
        own, old = (x[part].reshape(-1, width) for x in (counts, layers.flat))
        after[part] = fit_weights(own, beta, row_sums, old, step, floor).reshape(-1)
    for layer, part in zip(layers.layers, layers.slices[1], strict=True):
        sums = partial(operations.unit_sums, layer)
        after[part] = fit_weights(counts[part], beta, sums, layers.flat[part], step, floor)
    return replace(trained, layers=layers.with_weights(after, floor))


def circuit_of(trained: EMState | Circuit) -> Circuit:
    """The circuit with its current weights, on the CPU, every unit summing to one."""
    if isinstance(trained, Circuit):
        return trained
    if trained.layers is trained.circuit.layers:
        return trained.circuit
    found = trained.layers.by_node(trained.layers.flat)
    circuit = trained.circuit
    blocks = tuple(map(_normalised, circuit.blocks, found))
    return Circuit(circuit.vtree, blocks, circuit.names, circuit.states)


def _normalised(block: Any, numbers: Any) -> Any:
    """The block with other numbers, as shares in double precision."""
    if numbers is None:
        return block
    numbers = numbers.astype(np.float64)
    return with_stored(block, lambda _, sums: numbers / np.maximum(sums(numbers), TINY))


def with_stored(block: Any, change: Callable[[Any, Any], Any]) -> Any:
    """The block with numbers from a function of the stored ones, and of what sums them by unit."""
    old = block.matrix  # counts are of weights that are not zero
    if not sparse.issparse(old):
        return block.with_numbers(change(old, row_sums))
    unit = np.repeat(np.arange(old.shape[0]), np.diff(old.indptr))
    data = change(old.data, group_sums(unit))
    return block.with_numbers(sparse.csr_array((data, old.indices, old.indptr), old.shape))


TRAINED_SHARE = 4
"""Steps of EM may keep one part in so many of a GPU's memory."""
CAPTURED = 8
"""A chunk of so many batches is worth sending to a GPU as a whole."""


class Batch(NamedTuple):
    """Rows between two updates, what sums get in advance, and the step."""

    rows: Any
    beta: float
    step: float


class CudaSteps:
    """Data on a GPU, and steps of EM there: those that were made more than once are kept."""

    def __init__(self, trained: EMState, states: Any, weights: Any) -> None:
        self.trained, self.states, self.weights = trained, states, weights
        self.captured: dict[Any, Captured] = {}
        self.layers: Any = trained.layers

    def run(self, trained: EMState, batches: Sequence[Batch]) -> tuple[EMState, float, list[Batch]]:
        """The circuit after steps on batches, the sum of log-likelihoods, and what is to be done.

        These are the batches in which some values left the range of plain numbers, or a row is
        impossible: nothing was learned from them yet. Numbers are read once, at the end.
        """
        flat, like = trained.layers.flat, self.layers.like
        rows = as_like(np.concatenate([batch.rows for batch in batches]), self.states)
        given = as_like(np.array([batch[1:] for batch in batches]), like).to(like.dtype)
        results: list[Any] = []
        at = 0
        for batch, (beta, step) in zip(batches, given, strict=True):
            n = len(batch.rows)
            key = n, batch.beta > 0
            inputs = rows[at : at + n], beta, step, flat
            flat, found = replayed(self.captured, key, self._step, inputs)
            results.append(found)
            at += n
        sums, good = to_numpy(namespace(like).stack(results)).T
        left = [batch for batch, is_good in zip(batches, good, strict=True) if not is_good]
        layers = self.layers.with_weights(flat, self.trained.floor)
        return replace(trained, layers=layers), float(sums[good > 0].sum()), left

    def _step(self, rows: Any, beta: Any, step: Any, flat: Any) -> tuple[Any, Any]:
        """The weights after one step, the sum of log-likelihoods, and whether it could be made."""
        layers = self.layers.with_weights(flat, self.trained.floor)
        weights = self.weights.index_select(0, rows)
        states = self.states.index_select(1, rows)
        found = forward(
            layers, LeafValues(States(states, layers.n_atoms)), offset=layers.margin / 2
        )
        below, dots = weight_dots(found, weights)
        logs = found.log_roots.reshape(-1)
        good = ((logs - logs == 0) & below.reliable).all()
        xp = namespace(flat)
        after = self._moved(flat, dots, good, beta, step)
        total = weights.to(logs.dtype) @ logs
        return after, xp.stack([total, good.to(total.dtype)])

    def _moved(self, flat: Any, dots: Any, good: Any, beta: Any, step: Any) -> Any:
        """The weights moved towards the shares of counts, these times dots; if it is good."""
        after, floor = flat.new_empty(flat.shape), self.trained.floor
        xp = namespace(flat)
        for part, width in self.layers.slices[2]:
            old, own, new = (x[part].view(-1, width) for x in (flat, dots, after))
            fused = operations.fused_at(old, 1)
            if fused is not None and width <= fused.WIDEST:
                fused.move(old, own, good, beta, step, floor, new)
            else:
                found = fit_weights(own * old, beta, row_sums, old, step, floor)
                new.copy_(xp.where(good, found, old))
        for layer, part in zip(self.layers.layers, self.layers.slices[1], strict=True):
            if part.stop > part.start:
                sums, old = partial(operations.unit_sums, layer), flat[part]
                found = fit_weights(dots[part] * old, beta, sums, old, step, floor)
                after[part] = xp.where(good, found, old)
        return after


def cuda_steps(trained: EMState, data: Rows, size: int) -> CudaSteps | None:
    """The states of rows where the weights are.

    None if that is no GPU, there is no memory for them, or rows say other things than states.
    """
    layers = trained.layers
    if not isinstance(layers, TensorLayers) or not layers.is_remote or data.evidence.values is None:
        return None
    like, (n_rows, n_leaves) = layers.like, data.evidence.values.shape
    held = layers.n_units + layers.on_cpu.n_products
    if not fits(like, 4 * n_rows * n_leaves + 4 * like.element_size() * held * size, TRAINED_SHARE):
        return None
    step = max(1, 2**24 // n_leaves)
    parts = [
        observed(trained.circuit, layers, data.evidence.rows(slice(i, i + step))).values.states
        for i in range(0, n_rows, step)
    ]
    # layers with other weights share them
    _ = layers.last_entries, layers.edge_entries, layers.margin, layers.known_ranges, layers.slices
    xp = namespace(like)
    states = xp.concat([xp.astype(part, xp.int32) for part in parts], axis=1)
    return CudaSteps(trained, states, sent_weights(data.weights, like))
