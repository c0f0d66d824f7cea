"""Computations on a GPU, captured as graphs: all their launches are made by one call.

The second time, a computation is run once more with a tape (what it was sent, and what
was read from it, is on it), and then captured with that tape: it sends and reads nothing. From
then on it is launched as a whole. It is captured for read-only arrays, so that what was read
remains true; others are inputs, and copied to where the graph expects them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import methodcaller
from threading import Lock
from typing import Any

from expectedkernels.arrays import TAPE, Tape, is_on_gpu

KEPT = 4
"""How many captured graphs one owner keeps."""
SHARE = 16
"""A graph may keep one part in so many of the GPU's memory."""
AGREEMENT = {8: 1e-9, 4: 1e-3}
"""How far (of the largest number) a graph may be from what it was captured from, by the bytes of
a number: sums whose order is not fixed differ."""

CLONE = methodcaller("clone")
"""How results are read, unless they go to the CPU."""

Tensors = Sequence[Any]
"""Tensors, or None."""


@dataclass(eq=False)
class Captured:
    """A computation that was run once at least.

    Attributes
    ----------
    graph : CUDA graph, or None if it was run once
    inputs, outputs : sequences of tensors
        Where the graph reads and writes.
    tape : Tape, or None
        What it was sent: the graph reads it from where it is.
    refused : bool
        Whether it cannot be captured.
    """

    graph: Any = None
    inputs: Tensors = ()
    outputs: Tensors = ()
    tape: Tape | None = None
    refused: bool = False
    lock: Any = field(default_factory=Lock)


def fits(like: Any, n_bytes: float, share: int = SHARE) -> bool:
    """Whether a graph that keeps so much memory may be captured where a tensor is."""
    return n_bytes <= total_bytes(like) / share


def total_bytes(like: Any) -> int:
    """The memory of the GPU on which a tensor is."""
    import torch  # there is a tensor, so it has been imported

    return int(torch.cuda.get_device_properties(like.device).total_memory)


def replayed(
    kept: dict[Any, Captured],
    key: Any,
    run: Callable[..., Tensors],
    inputs: Tensors,
    read: Callable[[Any], Any] = CLONE,
) -> Tensors:
    """The tensors that `run(*inputs)` gives.

    With the same key, the result depends on the inputs alone, in tensors of the same shapes, and
    not on them otherwise: what else it depends on keeps `kept`. What a graph gives is overwritten
    by its next run, so that it is copied by `read`.
    """
    found = kept.get(key)
    if found is None:
        while len(kept) >= KEPT:
            kept.pop(next(iter(kept)), None)
        kept[key] = Captured()
        return run(*inputs)
    if found.refused:
        return run(*inputs)
    with found.lock:
        if found.graph is None:
            result = _capture(found, run, inputs)
            if result is not None:
                return result
        for place, given in zip(found.inputs, inputs, strict=True):
            place.copy_(given)
        found.graph.replay()
        return [None if x is None else read(x) for x in found.outputs]


def steady_step(run: Callable[[], Any], like: Any) -> Callable[[], Any]:
    """What makes a step like `run` without measuring and sending anew; on a GPU by one launch.

    A step writes to tensors in place, gradients among them, and gives a tensor. Two steps are made
    on the way. What the first of these read, such as ranges of numbers, is taken to be true of all:
    the caller compares its numbers with those of `run`, now and then.
    """
    tape = Tape()
    if not is_on_gpu(like):
        run()
        _with_tape(tape, run, ())
        return lambda: _with_tape(tape.rewound(), run, ())
    return _launched(tape, run) or run


def _launched(tape: Tape, run: Callable[[], Any]) -> Callable[[], Any] | None:
    """A step on a GPU, captured; None if it cannot be."""
    import torch

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()
        _with_tape(tape, run, ())
    torch.cuda.current_stream().wait_stream(stream)
    recorded = _recorded(tape, run, ())
    if recorded is None:
        return None
    graph, output = recorded

    def step(kept: Tape = tape) -> Any:  # the graph reads what is on the tape
        graph.replay()
        return output

    return step


def _recorded(tape: Tape, run: Any, inputs: Tensors) -> tuple[Any, Any] | None:
    """The graph of a computation played from its tape, and what it gives; None if it has none."""
    import torch

    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            return graph, _with_tape(tape.rewound(), run, inputs)
    except (RuntimeError, StopIteration, TypeError, ValueError):  # it cannot be captured
        return None


def replayed_pass(layers: Any, name: str, states: Any, run: Callable[[Any], Tensors]) -> Tensors:
    """What a pass over layers in tensors gives, captured if it is made again for as many rows.

    `run` takes the states of variables in rows, (leaves, rows).
    """
    like, n_rows = layers.like, states.shape[1]
    held = layers.n_units + layers.on_cpu.n_products + layers.n_atoms
    if not (is_on_gpu(like) and fits(like, 4 * like.element_size() * held * n_rows)):
        return run(states)
    return replayed(layers.captured, (name, n_rows), run, (states,))


def _capture(found: Captured, run: Any, inputs: Tensors) -> Tensors | None:
    """Capture a computation; if that fails, what it gives."""
    found.inputs, found.tape = [x.clone() for x in inputs], Tape()
    result: Tensors = _with_tape(found.tape, run, found.inputs)
    recorded = _recorded(found.tape, run, found.inputs)
    if recorded is not None:
        graph, found.outputs = recorded
        graph.replay()
        if all(map(_agree, found.outputs, result)):
            found.graph = graph
            return None
    found.refused, found.inputs, found.outputs, found.tape = True, (), (), None
    return result


def _with_tape(tape: Tape, run: Any, inputs: Tensors) -> Any:
    token = TAPE.set(tape)
    try:
        return run(*inputs)
    finally:
        TAPE.reset(token)


def _agree(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    if not (a.is_floating_point() and a.numel()):
        return bool((a == b).all())
    import torch

    share = AGREEMENT[a.element_size()]
    largest = float(b.nan_to_num(0.0, 0.0, 0.0).abs().max())
    return torch.allclose(a, b, rtol=0.0, atol=share * largest, equal_nan=True)
