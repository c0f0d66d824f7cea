"""Factors: tables over a few discrete variables each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from expectedkernels.arrays import Array, NumbersLike
from expectedkernels.errors import CircuitError


class Factor:
    """A table of non-negative numbers over some variables.

    Parameters
    ----------
    scope : sequence of int
        The variables, each at most once, in the order of the axes of the table. An empty scope
        makes a constant.
    table : array
        One axis per variable.

    Raises
    ------
    CircuitError
        If a variable is repeated, or the table is not one of finite, non-negative numbers with one
        axis per variable.

    Examples
    --------
    >>> Factor([0, 2], [[1.0, 2.0], [3.0, 4.0]])
    <Factor of variables (0, 2), shape (2, 2)>
    """

    scope: tuple[int, ...]
    table: Array

    def __init__(self, scope: Sequence[int], table: NumbersLike):
        self.scope = tuple(integers(scope, "The scope of a factor"))
        shown = f"scope {self.scope}"
        if len(set(self.scope)) != len(self.scope):
            repeated = next(v for v in self.scope if self.scope.count(v) > 1)
            raise CircuitError(
                f"A factor names each of its variables once. Variable {repeated} is repeated in "
                f"{shown}; take the diagonal of the table instead."
            )
        try:
            values = np.array(table, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise CircuitError(
                f"The table of a factor must be an array of numbers. NumPy says for {shown}: "
                f"{error}"
            ) from error
        if values.ndim != len(self.scope):
            raise CircuitError(
                f"The table of a factor has one axis per variable. Got {values.ndim} axes for "
                f"{shown}."
            )
        if not (np.isfinite(values).all() and (values >= 0).all()):
            bad = values[~(np.isfinite(values) & (values >= 0))].flat[0]
            raise CircuitError(
                f"The entries of a factor must be finite and not negative. Got {bad} in the table "
                f"with {shown}."
            )
        values.flags.writeable = False
        self.table = values

    def __repr__(self) -> str:
        return f"<Factor of variables {self.scope}, shape {self.table.shape}>"


def as_factor(given: Any) -> Factor:
    """A factor, or a pair of a scope and a table as one."""
    if isinstance(given, Factor):
        return given
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise CircuitError(
            "The factors of a factor graph are Factors, or pairs of a scope and a table. "
            f"Got {type(given).__name__} instead."
        )
    return Factor(*given)


def plugged(factor: Factor, values: Mapping[int, int]) -> Factor:
    """The factor with some of its variables observed."""
    if not any(v in values for v in factor.scope):
        return factor
    index = tuple(values.get(v, slice(None)) for v in factor.scope)
    return Factor([v for v in factor.scope if v not in values], factor.table[index])


def integers(numbers: Any, what: str) -> list[int]:
    """A sequence of ints, checked."""
    if not np.iterable(numbers):
        raise CircuitError(f"{what} must be a sequence of ints. Got {numbers!r} instead.")
    found = list(numbers)
    for number in found:
        if isinstance(number, (bool, np.bool_)) or not isinstance(number, (int, np.integer)):
            raise CircuitError(f"{what} must consist of ints. Got {number!r}.")
    return [int(number) for number in found]
