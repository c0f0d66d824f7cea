"""Numbers beyond the range of doubles: mantissas beside log-scales, or logarithms and signs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, pi, prod
from typing import Any

import numpy as np

from expectedkernels.arrays import as_like, detach, namespace, numbers
from expectedkernels.checks import KernelError
from expectedkernels.engine.layers import EXPONENTS

Place = tuple[slice, ...]
"""Some rows along every axis of an array."""
LOWEST = 220.0
"""How far below zero the logs of factors may be: three of them multiply."""


@dataclass(slots=True, eq=False)
class ScaledArray:
    """Values as mantissas and log-scales: results, or the values of the units of one node.

    Attributes
    ----------
    data : array
        Plain numbers, or logarithms: complex ones (see `signed_logs`) if some value is negative.
        At a node of shape (units of every operand, patterns of every batch).
    scale : array, or None
        What to add to the logs of plain numbers; at a node one for all of its units.
    low, high : float
        Bounds of the logs of plain numbers that are not zero, where these are known.
    """

    data: Any
    scale: Any = None
    low: float = 0.0
    high: float = 0.0

    def mapped(self, change: Callable[[Any], Any]) -> ScaledArray:
        """Mantissas and scales with their entries elsewhere."""
        scale = None if self.scale is None else change(self.scale)
        return ScaledArray(change(self.data), scale, self.low, self.high)

    def linear(
        self,
        what: str = "The expected kernel",
        advice: str = "Ask for its logarithm with log=True.",
    ) -> Any:
        """The plain numbers; raises (and says what they are, and what to do) if one is infinite."""
        if self.scale is None:
            return self.data
        with np.errstate(over="ignore"):
            values = times_exp(self.data, self.scale)
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
        return self.logs()[0]

    def logs(self) -> tuple[Any, Any]:
        """The logs of the absolute values, and the signs of the values."""
        xp = namespace(self.data)
        logs = safe_log(xp.abs(self.data)) + (0.0 if self.scale is None else self.scale)
        return logs, xp.where(logs > -inf, xp.sign(self.data), xp.zeros_like(logs))


def times_exp(data: Any, logs: Any) -> Any:
    """The product data * exp(logs), in two steps: the exponentials alone may be out of range.

    Zeros have logs too, which say nothing and may be of any size: zero they stay. Where their logs
    are in range they are used, for the sake of gradients.
    """
    xp = namespace(data)
    bound = xp.full_like(logs, 2.0 * EXPONENTS)
    half = xp.exp(0.5 * xp.where((data != 0) | (logs < bound), logs, bound))
    return data * half * half


def added(total: ScaledArray, more: ScaledArray) -> ScaledArray:
    """The sums of values that have scales and others that may have none."""
    xp = namespace(total.data)
    scales = total.scale, xp.zeros_like(more.data) if more.scale is None else more.scale
    parts = (xp.stack(x) for x in ((total.data, more.data), scales))
    ones = as_like(np.ones(2), total.data)
    return contracted(ScaledArray(*parts), ones, 0).mapped(lambda x: x[0, ...])


def divided(values: ScaledArray, logs: Sequence[Any], at: Place) -> ScaledArray:
    """Some of the values, divided by the probabilities of evidence, which are given as logs."""
    data, scale = values.data, values.scale
    xp = namespace(data)
    for axis, shift in enumerate(logs):
        if shift is not None:
            shape = tuple(-1 if i == axis else 1 for i in range(data.ndim))
            shift = xp.reshape(as_like(shift, data)[at[axis]], shape)
            scale = xp.broadcast_to(-shift, data.shape) if scale is None else scale - shift
    return ScaledArray(data, scale)


def contracted(values: ScaledArray, weights: Any, axis: int) -> ScaledArray:
    """The weighted sum along the first axis, or the second of two, which keep one entry."""
    data, scale, xp = values.data, values.scale, namespace(values.data)
    if scale is not None:
        size = safe_log(xp.abs(detach(data))) + detach(scale)
        top = xp.max(size, axis=axis, keepdims=True)
        top = xp.where(top > -inf, top, xp.zeros_like(top))
        data, scale = times_exp(data, scale - top), top
    if axis == 1:
        return ScaledArray(xp.matmul(data, weights[:, None]), scale)
    total = xp.matmul(weights[None, :], xp.reshape(data, (data.shape[0], -1)))
    return ScaledArray(xp.reshape(total, (1, *data.shape[1:])), scale)


@np.errstate(over="ignore")
def exponentials(logs: Any, mode: str, axis: Any = None) -> tuple[ScaledArray, bool]:
    """Exponentials of logs over the largest along axes, in range, and whether some were too small.

    In the mode "logs" they are what they are.
    """
    if mode == "logs" or not prod(logs.shape):
        return ScaledArray(logs), False
    xp, sizes = namespace(logs), detach(logs)
    top = xp.max(sizes, axis=axis, keepdims=True)
    top = xp.where(top > -inf, top, xp.zeros_like(top))

    def ends() -> list[Any]:
        away = xp.where(sizes > -inf, sizes - top, xp.zeros_like(sizes))
        return [xp.min(away), xp.min(top), xp.max(top)]

    low, least, most = numbers(xp, ends)
    if max(-least, most) - low <= LOWEST:
        return ScaledArray(xp.exp(logs), None, low + least, most), False
    logs = logs - top
    if low < -LOWEST:
        small = (sizes - top < -LOWEST) & (sizes > -inf)
        logs = xp.where(small, xp.full_like(logs, -LOWEST if mode == "floor" else -inf), logs)
    scale = xp.reshape(top, ()) if axis is None else xp.squeeze(top, axis=axis)
    return ScaledArray(xp.exp(logs), scale, max(low, -LOWEST), 0.0), low < -LOWEST


def signed_logs(x: Any) -> Any:
    """The logs of numbers: if some are negative, complex, with imaginary part pi for these.

    Examples
    --------
    >>> signed_logs(np.array([1.0, -1.0])).imag.round(6).tolist()
    [0.0, 3.141593]
    """
    xp = namespace(x)
    logs, negative = safe_log(xp.abs(x)), detach(x) < 0
    return logs + xp.astype(negative, x.dtype) * (1j * pi) if bool(negative.any()) else logs


def of_signed_logs(logs: Any) -> ScaledArray:
    """The numbers with such logs.

    Examples
    --------
    >>> of_signed_logs(signed_logs(np.array([2.0, 0.0, -3.0]))).linear().round(6).tolist()
    [2.0, 0.0, -3.0]
    """
    xp = namespace(logs)
    is_complex = "complex" in str(logs.dtype)
    sizes = logs.real if is_complex else logs
    zero, one = xp.zeros_like(sizes), xp.ones_like(sizes)
    sign = xp.where(xp.cos(logs.imag) < 0, -one, one) if is_complex else one
    return ScaledArray(xp.where(sizes > -inf, sign, zero), xp.where(sizes > -inf, sizes, zero))


def safe_log(x: Any) -> Any:
    """The log, -inf at zero without a warning."""
    xp = namespace(x)
    positive = x > 0
    return xp.where(positive, xp.log(xp.where(positive, x, xp.ones_like(x))), xp.full_like(x, -inf))
