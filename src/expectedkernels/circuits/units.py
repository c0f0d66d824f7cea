"""Units to write circuits with: `Sum`, `Product`, and the families of input units."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from expectedkernels.checks import is_int
from expectedkernels.circuits.graph import (
    Array,
    Leaf,
    Product,
    Sum,
    Unit,
    checked_vector,
    set_attributes,
    topological,
)
from expectedkernels.circuits.graph_queries import draw_positions
from expectedkernels.errors import CircuitError

__all__ = ["Categorical", "Gaussian", "Indicator", "Product", "Sum", "Unit", "topological"]

MAX_VARIABLES = 2**20
"""Variables are numbered below this (a scope is stored as an integer with one bit for each)."""


class _Discrete(Leaf):
    """An input unit of a discrete variable, with a value for every state."""

    probs: Array

    @property
    def cardinality(self) -> int:
        return len(self.probs)

    @property
    def least_value(self) -> float:
        return float(self.probs.min())

    def log_values(self, column: Array) -> tuple[Array, Array]:
        scale = np.abs(self.probs).max() or 1.0
        values = self.probs / scale  # so that the total of large values does not overflow
        values = np.append(values, values.sum())
        with np.errstate(divide="ignore"):
            return (np.log(np.abs(values)) + np.log(scale))[column], np.sign(values)[column]

    def draw(self, n: int, generator: np.random.Generator) -> Array:
        return draw_positions(self.probs / self.probs.max(), n, generator).astype(float)


@dataclass(frozen=True, eq=False, init=False)
class Categorical(_Discrete):
    """A table with one value per state of a discrete variable.

    Parameters
    ----------
    variable : int
        The variable, from 0.
    probs : sequence of float
        The values for states 0, 1, ...; finite, not necessarily normalised or positive.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> ek.Categorical(0, [0.2, 0.8]).cardinality
    2
    """

    variable: int
    probs: Array

    def __init__(self, variable: int, probs: ArrayLike):
        array = checked_vector(probs, "probs", "Categorical")
        set_attributes(self, variable=_checked_variable(variable, "Categorical"), probs=array)


@dataclass(frozen=True, eq=False, init=False)
class Indicator(_Discrete):
    """One at one state of a discrete variable, zero at the others.

    Parameters
    ----------
    variable : int
        The variable, from 0.
    value : int
        The state, from 0.
    card : int
        The number of states of the variable.

    Raises
    ------
    CircuitError
        If there is no such state.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> ek.Indicator(0, 1, 3).probs.tolist()
    [0.0, 1.0, 0.0]
    """

    variable: int
    value: int
    card: int

    def __init__(self, variable: int, value: int, card: int):
        if not is_int(card) or card < 1:
            raise CircuitError(f"The 'card' of Indicator must be a positive int. Got {card!r}.")
        if not is_int(value) or not 0 <= value < card:
            raise CircuitError(
                f"The 'value' of Indicator must be an int in the range [0, {card}). "
                f"Got {value!r} instead."
            )
        checked = _checked_variable(variable, "Indicator")
        set_attributes(self, variable=checked, value=int(value), card=int(card))

    @property
    def cardinality(self) -> int:
        """The number of states, told without the table."""
        return self.card

    @cached_property
    def probs(self) -> Array:  # type: ignore[override]
        """The one-hot table."""
        table: Array = np.eye(1, self.card, self.value)[0]
        return table


@dataclass(frozen=True, eq=False, init=False)
class Gaussian(Leaf):
    """The normal density of a real variable.

    Parameters
    ----------
    variable : int
        The variable, from 0.
    mean : float
        The mean.
    variance : float
        The variance, positive.

    Raises
    ------
    CircuitError
        If a parameter is not finite, or the variance is not positive.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> round(float(np.exp(ek.Gaussian(0, 0.0, 1.0).log_likelihood([[0.0]])[0])), 4)
    0.3989
    """

    variable: int
    mean: float
    variance: float

    def __init__(self, variable: int, mean: float, variance: float):
        if not _is_real(mean) or not np.isfinite(mean):
            raise CircuitError(f"The 'mean' of Gaussian must be a finite float. Got {mean!r}.")
        if not _is_real(variance) or not 0 < variance < np.inf:
            raise CircuitError(
                "The 'variance' of Gaussian must be a float in the range (0, inf). "
                f"Got {variance!r} instead."
            )
        checked = _checked_variable(variable, "Gaussian")
        set_attributes(self, variable=checked, mean=float(mean), variance=float(variance))

    @property
    def cardinality(self) -> None:
        """None: the variable is real."""
        return None

    @property
    def least_value(self) -> float:
        """Zero: densities are not negative."""
        return 0.0

    def log_values(self, column: Array) -> tuple[Array, Array]:
        """The log-density at each entry, 0 where it is missing, and signs of one."""
        with np.errstate(over="ignore"):  # the log-density of a remote value is -inf
            square = (column - self.mean) ** 2 / self.variance
        log = -0.5 * (square + np.log(2 * np.pi * self.variance))
        return np.where(np.isnan(column), 0.0, log), np.ones(len(column))

    def draw(self, n: int, generator: np.random.Generator) -> Array:
        """Samples from the normal distribution."""
        return generator.normal(self.mean, np.sqrt(self.variance), size=n)


def _checked_variable(variable: int, owner: str) -> int:
    if not is_int(variable) or not 0 <= variable < MAX_VARIABLES:
        raise CircuitError(
            f"The 'variable' of {owner} must be an int in the range [0, {MAX_VARIABLES}). "
            f"Got {variable!r} instead."
        )
    return int(variable)


def _is_real(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
