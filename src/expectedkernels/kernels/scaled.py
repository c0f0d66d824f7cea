"""Results as mantissas beside log-scales, until they are plain numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf, prod
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from expectedkernels.arrays import as_like, detach, namespace, require_memory
from expectedkernels.engine.value import limit, safe_log
from expectedkernels.errors import DataError, KernelError

Place = tuple[slice, ...]
"""Some rows along every axis of an array."""


@dataclass(frozen=True, eq=False)
class Scaled:
    """Results as mantissas and log-scales (None: zero)."""

    data: Any
    scale: Any

    def linear(
        self,
        what: str = "The expected kernel",
        advice: str = "Ask for its logarithm with log=True.",
    ) -> Any:
        """The plain numbers; raises (and says what they are, and what to do) if one is infinite."""
        if self.scale is None:
            return self.data
        with np.errstate(over="ignore"):
            values = _times_exp(self.data, self.scale)
        xp = namespace(values)
        if bool(xp.any(xp.isinf(values))):
            raise KernelError(f"{what} is too large for a float here. {advice}")
        return values

    def log(self) -> Any:
        """The logarithms."""
        xp = namespace(self.data)
        if bool(xp.any(self.data < 0)):
            raise KernelError(
                "The expected kernel is negative here, so it has no logarithm. Ask for log=False."
            )
        positive = self.data > 0
        logs = xp.where(
            positive,
            xp.log(xp.where(positive, self.data, xp.ones_like(self.data))),
            xp.full_like(self.data, -inf),
        )
        return logs if self.scale is None else logs + self.scale


def _times_exp(data: Any, logs: Any) -> Any:
    """The product data * exp(logs), in two steps: the exponentials alone may be out of range.

    Zeros have logs too, which say nothing and may be of any size: zero they stay. Where their logs
    are in range they are used, for the sake of gradients.
    """
    xp = namespace(data)
    bound = xp.full_like(logs, 2.0 * limit(data))
    half = xp.exp(0.5 * xp.where((data != 0) | (logs < bound), logs, bound))
    return data * half * half


def plain_numbers(values: Scaled, log: bool) -> Any:
    """The logarithms of values, or the values themselves."""
    return values.log() if log else values.linear()


def concatenated(parts: list[Scaled], axis: int) -> Scaled:
    """Values one after the other along an axis."""
    xp = namespace(parts[0].data)
    scale = None
    if any(part.scale is not None for part in parts):
        scales = [xp.zeros_like(x.data) if x.scale is None else x.scale for x in parts]
        scale = xp.concat(scales, axis=axis)
    return Scaled(xp.concat([part.data for part in parts], axis=axis), scale)


def require_values(shape: Sequence[int], weights: Sequence[Any]) -> None:
    """Raise if there is no memory for one value per row, of the axes that are not summed over."""
    kept = [n for n, share in zip(shape, weights, strict=True) if share is None]
    require_memory(
        8.0 * prod(kept),
        f"An array of {' x '.join(map(str, kept))} expected kernels",
        "Take fewer rows, or have it written to a file: expected_kernel(..., out='k.npy').",
    )


def collected(
    pieces: Iterable[tuple[Place, Scaled]],
    shape: tuple[int, ...],
    logs: list[Any],
    weights: list[Any],
    log: bool,
    room: Any = None,
) -> Any:
    """The numbers of all pieces, in one array: each is finished before the next one is made.

    They are put into `room`, if it is given.
    """
    summed = [axis for axis, share in enumerate(weights) if share is not None]
    values = room
    if room is None or summed:
        require_values(shape, weights)
        values = np.zeros([1 if axis in summed else n for axis, n in enumerate(shape)])
    scale = None
    for at, piece in pieces:
        found = weighted_sums(divided(piece, logs, at), weights, at)
        if not summed:
            values[at] = plain_numbers(found, log)
            continue
        place = tuple(slice(0, 1) if axis in summed else at[axis] for axis in (0, 1))
        if scale is None and found.scale is not None:
            scale = np.zeros_like(values)
        so_far = Scaled(values[place], None if scale is None else scale[place])
        total = _sum_of_two(so_far, found, summed[0])
        values[place] = total.data
        if scale is not None:
            scale[place] = total.scale
    if not summed:
        return values
    sums = plain_numbers(Scaled(values, scale), log)
    if room is None:
        return sums
    room[...] = sums
    return room


@contextmanager
def room_for(out: Any, shape: tuple[int, ...], flat: tuple[int, ...]) -> Iterator[Any]:
    """An array or a new file to put results into, with all axes; None if none is given.

    `flat` are the axes of one entry that results do not have in the end. The file is
    deleted if something goes wrong.
    """
    own = tuple(n for axis, n in enumerate(shape) if axis not in flat)
    if out is None:
        yield None
    elif not own:
        raise DataError(
            "The 'out' parameter is for one value per row of points or evidence. This is a number."
        )
    elif isinstance(out, (str, PathLike)):
        if Path(out).suffix != ".npy":
            raise DataError(
                "The file that the 'out' parameter names is one for np.load, and must end in .npy. "
                f"Got {str(out)!r}."
            )
        mapped = np.lib.format.open_memmap(out, "w+", np.dtype(np.float64), own)
        try:
            yield np.expand_dims(mapped, flat)
            mapped.flush()
        except BaseException:
            Path(out).unlink()
            raise
    else:
        kind = getattr(out, "dtype", None)
        if not isinstance(out, np.ndarray) or kind != np.float64 or out.shape != own:
            raise DataError(
                f"The 'out' parameter must be a path, or a float64 array of shape {own}. Got "
                f"{type(out).__name__} of type {kind} and shape {getattr(out, 'shape', None)}."
            )
        if not out.flags.writeable:
            raise DataError(
                "The 'out' parameter is an array that is read-only. Give one that can be written "
                "to, such as np.empty(shape), or for a file mode='r+' in np.load."
            )
        yield np.expand_dims(out, flat)


def _sum_of_two(a: Scaled, b: Scaled, axis: int) -> Scaled:
    """The sum of values that have one entry along an axis."""
    if not a.data.any():
        return Scaled(b.data, np.zeros_like(a.data) if b.scale is None else b.scale)
    both = concatenated([a, b], axis)
    return Scaled(*contracted(both.data, both.scale, np.ones(2), axis))


def divided(values: Scaled, logs: list[Any], at: Place) -> Scaled:
    """Some of the values, divided by the probabilities of evidence, which are given as logs."""
    data, scale = values.data, values.scale
    xp = namespace(data)
    for axis, shift in enumerate(logs):
        if shift is not None:
            shape = tuple(-1 if i == axis else 1 for i in range(data.ndim))
            shift = xp.reshape(as_like(shift, data)[at[axis]], shape)
            scale = xp.broadcast_to(-shift, data.shape) if scale is None else scale - shift
    return Scaled(data, scale)


def weighted_sums(values: Scaled, weights: list[Any], at: Place) -> Scaled:
    """Some of the values, summed over weighted points."""
    data, scale = values.data, values.scale
    for axis, share in enumerate(weights):
        if share is not None:
            data, scale = contracted(data, scale, as_like(share[at[axis]], data), axis)
    return Scaled(data, scale)


def contracted(data: Any, scale: Any, share: Any, axis: int) -> tuple[Any, Any]:
    """The weighted sum along an axis."""
    xp = namespace(data)
    if scale is not None:
        size = safe_log(xp.abs(detach(data))) + detach(scale)
        top = xp.max(size, axis=axis, keepdims=True)
        top = xp.where(top > -inf, top, xp.zeros_like(top))
        data = _times_exp(data, scale - top)
        scale = top
    if axis == 0:
        return xp.matmul(share[None, :], data), scale
    return xp.matmul(data, share[:, None]), scale
