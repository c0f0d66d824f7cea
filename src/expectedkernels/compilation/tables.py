"""Products and sums of tables with many short axes, in plain numbers where these have the range."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, prod
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

LOWEST = -600.0
"""Products whose logarithms may lie below this are made in logarithms: doubles end near -708."""
SMALL = 2**11
"""Tables up to this size are left to NumPy as they are."""
SHORT = 16
"""Loops of NumPy over fewer numbers than this cost more than the numbers."""
LOOPS = 200
"""A loop of Python takes about as long as so many loops of NumPy."""


class Scaled(NamedTuple):
    """Numbers between zero and one, or their logarithms.

    Attributes
    ----------
    data : array
    low : float
        A lower bound of the logarithms of those that are not zero.
    is_log : bool
    """

    data: Any
    low: float
    is_log: bool = False

    @property
    def logs(self) -> Any:
        """The logarithms."""
        if self.is_log:
            return self.data
        with np.errstate(divide="ignore"):
            return np.log(self.data)

    @property
    def numbers(self) -> Any:
        """The numbers themselves, zero where they are too small for doubles."""
        return np.exp(self.data) if self.is_log else self.data

    def shaped(self, shape: Sequence[int]) -> Scaled:
        """The same numbers in another shape."""
        return Scaled(self.data.reshape(shape), self.low, self.is_log)

    def tightened(self) -> Scaled:
        """The same numbers with the largest lower bound."""
        if self.is_log:
            return scaled_logs(self.data)
        positive = self.data[self.data > 0]
        return Scaled(self.data, log(positive.min()) if positive.size else 0.0)


def scaled_logs(logs: Any) -> Scaled:
    """The numbers with these logarithms, none above zero: plain ones if they have the range."""
    finite = logs[logs > -np.inf]
    low = float(finite.min()) if finite.size else 0.0
    return Scaled(logs, low, True) if low < LOWEST else Scaled(np.exp(logs), low)


def scaled(table: Any) -> tuple[Scaled, float]:
    """A table of numbers that are not negative over its largest one, and the log of that."""
    if table.size <= SHORT:  # lists are faster
        positive = [x for x in table.reshape(-1).tolist() if x > 0.0]
        top, low = max(positive, default=0.0), min(positive, default=0.0)
    else:
        top, low = float(table.max()), float(table.min())
        if low == 0.0 < top:
            low = float(table[table > 0].min())
    if top == 0.0:
        return Scaled(table, 0.0), -np.inf
    bound = log(low) - log(top)
    if bound < LOWEST:
        with np.errstate(divide="ignore"):
            return Scaled(np.log(table) - log(top), bound, True), log(top)
    return Scaled(table if top == 1.0 else table / top, bound), log(top)


def rescaled(numbers: Scaled) -> tuple[Scaled, float]:
    """Numbers over their largest one, and the log of that."""
    if not numbers.is_log:
        return scaled(numbers.data)
    top = float(numbers.data.max())
    return (numbers if top == -np.inf else scaled_logs(numbers.data - top)), top


def product(parts: Sequence[Scaled], shape: Sequence[int]) -> Scaled:
    """The product of tables with an axis of length one for whatever they do not depend on.

    Examples
    --------
    >>> a, b = Scaled(np.array([[0.5], [1.0]]), -1.0), Scaled(np.array([[1.0, 0.5, 0.25]]), -2.0)
    >>> product([a, b], (2, 3)).data.tolist()
    [[0.5, 0.25, 0.125], [1.0, 0.5, 0.25]]
    """
    shape = tuple(shape)
    if not parts:
        return Scaled(np.ones(shape), 0.0)
    low = sum([part.low for part in parts])
    if low < LOWEST:
        parts = [part.tightened() for part in parts]
        low = sum([part.low for part in parts])
    in_logs = low < LOWEST or True in [part.is_log for part in parts]
    arrays = [part.logs if in_logs else part.data for part in parts]
    arrays.sort(key=attrgetter("size"))
    total = arrays[0]
    for array in arrays[1:]:  # the small ones with each other, before they meet the largest
        total = _combined(np.add if in_logs else np.multiply, total, array)
    if total.shape != shape:
        total = np.broadcast_to(total, shape)
    return Scaled(total, low, in_logs)


def times(a: Any, b: Any) -> Any:
    """The product of two arrays of as many axes, those of length one spread out."""
    return _combined(np.multiply, a, b)


def _combined(operate: Any, a: Any, b: Any) -> Any:
    """An operation on two arrays whose axes of length one are spread out."""
    if a.size * b.size <= SMALL:
        return operate(a, b)
    shape = tuple(map(max, a.shape, b.shape))
    if prod(shape) <= SMALL:
        return operate(a, b)
    kinds = [(m > 1, n > 1) for m, n in zip(a.shape, b.shape, strict=True)]
    groups = _groups(kinds, shape)
    out = np.empty([n for _, n in groups])
    first, second = (
        array.reshape([n if kind[side] else 1 for kind, n in groups])
        for side, array in enumerate((a, b))
    )
    _write(operate, first, second, out)
    return out.reshape(shape)


def _groups(kinds: Sequence[Any], shape: Sequence[int]) -> list[tuple[Any, int]]:
    """Neighbouring axes of one kind taken together, with their lengths; those of length one go."""
    groups: list[tuple[Any, int]] = []
    for kind, n in zip(kinds, shape, strict=True):
        if n == 1:
            continue
        if groups and groups[-1][0] == kind:
            groups[-1] = (kind, groups[-1][1] * n)
        else:
            groups.append((kind, n))
    return groups


def _falls_apart(shape: tuple[int, ...]) -> bool:
    """Whether loops along all axes but the last are faster: few of them, and long."""
    n = shape[-1]
    return len(shape) > 1 and n < SHORT and prod(shape) > LOOPS * n * n


def _write(operate: Any, a: Any, b: Any, out: Any) -> None:
    """Operate on arrays with axes of length one; last axes that are short are taken apart."""
    if not _falls_apart(out.shape):
        operate(a, b, out=out)
        return
    for i in range(out.shape[-1]):
        one, other = (x[..., i if x.shape[-1] > 1 else 0] for x in (a, b))
        _write(operate, one, other, out[..., i])


def summed(table: Any, kept: Sequence[bool]) -> Any:
    """The sum over all axes that are not kept.

    Examples
    --------
    >>> summed(np.arange(6.0).reshape(2, 3), [True, False]).tolist()
    [3.0, 12.0]
    """
    if table.size <= SMALL:
        return np.add.reduce(table, axis=tuple([i for i, keep in enumerate(kept) if not keep]))
    groups = _groups(kept, table.shape)
    found = _sum(table.reshape([n for _, n in groups]), [keep for keep, _ in groups])
    return found.reshape([n for n, keep in zip(table.shape, kept, strict=True) if keep])


def _sum(table: Any, kept: list[bool]) -> Any:
    """The sum over axes that are not kept; last axes that are short are taken apart."""
    if not _falls_apart(table.shape):
        return table.sum(axis=tuple(axis for axis, keep in enumerate(kept) if not keep))
    parts = (_sum(table[..., i], kept[:-1]) for i in range(table.shape[-1]))
    if kept[-1]:
        return np.stack(list(parts), axis=-1)
    total = next(parts)
    for part in parts:
        total = total + part
    return total
