"""Wide numbers: mantissas beside binary exponents, for blocks whose numbers leave doubles.

Powers of two scale doubles exactly, so a block made by way of wide numbers holds the very numbers
that plain arithmetic gives wherever that stays in range. Where it does not, see `ranges`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

LOG_2 = log(2.0)
MILD = 1000
"""Powers of numbers between 2^-MILD and 2^MILD, if they are so too, are taken plainly."""
LOWEST = -(2**40)
"""Stands for the exponent of zero."""
FAR = 4000
"""Exponents beyond this mean zero or infinity in any case."""

Scale = Any
"""Binary exponents that the units of a block are short of, or None: all zero."""


@dataclass(frozen=True, eq=False)
class Wide:
    """Numbers of any size.

    Attributes
    ----------
    mantissa : array
        Zero, or of absolute value in [1/2, 1).
    exponent : int array
        What power of two the mantissas are multiplied with.
    """

    mantissa: Any
    exponent: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.mantissa.shape

    def __getitem__(self, chosen: Any) -> Wide:
        return Wide(self.mantissa[chosen], self.exponent[chosen])

    def __setitem__(self, chosen: Any, numbers: Wide) -> None:
        self.mantissa[chosen], self.exponent[chosen] = numbers.mantissa, numbers.exponent

    def followed_by(self, other: Wide) -> Wide:
        """The numbers, and then those of another array."""
        parts = ((self.mantissa, other.mantissa), (self.exponent, other.exponent))
        return Wide(*(np.concatenate(part) for part in parts))

    def shifted(self, exponents: Any) -> Wide:
        """The numbers times powers of two."""
        return Wide(self.mantissa, self.exponent + exponents)

    def __mul__(self, other: Wide) -> Wide:
        mantissa, shift = np.frexp(self.mantissa * other.mantissa)
        return Wide(mantissa, self.exponent + other.exponent + shift)

    def __truediv__(self, other: Wide) -> Wide:
        """The quotients; what is divided by zero becomes zero."""
        some = other.mantissa != 0
        ratio = np.where(some, self.mantissa, 0.0) / np.where(some, other.mantissa, 1.0)
        mantissa, shift = np.frexp(ratio)
        return Wide(mantissa, np.where(some, self.exponent - other.exponent + shift, 0))

    def __pow__(self, alpha: float) -> Wide:
        """The power of the numbers that are not zero; they must be positive."""
        positive = self.mantissa != 0
        bits = self.exponent + np.log2(np.where(positive, self.mantissa, 1.0))
        with np.errstate(over="ignore"):
            power = np.clip(alpha * bits, LOWEST / 2, -LOWEST / 2)
        # plain powers are the most precise, above all those of one
        mild = positive & (np.abs(bits) <= MILD) & (np.abs(power) <= MILD)
        base = as_plain(Wide(np.where(mild, self.mantissa, 1.0), np.where(mild, self.exponent, 0)))
        whole = np.where(mild, 0.0, np.floor(power))
        mantissa = np.where(mild, base**alpha, np.exp2(np.where(mild, 0.0, power - whole)))
        mantissa, shift = np.frexp(np.where(positive, mantissa, 0.0))
        return Wide(mantissa, np.where(positive, whole.astype(np.int64) + shift, 0))


def wide(numbers: Any) -> Wide:
    """Plain numbers as wide ones."""
    mantissa, exponent = np.frexp(np.asarray(numbers, dtype=np.float64))
    return Wide(mantissa, exponent.astype(np.int64))


def wide_exp(logs: Any) -> Wide:
    """The exponentials of natural logarithms; -inf gives zero."""
    finite = logs > -np.inf
    safe = np.where(finite, logs, 0.0)
    whole = np.floor(safe / LOG_2)
    mantissa, shift = np.frexp(np.where(finite, np.exp(safe - whole * LOG_2), 0.0))
    return Wide(mantissa, whole.astype(np.int64) + shift)


def logs_of(numbers: Wide) -> Any:
    """The natural logarithms of numbers that are not negative."""
    with np.errstate(divide="ignore"):
        return np.log(numbers.mantissa) + numbers.exponent * LOG_2


def tops(numbers: Wide, starts: Any) -> Any:
    """The largest exponent of every run of numbers, zero for runs of zeros.

    The numbers of run i are those from `starts[i]` to `starts[i + 1]`.
    """
    top = np.zeros((len(starts) - 1, *numbers.shape[1:]), dtype=np.int64)
    filled = np.flatnonzero(np.diff(starts))
    if len(filled):
        exponent = np.where(numbers.mantissa != 0, numbers.exponent, LOWEST)
        top[filled] = np.maximum.reduceat(exponent, starts[filled])
    return np.where(top == LOWEST, 0, top)


def sums(numbers: Wide, starts: Any) -> Wide:
    """The sum of every run of numbers."""
    top = tops(numbers, starts)
    total = np.zeros(top.shape)
    filled = np.flatnonzero(np.diff(starts))
    if len(filled):
        plain = as_plain(numbers.shifted(-np.repeat(top, np.diff(starts), axis=0)))
        total[filled] = np.add.reduceat(plain, starts[filled])
    mantissa, shift = np.frexp(total)
    return Wide(mantissa, top + shift)


def as_plain(numbers: Wide) -> Any:
    """The numbers as doubles: zero or infinite where these do not reach."""
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(numbers.mantissa, np.clip(numbers.exponent, -FAR, FAR).astype(np.int32))


def is_plain(numbers: Wide) -> bool:
    """Whether all numbers are doubles, to the last digit."""
    back = wide(as_plain(numbers))
    same = (back.mantissa == numbers.mantissa) & (back.exponent == numbers.exponent)
    return bool((same | (numbers.mantissa == 0)).all())


def runs(starts: Any, counts: Any) -> tuple[Any, Any]:
    """The numbers and entries of runs: run i has `counts[i]` entries from `starts[i]` on."""
    run = np.repeat(np.arange(len(counts)), counts)
    shift = starts - (np.cumsum(counts) - counts)
    return run, np.arange(len(run)) + shift[run]


def mixed(block: Any, numbers: Wide, units: Any, weights: Wide, starts: Any) -> tuple[Any, Wide]:
    """The block of weighted sums of the units of another (with these numbers), and its numbers.

    Sum i takes the units and weights from `starts[i]` to `starts[i + 1]`.
    """
    first = block.flat[1]
    place, entry = runs(first[units], np.diff(first)[units])
    terms = weights[place] * numbers[entry]
    n = len(starts) - 1
    key = np.repeat(np.arange(n), np.diff(starts))[place] * block.width + block.columns[entry]
    order = np.argsort(key, kind="stable")
    distinct, begins = np.unique(key[order], return_index=True)
    found = sums(terms[order], np.append(begins, len(key)))
    new, at = block.entered(n, distinct)
    full = wide(np.zeros(len(new.flat[0])))
    full.mantissa[at], full.exponent[at] = found.mantissa, found.exponent
    return new, full
