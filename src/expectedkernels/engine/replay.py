"""Computations on a GPU, captured as graphs: all their launches are made by one call.

The second time, a computation is run once more with a tape (what it was sent, and what
was read from it, is on it), and then captured with that tape: it sends and reads nothing. From
then on it is launched as a whole. It is captured for read-only arrays, so that what was read
remains true; others are inputs, and copied to where the graph expects them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import methodcaller
from threading import Lock
from typing import Any
from weakref import ReferenceType, ref

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
    partners : tuple of weak references
        What the computation works on, beside its inputs.
    graph : CUDA graph, or None if it was run once
    inputs, outputs : sequences of tensors
        Where the graph reads and writes.
    rest : object
        What the computation gives beside tensors.
    tape : Tape, or None
        What it was sent: the graph reads it from where it is.
    refused : bool
        Whether it cannot be captured.
    """

    partners: tuple[ReferenceType[Any], ...]
    graph: Any = None
    inputs: Tensors = ()
    outputs: Tensors = ()
    rest: Any = None
    tape: Tape | None = None
    refused: bool = False
    lock: Any = field(default_factory=Lock)


def fits(like: Any, n_bytes: float, share: int = SHARE) -> bool:
    """Whether a graph that keeps so much memory may be captured where a tensor is."""
    return n_bytes <= total_bytes(like) / share


def total_bytes(like: Any) -> int:
    """The memory of the GPU on which a tensor is."""
    return _memory_of(like.device)


@cache
def _memory_of(device: Any) -> int:
    import torch  # there is a tensor, so it has been imported

    return int(torch.cuda.get_device_properties(device).total_memory)


def replayed(
    kept: dict[Any, Captured],
    key: Any,
    partners: Sequence[Any],
    run: Callable[..., tuple[Tensors, Any]],
    inputs: Tensors = (),
    read: Callable[[Any], Any] = CLONE,
) -> tuple[Tensors, Any]:
    """What `run(*inputs)` gives: tensors, and whatever else is known of them.

    `kept` belongs to one of the partners. With the same key and partners, the result depends on
    the inputs alone, in tensors of the same shapes, and not on them otherwise. What a graph gives
    is overwritten by its next run, so that it is copied by `read`.
    """
    found = kept.get(key)
    if found is None or not _same(found.partners, partners):
        while len(kept) >= KEPT:
            kept.pop(next(iter(kept)), None)
        kept[key] = Captured(tuple(map(ref, partners)))
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
        return [None if x is None else read(x) for x in found.outputs], found.rest


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
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            output = _with_tape(tape.rewound(), run, ())
    except (RuntimeError, StopIteration, TypeError, ValueError):
        return None

    def step(kept: Tape = tape) -> Any:  # the graph reads what is on the tape
        graph.replay()
        return output

    return step


def replayed_pass(layers: Any, name: str, states: Any, run: Callable[[Any], Tensors]) -> Tensors:
    """What a pass over layers in tensors gives, captured if it is made again for as many rows.

    `run` takes the states of variables in rows, (leaves, rows).
    """
    like, n_rows = layers.like, states.shape[1]
    held = layers.n_units + layers.host.n_products + layers.n_atoms
    if not (is_on_gpu(like) and fits(like, 4 * like.element_size() * held * n_rows)):
        return run(states)
    key = name, n_rows
    return replayed(layers.captured, key, (layers,), lambda x: (run(x), None), (states,))[0]


def _same(refs: Sequence[ReferenceType[Any]], partners: Sequence[Any]) -> bool:
    """Whether these are the partners; one that is gone may have had the id of another."""
    return len(refs) == len(partners) and all(r() is x for r, x in zip(refs, partners, strict=True))


def _capture(found: Captured, run: Any, inputs: Tensors) -> tuple[Tensors, Any] | None:
    """Capture a computation; if that fails, what it gives."""
    import torch

    found.inputs = [x.clone() for x in inputs]
    tape = Tape()
    result = _with_tape(tape, run, found.inputs)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            found.outputs, found.rest = _with_tape(tape.rewound(), run, found.inputs)
    except (RuntimeError, StopIteration, TypeError, ValueError):  # it cannot be captured
        found.refused, found.inputs, found.outputs = True, (), ()
        return result
    graph.replay()
    if not all(_agree(a, b) for a, b in zip(found.outputs, result[0], strict=True)):
        found.refused, found.inputs, found.outputs = True, (), ()
        return result
    found.graph, found.tape = graph, tape
    return None


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
